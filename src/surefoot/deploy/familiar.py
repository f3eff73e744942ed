"""How far an observation is from what the policy was trained on.

    x_i   = max(0, |o_i − c_i| / h_i − 1)       c, h: middle and half width of the entry's trained range
    score = share of entries with x_i > 0  +  min(max_i x_i, 4) / 4

0 inside the trained ranges; 1 when one entry is four half widths outside, or all are a little. The score is smoothed in time: a
single odd observation warns, one that stays freezes.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.contract.contract import Contract
from surefoot.contract.terms import Group
from surefoot.deploy.ladder import Finding
from surefoot.deploy.limits import HUGE
from surefoot.deploy.settings import SafetySettings

FARTHEST = 4.0


def trained(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Low and high of every entry of the group in its order, (size,); nan where training did not record it."""
    low, high = [], []
    for block in [group.terms] if group.stack == "step" else [(term,) for term in group.terms]:
        for _ in range(block[0].history):
            for term in block:
                nothing = [math.nan] * len(term.entries)
                low += nothing if term.trained is None else np.asarray(term.trained[0]).tolist()
                high += nothing if term.trained is None else np.asarray(term.trained[1]).tolist()
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


class Familiar:
    """The smoothed score of the observations.

    Attributes:
        score: smoothed.
        groups: names of the groups that have trained ranges.
    """

    def __init__(self, contract: Contract, settings: SafetySettings):
        self._s = settings
        self.score, self._time = 0.0, -math.inf
        self._found: list[Finding] = []
        self._rows = {}
        for group in contract.groups:
            low, high = trained(group)
            known = np.isfinite(low)
            by_builder = group.normaliser is not None and group.normaliser.by == "builder"
            if group.privileged or by_builder or not known.any():
                continue
            middle, half = 0.5 * (low + high), 0.5 * (high - low)
            half = np.maximum(half, 1e-3 + 0.05 * np.abs(middle))
            index = np.flatnonzero(known)
            self._rows[group.name] = (index, middle[index], half[index], group.labels, group.size)
        self.groups = tuple(self._rows)

    def rest(self) -> None:
        """The policy does not drive any more: what it saw last no longer counts."""
        self._found = []

    def look(self, now: float, observation: Mapping[str, Any] | None) -> list[Finding]:
        """Conditions after this observation; without one, those of the last stay."""
        if observation is None or not self._rows:
            return self._found
        worst, name = 0.0, ""
        for group, rows in self._rows.items():
            score, where = _score(observation.get(group) if isinstance(observation, Mapping) else None, *rows)
            if score >= worst:
                worst, name = score, where
        s = self._s
        keep = math.exp(-min(max(now - self._time, 0.0), 1.0) / s.unfamiliar_smoothing)
        self.score, self._time = keep * self.score + (1.0 - keep) * worst, now
        found = []
        if self.score > s.unfamiliar_freeze:
            found.append(Finding("unfamiliar", name, self.score, s.unfamiliar_freeze))
        self._found = found
        return found


def _score(value: Any, index: Any, middle: Any, half: Any, labels: Any, size: int) -> tuple[float, str]:
    """Score of one observation and the entry that is farthest out; one that is no observation is as far as can be."""
    try:
        row = np.asarray(value, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        row = np.zeros(0)
    if row.shape != (size,):
        return 2.0, "no observation"
    x = row[index] - middle
    np.abs(x, out=x)
    if np.count_nonzero(x <= half) == len(half):
        return 0.0, ""
    np.minimum(x, HUGE, out=x)
    x /= half
    x -= 1.0
    x[np.isnan(x)] = FARTHEST
    at = int(x.argmax())
    most = float(x[at])
    if most <= 0.0:
        return 0.0, ""
    return float(np.count_nonzero(x > 0.0)) / len(x) + min(most, FARTHEST) / FARTHEST, labels[index[at]]
