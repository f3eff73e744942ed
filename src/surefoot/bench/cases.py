"""A bench works case by case; an interrupted one goes on where it stopped.

A finished case is kept in the cache folder under a hash of everything it depends on: bench, case, options, this
package's files, machine and versions. When the whole bench has finished its cases are forgotten, so that the next run
measures anew.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from surefoot.bench.table import Mark, Request, machine, versions
from surefoot.files import write_text

Case = Callable[[], list[Mark]]


def work(bench: str, cases: Mapping[str, Case], request: Request) -> list[Mark]:
    """Marks of all cases in order; those finished by an interrupted run with the same inputs are not measured again."""
    marks: list[Mark] = []
    files = {name: folder() / f"{bench}-{_digest(bench, name, request)}.json" for name in cases}
    for number, (name, measure) in enumerate(cases.items(), 1):
        kept = None if request.fresh else _kept(files[name])
        if kept is not None:
            request.tell(f"{bench} {number}/{len(cases)}: {name} (kept from the interrupted run)")
            marks += kept
            continue
        request.tell(f"{bench} {number}/{len(cases)}: {name}")
        start = time.perf_counter()
        found = measure()
        write_text(files[name], json.dumps([m.to_dict() for m in found]))
        request.tell(f"{bench} {number}/{len(cases)}: {name}: {time.perf_counter() - start:.1f} s")
        marks += found
    for file in files.values():
        file.unlink(missing_ok=True)
    return marks


def folder() -> Path:
    """Where finished cases are kept: SUREFOOT_CACHE, else the user's cache folder."""
    if "SUREFOOT_CACHE" in os.environ:
        return Path(os.environ["SUREFOOT_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "surefoot" / "bench"


def _kept(file: Path) -> list[Mark] | None:
    try:
        return [Mark.from_dict(entry) for entry in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _digest(bench: str, case: str, request: Request) -> str:
    inputs = [str(p) for p in (request.train, request.test, request.realities)]
    facts = [bench, case, request.quick, request.seeds, inputs, machine(), versions(), package_hash()]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


@cache
def package_hash() -> str:
    """Content hash of this package's code and data files."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".toml", ".xml", ".js", ".css")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
