"""Entropy, divergence and scores of independent Beta distributions on 0..1, with their gradients in (a, b).

    H(a, b)          = ln B(a, b) − (a − 1) ψ(a) − (b − 1) ψ(b) + (a + b − 2) ψ(a + b)
    KL(a, b || a', b') = ln B(a', b') − ln B(a, b) + (a − a') ψ(a) + (b − b') ψ(b) + (a' − a + b' − b) ψ(a + b)
    ∂ ln p(x) / ∂a   = ln x − ψ(a) + ψ(a + b)

Shapes are rows of an array (2, m): a above b.
"""

import numpy as np
from scipy.special import betaln, digamma, polygamma


def entropy(shapes: np.ndarray) -> tuple[float, np.ndarray]:
    """Total entropy [nats] of m Betas and its gradient, (2, m); 0 when all are uniform, less otherwise."""
    a, b = shapes
    total = a + b
    value = betaln(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (total - 2) * digamma(total)
    common = (total - 2) * polygamma(1, total)
    gradient = np.stack([common - (a - 1) * polygamma(1, a), common - (b - 1) * polygamma(1, b)])
    return float(value.sum()), gradient


def divergence(was: np.ndarray, new: np.ndarray) -> tuple[float, np.ndarray]:
    """KL(was || new) [nats] of m independent Betas, and its gradient in `new`, (2, m)."""
    (a, b), (c, d) = was, new
    mean_log = np.stack([digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)])  # E ln x, E ln(1 − x)
    value = betaln(c, d) - betaln(a, b) + (a - c) * mean_log[0] + (b - d) * mean_log[1]
    mean_new = np.stack([digamma(c) - digamma(c + d), digamma(d) - digamma(c + d)])
    return float(value.sum()), mean_new - mean_log


def log_density(shapes: np.ndarray, log_x: np.ndarray) -> np.ndarray:
    """Σ_i ln p(x_i), (k,), for log_x = (ln x, ln(1 − x)), (2, k, m)."""
    a, b = shapes
    return ((a - 1) * log_x[0] + (b - 1) * log_x[1] - betaln(a, b)).sum(axis=-1)


def score(shapes: np.ndarray, log_x: np.ndarray) -> np.ndarray:
    """∂ ln p / ∂(a, b), (2, k, m)."""
    a, b = shapes
    return np.stack([log_x[0] - digamma(a) + digamma(a + b), log_x[1] - digamma(b) + digamma(a + b)])


def whitening(shapes: np.ndarray) -> np.ndarray:
    """C (m, 2, 2) with KL(shapes || shapes · exp(C y)) ≈ ½ |y|²: steps of (ln a, ln b) that all change p as much."""
    a, b = shapes
    common = -polygamma(1, a + b) * a * b
    fisher = np.stack(
        [
            (polygamma(1, a) - polygamma(1, a + b)) * a * a,
            common,
            common,
            (polygamma(1, b) - polygamma(1, a + b)) * b * b,
        ],
        axis=-1,
    )
    return np.linalg.inv(np.linalg.cholesky(fisher.reshape(-1, 2, 2)).transpose(0, 2, 1))
