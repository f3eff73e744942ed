"""What Unitree publishes about the motors of its robots: which slot of a message is which joint, and what a joint may be told.

Slots: the indices of the maker's SDK examples (unitree_sdk2, unitree_sdk2_python). Ranges, torques and speeds: the robot descriptions
in unitree_ros (go2_description.urdf, g1_29dof_rev_1_0.urdf). The maker gives no largest kp and kd: those here are ours, well above
the gains of the maker's examples (Go2 60 and 5, G1 100 and 2) and far below what the number formats hold.
"""

import functools
from dataclasses import dataclass

import numpy as np

from surefoot.errors import choose
from surefoot.hardware.unitree_idl import GO, HG

POSITION_OFF = 2.146e9
"""A position that means "no position control" to a quadruped's motor [rad] (PosStopF); a humanoid's has no such number."""
VELOCITY_OFF = 16000.0
"""A speed that means "no speed control" [rad/s] (VelStopF), likewise."""
SERVO = 0x01
"""Mode of a motor that follows its command; 0 is off."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Motors:
    """The motors of one robot; arrays are (n,), in the order of `joints`, which is the order of the message's slots.

    Attributes:
        robot: its name in surefoot.
        messages: module of its DDS messages.
        joints: names of the joints; joint k sits in slot k.
        slots: motor slots of a message; those beyond the joints are unused.
        low, high: range of the joints [rad].
        torque, speed: largest torque [N·m] and speed [rad/s].
        kp, kd: largest gains that are sent [N·m/rad], [N·m·s/rad].
        damping: kd of a robot that is stopped [N·m·s/rad].
        position_off, velocity_off: what a motor without position or speed control is told [rad], [rad/s], beside gains of 0.
        feet: order of the foot force sensors; empty where there are none.
    """

    robot: str
    messages: str
    joints: tuple[str, ...]
    slots: int
    low: np.ndarray
    high: np.ndarray
    torque: np.ndarray
    speed: np.ndarray
    kp: np.ndarray
    kd: np.ndarray
    damping: np.ndarray
    position_off: float
    velocity_off: float
    feet: tuple[str, ...] = ()


def motors(robot: str) -> Motors:
    """The motors of a robot by its name."""
    return MAKERS[choose(robot, MAKERS, "a Unitree robot that the driver knows")]()


@functools.cache
def _go2() -> Motors:
    legs = ("FR", "FL", "RR", "RL")
    per_leg = {  # low, high [rad], torque [N·m], speed [rad/s]; the thighs of the rear legs reach further back
        "hip": (-1.0472, 1.0472, 23.7, 30.1),
        "thigh": (-1.5708, 3.4907, 23.7, 30.1),
        "calf": (-2.7227, -0.83776, 45.43, 15.7),
    }
    rows = [
        (f"{leg}_{part}_joint", *((-0.5236, 4.5379, 23.7, 30.1) if (leg[0], part) == ("R", "thigh") else row))
        for leg in legs
        for part, row in per_leg.items()
    ]
    return _table("go2", GO, 20, rows, kp=150.0, kd=10.0, damping=3.0, feet=tuple(f"{leg}_foot" for leg in legs))


@functools.cache
def _g1() -> Motors:
    leg = {
        "hip_pitch": (-2.5307, 2.8798, 88.0, 32.0),
        "hip_roll": (-0.5236, 2.9671, 139.0, 20.0),
        "hip_yaw": (-2.7576, 2.7576, 88.0, 32.0),
        "knee": (-0.087267, 2.8798, 139.0, 20.0),
        "ankle_pitch": (-0.87267, 0.5236, 35.0, 30.0),
        "ankle_roll": (-0.2618, 0.2618, 35.0, 30.0),
    }
    waist = {
        "waist_yaw": (-2.618, 2.618, 88.0, 32.0),
        "waist_roll": (-0.52, 0.52, 35.0, 30.0),
        "waist_pitch": (-0.52, 0.52, 35.0, 30.0),
    }
    arm = {
        "shoulder_pitch": (-3.0892, 2.6704, 25.0, 37.0),
        "shoulder_roll": (-1.5882, 2.2515, 25.0, 37.0),
        "shoulder_yaw": (-2.618, 2.618, 25.0, 37.0),
        "elbow": (-1.0472, 2.0944, 25.0, 37.0),
        "wrist_roll": (-1.97222, 1.97222, 25.0, 37.0),
        "wrist_pitch": (-1.61443, 1.61443, 5.0, 22.0),
        "wrist_yaw": (-1.61443, 1.61443, 5.0, 22.0),
    }
    rows = []
    for limbs in (leg, waist, arm):
        for side in ("left_", "right_") if limbs is not waist else ("",):
            for part, (low, high, *most) in limbs.items():
                # The right side is the mirror of the left: rolls change their sign.
                low, high = (-high, -low) if side == "right_" and part in ("hip_roll", "shoulder_roll") else (low, high)
                rows.append((f"{side}{part}_joint", low, high, *most))
    return _table("g1", HG, 35, rows, kp=300.0, kd=20.0, damping=5.0)


def _table(
    robot: str,
    messages: str,
    slots: int,
    rows: list[tuple[str, float, float, float, float]],
    *,
    kp: float,
    kd: float,
    damping: float,
    feet: tuple[str, ...] = (),
) -> Motors:
    names, low, high, torque, speed = zip(*rows, strict=True)
    ones = np.ones(len(rows))
    return Motors(
        robot=robot, messages=messages, joints=names, slots=slots, low=np.array(low), high=np.array(high),
        torque=np.array(torque), speed=np.array(speed), kp=kp * ones, kd=kd * ones, damping=damping * ones,
        position_off=POSITION_OFF if messages == GO else 0.0, velocity_off=VELOCITY_OFF if messages == GO else 0.0, feet=feet,
    )  # fmt: skip


MAKERS = {"go2": _go2, "g1": _g1}
