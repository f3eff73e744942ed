"""Designs for robots with legs: on the ground they keep their balance, on a stand they teach nothing about the trunk."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot import cli
from surefoot.deploy.trajectory import load_trajectory, recital, write_trajectory
from surefoot.errors import InputError
from surefoot.identify.design import Design, load_design
from surefoot.identify.excite import Beliefs, Effort, Judge, excite, usual_limits
from surefoot.identify.excite_limits import Limits
from surefoot.identify.information import Information, Lens, sensor_noise_of

ONLY = ("base_mass", "kp")
QUICK = Effort(families=("multi-sine",), population=3, rounds=1, elite=1, samples=1, climbs=0)
SECONDS, WINDOW = 0.6, 0.3


def go2(air: bool = False) -> sf.Sim:
    robot = sf.load("go2")
    return sf.Sim(robot.suspended() if air else robot, robot.params.only(*ONLY))


@pytest.fixture(scope="module")
def sim() -> sf.Sim:
    return go2()


def balance(sim: sf.Sim, tilt: float, sink: float) -> Limits:
    """Joint ranges as usual, speeds and torques free, balance as given."""
    usual = usual_limits(sim, ONLY)
    return replace(usual, speed=np.full(12, np.inf), torque=np.full(12, np.inf), tilt=tilt, sink=sink)


def judge(sim: sf.Sim, limits: Limits) -> Judge:
    beliefs = Beliefs(sim, None, ONLY, 1, 0)
    return Judge(
        sim, Information(sim, Lens(names=ONLY, noise=sensor_noise_of(sim), window=WINDOW)), beliefs, limits, QUICK
    )


def shown(sim: sf.Sim, u: np.ndarray) -> tuple[float, float]:
    """Largest tilt [rad] and least share of the standing height in the judged world, by turning the base's z axis."""
    states = judge(sim, balance(sim, np.inf, -np.inf)).information.walk(u[None], Beliefs(sim, None, ONLY, 1, 0).e, 0.02)
    w, x, y, z = np.moveaxis(states["qpos"][0, :, 3:7], 1, 0)
    up = w * w - x * x - y * y + z * z
    return float(np.arccos(up).max()), float(states["qpos"][0, :, 2].min() / sim.robot.height)


# -------------------------------------------------------------------- balance


@pytest.mark.parametrize(("roll", "height", "excess"), [
    (0.0, 1.0, 0.0), (0.3, 1.0, 0.0), (0.42, 1.0, 0.2), (-0.7, 1.0, 1.0), (0.0, 0.7, 0.0), (0.0, 0.5, 0.1), (0.42, 0.3, 0.3),
])  # fmt: skip
def test_tilt_and_sink_are_limits(sim, roll, height, excess):
    """0.35 rad of tilt and 0.6 of the height are allowed: roll / 0.35 - 1 and 0.6 - share are beyond, the larger one counts."""
    qpos = np.tile(sim.start_qpos, (1, 3, 1))
    qpos[0, 1, 3:7] = np.cos(roll / 2), np.sin(roll / 2) * 0.6, np.sin(roll / 2) * 0.8, 0.0
    qpos[0, 2, 2] = height * sim.robot.height
    states = {"qpos": qpos, "qvel": np.zeros((1, 3, 18)), "actuator_force": np.zeros((1, 3, 12))}
    assert usual_limits(sim, ONLY).excess(sim, states)[0] == pytest.approx(excess, abs=1e-6)


def pose(sim: sf.Sim, legs: tuple[str, ...]) -> np.ndarray:
    """A second in which the named legs fold and stretch again, as a unit motion (50, 12)."""
    fold = np.sin(np.pi * np.arange(50) / 50)
    sign = [(name[:2] in legs) * {"thigh": 1.0, "calf": -1.0}.get(name[3:-6], 0.0) for name in sim.command_names]
    return np.outer(fold, sign)


@pytest.mark.parametrize(("legs", "limits"), [
    (("FR", "RR"), {"tilt": 0.15, "sink": -np.inf}),
    (("FR", "FL", "RR", "RL"), {"tilt": np.inf, "sink": 0.8}),
])  # fmt: skip
def test_a_motion_that_leans_or_crouches_too_far_is_made_smaller(sim, legs, limits):
    motion = pose(sim, legs)[None]
    u, scale = judge(sim, balance(sim, **limits)).scaled(motion)
    wide, full = judge(sim, balance(sim, np.inf, -np.inf)).scaled(motion)
    assert 0.0 < scale[0] < full[0] == 1.0
    for commands, kept in ((u[0], True), (wide[0], False)):
        tilt, height = shown(sim, commands)
        assert (tilt <= limits["tilt"] and height >= limits["sink"]) == kept


@pytest.mark.slow
def test_a_design_on_the_ground_keeps_its_balance(sim):
    calm = {"only": ONLY, "seconds": SECONDS, "window": WINDOW, "effort": QUICK}
    kept = excite(sim, limits=balance(sim, 0.05, 0.9), **calm)
    assert kept.motion.setting == "standing"
    tilt, height = shown(sim, kept.motion.values)
    assert tilt <= 0.05
    assert height >= 0.9
    tilt, height = shown(sim, excite(sim, limits=balance(sim, np.inf, -np.inf), **calm).motion.values)
    assert tilt > 0.05 or height < 0.9
    with pytest.raises(InputError, match="no motion of go2 keeps the limits"):
        excite(sim, limits=balance(sim, np.inf, 1.2), **calm)


# -------------------------------------------------------------------- legs in the air


@pytest.fixture(scope="module")
def designs() -> dict[str, Design]:
    """On the ground and in the air."""
    more = {"only": ONLY, "seconds": SECONDS, "window": WINDOW, "effort": QUICK}
    return {name: excite(go2(air=name == "air"), **more) for name in ("standing", "air")}


@pytest.mark.slow
def test_the_trunk_is_weighed_on_the_ground_alone(designs):
    mass, gain = designs["standing"].expected
    assert mass.taught
    assert gain.taught
    mass, gain = designs["air"].expected
    assert (mass.name, mass.after) == ("base_mass", pytest.approx(mass.before, rel=0.02))
    assert gain.after < 0.1 * gain.before
    assert "not learned by this motion" in str(designs["air"])


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["standing", "air"])
def test_a_motion_of_legs_is_one_of_the_robot_itself_and_can_be_played(designs, setting, tmp_path):
    path = write_trajectory(tmp_path / "motion.json", designs[setting].to_dict())
    back = load_design(path)
    assert (back.robot, back.motion.setting, back.motion.columns) == ("go2", setting, go2().command_names)
    assert recital(load_trajectory(path)).contract.robot == "go2"


@pytest.mark.slow
def test_the_command_line_hangs_the_robot_up(tmp_path, capsys):
    out = tmp_path / "air.json"
    words = f"excite go2 --setting air --only kp,base_mass --seconds 0.3 --effort quick --out {out}"
    assert cli.run(words.split()) == 0
    assert "for go2 (hang the robot up or put it on a stand" in capsys.readouterr().out
    gain, mass = load_design(out).expected
    assert gain.taught
    assert not mass.taught
