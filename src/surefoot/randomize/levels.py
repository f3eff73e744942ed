"""Levels of difficulty: easy ground first, then mostly what is neither certain nor hopeless.

A Param is cut into levels, its choices or `bins` of equal width, by distance from the nominal value. Of level k, with k episodes
recorded (old ones fading),

    p_k = (good_k + 1) / (judged_k + 2)                                  estimated success
    w_k ∝ floor + 4 p_k (1 - p_k)  for k <= reached,  0 beyond           weight of its draws
    reached + 1                    when p_reached >= target over at least `least` episodes

Params are treated as independent: a failure on a steep slope counts against the step height it met as well.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.params import Discrete, Prior, Uniform
from surefoot.params.pieces import Marginal, Piece
from surefoot.params.prior import labels_of
from surefoot.params.product import Mixture, Product
from surefoot.randomize.schedule import between, checked_prior, checked_state, counts, mark, rows


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The levels of one scalar: level k holds the values with edges[k] <= |value - nominal| < edges[k + 1]."""

    label: str
    column: int
    low: float
    high: float
    nominal: float
    choices: tuple[float, ...] | None
    edges: tuple[float, ...]

    def level(self, values: np.ndarray) -> np.ndarray:
        """Level of each value, (k,)."""
        away = np.abs(values - self.nominal)
        return np.clip(np.searchsorted(self.edges, away, side="right") - 1, 0, len(self.edges) - 2)

    def piece(self, weights: np.ndarray) -> Piece:
        """The distribution that draws level k with probability weights[k], evenly within it."""
        if self.choices is not None:
            level = self.level(np.array(self.choices))
            each = weights[level] / np.bincount(level, minlength=len(weights))[level]
            values = Discrete(values=self.choices, weights=tuple((each / each.sum()).tolist()))
            return Marginal(label=self.label, distribution=values)
        parts, shares = [], []
        for k in np.flatnonzero(weights):
            near, far = self.edges[k], self.edges[k + 1]
            sides = [(self.nominal + near, self.nominal + far), (self.nominal - far, self.nominal - near)]
            cut = [(max(a, self.low), min(b, self.high)) for a, b in sides]
            width = sum(max(b - a, 0.0) for a, b in cut)
            for a, b in cut:
                if b > a:
                    parts.append(Product(pieces=(Marginal(label=self.label, distribution=Uniform(low=a, high=b)),)))
                    shares.append(weights[k] * (b - a) / width)
        return Mixture(components=tuple(parts), weights=tuple((np.array(shares) / sum(shares)).tolist()))


class Levels:
    """Draws of some Params by level of difficulty (equations above); the others as the prior says."""

    def __init__(
        self,
        prior: Prior,
        *,
        names: Iterable[str],
        bins: int = 5,
        target: float = 0.6,
        least: int = 30,
        floor: float = 0.2,
        fade: float = 0.7,
        window: int = 256,
    ):
        """Begin at the easiest level of each Param.

        Args:
            prior: p(e); of the Params in `names` it says the bounds, or the choices.
            names: Params with levels, such as step_height and slope.
            bins: levels of a continuous Param; one of choices has a level for each distance from its nominal value.
            target: success at the hardest level reached that opens the next one.
            least: episodes at that level which must have been recorded.
            floor: weight that every reached level keeps.
            fade: what is left of old results when the weights are made anew.
            window: ended episodes between two changes.
        """
        self.full = checked_prior(prior)
        between(0.0, 1.0, target=target, fade=fade)
        between(0.0, 10.0, closed=False, floor=floor)
        counts(bins=bins, least=least, window=window)
        self.target, self.least, self.floor, self.fade, self.window = target, least, floor, fade, window
        self.ladders = tuple(_ladder(prior, label, bins) for name in names for label in labels_of(prior.params, name))
        if not self.ladders:
            raise InputError("levels of no Param were asked for: give names such as ('step_height',)")
        settings = {"bins": bins, "target": target, "least": least, "floor": floor, "fade": fade, "window": window}
        self._mark = mark("levels", prior, **settings, labels=[ladder.label for ladder in self.ladders])
        self._new = 0
        self._good = [np.zeros(len(ladder.edges) - 1) for ladder in self.ladders]
        self._judged = [np.zeros(len(ladder.edges) - 1) for ladder in self.ladders]
        self.reached = [0] * len(self.ladders)
        """Hardest level of each Param that is drawn."""
        self._weights = [self.weights(i) for i in range(len(self.ladders))]
        self._set()

    def success(self, number: int) -> np.ndarray:
        """p_k of the levels of Param `number`, (levels,)."""
        return (self._good[number] + 1.0) / (self._judged[number] + 2.0)

    def weights(self, number: int) -> np.ndarray:
        """w_k of the levels of Param `number`, (levels,), summing to 1."""
        p = self.success(number)
        w = np.where(np.arange(len(p)) <= self.reached[number], self.floor + 4 * p * (1 - p), 0.0)
        return w / w.sum()

    def _set(self) -> None:
        pieces = [ladder.piece(weights) for ladder, weights in zip(self.ladders, self._weights, strict=True)]
        self._prior = Prior(params=self.full.params, product=self.full.product.with_pieces(pieces))

    @property
    def prior(self) -> Prior:
        """What the next episodes draw e from."""
        return self._prior

    def record(self, e: Mapping[str, Any], success: Any, returns: Any) -> None:
        """Count ended episodes at their levels."""
        values, success, _ = rows(self.full.params, e, success, returns)
        known = ~np.isnan(success)
        for ladder, good, judged in zip(self.ladders, self._good, self._judged, strict=True):
            level = ladder.level(values[known, ladder.column])
            np.add.at(good, level, success[known])
            np.add.at(judged, level, 1.0)
        self._new += int(known.sum())

    def update(self) -> bool:
        """Once a window is full, open levels that were earned and weigh all anew."""
        if self._new < self.window:
            return False
        self._new = 0
        for i, reached in enumerate(self.reached):
            earned = self._judged[i][reached] >= self.least and self.success(i)[reached] >= self.target
            if earned and reached + 1 < len(self._good[i]):
                self.reached[i] = reached + 1
        self._weights = [self.weights(i) for i in range(len(self.ladders))]
        self._set()
        for counted in (*self._good, *self._judged):
            counted *= self.fade
        return True

    def state(self) -> dict[str, Any]:
        """Levels reached, results at every level, and the weights now in use."""
        return {
            **self._mark, "reached": list(self.reached), "new": self._new, "good": [g.tolist() for g in self._good],
            "judged": [j.tolist() for j in self._judged], "weights": [w.tolist() for w in self._weights],
        }  # fmt: skip

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state()`."""
        checked_state(state, self._mark, ("reached", "new", "good", "judged", "weights"))
        self.reached, self._new = [int(r) for r in state["reached"]], int(state["new"])
        self._good = [np.array(g, dtype=float) for g in state["good"]]
        self._judged = [np.array(j, dtype=float) for j in state["judged"]]
        self._weights = [np.array(w, dtype=float) for w in state["weights"]]
        self._set()

    @property
    def summary(self) -> str:
        """One line for the progress log."""
        said = []
        for i, ladder in enumerate(self.ladders):
            p = self.success(i)[: self.reached[i] + 1]
            said.append(f"{ladder.label} up to {self._name(i)} (success {' '.join(f'{x:.2f}' for x in p)})")
        return f"levels: {', '.join(said)}"

    def _name(self, number: int) -> str:
        ladder, k = self.ladders[number], self.reached[number]
        if ladder.choices is None:
            return f"±{ladder.edges[k + 1]:.3g}"
        return f"{max(abs(c - ladder.nominal) for c in ladder.choices if ladder.level(np.array([c]))[0] == k):.3g}"


def _ladder(prior: Prior, label: str, bins: int) -> Ladder:
    """Levels of a scalar, from the nominal value outwards."""
    params = prior.params
    column = params.names.index(label)
    name = label if label in params else label[: label.rindex("[")]
    low, high, nominal = (float(x[column]) for x in (params.low, params.high, params.nominal))
    choices = params[name].choices
    if choices is None:
        furthest = max(high - nominal, nominal - low)
        if furthest <= 0.0:
            raise InputError(f"'{label}' has one value only, so that it has no levels: leave it out of names")
        edges = np.linspace(0.0, furthest, bins + 1)
    else:
        away = np.unique(np.round(np.abs(np.array(choices) - nominal), 12))
        edges = np.concatenate([away - 1e-9, [np.inf]])
    return Ladder(
        label=label, column=column, low=low, high=high, nominal=nominal, choices=choices, edges=tuple(edges.tolist())
    )
