"""The end of a loop: how far each rung got, as table, JSON, picture and page."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from surefoot.files import write_text
from surefoot.loop.folder import Folder
from surefoot.loop.judging import UNITS
from surefoot.loop.on_robot import runs_of
from surefoot.loop.settings import Loop

Ends = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, kw_only=True)
class Step:
    """How one rung did on the robot: values with 90 % intervals (value, low, high)."""

    name: str
    title: str
    success: Ends
    error: Ends
    trials: int
    robot_seconds: float
    """Of robot time that the rung has used: recordings that taught it something, and the run by which its policy was kept or not."""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """All rungs of a loop, from the bottom.

    Attributes:
        robot, task, hardware: what was done where.
        unit: of the errors.
        steps: rungs.
        robot_seconds: of all recordings, the last policy's own run with them.
        seconds: computing time [s].
    """

    robot: str
    task: str
    hardware: str
    unit: str
    steps: tuple[Step, ...]
    robot_seconds: float
    seconds: float

    def __getitem__(self, name: str) -> Step:
        return {step.name: step for step in self.steps}[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = {k: v for k, v in vars(self).items() if k != "steps"}
        return plain | {
            "rungs": [vars(step) | {"success": list(step.success), "error": list(step.error)} for step in self.steps]
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Ladder":
        """The inverse of `to_dict`."""
        steps = [
            Step(**{**row, "success": tuple(row["success"]), "error": tuple(row["error"])}) for row in data["rungs"]
        ]
        return cls(steps=tuple(steps), **{k: v for k, v in data.items() if k != "rungs"})

    def rows(self) -> list[tuple[str, ...]]:
        """The table, titles first."""
        out = [("rung", "success [%]", f"error [{self.unit}]", "trials", "robot time [s]", "remarks")]
        for s in self.steps:
            out.append(
                (s.title, shown(s.success, 100.0), shown(s.error), str(s.trials), f"{s.robot_seconds:.1f}", s.note)
            )
        return out

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        head = f"{self.robot}, {self.task}, on {self.hardware}; 90 % intervals"
        return "\n".join([head, lines[0], "-" * min(max(map(len, lines)), 100), *lines[1:]])


def shown(ends: Ends, scale: float = 1.0) -> str:
    """value (low .. high)."""
    if ends[0] is None:
        return ""
    if ends[1] is None or ends[2] is None:
        return f"{scale * ends[0]:.3g} (one run)"
    value, low, high = (f"{scale * x:.3g}" for x in ends if x is not None)
    return f"{value} ({low} .. {high})"


def ladder_of(loop: Loop, folder: Folder) -> Ladder:
    """The ladder from the results of the loop's steps; rungs that have not been judged are left out."""
    steps = []
    names = [name for rung in loop.rungs for name in runs_of(rung)] + ["explore"]
    spent = sum(folder.record(name).get("result", {}).get("robot_seconds", 0.0) for name in names)
    for rung in loop.rungs:
        if not folder.record(f"judge {rung.name}").get("done"):
            continue
        found = folder.result(f"judge {rung.name}")
        used = ("identify", *runs_of(rung)) if rung.e == "posterior" else ()
        taught = sum(folder.record(name).get("result", {}).get("robot_seconds", 0.0) for name in used)
        about = {"truth": "truth", "posterior": f"choose {rung.name}"}.get(rung.e, "")
        note = folder.record(about).get("result", {}).get("note", "") if about else ""
        note = "; ".join(filter(None, (found.get("note", ""), note)))
        steps.append(Step(
            name=rung.name, title=rung.title, success=tuple(found["success"]), error=tuple(found["error"]),
            trials=found.get("distinct", len(found["trials"])), robot_seconds=taught, note=note,
        ))  # fmt: skip
    return Ladder(
        robot=loop.robot, task=loop.kit.task, hardware=loop.hardware, unit=UNITS[loop.kit.task], steps=tuple(steps), robot_seconds=spent,
        seconds=folder.seconds(),
    )  # fmt: skip


def write_ladder(ladder: Ladder, folder: Folder) -> list[Path]:
    """Write ladder.json, ladder.txt, ladder.svg and report.html."""
    write_text(folder / "ladder.json", json.dumps(ladder.to_dict(), indent=1, ensure_ascii=False) + "\n")
    write_text(folder / "ladder.txt", str(ladder) + "\n")
    write_text(folder / "ladder.svg", drawn(ladder))
    page_of(ladder, folder).save(folder / "report.html")
    return [folder / name for name in ("ladder.json", "ladder.txt", "ladder.svg", "report.html")]


def drawn(ladder: Ladder) -> str:
    """The ladder as a picture (SVG): share of successes of every rung with its interval, the bottom rung below."""
    left, wide, row, top = 250, 340, 34, 46
    height = top + row * len(ladder.steps) + 46

    def x(share: float) -> float:
        return left + wide * share

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="640" height="{height}" fill="#ffffff"/>',
        f'<text x="14" y="26" font-size="15">{escape(ladder.robot)} on {escape(ladder.hardware)}: share of successes</text>',
    ]
    for k, step in enumerate(reversed(ladder.steps)):
        y = top + row * k + row / 2
        value, low, high = (0.0 if v is None else v for v in step.success)
        out.append(f'<text x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(step.title)}</text>')
        out.append(
            f'<rect x="{left}" y="{y - 9:.1f}" width="{wide * value:.1f}" height="18" fill="#0072b2" fill-opacity="0.75"/>'
        )
        out.append(
            f'<line x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#000000" stroke-width="1.5"/>'
        )
        out.append(f'<text x="{left + wide + 8}" y="{y + 4:.1f}">{100 * value:.0f} %</text>')
    bottom = top + row * len(ladder.steps)
    out.append(f'<line x1="{left}" x2="{left + wide}" y1="{bottom}" y2="{bottom}" stroke="#5d5d5d"/>')
    out += [
        f'<text x="{x(s):.1f}" y="{bottom + 18}" text-anchor="middle">{100 * s:.0f}</text>' for s in (0.0, 0.5, 1.0)
    ]
    return "\n".join([*out, "</svg>", ""])


def page_of(ladder: Ladder, folder: Folder) -> Any:
    """The report: the ladder, the gap before and after, what was learnt and what was not."""
    from surefoot.report import Page

    page = Page(
        "How much of reality did the loop bring back?",
        subtitle=f"{ladder.robot}, {ladder.task}, on {ladder.hardware}; {ladder.robot_seconds:.0f} robot seconds in all",
        provenance={"loop": folder.digest("page", ladder.to_dict(), ())[:12], "computing": f"{ladder.seconds:.0f} s"},
    )
    rows = ladder.rows()
    page.table([list(row) for row in rows[1:]], columns=list(rows[0]), caption="Rungs from the bottom; 90 % intervals.")
    ends = [(s.title, *(100.0 * (v or 0.0) for v in s.success)) for s in ladder.steps]
    page.intervals(
        "Success on the robot",
        ends,
        "[%]",
        note="Judged by what the stand-in robot really did; nothing of these runs is learnt from.",
    )
    errors = [(s.title, *s.error) for s in ladder.steps if None not in s.error]
    if errors:
        page.intervals("Error on the robot", errors, f"[{ladder.unit}]")
    _fitted(page, folder)
    _gaps(page, folder)
    return page


def _fitted(page: Any, folder: Folder) -> None:
    found = folder.record("identify").get("result")
    if not found:
        return
    page.table(found["values"], caption=f"Fitted to {found['robot_seconds']:.1f} robot seconds; 90 % intervals.")
    told = (
        (
            "unidentified",
            "What these recordings do not tell apart: the retraining draws it as wide as it was believed.",
        ),
        ("misfit", "What the model lacks, by what is left of the recordings."),
        ("at_bound", "Values that ended at a bound: look at the bound, or at what the model lacks."),
    )
    for key, caption in told:
        if found[key]:
            page.table([[sentence] for sentence in found[key]], columns=[""], caption=caption)
    checked = found.get("checked")  # absent in folders of loops that were run before the motion was checked
    if checked:
        titles = ["", "believed", "±", "expected ±", "found", "found ±", "unit", ""]
        keys = ("name", "believed", "before", "after", "value", "std", "unit", "verdict")
        page.table(
            [[row[key] for key in keys] for row in checked],
            columns=titles,
            caption="What the designed motion was expected to teach, and what the fit found; standard deviations.",
        )


def _gaps(page: Any, folder: Folder) -> None:
    for path in sorted((folder / "steps").glob("gap-*.json")):
        rows = folder.record(path.stem.replace("-", " ")).get("result", {}).get("rows", [])
        if rows:
            keys = ("channel", "column", "nominal", "fitted", "floor", "unit", "horizon")
            page.table(
                [{k: row[k] for k in keys} for row in rows],
                caption=f"Log minus replay, {path.stem.replace('-', ' of ')}, RMS.",
            )
