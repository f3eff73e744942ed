"""What sort of unknown a Param is: its unit, what it belongs to, and where its value acts in a simulator.

A Kind is a declaration, never code that touches an engine: `sim` is the only writer of physics. It says

    target      what the value belongs to (geom, body, joint, sensor, world): the names `of` is matched against
    fields      the engine fields or Sim tables ("sim.*") that the value is written to and decoded from
    structural  what must be built into the model before the value can act (compiled once, when Sim is made)
    constants   whether the engine's derived constants must be computed anew after a write
    per         "world": every world its own value; "sim": one value for all worlds of a Sim
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from surefoot.errors import choose

INF = float("inf")
Target = Literal["geom", "body", "joint", "sensor", "world"]
GROUPS = ("contact", "geometry", "inertia", "actuator", "sensor", "environment", "process", "numerics")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One sort of unknown; see the module's text for the words."""

    name: str
    unit: str
    group: str
    target: Target
    fields: tuple[str, ...]
    about: str
    """One sentence: what changes in the world when the value does, and its limits."""
    column: int | None = None
    """Column of `fields[0]` that holds the value, when it is held plainly."""
    components: tuple[str, ...] = ()
    """Labels of a vector-valued unknown; empty for a number."""
    hard: tuple[float, float] = (-INF, INF)
    """Physical limits: no bound of a Param may lie outside."""
    default: float = 0.0
    """Value of a Sim table ("sim.*") in a world where nobody sets it."""
    whole: bool = False
    """Whether only whole numbers mean something: a Param without choices then has every whole number in its range."""
    structural: str = ""
    constants: bool = False
    per: Literal["world", "sim"] = "world"
    engines: tuple[str, ...] = ("cpu", "cuda")
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """Allowed options and their defaults; None as default: the option must be given."""


KINDS: dict[str, Kind] = {}


def declare(kind: Kind) -> Kind:
    """Add a kind to the table of kinds; its name must be new and its group known."""
    if kind.name in KINDS or kind.group not in GROUPS:
        raise ValueError(f"kind {kind.name!r} is declared twice or has an unknown group {kind.group!r}")
    KINDS[kind.name] = kind
    return kind


def kind_named(name: str) -> Kind:
    """The Kind called `name`; raises an InputError that names the nearest one."""
    return KINDS[choose(name, KINDS, "a kind of Param")]
