"""What a policy saw in training, measured again: the least and the largest of every observation.

The policy drives many worlds with drawn e and drawn commands; in every second world its actions carry the noise of training.
The range is exact over what was run: it is a smallest box, not a distribution.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.contract import Contract, Group
from surefoot.deploy.agreement import entries
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.learn.networks import Policy
    from surefoot.params import Prior
    from surefoot.sim import Sim
    from surefoot.tasks.task import Task

KEPT = 8
"""Worlds whose observations are kept, for comparing two forms of the policy."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the policy observed.

    Attributes:
        low, high: group -> (n,), of every entry of the group's vector.
        samples: group -> (steps, worlds, n) float32, of a few worlds, from their first step on; episodes follow each other.
        worlds, seconds: how much was run.
        ended: episodes that ended.
    """

    low: dict[str, np.ndarray]
    high: dict[str, np.ndarray]
    samples: dict[str, np.ndarray] = field(repr=False)
    worlds: int
    seconds: float
    ended: int


def trained_ranges(
    policy: "Policy", task: "Task", sim: "Sim", *, seconds: float = 10.0, e: "Prior | None" = None, seed: int = 0
) -> Seen:
    """Run the policy in all worlds of `sim` and say what it observed.

    Args:
        policy: as learned.
        task: what it does; draws the commands.
        sim: where; its number of worlds is used.
        seconds: simulated time per world [s].
        e: what e is drawn from; the sim's own Params when left out.
        seed: of starts, commands, e and noise.
    """
    if not 0.0 < seconds < math.inf:
        raise InputError(f"ranges are measured over a time above 0 s, got {seconds!r}")
    from surefoot.learn.threads import torch_threads
    from surefoot.tasks import World

    prior = e if e is not None or not len(sim.params) else sim.params.prior()
    world = World(task, sim, e=prior, seed=seed)
    steps = round(seconds / sim.control_dt)
    if steps < 1:
        raise InputError(f"{seconds:g} s is less than one control period ({sim.control_dt:g} s): run for longer")
    rng = np.random.default_rng([seed, 0xB0B])
    noise = np.where(np.arange(sim.worlds) % 2 == 1, 1.0, 0.0)[:, None] * policy.std
    act, ended, count = policy.play(), None, 0
    observations = world.reset(spread=False)
    names = tuple(policy.widths)
    low = {name: np.full(policy.widths[name], np.inf) for name in names}
    high = {name: np.full(policy.widths[name], -np.inf) for name in names}
    kept: dict[str, list[np.ndarray]] = {name: [] for name in names}
    with torch_threads(1):
        for _ in range(steps):
            for name in names:
                x = observations[name].cpu().numpy()
                low[name], high[name] = np.minimum(low[name], x.min(axis=0)), np.maximum(high[name], x.max(axis=0))
                kept[name].append(x[:KEPT].astype(np.float32))
            action = act(observations, ended)
            found = world.step(action + action.new_tensor(noise * rng.standard_normal(noise.shape)))
            observations, ended = found.observations, found.ended
            count += len(ended)
    samples = {name: np.stack(rows) for name, rows in kept.items()}
    return Seen(low=low, high=high, samples=samples, worlds=sim.worlds, seconds=steps * sim.control_dt, ended=count)


def with_trained(contract: Contract, low: Mapping[str, Any], high: Mapping[str, Any]) -> Contract:
    """The contract with the range of every term: low and high by group, (n,); of a history, over all its steps."""
    groups = tuple(_with_range(g, low[g.name], high[g.name]) if g.name in low else g for g in contract.groups)
    return replace(contract, groups=groups)


def _with_range(group: Group, low: np.ndarray, high: np.ndarray) -> Group:
    if np.shape(low) != (group.size,) or np.shape(high) != (group.size,):
        raise InputError(f"the range of group {group.name!r} needs {group.size} numbers, got shape {np.shape(low)}")
    ends: dict[str, list[np.ndarray]] = {}
    for columns, term in entries(group):
        before = ends.get(term.name)
        a, b = np.asarray(low)[columns], np.asarray(high)[columns]
        ends[term.name] = [a, b] if before is None else [np.minimum(before[0], a), np.maximum(before[1], b)]
    terms = tuple(
        replace(term, trained=(tuple(ends[term.name][0].tolist()), tuple(ends[term.name][1].tolist())))
        for term in group.terms
    )
    return replace(group, terms=terms)
