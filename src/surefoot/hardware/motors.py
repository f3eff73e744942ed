"""Motors of a stand-in robot: from what was commanded to what the joints and rotors feel.

    position   a = kp k_p (target - θ) + kd k_d (velocity - ω) + torque          θ, ω: the motor's angle and speed
    torque     a = target
               τ = s clip(a, ±limit), and no more than the windings give at this speed, with the lag of the current loop
    voltage    τ = s K/R (clip(u, ±V b) - K ω)
    rotor      s_r follows u with its lag; thrust = s b² thrust_max s_r²

    s = strength (1 - wear_strength t) (1 - heat_weakness (T - 25 °C))           b: the battery, 1 when rested
    b follows 1 - sag load with the time sag_recovery;   T' = heating (τ/limit)² - (T - 25 °C) / 60 s

Where the drive is elastic or loose, motor and joint are two masses:

    J ω' = τ + friction - τ_s      τ_s = k d + k3 d³ + c d'      d: θ - q beyond half the backlash, 0 within it
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.hardware.reality import Reality
from surefoot.hardware.rubbing import Rubbing
from surefoot.robots import Actuator

AMBIENT, COOLING = 25.0, 60.0  # [°C], [s]
FINE = 0.0005
"""Longest step of the motor's own mass, where the drive is elastic [s]."""
KEPT = 0.1
"""Share of the rotor's inertia that stays on the joint's side of an elastic drive."""
STIFF = 400.0
"""Stiffness of a loose drive once its play is used up, where the file does not say [N·m/rad per kg·m^2 · 1e-2]."""


@dataclass(kw_only=True)
class Order:
    """A command as the motors hold it: arrays (n,) and what they mean."""

    kind: str
    target: np.ndarray
    kp: np.ndarray
    kd: np.ndarray
    velocity: np.ndarray
    torque: np.ndarray


class Condition:
    """What wears, warms and sags: the factor s of every motor and the battery b."""

    def __init__(self, reality: Reality, names: Sequence[str]):
        self.strength = reality.each("strength", names)
        self.wear, self.weakness = reality.one("wear_strength"), reality.one("heat_weakness")
        self.heating, self.sag = reality.one("heating"), reality.one("sag")
        self.recovery = reality.one("sag_recovery")
        self.temperature = np.full(len(names), AMBIENT)
        self.battery = 1.0
        self._fixed = not (self.wear or self.weakness)

    def factor(self, t: float) -> np.ndarray:
        """s (n,) at time t."""
        if self._fixed:
            return self.strength
        lost = np.maximum(0.0, 1.0 - self.weakness * (self.temperature - AMBIENT))
        return self.strength * max(0.0, 1.0 - self.wear * t) * lost

    def use(self, share: np.ndarray, dt: float) -> None:
        """Feel one step at `share` (n,) of the full load."""
        self.temperature += dt * (self.heating * share * share - (self.temperature - AMBIENT) / COOLING)
        if self.sag:
            wanted = 1.0 - self.sag * float(np.mean(np.abs(share)))
            self.battery += (wanted - self.battery) * (1.0 - np.exp(-dt / self.recovery))


class JointMotors:
    """Motors that turn joints, by position, torque or voltage."""

    def __init__(self, reality: Reality, actuators: Sequence[Actuator], rubbing: Rubbing, *, phase: np.ndarray):
        names = [a.name for a in actuators]
        n = len(names)
        self.names, self.rubbing = tuple(names), rubbing
        self.by_voltage = actuators[0].model == "voltage"
        self.kinds = ("voltage_target",) if self.by_voltage else ("joint_pos_target", "joint_torque_target")
        self.condition = Condition(reality, names)
        self.limit = np.array([a.torque_limit or 1e9 for a in actuators])
        self.speed = np.array([a.speed_limit or 1e9 for a in actuators])
        self.calm = 3.0 * np.array([a.kd for a in actuators])  # [N·m·s/rad] when damping
        if self.by_voltage:
            self.K = reality.each("torque_constant", names, [a.torque_constant or 1.0 for a in actuators])
            self.R = reality.each("resistance", names, [a.resistance or 1.0 for a in actuators])
            self.V = np.array([a.voltage or 1e9 for a in actuators])
            self.limit = (
                np.array([a.torque_constant or 1.0 for a in actuators])
                / [a.resistance or 1.0 for a in actuators]
                * self.V
            )
        self.kp, self.kd = (reality.each(k, names) if not self.by_voltage else np.ones(n) for k in ("kp", "kd"))
        self.lag, self.knee = reality.each("torque_lag", names), reality.one("knee")
        self.tau, self.sensed = np.zeros(n), np.zeros(n)
        self._lags = bool(self.lag.any())
        self._slope = self.limit / (self.speed * (1.0 - self.knee))  # [N·m·s/rad] of the falling side
        self.armature = reality.each("armature", names, [a.armature for a in actuators])
        stiffness, play = reality.each("belt_stiffness", names), reality.each("backlash", names)
        self.elastic = bool(stiffness.any() or play.any())
        if self.elastic:
            default = STIFF * np.sqrt(np.maximum(self.armature, 1e-4) / 0.01)
            self.stiffness = np.where(stiffness > 0, stiffness, default)
            self.hardening, self.play = reality.each("belt_hardening", names), play
            self.inertia = np.maximum((1.0 - KEPT) * self.armature, 1e-5)
            self.spring_damping = 0.1 * np.sqrt(self.stiffness * self.inertia)
            self.theta, self.omega = np.zeros(n), np.zeros(n)

    def settle(self, q: np.ndarray) -> None:
        """Begin at rest at the joint angles q (n,)."""
        if self.elastic:
            self.theta, self.omega = q.copy(), np.zeros_like(q)

    def damping(self) -> Order:
        """What the motors do when nobody commands them."""
        n = len(self.names)
        zero = np.zeros(n)
        kind = "voltage_target" if self.by_voltage else "joint_pos_target"
        return Order(kind=kind, target=zero, kp=zero, kd=self.calm, velocity=zero, torque=zero)

    def drive(self, order: Order, q: np.ndarray, dq: np.ndarray, t: float, dt: float) -> np.ndarray:
        """Torque on the joints (n,) over the step from t to t + dt."""
        s = self.condition.factor(t)
        if not self.elastic:
            tau = self._electric(order, q, dq, s, dt)
            out = tau + self.rubbing.torque(q, dq, tau, t, dt)
        else:
            out = self._two_masses(order, q, dq, s, t, dt)
            tau = self.tau
        self.sensed = tau / np.where(s > 0, s, 1.0)
        self.condition.use(np.minimum(np.abs(self.sensed) / self.limit, 1.0), dt)
        return out

    def _electric(self, order: Order, q: np.ndarray, dq: np.ndarray, s: np.ndarray, dt: float) -> np.ndarray:
        battery = self.condition.battery
        if self.by_voltage:
            volts = np.clip(order.target, -self.V * battery, self.V * battery)
            wanted = s * self.K / self.R * (volts - self.K * dq)
        else:
            if order.kind == "joint_torque_target":
                asked = order.target
            else:
                asked = (
                    order.kp * self.kp * (order.target - q) + order.kd * self.kd * (order.velocity - dq) + order.torque
                )
            wanted = s * np.clip(asked, -self.limit, self.limit)
            most = s * np.clip(self._slope * (self.speed * battery - dq * np.sign(wanted)), 0.0, self.limit)
            wanted = np.clip(wanted, -most, most)
        if self._lags:
            wanted = wanted + (self.tau - wanted) * np.exp(-dt / np.maximum(self.lag, 1e-9))
        self.tau = wanted
        return wanted

    def _two_masses(
        self, order: Order, q: np.ndarray, dq: np.ndarray, s: np.ndarray, t: float, dt: float
    ) -> np.ndarray:
        parts = max(1, round(dt / FINE))
        h = dt / parts
        total = np.zeros_like(q)
        for k in range(parts):
            at = q + dq * (h * k)
            tau = self._electric(order, self.theta, self.omega, s, h)
            friction = self.rubbing.torque(self.theta, self.omega, tau, t, h)
            gap = self.theta - at
            bent = gap - np.clip(gap, -0.5 * self.play, 0.5 * self.play)
            spring = self.stiffness * bent + self.hardening * bent**3
            spring = np.where(bent != 0.0, spring + self.spring_damping * (self.omega - dq), 0.0)
            c = h * self.rubbing.damping / self.inertia
            self.omega = (self.omega + h * (tau + friction - spring) / self.inertia) / (1.0 + c)
            self.theta = self.theta + h * self.omega
            total += spring
        return total / parts

    def measured(self, q: np.ndarray, dq: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Angle and speed that the encoders see: those of the motor's side."""
        return (self.theta, self.omega) if self.elastic else (q, dq)


class Rotors:
    """Rotors that push the base along the axes of their sites."""

    kinds = ("rotor_target",)

    def __init__(self, reality: Reality, actuators: Sequence[Actuator]):
        names = [a.name for a in actuators]
        self.names = tuple(names)
        self.condition = Condition(reality, names)
        self.most = np.array([a.thrust_max or 0.0 for a in actuators])
        self.moment = np.array([a.spin * a.moment_ratio for a in actuators])  # [m]
        self.lag = reality.each("rotor_lag", names, [a.lag for a in actuators])
        self.speed = np.zeros(len(names))  # share of full speed
        self.thrust = np.zeros(len(names))  # [N]

    def damping(self) -> Order:
        """Off."""
        zero = np.zeros(len(self.names))
        return Order(kind="rotor_target", target=zero, kp=zero, kd=zero, velocity=zero, torque=zero)

    def spin(self, order: Order, t: float, dt: float) -> np.ndarray:
        """Thrust of each rotor (n,) [N] over the step from t to t + dt, in free air."""
        u = np.clip(order.target, 0.0, 1.0)
        lag = np.where(u > self.speed, self.lag, 1.4 * self.lag)
        self.speed = u + (self.speed - u) * np.exp(-dt / np.maximum(lag, 1e-6))
        self.thrust = self.condition.factor(t) * self.condition.battery**2 * self.most * self.speed**2
        self.condition.use(self.speed, dt)
        return self.thrust
