"""`surefoot log ...` and `surefoot replay`."""

import json as json_format
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from surefoot.cli_words import AnyRobot, Count, File, Mapping, Seconds, Source, Target, answer, table, tell

if TYPE_CHECKING:
    from surefoot.cli_recorded import FitFile
    from surefoot.logs import Log
    from surefoot.sim import Sim


def log_info(path: Source, /, *, mapping: Mapping = None, json: bool = False) -> int:
    """Say what a log holds: channels, units, rates, jitter, gaps.

    Args:
        path: log file or folder (.mcap, .npz, .csv, and what a mapping describes).
        mapping: name of a bundled mapping, or a mapping file: which column is which joint, in which unit.
        json: print JSON, with the gaps and the range of every column.
    """
    from surefoot.logs import info, info_table

    about = info(path, mapping)
    answer(about, lambda: table(info_table(about)), json)
    return 0


def log_convert(source: Source, target: Target, /, *, mapping: Mapping = None, json: bool = False) -> int:
    """Read a log and write it in another format.

    Args:
        source: log file or folder.
        target: file to write: .mcap, .npz or .csv; several logs get numbers.
        mapping: name of a bundled mapping, or a mapping file.
        json: print the list of files written as JSON.
    """
    from surefoot.logs import convert

    written = convert(source, target, mapping)
    answer(written, lambda: "\n".join(str(path) for path in written), json)
    return 0


def replay(
    log: Source,
    robot: AnyRobot = None,
    /,
    *,
    params: File = None,
    e: File = None,
    prior: File = None,
    draws: Count = None,
    mapping: Mapping = None,
    start: Seconds = None,
    stop: Seconds = None,
    suspended: bool = False,
    hung: bool = False,
    gains: bool = False,
    whole: bool = False,
    hold: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None,
    json: bool = False,
) -> int:
    """Drive the simulator with a log's commands and print the gap: log minus replay, per channel and column.

    Args:
        log: log file.
        robot: robot to simulate; the one the log names when left out.
        params: .toml or .json file with the Params; the robot file's own when left out.
        e: .toml or .json file with values of Params by name, or a fit; nominal ones when left out.
        prior: file of a prior, or a fit, whose posterior it is: compare with the mean over robots drawn from it.
        draws: how many of them; 128 when left out.
        mapping: name of a bundled mapping, or a mapping file.
        start: time at which the replay starts [s]; the first command when left out.
        stop: time at which it ends [s]; the end of the commands when left out.
        suspended: legs in the air, the base held still on a stand.
        hung: the robot hangs from a strap, free to swing and turn.
        gains: the motors' kp and kd are those that the log states.
        whole: replay all of a run's recording, also while the robot stood up, sat down or lay limp.
        hold: actuators that the log has no command for, kept at their default pose.
        json: print the gaps as JSON.
    """
    from surefoot.cli_recorded import held_word, read, robot_of, still
    from surefoot.errors import InputError
    from surefoot.sim.gap import gaps

    if e is not None and prior is not None:
        raise InputError("--e replays one robot and --prior many: leave out one of them")
    if params is not None and params.suffix not in (".toml", ".json"):
        raise InputError(
            f"'{params}' must be a .toml or .json file with Params: replay fits nothing, so it takes no names"
        )
    if draws is not None and prior is None:
        raise InputError("--draws says how many robots are drawn from a prior: give --prior FILE too, or leave it out")
    (recorded,) = read([log], mapping, whole=whole, one=True)
    name = robot if robot is not None else recorded.robot
    if name is None:
        raise InputError(f"{log} does not say which robot it is of: name one, as in 'surefoot replay {log} go2'")
    fit = None if e is None else _fit(e)
    sim = robot_of(
        name, [recorded], params=None if params is None else str(params), held=held_word(suspended, hung), gains=gains, fit=fit
    ).sim  # fmt: skip
    values = None if e is None else _values(e) if fit is None else fit.fit.e
    first, last = (float(f(c.t[k] for c in recorded)) for f, k in ((min, 0), (max, -1)))
    for option, at in (("start", start), ("stop", stop)):
        if at is not None and not first <= at <= last:
            raise InputError(f"--{option} {at:g} s lies outside the log, which runs from {first:g} to {last:g} s")
    recorded = _held(recorded, sim, still(hold, sim, [recorded]))
    if prior is not None:
        return _foreseen(sim, recorded, prior, draws=128 if draws is None else draws, start=start, stop=stop, json=json)
    found = gaps(sim.replay(recorded, values, start=start, stop=stop))
    rows = [vars(g) for g in found]
    answer(rows, lambda: _gap_table(rows, {"floor": "floor"}), json)
    return 0


def _held(log: "Log", sim: "Sim", hold: tuple[str, ...]) -> "Log":
    """The log with commands that keep the actuators `hold` at their default pose."""
    import numpy as np

    if not hold or sim.command_channel not in log:
        return log
    channel, others = log[sim.command_channel], [c for c in log if c.name != sim.command_channel]
    kept = [i for i, c in enumerate(channel.columns) if c not in hold]
    rest = [float(sim.rest_command[sim.command_names.index(name)]) for name in hold]
    values = np.concatenate([channel.values[:, kept], np.tile(rest, (len(channel), 1))], axis=1)
    columns = (*(channel.columns[i] for i in kept), *hold)
    unit = ", ".join([*(channel.units[i] for i in kept), *(channel.units[0] for _ in hold)])
    return replace(log, channels=(replace(channel, values=values, columns=columns, unit=unit), *others))


def _foreseen(
    sim: "Sim", log: "Log", prior: Path, *, draws: int, start: float | None, stop: float | None, json: bool
) -> int:
    """Print the gap between a log and the mean over robots drawn from a prior, and how many readings lie in 90 % of the draws."""
    from surefoot.cli_recorded import belief_of
    from surefoot.identify import foresee
    from surefoot.sim.gap import missed

    belief = belief_of(prior, sim.robot)
    assert belief is not None
    shown = foresee(sim, log, belief, draws=draws, start=start, stop=stop)
    if shown.diverged:
        tell(f"{shown.diverged} of {draws} draws left the numbers and are left out")
    rows = []
    for name, mean in shown.mean.items():
        channel, inside = shown.log[name].pick(shown.columns[name]), shown.inside(name)
        for i, column in enumerate(channel.columns):
            rms, worst, bias, missing = missed(channel.values[:, i], mean[:, i])
            rows.append({
                "channel": name, "column": column, "unit": channel.units[i], "rms": rms, "worst": worst, "bias": bias,
                "inside": float(inside[i]), "missing": missing,
            })  # fmt: skip
    answer(rows, lambda: _gap_table(rows, {"inside": "inside 90 %"}), json)
    return 0


def _gap_table(rows: list[dict[str, Any]], more: dict[str, str]) -> str:
    """Gaps by column, with `more` numbers by key and title; where readings are missing, how many."""
    numbers = {"rms": "rms", "worst": "worst", "bias": "bias", **more}
    last = ("unit", "missing") if any(row["missing"] for row in rows) else ("unit",)
    lines = [(r["channel"], r["column"], *(f"{r[n]:.4g}" for n in numbers), *(str(r[n]) for n in last)) for r in rows]
    return table([("channel", "column", *numbers.values(), *last), *lines])


def _fit(path: Path) -> "FitFile | None":
    """The fit in a file, None where it holds something else."""
    from surefoot.cli_recorded import fit_in

    try:
        data = json_format.loads(path.read_text(encoding="utf-8")) if path.suffix == ".json" else None
    except (OSError, ValueError):
        return None
    return fit_in(path) if isinstance(data, dict) and "fit" in data else None


def _numbers(value: Any) -> bool:
    """Whether a value is a number or a list of them."""
    if isinstance(value, list):
        return all(_numbers(v) for v in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(path: Path) -> dict[str, Any]:
    """e from a file: {"e": {name: number or list}} or the inner table alone, for a single world."""
    import tomllib

    from surefoot.errors import InputError

    if path.suffix not in (".toml", ".json"):
        raise InputError(f"'{path}' must be a .toml or .json file with values of Params, or a fit")
    try:
        text = path.read_text(encoding="utf-8")
        data = json_format.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read values of e from '{path}': {error}") from None
    values = data.get("e", data) if isinstance(data, dict) else data
    if not isinstance(values, dict) or not all(_numbers(v) for v in values.values()):
        raise InputError(f"'{path}' must hold a table of numbers by param, such as foot_friction = 0.6")
    return {name: [value] for name, value in values.items()}
