"""What the commands on recordings share: the logs as they were meant, and the robot as it was held and tuned when they were made."""

import dataclasses
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.errors import InputError, choose, did_you_mean

if TYPE_CHECKING:
    from surefoot.identify import Fit
    from surefoot.logs import Log
    from surefoot.params import Params, Prior
    from surefoot.robots import Robot
    from surefoot.sim import Sim

WIDE = 10.0
"""How far the bounds of a stated gain reach beyond the values that logs state: it is not fitted."""


@dataclass(frozen=True)
class FitFile:
    """A fit, and the file that it was read from, so that a refusal can name it."""

    file: Path
    fit: "Fit"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Logs with the robot that made them.

    Attributes:
        sim: of the robot as it was held and tuned.
        only: which of its Params are meant; None: all of its own.
        logs: what was recorded.
        judges: of these, such as only judge a fit.
        stated: for each log, then each judge, the values that it states for itself, where logs differ in them.
    """

    sim: "Sim"
    only: list[str] | None
    logs: "list[Log]"
    judges: "list[Log]"
    stated: list[dict[str, float]] | None

    def any_robot(self) -> "Prior":
        """p(e) of any robot of the kind: anything between the bounds. Values that logs state for themselves are no unknowns of a robot."""
        return self.sim.params.without(*(self.stated[0] if self.stated else ())).prior()


def recorded(
    name: str,
    paths: Sequence[Path],
    *,
    judges: Sequence[Path] = (),
    params: str | None = None,
    mapping: str | None = None,
    held: str = "",
    gains: bool = False,
    whole: bool = False,
    fit: "FitFile | None" = None,
) -> Recorded:
    """Read logs and make the robot that they are of.

    Args:
        name: of the robot, or its file.
        paths: log files or folders.
        judges: the same for logs that only judge.
        params: .toml or .json file with the Params, or names of the robot's own; all of its own when None.
        mapping: name of a bundled mapping, or a mapping file.
        held: "suspended", "hung" or "".
        gains: whether the motors' kp and kd are those that the logs state.
        whole: keep all of a run, also while no policy or motion drove.
        fit: whose Params the robot has besides its own; of this robot.
    """
    fitted = read(paths, mapping, whole=whole)
    judging = read(judges, mapping, whole=whole) if judges else []
    found = robot_of(name, [*fitted, *judging], params=params, held=held, gains=gains, fit=fit)
    return dataclasses.replace(found, logs=fitted, judges=judging)


def robot_of(
    name: str,
    logs: "list[Log]",
    *,
    params: str | None = None,
    held: str = "",
    gains: bool = False,
    fit: "FitFile | None" = None,
) -> Recorded:
    """The robot that logs are of, as it was held and tuned; arguments as for `recorded`."""
    from surefoot.params import Params
    from surefoot.robots import load
    from surefoot.sim import Sim

    robot = load(name)
    _refuse_logs_of_others(robot, logs)
    if fit is not None:
        same_robot(fit, robot)
    _say_held(logs, held)
    if held:
        robot = robot.hung() if held == "hung" else robot.suspended()
    own, only = robot.params, None
    if params is not None and Path(params).suffix in (".toml", ".json"):
        own = Params.load(params)
    elif params is not None:
        only = names(params)
        own.only(*(only or ()))
    if fit is not None and params is None:
        known = {} if fit.fit.known is None else dict(fit.fit.known)
        own = Params(**{**dict(own), **known, **dict(fit.fit.params)})
    stated = None
    if gains:
        robot, own, stated = _with_gains(robot, own, logs)
        only = [n for n in own if n not in (stated[0] if stated else ())] if only is None and stated else only
    else:
        _say_gains(robot, logs)
    _say_strangers(robot, logs)
    return Recorded(sim=Sim(robot, own, noise=False), only=only, logs=logs, judges=[], stated=stated)


def names(words: str | None) -> list[str] | None:
    """Names in a list with commas."""
    return None if words is None else [w.strip() for w in words.split(",") if w.strip()]


def read(paths: Sequence[Path], mapping: str | None, *, whole: bool = False, one: bool = False) -> "list[Log]":
    """All logs of files and folders; of runs only the part in which a policy or a motion drove, unless the `whole` is wanted.

    With `one`, anything but a single log is refused.
    """
    from surefoot.deploy.trajectory import played
    from surefoot.logs import read_logs

    if not paths:
        raise InputError("name at least one log file or folder")
    out = []
    for path in paths:
        for log in read_logs(path, mapping=mapping):
            if "action" in log and "motor_kp" in log and not whole:
                part = played(log)
                if part.duration < log.duration - 0.05:
                    _note(
                        f"{path.name}: only the {part.duration:.4g} of {log.duration:.4g} s in which the policy or motion drove are used"
                    )
                log = part
            out.append(log)
    if one and len(out) != 1:
        raise InputError(f"{paths[0]} holds {len(out)} logs, and one is wanted: name its file")
    return out


def held_word(suspended: bool, hung: bool) -> str:
    """How a robot is held in the air: "suspended", "hung", or "" where it is not."""
    if suspended and hung:
        raise InputError("--suspended holds the base still and --hung lets it swing: give one of the two")
    return "suspended" if suspended else "hung" if hung else ""


def same_robot(found: FitFile, robot: "Robot") -> None:
    """Refuse a fit of another robot, whose values would mean something else here; how a robot is held makes it no other."""
    theirs = str(found.fit.provenance.get("robot", robot.name))
    if _bare(theirs) != _bare(robot.name):
        raise InputError(
            f"'{found.file}' is a fit of {theirs}, here is {robot.name}: give a fit of {_bare(robot.name)}"
        )


def _bare(name: str) -> str:
    """Name of a robot however it is held."""
    return name.removesuffix("_suspended").removesuffix("_hung")


def fit_in(file: Path | None, robot: "Robot | None" = None) -> FitFile | None:
    """The fit in a file; a file without one, or with one of another robot, is refused."""
    from surefoot.identify import load_fit

    if file is None:
        return None
    if file.suffix != ".json":
        raise InputError(
            f"'{file}' is no fit, which is a .json file: give the one that `surefoot identify --out` wrote"
        )
    found = FitFile(file, load_fit(file))
    if robot is not None:
        same_robot(found, robot)
    return found


def belief_of(file: Path | None, robot: "Robot") -> "Prior | None":
    """A Prior from a file of one, or of a fit of this robot, whose posterior it is.

    A file of a prior, such as `--another` writes, names no robot: it is refused only where its Params are.
    """
    import json

    from surefoot.identify import load_fit
    from surefoot.params import Prior

    if file is None:
        return None
    if file.suffix == ".json":
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read a prior from '{file}': {error}") from None
        if isinstance(data, dict) and "fit" in data:
            found = FitFile(file, load_fit(file))
            same_robot(found, robot)
            return found.fit.posterior
    return Prior.load(file)


def values_of(words: str | None) -> dict[str, Any] | None:
    """Values of Params from "name=value,name=value"; of a Param with several values, all have the one."""
    if words is None:
        return None
    out: dict[str, Any] = {}
    for word in names(words) or []:
        name, equals, value = word.partition("=")
        try:
            out[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(
                f"'{word}' is no value of a Param: write name=number, such as arm_mass=0.12, with commas between several"
            )
    return out


def as_e(sim: "Sim", values: dict[str, Any] | None) -> dict[str, Any] | None:
    """An e of one world in which every element of a Param has the given number."""
    import numpy as np

    if values is None:
        return None
    nominal = sim.params.nominal_e(1)
    for name in values:
        if name not in nominal:
            raise InputError(f"'{name}' is not a param of this sim {did_you_mean(name, nominal)}")
    return {name: np.full_like(nominal[name], value) for name, value in values.items()}


def writable(*files: Path | None) -> None:
    """Refuse targets that cannot be written before any work is done."""
    import tempfile

    for file in files:
        if file is None:
            continue
        if file.is_dir():
            raise InputError(f"'{file}' is a folder: name a file to write")
        folder = next(p for p in file.absolute().parents if p.exists())
        try:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{file.name[:100]}."):
                pass
        except OSError:
            raise InputError(
                f"'{file}' cannot be written: '{folder}' is not a folder that this user may write to, name another"
            ) from None


def apart_from_each_other(targets: Mapping[str, Path | None], sources: Mapping[str, Path | None]) -> None:
    """Refuse two options that write the same file, and one that writes over what another reads."""
    taken: dict[Path, str] = {}
    for reads, files in ((True, sources), (False, targets)):
        for option, file in files.items():
            if file is None:
                continue
            other = taken.setdefault(file.resolve(), option)
            if other != option and not reads:
                does = "is read by" if other in sources else "is also written by"
                raise InputError(f"'{file}' of {option} {does} {other}, and would be lost: name another file")


def still(words: str | None, sim: "Sim", logs: "list[Log]") -> tuple[str, ...]:
    """Actuators that are kept at their default pose; what the logs command of them is left aside, and that is said."""
    held = tuple(names(words) or ())
    for name in held:
        choose(name, sim.command_names, f"an actuator of '{sim.robot.name}'")
        having = [i + 1 for i, log in enumerate(logs) if _commands_of(log, sim, name)]
        if having:
            which = (
                "the log's" if len(logs) == 1 else f"log {having[0]}'s" if len(having) == 1 else f"{len(having)} logs'"
            )
            _note(
                f"--hold {name} keeps it at its default pose, so {which} commands for it are not used: leave it out to use them"
            )
    return held


def _commands_of(log: "Log", sim: "Sim", name: str) -> bool:
    return sim.command_channel in log and name in log[sim.command_channel].columns


def _with_gains(
    robot: "Robot", own: "Params", logs: "list[Log]"
) -> "tuple[Robot, Params, list[dict[str, float]] | None]":
    """The robot with the position gains that all logs state, or, where these differ, with a value for each log."""
    from surefoot.params import CONSTRUCTORS, Params

    stated = [(log.meta.get("kp"), log.meta.get("kd")) for log in logs]
    lacking = [i + 1 for i, (kp, kd) in enumerate(stated) if kp is None or kd is None]
    if lacking:
        raise InputError(
            f"--gains takes kp and kd from the logs, and log {lacking[0]} states kp {stated[lacking[0] - 1][0]} and kd "
            f"{stated[lacking[0] - 1][1]}: leave out --gains, or give logs with both among their constants"
        )
    pairs = [(float(kp), float(kd)) for kp, kd in stated if kp is not None and kd is not None]
    own = own.without(*[n for n, p in own.items() if p.kind in ("kp", "kd")])
    actuators = tuple(dataclasses.replace(a, kp=pairs[0][0], kd=pairs[0][1]) for a in robot.actuators)
    robot = dataclasses.replace(robot, actuators=actuators, params=robot.params.without(
        *[n for n, p in robot.params.items() if p.kind in ("kp", "kd")]
    ))  # fmt: skip
    digest = hashlib.sha256(f"{robot.hash} gains {sorted(set(pairs))}".encode()).hexdigest()
    robot = dataclasses.replace(robot, hash=digest)
    if len(set(pairs)) == 1:
        return robot, own, None
    more = {}
    for k, kind in enumerate(("kp", "kd")):
        values = [pair[k] for pair in pairs]
        more[f"stated_{kind}"] = CONSTRUCTORS[kind](
            ".*", low=max(min(values) / WIDE, 1e-9), high=max(values) * WIDE + 1e-6, nominal=values[0]
        )
    return robot, Params(**{**dict(own), **more}), [{"stated_kp": kp, "stated_kd": kd} for kp, kd in pairs]


def _note(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _refuse_logs_of_others(robot: "Robot", logs: "list[Log]") -> None:
    """Logs that say they are of another robot and have no joint of this one."""
    for log in logs:
        columns = {c for channel in log if channel.name.startswith("joint_") for c in channel.columns}
        if log.robot and _bare(log.robot) != _bare(robot.name) and columns and not columns & set(robot.joints):
            raise InputError(
                f"the log is of {log.robot}, and {robot.name} was named: they have no joint in common, name {log.robot} or give "
                f"logs of {robot.name}"
            )


def _say_held(logs: "list[Log]", held: str) -> None:
    stated = {str(log.meta["held"]) for log in logs if "held" in log.meta}
    if stated and not held:
        wanted, how = "--hung" if stated == {"hung"} else "--suspended", ", ".join(sorted(stated))
        _note(f"the logs say that the robot was held in the air ({how}); here it stands: {wanted} holds it")


def _say_gains(robot: "Robot", logs: "list[Log]") -> None:
    """Logs that state both gains of a position loop, others than the robot file's."""
    stated = sorted(
        {(float(log.meta["kp"]), float(log.meta["kd"])) for log in logs if "kp" in log.meta and "kd" in log.meta}
    )
    here = sorted({(a.kp, a.kd) for a in robot.actuators if a.model == "pd"})
    if stated and here and stated != here:
        said = " and ".join(f"kp {kp:g}, kd {kd:g}" for kp, kd in stated)
        _note(f"the logs state {said}; here the motors have those of the robot file: --gains takes the logs'")


def _say_strangers(robot: "Robot", logs: "list[Log]") -> None:
    """Columns of joints that the robot has not: they cannot be compared."""
    for column in sorted(
        {c for log in logs for channel in log if channel.name.startswith("joint_") for c in channel.columns}
    ):
        if column not in robot.joints:
            _note(
                f"the logs have a joint '{column}', which {robot.name} has not: it is left out {did_you_mean(column, robot.joints)}"
            )
