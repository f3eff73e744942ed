"""`surefoot bench deploy`: contract faults, safety faults, the loop's jitter, and a policy on stand-in robots.

Each part is a module of its own and a case that is kept when the bench is interrupted.
"""

import importlib
import time

from surefoot.bench.cases import work
from surefoot.bench.table import Request, Result

PARTS = {
    "contract faults": "surefoot.bench.contract_faults",
    "safety faults": "surefoot.bench.safety_faults",
    "runtime killed": "surefoot.bench.killed",
    "loop": "surefoot.bench.jitter",
    "stand-in robots": "surefoot.bench.twins",
}
"""Case -> module with `measure(request) -> list[Mark]`."""


def measure(request: Request) -> Result:
    """All parts in order."""
    start = time.perf_counter()
    cases = {
        name: lambda module=module: importlib.import_module(module).measure(request) for name, module in PARTS.items()
    }
    found = work("deploy", cases, request)
    return Result(bench="deploy", marks=tuple(found), seed=0, seconds=time.perf_counter() - start, quick=request.quick)
