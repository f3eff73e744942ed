"""The fitted scalars as positions s between their bounds: 0 at `low`, 1 at `high`, on the scalar's own scale.

    s = (v - low) / (high - low)   or   log(v / low) / log(high / low)          packed z = logit(s), see Params

A solver that works in s can reach a bound and leave it again; in z a bound lies at infinity, where every derivative vanishes.
"""

import numpy as np

from surefoot.params import E, Params


def straight(params: Params) -> Params:
    """The same bound Params, all on linear scales."""
    plain = Params(**{name: param.replace(scale="linear") for name, param in params.items()})
    nominal = params.nominal_e(1)
    return plain.bind(params.elements, {name: nominal[name][0] for name in params})


def packed(s: np.ndarray) -> np.ndarray:
    """Packed coordinates z = logit(s); ±inf at a bound."""
    s = np.clip(np.asarray(s, float), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.log(s) - np.log1p(-s)


def shares(params: Params, e: E) -> np.ndarray:
    """Positions between the bounds, (worlds, d), of e in natural units; values at or beyond a bound lie on it."""
    v, low, high, log = params.flatten(e), params.low, params.high, params.log
    with np.errstate(divide="ignore", invalid="ignore"):
        linear = (v - low) / np.where(high > low, high - low, 1.0)
        ratio = np.log(np.where(log, v / np.where(log, low, 1.0), 1.0)) / np.log(
            np.where(log, high / np.where(log, low, 1.0), np.e)
        )
    return np.clip(np.where(log, ratio, linear), 0.0, 1.0)


def natural(params: Params, s: np.ndarray) -> np.ndarray:
    """Natural units (..., d) of positions s (..., d) between the bounds."""
    low, high, log = params.low, params.high, params.log
    s = np.clip(s, 0.0, 1.0)
    return np.where(
        log, np.where(log, low, 1.0) * np.where(log, high / np.where(log, low, 1.0), 1.0) ** s, low + s * (high - low)
    )


def slopes(params: Params, s: np.ndarray) -> np.ndarray:
    """dv/ds of every scalar at s (d,), (d,)."""
    low, high, log = params.low, params.high, params.log
    return np.where(log, natural(params, s) * np.log(np.where(log, high / np.where(log, low, 1.0), np.e)), high - low)
