"""When samples came: rate, jitter, gaps and drop-outs of one channel."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How regular the times of a channel are.

    Attributes:
        samples: number of samples.
        start: time of the first sample [s].
        duration: from the first to the last sample [s].
        rate: samples a second outside gaps [Hz]; 0 for a single sample.
        period: median period [s].
        jitter: standard deviation of the periods that are not gaps [s].
        shortest, longest: extreme periods [s].
        gaps: (start [s], length [s]) of each pause longer than 1.5 median periods.
        dropped: samples that are missing if the rate was meant to be constant.
    """

    samples: int
    start: float
    duration: float
    rate: float
    period: float
    jitter: float
    shortest: float
    longest: float
    gaps: tuple[tuple[float, float], ...]
    dropped: int


def timing(t: np.ndarray, *, gap: float = 1.5) -> Timing:
    """Timing of the increasing times `t` (T,) [s]; a period above `gap` medians is a gap."""
    if len(t) < 2:
        return Timing(
            samples=len(t), start=float(t[0]), duration=0.0, rate=0.0, period=0.0, jitter=0.0,
            shortest=0.0, longest=0.0, gaps=(), dropped=0,
        )  # fmt: skip
    periods = np.diff(t)
    period = float(np.median(periods))
    paused = periods > gap * period
    # A gap of n periods holds n - 1 samples that did not come.
    dropped = int(np.rint(periods[paused] / period - 1).sum())
    return Timing(
        samples=len(t),
        start=float(t[0]),
        duration=float(t[-1] - t[0]),
        rate=1 / float(periods[~paused].mean()),
        period=period,
        jitter=float(periods[~paused].std()),
        shortest=float(periods.min()),
        longest=float(periods.max()),
        gaps=tuple((float(a), float(b)) for a, b in zip(t[:-1][paused], periods[paused], strict=True)),
        dropped=dropped,
    )
