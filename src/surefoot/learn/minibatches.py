"""The steps of Adam that one update takes, as generators: one report per minibatch.

Everything random is drawn when a generator's function is made, in the caller's thread; running it touches only its own
network. The policy tells the critic each learning rate through a queue, so the two may run side by side and give the
same bits.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import torch
from torch import Tensor

from surefoot.learn.adam import Adam, Rate
from surefoot.learn.distributed import RowMean
from surefoot.learn.losses import Seen, Surrogate, surrogate, value_loss, value_sum
from surefoot.learn.mirror import Map
from surefoot.learn.networks import Critic, Policy, log_prob
from surefoot.learn.ppo import PPO
from surefoot.learn.rollout import Rollout

Report = dict[str, float | str]
"""Numbers of one minibatch by name, or "refused": why it was left out."""
Steps = Callable[[], Iterator[Report]]
Passes = list[tuple[str, Tensor]]
"""(where, rows) of every minibatch of an update."""
Rates = SimpleQueue  # of float | None


def passes(ppo: PPO, n: int, generator: torch.Generator, device: torch.device) -> Passes:
    """Every row 0 .. n − 1 once per epoch, in a new order, cut into minibatches."""
    m, found = ppo.minibatches, []
    for epoch in range(ppo.epochs):
        order = torch.randperm(n, generator=generator).to(device)
        found += [(f"epoch {epoch + 1} minibatch {k + 1}", order[n * k // m : n * (k + 1) // m]) for k in range(m)]
    return found


def shown(ppo: PPO, plan: Passes, n: int, generator: torch.Generator) -> list[tuple[str, Tensor, int]]:
    """(where, rows, how many of them are real) of every minibatch over n transitions and, as rows n .. 2 n − 1, their mirror
    images: both of each, or one of the two, the other in the next epoch.
    """
    if ppo.both_sides:
        return [(where, torch.cat([rows, rows + n]), len(rows)) for where, rows in plan]
    out, turned = [], (torch.rand(n, generator=generator) < 0.5).to(plan[0][1].device)
    for number, (where, rows) in enumerate(plan):
        image = turned[rows] ^ bool(number // ppo.minibatches % 2)
        real = rows[~image]
        out.append((where, torch.cat([real, rows[image] + n]), len(real)))
    return out


class PolicySteps:
    """Steps of the policy on L_π; `A` (steps, worlds) is normalised, weighted, and 0 where a transition is broken.

    `mean` is taken over the minibatches of all ranks; None: there is one.
    """

    def __init__(self, ppo: PPO, policy: Policy, adam: Adam, rate: Rate, rates: Rates, mean: RowMean | None = None):
        self.ppo, self.policy, self.adam, self.rate, self.rates, self.mean = ppo, policy, adam, rate, rates, mean
        self._taken = 0

    def rows(self, rollout: Rollout, A: Tensor, maps: tuple[Map, Map] | None, generator: torch.Generator) -> Steps:
        """On sound transitions in any order; `maps` mirror the inputs and the action."""
        policy, keep, old = self.policy, ~rollout.broken, self.policy.log_std.clone()
        raw, action, mean = rollout.actor[:-1][keep], rollout.action[keep], rollout.mean[keep]
        seen = Seen(action, mean, log_prob(action, mean, old), A[keep])
        n, x = len(raw), policy.normaliser(raw)
        if maps:
            x = torch.cat([x, policy.normaliser(maps[0](raw))])
            mirrored = Seen(maps[1](action), maps[1](mean), seen.log_prob, seen.advantage)
            seen = Seen(*(torch.cat(pair) for pair in zip(seen, mirrored, strict=True)))
        plan = passes(self.ppo, n, generator, raw.device)
        plan = shown(self.ppo, plan, n, generator) if maps else [(where, rows, len(rows)) for where, rows in plan]

        def run() -> Iterator[Report]:
            for where, taken, real in plan:
                mu, tape = policy.net.forward(x[taken])
                found = self._surrogate(mu, old, Seen(*(s[taken] for s in seen)), count=len(taken), real=real)
                policy.net.backward(tape, found.d_mean)
                yield self._step(found, where, len(taken), real)

        return run

    def sequences(self, rollout: Rollout, A: Tensor, generator: torch.Generator) -> Steps:
        """On whole sequences of some of the worlds, through time: for a policy with memory."""
        policy, keep, old, h = self.policy, ~rollout.broken, self.policy.log_std.clone(), rollout.actor_memory
        assert h is not None
        x = policy.normaliser(rollout.actor[:-1])
        seen = Seen(rollout.action, rollout.mean, log_prob(rollout.action, rollout.mean, old), A)
        plan = passes(self.ppo, rollout.worlds, generator, x.device)

        def run() -> Iterator[Report]:
            for where, ids in plan:
                policy.net.grads.zero_()
                with torch.enable_grad():
                    mu = policy.net.unroll(x[:, ids], h[ids], rollout.begins[:-1, ids])[0].flatten(0, 1)
                compared = Seen(*(s[:, ids].flatten(0, 1) for s in seen))
                count = int(keep[:, ids].sum())
                found = self._surrogate(mu.detach(), old, compared, count=count, real=len(mu))
                mu.backward(found.d_mean)
                yield self._step(found, where, count, len(mu))

        return run

    def _surrogate(self, mu: Tensor, old: Tensor, seen: Seen, *, count: int, real: int) -> Surrogate:
        clip, bonus, count = self.ppo.clip, self.ppo.entropy, max(1, count)
        return surrogate(mu, self.policy.log_std, old, seen, clip=clip, bonus=bonus, count=count, real=real)

    def _step(self, found: Surrogate, where: str, count: int, real: int) -> Report:
        """Adapt the rate, tell it, step. An update's first minibatch has KL 0 by construction: no news for the rate."""
        self.policy.net.grad_parts["extra"].copy_(found.d_log_std)
        numbers = self.mean(found.numbers, (count, real, count)) if self.mean else found.numbers.tolist()
        loss, kl, clipped = numbers
        if self._taken:
            self.rate.adapt(kl)
        self._taken += 1
        self.rates.put(self.rate.value)
        if not math.isfinite(loss + kl):
            return {"refused": f"policy, {where}: loss {loss}, KL {kl}"}
        norm = self.adam.step(self.rate.value)
        if not math.isfinite(norm):
            return {"refused": f"policy, {where}: gradient {norm}"}
        self.policy.project()
        return {"policy_loss": loss, "kl": kl, "clipped": clipped, "policy_gradient": norm}


class CriticSteps:
    """Steps of the critic on L_V; `target` and `old` are (steps, worlds) in the critic's unit; `mean` as for the policy."""

    def __init__(self, ppo: PPO, critic: Critic, adam: Adam, rates: Rates, mean: RowMean | None = None):
        self.ppo, self.critic, self.adam, self.rates, self.mean = ppo, critic, adam, rates, mean

    def rows(
        self, rollout: Rollout, target: Tensor, old: Tensor, mirrored: Map | None, generator: torch.Generator
    ) -> Steps:
        """On sound transitions in any order."""
        critic, keep = self.critic, ~rollout.broken
        raw, R, before = rollout.critic[:-1][keep], target[keep], old[keep]
        n, x = len(raw), critic.normaliser(raw)
        if mirrored:
            x, R, before = (
                torch.cat([x, critic.normaliser(mirrored(raw))]),
                torch.cat([R, R]),
                torch.cat([before, before]),
            )
        plan = passes(self.ppo, n, generator, raw.device)
        plan = shown(self.ppo, plan, n, generator) if mirrored else [(where, rows, len(rows)) for where, rows in plan]

        def run() -> Iterator[Report]:
            for where, taken, _ in plan:
                v, tape = critic.net.forward(x[taken])
                loss, d = self._loss(v[:, 0], R[taken], before[taken], count=len(taken))
                critic.net.backward(tape, d[:, None])
                yield self._step(loss, where, len(taken))

        return run

    def sequences(self, rollout: Rollout, target: Tensor, old: Tensor, h: Tensor, generator: torch.Generator) -> Steps:
        """Through time: for a critic with memory h (worlds, memory) before the first step."""
        net, keep = self.critic.net, ~rollout.broken
        x = self.critic.normaliser(rollout.critic[:-1])
        plan = passes(self.ppo, rollout.worlds, generator, x.device)

        def run() -> Iterator[Report]:
            for where, ids in plan:
                net.grads.zero_()
                with torch.enable_grad():
                    v = net.unroll(x[:, ids], h[ids], rollout.begins[:-1, ids])[0].flatten()
                mask = keep[:, ids].flatten()
                R, before, count = target[:, ids].flatten(), old[:, ids].flatten(), int(mask.sum())
                loss, d = self._loss(v.detach(), R, before, count=count, keep=mask)
                v.backward(d)
                yield self._step(loss, where, count)

        return run

    def _loss(
        self, v: Tensor, R: Tensor, before: Tensor, *, count: int, keep: Tensor | None = None
    ) -> tuple[float | Tensor, Tensor]:
        """L_V, unread where the other ranks' are still to come, and dL/dv."""
        clip, count = self.ppo.value_clip, max(1, count)
        if self.mean is None:
            return value_loss(v, R, before, clip=clip, count=count, keep=keep)
        total, d = value_sum(v, R, before, clip=clip, count=count, keep=keep)
        return total[None] / count, d

    def _step(self, loss: float | Tensor, where: str, count: int) -> Report:
        if isinstance(loss, Tensor):
            assert self.mean is not None
            (loss,) = self.mean(loss, (count,))
        rate = self.rates.get()
        if rate is None:
            return {}
        if not math.isfinite(loss):
            return {"refused": f"critic, {where}: loss {loss}"}
        norm = self.adam.step(rate)
        if not math.isfinite(norm):
            return {"refused": f"critic, {where}: gradient {norm}"}
        return {"value_loss": loss, "value_gradient": norm}


def side_by_side(policy: Steps, critic: Steps, rates: Rates, *, aside: ThreadPoolExecutor | None) -> list[Report]:
    """Run both, the critic in `aside`'s thread where one is given; reports of both."""

    @torch.no_grad()
    def finish(steps: Steps) -> list[Report]:
        return list(steps())

    if aside is None:
        return finish(policy) + finish(critic)
    threads = torch.get_num_threads()

    def beside() -> list[Report]:
        torch.set_num_threads(threads)
        return finish(critic)

    waiting = aside.submit(beside)
    try:
        done = finish(policy)
    except BaseException:
        for _ in range(1 << 12):
            rates.put(None)
        waiting.result()
        raise
    return done + waiting.result()
