"""Whether two forms of one policy say the same: a policy file against the network it was written from.

    difference = |a − b| / max(1, |a|)       the largest over steps, worlds and actions; at most 1e-5

Compared on what was recorded, and on random sequences inside, at the edge of and far beyond the range of the observations.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.contract import Contract, Group
from surefoot.errors import InputError
from surefoot.logs import Log

TOLERANCE = 1e-5
STEPS, WORLDS = 24, 64
"""Of each random sequence."""

Act = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Observations (worlds, n) by group -> action (worlds, actions); keeps its own memory."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Observations to compare on: group -> (steps, worlds, n) float32, steps one after the other."""

    name: str
    observations: dict[str, np.ndarray]

    @property
    def rows(self) -> int:
        """How many observations it holds."""
        steps, worlds, _ = next(iter(self.observations.values())).shape
        return steps * worlds


def compare(
    cases: Sequence[Case], first: Callable[[], Act], second: Callable[[], Act], names: Sequence[str], what: str
) -> dict[str, Any]:
    """The largest difference of each case; raises an InputError that says how much and where when one is above 1e-5.

    Args:
        cases: what to compare on.
        first: makes one policy, its memory empty.
        second: makes the other.
        names: of the actions.
        what: the two policies in words.
    """
    found = []
    for case in cases:
        a, b = _run(first(), case), _run(second(), case)
        gap = np.abs(a.astype(np.float64) - b) / np.maximum(1.0, np.abs(a))
        gap = np.where(np.isfinite(gap), gap, np.inf)
        step, world, k = (int(i) for i in np.unravel_index(int(np.argmax(gap)), gap.shape))
        worst = float(gap[step, world, k])
        if not worst <= TOLERANCE:
            raise InputError(
                f"{what} differ by {worst:.3g} (at most {TOLERANCE:g} is allowed) in {case.name}, step {step}, world {world}, "
                f"action {names[k]!r}: {a[step, world, k]:.9g} against {b[step, world, k]:.9g}; nothing was written"
            )
        found.append({"name": case.name, "rows": case.rows, "difference": worst})
    return {"tolerance": TOLERANCE, "difference": max(item["difference"] for item in found), "cases": found}


def _run(act: Act, case: Case) -> np.ndarray:
    """Actions, (steps, worlds, actions)."""
    steps = next(iter(case.observations.values())).shape[0]
    return np.stack([act({name: x[t] for name, x in case.observations.items()}) for t in range(steps)])


def random_cases(contract: Contract, *, worlds: int | None = None, seed: int = 0) -> list[Case]:
    """Sequences inside the trained range, at its edges, three times as wide, and a thousand times as wide.

    Args:
        contract: says the trained ranges.
        worlds: number of worlds side by side; a policy file made for one world needs 1.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    edges = {group.name: trained_edges(group) for group in contract.groups}
    spots = (
        "inside the trained range",
        "at the edges of the trained range",
        "beyond the trained range",
        "far beyond the trained range",
    )
    found = []
    for spot, wide in zip(spots, (1.0, 1.0, 3.0, 1000.0), strict=True):
        observations = {}
        for name, (low, high) in edges.items():
            share = rng.uniform(-1.0, 1.0, (STEPS, worlds or WORLDS, len(low)))
            share = np.sign(share) if spot.startswith("at") else share * wide
            observations[name] = (0.5 * (low + high) + 0.5 * (high - low) * share).astype(np.float32)
        found.append(Case(name=f"random inputs {spot}", observations=observations))
    return found


def trained_edges(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """(low, high) of every entry of a group's vector: the trained range, else three deviations, else ±3."""
    low, high = np.full(group.size, -3.0), np.full(group.size, 3.0)
    if group.normaliser is not None:
        mean, std = np.array(group.normaliser.mean), np.sqrt(np.array(group.normaliser.var))
        low, high = mean - 3.0 * std, mean + 3.0 * std
    for columns, term in entries(group):
        if term.trained is not None:
            low[columns], high[columns] = np.array(term.trained[0]), np.array(term.trained[1])
    return low, high


def entries(group: Group) -> Iterator[tuple[np.ndarray, Any]]:
    """Each term once per step of its history, with the columns of the group's vector that hold this step."""
    at = 0
    if group.stack == "step":
        for _ in range(group.terms[0].history):
            for term in group.terms:
                yield np.arange(at, at + len(term.entries)), term
                at += len(term.entries)
        return
    for term in group.terms:
        for _ in range(term.history):
            yield np.arange(at, at + len(term.entries)), term
            at += len(term.entries)


def recorded_cases(contract: Contract, observations: Mapping[str, Any] | None, logs: Sequence[Log]) -> list[Case]:
    """What was recorded: arrays by group, and the channels "observation/GROUP" of logs."""
    found = []
    if observations:
        found.append(_case(contract, "the recorded observations", observations))
    for i, log in enumerate(logs):
        name = f"log {i + 1} of {len(logs)}"
        given = {}
        for group in contract.groups:
            channel = f"observation/{group.name}"
            if channel not in log:
                raise InputError(
                    f"{name} has no channel {channel!r}, so it cannot check the policy: it holds {', '.join(log.names)}"
                )
            columns = log[channel].columns
            if set(columns) != set(group.labels):
                odd = sorted(set(columns) ^ set(group.labels))[0]
                raise InputError(
                    f"{name}: {channel!r} and group {group.name!r} do not have the same entries ({odd!r} is in one alone)"
                )
            given[group.name] = log[channel].values[:, [columns.index(label) for label in group.labels]]
        found.append(_case(contract, name, given))
    return found


def _case(contract: Contract, name: str, given: Mapping[str, Any]) -> Case:
    made, steps = {}, set()
    for group in contract.groups:
        if group.name not in given:
            raise InputError(f"{name}: observation group {group.name!r} is missing, given: {', '.join(given)}")
        x = np.asarray(given[group.name], np.float32)
        x = x[:, None, :] if x.ndim == 2 else x
        if x.ndim != 3 or x.shape[2] != group.size or x.size == 0:
            raise InputError(
                f"{name}: group {group.name!r} must have shape (steps, {group.size}) or (steps, worlds, {group.size}), got {x.shape}"
            )
        made[group.name] = x
        steps.add(x.shape[:2])
    if len(steps) > 1:
        raise InputError(f"{name}: the groups have different numbers of steps or worlds: {sorted(steps)}")
    whole = np.all([np.isfinite(x).all(axis=(1, 2)) for x in made.values()], axis=0)
    if not whole.any():
        raise InputError(f"{name} holds no step without a NaN, so it checks nothing")
    return Case(name=name, observations={k: x[whole] for k, x in made.items()})
