"""How an episode went so far: the share of its judged time that was good, a number per world, kept in the task's memory.

share = Σ good / Σ judged      over the steps from `since` seconds on; NaN before that
"""

import torch
from torch import Tensor

from surefoot.tasks.task import Situation


def blank(worlds: int) -> dict[str, Tensor]:
    """Nothing judged yet: memory for `Task.remember`."""
    return {"good": torch.zeros(worlds), "judged": torch.zeros(worlds)}


def note(s: Situation, good: Tensor, since: float) -> None:
    """Take in this step where `since` seconds of the episode have passed; good (worlds,), a truth value or an amount."""
    counts = (s.time >= since - 1e-9).float()
    s.memory["good"] += good.float() * counts
    s.memory["judged"] += counts


def share(s: Situation) -> Tensor:
    """Mean of `good` over the judged steps, (worlds,); NaN where nothing was judged."""
    return s.memory["good"] / s.memory["judged"]
