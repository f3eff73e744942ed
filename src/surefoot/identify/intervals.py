"""How far a fit can be trusted: residuals of real logs are correlated, so every window (or block of one) counts once.

    u_b = Σ_entries of block b Ãᵀ r        Ã = A - B (Hbb + I)⁻¹ Hba        (start states eliminated)
    v_b = (S - S_b)⁻¹ u_b                  how far the fit moves when block b is left out
    V   = (G - 1)/G Σ_b v_b v_bᵀ           the jackknife over blocks, which is a sandwich with its small-sample correction
    V_white = S⁻¹                          what independent residuals would claim

Neighbouring blocks that err alike widen V by Bartlett weights (HAC). Intervals use Student's t; where few blocks carry most of
the information on a scalar, as the fast part of a chirp does, its degrees of freedom are those few (see `freedom`).
S, u and V are those of the data alone. What was believed before comes in once, at the end: (V⁻¹ + prior⁻¹)⁻¹; directions that the
data say nothing about keep its width, and what it says has no small sample (see `data_share`).
"""

from dataclasses import dataclass

import numpy as np

from surefoot.identify.residuals import Linear, Problem
from surefoot.identify.solve import reduce

FEWEST = 5
"""Fewest blocks that windows are cut into."""
MOST = 12
"""Most blocks of one window."""
OUTLAST = 10.0
"""Length of a block in memories of the residual."""
NOTHING = 1e-3
"""Information, in units of the range, that stands for none at all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """Uncertainty of the positions s, all (d, d).

    Attributes:
        honest: covariance by blocks, the prior included.
        white: covariance that independent residuals would claim.
        data: covariance by blocks without the prior; huge in directions without information.
        freedom: degrees of freedom of every scalar, (d,).
    """

    honest: np.ndarray
    white: np.ndarray
    data: np.ndarray
    freedom: np.ndarray


def spread(problem: Problem, linear: Linear, s: np.ndarray, offsets: np.ndarray) -> Spread:
    """Uncertainty around a solution; `linear` must keep its columns."""
    reduced = reduce(linear, offsets)
    assert linear.a is not None
    columns = linear.a
    if problem.nx:
        columns = columns - linear.hab @ reduced.inverse @ linear.b  # (windows, d, n)
    weight = problem.trust(linear.r)
    score, info, parts = blocks(problem, columns, linear.r * weight)
    pull, d = problem.pull, problem.d
    count = problem.count
    noise = float((weight * linear.r**2).sum() / max(count - d - problem.nx * len(problem.rows), 1))
    total = reduced.s
    # At a bound, or against a belief, the scores do not add up to nothing; their scatter still says how far the fit would move.
    leant = _pushed(problem, s, reduced.g) | pull.precision.any(1)
    score[:, leant] -= score[:, leant].mean(0)
    ridge, groups = NOTHING * np.eye(d), len(score)
    moved = np.array([np.linalg.solve(total - part + ridge, u) for part, u in zip(info, score, strict=True)])
    inverse = np.linalg.inv(total + ridge)
    lags = parts if parts > 1 else None
    data = (groups - 1) / groups * neighbours(moved, lags) + inverse @ ridge @ inverse
    white = noise * inverse * problem.windows.overlap
    honest, white = (_with_prior(v, pull.covariance) for v in (data, white))
    told = freedom(inverse, info, parts, problem.windows.overlap) / data_share(honest, pull.covariance) ** 2
    # Where a fit ends in a direction without information is chance: the centre of a belief that did not pull is as likely.
    flat = np.linalg.inv(pull.covariance) - pull.precision
    away = honest @ flat @ (np.clip(pull.mean, pull.low, pull.high) - s)
    honest = honest + np.outer(away, away)
    return Spread(honest=honest, white=white, data=data, freedom=told)


def freedom(inverse: np.ndarray, info: np.ndarray, parts: int, overlap: float = 1.0) -> np.ndarray:
    """Degrees of freedom of every scalar, (d,): blocks that its information is spread over, less one.

        λ_b = (S⁻¹ S_b S⁻¹)_ii / Σ_b ...        G_i = 1 / Σ_b λ_b²

    Of blocks that hang together (`parts` > 1) two count as one, and windows that overlap count as the time they see.
    """
    shares = np.einsum("ij,bjk,ki->bi", inverse, info, inverse)
    shares = np.maximum(shares, 0.0)
    shares = np.clip(shares / np.maximum(shares.sum(0), 1e-300), 0.0, 1.0)
    return np.maximum(1.0 / np.maximum((shares**2).sum(0), 1e-12) / min(parts, 2) / overlap - 1.0, 1.0)


def data_share(both: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Share of every scalar's variance that comes from the data and not from what was believed before, (d,).

    both = (data⁻¹ + prior⁻¹)⁻¹ = both data⁻¹ both + both prior⁻¹ both; only the first part was estimated and has degrees of freedom: the
    sum has freedom / share² of them (Satterthwaite).
    """
    believed = np.diag(both @ np.linalg.solve(prior, both))
    return np.clip(1.0 - believed / np.diag(both), 1e-3, 1.0)


def _with_prior(data: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """(data⁻¹ + prior⁻¹)⁻¹ as data (data + prior)⁻¹ prior, which needs no inverse of a singular matrix."""
    both = data @ np.linalg.solve(data + prior, prior)
    return 0.5 * (both + both.T) + 1e-16 * np.diag(np.diag(prior))


def _pushed(problem: Problem, s: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Scalars at a bound that the data push against, (d,) bool."""
    low, high = s <= problem.pull.low + 1e-6, s >= problem.pull.high - 1e-6
    return (low & (g < 0)) | (high & (g > 0))


def blocks(problem: Problem, columns: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Scores (blocks, d) and information (blocks, d, d) of blocks in time, and how many of them hang together.

    A block is a whole window, or a part of one that outlasts the residual's memory; where windows are too few, shorter parts.
    """
    windows = len(problem.rows)
    longest = np.array([problem.windows.windows[i].stop - problem.windows.windows[i].start for i in problem.rows])
    alone = int(np.clip(np.median(longest) / (OUTLAST * memory(problem, r)), 1, MOST))
    parts = max(alone, int(np.ceil(FEWEST / windows)))
    if parts == 1:
        return (columns @ r[..., None])[..., 0], columns @ columns.swapaxes(1, 2), 1
    number = np.minimum((problem.rollouts.t[problem.rows] / longest[:, None] * parts).astype(int), parts - 1)
    scores, infos = [], []
    for w in range(windows):
        for k in range(parts):
            here = number[w] == k
            part = columns[w][:, here]
            scores.append(part @ r[w, here])
            infos.append(part @ part.T)
    return np.array(scores), np.array(infos), parts if parts > alone else 1


def memory(problem: Problem, r: np.ndarray) -> float:
    """[s] Time after which the residuals r (windows, n) have lost their memory: autocorrelation below 1/e; a window at most."""
    top, bottom, column = np.zeros(0), 0.0, problem.rollouts.column
    period, longest = np.inf, 0.0
    for i in range(len(problem.sigma)):
        part, t = r[:, column == i], problem.rollouts.t[problem.rows][:, column == i]
        m = part.shape[1]
        spectrum = np.abs(np.fft.rfft(part, 2 * m, axis=1)) ** 2
        lagged = np.fft.irfft(spectrum.sum(0), 2 * m)[:m]
        if len(top) in (0, m):
            top = lagged if not len(top) else top + lagged
            bottom += lagged[0]
            longest = max(longest, float(t.max()))
            period = longest / max(m - 1, 1)
    low = np.flatnonzero(top < bottom / np.e)
    return period * float(low[0]) if len(low) else longest


def neighbours(moved: np.ndarray, lags: int | None = None) -> np.ndarray:
    """Σ_b v_b v_bᵀ (d, d), each variance widened where neighbouring blocks err alike (Bartlett weights), never narrowed.

    `lags` is how many blocks away still counts as a neighbour; by default it grows with the cube root of their number.
    """
    alone = moved.T @ moved
    lags = max(int(np.floor(0.75 * len(moved) ** (1 / 3))), lags or 0)
    lags = min(lags, len(moved) - 1)
    together = np.diag(alone).copy()
    for k in range(1, lags + 1):
        together += 2 * (1 - k / (lags + 1)) * (moved[k:] * moved[:-k]).sum(0)
    factor = np.sqrt(np.maximum(together / np.maximum(np.diag(alone), 1e-300), 1.0))
    return alone * np.outer(factor, factor)
