"""Rosbags and LeRobot data sets, which need an extra."""

import builtins
import json

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.logs import read_log, read_logs

JOINTS = ["FL_hip_joint", "FL_thigh_joint", "FL_calf_joint"]


def write_bag(path, kind, samples=50):
    """A bag with joint states (order of names changes), an IMU without orientation, a custom number."""
    pytest.importorskip("rosbags")
    from rosbags.typesys import Stores, get_typestore

    if kind == "ros1":
        from rosbags.rosbag1 import Writer

        store, writer = get_typestore(Stores.ROS1_NOETIC), Writer(path)
        pack = store.serialize_ros1
    else:
        from rosbags.rosbag2 import StoragePlugin, Writer

        store = get_typestore(Stores.ROS2_HUMBLE)
        plugin = StoragePlugin.MCAP if kind == "mcap" else StoragePlugin.SQLITE3
        writer, pack = Writer(path, version=9, storage_plugin=plugin), store.serialize_cdr
    kinds = store.types
    time, header = kinds["builtin_interfaces/msg/Time"], kinds["std_msgs/msg/Header"]
    joint_state, imu = kinds["sensor_msgs/msg/JointState"], kinds["sensor_msgs/msg/Imu"]
    vector, quaternion = kinds["geometry_msgs/msg/Vector3"], kinds["geometry_msgs/msg/Quaternion"]
    number = kinds["std_msgs/msg/Float64"]
    sequence = {"seq": 0} if kind == "ros1" else {}
    with writer as bag:
        extra = {"typestore": store}
        states = bag.add_connection("/joint_states", joint_state.__msgtype__, **extra)
        imus = bag.add_connection("/imu", imu.__msgtype__, **extra)
        battery = bag.add_connection("/battery", number.__msgtype__, **extra)
        for k in range(samples):
            nano = 10**9 + k * 5 * 10**6
            stamp = header(stamp=time(sec=nano // 10**9, nanosec=nano % 10**9), frame_id="base", **sequence)
            order = [0, 1, 2] if k % 2 == 0 else [2, 0, 1]
            q = np.array([0.1 * k, 0.2 * k, 0.3 * k])[order]
            state = joint_state(
                header=stamp, name=[JOINTS[i] for i in order], position=q, velocity=2 * q, effort=np.array([])
            )
            bag.write(states, nano + 1000, pack(state, joint_state.__msgtype__))
            unknown = np.full(9, 0.0)
            unknown[0] = -1
            message = imu(
                header=stamp, orientation=quaternion(x=0.0, y=0.0, z=0.0, w=0.0), orientation_covariance=unknown,
                angular_velocity=vector(x=0.01 * k, y=0.0, z=1.0), angular_velocity_covariance=np.zeros(9),
                linear_acceleration=vector(x=0.0, y=0.0, z=9.81), linear_acceleration_covariance=np.zeros(9),
            )  # fmt: skip
            bag.write(imus, nano + 2000, pack(message, imu.__msgtype__))
            bag.write(battery, nano + 3000, pack(number(data=12.0 - k), number.__msgtype__))
    return path


BAGS = {"ros1": "run.bag", "sqlite": "run_sqlite", "mcap": "run_mcap"}


@pytest.mark.parametrize("kind", list(BAGS))
def test_a_bag_gives_joints_by_name_and_the_imu_in_si(tmp_path, kind):
    log = read_log(write_bag(tmp_path / BAGS[kind], kind))
    k = np.arange(50)
    assert log["joint_pos"].columns == tuple(JOINTS)
    np.testing.assert_allclose(log["joint_pos"].values, np.outer(k, [0.1, 0.2, 0.3]))
    np.testing.assert_allclose(log["joint_vel"].values, np.outer(k, [0.2, 0.4, 0.6]))
    assert "joint_torque" not in log
    np.testing.assert_allclose(log["joint_pos"].t, 1 + 0.005 * k)
    np.testing.assert_allclose(log["gyro"].column("x"), 0.01 * k)
    assert log["accel"].unit == "m/s^2"
    assert "quat" not in log
    assert log.meta["unit_unknown"] == ["/battery.data"]
    np.testing.assert_allclose(log["/battery.data"].values[:, 0], 12.0 - k)
    assert log["/battery.data"].role == "info"


@pytest.mark.parametrize("kind", list(BAGS))
def test_a_mapping_names_what_is_in_a_bag(tmp_path, kind):
    bag = write_bag(tmp_path / "bags" / BAGS[kind], kind) if (tmp_path / "bags").mkdir() is None else None
    mapping = tmp_path / "bag.toml"
    mapping.write_text(
        'title = "t"\nsource = "s"\nfiles = { bag = "*" }\n[time]\ncolumn = "/battery.bag_time"\n'
        '[[channels]]\nname = "voltage"\nunit = "mV"\nfrom = "/battery.data"\ncolumns = ["battery"]\n'
    )
    log = read_log(bag, mapping)
    assert log["voltage"].values[0, 0] == pytest.approx(0.012)
    assert log["voltage"].t[0] == pytest.approx(1.000003)
    assert len(read_logs(tmp_path / "bags")) == 1


def test_a_bag_that_is_none_is_one_sentence(tmp_path):
    pytest.importorskip("rosbags")
    (tmp_path / "a.bag").write_bytes(b"#ROSBAG V2.0\nand then nothing")
    (tmp_path / "a.db3").write_bytes(b"nothing")
    for name in ("a.bag", "a.db3"):
        with pytest.raises(InputError, match="cannot be read as a rosbag") as error:
            read_log(tmp_path / name)
        assert "\n" not in str(error.value)


def write_lerobot(root, version, episodes=3, frames=40):
    """A data set with known states; v2.1 has a file per episode, v3 one file for all."""
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    names = ["shoulder.pos", "elbow.pos"]
    feature = {"dtype": "float32", "shape": [2], "names": names if version == "v3.0" else {"motors": names}}
    info = {
        "codebase_version": version,
        "fps": 50,
        "robot_type": "so101",
        "features": {"observation.state": feature, "action": feature},
    }
    (root / "meta").mkdir(parents=True)
    (root / "meta" / "info.json").write_text(json.dumps(info))
    tables = []
    for episode in range(episodes):
        k = np.arange(frames)
        state = np.stack([k + 100 * episode, -k], axis=1).astype(np.float32)
        as_list = pa.FixedSizeListArray.from_arrays if version == "v3.0" else None
        column = as_list(state.ravel(), 2) if as_list else pa.array(state.tolist(), pa.list_(pa.float32()))
        tables.append(
            pa.table(
                {
                    "observation.state": column, "action": column, "timestamp": pa.array((k / 50).astype(np.float32)),
                    "frame_index": k, "episode_index": np.full(frames, episode), "index": k + episode * frames,
                    "task_index": np.zeros(frames, dtype=int),
                }
            )
        )  # fmt: skip
    folder = root / "data" / "chunk-000"
    folder.mkdir(parents=True)
    if version == "v3.0":
        pq.write_table(pa.concat_tables(tables), folder / "file-000.parquet")
    else:
        for episode, table in enumerate(tables):
            pq.write_table(table, folder / f"episode_{episode:06d}.parquet")
    return root


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_lerobot_episodes_become_logs(tmp_path, version):
    root = write_lerobot(tmp_path / "set", version)
    logs = read_logs(root)
    assert [log.meta["part"] for log in logs] == [0, 1, 2]
    log = logs[1]
    np.testing.assert_array_equal(log["observation.state"].column("shoulder.pos"), np.arange(40) + 100)
    assert log["action"].role == "u"
    assert log.timing()["action"].rate == pytest.approx(50, rel=1e-3)
    assert log.meta["unit_unknown"] == ["observation.state", "action"]
    assert read_log(root, part=2) == logs[2]
    assert len(read_logs(tmp_path)) == 3


def test_a_mapping_gives_lerobot_its_units(tmp_path):
    root = write_lerobot(tmp_path / "set", "v3.0")
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        'title = "t"\nsource = "s"\nfiles = { data = "*.parquet" }\n[time]\ncolumn = "timestamp"\n'
        '[[channels]]\nname = "joint_pos"\nunit = "deg"\nfrom = "observation.state"\ncolumns = ["shoulder", "elbow"]\n'
    )
    log = read_log(root, mapping, part=1)
    np.testing.assert_allclose(log["joint_pos"].column("shoulder"), np.radians(np.arange(40) + 100))


def test_a_parquet_file_that_is_none_is_one_sentence(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(InputError, match="cannot be read as Parquet") as error:
        read_log(tmp_path / "a.parquet")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "package", "extra"), [("a.bag", "rosbags", "ros"), ("a.parquet", "pyarrow", "lerobot")]
)
def test_a_missing_extra_is_named(tmp_path, monkeypatch, name, package, extra):
    plain = builtins.__import__

    def without(module, *rest, **more):
        if module.split(".")[0] == package:
            raise ImportError(module)
        return plain(module, *rest, **more)

    (tmp_path / name).write_bytes(b"x")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=rf"pip install 'surefoot\[{extra}\]'"):
        read_log(tmp_path / name)
