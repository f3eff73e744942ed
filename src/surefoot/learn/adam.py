"""Adam on one flat vector, and the learning rate that follows the Kullback-Leibler divergence.

m ← β1 m + (1 − β1) g      v ← β2 v + (1 − β2) g²      w ← w − η (m / (1 − β1^t)) / (sqrt(v / (1 − β2^t)) + ε)
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

BETA1, EPS = 0.9, 1e-8


class Adam:
    """Steps on `weights` along `grads`, both flat; the gradient is first shortened to norm `longest`; β2 is `beta2`."""

    def __init__(self, weights: Tensor, grads: Tensor, *, longest: float, beta2: float = 0.999):
        self.weights, self.grads, self.longest, self.beta2 = weights, grads, longest, beta2
        self.m, self.v = torch.zeros_like(weights), torch.zeros_like(weights)
        self.t = 0

    def step(self, rate: float) -> float:
        """Take one step; returns the gradient's norm. One that is not finite changes nothing: the caller reports it."""
        norm = torch.linalg.vector_norm(self.grads).item()
        if not math.isfinite(norm):
            return norm
        if norm > self.longest:
            self.grads.mul_(self.longest / norm)
        self.t += 1
        self.m.lerp_(self.grads, 1 - BETA1)
        self.v.mul_(self.beta2).addcmul_(self.grads, self.grads, value=1 - self.beta2)
        root = self.v.sqrt().mul_((1 - self.beta2**self.t) ** -0.5).add_(EPS)
        self.weights.addcdiv_(self.m, root, value=-rate / (1 - BETA1**self.t))
        return norm

    def snapshot(self) -> dict[str, np.ndarray]:
        """Moments and step count."""
        return {"m": self.m.cpu().numpy().copy(), "v": self.v.cpu().numpy().copy(), "t": np.array(self.t)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go back to a snapshot."""
        self.m.copy_(torch.from_numpy(np.array(arrays["m"])))
        self.v.copy_(torch.from_numpy(np.array(arrays["v"])))
        self.t = int(arrays["t"])


class Rate:
    """A learning rate η that keeps each update's KL(old‖new) near a target.

    η ← max(floor, η / 1.5)   if KL > 2 target
    η ← min(ceiling, 1.5 η)   if KL < target / 2

    The floor matters: with one that is too low, a few noisy updates end the training and the policy stands still.
    """

    FACTOR = 1.5

    def __init__(self, start: float, *, target: float, floor: float, ceiling: float):
        self.value, self.target, self.floor, self.ceiling = start, target, floor, ceiling

    def adapt(self, kl: float) -> float:
        """The rate after seeing `kl` [nat]; a KL that is not finite lowers it."""
        if not kl <= 2 * self.target:
            self.value = max(self.floor, self.value / self.FACTOR)
        elif kl < self.target / 2:
            self.value = min(self.ceiling, self.value * self.FACTOR)
        return self.value
