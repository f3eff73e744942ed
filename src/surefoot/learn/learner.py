"""Proximal policy optimisation: what is learned from one rollout.

    A, R from the rollout (gae.py), A normalised over all of it, then `epochs` × `minibatches` steps of Adam on

    L_π = mean w max(−A ρ, −A clip(ρ, 1 ± ε)) − c H        L_V = mean max((v − R)², (v_clipped − R)²)

Before each step the learning rate follows the KL. Policy and critic share nothing but that rate, so their updates run
side by side in two threads, then in two processes (sidecar.py): on two cores this beats splitting every small operation in two.

With a `group` (distributed.py) the rollouts of all ranks are learned from as if they were one.
"""

import hashlib
import json
import math
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError, choose
from surefoot.learn.adam import Adam, Rate
from surefoot.learn.distributed import Alone, Group, RowMean
from surefoot.learn.gae import advantages, next_values
from surefoot.learn.minibatches import CriticSteps, PolicySteps, Report, Steps, draw, side_by_side
from surefoot.learn.mirror import Map, Mirror
from surefoot.learn.networks import Critic, Policy, part
from surefoot.learn.overview import Moments, Overview, gather_moments, own_overview, shared_overview
from surefoot.learn.ppo import PPO
from surefoot.learn.rollout import Rollout
from surefoot.learn.sidecar import AFTER, Sidecar, can_fork

if TYPE_CHECKING:
    from surefoot.learn.device_update import DeviceUpdate

MEANS = ("policy_loss", "value_loss", "kl", "clipped", "policy_gradient", "value_gradient")
OWN = ("shuffle", "noise", "critic_memory")
"""Entries of a snapshot that differ from rank to rank; all others are equal bit for bit."""


@dataclass
class Update:
    """What one update did: means over its minibatches, and one sentence for each minibatch that was refused."""

    numbers: dict[str, float]
    refused: list[str] = field(default_factory=list)


class Learner:
    """Policy, critic, optimisers and random numbers of one training; `update` learns from a rollout.

    In a `group`, `update` and `learn_statistics` are called by every rank, each with its own rollout.
    """

    def __init__(
        self,
        ppo: PPO,
        widths: Mapping[str, int],
        actions: int,
        *,
        seed: int,
        mirror: Mirror | None = None,
        device: torch.device | str = "cpu",
        group: Group | Alone | None = None,
    ):
        self.ppo, self.device = ppo, torch.device(device)
        self.group = group if isinstance(group, Group) else None
        sees = ppo.critic or (("critic",) if "critic" in widths else ppo.actor)
        for name in (*ppo.actor, *sees):
            choose(name, widths, "an observation group of this world")
        draw = torch.Generator().manual_seed(seed)
        self.policy = Policy(
            {name: widths[name] for name in ppo.actor}, actions, hidden=ppo.hidden, activation=ppo.activation,
            memory=ppo.memory, integral=ppo.integral, std=ppo.std, std_bounds=ppo.std_bounds, generator=draw, device=device,
        )  # fmt: skip
        self.critic = Critic(
            {name: widths[name] for name in sees}, hidden=ppo.critic_hidden or ppo.hidden, activation=ppo.activation,
            memory=ppo.critic_memory, generator=draw, device=device,
        )  # fmt: skip
        own = seed if group is None else group.seed(seed)
        self.shuffle = torch.Generator().manual_seed(own + 1)
        self.noise = torch.Generator(device=device).manual_seed(own + 2)
        self.actor_adam, self.critic_adam = (
            Adam(net.weights, net.grads, longest=ppo.gradient, beta2=ppo.beta2)
            for net in (self.policy.net, self.critic.net)
        )
        self.rate = Rate(ppo.rate, target=ppo.kl, floor=ppo.rate_bounds[0], ceiling=ppo.rate_bounds[1])
        self.critic_memory: Tensor | None = None
        """The critic's memory before the next rollout's first state, (worlds, memory)."""
        self._recorded: DeviceUpdate | None = None
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="critic")
        self._sidecar: Sidecar | None = None
        self._busy = 0.0
        """Seconds of updates so far."""
        if mirror is not None and (ppo.memory or ppo.critic_memory):
            raise InputError("left-right symmetry is for networks without memory: set memory and critic_memory to 0")
        self._map_actor = mirror and mirror.over(ppo.actor)
        self._map_critic = mirror and mirror.over(sees)
        self._map_action = mirror and mirror.action
        self._means: tuple[RowMean | None, RowMean | None] = (None, None)
        if self.group is not None:
            self._meet(self.group, {"ppo": ppo.to_dict(), "widths": dict(widths), "actions": actions, "seed": seed})

    def _meet(self, group: Group, settings: Mapping[str, object]) -> None:
        """Begin with the weights of rank 0, once all ranks are known to learn the same thing."""
        mine = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).digest()
        if len(set(group.gather_bytes(mine))) > 1:
            raise InputError(
                f"the {group.size} ranks were given different settings, seeds or worlds: give all the same"
            )
        for net in (self.policy.net, self.critic.net):
            group.broadcast(net.weights)
        self._means = RowMean(group, self.policy.net.grads, 3), RowMean(group, self.critic.net.grads, 1)

    # ---------------------------------------------------------------- values

    @torch.no_grad()
    def values(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """V(s_t) and V(s_{t+1}), (steps, worlds); at time limits the latter is that of the final observation."""
        if self.critic.memory:
            return self._recurrent_values(rollout)
        value = self.critic.values(rollout.critic)
        ahead = next_values(value[:-1], value[-1])
        for step, ids, inputs in rollout.finals:
            ahead[step, ids] = self.critic.values(inputs)
        return value[:-1], ahead

    def _recurrent_values(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """As `values`, and the memory moves on to the rollout's end."""
        net, unit, see = self.critic.net, self.critic.unit, self.critic.normaliser
        if self.critic_memory is None:
            self.critic_memory = net.start(rollout.worlds)
        v, memories = net.unroll(see(rollout.critic), self.critic_memory, rollout.begins)
        value = v[..., 0] * unit.std + unit.mean
        ahead = next_values(value[:-1], value[-1])
        for step, ids, inputs in rollout.finals:
            worth = net.read(net.remember(see(inputs), memories[step, ids]))[:, 0]
            ahead[step, ids] = worth * unit.std + unit.mean
        self.critic_memory = memories[-2]
        return value[:-1], ahead

    # ---------------------------------------------------------------- update

    @torch.no_grad()
    def update(self, rollout: Rollout, *, weights: Tensor | None = None, threads: int = 2) -> Update:
        """Learn from a rollout.

        Args:
            rollout: what the worlds did.
            weights: emphasis on transitions in the policy's loss, (steps, worlds) or (worlds,), not negative; scaled to
                mean 1. The critic stays unweighted: it must tell the truth in every world.
            threads: CPU threads; the bits are the same for 1 and 2.
        """
        before, began = torch.get_num_threads(), time.perf_counter()
        torch.set_num_threads(max(1, threads // 2))
        try:
            return self._update(rollout, weights, aside=threads > 1 and self.device.type == "cpu")
        finally:
            torch.set_num_threads(before)
            self._busy += time.perf_counter() - began

    def _update(self, rollout: Rollout, weights: Tensor | None, *, aside: bool) -> Update:
        ppo, keep, unit, h = self.ppo, ~rollout.broken, self.critic.unit, self.critic_memory
        value, ahead = self.values(rollout)
        A = advantages(
            rollout.reward, value, ahead, terminated=rollout.terminated, truncated=rollout.truncated,
            broken=rollout.broken, gamma=ppo.gamma, lam=ppo.lam,
        )  # fmt: skip
        R = A + value
        lost = keep & ~torch.isfinite(R)
        rollout.broken |= lost
        keep &= ~lost
        seen = self._overview(A, R, value, keep, lost, weights)
        refused = [f"{seen.lost} transitions: their returns are not finite"] if seen.lost else []
        if seen.most < ppo.minibatches:
            return Update({}, [*refused, f"whole update: only {seen.sound} transitions of the rollout are sound"])
        self.critic.rescale_to(*seen.returns)
        target, old = (R - unit.mean) / unit.std, (value - unit.mean) / unit.std
        A = torch.where(keep, (A - seen.mean) / (seen.std + 1e-8), 0.0)
        if weights is not None or seen.weight != 1.0:
            A = A * ((1.0 if weights is None else weights.to(A).expand_as(A)) / seen.weight)
        done = self._steps(rollout, A, target, old, h, aside)
        self.learn_statistics(rollout)
        numbers = {"explained": seen.explained} | {name: _mean(done, name) for name in MEANS}
        numbers |= {"rate": self.rate.value, "std": float(self.policy.std.mean()), "value_unit": unit.std}
        return Update(numbers, refused + [str(step["refused"]) for step in done if "refused" in step])

    def _steps(
        self, rollout: Rollout, A: Tensor, target: Tensor, old: Tensor, h: Tensor | None, aside: bool
    ) -> list[Report]:
        """All steps of Adam of an update."""
        if self.device.type == "cuda" and self.group is None and not (self.policy.memory or self.critic.memory):
            from surefoot.learn.device_update import DeviceUpdate

            if self._recorded is None or self._recorded.rollout is not rollout:
                self._recorded = DeviceUpdate(self, rollout)
            return self._recorded(A, target, old)
        policy, thread = self._policy_steps(rollout, A), self._aside if aside else None
        steps = CriticSteps(self.ppo, self.critic, self.critic_adam, self._means[1])
        if self.critic.memory:
            h = self.critic.net.start(rollout.worlds) if h is None else h
            return side_by_side(policy, steps.sequences(rollout, target, old, h, self.shuffle), aside=thread)
        keep, mirrored = ~rollout.broken, self._map_critic
        turns = mirrored is not None and not self.ppo.both_sides
        drawn = draw(self.ppo, int(keep.sum()), self.shuffle, turns=turns)
        data = (rollout.critic[:-1], keep, target, old)
        critic = steps.rows(*data, mirrored, drawn)
        sidecar = self._process(rollout) if aside else None
        return (
            side_by_side(policy, critic, aside=thread) if sidecar is None else sidecar.run(policy, critic, data, drawn)
        )

    def _process(self, rollout: Rollout) -> Sidecar | None:
        """The critic's process, once it is worth its start and where there can be one; a lost one is not replaced."""
        if self._sidecar is None and self._busy > AFTER and can_fork() and self.group is None:
            size = {"steps": rollout.steps, "worlds": rollout.worlds}
            try:
                self._sidecar = Sidecar(self.ppo, self.critic, self.critic_adam, self._map_critic, **size)
            except OSError:
                self._busy = -math.inf  # Never asked for again.
        ready = self._sidecar is not None and not self._sidecar.lost and self._sidecar.fits(rollout)
        return self._sidecar if ready else None

    def _overview(
        self, A: Tensor, R: Tensor, value: Tensor, keep: Tensor, lost: Tensor, weights: Tensor | None
    ) -> Overview:
        """What the rollout says as a whole, over all ranks."""
        if weights is not None:
            weights = weights.to(A).expand_as(A)
        if self.group is None:
            return own_overview(A, R, value, keep, lost, weights, least=self.ppo.minibatches)
        weighed = self.policy.net.weights, self.critic.net.weights
        return shared_overview(self.group, A, R, value, keep, lost, weights, equal=weighed)

    def _policy_steps(self, rollout: Rollout, A: Tensor) -> Steps:
        steps = PolicySteps(self.ppo, self.policy, self.actor_adam, self.rate, self._means[0])
        if self.policy.memory:
            return steps.sequences(rollout, A, self.shuffle)
        maps = (self._map_actor, self._map_action) if self._map_actor and self._map_action else None
        return steps.rows(rollout, A, maps, self.shuffle)

    def learn_statistics(self, rollout: Rollout) -> None:
        """Move the normalisers; only between updates, so that until then the policy is the function that acted."""
        both = ((self.policy, rollout.actor, self._map_actor), (self.critic, rollout.critic, self._map_critic))
        found = []
        for reader, x, mirrored in both:
            rows = x[:-1][~rollout.blind[:-1]] if bool(rollout.blind.any()) else x[:-1].flatten(0, 1)
            moments = reader.normaliser.moments(rows)
            found.append(_with_images(moments, mirrored) if mirrored else moments)
        ranks = [found] if self.group is None else gather_moments(self.group, found)
        for moments in ranks:
            for (reader, _, _), (added, mean, spread) in zip(both, moments, strict=True):
                reader.normaliser.merge(added, mean, spread)

    # ---------------------------------------------------------------- snapshots

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that decides what is learned next, as plain arrays."""
        out = {f"policy/{k}": v for k, v in self.policy.to_arrays().items()}
        out |= {f"critic/net.{k}": v for k, v in self.critic.net.to_arrays().items()}
        out |= {f"critic/normaliser.{k}": v for k, v in self.critic.normaliser.snapshot().items()}
        out |= {f"actor_adam/{k}": v for k, v in self.actor_adam.snapshot().items()}
        out |= {f"critic_adam/{k}": v for k, v in self.critic_adam.snapshot().items()}
        out |= {"unit": self.critic.unit.snapshot(), "rate": np.array(self.rate.value)}
        out |= {"shuffle": self.shuffle.get_state().numpy().copy(), "noise": self.noise.get_state().numpy().copy()}
        if self.critic_memory is not None:
            out["critic_memory"] = self.critic_memory.cpu().numpy().copy()
        return out

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go back to a snapshot of a like Learner, bit for bit."""
        self.policy.load(part(arrays, "policy/"))
        self.critic.net.load(part(arrays, "critic/net."))
        self.critic.normaliser.restore(part(arrays, "critic/normaliser."))
        self.actor_adam.restore(part(arrays, "actor_adam/"))
        self.critic_adam.restore(part(arrays, "critic_adam/"))
        self.critic.unit.restore(arrays["unit"])
        self.rate.value = float(arrays["rate"])
        self.shuffle.set_state(torch.from_numpy(np.array(arrays["shuffle"])))
        self.noise.set_state(torch.from_numpy(np.array(arrays["noise"])))
        if "critic_memory" in arrays:
            self.critic_memory = torch.from_numpy(np.array(arrays["critic_memory"])).to(self.device)


def _with_images(moments: Moments, mirrored: Map) -> Moments:
    """Moments of rows and their mirror images, from those of the rows alone.

    M x = sign ∘ x[index], so the images have the mean M mean and the M2 of the entries they come from; then merged as any two parts.
    """
    n, mean, spread = moments
    image, index = mirrored(mean), torch.from_numpy(mirrored.index).to(mean.device)
    return 2 * n, 0.5 * (mean + image), spread + spread[index] + 0.5 * n * (mean - image).square()


def _mean(reports: list[Report], name: str) -> float:
    heard = [float(report[name]) for report in reports if name in report]
    return sum(heard) / len(heard) if heard else float("nan")
