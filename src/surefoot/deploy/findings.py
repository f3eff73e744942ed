"""What `verify` found: each fault by its place, its kind and a sentence with numbers; what was checked and what could not be."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from surefoot.contract.channels import label
from surefoot.errors import choose

PLACES = {
    "bundle": "the bundle itself, against the robot or the log",
    "driver": "raw readings: what the robot's driver delivers, against physics",
    "command": "what the policy was asked to do",
    "observation": "recorded observations, against the one builder",
    "action": "from the observation to the action, and from it to what was sent to the motors",
    "timing": "rates, gaps and delays",
}
"""Where a fault may lie, in the order in which they are told."""

KINDS = {
    "permuted": "columns or terms stand in another order",
    "sign": "the sign is opposite",
    "scale": "multiplied by a factor",
    "degrees": "degrees where radians are meant, or the other way round",
    "offset": "a constant is missing or was added",
    "frame": "given in another frame, or turned the wrong way",
    "quaternion order": "w,x,y,z and x,y,z,w are mixed up",
    "mounting": "the sensor's axes are not the body's",
    "delayed": "of an earlier moment",
    "stuck": "does not change while it should",
    "missing": "absent, or zeros in its place",
    "count": "another number of columns",
    "history order": "newest first and oldest first are mixed up",
    "history stack": "stacked step by step instead of term by term, or the other way round",
    "history not filled": "the past before the start is not the first reading",
    "history stale": "the past does not move on as it should",
    "processed": "another stage of the action than the policy's raw output",
    "clock": "phase or period of the gait clock",
    "clip": "a limit that was not applied, or one that should not be there",
    "normaliser": "normalised twice, or not at all",
    "memory": "the recurrent state was not kept, or not emptied",
    "gains": "kp or kd are not the contract's",
    "rate": "another control rate",
    "jitter": "the period varies",
    "gaps": "samples are missing",
    "limits": "outside what the robot can reach",
    "another": "of another bundle, contract or robot",
    "not finite": "NaN or infinity",
    "unexplained": "differs in a way that none of the other kinds explains",
}
"""Every kind of fault that a finding may name."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One fault.

    Attributes:
        where: a key of PLACES.
        term: the observation term, channel or quantity it is in.
        kind: a key of KINDS.
        detail: one sentence with numbers.
        columns: columns of it that are concerned; empty when all are.
    """

    where: str
    term: str
    kind: str
    detail: str
    columns: tuple[str, ...] = ()

    def __post_init__(self):
        choose(self.where, PLACES, "a place of a finding")
        choose(self.kind, KINDS, "a kind of finding")

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "where": self.where, "term": self.term, "kind": self.kind, "detail": self.detail, "columns": list(self.columns),
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{self.where} {self.term}: {self.kind}: {self.detail}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All that `verify` can say.

    Attributes:
        findings: faults, the most basic first.
        checked: what was looked at and found right or reported, one sentence each.
        unchecked: what could not be told, with the reason, one sentence each.
    """

    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing wrong was found; `unchecked` says what that does not cover."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "ok": self.ok,
            "findings": [finding.to_dict() for finding in self.findings],
            "checked": list(self.checked),
            "unchecked": list(self.unchecked),
        }

    def __str__(self) -> str:
        lines = []
        if self.findings:
            rows = [("where", "what", "kind", "how")]
            rows += [(f.where, f.term, f.kind, f.detail) for f in self.findings]
            widths = [max(len(row[i]) for row in rows) for i in range(3)]
            text = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[3]]) for row in rows]
            lines += [text[0], "-" * len(text[0]), *text[1:], ""]
        lines += [f"checked: {sentence}" for sentence in self.checked]
        lines += [f"not checked: {sentence}" for sentence in self.unchecked]
        count = len(self.findings)
        return "\n".join(
            [*lines, "nothing wrong was found" if not count else f"{count} fault{'s' * (count > 1)} found"]
        )


@dataclass
class Notes:
    """A verdict in the making."""

    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def find(self, where: str, term: str, kind: str, detail: str, columns: Iterable[str] = ()) -> None:
        """Note a fault."""
        self.findings.append(Finding(where=where, term=term, kind=kind, detail=detail, columns=tuple(columns)))

    def blames(self, *terms: str) -> bool:
        """Whether the driver's readings of one of these channels were found wrong."""
        return any(f.where == "driver" and f.term in terms for f in self.findings)

    def verdict(self) -> Verdict:
        """The finished verdict, faults in the order of PLACES."""
        order = list(PLACES)
        found = sorted(self.findings, key=lambda f: order.index(f.where))
        return Verdict(findings=tuple(found), checked=tuple(self.checked), unchecked=tuple(self.unchecked))


def listed(names: Iterable[str], most: int = 4) -> str:
    """Names as people read them, the first few of many."""
    names = [label(name) for name in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
