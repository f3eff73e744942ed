"""What a structural Param needs in the model, one edit of the MjSpec for each need."""

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.params import Param
from surefoot.robots import Robot
from surefoot.sim.names import GROUND, matching

LIMIT_SOLVER = {"solref_limit": [0.004, 1.0], "solimp_limit": [0.95, 0.99, 0.0005, 0.5, 2.0]}
FRICTION_SOLVER = ([0.002, 1.0], [0.9999, 0.9999, 0.001, 0.5, 2.0])
"""Time constant (raised to two steps by the engine) and impedance of dry friction: as hard as the engine allows."""


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
            stiffness=middle(param),
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
    half = 0.5 * middle(param)
    limits = {"limited": True, "range": [-half, half], **LIMIT_SOLVER}
    _behind_joint(spec, robot, param, PLAY, damping=[1e-4, 0, 0], **limits)


def _spring(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    _behind_joint(spec, robot, param, SPRING, stiffness=[middle(param), 0, 0], damping=[param.options["damping"], 0, 0])


def _cable(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    """Give the joint a spring to have a rest angle, where the model has none."""
    for name in matching(param.of, robot.joints, "joint"):
        joint = spec.joint(name)
        if joint.stiffness[0] == 0.0:
            joint.stiffness = [param.options["stiffness"], 0.0, 0.0]


PLAY, SPRING = "_play", "_spring"


def middle(param: Param) -> float:
    """Value a structural part is built with: the stated nominal, else the middle of the range."""
    if param.nominal is not None:
        return param.nominal
    return float(np.sqrt(param.low * param.high)) if param.scale == "log" else 0.5 * (param.low + param.high)


def _rotor(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    if not any(a.model == "rotor" for a in robot.actuators):
        raise InputError(f"robot '{robot.name}' has no rotors")


def _rotor_spin(spec: mujoco.MjSpec, robot: Robot, param: Param) -> None:
    """A fixed tendon q_before + way gear q for each matched joint; its armature is the rotor's inertia."""
    if param.options["way"] not in (-1, 1):
        raise InputError(f"way={param.options['way']!r} of rotor_inertia is not -1 (against the joint) or 1 (with it)")
    compiled = spec.copy().compile()
    for name in matching(param.of, robot.joints, "joint"):
        if spec.tendon(spin_name(name)) is not None:
            continue  # another Param owns it, which is refused with both names later
        gear = robot.actuator(name).gear
        if gear is None:
            raise InputError(f"the robot file states no gear for '{name}': give its actuator one")
        before, sign = _joint_before(compiled, name)
        tendon = spec.add_tendon(
            name=spin_name(name), armature=param.low if param.nominal is None else float(param.nominal)
        )
        tendon.wrap_joint(before, sign)
        tendon.wrap_joint(name, param.options["way"] * gear)


def _joint_before(model: mujoco.MjModel, name: str) -> tuple[str, float]:
    """The hinge of the link before that turns about the same axis as hinge `name`, and 1 or -1 where its axis points the other way."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    joint = model.joint(name).id
    link = model.body_parentid[model.jnt_bodyid[joint]]
    hinge = int(mujoco.mjtJoint.mjJNT_HINGE)
    for other in range(model.njnt):
        along = float(data.xaxis[other] @ data.xaxis[joint])
        turns = model.jnt_bodyid[other] == link and model.jnt_type[other] == model.jnt_type[joint] == hinge
        if turns and abs(along) > 1 - 1e-6:
            return model.joint(other).name, float(np.sign(along))
    raise InputError(f"no hinge of the link before '{name}' turns about the same axis: nothing would couple")


def spin_name(joint: str) -> str:
    """Name of the tendon that carries a rotor's inertia."""
    return f"{joint}_rotor"


EDITS = {
    "rotor_spin": _rotor_spin,
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
    "cable": _cable,
    "stick": _stick,
    "friction_law": _stick,
    "rotor": _rotor,
}
