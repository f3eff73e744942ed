"""Inverse dynamics: e from the equation of motion itself, without simulating.

    ê = argmin_e Σ_joints Σ_samples (r_j(q, q̇, q̈, u; e) / σ_j)² + prior        r: equation error, see inverse_torque.py

The error is linear in masses, friction and gains, so a few Gauss-Newton steps end at the global optimum: right parameters, and a
start for the simulation mode, whose parameters are those that predict best. The two differ where the model lacks something; print both.

    fit = identify_inverse(sim, log, only=["mass", "damping", "coulomb"])
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.identify.coordinates import natural, shares, slopes
from surefoot.identify.fit import Fit, Score
from surefoot.identify.identifiable import kinds_by_label, unidentified
from surefoot.identify.intervals import neighbours
from surefoot.identify.inverse_direction import direction_misfits
from surefoot.identify.inverse_given import given_e, given_logs, given_names, positive, refuse_unknown, whole
from surefoot.identify.inverse_motion import Motion, motion
from surefoot.identify.inverse_torque import EquationError, refuse
from surefoot.identify.pull import Pull, pull_of
from surefoot.identify.residuals import stated_in
from surefoot.identify.solve import box_step
from surefoot.logs import Log
from surefoot.params import E, Params, Prior
from surefoot.sim import Sim
from surefoot.sim.gap import noise_floor
from surefoot.versions import versions_of

STEP = 1e-3
"""Finite-difference step of a scalar, as a share of its range."""
BLOCK = 1.0
"""[s] Length of the blocks that count as independent; shorter ones where a log has fewer than BLOCKS of them."""
BLOCKS = 12
NOTHING = 1e-3
"""Information, in units of the range, that stands for none at all."""
NEAR_STOP = 0.01
"""Of a joint's range: nearer to its end the stop may push."""
LINEAR = 1e-3
"""Of the error's root mean square: how far it may turn out from what the derivatives foretold."""
MOST = 30
"""Steps of a fit at most; what is linear takes three, delays and limits take more."""
UNFINISHED = (
    f"after {MOST} steps the values had not come to rest: fit fewer Params, or begin with better nominal values"
)
GAINS = ("strength", "torque_constant", "resistance", "kp")
"""Kinds that scale the motors' torque."""
TORQUES = ("command", "measured")


@dataclass(frozen=True, kw_only=True, eq=False)
class Equations:
    """The thinned equation error around one e; n samples of all logs and joints in one row.

    Attributes:
        r: error / σ, (n,).
        j: -dr/ds, (n, d).
        joint: number of the joint of every sample, (n,).
        block: number of the time block of every sample, (n,).
    """

    r: np.ndarray
    j: np.ndarray
    joint: np.ndarray
    block: np.ndarray

    def scaled(self, factor: np.ndarray) -> "Equations":
        """The same after every joint's σ grew by a factor, (joints,)."""
        weight = 1.0 / factor[self.joint]
        return Equations(r=self.r * weight, j=self.j * weight[:, None], joint=self.joint, block=self.block)


class InverseProblem:
    """One inverse-dynamics fit: motions, the scalars, and the weight of every joint."""

    def __init__(self, error: EquationError, motions: Sequence[Motion], params: Params, *, fixed: E, pull: Pull):
        self.error, self.motions, self.params, self.pull, self.fixed = error, tuple(motions), params, pull, fixed
        self.sim = error.sim
        self.sigma = np.ones(len(self.sim.robot.joints))
        self._masks = [self.usable(m) for m in self.motions]
        if not any(mask.any() for mask in self._masks):
            raise InputError("no joint moves in these logs, or only near its stops: give logs of a moving robot")
        self._twins = self._alike()

    def usable(self, move: Motion) -> np.ndarray:
        """Which kept samples of which joint obey the equation, (joints, n) bool: it moves, and is not near a stop under any e."""
        ends = np.array([self.error.stops({**self.e_of(s), **move.stated}) for s in (self.pull.low, self.pull.high)])
        low, high = ends[:, 0].max(0), ends[:, 1].min(0)  # of (2, 2, joints)
        near = np.where(np.isfinite(high), NEAR_STOP * (high - low), 0.0)
        at_stop = (move.q < low + near) | (move.q > high - near)
        return move.moving & (np.abs(move.thin(at_stop.T.astype(float))) < 1e-3)

    def _alike(self) -> tuple[int, int] | None:
        """Scalars of a sensor delay and a command delay that only act by their sum, as in an open-loop replay."""
        kinds, encoders = list(kinds_by_label(self.params).values()), set(self.sim.sensors.of_kind("encoder"))
        tied = [n for n, p in self.params.items() if p.kind == "sensor_delay" and not p.each]
        whole = [n for n in tied if encoders <= set(self.sim.physics.slots[n].ids.tolist())]
        both = whole and "command_delay" in kinds
        return (kinds.index("sensor_delay"), kinds.index("command_delay")) if both else None

    def e_of(self, s: np.ndarray) -> E:
        """Every Param of the sim, one row, with the fitted scalars at positions s (d,); what a log states comes on top of it."""
        return {**self.fixed, **self.params.unflatten(natural(self.params, s))}

    def errors(self, s: np.ndarray, which: Sequence[Motion] | None = None) -> list[np.ndarray]:
        """Thinned equation errors (joints, n) of every motion, natural units."""
        e = self.e_of(s)
        return [m.thin(self.error({**e, **m.stated}, m)) for m in (self.motions if which is None else which)]

    def _row(self, parts: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([p[mask] for p, mask in zip(parts, self._masks, strict=True)])

    @property
    def joint(self) -> np.ndarray:
        """Number of the joint of every sample."""
        return self._row([np.repeat(np.arange(len(m))[:, None], m.shape[1], axis=1) for m in self._masks])

    @property
    def block(self) -> np.ndarray:
        """Number of the time block of every sample: all joints of one stretch of time belong together."""
        seconds = sum(m.kept[-1] - m.kept[0] for m in self.motions)
        length, first, parts = min(BLOCK, seconds / BLOCKS), 0, []
        for m, mask in zip(self.motions, self._masks, strict=True):
            number = first + ((m.kept - m.kept[0]) / length).astype(int)
            first = int(number[-1]) + 1
            parts.append(np.repeat(number[None], mask.shape[0], axis=0))
        return self._row(parts)

    def residuals(self, s: np.ndarray) -> np.ndarray:
        """Errors over σ of all samples at s (d,), (n,)."""
        return self._row(self.errors(s)) / self.sigma[self.joint]

    def linearise(self, s: np.ndarray) -> Equations:
        """Errors and their derivatives at s (d,)."""
        r = self.residuals(s)
        j, per = np.zeros((len(r), len(s))), slopes(self.params, s)
        times = self.params._per_scalar(lambda p: p.unit == "s").astype(bool)
        size = np.clip(np.where(times, self.sim.timestep / per, 0.0), STEP, 0.5)
        for i in range(len(s)):
            move = size[i] if s[i] < 0.5 else -size[i]
            other = s.copy()
            other[i] += move
            j[:, i] = -(self.residuals(other) - r) / move
        if self._twins is not None:
            old, late = self._twins
            j[:, old] = j[:, late] * per[old] / per[late]
        return Equations(r=r, j=j, joint=self.joint, block=self.block)

    def reweigh(self, equations: Equations) -> np.ndarray:
        """Estimate every joint's σ; returns the factors by which they grew, (joints,)."""
        factor = np.ones(len(self.sigma))
        for k in range(len(factor)):
            here = equations.joint == k
            if here.any():
                factor[k] = max(float(np.sqrt(np.mean(equations.r[here] ** 2))), 1e-12)
        self.sigma = self.sigma * factor
        return factor


def identify_inverse(
    sim: Sim,
    logs: Log | Sequence[Log],
    *,
    only: Sequence[str] | None = None,
    prior: Prior | None = None,
    torque: str = "command",
    cutoff: float | None = None,
    every: int | None = None,
    held_out: Sequence[Log] | float = 0.25,
    fixed: Mapping[str, Any] | None = None,
    stated: Sequence[Mapping[str, Any]] | None = None,
    **unknown: Any,
) -> Fit:
    """Fit Params to logs by inverse dynamics; the robot must be bolted down and every joint measured.

    Args:
        sim: robot and Params; its own worlds are not touched.
        logs: need joint_pos, and the command or joint_torque.
        only: names of the Params to fit; None takes all of sim.params that are not fixed.
        prior: what is believed before; None: anything between the bounds.
        torque: "command" lets the model's motors turn the command into torque, "measured" takes `joint_torque`.
        cutoff: of the filter on the positions [Hz]; a tenth of the sampling rate when None.
        every: keep one equation of so many; None leaves a rate of `cutoff`.
        held_out: logs that only judge, or the share of every log (its end) that does.
        fixed: values of Params that are not fitted, an e of one world; nominal ones when None.
        stated: for each log, and each that only judges, values of Params that are not fitted and differ between logs: its gains.
        unknown: nothing else is taken; a wrong name is told with the nearest right one.
    """
    refuse_unknown("identify_inverse", unknown, identify_inverse)
    logs = given_logs("logs", logs)
    if not logs:
        raise InputError("there is no log to fit to: give at least one")
    measured = choose(torque, TORQUES, "a source of torque") == "measured"
    known = given_e("fixed", fixed, sim)
    params = sim.params.only(*given_names(sim, only, known))
    settings: dict[str, Any] = {
        "cutoff": positive("cutoff", cutoff),
        "every": whole("every", every),
        "measured": measured,
    }
    judged = held_out if isinstance(held_out, int | float) else given_logs("held_out", held_out)
    if prior is not None and not isinstance(prior, Prior):
        raise InputError(f"prior is a {type(prior).__name__}: give a Prior, such as sim.params.prior()")
    error = EquationError(sim, measured=measured)
    given = {**sim.params.nominal_e(1), **known}
    own = stated_in(sim, (*logs, *(() if isinstance(judged, int | float) else judged)), stated, params)
    refuse(sim, params, {**given, **own}, measured=measured)
    _refuse_nothing(sim, params, measured)
    seen, judges = _split(sim, logs, judged, own, settings)
    if measured and not np.isfinite(np.concatenate([m.torque for m in (*seen, *judges)])).all():
        raise InputError("torque='measured' needs 'joint_torque' of every joint in every log: use torque='command'")
    problem = InverseProblem(error, seen, params, fixed=given, pull=pull_of(params, prior))
    s = np.clip(shares(params, params.nominal_e(1))[0], problem.pull.low, problem.pull.high)
    s, equations, rounds = _solved(problem, s)
    fit = _summary(problem, s, equations, judges, logs, rounds)
    told = {"settings": {"stated": {name: v.tolist() for name, v in own.items()}}}
    kept = {name: v for name, v in known.items() if name not in params and name not in own}
    return replace(fit, known=_known(sim, kept), provenance={**fit.provenance, **told})


def _known(sim: Sim, given: E) -> Params | None:
    """The Params whose values (one row) were given, bound with these; None where none was."""
    if not given:
        return None
    schema = sim.params.only(*given)
    held = {
        name: param.replace(nominal=None, low=min(param.low, float(v.min())), high=max(param.high, float(v.max())))
        for (name, param), v in zip(schema.items(), given.values(), strict=True)
    }
    return Params(**held).bind(schema.elements, {name: v[0] for name, v in given.items()})


def _refuse_nothing(sim: Sim, params: Params, measured: bool) -> None:
    """Refuse a fit whose best answer is no robot at all: with every mass and every gain free, all vanish together and r with them."""
    slots = sim.physics.slots
    free = {i for n, p in params.items() if p.kind in ("mass", "inertia") for i in slots[n].ids.tolist()}
    heavy = {b for b in range(1, sim.model.nbody) if sim.model.body_mass[b] > 0 and sim.model.body_weldid[b] > 0}
    gains = [n for n, p in params.items() if p.kind in GAINS]
    if gains and not measured and heavy and heavy <= free:
        raise InputError(
            f"with every mass free, the gain {', '.join(gains)} can shrink with them until nothing is left of the equation: "
            f"leave out {gains[0]} or one mass"
        )


def _split(
    sim: Sim, logs: Sequence[Log], held_out: Sequence[Log] | float, own: E, settings: dict[str, Any]
) -> tuple[list[Motion], list[Motion]]:
    """Motions to fit to and to judge by; `own` (logs, then judges, ...) is what each states for itself."""

    def read(log: Log, number: int) -> Motion:
        return motion(sim, log, stated={name: v[number : number + 1] for name, v in own.items()}, **settings)

    if not isinstance(held_out, int | float):
        every = [read(log, i) for i, log in enumerate((*logs, *held_out))]
        return every[: len(logs)], every[len(logs) :]
    share = float(held_out)
    if not 0.0 <= share < 1.0:
        raise InputError(f"held_out={share:g} is not a share below 1 of each log, nor a list of logs: use 0.25")
    if share == 0.0:
        return [read(log, i) for i, log in enumerate(logs)], []
    seen, judges = [], []
    for i, log in enumerate(logs):
        t = log["joint_pos"].t if "joint_pos" in log else np.array([log.start, log.start + log.duration])
        border = float(t[-1] - share * (t[-1] - t[0]))
        seen.append(read(log.window(float(t[0]), border), i))
        judges.append(read(log.window(border, float(t[-1])), i))
    return seen, judges


def _solved(problem: InverseProblem, s: np.ndarray) -> tuple[np.ndarray, Equations, int]:
    """Gauss-Newton with σ estimated between the steps; s, the equations there, and how many steps it took.

    Where the error turns out as the derivatives foretold (it is linear in e), they are kept and one evaluation a step is enough.
    """
    equations, pull, number = problem.linearise(s), problem.pull, 0
    while number < MOST:
        number += 1
        change = problem.reweigh(equations)
        equations = equations.scaled(change)
        r, j = equations.r, equations.j
        hessian = j.T @ j + pull.precision
        hessian = hessian + np.diag(1e-10 * np.maximum(np.diag(hessian), 1e-12 * np.trace(hessian) + 1e-300))
        ds = box_step(hessian, j.T @ r + pull.precision @ (pull.mean - s), pull.low - s, pull.high - s)
        s = s + ds
        fresh = problem.residuals(s)
        foretold = np.abs(fresh - (r - j @ ds)).max() < LINEAR * max(float(np.sqrt(np.mean(fresh**2))), 1e-9)
        equations = (
            Equations(r=fresh, j=j, joint=equations.joint, block=equations.block) if foretold else problem.linearise(s)
        )
        if np.abs(ds).max() < 1e-6 and np.abs(np.log(change)).max() < 1e-3:
            break
    return s, equations.scaled(problem.reweigh(equations)), number


def covariance(
    equations: Equations, pull: Pull, *, free: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Covariances of s: honest (jackknife over blocks with Bartlett weights), the same of the data alone, white; freedom.

        S = Σ_b S_b,   u_b = j_bᵀ (r - j S⁻¹ jᵀ r)_b        at the optimum of the data alone, where the u_b add up to nothing
        V = (G - 1)/G Σ_b v_b v_bᵀ,   v_b = (S - S_b)⁻¹ u_b

    What was believed before comes in once, at the end: (V⁻¹ + prior⁻¹)⁻¹.
    """
    d = equations.j.shape[1]
    groups, inside = np.unique(equations.block), np.ix_(free, free)
    total = equations.j.T @ equations.j + NOTHING * np.eye(d)
    away = np.zeros(d)
    away[free] = np.linalg.solve(total[inside], (equations.j.T @ equations.r)[free])
    r0 = equations.r - equations.j @ away
    moved = np.zeros((len(groups), d))
    for row, b in enumerate(groups):
        here = equations.block == b
        j = equations.j[here]
        moved[row, free] = np.linalg.solve((total - j.T @ j)[inside], (j.T @ r0[here])[free])
    inverse = np.linalg.inv(total)
    data = (len(groups) - 1) / len(groups) * neighbours(moved) + NOTHING * inverse @ inverse
    white = float(r0 @ r0) / max(len(r0) - d, 1) * inverse
    ratio = float(np.median(np.diag(data)[free] / np.diag(white)[free])) if free.any() else 9.0
    for i in np.flatnonzero(~free):  # At a bound the score does not vanish; the width is that of its neighbours.
        data[i], data[:, i] = 0.0, 0.0
        data[i, i] = white[i, i] * ratio
    honest, white = (v @ np.linalg.solve(v + pull.covariance, pull.covariance) for v in (data, white))
    return 0.5 * (honest + honest.T), data, white, float(max(len(groups) - 1, 1))


def _summary(
    problem: InverseProblem, s: np.ndarray, equations: Equations, judges: list[Motion], logs: Sequence[Log], rounds: int
) -> Fit:
    pull, params = problem.pull, problem.params
    edge = (s <= pull.low + 1e-6) | (s >= pull.high - 1e-6)
    honest, data, white, freedom = covariance(equations, pull, free=~edge)
    seconds = float(sum(m.kept[-1] - m.kept[0] for m in problem.motions))
    first = problem.motions[0]
    return Fit(
        params=params,
        values=natural(params, s),
        deviation=honest,
        white_std=np.sqrt(np.diag(white)) * slopes(params, s),
        freedom=freedom,
        unidentified=unidentified(params, data, pull.covariance),
        at_bound=tuple(name for i, name in enumerate(params.names) if edge[i]),
        misfit=direction_misfits(problem, s, equations),
        scores=_scores(problem, s, judges),
        mode="inverse dynamics",
        provenance={
            "robot": problem.sim.robot.name,
            "robot_hash": problem.sim.robot.hash,
            "logs": [log.hash for log in logs],
            "seconds": seconds,
            "cutoff_hz": first.cutoff,
            "every": first.every,
            "torque": "measured" if problem.error.measured else "command",
            "sigma": problem.sigma.tolist(),
            "iterations": rounds,
            "converged": rounds < MOST,
            "notes": [UNFINISHED] if rounds == MOST else [],
            "versions": versions_of(),
        },
    )


def _scores(problem: InverseProblem, s: np.ndarray, judges: list[Motion]) -> tuple[Score, ...]:
    """Root mean square of the equation error before and after, in torque."""
    nominal = shares(problem.params, problem.params.nominal_e(1))[0]
    out = []
    for words, motions in (("fitted", problem.motions), ("held out", judges)):
        if not motions:
            continue
        before, after = problem.errors(nominal, motions), problem.errors(s, motions)
        masks = [problem.usable(m) for m in motions]
        for k, joint in enumerate(problem.sim.robot.joints):
            rows = [
                np.concatenate([p[k][m[k]] for p, m in zip(parts, masks, strict=True)]) for parts in (before, after)
            ]
            if not len(rows[0]):
                continue
            slide = problem.sim.model.joint(joint).type[0] == 2
            floors = [noise_floor(p[k]) for p in after]
            out.append(Score(
                windows=words, channel="joint_torque", column=joint, before=_rms(rows[0]), after=_rms(rows[1]),
                floor=float(np.nanmedian(floors)), unit="N" if slide else "N·m", horizon=0.0, start="none: no simulation",
            ))  # fmt: skip
    return tuple(out)


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))
