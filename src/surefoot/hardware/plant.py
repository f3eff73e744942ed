"""The body of a stand-in robot: its own MuJoCo model, stepped on its own, with all its shapes touching the ground.

It takes the robot's model file and nothing else from the rest of the package: time step, integrator, cone, motors, friction
and disturbances are its own, so that what is learned or fitted elsewhere meets another f here.
"""

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.hardware.grounds import Ground
from surefoot.hardware.motors import KEPT, JointMotors, Order, Rotors
from surefoot.hardware.reality import Reality
from surefoot.hardware.rubbing import Rubbing
from surefoot.robots import Robot

G = 9.81
AIR = 1.225  # [kg/m^3]
PUSH = 0.1
"""How long a shove lasts [s]."""
RELEASE = 0.85
"""Share of the nominal robot's weight that its rotors must turn for before its stand lets go."""
CROUCH = {"thigh": 1.2, "calf": -2.3}  # [rad]
RADIUS = 0.06
"""Of all rotors together, for the ground effect [m]."""
TABLE = 0.4
"""Half side of a table under the start [m]."""
INTEGRATORS = {
    "euler": mujoco.mjtIntegrator.mjINT_EULER,
    "implicit": mujoco.mjtIntegrator.mjINT_IMPLICIT,
    "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
    "rk4": mujoco.mjtIntegrator.mjINT_RK4,
}
CONES = {"elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC, "pyramidal": mujoco.mjtCone.mjCONE_PYRAMIDAL}


def parts_of(robot: Robot) -> set[str]:
    """What a robot has that an entry of a reality may need."""
    models = {a.model for a in robot.actuators}
    kinds = {s.kind for s in robot.sensors}
    found = {"motors"} | (kinds & {"imu", "encoder", "position"})
    found |= {"joints"} if robot.joints else set()
    found |= {"rotors"} if "rotor" in models else set()
    found |= {"voltage"} if "voltage" in models else set()
    found |= {"drives"} if models & {"pd", "torque", "voltage"} else set()
    found |= {"base"} if robot.base is not None else set()
    found |= {"feet"} if robot.feet and robot.ground and "rotor" not in models else set()
    return found


class Plant:
    """Body, motors and ground together; `step(order)` moves it on by one physics step."""

    def __init__(self, robot: Robot, reality: Reality, rng: np.random.Generator):
        self.robot, self.reality, self.rng = robot, reality, rng
        driven = [a for a in robot.actuators if a.model != "rotor"]
        spec = robot.spec(collisions="all")
        names = tuple(a.name for a in robot.actuators)
        bodies = [b.name for b in spec.bodies if b.name]
        reality.check(joints=robot.joints, motors=names, bodies=bodies, parts=sorted(parts_of(robot)))
        self.ground = Ground(reality, robot.feet if "rotor" not in {a.model for a in robot.actuators} else (), rng)
        if robot.ground:
            self.ground.add(spec)
        self.table = reality.one("table_height")
        if self.table:
            half = 0.5 * self.table
            spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[TABLE, TABLE, half], pos=[0, 0, half])
        self._options(spec)
        self._sensors(spec)
        self.model = self._compiled(spec)
        self.data = mujoco.MjData(self.model)
        self.dt = float(self.model.opt.timestep)
        self.joints = robot.joints
        self.q = np.array([int(self.model.joint(j).qposadr[0]) for j in self.joints], dtype=int)
        self.v = np.array([int(self.model.joint(j).dofadr[0]) for j in self.joints], dtype=int)
        self._rub(driven)
        self.rotors = Rotors(reality, [a for a in robot.actuators if a.model == "rotor"]) if not driven else None
        self.motors = JointMotors(reality, driven, self.rubbing, phase=self.rubbing.phase) if driven else None
        self._bodies()
        self._disturb()
        self.ground.bind(self.model)
        self._foot = {int(geom): i for i, geom in enumerate(self.ground.ids)}
        self.physx = None
        if reality.engine == "physx":
            from surefoot.hardware.twin_physx import PhysxBody

            self.physx = PhysxBody(self.model, self.data, reality.name)
        self.t = 0.0
        self.held = reality.start in ("held", "thrown")
        self._start()

    # ---------------------------------------------------------------- making it

    def _options(self, spec: mujoco.MjSpec) -> None:
        numerics = self.reality.numerics
        spec.option.timestep = numerics["timestep"]
        spec.option.integrator = INTEGRATORS[numerics["integrator"]]
        spec.option.cone = CONES[numerics["cone"]]
        spec.option.impratio = numerics["impratio"]
        spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        for geom in spec.geoms:
            geom.solref[0] = numerics["contact_time"]

    def _sensors(self, spec: mujoco.MjSpec) -> None:
        if self.robot.imu is not None:
            for name, kind in (
                ("accel", mujoco.mjtSensor.mjSENS_ACCELEROMETER),
                ("gyro", mujoco.mjtSensor.mjSENS_GYRO),
            ):
                spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=self.robot.imu)

    def _compiled(self, spec: mujoco.MjSpec) -> mujoco.MjModel:
        """Masses, inertias and centres of mass are changed together, before compiling."""
        self.extra = 0.0  # [kg] more than in the robot's file
        for name, mass in self.reality.bodies("mass").items():
            body = spec.body(name)
            ratio = mass / body.mass
            self.extra += mass - body.mass
            body.mass = mass
            body.inertia = np.asarray(body.inertia) * ratio
            body.fullinertia = np.asarray(body.fullinertia) * ratio
        for name, shift in self.reality.bodies("com").items():
            spec.body(name).ipos = np.asarray(spec.body(name).ipos) + np.asarray(shift)
        try:
            return spec.compile()
        except ValueError as error:
            raise InputError(f"{self.reality.name} makes no body that MuJoCo can step: {error}") from None

    def _rub(self, driven: list) -> None:
        """Friction and rotor inertia of the joints; dry friction is taken out of the model, ours stands in its place."""
        model, reality, joints = self.model, self.reality, self.joints
        coulomb = reality.each("coulomb", joints, model.dof_frictionloss[self.v].tolist())
        damping = reality.each("damping", joints, model.dof_damping[self.v].tolist())
        armature = reality.each("armature", joints, model.dof_armature[self.v].tolist())
        model.dof_frictionloss[:] = 0.0
        model.dof_damping[self.v] = damping
        model.dof_armature[self.v] = armature
        phase = self.rng.uniform(0.0, 2 * np.pi, len(joints))
        motors = [a.name for a in driven]
        self.of_motor = np.array([joints.index(m) for m in motors], dtype=int)
        self.free = np.array([i for i, j in enumerate(joints) if j not in motors], dtype=int)
        k, f = self.of_motor, self.free
        self.rubbing = Rubbing(reality, motors, coulomb[k], damping[k], True, phase[k])
        self.idle = Rubbing(reality, [joints[i] for i in f], coulomb[f], damping[f], False, phase[f])

    def _bodies(self) -> None:
        model, robot = self.model, self.robot
        if self.motors is not None and self.motors.elastic:
            dofs = self.v[self.of_motor]
            model.dof_damping[dofs] = 0.0
            model.dof_armature[dofs] = KEPT * self.motors.armature
        self.base = model.body(robot.base).id if robot.base is not None else None
        self.weight = float(model.body_mass.sum()) * G
        if self.base is not None:
            joint = int(model.body(robot.base).jntadr[0])
            self.bq, self.bv = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        if self.rotors is not None:
            self.sites = np.array([model.site(name).id for name in self.rotors.names], dtype=int)
        self.imu = {n: int(model.sensor(n).adr[0]) for n in ("accel", "gyro")} if robot.imu is not None else {}
        mujoco.mj_setConst(model, self.data)

    def _disturb(self) -> None:
        one = self.reality.one
        self.push_every, self.push_speed = one("push_every"), one("push_speed")
        self.push, self.next_push = np.zeros(3), self.push_every or np.inf
        self.push_end = -np.inf
        self.gust, self.gust_memory, self.gust_force = one("gust"), one("gust_memory"), np.zeros(3)
        self.drag, self.wind = one("drag"), self.reality.xyz("wind")
        self.ground_effect, self.rotor_drag = one("ground_effect"), one("rotor_drag")

    def _start(self) -> None:
        data, robot = self.data, self.robot
        angles = np.array([robot.pose.get(j, 0.0) for j in self.joints])
        if self.reality.start == "crouched":
            for part, angle in CROUCH.items():
                angles[[i for i, j in enumerate(self.joints) if part in j]] = angle
        data.qpos[self.q] = angles
        if self.base is not None:
            data.qpos[self.bq : self.bq + 3] = [0.0, 0.0, robot.height]
            quat = np.zeros(4)
            mujoco.mju_quatZ2Vec(quat, self.ground.up)
            data.qpos[self.bq + 3 : self.bq + 7] = quat
        mujoco.mj_forward(self.model, data)
        if self.base is not None and len(self.ground.ids):
            feet = data.geom_xpos[self.ground.ids] @ self.ground.up - self.model.geom_rbound[self.ground.ids]
            data.qpos[self.bq + 2] += 0.003 - float(feet.min()) / self.ground.up[2]
        self.first = data.qpos.copy()
        if self.motors is not None:
            self.motors.settle(angles[self.of_motor])
        mujoco.mj_forward(self.model, data)

    # ---------------------------------------------------------------- moving it

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the motors, in the order of every command."""
        return self._drives.names

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of command they take."""
        return self._drives.kinds

    @property
    def _drives(self) -> JointMotors | Rotors:
        drives = self.motors if self.motors is not None else self.rotors
        assert drives is not None
        return drives

    def damping(self) -> Order:
        """What the motors do when nobody commands them."""
        return self._drives.damping()

    def step(self, order: Order) -> None:
        """Move on by one physics step under `order`."""
        model, data = self.model, self.data
        if self.motors is not None:
            q, dq = data.qpos[self.q], data.qvel[self.v]
            k = self.of_motor
            data.qfrc_applied[self.v[k]] = self.motors.drive(order, q[k], dq[k], self.t, self.dt)
            if len(self.free):
                f = self.free
                data.qfrc_applied[self.v[f]] = self.idle.torque(q[f], dq[f], 0.0, self.t, self.dt)
        if self.base is not None:
            data.xfrc_applied[self.base] = 0.0
            if self.rotors is not None:
                self._fly(order)
            self._shove()
        if self.ground.live:
            self.ground.feel(model, data)
        if self.physx is not None:
            self.physx.step()
        else:
            mujoco.mj_step(model, data)
        if self.held:
            self._hold()
        self.t += self.dt

    def _hold(self) -> None:
        """On its stand until the rotors are asked to carry it."""
        assert self.rotors is not None
        self.data.qpos[:] = self.first
        self.data.qvel[:] = 0.0
        self.data.qacc_warmstart[:] = 0.0
        self.data.sensordata[self.imu["gyro"] : self.imu["gyro"] + 3] = 0.0
        self.data.sensordata[self.imu["accel"] : self.imu["accel"] + 3] = [0.0, 0.0, G]
        if float(self.rotors.most @ self.rotors.speed**2) >= RELEASE * (self.weight - G * self.extra):
            self.held = False
            if self.reality.start == "thrown":
                self.data.qvel[self.bv : self.bv + 6] = np.append(
                    self.rng.normal(0, 0.3, 3), self.rng.normal(0, 1.0, 3)
                )

    def _fly(self, order: Order) -> None:
        assert self.rotors is not None
        data, rotors = self.data, self.rotors
        thrust = rotors.spin(order, self.t, self.dt)
        places, frames = data.site_xpos[self.sites], data.site_xmat[self.sites].reshape(-1, 3, 3)
        axes = frames[:, :, 2]
        if self.ground_effect:
            over = (np.abs(places[:, :2]) < TABLE).all(axis=1)
            height = np.maximum(places[:, 2] - np.where(over, self.table, 0.0), 0.5 * RADIUS)
            thrust = thrust / (1.0 - np.minimum(0.6, self.ground_effect * (RADIUS / (4 * height)) ** 2))
        forces = thrust[:, None] * axes
        torque = np.cross(places - data.xipos[self.base], forces).sum(0) + (rotors.moment * thrust) @ axes
        force = forces.sum(0)
        air = data.qvel[self.bv : self.bv + 3] - self.wind
        if self.drag:
            force = force - 0.5 * AIR * self.drag * np.linalg.norm(air) * air
        if self.rotor_drag:
            across = air - (air @ axes[0]) * axes[0]
            force = force - self.rotor_drag * rotors.speed.mean() * across
        data.xfrc_applied[self.base, :3] += force
        data.xfrc_applied[self.base, 3:] += torque

    def _shove(self) -> None:
        data = self.data
        if self.t >= self.next_push:
            way = self.rng.uniform(-np.pi, np.pi)
            size = self.push_speed * self.weight / G / PUSH
            self.push, self.push_end = size * np.array([np.cos(way), np.sin(way), 0.0]), self.t + PUSH
            self.next_push += self.push_every
        if self.t < self.push_end:
            data.xfrc_applied[self.base, :3] += self.push
        if self.gust:
            keep = np.exp(-self.dt / self.gust_memory)
            self.gust_force = keep * self.gust_force + self.gust * np.sqrt(1 - keep**2) * self.rng.standard_normal(3)
            data.xfrc_applied[self.base, :3] += self.gust_force

    # ---------------------------------------------------------------- what is true

    def sane(self) -> bool:
        """Whether the state is still made of numbers."""
        return bool(np.isfinite(self.data.qpos).all() and np.isfinite(self.data.qvel).all())

    def loads(self) -> np.ndarray:
        """Force of the ground on each foot, normal to it, (feet,) [N]."""
        found = np.zeros(len(self.ground.ids))
        data, force = self.data, np.zeros(6)
        if not len(found):
            return found
        if self.physx is not None:
            return self.physx.loads(self.ground.ids)
        for i, (a, b) in enumerate(data.contact.geom.tolist()):
            foot = self._foot.get(a, self._foot.get(b))
            if foot is not None:
                mujoco.mj_contactForce(self.model, data, i, force)
                found[foot] += force[0]
        return found

    def angles(self) -> tuple[np.ndarray, np.ndarray]:
        """What the encoders sit on: angle and speed of every joint, of the motor's side where the drive is elastic."""
        q, dq = self.data.qpos[self.q], self.data.qvel[self.v]
        if self.motors is not None and self.motors.elastic:
            q[self.of_motor], dq[self.of_motor] = self.motors.measured(q[self.of_motor], dq[self.of_motor])
        return q, dq
