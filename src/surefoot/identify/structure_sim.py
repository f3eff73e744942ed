"""A structure search's bench for the joints of a whole robot: fits and replays are those of its Sim.

Slower than a rig by far, but it takes every Param of the Sim, backlash among them. Errors are root mean squares of whole
replays from the first reading, over all joints that Sim and logs share.
"""

from collections.abc import Sequence

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.identify.coordinates import shares
from surefoot.identify.fit import Fit
from surefoot.identify.identify import summary
from surefoot.identify.residuals import Problem
from surefoot.identify.solve import solve
from surefoot.identify.structure import Answer, Job
from surefoot.identify.structure_reasons import Residuals, since_turn
from surefoot.identify.windows import cut
from surefoot.logs import Log
from surefoot.params import E, Params
from surefoot.sim import Sim

LOST = 10.0
"""[rad] Error of a reading whose world left the numbers: worse than any that stayed."""


class SimBench:
    """Logs of one robot under one Sim whose Params hold all terms."""

    measure = "root mean square error of whole replays"
    repeats = 0

    def __init__(
        self,
        sim: Sim,
        logs: Sequence[Log],
        *,
        window: float = 2.0,
        hold: tuple[str, ...] = (),
        robust: float | None = 3.0,
    ):
        """Take a Sim and logs.

        Args:
            sim: robot and Params; at most one Param of a kind.
            logs: with joint_pos and the robot's command.
            window: length of the windows of a fit [s]; errors are those of whole replays.
            hold: actuators the logs have no command for.
            robust: residuals beyond this many standard deviations count linearly.
        """
        kinds = [p.kind for p in sim.params.values()]
        if len(set(kinds)) < len(kinds):
            raise InputError(
                "a structure search takes one Param of each kind, with each=True for one value a joint: join the doubled ones"
            )
        self.sim, self.logs, self.window, self.hold, self.robust = sim, tuple(logs), window, hold, robust
        self.params: Params = sim.params
        self.count = len(self.logs)

    def _problem(self, free: Sequence[str], start: E, seen: np.ndarray) -> Problem:
        logs = [log for log, use in zip(self.logs, seen, strict=True) if use]
        windows = cut(self.sim, logs, channels=("joint_pos",), window=self.window, held_out=0.0)
        rest = {name: value for name, value in start.items() if name not in free}
        return Problem(self.sim, windows, only=list(free), start="log", robust=self.robust, hold=self.hold, fixed=rest)

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Do the jobs one after another."""
        out = []
        for job in jobs:
            problem = self._problem(job.free, job.start, job.seen)
            solution = solve(problem, shares(problem.params, {name: job.start[name] for name in problem.params})[0])
            e = {**job.start, **problem.e_of(solution.s)}
            error = self.errors(e)
            out.append(Answer(e=e, loss=float((error[job.seen] ** 2).mean()), error=error))
        return out

    def errors(self, e: E) -> np.ndarray:
        """Root mean square error of every log over its joints, (L,) [rad]."""
        return np.array([np.sqrt((np.nan_to_num(self._gap(log, e), nan=LOST) ** 2).mean()) for log in self.logs])

    def _gap(self, log: Log, e: E) -> np.ndarray:
        return self.sim.replay(log, e, channels=("joint_pos",), hold=self.hold).gap("joint_pos")[0]

    def residuals(self, e: E) -> Residuals:
        """Errors of all logs and joints with what the motors were asked for, how fast they moved and what weight they carried."""
        parts: dict[str, list[np.ndarray]] = {
            name: [] for name in ("error", "asked", "speed", "pull", "turned", "load")
        }
        for log in self.logs:
            replay = self.sim.replay(log, e, channels=("joint_pos",), hold=self.hold)
            gap, columns, t = replay.gap("joint_pos")[0], replay.columns["joint_pos"], replay.t["joint_pos"]
            y, target = replay.log["joint_pos"].pick(columns).values, log[self.sim.command_channel]
            weight = self._weight(columns, y)
            for j, column in enumerate(columns):
                if column not in target.columns:
                    continue
                u = target.column(column)[np.clip(np.searchsorted(target.t, t + 1e-9) - 1, 0, None)]
                parts["error"].append(-gap[:, j])
                parts["asked"].append(np.abs(u - y[:, j]))
                parts["speed"].append(np.gradient(y[:, j], t))
                parts["pull"].append(np.sign(u - y[:, j]))
                parts["turned"].append(since_turn(t, u - y[:, j]))
                if weight is not None:
                    parts["load"].append(weight[:, j])
        loads = parts.pop("load")
        joined = {name: np.concatenate(v) for name, v in parts.items()}
        load = np.concatenate(loads) if loads else None
        if load is not None and load.any():
            load = load / np.abs(load).max()
        return Residuals(**joined, load=load, gain=np.ones(len(joined["error"])))

    def _weight(self, columns: Sequence[str], y: np.ndarray) -> np.ndarray | None:
        """Torque of the nominal model's weight on each joint at measured angles, both (samples, joints).

        None where angles alone do not tell it: a free base, a joint that was not recorded, a closed chain.
        """
        sim, model = self.sim, self.sim.model
        single = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
        if not np.isin(model.jnt_type, single).all() or model.neq or set(columns) != set(sim.robot.joints):
            return None
        which = [sim.robot.joints.index(column) for column in columns]
        data, bias, out = mujoco.MjData(model), np.empty(model.nv), np.empty_like(y)
        for i, angles in enumerate(y):
            data.qpos[np.asarray(sim.sensors.q)[which]] = angles
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_rne(model, data, 0, bias)
            out[i] = -bias[np.asarray(sim.sensors.dq)[which]]
        return out

    def conclude(self, e: E, free: tuple[str, ...]) -> Fit:
        """The Fit of identify at e."""
        problem = self._problem(free, e, np.ones(self.count, dtype=bool))
        return summary(problem, solve(problem, shares(problem.params, {name: e[name] for name in problem.params})[0]))
