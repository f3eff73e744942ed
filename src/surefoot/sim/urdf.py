"""A compiled model as links and joints, for engines and tools that do not read MuJoCo's format.

    x_child = T(pos, quat) R(axis, q) x_parent⁻¹ ...      one joint a link; the link's origin lies on its joint

`describe` takes a compiled MjModel apart: bodies that are welded to one another become one link, a body with several joints
becomes a chain whose inner links weigh nothing. q is the model's own joint coordinate, also where its zero is not the pose
that the file was drawn in. One description serves `write_urdf` and the PhysX engine alike; what neither could hold is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.sim.inertia import rotation

WORLD = "world"
HINGE, SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
FREE = int(mujoco.mjtJoint.mjJNT_FREE)
SHAPES = {
    int(mujoco.mjtGeom.mjGEOM_PLANE): "plane",
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
    int(mujoco.mjtGeom.mjGEOM_MESH): "mesh",
}
INERTIAL = ("body_mass", "body_ipos", "body_inertia", "body_iquat", "body_pos", "body_quat")
"""Fields of a model that decide the inertia of its links."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What can touch: a geom, in the frame of its link. `size` as the model has it [m]."""

    geom: int
    name: str
    kind: str
    size: tuple[float, float, float]
    pos: np.ndarray
    quat: np.ndarray
    groups: tuple[int, int]
    """contype and conaffinity: two shapes touch when the one's type meets the other's affinity."""
    mesh: int = -1
    """Number of the model's mesh, -1 for other shapes."""


@dataclass(frozen=True, kw_only=True)
class Joint:
    """The joint that carries a link; q = 0 puts the link's frame at (pos, quat) in its parent's."""

    name: str
    kind: str  # hinge | slide | weld
    pos: np.ndarray
    quat: np.ndarray
    axis: np.ndarray
    """Unit vector in the link's frame."""
    limits: tuple[float, float] | None
    dof: int
    """Column of qvel; -1 for a weld."""
    at: int
    """Column of qpos; -1 for a weld."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """One rigid part: the bodies welded together in it, its inertia, its shapes."""

    name: str
    parent: int
    """Number of the link that carries it, -1 for the root."""
    joint: Joint | None
    bodies: tuple[int, ...]
    """The first carries the others; () for the inner links of a chain."""
    origin: np.ndarray
    """Place of the link's origin in the frame of its first body [m]."""
    mass: float
    com: np.ndarray
    inertia: np.ndarray
    """(3, 3) [kg·m²] about the centre of mass, in the link's axes."""
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A robot as links, parents first. The root moves freely, or it is the world and never moves."""

    name: str
    links: tuple[Link, ...]
    free: bool
    pos: np.ndarray
    quat: np.ndarray
    """Place of the root when the model is compiled."""
    ground: tuple[Shape, ...]
    """Shapes that never move, in the world's frame."""

    @property
    def joints(self) -> list[Joint]:
        """Joints that move, in the order of their links."""
        return [link.joint for link in self.links if link.joint is not None and link.joint.kind != "weld"]

    def link_of(self, body: int) -> int:
        """Number of the link that holds a body of the model."""
        return next(i for i, link in enumerate(self.links) if body in link.bodies)


# -------------------------------------------------------------------- from a model


def describe(model: mujoco.MjModel, name: str = "") -> Tree:
    """The links and joints of a compiled model; refuses what a tree of hinges and slides cannot hold."""
    _refuse(model)
    first = [i for i in range(1, model.nbody) if model.body_parentid[i] == 0 and model.body_weldid[i] != 0]
    free = len(first) == 1 and model.body_jntnum[first[0]] == 1 and model.jnt_type[model.body_jntadr[first[0]]] == FREE
    root = first[0] if free else 0
    links: list[Link] = []
    number: dict[int, int] = {}
    for body in range(model.nbody):
        if model.body_weldid[body] != body or (free and body == 0):
            continue
        number[body] = _add_links(model, links, number, body, root)
    still = [g for g in range(model.ngeom) if model.body_weldid[model.geom_bodyid[g]] == 0]
    ground = tuple(
        _shape(model, g, *_pose_in(model, int(model.geom_bodyid[g]), 0)) for g in still if _touches(model, g)
    )
    return Tree(
        name=name or model.names[: model.names.index(b"\0")].decode(errors="replace") or "robot",
        links=tuple(links),
        free=bool(free),
        pos=np.array(model.body_pos[root]),
        quat=np.array(model.body_quat[root]),
        ground=ground,
    )


def _refuse(model: mujoco.MjModel) -> None:
    for count, what in (
        (model.neq, "an equality constraint"), (model.ntendon, "a tendon"), (model.nflex, "a flexible body"),
    ):  # fmt: skip
        if count:
            raise InputError(
                f"the model has {what}, which a tree of links and joints cannot hold: leave it out (a robot that hangs: robot.suspended())"
            )
    kinds = [int(k) for k in model.jnt_type]
    for i, kind in enumerate(kinds):
        body = int(model.jnt_bodyid[i])
        if kind == FREE and (model.body_parentid[body] != 0 or _trees(model) > 1):
            raise InputError(
                f"joint '{model.joint(i).name}' is free, and more than one body hangs on the world: name one robot"
            )
        if kind not in (FREE, HINGE, SLIDE):
            raise InputError(
                f"joint '{model.joint(i).name}' is a ball: only hinges, slides and one free base can be exported"
            )
        if kind == FREE and model.body_jntnum[body] > 1:
            raise InputError(f"body '{model.body(body).name}' has a joint beside its free one: give it to another body")


def _trees(model: mujoco.MjModel) -> int:
    moving = (model.body_parentid == 0) & (model.body_weldid != 0)
    return int(moving[1:].sum())


def _add_links(model: mujoco.MjModel, links: list[Link], number: dict[int, int], body: int, root: int) -> int:
    """Add the links of one body, a chain where it has several joints; returns the number of the last."""
    welded = tuple(b for b in range(body, model.nbody) if model.body_weldid[b] == body)
    label = model.body(body).name or f"body{body}"
    if body == root:
        at = np.zeros(3)
        return _append(model, links, label if body else WORLD, -1, None, welded if body else (), at)
    carrier = int(model.body_weldid[model.body_parentid[body]])
    parent = number[carrier]
    pos, quat = _pose_in(model, body, carrier)
    pos = pos - links[parent].origin
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    at = np.zeros(3)
    for k in range(first, first + count):
        joint, anchor = _joint(model, k, pos, quat, at)
        last = k == first + count - 1
        own = label if last else f"{label}_{joint.name}"
        parent = _append(model, links, own, parent, joint, welded if last else (), anchor)
        at, pos, quat = anchor, np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
    return parent


def _joint(
    model: mujoco.MjModel, k: int, pos: np.ndarray, quat: np.ndarray, at: np.ndarray
) -> tuple[Joint, np.ndarray]:
    """Joint k between a frame at (pos, quat) less `at`, and the new link's; also the new link's origin in its body's frame."""
    anchor, axis, at_zero = (
        np.array(model.jnt_pos[k]),
        np.array(model.jnt_axis[k]),
        -float(model.qpos0[model.jnt_qposadr[k]]),
    )
    place = pos + rotation(quat) @ (anchor - at)
    turned = quat
    if model.jnt_type[k] == SLIDE:
        place = place + rotation(quat) @ axis * at_zero
        kind = "slide"
    else:
        turned = multiplied(quat, np.append(np.cos(at_zero / 2), np.sin(at_zero / 2) * axis))
        kind = "hinge"
    limited = bool(model.jnt_limited[k])
    low, high = (float(x) for x in model.jnt_range[k])
    joint = Joint(
        name=model.joint(k).name or f"joint{k}", kind=kind, pos=place, quat=turned, axis=axis,
        limits=(low, high) if limited else None, dof=int(model.jnt_dofadr[k]), at=int(model.jnt_qposadr[k]),
    )  # fmt: skip
    return joint, anchor


def _append(
    model: mujoco.MjModel,
    links: list[Link],
    name: str,
    parent: int,
    joint: Joint | None,
    bodies: tuple[int, ...],
    origin: np.ndarray,
) -> int:
    mass, com, inertia = lumped(bodies, origin, {field: getattr(model, field) for field in INERTIAL}, model)
    shapes = []
    for body in bodies:
        pos, quat = _pose_in(model, body, bodies[0])
        for g in range(int(model.body_geomadr[body]), int(model.body_geomadr[body]) + int(model.body_geomnum[body])):
            if _touches(model, g):
                shapes.append(_shape(model, g, pos - origin, quat))
    links.append(
        Link(
            name=name, parent=parent, joint=joint, bodies=bodies, origin=origin, mass=mass, com=com, inertia=inertia,
            shapes=tuple(shapes),
        )
    )  # fmt: skip
    return len(links) - 1


def _touches(model: mujoco.MjModel, geom: int) -> bool:
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom])


def _shape(model: mujoco.MjModel, geom: int, pos: np.ndarray, quat: np.ndarray) -> Shape:
    """A geom on a body that sits at (pos, quat) in its link's frame."""
    name, kind = model.geom(geom).name or f"geom{geom}", int(model.geom_type[geom])
    if kind not in SHAPES:
        known = ", ".join(SHAPES.values())
        raise InputError(
            f"geom '{name}' has a shape that cannot be exported (known: {known}): draw it with one of those"
        )
    return Shape(
        geom=geom, name=name, kind=SHAPES[kind], size=tuple(float(x) for x in model.geom_size[geom]),  # type: ignore[arg-type]
        pos=pos + rotation(quat) @ model.geom_pos[geom], quat=multiplied(quat, model.geom_quat[geom]),
        groups=(int(model.geom_contype[geom]), int(model.geom_conaffinity[geom])),
        mesh=int(model.geom_dataid[geom]) if SHAPES[kind] == "mesh" else -1,
    )  # fmt: skip


def _pose_in(
    model: mujoco.MjModel, body: int, carrier: int, values: Mapping[str, np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Place and attitude of a body in the frame of another that carries it, every joint between them at its drawn pose."""
    places = model.body_pos if values is None else values["body_pos"]
    turns = model.body_quat if values is None else values["body_quat"]
    pos, quat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
    while body != carrier:
        pos = places[body] + rotation(np.asarray(turns[body])) @ pos
        quat = multiplied(turns[body], quat)
        body = int(model.body_parentid[body])
    return pos, quat


# -------------------------------------------------------------------- inertia


def lumped(
    bodies: tuple[int, ...], origin: np.ndarray, values: Mapping[str, np.ndarray], model: mujoco.MjModel
) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass (3,) and inertia (3, 3) about it of bodies welded together, in their link's frame.

    Args:
        bodies: the first carries the others.
        origin: place of the link's origin in the first body's frame.
        values: the fields INERTIAL of one world.
        model: for the tree of bodies.
    """
    masses = np.array([float(values["body_mass"][b]) for b in bodies])
    total = float(masses.sum())
    if total <= 0:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    frames = [_pose_in(model, b, bodies[0], values) for b in bodies]
    places = [p + rotation(q) @ values["body_ipos"][b] for b, (p, q) in zip(bodies, frames, strict=True)]
    com = np.einsum("k,ki->i", masses, np.array(places)) / total
    inertia = np.zeros((3, 3))
    for b, (_, q), place, m in zip(bodies, frames, places, masses, strict=True):
        R = rotation(multiplied(q, values["body_iquat"][b]))
        d = place - com
        inertia += (R * values["body_inertia"][b]) @ R.T + m * (d @ d * np.eye(3) - np.outer(d, d))
    return total, com - origin, inertia


def multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of two quaternions (4,)."""
    out = np.zeros(4)
    mujoco.mju_mulQuat(out, np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    return out
