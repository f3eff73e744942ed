"""The policies of the ladder: what e they are trained under, their training, and the bundle that goes to the robot."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.loop.folder import Folder
from surefoot.loop.settings import Loop, Rung
from surefoot.params import Params, Prior
from surefoot.robots import Robot
from surefoot.sim import Sim

if TYPE_CHECKING:
    from surefoot.identify import Fit

Say = Callable[[str], None]
JUDGED = 128
"""Worlds in which a policy is judged while it trains."""
ALIKE = 0.02
"""Difference of two shares of successes in them that means nothing."""
LACKS = 10.0
"""Noise floors left of a fit from which on its model lacks too much for its posterior to be trusted alone."""
BEST = "best.npz"
"""In a rung's folder: its best policy so far."""


@dataclass(frozen=True, kw_only=True)
class Practice:
    """What a robot's policies are trained with: the robot at its control period, tasks, learner and number of worlds."""

    robot: Robot
    task: Any
    """As it is judged."""
    practised: Any
    """As it is trained."""
    ppo: Any
    worlds: int


def practice_of(loop: Loop) -> Practice:
    """The lesson or preset of the loop's robot."""
    from surefoot.evaluate.runs import task_of
    from surefoot.learn.presets import settings
    from surefoot.learn.walking import LESSONS

    robot, task = task_of(loop.robot, loop.kit.task)
    if loop.robot in LESSONS:
        lesson = LESSONS[loop.robot]
        return Practice(robot=robot, task=task, practised=lesson.task, ppo=lesson.ppo, worlds=lesson.worlds)
    preset = settings(loop.robot)
    return Practice(robot=robot, task=task, practised=preset.task(task), ppo=preset.ppo, worlds=preset.worlds)


def belief_of(loop: Loop, folder: Folder, rung: Rung, params: Params) -> Prior:
    """What a rung's training draws e from."""
    if rung.e == "randomized":
        return params.prior()
    if rung.e == "posterior":
        from surefoot.identify import load_fit

        return hedged(load_fit(folder / "fit.json"), params.prior())
    if rung.e == "truth":
        from surefoot.loop.truth import true_e

        return params.prior().condition(dict(true_e(loop.reality, params).e))
    return params.prior().condition(nominal_of(params))


def hedged(fit: "Fit", prior: Prior) -> Prior:
    """p(e) to retrain under: the posterior, and, where the fit says that its model lacks something, the prior in half of the worlds.

    A model that lacks something is fitted by values that make up for it: the posterior is then narrow beside the truth, and no interval
    says so.
    """
    found = fit.within(prior)
    if floors_left(fit) <= LACKS:
        return found
    return Prior.mixture([found, prior])


def floors_left(fit: "Fit") -> float:
    """How many noise floors a fit leaves of the joint angles that it saw: the median over joints; 0 where it compared none."""
    left = [s.after / s.floor for s in fit.scores if s.windows == "fitted" and s.channel == "joint_pos"]
    return float(np.median(left)) if left else 0.0


def nominal_of(params: Params) -> dict[str, Any]:
    """Nominal values of all Params."""
    return {name: value[0] for name, value in params.nominal_e(1).items()}


def train_rung(loop: Loop, folder: Folder, rung: Rung, say: Say = lambda _line: None) -> dict[str, Any]:
    """Train one rung into rungs/NAME/run; {"steps", "success": last judgement in its own worlds, ...}."""
    kit = loop.kit
    inputs = {
        "robot": loop.robot,
        "task": kit.task,
        "e": rung.e,
        "seed": loop.seed,
        "enough": kit.enough,
        "close": str(kit.close),
        "every": kit.every,
        "more": kit.more if rung.judged else 0,
        "often": kit.often,
    }
    inputs["steps"] = kit.more if rung.start else kit.steps
    after = [f"train {rung.start}"] if rung.start else []
    if rung.e == "posterior":
        after.append("identify")
        inputs["lacks"] = LACKS
    if rung.e == "truth":
        inputs["reality"] = stamp(loop.reality)
    return folder.step(
        f"train {rung.name}", inputs, lambda again: _trained(loop, folder, rung, again, say), after=after
    )


def stamp(path: Path) -> list[Any]:
    """Name, size and time of a file, which is not opened."""
    about = path.stat()
    return [path.name, about.st_size, about.st_mtime_ns]


def _trained(loop: Loop, folder: Folder, rung: Rung, again: bool, say: Say) -> dict[str, Any]:
    from surefoot.evaluate import judge
    from surefoot.learn import train
    from surefoot.learn.mirror import mirror_of
    from surefoot.tasks import World

    kit, practice = loop.kit, practice_of(loop)
    sim = Sim(practice.robot, worlds=practice.worlds, seed=loop.seed)
    judged = Sim(practice.robot, worlds=JUDGED, seed=999)
    e = belief_of(loop, folder, rung, sim.params)
    e.save(folder / f"rungs/{rung.name}/prior.json")
    if rung.e == "posterior":
        from surefoot.identify import load_fit

        left = floors_left(load_fit(folder / "fit.json"))
        also = "; the model lacks something, so half of the worlds are drawn as before" if left > LACKS else ""
        say(f"{rung.title}: the fit leaves {left:.3g} noise floors of the joint angles{also}")
    rows, best = e.sample(JUDGED, 999), Best(folder / f"rungs/{rung.name}/{BEST}", again)

    looks, passed = count(), list[int]()
    seldom = max(round(kit.every / kit.often), 1)

    def evaluate(policy: Any) -> dict[str, float]:
        if next(looks) % seldom and not rung.start and not passed:
            return {}
        found = judge(practice.task, judged, policy.play(), e=rows)
        say(f"{rung.title}: {found}")
        values = {name: value.value for name, value in found.summary.items() if value.count}
        good = found.error[(found.success == 1.0) & np.isfinite(found.error)]
        if len(good):
            values["off"] = float(good.mean())
        best.show(policy, values)
        return values

    def done(record: Any) -> bool:
        """From nothing: when the first steps are taken and, where it is judged, as much practice as the others have followed."""
        good = record.get("evaluate/success", 0.0) >= kit.enough and record.get("evaluate/error", 0.0) <= kit.close
        if good and not passed:
            passed.append(record["steps"])
        return bool(not rung.start and passed and record["steps"] >= passed[0] + (kit.more if rung.judged else 0))

    world = World(practice.practised, sim, e=e, seed=loop.seed)
    about = {"robot": loop.robot, "task": kit.task, "whole_prior": rung.e == "randomized"}
    if hasattr(practice.task, "held"):
        about["held"] = list(practice.task.held)
    run = train(
        world, practice.ppo, run=folder / f"rungs/{rung.name}/run", steps=kit.more if rung.start else kit.steps, seed=loop.seed,
        evaluate=evaluate, every=kit.often, stop=done, mirror=mirror_of(world), about=about, resume=again, threads=loop.threads,
        say=lambda _line: None, start=folder / f"rungs/{rung.start}/run" if rung.start else None,
    )  # fmt: skip
    last = {k.removeprefix("evaluate/"): v for r in run.history() for k, v in r.items() if k.startswith("evaluate/")}
    return {
        "steps": run.steps,
        "stopped": run.stopped,
        "judged": last,
        "best": best.values,
        "run": f"rungs/{rung.name}/run",
    }


class Best:
    """The best of the policies that a training showed, by the judgement in its own worlds: the last one may have lost what it had.

    More successes are better; where they are alike, the one that came closer where it succeeded, and where none did the later policy.

    Args:
        file: where it is kept.
        again: whether to go on with what lies there.
    """

    def __init__(self, file: Path, again: bool):
        self.file, self.values = file, None
        if again and file.is_file():
            from surefoot.learn import checkpoint

            self.values = checkpoint.load(file)[1]["values"]
        elif not again:
            file.unlink(missing_ok=True)

    def show(self, policy: Any, values: Mapping[str, float]) -> None:
        """Keep a policy where it is better than all before it."""
        from surefoot.learn import checkpoint

        if self.values is None or better(values, self.values):
            self.values = dict(values)
            checkpoint.save(self.file, policy.to_arrays(), {"values": self.values})


def better(values: Mapping[str, float], than: Mapping[str, float]) -> bool:
    """Whether one judgement is better than another, see `Best`."""
    more = values.get("success", 0.0) - than.get("success", 0.0)
    if abs(more) > ALIKE:
        return more > 0
    return values.get("off", np.inf) <= than.get("off", np.inf)


def best_policy(folder: Folder, rung: Rung) -> Any:
    """The policy of a rung that goes to the robot; the last one where its training was too short to be judged."""
    from surefoot.learn import Policy, checkpoint, load_run

    file = folder / f"rungs/{rung.name}/{BEST}"
    return (
        Policy.from_arrays(checkpoint.load(file)[0])
        if file.is_file()
        else load_run(folder / f"rungs/{rung.name}/run").policy
    )


def export_rung(loop: Loop, folder: Folder, rung: Rung, say: Say = lambda _line: None) -> dict[str, Any]:
    """Write a rung's policy as a bundle into rungs/NAME/bundle and check it against its robot: {"bundle", "policy", "verdict"}."""
    return folder.step(
        f"export {rung.name}", {}, lambda _again: _exported(loop, folder, rung, say), after=[f"train {rung.name}"]
    )


def _exported(loop: Loop, folder: Folder, rung: Rung, say: Say) -> dict[str, Any]:
    from surefoot.deploy.bundle import load_bundle
    from surefoot.deploy.complete import complete
    from surefoot.deploy.export import export
    from surefoot.deploy.ranges import trained_ranges, with_trained
    from surefoot.deploy.verify import verify
    from surefoot.learn import load_run

    practice, where = practice_of(loop), folder / f"rungs/{rung.name}/bundle"
    run, policy = load_run(folder / f"rungs/{rung.name}/run"), best_policy(folder, rung)
    sim = Sim(practice.robot, worlds=64, seed=loop.seed)
    seen = trained_ranges(
        policy, practice.task, sim, seconds=loop.kit.seconds, e=belief_of(loop, folder, rung, sim.params)
    )
    contract = with_trained(complete(practice.task.contract(sim), practice.robot), seen.low, seen.high)
    about = {
        "run": {
            "name": rung.name,
            "steps": run.steps,
            "seed": loop.seed,
            "config": run.config,
            "best": folder.result(f"train {rung.name}")["best"],
        },
        "robot": {"name": practice.robot.name, "hash": practice.robot.hash},
    }
    export(policy, contract, where, observations=seen.samples, provenance=about, overwrite=True)
    bundle = load_bundle(where)
    verdict = verify(bundle, None, practice.robot)
    say(f"{rung.title}: {verdict}")
    return {
        "bundle": f"rungs/{rung.name}/bundle",
        "policy": bundle.hash,
        "verified": verdict.ok,
        "verdict": verdict.to_dict(),
    }
