"""What a fit by inverse dynamics is given: anything that is wrong is refused by name, before time is spent on it."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.logs import Log
from surefoot.params import E
from surefoot.sim import Sim


def refuse_unknown(what: str, names: Iterable[str], *functions: Callable[..., Any]) -> None:
    """Refuse names that are no argument of any of the functions."""
    known = [n for f in functions for n, p in inspect.signature(f).parameters.items() if p.kind is p.KEYWORD_ONLY]
    for name in names:
        if name not in known:
            raise InputError(f"'{name}' is not an argument of {what} {did_you_mean(name, known, most=len(known))}")


def given_logs(what: str, logs: Any) -> tuple[Log, ...]:
    """One log, or several, as a tuple."""
    out = tuple(logs) if isinstance(logs, Iterable) and not isinstance(logs, Log) else (logs,)
    for log in out:
        if not isinstance(log, Log):
            raise InputError(f"{what} holds {log!r}, which is not a Log: read files with read_logs")
    return out


def given_e(what: str, e: Any, sim: Sim) -> E:
    """Values of Params by name as an e of one world; empty where none are given."""
    if e is None:
        return {}
    if not isinstance(e, Mapping):
        raise InputError(f"{what}={e!r} is not an e: give values by the names of Params, {', '.join(sim.params)}")
    return sim.params.check(e, 1)


def given_names(sim: Sim, only: Any, known: Mapping[str, Any]) -> list[str]:
    """Names of the Params to fit: those of `only`, or all whose values are not known."""
    if only is None:
        names = [name for name in sim.params if name not in known]
    else:
        names = list(only) if isinstance(only, Iterable) and not isinstance(only, str) else [only]
    if not names:
        raise InputError("there is nothing to fit: name at least one Param of this sim")
    for name in names:
        if not isinstance(name, str):
            raise InputError(
                f"only= holds {name!r}, which is not the name of a Param: give names, {', '.join(sim.params)}"
            )
    return names


def positive(what: str, value: Any) -> float | None:
    """A number above zero, or None."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if value is not None and not (number and 0.0 < value < np.inf):
        raise InputError(f"{what}={value!r} is not a number above zero: give one, or leave it out")
    return None if value is None else float(value)


def whole(what: str, value: Any) -> int | None:
    """A whole number from 1 on, or None."""
    number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if value is not None and not (number and value >= 1):
        raise InputError(f"{what}={value!r} is not a whole number from 1 on: give one, or leave it out")
    return None if value is None else int(value)
