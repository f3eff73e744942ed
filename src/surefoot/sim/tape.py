"""The last substeps of every world, so that a sensor can deliver what it sampled some time ago.

A reading of age a is the state at t - a, linear between the two substeps around it; native sensor data (accelerations,
forces) belong to the substep that ended there.
"""

from typing import TYPE_CHECKING

import numpy as np

from surefoot.sim.engine import RECORDS
from surefoot.sim.sensors import View

if TYPE_CHECKING:
    from surefoot.sim.sim import Sim

AGES = ("sensor_delay", "sensor_jitter", "sensor_period")


class Tape:
    """A ring of substep records: (worlds, slots, columns)."""

    def __init__(self, sim: "Sim", longest: float):
        self.sim, self.dt = sim, sim.timestep
        model = sim.model
        self.widths = [model.nq, model.nv, model.nsensordata, model.nu]
        self.edges = np.cumsum([0, *self.widths])
        self.slots = int(np.ceil(longest / self.dt - 1e-9)) + sim.substeps + 2
        self.ring = np.zeros((sim.worlds, self.slots, int(self.edges[-1])))
        self.head = np.array(0)  # slot of the newest record
        self._rows = np.arange(sim.worlds)
        self._last: tuple[np.ndarray, View] | None = None  # ages and view asked for last; sensors of one age share it

    @classmethod
    def needed(cls, sim: "Sim") -> "Tape | None":
        """A tape when some sensor's age can differ from zero, else None: then reading the state itself is enough."""
        ages = [p.high for p in sim.params.values() if p.kind in AGES]
        stated = max((s.delay for s in sim.robot.sensors), default=0.0)
        if not ages and not stated:
            return None
        return cls(sim, sum(ages) + stated)

    def fill(self, rows: np.ndarray, view: View) -> None:
        """After a reset: as if the worlds had been in this state for ever."""
        now = np.concatenate([view.qpos, view.qvel, view.sensordata, view.actuator_force], axis=1)
        self.ring[rows] = now[rows][:, None]
        self._last = None

    def push(self, records: dict[str, np.ndarray], ids: np.ndarray | None) -> None:
        """Append the records (worlds, n, ...) of one control step; worlds not in ids keep their last record."""
        n = records["qpos"].shape[1]
        slots = (int(self.head) + 1 + np.arange(n)) % self.slots
        if ids is not None:
            self.ring[:, slots] = self.ring[:, [int(self.head)]]
        first = slots[0]
        contiguous = first + n <= self.slots
        for name, start, stop in zip(RECORDS, self.edges[:-1], self.edges[1:], strict=True):
            if ids is None and contiguous:
                self.ring[:, first : first + n, start:stop] = records[name]
            elif ids is None:
                self.ring[:, slots, start:stop] = records[name]
            else:
                self.ring[np.ix_(ids, slots, np.arange(start, stop))] = records[name]
        self.head[...] = slots[-1]
        self._last = None

    def view(self, sensor: int, step: int, noisy: bool) -> View:
        """State that sensor number `sensor` delivers at control step `step`."""
        tables = self.sim.physics.tables
        age = tables["sensor_delay"][:, sensor]
        if noisy and tables["sensor_jitter"][:, sensor].any():
            draw = self.sim.noise.uniform("sensor_jitter", step, len(self.sim.robot.sensors))[:, sensor]
            age = age + tables["sensor_jitter"][:, sensor] * draw
        period = tables["sensor_period"][:, sensor]
        if period.any():
            safe = np.where(period > 0, period, 1.0)
            time = self.sim.time
            age = age + np.where(period > 0, np.maximum(time - np.floor((time + 1e-9) / safe) * safe, 0.0), 0.0)
        if self._last is None or not np.array_equal(self._last[0], age):
            self._last = np.array(age), self._sampled(age)
        return self._last[1]

    def _sampled(self, age: np.ndarray) -> View:
        """State of every world `age` (worlds,) [s] ago."""
        if not age.any():
            return self._split(self.ring[:, int(self.head)])
        back = age / self.dt
        whole = np.minimum(np.floor(back + 1e-9).astype(int), self.slots - 2)
        share = np.clip(back - whole, 0.0, 1.0)[:, None]
        near = self.ring[self._rows, (int(self.head) - whole) % self.slots]
        far = self.ring[self._rows, (int(self.head) - whole - 1) % self.slots]
        return self._split(near + share * (far - near))

    def _split(self, rows: np.ndarray) -> View:
        q, v, s, f = (rows[:, a:b] for a, b in zip(self.edges[:-1], self.edges[1:], strict=True))
        return View(qpos=q, qvel=v, sensordata=s, actuator_force=f)

    def arrays(self) -> dict[str, np.ndarray]:
        """The tape's memory, for snapshots."""
        return {"ring": self.ring, "head": self.head}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Put a snapshot's memory back."""
        self.ring[:] = arrays["ring"]
        self.head[...] = arrays["head"]
        self._last = None
