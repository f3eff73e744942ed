"""SafetySettings: every number of the safety layer, with its unit and its reason, as one value and one TOML file.

Per-joint numbers are in the order of `joints`, which are the contract's. Where a field may be None, its check is off, and
`Safety.checks` says so.
"""

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract.channels import ACTIONS
from surefoot.contract.codec import Values
from surefoot.contract.contract import Contract
from surefoot.contract.terms import settle, spread
from surefoot.errors import InputError, choose, did_you_mean
from surefoot.files import write_text
from surefoot.params.toml import dumps

STATES = ("ok", "freeze", "damping", "stopped")
SEVERITIES = ("warn", "freeze", "damping", "stopped")

LEVELS: dict[str, str] = {
    "stale": "freeze", "not_finite": "freeze", "range": "freeze", "norm": "freeze", "jump": "freeze", "stuck": "freeze",
    "frozen": "freeze", "clock": "freeze", "lost": "freeze", "action_invalid": "freeze", "action_range": "freeze",
    "action_change": "freeze", "command_invalid": "freeze", "command_match": "freeze", "command_torque": "freeze",
    "gains": "freeze", "tilt": "damping", "height": "damping", "contact": "freeze", "temperature": "freeze",
    "unfamiliar": "freeze", "overrun": "freeze", "policy_silent": "freeze", "operator": "stopped", "internal": "damping",
}  # fmt: skip
"""The level at which each check enters the ladder."""

HOLDS: dict[str, float] = {
    "stale": 0.0, "not_finite": 0.01, "range": 0.01, "norm": 0.01, "jump": 0.01, "stuck": 0.0, "frozen": 0.0, "clock": 0.01,
    "lost": 0.0, "action_invalid": 0.0, "action_range": 0.04, "action_change": 0.04, "command_invalid": 0.01,
    "command_match": 0.04, "command_torque": 0.02, "gains": 0.01, "tilt": 0.04, "height": 0.04, "contact": 0.04,
    "temperature": 0.1, "unfamiliar": 0.3, "overrun": 0.0, "policy_silent": 0.0, "operator": 0.0, "internal": 0.0,
}  # fmt: skip
"""How long a condition must be there before it counts [s]; until then it is a warning. Time without it counts back at a quarter."""

PER_JOINT = (
    "target_low", "target_high", "rate_limit", "kp_max", "kd_max", "damping_kd", "torque_limit", "no_load_speed",
    "position_low", "position_high", "crouch", "barrier_inertia", "barrier_brake",
)  # fmt: skip
ABOVE_ZERO = (
    "period", "control_dt", "stale_time", "start_time", "stuck_time", "clock_jump", "overrun_time", "policy_time", "crouch_time",
    "unfamiliar_smoothing", "barrier_alpha", "barrier_gamma", "jump_factor", "torque_factor", "gyro_range", "accel_range",
    "rate_limit", "torque_limit", "no_load_speed", "barrier_inertia", "barrier_brake", "most_lost",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SafetySettings:
    """What the safety layer allows.

    Attributes:
        robot: name of the robot, so that a file of another one is refused.
        joints: the contract's joints; order of every per-joint number here.
        kind: kind of command the motors take.
        period: of the inner loop [s]; the rate limit never credits more time than this to one step.
        control_dt: of the policy [s].

        target_low, target_high: of a target, in its unit: [rad] for positions, else [V], [N·m], [1].
        rate_limit: largest speed of a target [its unit per s]; a jumping target is a kick.
        kp_max, kd_max: largest gains [N·m/rad], [N·m·s/rad]; stiffer than trained shakes a real joint.
        torque_limit: of a motor at standstill [N·m], or None.
        no_load_speed: where the motor's torque has fallen to 0 [rad/s]; None keeps the curve flat.
        temperature_warn, temperature_high: torque is allowed less from the first [degC], a fault from the second.
        derate_floor: share of the torque still allowed at `temperature_high`: enough to hold, not to move.

        position_low, position_high: of joint readings [rad]; None where a joint may turn for ever.
        position_margin: by which a reading may lie outside [rad]: soft stops, calibration.
        gyro_range, accel_range: beyond these a reading is a saturated sensor [rad/s], [m/s²].
        norm_margin: how far |quat| and |gravity| may be from 1.
        jump_factor: a joint may move between samples by jump_factor · no_load_speed · dt + jump_margin.
        jump_margin: [rad] noise and quantisation.
        stale_time: without a new sample for longer [s], readings are stale.
        start_time: how long the first sample may take [s].
        stuck_time: an exactly constant value is suspected after this [s]; found within 1.5 times it once there is evidence.
        stuck_move: evidence: the command, or the integral of the joint's speed, moved by this [rad] meanwhile.
        clock_jump: by which robot and runtime clock may part at once [s].
        most_lost: samples that may be lost at once.
        lost_share: share of samples that may be lost, averaged over about 50.

        action_margin: an action may leave its trained range (or the clip) by this share of the range's width.
        action_change: largest change of an action between policy steps, as a share of the allowed range.
        match_margin: how far the wanted target may be from what the last action means, in the target's unit; None for a
            runtime that filters actions.
        torque_factor: a wanted torque above this many torque_limits is no mistake of a moment's tracking but a fault.

        tilt_limit: angle between the body's z axis and up [rad], or None.
        height_low, height_high: of the base [m], where base_pos is read, or None.
        foot_force_high: on one foot [N], where foot_force is read, or None.
        foot_force_low: all feet together below this [N] is "in the air", or None.
        air_time: how long all feet may be in the air [s].

        unfamiliar_warn, unfamiliar_freeze: limits of the smoothed score of an observation (see `familiar`).
        unfamiliar_smoothing: time constant of the score [s].

        overrun_time: between two calls of `step` [s].
        policy_time: since the policy last ran [s].

        freeze_time: a condition that stays this long in freeze leads to damping [s].
        damping_time: and this long in damping, to stopped [s].
        freeze_gain: share of kp_max with which a pose is held: holding needs less than walking.
        freeze_others: what freezing means for commands that are no positions: "rest" (target 0) or "hold" (a rotor: to
            hang on is better than to fall).
        damping_kd: [N·m·s/rad] at most kd_max.
        crouch: joint positions to sit down to when stopped [rad], or None to stay in damping.
        crouch_time: of sitting down [s].
        crouch_tilt: only a robot less tilted than this sits down [rad].

        barrier: whether the control-barrier filter keeps joints off their limits (see `barrier`).
        barrier_alpha, barrier_gamma: how fast a limit may be approached, and how fast a breach is corrected [1/s].
        barrier_brake: deceleration that is always available [rad/s²].
        barrier_inertia: moved by a joint's motor [kg·m²].

        levels: check -> "warn", "freeze", "damping" or "stopped".
        holds: check -> how long its condition must be there [s].
    """

    robot: str
    joints: tuple[str, ...]
    kind: str
    period: float
    control_dt: float

    target_low: Values
    target_high: Values
    rate_limit: Values
    kp_max: Values = 0.0
    kd_max: Values = 0.0
    torque_limit: Values | None = None
    no_load_speed: Values | None = None
    temperature_warn: float = 70.0
    temperature_high: float = 90.0
    derate_floor: float = 0.3

    position_low: Values | None = None
    position_high: Values | None = None
    position_margin: float = 0.1
    gyro_range: float = 34.5
    accel_range: float = 155.0
    norm_margin: float = 0.1
    jump_factor: float = 1.5
    jump_margin: float = 0.05
    stale_time: float = 0.03
    start_time: float = 1.0
    stuck_time: float = 0.1
    stuck_move: float = 0.03
    clock_jump: float = 0.02
    most_lost: float = 25
    lost_share: float = 0.6

    action_margin: float = 0.5
    action_change: float = 0.75
    match_margin: float | None = 0.02
    torque_factor: float = 3.0

    tilt_limit: float | None = 1.0
    height_low: float | None = None
    height_high: float | None = None
    foot_force_high: float | None = None
    foot_force_low: float | None = None
    air_time: float = 0.5

    unfamiliar_warn: float = 0.3
    unfamiliar_freeze: float = 0.8
    unfamiliar_smoothing: float = 0.1

    overrun_time: float = 0.02
    policy_time: float = 0.06

    freeze_time: float = 1.0
    damping_time: float = 2.0
    freeze_gain: float = 0.7
    freeze_others: str = "rest"
    damping_kd: Values = 0.0
    crouch: Values | None = None
    crouch_time: float = 2.0
    crouch_tilt: float = 0.5

    barrier: bool = False
    barrier_alpha: float = 20.0
    barrier_gamma: float = 100.0
    barrier_brake: Values = 100.0
    barrier_inertia: Values = 0.05

    levels: Mapping[str, str] = field(default_factory=dict)
    holds: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self):
        joints = tuple(self.joints)
        choose(self.kind, ACTIONS, "a kind of command")
        if not joints:
            raise InputError("safety settings need the joints of the contract, got none")
        for name in (f.name for f in dataclasses.fields(self)):
            value = getattr(self, name)
            if name in ("robot", "joints", "kind", "levels", "holds", "barrier", "freeze_others") or value is None:
                continue
            if name in PER_JOINT:
                settle(self, **{name: spread(value, len(joints), f"{name} of the safety settings")})
            elif isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
                raise InputError(f"{name} of the safety settings must be a finite number, got {value!r}")
            else:
                settle(self, **{name: float(value)})
            smallest = float(np.min(getattr(self, name)))
            signed = name in (
                "target_low",
                "target_high",
                "position_low",
                "position_high",
                "crouch",
                "height_low",
                "height_high",
            )
            if not signed and (smallest < 0 or (smallest == 0 and name in ABOVE_ZERO)):
                raise InputError(
                    f"{name} of the safety settings must be {'above' if name in ABOVE_ZERO else 'at least'} 0, got {smallest:g}"
                )
        if not isinstance(self.barrier, bool):
            raise InputError(f"barrier of the safety settings must be true or false, got {self.barrier!r}")
        choose(self.freeze_others, ("rest", "hold"), "a way to freeze")
        settle(self, joints=joints, levels=self._table("levels", LEVELS), holds=self._table("holds", HOLDS))
        self._check_pairs()

    def _check_pairs(self) -> None:
        for low, high in (
            ("target_low", "target_high"), ("position_low", "position_high"), ("height_low", "height_high"),
            ("temperature_warn", "temperature_high"), ("damping_kd", "kd_max"), ("unfamiliar_warn", "unfamiliar_freeze"),
        ):  # fmt: skip
            a, b = getattr(self, low), getattr(self, high)
            if a is not None and b is not None and np.any(np.asarray(a) > np.asarray(b)):
                raise InputError(f"{low} of the safety settings is above {high}: {a} against {b}")
        if self.freeze_gain > 1 or self.derate_floor > 1:
            raise InputError("freeze_gain and derate_floor of the safety settings are shares from 0 to 1")

    def _table(self, name: str, known: Mapping[str, Any]) -> dict[str, Any]:
        given = getattr(self, name)
        if not isinstance(given, Mapping):
            raise InputError(f"{name} of the safety settings must be a table check -> value, got {given!r}")
        for key, value in given.items():
            choose(key, known, "a check of the safety layer")
            if name == "levels":
                choose(value, SEVERITIES, f"a level for {key!r}")
            elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InputError(f"the hold of {key!r} must be a time of 0 or more seconds, got {value!r}")
        return {**known, **given}

    @classmethod
    def from_contract(
        cls,
        contract: Contract,
        *,
        no_load_speed: Any = None,
        position_limits: Any = None,
        torque_limit: Any = None,
        **changes: Any,
    ) -> "SafetySettings":
        """Settings for a contract; what it does not say may be given: no-load speed [rad/s], position limits, torque limits.

        Targets of positions stay within the position limits, else the action's limits, else what the action can reach;
        other targets within the action's limits, else its reach. Without a rate limit a target may cross its range (at
        most 2 rad) in half a control period.
        """
        for name in changes:
            choose(name, [f.name for f in dataclasses.fields(cls)], "a field of the safety settings")
        act, joints = contract.action, contract.joints
        positions = act.kind == "joint_pos_target"
        limits = contract.position_limits if position_limits is None else position_limits
        torque = contract.torque_limit if torque_limit is None else torque_limit
        if torque is not None:
            torque = np.asarray(torque)
            torque = np.where(torque > 0, torque, 1e6) if np.any(torque > 0) else None
        low, high = limits if positions and limits is not None else _reach(contract, torque)
        low, high = np.asarray(spread(low, len(joints), "low")), np.asarray(spread(high, len(joints), "high"))
        span = np.minimum(high - low, 2.0) if positions else high - low
        rate = contract.rate_limit or tuple(np.maximum(span, 1e-3) / (0.5 * contract.control_dt))
        kd = np.asarray(contract.kd or (0.0,) * len(joints))
        given = {
            "robot": contract.robot, "joints": joints, "kind": act.kind, "period": 1.0 / (contract.pd_rate or 500.0),
            "control_dt": contract.control_dt, "target_low": tuple(low), "target_high": tuple(high), "rate_limit": rate,
            "kp_max": contract.kp or 0.0, "kd_max": tuple(3 * kd), "damping_kd": tuple(3 * kd), "torque_limit": torque,
            "no_load_speed": contract.speed_limit if no_load_speed is None else no_load_speed,
            "crouch": contract.rest if positions else None, "policy_time": max(3 * contract.control_dt, 0.02),
            "freeze_others": "hold" if act.kind == "rotor_target" else "rest",
            "match_margin": 0.02 if positions else 0.02 * float(np.max(high - low)),
            "overrun_time": max(0.02, 5 / (contract.pd_rate or 500.0)),
        }  # fmt: skip
        if limits is not None:
            given |= {"position_low": limits[0], "position_high": limits[1]}
        return cls(**{**given, **changes})

    @classmethod
    def from_robot(cls, contract: Contract, robot: Any, **changes: Any) -> "SafetySettings":
        """As `from_contract`, with joint ranges, torque and speed limits of a `Robot` where the contract has none."""
        motors = {motor.name: motor for motor in robot.actuators}
        joints, known = contract.joints, {}
        speeds = [getattr(motors.get(j), "speed_limit", None) for j in joints]
        if all(speed is not None for speed in speeds):
            known["no_load_speed"] = speeds
        torques = [getattr(motors.get(j), "torque_limit", None) for j in joints]
        if contract.torque_limit is None and all(torque is not None for torque in torques):
            known["torque_limit"] = torques
        ranges = {joint.name: joint.range for joint in robot.spec().joints}
        if contract.position_limits is None and all(j in ranges and ranges[j][0] < ranges[j][1] for j in joints):
            known["position_limits"] = tuple(
                zip(*((float(a), float(b)) for a, b in (ranges[j] for j in joints)), strict=True)
            )
        return cls.from_contract(contract, **{**known, **changes})

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what is None is left out, and levels and holds that are the usual ones too."""
        out = {}
        for entry in dataclasses.fields(self):
            value = getattr(self, entry.name)
            if entry.name in ("levels", "holds"):
                usual = LEVELS if entry.name == "levels" else HOLDS
                value = {key: v for key, v in value.items() if v != usual[key]}
            if value is not None and value != {}:
                out[entry.name] = list(value) if isinstance(value, tuple) else value
        return out

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "safety settings") -> "SafetySettings":
        """The settings that `to_dict` gave; an unknown key is refused, a field left out is None or its usual value."""
        fields = {f.name: f for f in dataclasses.fields(cls)}
        for key in values:
            if key not in fields:
                raise InputError(f"{where}: {key!r} is not a field of the safety settings {did_you_mean(key, fields)}")
        missing = [n for n, f in fields.items() if _needed(f) and n not in values]
        if missing:
            raise InputError(
                f"{where}: {missing[0]!r} is missing; `SafetySettings.from_contract(contract).save(...)` writes a whole file"
            )
        optional = {n: None for n, f in fields.items() if "None" in str(f.type) and n not in values}
        return cls(**{**optional, **{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}})

    def save(self, path: str | Path) -> None:
        """Write TOML to `path`, whole or not at all."""
        write_text(path, dumps(self.to_dict()))

    @classmethod
    def load(cls, path: str | Path) -> "SafetySettings":
        """Read the TOML file `path`."""
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"cannot read the safety settings {str(path)!r}: {error}") from None
        return cls.from_dict(values, Path(path).name)

    def fits(self, contract: Contract) -> None:
        """Raise an InputError unless these settings are for the robot of `contract`."""
        for name, own, other in (
            ("robot", self.robot, contract.robot), ("joints", self.joints, contract.joints), ("kind", self.kind, contract.action.kind),
        ):  # fmt: skip
            if own != other:
                raise InputError(
                    f"these safety settings are for {name} {_words(own)}, the contract's is {_words(other)}: make them from this contract"
                )


def _needed(entry: Any) -> bool:
    return entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING


def _words(value: str | Sequence[str]) -> str:
    return repr(value) if isinstance(value, str) else ", ".join(value)


def _reach(contract: Contract, torque: Any) -> tuple[np.ndarray, np.ndarray]:
    """Targets that the action can ask for, (joints,) each; a joint without an action stays at its default."""
    act, joints = contract.action, contract.joints
    positions = act.kind == "joint_pos_target"
    rest = np.asarray(contract.pose) if positions else np.zeros(len(joints))
    if positions and act.clip is None and act.limits is None:
        low, high = rest - math.pi, rest + math.pi
    elif not positions and act.clip is None and act.limits is None:
        if act.kind == "joint_torque_target" and torque is not None:
            high = np.asarray(spread(torque, len(joints), "torque_limit"))
            return -high, high
        raise InputError(
            f"the contract of {contract.robot!r} says nothing of how large a {act.kind} may be: give its action limits or a clip"
        )
    else:
        low, high = rest.copy(), rest.copy()
    offset, scale, lift = (np.asarray(v) for v in (act.offset, act.scale, act.lift))
    own = [joints.index(joint) for joint in act.joints]
    if act.clip is not None:
        ends = [offset + scale * np.asarray(side) for side in act.clip]
        low[own] = np.minimum(*ends) + np.minimum(lift, 0.0)
        high[own] = np.maximum(*ends) + np.maximum(lift, 0.0)
    if act.limits is not None:
        bounded = act.clip is not None
        low[own] = np.maximum(low[own], act.limits[0]) if bounded else act.limits[0]
        high[own] = np.minimum(high[own], act.limits[1]) if bounded else act.limits[1]
    return low, high
