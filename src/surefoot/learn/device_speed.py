"""How fast the device is: bare physics, worlds of a task, and learning, each in steps of one world a second.

Bare physics is MuJoCo Warp alone: the same compiled model, time step, solver and buffers, as many random commands, one recorded graph a
control step; no e, delay, noise, reward or reset.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from surefoot.learn.device import DeviceRollouts
from surefoot.learn.learner import Learner
from surefoot.learn.ppo import PPO
from surefoot.learn.rollout import Rollout
from surefoot.sim.cuda import CudaEngine

SPREAD = 0.5
"""Standard deviation of random actions."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Measured one after the other in one run, [1/s] each."""

    bare: tuple[float, ...]
    worlds: tuple[float, ...]
    learning: tuple[float, ...]
    compile_seconds: float
    """Time until the first step was done: kernels compiled, or loaded from the cache."""


def timed(
    step: Callable[[], None], wait: Callable[[], None], *, steps: int, each: int, repeats: int
) -> tuple[float, ...]:
    """Rates of `repeats` measurements of `steps` calls that do `each` steps of a world."""
    found = []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        found.append(steps * each / (time.perf_counter() - begin))
    return tuple(found)


def bare(sim: Any, *, steps: int, repeats: int) -> tuple[float, ...]:
    """Physics alone of the model of `sim`, as many worlds, random commands around the default pose."""
    engine = CudaEngine(sim.model, sim.worlds, device=str(sim.device))
    device, nu = sim.device, sim.model.nu
    rest = torch.tensor(sim.press.rest_command, dtype=torch.float32, device=device)
    start = torch.tensor(sim.start_qpos, dtype=torch.float32, device=device)
    engine.qpos.copy_(start.expand_as(engine.qpos))
    physics = engine.physics(lambda _j: None, lambda _j: None, sim.substeps)

    def step() -> None:
        engine.ctrl.copy_(rest + 0.3 * SPREAD * torch.randn(sim.worlds, nu, device=device))
        physics()

    for _ in range(50):
        step()
    return timed(step, sim.wait, steps=steps, each=sim.worlds, repeats=repeats)


@torch.no_grad()
def measured(world: Any, ppo: PPO, *, steps: int = 48, repeats: int = 5) -> Rates:
    """Rates of a DeviceWorld, its bare physics, and PPO on it."""
    sim, device = world.sim, world.device
    begin = time.perf_counter()
    world.reset()
    world.step(torch.zeros(world.worlds, world.actions, device=device))
    sim.wait()
    compiled = time.perf_counter() - begin
    physics = bare(sim, steps=steps, repeats=repeats)

    def random() -> None:
        world.step(SPREAD * torch.randn(world.worlds, world.actions, device=device))

    for _ in range(10):
        random()
    worlds = timed(random, sim.wait, steps=steps, each=world.worlds, repeats=repeats)
    learner = Learner(replace(ppo), world.widths, world.actions, seed=0, device=device, mirror=_mirror(world))
    rollout = Rollout(ppo.horizon, world.worlds, learner.policy, learner.critic)
    rollouts = DeviceRollouts(world, learner.policy, learner.critic, rollout)

    def turn() -> None:
        rollouts.fill()
        learner.update(rollout)

    for _ in range(3):
        turn()
    learning = timed(
        turn, sim.wait, steps=max(2, steps // ppo.horizon), each=world.worlds * ppo.horizon, repeats=repeats
    )
    return Rates(bare=physics, worlds=worlds, learning=learning, compile_seconds=compiled)


def _mirror(world: Any) -> Any:
    from surefoot.learn.mirror import mirror_of

    return mirror_of(world)
