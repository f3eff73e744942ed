"""Environment and process Params against closed forms, spectra, and the engine's own ray casting."""

import mujoco
import numpy as np
import pytest
from scipy.signal import welch

import surefoot as sf
from small_robots import BALL, FREE, PENDULUM, robot
from surefoot.sim.disturbances import AIR_DENSITY

G = 9.81
MASS = 2.0  # of the free body and the ball


@pytest.fixture
def free(tmp_path):
    """2 kg far above anything, its centre of mass off its origin."""
    return robot(tmp_path, FREE, base="body", height=100.0, ground=False, timestep=0.001)


@pytest.fixture
def point(tmp_path):
    """2 kg with their centre of mass in the origin."""
    body = FREE.replace('pos="0.1 -0.05 0.03"', 'pos="0 0 0"')
    return robot(tmp_path, body, base="body", height=100.0, ground=False, timestep=0.001)


def fly(sim: sf.Sim, seconds: float, **start) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times (T,), base positions and velocities (T, worlds, 3) after every control step."""
    sim.reset(**start)
    x, v = [], []
    for _ in range(round(seconds / sim.control_dt)):
        sim.step(sim.rest_command)
        x.append(np.array(sim.engine.qpos[:, :3]))
        v.append(np.array(sim.engine.qvel[:, :3]))
    return (np.arange(len(x)) + 1) * sim.control_dt, np.array(x), np.array(v)


# -------------------------------------------------------------------- gravity and slope


def test_things_fall_with_the_strength_of_gravity(point):
    sim = sf.Sim(point, sf.Params(g=sf.gravity(low=0, high=25)), worlds=4)
    g = np.array([0.0, 1.62, 9.81, 24.8])
    sim.apply({"g": g})
    t, x, v = fly(sim, 0.5)
    np.testing.assert_allclose(v[..., 2], -np.outer(t, g), atol=1e-9)
    np.testing.assert_allclose(
        x[..., 2], 100 - 0.5 * np.outer(t * (t + 0.001), g), atol=1e-9
    )  # the engine's sum over steps


def test_slopes_tilt_gravity_and_keep_its_strength(point):
    params = sf.Params(x=sf.slope(low=-1, high=1), y=sf.slope(low=-1, high=1, axis="y"), g=sf.gravity(low=1, high=20))
    sim = sf.Sim(point, params, worlds=5)
    e = {
        "x": np.array([0, 0.3, 0, -0.4, 0.5]),
        "y": np.array([0, 0, 0.3, 0.2, -0.5]),
        "g": np.array([9.81, 9.81, 3, 5, 12]),
    }
    sim.apply(e)
    t, _, v = fly(sim, 0.1)
    normal = np.stack([-np.tan(e["x"]), -np.tan(e["y"]), np.ones(5)], axis=1)  # of a ground that rises along +x and +y
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    up = normal * [-1, -1, 1]  # seen from the ground, the way up leans uphill
    np.testing.assert_allclose(v[-1] / t[-1], -e["g"][:, None] * up, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(v[-1], axis=1) / t[-1], e["g"], rtol=1e-12)


# -------------------------------------------------------------------- terrain


@pytest.fixture
def ball(tmp_path):
    return robot(tmp_path, BALL, base="ball", height=0.1, control_dt=0.01, options='cone = "elliptic"')


TERRAINS = {
    "roughness": sf.roughness(low=0, high=0.3, choices=(0.0, 0.02, 0.11, 0.3), extent=3.0),
    "step_height": sf.step_height(low=0, high=0.3, choices=(0.0, 0.02, 0.11, 0.3), extent=3.0),
}


@pytest.mark.parametrize("kind", TERRAINS)
def test_height_lookup_agrees_with_rays_cast_by_the_engine(ball, kind):
    sim = sf.Sim(ball, sf.Params(ground=TERRAINS[kind]), worlds=4)
    sim.apply({"ground": TERRAINS[kind].choices})
    xy = np.random.default_rng(0).uniform(-2.99, 2.99, (4, 300, 2))
    ours = sim.built.terrain.height(np.arange(4), xy)
    for w in range(4):
        model, data = sim.engine.single(w)
        hit = np.zeros(1, np.int32)
        for k, (x, y) in enumerate(xy[w]):
            distance = mujoco.mj_ray(model, data, [x, y, 5.0], [0, 0, -1.0], None, 1, model.body("ball").id, hit)
            assert model.geom(int(hit[0])).name == "ground"
            assert 5.0 - distance == pytest.approx(ours[w, k], abs=1e-9)
    np.testing.assert_allclose(sim.built.terrain.heights.max((1, 2)), TERRAINS[kind].choices, rtol=1e-6)


def test_a_ball_rests_on_a_step_of_its_height(ball):
    """Also far above the bounds of the flat field that the model was compiled with."""
    sim = sf.Sim(ball, sf.Params(ground=TERRAINS["step_height"]), worlds=4)
    sim.apply({"ground": TERRAINS["step_height"].choices})
    q = np.tile(sim.start_qpos, (4, 1))
    q[:, :3] = [1.4, 0, 0.45]  # on the ring from 1.2 to 1.6 m
    sim.reset(qpos=q)
    for _ in range(150):
        sim.step(np.zeros(0))
    np.testing.assert_allclose(sim.engine.qpos[:, 2] - 0.1, TERRAINS["step_height"].choices, atol=2e-3)


def test_friction_of_the_ground_is_that_of_the_terrain(ball):
    params = sf.Params(rough=TERRAINS["roughness"], mu=sf.friction("ground", low=0.1, high=1.0))
    sim = sf.Sim(ball, params, worlds=2)
    sim.apply({"mu": [0.1, 0.9]})
    sim.reset(qvel=np.array([1.0, 0, 0, 0, 0, 0]))
    for _ in range(10):
        sim.step(np.zeros(0))
    spin = sim.engine.qvel[:, 4]
    assert spin[0] == pytest.approx(0.1 * MASS * G * 0.1 * 0.1 / 0.008, rel=0.1), "torque μ m g r over 0.1 s"
    assert spin[1] == pytest.approx(5 / 7 * 1.0 / 0.1, rel=0.01), "it rolls"


def test_reset_puts_the_feet_on_the_ground_under_them():
    """Cells wider than the flat middle: the ground rises from the centre on, and the robot starts on it."""
    choices = (0.0, 0.2, 0.8)
    sim = sf.Sim(
        sf.load("go2"), sf.Params(rough=sf.roughness(low=0, high=0.8, choices=choices, cell=1.0, extent=4.0)), worlds=3
    )
    sim.apply({"rough": choices})
    sim.reset()
    for w in range(3):
        _, data = sim.engine.single(w)
        feet = np.array([data.geom(f).xpos for f in sim.robot.feet])
        gap = feet[:, 2] - 0.022 - sim.built.terrain.height(np.array([w]), feet[None, :, :2])[0]
        assert gap.min() == pytest.approx(0.0, abs=2e-3)
    assert (np.diff(sim.engine.qpos[:, 2]) > 0.01).all()


# -------------------------------------------------------------------- forces on the base


def test_pushes_come_at_their_rate_and_fill_a_disc(point):
    interval, size, worlds = 0.05, 0.8, 400
    sim = sf.Sim(
        point, sf.Params(push=sf.push(low=0, high=1, interval=interval), g=sf.gravity(low=0, high=10)), worlds=worlds
    )
    sim.apply({"push": size, "g": 0.0})
    _, _, v = fly(sim, 0.5)
    kicks = np.diff(np.concatenate([np.zeros((1, worlds, 3)), v]), axis=0)[..., :2].reshape(-1, 2)
    speed = np.linalg.norm(kicks, axis=1)
    hit = speed > 1e-9
    expected = worlds * 0.5 / interval
    assert hit.sum() == pytest.approx(expected, abs=4 * np.sqrt(expected))
    assert speed.max() <= size
    assert speed[hit].mean() == pytest.approx(2 / 3 * size, rel=0.03), "uniform over a disc"
    assert np.abs((kicks[hit] / speed[hit, None]).mean(0)).max() < 4 / np.sqrt(expected), "from all sides alike"
    np.testing.assert_array_equal(v[..., 2], 0.0)


def test_no_push_without_noise(point):
    sim = sf.Sim(point, sf.Params(push=sf.push(low=0, high=1, interval=0.01)), noise=False)
    sim.apply({"push": 1.0})
    _, _, v = fly(sim, 0.2)
    np.testing.assert_array_equal(v[..., :2], 0.0)


def test_a_wrench_accelerates_by_force_over_mass(free):
    sim = sf.Sim(free, sf.Params(force=sf.wrench(low=-20, high=20)), worlds=3)
    F = np.array([[0, 0, 0], [4, -2, MASS * G], [-1, 0, 10.0]])
    sim.apply({"force": F})
    t, _, v = fly(sim, 0.2)
    np.testing.assert_allclose(v[-1] / t[-1], F / MASS - [0, 0, G], atol=1e-9)
    np.testing.assert_allclose(sim.engine.qvel[:, 3:], 0.0, atol=1e-12)


def test_a_force_taken_away_is_gone(point):
    """e = 0 in the middle of an episode leaves nothing of the old e behind."""
    params = sf.Params(
        force=sf.wrench(low=-9, high=9), moment=sf.moment(low=-1, high=1), cable=sf.cable_drag(low=0, high=2)
    )
    sim = sf.Sim(point, params | sf.Params(g=sf.gravity(low=0, high=10)))
    sim.apply({"force": [[3.0, 0, 0]], "moment": [[0, 0, 1.0]], "cable": 0.1, "g": 0.0})
    fly(sim, 0.1)
    sim.apply({"force": [[0.0, 0, 0]], "moment": [[0.0, 0, 0]], "cable": 0.0})
    before = np.array(sim.engine.qvel)
    for _ in range(50):
        sim.step(np.zeros(0))
    np.testing.assert_allclose(sim.engine.qvel[:, :3], before[:, :3], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(sim.engine.qvel[:, 5]), before[:, 5], rtol=1e-3)


def test_a_moment_turns_by_torque_over_inertia(tmp_path):
    round_body = FREE.replace('pos="0.1 -0.05 0.03"', 'pos="0 0 0"').replace(
        "0.02 0.03 0.04 0.001 -0.002 0.003", "0.02 0.02 0.02 0 0 0"
    )
    home = robot(tmp_path, round_body, base="body", height=9.0, ground=False)
    sim = sf.Sim(home, sf.Params(moment=sf.moment(low=-1, high=1)), worlds=2)
    tau = np.array([[0.1, 0, -0.2], [0, 0.3, 0]])
    sim.apply({"moment": tau})
    t, _, _ = fly(sim, 0.2)
    R = np.array([sim.engine.single(w)[1].body("body").xmat.reshape(3, 3) for w in range(2)])
    spin = np.einsum("wij,wj->wi", R, sim.engine.qvel[:, 3:])  # the free joint's rates are in the body's frame
    np.testing.assert_allclose(spin, tau / 0.02 * t[-1], rtol=5e-3, atol=1e-6)


def test_free_fall_with_drag_follows_the_tanh_law(point):
    area = np.array([0.05, 0.3, 1.5])
    sim = sf.Sim(point, sf.Params(drag=sf.drag(low=0, high=2)), worlds=3)
    sim.apply({"drag": area})
    t, _, v = fly(sim, 6.0)
    terminal = np.sqrt(2 * MASS * G / (AIR_DENSITY * area))
    expected = -terminal * np.tanh(G * t[:, None] / terminal)
    np.testing.assert_allclose(v[..., 2], expected, rtol=2e-3, atol=6e-3)
    assert v[-1, 2, 2] == pytest.approx(-terminal[2], rel=1e-3)


@pytest.mark.slow
def test_wind_carries_along_and_presses_with_the_dynamic_pressure(point):
    params = sf.Params(wind=sf.wind(low=-20, high=20, area=0.2), g=sf.gravity(low=0, high=10))
    sim = sf.Sim(point, params, worlds=2)
    wind = np.array([[8.0, 0, 0], [3.0, 4.0, 0]])
    sim.apply({"wind": wind, "g": 0.0})
    t, _, v = fly(sim, 8.0)
    speed = np.linalg.norm(wind, axis=1)
    rate = 0.5 * AIR_DENSITY * 0.2 / MASS
    expected = wind * (1 - 1 / (1 + rate * speed * t[:, None]))[..., None]  # d(w - v)/dt = -rate (w - v)²
    np.testing.assert_allclose(v, expected, atol=5e-3 * 8)


def test_a_cable_slows_exponentially(point):
    sim = sf.Sim(point, sf.Params(cable=sf.cable_drag(low=0, high=9), g=sf.gravity(low=0, high=10)), worlds=3)
    c = np.array([0.5, 2.0, 8.0])
    sim.apply({"cable": c, "g": 0.0})
    t, _, v = fly(sim, 1.0, qvel=np.array([2.0, -1.0, 0.5, 0, 0, 0]))
    expected = np.exp(-np.outer(t, c / MASS))[..., None] * [2.0, -1.0, 0.5]
    np.testing.assert_allclose(v, expected, atol=3e-3)


# -------------------------------------------------------------------- process noise


def test_gusts_have_the_dryden_spectrum(point):
    sigma, length, airspeed = 1.7, 2.0, 10.0
    params = sf.Params(gust=sf.gust(low=0, high=5, length=length, airspeed=airspeed))
    sim = sf.Sim(point, params, worlds=64)
    sim.apply({"gust": sigma})
    sim.reset()
    series = []
    for k in range(8000):
        sim.disturbances.act(k, True)
        series.append(np.array(sim.disturbances.gust))
    w = np.array(series)[1000:]  # (T, worlds, 3); still air at first
    assert w.std() == pytest.approx(sigma, rel=0.03)
    assert np.abs(np.corrcoef(w[::400].reshape(-1, 3).T) - np.eye(3)).max() < 0.1, "the axes are independent"
    f, power = welch(w, fs=1 / sim.control_dt, nperseg=2048, detrend=False, axis=0)
    power = power.mean((1, 2))
    tau = length / airspeed
    expected = 4 * sigma**2 * tau / (1 + (2 * np.pi * f * tau) ** 2)
    band = (f > 0.4) & (f < 60)
    np.testing.assert_allclose(power[band], expected[band], rtol=0.15)
    assert np.mean(power[band] / expected[band]) == pytest.approx(1.0, abs=0.03)


def test_a_gust_presses_like_wind(point):
    sim = sf.Sim(point, sf.Params(gust=sf.gust(low=0, high=5, area=0.3)), worlds=3)
    sim.apply({"gust": 2.0})
    sim.reset()
    sim.disturbances.act(0, True)
    air = sim.disturbances.gust
    expected = 0.5 * AIR_DENSITY * 0.3 * np.linalg.norm(air, axis=1, keepdims=True) * air
    np.testing.assert_allclose(sim.engine.xfrc_applied[:, sim.disturbances.base, :3], expected, rtol=1e-12)


DRIVEN = '[[actuators]]\njoints = "pivot"\nmodel = "torque"\n'


def test_torque_noise_has_its_density(tmp_path):
    """White torque of one-sided density S² on an inertia: its speed has the density S² / (2π f I)²."""
    home = robot(tmp_path, PENDULUM, joints=("pivot",), ground=False, control_dt=0.002, more=DRIVEN)
    sim = sf.Sim(home, sf.Params(noise=sf.torque_noise(low=0, high=1), g=sf.gravity(low=0, high=10)), worlds=64)
    sim.apply({"noise": 0.2, "g": 0.0})
    sim.reset()
    v = []
    for _ in range(2048):
        sim.step(np.zeros(1))
        v.append(np.array(sim.engine.qvel[:, 0]))
    inertia = 0.03 + 2 * 0.5**2
    _, power = welch(np.diff(v, axis=0) / sim.control_dt * inertia, fs=1 / sim.control_dt, nperseg=512, axis=0)
    np.testing.assert_allclose(power.mean(1)[2:-2], 0.2**2, rtol=0.15)
    assert power.mean(1)[2:-2].mean() == pytest.approx(0.2**2, rel=0.02)


def test_a_vibrating_floor_is_felt_as_changing_weight(point):
    amplitude, f = np.array([0.0, 1.0, 4.0]), 7.0
    sim = sf.Sim(point, sf.Params(shake=sf.floor_vibration(low=0, high=5, frequency=f)), worlds=3)
    sim.apply({"shake": amplitude})
    t, _, v = fly(sim, 1.0)
    w = 2 * np.pi * f
    expected = -G * t[:, None] - amplitude * ((1 - np.cos(w * t)) / w)[:, None]
    np.testing.assert_allclose(v[..., 2], expected, atol=amplitude.max() * 2 * sim.timestep)


def test_a_ball_on_a_vibrating_floor_presses_with_its_apparent_weight(ball):
    amplitude, f = 3.0, 1.0
    sim = sf.Sim(ball, sf.Params(shake=sf.floor_vibration(low=0, high=5, frequency=f)))
    sim.apply({"shake": amplitude})
    sim.reset()
    for _ in range(100):
        sim.step(np.zeros(0))
    push, when = [], []
    for _ in range(100):
        sim.step(np.zeros(0))
        model, data = sim.engine.single(0)
        force = np.zeros(6)
        mujoco.mj_contactForce(model, data, 0, force)
        push.append(force[0])
        when.append(float(sim.time[0]))
    expected = MASS * (G + amplitude * np.sin(2 * np.pi * f * np.array(when)))
    np.testing.assert_allclose(push, expected, atol=0.15 * MASS * amplitude)
    assert np.ptp(push) / 2 == pytest.approx(MASS * amplitude, rel=0.03)
