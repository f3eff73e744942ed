"""Proximal policy optimisation as robots use it: its settings, and the update from one rollout.

One iteration: `horizon` steps of every world, advantages (gae.py), then `epochs` × `minibatches` steps of Adam on the losses
of losses.py. Before each step the learning rate follows the KL (adam.py). Actor and critic share nothing but that rate, so
their updates run side by side in two threads: on two cores this beats splitting every small operation in two.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError, choose
from surefoot.learn.adam import Adam, Rate
from surefoot.learn.gae import advantages, next_values
from surefoot.learn.losses import Seen, surrogate, value_loss
from surefoot.learn.mirror import Mirror
from surefoot.learn.networks import Critic, Policy, log_prob, part
from surefoot.learn.rollout import Rollout


@dataclass(frozen=True, kw_only=True)
class PPO:
    """Settings of the learner; the defaults walk a quadruped on two cores with 256 worlds."""

    horizon: int = 24
    """Steps of every world per update."""
    epochs: int = 4
    """Passes over a rollout."""
    minibatches: int = 4
    """Parts of a pass; each is one step of Adam."""
    gamma: float = 0.99
    """γ: discount per step [1]."""
    lam: float = 0.95
    """λ of the advantages [1]."""
    clip: float = 0.2
    """ε: how far the probability ratio may go before its gradient is cut [1]."""
    value_clip: float = 0.2
    """How far a value may go in one update [standard deviations of the returns]."""
    entropy: float = 0.005
    """Weight of the entropy bonus [1/nat]."""
    kl: float = 0.02
    """Target of the adaptive learning rate: KL(old‖new) after an update [nat]."""
    rate: float = 1e-3
    """Learning rate at the start [1]."""
    rate_bounds: tuple[float, float] = (2e-4, 2e-3)
    """Floor and ceiling of the learning rate [1]."""
    gradient: float = 1.0
    """Longest gradient of each network [1]."""
    std: float = 0.8
    """σ of the actions at the start [action units]."""
    std_bounds: tuple[float, float] = (0.05, 1.5)
    """Smallest and largest σ [action units]."""
    actor: tuple[str, ...] = ("policy",)
    """Observation groups of the policy: only what the robot senses."""
    critic: tuple[str, ...] | None = None
    """Observation groups of the critic; None: "critic" where the world has it, else those of the policy."""
    hidden: tuple[int, ...] = (128, 128)
    """Hidden layers of the policy."""
    critic_hidden: tuple[int, ...] | None = None
    """Hidden layers of the critic; None: as the policy."""
    activation: str = "elu"
    """Between layers: "elu", "tanh" or "relu"."""
    memory: int = 0
    """Width of the policy's GRU, 0: none."""
    critic_memory: int = 0
    """Width of the critic's GRU, 0: none."""
    warmup: int = 16
    """Steps of every world before the first update that only feed the normalisers."""

    def __post_init__(self):
        for name in ("actor", "critic", "hidden", "critic_hidden", "rate_bounds", "std_bounds"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        floor, ceiling = self.rate_bounds
        checks = {
            "horizon, epochs and minibatches must be at least 1": min(self.horizon, self.epochs, self.minibatches) >= 1,
            "gamma and lam must lie in 0..1": 0 <= self.gamma <= 1 and 0 <= self.lam <= 1,
            "clip, value_clip, kl and gradient must be above 0": min(self.clip, self.value_clip, self.kl, self.gradient) > 0,
            "rate must lie within rate_bounds, above 0": 0 < floor <= self.rate <= ceiling,
            "entropy, memory, critic_memory and warmup must not be negative": min(
                self.entropy, self.memory, self.critic_memory, self.warmup
            )
            >= 0,
        }
        for sentence, holds in checks.items():
            if not holds:
                raise InputError(f"{sentence}, given {self}")

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a run's config.json."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "PPO":
        """The settings of `to_dict`; an unknown name is refused."""
        for name in settings:
            choose(name, cls.__dataclass_fields__, "a setting of PPO")
        return cls(**settings)


@dataclass
class Update:
    """What one update did: means over its minibatches, and the minibatches that were refused."""

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
        if ppo.critic is None:
            seen = ("critic",) if "critic" in widths else ppo.actor
        else:
            seen = ppo.critic
        for name in (*ppo.actor, *seen):
            choose(name, widths, "an observation group of this world")
        draw = torch.Generator().manual_seed(seed)
        self.policy = Policy(
            {name: widths[name] for name in ppo.actor}, actions, hidden=ppo.hidden, activation=ppo.activation,
            memory=ppo.memory, std=ppo.std, std_bounds=ppo.std_bounds, generator=draw, device=device,
        )  # fmt: skip
        self.critic = Critic(
            {name: widths[name] for name in seen}, hidden=ppo.critic_hidden or ppo.hidden, activation=ppo.activation,
            memory=ppo.critic_memory, generator=draw, device=device,
        )  # fmt: skip
        self.shuffle = torch.Generator().manual_seed(seed + 1)
        self.noise = torch.Generator(device=device).manual_seed(seed + 2)
        self.actor_adam = Adam(self.policy.net.weights, self.policy.net.grads, longest=ppo.gradient)
        self.critic_adam = Adam(self.critic.net.weights, self.critic.net.grads, longest=ppo.gradient)
        self.rate = Rate(ppo.rate, target=ppo.kl, floor=ppo.rate_bounds[0], ceiling=ppo.rate_bounds[1])
        self.critic_memory: Tensor | None = None
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="critic")
        if mirror is not None and (ppo.memory or ppo.critic_memory):
            raise InputError("left-right symmetry is for networks without memory: set memory and critic_memory to 0")
        self._mirror = mirror and (mirror.over(ppo.actor), mirror.over(seen), mirror.action)

    # ---------------------------------------------------------------- values

    @torch.no_grad()
    def values(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """V(s_t) and V(s_{t+1}), (steps, worlds); at time limits the latter is that of the final observation."""
        if self.ppo.critic_memory:
            return self._recurrent_values(rollout)
        value = self.critic.values(rollout.critic)
        ahead = next_values(value[:-1], value[-1])
        if rollout.finals:
            worth = self.critic.values(torch.cat([final.inputs for final in rollout.finals]))
            at = 0
            for final in rollout.finals:
                ahead[final.step, final.worlds] = worth[at : at + len(final.worlds)]
                at += len(final.worlds)
        return value[:-1], ahead

    def _recurrent_values(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        net, unit = self.critic.net, self.critic.unit
        if self.critic_memory is None:
            self.critic_memory = net.start(rollout.worlds)
        self._critic_memory_before = self.critic_memory
        v, memories = net.unroll(self.critic.normaliser(rollout.critic), self.critic_memory, rollout.begins)
        value = v[..., 0] * unit.std + unit.mean
        ahead = next_values(value[:-1], value[-1])
        for step, ids, inputs in rollout.finals:
            worth = net.read(net.remember(self.critic.normaliser(inputs), memories[step, ids]))[:, 0]
            ahead[step, ids] = worth * unit.std + unit.mean
        self.critic_memory = memories[-2]
        return value[:-1], ahead

    # ---------------------------------------------------------------- update

    @torch.no_grad()
    def update(self, rollout: Rollout, *, weights: Tensor | None = None, threads: int = 2) -> Update:
        """Learn from a rollout.

        Args:
            rollout: what the worlds did.
            weights: emphasis on transitions in the policy's loss, (steps, worlds) or (worlds,), not negative; scaled to mean 1.
                The critic stays unweighted: it must tell the truth in every world.
            threads: CPU threads; the result is the same for 1 and 2.
        """
        before = torch.get_num_threads()
        torch.set_num_threads(max(1, threads // 2))
        try:
            return self._update(rollout, weights, threads)
        finally:
            torch.set_num_threads(before)

    def _update(self, rollout: Rollout, weights: Tensor | None, threads: int) -> Update:
        ppo, keep = self.ppo, ~rollout.broken
        value, ahead = self.values(rollout)
        A = advantages(
            rollout.reward, value, ahead, terminated=rollout.terminated, truncated=rollout.truncated, broken=rollout.broken,
            gamma=ppo.gamma, lam=ppo.lam,
        )  # fmt: skip
        R = A + value
        kept = int(keep.sum())
        if kept < ppo.minibatches:
            return Update({}, [f"whole update: only {kept} transitions of the rollout are sound"])
        numbers = {"explained": _explained(R[keep], value[keep])}
        self.critic.rescale(R[keep])
        unit = self.critic.unit
        target, old = (R - unit.mean) / unit.std, (value - unit.mean) / unit.std
        A = (A - A[keep].mean()) / (A[keep].std() + 1e-8) * keep
        if weights is not None:
            A = A * _mean_one(weights.to(A).expand_as(A), keep)
        rates: SimpleQueue[float | None] = SimpleQueue()
        actor = self._actor_recurrent(rollout, A, rates) if ppo.memory else self._actor(rollout, A, keep, rates)
        critic = (
            self._critic_recurrent(rollout, target, old, rates)
            if ppo.critic_memory
            else self._critic(rollout, target, old, keep, rates)
        )
        done = _side_by_side(actor, critic, rates, self._aside if threads > 1 and self.device.type == "cpu" else None)
        self._learn_statistics(rollout)
        for name in ("policy_loss", "value_loss", "kl", "clipped", "policy_gradient", "value_gradient"):
            heard = [step[name] for step in done if name in step]
            numbers[name] = float(np.mean(heard)) if heard else float("nan")
        numbers |= {"rate": self.rate.value, "std": float(self.policy.std.mean()), "value_unit": unit.std}
        return Update(numbers, [step["refused"] for step in done if "refused" in step])

    def _learn_statistics(self, rollout: Rollout) -> None:
        """Move the normalisers, after the update: until then the policy is the function that acted."""
        maps = self._mirror[:2] if self._mirror else (None, None)
        for reader, x, mirrored in zip((self.policy, self.critic), (rollout.actor, rollout.critic), maps, strict=True):
            rows = x[:-1][~rollout.blind[:-1]]
            reader.normaliser.update(rows if mirrored is None else torch.cat([rows, mirrored(rows)]))

    def warm(self, rollout: Rollout) -> None:
        """Feed the normalisers from a rollout without learning from it."""
        self._learn_statistics(rollout)

    def _passes(self, n: int) -> Iterator[tuple[int, int, Tensor]]:
        """(epoch, minibatch, rows) of an update over n rows; drawn by the caller's thread."""
        m = self.ppo.minibatches
        for epoch in range(self.ppo.epochs):
            order = torch.randperm(n, generator=self.shuffle).to(self.device)
            for k in range(m):
                yield epoch, k, order[n * k // m : n * (k + 1) // m]

    def _actor(self, rollout: Rollout, A: Tensor, keep: Tensor, rates: "SimpleQueue[float | None]"):
        """The policy's minibatches, as a function to run; draws its random numbers now."""
        policy, old = self.policy, self.policy.log_std.clone()
        raw, action, mean = rollout.actor[:-1][keep], rollout.action[keep], rollout.mean[keep]
        seen = Seen(action, mean, log_prob(action, mean, old), A[keep])
        n = len(raw)
        x = policy.normaliser(raw)
        if self._mirror:
            map_x, _, map_a = self._mirror
            x = torch.cat([x, policy.normaliser(map_x(raw))])
            seen = Seen(torch.cat([action, map_a(action)]), torch.cat([mean, map_a(mean)]), *(torch.cat([s, s]) for s in seen[2:]))
        passes = list(self._passes(n))

        def run() -> Iterator[dict[str, Any]]:
            for at, (epoch, k, rows) in enumerate(passes):
                both = torch.cat([rows, rows + n]) if self._mirror else rows
                mu, tape = policy.net.forward(x[both])
                found = surrogate(
                    mu, policy.log_std, old, Seen(*(s[both] for s in seen)), clip=self.ppo.clip, bonus=self.ppo.entropy,
                    count=len(both), real=len(rows),
                )  # fmt: skip
                policy.net.backward(tape, found.d_mean)
                yield self._actor_step(found, at, f"epoch {epoch + 1} minibatch {k + 1}", rates)

        return run

    def _actor_recurrent(self, rollout: Rollout, A: Tensor, rates: "SimpleQueue[float | None]"):
        """As `_actor`, on whole sequences of some of the worlds, through time."""
        policy, old, keep = self.policy, self.policy.log_std.clone(), ~rollout.broken
        x, h = policy.normaliser(rollout.actor[:-1]), rollout.actor_memory
        assert h is not None
        seen = Seen(rollout.action, rollout.mean, log_prob(rollout.action, rollout.mean, old), A)
        passes = list(self._passes(rollout.worlds))

        def run() -> Iterator[dict[str, Any]]:
            for at, (epoch, k, ids) in enumerate(passes):
                policy.net.grads.zero_()
                with torch.enable_grad():
                    mu = policy.net.unroll(x[:, ids], h[ids], rollout.begins[:-1, ids])[0].flatten(0, 1)
                found = surrogate(
                    mu.detach(), policy.log_std, old, Seen(*(s[:, ids].flatten(0, 1) for s in seen)), clip=self.ppo.clip,
                    bonus=self.ppo.entropy, count=max(1, int(keep[:, ids].sum())), real=len(mu),
                )  # fmt: skip
                mu.backward(found.d_mean)
                yield self._actor_step(found, at, f"epoch {epoch + 1} minibatch {k + 1}", rates)

        return run

    def _actor_step(self, found, at: int, where: str, rates: "SimpleQueue[float | None]") -> dict[str, Any]:
        """Adapt the rate, step, and tell the critic the rate. The first minibatch has KL 0 by construction: no news."""
        if at:
            self.rate.adapt(found.kl)
        rates.put(self.rate.value)
        self.policy.net.grad_parts["extra"].copy_(found.d_log_std)
        if not np.isfinite(found.loss + found.kl):
            return {"refused": f"policy, {where}: loss {found.loss}, KL {found.kl}"}
        norm = self.actor_adam.step(self.rate.value)
        self.policy.project()
        if not np.isfinite(norm):
            return {"refused": f"policy, {where}: gradient {norm}"}
        return {"policy_loss": found.loss, "kl": found.kl, "clipped": found.clipped, "policy_gradient": norm}

    def _critic(self, rollout: Rollout, target: Tensor, old: Tensor, keep: Tensor, rates: "SimpleQueue[float | None]"):
        """The critic's minibatches, as a function to run."""
        raw, R, before = rollout.critic[:-1][keep], target[keep], old[keep]
        n = len(raw)
        x = self.critic.normaliser(raw)
        if self._mirror:
            x, R, before = torch.cat([x, self.critic.normaliser(self._mirror[1](raw))]), torch.cat([R, R]), torch.cat([before, before])
        passes = list(self._passes(n))

        def run() -> Iterator[dict[str, Any]]:
            for epoch, k, rows in passes:
                both = torch.cat([rows, rows + n]) if self._mirror else rows
                v, tape = self.critic.net.forward(x[both])
                loss, d = value_loss(v[:, 0], R[both], before[both], clip=self.ppo.value_clip, count=len(both))
                self.critic.net.backward(tape, d[:, None])
                yield self._critic_step(loss, f"epoch {epoch + 1} minibatch {k + 1}", rates)

        return run

    def _critic_recurrent(self, rollout: Rollout, target: Tensor, old: Tensor, rates: "SimpleQueue[float | None]"):
        """As `_critic`, through time."""
        net, keep, h = self.critic.net, ~rollout.broken, self._critic_memory_before
        x = self.critic.normaliser(rollout.critic[:-1])
        passes = list(self._passes(rollout.worlds))

        def run() -> Iterator[dict[str, Any]]:
            for epoch, k, ids in passes:
                net.grads.zero_()
                with torch.enable_grad():
                    v = net.unroll(x[:, ids], h[ids], rollout.begins[:-1, ids])[0].flatten()
                mask = keep[:, ids].flatten()
                loss, d = value_loss(
                    v.detach(), target[:, ids].flatten(), old[:, ids].flatten(), clip=self.ppo.value_clip,
                    count=max(1, int(mask.sum())), keep=mask,
                )  # fmt: skip
                v.backward(d)
                yield self._critic_step(loss, f"epoch {epoch + 1} minibatch {k + 1}", rates)

        return run

    def _critic_step(self, loss: float, where: str, rates: "SimpleQueue[float | None]") -> dict[str, Any]:
        rate = rates.get()
        if rate is None:
            raise RuntimeError("the policy's update failed")
        if not np.isfinite(loss):
            return {"refused": f"critic, {where}: loss {loss}"}
        norm = self.critic_adam.step(rate)
        if not np.isfinite(norm):
            return {"refused": f"critic, {where}: gradient {norm}"}
        return {"value_loss": loss, "value_gradient": norm}
