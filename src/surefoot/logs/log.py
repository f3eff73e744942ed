"""A log: (t, u, y) of a robot, recorded or simulated, as named channels that never change."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.logs.channel import DESCRIPTION, Channel, frozen
from surefoot.logs.resample import common_grid, resampled
from surefoot.logs.timing import Timing, timing


@dataclass(frozen=True, kw_only=True, eq=False)
class Log:
    """Channels recorded together.

    Each channel keeps its own times, rate and clock. Every change returns a new log, whose
    `meta["history"]` says what was done.

    Attributes:
        channels: the signals, names distinct.
        robot: name of the robot, None when there is none (a bench, a table of trials).
        contract: hash of the contract the recording ran under, or None.
        meta: what else is known (constants such as kp, the source, the history); plain JSON values, read-only.
    """

    channels: tuple[Channel, ...]
    robot: str | None = None
    contract: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        channels = tuple(self.channels)
        if not channels:
            raise InputError("a log needs at least one channel")
        names = [channel.name for channel in channels]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"a log cannot have two channels named {twice[0]!r}")
        for what, text in (("robot", self.robot), ("contract", self.contract)):
            if text is not None and not isinstance(text, str):
                raise InputError(f"a log's {what} must be text or None, got {type(text).__name__}")
        object.__setattr__(self, "channels", channels)
        object.__setattr__(self, "meta", MappingProxyType(plain(self.meta)))

    # What is in it

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the channels."""
        return tuple(channel.name for channel in self.channels)

    def __getitem__(self, name: str) -> Channel:
        for channel in self.channels:
            if channel.name == name:
                return channel
        raise InputError(f"{name!r} is not a channel of this log {did_you_mean(str(name), self.names)}")

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[Channel]:
        return iter(self.channels)

    def __len__(self) -> int:
        return len(self.channels)

    @property
    def u(self) -> tuple[Channel, ...]:
        """The commands."""
        return tuple(channel for channel in self.channels if channel.role == "u")

    @property
    def y(self) -> tuple[Channel, ...]:
        """The measurements."""
        return tuple(channel for channel in self.channels if channel.role == "y")

    @property
    def start(self) -> float:
        """Time of the first sample of any channel [s]."""
        return min(float(channel.t[0]) for channel in self.channels)

    @property
    def duration(self) -> float:
        """From the first sample of any channel to the last of any [s]; of the longest clock when there are several."""
        spans: dict[str, list[float]] = {}
        for channel in self.channels:
            spans.setdefault(channel.clock, []).extend((float(channel.t[0]), float(channel.t[-1])))
        return max(max(times) - min(times) for times in spans.values())

    def timing(self, *, gap: float = 1.5) -> dict[str, Timing]:
        """Rate, jitter, gaps and drop-outs of each channel; a period above `gap` medians is a gap."""
        return {channel.name: timing(channel.t, gap=gap) for channel in self.channels}

    # Logs made from it

    def window(self, start: float, stop: float) -> "Log":
        """Samples with start <= t <= stop [s]; a channel with none in there is left out, and the history says so."""
        kept = []
        for channel in self.channels:
            a, b = np.searchsorted(channel.t, start, side="left"), np.searchsorted(channel.t, stop, side="right")
            if b > a:
                kept.append(replace(channel, t=channel.t[a:b], values=channel.values[a:b]))
        if not kept:
            raise InputError(
                f"no channel has a sample between {start:g} and {stop:g} s: this log runs "
                f"from {self.start:g} to {max(channel.t[-1] for channel in self.channels):g} s"
            )
        empty = [name for name in self.names if name not in {channel.name for channel in kept}]
        step: dict[str, Any] = {"do": "window", "start": float(start), "stop": float(stop)}
        return self._next(kept, step | ({"without": empty} if empty else {}))

    def select(self, *channels: str, columns: Iterable[str] | None = None) -> "Log":
        """Only these channels (all when none is named), and of each only these columns, in this order.

        A channel that has none of the `columns` is kept whole; one that has only some raises InputError.
        """
        kept = [self[name] for name in channels] if channels else list(self.channels)
        step: dict[str, Any] = {"do": "select", "channels": list(channels)}
        if columns is not None:
            columns = [columns] if isinstance(columns, str) else list(columns)
            known = [column for channel in kept for column in channel.columns]
            for column in columns:
                if column not in known:
                    raise InputError(
                        f"{column!r} is not a column of this log {did_you_mean(column, dict.fromkeys(known))}"
                    )
            kept = [c.pick(columns) if set(columns) & set(c.columns) else c for c in kept]
            step["columns"] = columns
        return self._next(kept, step)

    def resample(self, *, rate: float | None = None, t: np.ndarray | None = None, method: str | None = None) -> "Log":
        """All channels at the same times: `rate` [Hz] over their common span, or the times `t` (N,) [s].

        `method` is "hold" (last sample at or before) or "linear"; None holds commands and info and interpolates
        measurements. Quaternions are interpolated on the shorter arc. Nothing is extrapolated.
        """
        if (rate is None) == (t is None):
            raise InputError("resample needs either a rate [Hz] or times t [s]")
        clocks = sorted({channel.clock for channel in self.channels})
        if len(clocks) > 1:
            raise InputError(
                f"channels are on different clocks ({', '.join(clocks)}): align and shift them, or select one clock"
            )
        grid = common_grid(self.channels, rate) if rate is not None else frozen(t, "resample's times")
        methods = {c.name: method or ("linear" if c.role == "y" else "hold") for c in self.channels}
        kept = [resampled(channel, grid, methods[channel.name]) for channel in self.channels]
        step: dict[str, Any] = {"do": "resample", "samples": len(grid), "method": methods}
        return self._next(kept, step | ({"rate": float(rate)} if rate is not None else {}))

    def shift(self, channel: str, seconds: float, *, clock: str | None = None) -> "Log":
        """Add `seconds` to the times of one channel; `clock` then names the clock it is on now."""
        moved = self[channel]
        moved = replace(moved, t=moved.t + seconds, clock=clock or moved.clock)
        kept = [moved if c.name == channel else c for c in self.channels]
        step: dict[str, Any] = {"do": "shift", "channel": channel, "seconds": float(seconds)}
        return self._next(kept, step | ({"clock": clock} if clock else {}))

    def _next(self, channels: Iterable[Channel], step: dict[str, Any]) -> "Log":
        meta = dict(self.meta)
        meta["history"] = [*meta.get("history", []), step]
        return replace(self, channels=tuple(channels), meta=meta)

    # Identity and files

    @property
    def hash(self) -> str:
        """Content hash: channels with all samples, robot and contract, without `meta`; hexadecimal."""
        digest = hashlib.sha256(json.dumps([self.robot, self.contract]).encode())
        for channel in self.channels:
            digest.update(json.dumps([getattr(channel, name) for name in DESCRIPTION]).encode())
            for array in (channel.t, channel.values):
                # Adding zero makes -0.0 and 0.0, which compare equal, hash equal; NaN has one pattern.
                array = np.where(np.isnan(array), np.nan, array + 0.0)
                digest.update(str(array.shape).encode() + array.astype("<f8").tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Log):
            return NotImplemented
        mine, theirs = ((log.robot, log.contract, dict(log.meta)) for log in (self, other))
        return mine == theirs and self.channels == other.channels

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows = ", ".join(f"{c.name} {c.values.shape} [{c.unit}]" for c in self.channels)
        return f"Log({self.robot or 'no robot'}, {self.duration:.6g} s: {rows})"

    def save(self, path: str | Path) -> Path:
        """Write the log by the suffix of `path`: .mcap, .npz or .csv; whole or not at all."""
        from surefoot.logs.save import save

        return save(self, path)


def plain(meta: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy of `meta` as plain JSON values; raises InputError on what JSON cannot hold."""
    try:
        copy = json.loads(json.dumps(dict(meta), allow_nan=False, default=_number))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"a log's meta must be plain JSON values: {error}") from None
    return copy


def _number(value: object) -> object:
    """A NumPy number, array or tuple-like as plain values."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not one")
