"""Intervals that are honest with few trials."""

from dataclasses import dataclass
from math import isfinite, isnan, sqrt
from typing import Any

import numpy as np

Z90 = 1.6448536269514722
"""Normal quantile of a two-sided 90 % interval."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and its 90 % interval; all NaN where nothing could be counted."""

    value: float
    low: float
    high: float
    count: int
    """How many worlds (or draws of e) it rests on."""

    @property
    def positive(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low > 0.0

    def show(self, scale: float = 1.0, digits: int = 3) -> str:
        """`value (low .. high)` with `digits` significant ones; empty where nothing could be counted."""
        if isnan(self.value):
            return ""
        value, low, high = (f"{_rounded(scale * x, digits)}" for x in (self.value, self.low, self.high))
        return f"{value} ({low} .. {high})"

    def to_list(self) -> list[float | None]:
        """[value, low, high] for JSON, None for what is not a finite number."""
        return [float(x) if isfinite(x) else None for x in (self.value, self.low, self.high)]


def _rounded(x: float, digits: int) -> str:
    if not isfinite(x):
        return f"{x}"
    size = int(np.floor(np.log10(abs(x)))) if abs(x) > 1e-12 else 0
    return f"{x:.{max(0, digits - 1 - size)}f}" if -5 < size < 7 else f"{x:.{digits - 1}e}"


def wilson(successes: int, trials: int, *, z: float = Z90) -> tuple[float, float]:
    """Wilson's interval of a share: all p with |p̂ - p| <= z sqrt(p (1 - p) / n); z = 1.645 covers 90 %.

    Unlike p̂ ± z sqrt(p̂ (1 - p̂) / n) it does not shrink to a point at 0 and 1.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(
            f"{successes} successes of {trials} trials: give at least one trial and no more successes than trials"
        )
    share, w = successes / trials, z * z / trials
    middle = (share + w / 2) / (1 + w)
    half = z / (1 + w) * sqrt(share * (1 - share) / trials + w / (4 * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def share(happened: Any) -> Estimate:
    """Share of worlds where something happened, (worlds,) of 0 and 1, with Wilson's interval; NaN is left out."""
    x = _finite(happened)
    if not x.size:
        return _nothing()
    low, high = wilson(round(float(x.sum())), x.size)
    return Estimate(value=float(x.mean()), low=low, high=high, count=x.size)


def mean(values: Any) -> Estimate:
    """Mean over worlds, (worlds,), with Student's interval x̄ ± t(n - 1) s / sqrt(n); NaN is left out.

    With a single value the interval is everything: nothing is known about the spread.
    """
    from scipy.special import stdtrit

    x = _finite(values)
    if not x.size:
        return _nothing()
    middle = float(x.mean())
    half = float(stdtrit(x.size - 1, 0.95) * x.std(ddof=1) / sqrt(x.size)) if x.size > 1 else np.inf
    return Estimate(value=middle, low=middle - half, high=middle + half, count=x.size)


def mean_difference(first: Any, second: Any) -> Estimate:
    """Mean of first - second over the same worlds: the interval of the differences, world by world."""
    return mean(np.asarray(first, float) - np.asarray(second, float))


def share_difference(first: Any, second: Any) -> Estimate:
    """Difference of two shares over the same worlds, first - second, with Newcombe's interval for pairs.

        low  = d - sqrt((p - l)² - 2 φ (p - l)(U - P) + (U - P)²)        (p, l, u), (P, L, U): the shares with Wilson's ends
        high = d + sqrt((P - L)² - 2 φ (P - L)(u - p) + (u - p)²)        φ: correlation of the pairs, continuity corrected

    Unlike Student's it does not shrink to a point when the two agree in every world (Newcombe 1998, method 10).
    """
    a, b = np.asarray(first, float), np.asarray(second, float)
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    n = a.size
    if not n:
        return _nothing()
    (p, lp, up), (q, lq, uq) = ((x.mean(), *wilson(round(float(x.sum())), n)) for x in (a, b))
    only_a, only_b, neither, together = (
        float((x * y).sum()) for x, y in ((a, 1 - b), (1 - a, b), (1 - a, 1 - b), (a, b))
    )
    product = together * neither - only_a * only_b
    scale = (together + only_a) * (only_b + neither) * (together + only_b) * (only_a + neither)
    product = max(product - n / 2, 0.0) if product > 0 else product
    phi = product / sqrt(scale) if scale > 0 else 0.0
    below = sqrt(max((p - lp) ** 2 - 2 * phi * (p - lp) * (uq - q) + (uq - q) ** 2, 0.0))
    above = sqrt(max((q - lq) ** 2 - 2 * phi * (q - lq) * (up - p) + (up - p) ** 2, 0.0))
    d = float(p - q)
    return Estimate(value=d, low=max(-1.0, d - below), high=min(1.0, d + above), count=n)


def _finite(values: Any) -> np.ndarray:
    x = np.asarray(values, float).reshape(-1)
    return x[np.isfinite(x)]


def _nothing() -> Estimate:
    return Estimate(value=float("nan"), low=float("nan"), high=float("nan"), count=0)
