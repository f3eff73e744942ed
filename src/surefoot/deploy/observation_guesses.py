"""What an observation would be under the faults that runtimes are known for: other layouts, frames, ages and stages of the action."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from surefoot.contract import Contract, Group, Term, action, projected_gravity, to_body
from surefoot.contract.channels import RUNTIME, XYZ
from surefoot.contract.terms import ORDERS, STACKS
from surefoot.deploy.compare import Guess, number
from surefoot.deploy.recorded_run import Run, frame_of

DEEPEST = 8
"""Largest age of a reading that is looked for, in policy steps."""


def entries(group: Group) -> list[tuple[int, int, int]]:
    """Of every entry of the vector: number of its term, its column within the present frame, its age in steps."""
    first = np.concatenate([[0], np.cumsum([len(t.entries) for t in group.terms])])
    numbered = list(enumerate(group.terms))
    out = []
    for block in [numbered] if group.stack == "step" else [[pair] for pair in numbered]:
        ages = range(block[0][1].history)
        for age in ages if group.order == "newest-first" else reversed(ages):
            out += [(i, int(first[i]) + c, age) for i, t in block for c in range(len(t.entries))]
    return out


# ---------------------------------------------------------------- other layouts of the whole vector


def _with(contract: Contract, group: Group) -> Contract:
    return replace(contract, groups=tuple(group if g.name == group.name else g for g in contract.groups))


def layouts(run: Run, group: Group, expected: np.ndarray) -> Iterator[Guess]:
    """Guesses about the vector as a whole: history, delay, normaliser, order of the terms."""
    contract = run.contract
    if any(term.history > 1 for term in group.terms):
        yield from _histories(run, group)
    norm = group.normaliser
    if norm is not None:
        mean, std = np.array(norm.mean), np.sqrt(np.array(norm.var) + norm.eps)
        limit = np.inf if norm.limit is None else norm.limit
        if norm.by == "network":
            words = "it is normalised already, and the policy file normalises it again"
            yield Guess(kind="normaliser", detail=words, values=lambda: np.clip((expected - mean) / std, -limit, limit))
        else:
            bare = replace(group, normaliser=None)
            raw = _with(contract, bare)
            yield Guess(
                kind="normaliser", detail="the normaliser was not applied", values=lambda: run.build(group.name, raw)
            )
            words = "the normaliser was applied twice"
            yield Guess(kind="normaliser", detail=words, values=lambda: np.clip((expected - mean) / std, -limit, limit))
    yield from _ages(run, group)
    for k in range(1, DEEPEST + 1):
        late = (
            np.vstack([np.full((k, expected.shape[1]), np.nan), expected[:-k]]) if len(expected) > k + 3 else expected
        )
        yield Guess(kind="delayed", detail=_old(k, k * run.dt), values=lambda late=late: late)
    for i, j in combinations(range(len(group.terms)), 2):
        terms = list(group.terms)
        terms[i], terms[j] = terms[j], terms[i]
        moved = _with(contract, replace(group, terms=tuple(terms), normaliser=None))
        words = f"the terms {group.terms[i].name} and {group.terms[j].name} stand in each other's place"
        if group.normaliser is None or group.normaliser.by == "network":
            yield Guess(kind="permuted", detail=words, values=lambda moved=moved: run.build(group.name, moved))


def _old(steps: int, seconds: float) -> str:
    return f"{steps} control step{'s' * (steps > 1)} ({1e3 * seconds:.3g} ms) old"


def _ages(run: Run, group: Group) -> Iterator[Guess]:
    """Readings that are older than they should be, at the rate at which they were recorded."""
    sensed = [t.source for t in group.terms if t.source in run.log and t.source not in RUNTIME]
    if not sensed:
        return
    period = float(np.median(np.diff(run.log[sensed[0]].t)))
    ratio = max(1, round(run.dt / period))
    for k in range(1, 2 * ratio + 1):
        words = _old(k // ratio, k * period) if k % ratio == 0 else f"{1e3 * k * period:.3g} ms old"

        def values(k: int = k) -> np.ndarray:
            built = run.build(group.name, given=run.readings(back=k))
            deepest = max(term.history for term in group.terms)
            built[run.since < deepest + 2] = np.nan
            return built

        yield Guess(kind="delayed", detail=f"its readings are {words}", values=values)


def _histories(run: Run, group: Group) -> Iterator[Guess]:
    contract, steps = run.contract, max(term.history for term in group.terms)
    other = ORDERS[1 - ORDERS.index(group.order)]
    plain = group.normaliser is None or group.normaliser.by == "network"
    variants = [("history order", replace(group, order=other), f"the history is {other}, {group.order} is meant")]
    if len({term.history for term in group.terms}) == 1:
        stack = STACKS[1 - STACKS.index(group.stack)]
        words = {"term": "term by term", "step": "step by step"}
        detail = f"the history is stacked {words[stack]}, {words[group.stack]} is meant"
        variants.append(("history stack", replace(group, stack=stack), detail))
        variants.append(("history stack", replace(group, stack=stack, order=other), f"{detail}, and it is {other}"))
    for kind, changed, detail in variants:
        if plain:
            there = _with(contract, changed)
            yield Guess(kind=kind, detail=detail, values=lambda there=there: run.build(group.name, there))
    if not plain:
        return
    frames = run.build(group.name, frame_of(contract, group.name))
    column, age = (np.array([e[i] for e in entries(group)]) for i in (1, 2))

    def looked_up(lag: np.ndarray, before: str) -> np.ndarray:
        """Entries of the frames `lag` (entries,) steps ago; before a start the first frame ("first"), zeros or unknown."""
        ago = np.arange(len(frames))[:, None] - lag
        start = (np.arange(len(frames)) - run.since)[:, None]
        found = frames[np.maximum(ago, start), column]
        fill = {"first": found, "zeros": 0.0, "unknown": np.nan}[before]
        return np.where(ago < start, fill, found)

    for kind, detail, lag, before in (
        ("history not filled", "before the start it holds zeros instead of the first reading", age, "zeros"),
        ("history stale", "every entry of the past is one step older than it should be", age + (age > 0), "unknown"),
        ("history stale", "the present fills all steps of the past", 0 * age, "first"),
        ("history stale", "every second step only is kept", 2 * age, "unknown"),
        ("history stale", "the past still holds the first readings", np.where(age > 0, 10**9, 0), "first"),
        (
            "history order",
            f"the present is at the wrong end of {steps} steps",
            np.where(age > 0, steps - age, 0),
            "unknown",
        ),
    ):
        yield Guess(kind=kind, detail=detail, values=lambda lag=lag, before=before: looked_up(lag, before))


# ---------------------------------------------------------------- guesses about one term


def of_term(run: Run, group: Group, term: Term) -> Iterator[Guess]:
    """Faults that only a term of this kind can have."""

    def built(**changes: object) -> np.ndarray:
        return run.build(group.name, _term_changed(run.contract, group, term, **changes))

    offset, scale = np.array(term.offset), np.array(term.scale)
    if np.any(offset):
        words = "the default pose is not subtracted" if term.source == "joint_pos" else "its offset is not applied"
        yield Guess(kind="offset", detail=words, values=lambda: built(offset=0.0))
    if np.any(scale != 1.0):
        yield Guess(kind="scale", detail=f"its scale {scale[0]:.4g} is not applied", values=lambda: built(scale=1.0))
    if term.clip is not None:
        yield Guess(kind="clip", detail="its clip is not applied", values=lambda: built(clip=None))
    if term.source == "last_action":
        yield from _actions(run, group)
    if term.columns == XYZ or term.source == "quat":
        yield from _frames(run, group, term)


def rare_of_term(run: Run, group: Group, term: Term) -> Iterator[Guess]:
    """Faults that are tried only where nothing more common fits."""
    if np.any(term.offset):
        there = _term_changed(run.contract, group, term, offset=tuple(-np.array(term.offset)))
        detail = "its offset has the opposite sign"
        yield Guess(kind="offset", detail=detail, values=lambda: run.build(group.name, there))


def rescaled(run: Run, group: Group, term: Term, recorded: np.ndarray, expected: np.ndarray) -> Iterator[Guess]:
    """Another scale before the clip, from the entries of the term (K, size) that the clip left alone."""
    if term.clip is None or term.turn:
        return
    low, high = (np.tile(side, term.history) for side in term.clip)
    inside = (recorded > low) & (recorded < high) & (expected > low) & (expected < high) & (np.abs(expected) > 1e-3)
    if inside.sum() < 10:
        return
    factor = float(np.median(recorded[inside] / expected[inside]))
    there = _term_changed(run.contract, group, term, scale=tuple(factor * np.array(term.scale)))
    detail = f"{number(factor)} times what it should be, before its clip"
    yield Guess(kind="scale", detail=detail, values=lambda: run.build(group.name, there))


def _term_changed(contract: Contract, group: Group, term: Term, **changes: object) -> Contract:
    """The contract with one term of one group changed."""
    terms = tuple(replace(t, **changes) if t.name == term.name else t for t in group.terms)
    return _with(contract, replace(group, terms=terms))


def _actions(run: Run, group: Group) -> Iterator[Guess]:
    """Another stage or another step of the last action."""
    raw = run.actions
    if raw is None:
        return
    contract, terms = run.contract, run.contract.action
    index = [contract.joints.index(j) for j in terms.joints]
    time = np.maximum(run.since, 0) * contract.control_dt
    target = action(contract, raw, time)[:, index]
    bare = raw if terms.clip is None else np.clip(raw, *map(np.array, terms.clip))
    for detail, values in (
        ("it is the target sent to the motors, not the policy's raw output", target),
        ("it is the action times its scale, not the policy's raw output", np.array(terms.scale) * bare),
        ("it is the target less the default pose, not the policy's raw output", target - np.array(terms.offset)),
        ("it is clipped, the policy's raw output is meant", bare),
    ):
        yield Guess(
            kind="processed", detail=detail,
            values=lambda v=values: run.build(group.name, given={"last_action": run.earlier(v, 1)}),
        )  # fmt: skip
    for k in range(2, DEEPEST):
        yield Guess(
            kind="delayed", detail=f"it is the action of {k} steps before, that of the last step is meant",
            values=lambda k=k: run.build(group.name, given={"last_action": run.earlier(raw, k)}),
        )  # fmt: skip
    yield Guess(
        kind="delayed", detail="it is the action of the same step, that of the step before is meant",
        values=lambda: run.build(group.name, given={"last_action": raw}),
    )  # fmt: skip


def _frames(run: Run, group: Group, term: Term) -> Iterator[Guess]:
    """Vectors turned the wrong way: world instead of body, the inverse rotation, a quaternion in another order."""
    source, readings = term.source, run.readings()

    def built(value: np.ndarray) -> np.ndarray:
        return run.build(group.name, given={source: value})

    if source == "gravity":
        down = np.tile([0.0, 0.0, -1.0], (len(run.t), 1))
        yield Guess(
            kind="frame", detail="it is gravity in the world's frame, not in the body's", values=lambda: built(down)
        )
    if "quat" not in run.log:
        return
    quat = run.at("quat", run.t)
    conjugate = quat * np.array([1.0, -1.0, -1.0, -1.0])
    if source == "gravity":
        own = {
            "the inverse rotation was used: world from body and body from world are mixed up": ("frame", conjugate),
            "the quaternion was read as x,y,z,w, it is w,x,y,z": ("quaternion order", np.roll(quat, 1, axis=1)),
            "the quaternion was read as w,x,y,z, it is x,y,z,w": ("quaternion order", np.roll(quat, -1, axis=1)),
        }
        for detail, (kind, q) in own.items():
            yield Guess(kind=kind, detail=detail, values=lambda q=q: built(projected_gravity(q)))
    elif source == "quat":
        detail = "it is the inverse rotation: body from world instead of world from body"
        yield Guess(kind="frame", detail=detail, values=lambda: built(conjugate))
        yield Guess(kind="sign", detail="its sign is opposite, which is the same attitude", values=lambda: built(-quat))
    else:
        value = readings[source]
        there, back = ("world", "body") if term.frame == "body" else ("body", "world")
        detail = f"it is in the {there}'s frame, the {back}'s is meant"
        first, second = (conjugate, quat) if term.frame == "body" else (quat, conjugate)
        yield Guess(kind="frame", detail=detail, values=lambda: built(to_body(first, value)))
        yield Guess(
            kind="frame",
            detail="it was turned by the attitude once too often",
            values=lambda: built(to_body(second, value)),
        )
