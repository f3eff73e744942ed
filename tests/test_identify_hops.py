"""Jumps out of local minima go along what the data leave open, and are kept only where the misfit falls."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.identify import Problem, cut, solve
from surefoot.identify.hops import GAIN, _jumps, hop
from surefoot.identify.solve import reduce
from test_identify_fit import TRUTH, arm, params, recording


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """A fit of a gain and a strength that act as a product only, and where it ended."""
    folder = tmp_path_factory.mktemp("arm")
    sim = sf.Sim(arm(folder), params(strength=sf.strength("pivot", low=0.5, high=1.5)), seed=2)
    problem = Problem(sim, cut(sim, (recording(sim, {**TRUTH, "strength": 0.9}),), window=1.0, held_out=0.0))
    return problem, solve(problem)


def misfit(problem, solution):
    return float(problem.evaluate(solution.s[None], solution.offsets[None])[0][0])


def test_a_jump_keeps_what_the_data_know(solved):
    problem, solution = solved
    linear = problem.linearise(solution.s, solution.offsets)
    information = reduce(linear, solution.offsets).s + problem.pull.precision + np.eye(problem.d)
    points = _jumps(problem, information, solution.s)
    names = list(problem.params.names)
    here = dict(zip(names, problem.params.flatten(problem.e_of(solution.s))[0], strict=True))
    assert points
    for point in points:
        assert (point >= problem.pull.low).all()
        assert (point <= problem.pull.high).all()
        there = dict(zip(names, problem.params.flatten(problem.e_of(point))[0], strict=True))
        assert abs(there["strength"] - here["strength"]) > 0.02
        assert there["kp"] * there["strength"] == pytest.approx(here["kp"] * here["strength"], rel=0.08)
        assert there["command_delay"] == pytest.approx(here["command_delay"], abs=5e-4)


@pytest.mark.slow
def test_a_fit_that_needs_no_jump_stays_where_it_is(solved):
    problem, solution = solved
    sigma = problem.sigma.copy()
    assert hop(problem, solution) is solution
    assert np.array_equal(problem.sigma, sigma)


@pytest.mark.slow
def test_a_window_that_got_stuck_is_freed(solved):
    problem, solution = solved
    problem.sigma = problem.sigma.copy()
    stuck = solution.offsets.copy()
    stuck[1] += 0.03
    wrong = replace(solution, offsets=stuck)
    before, lines = misfit(problem, wrong), []
    freed = hop(problem, wrong, lines.append)
    assert before > misfit(problem, solution) + GAIN
    assert misfit(problem, freed) < misfit(problem, solution) + 1.0
    assert freed.iterations > solution.iterations
    assert any("over an edge" in line for line in lines)


def test_where_the_model_is_the_limit_nothing_is_searched(tmp_path):
    sim = sf.Sim(arm(tmp_path), params(), seed=2)
    rich = sf.Sim(sim.robot, params(load_friction=sf.load_friction("pivot", low=0.0, high=0.5, nominal=0.0)), seed=2)
    log = recording(rich, {**TRUTH, "load_friction": 0.3})
    problem = Problem(sim, cut(sim, (log,), window=1.0, held_out=0.0))
    solution = solve(problem)
    stuck = solution.offsets.copy()
    stuck[1] += 1.0
    wrong = replace(solution, offsets=stuck)
    assert misfit(problem, wrong) > misfit(problem, solution) + GAIN
    assert hop(problem, wrong) is wrong
