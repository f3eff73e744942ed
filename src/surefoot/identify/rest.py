"""Stretches of rest in recordings, and the noise that they show.

    rest     windows of 0.5 s whose standard deviation is near the recording's lowest, or within the steps of its readings
    white    σ²(τ) = N²/τ + K² τ/3     Allan variance, overlapping, all axes and stretches together: N white density, K walk of the bias
    quantum  the smallest step between values that a channel has

N² and K² come from least squares over averaging times. Their intervals come from leaving out one part of the rest after the other
(jackknife), since parts differ more than white noise within one does; Student's t has as many degrees of freedom as parts that tell.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefoot.errors import InputError
from surefoot.logs import Channel, Log
from surefoot.logs.allan import allan_deviation
from surefoot.sim.gap import step_of

STILL = 0.5
"""[s] Window in which rest is judged."""
SHORTEST = 2.0
"""[s] Stretches shorter than this are not used."""
CALM = 3.0
"""Moving standard deviation up to this many times the lowest decile counts as rest."""
GAP = 3.5
"""Sampling times between two readings from which on a stretch ends: up to three are drop-outs."""
PARTS = 10
"""Parts that the rest is divided into at least, for the intervals."""
LEVEL = 0.9
"""Probability that an interval holds the value."""
SAME_RATE = 0.01
"""Share by which the sampling times of several recordings may differ."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rest:
    """One stretch of rest: samples (T, k) at times t (T,), usually every dt [s], of the log with this number."""

    log: int
    t: np.ndarray
    dt: float
    values: np.ndarray

    @property
    def start(self) -> float:
        """Time of its first sample [s]."""
        return float(self.t[0])

    @property
    def stop(self) -> float:
        """Time at which its last sample ends [s]."""
        return float(self.t[-1]) + self.dt

    @property
    def seconds(self) -> float:
        """Length [s]."""
        return len(self.values) * self.dt


@dataclass(frozen=True, kw_only=True, eq=False)
class RestNoise:
    """What rest tells about a channel.

    Attributes:
        channel, unit: what was recorded.
        white: density N, pooled over axes [unit/√Hz].
        walk: K [unit·√Hz].
        white_interval, walk_interval: 90 % intervals; one that begins at 0 says only "at most".
        misfit: largest share by which N and K miss the Allan deviation: large where readings are filtered, or something moved.
        std: of a single reading about a straight line through 2 s, per column, (k,) [unit].
        moves: standard deviation within 2 s, straight lines and all, of all columns [unit].
        quantum: smallest step of each column, (k,) [unit]; 0: none seen.
        bias: mean of each stretch about the mean of all, (stretches, k) [unit]; meaningless for an accelerometer that is turned.
        kurtosis: of readings about such lines, normal: 3.
        dt: time between readings [s].
        rests: the stretches themselves.
    """

    channel: str
    unit: str
    white: float
    walk: float
    white_interval: tuple[float, float]
    walk_interval: tuple[float, float]
    misfit: float
    std: np.ndarray
    moves: float
    quantum: np.ndarray
    bias: np.ndarray
    kurtosis: float
    dt: float
    rests: tuple[Rest, ...]

    @property
    def stretches(self) -> int:
        """Number of stretches of rest."""
        return len(self.rests)

    @property
    def seconds(self) -> float:
        """Rest in all [s]."""
        return sum(r.seconds for r in self.rests)

    @property
    def normal(self) -> bool:
        """Whether single readings look normal: their kurtosis is near 3."""
        return 2.5 < self.kurtosis < 4.0

    def __str__(self) -> str:
        low, high = self.white_interval
        said = f"{self.channel}: white {self.white:.3g} ({low:.3g} to {high:.3g}) {self.unit}/√Hz, "
        low, high = self.walk_interval
        walk = f"{self.walk:.2g} ({low:.2g} to {high:.2g})" if low > 0 else f"not identified, at most {high:.2g}"
        said += f"walk {walk} {self.unit}·√Hz, {self.seconds:.0f} s of rest in {self.stretches} stretches"
        return said + ("" if self.normal else f"; readings are not normal (kurtosis {self.kurtosis:.1f})")


def stretches_of_rest(
    logs: Log | Sequence[Log], channel: str, *, columns: Sequence[str] | None = None, calm: float = CALM
) -> tuple[Rest, ...]:
    """Stretches in which a channel is at rest, of at least 2 s.

    Args:
        logs: recordings with rest in them.
        channel: what to look at.
        columns: some of its columns; all when None.
        calm: moving standard deviation, over the lowest in the recording, that still counts as rest.
    """
    logs = (logs,) if isinstance(logs, Log) else tuple(logs)
    found: list[Rest] = []
    for number, log in enumerate(logs):
        c = log[channel] if columns is None else log[channel].pick(columns)
        own = _rests(number, c, calm)
        if not own:
            which = f" in log {number + 1} of {len(logs)}" if len(logs) > 1 else ""
            raise InputError(
                f"'{channel}' is never at rest for {SHORTEST:g} s{which}: record a minute with the robot switched on and lying still"
            )
        if found and abs(own[0].dt - found[0].dt) > SAME_RATE * found[0].dt:
            raise InputError(
                f"'{channel}' is sampled every {found[0].dt:.3g} s in one log and every {own[0].dt:.3g} s in another: take them one by one"
            )
        found += own
    return tuple(found)


def _rests(number: int, c: Channel, calm: float) -> list[Rest]:
    """Stretches of rest of one channel of one log."""
    kept = np.isfinite(c.values).all(1)
    t, y = c.t[kept], c.values[kept]
    dt = float(np.median(np.diff(t))) if len(t) > 1 else 0.0
    n = max(round(STILL / dt), 3) if dt else 0
    if not n or len(t) < 4 * n:
        raise InputError(
            f"'{c.name}' has {len(t)} samples, {4 * n or 'more'} are needed to tell rest from motion: record longer"
        )
    moving = _moving_std(y, n)  # (T - n + 1,)
    steps = float(np.sqrt((step_sizes(c) ** 2 / 12).mean()))  # readings that hop between two steps are at rest
    rest = moving <= calm * max(float(np.quantile(moving, 0.1)), steps, 1e-300)
    inside = np.zeros(len(t), dtype=bool)
    for i in np.flatnonzero(rest):
        inside[i : i + n] = True
    found = []
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(int), [0]])))
    for a, b in edges.reshape(-1, 2):
        # A calm window may hold the beginning or the end of a motion: the first and last of a stretch are left out.
        a, b = (a + n if a else a), (b - n if b < len(t) else b)
        gaps = np.flatnonzero(np.diff(t[a:b]) > GAP * dt) + 1
        for piece in np.split(np.arange(a, b), gaps):
            if len(piece) * dt >= SHORTEST:
                found.append(Rest(log=number, t=t[piece], dt=dt, values=y[piece]))
    return found


def _moving_std(y: np.ndarray, n: int) -> np.ndarray:
    """Root mean over the columns of the variance in windows of n samples, (T - n + 1,)."""
    y = y - y.mean(0)
    sums = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(y, axis=0)])
    squares = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(y * y, axis=0)])
    mean = (sums[n:] - sums[:-n]) / n
    return np.sqrt(np.maximum((squares[n:] - squares[:-n]) / n - mean**2, 0.0).mean(1))


def step_sizes(c: Channel) -> np.ndarray:
    """Smallest step between values of each column that most steps are whole multiples of, (k,); 0: none."""
    return np.array([step_of(column) for column in c.values.T])


def noise_at_rest(
    logs: Log | Sequence[Log],
    channel: str,
    *,
    columns: Sequence[str] | None = None,
    scale: float | np.ndarray = 1.0,
    unit: str | None = None,
) -> RestNoise:
    """Noise of a channel from its stretches of rest.

    Args:
        logs: recordings with rest in them.
        channel: what to look at.
        columns: some of its columns; all when None.
        scale: units per recorded unit, one number or one per column; for raw counts.
        unit: the unit after scaling.
    """
    logs = (logs,) if isinstance(logs, Log) else tuple(logs)
    if not logs:
        raise InputError("there is no log to look for rest in: give at least one")
    picked = [log[channel] if columns is None else log[channel].pick(columns) for log in logs]
    factor = _factor(channel, scale, len(picked[0].columns))
    rests = stretches_of_rest(logs, channel, columns=columns)
    rests = tuple(replace(r, values=r.values * factor) for r in rests)
    length = max(round(SHORTEST / rests[0].dt), 3)
    parts = [part for r in rests for part in np.array_split(r.values, max(len(r.values) // length, 1))]
    long = np.concatenate([detrended(part) for part in parts])
    means = np.stack([r.values.mean(0) for r in rests])
    variance = (long**2).mean(0)
    moved = variance > 0
    peaked = float(np.mean((long**4).mean(0)[moved] / variance[moved] ** 2)) if moved.any() else float("nan")
    steps = np.stack([step_sizes(c) for c in picked])  # (logs, k)
    seen = np.where(steps > 0, steps, np.inf).min(0)
    N, K, misfit = Allan(rests).white_and_walk()
    return RestNoise(
        channel=channel, unit=unit or picked[0].unit, white=N[0], walk=K[0], white_interval=N[1:], walk_interval=K[1:], misfit=misfit,
        std=np.sqrt(variance), moves=float(np.sqrt(np.mean([part.var(0) for part in parts]))),
        quantum=np.where(np.isfinite(seen), seen, 0.0) * np.abs(factor), bias=means - means.mean(0), kurtosis=peaked, dt=rests[0].dt,
        rests=rests,
    )  # fmt: skip


def _factor(channel: str, scale: float | np.ndarray, columns: int) -> np.ndarray:
    """Units per recorded unit of every column, (k,)."""
    factor = np.asarray(scale, dtype=float)
    if factor.shape not in ((), (1,), (columns,)) or not (np.isfinite(factor) & (factor != 0)).all():
        raise InputError(
            f"the scale of '{channel}' must be one number other than 0, or one for each of its {columns} columns, got {scale!r}"
        )
    return np.broadcast_to(factor, columns)


def detrended(y: np.ndarray) -> np.ndarray:
    """Readings (T, k) less a straight line."""
    t = np.linspace(-1.0, 1.0, len(y))[:, None]
    X = np.concatenate([np.ones_like(t), t], axis=1)
    return y - X @ np.linalg.lstsq(X, y, rcond=None)[0]


Measured = tuple[float, float, float]
"""A value and the ends of its interval."""


class Allan:
    """Allan variances of parts of rest on common averaging times, so that leaving a part out costs nothing.

    Attributes:
        lengths: averaging times in samples, (lengths,).
        total, weight: Allan variance times its weight, and that weight (independent means in it), (parts, lengths).
    """

    def __init__(self, rests: Sequence[Rest]):
        self.dt = rests[0].dt
        sizes = [len(r.values) for r in rests]
        self.lengths = np.unique(np.geomspace(1, max(max(sizes) // 10, 2), 20).round().astype(int))
        rows = []
        for r in rests:
            number = max(round(len(r.values) * PARTS / sum(sizes)), 1)
            edges = np.linspace(0, len(r.values), number + 1).astype(int)
            rows += [self._part(r.values, int(a), int(b)) for a, b in itertools.pairwise(edges)]
        self.total, self.weight = np.moveaxis(np.array(rows), 1, 0)

    def _part(self, y: np.ndarray, a: int, b: int) -> np.ndarray:
        """Allan variances times weights, and weights, of the means that meet within samples a to b, (2, lengths)."""
        out = np.zeros((2, len(self.lengths)))
        for i, m in enumerate(self.lengths):
            around = y[max(a - m, 0) : b + m]
            if m <= max(len(y) // 4, 1) and len(around) > 2 * m:
                weight = (b - a) / m * y.shape[1]
                out[:, i] = weight * float(allan_deviation(around, self.dt, np.array([m]))[0]) ** 2, weight
        return out

    def white_and_walk(self) -> tuple[Measured, Measured, float]:
        """N and K, each with the ends of its interval, and the largest share by which they miss the Allan deviation."""
        from scipy.optimize import nnls
        from scipy.stats import t as student

        total, weight = self.total.sum(0), self.weight.sum(0)
        used = weight > 0
        variance = total[used] / weight[used]
        if not (variance > 0).all():
            return (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0
        m, dt = self.lengths[used], self.dt
        # A bias that steps once a sample has the walk term (2 m² + 1) / (6 m), which is m / 3 for long times.
        parts = np.stack([1 / (m * dt), dt * (2 * m**2 + 1) / (6 * m)], axis=1)
        row, squares = np.sqrt(weight[used]) / variance, np.zeros(2)
        for _ in range(3):  # Errors are a share of what is expected, not of what chance gave.
            squares, _ = nnls(parts * row[:, None], variance * row)
            row = np.sqrt(weight[used]) / (parts @ squares)
        expected = parts @ squares
        free = np.linalg.lstsq(parts * row[:, None], variance * row, rcond=None)[0]
        middle = np.array([squares[0], free[1]])  # where chance gives K² < 0, N is that of K = 0
        error, freedom = self._errors(parts, expected, used)
        wide = student.ppf(0.5 + 0.5 * LEVEL, np.maximum(freedom - 1.0, 1.0)) * error
        low, high = np.sqrt(np.maximum(middle - wide, 0.0)), np.sqrt(np.maximum(middle, 0.0) + wide)
        N, K = ((float(np.sqrt(s)), float(a), float(b)) for s, a, b in zip(squares, low, high, strict=True))
        return N, K, float(np.abs(np.sqrt(variance / expected) - 1.0).max())

    def _errors(self, parts: np.ndarray, expected: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors of N² and K² by leaving out one part after the other, and how many parts tell of each, (2,).

        Parts are of different size: with share p_j of the information, var = Σ_j (1 − p_j)/p_j (θ_(j) − θ̄)² / g over g parts
        (Busing, Meijer, van der Leeden 1999).
        """
        weight, total = self.weight[:, used], self.total[:, used]
        left, sums = weight.sum(0) - weight, total.sum(0) - total  # (parts, lengths)
        row = np.sqrt(np.maximum(left, 0.0)) / expected
        seen = np.divide(sums, left, out=np.zeros_like(sums), where=left > 0)
        each = [np.linalg.lstsq(parts * r[:, None], v * r, rcond=None)[0] for r, v in zip(row, seen, strict=True)]
        tells = (weight / expected**2) @ parts**2  # (parts, 2)
        share = tells / tells.sum(0)
        middle = ((1 - share) * each).sum(0) / (1 - share).sum(0)
        spread = np.divide(1 - share, share, out=np.zeros_like(share), where=share > 0)
        g = (share > 0).sum(0)
        return np.sqrt((spread * (each - middle) ** 2).sum(0) / g), 1.0 / (share**2).sum(0)


def blocks_of_rest(rests: Sequence[Sequence[Rest]], length: float) -> tuple[np.ndarray, np.ndarray]:
    """Variance of each sensor in blocks of `length` [s] in which all are at rest, (blocks, sensors), and numbers in each, alike."""
    variance, counts = [], []
    for log, start, stop in at_rest_together(rests):
        inside = [next(r for r in own if r.log == log and r.start <= start and r.stop >= stop) for own in rests]
        for k in range(int((stop - start) / length + 1e-6)):
            begin, end = start + k * length - 1e-9, start + (k + 1) * length - 1e-9
            parts = [detrended(r.values[(r.t >= begin) & (r.t < end)]) for r in inside]
            counts.append([(len(y) - 2) * y.shape[1] for y in parts])
            variance.append([(y**2).sum() / n for y, n in zip(parts, counts[-1], strict=True)])
    shape = (-1, len(rests))
    return np.array(variance).reshape(shape), np.array(counts).reshape(shape)


def at_rest_together(rests: Sequence[Sequence[Rest]]) -> list[tuple[int, float, float]]:
    """(log, start, stop) of the times in which every sensor is at rest [s]."""
    shared = [(r.log, r.start, r.stop) for r in rests[0]]
    for other in rests[1:]:
        shared = [
            (log, max(a, r.start), min(b, r.stop))
            for log, a, b in shared
            for r in other
            if r.log == log and max(a, r.start) < min(b, r.stop)
        ]
    return shared
