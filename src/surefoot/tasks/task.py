"""What every task has: a contract, starts, commands, rewards and ends. Plain functions of a Situation, in a visible order."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Contract
from surefoot.sim import Sim
from surefoot.tasks.symmetry import Maps


@dataclass(kw_only=True)
class Situation:
    """The true state of all worlds after a control step, as tensors over the engine's own memory, and what led to it."""

    sim: Sim
    q: Tensor  # (worlds, joints) [rad]
    dq: Tensor  # (worlds, joints) [rad/s]
    action: Tensor  # (worlds, actions) of this step, raw
    last_action: Tensor  # (worlds, actions) of the step before
    older_action: Tensor  # (worlds, actions) of the step before that
    command: Tensor  # (worlds, commands)
    time: Tensor  # (worlds,) [s] since the episode began
    memory: dict[str, Tensor] = field(default_factory=dict)
    """What the task itself remembers, a row per world; part of snapshots."""
    facts: dict[str, Tensor] = field(default_factory=dict)
    """What the task's `facts` found about the robot, once and for all."""
    truth: dict[str, Tensor] = field(default_factory=dict)
    """What the task's `truth` found, once a step."""
    views: dict[str, Tensor] = field(default_factory=dict)
    """Tensors over the engine's memory that were asked for already; see `live`."""

    def live(self, name: str) -> Tensor:
        """A tensor over the engine's own memory of a state ("qpos", "qvel") or a derived quantity, (worlds, ...)."""
        if name not in self.views:
            engine = self.sim.engine
            self.views[name] = over(getattr(engine, name) if name in ("qpos", "qvel") else engine.derived(name))
        return self.views[name]


class Task(Protocol):
    """What to do with a robot. A task is a frozen dataclass: its numbers are its fields."""

    @property
    def episode(self) -> float:
        """Length of an episode [s]."""
        ...

    @property
    def commands(self) -> tuple[str, ...]:
        """Names of what may be asked of the policy."""
        ...

    def contract(self, sim: Sim) -> Contract:
        """What the policy observes and what its action means."""
        ...

    def mirror(self, contract: Contract, sim: Sim) -> Maps | None:
        """How the world looks in a mirror, for learning from both sides; None where the task has no such symmetry."""
        ...

    def facts(self, sim: Sim) -> dict[str, Tensor]:
        """Constants of the robot that rewards and ends need: indices, poses, masks."""
        ...

    def truth(self, s: Situation) -> dict[str, Tensor]:
        """Quantities that rewards, ends and critic share, computed once a step."""
        ...

    def start(self, sim: Sim, ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Initial qpos (k, nq) and qvel (k, nv) of the worlds `ids`."""
        ...

    def draw_commands(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Fresh commands, (count, len(commands))."""
        ...

    def remember(self, sim: Sim) -> dict[str, Tensor]:
        """Fresh memory of all worlds."""
        ...

    def privileged(self, s: Situation) -> dict[str, Tensor]:
        """Channels for the critic alone, (worlds, k) by name."""
        ...

    def pass_time(self, s: Situation) -> None:
        """Bring the memory up to date with a step, before it is judged."""
        ...

    def rewards(self, s: Situation) -> dict[str, Tensor]:
        """Weighted reward terms of this step, (worlds,) by name; their sum is the reward before `total`."""
        ...

    def total(self, terms: dict[str, Tensor], fallen: Tensor) -> Tensor:
        """The reward from its terms, (worlds,)."""
        ...

    def fallen(self, s: Situation) -> Tensor:
        """Worlds whose episode ends for real, (worlds,) bool."""
        ...

    def left(self, s: Situation) -> Tensor | None:
        """Worlds whose episode ends as by a time limit because their ground does, (worlds,) bool; None where it has no edge."""
        ...

    def success(self, s: Situation, fallen: Tensor) -> Tensor:
        """1.0 where the episode, ending now, counts as success, else 0.0; (worlds,)."""
        ...


def over(array: Any) -> Tensor:
    """A tensor over the same memory, also of arrays that only the engine may write; a tensor is itself."""
    if isinstance(array, Tensor):
        return array
    if not array.flags.writeable:
        array = array.view()
        interface: dict[str, Any] = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        array = np.asarray(type("_Shared", (), {"__array_interface__": interface, "owner": array})())
    return torch.from_numpy(array)
