"""Sensor noise from recordings at rest, as Params, values with intervals, and two Priors.

    gyro, accel   white density N and walk K of the bias: see rest.py
    encoder       σ² = N²/dt − quantum²/12; below half a step the noise does not show, and only "at most" is said
    prior         one value for the whole recording, as uncertain as its interval
    samples       the level of each block of 2 s, N √(V_block / mean V): how noise differs from time to time; all sensors of a block stand
                  in one row, so that a vibration that all of them feel stays one

`samples` is what the recording shows without a law of its own; rows differ by their estimation too, and a remark says by how much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.identify.fit_table import aligned
from surefoot.identify.rest import SHORTEST, RestNoise, blocks_of_rest, noise_at_rest
from surefoot.logs import Log
from surefoot.params import LogNormal, Param, Params, Point, Prior, Uniform
from surefoot.params.distribution import Distribution

BLOCK = SHORTEST
"""[s] Length of the blocks whose levels `samples` holds; the shortest stretch of rest gives one."""
FEWEST = 20
"""Blocks below which there are no samples to draw from."""
HOPS = 0.5
"""Noise of an encoder, in its steps, below which readings only hop between two of them and do not tell how large it is."""
MISSED = 0.25
"""Share by which white noise and walk may miss the Allan deviation before it is said."""
UNEQUAL = 0.01
"""Share by which the steps of columns may differ before it is said."""
DEFAULT = {"gyro": "gyro", "accel": "accel", "encoder": "joint_pos"}
"""By sensor, the channel it is read from unless told otherwise."""
CALMEST = {"gyro": (0.1, "rad/s"), "accel": (1.0, "m/s²"), "encoder": (0.01, "rad")}
"""How much readings may move within 2 s: above it nothing was at rest, however calm beside the rest of the recording."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One noise Param as rest shows it.

    Attributes:
        kind: of the Param.
        value: best value.
        interval: 90 %; one that begins at 0 says only "at most".
        of: joints that it belongs to; the whole world's when left out.
        reach: smallest and largest of its samples, which the bounds must hold too.
        source: where it comes from.
    """

    kind: str
    value: float
    interval: tuple[float, float]
    of: tuple[str, ...] | str = ".*"
    reach: tuple[float, float] | None = None
    source: str

    @property
    def identified(self) -> bool:
        """Whether the recording says more than "at most"."""
        return self.interval[0] > 0.0

    @property
    def param(self) -> Param:
        """The unknown: bounds three times wider than the interval; from 0 to "at most" where it is not identified."""
        low, high = self.interval
        common = {"kind": self.kind, "of": self.of, "nominal": self.value, "source": self.source}
        if not self.identified:
            return Param(low=0.0, high=high, **common)
        reach = self.reach or self.interval
        low, high = min(low / 3, reach[0]), max(3 * high, reach[1])
        return Param(low=low, high=high, scale="log" if low > 0 else "linear", **common)

    @property
    def belief(self) -> Distribution:
        """What is believed of it: log-normal over the interval, a known value, or anything up to "at most"."""
        low, high = self.interval
        if not self.identified:
            return Uniform(low=0.0, high=high)
        if low == high:
            return Point(value=self.value)
        return LogNormal(median=self.value, sigma=float(np.log(high / low)) / 3.29)


@dataclass(frozen=True, kw_only=True, eq=False)
class SensorFit:
    """Noise Params with what recordings at rest say about them.

    Attributes:
        figures: value and interval of each Param, by name.
        prior: p(e | recordings), one value for all time: log-normal over the interval, uniform up to "at most".
        samples: a row for each block of 2 s at rest, over the same Params; what a block cannot show (walks, steps) is as in `prior`. None
            where there are too few, and `remarks` says so.
        blocks: number of those rows.
        noises: by sensor.
        remarks: what must be known before this is used; the last is about the samples.
    """

    figures: Mapping[str, Figure]
    prior: Prior
    samples: Prior | None
    blocks: int = 0
    noises: Mapping[str, RestNoise] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def params(self) -> Params:
        """The noise Params, bound."""
        return self.prior.params

    @property
    def e(self) -> dict[str, np.ndarray]:
        """Best values, one world."""
        return {name: np.array([figure.value]) for name, figure in self.figures.items()}

    @property
    def beliefs(self) -> dict[str, Distribution]:
        """What is believed of each, for a prior over more Params: `sim.params.prior().replace(fit.beliefs)`."""
        return {name: figure.belief for name, figure in self.figures.items()}

    @property
    def at_most(self) -> dict[str, float]:
        """Params that are not identified, and what they are at most."""
        return {name: figure.interval[1] for name, figure in self.figures.items() if not figure.identified}

    def text(self, stated: Mapping[str, str] | None = None) -> str:
        """Table for people, beside what a robot file has `stated` of each Param."""
        rows = [("", "value", "90% interval", "unit", *(["robot file"] if stated else []), "")]
        for name, figure in self.figures.items():
            low, high = figure.interval
            shown, remark = f"{low:.4g} .. {high:.4g}", "" if figure.identified else "not identified"
            if not figure.identified:
                shown = f"at most {high:.2g}"
            value = f"{figure.value:.4g}" if figure.identified else ""
            rows.append((name, value, shown, figure.param.unit, *([stated[name]] if stated else []), remark))
        heard = [f"{s}: {n.seconds:.0f} s at rest in {n.stretches} stretches" for s, n in self.noises.items()]
        return "\n".join([aligned(rows), "", *heard, *self.remarks])

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Source:
    """Where one sensor is read: a channel, or the columns of one unit, of the logs with these numbers."""

    sensor: str
    name: str
    """As it is called in tables: "encoder" or, beside others in other units, "encoder [m]"."""
    suffix: str
    channel: str
    columns: tuple[str, ...]
    scale: float | np.ndarray
    logs: tuple[int, ...]

    @property
    def white(self) -> str:
        """Name of the Param that says how large its white noise is."""
        return f"{self.sensor}_noise{self.suffix}"


def fit_sensor_noise(
    logs: Log | Sequence[Log],
    channels: Mapping[str, str] | None = None,
    *,
    scales: Mapping[str, float | np.ndarray] | None = None,
) -> SensorFit:
    """Noise of gyro, accelerometer and encoders, as Params that a Sim takes.

    Args:
        logs: recordings with rest in them; each sensor is read where it was recorded.
        channels: sensor ("gyro", "accel", "encoder") -> channel of the logs; None: gyro, accel, joint_pos where the logs have them.
        scales: sensor -> SI units per recorded unit, one number or one per column; for raw counts, see sensor_scale.py.
    """
    logs = (logs,) if isinstance(logs, Log) else tuple(logs)
    figures: dict[str, Figure] = {}
    noises: dict[str, RestNoise] = {}
    remarks: list[str] = []
    shown: list[_Source] = []
    for source in _sources(logs, channels, scales or {}):
        unit = CALMEST[source.sensor][1] if source.sensor in (scales or {}) else None
        found = noise_at_rest(
            [logs[i] for i in source.logs], source.channel, columns=source.columns, scale=source.scale, unit=unit
        )
        noise = replace(found, rests=tuple(replace(r, log=source.logs[r.log]) for r in found.rests))
        _check_rest(source, noise)
        own = _encoder_figures(source, noise) if source.sensor == "encoder" else _imu_figures(source, noise)
        if not own:
            remarks.append(
                f"'{source.channel}' shows neither noise nor steps at rest: nothing can be said about its noise"
            )
            continue
        figures |= own
        noises[source.name] = noise
        remarks += _doubts(source, noise)
        shown += [source] if figures[source.white].identified else []
    if not figures:
        raise InputError(remarks[0])
    rows, said = _levels(logs, shown, noises, figures)
    return _with_priors(figures, rows, noises, (*remarks, *said))


def fit_imu_noise(
    logs: Log | Sequence[Log],
    channels: Mapping[str, str] | None = None,
    *,
    scales: Mapping[str, float | np.ndarray] | None = None,
) -> SensorFit:
    """Noise density and bias walk of gyro and accelerometer: `fit_sensor_noise` of these two alone."""
    every = (logs,) if isinstance(logs, Log) else tuple(logs)
    if channels is None:
        channels = {name: name for name in ("gyro", "accel") if any(name in log for log in every)}
    if not channels:
        names = ", ".join(dict.fromkeys(n for log in every for n in log.names))
        raise InputError(f"this log has neither gyro nor accel (it has {names}): say which channel is which")
    for sensor in channels:
        choose(sensor, ("gyro", "accel"), "an inertial sensor")
    return fit_sensor_noise(every, channels, scales=scales)


def fit_encoder_noise(logs: Log | Sequence[Log], channel: str = "joint_pos") -> SensorFit:
    """Noise and steps of encoders: `fit_sensor_noise` of these alone."""
    return fit_sensor_noise(logs, {"encoder": channel})


# -------------------------------------------------------------------- sensors


def _sources(
    logs: Sequence[Log], channels: Mapping[str, str] | None, scales: Mapping[str, float | np.ndarray]
) -> list[_Source]:
    """What is read where; columns in different units are sensors of their own."""
    names = tuple(dict.fromkeys(n for log in logs for n in log.names))
    if not channels:
        channels = {sensor: channel for sensor, channel in DEFAULT.items() if channel in names}
        if not channels:
            raise InputError(
                f"the logs have none of gyro, accel, joint_pos (they have {', '.join(names)}): say which channel is which"
            )
    for sensor in scales:
        choose(sensor, channels, "a sensor that is fitted here")
    out = []
    for sensor, channel in channels.items():
        choose(sensor, DEFAULT, "a sensor whose noise can be fitted")
        choose(channel, names, "a channel of these logs")
        having = tuple(i for i, log in enumerate(logs) if channel in log)
        first = logs[having[0]][channel]
        if any(logs[i][channel].columns != first.columns or logs[i][channel].units != first.units for i in having):
            raise InputError(f"'{channel}' has other columns or units in some of the logs: fit them one by one")
        if "count" in first.units and sensor not in scales:
            raise InputError(
                f"'{channel}' is in counts: give scales={{'{sensor}': SI units per count}}, see accel_scale and gyro_scale"
            )
        units = dict.fromkeys(first.units)
        for unit in units:
            alone = len(units) == 1
            columns = tuple(c for c, u in zip(first.columns, first.units, strict=True) if u == unit)
            out.append(_Source(
                sensor=sensor, name=sensor if alone else f"{sensor} [{unit}]", suffix="" if alone else f"_{unit}", channel=channel,
                columns=columns, scale=scales.get(sensor, 1.0), logs=having,
            ))  # fmt: skip
    return out


def _check_rest(source: _Source, noise: RestNoise) -> None:
    """Refuse a recording whose calmest part still moves."""
    most, unit = CALMEST[source.sensor]
    if noise.moves > most:
        raise InputError(
            f"the calmest part of '{source.channel}' still moves by {noise.moves:.2g} {unit} ({most:g} at most is rest): "
            "record a minute with the robot lying still"
        )


def _imu_figures(source: _Source, noise: RestNoise) -> dict[str, Figure]:
    if not noise.std.any():
        return {}
    told = f"Allan variance of {noise.seconds:.0f} s at rest"
    white, walk = f"{source.sensor}_noise", f"{source.sensor}_walk"
    return {
        f"{white}{source.suffix}": Figure(kind=white, value=noise.white, interval=noise.white_interval, source=told),
        f"{walk}{source.suffix}": Figure(kind=walk, value=noise.walk, interval=noise.walk_interval, source=told),
    }


def _encoder_figures(source: _Source, noise: RestNoise) -> dict[str, Figure]:
    out: dict[str, Figure] = {}
    step = float(np.median(noise.quantum[noise.quantum > 0])) if noise.quantum.any() else 0.0
    rounding = 1e-9 * max(float(np.abs(r.values).max()) for r in noise.rests)  # of a decimal or a float32: no noise
    told = f"{noise.seconds:.0f} s at rest"
    ends = [float(np.sqrt(max(v**2 / noise.dt - step**2 / 12, 0.0))) for v in (noise.white, *noise.white_interval)]
    if step > 0 and ends[0] < HOPS * step:
        ends = [0.0, 0.0, HOPS * step]
    if step > 0 or float(noise.std.max()) > rounding:
        out[source.white] = Figure(
            kind="encoder_noise", value=ends[0], interval=(ends[1], ends[2]), of=source.columns, source=told
        )
    if step > 0:
        out[f"encoder_quantum{source.suffix}"] = Figure(
            kind="encoder_quantum", value=step, interval=(step, step), of=source.columns, reach=(step / 2, 2 * step),
            source="smallest step in the recording",
        )  # fmt: skip
    return out


def _doubts(source: _Source, noise: RestNoise) -> list[str]:
    """What makes the figures of a sensor doubtful, a sentence each."""
    out, seen = [], noise.quantum[noise.quantum > 0]
    if source.sensor != "encoder" and noise.misfit > MISSED:
        out.append(
            f"{source.name}: white noise and walk miss the Allan deviation by up to {noise.misfit:.0%}: "
            "the sensor filters its readings, or the robot was not quite still"
        )
    if not noise.normal and noise.std.any():
        out.append(f"{source.name}: readings are not normal (kurtosis {noise.kurtosis:.1f}), those of a Sim are")
    if source.sensor == "encoder" and len(seen) and np.ptp(seen) > UNEQUAL * seen.min():
        out.append(
            f"{source.name}: steps differ between columns, {seen.min():.3g} to {seen.max():.3g}; their median is used for all"
        )
    return out


# -------------------------------------------------------------------- levels of blocks


def _levels(
    logs: Sequence[Log], sources: Sequence[_Source], noises: Mapping[str, RestNoise], figures: Mapping[str, Figure]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Level of each white noise in every block in which all are at rest, (blocks,) by Param; and what to say about it."""
    if not sources:
        return {}, ["no samples: no level of noise is identified"]
    clocks = {logs[i][s.channel].clock for s in sources for i in s.logs}
    if len(clocks) > 1:
        return {}, [
            f"no samples: blocks cannot be paired over the clocks {', '.join(sorted(clocks))}: align them first"
        ]
    length = max(BLOCK, *[FEWEST * noises[s.name].dt for s in sources])
    sensors = " and ".join(s.name for s in sources)
    variance, counts = blocks_of_rest([noises[s.name].rests for s in sources], length)
    if len(variance) < FEWEST:
        return {}, [
            f"no samples: {len(variance)} blocks of {length:g} s with {sensors} at rest are too few to draw from, {FEWEST} are needed: "
            f"record {FEWEST * length:.0f} s at rest"
        ]
    rows, told = {}, []
    for i, source in enumerate(sources):
        alone, _ = blocks_of_rest([noises[source.name].rests], length)
        level = np.sqrt(variance[:, i] / alone.mean())
        rows[source.white] = figures[source.white].value * level
        steady = 0.5 * np.sqrt(2.0 / np.median(counts[:, i]))
        told.append(f"{source.white} scatters by {level.std(ddof=1):.1%}, steady white noise would by {steady:.1%}")
    return rows, [f"samples: {len(variance)} blocks of {length:g} s; " + "; ".join(told)]


def _with_priors(
    figures: Mapping[str, Figure],
    rows: Mapping[str, np.ndarray],
    noises: Mapping[str, RestNoise],
    remarks: tuple[str, ...],
) -> SensorFit:
    """The fit with its two priors."""
    figures = {
        name: replace(f, reach=(float(rows[name].min()), float(rows[name].max()))) if name in rows else f
        for name, f in figures.items()
    }
    schema = Params(**{name: f.param for name, f in figures.items()})
    bound = schema.bind({name: () for name in schema})
    beliefs = {name: f.belief for name, f in figures.items()}
    others = {name: belief for name, belief in beliefs.items() if name not in rows}
    samples = Prior.samples(bound, dict(rows)).replace(others) if rows else None
    return SensorFit(
        figures=figures,
        prior=Prior.independent(bound, beliefs),
        samples=samples,
        blocks=min((len(r) for r in rows.values()), default=0),
        noises=dict(noises),
        remarks=remarks,
    )
