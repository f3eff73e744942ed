"""Truth tests of joint friction: the engine against a scalar integration of the friction-budget equations (BAM M1..M6).

τ_stop = I/dt dq + τ_m + τ_e        τ_f = -sign(τ_stop) min(|τ_stop|, F + D |dq|)
F = Kc + Kp q + (Ks + Ksl |τ_m - τ_e|) exp(-|dq/vs|^a) + Kl |τ_m - τ_e| + |Km τ_m - Ke τ_e| + Kq (τ_m - τ_e)² while they oppose
"""

import numpy as np
import pytest

from rigs import PENDULUM, WHEEL, rig
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import Params
from surefoot.sim import Sim

MOTOR = 'model = "torque"\narmature = 0.005\n'
INERTIA, WEIGHT = 0.05, 0.5 * 9.81 * 0.3  # of the pendulum with its armature [kg·m²], [N·m]
WHEEL_INERTIA = 0.025
SPEED, SHAPE = 0.4, 1.5
LAW = {"speed": SPEED, "shape": SHAPE}


def made(folder, bodies, *, worlds, dt=0.0005, **params):
    return Sim(rig(folder, bodies, motor=MOTOR, dt=dt), Params(**params), worlds=worlds, noise=False)


def budget(k, motor, load, q, rate):
    """F of the equations above; k maps kinds to (worlds,) values."""
    through = np.abs(motor - load)
    slow = np.exp(-(np.abs(rate / SPEED) ** SHAPE))
    F = k["coulomb"] + (k["stribeck"] + k["load_stribeck"] * through) * slow + k["load_friction"] * through
    F = F + np.abs(k["motor_friction"] * motor - k["external_friction"] * load)
    F = F + np.where(motor * load < 0, k["quadratic_friction"] * through**2, 0.0)
    return np.maximum(F + k["coulomb_slope"] * q, 0.0)


KINDS = (
    "coulomb", "stribeck", "load_friction", "load_stribeck", "motor_friction", "external_friction",
    "quadratic_friction", "damping", "coulomb_slope",
)  # fmt: skip


def integrate(e, u, q, period, steps, dt=5e-4):
    """Positions (steps, worlds) of the pendulum under the command u(t), held over each period."""
    worlds = max(np.size(v) for v in e.values())
    k = {kind: np.broadcast_to(np.asarray(e.get(kind, 0.0), float), (worlds,)) for kind in KINDS}
    q, dq, out = np.full(worlds, float(q)), np.zeros(worlds), []
    for step in range(steps):
        motor = u(step * period)
        for _ in range(round(period / dt)):
            load = -WEIGHT * np.sin(q)
            stop = INERTIA / dt * dq + motor + load
            limit = budget(k, motor, load, q, dq) + k["damping"] * np.abs(dq)
            dq = dq + dt / INERTIA * (motor + load - np.sign(stop) * np.minimum(np.abs(stop), limit))
            q = q + dt * dq
        out.append(q)
    return np.array(out)


def simulate(sim, e, u, q, steps):
    sim.apply(e)
    sim.reset(qpos=np.array([float(q)]))
    out = []
    for step in range(steps):
        sim.step(np.array([u(step * sim.control_dt)]))
        out.append(sim.truth()["joint_pos"][:, 0])
    return np.array(out)


def sway(t):
    """A torque that swings the pendulum, reverses it and lets it stick."""
    return 0.9 * np.sin(2 * np.pi * 0.9 * t) + 0.3


def params_of(*kinds):
    return {
        kind: P[kind](low=-5 if kind == "coulomb_slope" else 0, high=5, **(LAW if "stribeck" in kind else {}))
        for kind in kinds
    }


def difference(folder, e, u=sway, q=0.5, steps=300):
    """Largest gap between engine and equations [rad], and between the worlds with most and least friction [rad]."""
    worlds = max(np.size(v) for v in e.values())
    sim = made(folder, PENDULUM, worlds=worlds, **params_of(*e))
    ours, exact = simulate(sim, e, u, q, steps), integrate(e, u, q, 0.005, steps)
    return np.abs(ours - exact).max(), np.abs(exact[:, 0] - exact[:, -1]).max()


ALONE = {
    "coulomb": [0.0, 0.1, 0.4], "damping": [0.0, 0.02, 0.1], "stribeck": [0.0, 0.1, 0.4],
    "load_friction": [0.0, 0.1, 0.3],
    "load_stribeck": [0.0, 0.1, 0.3], "motor_friction": [0.0, 0.1, 0.3], "external_friction": [0.0, 0.1, 0.3],
    "quadratic_friction": [0.0, 0.05, 0.15], "coulomb_slope": [-0.3, 0.1, 0.4],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_friction_alone_follows_the_budget_equations(tmp_path, kind):
    gap, effect = difference(tmp_path, {kind: np.array(ALONE[kind])})
    assert effect > 0.1
    assert gap < 3e-3


MODELS = {
    "M1": {"coulomb": 0.2, "damping": 0.03},
    "M2": {"coulomb": 0.1, "damping": 0.03, "stribeck": 0.15},
    "M3": {"coulomb": 0.05, "damping": 0.03, "load_friction": 0.2},
    "M4": {"coulomb": 0.05, "damping": 0.03, "stribeck": 0.05, "load_friction": 0.15, "load_stribeck": 0.1},
    "M5": {"coulomb": 0.05, "damping": 0.03, "stribeck": 0.05, "motor_friction": 0.2, "external_friction": 0.3},
    "M6": {
        "coulomb": 0.05, "damping": 0.03, "stribeck": 0.05, "motor_friction": 0.1, "external_friction": 0.15,
        "quadratic_friction": 0.1,
    },
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_bam_models_follow_the_budget_equations(tmp_path, model):
    e = {kind: np.array([0.0, 0.5 * value, value]) for kind, value in MODELS[model].items()}
    gap, effect = difference(tmp_path, e)
    assert effect > 0.1
    assert gap < 3e-3


def test_coulomb_friction_stops_a_wheel_in_the_right_time(tmp_path):
    sim = made(tmp_path, WHEEL, worlds=3, coulomb=P["coulomb"](low=0, high=1))
    friction = np.array([0.05, 0.1, 0.2])
    sim.apply({"coulomb": friction})
    sim.reset(qvel=np.array([2.0]))
    speed = []
    for _ in range(220):
        sim.step(np.zeros(1))
        speed.append(sim.truth()["joint_vel"][:, 0])
    t = np.arange(1, 221)[:, None] * 0.005
    exact = np.maximum(2.0 - friction / WHEEL_INERTIA * t, 0.0)
    assert (np.abs(np.array(speed) - exact) < 1.01 * friction / WHEEL_INERTIA * 0.0005).all()  # one substep
    assert np.abs(speed[-1]).max() < 1e-9
    travelled = 2.0**2 / 2 / (friction / WHEEL_INERTIA)
    assert sim.truth()["joint_pos"][:, 0] == pytest.approx(travelled, rel=2e-3)


def test_coulomb_friction_holds_what_is_below_it_and_lets_go_above(tmp_path):
    sim = made(tmp_path, PENDULUM, worlds=2, coulomb=P["coulomb"](low=0, high=5))
    pull = WEIGHT * np.sin(0.5)
    sim.apply({"coulomb": np.array([1.02 * pull, 0.98 * pull])})
    sim.reset(qpos=np.array([0.5]))
    for _ in range(400):  # 2 s
        sim.step(np.zeros(1))
    moved = 0.5 - sim.truth()["joint_pos"][:, 0]
    assert abs(moved[0]) < 1e-5
    assert moved[1] > 0.01


def test_coulomb_of_a_sim_with_a_friction_law_reads_back(tmp_path):
    sim = made(tmp_path, PENDULUM, worlds=2, **params_of("coulomb", "stribeck"))
    e = {"coulomb": np.array([0.1, 0.2]), "stribeck": np.array([0.3, 0.4])}
    sim.apply(e)
    sim.step(np.array([0.5]))
    assert {k: v.tolist() for k, v in sim.e.items()} == {k: v.tolist() for k, v in e.items()}


def test_load_friction_acts_from_the_first_substep(tmp_path):
    sim = made(tmp_path, PENDULUM, worlds=1, load_friction=P["load_friction"](low=0, high=2))
    sim.apply({"load_friction": 1.5})  # the load alone holds itself
    sim.reset(qpos=np.array([0.5]))
    sim.step(np.zeros(1))
    assert sim.truth()["joint_vel"][0, 0] == pytest.approx(0.0, abs=1e-4)


def test_load_friction_feels_the_load_of_a_contact(tmp_path):
    wall = '<geom name="wall" type="box" size="0.1 0.1 0.1" pos="0.15 0 -0.3"/>'
    ball = '<joint name="arm" axis="0 1 0"/><geom name="tip" size="0.05" pos="0 0 -0.3" mass="0"/>'
    bodies = PENDULUM.replace('<joint name="arm" axis="0 1 0"/>', ball) + wall
    robot = rig(tmp_path, bodies, motor=MOTOR, gravity=0.0)
    sim = Sim(robot, Params(load_friction=P["load_friction"](low=0, high=1)), worlds=2, noise=False)
    sim.apply({"load_friction": np.array([0.05, 0.2])})
    sim.reset()
    for _ in range(200):
        sim.step(np.array([-2.0]))  # the arm leans on the wall, which pushes back as hard
    assert np.abs(sim.truth()["joint_vel"]).max() < 1e-3
    budget_now = sim.engine.field("dof_frictionloss")[:, 0]
    assert budget_now == pytest.approx(
        [0.05 * 4.0, 0.2 * 4.0], rel=0.15
    )  # |motor - wall|, but for what friction carries


def test_stribeck_terms_of_base_and_load_have_their_own_speeds(tmp_path):
    params = {
        "stribeck": P["stribeck"](low=0, high=1, speed=0.1, shape=1.0),
        "load_stribeck": P["load_stribeck"](low=0, high=1, speed=1.0, shape=2.0),
    }
    sim = made(tmp_path, PENDULUM, worlds=2, **params)
    sim.apply({"stribeck": np.array([0.2, 0.0]), "load_stribeck": np.array([0.0, 0.2])})
    sim.reset(qpos=np.array([0.5]), qvel=np.array([0.3]))
    sim.advance(np.zeros((2, 1, 1)))
    load = WEIGHT * np.sin(0.5)
    exact = [0.2 * np.exp(-3.0), 0.2 * load * np.exp(-0.09)]
    assert sim.engine.field("dof_frictionloss")[:, 0] == pytest.approx(exact, rel=1e-6)
