"""Our own .npz and .csv: a log with its units, columns and meta in the header; both give back the same bits.

A .csv has one row per time and one column "channel.column [unit]" per signal; cells are empty where a channel has no
sample at that time. Lines that start with "#" hold the description as JSON.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.files import replacing, write_text
from surefoot.logs.arrays import npz_arrays
from surefoot.logs.channel import DESCRIPTION, Channel
from surefoot.logs.log import Log
from surefoot.logs.rawbytes import file_text, one_line

FORMAT = 1
MARK = "# surefoot log"


def header(log: Log) -> dict[str, Any]:
    """Everything of a log but its samples, as plain values."""
    channels = [{name: getattr(channel, name) for name in DESCRIPTION} for channel in log.channels]
    return {
        "format": FORMAT, "robot": log.robot, "contract": log.contract, "channels": channels, "meta": dict(log.meta)
    }  # fmt: skip


def parsed_header(path: Path, text: str) -> dict[str, Any]:
    """The header back from JSON, with its keys and types checked."""
    try:
        about = json.loads(text)
        if about["format"] != FORMAT:
            raise InputError(f"{path} has format {about['format']!r}, this surefoot reads {FORMAT}: update surefoot")
        for channel in about["channels"]:
            if set(channel) != set(DESCRIPTION) or not isinstance(channel["columns"], list):
                raise KeyError("fields of a channel")
            if not isinstance(channel["unit"], str) or not isinstance(channel["nan"], bool):
                raise TypeError("unit or nan of a channel")
            channel["columns"] = tuple(channel["columns"])
        if not isinstance(about["meta"], dict):
            raise TypeError("meta")
        return {key: about[key] for key in ("robot", "contract", "channels", "meta")}
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} has a damaged surefoot header ({one_line(error)})") from None


def _log(about: dict[str, Any], samples: list[tuple[np.ndarray, np.ndarray]]) -> Log:
    channels = [
        Channel(t=t, values=values, **channel) for channel, (t, values) in zip(about["channels"], samples, strict=True)
    ]
    return Log(channels=tuple(channels), robot=about["robot"], contract=about["contract"], meta=about["meta"])


# .npz: "header" (JSON text), and for channel i "t_i" (T,) and "values_i" (T, k)


def save_npz(log: Log, path: Path) -> None:
    """Write a log as .npz."""
    arrays: dict[str, np.ndarray] = {"header": np.array(json.dumps(header(log)))}
    for i, channel in enumerate(log.channels):
        arrays |= {f"t_{i}": channel.t, f"values_{i}": channel.values}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def is_our_npz(arrays: dict[str, np.ndarray]) -> bool:
    """True when the arrays are those of a saved log."""
    return "header" in arrays and arrays["header"].dtype.kind == "U" and "t_0" in arrays


def npz_log(path: Path, arrays: dict[str, np.ndarray]) -> Log:
    """A log from the arrays of our .npz."""
    about = parsed_header(path, str(arrays["header"]))
    names = {"header"}
    samples = []
    for i in range(len(about["channels"])):
        names |= {f"t_{i}", f"values_{i}"}
        if not names <= set(arrays):
            raise InputError(f"{path} is damaged: it lacks {sorted(names - set(arrays))[0]!r}")
        samples.append((arrays[f"t_{i}"], arrays[f"values_{i}"]))
    extra = sorted(set(arrays) - names)
    if extra:
        raise InputError(f"{path} is damaged: array {extra[0]!r} belongs to no channel")
    return _log(about, samples)


def read_npz(path: Path) -> Log:
    """Read a log saved as .npz."""
    arrays = npz_arrays(path)
    if not is_our_npz(arrays):
        raise InputError(f"{path} was not saved by surefoot (it holds {', '.join(arrays)}): give a mapping")
    return npz_log(path, arrays)


# .csv


def save_csv(log: Log, path: Path) -> None:
    """Write a log as .csv; each number in the shortest form that reads back as the same bits."""
    times = np.unique(np.concatenate([channel.t for channel in log.channels]))
    cells: list[list[str]] = [[repr(t) for t in times.tolist()]]
    titles = ["t [s]"]
    for channel in log.channels:
        rows = np.searchsorted(times, channel.t)
        for k, (column, unit) in enumerate(zip(channel.columns, channel.units, strict=True)):
            cell = [""] * len(times)
            for row, value in zip(rows.tolist(), channel.values[:, k].tolist(), strict=True):
                cell[row] = repr(value)
            cells.append(cell)
            titles.append(f"{channel.name}.{column} [{unit}]")
    text = io.StringIO()
    text.write(f"{MARK} {len(times)} rows\n# {json.dumps(header(log))}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(zip(*cells, strict=True))
    write_text(path, text.getvalue())


def is_our_csv(text: str) -> bool:
    """True when the text starts as a saved log does."""
    return text.startswith(MARK)


def csv_log(path: Path, text: str) -> Log:
    """A log from the text of our .csv."""
    lines = text.split("\n")
    if len(lines) < 4 or not lines[1].startswith("# "):
        raise InputError(f"{path} is cut in its header")
    about = parsed_header(path, lines[1][2:])
    titles, rows = csv_rows(path, "\n".join(lines[2:]), first_line=3)
    _check_count(path, lines[0], len(rows))
    wanted = ["t [s]"]
    for channel in about["channels"]:
        units = channel["unit"].split(", ") if ", " in channel["unit"] else [channel["unit"]] * len(channel["columns"])
        wanted += [
            f"{channel['name']}.{column} [{unit}]" for column, unit in zip(channel["columns"], units, strict=False)
        ]
    if titles != wanted:
        odd = next((title for title in titles if title not in wanted), "their order or number")
        raise InputError(f"{path}: the column titles differ from the header's channels at {odd!r}")
    t = numbers(path, "t [s]", [row[0] for row in rows])
    samples, at = [], 1
    for channel in about["channels"]:
        width = len(channel["columns"])
        block = [[row[at + k] for row in rows] for k in range(width)]
        there = np.array([cell != "" for cell in block[0]], dtype=bool)
        columns = []
        for k in range(width):
            if any((cell != "") != here for cell, here in zip(block[k], there.tolist(), strict=True)):
                raise InputError(f"{path}: channel {channel['name']!r} has rows with only some of its columns")
            columns.append(numbers(path, titles[at + k], [cell for cell in block[k] if cell != ""]))
        samples.append((t[there], np.stack(columns, axis=1)))
        at += width
    return _log(about, samples)


def _check_count(path: Path, line: str, count: int) -> None:
    """Compare the number of rows with the first line's, so that a cut file or a lost line is noticed."""
    words = line.removeprefix(MARK).split()
    if len(words) != 2 or words[1] != "rows" or not words[0].isascii() or not words[0].isdigit():
        raise InputError(f"{path} has a damaged first line {line!r}: expected '{MARK} <number> rows'")
    if int(words[0][:18]) != count:
        raise InputError(f"{path} is cut or edited: its first line says {words[0][:18]} rows, it has {count}")


def csv_rows(path: Path, text: str, *, first_line: int = 1, delimiter: str = ",") -> tuple[list[str], list[list[str]]]:
    """Titles and rows of a CSV text; raises InputError on a row with another number of cells."""
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InputError(f"{path} is not CSV: {one_line(error)}") from None
    lines = [(first_line + i, [cell.strip() for cell in line]) for i, line in enumerate(lines) if line]
    if not lines:
        raise InputError(f"{path} has no lines")
    titles = lines[0][1]
    for number, line in lines[1:]:
        if len(line) != len(titles):
            raise InputError(f"{path} line {number} has {len(line)} columns, its header has {len(titles)}")
    if not lines[1:]:
        raise InputError(f"{path} has a header but no rows")
    return titles, [line for _, line in lines[1:]]


def numbers(path: Path, column: str, cells: list[str]) -> np.ndarray:
    """Cells of a column as float64, (T,); raises InputError with the first cell that is not a number."""
    try:
        # Python reads "1_000" and digits of other scripts as numbers; a log does not.
        if any("_" in cell or not cell.isascii() for cell in cells):
            raise ValueError
        return np.array([float(cell) for cell in cells], dtype=np.float64)
    except ValueError:
        for row, cell in enumerate(cells):
            try:
                if "_" in cell or not cell.isascii():
                    raise ValueError
                float(cell)
            except ValueError:
                shown = cell if len(cell) <= 40 else cell[:40] + "..."
                raise InputError(f"{path}: column {column!r} holds {shown!r} in row {row + 1}, not a number") from None
        raise


def read_csv(path: Path) -> Log:
    """Read a log saved as .csv (or .csv.gz)."""
    text = file_text(path)
    if not is_our_csv(text):
        raise InputError(f"{path} was not saved by surefoot: give a mapping that names its columns and units")
    return csv_log(path, text)
