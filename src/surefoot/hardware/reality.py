"""A Reality: the file that says what a stand-in robot really is. Only the twin's own process opens it.

    [truth]    a hidden e: what the package's Params also know, masses, friction, gains, delays, biases ...
    [beyond]   physics that no Param holds: only the code of the twin knows it

Every entry is one number, three numbers, or a table from a name (or a pattern of names) to numbers. What is left out is as
in the robot's own file. An unknown entry, and one that could not act on this robot, is refused.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose, did_you_mean

SHIPPED = Path(__file__).parent / "realities"
"""Realities that come with surefoot, ROBOT/NAME.toml."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What may stand under one key: its unit, bounds, shape, and which part of a robot it needs to act on."""

    about: str
    unit: str = "1"
    low: float = 0.0
    high: float = 1.0
    shape: str = "one"  # one | each (number, or by motor or joint) | xyz | xy | bodies | shifts
    needs: str = ""  # "" | joints | motors | rotors | voltage | feet | base | imu | encoder | position | drives
    default: float | None = 0.0
    """None: the robot's own figure."""


def _one(about: str, unit: str, low: float, high: float, needs: str = "", default: float | None = 0.0) -> Entry:
    return Entry(about=about, unit=unit, low=low, high=high, needs=needs, default=default)


def _each(about: str, unit: str, low: float, high: float, needs: str, default: float | None = 0.0) -> Entry:
    return Entry(about=about, unit=unit, low=low, high=high, shape="each", needs=needs, default=default)


def _xyz(about: str, unit: str, high: float, needs: str) -> Entry:
    return Entry(about=about, unit=unit, low=-high, high=high, shape="xyz", needs=needs)


TRUTH: dict[str, Entry] = {
    "mass": Entry(about="mass of a body; its inertia follows", unit="kg", low=1e-4, high=200.0, shape="bodies"),
    "com": Entry(about="shift of a body's centre of mass", unit="m", low=-0.2, high=0.2, shape="shifts"),
    "friction": _one("sliding friction of the feet", "1", 0.02, 3.0, "feet", None),
    "slope": Entry(about="rise of the ground along x and y", unit="rad", low=-0.5, high=0.5, shape="xy", needs="feet"),
    "bumps": _one("height of the ground's bumps", "m", 0.0, 0.1, "feet"),
    "kp": _each("factor on the gain kp that was asked for", "1", 0.1, 3.0, "drives", 1.0),
    "kd": _each("factor on the gain kd that was asked for", "1", 0.0, 5.0, "drives", 1.0),
    "strength": _each("factor on torque and its limit, or on thrust", "1", 0.05, 2.0, "motors", 1.0),
    "armature": _each("reflected inertia of the rotor", "kg·m^2", 0.0, 0.5, "joints", None),
    "damping": _each("viscous friction", "N·m·s/rad", 0.0, 10.0, "joints", None),
    "coulomb": _each("dry friction", "N·m", 0.0, 10.0, "joints", None),
    "load_friction": _each("dry friction per motor torque", "1", 0.0, 0.8, "drives"),
    "torque_lag": _each("lag of the current loop", "s", 0.0, 0.05, "drives"),
    "knee": _one("share of the no-load speed up to which full torque is had", "1", 0.0, 0.99, "drives", 0.8),
    "torque_constant": _each("motor constant", "N·m/A", 1e-4, 10.0, "voltage", None),
    "resistance": _each("of the windings", "ohm", 1e-2, 100.0, "voltage", None),
    "rotor_lag": _each("of a rotor that speeds up; slowing takes 1.4 times as long", "s", 0.001, 0.5, "rotors", None),
    "drag": _one("drag area", "m^2", 0.0, 0.1, "rotors"),
    "wind": _xyz("steady wind in the world's frame", "m/s", 10.0, "rotors"),
    "command_delay": _one("from a command's arrival to its effect", "s", 0.0, 0.2),
    "sensor_delay": _one("age of a reading when it is stamped", "s", 0.0, 0.2),
    "dropout": _one("chance that a reading is lost", "1", 0.0, 0.5),
    "encoder_bias": _each("added to the joint's angle", "rad", -0.3, 0.3, "encoder"),
    "encoder_noise": _each("standard deviation", "rad", 0.0, 0.1, "encoder", None),
    "encoder_quantum": _each("smallest step", "rad", 0.0, 0.1, "encoder", None),
    "velocity_noise": _each("standard deviation", "rad/s", 0.0, 2.0, "encoder", None),
    "velocity_filter": _one("speed is the filtered difference of angles, of this time; 0: measured", "s", 0.0, 0.1, "encoder"),
    "gyro_bias": _xyz("turn-on bias", "rad/s", 0.2, "imu"),
    "gyro_noise": _one("density", "rad/s/sqrt(Hz)", 0.0, 0.05, "imu", None),
    "gyro_walk": _one("of the bias", "rad/s^2/sqrt(Hz)", 0.0, 0.01, "imu", None),
    "accel_bias": _xyz("turn-on bias", "m/s^2", 2.0, "imu"),
    "accel_noise": _one("density", "m/s^2/sqrt(Hz)", 0.0, 0.2, "imu", None),
    "imu_mounting": _xyz("rotation vector of the IMU on its body", "rad", 0.3, "imu"),
    "torque_noise": _one("standard deviation of the estimated torque", "N·m", 0.0, 5.0, "drives", None),
    "force_noise": _one("standard deviation of the feet's force", "N", 0.0, 50.0, "feet", None),
    "position_noise": _one("standard deviation", "m", 0.0, 0.2, "position", None),
    "position_velocity_noise": _one("standard deviation", "m/s", 0.0, 1.0, "position", None),
    "push_every": _one("time between two shoves; 0: none", "s", 0.0, 60.0, "base"),
    "push_speed": _one("what a shove adds to the speed of the base, in any direction", "m/s", 0.0, 3.0, "base"),
}  # fmt: skip
"""What the Params of the package know as well."""

BEYOND: dict[str, Entry] = {
    "gear_ripple": _each("change of dry friction over the gear's teeth, relative", "1", 0.0, 1.0, "drives"),
    "gear_teeth": _one("periods of that change in one turn of the joint", "1", 1.0, 200.0, "drives", 24.0),
    "hysteresis": _each("torque of a slow friction that follows the path, not the speed", "N·m", 0.0, 5.0, "drives"),
    "hysteresis_width": _one("travel over which it builds up", "rad", 0.001, 0.5, "drives", 0.05),
    "presliding": _one("travel over which dry friction builds up", "rad", 1e-4, 0.05, "joints", 0.003),
    "static_ratio": _one("static over sliding friction of the feet", "1", 1.0, 3.0, "feet", 1.0),
    "stribeck": _one("slip speed at which static friction has gone", "m/s", 0.001, 1.0, "feet", 0.05),
    "patch_friction": _one("factor on the feet's friction on slippery patches", "1", 0.02, 1.0, "feet", 1.0),
    "patch_size": _one("side of a patch", "m", 0.05, 5.0, "feet", 0.3),
    "patch_share": _one("share of the ground they cover", "1", 0.0, 1.0, "feet", 0.3),
    "belt_stiffness": _each("of a spring between motor and joint; 0: rigid", "N·m/rad", 0.0, 5000.0, "drives"),
    "belt_hardening": _each("cubic part of that spring", "N·m/rad^3", 0.0, 1e6, "drives"),
    "backlash": _each("play between motor and joint", "rad", 0.0, 0.2, "drives"),
    "ground_effect": _one("more thrust near the ground, 1: as of a rotor in free air over a plane", "1", 0.0, 3.0, "rotors"),
    "table_height": _one("of a table under the start, 0.8 m wide", "m", 0.0, 0.95, "rotors"),
    "rotor_drag": _one("force against sideways motion per full rotor speed and speed", "N·s/m", 0.0, 0.05, "rotors"),
    "vibration": _one("acceleration that the rotors at full speed put on the IMU", "m/s^2", 0.0, 30.0, "rotors"),
    "jitter": _one("spread of a delay that wanders, on commands and readings", "s", 0.0, 0.05),
    "jitter_memory": _one("time over which that delay wanders", "s", 0.001, 10.0, "", 0.2),
    "burst_every": _one("mean time between two silences of the sensors; 0: none", "s", 0.0, 600.0),
    "burst_length": _one("mean length of a silence", "s", 0.0, 0.5, "", 0.01),
    "wear_friction": _one("growth of dry and viscous friction", "1/s", 0.0, 0.5, "joints"),
    "wear_strength": _one("loss of strength", "1/s", 0.0, 0.1, "motors"),
    "sag": _one("loss of voltage at full load, relative", "1", 0.0, 0.8, "motors"),
    "sag_recovery": _one("time in which the battery sags and recovers", "s", 0.01, 60.0, "motors", 1.0),
    "heating": _one("rise of the windings' temperature at full torque", "K/s", 0.0, 100.0, "motors", 2.0),
    "heat_weakness": _one("loss of strength per kelvin above 25 °C", "1/K", 0.0, 0.05, "motors"),
    "gyro_drift": _xyz("change of the gyro's bias per kelvin that the electronics warm up", "rad/s/K", 0.01, "imu"),
    "gust": _one("spread of a gust's force on the base, each axis", "N", 0.0, 100.0, "base"),
    "gust_memory": _one("time over which a gust lasts", "s", 0.01, 30.0, "base", 0.5),
}  # fmt: skip
"""What only the twin knows."""

NUMERICS: dict[str, tuple[Any, str]] = {
    "timestep": (0.001, "physics step [s]"),
    "integrator": ("implicit", "euler | implicit | implicitfast | rk4"),
    "cone": ("elliptic", "elliptic | pyramidal"),
    "impratio": (10.0, "stiffness of friction against that of the normal direction"),
    "contact_time": (0.02, "time constant of a contact [s]"),
}
STARTS = {"go2": ("crouched", "standing"), "crazyflie": ("held", "thrown"), "qube": ("hanging",), "servo": ("zero",)}
"""How a stand-in robot may begin; the first is meant when the file does not say."""
RATES = {"go2": 500.0, "crazyflie": 500.0, "qube": 500.0, "servo": 200.0}
"""Readings per second [Hz]."""
ENGINES = ("mujoco", "physx")
"""What moves the body of a stand-in robot; physx needs the extra of that name."""
TOP = ("robot", "level", "about", "start", "rate", "watchdog", "engine", "numerics", "truth", "beyond")


@dataclass(frozen=True, kw_only=True)
class Reality:
    """What a stand-in robot really is.

    Attributes:
        name: of the file.
        robot: name in the library.
        level: 0 nominal .. 1 nasty.
        about: one line that gives nothing away.
        start: how it begins, one of STARTS.
        rate: of its readings [Hz].
        watchdog: time without a command after which the motors damp [s].
        engine: what moves its body, one of ENGINES.
        numerics, truth, beyond: the tables of the file; numerics complete.
    """

    name: str
    robot: str
    level: float
    about: str
    start: str
    rate: float
    watchdog: float = 0.1
    engine: str = "mujoco"
    numerics: Mapping[str, Any] = field(default_factory=dict)
    truth: Mapping[str, Any] = field(default_factory=dict)
    beyond: Mapping[str, Any] = field(default_factory=dict)

    def one(self, key: str, own: float | None = None) -> float:
        """A number; `own` is the robot's figure, taken where neither file nor default says."""
        entry, given = self._find(key)
        value = given if given is not None else entry.default
        return float(own if value is None and own is not None else (value or 0.0))

    def xyz(self, key: str) -> np.ndarray:
        """Three (or two) numbers, zeros when left out."""
        entry, given = self._find(key)
        return np.zeros(2 if entry.shape == "xy" else 3) if given is None else np.asarray(given, dtype=np.float64)

    def each(self, key: str, names: Sequence[str], own: Sequence[float] | None = None) -> np.ndarray:
        """One number per name, (len(names),); a table's later patterns win over earlier ones."""
        entry, given = self._find(key)
        base = own if entry.default is None and own is not None else [entry.default or 0.0] * len(names)
        values = np.array(base, dtype=np.float64)
        if isinstance(given, Mapping):
            for pattern, value in given.items():
                values[[i for i, name in enumerate(names) if re.fullmatch(pattern, name)]] = value
        elif given is not None:
            values[:] = given
        return values

    def bodies(self, key: str) -> Mapping[str, Any]:
        """The table of an entry that is given by body."""
        return self._find(key)[1] or {}

    def _find(self, key: str) -> tuple[Entry, Any]:
        if key in TRUTH:
            return TRUTH[key], self.truth.get(key)
        return BEYOND[key], self.beyond.get(key)

    def check(
        self, *, joints: Sequence[str], motors: Sequence[str], bodies: Sequence[str], parts: Sequence[str]
    ) -> None:
        """Refuse what could not act: a name this robot has not, an entry that needs a part it has not."""
        for key in (*self.truth, *self.beyond):
            entry, given = self._find(key)
            if entry.needs and entry.needs not in parts:
                raise InputError(f"{self.name}: {key!r} needs {entry.needs}, which {self.robot} has not: leave it out")
            if not isinstance(given, Mapping):
                continue
            names = (
                bodies
                if entry.shape in ("bodies", "shifts")
                else joints
                if entry.needs in ("joints", "encoder")
                else motors
            )
            for pattern in given:
                if not any(re.fullmatch(pattern, name) for name in names):
                    hint = did_you_mean(pattern, names)
                    raise InputError(f"{self.name}: {key}.{pattern!r} is the name of nothing on {self.robot} {hint}")


def load_reality(path: str | Path) -> Reality:
    """Read and check a Reality file."""
    return parse_reality(_text(Path(path)), name=Path(path).stem)


def robot_of(path: str | Path) -> str:
    """Which robot a Reality file stands in for; nothing else of it is looked at."""
    data, name = _toml(_text(Path(path)), str(path)), Path(path).stem
    if "robot" not in data:
        raise InputError(f"{name} has no 'robot': a reality says which robot it stands in for")
    return choose(str(data["robot"]), STARTS, "a robot with a stand-in")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read the reality {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file: a reality is TOML") from None


def _toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not valid TOML: {error}") from None


def parse_reality(text: str, *, name: str) -> Reality:
    """The Reality that a TOML text describes."""
    data = _toml(text, name)
    for key in data:
        choose(key, TOP, f"an entry of a reality ({name})")
    missing = [key for key in ("robot", "level", "about") if key not in data]
    if missing:
        raise InputError(
            f"{name} has no {missing[0]!r}: a reality says its robot, its level 0..1 and one line about itself"
        )
    robot = choose(str(data["robot"]), STARTS, "a robot with a stand-in")
    level = _number(data["level"], 0.0, 1.0, f"{name}: level")
    start = choose(str(data.get("start", STARTS[robot][0])), STARTS[robot], f"a way {robot} can start")
    engine = choose(str(data.get("engine", ENGINES[0])), ENGINES, "an engine of a stand-in robot")
    numerics = _numerics(data.get("numerics", {}), name)
    if engine == "physx" and (odd := sorted(set(data.get("numerics", {})) - {"timestep"})):
        raise InputError(f'{name}: numerics.{odd[0]} is MuJoCo\'s, engine = "physx" has not got it: leave it out')
    rate = _number(data.get("rate", RATES[robot]), 10.0, 2000.0, f"{name}: rate")
    steps = 1.0 / (rate * numerics["timestep"])
    if abs(steps - round(steps)) > 1e-6 or steps < 0.5:
        raise InputError(
            f"{name}: 1/rate = {1 / rate:g} s is not a whole number of timesteps of {numerics['timestep']:g} s: change one"
        )
    about = str(data["about"])
    if not about.strip() or "\n" in about:
        raise InputError(f"{name}: `about` must be one line of text")
    return Reality(
        name=name, robot=robot, level=level, about=about, start=start, rate=rate,
        watchdog=_number(data.get("watchdog", 0.1), 0.005, 10.0, f"{name}: watchdog"),
        engine=engine,
        numerics=numerics,
        truth=_entries(data.get("truth", {}), TRUTH, f"{name}: truth"),
        beyond=_entries(data.get("beyond", {}), BEYOND, f"{name}: beyond"),
    )  # fmt: skip


def _numerics(given: Any, name: str) -> dict[str, Any]:
    out = {key: value for key, (value, _) in NUMERICS.items()}
    if not isinstance(given, Mapping):
        raise InputError(f"{name}: numerics must be a table")
    for key, value in given.items():
        choose(key, NUMERICS, f"an entry of numerics ({name})")
        if isinstance(out[key], str):
            out[key] = choose(str(value), [w.strip() for w in NUMERICS[key][1].split("|")], f"a choice of {key}")
        else:
            low, high = (1e-5, 0.01) if key == "timestep" else (1e-3, 1e3)
            out[key] = _number(value, low, high, f"{name}: numerics.{key}")
    return out


def _entries(given: Any, known: Mapping[str, Entry], where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(f"{where} must be a table")
    return {
        key: _entry(value, known[choose(key, known, f"an entry of {where}")], f"{where}.{key}")
        for key, value in given.items()
    }


def _entry(value: Any, entry: Entry, what: str) -> Any:
    low, high = entry.low, entry.high
    if entry.shape in ("bodies", "shifts") or (entry.shape == "each" and isinstance(value, Mapping)):
        if not isinstance(value, Mapping):
            raise InputError(f"{what} must be a table from names to values, got {value!r}")
        if entry.shape == "shifts":
            return {str(name): _vector(v, 3, low, high, f"{what}.{name}") for name, v in value.items()}
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise InputError(f"{what}: {pattern!r} is not a pattern: {error}") from None
        return {str(name): _number(v, low, high, f"{what}.{name}") for name, v in value.items()}
    if entry.shape in ("xyz", "xy"):
        return _vector(value, len(entry.shape), low, high, what)
    return _number(value, low, high, what)


def _vector(value: Any, size: int, low: float, high: float, what: str) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) != size:
        raise InputError(f"{what} must be a list of {size} numbers, got {value!r}")
    return tuple(_number(v, low, high, what) for v in value)


def _number(value: Any, low: float, high: float, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(f"{what} must be a number in {low:g} .. {high:g}, got {value!r}")
    return float(value)
