"""The price of robustness: what one policy for all e gives away against a specialist for each.

    price = E[J*(e)] - E[J(θ, e)]          J*(e): the policy trained at e alone; J(θ, e): the robust one there

The expectation is over draws of e; at each, both meet the same starts, commands and noise. Its interval is Student's over the draws:
with few specialists it is wide, and says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.evaluate.intervals import Estimate, mean, mean_difference
from surefoot.evaluate.judge import Act, judge
from surefoot.params import E
from surefoot.report import Page
from surefoot.sim import Sim


@dataclass(frozen=True, kw_only=True)
class Price:
    """What specialists and the robust policy reach at each draw of e."""

    e: E
    """A row for each draw."""
    names: tuple[str, ...]
    """Scalar labels of e."""
    table: np.ndarray
    """(draws, scalars) of e."""
    score: np.ndarray
    """Mean return, (2, draws): specialist, robust."""
    success: np.ndarray
    """Share of success, (2, draws)."""
    within: np.ndarray
    """Paired difference of the return at each draw with its 90 % interval, (draws, 3)."""
    worlds: int
    """Judged at each draw."""

    def price(self, quantity: str = "score") -> Estimate:
        """E[J*(e)] - E[J(θ, e)] in return ("score") or in share of success ("success")."""
        star, robust = getattr(self, quantity)
        return mean_difference(star, robust)

    def rows(self) -> list[dict[str, Any]]:
        """One row a draw, then their mean."""
        rows = []
        for k, e in enumerate(self.table):
            row: dict[str, Any] = {"draw": str(k)}
            row |= {name: f"{v:.4g}" for name, v in zip(self.names[:4], e[:4], strict=False)}
            rows.append(row | self._cells(self.score[:, k], self.success[:, k], self._within(k)))
        last: dict[str, Any] = {"draw": "mean"} | dict.fromkeys(self.names[:4], "")
        return [*rows, last | self._cells(self.score.mean(1), self.success.mean(1), self.price())]

    @staticmethod
    def _cells(score: np.ndarray, success: np.ndarray, gap: Estimate) -> dict[str, str]:
        return {
            "J* specialist": f"{score[0]:.4g}",
            "J robust": f"{score[1]:.4g}",
            "difference": gap.show(),
            "success specialist [%]": f"{100 * success[0]:.1f}",
            "success robust [%]": f"{100 * success[1]:.1f}",
        }

    def _within(self, k: int) -> Estimate:
        value, low, high = (float(x) for x in self.within[k])
        return Estimate(value=value, low=low, high=high, count=self.worlds)

    def put(self, page: Page) -> None:
        """Add table and plot to a page."""
        whole = self.price()
        rows = [(f"draw {k}", *(float(x) for x in self.within[k])) for k in range(len(self.table))]
        rows.append(("all draws", whole.value, whole.low, whole.high))
        page.intervals(
            "Price of robustness, J*(e) - J(θ, e)", rows, "return [1]", zero=True,
            note="At each draw: over worlds with the same starts and noise. All draws: over e. 90 % intervals.",
        )  # fmt: skip
        page.table(self.rows(), caption="Specialists against the robust policy")


def price(
    task: Any,
    sim: Sim,
    robust: Callable[[], Act],
    specialists: Sequence[Callable[[], Act]],
    *,
    e: E,
    seed: int = 1,
) -> Price:
    """Judge the robust policy and each specialist at the specialist's own e, in the same worlds.

    Args:
        task: what to do.
        sim: its worlds are used for every draw.
        robust: makes a fresh function that acts, such as `policy.play`.
        specialists: one for each draw, trained at that e.
        e: a row for each draw, in the order of `specialists`.
        seed: of starts, commands and noise.
    """
    table = sim.params.flatten(e)
    if len(table) != len(specialists) or not len(table):
        raise InputError(f"{len(specialists)} specialists for {len(table)} draws of e: give one for each, at least one")
    score, success, within = np.zeros((2, len(table))), np.zeros((2, len(table))), np.zeros((len(table), 3))
    for k, row in enumerate(table):
        here = sim.params.unflatten(np.repeat(row[None], sim.worlds, axis=0))
        found = [judge(task, sim, player(), e=here, seed=seed) for player in (specialists[k], robust)]
        score[:, k] = [mean(f.score).value for f in found]
        success[:, k] = [float(np.nanmean(f.success)) for f in found]
        gap = mean_difference(found[0].score, found[1].score)
        within[k] = gap.value, gap.low, gap.high
    return Price(
        e=dict(e), names=sim.params.names, table=table, score=score, success=success, within=within, worlds=sim.worlds
    )
