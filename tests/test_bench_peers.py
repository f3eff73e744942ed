"""The hopper of the comparison with Stable-Baselines3 is our hopper, and the comparison says what it found."""

import warnings

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from gymnasium.utils.env_checker import check_env

from surefoot.bench import peers
from surefoot.bench.gym import HopperEnv, plan
from surefoot.bench.table import Mark


def env_of(world) -> HopperEnv:
    return HopperEnv(plan(world.task, world.sim))


def test_the_environment_is_one_that_gymnasium_accepts():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env_of(peers.hopper(1, threads=1)))


@pytest.mark.parametrize("size", [0.3, 3.0])
def test_the_environment_pays_shows_and_ends_as_our_world_does(size):
    world = peers.hopper(4, seed=3, threads=1)
    seen = world.reset(spread=False)
    envs, going, score = [env_of(world) for _ in range(4)], np.ones(4, bool), np.zeros((2, 4))
    for i, env in enumerate(envs):
        engine = world.sim.engine
        start = {
            "qpos": np.array(engine.qpos[i]),
            "qvel": np.array(engine.qvel[i]),
            "command": float(world.command[i, 0]),
        }
        observed, _ = env.reset(seed=0, options=start)
        np.testing.assert_allclose(observed, torch.cat([seen["policy"], seen["history"]], 1)[i], atol=1e-6)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(120):
        actions = np.clip(size * rng.standard_normal((4, 3)), -3, 3).astype(np.float32)
        outcome = world.step(torch.from_numpy(actions))
        final = torch.cat([outcome.final["policy"], outcome.final["history"]], 1).numpy()
        for i in np.flatnonzero(going):
            observed, reward, fallen, over, _ = envs[i].step(actions[i])
            np.testing.assert_allclose(observed, final[i], atol=2e-3)
            assert (fallen, over) == (bool(outcome.terminated[i]), bool(outcome.truncated[i]))
            score[:, i] += reward, float(outcome.reward[i])
            going[i], ends = not fallen, ends + fallen
    np.testing.assert_allclose(score[0], score[1], atol=1e-4)
    assert ends > 0


def test_a_time_limit_is_not_an_end():
    world = peers.hopper(1, threads=1)
    env = env_of(world)
    env.reset(seed=0)
    env.age = env.plan.limit - 1
    _, _, fallen, over, _ = env.step(np.zeros(3, np.float32))
    assert (fallen, over) == (False, True)


def test_medians_and_bounds_are_told():
    seeds = [
        ((6.0, 2.0), (0.2, 0.3), (1.0, 1.0)),
        ((4.0, 3.0), (0.4, 0.1), (0.0, 0.0)),
        ((7.0, 2.5), (0.1, 0.2), (1.0, 0.0)),
    ]
    rows = []
    for seed, results in enumerate(seeds):
        for k, name in enumerate(peers.SB3):
            what = (f"steps/s, ours / {name}", f"seconds, ours / {name}", f"{name} reached it")
            rows += [Mark(name=f"hopper, seed {seed}: {w}", value=r[k]) for w, r in zip(what, results, strict=True)]
            rows.append(Mark(name=f"hopper, seed {seed}: steps/s, {name}", value=1.0, reference=f"<{name}>"))
    faster, sooner = peers.summary(rows)
    assert (faster.value, faster.holds, sooner.value, sooner.holds) == (6.0, True, 0.3, True)
    assert "6 against <SB3>; 2.5 against <SB3 in large batches>" in faster.reference
    assert "0.3, 0.4, 0.2" in sooner.reference  # the sooner of both settings
    assert "in 1 of them" in sooner.reference
    absent = peers.summary([Mark(name="hopper, seed 0: steps/s, ours / SB3", value=None, reference="not installed")])
    assert [m.value for m in absent] == [None, None]
    assert absent[0].reference == "not installed"
