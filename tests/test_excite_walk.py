"""What a walking policy should be asked for: within its commands, without a fall in any judged world, and better than a constant."""

import json
from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot import cli
from surefoot.cli_excite import BundleWalker
from surefoot.deploy.bundle import load_bundle
from surefoot.deploy.trajectory import load_trajectory
from surefoot.errors import InputError
from surefoot.identify.design import Design, load_design
from surefoot.identify.excite import DRIFT, USUAL, Beliefs, Effort
from surefoot.identify.excite_limits import Limits
from surefoot.identify.excite_walk import WalkJudge, excite_walking, walk
from surefoot.identify.information import Information, Lens, sensor_noise_of

ONLY = ("base_mass", "kp")
FEW = Effort(families=("spline",), population=3, rounds=1, elite=2, samples=2, climbs=1)
SECONDS, WINDOW = 0.9, 0.3
UNBOUND = np.full(12, np.inf)
BALANCE = Limits(low=-UNBOUND, high=UNBOUND, speed=UNBOUND, torque=UNBOUND, tilt=0.6, sink=0.5)


@pytest.fixture(scope="module")
def sim() -> sf.Sim:
    robot = sf.load("go2")
    return sf.Sim(robot, robot.params.only(*ONLY))


@pytest.fixture(scope="module")
def walker(sim) -> BundleWalker:
    return BundleWalker(load_bundle("go2-walk"), sim)


@pytest.fixture(scope="module")
def design(sim, walker) -> Design:
    return excite_walking(sim, walker, only=ONLY, seconds=SECONDS, window=WINDOW, effort=FEW)


def judge(sim: sf.Sim, walker) -> WalkJudge:
    """As `excite_walking` makes it."""
    lens = Lens(names=ONLY, noise=sensor_noise_of(sim, inflation=USUAL, drift=DRIFT), window=WINDOW)
    beliefs = Beliefs(sim, None, ONLY, FEW.samples, 0)
    return WalkJudge(sim, walker, Information(sim, lens), beliefs, BALANCE, FEW)


# -------------------------------------------------------------------- with a shipped policy


@pytest.mark.slow
def test_a_walk_is_asked_for_what_its_policy_takes(design, walker):
    names, low, high = zip(*walker.commands, strict=True)
    assert (design.motion.channel, design.motion.setting, design.motion.columns) == ("command", "walking", names)
    assert design.motion.seconds == pytest.approx(SECONDS)
    assert (design.motion.values >= np.array(low)).all()
    assert (design.motion.values <= np.array(high)).all()
    assert np.ptp(design.motion.values, axis=0).max() > 0.0
    assert all(x.taught for x in design.expected)


@pytest.mark.slow
def test_a_robot_that_walks_as_designed_falls_in_no_judged_world(design, sim, walker):
    beliefs = Beliefs(sim, None, ONLY, FEW.samples, 0)
    assert len(beliefs.e["base_mass"]) == 2
    assert np.ptp(beliefs.e["base_mass"]) > 0.1  # kg: not the same world twice
    states = walk(sim, walker, np.repeat(design.motion.values[None], 2, axis=0), beliefs.e).states
    x, y = np.moveaxis(states["qpos"][..., 4:6], -1, 0)
    assert (1 - 2 * (x**2 + y**2) > np.cos(0.6)).all()
    assert (states["qpos"][..., 2] > 0.5 * sim.robot.height).all()
    moved = np.linalg.norm(np.diff(states["qpos"][:, [0, -1], :2], axis=1), axis=-1)
    assert (moved > 0.1).all()  # m: it walks


@pytest.mark.slow
def test_a_designed_walk_teaches_more_than_a_constant_command(design, sim, walker):
    made = judge(sim, walker)
    asked = np.array(
        [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.5, 0.3, 0.5], [1.0, 0.5, 1.0]]
    )
    held = np.repeat((asked / made.amplitude)[:, None], made.grid(SECONDS).steps, axis=1)
    constant = [trial.score for trial in made.trials("constant", held)]
    # The design's own score from what it says it teaches is not kept: it is judged anew, as the constants are.
    shape = design.motion.values / made.amplitude
    (own,) = made.trials("design", shape[None])
    assert own.scale == 1.0
    assert own.score > max(constant)
    assert max(constant) > constant[0]  # standing teaches less than walking


@pytest.mark.slow
def test_the_command_line_designs_a_walk_that_the_policy_can_be_asked_for(tmp_path, capsys):
    out = tmp_path / "walk.json"
    words = "excite go2 --setting walking --walker go2-walk --only kp --seconds 0.6 --effort quick --criterion A --json"
    assert cli.run([*words.split(), "--out", str(out)]) == 0
    said, written = json.loads(capsys.readouterr().out), load_trajectory(out)
    assert (said["setting"], said["about"]["criterion"]) == ("walking", "A")
    assert set(said["scores"]) == {"spline", "constant commands"}
    assert set(written.asked(0.3)) == {"vx", "vy", "yaw_rate"}
    assert written.contract is None  # that of the bundle holds
    assert load_design(out).expected[0].name == "kp"


# -------------------------------------------------------------------- with policies that fold up


class Folding:
    """A policy that stands, and folds its legs where more than `most` is asked of it."""

    commands = (("effort", 0.0, 1.0),)

    def __init__(self, sim: sf.Sim, most: float):
        self.stand, self.most = sim.rest_command, most
        self.fold = np.array([{"thigh": 1.5, "calf": -1.0}.get(name[3:-6], 0.0) for name in sim.command_names])

    def reset(self, worlds: int) -> None:
        pass

    def __call__(self, readings: dict[str, np.ndarray], command: np.ndarray) -> np.ndarray:
        return self.stand + np.where(command > self.most, self.fold, 0.02 * command * self.fold)


@pytest.mark.slow
def test_a_walk_is_made_calmer_until_the_robot_stays_up(sim):
    brave, careful = (judge(sim, Folding(sim, most)).trials("x", np.ones((1, 40, 1)))[0] for most in (2.0, 0.5))
    assert (brave.scale, brave.u.max()) == (1.0, 1.0)
    assert (careful.scale, careful.u.max()) == (0.45, 0.45)
    assert np.isfinite(careful.score)


def test_a_policy_that_always_falls_is_refused(sim):
    with pytest.raises(InputError, match="falls in some believed world whatever it is asked"):
        excite_walking(
            sim, Folding(sim, -1.0), only=ONLY, seconds=SECONDS, window=WINDOW, effort=replace(FEW, samples=1)
        )


def test_who_cannot_walk_is_told_so(sim, walker):
    servo = sf.Sim(sf.load("servo"))
    with pytest.raises(InputError, match="servo has no free base"):
        excite_walking(servo, walker)
    mute = Folding(sim, 0.0)
    mute.commands = ()  # type: ignore[assignment]
    with pytest.raises(InputError, match="takes no commands"):
        excite_walking(sim, mute)
    with pytest.raises(InputError, match="the policy is for 'go2', the robot is 'servo'"):
        BundleWalker(load_bundle("go2-walk"), servo)
    other = sf.Sim(replace(sim.robot, control_dt=0.01))
    with pytest.raises(InputError, match=r"acts every 0\.02 s, the robot file says 0\.01 s"):
        BundleWalker(load_bundle("go2-walk"), other)
