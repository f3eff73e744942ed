"""Why a term was tried and taken: where the errors of the structure before it lie.

Every sentence compares the mean absolute error where the term would act with the error elsewhere, or gives the one number that the
term would remove: a lag, an offset.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """Errors of one structure over several logs, on their samples; all arrays (N,).

    Attributes:
        error: replay minus log [rad].
        asked: firmware gain times |command - position|, relative: what the motor is asked to give.
        speed: measured speed [rad/s], signed.
        load: torque of the load on the joint over its largest, signed; 0 where none is known.
        gain: firmware gain of the log over the reference.
        pull: sign of command minus position.
    """

    error: np.ndarray
    asked: np.ndarray
    speed: np.ndarray
    load: np.ndarray
    gain: np.ndarray
    pull: np.ndarray


def _apart(error: np.ndarray, where: np.ndarray, words: str) -> str:
    inside = float(np.abs(error[where]).mean()) if where.any() else 0.0
    outside = float(np.abs(error[~where]).mean()) if (~where).any() else 0.0
    return f"{1e3 * inside:.0f} mrad {words}, {1e3 * outside:.0f} elsewhere"


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
    if sign == "load":
        return "errors are " + _apart(e, np.abs(r.load) >= np.quantile(np.abs(r.load), 0.7), "under the largest load")
    if sign == "opposed":
        return "errors are " + _apart(e, r.pull * r.load < 0, "where motor and load oppose")
    if sign == "reversal":
        turning = np.concatenate([[False], np.sign(r.speed[1:]) != np.sign(r.speed[:-1])])
        return "errors are " + _apart(e, turning, "at reversals")
    if sign == "lag":
        moving = r.speed**2
        lag = float((e * r.speed).sum() / max(moving.sum(), 1e-12))
        return f"the replay is {1e3 * abs(lag):.1f} ms {'ahead of' if lag > 0 else 'behind'} the log where it moves"
    return f"the mean error is {1e3 * e.mean():+.1f} mrad"
