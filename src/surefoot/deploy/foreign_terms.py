"""The words of Isaac Lab and its relatives (mjlab, Unitree's) for observation terms, and ours.

Theirs is    obs = scale · clip(f(reading))        clip first, one (low, high) for the whole term
ours is      obs = clip((y + offset) · scale)      scale first, one (low, high) per entry

so a clip is multiplied by the scale on the way in and divided on the way out. Histories are oldest first; by default each term
stands with all its steps, with "gym" history each step with all its terms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.contract import Contract, Group, Term
from surefoot.errors import InputError, choose, did_you_mean

MEANINGS = {
    "base_ang_vel": "gyro",
    "projected_gravity": "gravity",
    "base_lin_vel": "base_vel",
    "joint_pos_rel": "joint_pos",
    "joint_vel_rel": "joint_vel",
    "last_action": "last_action",
    "velocity_commands": "command",
    "gait_phase": "clock",
}
"""Names whose meaning is fixed -> our channel. joint_pos_rel is relative to the default pose."""
COMMANDS = ("vx", "vy", "yaw_rate")
FAR = 1e30
"""Stands for infinity on one side of a clip: a contract's limits are finite."""


@dataclass(frozen=True, kw_only=True)
class Body:
    """What the terms refer to: joints in the policy's order, their default pose, the action's joints, the commands."""

    joints: tuple[str, ...]
    pose: tuple[float, ...]
    actions: tuple[str, ...]
    commands: tuple[str, ...] = COMMANDS


def term_of(
    meaning: str,
    body: Body,
    *,
    name: str,
    scale: Any = None,
    clip: Sequence[float] | None = None,
    history: int = 1,
    joints: Sequence[int] | None = None,
    scale_first: bool = False,
) -> Term:
    """Our term for one of theirs.

    Args:
        meaning: a key of MEANINGS.
        body: what it refers to.
        name: how the term is called in the file.
        scale: one number, one per entry, or None for 1.
        clip: (low, high) or None.
        history: steps, 1 for none.
        joints: positions in `body.joints` where a term reads only some of them.
        scale_first: whether the file scales before it clips.
    """
    source = MEANINGS[choose(meaning, MEANINGS, "an observation term whose meaning is known here")]
    picked = body.joints if joints is None else tuple(_joint(body, i, name) for i in joints)
    columns = {
        "joint_pos": picked, "joint_vel": picked, "last_action": body.actions, "command": body.commands, "clock": ("sin", "cos"),
    }.get(source, ("x", "y", "z"))  # fmt: skip
    pose = dict(zip(body.joints, body.pose, strict=True))
    offset = tuple(-pose[j] for j in picked) if source == "joint_pos" else 0.0
    factors = _numbers(1.0 if scale is None else scale, len(columns), f"scale of term {name!r}")
    return Term(
        source=source, name=name, columns=columns, offset=offset, scale=tuple(factors), history=history,
        clip=_clip(clip, np.ones_like(factors) if scale_first else factors, name),
    )  # fmt: skip


def _joint(body: Body, i: Any, name: str) -> str:
    if not isinstance(i, int) or not 0 <= i < len(body.joints):
        raise InputError(f"term {name!r} reads joint number {i!r}, there are {len(body.joints)} joints, from 0")
    return body.joints[i]


def _numbers(value: Any, size: int, what: str) -> np.ndarray:
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be a number or {size} numbers, the file has {value!r}") from None
    if found.ndim == 0:
        return np.full(size, found)
    if found.shape != (size,):
        raise InputError(f"{what} must be one number or {size}, the file has {found.size}: another robot's file?")
    return found


def _clip(clip: Any, factors: np.ndarray, name: str) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if clip is None:
        return None
    if np.ndim(clip) != 1:
        raise InputError(f"clip of term {name!r} must be a pair (low, high), the file has {clip!r}")
    ends = _numbers(clip, 2, f"clip of term {name!r}")
    if np.all(np.isinf(ends)):
        return None
    ends = np.clip(ends, -FAR, FAR)
    both = np.clip(ends[:, None] * factors, -FAR, FAR)
    return tuple(both.min(axis=0).tolist()), tuple(both.max(axis=0).tolist())


@dataclass(frozen=True, kw_only=True)
class Said:
    """One of our terms in their words: clip is before the scale."""

    meaning: str
    scale: list[float]
    clip: list[float] | None
    history: int
    joints: tuple[str, ...]


def said(term: Term, contract: Contract, form: str) -> Said:
    """A term in their words; an InputError says what cannot be said in the format `form`."""
    meanings = {source: meaning for meaning, source in MEANINGS.items()}
    what = f"term {term.name!r} cannot be written as {form}"
    if term.source not in meanings:
        raise InputError(f"{what}: it has no word for {term.source!r} {did_you_mean(term.source, meanings)}")
    if term.turn:
        raise InputError(f"{what}: it has no sine and cosine of a joint angle")
    pose = dict(zip(contract.joints, np.atleast_1d(contract.pose), strict=True))
    wanted = [-pose[j] for j in term.columns] if term.source == "joint_pos" else [0.0] * len(term.columns)
    if not np.allclose(term.offset, wanted, rtol=0, atol=1e-12):
        raise InputError(
            f"{what}: its offset is {term.offset}, the format has only minus the default pose, and for joint_pos alone"
        )
    fixed = {
        "command": tuple(c.name for c in contract.commands),
        "last_action": contract.action.joints,
        "clock": ("sin", "cos"),
    }
    if term.source in fixed and term.columns != fixed[term.source]:
        raise InputError(
            f"{what}: it reads {', '.join(term.columns)}, the format has all of {', '.join(fixed[term.source])} in this order"
        )
    if term.source not in fixed and not term.source.startswith("joint_") and term.columns != ("x", "y", "z"):
        raise InputError(f"{what}: it reads {', '.join(term.columns)}, the format has x, y, z in this order")
    scale = np.array(term.scale)
    clip = None
    if term.clip is not None:
        if np.any(scale == 0):
            raise InputError(f"{what}: its scale is 0 for an entry")
        ends = np.sort(np.array(term.clip) / scale, axis=0)
        if np.ptp(ends, axis=1).max() > 1e-9 * np.abs(ends).max():
            raise InputError(f"{what}: the format clips all entries alike, before they are scaled")
        clip = [float(v) if abs(v) < 0.99 * FAR else float(np.copysign(np.inf, v)) for v in ends[:, 0]]
    joints = term.columns if term.source.startswith("joint_") else ()
    return Said(meaning=meanings[term.source], scale=scale.tolist(), clip=clip, history=term.history, joints=joints)


def only_group(contract: Contract, form: str) -> Group:
    """The one group of a contract that a format with a single observation vector can hold."""
    if len(contract.groups) > 1 or contract.memory:
        extra = next(part.name for part in (*contract.groups[1:], *contract.memory))
        raise InputError(
            f"{form} has one observation vector and no memory, this policy also has {extra!r}: it cannot be written so"
        )
    group = contract.group("policy")
    if group.normaliser is not None and group.normaliser.by == "builder":
        raise InputError(
            f"{form} has no normaliser outside the network, group {group.name!r} has: it cannot be written so"
        )
    if group.order != "oldest-first":
        raise InputError(
            f"{form} has histories oldest first, group {group.name!r} is {group.order}: it cannot be written so"
        )
    return group


def check_action(contract: Contract, form: str) -> None:
    """Refuse an action that their formats cannot say."""
    if contract.action.kind != "joint_pos_target":
        raise InputError(
            f"{form} has joint position targets, this policy gives {contract.action.kind}: it cannot be written so"
        )
    if np.any(np.array(contract.action.lift) != 0):
        raise InputError(
            f"{form} has no rhythm added to the targets, this policy's action has one: train one with rhythm = 0"
        )
    for name in ("kp", "kd"):
        if getattr(contract, name) is None:
            raise InputError(f"{form} needs {name}, the bundle's contract does not say it: complete the contract first")


def target_limits(contract: Contract) -> list[list[float]] | None:
    """(low, high) of each target, out of the action's clip and limits; None where there is neither."""
    action = contract.action
    offset, scale = np.array(action.offset), np.array(action.scale)
    low, high = np.full(len(offset), -np.inf), np.full(len(offset), np.inf)
    if action.clip is not None:
        ends = np.sort(offset + scale * np.array(action.clip), axis=0)
        low, high = ends[0], ends[1]
    if action.limits is not None:
        a, b = np.array(action.limits)
        low, high = np.clip(low, a, b), np.clip(high, a, b)
    return None if np.isinf(low).all() else [[float(a), float(b)] for a, b in zip(low, high, strict=True)]


def sources(groups: Sequence[Group]) -> tuple[str, ...]:
    """Channels of sensors that the groups read."""
    own = ("last_action", "command", "clock")
    return tuple(sorted({t.source for g in groups for t in g.terms if t.source not in own}))


def known_as(name: str, same: Mapping[str, str], where: str) -> str:
    """The meaning of a term called `name`: its own, or what `same` says it is."""
    meaning = same.get(name, name)
    if meaning not in MEANINGS:
        raise InputError(
            f"{where} has an observation {name!r} whose meaning is not known here {did_you_mean(name, MEANINGS)}: say which it is the "
            f"same as (--same {name}=...), one of {', '.join(MEANINGS)}; if none, write contract.json by hand and import it as plain"
        )
    return meaning
