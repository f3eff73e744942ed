"""A foreign file as named columns, before anyone says what they mean: CSV, text, JSON, npz, npy, MATLAB, MCAP."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.logs.arrays import npy_array, npz_arrays
from surefoot.logs.mapping import FileMapping, without_gz
from surefoot.logs.rawbytes import file_bytes, file_text, one_line
from surefoot.logs.tables import csv_rows, numbers


@dataclass(frozen=True, kw_only=True)
class Source:
    """Columns and constants of one file.

    Attributes:
        path: the file.
        columns: by name, an array (T,) or (T, k), or the cells of a column that were not read as numbers yet.
        constants: values that stand once in the file.
    """

    path: Path
    columns: Mapping[str, Any]
    constants: Mapping[str, Any] = field(default_factory=dict)

    def numbers(self, reference: str) -> np.ndarray:
        """Values of "name", "name[i]" or "name[i:j]" as float64, (T, k)."""
        name, part = _parsed(reference, self.columns)
        if name not in self.columns:
            hint = did_you_mean(name, self.columns, most=30)
            raise InputError(f"{self.path} has no column {name!r} {hint}")
        values = self.columns[name]
        if isinstance(values, list):
            values = _cells(self.path, name, values)
        if values.dtype.kind not in "fiub":
            raise InputError(f"{self.path}: column {name!r} holds {values.dtype}, not numbers")
        if values.ndim not in (1, 2):
            raise InputError(f"{self.path}: column {name!r} has {values.ndim} dimensions, a column has one or two")
        table = values.astype(np.float64).reshape(len(values), -1)
        if part is None:
            return table
        if part.stop > table.shape[1]:
            raise InputError(f"{self.path}: {name!r} has {table.shape[1]} columns, the mapping asks for {reference!r}")
        return table[:, part]

    def has(self, reference: str) -> bool:
        """True when the column of `reference` is there."""
        return _parsed(reference, self.columns)[0] in self.columns

    def labels(self, name: str) -> list[str]:
        """Cells of a column of text, (T,)."""
        cells = self.columns.get(name)
        if not isinstance(cells, list) or not all(isinstance(cell, str) for cell in cells):
            raise InputError(f"{self.path} has no column of text {name!r} {did_you_mean(name, self.columns, most=30)}")
        return list(cells)

    def constant(self, name: str) -> Any:
        """A value that stands once in the file, or a column that never changes."""
        if name in self.constants:
            return self.constants[name]
        if not self.has(name):
            known = [*self.constants, *self.columns]
            raise InputError(f"{self.path} has no constant {name!r} {did_you_mean(name, known, most=30)}")
        values = self.numbers(name)
        if not (values == values[0]).all():
            raise InputError(f"{self.path}: {name!r} is not constant: make it a channel")
        return values[0].tolist() if values.shape[1] > 1 else float(values[0, 0])


def _parsed(reference: str, columns: Mapping[str, Any]) -> tuple[str, slice | None]:
    """Name and slice of a reference; a name that stands in the file as it is wins."""
    match = re.fullmatch(r"(.+)\[(\d{1,6})(?::(\d{1,6}))?\]", reference)
    if reference in columns or match is None:
        return reference, None
    start = int(match[2])
    return match[1], slice(start, int(match[3]) if match[3] else start + 1)


def _cells(path: Path, name: str, cells: list[Any]) -> np.ndarray:
    """Cells of a column as numbers, (T,); of a column of lists "[a, b]", (T, k)."""
    if cells and all(isinstance(cell, str) for cell in cells):
        if not cells[0].startswith("["):
            return numbers(path, name, cells)
        rows = []
        for row, cell in enumerate(cells):
            if not (cell.startswith("[") and cell.endswith("]")):
                raise InputError(f"{path}: column {name!r} holds {cell[:40]!r} in row {row + 1}, not a list")
            rows.append(cell[1:-1].split(","))
            if len(rows[-1]) != len(rows[0]):
                raise InputError(
                    f"{path}: column {name!r} has {len(rows[-1])} values in row {row + 1}, not {len(rows[0])}"
                )
        flat = numbers(path, name, [item.strip() for row in rows for item in row])
        return flat.reshape(len(rows), -1)
    return _json_numbers(path, name, cells)


def _json_numbers(path: Path, name: str, cells: list[Any]) -> np.ndarray:
    """Numbers, truth values and nulls (NaN) of a JSON list as float64."""
    out = np.empty(len(cells))
    for row, cell in enumerate(cells):
        if cell is None:
            out[row] = math.nan
        elif isinstance(cell, int | float):
            try:
                out[row] = float(cell)
            except OverflowError:
                raise InputError(f"{path}: {name!r} holds a number that is too large in row {row + 1}") from None
        else:
            raise InputError(f"{path}: {name!r} holds {str(cell)[:40]!r} in row {row + 1}, not a number")
    return out


# One reader per suffix


def open_source(path: Path, mapping: FileMapping) -> Source:
    """Read a file by its suffix (a trailing .gz aside)."""
    suffix = Path(without_gz(path.name)).suffix.lower()
    if suffix not in OPENERS:
        raise InputError(f"{path} is not of a kind that a mapping reads {did_you_mean(suffix, OPENERS)}")
    return OPENERS[suffix](path, mapping)


def _csv(path: Path, mapping: FileMapping) -> Source:
    text = file_text(path)
    if mapping.header:
        text = ",".join(mapping.header) + "\n" + text
    titles, rows = csv_rows(path, text, first_line=0 if mapping.header else 1)
    return _columns(path, titles, rows)


def _text(path: Path, mapping: FileMapping) -> Source:
    """Numbers separated by blanks; names from the mapping's `header`, else from the first line."""
    lines = [(i + 1, line.split()) for i, line in enumerate(file_text(path).split("\n")) if line.strip()]
    if not lines:
        raise InputError(f"{path} has no lines")
    titles = list(mapping.header)
    if not titles:
        titles, lines = lines[0][1], lines[1:]
    for number, line in lines:
        if len(line) != len(titles):
            raise InputError(f"{path} line {number} has {len(line)} columns, expected {len(titles)}")
    return _columns(path, titles, [line for _, line in lines])


def _columns(path: Path, titles: list[str], rows: list[list[str]]) -> Source:
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise InputError(f"{path} has two columns named {twice[0]!r}")
    if not rows:
        raise InputError(f"{path} has a header but no rows")
    return Source(path=path, columns={title: [row[k] for row in rows] for k, title in enumerate(titles)})


def _npz(path: Path, mapping: FileMapping) -> Source:
    arrays = npz_arrays(path)
    constants = {name: array.item() for name, array in arrays.items() if array.ndim == 0}
    return Source(path=path, columns={n: a for n, a in arrays.items() if a.ndim}, constants=constants)


def _npy(path: Path, mapping: FileMapping) -> Source:
    array = npy_array(file_bytes(path), str(path))
    if array.ndim == 0:
        raise InputError(f"{path} holds a single number, not samples")
    return Source(path=path, columns={"values": array})


def _mat(path: Path, mapping: FileMapping) -> Source:
    from surefoot.logs.matlab import mat_arrays

    arrays = mat_arrays(path)
    constants = {name: array.item() for name, array in arrays.items() if array.size == 1}
    columns = {name: a.ravel() if min(a.shape) == 1 else a for name, a in arrays.items() if a.size > 1 and a.ndim == 2}
    return Source(path=path, columns=columns, constants=constants)


def _mcap(path: Path, mapping: FileMapping) -> Source:
    from surefoot.logs.foreign_mcap import topic_columns

    return Source(path=path, columns=topic_columns(path))


def _json(path: Path, mapping: FileMapping) -> Source:
    """JSON: lists of numbers are columns, single values constants; `layout` says where rows are records."""
    content = parsed_json(path)
    layout = mapping.layout
    if not isinstance(content, dict):
        content = {"records": content}
    constants = {name: value for name, value in content.items() if not isinstance(value, list | dict)}
    if "records" in layout:
        records = content.get(layout["records"]) if layout["records"] else content
        return Source(path=path, columns=_records(path, layout["records"], records), constants=constants)
    if "pairs" in layout:
        keys = numbers(path, "key", list(content))
        return Source(path=path, columns={"key": keys, "value": list(content.values())})
    if "tables" in layout:
        return Source(path=path, columns=_tables(path, layout["tables"], content))
    return Source(path=path, columns={n: v for n, v in content.items() if isinstance(v, list)}, constants=constants)


def parsed_json(path: Path) -> Any:
    """Content of a JSON file; a name that stands twice in an object is an error, not a choice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{path}: {twice!r} stands twice in one object")
        return content

    try:
        return json.loads(file_text(path), object_pairs_hook=unique)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {one_line(error)}") from None


def _records(path: Path, key: str, records: Any) -> dict[str, list[Any]]:
    """Columns of a list of objects with the same names, or of an object of such objects (its names are "key")."""
    labels: list[str] = []
    if isinstance(records, dict):
        labels, records = list(records), list(records.values())
    if not isinstance(records, list) or not records or not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path} has no list of records under {key!r}")
    names = list(records[0])
    for row, record in enumerate(records):
        if set(record) != set(names):
            odd = sorted(set(record) ^ set(names))[0]
            raise InputError(f"{path}: record {row + 1} of {key!r} and the first differ in {odd!r}")
    columns = {name: [record[name] for record in records] for name in names}
    return columns | ({"key": labels} if labels else {})


def _tables(path: Path, names: list[str], content: dict[str, Any]) -> dict[str, list[Any]]:
    """Columns, one per table, of nested objects {table: {row: {column: number}}}; null where a table lacks a row."""
    cells: list[dict[str, Any]] = []
    for name in names:
        table = content.get(name)
        if not isinstance(table, dict) or not all(isinstance(row, dict) for row in table.values()):
            raise InputError(f"{path} has no table {name!r} {did_you_mean(name, content)}")
        cells.append({f"{row}/{key}": value for row, entries in table.items() for key, value in entries.items()})
    keys = list(dict.fromkeys(key for table in cells for key in table))
    if not keys:
        raise InputError(f"{path}: tables {', '.join(names)} are empty")
    columns: dict[str, list[Any]] = {
        name: [table.get(key) for key in keys] for name, table in zip(names, cells, strict=True)
    }
    return columns | {"key": list(keys)}


OPENERS: dict[str, Callable[[Path, FileMapping], Source]] = {
    ".csv": _csv, ".txt": _text, ".dat": _text, ".npz": _npz, ".npy": _npy,
    ".mat": _mat, ".json": _json, ".mcap": _mcap,
}  # fmt: skip
