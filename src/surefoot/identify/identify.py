"""identify: from logs to p(e | logs).

ê = argmin_e  Σ_windows ‖ (y_log - y(u_log, x0, e)) / σ ‖²  + prior        p(e | logs) ≈ N(ê, honest covariance)

fit = identify(sim, logs, only=["kp", "kd", "command_delay"])
print(fit);  sim.apply(fit.e);  train(..., e=fit.posterior)
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.coordinates import shares, slopes
from surefoot.identify.fit import Fit, Score
from surefoot.identify.hops import hop
from surefoot.identify.identifiable import unidentified
from surefoot.identify.intervals import spread
from surefoot.identify.inverse_given import given_names
from surefoot.identify.misfit import patterns
from surefoot.identify.residuals import Problem
from surefoot.identify.rugged import search
from surefoot.identify.solve import MOST, Solution, settle, solve
from surefoot.identify.windows import channels_for, cut
from surefoot.logs import Log
from surefoot.params import Params, Prior
from surefoot.sim import Sim
from surefoot.versions import versions_of

FAR = 0.3
"""Share of the motion within the windows from which a replay counts as far away."""
UNFINISHED = "the iterations had not come to rest after {} linearisations: values may still move, allow more of them (--most, most=)"
DRAWS_PER_START = 16
"""Draws from the prior that are tried for each further start."""


def identify(
    sim: Sim,
    logs: Log | Sequence[Log],
    *,
    only: Sequence[str] | None = None,
    prior: Prior | None = None,
    channels: Sequence[str] | None = None,
    window: float | None = None,
    stride: float | None = None,
    held_out: Sequence[Log] | float = 0.25,
    start: str = "estimate",
    robust: float | None = None,
    starts: int = 1,
    rugged: bool = False,
    begin: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    apart: Sequence[str] = (),
    stated: Sequence[Mapping[str, Any]] | None = None,
    hold: tuple[str, ...] = (),
    most: int = MOST,
    jumps: bool = True,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Fit:
    """Fit Params to logs; what the logs cannot say is named, not guessed.

    Args:
        sim: robot and Params; its own worlds are not touched.
        logs: what was recorded.
        only: names of the Params to fit; None takes all of sim.params that are not fixed.
        prior: what is believed before, a Prior over them; None: anything between the bounds.
        channels: channels to compare; None takes positions and attitude, and speeds where their filter is to be fitted.
        window: length of the windows [s]; None takes 1 s.
        stride: from one window to the next [s]; None: no overlap.
        held_out: logs that only judge, or the share of every log (its end) that does.
        start: "estimate" the start state of every window together with e, or take it from the "log".
        robust: residuals beyond this many standard deviations count linearly; None: squares.
        starts: number of different starting points; the best end wins.
        rugged: search with CMA-ES first, for terms without useful derivatives.
        begin: where to start, an e of one world; nominal values when None.
        fixed: values of Params that are not fitted, an e of one world; nominal values when None.
        apart: names of fitted Params with a value of their own in every log, such as an encoder's zero that is set by hand: `fit.runs`
            holds them, `fit.e` their mean, and `fit.posterior` what the next recording may have.
        stated: for each log, and each that only judges, values of Params that are not fitted and differ between logs: its gains.
        hold: actuators the logs have no command for, kept at their default pose.
        most: linearisations at most, of each start; a robot on its feet takes more than one that is bolted down.
        jumps: look for a better minimum beside the one that was found, where noise and not the model limits the fit: see hops.py.
        seed: of the starts and of CMA-ES.
        say: told progress, one line a call.
    """
    for name, value, least in (("seed", seed, 0), ("starts", starts, 1), ("most", most, 1)):
        if int(value) < least:
            raise InputError(f"{name}={value} must be a whole number from {least} on")
    logs = (logs,) if isinstance(logs, Log) else tuple(logs)
    if channels is None and logs:
        judges = () if isinstance(held_out, int | float) else tuple(held_out)
        channels = channels_for(sim, (*logs, *judges), given_names(sim, only, fixed or {}))
    windows = cut(sim, logs, channels=channels, window=window, stride=stride, held_out=held_out)
    problem = Problem(
        sim,
        windows,
        only=only,
        prior=prior,
        start=start,
        robust=robust,
        hold=hold,
        fixed=fixed,
        apart=apart,
        stated=stated,
    )
    if say:
        say(f"{len(problem.rows)} windows of {windows.windows[0].stop - windows.windows[0].start:.3g} s, "
            f"{len(windows.held_out)} more held out, {problem.d} scalars, {problem.count} samples")  # fmt: skip
    first = problem.nominal if begin is None else problem.s_of(begin)
    if not rugged and far(problem, first):
        first = nearer(problem, first, say)
    solution = best_solution(problem, first, starts=starts, rugged=rugged, most=most, seed=seed, say=say)
    if jumps:
        solution = hop(problem, solution, say)
    return summary(problem, solution, seed=seed, settings={
        "window": window, "stride": stride, "held_out": held_out if isinstance(held_out, int | float) else len(held_out), "start": start,
        "robust": robust, "starts": starts, "rugged": rugged, "hold": list(hold), "most": most, "jumps": jumps, "prior": prior is not None,
        "stated": {name: v.tolist() for name, v in problem.stated.items()},
    })  # fmt: skip


def far(problem: Problem, s: np.ndarray) -> bool:
    """Whether the replay at s misses much of the motion within the windows: then derivatives mislead over a whole window.

    What the sensors' own noise makes of a joint at rest is no motion and no miss.
    """
    rows, column = problem.rows, problem.rollouts.column
    y, seen = problem.rollouts.y[rows], problem.rollouts.seen[rows]
    gap = np.nan_to_num(y - problem.predict(s, rows)[0], nan=1e9, posinf=1e9, neginf=-1e9)
    for i in range(len(problem.sigma)):
        here = seen & (column == i)
        middle = np.where(here, y, 0.0).sum(1) / np.maximum(here.sum(1), 1)
        motion = np.where(here, y - middle[:, None], 0.0)
        noise = float(here.sum()) * problem.floor[i] ** 2
        missed, moved = (max(float((np.where(here, x, 0.0) ** 2).sum()) - noise, 0.0) for x in (gap, motion))
        if missed > max(FAR**2 * moved, noise):
            return True
    return False


def nearer(problem: Problem, s: np.ndarray, say: Callable[[str], None] | None) -> np.ndarray:
    """A better start than s: the fit to windows a quarter as long, over which the replay cannot run far away."""
    windows = problem.windows
    short = []
    for w in (windows.windows[i] for i in problem.rows):
        edges = np.linspace(w.start, w.stop, 5)
        short += [replace(w, start=float(a), stop=float(b)) for a, b in itertools.pairwise(edges)]
    part = replace(windows, windows=tuple(short))
    if say:
        say(f"far from the logs: first {len(short)} windows of {short[0].stop - short[0].start:.3g} s")
    return solve(problem.over(part), s, most=10, say=say).s


def best_solution(
    problem: Problem,
    first: np.ndarray,
    *,
    starts: int,
    rugged: bool,
    seed: int,
    say: Callable[[str], None] | None,
    most: int = MOST,
) -> Solution:
    """The lowest end of several starts: `first`, then draws from the prior, the most promising ones."""
    if rugged:
        first = search(problem, first, seed=seed, say=say)
    begins = [first]
    if starts > 1:
        pull = problem.pull
        draws = np.random.default_rng(seed).uniform(pull.low, pull.high, (DRAWS_PER_START * (starts - 1), problem.d))
        costs, _ = problem.evaluate(draws)
        begins += list(draws[np.argsort(costs)[: starts - 1]])
    ends = [_solved(problem, s, most, say) for s in begins]
    _, solution, sigma = min(ends, key=lambda end: end[0])
    problem.sigma = sigma
    return solution


def _solved(
    problem: Problem, s: np.ndarray, most: int, say: Callable[[str], None] | None
) -> tuple[float, Solution, np.ndarray]:
    """One start's end, judged by its likelihood, which compares ends with different σ."""
    problem.sigma = problem.floor.copy()
    solution = solve(problem, s, most=most, say=say)
    counts = np.bincount(problem.rollouts.column, problem.rollouts.seen[problem.rows].sum(0), len(problem.sigma))
    return float(solution.cost + 2 * (counts * np.log(problem.sigma)).sum()), solution, problem.sigma.copy()


def summary(problem: Problem, solution: Solution, *, seed: int = 0, settings: Mapping[str, Any] | None = None) -> Fit:
    """Everything that a Fit says about a solution."""
    s = solution.s
    linear = problem.linearise(s, solution.offsets, keep=True)
    wide = spread(problem, linear, s, solution.offsets)
    per = slopes(problem.params, s)
    values = problem.params.flatten(problem.e_of(s))[0]
    own = slopes(problem.schema, shares(problem.schema, problem.schema.unflatten(values))[0])
    pull = problem.pull
    at_bound = tuple(
        name for i, name in enumerate(problem.params.names) if s[i] <= pull.low[i] + 1e-4 or s[i] >= pull.high[i] - 1e-4
    )
    found = Fit(
        params=problem.schema,
        values=values,
        deviation=wide.honest * np.outer(per / own, per / own),
        white_std=np.sqrt(np.diag(wide.white)) * per,
        freedom=wide.freedom,
        unidentified=unidentified(problem.params, wide.data, pull.covariance),
        at_bound=at_bound,
        misfit=patterns(problem, linear, s, solution.offsets),
        scores=scores(problem, solution),
        known=known_of(problem),
        mode="simulation",
        provenance={**provenance(problem, solution, seed), "settings": dict(settings or {})},
    )
    return problem.apart.gathered(found, problem.windows.logs)


def known_of(problem: Problem) -> Params | None:
    """The Params whose values were given, bound with these; None where none was."""
    if not problem.fixed:
        return None
    schema, values = problem.sim.params.only(*problem.fixed), {name: v[0] for name, v in problem.fixed.items()}
    held = {
        name: replace(p, nominal=None, low=min(p.low, float(np.min(v))), high=max(p.high, float(np.max(v))))
        for (name, p), v in zip(schema.items(), values.values(), strict=True)
    }
    return Params(**held).bind(schema.elements, values)


def scores(problem: Problem, solution: Solution) -> tuple[Score, ...]:
    """Errors with nominal and with fitted values, on fitted and on held-out windows."""
    out = []
    rollouts, windows = problem.rollouts, problem.windows.windows
    for words, rows in (("fitted", problem.rows), ("held out", problem.windows.held_out)):
        if not len(rows):
            continue
        before = errors(problem, problem.nominal, rows)
        known = solution.offsets if words == "fitted" else None
        after = errors(problem, solution.s, rows, known)
        horizon = float(np.median([windows[i].stop - windows[i].start for i in rows]))
        for i, (channel, column, unit) in enumerate(rollouts.labels):
            out.append(Score(
                windows=words, channel=channel, column=column, before=float(before[i]), after=float(after[i]), unit=unit,
                floor=float(problem.floor[i]), horizon=horizon, start="estimated" if problem.nx else "log",
            ))  # fmt: skip
    return tuple(out)


def errors(problem: Problem, s: np.ndarray, rows: np.ndarray, offsets: np.ndarray | None = None) -> np.ndarray:
    """Root mean square of log minus replay of every column over windows `rows`, start states settled, (columns,)."""
    if offsets is None:
        offsets = settle(problem, s, rows)
    y = problem.predict(s, rows, offsets[None])[0]
    gap = np.where(problem.rollouts.seen[rows], problem.rollouts.y[rows] - y, 0.0)
    column = problem.rollouts.column
    count = np.bincount(column, problem.rollouts.seen[rows].sum(0), len(problem.sigma))
    return np.sqrt(np.bincount(column, (gap**2).sum(0), len(problem.sigma)) / np.maximum(count, 1))


def provenance(problem: Problem, solution: Solution, seed: int) -> dict[str, Any]:
    """What the fit came from, as plain data."""
    windows = problem.windows
    return {
        "robot": problem.sim.robot.name,
        "robot_hash": problem.sim.robot.hash,
        "logs": [log.hash for log in windows.logs],
        "channels": list(windows.channels),
        "seconds": windows.seconds,
        "windows": len(problem.rows),
        "held_out": len(windows.held_out),
        "sigma": problem.sigma.tolist(),
        "iterations": solution.iterations,
        "converged": solution.converged,
        "notes": [*windows.notes, *([] if solution.converged else [UNFINISHED.format(solution.iterations)])],
        "seed": seed,
        "versions": versions_of(),
    }
