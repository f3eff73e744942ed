"""Does it stay on its feet on rough ground? Fresh worlds with steps and slopes drawn evenly, noise, delays and pushes on.

A world survives when it does not fall within the time; its first episode alone is judged. Walking to the edge of the ground is no fall.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from surefoot.evaluate.intervals import wilson
from surefoot.evaluate.judge import Act, judge
from surefoot.evaluate.walking import walking
from surefoot.params import E, Prior
from surefoot.sim import Sim

BINS = (0.0, 0.025, 0.055, 0.08)
"""Edges of the bins of step height [m]; the last one is part of its bin."""


@dataclass(frozen=True, kw_only=True)
class RoughWalk:
    """Who survived, on which ground."""

    survived: np.ndarray
    """(worlds,) bool."""
    e: E
    """Of every world, step_height [m] and slope [rad] among it."""
    speed_error: float
    """Mean |v_xy - command| of the worlds while they stood, after the first 2 s [m/s]."""

    @property
    def survival(self) -> float:
        """Share of worlds that did not fall."""
        return float(self.survived.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 90 % interval of the survival."""
        return wilson(int(self.survived.sum()), len(self.survived))

    def by(self, name: str, edges: tuple[float, ...] = BINS) -> list[tuple[float, float, int, float]]:
        """Low and high edge, number of worlds and survival (NaN without worlds) for bins of |e[name]|."""
        size = np.abs(self.e[name])
        found = []
        for low, high in pairwise(edges):
            inside = (size >= low) & ((size <= high * (1 + 1e-9)) if high == edges[-1] else (size < high))
            share = float(self.survived[inside].mean()) if inside.any() else float("nan")
            found.append((low, high, int(inside.sum()), share))
        return found

    def __str__(self) -> str:
        low, high = self.interval
        bins = ", ".join(
            f"{100 * a:g}..{100 * b:g} cm {100 * share:.0f} % of {n}" for a, b, n, share in self.by("step_height")
        )
        return (
            f"survival {100 * self.survival:.1f} % ({100 * low:.1f}..{100 * high:.1f}), steps {bins}; "
            f"speed error {self.speed_error:.3f} m/s"
        )


def rough_walk(
    task: Any,
    sim: Sim,
    act: Act,
    *,
    e: Prior | None = None,
    seed: int = 1_000_003,
    seconds: float = 10.0,
) -> RoughWalk:
    """Run `act(observations, ended)` of a velocity task in every world of `sim` and see who stays on its feet.

    Args:
        task: a surefoot.tasks.Velocity.
        sim: its worlds are used; its Params hold step_height. They are reset.
        act: a policy without exploration noise, such as `policy.play()`.
        e: where the worlds' e is drawn from; None: evenly from all that the sim's Params allow.
        seed: of starts, commands, noise and e.
        seconds: length of the walk.
    """
    rows = (sim.params.prior() if e is None else e).sample(sim.worlds, seed)
    found = judge(replace(walking(task, seconds), follow=None), sim, act, e=rows, seed=seed)
    judged = found.counts > 0
    wrong = float((found.error[judged] * found.counts[judged]).sum()) / max(float(found.counts.sum()), 1.0)
    return RoughWalk(survived=~found.fell, e=found.e, speed_error=wrong)
