"""Where the wall time of a training goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

PARTS = ("world", "act", "update", "rest")


class Clock:
    """Seconds by part: the world's steps, the policy's inference, the update, the rest; evaluations are kept apart."""

    def __init__(self):
        self.seconds: dict[str, float] = dict.fromkeys((*PARTS, "evaluate"), 0.0)
        self.begin()

    def begin(self) -> None:
        """Start measuring now."""
        self._mark = time.perf_counter()

    def lap(self, part: str) -> None:
        """Book the time since the last lap to `part`."""
        now = time.perf_counter()
        self.seconds[part] += now - self._mark
        self._mark = now

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Book what happens inside to "evaluate", which is not training time."""
        self.lap("rest")
        try:
            yield
        finally:
            self.lap("evaluate")

    @property
    def training(self) -> float:
        """Seconds without evaluations."""
        return sum(self.seconds[part] for part in PARTS)

    def shares(self) -> dict[str, float]:
        """Share of the training time by part, summing to 1."""
        total = self.training or 1.0
        return {f"share/{part}": self.seconds[part] / total for part in PARTS}
