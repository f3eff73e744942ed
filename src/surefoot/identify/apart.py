"""Params that have a value of their own in every recording: encoder zeros set by hand, a payload, the battery's charge.

    s = (shared scalars, scalars of recording 1, scalars of recording 2, ...)        world of a window in recording l:  e(shared, own_l)

A fit solves for all of them at once. What it returns holds the shared values; of a Param that is apart, the mean over the recordings
and the spread between them, which is what a recording yet to be made will have; and every recording's own values beside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.identify.fit import Fit, Run
from surefoot.identify.pull import Pull, pull_of
from surefoot.logs import Log
from surefoot.params import E, Params, Prior

MARK = "@"
"""Between a Param's name and the number of its recording, from 1: "encoder_bias@2"."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Apart:
    """Which Params are apart, and how their scalars lie in s.

    Attributes:
        whole: the fitted Params, each once.
        names: those of them with a value for each recording.
        runs: numbers of the recordings that are fitted, in order; one that only judges has no value of its own.
        logs: number of all recordings.
    """

    whole: Params
    names: tuple[str, ...] = ()
    runs: tuple[int, ...] = ()
    logs: int = 1

    @classmethod
    def of(cls, whole: Params, names: Sequence[str], runs: Sequence[int], logs: int) -> "Apart":
        """Checked."""
        names = (names,) if isinstance(names, str) else tuple(names)
        for name in names:
            if name not in whole:
                raise InputError(f"apart: {name!r} is not a fitted param {did_you_mean(name, whole)}")
        names = tuple(name for name in whole if name in names)
        if names and len(runs) < 2:
            raise InputError(
                f"apart={', '.join(names)} asks for a value in each recording, and {len(runs)} is fitted: give two or more, or leave it out"
            )
        return cls(whole=whole, names=names, runs=tuple(runs) if names else (), logs=logs)

    @property
    def shared(self) -> list[str]:
        """Params with one value for all recordings."""
        return [name for name in self.whole if name not in self.names]

    @property
    def params(self) -> Params:
        """The Params of s: the shared ones, then those of each recording in turn."""
        if not self.names:
            return self.whole
        origin = {name: name for name in self.shared}
        origin |= {f"{name}{MARK}{run + 1}": name for run in self.runs for name in self.names}
        nominal = self.whole.nominal_e(1)
        return Params(**{name: self.whole[base] for name, base in origin.items()}).bind(
            {name: self.whole.elements[base] for name, base in origin.items()},
            {name: nominal[base][0] for name, base in origin.items()},
        )

    @property
    def moved(self) -> np.ndarray:
        """Which scalar of s each column of a difference moves in the windows of each recording, (columns, recordings).

        A shared scalar is a column of its own. Scalars of different recordings act in different windows, so one column moves them all.
        """
        shared = sum(_width(self.whole, name) for name in self.shared)
        own = sum(_width(self.whole, name) for name in self.names)
        place = {run: i for i, run in enumerate(self.runs)}
        moved = np.repeat(np.arange(shared + own)[:, None], max(self.logs, 1), axis=1)
        for run, i in place.items():
            moved[shared:, run] += i * own
        return moved

    def split(self, e: E) -> tuple[E, dict[str, np.ndarray]]:
        """(shared e, by Param that is apart its values (candidates, recordings, ...)) of an e of `params`.

        A recording that only judges has the mean of the others.
        """
        own = {}
        for name in self.names:
            fitted = np.stack([e[f"{name}{MARK}{run + 1}"] for run in self.runs], axis=1)
            own[name] = np.repeat(fitted.mean(axis=1, keepdims=True), self.logs, axis=1)
            own[name][:, list(self.runs)] = fitted
        return {name: e[name] for name in self.shared}, own

    def joined(self, e: Mapping[str, Any], own: Mapping[int, Mapping[str, Any]] | None = None) -> E:
        """An e of `params` from one of `whole`; `own` holds the values of recordings by their number, else they have the common ones."""
        out = {name: np.asarray(e[name], float) for name in self.shared}
        for run in self.runs:
            values = {**e, **(own or {}).get(run, {})}
            out |= {f"{name}{MARK}{run + 1}": np.asarray(values[name], float) for name in self.names}
        return out

    def pull(self, straight: Params, prior: Prior | None, log: np.ndarray) -> Pull:
        """The prior as a pull on s; recordings are independent of each other and of what is shared.

        Args:
            straight: `whole` on linear scales.
            prior: over any of them.
            log: (d,) which scalars of `whole` have a belief that is flat in the logarithm.
        """
        if not self.names:
            return pull_of(straight, prior, log=log)
        start = np.cumsum([0, *(_width(straight, name) for name in straight)])
        parts = []
        for names, times in ((self.shared, 1), (self.names, len(self.runs))):
            if names:
                here = np.concatenate([np.arange(*start[i : i + 2]) for i, n in enumerate(straight) if n in names])
                order = straight.only(*(n for n in straight if n in names))
                held = prior is not None and any(name in prior.params for name in names)
                parts += [pull_of(order, prior if held else None, log=log[here])] * times
        vectors = {k: np.concatenate([getattr(p, k) for p in parts]) for k in ("mean", "low", "high")}
        blocks = {k: _diagonal([getattr(p, k) for p in parts]) for k in ("precision", "covariance")}
        return Pull(**vectors, **blocks)

    def gathered(self, fit: Fit, logs: Sequence[Log]) -> Fit:
        """A fit of `params` as one of `whole`, with the recordings' own values beside.

        Of a Param that is apart the value is the mean over the recordings, and its width that of a recording yet to be made: the
        spread between them, or their own uncertainty where that is larger, with a Student distribution of as many recordings less one.
        """
        if not self.names:
            return fit
        spread, own = self.split(fit.e)[1], self.split(fit.params.unflatten(fit.std))[1]
        white, many = self.split(fit.params.unflatten(fit.white_std))[1], len(self.runs)
        covariance = np.zeros((self.whole.d, self.whole.d))
        values, claimed = np.empty(self.whole.d), np.empty(self.whole.d)
        freedom, natural, start = np.empty(self.whole.d), fit.natural_covariance, 0
        given = np.broadcast_to(np.asarray(fit.freedom, float), fit.values.shape)
        at, place = {}, 0
        for name in fit.params:
            at[name] = np.arange(place, place + _width(fit.params, name))
            place += len(at[name])
        position = {}
        for name in self.whole:
            here = np.arange(start, start + _width(self.whole, name))
            position[name], start = here, start + len(here)
            if name in self.names:
                each, sd = (v[name][0, list(self.runs)].reshape(many, -1) for v in (spread, own))
                values[here] = each.mean(0)
                between = np.maximum(each.var(0, ddof=1), (sd**2).mean(0))
                covariance[here, here] = (1 + 1 / many) * between
                claimed[here] = np.sqrt((white[name][0, list(self.runs)].reshape(many, -1) ** 2).mean(0))
                freedom[here] = many - 1
            else:
                values[here], claimed[here] = fit.values[at[name]], fit.white_std[at[name]]
                freedom[here] = given[at[name]]
        for a in self.shared:
            for b in self.shared:
                covariance[np.ix_(position[a], position[b])] = natural[np.ix_(at[a], at[b])]
        runs = tuple(
            Run(
                number=run + 1,
                log=logs[run].hash,
                title=_title(logs[run]),
                values={name: spread[name][0, run].tolist() for name in self.names},
                std={name: own[name][0, run].tolist() for name in self.names},
            )
            for run in self.runs
        )
        rest = {
            k: getattr(fit, k) for k in ("unidentified", "at_bound", "misfit", "scores", "known", "mode", "provenance")
        }
        return Fit.made(self.whole, values, covariance, white_std=claimed, freedom=freedom, runs=runs, **rest)


def _title(log: Log) -> str:
    """What a recording is called, and the file that it came from."""
    title, files = str(log.meta.get("title", "")), list(dict(log.meta.get("source", {})).get("files", {}))
    return f"{title} ({files[0]})" if title and files else title or (files[0] if files else "")


def _width(params: Params, name: str) -> int:
    return max(len(params.elements[name]), 1)


def _diagonal(blocks: Sequence[np.ndarray]) -> np.ndarray:
    from scipy.linalg import block_diag

    return np.asarray(block_diag(*blocks))
