"""Teach a legged robot to walk: the task, the mirror and the settings that belong together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.learn.mirror import Map, Mirror
from surefoot.learn.networks import Policy
from surefoot.learn.ppo import PPO
from surefoot.learn.runs import Run
from surefoot.learn.train import train
from surefoot.params import Prior
from surefoot.sim import Sim
from surefoot.tasks import Velocity, World
from surefoot.tasks.symmetry import mirrored


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A velocity task and the settings it is learned with."""

    task: Velocity
    ppo: PPO = field(default_factory=PPO)
    worlds: int = 256
    steps: int = 4_000_000
    """Most transitions; a judge usually stops earlier."""


LESSONS = {
    "go2": Lesson(task=Velocity(), ppo=PPO(entropy=0.001, std=0.6)),
    "g1": Lesson(
        task=Velocity(
            forward=(0.0, 0.7), sideways=(0.0, 0.0), turning=(-0.5, 0.5), period=0.7, gait=(0.0, 0.5), swing=0.07
        ),
        ppo=PPO(hidden=(256, 128), critic_hidden=(256, 128)),
        steps=8_000_000,
    ),
}
"""By robot; commands are those the robot is judged by."""


def left_right(world: World) -> Mirror:
    """The mirror of a world's observations and actions."""
    groups, (index, sign) = mirrored(world.contract, world.sim)
    maps = {name: Map(index=i, sign=s) for name, (i, s) in groups.items()}
    return Mirror(groups=maps, action=Map(index=index, sign=sign))


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
) -> Run:
    """Train the lesson in `sim` with e drawn from `e` at every reset (None: the robot file's prior)."""
    world = World(lesson.task, sim, e=sim.params.prior() if e is None else e, seed=seed)
    return train(
        world, lesson.ppo, run=run, steps=lesson.steps, seed=seed, evaluate=evaluate, every=every, stop=stop, mirror=left_right(world),
        resume=resume, say=say, about={"robot": sim.robot.name, "task": "velocity", "contract": world.contract.hash},
    )  # fmt: skip
