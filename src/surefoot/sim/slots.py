"""Which places in the model a Param means: names resolved to indices once, when Sim is made."""

from dataclasses import dataclass

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.params import Param, Params
from surefoot.sim.build import Built
from surefoot.sim.edits import PLAY, SPRING, flex_name, payload_name
from surefoot.sim.names import matching

MOTOR_TABLES = (
    "strength", "kp", "kd", "torque_limit", "torque_constant", "resistance", "voltage", "speed_limit", "cogging",
    "thermal", "rate_limit", "rotor_lag",
)  # fmt: skip
"""Kinds whose table has a column per actuator; the other joint tables have one per joint."""


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Targets of one Param: their names and their indices in the field the Param's kind writes to."""

    param: Param
    names: tuple[str, ...]
    ids: np.ndarray
    """Index of each target in the kind's first field (or column of its table), (k,)."""
    elements: tuple[str, ...]
    """Element labels of the Param; () when it is one number."""
    moved: tuple[int, ...] = ()
    """Geoms whose place on their body the Param changes."""

    @property
    def key(self) -> set[tuple[str, int, object]]:
        """What the Param occupies; two Params of a Sim may not share any of it."""
        kind = self.param.kind
        column: object = self.param.about.column
        keys: set[tuple[str, int, object]]
        if kind in ("com", "slope"):
            column = self.param.options["axis"]
        if kind in ("link_length", "sole_wear"):
            keys = {(kind, int(i), column) for i in self.ids}
            return keys | {("position", i, None) for i in self.moved}
        keys = {(SHARED.get(kind, kind), int(i), column) for i in self.ids}
        if kind in ("zero_offset", "cable_rest"):
            keys |= {("rest angle", int(i), None) for i in self.ids}
        if kind in ("zero_offset", "stop_shift"):
            keys |= {("stops", int(i), None) for i in self.ids}
        if kind == "inertia":
            keys |= {("com", int(i), axis) for i in self.ids for axis in "xyz"}
        return keys


SHARED = {
    "bounce": "contact_damping", "speed_limit": "torque_constant", "inertia": "mass", "payload_mass": "mass",
}  # fmt: skip
"""Kinds that act in the place of another one."""


def link_end(model: mujoco.MjModel, body: int) -> dict[str, np.ndarray]:
    """What sits at the far end of a link, as field -> indices: its child bodies, else its geoms and sites."""
    payload = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, payload_name(model.body(body).name))
    children = np.flatnonzero((model.body_parentid == body) & (np.arange(model.nbody) > 0))
    far = children[(np.linalg.norm(model.body_pos[children], axis=1) > 0) & (children != payload)]
    if len(far):
        return {"body_pos": far}
    owners = {"geom_pos": model.geom_bodyid, "site_pos": model.site_bodyid}
    return {field: np.flatnonzero(owner == body) for field, owner in owners.items()}


def resolve(built: Built, param: Param) -> Slots:
    """Find a Param's targets in the built model."""
    names, ids = _targets(built, param)
    components = param.about.components
    if not param.each:
        elements = components
    elif components:
        elements = tuple(f"{name}.{component}" for name in names for component in components)
    else:
        elements = tuple(names)
    moved = ids if param.kind == "sole_wear" else []
    if param.kind == "link_length":
        moved = [i for body in ids for i in link_end(built.model, body).get("geom_pos", ())]
    geoms = tuple(int(i) for i in moved)
    return Slots(param=param, names=tuple(names), ids=np.asarray(ids, dtype=int), elements=elements, moved=geoms)


def _targets(built: Built, param: Param) -> tuple[list[str], list[int]]:
    target, model, robot = param.about.target, built.model, built.robot
    if target == "world":
        if param.of != ".*":
            raise InputError(f"{param.kind} belongs to the whole world: leave out of={param.of!r}")
        if param.each:
            raise InputError(f"{param.kind} belongs to the whole world: it cannot have each=True")
        return ["world"], [0]
    if target == "sensor":
        known = [s.name for s in robot.sensors]
        names = matching(param.of, known, "sensor")
        return names, [known.index(name) for name in names]
    if target == "geom":
        names = matching(param.of, built.named(mujoco.mjtObj.mjOBJ_GEOM), "geom")
        return names, [model.geom(name).id for name in names]
    if target == "body":
        bodies = [name for name in built.named(mujoco.mjtObj.mjOBJ_BODY) if name != "world"]
        added = {payload_name(name) for name in bodies}
        names = matching(param.of, [name for name in bodies if name not in added], "body")
        if param.kind.startswith("payload"):
            return names, [model.body(payload_name(name)).id for name in names]
        if param.kind == "link_compliance":
            return names, [model.joint(flex_name(name)).id for name in names]
        return names, [model.body(name).id for name in names]
    return _joint_targets(built, param)


def _joint_targets(built: Built, param: Param) -> tuple[list[str], list[int]]:
    model, robot = built.model, built.robot
    if param.kind in MOTOR_TABLES:
        known = [a.name for a in robot.actuators]
        names = matching(param.of, known, "actuated joint")
        return names, [known.index(name) for name in names]
    names = matching(param.of, robot.joints, "joint")
    suffix = {"backlash": PLAY, "spring_stiffness": SPRING}.get(param.kind, "")
    field = param.about.fields[0]
    if field.startswith("sim."):
        return names, [robot.joints.index(name) for name in names]
    if field.startswith("dof_"):
        return names, [int(model.joint(name).dofadr[0]) for name in names]
    return names, [model.joint(name + suffix).id for name in names]


def resolve_all(built: Built, params: Params) -> dict[str, Slots]:
    """Targets of every Param; two Params that would write the same place are refused by name."""
    out: dict[str, Slots] = {}
    owner: dict[tuple[str, int, object], str] = {}
    for name, param in params.items():
        try:
            slots = resolve(built, param)
        except InputError as error:
            raise InputError(f"param '{name}': {error}") from None
        for key in slots.key:
            if key in owner:
                raise InputError(
                    f"params '{owner[key]}' and '{name}' both act on the {key[0]} of '{slots.names[0]}': keep one"
                )
            owner[key] = name
        out[name] = slots
    return out
