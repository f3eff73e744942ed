"""Reading our own MCAP recordings back into a log."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.logs.channel import DESCRIPTION, Channel
from surefoot.logs.log import Log
from surefoot.logs.mcap_file import Contents, Topic, contents
from surefoot.logs.rawbytes import one_line
from surefoot.logs.recording import FORMAT, RECORD


def read_mcap(path: Path) -> Log:
    """Read a recording of `Recorder` or `Log.save`; a cut one up to its cut, said in `meta["truncated"]`."""
    return log_of(path, contents(path))


def log_of(path: Path, found: Contents) -> Log:
    """The log in the contents of our MCAP file; a channel declared but never written is named in `meta["empty"]`."""
    if not is_native(found):
        if found.truncated and not found.metadata:
            raise InputError(f"{path} is cut before its first sample")
        raise InputError(f"{path} is an MCAP file of another program: give a mapping that names its topics and units")
    about = _description(path, found)
    channels, empty = [], []
    for topic in found.topics.values():
        (channels if topic.data else empty).append(topic)
    if not channels:
        raise InputError(f"{path} holds no samples" + (f": {found.truncated}" if found.truncated else ""))
    meta = about["meta"]
    if found.truncated:
        meta["truncated"] = found.truncated
    if empty:
        meta["empty"] = [topic.topic.removeprefix("/") for topic in empty]
    return Log(
        channels=tuple(_channel(path, topic) for topic in channels),
        robot=about["robot"], contract=about["contract"], meta=meta,
    )  # fmt: skip


def is_native(found: Contents) -> bool:
    """True when the file was written by surefoot."""
    return any(name == RECORD for name, _ in found.metadata)


def _description(path: Path, found: Contents) -> dict[str, Any]:
    """Robot, contract and meta from the describing records, later ones on top."""
    about: dict[str, Any] = {"robot": None, "contract": None, "meta": {}}
    for name, entries in found.metadata:
        if name != RECORD:
            continue
        text = entries.get("log", "")
        if entries.get("format") != FORMAT:
            raise InputError(
                f"{path} has format {entries.get('format')!r}, this surefoot reads {FORMAT!r}: update surefoot"
            )
        if f"{zlib.crc32(text.encode()):08x}" != entries.get("crc32"):
            raise InputError(f"{path} is damaged: its description does not match its checksum")
        part = json.loads(text)
        about |= {key: part[key] for key in ("robot", "contract") if part.get(key) is not None}
        about["meta"] |= part.get("meta", {})
    return about


def _channel(path: Path, topic: Topic) -> Channel:
    """One channel from its messages `{"t": .., "<column>": ..}`."""
    try:
        about = json.loads(topic.metadata[RECORD])
        about = {name: about[name] for name in DESCRIPTION}
        rows = json.loads(b"[" + b",".join(topic.data) + b"]")
        columns = about["columns"]
        table = np.array([[row["t"], *(row[column] for column in columns)] for row in rows], dtype=np.float64)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} is damaged: topic {topic.topic!r} is not a surefoot channel ({one_line(error)})"
        ) from None
    if topic.sequence != list(range(len(topic.data))) or table.shape != (len(topic.data), 1 + len(columns)):
        raise InputError(f"{path} is damaged: samples of topic {topic.topic!r} are missing or out of order")
    about["columns"] = tuple(columns)
    return Channel(t=table[:, 0], values=table[:, 1:], **about)
