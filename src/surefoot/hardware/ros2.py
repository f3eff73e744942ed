"""surefoot's channels as ROS 2 messages, written as a bag without ROS (extra `ros`).

| channels | topic | message |
|---|---|---|
| joint_pos, joint_vel, joint_torque | /joint_states | sensor_msgs/JointState: position, velocity, effort |
| quat, gyro, accel | /imu/data | sensor_msgs/Imu: orientation (x, y, z, w), angular_velocity, linear_acceleration |
| command, where its columns are velocities | /cmd_vel | geometry_msgs/TwistStamped |
| every other one | /NAME | std_msgs/Float64MultiArray: data, and the columns' names in layout.dim[0].label |

Units are SI, as REP 103 has it. Only standard messages are used: no package of ours is needed to read them. What ROS has no
place for (units, roles, clocks, columns' names) stands in surefoot.toml in the bag's folder, a mapping for `read_log`:

    to_ros2_bag(log, "run_ros2")
    read_log("run_ros2", "run_ros2/surefoot.toml")      # the same channels; times to the nanosecond
"""

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose, did_you_mean
from surefoot.files import write_text
from surefoot.logs import Log

MAPPING = "surefoot.toml"
MOST = 512
"""Columns that a channel may have: the reader takes longer fields for images."""
LATEST = 2**31  # [s]; seconds of a ROS stamp are 32 bits

JOINTS = {"joint_pos": "position", "joint_vel": "velocity", "joint_torque": "effort"}
IMU = {"quat": "orientation", "gyro": "angular_velocity", "accel": "linear_acceleration"}
AXES = {"quat": ("w", "x", "y", "z"), "gyro": ("x", "y", "z"), "accel": ("x", "y", "z")}
TWIST = {
    "vx": "linear.x", "vy": "linear.y", "vz": "linear.z",
    "roll_rate": "angular.x", "pitch_rate": "angular.y", "yaw_rate": "angular.z",
}  # fmt: skip
"""Parts of a command that a Twist has a place for."""


def to_ros2_bag(log: Log, folder: str | Path, *, storage: str = "mcap") -> Path:
    """Write a log as a ROS 2 bag, a new folder, whole or not at all; `storage` is "mcap" or "sqlite3".

    Joint channels share a message when they have the same joints and times, and so do the parts of the IMU; one that does not fit
    gets a topic of its own.
    """
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder} exists and a bag is never overwritten: choose another name")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        with Ros2Recorder(temporary / "bag", robot=log.robot, storage=storage) as bag:
            for channel in log.channels:
                bag.declare(
                    channel.name, unit=channel.unit, columns=channel.columns, role=channel.role, clock=channel.clock,
                    nan=channel.nan, own=not _joins(channel.name, log),
                )  # fmt: skip
            owner = np.concatenate([np.full(len(channel), i) for i, channel in enumerate(log.channels)])
            sample = np.concatenate([np.arange(len(channel)) for channel in log.channels])
            times = np.concatenate([channel.t for channel in log.channels])
            for k in np.argsort(times, kind="stable"):
                channel = log.channels[int(owner[k])]
                bag.write(channel.name, float(times[k]), channel.values[int(sample[k])])
        (temporary / "bag").rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _joins(name: str, log: Log) -> bool:
    """Whether a channel fits into the message of its kind: same times as the first of them, and same joints."""
    for group in (JOINTS, IMU):
        if name in group:
            first = next(log[other] for other in group if other in log)
            mine = log[name]
            return np.array_equal(first.t, mine.t) and (group is IMU or first.columns == mine.columns)
    return True


@dataclass
class Topic:
    """A topic of the bag, the channels in it and what has come of its next message."""

    kind: str
    connection: Any
    members: list[str] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    t: float = -np.inf  # [s]
    parts: dict[str, np.ndarray] = field(default_factory=dict)


class Ros2Recorder:
    """Writes channels into a new ROS 2 bag as they come, like `Recorder`.

        with Ros2Recorder("run_ros2", robot="go2") as bag:
            bag.declare("joint_pos", unit="rad", columns=robot.joints)
            bag.declare("joint_vel", unit="rad/s", columns=robot.joints)
            bag.write("joint_pos", t, q)
            bag.write("joint_vel", t, dq)            # completes the JointState of time t

    Channels of one message are written at the same times; one that was left incomplete at the end is named in the mapping.
    A bag that was not closed may be unreadable: where a crash must not cost the data, record with `Recorder` and convert
    afterwards.
    """

    def __init__(self, folder: str | Path, *, robot: str | None = None, storage: str = "mcap"):
        try:
            from rosbags.rosbag2 import StoragePlugin, Writer
            from rosbags.typesys import Stores, get_typestore
        except ImportError:
            raise InputError("ROS 2 bags need the extra: pip install 'surefoot[ros]'") from None
        self.folder, self.robot = Path(folder), robot
        if self.folder.exists():
            raise InputError(f"{self.folder} exists and a bag is never overwritten: choose another name")
        choose(storage, ("mcap", "sqlite3"), "a storage of ROS 2 bags")
        self._store = get_typestore(Stores.ROS2_HUMBLE)
        plugin = StoragePlugin.MCAP if storage == "mcap" else StoragePlugin.SQLITE3
        self._bag = Writer(self.folder, version=9, storage_plugin=plugin)
        self._bag.open()
        self._topics: dict[str, Topic] = {}
        self._channels: dict[str, dict[str, Any]] = {}
        self._closed = False

    def declare(
        self,
        name: str,
        *,
        unit: str,
        columns: Iterable[str],
        role: str = "y",
        clock: str = "robot",
        nan: bool = False,
        own: bool = False,
    ) -> None:
        """Announce a channel; the arguments are the fields of `Channel`. `own` gives it a topic of its own."""
        columns = (columns,) if isinstance(columns, str) else tuple(columns)
        if name in self._channels:
            raise InputError(f"channel {name!r} is already declared")
        if len(columns) > MOST:
            raise InputError(
                f"channel {name!r} has {len(columns)} columns, a bag's reader takes up to {MOST}: leave it out"
            )
        topic, kind, fields = self._place(name, columns, own)
        there = self._topics.get(topic)
        if there is None:
            connection = self._bag.add_connection(topic, kind, typestore=self._store)
            there = self._topics[topic] = Topic(kind, connection, columns=columns)
        elif there.t > -np.inf:
            raise InputError(f"channel {name!r} comes too late: messages of {topic} were already written without it")
        elif kind == "sensor_msgs/msg/JointState" and there.columns != columns:
            raise InputError(f"channel {name!r} has other joints than {there.members[0]!r}: declare it with own=True")
        there.members.append(name)
        self._channels[name] = {
            "topic": topic, "unit": unit, "columns": columns, "role": role, "clock": clock, "nan": nan,
            "from": [f"{topic}.{part}" for part in fields],
        }  # fmt: skip

    def write(self, name: str, t: float, values: np.ndarray | Iterable[float] | float) -> None:
        """Add one sample at time `t` [s]; its message is written when all its channels have come."""
        if self._closed:
            raise InputError(f"bag {self.folder} is closed")
        if name not in self._channels:
            raise InputError(f"channel {name!r} was not declared {did_you_mean(name, self._channels)}")
        channel = self._channels[name]
        topic = self._topics[channel["topic"]]
        row = np.asarray(values, dtype=np.float64).reshape(-1)
        if row.shape != (len(channel["columns"]),):
            raise InputError(f"channel {name!r} has {len(channel['columns'])} columns, got {row.size} values")
        if not 0 <= t < LATEST:
            raise InputError(
                f"time {t:g} s of channel {name!r} has no place in ROS: stamps run from 0 to {LATEST} s; shift the log"
            )
        if (t != topic.t or name in topic.parts) if topic.parts else t <= topic.t:
            waiting = [other for other in topic.members if other not in topic.parts]
            hint = f"{waiting[0]!r} is missing at {topic.t:.9g} s" if topic.parts else f"it is at {topic.t:.9g} s"
            raise InputError(
                f"channel {name!r} at {t:.9g} s does not fit into {channel['topic']}: {hint}; times must increase"
            )
        topic.t = t
        topic.parts[name] = row
        if len(topic.parts) == len(topic.members):
            nano = round(t * 1e9)
            message = self._message(topic, nano)
            self._bag.write(topic.connection, nano, self._store.serialize_cdr(message, topic.kind))
            topic.parts = {}

    def close(self) -> None:
        """Finish the bag and write its mapping; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            self._bag.close()
            if self._channels:
                write_text(self.folder / MAPPING, self._mapping())

    def __enter__(self) -> "Ros2Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _place(self, name: str, columns: tuple[str, ...], own: bool) -> tuple[str, str, list[str]]:
        """Topic, message and fields of a channel."""
        if not own and name in JOINTS:
            return "/joint_states", "sensor_msgs/msg/JointState", [JOINTS[name]]
        if not own and name in IMU and columns == AXES[name]:
            return "/imu/data", "sensor_msgs/msg/Imu", [f"{IMU[name]}.{axis}" for axis in columns]
        if not own and name == "command" and set(columns) <= set(TWIST):
            return "/cmd_vel", "geometry_msgs/msg/TwistStamped", [f"twist.{TWIST[column]}" for column in columns]
        word = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_/") else "_" for letter in name)
        topic = "/" + "/".join(f"_{part}" if part[:1].isdigit() else part for part in word.split("/") if part)
        while topic in self._topics:
            topic += "_"
        return topic, "std_msgs/msg/Float64MultiArray", ["data"]

    def _message(self, topic: Topic, nano: int) -> Any:
        kinds, parts = self._store.types, topic.parts
        if topic.kind == "std_msgs/msg/Float64MultiArray":
            n = len(topic.columns)
            one = kinds["std_msgs/msg/MultiArrayDimension"](label=",".join(topic.columns), size=n, stride=n)
            layout = kinds["std_msgs/msg/MultiArrayLayout"](dim=[one], data_offset=0)
            return kinds[topic.kind](layout=layout, data=parts[topic.members[0]])
        stamp = kinds["builtin_interfaces/msg/Time"](sec=nano // 10**9, nanosec=nano % 10**9)
        vector = kinds["geometry_msgs/msg/Vector3"]
        if topic.kind == "sensor_msgs/msg/JointState":
            header = kinds["std_msgs/msg/Header"](stamp=stamp, frame_id="")
            fields = {JOINTS[name]: part for name, part in parts.items()}
            empty = {key: np.zeros(0) for key in JOINTS.values() if key not in fields}
            return kinds[topic.kind](header=header, name=list(topic.columns), **fields, **empty)
        header = kinds["std_msgs/msg/Header"](stamp=stamp, frame_id="base")
        if topic.kind == "geometry_msgs/msg/TwistStamped":
            places = dict(zip((TWIST[column] for column in topic.columns), parts["command"].tolist(), strict=True))
            halves = [
                vector(**{axis: places.get(f"{half}.{axis}", 0.0) for axis in "xyz"}) for half in ("linear", "angular")
            ]
            return kinds[topic.kind](
                header=header, twist=kinds["geometry_msgs/msg/Twist"](linear=halves[0], angular=halves[1])
            )
        fields = {}
        for name, key in IMU.items():
            # ROS says "not measured" by a covariance that begins with -1.
            covariance = np.zeros(9)
            covariance[0] = 0.0 if name in parts else -1.0
            values = parts.get(name, np.zeros(len(AXES[name]))).tolist()
            kind = kinds["geometry_msgs/msg/Quaternion"] if name == "quat" else vector
            fields[key] = kind(**dict(zip(AXES[name], values, strict=True)))
            fields[f"{key}_covariance"] = covariance
        return kinds[topic.kind](header=header, **fields)

    def _mapping(self) -> str:
        """The mapping that gives the channels back, as TOML."""
        first = next(iter(self._channels.values()))
        lines = [
            'title = "a ROS 2 bag written by surefoot"',
            'source = "surefoot.hardware.ros2"',
            'files = { bag = "*" }',
        ]
        lines += [f"robot = {_text(self.robot)}"] if self.robot else []
        cut = [f"{topic} at {state.t:.9g} s" for topic, state in self._topics.items() if state.parts]
        lines += ["", "[constants]", f"incomplete = {_text(cut)}"] if cut else []
        lines += ["", "[time]", f"column = {_text(first['topic'] + '.time')}"]
        for name, channel in self._channels.items():
            units = [part.strip() for part in channel["unit"].split(",")]
            lines += [
                "", "[[channels]]", f"name = {_text(name)}", f"role = {_text(channel['role'])}",
                f"unit = {_text(units if len(units) > 1 else units[0])}", f"from = {_text(channel['from'])}",
                f"columns = {_text(list(channel['columns']))}", f"clock = {_text(channel['clock'])}",
                f"nan = {'true' if channel['nan'] else 'false'}",
                f"time = {{ column = {_text(channel['topic'] + '.time')} }}",
            ]  # fmt: skip
        return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    """A text, or a list of texts, in TOML: the same as in JSON."""
    return json.dumps(value, ensure_ascii=False)
