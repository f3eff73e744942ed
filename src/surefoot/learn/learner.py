"""Proximal policy optimisation: what is learned from one rollout.

    A, R from the rollout (gae.py), A normalised over all of it, then `epochs` × `minibatches` steps of Adam on

    L_π = mean w max(−A ρ, −A clip(ρ, 1 ± ε)) − c H        L_V = mean max((v − R)², (v_clipped − R)²)

Before each step the learning rate follows the KL. Policy and critic share nothing but that rate, so their updates run
side by side in two threads: on two cores this beats splitting every small operation in two.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError, choose
from surefoot.learn.adam import Adam, Rate
from surefoot.learn.gae import advantages, next_values
from surefoot.learn.minibatches import CriticSteps, PolicySteps, Rates, Report, Steps, side_by_side
from surefoot.learn.mirror import Mirror
from surefoot.learn.networks import Critic, Policy, part
from surefoot.learn.ppo import PPO
from surefoot.learn.rollout import Rollout

MEANS = ("policy_loss", "value_loss", "kl", "clipped", "policy_gradient", "value_gradient")


@dataclass
class Update:
    """What one update did: means over its minibatches, and one sentence for each minibatch that was refused."""

    numbers: dict[str, float]
    refused: list[str] = field(default_factory=list)


class Learner:
    """Policy, critic, optimisers and random numbers of one training; `update` learns from a rollout."""

    def __init__(
        self,
        ppo: PPO,
        widths: Mapping[str, int],
        actions: int,
        *,
        seed: int,
        mirror: Mirror | None = None,
        device: torch.device | str = "cpu",
    ):
        self.ppo, self.device = ppo, torch.device(device)
        sees = ppo.critic or (("critic",) if "critic" in widths else ppo.actor)
        for name in (*ppo.actor, *sees):
            choose(name, widths, "an observation group of this world")
        draw = torch.Generator().manual_seed(seed)
        self.policy = Policy(
            {name: widths[name] for name in ppo.actor}, actions, hidden=ppo.hidden, activation=ppo.activation,
            memory=ppo.memory, std=ppo.std, std_bounds=ppo.std_bounds, generator=draw, device=device,
        )  # fmt: skip
        self.critic = Critic(
            {name: widths[name] for name in sees}, hidden=ppo.critic_hidden or ppo.hidden, activation=ppo.activation,
            memory=ppo.critic_memory, generator=draw, device=device,
        )  # fmt: skip
        self.shuffle = torch.Generator().manual_seed(seed + 1)
        self.noise = torch.Generator(device=device).manual_seed(seed + 2)
        self.actor_adam = Adam(self.policy.net.weights, self.policy.net.grads, longest=ppo.gradient)
        self.critic_adam = Adam(self.critic.net.weights, self.critic.net.grads, longest=ppo.gradient)
        self.rate = Rate(ppo.rate, target=ppo.kl, floor=ppo.rate_bounds[0], ceiling=ppo.rate_bounds[1])
        self.critic_memory: Tensor | None = None
        """The critic's memory before the next rollout's first state, (worlds, memory)."""
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="critic")
        if mirror is not None and (ppo.memory or ppo.critic_memory):
            raise InputError("left-right symmetry is for networks without memory: set memory and critic_memory to 0")
        self._map_actor = mirror and mirror.over(ppo.actor)
        self._map_critic = mirror and mirror.over(sees)
        self._map_action = mirror and mirror.action

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
        before = torch.get_num_threads()
        torch.set_num_threads(max(1, threads // 2))
        try:
            return self._update(rollout, weights, aside=threads > 1 and self.device.type == "cpu")
        finally:
            torch.set_num_threads(before)

    def _update(self, rollout: Rollout, weights: Tensor | None, *, aside: bool) -> Update:
        ppo, keep, unit, h = self.ppo, ~rollout.broken, self.critic.unit, self.critic_memory
        value, ahead = self.values(rollout)
        A = advantages(
            rollout.reward, value, ahead, terminated=rollout.terminated, truncated=rollout.truncated,
            broken=rollout.broken, gamma=ppo.gamma, lam=ppo.lam,
        )  # fmt: skip
        R = A + value
        lost = keep & ~torch.isfinite(R)
        refused = [f"{int(lost.sum())} transitions: their returns are not finite"] if bool(lost.any()) else []
        rollout.broken |= lost
        keep &= ~lost
        sound = int(keep.sum())
        if sound < ppo.minibatches:
            return Update({}, [*refused, f"whole update: only {sound} transitions of the rollout are sound"])
        explained = _explained(R[keep], value[keep])
        self.critic.rescale(R[keep])
        target, old = (R - unit.mean) / unit.std, (value - unit.mean) / unit.std
        A = torch.where(keep, (A - A[keep].mean()) / (A[keep].std() + 1e-8), 0.0)
        if weights is not None:
            A = A * _mean_one(weights.to(A).expand_as(A), keep)
        rates = Rates()
        done = side_by_side(
            self._policy_steps(rollout, A, rates),
            self._critic_steps(rollout, target, old, h, rates),
            rates,
            aside=self._aside if aside else None,
        )
        self.learn_statistics(rollout)
        numbers = {"explained": explained} | {name: _mean(done, name) for name in MEANS}
        numbers |= {"rate": self.rate.value, "std": float(self.policy.std.mean()), "value_unit": unit.std}
        return Update(numbers, refused + [str(step["refused"]) for step in done if "refused" in step])

    def _policy_steps(self, rollout: Rollout, A: Tensor, rates: Rates) -> Steps:
        steps = PolicySteps(self.ppo, self.policy, self.actor_adam, self.rate, rates)
        if self.policy.memory:
            return steps.sequences(rollout, A, self.shuffle)
        maps = (self._map_actor, self._map_action) if self._map_actor and self._map_action else None
        return steps.rows(rollout, A, maps, self.shuffle)

    def _critic_steps(self, rollout: Rollout, target: Tensor, old: Tensor, h: Tensor | None, rates: Rates) -> Steps:
        steps = CriticSteps(self.ppo, self.critic, self.critic_adam, rates)
        if self.critic.memory:
            h = self.critic.net.start(rollout.worlds) if h is None else h
            return steps.sequences(rollout, target, old, h, self.shuffle)
        return steps.rows(rollout, target, old, self._map_critic, self.shuffle)

    def learn_statistics(self, rollout: Rollout) -> None:
        """Move the normalisers; only between updates, so that until then the policy is the function that acted."""
        both = ((self.policy, rollout.actor, self._map_actor), (self.critic, rollout.critic, self._map_critic))
        for reader, x, mirrored in both:
            rows = x[:-1][~rollout.blind[:-1]] if bool(rollout.blind.any()) else x[:-1].flatten(0, 1)
            reader.normaliser.update(torch.cat([rows, mirrored(rows)]) if mirrored else rows)

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


def _explained(R: Tensor, value: Tensor) -> float:
    """1 − var(R − V) / var(R): the share of the returns' variance that the critic foresaw."""
    return 1.0 - ((R - value).var() / (R.var() + 1e-12)).item()


def _mean_one(weights: Tensor, keep: Tensor) -> Tensor:
    """Weights scaled to mean 1 over the transitions that count."""
    if not bool(torch.isfinite(weights).all()) or bool((weights < 0).any()) or not bool((weights[keep] > 0).any()):
        raise InputError("weights of transitions must be finite, not negative and not all 0")
    return weights / weights[keep].mean()


def _mean(reports: list[Report], name: str) -> float:
    heard = [float(report[name]) for report in reports if name in report]
    return sum(heard) / len(heard) if heard else float("nan")
