"""A curriculum of commands: small ones first, larger ones as they are followed.

    command = share · (what the task draws)        success >= target: share + step, at most 1

The share never shrinks: a policy that follows large commands is not sent back because the ground became harder.
"""

import numpy as np

from surefoot.errors import InputError


class Commands:
    """The share of the task's command ranges that is asked for now; part of a World's snapshots."""

    def __init__(self, *, start: float = 0.5, target: float = 0.7, step: float = 0.1, window: int = 256):
        """Begin with small commands.

        Args:
            start: first share, above 0 to 1.
            target: mean success from which the share grows.
            step: growth of the share.
            window: ended episodes that a mean is taken over; they are counted anew after each window.
        """
        if not 0.0 < start <= 1.0 or not 0.0 < step <= 1.0 or not 0.0 <= target <= 1.0:
            raise InputError(
                f"start and step lie above 0 to 1, target in 0 to 1, got {start:g}, {step:g} and {target:g}"
            )
        if window < 1:
            raise InputError(f"window must be a whole number from 1, got {window!r}")
        self.target, self.step, self.window = target, step, window
        self.share, self._good, self._judged = start, 0.0, 0.0

    def record(self, success: np.ndarray) -> None:
        """Take in ended episodes: success (k,) in 0..1, NaN where undefined."""
        known = success[~np.isnan(success)]
        self._good, self._judged = self._good + float(known.sum()), self._judged + len(known)
        if self._judged >= self.window:
            if self._good >= self.target * self._judged:
                self.share = min(1.0, self.share + self.step)
            self._good = self._judged = 0.0

    def snapshot(self) -> np.ndarray:
        """Everything it knows, (3,)."""
        return np.array([self.share, self._good, self._judged])

    def restore(self, snapshot: np.ndarray) -> None:
        """Go back to a snapshot."""
        self.share, self._good, self._judged = (float(x) for x in snapshot)
