"""Joint pieces of a prior against closed forms: normals with their Jacobian, spreads, samples, mixtures."""

import numpy as np
import pytest
from scipy import integrate, stats

from surefoot.errors import InputError
from surefoot.params.atoms import Discrete, Point
from surefoot.params.constructors import CONSTRUCTORS
from surefoot.params.distributions import Normal, TruncatedNormal, Uniform
from surefoot.params.params import Params
from surefoot.params.pieces import Spread
from surefoot.params.prior import Prior, axes_of
from test_prior import LEGS, pair, schema

MEAN = np.array([0.4, -0.7])
COVARIANCE = np.array([[0.30, 0.12], [0.12, 0.20]])


def legs(scale="linear", low=0.2, high=2.0) -> Params:
    return Params(kd=CONSTRUCTORS["kd"](low=low, high=high, each=True, scale=scale)).bind({"kd": LEGS})


# -------------------------------------------------------------------- Gaussian


def test_axes_are_the_coordinates_of_pack_and_their_slope_is_the_derivative():
    params = pair()
    axes = axes_of(params)
    v = np.array([[0.31, 6.2], [0.7, 8.0], [1.19, 9.4]])
    np.testing.assert_allclose(axes.to_z(v), params.pack(params.unflatten(v)), rtol=1e-9)
    np.testing.assert_allclose(axes.from_z(axes.to_z(v)), v, rtol=1e-12)
    step = 1e-6
    slopes = [(axes.to_z(v + step * np.eye(2)[k]) - axes.to_z(v - step * np.eye(2)[k]))[:, k] for k in (0, 1)]
    np.testing.assert_allclose(axes.log_slope(v), np.log(np.prod(slopes, axis=0) / (2 * step) ** 2), rtol=1e-6)


def test_gaussian_density_is_that_of_its_coordinates_times_the_jacobian():
    params = pair()
    prior = Prior.gaussian(params, MEAN, COVARIANCE)
    e = prior.sample(200, 0)
    v, step = params.flatten(e), 1e-6
    jacobian = np.empty((200, 2, 2))
    for k in (0, 1):
        ahead, behind = (params.pack(params.unflatten(v + s * np.eye(2)[k])) for s in (step, -step))
        jacobian[:, :, k] = (ahead - behind) / (2 * step)
    expected = stats.multivariate_normal(MEAN, COVARIANCE).logpdf(params.pack(e)) + np.linalg.slogdet(jacobian)[1]
    np.testing.assert_allclose(prior.log_prob(e), expected, atol=1e-5)


def test_gaussian_density_integrates_to_one_over_the_bounds():
    prior = Prior.gaussian(pair(), MEAN, 4 * COVARIANCE)
    x, y = np.linspace(0.3, 1.2, 801), np.linspace(6.0, 9.5, 801)
    grid = {"foot_friction": np.repeat(x, 801), "base_mass": np.tile(y, 801)}
    density = np.exp(prior.log_prob(grid)).reshape(801, 801)
    assert integrate.simpson(integrate.simpson(density, y), x) == pytest.approx(1.0, abs=1e-4)


def test_gaussian_draws_have_its_mean_and_covariance_in_coordinates():
    z = pair().pack(Prior.gaussian(pair(), MEAN, COVARIANCE).sample(100_000, 1))
    np.testing.assert_allclose(z.mean(0), MEAN, atol=0.01)
    np.testing.assert_allclose(np.cov(z.T), COVARIANCE, atol=0.006)


def test_gaussian_conditional_is_the_closed_form():
    params = pair()
    prior = Prior.gaussian(params, MEAN, COVARIANCE)
    known = prior.condition({"base_mass": 7.3})
    z = params.pack({"foot_friction": [0.6], "base_mass": [7.3]})[0, 1]
    mean = MEAN[0] + COVARIANCE[0, 1] / COVARIANCE[1, 1] * (z - MEAN[1])
    variance = COVARIANCE[0, 0] - COVARIANCE[0, 1] ** 2 / COVARIANCE[1, 1]
    piece = known.product.of("foot_friction")
    assert piece.mean[0] == pytest.approx(mean)
    assert piece.covariance[0, 0] == pytest.approx(variance)
    assert (known.sample(5, 0)["base_mass"] == 7.3).all()


def test_conditional_times_marginal_is_the_joint():
    params = schema()
    root = np.random.default_rng(0).normal(size=(5, 5))
    names = ("foot_friction", "base_mass", "kd")
    prior = Prior.gaussian(params, np.zeros(5), root @ root.T / 5 + 0.1 * np.eye(5), names=names)
    e = prior.sample(1, 3)
    parts = prior.condition({"kd": e["kd"][0]}).log_prob(e) + prior.marginal(["kd"]).log_prob({"kd": e["kd"]})
    np.testing.assert_allclose(prior.log_prob(e), parts)


def test_gaussian_mean_in_natural_units_is_the_median():
    prior = Prior.gaussian(pair(), {"foot_friction": np.array([0.7]), "base_mass": np.array([7.3])}, COVARIANCE)
    assert prior.quantile(0.5)["base_mass"][0] == pytest.approx(7.3)
    assert prior.quantile(0.5)["foot_friction"][0] == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("mean", "covariance", "said"),
    [
        (MEAN, [[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        (MEAN, [[1.0, 1.0], [1.0, 1.0]], "not positive definite"),
        (MEAN, [[1.0, 0.5], [0.1, 1.0]], "not symmetric"),
        (MEAN, [[1.0, 0.0], [0.0, 0.0]], "variance of 'base_mass' must be greater than zero"),
        (MEAN, [[1.0, np.nan], [0.0, 1.0]], "not finite"),
        (MEAN, [1.0, 1.0], r"covariance must have shape \(2, 2\)"),
        ([0.0], COVARIANCE, r"mean must have shape \(2,\)"),
        ({"base_mass": np.array([7.0])}, COVARIANCE, "the mean lacks foot_friction"),
    ],
)
def test_a_bad_gaussian_is_one_sentence(mean, covariance, said):
    with pytest.raises(InputError, match=said):
        Prior.gaussian(pair(), mean, np.array(covariance))


def test_a_gaussian_over_choices_is_refused_by_name():
    with pytest.raises(InputError, match="'roughness' has fixed or chosen values"):
        Prior.gaussian(schema(), np.zeros(6), np.eye(6))


# -------------------------------------------------------------------- Spread


def test_spread_has_shared_plus_own_covariance_and_density():
    prior = legs(low=0.0, high=10.0).prior().replace(kd=Spread(shared=Normal(mean=5.0, sd=0.3), own=0.2))
    covariance = 0.09 * np.ones((3, 3)) + 0.04 * np.eye(3)
    kd = prior.sample(100_000, 0)["kd"]
    np.testing.assert_allclose(np.cov(kd.T), covariance, atol=0.003)
    expected = stats.multivariate_normal([5.0] * 3, covariance).logpdf(kd[:100])
    np.testing.assert_allclose(prior.log_prob({"kd": kd[:100]}), expected, rtol=1e-8)


def test_spread_on_a_log_scale_is_a_ratio():
    params = legs(scale="log", low=0.001, high=1000.0)
    prior = params.prior().replace(kd=Spread(shared=Point(value=2.0), own=0.1))
    kd = prior.sample(50_000, 0)["kd"]
    assert np.log(kd / 2.0).std() == pytest.approx(0.1, abs=0.002)
    expected = stats.lognorm(0.1, scale=2.0).logpdf(kd[:50]).sum(1)
    np.testing.assert_allclose(prior.log_prob({"kd": kd[:50]}), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize(
    "shared",
    [Uniform(low=0.3, high=1.9), Discrete(values=(0.5, 1.5)), TruncatedNormal(mean=0.3, sd=0.2, low=0.2, high=2.0)],
)
def test_spread_near_its_bounds_still_integrates_to_one(shared, scale):
    params = Params(kd=CONSTRUCTORS["kd"](low=0.2, high=2.0, each=True, scale=scale)).bind({"kd": LEGS[:2]})
    prior = params.prior().replace(kd=Spread(shared=shared, own=0.25))
    x = np.linspace(0.2, 2.0, 161)
    kd = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(prior.log_prob({"kd": kd})).reshape(161, 161)
    assert integrate.simpson(integrate.simpson(density, x), x) == pytest.approx(1.0, abs=2e-4)
    drawn = prior.sample(20_000, 2)["kd"]
    assert stats.kstest(drawn[:, 1], lambda v: prior.product.cdf("kd[FR_calf]", v)).pvalue > 1e-3
    assert drawn.mean() == pytest.approx(prior.mean()["kd"][0, 0], abs=0.02)


def test_widening_a_spread_widens_both_its_parts():
    prior = legs().prior().replace(kd=Spread(shared=Uniform(low=0.9, high=1.1), own=0.02))
    wide = prior.widen(2.0)
    (a, b), (c, d) = prior.interval()["kd[FL_calf]"], wide.interval()["kd[FL_calf]"]
    assert d - c == pytest.approx(2 * (b - a), rel=1e-6)


def test_spread_is_conditioned_on_all_elements_or_refused():
    prior = legs().prior().replace(kd=Spread(shared=Uniform(low=0.9, high=1.1), own=0.1))
    assert (prior.condition({"kd": [1.0, 1.1, 0.9]}).sample(2, 0)["kd"] == [1.0, 1.1, 0.9]).all()
    with pytest.raises(InputError, match=r"give also kd\[FR_calf\]"):
        prior.condition({"kd[FL_calf]": 1.0})


# -------------------------------------------------------------------- Samples


def test_plain_samples_are_redrawn_with_their_weights_and_stay_rows():
    e = {"foot_friction": np.array([0.4, 0.5, 0.9]), "base_mass": np.array([7.0, 8.0, 9.0])}
    prior = Prior.samples(pair(), e, weights=[0.2, 0.5, 0.3])
    drawn = prior.sample(20_000, 0)
    for k, weight in enumerate((0.2, 0.5, 0.3)):
        hit = (drawn["foot_friction"] == e["foot_friction"][k]) & (drawn["base_mass"] == e["base_mass"][k])
        assert hit.mean() == pytest.approx(weight, abs=0.015)
    np.testing.assert_allclose(prior.log_prob(e), np.log([0.2, 0.5, 0.3]))
    assert prior.log_prob({"foot_friction": [0.4], "base_mass": [8.0]})[0] == -np.inf


def test_jittered_samples_have_a_density_that_integrates_to_one():
    rows = Prior.gaussian(pair(), MEAN, COVARIANCE).sample(30, 0)
    prior = Prior.samples(pair(), rows, jitter=0.5)
    x, y = np.linspace(0.3, 1.2, 161), np.linspace(6.0, 9.5, 161)
    grid = {"foot_friction": np.repeat(x, 161), "base_mass": np.tile(y, 161)}
    density = np.exp(prior.log_prob(grid)).reshape(161, 161)
    assert integrate.simpson(integrate.simpson(density, y), x) == pytest.approx(1.0, abs=1e-3)


def test_jitter_keeps_the_correlation_of_the_samples():
    z = np.array([MEAN + 0.5 * np.array([t, -t]) for t in np.linspace(-1, 1, 50)])
    prior = Prior.samples(pair(), pair().unpack(z), jitter=0.3)
    drawn = pair().pack(prior.sample(5000, 0))
    assert np.corrcoef(drawn.T)[0, 1] < -0.999
    assert len(np.unique(drawn[:, 0])) == 5000


def test_conditioned_samples_approach_the_closed_form():
    gaussian = Prior.gaussian(pair(), MEAN, COVARIANCE)
    prior = Prior.samples(pair(), gaussian.sample(20_000, 0))
    exact, ours = (p.condition({"base_mass": 7.3}).interval(0.8)["foot_friction"] for p in (gaussian, prior))
    assert ours == pytest.approx(exact, abs=0.015)


def test_samples_with_nothing_near_refuse_to_be_conditioned():
    rows = {"foot_friction": np.linspace(0.5, 0.6, 30), "base_mass": np.linspace(7.0, 7.2, 30)}
    prior = Prior.samples(pair(), rows)
    with pytest.raises(InputError, match=r"no sample lies near base_mass=8.*wider kernel="):
        prior.condition({"base_mass": 8.0})
    assert prior.condition({"base_mass": 8.0}, kernel=20.0).interval()["foot_friction"][1] <= 0.6


def test_samples_of_choices_are_conditioned_on_equality():
    e = {"roughness": np.array([0.0, 0.0, 0.02, 0.08]), "base_mass": np.array([6.5, 7.0, 8.0, 9.0])}
    known = Prior.samples(schema(), e).condition({"roughness": 0.0})
    assert set(known.sample(200, 0)["base_mass"]) == {6.5, 7.0}


# -------------------------------------------------------------------- Mixture


def test_mixture_density_is_the_weighted_sum():
    a, b = Prior.gaussian(pair(), MEAN, COVARIANCE), pair().prior()
    e = b.sample(50, 0)
    expected = np.log(0.7 * np.exp(a.log_prob(e)) + 0.3 * np.exp(b.log_prob(e)))
    np.testing.assert_allclose(Prior.mixture([a, b], [0.7, 0.3]).log_prob(e), expected)


def test_mixture_draws_components_by_weight_and_inner_choices_are_independent():
    def at(x):
        return pair().prior().replace(base_mass=Point(value=x))

    inner = Prior.mixture([at(6.5), at(7.0)])
    drawn = Prior.mixture([inner, Prior.mixture([at(8.0), at(9.0)], [0.25, 0.75])], [0.4, 0.6]).sample(40_000, 0)
    for value, share in ((6.5, 0.2), (7.0, 0.2), (8.0, 0.15), (9.0, 0.45)):
        assert np.mean(drawn["base_mass"] == value) == pytest.approx(share, abs=0.01)


def test_knowledge_moves_weight_to_the_component_that_foretold_it():
    light = pair().prior().replace(base_mass=Normal(mean=6.5, sd=0.2), foot_friction=Uniform(low=0.3, high=0.5))
    heavy = pair().prior().replace(base_mass=Normal(mean=7.5, sd=0.2), foot_friction=Uniform(low=0.8, high=1.2))
    known = Prior.mixture([light, heavy]).condition({"base_mass": 6.9})
    densities = [np.exp(p.product.of("base_mass").distribution.log_prob(6.9)) for p in (light, heavy)]
    share = np.mean(known.sample(40_000, 0)["foot_friction"] < 0.6)
    assert share == pytest.approx(densities[0] / sum(densities), abs=0.01)


def test_mixture_of_masses_and_densities_draws_but_refuses_a_density():
    mixed = Prior.mixture([pair().prior(), pair().prior().replace(base_mass=Point(value=7.0))])
    assert np.mean(mixed.sample(1000, 0)["base_mass"] == 7.0) == pytest.approx(0.5, abs=0.06)
    with pytest.raises(InputError, match="'base_mass' is a density in one component"):
        mixed.log_prob(mixed.sample(2, 0))


def test_mixture_with_a_wider_prior_holds_both():
    mixed = Prior.mixture([pair().prior(), pair().prior().widen(1.5)])
    assert mixed.params["base_mass"].low == pytest.approx(7.75 - 1.5 * 1.75)
