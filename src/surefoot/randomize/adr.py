"""Automatic domain randomization: every bound of every scalar has its own judge.

    inside:     e_i ~ U(φ_i^L, φ_i^H) for all i                                        probability 1 − fraction
    boundary:   one i and one side are drawn; e_i = φ_i^L or φ_i^H, the others ~ U      probability fraction
    for each boundary, from a full queue of its own results:
        mean >= t_high   the bound moves out by `step`, up to the Param's bound
        mean <= t_low    the bound moves in by `step`, no further than the start range
        after a move its queue is emptied
    nats = (1/m) Σ_i ln(φ_i^H − φ_i^L), lengths as fractions of the full range: 0 when everything is wide open

Bounds and steps live on the scalar's own axis: on a log scale a step is a ratio. The rule is a one-sided ratchet: noise
in a short queue widens from any success rate near t_high, but only results below t_low narrow, so that a bound settles
between the two crossings; a longer queue brings it nearer to that of t_high.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from surefoot.errors import InputError
from surefoot.params import Point, Prior
from surefoot.params.pieces import Marginal
from surefoot.params.product import Mixture, Product
from surefoot.randomize.moving import moving
from surefoot.randomize.schedule import between, checked_prior, checked_state, counts, mark, rows

SIDES = ("low", "high")
SAME = 1e-7
"""How near, as a fraction of the Param's range, a value lies to a bound that it was fixed at (float32 keeps this)."""


class ADR:
    """Automatic domain randomization (equations above).

    A result is a boundary worker's when exactly one of its moved scalars sits at a present bound. Results that began
    before a bound moved sit at the old one and therefore count nowhere. Moved scalars are independent and uniform; what
    the prior says about the others stays.
    """

    def __init__(
        self,
        prior: Prior,
        *,
        names: Iterable[str] = (),
        fraction: float = 0.4,
        start: float = 0.1,
        step: float = 0.05,
        t_low: float = 0.5,
        t_high: float = 0.8,
        queue: int = 128,
        measure: Literal["success", "returns"] = "success",
    ):
        """Begin narrow about the nominal values.

        Args:
            prior: its schema's bounds are the limits.
            names: Params to move; none: all that are continuous.
            fraction: share of the worlds that are BOUNDARY workers; the rest draw from inside.
            start: first width, as a fraction of the distance from the nominal value to each limit.
            step: move of a bound, as a fraction of the full range.
            t_low: mean at or below which a bound moves in, in units of `measure`.
            t_high: mean at or above which it moves out.
            queue: results that a boundary is judged by; the newest count.
            measure: what the queues hold.
        """
        self.full = checked_prior(prior)
        between(0.0, 1.0, closed=False, fraction=fraction, start=start, step=step)
        counts(queue=queue)
        if measure not in ("success", "returns"):
            raise InputError(f"measure={measure!r} is neither 'success' nor 'returns'")
        if not t_low < t_high:
            raise InputError(f"t_low={t_low:g} must be below t_high={t_high:g}")
        self.moving = moving(prior, names)
        self.fraction, self.step, self.t_low, self.t_high = fraction, step, t_low, t_high
        self.queue, self.measure = queue, measure
        settings = {
            "fraction": fraction,
            "start": start,
            "step": step,
            "t_low": t_low,
            "t_high": t_high,
            "queue": queue,
        }
        self._mark = mark("adr", prior, **settings, measure=measure, labels=list(self.moving.labels))
        centre = self.moving.centre
        self._first = np.stack([centre * (1.0 - start), centre + start * (1.0 - centre)])  # (2, m)
        self._limit = np.stack([np.zeros(len(centre)), np.ones(len(centre))])
        self._movable = np.abs(self._limit - self._first) > 1e-12
        """Bounds whose limit is not the nominal value itself, (2, m)."""
        self.queues: dict[tuple[str, str], list[float]] = {(x, side): [] for x in self.moving.labels for side in SIDES}
        """Newest results by (scalar, side)."""
        self._set(self._first)

    def _set(self, bounds: np.ndarray) -> None:
        self.bounds = bounds
        """φ as positions in 0..1, row 0 lower and row 1 upper bounds, (2, m)."""
        self.values = np.stack([self.moving.value(bounds[0]), self.moving.value(bounds[1])])
        """φ in natural units, (2, m)."""
        self._prior = self._mixture()

    def _mixture(self) -> Prior:
        """Inside worlds and one component a movable boundary, over the moved scalars."""
        lines = self.moving
        inside = [
            Marginal(label=label, distribution=lines.between(i, *self.values[:, i]))
            for i, label in enumerate(lines.labels)
        ]
        boundaries = [(side, i) for i in range(len(lines)) for side in (0, 1) if self._movable[side, i]]
        components, weights = [Product(pieces=tuple(inside))], [1.0 - self.fraction]
        for side, i in boundaries:
            fixed = Marginal(label=lines.labels[i], distribution=Point(value=float(self.values[side, i])))
            components.append(Product(pieces=(*inside[:i], fixed, *inside[i + 1 :])))
            weights.append(self.fraction / len(boundaries))
        piece = Mixture(components=tuple(components), weights=tuple(weights))
        return Prior(params=self.full.params, product=self.full.product.with_pieces([piece]))

    @property
    def prior(self) -> Prior:
        """Inside and boundary workers together."""
        return self._prior

    @property
    def nats(self) -> float:
        """Mean log width of the moved scalars, as a fraction of their full range: 0 at most."""
        return float(np.mean(np.log(self.bounds[1] - self.bounds[0])))

    def record(self, e: Mapping[str, Any], success: Any, returns: Any) -> None:
        """Put the results of boundary workers into their boundary's queue; all others are left out."""
        v, success, returns = rows(self.full.params, e, success, returns)
        result = success if self.measure == "success" else returns
        v = v[:, self.moving.columns]  # (k, m)
        near = SAME * (self.moving.high - self.moving.low)
        at = np.abs(v[None] - self.values[:, None]) <= near  # (2, k, m)
        at &= self._movable[:, None]
        worker = (at.sum(axis=(0, 2)) == 1) & ~np.isnan(result)
        for side, k, i in np.argwhere(at & worker[None, :, None]):
            key = (self.moving.labels[i], SIDES[side])
            self.queues[key] = [*self.queues[key], float(result[k])][-self.queue :]

    def update(self) -> bool:
        """Move every bound whose full queue asks for it."""
        bounds = self.bounds.copy()
        for (label, side), queue in self.queues.items():
            if len(queue) < self.queue:
                continue
            i, row = self.moving.labels.index(label), SIDES.index(side)
            bounds[row, i] = self._moved(row, i, float(np.mean(queue)))
            if bounds[row, i] != self.bounds[row, i]:
                self.queues[label, side] = []
        if (bounds == self.bounds).all():
            return False
        self._set(bounds)
        return True

    def _moved(self, row: int, i: int, mean: float) -> float:
        """Where the mean result of a boundary takes it, position in 0..1."""
        outwards = -1.0 if row == 0 else 1.0
        way = outwards if mean >= self.t_high else -outwards if mean <= self.t_low else 0.0
        ends = sorted((self._limit[row, i], self._first[row, i]))
        return float(np.clip(self.bounds[row, i] + way * self.step, *ends))

    def state(self) -> dict[str, Any]:
        """Bounds and queues."""
        queues = [[label, side, list(queue)] for (label, side), queue in self.queues.items() if queue]
        return {**self._mark, "bounds": self.bounds.tolist(), "queues": queues}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state()`."""
        checked_state(state, self._mark, ("bounds", "queues"))
        self.queues = {key: [] for key in self.queues}
        for label, side, queue in state["queues"]:
            self.queues[label, side] = [float(x) for x in queue]
        self._set(np.array(state["bounds"], dtype=float))

    @property
    def summary(self) -> str:
        """One line for the progress log."""
        width = self.bounds[1] - self.bounds[0]
        least = int(np.argmin(width))
        narrowest = f"narrowest {self.moving.labels[least]} {width[least]:.2f}"
        return f"adr: {self.nats:.2f} nats, mean width {width.mean():.2f} of the range, {narrowest}"
