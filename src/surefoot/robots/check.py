"""What is likely wrong with a robot, found by looking at its files: the work behind `surefoot robot check PATH`.

Every finding says what, where, and what to do. Errors make the simulation wrong, warnings probably do, notes are
worth knowing.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import mujoco
import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.robots.read import available, load
from surefoot.robots.robot import Robot
from surefoot.robots.strip import strippable

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing found: `what` is wrong, `where` it is, and what to do about it (`advice`)."""

    level: Level
    what: str
    where: str
    advice: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.what}; {self.advice}"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The robot under examination: as read, its model file as written, and compiled with the robot file."""

    robot: Robot
    source: mujoco.MjSpec  # the model file alone
    bare: mujoco.MjModel  # the model file alone, compiled
    model: mujoco.MjModel  # with the robot file's options and friction
    data: mujoco.MjData  # at the default pose


def check(path: str | Path) -> list[Finding]:
    """Examine a robot (library name, folder, .toml, .xml, .urdf); worst findings first.

    A robot that cannot be read gives a single error that says why.
    """
    try:
        robot = load(path)
        subject = _subject(robot)
    except InputError as error:
        return [_refusal(str(error), str(path))]
    findings = [finding for examine in EXAMINATIONS for finding in examine(subject)]
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.level))


REFUSALS = {
    "A + B >= C": "the inertia of a body breaks the triangle inequality: no moment may exceed the sum of the other two",
    "larger than mjMINVAL": "a moving body has no mass or no inertia",
    "range[0] should be smaller": "the limits of a joint are reversed: low is not below high",
    "has no name": "a joint has no name",
    "lies outside its limits": "the default pose lies outside a joint's limits",
}
"""Fragment of a refusal -> what it means."""


def _refusal(sentence: str, path: str) -> Finding:
    for fragment, meaning in REFUSALS.items():
        if fragment in sentence:
            return Finding(level="error", what=meaning, where=path, advice=f"it was refused with: {sentence}")
    return Finding(level="error", what=sentence, where=path, advice="correct the file and check again")


def _subject(robot: Robot) -> Subject:
    source = mujoco.MjSpec.from_file(str(robot.model))
    bare = source.compile()
    model = robot.spec().compile()
    data = mujoco.MjData(model)
    for name, position in robot.pose.items():
        data.joint(name).qpos = position
    mujoco.mj_forward(model, data)
    return Subject(robot=robot, source=source, bare=bare, model=model, data=data)


def _reach(model: mujoco.MjModel, body: int) -> tuple[float, float]:
    """Farthest point of a body's shapes from its centre of mass [m], and their volume [m^3]; 0, 0 without shapes."""
    far = volume = 0.0
    for i in range(int(model.body_geomadr[body]), int(model.body_geomadr[body] + model.body_geomnum[body])):
        if model.geom_type[i] == int(mujoco.mjtGeom.mjGEOM_PLANE):
            continue
        half = model.geom_aabb[i, 3:]
        far = max(far, float(np.linalg.norm(model.geom_pos[i] - model.body_ipos[body]) + np.linalg.norm(half)))
        volume += float(8.0 * half.prod())
    return far, volume


def _inertia(subject: Subject) -> Iterator[Finding]:
    """Mass and inertia against the size of the shapes: wrong units and forgotten digits show here."""
    model = subject.bare
    for body in range(1, model.nbody):
        mass, moments = float(model.body_mass[body]), model.body_inertia[body]
        far, volume = _reach(model, body)
        if mass == 0.0 or far == 0.0:
            continue
        where = f"body {model.body(body).name!r}"
        gyration = float(np.sqrt(moments.max() / mass))  # [m]
        if gyration > 2.0 * far:
            what = f"its radius of gyration, {gyration:.3g} m, exceeds the reach of its shapes, {far:.3g} m"
            yield Finding(level="error", what=what, where=where, advice="inertia is about the centre of mass in kg·m²")
        elif gyration < 0.02 * far:
            what = f"its radius of gyration, {gyration:.2g} m, is tiny against the reach of its shapes, {far:.3g} m"
            yield Finding(
                level="warning", what=what, where=where, advice="fine for a point mass, else scale the inertia"
            )
        density = mass / volume
        if density > 20_000.0 or density < 5.0:
            what = f"{mass:.3g} kg in shapes of {volume * 1e3:.3g} litres is {density:.3g} kg/m³"
            yield Finding(
                level="warning", what=what, where=where, advice="lead has 11 000, foam 30: check mass and sizes"
            )


MIRRORS = (("left", "right"), ("FL", "FR"), ("RL", "RR"), ("LF", "RF"), ("LH", "RH"))


def _symmetry(subject: Subject) -> Iterator[Finding]:
    """Left and right twins of different mass."""
    model = subject.bare
    names = {model.body(i).name for i in range(model.nbody)}
    for one, two in MIRRORS:
        for name in sorted(names):
            twin = name.replace(one, two)
            if twin == name or twin not in names:
                continue
            a, b = float(model.body(name).mass[0]), float(model.body(twin).mass[0])
            if abs(a - b) > 0.01 * max(a, b):
                what = f"{name} has {a:.4g} kg but {twin} has {b:.4g} kg"
                yield Finding(
                    level="warning", what=what, where=f"body {name!r}", advice="one of the two was edited alone"
                )


def _limits(subject: Subject) -> Iterator[Finding]:
    """Joint limits that are missing, reversed or in the wrong unit."""
    model, robot = subject.model, subject.robot
    for joint in subject.source.joints:
        if joint.range[0] > joint.range[1]:
            what = f"the limits of a joint are reversed: {joint.range[0]:g} is above {joint.range[1]:g}"
            advice = "MuJoCo then ignores them without a word; swap them"
            yield Finding(level="error", what=what, where=f"joint {joint.name!r}", advice=advice)
    driven = [a.name for a in robot.actuators if a.model == "pd" and a.name in robot.joints]
    for name in robot.joints:
        i = model.joint(name).id
        low, high = model.jnt_range[i]
        if not model.jnt_limited[i] and name in driven:
            what = "it is driven to positions but has no limits"
            yield Finding(
                level="note", what=what, where=f"joint {name!r}", advice="give the joint a range if it has stops"
            )
        elif model.jnt_limited[i] and high - low > 20.0 and model.jnt_type[i] == int(mujoco.mjtJoint.mjJNT_HINGE):
            what = f"its range of {high - low:.4g} rad is more than three turns"
            yield Finding(
                level="warning", what=what, where=f"joint {name!r}", advice="degrees written where radians are read?"
            )


def _names(subject: Subject) -> Iterator[Finding]:
    """Bodies and colliding geoms that no Param could be pointed at."""
    model = subject.bare
    bodies = sum(not model.body(i).name for i in range(model.nbody))
    touching = (model.geom_contype | model.geom_conaffinity) != 0
    geoms = sum(not model.geom(i).name for i in range(model.ngeom) if touching[i])
    for count, kind in ((bodies, "bodies"), (geoms, "colliding geoms")):
        if count:
            what = f"{count} {kind} have no name"
            yield Finding(level="warning", what=what, where="model", advice="Params find things by name: name them")


def _gains(subject: Subject) -> Iterator[Finding]:
    """Gains and friction that stand in both files and differ; the robot file's are used."""
    model = subject.bare
    known = {a.name: a for a in subject.robot.actuators if a.model != "native"}
    for i in range(model.nu):
        joint = int(model.actuator_trnid[i, 0])
        name = model.joint(joint).name if model.actuator_trntype[i] == int(mujoco.mjtTrn.mjTRN_JOINT) else ""
        actuator = known.get(name)
        affine = model.actuator_biastype[i] == int(mujoco.mjtBias.mjBIAS_AFFINE)
        if actuator is None or actuator.model != "pd" or not affine:
            continue
        pairs = (("kp", -model.actuator_biasprm[i, 1], actuator.kp), ("kd", -model.actuator_biasprm[i, 2], actuator.kd))
        for label, written, used in pairs:
            if abs(written - used) > 1e-3 * max(abs(used), 1e-9):
                what = f"{label} is {written:.6g} in the model but {used:.6g} in the robot file"
                advice = "the robot file is used; make them agree, or take the actuators out of the model"
                yield Finding(level="error", what=what, where=f"joint {name!r}", advice=advice)
    for name, actuator in known.items():
        if name not in subject.robot.joints:
            continue
        dof = int(model.joint(name).dofadr[0])
        fields = (("damping", model.dof_damping), ("coulomb", model.dof_frictionloss), ("armature", model.dof_armature))
        for label, values in fields:
            written, used = float(values.reshape(model.nv, -1)[dof, 0]), getattr(actuator, label)
            if written and abs(written - used) > 1e-6 * abs(written):
                what = f"{label} is {written:.6g} in the model but {used:.6g} in the robot file"
                advice = "the robot file is used; give it in one place"
                yield Finding(level="warning", what=what, where=f"joint {name!r}", advice=advice)


def _loops(subject: Subject) -> Iterator[tuple[str, float, float]]:
    """(joint, kp, kd) of every position or velocity loop, of the robot file or native."""
    for actuator in subject.robot.actuators:
        if actuator.model in ("pd", "velocity"):
            yield actuator.name, actuator.kp, actuator.kd
    model = subject.model
    for i in range(model.nu):
        affine = model.actuator_biastype[i] == int(mujoco.mjtBias.mjBIAS_AFFINE)
        if affine and model.actuator_trntype[i] == int(mujoco.mjtTrn.mjTRN_JOINT):
            ratio = float(model.actuator_gear[i, 0]) ** 2
            _, kp, kd = -model.actuator_biasprm[i, :3] * ratio
            yield model.joint(int(model.actuator_trnid[i, 0])).name, max(float(kp), 0.0), max(float(kd), 0.0)


def _timestep(subject: Subject) -> Iterator[Finding]:
    """Time step against the stiffness and damping of each joint's loop: ω dt with ω² = kp / I, and kd dt / I."""
    robot, model, data = subject.robot, subject.model, subject.data
    if model.nv == 0:
        return
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass)
    inertia = 1.0 / np.diag(np.linalg.inv(mass))  # (nv,) felt at a joint while all others are free
    dt, explicit = robot.timestep, model.opt.integrator in (0, 1)
    for name, kp, kd in _loops(subject):
        own = float(inertia[model.joint(name).dofadr[0]])
        stiff, damped = float(np.sqrt(kp / own) * dt), kd * dt / own
        where = f"joint {name!r}"
        if stiff > 0.6:
            level: Level = "error" if stiff > 2.0 else "warning"
            what = f"kp = {kp:.4g} on {own:.2g} kg·m² gives ω dt = {stiff:.2g} at a time step of {dt:g} s"
            advice = f"stable below 2, accurate below 0.6: use a time step of at most {0.6 * dt / stiff:.2g} s"
            yield Finding(level=level, what=what, where=where, advice=advice)
        if explicit and damped > 1.0:
            level = "error" if damped > 2.0 else "warning"
            what = f"kd = {kd:.4g} on {own:.2g} kg·m² gives kd dt / I = {damped:.2g} with an explicit integrator"
            advice = "stable below 2: use integrator = 'implicitfast' or a smaller time step"
            yield Finding(level=level, what=what, where=where, advice=advice)
    stiffest = min((float(x[0]) for x in model.geom_solref if x[0] > 0), default=1.0)
    if stiffest < 2.0 * dt:
        what = f"a contact time constant of {stiffest:g} s is below twice the time step of {dt:g} s"
        yield Finding(
            level="warning", what=what, where="geoms", advice="MuJoCo raises it silently; shorten the time step"
        )


def _efforts(subject: Subject) -> Iterator[Finding]:
    """Effort limits that look copied, forgotten, or too small for the robot's own weight."""
    robot, where = subject.robot, "actuators"
    model, data = subject.model, subject.data
    torques = {a.name: a.torque_limit for a in robot.actuators if a.torque_limit is not None}
    bare = [a.name for a in robot.actuators if a.model in ("pd", "velocity", "torque") and a.torque_limit is None]
    if bare:
        what = f"{len(bare)} actuators have no torque limit ({', '.join(bare[:3])} ...)"
        yield Finding(level="warning", what=what, where=where, advice="give torque_limit from the motor's data sheet")
    for i in range(subject.bare.njnt):
        if subject.bare.jnt_actfrclimited[i] and not subject.bare.jnt_actfrcrange[i].any():
            name = subject.bare.joint(i).name
            yield Finding(
                level="error", what="its effort limit is 0", where=f"joint {name!r}", advice="give the motor's"
            )
    values = sorted(set(torques.values()))
    if len(torques) >= 3 and len(values) == 1 and values[0] in (1.0, 10.0, 50.0, 100.0, 200.0, 300.0, 500.0, 1000.0):
        what = f"all {len(torques)} torque limits are {values[0]:g} N·m, a round number"
        yield Finding(level="warning", what=what, where=where, advice="looks like a placeholder: use the data sheet")
    if any(value >= 1000.0 for value in values):
        what = f"a torque limit of {max(values):g} N·m is beyond any motor of a legged robot or arm of this size"
        yield Finding(level="warning", what=what, where=where, advice="use the data sheet's peak torque")
    if robot.base is None:
        for name, limit in ((name, limit) for name, limit in torques.items() if name in robot.joints):
            weight = abs(float(data.qfrc_bias[model.joint(name).dofadr[0]]))
            if weight > limit:
                what = f"it needs {weight:.3g} N·m to hold the default pose but may give {limit:.3g}"
                yield Finding(
                    level="warning", what=what, where=f"joint {name!r}", advice="check masses and torque_limit"
                )
    yield from _copied(subject, values)


def _copied(subject: Subject, values: list[float]) -> Iterator[Finding]:
    """The same torque limits as another robot of our library, or a whole multiple of them, at another mass."""
    mine = float(subject.model.body_mass.sum())
    for name in available():
        other = load(name)
        theirs = sorted({a.torque_limit for a in other.actuators if a.torque_limit is not None})
        if (
            other.name == subject.robot.name.removesuffix("_suspended").removesuffix("_hung")
            or len(values) < 2
            or len(theirs) != len(values)
        ):
            continue
        ratios = np.array(values) / np.array(theirs)
        factor = round(float(ratios[0]))
        mass = float(other.spec().compile().body_mass.sum())
        if factor >= 1 and np.allclose(ratios, factor, rtol=1e-6) and abs(mine - mass) > 0.02 * mass:
            what = f"the torque limits are exactly {factor} times those of {name} ({mass:.3g} kg; this: {mine:.3g} kg)"
            yield Finding(
                level="warning", what=what, where="actuators", advice="looks copied: use this robot's motor data"
            )


def _order(subject: Subject) -> Iterator[Finding]:
    """Joint order of the robot file against that of the model."""
    free = int(mujoco.mjtJoint.mjJNT_FREE)
    model = subject.bare
    order = tuple(model.joint(i).name for i in range(model.njnt) if model.jnt_type[i] != free)
    if order != subject.robot.joints:
        first = next(a for a, b in zip(subject.robot.joints, order, strict=True) if a != b)
        what = f"the joints' order differs from the model's, first at {first!r}"
        yield Finding(
            level="note", what=what, where="joints", advice="u and y follow the robot file; never index qpos by hand"
        )


def _params(subject: Subject) -> Iterator[Finding]:
    """Params that would act on nothing, or whose range nobody vouches for."""
    model = subject.model
    targets = {
        "joint": [*subject.robot.joints, *(a.name for a in subject.robot.actuators)],
        "body": [model.body(i).name for i in range(model.nbody)],
        "geom": [model.geom(i).name for i in range(model.ngeom)],
    }
    for name, param in subject.robot.params.items():
        known = targets.get(param.about.target)
        patterns = (param.of,) if isinstance(param.of, str) else param.of
        if known is not None and not any(re.fullmatch(pattern, target) for pattern in patterns for target in known):
            hint = did_you_mean(patterns[0], known)
            what = f"it acts on {param.of!r}, which is no {param.about.target} of the robot {hint}"
            yield Finding(level="error", what=what, where=f"params.{name}", advice="correct 'of'")
        if not param.source:
            what = "its range has no source"
            yield Finding(level="note", what=what, where=f"params.{name}", advice="say where low and high come from")


def _scene(subject: Subject) -> Iterator[Finding]:
    """Things of the scene inside the robot's model, and meshes that only cost time."""
    planes = sum(geom.type == mujoco.mjtGeom.mjGEOM_PLANE for geom in subject.source.geoms)
    if planes and subject.robot.ground:
        what = "the model has a floor of its own and the robot file asks for one"
        yield Finding(level="warning", what=what, where="worldbody", advice="take the plane out, or set ground = false")
    meshes = sum(geom.type == mujoco.mjtGeom.mjGEOM_MESH for geom in subject.source.geoms)
    spare = len(strippable(subject.source))
    if spare:
        what = f"{spare} of {meshes} mesh geoms can be stripped without changing the dynamics"
        yield Finding(level="note", what=what, where="model", advice="strip_meshes(path, out) does it and proves it")
    elif meshes:
        what = f"all {meshes} mesh geoms collide"
        yield Finding(
            level="note", what=what, where="model", advice="capsules and spheres collide several times faster"
        )


EXAMINATIONS: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    _inertia,
    _symmetry,
    _limits,
    _names,
    _gains,
    _timestep,
    _efforts,
    _order,
    _params,
    _scene,
)
