"""What a robot's log would hold, recorded from one world of a Sim."""

from typing import Any

import numpy as np

from surefoot.logs import Channel, Log
from surefoot.sim.replay import channel_columns
from surefoot.sim.sim import Sim

UNITS = {
    "joint_pos": "rad", "joint_vel": "rad/s", "joint_torque": "N·m", "gyro": "rad/s", "accel": "m/s^2", "quat": "1", "gravity": "1",
    "foot_force": "N", "wrench": "N, N, N, N·m, N·m, N·m", "base_pos": "m", "base_vel_world": "m/s", "base_gyro_true": "rad/s",
    "joint_pos_target": "rad", "joint_torque_target": "N·m", "joint_vel_target": "rad/s", "voltage_target": "V", "rotor_target": "1",
    "control": "1",
}  # fmt: skip


class Recording:
    """Readings and commands of one world, row by row; call `add` once a control step, before `step`."""

    def __init__(self, sim: Sim, world: int = 0, *, truth: bool = False):
        self.sim, self.world, self.truth = sim, world, truth
        self.t: list[float] = []
        self.rows: dict[str, list[np.ndarray]] = {}

    def add(self, readings: dict[str, np.ndarray], u: np.ndarray) -> None:
        """Keep the readings of this instant and the command given in answer to them."""
        self.t.append(float(self.sim.time[self.world]))
        row = {name: value[self.world] for name, value in readings.items()}
        if self.truth:
            state = self.sim.truth()
            row |= {name: state[name][self.world] for name in ("base_pos", "base_vel_world") if name in state}
        u = np.asarray(u)
        row[self.sim.command_channel] = u[self.world] if u.ndim == 2 else u
        for name, value in row.items():
            self.rows.setdefault(name, []).append(np.array(value))

    def log(self, **meta: Any) -> Log:
        """The recording as a Log; slide joints make a joint channel's unit one per column."""
        columns = {**channel_columns(self.sim), self.sim.command_channel: self.sim.command_names}
        channels = []
        for name, rows in self.rows.items():
            role = "u" if name == self.sim.command_channel else "y"
            unit = unit_of(self.sim, name, columns[name])
            channels.append(
                Channel(
                    name=name, unit=unit, t=np.array(self.t), values=np.array(rows), columns=columns[name], role=role
                )
            )
        e = {name: np.asarray(value[self.world]).tolist() for name, value in self.sim.e.items()}
        return Log(
            channels=tuple(channels),
            robot=self.sim.robot.name,
            meta={"simulated": True, "e": e, "seed": self.sim.seed, **meta},
        )


def unit_of(sim: Sim, name: str, columns: tuple[str, ...]) -> str:
    """Unit of a channel's columns; slide joints count in metres and newtons."""
    unit = UNITS[name]
    if not name.startswith("joint_"):
        return unit
    slide = {"rad": "m", "rad/s": "m/s", "N·m": "N"}
    kinds = [int(sim.model.joint(c).type[0]) for c in columns]
    units = [slide.get(unit, unit) if kind == 2 else unit for kind in kinds]
    return units[0] if len(set(units)) == 1 else ", ".join(units)
