"""One world in PhysX: an articulation over still ground, built from the description that also makes the URDF.

A scene knows links, joints and shapes; it is told torques and forces, and moves on by one small step. It has the solver's own
dry friction at every joint: a drive towards speed 0 that can give no more than the friction's torque.
"""

import warnings
from collections.abc import Collection
from functools import cache
from typing import Any

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.sim.inertia import quaternion, rotation
from surefoot.sim.urdf import Joint, Shape, Tree, multiplied

POSITION_ITERATIONS, VELOCITY_ITERATIONS = 16, 1
NEAR = 0.01
"""Distance at which PhysX begins to think of a contact [m]."""
CREEP = 1e-5
"""Speed at which dry friction gives all of its torque [rad/s], [m/s]: a held joint creeps by less than 0.01 mrad a second."""
FAST = 1e5
"""Speeds that PhysX must not cut [m/s], [rad/s]."""
LIGHT = 1e-4, 1e-7
"""Mass [kg] and inertia [kg·m²] of a link without any, which PhysX cannot have; relative to a robot of 1 kg."""
UP_TO_X = np.array([np.sqrt(0.5), 0.0, -np.sqrt(0.5), 0.0])
"""Turns PhysX's x axis, along which its planes, capsules and cylinders point, to the z axis of a shape."""


@cache
def library() -> Any:
    """The sapien module, without the warnings of its renderer, which is never used here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import sapien
            import sapien.physx
    except ImportError as error:
        raise InputError(f"engine 'physx' needs the extra 'physx' ({error}): pip install 'surefoot[physx]'") from None
    return sapien


class Scene:
    """A tree of links in a PhysX scene of its own. Columns of joints follow `dofs`, in PhysX's own order."""

    def __init__(self, tree: Tree, model: mujoco.MjModel, *, step: float, bare: bool = False):
        """Build the scene.

        Args:
            tree: what to build.
            model: the model it came from, for gravity and meshes.
            step: time of one step [s].
            bare: hold the base where it is, let nothing touch and joints turn without limits, to look at the links alone.
        """
        self.tree, self.model, self.step_time = tree, model, step
        sapien = library()
        px = sapien.physx
        self.px, self.Pose = px, sapien.Pose
        self.materials: dict[int, Any] = {}
        self.links: list[Any] = []
        self.coms = np.zeros((len(tree.links), 3))
        """Centre of mass of every link in its own frame [m]."""
        self._geoms: dict[int, int] = {}
        self._kept: list[Any] = []
        # sapien keeps these for the whole process: what a user has set there is put back.
        before = px.get_scene_config(), px.get_body_config(), px.get_shape_config()
        try:
            px.set_scene_config(
                gravity=np.asarray(model.opt.gravity, np.float32), enable_tgs=True, enable_enhanced_determinism=True,
                enable_friction_every_iteration=True,
            )  # fmt: skip
            px.set_body_config(POSITION_ITERATIONS, VELOCITY_ITERATIONS, 0.0)
            px.set_shape_config(contact_offset=NEAR, rest_offset=0.0)
            self.system = px.PhysxCpuSystem()
            self.system.timestep = step
            self.scene = sapien.Scene([self.system])
            self._build(bare)
        finally:
            px.set_scene_config(before[0])
            px.set_body_config(before[1])
            px.set_shape_config(before[2])
        self.articulation = self.links[0].articulation
        self.free = tree.free and not bare
        joints = self.articulation.active_joints
        numbers = {link.joint.child_link.index: i for i, link in enumerate(self.links)}
        order = [numbers[joint.child_link.index] for joint in joints]
        own = [tree.links[i].joint for i in order]
        self.joints = joints
        self.dofs = np.array([j.dof for j in own if j is not None], dtype=int)
        """Column of the model's qvel of each column here."""
        self.places = np.array([j.at for j in own if j is not None], dtype=int)
        """Column of the model's qpos."""

    # ---------------------------------------------------------------- building

    def _build(self, bare: bool) -> None:
        tree, px = self.tree, self.px
        sapien = library()
        scale = max(sum(link.mass for link in tree.links), 1e-9)
        entities = []
        for link in tree.links:
            made = px.PhysxArticulationLinkComponent(self.links[link.parent] if link.parent >= 0 else None)
            made.name = link.name
            for shape in () if bare else link.shapes:
                made.attach(self._shape(shape))
            self.links.append(made)
            if link.mass > 0:
                self.weigh(len(self.links) - 1, link.mass, link.com, link.inertia)
            else:
                self.weigh(len(self.links) - 1, LIGHT[0] * scale, np.zeros(3), LIGHT[1] * scale * np.eye(3))
            made.linear_damping = made.angular_damping = 0.0
            made.max_linear_velocity = made.max_angular_velocity = FAST
            self._join(made, link.joint, bare)
            entity = sapien.Entity()
            entity.add_component(made)
            entities.append(entity)
        for entity in entities:
            self.scene.add_entity(entity)
        if tree.ground and not bare:
            still = px.PhysxRigidStaticComponent()
            for shape in tree.ground:
                still.attach(self._shape(shape))
            entity = sapien.Entity()
            entity.add_component(still)
            self.scene.add_entity(entity)
            self._kept.append(still)
        self._kept += entities

    def _join(self, made: Any, joint: Joint | None, bare: bool) -> None:
        if joint is None:
            made.joint.type = "undefined" if self.tree.free and not bare else "fixed"
            return
        made.joint.name = joint.name
        bounded = joint.limits is not None and not bare
        made.joint.type = {"slide": "prismatic", "hinge": "revolute_unwrapped"}[joint.kind]
        turn = _from_x(joint.axis)
        made.joint.pose_in_child = self.Pose([0, 0, 0], turn)
        made.joint.pose_in_parent = self.Pose(joint.pos, multiplied(joint.quat, turn))
        made.joint.limit = np.array([joint.limits if bounded else (-np.inf, np.inf)], np.float32)
        # PhysX has a friction of its own here by default, in proportion to the joint's load.
        made.joint.set_friction(0.0)
        made.joint.set_max_velocity(FAST)
        made.joint.set_drive_properties(0.0, 0.0, 0.0)

    def _shape(self, shape: Shape) -> Any:
        px, size = self.px, shape.size
        material = self.materials[shape.geom] = px.PhysxMaterial(1.0, 1.0, 0.0)
        turn = np.array([1.0, 0.0, 0.0, 0.0])
        if shape.kind == "sphere":
            made = px.PhysxCollisionShapeSphere(size[0], material)
        elif shape.kind == "box":
            made = px.PhysxCollisionShapeBox(size, material)
        elif shape.kind == "mesh":
            at, n = int(self.model.mesh_vertadr[shape.mesh]), int(self.model.mesh_vertnum[shape.mesh])
            made = px.PhysxCollisionShapeConvexMesh(self.model.mesh_vert[at : at + n], [1, 1, 1], material)
        else:
            turn = UP_TO_X
            if shape.kind == "plane":
                made = px.PhysxCollisionShapePlane(material)
            else:
                maker = {"capsule": px.PhysxCollisionShapeCapsule, "cylinder": px.PhysxCollisionShapeCylinder}
                made = maker[shape.kind](size[0], size[1], material)
        made.local_pose = self.Pose(shape.pos, multiplied(shape.quat, turn))
        made.set_collision_groups([*shape.groups, 0, 0])
        self._geoms[id(made)] = shape.geom
        self._kept.append(made)
        return made

    # ---------------------------------------------------------------- what e changes

    def weigh(self, link: int, mass: float, com: np.ndarray, inertia: np.ndarray) -> None:
        """Give a link its mass [kg], centre of mass (3,) and inertia (3, 3) about it."""
        principal, frame = np.linalg.eigh(inertia)
        if np.linalg.det(frame) < 0:
            frame[:, 2] = -frame[:, 2]
        made = self.links[link]
        made.mass, made.inertia = float(mass), principal
        made.cmass_local_pose = self.Pose(com, quaternion(frame))
        self.coms[link] = com

    def rub(self, column: int, torque: float) -> None:
        """Give a joint its dry friction [N·m]."""
        self.joints[column].set_drive_properties(0.0, float(torque) / CREEP, float(torque))
        self.joints[column].set_drive_velocity_target(0.0)

    def load(self, column: int, inertia: float) -> None:
        """Give a joint its rotor inertia [kg·m²]."""
        self.joints[column].set_armature(np.array([inertia], np.float32))

    def grip(self, geom: int, friction: float, bounce: float = 0.0) -> None:
        """Give a shape its friction and restitution; PhysX takes the mean of two that touch."""
        material = self.materials[geom]
        material.static_friction = material.dynamic_friction = float(friction)
        material.restitution = float(bounce)

    # ---------------------------------------------------------------- state

    def push_base(self, pos: np.ndarray, quat: np.ndarray, velocity: np.ndarray, rates: np.ndarray) -> None:
        """Set the base: place, attitude, velocity of its origin in the world's frame, rates in its own."""
        R = rotation(quat)
        turning = R @ rates
        self.articulation.set_root_pose(self.Pose(pos, quat))
        # PhysX has the velocity of the centre of mass.
        self.articulation.set_root_linear_velocity(velocity + np.cross(turning, R @ self.coms[0]))
        self.articulation.set_root_angular_velocity(turning)

    def push_joints(self, q: np.ndarray, dq: np.ndarray) -> None:
        """Set the joints, columns in PhysX's order."""
        if len(self.joints):
            self.articulation.set_qpos(q)
            self.articulation.set_qvel(dq)

    def forces(self, geoms: Collection[int]) -> dict[int, list[float]]:
        """Force that each of some geoms put on what it touched in the last step, (3,) [N], normal to it; absent without contact."""
        found: dict[int, list[float]] = {}
        for contact in self.system.get_contacts():
            for shape, sign in zip(contact.shapes, (-1.0, 1.0), strict=True):
                geom = self._geoms.get(id(shape), -1)
                if geom in geoms:
                    total = found.setdefault(geom, [0.0, 0.0, 0.0])
                    for point in contact.points:
                        for i, value in enumerate(point.impulse.tolist()):
                            total[i] += sign * value / self.step_time
        return found

    def depth(self) -> float:
        """How deep the deepest contact is [m]; 0 without any."""
        points = [point.separation for contact in self.system.get_contacts() for point in contact.points]
        return max(0.0, -min(points, default=0.0))


def _from_x(axis: np.ndarray) -> np.ndarray:
    """Quaternion (4,) that turns the x axis to a unit vector the shortest way."""
    cosine = float(axis[0])
    if cosine < -1 + 1e-12:
        return np.array([0.0, 0.0, 0.0, 1.0])
    turn = np.array([1 + cosine, 0.0, -axis[2], axis[1]])
    return turn / np.sqrt(turn @ turn)
