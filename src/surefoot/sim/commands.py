"""What the motors receive: commands after transport delay, jitter, slew limit and rotor lag, one value a substep.

A command u_k is held over its control period [k T, (k + 1) T). What reaches the motor at time t is u(t - d): in a
substep [t, t + dt] its mean over [t - d, t - d + dt], so any delay acts exactly in the mean, not only whole steps. Live
stepping and replay of a log take the same means, so a log replayed under its own e gives its own trajectory. Arrays
are those of the engine's own library, NumPy or torch.
"""

from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np

Array = Any


class CommandLine:
    """The way from u to the motors, for all worlds; `history` and `slewed` and `spin` are its memory."""

    def __init__(
        self,
        worlds: int,
        width: int,
        substeps: int,
        dt: float,
        longest: float,
        own: Callable[[np.ndarray], Array] = np.asarray,
    ):
        """Make the line for delays up to `longest` [s]; `own` turns a NumPy array into the engine's kind."""
        self.substeps, self.dt = substeps, dt
        self.period = substeps * dt
        depth = int(np.ceil(longest / self.period - 1e-9)) + 2
        self.history = own(np.zeros((worlds, depth, width)))  # newest first
        self.slewed, self.spin = own(np.zeros((worlds, width))), own(np.zeros((worlds, width)))
        self.xp = array_api_compat.array_namespace(self.history)
        self._rows, self._starts = own(np.arange(worlds)[:, None]), own(np.arange(substeps) * dt)
        self._plan: tuple[Array, ...] | None = None
        self.lags: Array = None
        """What `relag` planned: see `decay`."""

    def hold(self, ids: Array, u: Array) -> None:
        """After a reset: as if u (len(ids), width) had been commanded for ever."""
        self.history[ids] = u[:, None]
        self.slewed[ids] = u
        self.spin[ids] = u

    def retime(self, delay: Array, ids: Array | None = None) -> None:
        """Plan the delays (worlds,) [s] of the next steps: which two commands meet in a substep, and their shares.

        `ids` names the worlds whose delay may have changed since the last plan; None: all.
        """
        xp = self.xp
        if ids is None or self._plan is None:
            self._plan = self._planned(delay, self._rows) if bool(xp.any(delay != 0)) else None
            return
        for whole, rows in zip(self._plan, self._planned(delay[ids], self._rows[ids]), strict=True):
            whole[ids] = rows

    def _planned(self, delay: Array, rows: Array) -> tuple[Array, Array, Array]:
        """For the worlds `rows` (k, 1): rows of the flattened history (k, substeps) of the older and the newer command, and the
        share (k, substeps, 1) of the newer one.
        """
        xp = self.xp
        start = self._starts - delay[:, None]  # (worlds, substeps)
        first = xp.floor(start / self.period + 1e-12)
        until = (first + 1) * self.period - start  # time until the next command arrives
        share = xp.clip(1 - until / self.dt, 0.0, 1.0)
        share = (share * xp.astype(share >= 1e-9, share.dtype))[..., None]
        index = -xp.astype(first, xp.int64)
        deepest = self.history.shape[1] - 1
        first = rows * (deepest + 1)  # of each world's commands in the flattened history
        return first + xp.clip(index, 0, deepest), first + xp.clip(index - 1, 0, deepest), share

    def deliver(self, u: Array) -> Array:
        """Take u (worlds, width) for this control period; return what the motors get, (worlds, substeps, width)."""
        xp = self.xp
        for age in range(self.history.shape[1] - 1, 0, -1):
            self.history[:, age] = self.history[:, age - 1]
        self.history[:, 0] = u
        if self._plan is None:
            return xp.broadcast_to(u[:, None], (u.shape[0], self.substeps, u.shape[1]))
        older, newer, share = self._plan
        past = xp.reshape(self.history, (u.shape[0] * self.history.shape[1], u.shape[1]))
        shape = (u.shape[0], self.substeps, u.shape[1])
        a, b = (xp.reshape(xp.take(past, xp.reshape(index, (-1,)), axis=0), shape) for index in (older, newer))
        b -= a
        b *= share
        a += b
        return a

    def slew(self, control: Array, limit: Array, columns: Array) -> Array:
        """Follow `control` no faster than `limit` (worlds, width) [1/s] in the given columns; means over substeps."""
        xp, out = self.xp, self.xp.asarray(control, copy=True)
        most = limit[:, columns] * self.dt
        now = self.slewed[:, columns]
        for j in range(out.shape[1]):
            move = xp.minimum(xp.maximum(out[:, j, columns] - now, -most), most)
            out[:, j, columns] = now + move * (1 - 0.5 * xp.abs(move) / most)  # it arrives after |move| / most of it
            now = now + move
        self.slewed[:, columns] = now
        return out

    def decay(self, lag: Array) -> Array:
        """x, what is left of a rotor's old speed after a substep, with the means of x and x², (3, worlds, k); `lag` (worlds, k) [s]."""
        xp = self.xp
        steps = self.dt / xp.clip(lag, 1e-9 * self.dt, None)
        return xp.stack([xp.exp(-steps), -xp.expm1(-steps) / steps, -xp.expm1(-2 * steps) / (2 * steps)])

    def relag(self, lag: Array, ids: Array | None = None) -> None:
        """Plan the rotors' lags [s] of the next steps, (worlds, k); with `ids` those of these worlds alone, (len(ids), k)."""
        planned = self.decay(lag)
        if ids is None:
            self.lags = planned
        else:
            self.lags[:, ids] = planned

    def spin_up(self, control: Array, decay: Array, columns: Array) -> Array:
        """Rotors in `columns`: speed s follows the command with a lag; thrust goes as s², its mean over each substep.

        s(t) = u + (s0 - u) x(t) with x = exp(-t / lag), so mean s² = u² + 2 u (s0 - u) mean x + (s0 - u)² mean x²; `decay` gives x.
        """
        xp, out = self.xp, self.xp.asarray(control, copy=True)
        x, mean_x, mean_xx = decay[0], decay[1], decay[2]
        s, u = self.spin[:, columns], xp.clip(control[:, :, columns], 0.0, 1.0)
        away = xp.empty_like(u)  # s0 - u of every substep
        for j in range(out.shape[1]):
            away[:, j] = s - u[:, j]
            s = u[:, j] + away[:, j] * x
        out[:, :, columns] = u * u + 2 * u * away * mean_x[:, None] + away * away * mean_xx[:, None]
        self.spin[:, columns] = s
        return out


def held_mean(t: np.ndarray, u: np.ndarray, start: Array, dt: float) -> Array:
    """Mean over [start, start + dt] of the signal that holds u[i] (T, width) from t[i] on; (..., width).

    Before t[0] the signal is u[0]. `start` may have any shape, for example (worlds, substeps).
    """
    xp = array_api_compat.array_namespace(start)
    end = start + dt
    # Instants that differ by rounding only are the same instant.
    i = xp.clip(xp.searchsorted(t, start + 1e-9, side="right") - 1, 0, len(t) - 1)
    k = xp.clip(xp.searchsorted(t, end - 1e-9, side="right") - 1, 0, len(t) - 1)
    share = xp.where(k > i, (end - t[k]) / dt, 0.0)[..., None]
    out = u[i] + share * (u[k] - u[i])
    many = k > i + 1
    if bool(xp.any(many)):
        area = np.concatenate([np.zeros((1, u.shape[1])), np.cumsum(u[:-1] * np.diff(t)[:, None], axis=0)])
        a, b = start[many], end[many]
        ia, ib = i[many], k[many]
        whole = area[ib] + u[ib] * (b - t[ib])[..., None] - area[ia] - u[ia] * (a - t[ia])[..., None]
        out[many] = whole / dt
    return out
