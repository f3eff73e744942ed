"""Running mean and variance of what a network sees.

    z = clip((x − mean) / sqrt(var + eps), ±limit)

Batches are merged exactly (Chan's parallel form of Welford's recursion, in float64), so the statistics do not depend on
how the rows were cut into batches. The learner moves the statistics between updates only: within one rollout and its
update the policy is one fixed function, and the first ratio of new to old probabilities is one.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

EPS = 1e-4
"""Added to the variance: an entry that never moved is scaled by at most 100."""
LIMIT = 10.0
"""Largest |z|; keeps one outlier from moving the weights."""


class Normaliser:
    """Statistics over rows of width `width`; fresh ones are mean 0, variance 1."""

    def __init__(self, width: int, *, device: torch.device | str = "cpu", eps: float = EPS, limit: float = LIMIT):
        self.width, self.eps, self.limit = width, eps, limit
        self.frozen = False
        self.count = 0.0
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        self.var = torch.ones(width, dtype=torch.float64, device=device)
        self.shift, self.gain = torch.zeros(2, width, device=device)
        self._publish()

    def _publish(self) -> None:
        """Single-precision copies that the networks use: z = (x − shift) · gain; they stay where they are."""
        self.shift.copy_(self.mean)
        self.gain.copy_((self.var + self.eps).rsqrt())

    def __call__(self, x: Tensor) -> Tensor:
        """z of rows x, (..., width)."""
        return torch.sub(x, self.shift).mul_(self.gain).clamp_(-self.limit, self.limit)

    def update(self, x: Tensor) -> None:
        """Take in rows x, (..., width); rows with a NaN or infinity are left out. Does nothing when frozen.

        n = n_a + n_b,  d = mean_b − mean_a,  mean = mean_a + d n_b / n,  M2 = M2_a + M2_b + d² n_a n_b / n
        """
        if not self.frozen:
            self.merge(*self.moments(x))

    def moments(self, x: Tensor) -> tuple[float, Tensor, Tensor]:
        """Number, mean and M2 = Σ (x − mean)² of the finite rows of x, the latter two (width,) and NaN without rows."""
        rows = x.reshape(-1, self.width).double()
        if not bool(torch.isfinite(rows.sum())):
            rows = rows[torch.isfinite(rows).all(1)]
        mean = rows.mean(0)
        return float(len(rows)), mean, (rows - mean).square_().sum(0)

    def merge(self, added: float, mean: Tensor, spread: Tensor) -> None:
        """Take in the `moments` of other rows; does nothing when frozen."""
        if self.frozen or not added:
            return
        total = self.count + added
        step = mean - self.mean
        before = self.var * self.count if self.count else torch.zeros_like(self.var)
        self.var = (before + spread + step.square() * (self.count * added / total)) / total
        self.mean = self.mean + step * (added / total)
        self.count = total
        self._publish()

    def freeze(self) -> None:
        """Stop learning: the policy is now the function that is exported."""
        self.frozen = True

    def snapshot(self) -> dict[str, np.ndarray]:
        """The statistics as arrays: mean, var (float64), count, eps, limit."""
        scalars = {"count": self.count, "eps": self.eps, "limit": self.limit}
        return {"mean": self.mean.cpu().numpy().copy(), "var": self.var.cpu().numpy().copy()} | {
            name: np.array(value) for name, value in scalars.items()
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go back to a snapshot."""
        device = self.mean.device
        self.mean = torch.from_numpy(np.array(arrays["mean"], dtype=np.float64)).to(device)
        self.var = torch.from_numpy(np.array(arrays["var"], dtype=np.float64)).to(device)
        self.count, self.eps, self.limit = (float(arrays[name]) for name in ("count", "eps", "limit"))
        self._publish()
