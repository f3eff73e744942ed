"""Priors over e: reproducible draws, knowledge that narrows them, files that keep them, errors that teach."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from surefoot.errors import InputError
from surefoot.params.atoms import Discrete, Empirical, Point
from surefoot.params.constructors import CONSTRUCTORS
from surefoot.params.distributions import Beta, LogNormal, LogUniform, Normal, TruncatedNormal, Uniform
from surefoot.params.draws import Draws
from surefoot.params.params import Params
from surefoot.params.pieces import Spread
from surefoot.params.prior import Prior, uniform_prior

LEGS = ("FL_calf_joint", "FR_calf_joint", "RL_calf_joint")


def schema(**more) -> Params:
    params = {
        "foot_friction": CONSTRUCTORS["friction"](".*_foot", low=0.3, high=1.2, scale="log", nominal=0.8),
        "base_mass": CONSTRUCTORS["mass"]("base", low=6.0, high=9.5, nominal=7.0),
        "kd": CONSTRUCTORS["kd"](".*_calf_joint", low=0.2, high=2.0, each=True, nominal=1.0),
        "roughness": CONSTRUCTORS["roughness"](low=0.0, high=0.08, choices=(0.0, 0.02, 0.08), nominal=0.0),
        **more,
    }
    return Params(**params).bind({name: LEGS if p.each else () for name, p in params.items()})


def pair() -> Params:
    kept = schema().only("foot_friction", "base_mass")
    return kept.bind({"foot_friction": (), "base_mass": ()})


def every_prior() -> dict[str, Prior]:
    params = schema()
    uniform = params.prior()
    mean = {"foot_friction": np.array([0.7]), "base_mass": np.array([7.3]), "kd": np.array([[0.5, 1.0, 1.5]])}
    root = np.random.default_rng(3).normal(size=(5, 5)) * 0.3
    gaussian = Prior.gaussian(params, mean, root @ root.T + 0.05 * np.eye(5), names=mean)
    return {
        "uniform": uniform,
        "independent": Prior.independent(
            params,
            {
                "foot_friction": LogNormal(median=0.7, sigma=0.2),
                "kd": (Uniform(low=0.3, high=0.9), Normal(mean=1.0, sd=0.1), Beta(low=0.2, high=1.0, a=2.0, b=2.0)),
                "roughness": Discrete(values=(0.0, 0.08), weights=(0.3, 0.7)),
            },
        ),
        "spread": uniform.replace(kd=Spread(shared=Uniform(low=0.6, high=1.4), own=0.1)),
        "gaussian": gaussian,
        "samples": Prior.samples(params, gaussian.sample(40, 2)),
        "jittered": Prior.samples(params, gaussian.sample(40, 2), weights=np.arange(40) / 780.0, jitter=0.3),
        "mixture": Prior.mixture([gaussian, uniform], [0.8, 0.2]),
        "nested": Prior.mixture([Prior.mixture([gaussian, uniform]), uniform.narrow(2.0)], [0.5, 0.5]),
        "conditioned": gaussian.condition({"base_mass": 7.1, "kd[FL_calf]": 0.6}),
        "pointed": uniform.replace(base_mass=Point(value=7.0), foot_friction=Empirical(values=(0.5, 0.6))),
    }


PRIORS = every_prior()


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


# -------------------------------------------------------------------- draws


@pytest.mark.parametrize("name", PRIORS)
def test_world_i_is_the_same_for_any_number_of_worlds(name):
    few, many = PRIORS[name].sample(64, 11), PRIORS[name].sample(256, 11)
    assert same(few, {k: v[:64] for k, v in many.items()})


@pytest.mark.parametrize("name", PRIORS)
def test_draws_lie_in_bounds_and_have_a_finite_density(name):
    prior = PRIORS[name]
    e = prior.sample(500, 0)
    prior.params.check(e, 500, within=True)
    assert np.isfinite(prior.log_prob({k: v[:50] for k, v in e.items()})).all()


def test_another_param_or_another_order_leaves_the_other_draws_alone():
    small = schema().prior().sample(32, 4)
    wide = schema(slope=CONSTRUCTORS["slope"](low=0.0, high=0.2)).prior().sample(32, 4)
    turned = schema().only("kd", "roughness", "base_mass", "foot_friction")
    turned = turned.bind({n: LEGS if n == "kd" else () for n in turned}).prior().sample(32, 4)
    for name, value in small.items():
        np.testing.assert_array_equal(wide[name], value)
        np.testing.assert_array_equal(turned[name], value)


def test_a_generator_gives_new_worlds_at_every_call_and_the_same_ones_again():
    first, second = np.random.default_rng(5), np.random.default_rng(5)
    a, b = PRIORS["uniform"].sample(8, first), PRIORS["uniform"].sample(8, first)
    assert not same(a, b)
    assert same(a, PRIORS["uniform"].sample(8, second))


def test_streams_of_different_names_are_uncorrelated():
    draws = Draws(n=100_000, seed=0)
    u = np.stack([draws.uniform(f"p{k}") for k in range(6)] + [draws.below("a").uniform("p0")])
    assert np.abs(np.corrcoef(u) - np.eye(7)).max() < 4.5 / np.sqrt(100_000)
    assert stats.kstest(u[0], "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(u[0][1:], u[0][:-1])[0, 1]) < 0.015


def test_a_drawn_number_is_pinned_so_that_old_seeds_keep_their_meaning():
    np.testing.assert_array_equal(Draws(n=2, seed=1).uniform("base_mass"), Draws(n=3, seed=1).uniform("base_mass")[:2])
    np.testing.assert_allclose(Draws(n=2, seed=1).uniform("base_mass"), PINNED, rtol=0, atol=0)


PINNED = [0.608753162269735, 0.2998354551096042]


def test_params_with_one_value_per_sim_are_equal_in_all_worlds():
    params = Params(timestep=CONSTRUCTORS["timestep"](low=0.001, high=0.005))
    drawn = params.prior().sample(16, 3)["timestep"]
    assert (drawn == drawn[0]).all()
    assert drawn[0] == params.prior().sample(1, 3)["timestep"][0]


def test_a_schema_without_params_draws_an_empty_e():
    assert Params().prior().sample(4, 0) == {}


# -------------------------------------------------------------------- uniform, interval, mean


def test_uniform_prior_follows_scale_and_choices():
    e = uniform_prior(schema()).sample(20_000, 1)
    assert stats.kstest(e["foot_friction"], stats.loguniform(0.3, 1.2).cdf).pvalue > 1e-3
    assert stats.kstest(e["base_mass"], stats.uniform(6.0, 3.5).cdf).pvalue > 1e-3
    assert np.mean(e["roughness"] == 0.02) == pytest.approx(1 / 3, abs=0.02)
    assert abs(np.corrcoef(e["kd"].T)[0, 1]) < 0.03
    density = -np.log(3.5) - 3 * np.log(1.8) + np.log(1 / 3)
    expected = density - np.log(e["foot_friction"]) - np.log(np.log(4.0))
    np.testing.assert_allclose(schema().prior().log_prob(e), expected)


def test_a_param_whose_bounds_meet_is_a_known_value():
    params = Params(base_mass=CONSTRUCTORS["mass"]("base", low=7.0, high=7.0))
    assert (params.prior().sample(5, 0)["base_mass"] == 7.0).all()


@pytest.mark.parametrize("name", PRIORS)
def test_central_intervals_hold_their_share_of_draws(name):
    prior = PRIORS[name]
    v = prior.params.flatten(prior.sample(20_000, 21))
    for k, (label, (low, high)) in enumerate(prior.interval(0.8).items()):
        inside = np.mean((v[:, k] >= low) & (v[:, k] <= high))
        if label == "roughness" or name in ("samples", "pointed", "conditioned"):
            assert inside >= 0.79, label  # atoms at the ends belong to the interval
        else:
            assert inside == pytest.approx(0.8, abs=0.012), label


@pytest.mark.parametrize("name", PRIORS)
def test_mean_is_that_of_the_draws_and_a_legal_e(name):
    prior = PRIORS[name]
    mean = prior.mean()
    prior.params.check(mean, 1, within=True)
    e = prior.sample(40_000, 8)
    for key in ("foot_friction", "base_mass", "kd"):
        spread = e[key].std(0) + 1e-12
        assert (np.abs(e[key].mean(0) - mean[key][0]) < 5 * spread / np.sqrt(40_000) + 1e-12).all()


# -------------------------------------------------------------------- other beliefs


def test_replace_by_name_label_and_list():
    prior = schema().prior().replace({"kd[FR_calf]": Point(value=0.5)}, base_mass=Normal(mean=7.3, sd=0.2))
    e = prior.sample(1000, 0)
    assert (e["kd"][:, 1] == 0.5).all()
    assert e["kd"][:, 0].std() > 0.4
    assert e["base_mass"].mean() == pytest.approx(7.3, abs=0.03)
    assert prior.product.of("base_mass").distribution == TruncatedNormal(mean=7.3, sd=0.2, low=6.0, high=9.5)


def test_widen_grows_the_bounds_up_to_the_physical_limits():
    narrow = schema().prior()
    wide = narrow.widen(1.3)
    (a, b), (c, d) = narrow.interval()["base_mass"], wide.interval()["base_mass"]
    assert d - c == pytest.approx(1.3 * (b - a))
    assert c + d == pytest.approx(a + b)
    (a, b), (c, d) = narrow.interval()["foot_friction"], wide.interval()["foot_friction"]
    assert np.log(d / c) == pytest.approx(1.3 * np.log(b / a))
    assert wide.params["base_mass"].low == pytest.approx(7.75 - 1.3 * 1.75)
    assert wide.params["kd"].low == 0.0
    wide.params.check(wide.sample(100, 0), 100, within=True)
    assert wide.narrow(1.3).interval()["base_mass"] == pytest.approx(narrow.interval()["base_mass"])


def test_widen_within_a_schema_stays_in_it():
    params = schema()
    start = params.prior().narrow(4.0)
    wide = start.widen(2.0, within=params)
    assert wide.params == params
    assert np.diff(wide.interval()["base_mass"]) == pytest.approx(0.9 * 3.5 / 2)
    assert start.widen(100.0, within=params) == params.prior()
    assert start.widen(100.0, within={"base_mass": (7.0, 8.0)}).product.support("base_mass") == (7.0, 8.0)


def test_widening_a_normal_joint_stretches_its_coordinates():
    prior = PRIORS["gaussian"]
    z, wide = (p.params.pack(p.quantile(0.95)) - p.params.pack(p.quantile(0.5)) for p in (prior, prior.widen(1.3)))
    np.testing.assert_allclose(wide[0, :5], 1.3 * z[0, :5], rtol=1e-6)
    assert prior.widen(1.3).params == prior.params


def test_marginal_keeps_values_and_correlations():
    kept = PRIORS["gaussian"].marginal(["base_mass", "kd"])
    assert kept.params.names == ("base_mass", "kd[FL_calf]", "kd[FR_calf]", "kd[RL_calf]")
    full, part = PRIORS["gaussian"].sample(20_000, 1), kept.sample(20_000, 1)
    ours = np.corrcoef(part["base_mass"], part["kd"][:, 0])[0, 1]
    assert ours == pytest.approx(np.corrcoef(full["base_mass"], full["kd"][:, 0])[0, 1], abs=0.03)
    assert kept.interval() == {k: v for k, v in PRIORS["gaussian"].interval().items() if k in kept.params.names}


def test_conditioning_independent_pieces_leaves_the_others():
    prior = schema().prior().condition({"base_mass": 7.3, "kd": 0.5})
    assert (prior.sample(3, 0)["kd"] == 0.5).all()
    np.testing.assert_array_equal(prior.sample(3, 0)["foot_friction"], schema().prior().sample(3, 0)["foot_friction"])


# -------------------------------------------------------------------- files


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize("name", PRIORS)
def test_saved_and_loaded_prior_is_equal_and_draws_the_same_bits(name, suffix, tmp_path):
    prior, path = PRIORS[name], tmp_path / f"prior.{suffix}"
    prior.save(path)
    again = Prior.load(path)
    assert again == prior
    assert again.hash == prior.hash
    assert again.params.names == prior.params.names
    assert same(again.sample(32, 6), prior.sample(32, 6))
    assert same(again.params.nominal_e(2), prior.params.nominal_e(2))


def test_hash_tells_priors_apart():
    assert len({prior.hash for prior in PRIORS.values()}) == len(PRIORS)
    assert schema().prior() == schema().prior()
    assert schema().prior() != schema().prior().widen(1.0001)


def test_a_hand_written_file_may_name_whole_params_and_leave_out_uniform_ones(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("""
[params.foot_friction]
kind = "friction"
low = 0.3
high = 1.2
scale = "log"
[params.base_mass]
kind = "mass"
of = "base"
low = 6
high = 9.5
[prior.marginals]
base_mass = { kind = "normal", mean = 7.3, sd = 0.2 }
""")
    prior = Prior.load(path)
    assert prior.mean()["base_mass"][0] == pytest.approx(7.3)
    assert prior.product.of("foot_friction").distribution == LogUniform(low=0.3, high=1.2)


def _mutated(value, rng: random.Random):
    """One random change somewhere in plain data."""
    junk = [None, "x", -1, 1e400, float("nan"), [], {}, [[1.0]], True, [1.0, "a"], {"kind": "uniform"}]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {k: _mutated(v, rng) if k == key else v for k, v in value.items()}
    if isinstance(value, list) and value and rng.random() < 0.8:
        k = rng.randrange(len(value))
        return [*value[:k], _mutated(value[k], rng), *value[k + 1 :]]
    return rng.choice(junk)


def test_a_thousand_damaged_files_give_a_sentence_or_a_working_prior(tmp_path):
    rng, sentences = random.Random(0), []
    path = tmp_path / "damaged.json"
    sources = [json.loads(json.dumps(prior.to_dict())) for prior in PRIORS.values()]
    for _ in range(1000):
        path.write_text(json.dumps(_mutated(rng.choice(sources), rng)))
        try:
            e = Prior.load(path).sample(2, 0)
        except InputError as error:
            sentences.append(str(error))
        else:
            assert all(np.isfinite(v).all() for v in e.values())
    assert len(sentences) > 700
    assert all(str(path) in sentence for sentence in sentences)


def test_table_names_every_scalar_with_unit_and_belief():
    text = repr(PRIORS["spread"])
    for word in ("kd[FL_calf]", "kg", "spread: own 0.1", "log uniform: low 0.3", "95 %"):
        assert word in text
    assert PRIORS["uniform"].rows()[1]["median"] == 7.75


def test_importing_priors_is_light():
    code = "import sys, surefoot.params.prior; print(any(m.startswith('scipy') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda p: p.replace(foot_fricton=Point(value=1.0)), "did you mean 'foot_friction'"),
        (lambda p: p.replace(base_mass=Uniform(low=5.0, high=9.0)), "'base_mass': .* outside the bounds 6 to 9.5"),
        (lambda p: p.replace(base_mass=7.3), "one distribution or 1 are needed"),
        (lambda p: p.replace(kd=[Point(value=1.0)]), "one distribution or 3 are needed"),
        (lambda p: p.replace(base_mass=Spread(shared=Point(value=7.0), own=0.1)), "each=True"),
        (lambda p: p.replace(kd=Spread(shared=Point(value=1.0), own=0.0)), "own must be greater than zero"),
        (lambda p: p.replace(roughness=Uniform(low=0.0, high=0.08)), "only the choices"),
        (lambda p: p.replace(roughness=Point(value=0.05)), "only the choices"),
        (lambda p: p.condition({"base_mas": 7.0}), "did you mean 'base_mass'"),
        (lambda p: p.condition({"base_mass": 12.0}), "'base_mass' is 12, outside its bounds 6 to 9.5"),
        (lambda p: p.condition({"base_mass": np.nan}), "not finite"),
        (lambda p: p.condition({"kd": [1.0, 1.0]}), r"must have shape \(3,\)"),
        (lambda p: p.narrow(2.0).condition({"base_mass": 6.1}), "cannot be under this prior"),
        (lambda p: p.marginal(["base"]), "base_mass"),
        (lambda p: p.interval(1.0), "between 0 and 1"),
        (lambda p: p.widen(0.9), "use narrow"),
        (lambda p: p.widen(1.1, within={"mass": (0.0, 1.0)}), "did you mean 'base_mass'"),
        (lambda p: p.replace(foot_friction=Uniform(low=0.31, high=1.2)).widen(3.0), "log scale"),
        (lambda p: p.log_prob({"base_mass": [7.0]}), "lacks the params"),
        (lambda p: p.log_prob(p.sample(2, 0) | {"base_mass": np.array([7.0, np.nan])}), "world 1"),
        (lambda p: Prior.mixture([]), "at least one prior"),
        (lambda p: Prior.mixture([p, p], [0.5, 0.6]), "sum to 1"),
        (lambda p: Prior.mixture([p, p.marginal(["kd"])]), "differ in base_mass"),
        (lambda p: Prior.samples(p.params, {"mass": np.ones(3)}), "did you mean 'base_mass'"),
        (lambda p: Prior.samples(p.params, {}), "without values"),
        (lambda p: Prior.samples(p.params, {"base_mass": np.array([7.0, 5.0])}), "'base_mass' is 5 in row 1"),
        (lambda p: Prior.samples(p.params, {"base_mass": np.array([7.0])}, weights=[0.4]), "sum to 1"),
        (lambda p: Prior.samples(p.params, {"base_mass": np.array([7.0])}, jitter=-1), "zero or more"),
        (lambda p: p.save("prior.pkl"), "saved as .toml or .json"),
        (lambda p: Prior.load("prior.pkl"), "read from .toml or .json"),
        (lambda p: Prior.load("absent.toml"), "cannot read a prior"),
    ],
)
def test_bad_input_is_one_sentence(act, said):
    with pytest.raises(InputError, match=said) as caught:
        act(schema().prior())
    assert "\n" not in str(caught.value)
