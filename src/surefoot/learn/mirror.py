"""Left-right symmetry as data: a mirrored robot in a mirrored situation does the mirrored thing.

M x = sign ∘ x[index],   M M x = x          π(M_a a | M_o o) = π(a | o),   V(M_s s) = V(s)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError, did_you_mean
from surefoot.tasks import World


@dataclass(frozen=True, kw_only=True)
class Map:
    """M x = sign ∘ x[index]: entry i of the mirrored vector is sign[i] times entry index[i] of the original."""

    index: np.ndarray  # (n,) int
    sign: np.ndarray  # (n,) +1 or -1

    def __post_init__(self):
        index, sign = np.asarray(self.index, dtype=np.int64), np.asarray(self.sign, dtype=np.float32)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "sign", sign)
        width = len(index)
        if sign.shape != index.shape or sorted(index.tolist()) != list(range(width)) or not np.all(np.abs(sign) == 1):
            raise InputError(
                f"a mirror map needs a permutation and as many signs of +1 or -1, given {index} and {sign}"
            )
        twice = index[index]
        if not np.array_equal(twice, np.arange(width)) or not np.all(sign * sign[index] == 1):
            wrong = int(np.flatnonzero((twice != np.arange(width)) | (sign * sign[index] != 1))[0])
            raise InputError(
                f"mirroring twice must give the original, but entry {wrong} does not return: check index and sign"
            )

    def __call__(self, x: Tensor) -> Tensor:
        """M x of rows x (..., n)."""
        index = torch.from_numpy(self.index).to(x.device)
        return x.index_select(-1, index) * torch.from_numpy(self.sign).to(x.device)


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """The mirror maps of a world's observation groups and of its action."""

    groups: Mapping[str, Map]
    action: Map

    def over(self, names: Iterable[str]) -> Map:
        """One map for the groups `names` side by side."""
        index, sign, at = [], [], 0
        for name in names:
            if name not in self.groups:
                raise InputError(f"observation group {name!r} has no mirror map {did_you_mean(name, self.groups)}")
            index.append(self.groups[name].index + at)
            sign.append(self.groups[name].sign)
            at += len(index[-1])
        return Map(index=np.concatenate(index), sign=np.concatenate(sign))


def mirror_of(world: World) -> Mirror | None:
    """The mirror of a world's observations and actions; None where its task has none."""
    found = world.task.mirror(world.contract, world.sim)
    if found is None:
        return None
    groups, (index, sign) = found
    maps = {name: Map(index=i, sign=s) for name, (i, s) in groups.items()}
    return Mirror(groups=maps, action=Map(index=index, sign=sign))
