"""Text to HTML, everything escaped: a small part of Markdown, and numbers as people read them."""

import html
import math
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

FENCE = "```"


def escape(text: Any) -> str:
    """Text that HTML shows as it is, in content and in quoted attributes."""
    return html.escape(str(text), quote=True)


def inline(text: str) -> str:
    """Escaped text with `code`, **strong** and *emphasis*."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(f"<code>{escape(p[1:-1])}</code>" if _is_code(p) else _emphasis(escape(p)) for p in parts)


def _is_code(part: str) -> bool:
    return len(part) > 2 and part.startswith("`") and part.endswith("`")


def _emphasis(escaped: str) -> str:
    escaped = re.sub(r"\*\*(\S(?:.*?\S)?)\*\*", r"<strong>\1</strong>", escaped)
    return re.sub(r"(?<!\w)\*(\S(?:[^*]*?\S)?)\*(?!\w)", r"<em>\1</em>", escaped)


def render(text: str) -> str:
    """HTML of headings (##, ###), paragraphs, lists (- and 1.), fenced code; nothing else is markup."""
    blocks, fence = [], None
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    for line in (line[margin:] for line in lines):
        if fence is not None:
            if line.startswith(FENCE):
                blocks.append(("pre", fence))
                fence = None
            else:
                fence.append(line)
        elif line.startswith(FENCE):
            fence = []
        else:
            _add_line(blocks, line)
    if fence is not None:
        blocks.append(("pre", fence))
    return "\n".join(_block(kind, body) for kind, body in blocks if body or kind == "pre")


def _add_line(blocks: list[tuple[str, list[str]]], line: str) -> None:
    """Put one line into the block it belongs to: it continues the last one, or it opens another."""
    heading = re.match(r"(#{2,4}) +(.*)", line)
    item = re.match(r"(?:(-)|\d+\.) +(.*)", line)
    last = blocks[-1][0] if blocks else ""
    if heading:
        blocks.append((f"h{len(heading[1])}", [heading[2]]))
    elif item:
        kind = "ul" if item[1] else "ol"
        if last != kind:
            blocks.append((kind, []))
        blocks[-1][1].append(item[2])
    elif not line:
        blocks.append(("", []))
    elif last in ("ul", "ol") and line.startswith(" "):
        blocks[-1][1][-1] += " " + line.strip()
    elif last == "p":
        blocks[-1][1].append(line)
    else:
        blocks.append(("p", [line]))


def _block(kind: str, body: list[str]) -> str:
    if kind == "pre":
        return f"<pre><code>{escape(chr(10).join(body))}</code></pre>"
    if kind in ("ul", "ol"):
        return f"<{kind}>{''.join(f'<li>{inline(item)}</li>' for item in body)}</{kind}>"
    if kind == "h2":
        return f'<h2 id="{anchor(body[0])}">{inline(body[0])}</h2>'
    return f"<{kind}>{inline(' '.join(body))}</{kind}>"


def anchor(heading: str) -> str:
    """A heading as the target of a link inside the page."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") or "section"


def number(value: float, digits: int = 4) -> str:
    """A number with `digits` significant digits, no needless zeros, a true minus sign."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{digits}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{value:.0f}" if 0 <= int(exponent) < 9 else f"{mantissa}e{int(exponent)}"
    return text.replace("-", "−")


def decimals(values: Iterable[Any]) -> int | None:
    """Decimals that suit a whole column: four digits of its largest number, if its smallest keeps two of them."""
    sizes = [abs(float(v)) for v in values if _is_float(v) and math.isfinite(v) and v != 0]
    if not sizes or max(sizes) >= 1e7:
        return None
    count = max(0, 3 - math.floor(math.log10(max(sizes))))
    while count and all(round(size, count - 1) == round(size, count) for size in sizes):
        count -= 1
    return count if count <= 6 and min(sizes) * 10**count >= (10 if count > 1 else 1) else None


def _is_float(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_ | Integral)


def cell(value: Any, places: int | None = None) -> tuple[str, str]:
    """(HTML, class) of a table cell: numbers to the right, yes and no with a sign and a word.

    `places` fixes the number of decimals of a float, so that a column lines up.
    """
    if value is None:
        return "–", "empty"
    if isinstance(value, bool | np.bool_):
        return ("✓ yes", "yes") if value else ("✗ no", "no")
    if isinstance(value, Integral):
        return f"{int(value):,}".replace(",", "\u202f").replace("-", "−"), "number"
    if isinstance(value, Real):
        fixed = places is not None and math.isfinite(value)
        return f"{value:.{places}f}".replace("-", "−") if fixed else number(float(value)), "number"
    return inline(str(value)), "text"
