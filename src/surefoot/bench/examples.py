"""One Param of every kind, with bounds that make sense on Go2 (rotors: on Crazyflie), to measure them all by."""

from typing import Any

from surefoot.params import CONSTRUCTORS, KINDS, Param, Params
from surefoot.robots import Robot, load

FEET, JOINTS, LEGS = ".*_foot", ".*_joint", ".*_(hip|thigh)_joint"

_EXAMPLES: dict[str, tuple[Any, ...]] = {
    "friction": (FEET, 0.3, 1.2), "torsional_friction": (FEET, 0.001, 0.05), "rolling_friction": (FEET, 1e-4, 0.01),
    "softness": (FEET, 0.01, 0.05), "contact_damping": (FEET, 0.3, 1.5), "bounce": (FEET, 0.05, 0.8),
    "soft_ground": (FEET, 0.001, 0.02), "patch_friction": (FEET, 0.3, 1.0), "static_friction": (FEET, 1.0, 1.5),
    "radius": (FEET, 0.015, 0.03), "sole_wear": (FEET, 0.0, 0.005), "link_length": (".*_calf", 0.95, 1.05),
    "axis_tilt": (".*_calf_joint", -0.05, 0.05), "zero_offset": (JOINTS, -0.05, 0.05), "stop_shift": (JOINTS, -0.05, 0.05),
    "stop_softness": (JOINTS, 0.01, 0.1), "stop_damping": (JOINTS, 0.2, 1.0), "mass": ("base", 6.0, 9.9),
    "com": ("base", -0.05, 0.05), "inertia": ("base", -0.1, 0.1), "payload_mass": ("base", 0.0, 3.0),
    "payload_place": ("base", -0.1, 0.1), "link_compliance": (".*_calf", 50.0, 500.0), "strength": (JOINTS, 0.8, 1.05),
    "kp": (JOINTS, 34.0, 46.0), "kd": (JOINTS, 0.6, 1.4), "torque_limit": (JOINTS, 15.0, 30.0),
    "torque_constant": (LEGS, 0.7, 1.2), "resistance": (LEGS, 0.8, 1.6), "voltage": (LEGS, 22.0, 30.0),
    "speed_limit": (LEGS, 20.0, 35.0), "cogging": (LEGS, 0.0, 0.3), "thermal": (LEGS, 0.5, 5.0),
    "voltage_sag": (None, 0.0, 0.3), "armature": (JOINTS, 0.003, 0.03), "damping": (JOINTS, 0.05, 2.5),
    "coulomb": (JOINTS, 0.05, 1.0), "stribeck": (JOINTS, 0.0, 0.5), "load_friction": (JOINTS, 0.0, 0.2),
    "load_stribeck": (JOINTS, 0.0, 0.1), "motor_friction": (JOINTS, 0.0, 0.1), "external_friction": (JOINTS, 0.0, 0.1),
    "quadratic_friction": (JOINTS, 0.0, 0.02), "backlash": (JOINTS, 0.001, 0.02),
    "spring_stiffness": (JOINTS, 50.0, 500.0),
    "coulomb_asymmetry": (JOINTS, -0.2, 0.2), "damping_asymmetry": (JOINTS, -0.2, 0.2),
    "coulomb_slope": (JOINTS, -0.2, 0.2), "rotor_inertia": (".*_calf_joint", 0.0, 2e-4),
    "cable_stiffness": (JOINTS, 0.0, 2.0), "cable_rest": (JOINTS, -0.5, 0.5),
    "rotor_lag": (".*", 0.02, 0.12), "command_delay": (None, 0.0, 0.03), "command_jitter": (None, 0.0, 0.01),
    "rate_limit": (JOINTS, 2.0, 20.0), "encoder_bias": (JOINTS, -0.03, 0.03), "encoder_noise": (JOINTS, 0.0, 0.003),
    "encoder_quantum": (JOINTS, 0.0, 0.002), "velocity_noise": (JOINTS, 0.0, 0.1),
    "velocity_differencing": (None, 0.0, 1.0), "velocity_filter": (None, 0.002, 0.02),
    "gyro_noise": (None, 1e-4, 2e-3), "gyro_bias": (None, -0.02, 0.02), "gyro_walk": (None, 0.0, 1e-3),
    "gyro_scale": (None, -0.02, 0.02), "gyro_misalignment": (None, -0.02, 0.02), "accel_noise": (None, 1e-3, 1e-2),
    "accel_bias": (None, -0.2, 0.2), "accel_walk": (None, 0.0, 1e-3), "accel_scale": (None, -0.02, 0.02),
    "accel_misalignment": (None, -0.02, 0.02), "imu_mounting": (None, -0.05, 0.05), "sensor_delay": (".*", 0.0, 0.02),
    "sensor_jitter": (".*", 0.0, 0.01), "sensor_dropout": (".*", 0.0, 0.2), "sensor_period": (".*", 0.0, 0.05),
    "force_noise": (None, 0.0, 5.0), "force_drift": (None, -0.5, 0.5), "temperature": (None, -10.0, 50.0),
    "gravity": (None, 9.78, 9.83), "slope": (None, -0.2, 0.2), "roughness": (None, 0.0, 0.04),
    "step_height": (None, 0.0, 0.06),
    "push": (None, 0.0, 1.0), "wrench": (None, -10.0, 10.0), "moment": (None, -2.0, 2.0), "wind": (None, -5.0, 5.0),
    "drag": (None, 0.0, 0.2), "cable_drag": (None, 0.0, 5.0), "torque_noise": (None, 0.0, 0.2),
    "gust": (None, 0.0, 3.0),
    "floor_vibration": (None, 0.0, 2.0), "timestep": (None, 0.0025, 0.005), "integrator": (None, 0.0, 3.0),
    "solver": (None, 1.0, 2.0), "iterations": (None, 2.0, 100.0), "cone": (None, 0.0, 1.0),
    "impratio": (None, 1.0, 10.0),
}  # fmt: skip
"""Kind -> (of, low, high)."""
_CHOICES = {
    "velocity_differencing": (0.0, 1.0), "roughness": (0.0, 0.02, 0.04), "step_height": (0.0, 0.03, 0.06),
    "timestep": (0.0025, 0.005),
    "integrator": (0.0, 3.0), "solver": (1.0, 2.0), "iterations": (2.0, 100.0), "cone": (0.0, 1.0),
}  # fmt: skip
_BESIDE = {"voltage_sag": ("voltage",), "force_drift": ("temperature",), "temperature": ("force_drift",)}
"""Kinds that act only together with another."""


def example(kind: str) -> Param:
    """A Param of this kind."""
    of, low, high = _EXAMPLES[kind]
    where = {} if of is None else {"of": of}
    return CONSTRUCTORS[kind](low=low, high=high, choices=_CHOICES.get(kind), **where)


def example_params(kind: str) -> Params:
    """Params(kind=...) with what the kind needs beside it to act."""
    return Params(**{name: example(name) for name in (kind, *_BESIDE.get(kind, ()))})


def example_robot(kind: str) -> Robot:
    """A robot the kind can act on."""
    return load("crazyflie" if kind == "rotor_lag" else "go2")


def structural_kinds() -> list[str]:
    """Kinds that need something built into Go2's model."""
    return [name for name, kind in KINDS.items() if kind.structural and name != "rotor_lag"]
