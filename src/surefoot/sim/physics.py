"""e becomes physics here, and only here: `write` puts values into the engine's fields, `read` decodes them again.

A kind that is held plainly (one column of one field, or a table of Sim) needs no code. The others have a pair of functions in
`SPECIAL`. Tables ("sim.*") are arrays of Sim's own for what the engine has no field for: sensors, delays, disturbances, and
the motors' figures before they are multiplied together (motors.py).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.params import KINDS, E, Params
from surefoot.sim import inertia, restitution
from surefoot.sim.build import Built
from surefoot.sim.engine import CpuEngine
from surefoot.sim.motors import TABLES as MOTOR_TABLES
from surefoot.sim.motors import Motors
from surefoot.sim.slots import Slots, resolve_all

SENSOR_FIGURES = {
    "encoder": {"noise": "encoder_noise", "quantum": "encoder_quantum", "velocity_noise": "velocity_noise"},
    "imu": {f"{s}_{f}": f"{s}_{f}" for s in ("gyro", "accel") for f in ("noise", "walk")},
    "foot_force": {"noise": "force_noise"},
}
"""Figures of a robot file's sensors that are the nominal values of tables (a stated bias is a spread, not a value)."""


class Physics:
    """All that e can change in one Sim: the engine's fields and Sim's tables, with names resolved."""

    def __init__(self, built: Built, engine: CpuEngine, params: Params):
        self.built, self.engine, self.motors = built, engine, Motors(built)
        self.slots = resolve_all(built, params)
        self.motors.check({s.param.kind: s.ids for s in self.slots.values() if s.param.kind in MOTOR_TABLES})
        self.tables: dict[str, np.ndarray] = {}
        self._fill_tables()
        self._fields = {f for s in self.slots.values() for f in s.param.about.fields if not f.startswith("sim.")}
        kinds = {s.param.kind for s in self.slots.values()}
        if kinds & ({*MOTOR_TABLES, "speed_limit"}):
            self._fields |= set(self.motors.fields())
        if kinds & {"gravity", "slope"} or "vibration_law" in built.features:
            self._fields.add("opt.gravity")
        for name in sorted(self._fields):
            engine.field(name)
        if "friction_law" in built.features or "coulomb" in kinds:
            engine.field("dof_frictionloss")
        if "ground_law" in built.features:
            engine.field("geom_friction")
        nominal = {name: self.read_one(name)[0] for name in self.slots}
        self.params = params.bind({name: s.elements for name, s in self.slots.items()}, nominal)
        stated = {n: v for n, v in self.params.nominal_e(engine.worlds).items() if self.params[n].nominal is not None}
        self.write(stated, engine.everyone)
        if engine.expanded:
            engine.refresh_constants(engine.everyone)

    # ---------------------------------------------------------------- tables

    def _fill_tables(self) -> None:
        """Every table at its nominal value in every world."""
        robot, worlds, model = self.built.robot, self.engine.worlds, self.built.model
        widths = {"joint": len(robot.joints), "sensor": len(robot.sensors), "geom": model.ngeom}
        for kind in KINDS.values():
            name = kind.fields[0]
            if name.startswith("sim.") and name[4:] not in MOTOR_TABLES:
                width = len(robot.actuators) if kind.name in ("rate_limit", "rotor_lag") else widths.get(kind.target)
                shape = (
                    worlds,
                    *((width,) if width is not None else ()),
                    *((len(kind.components),) if kind.components else ()),
                )
                self.tables[name[4:]] = np.full(shape, kind.default)
        for name, value in self.motors.nominal.items():
            self.tables[name] = np.tile(value, (worlds, 1))
        dofs = [int(model.joint(j).dofadr[0]) for j in robot.joints]
        self.tables["coulomb"][:] = model.dof_frictionloss[dofs]
        self.tables["gravity"][:] = np.linalg.norm(model.opt.gravity)
        self.tables["slope"] = np.zeros((worlds, 2))
        self.tables["rotor_lag"][:] = [a.lag for a in robot.actuators]
        self.tables["friction_base"] = np.tile(model.geom_friction[:, 0], (worlds, 1))
        self.tables["friction_scale"] = np.ones((worlds, model.ngeom))
        for index, sensor in enumerate(robot.sensors):
            self.tables["sensor_delay"][:, index] = sensor.delay
            for figure, table in SENSOR_FIGURES.get(sensor.kind, {}).items():
                if figure in sensor.figures:
                    columns = (
                        [robot.joints.index(j) for j in sensor.of] if table.startswith(("encoder", "velocity")) else ...
                    )
                    self.tables[table][:, columns] = sensor.figures[figure]
        self._default_areas()

    def _default_areas(self) -> None:
        """Wind and gusts act through a drag area; without a drag Param it is the one stated with them."""
        kinds = {s.param.kind: s.param for s in self.slots.values()}
        if "drag" not in kinds:
            for kind in ("wind", "gust"):
                if kind in kinds:
                    self.tables["drag"][:] = kinds[kind].options["area"]

    def option(self, kind: str, name: str, default: float) -> float:
        """Option of the Param of a kind, or `default` when this Sim has none."""
        for slots in self.slots.values():
            if slots.param.kind == kind:
                return slots.param.options[name]
        return default

    def has(self, kind: str) -> bool:
        """Whether some Param of this kind is part of e."""
        return any(slots.param.kind == kind for slots in self.slots.values())

    # ---------------------------------------------------------------- write and read

    def write(self, e: Mapping[str, np.ndarray], rows: np.ndarray) -> None:
        """Put checked values (one row a world of `rows`) where they act."""
        motors = gravity = coulomb = False
        for name, value in e.items():
            slots = self.slots[name]
            kind = slots.param.about
            v = self._spread(value, slots)
            SPECIAL.get(kind.name, PLAIN)[0](self, slots, rows, v)
            motors |= kind.name in MOTOR_TABLES or kind.name == "speed_limit"
            gravity |= kind.name in ("gravity", "slope")
            coulomb |= kind.name == "coulomb"
        if motors:
            self.motors.write(self.engine.field, self.tables.__getitem__, rows)
        if gravity:
            self.engine.field("opt.gravity")[rows] = gravity_vector(
                self.tables["gravity"][rows], self.tables["slope"][rows]
            )
        if coulomb and "friction_law" not in self.built.features:
            dofs = self.joint_dofs
            self.engine.field("dof_frictionloss")[np.ix_(rows, dofs)] = self.tables["coulomb"][rows]

    @property
    def joint_dofs(self) -> np.ndarray:
        """Degree of freedom of every joint of the robot, in its order."""
        return np.array([int(self.built.model.joint(j).dofadr[0]) for j in self.built.robot.joints], dtype=int)

    @staticmethod
    def _spread(value: np.ndarray, slots: Slots) -> np.ndarray:
        """Value of a Param as (rows, targets) or (rows, targets, components), tied values repeated."""
        c, k, rows = len(slots.param.about.components), len(slots.ids), len(value)
        v = value.reshape(rows, -1, c) if c else value.reshape(rows, -1)
        return np.broadcast_to(v, (rows, k, c) if c else (rows, k))

    def read(self) -> E:
        """e as the engine's fields and the tables hold it now, decoded."""
        return {name: self.read_one(name) for name in self.slots}

    def read_one(self, name: str) -> np.ndarray:
        """One Param decoded, (worlds,) or (worlds, elements)."""
        slots = self.slots[name]
        v = SPECIAL.get(slots.param.kind, PLAIN)[1](self, slots)
        rows = len(v)
        if not slots.param.each:
            v = v[:, 0]
        return v.reshape(rows, -1).copy() if slots.elements else v.reshape(rows).copy()


def gravity_vector(strength: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Gravity (rows, 3) [m/s²] over ground that rises with angles slope (rows, 2) along x and y."""
    up = np.stack([np.tan(slope[:, 0]), np.tan(slope[:, 1]), np.ones(len(slope))], axis=1)
    return -strength[:, None] * up / np.linalg.norm(up, axis=1, keepdims=True)


# -------------------------------------------------------------------- kinds that are held plainly


def _write_plain(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    field, column = s.param.about.fields[0], s.param.about.column
    if field.startswith("sim."):
        table = p.tables[field[4:]]
        if s.param.about.target == "world":
            table[rows] = v[:, 0]
        else:
            table[np.ix_(rows, s.ids)] = v
        return
    a = p.engine.field(field)
    if s.param.about.target == "world":
        a[rows] = v[:, 0].astype(a.dtype)
    elif column is None:
        a[np.ix_(rows, s.ids)] = v
    else:
        a[np.ix_(rows, s.ids, [column])] = v[..., None]


def _read_plain(p: Physics, s: Slots) -> np.ndarray:
    field, column = s.param.about.fields[0], s.param.about.column
    world = s.param.about.target == "world"
    if field.startswith("sim."):
        if field[4:] in MOTOR_TABLES:
            kinds = {slots.param.kind for slots in p.slots.values()}
            return p.motors.decode(p.engine.field, kinds)[field[4:]][:, s.ids]
        table = p.tables[field[4:]]
        return table[:, None] if world else table[:, s.ids]
    a = p.engine.field(field)
    if world:
        return a[:, None].astype(float)
    return a[:, s.ids].astype(float) if column is None else a[:, s.ids, column]


PLAIN = (_write_plain, _read_plain)


# -------------------------------------------------------------------- kinds with a rule of their own


def _write_friction(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.tables["friction_base"][np.ix_(rows, s.ids)] = v
    p.engine.field("geom_friction")[np.ix_(rows, s.ids, [0])] = (v * p.tables["friction_scale"][np.ix_(rows, s.ids)])[
        ..., None
    ]


def _read_friction(p: Physics, s: Slots) -> np.ndarray:
    return p.engine.field("geom_friction")[:, s.ids, 0] / p.tables["friction_scale"][:, s.ids]


def _write_bounce(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.engine.field("geom_solref")[np.ix_(rows, s.ids, [1])] = restitution.damping_ratio(v)[..., None]


def _read_bounce(p: Physics, s: Slots) -> np.ndarray:
    return restitution.restitution(p.engine.field("geom_solref")[:, s.ids, 1])


def _write_radius(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    grown = v - p.engine.nominal("geom_size")[s.ids, 0]
    p.engine.field("geom_size")[np.ix_(rows, s.ids, [0])] = v[..., None]
    p.engine.field("geom_rbound")[np.ix_(rows, s.ids)] = p.engine.nominal("geom_rbound")[s.ids] + grown
    box = p.engine.field("geom_aabb").reshape(p.engine.worlds, -1, 6)
    nominal = p.engine.nominal("geom_aabb").reshape(-1, 6)
    box[np.ix_(rows, s.ids, [3, 4, 5])] = nominal[s.ids, 3:] + grown[..., None]


def _write_wear(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.engine.field("geom_pos")[np.ix_(rows, s.ids, [2])] = (p.engine.nominal("geom_pos")[s.ids, 2] + v)[..., None]


def _read_wear(p: Physics, s: Slots) -> np.ndarray:
    return p.engine.field("geom_pos")[:, s.ids, 2] - p.engine.nominal("geom_pos")[s.ids, 2]


def _ends(p: Physics, body: int) -> tuple[str, np.ndarray]:
    """Field and indices of what sits at the far end of a link: its child bodies, else its geoms."""
    model = p.built.model
    children = np.flatnonzero((model.body_parentid == body) & (np.arange(model.nbody) > 0))
    far = children[np.linalg.norm(model.body_pos[children], axis=1) > 0]
    return ("body_pos", far) if len(far) else ("geom_pos", np.flatnonzero(model.geom_bodyid == body))


def _write_length(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    for k, body in enumerate(s.ids):
        field, ids = _ends(p, int(body))
        p.engine.field(field)[np.ix_(rows, ids)] = v[:, k, None, None] * p.engine.nominal(field)[ids]
        if field == "geom_pos":
            sites = np.flatnonzero(p.built.model.site_bodyid == body)
            p.engine.field("site_pos")[np.ix_(rows, sites)] = v[:, k, None, None] * p.engine.nominal("site_pos")[sites]


def _read_length(p: Physics, s: Slots) -> np.ndarray:
    out = []
    for body in s.ids:
        field, ids = _ends(p, int(body))
        nominal = p.engine.nominal(field)
        longest = ids[np.linalg.norm(nominal[ids], axis=1).argmax()]
        axis = np.abs(nominal[longest]).argmax()
        out.append(p.engine.field(field)[:, longest, axis] / nominal[longest, axis])
    return np.stack(out, axis=1)


def _tilt_axes(p: Physics, s: Slots) -> tuple[np.ndarray, np.ndarray]:
    """Nominal joint axes (k, 3) and the unit body axes (k, 3) they are tilted about."""
    axes, which = p.engine.nominal("jnt_axis")[s.ids], s.param.options["axis"]
    index = np.abs(axes).argmin(1) if which == "auto" else np.full(len(axes), "xyz".index(which))
    return axes, np.eye(3)[index]


def _write_tilt(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    n, k = _tilt_axes(p, s)
    c, sine = np.cos(v)[..., None], np.sin(v)[..., None]
    along = (n * k).sum(1, keepdims=True) * k
    p.engine.field("jnt_axis")[np.ix_(rows, s.ids)] = n * c + np.cross(k, n) * sine + along * (1 - c)


def _read_tilt(p: Physics, s: Slots) -> np.ndarray:
    n, k = _tilt_axes(p, s)
    across = n - (n * k).sum(1, keepdims=True) * k
    now = p.engine.field("jnt_axis")[:, s.ids]
    return np.arctan2((now * np.cross(k, across)).sum(-1), (now * across).sum(-1))


def _write_zero(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    model = p.built.model
    at = model.jnt_qposadr[s.ids]
    for field in ("qpos0", "qpos_spring"):
        p.engine.field(field)[np.ix_(rows, at)] = p.engine.nominal(field)[at] + v
    p.engine.field("jnt_range")[np.ix_(rows, s.ids)] = p.engine.nominal("jnt_range")[s.ids] + v[..., None]


def _read_zero(p: Physics, s: Slots) -> np.ndarray:
    at = p.built.model.jnt_qposadr[s.ids]
    return p.engine.field("qpos0")[:, at] - p.engine.nominal("qpos0")[at]


def _write_mass(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    nominal = p.engine.nominal("body_mass")[s.ids]
    p.engine.field("body_mass")[np.ix_(rows, s.ids)] = v
    p.engine.field("body_inertia")[np.ix_(rows, s.ids)] = (
        p.engine.nominal("body_inertia")[s.ids] * (v / nominal)[..., None]
    )


def _read_mass(p: Physics, s: Slots) -> np.ndarray:
    return p.engine.field("body_mass")[:, s.ids]


def _write_com(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    axis = "xyz".index(s.param.options["axis"])
    p.engine.field("body_ipos")[np.ix_(rows, s.ids, [axis])] = v[..., None]


def _read_com(p: Physics, s: Slots) -> np.ndarray:
    return p.engine.field("body_ipos")[:, s.ids, "xyz".index(s.param.options["axis"])]


INERTIAL = ("body_mass", "body_ipos", "body_inertia", "body_iquat")


def _write_inertia(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    model_J = inertia.pseudo_inertia(*[p.engine.nominal(f)[s.ids] for f in INERTIAL])
    for field, value in zip(INERTIAL, inertia.from_pseudo_inertia(inertia.deformed(model_J, v)), strict=True):
        p.engine.field(field)[np.ix_(rows, s.ids)] = value


def _read_inertia(p: Physics, s: Slots) -> np.ndarray:
    model_J = inertia.pseudo_inertia(*[p.engine.nominal(f)[s.ids] for f in INERTIAL])
    return inertia.deformation(model_J, inertia.pseudo_inertia(*[p.engine.field(f)[:, s.ids] for f in INERTIAL]))


def _write_payload(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    size = s.param.options["size"]
    p.engine.field("body_mass")[np.ix_(rows, s.ids)] = v
    p.engine.field("body_inertia")[np.ix_(rows, s.ids)] = np.repeat((v * size**2 / 6)[..., None], 3, axis=-1)


def _write_play(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.engine.field("jnt_range")[np.ix_(rows, s.ids)] = np.stack([-0.5 * v, 0.5 * v], axis=-1)


def _read_play(p: Physics, s: Slots) -> np.ndarray:
    limits = p.engine.field("jnt_range")[:, s.ids]
    return limits[..., 1] - limits[..., 0]


def _write_soft(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    """Stiffness builds up from a tenth to its full value over the depth v."""
    p.engine.field("geom_solimp")[np.ix_(rows, s.ids, [0])] = 0.1
    p.engine.field("geom_solimp")[np.ix_(rows, s.ids, [2])] = v[..., None]


def _write_speed(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.tables["torque_constant"][np.ix_(rows, s.ids)] = p.motors.nominal["voltage"][s.ids] / v


def _read_speed(p: Physics, s: Slots) -> np.ndarray:
    constant = p.motors.decode(p.engine.field, {x.param.kind for x in p.slots.values()})["torque_constant"]
    return p.motors.nominal["voltage"][s.ids] / constant[:, s.ids]


def _read_coulomb(p: Physics, s: Slots) -> np.ndarray:
    if "friction_law" in p.built.features:
        return p.tables["coulomb"][:, s.ids]
    return p.engine.field("dof_frictionloss")[:, p.joint_dofs[s.ids]]


def _read_gravity(p: Physics, s: Slots) -> np.ndarray:
    if "vibration_law" in p.built.features:
        return p.tables["gravity"][:, None]
    return np.linalg.norm(p.engine.field("opt.gravity"), axis=1)[:, None]


def _write_slope(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.tables["slope"][rows, "xy".index(s.param.options["axis"])] = v[:, 0]


def _read_slope(p: Physics, s: Slots) -> np.ndarray:
    if "vibration_law" in p.built.features:
        return p.tables["slope"][:, ["xy".index(s.param.options["axis"])]]
    g = p.engine.field("opt.gravity")
    return np.arctan(g[:, "xy".index(s.param.options["axis"])] / g[:, 2])[:, None]


def _terrain_fields(p: Physics) -> tuple[int, int]:
    model = p.built.model
    return model.geom("terrain").id, model.hfield("terrain0").id


def _write_terrain(p: Physics, s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    geom, first = _terrain_fields(p)
    assert p.built.terrain is not None
    p.engine.field("geom_dataid")[rows, geom] = first + np.searchsorted(np.asarray(p.built.terrain.choices), v[:, 0])


def _read_terrain(p: Physics, s: Slots) -> np.ndarray:
    geom, first = _terrain_fields(p)
    assert p.built.terrain is not None
    return np.asarray(p.built.terrain.choices)[p.engine.field("geom_dataid")[:, geom] - first][:, None]


SPECIAL: dict[str, tuple[Any, Any]] = {
    "friction": (_write_friction, _read_friction),
    "bounce": (_write_bounce, _read_bounce),
    "soft_ground": (_write_soft, _read_plain),
    "radius": (_write_radius, _read_plain),
    "sole_wear": (_write_wear, _read_wear),
    "link_length": (_write_length, _read_length),
    "axis_tilt": (_write_tilt, _read_tilt),
    "zero_offset": (_write_zero, _read_zero),
    "mass": (_write_mass, _read_mass),
    "com": (_write_com, _read_com),
    "inertia": (_write_inertia, _read_inertia),
    "payload_mass": (_write_payload, _read_mass),
    "backlash": (_write_play, _read_play),
    "speed_limit": (_write_speed, _read_speed),
    "coulomb": (_write_plain, _read_coulomb),
    "gravity": (_write_plain, _read_gravity),
    "slope": (_write_slope, _read_slope),
    "roughness": (_write_terrain, _read_terrain),
    "step_height": (_write_terrain, _read_terrain),
}
