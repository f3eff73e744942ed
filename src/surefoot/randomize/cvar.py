"""Worst-case emphasis: the mean of the worst share `alpha` of the returns counts, not the mean of all.

    CVaR_alpha(R) = E[R | R <= q],   q = the alpha-quantile of R (VaR)
    weights       w_j = 1[R_j <= q] / alpha, cut at q so that Σ w_j = k;        mean(w R) = CVaR
    gradient      ∇ CVaR = mean(w (R − q) ∇ ln p(R)):   the baseline must be q, any other one biases it

Beside weighing, `Cvar` can draw more episodes where the worst ones were: the prior becomes

    p' = (1 − share) p + share p_worst,      p_worst: the worst episodes' e, each spread by a kernel

and `weights(returns, e)` takes the ratio p / p' <= 1 / (1 − share) into account: they still give the CVaR under p.

In a training, where J(e) is the return to expect under e and an episode is longer than a rollout,

    share > 0    worlds are drawn from p', all alike in the loss:      (1 − share) E[J(e)] + share CVaR_alpha(J(e))
    share = 0    worlds are drawn from p and weighed by `emphasis`:    CVaR_alpha(J(e)),   w(e) = 1[J(e) <= q] / alpha

w depends on e alone, so that the loss may keep its own baseline. J(e) is fitted to each batch of ended episodes by a
sum of parabolas, one for every scalar.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.params import Prior
from surefoot.params.axes import Columns
from surefoot.params.joints import Samples, columns_of
from surefoot.params.prior import axes_of
from surefoot.params.product import Mixture, Product
from surefoot.randomize.moving import moving
from surefoot.randomize.schedule import between, checked_prior, checked_state, counts, mark, rows


def cvar_weights(returns: Any, alpha: float, ratio: Any = None) -> tuple[np.ndarray, float]:
    """Weights (k,) that sum to k and lie on the worst share `alpha` of the returns, and the quantile q.

    Equal returns share what is left for them. `ratio` (k,) is p / p' when the episodes were drawn from p' instead of p.
    """
    between(0.0, 1.0, closed=False, alpha=alpha)
    returns = np.asarray(returns, dtype=float).reshape(-1)
    mass = np.ones(len(returns)) if ratio is None else np.asarray(ratio, dtype=float).reshape(-1)
    if not len(returns) or not np.isfinite(returns).all():
        raise InputError(f"CVaR needs finite returns of at least one episode, got {returns[~np.isfinite(returns)][:3]}")
    if len(mass) != len(returns) or not np.isfinite(mass).all() or (mass < 0.0).any() or not mass.any():
        raise InputError(f"ratio must hold {len(returns)} numbers from 0, one for each return, not all 0")
    mass = mass * (len(returns) / mass.sum())
    value, group = np.unique(returns, return_inverse=True)
    in_group = np.bincount(group, mass)
    before = np.cumsum(in_group) - in_group
    part = np.clip((alpha * len(returns) - before) / np.where(in_group > 0.0, in_group, 1.0), 0.0, 1.0)
    weights = mass * part[group] / alpha
    return weights, float(value[part > 1e-12].max())


class Cvar:
    """Emphasis on the worst share of the episodes (equations above)."""

    def __init__(
        self,
        prior: Prior,
        *,
        alpha: float = 0.2,
        share: float = 0.5,
        names: Iterable[str] = (),
        jitter: float = 0.3,
        batch: int = 1024,
        settle: int = 256,
    ):
        """Begin with the prior itself.

        Args:
            prior: p, under which the CVaR is meant.
            alpha: the worst share that counts; 1 is the plain mean.
            share: share of the worlds drawn near the worst episodes; 0 leaves the prior alone and only weighs.
            names: Params drawn near the worst ones, independently of the rest; none: all that are continuous.
            jitter: spread about a worst episode's e, as a fraction of the spread among them.
            batch: ended episodes between two changes.
            settle: ended episodes left out after each change because they began before it: the number of worlds.
        """
        self.full = checked_prior(prior)
        between(0.0, 1.0, closed=False, alpha=alpha, jitter=jitter)
        between(0.0, 0.95, share=share)
        counts(batch=batch)
        self.moving = moving(prior, names)
        self.alpha, self.share, self.jitter, self.batch, self.settle = alpha, share, jitter, batch, settle
        settings = {"alpha": alpha, "share": share, "jitter": jitter, "batch": batch, "settle": settle}
        self._mark = mark("cvar", prior, **settings, labels=list(self.moving.labels))
        self._plain = self.full.product.keep(self.moving.labels)
        self._values, self._returns = np.zeros((0, len(self.moving))), np.zeros(0)
        self._wait = 0
        self.cvar = float("nan")
        """Mean return of the worst share under p, from the newest batch."""
        self._slopes: np.ndarray | None = None
        self._set(np.zeros((0, len(self.moving))), np.zeros(0))

    def _set(self, worst: np.ndarray, weights: np.ndarray) -> None:
        """Draw near the rows `worst`, (n, m) in natural units, from now on; without rows from p."""
        self._worst, self._weights = worst, weights
        self._mixture: Mixture | None = None
        self._prior = self.full
        if len(worst):
            axes = axes_of(self.full.params).take(self.moving.labels)
            near = Samples(axes=axes, rows=worst, weights=weights / weights.sum(), jitter=self.jitter)
            components = (self._plain, Product(pieces=(near,)))
            self._mixture = Mixture(components=components, weights=(1.0 - self.share, self.share))
            self._prior = Prior(params=self.full.params, product=self.full.product.with_pieces([self._mixture]))

    @property
    def prior(self) -> Prior:
        """p' of the equations."""
        return self._prior

    def weights(self, returns: Any, e: Mapping[str, Any] | None = None) -> np.ndarray:
        """Weights of episodes (k,), mean 1; index them by episode to weigh transitions.

        With e (k rows, drawn from the present prior) they are for the CVaR under p; without, under what was drawn.
        """
        ratio = None
        if e is not None:
            ratio = self._ratio(self.full.params.flatten(e)[:, self.moving.columns])
        return cvar_weights(returns, self.alpha, ratio)[0]

    def _ratio(self, v: np.ndarray) -> np.ndarray:
        """p / p' of the moved scalars, (k,)."""
        if self._mixture is None:
            return np.ones(len(v))
        columns: Columns = columns_of(v, self.moving.labels)
        return np.exp(self._plain.log_prob(columns) - self._mixture.log_prob(columns))

    def emphasis(self, e: Mapping[str, Any], length: Any = None) -> np.ndarray | None:
        """Weights (k,) of transitions made under each of the k rows of e, so that a loss is that of the worst share.

        Args:
            e: k rows.
            length: transitions made under each row, (k,); None: as many under all.

        Returns:
            1 / alpha for the rows whose expected return is in the worst share of the transitions, else 0; None before
            the first batch is full, and where draws do the emphasising.
        """
        if self.share > 0.0 or self._slopes is None:
            return None
        length = np.ones(len(self.full.params.flatten(e))) if length is None else np.asarray(length, float)
        returns = self._features(self.full.params.flatten(e)[:, self.moving.columns]) @ self._slopes
        weights, _ = cvar_weights(returns, self.alpha, length)
        return np.where(length > 0.0, weights / np.maximum(length, 1.0) * length.mean(), 0.0)

    def _features(self, v: np.ndarray) -> np.ndarray:
        """1, s and s² of the moved scalars on their axes, (k, 2 m + 1)."""
        s = 2.0 * self.moving.position(v) - 1.0
        return np.concatenate([np.ones((len(s), 1)), s, s**2], axis=1)

    def _fit(self, v: np.ndarray, returns: np.ndarray) -> None:
        """Least squares of the returns on e, held back where the batch says little (as if one more episode said 0)."""
        X = self._features(v)
        held = np.eye(X.shape[1])
        held[0, 0] = 0.0
        self._slopes = np.linalg.solve(X.T @ X + held, X.T @ returns)

    def record(self, e: Mapping[str, Any], success: Any, returns: Any) -> None:
        """Keep what ended episodes were drawn with and what they returned."""
        v, _, returns = rows(self.full.params, e, success, returns)
        known = ~np.isnan(returns)
        v, returns = v[known], returns[known]
        skipped = min(self._wait, len(returns))
        self._wait -= skipped
        self._values = np.concatenate([self._values, v[skipped:, self.moving.columns]])[-self.batch :]
        self._returns = np.concatenate([self._returns, returns[skipped:]])[-self.batch :]

    def update(self) -> bool:
        """Once a batch is full, move the emphasis to its worst episodes."""
        if len(self._returns) < self.batch:
            return False
        v, returns = self._values, self._returns
        self._values, self._returns = v[:0], returns[:0]
        self._fit(v, returns)
        weights, _ = cvar_weights(returns, self.alpha, self._ratio(v))
        self.cvar = float(np.mean(weights * returns))
        bad = weights > 0.0
        if self.share == 0.0 or np.ptp(v[bad], axis=0).min() == 0.0:
            return False
        self._wait = self.settle
        self._set(np.clip(v[bad], self.moving.low, self.moving.high), weights[bad])
        return True

    def state(self) -> dict[str, Any]:
        """The worst episodes drawn near, and the batch so far."""
        arrays = {"values": self._values, "returns": self._returns, "worst": self._worst, "weights": self._weights}
        out = {name: value.tolist() for name, value in arrays.items()}
        known = {"cvar": None if np.isnan(self.cvar) else self.cvar, "slopes": _listed(self._slopes)}
        return {**self._mark, **out, **known, "wait": self._wait}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state()`."""
        checked_state(state, self._mark, ("values", "returns", "worst", "weights", "wait", "cvar", "slopes"))
        m = len(self.moving)
        self._values, self._returns = np.array(state["values"], float).reshape(-1, m), np.array(state["returns"], float)
        self._wait = int(state["wait"])
        self.cvar = float("nan") if state["cvar"] is None else float(state["cvar"])
        self._slopes = None if state["slopes"] is None else np.array(state["slopes"], float)
        self._set(np.array(state["worst"], float).reshape(-1, m), np.array(state["weights"], float))

    @property
    def summary(self) -> str:
        """One line for the progress log."""
        near = (
            f"{self.share:.0%} of the draws near {len(self._worst)} of them"
            if len(self._worst)
            else f"{self.alpha:.0%} of the draws count"
            if self._slopes is not None and self.share == 0.0
            else "drawn from the prior"
        )
        said = "unknown yet" if np.isnan(self.cvar) else f"{self.cvar:.3g}"
        return f"cvar: mean return of the worst {self.alpha:.0%} {said}, {near}"


def _listed(x: np.ndarray | None) -> list[float] | None:
    return None if x is None else x.tolist()
