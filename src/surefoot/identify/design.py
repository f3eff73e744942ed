"""A Design: a motion for the robot, and what it is expected to teach; a plain JSON file that the runtime plays.

surefoot excite ROBOT --out motion.json;  surefoot deploy --trajectory motion.json;  surefoot identify ROBOT LOG --check motion.json

    what was expected:  std before -> std after        what the fit found:  value ± std        is one the other?
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.files import write_text
from surefoot.identify.fit_table import aligned

if TYPE_CHECKING:
    from surefoot.identify.fit import Fit

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
        if not (math.isfinite(self.dt) and self.dt > 0.0):
            raise InputError(f"the time between two rows of a motion must be above 0 s, got {self.dt!r}")
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

    def __post_init__(self):
        for name in ("value", "before", "after"):
            number = getattr(self, name)
            if not math.isfinite(number) or (number < 0.0 and name != "value"):
                raise InputError(f"'{name}' of what is expected of {self.name} must be a number, got {number!r}")

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
        best = max(self.expected, key=lambda x: x.before / max(x.after, 1e-300))
        head = f"{self.motion.seconds:g} s of {self.family} for {self.robot} ({SETTINGS[self.motion.setting]})"
        return "\n".join([head, f"expects to learn most about {best.sentence}", "", aligned(rows)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        m = self.motion
        return {
            "format": FORMAT, "version": VERSION, "robot": self.robot, "setting": m.setting, "channel": m.channel,
            "columns": list(m.columns), "dt": m.dt, "values": m.values.tolist(), "family": self.family,
            "expected": [vars(x) for x in self.expected], "scores": dict(self.scores), "about": dict(self.about),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Design":
        """The inverse of `to_dict`; further entries, such as the runtime's contract, are left aside."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT or data.get("version") != VERSION:
            raise InputError(
                f"it is no {FORMAT} of version {VERSION}: make one with `surefoot excite ROBOT --out FILE.json`"
            )
        try:
            return cls(
                robot=str(data["robot"]), motion=_motion(data), family=str(data.get("family", "")),
                expected=tuple(_expectation(x) for x in data.get("expected", ())), scores=dict(data.get("scores", {})),
                about=dict(data.get("about", {})),
            )  # fmt: skip
        except KeyError as error:
            raise InputError(f"'{error.args[0]}' is missing: make it anew with `surefoot excite`") from None
        except (TypeError, ValueError) as error:
            raise InputError(f"{error}: make it anew with `surefoot excite`") from None

    def save(self, path: str | Path, **more: Any) -> Path:
        """Write JSON, whole or not at all; `more` are further entries, such as the contract that the runtime uses."""
        path = Path(path)
        if path.suffix != ".json":
            raise InputError(f"a trajectory is a .json file, got '{path.name}'")
        write_text(path, json.dumps(self.to_dict() | more, allow_nan=False) + "\n")
        return path


def _motion(data: Mapping[str, Any]) -> Motion:
    try:
        values = np.array(data["values"], dtype=float)
    except (TypeError, ValueError):
        raise InputError("its 'values' are not rows of numbers, one number a column") from None
    columns = tuple(str(c) for c in data["columns"])
    return Motion(
        channel=str(data["channel"]), columns=columns, dt=float(data["dt"]), values=values, setting=str(data["setting"])
    )


def _expectation(entry: Any) -> Expected:
    if not isinstance(entry, Mapping):
        raise InputError(f"an entry of 'expected' holds name, unit, value, before and after, got {entry!r}")
    numbers = {name: float(entry[name]) for name in ("value", "before", "after")}
    return Expected(name=str(entry["name"]), unit=str(entry["unit"]), **numbers)


def load_design(path: str | Path) -> Design:
    """The Design in a file that `surefoot excite`, `Design.save` or `write_trajectory` wrote."""
    try:
        return Design.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
    except InputError as error:
        raise InputError(f"cannot read the trajectory '{path}': {error}") from None
    except OSError as error:
        raise InputError(f"cannot read the trajectory '{path}': {error.strerror or error}") from None
    except ValueError:
        raise InputError(
            f"cannot read the trajectory '{path}': it is no JSON, so no design: give the file that `surefoot excite --out` wrote"
        ) from None


# -------------------------------------------------------------------- was the prediction right?


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One scalar: what was expected of a motion and what a fit of its recording found, in the scalar's unit.

    Attributes:
        name, unit: of the scalar.
        believed, before: what was believed of it before the motion, and its standard deviation.
        after: the standard deviation that was expected after it.
        value, std: what the fit says.
        within: whether the value lies within what was believed, |value - believed| <= surprise · √(before² + std²).
        verdict: "as expected", "learned less", "learned more", "at a bound" or "belief was wrong".
    """

    name: str
    unit: str
    believed: float
    before: float
    after: float
    value: float
    std: float
    within: bool
    verdict: str

    @property
    def sentence(self) -> str:
        """One line for people."""
        unit = "" if self.unit == "1" else f" {self.unit}"
        expected = f"expected ±{self.before:.2g} -> ±{self.after:.2g}{unit}"
        wrong = "" if self.within else f", which was {self.believed:.4g} ±{self.before:.2g}{unit}"
        return f"{self.name}: {expected}, found {self.value:.4g} ±{self.std:.2g}{unit}: {self.verdict}{wrong}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the sentence with them."""
        return {**vars(self), "sentence": self.sentence}


def check_prediction(
    design: Mapping[str, Any] | Design, fit: "Fit", *, factor: float = 2.0, surprise: float = 4.0
) -> tuple[Checked, ...]:
    """Compare what a motion was expected to teach with what a fit of its recording found, for the scalars both know.

    The fit must have known what the design knew: where the design began with a fit, its recordings are fitted together with the new one.

    Args:
        design: the motion and its prediction: a Design, or its plain values as `excite` writes them.
        fit: of the recording.
        factor: how far the found standard deviation may be from the expected one, either way.
        surprise: difference of values, in standard deviations of both together, from which the belief itself was wrong.
    """
    made = design if isinstance(design, Design) else Design.from_dict(design)
    refuse_others(made, str(fit.provenance.get("robot", made.robot)), fit.names)
    return tuple(_checked(x, fit, factor, surprise) for x in made.expected if x.name in fit.names)


def refuse_others(design: Design, robot: str, names: Sequence[str]) -> None:
    """Refuse a design that a fit of this robot about scalars of these names cannot be compared with."""
    told = [x.name for x in design.expected]
    if not told:
        raise InputError("this motion says nothing of what it should teach: make it anew with `surefoot excite`")
    if design.robot not in (robot, robot.removesuffix("_suspended").removesuffix("_hung")):
        raise InputError(
            f"the motion was designed for {design.robot}, the fit is of {robot}: check a fit of {design.robot}"
        )
    if not set(told) & set(names):
        raise InputError(
            f"the motion was designed for {', '.join(told)}, the fit is about {', '.join(names)}: "
            "they have nothing in common, fit what the motion was designed for"
        )


def _checked(x: Expected, fit: "Fit", factor: float, surprise: float) -> Checked:
    i = fit.names.index(x.name)
    value, std = float(fit.values[i]), float(fit.std[i])
    within = abs(value - x.value) <= surprise * math.hypot(x.before, std)
    ratio = std / max(x.after, 1e-300)
    if not within:
        verdict = "belief was wrong"
    elif x.name in fit.at_bound:
        verdict = "at a bound"
    elif ratio > factor:
        verdict = "learned less"
    else:
        verdict = "learned more" if ratio < 1.0 / factor and x.taught else "as expected"
    return Checked(
        name=x.name, unit=x.unit, believed=x.value, before=x.before, after=x.after, value=value, std=std, within=within, verdict=verdict
    )  # fmt: skip


def checked_table(rows: Sequence[Checked]) -> str:
    """What was expected and what was found as a table, a line a scalar."""
    cells = [("param", "believed", "±", "expected ±", "found", "found ±", "unit", "")]
    for x in rows:
        numbers = (f"{x.believed:.4g}", f"{x.before:.2g}", f"{x.after:.2g}", f"{x.value:.4g}", f"{x.std:.2g}")
        cells.append((x.name, *numbers, x.unit, x.verdict))
    return aligned(cells)
