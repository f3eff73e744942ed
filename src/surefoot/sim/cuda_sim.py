"""Sim on the device: the same e, sensors, disturbances and commands, with every array where the physics is.

One writer of physics remains: a CPU Sim of a few hundred worlds, the press. `apply` lets the press write e into its fields and tables
as always, and copies the finished rows to the device. So each kind of Param, each derived constant and each decoding is the code that
the CPU engine runs, and `e` is read back from the device's own fields.

`step` and `sense` ask the host for nothing: commands, physics, disturbances and sensors are recorded pieces (cuda_pieces.py). Episodes
begin without the host too, from rows that the press made ahead (`renew`).
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.params import E, Params
from surefoot.robots import Robot
from surefoot.sim import cuda_kernels as kernels
from surefoot.sim.build import Built, build
from surefoot.sim.commands import CommandLine
from surefoot.sim.cuda import CudaEngine
from surefoot.sim.cuda_parts import DeviceNoise, DevicePhysics, DeviceTape, Launcher
from surefoot.sim.cuda_pieces import Piece, on_stream
from surefoot.sim.cuda_rows import Rows
from surefoot.sim.disturbances import Disturbances
from surefoot.sim.physics import Physics
from surefoot.sim.replay import Replay, replay
from surefoot.sim.sensors import CHANNELS, Readings, Sensors
from surefoot.sim.sim import LONGEST_DELAY, Sim

PRESS = 512
"""Worlds of the press: as many rows are made at once."""
CONSTANTS = ("body_subtreemass", "body_invweight0", "dof_invweight0", "actuator_acc0", "tendon_invweight0")
"""Fields that the engine derives from others; the press computes them."""
STATE = ("qpos", "qvel", "act", "time", "sensordata", "actuator_force", "geom_xpos")
"""What a world's state is made of on the device; the press gives all of it when an episode begins."""


class CudaSim(Sim):
    """A Sim whose worlds live on a GPU (or, with device "cpu", in MuJoCo Warp on a CPU); made by Sim(..., engine="cuda")."""

    def __init__(
        self,
        robot: Robot,
        params: Params | None = None,
        *,
        worlds: int = 1,
        engine: str = "cuda",
        threads: int = 0,
        seed: int = 0,
        noise: bool = True,
        residual: Any = None,
        collisions: str = "few",
        failures: str | Path | None = None,
        built: Built | None = None,
    ):
        if int(worlds) < 1:
            raise InputError(f"worlds must be at least 1, got {worlds}")
        if residual is not None:
            raise InputError("the cuda engine takes no residual yet: use engine='cpu'")
        params = robot.params if params is None else params
        self._made = {
            "robot": robot, "params": params, "worlds": worlds, "engine": engine, "threads": threads, "seed": seed, "noise": noise,
            "residual": None, "collisions": collisions, "failures": failures,
        }  # fmt: skip
        _refuse(params)
        built = built if built is not None else build(robot, params, collisions=collisions, plates=False)
        self.press = Sim(
            robot, params, worlds=min(int(worlds), PRESS), threads=threads, seed=seed, noise=noise, collisions=collisions, built=built,
        )  # fmt: skip
        self.robot, self.worlds, self.seed, self.noisy, self.residual = robot, int(worlds), seed, noise, None
        self.built, self.model, self.params = self.press.built, self.press.model, self.press.params
        for name, param in self.params.items():
            if param.about.structural in self.press.laws.names:
                raise InputError(
                    f"param '{name}' of kind {param.kind} acts between the physics steps, where the cuda engine has no code: "
                    "use engine='cpu', or leave it out"
                )
        self.engine: Any = CudaEngine(self.model, self.worlds, device="cpu" if engine == "warp" else engine)
        self.device = self.engine.torch_device
        self.timestep, self.substeps = self.press.timestep, self.press.substeps
        self.noise: Any = DeviceNoise(seed, self.worlds, self.device)
        self._lay_out()
        self.steps, self.failures, self._replayers = 0, [], {}
        self._heard: frozenset[str] | None = None
        self._make_parts()
        self._adopt_memories()
        self.u = torch.zeros(self.worlds, self.model.nu, device=self.device)
        self.control = torch.zeros(self.worlds, self.substeps, self.model.nu, device=self.device)
        self._make_pieces()
        self.engine.single = self.single
        self.apply({})
        self.reset()

    def single(self, world: int) -> tuple[Any, Any]:
        """One world as a model and data of its own on the host, derived quantities computed; for pictures."""
        self._download(np.array([world]))
        press = self.press.engine
        press.qpos[0], press.qvel[0] = _host(self.engine.qpos[world]), _host(self.engine.qvel[world])
        return press.single(0)

    # ---------------------------------------------------------------- how it is laid out

    def _lay_out(self) -> None:
        """Give every world a row for the fields and tables that e can change."""
        press = pressing(self.press)
        numbers: dict[str, tuple[int, ...]] = {}
        whole: dict[str, tuple[int, ...]] = {}
        for name, value in press.engine.expanded.items():
            if not self.engine.holds(name):
                who = [n for n, s in press.physics.slots.items() if name in s.param.about.fields] or [name]
                raise InputError(
                    f"param '{who[0]}': the cuda engine has one '{name}' for all worlds: state it in the robot file, or use engine='cpu'"
                )
            (numbers if value.dtype.kind == "f" else whole)[f"field/{name}"] = value.shape[1:]
        numbers |= {f"table/{name}": value.shape[1:] for name, value in press.physics.tables.items()}
        numbers |= {f"sensor/{name}": value.shape[1:] for name, value in _tuned(press).items()}
        self._numbers = numbers
        self.whole = Rows(whole, self.worlds, device=self.device, dtype=torch.int32)
        self.rows = Rows(numbers, self.worlds, device=self.device)
        self._give_fields()

    def _give_fields(self) -> None:
        for rows in (self.rows, self.whole):
            for name, part in rows.parts.items():
                if name.startswith("field/"):
                    self.engine.give(name.removeprefix("field/"), part)

    def _make_parts(self) -> None:
        """Sensors, disturbances and commands over the device's arrays."""
        press = self.press
        self.physics: Any = DevicePhysics(press.physics, self.engine, self._tables())
        self._upload(self.engine.everyone[: press.worlds], broadcast=True)
        base = self.model.body(self.robot.base).id if self.robot.base is not None else None
        with on_stream(self.device):
            self.sensors = Sensors(self.built, self.physics, self.noise, self.robot.control_dt)
            self.disturbances = Disturbances(self.physics, self.noise, self.robot.control_dt, base, self.sensors.base_v)
        self._tune()
        bounds = {n: p.high for n, p in self.params.items() if p.kind in ("command_delay", "command_jitter")}
        longest = sum(bounds.values()) if bounds else LONGEST_DELAY
        self.commands = CommandLine(
            self.worlds, self.model.nu, self.substeps, self.timestep, longest, self.engine.array
        )
        self._rotors = self.engine.array(np.flatnonzero(self.physics.motors.style == "rotor"))
        self.stance = press.stance
        self.laws = press.laws
        self.memory = {}
        self.tape: Any = DeviceTape(self) if press.tape is not None else None

    def _tables(self) -> dict[str, Tensor]:
        return {n.removeprefix("table/"): p for n, p in self.rows.parts.items() if n.startswith("table/")}

    def _tune(self) -> None:
        """What is possible under these Params is always computed; what no world can have costs nothing."""
        able = possible(self.press.physics)
        s, tuned = self.sensors, {n.removeprefix("sensor/"): p for n, p in self.rows.parts.items() if "sensor/" in n}
        s.active = {name: name in able for name in self.physics.tables}
        s.mounting = tuned["mounting"] if "imu_mounting" in able else None
        bent = {
            n: "imu_mounting" in able
            or f"{n}_misalignment" in able
            or not np.array_equal(self.press.sensors.site, np.eye(3))
            for n in ("gyro", "accel")
        }
        s.frames = {n: tuned[f"frame/{n}"] if bent[n] else None for n in ("gyro", "accel")}
        s.all_quantised = bool((self.press.physics.tables["encoder_quantum"] > 0).all()) and not self.physics.has(
            "encoder_quantum"
        )
        s.quantum = tuned["quantum"]
        s.white = {n: tuned[f"white/{n}"] for n in ("gyro", "accel")} if self.sensors.of_kind("imu") else {}
        s.captured = True
        d = self.disturbances
        d.active = {name: name in able for name in d.active}
        d.pushes = any(d.active[n] for n in ("wrench", "moment", "cable_drag", "drag"))

    def _adopt_memories(self) -> None:
        """Move every memory of sensors and commands into the worlds' rows, so that an episode's begin copies it as well."""
        with on_stream(self.device):
            self.read(self.noisy, None)
        shapes = {f"memory/{name}": tuple(value.shape[1:]) for name, (value, _, _) in self._memories().items()}
        old = self.rows
        self.rows = Rows({**self._numbers, **shapes}, self.worlds, device=self.device)
        for name, part in old.parts.items():
            self.rows.parts[name].copy_(part)
        self._give_fields()
        self.physics.tables = self._tables()
        for name, (value, owner, key) in self._memories().items():
            part = self.rows.parts[f"memory/{name}"]
            part.copy_(value)
            if isinstance(owner, dict):
                owner[key] = part
            else:
                setattr(owner, key, part)
        self._tune()

    def _memories(self) -> dict[str, tuple[Any, Any, str]]:
        """Arrays with a row per world that sensors, disturbances and commands remember, each with its owner and name there."""
        s, c, d = self.sensors, self.commands, self.disturbances
        found: dict[str, tuple[Any, Any, str]] = {f"walk/{k}": (v, s.walks, k) for k, v in s.walks.items()}
        found |= {f"last/{k}": (v, s.last, k) for k, v in s.last.items()}
        found |= {k: (getattr(s, k), s, k) for k in ("scan_offset", "sample", "angles", "speeds")}
        found |= {k: (getattr(c, k), c, k) for k in ("history", "slewed", "spin")}
        return found | {"gust": (d.gust, d, "gust")}

    def ready_rows(self, press: Sim) -> dict[str, np.ndarray]:
        """Everything of the press's worlds that the device keeps in rows, by part."""
        s, c = press.sensors, press.commands
        out = {f"field/{n}": v for n, v in press.engine.expanded.items()}
        out |= {f"table/{n}": v for n, v in press.physics.tables.items()}
        out |= {f"sensor/{n}": v for n, v in _tuned(press).items()}
        out |= {f"memory/walk/{k}": v for k, v in s.walks.items()}
        out |= {f"memory/last/{k}": v for k, v in s.last.items()}
        for name, shape in self.rows.shapes.items():
            if name.startswith("memory/last/") and name not in out:  # A press without lost readings remembers none.
                out[name] = np.full((press.worlds, *shape), np.nan)
        out |= {f"memory/{k}": getattr(s, k) for k in ("scan_offset", "sample", "angles", "speeds")}
        out |= {f"memory/{k}": getattr(c, k) for k in ("history", "slewed", "spin")}
        return out | {"memory/gust": press.disturbances.gust}

    # ---------------------------------------------------------------- e

    def apply(self, e: Mapping[str, Any], ids: Any = None) -> None:
        """Give worlds their e through the press; the state stays. See Sim.apply."""
        rows = self._ids(ids)
        checked = self.params.check(e, len(rows))
        for name in checked:
            if self.params[name].about.per == "sim" and not np.allclose(
                checked[name], self.params.nominal_e(len(rows))[name]
            ):
                raise InputError(
                    f"param '{name}' is one number for the whole cuda engine, set when the Sim is made: give it as its nominal value"
                )
        for first in range(0, len(rows), self.press.worlds):
            some = rows[first : first + self.press.worlds]
            if len(checked) < len(self.params):
                self._download(some)
            part = {name: value[first : first + len(some)] for name, value in checked.items()}
            self.press.apply(part, np.arange(len(some)))
            self._upload(some, what=("field/", "table/", "sensor/"))

    def _download(self, ids: np.ndarray) -> None:
        """Bring the e of worlds `ids` into the press."""
        index = torch.from_numpy(ids).to(self.device)
        for rows in (self.rows, self.whole):
            for name, value in rows.unpack(rows.flat[index]).items():
                kind, _, rest = name.partition("/")
                if kind == "field":
                    self.press.engine.field(rest)[: len(ids)] = value
                elif kind == "table":
                    self.press.physics.tables[rest][: len(ids)] = value

    def _upload(self, ids: np.ndarray, *, what: tuple[str, ...] | None = None, broadcast: bool = False) -> None:
        """Copy the press's first rows to worlds `ids`, or its first one to all of them."""
        ready = self.ready_rows(self.press)
        count = 1 if broadcast else len(ids)
        index = slice(None) if broadcast else torch.from_numpy(ids).to(self.device)
        for rows in (self.rows, self.whole):
            names = [n for n in rows.shapes if what is None or n.startswith(what)]
            for name in names:
                rows.parts[name][index] = torch.from_numpy(
                    np.ascontiguousarray(ready[name][:count]).astype(
                        np.float32 if rows is self.rows else np.int32, copy=False
                    )
                ).to(self.device)

    @property
    def e(self) -> E:
        """e of every world, decoded from the device's fields."""
        parts: list[E] = []
        for first in range(0, self.worlds, self.press.worlds):
            some = np.arange(first, min(first + self.press.worlds, self.worlds))
            self._download(some)
            parts.append({name: value[: len(some)] for name, value in self.press.physics.read().items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}

    # ---------------------------------------------------------------- reset, step, sense

    def reset(self, ids: Any = None, *, qpos: Any = None, qvel: Any = None) -> None:
        """Put worlds into the robot's default pose at rest, or into the given state; e stays. See Sim.reset."""
        rows = self._ids(ids)
        for first in range(0, len(rows), self.press.worlds):
            some = rows[first : first + self.press.worlds]
            self._download(some)
            self.press.engine.refresh_constants(np.arange(len(some)))
            given = [
                None if x is None else np.broadcast_to(_host(x), (len(rows), width))[first : first + len(some)]
                for x, width in ((qpos, self.model.nq), (qvel, self.model.nv))
            ]
            self.press.reset(np.arange(len(some)), qpos=given[0], qvel=given[1])
            self._upload(some, what=("memory/",))
            pool = self.state_of(self.press, len(some))
            mask = torch.zeros(self.worlds, dtype=torch.bool, device=self.device)
            index = torch.from_numpy(some).to(self.device)
            mask[index] = True
            row = torch.zeros(self.worlds, dtype=torch.int64, device=self.device)
            row[index] = torch.arange(len(some), device=self.device)
            self._renew_state(mask, row, {k: v.to(self.device) for k, v in pool.items()})

    def state_of(self, press: Sim, count: int) -> dict[str, Tensor]:
        """State of the first `count` worlds of a press, flattened to (count, n) by name, on the host."""
        out = {}
        for name in STATE:
            value = (
                getattr(press.engine, name) if name in ("qpos", "qvel", "act", "time") else press.engine.derived(name)
            )
            flat = np.asarray(value)[:count].reshape(count, -1)
            if flat.shape[1]:
                out[name] = torch.from_numpy(np.ascontiguousarray(flat, dtype=np.float32))
        return out

    def renew(self, mask: Tensor, row: Tensor, pool: "Pool") -> None:
        """Begin anew in the worlds of the mask (worlds,), each with its row (worlds,) of the pool: e, memories and state."""
        launch = Launcher(self.device)
        launch(kernels.copy_rows, self.rows.flat.shape, mask, row, pool.rows, self.rows.flat)
        if pool.whole is not None:
            launch(kernels.copy_whole_rows, self.whole.flat.shape, mask, row, pool.whole, self.whole.flat)
        self._renew_state(mask, row, pool.state)

    def _renew_state(self, mask: Tensor, row: Tensor, state: Mapping[str, Tensor]) -> None:
        launch = Launcher(self.device)
        with on_stream(self.device):
            for name, source in state.items():
                target = self.engine.view(name).reshape(self.worlds, -1)
                launch(kernels.copy_rows, tuple(target.shape), mask, row, source, target)
            for value in (self.engine.warm_start, self.engine.qfrc_applied):
                value.masked_fill_(mask[:, None], 0.0)
            self.engine.xfrc_applied.masked_fill_(mask[:, None, None], 0.0)
            if self.tape is not None:
                self.tape.fill_where(mask)

    def _make_pieces(self) -> None:
        launch = Launcher(self.device)

        def substep(j: int) -> None:
            launch(kernels.command, tuple(self.engine.ctrl.shape), self.control, j, self.engine.ctrl)

        def after(j: int) -> None:
            if self.tape is not None:
                self.tape.record(j)
            if j == self.substeps - 1:
                if self.tape is not None:
                    self.tape.move(self.substeps)
                launch(kernels.add, 1, self.noise.clock, 1)

        self.run_physics = self.engine.physics(substep, after, self.substeps)
        self._before = Piece(self.prepare, self.device)

    def prepare(self) -> None:
        """What happens between a command in `u` and the physics: disturbances, delays, limits. For recorded pieces."""
        tables, launch = self.physics.tables, Launcher(self.device)
        # The engine would take a command that is not a number for zero; it breaks its world instead, as 0 times it does.
        self.engine.qvel[:, 0].add_(self.u.sum(1), alpha=0.0)
        self.disturbances.act(0, self.noisy)
        delay = tables["command_delay"]
        if self.noisy and self.sensors.active["command_jitter"]:
            delay = delay + tables["command_jitter"] * self.noise.uniform("command_jitter", 0, 1)[:, 0]
        launch(
            kernels.deliver, (self.worlds, self.model.nu), self.u, delay, self.timestep, self.substeps, self.commands.history,
            self.control,
        )  # fmt: skip
        if "rate_limit" in self.built.features or len(self._rotors):
            self.control.copy_(self.shape_control(self.control))

    def shape_control(self, control: Any) -> Any:
        """Motor-side limits on delivered commands (worlds, substeps, nu): slew rate, and the rotors' lag and square law."""
        if "rate_limit" in self.built.features:
            columns = self.engine.array(np.flatnonzero(np.isfinite(self.press.physics.tables["rate_limit"]).any(0)))
            control = self.commands.slew(control, self.physics.tables["rate_limit"], columns)
        if len(self._rotors):
            decay = self.commands.decay(self.physics.tables["rotor_lag"][:, self._rotors])
            control = self.commands.spin_up(control, decay, self._rotors)
        return control

    def step(self, u: Any) -> None:
        """Advance every world by one control period under the command u, (worlds, nu) or (nu,), NumPy or torch.

        A command that is not finite breaks its world; `alive` tells.
        """
        value = u if isinstance(u, Tensor) else torch.from_numpy(np.asarray(u, dtype=np.float32))
        if tuple(value.shape) not in ((self.worlds, self.model.nu), (self.model.nu,)):
            raise InputError(
                f"u must have shape ({self.worlds}, {self.model.nu}), a column for each of {', '.join(self.command_names)}; "
                f"got {tuple(value.shape)}"
            )
        self.u.copy_(value.expand(self.worlds, self.model.nu))
        self._before()
        self.run_physics()
        self.walk()
        self.steps += 1

    def walk(self) -> None:
        """Let the sensors' biases wander for one control step."""
        if self.sensors.active["gyro_walk"] or self.sensors.active["accel_walk"]:
            with on_stream(self.device):
                self.sensors.walk(0)

    def hear(self, channels: Collection[str] | None) -> None:
        """From now on only these channels are asked for (None: any): native sensors that serve none of them are not computed."""
        self._heard = None if channels is None else frozenset(channels)
        heard = set(CHANNELS) if channels is None else {k for k, c in CHANNELS.items() if set(c) & set(channels)}
        slow = "wrench" in heard or channels is None or "accel" in channels
        native = slow or "foot_force" in heard or self.sensors.gyro is not None or self.sensors.quat is not None
        self.engine.silence(accelerations=not slow, all_sensors=not native)
        self.run_physics.forget()

    def sense(self, *, noisy: bool | None = None, only: Collection[str] | None = None) -> Readings:
        """What the robot's sensors deliver now, (worlds, k) by channel, on the device. See Sim.sense."""
        if self._heard is not None:
            unheard = [name for name in only or () if name not in self._heard]
            if unheard:
                raise InputError(f"'{unheard[0]}' is not computed since hear({sorted(self._heard)}): call hear(None)")
            only = self._heard if only is None else only
        with on_stream(self.device):
            return self.read(self.noisy if noisy is None else noisy, only)

    def read(self, noisy: bool, only: Collection[str] | None) -> Readings:
        """`sense` for recorded pieces: what is asked for is not checked."""
        out: Readings = {}
        now = self._now()
        for index in range(len(self.robot.sensors)):
            if only is not None and not self.sensors.gives(index, only):
                continue
            view = now if self.tape is None else self.tape.view(index, 0, noisy)
            for name, value in self.sensors.deliver(index, view, 0, noisy, only).items():
                if name in out:
                    columns = self.sensors.columns[index]
                    out[name][:, columns] = value[:, columns]
                else:
                    out[name] = value
        if "joint_pos" in out:
            self.sensors.remember_angles(out, 0, noisy)
        return out

    def truth(self) -> Readings:
        """What only a simulator knows, (worlds, k), on the device; see Sim.truth."""
        x = {"joint_pos": self.engine.qpos[:, self.sensors.q], "joint_vel": self.engine.qvel[:, self.sensors.dq]}
        if self.sensors.base_q is not None and self.sensors.base_v is not None:
            q, v = self.sensors.base_q, self.sensors.base_v
            pose, twist = self.engine.qpos[:, q : q + 7].clone(), self.engine.qvel[:, v : v + 6].clone()
            x |= {
                "base_pos": pose[:, :3], "quat": pose[:, 3:], "base_vel_world": twist[:, :3], "base_gyro_true": twist[:, 3:],
            }  # fmt: skip
        return x

    @property
    def start_qpos(self) -> np.ndarray:
        """Default pose, (nq,)."""
        return self.press.start_qpos

    @property
    def alive(self) -> np.ndarray:
        """Worlds whose state is finite, (worlds,) bool; asks the device."""
        return self.sound().cpu().numpy()

    @alive.setter
    def alive(self, value: np.ndarray) -> None:
        raise InputError("on the cuda engine a world lives while its numbers are finite: reset it instead")

    def wait(self) -> None:
        """Until the device has done all it was told; for measuring time."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def sound(self) -> Tensor:
        """Worlds whose state is finite, (worlds,) bool, on the device."""
        return torch.isfinite(self.engine.qpos.sum(1) + self.engine.qvel.sum(1))

    def replay(self, log: Any, e: Mapping[str, Any] | None = None, **options: Any) -> Replay:
        """A log's commands under many e; on the press, in double precision. See Sim.replay."""
        return replay(self.press, log, e, **options)

    # ---------------------------------------------------------------- snapshots

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that decides what happens next, as plain arrays."""
        out = {"rows": self.rows.flat, "whole": self.whole.flat, "clock": self.noise.clock}
        out |= {f"state:{n}": self.engine.view(n) for n in (*STATE, "qacc_warmstart", "qfrc_applied", "xfrc_applied")}
        if self.tape is not None:
            out |= {"tape": self.tape.ring, "count": self.tape.count}
        return {k: v.cpu().numpy().copy() for k, v in out.items()} | {"seed": np.array(self.seed)}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Put a snapshot of a Sim like this one back."""
        if saved["rows"].shape != tuple(self.rows.flat.shape):
            raise InputError(f"the snapshot is of another Sim than this one of {self.worlds} worlds: make a like Sim")
        self.rows.flat.copy_(torch.from_numpy(saved["rows"]))
        self.whole.flat.copy_(torch.from_numpy(saved["whole"]))
        self.noise.clock.copy_(torch.from_numpy(saved["clock"]))
        for name, value in saved.items():
            if name.startswith("state:"):
                self.engine.view(name.removeprefix("state:")).copy_(torch.from_numpy(value))
        if self.tape is not None:
            self.tape.ring.copy_(torch.from_numpy(saved["tape"]))
            self.tape.count.copy_(torch.from_numpy(saved["count"]))
        self.noise.seed = self.seed = int(saved["seed"])


class Pool:
    """Rows of episodes that are ready to begin: e, memories and state of `count` worlds, on the device."""

    def __init__(self, sim: CudaSim, press: Sim, count: int):
        self.count = count
        ready = sim.ready_rows(press)
        self.rows = sim.rows.pack(ready, count).to(sim.device)
        self.whole = sim.whole.pack(ready, count).to(sim.device) if sim.whole.shapes else None
        self.state = {name: value.to(sim.device) for name, value in sim.state_of(press, count).items()}

    def replace(self, sim: CudaSim, press: Sim) -> None:
        """Other episodes in the same memory."""
        ready = sim.ready_rows(press)
        self.rows.copy_(sim.rows.pack(ready, self.count))
        if self.whole is not None:
            self.whole.copy_(sim.whole.pack(ready, self.count))
        for name, value in sim.state_of(press, self.count).items():
            self.state[name].copy_(value)


def pressing(sim: Sim) -> Sim:
    """Let a CPU Sim keep all that rows on the device are made of; returns it."""
    if any(param.about.constants for param in sim.params.values()):
        for name in CONSTANTS:
            if np.size(sim.engine.nominal(name)):
                sim.engine.field(name)
    sim.engine.watch(*[name for name in STATE if name not in ("qpos", "qvel", "act", "time")])
    sim.sense()
    return sim


def possible(physics: Physics) -> set[str]:
    """Names of tables that are not zero in some world under some e."""
    able = {name for name, table in physics.tables.items() if bool(np.any(table != 0))}
    for slots in physics.slots.values():
        able |= {f.removeprefix("sim.") for f in slots.param.about.fields if f.startswith("sim.")}
        if slots.param.kind == "slope":
            able.add("slope")
    return able


def _tuned(press: Sim) -> dict[str, np.ndarray]:
    """What the sensors of a press derive from its tables, a row per world."""
    s, worlds = press.sensors, press.worlds
    eye = np.broadcast_to(np.eye(3), (worlds, 3, 3))
    out = {"mounting": eye if s.mounting is None else s.mounting, "quantum": s.quantum}
    for name in ("gyro", "accel"):
        frame = s.frames[name]
        out[f"frame/{name}"] = eye if frame is None else np.broadcast_to(frame, (worlds, 3, 3))
        if name in s.white:
            out[f"white/{name}"] = s.white[name]
    return out


def _refuse(params: Params) -> None:
    for name, param in params.items():
        if "cuda" not in param.about.engines:
            raise InputError(f"param '{name}' of kind {param.kind} is not available on the cuda engine: leave it out")


def _host(x: Any) -> np.ndarray:
    return x.cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
