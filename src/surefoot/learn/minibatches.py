"""The steps of Adam that one update takes, as generators: one report per minibatch.

Everything random is drawn when a generator's function is made, in the caller's thread; running it touches only its own
network. The policy tells the critic each learning rate through a queue, so the two may run side by side and give the
same bits.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.learn.adam import Adam, Rate
from surefoot.learn.distributed import RowMean
from surefoot.learn.losses import Seen, Surrogate, surrogate, value_loss
from surefoot.learn.mirror import Map
from surefoot.learn.networks import Critic, Policy, log_prob
from surefoot.learn.ppo import PPO
from surefoot.learn.rollout import Rollout

Report = dict[str, float | str]
"""Numbers of one minibatch by name, or "refused": why it was left out."""


class Rates(Protocol):
    """Learning rates on their way from the policy to the critic, which takes one per step; None: there is none."""

    def put(self, rate: float | None, /) -> None:
        """Tell the next."""

    def get(self) -> float | None:
        """Wait for the next."""
        ...


Steps = Callable[[Rates], Iterator[Report]]


def quick(x: Tensor) -> Any:
    """x as surefoot.learn.losses has it soonest: on a CPU as an array over the same memory."""
    return x.numpy() if x.device.type == "cpu" else x


class Minibatch(NamedTuple):
    """Rows of one step of Adam."""

    where: str
    rows: Tensor
    real: int
    """The first of them are as they were seen, the others mirror images."""


class Drawn(NamedTuple):
    """What is random about the minibatches over n rows."""

    orders: list[Tensor]
    """Of each epoch, (n,)."""
    turned: Tensor | None = None
    """(n,) bool: rows whose mirror image stands in for them in the first epoch; None: all are shown the same way."""


def draw(ppo: PPO, n: int, generator: torch.Generator, *, turns: bool = False) -> Drawn:
    """Every row 0 .. n − 1 once per epoch, in a new order; `turns`: by turns as it is and in the mirror."""
    orders = [torch.randperm(n, generator=generator) for _ in range(ppo.epochs)]
    return Drawn(orders, torch.rand(n, generator=generator) < 0.5 if turns else None)


def cut(ppo: PPO, drawn: Drawn, device: torch.device, *, mirrored: bool = False) -> Iterator[Minibatch]:
    """The minibatches over n rows and, where `mirrored`, their images as rows n .. 2 n − 1: both of each, or one of the two and
    the other in the next epoch.
    """
    m, n = ppo.minibatches, len(drawn.orders[0])
    bounds = [n * k // m for k in range(m + 1)]
    sizes = np.diff(bounds)
    part = np.repeat(np.arange(m), sizes)
    for epoch, order in enumerate(drawn.orders):
        real = sizes
        if drawn.turned is not None:
            image = drawn.turned[order].numpy() ^ bool(epoch % 2)
            first = np.argsort((2 * part + image).astype(np.min_scalar_type(2 * m)), kind="stable")
            order = torch.from_numpy((order.numpy() + n * image)[first])
            real = np.bincount(part[~image], minlength=m)
        for k, rows in enumerate(order.to(device).tensor_split(bounds[1:-1])):
            both = mirrored and drawn.turned is None
            shown = torch.cat([rows, rows + n]) if both else rows
            yield Minibatch(f"epoch {epoch + 1} minibatch {k + 1}", shown, int(real[k]))


class PolicySteps:
    """Steps of the policy on L_π; `A` (steps, worlds) is normalised, weighted, and 0 where a transition is broken.

    `mean` is taken over the minibatches of all ranks; None: there is one.
    """

    def __init__(self, ppo: PPO, policy: Policy, adam: Adam, rate: Rate, mean: RowMean | None = None):
        self.ppo, self.policy, self.adam, self.rate, self.mean = ppo, policy, adam, rate, mean
        self._taken = 0

    def rows(self, rollout: Rollout, A: Tensor, maps: tuple[Map, Map] | None, generator: torch.Generator) -> Steps:
        """On sound transitions in any order; `maps` mirror the inputs and the action."""
        policy, keep, old = self.policy, ~rollout.broken, self.policy.log_std.clone()
        drawn = draw(self.ppo, int(keep.sum()), generator, turns=bool(maps) and not self.ppo.both_sides)

        def run(rates: Rates) -> Iterator[Report]:
            raw, action, mean = rollout.actor[:-1][keep], rollout.action[keep], rollout.mean[keep]
            seen, x = Seen(action, mean, log_prob(action, mean, old), A[keep]), policy.normaliser(raw)
            if maps:
                x = torch.cat([x, policy.normaliser(maps[0](raw))])
                mirrored = Seen(maps[1](action), maps[1](mean), seen.log_prob, seen.advantage)
                seen = Seen(*(torch.cat(pair) for pair in zip(seen, mirrored, strict=True)))
            for where, rows, real in cut(self.ppo, drawn, raw.device, mirrored=bool(maps)):
                mu, tape = policy.net.forward(x.index_select(0, rows))
                compared = Seen(*(s.index_select(0, rows) for s in seen))
                found = self._surrogate(mu, old, compared, count=len(rows), real=real)
                policy.net.backward(tape, torch.as_tensor(found.d_mean))
                yield self._step(found, rates, where, len(rows), real)

        return run

    def sequences(self, rollout: Rollout, A: Tensor, generator: torch.Generator) -> Steps:
        """On whole sequences of some of the worlds, through time: for a policy with memory."""
        policy, keep, old, h = self.policy, ~rollout.broken, self.policy.log_std.clone(), rollout.actor_memory
        assert h is not None
        x = policy.normaliser(rollout.actor[:-1])
        seen = Seen(rollout.action, rollout.mean, log_prob(rollout.action, rollout.mean, old), A)
        drawn = draw(self.ppo, rollout.worlds, generator)

        def run(rates: Rates) -> Iterator[Report]:
            for where, ids, _ in cut(self.ppo, drawn, x.device):
                policy.net.grads.zero_()
                with torch.enable_grad():
                    mu = policy.net.unroll(x[:, ids], h[ids], rollout.begins[:-1, ids])[0].flatten(0, 1)
                compared = Seen(*(s[:, ids].flatten(0, 1) for s in seen))
                count = int(keep[:, ids].sum())
                found = self._surrogate(mu.detach(), old, compared, count=count, real=len(mu))
                mu.backward(torch.as_tensor(found.d_mean))
                yield self._step(found, rates, where, count, len(mu))

        return run

    def _surrogate(self, mu: Tensor, old: Tensor, seen: Seen, *, count: int, real: int) -> Surrogate:
        clip, bonus, count = self.ppo.clip, self.ppo.entropy, max(1, count)
        mu, now, old, *rows = (quick(t) for t in (mu, self.policy.log_std, old, *seen))
        with np.errstate(over="ignore", invalid="ignore"):  # A minibatch that is not finite is refused and named.
            return surrogate(mu, now, old, Seen(*rows), clip=clip, bonus=bonus, count=count, real=real)

    def _step(self, found: Surrogate, rates: Rates, where: str, count: int, real: int) -> Report:
        """Adapt the rate, tell it, step. An update's first minibatch has KL 0 by construction: no news for the rate."""
        self.policy.net.grad_parts["extra"].copy_(torch.as_tensor(found.d_log_std))
        numbers = self.mean(found.numbers, (count, real, count)) if self.mean else map(float, found[:3])
        loss, kl, clipped = numbers
        if self._taken:
            self.rate.adapt(kl)
        self._taken += 1
        rates.put(self.rate.value)
        if not math.isfinite(loss + kl):
            return {"refused": f"policy, {where}: loss {loss}, KL {kl}"}
        norm = self.adam.step(self.rate.value)
        if not math.isfinite(norm):
            return {"refused": f"policy, {where}: gradient {norm}"}
        self.policy.project()
        return {"policy_loss": loss, "kl": kl, "clipped": clipped, "policy_gradient": norm}


class CriticSteps:
    """Steps of the critic on L_V; `target` and `old` are (steps, worlds) in the critic's unit; `mean` as for the policy."""

    def __init__(self, ppo: PPO, critic: Critic, adam: Adam, mean: RowMean | None = None):
        self.ppo, self.critic, self.adam, self.mean = ppo, critic, adam, mean

    def rows(self, raw: Tensor, keep: Tensor, target: Tensor, old: Tensor, mirrored: Map | None, drawn: Drawn) -> Steps:
        """On transitions that are sound (`keep`, (steps, worlds) bool) in any order; `raw` (steps, worlds, n) are the inputs."""
        critic = self.critic

        def run(rates: Rates) -> Iterator[Report]:
            rows_in_all, R, before = raw[keep], target[keep], old[keep]
            x = critic.normaliser(rows_in_all)
            if mirrored:
                x = torch.cat([x, critic.normaliser(mirrored(rows_in_all))])
                R, before = R.repeat(2), before.repeat(2)
            for where, rows, _ in cut(self.ppo, drawn, raw.device, mirrored=bool(mirrored)):
                v, tape = critic.net.forward(x.index_select(0, rows))
                loss, d = self._loss(v[:, 0], R[rows], before[rows], count=len(rows))
                critic.net.backward(tape, d[:, None])
                yield self._step(loss, rates, where, len(rows))

        return run

    def sequences(self, rollout: Rollout, target: Tensor, old: Tensor, h: Tensor, generator: torch.Generator) -> Steps:
        """Through time: for a critic with memory h (worlds, memory) before the first step."""
        net, keep = self.critic.net, ~rollout.broken
        x = self.critic.normaliser(rollout.critic[:-1])
        drawn = draw(self.ppo, rollout.worlds, generator)

        def run(rates: Rates) -> Iterator[Report]:
            for where, ids, _ in cut(self.ppo, drawn, x.device):
                net.grads.zero_()
                with torch.enable_grad():
                    v = net.unroll(x[:, ids], h[ids], rollout.begins[:-1, ids])[0].flatten()
                mask = keep[:, ids].flatten()
                R, before, count = target[:, ids].flatten(), old[:, ids].flatten(), int(mask.sum())
                loss, d = self._loss(v.detach(), R, before, count=count, keep=mask)
                v.backward(d)
                yield self._step(loss, rates, where, count)

        return run

    def _loss(
        self, v: Tensor, R: Tensor, before: Tensor, *, count: int, keep: Tensor | None = None
    ) -> tuple[Any, Tensor]:
        """L_V, left where it was computed, and dL/dv."""
        rows = (quick(t) for t in (v, R, before))
        with np.errstate(over="ignore", invalid="ignore"):
            loss, d = value_loss(
                *rows, clip=self.ppo.value_clip, count=max(1, count), keep=None if keep is None else quick(keep)
            )
        return loss, torch.as_tensor(d)

    def _step(self, loss: Any, rates: Rates, where: str, count: int) -> Report:
        (loss,) = self.mean(torch.as_tensor(loss)[None], (count,)) if self.mean else (float(loss),)
        rate = rates.get()
        if rate is None:
            return {}
        if not math.isfinite(loss):
            return {"refused": f"critic, {where}: loss {loss}"}
        norm = self.adam.step(rate)
        if not math.isfinite(norm):
            return {"refused": f"critic, {where}: gradient {norm}"}
        return {"value_loss": loss, "value_gradient": norm}


def side_by_side(policy: Steps, critic: Steps, *, aside: ThreadPoolExecutor | None) -> list[Report]:
    """Run both, the critic in `aside`'s thread where one is given; reports of both."""
    rates = SimpleQueue()

    @torch.no_grad()
    def finish(steps: Steps) -> list[Report]:
        return list(steps(rates))

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
