"""MCAP files of other programs: JSON messages through a mapping, ROS messages through the ros reader."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.logs.log import Log
from surefoot.logs.mcap_file import Contents, contents
from surefoot.logs.native import is_native, log_of
from surefoot.logs.rawbytes import one_line


def read_any_mcap(path: Path) -> Log | None:
    """Our recording, or a ROS 2 recording in MCAP; None when a mapping is needed."""
    found = contents(path)
    if is_native(found) or not found.topics:
        return log_of(path, found)
    if _is_ros(found):
        from surefoot.logs.rosbag import rosbag_logs

        return next(iter(rosbag_logs(path, None)))
    return None


def _is_ros(found: Contents) -> bool:
    return any(topic.encoding in ("cdr", "ros1") for topic in found.topics.values())


def topic_columns(path: Path) -> dict[str, Any]:
    """Columns "topic.field" of the numbers in JSON messages, and "topic.log_time" [ns] for each topic.

    Nested fields are joined by dots, lists give one column "field[i]" per entry; only fields that are numbers in every
    message of the topic become columns.
    """
    found = contents(path)
    if _is_ros(found):
        from surefoot.logs.rosbag import bag_columns

        return bag_columns(path)
    columns: dict[str, Any] = {}
    for topic in found.topics.values():
        if topic.encoding != "json" or not topic.data:
            continue
        try:
            rows = [_flat(json.loads(message)) for message in topic.data]
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: topic {topic.topic!r} is not JSON: {one_line(error)}") from None
        columns[f"{topic.topic}.log_time"] = np.array(topic.stamps, dtype=np.float64)
        for name in rows[0]:
            if all(name in row for row in rows):
                columns[f"{topic.topic}.{name}"] = [row[name] for row in rows]
    if not columns:
        raise InputError(f"{path} holds no JSON messages")
    return columns


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Numbers of a nested JSON value by their dotted names."""
    if isinstance(value, dict):
        parts = [_flat(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items()]
    elif isinstance(value, list):
        parts = [_flat(inner, f"{name}[{k}]") for k, inner in enumerate(value)]
    else:
        return {name: value} if isinstance(value, int | float) else {}
    return {key: number for part in parts for key, number in part.items()}
