"""Replay: a log's commands under many e, from real recordings too; candidates are told apart, mistakes are named."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.sim.gap import gaps, noise_floor
from surefoot.sim.record import Recording


def recorded(sim: sf.Sim, steps: int = 120) -> sf.Log:
    recording = Recording(sim)
    for step in range(steps):
        t = step * sim.control_dt
        u = sim.rest_command + (0.4 * np.sin(2 * np.pi * (0.5 + t) * t) if step > 4 else 0.0)
        recording.add(sim.sense(), u)
        sim.step(np.broadcast_to(u, (sim.worlds, len(u))))
    return recording.log()


@pytest.fixture(scope="module")
def servo() -> sf.Sim:
    return sf.Sim(sf.load("servo"), noise=False)


@pytest.mark.slow
def test_replay_singles_out_the_planted_e_among_a_thousand(servo):
    planted = servo.params.prior().sample(1, 11)
    servo.apply(planted)
    servo.reset()
    log = recorded(servo)
    candidates = servo.params.prior().sample(1000, 5)
    for name, value in planted.items():
        candidates[name][617] = value[0]
    replay = servo.replay(log, candidates, qpos=servo.start_qpos, qvel=np.zeros(1))
    score = (replay.gap("joint_pos") ** 2).mean(axis=(1, 2))
    assert score.argmin() == 617
    assert score[617] == 0.0
    assert np.sort(score)[1] > 1e-6


def test_replay_leaves_the_sim_itself_untouched(servo):
    before = servo.snapshot()
    servo.replay(recorded(servo.replace()), servo.params.prior().sample(3, 0))
    after = servo.snapshot()
    assert all(np.array_equal(before[key], after[key], equal_nan=True) for key in before)


@pytest.mark.slow
def test_replay_gives_the_same_bits_in_any_company(servo):
    log = recorded(servo.replace())
    many = servo.params.prior().sample(300, 3)
    alone = servo.replay(log, {name: value[37:38] for name, value in many.items()})
    among = servo.replay(log, many)
    assert np.array_equal(alone.values["joint_pos"][0], among.values["joint_pos"][37])


def test_replay_starts_at_a_window_of_the_log(servo):
    sim = servo.replace()
    log = recorded(sim)
    e = {name: value for name, value in sim.e.items()}
    whole = sim.replay(log, e)
    part = sim.replay(log, e, start=0.2, stop=0.4)
    assert part.t["joint_pos"][0] == pytest.approx(0.2)
    assert part.t["joint_pos"][-1] == pytest.approx(0.4)
    assert np.abs(part.gap("joint_pos")).max() < 0.05
    assert np.abs(whole.gap("joint_pos")).max() < 0.05


@pytest.mark.parametrize("late", [0.001, 0.009])
def test_filtered_speeds_of_a_sims_own_log_leave_no_gap(late):
    sim = sf.Sim(sf.load("qube"), noise=False)
    sim.apply(sim.params.nominal_e(1) | {"velocity_filter": late})
    log = recorded(sim)
    assert np.ptp(log["joint_vel"].values) > 1.0
    assert np.array_equal(sim.replay(log, dict(sim.e)).gap("joint_vel"), np.zeros((1, *log["joint_vel"].values.shape)))
    wrong = sim.replay(log, {**sim.e, "velocity_filter": np.array([0.018])}).gap("joint_vel")
    assert np.sqrt(np.mean(wrong**2)) > 0.02


def test_a_diverging_candidate_is_named_and_leaves_no_numbers():
    sim = sf.Sim(sf.load("cartpole"), noise=False)
    log = recorded(sim)
    qvel = np.zeros((2, sim.model.nv))
    qvel[0] = 1e11
    replay = sim.replay(log, sim.params.nominal_e(2), qvel=qvel)
    assert replay.diverged.tolist() == [True, False]
    assert np.isnan(replay.values["joint_pos"][0]).all()
    assert np.isfinite(replay.values["joint_pos"][1]).all()


def test_a_replayed_world_is_a_log_again(servo):
    log = recorded(servo.replace())
    world = servo.replay(log).world(0)
    assert world.names[0] == "joint_pos_target"
    assert np.array_equal(world["joint_pos"].t, log["joint_pos"].t)
    assert world.meta["of"] == log.hash


def test_the_gap_recovers_a_planted_offset_and_noise():
    rng = np.random.default_rng(0)
    smooth = np.sin(np.linspace(0, 6, 4000))
    assert noise_floor(smooth + rng.normal(0, 2e-3, 4000)) == pytest.approx(2e-3, rel=0.06)
    sim = sf.Sim(sf.load("servo"), noise=False)
    log = recorded(sim)
    replay = sim.replay(log, {"encoder_bias": np.array([0.03])}, qpos=sim.start_qpos, qvel=np.zeros(1))
    found = {g.channel: g for g in gaps(replay)}["joint_pos"]
    assert found.bias == pytest.approx(-0.03, abs=2e-3)
    assert found.unit == "rad"


def test_readings_that_are_lost_are_counted_and_left_out_of_the_gap():
    """A planted offset is found beside as many readings as arrived; one in a replay that left the numbers is not."""
    rng = np.random.default_rng(1)
    sim = sf.Sim(sf.load("servo"), noise=False)
    log = recorded(sim)
    encoder = log["joint_pos"]
    noisy = replace(encoder, values=encoder.values + rng.normal(0, 2e-3, encoder.values.shape), nan=True)
    values = noisy.values.copy()
    values[10:40] = np.nan
    e, still = {"encoder_bias": np.array([0.03])}, {"qpos": sim.start_qpos, "qvel": np.zeros(1)}
    for channel, missing in ((noisy, 0), (replace(noisy, values=values), 30)):
        replay = sim.replay(replace(log, channels=(*log.u, channel)), e, **still)
        (found,) = gaps(replay)
        assert found.missing == missing
        assert found.bias == pytest.approx(-0.03, abs=2e-3)
        assert found.rms == pytest.approx(0.03, abs=3e-3)
        assert found.worst == pytest.approx(0.035, abs=5e-3)
        assert found.floor == pytest.approx(2e-3, rel=0.3)
    nothing = replace(replay, log=replace(log, channels=(*log.u, replace(noisy, values=np.full_like(values, np.nan)))))
    (found,) = gaps(nothing)
    assert found.missing == len(values)
    assert np.isnan([found.rms, found.worst, found.bias, found.floor]).all()
    gone = replace(replay, values={name: np.full_like(v, np.nan) for name, v in replay.values.items()})
    assert np.isnan(gaps(gone)[0].rms)


MISTAKES = [
    ({"e": {"kpp": np.ones(3)}}, "'kpp' is not a param"),
    ({"e": {"kp": np.ones(3), "kd": np.ones(2)}}, "give every param the same number"),
    ({"start": 99.0}, "nothing to replay"),
    ({"channels": ("gyro",)}, "cannot be replayed with this robot's sensors"),
    ({"hold": ("elbow",)}, "'elbow' is not an actuator"),
]


@pytest.mark.parametrize(("options", "sentence"), MISTAKES, ids=[s for _, s in MISTAKES])
def test_a_mistake_gets_one_sentence(servo, options, sentence):
    log = recorded(servo.replace(), 20)
    with pytest.raises(sf.InputError, match=sentence):
        servo.replay(log, **options)


def test_a_log_of_another_robot_is_refused_by_what_it_lacks(servo):
    log = recorded(sf.Sim(sf.load("cartpole"), noise=False), 20)
    with pytest.raises(sf.InputError, match="is commanded by 'joint_pos_target', which this log lacks"):
        servo.replay(log)


RECORDINGS = [
    ("emps", "emps", {}, 0.012),
    ("quanser_wam_simurlacra/qq_chrip*", "qube", {}, 0.6),
    ("double_pendulum_dfki/sys_id_C1", "double_pendulum", {}, 0.3),
    ("so101_sage/chirp_sweep", "so101", {"hold": ("gripper",)}, 0.3),
]


@pytest.mark.data
@pytest.mark.parametrize(("folder", "robot", "options", "most"), RECORDINGS, ids=[r for _, r, _, _ in RECORDINGS])
def test_real_recordings_replay_on_their_robots(data_dir, folder, robot, options, most):
    found = sorted(data_dir.glob(folder))
    if not found:
        pytest.skip(f"the set {folder} is absent")
    log = sf.read_logs(found[0])[0]
    replay = sf.Sim(sf.load(robot)).replay(log, **options)
    rms = np.sqrt((replay.gap("joint_pos") ** 2).mean(axis=(0, 1)))
    spread = replay.log["joint_pos"].pick(replay.columns["joint_pos"]).values.std(0)
    assert not replay.diverged.any()
    assert (rms < most).all()
    assert (rms < 2 * spread + 0.05).all()


@pytest.mark.data
def test_legs_in_the_air_are_nearer_with_less_damping_than_the_public_model_has(data_dir):
    folder = data_dir / "go2_motor"
    if not folder.is_dir():
        pytest.skip("the set go2_motor is absent")
    logs = [log for log in sf.read_logs(folder) if "joint_vel" not in log.names]
    if not logs:
        pytest.skip("the recording of legs in the air is absent")
    log = logs[0]
    params = sf.Params(
        kp=sf.kp(low=1, high=100, nominal=log.meta["kp"]),
        kd=sf.kd(low=0.1, high=10, nominal=log.meta["kd"]),
        damping=sf.damping(low=1e-3, high=5.0, scale="log"),
        delay=sf.command_delay(low=0.0, high=0.05),
    )
    sim = sf.Sim(sf.load("go2").suspended(), params)
    e = {"damping": np.array([2.0, 0.3, 0.3]), "delay": np.array([0.0, 0.0, 0.01])}
    score = (sim.replay(log, e, channels=("joint_pos",)).gap("joint_pos") ** 2).sum(-1).mean(-1)
    assert score[0] > 2 * score[1] > 2 * score[2]
