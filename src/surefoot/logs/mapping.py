"""A mapping: the TOML file that says what is what in someone else's log file (format: docs/logs.md)."""

import functools
import re
import tomllib
from collections.abc import Iterable
from collections.abc import Mapping as Table
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from surefoot.errors import InputError, did_you_mean
from surefoot.logs.channel import ROLES
from surefoot.logs.rawbytes import one_line
from surefoot.logs.units import canonical

FOLDER = Path(__file__).parent / "mappings"


@dataclass(frozen=True, kw_only=True)
class TimeRule:
    """Where the times of a channel come from: a column, a constant rate, or the number of the trial.

    Attributes:
        column: reference to the time column, "timestamp" or "t:values".
        unit: its unit.
        rate: samples a second [Hz], when there is no column.
        trials: True when rows are trials and not instants; t then counts rows.
        repeats: "drop" when a row with the time of the row before repeats its sample; meta counts them.
        unset: time of rows that were written before the first sample came; meta counts what is left out.
        zero: True when the first time is subtracted (kept in `meta["time_zero"]`).
    """

    column: str | None = None
    unit: str = "s"
    rate: float | None = None
    trials: bool = False
    repeats: str = "error"
    unset: float | None = None
    zero: bool = False


@dataclass(frozen=True, kw_only=True)
class ChannelRule:
    """One channel: which columns of the file, in which unit, under which names.

        value in SI = to_si(value in the file * scale + offset, unit)

    Attributes:
        columns: name in the log of each column.
        source: references to the file's columns, "jpos0", "states[0:2]", "control:positions".
        unit: unit of the values after `scale` and `offset`, one or one per column.
        scale, offset: for firmware units with a stated factor, one or one per column.
        bits: width of a register that was stored unsigned although it is signed (16: 65535 is -1); 0 for none.
        optional: True when the file may lack these columns.
        shorter_by: samples that the channel has fewer than its time, at the end.
    """

    name: str
    columns: tuple[str, ...]
    source: tuple[str, ...]
    unit: tuple[str, ...]
    scale: tuple[float, ...] = (1.0,)
    offset: tuple[float, ...] = (0.0,)
    role: str = "y"
    clock: str = "robot"
    nan: bool = False
    optional: bool = False
    shorter_by: int = 0
    bits: int = 0
    time: TimeRule | None = None


@dataclass(frozen=True, kw_only=True)
class FileMapping:
    """A whole mapping file.

    Attributes:
        name: file name without .toml.
        files: pattern of each file of one log by alias; the first is the one the others are found by.
        optional: aliases of files that may be absent.
        ignore: patterns of files beside them that are no logs.
        header: names of the columns of a text file without a header line.
        layout: how a JSON file holds rows: {"records": key}, {"pairs": true} or {"tables": [..]}.
        split: {"lengths": column, "ids": column} when one file holds many logs one after another.
        constants: values for `meta`: plain ones, or {"from": reference} / {"path": "folder" | "file"}.
    """

    name: str
    title: str
    source: str
    files: dict[str, str]
    channels: tuple[ChannelRule, ...]
    time: TimeRule
    robot: str | None = None
    optional: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    layout: dict[str, Any] = field(default_factory=dict)
    split: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """Alias of the file that the others are found by."""
        return next(iter(self.files))


def bundled() -> dict[str, FileMapping]:
    """The mappings that come with surefoot, by name."""
    return dict(_loaded(FOLDER))


@functools.cache
def _loaded(folder: Path) -> dict[str, FileMapping]:
    return {path.stem: load_mapping(path) for path in sorted(folder.glob("*.toml"))}


def find_mapping(mapping: str | Path) -> FileMapping:
    """A mapping by the name of a bundled one or by the path of a .toml file."""
    if isinstance(mapping, Path) or str(mapping).endswith(".toml"):
        return load_mapping(Path(mapping))
    names = sorted(path.stem for path in FOLDER.glob("*.toml"))
    if mapping not in names:
        raise InputError(
            f"{mapping!r} is neither a bundled mapping nor a .toml file {did_you_mean(str(mapping), names, most=40)}"
        )
    return load_mapping(FOLDER / f"{mapping}.toml")


def load_mapping(path: Path) -> FileMapping:
    """Read and check a mapping file."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read mapping {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"mapping {path} is not TOML: {one_line(error)}") from None
    where = f"mapping {path.name}"
    allowed = [f.name for f in fields(FileMapping) if f.name != "name"]
    _only(table, allowed, where)
    for key, kind in (("title", str), ("source", str), ("files", dict), ("channels", list), ("time", dict)):
        if not isinstance(table.get(key), kind):
            raise InputError(f"{where} needs `{key}`, a {_WORDS[kind]}")
    if not table["files"] or not all(isinstance(pattern, str) for pattern in table["files"].values()):
        raise InputError(f"{where}: `files` must give each alias a file pattern")
    time = _time(table["time"], where)
    if sum([time.column is not None, time.rate is not None, time.trials]) != 1:
        raise InputError(f"{where}: [time] needs one of `column`, `rate` and `trials`")
    rest = {key: value for key, value in table.items() if key not in ("channels", "time")}
    for key in ("optional", "ignore", "header"):
        rest[key] = _names(rest.get(key, []), f"{where}: `{key}`")
    _only(dict.fromkeys(rest["optional"]), table["files"], f"{where}: `optional`")
    _typed(rest, {"robot": str, "split": dict, "layout": dict, "constants": dict}, where)
    _only(rest.get("split", {}), ["lengths", "ids"], f"{where}: [split]")
    _only(rest.get("layout", {}), ["records", "pairs", "tables"], f"{where}: [layout]")
    _typed(rest.get("split", {}), {"lengths": str, "ids": str}, f"{where}: [split]")
    _typed(rest.get("layout", {}), {"records": str, "pairs": bool, "tables": list}, f"{where}: [layout]")
    for name, value in rest.get("constants", {}).items():
        if isinstance(value, dict):
            _only(value, ["from", "labels", "path", "optional"], f"{where}: constant {name!r}")
            if len(set(value) - {"optional"}) != 1 or value.get("path", "file") not in ("folder", "file"):
                raise InputError(f"{where}: constant {name!r} needs one of `from`, `labels`, `path` (folder or file)")
    channels = tuple(_channel(channel, where) for channel in table["channels"])
    return FileMapping(name=path.stem, time=time, channels=channels, **rest)


_WORDS = {str: "text", dict: "table", list: "list of tables"}


def _only(table: Iterable[str], allowed: Iterable[str], where: str) -> None:
    """Raise InputError on a key that is not allowed."""
    for key in table:
        if key not in list(allowed):
            raise InputError(f"{where}: {key!r} is not a key here {did_you_mean(key, allowed)}")


def _names(value: Any, where: str) -> tuple[str, ...]:
    """One text or a list of them, as a tuple."""
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InputError(f"{where} must be text or a list of texts, got {value!r}")
    return tuple(value)


def _values(value: Any, where: str) -> tuple[float, ...]:
    """One number or a list of them, as a tuple."""
    value = value if isinstance(value, list) else [value]
    if not value or not all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
        raise InputError(f"{where} must be a number or a list of numbers, got {value!r}")
    return tuple(float(item) for item in value)


def _typed(table: Table[str, Any], kinds: Table[str, Any], where: str) -> None:
    """Raise InputError when an entry that is there has another type."""
    for key, kind in kinds.items():
        if key in table and (not isinstance(table[key], kind) or (kind is _NUMBER and isinstance(table[key], bool))):
            raise InputError(f"{where}: `{key}` cannot be {table[key]!r}")


_NUMBER = (int, float)


def _time(table: Any, where: str) -> TimeRule:
    where = f"{where}: [time]"
    _typed({"time": table}, {"time": dict}, where)
    _only(table, [f.name for f in fields(TimeRule)], where)
    kinds = {
        "column": str,
        "unit": str,
        "rate": _NUMBER,
        "trials": bool,
        "repeats": str,
        "unset": _NUMBER,
        "zero": bool,
    }
    _typed(table, kinds | {"zero": bool}, where)
    rule = TimeRule(**table)
    canonical(rule.unit)
    if rule.rate is not None and not 0 < rule.rate < 1e9:
        raise InputError(f"{where}: `rate` must be a positive number of Hz, got {rule.rate!r}")
    if rule.repeats not in ("error", "drop"):
        raise InputError(f"{where}: `repeats` must be 'error' or 'drop', got {rule.repeats!r}")
    return rule


def _channel(table: Any, where: str) -> ChannelRule:
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise InputError(f"{where}: each of [[channels]] needs a `name`")
    where = f"{where}: channel {table['name']!r}"
    known = {"from" if f.name == "source" else f.name for f in fields(ChannelRule)}
    _only(table, sorted(known), where)
    for key in ("from", "columns", "unit"):
        if key not in table:
            raise InputError(f"{where} needs `{key}`")
    columns = _names(table["columns"], f"{where}: `columns`")
    _typed(table, {"role": str, "clock": str, "nan": bool, "optional": bool, "shorter_by": int, "bits": int}, where)
    rest = {
        key: table[key] for key in ("name", "role", "clock", "nan", "optional", "shorter_by", "bits") if key in table
    }
    rule = ChannelRule(
        columns=columns,
        source=_names(table["from"], f"{where}: `from`"),
        unit=tuple(canonical(unit) for unit in _names(table["unit"], f"{where}: `unit`")),
        scale=_values(table.get("scale", 1.0), f"{where}: `scale`"),
        offset=_values(table.get("offset", 0.0), f"{where}: `offset`"),
        time=_time(table["time"], where) if "time" in table else None,
        **rest,
    )
    for key, given in (("unit", rule.unit), ("scale", rule.scale), ("offset", rule.offset)):
        if len(given) not in (1, len(columns)):
            raise InputError(f"{where}: `{key}` has {len(given)} entries for {len(columns)} columns")
    if not 0 <= rule.bits <= 32 or rule.shorter_by < 0:
        raise InputError(f"{where}: `bits` is 0 to 32 and `shorter_by` not negative")
    if rule.role not in ROLES:
        raise InputError(f"{where}: {rule.role!r} is not a role {did_you_mean(str(rule.role), ROLES)}")
    return rule


# Which file belongs to which mapping


def without_gz(name: str) -> str:
    """File name without a trailing .gz: patterns are written without it and match both."""
    return name.removesuffix(".gz")


def matched(pattern: str, path: Path) -> tuple[str, ...] | None:
    """What the stars of the last part of `pattern` stand for, or None when the end of `path` does not match."""
    parts = pattern.split("/")
    tail = [*path.parts[-len(parts) : -1], without_gz(path.name)]
    if len(tail) != len(parts):
        return None
    found: tuple[str, ...] = ()
    for part, name in zip(parts, tail, strict=True):
        match = re.fullmatch("".join("(.*)" if c == "*" else re.escape(c) for c in part), name)
        if match is None:
            return None
        found = match.groups()
    return found


def companion(mapping: FileMapping, alias: str, folder: Path, stars: tuple[str, ...]) -> Path | None:
    """The file of `alias` in `folder` whose stars are `stars`, packed or not; None when there is none."""
    name = mapping.files[alias].split("/")[-1]
    if name.count("*") != len(stars):
        return None
    for star in stars:
        name = name.replace("*", star, 1)
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return None
