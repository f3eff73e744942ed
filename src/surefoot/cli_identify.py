"""`surefoot identify` and `surefoot gap`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from surefoot.cli_words import Count, File, Mapping, RobotName, Seconds, answer, table, tell
from surefoot.errors import InputError, choose

if TYPE_CHECKING:
    from surefoot.cli_recorded import Recorded
    from surefoot.identify import Fit

Logs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="LOG...")]
MoreLogs = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="LOG...")]
ParamsOrNames = Annotated[str | None, tyro.conf.arg(metavar="FILE|NAMES")]
Names = Annotated[str | None, tyro.conf.arg(metavar="NAMES")]
Channels = Annotated[str | None, tyro.conf.arg(metavar="NAMES")]
Values = Annotated[str | None, tyro.conf.arg(metavar="NAME=VALUE,...")]
Share = Annotated[float, tyro.conf.arg(metavar="0..1")]
Number = Annotated[float | None, tyro.conf.arg(metavar="NUMBER")]
REPLAYS = ("apart", "channels", "window", "stride", "hold", "log_start", "robust", "starts", "rugged", "most", "seed")
"""Options of fits that simulate."""


def identify(
    robot: RobotName,
    logs: Logs,
    /,
    *,
    params: ParamsOrNames = None,
    prior: File = None,
    fixed: Values = None,
    apart: Names = None,
    mapping: Mapping = None,
    channels: Channels = None,
    window: Seconds = None,
    stride: Seconds = None,
    hold: Names = None,
    held_out: Share = 0.25,
    judges: MoreLogs = (),
    log_start: bool = False,
    robust: Number = None,
    starts: int = 1,
    rugged: bool = False,
    suspended: bool = False,
    hung: bool = False,
    gains: bool = False,
    whole: bool = False,
    mode: Literal["simulation", "inverse", "both"] = "simulation",
    torque: Literal["command", "measured"] = "command",
    cutoff: Number = None,
    every: Count = None,
    most: Count = None,
    seed: Count = None,
    check: File = None,
    out: File = None,
    another: File = None,
    own: Names = None,
    report: File = None,
    json: bool = False,
) -> int:
    """Fit the unknowns of a robot to its logs: values with honest intervals, and what the logs cannot say.

    Args:
        robot: name in the library, folder, robot file or model file.
        logs: log files or folders.
        params: .toml or .json file with the Params, or names of the robot file's own, "kp,kd,command_delay"; all when left out.
        prior: what is believed of this robot before: a prior's file, or an earlier fit's, whose posterior it is.
        fixed: values of Params that are known and not fitted, "arm_mass=0.12,command_delay=0.004".
        apart: names of Params with a value of their own in every log, "encoder_bias": what is set or loaded anew before each.
        mapping: name of a bundled mapping, or a mapping file.
        channels: channels to compare, "joint_pos,gyro"; positions and attitude when left out.
        window: length of the windows that the logs are cut into [s]; 1 s when left out.
        stride: from the start of one window to the next [s]; its length when left out.
        hold: actuators that the logs have no command for, kept at their default pose.
        held_out: share of every log, its end, that only judges.
        judges: logs that only judge, instead of the ends of the others.
        log_start: take the start state of every window from the log instead of estimating it.
        robust: residuals beyond this many standard deviations count linearly.
        starts: number of different starting points.
        rugged: search with CMA-ES first.
        suspended: legs in the air, the base held still on a stand.
        hung: the robot hangs from a strap, free to swing and turn.
        gains: the motors' kp and kd are those that the logs state, each log its own.
        whole: use all of a run's recording, also while the robot stood up, sat down or lay limp.
        mode: e that predicts trajectories best; or the e of the equation of motion itself, for robots that are bolted down; or both,
            and what their difference says (masses and rotors then come from the equation of motion).
        torque: of inverse dynamics: what the motors make of the command, or what the log measured.
        cutoff: of the filter of inverse dynamics [Hz]; a tenth of the sampling rate when left out.
        every: inverse dynamics keeps one equation of so many.
        most: steps of a simulating fit at most, from each start; 25 when left out.
        seed: of the starts and of CMA-ES; 0 when left out.
        check: the designed motion that was recorded: compare what it should teach with what was found.
        out: .json file for the fit; with both modes, the inverse one by itself is written beside it.
        another: .toml or .json file for p(e) of another robot of the same kind: joints as they differ on this one; what the fit does not
            tell stays anywhere between its bounds.
        own: names of Params that belong to this robot alone, "encoder_bias": in that file they are anywhere between their bounds.
        report: .html file for the report.
        json: print the fit as JSON.
    """
    from surefoot.cli_recorded import (
        apart_from_each_other,
        as_e,
        belief_of,
        held_word,
        names,
        recorded,
        still,
        values_of,
        writable,
    )

    given = dict(locals())
    _refuse(mode, given)
    for file, suffixes in ((out, (".json",)), (another, (".toml", ".json")), (report, (".html",))):
        if file is not None and file.suffix not in suffixes:
            raise InputError(f"'{file}' must end in {' or '.join(suffixes)}")
    if own is not None and another is None:
        raise InputError("--own says what another robot does not share: give --another FILE too, or leave it out")
    inverse = out.with_name(f"{out.stem}-inverse.json") if out is not None and mode == "both" else None
    file = Path(params) if params is not None and Path(params).suffix in (".toml", ".json") else None
    apart_from_each_other(
        {"--out": out, "--out with both modes": inverse, "--another": another, "--report": report},
        {"--check": check, "--params": file},
    )
    writable(out, inverse, another, report)
    design = None if check is None else _design(check)
    found = recorded(
        robot, logs, judges=judges, params=params, mapping=mapping, held=held_word(suspended, hung), gains=gains, whole=whole
    )  # fmt: skip
    for name in names(own) or ():
        choose(name, found.any_robot().params, "a param of this robot")
    known = as_e(found.sim, values_of(fixed))
    if known is not None:
        found = _without(found, known)
    if design is not None:
        _refuse_design(design, found)
    equation: dict[str, Any] = {
        "fixed": known,
        "prior": belief_of(prior, found.sim.robot),
        "held_out": found.judges or held_out,
    }
    replays: dict[str, Any] = {
        "channels": names(channels), "window": window, "stride": stride, "hold": still(hold, found.sim, [*found.logs, *found.judges]),
        "start": "log" if log_start else "estimate", "robust": robust, "starts": starts, "rugged": rugged, "seed": seed or 0,
        "stated": found.stated, "say": tell, **({} if most is None else {"most": most}),
    }  # fmt: skip
    filtered: dict[str, Any] = {"torque": torque, "cutoff": cutoff, "every": every}
    both, every_log = None, found.logs
    if mode == "simulation":
        from surefoot.identify import identify as fit_to

        fit = fit_to(found.sim, every_log, only=found.only, apart=names(apart) or (), **equation, **replays)
    elif mode == "inverse":
        from surefoot.identify.inverse import identify_inverse

        fit = identify_inverse(found.sim, every_log, only=found.only, stated=found.stated, **equation, **filtered)
    else:
        from surefoot.identify.inverse_both import identify_both

        both = identify_both(found.sim, every_log, only=found.only, **equation, **filtered, **replays)
        fit = both.fit
    if out is not None:
        tell(f"written: {fit.save(out)}")
        if both is not None and inverse is not None:
            tell(f"written: {both.inverse.save(inverse)}")
    if report is not None:
        from surefoot.identify.report_page import report as page_of

        shown = {k: replays[k] for k in ("window", "stride", "start", "hold", "stated")}
        if fit.known is not None:
            shown["fixed"] = fit.known.nominal_e(1)
        page = page_of(found.sim, every_log, fit, held_out=equation["held_out"], **shown)
        if both is not None:
            page.text("## Both modes\n" + "\n".join(f"- {line}" for line in both.explanation))
        tell(f"written: {page.save(report)}")
    rows = () if design is None else _checked(design, fit)
    checked = {"checked": [row.to_dict() for row in rows]} if rows else {}
    if both is None:
        answer(fit.to_dict() | checked, lambda: str(fit), json)
    else:
        parts = {"fit": fit, "inverse": both.inverse, "simulation": both.simulation}
        data = {name: part.to_dict() for name, part in parts.items()} | {"explanation": list(both.explanation)}
        answer(data | checked, lambda: str(both), json)
    if rows and not json:
        from surefoot.identify.design import checked_table

        print("\n" + checked_table(rows))
    if another is not None:
        from surefoot.identify import another_robot

        another_robot(fit, found.any_robot(), own=names(own) or ()).save(another)
        tell(f"written: {another}")
    return 0


def _refuse(mode: str, given: dict[str, Any]) -> None:
    """Options that a mode does not use."""
    off = {"starts": 1}
    if mode == "inverse":
        named = [
            n for n in (*REPLAYS, "report") if given[n] is not None and given[n] is not False and given[n] != off.get(n)
        ]
        if named:
            option = named[0].replace("_", "-")
            raise InputError(
                f"--mode inverse solves the equation of motion and replays nothing, so it takes no --{option}: leave it out"
            )
    if mode == "both" and given["apart"] is not None:
        raise InputError(
            "--apart fits replays of each log, and --mode both fits all logs as one: leave out one of them"
        )
    if mode == "simulation":
        named = [n for n in ("cutoff", "every") if given[n] is not None]
        named += ["torque"] if given["torque"] != "command" else []
        if named:
            raise InputError(f"--{named[0]} is for inverse dynamics: give --mode inverse or both too, or leave it out")


def _without(found: "Recorded", known: dict[str, Any]) -> "Recorded":
    """All Params but those that are known are fitted, unless some were named; these must not be known too."""
    import dataclasses

    both = [name for name in found.only or () if name in known]
    if both:
        raise InputError(
            f"'{both[0]}' is in --params and in --fixed: a Param is fitted or known, leave it out of one of them"
        )
    if found.only is not None:
        return found
    return dataclasses.replace(found, only=[name for name in found.sim.params if name not in known])


def _design(file: Path) -> Any:
    from surefoot.identify.design import load_design

    return load_design(file)


def _refuse_design(design: Any, found: "Recorded") -> None:
    """A design of another robot, or of Params that are not to be fitted, before the fit is made."""
    from surefoot.identify.design import refuse_others

    params = found.sim.params
    fitted = params if found.only is None else params.only(*found.only)
    refuse_others(design, found.sim.robot.name, fitted.names)


def _checked(design: Any, fit: "Fit") -> Any:
    from surefoot.identify.design import check_prediction

    return check_prediction(design, fit)


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
    hold: Names = None,
    suspended: bool = False,
    hung: bool = False,
    gains: bool = False,
    whole: bool = False,
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
        hold: actuators that the logs have no command for, kept at their default pose.
        suspended: legs in the air, the base held still on a stand.
        hung: the robot hangs from a strap, free to swing and turn.
        gains: the motors' kp and kd are those that the logs state, each log its own.
        whole: use all of a run's recording, also while the robot stood up, sat down or lay limp.
        json: print the gaps as JSON.
    """
    from surefoot.cli_recorded import fit_in, held_word, names, recorded, still
    from surefoot.identify.gap_rows import gap_rows

    if params is not None and params.suffix not in (".toml", ".json"):
        raise InputError(
            f"'{params}' must be a .toml or .json file with Params: gap compares and fits nothing, so it takes no names"
        )
    given = fit_in(fit)
    known = None if given is None else given.fit
    found = recorded(
        robot, logs, params=None if params is None else str(params), mapping=mapping, held=held_word(suspended, hung), gains=gains,
        whole=whole, fit=given,
    )  # fmt: skip
    if known is not None:
        _same_make(known, found, gains)
    rows = gap_rows(
        found.sim, found.logs, known, channels=names(channels), window=window, hold=still(hold, found.sim, found.logs), stated=found.stated
    )  # fmt: skip
    numbers = ("nominal", "floor") if known is None else ("nominal", "fitted", "floor")

    def text() -> str:
        cells = [
            (r["channel"], r["column"], *(_figure(r[k]) for k in numbers), r["unit"], f"{r['horizon']:.3g} s")
            for r in rows
        ]
        titles = ("noise floor" if k == "floor" else k for k in numbers)
        return table([("channel", "column", *titles, "unit", "horizon"), *cells])

    answer(rows, text, json)
    return 0


def _same_make(fit: "Fit", found: "Recorded", gains: bool) -> None:
    """A fit's values mean what they meant: for the robot held and tuned in that way."""
    here = found.sim.robot
    if fit.provenance.get("robot_hash", here.hash) != here.hash:
        print(
            "the fit was made with another robot file, or with other gains or another way to hold it (--gains, --suspended, --hung)",
            file=sys.stderr,
        )
    stated = [n for n, p in fit.params.items() if p.kind in ("kp", "kd")]
    if gains and stated:
        raise InputError(f"the fit holds {', '.join(stated)}, and --gains takes gains from the logs: leave out --gains")


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
