"""One judge for all tasks: a whole episode in every world, at an e given row by row.

    found = judge(task, sim, policy.play(), e=prior.sample(512, 1), seed=1)
    found.success                                                    # (worlds,)
    print(found)                                                     # shares and means with 90 % intervals

Starts, commands and noise are functions of the seed and the world's number alone: two policies judged with one seed, or one policy at
two e, meet the same ones. That makes differences sharp.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.errors import InputError
from surefoot.evaluate.intervals import Estimate, mean, share
from surefoot.params import E
from surefoot.sim import Sim

if TYPE_CHECKING:
    from surefoot.tasks.task import Situation

Act = Callable[[Mapping[str, Any], Any], Any]
"""A policy without exploration noise, `act(observations, ended) -> action`, such as `policy.play()`."""
Measure = Callable[["Situation", np.ndarray], Any]
"""A number, or k of them, per world and step, from the true state and the commands (worlds, commands): (worlds,) or (worlds, k)."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a task follows, and from when on it counts."""

    unit: str
    since: Callable[[Any], float]
    """Seconds at the start that are not judged, from the task."""
    error: Measure


def host(x: Any) -> np.ndarray:
    """Numbers of either library and any device as a NumPy array."""
    return x if isinstance(x, np.ndarray) else x.cpu().numpy()


def _speed(s: Any, command: np.ndarray) -> np.ndarray:
    return np.abs(host(s.truth["speed"]) - command[:, 0])


def _velocity(s: Any, command: np.ndarray) -> np.ndarray:
    return np.linalg.norm(host(s.truth["velocity"])[:, :2] - command[:, :2], axis=1)


def _tilt(s: Any, command: np.ndarray) -> np.ndarray:
    return np.arccos(np.clip(host(s.truth["up"]), -1.0, 1.0)).mean(axis=1)


def _distance(s: Any, command: np.ndarray) -> np.ndarray:
    return host(s.truth["distance"])


AIMS = {
    "Velocity": Aim(unit="m/s", since=lambda task: 2.0, error=_velocity),
    "Hop": Aim(unit="m/s", since=lambda task: task.episode / 2, error=_speed),
    "Hover": Aim(unit="m", since=lambda task: task.settle, error=_distance),
    "Track": Aim(unit="m", since=lambda task: task.settle, error=_distance),
    "Reach": Aim(unit="m", since=lambda task: task.episode * 2 / 3, error=_distance),
    "SwingUp": Aim(unit="rad", since=lambda task: task.episode / 2, error=_tilt),
}
"""By the name of a task's class (or a parent's): |v - command|, the distance to the point, or the links' mean tilt."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How one episode went in each world; every array has a row per world."""

    success: np.ndarray
    """1 or 0 as the task says; NaN where it could not."""
    fell: np.ndarray
    """Whether the episode ended for real before its time, bool."""
    broke: np.ndarray
    """Whether the world left the numbers, bool; it counts as fallen."""
    lasted: np.ndarray
    """[s]"""
    score: np.ndarray
    """Return: sum of the rewards, not discounted [1]."""
    error: np.ndarray
    """Mean tracking error over the judged time until the end or the fall; NaN where there was none."""
    error_unit: str
    """Empty for a task that follows nothing."""
    energy: np.ndarray
    """Mechanical, Σ |τ ω| dt over motors and control steps [J]; NaN for rotors."""
    counts: np.ndarray
    """Judged steps."""
    measures: dict[str, np.ndarray] = field(default_factory=dict)
    """Sum of each extra measure over the judged steps, (worlds,) or (worlds, k)."""
    e: E = field(default_factory=dict)

    @property
    def worlds(self) -> int:
        """How many were judged."""
        return len(self.success)

    @property
    def power(self) -> np.ndarray:
        """Mean mechanical power of the motors [W]."""
        return self.energy / np.maximum(self.lasted, 1e-9)

    def mean_of(self, measure: str) -> Any:
        """A measure's mean over all judged steps of all worlds together: a number, or (k,)."""
        return self.measures[measure].sum(0) / max(float(self.counts.sum()), 1.0)

    @property
    def summary(self) -> dict[str, Estimate]:
        """Shares of success and falls; means of tracking error, energy [J], power [W] and score, with 90 % intervals."""
        return {
            "success": share(self.success),
            "falls": share(self.fell),
            "error": mean(self.error),
            "energy": mean(self.energy),
            "power": mean(self.power),
            "score": mean(self.score),
        }

    def __str__(self) -> str:
        s = self.summary
        parts = [f"success {s['success'].show(100)} %", f"falls {s['falls'].show(100)} %"]
        parts += [f"error {s['error'].show()} {self.error_unit}"] if s["error"].count else []
        parts += [f"energy {s['energy'].show()} J"] if s["energy"].count else []
        return f"{self.worlds} worlds: " + ", ".join(parts)


def judge(
    task: Any,
    sim: Sim,
    act: Act,
    *,
    e: Mapping[str, Any] | None = None,
    seed: int = 1,
    seconds: float | None = None,
    measures: Mapping[str, Measure] | None = None,
) -> Judged:
    """Run one whole episode of a task in every world of `sim`.

    Args:
        task: what to do; its own `tracking` (an Aim) is taken before that of AIMS.
        sim: its worlds are used: they get `e`, are reset, and its noise begins anew with `seed`.
        act: the policy; one with a memory must be fresh.
        e: a row for each world; None: as the sim has it.
        seed: of starts, commands and noise.
        seconds: length of the episode; None: the task's own.
        measures: more to add up over the judged steps.
    """
    if e:
        sim.apply(e)
    return judge_world(_world(task, sim, seed, seconds), act, measures=measures)


def _world(task: Any, sim: Sim, seed: int, seconds: float | None) -> Any:
    from surefoot.tasks import World

    sim.seed = sim.noise.seed = int(seed)
    sim.steps = 0
    return World(task if seconds is None else replace(task, episode=seconds), sim, seed=seed)


def aim_of(task: Any) -> Aim | None:
    """What the task follows; None where it follows nothing."""
    own = getattr(task, "tracking", None)
    if own is not None:
        return own
    return next((AIMS[c.__name__] for c in type(task).__mro__ if c.__name__ in AIMS), None)


def judge_world(world: Any, act: Act, *, measures: Mapping[str, Measure] | None = None) -> Judged:
    """Run one whole episode in every world of a surefoot.tasks.World, which is reset; see `judge`."""
    sim, task, count = world.sim, world.task, world.worlds
    aim = aim_of(task)
    wanted = dict(measures or {})
    dt = sim.control_dt
    first = round(aim.since(task) / dt) if aim is not None else 0
    torque, speed, turning = sim.engine.derived("actuator_force"), sim.engine.derived("actuator_velocity"), _motors(sim)
    going, fell, broke = np.ones(count, bool), np.zeros(count, bool), np.zeros(count, bool)
    zeros = {name: np.zeros(count) for name in ("score", "energy", "steps", "error", "counts")}
    success, sums = np.full(count, np.nan), {name: np.zeros(0) for name in wanted}
    observations, ended = world.reset(spread=False), None
    applied = {name: np.array(value) for name, value in sim.e.items()}
    for step in range(round(task.episode / dt)):
        command = host(world.command).copy()
        outcome = world.step(act(observations, ended))
        observations, ended = outcome.observations, outcome.ended
        zeros["score"] += np.where(going, host(outcome.reward), 0.0)
        zeros["steps"] += going
        down = going & host(outcome.terminated)
        fell, broke = fell | down, broke | (going & host(outcome.broken))
        ids = host(ended)
        mine = going[ids]
        success[ids[mine]] = host(outcome.success)[mine]
        standing = going & ~down
        s = world.situation
        # A world that was reset in this step shows its new episode in the engine's arrays; the situation is from before.
        going[ids] = False
        used = np.abs(host(torque)[:, turning] * host(speed)[:, turning]).sum(1) * dt
        zeros["energy"] += np.where(going, used, 0.0)
        if step >= first:
            zeros["counts"] += standing
            if aim is not None:
                zeros["error"] += np.where(standing, aim.error(s, command), 0.0)
            for name, measure in wanted.items():
                value = np.asarray(measure(s, command), float)
                value = np.where(standing.reshape(-1, *[1] * (value.ndim - 1)), value, 0.0)
                sums[name] = sums[name] + value if sums[name].size else value
        if not going.any():
            break
    counted = zeros["counts"] > 0
    none = np.full(count, np.nan)
    return Judged(
        success=success,
        fell=fell,
        broke=broke,
        lasted=zeros["steps"] * dt,
        score=zeros["score"],
        error=np.divide(zeros["error"], zeros["counts"], out=none.copy(), where=counted & (aim is not None)),
        error_unit=aim.unit if aim is not None else "",
        energy=zeros["energy"] if len(turning) else none,
        counts=zeros["counts"],
        measures=sums,
        e=applied,
    )


def _motors(sim: Sim) -> np.ndarray:
    """Columns of the engine's actuators whose work is torque times speed: all but rotors."""
    motors = sim.physics.motors
    return motors.ids[motors.style != "rotor"]


def rows_of(e: Any, worlds: int, seed: int) -> E:
    """e for `worlds` worlds: drawn from a Prior with `seed`, or rows as they are, checked for their number."""
    if hasattr(e, "sample"):
        return e.sample(worlds, seed)
    for name, value in e.items():
        if np.ndim(value) and len(value) != worlds:
            raise InputError(f"e gives {len(value)} rows of '{name}' for {worlds} worlds: give one for each")
    return dict(e)
