"""Noise of a sensor at rest, by Allan deviation.

σ²(τ) = ½ ⟨(ȳ_{k+1} - ȳ_k)²⟩ = N²/τ + K² τ/3        ȳ_k: means over successive times τ
N: white noise density, K: random walk of the bias
"""

import numpy as np

from surefoot.errors import InputError


def allan_deviation(y: np.ndarray, dt: float, lengths: np.ndarray) -> np.ndarray:
    """Overlapping Allan deviation (len(lengths),) of y (T,) or (T, records), sampled every dt [s], over lengths·dt.

    Records (columns) are taken as repetitions of one sensor and averaged.
    """
    y = np.asarray(y, dtype=float).reshape(len(y), -1)
    total = np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(y - y.mean(0), axis=0)])
    out = []
    for m in np.asarray(lengths, dtype=int):
        if not 1 <= m <= len(y) // 2:
            raise InputError(f"an averaging time of {m} samples needs 1..{len(y) // 2} in a record of {len(y)}")
        change = (total[2 * m :] - 2 * total[m:-m] + total[: -2 * m]) / m
        out.append(np.sqrt(0.5 * np.mean(change**2)))
    return np.array(out)


def white_and_walk(y: np.ndarray, dt: float, *, longest: float | None = None) -> tuple[float, float]:
    """N [unit/√Hz] and K [unit·√Hz] of y (T,) or (T, records), a recording at rest sampled every dt [s].

    Both come from one least-squares fit of relative errors of σ² over averaging times up to `longest` [s], by default a
    tenth of the recording.
    """
    most = len(y) // 10 if longest is None else int(longest / dt)
    lengths = np.unique(np.geomspace(1, max(most, 2), 24).round().astype(int))
    variance = allan_deviation(y, dt, lengths) ** 2
    # A bias that steps once a sample has the walk term (2 m² + 1) / (6 m), which is m / 3 for long times.
    parts = np.stack([1 / (lengths * dt), dt * (2 * lengths**2 + 1) / (6 * lengths)], axis=1)
    weight = np.sqrt(len(y) / lengths)[:, None] / variance[:, None]  # fewer independent means at long times
    squares, *_ = np.linalg.lstsq(parts * weight, variance * weight[:, 0], rcond=None)
    N, K = np.sqrt(np.maximum(squares, 0.0))
    return float(N), float(K)
