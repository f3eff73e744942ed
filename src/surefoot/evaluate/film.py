"""A film of a policy in one world, so that somebody looks at it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from surefoot.robots import Robot
from surefoot.sim import Sim
from surefoot.sim.render import Camera, save_video


def film(
    task: Any,
    robot: Robot,
    act: Callable[..., Any],
    path: str | Path,
    *,
    seconds: float = 6.0,
    seed: int = 1,
    engine: str = "cpu",
) -> Path:
    """Run a policy in one world with an e from the robot's prior and film it, following the robot."""
    from surefoot.tasks import World

    sim = Sim(robot, worlds=1, seed=seed, engine=engine)
    world = World(replace(task, episode=seconds + 1.0), sim, e=sim.params.prior(), seed=seed)
    observations, ended, frames = world.reset(spread=False), None, []
    with Camera(sim, width=480, height=320) as camera:
        for step in range(round(seconds / sim.control_dt)):
            outcome = world.step(act(observations, ended))
            observations, ended = outcome.observations, outcome.ended
            if step % 2 == 0:
                frames.append(camera.frame(0, distance=2.2 * max(robot.height, 0.3) + 0.5))
    return save_video(path, frames, rate=0.5 / sim.control_dt)
