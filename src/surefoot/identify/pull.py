"""A prior as a fit uses it: a box, and a quadratic pull where the prior is not flat.

    cost(s) = (s - mean)ᵀ precision (s - mean),   s between 0 (low) and 1 (high)

A belief that is uniform, in v or in ln v, pulls nowhere, whatever the scale of the Param; over less than the bounds it narrows the box.
Anything else (normal, samples, an earlier posterior) is matched by its mean and covariance in s, inside the box of what it holds possible.
Where the data say nothing, a uniform belief stands as a normal one about the nominal value, as wide as the box seen from there.
"""

from dataclasses import dataclass

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.coordinates import shares
from surefoot.params import LogUniform, Params, Prior, Uniform
from surefoot.params.pieces import Marginal

DRAWS = 4096
"""Draws that the mean and covariance of a prior are taken from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pull:
    """What is believed before the fit, in s.

    Attributes:
        mean: centre of the belief, (d,); the nominal value where it is flat.
        precision: of the pull, (d, d); zero rows where the belief is flat.
        covariance: of the belief itself, flat ones included, (d, d).
        low, high: the box, (d,), within 0 and 1.
    """

    mean: np.ndarray
    precision: np.ndarray
    covariance: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def cost(self, s: np.ndarray) -> np.ndarray:
        """Pull at s (k, d), (k,)."""
        away = np.atleast_2d(s) - self.mean
        return np.array([a @ self.precision @ a for a in away])  # a row's bits do not depend on the others


def pull_of(params: Params, prior: Prior | None, *, log: np.ndarray | None = None) -> Pull:
    """The box and the pull of a prior on the scalars of `params`; a scalar it does not hold is flat.

    `log` (d,) says of which scalars a flat belief is flat in the logarithm although s is linear in them.
    """
    d, names = params.d, params.names
    low, high, flat = np.zeros(d), np.ones(d), np.ones(d, dtype=bool)
    nominal = shares(params, params.nominal_e(1))[0]
    bent = np.zeros(d, dtype=bool) if log is None else log & ~params.log
    mean, covariance = nominal.copy(), np.diag([_about(params, i, nominal[i], bent[i]) for i in range(d)])
    precision = np.zeros((d, d))
    if prior is None:
        return Pull(mean=mean, precision=precision, covariance=covariance, low=low, high=high)
    known = [name for name in params if name in prior.params]
    if not known:
        raise InputError(f"the prior holds none of {', '.join(params)}: give one over the Params that are fitted")
    draws = {name: v for name, v in prior.sample(DRAWS, 0).items() if name in params}
    for name in params:
        if name not in draws:
            draws[name] = np.broadcast_to(params.nominal_e(1)[name], (DRAWS, *params.nominal_e(1)[name].shape[1:]))
    s = shares(params, draws)
    for i, label in enumerate(names):
        if label not in prior.params.names:
            continue
        piece = prior.product.of(label)
        if isinstance(piece, Marginal) and not piece.atomic(label):
            low[i], high[i] = _box(params, i, piece)
            if isinstance(piece.distribution, Uniform | LogUniform):
                mean[i] = np.clip(nominal[i], low[i], high[i])
                covariance[i, i] = np.mean((_quantiles(params, i, piece) - mean[i]) ** 2) + 1e-12
                continue
        flat[i] = False
    held = np.flatnonzero(~flat)
    if len(held):
        block = np.atleast_2d(np.cov(s[:, held], rowvar=False)) + 1e-12 * np.eye(len(held))
        mean[held] = s[:, held].mean(0)
        covariance[np.ix_(held, held)] = block
        precision[np.ix_(held, held)] = np.linalg.inv(block)
    return Pull(mean=mean, precision=precision, covariance=covariance, low=low, high=high)


def _box(params: Params, i: int, piece: Marginal) -> np.ndarray:
    """Positions of the ends of what a belief about scalar i holds possible, (2,), within the bounds."""
    low, high = piece.support(piece.label)
    if not max(low, params.low[i]) < min(high, params.high[i]):
        raise InputError(
            f"the prior holds '{piece.label}' between {low:g} and {high:g}, and this sim's bounds are {params.low[i]:g} and "
            f"{params.high[i]:g}: give a prior or bounds that share a range"
        )
    return _positions(params, i, np.clip([low, high], params.low[i], params.high[i]))


def _quantiles(params: Params, i: int, piece: Marginal) -> np.ndarray:
    """Positions of a belief about scalar i at evenly spaced probabilities, within the bounds, (DRAWS,)."""
    first, last = piece.cdf(piece.label, np.array([params.low[i], params.high[i]]))
    even = first + (last - first) * (np.arange(DRAWS) + 0.5) / DRAWS
    return _positions(params, i, piece.quantile(piece.label, even))


def _positions(params: Params, i: int, values: np.ndarray) -> np.ndarray:
    """s of values of scalar i, the others being nominal."""
    rows = np.repeat(params.flatten(params.nominal_e(1)), len(values), axis=0)
    rows[:, i] = values
    return shares(params, params.unflatten(rows))[:, i]


def _about(params: Params, i: int, centre: float, log: bool) -> float:
    """Mean square distance from `centre` of a flat belief about scalar i between its bounds; `log`: flat in ln v."""
    if not log:
        return 1.0 / 12.0 + (0.5 - centre) ** 2 + 1e-12
    a, b = params.low[i], params.high[i]
    ratio = np.log(b / a)
    if ratio < 1e-6:
        return 1e-12
    first, second = (b - a) / ratio, (b**2 - a**2) / (2 * ratio)
    c = a + centre * (b - a)
    return float((second - 2 * c * first + c**2) / (b - a) ** 2) + 1e-12
