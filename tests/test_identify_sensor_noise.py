"""Sensor noise from recordings at rest: planted white noise, walks and quanta come back; two halves of a real one agree."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.identify.rest import noise_at_rest, stretches_of_rest
from surefoot.identify.sensor_noise import fit_encoder_noise, fit_imu_noise, fit_sensor_noise
from surefoot.identify.sensor_scale import accel_scale, gyro_scale
from surefoot.logs import Channel, Log, read_logs
from surefoot.sim.record import Recording

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
    assert not found.quantum.any()


@pytest.mark.parametrize("parts", [(60.0,), (30.0, *[6.0] * 8)], ids=["one stretch", "nine stretches"])
def test_intervals_hold_the_truth_about_as_often_as_they_say_and_are_no_wider_than_they_must(parts):
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pieces = [
            part for i, s in enumerate(parts) for part in (still(s, 50 * seed + i), rng.standard_normal((200, 3)))
        ]
        found.append(noise_at_rest(Log(channels=(channel("gyro", "rad/s", np.concatenate(pieces[:-1])),)), "gyro"))
    for name, truth in (("white", WHITE), ("walk", WALK)):
        values = np.array([getattr(n, name) for n in found])
        ends = np.array([getattr(n, f"{name}_interval") for n in found])
        assert 14 <= ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum() <= 20
        assert np.median(np.diff(ends, axis=1)) < 6 * values.std(), "3.3 would be that of a normal whose width is known"
        assert abs(values.mean() - truth) < 3 * values.std() / np.sqrt(20)


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
    assert list(fit.params) == ["gyro_noise", "gyro_walk", "accel_noise", "accel_walk"]
    assert fit.params["gyro_noise"].low < WHITE < fit.params["gyro_noise"].high
    assert fit.e["accel_noise"][0] == pytest.approx(0.02, rel=0.1)
    low, high = fit.prior.interval(0.9)["gyro_noise"]
    assert low < WHITE < high
    for prior in (fit.prior, fit.samples):
        assert prior is not None
        sim = sf.Sim(sf.load("go2"), prior.params, worlds=5)
        drawn = prior.sample(5, 0)
        sim.apply(drawn)
        for name, values in drawn.items():
            np.testing.assert_allclose(sim.e[name], values)


@pytest.mark.parametrize("walk", [0.0, 3e-4])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_is_not_identified_is_named_with_what_it_is_at_most(seed, walk):
    """A walk too small for a minute: an upper limit in table and prior, above the truth, below what a minute would show."""
    fit = fit_imu_noise(Log(channels=(channel("accel", "m/s^2", still(60.0, seed, white=0.02, walk=walk)),)))
    most = fit.figures["accel_walk"].interval[1]
    assert fit.at_most == {"accel_walk": most}
    assert walk <= most < 0.01
    assert f"at most {most:.2g}" in str(fit)
    assert "not identified" in str(fit)
    drawn = fit.prior.sample(500, 0)["accel_walk"]
    assert drawn.max() <= most
    assert np.median(drawn) == pytest.approx(0.5 * most, rel=0.1)


def test_every_axis_may_have_its_own_scale():
    factors = np.array([2.0e-4, 2.5e-4, 1.0e-4])
    counts = still(60.0, 5, walk=0.0) / factors
    log = Log(channels=(channel("gyro_raw", "count", counts),))
    fit = fit_imu_noise(log, {"gyro": "gyro_raw"}, scales={"gyro": factors})
    same = fit_imu_noise(Log(channels=(channel("gyro", "rad/s", counts * factors),)))
    assert fit.e["gyro_noise"][0] == pytest.approx(WHITE, rel=0.02)
    assert fit.e["gyro_noise"][0] == pytest.approx(same.e["gyro_noise"][0], rel=1e-9)
    assert fit.noises["gyro"].unit == "rad/s"
    with pytest.raises(InputError, match="one for each of its 3 columns"):
        fit_imu_noise(log, {"gyro": "gyro_raw"}, scales={"gyro": np.ones(2)})


def test_samples_show_how_noise_differs_from_time_to_time_in_all_sensors_at_once():
    """Calm and shaken times of 4 s in both sensors; the accelerometer also rests while the gyro turns, the gyro loses samples."""
    rng = np.random.default_rng(11)
    blocks, n, calm, shaken = 40, 400, 1.0, 1.9
    level = np.where(rng.random(blocks) < 0.5, calm, shaken)
    level[-4:] = calm
    level = np.repeat(level, n)[:, None]
    gyro, accel = (w / np.sqrt(DT) * level * rng.standard_normal((blocks * n, 3)) for w in (WHITE, 10 * WHITE))
    before = 3000  # samples in which only the accelerometer is at rest
    gyro = np.concatenate([2.0 * rng.standard_normal((before, 3)), gyro])
    accel = np.concatenate([10 * WHITE / np.sqrt(DT) * rng.standard_normal((before, 3)), accel])
    kept = rng.random(len(gyro)) > 0.1
    t = DT * np.arange(len(gyro))
    axes = ("x", "y", "z")
    log = Log(channels=(
        Channel(name="gyro", unit="rad/s", t=t[kept], values=gyro[kept], columns=axes),
        Channel(name="accel", unit="m/s^2", t=t, values=accel, columns=axes),
    ))  # fmt: skip
    fit = fit_imu_noise(log)
    assert fit.samples is not None
    assert fit.blocks > 60
    rows = fit.samples.sample(4000, 0)
    a, b = rows["gyro_noise"], rows["accel_noise"]
    assert np.corrcoef(a, b)[0, 1] > 0.9, "paired by time"
    share = (level == shaken).mean()
    for values, white in ((a, WHITE), (b, 10 * WHITE)):
        high = values > 1.45 * white
        assert high.mean() == pytest.approx(share, abs=0.08)
        assert np.median(values[~high]) == pytest.approx(calm * white, rel=0.04)
        assert np.median(values[high]) == pytest.approx(shaken * white, rel=0.04)
    assert fit.prior.sample(4000, 0)["gyro_noise"].std() < 0.3 * a.std(), "one value for all time cannot show it"
    assert "steady white noise would by" in fit.remarks[-1]


def test_without_enough_blocks_there_are_no_samples_and_it_is_said_why():
    log = Log(channels=(channel("gyro", "rad/s", still(30.0, 5)),))
    fit = fit_imu_noise(log)
    assert fit.samples is None
    assert "no samples: 15 blocks of 2 s with gyro at rest are too few to draw from, 20 are needed" in str(fit)
    other = Channel(
        name="accel", unit="m/s^2", t=DT * np.arange(9000), values=still(90.0, 6), columns=("x", "y", "z"), clock="imu"
    )
    fit = fit_imu_noise(Log(channels=(channel("gyro", "rad/s", still(90.0, 5)), other)))
    assert fit.samples is None
    assert "clocks imu, robot: align them first" in str(fit)


def test_what_a_sim_draws_from_the_fit_is_what_it_was_fitted_to():
    """A robot on a stand with known noise is recorded; the fit gives the figures back, in the Sim's own units."""
    truth = {"gyro_noise": 1e-3, "gyro_walk": 5e-4, "accel_noise": 8e-3, "encoder_noise": 2e-4}
    log = at_rest(truth)
    fit = fit_sensor_noise([log.window(0.0, 20.0), log.window(20.0, 40.0)])
    for name, value in truth.items():
        low, high = fit.figures[name].interval
        assert low - 0.5 * (high - low) < value < high + 0.5 * (high - low)
    for name in ("gyro_noise", "accel_noise", "encoder_noise"):
        assert fit.e[name][0] == pytest.approx(truth[name], rel=0.05)
    assert fit.e["encoder_quantum"][0] == pytest.approx(3e-5)
    assert fit.params["encoder_noise"].of == sf.load("go2").joints


def at_rest(e: dict[str, float], seconds: float = 40.0, seed: int = 0) -> Log:
    """Go2 on a stand, holding its pose, with known noise."""
    params = sf.Params(**{name: sf.Param(kind=name, low=0.0, high=1.0) for name in e})
    sim = sf.Sim(sf.load("go2").suspended(), params, seed=seed)
    sim.apply({name: np.array([value]) for name, value in e.items()})
    sim.reset()
    for _ in range(200):
        sim.step(sim.rest_command)
    recording = Recording(sim)
    for _ in range(round(seconds / sim.control_dt)):
        recording.add(sim.sense(), sim.rest_command)
        sim.step(sim.rest_command)
    log = recording.log()
    return Log(channels=log.channels, robot="go2")


def test_encoder_noise_and_quantum_are_recovered():
    rng = np.random.default_rng(7)
    quantum, sigma = 0.001, 0.002
    values = quantum * np.round((0.4 + sigma * rng.standard_normal((4000, 2))) / quantum)
    log = Log(channels=(channel("joint_pos", "rad", values, ("a", "b")),))
    fit = fit_encoder_noise(log)
    assert fit.e["encoder_quantum"][0] == pytest.approx(quantum, rel=1e-6)
    assert fit.e["encoder_noise"][0] == pytest.approx(sigma, rel=0.05)
    assert fit.params["encoder_noise"].of == ("a", "b")
    steps = Log(channels=(channel("joint_pos", "rad", np.tile([[0.1, 0.2]], (4000, 1)), ("a", "b")),))
    with pytest.raises(InputError, match="neither noise nor steps"):
        fit_encoder_noise(steps)


@pytest.mark.parametrize("place", [0.0, 0.2, 0.5])
def test_noise_below_half_a_step_of_an_encoder_is_only_bounded(place):
    """A joint near the edge between two steps hops by a whole step, however small the noise."""
    rng = np.random.default_rng(7)
    quantum, sigma = 0.001, 0.0002
    angle = (400 + place) * quantum + sigma * rng.standard_normal((4000, 2))
    angle[:300] += 0.05 * np.sin(np.linspace(0, 6, 300))[:, None]  # motion, which shows the steps
    log = Log(channels=(channel("joint_pos", "rad", quantum * np.round(angle / quantum), ("a", "b")),))
    fit = fit_encoder_noise(log)
    assert fit.e["encoder_quantum"][0] == pytest.approx(quantum, rel=1e-6)
    assert fit.noises["encoder"].seconds > 30, "readings that hop are at rest"
    assert fit.at_most == {"encoder_noise": pytest.approx(quantum / 2)}
    assert sigma < fit.at_most["encoder_noise"]


def test_encoders_in_other_units_have_noise_of_their_own():
    rng = np.random.default_rng(7)
    values = np.array([2e-5, 5e-4]) * rng.standard_normal((6000, 2))
    units = Channel(name="joint_pos", unit="m, rad", t=DT * np.arange(6000), values=values, columns=("slider", "hinge"))
    fit = fit_encoder_noise(Log(channels=(units,)))
    assert fit.e["encoder_noise_m"][0] == pytest.approx(2e-5, rel=0.05)
    assert fit.e["encoder_noise_rad"][0] == pytest.approx(5e-4, rel=0.05)
    sim = sf.Sim(sf.load("cartpole"), fit.params)
    sim.apply(fit.prior.sample(1, 0))
    assert sim.physics.tables["encoder_noise"][0] == pytest.approx([2e-5, 5e-4], rel=0.1)


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
    shaken = Log(channels=(channel("gyro", "rad/s", np.random.default_rng(3).standard_normal((6000, 3))),))
    with pytest.raises(InputError, match=r"the calmest part of 'gyro' still moves by 0\.99 rad/s"):
        fit_imu_noise(shaken)
    calm = Log(channels=(channel("gyro", "rad/s", still(20.0, 9)),))
    slow = Channel(name="gyro", unit="rad/s", t=0.02 * np.arange(2000), values=still(20.0, 9), columns=("x", "y", "z"))
    with pytest.raises(InputError, match=r"sampled every 0\.01 s in one log and every 0\.02 s in another"):
        fit_imu_noise([calm, Log(channels=(slow,))])
    never = Log(channels=(channel("gyro", "rad/s", np.repeat([0.0, 1.0], 60)[:, None] * np.ones(3)),))
    with pytest.raises(InputError, match="are needed to tell rest"):
        fit_imu_noise([calm, never])
    with pytest.raises(InputError, match="did you mean 'accel'"):
        fit_imu_noise(calm, {"acel": "gyro"})
    with pytest.raises(InputError, match="none of gyro, accel, joint_pos"):
        fit_sensor_noise(raw)
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
        assert (a.quantum == 1.0).all()
        assert (b.quantum == 1.0).all()
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
    scales = {"accel": accel.factor, "gyro": gyro.factor}
    fit = fit_imu_noise(xsens, {"accel": "accel_raw", "gyro": "gyro_raw"}, scales=scales)
    assert 2e-4 < fit.e["gyro_noise"][0] < 2e-3
    assert 3e-4 < fit.e["accel_noise"][0] < 3e-3
    assert fit.blocks > 100
    assert fit.samples is not None
    drawn = fit.samples.sample(2000, 0)
    for name in ("gyro_noise", "accel_noise"):
        low, high = fit.figures[name].interval
        assert low < np.sqrt((drawn[name] ** 2).mean()) < high, "blocks scatter about the value of them all"
