"""Under which e every transition of a rollout was made: for schedules that weigh transitions by e."""

from collections.abc import Mapping

import numpy as np


class Origins:
    """Rows of e behind one rollout; an episode that begins within it adds a row.

    Attributes:
        row: the row of e of each transition, (steps, worlds).
    """

    def __init__(self, steps: int, worlds: int):
        self.row = np.zeros((steps, worlds), dtype=np.int64)
        self._now = np.arange(worlds)
        self._parts: list[dict[str, np.ndarray]] = []
        self._count = 0

    def begin(self, e: Mapping[str, np.ndarray]) -> None:
        """A new rollout, with e of all worlds."""
        self._now = np.arange(self.row.shape[1])
        self._parts, self._count = [dict(e)], len(self._now)

    def record(self, t: int, ended: np.ndarray, e: Mapping[str, np.ndarray] | None) -> None:
        """Step t was made; the worlds `ended` (k,) go on with theirs of e, which has a row per world."""
        self.row[t] = self._now
        if e is not None and len(ended):
            self._parts.append({name: value[ended] for name, value in e.items()})
            self._now[ended] = self._count + np.arange(len(ended))
            self._count += len(ended)

    @property
    def e(self) -> dict[str, np.ndarray]:
        """All rows of e."""
        return {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}

    @property
    def length(self) -> np.ndarray:
        """Transitions made under each row, (rows,)."""
        return np.bincount(self.row.ravel(), minlength=self._count)
