"""A small TOML writer (the standard library only reads): nested tables of numbers, strings, booleans and lists."""

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(data: Mapping[str, Any]) -> str:
    """`data` as TOML text; floats keep every bit, and None entries are left out."""
    lines: list[str] = []
    _table(lines, (), data)
    return "\n".join(lines).strip() + "\n"


def _table(lines: list[str], path: tuple[str, ...], table: Mapping[str, Any]) -> None:
    plain = {k: v for k, v in table.items() if not _is_table(v) and v is not None}
    if path and (plain or not table):
        lines.append(f"\n[{'.'.join(_key(p) for p in path)}]")
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, Mapping):
            _table(lines, (*path, key), value)
        elif _is_table(value):
            for entry in value:
                lines.append(f"\n[[{'.'.join(_key(p) for p in (*path, key))}]]")
                nested = {k: v for k, v in entry.items() if v is not None}
                lines += [f"{_key(k)} = {_value(v)}" for k, v in nested.items()]


def _is_table(value: Any) -> bool:
    """Whether `value` is written as a table of its own: a mapping, or a list of flat mappings."""
    if isinstance(value, Mapping):
        return True
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(v, Mapping) and not any(isinstance(w, Mapping) for w in v.values()) for v in value)
    )


def _key(key: str) -> str:
    return key if key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key) else json.dumps(key)


def _value(value: Any) -> str:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None) + "}"
    raise TypeError(f"{type(value).__name__} has no TOML form")
