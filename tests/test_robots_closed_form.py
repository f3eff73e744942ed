"""Small robots against equations of motion written down by hand, with the published numbers."""

import mujoco
import numpy as np
import pytest

from surefoot.robots import load

G = 9.81  # [m/s^2]


def acceleration(name: str, q, dq, torque) -> np.ndarray:
    """Joint accelerations of the library's robot in state (q, dq) under joint torques, (nv,)."""
    robot = load(name)
    model = robot.spec().compile()
    data = mujoco.MjData(model)
    for i, joint in enumerate(robot.joints):
        data.joint(joint).qpos, data.joint(joint).qvel = q[i], dq[i]
        data.qfrc_applied[model.joint(joint).dofadr[0]] = torque[i]
    model.opt.tolerance = 1e-15
    mujoco.mj_forward(model, data)
    return np.array([data.joint(joint).qacc[0] for joint in robot.joints])


def random_states(n: int, speed: float):
    """n states of two joints with speeds away from zero, so that dry friction has a clear sign."""
    rng = np.random.default_rng(3)
    for _ in range(n):
        yield rng.uniform(-1.5, 1.5, 2), rng.choice([-1, 1], 2) * rng.uniform(0.5, 1.0, 2) * speed, rng.normal(size=2)


def swing_period(name: str, amplitude: float) -> float:
    """Period of small oscillations of a one-joint robot without friction [s], from zero crossings."""
    model = load(name).spec().compile()
    model.dof_damping[:] = 0.0
    model.dof_frictionloss[:] = 0.0
    model.opt.timestep, model.opt.integrator = 1e-4, int(mujoco.mjtIntegrator.mjINT_RK4)
    data = mujoco.MjData(model)
    data.qpos[0], crossings, last = amplitude, [], amplitude
    while len(crossings) < 3:
        mujoco.mj_step(model, data)
        if last > 0 >= data.qpos[0]:
            crossings.append(data.time - 1e-4 * data.qpos[0] / (data.qpos[0] - last))
        last = float(data.qpos[0])
    return crossings[2] - crossings[1]


def test_cartpole_accelerates_as_the_textbook_says():
    cart, pole, half, damping, hinge = 1.0, 0.1, 0.5, 0.1, 0.0005
    inertia = pole * (2 * half) ** 2 / 3  # of a rod about its end
    for q, dq, tau in random_states(20, 3.0):
        # The pole hangs at 0; a positive angle (about +y) carries its end towards -x.
        mass = np.array([[cart + pole, -pole * half * np.cos(q[1])], [-pole * half * np.cos(q[1]), inertia]])
        force = np.array(
            [
                tau[0] - damping * dq[0] - pole * half * np.sin(q[1]) * dq[1] ** 2,
                tau[1] - hinge * dq[1] - pole * G * half * np.sin(q[1]),
            ]
        )
        np.testing.assert_allclose(acceleration("cartpole", q, dq, tau), np.linalg.solve(mass, force), rtol=1e-6)


def test_qube_accelerates_as_the_furuta_equations_say_under_voltage():
    km, rm, m_r, l_r, m_p, l_p, d_r, d_p = 0.042, 8.4, 0.095, 0.085, 0.024, 0.129, 5e-6, 1e-6
    motor = load("qube").actuator("arm")
    assert (motor.model, motor.torque_constant, motor.resistance) == ("voltage", km, rm)
    j_r, j_p = m_r * l_r**2 / 12, m_p * l_p**2 / 12
    for q, dq, volts in random_states(20, 6.0):
        alpha, (dt, da) = q[1], dq
        tau = km / rm * (volts[0] - km * dt)
        mass = np.array(
            [
                [j_r + m_p * l_r**2 + m_p * l_p**2 / 4 * np.sin(alpha) ** 2, m_p * l_p * l_r / 2 * np.cos(alpha)],
                [m_p * l_p * l_r / 2 * np.cos(alpha), j_p + m_p * l_p**2 / 4],
            ]
        )
        # The published model leaves out j_p where the arm's own rotation turns the rod about the vertical.
        mass[0, 0] += j_p * np.sin(alpha) ** 2
        centrifugal = m_p * l_p**2 / 4 + j_p
        force = np.array(
            [
                tau
                - d_r * dt
                - centrifugal * np.sin(2 * alpha) * dt * da
                + m_p * l_p * l_r / 2 * np.sin(alpha) * da**2,
                -d_p * da + centrifugal / 2 * np.sin(2 * alpha) * dt**2 - m_p * l_p * G / 2 * np.sin(alpha),
            ]
        )
        ours = acceleration("qube", q, dq, [tau, 0.0])
        np.testing.assert_allclose(ours, np.linalg.solve(mass, force), rtol=1e-4, atol=1e-3)


def test_double_pendulum_accelerates_as_its_identified_model_says():
    m1, m2, l1, r1, r2 = 0.5234602302310271, 0.6255677234174437, 0.2, 0.2, 0.25569305436052964
    i1, i2, rotor, gear = 0.031887199591513114, 0.05086984812807257, 6.287203962819607e-05, 6.0
    b, cf = 0.001, np.array([0.16, 0.12])
    for q, dq, tau in random_states(20, 4.0):
        c2, s2, h = np.cos(q[1]), np.sin(q[1]), m2 * l1 * r2
        coupling = i2 + h * c2
        mass = np.array(
            [[i1 + i2 + m2 * l1**2 + 2 * h * c2 + gear**2 * rotor, coupling], [coupling, i2 + gear**2 * rotor]]
        )
        bias = np.array([-h * s2 * (2 * dq[0] * dq[1] + dq[1] ** 2), h * s2 * dq[0] ** 2])
        gravity = G * np.array(
            [m1 * r1 * np.sin(q[0]) + m2 * (l1 * np.sin(q[0]) + r2 * np.sin(q.sum())), m2 * r2 * np.sin(q.sum())]
        )
        force = tau - bias - gravity - b * dq - cf * np.sign(dq)
        np.testing.assert_allclose(
            acceleration("double_pendulum", q, dq, tau), np.linalg.solve(mass, force), rtol=1e-6, atol=1e-6
        )


def test_double_pendulum_keeps_its_energy_without_friction():
    model = load("double_pendulum").spec().compile()
    model.dof_damping[:] = 0.0
    model.dof_frictionloss[:] = 0.0
    model.opt.timestep, model.opt.integrator = 5e-4, int(mujoco.mjtIntegrator.mjINT_RK4)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    data = mujoco.MjData(model)
    data.qpos[:] = [2.0, -1.0]
    mujoco.mj_forward(model, data)
    start = data.energy.sum()
    for _ in range(4000):
        mujoco.mj_step(model, data)
    assert data.energy[1] > 0.5  # [J] it moves
    assert data.energy.sum() == pytest.approx(start, abs=1e-6)


def test_servo_pendulum_swings_with_the_period_of_its_mass_and_armature():
    armature = load("servo").actuator("servo").armature
    inertia, stiffness = 0.49 * 0.1**2 + 1e-6 + armature, 0.49 * G * 0.1
    assert swing_period("servo", 0.01) == pytest.approx(2 * np.pi * np.sqrt(inertia / stiffness), rel=1e-5)


def test_servo_gains_follow_from_its_firmware_law_and_motor_constants():
    servo = load("servo").actuator("servo")
    volts_per_rad = 400 * (4096 / (2 * np.pi)) / (256 * 885) * servo.voltage
    k_over_r = servo.torque_constant / servo.resistance
    assert servo.kp == pytest.approx(k_over_r * volts_per_rad, rel=2e-3)
    assert servo.kd == pytest.approx(servo.torque_constant * k_over_r, rel=2e-3)
    assert servo.torque_limit == pytest.approx(k_over_r * servo.voltage, rel=2e-3)
    assert servo.speed_limit == pytest.approx(servo.voltage / servo.torque_constant, rel=2e-3)


def test_emps_obeys_its_published_inverse_model():
    mass, viscous, dry, offset = 95.1089, 203.5034, 20.3935, -3.1648
    drive, rng = load("emps").actuator("slider"), np.random.default_rng(5)
    for _ in range(20):
        speed, volts = rng.choice([-1, 1]) * rng.uniform(0.05, 0.3), rng.normal() * 3
        force = drive.torque_constant / drive.resistance * (volts - drive.torque_constant * speed)
        assert force == pytest.approx(35.15065 * volts, rel=1e-5)
        expected = (force - viscous * speed - dry * np.sign(speed) - offset) / mass
        assert acceleration("emps", [0.1], [speed], [force])[0] == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_cube_has_the_published_mass_size_and_inertia():
    robot = load("cube")
    model = robot.spec().compile()
    assert model.body("cube").mass[0] == 0.37
    np.testing.assert_allclose(model.body("cube").inertia, 0.295 * 0.0524**2, rtol=1e-5)
    np.testing.assert_allclose(2 * model.geom("shell").size, 0.1048)
    assert 1 / robot.control_dt == pytest.approx(148.0)


def test_hopper_mass_matrix_gives_its_total_mass_to_both_root_slides():
    robot = load("hopper")
    model = robot.spec().compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass)
    for slide in ("root_x", "root_z"):
        i = model.joint(slide).dofadr[0]
        assert mass[i, i] == pytest.approx(4 + 2 + 1.2 + 0.5)


def test_crazyflie_rotors_sit_as_the_maker_places_them_and_cancel_in_hover():
    robot = load("crazyflie")
    model = robot.spec().compile()
    corners = {
        "m1": (1, -1),
        "m2": (-1, -1),
        "m3": (-1, 1),
        "m4": (1, 1),
    }  # front right, back right, back left, front left
    force, moment = 0.0, np.zeros(3)
    for rotor in robot.actuators:
        place = model.site(rotor.name).pos
        assert tuple(np.sign(place[:2])) == corners[rotor.name]
        assert np.linalg.norm(place[:2]) == pytest.approx(0.046, rel=1e-5)
        hover = 0.027 * G / 4  # [N]
        force += hover
        moment += np.cross(place, [0, 0, hover])
        moment[2] += rotor.spin * rotor.moment_ratio * hover
        assert 0.5 < np.sqrt(hover / rotor.thrust_max) < 0.8  # hover needs a command well inside 0..1
    assert force == pytest.approx(0.027 * G)
    np.testing.assert_allclose(moment, 0.0, atol=1e-15)
    assert [robot.actuator(f"m{i}").spin for i in (1, 2, 3, 4)] == [-1, 1, -1, 1]


@pytest.mark.parametrize(("name", "fall"), [("go2", 0.85), ("g1", 0.9), ("hopper", 0.9)])
def test_legged_robot_carries_itself_with_its_own_gains_and_limits(name, fall):
    robot = load(name)
    spec = robot.spec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 0.1])
    for actuator in robot.actuators:
        added = spec.add_actuator(trntype=mujoco.mjtTrn.mjTRN_JOINT, target=actuator.name)
        added.set_to_position(kp=actuator.kp, kv=actuator.kd)
        added.forcelimited, added.forcerange = True, [-actuator.torque_limit, actuator.torque_limit]
    model = spec.compile()
    data = mujoco.MjData(model)
    if robot.base:
        data.qpos[2] = robot.height
    for joint, position in robot.pose.items():
        data.joint(joint).qpos = position
    data.ctrl[:] = [robot.pose[actuator.name] for actuator in robot.actuators]
    for _ in range(round(0.4 / robot.timestep)):
        mujoco.mj_step(model, data)
    body = model.body(robot.base or "torso").id
    assert data.xpos[body, 2] > fall * robot.height
    assert data.ncon > 0
