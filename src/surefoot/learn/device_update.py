"""The minibatches of one update as a recorded piece on the device: losses, gradients, Adam and the learning rate, without the host.

What is computed is what minibatches.py computes. Two things differ so that shapes never change: rows of a minibatch that are broken stay
in it with weight 0, and of a mirrored minibatch without `both_sides` the first half of the rows is shown as seen, the second in the mirror.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from surefoot.learn.adam import BETA1, EPS, Adam, Rate
from surefoot.learn.device import quick_products
from surefoot.learn.losses import Seen, surrogate, value_loss
from surefoot.learn.mirror import Map
from surefoot.learn.networks import log_prob
from surefoot.learn.rollout import Rollout
from surefoot.sim.cuda_pieces import Piece

if TYPE_CHECKING:
    from surefoot.learn.learner import Learner

NAMES = ("policy_loss", "kl", "clipped", "policy_gradient", "value_loss", "value_gradient")


class _Fixed:
    """A mirror map whose index and sign lie on the device already."""

    def __init__(self, mirror: Map, device: torch.device):
        self.index = torch.from_numpy(mirror.index).to(device)
        self.sign = torch.from_numpy(mirror.sign).to(device)

    def __call__(self, x: Tensor) -> Tensor:
        return x.index_select(-1, self.index) * self.sign


class _Optimiser:
    """Adam of adam.py with its count and decisions on the device; works on the moments of the learner's own."""

    def __init__(self, adam: Adam):
        self.adam = adam
        self.t = torch.zeros((), dtype=torch.float64, device=adam.weights.device)

    def step(self, rate: Tensor, sound: Tensor) -> Tensor:
        """One step at `rate` where `sound` and the gradient is finite; returns the gradient's norm."""
        a = self.adam
        norm = a.grads.norm()
        good = sound & torch.isfinite(norm)
        g = torch.where(good, a.grads * (a.longest / norm.clamp(min=a.longest)), 0.0)
        self.t += good
        a.m.copy_(torch.where(good, torch.lerp(a.m, g, 1 - BETA1), a.m))
        a.v.copy_(torch.where(good, a.beta2 * a.v + (1 - a.beta2) * g * g, a.v))
        t = self.t.clamp(min=1.0)
        root = a.v.sqrt() * (1 - a.beta2**t).rsqrt().float() + EPS
        change = (rate / (1 - BETA1**t)).float() * a.m / root
        a.weights.sub_(torch.where(good, change, 0.0))
        return norm


class DeviceUpdate:
    """Takes `epochs` x `minibatches` steps on a rollout; made once for a learner and the rollout it learns from."""

    def __init__(self, learner: "Learner", rollout: Rollout):
        self.learner, self.rollout = learner, rollout
        ppo, device = learner.ppo, learner.device
        self.rows_in_all = rollout.steps * rollout.worlds
        self.rows = torch.zeros(self.rows_in_all // ppo.minibatches, dtype=torch.int64, device=device)
        self.A, self.target, self.old, self.log_prob, self.keep = torch.zeros(5, self.rows_in_all, device=device)
        self.log_std = torch.zeros_like(learner.policy.log_std)
        self.rate = torch.zeros((), dtype=torch.float64, device=device)
        self.first = torch.zeros((), dtype=torch.bool, device=device)
        self.sums = torch.zeros(len(NAMES) + 2, dtype=torch.float64, device=device)
        """Sums over minibatches by NAMES, then how many steps of each network were refused."""
        self.actor, self.critic = _Optimiser(learner.actor_adam), _Optimiser(learner.critic_adam)
        maps = (learner._map_actor, learner._map_critic, learner._map_action)
        self.maps = tuple(_Fixed(m, device) if m else None for m in maps)
        self._piece = Piece(self._minibatch, device)

    # ---------------------------------------------------------------- one minibatch

    def _shown(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows that are shown as seen and rows that are shown in the mirror."""
        if self.maps[0] is None:
            return rows, rows[:0]
        return (rows, rows) if self.learner.ppo.both_sides else (rows[: len(rows) // 2], rows[len(rows) // 2 :])

    def _minibatch(self) -> None:
        with quick_products():
            self._learn()

    def _learn(self) -> None:
        ppo, policy, critic, r = self.learner.ppo, self.learner.policy, self.learner.critic, self.rollout
        seen, turned = self._shown(self.rows)
        both = torch.cat([seen, turned])
        actor, values = r.actor[:-1].flatten(0, 1), r.critic[:-1].flatten(0, 1)
        action, mean = r.action.flatten(0, 1), r.mean.flatten(0, 1)

        def gathered(x: Tensor, mirror: _Fixed | None) -> Tensor:
            return x[seen] if mirror is None else torch.cat([x[seen], mirror(x[turned])])

        compared = Seen(gathered(action, self.maps[2]), gathered(mean, self.maps[2]), self.log_prob[both], self.A[both])
        mu, tape = policy.net.forward(policy.normaliser(gathered(actor, self.maps[0])))
        found = surrogate(
            mu,
            policy.log_std,
            self.log_std,
            compared,
            clip=ppo.clip,
            bonus=ppo.entropy,
            count=len(both),
            real=len(seen),
        )
        policy.net.backward(tape, found.d_mean)
        policy.net.grad_parts["extra"].copy_(found.d_log_std)
        numbers = found.numbers
        self._adapt(self.learner.rate, numbers[1].double())
        sound = torch.isfinite(numbers.sum())
        norm = self.actor.step(self.rate, sound)
        policy.project()
        v, tape = critic.net.forward(critic.normaliser(gathered(values, self.maps[1])))
        loss, d = value_loss(
            v[:, 0], self.target[both], self.old[both], clip=ppo.value_clip, count=len(both), keep=self.keep[both]
        )
        critic.net.backward(tape, d[:, None])
        value_sound = torch.isfinite(loss)
        value_norm = self.critic.step(self.rate, value_sound)
        good, fine = sound & torch.isfinite(norm), value_sound & torch.isfinite(value_norm)
        policy_part = torch.where(good, torch.cat([numbers, norm[None]]), 0.0)
        value_part = torch.where(fine, torch.stack([loss, value_norm]), 0.0)
        self.sums += torch.cat([policy_part, value_part, torch.stack([(~good).float(), (~fine).float()])])

    def _adapt(self, rule: Rate, kl: Tensor) -> None:
        """The learning rate follows the KL; an update's first minibatch has KL 0 by construction and says nothing."""
        lower = (self.rate / rule.FACTOR).clamp(min=rule.floor)
        higher = (self.rate * rule.FACTOR).clamp(max=rule.ceiling)
        now = torch.where(~(kl <= 2 * rule.target), lower, torch.where(kl < rule.target / 2, higher, self.rate))
        self.rate.copy_(torch.where(self.first, self.rate, now))
        self.first.zero_()

    # ---------------------------------------------------------------- all of them

    @torch.no_grad()
    def __call__(self, A: Tensor, target: Tensor, old: Tensor) -> list[dict[str, float | str]]:
        """Learn from the rollout; A, target and old are (steps, worlds). Returns one report, and one per refusal."""
        learner, r, n = self.learner, self.rollout, len(self.rows)
        ppo = learner.ppo
        self.keep.copy_((~r.broken).flatten())
        for buffer, value in ((self.A, A), (self.target, target), (self.old, old)):
            buffer.copy_(torch.where(r.broken, 0.0, value).flatten())
        self.log_std.copy_(learner.policy.log_std)
        self.log_prob.copy_(log_prob(r.action, r.mean, self.log_std).flatten())
        self.rate.fill_(learner.rate.value)
        self.actor.t.fill_(learner.actor_adam.t)
        self.critic.t.fill_(learner.critic_adam.t)
        self.first.fill_(True)
        self.sums.zero_()
        for _ in range(ppo.epochs):
            order = torch.randperm(self.rows_in_all, generator=learner.noise, device=learner.device)
            for k in range(ppo.minibatches):
                self.rows.copy_(order[k * n : (k + 1) * n])
                self._piece()
        *sums, lost, value_lost = self.sums.tolist()
        steps = ppo.epochs * ppo.minibatches
        learner.rate.value = float(self.rate)
        learner.actor_adam.t, learner.critic_adam.t = int(self.actor.t), int(self.critic.t)
        counts = [max(1.0, steps - (lost if i < 4 else value_lost)) for i in range(len(NAMES))]
        report: dict[str, float | str] = {name: s / c for name, s, c in zip(NAMES, sums, counts, strict=True)}
        refused = [("policy", lost), ("critic", value_lost)]
        return [report, *({"refused": f"{who}: {int(k)} of {steps} minibatches"} for who, k in refused if k)]
