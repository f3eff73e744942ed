"""The CUDA engine's code on a CPU (engine "warp"): the same e, readings, worlds and episodes as the CPU engine."""

import itertools

import numpy as np
import pytest

pytest.importorskip("mujoco_warp", reason="the extra `gpu` is not installed")
torch = pytest.importorskip("torch", reason="the extra `learn` is not installed")

import surefoot as sf  # noqa: E402
from surefoot.bench.gpu_parity import contact_free, read_back, with_contact  # noqa: E402
from surefoot.errors import InputError  # noqa: E402
from surefoot.learn.walking import GPU_LESSONS, LESSONS, rough  # noqa: E402
from surefoot.tasks import World  # noqa: E402


@pytest.fixture(scope="module")
def go2():
    return sf.load("go2")


@pytest.fixture(scope="module")
def pair(go2):
    """The same eight worlds on both engines, without noise, in the air."""
    sims = [sf.Sim(go2, worlds=8, engine=which, noise=False, seed=3) for which in ("warp", "cpu")]
    e = sims[0].params.prior().sample(8, 0)
    for sim in sims:
        sim.apply(e)
    return sims, e


def start_in_the_air(sims):
    q = np.tile(sims[1].start_qpos, (8, 1))
    q[:, 2] += 3.0
    for sim in sims:
        sim.reset(qpos=q)


def test_it_is_a_sim_of_its_own_making(pair):
    (device, cpu), _ = pair
    assert isinstance(device, sf.Sim)
    assert type(device) is not type(cpu)
    assert device.engine.name == "cuda"
    assert device.command_names == cpu.command_names


def test_e_is_read_back_from_the_device(pair):
    (device, _), e = pair
    found = device.e
    for name, param in device.params.items():
        np.testing.assert_allclose(found[name], e[name], atol=1e-6 * (param.high - param.low), rtol=1e-6)


def test_some_params_of_some_worlds_change_and_nothing_else(pair):
    (device, _), e = pair
    before = device.e
    device.apply({"foot_friction": np.array([0.5, 0.7])}, [1, 6])
    after = device.e
    assert after["foot_friction"][[1, 6]] == pytest.approx([0.5, 0.7], rel=1e-6)
    others = np.delete(np.arange(8), [1, 6])
    np.testing.assert_array_equal(after["foot_friction"][others], before["foot_friction"][others])
    for name in set(before) - {"foot_friction"}:
        np.testing.assert_array_equal(after[name], before[name])
    device.apply(e)


def test_readings_agree_with_delays_biases_and_drawn_motors(pair):
    sims, _ = pair
    start_in_the_air(sims)
    rng = np.random.default_rng(0)
    for _ in range(12):
        u = sims[1].rest_command + 0.3 * rng.normal(size=(8, 12))
        for sim in sims:
            sim.step(u)
        found, expected = (sim.sense() for sim in sims)
    assert set(found) == set(expected)
    quantum = 3.1e-5  # an encoder may fall on either side of a step
    for name, close in {
        "joint_pos": quantum,
        "joint_vel": 1e-3,
        "gyro": 1e-4,
        "quat": 1e-5,
        "gravity": 1e-5,
        "accel": 1e-2,
    }.items():
        np.testing.assert_allclose(found[name].numpy(), expected[name], atol=close, err_msg=name)


def test_a_command_delay_between_two_steps_acts_in_the_mean():
    """A step of the command, late by 1.5 control periods, reaches the motors in the middle of the second period."""
    robot = sf.load("go2")
    params = sf.Params(command_delay=sf.command_delay(low=0.0, high=0.06))
    sim = sf.Sim(robot, params, worlds=2, engine="warp", noise=False)
    sim.apply({"command_delay": np.array([0.0, 0.03])})
    sim.reset()
    sim.step(sim.press.rest_command + 0.1)
    np.testing.assert_allclose(sim.control[0, :, 0].numpy(), sim.press.rest_command[0] + 0.1, atol=1e-6)
    np.testing.assert_allclose(sim.control[1, :, 0].numpy(), sim.press.rest_command[0], atol=1e-6)
    sim.step(sim.press.rest_command + 0.1)
    expected = sim.press.rest_command[0] + 0.1 * np.array([0.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(sim.control[1, :, 0].numpy(), expected, atol=1e-6)


def test_speeds_had_from_angles_are_as_late_as_on_the_cpu():
    sims = [sf.Sim(sf.load("qube"), worlds=8, engine=which, noise=False, seed=3) for which in ("warp", "cpu")]
    e = sims[1].params.nominal_e(8) | {"velocity_filter": np.linspace(0.001, 0.02, 8)}
    true = []
    for sim in sims:
        sim.apply(e)
        sim.reset(qpos=np.tile([0.1, 0.3], (8, 1)), qvel=np.zeros((8, 2)))
    for k in range(60):
        u = np.full((8, 1), 4.0 * np.sin(0.2 * k))
        seen = [np.asarray(sim.sense()["joint_vel"]) for sim in sims]
        np.testing.assert_allclose(seen[0], seen[1], atol=2e-3 * max(1.0, np.abs(seen[1]).max()))
        true.append(np.abs(seen[1] - sims[1].truth()["joint_vel"]).max(axis=1))
        for sim in sims:
            sim.step(u)
    assert (np.diff(np.max(true, axis=0)) > 0).all()  # The later, the further from the truth.


def test_a_lost_reading_repeats_the_last_one(go2):
    """World 0 loses none, world 1 half of them: what it repeats is what it read before, and a reset begins with a fresh reading."""
    params = sf.Params(lost=sf.sensor_dropout(low=0.0, high=0.5, nominal=0.0))
    sim = sf.Sim(go2, params, worlds=2, engine="warp", seed=3)
    sim.apply({"lost": np.array([0.0, 0.5])})
    sim.reset()
    seen = []
    for k in range(24):
        sim.step(sim.press.rest_command + 0.1 * np.sin(k))
        seen.append(sim.sense()["joint_pos"].numpy().copy())
    again = np.array([(a == b).all(-1) for a, b in itertools.pairwise(seen)])
    assert np.isfinite(seen).all()
    assert not again[:, 0].any()
    assert 5 <= again[:, 1].sum() <= 18
    sim.reset()
    np.testing.assert_allclose(sim.sense()["joint_pos"].numpy()[1], sim.press.start_qpos[7:], atol=0.01)


@pytest.mark.slow
def test_parity_rows_hold(go2):
    assert read_back(go2, "warp", 8).holds
    assert contact_free(go2, "warp", 8, 50).holds


@pytest.mark.slow
def test_distributions_with_contact_agree(go2):
    assert all(mark.holds for mark in with_contact(go2, "warp", 48, 25))


def test_noise_depends_on_seed_world_and_step_alone(go2):
    few, many = (sf.Sim(go2, worlds=n, engine="warp", seed=7) for n in (2, 5))
    other = sf.Sim(go2, worlds=2, engine="warp", seed=8)
    a, b, c = (s.noise.normal("encoder", 0, 12).numpy().copy() for s in (few, many, other))
    np.testing.assert_array_equal(a, b[:2])
    assert np.abs(a - c).min() > 0
    few.noise.clock += 1
    assert np.abs(few.noise.normal("encoder", 0, 12).numpy() - a).max() > 0.1


def test_noise_is_normal_and_uniform(go2):
    sim = sf.Sim(go2, worlds=2, engine="warp", seed=7)
    normal, uniform = [], []
    for _ in range(300):
        normal.append(sim.noise.normal("gyro", 0, 12).numpy().copy())
        uniform.append(sim.noise.uniform("push", 0, 12).numpy().copy())
        sim.noise.clock += 1
    assert abs(np.mean(normal)) < 0.05
    assert np.std(normal) == pytest.approx(1.0, abs=0.05)
    assert np.mean(uniform) == pytest.approx(0.5, abs=0.02)
    assert np.var(uniform) == pytest.approx(1 / 12, abs=0.005)


def test_a_snapshot_goes_on_as_before(go2):
    sim = sf.Sim(go2, worlds=3, engine="warp", seed=5)
    sim.apply(sim.params.prior().sample(3, 1))
    sim.reset()
    for _ in range(3):
        sim.step(sim.press.rest_command)
    kept = sim.snapshot()
    sim.step(sim.press.rest_command)
    first = {k: v.numpy().copy() for k, v in sim.sense().items()}
    sim.restore(kept)
    sim.step(sim.press.rest_command)
    for name, value in sim.sense().items():
        np.testing.assert_allclose(value.numpy(), first[name], atol=1e-5, err_msg=name)


def test_a_world_that_breaks_is_named_and_the_others_go_on(go2):
    sim = sf.Sim(go2, worlds=3, engine="warp", noise=False)
    u = np.tile(sim.press.rest_command, (3, 1))
    u[1, 0] = np.nan
    sim.step(u)
    sim.step(sim.press.rest_command)
    assert sim.alive.tolist() == [True, False, True]
    sim.reset([1])
    assert sim.alive.all()


def test_what_the_engine_lacks_is_refused_by_name(go2):
    with pytest.raises(InputError, match="'sticky' of kind stribeck acts between the physics steps"):
        sf.Sim(go2, sf.Params(sticky=sf.stribeck(low=0.0, high=0.1)), worlds=1, engine="warp")
    with pytest.raises(InputError, match=r"'dt': the cuda engine has one 'opt.timestep' for all worlds"):
        sf.Sim(go2, sf.Params(dt=sf.timestep(low=0.001, high=0.005)), worlds=2, engine="warp")
    with pytest.raises(InputError, match="residual"):
        sf.Sim(go2, worlds=1, engine="warp", residual=object())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is not one of"):
        sf.Sim(go2, worlds=1, engine="wrap")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="NVIDIA GPU"):
            sf.Sim(go2, worlds=1, engine="cuda")


def test_unheard_channels_are_refused_by_name(go2):
    sim = sf.Sim(go2, worlds=1, engine="warp")
    sim.hear(("joint_pos", "gyro"))
    assert "joint_pos" in sim.sense()
    with pytest.raises(InputError, match=r"'accel' is not computed since hear"):
        sim.sense(only=("accel",))
    sim.hear(None)
    for _ in range(30):
        sim.step(sim.press.rest_command)
    assert float(sim.sense(only=("accel",))["accel"][0, 2]) == pytest.approx(9.8, abs=1.0)


# ---------------------------------------------------------------- worlds of a task


def worlds_of(task, robot, params=None, count=4, seed=3, **options):
    sims = [sf.Sim(robot, params, worlds=count, engine=which, noise=False) for which in ("warp", "cpu")]
    e = sims[1].params.prior().sample(count, 0)
    for sim in sims:
        sim.apply(e)
    return [World(task, sim, seed=seed, **options) for sim in sims]


@pytest.mark.parametrize("ground", ["flat", "rough"])
def test_observations_and_rewards_agree(go2, ground):
    made = rough(go2, scan=True)
    if ground == "flat":
        device, cpu = worlds_of(LESSONS["go2"].task, go2)
    else:
        device, cpu = worlds_of(made.lesson.task, made.robot, made.params)
    first, expected = device.reset(spread=False), cpu.reset(spread=False)
    for name in expected:
        np.testing.assert_allclose(first[name].numpy(), expected[name].numpy(), atol=1e-5)
    a = torch.zeros(4, 12)
    found, wanted = device.step(a), cpu.step(a)
    loose = 0.02 if ground == "flat" else 0.5  # height fields are met by another collision code
    near = (found.final["policy"] - wanted.final["policy"]).abs()
    assert float(near.median()) < 1e-3
    assert float(near.max()) < loose
    assert float((found.reward - wanted.reward).abs().max()) < 0.01


def test_an_episode_ends_and_begins_with_another_e(go2):
    task = LESSONS["go2"].task
    sim = sf.Sim(go2, worlds=6, engine="warp", seed=1)
    world = World(task, sim, e=sim.params.prior(), seed=1, pool=16)
    world.reset(spread=False)
    before = world.e
    world.age[2] = world._limit - 1
    outcome = world.step(torch.zeros(6, 12))
    assert outcome.ended.tolist() == [2]
    assert bool(outcome.truncated[2])
    assert not bool(outcome.terminated[2])
    ended, after = outcome.e, world.e
    for name, value in ended.items():
        np.testing.assert_allclose(value[0], before[name][2], rtol=1e-4, atol=1e-4, err_msg=name)
    assert abs(after["foot_friction"][2] - before["foot_friction"][2]) > 1e-4
    np.testing.assert_allclose(np.delete(after["foot_friction"], 2), np.delete(before["foot_friction"], 2))
    assert int(world.ticks[2]) == 0
    assert float(outcome.observations["policy"][2].sub(outcome.final["policy"][2]).abs().max()) > 1e-3
    assert float(outcome.observations["policy"][1].sub(outcome.final["policy"][1]).abs().max()) == 0.0


def test_a_fall_ends_the_episode_for_real(go2):
    sim = sf.Sim(go2, worlds=3, engine="warp", seed=1)
    world = World(LESSONS["go2"].task, sim, e=sim.params.prior(), seed=1)
    world.reset(spread=False)
    sim.engine.qpos[1, 2] = 0.1
    outcome = world.step(torch.zeros(3, 12))
    assert outcome.terminated.tolist() == [False, True, False]
    assert float(outcome.reward[1]) < -1.0
    assert outcome.success.tolist() == [0.0]
    assert float(sim.engine.qpos[1, 2]) > 0.2


def test_a_broken_world_is_left_out_and_begins_anew(go2):
    sim = sf.Sim(go2, worlds=3, engine="warp", seed=1)
    world = World(LESSONS["go2"].task, sim, e=sim.params.prior(), seed=1)
    world.reset(spread=False)
    sim.engine.qvel[0, 8] = float("nan")
    outcome = world.step(torch.zeros(3, 12))
    assert outcome.broken.tolist() == [True, False, False]
    assert float(outcome.reward[0]) == 0.0
    for group in outcome.final.values():
        assert bool(torch.isfinite(group).all())
    assert sim.alive.all()
    assert bool(torch.isfinite(world.step(torch.zeros(3, 12)).observations["policy"]).all())


def test_the_humanoid_moves_all_its_joints_on_a_gpu():
    task = GPU_LESSONS["g1"].task
    assert len(task.contract(sf.Sim(sf.load("g1"), worlds=1)).action.joints) == 29


@pytest.mark.slow
def test_feet_meet_the_field_they_stand_on(go2):
    """A model compiled with flat ground carries worlds that stand on steps as high as the CPU engine does."""
    made = rough(go2)
    sims = [sf.Sim(made.robot, made.params, worlds=4, engine=which, noise=False) for which in ("warp", "cpu")]
    heights = []
    for sim in sims:
        sim.apply({"step_height": np.array([0.0, 0.04, 0.08, 0.08]), "slope": np.zeros(4)})
        q = np.tile(sims[1].start_qpos, (4, 1))
        q[:, 0], q[:, 2] = [2.0, 2.0, 2.0, 2.4], q[:, 2] + 0.15
        sim.reset(qpos=q)
        for _ in range(40):
            sim.step(sims[1].rest_command)
        heights.append(np.asarray(sim.engine.qpos)[:, 2])
    np.testing.assert_allclose(heights[0], heights[1], atol=0.004)
    assert heights[1][2] - heights[1][0] > 0.02


def test_histories_move_as_on_the_cpu(go2):
    """A policy that sees its last three steps sees the same on both engines, and only the first one again after a reset."""
    from dataclasses import replace

    from surefoot.contract import Group
    from surefoot.tasks import Velocity

    class Remembering(Velocity):
        def contract(self, sim):
            whole = super().contract(sim)
            terms = tuple(
                replace(t, history=3) if t.source in ("gyro", "last_action") else t for t in whole.group("policy").terms
            )
            newest = Group(name="late", terms=(replace(terms[1], history=4),), order="newest-first")
            return replace(whole, groups=(Group(name="policy", terms=terms), newest, whole.group("critic")))

    device, cpu = worlds_of(Remembering(), go2)
    device.reset(spread=False)
    cpu.reset(spread=False)
    g = torch.Generator().manual_seed(0)
    for step in range(6):
        for world in (device, cpu):
            world.age[1] = world._limit - 1 if step == 3 else 0
        cpu._clock = -1 if step == 3 else 0  # resets of the CPU come in groups: let one be due
        a = 0.1 * torch.randn(4, 12, generator=g)
        found, wanted = device.step(a), cpu.step(a)
        for name in ("policy", "late"):
            near = (found.observations[name] - wanted.observations[name])[[0, 2, 3]].abs()
            assert float(near.median()) < 1e-3
            assert float(near.max()) < 0.3
        if step == 3:
            history = found.observations["late"][1].view(4, 3)
            assert torch.equal(history, history[:1].expand(4, 3))


def test_one_world_can_be_looked_at_on_the_host(go2):
    sim = sf.Sim(go2, worlds=3, engine="warp", noise=False)
    sim.apply({"base_mass": np.array([6.5, 7.5, 8.5])})
    for _ in range(3):
        sim.step(sim.rest_command + 0.2)
    model, data = sim.engine.single(2)
    assert model.body("base").mass[0] == pytest.approx(8.5, rel=1e-6)
    np.testing.assert_allclose(data.qpos, sim.engine.qpos[2].numpy(), atol=1e-6)


def test_nothing_is_collected_while_a_piece_is_recorded():
    import gc
    import weakref

    from surefoot.sim.cuda_pieces import undisturbed

    class Ring:
        def __init__(self):
            self.itself = self

    earlier = weakref.ref(Ring())
    with undisturbed():
        assert earlier() is None, "what could be collected is, before the recording begins"
        assert not gc.isenabled()
        kept = weakref.ref(Ring())
        _ = [Ring() for _ in range(5000)]
        assert kept() is not None
    assert gc.isenabled()
