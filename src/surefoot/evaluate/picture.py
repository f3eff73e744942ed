"""A still picture of curves with intervals and shaded ranges, as SVG text; nothing else is needed to draw it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

import numpy as np

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5d5d5d", "#a0a000")
"""Told apart with colour blindness, after Okabe and Ito."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 380, 64, 16, 40, 92


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A line and the interval about it."""

    label: str
    x: np.ndarray
    """(points,), ascending."""
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray


def drawing(
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    curves: Sequence[Curve],
    shades: Mapping[str, tuple[float, float]] | None = None,
    ylim: tuple[float, float] | None = None,
) -> str:
    """One SVG: curves in the order given, bands about them, and bars above the axis for the ranges in `shades`, by curve."""
    shades = dict(shades or {})
    xs = np.concatenate([c.x for c in curves])
    x0, x1 = float(xs.min()), float(xs.max())
    x1 = x1 if x1 > x0 else x0 + 1.0
    ys = np.concatenate([np.concatenate([c.low, c.high, c.y]) for c in curves])
    y0, y1 = ylim or (float(np.nanmin(ys)), float(np.nanmax(ys)))
    y1 = y1 if y1 > y0 else y0 + 1.0

    def px(x: float) -> float:
        return LEFT + (min(max(x, x0), x1) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)

    def py(y: float) -> float:
        return HEIGHT - BOTTOM - (min(max(y, y0), y1) - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    colour = {c.label: COLOURS[k % len(COLOURS)] for k, c in enumerate(curves)}
    for name, (low, high) in sorted(shades.items(), key=lambda item: item[1][0] - item[1][1]):
        a, b = px(low), px(high)
        size = f'x="{a:.1f}" y="{TOP}" width="{max(b - a, 1.5):.1f}" height="{HEIGHT - TOP - BOTTOM}"'
        out.append(f'<rect class="range" {size} fill="{colour[name]}" fill-opacity="0.10"/>')
    for value in _ticks(y0, y1):
        out.append(f'<path d="M{LEFT} {py(value):.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{py(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in _ticks(x0, x1):
        out.append(f'<text x="{px(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
    for k, c in enumerate(curves):
        seen = np.isfinite(c.y)
        x, y, low, high = c.x[seen], c.y[seen], c.low[seen], c.high[seen]
        band = [(px(a), py(b)) for a, b in zip(x, high, strict=True)]
        band += [(px(a), py(b)) for a, b in zip(x[::-1], low[::-1], strict=True)]
        out.append(f'<polygon points="{_path(band)}" fill="{colour[c.label]}" fill-opacity="0.18"/>')
        line = _path([(px(a), py(b)) for a, b in zip(x, y, strict=True)])
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour[c.label]}" stroke-width="2"/>')
        at, down = LEFT + (k % 3) * 190, HEIGHT - 30 + 18 * (k // 3)
        out.append(f'<rect x="{at}" y="{down - 9}" width="14" height="9" fill="{colour[c.label]}"/>')
        words = c.label + _span(shades.get(c.label))
        out.append(f'<text x="{at + 20}" y="{down}">{escape(words)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    centre, down = (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 36
    out.append(f'<text x="{centre}" y="{down}" text-anchor="middle">{escape(xlabel)}</text>')
    out.append(f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">{escape(ylabel)}</text>')
    return "\n".join([*out, "</svg>\n"])


def _span(trained: tuple[float, float] | None) -> str:
    if trained is None:
        return ""
    return f", {trained[0]:g}" + (f" .. {trained[1]:g}" if trained[1] > trained[0] else "")


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers within low .. high, at most about `count`."""
    raw = (high - low) / count
    power = 10.0 ** floor(log10(raw))
    step = power * next(k for k in (1, 2, 5, 10) if k * power >= raw * 0.9999)
    first = int(np.ceil(low / step - 1e-9))
    return [round(k * step, 12) for k in range(first, int(np.floor(high / step + 1e-9)) + 1)]
