"""Leg odometry against the referee: how fast a robot walked by its own joints and IMU, beside the truth that it does not see."""

import numpy as np
import pytest

from surefoot.deploy.bundle import load_bundle
from surefoot.deploy.odometry import walk_of
from surefoot.deploy.recorded_run import Run
from surefoot.deploy.runtime import deploy
from surefoot.deploy.trajectory import read_played
from surefoot.hardware.connect import connect
from surefoot.hardware.referee import read_truth
from surefoot.robots import load


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"vx": 0.5}, {"vx": 0.2, "vy": 0.3}, {"vx": 0.3, "yaw_rate": 0.6}])
def test_legs_that_stand_tell_how_fast_the_robot_walks(tmp_path, asked):
    bundle = load_bundle("go2-walk")
    hardware = connect("twin:go2/02-heavy-battery", lockstep=True, seed=0, referee=tmp_path / "truth.npz")
    try:
        outcome = deploy(bundle, hardware, seconds=4.0, command=asked, record=tmp_path / "walk.mcap", say=None)
    finally:
        hardware.close()
    truth, start = read_truth(tmp_path / "truth.npz"), dict(outcome.stages)["policy"]
    late = truth.after(start + 2.0, start + 4.0)
    w, x, y, z = truth.quat[late].T
    yaw = np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))
    vx, vy = truth.base_vel_world[late, 0], truth.base_vel_world[late, 1]
    true = np.array([(np.cos(yaw) * vx + np.sin(yaw) * vy).mean(), (np.cos(yaw) * vy - np.sin(yaw) * vx).mean()])
    log = read_played(tmp_path / "walk.mcap")
    walk = walk_of(Run(bundle.contract, log), load("go2"))
    assert walk is not None
    begin = log["action"].t[0]
    found = walk.mean(begin + 2.0, begin + 4.0)
    assert found is not None
    assert np.linalg.norm(true) > 0.2
    assert np.linalg.norm(found[:2] - true) < 0.06
    assert found[2] == pytest.approx(truth.gyro[late, 2].mean(), abs=0.05)


def test_robots_without_legs_and_logs_without_readings_have_no_walk(tmp_path):
    bundle = load_bundle("go2-walk")
    hardware = connect("twin:go2/01-nominal", lockstep=True, seed=0)
    try:
        deploy(bundle, hardware, seconds=0.5, command={"vx": 0.3}, record=tmp_path / "walk.mcap", say=None)
    finally:
        hardware.close()
    log = read_played(tmp_path / "walk.mcap")
    assert walk_of(Run(bundle.contract, log), load("qube")) is None
    assert (
        walk_of(Run(bundle.contract, log.select(*(name for name in log.names if name != "gyro"))), load("go2")) is None
    )
