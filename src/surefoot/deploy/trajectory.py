"""A written motion on a robot: `surefoot deploy --trajectory FILE` plays what `surefoot excite` designed, with the safety layer on.

    targets    the motion is the policy: a_k = (target_k − offset) / scale, so that stages, safety and log are those of any run
    commands   the motion is what a policy is asked for: command(t), played on a bundle

The file is JSON: {"format": "surefoot trajectory", "version": 1, "robot", "setting", "channel", "columns", "dt", "values": rows,
"contract": what the runtime keeps to}. Without a contract, one is made from the robot's own file.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import Action, Contract, Group, Hardware, Term
from surefoot.contract.channels import ACTIONS
from surefoot.contract.codec import parse
from surefoot.deploy.bundle import Bundle
from surefoot.deploy.outcome import Outcome
from surefoot.deploy.runtime import deploy
from surefoot.deploy.stages import POSITIONS, Plan
from surefoot.errors import InputError, choose, did_you_mean
from surefoot.logs import Log

FORMAT, VERSION = "surefoot trajectory", 1
COMMAND = "command"
LONGEST = 600.0
"""[s] A longer motion is a mistake."""
CHANGE = 3.0
"""Largest change of a target between two rows, in rad (or half the range of other targets): more is a jump."""
START = 0.05
"""How far the first row of positions may be from the default pose [rad]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory:
    """A motion to play.

    Attributes:
        robot: it was made for.
        setting: how the robot must be set up, a word for people.
        channel: kind of target, or "command".
        columns: motors, or names of commands.
        dt: time between two rows [s].
        values: (T, k).
        contract: what the runtime keeps to, or None.
        hash: of the file.
    """

    robot: str
    setting: str
    channel: str
    columns: tuple[str, ...]
    dt: float
    values: np.ndarray
    contract: Contract | None = None
    hash: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        choose(self.channel, (*ACTIONS, COMMAND), "a kind of trajectory")
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.columns) or len(values) < 2 or not np.isfinite(values).all():
            raise InputError(
                f"a trajectory of {len(self.columns)} columns needs finite rows (T, {len(self.columns)}), T at least 2, got {values.shape}"
            )
        if len(set(self.columns)) < len(self.columns):
            raise InputError(f"a trajectory names a column twice: {', '.join(self.columns)}")
        if not 1e-4 <= self.dt <= 1.0 or self.dt * len(values) > LONGEST:
            raise InputError(
                f"a trajectory has rows every 0.0001 to 1 s and at most {LONGEST:g} s of them, got {self.dt!r} s and {len(values)} rows"
            )
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @property
    def seconds(self) -> float:
        """Length [s]."""
        return self.dt * len(self.values)

    def at(self, time: float) -> np.ndarray:
        """The row that holds at a time [s], (k,); the last one after the end."""
        return self.values[min(max(math.floor(time / self.dt + 1e-6), 0), len(self.values) - 1)]

    def asked(self, time: float) -> dict[str, float]:
        """The row as what is asked of a policy."""
        return dict(zip(self.columns, self.at(time).tolist(), strict=True))


def load_trajectory(path: str | Path) -> Trajectory:
    """The motion in a JSON file, checked."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the trajectory '{path}': {error}") from None
    data = parse(text, str(path))
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
        raise InputError(
            f"'{path}' is no {FORMAT} of version {VERSION}: make one with `surefoot excite ROBOT --out {path.name}`"
        )
    missing = [key for key in ("robot", "channel", "columns", "dt", "values") if key not in data]
    if missing:
        raise InputError(f"'{path}' lacks {missing[0]!r}: make it anew with `surefoot excite`")
    contract = None if data.get("contract") is None else Contract.from_dict(data["contract"], f"{path.name}: contract")
    try:
        return Trajectory(
            robot=str(data["robot"]), setting=str(data.get("setting", "")), channel=str(data["channel"]),
            columns=tuple(str(c) for c in data["columns"]), dt=float(data["dt"]), values=np.array(data["values"], dtype=np.float64),
            contract=contract, hash=hashlib.sha256(text.encode()).hexdigest(), about=data.get("about", {}),
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise InputError(f"'{path}': {error}") from None


# -------------------------------------------------------------------- what the runtime keeps to


def contract_for(trajectory: Trajectory, *, pd_rate: float = 500.0) -> Contract:
    """The contract of a motion of targets, from the robot's own file: joints, pose, gains, limits."""
    from surefoot.deploy.complete import complete
    from surefoot.robots import load

    robot = load(trajectory.robot)
    kind = trajectory.channel
    known = [a.name for a in robot.actuators if a.channel == kind]
    for name in trajectory.columns:
        if name not in known:
            raise InputError(f"'{name}' is no motor of {robot.name} that takes {kind} {did_you_mean(name, known)}")
    joints = tuple(robot.joints) or tuple(a.name for a in robot.actuators)
    offset = tuple(robot.pose.get(j, 0.0) if kind == POSITIONS else 0.0 for j in trajectory.columns)
    kinds = {s.kind for s in robot.sensors}
    sensed = [
        c
        for c, k in (("joint_pos", "encoder"), ("joint_vel", "encoder"), ("gyro", "imu"), ("gravity", "imu"))
        if k in kinds
    ]
    if "joint_pos" not in sensed:
        raise InputError(f"{robot.name} has no encoders: its joints cannot be watched while a motion is played")
    contract = Contract(
        robot=robot.name, joints=joints, control_dt=trajectory.dt, timestep=robot.timestep,
        groups=(Group(name="policy", terms=(Term(source="joint_pos", columns=joints),)),),
        action=Action(joints=trajectory.columns, kind=kind, scale=1.0, offset=offset), sensor_channels=tuple(sensed),
        pose=tuple(robot.pose.get(j, 0.0) for j in joints),
    )  # fmt: skip
    return complete(contract, robot, pd_rate=pd_rate)


class Player:
    """Takes the place of a policy: its k-th output asks for the k-th row of the motion, whatever it observes."""

    def __init__(self, trajectory: Trajectory, contract: Contract):
        act = contract.action
        order = [trajectory.columns.index(joint) for joint in act.joints]
        rows = trajectory.values[:, order]
        self._rows = ((rows - np.asarray(act.offset)) / np.asarray(act.scale)).astype(np.float32)
        self._step = 0

    def __call__(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """The next row as a raw action, (1, actions)."""
        row = self._rows[min(self._step, len(self._rows) - 1)]
        self._step += 1
        return row[None].copy()

    def reset(self) -> None:
        """From the beginning."""
        self._step = 0


@dataclass(frozen=True, kw_only=True)
class Recital(Bundle):
    """A bundle whose policy is a written motion."""

    trajectory: Trajectory

    def policy(self) -> Any:
        """The player, at its beginning."""
        return Player(self.trajectory, self.contract)


def recital(trajectory: Trajectory) -> Recital:
    """A motion of targets as something the runtime can run; refused where it leaves the limits before the robot moves."""
    contract = trajectory.contract or contract_for(trajectory)
    if contract.action.kind != trajectory.channel or set(contract.action.joints) != set(trajectory.columns):
        raise InputError(
            f"the trajectory moves {', '.join(trajectory.columns)} by {trajectory.channel}, its contract says "
            f"{', '.join(contract.action.joints)} by {contract.action.kind}: make the file anew"
        )
    if abs(contract.control_dt - trajectory.dt) > 1e-9:
        contract = replace(contract, control_dt=trajectory.dt)
    _check_limits(trajectory, contract)
    about = {
        "policy": {"file": "trajectory", "sha256": trajectory.hash},
        "contract": {"hash": contract.hash},
        "version": 1,
    }
    return Recital(folder=Path("trajectory"), contract=contract, provenance=about, trajectory=trajectory)


def _check_limits(trajectory: Trajectory, contract: Contract) -> None:
    """Refuse a motion that leaves the joints' or the targets' limits, jumps, or does not start where the robot stands."""
    rows = trajectory.values
    positions = trajectory.channel == POSITIONS
    low, high = np.full(rows.shape[1], -np.inf), np.full(rows.shape[1], np.inf)
    limits = contract.position_limits if positions else contract.action.limits
    if limits is not None:
        names = contract.joints if positions else contract.action.joints
        at = [names.index(c) for c in trajectory.columns]
        low, high = (np.asarray(side)[at] for side in limits)
    outside = (rows < low - 1e-9) | (rows > high + 1e-9)
    if outside.any():
        t, k = (int(i) for i in np.argwhere(outside)[0])
        raise InputError(
            f"the trajectory asks {trajectory.columns[k]} for {rows[t, k]:.4g} at {t * trajectory.dt:.3g} s, allowed is "
            f"{low[k]:.4g} to {high[k]:.4g}: make it anew with `surefoot excite`"
        )
    jump = np.abs(np.diff(rows, axis=0))
    most = np.full(rows.shape[1], CHANGE) if positions else 0.75 * np.where(np.isfinite(high - low), high - low, np.inf)
    if (jump > most).any():
        t, k = (int(i) for i in np.argwhere(jump > most)[0])
        raise InputError(
            f"the trajectory jumps by {jump[t, k]:.3g} for {trajectory.columns[k]} at {t * trajectory.dt:.3g} s: smooth it"
        )
    if positions:
        pose = np.asarray(contract.pose)[[contract.joints.index(c) for c in trajectory.columns]]
        off = np.abs(rows[0] - pose)
        if off.max() > START:
            k = int(off.argmax())
            raise InputError(
                f"the trajectory starts with {trajectory.columns[k]} at {rows[0, k]:.3g} rad, the robot stands at {pose[k]:.3g}: "
                "start it from the default pose"
            )


def play(
    trajectory: Trajectory | str | Path,
    hardware: Hardware,
    *,
    bundle: Bundle | None = None,
    record: str | Path | None = None,
    plan: Plan | None = None,
    **options: Any,
) -> Outcome:
    """Play a motion on a robot with the safety layer on: stand up, play, sit down, stop; recorded as a log that `identify` reads.

    Args:
        trajectory: the motion, or its file.
        hardware: the robot.
        bundle: the policy that walks, for a motion of commands.
        record: a new .mcap file.
        plan: how long the stages last.
        options: of `deploy`: safety, say, stop_file, priority, clock.
    """
    made = trajectory if isinstance(trajectory, Trajectory) else load_trajectory(trajectory)
    if made.channel == COMMAND:
        if bundle is None:
            raise InputError("this trajectory is what a policy is asked for: name the bundle that walks")
        known = {c.name: c for c in bundle.contract.commands}
        for name in made.columns:
            choose(name, known, "a command of this policy")
        return deploy(bundle, hardware, seconds=made.seconds, command=made.asked, record=record, plan=plan, **options)
    if bundle is not None:
        raise InputError("this trajectory moves the motors itself: leave out the bundle")
    # Rows are played as they are: nothing is blended, since the motion starts where the robot stands.
    chosen = replace(plan or Plan(), blend=0.0, halt=0.0)
    return deploy(recital(made), hardware, seconds=made.seconds, record=record, plan=chosen, **options)


def played(log: Log, *, lead: float = 0.0) -> Log:
    """The part of a recording in which the motion (or the policy) drove, where gains and targets are the contract's alone.

    Args:
        log: of a run, with its stages.
        lead: left out at the beginning [s].
    """
    if "action" not in log:
        raise InputError(f"this log has no channel 'action' (it has {', '.join(log.names)}): it is not of a run")
    t = log["action"].t
    step = float(np.median(np.diff(t))) if len(t) > 1 else 0.0
    # A row is sent at the very time of the reading it follows, up to rounding.
    return log.window(float(t[0]) + lead - 1e-5, float(t[-1]) + step)


def read_played(path: str | Path, *, lead: float = 0.0) -> Log:
    """The same of a file."""
    from surefoot.logs import read_log

    return played(read_log(path), lead=lead)


def write_trajectory(path: str | Path, data: Mapping[str, Any]) -> Path:
    """Write a design's plain data with the contract it will be played by, so that the robot's computer needs no model."""
    from surefoot.files import write_text

    path = Path(path)
    made = Trajectory(
        robot=str(data["robot"]), setting=str(data["setting"]), channel=str(data["channel"]), columns=tuple(data["columns"]),
        dt=float(data["dt"]), values=np.array(data["values"], dtype=np.float64),
    )  # fmt: skip
    contract = None if made.channel == COMMAND else contract_for(made)
    if contract is not None:
        _check_limits(made, contract)
    text = json.dumps({**data, "contract": None if contract is None else contract.to_dict()}, allow_nan=False)
    write_text(path, text + "\n")
    return path
