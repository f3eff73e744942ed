"""benchmarks/RESULTS.md, written by `surefoot bench NAME --write` and never by hand.

Every bench's last result lies beside it as JSON, so that one bench can be measured again without the others. A row stands there once,
as it was measured last: a bench takes the results of its parts away, and a part measured later stands in for the rows of its whole.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from surefoot.bench import BENCHES
from surefoot.bench.table import TITLES, Mark, Result
from surefoot.errors import InputError
from surefoot.files import write_text

FILE = "RESULTS.md"


def results_folder(root: Path | None = None) -> Path:
    """The project's benchmarks folder; an InputError where there is none."""
    folder = (Path.cwd() if root is None else root) / "benchmarks"
    if not folder.is_dir():
        raise InputError("there is no folder 'benchmarks' here to write to: run it in the project's root")
    return folder


def write_results(results: Iterable[Result], root: Path | None = None) -> str:
    """Keep the results as JSON and write RESULTS.md from all that are kept; returns its path below the root."""
    folder = results_folder(root)
    for result in results:
        data = {**result.to_dict(), "quick": result.quick}
        write_text(folder / "results" / f"{result.bench}.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        for part in [] if result.quick else _parts(result.bench):
            (folder / "results" / f"{part}.json").unlink(missing_ok=True)
    kept = {path.stem: _kept(path) for path in sorted((folder / "results").glob("*.json"))}
    sections = [_section(data, [kept[part] for part in _parts(bench) if part in kept]) for bench, data in kept.items()]
    write_text(
        folder / FILE,
        "\n".join(["# Results", "", "Written by `surefoot bench all --write`; not by hand.", "", *sections]),
    )
    return f"{folder.name}/{FILE}"


def _kept(path: Path) -> dict:
    """The result in a file; an InputError where it holds none, which the results written before survive."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["bench"] == path.stem and {"seconds", "seed", "machine", "versions"} <= data.keys():
            for mark in data["marks"]:
                Mark.from_dict(mark)
            return data
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InputError(
        f"{path.parent.name}/{path.name} holds no result of bench '{path.stem}': delete it, or measure it again with --write"
    )


def _parts(bench: str) -> list[str]:
    """Benches that measure a part of this one."""
    return [name for name, other in BENCHES.items() if other.part_of == bench]


def _section(data: dict, parts: list[dict]) -> str:
    """One bench's table, without the rows that its `parts` have measured again since."""
    again = {mark["name"]: part["bench"] for part in parts if not part.get("quick") for mark in part["marks"]}
    marks = [Mark.from_dict(mark) for mark in data["marks"] if mark["name"] not in again]
    versions = ", ".join(f"{name} {number}" for name, number in data["versions"].items())
    machine = ", ".join(f"{name} {fact}" for name, fact in data["machine"].items())
    lines = [f"## {data['bench']}", ""]
    if data.get("quick"):
        lines += ["A quick run: a subset only.", ""]
    lines += [f"Measured in {data['seconds']:.0f} s with seed {data['seed']} on: {machine}; {versions}.", ""]
    if gone := [again[mark["name"]] for mark in data["marks"] if mark["name"] in again]:
        lines += [
            f"Rows measured again since and left out here: {len(gone)}, see {' and '.join(sorted(set(gone)))}.",
            "",
        ]
    lines += ["| " + " | ".join(TITLES) + " |", "|" + "---|" * len(TITLES)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in mark.row) + " |" for mark in marks]
    return "\n".join([*lines, ""])
