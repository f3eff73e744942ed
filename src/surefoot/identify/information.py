"""How much a motion would teach about e: Fisher information by finite differences of short windows.

    F(e) = Σ_windows  Jzᵀ (W − W Jx (Jxᵀ W Jx + P)⁻¹ Jxᵀ W) Jz / inflation²
    Jz = ∂y/∂z,  Jx = ∂y/∂x₀,  W = 1/σ² per reading,  z = params.pack(e),  P: what is known of a window's start beforehand

The start of every window is unknown, as it is when windows are fitted, so what could be explained by another start teaches nothing:
another position or speed, or another value in the low-pass of speeds that are had from angles.
All windows, differences and candidates of a design go through f together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from surefoot.errors import InputError, choose
from surefoot.identify.excite_runs import APART, Commands, Runs, Worlds
from surefoot.identify.windows import SHOWN_BY, speeds_are_late
from surefoot.params import E, Params
from surefoot.sim import Sim
from surefoot.sim.replay import channel_columns

STEP = 1e-6
"""Finite difference in packed coordinates: so small that neither curvature nor the corners of saturation and friction pass for
information along what is confounded."""
START = (1e-7, 1e-6)
"""Finite differences of a start: position [rad, m], speed [rad/s, m/s]."""
GROWTH, GROWTH_TIME = 20.0, 10.0
"""By how much a window's start may be magnified before readings no longer count: positions, and speeds per this many 1/s."""
VAGUE = (0.05, 1.0)
"""What is known of a window's start before its readings: standard deviations [rad, m], [rad/s, m/s]."""
ATTITUDE_NOISE = 0.01
"""[rad] Standard deviation of an attitude that is estimated from an IMU."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What is measured and how well.

    Attributes:
        std: standard deviation of one reading by channel, (columns,).
        inflation: by how much standard deviations of e are larger than white noise would make them (residuals of real robots are
            correlated); 1: not at all.
        drift: speed that the robot gains beside the model within a window [rad/s, m/s]: readings that a small change of speed would
            throw far off count less, since no model is right about them.
    """

    std: Mapping[str, np.ndarray]
    inflation: float = 1.0
    drift: float = 0.0

    @property
    def channels(self) -> tuple[str, ...]:
        """What is measured."""
        return tuple(self.std)


def sensor_noise_of(
    sim: Sim,
    channels: tuple[str, ...] | None = None,
    *,
    names: Sequence[str] = (),
    inflation: float = 1.0,
    drift: float = 0.0,
) -> Noise:
    """Noise by the figures of the robot's sensors: σ² = noise² + quantum²/12, white densities over a control period.

    Without `channels`: joint_pos, and for free bases gyro and quat, as a fit uses them; joint_vel where one of the Params `names`, which
    are to be learned, needs it. A speed that is had from angles has their noise, see sim/speeds.py.
    """
    tables, columns = sim.physics.tables, channel_columns(sim)
    kinds = {s.kind for s in sim.robot.sensors}
    known: dict[str, np.ndarray] = {}
    if "encoder" in kinds:
        known["joint_pos"] = np.sqrt(tables["encoder_noise"][0] ** 2 + tables["encoder_quantum"][0] ** 2 / 12)
        speeds = tables["velocity_noise"][0]
        if any(p.kind == "velocity_filter" for p in sim.params.values()):
            speeds = np.hypot(speeds, sim.sensors.speed_noise()[0])
        if (speeds > 0).all():
            known["joint_vel"] = speeds.copy()
    if "imu" in kinds:
        for name in ("gyro", "accel"):
            known[name] = np.full(3, float(np.ravel(tables[f"{name}_noise"][0])[0]) / np.sqrt(sim.control_dt))
        known |= {"gravity": np.full(3, ATTITUDE_NOISE), "quat": np.full(4, 0.5 * ATTITUDE_NOISE)}
    if "motor_torque" in kinds and sim.sensors.torque_noise is not None:
        known["joint_torque"] = np.broadcast_to(sim.sensors.torque_noise, len(columns["joint_torque"])).copy()
    if channels is None:
        alone = tuple(SHOWN_BY[k] for k in dict.fromkeys(sim.params[n].kind for n in names) if k in SHOWN_BY)
        channels = tuple(n for n in ("joint_pos", "quat", "gyro", *alone) if n in known)
    for name in channels:
        choose(name, known, f"a channel of '{sim.robot.name}' with a stated noise")
    found = {name: known[name] for name in channels}
    for name, std in found.items():
        if not (std > 0).all():
            raise InputError(
                f"the robot file of '{sim.robot.name}' states no noise for {name}: without one, every motion would teach everything"
            )
    return Noise(std=found, inflation=inflation, drift=drift)


@dataclass(frozen=True, kw_only=True)
class Lens:
    """How a motion is looked at.

    Attributes:
        names: Params that are to be learned.
        noise: what is measured.
        window: length of a window [s].
        period: time between two readings [s].
        unknown_start: whether the start of each window is unknown.
        vague: what is known of a start beforehand, positions and speeds.
    """

    names: tuple[str, ...]
    noise: Noise
    window: float = 1.0
    period: float = 0.0
    unknown_start: bool = True
    vague: tuple[float, float] = field(default=VAGUE)


class Information:
    """Fisher information of candidates, (candidates, samples, d, d), about the scalars of `lens.names` in packed coordinates."""

    def __init__(self, sim: Sim, lens: Lens):
        for name in lens.names:
            if sim.params[choose(name, sim.params, "a Param of this sim")].choices is not None:
                raise InputError(
                    f"'{name}' has choices, not a continuous value: fix it before designing a motion for it"
                )
        self.sim, self.lens = sim, lens
        self.params: Params = sim.params.only(*lens.names)
        self.worlds = Worlds(sim)
        period = lens.period or sim.control_dt
        steps = period * np.arange(1, max(round(lens.window / period), 1) + 1)
        self.window = float(steps[-1])
        late = _latest(sim)
        self.at = steps[steps >= late - 1e-9]  # (T,): before, a delayed reading would show what was before the window
        if not len(self.at):
            raise InputError(
                f"a window of {self.window:g} s is no longer than the sensors' delay of {late:g} s: make it longer"
            )
        self._positions = _moving(sim.model)
        self.d, self.nx = self.params.d, (2 * sim.model.nv if lens.unknown_start else 0)
        self.late = lens.unknown_start and speeds_are_late(sim, lens.noise.channels)
        self.weight = {name: 1.0 / std for name, std in lens.noise.std.items()}

    def __call__(self, u: np.ndarray, e: E) -> np.ndarray:
        """Information of commands u (candidates, T, nu) at every sample of e, (candidates, samples, d, d).

        e holds all Params, one row a sample. Motions start from the default pose at rest. A run that leaves the numbers teaches
        nothing.
        """
        k, s = len(u), len(next(iter(e.values()))) if e else 1
        states = self.walk(u, e, self.window)
        found = self.along(u, np.repeat(np.arange(k), s), e, np.tile(np.arange(s), k), states)
        return found.reshape(k, s, self.d, self.d)

    def along(
        self, u: np.ndarray, candidate: np.ndarray, e: E, sample: np.ndarray, states: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Information of n motions whose states are known, (n, d, d).

        Args:
            u: commands, (candidates, T, nu).
            candidate: which commands each motion has, (n,).
            e: samples of all Params.
            sample: which e each motion has, (n,).
            states: qpos and qvel at the starts of the windows, (n, windows or more, width).
        """
        commands, n = Commands.of(u, self.sim.control_dt), len(candidate)
        windows = int(np.floor(commands.seconds / self.window + 1e-9))
        if not windows:
            raise InputError(
                f"a motion of {commands.seconds:g} s is shorter than a window of {self.window:g} s: make it longer, or the window shorter"
            )
        qpos = states["qpos"][:, :windows].reshape(n * windows, -1).copy()
        qvel = states["qvel"][:, :windows].reshape(n * windows, -1).copy()
        sick = ~(np.isfinite(qpos).all(1) & np.isfinite(qvel).all(1))
        qpos[sick], qvel[sick] = self.sim.start_qpos, 0.0
        start = (APART * candidate[:, None] + self.window * np.arange(windows)).reshape(-1)
        runs = self._differences(e, np.repeat(sample, windows), start, qpos, qvel)
        shown = self.worlds.show(commands, runs, self.at, self.lens.noise.channels)
        filters = self._filters(e, np.repeat(sample, windows)) if self.late else None
        J = self._jacobian(shown, n * windows, filters)  # (n · windows, readings, d + nx, and a column for each filter)
        J[sick] = 0.0
        return self._marginal(J).reshape(n, windows, self.d, self.d).sum(1) / self.lens.noise.inflation**2

    def walk(self, u: np.ndarray, e: E, every: float) -> dict[str, np.ndarray]:
        """States of whole motions u (candidates, T, nu) from the default pose at rest under each sample of e.

        (candidates · samples, 1 + seconds / every, width) of qpos, qvel and actuator_force.
        """
        k, s = len(u), len(next(iter(e.values()))) if e else 1
        rows = {name: np.tile(value, (k, *[1] * (value.ndim - 1))) for name, value in e.items()}
        qpos, qvel = self._standing(e, s)
        runs = Runs(
            e=rows, start=np.repeat(APART * np.arange(k), s), qpos=np.tile(qpos, (k, 1)), qvel=np.tile(qvel, (k, 1))
        )
        return self.worlds.states(Commands.of(u, self.sim.control_dt), runs, every)

    def _standing(self, e: E, s: int) -> tuple[np.ndarray, np.ndarray]:
        """Where each sample starts: the default pose, put on the ground and settled for a moment where there is a free base."""
        worker = self.worlds.worker(s)
        worker.apply({**worker.params.nominal_e(s), **e})
        worker.reset()
        if self.sim.sensors.base_q is not None:
            for _ in range(int(np.ceil(0.5 / worker.control_dt))):
                worker.step(worker.rest_command)
        return np.array(worker.engine.qpos), np.array(worker.engine.qvel)

    def _differences(self, e: E, sample: np.ndarray, start: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> Runs:
        """Runs for every window: as it is, with each scalar of e moved, with each part of its start moved; (1 + d + nx) · n."""
        rows = {name: value[sample] for name, value in e.items()}
        z = self.params.pack({name: rows[name] for name in self.params})
        values = [rows]
        for i in range(self.d):
            moved = z.copy()
            moved[:, i] += STEP
            values.append({**rows, **self.params.unpack(moved)})
        q, v = [qpos] * (1 + self.d), [qvel] * (1 + self.d)
        if self.nx:
            for i in range(self.sim.model.nv):
                q.append(self._positions(qpos, i, START[0]))
                v.append(qvel)
            for i in range(self.sim.model.nv):
                faster = qvel.copy()
                faster[:, i] += START[1]
                q.append(qpos)
                v.append(faster)
            values += [rows] * self.nx
        many = {name: np.concatenate([value[name] for value in values]) for name in rows}
        return Runs(e=many, start=np.tile(start, len(values)), qpos=np.concatenate(q), qvel=np.concatenate(v))

    def _filters(self, e: E, sample: np.ndarray) -> np.ndarray:
        """How late speeds are in every window, (n,) [s]."""
        for name, param in self.sim.params.items():
            if param.kind == "velocity_filter":
                return np.asarray(e[name], float).reshape(-1)[sample]
        return np.full(len(sample), float(self.sim.physics.tables["velocity_filter"][0]))

    def _jacobian(self, shown: Mapping[str, np.ndarray], n: int, filters: np.ndarray | None) -> np.ndarray:
        """Weighted differences (n, readings, d + nx + joints with a filter); those of windows with a run that left the numbers are 0."""
        steps = np.concatenate(
            [np.full(self.d, STEP), np.full(self.nx // 2, START[0]), np.full(self.nx // 2, START[1])]
        )
        parts = []
        for name, value in shown.items():
            y = (value * self.weight[name]).reshape(1 + self.d + self.nx, n, -1)
            parts.append((y[1:] - y[:1]) / steps[:, None, None])
        J = np.moveaxis(np.concatenate(parts, axis=2), 0, 2)
        if filters is not None:
            J = np.concatenate([J, self._fading(shown, filters)], axis=2)
        J = np.where(np.isfinite(J).all(axis=(1, 2), keepdims=True), J, 0.0) * self._usable(shown, n)[..., None]
        if self.nx and self.lens.noise.drift:
            off = self.lens.noise.drift**2 * (J[..., self.d + self.nx // 2 : self.d + self.nx] ** 2).sum(
                -1, keepdims=True
            )
            J = J / np.sqrt(1.0 + off)
        return J

    def _fading(self, shown: Mapping[str, np.ndarray], filters: np.ndarray) -> np.ndarray:
        """What a low-pass held at a window's start does to the readings, (n, readings, joints): exp(-t / τ) on the joint's own speed."""
        name = SHOWN_BY["velocity_filter"]
        fading = np.exp(-self.at / np.maximum(filters, 1e-9)[:, None])  # (n, T)
        widths = {channel: value.shape[2] for channel, value in shown.items()}
        blocks = [np.zeros((len(filters), len(self.at) * width, widths[name])) for width in widths.values()]
        own = fading[:, :, None, None] * np.diag(self.weight[name])
        blocks[list(widths).index(name)] = own.reshape(len(filters), -1, widths[name])
        return np.concatenate(blocks, axis=1)

    def _usable(self, shown: Mapping[str, np.ndarray], n: int) -> np.ndarray:
        """Readings before a window's start is magnified more than GROWTH times, (n, readings): 1 or 0.

        Beyond that the motion is decided by how it began: a fit cannot follow it, and differences there are no slopes.
        """
        widths = [value.shape[2] for value in shown.values()]
        if not self.nx or "joint_pos" not in shown:
            return np.ones((n, sum(widths) * len(self.at)))
        y = shown["joint_pos"].reshape(1 + self.d + self.nx, n, len(self.at), -1)[1 + self.d :]
        base = shown["joint_pos"].reshape(1 + self.d + self.nx, n, len(self.at), -1)[:1]
        half = self.nx // 2
        steps = np.concatenate([np.full(half, START[0]), np.full(half, START[1] * GROWTH_TIME)])
        with np.errstate(invalid="ignore"):
            size = np.abs((y - base) / steps[:, None, None, None]).max((0, 3))  # (n, T)
        calm = np.cumprod(np.nan_to_num(size, nan=np.inf) <= GROWTH, axis=1)
        return np.concatenate([np.repeat(calm, width, axis=1) for width in widths], axis=1)

    def _marginal(self, J: np.ndarray) -> np.ndarray:
        """Information about z alone, (n, d, d): the start integrated out."""
        d = self.d
        whole = np.einsum("nra,nrb->nab", J, J, optimize=True)
        if not self.nx:
            return whole
        half = self.nx // 2
        speeds = whole.shape[1] - d - half  # and what low-passes of speeds hold
        known = np.concatenate([np.full(half, self.lens.vague[0] ** -2.0), np.full(speeds, self.lens.vague[1] ** -2.0)])
        inner = whole[:, d:, d:] + np.diag(known)
        return whole[:, :d, :d] - whole[:, :d, d:] @ np.linalg.solve(inner, whole[:, d:, :d])


def _latest(sim: Sim) -> float:
    """Largest age of a reading [s] that the Params allow, or the robot's own."""
    stated = max((sensor.delay for sensor in sim.robot.sensors), default=0.0)
    return max([stated, *(p.high for p in sim.params.values() if p.kind == "sensor_delay")])


def _moving(model: mujoco.MjModel):
    """A function (qpos (n, nq), degree of freedom, step) -> qpos moved along it."""
    free, ball = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_BALL)
    place: dict[int, int] = {}  # where a degree of freedom that does not turn a quaternion stands in qpos
    for j in range(model.njnt):
        kind = int(model.jnt_type[j])
        for i in range({free: 3, ball: 0}.get(kind, 1)):
            place[int(model.jnt_dofadr[j]) + i] = int(model.jnt_qposadr[j]) + i

    def moved(qpos: np.ndarray, dof: int, step: float) -> np.ndarray:
        out = qpos.copy()
        if dof in place:
            out[:, place[dof]] += step
            return out
        speed = np.zeros(model.nv)
        speed[dof] = 1.0
        for row in out:
            mujoco.mj_integratePos(model, row, speed, step)
        return out

    return moved
