"""Does it walk? Fresh worlds, the policy without exploration noise, sensor noise, delays and pushes on.

Walking means: at least 95 % survive 10 s; over the last 8 s the mean of |v_xy - command| is at most 0.15 m/s and that of
|yaw rate - command| at most 0.2 rad/s; every foot is on the ground for 0.3 .. 0.8 of the time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.params import Prior
from surefoot.sim import Sim

SURVIVAL, SPEED_ERROR, TURN_ERROR, DUTY = 0.95, 0.15, 0.2, (0.3, 0.8)


@dataclass(frozen=True, kw_only=True)
class Walk:
    """How many worlds walked, and how well."""

    worlds: int
    survival: float
    """Share of worlds that did not fall."""
    speed_error: float
    """Mean |v_xy - command| over the judged time of the worlds that stood [m/s]."""
    turn_error: float
    """Mean |yaw rate - command| [rad/s]."""
    duty: tuple[float, ...]
    """Share of time each foot was on the ground, in worlds asked to move."""
    power: float
    """Mean mechanical power of the motors, Σ |τ dq| [W]."""
    survived: np.ndarray
    """(worlds,) bool."""

    @property
    def walks(self) -> bool:
        """Whether every part of the criterion holds."""
        feet = all(DUTY[0] <= d <= DUTY[1] for d in self.duty)
        return self.survival >= SURVIVAL and self.speed_error <= SPEED_ERROR and self.turn_error <= TURN_ERROR and feet

    def __str__(self) -> str:
        feet = ", ".join(f"{d:.2f}" for d in self.duty)
        return (
            f"survival {100 * self.survival:.1f} %, speed error {self.speed_error:.3f} m/s, turn error {self.turn_error:.3f} rad/s, "
            f"duty {feet}, {self.power:.0f} W: {'walks' if self.walks else 'does not walk'}"
        )


def walk(
    task: Any,
    sim: Sim,
    act: Callable[[Mapping[str, Any], Any], Any],
    *,
    e: Prior | None = None,
    seed: int = 1_000_003,
    seconds: float = 10.0,
    settle: float = 2.0,
) -> Walk:
    """Run `act(observations, ended)` of a velocity task in every world of `sim` and judge it.

    Args:
        task: a surefoot.tasks.Velocity.
        sim: its worlds are used; they are reset.
        act: a policy without exploration noise, such as `policy.play()`.
        e: where the worlds' e is drawn from; None takes what the sim has.
        seed: of starts, commands and e.
        seconds: length of the walk.
        settle: time at the start that is not judged [s].
    """
    from surefoot.tasks import World

    world = World(replace(task, episode=seconds + 1.0, standing=0.0), sim, e=e, seed=seed)
    observations, ended = world.reset(spread=False), None
    steps, first = round(seconds / sim.control_dt), round(settle / sim.control_dt)
    alive = np.ones(sim.worlds, dtype=bool)
    sums = {"speed": 0.0, "turn": 0.0, "power": 0.0, "count": 0.0}
    contact = np.zeros(len(sim.robot.feet))
    for step in range(steps):
        outcome = world.step(act(observations, ended))
        observations, ended = outcome.observations, outcome.ended
        alive &= ~(outcome.terminated | outcome.broken).numpy()
        s = world.situation
        assert s is not None
        if step >= first:
            t, command = {name: value.numpy()[alive] for name, value in s.truth.items()}, world.command.numpy()[alive]
            sums["speed"] += float(np.linalg.norm(t["velocity"][:, :2] - command[:, :2], axis=1).sum())
            sums["turn"] += float(np.abs(t["gyro"][:, 2] - command[:, 2]).sum())
            sums["power"] += float(t["power"].sum())
            sums["count"] += float(alive.sum())
            contact += t["contact"].sum(0)
    count = max(sums["count"], 1.0)
    return Walk(
        worlds=sim.worlds,
        survival=float(alive.mean()),
        speed_error=sums["speed"] / count,
        turn_error=sums["turn"] / count,
        duty=tuple(float(c) for c in contact / count),
        power=sums["power"] / count,
        survived=alive,
    )
