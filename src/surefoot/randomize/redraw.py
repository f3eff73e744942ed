"""Values that change while an episode runs: a shove of another size, a payload set down, a slower bus.

    P(world i redraws at step t) = 1 − exp(−dt / interval)          on average once in `interval` seconds, without memory

Whether a world redraws and what it gets are functions of (seed, t, i) alone: nothing to save, the same at any number of worlds.
"""

from collections.abc import Iterable

import numpy as np

from surefoot.errors import InputError
from surefoot.params import E, Prior
from surefoot.params.draws import Draws
from surefoot.params.prior import labels_of


class Redraw:
    """Draws some Params anew within an episode.

        redraw = Redraw(("push", "payload"), interval=5.0)
        ids, e = redraw.due(schedule.prior, step, worlds, dt)
        sim.apply(e, ids)

    The named Params are drawn as the prior has them, independently of the rest. A schedule cannot judge what it does not
    see for a whole episode: leave redrawn Params out of the `names` that ADR or Doraemon move.
    """

    def __init__(self, names: Iterable[str], interval: float, *, seed: int = 0):
        """Choose what to redraw.

        Args:
            names: Params.
            interval: mean time between two redraws of a world [s].
            seed: key of all draws.
        """
        self.names = (names,) if isinstance(names, str) else tuple(names)
        if not self.names:
            raise InputError("Redraw needs the names of at least one param, such as ('push',)")
        if not (np.isfinite(interval) and interval > 0.0):
            raise InputError(f"interval must be a time above 0 s, got {interval!r}")
        self.interval, self.seed = float(interval), int(seed)
        self._of: Prior | None = None
        self._part: Prior | None = None

    def due(self, prior: Prior, step: int, worlds: int, dt: float) -> tuple[np.ndarray, E]:
        """Which worlds change in this step, ids (k,), and their new values, k rows of the named Params.

        Args:
            prior: what to draw from.
            step: control steps since the training began, not since an episode did.
            worlds: how many there are.
            dt: control period [s].
        """
        draws = Draws(n=worlds, seed=self.seed, path=f"redraw/{','.join(self.names)}/{int(step)}")
        ids = np.flatnonzero(draws.uniform("when") < -np.expm1(-dt / self.interval))
        part = self._marginal(prior)
        count = int(ids[-1]) + 1 if len(ids) else 0
        seed = int(np.random.SeedSequence([self.seed, int(step)]).generate_state(1, np.uint64)[0] >> np.uint64(1))
        values = part.sample(count, seed)
        return ids, {name: value[ids] for name, value in values.items()}

    def _marginal(self, prior: Prior) -> Prior:
        """The prior of the named Params, made once for each prior."""
        if self._of is not prior or self._part is None:
            for name in self.names:
                labels_of(prior.params, name)
                if name not in prior.params or prior.params[name].about.per == "sim":
                    raise InputError(
                        f"'{name}' cannot be redrawn within an episode: name a Param with a value in every world"
                    )
            self._of, self._part = prior, prior.marginal(self.names)
        return self._part
