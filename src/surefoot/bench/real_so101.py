"""SO-101: an arm of six servos in many motions; whole motions are held out.

    metric: RMSE [mrad] of position, open loop over whole motions (34 to 205 s); start: the first readings
    over the six axes: root of the mean of their squares; the jaw in its recording's own unit, a thousandth of its travel

The fit sees the liveliest seconds of every fitted motion. Gain, back-EMF, inertia, dry friction, zero and encoder bias are fitted for every
joint, and one delay.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from surefoot.bench.real_data import Recordings, absent, data_folder, recordings
from surefoot.bench.real_sysid import ABSENT, e_of, fit_rival, scalars_of
from surefoot.bench.table import Mark, Request
from surefoot.identify import Fit, identify
from surefoot.logs import Channel, Log
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import E, Params
from surefoot.robots import Robot, load
from surefoot.sim import Sim

PIECE = 4.0
"""[s] What the fit sees of a motion."""
MOST = 24
"""Motions that the fit sees a piece of."""
TIMESTEP = 0.005  # [s]
MARK_PAN, MARK_ALL = 12.0, 20.0
NAME = "SO-101"
JAW, PAN = "gripper", "shoulder_pan"


def measure(request: Request) -> list[Mark]:
    """All rows of the SO-101."""
    data = recordings(request, "so101_sage", judge=lambda logs: logs[1::2])
    if data is None or not data.judge or not data.fit:
        why = f"no SO-101 motion below {data_folder(request).name}/" if data is None else data.origin
        return [absent(NAME, why, "mrad")]
    robot = arm()
    fit_logs, judge = ([six(log, robot) for log in logs] for logs in (data.fit, data.judge))
    if request.quick:
        judge = judge[:: max(1, len(judge) // 5)]
    sim = Sim(robot, arm_params(), threads=2)
    found = fit_arm(sim, fit_logs, request)
    rows = judged(NAME, sim, judge, found.e, words(data, judge), (MARK_PAN, MARK_ALL))
    rows += command_rows(judge, sim)
    return rows if request.quick else rows + rival_rows(sim, fit_logs, judge)


def words(data: Recordings, judge: Sequence[Log]) -> str:
    """Where the judges come from."""
    return f"{len(judge)} motions" + (
        " of --test" if data.origin.endswith("of --test") else " of the same folder, every second one, not fitted"
    )


def arm() -> Robot:
    """The arm without ground under it and with a torque limit that the recordings do not reach."""
    robot = load("so101")
    motors = tuple(dataclasses.replace(a, torque_limit=20.0) for a in robot.actuators)
    return dataclasses.replace(robot, actuators=motors, timestep=TIMESTEP, ground=False)


def arm_params() -> Params:
    """Six scalars a joint, and one delay."""
    return Params(
        kp=P["kp"](".*", low=1.5, high=60.0, nominal=10.0, scale="log", each=True),
        kd=P["kd"](".*", low=0.01, high=4.0, nominal=0.556, scale="log", each=True),
        armature=P["armature"](".*", low=0.002, high=0.2, nominal=0.028, scale="log", each=True),
        coulomb=P["coulomb"](".*", low=0.003, high=0.8, nominal=0.05, scale="log", each=True),
        zero_offset=P["zero_offset"](".*", low=-0.4, high=0.4, nominal=0.0, each=True),
        encoder_bias=P["encoder_bias"](".*", low=-0.1, high=0.1, nominal=0.0, each=True),
        command_delay=P["command_delay"](low=0.0, high=0.08, nominal=0.02),
    )


def travel(robot: Robot) -> tuple[float, float]:
    """Lower end and width of the jaw's range [rad]."""
    low, high = robot.spec().joint(JAW).range
    return float(low), float(high - low)


def six(log: Log, robot: Robot) -> Log:
    """The log with the jaw among the joints: its recording counts from 0 closed to 1 open."""
    low, width = travel(robot)
    channels = []
    for name, jaw, role in (("joint_pos_target", "gripper_target", "u"), ("joint_pos", "gripper_pos", "y")):
        joints, own = log[name], log[jaw]
        values = np.concatenate([joints.values, low + width * own.values], axis=1)
        channels.append(
            Channel(
                name=name,
                unit="rad",
                t=joints.t,
                values=values,
                columns=(*joints.columns, JAW),
                role=role,
                clock=joints.clock,
            )
        )
    return Log(channels=tuple(channels), robot=log.robot, meta=log.meta)


def liveliest(log: Log, seconds: float) -> Log:
    """The piece of a log in which the commands travel farthest."""
    u = log["joint_pos_target"]
    dt = float(np.median(np.diff(u.t)))
    k = max(2, round(seconds / dt))
    if len(u.t) <= k + 2:
        return log
    far = np.convolve(np.abs(np.diff(u.values, axis=0)).sum(1), np.ones(k), "valid")
    start = min(float(u.t[int(np.argmax(far))]), float(u.t[-1]) - seconds - 3 * dt)
    return log.window(start, start + seconds + dt)


def fit_arm(sim: Sim, logs: Sequence[Log], request: Request) -> Fit:
    """Simulation fit on one piece of every motion, the start as the log reads it."""
    every = [
        logs[i] for i in np.unique(np.linspace(0, len(logs) - 1, 8 if request.quick else MOST).round().astype(int))
    ]
    pieces = [liveliest(log, PIECE) for log in every]
    return identify(sim, pieces, window=PIECE, held_out=0.0, start="log", robust=3.0, say=request.tell)


def errors(gap: np.ndarray, columns: Sequence[str], width: float) -> np.ndarray:
    """Mean squares by joint (6,) [mrad²]; the jaw in thousandths of its travel."""
    scale = np.array([1e3 / width if c == JAW else 1e3 for c in columns])
    return ((gap * scale) ** 2).mean(0)


def judged(
    name: str,
    sim: Sim,
    logs: Sequence[Log],
    e: Mapping[str, np.ndarray],
    origin: str,
    marks: tuple[float | None, float | None],
) -> list[Mark]:
    """Rotation axis and all six, over whole motions."""
    width, columns, found = travel(sim.robot)[1], logs[0]["joint_pos"].columns, []
    for log in logs:
        replay = sim.replay(log, e, channels=("joint_pos",))
        found.append(errors(replay.gap("joint_pos")[0], replay.columns["joint_pos"], width))
        columns = replay.columns["joint_pos"]
    return rows_of(name, np.array(found), columns, logs, origin, marks)


def rows_of(
    name: str,
    squares: np.ndarray,
    columns: Sequence[str],
    logs: Sequence[Log],
    origin: str,
    marks: tuple[float | None, float | None],
) -> list[Mark]:
    """Two rows from mean squares (motions, 6)."""
    each = np.sqrt(squares.mean(0))
    pan = np.sqrt(squares[:, list(columns).index(PAN)])
    seconds = [float(np.ptp(log["joint_pos"].t)) for log in logs]
    how = (
        f"whole motions of {min(seconds):.0f} to {max(seconds):.0f} s open loop, start at the first readings; {origin}"
    )
    worst = logs[int(np.argmax(pan))].meta.get("motion", "")
    reference = (
        "; reference: command itself 63 to 72 mrad, quick servo model 18 to 20, on the fastest motions"
        if marks[0] is not None
        else ""
    )
    axes = ", ".join(f"{c} {v:.1f}" for c, v in zip(columns, each, strict=True))
    return [
        Mark(
            name=f"{name}, position RMSE of the rotation axis", value=float(np.sqrt((pan**2).mean())), unit="mrad",
            op="<=" if marks[0] is not None else None, mark=marks[0],
            reference=f"{how}; median motion {np.median(pan):.1f}, worst {pan.max():.1f} ({worst}){reference}",
        ),
        Mark(
            name=f"{name}, position RMSE over all six axes", value=float(np.sqrt(squares.mean())), unit="mrad",
            op="<=" if marks[1] is not None else None, mark=marks[1], reference=f"{how}; {axes}",
        ),
    ]  # fmt: skip


def command_rows(logs: Sequence[Log], sim: Sim) -> list[Mark]:
    """What it would be to take the command for the position."""
    width, found = travel(sim.robot)[1], []
    for log in logs:
        u, y = log["joint_pos_target"], log["joint_pos"]
        sent = np.stack([np.interp(y.t, u.t, u.column(c)) for c in y.columns], axis=1)
        found.append(errors(y.values - sent, y.columns, width))
    return rows_of(
        f"{NAME}, the command itself", np.array(found), logs[0]["joint_pos"].columns, logs, "no model", (None, None)
    )


def rival_rows(sim: Sim, fit: Sequence[Log], judge: Sequence[Log]) -> list[Mark]:
    """mujoco.sysid on a few of the same pieces, then judged as ours is."""
    pieces = [resampled(liveliest(log, PIECE), TIMESTEP) for log in fit[:: max(1, len(fit) // 4)][:4]]
    rival = fit_rival(sim.robot, pieces, scalars_of(sim), sim.command_channel)
    if rival is None:
        return [absent(f"{NAME}, mujoco.sysid", ABSENT, "mrad")]
    said = f"this run, {rival.seconds:.0f} s for {len(rival.values)} scalars on {len(pieces)} pieces; no gain, delay, zero or bias"
    e: E = e_of(sim, rival)
    return judged(f"{NAME}, mujoco.sysid", sim, judge, e, said, (None, None))


def resampled(log: Log, dt: float) -> Log:
    """All channels on one grid of the physics' own time step: commands held, readings between samples linearly."""
    first, last = (max(c.t[0] for c in log.channels), min(c.t[-1] for c in log.channels))
    t = np.arange(first, last, dt)
    out = []
    for c in log.channels:
        if c.role == "u":
            values = c.values[np.clip(np.searchsorted(c.t, t + 1e-9, side="right") - 1, 0, None)]
        else:
            values = np.stack([np.interp(t, c.t, c.values[:, j]) for j in range(c.values.shape[1])], axis=1)
        out.append(dataclasses.replace(c, t=t, values=values))
    return Log(channels=tuple(out), robot=log.robot, meta=log.meta)
