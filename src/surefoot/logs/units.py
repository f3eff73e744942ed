"""Units: what a channel may be in (SI), and how the unit of a file becomes it.

value in SI = value in the file * factor + offset
"""

import math

import numpy as np

from surefoot.errors import InputError, did_you_mean

SI = (
    "1", "s", "m", "rad", "m/s", "rad/s", "m/s^2", "rad/s^2", "kg", "kg·m^2", "N", "N·m", "N·s", "N·m/rad", "N·m·s/rad",
    "A", "V", "W", "J", "Pa", "K", "degC", "Hz", "ohm", "T", "count",
)  # fmt: skip
"""Units a channel may have: SI, degC for temperatures, "count" for raw numbers of a device, "1" for none."""

ALIASES = {
    "": "1", "-": "1", "none": "1", "Nm": "N·m", "N*m": "N·m", "N.m": "N·m", "N m": "N·m", "m/s2": "m/s^2",
    "m/s²": "m/s^2", "rad/s2": "rad/s^2", "rad/s²": "rad/s^2", "kg*m^2": "kg·m^2", "kg·m²": "kg·m^2",
    "°C": "degC", "C": "degC", "Ohm": "ohm", "Ω": "ohm", "counts": "count", "raw": "count", "sec": "s", "°": "deg",
    "°/s": "deg/s", "degps": "deg/s", "dps": "deg/s", "μs": "us", "µs": "us", "revps": "rev/s", "rpm": "rev/min",
    "km/h": "kmph", "bool": "1", "%": "percent",
}  # fmt: skip
"""Other spellings of a unit."""

FOREIGN = {
    "deg": ("rad", math.pi / 180, 0.0),
    "deg/s": ("rad/s", math.pi / 180, 0.0),
    "deg/s^2": ("rad/s^2", math.pi / 180, 0.0),
    "mrad": ("rad", 1e-3, 0.0),
    "rev": ("rad", 2 * math.pi, 0.0),
    "rev/s": ("rad/s", 2 * math.pi, 0.0),
    "rev/min": ("rad/s", 2 * math.pi / 60, 0.0),
    "g": ("m/s^2", 9.80665, 0.0),
    "mg": ("m/s^2", 9.80665e-3, 0.0),
    "ms": ("s", 1e-3, 0.0),
    "us": ("s", 1e-6, 0.0),
    "ns": ("s", 1e-9, 0.0),
    "min": ("s", 60.0, 0.0),
    "mm": ("m", 1e-3, 0.0),
    "cm": ("m", 1e-2, 0.0),
    "km": ("m", 1e3, 0.0),
    "mm/s": ("m/s", 1e-3, 0.0),
    "cm/s": ("m/s", 1e-2, 0.0),
    "kmph": ("m/s", 1 / 3.6, 0.0),
    "mA": ("A", 1e-3, 0.0),
    "mV": ("V", 1e-3, 0.0),
    "mN·m": ("N·m", 1e-3, 0.0),
    "N·cm": ("N·m", 1e-2, 0.0),
    "kgf·cm": ("N·m", 9.80665e-2, 0.0),
    "kN": ("N", 1e3, 0.0),
    "kPa": ("Pa", 1e3, 0.0),
    "bar": ("Pa", 1e5, 0.0),
    "hPa": ("Pa", 1e2, 0.0),
    "uT": ("T", 1e-6, 0.0),
    "kHz": ("Hz", 1e3, 0.0),
    "degF": ("degC", 5 / 9, -160 / 9),
    "gram": ("kg", 1e-3, 0.0),
    "percent": ("1", 1e-2, 0.0),
}
"""Units of files: the SI unit, the factor and the offset."""

ALLOWED = {
    "joint_pos": ("rad", "m"),
    "joint_vel": ("rad/s", "m/s"),
    "joint_torque": ("N·m", "N"),
    "joint_temperature": ("degC",),
    "gyro": ("rad/s",),
    "accel": ("m/s^2",),
    "quat": ("1",),
    "gravity": ("1",),
    "foot_force": ("N",),
    "wrench": ("N", "N·m"),
    "base_pos": ("m",),
    "base_vel": ("m/s",),
    "base_vel_world": ("m/s",),
    "base_gyro_true": ("rad/s",),
    "voltage": ("V",),
    "current": ("A",),
    "joint_pos_target": ("rad", "m"),
    "joint_vel_target": ("rad/s", "m/s"),
    "joint_torque_target": ("N·m", "N"),
    "voltage_target": ("V",),
    "rotor_target": ("1",),
}
"""Units in which a channel of a standard name may be; a channel of any other name may be in any SI unit."""


def canonical(unit: str) -> str:
    """The one spelling of a unit that surefoot uses ("Nm" -> "N·m"); raises InputError on an unknown one."""
    unit = unit.strip()
    unit = ALIASES.get(unit, unit)
    if unit not in SI and unit not in FOREIGN:
        raise InputError(f"{unit!r} is not a known unit {did_you_mean(unit, [*SI, *FOREIGN, *ALIASES], most=60)}")
    return unit


def conversion(unit: str) -> tuple[str, float, float]:
    """SI unit, factor and offset of a file's unit: ("deg") -> ("rad", 0.01745.., 0.0)."""
    unit = canonical(unit)
    return FOREIGN.get(unit, (unit, 1.0, 0.0))


def to_si(values: np.ndarray, unit: str) -> np.ndarray:
    """Convert `values` given in `unit` into its SI unit, float64; values already in SI keep their bits."""
    _, factor, offset = conversion(unit)
    values = np.asarray(values, dtype=np.float64)
    if (factor, offset) == (1.0, 0.0):
        return values
    whole = round(1 / factor) if factor < 1 else 0
    # Dividing by a whole number rounds once: 100000 us are 0.1 s to the last bit.
    return (values / whole if whole and factor == 1 / whole else values * factor) + offset


def checked(channel: str, unit: str, count: int) -> str:
    """The canonical unit of a channel: one unit, or `count` of them separated by commas ("m, rad").

    Raises InputError when a unit is unknown, not SI, or not one that a channel of this name can have.
    """
    units = [canonical(part) for part in unit.split(",")] if unit.strip() else ["1"]
    if len(units) not in (1, count):
        raise InputError(
            f"channel {channel!r} has {count} columns but {len(units)} units {unit!r}: give one, or one per column"
        )
    for one in units:
        if one in FOREIGN:
            raise InputError(
                f"channel {channel!r} is in {one!r}, not SI: convert it to {FOREIGN[one][0]!r} "
                "(surefoot.logs.to_si, or the mapping's `unit`)"
            )
        if one not in ALLOWED.get(channel, (one,)):
            allowed = " or ".join(ALLOWED[channel])
            raise InputError(f"channel {channel!r} cannot be in {one!r}: it is in {allowed}")
    return units[0] if len(set(units)) == 1 else ", ".join(units)
