"""The one language of all benchmarks: marks, their table, their JSON, and on what machine they were measured.

{"bench", "marks": [{"name", "value", "unit", "op", "mark", "goal", "reference", "holds"}],
 "machine", "versions", "seed", "seconds"}
"""

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from surefoot.versions import versions_of

Op = Literal[">=", "<=", "=="]
TITLES = ("name", "value", "unit", "reference", "mark", "holds")


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One measured number, and what it must reach where that is stated."""

    name: str
    value: float | None
    """None: it could not be measured here, and `reference` says why."""
    unit: str = "1"
    op: Op | None = None
    mark: float | None = None
    goal: float | None = None
    """What we would like to reach beyond the mark."""
    reference: str = ""
    """Against whom or what, where from, and how widely the measurement spread."""

    @property
    def holds(self) -> bool | None:
        """Whether the value reaches the mark; None without a mark or a value."""
        if self.op is None or self.mark is None or self.value is None:
            return None
        return {">=": self.value >= self.mark, "<=": self.value <= self.mark, "==": self.value == self.mark}[self.op]

    def to_dict(self) -> dict[str, Any]:
        """Plain data with exactly the keys of the language."""
        return {
            "name": self.name, "value": self.value, "unit": self.unit, "op": self.op, "mark": self.mark,
            "goal": self.goal, "reference": self.reference, "holds": self.holds,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Mark":
        """The inverse of `to_dict`."""
        return cls(**{k: v for k, v in data.items() if k != "holds"})

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of its line in the table."""
        mark = "" if self.op is None or self.mark is None else f"{self.op} {figure(self.mark)}"
        value = "absent" if self.value is None else figure(self.value)
        return self.name, value, self.unit, self.reference, mark, {True: "yes", False: "NO", None: ""}[self.holds]


def _silent(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked of a bench on the command line."""

    quick: bool = False
    train: Path | None = None
    test: Path | None = None
    realities: Path | None = None
    seeds: int = 0
    """Repetitions; 0: as many as the bench states its marks for."""
    jobs: int = 1
    """Cases side by side, each in a process of its own."""
    fresh: bool = False
    """Forget the finished cases of an interrupted run."""
    tell: Callable[[str], None] = _silent
    """Where progress goes, one line a call."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a bench found."""

    bench: str
    marks: tuple[Mark, ...]
    seed: int
    seconds: float
    quick: bool = False
    machine: Mapping[str, Any] = field(default_factory=lambda: machine())
    versions: Mapping[str, str] = field(default_factory=lambda: versions())

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of the language."""
        return {
            "bench": self.bench, "marks": [m.to_dict() for m in self.marks], "machine": dict(self.machine),
            "versions": dict(self.versions), "seed": self.seed, "seconds": self.seconds,
        }  # fmt: skip

    def to_json(self) -> str:
        """The object as one line of JSON."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False)

    @property
    def text(self) -> str:
        """The table as printed."""
        return aligned([TITLES, *(m.row for m in self.marks)])

    @property
    def verdict(self) -> str:
        """One sentence: how many marks hold and which do not."""
        judged = [m for m in self.marks if m.holds is not None]
        missed = [m.name for m in judged if not m.holds]
        said = f"{len(judged) - len(missed)} of {len(judged)} marks hold"
        return said + (f"; missed: {', '.join(missed)}" if missed else "")


def figure(value: float) -> str:
    """A number as people read it: whole ones whole, others with four digits."""
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{int(value):,}".replace(",", " ")
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def aligned(rows: Sequence[Sequence[str]], *, gap: str = "  ") -> str:
    """Rows of text with their columns lined up; the first row is the titles, underlined."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], gap.join("-" * width for width in widths), *lines[1:]])


def machine() -> dict[str, Any]:
    """What was measured on: processor, cores, memory, system; no host name and no path."""
    facts: dict[str, Any] = {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        facts["memory_gib"] = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        platform.processor() or "unknown",
    )


def versions() -> dict[str, str]:
    """Versions of Python and of what the numbers depend on."""
    return {"python": platform.python_version(), **versions_of()}
