"""The standard channels: their units, frames and columns, so that every package means the same by a word."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Standard:
    """What a standard channel holds when nobody says otherwise.

    Attributes:
        unit: SI unit of its values; "1" for ratios and unit vectors.
        frame: frame its values are expressed in; empty where a frame makes no sense.
        columns: names of its columns; empty where they are the robot's joints.
    """

    unit: str
    frame: str = ""
    columns: tuple[str, ...] = ()


XYZ = ("x", "y", "z")

STANDARD = {
    "joint_pos": Standard(unit="rad"),
    "joint_vel": Standard(unit="rad/s"),
    "joint_torque": Standard(unit="N·m"),
    "joint_temperature": Standard(unit="degC"),
    "gyro": Standard(unit="rad/s", frame="body", columns=XYZ),
    "accel": Standard(unit="m/s^2", frame="body", columns=XYZ),
    "quat": Standard(unit="1", frame="world from body", columns=("w", "x", "y", "z")),
    "gravity": Standard(unit="1", frame="body", columns=XYZ),
    "base_pos": Standard(unit="m", frame="world", columns=XYZ),
    "base_vel_world": Standard(unit="m/s", frame="world", columns=XYZ),
    "base_vel": Standard(unit="m/s", frame="body", columns=XYZ),
    "base_gyro_true": Standard(unit="rad/s", frame="body", columns=XYZ),
    "joint_pos_target": Standard(unit="rad"),
    "joint_vel_target": Standard(unit="rad/s"),
    "joint_torque_target": Standard(unit="N·m"),
    "last_action": Standard(unit="1"),
    "command": Standard(unit="m/s, m/s, rad/s", frame="body"),
    "clock": Standard(unit="1", columns=("sin", "cos", "phase")),
    "foot_force": Standard(unit="N"),
    "wrench": Standard(unit="N, N·m", frame="sensor", columns=("fx", "fy", "fz", "tx", "ty", "tz")),
    "height_scan": Standard(unit="m", frame="heading"),
    "voltage": Standard(unit="V"),
    "current": Standard(unit="A"),
}

RUNTIME = ("last_action", "command", "clock")
"""Sources that the runtime itself knows; they need no sensor."""

ACTIONS = ("joint_pos_target", "joint_vel_target", "joint_torque_target", "voltage_target", "rotor_target")
"""What an action may mean to the motors."""


def of_joints(source: str) -> bool:
    """Whether the columns of `source` are joints of the robot, unless the reader says otherwise."""
    return source.startswith("joint_")


def label(name: str) -> str:
    """The name of a column as people read it: a trailing "_joint" is dropped."""
    return name.removesuffix("_joint")
