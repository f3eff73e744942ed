"""What a run was trained for: its robot and its task, ready to be judged."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surefoot.contract import Contract
from surefoot.errors import InputError, choose
from surefoot.robots import Robot, load


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy and what it is to be judged at."""

    name: str
    policy: Any
    """A surefoot.learn.networks.Policy; `policy.play` makes a function that acts."""
    robot: Robot
    task: Any
    steps: int
    """Transitions it was trained for."""
    ranges: dict[str, tuple[float, float]]
    """Param -> (low, high) that it was trained on, where the run says so."""

    @property
    def walks(self) -> bool:
        """Whether the walking criterion applies."""
        return any(c.__name__ == "Velocity" for c in type(self.task).__mro__)


def task_of(robot: str, task: str = "") -> tuple[Robot, Any]:
    """A robot of the library at the control period its policies are made for, and the task as it is judged.

    Args:
        robot: name in the library.
        task: "hover" or "track" for crazyflie; "" is the robot's first one.
    """
    from surefoot.learn.presets import PRESETS, settings
    from surefoot.learn.walking import LESSONS
    from surefoot.tasks import hop, hover, reach, swing_up

    if robot in LESSONS and task in ("", "velocity"):
        from surefoot.evaluate.walking import walking

        return load(robot), walking(LESSONS[robot].task)
    makers: dict[str, dict[str, Any]] = {
        "cartpole": {"swing_up": swing_up.cartpole},
        "qube": {"swing_up": swing_up.qube},
        "double_pendulum": {"swing_up": swing_up.double_pendulum},
        "crazyflie": {"hover": hover.Hover, "track": hover.Track},
        "hopper": {"hop": hop.Hop},
        "so101": {"reach": reach.Reach},
    }
    own = makers[choose(robot, [name for name in makers if name in PRESETS], "a robot with a task that can be judged")]
    chosen = choose(task or next(iter(own)), own, f"a task of {robot} that can be judged")
    return settings(robot).robot(load(robot)), own[chosen]()


def _on_rough_ground(robot: str, scan: bool) -> tuple[Robot, Any]:
    """The robot with its ground among its unknowns, and the task as it is judged."""
    from surefoot.evaluate.walking import walking
    from surefoot.learn.walking import rough

    found = rough(load(robot), scan=scan)
    return replace(found.robot, params=found.params), walking(found.lesson.task)


def candidate(folder: str | Path, name: str = "") -> Candidate:
    """The policy of a run's folder or of a bundle (a shipped one by its name), with the robot and task that it names."""
    if not Path(folder).exists():
        from surefoot.deploy.bundle import shipped

        choose(str(folder), shipped(), "a folder of a run or bundle, nor a bundle that comes with surefoot")
    policy, steps, about, then = _bundled(folder) if _is_bundle(folder) else _trained(folder)
    if "robot" not in about:
        raise InputError(f"{folder} does not say which robot it is of: was it made by `surefoot train`?")
    if about.get("ground") == "rough":
        robot, task = _on_rough_ground(about["robot"], bool(about.get("scan")))
    else:
        robot, task = task_of(about["robot"], about.get("task", ""))
    if "held" in about and hasattr(task, "held"):
        task = replace(task, held=tuple(about["held"]))
    if hasattr(task, "agreed"):
        task = replace(task, memory=1) if then is None else task.agreed(then)
    if then is not None and not _is_bundle(folder):
        _check_same_task(folder, robot, task, then)
    ranges = {k: (float(v[0]), float(v[1])) for k, v in about.get("ranges", {}).items()}
    label = name or Path(folder).resolve().name
    return Candidate(name=label, policy=policy, robot=robot, task=task, steps=steps, ranges=ranges)


def _check_same_task(folder: str | Path, robot: Robot, task: Any, there: Contract) -> None:
    """Refuse a run whose observations or actions were others than the task has now: it would be judged, and exported, wrongly."""
    from surefoot.sim import Sim

    here = task.contract(Sim(robot, worlds=1)).sensed
    if [c.name for c in here.commands] == [c.name for c in there.commands]:
        there = replace(there, commands=here.commands)  # It may have practised a narrower or wider range.
    found = here.difference(there)
    if found:
        more = f", and {len(found) - 1} more differ" if len(found) > 1 else ""
        raise InputError(
            f"{folder} was trained with another contract than {robot.name}'s task has now: {found[0]}{more}; train it again, or judge it "
            "in Python with the task it was trained on"
        )


def _trained(folder: str | Path) -> tuple[Any, int, dict[str, Any], Contract | None]:
    """Policy, transitions, what it says about itself and its contract; runs of older versions kept none."""
    from surefoot.learn import load_run

    run = load_run(folder)
    kept = run.config.get("contract")
    contract = None if kept is None else Contract.from_dict(kept, f"{folder}/config.json: contract")
    return run.policy, run.steps, run.config.get("about", {}), contract


def _is_bundle(folder: str | Path) -> bool:
    from surefoot.deploy.bundle import POLICY, shipped

    path = Path(folder)
    return (path / POLICY).is_file() or (not path.exists() and str(folder) in shipped())


def _bundled(folder: str | Path) -> tuple[Any, int, dict[str, Any], Contract]:
    from surefoot.deploy import load_bundle

    bundle = load_bundle(folder)
    run = bundle.provenance.get("run", {})
    about = run.get("config", {}).get("about", {})
    if not about:
        raise InputError(f"{folder} does not say what it was trained for: judge the run it was exported from")
    return BundlePolicy(bundle), int(run.get("steps", 0)), about, bundle.contract


SETTINGS = ("period", "memory", "held")
"""Fields of a walking task that are a policy's own: one cannot be judged with those of another."""


@dataclass(frozen=True)
class BundlePolicy:
    """A bundle's policy as something to be judged: tensors in, tensors out."""

    bundle: Any

    @property
    def widths(self) -> dict[str, int]:
        """Observation group -> width, in the order in which the network sees them."""
        return {group.name: group.size for group in self.bundle.contract.groups}

    @property
    def actions(self) -> int:
        """Width of the action."""
        return len(self.bundle.contract.action.joints)

    def play(self) -> Any:
        """A function `act(observations, ended=None) -> action` that acts without noise and keeps the memory."""
        from surefoot.learn.onnx_play import play

        return play(self.bundle.policy())


def same_task(candidates: list[Candidate]) -> Candidate:
    """The first of the candidates; refuses others of another robot or task, or that need to be judged with other settings of it."""
    first = candidates[0]
    for other in candidates[1:]:
        if other.robot.name != first.robot.name or type(other.task) is not type(first.task):
            raise InputError(
                f"{other.name} is of {other.robot.name} and {type(other.task).__name__}, {first.name} of {first.robot.name} and "
                f"{type(first.task).__name__}: compare runs of one robot and one task"
            )
        for name in SETTINGS:
            mine, theirs = getattr(first.task, name, None), getattr(other.task, name, None)
            if mine != theirs:
                raise InputError(
                    f"{other.name} was trained with {name} {theirs} of its task, {first.name} with {mine}: judge them one at a time"
                )
    return first
