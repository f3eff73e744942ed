"""Both modes on the same logs: right parameters, best prediction, and what their difference says.

    inverse dynamics   e that satisfies the equation of motion at every instant
    simulation         e that predicts trajectories: what the model lacks is shared out among the parameters it has

Open-loop trajectories drift, and drift is friction, offsets and gains; inertia hides in it (on a slide with dry friction the simulation
knows its mass some 17 times worse than the equation of motion does). So the simulation fit takes inertias from the inverse one and
fits the rest, from where the inverse fit ended.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.fit import Fit
from surefoot.identify.identify import identify
from surefoot.identify.inverse import identify_inverse
from surefoot.logs import Log
from surefoot.params import E, Params
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
        """The e that predicts best: inertias by inverse dynamics, the rest by simulation; one world."""
        return {**self.inverse.e, **self.simulation.e}

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
    torque: str = "command",
    held_out: Sequence[Log] | float = 0.25,
    say: Callable[[str], None] | None = None,
    **simulation: Any,
) -> Both:
    """Fit Params in both modes.

    Args:
        sim: robot and Params.
        logs: what was recorded.
        only: names of the Params to fit; None takes all of sim.params.
        held_out: logs that only judge, or the share of every log (its end) that does.
        torque: as for `identify_inverse`.
        say: told progress, one line a call.
        simulation: further arguments of `identify` (window, stride, start, robust, ...).
    """
    logs = (logs,) if isinstance(logs, Log) else tuple(logs)
    names = list(sim.params) if only is None else list(only)
    kept = inertial(sim.params.only(*names))
    rest = [name for name in names if name not in kept]
    if not rest:
        raise InputError(f"only inertias are to be fitted ({', '.join(kept)}): use identify_inverse")
    inverse = identify_inverse(sim, logs, only=names, torque=torque, held_out=held_out)
    if say:
        say(
            f"inverse dynamics: {', '.join(f'{n} {v:.4g}' for n, v in zip(inverse.names, inverse.values, strict=True))}"
        )
    fixed = {name: inverse.e[name] for name in kept}
    fit = identify(sim, logs, only=rest, fixed=fixed, begin=inverse.e, held_out=held_out, say=say, **simulation)
    return Both(inverse=inverse, simulation=fit)
