"""The parts of a contract: observation terms and their groups, the action, the normaliser, ranges.

Each part is a frozen value that checks itself; where one number per column is meant, a single number
stands for all of them and is spread out on construction.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.contract.channels import ACTIONS, STANDARD, label
from surefoot.contract.codec import Bounds, Values
from surefoot.errors import InputError, choose

ORDERS = ("oldest-first", "newest-first")
STACKS = ("term", "step")
APPLIERS = ("network", "builder")


def spread(value: Any, size: int, what: str) -> tuple[float, ...]:
    """`size` exact floats out of one number or `size` numbers; -0.0 becomes 0.0 so that equal means same text."""
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be a number or {size} numbers, got {value!r}") from None
    if numbers.ndim == 0:
        numbers = np.full(size, numbers)
    if numbers.shape != (size,):
        raise InputError(f"{what} must be one number or {size}, one per column; got shape {numbers.shape}")
    if not np.all(np.isfinite(numbers)):
        raise InputError(f"{what} must be finite, got {numbers.tolist()}; leave it out where there is none")
    return tuple((numbers + 0.0).tolist())


def spread_bounds(value: Any, size: int, what: str) -> Bounds | None:
    """Lower and upper limits, `size` floats each, lower never above upper; None stays None."""
    if value is None:
        return None
    if not isinstance(value, tuple | list | np.ndarray) or len(value) != 2:
        raise InputError(f"{what} must be a pair (low, high), got {value!r}")
    low, high = (spread(side, size, f"{what} ({word})") for side, word in zip(value, ("low", "high"), strict=True))
    if any(a > b for a, b in zip(low, high, strict=True)):
        raise InputError(f"{what} has a low above its high: {low} against {high}")
    return low, high


def unique_names(value: Any, what: str) -> tuple[str, ...]:
    """A tuple of distinct, non-empty names."""
    if isinstance(value, str):
        raise InputError(f"{what} must be a list of names, got the text {value!r}")
    names = tuple(value)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"{what} must be names, got {name!r}")
        if names.count(name) > 1:
            raise InputError(f"{what} must be distinct, {name!r} is there twice")
    return names


def positive(value: Any, what: str) -> float:
    """A finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 < value < math.inf:
        raise InputError(f"{what} must be a number above 0, got {value!r}")
    return float(value)


def settle(part: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(part, name, value)


@dataclass(frozen=True, kw_only=True)
class Term:
    """One part of an observation: obs = clip((y[columns] + offset) · scale).

    With `turn` the reading is an angle and the observation its sine and cosine, which have no seam after a whole turn:

        obs = clip(scale · (sin, cos)(y[columns] + offset))       two entries per column, side by side

    Attributes:
        source: channel that is read (standard names), or "last_action", "command", "clock".
        name: how the term is called; its source when left out.
        columns: columns of the source in the order in which the policy wants them.
        unit: unit of the reading y, before offset and scale; the standard one when left out.
        frame: frame of the reading ("body", "world", ...); the standard one when left out.
        offset: added to the reading, in its unit.
        scale: factor after the offset, in observation units per reading unit.
        clip: (low, high) of the scaled value, or None.
        history: how many control steps are stacked, 1 for the present alone.
        delay: age of the reading in training [s]. Declared, not applied: readings arrive delayed already.
        trained: (low, high) of the observation seen in training, or None when not recorded.
        turn: give sine and cosine of each angle [rad] instead of the angle; scale, clip and trained then count entries.
    """

    source: str
    name: str = ""
    columns: tuple[str, ...] = ()
    unit: str = ""
    frame: str = ""
    offset: Values = 0.0
    scale: Values = 1.0
    clip: Bounds | None = None
    history: int = 1
    delay: float = 0.0
    trained: Bounds | None = None
    turn: bool = False

    def __post_init__(self):
        if not isinstance(self.source, str) or not self.source:
            raise InputError(f"a term needs the channel it reads, got source {self.source!r}")
        name = self.name or self.source
        what = f"term {name!r}"
        standard = STANDARD.get(self.source)
        columns = unique_names(self.columns, f"columns of {what}")
        if not columns and standard and self.source != "clock":
            columns = standard.columns
        if not columns:
            raise InputError(f"{what} needs its columns: {self.source!r} has no standard ones")
        if not isinstance(self.history, int) or isinstance(self.history, bool) or self.history < 1:
            raise InputError(f"history of {what} must be a whole number of steps from 1, got {self.history!r}")
        (delay,) = spread(self.delay, 1, f"delay of {what}")
        if delay < 0:
            raise InputError(f"delay of {what} must be 0 or more seconds, got {delay}")
        unit = self.unit or (standard.unit if standard else "1")
        if not isinstance(self.turn, bool):
            raise InputError(f"turn of {what} must be true or false, got {self.turn!r}")
        if self.turn and unit != "rad":
            raise InputError(f"{what} cannot turn: sine and cosine need an angle in rad, {self.source!r} is in {unit}")
        entries = len(columns) * (1 + self.turn)
        settle(
            self,
            name=name,
            columns=columns,
            unit=unit,
            frame=self.frame or (standard.frame if standard else ""),
            offset=spread(self.offset, len(columns), f"offset of {what}"),
            scale=spread(self.scale, entries, f"scale of {what}"),
            clip=spread_bounds(self.clip, entries, f"clip of {what}"),
            delay=delay,
            trained=spread_bounds(self.trained, entries, f"trained range of {what}"),
        )

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the numbers of one step: the columns, or for angles given as a turn "sin NAME", "cos NAME" of each."""
        if not self.turn:
            return self.columns
        return tuple(f"{part} {column}" for column in self.columns for part in ("sin", "cos"))

    @property
    def size(self) -> int:
        """How many numbers of the observation it fills."""
        return len(self.columns) * (1 + self.turn) * self.history


@dataclass(frozen=True, kw_only=True)
class Normaliser:
    """Frozen statistics of a group: z = clip((obs − mean) / sqrt(var + eps), ±limit).

    Attributes:
        mean: one number per entry of the group, history included.
        var: variance, one number per entry.
        eps: added to the variance.
        limit: largest |z|, or None.
        by: who applies it: "network" (it is inside the policy file) or "builder".
    """

    mean: tuple[float, ...]
    var: tuple[float, ...]
    eps: float = 1e-8
    limit: float | None = None
    by: str = "network"

    def __post_init__(self):
        size = np.asarray(self.mean).size
        mean, var = spread(self.mean, size, "normaliser mean"), spread(self.var, size, "normaliser var")
        (eps,) = spread(self.eps, 1, "normaliser eps")
        if size == 0 or min(var) + eps <= 0 or min(var) < 0 or eps < 0:
            raise InputError("a normaliser needs a mean, variances and eps of 0 or more, and var + eps above 0")
        limit = None if self.limit is None else positive(self.limit, "normaliser limit")
        choose(self.by, APPLIERS, "one who can apply a normaliser")
        settle(self, mean=mean, var=var, eps=eps, limit=limit)


@dataclass(frozen=True, kw_only=True)
class Group:
    """An observation vector: terms in order, each with its history.

    With stack "term" the vector is [term a: all its steps][term b: all its steps]...; with "step" it is
    [all terms of one step][all terms of the next]..., and then every term has the same history length.

    Attributes:
        name: "policy", "critic", "history", ...
        terms: in the order of the vector.
        order: "oldest-first" or "newest-first", along the steps of a history; without one, both mean the
            same and the first is kept, as for `stack`.
        stack: "term" or "step".
        privileged: may read what no sensor gives; such a group never reaches the robot.
        normaliser: frozen statistics of the vector, or None.
    """

    name: str
    terms: tuple[Term, ...]
    order: str = "oldest-first"
    stack: str = "term"
    privileged: bool = False
    normaliser: Normaliser | None = None

    def __post_init__(self):
        terms = tuple(self.terms)
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise InputError(f"the name of a group must be a single word, got {self.name!r}")
        if not terms:
            raise InputError(f"group {self.name!r} has no terms")
        unique_names((term.name for term in terms), f"terms of group {self.name!r}")
        choose(self.order, ORDERS, "a history order")
        choose(self.stack, STACKS, "a way to stack a history")
        if self.stack == "step" and len({term.history for term in terms}) > 1:
            lengths = ", ".join(f"{term.name} {term.history}" for term in terms)
            raise InputError(f"group {self.name!r} is stacked by step, its terms need one history length: {lengths}")
        settle(self, terms=terms)
        if all(term.history == 1 for term in terms):
            settle(self, order=ORDERS[0], stack=STACKS[0])
        if self.normaliser is not None and len(self.normaliser.mean) != self.size:
            raise InputError(
                f"the normaliser of group {self.name!r} has {len(self.normaliser.mean)} entries,"
                f" the group has {self.size}"
            )

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(term.size for term in self.terms)

    def term(self, name: str) -> Term:
        """The term of that name."""
        known = {term.name: term for term in self.terms}
        return known[choose(name, known, f"a term of group {self.name!r}")]

    @property
    def labels(self) -> tuple[str, ...]:
        """What each entry of the vector is: "joint_pos[FL_hip]", "gyro[x] t-2" two steps ago."""
        steps = max(term.history for term in self.terms)
        blocks = [self.terms] if self.stack == "step" else [(term,) for term in self.terms]
        found = []
        for block in blocks:
            ages = range(block[0].history if self.stack == "term" else steps)
            for age in ages if self.order == "newest-first" else reversed(ages):
                past = f" t-{age}" if age else ""
                found += [f"{t.name}[{label(c)}]{past}" for t in block for c in t.entries]
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Action:
    """What the policy's output does, joint by joint, with φ the phase of the contract's clock:

        target = clip(offset + scale · clip(a) + lift · max(0, sin 2π (φ + phase)))

    Attributes:
        joints: joints in the order of the policy's output.
        kind: what the motors take: "joint_pos_target", "joint_torque_target", ...
        scale: [target unit per 1], one number or one per joint.
        offset: target of a = 0, for positions the default pose [rad].
        clip: (low, high) of the raw action a, or None.
        limits: (low, high) of the target, in its unit, or None.
        lift: amplitude of a rhythm that is added to the target, in its unit; 0 for none.
        phase: where in the clock's period the rhythm of a joint begins [1].
    """

    joints: tuple[str, ...]
    kind: str = "joint_pos_target"
    scale: Values = 1.0
    offset: Values = 0.0
    clip: Bounds | None = None
    limits: Bounds | None = None
    lift: Values = 0.0
    phase: Values = 0.0

    def __post_init__(self):
        joints = unique_names(self.joints, "joints of the action")
        if not joints:
            raise InputError("the action needs at least one joint")
        choose(self.kind, ACTIONS, "a kind of action")
        n = len(joints)
        scale = spread(self.scale, n, "scale of the action")
        if 0.0 in scale:
            raise InputError(f"scale of the action is 0 for joint {joints[scale.index(0.0)]!r}: it could never move")
        settle(
            self,
            joints=joints,
            scale=scale,
            offset=spread(self.offset, n, "offset of the action"),
            clip=spread_bounds(self.clip, n, "clip of the action"),
            limits=spread_bounds(self.limits, n, "limits of the action"),
            lift=spread(self.lift, n, "lift of the action"),
            phase=spread(self.phase, n, "phase of the action"),
        )


@dataclass(frozen=True, kw_only=True)
class Range:
    """The interval [low, high] in which something named was drawn in training, in `unit`."""

    name: str
    low: float
    high: float
    unit: str = ""

    def __post_init__(self):
        (low,), (high,) = (spread(v, 1, f"range of {self.name!r}") for v in (self.low, self.high))
        if low > high:
            raise InputError(f"range of {self.name!r} has its low {low} above its high {high}")
        settle(self, low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A recurrent state of the policy: zeros of `shape` per world after a reset."""

    name: str
    shape: tuple[int, ...]

    def __post_init__(self):
        if not self.shape or not all(isinstance(k, int) and k > 0 for k in self.shape):
            raise InputError(f"memory {self.name!r} needs a shape of whole numbers above 0, got {self.shape!r}")
        settle(self, shape=tuple(self.shape))
