"""Widening by success: the range grows from narrow about the nominal value to the whole prior.

p_w: e = nominal + w (e' − nominal),   e' ~ p,   start <= w <= 1      (on the log axis where a distribution lives there)

success >= target   w <- min(1, w + step)
success <  floor    w <- max(start, w − step)
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.params import Beta, LogBeta, LogNormal, LogUniform, Prior, TruncatedNormal, Uniform
from surefoot.params.pieces import Marginal, Piece
from surefoot.params.product import Product
from surefoot.randomize.schedule import between, checked_prior, checked_state, counts, mark, rows

PLACES: dict[type, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    Uniform: ("linear", ("low", "high"), ()),
    Beta: ("linear", ("low", "high"), ()),
    TruncatedNormal: ("linear", ("mean", "low", "high"), ("sd",)),
    LogUniform: ("log", ("low", "high"), ()),
    LogBeta: ("log", ("low", "high"), ()),
    LogNormal: ("log", ("median", "low", "high"), ("sigma",)),
}
"""Distribution -> axis, fields that are places on it, fields that are widths."""


def contracted(prior: Prior, width: float) -> Prior:
    """p_w: every draw moved towards the nominal value until only `width` of the distance is left, 0 < width <= 1.

    Single scalars contract about the nominal value. Choices, empirical values and joint pieces (covariances, samples,
    mixtures) have no such map inside their own family and are narrowed about their medians instead.
    """
    if width == 1.0:
        return prior
    nominal = dict(zip(prior.params.names, prior.params.nominal, strict=True))
    return Prior(
        params=prior.params,
        product=Product(pieces=tuple(_contracted(piece, width, nominal) for piece in prior.product.pieces)),
    )


def _contracted(piece: Piece, width: float, nominal: Mapping[str, float]) -> Piece:
    if not isinstance(piece, Marginal) or type(piece.distribution) not in PLACES:
        return piece.scaled(width, {})
    axis, places, widths = PLACES[type(piece.distribution)]
    centre = float(np.clip(nominal[piece.label], *piece.distribution.support))

    def moved(x: float) -> float:
        return centre + width * (x - centre) if axis == "linear" else float(centre * (x / centre) ** width)

    was = piece.distribution
    changes = {name: moved(getattr(was, name)) for name in places} | {
        name: width * getattr(was, name) for name in widths
    }
    return Marginal(label=piece.label, distribution=replace(was, **changes))  # type: ignore[type-var]


class Widening:
    """One dial for the whole of p(e): wider when the policy succeeds, narrower when it does not (equations above)."""

    def __init__(
        self,
        prior: Prior,
        *,
        start: float = 0.3,
        target: float = 0.8,
        floor: float = 0.5,
        step: float = 0.1,
        window: int = 256,
        settle: int = 256,
    ):
        """Begin narrow.

        Args:
            prior: the full range, reached at width 1.
            start: first and smallest width, as a fraction of the distance from the nominal value.
            target: mean success from which the range grows.
            floor: mean success below which it shrinks; between the two it stays.
            step: change of the width.
            window: ended episodes that a mean is taken over; they are counted anew after each change.
            settle: ended episodes left out after each change because they began before it: the number of worlds.
        """
        self.full = checked_prior(prior)
        between(0.0, 1.0, closed=False, start=start, step=step)
        between(0.0, 1.0, target=target, floor=floor)
        counts(window=window)
        if floor > target:
            raise InputError(
                f"floor={floor:g} must not be above target={target:g}: the range would shrink and grow at once"
            )
        self.start, self.target, self.floor, self.step, self.window, self.settle = (
            start,
            target,
            floor,
            step,
            window,
            settle,
        )
        settings = {"start": start, "target": target, "floor": floor, "step": step, "window": window, "settle": settle}
        self._mark = mark("widening", prior, **settings)
        self._recent: list[float] = []
        self._last = float("nan")
        self._wait = 0
        self._set(start)

    def _set(self, width: float) -> None:
        self.width = width
        self._prior = contracted(self.full, width)

    @property
    def prior(self) -> Prior:
        """p_w at the present width."""
        return self._prior

    def record(self, e: Mapping[str, Any], success: Any, returns: Any) -> None:
        """Keep the success of ended episodes, the newest `window` of them."""
        _, success, _ = rows(self.full.params, e, success, returns)
        known = success[~np.isnan(success)].tolist()
        skipped = min(self._wait, len(known))
        self._wait -= skipped
        self._recent = (self._recent + known[skipped:])[-self.window :]

    def update(self) -> bool:
        """Widen or narrow by one step when a full window asks for it."""
        if len(self._recent) < self.window:
            return False
        self._last = float(np.mean(self._recent))
        width = self.width
        if self._last >= self.target:
            width = min(1.0, width + self.step)
        elif self._last < self.floor:
            width = max(self.start, width - self.step)
        if width == self.width:
            return False
        self._recent, self._wait = [], self.settle
        self._set(width)
        return True

    def state(self) -> dict[str, Any]:
        """Width and what was recorded since it changed."""
        last = None if np.isnan(self._last) else self._last
        return {**self._mark, "width": self.width, "recent": list(self._recent), "wait": self._wait, "last": last}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state()`."""
        checked_state(state, self._mark, ("width", "recent", "wait", "last"))
        self._recent, self._wait = [float(x) for x in state["recent"]], int(state["wait"])
        self._last = float("nan") if state["last"] is None else float(state["last"])
        self._set(float(state["width"]))

    @property
    def summary(self) -> str:
        """One line for the progress log."""
        last = "unknown" if np.isnan(self._last) else f"{self._last:.2f}"
        rule = f"grows from {self.target:g}, shrinks below {self.floor:g}"
        return f"widening: {self.width:.2f} of the range, success {last} ({rule})"
