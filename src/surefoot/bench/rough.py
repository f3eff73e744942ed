"""`surefoot bench learn-rough`: Go2 on steps to 8 cm and slopes to 15°, blind and with a height scan, learned by curricula.

A training ends when a glance at fresh worlds of full difficulty shows more than its mark, or at STEPS transitions; then it is judged in
others. An interrupted training goes on where it stopped.
"""

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from surefoot.bench.cases import folder, package_hash, work
from surefoot.bench.table import Mark, Request, Result
from surefoot.evaluate.rough import RoughWalk, rough_walk
from surefoot.learn.networks import Policy
from surefoot.learn.walking import rough, teach
from surefoot.randomize import Levels
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.tasks import Commands

STEPS, EVERY = 15_000_000, 1_000_000
"""Most transitions of a training, and those between two glances."""
GLANCED, JUDGED = 128, 512
ENOUGH = 0.02
"""How much more than the mark a glance must show to end a training."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way to walk on rough ground."""

    name: str
    scan: bool
    mark: float
    """Share of worlds that must survive."""


KINDS = (Kind(name="blind", scan=False, mark=0.75), Kind(name="height scan", scan=True, mark=0.9))


def measure(request: Request) -> Result:
    """Train and judge both kinds, seed by seed."""
    start, root = time.perf_counter(), folder() / f"rough-runs-{package_hash()[:16]}"
    if request.fresh:
        shutil.rmtree(root, ignore_errors=True)
    cases = {
        f"{kind.name}, seed {seed}": lambda kind=kind, seed=seed: trained(
            kind, root / f"{kind.name} {seed}", seed, request
        )
        for kind in KINDS
        for seed in range(request.seeds or 1)
    }
    marks = work("learn-rough", cases, request)
    shutil.rmtree(root, ignore_errors=True)
    return Result(
        bench="learn-rough", marks=tuple(marks), seed=0, seconds=time.perf_counter() - start, quick=request.quick
    )


def trained(kind: Kind, run: Path, seed: int, request: Request) -> list[Mark]:
    """One training and its judgement."""
    ground = rough(load("go2"), scan=kind.scan)
    lesson = replace(ground.lesson, steps=EVERY if request.quick else STEPS)
    sim = Sim(ground.robot, ground.params, worlds=lesson.worlds, seed=seed)
    glanced = Sim(ground.robot, ground.params, worlds=GLANCED, seed=999)
    seen: list[RoughWalk] = []

    def evaluate(policy: Policy) -> dict[str, float]:
        seen.append(rough_walk(lesson.task, glanced, policy.play()))
        request.tell(f"   {kind.name}, seed {seed}: {seen[-1]}")
        return {"survival": seen[-1].survival}

    done = teach(
        sim, lesson, run=run, seed=seed, evaluate=evaluate, every=EVERY, randomize=Levels(sim.params.prior(), names=ground.levels),
        commands=Commands(), stop=lambda _record: bool(seen) and seen[-1].survival >= kind.mark + ENOUGH, say=lambda _line: None,
    )  # fmt: skip
    judged = Sim(ground.robot, ground.params, worlds=JUDGED, seed=4242)
    found = rough_walk(lesson.task, judged, done.policy.play(), seed=77)
    about = f"seed {seed}, {done.steps / 1e6:.1f} M transitions, {JUDGED} fresh worlds: {found}"
    return [
        Mark(
            name=f"go2, {kind.name}, seed {seed}: survival on rough ground", value=found.survival, op=">=", mark=kind.mark,
            reference=about,
        )
    ]  # fmt: skip
