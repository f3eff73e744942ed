"""The PPO update: symmetry, weights, the NaN guard, threads, memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from learn_worlds import PointMass, Recall
from surefoot.errors import InputError
from surefoot.learn import PPO, Learner, Map, Mirror, Rollout, advantages, minibatches
from surefoot.learn.minibatches import cut, draw, side_by_side
from surefoot.learn.networks import log_prob

FLIP = Mirror(
    groups={"policy": Map(index=[0, 1], sign=[-1, -1]), "critic": Map(index=[0, 1, 2], sign=[-1, -1, 1])},
    action=Map(index=[0], sign=[-1]),
)
ONCE = {"epochs": 1, "minibatches": 1, "hidden": (8,), "horizon": 12, "gradient": 1e9}


def rolled(learner: Learner, world, rollout: Rollout | None = None, *, go_on: bool = False):
    """A rollout of the learner's policy; with `go_on`, from where the last one ended."""
    fresh = rollout is None
    rollout = rollout or Rollout(learner.ppo.horizon, world.worlds, learner.policy, learner.critic)
    if fresh:
        rollout.seen = world.reset()
        rollout.memory = learner.policy.net.start(world.worlds) if learner.policy.memory else None
        rollout.begins[-1] = True
    rollout.begin(rollout.seen, rollout.begins[-1].clone(), rollout.memory)
    for t in range(rollout.steps):
        if rollout.memory is not None:
            rollout.memory[rollout.begins[t]] = 0.0
        action, mean, rollout.memory = learner.policy.act(rollout.actor[t], rollout.memory, learner.noise)
        outcome = world.step(action)
        rollout.record(t, action, mean, outcome)
        rollout.seen = outcome.observations
    return rollout


def pair(ppo: PPO, world, **second):
    """Two learners with the same seed, the second with other arguments."""
    return Learner(ppo, world.widths, 1, seed=5), Learner(ppo, world.widths, 1, seed=5, **second)


def test_augmenting_leaves_the_gradient_of_a_symmetric_policy_alone_and_pushes_no_bias():
    """tanh without biases is odd, as the mirror asks: its weights' gradients agree, and nothing pushes a bias."""
    world = PointMass(16)
    plain, mirrored = pair(PPO(activation="tanh", **ONCE), world, mirror=FLIP)
    rollout = rolled(plain, world)
    plain.update(rollout, threads=1)
    mirrored.update(rollout, threads=1)
    ours, theirs = plain.policy.net.grad_parts, mirrored.policy.net.grad_parts
    for name in ("0.weight", "1.weight", "extra"):
        assert torch.allclose(ours[name], theirs[name], atol=1e-6), name
    for name in ("0.bias", "1.bias"):
        assert ours[name].abs().max() > 1e-4
        assert theirs[name].abs().max() < 1e-6
    assert mirrored.policy.normaliser.mean.abs().max() < 1e-12


def test_symmetry_is_refused_where_it_cannot_be_had():
    with pytest.raises(InputError, match="networks without memory"):
        Learner(PPO(memory=4), {"policy": 2, "critic": 3}, 1, seed=0, mirror=FLIP)
    with pytest.raises(InputError, match="'history' has no mirror map"):
        Learner(PPO(actor=("policy", "history")), {"policy": 2, "history": 2}, 1, seed=0, mirror=FLIP)


def test_weights_of_zero_take_worlds_out_of_the_policy_gradient_only():
    world = PointMass(16)
    one, two = pair(PPO(**ONCE), world)
    rollout = rolled(one, world)
    weights = torch.ones(16)
    weights[8:] = 0.0
    one.update(rollout, weights=weights, threads=1)
    changed = rollout.action[:, 8:].clone()
    rollout.action[:, 8:] = rollout.mean[:, 8:]
    two.update(rollout, weights=3 * weights, threads=1)
    assert torch.allclose(one.policy.net.grads, two.policy.net.grads, atol=1e-7)
    assert torch.equal(one.critic.net.grads, two.critic.net.grads)
    rollout.action[:, 8:] = changed
    for wrong in (torch.full((16,), -1.0), torch.zeros(16), torch.full((16,), torch.nan)):
        with pytest.raises(InputError, match="must be finite, not negative"):
            one.update(rollout, weights=wrong, threads=1)


def test_one_and_two_threads_give_the_same_bits():
    world = PointMass(64)
    one, two = pair(PPO(hidden=(64, 64)), world)
    rollout = rolled(one, world)
    for _ in range(3):
        a, b = one.update(rollout, threads=1), two.update(rollout, threads=2)
    assert a.numbers == b.numbers
    assert torch.equal(one.policy.net.weights, two.policy.net.weights)
    assert torch.equal(one.critic.net.weights, two.critic.net.weights)
    assert torch.get_num_threads() >= 1


def test_a_failure_of_the_policy_ends_the_critics_thread_too():
    learner = Learner(PPO(hidden=(4,)), {"policy": 2}, 1, seed=0)

    def fails(_rates):
        raise RuntimeError("planted")
        yield {}

    def waits(rates):
        while rates.get() is not None:
            yield {}

    with pytest.raises(RuntimeError, match="planted"):
        side_by_side(fails, waits, aside=learner._aside)


def test_the_update_does_nothing_at_first_then_moves_by_about_the_target_kl():
    world = PointMass(64)
    learner = Learner(PPO(hidden=(16,), epochs=1, minibatches=1), world.widths, 1, seed=0)
    assert abs(learner.update(rolled(learner, world), threads=1).numbers["kl"]) < 1e-6


def test_minibatches_that_are_not_finite_are_refused_named_and_counted(monkeypatch):
    world = PointMass(16)
    learner = Learner(PPO(hidden=(8,), epochs=2, minibatches=2), world.widths, 1, seed=0)
    rollout = rolled(learner, world)
    rollout.action[2, 3] = torch.nan
    losses, gradients = iter([1.0, float("nan"), 1.0, 1.0]), iter([0.0, 0.0, float("inf")])
    monkeypatch.setattr(
        minibatches, "value_loss", lambda v, *rest, **named: (next(losses), np.full_like(v, next(gradients, 0.0)))
    )
    refused = learner.update(rollout, threads=2).refused
    named = [sentence.split(":")[0] for sentence in refused]
    assert [name[:15] for name in named[:2]] == ["policy, epoch 1", "policy, epoch 2"]
    assert named[2:] == ["critic, epoch 1 minibatch 2", "critic, epoch 2 minibatch 1"]
    assert learner.actor_adam.t == learner.critic_adam.t == 2
    assert torch.isfinite(learner.policy.net.weights).all()
    assert torch.isfinite(learner.critic.net.weights).all()


def test_returns_that_are_not_finite_are_left_out_by_name():
    world = PointMass(16)
    learner = Learner(PPO(hidden=(8,), horizon=6), world.widths, 1, seed=0)
    rollout = rolled(learner, world)
    rollout.terminated[:] = rollout.truncated[:] = False
    rollout.reward[3, 4] = torch.inf
    assert learner.update(rollout, threads=1).refused == ["4 transitions: their returns are not finite"]
    assert np.isfinite(learner.critic.unit.std)
    assert torch.isfinite(learner.critic.net.weights).all()


def test_broken_transitions_are_not_learned_from():
    world = PointMass(16)
    one, two = pair(PPO(**ONCE), world)
    rollout = rolled(one, world)
    rollout.broken[5, 3] = True
    one.update(rollout, threads=1)
    rollout.reward[5, 3], rollout.action[5, 3], rollout.mean[5, 3] = 1e6, torch.nan, torch.nan
    assert not two.update(rollout, threads=1).refused
    assert torch.equal(one.policy.net.weights, two.policy.net.weights)
    assert torch.equal(one.critic.net.weights, two.critic.net.weights)
    rollout.broken[:] = True
    before = one.policy.net.weights.clone()
    assert "only 0 transitions" in one.update(rollout, threads=1).refused[0]
    assert torch.equal(one.policy.net.weights, before)


def test_nan_observations_rewards_and_finals_break_exactly_the_transitions_that_touch_them():
    world = PointMass(6, limit=3, spread_ages=False)
    learner = Learner(PPO(horizon=4, hidden=(4,)), world.widths, 1, seed=0)
    rollout = Rollout(4, 6, learner.policy, learner.critic)
    rollout.begin(world.reset(), torch.ones(6, dtype=torch.bool), None)
    for t in range(4):
        outcome = world.step(torch.zeros(6, 1))
        if t == 0:
            outcome.reward[0] = torch.nan
            outcome.observations["policy"][1, 1] = torch.inf
            outcome.observations["critic"][2, 2] = torch.nan
        if t == 2:
            outcome.final["critic"][3, 0] = torch.nan
            outcome.broken[4] = True
        rollout.record(t, torch.zeros(6, 1), torch.zeros(6, 1), outcome)
    where = [tuple(x) for x in torch.nonzero(rollout.broken).tolist()]
    assert where == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 3), (2, 4)]
    assert torch.isfinite(rollout.actor).all()
    assert torch.isfinite(rollout.critic).all()
    assert rollout.begins[1].tolist() == [True, True, True, False, False, False]
    assert not learner.update(rollout, threads=1).refused
    assert learner.policy.normaliser.count == 22


def test_log_std_stays_in_its_bounds():
    world = PointMass(16)
    learner = Learner(PPO(hidden=(8,), std=0.5, std_bounds=(0.45, 0.55), entropy=1.0, rate_bounds=(1e-2, 1e-2), rate=1e-2), world.widths, 1, seed=0)  # fmt: skip # noqa: E501
    for _ in range(8):
        learner.update(rolled(learner, world), threads=1)
    assert learner.policy.std[0] == pytest.approx(0.55)


@pytest.mark.parametrize("memory", [(6, 0), (0, 6), (6, 6)])
def test_sequences_replay_what_the_policy_did_with_its_memory_through_resets(memory):
    """KL 0 at the first minibatch of the second rollout: memory was carried on, and emptied at episode ends."""
    world = PointMass(12, limit=7)
    learner = Learner(PPO(memory=memory[0], critic_memory=memory[1], **ONCE), world.widths, 1, seed=0)
    learner.actor_adam.step = lambda rate: 0.0
    learner.policy.net.parts["1.weight"].data.mul_(100)
    rollout = rolled(learner, world)
    learner.update(rollout, threads=2)
    learner.policy.normaliser.freeze()
    rollout = rolled(learner, world, rollout)
    if memory[0]:
        x, h = learner.policy.normaliser(rollout.actor[:-1]), rollout.actor_memory
        assert h.abs().max() > 0
        with torch.no_grad():
            mean = learner.policy.net.unroll(x, h, rollout.begins[:-1])[0]
        assert torch.allclose(mean, rollout.mean, atol=1e-5)
        assert rollout.begins[1:-1].any()
    update = learner.update(rollout, threads=2)
    assert abs(update.numbers["kl"]) < 1e-6
    assert not update.refused


def test_gradient_through_time_equals_finite_differences():
    world = PointMass(8, limit=6)
    learner = Learner(PPO(memory=3, entropy=0.0, epochs=1, minibatches=1, hidden=(4,), horizon=6, gradient=1e9), world.widths, 1, seed=0)  # fmt: skip # noqa: E501
    learner.policy.net.parts["1.weight"].data.mul_(100)
    rollout = rolled(learner, world)
    net, x = learner.policy.net, learner.policy.normaliser(rollout.actor[:-1])
    weights = net.weights.clone()
    learner.actor_adam.step = lambda rate: 0.0
    learner.update(rollout, threads=1)
    value, ahead = learner.values(rollout)
    grads, normal = net.grads.clone(), torch.randn(len(weights), generator=torch.Generator().manual_seed(0))
    normal[-1] = 0.0
    fresh = Learner(learner.ppo, world.widths, 1, seed=0)
    fresh_value, fresh_ahead = fresh.values(rollout)
    A = advantages(
        rollout.reward, fresh_value, fresh_ahead, terminated=rollout.terminated, truncated=rollout.truncated,
        broken=rollout.broken, gamma=0.99, lam=0.95,
    )  # fmt: skip
    A = (A - A.mean()) / A.std()

    def loss(w):
        net.weights.copy_(w)
        with torch.no_grad():
            mean = net.unroll(x, rollout.actor_memory, rollout.begins[:-1])[0]
        new = log_prob(rollout.action, mean, learner.policy.log_std)
        old = log_prob(rollout.action, rollout.mean, learner.policy.log_std)
        return -(A * (new - old).exp()).mean().item()

    eps = 1e-2
    slope = (loss(weights + eps * normal) - loss(weights - eps * normal)) / (2 * eps)
    assert slope == pytest.approx((grads @ normal).item(), rel=0.03)
    assert value.shape == ahead.shape


@pytest.mark.slow
def test_a_sign_shown_once_is_recalled_with_memory_and_not_without():
    def success(memory: int) -> float:
        world = Recall(64, length=3)
        learner = Learner(
            PPO(memory=memory, hidden=(16,), horizon=12, rate_bounds=(1e-3, 3e-3)), world.widths, 1, seed=0
        )
        rollout = None
        for _ in range(80):
            rollout = rolled(learner, world, rollout)
            learner.update(rollout, threads=2)
        act, seen, ended = learner.policy.play(), world.reset(), None
        for _ in range(3):
            outcome = world.step(act(seen, ended))
            seen, ended = outcome.observations, outcome.ended
        return outcome.success.mean().item()

    assert success(12) > 0.95
    assert success(0) < 0.75


def test_snapshots_restore_a_learner_bit_for_bit():
    world = PointMass(16)
    for memory in (0, 4):
        one = Learner(PPO(hidden=(8,), memory=memory, critic_memory=memory), world.widths, 1, seed=0)
        rollout = rolled(one, world)
        one.update(rollout, threads=1)
        two = Learner(PPO(hidden=(8,), memory=memory, critic_memory=memory), world.widths, 1, seed=99)
        two.restore(one.snapshot())
        a, b = one.update(rollout, threads=1), two.update(rollout, threads=1)
        assert a.numbers == b.numbers
        ours, theirs = one.snapshot(), two.snapshot()
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_settings_are_checked_and_survive_json():
    ppo = PPO(hidden=(64, 32), critic=("critic", "history"), rate_bounds=(1e-4, 1e-3))
    assert PPO.from_dict(ppo.to_dict()) == ppo
    with pytest.raises(InputError, match=r"'gama' is not a setting of PPO \(did you mean 'gamma'\?\)"):
        PPO.from_dict({"gama": 0.9})
    with pytest.raises(InputError, match="rate must lie within"):
        PPO(rate=1.0)
    with pytest.raises(InputError, match="gamma and lam"):
        PPO(gamma=1.2)
    with pytest.raises(InputError, match="'polcy' is not an observation group"):
        Learner(PPO(actor=("polcy",)), {"policy": 2}, 1, seed=0)


def test_by_turns_minibatches_keep_their_rows_however_many_there_are():
    n = m = 40_000
    ppo = PPO(epochs=1, minibatches=m, both_sides=False)
    drawn = draw(ppo, n, torch.Generator().manual_seed(0), turns=True)
    shown = torch.cat([rows for _, rows, _ in cut(ppo, drawn, torch.device("cpu"), mirrored=True)])
    assert torch.equal(shown % n, drawn.orders[0])


def test_by_turns_every_transition_and_its_image_are_shown_once_in_two_epochs():
    ppo = PPO(epochs=4, minibatches=3, both_sides=False)
    n = 50
    generator = torch.Generator().manual_seed(0)
    plan = list(cut(ppo, draw(ppo, n, generator, turns=True), torch.device("cpu"), mirrored=True))
    epochs = [torch.cat([rows for _, rows, _ in plan[3 * k : 3 * k + 3]]) for k in range(4)]
    for rows in epochs:
        assert sorted((rows % n).tolist()) == list(range(n))
    for first, second in ((0, 1), (2, 3)):
        assert sorted(torch.cat([epochs[first], epochs[second]]).tolist()) == list(range(2 * n))
    for _, rows, real in plan:
        assert bool((rows[:real] < n).all())
        assert bool((rows[real:] >= n).all())
    both = replace(ppo, both_sides=True)
    for _, rows, real in cut(both, draw(both, n, generator), torch.device("cpu"), mirrored=True):
        assert torch.equal(rows[real:], rows[:real] + n)
