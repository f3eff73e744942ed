"""Sensor noise from recordings at rest: planted white noise, walks and quanta come back; two halves of a real one agree."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.identify.sensor_noise import fit_encoder_noise, fit_imu_noise, noise_at_rest, stretches_of_rest
from surefoot.identify.sensor_scale import accel_scale, gyro_scale
from surefoot.logs import Channel, Log, read_logs

DT = 0.01
WHITE, WALK = 3e-3, 4e-3


def channel(name: str, unit: str, values: np.ndarray, columns=("x", "y", "z")) -> Channel:
    return Channel(name=name, unit=unit, t=DT * np.arange(len(values)), values=values, columns=columns)


def still(seconds: float, seed: int, *, white: float = WHITE, walk: float = WALK) -> np.ndarray:
    """White noise of density `white` and a bias that walks, three axes."""
    rng = np.random.default_rng(seed)
    n = int(seconds / DT)
    bias = np.cumsum(walk * np.sqrt(DT) * rng.standard_normal((n, 3)), axis=0)
    return white / np.sqrt(DT) * rng.standard_normal((n, 3)) + bias


def test_planted_white_noise_and_walk_are_recovered_within_their_intervals():
    log = Log(channels=(channel("gyro", "rad/s", still(300.0, 0)),))
    found = noise_at_rest(log, "gyro")
    assert found.white == pytest.approx(WHITE, rel=0.05)
    assert found.walk == pytest.approx(WALK, rel=0.4)
    assert found.white_interval[0] < found.white < found.white_interval[1]
    assert found.quantum == 0.0


def test_rest_is_found_between_motions():
    rng = np.random.default_rng(1)
    parts = [
        still(10.0, 2, walk=0.0),
        rng.standard_normal((300, 3)),
        still(8.0, 3, walk=0.0),
        rng.standard_normal((300, 3)),
    ]
    log = Log(channels=(channel("gyro", "rad/s", np.concatenate([*parts, still(6.0, 4, walk=0.0)])),))
    rests = stretches_of_rest(log, "gyro")
    assert [round(r.seconds) for r in rests] == pytest.approx([10, 8, 6], abs=1)
    found = noise_at_rest(log, "gyro")
    assert found.white == pytest.approx(WHITE, rel=0.1)
    assert found.stretches == 3


def test_imu_noise_becomes_params_that_a_sim_takes():
    log = Log(
        channels=(
            channel("gyro", "rad/s", still(120.0, 5)),
            channel("accel", "m/s^2", still(120.0, 6, white=0.02, walk=0.0)),
        )
    )
    fit = fit_imu_noise(log)
    assert fit.params["gyro_noise"].low < WHITE < fit.params["gyro_noise"].high
    assert fit.e["accel_noise"][0] == pytest.approx(0.02, rel=0.1)
    sim = sf.Sim(sf.load("go2"), sf.Params(**{n: fit.params[n] for n in ("gyro_noise", "accel_noise")}))
    sim.apply({n: fit.e[n] for n in ("gyro_noise", "accel_noise")})
    assert sim.e["gyro_noise"][0] == pytest.approx(fit.e["gyro_noise"][0])
    low, high = fit.prior.interval(0.9)["gyro_noise"]
    assert low < WHITE < high
    assert fit.samples.sample(5, 0)["gyro_noise"].shape == (5,)


def test_encoder_noise_and_quantum_are_recovered():
    rng = np.random.default_rng(7)
    quantum, sigma = 0.001, 0.002
    values = quantum * np.round((0.4 + sigma * rng.standard_normal((4000, 2))) / quantum)
    log = Log(channels=(channel("joint_pos", "rad", values, ("a", "b")),))
    fit = fit_encoder_noise(log)
    assert fit.e["encoder_quantum"][0] == pytest.approx(quantum, rel=1e-6)
    assert fit.e["encoder_noise"][0] == pytest.approx(sigma, rel=0.05)
    steps = Log(channels=(channel("joint_pos", "rad", np.tile([[0.1, 0.2]], (4000, 1)), ("a", "b")),))
    with pytest.raises(InputError, match="neither noise nor steps"):
        fit_encoder_noise(steps)


def test_what_is_missing_is_said():
    rng = np.random.default_rng(8)
    moving = 5 * np.sin(np.linspace(0, 300, 6000))[:, None] + rng.standard_normal((6000, 3))
    ramp = np.concatenate([moving * k for k in (1.0, 1.5, 2.0, 4.0)])
    log = Log(channels=(channel("gyro", "rad/s", ramp),))
    assert sum(r.seconds for r in stretches_of_rest(log, "gyro")) < 200
    with pytest.raises(InputError, match="are needed to tell rest"):
        stretches_of_rest(Log(channels=(channel("gyro", "rad/s", ramp[:20]),)), "gyro")
    with pytest.raises(InputError, match="neither gyro nor accel"):
        fit_imu_noise(Log(channels=(channel("joint_pos", "rad", ramp),)))
    raw = Log(channels=(channel("gyro_raw", "count", still(20.0, 9)),))
    with pytest.raises(InputError, match="is in counts: give scales"):
        fit_imu_noise(raw, {"gyro": "gyro_raw"})
    with pytest.raises(InputError, match="poses at rest cannot give"):
        accel_scale(Log(channels=(channel("accel_raw", "count", still(20.0, 9)),)))


@pytest.fixture(scope="module")
def xsens(data_dir):
    folder = data_dir / "imu_xsens"
    if not folder.is_dir():
        pytest.skip(f"no recordings at {folder}")
    return read_logs(folder, mapping="imu_xsens")[0]


def test_two_halves_of_a_real_recording_agree(xsens):
    """White noise of one half lies within 5 % of the other's, though poses and bias differ."""
    t = xsens["gyro_raw"].t
    middle = 0.5 * (t[0] + t[-1])
    for name in ("accel_raw", "gyro_raw"):
        a, b = (noise_at_rest(xsens.window(*span), name) for span in ((t[0], middle), (middle, t[-1])))
        assert a.white == pytest.approx(b.white, rel=0.05)
        assert a.quantum == b.quantum == 1.0
        assert a.stretches >= 10


@pytest.mark.slow
def test_a_real_imu_in_counts_is_scaled_by_gravity_and_turns(xsens):
    """Every pose shows g, every turn leads from one pose to the next, three like axes have like factors."""
    accel = accel_scale(xsens)
    gyro = gyro_scale(xsens, accel)
    assert accel.poses >= 30
    assert accel.residual < 0.06
    assert gyro.residual < 0.1
    for scale in (accel, gyro):
        assert np.ptp(scale.factor) < 0.03 * scale.factor.mean()
    scales = {"accel": float(accel.factor.mean()), "gyro": float(gyro.factor.mean())}
    fit = fit_imu_noise(xsens, {"accel": "accel_raw", "gyro": "gyro_raw"}, scales=scales)
    assert 2e-4 < fit.e["gyro_noise"][0] < 2e-3
    assert 3e-4 < fit.e["accel_noise"][0] < 3e-3
