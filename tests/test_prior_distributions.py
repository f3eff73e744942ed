"""Distributions of one number against scipy.stats, their own integrals, and what widening promises."""

import numpy as np
import pytest
from scipy import integrate, stats

from surefoot.errors import InputError
from surefoot.params import normal
from surefoot.params.atoms import Discrete, Empirical, Point
from surefoot.params.distribution import distribution_from_dict
from surefoot.params.distributions import Beta, LogNormal, LogUniform, Normal, TruncatedNormal, Uniform

SAMPLES = tuple(np.random.default_rng(0).normal(2.0, 0.5, 80).clip(0.5, 3.5).tolist())
REFERENCE = {
    "uniform": (Uniform(low=0.3, high=1.2), stats.uniform(0.3, 0.9)),
    "log_uniform": (LogUniform(low=0.3, high=1.2), stats.loguniform(0.3, 1.2)),
    "normal": (Normal(mean=7.3, sd=0.4), stats.norm(7.3, 0.4)),
    "truncated": (TruncatedNormal(mean=1.0, sd=0.5, low=0.8, high=2.5), stats.truncnorm(-0.4, 3.0, 1.0, 0.5)),
    "tail": (TruncatedNormal(mean=0.0, sd=1.0, low=6.0, high=8.0), stats.truncnorm(6.0, 8.0)),
    "log_normal": (LogNormal(median=0.7, sigma=0.3), stats.lognorm(0.3, scale=0.7)),
    "beta": (Beta(low=-1.0, high=3.0, a=2.0, b=5.0), stats.beta(2.0, 5.0, -1.0, 4.0)),
}
SMOOTH = {
    "empirical": Empirical(values=SAMPLES, smoothing=0.2),
    "empirical_cut": Empirical(values=SAMPLES, smoothing=0.3, low=0.5, high=3.5),
    "empirical_log": Empirical(values=SAMPLES, smoothing=0.1, scale="log", low=0.4, high=4.0),
    "log_normal_cut": LogNormal(median=0.7, sigma=0.3, low=0.5, high=1.0),
}
CONTINUOUS = {name: ours for name, (ours, _) in REFERENCE.items()} | SMOOTH
ATOMS = {
    "point": Point(value=3.0),
    "discrete": Discrete(values=(0.0, 0.02, 0.08), weights=(0.5, 0.2, 0.3)),
    "empirical_plain": Empirical(values=SAMPLES),
    "empirical_weighted": Empirical(values=(1.0, 2.0, 4.0), weights=(0.1, 0.6, 0.3)),
}
ALL = CONTINUOUS | ATOMS


@pytest.mark.parametrize("name", REFERENCE)
def test_density_cdf_and_quantile_match_scipy(name):
    ours, scipys = REFERENCE[name]
    p = np.linspace(0.001, 0.999, 101)
    x = scipys.ppf(p)
    np.testing.assert_allclose(ours.quantile(p), x, rtol=1e-8)
    np.testing.assert_allclose(ours.cdf(x), p, rtol=1e-7)
    np.testing.assert_allclose(ours.log_prob(x), scipys.logpdf(x), rtol=1e-8, atol=1e-8)
    assert ours.expected() == pytest.approx(scipys.mean(), rel=1e-7)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_density_integrates_to_one_and_to_its_mean(name):
    d = CONTINUOUS[name]
    low, high = d.quantile(np.array([1e-12, 1 - 1e-12]))
    points = d.quantile(np.linspace(0.05, 0.95, 10))
    total = integrate.quad(lambda x: float(np.exp(d.log_prob(x))), low, high, points=points, limit=400)[0]
    mean = integrate.quad(lambda x: x * float(np.exp(d.log_prob(x))), low, high, points=points, limit=400)[0]
    assert total == pytest.approx(1.0, abs=1e-6)
    assert mean == pytest.approx(d.expected(), rel=1e-5)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_follow_the_cdf(name):
    d = CONTINUOUS[name]
    assert stats.kstest(d.sample(20_000, 5), d.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", ATOMS)
def test_masses_sum_to_one_and_samples_have_their_frequencies(name):
    d = ATOMS[name]
    masses = np.exp(d.log_prob(d.atoms))
    assert masses.sum() == pytest.approx(1.0)
    assert d.expected() == pytest.approx(masses @ d.atoms)
    drawn = d.sample(50_000, 1)
    seen = (drawn[:, None] == d.atoms).mean(0)
    np.testing.assert_allclose(seen, masses, atol=0.01)
    assert d.log_prob(d.atoms[0] + 1e-3) == -np.inf


@pytest.mark.parametrize("name", ALL)
def test_quantile_inverts_cdf(name):
    d = ALL[name]
    p = np.linspace(0.01, 0.99, 37)
    x = d.quantile(p)
    assert (d.cdf(x) >= p - 1e-9).all()
    assert (np.diff(x) >= 0).all()
    assert (x >= d.support[0]).all()
    assert (x <= d.support[1]).all()


@pytest.mark.parametrize("name", ALL)
def test_plain_data_round_trip_is_exact(name):
    d = ALL[name].narrow(1.7)
    again = distribution_from_dict(d.to_dict())
    assert again == d
    np.testing.assert_array_equal(again.sample(50, 3), d.sample(50, 3))


@pytest.mark.parametrize("name", ALL)
def test_first_samples_do_not_depend_on_how_many_are_drawn(name):
    d = ALL[name]
    np.testing.assert_array_equal(d.sample(256, 9)[:64], d.sample(64, 9))
    assert name == "point" or (d.sample(64, 9) != d.sample(64, 10)).any()


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if "log" not in n])
def test_widen_stretches_every_interval_about_the_median(name):
    d = CONTINUOUS[name]
    p = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    x, wide, narrow = d.quantile(p), d.widen(1.3).quantile(p), d.narrow(2.0).quantile(p)
    np.testing.assert_allclose(wide - x[2], 1.3 * (x - x[2]), atol=1e-7)
    np.testing.assert_allclose(narrow - x[2], 0.5 * (x - x[2]), atol=1e-7)


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if "log" in n])
def test_widen_stretches_on_the_log_axis_where_the_distribution_lives(name):
    d = CONTINUOUS[name]
    p = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    x, wide = np.log(d.quantile(p)), np.log(d.widen(1.3).quantile(p))
    np.testing.assert_allclose(wide - x[2], 1.3 * (x - x[2]), atol=1e-7)


def test_widen_never_leaves_the_hard_limits():
    assert Uniform(low=0.1, high=1.9).widen(1.3, within=(0.0, np.inf)).support == (0.0, pytest.approx(2.17))
    assert LogUniform(low=0.3, high=1.2).widen(10.0, within=(0.2, 2.0)) == LogUniform(low=0.2, high=2.0)
    cut = TruncatedNormal(mean=1.0, sd=0.5, low=0.2, high=2.0).widen(3.0, within=(0.0, 2.0))
    assert cut.support == (0.0, 2.0)
    assert cut.sd == 1.5
    wide = Empirical(values=SAMPLES).widen(5.0, within=(0.0, 4.0))
    assert wide.support == (0.0, 4.0)


def test_widening_a_choice_evens_its_weights_and_keeps_the_impossible():
    d = Discrete(values=(1, 2, 3), weights=(0.8, 0.2, 0.0))
    wide = d.widen(2.0)
    assert wide.weights == pytest.approx((2 / 3, 1 / 3, 0.0))
    assert d.widen(2.0).narrow(2.0).weights == pytest.approx(d.weights)


def test_cut_normal_is_right_thirty_deviations_out():
    d = TruncatedNormal(mean=0.0, sd=1.0, low=30.0, high=31.0)
    assert d.expected() == pytest.approx(30.0 + 1 / 30.0, abs=2e-4)
    assert stats.kstest(d.sample(5000, 1), d.cdf).pvalue > 1e-3
    mirrored = TruncatedNormal(mean=0.0, sd=1.0, low=-31.0, high=-30.0)
    np.testing.assert_allclose(mirrored.quantile(0.25), -d.quantile(0.75), rtol=1e-12)
    assert normal.cdf(np.array([30.5]), 30.0, 31.0)[0] == pytest.approx(1.0, abs=1e-6)


def test_normal_is_cut_at_bounds_but_a_range_beyond_them_is_refused():
    assert Normal(mean=1.0, sd=2.0).cut(0.0, 3.0) == TruncatedNormal(mean=1.0, sd=2.0, low=0.0, high=3.0)
    assert LogNormal(median=1.0, sigma=1.0).cut(0.5, 3.0).support == (0.5, 3.0)
    with pytest.raises(InputError, match=r"outside the bounds 6 to 9\.5"):
        Uniform(low=5.0, high=9.0).cut(6.0, 9.5)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Uniform(low=2.0, high=1.0), "low 2 must be below high 1"),
        (lambda: Uniform(low=float("nan"), high=1.0), "low must be a finite number"),
        (lambda: Uniform(low="a", high=1.0), "low must be a finite number, not 'a'"),
        (lambda: LogUniform(low=0.0, high=1.0), "low must be greater than zero"),
        (lambda: Normal(mean=0.0, sd=0.0), "sd must be greater than zero"),
        (lambda: LogNormal(median=1.0, sigma=1.0, low=-1.0), "low must not be negative"),
        (lambda: Discrete(values=(1, 2), weights=(0.5, 0.6)), "must sum to 1, they sum to 1.1"),
        (lambda: Discrete(values=(1, 2), weights=(1.5, -0.5)), "not negative"),
        (lambda: Discrete(values=(1, 2), weights=(1.0,)), "2 weights are needed"),
        (lambda: Discrete(values=(1, 1)), "must differ"),
        (lambda: Empirical(values=()), "at least one finite number"),
        (lambda: Empirical(values=(1.0, float("inf"))), "1 not finite"),
        (lambda: Empirical(values=(-1.0,), scale="log"), "leave 0 to inf"),
        (lambda: Uniform(low=0.0, high=1.0).widen(0.5), r"use narrow\(2\)"),
        (lambda: Uniform(low=0.0, high=1.0).narrow(float("nan")), "factor of 1 or more"),
        (lambda: Uniform(low=0.0, high=1.0).log_prob([0.5, np.nan]), "probability of NaN"),
        (lambda: Uniform(low=0.0, high=1.0).quantile(1.5), "between 0 and 1, not 1.5"),
        (lambda: Uniform(low=0.0, high=1.0).sample(3, "x"), "a seed is a whole number"),
        (lambda: Uniform(low=0.0, high=1.0).sample(-3, 1), "number of worlds"),
        (lambda: Normal(mean=0.0, sd=1.0).widen(2.0, within=(0.0, 1.0)), "has no ends"),
        (lambda: distribution_from_dict({"kind": "unifrom"}), "did you mean 'uniform'"),
        (lambda: distribution_from_dict({"kind": "uniform", "lo": 1.0}), "did you mean 'low'"),
        (lambda: distribution_from_dict({"kind": "uniform", "low": 1.0}), "lacks high"),
        (lambda: distribution_from_dict([1]), "a table with a 'kind'"),
    ],
)
def test_bad_input_is_one_sentence(make, said):
    with pytest.raises(InputError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)
