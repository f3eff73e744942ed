"""What surefoot promises, measured: `surefoot bench NAME`. Each bench is a module with `measure(request) -> Result`."""

import importlib
from dataclasses import dataclass

from surefoot.bench.table import Mark as Mark
from surefoot.bench.table import Request as Request
from surefoot.bench.table import Result as Result
from surefoot.errors import InputError, choose


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One entry of the registry; its module is imported when it runs."""

    about: str
    module: str
    minutes: float
    """Expected time on two cores."""
    quick_minutes: float
    uses: tuple[str, ...] = ()
    """Which of train, test, realities, seeds it takes."""


BENCHES: dict[str, Bench] = {
    "sim": Bench(
        about="speed of Sim against a bare batch loop, and whether e acts, reads back and repeats bit for bit",
        module="surefoot.bench.sim",
        minutes=3.0,
        quick_minutes=1.0,
    ),
    "learn": Bench(
        about="transitions and time until a quadruped walks, seed by seed (extra `learn`)",
        module="surefoot.bench.learn",
        minutes=4.0,
        quick_minutes=4.0,
        uses=("seeds",),
    ),
}


def run(name: str, request: Request) -> Result:
    """Run one bench."""
    bench = BENCHES[choose(name, BENCHES, "a bench")]
    given = {"train": request.train, "test": request.test, "realities": request.realities}
    for option, value in given.items():
        if value is not None and option not in bench.uses:
            raise InputError(f"bench {name} takes no recordings or realities: leave out --{option}")
        if value is not None and not value.is_dir():
            raise InputError(f"--{option} {value} is not a folder: give the folder that holds the files")
    if request.seeds != 1 and "seeds" not in bench.uses:
        raise InputError(f"bench {name} does not depend on a seed: leave out --seeds")
    minutes = bench.quick_minutes if request.quick else bench.minutes
    request.tell(f"{name}: about {minutes:g} min on two cores" + (" (quick: a subset)" if request.quick else ""))
    return importlib.import_module(bench.module).measure(request)
