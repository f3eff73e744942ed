"""Settings that were found to learn each small task on two cores, and how its episodes are judged.

preset = settings(task)
sim = Sim(preset.robot(load("qube")), worlds=preset.worlds)
run = train(World(task, sim, e=sim.params.prior()), preset.ppo, run="runs/qube", steps=preset.steps)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from surefoot.errors import InputError, did_you_mean
from surefoot.learn.ppo import PPO
from surefoot.robots import Robot
from surefoot.tasks import World


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What to train a task with."""

    ppo: PPO
    worlds: int
    """Worlds stepped side by side."""
    steps: int
    """Transitions after which the task is learned, with a margin."""
    control_dt: float | None = None
    """Control period [s] where the robot file's, made for recordings, is too short to learn with."""

    def robot(self, robot: Robot) -> Robot:
        """The robot at the preset's control period."""
        return robot if self.control_dt is None else replace(robot, control_dt=self.control_dt)


SMALL = PPO(
    horizon=32,
    hidden=(64, 64),
    critic_hidden=(64, 64),
    activation="tanh",
    actor=("policy", "history"),
    entropy=0.003,
    rate_bounds=(3e-4, 2e-3),
    std=0.8,
)
"""Common to the small tasks."""

PRESETS = {
    "cartpole": Preset(ppo=replace(SMALL, gamma=0.99), worlds=128, steps=800_000),
    "qube": Preset(ppo=replace(SMALL, gamma=0.99), worlds=128, steps=2_000_000, control_dt=0.01),
    "double_pendulum": Preset(ppo=replace(SMALL, gamma=0.99), worlds=128, steps=2_000_000, control_dt=0.01),
    "crazyflie": Preset(ppo=SMALL, worlds=256, steps=1_500_000),
    "hopper": Preset(ppo=replace(SMALL, horizon=64), worlds=128, steps=2_500_000),
    "so101": Preset(ppo=SMALL, worlds=128, steps=1_500_000),
}
"""By robot."""


def settings(robot: str) -> Preset:
    """The preset for a robot's small task, by the robot's name."""
    if robot not in PRESETS:
        raise InputError(f"no preset for robot {robot!r} {did_you_mean(robot, PRESETS)}: give PPO(...) yourself")
    return PRESETS[robot]


def judge(world: World, act: Callable[[Mapping[str, Tensor], Tensor | None], Tensor]) -> dict[str, float]:
    """One whole episode in every world: `success` and `survival`, shares of worlds, and `score`, the mean return.

    Args:
        world: one of its own, not the one that is trained in; it is reset.
        act: a policy without exploration noise, such as `policy.play()`.
    """
    observations, ended = world.reset(spread=False), None
    going = torch.ones(world.worlds, dtype=torch.bool)
    success, survived, score = torch.zeros(world.worlds), torch.ones(world.worlds), torch.zeros(world.worlds)
    while bool(going.any()):
        outcome = world.step(act(observations, ended))
        observations, ended = outcome.observations, outcome.ended
        score += outcome.reward * going
        survived[outcome.terminated & going] = 0.0
        first = going[ended]
        success[ended[first]] = outcome.success[first].nan_to_num(0.0)
        going[ended] = False
    return {name: float(x.mean()) for name, x in (("success", success), ("survival", survived), ("score", score))}
