"""What a rollout says as a whole, before its minibatches: how many transitions are sound, and the scales of A and R.

With several ranks, each summarises its own rollout by numbers and moments; one gathering later all know the whole:

    n = n_a + n_b,  d = mean_b − mean_a,  mean = mean_a + d n_b / n,  M2 = M2_a + M2_b + d² n_a n_b / n
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.learn.distributed import Group, fingerprint

Moments = tuple[float, Tensor, Tensor]
"""Number of rows, mean (width,), M2 (width,)."""


class Overview(NamedTuple):
    """Over the sound transitions of all ranks, all on the host but for `mean`, `std` and `weight` of a single rank."""

    sound: int  # transitions to learn from
    most: int  # of the rank that has most
    lost: int  # transitions whose return is not finite
    mean: Tensor | float = 0.0  # of A
    std: Tensor | float = 1.0  # of A
    returns: tuple[float, float] = (0.0, 0.0)  # mean R, mean R²
    explained: float = math.nan  # [1] 1 − var(R − V) / var(R): share of the returns' variance that the critic foresaw
    weight: Tensor | float = 1.0  # mean of the transitions' weights


def own_overview(
    A: Tensor, R: Tensor, value: Tensor, keep: Tensor, lost: Tensor, weights: Tensor | None, *, least: int
) -> Overview:
    """Of one rank's rollout; all arrays are (steps, worlds). With fewer than `least` sound transitions only their number."""
    gone, sound = int(lost.sum()), int(keep.sum())
    if sound < least:
        return Overview(sound, sound, gone)
    a, r = A[keep], R[keep]
    explained = 1.0 - ((r - value[keep]).var() / (r.var() + 1e-12)).item()
    returns = r.mean(dtype=torch.float64).item(), r.double().square().mean().item()
    if weights is not None:
        wrong = not bool(torch.isfinite(weights).all()) or bool((weights < 0).any())
        if wrong or not bool((weights[keep] > 0).any()):
            raise InputError(_WEIGHTS)
    weight = 1.0 if weights is None else weights[keep].mean()
    return Overview(sound, sound, gone, a.mean(), a.std(), returns, explained, weight)


_WEIGHTS = "weights of transitions must be finite, not negative and not all 0"


def shared_overview(
    group: Group,
    A: Tensor,
    R: Tensor,
    value: Tensor,
    keep: Tensor,
    lost: Tensor,
    weights: Tensor | None,
    *,
    equal: Sequence[Tensor],
) -> Overview:
    """Of the rollouts of all ranks, each of which calls this with its own; `equal` must be the same bits on all of them."""
    n = keep.sum().double()
    given = keep.double() if weights is None else torch.where(keep, weights, 0.0).double()
    wrong = torch.zeros_like(n) if weights is None else (~torch.isfinite(weights) | (weights < 0)).any().double()
    numbers = [n, lost.sum().double(), given.sum(), wrong]
    for x in (A, R, R - value):
        numbers += _moments(x, keep, n)
    numbers += [fingerprint(x) for x in equal]
    ranks = group.gather(torch.stack(numbers)).tolist()
    if len({tuple(rank[10:]) for rank in ranks}) > 1:
        raise RuntimeError(
            "the ranks no longer hold the same weights: run all of them on the same kind of processor with as many threads"
        )
    sound, gone, total, wrong = (sum(rank[i] for rank in ranks) for i in range(4))
    most = int(max(rank[0] for rank in ranks))
    if not sound:
        return Overview(0, 0, int(gone))
    if wrong or not total > 0:
        raise InputError(_WEIGHTS)
    a, r, d = (_merged([(rank[0], *rank[4 + 2 * i : 6 + 2 * i]) for rank in ranks]) for i in range(3))
    above = max(sound - 1, 1)
    explained = 1.0 - (d[1] / above) / (r[1] / above + 1e-12)
    returns = r[0], r[1] / sound + r[0] ** 2
    return Overview(int(sound), most, int(gone), a[0], math.sqrt(a[1] / above), returns, explained, total / sound)


def _moments(x: Tensor, keep: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and M2 in float64 of the kept entries; 0 without any."""
    x = torch.where(keep, x, 0.0).double()
    mean = x.sum() / n.clamp(min=1)
    return mean, torch.where(keep, x - mean, 0.0).square_().sum()


def _merged(parts: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Mean and M2 of all parts (n, mean, M2)."""
    n, mean, spread = 0.0, 0.0, 0.0
    for more, its_mean, its_spread in parts:
        if more:
            step, whole = its_mean - mean, n + more
            mean, spread, n = mean + step * more / whole, spread + its_spread + step**2 * n * more / whole, whole
    return mean, spread


def gather_moments(group: Group, found: Sequence[Moments]) -> list[list[Moments]]:
    """The moments that every rank found, rank by rank."""
    device = found[0][1].device
    counts = torch.zeros(len(found), dtype=torch.float64, device=device)
    for i, (n, _, _) in enumerate(found):
        counts[i].fill_(n)
    ranks = group.gather(torch.cat([counts, *(part for moments in found for part in moments[1:])]))
    sizes = [len(part) for moments in found for part in moments[1:]]
    out = []
    for row, numbers in zip(ranks, ranks[:, : len(found)].tolist(), strict=True):
        parts = row[len(found) :].split(sizes)
        out.append([(n, parts[2 * i], parts[2 * i + 1]) for i, n in enumerate(numbers)])
    return out
