# ruff: noqa: D102 (the methods of a distribution are explained once, in Distribution)
"""Distributions of one number that are made of values: a known value, a choice among a few, a set of samples."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from surefoot.errors import InputError
from surefoot.params import normal
from surefoot.params.distribution import (
    Distribution,
    Limits,
    inside,
    log_limits,
    number,
    numbers,
    ordered,
    probabilities,
    stretched,
)


def checked_weights(weights: Any, count: int, owner: str) -> tuple[float, ...]:
    """`count` weights that are not negative and sum to one, as given."""
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (count,):
        raise InputError(f"{owner}: {count} weights are needed, one for each, not {w.size}")
    if not (np.isfinite(w).all() and (w >= 0.0).all()):
        raise InputError(
            f"{owner}: weights must be finite and not negative, not {w[~(w >= 0.0)].tolist() or w.tolist()}"
        )
    if abs(w.sum() - 1.0) > 1e-6:
        raise InputError(f"{owner}: weights must sum to 1, they sum to {w.sum():.6g}: divide them by their sum")
    return tuple(w.tolist())


def cumulated(weights: Any) -> np.ndarray:
    """Cumulated weights, ending in exactly 1."""
    sums = np.cumsum(np.asarray(weights, dtype=np.float64))
    return sums / sums[-1]


def finite_values(values: Any, owner: str) -> np.ndarray:
    """At least one value, all finite, (m,)."""
    v = np.asarray(values, dtype=np.float64)
    if v.ndim != 1 or v.size == 0 or not np.isfinite(v).all():
        raise InputError(
            f"{owner}: values must be a list of at least one finite number, not {np.shape(values)} with "
            f"{int((~np.isfinite(v)).sum())} not finite"
        )
    return v


@dataclass(frozen=True, kw_only=True)
class Point(Distribution):
    """A known value. It has no width: widening and narrowing leave it as it is."""

    kind: ClassVar[str] = "point"
    value: float

    def __post_init__(self):
        number(self, "value")

    @property
    def atoms(self) -> np.ndarray:
        return np.array([self.value])

    @property
    def support(self) -> Limits:
        return self.value, self.value

    def quantile(self, p: Any) -> np.ndarray:
        return np.full(probabilities(p).shape, self.value)

    def cdf(self, x: Any) -> np.ndarray:
        return (numbers(x) >= self.value).astype(np.float64)

    def log_prob(self, x: Any) -> np.ndarray:
        return np.where(np.isclose(numbers(x), self.value, rtol=1e-12, atol=0.0), 0.0, -np.inf)

    def expected(self) -> float:
        return self.value

    def scaled(self, factor: float, within: Limits) -> Self:
        return self


@dataclass(frozen=True, kw_only=True)
class Discrete(Distribution):
    """P(x = values[k]) = weights[k]; equal weights when none are given. Values are kept in ascending order.

    Widening by f replaces each weight by its power 1/f (and normalises): it evens out what is likely and keeps
    impossible what is impossible.
    """

    kind: ClassVar[str] = "discrete"
    values: tuple[float, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self):
        values = finite_values(self.values, "Discrete")
        order = np.argsort(values)
        if (np.diff(values[order]) == 0.0).any():
            raise InputError(f"Discrete: values must differ from each other, not {values.tolist()}")
        weights = np.full(values.size, 1.0 / values.size) if len(self.weights) == 0 else self.weights
        weights = np.array(checked_weights(weights, values.size, "Discrete"))
        object.__setattr__(self, "values", tuple(values[order].tolist()))
        object.__setattr__(self, "weights", tuple(weights[order].tolist()))

    @property
    def atoms(self) -> np.ndarray:
        return np.asarray(self.values)

    @property
    def support(self) -> Limits:
        return self.values[0], self.values[-1]

    def quantile(self, p: Any) -> np.ndarray:
        last = int(np.flatnonzero(self.weights)[-1])
        k = np.searchsorted(cumulated(self.weights), probabilities(p), side="left")
        return np.asarray(self.values)[np.minimum(k, last)]

    def cdf(self, x: Any) -> np.ndarray:
        below = np.concatenate([[0.0], cumulated(self.weights)])
        return below[np.searchsorted(self.values, numbers(x), side="right")]

    def log_prob(self, x: Any) -> np.ndarray:
        hit = np.isclose(numbers(x)[..., None], np.asarray(self.values), rtol=1e-12, atol=0.0)
        with np.errstate(divide="ignore"):
            return np.log(hit @ np.asarray(self.weights))

    def expected(self) -> float:
        return float(np.dot(self.values, np.asarray(self.weights)) / np.sum(self.weights))

    def scaled(self, factor: float, within: Limits) -> Self:
        self.cut(*within)
        weights = np.asarray(self.weights) ** (1.0 / factor)
        return replace(self, weights=tuple((weights / weights.sum()).tolist()))


@dataclass(frozen=True, kw_only=True)
class Empirical(Distribution):
    """Samples of a number, each a possible value; with `smoothing` each one spreads to a normal kernel.

    Attributes:
        values: the samples, (m,).
        weights: one for each sample, summing to 1; equal when absent.
        smoothing: standard deviation of the kernel, in the unit of the values (of ln x on a log scale); 0: none, and
            `log_prob` is then a mass, −inf between samples.
        scale: axis on which kernels are symmetric and on which widening stretches.
        low, high: kernels are cut here.
    """

    kind: ClassVar[str] = "empirical"
    values: tuple[float, ...]
    weights: tuple[float, ...] | None = None
    smoothing: float = 0.0
    scale: Literal["linear", "log"] = "linear"
    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self):
        values = finite_values(self.values, "Empirical")
        number(self, "low", "high", finite=False)
        number(self, "smoothing")
        ordered(self)
        if self.smoothing < 0.0:
            raise InputError(f"Empirical: smoothing must not be negative, not {self.smoothing:g}")
        if self.scale not in ("linear", "log"):
            raise InputError(f"Empirical: scale is 'linear' or 'log', not {self.scale!r}")
        if values.min() < self.low or values.max() > self.high or (self.scale == "log" and values.min() <= 0.0):
            least = max(self.low, 0.0) if self.scale == "log" else self.low
            raise InputError(
                f"Empirical: values from {values.min():g} to {values.max():g} leave {least:g} to {self.high:g}"
            )
        object.__setattr__(self, "values", tuple(values.tolist()))
        if self.weights is not None:
            object.__setattr__(self, "weights", checked_weights(self.weights, values.size, "Empirical"))

    @property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Samples on their axis in ascending order, and their weights; (m,), (m,)."""
        values = np.asarray(self.values)
        weights = np.full(values.size, 1.0 / values.size) if self.weights is None else np.asarray(self.weights)
        order = np.argsort(values, kind="stable")
        return self._to_axis(values[order]), weights[order]

    @property
    def _limits(self) -> Limits:
        return log_limits((self.low, self.high)) if self.scale == "log" else (self.low, self.high)

    def _to_axis(self, x: np.ndarray) -> np.ndarray:
        if self.scale == "linear":
            return x
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(x, 0.0))

    def _from_axis(self, y: np.ndarray) -> np.ndarray:
        x = np.exp(y) if self.scale == "log" else y
        return np.clip(x, self.low, self.high)

    def _ends(self, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._limits
        return (low - centres) / self.smoothing, (high - centres) / self.smoothing

    @property
    def atoms(self) -> np.ndarray:
        return np.empty(0) if self.smoothing else np.unique(self.values)

    @property
    def support(self) -> Limits:
        if self.smoothing:
            return max(self.low, 0.0) if self.scale == "log" else self.low, self.high
        return min(self.values), max(self.values)

    def from_uniform(self, u: np.ndarray) -> np.ndarray:
        """One uniform number picks the sample by its leading bits and the place in its kernel by the rest."""
        centres, weights = self._sorted
        sums = cumulated(weights)
        k = np.minimum(np.searchsorted(sums, u, side="left"), int(np.flatnonzero(weights)[-1]))
        if not self.smoothing:
            return self._from_axis(centres[k])
        rest = np.clip((u - (sums - weights)[k]) / weights[k], 2.0**-53, 1.0 - 2.0**-53)
        return self._from_axis(centres[k] + self.smoothing * normal.quantile(rest, *self._ends(centres[k])))

    def quantile(self, p: Any) -> np.ndarray:
        p = probabilities(p)
        centres, weights = self._sorted
        if not self.smoothing:
            k = np.searchsorted(cumulated(weights), p, side="left")
            return self._from_axis(centres[np.minimum(k, int(np.flatnonzero(weights)[-1]))])
        low = max(self._limits[0], centres[0] - 40.0 * self.smoothing)
        high = min(self._limits[1], centres[-1] + 40.0 * self.smoothing)
        return self._from_axis(normal.invert(self._cdf_on_axis, p, low, high))

    def _cdf_on_axis(self, y: np.ndarray) -> np.ndarray:
        centres, weights = self._sorted
        return normal.cdf((y[..., None] - centres) / self.smoothing, *self._ends(centres)) @ weights

    def cdf(self, x: Any) -> np.ndarray:
        y = self._to_axis(numbers(x))
        if self.smoothing:
            return self._cdf_on_axis(y)
        centres, weights = self._sorted
        return np.concatenate([[0.0], cumulated(weights)])[np.searchsorted(centres, y, side="right")]

    def log_prob(self, x: Any) -> np.ndarray:
        x = numbers(x)
        y = self._to_axis(x)
        centres, weights = self._sorted
        with np.errstate(divide="ignore"):
            if not self.smoothing:
                return np.log(
                    np.isclose(x[..., None], np.exp(centres) if self.scale == "log" else centres, rtol=1e-12, atol=0.0)
                    @ weights
                )
            each = normal.log_prob((y[..., None] - centres) / self.smoothing, *self._ends(centres))
            density = np.logaddexp.reduce(each + np.log(weights), axis=-1) - np.log(self.smoothing)
        return density - np.where(np.isfinite(y), y, 0.0) if self.scale == "log" else density

    def expected(self) -> float:
        centres, weights = self._sorted
        if self.smoothing and self.scale == "log":
            nodes, node_weights = np.polynomial.legendre.leggauss(200)
            return float(self.quantile(0.5 + 0.5 * nodes) @ (0.5 * node_weights))
        if self.smoothing:
            centres = centres + self.smoothing * normal.expected(*self._ends(centres))
        return float(self._from_axis(centres) @ weights)

    def cut(self, low: float, high: float) -> Distribution:
        if not (self.smoothing and self.low == -np.inf and self.high == np.inf):
            return super().cut(low, high)
        return replace(self, low=low, high=high)

    def scaled(self, factor: float, within: Limits) -> Self:
        limits = log_limits(within) if self.scale == "log" else within
        centre = float(self._to_axis(self.quantile(0.5)))
        low, high = stretched(*self._limits, centre, factor, limits)
        moved = np.clip(centre + factor * (self._to_axis(np.asarray(self.values)) - centre), *limits)
        if self.scale == "log":
            moved, low, high = np.exp(moved), np.exp(low), np.exp(high)
        return replace(
            self,
            values=tuple(np.clip(moved, *within).tolist()),
            smoothing=self.smoothing * factor,
            low=inside(low, within) if np.isfinite(self.low) or np.isfinite(within[0]) else self.low,
            high=inside(high, within),
        )
