"""DORAEMON: the widest distribution that still succeeds often enough."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import beta as reference

import surefoot as sf
from surefoot.randomize import Doraemon, beta
from surefoot.randomize.doraemon import Problem

SHAPES = np.array([[2.0, 5.0, 1.0], [3.0, 1.5, 1.0]])
OTHER = np.array([[2.5, 4.0, 1.3], [3.0, 2.5, 1.1]])


def one(**more) -> sf.Params:
    return sf.Params(x=sf.kp(low=0.0, high=1.0, nominal=0.5, **more))


def run(schedule: Doraemon, succeeds, updates: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(updates):
        e = schedule.prior.sample(schedule.batch, rng)
        schedule.record(e, succeeds(e).astype(float), np.zeros(schedule.batch))
        schedule.update()


def test_entropy_and_divergence_agree_with_numerical_integrals():
    x = np.linspace(0.0, 1.0, 400001)[1:-1]
    total, kl = 0.0, 0.0
    for (a, b), (c, d) in zip(SHAPES.T, OTHER.T, strict=True):
        p, log_q = reference(a, b).pdf(x), reference(c, d).logpdf(x)
        total += reference(a, b).entropy()
        kl += np.trapezoid(p * (np.log(p) - log_q), x)
    assert beta.entropy(SHAPES)[0] == pytest.approx(total)
    assert beta.divergence(SHAPES, OTHER)[0] == pytest.approx(kl, rel=1e-4)
    assert beta.divergence(SHAPES, SHAPES)[0] == pytest.approx(0.0, abs=1e-12)
    assert beta.entropy(np.ones((2, 4)))[0] == pytest.approx(0.0)


def test_gradients_agree_with_differences():
    rng = np.random.default_rng(0)
    problem = Problem(SHAPES, rng.beta(SHAPES[0], SHAPES[1], (50, 3)), (rng.random(50) < 0.5).astype(float))
    for function in (beta.entropy, lambda s: beta.divergence(SHAPES, s), problem.rate):
        wrong = check_grad(
            lambda y, f=function: f(y.reshape(2, 3))[0],
            lambda y, f=function: f(y.reshape(2, 3))[1].ravel(),
            OTHER.ravel(),
        )
        assert wrong < 1e-5


def test_importance_sampling_foretells_the_success_under_other_shapes():
    rng = np.random.default_rng(1)
    was, new = np.array([[4.0], [4.0]]), np.array([[3.0], [4.0]])
    x = rng.beta(4.0, 4.0, (200000, 1))
    problem = Problem(was, x, (x[:, 0] < 0.4).astype(float))
    assert problem.rate(new)[0] == pytest.approx(reference(3.0, 4.0).cdf(0.4), abs=0.01)


def test_whitened_steps_have_equal_divergence():
    C = beta.whitening(SHAPES)
    for k in range(3):
        for y in ([0.01, 0.0], [0.0, 0.01], [0.006, -0.008]):
            new = SHAPES.copy()
            new[:, k] *= np.exp(C[k] @ y)
            assert beta.divergence(SHAPES, new)[0] == pytest.approx(0.5 * 1e-4, rel=0.05)


@pytest.mark.slow
def test_the_toy_reaches_the_analytic_optimum():
    # Success iff |x − 0.5| < 0.15 and alpha = 0.5: the widest symmetric Beta has a = 2.647 and entropy −0.221. One update
    # scatters by 0.028 about it at this batch (0.19 at 1024), so that 0.15 is more than five standard deviations.
    schedule = Doraemon(one().prior(), alpha=0.5, eps=0.05, batch=40000, settle=0)
    assert schedule.shapes[:, 0].tolist() == [100.0, 100.0]
    run(schedule, lambda e: np.abs(e["x"] - 0.5) < 0.15, 16)
    a, b = schedule.shapes[:, 0]
    assert a == pytest.approx(2.647, abs=0.15)
    assert b == pytest.approx(2.647, abs=0.15)
    assert a == pytest.approx(b, abs=0.05)
    assert schedule.entropy == pytest.approx(-0.221, abs=0.03)
    x = schedule.prior.sample(100000, 7)["x"]
    assert np.mean(np.abs(x - 0.5) < 0.15) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_small_batches_scatter_about_the_optimum_without_bias(seed):
    schedule = Doraemon(one().prior(), alpha=0.5, eps=0.05, batch=1024, start=5.0, settle=0)
    run(schedule, lambda e: np.abs(e["x"] - 0.5) < 0.15, 10, seed)
    seen = []
    for k in range(60):
        run(schedule, lambda e: np.abs(e["x"] - 0.5) < 0.15, 1, 1000 * (seed + 1) + k)
        seen.append(schedule.shapes.mean())
    assert np.mean(seen) == pytest.approx(2.647, abs=0.15)


def test_each_update_keeps_the_step_and_the_success_it_promises():
    schedule = Doraemon(one().prior(), alpha=0.7, eps=0.05, batch=2000, settle=0)
    rng = np.random.default_rng(0)
    for _ in range(12):
        was = schedule.shapes
        e = schedule.prior.sample(2000, rng)
        schedule.record(e, np.abs(e["x"] - 0.4) < 0.2, np.zeros(2000))
        schedule.update()
        assert beta.divergence(was, schedule.shapes)[0] <= 0.05 + 1e-5
        assert schedule.last is not None
        assert schedule.last.success >= 0.7 - 1e-5
        assert schedule.last.ess >= 0.2


def test_where_everything_succeeds_it_becomes_uniform_on_linear_and_log_axes():
    params = sf.Params(
        mass=sf.mass(low=5.0, high=10.0, nominal=5.0),
        friction=sf.friction(low=0.1, high=10.0, nominal=1.0, scale="log"),
    )
    schedule = Doraemon(params.prior(), eps=0.5, batch=500, settle=0)
    assert schedule.shapes[:, 0].tolist() == [1.0, 199.0]  # the mode is the nominal value, a bound here
    run(schedule, lambda e: e["mass"] > 0, 40)
    np.testing.assert_allclose(schedule.shapes, 1.0, atol=1e-3)
    assert schedule.entropy == pytest.approx(0.0, abs=1e-5)
    e = schedule.prior.sample(20000, 0)
    assert np.median(e["friction"]) == pytest.approx(1.0, rel=0.05)  # log-uniform
    assert e["mass"].mean() == pytest.approx(7.5, rel=0.02)


def test_when_success_is_too_rare_it_first_moves_to_where_success_is():
    schedule = Doraemon(one().prior(), alpha=0.6, eps=0.1, batch=4000, start=10.0, settle=0)
    run(schedule, lambda e: e["x"] > 0.6, 1)
    assert schedule.last is not None
    assert 0.2 < schedule.last.success < 0.6  # more than before, not yet enough
    assert schedule.prior.mean()["x"][0] > 0.53
    assert schedule.last.kl == pytest.approx(0.1, rel=0.02)
    run(schedule, lambda e: e["x"] > 0.6, 25)
    x = schedule.prior.sample(50000, 3)["x"]
    assert np.mean(x > 0.6) == pytest.approx(0.6, abs=0.04)
    assert schedule.entropy > -0.5  # and then as wide as that allows


def test_answers_are_the_best_of_a_fine_grid_of_shapes():
    rng = np.random.default_rng(2)
    was = np.array([[10.0], [10.0]])
    x = rng.beta(10.0, 10.0, (4000, 1))
    problem = Problem(was, x, (x[:, 0] > 0.55).astype(float))
    a, b = np.meshgrid(np.geomspace(3.0, 30.0, 200), np.geomspace(3.0, 30.0, 200))
    grid = [np.array([[p], [q]]) for p, q in zip(a.ravel(), b.ravel(), strict=True)]
    ball = [shapes for shapes in grid if beta.divergence(was, shapes)[0] <= 0.1]
    rates = np.array([problem.rate(shapes)[0] for shapes in ball])
    widths = np.array([beta.entropy(shapes)[0] for shapes in ball])
    hopeless, possible = problem.solve(0.9, 0.1), problem.solve(0.4, 0.1)
    assert rates.max() - 1e-6 <= hopeless.success < rates.max() + 0.01
    best = widths[rates >= 0.4].max()
    assert best - 1e-6 <= beta.entropy(possible.shapes)[0] < best + 0.02
    assert problem.rate(was)[0] < 0.4 - 0.03  # reached only by moving
    assert possible.success >= 0.4 - 1e-5


def test_without_any_success_nothing_moves():
    schedule = Doraemon(one().prior(), batch=500, settle=0)
    before = schedule.prior
    run(schedule, lambda e: e["x"] > 2.0, 2)
    assert schedule.prior == before


def test_steps_whose_weights_rest_on_few_samples_are_made_smaller():
    free = Doraemon(one().prior(), eps=3.0, batch=1000, ess=0.01, settle=0)
    held = Doraemon(one().prior(), eps=3.0, batch=1000, ess=0.6, settle=0)
    for schedule in (free, held):
        run(schedule, lambda e: e["x"] > -1.0, 1)
    assert free.last is not None
    assert held.last is not None
    assert free.last.ess < 0.6 <= held.last.ess
    assert 0 < held.last.kl < free.last.kl


def test_a_threshold_on_returns_replaces_the_tasks_success():
    schedule = Doraemon(one().prior(), batch=400, threshold=10.0, settle=0, alpha=0.9)
    e = schedule.prior.sample(400, 0)
    schedule.record(e, np.full(400, np.nan), np.where(np.arange(400) < 380, 12.0, 3.0))
    schedule.update()
    assert schedule.last is not None
    assert schedule.last.success == pytest.approx(0.95, abs=0.05)


def test_episodes_that_began_before_the_last_change_are_left_out():
    schedule = Doraemon(one().prior(), batch=100, settle=30)
    e = schedule.prior.sample(100, 0)
    schedule.record(e, np.ones(100), np.zeros(100))
    assert schedule.update()
    schedule.record(e, np.ones(100), np.zeros(100))
    assert not schedule.update()  # 70 of 100
    assert len(schedule.state()["success"]) == 70


def test_a_quadrupeds_params_are_moved_in_a_fraction_of_a_second():
    params = sf.Params(**{f"p{k}": sf.kp(low=0.0, high=1.0, nominal=0.3) for k in range(30)})
    schedule = Doraemon(params.prior(), batch=1024, settle=0)
    before = schedule.entropy
    run(schedule, lambda e: e["p0"] < 0.5, 3)
    assert schedule.last is not None
    assert schedule.last.kl == pytest.approx(0.1, rel=0.05)  # the whole step is used
    assert schedule.entropy > before + 3.0


def test_doraemon_refuses_settings_that_make_no_sense():
    for settings in ({"alpha": 0.0}, {"eps": 0.0}, {"batch": 0}, {"start": 0.5}, {"ess": 0.0}):
        with pytest.raises(sf.InputError):
            Doraemon(one().prior(), **settings)
