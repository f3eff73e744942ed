"""Sim: x' = f(x, u, e) + g and y = h(x, e) + v, for many worlds at once, each with its own e.

    sim = Sim(robot, params, worlds=256)
    e = sim.params.prior().sample(256, 0)
    sim.apply(e); sim.reset()
    for _ in range(100):
        sim.step(u); y = sim.sense()

`apply` is the only writer of physics. `step` takes one command a control period; delays, motors, disturbances and the
residual act inside it. `sense` gives what the robot's own sensors would, `truth` what only a simulator knows.
"""

import os
import warnings
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.logs import Log
from surefoot.params import E, Params
from surefoot.robots import Robot
from surefoot.sim import failure, replay, snapshot
from surefoot.sim.build import Built, build
from surefoot.sim.commands import CommandLine
from surefoot.sim.disturbances import Disturbances
from surefoot.sim.engine import RECORDS, CpuEngine, Engine
from surefoot.sim.failure import Failure
from surefoot.sim.laws import Laws
from surefoot.sim.noise import Noise
from surefoot.sim.physics import Physics
from surefoot.sim.residual import Residual, Situation, memory_of
from surefoot.sim.sensors import Readings, Sensors, View, as_slice
from surefoot.sim.stance import Stance
from surefoot.sim.tape import Tape

ENGINES = ("cpu", "cuda", "warp", "physx")
"""Names of the engines; "cuda:1" is the second GPU, "warp" is the CUDA engine's code on a CPU, for tests."""
LONGEST_DELAY = 0.1
"""[s] Memory kept for commands when no Param says how long a delay can be."""


class Sim:
    """Many worlds of one robot. Physics gives the same bits at any thread count; noise depends on (seed, world, step) alone."""

    def __new__(cls, *_args: Any, engine: str = "cpu", **_options: Any) -> "Sim":
        """Worlds on a GPU are a Sim of their own making: see surefoot.sim.cuda_sim."""
        if cls is Sim and (engine.startswith("cuda") or engine == "warp"):
            try:
                from surefoot.sim.cuda_sim import CudaSim
            except ImportError as error:
                raise InputError(
                    f"engine {engine!r} needs torch and MuJoCo Warp, and '{error.name}' is missing: pip install 'surefoot[learn,gpu]'"
                ) from None
            return object.__new__(CudaSim)
        return object.__new__(cls)

    def __init__(
        self,
        robot: Robot,
        params: Params | None = None,
        *,
        worlds: int = 1,
        engine: str = "cpu",
        threads: int = 0,
        seed: int = 0,
        noise: bool = True,
        residual: Residual | None = None,
        collisions: str = "few",
        failures: str | Path | None = None,
        built: Built | None = None,
    ):
        """Compile the model and make the worlds.

        Args:
            robot: what `load` returns.
            params: the schema of e; None takes the robot file's defaults, Params() none.
            worlds: number of worlds.
            engine: "cpu"; "cuda" or "cuda:1" for MuJoCo Warp on a GPU; "physx" for an independent second opinion.
            threads: 0 for all cores.
            seed: key of all noise.
            noise: whether sensors, disturbances and process noise draw random numbers; biases, delays and pushes' tables stay.
            residual: g, added to the physics.
            collisions: "few" (feet and trunk) or "all".
            failures: folder for the files of worlds that blow up; None keeps them in memory only.
            built: the compiled model of a like Sim, to share instead of compiling again (see `replace`).
        """
        if engine not in ("cpu", "physx"):
            raise InputError(f"engine {engine!r} is not one of {', '.join(ENGINES)} {did_you_mean(engine, ENGINES)}")
        if int(worlds) < 1:
            raise InputError(f"worlds must be at least 1, got {worlds}")
        params = robot.params if params is None else params
        self._made = {
            "robot": robot, "params": params, "worlds": worlds, "engine": engine, "threads": threads, "seed": seed, "noise": noise,
            "residual": residual, "collisions": collisions, "failures": failures,
        }  # fmt: skip
        self.robot, self.worlds, self.seed, self.noisy, self.residual = robot, int(worlds), seed, noise, residual
        if engine == "physx":
            from surefoot.sim.physx import refuse

            refuse(params)
        self.built = built if built is not None else build(robot, params, collisions=collisions)
        self.model = self.built.model
        self.engine = _engine(engine, self.model, self.worlds, threads)
        self.noise = Noise(seed, self.worlds)
        self.physics = Physics(self.built, self.engine, params)
        self.params = self.physics.params
        self.laws = Laws(self.physics)
        base = self.model.body(robot.base).id if robot.base is not None else None
        self.sensors = Sensors(self.built, self.physics, self.noise, robot.control_dt)
        self.disturbances = Disturbances(self.physics, self.noise, robot.control_dt, base, self.sensors.base_v)
        self.stance = Stance(self.physics, self.sensors.base_q, self.start_qpos)
        self.steps = 0
        self.alive = np.ones(self.worlds, dtype=bool)
        self.failures: list[Failure] = []
        self._folder = Path(failures) if failures is not None else None
        self.memory = memory_of(residual, self.worlds)
        self._replayers: dict[int, Sim] = {}
        self._rotors = np.flatnonzero(self.physics.motors.style == "rotor")
        self._earlier = self.engine.state.copy()  # the state before a step, for the files of worlds that blow up in it
        self._retime()
        self.apply({})
        self.reset()

    def __repr__(self) -> str:
        return f"Sim({self.robot.name}, {self.worlds} worlds, e: {', '.join(self.params) or 'nothing'})"

    def replace(self, **changes: Any) -> "Sim":
        """A new Sim like this one but for `changes` (worlds, residual, params, seed, ...)."""
        for name in changes:
            if name not in self._made:
                raise InputError(f"{name!r} is not an argument of Sim {did_you_mean(name, self._made)}")
        same = not {"robot", "params", "collisions", "engine"} & set(changes)
        return Sim(**{**self._made, **changes}, built=self.built if same else None)

    # ---------------------------------------------------------------- time

    def _retime(self) -> None:
        """Set the substeps from the physics time step, and the lines that remember commands and states."""
        expanded = self.engine.expanded.get("opt.timestep")
        self.timestep = float(self.model.opt.timestep if expanded is None else expanded[0])
        self.substeps = self._divided(self.timestep)
        bounds = {n: p.high for n, p in self.params.items() if p.kind in ("command_delay", "command_jitter")}
        longest = sum(bounds.values()) if bounds else LONGEST_DELAY
        self.commands = CommandLine(
            self.worlds, self.model.nu, self.substeps, self.timestep, longest, self.engine.array
        )
        self.plan_commands()
        self.tape = Tape.needed(self)

    def plan_commands(self) -> None:
        """Look at the delays and the rotors' lags of all worlds anew."""
        self.commands.retime(self.physics.tables["command_delay"])
        self.commands.relag(self.physics.tables["rotor_lag"][:, self._rotors])

    def _keep_time(self) -> None:
        """Go on with another time step: motors hold what they were told last, sensors see what is there now."""
        old = self.commands
        self._retime()
        self.commands.hold(self.engine.everyone, old.history[:, 0])
        self.commands.slewed[:], self.commands.spin[:] = old.slewed, old.spin
        if self.tape is not None:
            self.tape.fill(self.engine.everyone, self._now())

    def _divided(self, dt: float) -> int:
        """Number of time steps dt in a control period; refuses one that does not divide it."""
        ratio = self.robot.control_dt / dt
        if abs(ratio - round(ratio)) > 1e-6 or round(ratio) < 1:
            raise InputError(
                f"timestep {dt:g} s does not divide the control period {self.robot.control_dt:g} s of {self.robot.name}: "
                f"use one that does, such as {self.robot.control_dt / max(1, round(ratio)):g}"
            )
        return round(ratio)

    @property
    def threads(self) -> int:
        """Threads that step many worlds: those asked for, else all cores; PhysX steps one world after the other."""
        return 1 if self._made["engine"] == "physx" else int(self._made["threads"]) or os.cpu_count() or 1

    @property
    def control_dt(self) -> float:
        """Control period [s]: one u each."""
        return self.robot.control_dt

    @property
    def time(self) -> np.ndarray:
        """Physics time of every world [s], (worlds,)."""
        return self.engine.time

    # ---------------------------------------------------------------- e

    def apply(self, e: Mapping[str, Any], ids: Any = None) -> None:
        """Give worlds their e: the only writer of physics. Legal in the middle of an episode; the state stays.

        Args:
            e: any subset of the Params; rows for `ids` (or one value for all of them).
            ids: worlds, None for all.
        """
        rows = self._ids(ids)
        checked = self.params.check(e, len(rows))
        numerics = [n for n in checked if self.params[n].about.per == "sim"]
        if numerics and len(rows) != self.worlds:
            raise InputError(f"param '{numerics[0]}' has one value per Sim: apply it to all worlds at once")
        for name in checked:
            self._check_delays(name, checked[name])
            if self.params[name].kind == "timestep":
                self._divided(float(checked[name][0]))
        self.physics.write(checked, rows)
        if any(self.params[name].about.constants for name in checked):
            self.physics.refresh_constants(rows)
        if any(self.params[name].kind == "timestep" for name in checked):
            self._keep_time()
        touched = {
            f.removeprefix("sim.") for name in checked for f in self.params[name].about.fields if f.startswith("sim.")
        }
        self.sensors.retune(touched)
        self.disturbances.retune(touched)
        if touched & {"command_delay", "command_jitter"}:
            self.commands.retime(self.physics.tables["command_delay"], rows)
        if self.tape is not None and "sensor_delay" in touched:
            self.tape.replan()
        if "rotor_lag" in touched:
            self.commands.relag(self.physics.tables["rotor_lag"][np.ix_(rows, self._rotors)], rows)

    def _check_delays(self, name: str, value: np.ndarray) -> None:
        param = self.params[name]
        if param.kind in (
            "command_delay",
            "command_jitter",
            "sensor_delay",
            "sensor_jitter",
            "sensor_period",
        ) and value.max() > param.high * (1 + 1e-9):
            raise InputError(
                f"param '{name}' is {value.max():g} s, but memory was made for {param.high:g} s: raise its high bound"
            )

    @property
    def e(self) -> E:
        """e of every world, decoded from the engine's fields."""
        return self.physics.read()

    def _ids(self, ids: Any) -> np.ndarray:
        if ids is None:
            return self.engine.everyone
        rows = np.asarray(ids)
        if rows.dtype == bool:
            if rows.shape != (self.worlds,):
                raise InputError(f"a mask of worlds must have shape ({self.worlds},), got {rows.shape}")
            return np.flatnonzero(rows)
        rows = rows.astype(int).reshape(-1)
        if len(rows) and (rows.min() < 0 or rows.max() >= self.worlds):
            odd = rows.max() if rows.max() >= self.worlds else rows.min()
            raise InputError(f"world {odd} does not exist: this Sim has {self.worlds}")
        if len(np.unique(rows)) < len(rows):
            raise InputError(f"worlds are named twice in ids={rows.tolist()}: name each once")
        return rows

    # ---------------------------------------------------------------- reset, step

    def reset(self, ids: Any = None, *, qpos: np.ndarray | None = None, qvel: np.ndarray | None = None) -> None:
        """Put worlds into the robot's default pose at rest, or into the given state; e stays.

        Command history is filled with the command that holds the pose, so that a delayed robot does not drop.
        """
        rows = self._ids(ids)
        if not len(rows):
            return
        self.engine.clear(rows)
        start = (
            np.tile(self.start_qpos, (len(rows), 1))
            if qpos is None
            else np.broadcast_to(qpos, (len(rows), self.model.nq))
        )
        self.engine.qpos[rows] = start
        if qpos is None:
            self.stance.settle(rows)
        self.engine.qvel[rows] = 0.0 if qvel is None else np.broadcast_to(qvel, (len(rows), self.model.nv))
        self._hold_pose(rows)
        self.engine.ctrl[rows] = self.rest_command
        self.disturbances.clear(rows)
        self.laws.clear(rows)
        for name, fresh in memory_of(self.residual, self.worlds).items():
            self.memory[name][rows] = fresh[rows]
        self.engine.forward(rows)
        if self.laws.settle(rows):
            self.engine.forward(rows)
        self.alive[rows] = True
        self.sensors.clear(rows, self._now())
        if self.tape is not None:
            self.tape.fill(rows, self._now())

    @property
    def start_qpos(self) -> np.ndarray:
        """Default pose, (nq,)."""
        return self._start_qpos.copy()

    @cached_property
    def _start_qpos(self) -> np.ndarray:
        q = np.array(self.model.qpos0)
        q[self.sensors.q] = [self.robot.pose[j] for j in self.robot.joints]
        if self.sensors.base_q is not None:
            q[self.sensors.base_q + 2] = self.robot.height
        return q

    def _hold_pose(self, rows: np.ndarray) -> None:
        self.commands.hold(rows, np.tile(self.rest_command, (len(rows), 1)))

    @property
    def rest_command(self) -> np.ndarray:
        """The command that asks for the default pose, (nu,): position targets, or zero torque, voltage and thrust."""
        return self._rest_command.copy()

    @cached_property
    def _rest_command(self) -> np.ndarray:
        styles = self.physics.motors.style
        return np.array([
            self.robot.pose.get(name, 0.0) if style in ("pd", "wound") else 0.0
            for name, style in zip(self.physics.motors.names, styles, strict=True)
        ])  # fmt: skip

    def step(self, u: np.ndarray) -> None:
        """Advance every living world by one control period under the command u, (worlds, nu) or (nu,)."""
        u = np.asarray(u, dtype=float)
        if u.shape != (self.worlds, self.model.nu):
            if u.shape != (self.model.nu,):
                raise InputError(
                    f"u must have shape ({self.worlds}, {self.model.nu}), a column for each of "
                    f"{', '.join(self.command_names)}; got {u.shape}"
                )
            u = np.broadcast_to(u, (self.worlds, self.model.nu))
        if not np.isfinite(u).all():
            world, column = np.argwhere(~np.isfinite(u))[0]
            raise InputError(
                f"u is not a finite number in world {world} for '{self.command_names[column]}' at step {self.steps}"
            )
        np.copyto(self._earlier, self.engine.state)
        living = None if self.alive.all() else self.alive
        self.disturbances.act(self.steps, self.noisy, living)
        if self.noisy and self.sensors.active["command_jitter"]:
            extra = self.physics.tables["command_jitter"] * self.noise.uniform("command_jitter", self.steps, 1)[:, 0]
            self.commands.retime(self.physics.tables["command_delay"] + extra)
        control = self.shape_control(self.commands.deliver(self._corrected(u)))
        self.advance(control)
        self.sensors.walk(self.steps)
        self.steps += 1
        self._bury(self._earlier, control)

    def _corrected(self, u: np.ndarray) -> np.ndarray:
        """u after the residual; its torques and wrench go to the engine."""
        if self.residual is None:
            return u
        view = self._now()
        base = np.zeros((self.worlds, 0))
        if self.sensors.base_q is not None and self.sensors.base_v is not None:
            q, v = self.sensors.base_q, self.sensors.base_v
            base = np.concatenate([view.qpos[:, q : q + 7], view.qvel[:, v : v + 6]], axis=1)
        x = Situation(joint_pos=view.qpos[:, self.sensors.q], joint_vel=view.qvel[:, self.sensors.dq], base=base, u=u)
        correction, self.memory = self.residual(x, self.memory)
        if correction.dtau is not None:
            if not (self.noisy and self.disturbances.active["torque_noise"]):
                self.engine.qfrc_applied[:, self.sensors.dq] = 0.0
            self.engine.qfrc_applied[:, self.sensors.dq] += correction.dtau
        if correction.dwrench is not None and self.disturbances.base is not None:
            if not self.disturbances.pushes:
                self.engine.xfrc_applied[:, self.disturbances.base] = 0.0
            self.engine.xfrc_applied[:, self.disturbances.base] += correction.dwrench
        return u if correction.du is None else u + correction.du

    def shape_control(self, control: np.ndarray) -> np.ndarray:
        """Motor-side limits on delivered commands (worlds, substeps, nu): slew rate, and the rotors' lag and square law."""
        limits = self.physics.tables["rate_limit"]
        if "rate_limit" in self.built.features:
            control = self.commands.slew(control, limits, np.flatnonzero(np.isfinite(limits).any(0)))
        if len(self._rotors):
            control = self.commands.spin_up(control, self.commands.lags, as_slice(self._rotors))
        return control

    def advance(self, control: np.ndarray, record: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
        """Physics alone: n substeps of control (worlds, n, nu) for all living worlds; records every substep if asked."""
        ids = None if self.alive.all() else np.flatnonzero(self.alive)
        wanted = RECORDS if self.tape is not None and not record else record
        direct = self.tape is not None and not (record or self.laws) and ids is None
        into = self.tape.blank() if self.tape is not None and direct else None
        if not self.laws:
            out = self.engine.advance(control if ids is None else control[ids], ids, wanted, into)
        else:
            parts = []
            for j in range(control.shape[1]):
                self.laws.act(self.timestep, control[:, j])
                part = control[:, j : j + 1] if ids is None else control[ids, j : j + 1]
                got = self.engine.advance(part, ids, wanted)
                parts.append({k: v.copy() for k, v in got.items()})
            out = {k: np.concatenate([p[k] for p in parts], axis=1) for k in wanted}
        if self.tape is not None and not record:
            if into is None:
                self.tape.push(out, ids)
            else:
                self.tape.turn()
        return out

    # ---------------------------------------------------------------- sense

    def _now(self) -> View:
        e = self.engine
        return View(
            qpos=e.qpos, qvel=e.qvel, sensordata=e.derived("sensordata"), actuator_force=e.derived("actuator_force")
        )

    def sense(self, *, noisy: bool | None = None, only: Collection[str] | None = None) -> Readings:
        """What the robot's sensors deliver now, (worlds, k) by channel; call it once a control step.

        Units and names are those of CONVENTIONS.md: joint_pos, joint_vel, gyro, accel, quat, gravity, foot_force, joint_torque.
        `only` names the channels that are wanted, to save the time of the others; all when left out.
        """
        noisy = self.noisy if noisy is None else noisy
        out: Readings = {}
        now = self._now()
        for index in range(len(self.robot.sensors)):
            if only is not None and not self.sensors.gives(index, only):
                continue
            view = now if self.tape is None else self.tape.view(index, self.steps, noisy)
            for name, value in self.sensors.deliver(index, view, self.steps, noisy, only).items():
                if name in out:
                    columns = self.sensors.columns[index]
                    out[name][:, columns] = value[:, columns]
                else:
                    out[name] = value
        if "joint_pos" in out:
            self.sensors.difference(out, self.steps, noisy)
        return out

    def truth(self) -> Readings:
        """What only a simulator knows, (worlds, k): joint_pos, joint_vel, and for free bases position, attitude, velocity."""
        x = {"joint_pos": self.engine.qpos[:, self.sensors.q], "joint_vel": self.engine.qvel[:, self.sensors.dq]}
        if self.sensors.base_q is not None and self.sensors.base_v is not None:
            q, v = self.sensors.base_q, self.sensors.base_v
            pose, twist = np.array(self.engine.qpos[:, q : q + 7]), np.array(self.engine.qvel[:, v : v + 6])
            x |= {
                "base_pos": pose[:, :3],
                "quat": pose[:, 3:],
                "base_vel_world": twist[:, :3],
                "base_gyro_true": twist[:, 3:],
            }
        return x

    @property
    def command_names(self) -> tuple[str, ...]:
        """Names of u's columns: the actuated joints (or rotors) in the maker's order."""
        return self.physics.motors.names

    @property
    def command_channel(self) -> str:
        """Name of the command in a Log: joint_pos_target, voltage_target, ..."""
        return self.robot.actuators[0].channel if self.robot.actuators else "control"

    # ---------------------------------------------------------------- worlds that blow up

    def _bury(self, before: np.ndarray, control: np.ndarray) -> None:
        """Freeze worlds that left the numbers in this step: named, kept, written to a file; the others go on."""
        bad = self.engine.failed()
        bad = bad[self.alive[bad]]
        if not len(bad):
            return
        self.alive[bad] = False
        for world in bad:
            found = failure.describe(self, int(world), before[world].copy(), control[world])
            if self._folder is not None:
                found = found.save(self._folder / f"world{world}_step{self.steps - 1}.npz")
            self.failures.append(found)
        warnings.warn(failure.sentence(self.failures[-len(bad) :], self.worlds), RuntimeWarning, stacklevel=3)

    # ---------------------------------------------------------------- logs and snapshots

    def replay(self, log: Log, e: Mapping[str, Any] | None = None, **options: Any) -> "replay.Replay":
        """f driven open loop by a log's commands, under one e or thousands: see `surefoot.sim.replay.replay`."""
        return replay.replay(self, log, e, **options)

    def replayer(self, worlds: int) -> "Sim":
        """A noise-free Sim of the same model with `worlds` worlds, kept for the next replay of that size."""
        if worlds not in self._replayers:
            self._replayers[worlds] = self.replace(worlds=worlds, noise=False, failures=None)
        return self._replayers[worlds]

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that decides what happens next: state, e, histories, memories, counters; plain arrays."""
        return snapshot.take(self)

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Put a snapshot of a Sim like this one back, bit for bit."""
        snapshot.put_back(self, saved)


def _engine(name: str, model: mujoco.MjModel, worlds: int, threads: int) -> Engine:
    """The engine of that name under the compiled model."""
    if name == "physx":
        from surefoot.sim.physx import PhysxEngine

        return PhysxEngine(model, worlds, threads)
    return CpuEngine(model, worlds, threads)
