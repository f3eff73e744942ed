"""Kinds of run-time faults for the safety layer: what each does to a step, and how soon the robot must be in a safe state.

A fault is made anew for each repetition, with its own joint, size and phase. Its time counts from when it begins to do harm: a drift is
a fault once it has left the limits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surefoot.bench.safety_runs import EVERY, PERIOD, Bench, Tick
from surefoot.contract import action as act

Change = Callable[[Tick, int], bool]
"""Changes a step, given the steps since its beginning; says whether it does harm yet."""

ELSEWHERE = ("runtime killed", "communication dead in both directions")
"""Faults in which this layer does not run any more: the robot's own motor watchdog must act, and a bench of twins judges it."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of fault.

    Attributes:
        name: for the table.
        make: a fault with its own random numbers.
        within: time to the safe state [s], from the settings.
        state: the least safe state that counts.
        learned: whether the layer must have seen the robot move for a second before.
    """

    name: str
    make: Callable[[np.random.Generator], Change]
    within: float
    state: str = "freeze"
    learned: bool = False


def _put(tick: Tick, channel: str, change: Callable[[np.ndarray], object]) -> None:
    """Change a copy of a channel, once in each step."""
    if tick.values is not None:
        tick.values[channel] = tick.values[channel].copy()
        change(tick.values[channel])


class _Faults:
    """Faults of one robot: each method makes one, with its own random numbers, or is a maker of such."""

    def __init__(self, bench: Bench):
        self.bench, self.s, self.n = bench, bench.settings, len(bench.contract.joints)
        s = self.s
        self.stall, self.kp_max, self.pose = (
            np.asarray(s.torque_limit),
            np.asarray(s.kp_max),
            np.asarray(bench.contract.pose),
        )
        self.low, self.high = (
            np.asarray(s.position_low) - s.position_margin,
            np.asarray(s.position_high) + s.position_margin,
        )

    def joint(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.n))

    def sign(self, rng: np.random.Generator) -> float:
        return float(rng.choice([-1.0, 1.0]))

    def kept(
        self, channels: Callable[[np.random.Generator], dict[str, list[int]]]
    ) -> Callable[[np.random.Generator], Change]:
        """Columns of channels that stay as they were."""

        def make(rng: np.random.Generator) -> Change:
            columns, frozen = channels(rng), {}

            def change(tick: Tick, _k: int) -> bool:
                for name, index in columns.items():
                    assert tick.values is not None
                    frozen.setdefault(name, tick.values[name][index].copy())
                    _put(tick, name, lambda v, name=name, index=index: v.__setitem__(index, frozen[name]))
                return True

            return change

        return make

    def written(
        self, channel: str, values: Callable[[np.random.Generator], tuple[list[int], float]], burst: float = 1.0
    ):
        """Columns of a channel that are overwritten in a share `burst` of the samples."""

        def make(rng: np.random.Generator) -> Change:
            index, value = values(rng)

            def change(tick: Tick, _k: int) -> bool:
                if rng.random() < burst:
                    _put(tick, channel, lambda v: v.__setitem__(index, value))
                return True

            return change

        return make

    def silence(self, rng: np.random.Generator) -> Change:
        length = round(rng.uniform(0.05, 0.5) / PERIOD)

        def change(tick: Tick, k: int) -> bool:
            if k < length:
                tick.values = None
            return True

        return change

    def swapped(self, rng: np.random.Generator) -> Change:
        order = np.arange(self.n)
        if rng.random() < 0.5:
            legs = rng.choice(4, 2, replace=False)
            for part in range(3):
                i, j = 3 * legs + part
                order[i], order[j] = j, i
        else:
            i, j = rng.choice(self.n, 2, replace=False)
            while abs(self.pose[i] - self.pose[j]) < 0.15:
                i, j = rng.choice(self.n, 2, replace=False)
            order[i], order[j] = j, i

        def change(tick: Tick, _k: int) -> bool:
            assert tick.target is not None
            tick.target = tick.target[order]
            return True

        return change

    def spike(self, rng: np.random.Generator) -> Change:
        at, size = self.joint(rng), self.sign(rng) * rng.uniform(5, 50)

        def change(tick: Tick, _k: int) -> bool:
            tick.torque = tick.torque.copy()
            tick.torque[at] = size * self.stall[at]
            return True

        return change

    def flipped(self, rng: np.random.Generator) -> Change:
        keep = int(rng.integers(2))  # turned about x or y by half a turn
        signs = np.where(np.arange(3) == keep, 1.0, -1.0)

        def change(tick: Tick, _k: int) -> bool:
            for name in ("gravity", "accel", "gyro"):
                _put(tick, name, lambda v: v.__imul__(signs))
            return True

        return change

    def clock(self, direction: float) -> Callable[[np.random.Generator], Change]:
        def make(rng: np.random.Generator) -> Change:
            size = direction * float(np.exp(rng.uniform(math.log(1.5 * self.s.clock_jump), math.log(10.0))))

            def change(tick: Tick, _k: int) -> bool:
                tick.time += size
                return True

            return change

        return make

    def overrun(self, rng: np.random.Generator) -> Change:
        size = rng.uniform(1.1 * self.s.overrun_time, 0.5)

        def change(tick: Tick, _k: int) -> bool:
            tick.now, tick.time = tick.now + size, tick.time + size
            tick.count += round(size / PERIOD)
            return True

        return change

    def silent_policy(self, _rng: np.random.Generator) -> Change:
        last: dict = {}

        def change(tick: Tick, _k: int) -> bool:
            last.setdefault("time", tick.policy_time)
            last.setdefault("target", tick.target)
            tick.action = tick.observation = None
            tick.policy_time, tick.target = last["time"], last["target"]
            return True

        return change

    def acted(
        self, change_action: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    ) -> Callable[[np.random.Generator], Change]:
        """The policy's output is changed, and the targets follow from it."""

        def make(rng: np.random.Generator) -> Change:
            held: dict = {}

            def change(tick: Tick, _k: int) -> bool:
                if tick.action is not None:
                    tick.action = change_action(rng, tick.action.astype(np.float64))
                    if tick.action.shape == (self.n,):
                        held["target"] = act(self.bench.contract, tick.action, np.array(tick.now))
                tick.target = held.get("target", tick.target)
                return "target" in held or tick.action is not None

            return change

        return make

    def jumped(self, rng: np.random.Generator) -> Change:
        at, size = self.joint(rng), self.sign(rng) * rng.uniform(0.3, 1.0)

        def change(tick: Tick, _k: int) -> bool:
            _put(tick, "joint_pos", lambda v: v.__setitem__(at, v[at] + size))
            return True

        return change

    def drifted(self, rng: np.random.Generator) -> Change:
        at, speed = self.joint(rng), self.sign(rng) * rng.uniform(8.0, 20.0)

        def change(tick: Tick, k: int) -> bool:
            _put(tick, "joint_pos", lambda v: v.__setitem__(at, v[at] + speed * k * PERIOD))
            assert tick.values is not None
            return not self.low[at] <= tick.values["joint_pos"][at] <= self.high[at]

        return change

    def lost_at_once(self, rng: np.random.Generator) -> Change:
        size = int(rng.integers(int(self.s.most_lost) + 2, 2000))

        def change(tick: Tick, _k: int) -> bool:
            tick.count += size
            return True

        return change

    def lossy(self, rng: np.random.Generator) -> Change:
        share = rng.uniform(0.75, 0.85)

        def change(tick: Tick, _k: int) -> bool:
            if rng.random() < share:
                tick.values = None
            return True

        return change

    def tilted(self, rng: np.random.Generator) -> Change:
        angle, heading, speed = rng.uniform(1.15, 3.0), rng.uniform(0, 2 * np.pi), rng.uniform(2.0, 20.0)

        def change(tick: Tick, k: int) -> bool:
            now = min(angle, speed * k * PERIOD)
            side = math.sin(now)
            _put(
                tick,
                "gravity",
                lambda v: v.__setitem__(
                    slice(None), (side * math.cos(heading), side * math.sin(heading), -math.cos(now))
                ),
            )
            return now > self.s.tilt_limit  # type: ignore[operator]

        return change

    def strange(self, rng: np.random.Generator) -> Change:
        size = self.bench.contract.group("policy").size
        index, by = (
            rng.choice(size, int(rng.integers(1, 8)), replace=False),
            self.sign(rng) * 10.0 ** rng.uniform(1.5, 4),
        )

        def change(tick: Tick, _k: int) -> bool:
            if tick.observation is not None:
                tick.observation = tick.observation.copy()
                tick.observation[index] += by
            return True

        return change

    def gains(self, rng: np.random.Generator) -> Change:
        at, size, which = self.joint(rng), rng.choice([-1.0, 1.5, 10.0, 1e3, 1e9]), rng.random() < 0.5

        def change(tick: Tick, _k: int) -> bool:
            row = (tick.kp if which else tick.kd).copy()
            row[at] = size * (self.kp_max[at] if which else self.s.kd_max[at])  # type: ignore[index]
            if which:
                tick.kp = row
            else:
                tick.kd = row
            return True

        return change

    def told(
        self, target: Callable[[np.random.Generator, np.ndarray], np.ndarray | None]
    ) -> Callable[[np.random.Generator], Change]:
        def make(rng: np.random.Generator) -> Change:
            def change(tick: Tick, _k: int) -> bool:
                assert tick.target is not None
                tick.target = target(rng, tick.target)
                return True

            return change

        return make

    def frozen_driver(self, _rng: np.random.Generator) -> Change:
        last: dict = {}

        def change(tick: Tick, _k: int) -> bool:
            tick.values = dict(last.setdefault("values", tick.values))
            return True

        return change

    def missing(self, rng: np.random.Generator) -> Change:
        name = str(rng.choice(["gyro", "gravity", "joint_pos", "joint_vel"]))
        short = rng.random() < 0.5

        def change(tick: Tick, _k: int) -> bool:
            assert tick.values is not None
            if short:
                tick.values[name] = tick.values[name][:-1]
            else:
                del tick.values[name]
            return True

        return change

    def nan_at(self, rng: np.random.Generator, target: np.ndarray) -> np.ndarray:
        return np.where(np.arange(self.n) == self.joint(rng), rng.choice([np.nan, np.inf, -np.inf]), target)


def kinds(bench: Bench) -> tuple[Kind, ...]:
    """All kinds, with the times that the settings promise and two periods for the step that sees it and the one that acts."""
    f, s = _Faults(bench), bench.settings
    hold, two, policy = s.holds, 2 * PERIOD, EVERY * PERIOD
    bad = hold["not_finite"] + two
    sticks = 1.5 * s.stuck_time + two
    return (
        Kind(name="stuck encoder", make=f.kept(lambda r: {"joint_pos": [f.joint(r)]}), within=sticks, learned=True),
        Kind(name="dead encoder, position and speed", within=sticks + 0.3, learned=True,
             make=f.kept(lambda r: (lambda j: {"joint_pos": [j], "joint_vel": [j]})(f.joint(r)))),
        Kind(name="stuck gyro", make=f.kept(lambda r: {"gyro": [0, 1, 2]}), within=sticks, learned=True),
        Kind(name="frozen driver: old values, new time stamps", make=f.frozen_driver, within=sticks, learned=True),
        Kind(name="silence of 50 ms and more", make=f.silence, within=s.stale_time + two),
        Kind(name="burst of NaN in joint readings", within=bad, make=f.written("joint_pos", lambda r: ([f.joint(r)], math.nan))),
        Kind(name="NaN in four of five samples", within=6 * hold["not_finite"] + two,
             make=f.written("joint_vel", lambda r: ([f.joint(r)], math.nan), burst=0.8)),
        Kind(name="infinite joint speed", within=bad, make=f.written("joint_vel", lambda r: ([f.joint(r)], f.sign(r) * math.inf))),
        Kind(name="gyro saturated", within=hold["range"] + two,
             make=f.written("gyro", lambda r: ([int(r.integers(3))], f.sign(r) * r.uniform(34.9, 40)))),
        Kind(name="accelerometer out of range", within=hold["range"] + two,
             make=f.written("accel", lambda r: ([int(r.integers(3))], f.sign(r) * r.uniform(160, 1e6)))),
        Kind(name="quaternion of norm zero", within=hold["norm"] + two, make=f.written("quat", lambda r: ([0, 1, 2, 3], 0.0))),
        Kind(name="gravity not of unit length", within=hold["norm"] + two,
             make=f.written("gravity", lambda r: ([0, 1, 2], r.uniform(-0.4, 0.4)))),
        Kind(name="IMU upside down", make=f.flipped, within=hold["tilt"] + two, state="damping"),
        Kind(name="tilt beyond the limit", make=f.tilted, within=hold["tilt"] + two, state="damping"),
        Kind(name="base too low or high", within=hold["height"] + two, state="damping",
             make=f.written("base_pos", lambda r: ([2], float(r.choice([0.05, 0.1, 0.8, 3.0]))))),
        Kind(name="all feet in the air", within=s.air_time + hold["contact"] + two,
             make=f.written("foot_force", lambda r: ([0, 1, 2, 3], r.uniform(0, 1)))),
        Kind(name="blow on one foot", within=hold["contact"] + two,
             make=f.written("foot_force", lambda r: ([int(r.integers(4))], r.uniform(650, 5000)))),
        Kind(name="encoder jump", make=f.jumped, within=hold["jump"] + two),
        Kind(name="encoder drift beyond the limits", make=f.drifted, within=hold["range"] + two),
        Kind(name="motor too hot", within=hold["temperature"] + two,
             make=f.written("joint_temperature", lambda r: ([f.joint(r)], r.uniform(91, 150)))),
        Kind(name="robot clock jumps ahead", make=f.clock(1.0), within=hold["clock"] + two),
        Kind(name="robot clock jumps back", make=f.clock(-1.0), within=hold["clock"] + two),
        Kind(name="many samples lost at once", make=f.lost_at_once, within=two),
        Kind(name="four of five packets lost", make=f.lossy, within=1.5),
        Kind(name="channel missing or short", make=f.missing, within=hold["not_finite"] + two),
        Kind(name="loop overrun", make=f.overrun, within=two),
        Kind(name="policy silent", make=f.silent_policy, within=s.policy_time + two),
        Kind(name="action explodes", within=hold["action_range"] + policy + two,
             make=f.acted(lambda r, a: a + f.sign(r) * 10.0 ** r.uniform(1.6, 6))),
        Kind(name="action jumps to and fro", within=hold["action_change"] + policy + two,
             make=f.acted(lambda r, a: np.where(r.random(f.n) < 0.7, f.sign(r) * r.uniform(3.0, 9.0), a))),
        Kind(name="action is NaN", within=two, make=f.acted(lambda r, a: f.nan_at(r, a))),
        Kind(name="action of the wrong size", within=two, make=f.acted(lambda r, a: a[: int(r.integers(f.n))])),
        Kind(name="swapped command outputs", make=f.swapped, within=hold["command_match"] + 0.1 + two),
        Kind(name="torque spike", make=f.spike, within=hold["command_torque"] + two),
        Kind(name="gains explode", make=f.gains, within=hold["gains"] + two),
        Kind(name="command is NaN", make=f.told(f.nan_at), within=hold["command_invalid"] + two),
        Kind(name="command of the wrong size", within=hold["command_invalid"] + two,
             make=f.told(lambda r, t: t[: int(r.integers(1, f.n))])),
        Kind(name="no command", make=f.told(lambda r, t: None), within=hold["command_invalid"] + two),
        Kind(name="observation far from training", within=hold["unfamiliar"] + 0.25 + two, make=f.strange),
    )  # fmt: skip
