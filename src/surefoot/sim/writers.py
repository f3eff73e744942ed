"""How each kind of Param is written into the engine's fields, and decoded from them: a pair of functions a kind.

A kind that is held plainly (one column of one field, or a table of Sim) has the pair `PLAIN`; the others stand in
`SPECIAL`. write(physics, slots, rows, v) takes v as (rows, targets) or (rows, targets, components), and
read(physics, slots) gives the same for all worlds. Writing what was read changes nothing, for every kind.
"""

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

from surefoot.sim import inertia, restitution
from surefoot.sim.edits import PLAY, SPRING, spin_name
from surefoot.sim.motors import TABLES as MOTOR_TABLES
from surefoot.sim.names import GROUND
from surefoot.sim.slots import Slots, link_end
from surefoot.sim.terrain import first_field

if TYPE_CHECKING:
    from surefoot.sim.physics import Physics


# -------------------------------------------------------------------- kinds that are held plainly


def _write_plain(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
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
        a[rows[:, None], s.ids, column] = v


def _read_plain(p: "Physics", s: Slots) -> np.ndarray:
    field, column = s.param.about.fields[0], s.param.about.column
    world = s.param.about.target == "world"
    if field.startswith("sim."):
        if field[4:] in MOTOR_TABLES and not (field == "sim.voltage" and "sag_law" in p.built.features):
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


def _write_friction(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    at = np.ix_(rows, s.ids)
    p.tables["friction_base"][at] = v
    p.engine.field("geom_friction")[rows[:, None], s.ids, 0] = v * p.tables["friction_scale"][at]


def _read_friction(p: "Physics", s: Slots) -> np.ndarray:
    """μ without the ground law's factor, which may be zero."""
    scale = p.tables["friction_scale"][:, s.ids]
    now = p.engine.field("geom_friction")[:, s.ids, 0] / np.where(scale > 0, scale, 1.0)
    return np.where(scale > 0, now, p.tables["friction_base"][:, s.ids])


def _yielding(field: str, *ratios: str) -> tuple[Any, Any, Any]:
    """How contacts or stops that give way are written: (write softness, read softness, write damping ratio).

    The engine's stiffness is 1 / (T ζ)²: with T held, what springs back is too stiff for any time step and gains energy. So where one of
    the kinds `ratios` is an unknown, the engine's time constant T is the softness over min(ζ, 1).
    """

    def slowed(p: "Physics", ids: np.ndarray) -> np.ndarray:
        damped = np.isin(ids, np.concatenate([p.targets(kind) for kind in ratios]))
        return 1.0 / np.where(damped, np.minimum(p.engine.field(field)[:, ids, 1], 1.0), 1.0)  # (worlds, k)

    def write(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
        p.engine.field(field)[rows[:, None], s.ids, 0] = v * slowed(p, s.ids)[rows]

    def read(p: "Physics", s: Slots) -> np.ndarray:
        return p.engine.field(field)[:, s.ids, 0] / slowed(p, s.ids)

    def write_ratio(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
        soft = read(p, s)[rows]
        p.engine.field(field)[rows[:, None], s.ids, 1] = v
        write(p, s, rows, soft)

    return write, read, write_ratio


_write_softness, _read_softness, _write_damping_ratio = _yielding("geom_solref", "bounce", "contact_damping")
_write_stop_softness, _read_stop_softness, _write_stop_damping = _yielding("jnt_solref", "stop_damping")


def _write_bounce(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    _write_damping_ratio(p, s, rows, restitution.damping_ratio(v))


def _read_bounce(p: "Physics", s: Slots) -> np.ndarray:
    return restitution.restitution(p.engine.field("geom_solref")[:, s.ids, 1])


def _write_wear(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.engine.field("geom_pos")[rows[:, None], s.ids, 2] = p.engine.nominal("geom_pos")[s.ids, 2] + v


def _read_wear(p: "Physics", s: Slots) -> np.ndarray:
    return p.engine.field("geom_pos")[:, s.ids, 2] - p.engine.nominal("geom_pos")[s.ids, 2]


def _write_length(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    for k, body in enumerate(s.ids):
        for field, ids in link_end(p.built.model, int(body)).items():
            p.engine.field(field)[np.ix_(rows, ids)] = v[:, k, None, None] * p.engine.nominal(field)[ids]


def _read_length(p: "Physics", s: Slots) -> np.ndarray:
    out = []
    for body in s.ids:
        far = [
            (np.abs(p.engine.nominal(f)[i]).max(), f, i)
            for f, ids in link_end(p.built.model, int(body)).items()
            for i in ids
        ]
        _, field, index = max(far)
        nominal = p.engine.nominal(field)[index]
        axis = np.abs(nominal).argmax()
        out.append(p.engine.field(field)[:, index, axis] / nominal[axis])
    return np.stack(out, axis=1)


def _tilt_axes(p: "Physics", s: Slots) -> tuple[np.ndarray, np.ndarray]:
    """Nominal joint axes (k, 3) and the unit body axes (k, 3) they are tilted about."""
    axes, which = p.engine.nominal("jnt_axis")[s.ids], s.param.options["axis"]
    index = np.abs(axes).argmin(1) if which == "auto" else np.full(len(axes), "xyz".index(which))
    return axes, np.eye(3)[index]


def _write_tilt(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    """Rodrigues' rotation of the axis, and of the play or spring that sits behind the joint."""
    n, k = _tilt_axes(p, s)
    c, sine = np.cos(v)[..., None], np.sin(v)[..., None]
    along = (n * k).sum(1, keepdims=True) * k
    axes = n * c + np.cross(k, n) * sine + along * (1 - c)
    p.engine.field("jnt_axis")[np.ix_(rows, s.ids)] = axes
    for column, name in enumerate(s.names):
        for behind in (name + PLAY, name + SPRING):
            joint = mujoco.mj_name2id(p.built.model, mujoco.mjtObj.mjOBJ_JOINT, behind)
            if joint >= 0:
                p.engine.field("jnt_axis")[rows, joint] = axes[:, column]


def _read_tilt(p: "Physics", s: Slots) -> np.ndarray:
    n, k = _tilt_axes(p, s)
    across = n - (n * k).sum(1, keepdims=True) * k
    now = p.engine.field("jnt_axis")[:, s.ids]
    return np.arctan2((now * np.cross(k, across)).sum(-1), (now * across).sum(-1))


def _write_zero(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    model = p.built.model
    at = model.jnt_qposadr[s.ids]
    for field in ("qpos0", "qpos_spring"):
        p.engine.field(field)[np.ix_(rows, at)] = p.engine.nominal(field)[at] + v
    p.engine.field("jnt_range")[np.ix_(rows, s.ids)] = p.engine.nominal("jnt_range")[s.ids] + v[..., None]


def _read_zero(p: "Physics", s: Slots) -> np.ndarray:
    at = p.built.model.jnt_qposadr[s.ids]
    return p.engine.field("qpos0")[:, at] - p.engine.nominal("qpos0")[at]


def _write_stops(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    outward = v[..., None] * np.array([-1.0, 1.0])
    p.engine.field("jnt_range")[np.ix_(rows, s.ids)] = p.engine.nominal("jnt_range")[s.ids] + outward


def _read_stops(p: "Physics", s: Slots) -> np.ndarray:
    return p.engine.field("jnt_range")[:, s.ids, 1] - p.engine.nominal("jnt_range")[s.ids, 1]


def _write_rest(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.engine.field("qpos_spring")[np.ix_(rows, p.built.model.jnt_qposadr[s.ids])] = v


def _read_rest(p: "Physics", s: Slots) -> np.ndarray:
    return p.engine.field("qpos_spring")[:, p.built.model.jnt_qposadr[s.ids]]


def _write_mass(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    nominal = p.engine.nominal("body_mass")[s.ids]
    p.engine.field("body_mass")[np.ix_(rows, s.ids)] = v
    p.engine.field("body_inertia")[np.ix_(rows, s.ids)] = (
        p.engine.nominal("body_inertia")[s.ids] * (v / nominal)[..., None]
    )


def _read_mass(p: "Physics", s: Slots) -> np.ndarray:
    return p.engine.field("body_mass")[:, s.ids]


def _write_com(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    axis = "xyz".index(s.param.options["axis"])
    p.engine.field("body_ipos")[rows[:, None], s.ids, axis] = p.engine.nominal("body_ipos")[s.ids, axis] + v


def _read_com(p: "Physics", s: Slots) -> np.ndarray:
    axis = "xyz".index(s.param.options["axis"])
    return p.engine.field("body_ipos")[:, s.ids, axis] - p.engine.nominal("body_ipos")[s.ids, axis]


INERTIAL = ("body_mass", "body_ipos", "body_inertia", "body_iquat")


def _write_inertia(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    model = inertia.root(*[p.engine.nominal(f)[s.ids] for f in INERTIAL])
    for field, value in zip(INERTIAL, inertia.from_root(model @ inertia.factor(v)), strict=True):
        p.engine.field(field)[np.ix_(rows, s.ids)] = value


def _read_inertia(p: "Physics", s: Slots) -> np.ndarray:
    model = inertia.root(*[p.engine.nominal(f)[s.ids] for f in INERTIAL])
    now = inertia.root(*[p.engine.field(f)[:, s.ids] for f in INERTIAL])
    return inertia.parameters(np.linalg.solve(np.broadcast_to(model, now.shape), now))


def _write_payload(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    size = s.param.options["size"]
    p.engine.field("body_mass")[np.ix_(rows, s.ids)] = v
    p.engine.field("body_inertia")[np.ix_(rows, s.ids)] = np.repeat((v * size**2 / 6)[..., None], 3, axis=-1)


def _write_play(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.engine.field("jnt_range")[np.ix_(rows, s.ids)] = np.stack([-0.5 * v, 0.5 * v], axis=-1)


def _read_play(p: "Physics", s: Slots) -> np.ndarray:
    limits = p.engine.field("jnt_range")[:, s.ids]
    return limits[..., 1] - limits[..., 0]


def _write_speed(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.tables["torque_constant"][np.ix_(rows, s.ids)] = p.motors.nominal["voltage"][s.ids] / v


def _read_speed(p: "Physics", s: Slots) -> np.ndarray:
    constant = p.motors.decode(p.engine.field, {x.param.kind for x in p.slots.values()})["torque_constant"]
    return p.motors.nominal["voltage"][s.ids] / constant[:, s.ids]


def _spins(p: "Physics", s: Slots) -> np.ndarray:
    return np.array([p.built.model.tendon(spin_name(name)).id for name in s.names])


def _write_spin(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.engine.field("tendon_armature")[np.ix_(rows, _spins(p, s))] = v


def _read_spin(p: "Physics", s: Slots) -> np.ndarray:
    return p.engine.field("tendon_armature")[:, _spins(p, s)]


def _read_coulomb(p: "Physics", s: Slots) -> np.ndarray:
    if "friction_law" in p.built.features:
        return p.tables["coulomb"][:, s.ids]
    return p.engine.field("dof_frictionloss")[:, p.joint_dofs[s.ids]]


def _read_gravity(p: "Physics", s: Slots) -> np.ndarray:
    if "vibration_law" in p.built.features:
        return p.tables["gravity"][:, None]
    return np.linalg.norm(p.engine.field("opt.gravity"), axis=1)[:, None]


def _write_slope(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    p.tables["slope"][rows, "xy".index(s.param.options["axis"])] = v[:, 0]


def _read_slope(p: "Physics", s: Slots) -> np.ndarray:
    axis = "xy".index(s.param.options["axis"])
    stated = p.tables["slope"][:, axis]
    if "vibration_law" in p.built.features:
        return stated[:, None]
    g = p.engine.field("opt.gravity")
    falls = g[:, 2] < 0  # without gravity the engine's field has no direction
    return np.where(falls, np.arctan(g[:, axis] / np.where(falls, g[:, 2], 1.0)), stated)[:, None]


def _write_terrain(p: "Physics", s: Slots, rows: np.ndarray, v: np.ndarray) -> None:
    assert p.built.terrain is not None
    index = np.searchsorted(np.asarray(p.built.terrain.choices), v[:, 0])
    p.engine.field("geom_dataid")[rows, p.built.model.geom(GROUND).id] = first_field(p.built.model) + index


def _read_terrain(p: "Physics", s: Slots) -> np.ndarray:
    assert p.built.terrain is not None
    index = p.engine.field("geom_dataid")[:, p.built.model.geom(GROUND).id] - first_field(p.built.model)
    return np.asarray(p.built.terrain.choices)[index][:, None]


SPECIAL: dict[str, tuple[Any, Any]] = {
    "friction": (_write_friction, _read_friction),
    "softness": (_write_softness, _read_softness),
    "contact_damping": (_write_damping_ratio, _read_plain),
    "bounce": (_write_bounce, _read_bounce),
    "sole_wear": (_write_wear, _read_wear),
    "link_length": (_write_length, _read_length),
    "axis_tilt": (_write_tilt, _read_tilt),
    "zero_offset": (_write_zero, _read_zero),
    "stop_shift": (_write_stops, _read_stops),
    "stop_softness": (_write_stop_softness, _read_stop_softness),
    "stop_damping": (_write_stop_damping, _read_plain),
    "cable_rest": (_write_rest, _read_rest),
    "mass": (_write_mass, _read_mass),
    "com": (_write_com, _read_com),
    "inertia": (_write_inertia, _read_inertia),
    "payload_mass": (_write_payload, _read_mass),
    "backlash": (_write_play, _read_play),
    "speed_limit": (_write_speed, _read_speed),
    "coulomb": (_write_plain, _read_coulomb),
    "rotor_inertia": (_write_spin, _read_spin),
    "gravity": (_write_plain, _read_gravity),
    "slope": (_write_slope, _read_slope),
    "roughness": (_write_terrain, _read_terrain),
    "step_height": (_write_terrain, _read_terrain),
}
