"""What a designed motion may not do to the robot: joints, speeds, torques and balance, judged in every world of the belief."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from surefoot.errors import InputError
from surefoot.sim import Sim

MARGIN = 0.05
"""Share of a joint's range that is kept free at both ends."""
REACH = 1.0
"""[rad, m] Amplitude about the default pose where nothing else bounds it."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a motion; arrays are in the order of robot.joints, or of the motors.

    Attributes:
        low, high: of joint positions [rad, m], (joints,); infinite where a joint may turn for ever.
        speed: largest |joint speed| [rad/s], (joints,).
        torque: largest |motor torque| [N·m], (motors,).
        tilt: largest angle between the base's z axis and up [rad].
        sink: share of its standing height below which the base must not come.
    """

    low: np.ndarray
    high: np.ndarray
    speed: np.ndarray
    torque: np.ndarray
    tilt: float = 0.35
    sink: float = 0.6

    def excess(self, sim: Sim, states: Mapping[str, np.ndarray]) -> np.ndarray:
        """Largest relative excess of each run, (n,): 0 keeps every limit, inf left the numbers.

        `states`: qpos, qvel, actuator_force of n runs over time, (n, samples, width).
        """
        with np.errstate(invalid="ignore"):
            q, v = states["qpos"][..., sim.sensors.q], states["qvel"][..., sim.sensors.dq]
            wide = np.where(np.isfinite(self.high - self.low), self.high - self.low, 1.0)
            over = [np.maximum(q - self.high, self.low - q) / wide, np.abs(v) / self.speed - 1.0]
            over.append(np.abs(states["actuator_force"]) / self.torque - 1.0)
            if sim.sensors.base_q is not None:
                base = states["qpos"][..., sim.sensors.base_q : sim.sensors.base_q + 7]
                up = 1.0 - 2.0 * (base[..., 4] ** 2 + base[..., 5] ** 2)
                tilt = np.arccos(np.clip(up, -1.0, 1.0))
                over.append((tilt / self.tilt - 1.0)[..., None])
                over.append((self.sink - base[..., 2] / sim.robot.height)[..., None])
            worst = np.stack([np.where(np.isnan(o), np.inf, o).max((1, 2)) for o in over])
        return np.maximum(worst.max(0), 0.0)


def limits_of(sim: Sim, *, torque: float = 0.9, speed: float = 0.9, **changes: float) -> Limits:
    """Limits from the robot: joint ranges less a margin, shares of its motors' speeds and torques.

    Args:
        sim: of the robot.
        torque: share of the torque limit; above 1, saturation is allowed (a fitted torque limit needs it).
        speed: share of the no-load speed.
        changes: other fields of Limits.
    """
    robot, model = sim.robot, sim.model
    low, high = np.full(len(robot.joints), -np.inf), np.full(len(robot.joints), np.inf)
    for i, name in enumerate(robot.joints):
        if model.joint(name).limited[0]:
            a, b = model.joint(name).range
            low[i], high[i] = a + MARGIN * (b - a), b - MARGIN * (b - a)
    motors = {a.name: a for a in robot.actuators}
    speeds = [motors[j].speed_limit if j in motors else None for j in robot.joints]
    fastest = np.array([np.inf if s is None else speed * s for s in speeds])
    torques = [motors[m].torque_limit if m in motors else None for m in sim.command_names]
    strongest = np.array([np.inf if t is None or torque > 1.0 else torque * t for t in torques])
    found = Limits(low=low, high=high, speed=fastest, torque=strongest)
    return replace(found, **changes) if changes else found


def reach_of(sim: Sim, limits: Limits, share: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Centre and amplitude of the commands, (motors,) each: the default pose and the way to the nearer limit, at most REACH.

    Voltages and torques swing about 0, by nine tenths of what the motor can take; `share` makes all amplitudes smaller.
    """
    centre, size = sim.rest_command.copy(), np.zeros(len(sim.command_names))
    for i, name in enumerate(sim.command_names):
        motor = sim.robot.actuator(name)
        if motor.model == "pd":
            j = sim.robot.joints.index(name)
            size[i] = min(limits.high[j] - centre[i], centre[i] - limits.low[j], REACH)
        elif motor.model == "voltage":
            size[i] = 0.9 * (motor.voltage or 0.0)
        elif motor.model == "torque":
            size[i] = 0.9 * (motor.torque_limit or 0.0)
        elif motor.model == "velocity":
            size[i] = 0.9 * (motor.speed_limit or 0.0)
        else:
            raise InputError(
                f"{sim.robot.name} is driven by {motor.model} actuators, for which no safe motion can be designed: "
                f"use a robot with position, torque, velocity or voltage motors"
            )
        if not size[i] > 0.0:
            raise InputError(
                f"'{name}' of {sim.robot.name} has no room to move about its default pose: give limits, or another pose"
            )
    return centre, share * size
