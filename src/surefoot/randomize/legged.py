"""A preset of unknowns for legged robots: the union of what published trainings that walked on robots switch on.

Holosoma, FALCON and BFM-Zero share ancestors, so that their agreement is one piece of evidence, not three.
Ranges that the sources give as factors are taken relative to this robot's own figures.
"""

import re
from collections.abc import Mapping

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.params import CONSTRUCTORS, Param, Params
from surefoot.robots import Actuator, Robot

SOURCES = {
    "foot_friction": "0.25 to 1.25: FALCON (G1, T1); 0.5 to 1.25: holosoma G1, BFM-Zero G1, legged_gym; "
    "0.4 to 1.0: MuJoCo Playground",
    "trunk_mass": "-1 to +3 kg: holosoma G1 and FALCON; ±1 kg: legged_gym (off by default), MuJoCo Playground",
    "trunk_com": "±5 cm: holosoma G1, MuJoCo Playground Go1; ±2 cm: BFM-Zero G1",
    "link_mass": "x 0.9 to 1.2: holosoma G1 and FALCON; x 0.9 to 1.1: MuJoCo Playground; x 0.95 to 1.05: BFM-Zero G1",
    "gains": "x 0.9 to 1.1: holosoma G1 and FALCON",
    "armature": "x 1.0 to 1.05: MuJoCo Playground Go1 and G1",
    "coulomb": "x 0.5 to 2.0: MuJoCo Playground G1; x 0.9 to 1.1: its Go1",
    "joint_zero": "±0.02 rad on the default joint positions: BFM-Zero G1; ±0.01: BeyondMimic; ±0.05: MuJoCo Playground",
    "command_delay": "0 to 1 policy step: holosoma G1 and FALCON",
    "push": "1 m/s: every 5 to 10 s holosoma G1, every 15 s legged_gym; 0.5 m/s every 1 to 3 s: BFM-Zero G1",
}
"""Where each range comes from."""

SIDE = re.compile(r"^(left|right|front|rear|hind|FL|FR|RL|RR|LF|RF|LH|RH|HL|HR|[lrLR])_")


def legged(robot: Robot, *, each: bool = False) -> Params:
    """Params for training a legged robot, each with the source of its range.

    `foot_friction`, `trunk_mass`, `trunk_com_x|y|z`, `<link>_mass`, `kp`, `kd`, `armature`, `coulomb` (with the motor's
    first joint in front where a robot has several motors), `joint_zero` (one a joint), `command_delay`, `push`. The
    trunk is the heaviest body.

    Args:
        robot: a robot with a free base and feet.
        each: False ties links that are alike (left and right, all four hips) and joints with the same motor, which
            keeps e small; True gives every link and joint its own value, as the sources do.
    """
    if robot.base is None or not robot.feet:
        raise InputError(
            f"{robot.name} has no free base with feet, so it is not a legged robot: use its own robot.params"
        )
    model = robot.spec().compile()
    masses = {model.body(i).name: float(model.body_mass[i]) for i in range(1, model.nbody) if model.body_mass[i] > 0.0}
    trunk = max(masses, key=lambda name: masses[name])
    params = {
        "foot_friction": _made(
            "friction", robot.feet, (0.25, 1.25), _foot_friction(model, robot), SOURCES["foot_friction"], scale="log"
        ),
        "trunk_mass": _made(
            "mass",
            (trunk,),
            (max(masses[trunk] - 1.0, 0.5 * masses[trunk]), masses[trunk] + 3.0),
            masses[trunk],
            SOURCES["trunk_mass"],
        ),
    }
    for axis in "xyz":
        params[f"trunk_com_{axis}"] = _made("com", (trunk,), (-0.05, 0.05), 0.0, SOURCES["trunk_com"], axis=axis)
    params |= _links({name: mass for name, mass in masses.items() if name != trunk}, each)
    params |= _motors(robot, each)
    params["joint_zero"] = _made("zero_offset", ".*", (-0.02, 0.02), 0.0, SOURCES["joint_zero"], each=True)
    params["command_delay"] = _made("command_delay", ".*", (0.0, robot.control_dt), 0.0, SOURCES["command_delay"])
    params["push"] = _made("push", ".*", (0.0, 1.0), 0.0, SOURCES["push"], interval=7.5)
    return Params(**params)


def _made(
    kind: str, of: str | tuple[str, ...], ends: tuple[float, float], nominal: float, source: str, **more
) -> Param:
    return CONSTRUCTORS[kind](of, low=ends[0], high=ends[1], nominal=nominal, source=source, **more)


def _foot_friction(model: mujoco.MjModel, robot: Robot) -> float:
    return float(np.mean([model.geom(name).friction[0] for name in robot.feet]))


def _links(masses: Mapping[str, float], each: bool) -> dict[str, Param]:
    """One Param for links that are alike: the same name but for the side, the same mass to 0.1 %."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, mass in masses.items():
        alike.setdefault((stem(name), f"{mass:.3g}"), []).append(name)
    stems = [key[0] for key in alike]
    out = {}
    for (shared, _), names in alike.items():
        mass = float(np.mean([masses[name] for name in names]))
        label = shared if stems.count(shared) == 1 else re.sub(r"_link$", "", names[0])
        many = each and len(names) > 1
        out[f"{label}_mass"] = _made(
            "mass", tuple(names), (0.9 * mass, 1.2 * mass), mass, SOURCES["link_mass"], each=many
        )
    return out


def _motors(robot: Robot, each: bool) -> dict[str, Param]:
    """Gains, rotor inertia and dry friction, one Param for joints with the same motor."""
    motors: dict[tuple[float, ...], list[Actuator]] = {}
    for actuator in robot.actuators:
        if actuator.model in ("pd", "velocity", "torque", "voltage"):
            motors.setdefault((actuator.kp, actuator.kd, actuator.armature, actuator.coulomb), []).append(actuator)
    factors = {"kp": (0.9, 1.1), "kd": (0.9, 1.1), "armature": (1.0, 1.05), "coulomb": (0.5, 2.0)}
    out = {}
    for kind, (low, high) in factors.items():
        for same in motors.values():
            nominal = getattr(same[0], kind)
            if nominal <= 0.0:
                continue
            label = kind if len(motors) == 1 else f"{stem(same[0].name)}_{kind}"
            more = {"scale": "log"} if kind == "coulomb" else {}
            source = SOURCES["gains" if kind in ("kp", "kd") else kind]
            names = tuple(actuator.name for actuator in same)
            of = ".*" if set(names) == set(robot.joints) else names
            out[label] = _made(kind, of, (low * nominal, high * nominal), nominal, source, each=each, **more)
    return out


def stem(name: str) -> str:
    """What is left of a link's or joint's name without its side: 'FL_thigh_joint' -> 'thigh'."""
    return re.sub(r"_(joint|link)$", "", SIDE.sub("", name)) or name
