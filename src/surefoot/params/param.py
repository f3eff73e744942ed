"""One unknown of the robot or its world: what it is, where it acts, and between which bounds it lies."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from surefoot.errors import InputError, did_you_mean
from surefoot.params.kind import Kind, kind_named

Scale = Literal["linear", "log"]
MOST_CHOICES = 1000
"""How many choices a Param of whole numbers may be given by its bounds alone."""


@dataclass(frozen=True, kw_only=True)
class Param:
    """One unknown e_i with low <= e_i <= high.

    A Param is tied over everything `of` matches (one value for all four feet), or has one value for each match
    when `each` is true (one kd per joint).
    """

    kind: str
    low: float
    """Lower bound, in the kind's unit."""
    high: float
    """Upper bound, in the kind's unit."""
    of: str | tuple[str, ...] = ".*"
    """Regular expression over target names (whole name), or the names themselves."""
    nominal: float | None = None
    """Value of the model as it stands; None: decoded from the robot's model when a Sim is made."""
    scale: Scale = "linear"
    each: bool = False
    choices: tuple[float, ...] | None = None
    """Allowed values of a discrete Param, ascending; None for a continuous one."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    source: str = ""
    """Where the range comes from."""

    def __post_init__(self) -> None:
        kind = kind_named(self.kind)
        object.__setattr__(self, "of", (self.of if isinstance(self.of, str) else tuple(self.of)))
        options = {**kind.options, **self.options}
        for name in self.options:
            if name not in kind.options:
                raise InputError(f"{name!r} is not an option of {self.kind} {did_you_mean(name, kind.options)}")
        for name, value in options.items():
            if value is None:
                raise InputError(f"{self.kind} needs the option {name!r}: give it")
        object.__setattr__(self, "options", MappingProxyType(options))
        if self.choices is not None:
            object.__setattr__(self, "choices", tuple(float(c) for c in self.choices))
        self._check_bounds(kind)
        if kind.whole:
            self._check_whole()

    def _check_bounds(self, kind: Kind) -> None:
        low, high = float(self.low), float(self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if not (math.isfinite(low) and math.isfinite(high)) or low > high:
            raise InputError(f"{self.kind}: low={low:g} must be a number not above high={high:g}")
        if low < kind.hard[0] or high > kind.hard[1]:
            raise InputError(
                f"{self.kind}: bounds {low:g}..{high:g} {kind.unit} leave what is physical, "
                f"{kind.hard[0]:g}..{kind.hard[1]:g}: narrow them"
            )
        if self.scale not in ("linear", "log"):
            raise InputError(f"{self.kind}: scale={self.scale!r} is not 'linear' or 'log'")
        if self.scale == "log" and low <= 0:
            raise InputError(f"{self.kind}: a log scale needs low > 0, got {low:g}; raise low or use 'linear'")
        if self.choices is not None and (len(self.choices) < 1 or list(self.choices) != sorted(set(self.choices))):
            raise InputError(f"{self.kind}: choices must ascend without repeats, got {self.choices}")
        if self.nominal is not None:
            object.__setattr__(self, "nominal", float(self.nominal))

    def _check_whole(self) -> None:
        first, last = math.ceil(self.low), math.floor(self.high)
        if self.choices is None and last - first >= MOST_CHOICES:
            raise InputError(
                f"{self.kind}: {self.low:g}..{self.high:g} holds more than {MOST_CHOICES} numbers: give choices"
            )
        choices = self.choices if self.choices is not None else tuple(float(c) for c in range(first, last + 1))
        if not choices or any(c != round(c) for c in choices):
            raise InputError(f"{self.kind} takes whole numbers: got {self.choices or f'{self.low:g}..{self.high:g}'}")
        object.__setattr__(self, "choices", choices)

    @cached_property
    def about(self) -> Kind:
        """The Kind: unit, group, target, fields."""
        return kind_named(self.kind)

    @property
    def unit(self) -> str:
        """SI unit of the value."""
        return self.about.unit

    @property
    def group(self) -> str:
        """Gap group: contact, geometry, inertia, actuator, sensor, environment, process or numerics."""
        return self.about.group

    def replace(self, **changes: Any) -> "Param":
        """The same unknown with other bounds, targets or options."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: only what differs from the defaults."""
        out: dict[str, Any] = {"kind": self.kind, "low": self.low, "high": self.high}
        defaults = {f.name: f.default for f in fields(self)}
        for name in ("of", "nominal", "scale", "each", "choices", "source"):
            value = getattr(self, name)
            if value != defaults[name]:
                out[name] = list(value) if isinstance(value, tuple) else value
        options = {k: v for k, v in self.options.items() if v != self.about.options[k]}
        if options:
            out |= {k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Param":
        """Param from plain data; a kind's options may stand beside the other fields, as robot files write them."""
        for name in ("kind", "low", "high"):
            if name not in data:
                raise InputError(f"a Param needs {name!r}: got only {sorted(data)}")
        known = [f.name for f in fields(cls)]
        allowed = kind_named(str(data["kind"])).options
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in known}
        options = {**values.pop("options", {}), **{k: v for k, v in data.items() if k not in known}}
        for name in options:
            if name not in allowed:
                names = [*known, *allowed]
                raise InputError(
                    f"{name!r} is not a field of a Param of kind {data['kind']} {did_you_mean(name, names)}"
                )
        values["options"] = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
        for name in ("low", "high", "nominal"):
            value = values.get(name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise InputError(f"{data['kind']}: {name} must be a number, got {value!r}")
        return cls(**values)
