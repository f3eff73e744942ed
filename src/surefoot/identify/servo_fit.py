"""Many fits of one servo at once: every problem has its own free scalars and its own weights of the logs.

    F_p(s) = Σ_L w_pL mean_t ρ(replay(e(s)) - log) + ridge |s - centre|²,     ρ(r) = 2 δ² (√(1 + (r/δ)²) - 1)

ρ is a square near zero and an absolute value far out: rollouts are judged by their mean absolute error, and a few seconds that no value
of e explains must not decide the rest. All finite-difference columns and all trial steps of all problems go through the rig together,
so that a dozen candidate structures times several folds cost little more than one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from surefoot.identify.coordinates import natural
from surefoot.identify.servo_logs import ServoLogs
from surefoot.params import E

GROUP = 64
"""Candidates that the rig takes in one call; more would not fit in the cache."""
NUDGE = 0.01
"""Finite difference, as a share of a scalar's range."""
DAMPING = (1e-3, 1e-2, 0.1, 1.0, 10.0)
"""Levenberg-Marquardt dampings tried in one batch, relative to the present one."""
WIDEST = 0.25
"""Longest step of one scalar, as a share of its range."""
NARROW, WIDE = 0.05, 0.15
"""Spreads of the points drawn around a start, as shares of the ranges."""
SLIGHT = 2e-3
"""Relative decrease of F below which a problem is finished."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One problem.

    Attributes:
        free: which scalars are fitted, (d,) bool.
        s: where to start, positions between the bounds, (d,).
        weights: of the logs, (L,); 0: not seen.
        centre: where the ridge pulls to, (d,); the start when None.
    """

    free: np.ndarray
    s: np.ndarray
    weights: np.ndarray
    centre: np.ndarray | None = None


class ServoFits:
    """The objective of all problems: logs, values of scalars that are off, and the loss."""

    def __init__(self, logs: ServoLogs, off: Mapping[str, float], *, soft: float = 0.02, ridge: float = 1e-3):
        """Take the logs and the loss.

        Args:
            logs: what to fit.
            off: by Param, the value at which it does nothing; used where a problem does not fit it.
            soft: δ [rad], where squares turn into absolute values.
            ridge: pull to the centre, as a share of F there for a whole range; keeps scalars that the logs do not show.
        """
        self.logs, self.params, self.soft, self.ridge = logs, logs.rig.params, soft, ridge
        names = list(self.params)
        nominal = self.params.nominal_e(1)
        self.off = self.params.flatten({n: np.array([off[n]]) if n in off else nominal[n] for n in names})[0]
        self._count = logs.seen.sum(1)

    def e(self, s: np.ndarray, free: np.ndarray) -> E:
        """e of positions s (C, d); scalars that are not free (C, d) take their values of `off`."""
        return self.params.unflatten(np.where(free, natural(self.params, s), self.off))

    def errors(self, s: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Replay minus log, (C, L, T), of candidates s (C, d) with their free scalars (C, d)."""
        parts = [self.logs.errors(self.e(s[i : i + GROUP], free[i : i + GROUP])) for i in range(0, len(s), GROUP)]
        r = np.concatenate(parts)
        return np.where(np.isfinite(r), np.clip(r, -20.0, 20.0), 20.0)

    def loss(self, r: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """F without the ridge, (C,), of errors (C, L, T) under weights (C, L)."""
        d = self.soft
        rho = 2 * d * d * (np.sqrt(1 + (r / d) ** 2) - 1)
        return (weights * rho.sum(-1) / self._count).sum(-1)

    def mae(self, s: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Mean absolute error of every log, (C, L) [rad]."""
        return np.abs(self.errors(s, free)).sum(-1) / self._count

    def search(
        self, tasks: list[Task], *, draws: int = 64, keep: int = 2, seed: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `solve`, from the best `keep` of `draws` points around every start: rollouts of a joint that sticks have many dips."""
        rng = np.random.default_rng(seed)
        widths = np.where(np.arange(draws) % 2, WIDE, NARROW)[:, None]
        near: list[Task] = []
        for task in tasks:
            s = np.clip(task.s + task.free * widths * rng.standard_normal((draws, len(task.s))), 0.0, 1.0)
            s[0] = task.s
            free, weights = (np.repeat(x[None], draws, axis=0) for x in (task.free, task.weights / task.weights.sum()))
            order = np.argsort(self.loss(self.errors(s, free), weights))[:keep]
            near += [Task(free=task.free, s=s[i], weights=task.weights, centre=task.s) for i in order]
        s, F = self.solve(near)
        best = np.argmin(F.reshape(len(tasks), keep), axis=1) + keep * np.arange(len(tasks))
        return s[best], F[best]

    def solve(self, tasks: list[Task], *, iterations: int = 12) -> tuple[np.ndarray, np.ndarray]:
        """Positions (P, d) and F (P,) where every problem ended."""
        free, s = np.stack([t.free for t in tasks]), np.stack([t.s for t in tasks]).astype(float)
        weights = np.stack([t.weights / max(t.weights.sum(), 1e-12) for t in tasks])
        start = np.stack([t.s if t.centre is None else t.centre for t in tasks])
        damping = np.full(len(tasks), 0.1)
        F = self.loss(self.errors(s, free), weights)
        ridge = self.ridge * F
        going = np.ones(len(tasks), dtype=bool)
        for _ in range(iterations):
            rows = np.flatnonzero(going)
            if not len(rows):
                break
            gradients, hessians = self._linearise(s[rows], free[rows], weights[rows])
            trial, owner, level = [], [], []
            for i, p in enumerate(rows):
                at = np.flatnonzero(free[p])
                g = gradients[i][at] + ridge[p] * (s[p] - start[p])[at]
                H = hessians[i][np.ix_(at, at)] + ridge[p] * np.eye(len(at))
                scale = np.diag(H) + 1e-3 * np.diag(H).mean()
                for factor in DAMPING:
                    step = np.linalg.solve(H + damping[p] * factor * np.diag(scale), -g)
                    fresh = s[p].copy()
                    fresh[at] = np.clip(fresh[at] + np.clip(step, -WIDEST, WIDEST), 0.0, 1.0)
                    trial.append(fresh)
                    owner.append(p)
                    level.append(damping[p] * factor)
            tried, of = np.array(trial), np.array(owner)
            cost = self.loss(self.errors(tried, free[of]), weights[of])
            total = cost + 0.5 * ridge[of] * ((tried - start[of]) ** 2).sum(1)
            for p in rows:
                mine = np.flatnonzero(of == p)
                best = mine[int(np.argmin(total[mine]))]
                now = F[p] + 0.5 * ridge[p] * ((s[p] - start[p]) ** 2).sum()
                if total[best] < now:
                    going[p] = now - total[best] > SLIGHT * now
                    s[p], F[p], damping[p] = tried[best], cost[best], np.clip(level[best], 1e-5, 1e3)
                else:
                    damping[p] *= 100.0
                    going[p] = damping[p] < 1e4
        return s, F

    def _linearise(
        self, s: np.ndarray, free: np.ndarray, weights: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Half gradients (d,) and Gauss-Newton matrices (d, d) of F for every problem."""
        rows, owner, columns = [s], [np.arange(len(s))], []
        for p in range(len(s)):
            at = np.flatnonzero(free[p])
            way = np.where(s[p, at] + NUDGE <= 1.0, NUDGE, -NUDGE)
            moved = np.repeat(s[p : p + 1], len(at), axis=0)
            moved[np.arange(len(at)), at] += way
            rows.append(moved)
            owner.append(np.full(len(at), p))
            columns.append((at, way))
        of = np.concatenate(owner)
        r = self.errors(np.concatenate(rows), free[of])
        gradients, hessians, d, first = [], [], s.shape[1], len(s)
        for p, (at, way) in enumerate(columns):
            J = (r[first : first + len(at)] - r[p]) / way[:, None, None]
            first += len(at)
            w = (weights[p] / self._count)[:, None] / np.sqrt(1 + (r[p] / self.soft) ** 2)
            g, H = np.zeros(d), np.zeros((d, d))
            flat = (J * np.sqrt(w)).reshape(len(at), -1)
            g[at] = (J * (w * r[p])).sum((1, 2))
            H[np.ix_(at, at)] = flat @ flat.T
            gradients.append(g)
            hessians.append(H)
        return gradients, hessians
