"""Rosbags of ROS 1 and ROS 2 (extra `ros`): joint states and IMUs in SI, every other number by its field's name."""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.logs.channel import Channel
from surefoot.logs.log import Log
from surefoot.logs.mapped import logs_from, origin
from surefoot.logs.mapping import FileMapping
from surefoot.logs.rawbytes import one_line
from surefoot.logs.source import Source

LONGEST = 512  # numbers; a longer field is an image or a point cloud, not a signal
JOINT_FIELDS = {"position": ("joint_pos", "rad"), "velocity": ("joint_vel", "rad/s"), "effort": ("joint_torque", "N·m")}
IMU_FIELDS = {
    "orientation": ("quat", "1", "wxyz"),
    "angular_velocity": ("gyro", "rad/s", "xyz"),
    "linear_acceleration": ("accel", "m/s^2", "xyz"),
}


@dataclass
class Topic:
    """Messages of one topic: their type, times [s] and flattened fields."""

    kind: str
    bag: list[float] = field(default_factory=list)
    stamp: list[float] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def times(self) -> np.ndarray:
        """Times of the headers where all messages have one, else when the messages were recorded [s]."""
        stamped = len(self.stamp) == len(self.bag) and any(self.stamp)
        return np.array(self.stamp if stamped else self.bag)


def rosbag_logs(path: Path, mapping: FileMapping | None) -> Iterator[Log]:
    """The log of a bag (.bag, .db3, .mcap or a ROS 2 folder); through a mapping when one is given.

    Without a mapping, sensor_msgs/JointState gives joint_pos, joint_vel and joint_torque, sensor_msgs/Imu gives quat,
    gyro and accel (units of ROS: REP 103). Numbers of other messages become channels "topic.field" of role "info" in
    "count", and `meta["unit_unknown"]` names them: a mapping says what they are.
    """
    if mapping is not None:
        source = Source(path=path, columns=bag_columns(path))
        yield from logs_from(mapping, {mapping.anchor: source}, {mapping.anchor: path})
        return
    topics = _topics(path)
    joints = [name for name, topic in topics.items() if topic.kind.endswith("/JointState")]
    imus = [name for name, topic in topics.items() if topic.kind.endswith("/Imu")]
    channels: list[Channel] = []
    unknown: list[str] = []
    for name, topic in topics.items():
        if name in joints:
            channels += _joint_channels(name, topic, alone=len(joints) == 1)
        elif name in imus:
            channels += _imu_channels(name, topic, alone=len(imus) == 1)
        else:
            others = _other_channels(name, topic)
            unknown += [channel.name for channel in others]
            channels += others
    if not channels:
        raise InputError(f"{path} holds no messages with numbers")
    meta: dict[str, Any] = {"source": origin([path])}
    yield Log(channels=tuple(channels), meta=meta | ({"unit_unknown": unknown} if unknown else {}))


def bag_columns(path: Path) -> dict[str, Any]:
    """Columns "topic.field" of the numbers in a bag, "topic.time" (header) and "topic.bag_time" [s], for a mapping."""
    columns: dict[str, Any] = {}
    for name, topic in _topics(path).items():
        columns[f"{name}.time"] = topic.times
        columns[f"{name}.bag_time"] = np.array(topic.bag)
        for key, values in _stacked(topic.rows).items():
            columns[f"{name}.{key}"] = values
    return columns


class Bounded(io.BufferedReader):
    """A file that is never asked for more bytes than it has: a damaged length cannot fill the memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        """At most `size` bytes, and at most what is left."""
        left = max(0, os.fstat(self.fileno()).st_size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


class BagPath(type(Path())):
    """A path that opens its file bounded; folders below it do too."""

    def open(self, *_: Any, **__: Any) -> Bounded:  # type: ignore[override]
        """Open for reading bytes."""
        return Bounded(io.FileIO(str(self), "rb"))


def _topics(path: Path) -> dict[str, Topic]:
    """All messages of a bag by topic; whatever the parser objects to is one InputError."""
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise InputError(f"{path} is a rosbag, which needs the extra: pip install 'surefoot[ros]'") from None
    topics: dict[str, Topic] = {}
    try:
        with AnyReader([BagPath(path)], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as reader:
            for connection, nanoseconds, raw in reader.messages():
                message: Any = reader.deserialize(raw, connection.msgtype)
                topic = topics.setdefault(connection.topic, Topic(connection.msgtype))
                topic.bag.append(nanoseconds * 1e-9)
                stamp = getattr(getattr(message, "header", None), "stamp", None)
                if stamp is not None:
                    topic.stamp.append(stamp.sec + stamp.nanosec * 1e-9)
                topic.rows.append(_flat(message) | _joint_names(message))
    except Exception as error:  # The bag parsers of others raise many kinds of errors on damaged bytes.
        raise InputError(f"{path} cannot be read as a rosbag: {one_line(error)}") from None
    if not topics:
        raise InputError(f"{path} holds no messages")
    return topics


def _joint_names(message: Any) -> dict[str, Any]:
    names = getattr(message, "name", None)
    return {"name": tuple(names)} if isinstance(names, list) and all(isinstance(n, str) for n in names) else {}


def _flat(message: Any, name: str = "") -> dict[str, Any]:
    """Numbers and short arrays of numbers in a ROS message by their dotted names; the header is left out."""
    found: dict[str, Any] = {}
    for key in getattr(message, "__dataclass_fields__", {}):
        value = getattr(message, key)
        full = f"{name}.{key}" if name else key
        if key in ("header", "__msgtype__"):
            continue
        if isinstance(value, bool | int | float):
            found[full] = float(value)
        elif isinstance(value, np.ndarray):
            if value.dtype.kind in "fiub" and 0 < value.size <= LONGEST:
                found[full] = value.astype(np.float64).ravel()
        elif hasattr(value, "__dataclass_fields__"):
            found |= _flat(value, full)
    return found


def _stacked(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Fields that every message has in the same length, (T,) or (T, k)."""
    stacked = {}
    for key in rows[0]:
        if key == "name" or any(key not in row for row in rows):
            continue
        values = [row[key] for row in rows]
        if len({np.shape(value) for value in values}) == 1:
            stacked[key] = np.array(values, dtype=np.float64)
    return stacked


def _joint_channels(name: str, topic: Topic, *, alone: bool) -> list[Channel]:
    """Channels of a JointState topic; publishers of different joints on one topic get channels of their own."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, row in enumerate(topic.rows):
        groups.setdefault(tuple(sorted(row.get("name", ()))), []).append(i)
    channels = []
    for number, (_, rows) in enumerate(groups.items()):
        joints = topic.rows[rows[0]].get("name", ())
        for key, (channel, unit) in JOINT_FIELDS.items():
            there = [i for i in rows if joints and np.shape(topic.rows[i].get(key, 0.0)) == (len(joints),)]
            if not there:
                continue
            values = []
            for i in there:
                by_name = dict(zip(topic.rows[i]["name"], topic.rows[i][key].tolist(), strict=True))
                values.append([by_name[joint] for joint in joints])
            title = (channel if alone else f"{name}.{channel}") + (f"_{number + 1}" if number else "")
            channels.append(
                Channel(name=title, unit=unit, t=topic.times[there], values=np.array(values), columns=joints)
            )
    return channels


def _imu_channels(name: str, topic: Topic, *, alone: bool) -> list[Channel]:
    """Channels of an Imu topic; an orientation that the device does not give (covariance[0] = -1) is left out."""
    fields = _stacked(topic.rows)
    channels = []
    for key, (channel, unit, axes) in IMU_FIELDS.items():
        covariance = fields.get(f"{key}_covariance")
        if covariance is not None and covariance.ndim == 2 and (covariance[:, 0] == -1).all():
            continue
        parts = [fields.get(f"{key}.{axis}") for axis in axes]
        if any(part is None or part.ndim != 1 for part in parts):
            raise InputError(f"topic {name!r} says it is an Imu but has no {key!r} of {', '.join(axes)}")
        values = np.stack([part for part in parts if part is not None], axis=1)
        title = channel if alone else f"{name}.{channel}"
        channels.append(Channel(name=title, unit=unit, t=topic.times, values=values, columns=tuple(axes)))
    return channels


def _other_channels(name: str, topic: Topic) -> list[Channel]:
    """One channel per numeric field of another message."""
    channels = []
    for key, values in _stacked(topic.rows).items():
        columns = (key,) if values.ndim == 1 else tuple(f"{key}[{k}]" for k in range(values.shape[1]))
        channels.append(
            Channel(
                name=f"{name}.{key}",
                unit="count",
                t=topic.times,
                values=values,
                columns=columns,
                role="info",
                nan=bool(np.isnan(values).any()),
            )
        )
    return channels
