"""Clean runs of a Go2 for the safety layer: readings at 500 Hz with noise, what was wanted, actions and observations at 50 Hz.

A scripted trot in `Sim`, every world with its own e and noise. The safety layer does not close the loop here: faults are
put into these recordings afterwards, since finding one needs readings and commands but no plant.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.contract import Builder, Command, Contract, Reading, action
from surefoot.deploy.ranges import with_trained
from surefoot.deploy.safety import Ruling, Safety
from surefoot.deploy.settings import SafetySettings
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.tasks import Velocity

PERIOD, EVERY = 0.002, 10  # [s] of the inner loop; its steps per step of the policy
HEIGHT = (0.15, 0.6)  # [m]
FORCE = (5.0, 600.0)  # [N] all feet below the first are in the air; one foot above the second is a blow


@dataclass(frozen=True, kw_only=True)
class Clean:
    """One recorded run: arrays over steps of the inner loop, axis 0; actions and observations over the policy's steps."""

    values: dict[str, np.ndarray]
    target: np.ndarray  # (steps, joints) [rad]
    action: np.ndarray
    observation: np.ndarray

    def __len__(self) -> int:
        return len(self.target)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The robot, its settings with every check on, and clean runs."""

    contract: Contract
    settings: SafetySettings
    runs: tuple[Clean, ...]

    def safety(self, **changes: Any) -> Safety:
        """A new safety layer for one run."""
        settings = replace(self.settings, **changes) if changes else self.settings
        return Safety(self.contract, settings, outputs=self.contract.joints)


@dataclass(kw_only=True)
class Tick:
    """What the safety layer is given at one step; faults change it."""

    now: float
    time: float
    count: int
    values: dict[str, np.ndarray] | None  # None: no reading at all
    target: np.ndarray | None
    kp: np.ndarray
    kd: np.ndarray
    torque: np.ndarray
    action: np.ndarray | None
    observation: np.ndarray | None
    policy_time: float | None

    def ready(self, safety: Safety) -> Callable[[], Ruling]:
        """One step of the safety layer, with all it is given made before."""
        reading = None if self.values is None else Reading(time=self.time, count=self.count, values=self.values)
        wanted: Any = None
        if self.target is not None:
            n = len(self.target)
            wanted = Command(
                kind="joint_pos_target", target=self.target, kp=self.kp[:n], kd=self.kd[:n], torque=self.torque[:n]
            )
        seen = None if self.observation is None else {"policy": self.observation}
        return lambda: safety.step(
            self.now, reading, wanted, action=self.action, observation=seen, policy_time=self.policy_time
        )

    def give(self, safety: Safety) -> Ruling:
        """One step of the safety layer."""
        return self.ready(safety)()


def ticks(bench: Bench, run: Clean, start: int, stop: int) -> Iterator[Tick]:
    """The steps of a clean run, beginning with one of the policy's."""
    kp, kd = np.asarray(bench.contract.kp), np.asarray(bench.contract.kd)
    start -= start % EVERY
    none = np.zeros(len(kp))
    for k in range(start, min(stop, len(run))):
        now, fresh = (k - start) * PERIOD, k % EVERY == 0
        yield Tick(
            now=now, time=100.0 + now, count=k, values={name: rows[k] for name, rows in run.values.items()}, target=run.target[k],
            kp=kp, kd=kd, torque=none, action=run.action[k // EVERY] if fresh else None,
            observation=run.observation[k // EVERY] if fresh else None, policy_time=now - (k % EVERY) * PERIOD,
        )  # fmt: skip


def record(*, runs: int = 16, seconds: float = 6.0, seed: int = 0) -> Bench:
    """Trot in `runs` worlds; runs that fall over are left out. The contract's trained ranges are those of the runs, widened by a tenth."""
    robot = load("go2")
    contract = Velocity(rhythm=0.0).contract(Sim(robot, worlds=1))
    contract = replace(contract, pd_rate=1 / PERIOD, groups=tuple(g for g in contract.groups if not g.privileged))
    quick = replace(robot, timestep=PERIOD, control_dt=PERIOD)
    sim = Sim(quick, worlds=runs, seed=seed)
    sim.apply(sim.params.prior().sample(runs, seed))
    sim.reset()
    rng = np.random.default_rng(seed)
    builder = Builder(contract, worlds=runs)
    steps, n = int(seconds / PERIOD), len(contract.joints)
    phase = _phases(contract, rng, runs)
    rate, size = rng.uniform(1.6, 2.4, (runs, 1)), rng.uniform(0.35, 0.6, (runs, n))
    kept: dict[str, list[np.ndarray]] = {}
    targets, actions, observations = np.zeros((steps, runs, n)), [], []
    last, low = np.zeros((runs, n), np.float32), np.full(runs, np.inf)
    target = np.tile(np.asarray(contract.pose), (runs, 1))
    for k in range(steps):
        y = sim.sense()
        truth = sim.truth()["base_pos"]
        y["base_pos"] = truth + rng.normal(0, 0.002, truth.shape)
        y["joint_temperature"] = np.full((runs, n), 45.0)
        low = np.minimum(low, -y["gravity"][:, 2])
        for name, value in y.items():
            kept.setdefault(name, []).append(np.array(value, dtype=np.float64))
        if k % EVERY == 0:
            t = k * PERIOD
            command = np.tile(np.array([0.3, 0.0, 0.0], np.float32), (runs, 1))
            observations.append(builder.observe(y, last, command)["policy"])
            last = (min(t, 1.0) * size * np.sin(2 * np.pi * (rate * t + phase))).astype(np.float32)
            actions.append(last)
            target = action(contract, last, np.full(runs, t)).astype(np.float64)
        targets[k] = target
        sim.step(target)
    whole = {name: np.stack(rows, axis=1) for name, rows in kept.items()}
    seen, done = np.stack(observations, axis=1), np.stack(actions, axis=1)
    upright = [w for w in range(runs) if low[w] > 0.8 and sim.alive[w]]
    found = tuple(
        Clean(
            values={name: rows[w] for name, rows in whole.items()},
            target=targets[:, w],
            action=done[w],
            observation=seen[w],
        )
        for w in upright
    )
    contract = _trained(contract, seen[upright])
    settings = SafetySettings.from_robot(
        contract, robot, height_low=HEIGHT[0], height_high=HEIGHT[1], foot_force_low=FORCE[0], foot_force_high=FORCE[1]
    )
    return Bench(contract=contract, settings=settings, runs=found)


def _phases(contract: Contract, rng: np.random.Generator, runs: int) -> np.ndarray:
    """A trot: diagonal legs together, and no two joints quite alike, (runs, joints)."""
    diagonal = np.array([0.0 if joint[:2] in ("FR", "RL") else 0.5 for joint in contract.joints])
    part = np.array([{"hip": 0.25, "thigh": 0.0, "calf": 0.4}[joint.split("_")[1]] for joint in contract.joints])
    return diagonal + part + rng.uniform(-0.08, 0.08, (runs, len(contract.joints)))


def _trained(contract: Contract, seen: np.ndarray) -> Contract:
    """The contract with the range of every entry in `seen` (runs, steps, size), widened by a tenth of it."""
    low, high = seen.min((0, 1)).astype(np.float64), seen.max((0, 1)).astype(np.float64)
    margin = 0.1 * (high - low) + 0.01
    return with_trained(contract, {"policy": low - margin}, {"policy": high + margin})
