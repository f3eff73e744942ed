"""One joint on a servo under thousands of candidates at once: the Sim's own equations of a hinge with a pd motor, on arrays.

    motor     τ_m = clip(kp r (u - q) - kd v, ±limit), or with a supply: the voltage (R/K) τ + K v bounded by V - R_source |i|
    load      τ_e = -w sin(q - rest)
    friction  F   = Kc + Ks exp(-|v/vs|) + (Kl + Ksl exp(-|v/vsl|)) |τ_m - τ_e| + |Km τ_m - Ke τ_e| + Kq (τ_m - τ_e)² [opposed]
    motion    f   = clip(-M d (τ/M + b v), ±F),   v' = v + dt (τ_m + τ_e - D v + f) / (M + dt (D + kd)),   q' = q + dt v'

r is the log's firmware gain over the gain that the robot file states; d and b are the engine's own softness of dry friction. Without
this a structure search would need hours of simulation; a test holds both to the same trajectory.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.params import E, Params
from surefoot.sim import Sim

FRICTIONS = (
    "stribeck", "load_friction", "load_stribeck", "motor_friction", "external_friction", "quadratic_friction",
)  # fmt: skip
WINDINGS = ("torque_constant", "resistance", "voltage")
KINDS = (
    "kp", "kd", "torque_limit", "armature", "damping", "coulomb", *FRICTIONS, *WINDINGS, "voltage_sag", "command_delay", "encoder_bias",
    "mass",
)  # fmt: skip
"""Kinds of Params that the arrays can follow; a Sim has more."""
LOWEST = 1e-3
"""[V] The supply does not fall below this, as in the Sim."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Drive:
    """What is given to the joint in every substep, for L logs at once.

    Attributes:
        u: command, (n, C, L), or (n, 1, L) where no candidate differs in its delay.
        on: whether the motor has power, (n, L) of 0 and 1.
        gain: firmware gain over the gain that the robot file states, (L,).
        q0: angle that the encoder reads at the start, (L,).
        v0: speed at the start, (L,).
    """

    u: np.ndarray
    on: np.ndarray
    gain: np.ndarray
    q0: np.ndarray
    v0: np.ndarray


class Rig:
    """The constants of a Sim with one hinge and one pd motor, and what its Params stand for."""

    def __init__(self, sim: Sim):
        self.sim, model = sim, sim.model
        actuators = sim.robot.actuators
        if model.nv != 1 or model.jnt_type[0] != mujoco.mjtJoint.mjJNT_HINGE or [a.model for a in actuators] != ["pd"]:
            raise InputError(
                f"'{sim.robot.name}' is not one hinge with one pd motor (it has {model.nv} degrees of freedom): "
                f"a rig follows a single joint; use identify for whole robots"
            )
        self.params: Params = sim.params
        for name, param in self.params.items():
            if param.kind not in KINDS:
                raise InputError(
                    f"param '{name}' of kind '{param.kind}' cannot be followed by a rig (it knows: {', '.join(KINDS)})"
                )
        self.dt = sim.timestep
        kinds = [param.kind for param in self.params.values()]
        if len(set(kinds)) < len(kinds):
            raise InputError("a rig has one Param of each kind at most: take the doubled ones out")
        self.wound = bool(sim.physics.built.motors)
        self.knees = self._knees()
        self._measure(model)
        self.nominal = self._nominal()

    def _measure(self, model: mujoco.MjModel) -> None:
        """Inertia of the link, its weight's torque, and the engine's softness of dry friction, from the compiled model."""
        data = mujoco.MjData(model)
        torque = []
        for angle in (0.0, 0.5 * np.pi):
            data.qpos[0] = angle
            mujoco.mj_forward(model, data)
            torque.append(-float(data.qfrc_bias[0]))
        inertia = np.zeros((1, 1))
        mujoco.mj_fullM(model, data, inertia)
        self.inertia = float(inertia[0, 0] - model.dof_armature[0])
        self.weight = float(np.hypot(*torque))
        self.rest = float(np.arctan2(torque[0], -torque[1])) if self.weight else 0.0
        solref, solimp = model.dof_solref[0], model.dof_solimp[0]
        self.hold = float(np.clip(solimp[0], 1e-4, 0.9999))
        self.pull = 2.0 / (float(np.clip(solimp[1], 1e-4, 0.9999)) * max(float(solref[0]), 2 * self.dt))
        self.mass = {model.body(i).name: float(model.body_mass[i]) for i in range(model.nbody)}

    def _knees(self) -> dict[str, tuple[float, float]]:
        out = {"stribeck": (1.0, 1.0), "load_stribeck": (1.0, 1.0)}
        for param in self.params.values():
            if param.kind in out:
                out[param.kind] = (float(param.options["speed"]), float(param.options["shape"]))
        return out

    def _nominal(self) -> dict[str, float]:
        """The robot file's own figures, for kinds that no Param covers."""
        a, tables = self.sim.robot.actuators[0], self.sim.physics.motors.nominal
        limit = np.inf if a.torque_limit is None else a.torque_limit
        out = {
            "kp": a.kp,
            "kd": a.kd,
            "torque_limit": limit,
            "armature": a.armature,
            "damping": a.damping,
            "coulomb": a.coulomb,
        }
        out |= dict.fromkeys((*FRICTIONS, "voltage_sag", "command_delay", "encoder_bias"), 0.0)
        out |= {name: float(tables[name][0]) if self.wound else np.inf for name in WINDINGS}
        return {**out, "mass": 1.0}

    def figures(self, e: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Figures by kind, (candidates,), of an e with one row a candidate; mass as a factor on the model's."""
        rows: E = self.params.check(e)
        count = max((len(v) for v in rows.values()), default=1)
        out = {kind: np.full(count, value) for kind, value in self.nominal.items()}
        for name, value in rows.items():
            param = self.params[name]
            flat = value.reshape(len(value), -1)[:, 0]
            if param.kind == "mass":
                flat = (
                    flat / self.mass[self.sim.physics.built.model.body(int(self.sim.physics.slots[name].ids[0])).name]
                )
            out[param.kind] = np.broadcast_to(flat, (count,)).astype(float)
        return out

    def roll(self, figures: Mapping[str, np.ndarray], drive: Drive) -> np.ndarray:
        """Encoder readings after every substep, (n + 1, candidates, logs), of figures (candidates,)."""
        p = {name: np.asarray(v, float)[:, None] for name, v in figures.items()}
        shape = (len(next(iter(figures.values()))), len(drive.gain))
        n, dt = len(drive.u), self.dt
        M, w = p["mass"] * self.inertia + p["armature"], p["mass"] * self.weight
        motor = _Motor(p, drive.gain, self.wound)
        rub = _Friction(p, self.knees)
        D, stiff = p["damping"], self.hold * M
        q = np.broadcast_to(drive.q0 - p["encoder_bias"], shape).copy()
        v = np.broadcast_to(drive.v0, shape).copy()
        out = np.empty((n + 1, *shape))
        out[0] = q
        load = -w * np.sin(q - self.rest)
        torque = motor.torque(np.full(shape, self.sim.rest_command[0]), q, v)[0]  # as after a reset of the Sim
        for k in range(n):
            F = rub.budget(v, torque, load)
            torque, slope = motor.torque(drive.u[k], q, v)
            torque, slope = torque * drive.on[k], slope * drive.on[k]
            load = -w * np.sin(q - self.rest)
            smooth = torque + load - D * v
            f = np.clip(-self.hold * smooth - self.pull * stiff * v, -F, F)
            v = v + dt * (smooth + f) / (M + dt * (D + slope))
            q = q + dt * v
            out[k + 1] = q
        return out + p["encoder_bias"]


class _Motor:
    """The pd motor, ideal or with windings behind a supply; torque and minus its derivative in speed."""

    def __init__(self, p: Mapping[str, np.ndarray], gain: np.ndarray, wound: bool):
        self.kp, self.kd, self.limit, self.wound = p["kp"] * gain, p["kd"], p["torque_limit"], wound
        self.K, self.R, self.V, self.source = p["torque_constant"], p["resistance"], p["voltage"], p["voltage_sag"]
        self.sags = bool((self.source > 0).any())

    def torque(self, u: np.ndarray, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked = self.kp * (u - q) - self.kd * v
        if not self.wound:
            return np.clip(asked, -self.limit, self.limit), np.where(np.abs(asked) < self.limit, self.kd, 0.0)
        K, R = self.K, self.R
        volts = R / K * asked + K * v
        V = self._supply(volts, v) if self.sags else self.V
        current = (np.clip(volts, -V, V) - K * v) / R
        torque, slope = K * current, np.where(np.abs(volts) > V, K * K / R, self.kd)
        return np.clip(torque, -self.limit, self.limit), np.where(np.abs(torque) < self.limit, slope, 0.0)

    def _supply(self, volts: np.ndarray, v: np.ndarray) -> np.ndarray:
        """V = V0 - R_source |i|, i the current under that V: unbounded first, then on the bounded piece."""
        K, R, V0, Rs = self.K, self.R, self.V, self.source
        most = self.limit / K
        free = V0 - Rs * np.minimum(np.abs(volts - K * v) / R, most)
        way = np.sign(volts)
        drop = (V0 - way * K * v) / R  # current at the full supply, along the command
        bounded = V0 - Rs * np.minimum(np.abs(drop / (1 + Rs / R)), most)
        return np.maximum(np.where(np.abs(volts) <= free, free, bounded), LOWEST)


class _Friction:
    """The budget of dry friction; terms that no candidate has cost nothing."""

    def __init__(self, p: Mapping[str, np.ndarray], knees: Mapping[str, tuple[float, float]]):
        self.p, self.knees = p, knees
        self.has = {name: bool((p[name] != 0).any()) for name in FRICTIONS}
        self.loaded = any(self.has[name] for name in ("load_friction", "load_stribeck", "quadratic_friction"))

    def budget(self, v: np.ndarray, motor: np.ndarray, load: np.ndarray) -> np.ndarray:
        p, has = self.p, self.has
        F = p["coulomb"]
        if has["stribeck"]:
            F = F + p["stribeck"] * self._slow(v, "stribeck")
        if self.loaded:
            through = np.abs(motor - load)
            share = p["load_friction"]
            if has["load_stribeck"]:
                share = share + p["load_stribeck"] * self._slow(v, "load_stribeck")
            F = F + share * through
            if has["quadratic_friction"]:
                F = F + np.where(motor * load < 0, p["quadratic_friction"] * through**2, 0.0)
        if has["motor_friction"] or has["external_friction"]:
            F = F + np.abs(p["motor_friction"] * motor - p["external_friction"] * load)
        return F

    def _slow(self, v: np.ndarray, kind: str) -> np.ndarray:
        speed, shape = self.knees[kind]
        x = np.abs(v) / speed
        return np.exp(-x if shape == 1.0 else -(x**shape))
