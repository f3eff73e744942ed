"""The native recording: an MCAP file of JSON messages, one topic per channel, written as the robot moves.

Every message is `{"t": seconds, "<column>": value, ...}` with a JSON schema, so that Foxglove and PlotJuggler plot
it. Chunks are closed and handed to the operating system every few tens of milliseconds: a process that is killed
loses what came after. Chunks, the describing metadata and, in a finished file, all data carry checksums.
"""

import json
import math
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.files import replacing
from surefoot.logs.channel import LATEST, ROLES, check_columns
from surefoot.logs.log import Log, plain
from surefoot.logs.units import checked

FORMAT = "1"
RECORD = "surefoot"
"""Name of the metadata records that describe the log."""


class Recorder:
    """Appends samples to a new MCAP file.

        with Recorder("run.mcap", robot="go2") as recorder:
            recorder.declare("joint_pos", unit="rad", columns=robot.joints)
            recorder.write("joint_pos", t, q)

    A file that exists is never overwritten. After `kill -9` the file holds everything up to the last flush; `read_log`
    reads it and says so in `meta["truncated"]`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        robot: str | None = None,
        contract: str | None = None,
        meta: Mapping[str, Any] | None = None,
        flush: float = 0.05,  # [s] longest time that samples wait in memory while samples come
    ):
        self.path = Path(path)
        if self.path.suffix != ".mcap":
            raise InputError(f"a recording is an .mcap file, got {str(path)!r}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = open(self.path, "xb")  # noqa: SIM115 (closed by close)
        except FileExistsError:
            raise InputError(f"{self.path} exists and a recording is never overwritten: choose another name") from None
        except OSError as error:
            raise InputError(f"cannot record to {self.path}: {error.strerror}") from None
        self._messages = Messages(self._file, chunk=1 << 20)
        self._messages.describe({"robot": robot, "contract": contract, "meta": plain(meta or {})})
        self._period, self._flushed = flush, time.monotonic()
        self.flush()

    def declare(
        self,
        name: str,
        *,
        unit: str,
        columns: Iterable[str],
        role: str = "y",
        clock: str = "robot",
        nan: bool = False,
    ) -> None:
        """Announce a channel; the arguments are the fields of `Channel`."""
        self._open()
        columns = (columns,) if isinstance(columns, str) else tuple(columns)
        self._messages.declare(name, unit=unit, columns=columns, role=role, clock=clock, nan=nan)

    def write(self, name: str, t: float, values: np.ndarray | Iterable[float] | float) -> None:
        """Append one sample at time `t` [s] with one value per column, (k,).

        Raises InputError, and writes nothing, when the channel was not declared, the time does not increase or a value
        is not finite.
        """
        self._open()
        self._messages.append(name, float(t), np.asarray(values, dtype=np.float64).reshape(-1).tolist())
        if time.monotonic() - self._flushed >= self._period:
            self.flush()

    def note(self, **meta: Any) -> None:
        """Add entries to the log's `meta` while recording; a later entry of the same name wins."""
        self._open()
        self._messages.describe({"meta": plain(meta)})
        self.flush()

    def flush(self) -> None:
        """Hand everything written so far to the operating system."""
        self._messages.writer.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Finish the file with its index; closing twice is harmless."""
        if not self._file.closed:
            self._messages.writer.finish()
            self._file.close()

    def _open(self) -> None:
        if self._file.closed:
            raise InputError(f"recording {self.path} is closed")

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Topic:
    """A declared channel in the file: its id, the column keys as JSON, and how far it is."""

    id: int
    keys: list[str]
    nan: bool
    last: float = -math.inf  # [s]
    count: int = 0


class Messages:
    """Declares channels and appends samples to an MCAP stream; checks each sample."""

    def __init__(self, stream: IO[bytes], *, chunk: int, origin: float = 0.0):
        from mcap.writer import Writer

        self.writer = Writer(stream, chunk_size=chunk, enable_data_crcs=True)
        self.writer.start(library="surefoot")
        self.origin = origin  # [s]; MCAP times start here, as they cannot be negative
        self.topics: dict[str, Topic] = {}

    def describe(self, description: dict[str, Any]) -> None:
        """Write a metadata record; records add up when the file is read."""
        text = json.dumps(description)
        crc = f"{zlib.crc32(text.encode()):08x}"
        self.writer.add_metadata(RECORD, {"format": FORMAT, "log": text, "crc32": crc})

    def declare(self, name: str, *, unit: str, columns: tuple[str, ...], role: str, clock: str, nan: bool) -> None:
        """Register a channel with its JSON schema."""
        if name in self.topics:
            raise InputError(f"channel {name!r} is already declared")
        if role not in ROLES:
            raise InputError(f"{role!r} is not a role of channel {name!r} {did_you_mean(role, ROLES)}")
        check_columns(name, columns)
        unit = checked(name, unit, len(columns))
        units = unit.split(", ") if "," in unit else [unit] * len(columns)
        schema = {
            "title": name,
            "type": "object",
            "properties": {"t": {"type": "number", "description": f"time on clock {clock} [s]"}}
            | {column: {"type": "number", "description": one} for column, one in zip(columns, units, strict=True)},
        }
        number = self.writer.register_schema(f"surefoot.{name}", "jsonschema", json.dumps(schema).encode())
        about = {"name": name, "unit": unit, "columns": columns, "role": role, "clock": clock, "nan": nan}
        topic = self.writer.register_channel(f"/{name}", "json", number, {"unit": unit, RECORD: json.dumps(about)})
        self.topics[name] = Topic(topic, [json.dumps(column) + ":" for column in columns], nan)

    def append(self, name: str, t: float, values: list[float]) -> None:
        """Append one sample; `values` has one entry per column."""
        topic = self.topics.get(name)
        if topic is None:
            raise InputError(f"channel {name!r} was not declared {did_you_mean(name, self.topics)}")
        if len(values) != len(topic.keys):
            raise InputError(f"channel {name!r} has {len(topic.keys)} columns, got {len(values)} values")
        if not self.origin <= t <= LATEST:
            raise InputError(f"time {t} of channel {name!r} is not between {self.origin:g} and {LATEST:g} s")
        if t <= topic.last:
            raise InputError(f"time of channel {name!r} must increase: {t:.9g} s after {topic.last:.9g} s")
        if not all(map(math.isfinite, values)) and not (topic.nan and not any(map(math.isinf, values))):
            raise InputError(f"channel {name!r} has a value that is not finite at t = {t:.9g} s")
        fields = [
            key + ("null" if value != value else repr(value)) for key, value in zip(topic.keys, values, strict=True)
        ]
        stamp = round((t - self.origin) * 1e9)  # [ns]
        text = f'{{"t":{t!r},{",".join(fields)}}}'
        self.writer.add_message(topic.id, stamp, text.encode(), stamp, topic.count)
        topic.last, topic.count = t, topic.count + 1


def save_mcap(log: Log, path: Path) -> None:
    """Write a log as MCAP, whole or not at all; messages of all channels in the order of their times."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        messages = Messages(file, chunk=1 << 18, origin=min(0.0, log.start))
        messages.describe({"robot": log.robot, "contract": log.contract, "meta": dict(log.meta)})
        rows = []
        for channel in log.channels:
            messages.declare(
                channel.name, unit=channel.unit, columns=channel.columns, role=channel.role,
                clock=channel.clock, nan=channel.nan,
            )  # fmt: skip
            rows.append(channel.values.tolist())
        owner = np.concatenate([np.full(len(channel), i) for i, channel in enumerate(log.channels)])
        sample = np.concatenate([np.arange(len(channel)) for channel in log.channels])
        times = np.concatenate([channel.t for channel in log.channels])
        for k in np.argsort(times, kind="stable"):
            i, j = int(owner[k]), int(sample[k])
            messages.append(log.channels[i].name, float(times[k]), rows[i][j])
        messages.writer.finish()
