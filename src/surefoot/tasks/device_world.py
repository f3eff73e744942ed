"""A task in a Sim on the device: episodes begin, run and end there, and the host is asked for nothing.

Episodes are prepared ahead by a CPU World of a few thousand worlds, the maker: it draws e, start, command and noise and builds the
first observation as always. Their rows wait on the device in a pool, and a world that ends takes the next row. So whatever a task does to
begin an episode is the code that the CPU runs. The pool is filled anew now and then (`refill`); until then its rows are used in turn.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Builder, action
from surefoot.errors import InputError
from surefoot.params import E, Prior
from surefoot.sim import cuda_kernels as kernels
from surefoot.sim.cuda_parts import Launcher
from surefoot.sim.cuda_pieces import Piece, on_stream
from surefoot.sim.cuda_rows import Rows
from surefoot.sim.cuda_sim import CudaSim, Pool, pressing
from surefoot.sim.replay import channel_columns
from surefoot.sim.sensors import as_slice
from surefoot.tasks.commands import Commands
from surefoot.tasks.task import Situation, Task
from surefoot.tasks.world import World

POOL = 2048
"""Episodes that the maker prepares at once."""


class DeviceOutcome:
    """What one step of all worlds gave: see Outcome. Its tensors are valid until the next step; ids ask the device."""

    def __init__(self, world: "DeviceWorld"):
        self._world = world
        self.observations, self.final = world.observations, world.final
        self.reward, self.terminated, self.truncated, self.broken = (
            world.reward, world.terminated, world.truncated, world.broken,
        )  # fmt: skip
        self.terms: dict[str, Tensor] = {}

    @property
    def ended(self) -> Tensor:
        """Worlds whose episode ended, (k,)."""
        return torch.nonzero(self._world.over)[:, 0]

    @property
    def success(self) -> Tensor:
        """Of the ended episodes, (k,)."""
        return self._world.success[self.ended]

    @property
    def e(self) -> E:
        """e of the ended episodes, rows as `ended`."""
        return self._world.e_of(self._world.last_e[self.ended].cpu().numpy())


class DeviceWorld(World):
    """`sim.worlds` copies of a task on the device; made by World(task, Sim(..., engine="cuda"))."""

    def __init__(
        self,
        task: Task,
        sim: CudaSim,
        *,
        e: Prior | None = None,
        seed: int = 0,
        commands: Commands | None = None,
        redraw: Any = None,
        pool: int = POOL,
    ):
        if redraw is not None:
            raise InputError(
                "the cuda engine does not change e within an episode: leave out redraw, or use engine='cpu'"
            )
        self.task, self.sim, self.prior, self.seed, self.redraw = task, sim, e, seed, None
        self.device, self.commands = sim.device, commands
        self.count = sim.worlds if e is None else min(pool, sim.worlds)
        self.maker = World(
            task, pressing(sim.press.replace(worlds=self.count, seed=seed)), e=e, seed=seed, commands=commands
        )
        self.contract, self.worlds, self.actions = self.maker.contract, sim.worlds, self.maker.actions
        self.widths = self.maker.widths
        columns = {**channel_columns(sim), "e": sim.params.names}
        known = {term.source for group in self.contract.groups for term in group.terms}
        self.builder = Builder(
            self.contract,
            worlds=sim.worlds,
            like=torch.empty(0, device=self.device),
            columns={k: v for k, v in columns.items() if k in known},
        )
        self._limit = round(task.episode / sim.control_dt)
        self.facts = {k: v.to(self.device) for k, v in task.facts(sim).items()}
        felt = ("foot_force",) if len(self.facts.get("forces", ())) else ()
        sim.hear((*self.builder.sources, *felt))
        self._motors = as_slice([self.contract.joints.index(name) for name in sim.command_names])
        self._lay_out()
        self._q, self._dq = as_slice(sim.sensors.q), as_slice(sim.sensors.dq)
        self._views = {"qpos": sim.engine.qpos, "qvel": sim.engine.qvel}
        self.situation: Situation | None = None
        self._pool: Any = None
        self._stale = False
        self._pieces = (Piece(self.before, self.device), Piece(self.after, self.device))

    def _lay_out(self) -> None:
        """Arrays that stay where they are."""
        n, device = self.worlds, self.device
        shapes = {f"see/{name}": (width,) for name, width in self.maker.widths.items()}
        shapes |= {f"memory/{name}": tuple(v.shape[1:]) for name, v in self.maker.memory.items()}
        shapes |= {f"ring/{name}": shape for name, shape in self.builder.histories.items()}
        shapes |= {"command": (len(self.task.commands),), "e": (self.sim.params.d,)}
        self.rows = Rows(shapes, n, device=device)
        parts = self.rows.parts
        self.command, self._e_row = parts["command"], parts["e"]
        self.memory = {k.removeprefix("memory/"): v for k, v in parts.items() if k.startswith("memory/")}
        self.observations = {k.removeprefix("see/"): v for k, v in parts.items() if k.startswith("see/")}
        self.final = {name: torch.zeros_like(value) for name, value in self.observations.items()}
        self.builder.capture({name: parts[f"ring/{name}"] for name in self.builder.histories})
        self._zeros = {
            k: torch.zeros(n, self.actions, device=device) for k in ("action", "last_action", "older_action")
        }
        self.reward, self.success = torch.zeros(2, n, device=device)
        self.terminated, self.truncated, self.broken, self.over = torch.zeros(4, n, dtype=torch.bool, device=device)
        self.age, self.ticks, self.row = torch.zeros(3, n, dtype=torch.int64, device=device)
        self.last_e = torch.zeros_like(self._e_row)
        """e of the episodes before the latest begins, as the critic sees it."""
        self.cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self.terms: dict[str, Tensor] = {}
        """Mean of each reward term over the worlds, summed over steps; whoever reads it sets it to 0."""
        self.a = torch.zeros(n, self.actions, device=device)

    # ---------------------------------------------------------------- the pool

    def _prepared(self, observations: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
        """What the maker has drawn, by part of the rows."""
        maker = self.maker
        out = {f"see/{name}": value.numpy() for name, value in observations.items()}
        out |= {f"memory/{name}": value.numpy() for name, value in maker.memory.items()}
        out |= {f"ring/{name}": past.numpy() for name, past in maker.builder.as_captured().items()}
        return out | {"command": maker.command.numpy(), "e": maker._e_row}

    def refill(self) -> None:
        """Prepare other episodes; those that run are not touched."""
        if self.prior is None:
            self.maker.sim.apply(self.sim.e)
        observations = self.maker.reset(spread=False)
        self._stale = False
        rows = self.rows.pack(self._prepared(observations), self.count)
        if self._pool is None:
            self._pool = Pool(self.sim, self.maker.sim, self.count)
            self._pool_rows = rows.to(self.device)
        else:
            self._pool.replace(self.sim, self.maker.sim)
            self._pool_rows.copy_(rows)

    def draw_from(self, prior: Prior) -> None:
        """Draw e of episodes from another prior, from the next `refill` on."""
        self.prior, self._stale = prior, True
        self.maker.draw_from(prior)

    @property
    def stale(self) -> bool:
        """Whether the episodes in the pool were drawn from an earlier prior."""
        return self._stale

    def e_of(self, rows: np.ndarray) -> E:
        """e of rows (k, d) of `last_e`, which hold it as a position within the bounds, -1 .. 1."""
        if self.prior is None or not len(self.sim.params):
            return {}
        return self.sim.params.unflatten(self.maker._low + 0.5 * (rows.astype(float) + 1) * self.maker._span)

    @property
    def e(self) -> E:
        """e of the running episodes, decoded from the device."""
        return self.sim.e if len(self.sim.params) else {}

    # ---------------------------------------------------------------- episodes

    def reset(self, *, spread: bool = True) -> dict[str, Tensor]:
        """Begin an episode in every world; with `spread` their ages differ, so that they do not all end together."""
        everyone = torch.arange(self.worlds, device=self.device)
        for first in range(0, self.worlds, self.count):
            self.refill()
            self.over.copy_((everyone >= first) & (everyone < first + self.count))
            self.row.copy_((everyone - first).clamp(0, self.count - 1))
            self._renew()
        self.over.zero_()
        if spread:
            ages = np.random.default_rng([self.seed, 0xA6E]).integers(0, self._limit, self.worlds)
            self.age.copy_(torch.from_numpy(ages))
        return self.observations

    def _renew(self) -> None:
        """Begin anew where `over`, each world with its `row` of the pool."""
        with on_stream(self.device):
            self.sim.renew(self.over, self.row, self._pool)
            launch = Launcher(self.device)
            launch(kernels.copy_rows, tuple(self.rows.flat.shape), self.over, self.row, self._pool_rows, self.rows.flat)
        keep = ~self.over
        for tensor in self._zeros.values():
            tensor.mul_(keep[:, None])
        self.age.mul_(keep)
        self.ticks.mul_(keep)
        self.builder.begun(self.over)

    def _readings(self, s: Situation) -> dict[str, Tensor]:
        readings = dict(self.sim.read(self.sim.noisy, self.builder.sources))
        return readings | self.task.privileged(s) | {"e": self._e_row}

    def before(self) -> None:
        """From the action in `a` to the command of the motors; a recorded piece."""
        z, a = self._zeros, self.a
        z["older_action"].copy_(z["last_action"])
        z["last_action"].copy_(z["action"])
        z["action"].copy_(a)
        target = action(self.contract, a, self.ticks * self.sim.control_dt)
        self.sim.u.copy_(target[:, self._motors])
        self.sim.prepare()

    def after(self) -> None:
        """From the state after the physics to rewards, ends, new episodes and observations; a recorded piece."""
        task, sim = self.task, self.sim
        sim.walk()
        s = self._situation()
        self.situation = s
        task.pass_time(s)
        self.broken.copy_(~sim.sound())
        fallen = task.fallen(s) | self.broken
        terms = task.rewards(s)
        self.reward.copy_(torch.where(self.broken, 0.0, task.total(terms, fallen)))
        for name, term in terms.items():
            if name not in self.terms:
                self.terms[name] = torch.zeros((), device=self.device)
            self.terms[name] += torch.where(self.broken, 0.0, term).mean()
        self.age += 1
        self.ticks += 1
        late = self.age >= self._limit
        if (left := task.left(s)) is not None:
            late = late | left
        self.terminated.copy_(fallen)
        self.truncated.copy_(late & ~fallen)
        self.over.copy_(fallen | late)
        found = self.builder.observe(self._readings(s), last_action=self._zeros["action"], command=self.command)
        for name, value in found.items():
            self.final[name].copy_(torch.where(self.broken[:, None], 0.0, value))
            self.observations[name].copy_(self.final[name])
        self.success.copy_(task.success(s, fallen))
        self._take_rows()
        self._renew()

    def _take_rows(self) -> None:
        """Each world that is over takes the next row of the pool, its own where every world keeps its e."""
        self.last_e.copy_(self._e_row)
        if self.prior is None:
            return
        number = torch.cumsum(self.over, 0) - 1
        self.row.copy_(torch.where(self.over, (self.cursor + number) % self.count, self.row))
        self.cursor.add_(self.over.sum()).remainder_(self.count)

    def step(self, a: Tensor) -> Any:
        """Act in every world; ended episodes begin anew and the observation before that is kept in `final`."""
        self.a.copy_(a.detach())
        self._pieces[0]()
        self.sim.run_physics()
        self._pieces[1]()
        return DeviceOutcome(self)

    # ---------------------------------------------------------------- snapshots

    def _state(self) -> dict[str, Tensor]:
        own = {"rows": self.rows.flat, "age": self.age, "ticks": self.ticks, "row": self.row, "cursor": self.cursor}
        own |= {"steps": self.builder.steps, "over": self.over}
        return own | {f"action/{k}": v for k, v in self._zeros.items()}

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that decides what happens next, but for the episodes in the pool, which are drawn anew."""
        out = {f"sim/{k}": v for k, v in self.sim.snapshot().items()}
        out |= {f"maker/{k}": v for k, v in self.maker.snapshot().items() if k in ("rng", "counters", "commands")}
        return out | {f"own/{k}": v.cpu().numpy().copy() for k, v in self._state().items()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot of a like world."""
        self.refill()
        self.sim.restore({k.removeprefix("sim/"): v for k, v in snapshot.items() if k.startswith("sim/")})
        for name, value in self._state().items():
            value.copy_(torch.from_numpy(np.array(snapshot[f"own/{name}"])))
