"""Structure search: which terms does this servo or joint have? Forward selection by the error of rollouts that no fit saw.

    err(S) = mean over logs of |replay - log|, each log replayed open loop under the fit to the other folds with structure S
    S <- S + the term that lowers err(S) most, while it takes away more than the share `least` of it
    S <- S - a term that no longer acts, once nothing more is to be added: taken off alone, it changes the fit by less than that share,
             and err(S) does not grow by more

Terms are left out again because an early one may have stood in for a later one: a torque limit that only stood for friction, and that no
log reaches once friction is there, would hold a robot back at gains that no log shows. Every rung of the ladder says what was added, the
held-out error before and after, and where the errors lay that speak for the term.
What comes out is a Params and an e of a Sim: `search(...).e` replays in the Sim to the same numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.fit import Fit
from surefoot.identify.structure_reasons import Residuals, reason
from surefoot.identify.structure_terms import BASE, PLUS, TERMS, Term, joined
from surefoot.params import E, Params

SCREEN = 0.005
"""A term that does not lower the error of its own fit by this share is not tried on held-out logs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One fit that a bench is asked for: which Params are free, where they start, which logs are seen (L,) bool."""

    free: tuple[str, ...]
    start: E
    seen: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What a bench found: an e of one row with every Param, its loss on the seen logs, and the error of every log (L,) [rad]."""

    e: E
    loss: float
    error: np.ndarray


class Bench(Protocol):
    """Something that fits structures to logs: a rig (structure_servo.py) or a whole Sim (structure_sim.py)."""

    params: Params
    count: int
    measure: str
    repeats: int
    """How often the last structure is fitted again; more than 0 where fits draw their starts."""

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Do all jobs."""
        ...

    def residuals(self, e: E) -> Residuals:
        """Errors of all logs under an e of one row."""
        ...

    def conclude(self, e: E, free: tuple[str, ...]) -> Fit:
        """A Fit at e with honest intervals of the free Params."""
        ...


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One step of the ladder; errors [rad] are those of logs that no fit saw."""

    term: str
    """Its name, after those of the terms that it needs and that were missing."""
    family: str
    params: tuple[str, ...]
    before: float
    after: float
    gain: tuple[float, float]
    """90 % interval of before - after, from its spread over the logs."""
    reason: str
    rivals: tuple[tuple[str, float], ...] = ()
    """Other terms tried on this rung with their held-out errors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """The ladder and what stands at its end.

    Attributes:
        base: Params of the structure at the start.
        rungs: terms taken, in order.
        refused: terms tried last and not taken, with their held-out errors [rad].
        dropped: terms that were taken and left out again, with the held-out error without each [rad].
        first: held-out error of the base [rad].
        last: held-out error at the end [rad].
        folds: number of folds.
        measure: what the error is.
        fit: the final Fit, over all logs.
        e: the whole e of one row, terms that are off included: for Sim.apply and replay.
    """

    base: tuple[str, ...]
    rungs: tuple[Rung, ...]
    refused: tuple[tuple[str, float], ...]
    first: float
    last: float
    folds: int
    measure: str
    fit: Fit
    e: E = field(repr=False)
    dropped: tuple[tuple[str, float], ...] = ()

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms that stand at the end, in the order in which they were taken."""
        gone = {name for name, _ in self.dropped}
        return tuple(name for rung in self.rungs for name in rung.term.split(PLUS) if name not in gone)

    @property
    def params(self) -> Params:
        """The fitted Params."""
        return self.fit.params

    def __str__(self) -> str:
        lines = [
            f"structure search: held-out {self.measure} over {self.folds} folds",
            f"  base {', '.join(self.base)}: {1e3 * self.first:.1f} mrad",
        ]
        for number, rung in enumerate(self.rungs, 1):
            family = f" ({rung.family})" if rung.family else ""
            low, high = (1e3 * x for x in rung.gain)
            lines.append(
                f"  {number}. + {rung.term}{family}: {1e3 * rung.before:.1f} -> {1e3 * rung.after:.1f} mrad "
                f"(better by {low:.1f} .. {high:.1f}); {rung.reason}"
            )
            if rung.rivals:
                lines.append("       instead: " + ", ".join(f"{name} {1e3 * error:.1f}" for name, error in rung.rivals))
        for name, error in self.dropped:
            lines.append(f"  left out again: {name}; {1e3 * error:.1f} mrad without it, the other terms do its work")
        if self.dropped:
            lines.append(f"  at the end: {1e3 * self.last:.1f} mrad")
        if self.refused:
            lines.append("  not taken: " + ", ".join(f"{name} {1e3 * error:.1f}" for name, error in self.refused))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for reports."""
        rungs = [
            {**vars(r), "params": list(r.params), "gain": list(r.gain), "rivals": [list(x) for x in r.rivals]}
            for r in self.rungs
        ]
        return {
            "base": list(self.base), "first": self.first, "last": self.last, "folds": self.folds, "measure": self.measure,
            "rungs": rungs, "refused": [list(x) for x in self.refused], "dropped": [list(x) for x in self.dropped],
            "e": {k: np.asarray(v).tolist() for k, v in self.e.items()},
        }  # fmt: skip


def search(
    bench: Bench,
    *,
    folds: Sequence[Any] | None = None,
    terms: Sequence[Term] = TERMS,
    most: int = 8,
    least: float = 0.02,
    say: Callable[[str], None] | None = None,
) -> Search:
    """Find the structure that predicts held-out logs best, one term at a time.

    Args:
        bench: what fits and replays; a ServoBench or a SimBench.
        folds: a label for every log; logs of one label are held out together. None: up to five folds, log by log.
        terms: candidates; those whose kinds the bench's Params lack are passed over.
        most: longest ladder.
        least: smallest share of the error that a term must take away.
        say: told progress, one line a call.
    """
    labels = [i % 5 for i in range(bench.count)] if folds is None else list(folds)
    if len(labels) != bench.count:
        raise InputError(f"folds has {len(labels)} labels for {bench.count} logs: give one for each")
    kept = sorted(set(labels), key=str)
    if len(kept) < 2:
        raise InputError("all logs are in one fold, so none could be held out: give at least two different labels")
    seen = np.array([[label != fold for label in labels] for fold in kept])
    kinds = {param.kind: name for name, param in bench.params.items()}
    lacking = [kind for kind in BASE if kind not in kinds]
    if lacking:
        raise InputError(
            f"the Params lack {', '.join(lacking)}, which every structure has: take them from servo_params"
        )
    usable = [t for t in terms if all(k in kinds for k in t.kinds)]
    ladder = _Ladder(bench=bench, seen=seen, kinds=kinds, terms=usable, least=least, say=say)
    return ladder.climb(most)


class _Ladder:
    """The search while it runs: the present structure, its fits to all logs and to every fold."""

    def __init__(self, *, bench: Bench, seen: np.ndarray, kinds: dict[str, str], terms: list[Term], least: float, say):
        self.bench, self.seen, self.kinds, self.terms, self.least, self.say = (
            bench,
            seen,
            kinds,
            terms,
            least,
            say or (lambda _: None),
        )
        self.everything = np.ones(bench.count, dtype=bool)
        self.free = tuple(kinds[k] for k in BASE)
        start = bench.params.nominal_e(1)
        for term in terms:
            start |= {kinds[k]: np.full_like(start[kinds[k]], v) for k, v in term.off.items()}
        self.off = start

    def climb(self, most: int) -> Search:
        base = self.free
        self.whole = self.bench.answer([Job(free=base, start=self.off, seen=self.everything)])[0]
        self.error = self._held_out(base, self.whole.e)
        first, rungs, refused = float(self.error.mean()), [], []
        self.say(f"base: {1e3 * first:.1f} mrad held out")
        while len(rungs) < most:
            rung, refused = self._rung({name for r in rungs for name in r.term.split(PLUS)})
            if rung is None:
                break
            rungs.append(rung)
            self.say(f"+ {rung.term}: {1e3 * rung.before:.1f} -> {1e3 * rung.after:.1f} mrad held out")
        dropped = self._prune([name for r in rungs for name in r.term.split(PLUS)])
        starts = [self.whole.e, self._fresh(), self._fresh()] * self.bench.repeats
        again = self.bench.answer([Job(free=self.free, start=e, seen=self.everything) for e in starts])
        self.whole = min((self.whole, *again), key=lambda a: a.loss)
        return Search(
            base=base, rungs=tuple(rungs), refused=tuple(refused), dropped=dropped, first=first, last=float(self.error.mean()),
            folds=len(self.seen), measure=self.bench.measure, fit=self.bench.conclude(self.whole.e, self.free), e=self.whole.e,
        )  # fmt: skip

    def _rung(self, taken: set[str]) -> tuple[Rung | None, list[tuple[str, float]]]:
        """The next term, stage by stage, and all that were tried with their held-out errors; None when nothing helps."""
        whole = (joined(t, taken, tuple(self.terms)) for t in self.terms if t.name not in taken)
        open_ = [t for t in whole if t is not None]
        others: list[tuple[str, float]] = []
        for stage in sorted({t.stage for t in open_}):
            tried = self._tried([t for t in open_ if t.stage == stage])
            if not tried:
                continue
            term, whole, error = min(tried, key=lambda x: x[2].mean())
            rivals = [(t.name, float(e.mean())) for t, _, e in tried if t is not term]
            better = self.error - error
            if better.mean() > self.least * self.error.mean():
                width = 1.645 * better.std(ddof=1) / np.sqrt(len(better))
                rung = Rung(
                    term=term.name, family=term.family, params=tuple(self.kinds[k] for k in term.kinds),
                    before=float(self.error.mean()), after=float(error.mean()), rivals=tuple(rivals),
                    gain=(float(better.mean() - width), float(better.mean() + width)),
                    reason=reason(term.sign, self.bench.residuals(self.whole.e)),
                )  # fmt: skip
                self.free, self.whole, self.error = (*self.free, *rung.params), whole, error
                return rung, []
            others += [(term.name, float(error.mean())), *rivals]
        return None, others

    def _prune(self, taken: list[str]) -> tuple[tuple[str, float], ...]:
        """Leave out terms that are no longer needed, the least missed one first; the last one taken has just earned its place."""
        by_name = {t.name: t for t in self.terms}
        dropped: list[tuple[str, float]] = []
        allowed = (1 + self.least) * self.error.mean()
        fitted = self._misfit(self.whole.e)
        while len(taken) > 1:
            needed = {name for other in taken for name in by_name[other].needs}
            spare = [by_name[name] for name in taken[:-1] if name not in needed]
            trials = []
            for term in spare:
                own = {self.kinds[k] for k in term.kinds}
                free = tuple(name for name in self.free if name not in own)
                start = {**self.whole.e, **{name: self.off[name] for name in own}}
                if self._misfit(start) <= (1 + self.least) * fitted:
                    trials.append((term.name, free, start, self._held_out(free, start)))
            if not trials:
                break
            name, free, start, error = min(trials, key=lambda x: x[3].mean())
            if error.mean() > allowed:
                break
            self.free, self.error = free, error
            self.whole = self.bench.answer([Job(free=free, start=start, seen=self.everything)])[0]
            fitted = self._misfit(self.whole.e)
            taken.remove(name)
            dropped.append((name, float(error.mean())))
            self.say(f"- {name}: {1e3 * error.mean():.1f} mrad held out without it")
        return tuple(dropped)

    def _misfit(self, e: E) -> float:
        """Mean absolute error of all logs under an e [rad], nothing fitted."""
        return float(np.abs(self.bench.residuals(e).error).mean())

    def _held_out(self, free: tuple[str, ...], start: E) -> np.ndarray:
        """Error of every log (L,) under the fit to the other folds."""
        answers = self.bench.answer([Job(free=free, start=start, seen=mask) for mask in self.seen])
        error = np.empty(self.bench.count)
        for mask, answer in zip(self.seen, answers, strict=True):
            error[~mask] = answer.error[~mask]
        return error

    def _tried(self, terms: list[Term]) -> list[tuple[Term, Answer, np.ndarray]]:
        """Fits of all terms that are worth trying: first to all logs at once, then to the folds."""
        whole, jobs, owner = self.whole, [], []
        for term in terms:
            free = (*self.free, *(self.kinds[k] for k in term.kinds))
            starts = [self._start(whole.e, term, level) for level in term.levels]
            jobs += [Job(free=free, start=s, seen=self.everything) for s in starts]
            owner += [term.name] * len(starts)
        answers = self.bench.answer(jobs)
        out = []
        for term in terms:
            mine = sorted(
                (a for a, name in zip(answers, owner, strict=True) if name == term.name), key=lambda a: a.loss
            )
            if not mine or mine[0].loss > (1 - SCREEN) * whole.loss:
                continue
            free = (*self.free, *(self.kinds[k] for k in term.kinds))
            out.append((term, mine[0], self._held_out(free, mine[0].e)))
        return out

    def _fresh(self) -> E:
        """Nominal values, and a little of every term that was taken: a start that no earlier rung has shaped."""
        start = {**self.off, **{name: self.bench.params.nominal_e(1)[name] for name in self.free}}
        for term in self.terms:
            if self.kinds[term.kinds[0]] in self.free and not any(start[self.kinds[k]].any() for k in term.kinds):
                start = self._start(start, term, term.levels[0])
        return start

    def _start(self, e: E, term: Term, level: float) -> E:
        """The present e with the term's Params at a level between their bounds."""
        start = dict(e)
        for kind in term.kinds:
            name = self.kinds[kind]
            param = self.bench.params[name]
            value = (
                param.low * (param.high / param.low) ** level
                if param.scale == "log"
                else param.low + level * (param.high - param.low)
            )
            start[name] = np.full_like(start[name], value)
        return start
