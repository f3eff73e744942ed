"""`surefoot bench learn`: how many transitions and how much time a quadruped needs until it walks, seed by seed."""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from surefoot.bench.cases import work
from surefoot.bench.speed import bare_loop, commands
from surefoot.bench.table import Mark, Request, Result
from surefoot.evaluate import walk
from surefoot.learn.walking import LESSONS, teach
from surefoot.robots import load
from surefoot.sim import Sim

JUDGED_WORLDS = 512
EVERY = 150_000
"""Transitions between two judgements."""


def measure(request: Request) -> Result:
    """Train the Go2 once a seed until it walks."""
    start = time.perf_counter()
    cases = {
        f"go2 velocity, seed {seed}": lambda seed=seed: learned("go2", seed, request) for seed in range(request.seeds)
    }
    found = work("learn", cases, request)
    marks = [*summary("go2", found, request.seeds), *found]
    return Result(bench="learn", marks=tuple(marks), seed=0, seconds=time.perf_counter() - start, quick=request.quick)


def summary(robot: str, found: list[Mark], seeds: int) -> list[Mark]:
    """Medians over the seeds beside their marks; a seed that never walked counts as infinitely many transitions."""

    def values(what: str) -> np.ndarray:
        return np.array(
            [m.value for m in found if m.name.startswith(f"{robot}, seed") and m.name.endswith(what)], float
        )

    needed, walked = values("transitions until it walks"), values("walks")
    ratio, rest = values("training / bare physics"), values("neither physics nor update")
    needed = np.where(walked > 0, needed, np.inf)
    return [
        Mark(
            name=f"{robot}: transitions until it walks, median", value=float(np.median(needed)), unit="1", op="<=", mark=2.5e6, goal=1.2e6,
            reference=f"full default randomization, {seeds} seeds: {', '.join(f'{n / 1e6:.2f} M' for n in needed)}",
        ),
        Mark(name=f"{robot}: seeds that walked", value=float(walked.sum()), unit="1", op="==", mark=float(seeds), reference="of those run"),
        Mark(
            name=f"{robot}: training / bare physics time, median", value=float(np.median(ratio)), unit="1", op="<=", mark=1.8,
            reference="bare mujoco.batch.Batch loop, the same number of steps of the same model, same run",
        ),
        Mark(
            name=f"{robot}: share of neither physics nor update, median", value=float(np.median(rest)), unit="1", op="<=", mark=0.2,
            reference="of the training's wall time",
        ),
    ]  # fmt: skip


def learned(name: str, seed: int, request: Request) -> list[Mark]:
    """One training until the robot walks, judged in fresh worlds; evaluation time is not counted."""
    robot, lesson = load(name), LESSONS[name]
    sim = Sim(robot, worlds=lesson.worlds, seed=seed)
    judged = Sim(robot, worlds=JUDGED_WORLDS, seed=999)
    bare = [bare_rate(sim)]
    walks: list = []

    def evaluate(policy) -> dict[str, float]:
        walks.append(walk(lesson.task, judged, policy.play(), e=judged.params.prior()))
        request.tell(f"   {name}, seed {seed}: {walks[-1]}")
        return {"walks": float(walks[-1].walks), "survival": walks[-1].survival, "speed_error": walks[-1].speed_error}

    with tempfile.TemporaryDirectory() as folder:
        run = teach(
            sim, lesson, run=Path(folder) / "run", seed=seed, evaluate=evaluate, every=EVERY, resume=False,
            stop=lambda _record: bool(walks) and walks[-1].walks,
        )  # fmt: skip
        records = [json.loads(line) for line in (run.folder / "progress.jsonl").read_text().splitlines()]
    bare.append(bare_rate(sim))
    last = records[-1]
    steps, seconds = float(last["steps"]), float(last["seconds"])
    physics = steps * sim.substeps / float(np.mean(bare))
    shares = {key: float(np.mean([r[f"share/{key}"] for r in records])) for key in ("world", "act", "update", "rest")}
    inside = physics / seconds  # the part of the world's share that is bare physics
    prefix = f"{name}, seed {seed}"
    rows = {
        "transitions until it walks": (steps, "1"),
        "walks": (float(walks[-1].walks), "1"),
        "seconds of training": (seconds, "s"),
        "training / bare physics": (seconds / physics, "1"),
        "neither physics nor update": (max(0.0, 1 - shares["update"] - inside), "1"),
        "survival": (walks[-1].survival, "1"),
        "speed error": (walks[-1].speed_error, "m/s"),
        "turn error": (walks[-1].turn_error, "rad/s"),
    }
    return [
        Mark(name=f"{prefix}: {what}", value=value, unit=unit, reference="this run")
        for what, (value, unit) in rows.items()
    ]


def bare_rate(sim: Sim, control_steps: int = 60) -> float:
    """Physics steps/s of a bare loop over the same model, robots standing and shifting their weight."""
    u = commands(sim, control_steps)
    loop = bare_loop(sim.model, sim, u)
    rates = []
    for _ in range(3):
        loop.start()
        begin = time.perf_counter()
        for k in range(control_steps):
            loop.go(k)
        rates.append(loop.steps * control_steps / (time.perf_counter() - begin))
    return float(np.median(rates))
