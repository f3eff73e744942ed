"""The safety layer's part of `surefoot bench deploy`: faults are found in time, no command leaves the limits, and what it costs.

- Faults: every kind 200 times, each with its own run, moment, joint and size; the safe state within the configured time.
- False alarms: clean runs with other e and noise, none may leave "ok".
- Adversaries: see `safety_limits`.
- Latency: thread CPU time of `Safety.step` with every check on.
"""

import time
from dataclasses import dataclass

import numpy as np

from surefoot.bench.safety_kinds import Kind, kinds
from surefoot.bench.safety_limits import Breaches, adversaries
from surefoot.bench.safety_runs import PERIOD, Bench, record, ticks
from surefoot.bench.table import Mark, Request
from surefoot.deploy.settings import STATES

REPEATS, QUICK = 200, 10
STEPS, QUICK_STEPS = 10_000_000, 200_000
TIMED, QUICK_TIMED = 120_000, 10_000
WARM, LEARN = 0.3, 1.1
"""[s] of clean running before a fault: usually, and where the layer must have learned what never rests."""
MEDIAN, TAIL = 60.0, 300.0  # [µs]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How one repetition went: time to the safe state [s], inf when it never came; whether it was in it before the fault."""

    took: float
    early: bool
    sound: bool
    """Whether the commands in the safe state were those of the state."""


def trial(bench: Bench, kind: Kind, seed: int) -> Trial:
    """One repetition of a fault: run, moment and the fault's own numbers come from the seed."""
    rng = np.random.default_rng(seed)
    run = bench.runs[int(rng.integers(len(bench.runs)))]
    warm = round((LEARN if kind.learned else WARM) / PERIOD) + int(rng.integers(50))
    after = round((kind.within + 1.2) / PERIOD) + 10
    start = int(rng.integers(600, len(run) - warm - after))
    fault, safety = kind.make(rng), bench.safety()
    least, harmed, reached, sound = STATES.index(kind.state), None, None, True
    for k, tick in enumerate(ticks(bench, run, start, start + warm + after)):
        if k >= warm and fault(tick, k - warm) and harmed is None:
            harmed = tick.now
        ruling = tick.give(safety)
        state = STATES.index(ruling.state)
        if k < warm and state:
            return Trial(took=np.inf, early=True, sound=False)
        if state >= least:
            reached = tick.now if reached is None else reached
            gains = ruling.command.kp
            limit = bench.settings.freeze_gain * np.asarray(bench.settings.kp_max) if state == 1 else 0.0
            sound &= bool(np.all(gains <= limit + 1e-9))
            if tick.now > reached + 5 * PERIOD:
                break
        if harmed is not None and reached is None and tick.now - harmed > kind.within + 0.5:
            break
    took = np.inf if reached is None else max(0.0, reached - (harmed if harmed is not None else reached))
    return Trial(took=took, early=False, sound=sound)


def faults(bench: Bench, request: Request) -> list[Mark]:
    """One mark per kind, and the whole."""
    repeats = QUICK if request.quick else REPEATS
    marks, good, total = [], 0, 0
    for number, kind in enumerate(kinds(bench)):
        found = [trial(bench, kind, 100_000 * number + r) for r in range(repeats)]
        right = sum(t.took <= kind.within and t.sound and not t.early for t in found)
        slowest = max(t.took for t in found)
        good, total = good + right, total + repeats
        request.tell(f"   {kind.name}: {right} of {repeats}, slowest {1e3 * slowest:.0f} ms of {1e3 * kind.within:.0f}")
        marks.append(
            Mark(
                name=f"safety fault: {kind.name}", value=100.0 * right / repeats, unit="%", op="==", mark=100.0,
                reference=f"{repeats} times; {kind.state} within {1e3 * kind.within:.0f} ms, slowest {1e3 * slowest:.0f} ms",
            )
        )  # fmt: skip
    whole = Mark(
        name="safety faults: safe state in time", value=100.0 * good / total, unit="%", op="==", mark=100.0,
        reference=f"{len(marks)} kinds, {repeats} times each; 'runtime killed' and 'communication dead' are the twin's to judge",
    )  # fmt: skip
    return [whole, *marks]


def false_alarms(bench: Bench, request: Request) -> list[Mark]:
    """Clean runs from end to end."""
    alarms, warnings, steps = 0, 0, 0
    for run in bench.runs:
        safety = bench.safety()
        for tick in ticks(bench, run, 0, len(run)):
            ruling = tick.give(safety)
            steps += 1
            warnings += len(ruling.events)
            if ruling.state != "ok":
                alarms += 1
                request.tell("   false alarm: " + "; ".join(e.sentence for e in ruling.events))
                break
    return [
        Mark(
            name="safety: false alarms on clean runs", value=alarms, op="==", mark=0,
            reference=f"{len(bench.runs)} runs with their own e and noise, {steps * PERIOD:.0f} s; {warnings} warnings",
        )
    ]  # fmt: skip


def latency(bench: Bench, request: Request) -> list[Mark]:
    """Thread CPU time of a step with every check on; with the barrier filter too, for information."""
    wanted = QUICK_TIMED if request.quick else TIMED
    marks = []
    for barrier in (False, True):
        took: list[int] = []
        while len(took) < (wanted if not barrier else wanted // 4):
            for run in bench.runs:
                safety, clock = bench.safety(barrier=barrier), time.thread_time_ns
                for tick in ticks(bench, run, 0, len(run)):
                    give = tick.ready(safety)
                    begin = clock()
                    give()
                    took.append(clock() - begin)
        us = np.asarray(took) / 1e3
        median, tail = float(np.median(us)), float(np.percentile(us, 99.9))
        about = f"{len(us)} steps, 12 joints, thread CPU time; 99 %: {np.percentile(us, 99):.0f} µs, worst {us.max():.0f} µs"
        if barrier:
            marks.append(
                Mark(
                    name="safety layer with barrier filter, median",
                    value=median,
                    unit="µs",
                    reference=f"p99.9 {tail:.0f} µs; {about}",
                )
            )
        else:
            marks += [
                Mark(name="safety layer, median", value=median, unit="µs", op="<=", mark=MEDIAN, reference=about),
                Mark(name="safety layer, p99.9", value=tail, unit="µs", op="<=", mark=TAIL, reference=about),
            ]
    return marks


def limits(bench: Bench, request: Request) -> list[Mark]:
    """Adversarial steps: how many commands left a limit, and how near the nearest came."""
    found: Breaches = adversaries(bench, QUICK_STEPS if request.quick else STEPS, tell=request.tell)
    return [
        Mark(
            name="safety: commands outside the limits", value=found.count, op="==", mark=0, reference=found.sentence,
        )
    ]  # fmt: skip


def measure(request: Request) -> list[Mark]:
    """All marks of the safety layer."""
    request.tell("safety: clean runs of a Go2" + ("" if request.quick else "; about 6 minutes in all"))
    bench = record(runs=8 if request.quick else 24, seconds=5.0 if request.quick else 8.0)
    marks = latency(bench, request)
    marks += false_alarms(bench, request)
    marks += faults(bench, request)
    marks += limits(bench, request)
    return marks
