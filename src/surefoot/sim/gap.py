"""The gap: log minus replay, per channel and column, against the log's own noise floor."""

from dataclasses import dataclass

import numpy as np

from surefoot.sim.replay import Replay


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Gap of one column of one channel in one world, over the readings that the log holds."""

    channel: str
    column: str
    unit: str
    rms: float
    worst: float
    """Largest absolute difference."""
    bias: float
    """Mean difference."""
    floor: float
    """Standard deviation of the log's own noise; a gap near it cannot be told from noise."""
    missing: int
    """Readings that the log lacks."""


def gaps(replay: Replay, world: int = 0) -> list[Gap]:
    """Gap of every replayed column, in the log's order."""
    out = []
    for name, columns in replay.columns.items():
        channel = replay.log[name].pick(columns)
        for i, column in enumerate(columns):
            y = channel.values[:, i]
            rms, worst, bias, missing = missed(y, replay.values[name][world, :, i])
            out.append(
                Gap(
                    channel=name,
                    column=column,
                    unit=channel.units[i],
                    rms=rms,
                    worst=worst,
                    bias=bias,
                    floor=max(noise_floor(y), step_of(y) / np.sqrt(12)),
                    missing=missing,
                )
            )
    return out


def missed(y: np.ndarray, told: np.ndarray) -> tuple[float, float, float, int]:
    """By how much `told` misses readings y, both (T,): rms, largest difference, mean difference; and how many readings are missing.

    Readings that are NaN do not count. A NaN in what was told does: a replay that left the numbers has no gap.
    """
    made = ~np.isnan(y)
    d = y[made] - told[made]
    missing, nothing = len(y) - len(d), float("nan")
    if not len(d):
        return nothing, nothing, nothing, missing
    return float(np.sqrt(np.mean(d**2))), float(np.abs(d).max()), float(d.mean()), missing


def noise_floor(y: np.ndarray) -> float:
    """Standard deviation of white noise on a smooth signal y (T,), from its third differences, robust to jumps.

    Third differences annul what is locally quadratic; white noise of variance σ² gives them the variance 20 σ². Readings that are NaN
    are left out: the few jumps where they were do not move a median.
    """
    y = y[~np.isnan(y)]
    if len(y) < 8:
        return float("nan")
    d = np.diff(y, 3)
    return float(1.4826 * np.median(np.abs(d - np.median(d))) / np.sqrt(20))


def step_of(y: np.ndarray) -> float:
    """Smallest step between values of y (T,) that most steps are whole multiples of; 0 where readings hardly ever repeat."""
    y = y[np.isfinite(y)]
    values = np.unique(y)
    gaps = np.diff(values)
    gaps = gaps[gaps > 1e-12 * max(np.abs(values).max(initial=0.0), 1e-300)]
    if not len(gaps) or len(values) > 0.5 * len(y):
        return 0.0
    step = float(np.quantile(gaps, 0.05))
    whole = gaps / step
    return step if np.median(np.abs(whole - np.round(whole))) < 0.05 else 0.0
