"""The walking task: its step in the air, its rhythm in the contract, what it pays for, and who may see what."""

import mujoco
import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.contract import Action, Contract, Group, Term, action
from surefoot.evaluate import walk
from surefoot.tasks import Velocity, World
from surefoot.tasks.gait import legs, lift


@pytest.mark.parametrize("name", ["go2", "g1"])
def test_the_step_lifts_each_foot_straight_up(name):
    sim = sf.Sim(sf.load(name))
    change = lift(sim, 0.06)
    data = mujoco.MjData(sim.model)
    data.qpos[:] = sim.start_qpos
    mujoco.mj_kinematics(sim.model, data)
    before = data.geom_xpos.copy()
    for joint, value in change.items():
        data.qpos[int(sim.model.joint(joint).qposadr[0])] += value
    mujoco.mj_kinematics(sim.model, data)
    for _, feet in legs(sim):
        geoms = [sim.model.geom(sim.robot.feet[f]).id for f in feet]
        moved = (data.geom_xpos - before)[geoms].mean(0)
        np.testing.assert_allclose(moved[[0, 2]], [0.0, 0.06], atol=1e-4)
        assert abs(moved[1]) < 0.01  # a leg that stands outwards is lifted in its own plane
        tilt = (data.geom_xpos - before)[geoms, 2]
        assert np.ptp(tilt) < 2e-3


def test_a_step_higher_than_the_leg_is_refused():
    with pytest.raises(sf.InputError, match="cannot lift a foot by 2 m"):
        lift(sf.Sim(sf.load("go2")), 2.0)


def rhythmic() -> Contract:
    joints = ("a", "b")
    return Contract(
        robot="toy", joints=joints, control_dt=0.02, clock_period=0.5, sensor_channels=("joint_pos",),
        groups=(Group(name="policy", terms=(Term(source="joint_pos", columns=joints),)),),
        action=Action(joints=joints, scale=2.0, offset=(0.1, 0.2), lift=(0.3, -0.4), phase=(0.0, 0.5)),
    )  # fmt: skip


@pytest.mark.parametrize("wrap", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_the_contracts_rhythm_follows_its_equation(wrap):
    time = np.linspace(0, 1, 11)
    a = np.random.default_rng(0).normal(size=(11, 2))
    got = np.asarray(action(rhythmic(), wrap(a), wrap(time)))
    wave = np.stack([np.sin(2 * np.pi * (time / 0.5 + p)) for p in (0.0, 0.5)], axis=1).clip(min=0)
    np.testing.assert_allclose(got, np.array([0.1, 0.2]) + 2 * a + np.array([0.3, -0.4]) * wave, atol=1e-12)


def test_a_rhythm_without_a_time_is_refused_and_survives_the_file(tmp_path):
    contract = rhythmic()
    with pytest.raises(sf.InputError, match="give the time since the reset"):
        action(contract, np.zeros((1, 2)))
    contract.save(tmp_path / "contract.json")
    assert Contract.load(tmp_path / "contract.json") == contract
    from dataclasses import replace

    still = replace(contract, action=replace(contract.action, lift=0.0))
    assert any("lift" in words for words in contract.difference(still))


@pytest.fixture(scope="module")
def world() -> World:
    sim = sf.Sim(sf.load("go2"), worlds=6)
    return World(Velocity(), sim, e=sim.params.prior(), seed=3)


def test_no_privileged_quantity_can_enter_the_policys_observation(world):
    from dataclasses import replace

    contract = world.contract
    seen = {term.source for term in contract.group("policy").terms}
    assert seen <= {*contract.sensor_channels, "last_action", "command", "clock"}
    assert set(contract.sensor_channels) <= set(world.sim.sense())
    for source in ("e", "true_velocity", "foot_contact"):
        term = next(t for t in contract.group("critic").terms if t.source == source)
        leaky = replace(contract.group("policy"), terms=(*contract.group("policy").terms, term))
        with pytest.raises(sf.InputError, match="which no sensor"):
            replace(contract, groups=(leaky, contract.group("critic")))


def test_the_policy_sees_noise_and_delay_and_the_critic_sees_e(world):
    world.reset(spread=False)
    outcome = world.step(torch.zeros(6, 12))
    true = world.sim.truth()["joint_pos"]
    pose = np.array([world.sim.robot.pose[j] for j in world.sim.robot.joints])
    read = outcome.final["policy"][:, 9:21].numpy() + pose
    assert 1e-4 < np.abs(read - true).max() < 0.2
    low, high = world.sim.params.low, world.sim.params.high
    position = 2 * (world.sim.params.flatten(world.sim.e) - low) / (high - low) - 1
    np.testing.assert_allclose(outcome.final["critic"][:, -len(low) :].numpy(), position, atol=1e-5)


def test_following_the_command_pays_more_than_standing():
    sim = sf.Sim(sf.load("go2"), sf.Params(), worlds=3, noise=False)
    world = World(Velocity(), sim)
    world.reset(spread=False)
    world.command[:] = torch.tensor([0.8, 0.0, 0.0])
    speeds = np.array([0.0, 0.5, 0.8])
    qvel = np.zeros((3, sim.model.nv))
    qvel[:, 0] = speeds
    sim.reset(qvel=qvel)
    s = world._situation()
    terms = world.task.rewards(s)["track_velocity"]
    assert terms[0] < terms[1] < terms[2]
    assert float(terms[2]) == pytest.approx(2.4 * sim.control_dt, rel=1e-3)


def test_lying_down_ends_the_episode_and_costs_one():
    sim = sf.Sim(sf.load("go2"), sf.Params(), worlds=2, noise=False)
    world = World(Velocity(), sim)
    world.reset(spread=False)
    qpos = np.tile(sim.start_qpos, (2, 1))
    qpos[1, 3:7] = [0.0, 1.0, 0.0, 0.0]
    qpos[1, 2] = 0.15
    sim.reset(qpos=qpos)
    outcome = world.step(torch.zeros(2, 12))
    assert outcome.terminated.tolist() == [False, True]
    assert float(outcome.reward[1]) <= -0.9
    assert float(outcome.reward[0]) >= 0.0
    assert outcome.ended.tolist() == [1]


def test_a_time_limit_is_no_fall_and_keeps_the_last_observation():
    sim = sf.Sim(sf.load("go2"), worlds=3, noise=False)
    world = World(Velocity(episode=0.1), sim, e=sim.params.prior(), seed=1)
    world.reset(spread=False)
    for _ in range(5):
        outcome = world.step(torch.zeros(3, 12))
    assert outcome.truncated.all()
    assert not outcome.terminated.any()
    assert not torch.equal(outcome.final["policy"], outcome.observations["policy"])
    assert set(outcome.e) == set(sim.params)


def test_a_world_restored_goes_on_bit_for_bit(world):
    world.reset()
    rng = torch.Generator().manual_seed(0)
    actions = [torch.randn(6, 12, generator=rng) for _ in range(30)]
    for a in actions[:10]:
        world.step(a)
    saved = world.snapshot()
    first = [world.step(a) for a in actions[10:]]
    world.restore(saved)
    second = [world.step(a) for a in actions[10:]]
    for one, two in zip(first, second, strict=True):
        assert torch.equal(one.reward, two.reward)
        assert all(torch.equal(one.observations[g], two.observations[g]) for g in one.observations)


def test_standing_still_survives_but_does_not_walk():
    sim = sf.Sim(sf.load("go2"), sf.Params(), worlds=8)
    found = walk(Velocity(rhythm=0.0), sim, lambda obs, ended: torch.zeros(8, 12), seconds=4.0)
    assert found.survival == 1.0
    assert all(d > 0.95 for d in found.duty)
    assert found.speed_error > 0.3
    assert not found.walks
    assert "does not walk" in str(found)


def test_held_joints_are_neither_seen_nor_moved_and_stay_at_the_default_pose():
    task = Velocity(gait=(0.0, 0.5), swing=0.07, held=("shoulder", "elbow", "wrist"))
    sim = sf.Sim(sf.load("g1"), sf.Params(), worlds=2)
    world = World(task, sim)
    contract = world.contract
    assert len(contract.action.joints) == 15
    assert contract.joints == sim.robot.joints
    for term in contract.group("policy").terms:
        assert not any(word in column for column in term.columns for word in task.held), term.name
    targets = np.asarray(action(contract, torch.full((2, 15), 0.7), torch.zeros(2)))
    for joint in set(contract.joints) - set(contract.action.joints):
        np.testing.assert_allclose(targets[:, contract.joints.index(joint)], sim.robot.pose[joint], atol=1e-6)
    with pytest.raises(sf.InputError, match="holds every joint of g1"):
        World(Velocity(gait=(0.0, 0.5), held=("joint",)), sim)


def test_true_velocities_are_those_along_and_across_the_heading():
    sim = sf.Sim(sf.load("go2"), sf.Params(), worlds=64, noise=False)
    world = World(Velocity(), sim)
    world.reset()
    rng = np.random.default_rng(0)
    quat = rng.normal(size=(64, 4))
    sim.engine.qpos[:, 3:7] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    sim.engine.qvel[:, :6] = rng.normal(size=(64, 6))
    truth = world._situation().truth
    for i in range(64):
        R = np.zeros(9)
        mujoco.mju_quat2Mat(R, sim.engine.qpos[i, 3:7])
        R = R.reshape(3, 3)
        yaw = np.arctan2(R[1, 0], R[0, 0])
        c, s = np.cos(yaw), np.sin(yaw)
        v = sim.engine.qvel[i, :3]
        want = [c * v[0] + s * v[1], c * v[1] - s * v[0], v[2]]
        np.testing.assert_allclose(truth["velocity"][i].numpy(), want, atol=1e-4)
        np.testing.assert_allclose(truth["up"][i].numpy(), R[2], atol=1e-5)


def test_time_limits_strike_together_and_no_episode_is_cut_short():
    sim = sf.Sim(sf.load("go2"), sf.Params(), worlds=16, noise=False)
    world = World(Velocity(episode=1.0, rhythm=0.0, fall_height=0.0, fall_tilt=-2.0), sim, seed=3)
    world.reset(spread=True)
    began, lasted, struck = {w: None for w in range(16)}, [], set()
    for step in range(1, 151):
        ended = world.step(torch.zeros(16, 12)).ended.tolist()
        if ended:
            struck.add(step)
        for w in ended:
            if began[w] is not None:
                lasted.append(step - began[w])
            began[w] = step
    assert lasted
    assert min(lasted) >= 50
    assert max(lasted) < 60
    assert all(step % 10 == 0 for step in struck)
    world.reset(spread=False)
    ends = [len(world.step(torch.zeros(16, 12)).ended) for _ in range(50)]
    assert ends == [0] * 49 + [16]
