"""A stand-in robot in its own process: the wire, lockstep and real time, the watchdog, and who may open the reality."""

import builtins
import io
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from surefoot.contract import Command, Reading, Wire
from surefoot.errors import InputError
from surefoot.hardware import connect, read_truth
from surefoot.hardware import twin_client as client
from surefoot.hardware.connect import reality_path
from surefoot.hardware.referee import STATES
from surefoot.hardware.replay import Replay
from surefoot.hardware.wire_socket import (
    COMMAND,
    READING,
    STOP,
    Gone,
    Line,
    pack_command,
    pack_reading,
    unpack_command,
    unpack_reading,
)
from surefoot.logs import Recorder

SERVO = "twin:servo/01-nominal"


def told(target: float = 0.5, kp: float = 0.9) -> Command:
    return Command(kind="joint_pos_target", target=np.array([target]), kp=np.array([kp]), kd=np.array([0.04]))


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(condition, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


# ------------------------------------------------------------------ frames


@pytest.fixture
def lines():
    a, b = (Line(s) for s in socket.socketpair())
    yield a, b
    a.close()
    b.close()


def test_frames_come_whole_and_in_order(lines):
    a, b = lines
    command = Command(kind="joint_torque_target", target=np.array([1.0, -2.0]), kp=np.zeros(2), kd=np.array([0.5, 0.6]))
    a.send(COMMAND, pack_command(command))
    a.send(STOP)
    kind, payload = b.receive(1.0)
    assert kind == COMMAND
    name, numbers = unpack_command(payload, 2)
    assert name == "joint_torque_target"
    assert numbers.tolist() == [[1.0, -2.0], [0.0, 0.0], [0.5, 0.6], [0.0, 0.0], [0.0, 0.0]]
    assert b.receive(1.0) == (STOP, b"")
    assert b.receive(0.0) is None


def test_a_frame_in_pieces_is_put_together(lines):
    a, b = lines
    payload = pack_reading(1.5, 7, np.array([0.1, 0.2, 0.3]))
    whole = bytes([READING]) + len(payload).to_bytes(4, "little") + payload
    for piece in (whole[:3], whole[3:20], whole[20:]):
        assert b.receive(0.0) is None
        a.sock.send(piece)
    kind, found = b.receive(1.0)
    channels = {"joint_pos": Wire(unit="rad", columns=("a", "b")), "gyro": Wire(unit="rad/s", columns=("x",))}
    reading = unpack_reading(found, channels)
    assert kind == READING
    assert (reading.time, reading.count) == (1.5, 7)
    assert reading.values["joint_pos"].tolist() == [0.1, 0.2]
    assert reading.values["gyro"].tolist() == [0.3]


def test_nonsense_and_a_closed_end_are_noticed(lines):
    a, b = lines
    a.sock.send(b"\xff\xff\xff\xff\xff\xff")
    with pytest.raises(Gone, match="another language"):
        b.receive(1.0)
    with pytest.raises(Gone, match="length"):
        unpack_command(b"\x00123", 2)
    with pytest.raises(Gone, match="columns"):
        unpack_reading(pack_reading(0.0, 0, np.zeros(3)), {"gyro": Wire(unit="rad/s", columns=("x",))})
    b.close()
    with pytest.raises(Gone):
        a.receive(1.0)


def test_a_reader_that_sleeps_loses_samples_but_never_half_a_frame(lines):
    a, b = lines
    payload = pack_reading(0.0, 0, np.zeros(2000))
    taken = [a.offer(READING, payload) for _ in range(2000)]
    assert not all(taken)
    got = 0
    while True:
        a.flush()
        frame = b.receive(0.05)
        if frame is None:
            break
        assert frame == (READING, payload)
        got += 1
    assert got == sum(taken)


# ------------------------------------------------------------------ lockstep


def test_in_lockstep_time_moves_with_every_command_and_repeats_bit_for_bit(tmp_path):
    def play(seed: int) -> list[Reading]:
        with connect(SERVO, lockstep=True, seed=seed, referee=tmp_path / f"{seed}.npz") as robot:
            assert (robot.robot, robot.outputs, robot.rate, robot.paced) == ("servo", ("servo",), 200.0, False)
            assert robot.kinds == ("joint_pos_target", "joint_torque_target")
            assert robot.channels["joint_pos"] == Wire(unit="rad", columns=("servo",))
            found = [robot.read(5.0)]
            for k in range(40):
                robot.write(told(0.5 * np.sin(k / 10)))
                found.append(robot.read(5.0))
            assert robot.read(0.0) is None
        assert robot.log[-1].endswith("stopped: damping until the end")
        return found

    one, two, other = play(1), play(1), play(2)
    assert [r.count for r in one] == list(range(41))
    assert [r.time for r in one] == pytest.approx(np.arange(41) / 200)
    rows = [np.array([np.concatenate(list(r.values.values())) for r in run]) for run in (one, two, other)]
    assert np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])
    truth = read_truth(tmp_path / "1.npz")
    assert truth.time == pytest.approx(np.arange(41) / 200)
    assert truth.about["reality"] == "01-nominal"
    assert truth.about["level"] == 0.0
    assert STATES[int(truth.state[-1])] == "driven"
    seen = np.array([r.values["joint_pos"][0] for r in one])
    assert seen == pytest.approx(truth.joint_pos[:, 0], abs=0.02)


def test_only_the_twins_process_opens_the_reality(tmp_path, monkeypatch):
    file = tmp_path / "secret.toml"
    file.write_text(reality_path("servo/01-nominal").read_text())

    def guard(call):
        def guarded(path, *args, **kwargs):
            if not isinstance(path, int) and "secret" in os.fspath(path):
                raise AssertionError("the runtime opened the reality")
            return call(path, *args, **kwargs)

        return guarded

    for where, name in (
        (builtins, "open"),
        (io, "open"),
        (os, "open"),
        (Path, "open"),
        (Path, "read_text"),
        (Path, "read_bytes"),
    ):
        monkeypatch.setattr(where, name, guard(getattr(where, name)))
    with pytest.raises(AssertionError, match="opened the reality"):
        file.read_text()
    with connect(f"twin:{file}", lockstep=True) as robot:
        assert robot.read(5.0).count == 0
        robot.write(told())
        assert robot.read(5.0).count == 1


def test_the_runtimes_side_needs_neither_mujoco_nor_the_robots():
    code = (
        "import sys, surefoot.hardware.twin_client, surefoot.hardware.replay, surefoot.hardware;"
        "print([m for m in ('mujoco', 'surefoot.robots', 'surefoot.sim', 'torch', 'surefoot.hardware.reality') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_without_unix_sockets_it_speaks_over_a_local_port(monkeypatch):
    monkeypatch.setattr(client, "LONGEST", 0)
    with connect(SERVO, lockstep=True) as robot:
        assert robot._line.sock.family == socket.AF_INET
        robot.read(5.0)
        robot.write(told())
        assert robot.read(5.0).time == pytest.approx(1 / 200)


def test_a_lost_reading_is_none_and_the_next_one_comes(tmp_path):
    file = tmp_path / "lossy.toml"
    file.write_text('robot = "servo"\nlevel = 0.5\nabout = "x"\n[truth]\ndropout = 0.5\n')
    with connect(f"twin:{file}", lockstep=True) as robot:
        found = [robot.read(5.0)]
        begin = time.monotonic()
        for _ in range(60):
            robot.write(told())
            found.append(robot.read(5.0))
        assert time.monotonic() - begin < 60.0  # it did not wait 5 s for each
    lost = [r is None for r in found]
    assert 10 < sum(lost) < 50
    assert [r.count for r in found if r is not None] == [k for k, gone in enumerate(lost) if not gone]


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("twin", "names no hardware"),
        ("twin:", "names no hardware"),
        ("twn:go2/01-nominal", "did you mean 'twin'"),
        ("twin:go2/01-nominl", "did you mean 'go2/01-nominal'"),
        ("twin:nowhere.toml", "there is no reality file"),
        ("replay:nowhere.mcap", "nowhere.mcap"),
    ],
)
def test_a_wrong_spec_is_one_sentence(spec, says):
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        connect(spec)


def test_what_only_a_twin_can_do_is_refused_for_others():
    with pytest.raises(InputError, match="leave out the referee"):
        connect("replay:x.mcap", referee="truth.npz")
    with pytest.raises(InputError, match="a real robot does not wait"):
        connect("unitree:lo", lockstep=True)


def test_a_reality_that_is_wrong_is_told_by_the_process(tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text('robot = "servo"\nlevel = 0.5\nabout = "x"\n[truth]\nfricton = 1.0\n')
    with pytest.raises(InputError, match="does not start: 'fricton' is not an entry"):
        connect(f"twin:{file}")


def test_a_wrong_command_is_refused_before_it_is_sent():
    with connect(SERVO, lockstep=True) as robot:
        with pytest.raises(InputError, match="a kind of command that servo takes"):
            robot.write(Command(kind="rotor_target", target=np.zeros(1), kp=np.zeros(1), kd=np.zeros(1)))
        with pytest.raises(InputError, match="has 1 motors, this command is for 2"):
            robot.write(Command.damping(2, 1.0))
    with pytest.raises(ConnectionError, match="was closed"):
        robot.write(told())
    robot.stop()
    robot.close()
    assert robot.read(0.0) is None


# ------------------------------------------------------------------ real time, watchdog, death


@pytest.mark.slow
def test_in_real_time_a_silent_runtime_is_damped_and_stop_lasts(tmp_path):
    robot = connect(SERVO, referee=tmp_path / "truth.npz")
    assert robot.paced
    begin = time.monotonic()
    while time.monotonic() < begin + 0.4:
        if robot.read(0.5) is not None:
            robot.write(told())
    time.sleep(0.4)
    first, second = robot.read(0.5), robot.read(0.5)
    assert second.time > first.time > 0.5
    robot.stop()
    for _ in range(20):
        robot.read(0.5)
        robot.write(told())
    robot.close()
    robot.close()
    truth = read_truth(tmp_path / "truth.npz")
    said = [(t, text) for t, text in truth.events if "slips" not in text]
    stopped = next(t for t, text in said if text == "stopped: damping until the end")
    damped = max(t for t, text in said if text == "no command for 0.1 s: damping")
    assert {STATES[int(s)] for s in truth.state[truth.time > stopped + 0.01]} == {"stopped"}
    assert {STATES[int(s)] for s in truth.state[truth.after(damped + 0.01, stopped - 0.01)]} == {"damping"}
    assert "driven" in {STATES[int(s)] for s in truth.state[truth.time < damped]}
    assert any("stopped" in line for line in robot.log)
    assert not alive(robot.pid)


RUNTIME = """
import sys, numpy as np
from surefoot.contract import Command
from surefoot.hardware import connect
robot = connect("twin:servo/01-nominal", lockstep=sys.argv[2] == "lockstep", referee=sys.argv[1])
command = Command(kind="joint_pos_target", target=np.array([0.8]), kp=np.array([0.9]), kd=np.array([0.04]))
count = 0
while True:
    if robot.read(1.0) is not None:
        robot.write(command)
        count += 1
        if count == 60:
            print(robot.pid, flush=True)
            if not robot.paced:
                import time
                time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["paced", "lockstep"])
def test_when_the_runtime_is_killed_the_robot_damps_and_nothing_is_left(mode, tmp_path):
    (tmp_path / "sockets").mkdir()
    file = tmp_path / "truth.npz"
    words = [sys.executable, "-c", RUNTIME, str(file), mode]
    place = os.environ | {"TMPDIR": str(tmp_path / "sockets")}
    runtime = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=place)
    twin = int(runtime.stdout.readline())
    assert alive(twin)
    assert not list((tmp_path / "sockets").iterdir())
    os.kill(runtime.pid, signal.SIGKILL)
    runtime.wait()
    runtime.stdout.close()
    assert until(file.exists)
    assert until(lambda: not alive(twin))
    truth = read_truth(file)
    states, words = truth.state.astype(int), dict((text, t) for t, text in truth.events)
    damped, gone = words["no command for 0.1 s: damping"], words["the runtime is gone"]
    last = truth.time[np.flatnonzero(states == STATES.index("driven"))[-1]]
    assert damped - gone <= 0.1 + 1e-6 + 2 / 200
    assert 0 < damped - last <= 2 / 200
    assert STATES[states[-1]] == "damping"
    assert truth.time[-1] >= damped + 0.3
    rest = truth.joint_vel[truth.time > damped + 0.2, 0]
    assert np.abs(rest).max() < 5.0
    assert not list((tmp_path / "sockets").iterdir())


def test_when_the_robot_dies_the_runtime_is_told():
    robot = connect(SERVO)
    assert robot.read(2.0) is not None
    os.kill(robot.pid, signal.SIGKILL)
    assert until(lambda: not alive(robot.pid))
    assert until(lambda: robot.read(0.05) is None)
    with pytest.raises(ConnectionError, match="is gone"):
        robot.write(told())
    begin = time.monotonic()
    assert robot.read(0.05) is None
    assert time.monotonic() - begin >= 0.04
    robot.stop()
    robot.close()


def test_a_referee_file_is_a_referee_file(tmp_path):
    with pytest.raises(InputError, match="there is no referee file"):
        read_truth(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    with pytest.raises(InputError, match="is not a referee file"):
        read_truth(tmp_path / "other.npz")


# ------------------------------------------------------------------ replay


@pytest.fixture
def recorded(tmp_path):
    """100 samples of joint_pos at 100 Hz, gyro at 50 Hz, and what a runtime adds."""
    with Recorder(tmp_path / "run.mcap", robot="servo") as recorder:
        recorder.declare("joint_pos", unit="rad", columns=["servo"])
        recorder.declare("gyro", unit="rad/s", columns=["x", "y", "z"])
        recorder.declare("action", unit="1", columns=["servo"])
        recorder.declare("observation/policy", unit="1", columns=["a"])
        recorder.declare("joint_pos_target", unit="rad", columns=["servo"], role="u")
        for k in range(100):
            t = 3.0 + k / 100
            recorder.write("joint_pos", t, [0.01 * k])
            recorder.write("joint_pos_target", t, [0.5])
            if k % 2 == 0:
                recorder.write("gyro", t, [k, 0.0, 0.0])
                recorder.write("action", t, [1.0])
                recorder.write("observation/policy", t, [1.0])
    return tmp_path / "run.mcap"


def test_a_replay_gives_the_readings_of_then_and_ignores_commands(recorded):
    robot = connect(f"replay:{recorded}", lockstep=True)
    assert isinstance(robot, Replay)
    assert (robot.robot, robot.outputs, robot.kinds) == ("servo", ("servo",), ("joint_pos_target",))
    assert set(robot.channels) == {"joint_pos", "gyro", "joint_pos_target"}
    assert robot.rate == pytest.approx(100.0)
    for k in range(100):
        reading = robot.read(0.0)
        assert reading.count == k
        assert reading.time == pytest.approx(3.0 + k / 100)
        assert reading.values["joint_pos"][0] == pytest.approx(0.01 * k)
        assert reading.values["gyro"][0] == 2 * (k // 2)
        assert robot.read(0.0) is None
        robot.write(told(9.0))
    assert robot.finished
    assert robot.read(0.0) is None
    robot.stop()
    robot.close()


def test_a_paced_replay_keeps_its_time(recorded):
    robot = Replay(recorded)
    begin, first = time.monotonic(), robot.read(1.0)
    while (reading := robot.read(1.0)) is not None and reading.time < 3.1:
        pass
    assert first.time == 3.0
    assert time.monotonic() - begin >= 0.09
    robot.write(told())
    time.sleep(0.05)
    later = robot.read(0.0)
    assert later.count >= reading.count + 4


def test_a_log_without_measurements_cannot_be_replayed(tmp_path):
    with Recorder(tmp_path / "u.mcap") as recorder:
        recorder.declare("joint_pos_target", unit="rad", columns=["a"], role="u")
        recorder.write("joint_pos_target", 0.0, [1.0])
    with pytest.raises(InputError, match="nothing to replay"):
        Replay(tmp_path / "u.mcap")
