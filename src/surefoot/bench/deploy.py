"""`surefoot bench deploy`: contract faults, safety faults, the loop and its end, and a policy on stand-in robots.

A family of four benches; each part is a module with `measure(request) -> list[Mark]` and a case that is kept when it is interrupted.
"""

import importlib
import time

from surefoot.bench.cases import work
from surefoot.bench.table import Request, Result

PARTS = {
    "deploy-contract": {"contract faults": "surefoot.bench.contract_faults"},
    "deploy-safety": {"safety faults": "surefoot.bench.safety_faults"},
    "deploy-loop": {"loop": "surefoot.bench.jitter", "runtime killed": "surefoot.bench.killed"},
    "deploy-twins": {"stand-in robots": "surefoot.bench.twins"},
}
"""Bench -> case -> module."""


def measure_contract(request: Request) -> Result:
    """Faults between policy and robot, on three bundles."""
    return _measure("deploy-contract", request)


def measure_safety(request: Request) -> Result:
    """Faults at run time, and commands that try to leave the limits."""
    return _measure("deploy-safety", request)


def measure_loop(request: Request) -> Result:
    """The fixed-rate loop, its recording, and what the robot does without it."""
    return _measure("deploy-loop", request)


def measure_twins(request: Request) -> Result:
    """From nominal to nasty."""
    return _measure("deploy-twins", request)


def _measure(bench: str, request: Request) -> Result:
    start = time.perf_counter()
    cases = {
        name: lambda module=module: importlib.import_module(module).measure(request)
        for name, module in PARTS[bench].items()
    }
    found = work(bench, cases, request)
    return Result(bench=bench, marks=tuple(found), seed=0, seconds=time.perf_counter() - start, quick=request.quick)
