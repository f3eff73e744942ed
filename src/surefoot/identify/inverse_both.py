"""Both modes on the same logs: right parameters, best prediction, and what their difference says.

    inverse dynamics   e that satisfies the equation of motion at every instant
    simulation         e that predicts trajectories: what the model lacks is shared out among the parameters it has

Open-loop trajectories drift, and drift is friction, offsets and gains; inertia hides in it (on a slide with dry friction the simulation
knows its mass some 17 times worse than the equation of motion does). So the simulation fit takes inertias from the inverse one and
fits the rest, from where the inverse fit ended.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.fit import Fit
from surefoot.identify.identify import identify
from surefoot.identify.inverse import identify_inverse
from surefoot.identify.inverse_given import given_e, given_logs, given_names, refuse_unknown
from surefoot.logs import Log
from surefoot.params import E, Params, Prior
from surefoot.sim import Sim

APART = 2.0
"""Standard deviations from which the two modes disagree."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Both:
    """The two fits, and their difference in words."""

    inverse: Fit
    simulation: Fit
    """Of what is not an inertia; inertias are those of `inverse`."""

    @property
    def e(self) -> E:
        """The e that predicts best: inertias by inverse dynamics, the rest by simulation, and what was given; one world."""
        b = self.simulation
        return {**self.inverse.e, **b.params.unflatten(b.values)}

    @property
    def explanation(self) -> tuple[str, ...]:
        """One sentence a scalar, then what the inverse mode found missing."""
        a, b = self.inverse, self.simulation
        out = []
        for i, name in enumerate(a.names):
            known = f"{name}: {a.values[i]:.5g} ± {a.std[i]:.2g} by inverse dynamics"
            if name not in b.names:
                out.append(f"{known}, kept in simulation")
                continue
            k = b.names.index(name)
            apart = (b.values[k] - a.values[i]) / max(float(np.hypot(a.std[i], b.std[k])), 1e-300)
            words = (
                "they agree" if abs(apart) < APART else "the simulation shifts it to make up for what the model lacks"
            )
            out.append(
                f"{known}, {b.values[k]:.5g} ± {b.std[k]:.2g} by simulation ({apart:+.1f} standard deviations): {words}"
            )
        return (*out, *(m.sentence for m in a.misfit))

    def __repr__(self) -> str:
        return "\n\n".join([repr(self.inverse), repr(self.simulation), "\n".join(self.explanation)])


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
    inverse = identify_inverse(
        sim, logs, only=names, prior=prior, torque=torque, cutoff=cutoff, every=every, held_out=held_out, fixed=known
    )  # fmt: skip
    if say:
        say(
            f"inverse dynamics: {', '.join(f'{n} {v:.4g}' for n, v in zip(inverse.names, inverse.values, strict=True))}"
        )
    about = prior if prior is not None and any(name in prior.params for name in rest) else None
    fit = identify(
        sim, logs, only=rest, prior=about, fixed={**known, **{name: inverse.e[name] for name in kept}},
        begin={**inverse.e, **first}, held_out=held_out, say=say, **simulation,
    )  # fmt: skip
    return Both(inverse=inverse, simulation=fit)
