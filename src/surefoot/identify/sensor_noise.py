"""Sensor noise from recordings at rest: densities, bias walks, quanta, with intervals; as Params, values and a Prior.

    rest: stretches whose moving standard deviation is near the recording's lowest
    white: σ²(τ) = N²/τ + K² τ/3 (Allan variance, overlapping, all axes and stretches together); N white density, K walk of the bias
    quantum: the smallest step between values that a channel has
    accelerometers in counts: |(a − b) · s| = g in every pose gives scale s and offset b of each axis

Intervals come from drawing stretches anew (bootstrap): stretches differ more than white noise within one does. What white noise and
walk do not describe is kept: the residual of each stretch as a samples Prior.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.logs import Log
from surefoot.logs.allan import allan_deviation, white_and_walk
from surefoot.params import Param, Params, Prior

G = 9.80665
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
    n = max(int(round(STILL / dt)), 3)
    if len(c) < 4 * n:
        raise InputError(f"'{channel}' has {len(c)} samples, {4 * n} are needed to tell rest from motion: record longer")
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


def noise_at_rest(log: Log, channel: str, *, scale: float | np.ndarray = 1.0, unit: str | None = None, seed: int = 0) -> Noise:
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
    white, walk = _white_and_walk(rests)
    rng = np.random.default_rng(seed)
    drawn = np.array([_white_and_walk([rests[i] for i in rng.integers(0, len(rests), len(rests))]) for _ in range(BOOTSTRAP)])
    if len(rests) < 5:
        drawn = _within(rests, rng)
    ends = np.quantile(drawn, [0.05, 0.95], axis=0)
    inside = np.concatenate([r.values - r.values.mean(0) for r in rests])
    long = _detrended(rests)
    means = np.stack([r.values.mean(0) for r in rests])
    variance = (long**2).mean(0)
    return Noise(
        channel=channel, unit=unit or log[channel].unit, white=white, walk=walk, std=np.sqrt(variance), quantum=_quantum(log, channel) * float(np.mean(scale)),
        white_interval=(float(ends[0, 0]), float(ends[1, 0])), walk_interval=(float(ends[0, 1]), float(ends[1, 1])),
        bias=means - means.mean(0), kurtosis=float(np.mean((long**4).mean(0) / variance**2)), seconds=sum(r.seconds for r in rests), stretches=len(rests),
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
    return np.array([_white_and_walk([blocks[i] for i in rng.integers(0, len(blocks), len(blocks))]) for _ in range(BOOTSTRAP)])


def _white_and_walk(rests: Sequence[Rest]) -> tuple[float, float]:
    """N and K of all stretches and axes together: Allan variances averaged with the weight of their number of means."""
    dt = rests[0].dt
    longest = max(len(r.values) for r in rests)
    lengths = np.unique(np.geomspace(1, max(longest // 10, 2), 20).round().astype(int))
    total, weight = np.zeros(len(lengths)), np.zeros(len(lengths))
    for r in rests:
        some = lengths[lengths <= max(len(r.values) // 4, 1)]
        variance = allan_deviation(r.values, dt, some) ** 2
        count = len(r.values) / some * r.values.shape[1]
        total[: len(some)] += variance * count
        weight[: len(some)] += count
    used = weight > 0
    lengths, variance, weight = lengths[used], total[used] / weight[used], weight[used]
    if not (variance > 0).any():
        return 0.0, 0.0
    parts = np.stack([1 / (lengths * dt), dt * (2 * lengths**2 + 1) / (6 * lengths)], axis=1)
    from scipy.optimize import nnls

    row = np.sqrt(weight) / np.maximum(variance, 1e-300)
    squares, _ = nnls(parts * row[:, None], variance * row)
    return float(np.sqrt(squares[0])), float(np.sqrt(squares[1]))


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


# -------------------------------------------------------------------- accelerometers in counts


@dataclass(frozen=True, kw_only=True, eq=False)
class Scale:
    """reading [SI] = (count − offset) · factor, from poses at rest.

    Attributes:
        offset, factor: of each axis, (3,).
        residual: root mean square of |a| − g over the poses [m/s²]; for a gyro, median error of gravity after a turn [rad].
        poses: number of them.
    """

    offset: np.ndarray
    factor: np.ndarray
    residual: float
    poses: int


def accel_scale(log: Log, channel: str = "accel_raw") -> Scale:
    """Scale and offset of an accelerometer that was held still in several poses: |a| = g in all of them."""
    from scipy.optimize import least_squares

    rests = stretches_of_rest(log, channel)
    means = np.stack([r.values.mean(0) for r in rests])
    weights = np.sqrt([r.seconds for r in rests])
    if len(means) < 9:
        raise InputError(f"{len(means)} poses at rest cannot give scale and offset of three axes: hold it still in at least 9")
    offset, half = 0.5 * (means.max(0) + means.min(0)), 0.5 * np.ptp(means, axis=0)
    if (half < 1e-6 * np.abs(means).max()).any():
        raise InputError("the poses do not turn every axis: hold the sensor still with each axis up and down")
    start = np.concatenate([offset, G / half])

    def rest(x: np.ndarray) -> np.ndarray:
        return weights * (np.linalg.norm((means - x[:3]) * x[3:], axis=1) - G)

    found = least_squares(rest, start, x_scale=np.abs(start) + 1e-12, loss="soft_l1", f_scale=0.05)
    off = np.linalg.norm((means - found.x[:3]) * found.x[3:], axis=1) - G
    return Scale(offset=found.x[:3], factor=found.x[3:], residual=float(np.sqrt((off**2).mean())), poses=len(means))


def gyro_scale(log: Log, accel: Scale, channel: str = "gyro_raw", accel_channel: str = "accel_raw") -> Scale:
    """Scale of a gyro in counts, from turns between poses at rest: ∫ω dt must turn gravity from one pose to the next.

    Its offset is the mean of each pose at rest before the turn.
    """
    from scipy.optimize import least_squares

    rests = stretches_of_rest(log, accel_channel)
    gravity = np.stack([(r.values.mean(0) - accel.offset) * accel.factor for r in rests])
    gravity /= np.linalg.norm(gravity, axis=1, keepdims=True)
    c = log[channel]
    dt = float(np.median(np.diff(c.t)))
    ends = [(a.start + a.seconds - 0.5, b.start + 0.5) for a, b in zip(rests, rests[1:], strict=False)]
    parts = [c.values[(c.t >= a) & (c.t < b)] for a, b in ends]
    quiet = [c.values[(c.t >= a.start) & (c.t < a.start + a.seconds)].mean(0) for a in rests[:-1]]
    turned = np.array([np.ptp(p, axis=0).max() for p in parts]) > 0
    if turned.sum() < 6:
        raise InputError("fewer than 6 turns between poses at rest: turn the sensor about every axis between poses")
    longest = max(len(p) for p in parts)
    rate = np.zeros((len(parts), longest, 3))
    for i, (p, q) in enumerate(zip(parts, quiet, strict=True)):
        rate[i, : len(p)] = p - q

    def after(factor: np.ndarray) -> np.ndarray:
        """Gravity after each turn as the gyro saw it, (turns, 3): g' = −ω × g, one rotation a sample."""
        g = gravity[:-1].copy()
        for k in range(longest):
            w = rate[:, k] * factor * dt
            angle = np.linalg.norm(w, axis=1, keepdims=True)
            axis = -w / np.where(angle > 0, angle, 1.0)
            g = g * np.cos(angle) + np.cross(axis, g) * np.sin(angle) + axis * (axis * g).sum(1, keepdims=True) * (1 - np.cos(angle))
        return g

    guess = max((np.linspace(0.2, 5.0, 40) * 2e-4).tolist(), key=lambda f: float((after(np.full(3, f)) * gravity[1:]).sum()))
    found = least_squares(lambda x: (after(guess * x) - gravity[1:]).reshape(-1), np.ones(3), loss="soft_l1", f_scale=0.05)
    off = np.linalg.norm(after(guess * found.x) - gravity[1:], axis=1)
    return Scale(offset=np.mean(quiet, axis=0), factor=guess * found.x, residual=float(np.median(off)), poses=len(rests))


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


def fit_imu_noise(log: Log, channels: Mapping[str, str] | None = None, *, scales: Mapping[str, float] | None = None, seed: int = 0) -> SensorFit:
    """Noise density and bias walk of gyro and accelerometer, as Params that a Sim takes.

    Args:
        log: a recording with rest in it.
        channels: sensor ("gyro", "accel") -> channel of the log; those of the same name when left out.
        scales: sensor -> SI units per recorded unit.
        seed: of the bootstrap.
    """
    channels = {n: n for n in KINDS if n in log} if channels is None else dict(channels)
    if not channels:
        raise InputError(f"this log has neither gyro nor accel (it has {', '.join(log.names)}): say which channel is which")
    params: dict[str, Param] = {}
    values: dict[str, float] = {}
    ends: dict[str, tuple[float, float]] = {}
    rows: dict[str, np.ndarray] = {}
    noises = {}
    for sensor, channel in channels.items():
        choose(sensor, KINDS, "an inertial sensor")
        if log[channel].unit == "count" and sensor not in (scales or {}):
            raise InputError(f"'{channel}' is in counts: give scales={{'{sensor}': SI units per count}}, see accel_scale and gyro_scale")
        noise = noise_at_rest(log, channel, scale=(scales or {}).get(sensor, 1.0), seed=seed)
        noises[sensor] = noise
        for kind, value, interval in zip(KINDS[sensor], (noise.white, noise.walk), (noise.white_interval, noise.walk_interval), strict=True):
            if not value > 0.0 or not interval[0] > 0.0:
                continue
            params[kind] = Param(kind=kind, low=interval[0] / 3, high=3 * interval[1], nominal=value, scale="log", source=f"Allan variance of {noise.seconds:.0f} s at rest")
            values[kind], ends[kind] = value, interval
        white = KINDS[sensor][0]
        if white in params:
            rests = stretches_of_rest(log, channel)
            scale = (scales or {}).get(sensor, 1.0)
            each = np.array([_white_and_walk([r])[0] * scale for r in rests])
            rows[white] = np.clip(each, params[white].low, params[white].high)
    schema = Params(**params)
    bound = schema.bind({name: () for name in schema})
    from surefoot.params import LogNormal

    beliefs = {k: LogNormal(median=values[k], sigma=max(float(np.log(ends[k][1] / ends[k][0]) / 3.29), 0.01)) for k in params}
    count = min((len(r) for r in rows.values()), default=0)
    samples = Prior.samples(bound, {k: r[:count] for k, r in rows.items()}) if count else Prior.independent(bound, beliefs)
    return SensorFit(
        params=bound, e={k: np.array([v]) for k, v in values.items()}, prior=Prior.independent(bound, beliefs), samples=samples, noises=noises
    )


def fit_encoder_noise(log: Log, channel: str = "joint_pos", *, seed: int = 0) -> SensorFit:
    """Noise and quantum of encoders at rest: σ² of a reading less quantum²/12, as Params that a Sim takes."""
    noise = noise_at_rest(log, channel, seed=seed)
    std = float(np.sqrt(max(float((noise.std**2).mean()) - noise.quantum**2 / 12, 0.0)))
    relative = noise.white_interval[1] / max(noise.white, 1e-300)
    params, values = {}, {}
    if std > 0:
        values["encoder_noise"] = std
        params["encoder_noise"] = Param(kind="encoder_noise", low=std / 10, high=10 * std, nominal=std, scale="log", source=f"{noise.seconds:.0f} s at rest")
    if noise.quantum > 0:
        values["encoder_quantum"] = noise.quantum
        params["encoder_quantum"] = Param(kind="encoder_quantum", low=noise.quantum / 2, high=2 * noise.quantum, nominal=noise.quantum, scale="log", source="smallest step in the recording")
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
    return SensorFit(params=bound, e={k: np.array([v]) for k, v in values.items()}, prior=prior, samples=prior, noises={channel: noise})


__all__ = [
    "Noise", "Rest", "Scale", "SensorFit", "accel_scale", "gyro_scale", "fit_encoder_noise", "fit_imu_noise", "noise_at_rest", "stretches_of_rest", "white_and_walk",
]  # fmt: skip
