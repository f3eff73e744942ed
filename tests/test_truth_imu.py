"""Truth tests of the IMU: every error is planted alone and found again, noise densities by their Allan deviation."""

import numpy as np
import pytest

from rigs import BODY, ENCODER, IMU, WHEEL, readings, rig
from surefoot.errors import InputError
from surefoot.logs.allan import allan_deviation, white_and_walk
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import Params
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.sim.sensors import rotation_vector_matrix

FREE = 'model = "torque"\n'
FLYING = 'base = "base"\nimu = "imu"\nheight = 1.0'
NO_COMMAND = np.zeros(0)


def flyer(
    folder, *, place="", worlds=3, noise=False, seed=0, gravity=9.81, dt=0.001, period=0.01, sensors=IMU, **params
):
    robot = rig(folder, BODY.format(place=place), sensors=sensors, more=FLYING, gravity=gravity, dt=dt, period=period)
    return Sim(robot, Params(**params), worlds=worlds, noise=noise, seed=seed)


def spun(sim, rates, quat=(1.0, 0.0, 0.0, 0.0)):
    """Reset free bodies to an attitude and a turning rate."""
    sim.reset(qpos=np.array([0, 0, 1.0, *quat]), qvel=np.array([0, 0, 0, *rates]))


# -------------------------------------------------------------------- what it reads

RATES = np.array([0.3, -0.7, 0.5])


def test_accelerometer_reads_nothing_in_free_fall(tmp_path):
    sim = flyer(tmp_path)
    assert np.abs(readings(sim, 5, "accel")).max() < 1e-12


def test_accelerometer_reads_centripetal_acceleration_away_from_the_centre(tmp_path):
    sim = flyer(tmp_path, place='pos="0.1 0 0.02"')
    spun(sim, (0.0, 0.0, 5.0))
    exact = np.array([-(5.0**2) * 0.1, 0.0, 0.0])
    assert sim.sense()["accel"] == pytest.approx(np.tile(exact, (3, 1)), abs=1e-9)
    sim.step(NO_COMMAND)
    assert sim.sense()["accel"] == pytest.approx(np.tile(exact, (3, 1)), abs=1e-9)


def test_imu_on_a_link_of_a_bolted_robot_reads_gravity_rates_and_attitude(tmp_path):
    body = WHEEL.replace("</body>", '<site name="imu" pos="0.1 0 0" euler="0.3 -0.2 0.5"/></body>')
    robot = rig(tmp_path, body, motor=FREE, sensors=ENCODER + IMU, more='imu = "imu"')
    sim = Sim(robot, Params(), worlds=2, noise=False)
    sim.reset(qvel=np.array([4.0]))
    assert sim.sense()["accel"] == pytest.approx(np.tile([-1.6, 0.0, 9.81], (2, 1)), abs=1e-9)
    for _ in range(10):
        sim.step(np.zeros(1))
    y = sim.sense()
    assert y["gyro"] == pytest.approx(np.tile([0.0, 0.0, 4.0], (2, 1)), abs=1e-12)
    assert y["gravity"] == pytest.approx(np.tile([0.0, 0.0, -1.0], (2, 1)), abs=1e-12)
    angle = 4.0 * (0.05 - 0.001)  # native readings belong to the start of the last substep
    assert y["quat"] == pytest.approx(np.tile([np.cos(angle / 2), 0, 0, np.sin(angle / 2)], (2, 1)), abs=1e-9)


def test_a_suspended_quadruped_feels_gravity_from_its_first_reading():
    sim = Sim(load("go2").suspended(), Params(), worlds=2, noise=False)
    y = sim.sense()
    assert y["accel"] == pytest.approx(np.tile([0.0, 0.0, 9.81], (2, 1)), abs=1e-9)
    assert y["gravity"] == pytest.approx(np.tile([0.0, 0.0, -1.0], (2, 1)))
    assert np.abs(y["gyro"]).max() == 0.0


@pytest.mark.parametrize("place", ["", 'quat="0.8 0.2 -0.3 0.5"'])
@pytest.mark.parametrize("name", ["gyro", "accel"])
def test_triads_show_bias_scale_and_misalignment(tmp_path, name, place):
    sim = flyer(
        tmp_path,
        place='pos="0.1 0 0.05" ' + place,
        bias=P[f"{name}_bias"](low=-1, high=1),
        scale=P[f"{name}_scale"](low=-0.5, high=1),
        misalignment=P[f"{name}_misalignment"](low=-1, high=1),
    )
    spun(sim, RATES)
    true = sim.sense()[name][0]
    bias, scale, tilt = np.array([0.1, -0.2, 0.3]), np.array([0.02, -0.05, 0.1]), np.array([0.02, 0.05, -0.03])
    S = np.eye(3)
    if place:
        w = np.array([0.8, 0.2, -0.3, 0.5])
        w /= np.linalg.norm(w)
        half = np.arccos(w[0])
        S = rotation_vector_matrix(2 * half * w[1:] / np.sin(half))
    turned = S @ rotation_vector_matrix(tilt).T @ S.T @ true
    for e, exact in (
        ({"bias": bias, "scale": 0.0, "misalignment": 0.0}, true + bias),
        ({"bias": 0.0, "scale": scale, "misalignment": 0.0}, true * (1 + scale)),
        ({"bias": 0.0, "scale": 0.0, "misalignment": tilt}, turned),
    ):
        sim.apply({k: np.tile(v, (3, 1)) if np.ndim(v) else v for k, v in e.items()})
        assert sim.sense()[name] == pytest.approx(np.tile(exact, (3, 1)), abs=1e-12)


def test_mounting_turns_rates_forces_and_attitude_together(tmp_path):
    sim = flyer(tmp_path, place='pos="0.1 0 0.05"', imu_mounting=P["imu_mounting"](low=-2, high=2))
    quat = np.array([0.9, 0.1, -0.3, 0.2])
    spun(sim, RATES, quat / np.linalg.norm(quat))
    true = {k: v[0] for k, v in sim.sense().items()}
    turn = np.array([0.2, -0.4, 0.1])
    R = rotation_vector_matrix(turn)
    sim.apply({"imu_mounting": np.tile(turn, (3, 1))})
    y = sim.sense()
    for name in ("gyro", "accel", "gravity"):
        assert y[name] == pytest.approx(np.tile(R.T @ true[name], (3, 1)), abs=1e-12)
    assert y["gravity"][0] == pytest.approx(matrix(y["quat"][0]).T @ [0, 0, -1], abs=1e-12)
    assert matrix(y["quat"][0]) == pytest.approx(matrix(true["quat"]) @ R, abs=1e-12)


def matrix(q):
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_attitude_is_the_integral_of_the_gyro_whatever_the_mounting(tmp_path):
    sim = flyer(tmp_path, imu_mounting=P["imu_mounting"](low=-2, high=2), gravity=0.0)
    sim.apply({"imu_mounting": np.tile([0.2, -0.4, 0.1], (3, 1))})
    spun(sim, RATES)
    R = matrix(sim.sense()["quat"][0])
    for _ in range(100):
        sim.step(NO_COMMAND)
        R = R @ rotation_vector_matrix(sim.sense()["gyro"][0] * 0.01)
    assert matrix(sim.sense()["quat"][0]) == pytest.approx(R, abs=1e-6)


def test_standing_go2_weighs_what_it_weighs():
    sim = Sim(load("go2"), Params(), worlds=2, noise=False)
    for _ in range(150):
        sim.step(sim.rest_command)
    y, weight = sim.sense(), 9.81 * sim.model.body_mass.sum()
    assert y["foot_force"].sum(1) == pytest.approx(weight, rel=2e-3)
    assert y["accel"] == pytest.approx(-9.81 * y["gravity"], abs=0.02)
    assert np.abs(y["gyro"]).max() < 0.01


def test_readings_do_not_change_when_the_sim_goes_on(tmp_path):
    sim = flyer(tmp_path, place='pos="0.1 0 0.05"')
    spun(sim, RATES)
    y, x = sim.sense(), sim.truth()
    kept = {k: v.copy() for k, v in {**y, **{f"true {k}": v for k, v in x.items()}}.items()}
    for _ in range(5):
        sim.step(NO_COMMAND)
    for name, value in {**y, **{f"true {k}": v for k, v in x.items()}}.items():
        assert (value == kept[name]).all(), name


# -------------------------------------------------------------------- noise densities


def test_allan_deviation_of_white_noise_and_of_a_walk_have_their_slopes():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(4000, 40))
    lengths = np.array([1, 4, 16, 64])
    assert allan_deviation(y, 0.01, lengths) == pytest.approx(1 / np.sqrt(lengths), rel=0.03)
    walk = np.cumsum(y, axis=0)
    assert allan_deviation(walk, 0.01, lengths) == pytest.approx(
        np.sqrt((2 * lengths**2 + 1) / (6 * lengths)), rel=0.05
    )
    with pytest.raises(InputError, match="averaging time"):
        allan_deviation(y, 0.01, np.array([3000]))


@pytest.mark.slow
@pytest.mark.parametrize("period", [0.0, 0.04])
@pytest.mark.parametrize("name", ["gyro", "accel"])
def test_allan_figures_of_a_static_recording_are_those_of_e(tmp_path, name, period):
    sim = flyer(
        tmp_path,
        worlds=256,
        noise=True,
        dt=0.02,
        period=0.02,
        gravity=0.0,
        noise_density=P[f"{name}_noise"](low=0, high=1),
        walk=P[f"{name}_walk"](low=0, high=1),
        sensor_period=P["sensor_period"](low=0, high=0.05),
    )
    N, K = 0.003, 0.0025
    sim.apply({"noise_density": N, "walk": K, "sensor_period": period})
    sim.reset()
    y = readings(sim, 1500, name).reshape(1500, -1)
    stride = 1 if period == 0.0 else 2
    found = white_and_walk(y[1::stride], 0.02 * stride)
    assert found == pytest.approx((N, K), rel=0.03)


def test_walk_starts_at_zero_after_a_reset(tmp_path):
    sim = flyer(tmp_path, noise=True, gyro_walk=P["gyro_walk"](low=0, high=1))
    sim.apply({"gyro_walk": 0.5})
    sim.reset()
    readings(sim, 50, "gyro")
    before = sim.sense()["gyro"]
    sim.reset([1])
    after = sim.sense()["gyro"]
    assert np.abs(after[1]).max() == 0.0
    assert (after[[0, 2]] == before[[0, 2]]).all()


# -------------------------------------------------------------------- keys of the noise

NOISY = {
    "gyro_noise": P["gyro_noise"](low=0, high=1), "accel_noise": P["accel_noise"](low=0, high=1),
    "gyro_walk": P["gyro_walk"](low=0, high=1), "accel_walk": P["accel_walk"](low=0, high=1),
}  # fmt: skip


def noisy_run(folder, worlds, seed, steps=12):
    sim = flyer(folder, worlds=worlds, noise=True, seed=seed, gravity=0.0, **NOISY)
    sim.apply(dict.fromkeys(NOISY, 0.1))
    sim.reset()
    out = []
    for _ in range(steps):
        sim.step(NO_COMMAND)
        y = sim.sense()
        out.append(np.concatenate([y["gyro"], y["accel"]], axis=1))
    return np.array(out)


def test_a_worlds_noise_does_not_depend_on_how_many_worlds_there_are(tmp_path):
    few, many = noisy_run(tmp_path / "a", 4, 7), noisy_run(tmp_path / "b", 64, 7)
    assert (few[:, 3] == many[:, 3]).all()
    assert (few == many[:, :4]).all()


def test_seeds_worlds_steps_and_streams_have_independent_noise(tmp_path):
    one, two = noisy_run(tmp_path / "a", 300, 7), noisy_run(tmp_path / "b", 300, 8)
    y = one[2:] - one[1:-1]

    def correlation(a, b):
        return abs(np.corrcoef(a.ravel(), b.ravel())[0, 1])

    assert correlation(y, two[2:] - two[1:-1]) < 0.02  # seeds
    assert correlation(y[:, :-1], y[:, 1:]) < 0.02  # worlds
    assert correlation(y[..., :3], y[..., 3:]) < 0.02  # streams
    assert correlation(y[:-2], y[2:]) < 0.02  # steps


def test_the_same_seed_gives_the_same_noise(tmp_path):
    assert (noisy_run(tmp_path / "a", 4, 7) == noisy_run(tmp_path / "b", 4, 7)).all()
