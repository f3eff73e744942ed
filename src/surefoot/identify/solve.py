"""Gauss-Newton inside a trust region and a box; the start states are eliminated window by window.

    [Haa  Hab] [ds]   [ga]          S = Σ_w Haa - Hab (Hbb + I)⁻¹ Hba + P,   S ds = Σ_w ga - Hab (Hbb + I)⁻¹ (gb - δ) + P (s0 - s)
    [Hba  Hbb] [dδ] = [gb]          dδ_w = (Hbb + I)⁻¹ (gb - δ_w - Hba ds)

Hbb is block diagonal, one small block a window, so the cost is linear in the number of windows (Schur complement). All of s lies
between 0 and 1, so the trust region is a box too, |ds| <= radius, and bounded least squares on S keeps both. Where a step
disappoints, several smaller radii are tried in one batch of rollouts.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from surefoot.identify.residuals import STEPS, Linear, Problem

RADII = ((0.25, 0.06, 0.015), (4e-3, 4e-4, 4e-5))
"""Radii tried in one batch each, relative to the present one, where that disappoints."""
WIDEST = 0.5
"""Largest radius, as a share of the range."""
CORRECTIONS = 1
"""Times that the start states of a step are corrected with the derivatives at hand."""
SMALLEST = 2e-3
"""Radius at which F has edges rather than slopes."""
EDGE_GAIN = 2e-3
"""Relative decrease of F, where it has edges, below which the iterations end."""
STARTS = 30.0
"""Trust region of the start states at radius 1, in standard deviations of their prior."""
SLIGHT = 0.02
"""Decrease of F, in units of one independent residual, below which the iterations end: a seventh of a standard deviation."""
ROUNDING = 1e-12
"""Information that is left after a start was eliminated, relative to what there was before, below which it is rounding."""
FLAT = 1e-9
"""Least eigenvalue of a Hessian, relative to its largest."""
MOST = 25
"""Linearisations at most."""
DIVISIONS = 3
"""Divisions of a sum of delays that are tried within one time step, on either side."""
HALVINGS = 6
"""Rounds in which the best division is sought, each twice as fine as the last."""
TIMES = 3
"""Times that such a sum is divided anew."""
SETTLED = 0.01
"""Relative change of σ below which it is at rest."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Where the iterations ended.

    Attributes:
        s: positions between the bounds, (d,).
        offsets: of the fitted windows' start states, in standard deviations of their prior, (windows, nx).
        cost: F there, with the final σ.
        iterations: linearisations made.
        converged: whether the last step was too small to matter.
    """

    s: np.ndarray
    offsets: np.ndarray
    cost: float
    iterations: int
    converged: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduced:
    """The normal equations after the start states were eliminated; per window where `each`.

    Attributes:
        s: S without the prior, (d, d).
        g: right-hand side without the prior, (d,).
        inverse: (Hbb + I)⁻¹ of every window, (windows, nx, nx).
        each: S of every window, (windows, d, d).
    """

    s: np.ndarray
    g: np.ndarray
    inverse: np.ndarray
    each: np.ndarray


def reduce(linear: Linear, offsets: np.ndarray) -> Reduced:
    """Eliminate the start states of all windows."""
    nx = linear.hbb.shape[1]
    if not nx:
        return Reduced(s=linear.haa.sum(0), g=linear.ga.sum(0), inverse=linear.hbb, each=linear.haa)
    # In the starts' own axes: with an inverse as a matrix, rounding would be multiplied by how far a start's changes grow.
    values, axes = np.linalg.eigh(linear.hbb)
    weight = 1.0 / (np.maximum(values, 0.0) + 1.0)
    turned = linear.hab @ axes
    gain = turned * weight[:, None, :]
    each = _definite(linear.haa - gain @ turned.swapaxes(1, 2), linear.haa)
    g = linear.ga - (gain @ (axes.swapaxes(1, 2) @ (linear.gb - offsets)[..., None]))[..., 0]
    inverse = (axes * weight[:, None, :]) @ axes.swapaxes(1, 2)
    return Reduced(s=each.sum(0), g=g.sum(0), inverse=inverse, each=each)


def _definite(matrices: np.ndarray, before: np.ndarray) -> np.ndarray:
    """What eliminating the starts left of matrices `before` (n, k, k), without the directions that rounding alone has left.

    A window that is decided by how it began, as feet that hit the ground are, has nothing left once its start is eliminated.
    """
    matrices = 0.5 * (matrices + matrices.swapaxes(1, 2))
    values, vectors = np.linalg.eigh(matrices)
    least = ROUNDING * np.diagonal(before, axis1=1, axis2=2).max(1)[:, None]
    if (values >= least).all():
        return matrices
    return (vectors * np.where(values < least, 0.0, values)[:, None, :]) @ vectors.swapaxes(1, 2)


def step(
    problem: Problem, linear: Linear, reduced: Reduced, s: np.ndarray, offsets: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """New s (d,) and offsets (windows, nx) of one step inside the box and the radius.

    Directions of which the data know less than one range would only wander: they are damped, the optimum stays.
    """
    pull = problem.pull
    damping = problem.count / independent(problem, linear.r)
    hessian = reduced.s + pull.precision + damping * np.eye(problem.d)
    g = reduced.g + pull.precision @ (pull.mean - s)
    low, high = np.maximum(pull.low - s, -radius), np.minimum(pull.high - s, radius)
    ds = box_step(hessian, g, low, high)
    fresh = offsets
    if problem.nx:
        back = linear.gb - offsets - (linear.hab.swapaxes(1, 2) @ ds)
        most = STARTS * radius
        fresh = offsets + np.clip((reduced.inverse @ back[..., None])[..., 0], -most, most)
    return s + ds, fresh


def box_step(hessian: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """argmin ½ pᵀ H p - gᵀ p with low <= p <= high, (d,)."""
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    scale = 1.0 / np.sqrt(np.maximum(np.diag(hessian), np.finfo(float).tiny))
    factor = _factor(hessian * np.outer(scale, scale))
    free = scale * np.linalg.solve(factor.T, np.linalg.solve(factor, scale * g))
    if (free >= low).all() and (free <= high).all():
        return free
    target = np.linalg.solve(factor, scale * g)
    ends = (low / scale, np.maximum(high / scale, low / scale + 1e-15))
    found = lsq_linear(factor.T, target, bounds=ends, method="bvls" if len(g) < 200 else "trf")
    return np.clip(scale * found.x, low, high)


def _factor(matrix: np.ndarray) -> np.ndarray:
    """Cholesky factor of a scaled Hessian; where rounding left it indefinite, of the nearest definite one."""
    try:
        return np.linalg.cholesky(matrix + 1e-14 * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        return np.linalg.cholesky((vectors * np.maximum(values, FLAT * max(values[-1], 1.0))) @ vectors.T)


def solve(
    problem: Problem,
    s: np.ndarray | None = None,
    *,
    offsets: np.ndarray | None = None,
    most: int = MOST,
    say: Callable[[str], None] | None = None,
) -> Solution:
    """Make F small from s (d,); the nominal values when None.

    Args:
        problem: what to fit; its σ is estimated anew while the iterations run.
        s: where to start, positions between the bounds.
        offsets: start states to begin with, (windows, nx).
        most: linearisations at most, and as many again after a sum of delays was divided anew.
        say: told one line an iteration.
    """
    s = np.clip(problem.nominal if s is None else s, problem.pull.low, problem.pull.high)
    if offsets is None:
        offsets = np.zeros((len(problem.rows), problem.nx))
        problem.reweigh(problem.evaluate(s[None], offsets[None])[1][0])
        offsets = settle(problem, s, problem.rows)
    problem.reweigh(problem.evaluate(s[None], offsets[None])[1][0])
    radius, converged, number, cost = 0.3, False, 0, np.inf
    sizes, stalled, shared = itertools.cycle(STEPS), 0, 0
    size = next(sizes)
    last = most
    while number < last:
        number += 1
        linear = problem.linearise(s, offsets, steps=size)
        cost = float(problem.rho(linear.r).sum() + problem.pull.cost(s)[0] + (offsets**2).sum())
        found = _try(problem, linear, (s, offsets), radius, cost)
        gain, tolerance = 0.0, float(np.clip(SLIGHT / independent(problem, linear.r), 1e-6, 1e-4))
        if found is not None:
            (s, offsets), r, radius, fresh = found
            gain, cost = (cost - fresh) / max(cost, 1e-300), fresh
            gain = max(gain, tolerance) if problem.reweigh(r) > SETTLED else gain
        if say:
            say(f"iteration {number}: residual {_typical(problem)}")
        edge = radius < SMALLEST  # F has edges at the scale of these differences: others may see over them.
        stalled = stalled + 1 if gain < tolerance or (edge and gain < EDGE_GAIN) else 0
        if stalled == len(STEPS) or (stalled and size == "fine" and gain > 0 and radius > 0.05):
            better = share_out(problem, s, offsets, cost) if shared < TIMES else None
            if better is None:
                converged = True
                break
            (s, offsets, cost), shared, stalled, size, radius = better, shared + 1, 0, "fine", 0.1
            last = number + most
            sizes = itertools.cycle(STEPS)
            next(sizes)
            continue
        if stalled or edge:
            size, radius = next(sizes), 0.1
    return Solution(s=s, offsets=offsets, cost=cost, iterations=number, converged=converged)


Point = tuple[np.ndarray, np.ndarray, float]
"""s (d,), offsets (windows, nx) and F there."""


def share_out(problem: Problem, s: np.ndarray, offsets: np.ndarray, cost: float) -> Point | None:
    """A better division of a delay that is known as a sum only, or None where there is none.

    A command that comes in the middle of a time step acts as its mean over the step, so that a simulator does tell divisions apart
    that lie less than a step away from each other. On a robot all are alike; here a wrong one would bend other Params.
    """
    best: Point = (s, offsets, cost)
    for pair in problem.twins:
        best = _divided(problem, pair, best)
    return best if best[2] < cost * (1 - EDGE_GAIN) else None


def _divided(problem: Problem, pair: tuple[int, int, float], point: Point) -> Point:
    """The best of several divisions around a point: some over a time step to either side, then ever finer ones beside the best."""
    (i, j, ratio), (s, offsets, _) = pair, point

    def at(move: float) -> Point | None:
        there = s.copy()
        there[i], there[j] = s[i] + move, s[j] - move * ratio
        if (there < problem.pull.low).any() or (there > problem.pull.high).any():
            return None
        settled = settle(problem, there, problem.rows, rounds=1, begin=offsets)
        return there, settled, float(problem.evaluate(there[None], settled[None])[0][0])

    step = problem.sim.timestep / float(problem.params.high[i] - problem.params.low[i]) / DIVISIONS
    tried, middle = {0.0: point}, 0.0
    moves = [k * step for k in range(-DIVISIONS, DIVISIONS + 1)]
    for _ in range(HALVINGS):
        tried |= {move: found for move in moves if move not in tried and (found := at(move)) is not None}
        middle, step = min(tried, key=lambda move: tried[move][2]), step / 2
        moves = [middle - step, middle + step]
    return tried[middle]


def _typical(problem: Problem) -> str:
    """σ of every channel, its columns together, in words."""
    channels = dict.fromkeys((name, unit) for name, _, unit in problem.rollouts.labels)
    parts = []
    for name, unit in channels:
        own = [s for s, label in zip(problem.sigma, problem.rollouts.labels, strict=True) if label[0] == name]
        parts.append(f"{name} {np.sqrt(np.mean(np.square(own))):.4g} {unit}")
    return ", ".join(parts)


def independent(problem: Problem, r: np.ndarray) -> float:
    """How many independent residuals r (windows, n) amount to: n (1 - ρ) / (1 + ρ), ρ from one sample to the next."""
    total, column, seen = 0.0, problem.rollouts.column, problem.rollouts.seen[problem.rows]
    for i in range(len(problem.sigma)):
        part, here = r[:, column == i], seen[:, column == i]
        near = float((part[:, 1:] * part[:, :-1]).sum() / max((part**2).sum(), 1e-300))
        total += here.sum() * (1 - min(max(near, 0.0), 0.9999)) / (1 + min(max(near, 0.0), 0.9999))
    return max(total, float(len(r)))


def _try(
    problem: Problem, linear: Linear, at: tuple[np.ndarray, np.ndarray], radius: float, cost: float
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, float, float] | None:
    """A step that lowers F: (s, offsets), residuals, the next radius, F; None when no radius gives one.

    The present radius is tried alone, or beside some smaller ones where threads are idle; only where it disappoints are these looked at,
    and several more tried in one batch.
    """
    reduced = reduce(linear, at[1])
    first, *later = RADII
    beside = first[: problem.idle]
    tried, r, costs = _tried(problem, linear, reduced, at, [radius * k for k in (1.0, *beside)])
    share = (cost - costs[0]) / max(_promise(problem, linear, at, tried[0]), 1e-300)
    if costs[0] < cost and share > 0.25:
        return tried[0], r[0], min(radius * (2.0 if share > 0.6 else 1.0), WIDEST), float(costs[0])
    factors = [0.25, *beside]
    for batch in (first[len(beside) :], *later):
        if batch:
            more, more_r, more_costs = _tried(problem, linear, reduced, at, [radius * k for k in batch])
            tried, factors = tried + more, [*factors, *batch]
            costs, r = np.concatenate([costs, more_costs]), np.concatenate([r, more_r])
        best = int(np.argmin(costs))
        if costs[best] < cost:
            return tried[best], r[best], max(radius * factors[best], 1e-4), float(costs[best])
    return None


def _tried(
    problem: Problem, linear: Linear, reduced: Reduced, at: tuple[np.ndarray, np.ndarray], radii: list[float]
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray]:
    """Steps of several radii, their residuals (k, windows, n) and costs (k,), all in one batch.

    Every window keeps its old start state where the new one does worse: one window that starts in stiction must not
    spoil the step of all.
    """
    steps = [step(problem, linear, reduced, *at, radius) for radius in radii]
    k = len(steps)
    s, fresh = np.array([x[0] for x in steps]), np.array([x[1] for x in steps])
    if not problem.nx:
        costs, r = problem.evaluate(s, fresh)
        return steps, r, costs
    old = np.broadcast_to(at[1], fresh.shape)
    r = problem.weighted(
        problem.predict(np.concatenate([s, s]), problem.rows, np.concatenate([fresh, old])), problem.rows
    )
    offsets, r, each = _better(problem, (fresh, r[:k]), (old, r[k:]))
    for _ in range(CORRECTIONS):
        pushed = (linear.b @ (r * problem.trust(r))[..., None])[..., 0] - offsets
        more = offsets + np.clip((reduced.inverse @ pushed[..., None])[..., 0], -STARTS, STARTS)
        found = problem.weighted(problem.predict(s, problem.rows, more), problem.rows)
        offsets, r, each = _better(problem, (more, found), (offsets, r))
    return list(zip(s, offsets, strict=True)), r, each.sum(1) + problem.pull.cost(s)


def _better(
    problem: Problem, one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of two (offsets, residuals), the better of each candidate and window, with its misfit (k, windows)."""
    costs = [problem.rho(r).sum(2) + (offsets**2).sum(2) for offsets, r in (one, other)]
    first = costs[0] <= costs[1]
    chosen = [np.where(first[..., None], a, b) for a, b in zip(one, other, strict=True)]
    return chosen[0], chosen[1], np.minimum(*costs)


def _promise(
    problem: Problem, linear: Linear, old: tuple[np.ndarray, np.ndarray], new: tuple[np.ndarray, np.ndarray]
) -> float:
    """Decrease of F that the linearisation promises for a move."""
    ds, dx = new[0] - old[0], new[1] - old[1]
    first = 2 * (linear.ga.sum(0) @ ds + (linear.gb * dx).sum())
    second = (
        ds @ linear.haa.sum(0) @ ds
        + 2 * np.einsum("i,wij,wj->", ds, linear.hab, dx)
        + np.einsum("wi,wij,wj->", dx, linear.hbb, dx)
    )
    pull = problem.pull.cost(old[0])[0] - problem.pull.cost(new[0])[0] + (old[1] ** 2).sum() - (new[1] ** 2).sum()
    return float(first - second + pull)


def settle(
    problem: Problem, s: np.ndarray, rows: np.ndarray, *, rounds: int = 2, begin: np.ndarray | None = None
) -> np.ndarray:
    """Offsets (windows, nx) of the start states of windows `rows` for given s, by Gauss-Newton on each window alone, from `begin`."""
    offsets = np.zeros((len(rows), problem.nx)) if begin is None else begin
    if not problem.nx:
        return offsets
    cost = _window_costs(problem, s, rows, offsets)
    for _ in range(rounds):
        linear = problem.linearise(s, offsets, rows=rows, only_starts=True)
        move = np.linalg.solve(linear.hbb + np.eye(problem.nx), (linear.gb - offsets)[..., None])[..., 0]
        for share in (1.0, 0.1):
            tried = offsets + share * np.clip(move, -STARTS, STARTS)
            fresh = _window_costs(problem, s, rows, tried)
            better = fresh < cost
            offsets, cost = np.where(better[:, None], tried, offsets), np.where(better, fresh, cost)
            if better.all():
                break
            move = np.where(better[:, None], 0.0, move)
    return offsets


def _window_costs(problem: Problem, s: np.ndarray, rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Misfit of every window, (windows,)."""
    r = problem.weighted(problem.predict(s, rows, offsets[None]), rows)[0]
    return problem.rho(r).sum(1) + (offsets**2).sum(1)
