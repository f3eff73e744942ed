"""A robot inside this process, and a bundle for it: what the runtime is measured and tested on when no twin is at hand.

    I q'' = clip(kp (target − q) + kd (velocity − q') + torque, ±limit) − b q'        twelve joints, stepped at 2 kHz
    I q'' = gain · target − b q'                                                      other kinds of command

It has no legs: its body stays level. It is not for judging a policy.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from surefoot.contract import Action, Command, Contract, Group, Range, Reading, Term, Wire
from surefoot.deploy.bundle import Bundle, write_bundle
from surefoot.deploy.settings import SafetySettings

JOINTS = tuple(f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf"))
POSE = (0.0, 0.8, -1.5) * 4
STEP = 5e-4  # [s]
INERTIA, FRICTION, LIMIT, GAIN = 0.02, 0.05, 23.0, 5.0  # [kg·m²], [N·m·s/rad], [N·m], [N·m per unit of target]
XYZ = ("x", "y", "z")


def contract(*, lift: float = 0.0, history: int = 1, kind: str = "joint_pos_target") -> Contract:
    """What its policies agree on: 50 Hz, twelve joints, a gait clock of 0.5 s; `lift` [rad] of a rhythm."""
    terms = (
        Term(source="gyro", scale=0.25),
        Term(source="gravity"),
        Term(source="command", columns=("vx", "yaw_rate")),
        Term(source="joint_pos", columns=JOINTS, offset=tuple(-p for p in POSE), history=history),
        Term(source="joint_vel", columns=JOINTS, scale=0.05),
        Term(source="last_action", columns=JOINTS),
        Term(source="clock", columns=("sin", "cos")),
    )
    positions = kind == "joint_pos_target"
    return Contract(
        robot="stand_in",
        joints=JOINTS,
        control_dt=0.02,
        groups=(Group(name="policy", terms=terms),),
        action=Action(
            joints=JOINTS, kind=kind, scale=0.25, offset=POSE if positions else 0.0, clip=(-4.0, 4.0), lift=lift, phase=(0.0, 0.5) * 6
        ),
        sensor_channels=("gyro", "gravity", "joint_pos", "joint_vel"),
        pose=POSE,
        kp=40.0,
        kd=1.0,
        torque_limit=LIMIT,
        position_limits=(tuple(p - 1.2 for p in POSE), tuple(p + 1.2 for p in POSE)),
        commands=(Range(name="vx", low=-1.0, high=1.0, unit="m/s"), Range(name="yaw_rate", low=-1.0, high=1.0, unit="rad/s")),
        clock_period=0.5,
    )  # fmt: skip


def patient(made: Contract) -> SafetySettings:
    """Safety settings that bear pauses of a busy machine, where the loop is measured or tested and not the machine."""
    times = dict.fromkeys(("overrun_time", "stale_time", "policy_time", "clock_jump"), 10.0)
    return SafetySettings.from_contract(made, **times, most_lost=1e6, lost_share=1.0)


def bundle(
    folder: str | Path,
    made: Contract | None = None,
    *,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    seed: int = 0,
) -> Bundle:
    """Write a bundle with a policy for `made`: action = weight · obs + bias where given, else a small random perceptron."""
    from onnx import TensorProto, helper, numpy_helper

    made = contract() if made is None else made
    size, n, rng = made.group("policy").size, len(made.action.joints), np.random.default_rng(seed)
    widths = [size, n] if weight is not None or bias is not None else [size, 256, 128, n]
    nodes, constants, x = [], [], "policy"
    for i, (a, b) in enumerate(pairwise(widths)):
        last = i == len(widths) - 2
        random = rng.normal(0.0, 0.3 / np.sqrt(a), (b, a))
        w = random if len(widths) > 2 else np.zeros((b, a)) if weight is None else weight
        c = np.zeros(b) if bias is None else bias
        constants += [numpy_helper.from_array(np.asarray(v, np.float32), f"{k}{i}") for k, v in (("w", w), ("b", c))]
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], ["action" if last else f"h{i}"], transB=1))
        if not last:
            nodes.append(helper.make_node("Tanh", [f"h{i}"], [f"t{i}"]))
            x = f"t{i}"

    def value(name: str, width: int):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["worlds", width])

    graph = helper.make_graph(nodes, "policy", [value("policy", size)], [value("action", n)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return write_bundle(folder, model.SerializeToString(), made, {"run": "stand-in"})


@dataclass(frozen=True, kw_only=True)
class Told:
    """A command that was written, and when, by the robot's time [s]."""

    time: float
    command: Command


class StandIn:
    """Implements `Hardware` (surefoot.contract.wire).

    Args:
        paced: in real time, or in lockstep.
        kind: kind of command it takes.
        start: joint positions it lies in [rad]; folded legs when left out.
        alter: changes readings on their way, or loses them (None): for planting faults.
        others: another controller's targets as a function of time [s]: it then drives, and they are a channel of the readings.
        seed: of the sensors' noise.
    """

    robot, outputs, rate = "stand_in", JOINTS, 500.0

    def __init__(
        self,
        *,
        paced: bool = False,
        kind: str = "joint_pos_target",
        start: np.ndarray | None = None,
        alter: Callable[[Reading], Reading | None] | None = None,
        others: Callable[[float], np.ndarray] | None = None,
        seed: int = 0,
    ):
        self.paced, self.kinds = paced, (kind,)
        self.channels: Mapping[str, Wire] = {
            "joint_pos": Wire(unit="rad", columns=JOINTS), "joint_vel": Wire(unit="rad/s", columns=JOINTS),
            "joint_torque": Wire(unit="N·m", columns=JOINTS), "gyro": Wire(unit="rad/s", columns=XYZ),
            "accel": Wire(unit="m/s^2", columns=XYZ), "gravity": Wire(unit="1", columns=XYZ),
            "quat": Wire(unit="1", columns=("w", *XYZ)),
        }  # fmt: skip
        if others is not None:
            self.channels = {**self.channels, kind: Wire(unit="rad", columns=JOINTS)}
        self.told: list[Told] = []
        self.stopped = self.closed = False
        self._alter, self._others = alter, others
        self._rng = np.random.default_rng(seed)
        self.q = np.array(POSE) + np.tile([0.0, 0.6, -0.9], 4) if start is None else np.array(start, dtype=np.float64)
        self.dq, self.tau = np.zeros(12), np.zeros(12)
        self._command = Command.damping(12, 1.0, kind)
        self._zero = time.monotonic()
        self._time, self._count, self._given = 1.0, 0, -1
        self.given = 0.0
        """Time of the newest sample that was read [s]."""

    def read(self, timeout: float) -> Reading | None:
        """The newest sample not yet given."""
        if self.paced:
            self._catch_up(timeout)
        if self._count <= self._given:
            return None
        self._given = self._count
        reading = self._sense()
        self.given = reading.time
        return reading if self._alter is None else self._alter(reading)

    def write(self, command: Command) -> None:
        """Tell the motors; in lockstep, time moves on by 1/rate."""
        if self.paced:
            self._catch_up(0.0)
        self.told.append(Told(time=self._time, command=command))
        if not self.stopped:
            self._command = command
        if not self.paced:
            self._advance(self._count + 1)

    def stop(self) -> None:
        """Damp for good."""
        self.stopped = True
        self._command = Command.damping(12, 2.0, self.kinds[0])

    def close(self) -> None:
        """Let go."""
        self.closed = True

    def _catch_up(self, timeout: float) -> None:
        """Bring the joints to the newest sample that is due by now, waiting for a new one up to `timeout` [s]."""
        due = int((time.monotonic() - self._zero) * self.rate)
        if due <= self._given and timeout > 0:
            time.sleep(min(timeout, max((self._given + 1) / self.rate - (time.monotonic() - self._zero), 0.0)))
            due = int((time.monotonic() - self._zero) * self.rate)
        if due > self._count:
            self._advance(due)

    def _advance(self, count: int) -> None:
        """Move on to sample number `count`; a long pause is not simulated in full."""
        steps = min(round((count - self._count) / self.rate / STEP), 400)
        c = self._command
        target = c.target if self._others is None else self._others(self._time)
        positions = c.kind == "joint_pos_target"
        for _ in range(steps):
            if positions or self.stopped:
                kp = 40.0 if self._others is not None else c.kp
                self.tau = np.clip(kp * (target - self.q) + c.kd * (c.velocity - self.dq) + c.torque, -LIMIT, LIMIT)
            else:
                self.tau = GAIN * target
            self.dq = self.dq + STEP / INERTIA * (self.tau - FRICTION * self.dq)
            self.q = self.q + STEP * self.dq
        self._count = count
        self._time = 1.0 + count / self.rate

    def _sense(self) -> Reading:
        noise = self._rng.normal(0.0, 1.0, (7, 12))
        values = {
            "joint_pos": self.q + 1e-4 * noise[0], "joint_vel": self.dq + 1e-2 * noise[1], "joint_torque": self.tau + 1e-2 * noise[2],
            "gyro": 1e-3 * noise[3, :3], "accel": np.array([0.0, 0.0, 9.81]) + 1e-2 * noise[4, :3],
            "gravity": np.array([0.0, 0.0, -1.0]) + 1e-3 * noise[5, :3] * (1, 1, 0),
            "quat": np.array([1.0, 0.0, 0.0, 0.0]) + 1e-3 * noise[6, :4] * (0, 1, 1, 1),
        }  # fmt: skip
        if self._others is not None:
            values[self.kinds[0]] = self._others(self._time)
        return Reading(time=self._time, count=self._count, values=values)
