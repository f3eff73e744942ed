"""Motion for inverse dynamics: position, velocity and acceleration of every joint from recorded positions, without phase.

    q̂ = Butterworth(q) forward and backward        q̇, q̈ = central differences of q̂
    q(t) = q̂(t + age of its readings)              u(t) = mean of the held command over one sample about t - delay
    equation error -> low-pass without phase -> every n-th sample

Accelerations are where noise lives: the cut-off frequency bounds it. The equation error is filtered once more and thinned, all of
its terms alike, so that what is left holds about one independent number a sample ("parallel filter" of Gautier and Janot).
"""

from dataclasses import dataclass, field

import numpy as np
from scipy import signal
from scipy.interpolate import CubicSpline

from surefoot.errors import InputError
from surefoot.logs import Log
from surefoot.params import E
from surefoot.sim import Sim
from surefoot.sim.commands import held_mean

ORDER = 4
"""Of the Butterworth filter."""
SHARE = 0.1
"""Cut-off frequency unless told otherwise, as a share of the sampling rate."""
FEWEST = 64
"""Samples that a log needs."""
JITTER = 0.1
"""Of a period: times that differ by less are the same instant."""
STILL = 0.01
"""A joint slower than this share of its root mean square speed counts as resting: dry friction then has no direction."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion:
    """One log on an even grid; arrays are (T, joints) unless said otherwise.

    Attributes:
        t: times [s], (T,).
        q, v, a: position, velocity and acceleration of the robot's joints in its order, as read.
        sent: times of the commands [s], (n,).
        command: u, (n, nu), each held until the next; a single zero where the measured torque stands in its place.
        torque: measured torque of the joints [N·m], as read; NaN where there is none.
        dt: time step [s].
        cutoff: of the filter [Hz].
        every: samples of the grid to one that is kept.
        stated: values of Params that this log states for itself, such as its gains; one row.
    """

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    sent: np.ndarray
    command: np.ndarray
    torque: np.ndarray
    dt: float
    cutoff: float
    every: int
    stated: E = field(default_factory=dict)

    @property
    def edge(self) -> int:
        """Samples at both ends where the filters have not settled."""
        return int(np.ceil(2.0 / self.cutoff / self.dt))

    @property
    def kept(self) -> np.ndarray:
        """Times of the samples that `thin` keeps, (n,)."""
        return self.t[self.edge : len(self.t) - self.edge : self.every]

    def thin(self, x: np.ndarray) -> np.ndarray:
        """x (..., T) low-passed without phase and thinned, (..., n)."""
        inside = x[..., self.edge : x.shape[-1] - self.edge]
        if self.every == 1:
            return inside
        return signal.decimate(inside, self.every, ftype="fir", axis=-1, zero_phase=True)

    @property
    def moving(self) -> np.ndarray:
        """Which kept samples of which joint move, (joints, n) bool."""
        speed = np.abs(self.v).T
        typical = np.sqrt(np.mean(self.v**2, axis=0))[:, None]
        return self.thin(speed) > STILL * typical

    def read(self, x: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Readings x (T, joints) of each joint `later` [s] (joints,) than t, between samples by a cubic spline."""
        if not later.any():
            return x
        at = np.clip(self.t[:, None] + later, self.t[0], self.t[-1])
        return np.stack([CubicSpline(self.t, x[:, k])(at[:, k]) for k in range(x.shape[1])], axis=1)

    def held(self, at: np.ndarray, sent: np.ndarray, command: np.ndarray) -> np.ndarray:
        """Mean of a held command over one sample about times `at` (T,), (T, nu): differences of positions see no finer."""
        return held_mean(sent, command, at - 0.5 * self.dt, self.dt)


def motion(
    sim: Sim,
    log: Log,
    *,
    cutoff: float | None = None,
    every: int | None = None,
    measured: bool = False,
    stated: E | None = None,
) -> Motion:
    """Read a log's motion.

    Args:
        sim: gives joints and command.
        log: needs `joint_pos` of every joint, and the command or `joint_torque`.
        cutoff: of the filter [Hz]; a tenth of the sampling rate when None.
        every: keep one sample of so many; as many as leave a rate of `cutoff` when None.
        measured: whether the measured torque stands in the place of the command.
        stated: values of Params that this log states for itself, one row.
    """
    joints = sim.robot.joints
    if "joint_pos" not in log:
        raise InputError(f"inverse dynamics needs 'joint_pos', this log has {', '.join(log.names)}")
    channel = log["joint_pos"]
    missing = [name for name in joints if name not in channel.columns]
    if missing:
        raise InputError(f"inverse dynamics needs the position of every joint, this log lacks {', '.join(missing)}")
    if not np.isfinite(channel.values).all():
        raise InputError("'joint_pos' has values that are not numbers: cut the log where all are there")
    sent, command = (np.zeros(1), np.zeros((1, sim.model.nu))) if measured else _command(sim, log)
    other = log["joint_torque"].t if measured else sent
    first, last = max(channel.t[0], other[0]), min(channel.t[-1], other[-1])
    dt = float(channel.t[-1] - channel.t[0]) / max(len(channel.t) - 1, 1)
    even = bool(np.abs(channel.t - channel.t[0] - dt * np.arange(len(channel.t))).max() < JITTER * dt)
    dt = dt if even else float(np.median(np.diff(channel.t)))
    count = int(np.floor((last - first) / dt + JITTER)) + 1
    if count < FEWEST:
        raise InputError(
            f"the log has {max(count, 0)} samples of motion and torque together, inverse dynamics needs {FEWEST}"
        )
    t = first + dt * np.arange(count)
    cutoff = SHARE / dt if cutoff is None else float(cutoff)
    if not 0.0 < cutoff < 0.5 / dt:
        raise InputError(f"cutoff={cutoff:g} Hz must lie between 0 and half the sampling rate, {0.5 / dt:g} Hz")
    every = max(1, round(1.0 / (dt * cutoff))) if every is None else int(every)
    if count < 8 * every:
        raise InputError(f"every={every} must leave some samples of {count}: at most {count // 8}")
    q = np.stack([_on_grid(channel.t, channel.column(name), t, even) for name in joints], axis=1)
    smooth = _smooth(q, dt, cutoff)
    v = np.gradient(smooth, dt, axis=0)
    return Motion(
        t=t, q=smooth, v=v, a=np.gradient(v, dt, axis=0), dt=dt, cutoff=cutoff, every=every, sent=sent, command=command,
        torque=_torque(sim, log, t), stated={} if stated is None else stated,
    )  # fmt: skip


def _on_grid(t: np.ndarray, y: np.ndarray, grid: np.ndarray, even: bool) -> np.ndarray:
    """y at the times of an even grid; as it is where it already lies on one."""
    first = int(np.argmin(np.abs(t - grid[0])))
    if even and first + len(grid) <= len(t) and abs(t[first] - grid[0]) < JITTER * (grid[1] - grid[0]):
        return y[first : first + len(grid)]
    return np.interp(grid, t, y)


def _smooth(q: np.ndarray, dt: float, cutoff: float) -> np.ndarray:
    sos = signal.butter(ORDER, 2 * dt * cutoff, output="sos")
    return signal.sosfiltfilt(sos, q, axis=0)


def _command(sim: Sim, log: Log) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) and commands (n, nu) of a log, in the sim's order."""
    if sim.command_channel not in log:
        raise InputError(
            f"'{sim.robot.name}' is commanded by '{sim.command_channel}', which this log lacks: map it, or use torque='measured'"
        )
    channel = log[sim.command_channel]
    missing = [name for name in sim.command_names if name not in channel.columns]
    if missing:
        raise InputError(f"the log's '{channel.name}' has no column for {', '.join(missing)}")
    return channel.t, channel.pick(sim.command_names).values


def _torque(sim: Sim, log: Log, t: np.ndarray) -> np.ndarray:
    out = np.full((len(t), len(sim.robot.joints)), np.nan)
    if "joint_torque" in log:
        channel = log["joint_torque"]
        for j, name in enumerate(sim.robot.joints):
            if name in channel.columns:
                out[:, j] = np.interp(t, channel.t, channel.column(name))
    return out
