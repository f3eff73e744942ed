"""Checkpoints of a training in several processes: one file of rank 0, beside it a part of every other rank.

`checkpoint.npz` is what a single process would write: the policy and all else that is shared, and rank 0's own worlds and random
numbers. `checkpoint.rank1.update12.npz` holds what is rank 1's own. The parts are written first and named by their update,
the old ones removed last: a run killed at any moment leaves one checkpoint whole. The folder must be seen by all ranks.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.learn import checkpoint
from surefoot.learn.distributed import Alone
from surefoot.learn.learner import OWN


def save(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any], group: Alone) -> None:
    """Write a checkpoint of update about["updates"]; called by every rank."""
    if group.size == 1:
        return checkpoint.save(path, arrays, about)
    update = about["updates"]
    if not group.first:
        own = {name: value for name, value in arrays.items() if not _shared(name)}
        checkpoint.save(_part(path, group.rank, update), own, {"updates": update})
    group.wait()
    if group.first:
        checkpoint.save(path, arrays, {**about, "ranks": group.size})
        current = {_part(path, rank, update) for rank in range(1, group.size)}
        for part in path.parent.glob(f"{path.stem}.rank*.update*{path.suffix}"):
            if part not in current:
                part.unlink(missing_ok=True)
    group.wait()
    return None


def load(path: Path, group: Alone) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of this rank and the `about` of a checkpoint; called by every rank."""
    arrays, about = checkpoint.load(path)
    ranks = about.pop("ranks", 1)
    if ranks != group.size:
        raise InputError(
            f"{path.parent} holds a run of {ranks} processes, but {group.size} were started: "
            f"start {ranks}, choose another folder, or empty this one to begin anew"
        )
    if group.first:
        return arrays, about
    shared = {name: value for name, value in arrays.items() if _shared(name)}
    return shared | checkpoint.load(_part(path, group.rank, about["updates"]))[0], about


def _part(path: Path, rank: int, update: int) -> Path:
    return path.with_name(f"{path.stem}.rank{rank}.update{update}{path.suffix}")


def _shared(name: str) -> bool:
    """Whether an entry of a checkpoint is the same on all ranks."""
    owner, _, entry = name.partition("/")
    return owner == "learner" and entry not in OWN
