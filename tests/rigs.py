"""Test rigs: robots so small that their motion has a closed form, written as text into a temporary folder."""

from pathlib import Path

import numpy as np

from surefoot.robots import Robot, load
from surefoot.sim import Sim

WHEEL = """
<body name="wheel"><inertial pos="0 0 0" mass="1" diaginertia="0.02 0.02 0.02"/>
  <joint name="wheel" axis="0 0 1"/></body>"""
"""A flywheel about a vertical axis: gravity does nothing, inertia 0.02 kg·m² plus armature."""
SLIDER = """
<body name="cart"><inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>
  <joint name="slide" type="slide" axis="1 0 0"/></body>"""
"""A mass of 2 kg on a horizontal rail: forces integrate to speed, speeds to place."""
PENDULUM = """
<body name="arm"><inertial pos="0 0 -0.3" mass="0.5" diaginertia="1e-9 1e-9 1e-9"/>
  <joint name="arm" axis="0 1 0"/></body>"""
"""A point of 0.5 kg on 0.3 m; 0 rad hangs down. Inertia about the joint 0.045 kg·m², gravity torque 1.4715 N·m."""
BODY = """
<body name="base"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="0.01 0.01 0.01"/>
  <site name="imu" {place}/></body>"""
"""A free body with an IMU somewhere on it; nothing to touch."""

ENCODER = '[[sensors]]\nkind = "encoder"\nname = "encoder"\nof = ".*"\nrate = 1000.0\n'
TORQUE = '[[sensors]]\nkind = "motor_torque"\nname = "torque"\nof = ".*"\nrate = 1000.0\n'
IMU = '[[sensors]]\nkind = "imu"\nname = "imu"\nsite = "imu"\nrate = 1000.0\n'


def rig(
    folder: Path,
    bodies: str,
    *,
    motor: str = "",
    sensors: str = ENCODER,
    dt: float = 0.001,
    period: float = 0.005,
    gravity: float = 9.81,
    options: str = "",
    more: str = "",
) -> Robot:
    """A robot of `bodies` (MJCF text), all joints driven by one `motor` (lines of an [[actuators]] table)."""
    folder.mkdir(parents=True, exist_ok=True)
    model = f'<mujoco><compiler angle="radian"/><worldbody>{bodies}</worldbody></mujoco>'
    (folder / "model.xml").write_text(model, encoding="utf-8")
    joints = "" if "sites" in motor else 'joints = ".*"'
    actuators = f"[[actuators]]\n{joints}\n{motor}\n" if motor else ""
    text = f"""
name = "rig"
title = "a rig"
licence = "none"
model = "model.xml"
ground = false
timestep = {dt}
control_dt = {period}
{more}
[options]
integrator = "implicitfast"
gravity = [0.0, 0.0, {-gravity}]
{options}
{actuators}
{sensors}
"""
    (folder / "robot.toml").write_text(text, encoding="utf-8")
    return load(folder / "robot.toml")


def readings(sim: Sim, steps: int, name: str) -> np.ndarray:
    """Readings of one channel after every control step, (steps, worlds, k)."""
    out = []
    for _ in range(steps):
        sim.step(np.zeros(sim.model.nu))
        out.append(sim.sense()[name])
    return np.array(out)
