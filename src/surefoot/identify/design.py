"""A Design: a motion for the robot, and what it is expected to teach; a plain JSON file that the runtime plays.

surefoot excite ROBOT --out motion.json;  surefoot deploy --trajectory motion.json;  surefoot identify LOG --check motion.json
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.files import write_text

FORMAT = "surefoot trajectory"
VERSION = 1
SETTINGS = {
    "fixed": "the robot stays where it is bolted down",
    "air": "hang the robot up or put it on a stand: no foot may touch anything",
    "standing": "put the robot on flat ground: it stands up by itself",
    "walking": "give the robot room to walk: a policy moves it, the trajectory is what the policy is asked for",
}
"""How a robot must be set up before a motion is played."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion:
    """Commands on a grid of time.

    Attributes:
        channel: "joint_pos_target", "voltage_target", ..., or "command" for what a policy is asked to do.
        columns: motors, or names of commands, (k,).
        dt: time between two rows [s].
        values: (T, k), in the unit of the channel.
        setting: how the robot must be set up, one of SETTINGS.
    """

    channel: str
    columns: tuple[str, ...]
    dt: float
    values: np.ndarray
    setting: str

    def __post_init__(self):
        choose(self.setting, SETTINGS, "a setting of a motion")
        values = np.array(self.values, dtype=float)
        if values.ndim != 2 or values.shape[1] != len(self.columns) or not len(values) or not np.isfinite(values).all():
            raise InputError(
                f"a motion of {len(self.columns)} columns needs finite values of shape (T, {len(self.columns)}), got {values.shape}"
            )
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "columns", tuple(self.columns))

    @property
    def seconds(self) -> float:
        """Length [s]."""
        return self.dt * len(self.values)

    @property
    def t(self) -> np.ndarray:
        """Time at which each row begins to hold [s], (T,)."""
        return self.dt * np.arange(len(self.values))


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a motion is expected to teach about one scalar of e: standard deviations before and after, in its unit."""

    name: str
    unit: str
    value: float
    """What is believed now."""
    before: float
    after: float

    @property
    def sentence(self) -> str:
        """As in: base_mass ±0.9 -> ±0.2 kg."""
        unit = "" if self.unit == "1" else f" {self.unit}"
        return f"{self.name} ±{self.before:.2g} -> ±{self.after:.2g}{unit}"

    @property
    def taught(self) -> bool:
        """Whether the motion says something about it: at least a third of its spread goes away."""
        return self.after < 0.67 * self.before


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """What `excite` returns.

    Attributes:
        robot: name of the robot.
        motion: what to play.
        family: sort of motion that was best.
        expected: what it should teach, by scalar of e.
        scores: criterion by family, of those with a motion that keeps the limits.
        about: seed, criterion, window, noise, hashes; plain values.
    """

    robot: str
    motion: Motion
    family: str
    expected: tuple[Expected, ...]
    scores: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = [("param", "now", "±", "expected ±", "unit", "")]
        for x in self.expected:
            said = "" if x.taught else "not learned by this motion"
            rows.append((x.name, f"{x.value:.4g}", f"{x.before:.2g}", f"{x.after:.2g}", x.unit, said))
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        best = max(self.expected, key=lambda x: x.before / max(x.after, 1e-300))
        head = f"{self.motion.seconds:g} s of {self.family} for {self.robot} ({SETTINGS[self.motion.setting]})"
        return "\n".join([head, f"expects to learn most about {best.sentence}", "", *lines])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        m = self.motion
        return {
            "format": FORMAT, "version": VERSION, "robot": self.robot, "setting": m.setting, "channel": m.channel,
            "columns": list(m.columns), "dt": m.dt, "values": m.values.tolist(), "family": self.family,
            "expected": [vars(x) for x in self.expected], "scores": dict(self.scores), "about": dict(self.about),
        }  # fmt: skip

    def save(self, path: str | Path, **more: Any) -> Path:
        """Write JSON, whole or not at all; `more` are further entries, such as the contract that the runtime uses."""
        path = Path(path)
        if path.suffix != ".json":
            raise InputError(f"a trajectory is a .json file, got '{path.name}'")
        write_text(path, json.dumps(self.to_dict() | more, allow_nan=False) + "\n")
        return path


def load_design(path: str | Path) -> Design:
    """The Design in a file that `save` wrote."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
            raise InputError(f"it is no {FORMAT} of version {VERSION}")
        motion = Motion(
            channel=str(data["channel"]), columns=tuple(data["columns"]), dt=float(data["dt"]),
            values=np.array(data["values"], dtype=float), setting=str(data["setting"]),
        )  # fmt: skip
        expected = tuple(Expected(**entry) for entry in data.get("expected", []))
        return Design(
            robot=str(data["robot"]), motion=motion, family=str(data.get("family", "")), expected=expected,
            scores=data.get("scores", {}), about=data.get("about", {}),
        )  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError) as error:
        said = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"cannot read the trajectory '{path}': {said}") from None


# -------------------------------------------------------------------- was the prediction right?


class Fitted(Protocol):
    """What `check_prediction` reads of a Fit."""

    @property
    def names(self) -> tuple[str, ...]:
        """Scalars, ("kd[FL_calf]", ...)."""
        ...

    @property
    def values(self) -> np.ndarray:
        """Their values (d,)."""
        ...

    @property
    def std(self) -> np.ndarray:
        """Their honest standard deviations (d,)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One scalar: what was expected of a motion and what a fit of it found.

    Attributes:
        expected: what the design said.
        value, std: what the fit says.
        shift: |value − what was believed| in standard deviations of what was believed.
        ratio: std of the fit over the expected one.
        verdict: "as expected", "learned less", "learned more" or "belief was wrong".
    """

    expected: Expected
    value: float
    std: float
    shift: float
    ratio: float
    verdict: str

    @property
    def sentence(self) -> str:
        """One line for people."""
        x, unit = self.expected, "" if self.expected.unit == "1" else f" {self.expected.unit}"
        said = (
            f"{x.name}: expected ±{x.before:.2g} -> ±{x.after:.2g}{unit}, found {self.value:.4g} ±{self.std:.2g}{unit}"
        )
        return f"{said}: {self.verdict}"


def check_prediction(design: Design, fit: Fitted, *, factor: float = 2.0, surprise: float = 4.0) -> tuple[Checked, ...]:
    """Compare what a motion was expected to teach with what a fit of its recording found, for the scalars both know.

    Args:
        design: the motion and its prediction.
        fit: of the recording.
        factor: how far the found standard deviation may be from the expected one, either way.
        surprise: shift, in standard deviations believed before, from which the belief itself was wrong.
    """
    found = []
    for x in design.expected:
        if x.name not in fit.names:
            continue
        i = fit.names.index(x.name)
        value, std = float(fit.values[i]), float(fit.std[i])
        shift, ratio = abs(value - x.value) / max(x.before, 1e-300), std / max(x.after, 1e-300)
        verdict = "as expected"
        if shift > surprise:
            verdict = "belief was wrong"
        elif ratio > factor:
            verdict = "learned less"
        elif ratio < 1.0 / factor and x.taught:
            verdict = "learned more"
        found.append(Checked(expected=x, value=value, std=std, shift=shift, ratio=ratio, verdict=verdict))
    if not found:
        raise InputError(
            f"the motion was designed for {', '.join(x.name for x in design.expected)}, the fit is about "
            f"{', '.join(fit.names)}: they have nothing in common"
        )
    return tuple(found)
