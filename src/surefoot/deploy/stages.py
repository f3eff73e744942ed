"""The stages of a run, and what the motors are asked for in each.

connect -> wait -> stand-up -> hold -> policy -> halt -> sit-down -> stop  position targets
connect -> wait -> policy -> stop                                          all other kinds, and shadow

s(x) = x³ (10 − 15 x + 6 x²)                        from 0 to 1 without a jump in speed or acceleration
stand-up    target = q0 + s(t/T) (pose − q0),       gains kp s(t/ramp), kd
policy      target = pose + s(t/blend) (target of the action − pose),  gains kp (0.98 kp while blending), kd
halt        as policy, with every command 0 (or the nearest to it); left out where the policy takes no command
sit-down    target = q1 + s(t/T1) (pose − q1), then pose + s((t − T1)/T) (crouch − pose);     without a crouch: q1, and kp falls to 0
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from surefoot.contract import Command, Contract
from surefoot.errors import InputError, choose

CONNECT, WAIT, STAND_UP, HOLD, POLICY, HALT, SIT_DOWN, STOP = STAGES = (
    "connect", "wait", "stand-up", "hold", "policy", "halt", "sit-down", "stop",
)  # fmt: skip
ACTING = (POLICY, HALT)
"""Stages in which the policy drives."""
POSITIONS = "joint_pos_target"
EASE = 0.98
"""Share of kp while the policy's targets are blended in: it marks, in the log, the samples that are not the policy's alone."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long the stages last [s], and how the robot lies down.

    Attributes:
        wait: longest time for good readings to come.
        stand_up: from the present pose to the default one; longer where a joint would turn faster than `speed`.
        ramp: in which kp rises from 0.
        hold: at the default pose before the policy starts.
        blend: in which the policy's targets take over.
        halt: for which the policy is asked to stand still before the robot sits down.
        gather: from the policy's last pose to the default one.
        sit_down: from there to the crouch, or until kp is 0.
        settle: between the last command and the end of the recording.
        frozen: for which the safety layer may hold the robot still before the run is given up.
        speed: fastest joint in stand-up and sit-down [rad/s].
        readings: good readings in a row that are asked for before anything moves.
        crouch: pose in which the robot is left, joint -> [rad]; the contract's `rest` when left out. Without either, kp is let go slowly.
    """

    wait: float = 5.0
    stand_up: float = 2.0
    ramp: float = 0.5
    hold: float = 0.5
    blend: float = 0.2
    halt: float = 1.0
    gather: float = 0.4
    sit_down: float = 1.5
    settle: float = 0.5
    frozen: float = 2.0
    speed: float = 3.0
    readings: int = 10
    crouch: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self):
        for name in (
            "wait",
            "stand_up",
            "ramp",
            "hold",
            "blend",
            "halt",
            "gather",
            "sit_down",
            "settle",
            "frozen",
            "speed",
        ):
            value = getattr(self, name)
            if not 0.0 <= value < np.inf or (name == "speed" and value == 0.0):
                raise InputError(f"{name} of a plan must be a number from 0, got {value!r}")


def smooth(x: float) -> float:
    """s(x) = x³ (10 − 15 x + 6 x²), 0 before and 1 behind."""
    x = min(max(x, 0.0), 1.0)
    return x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)


class Motions:
    """What the motors are asked for, stage by stage; all arrays are in the order of the hardware's outputs.

    Args:
        contract: says the kind, pose and gains.
        outputs: motors.
        plan: how long.
    """

    def __init__(self, contract: Contract, outputs: tuple[str, ...], plan: Plan):
        self.kind, self.plan = contract.action.kind, plan
        self.positions = self.kind == POSITIONS
        index = [contract.joints.index(name) for name in outputs]
        rows = (contract.pose, contract.kp or 0.0, contract.kd or 0.0)
        self.pose, self.kp, self.kd = (np.broadcast_to(row, len(contract.joints))[index].copy() for row in rows)
        self.crouch = None
        if contract.rest is not None and self.positions:
            self.crouch = np.asarray(contract.rest)[index].copy()
        if plan.crouch and self.positions:
            self.crouch = self.pose.copy()
            for joint, angle in plan.crouch.items():
                self.crouch[outputs.index(choose(joint, outputs, f"a motor of {contract.robot!r}"))] = angle
        self._zeros = np.zeros(len(outputs))

    def duration(self, start: np.ndarray, goal: np.ndarray, shortest: float) -> float:
        """Time for a smooth motion [s]: its largest speed is 15/8 of the mean one."""
        far = float(np.abs(goal - start).max(initial=0.0))
        return max(shortest, 1.875 * far / self.plan.speed)

    def limp(self) -> Command:
        """No target: damping alone, or the target 0."""
        return Command(kind=self.kind, target=self._zeros, kp=self._zeros, kd=self.kd)

    def hold(self, target: np.ndarray) -> Command:
        """A target with the contract's gains."""
        return Command(kind=self.kind, target=target, kp=self.kp, kd=self.kd)

    def stand_up(self, t: float, start: np.ndarray, duration: float) -> Command:
        """From `start` (n,) to the default pose, `t` [s] after its beginning."""
        target = start + smooth(t / max(duration, 1e-9)) * (self.pose - start)
        rise = smooth(t / max(min(self.plan.ramp, duration), 1e-9))
        return Command(kind=self.kind, target=target, kp=rise * self.kp, kd=self.kd)

    def policy(self, t: float, target: np.ndarray) -> Command:
        """The policy's target (n,), blended in from the default pose."""
        if not self.blending(t):
            return self.hold(target)
        target = self.pose + smooth(t / self.plan.blend) * (target - self.pose)
        return Command(kind=self.kind, target=target, kp=EASE * self.kp, kd=self.kd)

    def blending(self, t: float) -> bool:
        """Whether the policy does not yet decide alone, `t` [s] after its start."""
        return self.positions and self.plan.blend > 0 and t < self.plan.blend

    def sit_down(self, t: float, start: np.ndarray, times: tuple[float, float]) -> Command:
        """From `start` (n,) over the default pose to the crouch; without a crouch, kp is let go. `times` [s]: at the pose, at the end."""
        first, duration = times
        if self.crouch is not None and t < first:
            return self.hold(start + smooth(t / first) * (self.pose - start))
        if self.crouch is not None:
            return self.hold(self.pose + smooth((t - first) / max(duration - first, 1e-9)) * (self.crouch - self.pose))
        s = smooth(t / max(duration, 1e-9))
        return Command(kind=self.kind, target=start, kp=(1.0 - s) * self.kp, kd=self.kd)
