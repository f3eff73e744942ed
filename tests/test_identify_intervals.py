"""Intervals cover under correlated residuals where white-noise ones do not; what is confounded is named."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.bench.real_coverage import cuts, holds, widths
from surefoot.errors import InputError
from surefoot.identify import Fit, identify
from surefoot.identify.coordinates import natural, shares, slopes, straight
from surefoot.identify.fit import packed_belief
from surefoot.identify.identifiable import KINDS as EXPERIMENTS
from surefoot.identify.identifiable import SINGLE, experiment, unidentified, weak_directions
from surefoot.identify.intervals import data_share, neighbours
from surefoot.identify.pull import pull_of
from test_identify_fit import TRUTH, arm, params, recording


def coloured(sim, seed, *, scale=0.004, memory=0.08):
    """The planted log with residuals that hang together over `memory` seconds, as a wrong model leaves them."""
    log = recording(sim, TRUTH, seconds=5.0, noise=False)
    y, rng = log["joint_pos"], np.random.default_rng(seed)
    rho = np.exp(-0.004 / memory)
    noise = np.zeros(len(y.t))
    for k in range(1, len(noise)):
        noise[k] = rho * noise[k - 1] + np.sqrt(1 - rho**2) * rng.normal()
    values = y.values + scale * noise[:, None]
    return sf.Log(
        channels=(
            log["joint_pos_target"],
            sf.Channel(name="joint_pos", unit="rad", t=y.t, values=values, columns=y.columns),
        )
    )


@pytest.mark.slow
def test_honest_intervals_cover_planted_values_and_white_ones_do_not(tmp_path):
    sim = sf.Sim(arm(tmp_path), params(), seed=1)
    begin = {k: [v] for k, v in TRUTH.items()}
    fits = [identify(sim, coloured(sim, seed), window=0.5, held_out=0.0, begin=begin) for seed in range(8)]
    truth = np.array([TRUTH[name] for name in fits[0].names])
    assert holds(fits, truth, white=False).mean() >= 0.8
    assert holds(fits, truth, white=True).mean() <= 0.5
    assert np.median(widths(fits)) <= 3.0


def test_neighbours_that_err_alike_widen_the_variance_and_never_narrow_it():
    rng = np.random.default_rng(0)
    alike = np.repeat(rng.normal(size=(10, 1)), 2, axis=0)
    opposed = alike * np.tile([1.0, -1.0], 10)[:, None]
    alone = float((alike.T @ alike)[0, 0])
    assert neighbours(alike)[0, 0] > 1.2 * alone
    assert neighbours(opposed)[0, 0] == pytest.approx(alone)


def test_what_was_believed_before_has_no_small_sample():
    data, prior = np.diag([4.0, 1e-6, 1e6]), np.diag([4.0, 1.0, 1.0])
    both = np.linalg.inv(np.linalg.inv(data) + np.linalg.inv(prior))
    assert data_share(both, prior) == pytest.approx([0.5, 1.0, 1e-3], abs=2e-6)


def test_a_belief_is_never_widened_by_data_that_are_few(tmp_path):
    """Three blocks of data and a sharp belief: the interval is the belief's, not the belief's times Student's t of three blocks."""
    sim = sf.Sim(arm(tmp_path), params(), seed=1)
    log = recording(sim, TRUTH, seconds=1.0, noise=True)
    name = sim.params.names[0]
    width = 1e-5 * TRUTH[name]
    belief = sim.params.prior().replace(**{name: sf.Normal(mean=TRUTH[name], sd=width)})
    fit = identify(sim, log, window=0.2, held_out=0.0, prior=belief, begin={k: [v] for k, v in TRUTH.items()})
    low, high = fit.intervals()[fit.names.index(name)]
    assert (high - low) / 2 == pytest.approx(1.645 * width, rel=0.03)


def schema():
    return sf.Params(
        kp=sf.kp("a", low=10.0, high=40.0, nominal=20.0),
        strength=sf.strength("a", low=0.5, high=1.5, nominal=1.0),
        damping=sf.damping("a", low=0.01, high=1.0, scale="log", nominal=0.1),
    )


def test_directions_without_information_are_named_with_an_experiment():
    prior = np.diag([1 / 12] * 3)
    along = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)
    across = np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    data = 100 * np.outer(along, along) + 1e-6 * np.outer(across, across) + np.diag([0, 0, 1e-6])
    vectors, shrink = weak_directions(data, prior)
    assert vectors.shape == (3, 1)
    assert shrink[0] == pytest.approx(1.0, abs=0.01)
    (found,) = unidentified(schema(), data, prior)
    assert set(found.names) == {"kp", "strength"}
    assert "exchanged" in found.combination
    assert "weight" in found.experiment
    (lonely,) = unidentified(schema(), np.diag([1e-6, 1e-6, 50.0]), prior)
    assert lonely.names == ("damping",)
    assert "no effect" in lonely.combination
    assert unidentified(schema(), np.diag([1e-6] * 3), prior) == ()


def test_identified_but_hardly_separated_pairs_are_named():
    data = 1e-4 * np.array([[1.0, 0.995, 0.0], [0.995, 1.0, 0.0], [0.0, 0.0, 1.0]])
    (pair,) = unidentified(schema(), data, np.diag([1 / 12] * 3))
    assert set(pair.names) == {"kp", "strength"}
    assert pair.shrink < 0.5


def test_every_kind_has_an_experiment():
    for name, kind in sf.KINDS.items():
        assert name in EXPERIMENTS or kind.group in SINGLE
    kinds = ("kp", "strength")
    assert experiment(schema(), kinds) == experiment(schema(), kinds[::-1])


def test_positions_between_bounds_go_there_and_back():
    params = schema().bind({"kp": (), "strength": (), "damping": ()})
    e = {"kp": np.array([12.0]), "strength": np.array([1.4]), "damping": np.array([0.02])}
    for one in (params, straight(params)):
        s = shares(one, e)
        assert np.allclose(natural(one, s), params.flatten(e))
        nudge = 1e-6
        slope = (natural(one, s + nudge) - natural(one, s - nudge)) / (2 * nudge)
        assert np.allclose(slopes(one, s[0]), slope[0], rtol=1e-5)


def test_packed_beliefs_match_narrow_and_wide_and_at_a_bound():
    params = schema().bind({"kp": (), "strength": (), "damping": ()})
    values, sd = np.array([20.0, 0.5, 0.05]), np.array([0.01, 0.1, 0.5])
    prior = sf.Prior.gaussian(params, *packed_belief(params, values, np.diag(sd**2)))
    draws = params.flatten(prior.sample(4000, 0))
    assert draws[:, 0].std() == pytest.approx(0.01, rel=0.05)
    assert 0.5 <= np.quantile(draws[:, 1], 0.95) <= 0.75
    assert draws[:, 2].max() <= 1.0
    assert np.quantile(draws[:, 2], 0.95) > 0.5


def test_a_uniform_prior_narrows_the_box_and_a_normal_one_pulls():
    params = straight(schema().bind({"kp": (), "strength": (), "damping": ()}))
    flat = pull_of(params, None)
    assert not flat.precision.any()
    narrow = pull_of(params, params.prior().replace(kp=sf.Uniform(low=10.0, high=25.0)))
    assert narrow.high[0] == pytest.approx(0.5)
    assert not narrow.precision.any()
    pulled = pull_of(params, params.prior().replace(strength=sf.TruncatedNormal(mean=0.8, sd=0.02, low=0.5, high=1.5)))
    assert pulled.mean[1] == pytest.approx(0.3, abs=0.01)
    assert pulled.precision[1, 1] == pytest.approx(1 / 0.02**2, rel=0.1)
    with pytest.raises(InputError, match="holds none of"):
        pull_of(params.only("kp"), sf.Params(strength=params["strength"]).prior())
    with pytest.raises(InputError, match="'kp' between 50 and 60, and this sim's bounds are 10 and 40"):
        pull_of(params, sf.Params(kp=sf.kp("a", low=50.0, high=60.0)).bind({"kp": ()}).prior())


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("made", [straight, lambda params: params])
@pytest.mark.parametrize("belief", [sf.Uniform, sf.LogUniform])
def test_a_uniform_belief_is_a_box_whatever_its_scale_and_the_params(belief, made, scale):
    whole = sf.Params(kp=sf.kp("a", low=10.0, high=40.0, nominal=20.0, scale=scale)).bind({"kp": ()})
    params, prior = made(whole), whole.prior().replace(kp=belief(low=12.0, high=17.0))
    found = pull_of(params, prior, log=whole.log)
    assert not found.precision.any()
    ends = [params.unflatten(natural(params, s))["kp"][0] for s in (found.low, found.high)]
    assert ends == pytest.approx([12.0, 17.0])
    drawn = shares(params, prior.sample(40000, 0))[:, 0]
    assert found.mean == pytest.approx(found.high), "the nominal 20 lies above"
    assert found.covariance[0, 0] == pytest.approx(np.mean((drawn - found.high[0]) ** 2), rel=0.02)


def test_a_normal_belief_that_ends_somewhere_pulls_inside_its_ends():
    params = straight(schema().bind({"kp": (), "strength": (), "damping": ()}))
    cut = sf.TruncatedNormal(mean=0.8, sd=0.5, low=0.7, high=0.9)
    found = pull_of(params, params.prior().replace(strength=cut))
    assert (found.low[1], found.high[1]) == pytest.approx((0.2, 0.4))
    assert found.precision[1, 1] > 0


def test_a_fit_stays_where_a_uniform_belief_holds_it(tmp_path):
    """The truth, 0.55, lies outside of what is believed of a Param on a log scale: the fit ends at the belief's end."""
    sim = sf.Sim(arm(tmp_path), params(), seed=1)
    log = recording(sim, TRUTH, seconds=2.0)
    belief = sim.params.prior().replace(damping=sf.Uniform(low=0.2, high=0.3))
    fit = identify(sim, log, prior=belief, jumps=False)
    assert 0.2 <= fit["damping"] <= 0.3 + 1e-9
    assert "damping" in fit.at_bound


def test_intervals_need_a_share_and_stay_inside_the_bounds():
    params = schema().bind({"kp": (), "strength": (), "damping": ()})
    values = np.array([39.9, 1.0, 0.1])
    fit = Fit.made(params, values, np.diag([1.0, 0.01, 1e-4]), white_std=np.full(3, 1e-3), freedom=10.0)
    ends = fit.intervals(0.9)
    assert ends[0, 1] == 40.0
    assert fit.std == pytest.approx([1.0, 0.1, 0.01])
    assert (np.diff(fit.intervals(0.9, white=True)) < np.diff(ends)).all()
    with pytest.raises(InputError, match="between 0 and 1"):
        fit.intervals(1.0)


def test_cuts_lie_evenly_over_a_recording(tmp_path):
    sim = sf.Sim(arm(tmp_path), params(), seed=1)
    log = recording(sim, TRUTH, seconds=11.0)
    pieces = cuts([log], 2.0)
    assert len(pieces) == 4
    assert all(piece.duration == pytest.approx(5.0, abs=0.01) for piece in pieces)


def test_a_covariance_that_rounding_left_indefinite_still_makes_a_belief():
    params = sf.Sim(sf.load("servo")).params.only("damping", "coulomb", "armature")
    values = 0.5 * (params.low + params.high)
    sd = 0.01 * (params.high - params.low)
    correlation = np.array(
        [[1.0, 0.9, 0.9], [0.9, 1.0, 0.62 - 1e-6], [0.9, 0.62 - 1e-6, 1.0]]
    )  # an eigenvalue below zero
    assert np.linalg.eigvalsh(correlation)[0] < -1e-7
    covariance = correlation * np.outer(sd, sd)
    mean, found = packed_belief(params, values, covariance)
    belief = sf.Prior.gaussian(params, mean, found)
    drawn = params.flatten(belief.sample(2000, 0))
    np.testing.assert_allclose(drawn.std(0), sd, rtol=0.1)
