"""Truth tests of the motors: each Param is changed alone and its effect compared with a closed form."""

import dataclasses
import shutil

import mujoco
import numpy as np
import pytest

import surefoot as sf
from rigs import ENCODER, PENDULUM, TORQUE, WHEEL, rig
from surefoot.errors import InputError
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import Params
from surefoot.sim import Sim

INERTIA = 0.025  # [kg·m²] of the flywheel with its armature of 0.005
PD = 'model = "pd"\nkp = 5.0\nkd = 0.1\narmature = 0.005\n'
LOCK = "armature = 1e9\n"  # a wheel that does not turn
K, R, V = 0.6, 0.9, 12.0
WOUND = f"torque_constant = {K}\nresistance = {R}\nvoltage = {V}\n"


def made(folder, bodies, motor, *, worlds=3, noise=False, dt=0.001, period=0.005, sensors=ENCODER + TORQUE, **params):
    robot = rig(folder, bodies, motor=motor, sensors=sensors, dt=dt, period=period)
    return Sim(robot, Params(**params), worlds=worlds, noise=noise)


def roll(sim, u, steps):
    """Joint positions and velocities after every control step, (steps, worlds)."""
    q, v = [], []
    for k in range(steps):
        sim.step(np.atleast_1d(u(k * sim.control_dt) if callable(u) else u))
        q.append(sim.truth()["joint_pos"][:, 0].copy())
        v.append(sim.truth()["joint_vel"][:, 0].copy())
    return np.array(q), np.array(v)


def torque(sim, u, speed=None):
    """Motor torque (worlds, motors) in the first substep of a control step from rest at 0, or at the given speed."""
    sim.reset(qvel=None if speed is None else np.full(sim.model.nv, speed))
    sim.advance(np.broadcast_to(u, (sim.worlds, 1, sim.model.nu)))
    return np.array(sim.engine.derived("actuator_force"))


# -------------------------------------------------------------------- pd motors


def test_kp_sets_the_frequency_of_the_response(tmp_path):
    sim = made(tmp_path, WHEEL, PD.replace("kd = 0.1", "kd = 0.0"), dt=0.0005, kp=P["kp"](low=1, high=50))
    kp = np.array([2.5, 10.0, 40.0])
    sim.apply({"kp": kp})
    sim.reset(qpos=np.array([0.3]))
    q, _ = roll(sim, 0.0, 600)
    t = np.arange(1, 601) * 0.005
    for world in range(3):
        i = np.flatnonzero(np.diff(np.sign(q[:, world])))
        crossings = t[i] + 0.005 * q[i, world] / (q[i, world] - q[i + 1, world])
        half_period = np.diff(crossings).mean()
        assert np.pi / half_period == pytest.approx(np.sqrt(kp[world] / INERTIA), rel=1e-3)


def test_kd_sets_the_damping_of_the_response(tmp_path):
    sim = made(tmp_path, WHEEL, PD, dt=0.0001, kd=P["kd"](low=0, high=1))
    kd = np.array([0.02, 0.1, 0.3])
    sim.apply({"kd": kd})
    sim.reset(qpos=np.array([0.3]))
    q, _ = roll(sim, 0.0, 200)
    t = np.arange(1, 201)[:, None] * 0.005
    decay, natural = kd / (2 * INERTIA), np.sqrt(5.0 / INERTIA)
    damped = np.sqrt(natural**2 - decay**2)
    exact = 0.3 * np.exp(-decay * t) * (np.cos(damped * t) + decay / damped * np.sin(damped * t))
    assert np.abs(q - exact).max() < 1e-3


def test_strength_scales_gains_and_limit_alike(tmp_path):
    sim = made(tmp_path, WHEEL, PD + "torque_limit = 2.0\n", strength=P["strength"](low=0.1, high=2))
    s = np.array([0.5, 1.0, 1.3])
    sim.apply({"strength": s})
    assert torque(sim, 0.2)[:, 0] == pytest.approx(s * 5.0 * 0.2)
    assert torque(sim, 0.2, speed=1.5)[:, 0] == pytest.approx(s * (5.0 * 0.2 - 0.1 * 1.5))
    assert torque(sim, 9.0)[:, 0] == pytest.approx(s * 2.0)


def test_strength_scales_a_torque_command(tmp_path):
    sim = made(tmp_path, WHEEL, 'model = "torque"\ntorque_limit = 2.0\n', strength=P["strength"](low=0.1, high=2))
    s = np.array([0.5, 1.0, 1.3])
    sim.apply({"strength": s})
    assert torque(sim, 1.5)[:, 0] == pytest.approx(s * 1.5)
    assert torque(sim, -9.0)[:, 0] == pytest.approx(-s * 2.0)


def test_torque_limit_is_the_stall_torque(tmp_path):
    sim = made(tmp_path, WHEEL, PD + "torque_limit = 2.0\n", torque_limit=P["torque_limit"](low=0.1, high=9))
    limit = np.array([0.5, 2.0, 7.0])
    sim.apply({"torque_limit": limit})
    assert torque(sim, 9.0)[:, 0] == pytest.approx(limit)
    assert torque(sim, -9.0)[:, 0] == pytest.approx(-limit)


def test_velocity_motor_takes_kd(tmp_path):
    sim = made(tmp_path, WHEEL, 'model = "velocity"\nkd = 0.5\narmature = 0.005\n', kd=P["kd"](low=0, high=1))
    kd = np.array([0.1, 0.5, 0.9])
    sim.apply({"kd": kd})
    assert torque(sim, 2.0, speed=0.5)[:, 0] == pytest.approx(kd * 1.5)


@pytest.mark.parametrize("limit", ["", "torque_limit = 2.0\n"])
@pytest.mark.parametrize(
    "motor", [PD, PD + WOUND, 'model = "torque"\n', 'model = "velocity"\nkd = 0.5\n', 'model = "voltage"\n' + WOUND]
)
def test_strength_reads_back_on_every_sort_of_motor(tmp_path, motor, limit):
    params = {"strength": P["strength"](low=0.1, high=2)}
    if motor == PD + WOUND:
        params["R"] = P["resistance"](low=0.1, high=5)
    sim = made(tmp_path, WHEEL, motor + limit, **params)
    s = np.array([0.5, 1.0, 1.3])
    sim.apply({"strength": s})
    assert sim.e["strength"] == pytest.approx(s, rel=1e-12)


# -------------------------------------------------------------------- windings


@pytest.mark.parametrize("speed", [0.0, 5.0, 12.0, 19.0, 20.0])
def test_torque_falls_with_speed_along_the_line_of_the_windings(tmp_path, speed):
    sim = made(tmp_path, WHEEL, PD + WOUND, K=P["torque_constant"](low=0.1, high=2))
    constant = np.array([0.3, 0.6, 1.2])
    sim.apply({"K": constant})
    line = constant / R * (V - constant * speed)
    assert torque(sim, 1e3, speed)[:, 0] == pytest.approx(line, abs=1e-9)
    within = np.minimum(0.05 * 5.0 - 0.1 * speed, line)  # what the loop asks for, as long as the voltage lasts
    assert torque(sim, 0.05, speed)[:, 0] == pytest.approx(np.maximum(within, -constant / R * (V + constant * speed)))


def test_resistance_and_voltage_set_stall_torque_and_no_load_speed(tmp_path):
    sim = made(tmp_path, WHEEL, PD + WOUND, R=P["resistance"](low=0.1, high=5), V=P["voltage"](low=1, high=50))
    ohm, volt = np.array([0.45, 0.9, 1.8]), np.array([6.0, 12.0, 24.0])
    sim.apply({"R": ohm, "V": volt})
    assert torque(sim, 1e3)[:, 0] == pytest.approx(K * volt / ohm)
    sim.reset()
    _, v = roll(sim, 1e6, 600)
    assert v[-1] == pytest.approx(volt / K, rel=1e-3)


def test_current_limit_at_stall_is_the_torque_limit_over_the_constant(tmp_path):
    sim = made(tmp_path, WHEEL, PD + WOUND + "torque_limit = 3.0\n", K=P["torque_constant"](low=0.1, high=2))
    constant = np.array([0.1, 0.6, 1.2])
    sim.apply({"K": constant})
    current = torque(sim, 1e3)[:, 0] / constant
    assert current == pytest.approx(np.minimum(V / R, 3.0 / constant))


def test_speed_limit_is_where_torque_ends(tmp_path):
    motor = PD + "voltage = 12.0\nspeed_limit = 20.0\ntorque_limit = 2.0\n"
    sim = made(tmp_path, WHEEL, motor, top=P["speed_limit"](low=5, high=50))
    top = np.array([10.0, 20.0, 40.0])
    sim.apply({"top": top})
    assert sim.e["top"] == pytest.approx(top, rel=1e-12)
    sim.reset()
    _, v = roll(sim, 1e6, 1500)
    assert v[-1] == pytest.approx(top, rel=1e-3)


def test_voltage_motor_follows_its_line(tmp_path):
    sim = made(
        tmp_path, WHEEL, 'model = "voltage"\n' + WOUND, s=P["strength"](low=0.1, high=2), V=P["voltage"](low=1, high=50)
    )
    s, volt = np.array([0.5, 1.0, 1.3]), np.array([6.0, 12.0, 24.0])
    sim.apply({"s": s, "V": volt})
    for u, speed in ((3.0, 0.0), (3.0, 4.0), (100.0, 4.0), (-100.0, 4.0)):
        line = s * K / R * (np.clip(u, -volt, volt) - K * speed)
        assert torque(sim, u, speed)[:, 0] == pytest.approx(line)
    assert {k: v.tolist() for k, v in sim.e.items()} == {"s": s.tolist(), "V": volt.tolist()}


def test_voltage_without_supply_in_the_robot_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="voltage"):
        made(
            tmp_path,
            WHEEL,
            f'model = "voltage"\ntorque_constant = {K}\nresistance = {R}\n',
            V=P["voltage"](low=1, high=50),
        )


THREE = WHEEL + WHEEL.replace("wheel", "second") + WHEEL.replace("wheel", "third")


def test_voltage_sag_drops_the_bus_at_stall(tmp_path):
    sim = made(
        tmp_path,
        THREE,
        'model = "pd"\nkp = 50.0\n' + LOCK + WOUND,
        sag=P["voltage_sag"](low=0, high=5),
        V=P["voltage"](low=1, high=50),
    )
    source = np.array([0.0, 0.1, 2.0])
    sim.apply({"sag": source})
    tau = torque(sim, np.array([1.0, 1.0, -1.0]))
    bus = V / (1 + 3 * source / R)
    assert np.abs(tau) == pytest.approx(np.repeat((K / R * bus)[:, None], 3, 1))
    assert sim.e["V"] == pytest.approx(V)  # the drop is not the supply
    tau = torque(sim, np.array([1.0, 0.05, -0.01]))  # two motors within their bounds draw 2.5 and 0.5 N·m
    bus = V - source * np.abs(tau).sum(1) / K
    assert tau[:2] == pytest.approx(np.stack([K / R * bus[:2], [2.5, 2.5], [-0.5, -0.5]], 1))
    assert np.abs(tau[2]) == pytest.approx([K / R * bus[2], min(2.5, K / R * bus[2]), 0.5])


def test_voltage_sag_reaches_motors_driven_by_voltage(tmp_path):
    sim = made(tmp_path, THREE, 'model = "voltage"\n' + LOCK + WOUND, sag=P["voltage_sag"](low=0, high=5))
    source = np.array([0.0, 0.1, 0.5])
    sim.apply({"sag": source})
    assert torque(sim, 100.0) == pytest.approx(np.repeat((K / R * V / (1 + 3 * source / R))[:, None], 3, 1))
    assert torque(sim, np.array([2.0, 0.0, 0.0]))[:, 0] == pytest.approx(K / R * 2.0)


def test_voltage_sag_needs_a_supply(tmp_path):
    with pytest.raises(InputError, match="supply voltage"):
        made(tmp_path, WHEEL, PD, sag=P["voltage_sag"](low=0, high=5))


def test_cogging_has_its_period_and_amplitude(tmp_path):
    sim = made(tmp_path, WHEEL, PD + WOUND, worlds=64, cogging=P["cogging"](low=0, high=1, poles=7.0))
    sim.apply({"cogging": 0.25})
    angle = np.linspace(0, 2 * np.pi, 64)
    sim.reset(qpos=angle[:, None])
    sim.advance(angle[:, None, None])  # the loop asks for nothing
    ripple = np.array(sim.engine.derived("actuator_force"))[:, 0]
    assert ripple == pytest.approx(0.25 * np.sin(7 * angle), abs=1e-9)


def test_winding_warms_up_like_a_first_order_system(tmp_path):
    heat = P["thermal"](low=0.5, high=8, capacity=2.0, coefficient=1e-12)
    sim = made(tmp_path, WHEEL, 'model = "pd"\nkp = 5.0\n' + LOCK + WOUND, dt=0.005, period=0.05, thermal=heat)
    ohm = np.array([1.0, 2.0, 4.0])
    sim.apply({"thermal": ohm})
    sim.reset()
    power = R * (5.0 * 0.3 / K) ** 2
    for k in range(200):
        sim.step(np.array([0.3]))
        t = (k + 1) * 0.05
        assert sim.engine.act[:, 0] == pytest.approx(power * ohm * -np.expm1(-t / (2.0 * ohm)), rel=3e-3)


def test_a_hot_winding_loses_torque(tmp_path):
    heat = P["thermal"](low=0.5, high=8, capacity=2.0, coefficient=0.0039)
    sim = made(tmp_path, WHEEL, PD + WOUND, thermal=heat)
    rise = np.array([0.0, 40.0, 100.0])
    hot = R * (1 + 0.0039 * rise)
    for u, speed in ((0.3, 0.0), (1e3, 0.0), (1e3, 12.0)):
        sim.reset(qvel=np.array([speed]))
        sim.engine.act[:, 0] = rise
        sim.advance(np.full((3, 1, 1), u))
        drive = min(R / K * (5.0 * u - 0.1 * speed) + K * speed, V)
        assert np.array(sim.engine.derived("actuator_force"))[:, 0] == pytest.approx(K * (drive - K * speed) / hot)


# -------------------------------------------------------------------- inertia, play and springs between motor and link


def test_armature_is_inertia(tmp_path):
    sim = made(tmp_path, WHEEL, 'model = "torque"\narmature = 0.005\n', armature=P["armature"](low=0, high=1))
    armature = np.array([0.0, 0.01, 0.08])
    sim.apply({"armature": armature})
    sim.reset()
    _, v = roll(sim, 0.3, 40)
    assert v[-1] == pytest.approx(0.3 / (0.02 + armature) * 0.2)


def test_damping_slows_down_exponentially(tmp_path):
    sim = made(tmp_path, WHEEL, 'model = "torque"\narmature = 0.005\n', dt=0.0002, damping=P["damping"](low=0, high=1))
    damping = np.array([0.0, 0.02, 0.1])
    sim.apply({"damping": damping})
    sim.reset(qvel=np.array([4.0]))
    _, v = roll(sim, 0.0, 100)
    assert v[-1] == pytest.approx(4.0 * np.exp(-damping / INERTIA * 0.5), rel=2e-3)


def test_backlash_is_lost_motion_at_reversal(tmp_path):
    motor = 'model = "pd"\nkp = 50.0\nkd = 1.0\narmature = 0.02\n'
    sim = made(tmp_path, PENDULUM, motor, backlash=P["backlash"](low=0.001, high=0.1))
    width = np.array([0.005, 0.02, 0.06])
    sim.apply({"backlash": width})
    assert sim.e["backlash"] == pytest.approx(width, rel=1e-12)
    play = int(sim.model.joint("arm_play").qposadr[0])
    ends = []
    for side in (1.0, -1.0):  # gravity presses the link against one side of the play, then against the other
        sim.reset(qpos=np.array([0.8 * side, 0.0]))
        for _ in range(400):
            sim.step(np.array([0.8 * side]))
        ends.append(sim.engine.qpos[:, play].copy())
    assert ends[1] - ends[0] == pytest.approx(width, abs=3e-4)


def test_the_motor_turns_through_the_play_before_the_link_moves(tmp_path):
    motor = 'model = "pd"\nkp = 400.0\nkd = 4.0\narmature = 0.02\n'
    sim = made(tmp_path, WHEEL, motor, backlash=P["backlash"](low=0.001, high=0.1))
    width = np.array([0.005, 0.02, 0.06])
    sim.apply({"backlash": width})
    half = 0.5 * width
    sim.reset(qpos=np.stack([half, -half], 1))  # the motor is at one end of the play, the link at 0
    motor_at, link_at = [], []
    for k in range(200):
        sim.step((half - 0.0005 * (k + 1))[:, None])  # it goes to the other one at 0.1 rad/s
        motor_at.append(sim.engine.qpos[:, 0].copy())
        link_at.append(sim.engine.qpos.sum(1))
    motor_at, link_at = np.array(motor_at), np.array(link_at)
    for world in range(3):
        first = np.argmax(link_at[:, world] < -2e-4)
        assert half[world] - motor_at[first, world] == pytest.approx(width[world], abs=1.5e-3)


def test_the_encoder_sits_on_the_motors_side_of_the_play(tmp_path):
    motor = 'model = "pd"\nkp = 50.0\nkd = 1.0\narmature = 0.02\n'
    sim = made(tmp_path, PENDULUM, motor, backlash=P["backlash"](low=0.001, high=0.1))
    sim.reset(qpos=np.array([0.2, 0.02]))
    assert sim.sense()["joint_pos"][:, 0] == pytest.approx(0.2)


def test_a_series_spring_winds_up_under_load(tmp_path):
    motor = 'model = "pd"\nkp = 500.0\nkd = 5.0\narmature = 0.02\n'
    spring = P["spring_stiffness"](low=5, high=500, damping=0.3)
    sim = made(tmp_path, PENDULUM, motor, spring_stiffness=spring)
    stiffness = np.array([10.0, 40.0, 160.0])
    sim.apply({"spring_stiffness": stiffness})
    sim.reset(qpos=np.array([0.6, 0.0]))
    for _ in range(1200):
        sim.step(np.array([0.6]))
    link = sim.engine.qpos.sum(1)
    assert -sim.engine.qpos[:, 1] * stiffness == pytest.approx(0.5 * 9.81 * 0.3 * np.sin(link), rel=1e-3)


def test_a_series_spring_resonates_with_the_link(tmp_path):
    spring = P["spring_stiffness"](low=0.5, high=50, damping=0.0)
    sim = made(tmp_path, WHEEL, 'model = "torque"\narmature = 1e6\n', dt=0.0005, spring_stiffness=spring)
    stiffness = np.array([1.0, 4.0, 16.0])
    sim.apply({"spring_stiffness": stiffness})
    sim.reset(qpos=np.array([0.0, 0.1]))
    deflection = []
    for _ in range(600):
        sim.step(np.zeros(1))
        deflection.append(sim.engine.qpos[:, 1].copy())
    deflection, t = np.array(deflection), np.arange(1, 601) * 0.005
    for world in range(3):
        y = deflection[:, world]
        i = np.flatnonzero(np.diff(np.sign(y)))
        crossings = t[i] + 0.005 * y[i] / (y[i] - y[i + 1])
        assert np.pi / np.diff(crossings).mean() == pytest.approx(np.sqrt(stiffness[world] / (0.02 + 1e-5)), rel=1e-3)


def test_a_rotor_on_the_link_before_couples_the_two_joints():
    """M = JᵀJ I with J = (1, way gear): I on the first joint, gear² I on its own, way gear I between them."""
    params = {"rotor": sf.rotor_inertia(".*_calf_joint", low=0.0, high=2e-4)}
    sim = sf.Sim(sf.load("go2").suspended(), sf.Params(**params), worlds=2, noise=False)
    inertia, gear = 1.5e-4, 12.13
    sim.apply({"rotor": np.array([0.0, inertia])})
    matrices = []
    for world in range(2):
        model, data = sim.engine.single(world)
        mujoco.mj_forward(model, data)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        matrices.append(full)
    more = matrices[1] - matrices[0]
    for leg in ("FL", "FR", "RL", "RR"):
        thigh, calf = (int(sim.model.joint(f"{leg}_{part}_joint").dofadr[0]) for part in ("thigh", "calf"))
        pair = more[np.ix_([thigh, calf], [thigh, calf])]
        exact = inertia * np.array([[1.0, -gear], [-gear, gear**2]])
        np.testing.assert_allclose(pair, exact, atol=1e-12)
    assert np.abs(more).sum() == pytest.approx(4 * np.abs(exact).sum())


@pytest.mark.parametrize(("robot", "of", "more", "sentence"), [
    ("go2", ".*_calf_joint", {"way": 2}, "is not -1"),
    ("go2", ".*_hip_joint", {}, "nothing would couple"),
    ("go2", ".*_thigh_joint", {}, "nothing would couple"),
])  # fmt: skip
def test_a_rotor_that_cannot_be_coupled_is_refused(robot, of, more, sentence):
    with pytest.raises(sf.InputError, match=sentence):
        sf.Sim(sf.load(robot), sf.Params(rotor=sf.rotor_inertia(of, low=0.0, high=1e-3, **more)))


def test_a_rotor_follows_a_joint_whose_axis_points_the_other_way(tmp_path):
    folder = tmp_path / "mirrored"
    shutil.copytree(sf.load("go2").folder, folder)
    model = folder / "model.xml"
    model.write_text(model.read_text().replace('<joint name="FL_thigh_joint" axis="0 1 0" range="-1.5708 3.4907"/>',
                                               '<joint name="FL_thigh_joint" axis="0 -1 0" range="-3.4907 1.5708"/>'))  # fmt: skip
    file = folder / "robot.toml"
    file.write_text(file.read_text().replace("FL_thigh_joint = ", "FL_thigh_joint = -"))
    sim = sf.Sim(sf.load(folder).suspended(), sf.Params(rotor=sf.rotor_inertia(".*_calf_joint", low=0.0, high=2e-4)))
    assert sim.e["rotor"][0] == 0.0  # without a stated nominal it starts at its lower bound
    ends = {sim.model.tendon(i).name: sim.model.wrap_prm[2 * i] for i in range(sim.model.ntendon)}
    assert ends == {
        "FR_calf_joint_rotor": 1.0,
        "FL_calf_joint_rotor": -1.0,
        "RR_calf_joint_rotor": 1.0,
        "RL_calf_joint_rotor": 1.0,
    }


def test_a_rotor_needs_a_gear():
    go2 = sf.load("go2")
    bare = dataclasses.replace(go2, actuators=tuple(dataclasses.replace(a, gear=None) for a in go2.actuators))
    with pytest.raises(sf.InputError, match="'rotor': the robot file states no gear for 'FR_calf_joint'"):
        sf.Sim(bare, sf.Params(rotor=sf.rotor_inertia(".*_calf_joint", low=0.0, high=1e-3)))
