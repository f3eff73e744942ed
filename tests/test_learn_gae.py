"""Advantages against their definition, and the value of a reward that never ends."""

import pytest
import torch

from learn_worlds import Constant, PointMass
from surefoot.learn import PPO, Learner, Rollout, advantages


def by_definition(r, v, ahead, *, terminated, truncated, broken, gamma, lam):
    """A_t = sum over k of (γ λ)^k δ_{t+k}, up to the episode's end or the first broken transition."""
    A = torch.zeros_like(r)
    for n in range(r.shape[1]):
        for t in range(len(r)):
            for k in range(t, len(r)):
                if broken[k, n]:
                    break
                future = 0.0 if terminated[k, n] else gamma * ahead[k, n]
                A[t, n] += (gamma * lam) ** (k - t) * (r[k, n] + future - v[k, n])
                if terminated[k, n] or truncated[k, n]:
                    break
    return A


@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
def test_advantages_equal_their_definition_with_random_ends(lam):
    torch.manual_seed(3)
    T, N = 20, 12
    r, v, ahead = torch.randn(3, T, N, dtype=torch.float64)
    terminated, truncated, broken = torch.rand(3, T, N) < 0.12
    given = {
        "terminated": terminated,
        "truncated": truncated & ~terminated,
        "broken": broken,
        "gamma": 0.97,
        "lam": lam,
    }
    assert torch.allclose(advantages(r, v, ahead, **given), by_definition(r, v, ahead, **given), atol=1e-12)


def test_a_broken_transition_changes_nothing_before_or_after_it():
    r, v, ahead = torch.randn(3, 6, 1, dtype=torch.float64)
    no, broken = torch.zeros(6, 1, dtype=torch.bool), torch.zeros(6, 1, dtype=torch.bool)
    broken[3] = True
    given = {"terminated": no, "truncated": no, "gamma": 0.9, "lam": 0.9}
    A = advantages(r, v, ahead, broken=broken, **given)
    r[3], ahead[3] = torch.nan, torch.nan
    assert torch.equal(A, advantages(r, v, ahead, broken=broken, **given))
    assert A[3] == 0
    assert torch.allclose(A[2], r[2] + 0.9 * ahead[2] - v[2])


def learned_value(world, *, lam: float, horizon: int, updates: int) -> float:
    """V of the only state of a Constant world after some updates."""
    ppo = PPO(
        horizon=horizon, lam=lam, epochs=10, minibatches=1, hidden=(16,), warmup=0, value_clip=10.0, rate=1e-2,
        rate_bounds=(1e-2, 1e-2),
    )  # fmt: skip
    learner = Learner(ppo, world.widths, 1, seed=0)
    rollout = Rollout(ppo.horizon, world.worlds, learner.policy, learner.critic)
    seen, begins = world.reset(), torch.ones(world.worlds, dtype=torch.bool)
    for _ in range(updates):
        rollout.begin(seen, begins, None)
        for t in range(ppo.horizon):
            action, mean, _ = learner.policy.act(rollout.actor[t], None, learner.noise)
            outcome = world.step(action)
            rollout.record(t, action, mean, outcome)
        seen, begins = outcome.observations, rollout.begins[-1].clone()
        learner.update(rollout, threads=1)
    return learner.critic.values(torch.ones(1, 1)).item()


@pytest.mark.slow
def test_a_reward_of_one_for_ever_is_worth_a_hundred_despite_the_time_limit():
    assert abs(learned_value(Constant(), lam=0.95, horizon=100, updates=40) - 100) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("lam", "horizon", "updates", "wrong"), [(0.0, 25, 250, 50.25), (1.0, 100, 15, 37.24)])
def test_treating_the_limit_as_an_end_would_give_the_known_wrong_values(lam, horizon, updates, wrong):
    """The witness: the same code, told that the limit is a real end, finds the two textbook mistakes."""
    world = Constant(bootstrap=False, spread_ages=lam == 0.0)
    assert abs(learned_value(world, lam=lam, horizon=horizon, updates=updates) - wrong) < 1.5


def test_time_limits_take_the_value_of_the_true_final_observation():
    """Not that of the state before the step, nor that of the next episode's first state."""
    world = PointMass(8, limit=5, spread_ages=False)
    learner = Learner(PPO(horizon=8, hidden=(8,)), world.widths, 1, seed=1)
    rollout = Rollout(8, 8, learner.policy, learner.critic)
    rollout.begin(world.reset(), torch.ones(8, dtype=torch.bool), None)
    finals = {}
    for t in range(8):
        action, mean, _ = learner.policy.act(rollout.actor[t], None, learner.noise)
        outcome = world.step(action)
        rollout.record(t, action, mean, outcome)
        finals[t] = outcome.final["critic"].clone(), outcome.truncated.clone()
    value, ahead = learner.values(rollout)
    state, over = finals[4]
    assert over.all()
    assert torch.allclose(ahead[4], learner.critic.values(state), atol=1e-6)
    assert not torch.allclose(ahead[4], value[4], atol=1e-3)
    assert not torch.allclose(ahead[4], value[5], atol=1e-3)
    assert torch.equal(ahead[3], value[4])
