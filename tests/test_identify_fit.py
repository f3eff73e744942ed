"""identify recovers planted truths, names what it cannot know, and its Fit is plain data that loads back equal."""

import json
from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from small_robots import PENDULUM, robot
from surefoot.errors import InputError
from surefoot.identify import Fit, Problem, cut, identify, load_fit, solve
from surefoot.identify.coordinates import shares
from surefoot.identify.report_page import report
from surefoot.identify.solve import settle, share_out
from surefoot.sim.record import Recording

MOTOR = """
[[actuators]]
joints = "pivot"
model = "pd"
kp = 30.0
kd = 1.0
torque_limit = 300.0
armature = 0.05
damping = 0.3
coulomb = 0.2
source = "test"

[[sensors]]
kind = "encoder"
name = "encoder"
of = "pivot"
rate = 200.0
noise = 0.0005
source = "test"
"""
TRUTH = {"kp": 37.0, "damping": 0.55, "coulomb": 0.45, "command_delay": 0.0123}


def arm(folder):
    return robot(folder, PENDULUM, joints=("pivot",), ground=False, timestep=0.002, control_dt=0.004, more=MOTOR)


def params(**more):
    return sf.Params(
        kp=sf.kp("pivot", low=15.0, high=60.0),
        damping=sf.damping("pivot", low=0.01, high=2.0, scale="log"),
        coulomb=sf.coulomb("pivot", low=0.0, high=1.0),
        command_delay=sf.command_delay(low=0.0, high=0.04, nominal=0.0),
        **more,
    )


def recording(sim, e, *, seconds=4.0, dt=0.004, noise=True):
    """The encoder of a pendulum that follows a chirp, under e."""
    t = np.arange(0.0, seconds, dt)
    u = 0.9 * np.sin(2 * np.pi * (0.4 * t + 0.35 * t**2)) + 0.3 * np.sign(np.sin(2 * np.pi * 0.9 * t))
    command = sf.Channel(name="joint_pos_target", unit="rad", t=t, values=u, columns=("pivot",), role="u")
    empty = sf.Channel(name="joint_pos", unit="rad", t=t, values=np.zeros(len(t)), columns=("pivot",))
    log = sf.Log(channels=(command, empty), robot="small")
    start = {"qpos": np.zeros(1), "qvel": np.zeros(1)}
    return sim.replay(log, {k: [v] for k, v in e.items()}, noise=noise, **start).world(0)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    sim = sf.Sim(arm(tmp_path_factory.mktemp("arm")), params(), seed=1)
    log = recording(sim, TRUTH)
    return sim, log, identify(sim, log)


def test_identify_recovers_planted_values(planted):
    _, _, fit = planted
    truth = np.array([TRUTH[name] for name in fit.names])
    assert np.all(np.abs(fit.values - truth) < 4.5 * fit.std)
    assert fit["command_delay"] == pytest.approx(0.0123, abs=3e-4)
    assert fit["kp"] == pytest.approx(37.0, rel=0.01)
    assert fit["coulomb"] == pytest.approx(0.45, abs=0.03)
    assert not fit.unidentified
    assert not fit.at_bound


def test_held_out_windows_are_scored_and_better_than_before(planted):
    _, _, fit = planted
    held = [s for s in fit.scores if s.windows == "held out"]
    assert held
    assert all(s.after < 0.2 * s.before for s in held)
    assert all(s.after == pytest.approx(0.0005, rel=0.35) for s in held)
    assert {s.start for s in held} == {"estimated"}


def test_a_fit_saved_loads_back_equal_and_prints_as_a_table(planted, tmp_path):
    _, _, fit = planted
    again = load_fit(fit.save(tmp_path / "fit.json"))
    assert again == fit
    assert again.posterior == fit.posterior
    assert np.array_equal(again.intervals(), fit.intervals())
    text = str(fit)
    assert all(name in text for name in fit.names)
    assert "held out" in text


def test_the_posterior_is_a_prior_inside_the_bounds_with_the_fits_width(planted):
    sim, _, fit = planted
    draws = fit.params.flatten(fit.posterior.sample(2000, 0))
    assert (draws >= fit.params.low).all()
    assert (draws <= fit.params.high).all()
    assert np.allclose(draws.mean(0), fit.values, atol=0.2 * fit.std.max(), rtol=0.02)
    ends = np.quantile(draws, (0.05, 0.95), axis=0)
    assert np.allclose(ends[1] - ends[0], np.diff(fit.intervals(0.9))[:, 0], rtol=0.1)
    sim.apply({k: v[:1] for k, v in fit.posterior.sample(1, 3).items()})


def test_the_posterior_goes_into_a_wider_prior(planted):
    sim, log, _ = planted
    fit = identify(sim, log, only=["command_delay"])
    whole = fit.within(sim.params.prior())
    assert whole.interval(0.9)["command_delay"] == pytest.approx(tuple(fit.posterior.interval(0.9)["command_delay"]))
    assert whole.interval(0.9)["kp"] == sim.params.prior().interval(0.9)["kp"]
    with pytest.raises(InputError, match="does not hold"):
        fit.within(sim.params.only("kp").prior())


@pytest.mark.slow
def test_a_prior_pulls_and_a_point_of_the_range_is_kept(planted):
    sim, log, fit = planted
    tight = sim.params.prior().replace(kp=sf.TruncatedNormal(mean=30.0, sd=0.05, low=15.0, high=60.0))
    pulled = identify(sim, log, prior=tight)
    assert abs(pulled["kp"] - 30.0) < abs(fit["kp"] - 30.0)
    narrow = sim.params.prior().replace(kp=sf.Uniform(low=20.0, high=32.0))
    boxed = identify(sim, log, prior=narrow)
    assert boxed["kp"] <= 32.0 + 1e-9
    assert "kp" in boxed.at_bound


@pytest.mark.slow
def test_a_prior_counts_once(planted):
    """Data ±a and a belief ±b give about ±ab/√(a² + b²); a Param without effect keeps the belief's width and is named."""
    sim, log, _ = planted
    names = ["kp", "damping", "coulomb", "command_delay"]
    alone = identify(sim, log, only=names, jumps=False)
    a = alone.std[0]
    for share in (2.0, 1.0, 0.25):
        belief = sim.params.prior().replace(kp=sf.Normal(mean=alone["kp"], sd=share * a))
        fit = identify(sim, log, only=names, prior=belief, jumps=False, begin=alone.e)
        assert fit.std[0] == pytest.approx(a * share / np.hypot(1.0, share), rel=0.2)
    idle = sf.Sim(
        sim.robot, params(torque_limit=sf.torque_limit("pivot", low=200.0, high=500.0, nominal=300.0)), seed=1
    )
    fit = identify(
        idle, log, prior=idle.params.prior().replace(torque_limit=sf.Normal(mean=320.0, sd=8.0)), jumps=False
    )
    assert fit.std[fit.names.index("torque_limit")] == pytest.approx(8.0, rel=0.05)
    assert fit["torque_limit"] == pytest.approx(320.0, abs=1.0)
    assert ("torque_limit",) in [c.names for c in fit.unidentified]


def test_a_belief_may_hold_more_params_than_are_fitted(planted):
    sim, log, _ = planted
    fit = identify(
        sim, log, only=["kp", "command_delay"], prior=sim.params.prior(), fixed={"damping": [0.55]}, jumps=False
    )
    known = {"damping": [0.55], "command_delay": fit.e["command_delay"]}
    again = identify(sim, log, only=["kp"], prior=fit.within(sim.params.prior()), fixed=known, jumps=False)
    assert again["kp"] == pytest.approx(fit["kp"], rel=0.05)


def test_values_that_were_given_stay_with_the_fit(planted, tmp_path):
    sim, log, _ = planted
    fit = identify(sim, log, only=["kp"], fixed={"damping": [0.55], "command_delay": [0.0123]}, jumps=False)
    again = load_fit(fit.save(tmp_path / "fit.json"))
    assert again == fit
    for one in (fit, again):
        assert one.e["damping"] == pytest.approx(0.55)
        draws = one.posterior.sample(50, 0)
        assert np.all(draws["command_delay"] == 0.0123)
        assert np.ptp(draws["kp"]) > 0
        assert np.all(one.within(sim.params.prior()).sample(5, 0)["damping"] == 0.55)
    assert fit.provenance["settings"]["held_out"] == 0.25


def test_a_fit_that_has_not_come_to_rest_says_so(planted):
    sim, log, fit = planted
    assert "note:" not in str(fit)
    hasty = identify(sim, log, most=1, jumps=False)
    assert "note: the iterations had not come to rest after 1 linearisations" in str(hasty)


def test_the_delay_that_is_tied_to_the_commands_is_that_of_the_sensor_that_is_compared():
    go2 = sf.load("go2").suspended()
    names = {s.kind: s.name for s in go2.sensors}
    delays = sf.Params(
        imu_delay=sf.sensor_delay(names["imu"], low=0.0, high=0.02),
        encoder_delay=sf.sensor_delay(names["encoder"], low=0.0, high=0.03, nominal=0.004),
        command_delay=sf.command_delay(low=0.0, high=0.03),
    )
    t = np.arange(0, 1.2, 0.005)
    u = np.array([go2.pose[j] for j in go2.joints]) + 0.1 * np.sin(2 * np.pi * t)[:, None]
    both = [sf.Channel(name=n, unit="rad", t=t, values=u, columns=go2.joints, role=r)
            for n, r in (("joint_pos_target", "u"), ("joint_pos", "y"))]  # fmt: skip
    problem = Problem(sf.Sim(go2, delays), cut(sf.Sim(go2, delays), [sf.Log(channels=tuple(both), robot="go2")]))
    ((i, j, _),) = problem.twins
    assert (problem.params.names[i], problem.params.names[j]) == ("encoder_delay", "command_delay")


def test_only_some_params_with_others_fixed(planted):
    sim, log, _ = planted
    rest = {name: [value] for name, value in TRUTH.items() if name != "command_delay"}
    fit = identify(sim, log, only=["command_delay"], fixed=rest)
    assert fit.names == ("command_delay",)
    assert fit["command_delay"] == pytest.approx(0.0123, abs=2e-4)


def test_what_is_fixed_is_never_fitted(planted):
    """A gain that is stated wrongly stays as stated, and friction makes up for what it can."""
    sim, log, free = planted
    fit = identify(sim, log, fixed={"kp": 30.0, "command_delay": 0.0123}, jumps=False)
    assert fit.names == ("damping", "coulomb")
    assert fit.known is not None
    assert fit.e["kp"] == pytest.approx(30.0)
    (held,), (before,) = ([s.after for s in f.scores if s.windows == "held out"] for f in (fit, free))
    assert held > 5 * before, "30 is not 37, and the fit was not allowed to say so"
    with pytest.raises(InputError, match="'kp' is in only= and in fixed="):
        identify(sim, log, only=["kp", "damping"], fixed={"kp": 30.0})
    with pytest.raises(InputError, match="nothing to fit"):
        identify(sim, log, fixed=TRUTH)


def test_speeds_are_not_compared_for_the_sake_of_a_filter_that_is_known():
    qube = sf.load("qube")
    sim = sf.Sim(replace(qube, params=qube.params.only("velocity_filter", "arm_mass")), seed=1)
    sim.reset()
    there = Recording(sim)
    for k in range(250):
        u = np.array([[2.0 * np.sin(0.1 * k)]])
        there.add(sim.sense(), u)
        sim.step(u)
    free, known = (
        identify(sim, there.log(), fixed=fixed, most=1, held_out=0.0, jumps=False)
        for fixed in (None, {"velocity_filter": 0.005})
    )
    assert "joint_vel" in free.provenance["channels"]
    assert "joint_vel" not in known.provenance["channels"]
    assert known.names == ("arm_mass",)


@pytest.mark.slow
def test_command_and_sensor_delay_are_named_as_confounded_and_their_sum_is_found(tmp_path):
    sim = sf.Sim(arm(tmp_path), params(sensor_delay=sf.sensor_delay(low=0.0, high=0.03, nominal=0.004)), seed=2)
    fit = identify(sim, recording(sim, {**TRUTH, "sensor_delay": 0.011}))
    assert fit["command_delay"] + fit["sensor_delay"] == pytest.approx(0.0233, abs=4e-4)
    (pair,) = [c for c in fit.unidentified if "sensor_delay" in c.names]
    assert set(pair.names) == {"command_delay", "sensor_delay"}
    assert "sum" in pair.experiment
    low, high = fit.intervals()[fit.names.index("sensor_delay")]
    assert low <= 0.011 <= high


def test_a_sum_of_delays_is_divided_as_the_time_steps_of_the_simulator_want_it(tmp_path):
    coarse = robot(tmp_path, PENDULUM, joints=("pivot",), ground=False, timestep=0.01, control_dt=0.02, more=MOTOR)
    sim = sf.Sim(coarse, params(sensor_delay=sf.sensor_delay(low=0.0, high=0.04, nominal=0.004)), seed=2)
    truth = {**TRUTH, "sensor_delay": 0.017}
    problem = Problem(sim, cut(sim, (recording(sim, truth, dt=0.02, noise=False),), held_out=0.0))
    exact = shares(problem.params, {name: np.array([truth[name]]) for name in problem.params})[0]
    wrong = exact.copy()
    i, j = (problem.params.names.index(name) for name in ("sensor_delay", "command_delay"))
    wrong[i] += 0.004 / 0.04
    wrong[j] -= 0.004 / 0.04
    offsets = settle(problem, wrong, problem.rows)
    cost = float(problem.evaluate(wrong[None], offsets[None])[0][0])
    found = share_out(problem, wrong, offsets, cost)
    assert found is not None
    assert found[2] < 0.1 * cost
    steps = (0.04 * (found[0][i] - exact[i])) / 0.01
    assert steps == pytest.approx(np.round(steps), abs=0.05)
    assert found[0][i] + found[0][j] == pytest.approx(exact[i] + exact[j])
    problem.twins = []
    assert share_out(problem, wrong, offsets, cost) is None


@pytest.mark.slow
def test_gain_and_strength_are_named_as_confounded(tmp_path):
    sim = sf.Sim(arm(tmp_path), params(strength=sf.strength("pivot", low=0.5, high=1.5)), seed=2)
    fit = identify(sim, recording(sim, {**TRUTH, "strength": 0.9}))
    named = {name for c in fit.unidentified for name in c.names}
    assert {"kp", "strength"} <= named
    assert fit["kp"] * fit["strength"] == pytest.approx(37.0 * 0.9, rel=0.02)
    assert fit.std[fit.names.index("strength")] > 0.1


def test_a_param_without_effect_keeps_its_nominal_value_and_is_named(tmp_path):
    more = {"torque_limit": sf.torque_limit("pivot", low=200.0, high=500.0, nominal=300.0)}
    sim = sf.Sim(arm(tmp_path), params(**more), seed=2)
    fit = identify(sim, recording(sim, {**TRUTH, "torque_limit": 400.0}))
    (found,) = [c for c in fit.unidentified if "torque_limit" in c.names]
    assert found.names == ("torque_limit",)
    assert "no effect" in found.combination
    assert fit["torque_limit"] == pytest.approx(300.0, abs=5.0)


@pytest.mark.slow
def test_structural_misfit_is_told_in_words(tmp_path):
    sim = sf.Sim(arm(tmp_path), params(), seed=2)
    rich = sf.Sim(sim.robot, params(load_friction=sf.load_friction("pivot", low=0.0, high=0.5, nominal=0.0)), seed=2)
    fit = identify(sim, recording(rich, {**TRUTH, "load_friction": 0.3}))
    assert any(m.kind == "autocorrelation" for m in fit.misfit)
    assert all(m.sentence for m in fit.misfit)
    planted_fit = identify(sim, recording(sim, TRUTH))
    assert not [m for m in planted_fit.misfit if m.kind == "autocorrelation"]


@pytest.mark.slow
def test_robust_loss_survives_outliers(planted):
    sim, log, _ = planted
    y = np.array(log["joint_pos"].values)
    y[::37] += 0.3
    bad = sf.Log(
        channels=(
            log["joint_pos_target"],
            sf.Channel(name="joint_pos", unit="rad", t=log["joint_pos"].t, values=y, columns=("pivot",)),
        )
    )
    plain, robust = identify(sim, bad), identify(sim, bad, robust=1.5)
    off = [abs(f["kp"] / TRUTH["kp"] - 1) + abs(f["coulomb"] - TRUTH["coulomb"]) for f in (plain, robust)]
    assert off[1] < off[0]
    assert robust["kp"] == pytest.approx(37.0, rel=0.03)


def test_the_same_call_gives_the_same_fit(planted):
    sim, log, fit = planted
    assert identify(sim, log) == fit


def test_a_fit_has_the_same_bits_at_any_number_of_threads(planted):
    """One long window leaves threads idle: smaller steps are then tried beside the first one, and predictions are remembered."""
    sim, log, _ = planted
    fits, idle = [], []
    for threads in (1, 2, 5):
        other = sim.replace(threads=threads)
        windows = cut(other, [log], window=3.9, held_out=0.0)
        idle.append(Problem(other, windows, start="log").idle)
        fits.append(identify(other, log, window=3.9, held_out=0.0, start="log"))
    assert idle == [0, 1, 4]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.values, fits[0].values)
        np.testing.assert_array_equal(fit.deviation, fits[0].deviation)


def test_a_prediction_that_is_remembered_is_the_one_that_was_made(planted):
    sim, log, _ = planted
    problem = Problem(sim, cut(sim, [log], window=0.5, held_out=0.25))
    rng = np.random.default_rng(0)
    s = rng.uniform(0.3, 0.6, (3, problem.d))
    offsets = 0.1 * rng.standard_normal((3, len(problem.rows), problem.nx))
    together = problem.predict(s, problem.rows, offsets)
    made = problem.rollouts.predict
    problem.rollouts.predict = lambda *a: pytest.fail("was predicted again")
    for i in (2, 0, 1):
        once = problem.predict(s[i], problem.rows, offsets[i : i + 1])
        np.testing.assert_array_equal(once[0], together[i])
        once[:] = np.nan  # what is handed out is the caller's own
    problem.rollouts.predict = made
    for other in (problem.predict(s[0], problem.rows), problem.predict(s[0] + 1e-9, problem.rows, offsets[:1])):
        assert not np.array_equal(other[0], together[0])
    some = problem.predict(s[0], problem.rows[:2], offsets[:1, :2])
    np.testing.assert_array_equal(some[0], together[0][:2])


def test_residuals_of_the_problem_match_replay(planted):
    sim, log, _ = planted
    problem = Problem(sim, cut(sim, [log], window=4.0, held_out=0.0), start="log")
    e = {k: np.array([v]) for k, v in TRUTH.items()}
    r = problem.residuals(sim.params.pack(e))
    starts = problem.rollouts.starts
    gap = sim.replay(log, e, channels=("joint_pos",), qpos=starts.q[0], qvel=starts.v[0]).gap("joint_pos")[0, :, 0]
    assert np.allclose(r[0] * problem.sigma[0], gap, atol=1e-9)
    assert solve(problem).converged


def test_report_holds_traces_intervals_confounding_and_residuals(planted, tmp_path):
    sim, log, fit = planted
    html = report(sim, [log], fit).save(tmp_path / "fit.html").read_text()
    for words in (
        "Traces over their replay",
        "90 % intervals",
        "What cannot be told apart",
        "residual",
        "command_delay",
    ):
        assert words in html
    assert "http://" not in html.replace("http://www.w3.org", "")


@pytest.mark.parametrize(("options", "sentence"), [
    ({"only": ["kpp"]}, "did you mean 'kp'"),
    ({"only": []}, "nothing to fit"),
    ({"start": "guess"}, "not 'estimate' or 'log'"),
    ({"held_out": 1.5}, "not a share"),
    ({"robust": -1.0}, "above zero"),
    ({"starts": 0}, "whole number from 1 on"),
    ({"window": -1.0}, "greater than zero"),
    ({"channels": ["gyro"]}, "cannot be replayed"),
])  # fmt: skip
def test_a_wrong_option_is_one_sentence(planted, options, sentence):
    sim, log, _ = planted
    with pytest.raises(InputError, match=sentence):
        identify(sim, log, **options)


def test_wrong_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot read a fit"):
        load_fit(tmp_path / "missing.json")
    (tmp_path / "other.json").write_text(json.dumps({"params": {}}))
    with pytest.raises(InputError, match="not a fit"):
        load_fit(tmp_path / "other.json")
    with pytest.raises(InputError, match="json"):
        Fit.save(None, tmp_path / "fit.txt")  # type: ignore[arg-type]


def test_discrete_params_are_refused_by_name(tmp_path):
    sim = sf.Sim(arm(tmp_path), params(timestep=sf.timestep(low=0.001, high=0.002, choices=(0.001, 0.002))))
    with pytest.raises(InputError, match="timestep"):
        identify(sim, recording(sf.Sim(sim.robot, params()), TRUTH))


def test_a_step_survives_a_hessian_that_rounding_left_indefinite():
    from surefoot.identify.solve import box_step

    one = np.array([[1.0, 1.0 - 1e-13], [1.0 - 1e-13, 1.0]]) - 1e-9 * np.outer([1, -1], [1, -1])
    assert np.linalg.eigvalsh(one)[0] < 0
    step = box_step(one, np.array([1.0, 1.0]), np.full(2, -10.0), np.full(2, 10.0))
    assert one @ step == pytest.approx([1.0, 1.0], abs=1e-6)
    assert np.isfinite(box_step(one, np.array([1.0, -1.0]), np.full(2, -0.1), np.full(2, 0.1))).all()
