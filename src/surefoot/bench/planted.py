"""A contract fault as it is planted into a run: what it changes, and what `verify` should call it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.bench.fault_runs import Case, Hooks, Past, Readings
from surefoot.contract import Contract, Group
from surefoot.deploy.findings import Finding, Verdict

DEGREES = 180 / np.pi


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A fault as it was planted into one run."""

    hooks: Hooks
    where: str
    terms: tuple[str, ...]
    """Any of these must be named."""
    kinds: tuple[str, ...]
    also: tuple[tuple[str, str, str], ...] = ()
    """Consequences that may be named besides: (where, term, kind), "*" for any."""

    def named(self, verdict: Verdict) -> bool:
        """Whether the verdict names it, and nothing else."""
        right = [f for f in verdict.findings if f.where == self.where and f.term in self.terms and f.kind in self.kinds]
        rest = [f for f in verdict.findings if f not in right]
        return bool(right) and all(any(_fits(f, pattern) for pattern in self.also) for f in rest)


def _fits(finding: Finding, pattern: tuple[str, str, str]) -> bool:
    return all(p in ("*", v) for p, v in zip(pattern, (finding.where, finding.term, finding.kind), strict=True))


Plant = Callable[[Case, np.random.Generator], Planted | None]
"""Plants a fault into a case, or says that it does not apply."""

FAULTS: dict[str, Plant] = {}
DRIVER: set[str] = set()


def fault(name: str, *, driver: bool = False) -> Callable[[Plant], Plant]:
    """Register a fault under its name; `driver` marks those in the raw readings."""

    def register(plant: Plant) -> Plant:
        FAULTS[name] = plant
        if driver:
            DRIVER.add(name)
        return plant

    return register


# ---------------------------------------------------------------- words to say where


def terms_of(case: Case, source: str, *, history: bool | None = None) -> tuple[str, ...]:
    """Names of the terms that read a source; with `history` only those with, or without, a past."""
    return tuple(
        t.name
        for g in case.bundle.contract.groups
        for t in g.terms
        if t.source == source and (history is None or (t.history > 1) == history)
    )


def history_of(case: Case) -> Group | None:
    """The first group with a past, if there is one."""
    return next((g for g in case.bundle.contract.groups if any(t.history > 1 for t in g.terms)), None)


def term_changed(name: str, **changes: Any) -> Callable[[Contract], Contract]:
    """The contract with one term changed."""

    def change(contract: Contract) -> Contract:
        groups = []
        for group in contract.groups:
            terms = tuple(replace(t, **changes) if t.name == name else t for t in group.terms)
            groups.append(replace(group, terms=terms))
        return replace(contract, groups=tuple(groups))

    return change


def group_changed(changed: Callable[[Group], Group], name: str) -> Callable[[Contract], Contract]:
    """The contract with one group changed."""
    return lambda contract: replace(
        contract, groups=tuple(changed(g) if g.name == name else g for g in contract.groups)
    )


def swap(case: Case, rng: np.random.Generator) -> np.ndarray:
    """An order of the joints with two legs, or two joints, swapped."""
    joints = case.robot.joints
    order = np.arange(len(joints))
    if len(joints) == 12:
        a, b = rng.choice(4, 2, replace=False)
        order[3 * a : 3 * a + 3], order[3 * b : 3 * b + 3] = np.arange(3 * b, 3 * b + 3), np.arange(3 * a, 3 * a + 3)
    else:
        order[[0, 1]] = order[[1, 0]]
    return order


def any_joint(case: Case, rng: np.random.Generator) -> int:
    """A joint whose sign matters: one that does not stand near 0 where the robot has a pose."""
    return int(rng.integers(len(case.robot.joints)))


def on(channels: tuple[str, ...], change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Readings, Past], Readings]:
    """Readings with some channels changed."""
    return lambda y, past: {k: change(v) if k in channels else v for k, v in y.items()}


def signed(n: int, at: int) -> np.ndarray:
    """Ones, and -1 at one place."""
    row = np.ones(n)
    row[at] = -1.0
    return row


ENCODERS = ("joint_pos", "joint_vel", "joint_torque")


def legged(case: Case) -> bool:
    """Whether the robot has a free base."""
    return case.robot.base is not None
