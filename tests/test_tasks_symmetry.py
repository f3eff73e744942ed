"""The mirror is right: a mirrored robot, with mirrored e, command and start, does the mirrored thing."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.contract import Term
from surefoot.learn import Map, Mirror
from surefoot.tasks import Hover, Velocity, World, swing_up
from surefoot.tasks.symmetry import mirrored, other_side


def test_names_change_sides():
    assert other_side("FL_hip_joint") == "FR_hip_joint"
    assert other_side("right_knee_joint") == "left_knee_joint"
    assert other_side("encoder_bias[RL_thigh]") == "encoder_bias[RR_thigh]"
    assert other_side("waist_yaw_joint") == "waist_yaw_joint"


@pytest.mark.parametrize(("name", "gait"), [("go2", (0.5, 0.0, 0.0, 0.5)), ("g1", (0.0, 0.5))])
def test_mirroring_twice_changes_nothing(name, gait):
    sim = sf.Sim(sf.load(name), worlds=1)
    task = Velocity(gait=gait)
    groups, action = mirrored(task.contract(sim), sim)
    Mirror(
        groups={k: Map(index=i, sign=s) for k, (i, s) in groups.items()}, action=Map(index=action[0], sign=action[1])
    )


def test_a_mirrored_quadruped_observes_the_mirrored_motion():
    sim = sf.Sim(sf.load("go2"), worlds=2, noise=False)
    world = World(Velocity(rhythm=0.0), sim)  # with a rhythm the clock would have to be mirrored too
    groups, (swap, sign) = mirrored(world.contract, sim)
    world.reset(spread=False)
    rng = np.random.default_rng(0)
    names = sim.params.names
    e_index, e_sign = (
        array[-len(names) :] - (array[-len(names) :].min() if k == 0 else 0) for k, array in enumerate(groups["critic"])
    )
    low, span = sim.params.low, sim.params.high - sim.params.low
    z = rng.uniform(-1, 1, len(names))
    both = np.stack([z, e_sign * z[e_index]])
    symmetric = np.isclose(low, -sim.params.high) | (e_sign == 1)
    assert symmetric.all()
    sim.apply(sim.params.unflatten((both + 1) / 2 * span + low))
    q = np.tile(sim.start_qpos, (2, 1))
    joints = q[0, sim.sensors.q] + 0.1 * rng.normal(size=12)
    q[0, sim.sensors.q], q[1, sim.sensors.q] = joints, sign * joints[swap]
    sim.reset(qpos=q)
    world.command[:] = torch.tensor([[0.5, 0.3, 0.4], [0.5, -0.3, -0.4]])
    for _ in range(40):
        a = 0.5 * rng.normal(size=12)
        outcome = world.step(torch.tensor(np.stack([a, sign * a[swap]]), dtype=torch.float32))
    policy = outcome.final["policy"].numpy()
    index, flips = groups["policy"]
    clock = slice(-2, None)
    expected = flips * policy[0][index]
    expected[clock] = policy[0][clock]  # the clock itself runs on; only the legs' phases change places
    np.testing.assert_allclose(policy[1], expected, atol=2e-3)
    assert np.abs(policy[0] - policy[1]).max() > 0.1


SMALL = {
    "cartpole": swing_up.cartpole(),
    "qube": swing_up.qube(),
    "double_pendulum": swing_up.double_pendulum(),
    "crazyflie": Hover(),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_robots_do_the_mirrored_thing_in_a_mirrored_situation(name):
    sim = sf.Sim(sf.load(name), worlds=2, noise=False)
    world = World(SMALL[name], sim)
    groups, (swap, sign) = SMALL[name].mirror(world.contract, sim)
    world.reset(spread=False)
    rng = np.random.default_rng(0)
    count = len(sim.params.names)
    index, flips = groups["critic"]
    e_index, e_sign = index[-count:] - (len(index) - count), flips[-count:]
    low, span = sim.params.low, sim.params.high - sim.params.low
    z = rng.uniform(-1, 1, count)
    sim.apply(sim.params.unflatten((np.stack([z, e_sign * z[e_index]]) + 1) / 2 * span + low))
    assert (np.isclose(low, -sim.params.high) | (e_sign == 1)).all()
    q, v = np.tile(sim.start_qpos, (2, 1)), np.zeros((2, sim.model.nv))
    if name == "crazyflie":
        q[:, 2] = 1.0
        q[:, 3:7] = np.array([[0.9, 0.2, 0.3, 0.1], [0.9, -0.2, 0.3, -0.1]]) / np.sqrt(0.95)
        v[:, 3:6] = [[0.5, 0.4, -0.3], [-0.5, 0.4, 0.3]]
    else:
        q[0, sim.sensors.q] += 0.2
        q[1, sim.sensors.q] -= 0.2
    sim.reset(qpos=q, qvel=v)
    for _ in range(15):
        a = 0.3 * rng.normal(size=len(swap))
        outcome = world.step(torch.tensor(np.stack([a, sign * a[swap]]), dtype=torch.float32))
    for group in ("policy", "history", "critic"):
        first, second = outcome.final[group].numpy()
        index, flips = groups[group]
        np.testing.assert_allclose(second, flips * first[index], atol=2e-3, err_msg=group)
        assert np.abs(first - second).max() > 0.05


def test_a_group_stacked_by_step_is_refused():
    sim = sf.Sim(sf.load("go2"), sf.Params(), worlds=1)
    contract = Velocity().contract(sim)
    past = Term(source="gyro", history=3)
    odd = replace(contract, groups=(replace(contract.group("policy"), terms=(past,), stack="step"),))
    with pytest.raises(sf.InputError, match="stacked by step"):
        mirrored(odd, sim)
