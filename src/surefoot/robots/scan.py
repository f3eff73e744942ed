"""A height scan: how far below the base the ground lies, at points of a grid that turns with the heading.

Robots make it from a depth camera or a lidar and their own odometry (elevation mapping). Here it is one sensor of kind
`height_scan`, with the errors that such maps have: white noise at every point, an offset of the whole map, age.
"""

import dataclasses
import hashlib

import numpy as np

from surefoot.errors import InputError
from surefoot.robots.robot import Robot, SensorSpec

NEEDED = ("length", "width", "spacing", "range")
SOURCE = (
    "grid: coarser than the 0.1 m of legged_gym and Isaac Lab, which also add ±0.1 m of uniform noise at every point; noise, offset and "
    "delay: our estimate for an elevation map from a depth camera (centimetres, a few control steps)"
)


def scan_points(sensor: SensorSpec) -> dict[str, tuple[float, float]]:
    """Points (x, y) [m] of a height scan from the base, x ahead and y left, by column name "+0.15,-0.30"."""
    missing = [name for name in NEEDED if not sensor.figures.get(name)]
    if missing:
        raise InputError(f"sensor '{sensor.name}' is a height scan and needs {', '.join(missing)} above 0 [m]")
    along, across = (
        sensor.figures["spacing"] * np.arange(-n, n + 1)
        for n in (int(sensor.figures[side] / 2 / sensor.figures["spacing"] + 1e-9) for side in ("length", "width"))
    )
    points = {f"{x:+.2f},{y:+.2f}": (float(x), float(y)) for x in along for y in across}
    if len(points) < len(along) * len(across):
        raise InputError(f"sensor '{sensor.name}' has points closer than 1 cm: raise its spacing")
    return points


def scanning(
    robot: Robot,
    *,
    length: float = 1.2,
    width: float = 0.6,
    spacing: float = 0.15,
    reach: float = 0.5,
    noise: float = 0.015,
    offset: float = 0.02,
    delay: float = 0.04,
    rate: float = 50.0,
) -> Robot:
    """The robot with a height scan around its base.

    Args:
        robot: one with a free base and no height scan yet.
        length: of the grid, ahead and behind together [m].
        width: of the grid, left and right together [m].
        spacing: of its points [m].
        reach: largest height that it shows, up or down from nominal [m].
        noise: standard deviation of each point in each reading [m].
        offset: standard deviation of the error that all points share during an episode [m].
        delay: age of a reading when it is delivered [s]; a Param of kind sensor_delay takes its place.
        rate: of the sensor [Hz].
    """
    if robot.base is None:
        raise InputError(f"{robot.name} has no free base, so it cannot carry a height scan: use it as it is")
    if any(sensor.kind == "height_scan" for sensor in robot.sensors):
        raise InputError(f"{robot.name} has a height scan already: use it as it is")
    figures = {
        "length": length, "width": width, "spacing": spacing, "range": reach, "noise": noise, "offset": offset,
    }  # fmt: skip
    sensor = SensorSpec(kind="height_scan", name="height_scan", rate=rate, delay=delay, figures=figures, source=SOURCE)
    scan_points(sensor)
    digest = hashlib.sha256(f"{robot.hash} {sensor!r}".encode()).hexdigest()
    return dataclasses.replace(robot, sensors=(*robot.sensors, sensor), hash=digest)
