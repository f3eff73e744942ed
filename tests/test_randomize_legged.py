"""The preset for legged robots: its ranges, its sources, and that it acts on the robots it is for."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.randomize import legged
from surefoot.randomize.legged import stem

ROBOTS = {"go2": "base", "g1": "torso_link"}


@pytest.mark.parametrize("name", ROBOTS)
def test_every_range_states_its_source_and_holds_the_nominal_value(name):
    params = legged(sf.load(name))
    for label, param in params.items():
        assert len(param.source) > 10, label
        assert param.nominal is not None
        assert param.low <= param.nominal <= param.high, label


@pytest.mark.parametrize("name", ROBOTS)
def test_ranges_are_relative_to_the_robots_own_figures(name):
    robot = sf.load(name)
    params, model = legged(robot), robot.spec().compile()
    trunk = float(model.body(ROBOTS[name]).mass[0])
    assert params["trunk_mass"].of == (ROBOTS[name],)
    assert (params["trunk_mass"].low, params["trunk_mass"].high) == pytest.approx((trunk - 1, trunk + 3))
    assert params["foot_friction"].of == robot.feet
    assert (params["foot_friction"].low, params["foot_friction"].high) == (0.25, 1.25)
    assert params["command_delay"].high == robot.control_dt
    found = [b for p in params.values() if p.kind == "mass" and p.of != (ROBOTS[name],) for b in p.of]
    others = {model.body(i).name for i in range(1, model.nbody)} - {ROBOTS[name]}
    assert sorted(found) == sorted(others)  # every other link, once
    for p in params.values():
        if p.kind == "mass" and p.of != (ROBOTS[name],):
            for body in p.of:
                mass = float(model.body(body).mass[0])
                assert (p.low, p.high) == pytest.approx((0.9 * mass, 1.2 * mass), rel=5e-3)
        if p.kind in ("kp", "kd"):
            joints = robot.joints if p.of == ".*" else p.of
            for joint in joints:
                nominal = getattr(robot.actuator(joint), p.kind)
                assert (p.low, p.high) == pytest.approx((0.9 * nominal, 1.1 * nominal))


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("each", [False, True])
def test_the_preset_can_be_drawn_applied_and_read_back(name, each):
    robot = sf.load(name)
    sim = sf.Sim(robot, legged(robot, each=each), worlds=4)
    e = sim.params.prior().sample(4, 0)
    sim.apply(e)
    sim.reset()
    for _ in range(3):
        sim.step(sim.rest_command)
    assert sim.alive.all()
    for label, value in e.items():
        np.testing.assert_allclose(sim.e[label], value, rtol=1e-5, atol=1e-6, err_msg=label)
    links = [label for label, p in sim.params.items() if p.kind == "mass" and len(p.of) > 1]
    assert all(bool(sim.params.elements[label]) == each for label in links)


def test_nominal_values_are_those_of_the_model():
    robot = sf.load("go2")
    params = legged(robot)
    bare = params.without("joint_zero")
    stated = {label: bare[label].nominal for label in bare}
    unstated = sf.Params(**{label: bare[label].replace(nominal=None) for label in bare})
    decoded = sf.Sim(robot, unstated, worlds=1).params.nominal_e(1)
    for label, value in stated.items():
        assert decoded[label][0] == pytest.approx(value, rel=1e-3, abs=1e-9), label


def test_a_robot_without_legs_is_refused():
    with pytest.raises(sf.InputError, match="not a legged robot"):
        legged(sf.load("so101"))


def test_names_lose_their_side():
    names = {"FL_thigh_joint": "thigh", "left_hip_pitch_link": "hip_pitch", "pelvis": "pelvis", "RR_calf": "calf"}
    assert {name: stem(name) for name in names} == names
