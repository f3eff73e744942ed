"""Both modes on the same logs: right parameters, best prediction, and what their difference says.

    inverse dynamics   e that satisfies the equation of motion at every instant
    simulation         e that predicts trajectories: what the model lacks is shared out among the parameters it has

Open-loop trajectories drift, and drift is friction, offsets and gains; inertia hides in it (on a slide with dry friction the simulation
knows its mass some 17 times worse than the equation of motion does). So the simulation fit takes inertias m from the inverse one and
fits the rest θ, from where the inverse fit ended. What is known of m is known no better for that:

    p(m, θ | logs):   cov m = C_m        cov θ = C_θ|m + D C_m Dᵀ        cov(θ, m) = D C_m        D = dθ/dm

C_m is that of the inverse fit, C_θ|m that of the simulation fit with m given, and D how far the simulation fit moves when m does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.coordinates import slopes
from surefoot.identify.fit import Fit
from surefoot.identify.identify import identify
from surefoot.identify.inverse import identify_inverse
from surefoot.identify.inverse_given import given_e, given_logs, given_names, refuse_unknown
from surefoot.identify.residuals import Problem
from surefoot.identify.solve import reduce, settle
from surefoot.identify.windows import cut
from surefoot.logs import Log
from surefoot.params import E, Params, Prior
from surefoot.sim import Sim

APART = 2.0
"""Standard deviations from which the two modes disagree."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Both:
    """The two fits, what they say together, and their difference in words.

    Attributes:
        inverse: of everything.
        simulation: of what is not an inertia, with the inertias of `inverse` given: its widths are those under these very values.
        response: D, how far the k scalars of `simulation` move with the m inertias, (k, m), natural units.
    """

    inverse: Fit
    simulation: Fit
    response: np.ndarray

    @cached_property
    def fit(self) -> Fit:
        """Both as one: inertias by inverse dynamics, the rest by simulation, with the widths that they have together."""
        a, b, d = self.inverse, self.simulation, self.response
        m = np.array([i for i, label in enumerate(a.names) if label not in b.names], dtype=int)
        rest = np.array([a.names.index(label) for label in b.names], dtype=int)
        values, white = a.values.copy(), a.white_std.copy()
        values[rest], white[rest] = b.values, np.sqrt(b.white_std**2 + d**2 @ a.white_std[m] ** 2)
        known = a.natural_covariance[np.ix_(m, m)]
        through = d @ known @ d.T
        covariance = np.zeros((len(values), len(values)))
        covariance[np.ix_(m, m)], covariance[np.ix_(rest, rest)] = known, b.natural_covariance + through
        covariance[np.ix_(rest, m)], covariance[np.ix_(m, rest)] = d @ known, known @ d.T
        kept = [a.names[i] for i in m]
        made = Fit.made(
            a.params, values, covariance, white_std=white, freedom=_freedom(a, b, m=m, rest=rest, through=np.diag(through)),
            unidentified=(*b.unidentified, *(c for c in a.unidentified if set(c.names) & set(kept))),
            at_bound=tuple(n for n in a.names if n in (b.at_bound if n in b.names else a.at_bound)),
            misfit=b.misfit, scores=b.scores, known=a.known,
            mode="simulation, inertias by inverse dynamics" if kept else b.mode,
        )  # fmt: skip
        notes = [*b.provenance["notes"], *(f"inverse dynamics: {note}" for note in a.provenance["notes"])]
        told = {"inertias": kept, "cutoff_hz": a.provenance["cutoff_hz"], "torque": a.provenance["torque"]}
        converged = bool(a.provenance["converged"] and b.provenance["converged"])
        return replace(made, provenance={**b.provenance, **told, "notes": notes, "converged": converged})

    @property
    def posterior(self) -> Prior:
        """p(e | logs) of both together."""
        return self.fit.posterior

    @property
    def e(self) -> E:
        """The e that predicts best: inertias by inverse dynamics, the rest by simulation, and what was given; one world."""
        return self.fit.e

    @property
    def explanation(self) -> tuple[str, ...]:
        """One sentence a scalar, then what the inverse mode found missing."""
        a, b = self.inverse, self.simulation
        out, std = [], dict(zip(self.fit.names, self.fit.std, strict=True))
        for i, name in enumerate(a.names):
            known = f"{name}: {a.values[i]:.5g} ± {a.std[i]:.2g} by inverse dynamics"
            if name not in b.names:
                out.append(f"{known}, kept in simulation")
                continue
            k = b.names.index(name)
            apart = (b.values[k] - a.values[i]) / max(float(np.hypot(a.std[i], std[name])), 1e-300)
            words = (
                "they agree" if abs(apart) < APART else "the simulation shifts it to make up for what the model lacks"
            )
            out.append(
                f"{known}, {b.values[k]:.5g} ± {std[name]:.2g} by simulation ({apart:+.1f} standard deviations): {words}"
            )
        return (*out, *(m.sentence for m in a.misfit))

    def __repr__(self) -> str:
        return "\n\n".join([repr(self.inverse), repr(self.fit), "\n".join(self.explanation)])


def _freedom(a: Fit, b: Fit, *, m: np.ndarray, rest: np.ndarray, through: np.ndarray) -> np.ndarray:
    """Degrees of freedom of all scalars, (d,); of a sum of variances, one of them by way of the inertias, by Satterthwaite."""
    out = np.broadcast_to(np.asarray(a.freedom, float), a.values.shape).copy()
    if not len(m):
        out[rest] = b.freedom
        return out
    own, least = b.std**2, float(out[m].min())
    out[rest] = (own + through) ** 2 / np.maximum(own**2 / b.freedom + through**2 / least, 1e-300)
    return out


def inertial(params: Params) -> list[str]:
    """Names of the Params that are inertias: masses, centres of mass, rotors."""
    return [name for name, p in params.items() if p.group == "inertia" or p.kind == "armature"]


def identify_both(
    sim: Sim,
    logs: Log | Sequence[Log],
    *,
    only: Sequence[str] | None = None,
    prior: Prior | None = None,
    torque: str = "command",
    cutoff: float | None = None,
    every: int | None = None,
    held_out: Sequence[Log] | float = 0.25,
    begin: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    stated: Sequence[Mapping[str, Any]] | None = None,
    say: Callable[[str], None] | None = None,
    **simulation: Any,
) -> Both:
    """Fit Params in both modes.

    Args:
        sim: robot and Params.
        logs: what was recorded.
        only: names of the Params to fit; None takes all of sim.params that are not fixed.
        prior: what is believed before, by both.
        torque: as for `identify_inverse`.
        cutoff: as for `identify_inverse` [Hz].
        every: as for `identify_inverse`.
        held_out: logs that only judge, or the share of every log (its end) that does.
        begin: where the simulation begins, an e of one world; where the inverse fit ended when None.
        fixed: values of Params that are not fitted, an e of one world; nominal ones when None.
        stated: for each log, and each that only judges, values of Params that are not fitted and differ between logs: its gains.
        say: told progress, one line a call.
        simulation: further arguments of `identify` (window, stride, start, robust, ...).
    """
    refuse_unknown("identify_both", simulation, identify, identify_both)
    if simulation.pop("apart", ()):
        raise InputError("apart= fits replays of each log, and inverse dynamics fits all logs as one: use identify")
    known, first = given_e("fixed", fixed, sim), given_e("begin", begin, sim)
    names = given_names(sim, only, known)
    twice = [name for name in names if name in known]
    if twice:
        raise InputError(
            f"'{twice[0]}' is in only= and in fixed=: a Param is fitted or known, leave it out of one of them"
        )
    kept = inertial(sim.params.only(*names))
    rest = [name for name in names if name not in kept]
    if not rest:
        raise InputError(f"only inertias are to be fitted ({', '.join(kept)}): use identify_inverse")
    logs = given_logs("logs", logs)
    held_out = held_out if isinstance(held_out, int | float) else given_logs("held_out", held_out)
    inverse = identify_inverse(
        sim, logs, only=names, prior=prior, torque=torque, cutoff=cutoff, every=every, held_out=held_out, fixed=known,
        stated=stated,
    )  # fmt: skip
    if say:
        say(
            f"inverse dynamics: {', '.join(f'{n} {v:.4g}' for n, v in zip(inverse.names, inverse.values, strict=True))}"
        )
    about = prior if prior is not None and any(name in prior.params for name in rest) else None
    fit = identify(
        sim, logs, only=rest, prior=about, fixed={**known, **{name: inverse.e[name] for name in kept}},
        begin={**inverse.e, **first}, held_out=held_out, stated=stated, say=say, **simulation,
    )  # fmt: skip
    response = np.zeros((len(fit.names), 0))
    if kept:
        cutting = {k: simulation[k] for k in ("window", "stride") if k in simulation}
        weighing = {k: simulation[k] for k in ("start", "robust", "hold") if k in simulation}
        windows = cut(sim, logs, channels=fit.provenance["channels"], held_out=held_out, **cutting)
        problem = Problem(sim, windows, only=names, prior=about, fixed=known, stated=stated, **weighing)
        response = _response(problem, inverse, fit)
    return Both(inverse=inverse, simulation=fit, response=response)


def _response(problem: Problem, inverse: Fit, fit: Fit) -> np.ndarray:
    """How far the scalars of a simulation fit move with the inertias that it was given, (k, m), natural units.

        D = -(J_θᵀ J_θ + prior⁻¹)⁻¹ J_θᵀ J_m        one Gauss-Newton step, start states eliminated

    J are the columns of `problem`, which has θ and m, where the fit ended. What the logs say nothing about, and what ended at a bound,
    stays where it is.
    """
    labels = problem.params.names
    m = [i for i, label in enumerate(labels) if label not in fit.names]
    free = [i for i, label in enumerate(labels) if label in fit.names and label not in fit.at_bound]
    out = np.zeros((len(fit.names), len(m)))
    if not free:
        return out
    problem.sigma = np.array(fit.provenance["sigma"])
    s = problem.s_of({**inverse.e, **fit.e})
    offsets = settle(problem, s, problem.rows)
    info, inside = reduce(problem.linearise(s, offsets), offsets).s, np.ix_(free, free)
    believed = np.linalg.inv(problem.pull.covariance[inside])
    moved = -np.linalg.solve(info[inside] + believed, info[np.ix_(free, m)])
    per = slopes(problem.params, s)
    out[[fit.names.index(labels[i]) for i in free]] = moved * per[free][:, None] / per[m]
    return out
