"""Many short runs of f at once, each with its own e, start and command: what a designed motion would show.

    y(t) = h(x(t - delay), e),   x' = f(x, u, e),   x(start) given,   start < t <= start + length

Unlike a replay there is no log: commands are (t, u) on one time axis, on which different candidates lie far apart. Encoder steps
(quanta) are left out, so that small differences of e show; they are counted as noise instead.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from surefoot.sim import Sim
from surefoot.sim.commands import held_mean
from surefoot.sim.engine import RECORDS
from surefoot.sim.replay import read_records

CHUNK = 64
"""Substeps in one engine call."""
MEMORY = 192e6
"""[bytes] Most that the records of one group of worlds may take."""
APART = 1e4
"""[s] Between the commands of two candidates on the common time axis."""
KEPT = 6
"""Workers that are kept for the next call."""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """Commands of several candidates on one time axis.

    Attributes:
        t: times at which a command begins to hold, (candidates · T,) [s]; candidate k starts at k · APART.
        u: (candidates · T, nu).
        seconds: length of each candidate [s].
    """

    t: np.ndarray
    u: np.ndarray
    seconds: float

    @classmethod
    def of(cls, u: np.ndarray, dt: float) -> "Commands":
        """Candidates u (candidates, T, nu), one row every dt [s]."""
        k, steps, width = u.shape
        t = (APART * np.arange(k)[:, None] + dt * np.arange(steps)).reshape(-1)
        return cls(t=t, u=u.reshape(-1, width), seconds=steps * dt)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Which runs to make: one row each.

    Attributes:
        e: Params by name, (n, ...).
        start: on the common time axis [s], (n,).
        qpos, qvel: state there, (n, nq) and (n, nv).
    """

    e: Mapping[str, np.ndarray]
    start: np.ndarray
    qpos: np.ndarray
    qvel: np.ndarray

    def take(self, rows: slice) -> "Runs":
        """Some of the runs."""
        e = {name: value[rows] for name, value in self.e.items()}
        return Runs(e=e, start=self.start[rows], qpos=self.qpos[rows], qvel=self.qvel[rows])

    def padded(self, n: int) -> "Runs":
        """The runs and copies of the last one, `n` in all."""
        more = n - len(self.start)
        if not more:
            return self

        def wide(a: np.ndarray) -> np.ndarray:
            return np.concatenate([a, np.repeat(a[-1:], more, axis=0)])

        e = {name: wide(value) for name, value in self.e.items()}
        return Runs(e=e, start=wide(self.start), qpos=wide(self.qpos), qvel=wide(self.qvel))


class Worlds:
    """Runs of one Sim's model; compiles nothing, keeps its workers."""

    def __init__(self, sim: Sim):
        self.sim = sim
        self._workers: dict[int, Sim] = {}

    def worker(self, n: int) -> Sim:
        """A noise-free Sim of n worlds."""
        if n not in self._workers:
            while len(self._workers) >= KEPT:
                self._workers.pop(next(iter(self._workers)))
            self._workers[n] = self.sim.replace(worlds=n, noise=False, failures=None)
        self._workers[n] = self._workers.pop(n)
        return self._workers[n]

    def show(self, commands: Commands, runs: Runs, at: np.ndarray, channels: tuple[str, ...]) -> dict[str, np.ndarray]:
        """Channels (n, len(at), k) at times `at` [s] after each run's start; NaN where a run left the numbers."""
        parts: list[dict[str, np.ndarray]] = []
        for records, worker, n in self._each(commands, runs, float(at[-1])):
            part = {name: read_records(worker, name, records, (0.0, at), False)[:n] for name in channels}
            parts.append(_buried(part, worker))
        return {name: np.concatenate([p[name] for p in parts]) for name in channels}

    def states(self, commands: Commands, runs: Runs, every: float) -> dict[str, np.ndarray]:
        """qpos, qvel and actuator_force every `every` [s] from each run's start on, (n, samples, width), over the whole length."""
        count = int(np.floor(commands.seconds / every + 1e-9))
        keep = np.round(np.arange(count + 1) * every / self.sim.timestep).astype(int)
        parts = []
        for records, worker, n in self._each(commands, runs, count * every):
            part = {name: records[name][:n, keep] for name in ("qpos", "qvel", "actuator_force")}
            parts.append(_buried(part, worker))
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def _each(self, commands: Commands, runs: Runs, length: float) -> Iterator[tuple[dict[str, np.ndarray], Sim, int]]:
        """Records (worlds, substeps + 1, ...) of every group of runs, their worker, and how many of its worlds count."""
        sim, count = self.sim, len(runs.start)
        substeps = int(np.ceil(length / sim.timestep - 1e-9))
        width = sim.model.nq + sim.model.nv + sim.model.nsensordata + sim.model.nu
        group = int(np.clip(MEMORY / (8.0 * width * (substeps + 1)), 1, 2048))
        for first in range(0, count, group):
            part = runs.take(slice(first, min(first + group, count)))
            n = len(part.start)
            worker = self.worker(min(_roomy(n), group))
            yield _records(worker, commands, part.padded(worker.worlds), substeps), worker, n


def _records(worker: Sim, commands: Commands, runs: Runs, substeps: int) -> dict[str, np.ndarray]:
    """All records of every substep of runs that fill the worker, (worlds, substeps + 1, ...)."""
    worker.apply({**worker.params.nominal_e(worker.worlds), **runs.e})
    worker.physics.tables["encoder_quantum"][:] = 0.0
    worker.sensors.retune()
    worker.reset(qpos=runs.qpos, qvel=runs.qvel)
    dt, t, u = worker.timestep, commands.t, commands.u
    begin = runs.start[:, None] - worker.physics.tables["command_delay"][:, None]
    before = held_mean(t, u, _known(begin - dt, runs.start), dt)[:, 0]
    worker.commands.slewed[:], worker.commands.spin[:] = before, before
    now = vars(worker._now())
    records = {name: np.empty((worker.worlds, substeps + 1, *np.shape(now[name])[1:])) for name in RECORDS}
    for name in RECORDS:
        records[name][:, 0] = now[name]
    worker.disturbances.act(0, False)
    for first in range(0, substeps, CHUNK):
        n = min(CHUNK, substeps - first)
        starts = begin + (first + np.arange(n)) * dt
        out = worker.advance(worker.shape_control(held_mean(t, u, _known(starts, runs.start), dt)), RECORDS)
        for name in RECORDS:
            records[name][:, first + 1 : first + 1 + n] = out[name]
        worker.alive[:] = True
    return records


def _buried(part: dict[str, np.ndarray], worker: Sim) -> dict[str, np.ndarray]:
    """`part` with NaN in the rows of worlds that left the numbers."""
    for value in part.values():
        lost = np.zeros(worker.worlds, dtype=bool)
        lost[worker.engine.failed()] = True
        value[lost[: len(value)]] = np.nan
    return part


def _roomy(n: int) -> int:
    """A few sizes of worker serve all counts: the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, ..."""
    power = 1 << max(n - 1, 0).bit_length()
    return 3 * power // 4 if power >= 4 and n <= 3 * power // 4 else power


def _known(when: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Times `when` (n, m), not before the candidate's own first command."""
    return np.maximum(when, APART * np.floor(start / APART + 1e-9)[:, None])
