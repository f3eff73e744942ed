"""The gap: log minus replay, per channel and column, against the log's own noise floor."""

from dataclasses import dataclass

import numpy as np

from surefoot.sim.replay import Replay


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Gap of one column of one channel in one world."""

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


def gaps(replay: Replay, world: int = 0) -> list[Gap]:
    """Gap of every replayed column, in the log's order."""
    out = []
    for name, columns in replay.columns.items():
        channel = replay.log[name].pick(columns)
        difference = replay.gap(name)[world]
        for i, column in enumerate(columns):
            d = difference[:, i]
            out.append(
                Gap(
                    channel=name,
                    column=column,
                    unit=channel.units[i],
                    rms=float(np.sqrt(np.mean(d**2))),
                    worst=float(np.abs(d).max()),
                    bias=float(d.mean()),
                    floor=noise_floor(channel.values[:, i]),
                )
            )
    return out


def noise_floor(y: np.ndarray) -> float:
    """Standard deviation of white noise on a smooth signal y (T,), from its third differences, robust to jumps.

    Third differences annul what is locally quadratic; white noise of variance σ² gives them the variance 20 σ².
    """
    if len(y) < 8:
        return float("nan")
    d = np.diff(y, 3)
    return float(1.4826 * np.median(np.abs(d - np.median(d))) / np.sqrt(20))
