"""`params check`: a Param without effect is found and named, one with an effect never is."""

import numpy as np
import pytest

from surefoot.bench.examples import example_params, example_robot
from surefoot.params import CONSTRUCTORS, KINDS, Params
from surefoot.robots import available, load
from surefoot.sim.check import RANDOM, check_params

# Params of the library that act on nothing by their physics; the list is meant to stay empty.
KNOWN_INERT: set[tuple[str, str]] = set()

SHELF = """<mujoco><worldbody>
  <geom name="shelf" type="box" size="0.1 0.1 0.1" pos="0 0 50"/>
  <body name="ball"><freejoint/><geom name="ball" size="0.1" mass="1"/></body>
</worldbody></mujoco>"""
ROBOT = """name = "shelf"
title = "a ball below a shelf it never reaches"
licence = "Apache-2.0"
model = "model.xml"
base = "ball"
ground = true
timestep = 0.005
control_dt = 0.01
height = 0.1
[params.ball_friction]
kind = "friction"
of = "ball"
low = 0.1
high = 1.0
[params.shelf_softness]
kind = "softness"
of = "shelf"
low = 0.02
high = 0.1
"""


def test_a_planted_inert_param_is_found_and_named(tmp_path):
    (tmp_path / "model.xml").write_text(SHELF)
    (tmp_path / "robot.toml").write_text(ROBOT)
    effects = {effect.name: effect for effect in check_params(load(tmp_path))}
    assert effects["shelf_softness"].inert
    assert effects["shelf_softness"].change == 0.0
    assert effects["shelf_softness"].channel == "none"
    assert not effects["ball_friction"].inert


def test_a_param_that_only_acts_beside_another_is_not_inert_beside_it():
    drift, temperature = (
        CONSTRUCTORS["force_drift"](low=-0.5, high=0.5),
        CONSTRUCTORS["temperature"](low=0.0, high=50.0),
    )
    together = check_params(load("go2"), Params(drift=drift, temperature=temperature))
    assert not any(effect.inert for effect in together)


def test_the_change_of_a_bias_is_its_range():
    bias = CONSTRUCTORS["encoder_bias"](low=-0.03, high=0.05)
    (effect,) = check_params(load("servo"), Params(bias=bias))
    assert effect.change == pytest.approx(0.08, abs=0.0016)  # the encoder's step
    assert effect.channel == "joint_pos"


@pytest.mark.slow
def test_the_change_of_a_noise_is_the_change_of_the_spread():
    noise = CONSTRUCTORS["velocity_noise"](low=0.02, high=0.1)
    (effect,) = check_params(load("servo"), Params(noise=noise))
    assert effect.channel == "joint_vel"
    assert effect.change == pytest.approx(0.08, rel=0.05)
    assert 0 < effect.floor < 0.01


def test_a_param_with_one_value_per_sim_is_checked_with_a_sim_a_bound():
    step = CONSTRUCTORS["timestep"](low=0.0025, high=0.005, choices=(0.0025, 0.005))
    (effect,) = check_params(load("go2"), Params(step=step))
    assert not effect.inert
    assert (effect.low, effect.high) == (0.0025, 0.005)


def test_an_effect_is_judged_against_what_rounding_alone_does():
    effects = check_params(load("double_pendulum"))
    assert all(effect.floor > 0 for effect in effects)
    assert min(effect.ratio for effect in effects) > 1e3


@pytest.mark.slow
def test_the_check_repeats():
    a, b = (check_params(load("servo")) for _ in range(2))
    assert a == b


def test_every_random_kind_is_known():
    assert set(KINDS) >= RANDOM
    assert all(np.isclose(KINDS[kind].hard[0], 0.0) for kind in RANDOM)


@pytest.mark.parametrize("name", [n for n in available() if n not in ("go2", "g1")])
def test_no_param_of_a_small_robot_is_inert(name):
    inert = {(name, effect.name) for effect in check_params(load(name)) if effect.inert}
    assert inert <= KNOWN_INERT


@pytest.mark.slow
@pytest.mark.parametrize("name", ["go2", "g1"])
def test_no_param_of_a_legged_robot_is_inert(name):
    assert not [effect.name for effect in check_params(load(name)) if effect.inert]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_acts_where_it_can(kind):
    effects = {effect.name: effect for effect in check_params(example_robot(kind), example_params(kind))}
    assert not effects[kind].inert
