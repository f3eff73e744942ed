"""Out of local minima that sticking and saturating joints make: jumps along what a fit leaves open, kept where F falls.

    s_j' = s_j ± jump for a scalar j of which the data say little, the others where F's quadratic model wants them then

F of a robot with dry friction has edges wherever a joint begins to stick or a motor to saturate. Gauss-Newton may end at one, far from
the truth in directions of which the data know little: a gain and a motor's strength, whose product alone acts until the motor
saturates. The most promising jumps are solved again. Where residuals are far from white, the model's physics is the limit, and F is not
searched any further.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from surefoot.identify.residuals import Problem
from surefoot.identify.solve import Solution, box_step, independent, reduce, settle, solve

WEAK = 0.03
"""Standard deviation, as a share of the range, from which a scalar counts as little known."""
JUMP = 0.2
"""Longest jump, as a share of the range; two standard deviations at most."""
KEPT = 2
"""How many of the jumps are solved again."""
MOST = 8
"""Linearisations of each."""
WHITE = 0.5
"""Share of independent residuals from which noise, not the model, limits a fit."""
GAIN = 4.0
"""Decrease of F that makes a jump worth it: two standard deviations."""
ROUNDS = 12
"""Jumps are made again from a better place while they help, this often at most."""


def hop(problem: Problem, solution: Solution, say: Callable[[str], None] | None = None) -> Solution:
    """The same solution, or a better one that jumps from it have found; leaves the σ of the better one in `problem`."""
    for _ in range(ROUNDS):
        found = _hopped(problem, solution)
        if found is None:
            break
        if say:
            say(f"over an edge: misfit {found[0]:.1f} -> {found[1]:.1f}")
        solution = found[2]
    return solution


def _hopped(problem: Problem, solution: Solution) -> tuple[float, float, Solution] | None:
    """F here and beyond an edge, under the same σ, and the solution there; None where no jump leads lower."""
    residuals = problem.evaluate(solution.s[None], solution.offsets[None])[1][0]
    if independent(problem, residuals) < WHITE * problem.count:
        return None
    linear = problem.linearise(solution.s, solution.offsets)
    sigma = problem.sigma.copy()

    def at(s: np.ndarray, offsets: np.ndarray) -> float:
        return float(problem.evaluate(s[None], offsets[None])[0][0])

    information = reduce(linear, solution.offsets).s + problem.pull.precision + np.eye(problem.d)
    moved = [
        (s, settle(problem, s, problem.rows, rounds=1, begin=solution.offsets))
        for s in _jumps(problem, information, solution.s)
    ]
    points = sorted(((*point, at(*point)) for point in moved), key=lambda point: point[2])[:KEPT]
    ends = []
    for s, offsets, _ in points:
        end = solve(problem, s, offsets=offsets, most=MOST)
        own, problem.sigma = problem.sigma, sigma.copy()
        ends.append((at(end.s, end.offsets), end, own))
    here = at(solution.s, solution.offsets)
    lowest, end, own = min(ends, key=lambda found: found[0], default=(here, solution, sigma))
    if lowest > here - GAIN:
        return None
    problem.sigma = own
    return here, lowest, replace(end, iterations=solution.iterations + end.iterations)


def _jumps(problem: Problem, information: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
    """Points (d,) within the bounds, each with another value of a scalar that is little known; delays that act as a sum are left out."""
    low, high = problem.pull.low, problem.pull.high
    std = np.sqrt(np.diag(np.linalg.inv(information)))
    sums = {k for i, j, _ in problem.twins for k in (i, j)}
    points = []
    for j in (j for j in np.flatnonzero(std > WEAK) if j not in sums):
        others = np.arange(problem.d) != j
        for move in (min(JUMP, 2 * std[j]), -min(JUMP, 2 * std[j])):
            if low[j] <= s[j] + move <= high[j]:
                there = s.copy()
                there[j] += move
                pulled = -information[others, j] * move
                there[others] += box_step(
                    information[np.ix_(others, others)], pulled, (low - s)[others], (high - s)[others]
                )
                points.append(there)
    return points
