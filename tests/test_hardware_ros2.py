"""ROS 2 bags: what is written comes back through the project's own reader, with the same numbers."""

import builtins

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.hardware.ros2 import Ros2Recorder, to_ros2_bag
from surefoot.logs import Channel, Log, read_log

JOINTS = ("FR_hip_joint", "FR_thigh_joint", "FR_calf_joint")


@pytest.fixture
def _rosbags():
    pytest.importorskip("rosbags")


pytestmark = pytest.mark.usefixtures("_rosbags")


def planted(samples: int = 40) -> Log:
    """A recorded run: raw readings at 500 Hz, a policy at 50 Hz."""
    rng = np.random.default_rng(4)
    fast, slow = 1.5 + np.arange(samples) * 0.002, 1.5 + np.arange(samples // 10) * 0.02
    quat = rng.normal(size=(samples, 4))
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)

    def channel(name, unit, columns, t, values=None, **rest):
        values = rng.normal(size=(len(t), len(columns))) if values is None else values
        return Channel(name=name, unit=unit, columns=tuple(columns), t=t, values=values, **rest)

    return Log(
        robot="go2",
        channels=(
            channel("joint_pos", "rad", JOINTS, fast),
            channel("joint_vel", "rad/s", JOINTS, fast),
            channel("joint_torque", "N·m", JOINTS, fast),
            channel("quat", "1", "wxyz", fast, quat),
            channel("gyro", "rad/s", "xyz", fast),
            channel("accel", "m/s^2", "xyz", fast),
            channel("gravity", "1", "xyz", fast),
            channel("observation/policy", "1", ("gyro x", "joint_pos FR_hip"), slow),
            channel("action", "1", JOINTS, slow),
            channel("command", "m/s, m/s, rad/s", ("vx", "vy", "yaw_rate"), slow),
            channel("joint_pos_target", "rad", JOINTS, fast, role="u"),
            channel("base_pos", "m", "xyz", slow, clock="mocap"),
        ),
    )


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_log_comes_back_from_a_bag(tmp_path, storage):
    log = planted()
    folder = to_ros2_bag(log, tmp_path / "run", storage=storage)
    again = read_log(folder, folder / "surefoot.toml")
    assert again.robot == "go2"
    assert again.names == log.names
    for channel in log:
        other = again[channel.name]
        for name in ("unit", "columns", "role", "clock", "nan"):
            assert getattr(other, name) == getattr(channel, name), (channel.name, name)
        assert np.array_equal(other.values, channel.values), channel.name
        assert np.abs(other.t - channel.t).max() < 1e-9


def test_any_reader_of_ros_finds_joints_and_imu(tmp_path):
    log = planted()
    plain = read_log(to_ros2_bag(log, tmp_path / "run"))  # without the mapping
    for name in ("joint_pos", "joint_vel", "joint_torque", "quat", "gyro", "accel"):
        assert np.array_equal(plain[name].values, log[name].values), name
        assert (plain[name].unit, plain[name].columns) == (log[name].unit, log[name].columns)
    assert np.array_equal(plain["/cmd_vel.twist.angular.z"].values[:, 0], log["command"].column("yaw_rate"))
    assert np.array_equal(plain["/joint_pos_target.data"].values, log["joint_pos_target"].values)


def test_messages_are_standard_and_name_their_columns(tmp_path):
    from rosbags.highlevel import AnyReader

    with AnyReader([to_ros2_bag(planted(), tmp_path / "run")]) as reader:
        kinds = {connection.topic: connection.msgtype for connection in reader.connections}
        assert kinds["/joint_states"] == "sensor_msgs/msg/JointState"
        assert kinds["/imu/data"] == "sensor_msgs/msg/Imu"
        assert kinds["/cmd_vel"] == "geometry_msgs/msg/TwistStamped"
        assert kinds["/observation/policy"] == "std_msgs/msg/Float64MultiArray"
        connection = next(c for c in reader.connections if c.topic == "/action")
        _, stamp, raw = next(reader.messages([connection]))
        message = reader.deserialize(raw, connection.msgtype)
        assert stamp == 1_500_000_000
        assert message.layout.dim[0].label == ",".join(JOINTS)


def test_channels_that_do_not_share_times_get_topics_of_their_own(tmp_path):
    log = planted()
    late = Channel(name="joint_vel", unit="rad/s", columns=JOINTS, t=log["action"].t, values=log["action"].values)
    gyro = log["gyro"]
    part = Log(channels=(log["joint_pos"], late, gyro))
    folder = to_ros2_bag(part, tmp_path / "run")
    again = read_log(folder, folder / "surefoot.toml")
    assert np.array_equal(again["joint_vel"].values, late.values)
    assert np.array_equal(again["joint_pos"].values, log["joint_pos"].values)
    assert "quat" not in read_log(folder)  # an IMU without orientation says so
    assert "accel" not in read_log(folder)


def test_a_stream_completes_messages_and_refuses_holes(tmp_path):
    with Ros2Recorder(tmp_path / "run", robot="go2") as bag:
        bag.declare("joint_pos", unit="rad", columns=JOINTS)
        bag.declare("joint_vel", unit="rad/s", columns=JOINTS)
        bag.declare("voltage", unit="V", columns="battery")
        for k in range(5):
            bag.write("joint_pos", 0.002 * k, np.full(3, k))
            bag.write("voltage", 0.002 * k, 28.0 + k)
            bag.write("joint_vel", 0.002 * k, np.full(3, -k))
        bag.write("joint_pos", 1.0, np.zeros(3))
        with pytest.raises(InputError, match="'joint_vel' is missing at 1 s"):
            bag.write("joint_pos", 1.002, np.zeros(3))
        with pytest.raises(InputError, match="too late"):
            bag.declare("joint_torque", unit="N·m", columns=JOINTS)
        with pytest.raises(InputError, match="did you mean 'voltage'"):
            bag.write("voltge", 1.0, 3.0)
        with pytest.raises(InputError, match="has 3 columns, got 2"):
            bag.write("joint_pos", 2.0, [1.0, 2.0])
        with pytest.raises(InputError, match="times must increase"):
            bag.write("voltage", 0.001, 3.0)
        with pytest.raises(InputError, match="no place in ROS"):
            bag.write("voltage", -1.0, 3.0)
    with pytest.raises(InputError, match="is closed"):
        bag.write("voltage", 2.0, 3.0)
    log = read_log(tmp_path / "run", tmp_path / "run" / "surefoot.toml")
    assert log["voltage"].values[:, 0].tolist() == [28, 29, 30, 31, 32]
    assert log["joint_vel"].values[:, 0].tolist() == [0, -1, -2, -3, -4]
    assert log.meta["incomplete"] == ["/joint_states at 1 s"]
    with Ros2Recorder(tmp_path / "other") as bag:
        bag.declare("joint_pos", unit="rad", columns=JOINTS)
        with pytest.raises(InputError, match="own=True"):
            bag.declare("joint_torque", unit="N·m", columns=("other",))
        bag.write("joint_pos", 0.5, np.zeros(3))
        with pytest.raises(InputError, match=r"it is at 0\.5 s"):
            bag.write("joint_pos", 0.5, np.zeros(3))


def test_a_bag_is_whole_or_absent(tmp_path):
    log = planted()
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="never overwritten"):
        to_ros2_bag(log, tmp_path / "there")
    with pytest.raises(InputError, match="did you mean 'mcap'"):
        to_ros2_bag(log, tmp_path / "x", storage="mcp")
    early = Log(
        channels=(Channel(name="gyro", unit="rad/s", columns=tuple("xyz"), t=[-1.0, 0.0], values=np.zeros((2, 3))),)
    )
    with pytest.raises(InputError, match="shift the log"):
        to_ros2_bag(early, tmp_path / "x")
    wide = Channel(
        name="scan", unit="m", columns=tuple(f"p{k}" for k in range(600)), t=[0.0], values=np.zeros((1, 600))
    )
    with pytest.raises(InputError, match="600 columns"):
        to_ros2_bag(Log(channels=(wide,)), tmp_path / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.split(".")[0] == "rosbags":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match=r"surefoot\[ros\]"):
        to_ros2_bag(planted(), tmp_path / "run")
