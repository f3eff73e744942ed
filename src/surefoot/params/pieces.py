# ruff: noqa: D102 (the methods of a piece are explained once, in Piece)
"""The independent pieces a Prior is made of: what a piece can do, one scalar alone, elements that share a value.

    p(e) = Π_pieces p(the scalars of the piece)

Joint pieces of several scalars are in joints.py; products and mixtures of pieces in product.py.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from surefoot.errors import InputError
from surefoot.params import normal
from surefoot.params.axes import Columns, stacked
from surefoot.params.distribution import (
    EVERYWHERE,
    Distribution,
    Limits,
    distribution_from_dict,
    inside,
    log_limits,
    number,
    ordered,
    positive,
    stretched,
)
from surefoot.params.draws import Draws


class Piece(Protocol):
    """A distribution over some labelled scalars of e, in natural units."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The scalars it is about."""
        ...

    def draw(self, draws: Draws) -> Columns:
        """One value for each label and world."""
        ...

    def log_prob(self, columns: Columns) -> np.ndarray:
        """Log density per natural unit (mass where `atomic`), (worlds,)."""
        ...

    def cdf(self, label: str, x: np.ndarray) -> np.ndarray:
        """Marginal probability of values <= x."""
        ...

    def quantile(self, label: str, p: np.ndarray) -> np.ndarray:
        """Marginal quantile."""
        ...

    def support(self, label: str) -> Limits:
        """Smallest and largest possible value."""
        ...

    def atomic(self, label: str) -> bool:
        """Whether single values of `label` carry probability."""
        ...

    def expected(self) -> dict[str, float]:
        """Mean of each label."""
        ...

    def scaled(self, factor: float, limits: Mapping[str, Limits]) -> "Piece":
        """Stretched by `factor` about the medians, inside `limits`."""
        ...

    def keep(self, labels: Iterable[str]) -> "Piece":
        """Marginal over `labels`, at least one of its own."""
        ...

    def given(self, values: Mapping[str, float], kernel: float | None) -> tuple["Piece | None", float]:
        """What is left when the labels in `values` are known, and the log density of `values`."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        ...


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """One scalar with a distribution of its own."""

    label: str
    distribution: Distribution

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,)

    def draw(self, draws: Draws) -> Columns:
        return {self.label: self.distribution.from_uniform(draws.uniform(self.label))}

    def log_prob(self, columns: Columns) -> np.ndarray:
        return self.distribution.log_prob(columns[self.label])

    def cdf(self, label: str, x: np.ndarray) -> np.ndarray:
        return self.distribution.cdf(x)

    def quantile(self, label: str, p: np.ndarray) -> np.ndarray:
        return self.distribution.quantile(p)

    def support(self, label: str) -> Limits:
        return self.distribution.support

    def atomic(self, label: str) -> bool:
        return self.distribution.atomic

    def expected(self) -> dict[str, float]:
        return {self.label: self.distribution.expected()}

    def scaled(self, factor: float, limits: Mapping[str, Limits]) -> Self:
        within = limits.get(self.label, EVERYWHERE)
        try:
            return replace(self, distribution=self.distribution.scaled(factor, within))
        except InputError as error:
            raise InputError(f"'{self.label}': {error}") from None

    def keep(self, labels: Iterable[str]) -> Self:
        return self

    def given(self, values: Mapping[str, float], kernel: float | None) -> tuple[None, float]:
        return None, float(self.distribution.log_prob(values[self.label]))

    def to_dict(self) -> dict[str, Any]:
        return self.distribution.to_dict()


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Elements that resemble each other: a value common to a world, plus a deviation of each element's own.

        v_k = shared + own_k          own_k ~ N(0, own²)          linear scale
        v_k = shared · exp(own_k)                                 log scale

    Far from the bounds, with a shared standard deviation σ, the elements have the covariance σ² 11ᵀ + own² I:
    unit-to-unit spread is σ, left/right or joint-to-joint spread is `own`. Own deviations are cut where v_k would leave
    the bounds.

    Attributes:
        shared: distribution of the common value, in the Param's unit.
        own: standard deviation of the own part, in the Param's unit; of ln v on a log scale.
    """

    shared: Distribution
    own: float

    def __post_init__(self):
        if not isinstance(self.shared, Distribution):
            raise InputError(
                f"Spread: shared must be a distribution such as Uniform(low=.., high=..), not {self.shared!r}"
            )
        positive(self, "own")


@functools.cache
def quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Nodes in (0, 1) and weights of Gauss-Legendre quadrature, enough for a bell 30 times narrower than the range."""
    t, weight = np.polynomial.legendre.leggauss(200)
    return 0.5 + 0.5 * t, 0.5 * weight


@dataclass(frozen=True, kw_only=True)
class Elements:
    """The elements of one Param under a `Spread`, inside the bounds [low, high]."""

    name: str
    labels: tuple[str, ...]
    spread: Spread
    low: float
    high: float
    log: bool

    def __post_init__(self):
        number(self, "low", "high")
        ordered(self)
        if self.log and self.low <= 0.0:
            raise InputError(f"'{self.name}': a log scale needs low > 0, not {self.low:g}")
        self.spread.shared.cut(self.low, self.high)

    def _axis(self, v: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(v, 0.0)) if self.log else v

    def _natural(self, y: Any) -> Any:
        return np.clip(np.exp(y) if self.log else y, self.low, self.high)

    @property
    def _ends(self) -> Limits:
        return log_limits((self.low, self.high)) if self.log else (self.low, self.high)

    def _own_ends(self, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, high = self._ends
        return (low - shared) / self.spread.own, (high - shared) / self.spread.own

    def draw(self, draws: Draws) -> Columns:
        shared = self._axis(self.spread.shared.from_uniform(draws.uniform(self.name)))  # (n,)
        a, b = self._own_ends(shared)
        own = {label: normal.quantile(draws.uniform(label), a, b) for label in self.labels}
        return {label: self._natural(shared + self.spread.own * z) for label, z in own.items()}

    def _shared_nodes(self, middle: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
        """Values of the shared part on its axis and their log weights, (n, nodes): where middle ± width is likely."""
        shared = self.spread.shared
        if shared.atomic:
            values = np.broadcast_to(shared.atoms, (middle.size, shared.atoms.size))
            return self._axis(values), shared.log_prob(values)
        ends = self._axis(shared.quantile(np.array([1e-13, 1.0 - 1e-13])))
        low, high = np.maximum(ends[0], middle - width), np.minimum(ends[1], middle + width)
        apart = low >= high
        low, high = np.where(apart, ends[0], low), np.where(apart, ends[1], high)
        t, weight = quadrature()
        y = low[:, None] + (high - low)[:, None] * t
        slope = y if self.log else 0.0
        density = shared.log_prob(np.exp(y) if self.log else y) + slope
        return y, density + np.log(weight) + np.log(high - low)[:, None]

    def log_prob(self, columns: Columns) -> np.ndarray:
        """log ∫ p(shared) Π_k p(v_k | shared) d shared, by quadrature where the integrand lives."""
        v = stacked(columns, self.labels)  # (n, k)
        legal = ((v >= self.low) & (v <= self.high)).all(-1)
        y = self._axis(np.clip(v, self.low, self.high))
        own = self.spread.own
        # The likelihood of the shared value peaks within one `own` of the mean, with standard deviation own / √k.
        width = (9.0 / np.sqrt(len(self.labels)) + 1.0) * own
        shared, log_weight = self._shared_nodes(y.mean(-1), width)  # (n, nodes)
        a, b = self._own_ends(shared)
        z = (y[:, None, :] - shared[..., None]) / own  # (n, nodes, k)
        each = -0.5 * z * z - normal.HALF_LOG_2PI - np.log(own) - normal.log_mass(a, b)[..., None]
        total = np.logaddexp.reduce(each.sum(-1) + log_weight, axis=-1)
        return np.where(legal, total - (y.sum(-1) if self.log else 0.0), -np.inf)

    def _all_shared(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of the shared part on its axis and their probabilities, (nodes,)."""
        shared = self.spread.shared
        if shared.atomic:
            return self._axis(shared.atoms), np.exp(shared.log_prob(shared.atoms))
        t, weight = quadrature()
        return self._axis(shared.quantile(t)), weight

    def cdf(self, label: str, x: np.ndarray) -> np.ndarray:
        shared, weight = self._all_shared()
        y = self._axis(np.clip(x, self.low, self.high))
        below = normal.cdf((y[..., None] - shared) / self.spread.own, *self._own_ends(shared)) @ weight
        return np.where(np.asarray(x) < self.low, 0.0, below)

    def quantile(self, label: str, p: np.ndarray) -> np.ndarray:
        return normal.invert(lambda x: self.cdf(label, x), np.asarray(p, float), self.low, self.high)

    def support(self, label: str) -> Limits:
        return self.low, self.high

    def atomic(self, label: str) -> bool:
        return False

    def expected(self) -> dict[str, float]:
        shared, weight = self._all_shared()
        a, b = self._own_ends(shared)
        own = self.spread.own
        if self.log:
            mean = np.exp(shared + 0.5 * own**2 + normal.log_mass(a - own, b - own) - normal.log_mass(a, b))
        else:
            mean = shared + own * normal.expected(a, b)
        return dict.fromkeys(self.labels, float(np.clip(mean @ weight, self.low, self.high)))

    def scaled(self, factor: float, limits: Mapping[str, Limits]) -> Self:
        within = limits.get(self.labels[0], EVERYWHERE)
        axis_limits = log_limits(within) if self.log else within
        centre = float(self._axis(self.spread.shared.quantile(0.5)))
        low, high = stretched(*self._ends, centre, factor, axis_limits)
        if self.log:
            low, high = inside(np.exp(low), within), inside(np.exp(high), within)
        shared = self.spread.shared.scaled(factor, (low, high))
        return replace(self, spread=Spread(shared=shared, own=self.spread.own * factor), low=low, high=high)

    def keep(self, labels: Iterable[str]) -> Self:
        return replace(self, labels=tuple(label for label in self.labels if label in set(labels)))

    def given(self, values: Mapping[str, float], kernel: float | None) -> tuple[None, float]:
        missing = [label for label in self.labels if label not in values]
        if missing:
            raise InputError(
                f"'{self.name}' has a Spread, which is conditioned on all its elements or none: give also "
                f"{', '.join(missing)}, or use a Gaussian"
            )
        return None, float(self.log_prob({k: np.atleast_1d(values[k]) for k in self.labels})[0])

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "spread", "name": self.name, "labels": list(self.labels), "shared": self.spread.shared.to_dict(),
            "own": self.spread.own, "low": self.low, "high": self.high, "log": self.log,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        try:
            spread = Spread(shared=distribution_from_dict(data["shared"]), own=data["own"])
            ends = {"low": float(data["low"]), "high": float(data["high"]), "log": bool(data["log"])}
            return cls(name=data["name"], labels=tuple(data["labels"]), spread=spread, **ends)
        except KeyError as error:
            raise InputError(f"a spread lacks {error}") from None
