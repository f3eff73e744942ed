"""What is believed about one number: a density (or masses) with samples, quantiles and an interval that can be widened.

    Uniform  LogUniform  Normal  TruncatedNormal  LogNormal  Beta      distributions.py
    Point    Discrete    Empirical                                      atoms.py

Each is a frozen value. Densities are per unit of the number itself, also for those that live on the log axis.
"""

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.params.draws import draws

Limits = tuple[float, float]
EVERYWHERE: Limits = (-np.inf, np.inf)


class Distribution(ABC):
    """One unknown number. Subclasses are frozen dataclasses; `kind` is their name in files."""

    kind: ClassVar[str]
    registry: ClassVar[dict[str, type["Distribution"]]] = {}

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        Distribution.registry[cls.kind] = cls

    @property
    @abstractmethod
    def support(self) -> Limits:
        """Smallest and largest possible value; infinite where there is no limit."""

    @abstractmethod
    def quantile(self, p: Any) -> np.ndarray:
        """Smallest value that is not exceeded with probability p; same shape as p."""

    @abstractmethod
    def cdf(self, x: Any) -> np.ndarray:
        """Probability of a value <= x; same shape as x."""

    @abstractmethod
    def log_prob(self, x: Any) -> np.ndarray:
        """Log density per unit of x (log mass where values are discrete), −inf outside the support."""

    @abstractmethod
    def expected(self) -> float:
        """Mean value."""

    @abstractmethod
    def scaled(self, factor: float, within: Limits) -> Self:
        """Stretched by `factor`, above or below 1, about its median and cut to `within`; see `widen`."""

    @property
    def atoms(self) -> np.ndarray:
        """Values that carry probability of their own, ascending; none for a density."""
        return np.empty(0)

    @property
    def atomic(self) -> bool:
        """Whether single values carry probability, so that `log_prob` is a mass."""
        return self.atoms.size > 0

    def cut(self, low: float, high: float) -> "Distribution":
        """The distribution for a number that lies in [low, high]: open tails are cut, a closed range must fit."""
        lowest, highest = self.support
        if lowest < low or highest > high:
            raise InputError(
                f"{self} reaches from {lowest:g} to {highest:g}, outside the bounds {low:g} to {high:g}: "
                f"give a range inside them or change the bounds"
            )
        return self

    def sample(self, n: int, rng: int | np.random.Generator) -> np.ndarray:
        """`n` values, (n,); value i does not depend on n (see draws.py)."""
        return self.from_uniform(draws(n, rng).uniform(self.kind))

    def from_uniform(self, u: np.ndarray) -> np.ndarray:
        """Values from uniform numbers in (0, 1); the quantiles, unless a subclass has a quicker way."""
        return self.quantile(u)

    def widen(self, factor: float, within: Limits = EVERYWHERE) -> Self:
        """Every central interval `factor` times as wide (on the log axis where the distribution lives there).

        The median stays; nothing leaves `within`, the hard limits, so that the interval grows less where it meets them.
        """
        return self.scaled(checked_factor(factor, "widen", "narrow"), within)

    def narrow(self, factor: float) -> Self:
        """Every central interval `factor` times narrower; the inverse of `widen`."""
        return self.scaled(1.0 / checked_factor(factor, "narrow", "widen"), EVERYWHERE)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, exact; infinite limits and absent settings are left out."""
        out: dict[str, Any] = {"kind": self.kind}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None and not (isinstance(value, float) and np.isinf(value)):
                out[field.name] = list(value) if isinstance(value, tuple) else value
        return out


def distribution_from_dict(data: dict[str, Any]) -> Distribution:
    """The inverse of `Distribution.to_dict`."""
    if not isinstance(data, dict) or "kind" not in data:
        raise InputError(f"a distribution is a table with a 'kind' ({', '.join(Distribution.registry)}), not {data!r}")
    cls = Distribution.registry[choose(data["kind"], Distribution.registry, "a distribution")]
    known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    given = {k: v for k, v in data.items() if k != "kind"}
    for key in given:
        choose(key, known, f"a setting of the distribution '{cls.kind}'")
    try:
        return cls(**given)
    except TypeError:
        missing = [name for name in known if name not in given]
        raise InputError(f"the distribution '{cls.kind}' lacks {' or '.join(missing)}") from None


def number(owner: Any, *names: str, finite: bool = True) -> None:
    """Make the fields `names` of a frozen dataclass floats, or raise the sentence that says why one is none."""
    for name in names:
        given = getattr(owner, name)
        try:
            value = float(given)
        except (TypeError, ValueError):
            value = np.nan
        if np.isnan(value) or (finite and np.isinf(value)):
            raise InputError(f"{type(owner).__name__}: {name} must be a finite number, not {given!r}")
        object.__setattr__(owner, name, value)


def positive(owner: Any, *names: str) -> None:
    """Like `number`, and greater than zero."""
    number(owner, *names)
    for name in names:
        if getattr(owner, name) <= 0.0:
            raise InputError(f"{type(owner).__name__}: {name} must be greater than zero, not {getattr(owner, name):g}")


def numbers(x: Any) -> np.ndarray:
    """Values as float64; NaN is refused because it would silently count as 'outside'."""
    x = np.asarray(x, dtype=np.float64)
    if np.isnan(x).any():
        raise InputError(f"the probability of NaN was asked for ({int(np.isnan(x).sum())} of {x.size} values)")
    return x


def probabilities(p: Any) -> np.ndarray:
    """Probabilities as float64 in [0, 1]."""
    p = np.asarray(p, dtype=np.float64)
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise InputError(f"a probability lies between 0 and 1, not {p[~((p >= 0) & (p <= 1))].flat[0]:g}")
    return p


def checked_factor(factor: float, verb: str, inverse: str) -> float:
    """A factor of at least 1, or the sentence that names the other verb."""
    if not (np.isfinite(factor) and factor >= 1.0):
        hint = f": use {inverse}({1.0 / factor:.4g})" if np.isfinite(factor) and factor > 0.0 else ""
        raise InputError(f"{verb} needs a factor of 1 or more, not {factor!r}{hint}")
    return float(factor)


def ordered(owner: Any) -> None:
    """Raise unless low < high."""
    if not owner.low < owner.high:
        raise InputError(f"{type(owner).__name__}: low {owner.low:g} must be below high {owner.high:g}")


def stretched(low: float, high: float, centre: float, factor: float, within: Limits) -> Limits:
    """The range [low, high] stretched about `centre`, which must lie in `within`, and cut to it."""
    if not within[0] <= centre <= within[1]:
        raise InputError(f"the centre {centre:g} lies outside the limits {within[0]:g} to {within[1]:g}")
    new_low, new_high = centre + factor * (low - centre), centre + factor * (high - centre)
    return max(new_low, within[0]), min(new_high, within[1])


def log_limits(within: Limits) -> Limits:
    """Limits on the log axis; a limit at or below zero is none there."""
    return (np.log(within[0]) if within[0] > 0 else -np.inf), (np.log(within[1]) if within[1] > 0 else -np.inf)


def inside(x: float, within: Limits) -> float:
    """Undo the rounding of exp(log(limit))."""
    return float(np.clip(x, *within))
