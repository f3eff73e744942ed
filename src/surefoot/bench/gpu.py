"""`surefoot bench gpu`: speed, agreement and learning of the CUDA engine, on one GPU.

Speed: Go2 and G1 on flat ground with all their default Params, delays and noise, random actions; 5 ms time step, four substeps a control
step, the robot's few collision shapes, at most 10 solver iterations of 20 line-search steps, for bare MuJoCo Warp alike. mjlab's figures
were measured on a GPU of the same kind with its own models of Go1 and G1.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from surefoot.bench.cases import work
from surefoot.bench.gpu_parity import parity
from surefoot.bench.table import Mark, Request, Result
from surefoot.errors import InputError
from surefoot.evaluate import judge, walk
from surefoot.evaluate.intervals import wilson
from surefoot.evaluate.walking import MEASURES, Walk, walking
from surefoot.learn.networks import Policy
from surefoot.learn.walking import GPU_LESSONS, teach
from surefoot.randomize import schedule
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.tasks import World

ENGINE = "cuda"
MJLAB = {
    ("go2", 4096): (154e3, 107e3), ("go2", 16384): (324e3, 273e3), ("g1", 4096): (124e3, 99e3), ("g1", 16384): (279e3, 253e3),
}  # fmt: skip
"""mjlab 1.6.0 on an H200 [1/s]: worlds (Go1 or G1, flat velocity task, random actions), and with 24-step PPO."""
TIMES = {("go2", 4096): 3.0, ("go2", 16384): 2.5, ("g1", 4096): 2.5, ("g1", 16384): 2.5}
GOALS = {("go2", 4096): (1.0e6, 0.6e6), ("go2", 16384): (1.8e6, 1.0e6)}
HORIZON = 24
JUDGED = 512
SEEDS = 3


def measure(request: Request) -> Result:
    """All cases; needs a GPU."""
    gpu = gpu_here()
    start = time.perf_counter()
    request.tell(f"on {gpu}")
    shapes = [("go2", 4096)] if request.quick else list(MJLAB)
    cases: dict[str, Callable[[], list[Mark]]] = {
        f"speed of {robot}, {worlds} worlds": lambda robot=robot, worlds=worlds: speed(robot, worlds, gpu)
        for robot, worlds in shapes
    }
    cases["agreement with the CPU engine"] = lambda: parity(load("go2"), ENGINE)
    for seed in range(1 if request.quick else request.seeds or SEEDS):
        cases[f"Go2 walks, seed {seed}"] = lambda seed=seed: walks("go2", seed, request)
    if not request.quick:
        cases["G1 walks"] = lambda: walks("g1", 0, request)
    marks = work("gpu", cases, request)
    return Result(bench="gpu", marks=tuple(marks), seed=0, seconds=time.perf_counter() - start, quick=request.quick)


def gpu_here() -> str:
    """Name of the GPU and versions of what drives it; an InputError where there is none."""
    try:
        from surefoot.sim.cuda import driven_by
    except ImportError as error:
        raise InputError(
            f"this bench needs torch and MuJoCo Warp, and '{error.name}' is missing: pip install 'surefoot[learn,gpu]'"
        ) from None
    return driven_by()


def speed(robot: str, worlds: int, gpu: str) -> list[Mark]:
    """Rates of one robot and number of worlds, medians of five."""
    from surefoot.learn.device_speed import measured

    lesson = GPU_LESSONS[robot]
    sim = Sim(load(robot), worlds=worlds, engine=ENGINE)
    world = World(lesson.task, sim, e=sim.params.prior())
    ppo = replace(lesson.ppo, horizon=HORIZON)
    found = measured(world, ppo)
    bare, env, learning = (float(np.median(x)) for x in (found.bare, found.worlds, found.learning))
    theirs, goals, times = MJLAB[robot, worlds], GOALS.get((robot, worlds), (None, None)), TIMES[robot, worlds]
    where = f"{robot}, {worlds} worlds"
    nets = f"{HORIZON} steps, {ppo.epochs} x {ppo.minibatches} minibatches, nets {ppo.hidden}, {len(sim.params)} Params"

    def spread(values: tuple[float, ...]) -> str:
        return f"median of {len(values)}, {min(values):.3g}..{max(values):.3g}"

    return [
        Mark(name=f"{where}: bare MuJoCo Warp", value=bare, unit="steps/s", reference=f"{gpu}; {spread(found.bare)}"),
        Mark(
            name=f"{where}: worlds", value=env, unit="steps/s", op=">=", mark=times * theirs[0], goal=goals[0],
            reference=f"all default Params, delays, noise; {times:g} x mjlab's {theirs[0]:.3g}; {spread(found.worlds)}",
        ),
        Mark(name=f"{where}: worlds / bare", value=env / bare, op=">=", mark=0.75, reference="mjlab keeps 0.29 and 0.39"),
        Mark(
            name=f"{where}: with PPO", value=learning, unit="steps/s", op=">=", mark=times * theirs[1], goal=goals[1],
            reference=f"{nets}; {times:g} x mjlab's {theirs[1]:.3g}; {spread(found.learning)}",
        ),
        Mark(
            name=f"{where}: until the first step", value=found.compile_seconds, unit="s",
            reference="kernels compiled, or loaded where an earlier run compiled them",
        ),
    ]  # fmt: skip


def walks(robot: str, seed: int, request: Request) -> list[Mark]:
    """Train until it walks; the time of judging is not counted, that of compiling neither."""
    lesson, loaded = GPU_LESSONS[robot], load(robot)
    sim = Sim(loaded, worlds=lesson.worlds, engine=ENGINE, seed=seed)
    judged = Sim(loaded, worlds=JUDGED, engine=ENGINE, seed=999)
    judged.step(judged.press.rest_command)  # type: ignore[attr-defined]
    seen: list[Walk] = []

    def passes(w: Walk) -> bool:
        return w.walks if robot == "go2" else w.survival >= 0.95 and w.speed_error <= 0.2

    def evaluate(policy: Policy) -> dict[str, float]:
        there = Policy.from_arrays(policy.to_arrays(), device=ENGINE)
        seen.append(walk(lesson.task, judged, there.play(), e=judged.params.prior()))
        request.tell(f"   {robot}, seed {seed}: {seen[-1]}")
        return {"survival": seen[-1].survival}

    moves = schedule(lesson.randomize, sim.params.prior(), worlds=lesson.worlds, **lesson.moves)
    limit = 40.0 if robot == "go2" else 480.0
    last: dict[str, float] = {}

    def stop(record) -> bool:
        last.update(seconds=record["seconds"], steps=record["steps"])
        return (bool(seen) and passes(seen[-1])) or record["seconds"] > limit

    with TemporaryDirectory() as folder:
        run = teach(
            sim, lesson, run=Path(folder) / "run", seed=seed, e=moves.prior, randomize=moves, evaluate=evaluate,
            every=lesson.worlds * (256 if robot == "go2" else 1024), stop=stop, resume=False, say=lambda _line: None,
        )  # fmt: skip
    name = f"{robot}, seed {seed}"
    done = passes(seen[-1])
    marks = [
        Mark(
            name=f"{name}: seconds until it walks", value=last["seconds"] if done else None, unit="s", op="<=", mark=limit,
            goal=20.0 if robot == "go2" else None,
            reference=f"{last['steps'] / 1e6:.1f} M transitions, {lesson.worlds} worlds; judged: {seen[-1]}",
        )
    ]  # fmt: skip
    return marks + (same_score(lesson.task, loaded, run.policy, name) if robot == "go2" else [])


def same_score(task, robot, policy: Policy, name: str, worlds: int = 2048, engine: str = ENGINE) -> list[Mark]:
    """Survival of one policy on the device and on the CPU, in as many worlds of the same e, starts and commands."""
    found = {}
    for which in (engine, "cpu"):
        sim = Sim(robot, worlds=worlds, engine=which, seed=4242)
        there = Policy.from_arrays(policy.to_arrays(), device="cpu" if which in ("cpu", "warp") else which)
        rows = sim.params.prior().sample(worlds, 77)
        found[which] = Walk.of(judge(walking(task), sim, there.play(), e=rows, seed=77, measures=MEASURES))
    here, there = found[engine].survived, found["cpu"].survived
    difference = float(here.mean() - there.mean())
    ranges = [wilson(int(x.sum()), worlds) for x in (here, there)]
    return [
        Mark(
            name=f"{name}: distance of the 90 % intervals of survival, device and CPU",
            value=max(0.0, max(ranges[0][0], ranges[1][0]) - min(ranges[0][1], ranges[1][1])), op="<=", mark=0.0,
            reference=(
                f"{worlds} worlds each: {100 * here.mean():.2f} % and {100 * there.mean():.2f} % (difference {100 * difference:+.2f}); "
                f"speed error {found[engine].speed_error:.3f} and {found['cpu'].speed_error:.3f} m/s"
            ),
        )
    ]  # fmt: skip
