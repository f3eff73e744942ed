"""Where one e cannot explain repeated runs: the distribution p(e) that makes them likely.

    run w:  e_w ~ p(e; φ),   y_w = y_w(e_w) + noise,   φ̂ = argmax Σ_w log p(y_w; φ)

p(e; φ) is normal on each scalar's own axis (natural, or ln on a log scale); φ are its means and standard deviations. Two ways to
the likelihood of a run:

    "runs"     each run tells its own e well: ê_w by Gauss-Newton with covariance V_w, then p = N(ê_w; μ, diag σ² + V_w)
    "moments"  it does not: p = N(y_w; mean, covariance + R) of runs simulated with e ~ p(e; φ), the same random numbers for every φ,
               as DROPO does (Tiboni, Arndt, Kyrki 2023)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.identify.rollouts import Rollouts
from surefoot.identify.windows import cut
from surefoot.logs import Log
from surefoot.params import E, LogNormal, Normal, Params, Prior
from surefoot.sim import Sim

Predict = Callable[[np.ndarray, E, np.ndarray], np.ndarray]
"""Numbers of runs (n,), e of n worlds, where they start (n, starts) in standard deviations of what is known of it -> what each of
these runs would have read under its own e, (n, readings)."""
METHODS = ("auto", "runs", "moments")
NARROW = 1e-3
"""Smallest standard deviation, as a share of a scalar's range."""
LEAST_GAIN = 2.0
"""Log likelihood by which a spread must beat a single value before it is believed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SpreadFit:
    """A fitted p(e).

    Attributes:
        params: the Params it is about, bound.
        names: scalars.
        mean, std: of each scalar on its axis (natural units; of ln x on a log scale), (d,).
        mean_error, std_error: standard errors of these, (d,).
        noise: standard deviation of a reading that stays beside the spread, (readings,).
        log_likelihood: of the runs under p(e).
        single: the same with no spread at all.
        runs: number of runs.
        method: "runs" or "moments".
    """

    params: Params
    mean: np.ndarray
    std: np.ndarray
    mean_error: np.ndarray
    std_error: np.ndarray
    noise: np.ndarray
    log_likelihood: float
    single: float
    runs: int
    method: str

    @property
    def names(self) -> tuple[str, ...]:
        """Labels of the scalars."""
        return self.params.names

    @property
    def needed(self) -> bool:
        """Whether one e does not explain the runs."""
        return self.log_likelihood - self.single > LEAST_GAIN * len(self.mean)

    @property
    def prior(self) -> Prior:
        """p(e) to draw from: normal (log-normal) on every scalar, cut at its bounds."""
        beliefs = {}
        for i, name in enumerate(self.names):
            m, s = float(self.mean[i]), float(self.std[i])
            beliefs[name] = LogNormal(median=float(np.exp(m)), sigma=s) if self.params.log[i] else Normal(mean=m, sd=s)
        return Prior.independent(self.params, beliefs)

    def __str__(self) -> str:
        rows = [("param", "mean", "±", "spread", "±")]
        for i, name in enumerate(self.names):
            on = "ln " if self.params.log[i] else ""
            numbers = (self.mean[i], self.mean_error[i], self.std[i], self.std_error[i])
            a, b, c, d = (f"{v:.4g}" for v in numbers)
            rows.append((f"{on}{name}", a, b, c, d))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        said = "one e does not explain them" if self.needed else "one e explains them as well"
        return "\n".join(
            [
                f"p(e) from {self.runs} runs: {said} (log likelihood {self.log_likelihood:.1f}, single {self.single:.1f})",
                *lines,
            ]
        )


def fit_spread(
    predict: Predict,
    seen: np.ndarray,
    params: Params,
    *,
    start: Mapping[str, Any] | None = None,
    noise: np.ndarray | float | None = None,
    starts: int = 0,
    method: str = "auto",
    draws: int = 64,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> SpreadFit:
    """Fit p(e) to repeated runs.

    Args:
        predict: what runs would have read, each under its own row of e.
        seen: what was read, (runs, readings).
        params: bound Params whose spread is wanted; continuous ones.
        start: an e of one world to start from; nominal values when left out.
        noise: standard deviation of the readings; estimated together with the spread when None.
        starts: numbers that say where a run starts, unknown in each run, N(0, 1).
        method: "runs", "moments", or "auto": the first where every run tells its own e.
        draws: worlds per evaluation of the likelihood by moments.
        seed: of the draws.
        say: told about progress.
    """
    seen = np.asarray(seen, dtype=float)
    choose(method, METHODS, "a way to fit a spread")
    if seen.ndim != 2 or len(seen) < 3 or not np.isfinite(seen).all():
        raise InputError(f"a spread needs at least 3 runs of finite readings, (runs, readings), got {seen.shape}")
    if any(p.choices is not None for p in params.values()):
        raise InputError("a spread is fitted to continuous Params: leave out those with choices")
    axis = Axis(params)
    first = axis.from_e({**params.nominal_e(1), **(start or {})})[0]
    own = OwnFits(predict, seen, axis, noise, first, starts)
    rough = np.sqrt(np.maximum(own.values.var(0, ddof=1) - np.median(own.variance, axis=0), (NARROW * axis.span) ** 2))
    if method == "auto":
        method = "runs" if (np.median(own.variance, axis=0) < rough**2).all() else "moments"
    if say:
        say(f"{len(seen)} runs fitted one by one: mean {own.values.mean(0)}, spread {rough}; likelihood by {method}")
    problem = (
        ByRuns(own, axis) if method == "runs" else ByMoments(predict, seen, axis, own.noise, (draws, starts), seed)
    )
    phi = _polished(problem, np.concatenate([np.median(own.values, axis=0) / axis.span, np.log(rough)]), say)
    d = len(first)
    mean, std, errors = phi[:d] * axis.span, np.exp(phi[d:]), _errors(problem, phi)
    alone = np.concatenate([phi[:d], np.log(np.full(d, 1e-3 * NARROW) * axis.span)])
    return SpreadFit(
        params=params, mean=mean, std=std, mean_error=errors[:d] * axis.span, std_error=errors[d:] * std, noise=own.noise,
        log_likelihood=float(problem.each(phi).sum()), single=float(problem.each(alone).sum()), runs=len(seen), method=method,
    )  # fmt: skip


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
    """Every run's own e by Gauss-Newton from a common start.

    Attributes:
        values: on the axes, (runs, d).
        variance, covariance: what noise leaves open, (runs, d) and (runs, d, d).
        noise: standard deviation of a reading, (readings,).
    """

    def __init__(self, predict: Predict, seen: np.ndarray, axis: Axis, noise: Any, first: np.ndarray, starts: int):
        readings, d = seen.shape[1], len(first)
        free = readings - d - starts
        if noise is None and free <= 0:
            raise InputError(
                f"{readings} readings a run cannot tell noise from the spread of {d} scalars and {starts} starts: give more readings, "
                "or the noise"
            )
        sigma = float(np.mean(noise)) if noise is not None else 1e-2 * float(seen.std()) + 1e-300
        begin = (np.repeat(first[None], len(seen), axis=0), np.zeros((len(seen), starts)))
        self.values, begun, grams, squares = _own(predict, seen, axis, begin, sigma)
        for _ in range(2 if noise is None else 0):
            sigma = float(np.sqrt(max(float(np.mean(squares)) / free, 1e-300)))
            if starts:
                self.values, begun, grams, squares = _own(predict, seen, axis, (self.values, begun), sigma)
        self.noise = (
            np.full(readings, sigma) if noise is None else np.broadcast_to(np.asarray(noise, float), readings).copy()
        )
        weak = np.diag((100.0 * axis.span) ** -2.0)
        self.covariance = np.linalg.inv(grams / float((self.noise**2).mean()) + weak)
        self.variance = np.diagonal(self.covariance, axis1=1, axis2=2)


def _own(
    predict: Predict, seen: np.ndarray, axis: Axis, begin: tuple[np.ndarray, np.ndarray], sigma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Best e (runs, d) and start (runs, q) of every run, all at once by Levenberg-Marquardt; what is known of e, the squares left.

    The information (runs, d, d), times σ², is that of JᵀJ with the starts integrated out.
    """
    (runs, d), q = begin[0].shape, begin[1].shape[1]
    span = np.concatenate([axis.span, np.full(q, 100.0)])
    low, high = (np.concatenate([side, np.full(q, sign * 1e3)]) for side, sign in ((axis.low, -1.0), (axis.high, 1.0)))
    step = np.concatenate(
        [np.where(begin[0][0] < 0.5 * (axis.low + axis.high), 1e-4, -1e-4) * axis.span, np.full(q, 1e-2)]
    )
    pull = np.concatenate([np.zeros(d), np.full(q, sigma**2)])  # the start's own N(0, 1), in units of a squared reading
    everyone, k = np.arange(runs), d + q

    def look(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = np.concatenate([x[None], x[None] + np.diag(step)[:, None]]).reshape(-1, k)  # (1 + k) · runs
        y = predict(np.tile(everyone, 1 + k), axis.to_e(rows[:, :d]), rows[:, d:]).reshape(1 + k, runs, -1)
        # A reading that left the numbers counts with an error larger than any other, and has no slope to follow.
        rest = np.nan_to_num(seen - y[0], nan=1e6)
        return (
            np.nan_to_num(np.moveaxis((y[1:] - y[0]) / step[:, None, None], 0, 2)),
            rest,
            (rest**2).sum(1) + (pull * x**2).sum(1),
        )

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
    return x[:, :d], x[:, d:], gram, (rest**2).sum(1)


class ByRuns:
    """log N(ê_w; μ, diag σ² + V_w) of every run, φ = (μ / span, ln σ)."""

    def __init__(self, own: OwnFits, axis: Axis):
        self.own, self.axis, self.d = own, axis, len(axis.span)

    def each(self, phi: np.ndarray) -> np.ndarray:
        """Log likelihood of every run, (runs,)."""
        mean, std = phi[: self.d] * self.axis.span, np.exp(phi[self.d :])
        whole = self.own.covariance + np.diag(std**2)
        factor = np.linalg.cholesky(whole)
        white = np.linalg.solve(factor, (self.own.values - mean)[..., None])[..., 0]
        return (
            -0.5 * (white**2).sum(1)
            - np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
            - 0.5 * self.d * np.log(2 * np.pi)
        )


class ByMoments:
    """log N(y_w; mean, covariance + R) of simulated runs, φ = (μ / span, ln σ)."""

    def __init__(
        self, predict: Predict, seen: np.ndarray, axis: Axis, noise: np.ndarray, size: tuple[int, int], seed: int
    ):
        self.predict, self.seen, self.axis, self.noise, self.d = predict, seen, axis, noise, len(axis.span)
        rng = np.random.default_rng(seed)
        draws, starts = size
        half = rng.standard_normal((max(draws // 2, self.d + 1), self.d))
        white = np.concatenate([half, -half])
        factor = np.linalg.cholesky(np.cov(white.T).reshape(self.d, self.d))
        self.white = np.linalg.solve(factor, white.T).T  # mean 0 and covariance exactly 1: fewer draws tell as much
        self.starts = rng.standard_normal((len(white) * len(seen), starts))

    def each(self, phi: np.ndarray) -> np.ndarray:
        """Log likelihood of every run, (runs,)."""
        mean, std = phi[: self.d] * self.axis.span, np.exp(phi[self.d :])
        if (mean < self.axis.low).any() or (mean > self.axis.high).any() or (std > self.axis.span).any():
            return np.full(len(self.seen), -1e6)
        runs, draws = len(self.seen), len(self.white)
        e = self.axis.to_e(np.repeat(mean + std * self.white, runs, axis=0))
        drawn = self.predict(np.tile(np.arange(runs), draws), e, self.starts).reshape(draws, runs, -1)
        return gaussian(self.seen, drawn, self.noise)


def _polished(problem: ByRuns | ByMoments, phi: np.ndarray, say: Callable[[str], None] | None) -> np.ndarray:
    """The largest likelihood near φ, by quasi-Newton steps on differences."""
    from scipy.optimize import minimize

    cost = lambda phi: -float(problem.each(phi).sum())  # noqa: E731
    first = cost(phi)
    found = minimize(cost, phi, method="L-BFGS-B", options={"maxiter": 60, "eps": 1e-5})
    if say:
        say(f"log likelihood {-first:.2f} -> {-float(found.fun):.2f} in {found.nfev} evaluations")
    return found.x if found.fun < first else phi


def _errors(problem: ByRuns | ByMoments, phi: np.ndarray) -> np.ndarray:
    """Standard errors of φ by the sandwich H⁻¹ (Σ_w g_w g_wᵀ) H⁻¹: right also where runs are not normal."""
    size, step = len(phi), 1e-3
    moves = step * np.eye(size)
    up, down = np.stack([problem.each(phi + m) for m in moves]), np.stack([problem.each(phi - m) for m in moves])
    G = ((up - down) / (2 * step)).T  # (runs, size)
    H = np.empty((size, size))
    for i in range(size):
        for j in range(i + 1):
            corners = [problem.each(phi + a * moves[i] + b * moves[j]).sum() * a * b for a in (1, -1) for b in (1, -1)]
            H[i, j] = H[j, i] = -sum(corners) / (4 * step**2)
    inverse = np.linalg.pinv(H, rcond=1e-10, hermitian=True)
    return np.sqrt(np.maximum(np.diag(inverse @ (G.T @ G) @ inverse), 0.0))


def gaussian(seen: np.ndarray, drawn: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """log N(seen_w; mean of draws, covariance of draws + diag σ²) of every run, (runs,).

    seen (runs, readings), drawn (M, runs, readings), σ (readings,). The covariance is A Aᵀ + R with A = draws / √(M − 1), whose
    inverse and determinant need only (M, M) matrices.
    """
    m = drawn.mean(0)
    A = np.moveaxis(drawn - m, 0, 2) / np.sqrt(max(len(drawn) - 1, 1)) / sigma[:, None]  # (runs, readings, M)
    r = (seen - m) / sigma
    _runs, readings, count = A.shape
    if readings <= count:
        whole = A @ np.swapaxes(A, 1, 2) + np.eye(readings)
        factor = np.linalg.cholesky(whole)
        white = np.linalg.solve(factor, r[..., None])[..., 0]
        square, size = (white**2).sum(1), 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
    else:
        inner = np.swapaxes(A, 1, 2) @ A + np.eye(count)
        factor = np.linalg.cholesky(inner)
        white = np.linalg.solve(factor, np.einsum("wrm,wr->wm", A, r)[..., None])[..., 0]
        square, size = (r**2).sum(1) - (white**2).sum(1), 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
    return -0.5 * (square + size + 2 * np.log(sigma).sum() + readings * np.log(2 * np.pi))


def spread_of_logs(
    sim: Sim,
    logs: Sequence[Log],
    *,
    only: Sequence[str],
    channel: str = "joint_pos",
    window: float = 0.5,
    noise: float | None = None,
    method: str = "auto",
    draws: int = 32,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> SpreadFit:
    """Fit p(e) of some Params to repeated runs of a robot: every log is a run with an e of its own.

    Args:
        sim: robot and Params.
        logs: repeated runs; the first `window` seconds of each are compared, from the start that its readings show.
        only: Params that change from run to run.
        channel: what is compared.
        window: how much of every run is compared [s]; the shortest run's length at most.
        noise: standard deviation of a reading; estimated when None.
        method: see `fit_spread`.
        draws: worlds per run and evaluation of the likelihood by moments.
        seed: of the draws.
        say: told about progress.
    """
    params = sim.params.only(*only)
    starts = [max(float(log[sim.command_channel].t[0]), float(log[channel].t[0])) for log in logs]
    length = min([window, *(float(log[channel].t[-1]) - t for log, t in zip(logs, starts, strict=True))])
    pieces = [log.window(t, t + length) for log, t in zip(logs, starts, strict=True)]
    windows = cut(sim, pieces, channels=(channel,), window=length, held_out=0.0)
    if len(windows) != len(logs):
        raise InputError(
            f"{len(logs)} runs gave {len(windows)} windows of {length:g} s: give runs of one length without gaps"
        )
    rollouts = Rollouts(sim, windows)
    whole = rollouts.seen.all(0)

    def predict(runs: np.ndarray, e: E, begun: np.ndarray) -> np.ndarray:
        rows = np.array_split(np.arange(len(runs)), int(np.ceil(len(runs) / rollouts.most_worlds())))
        moved = begun * rollouts.starts.width[runs]
        parts = [rollouts._call({n: v[r] for n, v in e.items()}, runs[r], moved[r]) for r in rows]
        return np.concatenate(parts)[:, whole]

    return fit_spread(
        predict,
        rollouts.y[:, whole],
        params,
        noise=noise,
        starts=rollouts.starts.nx,
        method=method,
        draws=draws,
        seed=seed,
        say=say,
    )
