"""A task in a Sim: what a learner steps. Auto-resets ended worlds, draws their next e, and keeps the true final observation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Builder, action
from surefoot.errors import InputError
from surefoot.params import E, Prior
from surefoot.sim import Sim
from surefoot.sim.replay import channel_columns
from surefoot.sim.sensors import as_slice
from surefoot.tasks.commands import Commands
from surefoot.tasks.task import Situation, Task, over

NEVER = 2**62
TOGETHER = 10
"""Most steps that an episode may outlast its time limit: then resets come in groups, which cost little more than one."""
POOL = 2048
"""Draws of e made at once; drawing one world at a time would cost more than its physics."""


class Redraws(Protocol):
    """What changes within an episode; `surefoot.randomize.Redraw` is such."""

    def due(self, prior: Prior, step: int, worlds: int, dt: float, /) -> tuple[np.ndarray, E]:
        """Worlds that change before control step `step`, ids (k,), and their new values of some Params, k rows."""
        ...


@dataclass(kw_only=True)
class Outcome:
    """What one step of all worlds gave."""

    observations: dict[str, Tensor]
    """Of the next state, after auto-reset where an episode ended; (worlds, n) by group."""
    reward: Tensor
    terminated: Tensor
    """Real ends: nothing to come, (worlds,) bool."""
    truncated: Tensor
    """Time limits: bootstrap with the value of `final`, (worlds,) bool."""
    final: dict[str, Tensor]
    """Observations before auto-reset, (worlds, n) by group."""
    ended: Tensor
    """Worlds whose episode ended, (k,)."""
    broken: Tensor
    """Worlds that left the numbers in this step: not to be learned from, (worlds,) bool."""
    terms: dict[str, Tensor]
    success: Tensor
    """Of the ended episodes, (k,)."""
    e: E
    """e of the ended episodes, rows as `ended`."""


class World:
    """`sim.worlds` copies of a task, each with its own e, drawn anew at every reset."""

    def __new__(cls, _task: Task, sim: Sim, **_options: Any) -> "World":
        """Worlds on a GPU are made for it: see surefoot.tasks.device_world."""
        if cls is World and sim.engine.name == "cuda":
            from surefoot.tasks.device_world import DeviceWorld

            return object.__new__(DeviceWorld)
        return object.__new__(cls)

    def __init__(
        self,
        task: Task,
        sim: Sim,
        *,
        e: Prior | None = None,
        seed: int = 0,
        commands: Commands | None = None,
        redraw: Redraws | None = None,
    ):
        """Make the worlds; `reset` begins their first episodes.

        Args:
            task: what to do.
            sim: where.
            e: what e is drawn from at every reset, Params that it does not hold as sim.params.prior() has them; None: e stays as the
                sim has it.
            seed: of starts, commands and e.
            commands: a curriculum of commands.
            redraw: Params that change within an episode, drawn as `e` has them.
        """
        if redraw is not None and e is None:
            raise InputError("redraw needs a prior to draw from: give e=sim.params.prior()")
        if e is not None and set(e.params.names) != set(sim.params.names):
            e = e.over(sim.params)
        self.task, self.sim, self.prior, self.seed, self.redraw = task, sim, e, seed, redraw
        self.contract = task.contract(sim)
        self.worlds, self.actions = sim.worlds, len(self.contract.action.joints)
        self.widths = {group.name: group.size for group in self.contract.groups}
        columns = {**channel_columns(sim), "e": sim.params.names}
        known = {term.source for group in self.contract.groups for term in group.terms}
        self.builder = Builder(
            self.contract,
            worlds=sim.worlds,
            like=torch.empty(0),
            columns={k: v for k, v in columns.items() if k in known},
        )
        self._limit = round(task.episode / sim.control_dt)
        self._together = max(n for n in range(1, TOGETHER + 1) if self._limit % n == 0)
        self._clock = 0
        """Steps since `reset`: time limits strike only at multiples of `_together`."""
        self._rng = np.random.default_rng([seed, 0x5EED])
        self._pool: E = {}
        self._at = POOL
        self._refills = 0
        low, high = sim.params.low, sim.params.high
        self._low, self._span = low, np.where(high > low, high - low, 1.0)
        self._e_row = np.zeros((sim.worlds, sim.params.d), np.float32)
        """e as the critic sees it: position within the bounds, -1 .. 1."""
        self._e = sim.params.flatten(sim.e) if len(sim.params) else np.zeros((sim.worlds, 0))
        self._zeros = {k: torch.zeros(sim.worlds, self.actions) for k in ("action", "last_action", "older_action")}
        self.command = torch.zeros(sim.worlds, len(task.commands))
        self.commands = commands
        """Share of the task's commands that is asked for, growing as they are followed; None: all of it."""
        self.memory = task.remember(sim)
        self.facts = task.facts(sim)
        self._motors = as_slice([self.contract.joints.index(name) for name in sim.command_names])
        """Columns of the contract's targets that have a motor, in the sim's order."""
        self._idle = self._command(torch.zeros(1, self.actions), torch.zeros(1))
        """What action 0 commands, (1, motors): before an episode it has been commanded for ever."""
        self.age = torch.zeros(sim.worlds, dtype=torch.int64)
        """Steps towards the time limit; `ticks` counts those since the episode began, as the contract's clock does."""
        self.ticks = torch.zeros(sim.worlds, dtype=torch.int64)
        self._views = {"qpos": over(sim.engine.qpos), "qvel": over(sim.engine.qvel)}
        self.situation: Situation | None = None
        """What the last step led to, before any reset; for judges."""
        self._q, self._dq = as_slice(torch.from_numpy(sim.sensors.q)), as_slice(torch.from_numpy(sim.sensors.dq))
        self._situation()  # What the task looks at is followed from now on: otherwise the first reset would show it as zero.

    # ---------------------------------------------------------------- e

    def _draw(self, count: int) -> E:
        """The next `count` rows of e from the pool."""
        if self.prior is None:
            return {}
        parts: list[E] = []
        while count:
            if self._at >= POOL:
                self._pool = self.prior.sample(POOL, (self.seed << 20) + self._refills)
                self._at, self._refills = 0, self._refills + 1
            take = min(count, POOL - self._at)
            parts.append({name: value[self._at : self._at + take] for name, value in self._pool.items()})
            self._at, count = self._at + take, count - take
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _change(self, ids: np.ndarray, e: E) -> None:
        """Other values of some Params in the worlds `ids`, in the middle of their episodes."""
        if not len(ids):
            return
        self.sim.apply(e, ids)
        now = self.sim.params.unflatten(self._e[ids])
        self._e[ids] = self.sim.params.flatten(now | e)
        self._e_row[ids] = 2 * (self._e[ids] - self._low) / self._span - 1

    @property
    def e(self) -> E:
        """e of the running episodes, a row per world."""
        return self.sim.params.unflatten(self._e) if len(self.sim.params) else {}

    def draw_from(self, prior: Prior) -> None:
        """Draw e of later episodes from another prior."""
        self.prior, self._at = prior, POOL

    # ---------------------------------------------------------------- episodes

    def _situation(self) -> Situation:
        z = self._zeros
        s = Situation(
            sim=self.sim,
            q=self._views["qpos"][:, self._q],
            dq=self._views["qvel"][:, self._dq],
            views=self._views,
            action=z["action"],
            last_action=z["last_action"],
            older_action=z["older_action"],
            command=self.command,
            memory=self.memory,
            facts=self.facts,
            time=self.ticks * self.sim.control_dt,
        )
        s.truth = self.task.truth(s)
        return s

    def _begin(self, ids: np.ndarray) -> None:
        """Start new episodes in the worlds `ids`: their e, state, command and memory."""
        drawn = self._draw(len(ids))
        if drawn:
            self.sim.apply(drawn, ids)
            self._e[ids] = self.sim.params.rows(drawn)
            self._e_row[ids] = 2 * (self._e[ids] - self._low) / self._span - 1
        qpos, qvel = self.task.start(self.sim, ids, self._rng)
        self.sim.reset(ids, qpos=qpos, qvel=qvel)
        self.sim.commands.hold(ids, np.repeat(self._idle, len(ids), axis=0))
        rows = torch.from_numpy(ids)
        asked = self.task.draw_commands(len(ids), self._rng)
        if self.commands is not None:
            asked = self.commands.share * asked
        self.command[rows] = torch.from_numpy(asked).float()
        for name, fresh in self.task.remember(self.sim).items():
            self.memory[name][rows] = fresh[rows]
        for tensor in self._zeros.values():
            tensor[rows] = 0.0
        self.age[rows] = 0
        self.ticks[rows] = 0

    def reset(self, *, spread: bool = True) -> dict[str, Tensor]:
        """Begin an episode in every world; with `spread` their ages differ, so that they do not all end together."""
        everyone = self.sim.engine.everyone
        self._clock = 0
        self._begin(everyone)
        if self.prior is None:
            self._e_row[:] = 2 * (self.sim.params.flatten(self.sim.e) - self._low) / self._span - 1
        if spread:
            self.age[:] = torch.from_numpy(self._rng.integers(0, self._limit, self.worlds))
        self.builder.reset()
        s = self._situation()
        return self.builder.observe(self._readings(s), command=self.command)

    def _readings(self, s: Situation) -> dict[str, Tensor]:
        sensed = self.sim.sense(only=self.builder.sources)
        readings = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in sensed.items()}
        readings |= self.task.privileged(s)
        readings["e"] = torch.from_numpy(self._e_row)
        return readings

    def step(self, a: Tensor) -> Outcome:
        """Act in every world; ended episodes begin anew and the observation before that is kept in `final`."""
        a = a.detach()
        s = self.situation = self._act(a)
        alive = torch.from_numpy(self.sim.alive.copy())
        broken = ~alive
        fallen = self.task.fallen(s) | broken
        terms = self.task.rewards(s)
        reward = self.task.total(terms, fallen)
        self.age += 1
        self.ticks += 1
        self._clock += 1
        over_time = self.age >= (self._limit if self._clock % self._together == 0 else NEVER)
        if (left := self.task.left(s)) is not None:
            over_time = over_time | left
        truncated = over_time & ~fallen
        final = self.builder.observe(self._readings(s), last_action=self._zeros["action"], command=self.command)
        for row in torch.nonzero(broken)[:, 0]:
            reward[row] = 0.0
            for group in final.values():
                group[row] = 0.0
        ended = torch.nonzero(fallen | truncated)[:, 0]
        success = self.task.success(s, fallen)[ended]
        if self.commands is not None:
            self.commands.record(success[~broken[ended]].numpy())
        observations, e = final, {}
        if len(ended):
            ids = ended.numpy()
            e = self._applied(ids)
            self._begin(ids)
            observations = {name: group.clone() for name, group in final.items()}
            fresh = self._situation()
            rows = {name: value[ended] for name, value in self._readings(fresh).items()}
            for name, group in self.builder.restart(ended, rows, self.command[ended]).items():
                observations[name][ended] = group
        return Outcome(
            observations=observations, reward=reward, terminated=fallen, truncated=truncated, final=final, ended=ended, broken=broken,
            terms=terms, success=success, e=e,
        )  # fmt: skip

    def _applied(self, ids: np.ndarray) -> E:
        """e of the episodes that end in worlds `ids`, before the next one is drawn."""
        if self.prior is None:
            return {}
        return self.sim.params.unflatten(self._e[ids])

    def _act(self, a: Tensor) -> Situation:
        z = self._zeros
        z["older_action"], z["last_action"], z["action"] = z["last_action"], z["action"], a.clone()
        if self.redraw is not None and self.prior is not None:
            self._change(*self.redraw.due(self.prior, self.sim.steps, self.worlds, self.sim.control_dt))
        self.sim.step(self._command(a, self.ticks * self.sim.control_dt))
        s = self._situation()
        self.task.pass_time(s)
        return s

    def _command(self, a: Tensor, time: Tensor) -> np.ndarray:
        """What the motors are told when the policy says a, (rows, motors)."""
        return action(self.contract, a, time).numpy().astype(float)[:, self._motors]

    # ---------------------------------------------------------------- snapshots

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that decides what happens next, as plain arrays."""
        out = {f"sim/{k}": v for k, v in self.sim.snapshot().items()}
        out |= {f"builder/{k}": v.numpy().copy() for k, v in self.builder.snapshot().items()}
        out |= {f"action/{k}": v.numpy().copy() for k, v in self._zeros.items()}
        out |= {f"memory/{k}": v.numpy().copy() for k, v in self.memory.items()}
        out |= {f"pool/{k}": v.copy() for k, v in self._pool.items()}
        out |= {
            "command": self.command.numpy().copy(),
            "age": self.age.numpy().copy(),
            "ticks": self.ticks.numpy().copy(),
            "e_row": self._e_row.copy(),
            "e": self._e.copy(),
        }
        bits: Any = self._rng.bit_generator.state
        words = [int(bits["state"][k]) >> shift & 0xFFFFFFFFFFFFFFFF for k in ("state", "inc") for shift in (0, 64)]
        out["rng"] = np.array(words, dtype=np.uint64)
        if self.commands is not None:
            out["commands"] = self.commands.snapshot()
        out["counters"] = np.array([self._at, self._refills, bits["has_uint32"], bits["uinteger"], self._clock])
        return out

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go back to a snapshot of a like World, bit for bit."""
        parts: dict[str, dict[str, np.ndarray]] = {}
        for key, value in snapshot.items():
            part, _, name = key.partition("/")
            parts.setdefault(part, {})[name] = value
        self.sim.restore(parts["sim"])
        self.builder.restore({k: torch.from_numpy(np.array(v)) for k, v in parts["builder"].items()})
        for name, value in parts["action"].items():
            self._zeros[name] = torch.from_numpy(np.array(value))
        for name, value in parts.get("memory", {}).items():
            self.memory[name][:] = torch.from_numpy(np.array(value))
        self._pool = {k: np.array(v) for k, v in parts.get("pool", {}).items()}
        self.command[:] = torch.from_numpy(np.array(snapshot["command"]))
        self.age[:] = torch.from_numpy(np.array(snapshot["age"]))
        self.ticks[:] = torch.from_numpy(np.array(snapshot["ticks"]))
        self._e_row[:], self._e[:] = snapshot["e_row"], snapshot["e"]
        if self.commands is not None:
            self.commands.restore(snapshot["commands"])
        words = [int(w) for w in snapshot["rng"]]
        inner = {"state": words[0] | words[1] << 64, "inc": words[2] | words[3] << 64}
        self._at, self._refills, held, word, self._clock = (int(x) for x in snapshot["counters"])
        self._rng.bit_generator.state = {"bit_generator": "PCG64", "state": inner, "has_uint32": held, "uinteger": word}
