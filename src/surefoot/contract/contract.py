"""What must match between training and robot, as one value: compared, hashed, saved as readable JSON."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surefoot.contract.channels import RUNTIME, STANDARD, of_joints
from surefoot.contract.codec import Bounds, Values, decode, dump, encode, parse
from surefoot.contract.difference import difference
from surefoot.contract.terms import (
    Action,
    Group,
    Memory,
    Range,
    positive,
    settle,
    spread,
    spread_bounds,
    unique_names,
)
from surefoot.errors import InputError, choose, did_you_mean
from surefoot.files import write_text

VERSION = 1
DEPLOYED = ("policy", "history")
"""Groups that run on the robot: they may never read a privileged channel."""


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Everything that training and robot must agree on.

        obs = clip((y[columns] + offset) · scale)          every term of every group; sine and cosine where it turns
        z = clip((obs − mean) / sqrt(var + eps))           where a group has a normaliser
        target = clip(offset + scale · clip(a))            the action
        tau = clip(kp (target − q) − kd dq, ±torque_limit) position targets, at the inner rate

    Attributes:
        robot: name of the robot.
        joints: its joints in its own order: the order of commands and of every joint channel.
        control_dt: time between two actions [s].
        groups: observation vectors; one is called "policy" and is kept first, the others by name.
        action: what the policy's output means.
        sensor_channels: channels that the robot's sensors give. Only these, and what the runtime knows
            itself (last_action, command, clock), may enter a group that is not privileged.
        timestep: physics step in training [s], or None.
        pd_rate: rate of the inner loop on the robot [Hz], or None.
        pose: default joint positions [rad], in the order of `joints`; a joint without an action is held there.
        kp, kd: gains of the inner loop [N·m/rad], [N·m·s/rad] per joint, or None.
        torque_limit: [N·m] per joint, or None.
        speed_limit: speed at which a motor has no torque left [rad/s] per joint, or None.
        rate_limit: largest speed of a target [rad/s] per joint, or None.
        position_limits: (low, high) of the joints [rad], or None.
        rest: joint positions in which the robot can be left without power [rad], or None.
        commands: what may be asked of the policy, in the order of the channel "command".
        clock_period: period of the source "clock" [s], or None.
        memory: recurrent states of the policy.
        e: training range of every unknown of the simulator.
        version: of this format.
    """

    robot: str
    joints: tuple[str, ...]
    control_dt: float
    groups: tuple[Group, ...]
    action: Action
    sensor_channels: tuple[str, ...]
    timestep: float | None = None
    pd_rate: float | None = None
    pose: Values = 0.0
    kp: Values | None = None
    kd: Values | None = None
    torque_limit: Values | None = None
    speed_limit: Values | None = None
    rate_limit: Values | None = None
    position_limits: Bounds | None = None
    rest: Values | None = None
    commands: tuple[Range, ...] = ()
    clock_period: float | None = None
    memory: tuple[Memory, ...] = ()
    e: tuple[Range, ...] = ()
    version: int = VERSION

    def __post_init__(self):
        if self.version != VERSION:
            raise InputError(f"contract version {self.version!r} is not known here, this surefoot reads {VERSION}")
        joints = unique_names(self.joints, "joints of the contract")
        if not joints:
            raise InputError("a contract needs at least one joint")
        numbers = {
            name: None if (value := getattr(self, name)) is None else spread(value, len(joints), name)
            for name in ("pose", "kp", "kd", "torque_limit", "speed_limit", "rate_limit", "rest")
        }
        times = {
            name: None if (value := getattr(self, name)) is None else positive(value, name)
            for name in ("control_dt", "timestep", "pd_rate", "clock_period")
        }
        settle(
            self,
            joints=joints,
            groups=tuple(sorted(self.groups, key=lambda group: (group.name != "policy", group.name))),
            sensor_channels=tuple(sorted(unique_names(self.sensor_channels, "sensor_channels"))),
            position_limits=spread_bounds(self.position_limits, len(joints), "position_limits"),
            commands=tuple(self.commands),
            memory=tuple(self.memory),
            e=tuple(sorted(self.e, key=lambda item: item.name)),
            **numbers,
            **times,
        )
        for parts, what in ((self.commands, "commands"), (self.memory, "memory"), (self.e, "e")):
            unique_names((part.name for part in parts), what)
        names = unique_names((group.name for group in self.groups), "groups of the contract")
        if "policy" not in names:
            raise InputError(f"a contract needs a group 'policy', it has {', '.join(names) or 'none'}")
        for joint in self.action.joints:
            choose(joint, joints, f"a joint of {self.robot!r}, but the action moves it")
        for group in self.groups:
            self._check_group(group)

    def _check_group(self, group: Group) -> None:
        if group.privileged and group.name in DEPLOYED:
            raise InputError(f"group {group.name!r} runs on the robot, so it cannot be privileged")
        for term in group.terms:
            known = (*self.sensor_channels, *RUNTIME)
            if not group.privileged and term.source not in known:
                raise InputError(
                    f"term {term.name!r} of group {group.name!r} reads {term.source!r}, which no sensor of"
                    f" {self.robot!r} gives {did_you_mean(term.source, known)}; only a privileged group may"
                )
            allowed = self.columns(term.source)
            for column in term.columns:
                if allowed is not None and column not in allowed:
                    raise InputError(
                        f"term {term.name!r} of group {group.name!r}: {column!r} is not a column of"
                        f" {term.source!r} {did_you_mean(column, allowed)}"
                    )
            if term.source == "clock" and self.clock_period is None:
                raise InputError(f"term {term.name!r} of group {group.name!r} needs the contract's clock_period [s]")

    def columns(self, source: str) -> tuple[str, ...] | None:
        """Columns of a channel in the robot's order, where the contract knows them; else None."""
        if source == "command":
            return tuple(command.name for command in self.commands)
        if source == "last_action":
            return self.action.joints
        if of_joints(source):
            return self.joints
        standard = STANDARD.get(source)
        return standard.columns if standard and standard.columns else None

    def group(self, name: str) -> Group:
        """The observation group of that name."""
        known = {group.name: group for group in self.groups}
        return known[choose(name, known, "a group of this contract")]

    def difference(self, other: "Contract") -> list[str]:
        """What `other` (there) does otherwise than this one (here), one sentence each; empty when they match."""
        return difference(self, other)

    @property
    def hash(self) -> str:
        """Hash of the content, hexadecimal: equal contracts have equal hashes, on every machine."""
        text = json.dumps(encode(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; floats keep every bit."""
        return encode(self)

    @classmethod
    def from_dict(cls, values: Any, where: str = "contract") -> "Contract":
        """The contract that `to_dict` gave; `where` names the file in errors."""
        return decode(cls, values, where)

    @property
    def sensed(self) -> "Contract":
        """The same without what only a simulator knows: privileged groups and the training ranges of e."""
        return replace(self, groups=tuple(group for group in self.groups if not group.privileged), e=())

    def to_json(self) -> str:
        """Readable JSON text that `from_json` turns back into an equal contract."""
        return dump(self.to_dict()) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "contract") -> "Contract":
        """The contract in a JSON text."""
        return cls.from_dict(parse(text, where), where)

    def save(self, path: str | Path) -> None:
        """Write JSON to `path`, whole or not at all."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "Contract":
        """Read the JSON file `path`."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the contract {str(path)!r}: {error}") from None
        return cls.from_json(text, Path(path).name)
