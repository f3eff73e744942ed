"""A robot as a URDF file, for tools that read no other: the same links and joints that the PhysX engine is built from.

URDF has no place for a rotor's inertia (armature) nor for which shapes may touch. The armature stands beside each joint in a comment;
give it to your engine by hand, or the robot will not move as here. Joint values are the model's own: q = 0 is q = 0.
"""

from pathlib import Path
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.files import write_text
from surefoot.sim.inertia import rotation
from surefoot.sim.urdf import Joint, Link, Shape, Tree, describe

KINDS = {"hinge": "revolute", "slide": "prismatic"}
NO_LIMIT = 1e6
"""Effort and speed where the model has no limit; URDF asks for numbers."""


def write_urdf(model: mujoco.MjModel, path: str | Path, *, name: str = "", check: bool = True) -> Tree:
    """Write a compiled model as a URDF file and return its description; meshes go beside it as .obj files.

    Args:
        model: such as `Sim(robot).model`.
        path: file to write.
        name: of the robot; the model's own when left out.
        check: refuse unless the description moves in PhysX as the model does in MuJoCo, base held, to 1e-4 rad (extra `physx`).
    """
    path = Path(path)
    if path.suffix != ".urdf":
        raise InputError(f"a URDF file ends in .urdf, got {str(path)!r}")
    tree = describe(model, name)
    if check:
        from surefoot.sim.physx_check import require

        require(tree, model)
    write_text(path, urdf(tree, model))
    for shape in {s.mesh: s for link in tree.links for s in link.shapes if s.kind == "mesh"}.values():
        write_text(path.parent / _mesh_file(shape), _obj(model, shape.mesh))
    return tree


def urdf(tree: Tree, model: mujoco.MjModel) -> str:
    """The text of the URDF file."""
    robot = Xml.Element("robot", name=tree.name)
    for link in tree.links:
        _add_link(robot, link)
    for link in tree.links:
        if link.joint is not None:
            _add_joint(robot, tree, link, link.joint, model)
    Xml.indent(robot)
    return '<?xml version="1.0"?>\n' + Xml.tostring(robot, encoding="unicode") + "\n"


def _add_link(robot: Xml.Element, link: Link) -> None:
    made = Xml.SubElement(robot, "link", name=link.name)
    if link.mass > 0:
        inertial = Xml.SubElement(made, "inertial")
        Xml.SubElement(inertial, "origin", xyz=_words(link.com), rpy="0 0 0")
        Xml.SubElement(inertial, "mass", value=_word(link.mass))
        names = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
        Xml.SubElement(inertial, "inertia", {key: _word(link.inertia[at]) for key, at in names.items()})
    for shape in link.shapes:
        for part in ("visual", "collision"):
            made_part = Xml.SubElement(made, part, name=shape.name)
            _add_shape(made_part, shape)


def _add_shape(part: Xml.Element, shape: Shape) -> None:
    Xml.SubElement(part, "origin", xyz=_words(shape.pos), rpy=_words(roll_pitch_yaw(rotation(shape.quat))))
    geometry = Xml.SubElement(part, "geometry")
    a, b, c = shape.size
    if shape.kind == "sphere":
        Xml.SubElement(geometry, "sphere", radius=_word(a))
    elif shape.kind == "box":
        Xml.SubElement(geometry, "box", size=_words(2 * np.array([a, b, c])))
    elif shape.kind in ("capsule", "cylinder"):
        Xml.SubElement(geometry, shape.kind, radius=_word(a), length=_word(2 * b))
    elif shape.kind == "mesh":
        Xml.SubElement(geometry, "mesh", filename=_mesh_file(shape))
    else:
        raise InputError(
            f"geom '{shape.name}' is a {shape.kind} on a moving link, which URDF has not: draw it as a box"
        )


def _add_joint(robot: Xml.Element, tree: Tree, link: Link, joint: Joint, model: mujoco.MjModel) -> None:
    kind = "continuous" if joint.kind == "hinge" and joint.limits is None else KINDS[joint.kind]
    made = Xml.SubElement(robot, "joint", name=joint.name, type=kind)
    made.append(Xml.Comment(f" armature {_word(model.dof_armature[joint.dof])} "))
    Xml.SubElement(made, "parent", link=tree.links[link.parent].name)
    Xml.SubElement(made, "child", link=link.name)
    Xml.SubElement(made, "origin", xyz=_words(joint.pos), rpy=_words(roll_pitch_yaw(rotation(joint.quat))))
    Xml.SubElement(made, "axis", xyz=_words(joint.axis))
    damping, friction = np.ravel(model.dof_damping[joint.dof])[0], model.dof_frictionloss[joint.dof]
    Xml.SubElement(made, "dynamics", damping=_word(damping), friction=_word(friction))
    limit = {"effort": _word(_effort(model, joint)), "velocity": _word(NO_LIMIT)}
    if kind != "continuous":
        low, high = joint.limits if joint.limits is not None else (-NO_LIMIT, NO_LIMIT)
        limit |= {"lower": _word(low), "upper": _word(high)}
    Xml.SubElement(made, "limit", limit)


def _effort(model: mujoco.MjModel, joint: Joint) -> float:
    """Most torque [N·m] or force [N] that the joint's motors give together."""
    most = 0.0
    for i in range(model.nu):
        own = int(model.actuator_trntype[i]) == int(mujoco.mjtTrn.mjTRN_JOINT)
        if own and int(model.jnt_dofadr[model.actuator_trnid[i, 0]]) == joint.dof:
            most += (
                abs(model.actuator_gear[i, 0]) * model.actuator_forcerange[i, 1]
                if model.actuator_forcelimited[i]
                else NO_LIMIT
            )
    return most or NO_LIMIT


def roll_pitch_yaw(R: np.ndarray) -> np.ndarray:
    """Fixed-axis angles (3,) [rad] of a rotation matrix (3, 3), as URDF has them: R = Rz(yaw) Ry(pitch) Rx(roll)."""
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    if np.hypot(R[0, 0], R[1, 0]) < 1e-9:  # straight up or down: only the sum of roll and yaw counts
        return np.array([np.arctan2(-R[1, 2], R[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])


def _mesh_file(shape: Shape) -> str:
    return f"mesh{shape.mesh}.obj"


def _obj(model: mujoco.MjModel, mesh: int) -> str:
    at, n = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    first, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    rows = [f"v {_words(v)}" for v in model.mesh_vert[at : at + n]]
    rows += ["f " + " ".join(str(int(i) + 1) for i in face) for face in model.mesh_face[first : first + faces]]
    return "\n".join(rows) + "\n"


def _word(value: float) -> str:
    return repr(float(value))


def _words(values: np.ndarray) -> str:
    return " ".join(_word(v) for v in values)
