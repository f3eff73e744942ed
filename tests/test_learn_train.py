"""The training loop: it learns, it survives, it resumes bit for bit, and it writes everything down."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from learn_worlds import PointMass
from surefoot.errors import InputError
from surefoot.learn import PPO, Policy, load_run, read_events, train
from surefoot.learn.checkpoint import load, save
from surefoot.learn.events import crc32c, masked
from surefoot.learn.journal import Journal, read_journal
from surefoot.learn.progress import line

SMALL = PPO(hidden=(16,), horizon=8, epochs=2, minibatches=2, warmup=8)
STEPS = 8 * 16  # of 16 worlds, one update


def quiet(text: str) -> None:
    pass


def fall_into(run: Path) -> dict[str, np.ndarray]:
    """All arrays of a run's checkpoint."""
    return load(run / "checkpoint.npz")[0]


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def score(policy: Policy) -> dict[str, float]:
    """Mean |x| after 30 steps in fresh worlds."""
    world = PointMass(64, limit=1000, seed=77)
    act, seen = policy.play(), world.reset()
    for _ in range(30):
        seen = world.step(act(seen)).observations
    return {"distance": seen["policy"][:, 0].abs().mean().item()}


@pytest.mark.slow
def test_a_mass_learns_to_come_home(tmp_path):
    ppo = PPO(hidden=(32, 32), horizon=16, rate_bounds=(1e-3, 3e-3), std=0.6)
    run = train(PointMass(64), ppo, run=tmp_path, steps=50_000, evaluate=score, every=20_000, say=quiet)
    history = run.history()
    tested = [record["evaluate/distance"] for record in history if "evaluate/distance" in record]
    assert len(tested) == 3
    assert tested[-1] < 0.25
    assert history[-1]["success"] > 0.8
    assert history[-1]["return"] > history[5]["return"] + 5
    terms = sum(history[-1][f"term/{name}"] for name in ("near", "calm", "thrift"))
    assert terms == pytest.approx(history[-1]["return"] / history[-1]["length"], rel=0.15)
    shares = [history[-1][f"share/{name}"] for name in ("world", "act", "update", "rest")]
    assert sum(shares) == pytest.approx(1.0)
    assert run.stopped == "steps"
    assert score(load_run(tmp_path).policy)["distance"] == tested[-1]


@pytest.mark.parametrize(("memory", "integral"), [(0, 0.0), (6, 0.0), (0, 0.05)])
def test_a_resumed_run_gives_the_bits_of_one_never_interrupted(tmp_path, memory, integral):
    ppo = PPO.from_dict({**SMALL.to_dict(), "memory": memory, "critic_memory": memory, "integral": integral})
    train(PointMass(16), ppo, run=tmp_path / "whole", steps=8 * STEPS, say=quiet)
    for updates in (3, 4, 8):
        train(
            PointMass(16, seed=5), ppo, run=tmp_path / "parts", steps=updates * STEPS, say=quiet
        ) if updates > 3 else train(PointMass(16), ppo, run=tmp_path / "parts", steps=updates * STEPS, say=quiet)
    assert same(fall_into(tmp_path / "whole"), fall_into(tmp_path / "parts"))
    whole, parts = (read_journal(tmp_path / name) for name in ("whole", "parts"))
    clocks = ("seconds", "steps_per_second", "share/world", "share/act", "share/update", "share/rest")
    for a, b in zip(whole, parts, strict=True):
        assert {k: v for k, v in a.items() if k not in clocks} == {k: v for k, v in b.items() if k not in clocks}


CHILD = """
import sys, time
sys.path[:0] = [{tests!r}]
from learn_worlds import PointMass
from surefoot.learn import PPO, train
class Slow(PointMass):
    def step(self, action):
        time.sleep(float(sys.argv[2]))
        return super().step(action)
train(Slow(16), PPO(hidden=(16,), horizon=8, epochs=2, minibatches=2, warmup=8), run=sys.argv[1], steps={steps},
      save_every=0.0, say=lambda s: None)
"""


@pytest.mark.slow
def test_kill_minus_nine_at_any_moment_loses_nothing(tmp_path):
    code = CHILD.format(tests=str(Path(__file__).parent), steps=40 * STEPS)
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "whole"), "0"], check=True)
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "killed"), "0.01"])
        known = len(read_journal(tmp_path / "killed"))
        for _ in range(600):
            time.sleep(0.05)
            if len(read_journal(tmp_path / "killed")) > known + 5:
                break
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert 0 < load(tmp_path / "killed" / "checkpoint.npz")[1]["steps"] < 40 * STEPS
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "killed"), "0"], check=True)
    assert same(fall_into(tmp_path / "whole"), fall_into(tmp_path / "killed"))
    assert [r["steps"] for r in read_journal(tmp_path / "killed")] == [
        r["steps"] for r in read_journal(tmp_path / "whole")
    ]
    (events,) = (tmp_path / "killed").glob("events.out.tfevents.*")
    steps = [s.step for s in read_events(events) if s.tag == "return"]
    assert steps == sorted(set(steps))


def test_a_run_begun_before_a_setting_existed_is_resumed(tmp_path):
    train(PointMass(16), SMALL, run=tmp_path, steps=2 * STEPS, say=quiet)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    del config["ppo"]["integral"]
    file.write_text(json.dumps(config))
    assert train(PointMass(16), SMALL, run=tmp_path, steps=3 * STEPS, say=quiet).steps >= 3 * STEPS


def test_resuming_under_other_settings_is_refused_and_resume_false_begins_anew(tmp_path):
    train(PointMass(16), SMALL, run=tmp_path, steps=2 * STEPS, say=quiet)
    with pytest.raises(InputError, match=r"seed = 0, but 1 was given: choose another folder"):
        train(PointMass(16), SMALL, run=tmp_path, steps=2 * STEPS, seed=1, say=quiet)
    with pytest.raises(InputError, match=r"ppo.gamma = 0.99, but 0.9 was given"):
        train(PointMass(16), PPO.from_dict({**SMALL.to_dict(), "gamma": 0.9}), run=tmp_path, steps=9, say=quiet)
    train(PointMass(16), SMALL, run=tmp_path / "go2", steps=STEPS, about={"robot": "go2"}, say=quiet)
    with pytest.raises(InputError, match="holds a run of robot 'go2', but 'qube' was given"):
        train(PointMass(16), SMALL, run=tmp_path / "go2", steps=STEPS, seed=1, about={"robot": "qube"}, say=quiet)
    run = train(PointMass(16), SMALL, run=tmp_path, steps=2 * STEPS, seed=1, resume=False, say=quiet)
    assert run.config["seed"] == 1
    assert len(run.history()) == 1
    with pytest.raises(InputError, match="steps, every and threads"):
        train(PointMass(16), SMALL, run=tmp_path, steps=0)


def test_two_runs_with_one_seed_are_equal_and_another_seed_is_another_run(tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        train(PointMass(16), SMALL, run=tmp_path / name, steps=3 * STEPS, seed=seed, say=quiet)
    assert same(fall_into(tmp_path / "a"), fall_into(tmp_path / "b"))
    assert not same(fall_into(tmp_path / "a"), fall_into(tmp_path / "c"))


def test_stop_ends_a_run_for_good(tmp_path):
    run = train(PointMass(16), SMALL, run=tmp_path, steps=9 * STEPS, stop=lambda r: r["updates"] == 3, say=quiet)
    assert (run.stopped, len(run.history())) == ("stop", 3)
    again = train(PointMass(16), SMALL, run=tmp_path, steps=9 * STEPS, stop=lambda r: False, say=quiet)
    assert again.steps == run.steps
    on = train(PointMass(16), SMALL, run=tmp_path, steps=9 * STEPS, say=quiet)
    assert on.steps == 9 * STEPS


class Falling(PointMass):
    """Worlds 2 and 5 leave the numbers now and then, each in its own way."""

    def step(self, action):
        assert torch.isfinite(action).all()
        outcome = super().step(action)
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls % 7 == 0:
            outcome.reward[2] = torch.nan
            outcome.observations["policy"][5] = torch.nan
        return outcome


def test_worlds_that_break_are_named_kept_and_left_out_and_the_run_goes_on(tmp_path):
    said = []
    run = train(Falling(16), SMALL, run=tmp_path, steps=20 * STEPS, say=said.append)
    record = run.history()[-1]
    assert record["broken"] > 20
    assert record["refused"] == 0
    assert all(v is not None for k, v in record.items() if k.startswith("term/") or k in ("return", "policy_loss"))
    assert any("worlds 2, 5 broke and are left out (kept in" in sentence for sentence in said)
    files = sorted((tmp_path / "broken").glob("*.npz"))
    assert len(files) == 8
    with np.load(files[0], allow_pickle=False) as kept:
        assert kept["worlds"].tolist() == [2, 5]
        assert np.isnan(kept["reward"][0])
        assert np.isnan(kept["next/policy"][1]).all()
        assert kept["actor_input"].shape == (2, 2)


class Heavier:
    """A schedule: once 20 episodes have ended, the lightest mass becomes 0.1 heavier."""

    def __init__(self):
        self.prior, self.heard = 0.5, 0

    def record(self, e, success, returns):
        assert len(success) == len(returns) == len(e.get("m", returns))
        assert np.isfinite(returns).all()
        self.heard += len(returns)

    def update(self):
        grown, self.prior = self.prior, 0.5 + 0.1 * (self.heard // 20)
        return grown != self.prior

    def state(self):
        return {"prior": self.prior, "heard": self.heard}

    def load(self, state):
        self.prior, self.heard = state["prior"], state["heard"]

    @property
    def summary(self):
        return f"masses from {self.prior:.1f}"


class Weighted(PointMass):
    def draw_from(self, prior):
        self.lightest = prior


def test_a_schedule_hears_episodes_moves_the_prior_and_is_part_of_the_checkpoint(tmp_path):
    said = []
    for name, parts in (("whole", (12,)), ("parts", (5, 12))):
        for updates in parts:
            world, schedule = Weighted(16), Heavier()
            run = train(
                world, SMALL, run=tmp_path / name, steps=updates * STEPS, randomize=schedule, say=said.append,
                weigh=lambda rollout, world=world: 0.5 + world.m,
            )  # fmt: skip
    assert same(fall_into(tmp_path / "whole"), fall_into(tmp_path / "parts"))
    assert schedule.heard > 20
    assert world.lightest == schedule.prior > 0.5
    assert run.history()[-1]["randomize"] == schedule.summary
    assert "masses from 0.6" in said
    plain = train(PointMass(16), SMALL, run=tmp_path / "plain", steps=12 * STEPS, say=quiet)
    assert not np.array_equal(plain.policy.to_arrays()["net.0.weight"], run.policy.to_arrays()["net.0.weight"])
    with pytest.raises(InputError, match=r"PointMass has no draw_from\(prior\)"):
        train(PointMass(16), SMALL, run=tmp_path / "none", steps=STEPS, randomize=Heavier(), say=quiet)


def test_the_event_file_has_right_checksums_and_the_numbers_of_the_diary(tmp_path):
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    run = train(PointMass(16), SMALL, run=tmp_path, steps=4 * STEPS, say=quiet)
    (path,) = tmp_path.glob("events.out.tfevents.*")
    data, at, tags = path.read_bytes(), 0, 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        body = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at : at + 8])
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body)
        at += 16 + length
        tags += 1
    assert tags == 1 + len(run.history())
    found = {(s.step, s.tag): s.value for s in read_events(path)}
    for record in run.history():
        for name in ("rate", "kl", "value_loss", "term/near"):
            assert found[record["steps"], name] == pytest.approx(record[name], rel=1e-6)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])
    with pytest.raises(InputError, match="damaged at byte"):
        list(read_events(damaged))
    damaged.write_bytes(data[:-3])
    assert 0 < len(list(read_events(damaged))) < len(found)


def test_the_diary_turns_nan_into_null_and_forgets_a_line_cut_off(tmp_path):
    journal = Journal(tmp_path)
    journal.write({"steps": 1, "x": float("nan"), "y": 2.5})
    journal.close()
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('{"steps": 2, "x"')
    assert read_journal(tmp_path) == [{"steps": 1, "x": None, "y": 2.5}]


def test_checkpoints_refuse_objects_foreign_files_and_absence(tmp_path):
    with pytest.raises(InputError, match="holds Python objects"):
        save(tmp_path / "x.npz", {"a": np.array([{}], dtype=object)}, {})
    with pytest.raises(InputError, match="there is no checkpoint"):
        load_run(tmp_path)
    np.savez(tmp_path / "checkpoint.npz", a=np.zeros(3))
    with pytest.raises(InputError, match="is not a checkpoint of surefoot"):
        load_run(tmp_path)
    (tmp_path / "checkpoint.npz").write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="is not a checkpoint of surefoot"):
        load_run(tmp_path)


def test_the_run_says_what_it_was_made_of(tmp_path):
    train(PointMass(16), SMALL, run=tmp_path, steps=STEPS, seed=7, about={"task": "home"}, say=quiet)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["seed"] == 7
    assert config["about"] == {"task": "home"}
    assert config["versions"]["torch"] == torch.__version__
    assert load_run(tmp_path).ppo == SMALL
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_the_progress_line_tells_pace_return_success_and_time_left():
    record = {"steps": 500_000, "steps_per_second": 25_000.0, "return": 12.34, "success": 0.5, "length": 200.0}
    text = line(record, 2_000_000)
    assert text == " 25 %  500k steps  25k/s  return 12.34  success 50 %  length 200  1:00 left"
