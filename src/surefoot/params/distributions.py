# ruff: noqa: D102 (the methods of a distribution are explained once, in Distribution)
"""Distributions of one continuous number; the interface and its meaning are in distribution.py."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from surefoot.errors import InputError
from surefoot.params import normal
from surefoot.params.distribution import (
    EVERYWHERE,
    Distribution,
    Limits,
    inside,
    log_limits,
    number,
    numbers,
    ordered,
    positive,
    probabilities,
    stretched,
)


@dataclass(frozen=True, kw_only=True)
class Uniform(Distribution):
    """p(x) = 1 / (high − low)."""

    kind: ClassVar[str] = "uniform"
    low: float
    high: float

    def __post_init__(self):
        number(self, "low", "high")
        ordered(self)

    @property
    def support(self) -> Limits:
        return self.low, self.high

    def quantile(self, p: Any) -> np.ndarray:
        p = probabilities(p)
        return np.clip(self.low * (1.0 - p) + self.high * p, self.low, self.high)

    def cdf(self, x: Any) -> np.ndarray:
        return np.clip((numbers(x) - self.low) / (self.high - self.low), 0.0, 1.0)

    def log_prob(self, x: Any) -> np.ndarray:
        x = numbers(x)
        return np.where((x >= self.low) & (x <= self.high), -np.log(self.high - self.low), -np.inf)

    def expected(self) -> float:
        return 0.5 * (self.low + self.high)

    def scaled(self, factor: float, within: Limits) -> Self:
        low, high = stretched(self.low, self.high, self.expected(), factor, within)
        return replace(self, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class LogUniform(Distribution):
    """p(x) = 1 / (x log(high / low)): every ratio is as likely as any other."""

    kind: ClassVar[str] = "log_uniform"
    low: float
    high: float

    def __post_init__(self):
        positive(self, "low")
        number(self, "high")
        ordered(self)

    @property
    def support(self) -> Limits:
        return self.low, self.high

    def quantile(self, p: Any) -> np.ndarray:
        value = self.low * np.exp(probabilities(p) * np.log(self.high / self.low))
        return np.clip(value, self.low, self.high)

    def cdf(self, x: Any) -> np.ndarray:
        return np.log(np.clip(numbers(x), self.low, self.high) / self.low) / np.log(self.high / self.low)

    def log_prob(self, x: Any) -> np.ndarray:
        x = numbers(x)
        density = -np.log(np.maximum(x, self.low)) - np.log(np.log(self.high / self.low))
        return np.where((x >= self.low) & (x <= self.high), density, -np.inf)

    def expected(self) -> float:
        return (self.high - self.low) / float(np.log(self.high / self.low))

    def scaled(self, factor: float, within: Limits) -> Self:
        low, high = np.log(self.low), np.log(self.high)
        low, high = stretched(low, high, 0.5 * (low + high), factor, log_limits(within))
        return replace(self, low=inside(np.exp(low), within), high=inside(np.exp(high), within))


@dataclass(frozen=True, kw_only=True)
class Normal(Distribution):
    """p(x) ∝ exp(−(x − mean)² / (2 sd²)). In a Prior its tails are cut at the Param's bounds."""

    kind: ClassVar[str] = "normal"
    mean: float
    sd: float

    def __post_init__(self):
        number(self, "mean")
        positive(self, "sd")

    @property
    def support(self) -> Limits:
        return EVERYWHERE

    def quantile(self, p: Any) -> np.ndarray:
        return self.mean + self.sd * normal.quantile(probabilities(p), -np.inf, np.inf)

    def cdf(self, x: Any) -> np.ndarray:
        return normal.cdf((numbers(x) - self.mean) / self.sd, -np.inf, np.inf)

    def log_prob(self, x: Any) -> np.ndarray:
        z = (numbers(x) - self.mean) / self.sd
        return -0.5 * z * z - normal.HALF_LOG_2PI - np.log(self.sd)

    def expected(self) -> float:
        return self.mean

    def cut(self, low: float, high: float) -> Distribution:
        return TruncatedNormal(mean=self.mean, sd=self.sd, low=low, high=high)

    def scaled(self, factor: float, within: Limits) -> Self:
        if within != EVERYWHERE:
            raise InputError(
                f"{self} has no ends: widen a TruncatedNormal to stay within {within[0]:g} to {within[1]:g}"
            )
        return replace(self, sd=self.sd * factor)


@dataclass(frozen=True, kw_only=True)
class TruncatedNormal(Distribution):
    """A normal distribution cut to [low, high]; `mean` and `sd` are those before the cut."""

    kind: ClassVar[str] = "truncated_normal"
    mean: float
    sd: float
    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self):
        number(self, "mean")
        positive(self, "sd")
        number(self, "low", "high", finite=False)
        ordered(self)

    @property
    def support(self) -> Limits:
        return self.low, self.high

    @property
    def _ends(self) -> Limits:
        return (self.low - self.mean) / self.sd, (self.high - self.mean) / self.sd

    def quantile(self, p: Any) -> np.ndarray:
        return np.clip(self.mean + self.sd * normal.quantile(probabilities(p), *self._ends), self.low, self.high)

    def cdf(self, x: Any) -> np.ndarray:
        return normal.cdf((numbers(x) - self.mean) / self.sd, *self._ends)

    def log_prob(self, x: Any) -> np.ndarray:
        x = numbers(x)
        density = normal.log_prob((np.clip(x, self.low, self.high) - self.mean) / self.sd, *self._ends)
        return np.where((x >= self.low) & (x <= self.high), density - np.log(self.sd), -np.inf)

    def expected(self) -> float:
        return float(np.clip(self.mean + self.sd * normal.expected(*self._ends), self.low, self.high))

    def scaled(self, factor: float, within: Limits) -> Self:
        centre = float(self.quantile(0.5))
        low, high = stretched(self.low, self.high, centre, factor, within)
        return replace(self, mean=centre + factor * (self.mean - centre), sd=self.sd * factor, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class LogNormal(Distribution):
    """ln x is normal with mean ln(median) and standard deviation `sigma`, cut to [low, high].

    sigma = 0.1 says "about 10 % to either side, as a ratio"; `median` is that before the cut.
    """

    kind: ClassVar[str] = "log_normal"
    median: float
    sigma: float
    low: float = 0.0
    high: float = np.inf

    def __post_init__(self):
        positive(self, "median", "sigma")
        number(self, "low", "high", finite=False)
        ordered(self)
        if self.low < 0.0:
            raise InputError(f"LogNormal: low must not be negative, not {self.low:g}")

    @property
    def support(self) -> Limits:
        return self.low, self.high

    @property
    def _log(self) -> TruncatedNormal:
        low, high = log_limits((self.low, self.high))
        return TruncatedNormal(mean=np.log(self.median), sd=self.sigma, low=low, high=high)

    def quantile(self, p: Any) -> np.ndarray:
        return np.clip(np.exp(self._log.quantile(p)), self.low, self.high)

    def cdf(self, x: Any) -> np.ndarray:
        x = numbers(x)
        with np.errstate(divide="ignore"):
            return np.where(x > 0.0, self._log.cdf(np.log(np.maximum(x, 0.0))), 0.0)

    def log_prob(self, x: Any) -> np.ndarray:
        x = numbers(x)
        inside = (x > 0.0) & (x >= self.low) & (x <= self.high)
        y = np.log(np.where(inside, x, self.median))
        ends = log_limits((self.low, self.high))
        return np.where(inside, self._log.log_prob(np.clip(y, *ends)) - y, -np.inf)

    def expected(self) -> float:
        a, b = self._log._ends
        shifted = float(normal.log_mass(a - self.sigma, b - self.sigma) - normal.log_mass(a, b))
        return float(np.clip(self.median * np.exp(0.5 * self.sigma**2 + shifted), self.low, self.high))

    def cut(self, low: float, high: float) -> Distribution:
        if not (self.low == 0.0 and self.high == np.inf):
            return super().cut(low, high)
        return replace(self, low=max(low, 0.0), high=high)

    def scaled(self, factor: float, within: Limits) -> Self:
        log = self._log.scaled(factor, log_limits(within))
        low = 0.0 if self.low == 0.0 and within[0] <= 0.0 else inside(np.exp(log.low), within)
        return replace(self, median=np.exp(log.mean), sigma=log.sd, low=low, high=inside(np.exp(log.high), within))


@dataclass(frozen=True, kw_only=True)
class Beta(Distribution):
    """x = low + (high − low) b with b ~ Beta(a, b): uniform at a = b = 1, narrower as both grow."""

    kind: ClassVar[str] = "beta"
    low: float
    high: float
    a: float = 1.0
    b: float = 1.0

    def __post_init__(self):
        number(self, "low", "high")
        ordered(self)
        positive(self, "a", "b")

    @property
    def support(self) -> Limits:
        return self.low, self.high

    def _fraction(self, x: np.ndarray) -> np.ndarray:
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)

    def quantile(self, p: Any) -> np.ndarray:
        from scipy.special import betaincinv

        s = betaincinv(self.a, self.b, probabilities(p))
        return np.clip(self.low * (1.0 - s) + self.high * s, self.low, self.high)

    def cdf(self, x: Any) -> np.ndarray:
        from scipy.special import betainc

        return betainc(self.a, self.b, self._fraction(numbers(x)))

    def log_prob(self, x: Any) -> np.ndarray:
        from scipy.special import betaln, xlog1py, xlogy

        x = numbers(x)
        s = self._fraction(x)
        density = xlogy(self.a - 1.0, s) + xlog1py(self.b - 1.0, -s) - betaln(self.a, self.b)
        return np.where((x >= self.low) & (x <= self.high), density - np.log(self.high - self.low), -np.inf)

    def expected(self) -> float:
        return self.low + (self.high - self.low) * self.a / (self.a + self.b)

    def scaled(self, factor: float, within: Limits) -> Self:
        low, high = stretched(self.low, self.high, float(self.quantile(0.5)), factor, within)
        return replace(self, low=low, high=high)


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
