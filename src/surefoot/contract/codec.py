"""Frozen dataclasses to JSON and back, exactly: what the annotations say is what a file may hold."""

import functools
import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from surefoot.errors import InputError, did_you_mean

Values = float | tuple[float, ...]
"""One number for every column, or one number each; kept as one number each."""

Bounds = tuple[Values, Values]
"""Lower and upper limit."""


def encode(value: Any) -> Any:
    """Plain JSON values of a frozen dataclass; None is left out, equal numbers of a `Values` become one."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        pairs = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {name: _encode_as(hints[name], item) for name, item in pairs if item is not None}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def _encode_as(kind: Any, value: Any) -> Any:
    if isinstance(value, tuple) and _holds(kind, Bounds) and len(value) == 2:
        return [_encode_as(Values, side) for side in value]
    if isinstance(value, tuple) and _holds(kind, float) and len(set(value)) == 1:
        return value[0]
    return encode(value)


def _holds(kind: Any, part: Any) -> bool:
    return kind == part or (_is_union(kind) and part in get_args(kind))


def decode(kind: Any, value: Any, where: str) -> Any:
    """Rebuild a dataclass `kind` from JSON values; what does not fit is named by its place in the file."""
    return _decode(kind, value, where)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _decode(kind: Any, value: Any, where: str) -> Any:
    if _is_union(kind):
        return _decode_union(get_args(kind), value, where)
    if is_dataclass(kind):
        return _decode_fields(kind, value, where)
    if get_origin(kind) is tuple:
        return _decode_tuple(get_args(kind), value, where)
    if kind is float:
        return _number(value, where)
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not right:
        words = {str: "a text", int: "a whole number", bool: "true or false"}
        raise _unfit(where, words[kind], value)
    return value


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not types.NoneType)
    lists = [kind for kind in kinds if get_origin(kind) is tuple]
    others = [kind for kind in kinds if get_origin(kind) is not tuple]
    fitting = (lists if isinstance(value, list) else others) or kinds
    return _decode(fitting[0], value, where)


def _decode_tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _unfit(where, "a list", value)
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise InputError(f"{where} must be a list of {len(kinds)}, it has {len(value)} entries")
    return tuple(_decode(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))


def _decode_fields(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise _unfit(where, "an object with named fields", value)
    known = {f.name: f for f in fields(kind)}
    for name in value:
        if name not in known:
            raise InputError(f"{where} has no field {name!r} {did_you_mean(str(name), known)}")
    for name, f in known.items():
        if name not in value and f.default is MISSING and f.default_factory is MISSING:
            raise InputError(f"{where} lacks the field {name!r}")
    hints = _hints(kind)
    return kind(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in value.items()})


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unfit(where, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _unfit(where, "a finite number", value)
    return number


def _unfit(where: str, wanted: str, value: Any) -> InputError:
    shown = json.dumps(value, default=str)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return InputError(f"{where} must be {wanted}, got {shown}")


def parse(text: str, where: str) -> Any:
    """JSON text to plain values; a field given twice, or text that is no JSON, is one InputError."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(f"{where} gives the field {twice[0]!r} twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}") from None


def dump(value: Any, indent: int = 0) -> str:
    """JSON text for people: one field a line, lists of plain values on one line, floats exact."""
    inner = "  " * (indent + 1)
    outer = "  " * indent
    if isinstance(value, dict) and value:
        lines = (f"{inner}{json.dumps(k)}: {dump(v, indent + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(lines) + f"\n{outer}}}"
    if isinstance(value, list) and any(isinstance(v, dict | list) for v in value):
        lines = (f"{inner}{dump(v, indent + 1)}" for v in value)
        return "[\n" + ",\n".join(lines) + f"\n{outer}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
