"""Does the CUDA engine do what the CPU engine does? Read-back, motion without contact, and distributions with it."""

from typing import Any

import numpy as np
from scipy.stats import ks_2samp

from surefoot.bench.table import Mark
from surefoot.robots import Robot
from surefoot.sim import Sim

SEED = 5


def host(x: Any) -> np.ndarray:
    """Numbers of either library as a NumPy array."""
    return x if isinstance(x, np.ndarray) else x.cpu().numpy()


def parity(robot: Robot, engine: str, *, worlds: int = 512, free: int = 64, steps: int = 50) -> list[Mark]:
    """Rows of the agreement of `engine` with the CPU engine."""
    return [
        read_back(robot, engine, free),
        contact_free(robot, engine, free, steps),
        *with_contact(robot, engine, worlds, steps),
    ]


def read_back(robot: Robot, engine: str, worlds: int) -> Mark:
    """Largest relative difference between e given and e read back from the device."""
    sim = Sim(robot, worlds=worlds, engine=engine)
    e = sim.params.prior().sample(worlds, SEED)
    sim.apply(e)
    found = sim.e
    span = {name: np.maximum(np.abs(e[name]), p.high - p.low) for name, p in sim.params.items()}
    worst = {name: float((np.abs(found[name] - e[name]) / span[name]).max()) for name in e}
    name = max(worst, key=lambda n: worst[n])
    return Mark(
        name="read-back of e, largest relative difference", value=worst[name], op="<=", mark=1e-6,
        reference=f"{worlds} worlds, {len(worst)} Params, relative to the value or the width of its bounds; largest for {name}",
    )  # fmt: skip


def contact_free(robot: Robot, engine: str, worlds: int, steps: int) -> Mark:
    """Largest relative difference of the state after `steps` control steps in the air, e drawn, random commands, no noise."""
    sims = [Sim(robot, worlds=worlds, engine=which, noise=False) for which in (engine, "cpu")]
    e = sims[0].params.prior().sample(worlds, SEED)
    rng = np.random.default_rng(SEED)
    start = np.tile(sims[1].start_qpos, (worlds, 1))
    start[:, 2] += 10.0
    commands = sims[1].rest_command + 0.3 * rng.normal(size=(steps, worlds, sims[1].model.nu))
    for sim in sims:
        sim.apply(e)
        sim.reset(qpos=start)
        for u in commands:
            sim.step(u)
    kinds = {
        "base position": ("qpos", slice(0, 3)), "attitude": ("qpos", slice(3, 7)), "joint angles": ("qpos", slice(7, None)),
        "base velocity": ("qvel", slice(0, 3)), "turning rates": ("qvel", slice(3, 6)), "joint speeds": ("qvel", slice(6, None)),
    }  # fmt: skip
    apart = {}
    for kind, (name, columns) in kinds.items():
        x, y = (host(getattr(s.engine, name))[:, columns].astype(float) for s in sims)
        moved = y - (start[:, :3] if kind == "base position" else 0.0)
        apart[kind] = float(np.abs(x - y).max() / np.abs(moved).max())
    worst = max(apart, key=lambda kind: apart[kind])
    substeps = steps * sims[1].substeps
    return Mark(
        name="state without contact, largest relative difference", value=apart[worst], op="<=", mark=1e-4,
        reference=f"after {substeps} physics steps, {worlds} worlds of drawn e, relative to the largest of each kind; {worst}",
    )  # fmt: skip


def with_contact(robot: Robot, engine: str, worlds: int, steps: int) -> list[Mark]:
    """Two-sample tests of where robots are after a second of random commands on the ground."""
    sims = [Sim(robot, worlds=worlds, engine=which, noise=False) for which in (engine, "cpu")]
    e = sims[0].params.prior().sample(worlds, SEED)
    found = []
    for number, sim in enumerate(sims):
        rng = np.random.default_rng([SEED, number])
        sim.apply(e)
        sim.reset()
        for _ in range(steps):
            sim.step(sims[1].rest_command + 0.25 * rng.normal(size=(worlds, sims[1].model.nu)))
        q, v = host(sim.engine.qpos), host(sim.engine.qvel)
        up = 1 - 2 * (q[:, 4] ** 2 + q[:, 5] ** 2)
        found.append({
            "height": q[:, 2], "way": np.linalg.norm(q[:, :2], axis=1), "upright": up, "speed": np.linalg.norm(v[:, :3], axis=1),
            "joint speed": np.abs(v[:, 6:]).mean(1), "foot force": host(sim.sense(only=("foot_force",))["foot_force"]).sum(1)
            if "foot_force" in {s.kind for s in robot.sensors} else up,
        })  # fmt: skip
    p = {name: float(ks_2samp(found[0][name], found[1][name]).pvalue) for name in found[0]}
    worst = min(p, key=lambda n: p[n])
    return [
        Mark(
            name="distributions with contact, smallest p of the two-sample tests", value=p[worst] * len(p), op=">=", mark=0.05,
            reference=f"Kolmogorov-Smirnov, {worlds} worlds each, independent commands, times the {len(p)} tests; smallest for {worst}",
        )
    ]  # fmt: skip
