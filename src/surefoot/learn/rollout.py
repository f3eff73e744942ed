"""What the worlds did for a few steps, as the learner stores it: arrays (steps, worlds, ...), allocated once."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from surefoot.learn.networks import Critic, Policy

if TYPE_CHECKING:
    from surefoot.tasks.world import Outcome


class Final(NamedTuple):
    """Critic inputs at time limits: states that are worth something although the episode stopped."""

    step: int | Tensor  # one for all, or (k,)
    worlds: Tensor  # (k,) ids
    inputs: Tensor  # (k, n)


class Rollout:
    """`steps` transitions of every world; row `steps` of inputs and `begins` belongs to the state after the last one.

    Attributes:
        actor, critic: raw inputs of the two networks, (steps + 1, worlds, n).
        action, mean: what was drawn and the mean it was drawn around, (steps, worlds, actions); with an integral part, what was done is
            the action and the part's sum.
        reward: (steps, worlds).
        terminated, truncated: the two kinds of end, (steps, worlds) bool.
        broken: transitions not to be learned from, (steps, worlds) bool: the world said so, or a number was not finite.
        begins: an episode begins with this state, (steps + 1, worlds) bool.
        blind: this observation was not finite and was set to 0 to act on, (steps + 1, worlds) bool.
        finals: critic inputs at time limits.
        actor_memory: the policy's memory before the first step, (worlds, memory), or None.
    """

    def __init__(self, steps: int, worlds: int, policy: Policy, critic: Critic):
        self.steps, self.worlds = steps, worlds
        self._policy, self._critic = policy, critic
        device = policy.net.weights.device
        self.actor = torch.zeros(steps + 1, worlds, policy.inputs, device=device)
        self.critic = torch.zeros(steps + 1, worlds, critic.inputs, device=device)
        self.action = torch.zeros(steps, worlds, policy.actions, device=device)
        self.mean = torch.zeros_like(self.action)
        self.reward = torch.zeros(steps, worlds, device=device)
        self.terminated, self.truncated, self.broken = torch.zeros(3, steps, worlds, dtype=torch.bool, device=device)
        self.begins, self.blind = torch.zeros(2, steps + 1, worlds, dtype=torch.bool, device=device)
        self.finals: list[Final] = []
        self.actor_memory: Tensor | None = None

    def begin(self, observations: Mapping[str, Tensor], begins: Tensor, memory: Tensor | None) -> None:
        """Start a new rollout at `observations`; `begins` (worlds,) says where an episode starts."""
        self.finals = []
        self.broken.zero_()
        self.actor_memory = None if memory is None else memory.clone()
        self.see(0, observations, begins)

    def see(self, t: int, observations: Mapping[str, Tensor], begins: Tensor) -> None:
        """Store what is observed before step t."""
        self.begins[t] = begins
        self.blind[t] = False
        for store, reader in ((self.actor[t], self._policy), (self.critic[t], self._critic)):
            store.copy_(reader.gather(observations))
            if not _all_finite(store):
                rows = ~torch.isfinite(store).all(1)
                store[rows] = 0.0
                self.blind[t] |= rows

    def record(self, t: int, action: Tensor, mean: Tensor, outcome: "Outcome") -> Tensor:
        """Store step t and what is observed after it; returns the worlds whose transition is broken, (worlds,) bool."""
        self.action[t], self.mean[t], self.reward[t] = action, mean, outcome.reward
        self.terminated[t], self.truncated[t] = outcome.terminated, outcome.truncated
        broken = self.broken[t]
        broken |= outcome.broken
        if not _all_finite(self.reward[t]):
            broken |= ~torch.isfinite(self.reward[t])
            self.reward[t].masked_fill_(broken, 0.0)
        if len(outcome.ended):
            self._keep_finals(t, outcome)
            begins = self.terminated[t] | self.truncated[t] | broken
        else:
            begins = broken
        self.see(t + 1, outcome.observations, begins)
        broken |= self.blind[t]
        broken |= self.blind[t + 1]
        self.begins[t + 1] |= broken
        return broken

    def _keep_finals(self, t: int, outcome: "Outcome") -> None:
        ids = torch.nonzero(self.truncated[t] & ~self.terminated[t] & ~self.broken[t])[:, 0]
        if not len(ids):
            return
        inputs = self._critic.gather({name: group[ids] for name, group in outcome.final.items()})
        finite = torch.isfinite(inputs).all(1)
        if not bool(finite.all()):
            self.broken[t, ids[~finite]] = True
            ids, inputs = ids[finite], inputs[finite]
        self.finals.append(Final(t, ids, inputs.clone()))


def _all_finite(x: Tensor) -> bool:
    """Whether every entry is finite; a sum is the cheapest test, and a false alarm only costs a second look."""
    return bool(torch.isfinite(x.sum()))
