"""`surefoot bench learn-rough`: Go2 on steps to 8 cm and slopes to 15°, blind and with a height scan, learned by curricula.

A training ends when a glance at fresh worlds of full difficulty shows more than its mark, or at the most transitions of its engine; then
it is judged in others, always on the CPU engine. It is trained on the GPU where there is one. An interrupted training goes on where it
stopped.
"""

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from surefoot.bench.cases import folder, package_hash, work
from surefoot.bench.gpu import gpu_here
from surefoot.bench.table import Mark, Request, Result
from surefoot.errors import InputError
from surefoot.evaluate.rough import RoughWalk, rough_walk
from surefoot.learn.networks import Policy
from surefoot.learn.walking import lesson_on, rough, teach
from surefoot.randomize import Levels
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.tasks import Commands


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long a training on one engine lasts, and how it is looked at meanwhile."""

    steps: int
    """Most transitions."""
    every: int
    """Transitions between two glances."""
    glanced: int
    """Worlds of a glance."""


PACES = {
    "cpu": Pace(steps=15_000_000, every=1_000_000, glanced=128),
    "cuda": Pace(steps=60_000_000, every=4_000_000, glanced=512),
}
JUDGED = 512
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
    start, root, gpu = time.perf_counter(), folder() / f"rough-runs-{package_hash()[:16]}", _gpu()
    request.tell(f"trained on {gpu or 'the CPU'}, judged on the CPU")
    if request.fresh:
        shutil.rmtree(root, ignore_errors=True)
    cases = {
        f"{kind.name}, seed {seed}": lambda kind=kind, seed=seed: trained(
            kind, root / f"{kind.name} {seed}", seed, request, gpu
        )
        for kind in KINDS
        for seed in range(request.seeds or 1)
    }
    marks = work("learn-rough", cases, request)
    shutil.rmtree(root, ignore_errors=True)
    return Result(
        bench="learn-rough", marks=tuple(marks), seed=0, seconds=time.perf_counter() - start, quick=request.quick
    )


def _gpu() -> str | None:
    """Name of the GPU and versions of what drives it; None where there is none."""
    try:
        return gpu_here()
    except InputError:
        return None


def trained(kind: Kind, run: Path, seed: int, request: Request, gpu: str | None = None) -> list[Mark]:
    """One training, on the GPU of that name if there is one, and its judgement."""
    engine = "cpu" if gpu is None else "cuda"
    pace = PACES[engine]
    ground = rough(load("go2"), scan=kind.scan, lesson=lesson_on(engine, "go2"))
    lesson = replace(ground.lesson, steps=pace.every if request.quick else pace.steps)
    sim = Sim(ground.robot, ground.params, worlds=lesson.worlds, seed=seed, engine=engine)
    glanced = Sim(ground.robot, ground.params, worlds=pace.glanced, seed=999, engine=engine)
    seen: list[RoughWalk] = []

    def evaluate(policy: Policy) -> dict[str, float]:
        there = policy if engine == "cpu" else Policy.from_arrays(policy.to_arrays(), device=engine)
        seen.append(rough_walk(lesson.task, glanced, there.play()))
        request.tell(f"   {kind.name}, seed {seed}: {seen[-1]}")
        return {"survival": seen[-1].survival}

    done = teach(
        sim, lesson, run=run, seed=seed, evaluate=evaluate, every=pace.every, randomize=Levels(sim.params.prior(), names=ground.levels),
        commands=Commands(), stop=lambda _record: bool(seen) and seen[-1].survival >= kind.mark + ENOUGH, say=lambda _line: None,
    )  # fmt: skip
    judged = Sim(ground.robot, ground.params, worlds=JUDGED, seed=4242)
    found = rough_walk(lesson.task, judged, done.policy.play(), seed=77)
    seconds = float(done.history()[-1]["seconds"])
    about = f"seed {seed}, {done.steps / 1e6:.1f} M transitions in {seconds:.0f} s of training on {gpu or 'the CPU'}"
    return [
        Mark(
            name=f"go2, {kind.name}, seed {seed}: survival on rough ground", value=found.survival, op=">=", mark=kind.mark,
            reference=f"{about}; {JUDGED} fresh worlds on the CPU: {found}",
        )
    ]  # fmt: skip
