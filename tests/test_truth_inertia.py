"""Inertia Params against pendulum periods, static torques and spins, and models compiled with the numbers."""

import mujoco
import numpy as np
import pytest
from scipy.linalg import cholesky
from scipy.optimize import brentq

import surefoot as sf
from small_robots import FREE, PENDULUM, robot
from surefoot.sim import inertia

G = 9.81
M, LENGTH, IYY = 2.0, 0.5, 0.03  # of the pendulum: mass, centre of mass below the pivot, inertia about it along y


@pytest.fixture
def pendulum(tmp_path):
    return robot(
        tmp_path,
        PENDULUM,
        joints=("pivot",),
        ground=False,
        timestep=0.0005,
        control_dt=0.0005,
        options='integrator = "RK4"',
    )


@pytest.fixture
def free(tmp_path):
    return robot(tmp_path, FREE, base="body", height=1.0, ground=False, timestep=0.0005, options='integrator = "RK4"')


def period(sim: sf.Sim) -> np.ndarray:
    """Period of small swings (worlds,) [s], from the falling zero crossings of the first swings."""
    sim.reset(qpos=np.array([0.02]))
    q = [np.array(sim.engine.qpos[:, 0])]
    for _ in range(round(4.0 / sim.control_dt)):
        sim.step(np.zeros(0))
        q.append(np.array(sim.engine.qpos[:, 0]))
    q = np.array(q)
    out = []
    for column in q.T:
        k = np.flatnonzero((column[:-1] > 0) & (column[1:] <= 0))
        t = (k + column[k] / (column[k] - column[k + 1])) * sim.control_dt
        out.append(np.diff(t).mean())
    return np.array(out)


def swing(mass, length, about_com) -> np.ndarray:
    """Closed form for an amplitude of 0.02 rad: 2π sqrt(I / (m g l)) (1 + θ²/16)."""
    return 2 * np.pi * np.sqrt((about_com + mass * length**2) / (mass * G * length)) * (1 + 0.02**2 / 16)


def holding_torque(sim: sf.Sim, angle: float) -> np.ndarray:
    """Torque of gravity about the pivot (worlds,) [N·m] at an angle."""
    out = []
    for w in range(sim.worlds):
        model, data = sim.engine.single(w)
        data.qpos[0] = angle
        mujoco.mj_forward(model, data)
        out.append(data.qfrc_bias[0])
    return np.array(out)


def full_inertia(model: mujoco.MjModel, body: int) -> np.ndarray:
    """Inertia about the centre of mass in the body's axes, (3, 3)."""
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, model.body_iquat[body])
    R = R.reshape(3, 3)
    return R @ np.diag(model.body_inertia[body]) @ R.T


def mass_matrix(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    return np.concatenate([M, data.qfrc_bias[None]])


# -------------------------------------------------------------------- mass, centre of mass


@pytest.mark.slow
def test_mass_scales_the_torque_and_not_the_period(pendulum):
    sim = sf.Sim(pendulum, sf.Params(m=sf.mass("arm", low=0.1, high=10)), worlds=3)
    m = np.array([0.5, 2.0, 8.0])
    sim.apply({"m": m})
    np.testing.assert_allclose(period(sim), swing(M, LENGTH, IYY), rtol=1e-5)
    np.testing.assert_allclose(holding_torque(sim, 0.3), m * G * LENGTH * np.sin(0.3), rtol=1e-12)
    for w in range(3):
        model, _ = sim.engine.single(w)
        np.testing.assert_allclose(
            np.sort(model.body("arm").inertia), np.sort([0.02, 0.03, 0.01]) * m[w] / M, rtol=1e-12
        )


@pytest.mark.slow
def test_a_shifted_centre_of_mass_changes_period_and_torque(pendulum):
    sim = sf.Sim(
        pendulum,
        sf.Params(z=sf.com("arm", low=-0.3, high=0.3, axis="z"), x=sf.com("arm", low=-0.3, high=0.3)),
        worlds=3,
    )
    shift = np.array([0.0, 0.2, -0.25])
    sim.apply({"z": shift})
    np.testing.assert_allclose(period(sim), swing(M, LENGTH - shift, IYY), rtol=1e-5)
    sim.apply({"x": shift})
    expected = M * G * ((LENGTH - shift) * np.sin(0.3) - shift * np.cos(0.3))
    np.testing.assert_allclose(holding_torque(sim, 0.3), expected, rtol=1e-12)


def test_free_fall_does_not_depend_on_mass_or_its_place(free):
    params = sf.Params(
        m=sf.mass("body", low=0.1, high=10),
        y=sf.com("body", low=-0.3, high=0.3, axis="y"),
        load=sf.payload_mass("body", low=0, high=5),
    )
    sim = sf.Sim(free, params, worlds=8)
    sim.apply(sim.params.prior().sample(8, 0))
    sim.reset()
    for _ in range(400):
        sim.step(np.zeros(0))
    np.testing.assert_allclose(sim.engine.qpos[:, 2], 1.0 - 0.5 * G * 0.2**2, rtol=1e-6)
    np.testing.assert_allclose(sim.engine.qvel[:, 3:], 0.0, atol=1e-9)


def test_a_changed_body_is_that_of_a_model_compiled_with_the_numbers():
    """Mass matrix and gravity torques at random poses; the payload joins the trunk by the parallel-axis theorem."""
    params = sf.Params(
        m=sf.mass("base", low=3, high=12),
        x=sf.com("base", low=-0.1, high=0.1, axis="x"),
        z=sf.com("base", low=-0.1, high=0.1, axis="z"),
        load=sf.payload_mass("base", low=0, high=5, size=0.2),
        place=sf.payload_place("base", low=-0.3, high=0.3, size=0.2),
        calf=sf.mass("FL_calf", low=0.1, high=1.0),
    )
    sim = sf.Sim(sf.load("go2"), params, worlds=5)
    e = sim.params.prior().sample(5, 1)
    e["load"][4] = 0.0
    sim.apply(e)
    rng = np.random.default_rng(2)
    nominal = sim.robot.spec().compile()
    body, calf = nominal.body("base").id, nominal.body("FL_calf").id
    for w in range(5):
        m, load = e["m"][w], e["load"][w]
        com = nominal.body_ipos[body] + [e["x"][w], 0, e["z"][w]]
        total = m + load
        centre = (m * com + load * e["place"][w]) / total
        about = full_inertia(nominal, body) * m / nominal.body_mass[body] + np.eye(3) * load * 0.2**2 / 6
        for part, at in ((m, com), (load, e["place"][w])):
            r = at - centre
            about += part * (r @ r * np.eye(3) - np.outer(r, r))
        spec = sim.robot.spec()
        trunk, lower = spec.body("base"), spec.body("FL_calf")
        trunk.mass, trunk.ipos = total, centre
        trunk.fullinertia = [about[0, 0], about[1, 1], about[2, 2], about[0, 1], about[0, 2], about[1, 2]]
        lower.fullinertia = lower.fullinertia * (e["calf"][w] / nominal.body_mass[calf])
        lower.mass = e["calf"][w]
        fresh = spec.compile()
        ours, _ = sim.engine.single(w)
        for _ in range(3):
            q = rng.normal(0, 0.7, fresh.nq)
            q[3:7] /= np.linalg.norm(q[3:7])
            expected = mass_matrix(fresh, q)
            np.testing.assert_allclose(mass_matrix(ours, q), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_body_weights_and_contact_inertias_follow():
    """What the engine derives from masses (its constants) is that of a model compiled with them."""
    sim = sf.Sim(sf.load("go2"), sf.Params(m=sf.mass("base", low=3, high=12)), worlds=2)
    sim.apply({"m": [5.0, 11.0]})
    spec = sim.robot.spec()
    spec.body("base").fullinertia = spec.body("base").fullinertia * (11.0 / spec.body("base").mass)
    spec.body("base").mass = 11.0
    fresh, (ours, _) = spec.compile(), sim.engine.single(1)
    for field in ("body_subtreemass", "body_invweight0", "dof_invweight0"):
        np.testing.assert_allclose(getattr(ours, field), getattr(fresh, field), rtol=1e-9, err_msg=field)


# -------------------------------------------------------------------- full inertia


def pseudo_inertia(mass: float, com: np.ndarray, about_com: np.ndarray) -> np.ndarray:
    sigma = 0.5 * np.trace(about_com) * np.eye(3) - about_com + mass * np.outer(com, com)
    return np.block([[sigma, mass * com[:, None]], [mass * com[None], np.array([[mass]])]])


def deformed(J: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """J(θ) of the published log-Cholesky parameterisation, written out."""
    a, d1, d2, d3, s12, s23, s13, t1, t2, t3 = theta
    U = np.exp(a) * np.array(
        [[np.exp(d1), s12, s13, t1], [0, np.exp(d2), s23, t2], [0, 0, np.exp(d3), t3], [0, 0, 0, 1]]
    )
    flip = np.eye(4)[::-1]
    A = flip @ cholesky(flip @ J @ flip, lower=True) @ flip
    return A @ U @ U.T @ A.T


def test_log_cholesky_gives_the_published_inertia_and_is_always_physical(free):
    worlds = 1000
    sim = sf.Sim(free, sf.Params(theta=sf.inertia("body", low=-2, high=2)), worlds=worlds)
    theta = np.random.default_rng(3).uniform(-1.5, 1.5, (worlds, 10))
    theta[0] = 0.0
    sim.apply({"theta": theta})
    np.testing.assert_allclose(sim.e["theta"], theta, rtol=1e-11, atol=4e-12)
    body = sim.model.body("body").id
    nominal = pseudo_inertia(sim.model.body_mass[body], sim.model.body_ipos[body], full_inertia(sim.model, body))
    principal = sim.engine.field("body_inertia")[:, body]
    assert (sim.engine.field("body_mass")[:, body] > 0).all()
    assert (principal > 0).all()
    assert (principal.sum(1) - 2 * principal.max(1) > 0).all(), "the triangle inequality holds"
    for w in [0, *range(1, worlds, 50)]:
        model, _ = sim.engine.single(w)
        ours = pseudo_inertia(model.body_mass[body], model.body_ipos[body], full_inertia(model, body))
        expected = deformed(nominal, theta[w])
        np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
        assert np.linalg.eigvalsh(ours).min() > 0


def test_round_trip_keeps_twelve_digits_of_a_small_body_far_from_its_origin():
    """A point-like weight at the end of an arm: m c c^T is ten thousand times its own inertia."""
    mass, com, principal, quat = (
        np.array([0.49]),
        np.array([[0, 0, -0.1]]),
        np.array([[1e-6, 1e-6, 1e-6]]),
        np.array([[1.0, 0, 0, 0]]),
    )
    theta = np.random.default_rng(4).uniform(-0.5, 0.5, (200, 10))
    A = inertia.root(mass, com, principal, quat)
    B = inertia.root(*inertia.from_root(A @ inertia.factor(theta)))
    np.testing.assert_allclose(
        inertia.parameters(np.linalg.solve(np.broadcast_to(A, B.shape), B)), theta, rtol=0, atol=1e-12
    )


def test_a_flat_body_has_no_log_cholesky_coordinates(tmp_path):
    flat = FREE.replace('fullinertia="0.02 0.03 0.04 0.001 -0.002 0.003"', 'diaginertia="0.01 0.01 0.02"')
    home = robot(tmp_path, flat, base="body", height=1.0, ground=False)
    with pytest.raises(sf.InputError, match="body 'body' is flat or unphysical"):
        sf.Sim(home, sf.Params(theta=sf.inertia("body", low=-1, high=1)))


def test_a_moment_spins_the_body_up_as_its_inertia_says(free):
    params = sf.Params(
        theta=sf.inertia("body", low=-1, high=1), moment=sf.moment(low=-2, high=2), g=sf.gravity(low=0, high=10)
    )
    sim = sf.Sim(free, params, worlds=6)
    theta = np.random.default_rng(5).uniform(-0.4, 0.4, (6, 10))
    tau = np.array([0.3, -0.2, 0.5])
    sim.apply({"theta": theta, "moment": np.tile(tau, (6, 1)), "g": 0.0})
    sim.reset()
    sim.step(np.zeros(0))
    body = sim.model.body("body").id
    for w in range(6):
        model, _ = sim.engine.single(w)
        expected = np.linalg.solve(full_inertia(model, body), tau)  # axes agree at the start, and nothing turns yet
        np.testing.assert_allclose(sim.engine.qvel[w, 3:] / sim.timestep, expected, rtol=1e-3, atol=1e-3)


# -------------------------------------------------------------------- payload, compliance


@pytest.mark.slow
def test_a_payload_changes_period_and_torque(pendulum):
    params = sf.Params(
        load=sf.payload_mass("arm", low=0, high=5, size=0.2), place=sf.payload_place("arm", low=-1, high=1)
    )
    sim = sf.Sim(pendulum, params, worlds=3)
    load, depth = np.array([0.0, 1.0, 4.0]), np.array([0.3, 0.3, 0.8])
    sim.apply({"load": load, "place": np.stack([0 * depth, 0 * depth, -depth], axis=1)})
    total = M + load
    length = (M * LENGTH + load * depth) / total
    about = IYY + M * (LENGTH - length) ** 2 + load * (0.2**2 / 6 + (depth - length) ** 2)
    np.testing.assert_allclose(period(sim), swing(total, length, about), rtol=1e-5)
    np.testing.assert_allclose(holding_torque(sim, 0.3), total * G * length * np.sin(0.3), rtol=1e-12)


def test_without_a_nominal_value_there_is_no_payload(pendulum):
    sim = sf.Sim(pendulum, sf.Params(load=sf.payload_mass("arm", low=0, high=5)))
    assert sim.e["load"] == 0.0
    np.testing.assert_allclose(holding_torque(sim, 0.3), M * G * LENGTH * np.sin(0.3), rtol=1e-12)


BEAM = """<body name="beam" pos="0 0 1"><inertial pos="0.4 0 0" mass="2" diaginertia="0.01 0.02 0.02"/>
  <geom name="beam" type="capsule" fromto="0 0 0 0.4 0 0" size="0.02" contype="0" conaffinity="0"/></body>"""


def test_a_compliant_link_bends_as_torque_over_stiffness(tmp_path):
    home = robot(tmp_path, BEAM, ground=False, control_dt=0.02)
    sim = sf.Sim(home, sf.Params(k=sf.link_compliance("beam", low=5, high=5000, axis="y", damping=3.0)), worlds=3)
    k = np.array([10.0, 100.0, 2000.0])
    sim.apply({"k": k})
    sim.reset()
    for _ in range(300):
        sim.step(np.zeros(0))
    expected = [brentq(lambda q, k=k: k * q - 2 * G * 0.4 * np.cos(q), 0, 3) for k in k]
    np.testing.assert_allclose(sim.engine.qpos[:, 0], expected, rtol=1e-6)


@pytest.mark.slow
def test_a_compliant_link_rings_at_the_frequency_of_its_stiffness(tmp_path):
    home = robot(tmp_path, BEAM, ground=False, timestep=0.0005, options='integrator = "RK4"')
    params = sf.Params(
        k=sf.link_compliance("beam", low=5, high=5000, axis="y", damping=0.0), g=sf.gravity(low=0, high=10)
    )
    sim = sf.Sim(home, params, worlds=2)
    k = np.array([50.0, 500.0])
    sim.apply({"k": k, "g": 0.0})
    expected = 2 * np.pi * np.sqrt((0.02 + 2 * 0.4**2 + 1e-4) / k)  # the hinge has an armature of 1e-4 kg·m²
    np.testing.assert_allclose(period(sim), expected, rtol=1e-5)
