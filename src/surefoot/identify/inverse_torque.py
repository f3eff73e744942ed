"""The equation error of inverse dynamics, from the simulator's own terms: no regressor is written by hand.

    r = τ_motor(u, q, q̇; e) + τ_passive(q, q̇; e) - M(q; e) q̈ - c(q, q̇; e) - sign(q̇) F(q̇, τ; e)

M, c (gravity, Coriolis), the motors and springs come from the compiled model with e applied; F is the dry friction of laws.py. One world
computes one instant, so a call of the engine's forward pass serves a thousand instants. An instant knows what was read and sent at its
time, delays included, but no contact, no stop, no heat and no chance: Params that act through those are refused by name.
"""

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.identify.inverse_motion import Motion
from surefoot.params import KINDS, E, Params
from surefoot.sim import Sim
from surefoot.sim.check import RANDOM
from surefoot.sim.commands import held_mean
from surefoot.sim.refusals import ON_BASE
from surefoot.sim.slots import MOTOR_TABLES

WORLDS = 1024
"""Instants computed in one call."""
TERMS = ("M", "qfrc_bias", "qfrc_passive", "qfrc_actuator")
TOUCH = "it acts where something is touched, and contact forces are no part of the equation of motion"
STOPS = "it acts at the joints' stops, and samples near them are left out"
UNREAD = "it acts on a sensor that inverse dynamics does not read"
JOINTS = dict.fromkeys(("backlash", "spring_stiffness", "link_compliance"), "it adds a joint that no encoder reads")
PAST = {
    "thermal": "the windings' warmth comes from all that went before",
    "sensor_period": "a reading that stays until the next sample has no acceleration",
    "floor_vibration": "how far the floor was in its swing is not recorded",
}
"""Kinds that act at every instant, by what an instant does not know."""
UNSEEN = {
    **{k.name: UNREAD for k in KINDS.values() if k.group == "sensor" and k.name not in ("encoder_bias", "sensor_delay")},
    **{k.name: TOUCH for k in KINDS.values() if k.group == "contact"},
    **{k.name: "it is a setting of the simulator, and nothing is simulated" for k in KINDS.values() if k.group == "numerics"},
    **dict.fromkeys(("radius", "sole_wear", "roughness", "step_height"), TOUCH),
    **dict.fromkeys(("stop_shift", "stop_softness", "stop_damping"), STOPS),
    **dict.fromkeys(ON_BASE, "it acts on a free base, and this one is bolted down"),
    **dict.fromkeys(RANDOM, "it is the size of something random, which the equation of motion has no term for"),
    "encoder_quantum": "it rounds the readings, which the filter takes for noise",
    **PAST,
    **JOINTS,
}  # fmt: skip
"""Kinds that the equation error does not depend on, and why."""
MOTORS = (*MOTOR_TABLES, "voltage_sag", "command_delay")
"""Kinds that act on the motors' torque alone."""


class EquationError:
    """r of motions under any e; `measured` puts the recorded torque in the place of the motor's."""

    def __init__(self, sim: Sim, *, measured: bool = False):
        joints, name = sim.robot.joints, sim.robot.name
        if sim.robot.base is not None:
            raise InputError(
                f"inverse dynamics needs a robot that is bolted down, '{name}' has a free base: "
                f"use the simulation mode, or robot.suspended()"
            )
        if sim.residual is not None:
            raise InputError(
                "inverse dynamics cannot allow for this Sim's residual: use sim.replace(residual=None), or the simulation mode"
            )
        added = [n for n, p in sim.params.items() if p.kind in JOINTS]
        if added:
            raise InputError(
                f"inverse dynamics cannot allow for '{added[0]}' ({sim.params[added[0]].kind}): it adds degrees of freedom that no "
                f"encoder reads; make the Sim without it, or use the simulation mode"
            )
        if sim.model.nv != len(joints) or sim.model.nq != len(joints):
            raise InputError(
                f"the model of '{name}' has {sim.model.nv} degrees of freedom and its robot file names {len(joints)} joints: "
                f"inverse dynamics needs all of them measured"
            )
        if sim.model.na and not measured and not sim.physics.has("thermal"):
            raise InputError(
                f"the motors of '{name}' have a memory of their own, which inverse dynamics does not know: use torque='measured'"
            )
        self.sim, self.measured = sim, measured
        self._rows, self._cols, self._from = _matrix_map(sim.model)

    def __call__(self, e: E, move: Motion) -> np.ndarray:
        """r (joints, T) [N·m] of one motion under one row of e; e must hold every Param of the sim."""
        worker = self._worker(e, len(move.t))
        sensors, tables = worker.sensors, worker.physics.tables
        age = reading_ages(worker, "encoder")
        at = move.t - age.max()  # Row k is the instant at[k]: the oldest readings need not be looked for.
        q, v, a = (move.read(x, age - age.max()) for x in (move.q, move.v, move.a))
        q = q - tables["encoder_bias"][0]
        term = self._terms(worker, q, v, None if self.measured else self._command(e, worker, move, at))
        motor = term["qfrc_actuator"]
        if self.measured:
            motor = np.empty_like(motor)
            motor[:, sensors.dq] = move.read(move.torque, reading_ages(worker, "motor_torque") - age.max())
        acceleration = np.zeros((len(move.t), self.sim.model.nv))
        acceleration[:, sensors.dq] = a
        inertia = np.zeros_like(acceleration)
        for row, col, place in zip(self._rows, self._cols, self._from, strict=True):
            inertia[:, row] += term["M"][:, place] * acceleration[:, col]
        smooth = motor + term["qfrc_passive"] - inertia - term["qfrc_bias"]
        friction = dry_friction(worker, q, v, motor[:, sensors.dq], -term["qfrc_bias"][:, sensors.dq])
        return (smooth[:, sensors.dq] - np.sign(v) * friction).T

    def _worker(self, e: E, count: int) -> Sim:
        """A Sim of up to `count` instants, all under one e."""
        worker = self.sim.replayer(min(WORLDS, 1 << (count - 1).bit_length()))
        worker.apply({name: np.repeat(np.asarray(v)[:1], worker.worlds, axis=0) for name, v in e.items()})
        return worker

    def _terms(self, worker: Sim, q: np.ndarray, v: np.ndarray, u: np.ndarray | None) -> dict[str, np.ndarray]:
        """The engine's terms at the states q, v (T, joints) under motor commands u (T, nu), None: at rest; (T, ...) each."""
        engine, sensors, count = worker.engine, worker.sensors, len(q)
        engine.watch(*TERMS)
        parts: dict[str, list[np.ndarray]] = {name: [] for name in TERMS}
        for first in range(0, count, worker.worlds):
            n = min(worker.worlds, count - first)
            here = slice(first, first + n)
            engine.qpos[:n, sensors.q], engine.qvel[:n, sensors.dq] = q[here], v[here]
            engine.ctrl[:n] = worker.rest_command if u is None else u[here]
            if u is not None and "sag_law" in worker.laws.names:
                worker.laws.bus.write(engine.ctrl)
            engine.forward(np.arange(n))
            for name in TERMS:
                parts[name].append(np.array(engine.derived(name)[:n]))
        return {name: np.concatenate(p) for name, p in parts.items()}

    def _command(self, e: E, worker: Sim, move: Motion, at: np.ndarray) -> np.ndarray:
        """What the motors get at instants `at` (T,), (T, nu): delayed, and slewed or spun up where motors need time.

        The engine moves with the speed that a step ends with, so a command that acts over [t, t + h] shows in positions about t: the
        mean over one sample is taken about t + h / 2, as a replay would have it.
        """
        h, sent, command = worker.timestep, move.sent, move.command
        delay = float(worker.physics.tables["command_delay"][0])
        if "rate_limit" in worker.built.features or "rotor" in worker.physics.motors.style:
            one = self._worker(e, 1)
            sent = np.arange(min(at[0], move.sent[0]) - move.dt, at[-1] + move.dt, h)
            command = held_mean(move.sent, move.command, sent - delay, h)
            one.commands.slewed[:], one.commands.spin[:] = command[0], command[0]
            command, delay = one.shape_control(command[None])[0], 0.0
        return move.held(at - delay + 0.5 * h, sent, command)

    def stops(self, e: E) -> np.ndarray:
        """Readings at which joints come to their stops under an e, (2, joints); infinite where there are none."""
        worker, model = self._worker(e, 1), self.sim.model
        rows = [model.joint(joint).id for joint in self.sim.robot.joints]
        ends = np.asarray(worker.engine.expanded.get("jnt_range", [model.jnt_range]))[0][rows]
        ends = np.where(np.asarray(model.jnt_limited)[rows][:, None], ends, [-np.inf, np.inf])
        return ends.T + worker.physics.tables["encoder_bias"][0]


def reading_ages(sim: Sim, kind: str) -> np.ndarray:
    """How old the readings that sensors of one kind deliver of each joint are in world 0, (joints,) [s]."""
    joints, out = sim.robot.joints, np.zeros(len(sim.robot.joints))
    names = joints if kind == "encoder" else sim.physics.motors.names
    for number in sim.sensors.of_kind(kind):
        rows = [joints.index(names[k]) for k in sim.sensors.columns[number] if names[k] in joints]
        out[rows] = sim.physics.tables["sensor_delay"][0, number]
    return out


def refuse(sim: Sim, fitted: Params, given: E, *, measured: bool) -> None:
    """Refuse, by name, Params that the equation error does not depend on, and given values (one row) that it cannot allow for."""
    for name, param in sim.params.items():
        heat = param.kind == "thermal"
        if name in fitted:
            reason = _unseen(sim, name, measured)
            if reason:
                raise InputError(
                    f"inverse dynamics cannot fit '{name}' ({param.kind}): {reason}; leave it out with only="
                )
        elif param.kind in PAST and given[name].any() and _read(sim, name, measured) and not (heat and measured):
            way = "make the Sim without it" if heat else f"give fixed={{'{name}': 0.0}}"
            raise InputError(
                f"inverse dynamics cannot allow for '{name}' ({param.kind}): {PAST[param.kind]}; {way}, or use the simulation mode"
            )


def _unseen(sim: Sim, name: str, measured: bool) -> str:
    """Why the equation error does not depend on a Param, empty where it does."""
    param = sim.params[name]
    if measured and param.kind in MOTORS:
        return "torque='measured' puts the recorded torque in the place of the motors'"
    if param.kind == "sensor_delay" and not _read(sim, name, measured):
        return UNREAD
    if (
        param.kind == "sensor_delay"
        and measured
        and not param.each
        and len(_read(sim, name, True)) == len(_reading(sim, True))
    ):
        return "positions and torques stay as old as each other"
    if param.kind in UNSEEN:
        return UNSEEN[param.kind]
    return "it takes chosen values, so it has no derivative" if param.choices is not None else ""


def _reading(sim: Sim, measured: bool) -> set[int]:
    """Numbers of the sensors whose readings are used."""
    return {*sim.sensors.of_kind("encoder"), *(sim.sensors.of_kind("motor_torque") if measured else ())}


def _read(sim: Sim, name: str, measured: bool) -> set[int]:
    """Targets of a Param that the equation error looks at: of sensors, those that are read; of anything else all."""
    ids = set(sim.physics.slots[name].ids.tolist())
    return ids & _reading(sim, measured) if sim.params[name].about.target == "sensor" else ids


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
