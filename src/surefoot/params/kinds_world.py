"""Kinds of unknowns of sensors, environment, process and numerics. One line says what changes when the value does."""

from types import MappingProxyType as Options

from surefoot.params.kind import INF, Kind, declare

XYZ = ("x", "y", "z")


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
_sensor(
    "velocity_filter",
    "s",
    "How late speed is where it is had from angles, by a low-pass over their differences; 0: measured.",
    hard=(0.0, INF),
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
    engines=("cpu", "cuda"),
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
    engines=("cpu", "cuda"),
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
