"""Policies of unitree_rl_lab: exported/policy.onnx and params/deploy.yaml.

deploy.yaml keeps two orders of the joints: stiffness and damping are in the order of the motors (the SDK's); default_joint_pos,
scale, offset and the observations in the policy's; joint_ids_map[i] is the motor of the policy's joint i. It does not name the
joints: their names in the motors' order are an argument. Targets are clip(offset + scale · a), observations scale · clip(f)
(clip(scale · f) with scale_first).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import Action, Contract, Group, Range
from surefoot.deploy.bundle import Bundle
from surefoot.deploy.foreign_mjlab import foreign_names
from surefoot.deploy.foreign_plain import Names, adopt, shapes
from surefoot.deploy.foreign_terms import (
    Body,
    check_action,
    known_as,
    only_group,
    said,
    sources,
    target_limits,
    term_of,
)
from surefoot.deploy.onnx_policy import read_onnx
from surefoot.deploy.plain_yaml import read_yaml, write_yaml
from surefoot.errors import InputError, did_you_mean
from surefoot.files import replacing, write_text

FORM = "a Unitree deploy.yaml"
SWITCHES = ("use_gym_history", "scale_first")
RANGES = {"vx": ("lin_vel_x", "m/s"), "vy": ("lin_vel_y", "m/s"), "yaw_rate": ("ang_vel_z", "rad/s")}
TERM_KEYS = ("params", "clip", "scale", "history_length")


def import_unitree(
    file: str | Path,
    folder: str | Path,
    *,
    robot: str,
    joints: Sequence[str],
    policy: str | Path | None = None,
    same: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> Bundle:
    """A bundle of a policy and its deploy.yaml.

    Args:
        file: deploy.yaml.
        folder: bundle to write.
        robot: name of the robot.
        joints: names of the joints in the order of the motors, as `stiffness` has them; the file does not say them.
        policy: the ONNX file; ../exported/policy.onnx beside the file's folder when left out.
        same: meaning of terms with names of their own, such as {"my_gyro": "base_ang_vel"}.
        overwrite: replace the bundle that is there.
    """
    path = Path(file)
    where = path.name
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {str(file)!r}: {error}") from None
    data = read_yaml(text, where)
    onnx = path.parent.parent / "exported" / "policy.onnx" if policy is None else Path(policy)
    motors = _motors(data, tuple(joints), where)
    order = tuple(joints[i] for i in motors)
    own = tuple(joints[i] for i in sorted(motors))
    pose = dict(zip(order, _list(data, "default_joint_pos", len(order), where), strict=True))
    kp = dict(zip(joints, _list(data, "stiffness", len(joints), where), strict=True))
    kd = dict(zip(joints, _list(data, "damping", len(joints), where), strict=True))
    action = _action(data, order, where)
    body = Body(joints=order, pose=tuple(pose[j] for j in order), actions=action.joints)
    group, period = _observations(data, body, same or {}, where)
    width = next(iter(shapes(read_onnx(onnx), onnx.name)[0].values()))[-1]
    if group.size != width:
        sizes = ", ".join(f"{t.name} {t.size}" for t in group.terms)
        raise InputError(
            f"{onnx.name} reads {width} numbers, {where} describes {group.size} ({sizes}): they are not of one policy"
        )
    contract = Contract(
        robot=robot, joints=own, control_dt=_get(data, "step_dt", where), groups=(group,), action=action,
        sensor_channels=sources((group,)), pose=tuple(pose[j] for j in own), kp=tuple(kp[j] for j in own),
        kd=tuple(kd[j] for j in own), commands=_commands(data, group, where), clock_period=period,
    )  # fmt: skip
    inputs, outputs = shapes(read_onnx(onnx), onnx.name)
    names = Names(inputs={"policy": _one(inputs, "input", onnx.name)}, action=_one(outputs, "output", onnx.name))
    unsaid = [
        f"motor {name!r} has gains in {where} and no place in the policy: it was left out"
        for name in joints
        if name not in own
    ]
    if period is not None:
        unsaid.append(
            "whether the gait clock starts at phase 0 or one step later: Unitree's runtime starts one step later, its training at 0"
        )
    about = {"deploy_yaml": text}
    return adopt(onnx, contract, folder, names, source="unitree", unknown_too=unsaid, overwrite=overwrite, about=about)


def _get(data: Any, key: str, where: str) -> Any:
    if not isinstance(data, dict) or key not in data:
        known = list(data) if isinstance(data, dict) else []
        raise InputError(
            f"{where} has no {key!r} {did_you_mean(key, known)}, so it is not a deploy.yaml of unitree_rl_lab"
        )
    return data[key]


def _list(data: Any, key: str, size: int, where: str) -> list[float]:
    values = _get(data, key, where)
    right = isinstance(values, list) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not right or len(values) != size:
        count = len(values) if isinstance(values, list) else values
        raise InputError(
            f"{key} of {where} must be {size} numbers, it has {count!r}: joints and gains cannot be matched"
        )
    return [float(v) for v in values]


def _motors(data: Any, joints: tuple[str, ...], where: str) -> list[int]:
    """Motor of each joint of the policy, as positions in `joints`."""
    motors = _get(data, "joint_ids_map", where)
    if (
        not isinstance(motors, list)
        or not motors
        or not all(isinstance(i, int) for i in motors)
        or len(set(motors)) != len(motors)
    ):
        raise InputError(f"joint_ids_map of {where} must be distinct whole numbers, got {motors!r}")
    if min(motors) < 0 or max(motors) >= len(joints):
        raise InputError(
            f"joint_ids_map of {where} points at motor {max(motors)}, {len(joints)} names were given: name every motor, from 0"
        )
    return motors


def _action(data: Any, order: tuple[str, ...], where: str) -> Action:
    actions = _get(data, "actions", where)
    if not isinstance(actions, dict) or list(actions) != ["JointPositionAction"]:
        kinds = ", ".join(actions) if isinstance(actions, dict) else actions
        raise InputError(
            f"actions of {where} must be one JointPositionAction, it has {kinds!r}: import the policy as plain"
        )
    about = actions["JointPositionAction"]
    if not isinstance(about, dict):
        raise InputError(f"JointPositionAction of {where} must be a mapping of scale, offset and clip, got {about!r}")
    ids = about.get("joint_ids")
    if ids is not None and not (isinstance(ids, list) and all(isinstance(i, int) and 0 <= i < len(order) for i in ids)):
        raise InputError(f"joint_ids of the action of {where} must be positions below {len(order)}, got {ids!r}")
    joints = order if ids is None else tuple(order[i] for i in ids)
    clip, limits = about.get("clip"), None
    if clip is not None:
        try:
            ends = np.asarray(clip, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"clip of the action of {where} must be {len(joints)} pairs (low, high), got {clip!r}"
            ) from None
        if ends.shape != (len(joints), 2):
            raise InputError(
                f"clip of the action of {where} must be {len(joints)} pairs (low, high), got shape {ends.shape}"
            )
        limits = (tuple(ends[:, 0].tolist()), tuple(ends[:, 1].tolist()))
    scale, offset = (tuple(_list(about, key, len(joints), f"the action in {where}")) for key in ("scale", "offset"))
    return Action(joints=joints, scale=scale, offset=offset, limits=limits)


def _observations(data: Any, body: Body, same: Mapping[str, str], where: str) -> tuple[Group, float | None]:
    """The group, and the period of the gait clock where there is one."""
    about = _get(data, "observations", where)
    if not isinstance(about, dict) or not about:
        raise InputError(f"observations of {where} must be a mapping of terms, got {about!r}")
    switches = {key: bool(about.get(key, False)) for key in SWITCHES}
    terms, period = [], None
    for name, term in about.items():
        if name in SWITCHES:
            continue
        if not isinstance(term, dict) or not set(term) <= set(TERM_KEYS):
            inside = ", ".join(term) if isinstance(term, dict) else repr(term)
            raise InputError(
                f"observation {name!r} of {where} holds {inside}: several inputs or other keys than {', '.join(TERM_KEYS)}"
            )
        params = term.get("params") or {}
        if not isinstance(params, dict) or not isinstance(params.get("asset_cfg") or {}, dict):
            raise InputError(f"params of {name!r} in {where}, and asset_cfg in them, must be mappings, got {params!r}")
        meaning = known_as(name, same, where)
        if meaning == "gait_phase":
            period = params.get("period")
            if period is None:
                raise InputError(f"observation {name!r} of {where} lacks params.period [s]")
        ids = (params.get("asset_cfg") or {}).get("joint_ids")
        if ids is not None and not isinstance(ids, list):
            raise InputError(f"joint_ids of {name!r} in {where} must be a list of positions, got {ids!r}")
        history = term.get("history_length", 1)
        if not isinstance(history, int):
            raise InputError(f"history_length of {name!r} in {where} must be a whole number, got {history!r}")
        terms.append(
            term_of(
                meaning,
                body,
                name=name,
                scale=term.get("scale"),
                clip=term.get("clip"),
                history=max(1, history),
                joints=ids,
                scale_first=switches["scale_first"],
            )
        )
    stack = "step" if switches["use_gym_history"] else "term"
    return Group(name="policy", terms=tuple(terms), stack=stack), period


def _commands(data: Any, group: Group, where: str) -> tuple[Range, ...]:
    if not any(term.source == "command" for term in group.terms):
        return ()
    try:
        ranges = data["commands"]["base_velocity"]["ranges"]
        pairs = {name: ranges[key] for name, (key, _) in RANGES.items()}
        return tuple(Range(name=name, low=low, high=high, unit=RANGES[name][1]) for name, (low, high) in pairs.items())
    except (KeyError, TypeError, ValueError):
        keys = ", ".join(key for key, _ in RANGES.values())
        raise InputError(
            f"{where} observes a velocity command and does not say commands.base_velocity.ranges of {keys}"
        ) from None


def _one(found: Mapping[str, Any], what: str, where: str) -> str:
    if len(found) != 1:
        raise InputError(
            f"{where} has the {what}s {', '.join(found)}, a deploy.yaml with one observation vector has one: import it as plain"
        )
    return next(iter(found))


# ---------------------------------------------------------------- export


def export_unitree(bundle: Bundle, folder: str | Path, *, motors: Sequence[str] | None = None) -> Path:
    """Write params/deploy.yaml and exported/policy.onnx into `folder`; what the format cannot say is refused.

    Args:
        bundle: what to write.
        folder: the policy's folder.
        motors: all motors of the robot in the SDK's order; the contract's joints when left out.
    """
    contract = bundle.contract
    group = only_group(contract, FORM)
    check_action(contract, FORM)
    motors = tuple(contract.joints if motors is None else motors)
    strange = [name for name in contract.joints if name not in motors]
    if strange:
        raise InputError(
            f"{strange[0]!r} is a joint of the policy and not among the motors {did_you_mean(strange[0], motors)}"
        )
    if contract.commands and tuple(c.name for c in contract.commands) != tuple(RANGES):
        asked = ", ".join(c.name for c in contract.commands)
        raise InputError(
            f"{FORM} has the commands {', '.join(RANGES)} in this order, this policy has {asked}: it cannot be written so"
        )
    own, action = contract.action.joints, contract.action
    order = (*own, *(j for j in contract.joints if j not in own))
    of = {key: dict(zip(contract.joints, getattr(contract, key), strict=True)) for key in ("pose", "kp", "kd")}
    data: dict[str, Any] = {
        "joint_ids_map": [motors.index(j) for j in order],
        "step_dt": contract.control_dt,
        "stiffness": [of["kp"].get(j, 0.0) for j in motors],
        "damping": [of["kd"].get(j, 0.0) for j in motors],
        "default_joint_pos": [of["pose"][j] for j in order],
        "commands": _ranges(contract),
        "actions": {
            "JointPositionAction": {
                "clip": target_limits(contract),
                "joint_names": [".*"] if own == order else list(own),
                "scale": list(np.atleast_1d(action.scale).tolist()),
                "offset": list(np.atleast_1d(action.offset).tolist()),
                "joint_ids": None if own == order else list(range(len(own))),
            }
        },
        "observations": _terms(group, contract, order),
    }
    folder, text, policy = Path(folder), write_yaml(data), foreign_names(bundle)
    write_text(folder / "params" / "deploy.yaml", text)
    (folder / "exported").mkdir(parents=True, exist_ok=True)
    with replacing(folder / "exported" / "policy.onnx") as temporary:
        temporary.write_bytes(policy)
    return folder


def _ranges(contract: Contract) -> dict[str, Any]:
    if not contract.commands:
        return {}
    ranges: dict[str, Any] = {key: [c.low, c.high] for c in contract.commands for key in (RANGES[c.name][0],)}
    return {"base_velocity": {"ranges": {**ranges, "heading": None}}}


def _terms(group: Group, contract: Contract, order: tuple[str, ...]) -> dict[str, Any]:
    """The observations; Unitree's runtime can pick joints for joint_pos_rel alone, others come all and in the policy's order."""
    found: dict[str, Any] = {"use_gym_history": True} if group.stack == "step" else {}
    for term in group.terms:
        word = said(term, contract, FORM)
        params: dict[str, Any] = {}
        if word.meaning == "velocity_commands":
            params = {"command_name": "base_velocity"}
        elif word.meaning == "gait_phase":
            params = {"period": contract.clock_period}
        elif word.meaning == "joint_pos_rel" and word.joints != order:
            params = {"asset_cfg": {"joint_ids": [order.index(j) for j in word.joints]}}
        elif word.joints and word.joints != order:
            raise InputError(
                f"term {term.name!r} cannot be written as {FORM}: it must read all joints, those of the action first and in its order "
                f"({', '.join(order)})"
            )
        if word.meaning in found:
            raise InputError(
                f"{FORM} has each observation once, this policy has {word.meaning!r} twice: it cannot be written so"
            )
        found[word.meaning] = {"params": params, "clip": word.clip, "scale": word.scale, "history_length": word.history}
    return found
