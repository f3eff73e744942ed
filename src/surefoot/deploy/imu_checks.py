"""IMU readings against each other and against gravity.

    R(t)ᵀ R(t + T) = exp(∫ ω dt)        attitude and gyro tell of one rotation
    a ≈ −9.81 m/s² · g                  on average the accelerometer feels the ground push up against gravity

Three readings of one motion: where two of them agree, the third is wrong, and the simplest change that makes it agree is named.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from surefoot.contract import projected_gravity
from surefoot.contract.channels import XYZ
from surefoot.deploy.compare import DEGREES, number
from surefoot.deploy.findings import Notes
from surefoot.deploy.recorded_run import Run

G = 9.81
"""[m/s²]"""
WINDOW = 0.06
"""[s] Over which rotations are compared."""
SETTLED = 2.5
"""[s] Of readings that a comparison needs: in its first seconds the robot's own attitude filter is still settling."""
TURNING = 0.05
"""[rad/s] rms turning rate below which a gyro cannot be judged."""
GOOD, BAD = 0.55, 0.75
"""Share of the turning rate that may stay unexplained where all is right, and from which on something is wrong."""
LEANING = 0.35
"""[rad] Largest mean angle between gravity and the accelerometer of a robot that moves about."""
TILTED, APART = 0.004, 0.05
"""[rad] Difference of gravity and attitude that is rounding, and one that is a fault also where nothing explains it."""
STILL = 0.4
"""[s] A reading that stays the same to the last bit for this long, while the body turns, is stuck."""
LATE = 0.025
"""[s] A gyro this much later than the attitude is a fault."""
AXES = [
    np.array([[s * (p == c) for c in range(3)] for s, p in zip(signs, order, strict=True)], dtype=float)
    for order in permutations(range(3))
    for signs in product((1.0, -1.0), repeat=3)
]
"""All 48 ways to swap and turn three axes, the identity first."""


@dataclass(frozen=True)
class Imu:
    """IMU readings on the gyro's time grid; (T, k), None where the log lacks them."""

    t: np.ndarray
    gyro: np.ndarray
    quat: np.ndarray | None
    gravity: np.ndarray | None
    accel: np.ndarray | None

    @property
    def dt(self) -> float:
        """Time between two samples [s]."""
        return float(np.median(np.diff(self.t)))

    @property
    def window(self) -> int:
        """Samples over which rotations are compared."""
        return max(2, round(WINDOW / self.dt))


def imu_of(run: Run) -> Imu | None:
    """The IMU's readings; None without a gyro."""
    if "gyro" not in run.log or len(run.log["gyro"]) < 20:
        return None
    t = run.log["gyro"].t

    def held(name: str) -> np.ndarray | None:
        return run.at(name, t) if name in run.log and t[0] >= run.log[name].t[0] - 1e-6 else None

    return Imu(t=t, gyro=run.values("gyro"), quat=held("quat"), gravity=held("gravity"), accel=held("accel"))


def check_imu(run: Run, notes: Notes) -> None:
    """Attitude, gyro, gravity and accelerometer agree."""
    imu = imu_of(run)
    if imu is None:
        if any(s in run.sources for s in ("gyro", "gravity", "quat", "accel")):
            notes.unchecked.append("imu: the log has no gyro of 20 samples or more")
        return
    _check_still(imu, notes)
    _check_size(imu, notes)
    if imu.t[-1] - imu.t[0] < SETTLED:
        notes.unchecked.append(
            f"imu: gyro, attitude and gravity against each other, the log has {imu.t[-1] - imu.t[0]:.2g} s of {SETTLED:g} s"
        )
    elif imu.quat is not None:
        _check_gravity(imu, notes)
        _check_quat(imu, notes)
    elif imu.gravity is not None:
        _check_gyro_by_gravity(imu, notes)
    else:
        notes.unchecked.append("gyro: needs quat or gravity to compare with")
    _check_accel(imu, notes)


# ---------------------------------------------------------------- single readings


def _check_still(imu: Imu, notes: Notes) -> None:
    """A reading that stays the same to the last bit for a while in which another one shows that the body turned."""
    readings = {"gyro": imu.gyro, "quat": imu.quat, "gravity": imu.gravity, "accel": imu.accel}
    smallest = {"gyro": 3 * TURNING, "quat": 0.03, "gravity": 0.03, "accel": np.inf}
    for name, value in readings.items():
        if value is None:
            continue
        edges = np.concatenate([[0], np.flatnonzero((np.diff(value, axis=0) != 0).any(axis=1)) + 1, [len(value)]])
        longest = int(np.argmax(np.diff(edges)))
        part = slice(int(edges[longest]), int(edges[longest + 1]))
        seconds = (part.stop - part.start) * imu.dt
        turned = [
            other
            for other, moving in readings.items()
            if moving is not None and other != name and np.ptp(moving[part], axis=0).max() > smallest[other]
        ]
        if seconds > STILL and turned:
            numbers = ", ".join(f"{v:.3g}" for v in value[part.start])
            detail = f"the same value ({numbers}) for {seconds:.3g} s in which {turned[0]} shows that the body turned"
            notes.find("driver", name, "stuck", detail)


def _check_size(imu: Imu, notes: Notes) -> None:
    """Unit vectors have length 1, and the accelerometer feels about 9.81 m/s² on average."""
    for name, value in (("quat", imu.quat), ("gravity", imu.gravity)):
        if value is None:
            continue
        size = float(np.median(np.linalg.norm(value, axis=1)))
        if abs(size - 1) > 0.05:
            hint = ": in m/s², a unit vector is meant" if abs(size / G - 1) < 0.05 else ""
            notes.find("driver", name, "scale", f"its length is {size:.4g}, 1 is meant{hint}")
    if imu.accel is not None:
        lengths = np.linalg.norm(imu.accel, axis=1)
        size, low = float(np.median(lengths)), float(np.quantile(lengths, 0.1))
        in_g = 0.7 < size < 1.4 and low > 0.4
        if in_g or size > 5 * G:
            hint = ": in g, m/s² is meant" if in_g else ""
            notes.find("driver", "accel", "scale", f"its median length is {size:.3g} m/s², about 9.81 is meant{hint}")
        elif not 0.5 * G < size < 2 * G:
            notes.unchecked.append(f"accel: its unit, it feels {size:.3g} m/s² (median): a body that falls or flies?")


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Angle between the rows of two arrays [rad], (T,)."""
    size = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return np.arccos(np.clip((a * b).sum(axis=-1) / np.maximum(size, 1e-9), -1, 1))


def _slow(values: np.ndarray, dt: float, seconds: float = 0.5) -> np.ndarray:
    """Means over `seconds`, every tenth of that, (m, k)."""
    n = min(len(values), max(1, round(seconds / dt)))
    total = np.cumsum(np.vstack([np.zeros((1, values.shape[1])), values]), axis=0)
    return ((total[n:] - total[:-n]) / n)[:: max(1, n // 10)]


def _felt(imu: Imu, gravity: np.ndarray) -> float:
    """Mean angle [rad] between gravity and what the accelerometer feels, each over half a second."""
    if imu.accel is None:
        return np.nan
    return float(np.median(_angle(-_slow(imu.accel, imu.dt), _slow(gravity, imu.dt))))


# ---------------------------------------------------------------- attitude


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of quaternions (..., 4), w,x,y,z."""
    w, x, y, z = (a[..., i] for i in range(4))
    p, q, r, s = (b[..., i] for i in range(4))
    return np.stack(
        (
            w * p - x * q - y * r - z * s,
            w * q + x * p + y * s - z * r,
            w * r - x * s + y * p + z * q,
            w * s + x * r - y * q + z * p,
        ),
        -1,
    )


def conjugate(q: np.ndarray) -> np.ndarray:
    """The inverse rotation of unit quaternions (..., 4)."""
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def turning(quat: np.ndarray, t: np.ndarray, n: int) -> np.ndarray:
    """Mean turning rate in the body frame over n samples from the attitude, (T − n, 3) [rad/s]."""
    step = multiply(conjugate(quat[:-n]), quat[n:])
    step = np.where(step[:, :1] < 0, -step, step)
    sine = np.linalg.norm(step[:, 1:], axis=1, keepdims=True)
    angle = 2 * np.arctan2(sine, step[:, :1])
    return step[:, 1:] / np.maximum(sine, 1e-12) * angle / (t[n:] - t[:-n])[:, None]


def mean_rate(gyro: np.ndarray, n: int) -> np.ndarray:
    """Mean over the same n intervals, (T − n, 3)."""
    middle = 0.5 * (gyro[1:] + gyro[:-1])
    total = np.cumsum(np.vstack([np.zeros((1, gyro.shape[1])), middle]), axis=0)
    return (total[n:] - total[:-n]) / n


def unexplained(gyro: np.ndarray, rate: np.ndarray) -> float:
    """Share of the turning that the two do not agree on, 0 .. about 2, over the axes that turn; constant biases do not count."""
    a, b = gyro - np.median(gyro - rate, axis=0), rate
    keep = (np.abs(a) <= np.quantile(np.abs(a), 0.99, axis=0) + 1e-9).all(axis=1)
    a, b = a[keep], b[keep]
    size = np.sqrt((a * a).mean(axis=0) * (b * b).mean(axis=0))
    turns = size > min(TURNING, 0.5 * float(size.max())) ** 2
    return float(np.sqrt(np.mean(((a - b) ** 2).mean(axis=0)[turns] / np.maximum(size[turns], 1e-12))))


def _attitudes(quat: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """Other readings of a quaternion: kind, sentence, values."""
    yield "quaternion order", "it comes as x,y,z,w, w,x,y,z is meant", np.roll(quat, 1, axis=1)
    yield "frame", "it is the inverse rotation: body from world instead of world from body", conjugate(quat)
    yield "quaternion order", "it comes as x,y,z,w, w,x,y,z is meant, and inverted", conjugate(np.roll(quat, 1, axis=1))
    yield "quaternion order", "it comes rotated by one place the other way", np.roll(quat, -1, axis=1)


def _check_gravity(imu: Imu, notes: Notes) -> None:
    """The channel gravity is the attitude's own."""
    quat, gravity = imu.quat, imu.gravity
    if quat is None or gravity is None:
        return
    own = projected_gravity(quat)
    off = float(np.median(_angle(own, gravity)))
    if off < TILTED:
        notes.checked.append("gravity: agrees with the attitude")
        return
    others = [
        ("frame", "the inverse rotation was used", projected_gravity(conjugate(quat))),
        ("frame", "it is given in the world's frame", np.tile([0.0, 0.0, -1.0], (len(quat), 1))),
        ("sign", "it points up, down is meant", -own),
        ("quaternion order", "w,x,y,z was read as x,y,z,w", projected_gravity(np.roll(quat, 1, axis=1))),
        ("quaternion order", "x,y,z,w was read as w,x,y,z", projected_gravity(np.roll(quat, -1, axis=1))),
        *((*axes_in_words(A), own @ A.T) for A in AXES[1:]),
    ]
    for kind, detail, other in others:
        if float(np.median(_angle(other, gravity))) < 0.2 * off:
            notes.find("driver", "gravity", kind, f"{detail}: {off:.2g} rad from what the attitude says")
            return
    if off > APART:
        notes.find("driver", "gravity", "unexplained", f"{off:.2g} rad (median) from what the attitude says")
    else:
        notes.checked.append(f"gravity: {off:.2g} rad (median) from what the attitude says")


def axes_in_words(A: np.ndarray) -> tuple[str, str]:
    """Kind of a fault by which v was read as A v, with A one of AXES, and a sentence."""
    parts = [f"{'-' if row.sum() < 0 else ''}{XYZ[int(np.argmax(np.abs(row)))]}" for row in A]
    words = f"x,y,z read {','.join(parts)} of the body"
    if np.array_equal(np.abs(A), np.eye(3)):
        return "sign", f"the sign of {', '.join(n for n, s in zip(XYZ, np.diag(A), strict=True) if s < 0)} is opposite"
    return "permuted", words


def _check_quat(imu: Imu, notes: Notes) -> None:
    """Gyro and attitude tell of one rotation."""
    assert imu.quat is not None
    if any(f.where == "driver" and f.kind == "stuck" and f.term in ("gyro", "quat") for f in notes.findings):
        return
    n = imu.window
    rate = turning(imu.quat, imu.t, n)
    gyro = mean_rate(imu.gyro, n)
    size = float(np.sqrt(np.mean(rate**2)))
    if max(size, float(np.sqrt(np.mean((gyro - np.median(gyro, axis=0)) ** 2)))) < TURNING:
        notes.unchecked.append(f"gyro, quat: the body turned too little to compare them ({size:.2g} rad/s rms)")
        return
    now, felt = unexplained(gyro, rate), _felt(imu, projected_gravity(imu.quat))
    tilted = felt > LEANING + 0.25
    late, better = _late(imu, rate)
    if not tilted and late > LATE and better < min(GOOD, 0.6 * now):
        detail = f"it is {1e3 * late:.3g} ms later than the attitude ({100 * now:.3g} % of it unexplained, then {100 * better:.2g} %)"
        notes.find("driver", "gyro", "delayed", detail)
        return
    if now < GOOD and not tilted:
        notes.checked.append(f"gyro, quat: tell of one rotation, {100 * now:.2g} % unexplained")
        return
    found = min([*_other_attitudes(imu, gyro), *_other_gyros(gyro, rate)], key=lambda option: option.left)
    if found.left < min(GOOD, 0.7 * now + (0.2 if tilted else 0.0)):
        words = (
            f"gyro and attitude disagree on {100 * min(now, 99.0):.3g} % of the turning, {100 * found.left:.2g} % so"
        )
        felt_words = f"; gravity is {felt:.2g} rad from what the accelerometer feels" if tilted else ""
        notes.find("driver", found.channel, found.kind, f"{found.detail} ({words}{felt_words})")
    elif now > BAD:
        notes.find(
            "driver", "gyro", "unexplained", f"gyro and attitude do not agree on {100 * now:.3g} % of the turning"
        )
    elif now < GOOD:
        notes.checked.append(f"gyro, quat: tell of one rotation, {100 * now:.2g} % unexplained")
    else:
        notes.unchecked.append(
            f"gyro, quat: they leave {100 * now:.2g} % of the turning unexplained, too little motion to say more"
        )


@dataclass(frozen=True)
class _Option:
    """Another reading of gyro or attitude, and the share of the turning it leaves unexplained (with a price for being complicated)."""

    left: float
    channel: str
    kind: str
    detail: str


def _other_attitudes(imu: Imu, gyro: np.ndarray) -> Iterator[_Option]:
    """Other readings of the attitude; one that the accelerometer contradicts is none."""
    assert imu.quat is not None
    for place, (kind, detail, other) in enumerate(_attitudes(imu.quat)):
        felt = _felt(imu, projected_gravity(other))
        if np.isnan(felt) or felt < LEANING + 0.25:
            yield _Option(unexplained(gyro, turning(other, imu.t, imu.window)) + 0.02 * place, "quat", kind, detail)


def _other_gyros(gyro: np.ndarray, rate: np.ndarray) -> Iterator[_Option]:
    """Other units, signs and orders of the gyro."""
    for A in AXES[1:]:
        kind, words = axes_in_words(A)
        price = 0.02 + 0.01 * np.abs(A - np.eye(3)).sum() / 2
        yield _Option(unexplained(gyro, rate @ A.T) + price, "gyro", kind, words)
    for unit, words in ((DEGREES, "in degrees per second, rad/s is meant"), (1 / DEGREES, "57.3 times too small")):
        yield _Option(unexplained(gyro / unit, rate), "gyro", "degrees", words)
    factor = float((gyro * rate).sum() / max((rate * rate).sum(), 1e-12))
    if factor > 1e-3 and not 0.7 < factor < 1.4:
        left = unexplained(gyro / factor, rate) + 0.03
        yield _Option(left, "gyro", "scale", f"{number(factor)} times what the attitude says")


def _late(imu: Imu, rate: np.ndarray) -> tuple[float, float]:
    """Delay of the gyro against the attitude [s] that fits best, and what then stays unexplained."""
    n, best = imu.window, (0.0, np.inf)
    for lag in range(0, round(0.15 / imu.dt) + 1):
        gyro = mean_rate(imu.gyro[lag:], n)
        left = unexplained(gyro, rate[: len(gyro)])
        best = min(best, (lag * imu.dt, left), key=lambda pair: pair[1])
    return best


def _check_gyro_by_gravity(imu: Imu, notes: Notes) -> None:
    """Without an attitude: d g/dt = −ω × g, which sees the turning about the level axes alone."""
    gravity = imu.gravity
    assert gravity is not None
    n = imu.window
    change = (gravity[n:] - gravity[:-n]) / (imu.t[n:] - imu.t[:-n])[:, None]
    if float(np.sqrt(np.mean(change**2))) < 0.5 * TURNING:
        notes.unchecked.append("gyro, gravity: the body tilted too little to compare them")
        return

    def left(gyro: np.ndarray) -> float:
        return unexplained(mean_rate(-np.cross(gyro, gravity), n), change)

    now = left(imu.gyro)
    if now < GOOD:
        notes.checked.append(f"gyro, gravity: tell of one tilting, {100 * now:.2g} % unexplained")
        notes.unchecked.append("gyro: turning about the vertical, gravity does not see it")
        return
    options = []
    for A in AXES[1:]:
        options.append((left(imu.gyro @ A) + 0.02 * np.abs(A - np.eye(3)).sum() / 4, *axes_in_words(A)))
    for unit in (DEGREES, 1 / DEGREES):
        options.append(
            (
                left(imu.gyro / unit),
                "degrees",
                "in degrees per second, rad/s is meant" if unit > 1 else "57.3 times too small",
            )
        )
    best, kind, words = min(options, key=lambda option: option[0])
    if best < min(GOOD, 0.7 * now):
        notes.find("driver", "gyro", kind, f"{words}: it disagrees with gravity on {100 * now:.3g} % of the tilting")
    elif now > BAD:
        notes.find(
            "driver", "gyro", "unexplained", f"gyro and gravity do not agree on {100 * now:.3g} % of the tilting"
        )


def _check_accel(imu: Imu, notes: Notes) -> None:
    """The accelerometer feels the ground's push, against gravity."""
    gravity = imu.gravity if imu.gravity is not None else None if imu.quat is None else projected_gravity(imu.quat)
    if imu.accel is None or gravity is None:
        notes.unchecked.append("accel: needs accel and gravity or quat")
        return
    if notes.blames("gravity", "quat"):
        notes.unchecked.append("accel: against gravity, which is wrong already")
        return
    off = _felt(imu, gravity)
    if off < LEANING:
        notes.checked.append(f"accel: feels the push against gravity, {off:.2g} rad off")
        return
    best = min(
        AXES,
        key=lambda A: (
            _felt(Imu(imu.t, imu.gyro, None, None, imu.accel @ A), gravity) + 0.02 * np.abs(A - np.eye(3)).sum()
        ),
    )
    left = _felt(Imu(imu.t, imu.gyro, None, None, imu.accel @ best), gravity)
    if off < LEANING + 0.25 or left > 0.5 * off:
        notes.unchecked.append(f"accel: {off:.2g} rad from gravity, too much acceleration to say why")
        return
    kind, words = axes_in_words(best)
    detail = "it points along gravity, against it is meant" if np.array_equal(best, -np.eye(3)) else words
    notes.find("driver", "accel", "sign" if kind == "sign" else "mounting", f"{detail}: {off:.2g} rad from gravity")
