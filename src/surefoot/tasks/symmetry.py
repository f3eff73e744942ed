"""Left and right: how a robot that is the same on both sides looks in a mirror (the x-z plane).

Vectors (velocity, force, gravity) keep x and z and turn y round; turning rates keep y and turn x and z round; a joint about y keeps its
sign, one about x or z changes it; left and right change places; a gait clock moves by half a period.
"""

import re
from collections.abc import Callable

import numpy as np

from surefoot.contract import Contract, Term
from surefoot.errors import InputError
from surefoot.params import label
from surefoot.sim import Sim

PAIRS = (("FL", "FR"), ("RL", "RR"), ("left", "right"))
VECTOR = {"x": 1.0, "y": -1.0, "z": 1.0}
TURN = {"x": -1.0, "y": 1.0, "z": -1.0}
SIGNS = {
    "gyro": TURN,
    "gravity": VECTOR,
    "accel": VECTOR,
    "clock": {"sin": -1.0, "cos": -1.0},
    "command": {"vx": 1.0, "vy": -1.0, "yaw_rate": -1.0},
    "ground_up": VECTOR,
    "true_velocity": {"vx": 1.0, "vy": -1.0, "vz": 1.0, "wx": -1.0, "wy": 1.0, "wz": -1.0},
}
"""Sign of each column of a channel in the mirror; channels not named here keep theirs."""


def other_side(name: str) -> str:
    """'FL_hip_joint' -> 'FR_hip_joint', 'left_foot_right' -> 'right_foot_left'; a name without a side is its own."""
    swap = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
    return re.sub(r"[A-Za-z]+", lambda word: swap.get(word.group(), word.group()), name)


def other_point(name: str) -> str:
    """'+0.15,-0.30' -> '+0.15,+0.30': the point of a height scan on the other side."""
    x, y = name.split(",")
    return f"{x},{0.0 - float(y):+.2f}"


def joint_signs(sim: Sim) -> dict[str, float]:
    """+1 for joints that turn about the body's y axis in the default pose, -1 for those about x or z."""
    out = {}
    for joint in sim.robot.joints:
        axis = np.abs(np.array(sim.model.joint(joint).axis))
        out[joint] = 1.0 if axis[1] == axis.max() else -1.0
    return out


def mirrored(
    contract: Contract, sim: Sim
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], tuple[np.ndarray, np.ndarray]]:
    """Index and sign that mirror every observation group and the action: mirrored = sign · value[index].

    Raises an InputError when a column has no counterpart on the other side.
    """
    signs = joint_signs(sim)
    groups = {}
    for group in contract.groups:
        if any(term.history > 1 for term in group.terms):
            raise InputError(f"group '{group.name}' stacks history: mirrors of histories are not made")
        if any(term.turn for term in group.terms):
            raise InputError(f"group '{group.name}' has sines and cosines of angles: mirrors of those are not made")
        index, sign, start = [], [], 0
        for term in group.terms:
            rule = _rule(term, signs)
            for column in term.columns:
                opposite, factor = rule(column)
                if opposite not in term.columns:
                    raise InputError(
                        f"'{column}' of term '{term.name}' has no counterpart '{opposite}' on the other side"
                    )
                index.append(start + term.columns.index(opposite))
                sign.append(factor)
            start += len(term.columns)
        groups[group.name] = (np.array(index), np.array(sign))
    joints = contract.action.joints
    action = (
        np.array([joints.index(other_side(j)) for j in joints]),
        np.array([signs[j] for j in joints]),
    )
    return groups, action


def _rule(term: Term, signs: dict[str, float]) -> Callable[[str], tuple[str, float]]:
    """Counterpart and sign of a column of a term."""
    if term.source.startswith("joint_") or term.source == "last_action":
        return lambda column: (other_side(column), signs[column])
    if term.source in ("height_scan", "true_scan"):
        return lambda column: (other_point(column), 1.0)
    if term.source == "e":
        return lambda column: _unknown(column, signs)
    rule = SIGNS.get(term.source, {})
    return lambda column: (other_side(column), rule.get(column, 1.0))


def _unknown(name: str, signs: dict[str, float]) -> tuple[str, float]:
    """A scalar of e, as its label says: an axis in its name or bracket, or the joint it belongs to."""
    opposite = other_side(name)
    inside = re.search(r"\[(.+)\]$", name)
    part = inside.group(1) if inside else ""
    by_label = {label(joint): sign for joint, sign in signs.items()}
    if part in by_label:
        return opposite, by_label[part] if "bias" in name or "offset" in name else 1.0
    axis = part if part in VECTOR else name[-1] if name[-2:] in ("_x", "_y", "_z") else ""
    if axis:
        return opposite, (TURN if "gyro" in name or "moment" in name or "mounting" in name else VECTOR)[axis]
    return opposite, 1.0
