"""What the model lacks: which torque, going with which quantity, would explain the residuals of a fit.

    r ≈ Σ_k α_k ∂y/∂τ_k + Σ_m β_m φ_m        τ_k = φ_k(x) on one joint;  φ_m straight onto its reading;  e and the start states eliminated

A missing torque does not show where it acts but later, as the motion it made; residuals are therefore not compared with speeds and
loads themselves but with what torques that go with them would have done, by one replay each. A quantity is named when its terms
explain more of the column's residual than chance would, beyond those named before it: an F test in which residuals that hang together
count as one for every two memories of theirs.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import f as fisher

from surefoot.identify.intervals import memory
from surefoot.identify.quantities import quantities
from surefoot.identify.residuals import Linear, Problem
from surefoot.identify.solve import reduce

PROBE = 0.01
"""[s] Time for which an added torque is held; longer in windows of more than STEPS such times."""
STEPS = 600
SMALL = 0.1
"""Size of the motion that an added torque makes, in σ."""
SECONDS = 12.0
"""[s] Most of the recordings that are looked at, in windows spread over all of them."""
LEVEL = 0.01
"""Chance of naming a quantity of a column by accident."""
ALIKE = 0.03
"""Least eigenvalue of terms' correlations that their sizes are told by: what nearly cancels has no size of its own."""
REPEATED = 1e-3
"""Share of a term that fitted scalars and earlier terms must leave: the rest is rounding."""
SHARE = 0.1
"""Share of a column's squared residual from which a quantity is named."""
NEARLY = 0.9
"""Share of what a quantity explains from which another one is its rival."""
MEASURED = ("voltage", "temperature", "gain")
"""Quantities that logs tell and that may drift: where they tie with time, time is their rival."""
MOST = 3
"""Quantities named for one column."""
COLUMNS = 6
"""Columns that are looked at, at most."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A quantity that the residual of one column goes with."""

    kind: str
    share: float
    """Of the column's squared residual, beyond the quantities named before."""
    size: float
    """Of the torque, root mean square [N·m]; NaN where only the reading goes with it."""
    rivals: tuple[str, ...] = ()
    """Quantities that would explain nearly as much in its place."""


def missing(
    problem: Problem, linear: Linear, s: np.ndarray, offsets: np.ndarray, columns: list[int]
) -> dict[int, list[Missing]]:
    """What each of some columns' residuals goes with, by the number of the column.

    Args:
        problem: the fit.
        linear: its last linearisation, with the columns of s.
        s: where it ended, (d,).
        offsets: of the fitted windows' start states, (windows, nx).
        columns: numbers of the columns to explain, the first COLUMNS of them; joints are probed by torques, others by their readings alone.
    """
    chosen = columns[:COLUMNS]
    take = _spread_out(problem)
    if len(chosen) == 0 or len(take) == 0:
        return {}
    part = _Part(problem, linear, s, offsets, take)
    return {i: part.explain(i) for i in chosen}


def _spread_out(problem: Problem) -> np.ndarray:
    """Places among the fitted windows that are looked at: all, or evenly chosen ones of SECONDS in total."""
    windows = problem.windows.windows
    longest = float(np.median([windows[i].stop - windows[i].start for i in problem.rows]))
    most = max(int(SECONDS / longest), 1)
    n = len(problem.rows)
    return np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).round().astype(int))


class _Part:
    """The fit over some of its windows, e and the starts eliminated from whatever is tried."""

    def __init__(self, problem: Problem, linear: Linear, s: np.ndarray, offsets: np.ndarray, take: np.ndarray):
        assert linear.a is not None
        self.problem, self.take, self.rows = problem, take, problem.rows[take]
        self.s, self.offsets = s, offsets[take]
        self.seen = copy.copy(problem)
        self.seen.rows = self.rows
        self.until = float(problem.rollouts.t[self.rows].max()) if len(take) > 1 else SECONDS
        seen = problem.rollouts.t[self.rows] <= self.until
        self.given, b = (np.where(seen[:, None], c[take], 0.0) for c in (linear.a, linear.b))
        self.trust = problem.trust(linear.r[take])
        self.r = np.where(seen, linear.r[take], 0.0) * self.trust
        products = {"haa": (self.given, self.given), "hab": (self.given, b), "hbb": (b, b)}
        self.linear = Linear(
            r=self.r, b=b, ga=_times(self.given, self.r), gb=_times(b, self.r),
            **{name: x @ y.swapaxes(1, 2) for name, (x, y) in products.items()},
        )  # fmt: skip
        self.reduced = reduce(self.linear, self.offsets)
        self.scale = np.where(problem.rollouts.seen[self.rows] & seen, self.trust / problem.deviation(self.rows), 0.0)
        self.a = self._without_starts(self.given)
        info = (self.a @ self.given.swapaxes(1, 2)).sum(0) + problem.pull.precision
        self.inverse = np.linalg.pinv(0.5 * (info + info.T), rcond=1e-10, hermitian=True)

    def _without_starts(self, c: np.ndarray) -> np.ndarray:
        """Columns (windows, k, n) with what the start states can do taken out."""
        if not self.problem.nx:
            return c
        return c - (c @ self.linear.b.swapaxes(1, 2)) @ self.reduced.inverse @ self.linear.b

    def _left(self, c: np.ndarray) -> np.ndarray:
        """Columns (windows, k, n) with what starts and fitted scalars can do taken out."""
        c = self._without_starts(c)
        shared = (c @ self.given.swapaxes(1, 2)).sum(0) @ self.inverse
        return c - np.einsum("kd,wdn->wkn", shared, self.a)

    def explain(self, i: int) -> list[Missing]:
        """The quantities that column i's residual goes with, strongest first."""
        problem = self.problem
        t = problem.rollouts.t[self.rows][:, problem.rollouts.column == i]
        torques, readings = quantities(problem, self.s, self.rows, i, t)
        kinds: list[str] = []
        parts: list[np.ndarray] = []
        if torques:
            kinds += [kind for kind, terms in torques.items() for _ in terms]
            parts.append(self._pushed(i, [term for terms in torques.values() for term in terms]))
        for kind, term in readings.items():
            kinds.append(kind)
            parts.append(self._read(i, term(t))[:, None])
        if not kinds:
            return []
        pushed = sum(len(terms) for terms in torques.values())
        c = self._left(np.concatenate(parts, axis=1))
        score, info = _times(c, self.r).sum(0), (c @ c.swapaxes(1, 2)).sum(0)
        own = np.where(problem.rollouts.column == i, self.r, 0.0)
        lengths = [problem.windows.windows[k].stop - problem.windows.windows[k].start for k in self.rows]
        seconds = float(np.minimum(lengths, self.until).sum())
        independent = seconds / (2 * memory(self.seen, own))
        named = _chosen(kinds, score, info, independent, max(float((own**2).sum()), 1e-300))
        return [
            Missing(kind=k, share=share, size=self._size(alpha, [j for j in range(pushed) if kinds[j] == k], i), rivals=rivals)
            for k, share, alpha, rivals in named
        ]  # fmt: skip

    def _size(self, alpha: np.ndarray, which: list[int], i: int) -> float:
        """Root mean square of a torque whose terms have unit mean square [N·m]."""
        return float(np.linalg.norm(alpha[which])) * self._step(i) if which else float("nan")

    def _joint(self, i: int) -> int:
        return self.problem.sim.robot.joints.index(self.problem.rollouts.labels[i][1])

    def _step(self, i: int) -> float:
        """Torque [N·m] that moves the joint by SMALL σ: against its position loop, or freely for a window."""
        problem = self.problem
        name, joint = problem.rollouts.labels[i][1], self._joint(i)
        stiff = next((a.kp for a in problem.sim.robot.actuators if a.name == name and a.model == "pd"), 0.0)
        window = problem.windows.windows[self.rows[0]]
        free = 2 * float(problem.sim.model.dof_M0[problem.sim.sensors.dq[joint]]) / (window.stop - window.start) ** 2
        return SMALL * float(problem.sigma[i]) * max(stiff, free)

    def _pushed(self, i: int, terms: list[Callable[[np.ndarray], np.ndarray]]) -> np.ndarray:
        """Columns (windows, terms, n): weighted change of y by one step of each torque on column i's joint."""
        problem, joint, step = self.problem, self._joint(i), self._step(i)
        longest = min(
            self.until, max(problem.windows.windows[k].stop - problem.windows.windows[k].start for k in self.rows)
        )
        hold = max(PROBE, longest / STEPS)
        at = np.arange(int(np.ceil(longest / hold - 1e-6)))[None] * hold + 0.5 * hold
        at = np.repeat(at, len(self.rows), axis=0)  # (windows, probes)
        torque = np.zeros((1 + len(terms), *at.shape, len(problem.sim.robot.joints)))
        for k, term in enumerate(terms):
            torque[1 + k, ..., joint] = step * term(at)
        y = problem.pushed(self.s, self.rows, self.offsets, torque, hold)
        change = (y[1:] - y[0]).swapaxes(0, 1) * self.scale[:, None]
        return np.where(np.isfinite(change), change, 0.0)

    def _read(self, i: int, term: np.ndarray) -> np.ndarray:
        """Column (windows, n): weighted change of y where only the reading of column i goes with a quantity."""
        here = self.problem.rollouts.column == i
        out = np.zeros((len(self.rows), self.problem.rollouts.n))
        out[:, here] = term * self.problem.sigma[i]
        return out * self.scale


def _times(columns: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Columns (windows, k, n) times r (windows, n), (windows, k)."""
    return (columns @ r[..., None])[..., 0]


def _chosen(
    kinds: list[str], score: np.ndarray, info: np.ndarray, independent: float, total: float
) -> list[tuple[str, float, np.ndarray, tuple[str, ...]]]:
    """Forward selection of kinds: (kind, share beyond those before, α (k,), rivals) while one explains enough.

    score (k,) and info (k, k) are of the tried columns, `total` is the squared residual and `independent` how many residuals stand for it.
    """
    out: list[tuple[str, float, np.ndarray, tuple[str, ...]]] = []
    taken: list[int] = []
    names, left = list(dict.fromkeys(kinds)), 1.0
    while len(out) < MOST:
        found = []
        for kind in names:
            own = [j for j, other in enumerate(kinds) if other == kind]
            if any(j in taken for j in own):
                continue
            gain, k = _gain(score, info, own, taken)
            share, free = gain / total, independent - len(taken) - k
            if k == 0 or share < SHARE or free < 1:
                continue
            ratio = (share / k) / max((left - share) / free, 1e-12)
            if ratio > fisher.ppf(1 - LEVEL / len(names), k, free):
                found.append((share, kind, own))
        if not found:
            return out
        share, kind, own = max(_measured(found))
        taken, left = taken + own, max(left - share, 0.0)
        alpha = np.zeros(len(kinds))
        scale = np.sqrt(np.maximum(np.diag(info)[taken], 1e-300))
        scaled = info[np.ix_(taken, taken)] / np.outer(scale, scale)
        alpha[taken] = np.linalg.pinv(scaled, rcond=ALIKE, hermitian=True) @ (score[taken] / scale) / scale
        rivals = tuple(other for s, other, _ in sorted(found, reverse=True) if other != kind and s > NEARLY * share)
        out.append((kind, share, alpha, rivals))
    return out


def _measured(found: list[tuple[float, str, list[int]]]) -> list[tuple[float, str, list[int]]]:
    """Candidates (share, kind, columns) without time, where what was measured explains nearly as much: all that changes drifts in time."""
    best = max(share for share, _, _ in found)
    told = [x for x in found if x[1] in MEASURED and x[0] > NEARLY * best]
    return [x for x in found if x[1] != "drift"] if told else found


def _gain(score: np.ndarray, info: np.ndarray, own: list[int], taken: list[int]) -> tuple[float, int]:
    """Squared residual that the columns `own` explain beyond `taken`, and how many of them do more than repeat others."""
    u, inside = score[own], info[np.ix_(own, own)]
    if taken:
        cross = info[np.ix_(own, taken)] @ np.linalg.pinv(info[np.ix_(taken, taken)], rcond=1e-8, hermitian=True)
        u, inside = u - cross @ score[taken], inside - cross @ info[np.ix_(taken, own)]
    scale = np.sqrt(np.maximum(np.diag(info)[own], 1e-300))
    values, axes = np.linalg.eigh(inside / np.outer(scale, scale))
    strong = values > REPEATED
    along = (u / scale) @ axes[:, strong]
    return float((along**2 / values[strong]).sum()), int(strong.sum())
