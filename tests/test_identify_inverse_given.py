"""Inverse dynamics and what it is given: a prior counts once, arguments reach both modes, wrong ones are told by name."""

import functools

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.identify import identify, load_fit
from surefoot.identify.inverse import identify_inverse
from surefoot.identify.inverse_both import identify_both
from surefoot.params import Normal, Uniform
from test_identify_fit import TRUTH, arm, params, recording
from test_identify_inverse import recorded, waves


@pytest.fixture(scope="module")
def links():
    """Two links whose torque limit is never reached."""
    robot = sf.load("double_pendulum")
    limit = sf.torque_limit("joint[12]", low=6.0, high=14.0, nominal=10.0)
    own = robot.params.without("strength")
    sim = sf.Sim(robot, sf.Params(**own, limit=limit), threads=1)
    return sim, recorded(sim, {"damping": np.array([[0.03, 0.01]])}, waves(sim, 4.0, (1.6, 0.7)), noise=2e-4)


def fitted(links, **beliefs):
    sim, log = links
    only = ("link2_mass", "link2_com", "limit")
    prior = sf.Prior.independent(sim.params.only(*only), beliefs) if beliefs else None
    return identify_inverse(sim, log, only=only, prior=prior, held_out=0.0)


def test_a_param_without_effect_keeps_the_width_of_its_prior(links):
    for sd in (0.1, 0.5):
        fit = fitted(links, limit=Normal(mean=9.0, sd=sd))
        assert fit["limit"] == pytest.approx(9.0, abs=0.1 * sd)
        assert fit.std[2] == pytest.approx(sd, rel=0.05)
        assert fit.white_std[2] == pytest.approx(sd, rel=0.05)
        assert [c.names for c in fit.unidentified] == [("limit",)]


def test_what_data_and_prior_know_adds_up_once(links):
    """1/std² = 1/a² + 1/b², a: std of the data alone, b: that of the prior, for beliefs narrower and wider than the data's."""
    free = fitted(links)
    for i, name in enumerate(("link2_mass", "link2_com")):
        a = free.std[i]
        for share in (0.3, 2.0):
            b = share * a
            fit = fitted(links, **{name: Normal(mean=free[name] + 0.5 * b, sd=b)})
            alone = np.sqrt(free.natural_covariance[i, i])
            assert fit.std[i] == pytest.approx(alone * b / np.hypot(alone, b), rel=0.15)


def test_a_prior_that_contradicts_the_data_does_not_widen_them(links):
    free = fitted(links)
    b = 2.0 * free.std[0]
    fit = fitted(links, link2_mass=Normal(mean=free["link2_mass"] - 6 * b, sd=b))
    assert fit.std[0] == pytest.approx(free.std[0] * b / np.hypot(free.std[0], b), rel=0.15)


# -------------------------------------------------------------------- both modes


@pytest.fixture(scope="module")
def swung(tmp_path_factory):
    more = {
        "armature": sf.armature("pivot", low=0.01, high=0.2, nominal=0.05),
        "mass": sf.mass("arm", low=1.5, high=2.5),
    }
    sim = sf.Sim(arm(tmp_path_factory.mktemp("arm")), params(**more), threads=1)
    return sim, recording(sim, {**TRUTH, "armature": 0.08, "mass": 2.2}, seconds=3.0)


@pytest.fixture
def calls(monkeypatch):
    """Arguments that the two halves were given."""
    seen = {}

    def watched(name, function):
        @functools.wraps(function)
        def run(sim, logs, **given):
            seen[name] = given
            return function(sim, logs, **given)

        return run

    monkeypatch.setattr("surefoot.identify.inverse_both.identify_inverse", watched("inverse", identify_inverse))
    monkeypatch.setattr("surefoot.identify.inverse_both.identify", watched("simulation", quick))
    return seen


@functools.wraps(identify)
def quick(sim, logs, **given):
    """The simulation half with little patience."""
    return identify(sim, logs, **{**given, "most": 2, "jumps": False, "start": "log"})


def test_values_given_to_both_modes_are_known_to_both(swung, calls, tmp_path):
    sim, log = swung
    given = {"mass": 2.2, "coulomb": 0.45, "command_delay": 0.0123}
    both = identify_both(sim, log, only=["kp", "damping", "armature"], fixed=given, begin={"kp": 36.0})
    assert both.inverse["armature"] == pytest.approx(0.08, abs=0.005)
    assert both.inverse["kp"] == pytest.approx(37.0, rel=0.01)
    assert set(calls["simulation"]["fixed"]) == {"mass", "coulomb", "command_delay", "armature"}
    assert calls["simulation"]["fixed"]["armature"] == both.inverse.e["armature"]
    assert calls["simulation"]["begin"]["kp"] == 36.0
    assert calls["simulation"]["begin"]["damping"] == both.inverse.e["damping"]
    assert both.e["mass"] == 2.2
    assert both.e["command_delay"] == 0.0123  # whose nominal value is zero
    both.inverse.save(tmp_path / "fit.json")
    assert load_fit(tmp_path / "fit.json").e == both.inverse.e
    assert set(both.e) == set(sim.params)


def test_all_that_is_not_fixed_is_fitted_and_one_name_is_a_name(swung, calls):
    sim, log = swung
    given = {n: TRUTH[n] for n in ("coulomb", "command_delay")} | {"mass": 2.2, "armature": 0.08}
    assert identify_both(sim, log, fixed=given).inverse.names == ("kp", "damping")
    assert identify_both(sim, log, only="kp", fixed=given).simulation.names == ("kp",)
    beyond = identify_inverse(sim, log, fixed={**given, "coulomb": 1.2})  # its bound is 1
    assert beyond.names == ("kp", "damping")
    assert beyond.e["coulomb"] == 1.2
    assert beyond.posterior.sample(2, 0)["coulomb"].tolist() == [1.2, 1.2]


def test_a_prior_reaches_both_modes(swung, calls):
    sim, log = swung
    prior = sf.Prior.independent(
        sim.params, {"kp": Uniform(low=30.0, high=35.0), "armature": Normal(mean=0.08, sd=1e-4)}
    )
    both = identify_both(sim, log, only=["kp", "damping", "armature"], prior=prior, fixed={"mass": 2.2})
    assert both.inverse["kp"] == pytest.approx(35.0)  # the truth is 37, which the prior excludes
    assert "kp" in both.inverse.at_bound
    assert both.inverse.std[2] == pytest.approx(1e-4, rel=0.1)
    assert calls["simulation"]["prior"] is prior
    assert 30.0 <= both.simulation["kp"] <= 35.0


GIVEN = ("kp", "damping", "coulomb", "command_delay")


@pytest.fixture(scope="module")
def gained(swung):
    """Two logs of one arm whose firmware had another gain in each."""
    sim, _ = swung
    planted = {**TRUTH, "armature": 0.08, "mass": 2.2}
    return sim, [recording(sim, {**planted, "kp": kp}, seconds=3.0) for kp in (20.0, 55.0)]


def test_every_log_is_solved_with_the_gains_that_it_states(gained):
    sim, logs = gained
    only, stated = ["damping", "coulomb", "command_delay", "armature"], [{"kp": 20.0}, {"kp": 55.0}]
    fit = identify_inverse(sim, logs, only=only, fixed={"mass": 2.2}, stated=stated)
    assert fit["armature"] == pytest.approx(0.08, abs=0.005)
    assert fit["damping"] == pytest.approx(TRUTH["damping"], abs=0.03)
    assert "kp" not in fit.e
    assert fit.provenance["settings"]["stated"]["kp"] == [20.0, 55.0]
    judged = identify_inverse(sim, logs[0], only=only, fixed={"mass": 2.2}, stated=stated, held_out=logs[1:])
    seen, held = (s.after / s.floor for s in judged.scores)
    assert held < 2 * seen
    one = identify_inverse(sim, logs, only=only, fixed={"mass": 2.2, "kp": 20.0})
    assert abs(one["armature"] - 0.08) > 0.02


def test_both_modes_use_the_gains_that_logs_state(gained, calls):
    sim, logs = gained
    only, stated = ["damping", "coulomb", "command_delay", "armature"], [{"kp": 20.0}, {"kp": 55.0}]
    both = identify_both(sim, logs, only=only, fixed={"mass": 2.2}, stated=stated)
    assert both.inverse["armature"] == pytest.approx(0.08, abs=0.005)
    assert both.fit["damping"] == pytest.approx(TRUTH["damping"], abs=0.03)
    assert calls["inverse"]["stated"] == calls["simulation"]["stated"] == stated


@pytest.mark.parametrize(("stated", "match"), [
    ([{"kp": 20.0}], "values for 1 logs, and there are 2"),
    ([{"kp": 20.0}, {"damping": 0.3}], "must state the same Params"),
    ([{"armature": 0.1}, {"armature": 0.1}], "'armature' is stated by the logs and fitted"),
])  # fmt: skip
def test_wrong_statements_are_told(gained, stated, match):
    sim, logs = gained
    with pytest.raises(InputError, match=match):
        identify_inverse(sim, logs, only="armature", stated=stated)


@pytest.fixture(scope="module")
def together(swung):
    sim, log = swung
    settings = {"fixed": {"mass": 2.2}, "window": 0.75, "held_out": 0.0, "jumps": False}
    return settings, identify_both(sim, log, only=[*GIVEN, "armature"], **settings)


def test_draws_of_both_modes_are_as_wide_in_an_inertia_as_the_equation_of_motion_knows_it(together, tmp_path):
    _, both = together
    known = both.inverse.std[both.inverse.names.index("armature")]
    for fit in (both.fit, load_fit(both.fit.save(tmp_path / "fit.json"))):
        draws = fit.posterior.sample(4000, 0)
        assert np.std(draws["armature"]) == pytest.approx(known, rel=0.15)
        assert np.mean(draws["armature"]) == pytest.approx(both.inverse["armature"], abs=0.1 * known)
        assert np.corrcoef(draws["armature"], draws["kp"])[0, 1] > 0.8
        assert draws["mass"].tolist() == [2.2] * 4000  # which was given
    assert both.e == both.fit.e


def test_what_the_simulation_finds_moves_with_the_inertia_as_foretold(swung, together):
    """The simulation is fitted anew with the inertia a little more and a little less: D without any derivative."""
    sim, log = swung
    settings, both = together
    middle, step = both.inverse["armature"], 0.01
    ends = [
        identify(
            sim, log, only=GIVEN, begin=both.e, **{**settings, "fixed": {"mass": 2.2, "armature": middle + k * step}}
        )
        for k in (-1, 1)
    ]
    moved = (ends[1].values - ends[0].values) / (2 * step)
    np.testing.assert_allclose(both.response[:, 0], moved, rtol=0.15, atol=0.02)
    wide = dict(zip(both.fit.names, both.fit.std, strict=True))
    own = dict(zip(both.simulation.names, both.simulation.std, strict=True))
    known = both.inverse.std[both.inverse.names.index("armature")]
    assert wide["kp"] == pytest.approx(np.hypot(own["kp"], known * moved[0]), rel=0.1)
    assert wide["kp"] > 2 * own["kp"]
    assert abs(both.fit["kp"] - TRUTH["kp"]) < 3 * wide["kp"]
    assert abs(both.fit["kp"] - TRUTH["kp"]) > 2 * own["kp"]


@pytest.mark.parametrize(("change", "match"), [
    ({"windw": 1.0}, r"'windw' is not an argument of identify_both \(did you mean 'window'"),
    ({"apart": ("kp",)}, "fits all logs as one"),
    ({"only": ["kp", "mass"], "fixed": {"mass": 2.2}}, "'mass' is in only= and in fixed="),
    ({"fixed": {"mas": 2.2}}, "did you mean 'mass'"),
    ({"begin": {"kpp": 30.0}}, "did you mean 'kp'"),
    ({"begin": 3}, "begin=3 is not an e"),
    ({"cutoff": -3}, "cutoff=-3 is not a number above zero"),
])  # fmt: skip
def test_wrong_arguments_of_both_modes_are_told_before_anything_is_fitted(swung, calls, change, match):
    sim, log = swung
    with pytest.raises(InputError, match=match) as told:
        identify_both(sim, log, **{"only": ["kp", "damping"], **change})
    assert "\n" not in str(told.value)
    assert "simulation" not in calls


@pytest.mark.parametrize(("change", "match"), [
    ({"window": 1.0}, "'window' is not an argument of identify_inverse"),
    ({"cutof": 20.0}, "did you mean 'cutoff'"),
    ({"torque": 3}, "3 is not a source of torque"),
    ({"cutoff": -5.0}, "cutoff=-5.0 is not a number above zero"),
    ({"cutoff": "low"}, "cutoff='low' is not a number above zero"),
    ({"cutoff": float("nan")}, "cutoff=nan is not a number above zero"),
    ({"cutoff": 500.0}, "half the sampling rate"),
    ({"every": 0}, "every=0 is not a whole number from 1 on"),
    ({"every": 2.5}, "every=2.5 is not a whole number from 1 on"),
    ({"every": 10**6}, "must leave some samples"),
    ({"only": [3]}, "only= holds 3"),
    ({"only": 3}, "only= holds 3"),
    ({"only": "kpp"}, "did you mean 'kp'"),
    ({"prior": {"kp": 3.0}}, "prior is a dict"),
    ({"fixed": ["kp"]}, r"fixed=\['kp'\] is not an e"),
    ({"fixed": {"mass": float("nan")}}, "not a finite number"),
    ({"held_out": "a quarter"}, "held_out holds 'a'"),
    ({"held_out": 1.0}, "share below 1"),
    ({"logs": ["log.mcap"]}, "logs holds 'log.mcap'"),
    ({"logs": 3}, "logs holds 3"),
])  # fmt: skip
def test_wrong_arguments_are_told_in_one_sentence(swung, change, match):
    sim, log = swung
    given = {"logs": log, "only": ["kp"], **change}
    with pytest.raises(InputError, match=match) as told:
        identify_inverse(sim, given.pop("logs"), **given)
    assert "\n" not in str(told.value)


def test_a_log_may_judge_and_none_may(swung):
    sim, log = swung
    assert {s.windows for s in identify_inverse(sim, log, only="kp", held_out=log).scores} == {"fitted", "held out"}
    assert {s.windows for s in identify_inverse(sim, log, only="kp", held_out=()).scores} == {"fitted"}


def test_a_robot_at_rest_is_told(swung):
    sim, log = swung
    still = log["joint_pos"]
    still = sf.Channel(name=still.name, unit=still.unit, t=still.t, values=0 * still.values, columns=still.columns)
    with pytest.raises(InputError, match="no joint moves"):
        identify_inverse(sim, sf.Log(channels=(log["joint_pos_target"], still)), only="kp")
