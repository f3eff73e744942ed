"""The training loop: act, step, store, update; and everything that makes it survive: checkpoints, a diary, a NaN guard.

A run stopped at any moment, by kill -9 too, and started again gives the same bits as one that was never interrupted: a
checkpoint holds weights, moments, normalisers, random numbers, counters and the worlds themselves.
"""

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.files import replacing
from surefoot.learn import checkpoint, distributed_run
from surefoot.learn.clock import Clock
from surefoot.learn.distributed import Alone
from surefoot.learn.episodes import Episodes
from surefoot.learn.interrupt import held_back
from surefoot.learn.journal import Journal
from surefoot.learn.learner import Learner
from surefoot.learn.mirror import Mirror
from surefoot.learn.networks import Policy, part
from surefoot.learn.origins import Origins
from surefoot.learn.ppo import PPO
from surefoot.learn.progress import Progress, Say
from surefoot.learn.rollout import Rollout
from surefoot.learn.runs import CHECKPOINT, Run, check_same, load_run, read_config, versions, write_config
from surefoot.learn.threads import torch_threads

if TYPE_CHECKING:
    from surefoot.tasks.world import Outcome

MOST_BROKEN_FILES = 8
"""Files of broken transitions that one run writes; later ones are only counted."""


class Worlds(Protocol):
    """What a learner steps; `surefoot.tasks.World` is one."""

    worlds: int
    actions: int
    widths: dict[str, int]

    def reset(self) -> dict[str, Tensor]:
        """Begin an episode in every world: observations (worlds, n) by group."""
        ...

    def step(self, a: Tensor, /) -> "Outcome":
        """Act in every world; ended episodes begin anew."""
        ...

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that decides what happens next."""
        ...

    def restore(self, snapshot: Mapping[str, np.ndarray], /) -> None:
        """Go back to a snapshot, bit for bit."""
        ...


class Schedule(Protocol):
    """How p(e) moves while the training runs; those of `surefoot.randomize` are such.

    With one, the world needs `draw_from(prior)`, as `surefoot.tasks.World` has it. A schedule may also have
    `emphasis(e, length)`, which weighs the transitions made under each row of e (None: all alike; see
    `surefoot.randomize.Cvar`); the world then needs `e`, a row per world.
    """

    @property
    def prior(self) -> Any:
        """What to draw e from now."""
        ...

    def record(self, e: Mapping[str, Any], success: Any, returns: Any) -> None:
        """Take in ended episodes, a row each."""
        ...

    def update(self) -> bool:
        """Move the prior; True when it changed."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything that decides what it does next, as plain data for JSON."""
        ...

    def load(self, state: Mapping[str, Any], /) -> None:
        """Go on from a `state()`."""
        ...

    @property
    def summary(self) -> str:
        """One line for people."""
        ...


Evaluate = Callable[[Policy], Mapping[str, float]]
Stop = Callable[[Mapping[str, Any]], bool]
Weigh = Callable[[Rollout], Tensor | None]


def train(
    world: Worlds,
    ppo: PPO | None = None,
    *,
    run: str | Path,
    steps: int,
    seed: int = 0,
    evaluate: Evaluate | None = None,
    every: int = 250_000,
    stop: Stop | None = None,
    randomize: Schedule | None = None,
    weigh: Weigh | None = None,
    mirror: Mirror | None = None,
    about: Mapping[str, Any] | None = None,
    resume: bool = True,
    threads: int = 2,
    save_every: float = 30.0,
    say: Say | None = None,
    group: Alone | None = None,
    start: str | Path | None = None,
) -> Run:
    """Train a policy in `world` and keep it in the folder `run`.

    Args:
        world: what to learn on.
        ppo: settings; None: the defaults.
        run: folder of the run; created.
        steps: transitions to learn from, all worlds together.
        seed: of the first weights, the actions' noise and the order of minibatches.
        evaluate: called with a frozen copy of the policy every `every` steps and at the end; its numbers go into the
            diary as "evaluate/NAME". Its time is not training time. It must use a world of its own.
        every: steps between evaluations.
        stop: called with each update's record (the latest evaluation included); true ends the training early, for good:
            a run stopped this way goes on only if it is resumed without `stop`.
        randomize: hears how ended episodes went and moves the prior that the world draws e from; may weigh transitions by
            their e as well.
        weigh: emphasis on transitions in the policy's loss: a function of the rollout (its `reward`, `terminated`, ... are
            (steps, worlds)) that gives (steps, worlds) or (worlds,) weights, not negative; None from it: all alike.
            They multiply those of `randomize`.
        mirror: left-right symmetry of observations and actions: every transition is learned from twice.
        about: what config.json should say besides (task, robot, contract, hashes).
        resume: go on from a checkpoint in `run` if there is one; False begins anew.
        threads: CPU threads of the update; rollouts use one for the networks.
        save_every: seconds between checkpoints; one is written at the end as well.
        say: receives progress lines; None: standard error.
        group: the processes that train together (see distributed.py), each with its own `world`; all else is given alike to
            all of them. Rank 0 alone evaluates, asks `stop`, speaks and keeps the diary.
        start: folder of a run of like networks whose learner (weights, moments, normalisers, rate) this one begins with.
    """
    if steps < 1 or every < 1 or threads < 1:
        raise InputError(f"steps, every and threads must be at least 1, given {steps}, {every} and {threads}")
    if Path(run).exists() and not Path(run).is_dir():
        raise InputError(
            f"{run} is a file, and a run is a folder: name one that is new, or that of a run to go on with"
        )
    ranks = group or Alone()
    training = _Training(
        world, ppo or PPO(), folder=Path(run), seed=seed, randomize=randomize, weigh=weigh, mirror=mirror, about=about, group=ranks
    )  # fmt: skip
    with torch_threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(ranks.seed(seed))
        training.open(resume=resume, start=start)
        progress = Progress(steps, say if ranks.first else lambda _: None)
        try:
            training.loop(
                steps, progress, evaluate=evaluate, every=every, stop=stop, threads=threads, save_every=save_every
            )
        finally:
            progress.close()
            if training.journal is not None:
                training.journal.close()
    return load_run(run)


class _Training:
    """The state of a training in memory: what a checkpoint holds, and the loop over it."""

    def __init__(
        self,
        world: Worlds,
        ppo: PPO,
        *,
        folder: Path,
        seed: int,
        randomize: Schedule | None,
        weigh: Weigh | None,
        mirror: Mirror | None,
        about: Mapping[str, Any] | None,
        group: Alone,
    ):
        self.group = group
        self.world, self.ppo, self.folder, self.randomize = world, ppo, folder, randomize
        self.weigh = weigh
        self.origins = Origins(ppo.horizon, world.worlds) if hasattr(randomize, "emphasis") else None
        if self.origins is not None and not hasattr(world, "e"):
            raise InputError(f"{type(world).__name__} has no e: {type(randomize).__name__} weighs transitions by it")
        self.config = {
            "ppo": ppo.to_dict(), "seed": seed, "worlds": world.worlds, "widths": dict(world.widths),
            "actions": world.actions, "mirror": mirror is not None, "about": dict(about or {}), "versions": versions(),
        }  # fmt: skip
        if hasattr(world, "contract"):
            self.config["contract"] = world.contract.sensed.to_dict()
        if group.size > 1:
            self.config["ranks"] = group.size
        self._mirror, self._seed = mirror, seed
        self.steps, self.updates, self.evaluated, self.refused, self.stopped = 0, 0, 0, 0, ""
        self.latest: dict[str, float] = {}
        """Numbers of the latest evaluation."""
        self.clock = Clock()
        self.broken_files = 0

    # ---------------------------------------------------------------- begin, resume, save

    def open(self, *, resume: bool, start: str | Path | None = None) -> None:
        """Begin, with the learner of the run `start` where given, or go on from the folder's checkpoint."""
        saved = self.folder / CHECKPOINT
        going_on = bool(self.group.tell([resume and saved.exists()])[0])
        arrays, about = distributed_run.load(saved, self.group) if going_on else ({}, {})
        if going_on:
            check_same(read_config(self.folder), self.config, self.folder)
            if self.randomize is not None:
                self.randomize.load(about["randomize"] or {})
            elif about["randomize"] is not None:
                raise InputError(f"{self.folder} holds a run with a schedule: give the same one as randomize=")
        elif self.group.first:
            saved.unlink(missing_ok=True)
            write_config(self.folder, self.config)
        self._redraw()
        observations = None if going_on else self.world.reset()
        device = torch.device("cpu") if observations is None else next(iter(observations.values())).device
        device = self.group.device(about.get("device", str(device)))
        w, mirror = self.world, self._mirror
        self.learner = Learner(
            self.ppo, w.widths, w.actions, seed=self._seed, mirror=mirror, device=device, group=self.group
        )
        self._worlds = self.group.sum(w.worlds)
        self.rollout = Rollout(self.ppo.horizon, w.worlds, self.learner.policy, self.learner.critic)
        self.episodes = Episodes(w.worlds, device=device)
        self.device_rollouts = None
        if getattr(w, "device", None) is not None:
            from surefoot.learn.device import DeviceRollouts

            self.device_rollouts = DeviceRollouts(w, self.learner.policy, self.learner.critic, self.rollout)
        self.memory = self.learner.policy.start(w.worlds)
        if observations is None:
            self._restore(arrays, about)
        else:
            self.observations = observations
            self.begins = torch.ones(w.worlds, dtype=torch.bool, device=device)
            if start is not None:
                self.learner.restore(part(checkpoint.load(Path(start) / CHECKPOINT)[0], "learner/"))
        self.journal = (
            Journal(self.folder, sizes=tuple(about["sizes"]) if going_on else None) if self.group.first else None
        )

    def _redraw(self) -> None:
        """Let the world draw e from the schedule's prior from now on."""
        if self.randomize is None:
            return
        draw_from = getattr(self.world, "draw_from", None)
        if draw_from is None:
            raise InputError(
                f"{type(self.world).__name__} has no draw_from(prior): give a World whose e can be drawn anew"
            )
        draw_from(self.randomize.prior)

    def save(self) -> None:
        """Write a checkpoint: between updates only."""
        arrays = {f"learner/{k}": v for k, v in self.learner.snapshot().items()}
        arrays |= {f"world/{k}": v for k, v in self.world.snapshot().items()}
        arrays |= {f"episodes/{k}": v for k, v in self.episodes.snapshot().items()}
        arrays |= {f"observations/{k}": v.cpu().numpy() for k, v in self.observations.items()}
        arrays |= {"begins": self.begins.cpu().numpy(), "torch": torch.get_rng_state().numpy()}
        if self.memory is not None:
            arrays["memory"] = self.memory.cpu().numpy()
        if self.device_rollouts is not None:
            arrays |= {f"device/{k}": v for k, v in self.device_rollouts.arrays().items()}
        about = {
            "steps": self.steps, "updates": self.updates, "evaluated": self.evaluated, "refused": self.refused,
            "stopped": self.stopped, "latest": self.latest, "seconds": self.clock.seconds,
            "sizes": None if self.journal is None else self.journal.sizes(), "broken_files": self.broken_files,
            "device": str(self.learner.device),
            "randomize": None if self.randomize is None else self.randomize.state(),
        }  # fmt: skip
        distributed_run.save(self.folder / CHECKPOINT, arrays, about, self.group)

    def _restore(self, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
        device = self.learner.device
        self.learner.restore(part(arrays, "learner/"))
        self.world.restore(part(arrays, "world/"))
        self.episodes.restore(part(arrays, "episodes/"))
        seen = part(arrays, "observations/")
        self.observations = {name: torch.from_numpy(value).to(device) for name, value in seen.items()}
        self.begins = torch.from_numpy(arrays["begins"]).to(device)
        if self.memory is not None:
            self.memory.copy_(torch.from_numpy(arrays["memory"]))
        if self.device_rollouts is not None:
            self.device_rollouts.load(part(arrays, "device/"))
        torch.set_rng_state(torch.from_numpy(arrays["torch"]))
        self.steps, self.updates, self.evaluated = about["steps"], about["updates"], about["evaluated"]
        self.refused, self.broken_files, self.latest = about["refused"], about["broken_files"], about["latest"]
        self.stopped = "stop" if about["stopped"] == "stop" else ""
        self.clock.seconds.update(about["seconds"])

    # ---------------------------------------------------------------- the loop

    def loop(
        self,
        steps: int,
        progress: Progress,
        *,
        evaluate: Evaluate | None,
        every: int,
        stop: Stop | None,
        threads: int,
        save_every: float,
    ) -> None:
        """Update after update until `steps` transitions, or until `stop` says so."""
        self.clock.begin()
        if self.stopped == "stop" and stop is None:
            self.stopped = ""
        if self.updates == 0 and self.ppo.warmup:
            self._warm(progress)
        saved, began, base, ends = time.monotonic(), self.clock.training, self.steps, False
        with held_back() as interrupted:
            while self.steps < steps and not self.stopped:
                self._roll_out(progress)
                record = self._learn(progress, threads)
                record["steps_per_second"] = (self.steps - base) / max(self.clock.training - began, 1e-9)
                last = self.steps >= steps
                if evaluate is not None and (last or self.steps - self.evaluated >= every):
                    self._judge(evaluate)
                    record |= self.latest
                enough = self.group.first and stop is not None and stop(self.latest | record)
                due = time.monotonic() - saved >= save_every
                enough, due, ends = self.group.tell([enough, due, interrupted()])
                if enough:
                    self.stopped = "stop"
                if self.journal is not None:
                    self.journal.write(record)
                progress.tell(record, always=bool(last or self.stopped or ends))
                if (due or ends) and not self.stopped:
                    self.save()
                    saved = time.monotonic()
                self.clock.lap("rest")
                if ends and not self.stopped and not last:
                    raise KeyboardInterrupt(
                        f"{self.steps:,} transitions are kept in {self.folder}: the same command goes on"
                    )
        self.stopped = self.stopped or "steps"
        self.save()
        if ends:
            raise KeyboardInterrupt(f"{self.folder} is finished with {self.steps:,} transitions")

    def _judge(self, evaluate: Evaluate) -> None:
        """Show a frozen copy of the policy to `evaluate`; its time is not training time."""
        with self.clock.apart():
            if self.group.first:
                frozen = Policy.from_arrays(self.learner.policy.to_arrays())
                self.latest = {f"evaluate/{name}": float(x) for name, x in evaluate(frozen).items()}
            self.group.wait()
        self.evaluated = self.steps

    def _roll_out(self, progress: Progress) -> None:
        """`horizon` steps of every world into the rollout."""
        clock, policy, rollout = self.clock, self.learner.policy, self.rollout
        if self.device_rollouts is not None:
            self._roll_out_on_device(progress)
            return
        rollout.begin(self.observations, self.begins, self.memory)
        seen = self.observations
        if self.origins is not None:
            self.origins.begin(self._e())
        for t in range(rollout.steps):
            clock.lap("rest")
            if self.memory is not None:
                self.memory[rollout.begins[t]] = 0.0
            lead = policy.lead(self.memory)
            action, mean, self.memory = policy.act(rollout.actor[t], self.memory, self.learner.noise)
            clock.lap("act")
            done = action if lead is None else action + lead
            outcome = self.world.step(done)
            clock.lap("world")
            broken = rollout.record(t, action, mean, outcome)
            if bool(broken.any()):
                self._tell_broken(t, broken, done, outcome, progress)
            self.episodes.add(outcome, broken)
            if self.origins is not None:
                ended = outcome.ended.cpu().numpy()
                self.origins.record(t, ended, self._e() if len(ended) else None)
            seen = outcome.observations
        self.observations = {name: value.clone() for name, value in seen.items()}
        self.begins = rollout.begins[-1].clone()
        self.steps += rollout.steps * self._worlds
        clock.lap("rest")

    def _roll_out_on_device(self, progress: Progress) -> None:
        """`horizon` steps of every world into the rollout, without the host."""
        assert self.device_rollouts is not None
        self.clock.lap("rest")
        ended, broken = self.device_rollouts.fill()
        self.episodes.take_in(ended, broken, self.device_rollouts.terms())
        self.clock.lap("world")
        crowded = self.world.sim.engine.overflowed()  # type: ignore[attr-defined]
        if broken or len(crowded):
            names = ", ".join(str(int(i)) for i in crowded[:8]) + (" ..." if len(crowded) > 8 else "")
            progress.note(
                f"step {self.steps // self._worlds}: {broken} worlds broke and are left out; "
                f"{len(crowded)} had more contacts than fit ({names or 'none'})"
            )
        self.steps += self.rollout.steps * self._worlds
        self.clock.lap("rest")

    def _warm(self, progress: Progress) -> None:
        """Feed the normalisers before the first update; these steps count, and nothing else is learned from them."""
        horizon = self.rollout.steps
        for _ in range(math.ceil(self.ppo.warmup / horizon)):
            self._roll_out(progress)
            self.learner.learn_statistics(self.rollout)
            self.episodes.take()

    def _learn(self, progress: Progress, threads: int) -> dict[str, Any]:
        """One update, and its record."""
        ended = self.episodes.take()
        if self.randomize is not None:
            ended = self.group.all_ended(ended, self.world.worlds)
            self.randomize.record(ended.e, ended.success, ended.score)
            if self.randomize.update():
                self._redraw()
                progress.note(self.randomize.summary)
        weights = self._weights()
        self.clock.lap("rest")
        update = self.learner.update(self.rollout, weights=weights, threads=threads)
        self.clock.lap("update")
        self.updates += 1
        self.refused += len(update.refused)
        for sentence in update.refused[:3]:
            progress.note(f"update {self.updates} refused a minibatch: {sentence}")
        record: dict[str, Any] = {"steps": self.steps, "updates": self.updates, "seconds": self.clock.training}
        record |= self.group.all_numbers(self.episodes.numbers()) | update.numbers | self.clock.shares()
        record["refused"] = self.refused
        if self.randomize is not None:
            record["randomize"] = self.randomize.summary
        if update.refused:
            record["refused_why"] = update.refused[:8]
        return record

    def _e(self) -> Mapping[str, np.ndarray]:
        """e of the running episodes, a row per world."""
        return getattr(self.world, "e")  # noqa: B009

    def _weights(self) -> Tensor | None:
        """Emphasis on the rollout's transitions, (steps, worlds) or (worlds,); None: all alike."""
        given = self.weigh(self.rollout) if self.weigh is not None else None
        if self.origins is None:
            return given
        by_e = getattr(self.randomize, "emphasis")(self.origins.e, self.origins.length)  # noqa: B009
        if by_e is None:
            return given
        spread = torch.from_numpy(by_e[self.origins.row]).to(self.rollout.reward)
        return spread if given is None else spread * given.to(spread)

    def _tell_broken(self, t: int, broken: Tensor, action: Tensor, outcome: "Outcome", progress: Progress) -> None:
        """Name the broken worlds and keep what they saw and did in a file."""
        ids = torch.nonzero(broken)[:, 0]
        step = self.steps // self._worlds + t
        if self.broken_files < MOST_BROKEN_FILES:
            self.broken_files += 1
            rank = f"_rank{self.group.rank}" if self.group.size > 1 else ""
            path = self.folder / "broken" / f"step_{step:09d}{rank}.npz"
            arrays = {"worlds": ids, "action": action[ids], "reward": outcome.reward[ids]}
            arrays |= {"actor_input": self.rollout.actor[t, ids], "critic_input": self.rollout.critic[t, ids]}
            arrays |= {f"next/{name}": value[ids] for name, value in outcome.observations.items()}
            with replacing(path) as temporary, open(temporary, "wb") as file:
                np.savez(file, **{name: value.cpu().numpy() for name, value in arrays.items()})  # pyright: ignore[reportArgumentType]
            where = f" (kept in {path})"
        else:
            where = ""
        names = ", ".join(str(int(i)) for i in ids[:8]) + (" ..." if len(ids) > 8 else "")
        progress.note(f"step {step}: worlds {names} broke and are left out{where}")
