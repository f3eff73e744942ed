"""`surefoot bench real --train DIR [--test DIR]`: fits on real recordings, judged on recordings that no fit saw.

One part a set, each a module with `measure(request) -> list[Mark]`; every row names metric, horizon and start state. A set that the
folders lack, or a part that this build lacks, is a row that says so. `surefoot bench identify` holds the parts that need no recordings:
planted truths and exploration on twins.
"""

import importlib
import importlib.util
import time
from collections.abc import Mapping
from dataclasses import replace

from surefoot.bench.cases import work
from surefoot.bench.real_data import absent, data_folder
from surefoot.bench.table import Mark, Request, Result
from surefoot.errors import InputError

RECORDINGS = {
    "EMPS": "real_emps",
    "wall time": "real_speed",
    "Qube": "real_qube",
    "double pendulum": "real_pendulum",
    "XL330": "real_xl330",
    "SO-101": "real_so101",
    "Go2": "real_go2",
    "coverage": "real_coverage",
    "latency": "real_latency",
}
"""Part -> module of this package."""
TWINS = {"planted truth": "planted_e", "exploration": "exploration"}


def measure(request: Request) -> Result:
    """All sets of recordings."""
    folder = data_folder(request)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder} with recordings: give one with --train, or set SUREFOOT_DATA")
    judges = (
        f"judged on {request.test}"
        if request.test is not None
        else "judged on recordings of the same folder that are not fitted"
    )
    request.tell(f"real: recordings of {folder}, {judges}")
    return _measure("real", RECORDINGS, request)


def measure_time(request: Request) -> Result:
    """The wall time of a fit alone."""
    return _measure("fit-time", {"wall time": RECORDINGS["wall time"]}, request)


def measure_coverage(request: Request) -> Result:
    """The coverage of intervals alone."""
    return _measure("coverage", {"coverage": RECORDINGS["coverage"]}, request)


def measure_xl330(request: Request) -> Result:
    """The servo alone."""
    return _measure("xl330", {"XL330": RECORDINGS["XL330"]}, request)


def measure_twins(request: Request) -> Result:
    """Planted truths and exploration."""
    return _measure("identify", TWINS, request)


def _measure(bench: str, parts: Mapping[str, str], request: Request) -> Result:
    start = time.perf_counter()
    cases = {name: lambda name=name, module=module: part(name, module, request) for name, module in parts.items()}
    found = work(bench, cases, replace(request, jobs=1))  # a part's own cases run side by side
    return Result(bench=bench, marks=tuple(found), seed=0, seconds=time.perf_counter() - start, quick=request.quick)


def part(name: str, module: str, request: Request) -> list[Mark]:
    """Rows of one part; one row that says why, when it is not there or cannot read the recordings."""
    path = f"{__package__}.{module}"
    if importlib.util.find_spec(path) is None:
        return [absent(name, "this build has no such part")]
    try:
        found = importlib.import_module(path).measure(request)
        return list(found.marks if isinstance(found, Result) else found)
    except InputError as error:
        return [absent(name, str(error))]
