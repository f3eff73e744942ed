"""Reading a robot: a folder with robot.toml, the .toml itself, or a bare .xml / .urdf."""

import hashlib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco

from surefoot.errors import InputError, did_you_mean
from surefoot.params import Params
from surefoot.robots.robot import CHANNELS, OPTION_KEYS, Actuator, Robot, SensorSpec, write_options
from surefoot.robots.scan import scan_points
from surefoot.robots.table import Table

LIBRARY = Path(__file__).parent / "library"

FIGURES: dict[str, tuple[str, ...]] = {
    "encoder": ("noise", "quantum", "bias", "velocity_noise"),
    "imu": ("gyro_noise", "gyro_bias", "gyro_walk", "accel_noise", "accel_bias", "accel_walk"),
    "foot_force": ("noise", "drift"),
    "wrench": ("noise", "drift"),
    "motor_torque": ("noise",),
    "position": ("noise", "velocity_noise"),
    "height_scan": ("length", "width", "spacing", "range", "noise", "offset"),
}
"""Sensor kind -> the figures it may have; units in docs/robots.md."""


def available() -> list[str]:
    """Names of the robots that come with surefoot."""
    return sorted(path.parent.name for path in LIBRARY.glob("*/robot.toml"))


def load(robot: str | Path) -> Robot:
    """Load a robot by its name in the library, or from a folder, a robot file (.toml), an .xml or a .urdf.

    A bare model has no robot file: joint order, limits and actuators ("native") come from the model itself.
    """
    if (LIBRARY / str(robot) / "robot.toml").is_file() and Path(robot).name == str(robot):
        return _from_toml(LIBRARY / str(robot) / "robot.toml")
    path = Path(robot)
    if path.is_dir():
        if not (path / "robot.toml").is_file():
            raise InputError(f"the folder {path} holds no robot.toml: write one, or give the model file itself")
        path = path / "robot.toml"
    if path.is_file():
        if path.suffix == ".toml":
            return _from_toml(path)
        if path.suffix in (".xml", ".urdf", ".mjcf"):
            return _from_model(path)
        raise InputError(f"{path} is not a robot: give a folder, a .toml, an .xml (MJCF) or a .urdf")
    if path.suffix or len(path.parts) > 1:
        raise InputError(f"no robot at {path}: there is no such file or folder")
    raise InputError(f"{str(robot)!r} is not a robot of the library {did_you_mean(str(robot), available())}")


def compiled(path: Path) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    """The spec and the compiled model of a model file; what MuJoCo refuses becomes one sentence."""
    if not path.is_file():
        raise InputError(f"the model file {path} does not exist")
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        return spec, spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"MuJoCo cannot read {path}: {reason}") from None


def _digest(files: Sequence[Path], spec: mujoco.MjSpec) -> str:
    """Content hash over the files and the assets the spec names."""
    folder = files[-1].parent
    meshes = [folder / spec.meshdir / mesh.file for mesh in spec.meshes if mesh.file]
    digest = hashlib.sha256()
    for path in [*files, *sorted(path for path in meshes if path.is_file())]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _movable(model: mujoco.MjModel) -> list[str]:
    """Names of the hinge and slide joints in the model's order."""
    scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    return [model.joint(i).name for i in range(model.njnt) if int(model.jnt_type[i]) in scalar]


def _free_body(model: mujoco.MjModel) -> str | None:
    """The body that carries a free joint, if any."""
    for i in range(model.njnt):
        if int(model.jnt_type[i]) == int(mujoco.mjtJoint.mjJNT_FREE):
            return model.body(int(model.jnt_bodyid[i])).name
    return None


def _names(model: mujoco.MjModel, kind: str) -> list[str]:
    """Names of all bodies, geoms, sites ... of the model."""
    count = {"body": model.nbody, "geom": model.ngeom, "site": model.nsite}[kind]
    return [name for i in range(count) if (name := getattr(model, kind)(i).name)]


def _from_model(path: Path) -> Robot:
    spec, model = compiled(path)
    joints = _movable(model)
    if "" in joints:
        raise InputError(f"{path}: joint {joints.index('')} of the model has no name; name every joint")
    actuators = []
    for i in range(model.nu):
        name = model.actuator(i).name or f"actuator{i}"
        limit = _native_limit(model, i)
        actuators.append(Actuator(name=name, model="native", torque_limit=limit, source="the model file"))
    base = _free_body(model)
    height = float(model.body(base).pos[2]) if base else 0.0
    return Robot(
        name=path.stem,
        title=f"{spec.modelname} (bare model)",
        licence="not stated",
        folder=path.parent,
        model=path,
        base=base,
        feet=(),
        imu=None,
        ground=base is not None,
        timestep=float(model.opt.timestep),
        control_dt=float(model.opt.timestep),
        joints=tuple(joints),
        pose={name: float(model.qpos0[model.joint(name).qposadr[0]]) for name in joints},
        height=height,
        actuators=tuple(actuators),
        sensors=(),
        params=Params(),
        options={},
        hash=_digest([path], spec),
    )


def _native_limit(model: mujoco.MjModel, i: int) -> float | None:
    """Torque limit of a native actuator [N·m]: its force range, or the control range of a plain motor."""
    gear = abs(float(model.actuator_gear[i, 0]))
    if model.actuator_forcelimited[i]:
        return gear * float(model.actuator_forcerange[i].max())
    plain = model.actuator_biastype[i] == int(mujoco.mjtBias.mjBIAS_NONE)
    if plain and model.actuator_ctrllimited[i]:
        return gear * float(model.actuator_gainprm[i, 0] * model.actuator_ctrlrange[i].max())
    return None


def _from_toml(path: Path) -> Robot:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}") from None
    table = Table(values, str(path))
    name = table.take("name", str)
    if not name.isidentifier():
        raise InputError(f"{path}: name = {name!r} must be one word of letters, digits and _")
    file = path.parent / table.take("model", str)
    spec, model = compiled(file)
    joints = _joint_order(table, model)
    base = _one_of(table, "base", _names(model, "body"), "body")
    if base != _free_body(model):
        raise InputError(f"{path}: base = {base!r}, but the body with the free joint is {_free_body(model)!r}")
    timestep = table.positive("timestep")
    robot = Robot(
        name=name,
        title=table.take("title", str),
        licence=table.take("licence", str),
        folder=path.parent,
        model=file,
        base=base,
        feet=_all_of(table, "feet", _names(model, "geom"), "geom"),
        imu=_one_of(table, "imu", _names(model, "site"), "site"),
        ground=table.take("ground", bool, base is not None),
        timestep=timestep,
        control_dt=_multiple(table, timestep),
        joints=joints,
        pose=_pose(table, model, joints, "pose"),
        rest=_pose(table, model, joints, "rest") if "rest" in table.values else {},
        height=table.take("height", float, 0.0),
        actuators=_actuators(table, model, joints),
        sensors=_sensors(table, model, joints),
        params=_params(table),
        options=_options(table),
        hash=_digest([path, file], spec),
    )
    table.finish()
    return robot


def _params(table: Table) -> Params:
    try:
        return Params.from_dict(table.take("params", dict, {}))
    except InputError as error:
        raise InputError(f"{table.where}: {error}") from None


def _joint_order(table: Table, model: mujoco.MjModel) -> tuple[str, ...]:
    known = _movable(model)
    given = table.names("joints", known)
    for name in given:
        if name not in known:
            raise InputError(f"{table.where}: joints names {name!r}, not in the model {did_you_mean(name, known)}")
    missing = [name for name in known if name not in given]
    if missing:
        raise InputError(f"{table.where}: joints leaves out {', '.join(missing)}; name every hinge and slide joint")
    return given


def _one_of(table: Table, key: str, known: list[str], what: str) -> str | None:
    value = table.take(key, str, None)
    if value is not None and value not in known:
        raise InputError(f"{table.where}: {key} = {value!r} is no {what} of the model {did_you_mean(value, known)}")
    return value


def _all_of(table: Table, key: str, known: list[str], what: str) -> tuple[str, ...]:
    values = table.names(key, [])
    for value in values:
        if value not in known:
            raise InputError(
                f"{table.where}: {key} names {value!r}, no {what} of the model {did_you_mean(value, known)}"
            )
    return values


def _multiple(table: Table, timestep: float) -> float:
    control_dt = table.positive("control_dt")
    steps = control_dt / timestep
    if abs(steps - round(steps)) > 1e-6 or round(steps) < 1:
        raise InputError(
            f"{table.where}: control_dt = {control_dt} must be a whole number of timesteps of {timestep} s"
        )
    return control_dt


def _pose(table: Table, model: mujoco.MjModel, joints: Sequence[str], name: str) -> dict[str, float]:
    """Joint positions in the table `name`; joints left out stand at the model's zero pose."""
    given = Table(table.take(name, dict, {}), f"{table.where} [{name}]")
    pose = {}
    for name in joints:
        joint = model.joint(name)
        pose[name] = given.take(name, float, float(model.qpos0[joint.qposadr[0]]))
        low, high = joint.range
        if model.jnt_limited[joint.id] and not low <= pose[name] <= high:
            raise InputError(f"{given.where}: {name} = {pose[name]} lies outside its limits {low:.6g} to {high:.6g}")
    given.finish()
    return pose


def _options(table: Table) -> dict[str, Any]:
    given = table.take("options", dict, {})
    for key in given:
        if key not in OPTION_KEYS:
            raise InputError(f"{table.where} [options] has an unknown key {key!r} {did_you_mean(key, OPTION_KEYS)}")
    try:
        write_options(mujoco.MjSpec(), given)
    except (TypeError, ValueError) as error:
        raise InputError(f"{table.where} [options]: {error}") from None
    return given


def _actuators(table: Table, model: mujoco.MjModel, joints: Sequence[str]) -> tuple[Actuator, ...]:
    """Resolve the [[actuators]]: the first table that matches a joint (or, for rotors, a site) wins."""
    found: dict[str, Actuator] = {}
    sites = _names(model, "site")
    for i, values in enumerate(table.take("actuators", list, [])):
        if not isinstance(values, dict):
            raise InputError(f"{table.where}: actuators must be written as [[actuators]] tables")
        entry = Table(values, f"{table.where} [[actuators]] number {i + 1}")
        kind = entry.take("model", str)
        if kind not in CHANNELS or kind == "native":
            known = [word for word in CHANNELS if word != "native"]
            raise InputError(f"{entry.where}: model = {kind!r} is no actuator model {did_you_mean(kind, known)}")
        rotor = kind == "rotor"
        names = entry.matches("sites", sites, "site") if rotor else entry.matches("joints", joints, "joint")
        shared = _figures_of_rotor(entry) if rotor else _figures_of_motor(entry, kind)
        entry.finish()
        for name in names:
            if name not in found:
                passive: dict[str, Any] = {} if rotor else _passive(model, name)
                found[name] = Actuator(name=name, model=kind, **(passive | shared))
    order = [*joints, *(name for name in found if name not in joints)]
    return tuple(found[name] for name in order if name in found)


def _passive(model: mujoco.MjModel, joint: str) -> dict[str, float]:
    """Armature, damping and Coulomb friction the model file gives the joint."""
    i = int(model.joint(joint).dofadr[0])
    fields = {"armature": model.dof_armature, "damping": model.dof_damping, "coulomb": model.dof_frictionloss}
    return {key: float(values.reshape(model.nv, -1)[i, 0]) for key, values in fields.items()}


def _figures_of_motor(entry: Table, kind: str) -> dict[str, Any]:
    figures: dict[str, Any] = {"source": entry.take("source", str, "")}
    if kind == "pd":
        figures["kp"] = entry.positive("kp")
    if kind in ("pd", "velocity"):
        figures["kd"] = entry.not_negative("kd", *([0.0] if kind == "pd" else []))
    for key in ("torque_limit", "speed_limit", "voltage", "torque_constant", "resistance", "gear"):
        figures[key] = entry.positive(key, None)
    for key in ("armature", "damping", "coulomb"):
        if (value := entry.not_negative(key, None)) is not None:
            figures[key] = value
    if kind == "voltage":
        _motor_constants(entry, figures)
    return figures


def _motor_constants(entry: Table, figures: dict[str, Any]) -> None:
    """Fill K and R from stall torque and no-load speed at the supply voltage, where those were given instead.

    At no load V = K ω₀, at stall τ = K V / R.
    """
    if figures["torque_constant"] is None and None not in (figures["voltage"], figures["speed_limit"]):
        figures["torque_constant"] = figures["voltage"] / figures["speed_limit"]
    if figures["resistance"] is None and None not in (
        figures["torque_constant"],
        figures["voltage"],
        figures["torque_limit"],
    ):
        figures["resistance"] = figures["torque_constant"] * figures["voltage"] / figures["torque_limit"]
    if figures["torque_constant"] is None or figures["resistance"] is None:
        raise InputError(
            f"{entry.where}: a voltage motor needs torque_constant and resistance, "
            "or voltage with torque_limit (stall) and speed_limit (no load)"
        )


def _figures_of_rotor(entry: Table) -> dict[str, Any]:
    spin = entry.take("spin", int)
    if spin not in (-1, 1):
        raise InputError(f"{entry.where}: spin = {spin} must be 1 or -1")
    return {
        "thrust_max": entry.positive("thrust_max"),
        "lag": entry.not_negative("lag", 0.0),
        "moment_ratio": entry.not_negative("moment_ratio", 0.0),
        "spin": spin,
        "source": entry.take("source", str, ""),
    }


def _sensors(table: Table, model: mujoco.MjModel, joints: Sequence[str]) -> tuple[SensorSpec, ...]:
    sensors: list[SensorSpec] = []
    for i, values in enumerate(table.take("sensors", list, [])):
        if not isinstance(values, dict):
            raise InputError(f"{table.where}: sensors must be written as [[sensors]] tables")
        entry = Table(values, f"{table.where} [[sensors]] number {i + 1}")
        kind = entry.take("kind", str)
        if kind not in FIGURES:
            raise InputError(f"{entry.where}: kind = {kind!r} is no sensor {did_you_mean(kind, FIGURES)}")
        of, site = (), None
        if kind in ("imu", "wrench"):
            site = _one_of(entry, "site", _names(model, "site"), "site")
            if site is None:
                raise InputError(f"{entry.where} lacks 'site', the site the {kind} sits at")
        elif kind in ("position", "height_scan"):
            pass
        elif kind == "foot_force":
            of = entry.matches("of", _names(model, "geom"), "geom")
        else:
            of = entry.matches("of", joints, "joint")
        figures = {key: value for key in FIGURES[kind] if (value := entry.not_negative(key, None)) is not None}
        sensor = SensorSpec(
            kind=kind,
            name=entry.take("name", str, kind),
            of=of,
            site=site,
            rate=entry.positive("rate"),
            delay=entry.not_negative("delay", 0.0),
            figures=figures,
            source=entry.take("source", str, ""),
        )
        if kind == "height_scan":
            scan_points(sensor)
        entry.finish()
        if any(other.name == sensor.name for other in sensors):
            raise InputError(f"{entry.where}: another sensor is already called {sensor.name!r}; give it another name")
        sensors.append(sensor)
    return tuple(sensors)
