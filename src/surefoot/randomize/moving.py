"""The scalars of e that a schedule moves, each on its own axis.

    s = (v − low) / (high − low)    or    ln(v / low) / ln(high / low) on a log scale        0 <= s <= 1 in the bounds

A step of s is a difference on a linear scale and a ratio on a log scale.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from surefoot.errors import InputError
from surefoot.params import LogUniform, Prior, Uniform
from surefoot.params.distribution import Distribution
from surefoot.params.prior import labels_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Moving:
    """m continuous scalars of a schema; all arrays are (m,)."""

    labels: tuple[str, ...]
    columns: np.ndarray
    """Their columns in `params.flatten`."""
    low: np.ndarray
    high: np.ndarray
    log: np.ndarray
    centre: np.ndarray
    """Position of the nominal value, cut to 0..1."""

    def __len__(self) -> int:
        return len(self.labels)

    def position(self, v: np.ndarray) -> np.ndarray:
        """Natural values (k, m) -> positions s (k, m)."""
        floor = np.where(self.log, self.low, 1.0)
        ratio = np.log(np.where(self.log, np.maximum(v, 1e-300), 1.0) / floor) / self._decades
        return np.where(self.log, ratio, (v - self.low) / (self.high - self.low))

    def value(self, s: np.ndarray) -> np.ndarray:
        """Positions s (..., m) -> natural values, never outside the bounds."""
        linear = self.low * (1.0 - s) + self.high * s
        return np.clip(np.where(self.log, self.low * np.exp(s * self._decades), linear), self.low, self.high)

    @property
    def _decades(self) -> np.ndarray:
        """ln(high / low) on a log scale, 1 elsewhere."""
        return np.log(np.where(self.log, self.high, np.e) / np.where(self.log, self.low, 1.0))

    def between(self, i: int, low: float, high: float) -> Distribution:
        """Uniform between two natural values of scalar i, on its own axis."""
        return LogUniform(low=low, high=high) if self.log[i] else Uniform(low=low, high=high)


def moving(prior: Prior, names: Iterable[str] = ()) -> Moving:
    """The scalars of the Params called `names`; without names all that can move.

    Choices, known values (low = high, or a Point in the prior) and Params with one value per Sim cannot.
    """
    params = prior.params
    names = tuple(names)
    for name in names:
        labels_of(params, name)
        if not _can_move(prior, name):
            raise InputError(f"param '{name}' cannot be moved: it is known, takes choices, or has one value per Sim")
    chosen = [name for name in params if (name in names if names else _can_move(prior, name))]
    labels = tuple(label for name in chosen for label in labels_of(params, name))
    if not labels:
        raise InputError("none of the params can be moved: give at least one that is continuous, with low < high")
    columns = np.array([params.names.index(label) for label in labels])
    low, high, log = params.low[columns], params.high[columns], params.log[columns]
    ends = {"labels": labels, "columns": columns, "low": low, "high": high, "log": log}
    centre = Moving(**ends, centre=np.zeros(len(labels))).position(params.nominal[columns])
    return Moving(**ends, centre=np.clip(centre, 0.0, 1.0))


def _can_move(prior: Prior, name: str) -> bool:
    if name not in prior.params:
        return False
    param = prior.params[name]
    free = param.choices is None and param.low < param.high and param.about.per == "world"
    return free and not any(prior.product.atomic(label) for label in labels_of(prior.params, name))
