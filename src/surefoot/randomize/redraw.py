"""Values that change while an episode runs: a shove of another size, a payload set down, a slower bus.

    P(world i redraws at step t) = 1 − exp(−dt / interval)        on average once in `interval` seconds, without memory

Whether a world redraws and what it gets are functions of (seed, t, i) alone: nothing needs saving, and world 17 gets
the same at any number of worlds.
"""

from collections.abc import Iterable

import numpy as np

from surefoot.errors import InputError
from surefoot.params import E, Prior
from surefoot.params.draws import Draws
from surefoot.params.prior import labels_of

BLOCK, POOL = 256, 1024
"""Steps that share a pool of fresh values, and how many values it holds."""


class Redraw:
    """Draws some Params anew within an episode.

        redraw = Redraw(("push", "payload"), interval=5.0)
        ids, e = redraw.due(schedule.prior, step, worlds, dt)
        sim.apply(e, ids)

    The named Params are drawn as the prior has them, independently of the rest. A schedule cannot judge a value that
    did not last for the episode: leave redrawn Params out of the `names` that ADR, Doraemon or Cvar move.
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
        self._block = -1
        self._pool: E = {}

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
        pool = self._drawn(prior, int(step) // BLOCK)
        row = (draws.uniform("row")[ids] * POOL).astype(int)
        return ids, {name: value[row] for name, value in pool.items()}

    def _drawn(self, prior: Prior, block: int) -> E:
        """Values for the steps of a block, POOL rows: drawing one world at a time would cost more than its physics."""
        if self._of is not prior or self._block != block:
            part = self._part if self._of is prior and self._part is not None else self._marginal(prior)
            seed = int(np.random.SeedSequence([self.seed, block]).generate_state(1)[0])
            self._of, self._part, self._block, self._pool = prior, part, block, part.sample(POOL, seed)
        return self._pool

    def _marginal(self, prior: Prior) -> Prior:
        for name in self.names:
            labels_of(prior.params, name)
            if name not in prior.params or prior.params[name].about.per == "sim":
                raise InputError(
                    f"'{name}' cannot be redrawn within an episode: name a Param with a value in every world"
                )
        return prior.marginal(self.names)
