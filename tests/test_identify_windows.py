"""Windows: how logs are cut, what is held out, start states from noisy readings, and free bases."""

import dataclasses

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.identify import cut, identify
from surefoot.identify.residuals import Linear
from surefoot.identify.rollouts import Rollouts
from surefoot.identify.solve import reduce
from surefoot.identify.windows import parabolas, read_starts
from test_identify_fit import TRUTH, arm, params, recording


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    sim = sf.Sim(arm(tmp_path_factory.mktemp("arm")), params(), seed=1)
    return sim, recording(sim, TRUTH, seconds=6.0)


def test_windows_tile_the_log_and_its_end_is_held_out(case):
    sim, log = case
    windows = cut(sim, [log], window=0.5, held_out=0.25)
    fitted, held = windows.fitted, windows.held_out
    assert len(fitted) + len(held) == len(windows) == 11
    assert len(held) == 3
    last = max(windows.windows[i].stop for i in fitted)
    assert all(windows.windows[i].start >= last - 1e-9 for i in held)
    assert windows.seconds == pytest.approx(0.5 * len(fitted))


def test_overlapping_windows_never_look_into_what_is_held_out(case):
    sim, log = case
    windows = cut(sim, [log], window=1.0, stride=0.25, held_out=0.3)
    border = min(windows.windows[i].start for i in windows.held_out)
    assert all(windows.windows[i].stop <= border + 1e-6 for i in windows.fitted)


def test_logs_can_be_the_judges(case):
    sim, log = case
    other = recording(sim, TRUTH, seconds=3.0)
    windows = cut(sim, [log], held_out=[other])
    assert {windows.windows[i].log for i in windows.held_out} == {1}
    assert {windows.windows[i].log for i in windows.fitted} == {0}


def test_a_gap_in_the_log_takes_out_its_windows(case):
    sim, log = case
    y = log["joint_pos"]
    keep = (y.t < 2.1) | (y.t > 2.9)
    holed = sf.Log(
        channels=(
            log["joint_pos_target"],
            sf.Channel(name="joint_pos", unit="rad", t=y.t[keep], values=y.values[keep], columns=y.columns),
        )
    )
    whole, some = cut(sim, [log], window=0.5, held_out=0.0), cut(sim, [holed], window=0.5, held_out=0.0)
    assert len(some) < len(whole)
    assert not [w for w in some.windows if w.start < 2.5 < w.stop]


def test_a_log_too_short_is_one_sentence(case):
    sim, log = case
    with pytest.raises(InputError, match="no window"):
        cut(sim, [log.window(0.0, 0.02)], window=0.02, held_out=0.0)
    with pytest.raises(InputError, match="no log to fit to"):
        cut(sim, [])


def test_parabolas_read_value_and_slope_from_quantised_samples():
    t = np.arange(0.0, 2.0, 0.002)
    y = np.round(np.sin(3 * t) / 0.003) * 0.003
    c, error = parabolas(t, y, np.array([0.5, 1.0, 1.5]))
    assert np.allclose(c[:, 0], np.sin(3 * np.array([0.5, 1.0, 1.5])), atol=0.003)
    assert np.allclose(c[:, 1], 3 * np.cos(3 * np.array([0.5, 1.0, 1.5])), atol=0.3)
    assert (error > 0).all()


def test_start_states_are_near_the_truth(case):
    sim, log = case
    windows = cut(sim, [log], window=0.5, held_out=0.0)
    starts = read_starts(sim, windows)
    e = {k: [v] for k, v in TRUTH.items()}
    truth = sim.replay(log, e, qpos=np.zeros(1), qvel=np.zeros(1)).values["joint_pos"][0, :, 0]
    t = log["joint_pos"].t
    at = np.array([w.start for w in windows.windows[1:]])
    assert np.allclose(starts.q[1:, 0], np.interp(at, t, truth), atol=0.003)
    speed = np.gradient(truth, t)
    assert np.all(np.abs(starts.v[1:, 0] - np.interp(at, t, speed)) < 4 * starts.width[1:, 1] + 0.02)


def test_all_windows_and_candidates_at_once_are_what_they_are_one_by_one(case):
    sim, log = case
    rollouts = Rollouts(sim, cut(sim, [log], window=0.7, held_out=0.0))
    e = {"kp": np.array([30.0, 40.0]), "command_delay": np.array([0.0031, 0.017])}
    rows = np.arange(len(rollouts.windows))
    together = rollouts.predict(e, rows)
    for c in range(2):
        for w in rows[::3]:
            alone = rollouts.predict({k: v[c : c + 1] for k, v in e.items()}, rows[w : w + 1])
            assert np.array_equal(together[c, w], alone[0, 0])


@pytest.mark.slow
def test_estimated_starts_beat_those_of_a_noisy_log(case):
    sim, log = case
    rng = np.random.default_rng(0)
    y = log["joint_pos"]
    noisy = sf.Log(
        channels=(
            log["joint_pos_target"],
            sf.Channel(
                name="joint_pos",
                unit="rad",
                t=y.t,
                values=y.values + 0.02 * rng.normal(size=y.values.shape),
                columns=y.columns,
            ),
        )
    )
    fits = {start: identify(sim, noisy, start=start, window=0.5) for start in ("estimate", "log")}
    off = {k: abs(f["kp"] / TRUTH["kp"] - 1) + abs(f["damping"] / TRUTH["damping"] - 1) for k, f in fits.items()}
    assert fits["estimate"].scores[0].after < fits["log"].scores[0].after
    assert off["estimate"] < off["log"] + 0.02


def drone_log(sim, e, seconds=1.0):
    """Position, attitude and rates of a drone whose rotors wobble about hover."""
    robot = sim.robot
    t = np.arange(0.0, seconds, 0.01)
    hover = np.sqrt(float(sim.model.body(robot.base).mass[0]) * 9.81 / 4 / robot.actuators[0].thrust_max)
    u = hover * (1 + 0.06 * np.sin(2 * np.pi * (3 + 2 * np.arange(4)) * t[:, None] + np.arange(4)))
    channels = [sf.Channel(name=sim.command_channel, unit="1", t=t, values=u, columns=sim.command_names, role="u")]
    for name, unit, columns in (("base_pos", "m", "xyz"), ("gyro", "rad/s", "xyz"), ("quat", "1", "wxyz")):
        values = np.zeros((len(t), len(columns)))
        values[:, 0] = name == "quat"
        channels.append(sf.Channel(name=name, unit=unit, t=t, values=values, columns=tuple(columns)))
    q = sim.start_qpos
    q[2] = 2.0
    return sim.replay(sf.Log(channels=tuple(channels)), e, qpos=q, qvel=np.zeros(6), noise=True).world(0)


@pytest.mark.slow
def test_a_free_base_and_all_ten_inertial_parameters_are_found():
    robot = sf.load("crazyflie")
    sim = sf.Sim(robot, sf.Params(inertia=sf.inertia(robot.base, low=-0.8, high=0.8, nominal=0.0)), seed=1)
    truth = 0.8 * np.array([0.1, 0.2, -0.15, 0.1, 0.05, -0.05, 0.02, 0.03, -0.02, 0.05])
    fit = identify(sim, drone_log(sim, {"inertia": truth[None]}), window=0.25, held_out=0.0)
    assert np.allclose(fit.values, truth, atol=0.01)
    assert np.all(np.abs(fit.values - truth) < 5 * fit.std + 1e-4)


def test_a_window_that_its_start_decides_leaves_nothing_negative_behind():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 60)), rng.normal(size=(2, 6, 60))
    grown = 1e8 * rng.normal(size=60)  # everything that is changed ends in the same direction
    a[1] += rng.normal(size=4)[:, None] * grown
    b[1] += rng.normal(size=6)[:, None] * grown
    r = rng.normal(size=(2, 60))
    linear = Linear(
        r=r, haa=a @ a.swapaxes(1, 2), hab=a @ b.swapaxes(1, 2), hbb=b @ b.swapaxes(1, 2),
        ga=(a @ r[..., None])[..., 0], gb=(b @ r[..., None])[..., 0], b=b,
    )  # fmt: skip
    plain = linear.haa - linear.hab @ np.linalg.inv(linear.hbb + np.eye(6)) @ linear.hab.swapaxes(1, 2)
    assert np.linalg.eigvalsh(plain[1])[0] < -1.0  # what rounding leaves
    each = reduce(linear, np.zeros((2, 6))).each
    assert np.abs(each[1]).max() < 1e-6
    np.testing.assert_allclose(each[0], plain[0], rtol=1e-9)


def test_a_column_that_is_not_compared_may_lack_numbers_and_windows_left_out_are_counted(case):
    sim, log = case
    angle = log["joint_pos"]
    spare = sf.Channel(
        name="joint_pos", unit="rad", t=angle.t, values=np.column_stack([angle.values, np.full(len(angle.t), np.nan)]),
        columns=(*angle.columns, "spare"), nan=True,
    )  # fmt: skip
    whole = cut(sim, [log], window=0.5)
    assert len(cut(sim, [with_channel(log, spare)], window=0.5)) == len(whole)
    assert whole.notes == ()
    broken = np.array(angle.values)
    broken[len(broken) // 2] = np.nan
    gappy = cut(sim, [with_channel(log, dataclasses.replace(spare, values=broken, columns=angle.columns))], window=0.5)
    assert len(gappy) < len(whole)
    assert "were left out" in gappy.notes[0]


def test_time_that_windows_share_counts_once(case):
    sim, log = case
    alone, shared = cut(sim, [log], window=0.5, held_out=0.0), cut(sim, [log], window=0.5, stride=0.125, held_out=0.0)
    assert shared.seconds == pytest.approx(alone.seconds, abs=0.5)
    assert shared.overlap == pytest.approx(len(shared) * 0.5 / shared.seconds)
    assert shared.overlap > 3


def test_the_same_recording_twice_is_refused(case):
    sim, log = case
    with pytest.raises(InputError, match="logs 1 and 2 are the same recording"):
        cut(sim, [log, log])
    with pytest.raises(InputError, match="same recording"):
        cut(sim, [log], held_out=[log])


def test_a_window_longer_than_every_log_is_refused_and_one_alone_says_that_nothing_judges(case):
    sim, log = case
    with pytest.raises(InputError, match="window=500 s is longer than the logs"):
        cut(sim, [log], window=500.0)
    alone = cut(sim, [log], window=0.9 * log.duration)
    assert "nothing was held out" in alone.notes[0]


def with_channel(log, channel):
    """The log with another channel of that name."""
    return sf.Log(channels=tuple(channel if c.name == channel.name else c for c in log), robot=log.robot)
