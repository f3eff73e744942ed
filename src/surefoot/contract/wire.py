"""What goes over the wire between a runtime and a robot: readings one way, commands the other.

A motor that is told (target, kp, kd, velocity, torque) applies, at its own rate,

    position targets   τ = clip(kp (target − q) + kd (velocity − dq) + torque, ±limit)
    all other kinds    the target itself: a torque, a voltage, a rotor's share of its full thrust

so that damping is kp = 0 with kd > 0, and no target at all is kp = kd = 0. A stand-in robot and a driver of a real one both
implement `Hardware`; the runtime cannot tell which it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from surefoot.contract.channels import ACTIONS
from surefoot.errors import InputError, choose


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One sample of everything a robot measures.

    Attributes:
        time: when it was taken, by the robot's clock [s].
        count: number of the sample since the robot started; a gap means lost samples.
        values: channel -> (k,) float64, columns in the order of `Hardware.channels`.
    """

    time: float
    count: int
    values: Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Command:
    """What the motors are told, one entry per output of the robot, in the order of `Hardware.outputs`.

    Attributes:
        kind: what `target` means, one of the contract's kinds of action.
        target: (n,), [rad] for positions, else in the kind's unit.
        kp, kd: gains of position targets [N·m/rad], [N·m·s/rad], (n,); ignored for the other kinds.
        velocity: joint speed that kd damps towards [rad/s], (n,); zeros when left out.
        torque: added to the motor's torque [N·m], (n,); zeros when left out.
    """

    kind: str
    target: np.ndarray
    kp: np.ndarray
    kd: np.ndarray
    velocity: np.ndarray = field(default_factory=lambda: np.zeros(0))
    torque: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self):
        choose(self.kind, ACTIONS, "a kind of command")
        target = np.asarray(self.target, dtype=np.float64)
        for name in ("target", "kp", "kd", "velocity", "torque"):
            value = np.asarray(getattr(self, name), dtype=np.float64)
            if name in ("velocity", "torque") and value.size == 0:
                value = np.zeros_like(target)
            if value.shape != target.shape or value.ndim != 1:
                raise InputError(
                    f"{name} of a command has shape {value.shape}, its target {target.shape}: give one number per motor"
                )
            object.__setattr__(self, name, value)

    @classmethod
    def damping(cls, n: int, kd: float | np.ndarray, kind: str = "joint_pos_target") -> "Command":
        """No target, only joint damping [N·m·s/rad]; motors without such a mode get the target 0."""
        return cls(kind=kind, target=np.zeros(n), kp=np.zeros(n), kd=np.zeros(n) + kd)


@dataclass(frozen=True, kw_only=True)
class Wire:
    """How a channel of readings comes: its unit and columns."""

    unit: str
    columns: tuple[str, ...]


class Hardware(Protocol):
    """The robot at the other end of the wire.

    Attributes:
        robot: its name.
        outputs: motors in the order of every command: joints, or rotors.
        kinds: kinds of command it takes.
        channels: what every reading holds.
        rate: of its readings [Hz].
        paced: whether it runs in real time. If not (lockstep), its time stands still until a command is written: every `write`
            moves it on by 1/rate, and the next `read` gives the sample after that.
    """

    robot: str
    outputs: tuple[str, ...]
    kinds: tuple[str, ...]
    channels: Mapping[str, Wire]
    rate: float
    paced: bool

    def read(self, timeout: float) -> Reading | None:
        """The newest sample not yet given, waiting for one up to `timeout` [s] of wall time; None when none came."""
        ...

    def write(self, command: Command) -> None:
        """Tell the motors; the last command holds until the next, or until the robot's own watchdog ends it."""
        ...

    def stop(self) -> None:
        """Damp all motors now, and keep damping whatever is written later."""
        ...

    def close(self) -> None:
        """Let go of the robot after `stop`; closing twice is harmless."""
        ...
