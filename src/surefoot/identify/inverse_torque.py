"""The equation error of inverse dynamics, from the simulator's own terms: no regressor is written by hand.

    r = τ_motor(u, q, q̇; e) + τ_passive(q, q̇; e) - M(q; e) q̈ - c(q, q̇; e) - sign(q̇) F(q̇, τ; e)

M, c (gravity, Coriolis), the motors and springs come from the compiled model with e applied; F is the dry friction of laws.py. One world
computes one instant, so a call of the engine's forward pass serves a thousand instants.
"""

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.identify.inverse_motion import Motion
from surefoot.params import E
from surefoot.sim import Sim

WORLDS = 1024
"""Instants computed in one call."""
TERMS = ("M", "qfrc_bias", "qfrc_passive", "qfrc_actuator")


class EquationError:
    """r of motions under any e; `measured` puts the recorded torque in the place of the motor's."""

    def __init__(self, sim: Sim, *, measured: bool = False):
        joints = sim.robot.joints
        if sim.robot.base is not None:
            raise InputError(
                f"inverse dynamics needs a robot that is bolted down, '{sim.robot.name}' has a free base: "
                f"use the simulation mode, or robot.suspended()"
            )
        if sim.model.nv != len(joints) or sim.model.nq != len(joints):
            raise InputError(
                f"the model of '{sim.robot.name}' has {sim.model.nv} degrees of freedom and {len(joints)} measured joints: "
                f"leave out Params that add joints (backlash, spring_stiffness, link_compliance)"
            )
        self.sim, self.measured = sim, measured
        self._rows, self._cols, self._from = _matrix_map(sim.model)

    def __call__(self, e: E, move: Motion) -> np.ndarray:
        """r (joints, T) [N·m] of one motion under one row of e; e must hold every Param of the sim."""
        count = len(move.t)
        worker = self.sim.replayer(min(WORLDS, 1 << (count - 1).bit_length()))
        worker.apply({name: np.repeat(np.asarray(v)[:1], worker.worlds, axis=0) for name, v in e.items()})
        tables, sensors, engine = worker.physics.tables, worker.sensors, worker.engine
        engine.watch(*TERMS)
        q = move.q - tables["encoder_bias"][0]
        u = move.delayed(float(tables["command_delay"][0]))
        parts: dict[str, list[np.ndarray]] = {name: [] for name in TERMS}
        for first in range(0, count, worker.worlds):
            n = min(worker.worlds, count - first)
            here = slice(first, first + n)
            engine.qpos[:n, sensors.q], engine.qvel[:n, sensors.dq], engine.ctrl[:n] = q[here], move.v[here], u[here]
            engine.forward(np.arange(n))
            for name in TERMS:
                parts[name].append(np.array(engine.derived(name)[:n]))
        term = {name: np.concatenate(p) for name, p in parts.items()}
        motor = term["qfrc_actuator"]
        if self.measured:
            motor = np.empty_like(motor)
            motor[:, sensors.dq] = move.torque
        acceleration = np.zeros((count, self.sim.model.nv))
        acceleration[:, sensors.dq] = move.a
        inertia = np.zeros((count, self.sim.model.nv))
        for row, col, place in zip(self._rows, self._cols, self._from, strict=True):
            inertia[:, row] += term["M"][:, place] * acceleration[:, col]
        smooth = motor + term["qfrc_passive"] - inertia - term["qfrc_bias"]
        friction = dry_friction(worker, q, move.v, motor[:, sensors.dq], -term["qfrc_bias"][:, sensors.dq])
        return (smooth[:, sensors.dq] - np.sign(move.v) * friction).T


def _matrix_map(model: mujoco.MjModel) -> tuple[list[int], list[int], list[int]]:
    """Where the entries of the full mass matrix lie in the engine's sparse lower triangle: rows, columns, places."""
    rows, cols, places = [], [], []
    for i in range(model.nv):
        for k in range(int(model.M_rownnz[i])):
            place = int(model.M_rowadr[i]) + k
            j = int(model.M_colind[place])
            for row, col in {(i, j), (j, i)}:
                rows.append(row)
                cols.append(col)
                places.append(place)
    return rows, cols, places


def dry_friction(sim: Sim, q: np.ndarray, v: np.ndarray, motor: np.ndarray, external: np.ndarray) -> np.ndarray:
    """Friction that does not vanish with speed, (T, joints) [N·m], of moving joints: the law of laws.py with the e of world 0."""
    t = {name: table[0] for name, table in sim.physics.tables.items() if table.ndim > 1}
    if "friction_law" not in sim.built.features:
        return np.broadcast_to(t["coulomb"], v.shape)
    through = np.abs(motor - external)
    slow, slow_load = (np.exp(-((np.abs(v) / speed) ** shape)) for speed, shape in sim.laws.knees.values())
    force = t["coulomb"] + t["stribeck"] * slow + (t["load_friction"] + t["load_stribeck"] * slow_load) * through
    force = force + np.abs(t["motor_friction"] * motor - t["external_friction"] * external)
    force = force + np.where(motor * external < 0, t["quadratic_friction"] * through**2, 0.0)
    force = np.maximum(force + t["coulomb_slope"] * (q - sim.laws.default_pose), 0.0)
    asymmetry = t["coulomb_asymmetry"] + t["damping_asymmetry"] * np.abs(v)
    return np.maximum(force + np.sign(v) * asymmetry, 0.0)
