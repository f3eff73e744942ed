"""Joint friction of a stand-in robot: dry friction that builds up over a small travel, teeth, hysteresis, wear.

    F  = coulomb (1 + ripple sin(teeth q + phase)) (1 + wear t) + load_friction |τ|
    z' = (dq - |dq| z) / presliding              solved exactly over a step at constant dq, so |z| <= 1 always
    h' = (dq - |dq| h) / hysteresis_width
    τ_friction = -F z - hysteresis h - damping wear t dq

Plain viscous friction is left to the integrator, which treats it implicitly.
"""

from collections.abc import Sequence

import numpy as np

from surefoot.hardware.reality import Reality


class Rubbing:
    """Friction of some joints, all at once; memory: z and h, (n,) each."""

    def __init__(
        self,
        reality: Reality,
        names: Sequence[str],
        coulomb: np.ndarray,
        damping: np.ndarray,
        driven: bool,
        phase: np.ndarray,
    ):
        self.coulomb, self.damping = coulomb, damping
        zero = np.zeros(len(names))
        self.load = reality.each("load_friction", names) if driven else zero
        self.ripple = reality.each("gear_ripple", names) if driven else zero
        self.hysteresis = reality.each("hysteresis", names) if driven else zero
        self.teeth, self.width = reality.one("gear_teeth"), reality.one("hysteresis_width")
        self.travel, self.wear = reality.one("presliding"), reality.one("wear_friction")
        self.phase = phase
        self.z, self.h = zero.copy(), zero.copy()
        self._rippled, self._hysteretic = bool(self.ripple.any()), bool(self.hysteresis.any())

    def torque(self, q: np.ndarray, dq: np.ndarray, tau: np.ndarray | float, t: float, dt: float) -> np.ndarray:
        """Friction torque (n,) at angles q and speeds dq under motor torques tau; moves the memory on by dt."""
        speed, way = np.abs(dq), np.sign(dq)
        self.z = way + (self.z - way) * np.exp(-speed * (dt / self.travel))
        force = self.coulomb
        if self._rippled:
            force = force * (1.0 + self.ripple * np.sin(self.teeth * q + self.phase))
        if self.wear:
            force = force * (1.0 + self.wear * t)
        out = -(force + self.load * np.abs(tau)) * self.z
        if self._hysteretic:
            self.h = way + (self.h - way) * np.exp(-speed * (dt / self.width))
            out -= self.hysteresis * self.h
        if self.wear:
            out -= self.damping * (self.wear * t) * dq
        return out
