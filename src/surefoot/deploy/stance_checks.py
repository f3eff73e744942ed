"""Legs against the IMU: feet that carry the robot stand still on the ground, so joints and IMU must tell of one motion of the body.

    0 = v + ω × p_i + J_i dq           a foot i on the ground, seen from the body; v and ω are the body's
    f_i = − J_i⁻ᵀ τ_i                  force of the ground on foot i; their sum points up

    (p_i − p_j) · g = 0                loaded feet are level, on ground that is

With the right mounting of the IMU and the right legs, ω from the gyro makes the loaded feet stand still, gravity finds them level and
points against the sum of the forces. Swapped legs and turned IMUs that are consistent in themselves show only here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from surefoot.contract import projected_gravity
from surefoot.contract.channels import label
from surefoot.deploy.findings import Notes
from surefoot.deploy.imu_checks import AXES, Imu, axes_in_words, imu_of
from surefoot.deploy.joint_readings import Joints, joints_of
from surefoot.deploy.recorded_run import Run

if TYPE_CHECKING:
    from surefoot.robots import Robot

MOST = 400
"""Samples at which the kinematics is computed."""
WINDOW = 0.03
"""[s] Over which speeds are averaged."""
LOADED = 0.25
"""Share of the weight from which on a foot counts as standing."""
EXPLAINED = 0.6
"""Feet move at most this share as much with the gyro as without, in the mean square, where all is right."""
CLEARER = {"mounting": 0.4, "permuted": 0.2}
"""Another explanation must have at most this share of the score of "all is right", by its kind."""
LEVEL = 0.0015
"""[m] Differences of the feet's heights below this tell nothing."""
UPRIGHT = 0.6
"""[rad] Largest angle between gravity and the ground's push."""
DAMPED = 0.5
"""Share of the model's joint damping that is taken off the torques: it is poorly known."""
FEW = 10
"""Fewer samples than this tell nothing."""
WHAT = "imu mounting, legs: against the feet on the ground"
ROTATIONS = [A for A in AXES if np.linalg.det(A) > 0]


@dataclass(frozen=True)
class Legs:
    """Feet of the robot over a run, in the body's frame; axes are (samples, feet, 3)."""

    names: tuple[str, ...]
    p: np.ndarray  # [m]
    speed: np.ndarray  # J dq [m/s]
    force: np.ndarray  # of the ground on the foot [N]
    weight: float  # of the robot [N]

    @property
    def load(self) -> np.ndarray:
        """Share of the weight that pushes each foot towards the body, (samples, feet), 0 .. 1; 0 for a foot in the air."""
        towards = -self.p / np.linalg.norm(self.p, axis=2, keepdims=True)
        share = (self.force * towards).sum(axis=2) / self.weight
        return np.clip(np.where(share > LOADED, share, 0.0), 0.0, 1.0)


class Kinematics:
    """Feet, their joints and Jacobians from the robot's model."""

    def __init__(self, robot: "Robot", joints: tuple[str, ...]):
        import mujoco

        self.mujoco = mujoco
        self.model = robot.spec().compile()
        self.data = mujoco.MjData(self.model)
        self.joints = joints
        self.q = np.array([int(self.model.joint(j).qposadr[0]) for j in joints])
        self.dof = np.array([int(self.model.joint(j).dofadr[0]) for j in joints])
        base = self.model.body(robot.base)
        self.free = int(self.model.jnt_qposadr[base.jntadr[0]])
        self.base = int(base.id)
        self.damping = DAMPED * self.model.dof_damping[self.dof]
        self.weight = 9.81 * float(self.model.body_subtreemass[self.base])
        feet: dict[int, list[int]] = {}
        for name in robot.feet:
            geom = self.model.geom(name)
            feet.setdefault(int(geom.bodyid[0]), []).append(int(geom.id))
        self.feet = [(self.model.body(body).name, body, geoms) for body, geoms in feet.items()]
        round_ = {int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE)}
        self.radius = [
            float(self.model.geom_size[geoms, 0].mean()) if round_.issuperset(self.model.geom_type[geoms]) else 0.0
            for _, _, geoms in self.feet
        ]
        """[m] Of round feet, 0 for others."""
        self.chains = [self._chain(body) for _, body, _ in self.feet]
        """Columns of `joints` that move each foot, from the body outwards."""

    def _chain(self, body: int) -> list[int]:
        out: list[int] = []
        while body > 0 and body != self.base:
            for j in range(self.model.body_jntadr[body], self.model.body_jntadr[body] + self.model.body_jntnum[body]):
                name = self.model.joint(j).name
                if name in self.joints:
                    out.insert(0, self.joints.index(name))
            body = int(self.model.body_parentid[body])
        return out

    def legs(self, q: np.ndarray, dq: np.ndarray, tau: np.ndarray, *, down: np.ndarray | None = None) -> Legs:
        """Feet for joint positions, speeds and torques, (samples, joints) each.

        With `down` (samples, 3), the direction to the ground, round feet roll: not their middle but their lowest point stands still.
        """
        m, d = self.model, self.data
        n, k = len(q), len(self.feet)
        p, speed, force = np.zeros((n, k, 3)), np.zeros((n, k, 3)), np.zeros((n, k, 3))
        jac = np.zeros((3, m.nv))
        for s in range(n):
            d.qpos[:] = m.qpos0
            d.qpos[self.free : self.free + 7] = [0, 0, 0, 1, 0, 0, 0]
            d.qpos[self.q] = q[s]
            self.mujoco.mj_kinematics(m, d)
            self.mujoco.mj_comPos(m, d)
            for i, (_, body, geoms) in enumerate(self.feet):
                p[s, i] = d.geom_xpos[geoms].mean(axis=0)
                if down is not None:
                    p[s, i] += self.radius[i] * down[s]
                self.mujoco.mj_jac(m, d, jac, None, p[s, i], body)
                J = jac[:, self.dof]
                speed[s, i] = J @ dq[s]
                own = J[:, self.chains[i]]
                pull = tau[s, self.chains[i]] - self.damping[self.chains[i]] * dq[s, self.chains[i]]
                force[s, i] = -np.linalg.lstsq(own.T, pull, rcond=1e-3)[0]
        return Legs(tuple(label(name) for name, _, _ in self.feet), p, speed, force, self.weight)


def check_stance(run: Run, robot: "Robot", notes: Notes) -> None:
    """IMU mounting and legs, from feet that stand on the ground."""
    joints, imu = joints_of(run), imu_of(run)
    if robot.base is None or len(robot.feet) < 2 or not robot.joints:
        notes.unchecked.append(f"{WHAT}, {robot.name} has no legs")
        return
    if joints is None or imu is None or joints.dq is None:
        notes.unchecked.append(f"{WHAT}, the log lacks joint_pos, joint_vel or gyro")
        return
    if notes.blames("joint_pos", "joint_vel", "gyro", "gravity", "quat"):
        notes.unchecked.append(f"{WHAT}, some of these readings are wrong already")
        return
    turned = any(f.where == "driver" and f.term == "joint_torque" and f.kind == "sign" for f in notes.findings)
    torque = torque_of(joints, measured=not turned)
    if torque is None:
        notes.unchecked.append(f"{WHAT}, needs joint_torque, or position targets and gains")
        return
    heard = heard_of(joints, imu, torque)
    if len(heard.t) < FEW:
        notes.unchecked.append(f"{WHAT}, readings or commands are missing nearly everywhere")
        return
    cut = heard.thinned(MOST)
    _judge(Kinematics(robot, joints.names), (cut.q, cut.dq, cut.tau), cut.gyro, cut.gravity, notes)


@dataclass(frozen=True)
class Heard:
    """Readings of legs and IMU on one time grid, averaged over WINDOW, where none is missing; (samples, columns)."""

    t: np.ndarray  # [s]
    q: np.ndarray
    dq: np.ndarray
    tau: np.ndarray
    gyro: np.ndarray
    gravity: np.ndarray | None

    def thinned(self, most: int) -> "Heard":
        """About `most` of the samples, evenly."""
        step = max(1, len(self.t) // most)
        return Heard(*(None if x is None else x[::step] for x in vars(self).values()))  # pyright: ignore[reportArgumentType]


def heard_of(joints: Joints, imu: Imu, torque: np.ndarray) -> Heard:
    """What joints, IMU and torques say together; joints need their speeds."""
    assert joints.dq is not None
    n = max(2, joints.samples(WINDOW))
    q, dq, tau = (_means(x, n) for x in (joints.q, joints.dq, torque))
    gyro, gravity = _imu_means(imu, joints.t, n)
    t = _means(joints.t[:, None], n)[:, 0]
    whole = np.all([np.isfinite(x).all(axis=1) for x in (q, dq, tau, gyro, gravity) if x is not None], axis=0)
    return Heard(t[whole], q[whole], dq[whole], tau[whole], gyro[whole], None if gravity is None else gravity[whole])


def torque_of(joints: Joints, *, measured: bool) -> np.ndarray | None:
    """Measured torques, or those of the motors' law; NaN where a reading or a command is missing."""
    if measured and joints.tau is not None and np.isfinite(joints.tau).all():
        return joints.tau
    if joints.u is None or joints.kp is None:
        return None
    kd = 0.0 if joints.kd is None else joints.kd
    dq = 0.0 if joints.dq is None else joints.dq
    return joints.kp * (joints.u - joints.q) - kd * dq


def _means(x: np.ndarray, n: int) -> np.ndarray:
    """Means over n samples (T - n + 1, columns), NaN where one of them is missing."""
    known = np.isfinite(x)
    total, missing = (
        np.cumsum(np.vstack([np.zeros((1, x.shape[1])), part]), axis=0) for part in (np.where(known, x, 0.0), ~known)
    )
    return np.where(missing[n:] > missing[:-n], np.nan, (total[n:] - total[:-n]) / n)


def _imu_means(imu: Imu, t: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Gyro and gravity on the joints' grid, averaged over n samples; the gyro without its mean at rest."""
    index = np.clip(np.searchsorted(imu.t, t + 1e-6, side="right") - 1, 0, len(imu.t) - 1)
    gravity = imu.gravity if imu.gravity is not None else None if imu.quat is None else projected_gravity(imu.quat)
    return _means(imu.gyro[index], n), None if gravity is None else _means(gravity[index], n)


def still(legs: Legs, gyro: np.ndarray) -> tuple[float, int]:
    """Mean square speed of the loaded feet [m²/s²] that ω leaves in the calmer half of the samples, and how many there are.

    The body's own velocity is free.
    """
    load = legs.load
    ok = (load > 0).sum(axis=1) >= 2
    if ok.sum() < FEW:
        return np.nan, int(ok.sum())
    w = load[ok][:, :, None]
    r = legs.speed[ok] + np.cross(gyro[ok][:, None, :], legs.p[ok])
    off = (w * (r - _mean(r, w)) ** 2).sum(axis=(1, 2)) / w.sum(axis=(1, 2))
    return float(np.sort(off)[: max(1, len(off) // 2)].mean()), int(ok.sum())


def level(legs: Legs, gravity: np.ndarray | None) -> float:
    """rms difference of the loaded feet's heights [m], without the worst third of the samples; LEVEL where gravity is not known."""
    load = legs.load
    ok = (load > 0).sum(axis=1) >= 2
    if gravity is None or ok.sum() < FEW:
        return LEVEL
    w = load[ok][:, :, None]
    height = -(legs.p[ok] * gravity[ok][:, None, :]).sum(axis=2, keepdims=True)
    off = (w * (height - _mean(height, w)) ** 2).sum(axis=(1, 2)) / w.sum(axis=(1, 2))
    return max(LEVEL, float(np.sqrt(np.sort(off)[: max(1, 2 * len(off) // 3)].mean())))


def _mean(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Mean over the feet by weight."""
    return (w * x).sum(axis=1, keepdims=True) / w.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class _Fit:
    """How well joints and IMU agree under one explanation.

    Attributes:
        moved: mean square speed of the loaded feet with the gyro, relative to that without.
        high: rms difference of their heights [m].
        tilt: angle between gravity and the ground's push [rad], NaN where it cannot be told.
    """

    moved: float
    high: float
    tilt: float

    @property
    def score(self) -> float:
        """Both together [m]; infinite where gravity points the wrong way."""
        wrong = np.isnan(self.moved) or self.tilt > UPRIGHT
        return np.inf if wrong else self.moved * self.high


def _fit(legs: Legs, gyro: np.ndarray, gravity: np.ndarray | None, A: np.ndarray) -> _Fit:
    """The fit where the IMU reads A times the body's vectors."""
    turned = None if gravity is None else gravity @ A
    without = still(legs, np.zeros_like(gyro))[0]
    return _Fit(still(legs, gyro @ A)[0] / max(without, 1e-9), level(legs, turned), _tilt(legs, turned))


def support(legs: Legs) -> tuple[np.ndarray, np.ndarray]:
    """Direction of the ground's push in the body's frame (samples, 3), and where it carries the robot (samples,) bool."""
    total = legs.force.sum(axis=1)
    size = np.linalg.norm(total, axis=1)
    carried = (size > 0.6 * legs.weight) & (size < 1.6 * legs.weight)
    return total / np.maximum(size, 1e-9)[:, None], carried


def _tilt(legs: Legs, gravity: np.ndarray | None) -> float:
    """Median angle [rad] between gravity, turned around, and the ground's push."""
    up, carried = support(legs)
    if gravity is None or carried.sum() < FEW:
        return np.nan
    cosine = -(gravity * up).sum(axis=1)[carried]
    return float(np.median(np.arccos(np.clip(cosine, -1, 1))))


def _judge(
    kinematics: Kinematics, states: tuple[np.ndarray, ...], gyro: np.ndarray, gravity: np.ndarray | None, notes: Notes
) -> None:
    legs = kinematics.legs(*states)
    count = still(legs, gyro)[1]
    if count < 20:
        notes.unchecked.append(f"{WHAT}, two feet or more were loaded in only {count} samples")
        return
    now = _fit(legs, gyro, gravity, np.eye(3))
    found = [(_fit(legs, gyro, gravity, A), "imu", "mounting", axes_in_words(A)[1]) for A in ROTATIONS[1:]]
    if now.moved > 0.25 or now.tilt > UPRIGHT:
        for names, order in _leg_orders(kinematics):
            fit = _fit(kinematics.legs(*(x[:, order] for x in states)), gyro, gravity, np.eye(3))
            found.append((fit, "joint_pos", "permuted", f"{names} swapped, in readings and commands alike"))
    best, term, kind, words = min(found, key=lambda item: item[0].score / CLEARER[item[2]])
    upside = now.tilt > UPRIGHT
    if best.score < CLEARER[kind] * now.score and best.moved < EXPLAINED:
        feet = f"loaded feet move {now.moved:.2g} as much with the gyro as without (mean square), {best.moved:.2g} so"
        push = f"gravity is {now.tilt:.2g} rad from the ground's push, {best.tilt:.2g} so"
        notes.find("driver", term, kind, f"{words}: {push if upside else feet}")
    elif upside:
        detail = f"gravity is {now.tilt:.2g} rad from the ground's push, and no mounting by right angles explains it"
        notes.find("driver", "imu", "mounting", detail)
    elif now.moved < EXPLAINED:
        notes.checked.append(
            f"imu mounting, legs: loaded feet move {now.moved:.2g} as much with the gyro as without (mean square)"
        )
    else:
        left = f"the gyro leaves {now.moved:.2g} of the loaded feet's motion"
        notes.unchecked.append(f"{WHAT}, {left}: too little turning, or feet that slip")


def _leg_orders(kinematics: Kinematics) -> Iterator[tuple[str, np.ndarray]]:
    """Joint orders with legs swapped: every pair, and two pairs at once."""
    chains, names = kinematics.chains, [label(name).partition("_")[0] for name, _, _ in kinematics.feet]
    pairs = [(a, b) for a, b in combinations(range(len(chains)), 2) if len(chains[a]) == len(chains[b])]
    for chosen in [*([p] for p in pairs), *([p, q] for p, q in combinations(pairs, 2) if not set(p) & set(q))]:
        order = np.arange(len(kinematics.joints))
        for a, b in chosen:
            order[chains[a]], order[chains[b]] = chains[b], chains[a]
        yield ", ".join(f"{names[a]}_* and {names[b]}_*" for a, b in chosen), order
