"""Worst-case emphasis: weights that give CVaR and its gradient, and draws near what went wrong."""

import numpy as np
import pytest
from scipy.stats import norm

import surefoot as sf
from surefoot.randomize import Cvar, cvar_weights


def one() -> sf.Params:
    return sf.Params(x=sf.kp(low=0.0, high=1.0, nominal=0.5), push=sf.push(low=0.0, high=1.0))


def test_weights_give_the_mean_of_the_worst_share_exactly():
    returns = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.6])
    w, q = cvar_weights(returns, 1 / 3)
    assert q == 1.5
    np.testing.assert_allclose(w, [0, 3, 0, 3, 0, 0])
    w, q = cvar_weights(returns, 0.25)  # one episode and a half
    assert q == 1.5
    np.testing.assert_allclose(w, [0, 4, 0, 2, 0, 0])
    assert np.mean(w * returns) == pytest.approx((1.0 + 0.5 * 1.5) / 1.5)
    np.testing.assert_allclose(cvar_weights(returns, 1.0)[0], 1.0)


def test_equal_returns_share_their_weight():
    w, q = cvar_weights([0.0, 0.0, 0.0, 1.0], 0.5)
    assert q == 0.0
    np.testing.assert_allclose(w, [4 / 3, 4 / 3, 4 / 3, 0.0])


def test_weights_reproduce_the_cvar_and_its_gradient():
    # R ~ N(mu, sd²): CVaR = mu − sd φ(z) / alpha, so ∂/∂mu = 1 and ∂/∂sd = −φ(z) / alpha.
    mu, sd, alpha, n = 2.0, 0.7, 0.2, 400000
    returns = mu + sd * np.random.default_rng(0).standard_normal(n)
    w, q = cvar_weights(returns, alpha)
    slope = -norm.pdf(norm.ppf(alpha)) / alpha
    assert np.mean(w * returns) == pytest.approx(mu + sd * slope, abs=0.01)
    assert q == pytest.approx(norm.ppf(alpha, mu, sd), abs=0.01)
    unit = (returns - mu) / sd
    score = {"mu": unit / sd, "sd": (unit**2 - 1) / sd}
    assert np.mean(w * (returns - q) * score["mu"]) == pytest.approx(1.0, abs=0.03)
    assert np.mean(w * (returns - q) * score["sd"]) == pytest.approx(slope, abs=0.05)
    assert abs(np.mean(w * (returns - mu) * score["mu"]) - 1.0) > 0.3  # another baseline biases it


def test_ratios_give_the_cvar_under_another_distribution():
    rng = np.random.default_rng(1)
    drawn = rng.normal(1.0, 1.0, 400000)  # p' = N(1, 1), p = N(0, 1)
    ratio = np.exp(norm.logpdf(drawn) - norm.logpdf(drawn, 1.0))
    w, q = cvar_weights(drawn, 0.3, ratio)
    assert q == pytest.approx(norm.ppf(0.3), abs=0.02)
    assert np.mean(w * drawn) == pytest.approx(-norm.pdf(norm.ppf(0.3)) / 0.3, abs=0.02)


def run(schedule: Cvar, updates: int, seed: int = 0):
    """Returns that fall where x is above 0.9, whatever the push."""
    rng = np.random.default_rng(seed)
    for _ in range(updates):
        e = schedule.prior.sample(schedule.batch, rng)
        returns = -10.0 * np.maximum(e["x"] - 0.9, 0.0) + 0.001 * rng.standard_normal(len(e["x"]))
        schedule.record(e, np.ones(len(returns)), returns)
        changed = schedule.update()
        yield e, returns, changed


def test_draws_gather_where_the_worst_episodes_were():
    schedule = Cvar(one().prior(), alpha=0.1, share=0.5, batch=2000, settle=0)
    assert schedule.prior == one().prior()
    assert all(changed for _, _, changed in run(schedule, 4))
    e = schedule.prior.sample(20000, 9)
    assert np.mean(e["x"] > 0.88) == pytest.approx(0.5 * 0.12 + 0.5, abs=0.06)  # half of the draws near failures
    assert e["x"].min() < 0.05  # the rest over the whole range
    assert e["push"].mean() == pytest.approx(0.5, abs=0.05)


def test_the_emphasis_does_not_change_which_cvar_is_meant():
    schedule = Cvar(one().prior(), alpha=0.2, share=0.5, batch=2000, settle=0)
    true = -10.0 * 0.5 * 0.1 * 0.5  # E[10 (x − 0.9)+ | x > 0.8] with a minus sign
    found = []
    for _ in run(schedule, 6):
        found.append(schedule.cvar)
    np.testing.assert_allclose(found, true, atol=0.06)
    e = schedule.prior.sample(4000, 5)
    returns = -10.0 * np.maximum(e["x"] - 0.9, 0.0)
    assert np.mean(schedule.weights(returns, e) * returns) == pytest.approx(true, abs=0.05)
    assert np.mean(schedule.weights(returns) * returns) < 1.5 * true  # of what was drawn: worse
    assert schedule.weights(returns, e).mean() == pytest.approx(1.0)


def test_without_a_share_the_prior_stays_and_only_weights_are_given():
    schedule = Cvar(one().prior(), share=0.0, batch=100, settle=0)
    assert not any(changed for _, _, changed in run(schedule, 3))
    assert schedule.prior == one().prior()
    assert np.isfinite(schedule.cvar)


def test_named_params_are_emphasised_and_the_others_left_alone():
    params = sf.Params(**one(), roughness=sf.discrete("roughness", 0.0, 0.02))
    prior = params.prior().replace(push=sf.Point(value=0.3))
    schedule = Cvar(prior, names=("x",), alpha=0.1, batch=500, settle=0)
    for _ in run(schedule, 2):
        pass
    e = schedule.prior.sample(1000, 0)
    assert (e["push"] == 0.3).all()
    assert set(np.unique(e["roughness"])) == {0.0, 0.02}
    assert np.mean(e["x"] > 0.8) > 0.5  # 0.2 without emphasis


def test_cvar_refuses_what_has_no_worst_share():
    with pytest.raises(sf.InputError, match="alpha"):
        cvar_weights([1.0], 0.0)
    with pytest.raises(sf.InputError, match="finite returns"):
        cvar_weights([1.0, np.nan], 0.5)
    with pytest.raises(sf.InputError, match="finite returns"):
        cvar_weights([], 0.5)
    with pytest.raises(sf.InputError, match="ratio"):
        cvar_weights([1.0, 2.0], 0.5, [1.0])
    for settings in ({"alpha": 2.0}, {"share": 1.0}, {"batch": 0}, {"jitter": 0.0}):
        with pytest.raises(sf.InputError):
            Cvar(one().prior(), **settings)
