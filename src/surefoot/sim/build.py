"""From a Robot and its Params to one compiled model: everything structural happens here, once.

A numeric Param only needs a slot to write to. A structural one needs something in the model first: a contact dimension,
a play joint, a motor with windings, a payload body, a bank of height fields. `build` makes all of that, and returns the
model with the names under which the rest of `sim` finds it again.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.params import Param, Params
from surefoot.robots import Actuator, Robot
from surefoot.sim.terrain import Terrain, add_terrain

MOTOR_PARAMS = ("dcmotor", "thermal")
LIMIT_SOLVER = {"solref_limit": [0.004, 1.0], "solimp_limit": [0.95, 0.99, 0.0005, 0.5, 2.0]}
FRICTION_SOLVER = ([0.002, 1.0], [0.9999, 0.9999, 0.001, 0.5, 2.0])
"""Time constant (raised to two steps by the engine) and impedance of dry friction: as hard as the engine allows."""
GROUND = "ground"


@dataclass(frozen=True, kw_only=True)
class Built:
    """A compiled model and what was built into it."""

    robot: Robot
    model: mujoco.MjModel
    features: frozenset[str]
    """Structural needs of the Params: 'friction_law', 'dcmotor', 'sensor_history', ..."""
    motors: tuple[str, ...]
    """Actuators that became motors with windings (K, R, voltage)."""
    terrain: Terrain | None

    def named(self, kind: mujoco.mjtObj) -> list[str]:
        """Names of all objects of a kind, in the model's order; unnamed ones are ''."""
        count = {
            mujoco.mjtObj.mjOBJ_GEOM: self.model.ngeom,
            mujoco.mjtObj.mjOBJ_BODY: self.model.nbody,
            mujoco.mjtObj.mjOBJ_JOINT: self.model.njnt,
        }[kind]
        return [mujoco.mj_id2name(self.model, kind, i) or "" for i in range(count)]


def matching(of: str | tuple[str, ...], names: Iterable[str], what: str) -> list[str]:
    """Names that a pattern or a list of names selects, in the order of `names`; an empty selection is an error."""
    names = [name for name in names if name]
    if isinstance(of, tuple):
        for name in of:
            if name not in names:
                raise InputError(f"{name!r} is not a {what} of this robot {did_you_mean(name, names)}")
        return [name for name in names if name in of]
    try:
        found = [name for name in names if re.fullmatch(of, name)]
    except re.error as error:
        raise InputError(f"pattern {of!r} is not a regular expression: {error}") from None
    if not found:
        raise InputError(f"pattern {of!r} matches no {what} of this robot {did_you_mean(of, names)}")
    return found


def build(robot: Robot, params: Params, *, collisions: str = "few") -> Built:
    """Compile a robot's model with everything its Params need built in."""
    spec = robot.spec(collisions=collisions)
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    features: set[str] = set()
    terrain: Terrain | None = None
    if robot.ground and not any(g.type == mujoco.mjtGeom.mjGEOM_PLANE for g in spec.geoms):
        spec.worldbody.add_geom(
            name=GROUND,
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=[0, 0, 1],
            friction=[1, 0.005, 0.0001],
            contype=1,
            conaffinity=1,
            material=_scenery(spec),
        )
    for name, param in sorted(params.items(), key=lambda item: item[1].about.structural != "terrain"):
        need = param.about.structural
        features |= {need} - {""}
        try:
            if need == "terrain":
                if terrain is not None:
                    raise InputError("a Sim has one terrain: give roughness or step_height, not both")
                terrain = add_terrain(spec, param, GROUND)
            elif need in EDITS:
                EDITS[need](spec, robot, param)
        except InputError as error:
            raise InputError(f"param '{name}': {error}") from None
    motors = _add_actuators(spec, robot, params)
    _add_sensors(spec, robot)
    if robot.height and robot.base is not None:
        spec.body(robot.base).pos[2] = robot.height
    return Built(robot=robot, model=spec.compile(), features=frozenset(features), motors=motors, terrain=terrain)


def _scenery(spec: mujoco.MjSpec) -> str:
    """Light, sky and a checkered floor, for pictures; returns the floor's material."""
    spec.worldbody.add_light(
        pos=[0, 0, 4], dir=[0.05, 0.1, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, diffuse=[0.5, 0.5, 0.5]
    )
    sky, checker = mujoco.mjtTexture.mjTEXTURE_SKYBOX, mujoco.mjtTexture.mjTEXTURE_2D
    spec.add_texture(
        name="sky",
        type=sky,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.75, 0.83, 0.92],
        rgb2=[0.95, 0.96, 0.98],
        width=64,
        height=384,
    )
    spec.add_texture(
        name="checker",
        type=checker,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.86, 0.87, 0.88],
        rgb2=[0.78, 0.8, 0.82],
        width=64,
        height=64,
    )
    material = spec.add_material(name="floor", texrepeat=[2, 2], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "checker"
    return "floor"


# -------------------------------------------------------------------- edits, one a structural need


def _geoms(spec: mujoco.MjSpec, param: Param) -> list[mujoco.MjsGeom]:
    return [spec.geom(name) for name in matching(param.of, [g.name for g in spec.geoms], "geom")]


def _priority(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    """Let the matched geoms decide their contacts alone; what held between them and the ground becomes their own."""
    planes = [g for g in spec.worldbody.geoms if g.type == mujoco.mjtGeom.mjGEOM_PLANE]
    ground = spec.geom(GROUND) or next(iter(planes), None)
    for geom in _geoms(spec, param):
        if geom.priority >= LEADING:
            continue
        if ground is not None and geom.name != ground.name and geom.priority <= ground.priority < LEADING:
            equal = geom.priority == ground.priority
            mix = geom.solmix / (geom.solmix + ground.solmix) if equal else 0.0
            geom.friction = np.maximum(geom.friction, ground.friction) if equal else ground.friction
            geom.condim = max(geom.condim, ground.condim) if equal else ground.condim
            geom.solref = mix * geom.solref + (1 - mix) * ground.solref
            geom.solimp = mix * geom.solimp + (1 - mix) * ground.solimp
        geom.priority = LEADING


LEADING = 1000
"""Contact priority of geoms with contact Params: above anything a model file says."""


def _condim(dimension: int):
    def edit(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
        _priority(spec, robot, param)
        for geom in _geoms(spec, param):
            geom.condim = max(geom.condim, dimension)

    return edit


def _soft(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    """Let the contact's stiffness build up from a tenth, so that the depth over which it does so can be felt."""
    _priority(spec, robot, param)
    for geom in _geoms(spec, param):
        geom.solimp[0] = 0.1


def _inertial(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    for name in matching(param.of, [b.name for b in spec.bodies if b.name != "world"], "body"):
        spec.body(name).simple = 0


def _payload(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    bodies = matching(param.of, [b.name for b in spec.bodies if b.name != "world"], "body")
    if len(bodies) != 1:
        raise InputError(f"a payload sits on one body, {param.of!r} matches {', '.join(bodies)}: name one")
    name = payload_name(bodies[0])
    size, mass = param.options["size"], param.options.get("mass", param.low)
    existing = spec.body(name)
    body = (
        existing
        if existing is not None
        else spec.body(bodies[0]).add_body(name=name, pos=[0.0, 0.0, 0.1], ipos=[0, 0, 0])
    )
    if "place" in param.options:
        body.pos = param.options["place"]
    if existing is None or param.kind == "payload_mass":
        body.mass, body.inertia, body.explicitinertial = mass, [mass * size**2 / 6] * 3, True
    spec.body(bodies[0]).simple = 0
    body.simple = 0


def payload_name(body: str) -> str:
    """Name of the payload's body on `body`."""
    return f"{body}_payload"


def _flex(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    axes = {"x": [1, 0, 0], "y": [0, 1, 0], "z": [0, 0, 1]}
    for name in matching(param.of, [b.name for b in spec.bodies if b.name != "world"], "body"):
        body, axis = spec.body(name), param.options["axis"]
        if body.joints and body.joints[0].type == mujoco.mjtJoint.mjJNT_FREE:
            raise InputError(f"body '{name}' moves freely, so no link holds it that could bend: name another body")
        if spec.joint(flex_name(name)) is not None:
            continue  # another Param owns it, which is refused with both names later
        if axis == "joint":
            if not body.joints:
                raise InputError(f"body '{name}' has no joint to take the axis of its compliance from: give axis='y'")
            axis = body.joints[0].axis
        elif axis in axes:
            axis = axes[axis]
        else:
            raise InputError(f"axis={axis!r} of link_compliance is not 'joint', 'x', 'y' or 'z'")
        body.add_joint(
            name=flex_name(name),
            axis=axis,
            stiffness=_middle(param),
            damping=[param.options["damping"], 0, 0],
            armature=1e-4,
        )


def flex_name(body: str) -> str:
    """Name of the hinge that lumps a link's compliance."""
    return f"{body}_flex"


def _behind_joint(spec: mujoco.MjSpec, robot: Robot, param: Param, suffix: str, **joint) -> None:
    """Add a second joint behind each matched one: the first then moves the motor, both together the link."""
    for name in matching(param.of, robot.joints, "joint"):
        first = spec.joint(name)
        if spec.joint(name + suffix) is not None:
            continue  # another Param owns it, which is refused with both names later
        if first.armature <= 0:
            raise InputError(f"joint '{name}' has no armature, so its motor side would weigh nothing: give it one")
        first.parent.simple = 0
        first.parent.add_joint(
            name=f"{name}{suffix}", type=first.type, axis=first.axis, pos=first.pos, armature=1e-5, **joint
        )


def _stick(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    """Make dry friction hold: as the engine has it by default, a joint that friction should hold creeps away."""
    for name in matching(param.of, robot.joints, "joint"):
        joint = spec.joint(name)
        joint.solref_friction, joint.solimp_friction = FRICTION_SOLVER


def _play(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    half = 0.5 * _middle(param)
    limits = {"limited": True, "range": [-half, half], **LIMIT_SOLVER}
    _behind_joint(spec, robot, param, PLAY, damping=[1e-4, 0, 0], **limits)


def _spring(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    _behind_joint(
        spec, robot, param, SPRING, stiffness=[_middle(param), 0, 0], damping=[param.options["damping"], 0, 0]
    )


PLAY, SPRING = "_play", "_spring"


def _middle(param: Param) -> float:
    if param.nominal is not None:
        return param.nominal
    return float(np.sqrt(param.low * param.high)) if param.scale == "log" else 0.5 * (param.low + param.high)


def _rotor(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    if not any(a.model == "rotor" for a in robot.actuators):
        raise InputError(f"robot '{robot.name}' has no rotors")


EDITS = {
    "priority": _priority,
    "ground_law": _priority,
    "soft": _soft,
    "condim4": _condim(4),
    "condim6": _condim(6),
    "inertial": _inertial,
    "payload": _payload,
    "flex": _flex,
    "play": _play,
    "spring": _spring,
    "stick": _stick,
    "friction_law": _stick,
    "rotor": _rotor,
}


# -------------------------------------------------------------------- actuators and sensors


def _add_actuators(spec: mujoco.MjSpec, robot: Robot, params: Params) -> tuple[str, ...]:
    """Give every joint its motor, in the order of robot.actuators; returns those with windings."""
    native = any(a.model == "native" for a in robot.actuators)
    if not native:
        for actuator in list(spec.actuators):
            spec.delete(actuator)
    wound: dict[str, Mapping[str, object]] = {}
    joints = [a.name for a in robot.actuators]
    for name, param in params.items():
        if param.about.structural == "sag_law":
            wound |= {
                a.name: wound.get(a.name, {}) for a in robot.actuators if a.model == "pd" and a.voltage is not None
            }
        if param.about.structural in MOTOR_PARAMS:
            try:
                for joint in matching(param.of, joints, "actuated joint"):
                    wound[joint] = {
                        **wound.get(joint, {}),
                        **{f"{param.kind}.{k}": v for k, v in param.options.items()},
                    }
                    if param.about.structural == "thermal":
                        wound[joint] = {**wound[joint], "thermal": _middle(param)}
            except InputError as error:
                raise InputError(f"param '{name}': {error}") from None
    for actuator in robot.actuators:
        if actuator.model != "native":
            options = wound.get(actuator.name)
            _add_actuator(spec, actuator, options if actuator.model != "voltage" else (options or {}))
    return tuple(a.name for a in robot.actuators if a.name in wound or a.model == "voltage")


def _add_actuator(spec: mujoco.MjSpec, a: Actuator, wound: Mapping[str, object] | None) -> None:
    """One actuator; `wound` holds the options of its windings, None for an ideal torque source."""
    act = spec.add_actuator(name=a.name, target=a.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    if wound is not None and a.model in ("pd", "voltage"):
        _wind(act, a, wound)
    elif wound is not None:
        raise InputError(f"'{a.name}' is driven by {a.model}: only pd and voltage actuators can have windings")
    elif a.model == "pd":
        act.set_to_position(kp=a.kp, kv=a.kd)
    elif a.model == "velocity":
        act.set_to_velocity(kv=a.kd)
    elif a.model == "torque":
        act.set_to_motor()
    else:
        act.trntype = mujoco.mjtTrn.mjTRN_SITE
        act.set_to_motor()
        act.gear = [0, 0, a.thrust_max, 0, 0, a.spin * a.moment_ratio * (a.thrust_max or 0.0)]
    if a.torque_limit is not None:
        act.forcelimited, act.forcerange = True, [-a.torque_limit, a.torque_limit]


def _wind(act: mujoco.MjsActuator, a: Actuator, options: Mapping[str, object]) -> None:
    constant, resistance, voltage = windings(a)
    thermal = [0.0] * 6
    if "thermal" in options:
        o = {k.removeprefix("thermal."): v for k, v in options.items()}
        thermal = [o["thermal"], o["capacity"], 0.0, o["coefficient"], o["ambient"], o["ambient"]]
    cogging = [1e-9, float(options["cogging.poles"]), 0.0] if "cogging.poles" in options else [0.0] * 3  # type: ignore[arg-type]
    controlled = a.model == "pd"
    act.set_to_dcmotor(
        motorconst=[constant, constant],
        resistance=resistance,
        cogging=cogging,
        thermal=thermal,  # type: ignore[arg-type]
        controller=[a.kp, 0, a.kd, 0, 0, voltage] if controlled else [0.0] * 6,
        ctrlspec=CONTROL_POSITION if controlled else CONTROL_VOLTAGE,
    )
    if not controlled and a.voltage is not None:
        act.ctrllimited, act.ctrlrange = True, [-a.voltage, a.voltage]


CONTROL_POSITION, CONTROL_VOLTAGE = 1, 8


def windings(a: Actuator) -> tuple[float, float, float]:
    """Torque constant K [N·m/A], resistance R [ohm] and supply [V] of a motor at its joint.

    From K and R where the robot file has them, else from stall torque and no-load speed: K = V / ω0, R = K V / τ_stall.
    """
    voltage = a.voltage
    if a.torque_constant is not None and a.resistance is not None:
        return a.torque_constant, a.resistance, voltage if voltage is not None else 1e6
    if voltage is None or a.speed_limit is None or a.torque_limit is None:
        raise InputError(
            f"the motor of '{a.name}' has no windings: its robot file needs torque_constant and resistance, "
            f"or voltage, speed_limit and torque_limit"
        )
    constant = voltage / a.speed_limit
    return constant, constant * voltage / a.torque_limit, voltage


def _add_sensors(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Native sensors for what the state does not hold: accelerometer, and contact force of each foot."""
    kinds = {s.kind for s in robot.sensors}
    if robot.imu is not None and "imu" in kinds:
        spec.add_sensor(
            name="accel",
            type=mujoco.mjtSensor.mjSENS_ACCELEROMETER,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            objname=robot.imu,
        )
        body = spec.site(robot.imu).parent.name
        if body != robot.base:
            # The state holds the rates and attitude of a free base only; elsewhere the engine reads them.
            gyro, frame = mujoco.mjtSensor.mjSENS_GYRO, mujoco.mjtSensor.mjSENS_FRAMEQUAT
            spec.add_sensor(name="gyro", type=gyro, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=robot.imu)
            spec.add_sensor(name="quat", type=frame, objtype=mujoco.mjtObj.mjOBJ_XBODY, objname=body)
    for sensor in robot.sensors:
        if sensor.kind == "foot_force":
            for geom in sensor.of:
                spec.add_sensor(
                    name=f"force:{geom}",
                    type=mujoco.mjtSensor.mjSENS_CONTACT,
                    objtype=mujoco.mjtObj.mjOBJ_GEOM,
                    objname=geom,
                    intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), 3, 1],
                )
        elif sensor.kind == "wrench":
            for kind, suffix in ((mujoco.mjtSensor.mjSENS_FORCE, "force"), (mujoco.mjtSensor.mjSENS_TORQUE, "torque")):
                spec.add_sensor(
                    name=f"wrench:{suffix}", type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=sensor.site
                )
