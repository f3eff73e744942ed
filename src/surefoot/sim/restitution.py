"""How a contact bounces: restitution of a spring and damper that can push but not pull.

    m a + d v + k x = 0 from x = 0 until the force is zero; ζ the damping ratio
    ζ < 1    e = exp(-2 ζ/s acos ζ)       s = sqrt(1 - ζ²)
    ζ = 1    e = exp(-2)
    ζ > 1    e = exp(-2 ζ/s acosh ζ)      s = sqrt(ζ² - 1)

(Schwager and Pöschel, "Coefficient of restitution and linear-dashpot model revisited", 2007.)
"""

import numpy as np


def restitution(zeta: np.ndarray) -> np.ndarray:
    """Coefficient of restitution of damping ratios ζ >= 0."""
    z = np.asarray(zeta, float)
    s = np.sqrt(np.abs((1 - z) * (1 + z)))
    safe = np.where(s > 1e-7, s, 1.0)
    angle = np.where(z < 1, np.arctan2(s, z), np.log1p(z - 1 + s))  # acos ζ, acosh ζ
    return np.exp(-2 * np.where(s > 1e-7, z / safe * angle, 1.0))


def damping_ratio(e: np.ndarray) -> np.ndarray:
    """Damping ratio whose restitution is e (0.001 .. 0.999), by bisection to the last bit."""
    e = np.asarray(e, float)
    low, high = np.full_like(e, 1e-5), np.full_like(e, 50.0)
    for _ in range(70):
        middle = 0.5 * (low + high)
        more = restitution(middle) > e
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return 0.5 * (low + high)
