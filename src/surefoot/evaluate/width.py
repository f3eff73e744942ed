"""The width plot: success against one parameter, for policies trained on ranges of different width.

A policy trained at one value is good there and nowhere else; one trained on everything is good nowhere. Between them lies the range
to train on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import choose
from surefoot.evaluate.intervals import Estimate
from surefoot.evaluate.picture import Curve, drawing
from surefoot.evaluate.survey import Players, Survey, survey
from surefoot.params import Prior
from surefoot.report import Page
from surefoot.sim import Sim


@dataclass(frozen=True, kw_only=True)
class Width:
    """Success of several policies over the values of one parameter."""

    param: str
    unit: str
    values: np.ndarray
    """(points,)"""
    ranges: dict[str, tuple[float, float]]
    """What each policy was trained on; a policy without one is drawn without a shade."""
    survey: Survey

    @property
    def policies(self) -> tuple[str, ...]:
        """Their names."""
        return self.survey.policies

    def at(self, policy: str, value: float, quantity: str = "success") -> Estimate:
        """A policy's share or mean at the point nearest to `value`."""
        return self.survey.estimate(policy, quantity, self.nearest(value))

    def difference(self, first: str, second: str, value: float, quantity: str = "success") -> Estimate:
        """first - second at the point nearest to `value`, world by world."""
        return self.survey.difference(first, second, quantity, self.nearest(value))

    def nearest(self, value: float) -> int:
        """Number of the point nearest to `value`."""
        return int(np.abs(self.values - value).argmin())

    def least(self, policy: str, low: float, high: float) -> Estimate:
        """A policy's smallest success at the points from `low` to `high`."""
        inside = [k for k, v in enumerate(self.values) if low - 1e-9 <= v <= high + 1e-9]
        return min((self.survey.estimate(policy, "success", k) for k in inside), key=lambda found: found.value)

    def curves(self, quantity: str = "success") -> dict[str, np.ndarray]:
        """(3, points) by policy: value, low and high."""
        out = {}
        for name in self.policies:
            found = [self.survey.estimate(name, quantity, k) for k in range(len(self.values))]
            out[name] = np.array([[f.value, f.low, f.high] for f in found]).T
        return out

    def rows(self) -> list[dict[str, Any]]:
        """The table: a row for each value, a column of success [%] for each policy."""
        return [
            {f"{self.param} [{self.unit}]": f"{value:.4g}"}
            | {name: self.survey.estimate(name, "success", k).show(100) for name in self.policies}
            for k, value in enumerate(self.values)
        ]

    def svg(self) -> str:
        """The picture as one SVG file: lines with their intervals, training ranges shaded."""
        curves = self.curves()
        return drawing(
            title=f"Success over {self.param}, by training range",
            xlabel=f"{self.param} [{self.unit}]",
            ylabel="success [%]",
            curves=[
                Curve(label=name, x=self.values, y=100 * y[0], low=100 * y[1], high=100 * y[2])
                for name, y in curves.items()
            ],
            shades=self.ranges,
            ylim=(0.0, 100.0),
        )

    def put(self, page: Page) -> None:
        """Add table and plot to a page."""
        curves = self.curves()
        series: dict[str, Any] = {name: 100 * y[0] for name, y in curves.items()}
        bands = {name: (100 * y[1], 100 * y[2]) for name, y in curves.items()}
        for name, ends in self.ranges.items():
            low, high = np.clip(ends, self.values[0], self.values[-1])
            if high > low:
                label = f"trained on: {name}"
                series[label] = (np.array([low, high]), np.zeros(2))
                bands[label] = (np.zeros(2), np.full(2, 100.0))
        marks = {f"trained at: {name}": low for name, (low, high) in self.ranges.items() if high == low}
        page.lines(
            f"Success over {self.param}", self.values, series, f"{self.param} [{self.unit}]", "success [%]", bands=bands, marks=marks,
            note="Bands about lines are 90 % intervals; shaded rectangles are the ranges that the policies were trained on.",
        )  # fmt: skip
        page.table(self.rows(), caption="Success [%] with 90 % intervals")
        returns = self.curves("score")
        page.lines(
            f"Return over {self.param}", self.values, {name: y[0] for name, y in returns.items()}, f"{self.param} [{self.unit}]",
            "return [1]", bands={name: (y[1], y[2]) for name, y in returns.items()},
            note="Where all of them succeed, the return still tells them apart.",
        )  # fmt: skip


def width(
    task: Any,
    sim: Sim,
    players: Players,
    *,
    param: str,
    values: Any,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    e: Prior | Mapping[str, Any] | None = None,
    seed: int = 1,
    say: Callable[[str], None] | None = None,
) -> Width:
    """Judge policies over the values of one Param, in the same worlds.

    Args:
        task: what to do.
        sim: its worlds are used at every value.
        players: name -> what makes a fresh function that acts, such as `policy.play`.
        param: the Param that moves.
        values: its values, ascending, (points,).
        ranges: name -> (low, high) that the policy was trained on.
        e: where the other components come from; None: nominal.
        seed: of starts, commands, noise and e.
        say: receives a line for each judgement.
    """
    for name in ranges or {}:
        choose(name, players, "a policy of this plot")
    values = np.sort(np.asarray(values, float))
    found = survey(task, sim, players, e=e, grid={param: values}, seed=seed, say=say)
    return Width(param=param, unit=found.units[param], values=values, ranges=dict(ranges or {}), survey=found)
