"""What `surefoot evaluate` hands back: a page, a JSON file, a CSV file and a picture, from one survey."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.evaluate.survey import Survey
from surefoot.evaluate.width import Width
from surefoot.files import write_text
from surefoot.report import Page


def page_of(
    found: Survey, *, title: str, provenance: Mapping[str, Any], ranges: Mapping[str, Any] | None = None
) -> Page:
    """A page with the tables of a survey and the plot that fits its grid: none, one or two Params."""
    page = Page(
        title,
        subtitle=f"{found.worlds} worlds at each of {len(found.points)} points, the same for every policy",
        provenance=provenance,
    )
    if len(found.policies) > 1:
        page.text(f"## Compared with {found.policies[0]}\n\nDifferences are taken world by world; 90 % intervals.")
        page.table(found.compared())
    grid = list(found.units)
    page.text("## Success")
    if not grid:
        rows = [(name, *_percent(found.estimate(name).to_list())) for name in found.policies]
        page.intervals("Success", rows, "success [%]")
    elif len(grid) == 1:
        of_grid(found, ranges or {}).put(page)
    elif len(grid) == 2:
        for name in found.policies:
            first, second = (list(dict.fromkeys(p[axis] for p in found.points)) for axis in grid)
            share = np.array([found.estimate(name, "success", k).value for k in range(len(found.points))])
            page.heatmap(
                f"Success of {name} [%]", 100 * share.reshape(len(first), len(second)), f"{grid[1]} [{found.units[grid[1]]}]",
                f"{grid[0]} [{found.units[grid[0]]}]", rows=[f"{v:.4g}" for v in first], columns=[f"{v:.4g}" for v in second], unit="%",
            )  # fmt: skip
    page.text("## All quantities\n\nShares with Wilson's, means with Student's 90 % intervals.")
    page.table(found.rows())
    return page


def of_grid(found: Survey, ranges: Mapping[str, Any]) -> Width:
    """A survey over one Param as a width plot; `ranges`: policy -> (low, high) of that Param in training."""
    (param,) = found.units
    values = np.array([point[param] for point in found.points])
    return Width(param=param, unit=found.units[param], values=values, ranges=dict(ranges), survey=found)


def write_all(
    folder: Path, found: Survey, page: Page, data: Mapping[str, Any], ranges: Mapping[str, Any]
) -> list[Path]:
    """page.html, evaluate.json, worlds.csv, and for a grid of one Param width.svg; each whole or not at all."""
    page.save(folder / "page.html")
    write_text(folder / "evaluate.json", json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_text(folder / "worlds.csv", found.to_csv())
    files = [folder / "page.html", folder / "evaluate.json", folder / "worlds.csv"]
    if len(found.units) == 1 and len(found.points) > 1:
        write_text(folder / "width.svg", of_grid(found, ranges).svg())
        files.append(folder / "width.svg")
    return files


def _percent(values: list[float | None]) -> list[float]:
    return [100 * (np.nan if v is None else v) for v in values]
