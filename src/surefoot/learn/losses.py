"""The two losses of PPO with their gradients written out; autograd is the witness in the tests, not the worker.

ρ = π(a|o) / π_old(a|o)
L_π = mean w max(−A ρ, −A clip(ρ, 1 ± ε)) − c H                      w A comes in as `advantage`
L_V = mean max((v − R)², (v_old + clip(v − v_old, ±ε) − R)²)         in units of the critic
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefoot.learn.networks import LOG_2PI

Array = Any
"""A tensor, or an array over a CPU tensor's memory: small operations of NumPy take a third of the time of torch's."""


class Surrogate(NamedTuple):
    """L_π of a minibatch, how far the policy has moved, and the gradients; numbers are left where they were computed."""

    loss: Array
    """L_π."""
    kl: Array
    """Mean KL(old‖new) of the rows that were really seen [nat]."""
    clipped: Array
    """Share of rows whose ratio left 1 ± ε [1]."""
    d_mean: Array
    """(rows, actions)."""
    d_log_std: Array
    """(actions,)."""

    @property
    def numbers(self) -> Tensor:
        """(3,) loss, kl and clipped: one reading of all three waits once."""
        return torch.stack([torch.as_tensor(x, dtype=torch.float32) for x in self[:3]])


class Seen(NamedTuple):
    """What the surrogate compares with, rows of a minibatch."""

    action: Array  # (rows, actions)
    mean: Array  # (rows, actions) under the old policy
    log_prob: Array  # (rows,) under the old policy
    advantage: Array  # (rows,) w A, 0 where the row must not count


def surrogate(
    mean: Array, log_std: Array, log_std_old: Array, seen: Seen, *, clip: float, bonus: float, count: int, real: int
) -> Surrogate:
    """L_π at the new `mean` (rows, actions); all are tensors, or all are arrays.

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
    xp = _namespace(mean)
    inverse, level = xp.exp(-log_std), log_std.sum()
    z = (seen.action - mean) * inverse
    zz = z * z
    ratio = xp.exp(zz @ xp.full_like(log_std, -0.5) - seen.log_prob - (level + 0.5 * LOG_2PI * len(log_std)))
    inside = xp.clip(ratio, 1 - clip, 1 + clip)
    gain, limited = seen.advantage * ratio, seen.advantage * inside
    loss = -xp.minimum(gain, limited).sum() / count - bonus * level
    g = gain * (gain <= limited) * (-1 / count)
    d_log_std = zz.T @ g - (g.sum() + bonus)
    spread = (log_std - log_std_old + 0.5 * xp.exp(2 * (log_std_old - log_std)) - 0.5).sum()
    moved = ((seen.mean[:real] - mean[:real]) * inverse).ravel()
    kl = (moved @ moved) * (0.5 / max(real, 1)) + spread
    clipped = (ratio != inside).sum() / len(ratio)
    return Surrogate(loss, kl, clipped, z * inverse * g[:, None], d_log_std)


def value_loss(
    v: Array, target: Array, old: Array, *, clip: float, count: int, keep: Array | None = None
) -> tuple[Array, Array]:
    """L_V of rows, left where it was computed, and dL/dv; `keep` (rows,) bool leaves rows out."""
    xp, move, error = _namespace(v), v - old, v - target
    held = xp.clip(move, -clip, clip) + (old - target)
    plain, limited = error * error, held * held
    worst = xp.maximum(plain, limited)
    d = error * ((plain >= limited) | (abs(move) <= clip)) * (2 / count)
    if keep is not None:
        worst, d = worst * keep, d * keep
    return worst.sum() / count, d


def _namespace(x: Array) -> Any:
    return torch if isinstance(x, Tensor) else np
