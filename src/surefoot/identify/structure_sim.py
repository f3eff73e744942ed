"""A structure search's bench for the joints of a whole robot: fits and replays are those of its Sim.

Slower than a rig by far, but it takes every Param of the Sim, backlash among them. Errors are root mean squares of whole
replays from the first reading, over all joints that Sim and logs share.
"""

from collections.abc import Sequence

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.coordinates import shares
from surefoot.identify.fit import Fit
from surefoot.identify.identify import summary
from surefoot.identify.residuals import Problem
from surefoot.identify.solve import solve
from surefoot.identify.structure import Answer, Job
from surefoot.identify.structure_reasons import Residuals
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
        """Errors of all logs and joints; loads are not known here."""
        parts: dict[str, list[np.ndarray]] = {name: [] for name in ("error", "asked", "speed", "pull")}
        for log in self.logs:
            replay = self.sim.replay(log, e, channels=("joint_pos",), hold=self.hold)
            gap, columns, t = replay.gap("joint_pos")[0], replay.columns["joint_pos"], replay.t["joint_pos"]
            y, target = replay.log["joint_pos"].pick(columns).values, log[self.sim.command_channel]
            for j, column in enumerate(columns):
                if column not in target.columns:
                    continue
                u = target.column(column)[np.clip(np.searchsorted(target.t, t + 1e-9) - 1, 0, None)]
                parts["error"].append(-gap[:, j])
                parts["asked"].append(np.abs(u - y[:, j]))
                parts["speed"].append(np.gradient(y[:, j], t))
                parts["pull"].append(np.sign(u - y[:, j]))
        joined = {name: np.concatenate(v) for name, v in parts.items()}
        flat = np.zeros(len(joined["error"]))
        return Residuals(**joined, load=flat, gain=flat + 1.0)

    def conclude(self, e: E, free: tuple[str, ...]) -> Fit:
        """The Fit of identify at e."""
        problem = self._problem(free, e, np.ones(self.count, dtype=bool))
        return summary(problem, solve(problem, shares(problem.params, {name: e[name] for name in problem.params})[0]))
