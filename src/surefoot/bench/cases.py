"""A bench works case by case; an interrupted one goes on where it stopped.

A finished case is kept in the cache folder under a hash of everything it depends on: bench, case, options, this
package's files, machine and versions. When the whole bench has finished its cases are forgotten, so that the next run
measures anew. Cases that measure no time may run side by side, each in a process of its own.
"""

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

from surefoot.bench.table import Mark, Request, machine, versions
from surefoot.files import write_text

Case = Callable[[], list[Mark]]


def work(bench: str, cases: Mapping[str, Case], request: Request) -> list[Mark]:
    """Marks of all cases in order; those finished by an interrupted run with the same inputs are not measured again."""
    files = {name: folder() / f"{bench}-{_digest(bench, name, request)}.json" for name in cases}
    found: dict[str, list[Mark]] = {}
    for name, file in files.items():
        kept = None if request.fresh else _kept(file)
        if kept is not None:
            found[name] = kept
            request.tell(f"{bench} {len(found)}/{len(cases)}: {name} (kept from the interrupted run)")
    left = {name: measure for name, measure in cases.items() if name not in found}
    for name, (marks, seconds) in beside(left, request.jobs, lambda name: request.tell(f"{bench}: {name}")):
        write_text(files[name], json.dumps([m.to_dict() for m in marks]))
        found[name] = marks
        request.tell(f"{bench} {len(found)}/{len(cases)}: {name}: {seconds:.1f} s")
    for file in files.values():
        file.unlink(missing_ok=True)
    return [mark for name in cases for mark in found[name]]


def beside(
    tasks: Mapping[str, Callable[[], Any]], jobs: int, begun: Callable[[str], None]
) -> Iterator[tuple[str, tuple[Any, float]]]:
    """(name, (what a task returned, its seconds)) as tasks end; with more than one job each runs in a forked process.

    A failure or an interrupt ends the tasks that still run.

    Args:
        tasks: by name; what they return is sent between processes.
        jobs: how many run at a time.
        begun: told the name of a task before it starts, where one runs after the other.
    """
    if jobs <= 1:
        for name, task in tasks.items():
            begun(name)
            yield name, _timed(task)
        return
    _shared.update(tasks)
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork"))
    try:
        running = {pool.submit(_run_shared, name): name for name in tasks}
        for done in as_completed(running):
            yield running[done], done.result()
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        for name in tasks:
            _shared.pop(name, None)


_shared: dict[str, Callable[[], Any]] = {}
"""Tasks that forked processes find by name: closures cannot be sent."""


def _run_shared(name: str) -> tuple[Any, float]:
    return _timed(_shared[name])


def _timed(task: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return task(), time.perf_counter() - start


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
