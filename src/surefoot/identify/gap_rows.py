"""The gap as numbers: log minus replay by channel and column, nominal and fitted, over windows that start from the log."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefoot.identify.fit import Fit
from surefoot.identify.residuals import floor_of, stated_in
from surefoot.identify.rollouts import Rollouts
from surefoot.identify.windows import cut
from surefoot.logs import Log
from surefoot.params import E
from surefoot.sim import Sim
from surefoot.sim.replay import _channels


def gap_rows(
    sim: Sim,
    logs: Sequence[Log],
    fit: Fit | None = None,
    *,
    channels: Sequence[str] | None = None,
    window: float | None = None,
    hold: tuple[str, ...] = (),
    stated: Sequence[Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Root mean squares of log minus replay, one row a column: channel, column, nominal, fitted, floor, unit, horizon [s]."""
    if channels is None:
        shared = set.intersection(*[set(_channels(sim, log, None)) for log in logs])
        channels = [c for c in _channels(sim, logs[0], None) if c in shared]
    windows = cut(sim, logs, channels=channels, window=window, held_out=0.0)
    rollouts, horizon = Rollouts(sim, windows, hold=hold), float(np.median([w.stop - w.start for w in windows.windows]))
    known = {name: v[None] for name, v in stated_in(sim, logs, stated).items()}
    nominal = _errors(rollouts, sim.params.nominal_e(1), known)
    fitted = (
        None
        if fit is None
        else _errors(rollouts, {**sim.params.nominal_e(1), **fit.e}, _own(fit, windows.logs) | known)
    )
    return [
        {
            "channel": channel, "column": column, "nominal": float(nominal[i]), "fitted": None if fitted is None else float(fitted[i]),
            "floor": floor_of([log[channel].column(column) for log in windows.logs]), "unit": unit, "horizon": horizon,
            "windows": len(windows),
        }
        for i, (channel, column, unit) in enumerate(rollouts.labels)
    ]  # fmt: skip


def _own(fit: Fit, logs: Sequence[Log]) -> dict[str, np.ndarray]:
    """Values of Params that are apart in each log, (1, logs, ...): its own where it was fitted, else the mean."""
    known = {run.log: run.values for run in fit.runs}
    names = list(fit.runs[0].values) if fit.runs else []
    return {
        name: np.stack([np.asarray(known.get(log.hash, {}).get(name, fit.e[name][0]), float) for log in logs])[None]
        for name in names
    }


def _errors(rollouts: Rollouts, e: E, apart: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
    """Root mean square of every column over all windows, start states from the log, (columns,)."""
    y = rollouts.predict(e, np.arange(len(rollouts.windows)), None, apart)[0]
    gap = np.where(rollouts.seen, rollouts.y - y, 0.0)
    k = len(rollouts.labels)
    count = np.bincount(rollouts.column, rollouts.seen.sum(0), k)
    return np.sqrt(np.bincount(rollouts.column, (gap**2).sum(0), k) / np.maximum(count, 1))
