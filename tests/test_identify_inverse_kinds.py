"""Inverse dynamics and every kind of Param: it is in the equation error, or it is refused by name."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.identify.inverse import identify_inverse
from surefoot.identify.inverse_motion import motion
from surefoot.identify.inverse_torque import EquationError
from test_readback import param

HOME = {"roughness": "so101", "step_height": "so101", "rotor_lag": "mill"}
"""Kinds that a quadruped on a stand has no place for."""
MOVED = {
    **{kind: {"of": "FL_calf"} for kind in ("com", "payload_mass", "payload_place", "inertia")},
    "mass": {"of": "FL_calf", "low": 0.1, "high": 0.4},
    "sensor_period": {"low": 0.0, "high": 0.03},
    "rotor_lag": {"of": "m"},
}
"""What is different from test_readback's, so that a robot whose base stands still can feel it."""
ASIDE = {
    **dict.fromkeys(("stop_shift", "stop_softness", "stop_damping"), "samples near a stop are left out, wherever it is"),
    **dict.fromkeys(("integrator", "solver", "iterations", "cone", "impratio"), "how it steps, not what it obeys"),
    "encoder_quantum": "rounding is noise, which the filter takes off",
}  # fmt: skip
"""Kinds that move a replay and not the equation error, and may have any value all the same."""
MILL = """<mujoco><worldbody><body name="arm"><joint name="mill" axis="0 0 1"/>
  <inertial pos="0 0 0" mass="1" diaginertia="0.02 0.02 0.02"/><site name="m" pos="0.2 0 0" euler="90 0 0"/></body></worldbody></mujoco>"""
ROTOR = """name = "mill"
title = "an arm on a pivot that a rotor turns"
licence = "none"
model = "model.xml"
ground = false
timestep = 0.001
control_dt = 0.005
joints = ["mill"]
[[actuators]]
sites = "m"
model = "rotor"
thrust_max = 2.0
lag = 0.05
moment_ratio = 0.0
spin = 1
source = "test"
[[sensors]]
kind = "encoder"
name = "encoder"
of = "mill"
rate = 200.0
source = "test"
"""


@pytest.fixture(scope="module")
def robots(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mill")
    (folder / "model.xml").write_text(MILL)
    (folder / "robot.toml").write_text(ROTOR)
    return {"go2": sf.load("go2").suspended(), "so101": sf.load("so101"), "mill": sf.load(folder)}


def posed(kind, robots, **more):
    """A Sim with one Param 'p' of a kind and a recording of joints that swing while their motors are pushed about."""
    robot = robots[HOME.get(kind, "go2")]
    sim = sf.Sim(robot, sf.Params(p=param(kind).replace(**MOVED.get(kind, {})), **more), threads=1)
    t = sim.control_dt * np.arange(100)
    phase = np.arange(len(robot.joints))
    q = [robot.pose[j] for j in robot.joints] + 0.3 * np.sin(2 * np.pi * (1 + 0.1 * phase) * t[:, None] + phase)
    u = np.sign(np.sin(2 * np.pi * 1.7 * t[:, None] + np.arange(sim.model.nu)))
    u, unit = (q + u, "rad") if robot.name != "mill" else (0.5 + 0.4 * u, "1")
    command = sf.Channel(name=sim.command_channel, unit=unit, t=t, values=u, columns=sim.command_names, role="u")
    return sim, sf.Log(
        channels=(command, sf.Channel(name="joint_pos", unit="rad", t=t, values=q, columns=robot.joints))
    )


def ends(sim):
    p = sim.params["p"]
    low, high = (p.low, p.high) if p.choices is None else (p.choices[0], p.choices[-1])
    return {**sim.params.nominal_e(1), **sim.params.check({"p": low}, 1)}, sim.params.check({"p": high}, 1)


def changes_the_error(sim, log):
    """Whether the equation error is another with the Param at its other end."""
    try:
        error, move = EquationError(sim), motion(sim, log)
    except InputError:
        return False
    low, high = ends(sim)
    before, after = error(low, move), error({**low, **high}, move)
    return np.abs(after - before).max() > 1e-6 * np.abs(before).max()


@pytest.mark.parametrize("kind", sf.KINDS)
def test_every_fitted_kind_changes_the_equation_error_or_is_refused_by_name(kind, robots):
    sim, log = posed(kind, robots)
    if not changes_the_error(sim, log):
        with pytest.raises(InputError, match="'p'") as told:
            identify_inverse(sim, log, only="p", held_out=0.0, every=1)
        assert kind in str(told.value)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("kind", sf.KINDS)
def test_every_given_kind_that_moves_a_replay_is_in_the_equation_error_or_refused_by_name(kind, robots):
    place = {"so101": "gripper", "mill": "arm"}.get(HOME.get(kind, ""), ".*_hip")
    sim, log = posed(kind, robots, other=sf.com(place, low=-0.02, high=0.02, nominal=0.0, axis="y"))
    low, high = ends(sim)
    before, after = (sim.replay(log, {**low, **e}, channels=("joint_pos",)).values["joint_pos"] for e in ({}, high))
    assert kind not in ASIDE or not changes_the_error(sim, log)
    if np.array_equal(before, after) or kind in ASIDE or changes_the_error(sim, log):
        return
    with pytest.raises(InputError, match="'p'"):
        identify_inverse(sim, log, only="other", fixed=high, held_out=0.0, every=1)


MOTOR = ("strength", "kp", "kd", "torque_limit", "torque_constant", "resistance", "voltage", "speed_limit", "cogging",
         "thermal", "voltage_sag", "command_delay", "rate_limit")  # fmt: skip


@pytest.mark.parametrize("kind", MOTOR)
def test_what_only_motors_feel_is_refused_where_their_torque_was_measured(kind, robots):
    sim, log = posed(kind, robots, other=sf.com(".*_hip", low=-0.02, high=0.02, nominal=0.0, axis="y"))
    torque = sf.Channel(
        name="joint_torque", unit="N·m", t=log["joint_pos"].t, values=log["joint_pos"].values, columns=sim.robot.joints
    )
    log = sf.Log(channels=(*log.channels, torque))
    with pytest.raises(InputError, match=f"cannot fit 'p' \\({kind}\\): torque='measured'"):
        identify_inverse(sim, log, only="p", torque="measured", held_out=0.0, every=1)
    identify_inverse(sim, log, only="other", torque="measured", held_out=0.0, every=1)  # it may have any value


def test_a_delay_of_sensors_that_are_not_read_is_refused(robots):
    sim, log = posed("sensor_delay", robots)
    imu = sf.Sim(sim.robot, sf.Params(p=sf.sensor_delay("imu", low=0.0, high=0.02)), threads=1)
    with pytest.raises(InputError, match="does not read"):
        identify_inverse(imu, log, only="p")


def test_a_residual_is_refused(robots):
    sim, log = posed("kp", robots)
    with pytest.raises(InputError, match="residual"):
        identify_inverse(sim.replace(residual=Push()), log, only="p")


class Push:
    """A residual of nothing."""

    def start(self, worlds):
        return {}
