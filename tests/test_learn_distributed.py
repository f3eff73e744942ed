"""Learning in two processes: equal bits on both, the result of one process that saw all data, agreement on what to refuse."""

import contextlib
import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from learn_worlds import PointMass
from surefoot.errors import InputError
from surefoot.learn import PPO, Learner, Map, Mirror, Rollout, load_run, minibatches, train
from surefoot.learn.checkpoint import load
from surefoot.learn.distributed import Alone, Group, fingerprint, joined, launch
from surefoot.learn.episodes import Ended
from surefoot.learn.rollout import Final

FLIP = Mirror(
    groups={"policy": Map(index=[0, 1], sign=[-1, -1]), "critic": Map(index=[0, 1, 2], sign=[-1, -1, 1])},
    action=Map(index=[0], sign=[-1]),
)
SMALL = PPO(hidden=(16, 16), horizon=12, epochs=2, minibatches=4)
WORLDS, UPDATES = 12, 3
CASES = {
    "plain": (SMALL, None),
    "threads": (SMALL, None),
    "mirror": (PPO.from_dict({**SMALL.to_dict(), "both_sides": False}), FLIP),
    "memory": (PPO.from_dict({**SMALL.to_dict(), "memory": 5, "critic_memory": 4}), None),
}


def rolled(learner: Learner, world, rollout: Rollout | None = None) -> Rollout:
    """A rollout of the learner's policy; the next one goes on from there."""
    if rollout is None:
        rollout = Rollout(learner.ppo.horizon, world.worlds, learner.policy, learner.critic)
        rollout.seen, rollout.begins[-1] = world.reset(), True
        rollout.memory = learner.policy.net.start(world.worlds) if learner.policy.memory else None
    rollout.begin(rollout.seen, rollout.begins[-1].clone(), rollout.memory)
    for t in range(rollout.steps):
        if rollout.memory is not None:
            rollout.memory[rollout.begins[t]] = 0.0
        action, mean, rollout.memory = learner.policy.act(rollout.actor[t], rollout.memory, learner.noise)
        outcome = world.step(action)
        rollout.record(t, action, mean, outcome)
        rollout.seen = outcome.observations
    return rollout


@contextlib.contextmanager
def told(plan):
    """Minibatches as `plan(ppo, n, device)` says instead of drawn ones."""
    as_drawn = minibatches.cut

    def as_planned(ppo: PPO, drawn: minibatches.Drawn, device, *, mirrored: bool = False):
        n = len(drawn.orders[0])
        for where, rows in plan(ppo, n, device):
            yield minibatches.Minibatch(where, torch.cat([rows, rows + n]) if mirrored else rows, len(rows))

    minibatches.cut = as_planned
    try:
        yield
    finally:
        minibatches.cut = as_drawn


def in_order(ppo: PPO, n: int, device) -> list:
    """Row after row, in every epoch."""
    m, rows = ppo.minibatches, torch.arange(n, device=device)
    return [(f"{k}", rows[n * k // m : n * (k + 1) // m]) for _ in range(ppo.epochs) for k in range(m)]


def of_both(worlds: list[int], kept: torch.Tensor):
    """The minibatches that ranks with these numbers of `worlds` take `in_order`, as rows of one rollout with all of them."""

    def plan(ppo: PPO, n: int, device) -> list:
        place = torch.full(kept.shape, -1)
        place[kept] = torch.arange(n)
        halves = [part[part >= 0] for part in place.split(worlds, 1)]
        plans = [in_order(ppo, len(half), device) for half in halves]
        return [
            (pair[0][0], torch.cat([half[rows] for half, (_, rows) in zip(halves, pair, strict=True)]))
            for pair in zip(*plans, strict=True)
        ]

    return plan


def state(learner: Learner, refused=()) -> dict[str, np.ndarray]:
    return learner.snapshot() | {"refused": np.array(len(refused)), "rate": np.array(learner.rate.value)}


def worker(group: Group, folder: Path) -> None:
    """Everything two processes are asked to do here; what they found goes to files."""

    def keep(name: str, arrays: dict) -> None:
        np.savez(folder / f"{name}_{group.rank}.npz", **arrays)

    for name, (ppo, mirror) in CASES.items():
        world = PointMass(WORLDS + group.rank, seed=group.seed(3))
        learner = Learner(ppo, world.widths, 1, seed=5, mirror=mirror, group=group)
        rollout, refused, numbers = None, [], []
        for number in range(UPDATES):
            rollout = rolled(learner, world, rollout)
            weights = (1.0 + rollout.reward.abs()) if name == "mirror" else None
            update = learner.update(rollout, weights=weights, threads=2 if name == "threads" else 1)
            refused += update.refused
            numbers.append(list(update.numbers.values()))
            keep(f"{name}{number}", state(learner))
        keep(name, state(learner, refused) | {"numbers": np.array(numbers)})
    whole(group, folder)
    broken(group, keep)
    keep("goal", goal(group))
    keep("kinds", kinds(group))


def whole(group: Group, folder: Path) -> None:
    """Two updates on planted rollouts, which the test's own process gets as one."""
    for name, minibatch, mirror in (("whole", 4, None), ("whole_mirror", 1, FLIP)):
        ppo = PPO.from_dict({**SMALL.to_dict(), "minibatches": minibatch})
        world = PointMass(WORLDS + 3 * group.rank, seed=group.seed(3))
        learner = Learner(ppo, world.widths, 1, seed=5, mirror=mirror, group=group)
        rollout = rolled(learner, world)
        rollout.broken[2:4, 1 + group.rank] = True
        saved = {n: getattr(rollout, n).numpy() for n in ("actor", "critic", "action", "mean", "reward")}
        saved |= {n: getattr(rollout, n).numpy() for n in ("terminated", "truncated", "broken", "begins")}
        for number, (step, ids, inputs) in enumerate(rollout.finals):
            saved |= {f"final{number}_{n}": np.array(x) for n, x in (("step", step), ("ids", ids), ("inputs", inputs))}
        weights = 0.5 + rollout.reward.abs() + group.rank
        with told(in_order):
            for _ in range(2):
                numbers = learner.update(rollout, weights=weights, threads=1).numbers
        saved |= {f"learned/{n}": v for n, v in state(learner).items()} | {"weights": weights.numpy()}
        saved["numbers"] = np.array(list(numbers.values()))
        np.savez(folder / f"{name}_{group.rank}.npz", **saved)


def goal(group: Group) -> dict[str, np.ndarray]:
    """How far from the origin a mass is 30 steps after its start, before and after learning on two ranks."""
    ppo = PPO(hidden=(32, 32), horizon=16, rate_bounds=(1e-3, 3e-3), std=0.6)
    world = PointMass(32, seed=group.seed(0))
    learner = Learner(ppo, world.widths, 1, seed=0, group=group)
    before, rollout = score(learner.policy)["distance"], rolled(learner, world)
    learner.learn_statistics(rollout)
    for _ in range(25):
        rollout = rolled(learner, world, rollout)
        learner.update(rollout, threads=1)
    return {"before": np.array(before), "after": np.array(score(learner.policy)["distance"])}


def broken(group: Group, keep) -> None:
    """What goes wrong on rank 1 alone."""
    world = PointMass(WORLDS, seed=group.seed(3))
    learner = Learner(SMALL, world.widths, 1, seed=5, group=group)
    rollout = rolled(learner, world)
    good = learner.update(rollout, threads=2)
    if group.rank == 1:
        rollout.action[3, 4] = torch.nan
    policy = learner.update(rollout, threads=2)
    rollout = rolled(learner, world, rollout)
    if group.rank == 1:
        rollout.reward[:, 2] = torch.inf
    returns = learner.update(rollout, threads=1)
    rollout = rolled(learner, world, rollout)
    if group.rank == 1:
        rollout.broken[:] = True
    gone = learner.update(rollout, threads=1)
    steps = learner.actor_adam.t
    rollout.broken[:] = True
    nothing = learner.update(rollout, threads=1)
    refused = {"good": good, "policy": policy, "returns": returns, "gone": gone, "nothing": nothing}
    refused = {name: np.array(update.refused, dtype=str) for name, update in refused.items()}
    try:
        rolled(learner, world, rollout)
        learner.update(rollout, weights=torch.full((WORLDS,), -1.0 * group.rank), threads=1)
        refused["weights"] = np.array("")
    except InputError as error:
        refused["weights"] = np.array(str(error))
    learner.policy.net.weights[3] += 1e-6 * group.rank
    try:
        learner.update(rollout, threads=1)
    except RuntimeError as error:
        refused["drift"] = np.array(str(error))
    try:
        Learner(SMALL, world.widths, 1, seed=group.rank, group=group)
    except InputError as error:
        refused["settings"] = np.array(str(error))
    keep("broken", state(learner) | {f"why/{n}": x for n, x in refused.items()} | {"steps": np.array(steps)})


def kinds(group: Group) -> dict[str, np.ndarray]:
    """What a group can do besides."""
    k = 2 * group.rank  # episodes ended on this rank
    ended = Ended(
        world=np.arange(k), score=np.full(k, 1.5), length=np.full(k, 7.0), success=np.full(k, np.nan),
        e={"m": np.arange(k) + 0.5} if k else {},
    )  # fmt: skip
    both = group.all_ended(ended, 10)
    numbers = group.all_numbers({"return": [np.nan, 4.0][group.rank], "episodes": 3, "x": group.rank, "none": np.nan})
    return {
        "world": both.world, "e": both.e["m"], "score": both.score, "numbers": np.array(list(numbers.values())),
        "told": np.array(group.tell([group.rank + 7.0, 0.5])), "sum": np.array(group.sum(group.rank + 1)),
        "words": np.array([m.decode() for m in group.gather_bytes(b"x" * group.rank)]),
    }  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What both ranks found: (name, rank) -> arrays."""
    folder = tmp_path_factory.mktemp("ranks")
    launch(functools.partial(worker, folder=folder), 2, "gloo")

    def read(name: str, rank: int) -> dict[str, np.ndarray]:
        with np.load(folder / f"{name}_{rank}.npz", allow_pickle=False) as file:
            return {key: file[key] for key in file.files}

    return read


def differing(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> set[str]:
    assert a.keys() == b.keys()
    return {name for name in a if a[name].tobytes() != b[name].tobytes()}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_after_every_update_both_ranks_hold_the_same_bits_of_all_that_is_shared(found, case):
    for number in range(UPDATES):
        a, b = (found(f"{case}{number}", rank) for rank in (0, 1))
        assert differing(a, b) == {"shuffle", "noise", *(["critic_memory"] if case == "memory" else [])}
    a, b = (found(case, rank) for rank in (0, 1))
    assert a["numbers"].tobytes() == b["numbers"].tobytes()
    assert a["actor_adam/t"] == UPDATES * 8
    first = found(f"{case}0", 0)
    assert not np.array_equal(a["policy/net.0.weight"], first["policy/net.0.weight"])
    rows = UPDATES * SMALL.horizon * (2 * WORLDS + 1) * (2 if case == "mirror" else 1)
    assert a["policy/normaliser.count"] == rows
    assert a["refused"] == 0


@pytest.mark.slow
def test_one_thread_and_two_give_the_same_bits_in_a_group(found):
    assert not differing(found("plain", 1), found("threads", 1))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "minibatch", "mirror"), [("whole", 4, None), ("whole_mirror", 1, FLIP)])
def test_two_ranks_learn_what_one_process_learns_from_both_halves(found, name, minibatch, mirror):
    parts = [found(name, rank) for rank in (0, 1)]
    counts = [part["action"].shape[1] for part in parts]
    ppo = PPO.from_dict({**SMALL.to_dict(), "minibatches": minibatch})
    learner = Learner(ppo, {"policy": 2, "critic": 3}, 1, seed=5, mirror=mirror)
    rollout = Rollout(ppo.horizon, sum(counts), learner.policy, learner.critic)
    for key in ("actor", "critic", "action", "mean", "reward", "terminated", "truncated", "broken", "begins"):
        getattr(rollout, key).copy_(torch.from_numpy(np.concatenate([part[key] for part in parts], 1)))
    for before, part in zip((0, counts[0]), parts, strict=True):
        for key in [key for key in part if key.endswith("_step")]:
            ids, inputs = (torch.from_numpy(part[key.replace("step", other)]) for other in ("ids", "inputs"))
            rollout.finals.append(Final(int(part[key]), ids + before, inputs))
    weights = torch.from_numpy(np.concatenate([part["weights"] for part in parts], 1))
    with told(of_both(counts, ~rollout.broken)):
        for _ in range(2):
            numbers = learner.update(rollout, weights=weights, threads=1).numbers
    alone = state(learner)
    for key, value in alone.items():
        if key.split("/")[-1] in ("shuffle", "noise", "about"):
            continue
        together = parts[0][f"learned/{key}"]
        assert np.allclose(together, value, rtol=2e-4, atol=2e-6), key
    assert np.allclose(parts[0]["numbers"], list(numbers.values()), rtol=1e-3, atol=1e-5)
    start = Learner(ppo, {"policy": 2, "critic": 3}, 1, seed=5).policy.net.weights
    moved = (learner.policy.net.weights - start).abs().max()
    apart = np.abs(parts[0]["learned/policy/net.0.weight"] - alone["policy/net.0.weight"]).max()
    assert apart < 1e-3 * moved


@pytest.mark.slow
def test_what_is_not_finite_on_one_rank_is_refused_by_both_and_they_stay_together(found):
    a, b = (found("broken", rank) for rank in (0, 1))
    for name in ("good", "policy", "returns", "gone", "nothing", "weights", "drift", "settings"):
        assert a[f"why/{name}"].tolist() == b[f"why/{name}"].tolist(), name
    assert a["why/good"].size == a["why/gone"].size == 0
    assert len(a["why/policy"]) == 2  # one minibatch of each epoch
    assert all(sentence.startswith("policy, epoch") for sentence in a["why/policy"])
    assert a["why/returns"][0].endswith("transitions: their returns are not finite")
    assert a["why/nothing"].tolist() == ["whole update: only 0 transitions of the rollout are sound"]
    assert "must be finite, not negative" in str(a["why/weights"])
    assert "no longer hold the same weights" in str(a["why/drift"])
    assert "different settings" in str(a["why/settings"])
    assert a["steps"] == b["steps"] == 4 * 8 - 2
    assert differing(a, b) == {"shuffle", "noise", "policy/net.0.weight"}  # the last one was pushed apart on purpose
    assert all(np.isfinite(a[name]).all() for name in a if name.startswith("policy/net") or name == "unit")


@pytest.mark.slow
def test_a_mass_learns_to_come_home_on_two_ranks(found):
    x = found("goal", 0)
    assert x["before"] > 0.8
    assert x["after"] < 0.25
    assert not differing(x, found("goal", 1))


@pytest.mark.slow
def test_ended_episodes_numbers_and_words_of_all_ranks_are_known_to_all(found):
    for rank in (0, 1):
        x = found("kinds", rank)
        assert x["world"].tolist() == [10, 11]
        assert x["e"].tolist() == [0.5, 1.5]
        assert x["score"].tolist() == [1.5, 1.5]
        assert x["numbers"][:3].tolist() == [4.0, 6.0, 0.5]
        assert np.isnan(x["numbers"][3])
        assert x["told"].tolist() == [7.0, 0.5]
        assert x["sum"] == 3
        assert x["words"].tolist() == ["", "x"]


def test_alone_is_a_group_of_one():
    alone = Alone()
    ended = Ended(world=np.arange(2), score=np.ones(2), length=np.ones(2), success=np.ones(2))
    assert (alone.rank, alone.size, alone.first, alone.seed(4), alone.sum(3)) == (0, 1, True, 4, 3)
    assert alone.tell([1, False]) == [1.0, 0.0]
    assert alone.all_ended(ended, 2) is ended
    assert alone.all_numbers({"x": 2}) == {"x": 2}
    assert alone.device("cpu") == torch.device("cpu")
    w = torch.randn(50)
    assert fingerprint(w) == fingerprint(w.flip(0)) != fingerprint(w + 1e-6)


# -------------------------------------------------------------------- joining and launching


def test_a_process_on_its_own_joins_nothing(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert joined() is None
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert joined() is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"WORLD_SIZE": "2"}, "RANK='' must be a whole number"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x' must be a whole number"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 is outside 0 .. 1"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}, "MASTER_PORT is not set"),
    ],
)
def test_a_wrong_environment_is_refused_by_name(monkeypatch, given, sentence):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=sentence):
        joined()


def fails(group: Group, kind: str, failing: int) -> None:
    """One rank fails while the others wait for it."""
    if group.rank == failing:
        raise InputError("planted sentence") if kind == "input" else ZeroDivisionError("planted division")
    group.wait()


def test_launch_refuses_what_it_cannot_do():
    with pytest.raises(InputError, match="at least 1"):
        launch(fails, 0)
    with pytest.raises(InputError, match="top of a module"):
        launch(lambda group: None, 2)
    with pytest.raises(InputError, match="'glue' is not a backend"):
        launch(fails, 2, "glue")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="nccl needs a GPU for each process"):
            launch(fails, 2, "nccl")


@pytest.mark.slow
def test_a_rank_that_fails_ends_the_others_and_says_why():
    with pytest.raises(RuntimeError, match=r"(?s)rank 1 of 2 failed.*planted division"):
        launch(functools.partial(fails, kind="other", failing=1), 2, "gloo")


@pytest.mark.slow
def test_a_mistake_of_the_users_leaves_launch_as_its_sentence():
    with pytest.raises(InputError, match=r"^planted sentence$"):
        launch(functools.partial(fails, kind="input", failing=0), 1, "gloo")


SCRIPT = """
import sys
from pathlib import Path
import torch
from surefoot.learn.distributed import RowMean, joined

def threads():
    return [name for name in (file.read_text() for file in Path("/proc/self/task").glob("*/comm")) if "gloo" in name]

group = joined("gloo")
mean = RowMean(group, torch.ones(3), 1)
mean(torch.ones(1), [1])
said = f"{group} {group.sum(group.rank + 1)} {len(threads()) > 0}"
group.close()
Path(sys.argv[1], f"rank{group.rank}").write_text(f"{said} {len(threads())}")
"""
"""Says whether gloo had threads, and how many are left after the group was closed while objects that used it still live."""


@pytest.mark.slow
def test_processes_of_torchrun_join(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*command, str(script), str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    threads = "True 0" if Path("/proc/self/task").exists() else "False 0"
    said = [(tmp_path / f"rank{rank}").read_text() for rank in (0, 1)]
    assert said == [f"Group(rank={rank}, size=2, backend=gloo) 3 {threads}" for rank in (0, 1)]


# -------------------------------------------------------------------- whole trainings

QUICK = PPO(hidden=(16,), horizon=8, epochs=2, minibatches=2, warmup=8, memory=4)
STEPS = 8 * 2 * 16  # of 16 worlds on each of two ranks, one update


def quiet(text: str) -> None:
    pass


def score(policy) -> dict[str, float]:
    """Mean |x| after 30 steps in fresh worlds."""
    world = PointMass(64, limit=1000, seed=77)
    act, seen = policy.play(), world.reset()
    for _ in range(30):
        seen = world.step(act(seen)).observations
    return {"distance": seen["policy"][:, 0].abs().mean().item()}


def trainer(group: Group, folder: Path) -> None:
    """A training that rank 0 stops, and one that is interrupted."""
    ppo = PPO(hidden=(32, 32), horizon=16, rate_bounds=(1e-3, 3e-3), std=0.6)
    asked = []

    def stop(record) -> bool:
        asked.append(record["steps"])
        return record.get("evaluate/distance", 9.0) < 0.5

    world = PointMass(32, seed=group.seed(0))
    run = train(
        world, ppo, run=folder / "goal", steps=100_000, evaluate=score, every=6_000, stop=stop, say=quiet, group=group
    )
    (folder / f"stopped{group.rank}").write_text(json.dumps([run.stopped, run.steps, len(asked)]))
    for name, updates in (("whole", 6), ("parts", 3), ("parts", 6)):
        world = PointMass(16, seed=group.seed(updates if name == "parts" and updates == 6 else 0))
        train(world, QUICK, run=folder / name, steps=updates * STEPS, say=quiet, group=group)
    with contextlib.suppress(InputError):
        if group.first:
            train(PointMass(16), QUICK, run=folder / "whole", steps=9 * STEPS, say=quiet)
            (folder / "went on").touch()


@pytest.mark.slow
def test_two_processes_train_until_rank_0_stops_and_resume_bit_for_bit(tmp_path):
    launch(functools.partial(trainer, folder=tmp_path), 2, "gloo")
    told_0, told_1 = (json.loads((tmp_path / f"stopped{rank}").read_text()) for rank in (0, 1))
    assert told_0[:2] == told_1[:2]
    assert told_0[0] == "stop"
    assert told_0[2] > 1
    assert told_1[2] == 0
    run = load_run(tmp_path / "goal")
    history = run.history()
    assert score(run.policy)["distance"] == history[-1]["evaluate/distance"] < 0.5
    assert history[-1]["steps"] == run.steps == len(history) * 16 * 64 + 16 * 64
    assert run.config["ranks"] == 2
    files = [{path.name for path in (tmp_path / name).glob("checkpoint*")} for name in ("whole", "parts")]
    assert files[0] == files[1] == {"checkpoint.npz", "checkpoint.rank1.update5.npz"}
    for name in files[0]:
        whole_, parts = (load(tmp_path / folder / name)[0] for folder in ("whole", "parts"))
        assert not differing(whole_, parts)
        assert ("learner/policy/about" in parts) == (name == "checkpoint.npz")
        assert "world/x" in parts
        assert "learner/noise" in parts
    assert not (tmp_path / "went on").exists()
