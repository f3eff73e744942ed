"""Rough ground: what the scan shows, what the task measures there, and how ground and commands become harder."""

import json
from dataclasses import replace

import mujoco
import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.evaluate import RoughWalk, rough_walk
from surefoot.learn import PPO
from surefoot.learn.checkpoint import load
from surefoot.learn.mirror import Map, Mirror, mirror_of
from surefoot.learn.walking import Lesson, rough, teach
from surefoot.params import Point
from surefoot.randomize import Levels
from surefoot.robots import scan_points, scanning
from surefoot.sim.terrain import ground_under
from surefoot.tasks import Commands, Velocity, World
from surefoot.tasks.symmetry import mirrored

STEPS = sf.step_height(low=0, high=0.08, choices=(0.0, 0.04, 0.08), extent=4.0)


def ground(worlds: int, robot=None, noise: bool = False, **more) -> sf.Sim:
    return sf.Sim(robot or sf.load("go2"), sf.Params(step_height=STEPS, **more), worlds=worlds, noise=noise)


def placed(sim: sf.Sim, xy: np.ndarray, yaw: np.ndarray, z: float = 0.5) -> None:
    """Put the bases at xy (worlds, 2), turned by yaw (worlds,), z [m] above 0."""
    q = np.tile(sim.start_qpos, (sim.worlds, 1))
    q[:, :2], q[:, 2], q[:, 3], q[:, 6] = xy, z, np.cos(yaw / 2), np.sin(yaw / 2)
    sim.reset(qpos=q)


# -------------------------------------------------------------------- the scan


def test_the_scan_shows_the_ground_that_rays_hit():
    robot = scanning(sf.load("go2"), noise=0.0, offset=0.0, delay=0.0)
    sim = ground(12, robot)
    rng = np.random.default_rng(0)
    sim.apply({"step_height": rng.choice(STEPS.choices, 12)})
    yaw = rng.uniform(-np.pi, np.pi, 12)
    placed(sim, rng.uniform(-2, 2, (12, 2)), yaw)
    seen = sim.sense()["height_scan"]
    points = np.array(list(scan_points(robot.sensors[-1]).values()))
    assert seen.shape == (12, 45)
    for world in (0, 5, 11):
        model, data = sim.engine.single(world)
        turn = np.array([[np.cos(yaw[world]), -np.sin(yaw[world])], [np.sin(yaw[world]), np.cos(yaw[world])]])
        for column in (0, 7, 22, 44):
            start = np.append(data.qpos[:2] + turn @ points[column], 0.4)
            ray = mujoco.mj_rayHfield(model, data, model.geom("ground").id, start, np.array([0.0, 0.0, -1.0]), None)
            expected = 0.5 - (0.4 - ray) - robot.height
            assert seen[world, column] == pytest.approx(expected, abs=1e-6), (world, column)


def test_on_a_slope_the_scan_is_level_with_gravity():
    robot = scanning(sf.load("go2"), noise=0.0, offset=0.0, delay=0.0)
    sim = sf.Sim(robot, sf.Params(slope=sf.slope(low=-0.3, high=0.3)), worlds=2, noise=False)
    sim.apply({"slope": [0.2, 0.0]})
    placed(sim, np.zeros((2, 2)), np.array([0.0, np.pi / 2]), z=robot.height)
    seen, points = sim.sense()["height_scan"], np.array(list(scan_points(robot.sensors[-1]).values()))
    uphill = np.cos(0.2) * robot.height - np.sin(0.2) * points[:, 0] - robot.height
    np.testing.assert_allclose(seen[0], uphill, atol=1e-9)
    np.testing.assert_allclose(seen[1], 0.0, atol=1e-9)


def test_errors_of_the_scan_have_the_stated_size_and_its_offset_lasts_an_episode():
    robot = scanning(sf.load("go2"), noise=0.01, offset=0.05, delay=0.0)
    sim = sf.Sim(robot, sf.Params(), worlds=400, seed=3)
    readings = []
    for _ in range(3):
        readings.append(sim.sense()["height_scan"] - sim.sensors.true_scan())
        sim.step(sim.rest_command)
    errors = np.stack(readings)  # (steps, worlds, points)
    offset = errors.mean((0, 2))
    assert offset.std() == pytest.approx(0.05, rel=0.15)
    assert (errors - offset[:, None]).std() == pytest.approx(0.01, rel=0.05)
    saved = sim.snapshot()
    before = sim.sense()["height_scan"]
    sim.reset([0])
    after = (sim.sense()["height_scan"] - sim.sensors.true_scan()).mean(1)
    assert abs(after[0] - offset[0]) > 0.005
    np.testing.assert_allclose(after[1:], offset[1:], atol=0.01)
    sim.restore(saved)
    assert np.array_equal(sim.sense()["height_scan"], before)


def test_a_delayed_scan_shows_where_the_robot_was():
    robot = scanning(sf.load("go2"), noise=0.0, offset=0.0, delay=0.04)
    sim = sf.Sim(robot, sf.Params(), worlds=1, noise=False)
    qpos = sim.start_qpos
    qpos[2] = 0.5
    sim.reset(qpos=qpos)
    heights, seen = [], []
    for _ in range(6):
        heights.append(float(sim.engine.qpos[0, 2]))
        seen.append(float(sim.sense()["height_scan"][0, 0]) + robot.height)
        sim.step(sim.rest_command)
    late = round(0.04 / sim.control_dt)
    np.testing.assert_allclose(seen[late:], heights[:-late], atol=1e-9)


def test_what_cannot_scan_is_refused():
    with pytest.raises(sf.InputError, match="has a height scan already"):
        scanning(scanning(sf.load("go2")))
    with pytest.raises(sf.InputError, match="no free base"):
        scanning(sf.load("so101"))
    with pytest.raises(sf.InputError, match="spacing above 0"):
        scanning(sf.load("go2"), spacing=0.0)
    with pytest.raises(sf.InputError, match="has no height scan"):
        Velocity(scan=True).contract(sf.Sim(sf.load("go2")))


def test_a_robot_file_may_have_a_height_scan(tmp_path):
    import shutil

    from surefoot.robots.read import LIBRARY

    shutil.copytree(LIBRARY / "go2", tmp_path / "go2")
    table = '\n[[sensors]]\nkind = "height_scan"\nname = "map"\nrate = 20.0\nlength = 0.4\nwidth = 0.2\nspacing = 0.1\n'
    text = (tmp_path / "go2" / "robot.toml").read_text()
    at = text.index("[params.foot_friction]")
    (tmp_path / "go2" / "robot.toml").write_text(text[:at] + table + "range = 0.3\n\n" + text[at:])
    assert len(scan_points(sf.load(tmp_path / "go2").sensors[-1])) == 15
    (tmp_path / "go2" / "robot.toml").write_text(text[:at] + table + "\n" + text[at:])
    with pytest.raises(sf.InputError, match="needs range above 0"):
        sf.load(tmp_path / "go2")


def test_the_policy_sees_the_sensor_and_the_critic_the_truth():
    made = rough(sf.load("go2"), scan=True)
    sim = sf.Sim(made.robot, made.params, worlds=4)
    world = World(made.lesson.task, sim, e=sim.params.prior(), seed=1)
    policy = {term.source for term in world.contract.group("policy").terms}
    assert policy <= {*world.contract.sensor_channels, "last_action", "command", "clock"}
    assert set(world.contract.sensor_channels) <= set(sim.sense())
    leaky = next(t for t in world.contract.group("critic").terms if t.source == "true_scan")
    group = world.contract.group("policy")
    groups = (replace(group, terms=(*group.terms, leaky)), world.contract.group("critic"))
    with pytest.raises(sf.InputError, match="which no sensor"):
        replace(world.contract, groups=groups)
    world.reset(spread=False)
    outcome = world.step(torch.zeros(4, 12))
    labels = world.contract.group("critic").labels
    first = labels.index(next(x for x in labels if x.startswith("true_scan")))
    np.testing.assert_allclose(outcome.final["critic"][:, first : first + 45], 5 * sim.sensors.true_scan(), atol=1e-5)
    assert (outcome.final["policy"][:, -45:] - outcome.final["critic"][:, first : first + 45]).abs().max() > 0.02


def test_the_mirror_swaps_the_sides_of_the_scan():
    robot = scanning(sf.load("go2"), noise=0.0, offset=0.0, delay=0.0)
    sim = ground(2, robot, slope=sf.slope(low=-0.2, high=0.2))
    world = World(Velocity(scan=True), sim)
    groups, _ = mirrored(world.contract, sim)
    Mirror(groups={k: Map(index=i, sign=s) for k, (i, s) in groups.items()}, action=mirror_of(world).action)
    sim.apply({"step_height": 0.08, "slope": 0.1})
    placed(sim, np.array([[0.1, 1.7], [0.1, -1.7]]), np.array([0.4, -0.4]))
    world.builder.reset()
    seen = world.builder.observe(world._readings(world._situation()), command=world.command)
    for name, (index, sign) in groups.items():
        labels = world.contract.group(name).labels
        rows = [i for i, x in enumerate(labels) if "scan" in x or "ground_up" in x or x.startswith("height")]
        both = seen[name].numpy()
        np.testing.assert_allclose(both[1][rows], (sign * both[0][index])[rows], atol=1e-5)
        scans = [i for i in rows if "scan" in labels[i]]
        assert np.abs(both[0][scans] - both[1][scans]).max() > 0.1


# -------------------------------------------------------------------- the task on such ground


def test_heights_are_those_over_the_ground_below():
    sim = ground(3)
    sim.apply({"step_height": [0.0, 0.04, 0.08]})
    world = World(Velocity(), sim)
    world.reset(spread=False)
    placed(sim, np.tile([1.4, 0.0], (3, 1)), np.zeros(3), z=0.6)
    t = world._situation().truth
    feet = sim.engine.derived("geom_xpos")[:, world.facts["feet"].numpy()]
    under = ground_under(sim.physics, feet[..., :2])
    np.testing.assert_allclose(t["feet"], feet[..., 2] - world.facts["radius"].numpy() - under, atol=1e-6)
    mean = np.concatenate([ground_under(sim.physics, np.full((3, 1, 2), [1.4, 0.0])), under], axis=1).mean(1)
    np.testing.assert_allclose(t["height"], 0.6 - mean, atol=1e-6)
    assert mean[2] > 0.02


def test_starts_stand_on_the_ground_wherever_they_are():
    sim = ground(64)
    prior = sim.params.prior()
    world = World(Velocity(rhythm=0.0), sim, e=prior.replace(step_height=Point(value=0.08)), seed=2)
    world.reset(spread=False)
    xy = sim.engine.qpos[:, :2]
    assert np.abs(xy).max() > 1.2
    feet = sim.engine.derived("geom_xpos")[:, world.facts["feet"].numpy()]
    gap = feet[..., 2] - world.facts["radius"].numpy() - ground_under(sim.physics, feet[..., :2])
    assert gap.min() == pytest.approx(sim.stance.clearance, abs=1e-6)
    fell = torch.zeros(64, dtype=torch.bool)
    for _ in range(100):
        fell |= world.step(torch.zeros(64, 12)).terminated
    assert fell.float().mean() < 0.05


def test_falling_is_judged_against_gravity_and_tilt_against_the_ground():
    sim = sf.Sim(sf.load("go2"), sf.Params(slope=sf.slope(low=-0.6, high=0.6)), worlds=3, noise=False)
    sim.apply({"slope": [0.0, 0.5, -0.5]})
    world = World(Velocity(), sim)
    world.reset(spread=False)
    q = np.tile(sim.start_qpos, (3, 1))
    pitch = 0.7  # nose down
    q[:, 3], q[:, 5] = np.cos(pitch / 2), np.sin(pitch / 2)
    sim.reset(qpos=q)
    s = world._situation()
    # Uphill ahead, nose down into the hill: less tilted against gravity than against the ground.
    np.testing.assert_allclose(s.truth["upright"], np.cos([0.7, 0.2, 1.2]), atol=1e-6)
    np.testing.assert_allclose(s.truth["up"][:, 2], np.cos(0.7), atol=1e-6)
    assert world.task.fallen(s).tolist() == [False, False, True]


def test_the_edge_of_the_ground_is_a_time_limit_and_nobody_falls_off():
    sim = ground(2)
    world = World(Velocity(), sim)
    world.reset(spread=False)
    placed(sim, np.array([[2.99, 0.0], [0.0, -3.01]]), np.zeros(2), z=0.4)
    outcome = world.step(torch.zeros(2, 12))
    assert outcome.truncated.tolist() == [False, True]
    assert not outcome.terminated.any()
    assert np.abs(sim.engine.qpos[1, :2]).max() <= 1.5


def test_success_can_ask_for_following():
    sim = sf.Sim(sf.load("go2"), sf.Params(), worlds=4, noise=False)
    world = World(Velocity(follow=0.5), sim)
    world.reset(spread=False)
    s = world._situation()
    s.command[:] = torch.tensor([[0.8, 0.0, 0.0], [0.8, 0.0, 0.0], [0.1, 0.0, 0.0], [0.8, 0.0, 0.0]])
    s.truth["velocity"] = torch.tensor([[0.5, 0.0, 0.0], [0.3, 0.0, 0.0], [0.0, 0.0, 0.0], [0.8, 0.0, 0.0]])
    none, fell = torch.zeros(4, dtype=torch.bool), torch.tensor([False, False, False, True])
    world.task.pass_time(s)
    assert world.task.success(s, none).isnan().all()
    for _ in range(110):
        world.task.pass_time(s)
    assert world.task.success(s, fell).tolist() == [1.0, 0.0, 1.0, 0.0]


# -------------------------------------------------------------------- curricula


def schema() -> sf.Params:
    return sf.Params(
        step_height=sf.step_height(low=0, high=0.08, nominal=0.0, choices=(0.0, 0.02, 0.04, 0.06, 0.08)),
        slope=sf.slope(low=-0.3, high=0.2, nominal=0.0),
        gravity=sf.gravity(low=9.7, high=9.9),
    )


def played(levels: Levels, able: float, rounds: int, seed: int = 0) -> None:
    """Episodes that succeed where the steps are no higher than `able` [m]."""
    for k in range(rounds):
        e = levels.prior.sample(300, seed + k)
        levels.record(e, (e["step_height"] <= able).astype(float), np.zeros(300))
        levels.update()


def test_levels_begin_easy_and_open_one_by_one_where_they_were_earned():
    levels = Levels(schema().prior(), names=("step_height", "slope"), bins=3)
    e = levels.prior.sample(500, 0)
    assert (e["step_height"] == 0).all()
    assert np.abs(e["slope"]).max() <= 0.1
    assert (e["slope"] < -0.05).any()
    assert (e["slope"] > 0.05).any()
    played(levels, 1.0, 1)
    assert levels.reached == [1, 1]
    played(levels, 1.0, 6)
    assert levels.reached == [4, 2]
    e = levels.prior.sample(4000, 1)
    assert e["slope"].min() < -0.28
    assert 0.19 < e["slope"].max() <= 0.2
    assert "step_height up to 0.08" in levels.summary


def test_most_draws_are_where_success_is_in_doubt_and_none_reached_is_forgotten():
    levels = Levels(schema().prior(), names=("step_height",))
    rng = np.random.default_rng(0)
    for k in range(40):
        e = levels.prior.sample(300, k)
        chance = np.select([e["step_height"] < 0.03, e["step_height"] < 0.05], [1.0, 0.5], 0.0)
        levels.record(e, (rng.random(300) < chance).astype(float), np.zeros(300))
        levels.update()
    assert levels.reached == [2]  # level 3 needs 60 % at level 2
    weights = levels.weights(0)
    assert weights[2] == weights.max()
    assert weights[2] > 0.5
    assert weights[:2].min() > 0.05
    assert weights[3:].sum() == 0


def test_hopeless_levels_keep_only_the_floor():
    levels = Levels(schema().prior(), names=("step_height",))
    played(levels, 1.0, 8)
    assert levels.reached == [4]
    played(levels, 0.03, 30, seed=100)
    weights = levels.weights(0)
    assert weights[4] < 0.35
    assert levels.success(0)[4] < 0.1


def test_levels_go_on_from_their_state_and_refuse_another():
    one, two = (Levels(schema().prior(), names=("step_height", "slope")) for _ in range(2))
    played(one, 0.04, 5)
    one.record(one.prior.sample(10, 99), np.full(10, np.nan), np.zeros(10))
    two.load(json.loads(json.dumps(one.state())))
    assert two.prior == one.prior
    played(one, 0.04, 4, seed=50)
    played(two, 0.04, 4, seed=50)
    assert two.state() == one.state()
    assert two.prior == one.prior
    with pytest.raises(sf.InputError, match="was written with"):
        Levels(schema().prior(), names=("step_height", "slope"), bins=4).load(one.state())
    with pytest.raises(sf.InputError, match="levels of no Param"):
        Levels(schema().prior(), names=())


def test_commands_grow_with_success_and_survive_a_snapshot():
    sim = sf.Sim(sf.load("go2"), sf.Params(), worlds=200, noise=False)
    world = World(Velocity(), sim, commands=Commands(start=0.2, step=0.4, window=10), seed=0)
    world.reset(spread=False)
    assert 0.15 < float(world.command[:, 0].abs().max()) <= 0.2
    assert world.commands is not None
    world.commands.record(np.array([1.0] * 6 + [0.0] * 4 + [np.nan]))
    assert world.commands.share == 0.2
    world.commands.record(np.array([1.0] * 7 + [0.0] * 3))
    assert world.commands.share == pytest.approx(0.6)
    world.commands.record(np.ones(5))
    saved = world.snapshot()
    world.commands.record(np.ones(5))
    assert world.commands.share == 1.0
    world.reset(spread=False)
    assert 0.9 < float(world.command[:, 0].abs().max()) <= 1.0
    world.restore(saved)
    assert world.commands.share == pytest.approx(0.6)
    world.commands.record(np.ones(5))
    assert world.commands.share == 1.0


@pytest.mark.slow
def test_a_rough_training_resumes_bit_for_bit(tmp_path):
    made = rough(sf.load("go2"), scan=True)
    task = replace(made.lesson.task, episode=0.3)
    small = PPO(hidden=(16,), horizon=8, epochs=1, minibatches=2, warmup=8)

    def learn(folder: str, updates: int) -> None:
        sim = sf.Sim(made.robot, made.params, worlds=8, seed=0)
        lesson = Lesson(task=task, ppo=small, steps=updates * 64)
        levels = Levels(sim.params.prior(), names=made.levels, window=4, least=1, target=0.1)
        commands = Commands(window=4, target=0.0)
        teach(sim, lesson, run=tmp_path / folder, randomize=levels, commands=commands, say=lambda _text: None)

    learn("whole", 10)
    learn("parts", 6)
    learn("parts", 10)
    (whole, about), (parts, other) = (load(tmp_path / name / "checkpoint.npz") for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(np.array_equal(whole[k], parts[k], equal_nan=whole[k].dtype.kind == "f") for k in whole)
    assert about["randomize"] == other["randomize"]


# -------------------------------------------------------------------- the judge


def test_survival_is_told_by_bins():
    heights = np.array([0.0, 0.02, 0.03, 0.05, 0.06, 0.08])
    found = RoughWalk(survived=np.array([1, 1, 1, 0, 0, 1], dtype=bool), e={"step_height": heights}, speed_error=0.1)
    assert [(n, share) for _, _, n, share in found.by("step_height")] == [(2, 1.0), (2, 0.5), (2, 0.5)]
    low, high = found.interval
    assert low < found.survival < high
    assert found.survival == pytest.approx(4 / 6)
    assert "5.5..8 cm 50 % of 2" in str(found)


def test_standing_on_level_steps_survives_and_a_robot_thrown_down_does_not():
    sim = ground(16)
    task = Velocity(rhythm=0.0)
    found = rough_walk(task, sim, lambda seen, ended: torch.zeros(16, 12), seconds=1.0)
    assert found.survival > 0.9
    assert set(np.unique(found.e["step_height"])) <= set(STEPS.choices)
    limp = torch.zeros(16, 12)
    limp[:, 2::3] = 10.0  # knees straight
    limp[:, 1::3] = 10.0
    assert rough_walk(task, sim, lambda seen, ended: limp, seconds=2.0).survival < 0.3
