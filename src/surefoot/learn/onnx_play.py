"""A policy of a bundle, played in many worlds: tensors in, tensors out."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def play(policy: Any) -> Callable[..., Tensor]:
    """A function `act(observations, ended=None) -> action` of a surefoot.deploy OnnxPolicy, which acts on NumPy arrays.

    A memory cannot be emptied for some worlds alone, so that a policy with one is judged on the first episode of each world.
    """
    policy.reset()
    groups = [group.name for group in policy.contract.groups]

    def act(observations: Mapping[str, Tensor], ended: Tensor | None = None) -> Tensor:
        rows = {name: observations[name].cpu().numpy() for name in groups}
        return torch.from_numpy(policy(rows)).to(observations[groups[0]].device)

    return act
