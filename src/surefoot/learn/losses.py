"""The two losses of PPO with their gradients written out; autograd is the witness in the tests, not the worker.

ρ = π(a|o) / π_old(a|o)
L_π = mean w max(−A ρ, −A clip(ρ, 1 ± ε)) − c H                      w A comes in as `advantage`
L_V = mean max((v − R)², (v_old + clip(v − v_old, ±ε) − R)²)         in units of the critic
"""

from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.learn.networks import LOG_2PI


class Surrogate(NamedTuple):
    """L_π of a minibatch, its gradients, and how far the policy has moved."""

    numbers: Tensor  # (3,) loss, kl and clipped, where they were computed: one reading of all three waits once
    d_mean: Tensor  # (rows, actions)
    d_log_std: Tensor  # (actions,)

    @property
    def loss(self) -> float:
        """L_π."""
        return self.numbers.tolist()[0]

    @property
    def kl(self) -> float:
        """Mean KL(old‖new) of the rows that were really seen [nat]."""
        return self.numbers.tolist()[1]

    @property
    def clipped(self) -> float:
        """Share of rows whose ratio left 1 ± ε [1]."""
        return self.numbers.tolist()[2]


class Seen(NamedTuple):
    """What the surrogate compares with, rows of a minibatch."""

    action: Tensor  # (rows, actions)
    mean: Tensor  # (rows, actions) under the old policy
    log_prob: Tensor  # (rows,) under the old policy
    advantage: Tensor  # (rows,) w A, 0 where the row must not count


def surrogate(
    mean: Tensor, log_std: Tensor, log_std_old: Tensor, seen: Seen, *, clip: float, bonus: float, count: int, real: int
) -> Surrogate:
    """L_π at the new `mean` (rows, actions).

    Args:
        mean: μ of the new policy.
        log_std: log σ of the new policy, (actions,).
        log_std_old: log σ of the old one.
        seen: what the old policy did.
        clip: ε [1].
        bonus: c, weight of the entropy [1/nat].
        count: rows that count (the mean's denominator).
        real: the first `real` rows were really seen (the rest are mirrored); the KL is theirs.
    """
    inverse = torch.exp(-log_std)
    z = (seen.action - mean).mul_(inverse)
    zz = z * z
    level = log_std.sum()
    ratio = zz.sum(-1).mul_(-0.5).sub_(level + 0.5 * LOG_2PI * len(log_std)).sub_(seen.log_prob).exp_()
    gain = seen.advantage * ratio
    inside = ratio.clamp(1 - clip, 1 + clip)
    loss = -torch.minimum(gain, seen.advantage * inside).sum() / count - bonus * level
    pushes = torch.where(seen.advantage > 0, ratio < 1 + clip, ratio > 1 - clip)
    g = gain.mul_(pushes).mul_(-1 / count)
    d_log_std = torch.mv(zz.t(), g).sub_(g.sum()).sub_(bonus)
    spread = (log_std - log_std_old + 0.5 * torch.exp(2 * (log_std_old - log_std)) - 0.5).sum()
    moved = (seen.mean[:real] - mean[:real]).mul_(inverse).square_()
    kl = moved.sum() * (0.5 / max(real, 1)) + spread
    numbers = torch.stack([loss, kl, (ratio != inside).float().mean()])
    return Surrogate(numbers, z.mul_(inverse).mul_(g[:, None]), d_log_std)


def value_loss(
    v: Tensor, target: Tensor, old: Tensor, *, clip: float, count: int, keep: Tensor | None = None
) -> tuple[float, Tensor]:
    """L_V of rows and dL/dv; `keep` (rows,) bool leaves rows out."""
    total, d = value_sum(v, target, old, clip=clip, count=count, keep=keep)
    return total.item() / count, d


def value_sum(
    v: Tensor, target: Tensor, old: Tensor, *, clip: float, count: int, keep: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """count · L_V, left where it was computed, and dL/dv; as `value_loss`."""
    move, error = v - old, v - target
    held = move.clamp(-clip, clip).add_(old).sub_(target)
    plain, limited = error.square(), held.square_()
    worst = torch.maximum(plain, limited)
    d = error.mul_(2 / count).mul_((plain >= limited) | (move.abs() <= clip))
    if keep is not None:
        worst, d = worst * keep, d * keep
    return worst.sum(), d
