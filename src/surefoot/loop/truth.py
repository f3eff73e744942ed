"""What a reality's file says, in the words of the Params: for the oracle and for judges alone."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.loop.folder import Folder
from surefoot.loop.settings import Loop
from surefoot.loop.training import practice_of, stamp
from surefoot.params import Params

DIRECT = {
    "friction": "friction", "armature": "armature", "damping": "damping", "coulomb": "coulomb", "torque_constant": "torque_constant",
    "resistance": "resistance", "command_delay": "command_delay", "sensor_delay": "sensor_delay", "encoder_bias": "encoder_bias",
    "velocity_filter": "velocity_filter", "gyro_noise": "gyro_noise", "strength": "strength", "push": "push_speed",
}  # fmt: skip
"""Kind of Param -> entry of a reality in the same unit."""
FACTORS = ("kp", "kd")
"""Kinds whose entry is a factor on what was asked for."""


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The nearest e to a reality.

    Attributes:
        e: Param -> value, a number or one per element; what the reality leaves open has the nominal value.
        beyond: entries of the reality that no Param holds, and values that lie outside the Params' bounds.
    """

    e: Mapping[str, Any]
    beyond: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether the Params hold all of the reality."""
        return not self.beyond


def true_e(file: Path, params: Params) -> Nearest:
    """Read a reality's file as an e of bound Params."""
    from surefoot.hardware.reality import load_reality

    reality = load_reality(file)
    found: dict[str, Any] = {}
    used: set[tuple[str, str]] = set()
    beyond = list(reality.beyond)
    nominal = params.nominal_e(1)
    for name, param in params.items():
        elements = params.elements[name] or ("",)
        value = np.array(nominal[name][0], dtype=float).reshape(-1)
        given = _values(reality.truth, param, elements, value, used)
        low, high = float(param.low), float(param.high)
        if ((given < low - 1e-12) | (given > high + 1e-12)).any():
            beyond.append(f"{name} = {', '.join(f'{x:.4g}' for x in np.unique(given))}, outside {low:g} .. {high:g}")
        given = np.clip(given, low, high)
        found[name] = float(given[0]) if given.size == 1 else given
    for key, value in reality.truth.items():
        parts = list(value) if isinstance(value, Mapping) else [""]
        if key != "push_every" and not all((key, part) in used for part in parts):
            beyond.append(key)
    return Nearest(e=found, beyond=tuple(dict.fromkeys(beyond)))


def _values(
    truth: Mapping[str, Any], param: Any, elements: tuple[str, ...], value: np.ndarray, used: set[tuple[str, str]]
) -> np.ndarray:
    """Values of one Param, (elements,): the reality's where it has them, else `value`."""
    out = value.copy()
    if param.kind in ("mass", "com"):
        for body, given in truth.get(param.kind, {}).items():
            if _covers(param.of, body):
                used.add((param.kind, body))
                axis = param.options.get("axis")
                out[:] = given if param.kind == "mass" else given["xyz".index(axis)] if axis else given
        return out
    if param.kind == "gyro_bias" and "gyro_bias" in truth:
        used.add(("gyro_bias", ""))
        out[:] = truth["gyro_bias"]
        return out
    key = DIRECT.get(param.kind, param.kind if param.kind in FACTORS else "")
    if not key or key not in truth:
        return out
    scale = value if param.kind in FACTORS else np.ones_like(value)
    given = truth[key]
    if not isinstance(given, Mapping):
        used.add((key, ""))
        return scale * given
    tied: list[float] = []
    for pattern, number in given.items():
        for i, element in enumerate(elements):
            if element and re.fullmatch(pattern, element):
                out[i] = scale[i] * number
                used.add((key, pattern))
        if len(out) == 1 and _covers(param.of, pattern):
            tied.append(float(number))
            used.add((key, pattern))
    if tied:
        out[:] = scale * np.mean(tied)
    return out


def _covers(of: Any, name: str) -> bool:
    """Whether a Param is about an element (or about those of a pattern)."""
    return any(one == name or re.fullmatch(one, name) is not None for one in ((of,) if isinstance(of, str) else of))


def held_text(text: str) -> str:
    """The TOML text of a reality without all that the robot's Params do not hold, its values within their bounds."""
    import tomllib

    from surefoot.hardware.generator import _text
    from surefoot.hardware.reality import parse_reality
    from surefoot.robots import load
    from surefoot.sim import Sim

    data = tomllib.loads(text)
    params = Sim(load(data["robot"])).params
    truth: dict[str, Any] = {}
    for key, value in data["truth"].items():
        parts = value if isinstance(value, Mapping) else {"": value}
        for part, number in parts.items():
            if not _holds(params, key, part):
                continue
            if isinstance(value, Mapping):
                truth.setdefault(key, {})[part] = _within(params, key, part, number)
            else:
                truth[key] = _within(params, key, part, number)
    if "push_speed" in truth and "push_every" in data["truth"]:
        truth["push_every"] = data["truth"]["push_every"]
    made = _text(data["robot"], 0, float(data["level"]), data.get("numerics", {}), truth, {})
    parse_reality(made, name="held")
    return made


def _about(params: Params, key: str, part: str) -> list[Any]:
    """Params that hold an entry of a reality."""
    kinds = {v: k for k, v in DIRECT.items()} | {k: k for k in (*FACTORS, "mass", "com", "gyro_bias")}
    found = [p for p in params.values() if p.kind == kinds.get(key)]
    return [p for p in found if not part or _covers(p.of, part)]


def _holds(params: Params, key: str, part: str) -> bool:
    return bool(_about(params, key, part))


def _within(params: Params, key: str, part: str, number: Any) -> Any:
    """A value between the bounds of its Param."""
    about = _about(params, key, part)
    if isinstance(number, list):
        axes = {p.options.get("axis"): p for p in about}
        each = [axes.get("xyz"[i], axes.get(None)) for i in range(len(number))]
        return [0.0 if p is None else float(np.clip(x, p.low, p.high)) for p, x in zip(each, number, strict=True)]
    p = about[0]
    scale = float(p.nominal if p.kind in FACTORS and p.nominal is not None else 1.0)
    return float(np.clip(number, p.low / scale, p.high / scale))


def open_truth(loop: Loop, folder: Folder) -> dict[str, Any]:
    """For the oracle alone: what the Params hold of the reality, and what they do not: {"e", "beyond", "note"}."""

    def work(_again: bool) -> dict[str, Any]:
        from surefoot.sim import Sim

        found = true_e(loop.reality, Sim(practice_of(loop).robot).params)
        note = "" if found.whole else f"its e lacks {len(found.beyond)} things: {', '.join(found.beyond)}"
        e = {name: value if isinstance(value, float) else value.tolist() for name, value in found.e.items()}
        return {"e": e, "beyond": list(found.beyond), "note": note}

    return folder.step("truth", {"reality": stamp(loop.reality)}, work)
