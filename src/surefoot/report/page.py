"""One question, one HTML file: text, tables, plots and pictures that open anywhere, without a network."""

import base64
import contextlib
import datetime
import hashlib
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.files import write_text
from surefoot.report import plots
from surefoot.report.markup import cell, decimals, escape, inline, render
from surefoot.report.png import encode_png, media_type
from surefoot.versions import versions_of

LEVELS = {"note": "Note", "good": "Good", "warning": "Warning", "bad": "Problem"}


class Page:
    """A report that is written part by part, then saved as a single offline HTML file.

    Every part is added below the ones before it. Text is escaped, whatever it holds; the file fetches nothing
    (its own content policy forbids it), so that it can be mailed, archived and opened years later.
    """

    def __init__(self, title: str, *, subtitle: str = "", provenance: Mapping[str, Any] | None = None):
        """Start a page.

        Args:
            title: the question that the page answers.
            subtitle: one line below it.
            provenance: what the footer states beside the versions: seed, hashes of inputs, robot, ...
        """
        self.title, self.subtitle = title, subtitle
        self._provenance = dict(provenance or {})
        self._parts: list[str] = []
        self._plots = 0

    def text(self, text: str) -> None:
        """Paragraphs in a small part of Markdown: ## headings, - lists, **strong**, *emphasis*, `code`, fences."""
        self._parts.append(render(text))

    def callout(self, level: str, text: str) -> None:
        """A sentence that must not be overlooked; level is "note", "good", "warning" or "bad"."""
        choose(level, LEVELS, "a level of a callout")
        self._parts.append(
            f'<aside class="callout {level}"><strong class="level">{LEVELS[level]}</strong>{render(text)}</aside>'
        )

    def table(
        self, rows: Sequence[Mapping[str, Any] | Sequence[Any]], columns: Sequence[str] | None = None, caption: str = ""
    ) -> None:
        """A table; rows are dicts by column, or sequences in the order of `columns`.

        Numbers stand to the right with four significant digits, lined up; give text where more are wanted.
        """
        if columns is None:
            first = rows[0] if rows else None
            if not isinstance(first, Mapping):
                raise InputError("a table needs `columns` unless its rows are dicts")
            columns = list(first)
        values = [_row(row, columns) for row in rows]
        places = [decimals(column) for column in zip(*values, strict=True)]
        body = [[cell(value, place) for value, place in zip(row, places, strict=True)] for row in values]
        right = [bool(body) and all(row[k][1] in ("number", "empty") for row in body) for k in range(len(columns))]
        head = "".join(
            f'<th scope="col"{" class=number" if r else ""}>{inline(str(c))}</th>'
            for c, r in zip(columns, right, strict=True)
        )
        lines = "\n".join(
            "<tr>" + "".join(f'<td class="{kind}">{shown}</td>' for shown, kind in row) + "</tr>" for row in body
        )
        title = f"<caption>{inline(caption)}</caption>" if caption else ""
        self._parts.append(
            f'<div class="table"><table>{title}<thead><tr>{head}</tr></thead>\n<tbody>{lines}</tbody></table></div>'
        )

    def lines(
        self,
        title: str,
        x: Any,
        series: Mapping[str, Any],
        xlabel: str = "",
        ylabel: str = "",
        *,
        bands: Mapping[str, tuple[Any, Any]] | None = None,
        dashed: Sequence[str] = (),
        steps: Sequence[str] = (),
        marks: Mapping[str, float] | None = None,
        ylog: bool = False,
        colours: Mapping[str, int] | None = None,
        height: int = 280,
        note: str = "",
    ) -> None:
        """Lines over x, with a read-out under the pointer and a legend that switches them on and off.

        Args:
            title: what is shown.
            x: common x of all series, never decreasing; None for the positions 0, 1, 2, ...
            series: label -> y, or label -> (x, y) with an x of its own. NaN leaves a gap.
            xlabel: axis label with its unit, "time [s]".
            ylabel: axis label with its unit.
            bands: label -> (low, high), drawn as a shade behind the line.
            dashed: labels drawn dashed, for what is simulated or commanded.
            steps: labels drawn as stairs: each value holds until the next.
            marks: label -> x of vertical lines, for events.
            ylog: logarithmic y axis.
            colours: label -> number of its colour, 0 to 7, for a name that returns in other plots; the others have that of
                their place.
            height: of the plot [px].
            note: a sentence below the plot.
        """
        spec = plots.lines(
            x, series, bands=bands or {}, dashed=dashed, steps=steps, marks=marks or {}, ylog=ylog, colours=colours
        )
        self._plot(title, {**spec, "xlabel": xlabel, "ylabel": ylabel, "height": height}, note)

    def bars(
        self,
        title: str,
        categories: Sequence[str],
        series: Mapping[str, Any],
        xlabel: str = "",
        *,
        errors: Mapping[str, tuple[Any, Any]] | None = None,
        note: str = "",
    ) -> None:
        """Lying bars, one row per category and one colour per series; `errors` are label -> (low, high)."""
        self._plot(title, {**plots.bars(categories, series, errors or {}), "xlabel": xlabel}, note)

    def intervals(
        self,
        title: str,
        rows: Sequence[Sequence[Any]],
        xlabel: str = "",
        *,
        reference: Mapping[str, float] | None = None,
        notes: Mapping[str, str] | None = None,
        words: tuple[str, str] = ("estimate", "reference"),
        zero: bool = False,
        note: str = "",
    ) -> None:
        """Dots with whiskers: rows of (label, value, low, high).

        Args:
            title: what is shown.
            rows: (label, value, low, high) each.
            xlabel: axis label with its unit.
            reference: label -> the value to compare with, drawn as a diamond.
            notes: label -> a few words at the end of the row.
            words: what the legend calls the dots and the diamonds.
            zero: draw a line at 0.
            note: a sentence below the plot.
        """
        spec = plots.intervals(rows, reference or {}, notes or {}, words)
        self._plot(title, {**spec, "xlabel": xlabel, "zero": zero}, note)

    def scatter(
        self,
        title: str,
        series: Mapping[str, tuple[Any, Any]],
        xlabel: str = "",
        ylabel: str = "",
        *,
        diagonal: bool = False,
        height: int = 360,
        note: str = "",
    ) -> None:
        """Points of label -> (x, y); `diagonal` draws y = x, for predictions against truths."""
        spec = plots.scatter(series, diagonal=diagonal)
        self._plot(title, {**spec, "xlabel": xlabel, "ylabel": ylabel, "height": height}, note)

    def heatmap(
        self,
        title: str,
        values: Any,
        xlabel: str = "",
        ylabel: str = "",
        *,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        middle: float | None = None,
        unit: str = "",
        note: str = "",
    ) -> None:
        """A matrix as colours, row 0 on top; `middle` parts two colours, for signed values."""
        spec = plots.heatmap(values, rows=rows, columns=columns, middle=middle)
        self._plot(title, {**spec, "xlabel": xlabel, "ylabel": ylabel, "unit": unit}, note)

    def image(self, image: Any, caption: str = "") -> None:
        """A picture: PNG, JPEG or GIF bytes, or an array (h, w), (h, w, 3), (h, w, 4) of uint8 or 0..1."""
        self._parts.append(f"<figure>{_picture(image, caption)}{_caption(caption)}</figure>")

    def filmstrip(self, frames: Sequence[Any], captions: Sequence[str] | None = None, caption: str = "") -> None:
        """Pictures side by side, as in `image`, each with its own caption (the time, for example)."""
        captions = [""] * len(frames) if captions is None else list(captions)
        if len(frames) == 0 or len(frames) != len(captions):
            raise InputError(f"a filmstrip needs frames and as many captions, got {len(frames)} and {len(captions)}")
        cells = "".join(
            f"<div>{_picture(frame, words or caption)}<span>{inline(words)}</span></div>"
            for frame, words in zip(frames, captions, strict=True)
        )
        self._parts.append(f'<figure><div class="film">{cells}</div>{_caption(caption)}</figure>')

    def video(self, data: bytes, caption: str = "") -> None:
        """A video that the browser plays: MP4 or WebM bytes."""
        kind = media_type(data)
        if not kind.startswith("video/"):
            raise InputError(f"a video must be MP4 or WebM, these bytes are {kind}: use image")
        source = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
        self._parts.append(
            f'<figure><video controls loop muted playsinline src="{source}"></video>{_caption(caption)}</figure>'
        )

    @contextlib.contextmanager
    def columns(self, count: int = 2) -> Iterator[None]:
        """What is added inside stands in `count` columns where the screen is wide enough."""
        if not 1 <= count <= 4:
            raise InputError(f"a page has 1 to 4 columns, got {count}")
        self._parts.append(f'<div class="columns of{count}">')
        try:
            yield
        finally:
            self._parts.append("</div>")

    def html(self) -> str:
        """The whole page as text."""
        style, axes, kinds = (_asset(name) for name in ("page.css", "axes.js", "kinds.js"))
        script = f'(() => {{\n"use strict";\n{axes}\n{kinds}}})();\n'
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
        policy = (
            "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'"
        )
        body = _distinct_anchors("\n".join(self._parts))
        links = re.findall(r'<h2 id="([^"]+)">(.*?)</h2>', body)
        entries = "".join(f'<a href="#{target}">{words}</a>' for target, words in links)
        contents = f'<nav aria-label="Contents">{entries}</nav>' if len(links) > 3 else ""
        subtitle = f"<p class=subtitle>{inline(self.subtitle)}</p>" if self.subtitle else ""
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
            f'<svg class="seed" aria-hidden="true"></svg>\n<header><h1>{escape(self.title)}</h1>{subtitle}</header>\n'
            f"{contents}\n<main>\n{body}\n</main>\n{self._footer()}\n<script>{script}</script>\n</body>\n</html>\n"
        )

    def save(self, path: str | Path) -> Path:
        """Write the page to `path`, whole or not at all, and return the path."""
        write_text(path, self.html())
        return Path(path)

    def _plot(self, title: str, spec: dict[str, Any], note: str) -> None:
        self._plots += 1
        data = json.dumps({**spec, "title": title}, allow_nan=False, separators=(",", ":"))
        data = data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
        self._parts.append(
            f'<figure class="plot" id="plot{self._plots}" data-kind="{spec["kind"]}"><h3>{inline(title)}</h3>'
            f'<div class="canvas"><noscript>This plot is drawn by a script in this file.</noscript></div>'
            f'<script type="application/json">{data}</script>{_caption(note)}</figure>'
        )

    def _footer(self) -> str:
        facts = {**self._provenance, **_versions()}
        made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        rows = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
        return f"<footer><dl>{rows}<div><dt>made</dt><dd>{made}</dd></div></dl></footer>"


def _asset(name: str) -> str:
    return resources.files("surefoot.report").joinpath(name).read_text("utf-8")


def _distinct_anchors(body: str) -> str:
    """Headings of the same words get numbered targets, so that each link leads to its own."""
    seen: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        seen[match[1]] = seen.get(match[1], 0) + 1
        return f'<h2 id="{match[1]}{f"-{seen[match[1]]}" if seen[match[1]] > 1 else ""}">'

    return re.sub(r'<h2 id="([^"]+)">', numbered, body)


def _row(row: Mapping[str, Any] | Sequence[Any], columns: Sequence[str]) -> list[Any]:
    if isinstance(row, Mapping):
        for name in row:
            choose(name, columns, "a column of this table")
        return [row.get(name) for name in columns]
    if isinstance(row, str) or len(row) != len(columns):
        raise InputError(f"a row of this table needs {len(columns)} entries ({', '.join(columns)}), got {row!r:.80}")
    return list(row)


def _picture(image: Any, alt: str) -> str:
    data = bytes(image) if isinstance(image, bytes | bytearray) else encode_png(np.asarray(image))
    kind = media_type(data)
    if not kind.startswith("image/"):
        raise InputError(f"an image must be PNG, JPEG or GIF, these bytes are {kind}: use video")
    return f'<img alt="{escape(alt)}" src="data:{kind};base64,{base64.b64encode(data).decode("ascii")}">'


def _caption(words: str) -> str:
    return f"<figcaption>{inline(words)}</figcaption>" if words else ""


def _versions() -> dict[str, str]:
    own = versions_of(("surefoot",))
    machine = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    return own | machine | versions_of(("mujoco", "numpy"))
