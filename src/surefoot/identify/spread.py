"""Where one e cannot explain repeated runs: the distribution p(e) that makes them likely.

    run w:  e_w ~ p(e; φ),   y_w = y_w(e_w) + noise,   φ̂ = argmax Σ_w log p(y_w; φ)

p(e; φ) is normal on each scalar's own axis (natural, or ln on a log scale); φ are its means and standard deviations. Two ways to
the likelihood of a run:

    "runs"     p = ∫ p(y_w | e) p(e; φ) de, from what each run says of its own e, see spread_runs.py
    "moments"  p = N(y_w; mean, covariance + R) of runs simulated with e ~ p(e; φ), the same random numbers for every φ,
               as DROPO does (Tiboni, Arndt, Kyrki 2023)

What the next run may have is wider than σ̂: n runs are few, and the largest likelihood takes their own mean for μ.

    e_next ~ N(μ̂, t² (σ̂² + 2 n m² / (n - 1))),   m = max(error of μ̂, σ̂ / √n),   t = Student's 95 % of n - 1 over the normal's

One m² is the error of μ̂, the other what σ̂² is too small by; with exact readings it is t² s² (1 + 1/n), s² the runs' unbiased variance.

Readings count by their noise in both. "runs" holds for any shape of a run's likelihood and needs few simulations; "moments" takes the runs
themselves as normal and does not need a fit to each of them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.identify.rollouts import Rollouts
from surefoot.identify.spread_runs import NARROW, NONE, Axis, ByRuns, OwnFits, Predict, normal_log
from surefoot.identify.windows import cut
from surefoot.logs import Log
from surefoot.params import E, LogNormal, Normal, Params, Prior
from surefoot.params.distribution import Distribution
from surefoot.sim import Sim

METHODS = ("auto", "runs", "moments")
ROUNDS, MOVED = 4, 0.5
"""How often draws may be made anew, and by how much p(e) must have moved for that: μ in standard deviations, or ln σ."""
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
    def next_std(self) -> np.ndarray:
        """Standard deviation of a normal whose 90 % hold the next run's own e as often, (d,) on the axes; wider than `std`."""
        from scipy.stats import t as student

        n = self.runs
        error = np.maximum(self.mean_error, self.std / np.sqrt(n))
        few = student.ppf(0.95, n - 1) / student.ppf(0.95, np.inf)
        return few * np.sqrt(self.std**2 + 2 * n * error**2 / (n - 1))

    @property
    def beliefs(self) -> dict[str, Distribution]:
        """What is believed of the next run, for a prior over more Params: `sim.params.prior().replace(fit.beliefs)`."""
        log, ends = self.params.log, zip(self.mean, self.next_std, strict=True)
        return {
            name: LogNormal(median=float(np.exp(m)), sigma=float(s)) if log[i] else Normal(mean=float(m), sd=float(s))
            for i, (name, (m, s)) in enumerate(zip(self.names, ends, strict=True))
        }

    @property
    def prior(self) -> Prior:
        """p(e) of the next run, to draw from: normal (log-normal) on every scalar, as wide as `next_std`, cut at its bounds."""
        return Prior.independent(self.params, self.beliefs)

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
        noise: standard deviation of the readings, one number or one for each; None: one for all is estimated with the spread.
        starts: numbers that say where a run starts, unknown in each run, N(0, 1).
        method: "runs", "moments", or "auto": the first where most runs tell their own e.
        draws: worlds per run by which its likelihood is averaged over p(e).
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
    phi, d = np.concatenate([np.median(own.values, axis=0) / axis.span, np.log(rough)]), len(first)
    if method == "runs":
        problem, phi = _by_runs(own, phi, draws, seed, say)
    else:
        problem = ByMoments(predict, seen, axis, own.noise, (draws, starts), seed)
        phi = _polished(problem, phi, say)
    mean, std, errors = phi[:d] * axis.span, np.exp(phi[d:]), _errors(problem, phi)
    alone = np.concatenate([phi[:d], np.log(np.full(d, NONE) * axis.span)])
    return SpreadFit(
        params=params, mean=mean, std=std, mean_error=errors[:d] * axis.span, std_error=errors[d:] * std, noise=own.noise,
        log_likelihood=float(problem.each(phi).sum()), single=float(problem.each(alone).sum()), runs=len(seen), method=method,
    )  # fmt: skip


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


def _by_runs(
    own: OwnFits, phi: np.ndarray, draws: int, seed: int, say: Callable[[str], None] | None
) -> tuple[ByRuns, np.ndarray]:
    """The likelihood by runs with draws around its own maximum, and that maximum."""
    problem, d = ByRuns(own), len(own.axis.span)
    phi = _polished(problem, phi, say)
    for _ in range(ROUNDS):
        problem, before = problem.drawn(phi, draws, seed), phi
        phi = _polished(problem, phi, say)
        far = np.abs(phi - before) / np.concatenate([np.exp(before[d:]) / own.axis.span, np.ones(d)])
        if (far < MOVED).all():
            break
    return problem, phi


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
    return normal_log((seen - m) / sigma, A) - np.log(sigma).sum()


def spread_of_logs(
    sim: Sim,
    logs: Sequence[Log],
    *,
    only: Sequence[str],
    fixed: Mapping[str, Any] | None = None,
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
        fixed: values of other Params, an e of one world, such as a fit's; nominal ones where left out.
        channel: what is compared.
        window: how much of every run is compared [s]; the shortest run's length at most.
        noise: standard deviation of a reading, one number; estimated when None.
        method: see `fit_spread`.
        draws: worlds per run by which its likelihood is averaged over p(e).
        seed: of the draws.
        say: told about progress.
    """
    names = [only] if isinstance(only, str) else list(only)
    if not names:
        raise InputError("nothing changes from run to run: name at least one Param with only=")
    params, rest = sim.params.only(*names), others(sim, names, fixed)
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
        parts = [rollouts._call(rest | {n: v[r] for n, v in e.items()}, runs[r], moved[r]) for r in rows]
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


def others(sim: Sim, fitted: Collection[str], fixed: Mapping[str, Any] | None) -> E:
    """Values of Params that are not fitted, checked by name: an e of one world."""
    values = sim.params.check(fixed or {}, 1)
    twice = [name for name in values if name in fitted]
    if twice:
        raise InputError(f"'{twice[0]}' is fitted and stands in fixed= too: leave it out of one of them")
    return values
