"""The last substeps of every world, so that a sensor can deliver what it sampled some time ago.

A reading of age a is the state at t - a, linear between the two substeps around it; native sensor data (accelerations,
forces) belong to the substep that ended there. Arrays are those of the engine's own library, NumPy or torch.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace

from surefoot.sim.engine import RECORDS
from surefoot.sim.sensors import View

if TYPE_CHECKING:
    from surefoot.sim.sim import Sim

Array = Any
AGES = ("sensor_delay", "sensor_jitter", "sensor_period")


class Tape:
    """A ring of substep records: (worlds, slots, columns)."""

    def __init__(self, sim: "Sim", longest: float):
        self.sim, self.dt = sim, sim.timestep
        model = sim.model
        self.widths = [model.nq, model.nv, model.nsensordata, model.nu]
        self.edges = [int(edge) for edge in np.cumsum([0, *self.widths])]
        self.slots = int(np.ceil(longest / self.dt - 1e-9)) + sim.substeps + 2
        own, self.xp = sim.engine.array, array_namespace(sim.engine.qpos)
        self.ring = own(np.zeros((sim.worlds, self.slots, self.edges[-1])))
        self.head = np.array(0)  # slot of the newest record
        self._rows = own(np.arange(sim.worlds))
        self._last: tuple[Array, View] | None = None  # ages and view asked for last; sensors of one age share it

    @classmethod
    def needed(cls, sim: "Sim") -> "Tape | None":
        """A tape when some sensor's age can differ from zero, else None: then reading the state itself is enough."""
        ages = [p.high for p in sim.params.values() if p.kind in AGES]
        stated = max((s.delay for s in sim.robot.sensors), default=0.0)
        if not ages and not stated:
            return None
        return cls(sim, sum(ages) + stated)

    def fill(self, rows: Array, view: View) -> None:
        """After a reset: as if the worlds had been in this state for ever."""
        now = self.xp.concat([view.qpos, view.qvel, view.sensordata, view.actuator_force], axis=1)
        self.ring[rows] = now[rows][:, None]
        self._last = None

    def push(self, records: dict[str, Array], ids: Array | None) -> None:
        """Append the records (worlds, n, ...) of one control step; worlds not in ids keep their last record."""
        n = records["qpos"].shape[1]
        slots = [(int(self.head) + 1 + j) % self.slots for j in range(n)]
        rows = slice(None) if ids is None else ids
        for j, slot in enumerate(slots):
            if ids is not None:
                self.ring[:, slot] = self.ring[:, int(self.head)]
            for name, start, stop in zip(RECORDS, self.edges[:-1], self.edges[1:], strict=True):
                self.ring[rows, slot, start:stop] = records[name][:, j]
        self.head[...] = slots[-1]
        self._last = None

    def view(self, sensor: int, step: int, noisy: bool) -> View:
        """State that sensor number `sensor` delivers at control step `step`."""
        xp, tables, active = self.xp, self.sim.physics.tables, self.sim.sensors.active
        age = tables["sensor_delay"][:, sensor]
        if noisy and active["sensor_jitter"]:
            draw = self.sim.noise.uniform("sensor_jitter", step, len(self.sim.robot.sensors))[:, sensor]
            age = age + tables["sensor_jitter"][:, sensor] * draw
        period = tables["sensor_period"][:, sensor]
        if active["sensor_period"]:
            safe = xp.where(period > 0, period, xp.ones_like(period))
            since = self.sim.time - xp.floor((self.sim.time + 1e-9) / safe) * safe
            age = age + xp.where(period > 0, xp.clip(since, 0.0, None), xp.zeros_like(since))
        if self._last is None or not bool(xp.all(self._last[0] == age)):
            self._last = xp.asarray(age, copy=True), self._sampled(age)
        return self._last[1]

    def _sampled(self, age: Array) -> View:
        """State of every world `age` (worlds,) [s] ago."""
        xp = self.xp
        if not bool(xp.any(age != 0)):
            return self._split(self.ring[:, int(self.head)])
        back = age / self.dt
        whole = xp.clip(xp.astype(xp.floor(back + 1e-9), xp.int64), 0, self.slots - 2)
        share = xp.clip(back - whole, 0.0, 1.0)[:, None]
        near = self.ring[self._rows, (int(self.head) - whole) % self.slots]
        far = self.ring[self._rows, (int(self.head) - whole - 1) % self.slots]
        return self._split(near + share * (far - near))

    def _split(self, rows: Array) -> View:
        q, v, s, f = (rows[:, a:b] for a, b in zip(self.edges[:-1], self.edges[1:], strict=True))
        return View(qpos=q, qvel=v, sensordata=s, actuator_force=f)

    def arrays(self) -> dict[str, Array]:
        """The tape's memory, for snapshots."""
        return {"ring": self.ring, "head": self.head}

    def load(self, arrays: dict[str, Array]) -> None:
        """Put a snapshot's memory back."""
        self.ring[:] = arrays["ring"]
        self.head[...] = arrays["head"]
        self._last = None
