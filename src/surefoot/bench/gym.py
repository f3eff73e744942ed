"""One hopper as a usual Gymnasium environment: the task of `surefoot.tasks.Hop`, written the way other trainers expect it.

The compiled MuJoCo model, the control period, the start, the observation (the groups `policy` and `history`), the reward and
the ends are those of `Hop` with the nominal e and without sensor noise; a test holds both side by side. Needs Gymnasium, which
is in the extra `dev`.
"""

from dataclasses import dataclass
from math import exp
from typing import Any

import gymnasium
import mujoco
import numpy as np

from surefoot.sim import Sim


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the environment needs of a Sim and of the task `Hop`; light enough to be sent to another process."""

    model: mujoco.MjModel
    substeps: int
    limit: int
    """Control steps in an episode."""
    forward: tuple[float, float]  # [m/s]
    scale: float  # [rad]
    clip: float
    fall_height: float  # [m]
    fall_pitch: float  # [rad]
    memory: int
    pose: np.ndarray  # (6,) [m, rad]: x, z, pitch, hip, knee, ankle
    quantum: np.ndarray  # (6,) [m, rad] steps of the encoders

    @property
    def control_dt(self) -> float:
        """Control period [s]."""
        return self.substeps * self.model.opt.timestep


def plan(task: Any, sim: Sim) -> Plan:
    """The plan of a `Hop` task in a Sim of the hopper."""
    action = task.contract(sim).action
    return Plan(
        model=sim.model, substeps=sim.substeps, limit=round(task.episode / sim.control_dt), forward=task.forward, scale=task.scale,
        clip=float(np.max(action.clip[1])), fall_height=task.fall_height * sim.robot.height, fall_pitch=task.fall_pitch, memory=task.memory,
        pose=sim.start_qpos, quantum=np.array(sim.physics.tables["encoder_quantum"])[0],
    )  # fmt: skip


class HopperEnv(gymnasium.Env):
    """One world; `step` and `reset` as in Gymnasium.

    An observation is the angles but for the way gone (5), speeds / 5 (6), the command (1) and the last actions (3 each).
    """

    metadata = {"render_modes": []}

    def __init__(self, plan: Plan):
        self.plan, self.model = plan, plan.model
        self.data = mujoco.MjData(self.model)
        size = 12 + 3 * plan.memory
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-plan.clip, plan.clip, (3,), np.float32)
        self.command, self.age = 0.0, 0
        self.past = np.zeros((plan.memory, 3))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Begin an episode; `options` may hold qpos (6,), qvel (6,) and command [m/s] instead of drawn ones."""
        super().reset(seed=seed)
        given, draw = options or {}, self.np_random
        mujoco.mj_resetData(self.model, self.data)
        qpos = self.plan.pose + draw.uniform(-0.05, 0.05, 6)
        qpos[1] = self.plan.pose[1] + draw.uniform(0.02, 0.1)
        self.data.qpos[:] = given.get("qpos", qpos)
        self.data.qvel[:] = given.get("qvel", draw.uniform(-0.1, 0.1, 6))
        self.data.ctrl[:] = self.plan.pose[3:]
        mujoco.mj_forward(self.model, self.data)
        self.command = float(given.get("command", draw.uniform(*self.plan.forward)))
        self.age = 0
        self.past[:] = 0.0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """One control period."""
        plan, data = self.plan, self.data
        data.ctrl[:] = plan.pose[3:] + plan.scale * np.clip(action, -plan.clip, plan.clip)
        mujoco.mj_step(self.model, data, plan.substeps)
        self.age += 1
        height, pitch, speed = float(data.qpos[1]), float(data.qpos[2]), float(data.qvel[0])
        miss, change = (speed - self.command) ** 2, action - self.past[-1]
        effort, jerk = float(action @ action), float(change @ change)
        good = 0.5 + exp(-miss / 0.5) + exp(-miss / 0.04)
        bad = 0.5 * pitch**2 + 0.01 * min(effort, 20.0) + 0.01 * min(jerk, 20.0)
        fallen = height < plan.fall_height or abs(pitch) > plan.fall_pitch
        self.past[:-1] = self.past[1:]
        self.past[-1] = action
        reward = max((good - bad) * plan.control_dt, 0.0) - float(fallen)
        return self._observe(), reward, fallen, self.age >= plan.limit and not fallen, {}

    def _observe(self) -> np.ndarray:
        quantum = self.plan.quantum[1:]
        q = np.round(self.data.qpos[1:] / quantum) * quantum - self.plan.pose[1:]
        return np.concatenate([q, 0.2 * self.data.qvel, [self.command], self.past.ravel()]).astype(np.float32)
