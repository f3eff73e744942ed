"""Every kind of unknown the simulator knows, by gap group. One line says what changes when the value does."""

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


def _actuator(name: str, unit: str, about: str, **more) -> None:
    more = {"target": "joint", "hard": (0.0, INF), **more}
    declare(Kind(name=name, unit=unit, group="actuator", about=about, **more))


_actuator(
    "strength",
    "1",
    "Torque delivered over torque asked for: scales gains and torque limit alike.",
    fields=("sim.strength",),
    default=1.0,
    engines=("cpu", "cuda", "physx"),
)
_actuator(
    "kp",
    "N·m/rad",
    "Position gain of the joint's own loop.",
    fields=("sim.kp",),
    engines=("cpu", "cuda", "physx"),
)
_actuator(
    "kd",
    "N·m·s/rad",
    "Velocity gain of the joint's own loop.",
    fields=("sim.kd",),
    engines=("cpu", "cuda", "physx"),
)
_actuator(
    "torque_limit",
    "N·m",
    "Largest torque, also the current limit times the torque constant.",
    fields=("sim.torque_limit",),
    engines=("cpu", "cuda", "physx"),
)
_actuator(
    "torque_constant",
    "N·m/A",
    "Torque per current and back-EMF per speed, at the joint.",
    fields=("sim.torque_constant",),
    hard=(1e-9, INF),
    structural="dcmotor",
)
_actuator(
    "resistance",
    "ohm",
    "Winding resistance.",
    fields=("sim.resistance",),
    hard=(1e-9, INF),
    structural="dcmotor",
)
_actuator(
    "voltage",
    "V",
    "Supply voltage: bounds torque at speed.",
    fields=("sim.voltage",),
    hard=(1e-6, INF),
    structural="dcmotor",
)
_actuator(
    "speed_limit",
    "rad/s",
    "No-load speed at the supply voltage, through the torque constant: torque falls to zero there.",
    fields=("sim.torque_constant",),
    hard=(1e-6, INF),
    structural="dcmotor",
)
_actuator(
    "cogging",
    "N·m",
    "Amplitude of the torque ripple over position, `poles` periods a turn.",
    fields=("sim.cogging",),
    structural="dcmotor",
    options=Options({"poles": 42.0}),
)
_actuator(
    "thermal",
    "K/W",
    "Thermal resistance of the winding to the air: heat raises its electric resistance, which the drive does not know, "
    "so torque falls by as much; at the voltage limit too.",
    fields=("sim.thermal",),
    hard=(1e-6, INF),
    structural="thermal",
    options=Options({"capacity": 20.0, "coefficient": 0.0039, "ambient": 25.0}),
)
_actuator(
    "voltage_sag",
    "ohm",
    "Source resistance of the battery that all motors share: the bus drops with the current they draw.",
    target="world",
    fields=("sim.voltage_sag",),
    structural="sag_law",
)
_actuator(
    "armature",
    "kg·m²",
    "Rotor inertia reflected through the gear.",
    fields=("dof_armature",),
    constants=True,
    engines=("cpu", "cuda", "physx"),
)
_actuator("damping", "N·m·s/rad", "Viscous friction.", fields=("dof_damping",), engines=("cpu", "cuda", "physx"))
_actuator(
    "coulomb",
    "N·m",
    "Dry friction that does not depend on speed or load.",
    fields=("sim.coulomb",),
    structural="stick",
    engines=("cpu", "cuda", "physx"),
)
_actuator(
    "stribeck",
    "N·m",
    "Extra dry friction at rest, gone at a few times `speed`: + stribeck exp(-|v/speed|^shape).",
    fields=("sim.stribeck",),
    structural="friction_law",
    options=Options({"speed": 0.2, "shape": 1.0}),
)
_actuator(
    "load_friction",
    "1",
    "Dry friction per torque through the gear: + load_friction |motor torque - load torque|.",
    fields=("sim.load_friction",),
    structural="friction_law",
)
_actuator(
    "load_stribeck",
    "1",
    "Part of the load-dependent friction that vanishes with speed.",
    fields=("sim.load_stribeck",),
    structural="friction_law",
    options=Options({"speed": 0.2, "shape": 1.0}),
)
_actuator(
    "motor_friction",
    "1",
    "Weight of the motor's torque in directional gear friction: + |motor_friction tau_m - external_friction tau_e|.",
    fields=("sim.motor_friction",),
    structural="friction_law",
)
_actuator(
    "external_friction",
    "1",
    "Weight of the load's torque in directional gear friction.",
    fields=("sim.external_friction",),
    structural="friction_law",
)
_actuator(
    "quadratic_friction",
    "1/(N·m)",
    "Gear friction that grows with the square of the load while motor and load oppose.",
    fields=("sim.quadratic_friction",),
    structural="friction_law",
)
_actuator(
    "backlash",
    "rad",
    "Full width of the play between motor and link; encoder and motor sit on the motor's side. Its ends give by less "
    "than 1 mrad under load up to a time step of 2 ms, by some 5 mrad at 5 ms.",
    fields=("jnt_range",),
    hard=(1e-6, INF),
    structural="play",
    engines=("cpu", "cuda"),
)
_actuator(
    "spring_stiffness",
    "N·m/rad",
    "Series-elastic joint: stiffness of the spring between motor and link; the encoder sits on the motor's side.",
    fields=("jnt_stiffness",),
    hard=(1e-3, INF),
    structural="spring",
    engines=("cpu", "cuda"),
    options=Options({"damping": 0.05}),
)
_actuator(
    "rotor_lag",
    "s",
    "Time constant of a rotor's thrust.",
    fields=("sim.rotor_lag",),
    hard=(1e-6, INF),
    structural="rotor",
)
_actuator(
    "command_delay",
    "s",
    "Time between a command and the motor's use of it; any value, not only whole steps.",
    target="world",
    fields=("sim.command_delay",),
    engines=("cpu", "cuda", "physx"),
)
_actuator(
    "command_jitter",
    "s",
    "Extra command delay, drawn anew each control step between 0 and this.",
    target="world",
    fields=("sim.command_jitter",),
    engines=("cpu", "cuda", "physx"),
)
_actuator(
    "rate_limit",
    "rad/s",
    "Fastest change of the command that the motor follows.",
    fields=("sim.rate_limit",),
    hard=(1e-9, INF),
    default=INF,
    structural="rate_limit",
)


def _sensor(name: str, unit: str, about: str, **more) -> None:
    more = {"target": "world", "fields": (f"sim.{name}",), "engines": ("cpu", "cuda", "physx"), **more}
    declare(Kind(name=name, unit=unit, group="sensor", about=about, **more))


_sensor(
    "encoder_bias",
    "rad",
    "Reading minus angle; the motor's own loop does not see it (else: zero_offset).",
    target="joint",
)
_sensor(
    "encoder_noise",
    "rad",
    "Standard deviation of white noise on each angle reading.",
    target="joint",
    hard=(0.0, INF),
)
_sensor(
    "encoder_quantum",
    "rad",
    "Step of the encoder: readings are whole multiples of it.",
    target="joint",
    hard=(0.0, INF),
)
_sensor(
    "velocity_noise",
    "rad/s",
    "Standard deviation of white noise on each speed reading.",
    target="joint",
    hard=(0.0, INF),
)
_sensor(
    "velocity_differencing",
    "1",
    "1: speed is the difference of two successive angle readings over the control step; 0: measured.",
    hard=(0.0, 1.0),
)
for _name, _unit in (("gyro", "rad/s"), ("accel", "m/s²")):
    _sensor(f"{_name}_noise", f"{_unit}/√Hz", "White noise density (Allan N).", hard=(0.0, INF))
    _sensor(f"{_name}_bias", _unit, "Constant error of each axis.", components=XYZ)
    _sensor(f"{_name}_walk", f"{_unit}·√Hz", "Random walk of the bias (Allan K).", hard=(0.0, INF))
    _sensor(f"{_name}_scale", "1", "Relative error of each axis' gain.", components=XYZ, hard=(-0.99, INF))
    _sensor(f"{_name}_misalignment", "rad", "Small rotation of the sensor's axes inside its case.", components=XYZ)
_sensor("imu_mounting", "rad", "Rotation of the whole IMU on its body (rotation vector).", components=XYZ)
_sensor(
    "sensor_delay",
    "s",
    "Age of a reading when it is delivered.",
    target="sensor",
    hard=(0.0, INF),
    structural="sensor_history",
)
_sensor(
    "sensor_jitter",
    "s",
    "Extra age, drawn anew for every reading between 0 and this.",
    target="sensor",
    hard=(0.0, INF),
    structural="sensor_history",
)
_sensor(
    "sensor_dropout",
    "1",
    "Probability that a reading is lost and the last one is delivered again.",
    target="sensor",
    hard=(0.0, 1.0),
)
_sensor(
    "sensor_period",
    "s",
    "The sensor's own sampling period: between samples the last one is held.",
    target="sensor",
    hard=(0.0, INF),
    structural="sensor_history",
)
_sensor("force_noise", "N", "Standard deviation of white noise on each force reading.", hard=(0.0, INF))
_sensor("force_drift", "N/K", "Drift of force readings per kelvin away from 25 °C.")
_sensor("temperature", "degC", "Temperature of the sensors.", default=25.0, hard=(-60.0, 150.0))


def _environment(name: str, unit: str, about: str, **more) -> None:
    group = more.pop("group", "environment")
    more = {"target": "world", "fields": (f"sim.{name}",), "engines": ("cpu", "cuda", "physx"), **more}
    declare(Kind(name=name, unit=unit, group=group, about=about, **more))


_environment("gravity", "m/s²", "Strength of gravity.", default=9.81, hard=(0.0, INF))
_environment(
    "slope",
    "rad",
    "Slope of the ground, uphill along the world axis `axis`; written as a tilt of gravity.",
    hard=(-1.5, 1.5),
    options=Options({"axis": "x"}),
)
_environment(
    "roughness",
    "m",
    "Height of random unevenness; the height fields are a bank shared by all worlds, so it is one of `choices`.",
    fields=("geom_dataid",),
    hard=(0.0, INF),
    structural="terrain",
    constants=True,
    engines=("cpu",),
    options=Options({"cell": 0.1, "extent": 8.0, "seed": 0}),
)
_environment(
    "step_height",
    "m",
    "Height of steps; one of `choices`, as for roughness.",
    fields=("geom_dataid",),
    hard=(0.0, INF),
    structural="terrain",
    constants=True,
    engines=("cpu",),
    options=Options({"cell": 0.05, "extent": 8.0, "run": 0.4, "seed": 0}),
)
_environment(
    "push",
    "m/s",
    "Largest sudden change of the base's horizontal velocity, about every `interval` seconds.",
    hard=(0.0, INF),
    options=Options({"interval": 4.0}),
)
_environment("wrench", "N", "Steady force on the base, world frame.", components=XYZ)
_environment("moment", "N·m", "Steady torque on the base, world frame.", components=XYZ)
_environment(
    "wind",
    "m/s",
    "Steady wind, world frame; acts through `drag`, or an area of `area` when there is none.",
    components=XYZ,
    options=Options({"area": 0.05}),
)
_environment("drag", "m²", "Drag area (coefficient times area): force = ½ ρ area |v_air| v_air.", hard=(0.0, INF))
_environment("cable_drag", "N·s/m", "Force of a trailing cable, against the base's velocity.", hard=(0.0, INF))
_environment(
    "torque_noise",
    "N·m/√Hz",
    "White torque noise at every actuated joint (one-sided density).",
    group="process",
    hard=(0.0, INF),
)
_environment(
    "gust",
    "m/s",
    "Standard deviation of gusts with the Dryden spectrum of length `length` at airspeed `airspeed`.",
    group="process",
    hard=(0.0, INF),
    options=Options({"length": 10.0, "airspeed": 5.0, "area": 0.05}),
)
_environment(
    "floor_vibration",
    "m/s²",
    "Amplitude of a vertical vibration of the floor at `frequency` Hz, seen from the floor.",
    group="process",
    hard=(0.0, INF),
    structural="vibration_law",
    options=Options({"frequency": 10.0}),
)


def _numeric(name: str, unit: str, about: str, field: str, **more) -> None:
    declare(
        Kind(
            name=name,
            unit=unit,
            group="numerics",
            target="world",
            about=about,
            fields=(field,),
            per="sim",
            **{"hard": (0.0, INF), **more},
        )
    )


_numeric(
    "timestep",
    "s",
    "Physics time step; the control period must be a multiple of it.",
    "opt.timestep",
    hard=(1e-6, 1.0),
)
_numeric(
    "integrator", "1", "0 Euler, 1 RK4, 2 implicit, 3 implicitfast.", "opt.integrator", hard=(0.0, 3.0), whole=True
)
_numeric("solver", "1", "0 PGS, 1 CG, 2 Newton.", "opt.solver", hard=(0.0, 2.0), whole=True)
_numeric("iterations", "1", "Most iterations of the constraint solver.", "opt.iterations", hard=(1.0, INF), whole=True)
_numeric("cone", "1", "Friction cone: 0 pyramidal, 1 elliptic.", "opt.cone", hard=(0.0, 1.0), whole=True)
_numeric("impratio", "1", "Stiffness of friction over stiffness of normal force.", "opt.impratio", hard=(1e-3, INF))
