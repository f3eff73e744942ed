"""The last substeps of every world, so that a sensor can deliver what it sampled some time ago.

A reading of age a is the state at t - a, linear between the two substeps around it; native sensor data (accelerations,
forces) belong to the substep that ended there. Arrays are those of the engine's own library, NumPy or torch.
"""

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from array_api_compat import array_namespace

from surefoot.sim.engine import RECORDS
from surefoot.sim.sensors import View

if TYPE_CHECKING:
    from surefoot.sim.sim import Sim

Array = Any
AGES = ("sensor_delay", "sensor_jitter", "sensor_period")


class _Past:
    """A View of earlier instants; each record is looked up when it is first read, and not after the tape has moved on."""

    def __init__(self, tape: "Tape", near: Array, far: Array, share: Array):
        self._tape, self._near, self._far, self._share = tape, near, far, share

    def __getattr__(self, name: str) -> Array:
        flat, take = self._tape.flat[name], self._tape.xp.take
        now, before = take(flat, self._near, axis=0), take(flat, self._far, axis=0)
        before -= now
        before *= self._share
        now += before
        setattr(self, name, now)
        return now


class Tape:
    """A ring of control steps: for each record (blocks, worlds, substeps, columns), which the engine fills itself."""

    def __init__(self, sim: "Sim", longest: float):
        self.sim, self.dt, self.substeps = sim, sim.timestep, sim.substeps
        model = sim.model
        widths = dict(zip(RECORDS, (model.nq, model.nv, model.nsensordata, model.nu), strict=True))
        self.blocks = int(np.ceil(longest / (self.substeps * self.dt) - 1e-9)) + 2
        own, self.xp = sim.engine.array, array_namespace(sim.engine.qpos)
        shape = (self.blocks, sim.worlds, self.substeps)
        self.ring = {name: own(np.zeros((*shape, width))) for name, width in widths.items()}
        rows = self.blocks * sim.worlds * self.substeps
        self.flat = {name: self.xp.reshape(ring, (rows, ring.shape[-1])) for name, ring in self.ring.items()}
        """The same memory, one row an instant of a world."""
        self.head = np.array(0)  # block of the newest control step
        self._rows = own(np.arange(sim.worlds))
        self._alike: list[int] | None = None  # for each sensor, the first one that is always as old
        self._plans: dict[int, tuple[Array, Array]] = {}  # of such a sensor: whole substeps in its age, and the rest
        self._views: dict[int, View] = {}  # of such a sensor, at this instant

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
        for name, ring in self.ring.items():
            ring[:, rows] = getattr(view, name)[rows][:, None]
        self._views = {}

    def replan(self) -> None:
        """Delays have changed: look at them anew."""
        self._alike, self._plans, self._views = None, {}, {}

    def blank(self) -> dict[str, Array]:
        """Where the engine may write the records of the coming control step, (worlds, substeps, columns) by name."""
        return {name: ring[(int(self.head) + 1) % self.blocks] for name, ring in self.ring.items()}

    def push(self, records: dict[str, Array], ids: Array | None) -> None:
        """Take the records (worlds, substeps, ...) of one control step; worlds not in ids keep their last one."""
        new = (int(self.head) + 1) % self.blocks
        for name, ring in self.ring.items():
            if ids is not None:
                ring[new] = ring[int(self.head), :, -1:]
                ring[new][ids] = records[name]
            else:
                ring[new] = records[name]
        self.turn()

    def turn(self) -> None:
        """Go on to the block that `blank` gave away and that has been filled."""
        self.head[...] = (int(self.head) + 1) % self.blocks
        self._views = {}

    def view(self, sensor: int, step: int, noisy: bool) -> View:
        """State that sensor number `sensor` delivers at control step `step`."""
        xp, tables, active = self.xp, self.sim.physics.tables, self.sim.sensors.active
        jitters = noisy and active["sensor_jitter"]
        if not jitters and not active["sensor_period"]:
            return self._steady(sensor)
        age = tables["sensor_delay"][:, sensor]
        if jitters:
            draw = self.sim.noise.uniform("sensor_jitter", step, len(self.sim.robot.sensors))[:, sensor]
            age = age + tables["sensor_jitter"][:, sensor] * draw
        if active["sensor_period"]:
            period = tables["sensor_period"][:, sensor]
            safe = xp.where(period > 0, period, xp.ones_like(period))
            since = self.sim.time - xp.floor((self.sim.time + 1e-9) / safe) * safe
            age = age + xp.where(period > 0, xp.clip(since, 0.0, None), xp.zeros_like(since))
        return self._sampled(*self._divided(age))

    def _steady(self, sensor: int) -> View:
        """State that a sensor delivers whose age stays: sensors that are always as old share a look."""
        delays = self.sim.physics.tables["sensor_delay"]
        if self._alike is None:
            columns = range(delays.shape[1])
            self._alike = [min(i for i in columns if bool((delays[:, i] == delays[:, k]).all())) for k in columns]
        first = self._alike[sensor]
        if first not in self._plans:
            self._plans[first] = self._divided(delays[:, first])
        if first not in self._views:
            self._views[first] = self._sampled(*self._plans[first])
        return self._views[first]

    def _divided(self, age: Array) -> tuple[Array, Array]:
        """Whole substeps (worlds,) in an age [s], and the share (worlds, 1) of a substep that is left."""
        back = age / self.dt
        deepest = (self.blocks - 1) * self.substeps - 2
        whole = self.xp.clip(self.xp.astype(self.xp.floor(back + 1e-9), self.xp.int64), 0, deepest)
        return whole, self.xp.clip(back - whole, 0.0, 1.0)[:, None]

    def _sampled(self, whole: Array, share: Array) -> View:
        """State of every world so many substeps ago."""
        near = (int(self.head) + 1) * self.substeps - 1 - whole  # substeps counted through the blocks
        slots = []
        for k in (near, near - 1):
            block = (k // self.substeps) % self.blocks
            slots.append((block * self.sim.worlds + self._rows) * self.substeps + k % self.substeps)
        return cast("View", _Past(self, slots[0], slots[1], share))

    def arrays(self) -> dict[str, Array]:
        """The tape's memory, for snapshots."""
        return {**self.ring, "head": self.head}

    def load(self, arrays: dict[str, Array]) -> None:
        """Put a snapshot's memory back."""
        for name, ring in self.ring.items():
            ring[...] = arrays[name]
        self.head[...] = arrays["head"]
        self.replan()
