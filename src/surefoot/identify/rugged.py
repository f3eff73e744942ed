"""CMA-ES for terms whose derivatives mislead: stick and slip, contact, thresholds. Each generation is one batch of rollouts.

Start states come from the log here; `solve` estimates them afterwards from the best candidate.
"""

import warnings
from collections.abc import Callable

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.residuals import Problem

WIDTH = 0.25
"""Standard deviation of the first generation, as a share of the range."""


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
    best, best_cost = first, float(problem.evaluate(first[None])[0][0])
    if problem.d == 1:
        grid = np.linspace(low[0], high[0], 10 * generations)[:, None]
        costs = problem.evaluate(grid)[0]
        return grid[int(np.argmin(costs))] if costs.min() < best_cost else best
    options = {"bounds": [low.tolist(), high.tolist()], "seed": seed + 1, "verbose": -9, "maxiter": generations}
    strategy = cma.CMAEvolutionStrategy(np.clip(first, low + 1e-3, high - 1e-3), WIDTH, options)
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
