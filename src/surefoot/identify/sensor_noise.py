"""Sensor noise from recordings at rest: densities, bias walks, quanta, with intervals; as Params, values and a Prior.

    rest: stretches whose moving standard deviation is near the recording's lowest
    white: σ²(τ) = N²/τ + K² τ/3 (Allan variance, overlapping, all axes and stretches together); N white density, K walk of the bias
    quantum: the smallest step between values that a channel has

Intervals come from drawing stretches anew (bootstrap): stretches differ more than white noise within one does. What white noise and
walk do not describe is kept: the residual of each stretch as a samples Prior.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.logs import Log
from surefoot.logs.allan import allan_deviation
from surefoot.params import Param, Params, Prior

STILL = 0.5
"""[s] Window in which rest is judged."""
SHORTEST = 2.0
"""[s] Stretches shorter than this are not used."""
CALM = 3.0
"""Moving standard deviation up to this many times the lowest decile counts as rest."""
BOOTSTRAP = 200
KINDS = {"gyro": ("gyro_noise", "gyro_walk"), "accel": ("accel_noise", "accel_walk")}


@dataclass(frozen=True, kw_only=True, eq=False)
class Rest:
    """One stretch of rest: samples (T, k) every dt [s], from `start` [s] on."""

    start: float
    dt: float
    values: np.ndarray

    @property
    def seconds(self) -> float:
        """Length [s]."""
        return len(self.values) * self.dt


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """What rest tells about a channel.

    Attributes:
        channel, unit: what was recorded.
        white: density N, pooled over axes [unit/√Hz].
        walk: K [unit·√Hz]; 0: none beyond white noise in the time recorded.
        std: of a single reading, per column, (k,) [unit].
        quantum: smallest step [unit]; 0: none seen.
        white_interval, walk_interval: 90 % intervals.
        bias: mean of each stretch about the mean of all, (stretches, k) [unit]; meaningless for an accelerometer that is turned.
        kurtosis: of readings within stretches, normal: 3.
        seconds: of rest.
    """

    channel: str
    unit: str
    white: float
    walk: float
    std: np.ndarray
    quantum: float
    white_interval: tuple[float, float]
    walk_interval: tuple[float, float]
    bias: np.ndarray
    kurtosis: float
    seconds: float
    stretches: int

    @property
    def normal(self) -> bool:
        """Whether single readings look normal: their kurtosis is near 3."""
        return 2.5 < self.kurtosis < 4.0

    def __str__(self) -> str:
        low, high = self.white_interval
        said = f"{self.channel}: white {self.white:.3g} ({low:.3g} to {high:.3g}) {self.unit}/√Hz, walk {self.walk:.2g} {self.unit}·√Hz, "
        said += f"quantum {self.quantum:.2g} {self.unit}; {self.seconds:.0f} s of rest in {self.stretches} stretches"
        return said + ("" if self.normal else f"; not normal (kurtosis {self.kurtosis:.1f}): keep the samples")


def stretches_of_rest(log: Log, channel: str, *, calm: float = CALM, shortest: float = SHORTEST) -> tuple[Rest, ...]:
    """Stretches in which a channel is at rest."""
    c = log[channel]
    dt = float(np.median(np.diff(c.t)))
    n = max(round(STILL / dt), 3)
    if len(c) < 4 * n:
        raise InputError(
            f"'{channel}' has {len(c)} samples, {4 * n} are needed to tell rest from motion: record longer"
        )
    moving = _moving_std(c.values, n)  # (T - n + 1,)
    lowest = np.quantile(moving, 0.1)
    rest = moving <= calm * max(lowest, 1e-300)
    inside = np.zeros(len(c), dtype=bool)
    for i in np.flatnonzero(rest):
        inside[i : i + n] = True
    # The first and last part of a stretch may already move: what is within half a window of motion is left out.
    edges = np.flatnonzero(np.diff(np.concatenate([[0], inside.astype(int), [0]])))
    found = []
    for a, b in edges.reshape(-1, 2):
        a, b = (a + n // 2 if a else a), (b - n // 2 if b < len(c) else b)
        gaps = np.flatnonzero(np.diff(c.t[a:b]) > 3 * dt) + 1
        for piece in np.split(np.arange(a, b), gaps):
            if len(piece) * dt >= shortest:
                found.append(Rest(start=float(c.t[piece[0]]), dt=dt, values=c.values[piece]))
    if not found:
        raise InputError(
            f"'{channel}' is never at rest for {shortest:g} s: record a minute with the robot switched on and lying still"
        )
    return tuple(found)


def _moving_std(y: np.ndarray, n: int) -> np.ndarray:
    """Root mean over the columns of the variance in windows of n samples, (T - n + 1,)."""
    y = y - y.mean(0)
    sums = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(y, axis=0)])
    squares = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(y * y, axis=0)])
    mean = (sums[n:] - sums[:-n]) / n
    return np.sqrt(np.maximum((squares[n:] - squares[:-n]) / n - mean**2, 0.0).mean(1))


def noise_at_rest(
    log: Log, channel: str, *, scale: float | np.ndarray = 1.0, unit: str | None = None, seed: int = 0
) -> Noise:
    """Noise of a channel from its stretches of rest.

    Args:
        log: a recording with rest in it.
        channel: what to look at.
        scale: units per recorded unit, one number or one per column; for raw counts.
        unit: the unit after scaling.
        seed: of the bootstrap.
    """
    rests = stretches_of_rest(log, channel)
    rests = tuple(Rest(start=r.start, dt=r.dt, values=r.values * scale) for r in rests)
    allan, rng = _Allan(rests), np.random.default_rng(seed)
    white, walk = allan.white_and_walk()
    drawn = allan.drawn(rng) if len(rests) >= 5 else _within(rests, rng)
    ends = np.quantile(drawn, [0.05, 0.95], axis=0)
    long = _detrended(rests)
    means = np.stack([r.values.mean(0) for r in rests])
    variance = (long**2).mean(0)
    peaked = float(np.mean((long**4).mean(0) / np.maximum(variance, 1e-300) ** 2))
    return Noise(
        channel=channel, unit=unit or log[channel].unit, white=white, walk=walk, std=np.sqrt(variance),
        quantum=_quantum(log, channel) * float(np.mean(scale)), white_interval=(float(ends[0, 0]), float(ends[1, 0])),
        walk_interval=(float(ends[0, 1]), float(ends[1, 1])), bias=means - means.mean(0), kurtosis=peaked,
        seconds=sum(r.seconds for r in rests), stretches=len(rests),
    )  # fmt: skip


def _detrended(rests: Sequence[Rest]) -> np.ndarray:
    """Readings less a straight line, stretch by stretch, (T, k)."""
    out = []
    for r in rests:
        t = np.linspace(-1.0, 1.0, len(r.values))[:, None]
        X = np.concatenate([np.ones_like(t), t], axis=1)
        out.append(r.values - X @ np.linalg.lstsq(X, r.values, rcond=None)[0])
    return np.concatenate(out)


def _within(rests: Sequence[Rest], rng: np.random.Generator) -> np.ndarray:
    """White and walk of ten blocks of the longest stretch drawn anew: for recordings of few stretches, (draws, 2)."""
    longest = max(rests, key=lambda r: len(r.values))
    blocks = [Rest(start=0.0, dt=longest.dt, values=part) for part in np.array_split(longest.values, 10)]
    if min(len(b.values) for b in blocks) < 20:
        blocks = [longest]
    return _Allan(blocks).drawn(rng)


class _Allan:
    """Allan variances of several stretches on common averaging times, so that drawing stretches anew costs nothing."""

    def __init__(self, rests: Sequence[Rest]):
        self.dt = rests[0].dt
        longest = max(len(r.values) for r in rests)
        self.lengths = np.unique(np.geomspace(1, max(longest // 10, 2), 20).round().astype(int))
        self.total, self.weight = np.zeros((len(rests), len(self.lengths))), np.zeros((len(rests), len(self.lengths)))
        for i, r in enumerate(rests):
            some = self.lengths[self.lengths <= max(len(r.values) // 4, 1)]
            count = len(r.values) / some * r.values.shape[1]
            self.total[i, : len(some)] = allan_deviation(r.values, self.dt, some) ** 2 * count
            self.weight[i, : len(some)] = count

    def white_and_walk(self, rows: np.ndarray | None = None) -> tuple[float, float]:
        """N and K of all axes and some stretches together (all when left out)."""
        rows = np.arange(len(self.total)) if rows is None else rows
        weight = self.weight[rows].sum(0)
        used = weight > 0
        lengths, weight = self.lengths[used], weight[used]
        variance = self.total[rows].sum(0)[used] / weight
        if not (variance > 0).any():
            return 0.0, 0.0
        from scipy.optimize import nnls

        # A bias that steps once a sample has the walk term (2 m² + 1) / (6 m), which is m / 3 for long times.
        parts = np.stack([1 / (lengths * self.dt), self.dt * (2 * lengths**2 + 1) / (6 * lengths)], axis=1)
        row = np.sqrt(weight) / np.maximum(variance, 1e-300)
        squares, _ = nnls(parts * row[:, None], variance * row)
        return float(np.sqrt(squares[0])), float(np.sqrt(squares[1]))

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """N and K of stretches drawn anew, (BOOTSTRAP, 2)."""
        n = len(self.total)
        return np.array([self.white_and_walk(rng.integers(0, n, n)) for _ in range(BOOTSTRAP)])


def _quantum(log: Log, channel: str) -> float:
    """Smallest step between values of a channel that most steps are whole multiples of; 0: none."""
    steps = []
    for column in log[channel].values.T:
        values = np.unique(column)
        if len(values) < 3:
            continue
        gaps = np.diff(values)
        gaps = gaps[gaps > 1e-12 * max(np.abs(values).max(), 1e-300)]
        step = float(np.quantile(gaps, 0.05))
        whole = gaps / step
        if len(values) < 0.5 * len(column) and np.median(np.abs(whole - np.round(whole))) < 0.05:
            steps.append(step)
    return float(np.median(steps)) if steps else 0.0


# -------------------------------------------------------------------- Params and Priors


@dataclass(frozen=True, kw_only=True, eq=False)
class SensorFit:
    """Noise Params with what a recording at rest says about them.

    Attributes:
        params: bound Params, bounds three times wider than the intervals.
        e: best values, one world.
        prior: p(e | recording): log-normal over the intervals.
        samples: one row a stretch of rest: what white noise and walk do not describe.
        noises: by channel.
    """

    params: Params
    e: Mapping[str, np.ndarray]
    prior: Prior
    samples: Prior
    noises: Mapping[str, Noise] = field(default_factory=dict)


def fit_imu_noise(
    log: Log, channels: Mapping[str, str] | None = None, *, scales: Mapping[str, float] | None = None, seed: int = 0
) -> SensorFit:
    """Noise density and bias walk of gyro and accelerometer, as Params that a Sim takes.

    Args:
        log: a recording with rest in it.
        channels: sensor ("gyro", "accel") -> channel of the log; those of the same name when left out.
        scales: sensor -> SI units per recorded unit.
        seed: of the bootstrap.
    """
    channels = {n: n for n in KINDS if n in log} if channels is None else dict(channels)
    if not channels:
        raise InputError(
            f"this log has neither gyro nor accel (it has {', '.join(log.names)}): say which channel is which"
        )
    params: dict[str, Param] = {}
    values: dict[str, float] = {}
    ends: dict[str, tuple[float, float]] = {}
    rows: dict[str, np.ndarray] = {}
    noises = {}
    for sensor, channel in channels.items():
        choose(sensor, KINDS, "an inertial sensor")
        if log[channel].unit == "count" and sensor not in (scales or {}):
            raise InputError(
                f"'{channel}' is in counts: give scales={{'{sensor}': SI units per count}}, see accel_scale and gyro_scale"
            )
        noise = noise_at_rest(log, channel, scale=(scales or {}).get(sensor, 1.0), seed=seed)
        noises[sensor] = noise
        for kind, value, interval in zip(
            KINDS[sensor], (noise.white, noise.walk), (noise.white_interval, noise.walk_interval), strict=True
        ):
            if not value > 0.0 or not interval[0] > 0.0:
                continue
            params[kind] = Param(
                kind=kind,
                low=interval[0] / 3,
                high=3 * interval[1],
                nominal=value,
                scale="log",
                source=f"Allan variance of {noise.seconds:.0f} s at rest",
            )
            values[kind], ends[kind] = value, interval
        white = KINDS[sensor][0]
        if white in params:
            rests = stretches_of_rest(log, channel)
            scale = (scales or {}).get(sensor, 1.0)
            allan = _Allan(rests)
            each = np.array([allan.white_and_walk(np.array([i]))[0] * scale for i in range(len(rests))])
            rows[white] = np.clip(each, params[white].low, params[white].high)
    schema = Params(**params)
    bound = schema.bind({name: () for name in schema})
    from surefoot.params import LogNormal

    beliefs = {
        k: LogNormal(median=values[k], sigma=max(float(np.log(ends[k][1] / ends[k][0]) / 3.29), 0.01)) for k in params
    }
    count = min((len(r) for r in rows.values()), default=0)
    samples = (
        Prior.samples(bound, {k: r[:count] for k, r in rows.items()}) if count else Prior.independent(bound, beliefs)
    )
    return SensorFit(
        params=bound,
        e={k: np.array([v]) for k, v in values.items()},
        prior=Prior.independent(bound, beliefs),
        samples=samples,
        noises=noises,
    )


def fit_encoder_noise(log: Log, channel: str = "joint_pos", *, seed: int = 0) -> SensorFit:
    """Noise and quantum of encoders at rest: σ² of a reading less quantum²/12, as Params that a Sim takes."""
    noise = noise_at_rest(log, channel, seed=seed)
    std = float(np.sqrt(max(float((noise.std**2).mean()) - noise.quantum**2 / 12, 0.0)))
    std = std if std > 1e-9 * max(float(np.abs(log[channel].values).max()), 1e-300) else 0.0
    relative = noise.white_interval[1] / max(noise.white, 1e-300)
    params, values = {}, {}
    if std > 0:
        values["encoder_noise"] = std
        params["encoder_noise"] = Param(
            kind="encoder_noise",
            low=std / 10,
            high=10 * std,
            nominal=std,
            scale="log",
            source=f"{noise.seconds:.0f} s at rest",
        )
    if noise.quantum > 0:
        values["encoder_quantum"] = noise.quantum
        params["encoder_quantum"] = Param(
            kind="encoder_quantum",
            low=noise.quantum / 2,
            high=2 * noise.quantum,
            nominal=noise.quantum,
            scale="log",
            source="smallest step in the recording",
        )
    if not params:
        raise InputError(f"'{channel}' shows neither noise nor steps at rest: there is nothing to fit")
    schema = Params(**params)
    bound = schema.bind({name: () for name in schema})
    from surefoot.params import LogNormal, Point

    beliefs = {}
    if std > 0:
        beliefs["encoder_noise"] = LogNormal(median=std, sigma=max(float(np.log(max(relative, 1.01)) / 1.645), 0.01))
    if noise.quantum > 0:
        beliefs["encoder_quantum"] = Point(value=noise.quantum)
    prior = Prior.independent(bound, beliefs)
    return SensorFit(
        params=bound,
        e={k: np.array([v]) for k, v in values.items()},
        prior=prior,
        samples=prior,
        noises={channel: noise},
    )
