"""Why a term was tried and taken: where the errors of the structure before it lie.

Every sentence compares the mean absolute error where the term would act with the error elsewhere, or gives the one number that the
term would remove: a lag, an offset.
"""

from dataclasses import dataclass

import numpy as np

TURNS = 0.1
"""Share of what a motor is asked for, root mean square, that it must give the other way to have turned."""
WINDOW = 0.1
"""[s] Length of the windows after a turn of the motor in which errors are compared."""
WINDOWS = 5
"""Number of these windows."""
FEW = 0.02
"""Share of the readings that a window must hold to be named."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """Errors of one structure over several logs, on their samples; all arrays (N,).

    Attributes:
        error: replay minus log [rad].
        asked: firmware gain times |command - position|, relative: what the motor is asked to give.
        speed: measured speed [rad/s], signed.
        load: torque of the weight on the joint over its largest, signed; None where it is not known.
        gain: firmware gain of the log over the reference.
        pull: sign of command minus position.
        turned: time since the motor last began to pull the other way [s], inf before the first time; None where it is not known.
    """

    error: np.ndarray
    asked: np.ndarray
    speed: np.ndarray
    load: np.ndarray | None
    gain: np.ndarray
    pull: np.ndarray
    turned: np.ndarray | None = None


def since_turn(t: np.ndarray, torque: np.ndarray) -> np.ndarray:
    """Time since a motor last began to pull the other way [s], (N,), of one joint's times and of what it is asked for, signed.

    Play in a gear is crossed from then on; little to and fro around zero is no turn.
    """
    clear = np.abs(torque) > TURNS * np.sqrt((torque**2).mean())
    at = np.flatnonzero(clear)
    turns = at[1:][np.sign(torque[at[1:]]) != np.sign(torque[at[:-1]])]
    last = np.searchsorted(turns, np.arange(len(t)), side="right") - 1
    out = np.full(len(t), np.inf)
    out[last >= 0] = (t - t[turns[last]])[last >= 0] if len(turns) else 0.0
    return out


def _apart(error: np.ndarray, where: np.ndarray, words: str) -> str:
    """Errors inside and outside of `where`; where one of the two is empty there is nothing to compare."""
    if where.all() or not where.any():
        share = "all readings lie" if where.all() else "no reading lies"
        return f"{1e3 * np.abs(error).mean():.0f} mrad; {share} {words}"
    inside, outside = np.abs(error[where]).mean(), np.abs(error[~where]).mean()
    return f"{1e3 * inside:.0f} mrad {words}, {1e3 * outside:.0f} elsewhere"


def _under_load(sign: str, r: Residuals) -> str:
    size = f"{1e3 * np.abs(r.error).mean():.0f} mrad"
    if r.load is None:
        return f"{size}; the load on the joint is not known, so where they lie cannot be said"
    if not r.load.any():
        return f"{size}; no weight loads the joint"
    if sign == "opposed":
        return _apart(r.error, r.pull * r.load < 0, "where motor and load oppose")
    return _apart(r.error, np.abs(r.load) >= np.quantile(np.abs(r.load), 0.7), "under the largest load")


def _after_turns(r: Residuals) -> str:
    """The window after the motor's turns in which errors are largest: play is crossed first, and only then do readings part."""
    e = np.abs(r.error)
    if r.turned is None:
        return f"{1e3 * e.mean():.0f} mrad; when the motor turned is not known, so where they lie cannot be said"
    found = []
    for k in range(WINDOWS):
        where = (r.turned >= k * WINDOW) & (r.turned < (k + 1) * WINDOW)
        if where.mean() >= FEW:
            found.append((e[where].mean(), k, where))
    if not found:
        return f"{1e3 * e.mean():.0f} mrad; the motor hardly ever turns"
    _, k, where = max(found, key=lambda x: x[0])
    low, high = (1e3 * WINDOW * n for n in (k, k + 1))
    return _apart(r.error, where, f"{low:.0f} to {high:.0f} ms after the motor begins to pull the other way")


def reason(sign: str, r: Residuals) -> str:
    """One sentence about the errors `r` of the structure before the term whose sign is given."""
    e, v = r.error, np.abs(r.speed)
    if sign == "asked":
        text = "errors are " + _apart(e, r.asked >= np.quantile(r.asked, 0.8), "where most torque is asked for")
        levels = np.unique(r.gain)
        if len(levels) > 1:
            low, high = (1e3 * np.abs(e[r.gain == g]).mean() for g in (levels[0], levels[-1]))
            text += f"; they go from {low:.0f} mrad at the lowest gain to {high:.0f} at the highest"
        return text
    if sign == "slow":
        return "errors are " + _apart(e, v <= np.quantile(v, 0.3), "where the joint is slowest")
    if sign == "fast":
        return "errors are " + _apart(e, v >= np.quantile(v, 0.8), "where the joint is fastest")
    if sign in ("load", "opposed"):
        return "errors are " + _under_load(sign, r)
    if sign == "reversal":
        return "errors are " + _after_turns(r)
    if sign == "lag":
        moving = r.speed**2
        lag = float((e * r.speed).sum() / max(moving.sum(), 1e-12))
        return f"the replay is {1e3 * abs(lag):.1f} ms {'ahead of' if lag > 0 else 'behind'} the log where it moves"
    return f"the mean error is {1e3 * e.mean():+.1f} mrad"
