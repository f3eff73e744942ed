"""A control-barrier filter that keeps joints off their limits, in closed form.

With d = q_max − q the way left, the joint may approach its upper limit at most with the speed from which it can still stop,

    v(d) = α d                               for d ≤ a/α²       a: deceleration that is always there
         = sqrt(2 a (d − a / 2α²))           beyond: value and slope agree at d = a/α²

B = v(d) − q̇ ≥ 0 stays true when Ḃ + γ B ≥ 0, which is a bound on the acceleration, and with q̈ = τ/m on the torque:

    τ ≤ m (−v'(d) q̇ + γ (v(d) − q̇))         and mirrored for the lower limit

Each joint has one number to choose, so the quadratic program min (τ − τ_wanted)² within both bounds is a clip; `limits` then
clips to what the motor can do: where no torque obeys all (too fast, too near), it brakes as hard as it may.
"""

from typing import Any

import numpy as np

from surefoot.deploy.settings import SafetySettings


def approach(d: Any, alpha: Any, brake: Any) -> tuple[np.ndarray, np.ndarray]:
    """Largest speed v(d) towards a limit that is d away [rad/s], and its slope v'(d) [1/s]; beyond −a/α² both stay."""
    return _approach(d, alpha, brake, brake / alpha**2)


def _approach(d: Any, alpha: Any, brake: Any, knee: Any) -> tuple[np.ndarray, np.ndarray]:
    far = np.maximum(d, knee)
    far += far - knee
    far *= brake
    far = np.sqrt(far)
    v = np.maximum(np.minimum(d, knee), -knee)
    v -= knee
    v *= alpha
    v += far
    return v, brake / far


class Barrier:
    """The bounds on torque of some joints, and the projection onto them."""

    def __init__(self, settings: SafetySettings, index: Any):
        """Rows for the joints `index` of the settings, twice: towards the upper limit, towards the lower."""
        low = settings.target_low if settings.position_low is None else settings.position_low
        high = settings.target_high if settings.position_high is None else settings.position_high
        self.low, self.high = np.asarray(low)[index], np.asarray(high)[index]
        self.brake, self.inertia = (
            np.asarray(settings.barrier_brake)[index],
            np.asarray(settings.barrier_inertia)[index],
        )
        self.alpha, self.gamma = settings.barrier_alpha, settings.barrier_gamma
        one = np.ones((2, len(self.low)))
        self._rows = (
            self.alpha * one,
            self.brake * one,
            self.brake / self.alpha**2 * one,
            self.gamma * one,
            self.inertia * one,
        )

    def bounds(self, q: np.ndarray, dq: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest torque [N·m] that keeps to both limits, for q [rad] and dq [rad/s], (..., n)."""
        rows = self._rows if q.ndim == 1 else [row.reshape(2, *[1] * (q.ndim - 1), -1) for row in self._rows]
        alpha, brake, knee, gamma, inertia = rows
        d, w = np.empty((2, *q.shape)), np.empty((2, *q.shape))
        d[0], d[1] = self.high - q, q - self.low
        w[0], w[1] = dq, -dq
        v, slope = _approach(d, alpha, brake, knee)
        v *= gamma
        slope += gamma
        slope *= w
        v -= slope
        v *= inertia
        return -v[1], v[0]

    def project(self, torque: np.ndarray, q: np.ndarray, dq: np.ndarray) -> np.ndarray:
        """The torque nearest to `torque` within the bounds; where they cross, the middle between them."""
        lowest, highest = self.bounds(q, dq)
        middle = lowest + highest
        middle *= 0.5
        np.minimum(lowest, middle, out=lowest)
        np.maximum(highest, middle, out=highest)
        np.maximum(torque, lowest, out=lowest)
        return np.minimum(lowest, highest, out=lowest)
