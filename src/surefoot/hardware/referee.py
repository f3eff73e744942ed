"""What was true: a file that a twin's process writes at its end, for judges alone. The runtime never sees it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.files import replacing

STATES = ("waiting", "driven", "damping", "stopped")
"""What the motors did: nothing yet, as commanded, damped by the watchdog, damped for good by `stop`."""
ARRAYS = (
    "time",
    "base_pos",
    "base_vel_world",
    "quat",
    "gyro",
    "height",
    "upright",
    "contact",
    "joint_pos",
    "joint_vel",
    "torque",
    "state",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """The true motion of a stand-in robot, one row per reading; what a robot has not is of width 0.

    Attributes:
        time: [s], (n,).
        base_pos, base_vel_world, quat, gyro: of the base; world frame, gyro in the body's, (n, 3 or 4).
        height: of the base over the ground [m], (n,).
        upright: cosine between the body's z axis and the vertical, (n,).
        contact: whether each foot was on the ground, (n, feet).
        joint_pos, joint_vel: of the joints [rad], [rad/s], (n, joints).
        torque: of the motors [N·m], or thrust of the rotors [N], (n, motors).
        state: index into STATES, (n,).
        events: what the robot's own log says, (time [s], text).
        about: reality, robot, seed, names.
    """

    time: np.ndarray
    base_pos: np.ndarray
    base_vel_world: np.ndarray
    quat: np.ndarray
    gyro: np.ndarray
    height: np.ndarray
    upright: np.ndarray
    contact: np.ndarray
    joint_pos: np.ndarray
    joint_vel: np.ndarray
    torque: np.ndarray
    state: np.ndarray
    events: tuple[tuple[float, str], ...]
    about: Mapping[str, Any]

    def fallen(self, *, height: float = 0.55 * 0.3235, upright: float = 0.5) -> np.ndarray:
        """(n,) bool: the base is low over the ground or tilted; limits as in the walking task of Go2."""
        return (self.height < height) | (self.upright < upright)

    def after(self, start: float, stop: float = np.inf) -> np.ndarray:
        """(n,) bool: rows with start <= time <= stop [s]."""
        return (self.time >= start) & (self.time <= stop)


def read_truth(path: str | Path) -> Truth:
    """Read a referee file."""
    try:
        with np.load(path, allow_pickle=False) as data:
            text = json.loads(bytes(data["about"]).decode())
            arrays = {name: data[name] for name in ARRAYS}
    except FileNotFoundError:
        raise InputError(f"there is no referee file {path}: a twin writes it when it ends") from None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not a referee file: {error}") from None
    return Truth(events=tuple((float(t), str(s)) for t, s in text.pop("events")), about=text, **arrays)


class Notebook:
    """Rows of truth in memory; `save` writes them whole or not at all."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in ARRAYS}

    def note(self, **row: Any) -> None:
        """Add one row, one value per array."""
        for name, values in self.rows.items():
            values.append(row[name])

    def save(self, path: str | Path, about: Mapping[str, Any]) -> None:
        """Write the file."""
        arrays: dict[str, Any] = {n: np.array(rows, dtype=np.float32) for n, rows in self.rows.items() if n != "time"}
        text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, time=np.array(self.rows["time"], dtype=np.float64), about=text, **arrays)
