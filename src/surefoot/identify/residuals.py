"""The misfit that a fit makes small, and its derivatives by all unknowns.

    F(s, δ) = Σ_windows Σ_entries ρ((y_log - y(s, δ_w)) / σ_column) + Σ_w ‖δ_w‖² + (s - s0)ᵀ P (s - s0)

s (d,) are the fitted scalars as positions between their bounds, 0 at `low` and 1 at `high`; Params that are apart have some in s for
every recording (see apart.py). δ_w are the offsets of each window's start state in standard deviations of their prior. All
finite-difference columns of all windows are one batch: column j moves one scalar in every window, or one coordinate of every window's
own start, so that the cost is (1 + d + nx) rollouts of the data, where d counts a Param that is apart once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.apart import Apart
from surefoot.identify.coordinates import packed, shares, straight
from surefoot.identify.fit import Run
from surefoot.identify.inverse_given import given_e, given_names
from surefoot.identify.pull import Pull
from surefoot.identify.rollouts import Rollouts
from surefoot.identify.windows import Windows
from surefoot.logs import Log
from surefoot.params import E, Params, Prior
from surefoot.sim import Sim
from surefoot.sim.gap import step_of
from surefoot.sim.sensors import CHANNELS

STEPS = {"fine": (1e-6, 1e-4), "coarse": (1e-3, 0.1), "rough": (1e-2, 0.3)}
"""Finite-difference steps: of a scalar, as a share of its range, and of a start state, in standard deviations of its prior.

Physics repeats its bits, so fine steps leave seven digits, which ill-conditioned fits need; coarse and rough ones see over the
edges of stick and slip."""
STEP_DELAY = 1e-7
"""[s] Least step of a time: instants nearer than 1 ns count as the same."""
ORDERS = (3, 5, 7)
"""Orders of the differences that noise floors are read from."""
LEAST = 0.1
"""Least σ of a column, in noise floors."""
BATCH = 300e6
"""[bytes] Most that the predictions of one linearisation may take."""
REMEMBERED = 16
"""Predictions that are kept in case they are asked for again."""
LARGEST = 8e6
"""[bytes] Size of one prediction above which none is kept."""
LOST = 10.0
"""Largest gap that counts, and that of a world which left the numbers, in ranges of the column in the logs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Linear:
    """The misfit around one point, window by window; r ≈ r0 - A ds - B dδ.

    Attributes:
        r: weighted residuals, (windows, n); zero where nothing was measured.
        haa, hab, hbb: AᵀA (windows, d, d), AᵀB (windows, d, nx), BᵀB (windows, nx, nx).
        ga, gb: Aᵀr (windows, d), Bᵀr (windows, nx).
        b: the columns B themselves, transposed, (windows, nx, n).
        a: the columns A, transposed, (windows, d, n), where asked for.
    """

    r: np.ndarray
    haa: np.ndarray
    hab: np.ndarray
    hbb: np.ndarray
    ga: np.ndarray
    gb: np.ndarray
    b: np.ndarray
    a: np.ndarray | None = None


class Problem:
    """One fit: which scalars, which windows, how every residual is weighed.

    Attributes:
        apart: which Params have a value for each recording.
        schema: the fitted Params, bound; those that are apart once for each recording.
        params: the same on linear scales: physics is nearly linear in frictions and masses whatever the scale of their belief.
        rollouts: predictions of all windows.
        rows: numbers of the fitted windows.
        sigma: standard deviation of the residuals, (columns,), one for all columns of a channel; `reweigh` estimates it.
    """

    def __init__(
        self,
        sim: Sim,
        windows: Windows,
        *,
        only: Sequence[str] | None = None,
        prior: Prior | None = None,
        start: str = "estimate",
        robust: float | None = None,
        hold: tuple[str, ...] = (),
        fixed: Mapping[str, Any] | None = None,
        apart: Sequence[str] = (),
        stated: Sequence[Mapping[str, Any]] | None = None,
    ):
        """Prepare a fit.

        Args:
            sim: robot and Params.
            windows: what to compare, see `cut`.
            only: names of the Params to fit; None takes all of the sim's that are not fixed.
            prior: what is believed of them before; None: anything between the bounds.
            start: "estimate" the start state of every window, or take it from the "log".
            robust: residuals beyond this many standard deviations count linearly (Huber); None: squares.
            hold: actuators the logs have no command for.
            fixed: values, one row, of Params that are not fitted; nominal ones otherwise.
            apart: names of fitted Params with a value of their own in every recording.
            stated: for every log the values of Params that are not fitted and differ between logs, such as its gains.
        """
        known = given_e("fixed", fixed, sim)
        names = given_names(sim, only, known)
        whole = sim.params.only(*names)
        twice = [name for name in whole if name in known]
        if twice:
            raise InputError(
                f"'{twice[0]}' is in only= and in fixed=: a Param is fitted or known, leave it out of one of them"
            )
        used = sorted({windows.windows[i].log for i in windows.fitted})
        self.apart = Apart.of(whole, apart, used, len(windows.logs))
        self.schema: Params = self.apart.params
        self.params: Params = straight(self.schema)
        for name, param in whole.items():
            if param.choices is not None or param.about.per == "sim":
                raise InputError(
                    f"param '{name}' takes chosen values or one value per Sim, so it has no derivative: leave it out with only="
                )
        if start not in ("estimate", "log"):
            raise InputError(f"start={start!r} is not 'estimate' or 'log'")
        if robust is not None and not robust > 0:
            raise InputError(f"robust={robust!r} must be a number of standard deviations above zero, such as 2.0")
        self.sim, self.windows, self.robust = sim, windows, robust
        self._made = {
            "only": names,
            "prior": prior,
            "start": start,
            "robust": robust,
            "hold": hold,
            "fixed": fixed,
            "apart": apart,
            "stated": stated,
        }
        self.rollouts = Rollouts(sim, windows, hold=hold)
        self.rows = windows.fitted
        self.stated = stated_in(sim, windows.logs, stated, whole)
        self.fixed = {k: v for k, v in known.items() if k not in self.stated}
        self.pull: Pull = self.apart.pull(straight(whole), prior, whole.log)
        self._moved = self.apart.moved
        self.nx = self.rollouts.starts.nx if start == "estimate" else 0
        times = self.params._per_scalar(lambda p: p.unit == "s").astype(bool)
        wide = np.maximum(self.params.high - self.params.low, 1e-300)
        self._least_step = np.where(times, STEP_DELAY / wide, 0.0)
        self.twins = self._twins()
        values = [[log[name].column(c) for log in windows.logs] for name, c, _ in self.rollouts.labels]
        self.floor = np.array([floor_of(v) for v in values])
        self.most = LOST * np.array([max(float(np.ptp(x[np.isfinite(x)])) for x in v) + 1e-9 for v in values])
        self.sigma = self.floor.copy()
        self._known: dict[bytes, np.ndarray] = {}

    def over(self, windows: Windows) -> "Problem":
        """The same fit over other windows."""
        return Problem(self.sim, windows, **self._made)

    def _twins(self) -> list[tuple[int, int, float]]:
        """Scalars that act alike in an open-loop replay: (sensor delay, command delay, ratio of their slopes).

        A reading that is τ old of a robot whose commands are on time is that of a robot whose commands are τ late: only the
        sum acts. A simulator's interpolation between time steps would tell them apart, a robot does not.
        """
        if self.apart.names:
            return []  # A delay that differs between recordings and one that does not are told apart by the recordings.
        commands = [name for name, p in self.params.items() if p.kind == "command_delay" and not p.each]
        sensors = {s.kind for s in self.sim.robot.sensors if any(c in self.windows.channels for c in CHANNELS[s.kind])}
        for name, param in self.params.items():
            if param.kind == "sensor_delay" and not param.each and commands:
                reached = {self.sim.robot.sensors[i].kind for i in self.sim.physics.slots[name].ids}
                if sensors <= reached and param.scale == "linear":
                    i, j = (self.params.names.index(label) for label in (name, commands[0]))
                    ranges = self.params.high - self.params.low
                    return [(i, j, float(ranges[i] / ranges[j]))] if not self.params.log[j] else []
        return []

    @property
    def d(self) -> int:
        """Number of fitted scalars."""
        return self.params.d

    # ---------------------------------------------------------------- coordinates

    def e_of(self, s: np.ndarray) -> E:
        """e of positions s (k, d) or (d,) between the bounds."""
        return self.params.unpack(packed(s))

    def s_of(self, e: Mapping[str, Any], runs: Sequence[Run] = ()) -> np.ndarray:
        """s (d,) of an e of one world, nominal where it holds no value; with the recordings' own values where a fit gave them."""
        whole = self.apart.whole
        known = whole.check({k: v for k, v in e.items() if k in whole})
        own = {run.number - 1: {k: np.asarray(v, float)[None] for k, v in run.values.items()} for run in runs}
        return shares(self.params, self.apart.joined({**whole.nominal_e(1), **known}, own))[0]

    @property
    def nominal(self) -> np.ndarray:
        """The model's own values as s, (d,)."""
        return shares(self.params, self.params.nominal_e(1))[0]

    # ---------------------------------------------------------------- residuals

    def predict(
        self, s: np.ndarray, rows: np.ndarray, offsets: np.ndarray | None = None, *, keep: int | None = None
    ) -> np.ndarray:
        """Predicted y (k, len(rows), n) for positions s (k, d) and offsets (k, len(rows), nx).

        The last few are remembered (of each call the first `keep`): a step that was accepted is asked for again when σ changes, and in
        the summary. Physics repeats its bits, so nothing depends on whether it was remembered.
        """
        s = np.atleast_2d(s)
        few = min(len(s), REMEMBERED if keep is None else keep)
        keys = [self._key(s[i], rows, None if offsets is None else offsets[i]) for i in range(few)]
        if len(s) == 1 and keys and keys[0] in self._known:
            self._known[keys[0]] = self._known.pop(keys[0])
            return self._known[keys[0]][None].copy()
        e, own = self.apart.split(self.e_of(s))
        e |= {name: np.repeat(v, len(s), axis=0) for name, v in self.fixed.items()}
        own |= {name: np.repeat(v[None], len(s), axis=0) for name, v in self.stated.items()}
        moves = offsets * self.rollouts.starts.width[rows] if self.nx and offsets is not None else None
        y = self.rollouts.predict(e, rows, moves, own)
        if y[0].nbytes <= LARGEST:
            for key, one in zip(keys, y, strict=False):
                self._known.pop(key, None)
                self._known[key] = one.copy()
            while len(self._known) > REMEMBERED:
                self._known.pop(next(iter(self._known)))
        return y

    def pushed(
        self, s: np.ndarray, rows: np.ndarray, offsets: np.ndarray, torque: np.ndarray, hold: float
    ) -> np.ndarray:
        """Predicted y (k, len(rows), n) at s (d,) and offsets (len(rows), nx) with torques on the joints beside the model's.

        `torque` (k, len(rows), steps, joints) [N·m] is held for `hold` seconds a step.
        """
        e, own = self.apart.split(self.e_of(s))
        moves = np.repeat((offsets * self.rollouts.starts.width[rows])[None], len(torque), axis=0) if self.nx else None
        own |= {name: v[None] for name, v in self.stated.items()}
        return self.rollouts.predict(e | self.fixed, rows, moves, own, torque=(torque, hold))

    def _key(self, s: np.ndarray, rows: np.ndarray, offsets: np.ndarray | None) -> bytes:
        """What a prediction depends on, in bytes."""
        start = b"" if not self.nx or offsets is None or not offsets.any() else np.ascontiguousarray(offsets).tobytes()
        return np.ascontiguousarray(s, float).tobytes() + b"|" + np.ascontiguousarray(rows).tobytes() + b"|" + start

    @property
    def idle(self) -> int:
        """Candidates that can be predicted beside one without taking longer: threads that its windows leave idle."""
        worlds = len(self.rows) * (2 if self.nx else 1)
        return max(self.sim.threads // max(worlds, 1) - 1, 0)

    def weighted(self, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(y_log - y) / σ, (k, len(rows), n); zero where nothing was measured, large where a world left the numbers."""
        most = self.most[self.rollouts.column]
        gap = np.nan_to_num(self.rollouts.y[rows] - y, nan=np.inf, posinf=np.inf, neginf=-np.inf)
        return np.where(self.rollouts.seen[rows], np.clip(gap, -most, most), 0.0) / self.deviation(rows)

    def deviation(self, rows: np.ndarray) -> np.ndarray:
        """Standard deviation by which entries of windows `rows` are weighed, (len(rows), n): σ, more where readings repeat."""
        return np.sqrt(self.sigma[self.rollouts.column] ** 2 + self.rollouts.shared[rows])

    def residuals(self, z: np.ndarray, offsets: np.ndarray | None = None) -> np.ndarray:
        """Weighted residuals (k, entries) of all fitted windows, for packed coordinates z (k, d)."""
        s = shares(self.params, self.schema.unpack(z))
        r = self.weighted(self.predict(s, self.rows, offsets), self.rows)
        return r[:, self.rollouts.seen[self.rows]]

    def evaluate(self, s: np.ndarray, offsets: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """F (k,) and weighted residuals (k, fitted windows, n) of candidates s (k, d) with offsets (k, windows, nx)."""
        s = np.atleast_2d(s)
        r = self.weighted(self.predict(s, self.rows, offsets), self.rows)
        total = self.rho(r).sum((1, 2)) + self.pull.cost(s)
        if self.nx and offsets is not None:
            total = total + (offsets**2).sum((1, 2))
        return total, r

    @property
    def count(self) -> int:
        """Measured entries in the fitted windows."""
        return int(self.rollouts.seen[self.rows].sum())

    def rho(self, r: np.ndarray) -> np.ndarray:
        """r² up to `robust`, linear beyond it (Huber)."""
        if self.robust is None:
            return r**2
        c = self.robust
        return np.where(np.abs(r) <= c, r**2, 2 * c * np.abs(r) - c**2)

    def trust(self, r: np.ndarray) -> np.ndarray:
        """Square root of the weight that makes squares of ρ's slope: 1 within `robust`, less beyond."""
        if self.robust is None:
            return np.ones_like(r)
        return np.sqrt(np.minimum(1.0, self.robust / np.maximum(np.abs(r), 1e-12)))

    def reweigh(self, r: np.ndarray) -> float:
        """Estimate σ from weighted residuals r (windows, n); the largest relative change.

        Columns of one channel share it: with a σ each, a fit of tied Params would give up the joints that it fits worst.
        """
        column, seen, k = self.rollouts.column, self.rollouts.seen[self.rows], len(self.sigma)
        square = np.where(seen, np.minimum(self.rho(r), r**2), 0.0) * self.sigma[column] ** 2
        weight = np.where(seen, (self.sigma[column] / self.deviation(self.rows)) ** 2, 0.0)
        squares, counts = np.bincount(column, square.sum(0), k), np.bincount(column, weight.sum(0), k)
        fresh = np.empty(k)
        for channel in dict.fromkeys((name, unit) for name, _, unit in self.rollouts.labels):
            own = np.array([(name, unit) == channel for name, _, unit in self.rollouts.labels])
            fresh[own] = np.sqrt(squares[own].sum() / max(counts[own].sum(), 1.0))
        fresh = np.maximum(fresh, LEAST * self.floor)
        change = float(np.abs(np.log(fresh / self.sigma)).max())
        self.sigma = fresh
        return change

    # ---------------------------------------------------------------- derivatives

    def linearise(
        self,
        s: np.ndarray,
        offsets: np.ndarray,
        *,
        keep: bool = False,
        rows: np.ndarray | None = None,
        only_starts: bool = False,
        steps: str = "fine",
    ) -> Linear:
        """The misfit around s (d,) and offsets (windows, nx), all columns of a group of windows in one batch.

        Args:
            s: positions between the bounds, (d,).
            offsets: of the start states, (windows, nx).
            keep: return the columns of s themselves too.
            rows: windows; the fitted ones when None.
            only_starts: leave out the columns of s.
            steps: "fine", "coarse" or "rough" differences.
        """
        rows = self.rows if rows is None else rows
        d = 0 if only_starts else len(self._moved)
        group = int(np.clip(BATCH / (8.0 * (1 + d + self.nx) * self.rollouts.n), 1, len(rows)))
        parts = []
        for take in np.array_split(np.arange(len(rows)), int(np.ceil(len(rows) / group))):
            parts.append(self._columns(s, offsets[take], rows[take], d, STEPS[steps]))
        names = ("r", "haa", "hab", "hbb", "ga", "gb", "b") + (("a",) if keep else ())
        return Linear(**{name: np.concatenate([p[name] for p in parts]) for name in names})

    def _columns(
        self, s: np.ndarray, offsets: np.ndarray, rows: np.ndarray, d: int, sizes: tuple[float, float]
    ) -> dict[str, np.ndarray]:
        """One batch of differences and their products, window by window; d columns of scalars (all or none) and all start states."""
        nx, (share, start_step) = self.nx, sizes
        size = np.where(s > 0.5, -1.0, 1.0) * np.maximum(share, self._least_step)
        moved = self._moved[:d]
        points = np.repeat(s[None], 1 + d + nx, axis=0)
        points[1 + np.arange(d)[:, None], moved] += size[moved]
        starts = np.repeat(offsets[None], 1 + d + nx, axis=0)
        starts[1 + d + np.arange(nx), :, np.arange(nx)] += start_step
        y = self.predict(points, rows, starts if nx else None, keep=1)
        r = self.weighted(y[:1], rows)[0]
        trust = self.trust(r)
        columns = np.empty((len(rows), d + nx, self.rollouts.n))
        np.subtract(y[1:], y[0], out=columns.swapaxes(0, 1))
        here = moved[:, self.rollouts.log[rows]].T  # (windows, d): the scalar that each column moved
        columns /= np.concatenate([size[here], np.full((len(rows), nx), start_step)], axis=1)[..., None]
        scale = np.where(self.rollouts.seen[rows], trust / self.deviation(rows), 0.0)
        columns *= scale[:, None]
        with np.errstate(invalid="ignore"):
            lost = ~(np.abs(y - self.rollouts.y[rows]) <= self.most[self.rollouts.column])
        if lost.any():  # What left the log's range, or the numbers, has no slope that means anything.
            columns[(lost[1:] | lost[:1]).swapaxes(0, 1)] = 0.0
        for i, j, ratio in self.twins if d else ():
            columns[:, i] = columns[:, j] * ratio
        if d and d < self.d:
            columns, d = self._laid_apart(columns, here), self.d
        gram = columns @ columns.swapaxes(1, 2)
        g = (columns @ (r * trust)[..., None])[..., 0]
        return {
            "r": r, "haa": gram[:, :d, :d], "hab": gram[:, :d, d:], "hbb": gram[:, d:, d:], "ga": g[:, :d], "gb": g[:, d:],
            "a": columns[:, :d], "b": columns[:, d:],
        }  # fmt: skip

    def _laid_apart(self, columns: np.ndarray, here: np.ndarray) -> np.ndarray:
        """Columns (windows, moved + nx, n) at the scalars that they moved, (windows, d + nx, n); zero at those of other recordings."""
        out = np.zeros((len(columns), self.d + self.nx, columns.shape[2]))
        out[np.arange(len(columns))[:, None], here] = columns[:, : here.shape[1]]
        out[:, self.d :] = columns[:, here.shape[1] :]
        return out


def stated_in(
    sim: Sim, logs: Sequence[Log], stated: Sequence[Mapping[str, Any]] | None, fitted: Sequence[str] | Params = ()
) -> dict[str, np.ndarray]:
    """Values of Params that every log states for itself, by name (logs, ...)."""
    if not stated:
        return {}
    if len(stated) != len(logs):
        raise InputError(
            f"stated holds values for {len(stated)} logs, and there are {len(logs)}: give one entry for each"
        )
    names = list(stated[0])
    for entry in stated:
        if list(entry) != names:
            raise InputError(
                f"every log must state the same Params: one has {', '.join(names)}, another {', '.join(entry)}"
            )
    both = [name for name in names if name in fitted]
    if both:
        raise InputError(f"'{both[0]}' is stated by the logs and fitted: leave it out of one of them")
    rows = [sim.params.check(dict(entry)) for entry in stated]
    return {name: np.concatenate([row[name] for row in rows]) for name in names}


def floor_of(values: list[np.ndarray]) -> float:
    """Noise floor of a column over its logs: the least that differences of several orders see, which smooth motion leaves.

    Readings in steps are never better than a step's rounding, however often they repeat: differences of a slow motion are mostly zero.
    """
    found, steps = [], max((step_of(y) for y in values), default=0.0)
    for y in values:
        y = y[np.isfinite(y)]
        for order in ORDERS:
            if len(y) > 4 * order:
                change = np.diff(y, order)
                gain = np.sqrt(float(comb(2 * order, order)))  # white noise grows by this in differences of that order
                found.append(1.4826 * float(np.median(np.abs(change - np.median(change)))) / gain)
    spread = float(np.mean([np.nanstd(y) for y in values]))
    return max(min((f for f in found if f > 0), default=0.0), steps / np.sqrt(12), 1e-6 * spread, 1e-12)
