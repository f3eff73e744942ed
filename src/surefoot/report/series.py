"""Numbers on their way into a page: packed small, and thinned so that nothing visible is lost."""

import base64
from typing import Any

import numpy as np

from surefoot.errors import InputError

BINS = 1200
"""Columns a long series is cut into; a plot is never drawn wider than this many pixels."""


def vector(values: Any, what: str) -> np.ndarray:
    """A one-dimensional float64 array; infinities are refused, NaN is a gap."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be numbers, got {values!r:.60}") from None
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{what} must be a list of numbers, got shape {array.shape}")
    if np.isinf(array).any():
        raise InputError(f"{what} holds an infinite value at position {int(np.isinf(array).argmax())}")
    return array


def pack(array: np.ndarray, *, log: bool = False) -> dict[str, Any]:
    """An array as base64 of float32 differences to its middle, exact to 1e-7 of its span.

    For a logarithmic axis the values themselves are packed, exact to 1e-7 of each.
    """
    finite = array[np.isfinite(array)]
    middle = float((finite.min() + finite.max()) / 2) if finite.size and not log else 0.0
    data = (array - middle).astype("<f4").tobytes()
    return {"middle": middle, "data": base64.b64encode(data).decode("ascii")}


def thin(x: np.ndarray, y: np.ndarray, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """Two points per bin of x, its smallest and its largest y in the order in which they came.

    Every column of pixels then shows the same extent as the full series: no spike is lost. A series of up to
    two points per bin is returned as it is. A bin that holds a gap is parted at it (at the last one, if there are
    several): two points before, two NaN, two points after, so that no line is drawn across.
    """
    if x.size <= 2 * bins or x[-1] == x[0]:
        return x, y
    place = np.minimum(((x - x[0]) / (x[-1] - x[0]) * bins).astype(int), bins - 1)
    gap = np.isnan(y)
    last = np.full(bins, -1)
    last[place[gap]] = np.flatnonzero(gap)  # Of places that repeat, the last assignment holds.
    side = np.where(last[place] < 0, 0, np.sign(np.arange(y.size) - last[place]))
    starts = np.flatnonzero((np.diff(place, prepend=-1) != 0) | (np.diff(side, prepend=0) != 0))
    low, high = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)
    counts = np.diff(starts, append=y.size)
    where = np.arange(y.size)
    first_low = np.minimum.reduceat(np.where(y == np.repeat(low, counts), where, y.size), starts)
    first_high = np.minimum.reduceat(np.where(y == np.repeat(high, counts), where, y.size), starts)
    rising = first_low <= first_high
    width = (x[-1] - x[0]) / bins
    bin_of = place[starts]
    again = np.isnan(low) & np.isnan(np.roll(low, 1)) & (np.diff(bin_of, prepend=-1) == 0)
    keep = np.flatnonzero(~again)
    bin_of = bin_of[keep]
    parts = np.bincount(bin_of, minlength=bins)[bin_of]
    part = np.arange(bin_of.size) - np.searchsorted(bin_of, bin_of)
    left, room = x[0] + (bin_of + part / parts) * width, width / parts
    thin_x = np.stack([left + 0.25 * room, left + 0.75 * room], axis=1).ravel()
    thin_y = np.stack([np.where(rising, low, high)[keep], np.where(rising, high, low)[keep]], axis=1).ravel()
    return thin_x, thin_y


def thin_points(x: np.ndarray, y: np.ndarray, cells: tuple[int, int] = (320, 160)) -> tuple[np.ndarray, np.ndarray]:
    """One point per occupied cell of a grid finer than a drawn point; NaN is left out."""
    keep = np.isfinite(x) & np.isfinite(y)
    x, y = x[keep], y[keep]
    if x.size <= 4000:
        return x, y
    places = [_cell_of(values, count) for values, count in zip((x, y), cells, strict=True)]
    _, first = np.unique(places[0] * cells[1] + places[1], return_index=True)
    return x[np.sort(first)], y[np.sort(first)]


def _cell_of(values: np.ndarray, count: int) -> np.ndarray:
    span = np.ptp(values) or 1.0
    return np.minimum(((values - values.min()) / span * count).astype(int), count - 1)
