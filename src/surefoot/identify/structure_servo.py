"""A structure search's bench for one servo: fits on arrays (servo.py), with the equations of the Sim."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from surefoot.identify.coordinates import shares, slopes
from surefoot.identify.fit import Fit
from surefoot.identify.servo import Rig
from surefoot.identify.servo_fit import NUDGE, ServoFits, Task
from surefoot.identify.servo_logs import ServoLogs
from surefoot.identify.structure import Answer, Job
from surefoot.identify.structure_reasons import Residuals, since_turn
from surefoot.identify.structure_terms import TERMS
from surefoot.logs import Log
from surefoot.params import E, Params
from surefoot.sim import Sim

BLOCK = 0.5
"""[s] Residuals further apart than this count as independent in the intervals."""


def coarser(sim: Sim, substeps: int = 2) -> Sim:
    """The same Sim with fewer, longer time steps: for searching, where thousands of rollouts are needed."""
    robot = dataclasses.replace(sim.robot, timestep=sim.robot.control_dt / substeps)
    return sim if robot.timestep <= sim.robot.timestep else sim.replace(robot=robot)


class ServoBench:
    """Logs of one servo; errors are mean absolute errors of whole rollouts from the first reading [rad]."""

    measure = "mean absolute error of whole rollouts"
    repeats = 4

    def __init__(
        self,
        sim: Sim,
        logs: Sequence[Log],
        *,
        gain: str | None = "kp",
        reference: float | None = None,
        every: int = 4,
        draws: int = 64,
        seed: int = 0,
        known: Mapping[str, float] | None = None,
    ):
        """Take a servo and its logs, see ServoLogs; every fit starts from the best of `draws` points.

        `known` are values, by Param, of what is not fitted; a term that is not taken does nothing otherwise.
        """
        self.sim, self.draws, self.seed = sim, draws, seed
        self.logs = ServoLogs(Rig(sim), logs, gain=gain, reference=reference, every=every)
        self.params: Params = sim.params
        self.count = len(self.logs.logs)
        off = {name: v for t in TERMS for k, v in t.off.items() for name, p in self.params.items() if p.kind == k}
        self.fits = ServoFits(self.logs, {**off, **(known or {})})
        self.scalars = list(self.params)

    def _free(self, names: Sequence[str]) -> np.ndarray:
        return np.isin(self.scalars, names)

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Do all jobs in one batch."""
        if not jobs:
            return []
        tasks = [
            Task(free=self._free(j.free), s=shares(self.params, j.start)[0], weights=j.seen.astype(float)) for j in jobs
        ]
        s, F = self.fits.search(tasks, draws=self.draws, seed=self.seed)
        free = np.stack([t.free for t in tasks])
        mae = self.fits.mae(s, free)
        rows = self.fits.e(s, free)
        one = [{name: v[i : i + 1] for name, v in rows.items()} for i in range(len(jobs))]
        return [Answer(e=e, loss=float(f), error=m) for e, f, m in zip(one, F, mae, strict=True)]

    def residuals(self, e: E) -> Residuals:
        """Errors of all logs with what the motor was asked for, how fast it moved and what it carried."""
        r, logs = self.logs.errors(e)[0], self.logs
        names = ("error", "asked", "speed", "load", "gain", "pull", "turned")
        parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for i, log in enumerate(logs.logs):
            seen = logs.seen[i]
            y, t = logs.y[i][seen], log["joint_pos"].t[:: logs.every]
            target = log["joint_pos_target"]
            u = target.column(logs.joint)[np.clip(np.searchsorted(target.t, t + 1e-9) - 1, 0, None)]
            parts["error"].append(r[i][seen])
            parts["asked"].append(logs.gain[i] * np.abs(u - y))
            parts["speed"].append(np.gradient(y, t))
            parts["load"].append(-np.sin(y - logs.rig.rest))
            parts["gain"].append(np.full(len(y), logs.gain[i]))
            parts["pull"].append(np.sign(u - y))
            parts["turned"].append(since_turn(t, u - y))
        return Residuals(**{name: np.concatenate(v) for name, v in parts.items()})

    def conclude(self, e: E, free: tuple[str, ...]) -> Fit:
        """A Fit at e: sandwich covariance over blocks of the residuals, beside what white noise would claim."""
        fitted = self.params.only(*[name for name in self.scalars if name in free])
        return _fit(self, e, fitted)

    def provenance(self) -> Mapping[str, object]:
        """What the fit came from."""
        return {
            "robot": self.sim.robot.name,
            "logs": [log.hash for log in self.logs.logs],
            "measure": self.measure,
            "start": "log",
        }


def _fit(bench: ServoBench, e: E, fitted: Params) -> Fit:
    logs, params = bench.logs, bench.params
    mask = bench._free(list(fitted))
    s = shares(params, e)[0]
    at = np.flatnonzero(mask)
    way = np.where(s[at] + NUDGE <= 1.0, NUDGE, -NUDGE)
    moved = np.repeat(s[None], len(at) + 1, axis=0)
    moved[1 + np.arange(len(at)), at] += way
    r = bench.fits.errors(moved, np.repeat(mask[None], len(moved), axis=0))
    J, r0 = (r[1:] - r[0]) / way[:, None, None], r[0]  # (k, L, T), (L, T)
    weight = logs.seen / np.sqrt(1 + (r0 / bench.fits.soft) ** 2)
    scores, blocks = [], 0
    for i, log in enumerate(logs.logs):
        t = log["joint_pos"].t[:: logs.every]
        number = ((t - t[0]) / BLOCK).astype(int)
        for b in range(number.max() + 1):
            mine = np.flatnonzero(number == b)
            scores.append((J[:, i, mine] * (weight * r0)[i, mine]).sum(1))
            blocks += 1
    flat = (J * np.sqrt(weight)).reshape(len(at), -1)
    H = flat @ flat.T
    H = H + 1e-9 * np.trace(H) / len(at) * np.eye(len(at))
    inverse = np.linalg.inv(H)
    meat = np.stack(scores)
    honest = inverse @ (meat.T @ meat) @ inverse * blocks / max(blocks - len(at), 1)
    honest = honest + 1e-12 * np.eye(len(at))
    white = np.sqrt(np.diag(inverse) * float((weight * r0**2).sum() / max(logs.seen.sum() - len(at), 1)))
    values = params.flatten(e)[0][at]
    low, high = fitted.low, fitted.high
    per = slopes(fitted, shares(fitted, fitted.unflatten(values))[0])
    edge = [
        n
        for n, v, lo, hi in zip(fitted.names, values, low, high, strict=True)
        if v <= lo * (1 + 1e-6) or v >= hi * (1 - 1e-6)
    ]
    return Fit.made(
        fitted,
        np.clip(values, low, high),
        honest * np.outer(per, per),
        white_std=white * per,
        freedom=float(max(blocks - len(at), 1)),
        at_bound=tuple(edge),
        provenance=bench.provenance(),
    )
