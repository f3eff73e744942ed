"""Recordings and saved logs: exact round trips, kill -9, cut files, damaged files."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.logs import Channel, Log, Recorder, convert, info, info_table, read_log, read_logs


def sample_log(samples=200):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(-1, 5, samples))
    ti = np.arange(samples // 3) / 37 + 0.1
    gaps = np.where(rng.random((len(ti), 3)) < 0.2, np.nan, rng.normal(size=(len(ti), 3)))
    return Log(
        channels=(
            Channel(name="joint_pos", unit="rad", t=t, values=rng.normal(size=(samples, 2)),
                    columns=("FL, hip", 'a"b')),
            Channel(name="joint_pos_target", unit="rad", t=t, values=rng.normal(size=(samples, 2)) * 1e-300,
                    columns=("FL, hip", 'a"b'), role="u"),
            Channel(name="slides", unit="m, rad", t=ti, values=np.array([[1e300, -0.0]] * len(ti)), columns=("é", "b")),
            Channel(name="accel", unit="m/s^2", t=ti, values=gaps, columns=("x", "y", "z"), clock="imu", nan=True),
        ),
        robot="go2", contract="abc", meta={"kp": 20.5, "who": "ä\nb", "list": [1, None, {"x": True}]},
    )  # fmt: skip


@pytest.mark.parametrize("suffix", [".mcap", ".npz", ".csv"])
def test_saved_logs_come_back_bit_for_bit(tmp_path, suffix):
    log = sample_log()
    path = log.save(tmp_path / f"run{suffix}")
    back = read_log(path)
    assert back == log
    assert back.hash == log.hash
    assert np.signbit(back["slides"].values[0, 1])
    for channel in log:
        assert back[channel.name].t.tobytes() == channel.t.tobytes()


def test_csv_may_be_packed(tmp_path):
    log = sample_log()
    text = log.save(tmp_path / "run.csv").read_bytes()
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text, mtime=0))
    assert read_log(tmp_path / "packed.csv.gz") == log


def test_csv_titles_carry_names_and_units(tmp_path):
    lines = sample_log().save(tmp_path / "run.csv").read_text().split("\n")
    assert lines[0].startswith("# surefoot log")
    assert "slides.é [m],slides.b [rad],accel.x [m/s^2]" in lines[2]


def test_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"saved as .mcap, .npz or .csv"):
        sample_log().save(tmp_path / "run.pkl")


# Recorder


def record(path, samples=60, **rest):
    with Recorder(path, robot="go2", meta={"kp": 20}, **rest) as recorder:
        recorder.declare("joint_pos", unit="rad", columns=["a", "b"])
        recorder.declare("gyro", unit="rad/s", columns=["x", "y", "z"], clock="imu")
        for k in range(samples):
            recorder.write("joint_pos", k / 100, [np.sin(k), 0.1 * k])
            if k % 2 == 0:
                recorder.write("gyro", k / 100 + 0.001, np.array([k, -k, 0.5]))
        recorder.note(result="ok")
    return path


def test_a_recording_reads_back(tmp_path):
    log = read_log(record(tmp_path / "run.mcap"))
    assert log.robot == "go2"
    assert dict(log.meta) == {"kp": 20, "result": "ok"}
    np.testing.assert_array_equal(log["joint_pos"].values, [[np.sin(k), 0.1 * k] for k in range(60)])
    assert log["gyro"].clock == "imu"
    assert len(log["gyro"]) == 30


def test_a_recording_opens_with_the_public_reader_and_has_json_schemas(tmp_path):
    from mcap.reader import make_reader

    with open(record(tmp_path / "run.mcap"), "rb") as file:
        reader = make_reader(file, validate_crcs=True)
        seen = 0
        for schema, channel, message in reader.iter_messages():
            content = json.loads(message.data)
            properties = json.loads(schema.data)["properties"]
            assert schema.encoding == "jsonschema"
            assert channel.message_encoding == "json"
            assert set(content) == set(properties)
            assert all(isinstance(content[name], float | int) for name in properties)
            assert message.log_time == round(content["t"] * 1e9)
            seen += 1
    assert seen == 90


def test_the_recorder_refuses_bad_samples_and_goes_on(tmp_path):
    with Recorder(tmp_path / "run.mcap") as recorder:
        recorder.declare("q", unit="rad", columns=["a"])
        recorder.write("q", 1.0, 2.0)
        for t, values, words in [
            (1.0, [3.0], "must increase"),
            (2.0, [np.nan], "not finite"),
            (2.0, [1, 2], "has 1 columns, got 2"),
            (np.nan, [1], "is not between"),
            (-1.0, [1], "is not between"),
        ]:
            with pytest.raises(InputError, match=words):
                recorder.write("q", t, values)
        with pytest.raises(InputError, match="was not declared"):
            recorder.write("p", 1.0, [1])
        with pytest.raises(InputError, match="already declared"):
            recorder.declare("q", unit="rad", columns=["a"])
        with pytest.raises(InputError, match="cannot be in"):
            recorder.declare("joint_vel", unit="V", columns=["a"])
        recorder.write("q", 2.0, [4.0])
    with pytest.raises(InputError, match="is closed"):
        recorder.write("q", 3.0, [4.0])
    assert read_log(tmp_path / "run.mcap")["q"].values[:, 0].tolist() == [2.0, 4.0]


def test_a_recording_is_never_overwritten(tmp_path):
    record(tmp_path / "run.mcap")
    with pytest.raises(InputError, match="never overwritten"):
        Recorder(tmp_path / "run.mcap")
    with pytest.raises(InputError, match=r"is an .mcap file"):
        Recorder(tmp_path / "run.csv")


def test_an_exception_leaves_a_whole_file(tmp_path):
    def fail():
        with Recorder(tmp_path / "run.mcap") as recorder:
            recorder.declare("q", unit="rad", columns=["a"])
            recorder.write("q", 0.0, [1])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert "truncated" not in read_log(tmp_path / "run.mcap").meta


def test_a_channel_without_samples_is_named(tmp_path):
    with Recorder(tmp_path / "run.mcap") as recorder:
        recorder.declare("q", unit="rad", columns=["a"])
        recorder.declare("never", unit="rad", columns=["a"])
        recorder.write("q", 0.0, [1])
    assert read_log(tmp_path / "run.mcap").meta["empty"] == ["never"]


CHILD = """
import os, sys, time
from surefoot.logs import Recorder
recorder = Recorder(sys.argv[1], robot="go2")
recorder.declare("joint_pos", unit="rad", columns=["a", "b"])
start = time.monotonic()
while True:
    t = time.monotonic() - start
    recorder.write("joint_pos", t, [t, -t])
    os.write(1, f"{t}\\n".encode())
    time.sleep(0.002)
"""


def test_kill_9_loses_less_than_a_tenth_of_a_second(tmp_path):
    path = tmp_path / "run.mcap"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    written = [float(child.stdout.readline()) for _ in range(200)]
    os.kill(child.pid, signal.SIGKILL)
    written += [float(line) for line in child.stdout.read().decode().split("\n")[:-1]]
    child.wait()
    log = read_log(path)
    assert "cut at byte" in log.meta["truncated"]
    t = log["joint_pos"].t
    np.testing.assert_array_equal(t, written[: len(t)])
    np.testing.assert_array_equal(log["joint_pos"].values, np.stack([t, -t], axis=1))
    # The longest pause between two samples of the child is the machine's, not the recorder's.
    assert written[-1] - t[-1] < 0.1 + max(np.diff(written))


def cuts(path, step):
    """Read the file cut at every `step` bytes; return how many cuts gave a log."""
    data = path.read_bytes()
    whole = read_log(path)
    logs = 0
    cut = path.with_name("cut.mcap")
    for length in range(0, len(data), step):
        cut.write_bytes(data[:length])
        try:
            log = read_log(cut)
        except InputError:
            continue
        logs += 1
        assert log.meta["truncated"]
        for channel in log:
            n = len(channel)
            np.testing.assert_array_equal(channel.t, whole[channel.name].t[:n])
            np.testing.assert_array_equal(channel.values, whole[channel.name].values[:n])
    return logs


def test_a_cut_recording_gives_what_was_whole_and_says_so(tmp_path):
    path = record(tmp_path / "run.mcap", flush=0.0)
    assert cuts(path, 97) > 100


@pytest.mark.slow
def test_a_recording_cut_at_any_byte_gives_what_was_whole(tmp_path):
    path = record(tmp_path / "run.mcap", samples=12, flush=0.0)
    assert cuts(path, 1) > 1000


def test_a_flipped_byte_in_a_recording_is_reported(tmp_path):
    path = record(tmp_path / "run.mcap")
    data = bytearray(path.read_bytes())
    whole = read_log(path)
    for at in range(8, len(data), 41):
        bad = bytearray(data)
        bad[at] ^= 0x10
        (tmp_path / "bad.mcap").write_bytes(bad)
        try:
            log = read_log(tmp_path / "bad.mcap")
        except InputError:
            continue
        assert log.channels == whole.channels


def test_recording_is_fast_enough_for_a_kilohertz_loop(tmp_path):
    with Recorder(tmp_path / "run.mcap") as recorder:
        recorder.declare("joint_pos", unit="rad", columns=[f"j{k}" for k in range(29)])
        values = np.random.default_rng(0).normal(size=29)
        start = time.perf_counter()
        for k in range(2000):
            recorder.write("joint_pos", k * 1e-3, values)
        seconds = time.perf_counter() - start
    assert seconds / 2000 < 0.5e-3


# What is wrong with a file


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.mcap", b"", "is empty"),
        ("a.mcap", b"hello, this is not it", "not an MCAP file"),
        ("a.npz", b"", "is empty"),
        ("a.npz", b"PK\x03\x04 and then nothing", r"not a whole .npz"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\xff\xfe\x00", "is not text"),
        ("a.csv", b"# surefoot log 3 rows\n", "cut in its header"),
        ("a.csv.gz", b"t,q\n0,1\n", "not a gzip file"),
        ("a.csv.gz", gzip.compress(b"# surefoot log 3 rows\n" * 100, mtime=0)[:-20], "is cut"),
        ("a.csv", b"t,q\n0,1\n", "no bundled mapping describes it: give a mapping"),
        ("a.xyz", b"t,q\n0,1\n", "is not a log"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_one_sentence(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as error:
        read_log(tmp_path / name)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named_with_its_neighbour(tmp_path):
    sample_log(30).save(tmp_path / "run.npz")
    with pytest.raises(InputError, match=r"does not exist \(did you mean 'run.npz'\?\)"):
        read_log(tmp_path / "rum.npz")


def test_a_line_that_is_lost_from_a_saved_csv_is_noticed(tmp_path):
    path = sample_log().save(tmp_path / "run.csv")
    lines = path.read_text().split("\n")
    for fault, words in [
        (lines[:50] + lines[51:], "first line says"),
        (lines[:50] + lines[49:], "first line says"),
        ([*lines[:50], lines[51], lines[50], *lines[52:]], "time goes backwards"),
        ([*lines[:50], lines[50].rsplit(",", 1)[0], *lines[51:]], "columns, its header has"),
        ([*lines[:50], "x" + lines[50], *lines[51:]], "not a number"),
        ([*lines[:50], "1_0" + lines[50][lines[50].index(",") :], *lines[51:]], "'1_0' in row"),
        ([*lines[:2], lines[2].replace("[rad]", "[deg]", 1), *lines[3:]], "titles differ from the header"),
        ([lines[0], lines[1].replace('"rad"', '"deg"', 1), *lines[2:]], "titles differ|not SI"),
    ]:
        path.write_text("\n".join(fault))
        with pytest.raises(InputError, match=words):
            read_log(path)


def test_an_npz_with_objects_is_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", t=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="never unpickled"):
        read_log(tmp_path / "a.npz")


# Joints


def test_joints_are_checked_and_ordered_by_name(tmp_path):
    path = record(tmp_path / "run.mcap")
    log = read_log(path, joints=["b", "c", "a"])
    assert log["joint_pos"].columns == ("b", "a")
    np.testing.assert_array_equal(log["joint_pos"].column("a"), read_log(path)["joint_pos"].column("a"))
    with pytest.raises(InputError, match="has joint 'a', which robot 'go2' lacks"):
        read_log(path, joints=["b", "FL_hip_joint"])


def test_a_robot_gives_its_name_and_joints(tmp_path):
    class Machine:
        name = "little"
        joints = ("b", "a")

    log = read_log(record(tmp_path / "run.mcap"), robot=Machine())
    assert log.robot == "little"
    assert log["joint_pos"].columns == ("b", "a")


def test_columns_can_be_renamed(tmp_path):
    path = record(tmp_path / "run.mcap")
    log = read_log(path, rename={"a": "FL_hip_joint"})
    assert log["joint_pos"].columns == ("FL_hip_joint", "b")
    with pytest.raises(InputError, match="cannot rename 'q'"):
        read_log(path, rename={"q": "p"})


# Commands


def test_info_is_json_and_a_table(tmp_path):
    about = info(record(tmp_path / "run.mcap"))
    json.dumps(about, allow_nan=False)
    first = about["logs"][0]["channels"][0]
    assert first["name"] == "joint_pos"
    assert first["rate"] == pytest.approx(100)
    rows = info_table(about)
    assert {len(row) for row in rows} == {len(rows[0])}
    assert any("joint_pos" in row[0] for row in rows)


def test_convert_writes_the_same_log(tmp_path):
    path = record(tmp_path / "run.mcap")
    (written,) = convert(path, tmp_path / "run.npz")
    assert read_log(written) == read_log(path)
    with pytest.raises(InputError, match="exists"):
        convert(path, tmp_path / "run.npz")


def test_read_logs_takes_folders_and_patterns(tmp_path):
    for k in range(3):
        record(tmp_path / "deep" / f"run{k}.mcap", samples=10 + k)
    assert [len(log["joint_pos"]) for log in read_logs(tmp_path)] == [10, 11, 12]
    assert len(read_logs(f"{tmp_path}/deep/run[01].mcap")) == 2
    (tmp_path / "notes.txt").write_text("not a log")
    assert len(read_logs(tmp_path)) == 3
    (tmp_path / "table.csv").write_text("t,q\n0,1\n")
    with pytest.raises(InputError, match=r"table.csv .* give a mapping"):
        read_logs(tmp_path)
    with pytest.raises(InputError, match="no file matches"):
        read_logs(f"{tmp_path}/nothing*.mcap")
