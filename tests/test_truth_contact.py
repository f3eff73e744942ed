"""Contact Params against closed forms: blocks that slip at atan(μ), balls that spin down, roll out, sink and bounce.

The engine's contact is a spring and damper on the penetration r < 0 (MuJoCo, chapter Computation):

    a = (1 - d) a_free + d a_ref,   a_ref = -b v - k r,   b = 2 / (d_max T),   k = d(r) / (d_max² T² ζ²)
    d(r) = d_0 + y(|r| / width) (d_max - d_0)
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import surefoot as sf
from small_robots import BALL, BLOCK, robot

G = 9.81
ELLIPTIC = 'cone = "elliptic"\nimpratio = 100.0\nintegrator = "implicitfast"'


@pytest.fixture
def block(tmp_path):
    """3 kg that do not tip, friction 0.6, on a ground of friction 1."""
    return robot(tmp_path, BLOCK, base="block", height=0.02, timestep=0.001, control_dt=0.02, options=ELLIPTIC)


@pytest.fixture
def ball(tmp_path):
    """2 kg, radius 0.1 m, inertia 2/5 m r²; its contact has one impedance d = 0.95 at any depth."""
    return robot(tmp_path, BALL, base="ball", height=0.1, timestep=0.0005, control_dt=0.005, options=ELLIPTIC)


def run(sim: sf.Sim, seconds: float, **start) -> np.ndarray:
    """Step from a start state; returns base velocities (steps + 1, worlds, 6)."""
    if start:
        sim.reset(**start)
    out = [np.array(sim.engine.qvel)]
    for _ in range(round(seconds / sim.control_dt)):
        sim.step(sim.rest_command)
        out.append(np.array(sim.engine.qvel))
    return np.stack(out)


def velocity(*values: float) -> np.ndarray:
    return np.array([*values, *[0.0] * (6 - len(values))])


def sliding(sim: sf.Sim, pull: np.ndarray, *, axis: int = 0, settle: float = 0.3, over: float = 0.5) -> np.ndarray:
    """Measured friction coefficient (worlds,): tangential over normal impulse, under the pull (worlds, 3) [m/s²].

    A block that slides rides up and down its soft contact, so its mean acceleration alone would tell it badly.
    """
    v = run(sim, settle + over)
    k = round(settle / sim.control_dt)
    ground = (v[-1] - v[k])[:, :3] - pull * over
    return np.abs(ground[:, axis]) / ground[:, 2]


def downhill(angle: np.ndarray, axis: int = 0) -> np.ndarray:
    """Gravity (worlds, 3) [m/s²] over ground that rises along an axis."""
    g = np.zeros((len(angle), 3))
    g[:, axis], g[:, 2] = -G * np.sin(angle), -G * np.cos(angle)
    return g


# -------------------------------------------------------------------- friction


@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_block_slips_just_above_atan_mu_and_not_below(block, axis, sign):
    mu = np.tile([0.2, 0.5, 0.8, 1.3], 3)
    tilt = sign * np.arctan(mu) * np.repeat([0.99, 1.01, 1.1], 4)
    params = sf.Params(friction=sf.friction("block", low=0.1, high=2.0), slope=sf.slope(low=-1.4, high=1.4, axis=axis))
    sim, column = sf.Sim(block, params, worlds=12), "xy".index(axis)
    sim.apply({"friction": mu, "slope": tilt})
    sim.reset()
    measured = sliding(sim, downhill(tilt, column), axis=column)
    np.testing.assert_allclose(measured[4:], mu[4:], rtol=2e-3)
    v = -sign * sim.engine.qvel[:, column]
    assert (np.abs(v[:4]) < 2e-3).all(), "below atan(μ) it holds"
    excess = G * (np.sin(np.abs(tilt)) - mu * np.cos(tilt))
    assert (v[4:] > 0.4 * 0.8 * excess[4:]).all(), "above it slides away"


def test_friction_of_the_block_decides_though_the_ground_has_its_own(block):
    params = sf.Params(mu=sf.friction("block", low=0.1, high=2.0), wrench=sf.wrench(low=-99, high=99))
    sim = sf.Sim(block, params, worlds=3)
    mu = np.array([0.1, 0.6, 1.5])  # ground: 1.0
    pull = np.outer(1.2 * mu * G, [1, 0, 0])
    sim.apply({"mu": mu, "wrench": 3 * pull})
    sim.reset()
    np.testing.assert_allclose(sliding(sim, pull - [0, 0, G]), mu, rtol=2e-3)


def test_friction_of_the_ground_decides_for_all_that_touches_it(block):
    sim = sf.Sim(block, sf.Params(mu=sf.friction("ground", low=0.1, high=2.0), slope=sf.slope(low=0, high=1)), worlds=3)
    mu = np.array([0.1, 0.3, 0.5])  # the block's own: 0.6
    sim.apply({"mu": mu, "slope": 0.6})
    sim.reset()
    np.testing.assert_allclose(sliding(sim, downhill(np.full(3, 0.6))), mu, rtol=2e-3)


def test_torsional_friction_stops_a_spinning_ball_in_time(ball):
    sim = sf.Sim(ball, sf.Params(spin=sf.torsional_friction("ball", low=1e-4, high=0.1)), worlds=3)
    mu = np.array([0.002, 0.005, 0.01])
    sim.apply({"spin": mu})
    v = run(sim, 0.1)  # settle
    v = run(sim, 1.5, qpos=sim.engine.qpos.copy(), qvel=velocity(0, 0, 0, 0, 0, 6.0))[:, :, 5]
    t = np.arange(len(v)) * sim.control_dt
    expected = np.maximum(6.0 - np.outer(t, mu * 2 * G / 0.008), 0.0)
    np.testing.assert_allclose(v, expected, atol=0.1)  # the sudden spin shakes the contact at first


def test_rolling_friction_slows_a_ball_at_the_right_rate(ball):
    params = sf.Params(
        roll=sf.rolling_friction("ball", low=1e-5, high=0.1), mu=sf.friction("ball", low=0.5, high=1.0, nominal=0.8)
    )
    sim = sf.Sim(ball, params, worlds=3)
    mu = np.array([0.0005, 0.001, 0.003])
    sim.apply({"roll": mu})
    run(sim, 0.1)
    v = run(sim, 1.0, qpos=sim.engine.qpos.copy(), qvel=velocity(0.5, 0, 0, 0, 5.0))[:, :, 0]
    t = np.arange(len(v)) * sim.control_dt
    rate = mu * 2 * G * 0.1 / (0.008 + 2 * 0.1**2)  # torque μ N about the contact point, inertia I + m r²
    np.testing.assert_allclose(v, np.maximum(0.5 - np.outer(t, rate), 0.0), atol=0.01)


def test_patches_have_their_own_friction(block):
    params = sf.Params(
        mu=sf.friction("block", low=0.1, high=1.0), patch=sf.patch_friction("block", low=0, high=2, size=20.0),
        slope=sf.slope(low=0, high=1),
    )  # fmt: skip
    sim = sf.Sim(block, params, worlds=4)
    sim.apply({"mu": 0.4, "patch": [0.25, 0.25, 1.2, 1.2], "slope": 0.6})
    q = np.tile(sim.start_qpos, (4, 1))
    q[:, :2] = [[10, 10], [-10, 10], [-10, -10], [10, -10]]  # dark, light, dark, light
    sim.reset(qpos=q)
    mu = 0.4 * np.array([0.25, 1.0, 1.2, 1.0])
    np.testing.assert_allclose(sliding(sim, downhill(np.full(4, 0.6))), mu, rtol=2e-3)
    np.testing.assert_allclose(sim.e["mu"], 0.4, rtol=1e-12)


def test_a_block_that_slides_onto_ice_goes_on(block):
    params = sf.Params(
        mu=sf.friction("block", low=0.1, high=1.0), patch=sf.patch_friction("block", low=0, high=1, size=1.0)
    )
    sim = sf.Sim(block, params)
    sim.apply({"mu": 0.3, "patch": 0.0})
    sim.reset(qpos=[-0.5, 0.5, 0.02, 1, 0, 0, 0], qvel=velocity(2.0))  # on a light square; x > 0 is dark there
    x, v = [], []
    for _ in range(30):
        sim.step(np.zeros(0))
        x.append(sim.engine.qpos[0, 0])
        v.append(sim.engine.qvel[0, 0])
    on_ice = np.array(v)[np.array(x) > 0.01]
    assert on_ice[0] == pytest.approx(np.sqrt(2.0**2 - 2 * 0.3 * G * 0.5), rel=0.03)
    np.testing.assert_allclose(on_ice, on_ice[0], atol=1e-4)


def test_static_friction_holds_until_it_breaks_away(block):
    mu, static = 0.4, 1.5
    params = sf.Params(
        mu=sf.friction("block", low=0.1, high=1.0), static=sf.static_friction("block", low=1, high=2),
        wrench=sf.wrench(low=-99, high=99),
    )  # fmt: skip
    sim = sf.Sim(block, params, worlds=5)
    share = np.array([0.9, 1.1, 1.48, 1.52, 1.7])  # of the sliding friction μ m g
    pull = np.outer(share * mu * G, [1, 0, 0])
    sim.apply({"mu": mu, "static": static, "wrench": 3 * pull})
    sim.reset()
    measured = sliding(sim, pull - [0, 0, G])
    np.testing.assert_allclose(measured, mu * np.where(share > static, 1.0, share), rtol=5e-3)
    sim.reset(qpos=sim.start_qpos, qvel=velocity(1.0))
    measured = sliding(sim, pull - [0, 0, G], settle=0.04, over=0.3)
    np.testing.assert_allclose(
        measured, mu, rtol=5e-3, err_msg="what slides has the sliding friction, also below the static one"
    )
    run(sim, 2.5)
    assert sim.engine.qvel[0, 0] < 2e-3, "pulled by less than the sliding friction it comes to rest"
    assert (sim.engine.qvel[1:, 0] > 1.0).all()


# -------------------------------------------------------------------- spring and damper


def penetration(sim: sf.Sim) -> np.ndarray:
    return 0.1 - np.array(sim.engine.qpos[:, 2])


def contact_ode(t: np.ndarray, v0: float, soft: float, zeta: float, d: float = 0.95) -> np.ndarray:
    """Depth of a ball that touches the ground with speed v0, NaN from where the contact would have to pull."""
    T = soft / min(zeta, 1.0)
    b, k = 2 / (d * T), d / (d * T * zeta) ** 2
    x, v = solve_ivp(
        lambda _, x: [x[1], -(1 - d) * G - d * (b * x[1] + k * x[0])], (0, t[-1]), [0, -v0], t_eval=t, rtol=1e-9
    ).y
    return np.where(np.logical_and.accumulate(G - b * v - k * x > 0), -x, np.nan)


def test_softness_and_damping_give_the_motion_of_a_spring_and_damper(tmp_path):
    fine = robot(
        tmp_path,
        BALL.replace("<geom", '<geom priority="1"'),
        base="ball",
        height=0.1,
        timestep=2e-5,
        control_dt=2e-4,
        options=ELLIPTIC,
    )
    params = sf.Params(soft=sf.softness("ball", low=0.001, high=0.2), damp=sf.contact_damping("ball", low=0.1, high=3))
    sim = sf.Sim(fine, params, worlds=5)
    T, zeta = np.array([0.01, 0.02, 0.05, 0.02, 0.02]), np.array([1.0, 1.0, 1.0, 0.4, 1.6])
    sim.apply({"soft": T, "damp": zeta})
    sim.reset(qpos=[0, 0, 0.1, 1, 0, 0, 0], qvel=velocity(0, 0, -0.5))
    depth = [penetration(sim)]
    for _ in range(100):
        sim.step(np.zeros(0))
        depth.append(penetration(sim))
    t = np.arange(101) * sim.control_dt
    for w in range(5):
        expected = contact_ode(t, 0.5, T[w], zeta[w])
        inside = np.isfinite(expected)
        assert inside.sum() > 50
        np.testing.assert_allclose(np.array(depth)[inside, w], expected[inside], atol=2e-5, err_msg=f"world {w}")


def test_a_ball_at_rest_sinks_as_deep_as_softness_says(ball):
    params = sf.Params(soft=sf.softness("ball", low=0.01, high=0.2), damp=sf.contact_damping("ball", low=0.5, high=3))
    sim = sf.Sim(ball, params, worlds=4)
    T, zeta = np.array([0.02, 0.05, 0.1, 0.05]), np.array([1.0, 1.0, 1.0, 2.0])
    sim.apply({"soft": T, "damp": zeta})
    sim.reset()
    run(sim, 3.0)
    mixed = (0.925, 0.95, 0.001)  # half of the ball's impedance 0.95 and half of the ground's, 0.9 to 0.95
    expected = [brentq(balance, 1e-9, 1.0, args=(T[w], zeta[w], mixed)) for w in range(4)]
    np.testing.assert_allclose(penetration(sim), expected, rtol=1e-3)


def balance(r: float, T: float, zeta: float, solimp: tuple[float, float, float]) -> float:
    """Acceleration [m/s²] of a body of any mass at rest at depth r: zero where it stays."""
    first, last, width = solimp
    x = min(r / width, 1.0)
    y = 2 * x**2 if x < 0.5 else 1 - 2 * (1 - x) ** 2
    d = first + y * (last - first)
    return d * d / (last * T * zeta) ** 2 * r - (1 - d) * G


def test_soft_ground_carries_at_the_depth_where_its_stiffness_suffices(ball):
    sim = sf.Sim(ball, sf.Params(depth=sf.soft_ground("ball", low=1e-4, high=0.1)), worlds=4)
    width = np.array([0.0005, 0.002, 0.01, 0.04])
    sim.apply({"depth": width})
    sim.reset()
    run(sim, 4.0)
    expected = [brentq(balance, 1e-9, 1.0, args=(0.02, 1.0, (0.1, 0.95, w))) for w in width]
    np.testing.assert_allclose(penetration(sim), expected, rtol=1e-3)
    assert (np.diff(penetration(sim)) > 0).all()


RESTITUTION = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95])


def rebound(home: sf.Robot, *, soft: float = 0.02, drop: float = 0.3) -> np.ndarray:
    """Measured speed after over speed before the first impact."""
    params = sf.Params(bounce=sf.bounce("ball", low=0.001, high=0.999), soft=sf.softness("ball", low=0.01, high=0.1))
    sim = sf.Sim(home, params, worlds=len(RESTITUTION))
    sim.apply({"bounce": RESTITUTION, "soft": soft})
    v = run(sim, 0.7, qpos=[0, 0, 0.1 + drop, 1, 0, 0, 0])[:, :, 2]
    first = v[: round(0.5 / sim.control_dt)]
    return first.max(0) / -v.min(0)


def test_a_ball_bounces_with_its_coefficient_of_restitution(ball):
    np.testing.assert_allclose(rebound(ball), RESTITUTION, atol=0.01)
    np.testing.assert_allclose(rebound(ball, soft=0.05), RESTITUTION, atol=0.01)


def test_bounce_does_not_gain_energy_at_a_coarse_time_step(tmp_path):
    for dt, atol in ((0.002, 0.02), (0.005, 0.06)):
        home = robot(tmp_path / str(dt), BALL, base="ball", height=0.1, timestep=dt, options=ELLIPTIC)
        np.testing.assert_allclose(rebound(home), RESTITUTION, atol=atol, err_msg=f"dt = {dt}")


def test_no_cube_drawn_from_its_own_prior_gains_energy():
    sim = sf.Sim(sf.load("cube"), worlds=256, noise=False)
    sim.apply(sim.params.prior().sample(256, 0))
    q = np.tile(sim.start_qpos, (256, 1))
    q[:, 2:7] = [0.3, 0.8, 0.36, 0.4, 0.26]
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    sim.reset(qpos=q)
    for _ in range(150):
        sim.step(np.zeros(0))
        energy = G * sim.engine.qpos[:, 2] + 0.5 * (sim.engine.qvel[:, :3] ** 2).sum(1)
        assert (energy < 1.02 * G * 0.3).all()


# -------------------------------------------------------------------- what declaring a Param does


@pytest.mark.parametrize(("kind", "low", "high"), [
    ("friction", 0.1, 2.0), ("softness", 0.01, 0.1), ("contact_damping", 0.1, 2.0), ("bounce", 0.01, 0.9),
    ("patch_friction", 0.0, 2.0), ("static_friction", 1.0, 2.0),
])  # fmt: skip
def test_declaring_a_contact_param_changes_nothing(ball, kind, low, high):
    """The ball's friction and impedance differ from the ground's: what held between them must go on to hold."""
    motions = []
    for params in (sf.Params(), sf.Params(p=getattr(sf, kind)("ball", low=low, high=high))):
        sim = sf.Sim(ball, params)
        motions.append(run(sim, 0.5, qpos=[0, 0, 0.15, 1, 0, 0, 0], qvel=velocity(1.0, 0.3, 0, 0, 5, 2)))
    np.testing.assert_allclose(motions[1], motions[0], atol=1e-9)
