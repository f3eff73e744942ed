"""CMA-ES for terms whose derivatives mislead: stick and slip, contact, thresholds. Each generation is one batch of rollouts.

    s_0 = the best of the first point and DRAWS draws between the bounds;   generation k: s ~ N(mean_k, spread_k² C_k)

Without the draws the small generations of CMA-ES, which follow the slope of a valley as derivatives do, would end in the one they begin in.
Start states come from the log here; `solve` estimates them afterwards from the best candidate.
"""

import warnings
from collections.abc import Callable

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.residuals import Problem

WIDTH = 0.25
"""Standard deviation of the first generation, as a share of the range."""
DRAWS = 32
"""Draws between the bounds, tried before the first generation."""


def search(
    problem: Problem,
    first: np.ndarray,
    *,
    generations: int = 40,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> np.ndarray:
    """Best positions s (d,) that CMA-ES finds from `first` within the box."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It misses a plotting package that is not used here.
            import cma
    except ImportError:
        raise InputError("rugged=True needs the package 'cma': pip install cma") from None
    low, high = problem.pull.low, problem.pull.high
    problem.reweigh(problem.evaluate(first[None])[1][0])
    if problem.d == 1:
        return _best(problem, np.concatenate([first[None], np.linspace(low[0], high[0], 10 * generations)[:, None]]))[0]
    draws = np.random.default_rng(seed).uniform(low, high, (DRAWS, problem.d))
    best, best_cost = _best(problem, np.concatenate([first[None], draws]))
    options = {"bounds": [low.tolist(), high.tolist()], "seed": seed + 1, "verbose": -9, "maxiter": generations}
    strategy = cma.CMAEvolutionStrategy(np.clip(best, low + 1e-3, high - 1e-3), WIDTH, options)
    while not strategy.stop():
        draws = strategy.ask()
        costs = problem.evaluate(np.clip(np.array(draws), low, high))[0]
        strategy.tell(draws, costs.tolist())
        if costs.min() < best_cost:
            best, best_cost = np.clip(draws[int(np.argmin(costs))], low, high), float(costs.min())
        if say and strategy.countiter % 10 == 0:
            say(
                f"CMA-ES generation {strategy.countiter}: misfit {np.sqrt(best_cost / problem.count):.4g} standard deviations"
            )
    return np.asarray(best, float)


def _best(problem: Problem, points: np.ndarray) -> tuple[np.ndarray, float]:
    """The point of several (k, d) where F is least, the first of equals, and F there."""
    costs = problem.evaluate(points)[0]
    return points[int(np.argmin(costs))], float(costs.min())
