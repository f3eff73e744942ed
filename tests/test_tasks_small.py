"""The small tasks: what they pay at planted states, when they end, that nothing leaks, that worlds repeat, that they can be learned."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.errors import InputError
from surefoot.evaluate import judge_world
from surefoot.learn.presets import settings
from surefoot.sim import Sim
from surefoot.tasks import Hop, Hover, Reach, Track, World, reach, swing_up
from surefoot.tasks.agree import sensor_channels

TASKS = {
    "cartpole": (swing_up.cartpole(), "cartpole"),
    "qube": (swing_up.qube(), "qube"),
    "double_pendulum": (swing_up.double_pendulum(), "double_pendulum"),
    "hover": (Hover(), "crazyflie"),
    "track": (Track(), "crazyflie"),
    "hop": (Hop(), "hopper"),
    "reach": (Reach(), "so101"),
}
everyone = pytest.mark.parametrize("name", TASKS)


def make(name: str, *, worlds: int = 4, seed: int = 0, prior: bool = True, noise: bool = True, **changes) -> World:
    task, robot = TASKS[name]
    sim = Sim(settings(robot).robot(sf.load(robot)), worlds=worlds, seed=seed, noise=noise, threads=1)
    return World(replace(task, **changes), sim, e=sim.params.prior() if prior else None, seed=seed)


def plant(world: World, qpos: np.ndarray, qvel: np.ndarray | None = None) -> torch.Tensor:
    """Put all worlds into one state and return the reward per second there, with the last actions at 0."""
    world.reset(spread=False)
    world.sim.reset(qpos=qpos, qvel=np.zeros(world.sim.model.nv) if qvel is None else qvel)
    s = world._situation()
    fallen = world.task.fallen(s)
    return world.task.total(world.task.rewards(s), fallen) / world.sim.control_dt


def at(world: World, **joints: float) -> np.ndarray:
    qpos = np.array(world.sim.start_qpos)
    for name, value in joints.items():
        qpos[world.sim.sensors.q[world.sim.robot.joints.index(name)]] = value
    return qpos


def ends(world: World) -> bool:
    return bool(world.task.fallen(world._situation()).all())


def roll(world: World, steps: int, seed: int = 7) -> list[torch.Tensor]:
    """Observations and rewards under seeded random actions."""
    draw = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(steps):
        o = world.step(torch.randn(world.worlds, world.actions, generator=draw))
        out += [*o.observations.values(), o.reward]
    return out


# -------------------------------------------------------------------- all of them


@everyone
def test_the_policy_sees_only_what_sensors_give(name):
    world = make(name)
    given = set(world.sim.sense())
    assert set(sensor_channels(world.sim)) <= given
    for group in ("policy", "history"):
        for term in world.contract.group(group).terms:
            assert term.source in given | {"last_action", "command"}


@everyone
def test_a_privileged_channel_is_refused_in_the_policys_groups(name):
    world = make(name)
    contract = world.contract
    privileged = {*world.task.privileged(world._situation()), "e"}
    terms = [term for term in contract.group("critic").terms if term.source in privileged]
    assert len(terms) == len(privileged)
    for term in terms:
        for group in (g for g in contract.groups if not g.privileged):
            leaky = replace(group, terms=(*group.terms, term))
            with pytest.raises(InputError, match="only a privileged group may"):
                replace(contract, groups=tuple(leaky if g is group else g for g in contract.groups))


@everyone
def test_the_policys_view_does_not_change_with_e_alone(name):
    """Same state, same sensors, another mass or motor: the policy's first observation is the same, but for what
    measures a bias or a force."""
    world = make(name, noise=False, prior=False)
    biased = [n for n, p in world.sim.params.items() if p.kind in ("encoder_bias", "gyro_bias")]
    e = {n: v for n, v in world.sim.params.prior().sample(world.worlds, 3).items() if n not in biased}
    first = world.reset(spread=False)
    world.restore(make(name, noise=False, prior=False).snapshot())
    world.sim.apply(e)
    again = world.reset(spread=False)
    for group in ("policy", "history"):
        free = [not label.startswith("accel") for label in world.contract.group(group).labels]
        assert torch.allclose(first[group][:, free], again[group][:, free], atol=1e-6)
    assert not torch.allclose(first["critic"], again["critic"], atol=1e-3)


@everyone
def test_a_restored_world_goes_on_bit_for_bit(name):
    world = make(name, worlds=6)
    world.reset()
    roll(world, 40)
    saved = world.snapshot()
    expected = roll(world, 60, seed=1)
    other = make(name, worlds=6)
    other.reset()
    other.restore(saved)
    for a, b in zip(expected, roll(other, 60, seed=1), strict=True):
        assert torch.equal(a, b)


@everyone
def test_the_same_seed_gives_the_same_trajectory_and_another_does_not(name):
    def run(seed):
        world = make(name, seed=seed)
        return [*world.reset().values(), *roll(world, 30)]

    a, b, c = run(3), run(3), run(4)
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    assert not all(torch.equal(x, y) for x, y in zip(a, c, strict=True))


@everyone
def test_reward_terms_add_up_and_are_finite(name):
    world = make(name, worlds=8)
    world.reset()
    for _ in range(30):
        o = world.step(torch.randn(8, world.actions))
        assert all(value.shape == (8,) and bool(torch.isfinite(value).all()) for value in o.terms.values())
        assert torch.allclose(world.task.total(o.terms, o.terminated), o.reward)


@everyone
def test_before_an_episode_action_zero_was_commanded(name):
    world = make(name)
    world.reset()
    held = world.sim.commands.history
    assert np.allclose(held, held[:, :1])
    assert np.allclose(held[:, 0], world._idle)


def test_a_robot_without_a_preset_is_named():
    with pytest.raises(InputError, match="cartpole"):
        settings("cartpol")


# -------------------------------------------------------------------- swing-up


@pytest.mark.parametrize(
    ("name", "hinge"), [("cartpole", "hinge"), ("qube", "pendulum"), ("double_pendulum", "joint1")]
)
def test_upright_and_centred_pays_most(name, hinge):
    world = make(name, prior=False)
    best = plant(world, at(world, **{hinge: np.pi}))
    assert torch.allclose(best, torch.full((4,), 2.0), atol=1e-3)
    assert torch.allclose(plant(world, at(world, **{hinge: -np.pi})), best, atol=1e-4)
    for angle in (0.0, 1.0, 2.5, np.pi - 0.2):
        assert bool((plant(world, at(world, **{hinge: angle})) < best - 0.05).all())
    assert float(plant(world, at(world))[0]) == pytest.approx(0.0, abs=1e-4)


def test_a_share_of_practice_starts_at_any_angle():
    world = make("cartpole", worlds=400, prior=False, anywhere=0.3)
    world.reset()
    angle = world._situation().truth["hinges"][:, 0].abs()
    assert float((angle > 0.1001).float().mean()) == pytest.approx(0.3, abs=0.07)
    assert settings("cartpole").task(TASKS["cartpole"][0]).anywhere > 0
    assert TASKS["cartpole"][0].anywhere == 0


def test_height_is_worth_less_near_the_rails_end():
    world = make("cartpole", prior=False)
    paid = [float(plant(world, at(world, hinge=np.pi, slider=x))[0]) for x in (0.0, 0.5, 1.0, 1.6)]
    assert paid == sorted(paid, reverse=True)


def test_the_second_link_must_stand_too():
    world = make("double_pendulum", prior=False)
    one_link = pytest.approx(0.25, abs=1e-3)
    assert float(plant(world, at(world, joint1=np.pi, joint2=np.pi))[0]) == one_link
    assert float(plant(world, at(world, joint1=0.0, joint2=np.pi))[0]) == one_link
    assert float(plant(world, at(world, joint1=np.pi))[0]) == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "hinge"), [("cartpole", "hinge"), ("qube", "pendulum"), ("double_pendulum", "joint2")]
)
def test_a_whole_turn_of_a_hinge_changes_nothing_the_policy_sees(name, hinge):
    world = make(name, prior=False, noise=False)
    seen = []
    for angle in (0.4, 0.4 + 2 * np.pi, 0.4 - 2 * np.pi):
        plant(world, at(world, **{hinge: angle}))
        world.builder.reset()
        s = world._situation()
        seen.append(world.builder.observe(world._readings(s), command=world.command)["policy"])
        assert not ends(world)
    assert torch.allclose(seen[0], seen[1], atol=4e-3)  # one count of the encoder
    assert torch.allclose(seen[0], seen[2], atol=4e-3)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("cartpole", {"slider": 1.75}),
        ("qube", {"arm": -2.25}),
    ],
)
def test_swing_up_ends_at_the_carriages_end(name, place):
    world = make(name, prior=False)
    assert bool((plant(world, at(world, **place)) == 0.0).all())
    assert ends(world)
    plant(world, at(world, **{k: 0.9 * v for k, v in place.items()}))
    assert not ends(world)


def test_success_counts_the_upright_share_of_the_second_half():
    world = make("cartpole", worlds=3, episode=1.0, prior=False)
    world.reset(spread=False)
    task, s = world.task, world._situation()
    standing = torch.tensor([[1, 1, 0]] * 25 + [[1, 0, 1]] * 2 + [[1, 1, 1]] * 23, dtype=torch.bool)
    for step, up in enumerate(standing):
        s.time[:] = step * 0.02  # whatever the control period
        s.truth["standing"] = up
        task.pass_time(s)
    no = torch.zeros(3, dtype=torch.bool)
    assert task.success(s, no).tolist() == [1.0, 1.0, 1.0]
    s.truth["standing"] = torch.tensor([True, False, True])
    for _ in range(4):
        task.pass_time(s)
    assert task.success(s, no).tolist() == [1.0, 0.0, 1.0]
    assert task.success(s, ~no).tolist() == [0.0, 0.0, 0.0]


# -------------------------------------------------------------------- quadrotor


def flying(world: World, place=(0.0, 0.0, 1.0), quat=(1.0, 0.0, 0.0, 0.0)) -> np.ndarray:
    qpos = np.array(world.sim.start_qpos)
    qpos[:3], qpos[3:7] = place, quat
    return qpos


def test_hover_pays_most_level_and_still_at_the_point():
    world = make("hover", prior=False)
    best = plant(world, flying(world))
    assert torch.allclose(best, torch.full((4,), 3.0), atol=1e-4)
    assert bool((plant(world, flying(world, place=(0.1, 0.0, 1.0))) < best - 0.5).all())
    assert bool((plant(world, flying(world, quat=(0.9, np.sqrt(1 - 0.81), 0.0, 0.0))) < best - 0.05).all())
    assert bool((plant(world, flying(world, quat=(0.9, 0.0, 0.0, np.sqrt(1 - 0.81)))) < best - 0.05).all())
    assert bool((plant(world, flying(world), np.array([1.0, 0, 0, 0, 0, 0])) < best - 0.04).all())


@pytest.mark.parametrize(
    ("place", "quat", "ended"),
    [
        ((0, 0, 0.04), (1, 0, 0, 0), True),
        ((0, 1.6, 1.0), (1, 0, 0, 0), True),
        ((0, 0, 1.0), (0.5, np.sqrt(0.75), 0, 0), True),
        ((0, 1.4, 1.0), (np.cos(0.7), np.sin(0.7), 0, 0), False),
    ],
)
def test_a_flight_ends_on_the_ground_far_away_or_upside_down(place, quat, ended):
    world = make("hover", prior=False)
    plant(world, flying(world, place=place, quat=quat))
    assert ends(world) == ended


def test_starts_are_tilted_up_to_the_stated_angle():
    world = make("hover", worlds=512, prior=False)
    world.reset()
    tilt = torch.arccos(world._situation().truth["up"])
    assert 1.1 < float(tilt.max()) <= 1.2 + 1e-4
    assert float(world._situation().truth["heading"].abs().median()) < 0.6


def test_rotors_hold_the_nominal_robot_at_action_zero():
    world = make("hover", worlds=1, prior=False, noise=False, tilt=0.0, heading=0.0, spin=0.0, away=0.0, speed=0.0)
    world.reset()
    for _ in range(100):
        world.step(torch.zeros(1, 4))
    assert world.situation is not None
    assert float(world.situation.truth["distance"]) < 0.01


def test_the_deck_measures_position_with_its_noise():
    sim = Sim(sf.load("crazyflie"), worlds=4000, seed=1, threads=1)
    y, x = sim.sense(), sim.truth()
    assert np.std(y["base_pos"] - x["base_pos"]) == pytest.approx(0.005, rel=0.03)
    assert np.std(y["base_vel_world"] - x["base_vel_world"]) == pytest.approx(0.02, rel=0.03)
    assert np.array_equal(sim.sense(noisy=False)["base_pos"], x["base_pos"])


def test_the_tracked_point_moves_on_its_ellipse():
    world = make("track", worlds=2, prior=False, farthest=1e9, tilt=0.0)
    world.reset(spread=False)
    first, middle, omega = world.command.clone(), torch.tensor([0.0, 0.0, 1.0]), 2 * np.pi / 6.0
    s = world._situation()
    for step in range(1, 151):
        world.task.pass_time(s)
        t = step * world.sim.control_dt
        c, sine = np.cos(omega * t), np.sin(omega * t)
        assert torch.allclose(
            world.command[:, :3], middle + c * (first[:, :3] - middle) + sine / omega * first[:, 3:], atol=1e-3
        )
        assert torch.allclose(
            world.command[:, 3:], c * first[:, 3:] - omega * sine * (first[:, :3] - middle), atol=1e-3
        )


# -------------------------------------------------------------------- hopper and arm


def test_hopping_pays_most_at_the_commanded_speed():
    world = make("hop", prior=False)
    start = at(world)

    def paid(speed):
        world.reset(spread=False)
        world.command[:] = 0.8
        qvel = np.zeros(world.sim.model.nv)
        qvel[0] = speed
        world.sim.reset(qpos=start, qvel=qvel)
        s = world._situation()
        return float(torch.stack(list(world.task.rewards(s).values())).sum(0)[0]) / world.sim.control_dt

    assert paid(0.8) == pytest.approx(2.5, abs=1e-3)
    assert paid(0.8) > paid(0.6) > paid(0.0) > paid(-0.5)


@pytest.mark.parametrize(
    ("place", "ended"), [({"root_z": 0.4}, True), ({"root_pitch": 0.9}, True), ({"root_pitch": 0.7}, False)]
)
def test_a_hopper_falls_when_low_or_pitched(place, ended):
    world = make("hop", prior=False)
    plant(world, at(world, **place))
    assert ends(world) == ended


def test_reaching_pays_most_at_the_point():
    world = make("reach", prior=False)
    world.reset(spread=False)
    tip = world._situation().truth["miss"] + world.command
    paid = []
    for away in (0.0, 0.01, 0.03, 0.2):
        world.command[:] = tip + torch.tensor([away, 0.0, 0.0])
        s = world._situation()
        assert torch.allclose(s.truth["distance"], torch.full((4,), away), atol=1e-6)
        paid.append(float(world.task.total(world.task.rewards(s), world.task.fallen(s))[0]) / world.sim.control_dt)
    assert paid[0] == pytest.approx(2.0, abs=1e-3)
    assert paid == sorted(paid, reverse=True)


def test_the_tips_place_is_that_of_the_model():
    import mujoco

    world = make("reach", worlds=2, prior=False)
    world.reset()
    data = mujoco.MjData(world.sim.model)
    data.qpos[:] = world.sim.engine.qpos[1]
    mujoco.mj_kinematics(world.sim.model, data)
    tip = world._situation().truth["miss"][1] + world.command[1]
    assert np.allclose(tip.numpy(), data.site("tip").xpos, atol=1e-5)


def test_reach_draws_points_that_the_arm_can_reach():
    import mujoco

    world = make("reach", worlds=1, prior=False)
    model, data = world.sim.model, mujoco.MjData(world.sim.model)
    rng = np.random.default_rng(0)
    places = [world.sim.sensors.q[world.sim.robot.joints.index(j)] for j in TASKS["reach"][0].drive]
    low, high = (np.array([model.joint(j).range[k] for j in TASKS["reach"][0].drive]) for k in (0, 1))
    tips = []
    for _ in range(20_000):
        data.qpos[places] = rng.uniform(low, high)
        mujoco.mj_kinematics(model, data)
        tips.append(data.site("tip").xpos.copy())
    points = world.task.draw_commands(50, rng)
    nearest = np.linalg.norm(points[:, None] - np.array(tips)[None], axis=2).min(1)
    assert nearest.max() < 0.03


def test_biases_that_the_arm_cannot_see_decide_how_near_counts_as_reached():
    """An arm whose encoders read exactly the right angles: the share of points it then misses, to first order."""
    import mujoco

    world = make("reach", worlds=1, prior=False)
    model, data, task = world.sim.model, mujoco.MjData(world.sim.model), world.task
    bias = world.sim.params["encoder_bias"]
    rng = np.random.default_rng(0)
    joints = [model.joint(j) for j in task.drive]
    places, dofs = [int(j.qposadr[0]) for j in joints], [int(j.dofadr[0]) for j in joints]
    low, high = (np.array([j.range[k] for j in joints]) for k in (0, 1))
    missed = []
    for point in task.draw_commands(60, rng):
        data.qpos[:] = world.sim.start_qpos
        whole, error = np.zeros((3, model.nv)), np.zeros(3)
        for _ in range(40):
            mujoco.mj_forward(model, data)
            mujoco.mj_jacSite(model, data, whole, None, model.site("tip").id)
            J, error = whole[:, dofs], point - data.site("tip").xpos
            step = 0.5 * J.T @ np.linalg.solve(J @ J.T + 1e-4 * np.eye(3), error)
            data.qpos[places] = np.clip(data.qpos[places] + step, low, high)
        wrong = rng.uniform(bias.low, bias.high, (200, len(dofs)))
        missed.append(np.linalg.norm(error - wrong @ whole[:, dofs].T, axis=1))
    assert 0.7 < np.mean(np.concatenate(missed) < 0.02) < 0.85
    assert np.mean(np.concatenate(missed) < reach.NEAR) > 0.95


def test_without_speed_sensors_the_policy_sees_past_turns_instead():
    world = make("cartpole", speeds=False)
    labels = world.contract.group("history").labels
    assert "past_hinges[sin hinge] t-3" in labels
    assert not any(label.startswith("joint_vel") for label in world.contract.group("policy").labels)
    assert world.reset()["history"].shape == (4, 4 + 4 * 2 + 4)


# -------------------------------------------------------------------- learning


def test_judging_counts_every_world_once():
    world = make("hop", worlds=16, episode=1.0)
    still = judge_world(world, lambda observations, ended: torch.zeros(16, 3))
    limp = judge_world(world, lambda observations, ended: torch.full((16, 3), -3.0))
    assert still.worlds == limp.worlds == 16
    assert limp.fell.sum() > still.fell.sum()
    assert limp.success.sum() == 0.0
