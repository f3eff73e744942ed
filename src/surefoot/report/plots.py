"""What a plot shows, as plain values: the page's own script draws it."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.report.png import encode_png
from surefoot.report.series import pack, thin, thin_points, vector

SEQUENTIAL = ("#fdf6e3", "#f7d38c", "#ee9b52", "#cf5a48", "#8d2f5b", "#451a5b", "#170b2e")
DIVERGING = ("#0b4a80", "#3d87bd", "#a3cbe3", "#f6f6f4", "#f2b997", "#d16b3a", "#85300b")
COLOURS = 8
"""Colours of the page's style, --c0 to --c7."""
WIDEST = 1500
"""Cells along one side of a heat map before it is thinned."""


def lines(
    x: Any,
    series: Mapping[str, Any],
    *,
    bands: Mapping[str, tuple[Any, Any]],
    dashed: Sequence[str],
    steps: Sequence[str],
    marks: Mapping[str, float],
    ylog: bool,
    colours: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Lines over x; each of `series` is y, or (x, y) with its own x."""
    if not series:
        raise InputError("a plot of lines needs at least one series")
    colours = colours or {}
    for name in (*bands, *dashed, *steps, *colours):
        choose(name, series, "a series of this plot")
    for name, number in colours.items():
        if number not in range(COLOURS):
            raise InputError(f"the colour of {name!r} is {number!r}, and colours are numbered 0 to {COLOURS - 1}")
    drawn, spans = [], []
    for name, values in series.items():
        own = isinstance(values, tuple) and len(values) == 2 and np.ndim(values[0]) == 1
        xs, y = _pair(values[0], values[1], name) if own else _pair(x, values, name)
        spans += [xs[0], xs[-1]]
        thin_x, thin_y = thin(xs, y)
        entry = {"label": name, "x": pack(thin_x), "y": pack(thin_y, log=ylog), "thinned": thin_x is not xs}
        if name in bands:
            low, high = (_pair(xs, side, f"band of {name}")[1] for side in bands[name])
            low, high = (np.where(np.isnan(low) | np.isnan(high), np.nan, side) for side in (low, high))
            band_x, low = _edge(xs, low, np.minimum)
            _, high = _edge(xs, high, np.maximum)
            entry |= {"band_x": pack(band_x), "low": pack(low, log=ylog), "high": pack(high, log=ylog)}
        own_colour = {"colour": colours[name]} if name in colours else {}
        drawn.append({**entry, **own_colour, "dashed": name in dashed, "step": name in steps})
    return {
        "kind": "lines",
        "series": drawn,
        "span": [float(min(spans)), float(max(spans))],
        "ylog": ylog,
        "marks": [{"label": name, "x": float(at)} for name, at in marks.items()],
    }


def _pair(x: Any, y: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    y = vector(y, f"series {name!r}")
    x = np.arange(y.size, dtype=float) if x is None else vector(x, f"x of {name!r}")
    if x.size != y.size:
        raise InputError(f"series {name!r} has {y.size} values for {x.size} values of x")
    if np.isnan(x).any() or (np.diff(x) < 0).any():
        raise InputError(f"x of {name!r} must not decrease and hold no NaN: sort it, or use scatter")
    return x, y


def _edge(x: np.ndarray, y: np.ndarray, extreme: Any) -> tuple[np.ndarray, np.ndarray]:
    """One edge of a band with its x, one value per bin."""
    thin_x, thin_y = thin(x, y)
    if thin_x is x:
        return x, y
    return thin_x[::2], extreme(thin_y[::2], thin_y[1::2])


def bars(categories: Sequence[str], series: Mapping[str, Any], errors: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Bars by category, one colour per series; errors are (low, high) in the units of the values."""
    if not categories or not series:
        raise InputError("a plot of bars needs categories and at least one series")
    rows = []
    for name in errors:
        choose(name, series, "a series of this plot")
    for name, values in series.items():
        row: dict[str, Any] = {"label": name, "values": _floats(_sized(values, categories, name))}
        if name in errors:
            row["low"], row["high"] = (_floats(_sized(side, categories, f"error of {name}")) for side in errors[name])
        rows.append(row)
    return {"kind": "bars", "categories": [str(c) for c in categories], "series": rows}


def _sized(values: Any, categories: Sequence[str], name: str) -> np.ndarray:
    array = vector(values, f"series {name!r}")
    if array.size != len(categories):
        raise InputError(f"series {name!r} has {array.size} values for {len(categories)} categories")
    return array


def _floats(array: np.ndarray) -> list[float | None]:
    return [None if np.isnan(v) else float(v) for v in array]


def intervals(
    rows: Sequence[Sequence[Any]],
    reference: Mapping[str, float],
    notes: Mapping[str, str],
    words: tuple[str, str] = ("estimate", "reference"),
) -> dict[str, Any]:
    """Dots with whiskers: rows of (label, value, low, high); `reference` is a truth to compare with; `words` call both."""
    if not rows:
        raise InputError("a plot of intervals needs at least one row (label, value, low, high)")
    labels = [str(row[0]) for row in rows]
    for name in (*reference, *notes):
        choose(name, labels, "a row of this plot")
    drawn = []
    for row in rows:
        if len(row) != 4:
            raise InputError(f"a row of intervals is (label, value, low, high), got {row!r:.80}")
        value, low, high = vector(row[1:], f"interval {row[0]!r}")
        if np.isnan([low, high]).any() or low > high:
            raise InputError(f"interval {row[0]!r} goes from {low} to {high}: its low must not be above its high")
        name = str(row[0])
        point = {"label": name, "value": _floats(np.array([value]))[0], "low": float(low), "high": float(high)}
        drawn.append({**point, "reference": reference.get(name), "note": notes.get(name, "")})
    return {"kind": "intervals", "rows": drawn, "words": list(words)}


def scatter(series: Mapping[str, tuple[Any, Any]], *, diagonal: bool) -> dict[str, Any]:
    """Points, one colour per series of (x, y); `diagonal` draws the line y = x."""
    if not series:
        raise InputError("a scatter plot needs at least one series (x, y)")
    drawn = []
    for name, values in series.items():
        if not isinstance(values, tuple | list) or len(values) != 2:
            raise InputError(f"series {name!r} of a scatter plot must be (x, y)")
        x, y = (vector(side, f"{axis} of {name!r}") for side, axis in zip(values, "xy", strict=True))
        if x.size != y.size:
            raise InputError(f"series {name!r} has {y.size} values for {x.size} values of x")
        shown_x, shown_y = thin_points(x, y)
        drawn.append({"label": name, "x": pack(shown_x), "y": pack(shown_y), "count": int(x.size)})
    return {"kind": "scatter", "series": drawn, "diagonal": diagonal}


def heatmap(
    values: Any, *, rows: Sequence[str] | None, columns: Sequence[str] | None, middle: float | None
) -> dict[str, Any]:
    """A matrix as colours, row 0 on top; with `middle`, two colours part there."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(f"a heat map needs a matrix, got shape {matrix.shape}")
    for names, size, side in ((rows, matrix.shape[0], "rows"), (columns, matrix.shape[1], "columns")):
        if names is not None and len(names) != size:
            raise InputError(f"a heat map of {size} {side} needs as many names, got {len(names)}")
    if max(matrix.shape) > WIDEST:
        raise InputError(f"a heat map shows up to {WIDEST} rows and columns, got {matrix.shape}: average it first")
    finite = matrix[np.isfinite(matrix)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if middle is not None:
        reach = max(high - middle, middle - low) or 1.0
        low, high = middle - reach, middle + reach
    high = high if high > low else low + 1.0
    anchors = SEQUENTIAL if middle is None else DIVERGING
    picture = _coloured((matrix - low) / (high - low), anchors)
    return {
        "kind": "heatmap",
        "shape": list(matrix.shape),
        "values": pack(np.where(np.isfinite(matrix), matrix, np.nan).ravel()),
        "rows": None if rows is None else [str(name) for name in rows],
        "columns": None if columns is None else [str(name) for name in columns],
        "range": [low, high],
        "image": _data_png(picture),
        "scale": _data_png(_coloured(np.linspace(1, 0, 128)[:, None], anchors)),
    }


def _coloured(level: np.ndarray, anchors: Sequence[str]) -> np.ndarray:
    """RGBA picture of levels in 0..1; what is not a number stays clear."""
    table = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in anchors], dtype=float)
    seen = np.isfinite(level)
    at = np.where(seen, np.clip(level, 0, 1), 0) * (len(anchors) - 1)
    channels = [np.interp(at, np.arange(len(anchors)), table[:, k]) for k in range(3)]
    return np.stack([*channels, 255.0 * seen], axis=-1).round().astype(np.uint8)


def _data_png(picture: np.ndarray) -> str:
    return "data:image/png;base64," + base64.b64encode(encode_png(picture)).decode("ascii")
