"""Rollouts on the device: the policy acts, worlds step and the rollout is stored without a word from the host.

A step is three recorded pieces (surefoot.sim.cuda_pieces): observe, act and command; physics; rewards, ends and new episodes. The
step's number is a counter on the device. Once a rollout the host learns which episodes ended.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.learn.episodes import Ended
from surefoot.learn.networks import Critic, Policy
from surefoot.learn.rollout import Final, Rollout
from surefoot.sim.cuda_pieces import Piece

REFILL, SOON = 32, 4
"""Rollouts after which the episodes in the pool are drawn anew, and where the prior has moved since."""


@contextmanager
def quick_products() -> Iterator[None]:
    """Let products of single-precision matrices use the GPU's fast units, which round to 10 bits; nothing on a CPU."""
    flags = torch.backends.cuda.matmul
    before = flags.allow_tf32
    flags.allow_tf32 = True
    try:
        yield
    finally:
        flags.allow_tf32 = before


class DeviceRollouts:
    """Fills `rollout` from a surefoot.tasks.DeviceWorld. Memory: score and length of the running episodes."""

    def __init__(self, world: Any, policy: Policy, critic: Critic, rollout: Rollout):
        self.world, self.policy, self.critic, self.rollout = world, policy, critic, rollout
        device, (steps, worlds) = world.device, (rollout.steps, rollout.worlds)
        self.t = torch.zeros(1, dtype=torch.int64, device=device)
        self.h = policy.start(worlds)
        self.begins = torch.ones(worlds, dtype=torch.bool, device=device)
        self.score, self.length = torch.zeros(2, worlds, device=device)
        self.ended_score, self.ended_length, self.success = torch.zeros(3, steps, worlds, device=device)
        self.e = torch.zeros(steps, *world.last_e.shape, device=device)
        self.final = torch.zeros(steps, worlds, critic.inputs, device=device)
        self.noise = torch.zeros(worlds, policy.actions, device=device)
        self._act, self._close = Piece(self._see_and_act, device), Piece(self._record, device)
        self._since = 0

    def _store(self, where: Tensor, value: Tensor) -> None:
        where.index_copy_(0, self.t, value[None])

    def _see(self) -> Tensor:
        """Store what is observed before step t; returns the policy's inputs."""
        seen, rollout = self.world.observations, self.rollout
        inputs = []
        for store, reader in ((rollout.actor, self.policy), (rollout.critic, self.critic)):
            x = reader.gather(seen)
            x = torch.where(torch.isfinite(x), x, 0.0)
            self._store(store, x)
            inputs.append(x)
        self._store(rollout.begins, self.begins)
        return inputs[0]

    def _see_and_act(self) -> None:
        x, policy, rollout = self._see(), self.policy, self.rollout
        if self.h is not None:
            self.h.mul_(~self.begins[:, None])
        with quick_products():
            mean, h = policy.mean(x, self.h)
        lead = policy.lead(self.h)
        self.noise.copy_(self.world.sim.noise.normal("user", 0, policy.actions))
        a = torch.addcmul(mean, self.noise, policy.log_std.exp())
        self._store(rollout.action, a)
        self._store(rollout.mean, mean)
        self.world.a.copy_(a if lead is None else a + lead)
        if h is not None and self.h is not None:
            self.h.copy_(h)
        self.world.before()

    def _record(self) -> None:
        w, rollout = self.world, self.rollout
        w.after()
        for store, value in (
            (rollout.reward, w.reward), (rollout.terminated, w.terminated), (rollout.truncated, w.truncated),
            (rollout.broken, w.broken), (self.success, w.success), (self.e, w.last_e),
        ):  # fmt: skip
            self._store(store, value)
        self._store(self.final, self.critic.gather(w.final))
        self.score += w.reward
        self.length += 1
        self._store(self.ended_score, self.score)
        self._store(self.ended_length, self.length)
        self.score.mul_(~w.over)
        self.length.mul_(~w.over)
        self.begins.copy_(w.over)
        self.t += 1

    @torch.no_grad()
    def fill(self) -> tuple[Ended, int]:
        """`steps` steps of every world into the rollout; the episodes that ended, and the number of worlds that broke."""
        rollout, w = self.rollout, self.world
        self._since += 1
        if w.prior is not None and self._since > (SOON if w.stale else REFILL):
            w.refill()
            self._since = 0
        self.t.zero_()
        rollout.actor_memory = None if self.h is None else self.h.clone()
        rollout.blind.zero_()
        for _ in range(rollout.steps):
            self._act()
            w.sim.run_physics()
            self._close()
        self._see()
        return self._account()

    def _account(self) -> tuple[Ended, int]:
        rollout = self.rollout
        over = rollout.terminated | rollout.truncated
        finite = torch.isfinite(self.final).all(-1)
        late = torch.nonzero(rollout.truncated & ~rollout.terminated & ~rollout.broken & finite)
        rollout.finals = [Final(late[:, 0], late[:, 1], self.final[late[:, 0], late[:, 1]])] if len(late) else []
        ended = torch.nonzero(over & ~rollout.broken)
        at = (ended[:, 0], ended[:, 1])
        columns = [self.ended_score[at], self.ended_length[at], self.success[at]]
        rows = torch.stack(columns, 1).double().cpu().numpy()
        e = self.world.e_of(self.e[at].cpu().numpy())
        found = Ended(
            world=ended[:, 1].cpu().numpy(), score=rows[:, 0], length=rows[:, 1], success=rows[:, 2], e=e,
        )  # fmt: skip
        if self.world.commands is not None:
            self.world.commands.record(found.success)
        return found, int(rollout.broken.sum())

    def terms(self) -> dict[str, Tensor]:
        """Mean of each reward term per step since the last call."""
        found = {name: value / max(self.rollout.steps, 1) for name, value in self.world.terms.items()}
        for value in self.world.terms.values():
            value.zero_()
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        """Its memory, for checkpoints."""
        own = {"score": self.score, "length": self.length, "begins": self.begins}
        own |= {} if self.h is None else {"memory": self.h}
        return {name: value.cpu().numpy().copy() for name, value in own.items()}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from `arrays`."""
        self.score.copy_(torch.from_numpy(arrays["score"]))
        self.length.copy_(torch.from_numpy(arrays["length"]))
        self.begins.copy_(torch.from_numpy(arrays["begins"]))
        if self.h is not None:
            self.h.copy_(torch.from_numpy(arrays["memory"]))
