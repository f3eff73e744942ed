"""Applying a mapping: foreign columns become channels with names, SI units and times."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.files import sha256
from surefoot.logs.channel import Channel
from surefoot.logs.log import Log
from surefoot.logs.mapping import ChannelRule, FileMapping, TimeRule, companion, matched, without_gz
from surefoot.logs.source import Source, open_source
from surefoot.logs.units import conversion, to_si

Sources = dict[str, Source]


def files_of(path: Path, mapping: FileMapping) -> dict[str, Path]:
    """All files of the log that `path` belongs to, by alias; raises InputError when one that is needed is absent."""
    found: dict[str, Path] = {}
    for alias, pattern in mapping.files.items():
        stars = matched(pattern.split("/")[-1], path)
        if stars is None:
            continue
        for other in mapping.files:
            file = path if other == alias else companion(mapping, other, path.parent, stars)
            if file is not None:
                found[other] = file
        break
    else:
        # The user named the mapping: the file may have any name when it is the only one.
        found = {mapping.anchor: path}
    for alias, pattern in mapping.files.items():
        if alias not in found and alias not in mapping.optional:
            raise InputError(
                f"{path} belongs to a log of several files, of which {pattern.split('/')[-1]!r} is missing"
            )
    return {alias: found[alias] for alias in mapping.files if alias in found}


def mapped_logs(path: Path, mapping: FileMapping) -> Iterator[Log]:
    """The logs of a file (and its companions); one, unless the mapping splits it."""
    files = files_of(path, mapping)
    yield from logs_from(mapping, {alias: open_source(file, mapping) for alias, file in files.items()}, files)


def logs_from(mapping: FileMapping, sources: Sources, files: dict[str, Path]) -> Iterator[Log]:
    """The logs in sources that are already open; `files` says where they came from."""
    meta = _constants(mapping, sources, files)
    meta["source"] = origin(files.values()) | {"mapping": mapping.name}
    if mapping.time.trials:
        meta["axis"] = "trial"
    if not mapping.split:
        yield _log(mapping, sources, meta)
        return
    for part, piece in _pieces(mapping, sources):
        yield _log(mapping, {mapping.anchor: piece}, meta | {"part": part})


def origin(files: Iterable[Path]) -> dict[str, Any]:
    """Where a log came from: the last two parts of each path, and the hash of its content."""
    return {"files": {"/".join(file.parts[-2:]): sha256(file) if file.is_file() else "" for file in files}}


def _log(mapping: FileMapping, sources: Sources, meta: dict[str, Any]) -> Log:
    meta = dict(meta)
    channels = []
    for rule in mapping.channels:
        channel = _channel(mapping, rule, sources, meta)
        if channel is not None:
            channels.append(channel)
    if not channels:
        raise InputError(f"{sources[mapping.anchor].path} has none of the columns of mapping {mapping.name!r}")
    return Log(channels=tuple(channels), robot=mapping.robot, meta=meta)


def _pieces(mapping: FileMapping, sources: Sources) -> Iterator[tuple[int, Source]]:
    """Each log of a file that holds many, one after another: its id and its rows."""
    source = sources[mapping.anchor]
    lengths = source.numbers(mapping.split["lengths"])[:, 0]
    ids = source.numbers(mapping.split["ids"])[:, 0] if "ids" in mapping.split else np.arange(len(lengths))
    used = {reference for rule in mapping.channels for reference in rule.source}
    tables = {reference: source.numbers(reference) for reference in used}
    for name, values in (("lengths", lengths), ("ids", ids)):
        if not np.isfinite(values).all() or (values != np.rint(values)).any() or (values < 0).any():
            raise InputError(f"{source.path}: {mapping.split.get(name, name)!r} must be whole numbers, not negative")
    if len(ids) != len(lengths):
        raise InputError(f"{source.path}: {len(ids)} ids for {len(lengths)} lengths")
    for reference, table in tables.items():
        if lengths.sum() != len(table):
            raise InputError(
                f"{source.path}: lengths add up to {lengths.sum():.0f}, {reference!r} has {len(table)} rows"
            )
    stops = np.cumsum(lengths).astype(int)
    for part, start, stop in zip(ids.astype(int).tolist(), (stops - lengths).astype(int), stops, strict=True):
        piece = {reference: table[start:stop] for reference, table in tables.items()}
        yield part, Source(path=source.path, columns=dict(piece))


def _resolved(mapping: FileMapping, sources: Sources, reference: str, default: str) -> tuple[str, str] | None:
    """Alias and name of "alias:name" or "name"; None when the file of an optional alias is absent."""
    alias, _, name = reference.partition(":")
    if not name or alias not in mapping.files:
        alias, name = default, reference
    return (alias, name) if alias in sources else None


def _channel(mapping: FileMapping, rule: ChannelRule, sources: Sources, meta: dict[str, Any]) -> Channel | None:
    """One channel, or None when it is optional and absent."""
    places = [_resolved(mapping, sources, reference, mapping.anchor) for reference in rule.source]
    there = [place is not None and sources[place[0]].has(place[1]) for place in places]
    if rule.optional and not any(there):
        return None
    blocks = []
    for reference, place in zip(rule.source, places, strict=True):
        if place is None:
            raise InputError(
                f"mapping {mapping.name!r}: the file of {reference!r} is absent, but its channel is needed"
            )
        blocks.append(sources[place[0]].numbers(place[1]))
    path = sources[places[0][0] if places[0] else mapping.anchor].path
    lengths = sorted({len(block) for block in blocks})
    if len(lengths) > 1:
        raise InputError(f"{path}: the columns of channel {rule.name!r} have {lengths[0]} to {lengths[-1]} rows")
    table = np.concatenate(blocks, axis=1)  # (T, k) in the file's units
    if table.shape[1] != len(rule.columns):
        raise InputError(
            f"{path} has {table.shape[1]} columns for channel {rule.name!r}, the mapping names {len(rule.columns)}"
        )
    assert places[0] is not None
    times, kept = _times(mapping, rule, sources, places[0][0], len(table), meta)
    values, unit = _si(table[kept], rule)
    return Channel(
        name=rule.name, unit=unit, t=times, values=values, columns=rule.columns,
        role=rule.role, clock=rule.clock, nan=rule.nan,
    )  # fmt: skip


def _si(table: np.ndarray, rule: ChannelRule) -> tuple[np.ndarray, str]:
    """Values in SI, (T, k), and their unit."""
    values = _signed(table, rule) if rule.bits else table
    if rule.scale != (1.0,) or rule.offset != (0.0,):
        values = values * np.array(rule.scale) + np.array(rule.offset)
    units = rule.unit if len(rule.unit) > 1 else rule.unit * len(rule.columns)
    values = np.stack([to_si(values[:, k], unit) for k, unit in enumerate(units)], axis=1)
    return values, ", ".join(conversion(unit)[0] for unit in units)


def _signed(table: np.ndarray, rule: ChannelRule) -> np.ndarray:
    """Numbers of a signed register that was stored unsigned."""
    half = 2.0 ** (rule.bits - 1)
    if (table < -half).any() or (table >= 2 * half).any():
        raise InputError(f"channel {rule.name!r} has numbers that do not fit into {rule.bits} bits")
    return np.where(table >= half, table - 2 * half, table)


def _times(
    mapping: FileMapping, rule: ChannelRule, sources: Sources, alias: str, count: int, meta: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Times [s] of a channel's samples, and which of its `count` rows they are (bool)."""
    time = rule.time or mapping.time
    kept = np.ones(count, dtype=bool)
    if time.column is None:
        return np.arange(count) / (time.rate or 1.0), kept
    place = _resolved(mapping, sources, time.column, alias)
    if place is None:
        raise InputError(f"mapping {mapping.name!r}: the file of time {time.column!r} is absent")
    source = sources[place[0]]
    raw = source.numbers(place[1])
    if raw.shape[1] != 1 or len(raw) - rule.shorter_by != count:
        raise InputError(
            f"{source.path} has {len(raw)} times in {time.column!r} for {count} rows of channel {rule.name!r}"
        )
    raw = raw[:count, 0]
    if time.unset is not None:
        kept &= raw != time.unset
    if time.repeats == "drop":
        kept[1:] &= raw[1:] != raw[:-1]
    if not kept.all():
        meta.setdefault("rows_left_out", {})[rule.name] = {"rows": int((~kept).sum()), "of": count}
    return _seconds(raw[kept], time, rule, meta), kept


def _seconds(raw: np.ndarray, time: TimeRule, rule: ChannelRule, meta: dict[str, Any]) -> np.ndarray:
    """Raw times in seconds, from zero when the mapping says so."""
    unit, *_ = conversion(time.unit)
    if unit != "s":
        raise InputError(
            f"time of channel {rule.name!r} cannot be in {time.unit!r} {did_you_mean(time.unit, ['s', 'ms', 'us'])}"
        )
    if time.zero and len(raw):
        meta.setdefault("time_zero", {})[rule.clock] = float(to_si(raw[:1], time.unit)[0])
        raw = raw - raw[0]
    return to_si(raw, time.unit)


def _constants(mapping: FileMapping, sources: Sources, files: dict[str, Path]) -> dict[str, Any]:
    """Entries of `meta`: plain values, {"from": reference}, {"labels": reference} or {"path": "folder" | "file"}."""
    meta: dict[str, Any] = {"title": mapping.title}
    for name, value in mapping.constants.items():
        if not isinstance(value, dict):
            meta[name] = value
        elif "path" in value:
            anchor = files[mapping.anchor]
            whole = anchor.parent.name if value["path"] == "folder" else without_gz(anchor.name)
            meta[name] = whole if value["path"] == "folder" else whole.rsplit(".", 1)[0]
        else:
            reference = value.get("from") or value["labels"]
            place = _resolved(mapping, sources, reference, mapping.anchor)
            if place is None:
                raise InputError(f"mapping {mapping.name!r}: the file of constant {name!r} is absent")
            source = sources[place[0]]
            if value.get("optional") and place[1] not in source.constants and not source.has(place[1]):
                continue
            meta[name] = source.labels(place[1]) if "labels" in value else source.constant(place[1])
    return meta
