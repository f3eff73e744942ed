"""Recorded observations against the one builder: which term differs, and how."""

from dataclasses import replace

import numpy as np

from surefoot.contract import Group, Term
from surefoot.contract.channels import label
from surefoot.deploy.compare import DEGREES, Cause, Guess, differs, explain, fits, order_in_words
from surefoot.deploy.findings import Notes, listed
from surefoot.deploy.observation_guesses import entries, layouts, of_term, rare_of_term, rescaled
from surefoot.deploy.recorded_run import Run


def check_observations(run: Run, notes: Notes) -> None:
    """Rebuild every recorded observation group and name what differs."""
    for group in run.contract.groups:
        name = f"observation/{group.name}"
        if name not in run.log:
            notes.unchecked.append(f"{name}: the log does not hold it")
            continue
        lacking = [s for s in run.sources if s not in run.log or not run.whole(run.log[s])]
        needed = {term.source for term in group.terms}
        if missing := [s for s in lacking if s in needed]:
            notes.unchecked.append(
                f"{name}: it cannot be rebuilt, the log lacks {listed(missing)} or some of its columns"
            )
            _named_only(run, group, notes)
            continue
        if "last_action" in needed and run.actions is None:
            notes.unchecked.append(f"{name}: it cannot be rebuilt, the log lacks the action")
            continue
        if "command" in needed and run.commands is None:
            notes.unchecked.append(f"{name}: it cannot be rebuilt, the log lacks the command")
            continue
        if _named_only(run, group, notes) and len(run.t):
            _compare(run, group, notes)


def _named_only(run: Run, group: Group, notes: Notes) -> bool:
    """Whether the recorded columns are the group's entries; if not, say how they differ."""
    have, want = run.log[f"observation/{group.name}"].columns, group.labels
    if have == want:
        return True
    missing, more = [n for n in want if n not in have], [n for n in have if n not in want]
    if not missing and not more:
        first = next(i for i, (a, b) in enumerate(zip(have, want, strict=True)) if a != b)
        detail = f"its {len(want)} entries are in another order: entry {first} is {have[first]}, {want[first]} is meant"
        notes.find("observation", group.name, "permuted", detail)
        return False
    gone = [term.name for term in group.terms if all(n in missing for n in want if n.startswith(f"{term.name}["))]
    kind = "missing" if gone and not more else "count"
    parts = [f"{listed(missing)} missing"] * bool(missing) + [f"{listed(more)} not in the contract"] * bool(more)
    detail = f"{len(have)} entries recorded, the contract has {len(want)}: {'; '.join(parts)}"
    notes.find("observation", gone[0] if kind == "missing" else group.name, kind, detail, missing or more)
    return False


def _compare(run: Run, group: Group, notes: Notes) -> None:
    recorded = run.exact(f"observation/{group.name}")
    assert recorded is not None
    expected = run.build(group.name)
    known = np.asarray(~np.isnan(recorded).any(axis=1))
    keep = np.where(known[:, None], recorded, expected)
    wrong = differs(keep, expected)
    places = _places(group)
    off = [term for term in group.terms if wrong[places[term.name]].any()]
    notes.checked.append(
        f"observation/{group.name}: {int(np.sum(known))} observations rebuilt, "
        + (f"{listed([t.name for t in off])} differ" if off else "all entries equal")
    )
    _tell_still(run, group, expected, notes)
    if not off:
        return
    whole = list(layouts(run, group, expected))
    if len(off) > 1 or group.stack == "step":
        for guess in whole:
            if fits(keep, guess.values()):
                notes.find("observation", group.name, guess.kind, guess.detail)
                return
    for term in off:
        cause = _explain_term(run, group, term, keep, expected, whole)
        notes.find("observation", term.name, cause.kind, cause.detail, cause.columns)


def _tell_still(run: Run, group: Group, expected: np.ndarray, notes: Notes) -> None:
    """A term that is 0 throughout says nothing about its order, sign or scale."""
    places = _places(group)
    silent = [t.name for t in group.terms if not np.abs(expected[:, places[t.name]]).any()]
    if silent:
        notes.unchecked.append(
            f"observation/{group.name}: order, sign and scale of {listed(silent)}, which was 0 in the whole log"
        )


def _places(group: Group) -> dict[str, np.ndarray]:
    """Entries of the vector that belong to each term, by its name."""
    owner = [number for number, _, _ in entries(group)]
    return {term.name: np.flatnonzero(np.array(owner) == i) for i, term in enumerate(group.terms)}


def _explain_term(
    run: Run, group: Group, term: Term, recorded: np.ndarray, expected: np.ndarray, whole: list[Guess]
) -> Cause:
    """Why one term differs: another layout, something particular to its source, or a general cause."""
    own = _places(group)[term.name]
    r, x = recorded[:, own], expected[:, own]
    found = _guessed(group, [*whole, *of_term(run, group, term)], own, recorded, expected)
    if found is None:
        found = (
            _clock(run, group, term, r) if term.source == "clock" else _by_reading(run, group, term, recorded, expected)
        )
    if found is None:
        found = _guessed(
            group, [*rare_of_term(run, group, term), *rescaled(run, group, term, r, x)], own, recorded, expected
        )
    if found is not None:
        return found
    r, x = _by_step(group, term, r), _by_step(group, term, x)
    cause = explain(r, x, term.entries, steps=term.history)
    assert cause is not None
    if cause.kind == "permuted" and term.source == "quat":
        return replace(cause, kind="quaternion order")
    if cause.kind == "unexplained" and (other := _another_term(group, term, recorded, expected)):
        return Cause(kind="permuted", detail=f"holds the term {other!r} instead", columns=term.entries)
    return cause


def _guessed(
    group: Group, guesses: list[Guess], own: np.ndarray, recorded: np.ndarray, expected: np.ndarray
) -> Cause | None:
    """The first guess that fits the entries `own` of the vector."""
    r, x = recorded[:, own], expected[:, own]
    for guess in guesses:
        values = guess.values()
        if values.shape == recorded.shape and differs(values[:, own], x).any() and fits(r, values[:, own]):
            names = tuple(group.labels[i] for i in own[differs(r, x)])
            return Cause(kind=guess.kind, detail=guess.detail, columns=names)
    return None


def _by_reading(run: Run, group: Group, term: Term, recorded: np.ndarray, expected: np.ndarray) -> Cause | None:
    """Readings in other units, with other signs or in another order before they came to the builder, clip and offset included."""
    own = _places(group)[term.name]
    have = run.inputs(term.source)
    names = run.names(term.source)
    r, x = recorded[:, own], expected[:, own]
    wrong = differs(r, x)
    column = np.array([names.index(c) for c in term.columns])
    owner = np.tile(np.repeat(column, 1 + term.turn), term.history)  # column of the reading that fills each entry

    def built(value: np.ndarray) -> np.ndarray:
        return run.build(group.name, given={term.source: value})[:, own]

    named = tuple(names[c] for c in dict.fromkeys(owner[wrong].tolist()))
    radians = "rad" in term.unit
    for kind, factor, words in (
        ("degrees", DEGREES, "in degrees, radians are meant (factor 57.3)"),
        ("sign", -1.0, "the sign is opposite"),
        ("degrees", 1 / DEGREES, "divided by 57.3, as if it had come in degrees"),
    ):
        if (radians or kind == "sign") and not differs(r, built(have * factor))[wrong].any():
            return Cause(kind=kind, detail=f"{listed(named)}: {words}", columns=named)
    if len(term.columns) < 2:
        return None
    order = _order(r, wrong, owner, [built(np.roll(have, -k, axis=1)) for k in range(len(names))])
    if order is None:
        return None
    kind = "quaternion order" if term.source == "quat" else "permuted"
    return Cause(kind=kind, detail=order_in_words(names, order), columns=named)


def _order(r: np.ndarray, wrong: np.ndarray, owner: np.ndarray, rolled: list[np.ndarray]) -> np.ndarray | None:
    """Column of the reading that stands in the place of each, (n,), where that explains all wrong entries; else None.

    rolled[k] is the term as it would be with every column replaced by the k-th after it.
    """
    from scipy.optimize import linear_sum_assignment

    n = len(rolled)
    cost = np.zeros((n, n))
    for k, values in enumerate(rolled):
        off = np.abs(r - values).mean(axis=0)
        for entry, c in enumerate(owner):
            cost[c, (c + k) % n] += off[entry]
    unmoved = ~np.isin(np.arange(n), owner[wrong])
    cost[unmoved] += 1e6 * (1 - np.eye(n)[unmoved])
    order = linear_sum_assignment(cost)[1]
    for entry in np.flatnonzero(wrong):
        c = owner[entry]
        if differs(r[:, [entry]], rolled[(order[c] - c) % n][:, [entry]]).any():
            return None
    return order


def _by_step(group: Group, term: Term, values: np.ndarray) -> np.ndarray:
    """Entries of a term (K, size) with every step of its history as a row, (K · history, columns), oldest first."""
    steps = values.reshape(len(values), term.history, -1)
    return (steps if group.order == "oldest-first" else steps[:, ::-1]).reshape(-1, len(term.entries))


def _another_term(group: Group, term: Term, recorded: np.ndarray, expected: np.ndarray) -> str:
    places = _places(group)
    r = recorded[:, places[term.name]]
    for other in group.terms:
        if other.name != term.name and other.size == term.size and fits(r, expected[:, places[other.name]]):
            return other.name
    return ""


def _clock(run: Run, group: Group, term: Term, recorded: np.ndarray) -> Cause | None:
    """Phase and period of a recorded clock, where it is one."""
    rows = _by_step(group, term, recorded)[term.history - 1 :: term.history]
    raw = dict(zip(term.columns, ((rows / term.scale) - np.array(term.offset)).T, strict=True)) if not term.turn else {}
    if "phase" in raw:
        phase = raw["phase"]
    elif {"sin", "cos"} <= set(raw):
        if np.abs(np.hypot(raw["sin"], raw["cos"]) - 1).max() > 1e-3:
            return None
        phase = np.arctan2(raw["sin"], raw["cos"]) / (2 * np.pi)
    else:
        return None
    steps = run.since.astype(float)
    unwrapped = np.concatenate(
        [np.unwrap(part, period=1.0) for part in np.split(phase, run.starts[1:])]
    )  # fmt: skip
    inside = steps > 0 if (steps > 0).sum() > 10 else steps >= 0
    slope, begin = np.polyfit(steps[inside], unwrapped[inside], 1)
    wave = (unwrapped - (slope * steps + begin))[inside]
    if np.abs(wave).max() > 5e-3 or run.contract.clock_period is None:
        return None
    period, meant = run.contract.control_dt / slope if slope else np.inf, run.contract.clock_period
    names = tuple(f"{term.name}[{label(c)}]" for c in term.entries)
    begin = (begin + 0.5) % 1.0 - 0.5
    if abs(period / meant - 1) > 1e-3:
        return Cause(kind="clock", detail=f"its period is {period:.4g} s, {meant:.4g} s is meant", columns=names)
    return Cause(
        kind="clock", detail=f"its phase is off by {begin:+.3g} of a period ({begin * meant:+.3g} s)", columns=names
    )
