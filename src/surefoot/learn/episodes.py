"""Returns, lengths and success of episodes as they end, and the mean of every reward term."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from surefoot.tasks.world import Outcome

WINDOW = 256
"""Episodes over which the shown means run."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Episodes that ended during one rollout, in order; for those who choose the next e.

    Attributes:
        world: ids, (k,).
        score: sum of rewards, (k,).
        length: control steps, (k,).
        success: (k,), NaN where undefined.
        e: their e by name, rows as the rest, or {} where the world does not say.
    """

    world: np.ndarray
    score: np.ndarray
    length: np.ndarray
    success: np.ndarray
    e: dict[str, np.ndarray] = field(default_factory=dict)


class Episodes:
    """Accounts of the episodes of `worlds` worlds. Broken episodes are counted, not averaged."""

    def __init__(self, worlds: int, *, device: torch.device | str = "cpu"):
        self._score = torch.zeros(worlds, device=device)
        self._length = torch.zeros(worlds, device=device)
        self._recent = np.zeros((0, 3))  # score, length, success of the last WINDOW episodes
        self._fresh: list[tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]] = []
        self._terms: dict[str, Tensor] = {}
        self._steps = 0
        self.count = 0
        self.broken = 0

    def add(self, outcome: "Outcome", broken: Tensor) -> None:
        """Take in one step; `broken` (worlds,) are left out of everything but their own count."""
        bad = bool(broken.any())
        reward = torch.where(broken, 0.0, outcome.reward) if bad else outcome.reward
        self._score += reward
        self._length += 1
        self._steps += 1
        for name, term in outcome.terms.items():
            mean = torch.where(broken, 0.0, term).mean() if bad else term.mean()
            self._terms[name] = self._terms[name] + mean if name in self._terms else mean
        if len(outcome.ended):
            self._close(outcome, broken)
        if bad:
            self.broken += int(broken.sum())
            self._score[broken], self._length[broken] = 0.0, 0.0

    def _close(self, outcome: "Outcome", broken: Tensor) -> None:
        ids = outcome.ended
        sound = (~broken[ids]).cpu().numpy()
        columns = [self._score[ids], self._length[ids], outcome.success.to(self._score)]
        rows = torch.stack(columns, 1).double().cpu().numpy()
        e = {name: np.asarray(value)[sound] for name, value in (outcome.e or {}).items()}
        self._fresh.append((ids.cpu().numpy()[sound], rows[sound], e))
        self.count += int(sound.sum())
        self._recent = np.concatenate([self._recent, rows[sound]])[-WINDOW:]
        self._score[ids], self._length[ids] = 0.0, 0.0

    def take_in(self, ended: Ended, broken: int, terms: Mapping[str, Tensor]) -> None:
        """Take in a whole rollout's ended episodes, the number of broken ones, and the mean of each term per step."""
        rows = np.stack([ended.score, ended.length, ended.success], axis=1)
        self._fresh.append((ended.world, rows, ended.e))
        self.count += len(rows)
        self.broken += broken
        self._recent = np.concatenate([self._recent, rows])[-max(WINDOW, len(rows)) :]
        self._terms = {name: self._terms.get(name, 0.0) + value for name, value in terms.items()}  # type: ignore[operator]
        self._steps += 1

    def take(self) -> Ended:
        """The episodes that ended since the last call."""
        parts, self._fresh = [p for p in self._fresh if len(p[0])], []
        rows = np.concatenate([np.zeros((0, 3)), *(p[1] for p in parts)])
        names = parts[0][2] if parts else {}
        return Ended(
            world=np.concatenate([np.zeros(0, dtype=np.int64), *(p[0] for p in parts)]),
            score=rows[:, 0], length=rows[:, 1], success=rows[:, 2],
            e={name: np.concatenate([p[2][name] for p in parts]) for name in names},
        )  # fmt: skip

    def numbers(self) -> dict[str, float]:
        """Means over recent episodes (return, length, success), and of each term per step since the last call."""
        terms = {f"term/{name}": float(total) / max(self._steps, 1) for name, total in self._terms.items()}
        self._terms, self._steps = {}, 0
        score, length, success = (_mean(self._recent[:, i]) for i in range(3))
        return {
            "return": score,
            "length": length,
            "success": success,
            "episodes": self.count,
            "broken": self.broken,
        } | terms

    def snapshot(self) -> dict[str, np.ndarray]:
        """Running sums and the recent window, as arrays; taken between rollouts."""
        sums = {"score": self._score.cpu().numpy().copy(), "length": self._length.cpu().numpy().copy()}
        return sums | {"recent": self._recent.copy(), "counts": np.array([self.count, self.broken])}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go back to a snapshot."""
        self._score.copy_(torch.from_numpy(np.array(arrays["score"])))
        self._length.copy_(torch.from_numpy(np.array(arrays["length"])))
        self._recent = np.array(arrays["recent"])
        self.count, self.broken = (int(x) for x in arrays["counts"])


def _mean(x: np.ndarray) -> float:
    x = x[np.isfinite(x)]
    return float(x.mean()) if len(x) else float("nan")
