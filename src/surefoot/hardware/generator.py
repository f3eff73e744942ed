"""Draws stand-in robots from a seed: the higher the level, the further from nominal and the more physics beyond the Params."""

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.hardware.reality import BEYOND, STARTS, TRUTH, parse_reality
from surefoot.robots import load

Ends = tuple[float, float]
COMMON: dict[str, Ends] = {"command_delay": (0.002, 0.02), "sensor_delay": (0.002, 0.01), "dropout": (0.0, 0.03)}
"""Entries as (at level 0, the worst at level 1), for all robots."""
LINK: dict[str, dict[str, Ends]] = {
    "a link that wanders": {"jitter": (0.001, 0.01), "jitter_memory": (0.05, 0.4)},
    "a sensor bus that falls silent": {"burst_every": (6.0, 1.0), "burst_length": (0.004, 0.012)},
}
"""Physics beyond the Params, in groups that belong together."""
JOINTS: dict[str, dict[str, Ends]] = {
    "gears": {"gear_ripple": (0.2, 0.8), "gear_teeth": (12.0, 60.0)},
    "wear": {"wear_friction": (0.005, 0.05), "wear_strength": (0.001, 0.008)},
    "a battery that sags": {"sag": (0.1, 0.5), "sag_recovery": (3.0, 0.5)},
    "motors that warm up": {"heating": (5.0, 40.0), "heat_weakness": (0.001, 0.004)},
}

TRUTHS: dict[str, dict[str, Ends]] = {
    "go2": COMMON | {
        "friction": (0.8, 0.3), "kp": (1.0, 0.8), "kd": (1.0, 0.5), "strength": (1.0, 0.75), "damping": (2.0, 0.6), "coulomb": (0.2, 0.9),
        "torque_lag": (0.001, 0.006), "gyro_noise": (2.6e-4, 2e-3), "push_speed": (0.0, 0.8), "bumps": (0.0, 0.03),
    },
    "crazyflie": COMMON | {
        "command_delay": (0.001, 0.015), "strength": (1.0, 0.88), "rotor_lag": (0.05, 0.1), "drag": (0.0, 0.008),
        "position_noise": (0.005, 0.015), "push_speed": (0.0, 0.5),
    },
    "qube": COMMON | {
        "command_delay": (0.001, 0.008), "sensor_delay": (0.0, 0.003), "resistance": (8.4, 10.3), "torque_constant": (0.042, 0.035),
        "coulomb": (0.0, 0.002), "velocity_filter": (0.004, 0.01),
    },
    "servo": COMMON | {
        "command_delay": (0.004, 0.015), "kp": (1.0, 0.75), "kd": (1.0, 1.5), "strength": (1.0, 0.8), "coulomb": (0.0182, 0.05),
        "load_friction": (0.0, 0.3), "damping": (0.0059, 0.02), "armature": (0.00199, 0.004),
    },
}  # fmt: skip
MASSES: dict[str, dict[str, Ends]] = {
    "go2": {"base": (6.921, 9.9)}, "crazyflie": {"base": (0.027, 0.034)}, "qube": {"arm": (0.095, 0.13), "pendulum": (0.024, 0.029)},
    "servo": {"arm": (0.49, 0.54)},
}  # fmt: skip
"""[kg] at level 0, and the furthest at level 1."""
SHIFTS: dict[str, dict[str, float]] = {
    "go2": {"com": 0.04, "encoder_bias": 0.06, "gyro_bias": 0.02, "imu_mounting": 0.05},
    "crazyflie": {"com": 0.003, "gyro_bias": 0.02, "imu_mounting": 0.03, "wind": 0.8},
    "qube": {"encoder_bias": 0.02},
    "servo": {"encoder_bias": 0.04},
}
"""Entries that lie either way of zero: their spread at level 1."""
BEYONDS: dict[str, dict[str, dict[str, Ends]]] = {
    "go2": LINK | JOINTS | {
        "hysteresis": {"hysteresis": (0.1, 0.9), "hysteresis_width": (0.02, 0.08)},
        "soles that stick and slip": {"static_ratio": (1.2, 1.9), "stribeck": (0.1, 0.04)},
        "slippery patches": {"patch_friction": (0.8, 0.25), "patch_size": (0.2, 0.6), "patch_share": (0.1, 0.4)},
        "stretched belts": {"belt_stiffness": (300.0, 90.0), "belt_hardening": (1000.0, 4000.0)},
        "play": {"backlash": (0.005, 0.04)},
        "gusts": {"gust": (2.0, 12.0), "gust_memory": (0.2, 1.0)},
    },
    "crazyflie": LINK | {
        "ground effect": {"table_height": (0.7, 0.93), "ground_effect": (0.5, 2.5)},
        "rotor drag": {"rotor_drag": (0.003, 0.02)},
        "vibration": {"vibration": (0.5, 5.0)},
        "a battery that sags": {"sag": (0.02, 0.1), "sag_recovery": (6.0, 2.0)},
        "wear": {"wear_strength": (0.0005, 0.003)},
        "gusts": {"gust": (0.005, 0.03), "gust_memory": (0.2, 1.0)},
    },
    "qube": LINK | JOINTS | {"a cable": {"hysteresis": (3e-4, 2e-3), "hysteresis_width": (0.1, 0.4)}},
    "servo": LINK | JOINTS | {
        "hysteresis": {"hysteresis": (0.005, 0.03), "hysteresis_width": (0.02, 0.08)},
        "play": {"backlash": (0.005, 0.04), "belt_stiffness": (60.0, 25.0)},
    },
}  # fmt: skip


def draw(robot: str, seed: int, level: float) -> str:
    """The TOML text of a stand-in robot.

    Args:
        robot: one that has stand-ins.
        seed: the same text for the same seed and level.
        level: 0 nominal .. 1 nasty. Each entry lies between its nominal and `level` of the way to its worst.
    """
    choose(robot, STARTS, "a robot with a stand-in")
    if not 0.0 <= level <= 1.0:
        raise InputError(f"level must be in 0 .. 1, got {level!r}")
    if seed < 0:
        raise InputError(f"a seed is a whole number from 0, got {seed!r}")
    rng = np.random.Generator(np.random.Philox(key=[seed, 7]))

    def between(ends: Ends) -> float:
        return ends[0] + (ends[1] - ends[0]) * level * float(rng.uniform(0.3, 1.0))

    truth: dict[str, object] = {key: between(ends) for key, ends in TRUTHS[robot].items()}
    if robot == "qube":
        truth["coulomb"] = {"arm": truth["coulomb"]}
    truth["mass"] = {body: between(ends) for body, ends in MASSES[robot].items()}
    if truth.get("push_speed"):
        truth["push_every"] = float(rng.uniform(2.0, 5.0))
    truth |= _shifted(robot, level, rng)
    groups = list(BEYONDS[robot])
    count = int(rng.binomial(len(groups), 0.6 * level)) if level else 0
    chosen = sorted(rng.permutation(len(groups))[: max(count, 1 if level >= 0.5 else 0)])
    beyond = {key: between(ends) for k in chosen for key, ends in BEYONDS[robot][groups[k]].items()}
    step = 0.001 if robot == "go2" else 0.0005
    numerics = {
        "timestep": step,
        "integrator": str(rng.choice(["implicit", "euler", "implicitfast"] if robot == "go2" else ["rk4", "implicit"])),
        "impratio": float(rng.choice([10.0, 20.0, 30.0])),
    }
    text = _text(robot, seed, level, numerics, truth, beyond)
    parse_reality(text, name=f"draw {seed}")
    return text


def _shifted(robot: str, level: float, rng: np.random.Generator) -> dict[str, object]:
    """Entries either way of zero: per joint, per axis, or per body."""
    found: dict[str, object] = {}
    for key, spread in SHIFTS[robot].items():
        if key == "com":
            body = next(iter(MASSES[robot]))
            found[key] = {body: (level * spread * rng.uniform(-1, 1, 3)).tolist()}
        elif TRUTH[key].shape == "each":
            joints = load(robot).joints
            found[key] = dict(zip(joints, (level * spread * rng.uniform(-1, 1, len(joints))).tolist(), strict=True))
        else:
            found[key] = (level * spread * rng.uniform(-1, 1, 3)).tolist()
    return found


def _text(robot: str, seed: int, level: float, numerics: dict, truth: dict, beyond: dict) -> str:
    lines = [
        f'robot = "{robot}"',
        f"level = {level:g}",
        f'about = "drawn with seed {seed} at level {level:g}"',
        "",
        "[numerics]",
    ]
    lines += [f"{key} = {_value(value)}" for key, value in numerics.items()]
    for name, table, known in (("truth", truth, TRUTH), ("beyond", beyond, BEYOND)):
        if table:
            lines += ["", f"[{name}]"]
            lines += [f"{key} = {_value(value)}  # [{known[key].unit}]" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{name}" = {_value(v)}' for name, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    assert isinstance(value, int | float)
    return (
        f"{float(value):.6g}" if "." in f"{float(value):.6g}" or "e" in f"{float(value):.6g}" else f"{float(value):.1f}"
    )
