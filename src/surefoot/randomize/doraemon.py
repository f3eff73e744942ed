"""DORAEMON: the widest p(e) under which the policy still succeeds often enough.

    max_ν H(ν)   subject to   G(ν) = (1/k) Σ_j [p_ν(e_j) / p_cur(e_j)] σ_j >= alpha   and   KL(p_cur || p_ν) <= eps

e_j were drawn from p_cur and σ_j is 1 where the episode succeeded. p_ν is a product of Betas with a, b >= 1 (one mode)
on each scalar's own axis. If alpha cannot be reached inside the KL ball, G is maximised there instead. An answer is
used only when the effective sample size (Σw)² / Σw² of its weights w is at least `ess` k; otherwise the ball is halved.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.params import Beta, LogBeta, Prior
from surefoot.params.pieces import Marginal
from surefoot.randomize import beta
from surefoot.randomize.moving import moving
from surefoot.randomize.schedule import between, checked_prior, checked_state, counts, mark, rows

WIDEST, NARROWEST = 1.0, 1e4
"""Limits of the shapes a and b: uniform, and far narrower than any start."""
EDGE = 1e-9
"""How near to a bound a position may come before its logarithm is taken."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One answer of the optimiser and how it stands with its constraints."""

    shapes: np.ndarray  # (2, m)
    success: float  # G, estimated from the batch
    kl: float  # [nats]
    ess: float  # effective sample size as a share of the batch


class Problem:
    """The optimisation of one update: a batch of positions (k, m) with its successes, drawn under the Betas `was`."""

    def __init__(self, was: np.ndarray, positions: np.ndarray, success: np.ndarray):
        self.was, self.success = was, success
        x = np.clip(positions, EDGE, 1.0 - EDGE)
        self.log_x = np.stack([np.log(x), np.log1p(-x)])
        self._log_was = beta.log_density(was, self.log_x)

    def weights(self, shapes: np.ndarray) -> np.ndarray:
        """p_ν / p_cur of every episode, (k,)."""
        return np.exp(beta.log_density(shapes, self.log_x) - self._log_was)

    def rate(self, shapes: np.ndarray) -> tuple[float, np.ndarray]:
        """G and its gradient in the shapes, (2, m)."""
        weighed = self.weights(shapes) * self.success
        gradient = np.einsum("k,akm->am", weighed, beta.score(shapes, self.log_x)) / len(weighed)
        return float(weighed.mean()), gradient

    def judged(self, shapes: np.ndarray) -> Step:
        """The shapes with their success, divergence and effective sample size."""
        w = self.weights(shapes)
        ess = float(w.sum() ** 2 / (w @ w) / len(w))
        kl = beta.divergence(self.was, shapes)[0]
        return Step(shapes=shapes, success=self.rate(shapes)[0], kl=kl, ess=ess)

    def solve(self, alpha: float, eps: float) -> Step:
        """The widest shapes inside the ball that keep G >= alpha; the most successful ones where none do."""
        start = self.was
        if self.rate(start)[0] < alpha:
            start = self._best(self.rate, start, eps, None)
            if self.rate(start)[0] < alpha:
                return self.judged(start)
        return self.judged(self._best(beta.entropy, start, eps, alpha))

    def _best(self, goal: Callable, start: np.ndarray, eps: float, alpha: float | None) -> np.ndarray:
        """Maximise `goal` from `start`, which keeps all constraints; the answer keeps them too.

        SLSQP works in y, with (ln a, ln b) = ln was + √(2 eps) C y: in these coordinates the KL ball is nearly the unit
        ball. Its answer may miss a constraint by a little: the way back to `start` is then halved until all hold.
        """
        from scipy.optimize import minimize

        origin, C = np.log(self.was), np.sqrt(2.0 * eps) * beta.whitening(self.was)

        def shapes_at(y: np.ndarray) -> np.ndarray:
            return np.clip(np.exp(origin + np.einsum("mij,jm->im", C, y.reshape(2, -1))), WIDEST, NARROWEST)

        def of_y(function: Callable, sign: float, offset: float) -> dict[str, Any]:
            def slope(y: np.ndarray) -> np.ndarray:
                shapes = shapes_at(y)
                return sign * np.einsum("mij,im->jm", C, function(shapes)[1] * shapes).reshape(-1)

            return {"type": "ineq", "fun": lambda y: sign * function(shapes_at(y))[0] + offset, "jac": slope}

        above = np.einsum("mij,mk->imjk", C, np.eye(len(C))).reshape(2 * len(C), -1)  # d ln(a, b) / dy
        limits = [of_y(lambda shapes: beta.divergence(self.was, shapes), -1.0, eps)]
        limits += [of_y(self.rate, 1.0, -alpha)] if alpha is not None else []
        box = {"type": "ineq", "fun": lambda y: origin.reshape(-1) + above @ y - np.log(WIDEST), "jac": lambda _: above}
        cost = of_y(goal, -1.0, 0.0)
        first = np.einsum("mij,im->jm", np.linalg.inv(C).transpose(0, 2, 1), np.log(start) - origin).reshape(-1)
        options = {"maxiter": 100, "ftol": 1e-8}
        found = minimize(
            cost["fun"], first, jac=cost["jac"], method="SLSQP", constraints=[*limits, box], options=options
        )
        y = found.x if np.isfinite(found.x).all() else first
        for _ in range(30):
            if all(limit["fun"](y) >= -1e-6 for limit in limits) and cost["fun"](y) <= cost["fun"](first):
                return shapes_at(y)
            y = 0.5 * (y + first)
        return start


class Doraemon:
    """Maximum entropy under a floor of success (equations above)."""

    def __init__(
        self,
        prior: Prior,
        *,
        names: Iterable[str] = (),
        alpha: float = 0.5,
        eps: float = 0.1,
        batch: int = 1024,
        threshold: float | None = None,
        start: float = 100.0,
        ess: float = 0.2,
        settle: int = 256,
    ):
        """Begin narrow about the nominal values.

        Args:
            prior: its schema's bounds are the Betas' supports; what it says about unmoved Params stays.
            names: Params to move; none: all that are continuous.
            alpha: smallest share of successes.
            eps: largest divergence of one update [nats], over all moved scalars together.
            batch: ended episodes an update uses.
            threshold: an episode succeeds when its return is at least this; None takes the task's own success.
            start: concentration of the first Betas: Beta(start, start) where the nominal value is the middle of the
                range, else as narrow with the mode at the nominal value.
            ess: smallest effective sample size, as a share of the batch.
            settle: ended episodes left out after each change because they began before it: the number of worlds.
        """
        self.full = checked_prior(prior)
        between(0.0, 1.0, closed=False, alpha=alpha, ess=ess)
        between(0.0, np.inf, closed=False, eps=eps)
        between(WIDEST, NARROWEST / 2, start=start)
        counts(batch=batch)
        self.moving = moving(prior, names)
        self.alpha, self.eps, self.batch, self.threshold, self.ess, self.settle = (
            alpha,
            eps,
            batch,
            threshold,
            ess,
            settle,
        )
        settings = {"alpha": alpha, "eps": eps, "batch": batch, "threshold": threshold, "start": start, "ess": ess}
        self._mark = mark("doraemon", prior, **settings, settle=settle, labels=list(self.moving.labels))
        self._values = np.zeros((0, len(self.moving)))
        self._success = np.zeros(0)
        self._wait = 0
        self.last: Step | None = None
        """The newest update; None before the first."""
        spare = 2.0 * (start - 1.0)
        self._set(1.0 + spare * np.stack([self.moving.centre, 1.0 - self.moving.centre]))

    def _set(self, shapes: np.ndarray) -> None:
        self.shapes = shapes
        """a (row 0) and b (row 1) of each moved scalar, (2, m)."""
        lines = self.moving
        marginals = []
        for i, label in enumerate(lines.labels):
            settings = {"low": lines.low[i], "high": lines.high[i], "a": shapes[0, i], "b": shapes[1, i]}
            marginals.append(Marginal(label=label, distribution=(LogBeta if lines.log[i] else Beta)(**settings)))
        self._prior = Prior(params=self.full.params, product=self.full.product.with_pieces(marginals))

    @property
    def prior(self) -> Prior:
        """The product of Betas, beside what the given prior says about unmoved Params."""
        return self._prior

    @property
    def entropy(self) -> float:
        """Entropy of the moved scalars on their own axes [nats]: 0 when all are uniform, less otherwise."""
        return beta.entropy(self.shapes)[0]

    def record(self, e: Mapping[str, Any], success: Any, returns: Any) -> None:
        """Keep what ended episodes were drawn with and whether they succeeded."""
        v, success, returns = rows(self.full.params, e, success, returns)
        if self.threshold is not None:
            success = np.where(np.isnan(returns), np.nan, returns >= self.threshold)
        known = ~np.isnan(success)
        v, success = v[known], success[known]
        skipped = min(self._wait, len(success))
        self._wait -= skipped
        s = self.moving.position(v[skipped:, self.moving.columns])
        self._values = np.concatenate([self._values, s])[-self.batch :]
        self._success = np.concatenate([self._success, success[skipped:]])[-self.batch :]

    def update(self) -> bool:
        """Solve the problem once a batch is full; the batch is then emptied."""
        if len(self._success) < self.batch:
            return False
        problem = Problem(self.shapes, self._values, self._success)
        eps, step = self.eps, problem.solve(self.alpha, self.eps)
        while step.ess < self.ess and eps > 1e-3 * self.eps:
            eps *= 0.5
            step = problem.solve(self.alpha, eps)
        self.last = step
        self._values, self._success = self._values[:0], self._success[:0]
        if step.ess < self.ess or np.allclose(step.shapes, self.shapes, rtol=1e-9, atol=0.0):
            return False
        self._wait = self.settle
        self._set(step.shapes)
        return True

    def state(self) -> dict[str, Any]:
        """Shapes, and the batch so far."""
        last = None if self.last is None else {"success": self.last.success, "kl": self.last.kl, "ess": self.last.ess}
        batch = {"values": self._values.tolist(), "success": self._success.tolist()}
        return {**self._mark, "shapes": self.shapes.tolist(), **batch, "wait": self._wait, "last": last}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state()`."""
        checked_state(state, self._mark, ("shapes", "values", "success", "wait", "last"))
        self._values = np.array(state["values"], dtype=float).reshape(-1, len(self.moving))
        self._success, self._wait = np.array(state["success"], dtype=float), int(state["wait"])
        self._set(np.array(state["shapes"], dtype=float))
        self.last = None if state["last"] is None else Step(shapes=self.shapes, **state["last"])

    @property
    def summary(self) -> str:
        """One line for the progress log."""
        said = f"doraemon: entropy {self.entropy:.2f} nats"
        if self.last is None:
            return f"{said}, no update yet"
        step = f"KL {self.last.kl:.3f}, effective samples {self.last.ess:.0%}"
        return f"{said}, success {self.last.success:.2f} (needs {self.alpha:g}), {step}"
