"""Inverse dynamics with delays, limits and supplies that act between what is logged and what the joints feel: planted and recovered."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.identify.inverse import identify_inverse
from test_identify_fit import TRUTH, arm, params, recording
from test_identify_inverse import pulled, slide, waves
from test_identify_inverse_kinds import MILL, ROTOR

KNOWN = ("kp", "damping", "coulomb")


def replayed(sim, u, e, *, start=None, torque=False):
    """A log of what `sim` does under e and commands u (T, nu), read by its own sensors without noise."""
    t = sim.control_dt * np.arange(len(u))
    n = len(sim.robot.joints)
    unit = {"joint_torque_target": "N·m", "joint_pos_target": "rad", "rotor_target": "1"}[sim.command_channel]
    channels = [
        sf.Channel(name=sim.command_channel, unit=unit, t=t, values=u, columns=sim.command_names, role="u"),
        sf.Channel(name="joint_pos", unit="rad", t=t, values=np.zeros((len(t), n)), columns=sim.robot.joints),
    ]
    if torque:
        empty = np.zeros((len(t), len(sim.command_names)))
        channels.append(sf.Channel(name="joint_torque", unit="N·m", t=t, values=empty, columns=sim.command_names))
    start = np.zeros(n) if start is None else start
    return sim.replay(
        sf.Log(channels=tuple(channels)), {k: [v] for k, v in e.items()}, qpos=start, qvel=np.zeros(n)
    ).world(0)


# -------------------------------------------------------------------- delays


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """Readings 10 ms old of a robot whose commands take 12.3 ms; two physics steps of 2 ms a control period."""
    old = sf.sensor_delay(low=0.0, high=0.03, nominal=0.0)
    sim = sf.Sim(arm(tmp_path_factory.mktemp("arm")), params(old=old), threads=1)
    return sim, recording(sim, {**TRUTH, "old": 0.01}, seconds=8.0)


def test_a_command_delay_is_right_with_several_physics_steps_a_command(old):
    sim, _ = old
    fit = identify_inverse(sim, recording(sim, TRUTH, seconds=8.0), only=(*KNOWN, "command_delay"))
    assert fit["command_delay"] == pytest.approx(0.0123, abs=1e-4)


def test_a_known_sensor_delay_leaves_the_command_its_own(old):
    sim, log = old
    fit = identify_inverse(sim, log, only=(*KNOWN, "command_delay"), fixed={"old": 0.01})
    assert fit["command_delay"] == pytest.approx(0.0123, abs=1e-4)
    assert fit["kp"] == pytest.approx(TRUTH["kp"], rel=0.01)


def test_a_sensor_delay_is_found_when_the_command_delay_is_known(old):
    sim, log = old
    fit = identify_inverse(sim, log, only=(*KNOWN, "old"), fixed={"command_delay": 0.0123})
    assert fit["old"] == pytest.approx(0.01, abs=1e-4)
    assert not fit.unidentified


def test_two_unknown_delays_are_known_by_their_sum(old):
    sim, log = old
    fit = identify_inverse(sim, log, only=(*KNOWN, "old", "command_delay"))
    assert fit["old"] + fit["command_delay"] == pytest.approx(0.0223, abs=1e-4)
    told = [c for c in fit.unidentified if set(c.names) == {"old", "command_delay"}]
    assert told
    assert "close the loop" in told[0].experiment
    assert fit.std[fit.names.index("old")] > 5e-3
    assert fit["kp"] == pytest.approx(TRUTH["kp"], rel=0.01)


def test_encoders_of_different_age_are_read_at_one_instant():
    robot = sf.load("cartpole")
    sim = sf.Sim(
        robot, sf.Params(**robot.params, old=sf.sensor_delay(low=0.0, high=0.05, each=True, nominal=0.0)), threads=1
    )
    t = sim.control_dt * np.arange(600)
    u = 2.5 * np.sin(np.pi * t) + 1.5 * np.cos(2 * np.pi * 1.1 * t)
    e = {"cart_mass": 1.1, "pole_mass": 0.12, "cart_damping": 0.3, "cart_coulomb": 0.1, "old": np.array([0.005, 0.035])}
    log = replayed(sim, u[:, None], e, start=np.array([0.0, np.pi]))
    fit = identify_inverse(
        sim, log, only=("cart_mass", "pole_mass", "cart_damping"), fixed={n: e[n] for n in ("cart_coulomb", "old")}
    )
    assert fit["cart_mass"] == pytest.approx(1.1, rel=0.01)
    assert fit["pole_mass"] == pytest.approx(0.12, rel=0.02)
    assert fit["cart_damping"] == pytest.approx(0.3, rel=0.05)
    found = identify_inverse(
        sim, log, only=("cart_mass", "old"), fixed={k: v for k, v in e.items() if k not in ("cart_mass", "old")}
    )
    assert found["old[pole]"] - found["old[cart]"] == pytest.approx(0.03, abs=1e-3)


def test_a_measured_torque_may_be_older_than_the_positions():
    robot = sf.load("double_pendulum")
    sim = sf.Sim(
        robot,
        sf.Params(**robot.params, late=sf.sensor_delay("motor_torque", low=0.0, high=0.05, nominal=0.0)),
        threads=1,
    )
    log = replayed(sim, waves(sim, 8.0, (1.6, 0.7)), {"damping": np.array([0.03, 0.02]), "late": 0.02}, torque=True)
    fit = identify_inverse(sim, log, only=("damping", "late"), torque="measured", held_out=0.0)
    assert fit["late"] == pytest.approx(0.02 + sim.timestep, abs=5e-4)  # a simulated torque is that of the step before
    assert fit["damping[joint1]"] == pytest.approx(0.03, abs=4e-3)


# -------------------------------------------------------------------- motors


@pytest.mark.slow
def test_a_slew_limit_is_allowed_for_and_found(tmp_path):
    rate = sf.rate_limit("pivot", low=0.5, high=20.0, scale="log", nominal=4.0)
    sim = sf.Sim(arm(tmp_path), params(rate=rate), threads=1)
    log = recording(sim, {**TRUTH, "rate": 2.0})
    known = identify_inverse(sim, log, only=(*KNOWN, "command_delay"), fixed={"rate": 2.0})
    assert known["kp"] == pytest.approx(TRUTH["kp"], rel=0.01)
    assert known["command_delay"] == pytest.approx(TRUTH["command_delay"], abs=5e-4)
    found = identify_inverse(
        sim, log, only=("kp", "rate"), fixed={n: TRUTH[n] for n in ("damping", "coulomb", "command_delay")}
    )
    assert found["rate"] == pytest.approx(2.0, rel=0.01)
    assert found.provenance["converged"]


@pytest.mark.slow
def test_a_sagging_supply_is_allowed_for_and_found():
    sim = sf.Sim(sf.load("servo"), sf.Params(
        sag=sf.voltage_sag(low=0.0, high=6.0, nominal=0.0), kp=sf.kp(low=0.15, high=2.5), coulomb=sf.coulomb(low=0.001, high=0.1),
    ), threads=1)  # fmt: skip
    t = sim.control_dt * np.arange(1200)
    u = 1.2 * np.sin(2 * np.pi * 0.6 * t) + 0.8 * np.sign(np.sin(2 * np.pi * 0.9 * t))
    log = replayed(sim, u[:, None], {"sag": 2.5, "kp": 1.6, "coulomb": 0.018})
    fit = identify_inverse(sim, log)
    assert fit["sag"] == pytest.approx(2.5, rel=0.04)
    known = identify_inverse(sim, log, only=("kp", "coulomb"), fixed={"sag": 2.5})
    assert known["kp"] == pytest.approx(1.6, rel=0.02)
    wrong = identify_inverse(sim, log, only=("kp", "coulomb"), fixed={"sag": 0.0})
    assert abs(wrong["kp"] - 1.6) > 0.2


def test_a_rotor_spins_up_before_it_pushes(tmp_path):
    (tmp_path / "model.xml").write_text(MILL)
    (tmp_path / "robot.toml").write_text(ROTOR)
    sim = sf.Sim(
        sf.load(tmp_path),
        sf.Params(lag=sf.rotor_lag("m", low=0.01, high=0.2, nominal=0.1), drag=sf.damping(low=0.0, high=1.0)),
        threads=1,
    )
    t = sim.control_dt * np.arange(1000)
    u = 0.5 + 0.2 * np.sin(2 * np.pi * 0.8 * t) + 0.2 * np.sign(np.sin(2 * np.pi * 1.9 * t))
    fit = identify_inverse(sim, replayed(sim, u[:, None], {"lag": 0.05, "drag": 0.3}))
    assert fit["lag"] == pytest.approx(0.05, rel=0.03)
    assert fit["drag"] == pytest.approx(0.3, rel=0.02)


# -------------------------------------------------------------------- stops


def test_samples_at_a_stop_that_was_moved_are_left_out():
    sim = slide(stops=sf.stop_shift("slider", low=-0.15, high=0.1, nominal=0.0))
    e = {
        "mass": np.array([92.0]),
        "damping": np.array([190.0]),
        "coulomb": np.array([22.0]),
        "stops": np.array([-0.13]),
    }
    log = pulled(sim, e)
    assert 0.169 < log["joint_pos"].values.max() < 0.175  # the range of the model goes on to 0.3
    fit = identify_inverse(sim, log, only=("mass", "coulomb"), held_out=0.0, fixed=e)
    assert fit["mass"] == pytest.approx(92.0, rel=0.01)
