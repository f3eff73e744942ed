"""A robot: its model, joint order, pose, actuators, sensors, and the Params a user of it would doubt.

The model file holds bodies, joints, geoms and sites; the robot file holds everything that belongs to the motors,
the sensors and the controller. `Robot.spec` joins them: armature, viscous and Coulomb friction of the actuators
are written to the joints, so that the compiled spec has the passive dynamics of the whole robot.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.params import Params

CHANNELS: dict[str, tuple[str, str]] = {
    "pd": ("joint_pos_target", "rad"),
    "torque": ("joint_torque_target", "N·m"),
    "velocity": ("joint_vel_target", "rad/s"),
    "voltage": ("voltage_target", "V"),
    "rotor": ("rotor_target", "1"),
    "native": ("control", "1"),
}
"""Actuator model -> (channel of its command u, unit)."""

COLLISIONS = ("few", "all")


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """One motor. With u the command, q and dq the joint's position and velocity, τ the joint's torque:

        pd        τ = clip(kp (u - q) - kd dq, ±torque_limit)
        velocity  τ = clip(kd (u - dq), ±torque_limit)
        torque    τ = clip(u, ±torque_limit)
        voltage   τ = K/R (clip(u, ±voltage) - K dq), K and R on the joint's side of the gear
        rotor     thrust = thrust_max s², where s follows u in 0..1 with time constant `lag`;
                  moment about the thrust axis = spin moment_ratio thrust
        native    the actuator of that name in the model file, unchanged

    Torques read as forces [N] and angles as metres for slide joints. A limit that is absent is None, not infinity.
    """

    name: str  # the joint's name; a rotor's site; a native actuator's own name
    model: str  # a key of CHANNELS
    kp: float = 0.0  # [N·m/rad]
    kd: float = 0.0  # [N·m·s/rad]
    torque_limit: float | None = None  # [N·m]
    speed_limit: float | None = None  # [rad/s] no-load speed at `voltage`
    voltage: float | None = None  # [V] supply
    torque_constant: float | None = None  # [N·m/A] joint side, gear included; equals [V·s/rad]
    resistance: float | None = None  # [ohm]
    gear: float | None = None  # motor turns per joint turn, for the reader: every other figure is joint side
    armature: float = 0.0  # [kg·m^2] reflected rotor inertia
    damping: float = 0.0  # [N·m·s/rad]
    coulomb: float = 0.0  # [N·m]
    thrust_max: float | None = None  # [N]
    lag: float = 0.0  # [s]
    moment_ratio: float = 0.0  # [m] yaw moment per thrust
    spin: int = 1  # sign of the moment on the body about the rotor's +z
    source: str = ""  # where the figures come from

    @property
    def channel(self) -> str:
        """Name of the command channel this actuator listens to."""
        return CHANNELS[self.model][0]


@dataclass(frozen=True, kw_only=True)
class SensorSpec:
    """One sensor and its nominal figures (`figures` holds those of its kind, see docs/robots.md)."""

    kind: str  # encoder | imu | foot_force | wrench | motor_torque | position | height_scan
    name: str
    of: tuple[str, ...] = ()  # joints (encoder, motor_torque) or geoms (foot_force)
    site: str | None = None  # imu, wrench
    rate: float  # [Hz]
    delay: float = 0.0  # [s]
    figures: Mapping[str, float] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Strap:
    """What a hanging robot hangs from: a spring from a point of its base straight up to a hook.

    Legs that move push the base away, so that joints feel less inertia than on a stand.
    """

    place: tuple[float, float, float]  # [m] where it is tied, in the base's frame
    hook: tuple[float, float, float]  # [m] where it hangs from, in the world
    length: float  # [m] from one to the other, under load
    load: float  # [N] weight that it carries at that length
    stiffness: float = 1e4  # [N/m]
    damping: float = 300.0  # [N·s/m] along the strap
    drag: float = 1.0  # [N·s/m] and [N·m·s/rad] against swinging and turning

    @property
    def slack(self) -> float:
        """[m] Length without load."""
        return self.length - self.load / self.stiffness


@dataclass(frozen=True, kw_only=True)
class Robot:
    """A robot as read from its folder; immutable, variants by `dataclasses.replace`, `suspended` or `hung`."""

    name: str
    title: str
    licence: str
    folder: Path
    model: Path  # MJCF or URDF
    base: str | None  # body with the free joint; None when the robot is bolted down
    feet: tuple[str, ...]  # geoms that touch the ground
    imu: str | None  # site
    ground: bool  # whether Sim puts a plane under it
    timestep: float  # [s]
    control_dt: float  # [s]
    joints: tuple[str, ...]  # in the maker's order; order of u and of every joint channel
    pose: Mapping[str, float]  # default position of every joint [rad] or [m]
    height: float  # [m] base height of the default pose
    actuators: tuple[Actuator, ...]  # in the order of `joints`, rotors after them; passive joints have none
    sensors: tuple[SensorSpec, ...]
    params: Params  # default Params, each with the source of its range
    options: Mapping[str, Any]  # of the physics, as in MuJoCo's <option>
    hash: str  # content hash of robot file, model file and assets
    fixed: str | None = None  # body whose free joint `suspended` took away
    strap: Strap | None = None  # what a robot that is `hung` hangs from
    rest: Mapping[str, float] = field(default_factory=dict)  # pose [rad] to be left in without power; empty: not known

    @property
    def passive(self) -> tuple[str, ...]:
        """Joints without an actuator."""
        driven = {actuator.name for actuator in self.actuators}
        return tuple(name for name in self.joints if name not in driven)

    def actuator(self, name: str) -> Actuator:
        """The actuator of a joint (or rotor), by name."""
        for actuator in self.actuators:
            if actuator.name == name:
                return actuator
        known = [actuator.name for actuator in self.actuators]
        raise InputError(f"{name!r} has no actuator on {self.name} {did_you_mean(name, known)}")

    def spec(self, *, collisions: str = "few") -> mujoco.MjSpec:
        """A fresh MjSpec: the model file with this robot's options and joint friction written into it.

        Args:
            collisions: "few" keeps the model's own set (feet and trunk on our legged robots, meant for training);
                "all" also lets every shape-only geom (contype = conaffinity = 0, not a mesh) touch the ground.
        """
        if collisions not in COLLISIONS:
            raise InputError(f"collisions={collisions!r} is not a collision set {did_you_mean(collisions, COLLISIONS)}")
        spec = mujoco.MjSpec.from_file(str(self.model))
        spec.option.timestep = self.timestep
        write_options(spec, self.options)
        if self.fixed is not None:
            spec.delete(next(joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE))
            spec.body(self.fixed).pos = [0.0, 0.0, self.height]
        if self.strap is not None:
            _tie(spec, str(self.base), self.height, self.strap)
        if any(actuator.model != "native" for actuator in self.actuators):
            _clear_actuators(spec)
        for actuator in self.actuators:
            if actuator.model not in ("rotor", "native"):
                joint = spec.joint(actuator.name)
                joint.armature = actuator.armature
                joint.damping[0] = actuator.damping
                joint.frictionloss = actuator.coulomb
        if collisions == "all":
            for geom in spec.geoms:
                if geom.contype == 0 and geom.conaffinity == 0 and geom.type != mujoco.mjtGeom.mjGEOM_MESH:
                    geom.conaffinity = 1
        return spec

    def suspended(self, *, height: float = 1.0) -> "Robot":
        """The same robot with its base held still `height` metres up, no ground: legs or arms move in the air."""
        if self.base is None:
            raise InputError(f"{self.name} has no free base, so it cannot be suspended: use it as it is")
        digest = hashlib.sha256(f"{self.hash} suspended {height!r}".encode()).hexdigest()
        changed: dict[str, Any] = {
            "base": None, "ground": False, "fixed": self.base, "strap": None, "height": height, "hash": digest,
        }  # fmt: skip
        return dataclasses.replace(self, name=f"{self.name.removesuffix('_hung')}_suspended", **changed)

    def hung(self, *, height: float = 1.0, length: float = 0.5, lift: float = 0.06, drag: float = 1.0) -> "Robot":
        """The same robot hanging from a strap, no ground: it swings and turns as its legs or arms move.

        Args:
            height: of the base [m].
            length: from the point where the strap is tied to the hook [m].
            lift: how far that point lies above the base's origin [m], straight above the centre of mass in the default pose, so that
                the robot hangs level.
            drag: what slows its swinging [N·s/m] and turning [N·m·s/rad].
        """
        if self.base is None:
            raise InputError(f"{self.name} has no free base, so it cannot hang: use it as it is")
        if self.strap is not None:
            raise InputError(f"{self.name} hangs from a strap already: hang the robot as it was loaded")
        if not (length > 0 and drag >= 0 and np.isfinite([height, length, lift, drag]).all()):
            raise InputError(
                f"height={height}, length={length}, lift={lift}, drag={drag}: they must be numbers, length above 0 and drag not below"
            )
        model = self.spec().compile()
        data = mujoco.MjData(model)
        for name, angle in self.pose.items():
            data.qpos[model.joint(name).qposadr[0]] = angle
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        body = model.body(self.base).id
        centre = data.subtree_com[body] - data.xpos[body]
        if lift <= centre[2]:
            raise InputError(
                f"lift={lift:g} m ties the strap at or below the centre of mass ({centre[2]:.3f} m): the robot would turn over"
            )
        weight = float(model.body_subtreemass[body] * np.linalg.norm(model.opt.gravity))
        above = np.array([centre[0], centre[1], lift])
        x, y, z = (float(v) for v in data.xmat[body].reshape(3, 3).T @ above)
        hook = (float(above[0]), float(above[1]), float(height + lift + length))
        strap = Strap(place=(x, y, z), hook=hook, length=float(length), load=weight, drag=float(drag))
        digest = hashlib.sha256(f"{self.hash} hung {height!r} {strap!r}".encode()).hexdigest()
        changed: dict[str, Any] = {"ground": False, "strap": strap, "height": height, "hash": digest}
        return dataclasses.replace(self, name=f"{self.name}_hung", **changed)


def _tie(spec: mujoco.MjSpec, base: str, height: float, strap: Strap) -> None:
    """Add a strap to the base, and the hook it hangs from."""
    body = spec.body(base)
    body.pos = [0.0, 0.0, height]
    free = next(joint for joint in body.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE)
    free.damping = [strap.drag, 0.0, 0.0]
    spec.worldbody.add_site(name="hook", pos=list(strap.hook), size=[0.01] * 3)
    body.add_site(name="strap", pos=list(strap.place), size=[0.01] * 3)
    tendon = spec.add_tendon(name="strap", springlength=[strap.slack, strap.slack])
    tendon.stiffness, tendon.damping = [strap.stiffness, 0.0, 0.0], [strap.damping, 0.0, 0.0]
    tendon.wrap_site("strap")
    tendon.wrap_site("hook")


def _clear_actuators(spec: mujoco.MjSpec) -> None:
    """Take the model file's own actuators away: those of the robot file stand in their place."""
    for sensor in list(spec.sensors):
        if sensor.objtype == mujoco.mjtObj.mjOBJ_ACTUATOR:
            spec.delete(sensor)
    for item in [*spec.keys, *spec.actuators]:
        spec.delete(item)


FLAGS = {
    name.removeprefix("mjDSBL_").lower(): bit
    for name, bit in mujoco.mjtDisableBit.__members__.items()
    if name.startswith("mjDSBL_")
}
ENUMS = {
    "integrator": (mujoco.mjtIntegrator, "mjINT_"),
    "cone": (mujoco.mjtCone, "mjCONE_"),
    "jacobian": (mujoco.mjtJacobian, "mjJAC_"),
    "solver": (mujoco.mjtSolver, "mjSOL_"),
}
NUMBERS = ("impratio", "iterations", "ls_iterations", "tolerance", "noslip_iterations", "density", "viscosity")
VECTORS = ("gravity", "wind")
OPTION_KEYS = (*ENUMS, *NUMBERS, *VECTORS, "disable")


def write_options(spec: mujoco.MjSpec, options: Mapping[str, Any]) -> None:
    """Write a robot file's [options] into the spec; the words are those of MuJoCo's <option>."""
    for key, value in options.items():
        if key in ENUMS:
            enum, prefix = ENUMS[key]
            words = {name.removeprefix(prefix).lower(): item for name, item in enum.__members__.items()}
            if str(value).lower() not in words:
                raise InputError(f"options.{key} = {value!r} is not one MuJoCo has {did_you_mean(str(value), words)}")
            setattr(spec.option, key, words[str(value).lower()])
        elif key == "disable":
            for flag in value:
                if flag not in FLAGS:
                    raise InputError(f"options.disable: {flag!r} is not a MuJoCo flag {did_you_mean(str(flag), FLAGS)}")
                spec.option.disableflags |= int(FLAGS[flag])
        else:
            setattr(spec.option, key, value)
