"""`surefoot identify` and `surefoot gap`."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from surefoot.cli_words import File, Mapping, RobotName, Seconds, answer, table, tell

if TYPE_CHECKING:
    from surefoot.identify import Fit
    from surefoot.logs import Log
    from surefoot.sim import Sim

Logs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="LOG...")]
ParamsOrNames = Annotated[str | None, tyro.conf.arg(metavar="FILE|NAMES")]
Names = Annotated[str | None, tyro.conf.arg(metavar="NAMES")]
Channels = Annotated[str | None, tyro.conf.arg(metavar="NAMES")]
Share = Annotated[float, tyro.conf.arg(metavar="0..1")]


def identify(
    robot: RobotName,
    logs: Logs,
    /,
    *,
    params: ParamsOrNames = None,
    apart: Names = None,
    mapping: Mapping = None,
    channels: Channels = None,
    window: Seconds = None,
    held_out: Share = 0.25,
    log_start: bool = False,
    robust: float | None = None,
    starts: int = 1,
    rugged: bool = False,
    suspended: bool = False,
    hung: bool = False,
    gains: bool = False,
    mode: Literal["simulation", "inverse", "both"] = "simulation",
    seed: int = 0,
    out: File = None,
    report: File = None,
    json: bool = False,
) -> int:
    """Fit the unknowns of a robot to its logs: values with honest intervals, and what the logs cannot say.

    Args:
        robot: name in the library, folder, robot file or model file.
        logs: log files or folders.
        params: .toml or .json file with the Params, or names of the robot file's own, "kp,kd,command_delay"; all when left out.
        apart: names of Params with a value of their own in every log, "encoder_bias": what is set or loaded anew before each.
        mapping: name of a bundled mapping, or a mapping file.
        channels: channels to compare, "joint_pos,gyro"; positions and attitude when left out.
        window: length of the windows that the logs are cut into [s]; 1 s when left out.
        held_out: share of every log, its end, that only judges.
        log_start: take the start state of every window from the log instead of estimating it.
        robust: residuals beyond this many standard deviations count linearly.
        starts: number of different starting points.
        rugged: search with CMA-ES first.
        suspended: legs in the air, the base held still on a stand.
        hung: the robot hangs from a strap, free to swing and turn.
        gains: the motors' kp and kd are those that the logs state.
        mode: e that predicts trajectories best; or the e of the equation of motion itself, for robots that are bolted down; or both,
            and what their difference says (masses and rotors then come from the equation of motion).
        seed: of the starts and of CMA-ES.
        out: .json file for the fit; with both modes, the inverse one is written beside it.
        report: .html file for the report.
        json: print the fit as JSON.
    """
    from surefoot.errors import InputError
    from surefoot.identify import identify as fit_to

    for file, suffix in ((out, ".json"), (report, ".html")):
        if file is not None and file.suffix != suffix:
            raise InputError(f"'{file}' must end in {suffix}")
    if mode == "inverse" and report is not None:
        raise InputError(
            "a report shows replays, and --mode inverse makes none: use --mode both, or leave out --report"
        )
    if mode != "simulation" and apart is not None:
        raise InputError(
            f"--apart fits replays of each log, and --mode {mode} fits all logs as one: leave out one of them"
        )
    recorded = _read(logs, mapping)
    sim, only = _sim(robot, params, recorded, _held(suspended, hung), gains)
    options: dict[str, Any] = {"window": window, "held_out": held_out, "start": "log" if log_start else "estimate"}
    more = {
        "channels": _names(channels),
        "robust": robust,
        "starts": starts,
        "rugged": rugged,
        "seed": seed,
        "say": tell,
    }
    both = None
    if mode == "simulation":
        fit = fit_to(sim, recorded, only=only, apart=_names(apart) or (), **more, **options)
    elif mode == "inverse":
        from surefoot.identify.inverse import identify_inverse

        fit = identify_inverse(sim, recorded, only=only, held_out=held_out)
    else:
        from surefoot.identify.inverse_both import identify_both

        both = identify_both(sim, recorded, only=only, **more, **options)
        fit = both.simulation
    if out is not None:
        tell(f"written: {fit.save(out)}")
        if both is not None:
            tell(f"written: {both.inverse.save(out.with_name(f'{out.stem}-inverse.json'))}")
    if report is not None:
        from surefoot.identify.report_page import report as page_of

        if both is not None:
            options["fixed"] = {n: v for n, v in both.inverse.e.items() if n not in fit.params}
        tell(f"written: {page_of(sim, recorded, fit, **options).save(report)}")
    if both is None:
        answer(fit.to_dict(), lambda: str(fit), json)
    else:
        data = {"inverse": both.inverse.to_dict(), "simulation": fit.to_dict(), "explanation": list(both.explanation)}
        answer(data, lambda: str(both), json)
    return 0


def gap(
    robot: RobotName,
    logs: Logs,
    /,
    *,
    fit: File = None,
    params: File = None,
    mapping: Mapping = None,
    channels: Channels = None,
    window: Seconds = None,
    suspended: bool = False,
    hung: bool = False,
    gains: bool = False,
    json: bool = False,
) -> int:
    """Print the gap between logs and their replay by channel and column: nominal, with a fit's values, and the noise floor.

    Args:
        robot: name in the library, folder, robot file or model file.
        logs: log files or folders.
        fit: .json file that `identify` wrote; nominal values only when left out.
        params: .toml or .json file with the Params; the robot file's own when left out.
        mapping: name of a bundled mapping, or a mapping file.
        channels: channels to compare, "joint_pos,gyro"; all that can be replayed when left out.
        window: how far the replay runs before it starts anew from the log [s]; 1 s when left out.
        suspended: legs in the air, the base held still on a stand.
        hung: the robot hangs from a strap, free to swing and turn.
        gains: the motors' kp and kd are those that the logs state.
        json: print the gaps as JSON.
    """
    from surefoot.identify import load_fit
    from surefoot.identify.gap_rows import gap_rows

    found = None if fit is None else load_fit(fit)
    recorded = _read(logs, mapping)
    sim, _ = _sim(robot, None if params is None else str(params), recorded, _held(suspended, hung), gains, found)
    theirs = "" if found is None else str(found.provenance.get("robot", ""))
    if theirs and theirs != sim.robot.name:
        print(f"the fit was made for '{theirs}', the gap is that of '{sim.robot.name}'", file=sys.stderr)
    rows = gap_rows(sim, recorded, found, channels=_names(channels), window=window)

    def text() -> str:
        numbers = ("nominal", "fitted", "floor")
        cells = [
            (r["channel"], r["column"], *(_figure(r[k]) for k in numbers), r["unit"], f"{r['horizon']:.3g} s")
            for r in rows
        ]
        return table([("channel", "column", "nominal", "fitted", "noise floor", "unit", "horizon"), *cells])

    answer(rows, text, json)
    return 0


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _names(words: str | None) -> list[str] | None:
    return None if words is None else [w.strip() for w in words.split(",") if w.strip()]


def _read(paths: tuple[Path, ...], mapping: str | None) -> "list[Log]":
    from surefoot.errors import InputError
    from surefoot.logs import read_logs

    if not paths:
        raise InputError("name at least one log file or folder")
    return [log for path in paths for log in read_logs(path, mapping=mapping)]


def _held(suspended: bool, hung: bool) -> str:
    """How a robot is held in the air: "suspended", "hung", or "" where it is not."""
    from surefoot.errors import InputError

    if suspended and hung:
        raise InputError("--suspended holds the base still and --hung lets it swing: give one of the two")
    return "suspended" if suspended else "hung" if hung else ""


def _sim(
    name: str, params: str | None, logs: "list[Log]", held: str, gains: bool, fit: "Fit | None" = None
) -> "tuple[Sim, list[str] | None]":
    """The robot as the options describe it, and which of its Params are meant."""
    from surefoot.params import Params
    from surefoot.robots import load
    from surefoot.sim import Sim

    robot = load(name)
    stated = {str(log.meta["held"]) for log in logs if "held" in log.meta}
    if stated and not held:
        wanted = "--hung" if stated == {"hung"} else "--suspended"
        how = ", ".join(sorted(stated))
        print(
            f"the logs say that the robot was held in the air ({how}); here it stands: {wanted} holds it",
            file=sys.stderr,
        )
    if held:
        robot = robot.hung() if held == "hung" else robot.suspended()
    if gains:
        robot = _with_gains(robot, logs)
    own, only = robot.params, None
    if params is not None and Path(params).suffix in (".toml", ".json"):
        own = Params.load(params)
    elif params is not None:
        only = _names(params)
        own.only(*(only or ()))
    if fit is not None and params is None:
        own = Params(**{**dict(own), **dict(fit.params)})
    return Sim(robot, own, noise=False), only


def _with_gains(robot: Any, logs: "list[Log]") -> Any:
    """The robot with the position gains that all logs state in their constants."""
    from surefoot.errors import InputError

    stated = {(log.meta.get("kp"), log.meta.get("kd")) for log in logs}
    kp, kd = next(iter(stated))
    if len(stated) != 1 or kp is None or kd is None:
        raise InputError(
            f"the logs state the gains (kp, kd) {sorted(map(str, stated))}: one pair for all is needed; "
            f"fit them one by one, or leave out --gains"
        )
    actuators = tuple(dataclasses.replace(a, kp=float(kp), kd=float(kd)) for a in robot.actuators)
    params = robot.params.without(*[n for n, p in robot.params.items() if p.kind in ("kp", "kd")])
    return dataclasses.replace(robot, actuators=actuators, params=params)
