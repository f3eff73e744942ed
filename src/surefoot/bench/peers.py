"""Beside others: our training and Stable-Baselines3's PPO on the same hopper, seed by seed, one after the other in one run.

Both learn the task `Hop` on one compiled model with the nominal e and without sensor noise, with networks of the same size
that see the same numbers, and both are judged by the same whole episodes of their deterministic policies in our `World`.
Judging time is not counted. Stable-Baselines3 steps `HopperEnv` (gym.py) in the faster of its two kinds of vector
environment. It and Gymnasium are in the extra `dev`.
"""

import importlib.util
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.bench.cases import work
from surefoot.bench.table import Mark, Op, Request, Result
from surefoot.evaluate import judge_world
from surefoot.learn import train
from surefoot.learn.presets import settings
from surefoot.learn.threads import torch_threads
from surefoot.params import Params
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.tasks import Hop, World
from surefoot.tasks.task import over

TARGET = 16.0
"""Return that both must reach: mean over JUDGED whole episodes of 8 s; 20 is the most that the reward allows."""
JUDGED = 64
LIMIT = 240.0
"""Most seconds of training for either."""
EVERY = {"ours": 40_960, "sb3": 16_384}
"""Transitions between two judgements."""
NETWORK = (64, 64)
SB3 = {
    "SB3": {"worlds": 8, "n_steps": 256, "batch_size": 64, "n_epochs": 10},
    "SB3 in large batches": {"worlds": 64, "n_steps": 128, "batch_size": 1024, "n_epochs": 6},
}
"""PPO settings of Stable-Baselines3: its defaults (2048 steps an update, minibatches of 64), which its zoo of tuned settings
uses for MuJoCo tasks together with normalised observations and rewards; and the batch sizes of our preset. What is not
named stays at its default."""
TRIED = 8
"""Environments with which the two kinds of vector environment are compared."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training until the return was reached, or until its time was up."""

    steps: float
    seconds: float
    """Training time [s], judging excluded."""
    score: float
    """Return at the last judgement."""
    how: str = ""

    @property
    def reached(self) -> bool:
        """Whether it got there."""
        return self.score >= TARGET

    @property
    def rate(self) -> float:
        """Environment steps/s of the whole training, updates included."""
        return self.steps / self.seconds


def measure(request: Request) -> Result:
    """`surefoot bench learn-peers`: one case a seed."""
    start = time.perf_counter()
    limit = 10.0 if request.quick else LIMIT
    cases = {f"hopper, seed {seed}": partial(beside, seed, limit, request.tell) for seed in range(request.seeds)}
    found = work("learn-peers", cases, request)
    marks = (*summary(found), *found)
    return Result(bench="learn-peers", marks=marks, seed=0, seconds=time.perf_counter() - start, quick=request.quick)


def summary(found: list[Mark]) -> list[Mark]:
    """Medians over the seeds beside their marks; a seed in which ours did not reach the return counts as infinitely late.

    Speed is judged against Stable-Baselines3's defaults, and the reference says what it is against large batches. The time
    to the return is judged against whichever of its settings was sooner.
    """

    def values(what: str) -> np.ndarray:
        return np.array([np.inf if m.value is None else m.value for m in found if m.name.endswith(what)], float)

    faster, sooner, theirs = (
        [values(f"{what}{name}{end}") for name in SB3]
        for what, end in (("steps/s, ours / ", ""), ("seconds, ours / ", ""), (": ", " reached it"))
    )
    how = [m.reference for name in SB3 for m in found if m.name.endswith(f"steps/s, {name}")][:: max(1, len(faster[0]))]
    said = "; ".join(f"{np.median(x):.3g} against {how}" for x, how in zip(faster, how, strict=False))
    late = int((np.max(theirs, axis=0) == 0).sum()) if len(theirs[0]) else 0
    bound = f"; in {late} of them SB3 did not get there in time, and its time limit was put in" if late else ""
    least = np.max(sooner, axis=0) if len(sooner[0]) else sooner[0]
    return [
        _median("hopper: environment steps/s, ours / SB3", faster[0], ">=", 5.0, found, f"updates included: {said}"),
        _median(
            "hopper: seconds to the same return, ours / SB3", least, "<=", 1.0, found,
            f"return {TARGET:g}, the sooner of {len(SB3)} settings of SB3{bound}",
        ),
    ]  # fmt: skip


def _median(name: str, values: np.ndarray, op: Op, mark: float, found: list[Mark], said: str) -> Mark:
    middle = float(np.median(values)) if len(values) else np.inf
    if np.isfinite(middle):
        each = ", ".join(f"{x:.3g}" for x in values)
        return Mark(
            name=name, value=middle, op=op, mark=mark, reference=f"median of {len(values)} seeds: {each}; {said}"
        )
    why = next((m.reference for m in found if m.value is None), "nothing was measured")
    return Mark(name=name, value=None, op=op, mark=mark, reference=why)


def beside(seed: int, limit: float, tell: Callable[[str], None]) -> list[Mark]:
    """Both trainings with one seed; [one mark without a value] where Stable-Baselines3 is not installed."""
    absent = [name for name in ("stable_baselines3", "gymnasium") if importlib.util.find_spec(name) is None]
    prefix = f"hopper, seed {seed}"
    if absent:
        why = f"{' and '.join(absent)} not installed: pip install -e '.[dev]'"
        return [Mark(name=f"{prefix}: steps/s, ours / SB3", value=None, reference=why)]
    ours = train_ours(seed, limit, tell)
    rows = told("ours", ours)
    for name in SB3:
        theirs = train_sb3(name, seed, limit, tell)
        bound = "" if theirs.reached else f"a bound: {name} did not reach {TARGET:g} in {limit:g} s"
        bound = bound if ours.reached else f"ours did not reach {TARGET:g} in {limit:g} s"
        sooner = ours.seconds / theirs.seconds if ours.reached else None
        rows |= told(name, theirs) | {
            f"steps/s, ours / {name}": (ours.rate / theirs.rate, "1", "training, updates included"),
            f"seconds, ours / {name}": (sooner, "1", bound),
            f"{name} reached it": (float(theirs.reached), "1", f"within {limit:g} s of training"),
        }
    return [Mark(name=f"{prefix}: {what}", value=x, unit=u, reference=why) for what, (x, u, why) in rows.items()]


def told(who: str, trial: Trial) -> dict[str, tuple[float | None, str, str]]:
    """Rows of one training: value, unit, reference."""
    return {
        f"steps/s, {who}": (trial.rate, "1/s", trial.how),
        f"seconds of training, {who}": (trial.seconds, "s", f"{trial.steps:.0f} transitions, return {trial.score:.2f}"),
    }


def hopper(worlds: int, *, seed: int = 0, threads: int = 0) -> World:
    """Worlds of the hopper as both trainings have them: nominal e, no sensor noise."""
    sim = Sim(load("hopper"), Params(), worlds=worlds, noise=False, seed=seed, threads=threads)
    return World(Hop(), sim, seed=seed)


def train_ours(seed: int, limit: float, tell: Callable[[str], None]) -> Trial:
    """Our training with the hopper's preset; the critic sees no more than the policy, as in the other training."""
    preset, judged = settings("hopper"), hopper(JUDGED, seed=999)
    ppo = replace(preset.ppo, hidden=NETWORK, critic_hidden=NETWORK, critic=preset.ppo.actor)

    def evaluate(policy) -> dict[str, float]:
        score = float(judge_world(judged, policy.play()).score.mean())
        tell(f"   ours, seed {seed}: return {score:.2f}")
        return {"score": score}

    def stop(record) -> bool:
        return record["seconds"] > limit or record.get("evaluate/score", 0.0) >= TARGET

    with tempfile.TemporaryDirectory() as folder:
        run = train(
            hopper(preset.worlds, seed=seed), ppo, run=Path(folder) / "run", steps=100_000_000, seed=seed, evaluate=evaluate,
            every=EVERY["ours"], stop=stop, resume=False, say=lambda _line: None,
        )  # fmt: skip
        records = run.history()
    score = [r["evaluate/score"] for r in records if "evaluate/score" in r]
    last = records[-1]
    return Trial(
        steps=float(last["steps"]), seconds=float(last["seconds"]), score=score[-1] if score else -np.inf,
        how=f"{preset.worlds} worlds, {ppo.horizon} steps, {ppo.minibatches} minibatches, {ppo.epochs} epochs",
    )  # fmt: skip


# ---------------------------------------------------------------- Stable-Baselines3


def train_sb3(name: str, seed: int, limit: float, tell: Callable[[str], None]) -> Trial:
    """Stable-Baselines3's PPO with the settings `name` on `HopperEnv`, observations and rewards normalised by its own wrapper."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    chosen: dict[str, Any] = dict(SB3[name])
    worlds = chosen.pop("worlds")
    kind, made = faster_vector(worlds, seed)
    env = VecNormalize(made)
    try:
        with torch_threads(1):  # networks this small only wait for a second thread
            model = PPO("MlpPolicy", env, policy_kwargs={"net_arch": list(NETWORK)}, seed=seed, device="cpu", **chosen)
            watch = _watch(name, seed, limit, env, tell)
            model.learn(100_000_000, callback=watch)
    finally:
        env.close()
    how = f"{worlds} {kind}, {chosen['n_steps']} steps, minibatches of {chosen['batch_size']}, {chosen['n_epochs']} epochs"
    return Trial(steps=float(watch.at), seconds=watch.seconds, score=watch.score, how=how)


def faster_vector(worlds: int, seed: int, steps: int = 4096) -> tuple[str, Any]:
    """The name of the faster of Stable-Baselines3's two kinds of vector environment on this machine, and one of `worlds`."""
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    from surefoot.bench.gym import HopperEnv, plan

    world = hopper(1, threads=1)
    planned = plan(world.task, world.sim)
    idle = np.zeros((TRIED, world.actions), np.float32)

    def seconds(kind: Any) -> float:
        env = kind([partial(HopperEnv, planned)] * TRIED)
        env.reset()
        env.step(idle)
        begin = time.perf_counter()
        for _ in range(steps // TRIED):
            env.step(idle)
        taken = time.perf_counter() - begin
        env.close()
        return taken

    best = min((DummyVecEnv, SubprocVecEnv), key=seconds)
    env = best([partial(HopperEnv, planned)] * worlds)
    env.seed(seed)
    return best.__name__, env


def _watch(name: str, seed: int, limit: float, env: Any, tell: Callable[[str], None]) -> Any:
    """A callback that judges the policy between updates, stops at the return or the limit, and keeps time without judging."""
    from stable_baselines3.common.callbacks import BaseCallback

    judged = hopper(JUDGED, seed=999)

    class Watch(BaseCallback):
        def __init__(self):
            super().__init__()
            self.seconds, self.score, self.at, self.done = 0.0, -np.inf, 0, False
            self._judged, self._since = 0, time.perf_counter()

        def _act(self, observations, _ended):
            seen = np.concatenate([observations["policy"].numpy(), observations["history"].numpy()], axis=1)
            action, _ = self.model.predict(env.normalize_obs(seen), deterministic=True)
            return over(np.ascontiguousarray(action, dtype=np.float32))

        def _on_rollout_start(self) -> None:
            """Between two updates."""
            now = time.perf_counter()
            self.seconds += now - self._since
            self.at, self.done = self.num_timesteps, self.seconds > limit
            if self.at - self._judged >= EVERY["sb3"] or self.done:
                self._judged, self.score = self.at, float(judge_world(judged, self._act).score.mean())
                tell(f"   {name}, seed {seed}: {self.at} transitions, {self.seconds:.1f} s, return {self.score:.2f}")
                self.done |= self.score >= TARGET
            self._since = time.perf_counter()

        def _on_step(self) -> bool:
            return not self.done

    return Watch()
