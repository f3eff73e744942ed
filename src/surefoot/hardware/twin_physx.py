"""A stand-in robot whose body is moved by PhysX: `engine = "physx"` in its reality (extra `physx`).

The compiled MuJoCo model says what the body is, and afterwards where its parts are; what it does next, PhysX says: articulation,
contact and friction are its own, at the reality's time step. Motors, joint friction and sensors stay those of every twin. This
file shares nothing with surefoot's own PhysX engine.
"""

import warnings
from typing import Any

import mujoco
import numpy as np

from surefoot.errors import InputError

ITERATIONS = 12, 2
"""Of PhysX's solver, for positions and velocities."""
NEAR = 0.008
"""Distance at which PhysX begins to think of a contact [m]."""
ALONG_X = [np.sqrt(0.5), 0.0, -np.sqrt(0.5), 0.0]
"""Turns the x axis, along which PhysX lays planes, capsules and cylinders, to z."""
HINGE, SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
JOINTS = {HINGE: "revolute", SLIDE: "prismatic"}
GEOM = mujoco.mjtGeom


def sapien_module() -> Any:
    """The module `sapien`, or one sentence that says how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import sapien
            import sapien.physx
    except ImportError:
        raise InputError(
            'this reality says engine = "physx", which needs the extra `physx`: pip install "surefoot[physx]"'
        ) from None
    return sapien


class PhysxBody:
    """Takes the place of `mujoco.mj_step`: reads forces from `data`, moves the body, writes the new state and readings back."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, name: str):
        self.model, self.data, self.dt = model, data, float(model.opt.timestep)
        self._refuse(name)
        self.sapien = sapien_module()
        self.physx = self.sapien.physx
        self._materials: dict[int, Any] = {}
        self._shapes: dict[int, tuple[int, Any]] = {}
        self._make_scene()
        self._make_robot()
        self._make_ground()
        self._grip()
        self._told = np.full(model.nq, np.nan), np.full(model.nv, np.nan)
        self._imu = {model.sensor(i).name: int(model.sensor_adr[i]) for i in range(model.nsensor)}
        self._speed: np.ndarray | None = None

    def _refuse(self, name: str) -> None:
        model = self.model
        for wrong, what in (
            ((model.geom_type == int(GEOM.mjGEOM_HFIELD)).any(), "bumps"),
            ((model.body_jntnum > 1).any(), "a body with two joints"),
            (model.opt.density or model.opt.viscosity, "a model with air around it"),
            (model.qpos0[model.jnt_qposadr[model.jnt_type != 0]].any(), "a joint whose zero is not the drawn pose"),
        ):
            if wrong:
                raise InputError(f'{name}: {what} cannot be had with engine = "physx": use engine = "mujoco"')

    # ---------------------------------------------------------------- making it

    def _make_scene(self) -> None:
        px, model = self.physx, self.model
        px.set_scene_config(
            gravity=model.opt.gravity.astype(np.float32), enable_tgs=True, enable_enhanced_determinism=True
        )
        px.set_body_config(*ITERATIONS, 0.0)
        px.set_shape_config(contact_offset=NEAR, rest_offset=0.0)
        self.system = px.PhysxCpuSystem()
        self.scene = self.sapien.Scene([self.system])
        self.system.timestep = self.dt

    def _make_robot(self) -> None:
        """One link a body, in the model's order; the world is the root of a robot that is bolted down."""
        model, Pose = self.model, self.sapien.Pose
        first = int(model.jnt_bodyid[0])
        self.free = int(model.jnt_type[0]) == int(mujoco.mjtJoint.mjJNT_FREE)
        self.root = first if self.free else 0
        builder = self.scene.create_articulation_builder()
        made: dict[int, Any] = {}
        for body in range(self.root, model.nbody):
            link = made[body] = builder.create_link_builder(
                made.get(int(model.body_parentid[body])) if body != self.root else None
            )
            link.set_name(str(body))
            mass, inertia = (model.body_mass[body], model.body_inertia[body]) if body else (1.0, np.ones(3))
            light = mass <= 0
            link.set_mass_and_inertia(
                1e-4 if light else mass,
                Pose(model.body_ipos[body], model.body_iquat[body]),
                np.full(3, 1e-6) if light else inertia,
            )
            if body != self.root:
                self._join(link, body)
        self.robot = builder.build(fix_root_link=not self.free)
        self.links = {int(link.name): link for link in self.robot.links}
        for body, link in self.links.items():
            link.linear_damping = link.angular_damping = 0.0
            link.max_linear_velocity = link.max_angular_velocity = 1e5
            if body:
                self._clothe(link, body)
        self.joints = [model.body_jntadr[int(j.child_link.name)] for j in self.robot.active_joints]
        self.at, self.dofs = model.jnt_qposadr[self.joints], model.jnt_dofadr[self.joints]
        for joint, dof in zip(self.robot.active_joints, self.dofs, strict=True):
            joint.set_friction(0.0)  # PhysX's own default is not zero
            joint.set_max_velocity(1e5)
            joint.set_drive_properties(0.0, 0.0)
            # Damping d is implicit when d dt stands with the rotor's inertia and -d v with the torque.
            joint.set_armature([model.dof_armature[dof] + self.dt * model.dof_damping[dof]])

    def _join(self, link: Any, body: int) -> None:
        model, Pose = self.model, self.sapien.Pose
        inside = Pose(model.body_pos[body], model.body_quat[body])
        if not model.body_jntnum[body]:
            link.set_joint_properties("fixed", [], inside, Pose())
            return
        k = int(model.body_jntadr[body])
        x = model.jnt_axis[k]
        y = np.cross(x, [0.0, 0.0, 1.0] if abs(x[2]) < 0.9 else [0.0, 1.0, 0.0])
        y /= np.linalg.norm(y)
        turn = np.zeros(4)
        mujoco.mju_mat2Quat(turn, np.stack([x, y, np.cross(x, y)], axis=1).ravel())
        frame = Pose(model.jnt_pos[k], turn)
        link.set_joint_name(str(k))
        limited = bool(model.jnt_limited[k])
        kind = JOINTS[int(model.jnt_type[k])] if limited or model.jnt_type[k] == SLIDE else "revolute_unwrapped"
        limits = [tuple(model.jnt_range[k]) if limited else (-np.inf, np.inf)]
        link.set_joint_properties(kind, limits, inside * frame, frame)

    def _clothe(self, link: Any, body: int) -> None:
        for geom in np.flatnonzero(self.model.geom_bodyid == body):
            shape = self._shape(int(geom))
            if shape is not None:
                link.attach(shape)

    def _make_ground(self) -> None:
        still = self.physx.PhysxRigidStaticComponent()
        for geom in np.flatnonzero(self.model.geom_bodyid == 0):
            shape = self._shape(int(geom))
            if shape is not None:
                still.attach(shape)
        entity = self.sapien.Entity()
        entity.add_component(still)
        self.scene.add_entity(entity)
        self._ground = still

    def _shape(self, geom: int) -> Any:
        """A geom's shape in its body's frame; None where it never touches."""
        model, px = self.model, self.physx
        if not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
            return None
        material, size, kind = px.PhysxMaterial(1.0, 1.0, 0.0), model.geom_size[geom], int(model.geom_type[geom])
        lying = self.sapien.Pose([0, 0, 0], ALONG_X)
        makers = {
            int(GEOM.mjGEOM_SPHERE): lambda: (px.PhysxCollisionShapeSphere(size[0], material), self.sapien.Pose()),
            int(GEOM.mjGEOM_BOX): lambda: (px.PhysxCollisionShapeBox(size, material), self.sapien.Pose()),
            int(GEOM.mjGEOM_CAPSULE): lambda: (px.PhysxCollisionShapeCapsule(size[0], size[1], material), lying),
            int(GEOM.mjGEOM_CYLINDER): lambda: (px.PhysxCollisionShapeCylinder(size[0], size[1], material), lying),
            int(GEOM.mjGEOM_PLANE): lambda: (px.PhysxCollisionShapePlane(material), lying),
        }
        if kind not in makers:
            raise InputError(
                f"geom '{model.geom(geom).name}' has a shape that PhysX cannot be given here: leave it out"
            )
        shape, turn = makers[kind]()
        shape.local_pose = self.sapien.Pose(model.geom_pos[geom], model.geom_quat[geom]) * turn
        shape.set_collision_groups([int(model.geom_contype[geom]), int(model.geom_conaffinity[geom]), 0, 0])
        self._materials[geom] = material
        self._shapes[id(shape)] = geom, shape
        return shape

    def _grip(self) -> None:
        """Friction of each shape against the ground as the model has it; PhysX takes the mean of the two that touch."""
        model = self.model
        still = [g for g in self._materials if model.geom_bodyid[g] == 0]
        floor = still[0] if still else None
        mu = {}
        for g in self._materials:
            own = float(model.geom_friction[g, 0])
            if floor is not None and g not in still:
                other = float(model.geom_friction[floor, 0])
                lead = int(model.geom_priority[g]) - int(model.geom_priority[floor])
                mu[g] = own if lead > 0 else other if lead < 0 else max(own, other)
        base = min(mu.values(), default=1.0)
        self._friction = model.geom_friction[:, 0].copy()
        for g, material in self._materials.items():
            value = base if g in still else 2 * mu.get(g, base) - base
            material.static_friction = material.dynamic_friction = value

    # ---------------------------------------------------------------- moving it

    def step(self) -> None:
        """Move on by one time step under the forces in `data`."""
        model, data = self.model, self.data
        if not (np.array_equal(data.qpos, self._told[0]) and np.array_equal(data.qvel, self._told[1])):
            self._tell()
        if (model.geom_friction[:, 0] != self._friction).any():
            self._grip()
        dofs = self.dofs
        if len(dofs):
            self.robot.set_qf(data.qfrc_applied[dofs] - model.dof_damping[dofs] * data.qvel[dofs])
        for body in np.flatnonzero(data.xfrc_applied.any(axis=1)):
            self.links[int(body)].add_force_torque(data.xfrc_applied[body, :3], data.xfrc_applied[body, 3:])
        self.system.step()
        self._hear()
        data.time += self.dt
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        self._sense()

    def _tell(self) -> None:
        """Put PhysX into the state of `data`."""
        data = self.data
        if self.free:
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, data.qpos[3:7])
            R = R.reshape(3, 3)
            rates = R @ data.qvel[3:6]
            self.robot.set_root_pose(self.sapien.Pose(data.qpos[:3], data.qpos[3:7]))
            self.robot.set_root_angular_velocity(rates)
            centre = R @ self.model.body_ipos[self.root]  # PhysX has the velocity of the centre of mass
            self.robot.set_root_linear_velocity(data.qvel[:3] + np.cross(rates, centre))
        if len(self.dofs):
            self.robot.set_qpos(data.qpos[self.at])
            self.robot.set_qvel(data.qvel[self.dofs])
        self._told[0][:], self._told[1][:] = data.qpos, data.qvel
        self._speed = None

    def _hear(self) -> None:
        """Take the state of PhysX into `data`."""
        data = self.data
        if self.free:
            pose = self.robot.root_pose
            data.qpos[:3], data.qpos[3:7] = pose.p, pose.q
            R = np.zeros(9)
            mujoco.mju_quat2Mat(R, data.qpos[3:7])
            R = R.reshape(3, 3)
            rates = self.robot.root_angular_velocity
            centre = R @ self.model.body_ipos[self.root]
            data.qvel[:3] = self.robot.root_linear_velocity - np.cross(rates, centre)
            data.qvel[3:6] = R.T @ rates
        if len(self.dofs):
            data.qpos[self.at], data.qvel[self.dofs] = self.robot.get_qpos(), self.robot.get_qvel()
        self._told[0][:], self._told[1][:] = data.qpos, data.qvel

    def _sense(self) -> None:
        """Rates and specific force of the IMU: the change of its speed over the step, less gravity."""
        if not self._imu:
            return
        model, data = self.model, self.data
        site = int(model.sensor_objid[model.sensor("accel").id])
        both = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, site, both, 0)
        R = data.site_xmat[site].reshape(3, 3)
        before = both[3:] if self._speed is None else self._speed
        change = (both[3:] - before) / self.dt
        gyro, accel = self._imu["gyro"], self._imu["accel"]
        data.sensordata[gyro : gyro + 3] = R.T @ both[:3]
        data.sensordata[accel : accel + 3] = R.T @ (change - model.opt.gravity)
        self._speed = both[3:].copy()

    def loads(self, geoms: np.ndarray) -> np.ndarray:
        """Force of the ground on some geoms in the last step, normal to it [N]."""
        found = dict.fromkeys(geoms.tolist(), 0.0)
        for contact in self.system.get_contacts():
            for shape in contact.shapes:
                geom = self._shapes.get(id(shape), (-1, None))[0]
                if geom in found:
                    found[geom] += sum(float(np.linalg.norm(point.impulse)) for point in contact.points) / self.dt
        return np.array(list(found.values()))
