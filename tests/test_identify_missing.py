"""What the model lacks is told by what a missing torque would have done, and nothing is told where nothing is missing."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.identify import identify, misfit
from test_identify_fit import TRUTH, arm, params, recording

LACKING = {
    "direction": ("coulomb_asymmetry", -0.5, 0.5, 0.25),
    "direction of damping": ("damping_asymmetry", -0.5, 0.5, 0.3),
    "position": ("coulomb_slope", -1.0, 1.0, 0.4),
    "load": ("load_friction", 0.0, 0.5, 0.08),
    "speed": ("stribeck", 0.0, 2.0, 1.5),
    "speed, of friction that fades late": ("stribeck", 0.0, 2.0, 0.9),
}
OPTIONS = {"speed, of friction that fades late": {"speed": 1.0}}


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    return sf.Sim(arm(tmp_path_factory.mktemp("arm")), params(), seed=2)


def told(sim, log, **options):
    fit = identify(sim, log, window=0.5, jumps=False, **options)
    return fit, [m for m in fit.misfit if m.kind != "autocorrelation"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", LACKING)
def test_a_missing_torque_is_named_by_what_it_goes_with(sim, kind):
    name, low, high, value = LACKING[kind]
    term = {name: getattr(sf, name)("pivot", low=low, high=high, nominal=0.0, **OPTIONS.get(kind, {}))}
    rich = sf.Sim(sim.robot, params(**term), seed=2)
    _, found = told(sim, recording(rich, {**TRUTH, name: value}, seconds=8.0))
    assert [m.kind for m in found] == [kind.split()[0].strip(",")]
    assert found[0].strength > 0.5
    assert found[0].column == "pivot"
    assert "N·m" in found[0].sentence


@pytest.mark.slow
def test_the_size_of_a_missing_torque_is_told(sim):
    term = {"coulomb_asymmetry": sf.coulomb_asymmetry("pivot", low=-0.5, high=0.5, nominal=0.0)}
    rich = sf.Sim(sim.robot, params(**term), seed=2)
    _, (one,) = told(sim, recording(rich, {**TRUTH, "coulomb_asymmetry": 0.25}, seconds=12.0))
    assert "(a torque of about 0.25 N·m)" in one.sentence


@pytest.mark.slow
def test_nothing_is_named_where_nothing_is_missing(sim):
    for seed in (11, 12, 13):
        log = recording(sf.Sim(sim.robot, params(), seed=seed), TRUTH)
        fit, found = told(sim, log)
        assert not found
        assert not fit.misfit


@pytest.mark.slow
def test_an_encoder_that_drifts_and_a_motor_that_weakens_with_the_supply(sim):
    log = recording(sim, TRUTH, seconds=8.0)
    angle = log["joint_pos"]
    drifting = angle.values + 0.01 * (angle.t[:, None] / angle.t[-1] - 0.4)
    _, found = told(sim, with_channels(log, joint_pos=drifting))
    assert found[0].kind == "drift"
    # The gain falls with the supply, which the log tells and the model does not know.
    t = log["joint_pos_target"].t
    volts = 24.0 - 4.0 * (np.sin(2 * np.pi * 0.21 * t) > 0)
    weak = recording_with_gain(sim, volts / 24.0)
    supply = sf.Channel(name="voltage", unit="V", t=t, values=volts, columns=("pivot",))
    _, found = told(sim, sf.Log(channels=(*weak, supply), robot="small"))
    assert found[0].kind == "voltage"
    assert found[0].strength > 0.3


@pytest.mark.slow
def test_a_motor_that_weakens_as_it_warms_goes_with_the_temperature_that_was_measured_and_not_with_time(sim):
    t = recording(sim, TRUTH, seconds=8.0)["joint_pos_target"].t
    warmth = 25.0 + 30.0 * (1.0 - np.exp(-t / 3.0))
    weak = recording_with_gain(sim, 1.0 - 0.15 * np.round((warmth - 25.0) / 5.0) * 5.0 / 30.0)
    measured = sf.Channel(name="motor_temperature", unit="degC", t=t, values=warmth, columns=("pivot",))
    _, found = told(sim, sf.Log(channels=(*weak, measured), robot="small"))
    assert found[0].kind == "temperature"
    assert found[0].strength > 0.5
    assert "goes with temperature, or as well with time" in found[0].sentence
    _, blind = told(sim, sf.Log(channels=weak, robot="small"))
    assert blind[0].kind == "drift"


@pytest.mark.slow
def test_play_in_a_gear_is_not_taken_for_friction_that_differs_by_direction(sim):
    rich = sf.Sim(sim.robot, params(play=sf.backlash("pivot", low=1e-6, high=0.05, nominal=1e-6)), seed=2)
    _, found = told(sim, recording(rich, {**TRUTH, "play": 0.01}, seconds=8.0))
    assert found[0].kind == "load"
    assert "backlash" in found[0].sentence
    assert "direction" not in {m.kind for m in found}


@pytest.mark.parametrize(("gap", "lag", "seconds"), [(0.002, 5, 0.01), (0.004, 2, 0.008), (0.02, 1, 0.02)])
def test_the_lag_that_is_printed_is_the_one_that_was_taken(gap, lag, seconds):
    t = np.tile(np.arange(100) * gap, (3, 1))
    assert misfit._lag(np.ones_like(t, dtype=bool), t) == (lag, pytest.approx(seconds))


def test_residuals_of_slow_readings_say_after_how_long_they_hang_together(sim):
    term = {"coulomb_asymmetry": sf.coulomb_asymmetry("pivot", low=-0.5, high=0.5, nominal=0.0)}
    rich = sf.Sim(sim.robot, params(**term), seed=2)
    log = recording(rich, {**TRUTH, "coulomb_asymmetry": 0.4}, seconds=4.0)
    angle = log["joint_pos"]
    slow = replace(angle, t=angle.t[::5], values=angle.values[::5])
    fit = identify(sim, replace(log, channels=(log["joint_pos_target"], slow)), window=0.5, jumps=False)
    (one,) = [m for m in fit.misfit if m.kind == "autocorrelation"]
    assert "after 20 ms" in one.sentence


@pytest.mark.slow
def test_gains_that_are_not_what_the_recordings_state_are_named(sim):
    stated = [recording(sim, {**TRUTH, "kp": kp}, seconds=6.0) for kp in (30.0, 44.0)]
    logs = [
        sf.Log(channels=tuple(log), robot="small", meta={"kp": kp})
        for log, kp in zip(stated, (30.0, 44.0), strict=True)
    ]
    _, found = told(sim, logs)
    assert found[0].kind == "gain"


def with_channels(log, **values):
    """The log with other values of some channels."""
    out = [
        sf.Channel(
            name=c.name, unit=c.units[0], t=c.t, values=values.get(c.name, c.values), columns=c.columns, role=c.role
        )
        for c in log
    ]
    return sf.Log(channels=tuple(out), robot="small")


def recording_with_gain(sim, gain):
    """Channels of a recording whose position loop has TRUTH's kp times `gain` (samples,), piece by piece of constant gain."""
    log, dt = recording(sim, TRUTH, seconds=8.0), 0.004
    u = log["joint_pos_target"].values
    one = sf.Sim(sim.robot, params(), seed=5, noise=False)
    q, v, out = np.zeros((1, 1)), np.zeros((1, 1)), []
    edges = [0, *(np.flatnonzero(np.diff(gain)) + 1), len(gain)]
    for a, b in itertools.pairwise(edges):
        command = sf.Channel(
            name="joint_pos_target", unit="rad", t=np.arange(b - a + 1) * dt, values=np.append(u[a:b], u[b - 1 : b], axis=0),
            columns=("pivot",), role="u",
        )  # fmt: skip
        blank = sf.Channel(name="joint_pos", unit="rad", t=command.t, values=np.zeros(b - a + 1), columns=("pivot",))
        e = {k: [x] for k, x in {**TRUTH, "kp": TRUTH["kp"] * gain[a], "command_delay": 0.0}.items()}
        part = one.replay(sf.Log(channels=(command, blank), robot="small"), e, qpos=q[0], qvel=v[0], noise=False).world(
            0
        )
        y = part["joint_pos"].values[:, 0]
        out.append(y[: b - a])
        q, v = np.array([[y[b - a]]]), np.array([[(y[b - a] - y[b - a - 1]) / dt]])
    y = np.concatenate(out) + 0.0005 * np.random.default_rng(0).standard_normal(len(u))
    return (
        log["joint_pos_target"],
        sf.Channel(name="joint_pos", unit="rad", t=log["joint_pos_target"].t, values=y, columns=("pivot",)),
    )
