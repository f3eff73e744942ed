"""The commands that a walking policy should be given next: what it is asked to do is the motion.

    y → walker → u → f → y'          closed loop, in every sampled world of the belief
    F = Σ_windows information of u from the states that were visited

A fit replays what was recorded open loop, window by window, so the information is that of short windows with unknown starts, from
the states and with the commands that the policy itself produced.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.design import Design, Motion
from surefoot.identify.excitations import Grid
from surefoot.identify.excite import (
    DRIFT,
    USUAL,
    Beliefs,
    Effort,
    Trial,
    design_of,
    refuse_strap,
    refuse_times,
    searched,
    usual_limits,
)
from surefoot.identify.excite_limits import Limits
from surefoot.identify.information import Information, Lens, Noise, sensor_noise_of
from surefoot.params import E, Prior
from surefoot.sim import Sim

SCALES = (1.0, 0.7, 0.45, 0.25)
"""Shares of the commands' ranges that are tried."""
BAND = 1.0
"""[Hz] Highest frequency of a command: people and policies do not change their mind faster."""


class Walker(Protocol):
    """A policy in many worlds at once."""

    commands: tuple[tuple[str, float, float], ...]
    """What it may be asked for: name, low, high."""

    def reset(self, worlds: int) -> None:
        """Begin in `worlds` worlds."""
        ...

    def __call__(self, readings: dict[str, np.ndarray], command: np.ndarray) -> np.ndarray:
        """Commands of the motors (worlds, nu) from readings by channel (worlds, k) and what is asked (worlds, commands)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Walked:
    """What happened in n worlds: commands (n, T, nu), states every control step (n, T + 1, width)."""

    u: np.ndarray
    states: dict[str, np.ndarray]


def walk(sim: Sim, walker: Walker, asked: np.ndarray, e: E) -> Walked:
    """Let the policy walk in n worlds, each with its own e (n, ...) and what is asked of it, (n, T, commands)."""
    n, steps = asked.shape[:2]
    worker = sim.replace(worlds=n, noise=False, failures=None)
    worker.apply({**worker.params.nominal_e(n), **e})
    worker.reset()
    for _ in range(int(np.ceil(0.5 / worker.control_dt))):
        worker.step(worker.rest_command)
    walker.reset(n)
    u = np.empty((n, steps, worker.model.nu))
    kept: dict[str, list[np.ndarray]] = {"qpos": [], "qvel": [], "actuator_force": []}

    def keep() -> None:
        kept["qpos"].append(np.array(worker.engine.qpos))
        kept["qvel"].append(np.array(worker.engine.qvel))
        kept["actuator_force"].append(np.array(worker.engine.derived("actuator_force")))

    for k in range(steps):
        keep()
        u[:, k] = walker(worker.sense(), asked[:, k])
        worker.step(u[:, k])
    keep()
    states = {name: np.stack(rows, axis=1) for name, rows in kept.items()}
    for value in states.values():
        value[~worker.alive] = np.nan
    return Walked(u=u, states=states)


class WalkJudge:
    """Scores what a policy is asked to do."""

    def __init__(
        self, sim: Sim, walker: Walker, information: Information, beliefs: Beliefs, limits: Limits, effort: Effort
    ):
        self.sim, self.walker, self.information, self.beliefs = sim, walker, information, beliefs
        self.limits, self.effort = limits, effort
        low, high = (np.array([c[i] for c in walker.commands], dtype=float) for i in (1, 2))
        self.centre, self.amplitude = np.clip(0.0, low, high), np.maximum(high, -low) * effort.share
        self.low, self.high = low, high
        self.every = max(round(information.window / sim.control_dt), 1)

    def grid(self, seconds: float) -> Grid:
        """The instants of a command."""
        dt = self.sim.control_dt
        return Grid(dt=dt, steps=round(seconds / dt), motors=len(self.centre), band=min(self.effort.band or BAND, BAND))

    def trials(self, family: str, motions: np.ndarray) -> list[Trial]:
        """Every command at the largest scale that keeps the robot within its limits, judged."""
        s = len(next(iter(self.beliefs.e.values())))
        found: dict[int, Trial] = {}
        open_ = np.arange(len(motions))
        for scale in SCALES:
            asked = np.clip(self.centre + scale * self.amplitude * motions[open_], self.low, self.high)
            rows = {n: np.tile(v, (len(open_), *[1] * (v.ndim - 1))) for n, v in self.beliefs.e.items()}
            walked = walk(self.sim, self.walker, np.repeat(asked, s, axis=0), rows)
            good = (self.limits.excess(self.sim, walked.states).reshape(len(open_), s) <= 0.0).all(1)
            for i in np.flatnonzero(good):
                k = int(open_[i])
                found[k] = self._judged(family, (asked[i], motions[k]), walked, slice(i * s, (i + 1) * s), scale)
            open_ = open_[~good]
            if not len(open_):
                break
        d = self.information.d
        nothing = Trial(
            family=family,
            u=np.zeros(motions.shape[1:]),
            motion=np.zeros(motions.shape[1:]),
            scale=0.0,
            score=-np.inf,
            information=np.zeros((s, d, d)),
        )
        return [found.get(i, nothing) for i in range(len(motions))]

    def _judged(
        self, family: str, what: tuple[np.ndarray, np.ndarray], walked: Walked, rows: slice, scale: float
    ) -> Trial:
        (asked, motion), s = what, rows.stop - rows.start
        starts = {name: value[rows, :: self.every] for name, value in walked.states.items()}
        information = self.information.along(walked.u[rows], np.arange(s), self.beliefs.e, np.arange(s), starts)
        score = float(self.beliefs.score(information[None], self.effort.criterion)[0])
        return Trial(family=family, u=asked, motion=motion, scale=scale, score=score, information=information)


def constants(grid: Grid) -> np.ndarray:
    """What is usually asked for, as unit motions: the most of each command alone, and of all together, (commands + 1, steps, commands)."""
    held = np.concatenate([np.eye(grid.motors), np.ones((1, grid.motors))])
    return np.repeat(held[:, None], grid.steps, axis=1)


def excite_walking(
    sim: Sim,
    walker: Walker,
    belief: Prior | None = None,
    *,
    only: Sequence[str] | None = None,
    seconds: float = 6.0,
    window: float = 0.3,
    noise: Noise | None = None,
    limits: Limits | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Design:
    """Design what a walking policy is asked for in the next seconds.

    Args:
        sim: robot and Params, with a free base.
        walker: the policy.
        belief: p(e) now; None: uniform between the bounds.
        only: Params to be learned; all that can be when left out.
        seconds: how long it walks [s].
        window: length of the windows of a fit [s]: short, since contact forgets its past.
        noise: what is measured and how well.
        limits: what must be kept; balance alone when left out, since speeds and torques are the policy's own business.
        effort: how hard to look.
        seed: of samples and search.
        say: told about progress, a line a call.
    """
    if sim.sensors.base_q is None:
        raise InputError(f"{sim.robot.name} has no free base: it cannot walk")
    refuse_strap(sim)
    refuse_times(sim, seconds, window)
    if not walker.commands:
        raise InputError("this policy takes no commands: there is nothing to ask of it")
    effort, say = (
        effort or Effort(families=("spline",), population=8, rounds=3, elite=3, samples=2, climbs=3),
        say or (lambda _line: None),
    )
    beliefs = Beliefs(sim, belief, only, effort.samples, seed)
    lens = Lens(
        names=beliefs.names,
        noise=noise or sensor_noise_of(sim, names=beliefs.names, inflation=USUAL, drift=DRIFT),
        window=min(window, seconds),
    )
    usual = usual_limits(sim, beliefs.names)
    free = np.full_like(usual.speed, np.inf), np.full_like(usual.torque, np.inf)
    balance = Limits(
        low=usual.low - np.inf, high=usual.high + np.inf, speed=free[0], torque=free[1], tilt=0.6, sink=0.5
    )
    information = Information(sim, lens)
    judge = WalkJudge(sim, walker, information, beliefs, limits or balance, effort)
    grid = judge.grid(seconds)
    usual = {"constant commands": constants(grid)}
    best, scores = searched(judge.trials, effort, grid, usual=usual, seed=seed, say=say)
    if not best.scale > 0.0:
        raise InputError(
            "the policy falls in some believed world whatever it is asked: narrow what is believed, or stand still"
        )
    motion = Motion(
        channel="command",
        columns=tuple(c[0] for c in walker.commands),
        dt=sim.control_dt,
        values=best.u,
        setting="walking",
    )
    about = {"seed": seed, "criterion": effort.criterion, "samples": effort.samples, "scores": scores}
    return design_of(sim, beliefs, lens, motion, best, about)
