"""Two recordings of one motion on two clocks: the offset between the clocks, below one sample."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.logs.channel import Channel
from surefoot.logs.log import Log

MOST = 1 << 20  # samples on the common grid


@dataclass(frozen=True, kw_only=True)
class ClockOffset:
    """How far clock b is behind clock a.

    Attributes:
        seconds: add this to the times of b to have them on the clock of a [s].
        correlation: of the two signals after that, at most 1.
        runner_up: correlation at the next best offset; near `correlation`, the motion repeats and the answer is open.
    """

    seconds: float
    correlation: float
    runner_up: float


def align(
    a: Log | Channel,
    b: Log | Channel,
    *,
    channel: str | tuple[str, str] | None = None,
    within: float | None = None,
) -> ClockOffset:
    """Offset between the clocks of two recordings of the same signal.

    The signals, without their means over the times that both cover, are correlated at every offset s,

        c(s) = sum a(t) b(t - s) / sqrt(sum a(t)^2 sum b(t - s)^2),   averaged over the columns,

    and the best s is refined between samples on a cubic spline of b.

    Args:
        a: a channel, or a log.
        b: the other one.
        channel: the channel to compare when logs are given, or a pair of names; None takes the first measurement
            that both have.
        within: largest offset to consider [s]; None considers every one with a quarter of the shorter signal in common.

    Returns the offset; `log.shift(name, offset.seconds, clock=...)` applies it.
    """
    first, second = _pair(a, b, channel)
    period = float(min(np.median(np.diff(first.t)), np.median(np.diff(second.t))))
    period = max(period, max(first.duration, second.duration) / MOST)
    x, y, spline = _signals(first, second, period)
    offsets = first.t[0] - second.t[0] + period * np.arange(-(len(y) - 1), len(x))
    correlation = _correlation(x, y)
    if within is not None:
        correlation[np.abs(offsets) > within] = -np.inf
    best = int(np.argmax(correlation))
    if not np.isfinite(correlation[best]):
        raise InputError(f"the channels have too little in common at every offset within {within} s")
    seconds, height = _refined(first, x, spline, float(offsets[best]), period)
    return ClockOffset(seconds=seconds, correlation=height, runner_up=_runner_up(correlation, best))


def _runner_up(correlation: np.ndarray, best: int) -> float:
    """Best correlation outside the hill around `best`: down to half its height and on to the next valley."""
    half = 0.5 * correlation[best]
    left = right = best
    while left > 0 and (correlation[left] > half or correlation[left - 1] < correlation[left]):
        left -= 1
    while right < len(correlation) - 1 and (correlation[right] > half or correlation[right + 1] < correlation[right]):
        right += 1
    rest = np.concatenate([correlation[:left], correlation[right + 1 :]])
    return float(rest.max(initial=-1.0))


def _pair(a: Log | Channel, b: Log | Channel, channel: str | tuple[str, str] | None) -> tuple[Channel, Channel]:
    """The two channels to compare, with the columns that they share."""
    if channel is None and isinstance(a, Log) and isinstance(b, Log):
        shared = [one.name for one in a.y if one.name in b]
        if not shared:
            raise InputError("the logs share no measured channel: name the channels to compare")
        channel = shared[0]
    names = (channel, channel) if isinstance(channel, str) or channel is None else channel
    one, two = (
        recording[name] if isinstance(recording, Log) and name else recording
        for recording, name in zip((a, b), names, strict=True)
    )
    if not isinstance(one, Channel) or not isinstance(two, Channel):
        raise InputError("name the channel to compare when only one of the two is a log")
    columns = [column for column in one.columns if column in two.columns]
    if columns:
        one, two = one.pick(columns), two.pick(columns)
    elif len(one.columns) != len(two.columns):
        raise InputError(f"channels {one.name!r} and {two.name!r} share no column")
    for each in (one, two):
        if len(each) < 16:
            raise InputError(f"channel {each.name!r} has {len(each)} samples, too few to align")
        if np.isnan(each.values).any():
            raise InputError(f"channel {each.name!r} has NaN: align needs a signal without gaps")
    return one, two


def _signals(first: Channel, second: Channel, period: float) -> tuple[np.ndarray, np.ndarray, Any]:
    """Both signals on grids of one period, (N, k) and (M, k), and the spline of the second."""
    from scipy.interpolate import CubicSpline

    moving = (first.values.std(axis=0) > 0) & (second.values.std(axis=0) > 0)
    if not moving.any():
        raise InputError(f"channels {first.name!r} and {second.name!r} do not move together: nothing to align")
    splines = []
    for each in (first, second):
        values = each.values[:, moving]
        values = (values - values.mean(axis=0)) / values.std(axis=0)
        splines.append(CubicSpline(each.t, values))
    x = splines[0](first.t[0] + period * np.arange(int(first.duration / period) + 1))
    y = splines[1](second.t[0] + period * np.arange(int(second.duration / period) + 1))
    return x, y, splines[1]


def _correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Correlation over the overlap at every whole shift, (N + M - 1,); -inf where less than a quarter overlaps."""
    from scipy.signal import correlate

    n, m = len(x), len(y)
    shift = np.arange(-(m - 1), n)
    start, stop = np.maximum(shift, 0), np.minimum(shift + m, n)  # rows of x that meet y
    count = stop - start

    def overlap(z: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        total = np.concatenate([[0.0], np.cumsum(z)])
        return total[b] - total[a]

    enough = count >= max(16, min(n, m) // 4)
    mean = np.zeros(len(shift))
    for u, v in zip(x.T, y.T, strict=True):
        sum_u, sum_v = overlap(u, start, stop), overlap(v, start - shift, stop - shift)
        covariance = correlate(u, v, mode="full", method="fft") - sum_u * sum_v / count
        spread_u = overlap(u * u, start, stop) - sum_u**2 / count
        spread_v = overlap(v * v, start - shift, stop - shift) - sum_v**2 / count
        moving = (spread_u > 1e-6 * count) & (spread_v > 1e-6 * count)
        mean += np.where(moving, covariance / np.sqrt(np.where(moving, spread_u * spread_v, 1.0)), 0.0) / x.shape[1]
    return np.where(enough, mean, -np.inf)


def _refined(first: Channel, x: np.ndarray, spline: Any, guess: float, period: float) -> tuple[float, float]:
    """Offset near `guess` with the best correlation between samples, and that correlation."""
    from scipy.optimize import minimize_scalar

    t = first.t[0] + period * np.arange(len(x))

    def minus_correlation(seconds: float) -> float:
        at = t - seconds
        inside = (at >= spline.x[0]) & (at <= spline.x[-1])
        u, v = x[inside], spline(at[inside])
        u, v = u - u.mean(axis=0), v - v.mean(axis=0)
        scale = np.sqrt((u * u).sum(axis=0) * (v * v).sum(axis=0))
        return -float(((u * v).sum(axis=0) / np.where(scale > 0, scale, 1.0)).mean())

    found: Any = minimize_scalar(
        minus_correlation, bounds=(guess - period, guess + period), method="bounded", options={"xatol": 1e-4 * period}
    )
    return float(found.x), -float(found.fun)
