"""Robot time: a policy on the stand-in, a designed motion on it, what they are compared with, and the fit to both.

Robot seconds are counted from the first reading to the last of every recording: standing up and sitting down are robot time too.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from surefoot.errors import InputError
from surefoot.logs import Log, read_log
from surefoot.loop.folder import Folder
from surefoot.loop.settings import Loop, Rung
from surefoot.loop.training import stamp
from surefoot.sim import Sim

if TYPE_CHECKING:
    from surefoot.identify import Fit

Say = Callable[[str], None]


def asked_of(loop: Loop) -> Callable[[float], dict[str, float]]:
    """The kit's commands one after the other, each for its share of the policy's time."""
    each = loop.kit.seconds / len(loop.kit.asked)
    return lambda t: dict(loop.kit.asked[min(int(t / each), len(loop.kit.asked) - 1)])


def runs_of(rung: Rung) -> tuple[str, ...]:
    """Names of the steps that bring a rung's policy to the robot."""
    return tuple(f"deploy {rung.name}{f' {k + 1}' if k else ''}" for k in range(rung.tried))


def deploy_rung(loop: Loop, folder: Folder, rung: Rung, say: Say = lambda _line: None) -> list[dict[str, Any]]:
    """Run a rung's policy on the robot as often as it is tried, safety on, into robot/NAME.mcap (NAME-2.mcap, ...).

    Returns:
        One for each run: {"log", "robot_seconds", "outcome", "verdict"}.
    """
    inputs = {
        "hardware": loop.hardware,
        "reality": stamp(loop.reality),
        "seconds": loop.kit.seconds,
        "asked": loop.kit.asked,
    }
    after = [f"export {rung.name}"]

    def work(number: int) -> Callable[[bool], dict[str, Any]]:
        return lambda _again: _deployed(loop, folder, rung, number, say)

    return [folder.step(name, inputs, work(k), after=after) for k, name in enumerate(runs_of(rung))]


def _deployed(loop: Loop, folder: Folder, rung: Rung, number: int, say: Say) -> dict[str, Any]:
    from surefoot.deploy.bundle import load_bundle
    from surefoot.deploy.runtime import deploy
    from surefoot.deploy.verify import verify
    from surefoot.hardware.connect import connect
    from surefoot.loop.training import practice_of

    record = folder / f"robot/{rung.name}{f'-{number + 1}' if number else ''}.mcap"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    bundle = load_bundle(folder / f"rungs/{rung.name}/bundle")
    hardware = connect(loop.hardware, lockstep=True, seed=loop.seed + 10 * number)
    try:
        outcome = deploy(bundle, hardware, seconds=loop.kit.seconds, command=asked_of(loop), record=record, say=None)
    finally:
        hardware.close()
    log = read_log(record)
    verdict = verify(bundle, log, practice_of(loop).robot)
    say(f"{rung.title} on the robot: {outcome.ended}, {outcome.seconds:.1f} s of the policy; {_first(verdict)}")
    return _told(outcome, log, record.name) | {"verdict": verdict.to_dict()}


def _first(verdict: Any) -> str:
    return "the contract was kept" if verdict.ok else f"the contract was not kept: {verdict.findings[0]}"


def _told(outcome: Any, log: Log, name: str) -> dict[str, Any]:
    said = {
        "ended": outcome.ended,
        "reason": outcome.reason,
        "seconds": outcome.seconds,
        "events": list(outcome.events[:5]),
    }
    return {"log": f"robot/{name}", "robot_seconds": log.duration, "outcome": said}


def model_of(loop: Loop) -> Sim:
    """The simulator that designs motions and is fitted: the robot file's, at the kit's time step."""
    from surefoot.robots import load

    return Sim(replace(load(loop.robot), timestep=loop.kit.timestep), noise=False)


def fitted_names(loop: Loop, sim: Sim) -> tuple[str, ...]:
    """Params that the loop fits."""
    from surefoot.identify.excite import learnable

    return loop.kit.only or learnable(sim.params)


def logs_of(folder: Folder, names: tuple[str, ...]) -> list[Log]:
    """The parts of recordings in which a policy or a motion drove; without those in which the robot was stopped before."""
    from surefoot.deploy.trajectory import read_played

    found = [folder.result(name) for name in names]
    return [read_played(folder / result["log"]) for result in found if result["outcome"]["seconds"] > 0.0]


def gap_of(loop: Loop, folder: Folder, rung: Rung, say: Say = lambda _line: None) -> dict[str, Any]:
    """The gap between the policy's run and its replay under the nominal e, and the fitted one where there is a fit: {"rows"}."""
    fitted = rung.e == "posterior"
    after = [f"deploy {rung.name}"] + (["identify"] if fitted else [])

    def work(_again: bool) -> dict[str, Any]:
        from surefoot.identify import load_fit
        from surefoot.identify.gap_rows import gap_rows

        logs = logs_of(folder, (f"deploy {rung.name}",))
        if not logs:
            say(f"no gap: the robot was stopped before the policy of {rung.title} drove it")
            return {"rows": []}
        found = load_fit(folder / "fit.json") if fitted else None
        rows = gap_rows(model_of(loop), logs, found, channels=("joint_pos",), window=loop.kit.window)
        for row in rows:
            after_fit = "" if row["fitted"] is None else f", fitted {row['fitted']:.4f}"
            say(
                f"gap of {row['column']}: nominal {row['nominal']:.4f}{after_fit}, noise {row['floor']:.4f} {row['unit']}"
            )
        return {"rows": rows}

    return folder.step(f"gap {rung.name}", {"window": loop.kit.window}, work, after=after)


def design_motion(loop: Loop, folder: Folder, say: Say = lambda _line: None) -> dict[str, Any]:
    """Design the seconds of robot time that teach most, into robot/motion.json: {"expected": what they should teach}."""
    kit = loop.kit
    inputs = {
        "robot": loop.robot,
        "seconds": kit.explore,
        "window": kit.window,
        "effort": dict(kit.effort),
        "seed": loop.seed,
    }
    inputs |= {"timestep": kit.timestep, "only": kit.only}

    def work(_again: bool) -> dict[str, Any]:
        from surefoot.deploy.trajectory import write_trajectory
        from surefoot.identify.excite import Effort, excite

        sim = model_of(loop)
        design = excite(
            sim, only=fitted_names(loop, sim), seconds=kit.explore, window=kit.window, effort=Effort(**kit.effort), seed=loop.seed,
            say=say,
        )  # fmt: skip
        data = design.to_dict()
        write_trajectory(folder / "robot/motion.json", data)
        say(str(design).splitlines()[1])
        return {"expected": data["expected"], "family": data["family"]}

    return folder.step("design", inputs, work)


def check_budget(loop: Loop, folder: Folder, ahead: Sequence[float]) -> None:
    """Refuse runs of `ahead` seconds each where the robot time used so far, with standing up and sitting down, leaves too little."""
    found = [folder.record(name).get("result") for rung in loop.rungs for name in runs_of(rung)]
    done = [one for one in (*found, folder.record("explore").get("result")) if one]
    spent = sum(one["robot_seconds"] for one in done)
    around = max((one["robot_seconds"] - one["outcome"]["seconds"] for one in done), default=0.0)
    more = sum(ahead) + around * len(ahead)
    if spent + more > loop.kit.budget:
        raise InputError(
            f"{spent:.1f} robot seconds were used and the runs ahead take {more:.1f} more, allowed are {loop.kit.budget:g}: shorten the "
            f"designed motion (--explore)"
        )


def ahead_of(loop: Loop) -> list[float]:
    """[s] Of every run of a retrained policy."""
    return [loop.kit.seconds] * sum(rung.tried for rung in loop.rungs if rung.e == "posterior")


def play_motion(loop: Loop, folder: Folder, say: Say = lambda _line: None) -> dict[str, Any]:
    """Play the designed motion on the robot, safety on, into robot/motion.mcap: {"log", "robot_seconds", "outcome"}."""

    def work(_again: bool) -> dict[str, Any]:
        from surefoot.deploy.trajectory import play
        from surefoot.hardware.connect import connect

        check_budget(loop, folder, (loop.kit.explore, *ahead_of(loop)))
        record = folder / "robot/motion.mcap"
        record.unlink(missing_ok=True)
        hardware = connect(loop.hardware, lockstep=True, seed=loop.seed + 1)
        try:
            outcome = play(folder / "robot/motion.json", hardware, record=record, say=None)
        finally:
            hardware.close()
        say(
            f"the motion on the robot: {outcome.ended}, {outcome.seconds:.1f} s {outcome.reason if outcome.ended != 'finished' else ''}"
        )
        return _told(outcome, read_log(record), record.name)

    inputs = {"hardware": loop.hardware, "reality": stamp(loop.reality)}
    return folder.step("explore", inputs, work, after=["design"])


def identify_robot(loop: Loop, folder: Folder, rung: Rung, say: Say = lambda _line: None) -> dict[str, Any]:
    """Fit e to everything that was recorded so far, into fit.json: {"values", "robot_seconds", "checked", ...}.

    "checked" holds what the motion was expected to teach beside what the fit found, a row a scalar.
    """
    kit = loop.kit
    used = (f"deploy {rung.name}",) + (("explore",) if kit.explore else ())
    inputs = {
        "window": kit.window,
        "stride": kit.stride,
        "most": kit.most,
        "timestep": kit.timestep,
        "only": kit.only,
        "channels": kit.channels,
        "seed": loop.seed,
    }

    def work(_again: bool) -> dict[str, Any]:
        from surefoot.identify import identify
        from surefoot.identify.fit_table import misfit_lines, units_of

        spent = sum(folder.result(name)["robot_seconds"] for name in used)
        check_budget(loop, folder, ahead_of(loop))
        sim = model_of(loop)
        fit = identify(
            sim, usable(logs_of(folder, used), kit.window), only=fitted_names(loop, sim), channels=kit.channels, window=kit.window,
            stride=kit.stride, most=kit.most, jumps=False, seed=loop.seed, say=say,
        )  # fmt: skip
        fit.save(folder / "fit.json")
        ends = fit.intervals()
        rows = [
            {"name": name, "value": float(v), "low": float(a), "high": float(b), "unit": unit}
            for name, v, (a, b), unit in zip(fit.names, fit.values, ends, units_of(fit), strict=True)
        ]
        return {
            "values": rows, "robot_seconds": spent, "at_bound": list(fit.at_bound),
            "unidentified": [x.combination for x in fit.unidentified], "misfit": misfit_lines(fit, 12),
            "checked": checked_motion(folder, fit, say) if kit.explore else [],
        }  # fmt: skip

    return folder.step("identify", inputs, work, after=list(used))


def checked_motion(folder: Folder, fit: "Fit", say: Say = lambda _line: None) -> list[dict[str, Any]]:
    """What the designed motion was expected to teach against what a fit found; nothing where the fit did not see the motion."""
    from surefoot.identify.design import check_prediction, load_design

    if not any(log.hash in fit.provenance["logs"] for log in logs_of(folder, ("explore",))):
        say("what the motion was expected to teach is not checked: the robot was stopped before it was played")
        return []
    rows = check_prediction(load_design(folder / "robot/motion.json"), fit)
    for row in rows:
        say(row.sentence)
    return [row.to_dict() for row in rows]


def usable(logs: list[Log], window: float) -> list[Log]:
    """Recordings that hold at least two windows: a policy that fell at once teaches nothing."""
    long = [log for log in logs if log.duration >= 2 * window]
    if not long:
        raise InputError(
            f"no recording is as long as two windows of {window:g} s, the robot was stopped before: see what the safety layer said in "
            f"robot/*.mcap (surefoot log info), or let it run for longer"
        )
    return long
