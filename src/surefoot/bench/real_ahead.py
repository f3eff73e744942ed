"""How well a model foresees a robot: the start state from the readings before, then physics alone for `horizon` seconds.

    x(t0) by least squares on the LEAD readings before t0        (what a robot knows at t0)
    error(t) = y_log(t) - y(t; u_log, x(t0), e),  t0 < t <= t0 + horizon

Windows lie back to back from the end of each log to its first sample, so that every sample is foreseen exactly once, whatever was
easy or hard about it. Where a log begins, there is no reading before: the start state is then
read from the samples around t0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.coordinates import shares
from surefoot.identify.residuals import Problem
from surefoot.identify.solve import settle
from surefoot.identify.windows import Window, Windows, cut
from surefoot.logs import Log
from surefoot.sim import Sim

LEAD = 12
"""Readings before t0 that the start state is estimated from; more would carry the model's error into it."""
SHORTEST = 0.5
"""Of the horizon: what remains at the beginning of a log is a window too when it is at least so long."""


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """Errors of a model that looks ahead, by column.

    Attributes:
        rmse: root mean square over all foreseen samples.
        last: root mean square at the end of the horizon.
        windows: number of windows.
        start: the start state in words.
    """

    rmse: dict[str, float]
    last: dict[str, float]
    windows: int
    horizon: float  # [s]
    start: str


def ahead(
    sim: Sim,
    logs: Sequence[Log],
    e: Mapping[str, np.ndarray],
    *,
    horizon: float,
    channel: str = "joint_pos",
) -> Ahead:
    """Errors of `sim` under e (one world; what is absent is nominal) on all of the logs."""
    whole = cut(sim, logs, channels=(channel,), window=horizon, held_out=0.0)
    pieces: list[tuple[Window, float]] = []
    for number in range(len(logs)):
        mine = [w for w in whole.windows if w.log == number]
        if not mine:
            raise InputError(f"log {number} is shorter than the horizon of {horizon:g} s: leave it out")
        lead = LEAD * float(np.median(np.diff(logs[number][channel].t)))
        first, last = mine[0].start, float(logs[number][channel].t[-1])
        last = min(last, float(logs[number][sim.command_channel].t[-1]))
        for k in range(int(np.floor((last - first) / horizon + SHORTEST))):
            t0 = max(last - (k + 1) * horizon, first)
            before = min(lead, t0 - first)
            before = before if before >= 0.5 * lead else 0.0
            pieces.append((Window(log=number, start=t0 - before, stop=last - k * horizon), before))
    windows = Windows(
        logs=whole.logs, windows=tuple(w for w, _ in pieces), channels=whole.channels, columns=whole.columns
    )
    problem = Problem(sim, windows, only=list(e) or None, start="estimate")
    s = shares(problem.params, {**problem.params.nominal_e(1), **{k: np.atleast_1d(v) for k, v in e.items()}})[0]
    before = np.array([b for _, b in pieces])[:, None]
    rollouts, seen = problem.rollouts, problem.rollouts.seen
    foreseen = seen & (rollouts.t > before + 1e-9)
    rollouts.seen = seen & (rollouts.t <= before + 1e-9) & (before > 0)
    rows = np.arange(len(pieces))
    offsets = settle(problem, s, rows)
    gap = rollouts.y - problem.predict(s, rows, offsets[None])[0]
    stop = np.array([w.stop - w.start for w, _ in pieces])[:, None]
    near = foreseen & (rollouts.t > stop - 1.5 * _period(rollouts.t))
    names = [column for _, column, _ in rollouts.labels]
    parts = [rollouts.column == i for i in range(len(names))]
    return Ahead(
        rmse={n: _rms(gap[:, p], foreseen[:, p]) for n, p in zip(names, parts, strict=True)},
        last={n: _rms(gap[:, p], near[:, p]) for n, p in zip(names, parts, strict=True)},
        windows=len(pieces),
        horizon=horizon,
        start=f"start state estimated from the {LEAD} readings before",
    )


def together(parts: Sequence[Ahead], start: str) -> Ahead:
    """One Ahead of several over the same horizon, each window counted once; `start`: the start states in words."""
    count = np.array([part.windows for part in parts], float)

    def pooled(each: Sequence[dict[str, float]]) -> dict[str, float]:
        return {n: float(np.sqrt(np.average([x[n] ** 2 for x in each], weights=count))) for n in each[0]}

    rmse, last = pooled([part.rmse for part in parts]), pooled([part.last for part in parts])
    return Ahead(rmse=rmse, last=last, windows=int(count.sum()), horizon=parts[0].horizon, start=start)


def _period(t: np.ndarray) -> float:
    times = np.unique(np.round(t[0], 9))
    return float(times[-1] - times[0]) / max(len(times) - 1, 1)


def _rms(gap: np.ndarray, where: np.ndarray) -> float:
    return float(np.sqrt(np.mean(gap[where] ** 2)))
