"""What the world does to the robot between two commands: pushes, wrenches, wind, gusts, cables, torque noise.

air     F = ½ ρ A |w - v| (w - v),   w = wind + gust                  ρ = 1.225 kg/m³
gust    dg = -g/τ dt + σ sqrt(2/τ) dW,  τ = length / airspeed          (Dryden, longitudinal; exact over a control step)
cable   F = -c v
noise   torque held over a control step T with σ = S / sqrt(2 T)      (S: one-sided density)

Arrays are those of the engine's own library, NumPy or torch.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from surefoot.sim.noise import Noise
from surefoot.sim.physics import Physics

AIR_DENSITY = 1.225
"""[kg/m³] at 15 °C and sea level."""
DISTURBING = ("push", "wrench", "moment", "wind", "gust", "drag", "cable_drag", "torque_noise")
"""Tables of what disturbs."""


class Disturbances:
    """Forces on the base and torques at the joints, once a control step. Memory: the gust, (worlds, 3)."""

    def __init__(self, physics: Physics, noise: Noise, control_dt: float, base: int | None, base_dof: int | None):
        self.physics, self.noise, self.dt = physics, noise, control_dt
        self.base, self.base_dof = base, base_dof
        own = physics.engine.array
        self.xp = array_namespace(physics.engine.qpos)
        self.gust = own(np.zeros((physics.engine.worlds, 3)))
        joints = {a.name for a in physics.built.robot.actuators}
        names = physics.built.robot.joints
        driven = [int(d) for d, n in zip(physics.joint_dofs, names, strict=True) if n in joints]
        self.driven = own(np.array(driven, dtype=int))
        self.active: dict[str, bool] = {}
        """By table, whether it differs from zero in any world."""
        self.retune()

    def retune(self, touched: Collection[str] | None = None) -> None:
        """Note which disturbances are present in any world; `touched` names the tables that may have changed, None: all."""
        tables = self.physics.tables
        names = DISTURBING if touched is None else [n for n in DISTURBING if n in touched]
        if not names:
            return
        self.active |= {n: bool(self.xp.any(tables[n] != 0)) for n in names}
        on = self.active
        self.pushes = on["wrench"] or on["moment"] or on["cable_drag"] or on["drag"]
        if not self.pushes and self.base is not None:
            self.physics.engine.xfrc_applied[:, self.base] = 0.0
        if not on["torque_noise"]:
            self.physics.engine.qfrc_applied[:, self.driven] = 0.0

    def clear(self, ids: Any) -> None:
        """After a reset: still air, no force left over."""
        self.gust[ids] = 0.0
        self.physics.engine.xfrc_applied[ids] = 0.0
        self.physics.engine.qfrc_applied[ids] = 0.0

    def act(self, step: int, noisy: bool, living: Any = None) -> None:
        """Write this control step's forces and kicks into the engine's state; dead worlds are left alone."""
        engine, t = self.physics.engine, self.physics.tables
        if noisy and self.active["torque_noise"]:
            sigma = t["torque_noise"] / (2 * self.dt) ** 0.5
            engine.qfrc_applied[:, self.driven] = sigma[:, None] * self.noise.normal("torque", step, len(self.driven))
        if self.base is None or self.base_dof is None:
            return
        velocity = engine.qvel[:, self.base_dof : self.base_dof + 3]
        if noisy and self.active["push"]:
            self._kick(velocity, step, living)
        if noisy and self.active["gust"]:
            self._blow(step)
        if self.pushes:
            air = t["wind"] + self.gust - velocity
            force = t["wrench"] - t["cable_drag"][:, None] * velocity
            speed = self.xp.linalg.vector_norm(air, axis=1, keepdims=True)
            force = force + 0.5 * AIR_DENSITY * t["drag"][:, None] * speed * air
            engine.xfrc_applied[:, self.base, :3] = force
            engine.xfrc_applied[:, self.base, 3:] = t["moment"]

    def _kick(self, velocity: Any, step: int, living: Any) -> None:
        """Change the base's horizontal velocity at once, in a random direction, about every `interval` seconds."""
        interval, most = self.physics.option("push", "interval", 4.0), self.physics.tables["push"]
        draw = self.noise.uniform("push", step, 3)
        hit = draw[:, 0] < self.dt / interval
        if living is not None:
            hit = hit & living
        if isinstance(velocity, np.ndarray):  # Few are hit; a GPU, which must not look, computes all of them.
            rows = np.flatnonzero(hit)
            if not len(rows):
                return
            draw, most, hit = draw[rows], most[rows], hit[rows]
        else:
            rows = slice(None)
        draw = self.xp.astype(draw, velocity.dtype)
        size = most * self.xp.sqrt(draw[:, 1]) * self.xp.astype(hit, velocity.dtype)
        angle = 2 * np.pi * draw[:, 2]
        velocity[rows, 0] += size * self.xp.cos(angle)
        velocity[rows, 1] += size * self.xp.sin(angle)

    def _blow(self, step: int) -> None:
        length, airspeed = self.physics.option("gust", "length", 10.0), self.physics.option("gust", "airspeed", 5.0)
        keep = float(np.exp(-self.dt * airspeed / length))
        fresh = self.noise.normal("gust", step, 3)
        self.gust *= keep
        self.gust += self.physics.tables["gust"][:, None] * (1 - keep**2) ** 0.5 * fresh
