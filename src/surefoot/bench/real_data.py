"""Recordings of a bench: found below a folder by what their mapping says, never by a fixed list, and split into fit and judge.

With two folders the fit sees all of --train and is judged by all of --test; a set of which --test has nothing new is judged as with one.
With one, some of its recordings only judge, chosen by their place in the sorted list, so that a recording is never on both sides.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.bench.table import Mark, Request
from surefoot.errors import InputError
from surefoot.logs import Log, read_logs
from surefoot.robots import Robot

DEFAULT = Path(__file__).parents[3].parent / "shared" / "data"


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """Logs to fit to and to judge by, and where the judges come from in words."""

    fit: tuple[Log, ...]
    judge: tuple[Log, ...]
    origin: str


def data_folder(request: Request) -> Path:
    """Folder of the recordings to fit to: --train, else SUREFOOT_DATA, else ../shared/data from the project's root."""
    if request.train is not None:
        return request.train
    return Path(os.environ["SUREFOOT_DATA"]) if "SUREFOOT_DATA" in os.environ else DEFAULT


def logs_of(folder: Path, mapping: str, keep: Callable[[Log], bool] = lambda log: True) -> tuple[Log, ...]:
    """All logs below a folder that a bundled mapping describes and `keep` wants, in the order of their paths; () when none."""
    if not folder.is_dir():
        return ()
    try:
        found = read_logs(folder, mapping=mapping)
    except InputError as error:
        if "no file in" in str(error):
            return ()
        raise
    return tuple(log for log in found if keep(log))


def recordings(
    request: Request,
    mapping: str,
    keep: Callable[[Log], bool] = lambda log: True,
    *,
    judge: Callable[[Sequence[Log]], Sequence[Log]],
    test: Callable[[Log], bool] | None = None,
) -> Recordings | None:
    """The recordings of one set, split; None when there is none to fit to.

    Args:
        request: --train and --test.
        mapping: of the set.
        keep: which logs the set consists of.
        judge: given all logs of one folder, those that only judge.
        test: which logs of --test judge; those that `keep` wants when None.
    """
    every = logs_of(data_folder(request), mapping, keep)
    if not every:
        return None
    if request.test is not None:
        others = logs_of(request.test, mapping, test or keep)
        known = {log.hash for log in every}
        fresh = tuple(log for log in others if log.hash not in known)
        if fresh:
            return Recordings(fit=every, judge=fresh, origin=f"{len(fresh)} recordings of --test")
    chosen = {log.hash for log in judge(every)}
    fit, judges = tuple(x for x in every if x.hash not in chosen), tuple(x for x in every if x.hash in chosen)
    lacks = "" if request.test is None else "--test has none: "
    return Recordings(fit=fit, judge=judges, origin=f"{lacks}{len(judges)} recordings of the same folder, not fitted")


def hangs(log: Log) -> bool:
    """Whether a recording's robot hangs from a strap, as its mapping says."""
    return log.meta.get("held") == "hung"


def in_the_air(robot: Robot, log: Log) -> Robot:
    """A robot held as in a recording of its legs in the air, with the position gains that it states."""
    held = robot.hung() if hangs(log) else robot.suspended()
    if "kp" not in log.meta or "kd" not in log.meta:
        return held
    gains = {"kp": float(log.meta["kp"]), "kd": float(log.meta["kd"])}
    return dataclasses.replace(held, actuators=tuple(dataclasses.replace(a, **gains) for a in held.actuators))


def absent(name: str, why: str, unit: str = "1") -> Mark:
    """A row that says why there is no number."""
    return Mark(name=name, value=None, unit=unit, reference=why)
