"""Logs cut into windows, each with a start state of its own: what makes long recordings fit in parallel.

    x0 of a window = what the log reads there (encoder bias and sensor delay of e taken out) + offset

The reading is a local parabola through the samples around the window's start, so that quantised encoders give usable
velocities. The offset of every window is estimated together with e (multiple shooting), under a normal prior whose width
is how far the parabola can be trusted. Where speeds are had from angles and compared, their low-pass is part of x0: what it
holds at the start came before the window, and a command that jumps there would otherwise seem to come through it too early.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.errors import InputError
from surefoot.logs import Channel, Log
from surefoot.sim import Sim
from surefoot.sim.gap import noise_floor
from surefoot.sim.replay import _channels, _columns

REACH = 0.012
"""[s] Half width of the parabola that reads the start state; at least three samples on each side."""
FEWEST = 8
"""Samples that a window needs."""
PREFERRED = ("joint_pos", "base_pos", "quat", "gyro")
"""Channels a fit uses unless told otherwise: positions and attitude, which no firmware has filtered or scaled."""
SHOWN_BY = {"velocity_filter": "joint_vel"}
"""Kinds of Params that the preferred channels do not show, and the channel that does."""
LONGEST = 1.0
"""[s] Length of a window unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A piece of a log: physics starts at `start` and is compared with the log until `stop`."""

    log: int
    """Number of the log."""
    start: float  # [s]
    stop: float  # [s]
    held_out: bool = False
    """Whether the fit must not see it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """All windows of a fit, with the channels and columns compared in each.

    Attributes:
        logs: what was recorded.
        windows: the pieces, in the order of the logs and of time.
        channels: compared channels, the same in every log.
        columns: by channel, the columns that all logs and the robot share.
        notes: what the logs did not allow, in words.
    """

    logs: tuple[Log, ...]
    windows: tuple[Window, ...]
    channels: tuple[str, ...]
    columns: dict[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def fitted(self) -> np.ndarray:
        """Numbers of the windows the fit may see."""
        return np.array([i for i, w in enumerate(self.windows) if not w.held_out], dtype=int)

    @property
    def held_out(self) -> np.ndarray:
        """Numbers of the windows kept for judging."""
        return np.array([i for i, w in enumerate(self.windows) if w.held_out], dtype=int)

    @property
    def seconds(self) -> float:
        """Recorded time that fitted windows see [s]; what overlapping ones share counts once."""
        total = 0.0
        for number in range(len(self.logs)):
            end = -np.inf
            for w in sorted((w for w in self.windows if w.log == number and not w.held_out), key=lambda w: w.start):
                total += max(w.stop - max(w.start, end), 0.0)
                end = max(end, w.stop)
        return float(total)

    @property
    def overlap(self) -> float:
        """How often the fitted windows see the same instant, 1 where they do not overlap."""
        return float(sum(w.stop - w.start for w in self.windows if not w.held_out)) / max(self.seconds, 1e-12)


def cut(
    sim: Sim,
    logs: Sequence[Log],
    *,
    channels: Sequence[str] | None = None,
    window: float | None = None,
    stride: float | None = None,
    held_out: Sequence[Log] | float = 0.25,
) -> Windows:
    """Cut logs into windows of `window` seconds that begin every `stride` seconds.

    Args:
        sim: gives robot and sensors.
        logs: what to fit to.
        channels: channels to compare; None takes positions and attitude where the logs have them.
        window: length [s]; None takes 1 s, less where a log is shorter than two of them.
        stride: from one start to the next [s]; None: the length, so that windows do not overlap.
        held_out: logs that only judge, or the share of every log (its end) that does.
    """
    judges = () if isinstance(held_out, int | float) else tuple(held_out)
    share = float(held_out) if isinstance(held_out, int | float) else 0.0
    if not 0.0 <= share < 1.0:
        raise InputError(f"held_out={share:g} is not a share below 1 of each log, nor a list of logs: use 0.25")
    every = (*logs, *judges)
    if not logs:
        raise InputError("there is no log to fit to: give at least one")
    _refuse_copies(every)
    names = chosen_channels(sim, every, channels)
    columns = {name: _shared(sim, every, name) for name in names}
    out: list[Window] = []
    broken, short, longest = 0, 0, 0.0
    for number, log in enumerate(every):
        first, last = span(sim, log, names)
        length = LONGEST if window is None else float(window)
        if window is None and last - first < 2 * length:
            length = (last - first) * (0.5 if share else 1.0)
        step = length if stride is None else float(stride)
        if not (0.0 < length < np.inf and 0.0 < step < np.inf):
            raise InputError(f"window={length:g} s and stride={step:g} s must both be numbers greater than zero")
        longest, short = max(longest, last - first), short + int(length > 1.01 * (last - first))
        length = min(length, last - first)
        starts = first + step * np.arange(int(np.floor((last - first - length) / step + 1e-6)) + 1)
        alone = round(share * len(starts)) if number < len(logs) else len(starts)
        alone = min(max(alone, int(share > 0 and len(starts) > 1)), len(starts) - (number < len(logs)))
        border = starts[len(starts) - alone] if alone else np.inf
        for start in starts:
            held = bool(start >= border - 1e-9)
            if not held and start + length > border + 1e-6:
                continue  # It would look into what is held out.
            if _usable(log, columns, start, start + length):
                out.append(Window(log=number, start=float(start), stop=float(start + length), held_out=held))
            else:
                broken += 1
    if not any(not w.held_out for w in out):
        raise InputError(
            f"no window of {LONGEST if window is None else window:g} s has {FEWEST} samples without gaps: "
            f"give longer logs or another window"
        )
    if short == len(every):
        raise InputError(
            f"window={window:g} s is longer than the logs, of which the longest has {longest:.4g} s: give at most that"
        )
    notes = []
    if short:
        notes.append(
            f"{short} of {len(every)} logs are shorter than a window of {window:g} s: each is one window as long as itself"
        )
    if broken:
        notes.append(
            f"{broken} of {broken + len(out)} windows were left out: their readings have gaps or are no numbers"
        )
    if (share > 0 or judges) and not any(w.held_out for w in out):
        notes.append("nothing was held out, so no window judges the fit: give longer logs or shorter windows")
    return Windows(logs=every, windows=tuple(out), channels=names, columns=columns, notes=tuple(notes))


def _refuse_copies(logs: Sequence[Log]) -> None:
    """The same recording twice would count as further evidence."""
    first: dict[str, int] = {}
    for number, log in enumerate(logs):
        if log.hash in first:
            raise InputError(
                f"logs {first[log.hash] + 1} and {number + 1} are the same recording, which says nothing new: leave one of them out"
            )
        first[log.hash] = number


def channels_for(sim: Sim, logs: Sequence[Log], names: Sequence[str]) -> tuple[str, ...]:
    """The channels to compare for a fit of some Params: the usual ones, and those that alone show one of them, where every log has them."""
    usual = chosen_channels(sim, logs, None)
    alone = {
        SHOWN_BY[sim.params[name].kind]: None
        for name in names
        if name in sim.params and sim.params[name].kind in SHOWN_BY
    }
    return (*usual, *(c for c in alone if c not in usual and all(c in log for log in logs)))


def chosen_channels(sim: Sim, logs: Sequence[Log], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The channels to compare: those asked for, else positions and attitude, else all that can be replayed."""
    if isinstance(wanted, str):
        wanted = (wanted,)
    can = [set(_channels(sim, log, None if wanted is None else tuple(wanted))) for log in logs]
    shared = set.intersection(*can)
    if wanted is not None:
        return tuple(wanted)
    if not shared:
        raise InputError("these logs have no channel in common that this robot can replay: fit them one by one")
    preferred = tuple(name for name in PREFERRED if name in shared)
    return preferred or tuple(sorted(shared))


def _shared(sim: Sim, logs: Sequence[Log], name: str) -> tuple[str, ...]:
    found = [_columns(sim, log, name) for log in logs]
    shared = tuple(c for c in found[0] if all(c in other for other in found))
    if not shared:
        raise InputError(f"the logs share no column of '{name}': fit them one by one")
    return shared


def span(sim: Sim, log: Log, channels: Sequence[str]) -> tuple[float, float]:
    """First and last time at which a log has commands and all compared channels [s]."""
    times = [log[sim.command_channel].t] + [log[name].t for name in channels]
    # The last command holds on for one period of its own.
    hold = float(np.median(np.diff(times[0]))) if len(times[0]) > 1 else 0.0
    first = max(float(t[0]) for t in times)
    last = min(float(times[0][-1]) + hold, *[float(t[-1]) for t in times[1:]])
    if last <= first:
        raise InputError("commands and measurements of a log do not overlap in time: align their clocks first")
    return first, last


def _usable(log: Log, columns: Mapping[str, tuple[str, ...]], start: float, stop: float) -> bool:
    """Whether every channel has enough samples in the window, compared columns all numbers, and no gap of a fifth of it."""
    for name, compared in columns.items():
        channel = log[name].pick(compared)
        inside = (channel.t >= start - 1e-9) & (channel.t <= stop + 1e-9)
        t = channel.t[inside]
        if len(t) < FEWEST or not np.isfinite(channel.values[inside]).all():
            return False
        usual = float(np.median(np.diff(channel.t)))
        gaps = np.diff(np.concatenate([[start], t, [stop]]))
        if gaps.max() > max(0.2 * (stop - start), 3 * usual):
            return False
    return True


# -------------------------------------------------------------------- start states


@dataclass(frozen=True, kw_only=True, eq=False)
class Starts:
    """What the log says of the state at the start of every window.

    Attributes:
        q: readings as qpos, (windows, nq); joints that are not measured stand at the default pose.
        v: velocities as qvel, (windows, nv).
        a: accelerations, (windows, nv): a reading delayed by τ shows the state of τ ago.
        s: late speeds of the joints `filtered` as parabolas of time after the start, (windows, m, 3).
        dofs: degrees of freedom whose start is estimated, (k,).
        filtered: numbers of the joints whose compared speeds are late, (m,); see sim/speeds.py.
        width: standard deviation of the offsets' prior, (windows, 2 k + m): k positions, k velocities, m late speeds.
    """

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    s: np.ndarray
    dofs: np.ndarray
    filtered: np.ndarray
    width: np.ndarray

    @property
    def nx(self) -> int:
        """Numbers in the offset of one window."""
        return 2 * len(self.dofs) + len(self.filtered)


def read_starts(sim: Sim, windows: Windows) -> Starts:
    """Start states of all windows from local parabolas through the readings."""
    n, model, sensors = len(windows), sim.model, sim.sensors
    q, v = np.tile(sim.start_qpos, (n, 1)), np.zeros((n, model.nv))
    a, width_q, width_v = np.zeros((n, model.nv)), np.zeros((n, model.nv)), np.zeros((n, model.nv))
    measured: set[int] = set()
    late = max((p.high for p in sim.params.values() if p.kind == "sensor_delay"), default=0.0)
    for number, log in enumerate(windows.logs):
        rows = [i for i, w in enumerate(windows.windows) if w.log == number]
        at = np.array([windows.windows[i].start for i in rows])
        if not rows or "joint_pos" not in log:
            continue
        channel = log["joint_pos"]
        for j, name in enumerate(sim.robot.joints):
            if name in channel.columns:
                dof = int(sensors.dq[j])
                c, error = parabolas(channel.t, channel.column(name), at)
                q[rows, int(sensors.q[j])], v[rows, dof], a[rows, dof] = c[:, 0], c[:, 1], 2 * c[:, 2]
                size = float(np.sqrt(np.mean(4 * c[:, 2] ** 2)))  # of the acceleration
                quantum = float(sim.physics.tables["encoder_quantum"][0, j])
                width_q[rows, dof] = 2 * error[:, 0] + 0.3 * quantum + 0.1 * size * late**2 + 1e-9
                width_v[rows, dof] = 2 * error[:, 1] + 0.3 * size * late + 0.02 * np.std(v[rows, dof]) + 1e-9
                measured.add(dof)
    if sensors.base_q is not None and sensors.base_v is not None:
        measured |= _read_base(sim, windows, q, v, (width_q, width_v))
    dofs = np.array(sorted(measured), dtype=int)
    for width in (width_q, width_v):
        least = width[:, dofs].max(0) if len(dofs) else np.zeros(0)
        width[:, dofs] = np.where(width[:, dofs] > 0, width[:, dofs], least)
    filtered, s, width_s = _read_late(sim, windows, late)
    width = np.concatenate([width_q[:, dofs], width_v[:, dofs], width_s], axis=1)
    return Starts(q=q, v=v, a=a, s=s, dofs=dofs, filtered=filtered, width=width)


def speeds_are_late(sim: Sim, channels: Collection[str]) -> bool:
    """Whether speeds that are had from angles may be among the channels."""
    able = sim.physics.has("velocity_filter") or bool(sim.physics.tables["velocity_filter"].any())
    return able and SHOWN_BY["velocity_filter"] in channels


def _read_late(sim: Sim, windows: Windows, delay: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joints (m,) whose late speeds are compared, parabolas (windows, m, 3) of those speeds, and widths (windows, m); `delay`: most [s]."""
    name = SHOWN_BY["velocity_filter"]
    columns = windows.columns[name] if speeds_are_late(sim, windows.channels) else ()
    joints = [sim.robot.joints.index(c) for c in columns]
    s, width = np.zeros((len(windows), len(joints), 3)), np.zeros((len(windows), len(joints)))
    for number, log in enumerate(windows.logs):
        rows = [i for i, w in enumerate(windows.windows) if w.log == number]
        at = np.array([windows.windows[i].start for i in rows])
        for j, column in enumerate(columns if rows else ()):
            made = np.isfinite(log[name].column(column))
            s[rows, j], error = parabolas(log[name].t[made], log[name].column(column)[made], at)
            width[rows, j] = 2 * (error[:, 0] + delay * error[:, 1]) + 1e-9
    return np.array(joints, dtype=int), s, width


def _read_base(
    sim: Sim, windows: Windows, q: np.ndarray, v: np.ndarray, widths: tuple[np.ndarray, np.ndarray]
) -> set[int]:
    """Fill in what the logs say of a free base; which of its degrees of freedom have a start to estimate."""
    base_q, base_v = sim.sensors.base_q, sim.sensors.base_v
    assert base_q is not None
    assert base_v is not None
    wide_q, wide_v = widths
    swings = sim.robot.strap is not None
    wide_q[:, base_v : base_v + 3] = (0.02, 0.02, 0.002) if swings else (0.0, 0.0, 0.03 if sim.robot.ground else 0.0)
    wide_q[:, base_v + 3 : base_v + 6], wide_v[:, base_v : base_v + 3], wide_v[:, base_v + 3 : base_v + 6] = (
        0.05,
        0.5,
        0.5,
    )
    for i, window in enumerate(windows.windows):
        log, at = windows.logs[window.log], np.array([window.start])
        if "base_pos" in log:
            fits = [parabolas(log["base_pos"].t, log["base_pos"].values[:, k], at) for k in range(3)]
            q[i, base_q : base_q + 3] = [c[0, 0] for c, _ in fits]
            v[i, base_v : base_v + 3] = [c[0, 1] for c, _ in fits]
            wide_q[i, base_v : base_v + 3] = [3 * e[0, 0] + 1e-6 for _, e in fits]
            wide_v[i, base_v : base_v + 3] = [3 * e[0, 1] + 0.05 for _, e in fits]
        if "base_vel_world" in log:
            v[i, base_v : base_v + 3] = _between(log["base_vel_world"], window.start)
        if "quat" in log:
            quat = _between(log["quat"], window.start)
            q[i, base_q + 3 : base_q + 7] = quat / np.linalg.norm(quat)
            wide_q[i, base_v + 3 : base_v + 6] = 0.01
        if "gyro" in log:
            v[i, base_v + 3 : base_v + 6] = _between(log["gyro"], window.start)
            wide_v[i, base_v + 3 : base_v + 6] = 0.1
    return {base_v + k for k in range(6) if wide_q[:, base_v + k].any()} | {base_v + k for k in range(6)}


def _between(channel: Channel, t: float) -> np.ndarray:
    return np.array([np.interp(t, channel.t, channel.values[:, k]) for k in range(channel.values.shape[1])])


def parabolas(t: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Local fit y ≈ c0 + c1 s + c2 s², s = t - at, for every time of `at` (n,); c (n, 3), errors of c0 and c1 (n, 2).

    The errors are those of white noise of the signal's own floor through the fit, plus how far a fit twice as wide differs.
    """
    dt = float(np.median(np.diff(t)))
    k = max(3, round(REACH / dt))
    noise = noise_floor(y)
    noise = max(float(noise) if np.isfinite(noise) else 0.0, 1e-12)
    c, error = np.zeros((len(at), 3)), np.zeros((len(at), 2))
    for i, m in enumerate(np.clip(np.searchsorted(t, at), 0, len(t) - 1)):
        c[i], gain = _parabola(t, y, float(at[i]), int(m), k)
        wide, _ = _parabola(t, y, float(at[i]), int(m), 2 * k)
        error[i] = noise * gain + np.abs(wide - c[i])[:2]
    return c, error


def _parabola(t: np.ndarray, y: np.ndarray, at: float, m: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (3,) of the parabola through the samples m - k .. m + k, and how white noise passes to the first two (2,)."""
    first = int(np.clip(m - k, 0, max(len(t) - 2 * k - 1, 0)))
    s = t[first : first + 2 * k + 1] - at
    scale = max(float(np.abs(s).max()), 1e-9)
    inverse = np.linalg.pinv(np.stack([np.ones_like(s), s / scale, (s / scale) ** 2], axis=1))
    c = (inverse @ y[first : first + 2 * k + 1]) / np.array([1.0, scale, scale**2])
    return c, np.linalg.norm(inverse[:2], axis=1) / np.array([1.0, scale])
