"""A stand-in robot: body, motors, sensors, and a link that delays; no socket, no clock but its own."""

from collections import deque
from typing import Any

import numpy as np

from surefoot.hardware.gauges import Gauges, matrix
from surefoot.hardware.motors import Order
from surefoot.hardware.plant import Plant
from surefoot.hardware.reality import Reality
from surefoot.hardware.referee import STATES, Notebook
from surefoot.robots import load

WAITING, DRIVEN, DAMPING, STOPPED = range(4)


class Wandering:
    """A delay with memory [s]: |x|, where x is an Ornstein-Uhlenbeck process of spread `jitter` and time `memory`."""

    def __init__(self, reality: Reality, rng: np.random.Generator, dt: float):
        self.spread, self.rng = reality.one("jitter"), rng
        self.keep = float(np.exp(-dt / reality.one("jitter_memory")))
        self.x = self.spread * float(rng.standard_normal())

    @property
    def now(self) -> float:
        """The delay now."""
        return abs(self.x)

    def pass_time(self) -> None:
        """One tick later."""
        if self.spread:
            self.x = self.keep * self.x + self.spread * float(np.sqrt(1 - self.keep**2) * self.rng.standard_normal())


class Silence:
    """Readings that do not come: lost one by one, or in bursts (a two-state chain)."""

    def __init__(self, reality: Reality, rng: np.random.Generator, dt: float):
        self.rng, self.lost = rng, reality.one("dropout")
        every, length = reality.one("burst_every"), reality.one("burst_length")
        self.begin = min(1.0, dt / every) if every else 0.0
        self.end = min(1.0, dt / length) if length else 1.0
        self.silent = False

    def next(self) -> bool:
        """Whether the reading of the next tick is lost."""
        if self.begin:
            self.silent = self.rng.random() >= self.end if self.silent else self.rng.random() < self.begin
        return self.silent or bool(self.lost and self.rng.random() < self.lost)


class Twin:
    """The robot. `tell` takes a command as it arrives, `advance` moves time on by 1/rate and returns the reading's row."""

    def __init__(self, reality: Reality, *, seed: int = 0, referee: bool = False):
        self.reality, self.seed = reality, seed
        streams = [np.random.Generator(np.random.Philox(key=[seed, k])) for k in range(4)]
        self.robot = load(reality.robot)
        self.plant = Plant(self.robot, reality, streams[0])
        self.gauges = Gauges(self.robot, reality, self.plant, streams[1])
        self.period = 1.0 / reality.rate
        self.substeps = round(self.period / self.plant.dt)
        self.delay = reality.one("command_delay")
        self.late = Wandering(reality, streams[2], self.period)
        self.silence = Silence(reality, streams[3], self.period)
        self.orders: deque[tuple[float, Order]] = deque()
        self.damp = self.plant.damping()
        self.order = self.damp
        self.state, self.heard = WAITING, -np.inf
        self.count = 0
        self.events: list[tuple[float, str]] = []
        self.notebook = Notebook() if referee else None

    @property
    def t(self) -> float:
        """The robot's clock [s]."""
        return self.count * self.period

    def about(self) -> dict[str, Any]:
        """What may be said of it over the wire."""
        channels = {name: [wire.unit, list(wire.columns)] for name, wire in self.gauges.channels.items()}
        return {
            "robot": self.robot.name, "outputs": list(self.plant.outputs), "kinds": list(self.plant.kinds),
            "channels": channels, "rate": self.reality.rate,
        }  # fmt: skip

    def log(self, text: str) -> None:
        """Note an event at the robot's time; what repeats is noted once."""
        if not self.events or self.events[-1][1] != text:
            self.events.append((self.plant.t, text))

    def tell(self, kind: str, numbers: np.ndarray, at: float | None = None) -> None:
        """A command arrives at time `at` [s] (now when left out): numbers (5, n) are target, kp, kd, velocity, torque."""
        now = self.plant.t if at is None else at
        if kind not in self.plant.kinds or not np.isfinite(numbers).all():
            self.log(f"refused a command of kind {kind} or with numbers that are not finite")
            return
        self.heard = now
        if self.state == STOPPED:
            return
        if self.state == DAMPING:
            self.log("commands again: damping ends")
        self.state = DRIVEN
        due = now + self.delay + self.late.now
        if self.orders:
            due = max(due, self.orders[-1][0])
        target, kp, kd, velocity, torque = numbers
        self.orders.append((due, Order(kind=kind, target=target, kp=kp, kd=kd, velocity=velocity, torque=torque)))

    def stop(self) -> None:
        """Damp for good."""
        if self.state != STOPPED:
            self.log("stopped: damping until the end")
        self.state = STOPPED
        self.orders.clear()

    def advance(self) -> np.ndarray | None:
        """Move on by 1/rate; the row of the new reading, or None when it is lost. Raises FloatingPointError on a blow-up."""
        self.late.pass_time()
        for _ in range(self.substeps):
            self._watch()
            self.plant.step(self.order)
            self.gauges.feel()
        self.count += 1
        if not self.plant.sane():
            raise FloatingPointError(f"the physics of {self.reality.name} diverged at t = {self.t:.3f} s")
        return self.look()

    def look(self) -> np.ndarray | None:
        """The row of the present reading, or None when it is lost."""
        row = self.gauges.sample(self.late.now)
        self._note()
        return None if self.silence.next() else row

    def _watch(self) -> None:
        now = self.plant.t
        if self.state == DRIVEN and now - self.heard > self.reality.watchdog:
            self.state = DAMPING
            self.orders.clear()
            self.log(f"no command for {self.reality.watchdog:g} s: damping")
        if self.state != DRIVEN:
            self.order = self.damp
        while self.orders and self.orders[0][0] <= now + 1e-9:
            self.order = self.orders.popleft()[1]

    def _note(self) -> None:
        if self.notebook is None:
            return
        plant, none = self.plant, np.zeros(0)
        row: dict[str, Any] = dict.fromkeys(("base_pos", "base_vel_world", "quat", "gyro"), none)
        row |= {"height": np.nan, "upright": np.nan}
        if plant.base is not None:
            q, v = plant.data.qpos[plant.bq : plant.bq + 7].copy(), plant.data.qvel[plant.bv : plant.bv + 6].copy()
            up = matrix(q[3:])[:, 2]
            row |= {"base_pos": q[:3], "base_vel_world": v[:3], "quat": q[3:], "gyro": v[3:]}
            row |= {"height": plant.ground.clearance(q[:3]), "upright": float(up[2])}
        drives = plant.motors if plant.motors is not None else plant.rotors
        torque = plant.motors.tau if plant.motors is not None else drives.thrust if drives is not None else none
        self.notebook.note(
            time=self.t, contact=plant.loads() > 1.0, joint_pos=plant.data.qpos[plant.q],
            joint_vel=plant.data.qvel[plant.v], torque=torque.copy(), state=self.state, **row,
        )  # fmt: skip

    def finish(self, path: str | None) -> None:
        """Write the referee's file, if one was asked for."""
        if path is None or self.notebook is None:
            return
        about = {
            "reality": self.reality.name, "robot": self.robot.name, "level": self.reality.level, "seed": self.seed,
            "joints": list(self.robot.joints), "outputs": list(self.plant.outputs), "feet": list(self.robot.feet),
            "states": list(STATES), "watchdog": self.reality.watchdog, "events": self.events,
        }  # fmt: skip
        self.notebook.save(path, about)
