"""Rollouts and updates of the device's code, on a CPU."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `learn` is not installed")
pytest.importorskip("mujoco_warp", reason="the extra `gpu` is not installed")

import surefoot as sf  # noqa: E402
from surefoot.learn.device import DeviceRollouts  # noqa: E402
from surefoot.learn.device_update import DeviceUpdate  # noqa: E402
from surefoot.learn.learner import Learner  # noqa: E402
from surefoot.learn.mirror import Map, Mirror, mirror_of  # noqa: E402
from surefoot.learn.ppo import PPO  # noqa: E402
from surefoot.learn.rollout import Rollout  # noqa: E402
from surefoot.learn.runs import load_run  # noqa: E402
from surefoot.learn.walking import LESSONS, teach  # noqa: E402
from surefoot.tasks import World  # noqa: E402

MIRROR = Mirror(
    groups={
        "policy": Map(index=np.array([1, 0, 2, 3, 4]), sign=np.array([1, 1, -1, 1, 1])),
        "critic": Map(index=np.array([0, 1, 2, 4, 3]), sign=np.array([1, -1, 1, 1, 1])),
    },
    action=Map(index=np.array([1, 0, 2]), sign=np.array([1, 1, -1])),
)


def planted(mirror=None, **settings):
    """A learner and a rollout of random transitions; equal for equal settings."""
    ppo = PPO(**{"horizon": 8, "minibatches": 1, "epochs": 3, "hidden": (16,), **settings})
    learner = Learner(ppo, {"policy": 5, "critic": 5}, 3, seed=0, mirror=mirror)
    r, g = Rollout(8, 32, learner.policy, learner.critic), torch.Generator().manual_seed(1)
    for x in (r.actor, r.critic, r.reward):
        x.copy_(torch.randn(x.shape, generator=g))
    rows = r.actor[:-1].flatten(0, 1)
    r.mean.copy_(learner.policy.net.forward(learner.policy.normaliser(rows))[0].view(r.mean.shape))
    r.action.copy_(r.mean + 0.8 * torch.randn(r.mean.shape, generator=g))
    return learner, r


def on_device(learner):
    """Let a learner on a CPU take the device's steps."""
    learner._steps = lambda rollout, A, target, old, h, aside: DeviceUpdate(learner, rollout)(A, target, old)
    return learner


@pytest.mark.parametrize("mirror", [None, MIRROR], ids=["plain", "mirrored"])
def test_an_update_is_the_one_of_the_cpu(mirror):
    """With one minibatch an epoch the order does not matter, so that the weights must agree."""
    learner, rollout = planted(mirror)
    other, same = planted(mirror)
    numbers, found = learner.update(rollout).numbers, on_device(other).update(same).numbers
    for name, value in numbers.items():
        assert found[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
    for a, b in ((learner.policy, other.policy), (learner.critic, other.critic)):
        torch.testing.assert_close(a.net.weights, b.net.weights, rtol=1e-4, atol=1e-6)
    assert other.rate.value == learner.rate.value
    assert other.actor_adam.t == learner.actor_adam.t == 3


def test_mirror_images_need_no_second_look_at_the_rows():
    learner, rollout = planted(MIRROR)
    rows = rollout.actor[:-1].flatten(0, 1)
    learner.learn_statistics(rollout)
    both = torch.cat([rows, MIRROR.over(("policy",))(rows)]).double()
    torch.testing.assert_close(learner.policy.normaliser.mean, both.mean(0))
    torch.testing.assert_close(learner.policy.normaliser.var, both.var(0, unbiased=False))
    assert learner.policy.normaliser.count == len(both)


def test_a_bad_reward_changes_no_weight():
    learner, rollout = planted()
    rollout.reward[3, 5] = float("nan")
    rollout.broken[3, 5] = True
    rollout.reward[3, 5] = 0.0
    assert not on_device(learner).update(rollout).refused
    other, broken = planted()
    update = DeviceUpdate(other, broken)
    before = other.policy.net.weights.clone()
    reports = update(torch.full((8, 32), float("nan")), torch.zeros(8, 32), torch.zeros(8, 32))
    assert torch.equal(other.policy.net.weights, before)
    assert any("policy: 3 of 3" in str(report.get("refused")) for report in reports)


def test_half_of_a_minibatch_is_shown_in_the_mirror():
    learner, rollout = planted(MIRROR, both_sides=False)
    seen, turned = DeviceUpdate(learner, rollout)._shown(torch.arange(10))
    assert seen.tolist() == list(range(5))
    assert turned.tolist() == list(range(5, 10))


# ---------------------------------------------------------------- rollouts


@pytest.fixture(scope="module")
def filled():
    robot, lesson = sf.load("go2"), LESSONS["go2"]
    sim = sf.Sim(robot, worlds=8, engine="warp", seed=1)
    world = World(lesson.task, sim, e=sim.params.prior(), seed=1)
    world.reset(spread=False)
    world.age[5] = world._limit - 3
    learner = Learner(replace(lesson.ppo, horizon=4), world.widths, world.actions, seed=0, mirror=mirror_of(world))
    rollout = Rollout(4, 8, learner.policy, learner.critic)
    rollouts = DeviceRollouts(world, learner.policy, learner.critic, rollout)
    return world, rollout, rollouts, rollouts.fill()


def test_a_rollout_holds_what_the_policy_saw_and_did(filled):
    world, rollout, rollouts, _ = filled
    assert float(rollout.reward.abs().min()) > 0
    mean = rollouts.policy.mean(rollout.actor[2])[0]
    torch.testing.assert_close(rollout.mean[2], mean)
    spread = (rollout.action - rollout.mean) / rollouts.policy.log_std.exp()
    assert 0.7 < float(spread.std()) < 1.3
    torch.testing.assert_close(rollout.actor[4], rollouts.policy.gather(world.observations))


def test_a_time_limit_keeps_the_final_observation_and_is_told(filled):
    _, rollout, _, (ended, broken) = filled
    assert broken == 0
    assert ended.world.tolist() == [5]
    assert ended.length.tolist() == [3.0]
    assert ended.success.tolist() == [1.0]
    assert rollout.truncated[2, 5]
    assert rollout.begins[3, 5]
    (final,) = rollout.finals
    assert (final.step.tolist(), final.worlds.tolist()) == ([2], [5])
    assert float((final.inputs[0] - rollout.critic[3, 5]).abs().max()) > 1e-3
    assert ended.score[0] == pytest.approx(float(rollout.reward[:3, 5].sum()), rel=1e-5)
    low, high = (getattr(sf.load("go2").params["foot_friction"], side) for side in ("low", "high"))
    assert low <= ended.e["foot_friction"][0] <= high


@pytest.mark.slow
def test_a_training_goes_on_where_it_stopped(tmp_path):
    robot = sf.load("go2")
    lesson = replace(LESSONS["go2"], worlds=16, steps=16 * 16 * 2)
    for steps in (2, 4):
        sim = sf.Sim(robot, worlds=16, engine="warp", seed=0)
        run = teach(sim, replace(lesson, steps=16 * 16 * steps), run=tmp_path / "run", seed=0, say=lambda _line: None)
        assert run.steps == 16 * 16 * steps
    assert load_run(tmp_path / "run").policy.actions == 12
