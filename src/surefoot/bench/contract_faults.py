"""Contract faults, planted one by one into closed-loop runs: does `verify` catch them, and call them by their names?

A fault counts as caught and named when the verdict holds a finding of its place, term and kind, and no finding that is neither that nor a
stated consequence of it. Thresholds were chosen on seeds below 50 000; what is judged here has seeds from 60 000.
"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefoot.bench import faults_driver as faults_driver
from surefoot.bench import faults_sent as faults_sent
from surefoot.bench import faults_shown as faults_shown
from surefoot.bench.fault_runs import Case, Hooks, cases, record
from surefoot.bench.planted import DRIVER, FAULTS, Plant
from surefoot.bench.table import Mark, Request, aligned
from surefoot.deploy.verify import Verdict, verify

FIRST_SEED = 60_000
CLEAN = 20
"""Clean runs that must be found clean."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run and what was said about it."""

    case: str
    fault: str
    seed: int
    named: bool
    caught: bool
    verdict: Verdict


def trials(
    found: list[Case], *, repetitions: int, names: Mapping[str, Plant] | None = None, first: int = FIRST_SEED
) -> Iterator[Trial]:
    """Every fault in every bundle where it applies, `repetitions` times."""
    for number, (name, plant) in enumerate((names or FAULTS).items()):
        for case in found:
            for repetition in range(repetitions):
                seed = first + 50 * number + repetition
                planted = plant(case, np.random.default_rng([seed, 13]))
                if planted is None:
                    continue
                verdict = verify(case.bundle, record(case, planted.hooks, seed), case.robot)
                yield Trial(
                    case=case.name, fault=name, seed=seed, named=planted.named(verdict), caught=not verdict.ok, verdict=verdict
                )  # fmt: skip


def false_alarms(found: list[Case], count: int, first: int = FIRST_SEED) -> list[tuple[str, int, Verdict]]:
    """Clean runs that were not found clean, of `count` in turn over the bundles."""
    out = []
    for number in range(count):
        case, seed = found[number % len(found)], first + 7000 + number
        verdict = verify(case.bundle, record(case, Hooks(), seed), case.robot)
        if not verdict.ok:
            out.append((case.name, seed, verdict))
    return out


def measure(request: Request, walking: Path | None = None) -> list[Mark]:
    """Shares of faults caught and named, and false alarms.

    Args:
        request: `train` may be the folder of a trained Go2 run; `quick` takes one repetition.
        walking: the same, given by another bench.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = cases(walking or request.train, Path(folder))
        done = []
        for trial in trials(found, repetitions=1 if request.quick else max(2, request.seeds)):
            done.append(trial)
            if not trial.named:
                said = "; ".join(map(str, trial.verdict.findings)) or "nothing"
                request.tell(f"{trial.fault} in {trial.case} (seed {trial.seed}): {said}")
        alarms = false_alarms(found, CLEAN)
    for name, seed, verdict in alarms:
        request.tell(f"false alarm in {name} (seed {seed}): {'; '.join(map(str, verdict.findings))}")
    kinds = {trial.fault for trial in done}
    share = sum(t.named for t in done) / max(len(done), 1)
    caught = sum(t.caught for t in done) / max(len(done), 1)
    note = f"{len(done)} runs, {len(kinds)} kinds, bundles: {', '.join(c.name for c in found)}"
    return [
        Mark(
            name="contract faults caught and rightly named", value=share, op=">=", mark=0.95, goal=1.0, reference=note
        ),
        Mark(name="contract faults caught", value=caught, goal=1.0, reference="whatever they were called"),
        Mark(
            name="false alarms on clean logs",
            value=float(len(alarms)),
            unit="logs",
            op="==",
            mark=0.0,
            reference=f"of {CLEAN}",
        ),
        Mark(name="kinds of contract faults", value=float(len(kinds)), unit="kinds", op=">=", mark=24.0),
        Mark(
            name="kinds in the driver's raw readings", value=float(len(kinds & DRIVER)), unit="kinds", op=">=", mark=8.0
        ),
        Mark(name="bundles", value=float(len(found)), unit="bundles", op=">=", mark=3.0),
    ]


def breakdown(done: list[Trial]) -> str:
    """Runs in which each fault was rightly named, of those in which it was planted, by bundle."""
    bundles = list(dict.fromkeys(trial.case for trial in done))
    rows = [("fault", *bundles)]
    for name in dict.fromkeys(trial.fault for trial in done):
        cells = []
        for bundle in bundles:
            own = [trial.named for trial in done if trial.fault == name and trial.case == bundle]
            cells.append(f"{sum(own)}/{len(own)}" if own else "-")
        rows.append((name, *cells))
    return aligned(rows)
