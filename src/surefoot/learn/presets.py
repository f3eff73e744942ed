"""Settings for each small task on two cores.

preset = settings(task)
sim = Sim(preset.robot(load("qube")), worlds=preset.worlds)
run = train(World(preset.task(task), sim, e=sim.params.prior()), preset.ppo, run="runs/qube", steps=preset.steps)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from surefoot.errors import InputError, did_you_mean
from surefoot.learn.ppo import PPO
from surefoot.robots import Robot


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What to train a task with."""

    ppo: PPO
    worlds: int
    """Worlds stepped side by side."""
    steps: int
    """Transitions to train for; cartpole, qube, double pendulum, hover and hopper are known to pass within them."""
    control_dt: float | None = None
    """Control period [s] where the robot file's, made for recordings, is shorter than learning needs."""

    practice: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the task that differ in training, such as easier starts; judging uses the task as it stands."""

    def task(self, task: Any) -> Any:
        """The task to train on."""
        return replace(task, **self.practice)

    def robot(self, robot: Robot) -> Robot:
        """The robot at the preset's control period."""
        return robot if self.control_dt is None else replace(robot, control_dt=self.control_dt)


SMALL = PPO(
    horizon=32,
    epochs=4,
    minibatches=8,
    gamma=0.98,
    hidden=(64, 64),
    critic_hidden=(64, 64),
    activation="tanh",
    actor=("policy", "history"),
    entropy=0.003,
    kl=0.012,
    rate_bounds=(1e-4, 2e-3),
)
"""Common to the small tasks: many worlds, so that a step of all costs little besides physics, and small networks."""

QUICK = replace(SMALL, horizon=16, minibatches=4, kl=0.03, rate_bounds=(2e-4, 3e-3))
"""Short rollouts and bold updates, for tasks whose reward comes at once."""

PRESETS = {
    "cartpole": Preset(
        ppo=replace(SMALL, horizon=8, both_sides=False),
        worlds=1024,
        steps=1_000_000,
        control_dt=0.05,
        practice={"anywhere": 0.3},
    ),
    "qube": Preset(
        ppo=replace(QUICK, horizon=8, gamma=0.985, entropy=0.01),
        worlds=512,
        steps=1_500_000,
        control_dt=0.02,
        practice={"anywhere": 0.3},
    ),
    "double_pendulum": Preset(
        ppo=replace(QUICK, gamma=0.985), worlds=256, steps=2_000_000, control_dt=0.02, practice={"anywhere": 0.3}
    ),
    "crazyflie": Preset(
        ppo=replace(
            QUICK, horizon=8, epochs=8, minibatches=8, gamma=0.975, integral=0.05, both_sides=False, kl=0.06, beta2=0.97
        ),
        worlds=512,
        steps=1_000_000,
        control_dt=0.024,
        practice={"episode": 1.92, "settle": 1.0},
    ),
    "hopper": Preset(
        ppo=replace(SMALL, horizon=16, epochs=6, gamma=0.99, rate_bounds=(1e-4, 1e-3)), worlds=512, steps=2_500_000
    ),
    "so101": Preset(ppo=replace(QUICK, gamma=0.95), worlds=256, steps=1_000_000),
}
"""By robot."""


def settings(robot: str) -> Preset:
    """The preset for a robot's small task, by the robot's name."""
    if robot not in PRESETS:
        raise InputError(f"no preset for robot {robot!r} {did_you_mean(robot, PRESETS)}: give PPO(...) yourself")
    return PRESETS[robot]
