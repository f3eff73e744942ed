"""Log and Channel: invariants, windows, resampling, timing, clock alignment."""

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.logs import Channel, Log, align, to_si


def channel(name="joint_pos", unit="rad", t=None, values=None, columns=("a", "b"), **rest):
    t = np.arange(100) / 100 if t is None else t
    values = np.stack([np.sin(t), np.cos(t)], axis=1) if values is None else values
    return Channel(name=name, unit=unit, t=t, values=values, columns=columns, **rest)


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


def test_arrays_are_copied_and_read_only():
    t = np.arange(10.0)
    values = np.zeros((10, 2))
    c = channel(t=t, values=values)
    values[0] = 7
    assert c.values[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        c.values[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        c.t[0] = 1
    with pytest.raises(AttributeError):
        c.name = "other"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"t": [0.0, 1.0, 0.5]}, "time goes backwards.*1 s then 0.5 s at sample 2"),
        ({"t": [0.0, 1.0, 1.0]}, "same time 1 s twice, at samples 1 and 2"),
        ({"t": [0.0, np.nan, 1.0]}, "not a finite number at sample 1"),
        ({"t": [0.0, 1.0, 2e15]}, "not seconds"),
        ({"t": []}, "shape|no samples"),
        ({"t": [0.0, 1.0]}, r"times of shape \(2,\)"),
        ({"values": [[0, 1], [np.nan, 2], [3, 4]]}, "NaN in column 'a' at t = 1 s"),
        ({"values": [[0, 1], [np.inf, 2], [3, 4]]}, "infinite value in column 'a'"),
        ({"values": [["x", 1], [1, 2], [3, 4]]}, "must be numbers"),
        ({"columns": ("a", "a")}, "two columns named 'a'"),
        ({"columns": ("a", "t")}, "kept for the time"),
        ({"unit": "furlong"}, "'furlong' is not a known unit"),
        ({"unit": "rads"}, "did you mean 'rad/s'"),
        ({"unit": "deg"}, "not SI: convert it to 'rad'"),
        ({"unit": "V"}, "'joint_pos' cannot be in 'V': it is in rad or m"),
        ({"unit": "rad, rad, rad"}, "2 columns but 3 units"),
        ({"role": "x"}, "not a role"),
        ({"name": ""}, "name must be"),
    ],
)
def test_a_fault_is_one_sentence(fault, words):
    good = {"t": [0.0, 1.0, 2.0], "values": [[0, 1], [1, 2], [3, 4]]}
    with pytest.raises(InputError, match=words) as error:
        channel(**(good | fault))
    one_line(error)


def test_nan_is_kept_where_it_is_declared():
    c = channel(t=[0.0, 1.0], values=[[np.nan, 1], [2, 3]], nan=True)
    assert np.isnan(c.values[0, 0])
    with pytest.raises(InputError, match="infinite"):
        channel(t=[0.0, 1.0], values=[[np.inf, 1], [2, 3]], nan=True)


def test_units_may_differ_per_column():
    c = channel(unit="m, rad")
    assert c.units == ("m", "rad")
    assert c.pick(["b", "a"]).unit == "rad, m"
    assert channel(unit="rad, rad").unit == "rad"
    assert channel(name="joint_torque", unit="Nm").unit == "N·m"


def test_conversions_to_si():
    assert to_si(np.array([180.0]), "deg")[0] == pytest.approx(np.pi)
    assert to_si(np.array([1.0]), "g")[0] == 9.80665
    assert to_si(np.array([250.0]), "us")[0] == pytest.approx(250e-6)
    assert to_si(np.array([60.0]), "rpm")[0] == pytest.approx(2 * np.pi)
    assert to_si(np.array([212.0]), "degF")[0] == pytest.approx(100.0)


def test_log_finds_channels_by_name_and_role():
    log = Log(
        channels=(channel(), channel(name="joint_pos_target", role="u"), channel(name="note", unit="1", role="info"))
    )
    assert [c.name for c in log.u] == ["joint_pos_target"]
    assert [c.name for c in log.y] == ["joint_pos"]
    assert "note" in log
    with pytest.raises(InputError, match="did you mean 'joint_pos'"):
        log["joint_poss"]
    with pytest.raises(InputError, match="two channels named"):
        Log(channels=(channel(), channel()))
    with pytest.raises(InputError, match="at least one"):
        Log(channels=())


def test_meta_is_plain_and_read_only():
    log = Log(channels=(channel(),), meta={"kp": np.float64(2.0), "gains": (1, 2), "all": np.arange(2)})
    assert dict(log.meta) == {"kp": 2.0, "gains": [1, 2], "all": [0, 1]}
    with pytest.raises(TypeError):
        log.meta["kp"] = 1
    with pytest.raises(InputError, match="plain JSON"):
        Log(channels=(channel(),), meta={"x": object()})
    with pytest.raises(InputError, match="plain JSON"):
        Log(channels=(channel(),), meta={"x": float("nan")})


def test_hash_follows_content_and_not_meta():
    log = Log(channels=(channel(),), robot="go2", meta={"a": 1})
    assert log.hash == Log(channels=(channel(),), robot="go2", meta={"a": 2}).hash
    assert log != Log(channels=(channel(),), robot="go2", meta={"a": 2})
    assert log == Log(channels=(channel(),), robot="go2", meta={"a": 1})
    assert log.hash != Log(channels=(channel(),), robot="g1").hash
    moved = channel(values=channel().values + 1e-15)
    assert log.hash != Log(channels=(moved,), robot="go2").hash


def test_window_keeps_both_ends_and_names_what_it_left_out():
    slow = channel(name="slow", unit="1", t=[0.0, 0.9], values=[[0, 0], [1, 1]])
    log = Log(channels=(channel(), slow)).window(0.2, 0.5)
    assert log["joint_pos"].t[[0, -1]].tolist() == [0.2, 0.5]
    assert log.names == ("joint_pos",)
    assert log.meta["history"] == [{"do": "window", "start": 0.2, "stop": 0.5, "without": ["slow"]}]
    with pytest.raises(InputError, match="no channel has a sample between 5 and 6 s"):
        log.window(5, 6)


def test_select_orders_columns_by_name():
    log = Log(channels=(channel(), channel(name="gyro", unit="rad/s", columns=("x", "y"))))
    chosen = log.select(columns=["b", "a"])
    assert chosen["joint_pos"].columns == ("b", "a")
    np.testing.assert_array_equal(chosen["joint_pos"].values, log["joint_pos"].values[:, ::-1])
    assert chosen["gyro"].columns == ("x", "y")
    assert log.select("gyro").names == ("gyro",)
    with pytest.raises(InputError, match="not a column of this log"):
        log.select(columns=["c"])


def test_resampling_is_exact_on_a_line_and_says_what_it_did():
    t = np.sort(np.random.default_rng(0).uniform(0, 1, 60))
    line = Channel(name="y", unit="1", t=t, values=3 * t + 1, columns=("a",))
    steps = Channel(name="u", unit="1", t=[t[0], 0.5, t[-1]], values=[1, 2, 3], columns=("a",), role="u")
    log = Log(channels=(line, steps)).resample(rate=200)
    grid = log["y"].t
    np.testing.assert_allclose(log["y"].values[:, 0], 3 * grid + 1, atol=1e-12)
    np.testing.assert_array_equal(log["u"].values[:, 0], np.where(grid < 0.5, 1, np.where(grid < t[-1], 2, 3)))
    step = log.meta["history"][-1]
    assert step["method"] == {"y": "linear", "u": "hold"}
    assert step["rate"] == 200
    assert step["samples"] == len(grid)


def test_resampling_never_extrapolates_nor_mixes_clocks():
    log = Log(channels=(channel(),))
    with pytest.raises(InputError, match="nothing is extrapolated"):
        log.resample(t=np.array([0.0, 2.0]))
    with pytest.raises(InputError, match="either a rate"):
        log.resample()
    with pytest.raises(InputError, match="different clocks"):
        Log(channels=(channel(), channel(name="gyro", unit="rad/s", clock="imu"))).resample(rate=10)
    with pytest.raises(InputError, match="not a resampling method"):
        log.resample(rate=10, method="cubic")


def test_resampled_rotations_stay_rotations_on_the_short_arc():
    angle = np.array([0.0, 0.4])
    quat = np.stack([np.cos(angle / 2), np.sin(angle / 2), 0 * angle, 0 * angle], axis=1)
    quat[1] *= -1
    c = Channel(name="quat", unit="1", t=[0.0, 1.0], values=quat, columns=("w", "x", "y", "z"))
    middle = Log(channels=(c,)).resample(t=np.array([0.5]))["quat"].values[0]
    np.testing.assert_allclose(middle, [np.cos(0.1), np.sin(0.1), 0, 0], atol=1e-12)


def test_timing_finds_planted_rate_gaps_and_drop_outs():
    t = np.arange(1000) * 0.005
    keep = np.ones(1000, dtype=bool)
    keep[[100, 101, 102, 500]] = False
    timing = Log(channels=(channel(t=t[keep], values=np.zeros((996, 2))),)).timing()["joint_pos"]
    assert timing.rate == pytest.approx(200)
    assert timing.dropped == 4
    assert [start for start, _ in timing.gaps] == pytest.approx([t[99], t[499]])
    assert [length for _, length in timing.gaps] == pytest.approx([0.02, 0.01])
    assert timing.jitter < 1e-12


def test_timing_recovers_planted_jitter():
    rng = np.random.default_rng(1)
    t = np.cumsum(0.01 + rng.normal(0, 2e-4, 5000))
    timing = Log(channels=(channel(t=t, values=np.zeros((5000, 2))),)).timing()["joint_pos"]
    assert timing.jitter == pytest.approx(2e-4, rel=0.05)
    assert timing.gaps == ()


def test_a_single_sample_has_no_rate():
    assert Log(channels=(channel(t=[0.0], values=[[1, 2]]),)).timing()["joint_pos"].rate == 0


@pytest.mark.parametrize("planted", [0.0, 1.2345, -3.0017])
def test_align_recovers_a_planted_offset_to_a_hundredth_of_a_sample(planted):
    from scipy.interpolate import CubicSpline

    rng = np.random.default_rng(3)
    truth = CubicSpline(np.linspace(-10, 40, 2500), np.cumsum(rng.normal(size=(2500, 2)), axis=0) * 0.1)
    ta = np.arange(0, 20, 0.01) + rng.uniform(-0.001, 0.001, 2000)
    tb = np.arange(2, 25, 0.004)
    a = channel(t=ta, values=truth(ta) + 1e-3 * rng.normal(size=(len(ta), 2)))
    b = channel(t=tb - planted, values=truth(tb) * [2, 5] + 1e-3 * rng.normal(size=(len(tb), 2)), clock="other")
    offset = align(a, b)
    assert offset.seconds == pytest.approx(planted, abs=1e-4)
    assert offset.correlation > 0.999
    assert offset.runner_up < 0.9
    shifted = Log(channels=(b,)).shift("joint_pos", offset.seconds, clock="robot")
    assert align(Log(channels=(a,)), shifted).seconds == pytest.approx(0, abs=1e-4)
    assert shifted.meta["history"][-1]["do"] == "shift"


def test_align_says_when_a_motion_repeats():
    t = np.arange(0, 20, 0.01)
    wave = channel(t=t, values=np.stack([np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)], axis=1))
    assert align(wave, wave).runner_up > 0.99


def test_align_refuses_what_it_cannot_know():
    still = channel(values=np.ones((100, 2)))
    with pytest.raises(InputError, match="nothing to align"):
        align(channel(), still)
    with pytest.raises(InputError, match="too few"):
        align(channel(), channel(t=[0.0, 1.0], values=[[0, 1], [1, 0]]))
    with pytest.raises(InputError, match="share no"):
        align(Log(channels=(channel(),)), Log(channels=(channel(name="gyro", unit="rad/s"),)))


def test_duration_is_that_of_one_clock():
    far = channel(name="gyro", unit="rad/s", t=1e9 + np.arange(100) / 50, clock="unix")
    assert Log(channels=(channel(), far)).duration == pytest.approx(1.98)
