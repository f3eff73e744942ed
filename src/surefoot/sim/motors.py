"""Motors: from what is known about a motor (gains, limit, strength, windings) to the engine's fields, and back.

    pd         τ = clip(s (kp (u - q) - kd dq), ±s limit)                       s: strength
    wound pd   the same, and the drive's voltage (R/K) τ + K dq bounded by the supply: torque falls with speed
    voltage    τ = s K/R (u - K dq)

The tables hold the motor's own figures; the engine's fields hold their products. `decode` inverts them exactly, which
needs a torque limit wherever strength stands beside another gain.
"""

from collections.abc import Callable

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.robots import Actuator, Robot
from surefoot.sim.build import Built
from surefoot.sim.drives import CONTROL_POSITION, windings

TABLES = ("strength", "kp", "kd", "torque_limit", "torque_constant", "resistance", "voltage", "cogging", "thermal")


def probe_slots() -> dict[str, tuple[str, int]]:
    """Where a wound motor's figures live in the compiled model, found by compiling and comparing, never assumed."""

    def compiled(**change: float) -> mujoco.MjModel:
        f = {"kp": 3.0, "kd": 5.0, "V": 7.0, "K": 11.0, "R": 13.0, "cog": 17.0, "heat": 19.0, "alpha": 0.004, **change}
        spec = mujoco.MjSpec()
        body = spec.worldbody.add_body(mass=1.0, inertia=[1, 1, 1], explicitinertial=True)
        body.add_joint(name="j")
        actuator = spec.add_actuator(name="a", target="j", trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_dcmotor(
            motorconst=[f["K"], f["K"]],
            resistance=f["R"],
            cogging=[f["cog"], 7.0, 0.0],
            thermal=[f["heat"], 23.0, 0.0, f["alpha"], 25.0, 25.0],
            controller=[f["kp"], 0, f["kd"], 0, 0, f["V"]],
            ctrlspec=CONTROL_POSITION,
        )
        return spec.compile()

    reference, slots = compiled(), {}
    names = {
        "kp": "kp",
        "kd": "kd",
        "voltage": "V",
        "torque_constant": "K",
        "resistance": "R",
        "cogging": "cog",
        "thermal": "heat",
        "heat_coefficient": "alpha",
    }
    for name, short in names.items():
        changed = compiled(**{short: 29.0})
        found = [
            (field, int(i))
            for field in ("actuator_gainprm", "actuator_biasprm", "actuator_dynprm")
            for i in np.flatnonzero(getattr(changed, field)[0] == 29.0)
            if getattr(reference, field)[0, i] != 29.0
        ]
        if len(found) != 1:
            raise RuntimeError(f"this MuJoCo keeps a motor's {name} in {found}: expected one place")
        slots[name] = found[0]
    return slots


class Motors:
    """The actuators of one model: nominal tables, and the map between tables and engine fields."""

    def __init__(self, built: Built):
        robot, model = built.robot, built.model
        self.names = tuple(a.name for a in robot.actuators)
        self.ids = np.array([model.actuator(name).id for name in self.names], dtype=int)
        self.style = np.array([_style(a, a.name in built.motors, model) for a in robot.actuators])
        self.slots = probe_slots() if built.motors else {}
        self.gain = np.where(np.isin(self.style, ["torque", "rotor"]), model.actuator_gainprm[self.ids, 0], 1.0)
        self.nominal = {name: np.zeros(len(self.names)) for name in TABLES}
        self._fill_nominal(robot, built)

    def _fill_nominal(self, robot: Robot, built: Built) -> None:
        model = built.model
        for i, a in enumerate(robot.actuators):
            row = self.ids[i]
            limit = model.actuator_forcerange[row, 1] if model.actuator_forcelimited[row] else np.inf
            gains = (a.kp, a.kd)
            if a.model == "native":
                gains = (model.actuator_gainprm[row, 0], -model.actuator_biasprm[row, 2])
            values = {"strength": 1.0, "kp": gains[0], "kd": gains[1], "torque_limit": limit}
            if a.name in built.motors:
                K, R, V = windings(a)
                values |= {"torque_constant": K, "resistance": R, "voltage": V}
                for name in ("cogging", "thermal"):
                    field, column = self.slots[name]
                    values[name] = getattr(model, field)[row, column]
                if a.model == "voltage":
                    values["voltage"] = model.actuator_ctrlrange[row, 1] if model.actuator_ctrllimited[row] else np.inf
            for name, value in values.items():
                self.nominal[name][i] = value

    def fields(self) -> tuple[str, ...]:
        """Engine fields that the motors write; windings need two more."""
        ideal = ("actuator_gainprm", "actuator_biasprm", "actuator_forcerange")
        return (*ideal, "actuator_dynprm", "actuator_ctrlrange") if self.slots else ideal

    def check(self, kinds: dict[str, np.ndarray]) -> None:
        """Refuse Params (kind -> motor columns) that cannot act on a motor, or cannot be told apart in its fields."""
        for kind, columns in kinds.items():
            for i in columns:
                name, style, unlimited = self.names[i], self.style[i], not np.isfinite(self.nominal["torque_limit"][i])
                if style == "native":
                    raise InputError(f"actuator '{name}' of the model file is of a sort that {kind} cannot act on")
                if kind in ("kp", "kd") and style not in ("pd", "wound", "velocity"):
                    raise InputError(f"'{name}' is driven by {style}: it has no {kind}")
                if kind == "kp" and style == "velocity":
                    raise InputError(f"'{name}' is driven by velocity: it has no kp")
                if kind == "torque_limit" and unlimited:
                    raise InputError(
                        f"'{name}' has no torque limit in its robot file, so none can be varied: give it one"
                    )
                if kind == "voltage" and not np.isfinite(self.nominal["voltage"][i]):
                    raise InputError(
                        f"'{name}' has no supply voltage in its robot file, so none can be varied: give it one"
                    )
                beside = {other for other, others in kinds.items() if i in others} - {"strength"}
                if kind == "strength" and "torque_limit" in beside:
                    raise InputError("strength scales the torque limit: give strength or torque_limit, not both")
                if kind == "strength" and style == "voltage" and "resistance" in beside:
                    raise InputError(
                        "strength of a voltage motor acts as a resistance: give strength or resistance, not both"
                    )
                if kind == "strength" and style in ("pd", "wound", "velocity") and unlimited and beside & {"kp", "kd"}:
                    raise InputError(
                        f"strength and gains of '{name}' cannot be told apart without a torque limit: give it one"
                    )

    def write(self, field: Callable[[str], np.ndarray], table: Callable[[str], np.ndarray], rows: np.ndarray) -> None:
        """Write the engine's fields of worlds `rows` from the tables."""
        t = {name: table(name)[rows] for name in TABLES}  # (rows, motors)
        s, at = t["strength"], np.ix_
        gain, bias = field("actuator_gainprm"), field("actuator_biasprm")
        for style in np.unique(self.style):
            cols = np.flatnonzero(self.style == style)
            ids = self.ids[cols]
            if style == "pd":
                gain[at(rows, ids, np.array([0]))] = (s * t["kp"])[:, cols, None]
                bias[at(rows, ids, np.array([1, 2]))] = -np.stack([s * t["kp"], s * t["kd"]], -1)[:, cols]
            elif style == "velocity":
                gain[at(rows, ids, np.array([0]))] = (s * t["kd"])[:, cols, None]
                bias[at(rows, ids, np.array([2]))] = -(s * t["kd"])[:, cols, None]
            elif style in ("torque", "rotor"):
                gain[at(rows, ids, np.array([0]))] = (s * self.gain)[:, cols, None]
            elif style in ("wound", "voltage"):
                self._write_wound(field, t, rows, cols, style)
        limited = np.flatnonzero(np.isfinite(self.nominal["torque_limit"]))
        limit = (s * t["torque_limit"])[:, limited]
        field("actuator_forcerange")[at(rows, self.ids[limited])] = np.stack([-limit, limit], -1)

    def _write_wound(self, field, t: dict[str, np.ndarray], rows: np.ndarray, cols: np.ndarray, style: str) -> None:
        s = t["strength"]
        values = {"torque_constant": t["torque_constant"], "cogging": t["cogging"], "thermal": t["thermal"]}
        if style == "wound":
            values |= {"kp": s * t["kp"], "kd": s * t["kd"], "resistance": t["resistance"], "voltage": t["voltage"]}
        else:
            values |= {"resistance": t["resistance"] / s}
            bounded = cols[np.isfinite(self.nominal["voltage"][cols])]
            V = t["voltage"][:, bounded]
            field("actuator_ctrlrange")[np.ix_(rows, self.ids[bounded])] = np.stack([-V, V], -1)
        for name, value in values.items():
            where, column = self.slots[name]
            field(where)[np.ix_(rows, self.ids[cols], np.array([column]))] = value[:, cols, None]

    def decode(self, field: Callable[[str], np.ndarray], kinds: set[str]) -> dict[str, np.ndarray]:
        """Tables (worlds, motors) as the engine's fields have them; `kinds` says which of them are unknowns."""
        gain, bias = field("actuator_gainprm")[:, self.ids], field("actuator_biasprm")[:, self.ids]
        limit = field("actuator_forcerange")[:, self.ids, 1]
        out = {name: np.broadcast_to(value, limit.shape).copy() for name, value in self.nominal.items()}
        limited = np.isfinite(self.nominal["torque_limit"])
        wound = {}
        for name, (where, column) in self.slots.items():
            wound[name] = field(where)[:, self.ids, column]
        s = np.ones_like(limit)
        pd, velocity, is_wound = (self.style == name for name in ("pd", "velocity", "wound"))
        ideal = np.isin(self.style, ["torque", "rotor"])
        if "strength" in kinds:
            nominal = self.nominal["torque_limit"]
            reference = np.select([ideal, velocity], [self.gain, self.nominal["kd"]], self.nominal["kp"])
            by_gain = _ratio(np.where(is_wound, wound.get("kp", 1.0), gain[..., 0]), reference)
            s = np.where(limited, _ratio(limit, nominal), by_gain)
            voltage = self.style == "voltage"
            if voltage.any():
                s = np.where(voltage, _ratio(self.nominal["resistance"], wound["resistance"]), s)
        out["strength"] = s
        out["torque_limit"] = np.where(limited, limit / s, np.inf)
        out["kp"] = np.where(pd, gain[..., 0] / s, out["kp"])
        out["kd"] = np.where(pd | velocity, -bias[..., 2] / s, out["kd"])
        for name in ("kp", "kd"):
            if wound:
                out[name] = np.where(is_wound, wound[name] / s, out[name])
        if wound:
            any_wound = is_wound | (self.style == "voltage")
            scale = np.where(self.style == "voltage", s, 1.0)
            out["resistance"] = np.where(any_wound, wound["resistance"] * scale, out["resistance"])
            for name in ("torque_constant", "cogging", "thermal"):
                out[name] = np.where(any_wound, wound[name], out[name])
            bounds = field("actuator_ctrlrange")[:, self.ids, 1]
            out["voltage"] = np.where(
                is_wound, wound["voltage"], np.where(np.isfinite(out["voltage"]), bounds, out["voltage"])
            )
        return out


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isfinite(b) & (b != 0), a / np.where(b == 0, 1.0, b), 1.0)


def _style(a: Actuator, wound: bool, model: mujoco.MjModel) -> str:
    if a.model != "native":
        return "wound" if wound and a.model == "pd" else a.model
    row = model.actuator(a.name).id
    fixed = model.actuator_gaintype[row] == mujoco.mjtGain.mjGAIN_FIXED
    affine = model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_AFFINE
    if fixed and affine and model.actuator_biasprm[row, 1] == -model.actuator_gainprm[row, 0]:
        return "pd"
    if fixed and model.actuator_biastype[row] == mujoco.mjtBias.mjBIAS_NONE:
        return "torque"
    return "native"
