"""The supply that all motors with windings share: its voltage drops with the current they draw.

    drive    v = clip((R/K) τ + K dq, ±V),  τ = kp (u - q) - kd dq        pd; a voltage motor has v = clip(u, ±V)
    winding  i = clip((v - K dq) / R_hot, ±limit / K)                     R_hot = R (1 + α ΔT)
    bus      V = V0 - R_source Σ |i|

The last line is solved for V before every substep, at the state in which the engine will use it.
"""

import numpy as np

from surefoot.errors import InputError
from surefoot.sim.physics import Physics

LOWEST = 1e-3
"""[V] The bus does not fall below this: a motor needs a positive bound."""


class Bus:
    """The bus of every world. No memory: the voltage follows from state and command."""

    def __init__(self, physics: Physics):
        self.physics, motors, model = physics, physics.motors, physics.built.model
        wound = np.isin(motors.style, ["wound", "voltage"]) & (motors.nominal["voltage"] < 1e6)
        self.columns = np.flatnonzero(wound)
        if not len(self.columns):
            raise InputError(
                f"voltage_sag: no motor of '{physics.built.robot.name}' has a supply voltage in its robot file"
            )
        self.ids = motors.ids[self.columns]
        self.pd = motors.style[self.columns] == "wound"
        joints = model.actuator_trnid[self.ids, 0]
        self.q, self.dq = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        self.heat = model.actuator_actadr[self.ids]
        for field in motors.fields():
            physics.engine.field(field)

    def _figure(self, name: str) -> np.ndarray:
        """A motor figure as the engine has it, strength included, (worlds, motors)."""
        field, column = self.physics.motors.slots[name]
        return self.physics.engine.field(field)[:, self.ids, column]

    def write(self, control: np.ndarray) -> None:
        """Solve for the bus voltage under `control` (worlds, nu) and write it as the motors' bound."""
        supply = self.physics.tables["voltage"][:, self.columns]
        self._bound(self.physics.engine.everyone, np.maximum(supply - self.drop(control, supply)[:, None], LOWEST))

    def rest(self, ids: np.ndarray) -> None:
        """The supply's own voltage in worlds `ids`, as if no current flowed."""
        self._bound(ids, self.physics.tables["voltage"][np.ix_(ids, self.columns)])

    def _bound(self, ids: np.ndarray, V: np.ndarray) -> None:
        engine, (field, column) = self.physics.engine, self.physics.motors.slots["voltage"]
        engine.field(field)[np.ix_(ids, self.ids[self.pd], np.array([column]))] = V[:, self.pd, None]
        engine.field("actuator_ctrlrange")[np.ix_(ids, self.ids[~self.pd])] = np.stack([-V, V], -1)[:, ~self.pd]

    def drop(self, control: np.ndarray, supply: np.ndarray) -> np.ndarray:
        """Voltage drop D (worlds,) [V] with D = R_source Σ |i(supply - D)|.

        Piecewise linear in D, so Newton's method ends after a few steps on the right piece.
        """
        p = self.physics
        K, R = self._figure("torque_constant"), self._figure("resistance")
        u, rate = control[:, self.columns], p.engine.qvel[:, self.dq]
        asked = self._figure("kp") * (u - p.engine.qpos[:, self.q]) - self._figure("kd") * rate
        asked = np.where(self.pd, R / K * asked + K * rate, u)
        hot = R * (1 + self._warmth())
        most = p.engine.field("actuator_forcerange")[:, self.ids, 1] / K
        most = np.where(p.built.model.actuator_forcelimited[self.ids], most, np.inf)
        source = p.tables["voltage_sag"]
        D = np.zeros(len(source))
        for _ in range(len(self.columns) + 2):
            V = supply - D[:, None]
            i = (np.clip(asked, -V, V) - K * rate) / hot
            bound = (np.abs(asked) > V) & (np.abs(i) < most)
            i = np.clip(i, -most, most)
            slope = np.where(bound, np.sign(asked) * np.sign(i) / hot, 0.0).sum(1)  # of Σ|i| over V
            step = (D - source * np.abs(i).sum(1)) / np.maximum(1 + source * slope, 1e-3)
            going = ~(np.abs(step) < 1e-12)  # a world's voltage does not depend on how long others take
            D = np.where(going, np.clip(D - step, 0.0, supply.min(1) - LOWEST), D)
            if not going.any():
                break
        return D

    def _warmth(self) -> np.ndarray:
        """α ΔT: relative rise of the windings' resistance, (worlds, motors); zero without a thermal model."""
        if not (self.heat >= 0).any():
            return np.zeros((self.physics.engine.worlds, len(self.ids)))
        field, column = self.physics.motors.slots["heat_coefficient"]
        rise = np.where(self.heat >= 0, self.physics.engine.act[:, np.maximum(self.heat, 0)], 0.0)
        return self.physics.engine.field(field)[:, self.ids, column] * rise
