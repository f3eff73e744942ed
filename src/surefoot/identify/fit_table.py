"""A Fit as text for people: a line a scalar, then what could not be known and what is left."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

LEARNT = 0.5
"""Shrink above which a combination counts as not identified, below it as hardly separated."""

if TYPE_CHECKING:
    from surefoot.identify.fit import Fit
    from surefoot.params import Param

SLIDE = {
    "rad": "m", "rad/s": "m/s", "N·m": "N", "N·m/rad": "N/m", "N·m·s/rad": "N·s/m", "1/(N·m)": "1/N", "kg·m²": "kg",
}  # fmt: skip
"""Units of joint Params where the joint slides instead of turning."""
TURNS = ("axis_tilt", "rotor_inertia")
"""Kinds of joint Params that are about something that turns, whatever its joint does."""


def units_of(fit: "Fit") -> list[str]:
    """Unit of every scalar; of joints that the fit was judged on in metres or newtons, those of slides."""
    return [
        unit
        for name, param in fit.params.items()
        for unit in (_unit(fit, param, element) for element in fit.params.elements[name] or (None,))
    ]


def _unit(fit: "Fit", param: "Param", element: str | None) -> str:
    """Unit of one scalar of a Param, `element` its joint; None: it is tied over all that the Param matches."""
    if param.about.target != "joint" or param.kind in TURNS:
        return param.unit
    of = param.of if element is None else (element,)
    found = {
        s.unit in ("m", "m/s", "N")
        for s in fit.scores
        if s.channel.startswith("joint_") and (re.fullmatch(of, s.column) if isinstance(of, str) else s.column in of)
    }
    return SLIDE.get(param.unit, param.unit) if found == {True} else param.unit


def rows_of(fit: "Fit", level: float = 0.9) -> list[tuple[str, ...]]:
    """Cells of the table, titles first."""
    interval, nominal, units = fit.intervals(level), fit.params.nominal, units_of(fit)
    bounds = _recordings(fit.at_bound)
    doubtful = _recordings(name for c in fit.unidentified if c.shrink > LEARNT for name in c.names)
    out = [("", "value", "±", f"{level:.0%} interval", "nominal", "unit", "white ±", "")]
    for i, name in enumerate(fit.names):
        remarks = (("at a bound", bounds), ("not identified", doubtful))
        remark = ", ".join(words + _in_which(fit, marked[name]) for words, marked in remarks if name in marked)
        out.append((
            name, f"{fit.values[i]:.5g}", f"{fit.std[i]:.2g}", f"{interval[i, 0]:.4g} .. {interval[i, 1]:.4g}",
            f"{nominal[i]:.4g}", units[i], f"{fit.white_std[i]:.2g}", remark,
        ))  # fmt: skip
    return out


def _recordings(labels: Iterable[str]) -> dict[str, set[int]]:
    """The scalars that labels such as "encoder_bias@2" or "kp" name, and in which recordings; none: in all of them."""
    out: dict[str, set[int]] = {}
    for label in labels:
        number = re.search(r"@(\d+)", label)
        found = out.setdefault(re.sub(r"@\d+", "", label), set())
        if number:
            found.add(int(number[1]))
    return out


def _in_which(fit: "Fit", numbers: set[int]) -> str:
    """Words for some of the recordings; none for all of them."""
    if not numbers or numbers == {run.number for run in fit.runs}:
        return ""
    return f" in recording {', '.join(str(n) for n in sorted(numbers))}"


def run_rows(fit: "Fit") -> list[tuple[str, ...]]:
    """Cells of the table of the recordings' own values, titles first."""
    named = [name for name in fit.names if name.partition("[")[0] in fit.runs[0].values]
    out: list[tuple[str, ...]] = [("recording", *named, "title")]
    for run in fit.runs:
        pairs = [(v, s) for name in run.values
                 for v, s in zip(np.ravel(run.values[name]), np.ravel(run.std[name]), strict=True)]  # fmt: skip
        out.append((str(run.number), *(f"{v:.5g} ± {s:.2g}" for v, s in pairs), run.title))
    return out


def score_rows(fit: "Fit") -> list[tuple[str, ...]]:
    """Cells of the table of errors, titles first."""
    out: list[tuple[str, ...]] = [
        ("windows", "channel", "column", "before", "after", "noise floor", "unit", "horizon", "start")
    ]
    for s in fit.scores:
        numbers = [f"{v:.4g}" for v in (s.before, s.after, s.floor)]
        out.append((s.windows, s.channel, s.column, *numbers, s.unit, f"{s.horizon:.3g} s", s.start))
    return out


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Rows of text with their columns lined up."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def fit_table(fit: "Fit") -> str:
    """The whole Fit as text."""
    seconds = fit.provenance.get("seconds")
    title = f"Fit ({fit.mode}) of {len(fit.names)} scalars" + (f" to {seconds:.3g} s of logs" if seconds else "")
    lines = [title, aligned(rows_of(fit))]
    if fit.runs:
        lines += ["in each recording (above: their mean, and the width of the next one)", aligned(run_rows(fit))]
    for c in fit.unidentified:
        what = "not identified" if c.shrink > LEARNT else "hardly separated"
        lines.append(f"{what}: {c.combination}; to tell: {c.experiment}")
    if fit.at_bound:
        lines.append(f"at a bound: {', '.join(fit.at_bound)}: widen the bounds, or the model lacks something")
    if fit.scores:
        lines.append(aligned(_summed(fit)))
    lines += [f"misfit: {sentence}" for sentence in misfit_lines(fit)]
    lines += [f"note: {sentence}" for sentence in notes_of(fit)]
    return "\n".join(lines)


def notes_of(fit: "Fit") -> list[str]:
    """What to know before the fit is trusted: what was not judged, and where held-out errors grew."""
    out = [str(note) for note in fit.provenance.get("notes", ())]
    worse = [s for s in fit.scores if s.windows == "held out" and s.after > max(1.05 * s.before, 2 * s.floor)]
    if worse:
        names = ", ".join(f"{s.column} {s.before:.3g} -> {s.after:.3g} {s.unit}" for s in worse[:4])
        more = f" and {len(worse) - 4} more" if len(worse) > 4 else ""
        out.append(f"on held-out windows the fitted values are worse than the nominal ones: {names}{more}")
    return out


def misfit_lines(fit: "Fit", most: int = 6) -> list[str]:
    """The patterns in words, those of one kind and channel together where several columns show it."""
    out = []
    for kind, channel in dict.fromkeys((m.kind, m.channel) for m in fit.misfit):
        some = [m for m in fit.misfit if (m.kind, m.channel) == (kind, channel)]
        others = [m.column for m in some[1:]]
        shown = ", ".join(others[:most]) + (f" and {len(others) - most} more" if len(others) > most else "")
        out.append(some[0].sentence + (f"; likewise {shown}" if others else ""))
    return out


def _summed(fit: "Fit") -> list[tuple[str, ...]]:
    """Scores by window set and channel, root mean squares over the columns; all columns where there are few."""
    rows = score_rows(fit)
    if len(rows) <= 9:
        return rows
    out = [tuple(c for c in rows[0])]
    for key in dict.fromkeys((s.windows, s.channel) for s in fit.scores):
        some = [s for s in fit.scores if (s.windows, s.channel) == key]
        rms = [f"{np.sqrt(np.mean([getattr(s, f) ** 2 for s in some])):.4g}" for f in ("before", "after", "floor")]
        out.append((*key, f"all {len(some)}", *rms, some[0].unit, f"{some[0].horizon:.3g} s", some[0].start))
    return out
