"""Truth tests of what the motors receive: delay, jitter, slew limit, rotor lag; on a mass that integrates force."""

import numpy as np
import pytest

from rigs import BODY, ENCODER, IMU, PENDULUM, SLIDER, rig
from surefoot.errors import InputError
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import Params
from surefoot.sim import Sim

FORCE = 'model = "torque"\n'
MASS, DT, PERIOD = 2.0, 0.001, 0.005
DELAYS = np.array([0.0, 0.0001, 0.00037, 0.001, 0.0026, 0.004999, 0.005, 0.0073, 0.0137, 0.03])


def cart(folder, *, worlds, noise=False, seed=0, **params):
    return Sim(
        rig(folder, SLIDER, motor=FORCE, dt=DT, period=PERIOD), Params(**params), worlds=worlds, noise=noise, seed=seed
    )


def run(sim, u, steps):
    """Speeds (steps, worlds) of the cart after each control step under forces u[k]."""
    out = []
    for k in range(steps):
        sim.step(np.array([u[k]]))
        out.append(sim.truth()["joint_vel"][:, 0])
    return np.array(out)


def test_a_step_of_force_arrives_after_the_delay(tmp_path):
    sim = cart(tmp_path, worlds=len(DELAYS), command_delay=P["command_delay"](low=0, high=0.03))
    sim.apply({"command_delay": DELAYS})
    sim.reset()
    speed = run(sim, [0.0, 0.0, *[8.0] * 18], 20)[-1]
    found = 18 * PERIOD - speed * MASS / 8.0
    assert found == pytest.approx(DELAYS, abs=1e-9)


def test_an_impulse_of_force_arrives_after_the_delay(tmp_path):
    sim = cart(tmp_path, worlds=len(DELAYS), command_delay=P["command_delay"](low=0, high=0.03))
    sim.apply({"command_delay": DELAYS})
    sim.reset()
    speed = run(sim, [0.0, 0.0, 8.0, *[0.0] * 17], 20)[-1]
    assert speed == pytest.approx(8.0 * PERIOD / MASS, rel=1e-12)  # nothing is lost on the way
    later = (sim.truth()["joint_pos"][0, 0] - sim.truth()["joint_pos"][:, 0]) / speed
    assert later == pytest.approx(DELAYS, abs=1e-9)


@pytest.mark.parametrize("dt", [0.0005, 0.005])
def test_the_delay_does_not_depend_on_the_time_step(tmp_path, dt):
    robot = rig(tmp_path, SLIDER, motor=FORCE, dt=dt, period=0.01)
    sim = Sim(robot, Params(command_delay=P["command_delay"](low=0, high=0.03)), worlds=len(DELAYS), noise=False)
    sim.apply({"command_delay": DELAYS})
    sim.reset()
    speed = run(sim, [8.0] * 10, 10)[-1]
    assert 0.1 - speed * MASS / 8.0 == pytest.approx(DELAYS, abs=1e-9)


def test_a_delay_given_in_mid_episode_acts_on_commands_already_sent(tmp_path):
    sim = cart(tmp_path, worlds=2, command_delay=P["command_delay"](low=0, high=0.03))
    sim.apply({"command_delay": 0.0})
    sim.reset()
    run(sim, [0.0, 8.0], 2)
    sim.apply({"command_delay": [0.0, 0.0123]})
    before = sim.truth()["joint_vel"][:, 0]
    gained = run(sim, [0.0, 0.0, 0.0, 0.0], 4)[-1] - before
    assert gained == pytest.approx([0.0, 8.0 * PERIOD / MASS])  # the force is felt a second time, as asked


def test_a_delayed_robot_holds_its_pose_after_a_reset(tmp_path):
    motor = 'model = "pd"\nkp = 400.0\nkd = 4.0\n'
    robot = rig(tmp_path, PENDULUM, motor=motor, sensors=ENCODER + "[pose]\narm = 0.7\n")
    sim = Sim(robot, Params(command_delay=P["command_delay"](low=0, high=0.1)), worlds=2, noise=False)
    sim.apply({"command_delay": np.array([0.0, 0.08])})
    sim.reset()
    for _ in range(30):
        sim.step(sim.rest_command)
    q = sim.truth()["joint_pos"][:, 0]
    assert q[0] == pytest.approx(q[1], abs=1e-12)
    assert q[0] == pytest.approx(0.7, abs=0.01)


def test_a_delay_beyond_the_memory_is_refused(tmp_path):
    sim = cart(tmp_path, worlds=1, command_delay=P["command_delay"](low=0, high=0.03))
    with pytest.raises(InputError, match=r"command_delay.*0\.05 s.*raise its high bound"):
        sim.apply({"command_delay": 0.05})


def test_jitter_is_uniform_and_drawn_anew_for_each_world_and_step(tmp_path):
    jitter = P["command_jitter"](low=0, high=0.005)
    sim = cart(tmp_path, worlds=400, noise=True, command_jitter=jitter)
    sim.apply({"command_jitter": 0.004})
    sim.reset()
    u = np.array([1.0, 0.0] * 20)
    gained = np.diff(run(sim, u, 40), axis=0, prepend=np.zeros((1, 400))) * MASS  # impulse of each control step
    late = np.where(u[:, None] > 0, PERIOD - gained, gained)[1:]  # (steps, worlds) [s]
    assert late.min() >= 0.0
    assert late.max() <= 0.004 + 1e-9
    assert late.mean() == pytest.approx(0.002, abs=3 * 0.004 / np.sqrt(12 * late.size))
    assert late.std() == pytest.approx(0.004 / np.sqrt(12), rel=0.02)
    assert abs(np.corrcoef(late[:-1].ravel(), late[1:].ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(late[:, :-1].ravel(), late[:, 1:].ravel())[0, 1]) < 0.03


def test_jitter_adds_to_the_delay(tmp_path):
    sim = cart(
        tmp_path,
        worlds=200,
        noise=True,
        command_delay=P["command_delay"](low=0, high=0.02),
        command_jitter=P["command_jitter"](low=0, high=0.01),
    )
    sim.apply({"command_delay": 0.0137, "command_jitter": 0.01})
    sim.reset()
    speed = run(sim, [8.0] * 40, 40)[-1]
    late = 0.2 - speed * MASS / 8.0
    assert ((late > 0.0137 - 1e-9) & (late < 0.0237 + 1e-9)).all()


def test_jitter_is_silent_without_noise(tmp_path):
    sim = cart(tmp_path, worlds=2, noise=False, command_jitter=P["command_jitter"](low=0, high=0.005))
    sim.apply({"command_jitter": 0.004})
    sim.reset()
    assert run(sim, [8.0], 1)[-1] == pytest.approx(8.0 * PERIOD / MASS)


def test_rate_limit_turns_a_step_into_a_ramp(tmp_path):
    sim = cart(tmp_path, worlds=3, rate_limit=P["rate_limit"](low=1, high=1e4))
    rate = np.array([50.0, 200.0, 1600.0])
    sim.apply({"rate_limit": rate})
    sim.reset()
    speed = run(sim, [8.0] * 60, 60)[-1]
    late = 60 * PERIOD - speed * MASS / 8.0
    assert late == pytest.approx(0.5 * 8.0 / rate, abs=1e-9)  # half the ramp's time is missing
    ramp = np.array(
        [np.diff(sim.commands.slew(np.full((3, 9, 1), -1e9), rate[:, None], np.array([0]))[:, :, 0], axis=1)]
    )
    assert np.abs(ramp[0] / DT) == pytest.approx(np.repeat(rate[:, None], 8, 1))


def test_an_absent_rate_limit_is_no_limit_and_its_nominal_can_be_applied(tmp_path):
    sim = cart(tmp_path, worlds=2, rate_limit=P["rate_limit"](low=1, high=1e6))
    sim.reset()
    assert run(sim, [8.0], 1)[-1] == pytest.approx(8.0 * PERIOD / MASS, rel=0.01)
    sim.apply(sim.params.nominal_e(2))
    sim.reset()
    assert run(sim, [8.0], 1)[-1] == pytest.approx(8.0 * PERIOD / MASS, rel=0.01)


ROTOR = 'sites = "up"\nmodel = "rotor"\nthrust_max = 3.0\nlag = 0.05\nmoment_ratio = 0.02\nspin = -1\n'


def drone(folder, worlds=3):
    bodies = BODY.format(place="").replace("</body>", '<site name="up"/></body>')
    more = 'base = "base"\nimu = "imu"\nheight = 1.0'
    robot = rig(folder, bodies, motor=ROTOR, sensors=IMU, gravity=0.0, more=more, dt=0.002, period=0.01)
    return Sim(robot, Params(rotor_lag=P["rotor_lag"](low=0.001, high=0.5)), worlds=worlds, noise=False)


def test_rotor_thrust_is_the_square_of_a_speed_that_lags(tmp_path):
    sim = drone(tmp_path)
    lag, u = np.array([0.01, 0.05, 0.2]), 0.8
    sim.apply({"rotor_lag": lag})
    sim.reset()
    speeds = []
    for _ in range(60):
        sim.step(np.array([u]))
        speeds.append(np.concatenate([sim.truth()["base_vel_world"], sim.truth()["base_gyro_true"]], axis=1))
    t = np.arange(1, 61)[:, None] * 0.01
    x = np.exp(-t / lag)
    impulse = 3.0 * u**2 * (t - 2 * lag * (1 - x) + 0.5 * lag * (1 - x * x))  # ∫ thrust_max s² dt
    speeds = np.array(speeds)
    assert speeds[..., 2] == pytest.approx(impulse / 1.0, rel=1e-9)
    assert speeds[..., 5] == pytest.approx(-0.02 * impulse / 0.01, rel=1e-9)
    assert np.abs(speeds[..., [0, 1, 3, 4]]).max() < 1e-12


def test_rotor_commands_are_clipped_to_what_a_rotor_can(tmp_path):
    sim = drone(tmp_path)
    sim.apply({"rotor_lag": 0.001})
    for u, thrust in ((7.0, 3.0), (-2.0, 0.0)):
        sim.reset()
        for _ in range(20):
            sim.step(np.array([u]))
        before = sim.truth()["base_vel_world"][:, 2]
        sim.step(np.array([u]))
        assert sim.truth()["base_vel_world"][:, 2] - before == pytest.approx(thrust * 0.01)
