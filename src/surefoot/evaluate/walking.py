"""Does it walk? Fresh worlds, the policy without exploration noise, sensor noise, delays and pushes on.

Walking means: at least 95 % survive 10 s; over the last 8 s the mean of |v_xy - command| is at most 0.15 m/s and that of
|yaw rate - command| at most 0.2 rad/s; every foot is on the ground for 0.3 .. 0.8 of the time.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.evaluate.judge import Act, Judged, host, judge
from surefoot.params import Prior
from surefoot.sim import Sim

SURVIVAL, SPEED_ERROR, TURN_ERROR, DUTY = 0.95, 0.15, 0.2, (0.3, 0.8)


MEASURES = {
    "turn": lambda s, command: np.abs(host(s.truth["gyro"])[:, 2] - command[:, 2]),
    "speed": lambda s, command: np.linalg.norm(host(s.truth["velocity"])[:, :2] - command[:, :2], axis=1),
    "power": lambda s, command: host((s.truth["torque"] * s.dq.float()).abs().sum(1)),
    "contact": lambda s, command: host(s.truth["contact"]),
}
"""What the criterion needs beside what every task is judged by."""


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

    @classmethod
    def of(cls, judged: Judged) -> "Walk":
        """The criterion's numbers from a judgement made with MEASURES; means are over all judged steps of all worlds."""
        return cls(
            worlds=judged.worlds,
            survival=float((~judged.fell).mean()),
            speed_error=float(judged.mean_of("speed")),
            turn_error=float(judged.mean_of("turn")),
            duty=tuple(float(d) for d in np.atleast_1d(judged.mean_of("contact"))),
            power=float(judged.mean_of("power")),
            survived=~judged.fell,
        )

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


def walking(task: Any, seconds: float = 10.0) -> Any:
    """The velocity task as the criterion judges it: every world is asked to move."""
    return replace(task, episode=seconds, standing=0.0)


def walk(
    task: Any,
    sim: Sim,
    act: Act,
    *,
    e: Prior | None = None,
    seed: int = 1_000_003,
    seconds: float = 10.0,
) -> Walk:
    """Run `act(observations, ended)` of a velocity task in every world of `sim` and judge it; the first 2 s do not count.

    Args:
        task: a surefoot.tasks.Velocity.
        sim: its worlds are used; they are reset.
        act: a policy without exploration noise, such as `policy.play()`.
        e: where the worlds' e is drawn from; None takes what the sim has.
        seed: of starts, commands, noise and e.
        seconds: length of the walk.
    """
    rows = None if e is None else e.sample(sim.worlds, seed)
    return Walk.of(judge(walking(task, seconds), sim, act, e=rows, seed=seed, measures=MEASURES))
