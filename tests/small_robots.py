"""Robots small enough to have a closed form: a folder with a robot file and a model, written for one test.

The time step is small and the contact plain unless a test says otherwise, so that only the physics in question is left.
"""

from pathlib import Path

from surefoot.robots import Robot, load

BALL = """<body name="ball" pos="0 0 {height}"><freejoint name="root"/>
  <inertial pos="0 0 0" mass="2" diaginertia="0.008 0.008 0.008"/>
  <geom name="ball" type="sphere" size="0.1" friction="0.5 0.005 0.0001" solimp="0.95 0.95 0.001"/></body>"""
BLOCK = """<body name="block" pos="0 0 {height}"><freejoint name="root"/>
  <inertial pos="0 0 0" mass="3" diaginertia="900 900 900"/>
  <geom name="block" type="box" size="0.2 0.2 0.02" friction="0.6 0.005 0.0001"/></body>"""
PENDULUM = """<body name="arm" pos="0 0 1"><joint name="pivot" axis="0 1 0"/>
  <inertial pos="0 0 -0.5" mass="2" diaginertia="0.02 0.03 0.01"/>
  <geom name="arm" type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" contype="0" conaffinity="0"/>
  <site name="tip" pos="0 0 -0.5"/></body>"""
FREE = """<body name="body" pos="0 0 {height}"><freejoint name="root"/>
  <inertial pos="0.1 -0.05 0.03" mass="2" fullinertia="0.02 0.03 0.04 0.001 -0.002 0.003"/>
  <geom name="shell" type="box" size="0.1 0.1 0.1" contype="0" conaffinity="0"/><site name="imu"/></body>"""


def robot(
    folder: Path,
    bodies: str,
    *,
    base: str | None = None,
    height: float = 0.0,
    joints: tuple[str, ...] = (),
    feet: tuple[str, ...] = (),
    ground: bool = True,
    timestep: float = 0.001,
    control_dt: float | None = None,
    options: str = "",
    more: str = "",
) -> Robot:
    """A robot of the given bodies (MJCF text with {height} in it); `more` is the rest of its robot file."""
    folder.mkdir(parents=True, exist_ok=True)
    text = bodies.replace("{height}", str(height))
    (folder / "model.xml").write_text(
        f'<mujoco model="small"><compiler angle="radian"/><worldbody>{text}</worldbody></mujoco>'
    )
    head = {
        "name": "small", "title": "small", "licence": "Apache-2.0", "model": "model.xml", "base": base,
        "height": height, "ground": ground, "timestep": timestep, "control_dt": control_dt or timestep,
    }  # fmt: skip
    lines = [f"{k} = {_toml(v)}" for k, v in head.items() if v is not None] + [
        f"joints = {list(joints)}",
        f"feet = {list(feet)}",
    ]
    (folder / "robot.toml").write_text("\n".join(lines) + f"\n[options]\n{options}\n{more}\n")
    return load(folder)


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
