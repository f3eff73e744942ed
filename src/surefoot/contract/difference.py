"""How two contracts differ, in words a person understands. "Here" is the first, "there" the second."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.contract.channels import label

if TYPE_CHECKING:
    from surefoot.contract.contract import Contract
    from surefoot.contract.terms import Group, Normaliser, Range, Term

LISTED = 4
"""How many single values a sentence lists before it counts the rest."""

PER_JOINT = {
    "pose": "rad", "kp": "", "kd": "", "torque_limit": "N·m", "speed_limit": "rad/s", "rate_limit": "rad/s", "rest": "rad",
}  # fmt: skip
"""Fields with one number per joint, and their units."""

DEGREES = 180.0 / math.pi


def difference(here: "Contract", there: "Contract") -> list[str]:
    """Sentences, one per difference, the most basic first; empty when nothing differs."""
    found: list[str] = []
    if here.robot != there.robot:
        found.append(f"robot is {there.robot!r} there, {here.robot!r} here")
    for name, unit in (("control_dt", "s"), ("timestep", "s"), ("pd_rate", "Hz"), ("clock_period", "s")):
        found += _rate(name, unit, getattr(here, name), getattr(there, name))
    found += _names("joints", here.joints, there.joints)
    for name, unit in PER_JOINT.items():
        found += _numbers(name, unit, (here.joints, getattr(here, name)), (there.joints, getattr(there, name)))
    found += _bounds("position_limits", (here.joints, here.position_limits), (there.joints, there.position_limits))
    found += _action(here, there)
    found += _groups(here, there)
    for group in here.groups:
        others = {other.name: other for other in there.groups}
        if group.name in others:
            found += _group(group, others[group.name])
    found += _sets("sensor channel", here.sensor_channels, there.sensor_channels)
    found += _ranges("command", here.commands, there.commands)
    found += _memory(here, there)
    found += _ranges("training range of e:", here.e, there.e)
    return found


def _rate(name: str, unit: str, a: float | None, b: float | None) -> list[str]:
    if a == b:
        return []
    if a is None or b is None:
        return [f"{name} is {_or_none(b, unit)} there, {_or_none(a, unit)} here"]
    per_second = f" ({_pair(1 / a, 1 / b)} Hz)" if name == "control_dt" else ""
    return [f"{name} {_pair(a, b)} {unit}{per_second}"]


def _or_none(value: float | None, unit: str) -> str:
    return "not declared" if value is None else f"{value:g} {unit}"


def _names(what: str, a: tuple[str, ...], b: tuple[str, ...]) -> list[str]:
    """Sentences about two lists of names: missing, additional, or in another order."""
    if a == b:
        return []
    missing, more = [n for n in a if n not in b], [n for n in b if n not in a]
    if missing or more:
        parts = [f"{_listing(missing)} missing there"] * bool(missing) + [f"{_listing(more)} only there"] * bool(more)
        return [f"{len(a)} {what} here against {len(b)} there: {'; '.join(parts)}"]
    return [f"{what} are permuted: {_permutation(a, b)}"]


def _permutation(a: tuple[str, ...], b: tuple[str, ...]) -> str:
    """How b reorders a: the swapped pairs where there are only such, else both orders."""
    moved = {x: y for x, y in zip(a, b, strict=True) if x != y}
    if any(moved[y] != x for x, y in moved.items()):
        return f"the order is {', '.join(map(label, b))} there, {', '.join(map(label, a))} here"
    pairs = [(x, y) for x, y in moved.items() if a.index(x) < a.index(y)]
    halves = {(_limb(x), _limb(y)) for x, y in pairs}
    whole = len(halves) < len(pairs) and all(_part(x) == _part(y) for x, y in pairs)
    if whole:
        return ", ".join(f"{x}_* and {y}_* swapped" for x, y in sorted(halves))
    return _listing([f"{label(x)} and {label(y)} swapped" for x, y in pairs])


def _limb(name: str) -> str:
    return name.partition("_")[0]


def _part(name: str) -> str:
    return name.partition("_")[2]


def _listing(words: Sequence[str]) -> str:
    shown = ", ".join(label(word) for word in words[:LISTED])
    return shown + (f" and {len(words) - LISTED} more" if len(words) > LISTED else "")


def _pair(a: float, b: float) -> str:
    """The change "a -> b", with as many digits as it takes to tell them apart."""
    short = f"{a:.6g} -> {b:.6g}"
    return short if f"{a:.6g}" != f"{b:.6g}" else f"{a!r} -> {b!r}"


def _numbers(what: str, unit: str, here: tuple[Any, Any], there: tuple[Any, Any]) -> list[str]:
    """Sentences about values per column, matched by the column's name, so that an order alone is no difference."""
    unit = f" {unit}" if unit else ""
    a, b = _by_name(*here), _by_name(*there)
    if a is None or b is None:
        return [] if a is b else [f"{what} is declared only {'here' if b is None else 'there'}"]
    changed = {name: (a[name], b[name]) for name in a if name in b and a[name] != b[name]}
    if not changed:
        return []
    pairs = set(changed.values())
    both = len([name for name in a if name in b])
    if len(pairs) == 1 and len(changed) == both:
        x, y = pairs.pop()
        return [f"{what} {_pair(x, y)}{unit}{_hint([(x, y)])}"]
    words = [f"{label(name)} {_pair(x, y)}{unit}" for name, (x, y) in changed.items()]
    return [f"{what} of {_listing(words)}{_hint(list(changed.values()))}"]


def _by_name(names: tuple[str, ...], values: Any) -> dict[str, float] | None:
    return None if values is None else dict(zip(names, values, strict=True))


def _hint(pairs: list[tuple[float, float]]) -> str:
    """What a change of values looks like: a sign, degrees, rounding, a common factor."""
    a, b = np.array(pairs).T
    if np.array_equal(a, -b):
        return " (the sign is opposite)"
    for digits in (2, 3, 4):
        if np.array_equal(np.round(a, digits), b):
            return f" (rounded to {digits} decimals there)"
    if np.any(a == 0) or np.any(b == 0):
        return ""
    ratio = b / a
    for factor, words in ((DEGREES, "degrees there, radians here?"), (1 / DEGREES, "radians there, degrees here?")):
        if np.allclose(ratio, factor, rtol=1e-4) or np.allclose(ratio, -factor, rtol=1e-4):
            return f" (a factor of 180/π: {words})"
    if len(pairs) > 1 and np.allclose(ratio, ratio[0], rtol=1e-9):
        return f" (all by the factor {ratio[0]:.6g})"
    return ""


def _bounds(what: str, here: tuple[Any, Any], there: tuple[Any, Any]) -> list[str]:
    (names_a, a), (names_b, b) = here, there
    if a is None or b is None:
        return [] if a is b else [f"{what} is declared only {'here' if b is None else 'there'}"]
    low = _numbers(f"{what} (low)", "", (names_a, a[0]), (names_b, b[0]))
    return low + _numbers(f"{what} (high)", "", (names_a, a[1]), (names_b, b[1]))


def _action(here: "Contract", there: "Contract") -> list[str]:
    a, b = here.action, there.action
    found = [f"action is a {b.kind} there, a {a.kind} here"] if a.kind != b.kind else []
    found += _names("action joints", a.joints, b.joints)
    for name in ("scale", "offset", "lift", "phase"):
        found += _numbers(f"action {name}", "", (a.joints, getattr(a, name)), (b.joints, getattr(b, name)))
    for name in ("clip", "limits"):
        found += _bounds(f"action {name}", (a.joints, getattr(a, name)), (b.joints, getattr(b, name)))
    return found


def _groups(here: "Contract", there: "Contract") -> list[str]:
    return _sets("group", [g.name for g in here.groups], [g.name for g in there.groups])


def _sets(what: str, a: Sequence[str], b: Sequence[str]) -> list[str]:
    missing = [f"{what} {name!r} is missing there" for name in a if name not in b]
    return missing + [f"{what} {name!r} is only there" for name in b if name not in a]


def _group(a: "Group", b: "Group") -> list[str]:
    found = []
    if a.privileged != b.privileged:
        found.append(f"group {a.name!r} is {'' if b.privileged else 'not '}privileged there")
    mine, theirs = [t.name for t in a.terms], [t.name for t in b.terms]
    found += _sets(f"{a.name} term", mine, theirs)
    shared_a, shared_b = [n for n in mine if n in theirs], [n for n in theirs if n in mine]
    if shared_a != shared_b:
        found.append(f"{a.name} terms are permuted: {_permutation(tuple(shared_a), tuple(shared_b))}")
    if a.order != b.order:
        found.append(f"{a.name} history is {b.order} there, {a.order} here")
    if a.stack != b.stack:
        found.append(f"{a.name} history is stacked {_stacking(b.stack)} there, {_stacking(a.stack)} here")
    for name in shared_a:
        found += [f"{a.name} term {name!r}: {words}" for words in _term(a.term(name), b.term(name))]
    return found + _normaliser(a, b)


def _stacking(stack: str) -> str:
    return "term by term" if stack == "term" else "step by step"


def _term(a: "Term", b: "Term") -> list[str]:
    found = [f"reads {b.source!r} there, {a.source!r} here"] if a.source != b.source else []
    if a.source == b.source == "quat" and a.columns != b.columns and set(a.columns) == set(b.columns):
        found.append(f"quaternion is {','.join(b.columns)} there, {','.join(a.columns)} here")
    else:
        found += _names("columns", a.columns, b.columns)
    if a.unit != b.unit:
        found.append(f"unit is {b.unit} there, {a.unit} here")
    if a.frame != b.frame:
        found.append(f"is in the {b.frame or 'undeclared'} frame there, in the {a.frame or 'undeclared'} frame here")
    if a.history != b.history:
        found.append(f"history is {b.history} step{'s' * (b.history > 1)} there, {a.history} here")
    if a.delay != b.delay:
        found.append(f"delay {_pair(a.delay * 1e3, b.delay * 1e3)} ms")
    if a.turn != b.turn:
        words = {True: "sine and cosine", False: "the angle itself"}
        found.append(f"gives {words[b.turn]} there, {words[a.turn]} here")
    found += _numbers("offset", "", (a.columns, a.offset), (b.columns, b.offset))
    if a.turn != b.turn:
        return found
    found += _numbers("scale", "", (a.entries, a.scale), (b.entries, b.scale))
    found += _bounds("clip", (a.entries, a.clip), (b.entries, b.clip))
    return found + _bounds("training range", (a.entries, a.trained), (b.entries, b.trained))


def _normaliser(a: "Group", b: "Group") -> list[str]:
    here, there, what = a.normaliser, b.normaliser, f"{a.name} normaliser"
    if here is None or there is None:
        return [] if here is there else [f"{what} is missing {'there' if there is None else 'here'}"]
    found = [f"{what} is applied by the {there.by} there, by the {here.by} here"] if here.by != there.by else []
    if here.eps != there.eps:
        found.append(f"{what} eps {_pair(here.eps, there.eps)}")
    if here.limit != there.limit:
        found.append(f"{what} limit is {there.limit} there, {here.limit} here")
    return found + _statistics(what, (a, here), (b, there))


def _statistics(what: str, a: tuple["Group", "Normaliser"], b: tuple["Group", "Normaliser"]) -> list[str]:
    found = []
    for name in ("mean", "var"):
        here, there = (group.labels for group, _ in (a, b))
        found += _numbers(f"{what} {name}", "", (here, getattr(a[1], name)), (there, getattr(b[1], name)))
    return found


def _ranges(what: str, a: Sequence["Range"], b: Sequence["Range"]) -> list[str]:
    mine, theirs = {r.name: r for r in a}, {r.name: r for r in b}
    found = _sets(what, list(mine), list(theirs))
    shared_a, shared_b = [n for n in mine if n in theirs], [n for n in theirs if n in mine]
    if shared_a != shared_b and what == "command":
        found.append(f"commands are permuted: {_permutation(tuple(shared_a), tuple(shared_b))}")
    for name in shared_a:
        x, y = mine[name], theirs[name]
        if x.unit != y.unit:
            found.append(f"{what} {name!r}: unit is {y.unit or 'undeclared'} there, {x.unit or 'undeclared'} here")
        if (x.low, x.high) != (y.low, y.high):
            found.append(f"{what} {name!r}: [{x.low:.9g}, {x.high:.9g}] -> [{y.low:.9g}, {y.high:.9g}]")
    return found


def _memory(here: "Contract", there: "Contract") -> list[str]:
    a, b = ({m.name: m.shape for m in c.memory} for c in (here, there))
    found = _sets("memory", list(a), list(b)) or _names("memories", tuple(a), tuple(b))
    return found + [f"memory {n!r}: shape is {b[n]} there, {a[n]} here" for n in a if n in b and a[n] != b[n]]
