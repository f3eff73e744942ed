"""How p(e) moves during training: what every schedule can do, and the one that does not move.

    schedule.prior                          what the next episodes draw e from
    schedule.record(e, success, returns)    results of ended episodes, a row each
    schedule.update()                       True when the prior changed: give `schedule.prior` to the worlds

A schedule draws no random numbers of its own and keeps everything it knows in `state()`, so that a training which goes
on from a checkpoint moves p(e) as the uninterrupted one does.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from surefoot.errors import InputError
from surefoot.params import Params, Prior


@runtime_checkable
class Schedule(Protocol):
    """How p(e) moves during training."""

    @property
    def prior(self) -> Prior:
        """What to draw e from now."""
        ...

    def record(self, e: Mapping[str, Any], success: Any, returns: Any) -> None:
        """Take in ended episodes: e with k rows, success (k,) in 0..1 or NaN where undefined, returns (k,)."""
        ...

    def update(self) -> bool:
        """Move the prior if the results ask for it; True when it changed."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything that decides what happens next, as plain data that JSON keeps exactly."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state()` of a schedule made with the same arguments."""
        ...

    @property
    def summary(self) -> str:
        """One line for the progress log."""
        ...


class Fixed:
    """p(e) stays what it is: plain domain randomization, θ* = argmax E_{e ~ p} J(θ, e)."""

    def __init__(self, prior: Prior):
        self._prior = checked_prior(prior)
        self._mark = mark("fixed", prior)

    @property
    def prior(self) -> Prior:
        """The prior it was given."""
        return self._prior

    def record(self, e: Mapping[str, Any], success: Any, returns: Any) -> None:
        """Check the results; nothing is kept."""
        rows(self._prior.params, e, success, returns)

    def update(self) -> bool:
        """Nothing ever changes."""
        return False

    def state(self) -> dict[str, Any]:
        """Which prior this is."""
        return dict(self._mark)

    def load(self, state: Mapping[str, Any]) -> None:
        """Check that the state is one of the same schedule."""
        checked_state(state, self._mark)

    @property
    def summary(self) -> str:
        """One line for the progress log."""
        return f"fixed prior over {self._prior.params.d} scalars"


# ---------------------------------------------------------------- what the schedules share


def rows(params: Params, e: Mapping[str, Any], success: Any, returns: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Results as arrays: values (k, d) in natural units, success (k,), returns (k,).

    Nothing at all (no episode ended) is k = 0. Success outside 0..1 and rows that do not match are refused.
    """
    success, returns = (np.asarray(x, dtype=float).reshape(-1) for x in (success, returns))
    k = len(success)
    if len(returns) != k:
        raise InputError(f"success has {k} rows and returns {len(returns)}: give one of each for every ended episode")
    if k == 0:
        return np.zeros((0, params.d)), success, returns
    values = params.flatten(e)
    if len(values) != k:
        raise InputError(f"e has {len(values)} rows for {k} ended episodes: give one row each")
    known = success[~np.isnan(success)]
    if ((known < 0.0) | (known > 1.0)).any():
        raise InputError(f"success lies between 0 and 1 (NaN where undefined), got {known.max():g} and {known.min():g}")
    return values, success, returns


def mark(kind: str, prior: Prior, **settings: Any) -> dict[str, Any]:
    """What a state must agree in with the schedule that loads it: its kind, its prior and its settings."""
    return {"schedule": kind, "of": prior.hash, "settings": settings}


def checked_state(state: Mapping[str, Any], expected: Mapping[str, Any], keys: tuple[str, ...] = ()) -> None:
    """Raise unless `state` was written by a like schedule and holds `keys`."""
    if not isinstance(state, Mapping) or state.get("schedule") != expected["schedule"]:
        given = state.get("schedule") if isinstance(state, Mapping) else state
        raise InputError(
            f"this is the state of a {given!r} schedule, not of '{expected['schedule']}': use the one it came from"
        )
    if state.get("of") != expected["of"]:
        raise InputError(
            f"the state of this '{expected['schedule']}' schedule belongs to another prior: give the one it was begun with (--prior), or "
            "begin anew elsewhere"
        )
    then, now = state.get("settings", {}), expected["settings"]
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            raise InputError(
                f"the state was written with {name}={then.get(name)!r}, this '{expected['schedule']}' schedule has "
                f"{now.get(name)!r}: make it with the same settings"
            )
    missing = [key for key in keys if key not in state]
    if missing:
        raise InputError(
            f"the state of this '{expected['schedule']}' schedule lacks {', '.join(missing)}: it was cut short"
        )


def checked_prior(prior: Prior) -> Prior:
    """The prior itself, or the sentence that says what was given instead."""
    if not isinstance(prior, Prior):
        raise InputError(f"a schedule starts from a Prior such as params.prior(), not {type(prior).__name__}")
    return prior


def between(low: float, high: float, *, closed: bool = True, **given: float) -> None:
    """Raise unless every setting lies in [low, high], or in (low, high] when not `closed`."""
    for name, value in given.items():
        good = low <= value <= high if closed else low < value <= high
        if not (isinstance(value, int | float) and not isinstance(value, bool) and good):
            raise InputError(f"{name} must lie {'' if closed else 'above '}{low:g} to {high:g}, got {value!r}")


def counts(**given: int) -> None:
    """Raise unless every setting is a whole number from 1."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} must be a whole number from 1, got {value!r}")
