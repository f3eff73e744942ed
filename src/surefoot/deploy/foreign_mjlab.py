"""Policies of mjlab: an ONNX file whose metadata says what the robot must do with it.

The keys, as mjlab 1.x writes them (lists as comma-separated texts):

    joint_names, joint_stiffness, joint_damping, default_joint_pos      in the robot's joint order
    observation_names, observation_terms_{scale, clip, history_length, flatten_history_dim}
    action_scale, and in later versions action_names, action_offset
    command_names, run_path

They do not say the control period, what the terms compute, or the command's range: these are arguments.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.contract import Action, Contract, Group, Range
from surefoot.deploy.bundle import Bundle
from surefoot.deploy.foreign_plain import Names, adopt, shapes
from surefoot.deploy.foreign_terms import Body, check_action, known_as, only_group, said, sources, term_of
from surefoot.deploy.onnx_names import rename
from surefoot.deploy.onnx_policy import read_onnx
from surefoot.errors import InputError
from surefoot.files import replacing

FORM = "an mjlab ONNX file"
ALIASES = {
    "joint_pos": "joint_pos_rel",
    "joint_vel": "joint_vel_rel",
    "actions": "last_action",
    "command": "velocity_commands",
}
"""Names that mjlab's own tasks give their terms -> what these terms compute."""
OURS = {meaning: name for name, meaning in ALIASES.items()}
NEEDED = ("joint_names", "default_joint_pos", "observation_names", "action_scale")
KNOWN_NOT = (
    "what the observation terms compute: mjlab writes their names, joint_pos was read as relative to the default pose, as in its tasks",
    "how the file's actions are ordered: they were read in the order of action_names, or of joint_names where those are missing",
)


def import_mjlab(
    file: str | Path,
    folder: str | Path,
    *,
    robot: str,
    control_dt: float,
    commands: Sequence[Range] = (),
    same: Mapping[str, str] | None = None,
    gains: tuple[Sequence[float], Sequence[float]] | None = None,
    overwrite: bool = False,
) -> Bundle:
    """A bundle of an ONNX file with mjlab's metadata.

    Args:
        file: the ONNX file.
        folder: bundle to write.
        robot: name of the robot.
        control_dt: time between two actions [s]; the file does not say it.
        commands: what may be asked, in the order of the observation; needed where the policy observes a command.
        same: meaning of terms with names of their own, such as {"imu_gyro": "base_ang_vel"}.
        gains: kp and kd per joint, in the order of joint_names, where the file's are not to be used.
        overwrite: replace the bundle that is there.
    """
    where = Path(file).name
    data = read_onnx(file)
    texts = metadata(data, where)
    missing = [key for key in NEEDED if key not in texts]
    if missing:
        raise InputError(
            f"{where} has no metadata {missing[0]!r}, so it is not from mjlab: import it as plain, with a contract.json"
        )
    joints = tuple(parts(texts["joint_names"]))
    inputs, outputs = shapes(data, where)
    names = Names(
        inputs={"policy": _only(inputs, "obs", "input", where)}, action=_only(outputs, "actions", "output", where)
    )
    actions = _actions(texts, joints, outputs[names.action][-1], where)
    pose = _floats(texts, "default_joint_pos", len(joints), where)
    kp, kd = _gains(texts, joints, gains, where)
    body = Body(joints=joints, pose=tuple(pose), actions=actions, commands=tuple(c.name for c in commands))
    group = _group(texts, body, same or {}, inputs[names.inputs["policy"]][-1], where)
    offsets = dict(zip(joints, pose, strict=True))
    default = [offsets[j] for j in actions]
    contract = Contract(
        robot=robot, joints=joints, control_dt=control_dt, groups=(group,), sensor_channels=sources((group,)), pose=tuple(pose),
        action=Action(
            joints=actions,
            scale=tuple(_floats(texts, "action_scale", len(actions), where)),
            offset=tuple(_floats(texts, "action_offset", len(actions), where) if "action_offset" in texts else default),
        ),
        kp=tuple(kp), kd=tuple(kd), commands=tuple(commands),
    )  # fmt: skip
    more = [*KNOWN_NOT, *_rounding(texts, where)]
    about = {"run": {"name": texts.get("run_path", "")}, "metadata": dict(texts)}
    return adopt(file, contract, folder, names, source="mjlab", unknown_too=more, overwrite=overwrite, about=about)


def _group(texts: Mapping[str, str], body: Body, same: Mapping[str, str], width: Any, where: str) -> Group:
    called = parts(texts["observation_names"])
    count = len(called)
    scales = _each(texts, "observation_terms_scale", count, 1.0, where)
    clips = _each(texts, "observation_terms_clip", count, None, where)
    past = _each(texts, "observation_terms_history_length", count, 0.0, where)
    flat = _each(texts, "observation_terms_flatten_history_dim", count, 1.0, where)
    terms = []
    for name, scale, clip, steps, flattened in zip(called, scales, clips, past, flat, strict=True):
        meaning = known_as(name, {**ALIASES, **same}, where)
        if meaning == "velocity_commands" and not body.commands:
            raise InputError(
                f"{where} observes a command ({name!r}) and does not say its range: give commands, such as vx=-1:1:m/s"
            )
        if not isinstance(steps, float) or not steps.is_integer():
            raise InputError(f"{where}: the history of {name!r} must be a whole number of steps, it says {steps!r}")
        if steps > 1 and not flattened:
            raise InputError(
                f"{where}: the history of {name!r} is not flattened, such an observation cannot be built here"
            )
        terms.append(term_of(meaning, body, name=name, scale=scale, clip=clip, history=max(1, int(steps))))
    group = Group(name="policy", terms=tuple(terms))
    if group.size != width:
        sizes = ", ".join(f"{t.name} {t.size}" for t in group.terms)
        raise InputError(
            f"{where} reads {width} numbers, its observation_names add up to {group.size} ({sizes}): a term means something else here"
        )
    return group


def _actions(texts: Mapping[str, str], joints: tuple[str, ...], width: Any, where: str) -> tuple[str, ...]:
    actions = tuple(parts(texts["action_names"])) if "action_names" in texts else joints
    if len(actions) != width:
        raise InputError(
            f"{where} gives {width} actions, its metadata names {len(actions)} joints for them: import it as plain, with a contract.json"
        )
    for name in actions:
        if name not in joints:
            raise InputError(f"{where} acts on {name!r}, which is not among its joint_names")
    return actions


def _gains(
    texts: Mapping[str, str], joints: tuple[str, ...], given: Any, where: str
) -> tuple[list[float], list[float]]:
    if given is not None:
        for values, word in zip(given, ("kp", "kd"), strict=True):
            if len(values) != len(joints):
                raise InputError(
                    f"{word} needs {len(joints)} numbers, in the order of joint_names, given {len(values)}"
                )
        return [float(v) for v in given[0]], [float(v) for v in given[1]]
    if "joint_stiffness" not in texts or "joint_damping" not in texts:
        raise InputError(f"{where} does not say joint_stiffness and joint_damping: give kp and kd")
    kp, kd = (_floats(texts, key, len(joints), where) for key in ("joint_stiffness", "joint_damping"))
    if set(kp) == {1.0} and set(kd) == {0.0}:
        raise InputError(
            f"{where} says kp = 1 and kd = 0 for every joint, which mjlab writes for motors whose PD law is outside MuJoCo, "
            "whatever their gains: give kp and kd"
        )
    return kp, kd


def _rounding(texts: Mapping[str, str], where: str) -> list[str]:
    numbers = [x for key in ("joint_stiffness", "default_joint_pos", "action_scale") for x in parts(texts.get(key, ""))]
    if numbers and all(re.fullmatch(r"-?\d+\.\d{3}", x) for x in numbers):
        return [f"gains, pose and scales of {where} beyond their third decimal: mjlab rounds them"]
    return []


# ---------------------------------------------------------------- metadata


def metadata(data: bytes, where: str) -> dict[str, str]:
    """The texts stored in an ONNX file."""
    from surefoot.deploy.onnx_policy import session

    return dict(session(data, where).get_modelmeta().custom_metadata_map)


def parts(text: str) -> list[str]:
    """The entries of a comma-separated text; commas within brackets do not separate."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text)] if text.strip() else []


def _number(text: str, what: str) -> float:
    try:
        return float({"True": "1", "False": "0"}.get(text, text))
    except ValueError:
        raise InputError(f"{what} must be numbers, it holds {text!r}") from None


def _floats(texts: Mapping[str, str], key: str, size: int, where: str) -> list[float]:
    found = [_number(x, f"{key} of {where}") for x in parts(texts[key])]
    found = found * size if len(found) == 1 else found
    if len(found) != size or not all(map(math.isfinite, found)):
        raise InputError(
            f"{key} of {where} must be {size} finite numbers, it holds {len(found)}: another robot's file?"
        )
    return found


def _each(texts: Mapping[str, str], key: str, count: int, default: Any, where: str) -> list[Any]:
    """One value per observation term: a number, or a list written as "[a, b]" or "a;b"."""
    if key not in texts:
        return [default] * count
    found = []
    for entry in parts(texts[key]):
        inner = re.split(r"[;,]", entry.strip("[]")) if re.search(r"[;\[]", entry) else None
        what = f"{key} of {where}"
        found.append(_number(entry, what) if inner is None else [_number(x.strip(), what) for x in inner])
    if len(found) != count:
        raise InputError(f"{key} of {where} has {len(found)} entries, observation_names has {count}")
    return found


def _only(found: Mapping[str, Any], usual: str, what: str, where: str) -> str:
    if usual in found:
        return usual
    if len(found) != 1:
        raise InputError(
            f"{where} has the {what}s {', '.join(found)}, one of them should be {usual!r}: import it as plain"
        )
    return next(iter(found))


# ---------------------------------------------------------------- export


def export_mjlab(bundle: Bundle, file: str | Path) -> Path:
    """Write a bundle's policy as an ONNX file with mjlab's metadata, every number in full; what cannot be said so is refused."""
    import onnx
    from onnx import helper

    contract = bundle.contract
    group = only_group(contract, FORM)
    check_action(contract, FORM)
    if group.stack != "term":
        raise InputError(
            f"{FORM} has histories term by term, group {group.name!r} is stacked by step: it cannot be written so"
        )
    if contract.action.clip is not None or contract.action.limits is not None:
        raise InputError(
            f"{FORM} has no clip of the action, this policy has one: leave it out of the contract if it never acts"
        )
    words = []
    for term in group.terms:
        word = said(term, contract, FORM)
        if word.joints and word.joints != contract.joints:
            raise InputError(
                f"term {term.name!r} cannot be written as {FORM}: it has all joints, in the order of joint_names"
            )
        if word.meaning == "gait_phase":
            raise InputError(f"term {term.name!r} cannot be written as {FORM}: its metadata has no period of a clock")
        words.append(word)
    texts = {
        "run_path": str(bundle.provenance.get("run", {}).get("name", "")),
        "joint_names": ",".join(contract.joints),
        "joint_stiffness": _csv(contract.kp),
        "joint_damping": _csv(contract.kd),
        "default_joint_pos": _csv(contract.pose),
        "command_names": "twist" if contract.commands else "",
        "observation_names": ",".join(_called(w.meaning) for w in words),
        "observation_terms_scale": ",".join(_inner(w.scale) for w in words),
        "observation_terms_clip": ",".join(_inner(w.clip or [-math.inf, math.inf], always=True) for w in words),
        "observation_terms_history_length": ",".join(str(w.history if w.history > 1 else 0) for w in words),
        "observation_terms_flatten_history_dim": ",".join("1" for _ in words),
        "action_names": ",".join(contract.action.joints),
        "action_scale": _csv(contract.action.scale),
        "action_offset": _csv(contract.action.offset),
    }
    model = onnx.load_model_from_string(foreign_names(bundle))
    helper.set_model_props(model, texts)
    with replacing(file) as temporary:
        temporary.write_bytes(model.SerializeToString(deterministic=True))
    return Path(file)


def foreign_names(bundle: Bundle) -> bytes:
    """The policy file with its input called "obs" and its output "actions"."""
    import onnx

    model = onnx.load_model_from_string(bundle.data)
    rename(model.graph, {model.graph.input[0].name: "obs", model.graph.output[0].name: "actions"})
    del model.metadata_props[:]
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def _called(meaning: str) -> str:
    return str(OURS.get(meaning, meaning))


def _csv(values: Any) -> str:
    return ",".join(repr(float(v)) for v in values)


def _inner(values: Sequence[float], always: bool = False) -> str:
    if len(set(values)) == 1 and not always:
        return repr(float(values[0]))
    return ";".join(repr(float(v)) for v in values)
