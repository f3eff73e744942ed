"""Closed-loop runs with one contract fault inside, recorded as a robot's runtime would record them.

    true readings -> driver -> recorded -> (wrong) builder -> recorded -> policy -> recorded -> target -> sent -> driver -> motors

The robot is a Sim with sensor noise, delays, pushes and a drawn e; the policy acts on what it is shown, so a fault has its physical
consequences. A robot that falls is recorded for a moment longer, as one whose safety layer stops it.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import Action, Builder, Contract, Group, Range, Term, action
from surefoot.deploy.bundle import Bundle, load_bundle, write_bundle
from surefoot.deploy.complete import complete
from surefoot.deploy.export import deployed
from surefoot.deploy.onnx_graph import memories, onnx_of
from surefoot.logs import Channel, Log
from surefoot.robots import Robot, load
from surefoot.sim import Sim
from surefoot.sim.record import UNITS, unit_of
from surefoot.sim.replay import channel_columns

STAND = 0.8
"""[s] The robot stands (or hangs) under its motors' control before the policy takes over."""
FALLEN = 0.4
"""[s] Recorded after a fall."""
Readings = dict[str, np.ndarray]


@dataclass
class Past:
    """What a fault may remember during a run."""

    tick: int = 0
    step: int = 0
    past: dict[str, list[Any]] = field(default_factory=dict)

    def delayed(self, key: str, value: Any, count: int) -> Any:
        """`value` of `count` calls ago, the first one before that."""
        line = self.past.setdefault(key, [])
        line.append(value)
        return line[max(0, len(line) - 1 - count)]


def _same(value: Any, *_: Any) -> Any:
    return value


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Where a fault can reach into a run; each is the identity unless a fault replaces it."""

    driver: Callable[[Readings, Past], Readings] = _same
    """True readings -> what the driver delivers."""
    seen: Callable[[Readings, Past], Readings] = _same
    """Delivered readings -> what the builder is given; recorded are the delivered ones."""
    contract: Callable[[Contract], Contract] = _same
    """The contract that the runtime's builder follows."""
    last: Callable[[np.ndarray, Past], np.ndarray] = _same
    """The action that the builder is given as the last one."""
    observation: Callable[[dict[str, np.ndarray], Past], dict[str, np.ndarray]] = _same
    """Observations as built -> as recorded and given to the policy."""
    fed: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = _same
    """Recorded observations -> what the policy really gets."""
    output: Callable[[np.ndarray, Past], np.ndarray] = _same
    """The policy's output -> what is recorded and used as the action."""
    mapped: Callable[[np.ndarray], np.ndarray] = _same
    """The recorded action -> what is turned into targets."""
    actions: Callable[[Contract], Contract] = _same
    """The contract by which actions become targets."""
    sent: Callable[[np.ndarray, Past], np.ndarray] = _same
    """Targets -> what is sent, in the order of the outputs; recorded."""
    motors: Callable[[np.ndarray, Past], np.ndarray] = _same
    """What is sent -> what the motors get; not recorded."""
    gains: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] = lambda kp, kd: (kp, kd)
    """kp and kd -> those that are sent; recorded, and the motors use them."""
    hidden_gain: float = 1.0
    """Factor on the gains that the motors use, not recorded."""
    rate: float = 1.0
    """Factor on the policy's rate."""
    command: Callable[[np.ndarray], np.ndarray] = _same
    """The command that was recorded -> what the builder is given."""
    log: Callable[[Log], Log] = _same
    """The finished log."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A bundle and the robot it runs on."""

    name: str
    robot: Robot
    bundle: Bundle
    inner: float
    """[s] Time between two readings."""
    seconds: float = 5.0
    """[s] Of policy."""
    commands: Callable[[np.random.Generator], np.ndarray] = lambda rng: np.zeros(0)


# ---------------------------------------------------------------- the bundles


def walking_case(run: Path, folder: Path) -> Case:
    """A trained Go2 policy, from the folder of its run."""
    from surefoot.deploy.export import export
    from surefoot.evaluate.runs import candidate

    found = candidate(run)
    sim = Sim(found.robot, worlds=1)
    contract = complete(_deployable(found.task.contract(sim)), found.robot)
    bundle = export(found.policy, contract, folder / "walking", overwrite=True)
    return Case(name="walking", robot=found.robot, bundle=bundle, inner=found.robot.timestep, commands=_velocities)


def shipped_case() -> Case:
    """The Go2 policy that comes with surefoot."""
    robot = load("go2")
    return Case(name="walking", robot=robot, bundle=load_bundle("go2-walk"), inner=robot.timestep, commands=_velocities)


def _velocities(rng: np.random.Generator) -> np.ndarray:
    """A command with every component clearly different from 0 and from the others."""
    size = np.array([rng.uniform(0.4, 0.9), rng.uniform(0.15, 0.35), rng.uniform(0.4, 0.9)])
    size[2] += 0.1 * (abs(size[2] - size[0]) < 0.05)
    return size * rng.choice([-1.0, 1.0], 3)


def _deployable(contract: Contract) -> Contract:
    """The contract without its privileged groups."""
    groups = tuple(group for group in contract.groups if not group.privileged)
    return replace(contract, groups=groups)


def stepping_case(folder: Path) -> Case:
    """Go2 stepping on the spot by its rhythm, with an untrained GRU policy over a history stacked by step, newest first."""
    robot = load("go2")
    sim = Sim(robot, worlds=1)
    from surefoot.tasks.velocity import Velocity

    base = Velocity(swing=0.05).contract(sim)
    pose = tuple(-robot.pose[j] for j in robot.joints)
    now = (
        Term(source="gyro", scale=0.25),
        Term(source="gravity"),
        Term(source="command", columns=("vx", "vy", "yaw_rate"), scale=(2.0, 2.0, 0.25)),
        Term(source="clock", columns=("sin", "cos")),
    )
    past = (
        Term(source="joint_pos", columns=robot.joints, offset=pose, clip=(-0.2, 0.2), history=4),
        Term(source="joint_vel", columns=robot.joints, scale=0.05, history=4),
        Term(source="gyro", name="turning", scale=0.25, history=4),
        Term(source="last_action", columns=robot.joints, history=4),
    )
    groups = (
        Group(name="policy", terms=now),
        Group(name="history", terms=past, order="newest-first", stack="step"),
    )
    contract = complete(replace(base, groups=groups, action=replace(base.action, scale=0.25)), robot)
    bundle = untrained(contract, folder / "stepping", memory=24, size=0.35, seed=3)
    return Case(name="stepping", robot=robot, bundle=bundle, inner=robot.timestep, seconds=5.0, commands=_velocities)


def swinging_case(folder: Path) -> Case:
    """Qube: its arm swings to and fro by the clock, under a policy that sees sine and cosine of the pendulum's angle."""
    robot = load("qube")
    seen = (
        Term(source="joint_pos", name="hinges", columns=("pendulum",), turn=True),
        Term(source="joint_pos", name="places", columns=("arm",), offset=0.2, scale=0.7),
        Term(source="joint_vel", columns=robot.joints, scale=0.1, clip=(-0.4, 0.4)),
        Term(source="command", columns=("swing", "tempo"), unit="1"),
        Term(source="clock", columns=("sin", "cos")),
    )
    past = (
        Term(source="last_action", columns=("arm",), history=4),
        Term(source="joint_pos", name="past_places", columns=robot.joints, scale=0.5, history=4),
    )
    contract = Contract(
        robot="qube", joints=robot.joints, control_dt=0.01, timestep=robot.timestep,
        groups=(Group(name="policy", terms=seen), Group(name="history", terms=past)),
        action=Action(joints=("arm",), kind="voltage_target", scale=4.0, offset=0.3, clip=(-1.0, 1.0)),
        sensor_channels=("joint_pos", "joint_vel"), clock_period=0.7,
        commands=(Range(name="swing", low=0.0, high=1.0), Range(name="tempo", low=0.0, high=1.0)),
    )  # fmt: skip
    contract = complete(contract, robot)
    bundle = untrained(
        contract, folder / "swinging", memory=0, size=0.3, seed=5, direct={"clock[sin]": 0.5, "places[arm]": -0.35}
    )
    draw = lambda rng: np.array([rng.uniform(0.2, 0.5), rng.uniform(0.6, 0.9)])  # noqa: E731
    return Case(name="swinging", robot=robot, bundle=bundle, inner=0.002, seconds=5.0, commands=draw)


def untrained(
    contract: Contract, folder: Path, *, memory: int, size: float, seed: int, direct: Mapping[str, float] | None = None
) -> Bundle:
    """A bundle of random weights, its outputs about `size`, with a made-up normaliser.

    `direct` adds a linear path from the entries of the group `policy` with these labels to the first action.
    """
    rng = np.random.default_rng(seed)
    widths = {g.name: g.size for g in contract.groups}
    n, m, actions, hidden = sum(widths.values()), memory, len(contract.action.joints), 32
    first = m or n
    weight0 = rng.normal(0, 1 / np.sqrt(first), (hidden, first))
    weight1 = rng.normal(0, size / np.sqrt(hidden), (actions, hidden))
    mean, var = rng.normal(0.0, 0.1, n), rng.uniform(0.3, 2.0, n) ** 2
    for i, (name, slope) in enumerate((direct or {}).items()):
        at = contract.group("policy").labels.index(name)
        small = 0.1 * np.sqrt(var[at])
        weight0[i] = 0.0
        weight0[i, at] = small
        weight1[:, i] = 0.0
        weight1[0, i] = slope / 0.1
    about = {"widths": widths, "actions": actions, "hidden": [hidden], "activation": "tanh", "memory": m}
    arrays = {
        "about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
        "net.0.weight": weight0, "net.0.bias": np.zeros(hidden), "net.1.weight": weight1, "net.1.bias": np.zeros(actions),
        "normaliser.mean": mean, "normaliser.var": var, "normaliser.eps": np.array(1e-8), "normaliser.limit": np.array(10.0),
    }  # fmt: skip
    if m:
        arrays |= {
            "net.gru.input": rng.normal(0, 1 / np.sqrt(n), (3 * m, n)), "net.gru.state": rng.normal(0, 1 / np.sqrt(m), (3 * m, m)),
            "net.gru.input_bias": np.zeros(3 * m), "net.gru.state_bias": np.zeros(3 * m),
        }  # fmt: skip
    arrays = {k: v if k == "about" or k.startswith("normaliser.") else v.astype(np.float32) for k, v in arrays.items()}
    given = deployed(replace(contract, memory=memories(arrays)), arrays, widths)
    return write_bundle(folder, onnx_of(arrays), given, {"source": "untrained, for the bench"}, overwrite=True)


# ---------------------------------------------------------------- a run


def record(case: Case, hooks: Hooks, seed: int) -> Log:
    """One run of a case with a fault's hooks inside, under an e, noise, start and command drawn from `seed`."""
    return _Session(case, hooks, seed).run()


class _Session:
    """One run in the making."""

    def __init__(self, case: Case, hooks: Hooks, seed: int):
        self.case, self.hooks = case, hooks
        self.rng = np.random.default_rng([seed, 77])
        robot = replace(case.robot, control_dt=case.inner)
        self.sim = Sim(robot, worlds=1, seed=seed)
        self.contract = case.bundle.contract
        self.built_by = hooks.contract(self.contract)
        self.builder = Builder(self.built_by)
        self.policy = case.bundle.policy()
        self.memory = Past()
        self.outputs = self.sim.command_names
        self.places = [self.contract.joints.index(name) for name in self.outputs]
        n = len(self.outputs)
        kp, kd = (
            (np.zeros(n) if g is None else np.array(g)[self.places]) for g in (self.contract.kp, self.contract.kd)
        )
        self.kp, self.kd = hooks.gains(kp, kd)
        self.e = self._drawn(seed, kp, kd)
        self.rows: dict[str, tuple[list[float], list[np.ndarray]]] = {}
        self.asked = case.commands(self.rng)
        self.ticks = round(self.contract.control_dt / case.inner / hooks.rate)
        self.columns = channel_columns(self.sim)

    def _drawn(self, seed: int, kp: np.ndarray, kd: np.ndarray) -> dict[str, np.ndarray]:
        """e of this run; gains that are sent, or used in secret, act on the motors."""
        e = self.sim.params.prior().sample(1, seed)
        for name, sent, meant in (("kp", self.kp, kp), ("kd", self.kd, kd)):
            if name in e:
                factor = float(np.median(sent / np.where(meant == 0, 1.0, meant))) * self.hooks.hidden_gain
                e[name] = e[name] * factor
        return e

    def run(self) -> Log:
        """The whole run."""
        self.sim.apply(self.e)
        self._start()
        idle = self.sim.rest_command
        stand, total = round(STAND / self.case.inner), round((STAND + self.case.seconds) / self.case.inner)
        target, last, fallen = np.array(idle), None, 0
        for tick in range(total):
            self.memory.tick = tick
            t = tick * self.case.inner
            true = {name: value[0].copy() for name, value in self.sim.sense().items()}
            readings = self.hooks.driver(true, self.memory)
            for name, value in readings.items():
                self._note(name, t, value)
            if tick >= stand and (tick - stand) % self.ticks == 0:
                last, target = self._think(t, readings, last)
            self._note(self.contract.action.kind, t, target)
            if self.contract.action.kind == "joint_pos_target":
                self._note("motor_kp", t, self.kp)
                self._note("motor_kd", t, self.kd)
            self.sim.step(self.hooks.motors(np.array(target), self.memory))
            fallen += self._fell()
            if fallen * self.case.inner > FALLEN:
                break
        return self.hooks.log(self._log())

    def _start(self) -> None:
        qpos = self.sim.start_qpos.copy()
        if self.sim.sensors.base_q is not None:
            yaw, base = self.rng.uniform(-np.pi, np.pi), self.sim.sensors.base_q
            qpos[base + 3], qpos[base + 6] = np.cos(yaw / 2), np.sin(yaw / 2)
        else:
            qpos[self.sim.sensors.q] += self.rng.uniform(-0.1, 0.1, len(self.sim.sensors.q))
        self.sim.reset(qpos=qpos[None])
        if self.sim.sensors.base_q is not None:
            self.sim.stance.settle(np.array([0]))

    def _think(self, t: float, readings: Readings, last: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """One step of the policy: the action, and the target sent for it."""
        h, m = self.hooks, self.memory
        seen = h.seen(dict(readings), m)
        before = np.zeros(len(self.contract.action.joints)) if last is None else h.last(last, m)
        built = self.builder.observe(seen, last_action=before.astype(np.float32), command=h.command(self.asked.copy()))
        shown = h.observation({k: v.copy() for k, v in built.items()}, m)
        for name, value in shown.items():
            self._note(f"observation/{name}", t, value[0])
        a = h.output(self.policy(h.fed(shown))[0].astype(np.float64), m)
        self._note("action", t, a)
        self._note("command", t, self.asked)
        there = h.actions(self.contract)
        time = np.array([m.step * self.contract.control_dt])
        whole = action(there, h.mapped(a)[None], time)[0][self.places]
        m.step += 1
        return a, h.sent(whole, m)

    def _note(self, name: str, t: float, value: np.ndarray) -> None:
        times, rows = self.rows.setdefault(name, ([], []))
        times.append(t)
        rows.append(np.array(value, dtype=float))

    def _fell(self) -> bool:
        base = self.sim.sensors.base_q
        if base is None:
            return False
        q = self.sim.engine.qpos[0]
        x, y = q[base + 4 : base + 6]
        return bool(1 - 2 * (x * x + y * y) < 0.5 or q[base + 2] < 0.45 * self.case.robot.height)

    def _log(self) -> Log:
        channels = []
        for name, (times, rows) in self.rows.items():
            if not rows[0].size:
                continue
            columns, unit, role = self._about(name)
            channels.append(
                Channel(name=name, unit=unit, t=np.array(times), values=np.array(rows), columns=columns, role=role)
            )
        meta = {
            "bundle": self.case.bundle.hash, "contract": self.contract.to_dict(), "hardware": "simulated", "events": [],
            "stages": [["hold", 0.0], ["policy", STAND]],
        }  # fmt: skip
        return Log(channels=tuple(channels), robot=self.case.robot.name, contract=self.contract.hash, meta=meta)

    def _about(self, name: str) -> tuple[tuple[str, ...], str, str]:
        """Columns, unit and role of a channel."""
        if name.startswith("observation/"):
            group = name.partition("/")[2]
            mine, built = self.contract.group(group), self.built_by.group(group)
            return (mine if mine.size == built.size else built).labels, "1", "y"
        if name == "action":
            return self.contract.action.joints, "1", "y"
        if name == "command":
            return tuple(c.name for c in self.contract.commands), "1", "y"
        if name in ("motor_kp", "motor_kd"):
            return self.outputs, "1", "u"
        if name == self.contract.action.kind:
            return self.outputs, UNITS[name], "u"
        return self.columns[name], unit_of(self.sim, name, self.columns[name]), "y"


def cases(walking: Path | None, folder: Path | None = None) -> list[Case]:
    """The three bundles; without a trained run the first one is the shipped policy."""
    folder = Path(tempfile.mkdtemp()) if folder is None else folder
    first = shipped_case() if walking is None else walking_case(walking, folder)
    return [first, stepping_case(folder), swinging_case(folder)]
