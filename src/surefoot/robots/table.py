"""Reading one TOML table with errors that teach: unknown keys, missing keys, wrong types, all by name."""

import math
import re
from collections.abc import Iterable
from typing import Any

from surefoot.errors import InputError, did_you_mean

WORDS = {
    str: "text in quotes",
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class Table:
    """A TOML table being read: `take` removes a key, `finish` complains about what nobody took."""

    def __init__(self, values: dict[str, Any], where: str):
        self.values, self.where = dict(values), where
        self.known: list[str] = []

    def take(self, key: str, kind: type, *default: Any) -> Any:
        """Value of `key` as `kind`; without a default the key must be there."""
        self.known.append(key)
        if key not in self.values:
            if default:
                return default[0]
            near = did_you_mean(key, self.values) if self.values else ""
            hint = near if near.startswith("(did") else ""
            raise InputError(f"{self.where} lacks {key!r}, which must be {WORDS[kind]} {hint}".rstrip())
        value = self.values.pop(key)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind in (int, float) and isinstance(value, bool)):
            raise InputError(f"{self.where}: {key} = {value!r} must be {WORDS[kind]}")
        if kind is float and not math.isfinite(value):
            raise InputError(f"{self.where}: {key} = {value!r} must be a finite number")
        return value

    def positive(self, key: str, *default: float | None) -> Any:
        """A number above zero, in the unit the key's documentation names."""
        value = self.take(key, float, *default)
        if value is not None and value <= 0.0:
            raise InputError(f"{self.where}: {key} = {value!r} must be above zero")
        return value

    def not_negative(self, key: str, *default: float | None) -> Any:
        """A number that is zero or more."""
        value = self.take(key, float, *default)
        if value is not None and value < 0.0:
            raise InputError(f"{self.where}: {key} = {value!r} must not be negative")
        return value

    def names(self, key: str, *default: list[str]) -> tuple[str, ...]:
        """A list of texts without repeats."""
        values = self.take(key, list, *default)
        for value in values:
            if not isinstance(value, str):
                raise InputError(f"{self.where}: {key} holds {value!r}, but every entry must be text in quotes")
        repeated = sorted({value for value in values if values.count(value) > 1})
        if repeated:
            raise InputError(f"{self.where}: {key} names {repeated[0]!r} more than once; keep it once")
        return tuple(values)

    def matches(self, key: str, targets: Iterable[str], what: str) -> tuple[str, ...]:
        """The `targets` that `key` names: a regular expression (full match), or a list of them."""
        self.known.append(key)
        given = self.values.get(key)
        patterns = self.names(key) if isinstance(given, list) else (self.take(key, str),)
        targets, found = list(targets), []
        for pattern in patterns:
            try:
                compiled = re.compile(pattern)
            except re.error as error:
                raise InputError(f"{self.where}: {key} = {pattern!r} is no regular expression: {error}") from None
            hits = [name for name in targets if compiled.fullmatch(name)]
            if not hits:
                hint = did_you_mean(pattern, targets)
                raise InputError(f"{self.where}: {key} = {pattern!r} matches no {what} of the model {hint}")
            found += [name for name in hits if name not in found]
        return tuple(found)

    def finish(self) -> None:
        """Raise on keys that nobody took."""
        for key in self.values:
            raise InputError(f"{self.where} has an unknown key {key!r} {did_you_mean(key, dict.fromkeys(self.known))}")
