# ruff: noqa: D102 (the methods of a distribution are explained once, in Distribution)
"""Beta on a log axis: what `Beta` is for linear Params, for those with scale="log"."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from surefoot.params.distribution import (
    Distribution,
    Limits,
    inside,
    log_limits,
    number,
    numbers,
    ordered,
    positive,
    stretched,
)
from surefoot.params.distributions import Beta


@dataclass(frozen=True, kw_only=True)
class LogBeta(Distribution):
    """x = low (high / low)^s with s ~ Beta(a, b): log-uniform at a = b = 1, narrower as both grow."""

    kind: ClassVar[str] = "log_beta"
    low: float
    high: float
    a: float = 1.0
    b: float = 1.0

    def __post_init__(self):
        positive(self, "low", "a", "b")
        number(self, "high")
        ordered(self)

    @property
    def support(self) -> Limits:
        return self.low, self.high

    @property
    def _log(self) -> Beta:
        return Beta(low=np.log(self.low), high=np.log(self.high), a=self.a, b=self.b)

    def quantile(self, p: Any) -> np.ndarray:
        return np.clip(np.exp(self._log.quantile(p)), self.low, self.high)

    def cdf(self, x: Any) -> np.ndarray:
        return self._log.cdf(np.log(np.clip(numbers(x), self.low, self.high)))

    def log_prob(self, x: Any) -> np.ndarray:
        x = numbers(x)
        y = np.log(np.clip(x, self.low, self.high))
        return np.where(
            (x >= self.low) & (x <= self.high), self._log.log_prob(np.clip(y, *self._log.support)) - y, -np.inf
        )

    def expected(self) -> float:
        from scipy.special import hyp1f1

        return float(self.low * hyp1f1(self.a, self.a + self.b, np.log(self.high / self.low)))

    def scaled(self, factor: float, within: Limits) -> Self:
        log = self._log
        low, high = stretched(log.low, log.high, float(log.quantile(0.5)), factor, log_limits(within))
        return replace(self, low=inside(np.exp(low), within), high=inside(np.exp(high), within))
