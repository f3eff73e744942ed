"""Robots: model, joint order, gains, limits, sensors and default Params, from a folder or a file."""

from surefoot.robots.check import Finding as Finding
from surefoot.robots.check import check as check
from surefoot.robots.read import available as available
from surefoot.robots.read import load as load
from surefoot.robots.robot import Actuator as Actuator
from surefoot.robots.robot import Robot as Robot
from surefoot.robots.robot import SensorSpec as SensorSpec
from surefoot.robots.scan import scan_points as scan_points
from surefoot.robots.scan import scanning as scanning
from surefoot.robots.strip import Stripped as Stripped
from surefoot.robots.strip import strip_meshes as strip_meshes
