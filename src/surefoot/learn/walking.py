"""Teach a legged robot to walk: the task, the mirror and the settings that belong together."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from surefoot.errors import choose
from surefoot.learn.distributed import Alone
from surefoot.learn.mirror import mirror_of
from surefoot.learn.networks import Policy
from surefoot.learn.ppo import PPO
from surefoot.learn.runs import Run
from surefoot.learn.train import Schedule, train
from surefoot.params import CONSTRUCTORS, Params, Prior
from surefoot.robots import Robot, scanning
from surefoot.sim import Sim
from surefoot.tasks import Commands, Velocity, World
from surefoot.tasks.world import Redraws


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A velocity task and the settings it is learned with."""

    task: Velocity
    ppo: PPO = field(default_factory=PPO)
    worlds: int = 256
    steps: int = 4_000_000
    """Most transitions; a judge usually stops earlier."""
    randomize: str = "fixed"
    """How p(e) moves while it is learned, by the names of surefoot.randomize.schedule."""
    moves: Mapping[str, float] = field(default_factory=dict)
    """Settings of that schedule."""


LESSONS = {
    "go2": Lesson(
        task=Velocity(fall_cost=3.0),
        ppo=PPO(entropy=0.001, std=0.6, gamma=0.97, horizon=16, minibatches=8, both_sides=False),
        worlds=512,
    ),
    "g1": Lesson(
        task=Velocity(
            forward=(0.0, 0.7),
            sideways=(0.0, 0.0),
            turning=(-0.5, 0.5),
            period=0.4,
            gait=(0.0, 0.5),
            swing=0.07,
            stance=0.97,
            held=("shoulder", "elbow", "wrist"),
            effort=0.25,
            fall_cost=5.0,
            memory=3,
        ),
        ppo=PPO(gamma=0.98, std=0.6, horizon=16, minibatches=8, hidden=(256, 128), critic_hidden=(256, 128)),
        worlds=512,
        steps=8_000_000,
        randomize="widening",
        moves={"start": 0.2, "target": 0.5, "floor": 0.2},
    ),
}
"""By robot; commands are those the robot is judged by."""


GPU_WORLDS = 4096
GPU_LESSONS = {
    "go2": replace(LESSONS["go2"], worlds=GPU_WORLDS, steps=200_000_000),
    "g1": replace(
        LESSONS["g1"],
        task=replace(LESSONS["g1"].task, held=(), period=0.6, fall_cost=3.0, memory=1),
        ppo=replace(LESSONS["g1"].ppo, both_sides=False),
        worlds=GPU_WORLDS,
        steps=400_000_000,
    ),
}
"""The same on a GPU, where the humanoid moves all its joints; it steps slower and sees the present alone, as `bench gpu` measured it."""


def lesson_on(engine: str, robot: str) -> Lesson:
    """The walking lesson of a robot on an engine."""
    known = LESSONS if engine == "cpu" else GPU_LESSONS
    return known[choose(robot, known, "a robot with a walking lesson")]


@dataclass(frozen=True, kw_only=True)
class Rough:
    """What walking on uneven ground is learned with: the robot, what is unknown about it and its ground, and the lesson."""

    robot: Robot
    params: Params
    lesson: Lesson
    levels: tuple[str, ...] = ("step_height", "slope")
    """Params that a curriculum should make harder step by step: see surefoot.randomize.Levels."""


STEPS = tuple(0.01 * k for k in range(9))
"""Step heights of rough ground [m]."""
STEEPEST = math.radians(15.0)
"""Largest slope of rough ground [rad]."""


def rough(robot: Robot, *, scan: bool = False, lesson: Lesson | None = None) -> Rough:
    """Steps up to 8 cm and slopes up to 15° beside the robot's own unknowns, blind or with a height scan.

    A slope rises along the world's x axis; headings are drawn evenly, so that the robot meets it from all sides.

    Args:
        robot: one with a walking lesson, or any legged one when `lesson` is given.
        scan: give the robot a height scan, up to 80 ms old, and its policy the readings.
        lesson: on flat ground; None: the robot's own.
    """
    lesson = lesson or lesson_on("cpu", robot.name)
    params = dict(robot.params)
    if scan:
        others = tuple(sensor.name for sensor in robot.sensors)
        params = {n: p.replace(of=others) if p.kind == "sensor_delay" else p for n, p in params.items()}
        robot = scanning(robot)
        late = {"low": 0.02, "high": 0.08, "nominal": 0.04}
        params["scan_delay"] = CONSTRUCTORS["sensor_delay"](
            "height_scan", **late, source="one to four control steps of mapping; our estimate"
        )
    params["step_height"] = CONSTRUCTORS["step_height"](
        low=STEPS[0], high=STEPS[-1], nominal=0.0, choices=STEPS, extent=12.0, source="the steps it is judged on"
    )
    params["slope"] = CONSTRUCTORS["slope"](
        low=-STEEPEST, high=STEEPEST, nominal=0.0, source="the slopes it is judged on"
    )
    task = replace(lesson.task, swing=lesson.task.swing + 0.04, scan=scan, follow=0.5)
    ppo = replace(lesson.ppo, hidden=(256, 128), critic_hidden=(256, 128)) if scan else lesson.ppo
    return Rough(robot=robot, params=Params(**params), lesson=replace(lesson, task=task, ppo=ppo, steps=20_000_000))


def teach(
    sim: Sim,
    lesson: Lesson,
    *,
    run: str | Path,
    seed: int = 0,
    e: Prior | None = None,
    evaluate: Callable[[Policy], dict[str, float]] | None = None,
    every: int = 200_000,
    stop: Callable[[Any], bool] | None = None,
    resume: bool = True,
    say: Callable[[str], None] | None = None,
    randomize: Schedule | None = None,
    commands: Commands | None = None,
    redraw: Redraws | None = None,
    threads: int = 2,
    group: Alone | None = None,
) -> Run:
    """Train the lesson in `sim` with e drawn from `e` at every reset (None: the robot file's prior).

    `randomize` moves that prior, `commands` makes commands larger as they are followed, `redraw` changes some Params within
    an episode; see `train` for the rest. In a `group` every rank gives its own `sim`, with a seed of its own.
    """
    world = World(
        lesson.task, sim, e=sim.params.prior() if e is None else e, seed=(group or Alone()).seed(seed), commands=commands, redraw=redraw
    )  # fmt: skip
    about: dict[str, Any] = {"robot": sim.robot.name, "task": "velocity", "contract": world.contract.hash}
    about |= {"whole_prior": e is None or e == sim.params.prior(), "held": list(lesson.task.held)}
    if sim.engine.name != "cpu":
        about["engine"] = sim.engine.name
    if sim.built.terrain is not None:
        about |= {"ground": "rough", "scan": lesson.task.scan}
    return train(
        world, lesson.ppo, run=run, steps=lesson.steps, seed=seed, evaluate=evaluate, every=every, stop=stop, mirror=mirror_of(world),
        resume=resume, say=say, randomize=randomize, threads=threads, about=about, group=group,
    )  # fmt: skip
