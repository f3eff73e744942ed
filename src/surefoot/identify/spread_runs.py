"""A spread by "runs": how likely each run is under p(e; φ), from what it says of its own e.

    p(y_w; φ) = ∫ p(y_w | e) p(e; φ) de  =  N(ê_w; μ, diag σ² + V_w) · Σ_m r_m w_m / Σ_m w_m
    r_m = p(y_w | e_m) / N(ê_w; e_m, V_w),   w_m = N(ê_w; e_m, V_w) p(e_m; φ) / q_w(e_m),   e_m ~ q_w

ê_w and V_w come from Gauss-Newton. The first factor is exact where readings are linear in e. The second says by how much the run's
likelihood is another one: bent, flat where the run tells nothing, with two peaks. Its draws are made once, half of them near what the run
says, half of them as wide as p(e); the same serve every φ.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.params import E, Params

Predict = Callable[[np.ndarray, E, np.ndarray], np.ndarray]
"""Numbers of runs (n,), e of n worlds, where they start (n, starts) in standard deviations of what is known of it -> what each of
these runs would have read under its own e, (n, readings)."""
NARROW = 1e-3
"""Smallest standard deviation that is looked for, as a share of a scalar's range."""
NONE = 1e-6
"""Standard deviation that counts as no spread at all, as a share of a scalar's range."""
START_STEP = 1e-2
"""Finite difference of a start, in standard deviations of what is known of it."""
LOST = 1e6
"""Error of a reading that left the numbers: larger than any other."""
MEMORY = 100e6
"""[bytes] Most that the predictions of one call for the draws of the runs may take."""
NEAR, WIDE = 1.3, 1.5
"""Draws are wider than what a run and the others say of its e, and than p(e), by these factors."""


class Axis:
    """Each scalar on the axis on which it is normal: natural, or ln on a log scale; kept inside its bounds."""

    def __init__(self, params: Params):
        self.params, self.log = params, params.log
        self.low = np.where(self.log, np.log(np.where(self.log, params.low, 1.0)), params.low)
        self.high = np.where(self.log, np.log(np.where(self.log, params.high, 1.0)), params.high)
        self.span = self.high - self.low

    def from_e(self, e: Mapping[str, Any]) -> np.ndarray:
        """(worlds, d) of e."""
        v = self.params.flatten(e)
        return np.where(self.log, np.log(np.where(self.log, v, 1.0)), v)

    def to_e(self, x: np.ndarray) -> E:
        """e of (worlds, d), cut at the bounds."""
        x = np.clip(x, self.low, self.high)
        v = np.where(self.log, np.exp(np.where(self.log, x, 0.0)), x)
        return self.params.unflatten(np.clip(v, self.params.low, self.params.high))


class OwnFits:
    """Every run's own e from a common start: min ‖(y_w − y(e, x)) / σ‖² + ‖x‖², readings weighed by their noise, starts x ~ N(0, 1).

    Attributes:
        values: on the axes, (runs, d).
        variance, covariance: what noise leaves open, (runs, d) and (runs, d, d).
        noise: σ, standard deviation of a reading, (readings,); one number for all of them where it was not given.
        begun: where each run started, (runs, starts).
    """

    def __init__(self, predict: Predict, seen: np.ndarray, axis: Axis, noise: Any, first: np.ndarray, starts: int):
        readings, d = seen.shape[1], len(first)
        free = readings - d - starts
        if noise is None and free <= 0:
            raise InputError(
                f"{readings} readings a run cannot tell noise from the spread of {d} scalars and {starts} starts: give more readings, "
                "or the noise"
            )
        self.noise = _noise(1e-2 * float(seen.std()) + 1e-300 if noise is None else noise, readings)
        self.predict, self.seen, self.axis = predict, seen, axis
        begin = (np.repeat(first[None], len(seen), axis=0), np.zeros((len(seen), starts)))
        self.values, self.begun, known, rest = _own(predict, seen, axis, begin, self.noise)
        for _ in range(2 if noise is None else 0):
            self.noise = _noise(np.sqrt(max(float((rest**2).sum(1).mean()) / free, 1e-300)), readings)
            self.values, self.begun, known, rest = _own(predict, seen, axis, (self.values, self.begun), self.noise)
        self.covariance = np.linalg.inv(known + np.diag((100.0 * axis.span) ** -2.0))
        self.variance = np.diagonal(self.covariance, axis1=1, axis2=2)

    def likely(self, x: np.ndarray) -> np.ndarray:
        """log p(y_w | e) of every run under each of its own x (draws, runs, d) on the axes, starts integrated out, (draws, runs).

        Readings are taken as linear in the start, about the one that was fitted.
        """
        (draws, runs, _), q, out = x.shape, self.begun.shape[1], np.empty(x.shape[:2])
        moves = np.concatenate([np.zeros((1, q)), START_STEP * np.eye(q)])[:, None, None]
        share = np.ceil(8.0 * draws * runs * (1 + q) * self.seen.shape[1] / MEMORY)
        for some in np.array_split(np.arange(runs), min(max(int(share), 1), runs)):
            shape = (1 + q, draws, len(some))
            which, e = np.broadcast_to(some, shape).reshape(-1), np.broadcast_to(x[:, some], (*shape, x.shape[2]))
            begun = np.broadcast_to(moves + self.begun[some], (*shape, q))
            y = self.predict(which, self.axis.to_e(e.reshape(-1, x.shape[2])), begun.reshape(len(which), q)).reshape(
                *shape, -1
            )
            J = np.nan_to_num(np.moveaxis((y[1:] - y[0]) / START_STEP, 0, -1)) / self.noise[:, None]
            rest = np.nan_to_num(self.seen[some] - y[0], nan=LOST) / self.noise
            rest = rest + np.einsum("mwrq,wq->mwr", J, self.begun[some])  # of a start at 0
            out[:, some] = normal_log(rest, J) - np.log(self.noise).sum()
        return out


def normal_log(r: np.ndarray, A: np.ndarray) -> np.ndarray:
    """log N(r; 0, A Aᵀ + 1) of r (..., readings) with A (..., readings, k), (...): only the smaller of A Aᵀ and Aᵀ A is made."""
    readings, k = A.shape[-2:]
    if readings <= k:
        factor = np.linalg.cholesky(A @ np.swapaxes(A, -1, -2) + np.eye(readings))
        white = np.linalg.solve(factor, r[..., None])[..., 0]
        square = (white**2).sum(-1)
    else:
        factor = np.linalg.cholesky(np.swapaxes(A, -1, -2) @ A + np.eye(k))
        white = np.linalg.solve(factor, np.einsum("...rk,...r->...k", A, r)[..., None])[..., 0]
        square = (r**2).sum(-1) - (white**2).sum(-1)
    size = 2 * np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    return -0.5 * (square + size + readings * np.log(2 * np.pi))


def _noise(given: Any, readings: int) -> np.ndarray:
    """σ of every reading, (readings,), from one number or one a reading."""
    sigma = np.asarray(given, dtype=float)
    if sigma.shape not in ((), (1,), (readings,)) or not (np.isfinite(sigma) & (sigma > 0)).all():
        raise InputError(f"noise must be one number above 0, or one for each of {readings} readings, got {given!r}")
    return np.broadcast_to(sigma, readings).copy()


def _own(
    predict: Predict, seen: np.ndarray, axis: Axis, begin: tuple[np.ndarray, np.ndarray], sigma: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Best e (runs, d) and start (runs, q) of every run, all at once by Levenberg-Marquardt; what is known of e, readings left over.

    The information (runs, d, d) is that of Jᵀ diag(σ⁻²) J with the starts integrated out.
    """
    (runs, d), q = begin[0].shape, begin[1].shape[1]
    span = np.concatenate([axis.span, np.full(q, 100.0)])
    low, high = (np.concatenate([side, np.full(q, sign * 1e3)]) for side, sign in ((axis.low, -1.0), (axis.high, 1.0)))
    step = np.concatenate(
        [np.where(begin[0][0] < 0.5 * (axis.low + axis.high), 1e-4, -1e-4) * axis.span, np.full(q, START_STEP)]
    )
    pull = np.concatenate([np.zeros(d), np.ones(q)])  # the start's own N(0, 1)
    everyone, k = np.arange(runs), d + q

    def look(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = np.concatenate([x[None], x[None] + np.diag(step)[:, None]]).reshape(-1, k)  # (1 + k) · runs
        y = predict(np.tile(everyone, 1 + k), axis.to_e(rows[:, :d]), rows[:, d:]).reshape(1 + k, runs, -1)
        # A reading that left the numbers counts with an error larger than any other, and has no slope to follow.
        rest = np.nan_to_num(seen - y[0], nan=LOST) / sigma
        slope = np.nan_to_num(np.moveaxis((y[1:] - y[0]) / step[:, None, None], 0, 2)) / sigma[:, None]
        return slope, rest, (rest**2).sum(1) + (pull * x**2).sum(1)

    x, lift = np.concatenate(begin, axis=1), np.full(runs, 1e-3)
    J, rest, cost = look(x)
    for _ in range(15):
        gram = np.einsum("wra,wrb->wab", J, J) + np.diag(pull)
        heavy = np.einsum("waa->wa", gram) * lift[:, None] + 1e-12 * np.einsum("waa->w", gram)[:, None] + 1e-300
        downhill = np.einsum("wra,wr->wa", J, rest) - pull * x
        move = np.linalg.solve(gram + heavy[:, :, None] * np.eye(k), downhill[..., None])[..., 0]
        tried = np.clip(x + np.clip(move, -0.3 * span, 0.3 * span), low, high)
        new_J, new_rest, new_cost = look(tried)
        better = new_cost <= cost
        moved = np.where(better, np.abs((tried - x) / span).max(1), 1.0)
        x, J = np.where(better[:, None], tried, x), np.where(better[:, None, None], new_J, J)
        rest, cost = np.where(better[:, None], new_rest, rest), np.where(better, new_cost, cost)
        lift = np.where(better, np.maximum(0.1 * lift, 1e-9), 10.0 * lift)
        if ((moved < 1e-5) | (lift > 1e3)).all():
            break
    gram = np.einsum("wra,wrb->wab", J, J) + np.diag(pull)
    if q:
        gram = gram[:, :d, :d] - gram[:, :d, d:] @ np.linalg.solve(gram[:, d:, d:], gram[:, d:, :d])
    return x[:, :d], x[:, d:], gram, rest * sigma


class ByRuns:
    """log p(y_w; φ) of every run, φ = (μ / span, ln σ); without `draws` that of a run whose readings are linear in e."""

    def __init__(self, own: OwnFits, draws: "Draws | None" = None):
        self.own, self.draws, self.axis, self.d = own, draws, own.axis, len(own.axis.span)

    def each(self, phi: np.ndarray) -> np.ndarray:
        """Log likelihood of every run, (runs,)."""
        mean, std = phi[: self.d] * self.axis.span, np.maximum(np.exp(phi[self.d :]), NONE * self.axis.span)
        straight = normal_at(self.own.values - mean, self.own.covariance + np.diag(std**2))
        return straight if self.draws is None else straight + self.draws.bend(mean, std)

    def drawn(self, phi: np.ndarray, size: int, seed: int) -> "ByRuns":
        """The same with draws around what φ says."""
        return ByRuns(self.own, Draws(self.own, phi[: self.d] * self.axis.span, np.exp(phi[self.d :]), size, seed))


class Draws:
    """Draws e_m of every run's e on the axes, (draws, runs, d), with what does not change with φ."""

    def __init__(self, own: OwnFits, mean: np.ndarray, std: np.ndarray, size: int, seed: int):
        from scipy.stats import norm, qmc

        d = len(mean)
        std = np.maximum(std, NARROW * own.axis.span)
        power = max(int(np.ceil(np.log2(size / 2))), 3)
        z = norm.ppf(np.clip(qmc.Sobol(d, rng=np.random.default_rng(seed)).random_base2(power), 1e-9, 1 - 1e-9))
        known = np.linalg.inv(own.covariance)
        about = np.linalg.inv(known + np.diag(std**-2.0))  # what the run and the others say together
        centre = np.einsum("wab,wb->wa", about, np.einsum("wab,wb->wa", known, own.values) + mean * std**-2.0)
        near = centre + NEAR * np.einsum("wab,mb->mwa", np.linalg.cholesky(about), z)
        self.x = np.concatenate([near, np.broadcast_to((mean + WIDE * std * z)[:, None], near.shape)])
        wide = np.diag((WIDE * std) ** 2)
        mixed = np.logaddexp(normal_at(self.x - centre, NEAR**2 * about), normal_at(self.x - mean, wide)) - np.log(2.0)
        self.straight = normal_at(self.x - own.values, own.covariance) - mixed
        self.true = own.likely(self.x) - mixed

    def bend(self, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        """log of the ratio of the true likelihood to the straight one, averaged over p(e; φ), (runs,)."""
        believed = -0.5 * (((self.x - mean) / std) ** 2).sum(-1)
        true, straight = (np.logaddexp.reduce(part + believed, axis=0) for part in (self.true, self.straight))
        return true - straight


def normal_at(x: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """log N(x; 0, covariance) of x (..., d) with covariances (..., d, d)."""
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, x[..., None])[..., 0]
    size = np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    return -0.5 * (white**2).sum(-1) - size - 0.5 * x.shape[-1] * np.log(2 * np.pi)
