"""Left and right: how a robot that is the same on both sides looks in a mirror (the x-z plane).

Vectors (velocity, force, gravity) keep x and z and turn y round; turning rates keep y and turn x and z round; a joint about y keeps its
sign, one about x or z changes it; left and right change places; a gait clock moves by half a period. A rotor changes places with the
one on the other side, which spins the other way.
"""

import re
from collections.abc import Callable, Mapping

import numpy as np

from surefoot.contract import Contract, Term
from surefoot.errors import InputError
from surefoot.params import label
from surefoot.sim import Sim

PAIRS = (("FL", "FR"), ("RL", "RR"), ("left", "right"))
VECTOR = {"x": 1.0, "y": -1.0, "z": 1.0}
TURN = {"x": -1.0, "y": 1.0, "z": -1.0}
ATTITUDE = {"w": 1.0, **TURN}
SIGNS = {
    "gyro": TURN,
    "gravity": VECTOR,
    "accel": VECTOR,
    "clock": {"sin": -1.0, "cos": -1.0},
    "command": {"vx": 1.0, "vy": -1.0, "yaw_rate": -1.0},
    "ground_up": VECTOR,
    "quat": ATTITUDE,
    "base_pos": VECTOR,
    "base_vel_world": VECTOR,
    "error": VECTOR,
    "drift": VECTOR,
    "true_gyro": TURN,
    "true_attitude": ATTITUDE,
    "true_velocity": {"vx": 1.0, "vy": -1.0, "vz": 1.0, "wx": -1.0, "wy": 1.0, "wz": -1.0},
}
"""Sign of each column of a channel in the mirror; channels not named here keep theirs."""
POINT = {"x": 1.0, "y": -1.0, "z": 1.0, "vx": 1.0, "vy": -1.0, "vz": 1.0}
"""Signs of a command that is a place or a velocity in the world."""
OF_JOINTS = ("last_action", "true_places", "true_speeds", "lean", "rotor_speed")
"""Channels beside joint_... whose columns are joints or rotors, and turn round as these do."""

Maps = tuple[dict[str, tuple[np.ndarray, np.ndarray]], tuple[np.ndarray, np.ndarray]]
"""Index and sign of every observation group by name, and of the action."""


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


def rotor_pairs(sim: Sim) -> dict[str, str]:
    """Each rotor's counterpart: the one at the same place on the other side."""
    at = {a.name: sim.model.site(a.name).pos * [1, -1, 1] for a in sim.robot.actuators if a.model == "rotor"}
    return {
        name: min(at, key=lambda other: float(np.abs(sim.model.site(other).pos - place).sum()))
        for name, place in at.items()
    }


def mirrored(contract: Contract, sim: Sim, *, joints: Mapping[str, float] | None = None) -> Maps:
    """Index and sign that mirror every observation group and the action: mirrored = sign · value[index].

    Args:
        contract: names the columns.
        sim: of the robot that is the same on both sides.
        joints: +1 or -1 by joint where the mirror is not the x-z plane, such as -1 for all of a cartpole's.

    Raises an InputError when a column has no counterpart on the other side.
    """
    signs = joint_signs(sim) if joints is None else dict(joints)
    pairs = rotor_pairs(sim)
    signs |= dict.fromkeys(pairs, 1.0)

    def opposite(name: str) -> str:
        return pairs[name] if name in pairs else other_side(name)

    groups = {}
    for group in contract.groups:
        if group.stack == "step":
            raise InputError(f"group '{group.name}' is stacked by step: mirrors are made of groups stacked by term")
        index, sign, start = [], [], 0
        for term in group.terms:
            one, factors = _term(term, _rule(term, signs, opposite))
            for step in range(term.history):
                index += [start + step * len(one) + i for i in one]
                sign += factors
            start += term.size
        groups[group.name] = (np.array(index), np.array(sign))
    moved = contract.action.joints
    return groups, (np.array([moved.index(opposite(j)) for j in moved]), np.array([signs[j] for j in moved]))


def _term(term: Term, rule: Callable[[str], tuple[str, float]]) -> tuple[list[int], list[float]]:
    """Index and sign of one step of a term; of an angle given as sine and cosine, the sine alone turns round."""
    index, sign = [], []
    for column in term.columns:
        other, factor = rule(column)
        if other not in term.columns:
            raise InputError(f"'{column}' of term '{term.name}' has no counterpart '{other}' on the other side")
        place = term.columns.index(other)
        index += [2 * place, 2 * place + 1] if term.turn else [place]
        sign += [factor, 1.0] if term.turn else [factor]
    return index, sign


def _rule(term: Term, signs: dict[str, float], opposite: Callable[[str], str]) -> Callable[[str], tuple[str, float]]:
    """Counterpart and sign of a column of a term."""
    if term.source.startswith("joint_") or term.source in OF_JOINTS:
        return lambda column: (opposite(column), signs[column])
    if term.source in ("height_scan", "true_scan"):
        return lambda column: (other_point(column), 1.0)
    if term.source == "e":
        return lambda column: _unknown(column, signs)
    rule = POINT if term.source == "command" and term.frame == "world" else SIGNS.get(term.source, {})
    return lambda column: (other_side(column), rule.get(column, 1.0))


def _unknown(name: str, signs: dict[str, float]) -> tuple[str, float]:
    """A scalar of e, as its label says: an axis in its name or bracket, or the joint it belongs to."""
    opposite = other_side(name)
    inside = re.search(r"\[(.+)\]$", name)
    part = inside.group(1) if inside else ""
    by_label = {label(joint): sign for joint, sign in signs.items()}
    if part in by_label:
        return opposite, by_label[part] if "bias" in name or "offset" in name else 1.0
    if not part and ("encoder_bias" in name or "zero_offset" in name) and len(set(signs.values())) == 1:
        return opposite, next(iter(signs.values()))
    axis = part if part in VECTOR else name[-1] if name[-2:] in ("_x", "_y", "_z") else ""
    if axis:
        return opposite, (TURN if "gyro" in name or "moment" in name or "mounting" in name else VECTOR)[axis]
    return opposite, 1.0
