"""Kinds of unknowns of the body: contact, geometry, inertia. One line says what changes when the value does."""

from types import MappingProxyType as Options

from surefoot.params.kind import INF, Kind, declare

XYZ = ("x", "y", "z")
LOG_CHOLESKY = ("alpha", "d1", "d2", "d3", "s12", "s23", "s13", "t1", "t2", "t3")


def _contact(name: str, unit: str, about: str, **more) -> None:
    more = {"target": "geom", "hard": (0.0, INF), "engines": ("cpu", "cuda", "physx"), **more}
    declare(Kind(name=name, unit=unit, group="contact", about=about, **more))


_contact(
    "friction",
    "1",
    "Sliding friction of the geom against anything it touches; the geom takes priority over the ground.",
    fields=("geom_friction",),
    column=0,
    structural="priority",
)
_contact(
    "torsional_friction",
    "m",
    "Friction torque about the contact normal over normal force; the contact becomes 4-dimensional.",
    fields=("geom_friction",),
    column=1,
    structural="condim4",
    engines=("cpu", "cuda"),
)
_contact(
    "rolling_friction",
    "m",
    "Friction torque against rolling over normal force; the contact becomes 6-dimensional.",
    fields=("geom_friction",),
    column=2,
    structural="condim6",
    engines=("cpu", "cuda"),
)
_contact(
    "softness",
    "s",
    "Time constant with which the contact gives way; below twice the time step it cannot be resolved.",
    fields=("geom_solref",),
    column=0,
    structural="priority",
    hard=(1e-6, INF),
)
_contact(
    "contact_damping",
    "1",
    "Damping ratio of the contact: 1 bounces back with an eighth of the speed, less with more; below 1 its stiffness "
    "stays that of `softness` at damping ratio 1.",
    fields=("geom_solref",),
    column=1,
    structural="priority",
    hard=(1e-6, INF),
)
_contact(
    "bounce",
    "1",
    "Coefficient of restitution, written as the damping ratio of a spring that can only push; its stiffness as for "
    "contact_damping.",
    fields=("geom_solref",),
    column=1,
    structural="priority",
    hard=(1e-3, 0.999),
)
_contact(
    "soft_ground",
    "m",
    "Depth over which the ground's stiffness builds up: sand and carpet against concrete.",
    fields=("geom_solimp",),
    column=2,
    structural="soft",
    hard=(1e-6, 1.0),
)
_contact(
    "patch_friction",
    "1",
    "Friction on the squares of a checkerboard floor, relative to that between them.",
    fields=("sim.patch_friction",),
    default=1.0,
    structural="ground_law",
    options=Options({"size": 0.5}),
)
_contact(
    "static_friction",
    "1",
    "Static over sliding friction; the engine has one coefficient, so it is raised while a geom slides slower "
    "than `speed`.",
    fields=("sim.static_friction",),
    default=1.0,
    hard=(1.0, INF),
    structural="ground_law",
    options=Options({"speed": 0.02}),
)


def _geometry(name: str, unit: str, about: str, **more) -> None:
    declare(Kind(name=name, unit=unit, group="geometry", about=about, constants=True, **more))


_geometry(
    "radius",
    "m",
    "Radius of a sphere or capsule.",
    target="geom",
    fields=("geom_size",),
    column=0,
    hard=(1e-6, INF),
)
_geometry(
    "sole_wear",
    "m",
    "Thickness lost from the sole: the geom sits that much higher on its link.",
    target="geom",
    fields=("geom_pos",),
    column=2,
)
_geometry(
    "link_length",
    "1",
    "Length of a link relative to the drawing: moves its child bodies, or its geoms and sites when it has none; "
    "the mass distribution stays.",
    target="body",
    fields=("body_pos", "geom_pos", "site_pos"),
    hard=(1e-3, INF),
)
_geometry(
    "axis_tilt",
    "rad",
    "Tilt of a joint's axis about a body axis at right angles to it ('auto': the most orthogonal one).",
    target="joint",
    fields=("jnt_axis",),
    hard=(-1.5, 1.5),
    options=Options({"axis": "auto"}),
)
_geometry(
    "zero_offset",
    "rad",
    "The joint's zero is off by this: the motor's own loop and the encoder agree with each other, not with "
    "the drawing.",
    target="joint",
    fields=("qpos0", "jnt_range", "qpos_spring"),
)
_geometry(
    "stop_shift",
    "rad",
    "How much further out a joint's stops lie than in the drawing, at both ends of its range; below zero: further in.",
    target="joint",
    fields=("jnt_range",),
    engines=("cpu",),
)
_geometry(
    "stop_softness",
    "s",
    "Time constant with which a joint's stops give way; below twice the time step it cannot be resolved.",
    target="joint",
    fields=("jnt_solref",),
    column=0,
    hard=(1e-6, INF),
    engines=("cpu",),
)
_geometry(
    "stop_damping",
    "1",
    "Damping ratio of a joint's stops: 1 gives way without springing back, rubber buffers have less; below 1 their "
    "stiffness stays that of `stop_softness`.",
    target="joint",
    fields=("jnt_solref",),
    column=1,
    hard=(1e-3, INF),
    engines=("cpu",),
)


def _inertia(name: str, unit: str, about: str, **more) -> None:
    more = {"target": "body", "constants": True, "engines": ("cpu", "cuda", "physx"), **more}
    declare(Kind(name=name, unit=unit, group="inertia", about=about, **more))


_inertia(
    "mass",
    "kg",
    "Mass of a body; its inertia follows in proportion.",
    fields=("body_mass", "body_inertia"),
    hard=(1e-9, INF),
    structural="inertial",
)
_inertia(
    "com",
    "m",
    "Shift of the centre of mass from the model's, along one axis of the body's frame.",
    fields=("body_ipos",),
    structural="inertial",
    options=Options({"axis": "x"}),
)
_inertia(
    "inertia",
    "1",
    "All ten inertial parameters as log-Cholesky factors relative to the model's; physical for any value.",
    fields=("body_mass", "body_ipos", "body_inertia", "body_iquat"),
    components=LOG_CHOLESKY,
    structural="inertial",
)
_inertia(
    "payload_mass",
    "kg",
    "Mass of a box of edge `size` fixed to the body at `place`.",
    fields=("body_mass", "body_inertia"),
    hard=(0.0, INF),
    structural="payload",
    options=Options({"place": (0.0, 0.0, 0.1), "size": 0.1}),
)
_inertia(
    "payload_place",
    "m",
    "Where the payload's centre lies in the body's frame; `mass` is its mass when no payload_mass is given.",
    fields=("body_pos",),
    components=XYZ,
    structural="payload",
    options=Options({"mass": 1.0, "size": 0.1}),
)
_inertia(
    "link_compliance",
    "N·m/rad",
    "Bending stiffness of a link, lumped in a hinge at its root about the body axis `axis` ('joint': its joint's).",
    fields=("jnt_stiffness",),
    hard=(1e-3, INF),
    structural="flex",
    constants=False,
    engines=("cpu", "cuda"),
    options=Options({"axis": "joint", "damping": 0.05}),
)
