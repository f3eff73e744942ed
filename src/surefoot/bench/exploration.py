"""Active exploration: the same seconds of robot time, spent as `excite` says or as is usually done; whose e is nearer the truth?

    active       a quarter of the time designed for the prior, a fit, the rest designed for its posterior
    usual        the whole time: random steps, a chirp, or a multi-sine, as large as the limits allow in all worlds that are believed in
    informed     the same, as large as the limits of this very robot allow, which nobody knows beforehand

All keep the same limits (joints, speeds, torques); but for the informed ones, which are shown beside, all know the same.

Every robot is a stand-in with a hidden e and sensors with noise (see planted_e). All are fitted by the same `identify`.
The error of a scalar is |ê − e| over the standard deviation of what was believed before any motion.
"""

import time
import zlib
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from surefoot.bench.cases import work
from surefoot.bench.planted_e import Hidden, Kind, hidden_e
from surefoot.bench.table import Mark, Request, Result
from surefoot.identify import Fit, identify
from surefoot.identify.excitations import Grid, random_steps, usual_chirp, usual_multi_sine
from surefoot.identify.excite import DRIFT, Beliefs, Effort, Judge, excite, noise_of, usual_limits
from surefoot.identify.information import Information, Lens, sensor_noise_of
from surefoot.logs import Log
from surefoot.params import E
from surefoot.sim import Sim

USUAL: dict[str, Callable[[Grid, np.random.Generator], np.ndarray]] = {
    "random": random_steps,
    "chirp": lambda grid, _: usual_chirp(grid),
    "multi-sine": lambda grid, _: usual_multi_sine(grid),
}
"""How robots are usually moved for identification."""
AMPLITUDES = tuple(np.geomspace(1.0, 0.01, 24).tolist())
"""Shares of the full amplitude that are tried; a robot that none of them keeps within its limits is not moved, and teaches nothing."""
ACTIVE = "active"
INFORMED = "informed"
FIRST = 0.25
"""Share of the time that is designed before anything was learned."""
SECONDS = "4 s each"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is to be learned of which robot in how much time."""

    kind: Kind
    timestep: float
    """[s] of the simulator that designs and fits."""
    window: float
    prior_effort: Effort
    effort: Effort

    def sim(self) -> Sim:
        """The simulator."""
        return Sim(replace(self.kind.load(), timestep=self.timestep))


TASKS: dict[str, Task] = {
    "qube": Task(
        kind=Kind(
            robot="qube",
            only=("arm_mass", "pendulum_mass", "pendulum_com", "arm_damping", "pendulum_damping", "arm_coulomb", "command_delay"),
            seconds=4.0,
        ),
        timestep=0.002, window=1.0,
        prior_effort=Effort(families=("multi-sine",), population=24, rounds=6, elite=6, samples=6),
        effort=Effort(families=("multi-sine", "chirp"), population=24, rounds=6, elite=5, samples=1),
    ),
    "servo": Task(
        kind=Kind(robot="servo", only=("kp", "kd", "armature", "coulomb", "command_delay"), seconds=4.0),
        timestep=0.001, window=1.0,
        prior_effort=Effort(families=("multi-sine",), population=16, rounds=4, elite=4, samples=6),
        effort=Effort(families=("multi-sine", "chirp"), population=16, rounds=5, elite=4, samples=1),
    ),
    "go2": Task(
        kind=Kind(robot="go2", only=("kp", "armature", "damping", "coulomb", "command_delay"), seconds=4.0, air=True),
        timestep=0.005, window=1.0,
        prior_effort=Effort(families=("multi-sine",), population=12, rounds=4, elite=3, samples=4),
        effort=Effort(families=("multi-sine", "chirp"), population=16, rounds=5, elite=4, samples=1),
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What does not depend on the hidden robot: the simulator, and the first part of the active motion."""

    task: Task
    sim: Sim
    judge: Judge
    first: np.ndarray

    def motion(self, name: str, seed: int, e: E | None = None) -> np.ndarray:
        """Commands (T, nu) of a usual motion, as large as the limits allow in all worlds believed in, or in the world e."""
        judge = copy(self.judge)
        if e is not None:
            judge.beliefs = copy(self.judge.beliefs)
            judge.beliefs.e = e
        grid = judge.grid(self.task.kind.seconds)
        u, _ = judge.scaled(USUAL[name](grid, np.random.default_rng(seed))[None], AMPLITUDES)
        return u[0]


@cache
def prepared(name: str) -> Prepared:
    """The part that all stand-ins of a robot share."""
    task = TASKS[name]
    sim, only = task.sim(), task.kind.only
    beliefs = Beliefs(sim, None, only, task.prior_effort.samples, 0)
    noise = sensor_noise_of(sim, drift=DRIFT)
    lens = Lens(names=beliefs.names, noise=noise, window=task.window)
    judge = Judge(sim, Information(sim, lens), beliefs, usual_limits(sim, beliefs.names), task.prior_effort)
    seconds = FIRST * task.kind.seconds
    design = excite(sim, None, only=only, seconds=seconds, window=task.window, noise=noise, effort=task.prior_effort)
    return Prepared(task=task, sim=sim, judge=judge, first=design.motion.values)


def error_of(ready: Prepared, fit: Fit, e: E) -> np.ndarray:
    """|ê − e| over the standard deviation of the prior, (d,)."""
    beliefs = ready.judge.beliefs
    truth = beliefs.params.flatten({n: e[n] for n in beliefs.names})[0]
    return np.abs(fit.values - truth) / beliefs.std


def fitted(ready: Prepared, logs: list[Log], prior: Any = None) -> Fit:
    """The fit of one or two recordings, all of them seen."""
    return identify(
        ready.sim,
        logs,
        only=ready.task.kind.only,
        window=min(ready.task.window, *(log.duration for log in logs)),
        held_out=0.0,
        begin=None if prior is None else prior,
    )


def explored(name: str, seed: int, say: Callable[[str], None] = lambda _line: None) -> dict[str, np.ndarray]:
    """Errors (d,) by method on one hidden robot."""
    ready = prepared(name)
    task, sim, only = ready.task, ready.sim, ready.task.kind.only
    e = hidden_e(sim, only, seed)
    robot = replace(task.kind.load(), timestep=task.timestep)

    def play(u: np.ndarray, stream: int) -> Log:
        return Hidden(robot, sim, e, seed=seed + stream).play(u)

    out: dict[str, np.ndarray] = {}
    for number, method in enumerate(USUAL):
        for label, world in ((method, None), (f"{INFORMED}-{method}", e)):
            out[label] = error_of(ready, fitted(ready, [play(ready.motion(method, seed, world), number)]), e)
            say(f"{name} {seed} {label}: median error {np.median(out[label]):.4f}")
    first = play(ready.first, 7)
    early = fitted(ready, [first])
    say(f"{name} {seed} first part: median error {np.median(error_of(ready, early, e)):.4f}")
    design = excite(
        sim, early.posterior, only=only, seconds=(1.0 - FIRST) * task.kind.seconds, window=task.window, noise=noise_of(sim, early),
        effort=task.effort, seed=seed,
    )  # fmt: skip
    fit = fitted(ready, [first, play(design.motion.values, 8)], early.e)
    out[ACTIVE] = error_of(ready, fit, e)
    say(f"{name} {seed} active: median error {np.median(out[ACTIVE]):.4f}")
    return out


def measure(request: Request) -> Result:
    """The marks over 20 hidden robots (3 when quick)."""
    begin = time.perf_counter()
    counts = {"qube": 1, "servo": 1, "go2": 1} if request.quick else {"qube": 8, "servo": 6, "go2": 6}
    cases = {f"{name} {i}": _case(name, i, request) for name, n in counts.items() for i in range(n)}
    rows = work("exploration", cases, request)
    return Result(
        bench="exploration",
        marks=tuple(summary(rows)),
        seed=0,
        seconds=time.perf_counter() - begin,
        quick=request.quick,
    )


def _case(name: str, i: int, request: Request) -> Callable[[], list[Mark]]:
    def run() -> list[Mark]:
        found = explored(name, zlib.crc32(f"explore {name} {i}".encode()) % 2**31, request.tell)
        labels = prepared(name).judge.beliefs.params.names
        return [
            Mark(name=f"{name} {i} {method} {label}", value=float(v))
            for method, errors in found.items()
            for label, v in zip(labels, errors, strict=True)
        ]

    return run


def summary(rows: list[Mark]) -> list[Mark]:
    """Median errors by method over all robots and scalars, and the ratio of active to the best usual one."""
    marks = []
    for robot in ("all", *TASKS):
        mine = [[*r.name.split(), r.value] for r in rows if robot == "all" or r.name.startswith(f"{robot} ")]
        if not mine:
            continue
        errors = {
            m: np.array([r[4] for r in mine if r[2] == m], dtype=float) for m in dict.fromkeys(r[2] for r in mine)
        }
        median = {m: float(np.median(v)) for m, v in errors.items()}
        twins = len({(r[0], r[1]) for r in mine})
        label = "exploration" if robot == "all" else f"exploration, {robot}"
        for rivals, words, judged in (
            (tuple(USUAL), "the best usual motion", robot == "all"),
            (tuple(f"{INFORMED}-{m}" for m in USUAL), "the best usual motion of informed amplitude", False),
        ):
            best = min(rivals, key=lambda m: median[m])
            about = ", ".join(f"{m} {median[m]:.4f}" for m in (*rivals, ACTIVE))
            pairs = float((errors[ACTIVE] < errors[best]).mean())
            marks.append(Mark(
                name=f"{label}: median error, active over {words}", value=median[ACTIVE] / max(median[best], 1e-300),
                op="<=" if judged else None, mark=0.5 if judged else None,
                reference=(
                    f"{twins} hidden robots, {SECONDS}; {about} of what was believed; nearer the truth than {best} in {100 * pairs:.0f} % "
                    f"of {len(errors[ACTIVE])} scalars; SPI-Active: 42-63 % better than its baselines"
                ),
            ))  # fmt: skip
    return marks
