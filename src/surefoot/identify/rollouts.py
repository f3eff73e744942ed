"""Many windows of many logs under many candidates e, all in one batched physics call.

    world (candidate c, window w):  x' = f(x, u_log(t0_w + t - delay_c), e_c),  x(0) = reading_w(e_c) + offset_cw

x(0) includes what the low-pass holds where speeds are had from angles: it came before the window.

`Sim.replay` takes one log and one start time a call; here every world has its own log, start time, start state and
command stream, so that all finite-difference columns of all windows are one call and nothing is compiled again.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.identify.dwells import shared_variance
from surefoot.identify.windows import Starts, Windows, read_starts
from surefoot.sim import Sim
from surefoot.sim.commands import held_mean
from surefoot.sim.engine import RECORDS
from surefoot.sim.replay import PARTS, _commands, channel_columns, shown_late
from surefoot.sim.sensors import View

MEMORY = 200e6
"""[bytes] Most that the records of one call may take."""
MOST = 1024
"""Worlds in one call."""
KEPT = 4
"""Sims kept for the next call of the same number of worlds."""
LEAD = 0.3
"""[s] Commands before a window that its motors' own states are made from."""
NEEDS = {"encoder": ("qpos", "qvel"), "motor_torque": ("actuator_force",)}
"""By kind of sensor, the records it is read from, where it does not need them all."""


class Rollouts:
    """Predictions of all windows of a fit; y is laid out as one row a window: channels, then samples, then columns.

    Attributes:
        y: what was measured, (windows, n); zero where a window has no sample.
        seen: where it was, (windows, n) bool.
        t: time of every entry after the window's start [s], (windows, n).
        shared: variance that an entry shares with others of the same reading, (windows, n), see `dwells`.
        column: number of the (channel, column) of every entry, (n,).
        labels: (channel, column, unit) by that number.
        log: number of every window's log, (windows,).
    """

    def __init__(self, sim: Sim, windows: Windows, *, hold: tuple[str, ...] = ()):
        self.sim, self.windows = sim, windows
        self.starts: Starts = read_starts(sim, windows)
        self._commands = [_commands(sim, log, hold) for log in windows.logs]
        self.log = np.array([w.log for w in windows.windows])
        self._t0 = np.array([w.start for w in windows.windows])
        self._substeps = np.array(
            [int(np.ceil((w.stop - w.start) / sim.timestep - 1e-6)) for w in windows.windows], dtype=int
        )
        self._workers: dict[int, Sim] = {}
        self._lay_out()

    def _lay_out(self) -> None:
        """Measured values, masks and times of all windows, padded to the longest."""
        parts_y, parts_seen, parts_t, parts_shared, columns = [], [], [], [], []
        self.labels: list[tuple[str, str, str]] = []
        self._after: dict[str, np.ndarray] = {}  # by channel, sample times after the start (windows, samples)
        late = self._oldest()
        for name in self.windows.channels:
            picked = [log[name].pick(self.windows.columns[name]) for log in self.windows.logs]
            inside = []
            for w in self.windows.windows:
                t = picked[w.log].t
                inside.append((np.searchsorted(t, w.start - 1e-9), np.searchsorted(t, w.stop + 1e-9)))
            most = max(b - a for a, b in inside)
            k = len(self.windows.columns[name])
            y, after = np.zeros((len(inside), most, k)), np.zeros((len(inside), most))
            seen, common = np.zeros((len(inside), most), dtype=bool), np.zeros((len(inside), most, k))
            alike = [np.stack([shared_variance(c) for c in channel.values.T], axis=1) for channel in picked]
            for i, (w, (a, b)) in enumerate(zip(self.windows.windows, inside, strict=True)):
                y[i, : b - a], after[i, : b - a] = picked[w.log].values[a:b], picked[w.log].t[a:b] - w.start
                common[i, : b - a] = alike[w.log][a:b]
                after[i, b - a :] = after[i, b - a - 1]
                seen[i, : b - a] = after[i, : b - a] >= late - 1e-9
            self._after[name] = after
            first = len(self.labels)
            self.labels += [(name, c, u) for c, u in zip(picked[0].columns, picked[0].units, strict=True)]
            parts_y.append(y.reshape(len(inside), -1))
            parts_seen.append(np.repeat(seen, k, axis=1))
            parts_t.append(np.repeat(after, k, axis=1))
            parts_shared.append(common.reshape(len(inside), -1))
            columns.append(np.tile(np.arange(first, first + k), most))
        self.y, self.seen = np.concatenate(parts_y, axis=1), np.concatenate(parts_seen, axis=1)
        self.t, self.column = np.concatenate(parts_t, axis=1), np.concatenate(columns)
        self.shared = np.concatenate(parts_shared, axis=1)

    def _oldest(self) -> float:
        """[s] Greatest age of a reading: what is read before it has passed shows the time before the window."""
        tables = self.sim.physics.tables
        oldest = float((tables["sensor_delay"] + tables["sensor_period"]).max(initial=0.0))
        highs = [p.high for p in self.sim.params.values() if p.kind in ("sensor_delay", "sensor_period")]
        return max(oldest, sum(highs)) if highs else oldest

    @property
    def n(self) -> int:
        """Entries of one window."""
        return self.y.shape[1]

    def most_worlds(self) -> int:
        """Worlds that one call may have."""
        model = self.sim.model
        width = model.nq + model.nv + model.nsensordata + model.nu
        return int(np.clip(MEMORY / (8.0 * width * (self._substeps.max() + 1)), 1, MOST))

    def predict(
        self,
        e: Mapping[str, Any],
        rows: np.ndarray,
        offsets: np.ndarray | None = None,
        apart: Mapping[str, np.ndarray] | None = None,
        *,
        torque: tuple[np.ndarray, float] | None = None,
    ) -> np.ndarray:
        """Predicted y (candidates, len(rows), n) of the windows `rows`; NaN from where a world left the numbers.

        Args:
            e: any Params of the sim, one row a candidate.
            rows: numbers of the windows.
            offsets: of the start states, (candidates, len(rows), nx); zero when None.
            apart: Params with a value for each log, (candidates, logs, ...).
            torque: further torques on the joints, (candidates, len(rows), steps, joints) [N·m], and how long each step is held [s];
                what lies beyond the last step is not predicted.
        """
        own = apart or {}
        values = self.sim.params.check(e) if e else {}
        push = np.zeros((1, 0)) if torque is None else torque[0]
        candidates = max((len(v) for v in (*values.values(), *own.values(), push)), default=1)
        total, out = candidates * len(rows), np.empty((candidates * len(rows), self.n))
        which, window = np.repeat(np.arange(candidates), len(rows)), np.tile(rows, candidates)
        flat = np.zeros((total, self.starts.nx)) if offsets is None else offsets.reshape(total, self.starts.nx)
        parts = int(np.ceil(total / self.most_worlds()))
        for take in np.array_split(np.arange(total), parts):
            some = {name: v[which[take]] if len(v) > 1 else v for name, v in values.items()}
            some |= {name: v[which[take] % len(v), self.log[window[take]]] for name, v in own.items()}
            pushed = None if torque is None else (push.reshape(total, *push.shape[2:])[take], torque[1])
            out[take] = self._call(some, window[take], flat[take], pushed)
        return out.reshape(candidates, len(rows), self.n)

    def _worker(self, worlds: int) -> Sim:
        """A noise-free Sim without quantised readings, which finite differences could not see through."""
        if worlds not in self._workers:
            while len(self._workers) >= KEPT:
                self._workers.pop(next(iter(self._workers)))
            self._workers[worlds] = self.sim.replace(worlds=worlds, noise=False, failures=None)
        self._workers[worlds] = self._workers.pop(worlds)
        return self._workers[worlds]

    def _call(
        self,
        e: dict[str, np.ndarray],
        window: np.ndarray,
        offsets: np.ndarray,
        torque: tuple[np.ndarray, float] | None = None,
    ) -> np.ndarray:
        """One physics call: world i replays window[i] under row i of e, row i of the torques acting; (worlds, n)."""
        sim = self._worker(len(window))
        sim.apply({name: np.broadcast_to(v, (sim.worlds, *v.shape[1:])) for name, v in e.items()})
        if "encoder_quantum" not in {p.kind for p in sim.params.values()}:
            sim.physics.tables["encoder_quantum"][:] = 0.0
            sim.sensors.retune()
        qpos, qvel = self._start(sim, window, offsets)
        sim.reset(qpos=qpos, qvel=qvel)
        delay = sim.physics.tables["command_delay"]
        distinct, back = np.unique(np.stack([window, delay], axis=1), axis=0, return_inverse=True)
        back = back.reshape(-1)
        self._lead(sim, distinct, back)
        wanted = self._records()
        substeps = int(self._substeps[window].max())
        if torque is not None:
            substeps = min(substeps, int(np.ceil(torque[0].shape[1] * torque[1] / sim.timestep - 1e-6)))
        now = vars(sim._now())
        records = {name: np.empty((sim.worlds, substeps + 1, *np.shape(now[name])[1:])) for name in wanted}
        for name in wanted:
            records[name][:, 0] = now[name]
        stepwise = sim.residual is not None or bool(sim.disturbances.pushes)
        chunk = sim.substeps if stepwise else int(np.clip(2e6 / (sim.worlds * max(sim.model.nu, 1)), 16, 4096))
        if torque is not None:
            chunk = min(chunk, max(round(torque[1] / sim.timestep), 1))
        for first in range(0, substeps, chunk):
            n = min(chunk, substeps - first)
            control = self._control(sim, distinct, first, n)[back]
            sim.disturbances.act(first // chunk, False)
            if torque is not None:
                sim.engine.qfrc_applied[:, sim.sensors.dq] = 0.0
            if sim.residual is not None:
                mean = control.mean(1)
                control = control + (sim._corrected(mean) - mean)[:, None]
            if torque is not None:
                step = min(int(first * sim.timestep / torque[1] + 1e-6), torque[0].shape[1] - 1)
                sim.engine.qfrc_applied[:, sim.sensors.dq] += torque[0][:, step]
            out = sim.advance(sim.shape_control(control), wanted)
            for name in wanted:
                records[name][:, first + 1 : first + 1 + n] = out[name]
            sim.alive[:] = True
        y = self._read(sim, records, window, offsets)
        y[sim.engine.failed()] = np.nan
        return y

    def _lead(self, sim: Sim, distinct: np.ndarray, back: np.ndarray) -> None:
        """Let rotors and rate limits follow the commands before the window, so that they start as the robot's did."""
        moving = bool(len(sim._rotors)) or "rate_limit" in sim.built.features
        n = int(np.ceil(LEAD / sim.timestep)) if moving else 1
        control = self._control(sim, distinct, -n, n)[back]
        sim.commands.slewed[:], sim.commands.spin[:] = control[:, 0], control[:, 0]
        if moving:
            sim.shape_control(control)

    def _start(self, sim: Sim, window: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """qpos (worlds, nq) and qvel (worlds, nv): the readings without bias and delay, plus the offsets."""
        s, sensors, tables = self.starts, sim.sensors, sim.physics.tables
        q, v, a = s.q[window].copy(), s.v[window].copy(), s.a[window]
        delay = self._encoder_delay(sim)
        q[:, sensors.q] += delay * v[:, sensors.dq] + 0.5 * delay**2 * a[:, sensors.dq] - tables["encoder_bias"]
        v[:, sensors.dq] += delay * a[:, sensors.dq]
        k = len(s.dofs)
        move = np.zeros((sim.worlds, sim.model.nv))
        move[:, s.dofs] = offsets[:, :k]
        v[:, s.dofs] += offsets[:, k : 2 * k]
        q[:, sensors.q] += move[:, sensors.dq]
        if sensors.base_q is not None and sensors.base_v is not None:
            base_q, base_v = sensors.base_q, sensors.base_v
            q[:, base_q : base_q + 3] += move[:, base_v : base_v + 3]
            turned = _turned(q[:, base_q + 3 : base_q + 7], move[:, base_v + 3 : base_v + 6])
            q[:, base_q + 3 : base_q + 7] = turned
        return q, v

    def _late_start(
        self, sim: Sim, records: dict[str, np.ndarray], window: np.ndarray, offsets: np.ndarray
    ) -> np.ndarray | None:
        """What the low-pass of late speeds holds at the start, (worlds, joints): the reading that shows it, plus the offsets."""
        s = self.starts
        if not len(s.filtered):
            return None
        out = records["qvel"][:, 0, sim.sensors.dq]
        delay = self._encoder_delay(sim)[:, s.filtered]
        c = np.moveaxis(s.s[window], 2, 0)
        out[:, s.filtered] = c[0] + delay * c[1] + delay**2 * c[2] + offsets[:, 2 * len(s.dofs) :]
        return out

    @staticmethod
    def _encoder_delay(sim: Sim) -> np.ndarray:
        """Age of every joint's readings [s], (worlds, joints)."""
        delay = np.zeros((sim.worlds, len(sim.robot.joints)))
        for number in sim.sensors.of_kind("encoder"):
            delay[:, sim.sensors.columns[number]] = sim.physics.tables["sensor_delay"][:, number, None]
        return delay

    def _control(self, sim: Sim, distinct: np.ndarray, first: int, n: int) -> np.ndarray:
        """What the motors receive in substeps first .. first + n of every distinct (window, delay); (rows, n, nu)."""
        window = distinct[:, 0].astype(int)
        starts = (self._t0[window] - distinct[:, 1])[:, None] + (first + np.arange(n)) * sim.timestep
        out = np.empty((len(distinct), n, sim.model.nu))
        for log in np.unique(self.log[window]):
            rows = self.log[window] == log
            t, u = self._commands[log]
            out[rows] = held_mean(t, u, starts[rows], sim.timestep)
        return out

    def _records(self) -> tuple[str, ...]:
        kinds = [PARTS.get(name) for name in self.windows.channels]
        needed = {r for kind in kinds for r in NEEDS.get(kind or "", RECORDS)}
        return tuple(name for name in RECORDS if name in needed)

    def _read(self, sim: Sim, records: dict[str, np.ndarray], window: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """y (worlds, n) from substep records and the offsets of the starts."""
        parts, late = [], self._late_start(sim, records, window, offsets)
        for name in self.windows.channels:
            y = _channel(sim, name, shown_late(sim, name, records, late), self._after[name][window])
            own = channel_columns(sim)[name]
            y = y[..., [own.index(c) for c in self.windows.columns[name]]]
            if name == "quat":
                measured = self.y[window][:, self._entries(name)].reshape(y.shape)
                y = y * np.where((y * measured).sum(-1, keepdims=True) < 0, -1.0, 1.0)
            parts.append(y.reshape(sim.worlds, -1))
        return np.concatenate(parts, axis=1)

    def _entries(self, name: str) -> np.ndarray:
        numbers = [i for i, label in enumerate(self.labels) if label[0] == name]
        return np.isin(self.column, numbers)


def _channel(sim: Sim, name: str, records: dict[str, np.ndarray], after: np.ndarray) -> np.ndarray:
    """One channel (worlds, samples, k) from records (worlds, N + 1, ...) at times `after` (worlds, samples)."""
    kind = PARTS.get(name)
    if kind is None:
        start = sim.sensors.base_q if name == "base_pos" else sim.sensors.base_v
        assert start is not None
        key = "qpos" if name == "base_pos" else "qvel"
        return _sampled(sim, records[key], after)[..., start : start + 3]
    tables, out = sim.physics.tables, None
    needed = NEEDS.get(kind, RECORDS)
    empty = np.zeros((after.shape[1], sim.worlds, 0))
    for number in sim.sensors.of_kind(kind):
        age = tables["sensor_delay"][:, number, None]
        period = tables["sensor_period"][:, number, None]
        if period.any():
            safe = np.where(period > 0, period, 1.0)
            age = age + np.where(period > 0, np.maximum((after + 1e-9) % safe - 1e-9, 0.0), 0.0)
        seen = {r: np.swapaxes(_sampled(sim, records[r], after - age), 0, 1) for r in needed}
        view = View(**{r: seen.get(r, empty) for r in RECORDS})
        read = np.swapaxes(sim.sensors.PARTS[kind](sim.sensors, view, 0, False)[name], 0, 1)
        if out is None:
            out = read
        else:
            out[..., sim.sensors.columns[number]] = read[..., sim.sensors.columns[number]]
    assert out is not None
    return out


def _sampled(sim: Sim, record: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Records (worlds, N + 1, ...) between substeps, linearly, at times `after` (worlds, samples) from their start."""
    last = record.shape[1] - 1
    position = np.clip(after / sim.timestep, 0, last)
    i = np.minimum(np.floor(position + 1e-6).astype(int), last - 1)
    share = position - i
    rows = np.arange(len(record))[:, None]
    low = record[rows, i]
    if np.abs(share - np.round(share)).max(initial=0.0) < 1e-6:
        whole = share > 0.5
        return np.where(whole[..., None], record[rows, i + 1], low) if whole.any() else low
    return low + share[..., None] * (record[rows, i + 1] - low)


def _turned(quat: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Unit quaternions (worlds, 4) turned by rotation vectors (worlds, 3) in their own frames."""
    angle = np.linalg.norm(by, axis=1, keepdims=True)
    axis = by / np.where(angle > 0, angle, 1.0)
    w, x = np.cos(0.5 * angle), np.sin(0.5 * angle) * axis
    w0, x0 = quat[:, :1], quat[:, 1:]
    out = np.concatenate([w0 * w - (x0 * x).sum(1, keepdims=True), w0 * x + w * x0 + np.cross(x0, x)], axis=1)
    return out / np.linalg.norm(out, axis=1, keepdims=True)
