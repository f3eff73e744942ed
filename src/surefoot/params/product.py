# ruff: noqa: D102 (the methods of a piece are explained once, in Piece)
"""Pieces side by side, and one of several at a time.

Product   p(e) = Π_i p_i(the scalars of piece i)          Mixture   p(e) = Σ_k weights_k p_k(e)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.params import normal
from surefoot.params.atoms import checked_weights, cumulated
from surefoot.params.axes import Columns
from surefoot.params.distribution import Limits, distribution_from_dict
from surefoot.params.draws import Draws
from surefoot.params.joints import Gaussian, Samples
from surefoot.params.pieces import Elements, Marginal, Piece


@dataclass(frozen=True, kw_only=True)
class Product:
    """Independent pieces; no scalar in two of them."""

    pieces: tuple[Piece, ...]

    def __post_init__(self):
        labels = self.labels
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise InputError(f"'{twice[0]}' has more than one distribution: give it one")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(label for piece in self.pieces for label in piece.labels)

    def of(self, label: str) -> Piece:
        """The piece that holds `label`."""
        return next(piece for piece in self.pieces if label in piece.labels)

    def draw(self, draws: Draws) -> Columns:
        return {label: v for piece in self.pieces for label, v in piece.draw(draws).items()}

    def log_prob(self, columns: Columns) -> np.ndarray:
        worlds = len(next(iter(columns.values())))
        return sum((piece.log_prob(columns) for piece in self.pieces), np.zeros(worlds))

    def cdf(self, label: str, x: np.ndarray) -> np.ndarray:
        return self.of(label).cdf(label, x)

    def quantile(self, label: str, p: np.ndarray) -> np.ndarray:
        return self.of(label).quantile(label, p)

    def support(self, label: str) -> Limits:
        return self.of(label).support(label)

    def atomic(self, label: str) -> bool:
        return self.of(label).atomic(label)

    def expected(self) -> dict[str, float]:
        return {label: v for piece in self.pieces for label, v in piece.expected().items()}

    def scaled(self, factor: float, limits: Mapping[str, Limits]) -> "Product":
        return Product(pieces=tuple(piece.scaled(factor, limits) for piece in self.pieces))

    def keep(self, labels: Iterable[str]) -> "Product":
        labels = set(labels)
        return Product(pieces=tuple(p.keep(labels) for p in self.pieces if labels.intersection(p.labels)))

    def given(self, values: Mapping[str, float], kernel: float | None) -> tuple["Product", float]:
        kept: list[Piece] = []
        total = 0.0
        for piece in self.pieces:
            known = {label: values[label] for label in piece.labels if label in values}
            rest, log_density = piece.given(known, kernel) if known else (piece, 0.0)
            kept += [rest] if rest is not None else []
            total += log_density
        return Product(pieces=tuple(kept)), total

    def with_pieces(self, pieces: Iterable[Piece]) -> "Product":
        """The product with `pieces` in place of what it said about their labels."""
        pieces = tuple(pieces)
        new = {label for piece in pieces for label in piece.labels}
        return Product(pieces=self.keep(set(self.labels) - new).pieces + pieces)

    def to_dict(self) -> dict[str, Any]:
        """Marginals by label, then the joint pieces; both in the order of their labels' names."""
        alone = {p.label: p.to_dict() for p in self.pieces if isinstance(p, Marginal)}
        joints = [p for p in self.pieces if not isinstance(p, Marginal)]
        out: dict[str, Any] = {"marginals": dict(sorted(alone.items()))} if alone else {}
        if joints:
            out["joints"] = [p.to_dict() for p in sorted(joints, key=lambda p: min(p.labels))]
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Product":
        """The inverse of `to_dict`."""
        alone = data.get("marginals", {})
        if not isinstance(alone, Mapping) or not isinstance(data.get("joints", []), list):
            raise InputError("a prior holds a table 'marginals' and a list of tables 'joints'")
        pieces: list[Piece] = []
        for label, entry in alone.items():
            pieces.append(Marginal(label=label, distribution=named_distribution(label, entry)))
        pieces += [joint_from_dict(entry) for entry in data.get("joints", [])]
        return cls(pieces=tuple(pieces))


def named_distribution(label: str, entry: Any):
    """Distribution from plain data; an error names the label it is about."""
    try:
        return distribution_from_dict(entry)
    except InputError as error:
        raise InputError(f"'{label}': {error}") from None


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """With probability weights[k], e comes from components[k]; all are about the same scalars."""

    components: tuple[Product, ...]
    weights: tuple[float, ...]

    def __post_init__(self):
        if not self.components:
            raise InputError("Mixture: at least one component is needed")
        object.__setattr__(self, "weights", checked_weights(self.weights, len(self.components), "Mixture"))
        for k, component in enumerate(self.components):
            if set(component.labels) != set(self.labels):
                odd = sorted(set(component.labels) ^ set(self.labels))
                raise InputError(f"Mixture: component {k} and component 0 differ in {', '.join(odd)}")

    @property
    def labels(self) -> tuple[str, ...]:
        return self.components[0].labels

    def draw(self, draws: Draws) -> Columns:
        own = draws.below("mixture of " + ",".join(sorted(self.labels)))
        pick = np.searchsorted(cumulated(self.weights), own.uniform("component"))
        each = [component.draw(own.below(str(k))) for k, component in enumerate(self.components)]
        world = np.arange(draws.n)
        return {label: np.stack([columns[label] for columns in each])[pick, world] for label in self.labels}

    def _weighed(self, log_densities: Iterable[Any]) -> np.ndarray:
        """log(weights_k p_k), (components, ...)."""
        for label in self.labels:
            if len({component.atomic(label) for component in self.components}) > 1:
                raise InputError(
                    f"'{label}' is a density in one component of a mixture and single values in another, so that it "
                    f"has no common density: give the samples a jitter or smoothing"
                )
        with np.errstate(divide="ignore"):
            return np.stack([np.log(w) + d for w, d in zip(self.weights, log_densities, strict=True)])

    def log_prob(self, columns: Columns) -> np.ndarray:
        return np.logaddexp.reduce(self._weighed(c.log_prob(columns) for c in self.components), axis=0)

    def cdf(self, label: str, x: np.ndarray) -> np.ndarray:
        parts = zip(self.weights, self.components, strict=True)
        return np.sum([w * component.cdf(label, x) for w, component in parts], axis=0)

    def quantile(self, label: str, p: np.ndarray) -> np.ndarray:
        # Cumulated weights fall short of 1 by rounding; the last value must still be found.
        x = normal.invert(lambda x: self.cdf(label, x) + 1e-15, np.asarray(p, float), *self.support(label))
        if not self.atomic(label):
            return x
        values = np.stack([c.quantile(label, np.minimum(c.cdf(label, x), 1.0)) for c in self.components])
        return np.max(np.where(values <= x, values, -np.inf), axis=0)

    def support(self, label: str) -> Limits:
        ends = [component.support(label) for component in self.components]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def atomic(self, label: str) -> bool:
        return any(component.atomic(label) for component in self.components)

    def expected(self) -> dict[str, float]:
        means = [component.expected() for component in self.components]
        return {label: float(np.dot(self.weights, [m[label] for m in means])) for label in self.labels}

    def scaled(self, factor: float, limits: Mapping[str, Limits]) -> Self:
        """Each component is stretched about its own medians; the distance between components stays."""
        components = tuple(component.scaled(factor, limits) for component in self.components)
        return type(self)(components=components, weights=self.weights)

    def keep(self, labels: Iterable[str]) -> Self:
        labels = set(labels)
        return type(self)(components=tuple(c.keep(labels) for c in self.components), weights=self.weights)

    def given(self, values: Mapping[str, float], kernel: float | None) -> tuple["Mixture | None", float]:
        """Bayes: each component is conditioned, and weighed by how well it foretold the values."""
        each = [component.given(values, kernel) for component in self.components]
        log_weights = self._weighed(log_density for _, log_density in each)
        total = float(np.logaddexp.reduce(log_weights))
        if total == -np.inf or not set(self.labels) - set(values):
            return None, total
        likely = [k for k, w in enumerate(log_weights) if w > -np.inf]
        weights = np.exp(log_weights[likely] - total)
        components = tuple(each[k][0] for k in likely)
        return Mixture(components=components, weights=tuple((weights / weights.sum()).tolist())), total

    def to_dict(self) -> dict[str, Any]:
        components = [component.to_dict() for component in self.components]
        return {"kind": "mixture", "weights": list(self.weights), "components": components}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        components = data.get("components", [])
        if not isinstance(components, list) or not all(isinstance(c, Mapping) for c in components):
            raise InputError("a mixture holds a list of tables 'components'")
        return cls(components=tuple(Product.from_dict(c) for c in components), weights=data.get("weights", ()))


def joint_from_dict(data: Any) -> Piece:
    """A piece of several scalars from plain data."""
    kinds = {"spread": Elements, "gaussian": Gaussian, "samples": Samples, "mixture": Mixture}
    if not isinstance(data, dict) or "kind" not in data:
        raise InputError(f"a joint distribution is a table with a 'kind' ({', '.join(kinds)}), not {data!r}")
    return kinds[choose(data["kind"], kinds, "a joint distribution")].from_dict(data)
