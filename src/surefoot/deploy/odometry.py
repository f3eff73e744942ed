"""How fast a robot walked, by its own legs: feet that carry it stand still on the ground.

    v = − mean over loaded feet of (ω × p_i + J_i dq)        the body's velocity, seen from the body; p_i the foot's lowest point

Nothing but joints and IMU is needed. Feet that slip make it wrong, and so do legs of another length than the model's: it compares two
walks of one robot, it is no measurement of one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surefoot.deploy.imu_checks import imu_of
from surefoot.deploy.joint_readings import joints_of
from surefoot.deploy.recorded_run import Run
from surefoot.deploy.stance_checks import Kinematics, heard_of, torque_of

if TYPE_CHECKING:
    from surefoot.robots import Robot

MOST = 1000
"""Samples at which the kinematics is computed."""


@dataclass(frozen=True)
class Walk:
    """How a robot moved over the ground, at times when a foot carried it; axes of the ground that turn with its heading."""

    t: np.ndarray  # (T,) [s]
    velocity: np.ndarray  # (T, 2) ahead and to the left [m/s]
    turning: np.ndarray  # (T,) about the vertical [rad/s]

    def mean(self, begin: float, end: float) -> tuple[float, float, float] | None:
        """Mean speed ahead, to the left [m/s] and turning rate [rad/s] from `begin` to `end` [s]; None where nothing was heard."""
        within = (self.t >= begin) & (self.t < end)
        if not within.any():
            return None
        ahead, aside = self.velocity[within].mean(axis=0)
        return float(ahead), float(aside), float(self.turning[within].mean())


def walk_of(run: Run, robot: "Robot") -> Walk | None:
    """The walk of a recorded run by legs and IMU; None for a robot without legs and for a log that lacks readings."""
    joints, imu = joints_of(run), imu_of(run)
    if robot.base is None or len(robot.feet) < 2 or joints is None or joints.dq is None or imu is None:
        return None
    torque = torque_of(joints, measured=True)
    if torque is None:
        return None
    heard = heard_of(joints, imu, torque).thinned(MOST)
    if heard.gravity is None or not len(heard.t):
        return None
    gravity = heard.gravity / np.linalg.norm(heard.gravity, axis=1, keepdims=True)
    legs = Kinematics(robot, joints.names).legs(heard.q, heard.dq, heard.tau, down=gravity)
    load = legs.load
    carried = load.sum(axis=1) > 0.0
    feet = legs.speed + np.cross(heard.gyro[:, None, :], legs.p)
    weight = load[carried][:, :, None]
    v = -(weight * feet[carried]).sum(axis=1) / weight.sum(axis=1)
    up = -gravity[carried]
    ahead = np.array([1.0, 0.0, 0.0]) - up[:, :1] * up
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    aside = np.cross(up, ahead)
    return Walk(
        t=heard.t[carried],
        velocity=np.stack([(v * ahead).sum(axis=1), (v * aside).sum(axis=1)], axis=1),
        turning=(heard.gyro[carried] * up).sum(axis=1),
    )
