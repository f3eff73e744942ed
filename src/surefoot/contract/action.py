"""From the policy's output to what the motors are told, and back."""

from functools import lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from surefoot.contract.contract import Contract
from surefoot.errors import InputError


def _row(values: Any, like: Any) -> Any:
    """Numbers as an array of the library, type and device of `like`, (k,); not to be written to."""
    return _made(values, array_namespace(like), like.dtype, device(like))


@lru_cache(maxsize=256)
def _made(values: Any, xp: Any, dtype: Any, where: Any) -> Any:
    return xp.asarray(np.asarray(values), dtype=dtype, device=where)


@lru_cache(maxsize=64)
def _index(contract: Contract, xp: Any, where: Any) -> Any:
    """Places of the action's joints among the robot's, (k,)."""
    return xp.asarray([contract.joints.index(joint) for joint in contract.action.joints], device=where)


def _check(contract: Contract, value: Any, names: tuple[str, ...], what: str) -> None:
    if not array_namespace(value).isdtype(value.dtype, "real floating"):
        raise InputError(f"{what} of {contract.robot!r} must be floating point numbers, got {value.dtype}")
    if value.shape[-1] != len(names):
        raise InputError(
            f"{what} of {contract.robot!r} needs {len(names)} values, one per joint ({', '.join(names[:3])}, ...),"
            f" got shape {tuple(value.shape)}"
        )


def action(contract: Contract, a: Any, time: Any = None) -> Any:
    """target = clip(offset + scale · clip(a) + rhythm(time)), put into the robot's own joint order.

    Args:
        contract: says clip, scale, offset, limits and rhythm, per joint of the action.
        a: output of the policy, (..., len(contract.action.joints)), NumPy or torch.
        time: since the reset [s], (...), as the clock in the observation; needed only where the action has a rhythm.

    Returns:
        (..., len(contract.joints)): a joint without an action stays at its default pose where targets are
        positions, and gets 0 otherwise.
    """
    terms = contract.action
    _check(contract, a, terms.joints, "an action")
    xp = array_namespace(a)
    if terms.clip is not None:
        a = xp.minimum(xp.maximum(a, _row(terms.clip[0], a)), _row(terms.clip[1], a))
    target = _row(terms.offset, a) + _row(terms.scale, a) * a
    if np.any(terms.lift):
        if time is None or contract.clock_period is None:
            raise InputError(f"the action of {contract.robot!r} has a rhythm: give the time since the reset [s]")
        angle = 2 * np.pi * ((time / contract.clock_period)[..., None] + _row(terms.phase, a))
        wave = xp.astype(xp.sin(angle), a.dtype)
        target = target + _row(terms.lift, a) * xp.where(wave > 0, wave, xp.zeros_like(wave))
    if terms.limits is not None:
        target = xp.minimum(xp.maximum(target, _row(terms.limits[0], a)), _row(terms.limits[1], a))
    if terms.joints == contract.joints:
        return target
    rest = contract.pose if terms.kind == "joint_pos_target" else (0.0,) * len(contract.joints)
    whole = xp.zeros((*a.shape[:-1], len(contract.joints)), dtype=a.dtype, device=device(a)) + _row(rest, a)
    whole[..., _index(contract, xp, device(a))] = target
    return whole


def invert(contract: Contract, target: Any) -> Any:
    """a = (target − offset) / scale: the action that asks for `target` (..., joints); clips cannot be undone."""
    terms = contract.action
    if np.any(terms.lift):
        raise InputError(
            f"the action of {contract.robot!r} has a rhythm, so its inverse depends on the time: none is made"
        )
    _check(contract, target, contract.joints, "a target")
    if terms.joints != contract.joints:
        target = target[..., [contract.joints.index(joint) for joint in terms.joints]]
    return (target - _row(terms.offset, target)) / _row(terms.scale, target)
