"""Kinds of unknowns of the motors and their commands. One line says what changes when the value does."""

from types import MappingProxyType as Options

from surefoot.params.kind import INF, Kind, declare


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
_actuator(
    "rotor_inertia",
    "kg·m²",
    "Inertia of the joint's rotor itself where the motor sits on the link before: it spins `gear` times as fast as the "
    "joint (the robot file's gear) and with that link's own joint, so the two joints feel each other; `way` -1: against the "
    "joint. Adds gear² times itself to the joint's armature; that the base turns the rotor too is left out.",
    fields=("tendon_armature",),
    constants=True,
    structural="rotor_spin",
    engines=("cpu",),
    options=Options({"way": -1}),
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
    "coulomb_asymmetry",
    "N·m",
    "Dry friction by direction: more by this while the joint moves forward, less by it while it moves back.",
    fields=("sim.coulomb_asymmetry",),
    hard=(-INF, INF),
    structural="friction_law",
)
_actuator(
    "damping_asymmetry",
    "N·m·s/rad",
    "Viscous friction by direction: more by this while the joint moves forward, less by it while it moves back; dry "
    "and asymmetric friction together never push.",
    fields=("sim.damping_asymmetry",),
    hard=(-INF, INF),
    structural="friction_law",
)
_actuator(
    "coulomb_slope",
    "N·m/rad",
    "Dry friction by position: more by this for each radian from the joint's default pose, never below zero; seals, "
    "cables and linkages that bind towards one end.",
    fields=("sim.coulomb_slope",),
    hard=(-INF, INF),
    structural="friction_law",
)
_actuator(
    "cable_stiffness",
    "N·m/rad",
    "Spring of a cable or hose that pulls the joint to the angle `cable_rest`, else to the model's own rest angle.",
    fields=("jnt_stiffness",),
)
_actuator(
    "cable_rest",
    "rad",
    "Angle at which the joint's cable pulls nothing; `stiffness` is the cable's when no cable_stiffness is given.",
    fields=("qpos_spring",),
    hard=(-INF, INF),
    structural="cable",
    options=Options({"stiffness": 0.01}),
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
