"""Truth tests of encoders, force sensors and the age of readings: planted alone, found again in the readings."""

import dataclasses

import numpy as np
import pytest

from rigs import ENCODER, PENDULUM, TORQUE, WHEEL, readings, rig
from surefoot.errors import InputError
from surefoot.identify.information import sensor_noise_of
from surefoot.logs import Log
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import Params
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.sim.record import Recording

FREE = 'model = "torque"\n'
PD = 'model = "pd"\nkp = 400.0\nkd = 4.0\narmature = 0.02\n'


def wheel(folder, *, worlds=3, noise=False, seed=0, period=0.005, motor=FREE, sensors=ENCODER, bodies=WHEEL, **params):
    robot = rig(folder, bodies, motor=motor, sensors=sensors, period=period)
    return Sim(robot, Params(**params), worlds=worlds, noise=noise, seed=seed)


# -------------------------------------------------------------------- encoders


def test_encoder_bias_is_in_the_reading_and_not_in_the_motors_loop(tmp_path):
    sim = wheel(tmp_path, motor=PD, encoder_bias=P["encoder_bias"](low=-1, high=1))
    bias = np.array([-0.1, 0.0, 0.2])
    sim.apply({"encoder_bias": bias})
    sim.reset()
    for _ in range(400):
        sim.step(np.array([0.3]))
    assert sim.truth()["joint_pos"][:, 0] == pytest.approx(0.3, abs=1e-6)
    assert sim.sense()["joint_pos"][:, 0] - sim.truth()["joint_pos"][:, 0] == pytest.approx(bias, abs=1e-15)


def test_encoder_and_velocity_noise_have_their_spread(tmp_path):
    sim = wheel(
        tmp_path,
        worlds=2000,
        noise=True,
        encoder_noise=P["encoder_noise"](low=0, high=1),
        velocity_noise=P["velocity_noise"](low=0, high=1),
    )
    sim.apply({"encoder_noise": 0.01, "velocity_noise": 0.3})
    sim.reset()
    q, v = [], []
    for _ in range(20):
        sim.step(np.zeros(1))
        y = sim.sense()
        q.append(y["joint_pos"][:, 0])
        v.append(y["joint_vel"][:, 0])
    q, v = np.array(q), np.array(v)
    for noise, sigma in ((q, 0.01), (v, 0.3)):
        assert noise.mean() == pytest.approx(0.0, abs=4 * sigma / np.sqrt(noise.size))
        assert noise.std() == pytest.approx(sigma, rel=0.02)
        assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.02
        assert abs(np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(q.ravel(), v.ravel())[0, 1]) < 0.02


def test_encoder_readings_are_multiples_of_the_quantum(tmp_path):
    sim = wheel(tmp_path, encoder_quantum=P["encoder_quantum"](low=0, high=1))
    quantum = np.array([0.0, 0.01, 0.25])
    sim.apply({"encoder_quantum": quantum})
    sim.reset(qvel=np.array([1.7]))
    for _ in range(50):
        sim.step(np.zeros(1))
        read, true = sim.sense()["joint_pos"][:, 0], sim.truth()["joint_pos"][:, 0]
        assert read[0] == true[0]
        assert read[1:] / quantum[1:] == pytest.approx(np.round(read[1:] / quantum[1:]), abs=1e-9)
        assert (np.abs(read - true)[1:] <= 0.5 * quantum[1:] + 1e-12).all()


def test_speed_by_differencing_is_the_change_of_the_delivered_angle(tmp_path):
    sim = wheel(
        tmp_path,
        velocity_differencing=P["velocity_differencing"](low=0, high=1),
        encoder_quantum=P["encoder_quantum"](low=0, high=1),
    )
    sim.apply({"velocity_differencing": np.array([0.0, 1.0, 1.0]), "encoder_quantum": np.array([0.0, 0.0, 0.01])})
    sim.reset(qpos=np.array([0.004]))
    first = sim.sense()
    assert first["joint_vel"][:, 0] == pytest.approx(0.0)  # also where the first angle is rounded
    before = first["joint_pos"]
    for _ in range(40):
        sim.step(np.array([0.5]))
        y = sim.sense()
        assert y["joint_vel"][0] == sim.truth()["joint_vel"][0]
        assert y["joint_vel"][1:] == pytest.approx((y["joint_pos"] - before)[1:] / 0.005, abs=1e-12)
        assert (sim.sense()["joint_vel"] == y["joint_vel"]).all()  # asking twice changes nothing
        before = y["joint_pos"]


@pytest.mark.parametrize("late", [0.0, 0.0003, 0.0025, 0.006, 0.02])
def test_filtered_speed_is_late_by_its_lag_in_the_worlds_and_in_the_replay(tmp_path, late):
    """Under a constant acceleration a speed that is late by τ is a τ below the true one, whatever the control step."""
    sim = wheel(tmp_path, velocity_filter=P["velocity_filter"](low=0, high=0.1))
    sim.apply({"velocity_filter": np.array([0.0, late, 0.05])})
    sim.reset()
    for _ in range(200):
        sim.step(np.array([0.5]))
        y = sim.sense()
    a = sim.truth()["joint_vel"][0, 0] / 1.0
    behind = (sim.truth()["joint_vel"] - y["joint_vel"])[:, 0] / a
    assert behind == pytest.approx([0.0, late, 0.05], abs=1e-9)
    assert (sim.sense()["joint_vel"] == y["joint_vel"]).all()  # asking twice changes nothing
    sim.apply({"velocity_filter": 0.0})
    sim.reset()
    recording = Recording(sim)
    for _ in range(120):
        recording.add(sim.sense(), np.full((3, 1), 0.5))
        sim.step(np.array([0.5]))
    log = recording.log()
    replay = sim.replay(log, {"velocity_filter": np.array([0.0, late])}, channels=("joint_vel",))
    measured, seen = replay.values["joint_vel"][:, 60:, 0]
    assert measured - seen == pytest.approx(np.full(len(seen), late * a), abs=1e-3 * a)


def test_filtered_speed_of_a_robot_that_already_moves_begins_with_it(tmp_path):
    sim = wheel(tmp_path, velocity_filter=P["velocity_filter"](low=0, high=0.1))
    sim.apply({"velocity_filter": np.array([0.0, 0.004, 0.05])})
    sim.reset(qvel=np.array([2.0]))
    assert sim.sense()["joint_vel"][:, 0] == pytest.approx(2.0, abs=1e-12)


def of_a_driver(angles: np.ndarray, period: float, late: float) -> np.ndarray:
    """Angle readings (T, runs) differenced and low-passed by hand, as a driver does it."""
    a, speed, out = np.exp(-period / late), np.diff(angles[:2], axis=0)[0] / period, []
    for change in np.diff(angles, axis=0) / period:
        speed = a * speed + (1 - a) * change
        out.append(speed)
    return np.array(out)


@pytest.mark.parametrize("late", [0.0025, 0.01, 0.03])
def test_noise_of_filtered_speeds_is_that_of_differenced_angles(tmp_path, late):
    sim = wheel(
        tmp_path,
        worlds=400,
        noise=True,
        velocity_filter=P["velocity_filter"](low=0.001, high=0.1),
        encoder_noise=P["encoder_noise"](low=0, high=1),
        encoder_quantum=P["encoder_quantum"](low=0, high=1),
    )
    period, rng = float(sim.sensors.encoder_period[0]), np.random.default_rng(0)
    noisy, stepped = {"encoder_noise": 0.01, "encoder_quantum": 0.0}, {"encoder_noise": 0.0, "encoder_quantum": 0.02}
    for errors, speed, close in ((noisy, 0.0, 0.05), (stepped, 23.0, 0.1), (stepped, 0.3, 0.5), (stepped, 0.0, 0.0)):
        sim.apply({"velocity_filter": late, **errors})
        sim.reset(qvel=np.array([speed]))
        v = []
        for _ in range(40):
            sim.step(np.zeros(1))
            v.append(sim.sense()["joint_vel"][:, 0])
        t = period * np.arange(5000)[:, None] + rng.uniform(0, 1, 8)
        angles = speed * t * (1 + 0.003 * rng.uniform(-1, 1, 8)) + errors["encoder_noise"] * rng.standard_normal(
            t.shape
        )
        if q := errors["encoder_quantum"]:
            angles = q * np.round(angles / q)
        driver = of_a_driver(angles, period, late)[200:]
        expected = float(np.std(driver - driver.mean(0)))
        assert np.std(v) == pytest.approx(expected, rel=close, abs=1e-12)
    sim.apply({"velocity_filter": late, **noisy})
    assert sensor_noise_of(sim, ("joint_vel",)).std["joint_vel"][0] == pytest.approx(
        float(sim.sensors.speed_noise()[0, 0])
    )


def test_a_low_pass_that_begins_later_begins_with_the_speed_whatever_other_worlds_have(tmp_path):
    """Each world has its own memory, also while no world is late: s from its own past, not from the reset."""
    for other in (0.0, 0.01):
        sim = wheel(tmp_path, worlds=2, velocity_filter=P["velocity_filter"](low=0, high=0.1, nominal=0.0))
        sim.apply({"velocity_filter": np.array([0.0, other])})
        sim.reset()
        for _ in range(100):
            sim.sense()
            sim.step(np.array([0.5]))
        before = sim.truth()["joint_vel"][0, 0]
        sim.sense()
        sim.apply({"velocity_filter": np.array([0.01, other])})
        sim.step(np.array([0.5]))
        now = sim.truth()["joint_vel"][0, 0]
        # From s = v on, under an even acceleration: s falls behind by τ a (1 - exp(-t / τ)).
        behind = 0.01 * (now - before) / 0.005 * (1 - np.exp(-0.5))
        assert sim.sense()["joint_vel"][0, 0] == pytest.approx(now - behind, abs=1e-9)


def test_angles_that_are_differenced_and_low_passed_are_noisy_once(tmp_path):
    """Speeds that are differences of angles already are not differenced once more: noise and lateness stay those of the low-pass."""
    sim = wheel(
        tmp_path,
        worlds=1000,
        noise=True,
        velocity_filter=P["velocity_filter"](low=0, high=0.1),
        encoder_noise=P["encoder_noise"](low=0, high=1),
        velocity_differencing=P["velocity_differencing"](low=0, high=1),
    )
    both = np.where(np.arange(1000) < 500, 0.0, 1.0)
    sim.apply({"velocity_filter": 0.01, "encoder_noise": 0.01, "velocity_differencing": both})
    sim.reset()
    v = readings(sim, 40, "joint_vel")[5:, :, 0]
    expected = float(sim.sensors.speed_noise()[0, 0])
    assert v[:, :500].std() == pytest.approx(expected, rel=0.03)
    assert v[:, 500:].std() == pytest.approx(expected, rel=0.03)


def torqued(sim: Sim, steps: int = 200) -> Log:
    """What the first world's sensors give while a torque swings."""
    recording = Recording(sim)
    for k in range(steps):
        u = np.array([[0.5 * np.sin(0.1 * k)]])
        recording.add(sim.sense(), u)
        sim.step(np.tile(u, (sim.worlds, 1)))
    return recording.log()


@pytest.mark.parametrize(
    "errors",
    [{"velocity_filter": 0.01}, {"velocity_differencing": 1.0}, {"velocity_filter": 0.01, "velocity_noise": 0.2}],
)
def test_a_replay_with_noise_has_the_noise_of_late_speeds_that_the_worlds_have(tmp_path, errors):
    kinds = {"velocity_filter": 0.1, "velocity_differencing": 1.0, "encoder_noise": 1.0, "velocity_noise": 1.0}
    params = {name: P[name](low=0, high=high, nominal=0.0) for name, high in kinds.items()}
    sim = wheel(tmp_path, worlds=300, noise=True, **params)
    e = {name: np.full(300, {**errors, "encoder_noise": 0.01}.get(name, 0.0)) for name in kinds}
    sim.apply(e)
    sim.reset()
    v = []
    for _ in range(60):
        v.append(sim.sense()["joint_vel"][:, 0])
        sim.step(np.array([0.0]))
    sensed = np.std(v[20:])
    log = torqued(wheel(tmp_path, worlds=1, **params))
    replayed = [sim.replay(log, e, channels=("joint_vel",), noise=noise).values["joint_vel"] for noise in (True, False)]
    assert np.std((replayed[0] - replayed[1])[:, 20:]) == pytest.approx(sensed, rel=0.05)


@pytest.mark.parametrize("noise", [False, True])
def test_a_replay_of_a_span_without_speeds_has_none(tmp_path, noise):
    sim = wheel(tmp_path, worlds=1, velocity_filter=P["velocity_filter"](low=0.001, high=0.1))
    log = torqued(sim)
    speed = log["joint_vel"]
    early = dataclasses.replace(speed, t=speed.t[:50], values=speed.values[:50])
    log = Log(channels=(*log.u, log["joint_pos"], early), robot=log.robot)
    replay = sim.replay(log, {"velocity_filter": np.array([0.002, 0.01])}, start=float(speed.t[100]), noise=noise)
    assert replay.values["joint_vel"].shape == (2, 0, 1)
    assert np.isfinite(replay.values["joint_pos"]).all()


def test_two_encoders_keep_their_own_delays(tmp_path):
    bodies = WHEEL + WHEEL.replace("wheel", "other")
    both = ENCODER.replace('".*"', '"wheel"') + ENCODER.replace('".*"', '"other"').replace(
        '"encoder"\nof', '"second"\nof'
    )
    params = {
        "fast": P["sensor_delay"]("encoder", low=0, high=0.01),
        "slow": P["sensor_delay"]("second", low=0, high=0.05),
    }
    sim = wheel(tmp_path, bodies=bodies, sensors=both, **params)
    sim.apply({"fast": 0.002, "slow": 0.0317})
    sim.reset(qvel=np.array([2.0, 3.0]))
    for _ in range(20):
        sim.step(np.zeros(2))
    exact = np.array([2.0 * (0.1 - 0.002), 3.0 * (0.1 - 0.0317)])
    assert sim.sense()["joint_pos"] == pytest.approx(np.tile(exact, (3, 1)), abs=1e-12)


def test_joint_torque_holds_a_pendulum(tmp_path):
    sim = wheel(tmp_path, bodies=PENDULUM, motor=PD, sensors=ENCODER + TORQUE + "noise = 0.5\n")
    sim.reset(qpos=np.array([0.6]))
    for _ in range(500):
        sim.step(np.array([0.6]))
    hold = 0.5 * 9.81 * 0.3 * np.sin(sim.truth()["joint_pos"])
    assert sim.sense()["joint_torque"] == pytest.approx(hold, rel=1e-6)


def test_motor_torque_noise_has_its_spread(tmp_path):
    sim = wheel(tmp_path, worlds=2000, noise=True, sensors=ENCODER + TORQUE + "noise = 0.5\n")
    assert readings(sim, 5, "joint_torque").std() == pytest.approx(0.5, rel=0.03)


# -------------------------------------------------------------------- age of readings


def test_delayed_reading_is_the_true_state_of_that_time(tmp_path):
    delay = np.array([0.0, 0.00037, 0.001, 0.0126, 0.03])
    sim = wheel(tmp_path, bodies=PENDULUM, worlds=5, sensor_delay=P["sensor_delay"](low=0, high=0.03))
    fine = Sim(rig(tmp_path / "fine", PENDULUM, motor=FREE, period=0.001), Params(), noise=False)
    fine.reset(qpos=np.array([0.9]))
    t, true = [0.0], [0.9]
    for k in range(400):
        fine.step(np.zeros(1))
        t.append((k + 1) * 0.001)
        true.append(fine.truth()["joint_pos"][0, 0])
    sim.apply({"sensor_delay": delay})
    sim.reset(qpos=np.array([0.9]))
    for k in range(80):
        sim.step(np.zeros(1))
        at = (k + 1) * 0.005 - delay
        assert sim.sense()["joint_pos"][:, 0] == pytest.approx(np.interp(at, t, true), abs=1e-9)


def test_delayed_reading_of_a_smooth_motion_matches_its_closed_form(tmp_path):
    delay = np.array([0.0004, 0.0126, 0.03])
    robot = rig(tmp_path, WHEEL, motor=PD.replace("kd = 4.0", "kd = 0.0").replace("400", "1"), dt=0.0001, period=0.005)
    sim = Sim(robot, Params(sensor_delay=P["sensor_delay"](low=0, high=0.03)), noise=False, worlds=3)
    sim.apply({"sensor_delay": delay})
    sim.reset(qpos=np.array([0.1]))
    w = np.sqrt(1.0 / 0.04)
    lead = 0.5 * 0.0001 * w**2 * 0.1  # the engine's first half step, a phase and no frequency
    for k in range(60):
        sim.step(np.zeros(1))
        t = (k + 1) * 0.005 - delay
        exact = np.where(t > 0, 0.1 * np.cos(w * t) - lead / w * np.sin(w * t), 0.1)
        assert sim.sense()["joint_pos"][:, 0] == pytest.approx(exact, abs=1e-6)


def test_delay_does_not_look_across_a_reset(tmp_path):
    sim = wheel(tmp_path, sensor_delay=P["sensor_delay"](low=0, high=0.03))
    sim.apply({"sensor_delay": 0.03})
    sim.reset(qvel=np.array([1.0]))
    for _ in range(20):
        sim.step(np.zeros(1))
    sim.reset([1], qpos=np.array([0.5]))
    assert sim.sense()["joint_pos"][:, 0] == pytest.approx([0.07, 0.5, 0.07])
    sim.step(np.zeros(1))
    assert sim.sense()["joint_pos"][:, 0] == pytest.approx([0.075, 0.5, 0.075])


def test_sensors_of_one_robot_have_their_own_delays():
    robot, delays = load("go2"), {"encoders": 0.0042, "imu": 0.0151}
    fine = Sim(dataclasses.replace(robot, control_dt=robot.timestep), Params(), noise=False)
    params = {name: P["sensor_delay"](name, low=0, high=0.02) for name in delays}
    sim = Sim(robot, Params(**params, quantum=P["encoder_quantum"](low=0, high=1)), worlds=2, noise=False)
    sim.apply({**delays, "quantum": 0.0})
    sim.reset()
    t, q, rate, rng = [0.0], [fine.truth()["joint_pos"][0]], [np.zeros(3)], np.random.default_rng(0)
    for _ in range(25):
        u = sim.rest_command + 0.1 * rng.normal(size=12)
        sim.step(u)
        for _ in range(sim.substeps):
            fine.step(u)
            t.append(fine.time[0])
            q.append(fine.truth()["joint_pos"][0])
            rate.append(fine.truth()["base_gyro_true"][0])
        y = sim.sense()
        for world in range(2):
            for column in range(12):
                angle = np.interp(sim.time[0] - 0.0042, t, np.array(q)[:, column])
                assert y["joint_pos"][world, column] == pytest.approx(angle, abs=1e-9)
            for column in range(3):
                turned = np.interp(sim.time[0] - 0.0151, t, np.array(rate)[:, column])
                assert y["gyro"][world, column] == pytest.approx(turned, abs=1e-9)


def test_jitter_makes_readings_older_by_a_uniform_time(tmp_path):
    sim = wheel(
        tmp_path,
        worlds=500,
        noise=True,
        sensor_delay=P["sensor_delay"](low=0, high=0.01),
        sensor_jitter=P["sensor_jitter"](low=0, high=0.02),
    )
    sim.apply({"sensor_delay": 0.01, "sensor_jitter": 0.02})
    sim.reset(qvel=np.array([1.0]))
    for _ in range(10):
        sim.step(np.zeros(1))
    age = []
    for _ in range(20):
        sim.step(np.zeros(1))
        age.append(sim.truth()["joint_pos"][:, 0] - sim.sense()["joint_pos"][:, 0])
    age = np.array(age) - 0.01
    assert age.min() >= -1e-9
    assert age.max() <= 0.02 + 1e-9
    assert age.mean() == pytest.approx(0.01, abs=4 * 0.02 / np.sqrt(12 * age.size))
    assert age.std() == pytest.approx(0.02 / np.sqrt(12), rel=0.03)


def test_dropout_repeats_readings_at_its_rate(tmp_path):
    sim = wheel(tmp_path, worlds=1000, noise=True, sensor_dropout=P["sensor_dropout"](low=0, high=1))
    sim.apply({"sensor_dropout": np.repeat([0.0, 0.1, 0.5, 1.0], 250)})
    sim.reset(qvel=np.array([1.0]))
    q = np.concatenate([sim.sense()["joint_pos"][None], readings(sim, 40, "joint_pos")])[..., 0]
    repeats = (np.diff(q, axis=0) == 0).reshape(40, 4, 250).mean(axis=(0, 2))
    assert repeats[[0, 3]] == pytest.approx([0.0, 1.0])
    assert repeats[[1, 2]] == pytest.approx([0.1, 0.5], abs=0.02)
    fresh = np.diff(q, axis=0) != 0
    true = np.arange(1, 41)[:, None] * 0.005
    assert np.abs((q[1:] - true)[fresh]).max() < 1e-9  # what is not lost is not late


@pytest.mark.parametrize("noise", [False, True])
def test_a_slow_sensor_holds_its_samples(tmp_path, noise):
    sim = wheel(
        tmp_path,
        noise=noise,
        sensor_period=P["sensor_period"](low=0, high=0.05),
        encoder_noise=P["encoder_noise"](low=0, high=1),
    )
    period = np.array([0.0, 0.02, 0.012])
    sim.apply({"sensor_period": period, "encoder_noise": 1e-3})
    sim.reset(qvel=np.array([1.0]))
    sim.sense()
    q = readings(sim, 60, "joint_pos")[..., 0]
    t = np.arange(1, 61)[:, None] * 0.005
    sampled = np.where(period > 0, np.floor(t / np.where(period > 0, period, 1) + 1e-6) * period, t)
    assert np.abs(q - sampled).max() < (0.006 if noise else 1e-9)
    same = np.diff(sampled[:, 1:], axis=0) == 0
    assert (np.diff(q[:, 1:], axis=0)[same] == 0).all()  # noise is held with the sample
    assert (np.diff(q, axis=0)[:, 0] != 0).all()


# -------------------------------------------------------------------- forces


def test_force_noise_and_drift_are_in_foot_forces():
    params = Params(
        noise=P["force_noise"](low=0, high=20),
        drift=P["force_drift"](low=-1, high=1),
        t=P["temperature"](low=0, high=60),
    )
    sim = Sim(load("go2"), params, worlds=400, seed=1)
    clean = sim.sense(noisy=False)["foot_force"]
    sim.apply({"noise": 3.0, "drift": 0.4, "t": np.repeat([25.0, 45.0], 200)})
    y = sim.sense()["foot_force"] - clean
    assert y[:200].mean() == pytest.approx(0.0, abs=0.4)
    assert y[200:].mean() == pytest.approx(0.4 * 20, abs=0.4)
    assert y[:200].std() == pytest.approx(3.0, rel=0.08)


def test_wrench_sensor_carries_the_weight_beyond_it(tmp_path):
    wrist = PENDULUM.replace("</body>", '<site name="wrist" pos="0 0 0"/></body>')
    sensors = ENCODER + '[[sensors]]\nkind = "wrench"\nname = "wrench"\nsite = "wrist"\nrate = 100.0\n'
    sim = wheel(
        tmp_path,
        bodies=wrist,
        motor=PD,
        sensors=sensors,
        drift=P["force_drift"](low=-1, high=1),
        t=P["temperature"](low=0, high=60),
    )
    sim.reset(qpos=np.array([0.6]))
    for _ in range(500):
        sim.step(np.array([0.6]))
    w, q = sim.sense()["wrench"][0], sim.truth()["joint_pos"][0, 0]
    weight = 0.5 * 9.81
    assert np.abs(w[:3]) == pytest.approx([weight * np.sin(q), 0.0, weight * np.cos(q)], abs=1e-3)
    assert np.abs(w[3:]) == pytest.approx([0.0, 0.3 * weight * np.sin(q), 0.0], abs=1e-3)
    sim.apply({"drift": 0.4, "t": 45.0})
    assert sim.sense()["wrench"][0] - w == pytest.approx([8.0] * 3 + [0.0] * 3)


# -------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("kind", ["gyro_noise", "accel_bias", "imu_mounting", "force_noise", "force_drift"])
def test_errors_of_a_sensor_the_robot_lacks_are_refused(kind):
    with pytest.raises(InputError, match="has no sensor of kind"):
        Sim(load("servo"), Params(x=P[kind](low=0, high=0.1)))


def test_a_seed_that_cannot_be_a_key_is_refused(tmp_path):
    with pytest.raises(InputError, match="seed=-1 must be"):
        wheel(tmp_path, seed=-1)


def test_channels_that_are_asked_for_alone_have_the_same_bits():
    sims = [Sim(load("go2"), worlds=5, seed=4) for _ in range(2)]
    e = sims[0].params.prior().sample(5, 1)
    for sim in sims:
        sim.apply(e)
        sim.reset()
    for k in range(6):
        for sim in sims:
            sim.step(sim.rest_command + 0.1 * np.sin(k))
        whole, part = sims[0].sense(), sims[1].sense(only=("gyro", "joint_vel", "gravity"))
        assert "accel" not in part
        assert "foot_force" not in part
        assert {"gyro", "joint_vel", "gravity"} <= set(part)
        for name, value in part.items():
            assert np.array_equal(value, whole[name]), name
