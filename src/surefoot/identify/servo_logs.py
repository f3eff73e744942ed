"""Logs of one servo, ready for a Rig and for a Sim: gains and power switches taken from the recording itself.

    errors (candidates, logs, samples) = y_replay(u_log, x0, e) - y_log         from the first sample to the last, open loop

A servo's firmware gain is set per recording and its power may be switched off in the middle of one: kp of e holds at the gain
`reference`, every log's own gain scales it; without power the motor gives no torque and brakes nothing.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.servo import Drive, Rig
from surefoot.logs import Log
from surefoot.params import E
from surefoot.sim import Sim
from surefoot.sim.commands import held_mean

START_SAMPLES = 10
"""Readings that a parabola goes through whose slope is the speed at the start."""
CHUNK = 500
"""Substeps in one engine call."""
ENABLE = "torque_enable"
"""Channel that says whether the motor has power, where a log has it."""


def gains(logs: Sequence[Log], key: str | None, reference: float | None) -> np.ndarray:
    """Every log's firmware gain over the reference gain, (L,); ones without a key."""
    if key is None:
        return np.ones(len(logs))
    missing = [i for i, log in enumerate(logs) if key not in log.meta]
    if missing:
        raise InputError(
            f"log {missing[0]} has no '{key}' in its meta data: name the key of its gain, or gain=None for one gain"
        )
    if reference is None or not reference > 0:
        raise InputError(f"reference={reference!r} must be the gain at which the robot file's kp holds, such as 400")
    return np.array([float(log.meta[key]) for log in logs]) / reference


def start_state(log: Log, joint: str) -> tuple[float, float, float]:
    """First time [s], reading [rad] and speed [rad/s] of a log, by a parabola through its first readings."""
    channel = log["joint_pos"]
    t, y = channel.t, channel.column(joint)
    if len(t) < 2 * START_SAMPLES:
        raise InputError(f"a log of {len(t)} readings is too short to replay: at least {2 * START_SAMPLES} are needed")
    few = slice(0, START_SAMPLES)
    speed = float(np.polyfit(t[few] - t[0], y[few], 2)[1])
    return float(t[0]), float(y[0]), speed


def powered(log: Log, at: np.ndarray) -> np.ndarray:
    """Whether the motor has power at times `at`, of 0 and 1; always where the log does not say."""
    if ENABLE not in log:
        return np.ones(len(at))
    channel = log[ENABLE]
    i = np.clip(np.searchsorted(channel.t, at + 1e-9, side="right") - 1, 0, len(channel) - 1)
    return (channel.values[i, 0] > 0.5).astype(float)


class ServoLogs:
    """Several logs of one servo on one grid of substeps, replayed together."""

    def __init__(
        self, rig: Rig, logs: Sequence[Log], *, gain: str | None = "kp", reference: float | None = None, every: int = 1
    ):
        """Put logs on the rig's grid.

        Args:
            rig: the joint.
            logs: recordings with joint_pos_target and joint_pos.
            gain: key of the firmware gain in a log's meta data; None: the same in all.
            reference: gain at which the robot file's kp holds.
            every: take every so many readings into the errors; 1: all.
        """
        if not logs:
            raise InputError("there is no log to replay: give at least one")
        self.rig, self.logs, self.every = rig, tuple(logs), int(every)
        self.joint = rig.sim.robot.joints[0]
        self.gain = gains(self.logs, gain, reference)
        starts = np.array([start_state(log, self.joint) for log in self.logs])
        self.t0, self.q0, self.v0 = starts.T
        last = np.array([log["joint_pos"].t[-1] for log in self.logs])
        self.n = int(np.ceil(((last - self.t0) / rig.dt).max() - 1e-9))
        grid = np.arange(self.n) * rig.dt
        self.on = np.stack([powered(log, t0 + grid) for log, t0 in zip(self.logs, self.t0, strict=True)], axis=1)
        self._place_samples()
        self._commands: dict[float, np.ndarray] = {}

    def _place_samples(self) -> None:
        """Measured values (L, T), where they exist, and between which substeps they lie."""
        times = [log["joint_pos"].t[:: self.every] for log in self.logs]
        most = max(len(t) for t in times)
        shape = (len(self.logs), most)
        self.y, self.seen, position = np.zeros(shape), np.zeros(shape, dtype=bool), np.zeros(shape)
        for i, (log, t) in enumerate(zip(self.logs, times, strict=True)):
            self.y[i, : len(t)] = log["joint_pos"].column(self.joint)[:: self.every]
            self.seen[i, : len(t)] = True
            position[i, : len(t)] = (t - self.t0[i]) / self.rig.dt
        self._below = np.clip(np.floor(position + 1e-9).astype(int), 0, self.n - 1)
        self._share = np.clip(position - self._below, 0.0, 1.0)

    def _command(self, delay: float) -> np.ndarray:
        """What the motor receives in every substep under a delay, (n, L)."""
        key = round(delay, 9)
        if key not in self._commands:
            if len(self._commands) > 256:
                self._commands.clear()
            out = np.empty((self.n, len(self.logs)))
            for i, log in enumerate(self.logs):
                channel = log["joint_pos_target"]
                starts = self.t0[i] + np.arange(self.n) * self.rig.dt - delay
                out[:, i] = held_mean(channel.t, channel.column(self.joint)[:, None], starts, self.rig.dt)[:, 0]
            self._commands[key] = out
        return self._commands[key]

    def predict(self, e: Mapping[str, np.ndarray]) -> np.ndarray:
        """Readings at the logs' own times under every row of e, (candidates, logs, samples)."""
        figures = self.rig.figures(e)
        delay, back = np.unique(np.round(figures["command_delay"], 9), return_inverse=True)
        u = np.stack([self._command(float(d)) for d in delay], axis=1)
        u = u if len(delay) == 1 else u[:, back.reshape(-1)]
        drive = Drive(u=u, on=self.on, gain=self.gain, q0=self.q0, v0=self.v0)
        with np.errstate(over="ignore", invalid="ignore"):
            q = self.rig.roll(figures, drive)  # (n + 1, C, L)
        out = np.empty((q.shape[1], *self.y.shape))
        for i in range(len(self.logs)):
            low, share = self._below[i], self._share[i][:, None]
            out[:, i] = ((1 - share) * q[low, :, i] + share * q[low + 1, :, i]).T
        return out

    def errors(self, e: Mapping[str, np.ndarray]) -> np.ndarray:
        """Replay minus log, (candidates, logs, samples); 0 where a log has no sample."""
        return np.where(self.seen, self.predict(e) - self.y, 0.0)

    def mae(self, e: Mapping[str, np.ndarray]) -> np.ndarray:
        """Mean absolute error of every log, (candidates, logs) [rad]."""
        return np.abs(self.errors(e)).sum(-1) / self.seen.sum(-1)


def replay_servo(sim: Sim, log: Log, e: E, *, gain: float = 1.0) -> np.ndarray:
    """Readings of a Sim at the log's own times, (samples,): Sim's physics under a gain and with power switched as logged.

    Args:
        sim: a robot with one joint; its own worlds are not touched.
        log: the recording.
        e: one row, the Params kp and kd among them.
        gain: the log's firmware gain over the one at which kp of e holds.
    """
    for name in ("kp", "kd"):
        if name not in sim.params or name not in e:
            raise InputError(
                f"e lacks '{name}', which a servo's gain and power switch act on: give the Sim a Param '{name}'"
            )
    worker, joint = sim.replayer(1), sim.robot.joints[0]
    t0, q0, v0 = start_state(log, joint)
    t = log["joint_pos"].t
    rows = sim.params.check(e, 1)
    on = {name: np.asarray(rows[name]) * (gain if name == "kp" else 1.0) for name in ("kp", "kd")}
    off = {name: np.zeros_like(value) for name, value in on.items()}
    worker.apply({**sim.params.nominal_e(1), **rows, **on})
    bias = float(worker.physics.tables["encoder_bias"][0, 0])
    qpos = np.array(worker.start_qpos)
    qpos[worker.sensors.q[0]] = q0 - bias
    qvel = np.zeros(worker.model.nv)
    qvel[worker.sensors.dq[0]] = v0
    worker.reset(qpos=qpos, qvel=qvel)
    n, dt = int(np.ceil((t[-1] - t0) / worker.timestep - 1e-9)), worker.timestep
    delay = float(worker.physics.tables["command_delay"][0])
    channel = log["joint_pos_target"]
    u = held_mean(channel.t, channel.column(joint)[:, None], t0 - delay + np.arange(n) * dt, dt)
    power = powered(log, t0 + np.arange(n) * dt)
    out = np.empty(n + 1)
    out[0] = q0 - bias
    cuts = np.unique(np.concatenate([[0, n], np.flatnonzero(np.diff(power)) + 1, np.arange(0, n, CHUNK)]))
    for first, last in pairwise(cuts.tolist()):
        worker.apply(on if power[first] else off)
        got = worker.advance(u[None, first:last], ("qpos", "qvel"))
        out[first + 1 : last + 1] = got["qpos"][0, :, worker.sensors.q[0]]
    return np.interp(t - t0, np.arange(n + 1) * dt, out) + bias
