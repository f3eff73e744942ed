"""Several policies over a sample of e, or over a grid of some Params, in the same worlds.

    found = survey(task, sim, {"narrow": a.play, "wide": b.play}, e=prior, grid={"foot_friction": np.linspace(0.2, 1.2, 11)}, seed=1)
    found.difference("wide", "narrow").show(100)

Every policy and every point of the grid sees the same starts, commands, noise and other components of e; differences are taken world by
world.
"""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose, did_you_mean
from surefoot.evaluate.intervals import Estimate, mean, share, share_difference
from surefoot.evaluate.judge import Act, Judged, Measure, judge, rows_of
from surefoot.params import E, Prior
from surefoot.sim import Sim

SHARES = ("success", "fell")
QUANTITIES = (*SHARES, "error", "energy", "score")
Players = Mapping[str, Callable[[], Act]]
"""By name, what makes a fresh function that acts, such as `policy.play`."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """How each policy did at each point."""

    points: tuple[dict[str, float], ...]
    """What the grid set at each point; a sample has one point that sets nothing."""
    judged: dict[str, tuple[Judged, ...]] = field(repr=False)
    """By policy, one for each point; row i of every array is world i, the same for all."""
    units: dict[str, str]
    """Of the grid's Params."""
    seed: int

    @property
    def policies(self) -> tuple[str, ...]:
        """Names, the first one is what others are compared with."""
        return tuple(self.judged)

    @property
    def worlds(self) -> int:
        """Judged at each point."""
        return self.judged[self.policies[0]][0].worlds

    def values(self, policy: str, quantity: str, point: int | None = None) -> np.ndarray:
        """A quantity of every world, (worlds,) at a point, or of all points one after the other."""
        choose(quantity, QUANTITIES, "a quantity that is judged")
        chosen = self.judged[choose(policy, self.judged, "a policy of this survey")]
        parts = chosen if point is None else (chosen[point],)
        return np.concatenate([np.asarray(getattr(part, quantity), float) for part in parts])

    def estimate(self, policy: str, quantity: str = "success", point: int | None = None) -> Estimate:
        """Share or mean of a quantity with its 90 % interval, at one point or over all of them.

        Over several points the same worlds return: they are averaged first, so that the interval counts each world once.
        """
        x = self.values(policy, quantity, point)
        if quantity in SHARES and (point is not None or len(self.points) == 1):
            return share(x)
        return mean(self._by_world(x, point))

    def difference(self, first: str, second: str, quantity: str = "success", point: int | None = None) -> Estimate:
        """first - second of a quantity, world by world, with its 90 % interval, at one point or over all of them.

        Where one of the two has no value (no tracking error after an early fall) the pair is left out.
        """
        a, b = (self.values(name, quantity, point) for name in (first, second))
        if quantity in SHARES and (point is not None or len(self.points) == 1):
            return share_difference(a, b)
        return mean(self._by_world(a - b, point))

    def _by_world(self, x: np.ndarray, point: int | None) -> np.ndarray:
        """Each world's mean over the points where it has a value; NaN where it has none."""
        if point is not None:
            return x
        x = x.reshape(len(self.points), -1)
        seen = np.isfinite(x)
        return np.divide(np.where(seen, x, 0.0).sum(0), seen.sum(0), out=np.full(x.shape[1], np.nan), where=seen.any(0))

    # ---------------------------------------------------------------- for people and files

    def rows(self) -> list[dict[str, Any]]:
        """One row a policy and point: the grid's values, then estimates as `value (low .. high)`."""
        unit = self.judged[self.policies[0]][0].error_unit
        out = []
        for k, point in enumerate(self.points):
            for name in self.policies:
                row: dict[str, Any] = {f"{p} [{self.units[p]}]": f"{v:.4g}" for p, v in point.items()}
                row |= {"policy": name, "success [%]": self.estimate(name, "success", k).show(100)}
                row["falls [%]"] = self.estimate(name, "fell", k).show(100)
                if unit:
                    row[f"error [{unit}]"] = self.estimate(name, "error", k).show()
                row |= {
                    "energy [J]": self.estimate(name, "energy", k).show(),
                    "return": self.estimate(name, "score", k).show(),
                }
                out.append(row)  # fmt: skip
        return out

    def compared(self) -> list[dict[str, Any]]:
        """One row for each policy after the first: what it has more than the first, over all points."""
        unit = self.judged[self.policies[0]][0].error_unit
        first, out = self.policies[0], []
        for name in self.policies[1:]:
            row = {"policy": f"{name} - {first}", "success [points]": self.difference(name, first).show(100)}
            row["falls [points]"] = self.difference(name, first, "fell").show(100)
            if unit:
                row[f"error [{unit}]"] = self.difference(name, first, "error").show()
            row |= {
                "energy [J]": self.difference(name, first, "energy").show(),
                "return": self.difference(name, first, "score").show(),
            }
            out.append(row)  # fmt: skip
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain data: [value, low, high] of every quantity, policy by policy and point by point, and the differences."""
        points = [
            {
                "set": point,
                "policies": {
                    name: {q: self.estimate(name, q, k).to_list() for q in QUANTITIES} for name in self.policies
                },
            }
            for k, point in enumerate(self.points)
        ]
        first = self.policies[0]
        differences = {
            f"{name} - {first}": {q: self.difference(name, first, q).to_list() for q in QUANTITIES}
            for name in self.policies[1:]
        }
        return {
            "worlds": self.worlds, "seed": self.seed, "interval": 0.9, "error_unit": self.judged[first][0].error_unit,
            "points": points, "differences": differences,
        }  # fmt: skip

    def to_csv(self) -> str:
        """One line a policy, point and world: what happened, and its e."""
        text = io.StringIO()
        titles = ["policy", "point", "world", *QUANTITIES, "lasted"]
        one = self.judged[self.policies[0]][0]
        columns = [(n, c) for n, v in one.e.items() for c in (range(v.shape[1]) if v.ndim > 1 else [None])]
        out = csv.writer(text, lineterminator="\n")
        out.writerow([*titles, *(n if c is None else f"{n}[{c}]" for n, c in columns)])
        for name, parts in self.judged.items():
            for k, part in enumerate(parts):
                for i in range(part.worlds):
                    found = [f"{float(getattr(part, q)[i]):.7g}" for q in (*QUANTITIES, "lasted")]
                    e = [f"{float(part.e[n][i] if c is None else part.e[n][i, c]):.9g}" for n, c in columns]
                    out.writerow([name, k, i, *found, *e])
        return text.getvalue()


def survey(
    task: Any,
    sim: Sim,
    players: Players,
    *,
    e: Prior | Mapping[str, Any] | None = None,
    grid: Mapping[str, Any] | None = None,
    seed: int = 1,
    measures: Mapping[str, Measure] | None = None,
    say: Callable[[str], None] | None = None,
) -> Survey:
    """Judge every player at every point of a grid, in the same worlds.

    Args:
        task: what to do.
        sim: its worlds are used, as many at each point; a delay of the grid must lie within its Params' bounds.
        players: name -> what makes a fresh function that acts, such as `policy.play`.
        e: a Prior to draw the worlds' e from, rows of e, or None for the nominal e.
        grid: Param -> values, (k,) each; all combinations are judged. None: only what `e` gives.
        seed: of starts, commands, noise and the draw of e.
        measures: more to add up, see `judge`.
        say: receives a line for each judgement.
    """
    if not players:
        raise InputError("a survey needs at least one policy")
    base: E = sim.params.nominal_e(sim.worlds) if len(sim.params) else {}
    base |= rows_of(e, sim.worlds, seed) if e is not None else {}
    points = _points(sim, grid or {})
    judged: dict[str, list[Judged]] = {name: [] for name in players}
    for point in points:
        rows = base | {name: np.full_like(base[name], value) for name, value in point.items()}
        for name, player in players.items():
            found = judge(task, sim, player(), e=rows, seed=seed, measures=measures)
            judged[name].append(found)
            if say is not None:
                at = ", ".join(f"{k} {v:.4g}" for k, v in point.items())
                say(f"{name}{' at ' + at if at else ''}: {found}")
    return Survey(
        points=tuple(points),
        judged={name: tuple(found) for name, found in judged.items()},
        units={name: sim.params[name].unit for name in grid or {}},
        seed=seed,
    )


def _points(sim: Sim, grid: Mapping[str, Any]) -> list[dict[str, float]]:
    for name, values in grid.items():
        if name not in sim.params:
            raise InputError(f"{name!r} is not a param of this sim {did_you_mean(name, sim.params)}")
        if not np.size(values):
            raise InputError(f"the grid of '{name}' is empty: give at least one value")
    axes = [[float(v) for v in np.ravel(values)] for values in grid.values()]
    return [dict(zip(grid, combination, strict=True)) for combination in product(*axes)]


def parse_grid(words: list[str]) -> dict[str, np.ndarray]:
    """`foot_friction=0.2:1.2:11` (low, high, number) or `foot_friction=0.2,0.5,1` as arrays by Param."""
    out: dict[str, np.ndarray] = {}
    for word in words:
        name, sign, text = word.partition("=")
        try:
            if not sign or not name:
                raise ValueError
            if ":" in text:
                low, high, count = text.split(":")
                if int(count) < 1:
                    raise ValueError
                values = np.linspace(float(low), float(high), int(count))
            else:
                values = np.array([float(v) for v in text.split(",")])
        except ValueError:
            raise InputError(
                f"--grid {word} is not a grid: write NAME=LOW:HIGH:NUMBER such as foot_friction=0.2:1.2:11, or NAME=A,B,C"
            ) from None
        if name in out:
            raise InputError(f"--grid names '{name}' twice: give all of its values at once")
        if not np.isfinite(values).all():
            raise InputError(f"--grid {word} holds a value that is not a finite number")
        out[name] = values
    return out
