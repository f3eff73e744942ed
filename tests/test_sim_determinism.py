"""The same bits again: at any thread count, across snapshots, in a replay, and beside worlds that blow up."""

import warnings

import numpy as np
import pytest

import surefoot as sf
from rigs import ENCODER, PENDULUM, WHEEL, rig
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import Params
from surefoot.sim import Sim
from surefoot.sim.failure import load_failure, rerun
from surefoot.sim.record import Recording
from surefoot.sim.residual import Correction

EVERYTHING = {
    "friction": P["friction"](".*_foot", low=0.3, high=1.2),
    "mass": P["mass"]("base", low=6, high=9),
    "coulomb": P["coulomb"](low=0.05, high=0.5),
    "stribeck": P["stribeck"](low=0, high=0.5),
    "load_friction": P["load_friction"](low=0, high=0.2),
    "sag": P["voltage_sag"](low=0, high=0.2),
    "rate_limit": P["rate_limit"](low=2, high=20),
    "command_delay": P["command_delay"](low=0, high=0.03),
    "command_jitter": P["command_jitter"](low=0, high=0.01),
    "sensor_delay": P["sensor_delay"](low=0, high=0.02),
    "sensor_jitter": P["sensor_jitter"](low=0, high=0.01),
    "sensor_dropout": P["sensor_dropout"](low=0, high=0.3),
    "sensor_period": P["sensor_period"]("imu", low=0, high=0.05),
    "velocity_differencing": P["velocity_differencing"](low=0, high=1),
    "velocity_filter": P["velocity_filter"](low=0, high=0.03),
    "gyro_walk": P["gyro_walk"](low=0, high=0.1),
    "push": P["push"](low=0, high=1, interval=0.2),
    "gust": P["gust"](low=0, high=3),
    "torque_noise": P["torque_noise"](low=0, high=0.1),
    "static_friction": P["static_friction"](".*_foot", low=1, high=1.5),
    "floor_vibration": P["floor_vibration"](low=0, high=0.5),
}


class Drag:
    """A residual with memory: a torque against the low-passed joint speed, and a drifting command."""

    def start(self, worlds):
        return {"speed": np.zeros((worlds, 12)), "calls": np.zeros((worlds, 1))}

    def __call__(self, x, memory):
        speed = 0.9 * memory["speed"] + 0.1 * x.joint_vel
        calls = memory["calls"] + 1
        du = 0.01 * np.sin(calls) * np.ones((1, x.u.shape[1]))
        return Correction(dtau=-0.3 * speed, du=du), {"speed": speed, "calls": calls}


def full(threads=1, worlds=6, **more):
    sim = Sim(sf.load("go2"), Params(**EVERYTHING), worlds=worlds, threads=threads, seed=3, **more)
    sim.apply(sim.params.prior().sample(worlds, 0))
    sim.reset()
    return sim


def run(sim, steps, first=0):
    """State and all readings of every step as one array, (steps, worlds, columns)."""
    out = []
    for k in range(first, first + steps):
        rng = np.random.default_rng(k)
        sim.step(sim.rest_command + 0.2 * rng.normal(size=(sim.worlds, sim.model.nu)))
        y = sim.sense()
        out.append(np.concatenate([sim.engine.state, *[y[name] for name in sorted(y)]], axis=1))
    return np.array(out)


def test_trajectories_and_readings_are_the_same_at_any_thread_count():
    one, two, four = (run(full(threads), 40) for threads in (1, 2, 4))
    assert np.isfinite(one).all()
    assert np.array_equal(one, two)
    assert np.array_equal(one, four)


def test_a_world_is_the_same_in_any_company():
    few, many = full(worlds=3), full(worlds=11)
    e = few.params.prior().sample(11, 4)
    many.apply(e)
    few.apply({name: value[:3] for name, value in e.items()})
    few.reset()
    many.reset()
    u = np.random.default_rng(1).normal(size=(30, 11, 12))
    for k in range(30):
        few.step(few.rest_command + 0.2 * u[k, :3])
        many.step(many.rest_command + 0.2 * u[k])
        y, z = few.sense(), many.sense()
        assert np.array_equal(few.engine.state, many.engine.state[:3])
        assert all(np.array_equal(y[name], z[name][:3]) for name in y)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_snapshot_continues_bit_for_bit(fresh):
    sim = full(residual=Drag())
    run(sim, 15)
    kept = sim.snapshot()
    y = sim.sense()
    onward = run(sim, 25, first=15)
    if fresh:
        sim = Sim(sf.load("go2"), Params(**EVERYTHING), worlds=6, residual=Drag())
    sim.restore(kept)
    assert all(np.array_equal(value, y[name]) for name, value in sim.sense().items())
    assert np.array_equal(run(sim, 25, first=15), onward)


def test_a_snapshot_is_made_of_plain_arrays_that_stay(tmp_path):
    sim = full()
    run(sim, 3)
    kept = sim.snapshot()
    copies = {name: value.copy() for name, value in kept.items()}
    run(sim, 3, first=3)
    assert all(np.array_equal(kept[name], copies[name], equal_nan=True) for name in kept)
    np.savez(tmp_path / "snapshot.npz", **kept)
    with np.load(tmp_path / "snapshot.npz", allow_pickle=False) as stored:
        sim.restore(dict(stored))
    assert np.array_equal(sim.engine.state, kept["state"])


def test_a_reset_forgets_the_episode_before():
    """Two episodes from the same state differ by their noise alone, so without noise not at all."""
    sim = full(noise=False)
    first = run(sim, 12)
    run(sim, 7, first=50)
    sim.reset()
    time = sim.model.nq * 0  # the state's first column is the time since reset
    assert sim.engine.state[0, time] == 0.0
    assert np.array_equal(run(sim, 12), first)


# -------------------------------------------------------------------- replay of the sim's own log


def own_log(sim, world, steps, scale):
    recording = Recording(sim, world, truth=True)
    rng = np.random.default_rng(5)
    for k in range(steps):
        u = np.tile(sim.rest_command, (sim.worlds, 1))
        if k > 4:  # before a log's first command its first command is taken to have stood for ever
            u += scale * rng.uniform(-1 if sim.command_channel != "rotor_target" else 0, 1, size=u.shape)
        recording.add(sim.sense(), u)
        sim.step(u)
    return recording.log()


def own_gap(sim, scale=0.3, steps=40):
    """Largest gap by channel of the replay of world 2's log under world 2's e."""
    e = sim.params.prior().sample(sim.worlds, 8)
    sim.apply(e)
    sim.reset()
    q, v = sim.engine.qpos[2].copy(), sim.engine.qvel[2].copy()
    log = own_log(sim, 2, steps, scale)
    replay = sim.replay(log, {name: value[2:3] for name, value in e.items()}, qpos=q, qvel=v)
    other = sim.replay(log, {name: value[:1] for name, value in e.items()}, qpos=q, qvel=v)
    assert max(np.abs(other.gap(name)).max() for name in other.values) > 1e-4  # another e does not give it
    return {name: np.abs(replay.gap(name)).max() for name in replay.values}


def nothing(gap, rounding=0.0):
    """Whether the gap is exactly zero, or `rounding` relative to a channel's size; attitude is computed anew."""
    size = {"foot_force": 100.0, "accel": 100.0, "joint_torque": 10.0}
    allowed = {name: rounding * size.get(name, 1.0) for name in gap} | {
        "quat": 1e-15 + rounding,
        "gravity": 1e-15 + rounding,
    }
    return all(value <= allowed[name] for name, value in gap.items())


def test_a_replayed_walk_on_the_ground_has_no_gap():
    names = ("friction", "mass", "coulomb")
    sim = Sim(sf.load("go2"), Params(**{n: EVERYTHING[n] for n in names}), worlds=4, noise=False)
    gap = own_gap(sim)
    assert nothing(gap), gap
    assert {"joint_pos", "joint_vel", "joint_torque", "gyro", "accel", "foot_force", "quat", "base_pos"} <= set(gap)


@pytest.mark.parametrize(
    "names",
    [
        ("rate_limit",),
        ("stribeck", "load_friction", "coulomb"),
        ("sag", "stribeck"),
        ("static_friction", "friction"),
        ("floor_vibration",),
    ],
)
def test_laws_replay_without_a_gap(names):
    sim = Sim(sf.load("go2"), Params(**{n: EVERYTHING[n] for n in names}), worlds=4, noise=False)
    gap = own_gap(sim)
    assert nothing(gap), gap


@pytest.mark.parametrize(
    "names", [("command_delay",), ("command_delay", "rate_limit"), ("sensor_delay", "sensor_period", "mass")]
)
def test_delays_replay_without_a_gap_but_for_rounding(names):
    """A delay's share of a substep comes from the log's clock in one case and from the delay in the other."""
    sim = Sim(sf.load("go2"), Params(**{n: EVERYTHING[n] for n in names}), worlds=4, noise=False)
    gap = own_gap(sim)
    assert nothing(gap, rounding=1e-9), gap


def test_rotors_replay_without_a_gap():
    params = {
        "lag": P["rotor_lag"](low=0.02, high=0.1), "mass": P["mass"]("base", low=0.025, high=0.035),
        "command_delay": P["command_delay"](low=0, high=0.02), "drag": P["drag"](low=0, high=0.01),
    }  # fmt: skip
    sim = Sim(sf.load("crazyflie"), Params(**params), worlds=4, noise=False)
    gap = own_gap(sim, scale=0.7)
    assert nothing(gap, rounding=1e-12), gap


def test_a_residual_replays_without_a_gap():
    sim = Sim(sf.load("go2"), Params(friction=EVERYTHING["friction"]), worlds=4, noise=False, residual=Drag())
    gap = own_gap(sim)
    assert nothing(gap), gap


# -------------------------------------------------------------------- worlds that blow up


def planted(folder, **more):
    sim = full(failures=folder, **more)
    run(sim, 5)
    sim.engine.qvel[4, 7] = 1e12
    with pytest.warns(RuntimeWarning, match=r"1 of 6 worlds \(4\).*control step 5.*frozen until reset.*world4_step5"):
        out = run(sim, 1, first=5)
    return sim, out


@pytest.mark.parametrize("value", [1e12, np.nan, np.inf])
def test_a_world_that_leaves_the_numbers_is_named_with_its_step_and_e(value):
    sim = full()
    run(sim, 5)
    sim.engine.qvel[4, 7] = value
    with pytest.warns(RuntimeWarning, match="world 4 had friction="):
        run(sim, 1, first=5)
    assert sim.alive.tolist() == [True] * 4 + [False, True]
    (found,) = sim.failures
    assert (found.world, found.step, found.robot) == (4, 5, "go2")
    assert all(np.array_equal(value, sim.e[name][4]) for name, value in found.e.items())


def test_the_other_worlds_do_not_notice_a_failure(tmp_path):
    clean = full()
    undisturbed = run(clean, 25)
    sim, out = planted(tmp_path)
    others = [0, 1, 2, 3, 5]
    assert np.array_equal(out[:, others], undisturbed[5:6, others])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is told once
        rest = run(sim, 19, first=6)
    assert np.array_equal(rest[:, others], undisturbed[6:, others])


def test_a_failed_world_is_frozen_until_reset_and_then_lives_again(tmp_path):
    sim, _ = planted(tmp_path)
    e = sim.engine
    frozen = e.qpos[4].copy(), e.qvel[4].copy(), e.time[4].copy()
    run(sim, 5, first=6)
    for now, then in zip((e.qpos[4], e.qvel[4], e.time[4]), frozen, strict=True):
        assert np.array_equal(now, then, equal_nan=True)
    sim.reset([4])
    assert sim.alive.all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = run(sim, 10, first=20)
    assert np.isfinite(again).all()
    assert (np.diff(again[:, 4, 0]) > 0).all()  # its time goes on


def test_a_failure_can_be_run_again_from_its_file(tmp_path):
    sim, _ = planted(tmp_path)
    (file,) = tmp_path.glob("*.npz")
    found = load_failure(file)
    assert (found.world, found.step, found.robot_hash) == (4, 5, sim.robot.hash)
    assert rerun(full(worlds=2), found)
    sane = Sim(sf.load("go2"), Params(**EVERYTHING), worlds=2)
    healthy = found.state.copy()
    healthy[np.abs(healthy) > 1e9] = 0.0
    assert not rerun(sane, type(found)(**{**vars(found), "state": healthy}))


def test_a_failure_of_another_model_or_a_broken_file_is_one_sentence(tmp_path):
    planted(tmp_path)
    (file,) = tmp_path.glob("*.npz")
    with pytest.raises(sf.InputError, match="make the Sim it came from"):
        rerun(Sim(sf.load("servo")), load_failure(file))
    (tmp_path / "cut.npz").write_bytes(file.read_bytes()[:200])
    with pytest.raises(sf.InputError, match="not the file of a failed world"):
        load_failure(tmp_path / "cut.npz")


def test_a_snapshot_keeps_the_dead_dead(tmp_path):
    sim, _ = planted(tmp_path)
    kept = sim.snapshot()
    sim.reset()
    sim.restore(kept)
    assert sim.alive.tolist() == [True] * 4 + [False, True]
    assert np.isfinite(run(sim, 3, first=6)[:, [0, 1, 2, 3, 5]]).all()


def test_a_robot_without_laws_or_tape_freezes_its_failure_too(tmp_path):
    sim = Sim(rig(tmp_path, WHEEL, motor='model = "torque"\n'), Params(), worlds=3)
    sim.engine.qvel[1] = np.nan
    with pytest.warns(RuntimeWarning, match="world 1 had the nominal e"):
        sim.step(np.array([1.0]))
    stopped = sim.time[1]
    sim.step(np.array([1.0]))
    assert sim.time.tolist() == pytest.approx([0.01, stopped, 0.01])
    assert np.isfinite(sim.sense()["joint_pos"][[0, 2]]).all()


def test_a_delayed_reading_of_a_dead_world_stays(tmp_path):
    robot = rig(tmp_path, PENDULUM, motor='model = "torque"\n', sensors=ENCODER)
    sim = Sim(robot, Params(sensor_delay=P["sensor_delay"](low=0, high=0.02)), worlds=2, noise=False)
    sim.apply({"sensor_delay": 0.02})
    sim.reset(qpos=np.array([0.5]))
    for _ in range(5):
        sim.step(np.zeros(1))
    sim.engine.qvel[1] = np.nan
    with pytest.warns(RuntimeWarning, match="frozen"):
        sim.step(np.zeros(1))
    for _ in range(6):
        sim.step(np.zeros(1))
    assert np.isfinite(sim.sense()["joint_pos"][0]).all()
