"""g: what no value of e can express, as a function with memory that Sim adds to its physics.

x' = f(x, u + du, e) + (dtau at the joints, dwrench at the base),   memory' = m(x, u, memory)
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Correction:
    """What a residual adds for one control step, each with a row per world; None adds nothing."""

    du: np.ndarray | None = None
    """Added to the command, (worlds, nu), in the command's unit."""
    dtau: np.ndarray | None = None
    """Torque at the joints, (worlds, joints) [N·m]."""
    dwrench: np.ndarray | None = None
    """Force and torque on the base in the world's frame, (worlds, 6) [N, N·m]."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a residual may look at: the true state in the robot's own order, and the command."""

    joint_pos: np.ndarray  # (worlds, joints) [rad]
    joint_vel: np.ndarray  # (worlds, joints) [rad/s]
    base: np.ndarray  # (worlds, 13): position, quaternion, velocity (world), angular velocity (body); empty when fixed
    u: np.ndarray  # (worlds, nu)


class Residual(Protocol):
    """A correction of the physics with memory; the memory is part of Sim's state and of its snapshots."""

    def start(self, worlds: int) -> dict[str, np.ndarray]:
        """Memory of worlds that have just been reset: arrays with a row per world."""
        ...

    def __call__(self, x: Situation, memory: dict[str, np.ndarray]) -> tuple[Correction, dict[str, np.ndarray]]:
        """Correction for the coming control step, and the memory after it."""
        ...


def memory_of(residual: Any, worlds: int) -> dict[str, np.ndarray]:
    """Fresh memory of a residual, or none."""
    return {} if residual is None else {k: np.array(v) for k, v in residual.start(worlds).items()}
