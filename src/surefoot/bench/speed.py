"""Speeds that can be compared: loops take turns in one run, so that another program's load falls on all alike."""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
from mujoco.batch import Batch

from surefoot.sim import Sim


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Something that steps worlds: `start` puts them back, `go(k)` does control step k."""

    start: Callable[[], None]
    go: Callable[[int], None]
    steps: int
    """Physics steps in one `go`, all worlds together."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured number: median and quartiles over the rounds."""

    median: float
    low: float
    high: float
    rounds: int

    @property
    def spread(self) -> str:
        """In words, for the reference of a Mark."""
        return f"median of {self.rounds} rounds, quartiles {self.low:.3g}..{self.high:.3g}"


def take_turns(
    loops: Mapping[str, Loop], *, rounds: int, control_steps: int | Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Physics steps/s of each loop in each round, (rounds,).

    All start anew every round, the order rotates, and a first round is discarded.
    """
    out: dict[str, list[float]] = {name: [] for name in loops}
    names = list(loops)
    gc.collect()
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            loop, n = loops[name], control_steps if isinstance(control_steps, int) else control_steps[name]
            loop.start()
            begin = time.perf_counter()
            for k in range(n):
                loop.go(k)
            out[name].append(loop.steps * n / (time.perf_counter() - begin))
    return {name: np.array(rates[1:]) for name, rates in out.items()}


def figure(values: np.ndarray) -> Figure:
    """Median and quartiles."""
    low, median, high = np.percentile(values, [25, 50, 75])
    return Figure(median=float(median), low=float(low), high=float(high), rounds=len(values))


def ratio(rates: Mapping[str, np.ndarray], a: str, b: str) -> Figure:
    """Speed of a over speed of b, round by round."""
    return figure(rates[a] / rates[b])


def commands(sim: Sim, steps: int, *, seed: int = 0) -> np.ndarray:
    """Commands (steps, worlds, nu) of robots that stand and shift their weight: slow sines, none alike."""
    rng = np.random.default_rng(seed)
    t = np.arange(steps)[:, None, None] * sim.control_dt
    shape = (sim.worlds, sim.model.nu)
    rate, phase = rng.uniform(0.5, 2.0, shape), rng.uniform(0, 2 * np.pi, shape)
    return sim.rest_command + 0.15 * np.sin(2 * np.pi * rate * t + phase) * np.minimum(1.0, t / 0.1)


def sim_loop(sim: Sim, u: np.ndarray) -> Loop:
    """Step and sense, as a training does."""

    def go(k: int) -> None:
        sim.step(u[k])
        sim.sense()

    return Loop(start=sim.reset, go=go, steps=sim.worlds * sim.substeps)


def solver_iterations(sim: Sim, u: np.ndarray, *, e: bool = False) -> float:
    """Mean number of iterations of the contact solver in the last physics step of every control step."""
    batch = _bare(sim.model, sim, e)
    qpos, ctrl, seen = batch.bind("qpos"), batch.bind("ctrl"), batch.bind("solver_niter")
    batch.reset()
    qpos[:] = sim.start_qpos
    found = []
    for now in u:
        ctrl[:] = now
        batch.step(nstep=sim.substeps)
        found.append(seen.reshape(sim.worlds, -1)[:, 0].mean())
    return float(np.mean(found))


def bare_loop(model: mujoco.MjModel, sim: Sim, u: np.ndarray, *, e: bool = False) -> Loop:
    """The engine alone, from the start state of `sim`: commands written, substeps stepped.

    All worlds share one model, or with `e` have the fields that `sim` gave them; motors of another kind than `sim`'s keep their own.
    """
    batch = _bare(model, sim, e)
    qpos, ctrl, start = batch.bind("qpos"), batch.bind("ctrl"), sim.start_qpos

    def begin() -> None:
        batch.reset()
        qpos[:] = start

    def go(k: int) -> None:
        ctrl[:] = u[k]
        batch.step(nstep=sim.substeps)

    return Loop(start=begin, go=go, steps=sim.worlds * sim.substeps)


def _bare(model: mujoco.MjModel, sim: Sim, e: bool) -> Batch:
    batch = Batch(model, sim.worlds, sim.engine.threads)
    alike = np.array_equal(model.actuator_gaintype, sim.model.actuator_gaintype)
    for name, values in sim.engine.expanded.items() if e else ():
        if alike or not name.startswith("actuator"):
            batch.expand(name)[:] = values
    if e:
        batch.set_const(sim.engine.everyone)
    return batch
