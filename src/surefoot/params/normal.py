"""The normal distribution cut to an interval, far into its tails, and the inverse of any increasing function.

    z in [a, b],  P(z <= t) = (Φ(t) − Φ(a)) / (Φ(b) − Φ(a))

All is done in logarithms on the side of the smaller tail, so that an interval 30 standard deviations away still has
the right shape. Arguments broadcast. scipy.special is imported on first use because it takes a quarter of a second.
"""

from collections.abc import Callable

import numpy as np

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


def _to_the_left(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mirror intervals that lie right of zero; returns the mirrored bounds and which were mirrored."""
    mirror = a > -b
    return np.where(mirror, -b, a), np.where(mirror, -a, b), mirror


def log_mass(a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """log(Φ(b) − Φ(a)) of the standard normal for a <= b."""
    from scipy.special import log_ndtr

    a, b, _ = _to_the_left(np.asarray(a, float), np.asarray(b, float))
    log_a, log_b = log_ndtr(a), log_ndtr(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a < b, log_b + np.log(-np.expm1(log_a - log_b)), -np.inf)


def log_prob(z: np.ndarray, a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """Log density of the standard normal cut to [a, b], −inf outside."""
    with np.errstate(invalid="ignore"):
        density = -0.5 * z * z - HALF_LOG_2PI - log_mass(a, b)
    return np.where((z >= a) & (z <= b), density, -np.inf)


def cdf(z: np.ndarray, a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """P(standard normal cut to [a, b] <= z)."""
    return np.exp(log_mass(a, np.clip(z, a, b)) - log_mass(a, b))


def quantile(p: np.ndarray, a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """Inverse of `cdf` in its first argument."""
    from scipy.special import log_ndtr, ndtri_exp

    p, a, b = np.broadcast_arrays(np.asarray(p, float), np.asarray(a, float), np.asarray(b, float))
    left, right, mirror = _to_the_left(a, b)
    p = np.where(mirror, 1.0 - p, p)
    with np.errstate(divide="ignore"):
        log_below = np.logaddexp(log_ndtr(left) + np.log1p(-p), log_ndtr(right) + np.log(p))
    z = np.clip(ndtri_exp(log_below), left, right)
    return np.where(mirror, -z, z)


def expected(a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """Mean of the standard normal cut to [a, b]: (φ(a) − φ(b)) / (Φ(b) − Φ(a)), kept inside the interval."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    mass = log_mass(a, b) + HALF_LOG_2PI
    return np.clip(np.exp(-0.5 * a * a - mass) - np.exp(-0.5 * b * b - mass), a, b)


def invert(increasing: Callable[[np.ndarray], np.ndarray], p: np.ndarray, low: float, high: float) -> np.ndarray:
    """Smallest x in [low, high] with increasing(x) >= p, by bisection to the last bit or 1e-15 of the range."""
    p = np.asarray(p, float)
    left, right = np.full(p.shape, float(low)), np.full(p.shape, float(high))
    for _ in range(60):
        middle = left + 0.5 * (right - left)
        enough = increasing(middle) >= p
        left, right = np.where(enough, left, middle), np.where(enough, middle, right)
    return right
