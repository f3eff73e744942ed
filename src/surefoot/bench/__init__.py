"""What surefoot promises, measured: `surefoot bench NAME`. Each bench is a module with `measure(request) -> Result`."""

import importlib
from dataclasses import dataclass, replace

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
    """Which of train, test, realities, seeds, jobs it takes."""
    seeds: int = 1
    """Repetitions unless the request says how many."""
    measure: str = "measure"
    """The function of the module."""
    part_of: str = ""
    """The bench that measures this too; "all" leaves it out."""


BENCHES: dict[str, Bench] = {
    "sim": Bench(
        about="speed of Sim against a bare batch loop, and whether e acts, reads back and repeats bit for bit",
        module="surefoot.bench.sim",
        minutes=3.0,
        quick_minutes=1.0,
    ),
    "learn-go2": Bench(
        about="transitions and time until a quadruped walks, seed by seed (extra `learn`)",
        module="surefoot.bench.learn",
        minutes=15.0,
        quick_minutes=3.0,
        uses=("seeds",),
        seeds=5,
        measure="measure_go2",
    ),
    "learn-g1": Bench(
        about="the same for a humanoid whose arms are held (extra `learn`)",
        module="surefoot.bench.learn",
        minutes=50.0,
        quick_minutes=8.0,
        uses=("seeds",),
        seeds=3,
        measure="measure_g1",
    ),
    "learn-small": Bench(
        about="the same for hover, cartpole and qube swing-up, and the hopper (extra `learn`)",
        module="surefoot.bench.learn",
        minutes=20.0,
        quick_minutes=4.0,
        uses=("seeds",),
        seeds=5,
        measure="measure_small",
    ),
    "learn-peers": Bench(
        about="beside Stable-Baselines3 on the same hopper physics (extra `dev`)",
        module="surefoot.bench.peers",
        minutes=6.0,
        quick_minutes=6.0,
        uses=("seeds",),
    ),
    "learn-rough": Bench(
        about="Go2 on steps and slopes, blind and with a height scan, learned by curricula (extra `learn`)",
        module="surefoot.bench.rough",
        minutes=45.0,
        quick_minutes=6.0,
        uses=("seeds",),
    ),
    "deploy-contract": Bench(
        about="faults in the contract between policy and robot: caught, named, no false alarms (extra `dev`)",
        module="surefoot.bench.deploy",
        minutes=6.0,
        quick_minutes=2.0,
        measure="measure_contract",
    ),
    "deploy-safety": Bench(
        about="run-time faults, adversarial commands and the cost of the safety layer (extra `dev`)",
        module="surefoot.bench.deploy",
        minutes=6.0,
        quick_minutes=1.0,
        measure="measure_safety",
    ),
    "deploy-loop": Bench(
        about="the runtime's jitter and overruns, its log after kill -9, and robots whose runtime died (extra `deploy`)",
        module="surefoot.bench.deploy",
        minutes=6.0,
        quick_minutes=2.0,
        measure="measure_loop",
    ),
    "deploy-twins": Bench(
        about="a policy on stand-in robots, from nominal to nasty (extra `deploy`)",
        module="surefoot.bench.deploy",
        minutes=5.0,
        quick_minutes=1.0,
        uses=("realities",),
        measure="measure_twins",
    ),
    "gpu": Bench(
        about="speed, agreement and learning of the CUDA engine; needs an NVIDIA GPU (extras `learn`, `gpu`)",
        module="surefoot.bench.gpu",
        minutes=8.0,
        quick_minutes=3.0,
        uses=("seeds",),
        seeds=3,
    ),
    "physx": Bench(
        about="an independent engine: agreement without contact, distance with it, and a policy that never met it (extra `physx`)",
        module="surefoot.bench.physx",
        minutes=8.0,
        quick_minutes=1.5,
    ),
    "real": Bench(
        about="fits on real recordings, judged on others: EMPS, Qube, double pendulum, servos, SO-101, Go2 (extra `dev`)",
        module="surefoot.bench.real",
        minutes=25.0,
        quick_minutes=8.0,
        uses=("train", "test"),
    ),
    "fit-time": Bench(
        about="the time of a fit beside mujoco.sysid's, alone: the part of `real` that other work on the machine spoils (extra `dev`)",
        module="surefoot.bench.real",
        minutes=1.0,
        quick_minutes=1.0,
        uses=("train",),
        measure="measure_time",
        part_of="real",
    ),
    "coverage": Bench(
        about="whether 90 % intervals of 5 s cuts hold what whole recordings say, alone: a part of `real`",
        module="surefoot.bench.real",
        minutes=4.0,
        quick_minutes=2.0,
        uses=("train",),
        measure="measure_coverage",
        part_of="real",
    ),
    "xl330": Bench(
        about="the structure of a servo, and its gains predicted from the others, alone: a part of `real`",
        module="surefoot.bench.real",
        minutes=7.0,
        quick_minutes=2.0,
        uses=("train", "test"),
        measure="measure_xl330",
        part_of="real",
    ),
    "identify": Bench(
        about="planted truths against the Cramér-Rao bound, and active exploration, on twins",
        module="surefoot.bench.real",
        minutes=60.0,
        quick_minutes=4.0,
        uses=("seeds", "jobs"),
        measure="measure_twins",
    ),
    "planted-e": Bench(
        about="hidden e found as well as the Cramér-Rao bound allows, intervals that cover it, confounded Params named",
        module="surefoot.bench.planted_e",
        minutes=40.0,
        quick_minutes=3.0,
        uses=("seeds", "jobs"),
        part_of="identify",
    ),
    "exploration": Bench(
        about="the same seconds of robot time as `excite` designs them against random, chirp and multi-sine motions",
        module="surefoot.bench.exploration",
        minutes=25.0,
        quick_minutes=5.0,
        uses=("jobs",),
        part_of="identify",
    ),
    "loop": Bench(
        about="train, deploy, identify, retrain on hidden stand-in robots: against randomized and the oracle (extras `learn`, `deploy`)",
        module="surefoot.bench.loop",
        minutes=40.0,
        quick_minutes=8.0,
        uses=("realities", "seeds", "jobs"),
    ),
    "learn-width": Bench(
        about="how wide to randomize: four widths, randomized against not, the price of robustness (extra `learn`)",
        module="surefoot.bench.width",
        minutes=14.0,
        quick_minutes=12.0,
        uses=("seeds",),
    ),
}


def named(name: str) -> list[str]:
    """The benches that a name stands for: itself, all of a family ("learn"), or "all"."""
    if name == "all" or name in BENCHES:
        return [bench for bench, about in BENCHES.items() if not about.part_of] if name == "all" else [name]
    families = {bench.split("-")[0] for bench in BENCHES if "-" in bench}
    choose(name, [*BENCHES, *families, "all", "list"], "a bench")
    return [bench for bench in BENCHES if bench.split("-")[0] == name]


def run(name: str, request: Request) -> Result:
    """Run one bench."""
    bench = BENCHES[choose(name, BENCHES, "a bench")]
    given = {"train": request.train, "test": request.test, "realities": request.realities}
    for option, value in given.items():
        if value is not None and option not in bench.uses:
            raise InputError(f"bench {name} takes no --{option}: leave it out")
        if value is not None and not value.is_dir():
            raise InputError(f"--{option} {value} is not a folder: give the folder that holds the files")
    if request.seeds and "seeds" not in bench.uses:
        raise InputError(f"bench {name} does not depend on a seed: leave out --seeds")
    if request.seeds < 0:
        raise InputError(f"--seeds must be at least 1, or 0 for the bench's own number; given {request.seeds}")
    if request.jobs != 1 and "jobs" not in bench.uses:
        raise InputError(
            f"the cases of bench {name} measure time or are few, so they run one after the other: leave out --jobs"
        )
    if request.jobs < 1:
        raise InputError(f"--jobs must be at least 1; given {request.jobs}")
    request = replace(request, seeds=request.seeds or (1 if request.quick else bench.seeds))
    once = bench.quick_minutes if request.quick else bench.minutes / bench.seeds
    minutes = once * request.seeds
    request.tell(f"{name}: about {minutes:g} min on two cores" + (" (quick: a subset)" if request.quick else ""))
    return getattr(importlib.import_module(bench.module), bench.measure)(request)
