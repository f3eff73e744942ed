"""Motors and passive joints for an engine that only takes torques: MuJoCo's own laws, implicit in the joint's speed.

    f   = clip(gain u + b0 + b1 l + b2 l', ±limit)        l = gear q;   voltage: gain = K/R, b2 = -K²/R
    τ   = gear f - d v - k (q - q_spring)

An explicit torque is unstable where d h / J > 2. With D the slope of -τ in v, one step of length h that is implicit in the speed is

    (M + D h) a = τ(q, v) + ...                           so D h is added to the rotor's inertia

which is exact, since the slopes are diagonal, and is what MuJoCo's `implicitfast` does. A motor at its limit has no slope. Arrays are
(worlds, motors) and (worlds, nv).
"""

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.sim.motors import probe_slots

FIXED, AFFINE = int(mujoco.mjtGain.mjGAIN_FIXED), int(mujoco.mjtGain.mjGAIN_AFFINE)
NO_BIAS, AFFINE_BIAS = int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE)
FIELDS = (
    "actuator_gainprm", "actuator_biasprm", "actuator_forcerange", "actuator_ctrlrange", "dof_damping", "dof_armature",
    "jnt_stiffness", "qpos_spring",
)  # fmt: skip
"""Fields of the model that the laws read."""


@dataclass(frozen=True, kw_only=True)
class Torques:
    """What the motors and passive joints do in one step."""

    joint: np.ndarray
    """τ, (worlds, nv) [N·m]."""
    motor: np.ndarray
    """f, (worlds, motors) [N·m], or of a rotor [1]."""
    added: np.ndarray
    """D h, (worlds, nv) [kg·m²]."""


class Motors:
    """The laws of one model; `read` takes the figures of every world, `act` gives torques."""

    def __init__(self, model: mujoco.MjModel):
        self.model = model
        self.wound = _check(model)
        self.slots = probe_slots() if self.wound.any() else {}
        trn = model.actuator_trntype
        turning = np.flatnonzero(trn == int(mujoco.mjtTrn.mjTRN_JOINT))
        joints = model.actuator_trnid[turning, 0]
        self.turning = turning
        """Motors that act on a joint."""
        self.dofs, self.places = model.jnt_dofadr[joints].astype(int), model.jnt_qposadr[joints].astype(int)
        self.gear = model.actuator_gear[turning, 0]
        self.pushing = np.flatnonzero(trn == int(mujoco.mjtTrn.mjTRN_SITE))
        """Motors that push at a site: rotors."""
        hinges = np.flatnonzero(model.jnt_type != int(mujoco.mjtJoint.mjJNT_FREE))
        self.spring_dofs, self.spring_places = (
            model.jnt_dofadr[hinges].astype(int),
            model.jnt_qposadr[hinges].astype(int),
        )
        self.hinges = hinges
        self.reach = (self.dofs[:, None] == np.arange(model.nv)).astype(float)
        """Which motor turns which joint, (turning motors, nv)."""

    def read(self, figure: Callable[[str], np.ndarray]) -> None:
        """Take the figures; `figure(name)` gives a field of the model for every world."""
        model = self.model
        gain, bias = figure("actuator_gainprm"), figure("actuator_biasprm")
        self.gain = gain[..., 0].copy()
        self.bias = bias[..., :3] * (model.actuator_biastype == AFFINE_BIAS)[:, None]
        for i in np.flatnonzero(self.wound):
            K, R = (
                figure(self.slots[name][0])[:, i, self.slots[name][1]] for name in ("torque_constant", "resistance")
            )
            self.gain[:, i], self.bias[:, i] = K / R, 0.0
            self.bias[:, i, 2] = -K * K / R
        limits, commands = figure("actuator_forcerange"), figure("actuator_ctrlrange")
        free, open_ = model.actuator_forcelimited == 0, model.actuator_ctrllimited == 0
        self.low, self.high = np.where(free, -np.inf, limits[..., 0]), np.where(free, np.inf, limits[..., 1])
        self.least, self.most = np.where(open_, -np.inf, commands[..., 0]), np.where(open_, np.inf, commands[..., 1])
        self.damping, self.armature = figure("dof_damping").copy(), figure("dof_armature").copy()
        if self.damping.ndim == 3:
            self.damping = self.damping[..., 0]
        stiffness = figure("jnt_stiffness")
        self.stiffness = (stiffness[..., 0] if stiffness.ndim == 3 else stiffness)[:, self.hinges]
        self.rest = figure("qpos_spring")[:, self.spring_places].copy()
        self.sprung = bool(self.stiffness.any())

    def act(self, rows: np.ndarray, control: np.ndarray, q: np.ndarray, v: np.ndarray, h: float) -> Torques:
        """Torques in worlds `rows` under control (rows, motors) at q (rows, nq), v (rows, nv), for a step of h seconds."""
        u = np.clip(control, self.least[rows], self.most[rows])
        length, rate = np.zeros_like(u), np.zeros_like(u)
        length[:, self.turning] = self.gear * q[:, self.places]
        rate[:, self.turning] = self.gear * v[:, self.dofs]
        bias = self.bias[rows]
        asked = self.gain[rows] * u + bias[..., 0] + bias[..., 1] * length + bias[..., 2] * rate
        given = np.clip(asked, self.low[rows], self.high[rows])
        t = self.turning
        slope = np.where((asked == given)[:, t], np.maximum(-bias[:, t, 2], 0.0), 0.0) * self.gear**2
        damping = self.damping[rows]
        tau = (self.gear * given[:, t]) @ self.reach - damping * v
        added = h * (slope @ self.reach + damping)
        if self.sprung:
            tau[:, self.spring_dofs] -= self.stiffness[rows] * (q[:, self.spring_places] - self.rest[rows])
        return Torques(joint=tau, motor=given, added=added)


def _check(model: mujoco.MjModel) -> np.ndarray:
    """Which motors are driven by voltage, (motors,); refuses what the laws above do not say."""
    wound = np.zeros(model.nu, dtype=bool)
    slots = {}
    for i in range(model.nu):
        name = model.actuator(i).name
        gain, bias, dynamics = (
            int(a[i]) for a in (model.actuator_gaintype, model.actuator_biastype, model.actuator_dyntype)
        )
        trn = int(model.actuator_trntype[i])
        if trn not in (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_SITE)):
            raise InputError(f"actuator '{name}' acts on neither a joint nor a site, which the physx engine has not")
        plain = gain == FIXED and bias in (NO_BIAS, AFFINE_BIAS) and dynamics == int(mujoco.mjtDyn.mjDYN_NONE)
        if not plain:
            slots = slots or probe_slots()
            wound[i] = _driven_by_voltage(model, i, slots)
            if not wound[i]:
                raise InputError(
                    f"actuator '{name}' has windings, heat or states of its own, which the physx engine has not: leave out "
                    f"the Params that ask for them (torque_constant, resistance, voltage, cogging, thermal)"
                )
    return wound


def _driven_by_voltage(model: mujoco.MjModel, i: int, slots: dict[str, tuple[str, int]]) -> bool:
    """Whether motor i is K/R (u - K ω) and nothing more."""
    if "DCMOTOR" not in str(mujoco.mjtGain(int(model.actuator_gaintype[i]))) or model.actuator_actnum[i]:
        return False
    return all(getattr(model, slots[n][0])[i, slots[n][1]] == 0 for n in ("kp", "kd", "cogging", "thermal"))
