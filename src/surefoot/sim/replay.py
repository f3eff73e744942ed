"""A log's commands driven through f, open loop, under one e or thousands of them at once: what the robot should have done.

    y_replay(t) = h(x(t - delay), e),   x' = f(x, u_log, e),   x(t0) from the log or given

Physics steps on its own grid from t0; the log's commands are averaged over every substep at their delayed time, and the sensors are read
at the log's own times between substeps. Noise-free unless asked otherwise: e decides, luck does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.errors import InputError, choose, did_you_mean
from surefoot.logs import Channel, Log
from surefoot.robots import scan_points
from surefoot.sim.commands import held_mean
from surefoot.sim.engine import RECORDS
from surefoot.sim.sensors import CHANNELS, View
from surefoot.sim.speeds import late_records, low_passed

if TYPE_CHECKING:
    from surefoot.sim.sim import Sim

CHUNK = 64
"""Substeps in one engine call."""
MEMORY = 256e6
"""[bytes] Most that the records of one group of worlds may take."""
TRUE_CHANNELS = CHANNELS["position"]
PARTS = {
    channel: kind
    for kind, channels in CHANNELS.items()
    for channel in channels
    if kind not in ("position", "height_scan")
}
"""By channel of a log, the kind of sensor that replay reads it with."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Replayed channels of a log for every e: values[name] is (worlds, T, k) at the log's own times t[name] (T,)."""

    log: Log
    """The part of the log that was replayed."""
    e: dict[str, np.ndarray]
    t: dict[str, np.ndarray]
    values: dict[str, np.ndarray]
    columns: dict[str, tuple[str, ...]]
    diverged: np.ndarray
    """Worlds that left the numbers; their values are NaN from there on, (worlds,)."""

    def world(self, index: int) -> Log:
        """The replay in one world as a Log, with the recorded commands."""
        channels = [
            Channel(
                name=name, unit=self.log[name].unit, t=self.t[name], values=self.values[name][index], columns=self.columns[name],
                role="y", clock=self.log[name].clock, nan=bool(self.diverged[index]),
            )
            for name in self.values
        ]  # fmt: skip
        meta = {"replay": {k: np.asarray(v[index]).tolist() for k, v in self.e.items()}, "of": self.log.hash}
        return Log(channels=(*self.log.u, *channels), robot=self.log.robot, meta=meta)

    def gap(self, name: str) -> np.ndarray:
        """Log minus replay of one channel, (worlds, T, k)."""
        return self.log[name].pick(self.columns[name]).values[None] - self.values[name]


def replay(
    sim: "Sim",
    log: Log,
    e: Mapping[str, Any] | None = None,
    *,
    start: float | None = None,
    stop: float | None = None,
    qpos: np.ndarray | None = None,
    qvel: np.ndarray | None = None,
    channels: tuple[str, ...] | None = None,
    hold: tuple[str, ...] = (),
    noise: bool = False,
) -> Replay:
    """Replay `log` under every row of e (None: the model as it stands), without compiling anything.

    Args:
        sim: gives robot and Params; its own worlds are not touched.
        log: commands and measurements; columns are matched by name.
        e: any subset of the Params, (candidates, ...); what is absent keeps its nominal value.
        start: time t0 at which physics starts [s]; the first command when None.
        stop: last time [s]; the end of the commands when None.
        qpos: initial positions in the model's order, (candidates, nq) or (nq,); None takes them from the log.
        qvel: initial velocities, (candidates, nv) or (nv,); None takes them from the log.
        channels: measurements to predict; every one that the sim's sensors have when None.
        hold: actuators the log has no command for, to be kept at their default pose.
        noise: whether readings carry sensor noise; physics stays noise-free.
    """
    e = dict(e or {})
    rows = sim.params.check(e) if e else {}
    sizes = {len(v) for v in rows.values()}
    count = max(sizes, default=1)
    if sizes - {1, count}:
        raise InputError(f"e holds {sorted(sizes)} candidates: give every param the same number")
    rows = {name: np.broadcast_to(v, (count, *v.shape[1:])) for name, v in rows.items()}
    t, u = _commands(sim, log, hold)
    t0 = float(t[0]) if start is None else float(start)
    end = max(float(t[-1]), *[float(c.t[-1]) for c in log.y]) if stop is None else float(stop)
    if not t0 < end:
        raise InputError(
            f"nothing to replay between {t0:g} and {end:g} s: this log's commands run from {t[0]:g} to {t[-1]:g} s"
        )
    names = _channels(sim, log, channels)
    times = {name: log[name].t[(log[name].t >= t0 - 1e-9) & (log[name].t <= end + 1e-9)] for name in names}
    substeps = int(np.ceil((end - t0) / sim.timestep - 1e-9))
    width = sum([sim.model.nq, sim.model.nv, sim.model.nsensordata, sim.model.nu])
    group = int(np.clip(MEMORY / (8.0 * width * (substeps + 1)), 1, 1024))
    parts, bad = [], []
    for first in range(0, count, group):
        take = slice(first, min(first + group, count))
        n = take.stop - take.start
        worker = sim.replayer(_pad(n, group))
        some = {name: _padded(v[take], worker.worlds) for name, v in rows.items()}
        given = [
            None if a is None else _padded(np.broadcast_to(a, (count, np.shape(a)[-1]))[take], worker.worlds)
            for a in (qpos, qvel)
        ]
        values, diverged = _replay_group(worker, log, some, (t, u), (t0, substeps), times, given, noise)
        parts.append({name: v[:n] for name, v in values.items()})
        bad.append(diverged[:n])
    values = {name: np.concatenate([p[name] for p in parts]) for name in names}
    columns = {name: _columns(sim, log, name) for name in names}
    return Replay(
        log=log.window(t0 - 1e-9, end + 1e-9),
        e=rows,
        t=times,
        values=values,
        columns=columns,
        diverged=np.concatenate(bad),
    )


def _pad(n: int, group: int) -> int:
    """A few sizes of worker serve all counts: the next power of two, at most a group."""
    return min(1 << (n - 1).bit_length(), group)


def _padded(rows: np.ndarray, worlds: int) -> np.ndarray:
    return np.concatenate([rows, np.repeat(rows[-1:], worlds - len(rows), axis=0)]) if len(rows) < worlds else rows


def _commands(sim: "Sim", log: Log, hold: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Times (T,) and commands (T, nu) of a log in the sim's order, matched by name; `hold` stay at the default pose."""
    wanted = sim.command_channel
    if wanted not in log:
        raise InputError(
            f"robot '{sim.robot.name}' is commanded by '{wanted}', which this log lacks "
            f"{did_you_mean(wanted, log.names)}: map the log's command to it"
        )
    for name in hold:
        choose(name, sim.command_names, f"an actuator of '{sim.robot.name}'")
    channel = log[wanted]
    missing = [name for name in sim.command_names if name not in channel.columns and name not in hold]
    if missing:
        raise InputError(
            f"the log's '{wanted}' has no column for {', '.join(missing)} {did_you_mean(missing[0], channel.columns)}: "
            f"map it, or keep it at its default pose (--hold {','.join(missing)}, in Python hold={tuple(missing)!r})"
        )
    u = np.tile(sim.rest_command, (len(channel), 1))
    for i, name in enumerate(sim.command_names):
        if name in channel.columns and name not in hold:
            u[:, i] = channel.column(name)
    return channel.t, u


def _available(sim: "Sim") -> list[str]:
    kinds = {s.kind for s in sim.robot.sensors}
    names = [name for name, kind in PARTS.items() if kind in kinds]
    return names + (list(TRUE_CHANNELS) if sim.sensors.base_q is not None else [])


def _channels(sim: "Sim", log: Log, wanted: tuple[str, ...] | None) -> list[str]:
    can = _available(sim)
    for name in wanted or ():
        if name not in can:
            raise InputError(f"'{name}' cannot be replayed with this robot's sensors {did_you_mean(name, can)}")
        log[name]
    names = [c.name for c in log.y if c.name in can and (wanted is None or c.name in wanted)]
    if not names:
        raise InputError(f"this log has no measurement that '{sim.robot.name}' can replay (it can: {', '.join(can)})")
    for name in names:
        _columns(sim, log, name)
    return names


def _columns(sim: "Sim", log: Log, name: str) -> tuple[str, ...]:
    """Columns of a channel that sim and log share; joint channels by joint, the others must be complete."""
    own = channel_columns(sim)[name]
    shared = tuple(c for c in log[name].columns if c in own)
    if not shared or (name not in ("joint_pos", "joint_vel", "joint_torque", "foot_force") and len(shared) < len(own)):
        raise InputError(
            f"the log's '{name}' has columns {', '.join(log[name].columns)}; this robot's are {', '.join(own)}"
        )
    return shared


def channel_columns(sim: "Sim") -> dict[str, tuple[str, ...]]:
    """Column names of every channel that sensors and truth have."""
    xyz = ("x", "y", "z")
    feet = tuple(g for s in sim.robot.sensors if s.kind == "foot_force" for g in s.of)
    return {
        "joint_pos": sim.robot.joints, "joint_vel": sim.robot.joints, "joint_torque": sim.command_names, "gyro": xyz, "accel": xyz,
        "quat": ("w", "x", "y", "z"), "gravity": xyz, "foot_force": feet, "wrench": ("fx", "fy", "fz", "tx", "ty", "tz"),
        "base_pos": xyz, "base_vel_world": xyz,
        "height_scan": tuple(name for s in sim.robot.sensors if s.kind == "height_scan" for name in scan_points(s)),
    }  # fmt: skip


def _start_state(sim: "Sim", log: Log, t0: float) -> tuple[np.ndarray, np.ndarray]:
    """Initial qpos (worlds, nq) and qvel (worlds, nv) from the log's readings, encoder bias, delay and a filter's lag taken out."""
    q = np.tile(sim.start_qpos, (sim.worlds, 1))
    v = np.zeros((sim.worlds, sim.model.nv))
    tables, delay = sim.physics.tables, np.zeros((sim.worlds, len(sim.robot.joints)))
    late = tables["velocity_filter"]
    for number in sim.sensors.of_kind("encoder"):
        delay[:, sim.sensors.columns[number]] = tables["sensor_delay"][:, number, None]
    if "joint_pos" in log:
        channel = log["joint_pos"]
        for j, name in enumerate(sim.robot.joints):
            if name in channel.columns:
                y = channel.column(name)
                at = t0 + delay[:, j]
                q[:, sim.sensors.q[j]] = np.interp(at, channel.t, y) - tables["encoder_bias"][:, j]
                if "joint_vel" in log and name in log["joint_vel"].columns:
                    speed = log["joint_vel"].column(name)
                    v[:, sim.sensors.dq[j]] = np.interp(at, log["joint_vel"].t, speed)
                    if late.any() and len(speed) > 2:  # The low-pass undone; the first reading has no past to tell.
                        slope = np.gradient(speed, log["joint_vel"].t)
                        slope[0] = 0.0
                        v[:, sim.sensors.dq[j]] += late * np.interp(at, log["joint_vel"].t, slope)
                elif len(y) > 2:
                    v[:, sim.sensors.dq[j]] = np.interp(at, channel.t, np.gradient(y, channel.t))
    if sim.sensors.base_q is not None and sim.sensors.base_v is not None:
        places = {"base_pos": (q, sim.sensors.base_q, 3), "quat": (q, sim.sensors.base_q + 3, 4),
                  "base_vel_world": (v, sim.sensors.base_v, 3), "gyro": (v, sim.sensors.base_v + 3, 3)}  # fmt: skip
        for name, (array, adr, k) in places.items():
            if name in log:
                channel = log[name]
                array[:, adr : adr + k] = [np.interp(t0, channel.t, channel.values[:, i]) for i in range(k)]
        quat = q[:, sim.sensors.base_q + 3 : sim.sensors.base_q + 7]
        quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    return q, v


def _replay_group(
    sim: "Sim",
    log: Log,
    e: dict[str, np.ndarray],
    commands: tuple[np.ndarray, np.ndarray],
    span: tuple[float, int],
    times: dict[str, np.ndarray],
    given: list[np.ndarray | None],
    noise: bool,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Replay in every world of a worker Sim; values (worlds, T, k) by channel, and who diverged."""
    (t, u), (t0, substeps) = commands, span
    nominal = sim.params.nominal_e(sim.worlds)
    sim.apply({**nominal, **e})
    q, v = _start_state(sim, log, t0)
    sim.reset(qpos=q if given[0] is None else given[0], qvel=v if given[1] is None else given[1])
    delay = sim.physics.tables["command_delay"][:, None]
    before = held_mean(t, u, t0 - delay - sim.timestep, sim.timestep)[:, 0]
    sim.commands.slewed[:], sim.commands.spin[:] = before, before
    records = {name: np.empty((sim.worlds, substeps + 1, *np.shape(a)[1:])) for name, a in vars(sim._now()).items()}
    for name, a in vars(sim._now()).items():
        records[name][:, 0] = a
    stride = sim.substeps if sim.residual is not None or sim.disturbances.pushes else CHUNK
    for first in range(0, substeps, stride):
        n = min(stride, substeps - first)
        starts = t0 + (first + np.arange(n)) * sim.timestep - delay
        control = held_mean(t, u, starts, sim.timestep)
        sim.disturbances.act(first // stride, False)
        if sim.residual is not None:
            held = sim._corrected(control.mean(1))
            control = control + (held - control.mean(1))[:, None]
        out = sim.advance(sim.shape_control(control), RECORDS)
        for name in RECORDS:
            records[name][:, first + 1 : first + 1 + n] = out[name]
        sim.alive[:] = True
    diverged = np.zeros(sim.worlds, dtype=bool)
    diverged[sim.engine.failed()] = True
    values = {}
    for name, at in times.items():
        late = name == "joint_vel" and sim.sensors.active["velocity_filter"]
        part = read_records(sim, name, records, (t0, at), noise, late=False)
        part = _filtered(sim, log, part, at, noise) if late else part
        values[name] = part[..., [channel_columns(sim)[name].index(c) for c in _columns(sim, log, name)]]
        values[name][diverged] = np.nan
    return values, diverged


def _filtered(sim: "Sim", log: Log, speed: np.ndarray, at: np.ndarray, noise: bool) -> np.ndarray:
    """Speeds (worlds, T, joints) through the low-pass of speeds had from angles, at the log's times `at` (T,), from its first one on."""
    out, channel, joints = speed.copy(), log["joint_vel"], sim.robot.joints
    if not len(at):
        return out
    late = sim.physics.tables["velocity_filter"][:, None]
    for j in (j for j, name in enumerate(joints) if name in channel.columns):
        first = channel.column(joints[j])[np.searchsorted(channel.t, at[0] - 1e-9)]
        out[:, 0, j] = np.where(late[:, 0] > 0, first, speed[:, 0, j])
    spacing = np.diff(at)
    spacing = np.where(np.abs(spacing - sim.control_dt) < 1e-9, sim.control_dt, spacing)
    for k, dt in enumerate(spacing.tolist(), start=1):
        out[:, k] = low_passed(out[:, k - 1], speed[:, k - 1], speed[:, k], late, dt)
    if noise:
        for k in range(len(at)):
            sim.sensors.blur(out[:, k], speed[:, k], k)
    return out


def read_records(
    sim: "Sim",
    name: str,
    records: dict[str, np.ndarray],
    when: tuple[float, np.ndarray],
    noise: bool,
    *,
    late: bool = True,
) -> np.ndarray:
    """One channel at times `when` = (t0, (T,)) from substep records (worlds, N + 1, ...); (worlds, T, k).

    Speeds had from angles are `late` as if the motion before the records had been even, or not yet.
    """
    kind, after = PARTS.get(name), when[1] - when[0]
    if kind is None:
        base = sampled(sim, records, after, ("qpos" if name == "base_pos" else "qvel",))[0]
        start = sim.sensors.base_q if name == "base_pos" else sim.sensors.base_v
        assert start is not None
        return np.swapaxes(base[..., start : start + 3], 0, 1)
    tables, out = sim.physics.tables, None
    if late:
        records = shown_late(sim, name, records)
    for number in sim.sensors.of_kind(kind):
        age = tables["sensor_delay"][:, number, None]
        period = tables["sensor_period"][:, number, None]
        if period.any():
            safe = np.where(period > 0, period, 1.0)
            age = age + np.where(period > 0, np.maximum((after + 1e-9) % safe - 1e-9, 0.0), 0.0)
        seen = sampled(sim, records, after - age, RECORDS)
        read = _read(sim, name, View(**dict(zip(RECORDS, seen, strict=True))), after, noise)
        if out is None:
            out = read
        else:
            out[..., sim.sensors.columns[number]] = read[..., sim.sensors.columns[number]]
    assert out is not None
    return np.swapaxes(out, 0, 1)


def shown_late(
    sim: "Sim", name: str, records: dict[str, np.ndarray], first: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Records for a channel: those of qvel through the encoders' low-pass where speeds are had from angles.

    `first`: what the low-pass has at the first record, (worlds, joints), see `late_records`.
    """
    if name != "joint_vel" or not sim.sensors.active["velocity_filter"]:
        return records
    late = sim.physics.tables["velocity_filter"][:, None]
    return records | {"qvel": late_records(records["qvel"], sim.sensors.dq, late, sim.timestep, first)}


def sampled(sim: "Sim", records: dict[str, np.ndarray], after: np.ndarray, keys: tuple[str, ...]) -> list[np.ndarray]:
    """Records (worlds, N + 1, ...) at times `after` (T,) or (worlds, T) from their start; each (T, worlds, columns)."""
    last = records[keys[0]].shape[1] - 1
    position = np.broadcast_to(np.clip(after / sim.timestep, 0, last), (sim.worlds, after.shape[-1]))
    i = np.minimum(np.floor(position + 1e-9).astype(int), last - 1)
    share = np.clip(position - i, 0.0, 1.0)[..., None]
    share = np.where(np.abs(share - np.round(share)) < 1e-9, np.round(share), share)
    rows = np.arange(sim.worlds)[:, None]
    pairs = [(records[key][rows, i], records[key][rows, i + 1]) for key in keys]
    return [np.swapaxes((1 - share) * a + share * b, 0, 1) for a, b in pairs]


def _read(sim: "Sim", name: str, view: View, at: np.ndarray, noise: bool) -> np.ndarray:
    """One channel (T, worlds, k) from what its sensor sampled at times `at` (T,)."""
    read_part = sim.sensors.PARTS[PARTS[name]]
    if noise and len(at):
        rows = [View(**{k: a[n] for k, a in vars(view).items()}) for n in range(len(at))]
        each = [read_part(sim.sensors, row, n, True) for n, row in enumerate(rows)]
        found = {key: np.stack([readings[key] for readings in each]) for key in each[0]}
    else:
        found = read_part(sim.sensors, view, 0, False)
    if name == "joint_vel" and sim.sensors.active["velocity_differencing"] and len(at) > 1:
        slope = np.diff(found["joint_pos"], axis=0) / np.diff(at)[:, None, None]
        return np.where(sim.sensors.differenced(), np.concatenate([slope[:1], slope]), found[name])
    return found[name]
