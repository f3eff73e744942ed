"""Band-limited motions from a few numbers: multi-sines, chirps, splines, and the random ones they are compared with.

    u(t) = centre + amplitude · w(t) · s(t; θ),   |s| <= 1,   no frequency above `band`,   w: from rest and back to rest

θ is a row of normal numbers: θ ~ N(0, 1) gives a plausible motion of the family, so that a search may start there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surefoot.errors import InputError

RAMP = 0.25
"""[s] Longest time in which a motion grows from rest, and in which it comes back to it."""
SINES = 6
"""Frequencies of a multi-sine."""
KNOTS = 20
"""Most knots of a spline, for one motor."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """On which instants a motion is made, and for how many motors.

    Attributes:
        dt: time between two commands [s].
        steps: number of commands.
        motors: number of motors.
        band: highest frequency [Hz].
        at_rest: whether it must start and end at its centre (targets of positions must; a voltage need not).
    """

    dt: float
    steps: int
    motors: int
    band: float
    at_rest: bool = True

    @property
    def t(self) -> np.ndarray:
        """Times of the commands, (steps,) [s]."""
        return self.dt * np.arange(self.steps)

    @property
    def seconds(self) -> float:
        """Length [s]."""
        return self.dt * self.steps

    @property
    def envelope(self) -> np.ndarray:
        """w(t), (steps, 1): a smooth rise over RAMP (at most a fifth of the motion) and as smooth a fall."""
        ramp = min(RAMP, 0.2 * self.seconds)
        x = np.clip(np.minimum(self.t, self.seconds - self.dt - self.t) / max(ramp, self.dt), 0.0, 1.0)
        rise = x * x * x * (10.0 - 15.0 * x + 6.0 * x * x)
        return (rise if self.at_rest else np.ones(self.steps))[:, None]

    def frequencies(self, count: int) -> np.ndarray:
        """Frequencies from one period in the motion (at least 0.2 Hz) up to the band, log-spaced, (count,) [Hz]."""
        lowest = min(max(1.0 / self.seconds, 0.2), 0.5 * self.band)
        return np.geomspace(lowest, self.band, count)


@dataclass(frozen=True, kw_only=True)
class Family:
    """A sort of motion.

    Attributes:
        name: of the family.
        size: numbers θ of one motion on a grid.
        shape: θ (k, size), grid -> s (k, steps, motors).
    """

    name: str
    size: Callable[[Grid], int]
    shape: Callable[[np.ndarray, Grid], np.ndarray]

    def motions(self, theta: np.ndarray, grid: Grid) -> np.ndarray:
        """w(t) s(t; θ) of every row of θ, (k, steps, motors), within -1 .. 1."""
        theta = np.atleast_2d(np.asarray(theta, dtype=float))
        if theta.shape[1] != self.size(grid):
            raise InputError(
                f"a {self.name} of {grid.motors} motors takes {self.size(grid)} numbers, not {theta.shape[1]}"
            )
        s = self.shape(theta, grid)
        peak = np.abs(s).max(axis=1, keepdims=True)
        return grid.envelope * s / np.maximum(peak, 1.0)

    def random(self, k: int, grid: Grid, rng: np.random.Generator) -> np.ndarray:
        """θ of k plausible motions, (k, size)."""
        return rng.standard_normal((k, self.size(grid)))


def _multi_sine(theta: np.ndarray, grid: Grid) -> np.ndarray:
    """s_j = Σ_i (a_ij sin + b_ij cos)(2π f_i t): six frequencies, each motor its own amplitudes and phases, peak 1."""
    a, b, size = np.split(theta.reshape(len(theta), grid.motors, -1), [SINES, 2 * SINES], axis=2)
    angle = 2 * np.pi * grid.frequencies(SINES)[:, None] * grid.t  # (sines, steps)
    s = np.einsum("kji,it->ktj", a, np.sin(angle)) + np.einsum("kji,it->ktj", b, np.cos(angle))
    s = s / np.maximum(np.abs(s).max(axis=1, keepdims=True), 1e-9)
    return s * _share(size[..., 0])[:, None]


def _chirp(theta: np.ndarray, grid: Grid) -> np.ndarray:
    """s_j = a_j sin(2π ∫ f_j dt + φ_j) + o_j: the frequency runs exponentially from one to another, each within the band."""
    numbers = theta.reshape(len(theta), grid.motors, 5)
    ends = grid.frequencies(2)
    span = np.log(ends[1] / ends[0])
    f0, f1 = (ends[0] * np.exp(span * _unit(numbers[..., i])) for i in (0, 1))  # (k, motors)
    rate = np.log(f1 / f0) / grid.seconds
    rate = np.where(np.abs(rate) < 1e-6, 1e-6, rate)[:, None]
    angle = 2 * np.pi * f0[:, None] * np.expm1(rate * grid.t[:, None]) / rate
    swing, offset = _share(numbers[..., 3]), 0.5 * np.tanh(0.5 * numbers[..., 4])
    return swing[:, None] * np.sin(angle + np.pi * numbers[:, None, :, 2]) + offset[:, None]


def _spline(theta: np.ndarray, grid: Grid) -> np.ndarray:
    """Cubic B-spline through free control values, its knots no closer than half a period of the band."""
    from scipy.interpolate import BSpline

    n = _knots(grid)
    values = np.tanh(theta.reshape(len(theta), n, grid.motors))
    inner = np.linspace(0.0, grid.seconds, n - 2)
    knots = np.concatenate([np.repeat(inner[0], 3), inner, np.repeat(inner[-1], 3)])
    return np.moveaxis(BSpline(knots, np.moveaxis(values, 1, 0), 3)(grid.t), 1, 0)


def _knots(grid: Grid) -> int:
    return int(np.clip(np.floor(2 * grid.band * grid.seconds), 5, KNOTS))


def _share(x: np.ndarray) -> np.ndarray:
    """A share of the amplitude from any number: 0.2 .. 1, mostly above a half."""
    return 0.2 + 0.8 * _unit(x + 1.0)


def _unit(x: np.ndarray) -> np.ndarray:
    """0 .. 1 from any number."""
    return 0.5 + 0.5 * np.tanh(0.8 * x)


FAMILIES: dict[str, Family] = {
    "multi-sine": Family(name="multi-sine", size=lambda g: g.motors * (2 * SINES + 1), shape=_multi_sine),
    "chirp": Family(name="chirp", size=lambda g: g.motors * 5, shape=_chirp),
    "spline": Family(name="spline", size=lambda g: g.motors * _knots(g), shape=_spline),
}
"""Sorts of motion that a design may choose from."""


# -------------------------------------------------------------------- what is usually done


def usual_chirp(grid: Grid) -> np.ndarray:
    """The common one: every motor the same linear sweep of full amplitude from the lowest frequency to the band, (steps, motors)."""
    low, high = grid.frequencies(2)
    angle = 2 * np.pi * (low * grid.t + 0.5 * (high - low) / grid.seconds * grid.t**2)
    return grid.envelope * np.repeat(np.sin(angle)[:, None], grid.motors, axis=1)


def usual_multi_sine(grid: Grid) -> np.ndarray:
    """Equal amplitudes over the band with Schroeder's phases, φ_i = -π i (i - 1) / n, shifted from motor to motor, (steps, motors)."""
    n = max(int(grid.band * grid.seconds), 2)
    i = np.arange(1, n + 1)
    f = i / grid.seconds
    f = f[f <= grid.band + 1e-9]
    phase = -np.pi * i[: len(f)] * (i[: len(f)] - 1) / len(f)
    columns = []
    for j in range(grid.motors):
        s = np.sin(2 * np.pi * f * grid.t[:, None] + phase + 2 * np.pi * j * i[: len(f)] / max(grid.motors, 1)).sum(1)
        columns.append(s / np.abs(s).max())
    return grid.envelope * np.stack(columns, axis=1)


def random_steps(grid: Grid, rng: np.random.Generator) -> np.ndarray:
    """Random values held for half a period of half the band, then smoothed to the band, (steps, motors)."""
    hold = max(round(1.0 / (grid.band * grid.dt)), 1)
    count = -(-grid.steps // hold)
    s = np.repeat(rng.uniform(-1.0, 1.0, (count, grid.motors)), hold, axis=0)[: grid.steps]
    keep = np.exp(-2 * np.pi * grid.band * grid.dt)
    for k in range(1, len(s)):
        s[k] = keep * s[k - 1] + (1.0 - keep) * s[k]
    return grid.envelope * s
