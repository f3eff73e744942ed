"""Joints that no position target moves, against the robot's own dynamics.

    M(q) ddq + bias(q, dq) = τ        with τ = 0 at a joint without a motor, and the motor's law of u, q, dq elsewhere

For small robots that are bolted down (pendulums, carts): every order and sign of the joint readings is tried, and one is named where it
leaves clearly less unexplained than the readings as they are. Masses and friction are only roughly known: directions count more than sizes.
"""

from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np

from surefoot.deploy.compare import order_in_words
from surefoot.deploy.findings import Notes, listed
from surefoot.deploy.joint_readings import Joints, joints_of
from surefoot.deploy.recorded_run import Run

if TYPE_CHECKING:
    from surefoot.robots import Robot
    from surefoot.robots.robot import Actuator

MOST_JOINTS = 3
SAMPLES = 500
WINDOW = 0.06
"""[s] Of the cubics through the angle readings that speeds and accelerations are taken from: encoders read in steps."""
LAGS = 0.02
"""[s] Largest delay of the command."""
MOVING = 0.2
"""[rad/s] rms speed below which nothing can be told."""
RIGHT, CLEARER = 0.4, 0.45
"""Share of the torques that may stay unexplained where all is right, and what another explanation may leave of it."""
STOP, AROUND = 0.1, 10
"""[rad] Distance from a joint's stop, and samples before and after, that are left out."""
FEW = 50
"""Fewer samples than this tell nothing."""
WHAT = "joint_pos: order and sign against the robot's dynamics"


def check_motion(run: Run, robot: "Robot", notes: Notes) -> None:
    """Order and sign of joints that only the dynamics can tell."""
    kind = run.contract.action.kind
    if robot.base is not None or kind == "joint_pos_target" or not robot.joints or len(robot.joints) > MOST_JOINTS:
        return
    joints = joints_of(run)
    if joints is None or joints.dq is None or joints.names != robot.joints or kind not in run.log:
        notes.unchecked.append(f"{WHAT}, the log lacks joint_pos, joint_vel or {kind}")
        return
    if notes.blames("joint_pos", "joint_vel"):
        notes.unchecked.append(f"{WHAT}, these readings are wrong already")
        return
    speed = float(np.sqrt(np.mean(joints.dq**2)))
    if speed < MOVING:
        notes.unchecked.append(f"{WHAT}, it hardly moved ({speed:.2g} rad/s rms)")
        return
    command = run.at(kind, joints.t)[:, [run.columns(kind).index(a.name) for a in robot.actuators]]
    _judge(_Dynamics(robot), joints, command, notes)


def _judge(dynamics: "_Dynamics", joints: Joints, command: np.ndarray, notes: Notes) -> None:
    names, k = joints.names, len(joints.names)
    left = {
        (order, signs): dynamics.unexplained(joints, command, np.array(order), np.array(signs))
        for order in permutations(range(k))
        for signs in product((1.0, -1.0), repeat=k)
    }
    same = (tuple(range(k)), (1.0,) * k)
    now, best = left[same], min(left, key=lambda key: left[key])
    if best != same and left[best] < min(RIGHT, CLEARER * now):
        order, signs = best
        numbers = (
            f"the robot's dynamics leave {100 * now:.2g} % of the torques unexplained, {100 * left[best]:.2g} % so"
        )
        turned = [n for n, s in zip(names, signs, strict=True) if s < 0]
        if order != same[0]:
            extra = f", with opposite sign: {listed(turned)}" if turned else ""
            notes.find("driver", "joint_pos", "permuted", f"{order_in_words(names, order)}{extra}: {numbers}", names)
        else:
            notes.find("driver", "joint_pos", "sign", f"{listed(turned)}: the sign is opposite: {numbers}", turned)
    elif now < RIGHT:
        notes.checked.append(f"joint_pos: the robot's dynamics explain all but {100 * now:.2g} % of the torques")
    else:
        notes.unchecked.append(
            f"{WHAT}, the model explains the motion too poorly ({100 * now:.2g} % of the torques are left)"
        )


class _Dynamics:
    """The robot's model and motors."""

    def __init__(self, robot: "Robot"):
        import mujoco

        self.mujoco, self.robot = mujoco, robot
        self.model = robot.spec().compile()
        self.data = mujoco.MjData(self.model)
        self.q = np.array([int(self.model.joint(j).qposadr[0]) for j in robot.joints])
        self.dof = np.array([int(self.model.joint(j).dofadr[0]) for j in robot.joints])
        self.motors = [robot.joints.index(a.name) for a in robot.actuators]

    def unexplained(self, joints: Joints, command: np.ndarray, order: np.ndarray, signs: np.ndarray) -> float:
        """Share of the torques that is left if reading i were signs[i] times that of joint order[i]; mean over the joints."""
        q, dq, ddq = (np.empty_like(joints.q) for _ in range(3))
        n = max(2, joints.samples(WINDOW / 2))
        for k, rows in enumerate((q, dq, ddq)):
            rows[:, order] = _smoothed(joints.q, n, joints.dt, k) * signs
        free = self._free(q)
        free[:n], free[-n:] = False, False
        at = np.flatnonzero(free)
        if len(at) < FEW:
            return 1.0
        at = at[np.unique(np.linspace(0, len(at) - 1, SAMPLES).astype(int))]
        own, rest = self.torques(q[at], dq[at], ddq[at])
        left = []
        for j in range(len(self.dof)):
            if j in self.motors:
                motor, number = self.robot.actuators[self.motors.index(j)], self.motors.index(j)
                lags = range(0, joints.samples(LAGS) + 1)
                given = [_torque(motor, command[np.maximum(at - lag, 0), number], q[at, j], dq[at, j]) for lag in lags]
                needed = own[:, j] + rest[:, j]
                left.append(
                    1 - max(_alike(needed / max(np.std(needed), 1e-12), tau / max(np.std(tau), 1e-12)) for tau in given)
                )
            else:
                left.append(1 - _alike(own[:, j], -rest[:, j]))
        return float(np.mean(left))

    def _free(self, q: np.ndarray) -> np.ndarray:
        """Samples away from the joints' stops, with time before and after, (T,) bool."""
        near = np.zeros(len(q), dtype=bool)
        for column, name in enumerate(self.robot.joints):
            joint = self.model.joint(name)
            if joint.limited[0]:
                low, high = joint.range
                near |= (q[:, column] < low + STOP) | (q[:, column] > high - STOP)
        wide = np.convolve(near, np.ones(2 * AROUND + 1), mode="same") > 0
        return ~wide

    def torques(self, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Torque that each joint's own inertia needs, and all other torque it needs, (samples, joints) each."""
        m, d = self.model, self.data
        own, rest = np.empty_like(q), np.empty_like(q)
        M = np.zeros((m.nv, m.nv))
        for s in range(len(q)):
            d.qpos[self.q], d.qvel[self.dof], d.qacc[self.dof] = q[s], dq[s], ddq[s]
            self.mujoco.mj_inverse(m, d)
            self.mujoco.mj_fullM(m, d, M)
            own[s] = np.diag(M)[self.dof] * ddq[s]
            rest[s] = d.qfrc_inverse[self.dof] - own[s]
        return own, rest


def _smoothed(q: np.ndarray, n: int, dt: float, order: int) -> np.ndarray:
    """Derivative of this order (0: the angles) of cubics through 2 n + 1 readings q (T, joints), `dt` [s] apart."""
    from scipy.signal import savgol_filter

    return np.asarray(savgol_filter(q, 2 * n + 1, 3, deriv=order, delta=dt, axis=0))


def _torque(a: "Actuator", u: np.ndarray, q: np.ndarray, dq: np.ndarray) -> np.ndarray:
    """Torque of a motor under its command, as robots.Actuator states it."""
    if a.model == "voltage":
        K, R, V = a.torque_constant or 0.0, a.resistance or 1.0, a.voltage or np.inf
        return K / R * (np.clip(u, -V, V) - K * dq)
    limit = a.torque_limit or np.inf
    law = {"pd": a.kp * (u - q) - a.kd * dq, "velocity": a.kd * (u - dq)}.get(a.model, u)
    return np.clip(law, -limit, limit)


def _alike(a: np.ndarray, b: np.ndarray) -> float:
    """2 a·b / (a·a + b·b), 1 where they are the same, without the largest hundredth."""
    keep = np.abs(a) + np.abs(b) <= np.quantile(np.abs(a) + np.abs(b), 0.99)
    a, b = a[keep], b[keep]
    return float(2 * (a * b).sum() / max((a * a).sum() + (b * b).sum(), 1e-12))
