"""The unconstrained coordinates of some scalars of e, the same as `Params.pack`, with their Jacobian.

s = (v − low) / (high − low)   or   ln(v / low) / ln(high / low) on a log scale
z = logit(s)                        p(v) = p(z) |dz/dv|
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.params.distribution import Limits

Columns = dict[str, np.ndarray]
"""Values of some scalars by label, each (worlds,)."""


def stacked(columns: Columns, labels: Sequence[str]) -> np.ndarray:
    """The columns called `labels` side by side, (worlds, k)."""
    return np.stack([columns[label] for label in labels], axis=-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Axes:
    """Bounds and scale of k scalars; all arrays are (k,).

    `low` = `high` (a fixed scalar) is allowed; such a scalar has no coordinate, see `free`.
    """

    labels: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    log: np.ndarray
    choices: np.ndarray
    """Which scalars take only chosen values, bool."""

    @property
    def free(self) -> np.ndarray:
        """Which scalars are continuous and have a width, (k,) bool."""
        return (self.high > self.low) & ~self.choices

    def take(self, labels: Iterable[str]) -> "Axes":
        """The axes of `labels`, in that order."""
        labels = tuple(labels)
        k = [self.labels.index(label) for label in labels]
        return Axes(labels=labels, low=self.low[k], high=self.high[k], log=self.log[k], choices=self.choices[k])

    def limits(self, label: str) -> Limits:
        """Bounds of one scalar."""
        k = self.labels.index(label)
        return float(self.low[k]), float(self.high[k])

    def _fraction(self, v: np.ndarray) -> np.ndarray:
        """Position s between the bounds, on the scalar's own scale; outside of [0, 1] for values out of bounds."""
        with np.errstate(divide="ignore", invalid="ignore"):
            linear = (v - self.low) / (self.high - self.low)
            ratio = np.log(np.where(self.log, v / self.low, 1.0)) / np.log(self.high / self.low)
        return np.where(self.log, np.where(v > 0.0, ratio, -1.0), linear)

    def to_z(self, v: np.ndarray) -> np.ndarray:
        """Coordinates of values (..., k): ±inf at a bound and beyond it."""
        s = np.clip(self._fraction(v), 0.0, 1.0)
        with np.errstate(divide="ignore"):
            return np.log(s) - np.log1p(-s)

    def from_z(self, z: np.ndarray) -> np.ndarray:
        """Values of coordinates (..., k), never outside the bounds."""
        s = 0.5 * (1.0 + np.tanh(0.5 * z))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.log, self.high / self.low, 1.0)
            v = np.where(self.log, self.low * ratio**s, self.low + s * (self.high - self.low))
        return np.clip(v, self.low, self.high)

    def log_slope(self, v: np.ndarray) -> np.ndarray:
        """Sum over the scalars of log |dz/dv|, (...), for values (..., k) inside the bounds."""
        s = self._fraction(v)
        with np.errstate(divide="ignore", invalid="ignore"):
            ds = np.where(self.log, 1.0 / (v * np.log(self.high / self.low)), 1.0 / (self.high - self.low))
            return np.sum(np.log(ds) - np.log(s) - np.log1p(-s), axis=-1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        out = {"labels": list(self.labels), "low": self.low.tolist(), "high": self.high.tolist()}
        out["log"] = self.log.tolist()
        if self.choices.any():
            out["choices"] = self.choices.tolist()
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any], what: str) -> "Axes":
        """The inverse of `to_dict`; `data` may hold other keys too."""
        labels = tuple(data.get("labels", ()))
        arrays = {}
        for name, kind in (("low", float), ("high", float), ("log", bool), ("choices", bool)):
            given = data.get(name, [False] * len(labels) if name == "choices" else None)
            if not isinstance(given, list) or len(given) != len(labels) or not labels:
                raise InputError(f"{what}: '{name}' must be a list with one entry for each of its labels {labels}")
            arrays[name] = array(given, (len(labels),), f"{what}: {name}").astype(kind)
        if (arrays["low"] > arrays["high"]).any() or (arrays["log"] & (arrays["low"] <= 0.0)).any():
            raise InputError(f"{what}: 'low' must not be above 'high', and above zero on a log scale")
        return cls(labels=labels, **arrays)


def array(values: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Finite float64 array of the given shape, made read-only."""
    try:
        out = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must hold numbers of shape {shape}") from None
    if out.shape != shape:
        raise InputError(f"{what} must have shape {shape}, not {out.shape}")
    if not np.isfinite(out).all():
        raise InputError(f"{what} holds {int((~np.isfinite(out)).sum())} values that are not finite numbers")
    out.setflags(write=False)
    return out
