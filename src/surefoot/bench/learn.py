"""`surefoot bench learn-go2`, `learn-g1`, `learn-small`: transitions and time until a robot can do its task, seed by seed.

A training is judged in fresh worlds every few transitions and stops when it passes; judging time is not counted. Bare
physics is a `mujoco.batch.Batch` loop over the same compiled model, timed before and after the training.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.bench.cases import work
from surefoot.bench.speed import bare_loop, commands
from surefoot.bench.table import Mark, Request, Result
from surefoot.evaluate import judge_world, walk
from surefoot.evaluate.runs import task_of
from surefoot.evaluate.walking import SPEED_ERROR, SURVIVAL
from surefoot.learn import train
from surefoot.learn.mirror import mirror_of
from surefoot.learn.presets import settings
from surefoot.learn.runs import Run
from surefoot.learn.walking import LESSONS, teach
from surefoot.randomize import schedule
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.tasks import World

JUDGED_WORLDS, SMALL_JUDGED_WORLDS = 512, 256
GLANCED_WORLDS, PROMISING = 128, 0.95
"""A glance at few worlds tells whether a judgement is worth its time: it needs this share of what passes."""
PASSES = 0.9
"""Share of successful episodes that a small task passes with."""
RATIO = "training / bare physics"
SMALL = {"crazyflie": 20.0, "cartpole": 20.0, "qube": 60.0, "hopper": 90.0}
"""By robot, about how many seconds its training may take on two idle cores."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training: what it took, and how it was judged in the end."""

    passed: bool
    steps: float
    seconds: float
    physics: float
    """Seconds that bare physics needs for the same steps."""
    inside: float
    """Share of the training time spent inside the engine, stepping worlds that have drawn their e."""
    update: float
    """Share of the training time that the update took."""
    judged: dict[str, tuple[float, str]]
    """The last judgement: value and unit by name."""

    def rows(self, prefix: str) -> list[Mark]:
        """As they are printed."""
        rows = {
            "transitions": (self.steps, "1"),
            "passes": (float(self.passed), "1"),
            "seconds": (self.seconds, "s"),
            RATIO: (self.seconds / self.physics, "1"),
            "neither physics nor update": (1 - self.update - self.inside, "1"),
            "share of physics": (self.inside, "1"),
            "share of the update": (self.update, "1"),
            **self.judged,
        }
        return [
            Mark(name=f"{prefix}: {what}", value=value, unit=unit, reference="this run")
            for what, (value, unit) in rows.items()
        ]


# -------------------------------------------------------------------- benches


def measure_go2(request: Request) -> Result:
    """The Go2 until it walks, with all its default randomization."""
    marks = {"transitions": (2.5e6, 1.2e6), RATIO: (1.8, None), "rest": (0.2, None)}
    return _measure("learn-go2", ["go2"], partial(walking, every=100_000, walks=lambda w: w.walks), marks, request)


def measure_g1(request: Request) -> Result:
    """The G1 with its arms held by their own PD until it survives and keeps its speed."""
    marks = {"transitions": (6e6, None), "rest": (0.2, None)}
    stands = lambda w: w.survival >= SURVIVAL and w.speed_error <= SPEED_ERROR  # noqa: E731
    return _measure("learn-g1", ["g1"], partial(walking, every=250_000, walks=stands), marks, request)


def measure_small(request: Request) -> Result:
    """Hover, swing-ups and hopping until nine of ten fresh episodes succeed."""
    marks = {RATIO: (3.0, None)}
    return _measure("learn-small", list(SMALL), small, marks, request)


def _measure(
    bench: str,
    robots: Iterable[str],
    trial: Callable[[str, int, Request], Trial],
    marks: Mapping[str, tuple[float, float | None]],
    request: Request,
) -> Result:
    start, found, heads = time.perf_counter(), [], []
    cases = {
        f"{robot}, seed {seed}": lambda robot=robot, seed=seed: trial(robot, seed, request).rows(
            f"{robot}, seed {seed}"
        )
        for robot in robots
        for seed in range(request.seeds)
    }
    found = work(bench, cases, request)
    for robot in robots:
        heads += summary(robot, found, marks)
    return Result(bench=bench, marks=(*heads, *found), seed=0, seconds=time.perf_counter() - start, quick=request.quick)


def summary(robot: str, found: list[Mark], marks: Mapping[str, tuple[float, float | None]]) -> list[Mark]:
    """Medians over the seeds beside their marks; a seed that never passed counts as infinitely many transitions."""

    def values(what: str) -> np.ndarray:
        rows = [m.value for m in found if m.name.startswith(f"{robot}, seed") and m.name.endswith(f": {what}")]
        return np.array(rows, dtype=float)

    def median(name: str, what: str, key: str, numbers: np.ndarray, unit: str = "1") -> Mark:
        mark, goal = marks.get(key, (None, None))
        shown = ", ".join(f"{n:.3g}" for n in numbers)
        value = float(np.median(numbers)) if np.isfinite(np.median(numbers)) else None
        return Mark(
            name=f"{robot}: {name}, median", value=value, unit=unit, op="<=" if mark is not None else None, mark=mark, goal=goal,
            reference=f"{what}; seeds: {shown}",
        )  # fmt: skip

    passed = values("passes")
    needed = np.where(passed > 0, values("transitions"), np.inf)
    about = f"about {SMALL[robot]:g} s asked; " if robot in SMALL else ""
    return [
        Mark(
            name=f"{robot}: seeds that passed", value=float(passed.sum()), unit="1", op="==", mark=float(len(passed)),
            reference=f"of {len(passed)}, full default randomization",
        ),
        median("transitions until it passes", "full default randomization", "transitions", needed),
        median("seconds of training", f"{about}judging time excluded", "seconds", values("seconds"), "s"),
        median("training / bare physics time", "same model, steps and run", RATIO, values(RATIO)),
        median("share of neither physics nor update", "of the training's wall time", "rest", values("neither physics nor update")),
    ]  # fmt: skip


# -------------------------------------------------------------------- trials


def walking(name: str, seed: int, request: Request, *, every: int, walks: Callable[[Any], bool]) -> Trial:
    """One training of a legged robot's lesson."""
    robot, lesson = load(name), LESSONS[name]
    sim = Sim(robot, worlds=lesson.worlds, seed=seed)
    judged, glanced = (Sim(robot, worlds=n, seed=999) for n in (JUDGED_WORLDS, GLANCED_WORLDS))
    seen: list = []

    def evaluate(policy) -> dict[str, float]:
        seen.append(walk(lesson.task, glanced, policy.play(), e=glanced.params.prior()))
        if seen[-1].survival >= PROMISING * SURVIVAL and seen[-1].speed_error <= SPEED_ERROR / PROMISING:
            seen.append(walk(lesson.task, judged, policy.play(), e=judged.params.prior()))
        request.tell(f"   {name}, seed {seed}: {seen[-1]}")
        return {"passes": float(walks(seen[-1])), "survival": seen[-1].survival, "speed_error": seen[-1].speed_error}

    moves = schedule(lesson.randomize, sim.params.prior(), worlds=lesson.worlds, **lesson.moves)

    def learn(folder: Path) -> Run:
        return teach(
            sim, lesson, run=folder, seed=seed, e=moves.prior, randomize=moves, evaluate=evaluate, every=every, resume=False,
            stop=lambda _record: done(), say=lambda _line: None,
        )  # fmt: skip

    def done() -> bool:
        return bool(seen) and seen[-1].worlds == JUDGED_WORLDS and walks(seen[-1])

    def last() -> tuple[bool, dict[str, tuple[float, str]]]:
        w = seen[-1]
        said = {
            "survival": (w.survival, "1"),
            "speed error": (w.speed_error, "m/s"),
            "turn error": (w.turn_error, "rad/s"),
        }
        return done(), said

    return _trial(sim, learn, last)


def small(name: str, seed: int, request: Request) -> Trial:
    """One training of a small task."""
    preset = settings(name)
    robot, task = task_of(name)
    sim = Sim(robot, worlds=preset.worlds, seed=seed)
    judged = World(task, Sim(robot, worlds=SMALL_JUDGED_WORLDS, seed=999), e=sim.params.prior(), seed=1_000_003)
    world = World(preset.task(task), sim, e=sim.params.prior(), seed=seed)
    seen: list[float] = []

    def evaluate(policy) -> dict[str, float]:
        found = judge_world(judged, policy.play())
        seen.append(found.summary["success"].value)
        request.tell(f"   {name}, seed {seed}: {found}")
        return {"success": seen[-1]}

    def learn(folder: Path) -> Run:
        return train(
            world, preset.ppo, run=folder, steps=2 * preset.steps, seed=seed, evaluate=evaluate, every=preset.steps // 20,
            mirror=mirror_of(world), resume=False, stop=lambda _record: bool(seen) and seen[-1] >= PASSES, say=lambda _line: None,
        )  # fmt: skip

    return _trial(sim, learn, lambda: (seen[-1] >= PASSES, {"success": (seen[-1], "1")}))


def _trial(
    sim: Sim, learn: Callable[[Path], Run], last: Callable[[], tuple[bool, dict[str, tuple[float, str]]]]
) -> Trial:
    """Train in a folder that is thrown away, with bare physics timed on both sides of it."""
    bare, busy = [bare_rate(sim)], sim.engine.busy
    with tempfile.TemporaryDirectory() as folder:
        records = learn(Path(folder) / "run").history()
    busy = sim.engine.busy - busy
    bare.append(bare_rate(sim))
    passed, judged = last()
    steps, seconds = float(records[-1]["steps"]), float(records[-1]["seconds"])
    return Trial(
        passed=passed,
        steps=steps,
        seconds=seconds,
        inside=busy / seconds,
        physics=steps * sim.substeps / float(np.mean(bare)),
        update=float(np.mean([r["share/update"] for r in records])),
        judged=judged,
    )


def bare_rate(sim: Sim, seconds: float = 1.0) -> float:
    """Physics steps/s of a bare loop over the same model, robots near their default pose and shifting their weight."""
    rates, control_steps = [], 15
    loop = bare_loop(sim.model, sim, commands(sim, control_steps))
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(rates) < 3:
        loop.start()
        begin = time.perf_counter()
        for k in range(control_steps):
            loop.go(k)
        rates.append(loop.steps * control_steps / (time.perf_counter() - begin))
    return float(np.median(rates))
