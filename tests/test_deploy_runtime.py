"""The runtime: stages, time base, safety, overruns, the operator, the log; on a robot inside the test's process."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from surefoot.bench import jitter, stand_in
from surefoot.bench.stand_in import JOINTS, POSE, StandIn
from surefoot.bench.table import Mark
from surefoot.cli_run import asked_of
from surefoot.cli_run import deploy as deploy_command
from surefoot.contract import Builder, Reading, Wire
from surefoot.deploy.diary import Diary
from surefoot.deploy.fitting import fit, inner_steps
from surefoot.deploy.loop_clock import Metronome, RobotTime, undisturbed
from surefoot.deploy.operator import Operator, Voice
from surefoot.deploy.runtime import Plan, Runtime, deploy
from surefoot.deploy.stages import Motions, smooth
from surefoot.errors import InputError
from surefoot.logs import read_log

QUICK = Plan(
    stand_up=0.3, ramp=0.1, hold=0.06, blend=0.1, halt=0.0, gather=0.1, sit_down=0.2, settle=0.06, frozen=0.3, speed=50.0
)  # fmt: skip
RESTING = np.zeros((12, stand_in.contract().group("policy").size))
"""Weights of a policy whose action is 0."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A small random policy."""
    return stand_in.bundle(tmp_path_factory.mktemp("bundle") / "random")


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    """A policy whose action is 0, with a rhythm of 0.2 rad."""
    return stand_in.bundle(tmp_path_factory.mktemp("bundle") / "still", stand_in.contract(lift=0.2), weight=RESTING)


def run(bundle, hardware, path=None, **changes):
    given = {"seconds": 0.4, "plan": QUICK, "say": None, "record": path} | changes
    if hardware.paced:
        given["safety"] = stand_in.patient(bundle.contract)
    return deploy(bundle, hardware, **given)


# -------------------------------------------------------------------- stages


def test_the_stages_come_in_order_and_are_recorded(bundle, tmp_path):
    robot, said = StandIn(), []
    outcome = run(bundle, robot, tmp_path / "run.mcap", say=said.append)
    names = ["connect", "wait", "stand-up", "hold", "policy", "sit-down", "stop"]
    assert [name for name, _ in outcome.stages] == names
    times = dict(outcome.stages)
    assert times["hold"] - times["stand-up"] == pytest.approx(0.3)
    assert times["sit-down"] - times["policy"] == pytest.approx(0.4)
    assert [line for line in said if line in names] == names
    assert [name for name, _ in read_log(outcome.log).meta["stages"]] == names
    assert (outcome.ended, outcome.exit_code, outcome.state) == ("finished", 0, "ok")
    assert outcome.policy_ticks == 20
    assert robot.stopped
    assert not robot.closed


def test_standing_up_is_smooth_and_ends_in_the_pose(still):
    robot = StandIn()
    outcome = run(still, robot, plan=replace(QUICK, stand_up=1.0))
    begin, hold, policy = (dict(outcome.stages)[name] for name in ("stand-up", "hold", "policy"))
    moving = [told for told in robot.told if begin <= told.time - 1.0 < hold - 1e-9]
    targets = np.array([told.command.target for told in moving])
    kp = np.array([told.command.kp[0] for told in moving])
    assert np.abs(targets[0] - StandIn().q).max() < 0.01
    assert np.abs(np.diff(targets, axis=0)).max() < 1.9 * 0.9 / 500 / 1.0 * 1.1
    assert kp[0] == 0.0
    assert (np.diff(kp) >= -1e-9).all()
    assert kp[-1] == pytest.approx(40.0)
    last = [told for told in robot.told if told.time - 1.0 < policy - 1e-9][-1].command
    assert np.allclose(last.target, POSE)
    assert np.allclose(last.kp, 40.0)
    assert np.allclose(last.kd, 1.0)


def test_sitting_down_lets_kp_go_or_moves_to_the_crouch(still):
    robot = StandIn()
    outcome = run(still, robot)
    after = dict(outcome.stages)["sit-down"]
    kp = np.array([told.command.kp[0] for told in robot.told if told.time - 1.0 >= after - 1e-9])
    assert (np.diff(kp) <= 1e-9).all()
    assert kp[-1] == 0.0
    robot = StandIn()
    run(still, robot, plan=replace(QUICK, sit_down=0.5, settle=0.0, crouch={"FL_thigh_joint": 1.3}))
    at = JOINTS.index("FL_thigh_joint")
    assert robot.told[-2].command.target[at] == pytest.approx(1.3, abs=0.01)
    with pytest.raises(InputError, match="FL_thigh_joint"):
        run(still, StandIn(), plan=replace(QUICK, crouch={"FL_thigh": 1.3}))


def test_a_robot_without_position_targets_neither_stands_up_nor_sits_down(tmp_path):
    made = stand_in.bundle(tmp_path / "b", stand_in.contract(kind="voltage_target"), bias=np.full(12, 0.4))
    robot = StandIn(kind="voltage_target", start=np.array(POSE))
    outcome = run(made, robot, tmp_path / "run.mcap", seconds=0.1)
    assert [name for name, _ in outcome.stages] == ["connect", "wait", "policy", "stop"]
    begin = dict(outcome.stages)["policy"]
    first = next(told for told in robot.told if told.time - 1.0 >= begin - 1e-9)
    assert np.allclose(first.command.target, 0.1)
    assert np.all(robot.told[-1].command.target == 0.0)
    assert read_log(outcome.log)["voltage_target"].unit == "V"
    assert "motor_kp" not in read_log(outcome.log)


def test_targets_are_blended_in_from_the_pose(tmp_path):
    made = stand_in.bundle(tmp_path / "b", bias=np.ones(12))
    robot = StandIn()
    outcome = run(made, robot, plan=replace(QUICK, blend=0.2))
    begin = dict(outcome.stages)["policy"] + 1.0
    off = {round(told.time - begin, 6): told.command.target[0] - POSE[0] for told in robot.told}
    for t in (0.0, 0.05, 0.1, 0.15, 0.25):
        assert off[t] == pytest.approx(0.25 * smooth(t / 0.2), abs=1e-9)


# -------------------------------------------------------------------- the policy's time and what it sees


def test_history_memory_and_clock_start_with_the_policy_and_one_builder_rebuilds_them(tmp_path):
    made = stand_in.bundle(tmp_path / "b", stand_in.contract(history=3))
    log = read_log(run(made, StandIn(), tmp_path / "run.mcap", command={"vx": 0.5}).log)
    seen, labels = log["observation/policy"], log["observation/policy"].columns
    first = dict(zip(labels, seen.values[0], strict=True))
    assert first["clock[sin]"] == 0.0
    assert first["clock[cos]"] == 1.0
    assert all(first[f"last_action[{joint.removesuffix('_joint')}]"] == 0.0 for joint in JOINTS)
    assert first["joint_pos[FL_hip] t-2"] == first["joint_pos[FL_hip]"]
    assert first["command[vx]"] == 0.5
    assert seen.values[1][labels.index("clock[sin]")] == pytest.approx(np.sin(2 * np.pi * 0.02 / 0.5))
    builder = Builder(made.contract)
    last = None
    for k, t in enumerate(seen.t):
        readings = {}
        for source in builder.sources:
            (row,) = np.flatnonzero(log[source].t == t)
            readings[source] = log[source].values[row]
        command = log["command"].values[k].astype(np.float32)
        built = builder.observe(readings, last_action=last, command=command)["policy"][0]
        assert np.array_equal(built, seen.values[k].astype(np.float32))
        last = log["action"].values[k].astype(np.float32)


def test_the_rhythm_of_the_action_follows_the_policys_own_time(still, tmp_path):
    outcome = run(still, StandIn(), tmp_path / "run.mcap", seconds=0.6)
    log = read_log(outcome.log)
    sent, steps = log["joint_pos_target"], log["action"].t
    phase = np.array([0.0, 0.5] * 6)
    for k in range(10, len(steps) - 1):
        t = 0.02 * k
        wave = 0.2 * np.maximum(0.0, np.sin(2 * np.pi * (t / 0.5 + phase)))
        row = np.searchsorted(sent.t, steps[k] + 0.01)
        assert np.abs(sent.values[row] - (np.array(POSE) + wave)).max() < 1e-5


def test_ticks_that_were_left_out_are_not_made_up_for(still):
    """After a stall of 100 ms the policy makes one step, not five, and goes on in its own time."""
    robot = StandIn()
    with Runtime(still, robot, seconds=1.0, plan=QUICK) as runtime:
        while runtime.stage != "policy":
            runtime.tick()
        for _ in range(20):
            runtime.tick()
        assert runtime.policy_ticks == 2
        runtime.tick(missed=50, overrun=True)
        assert runtime.policy_ticks == 3
        for _ in range(9):
            runtime.tick()
        assert runtime.policy_ticks == 3
        runtime.tick()
        assert runtime.policy_ticks == 4
        assert runtime.thinker.steps == 4
    assert (runtime.missed, runtime.overruns) == (50, 1)


def test_what_is_asked_must_be_trained_for_and_may_change(bundle, tmp_path):
    with pytest.raises(InputError, match=r"vx = 2 m/s was asked for, the policy was trained for -1 to 1"):
        Runtime(bundle, StandIn(), command={"vx": 2.0})
    with pytest.raises(InputError, match=r"'yaw' is not a command of this policy \(known: vx, yaw_rate\)"):
        Runtime(bundle, StandIn(), command={"yaw": 0.1})
    outcome = run(bundle, StandIn(), tmp_path / "run.mcap", command=lambda t: {"vx": 10 * t})
    asked = read_log(outcome.log)["command"].column("vx")
    assert asked[:3] == pytest.approx([0.0, 0.2, 0.4])
    assert asked.max() == 1.0
    assert asked_of("vx=0.5, yaw_rate=-.2") == {"vx": 0.5, "yaw_rate": -0.2}
    assert asked_of("") == {}
    for wrong in ("vx", "vx=fast", "=1"):
        with pytest.raises(InputError, match="NAME=VALUE"):
            asked_of(wrong)


# -------------------------------------------------------------------- what the robot must give


def changed(**attributes):
    robot = StandIn()
    for name, value in attributes.items():
        setattr(robot, name, value)
    return robot


def without(*names):
    return {name: wire for name, wire in StandIn().channels.items() if name not in names}


@pytest.mark.parametrize(
    ("robot", "sentence"),
    [
        (changed(robot="go2"), "the policy is for 'stand_in', the hardware is 'go2'"),
        (changed(kinds=("voltage_target",)), "the policy commands 'joint_pos_target', 'stand_in' takes voltage_target"),
        (changed(channels=without("gyro")), "term 'gyro' of group 'policy' needs the channel 'gyro'"),
        (changed(channels=without("gravity")), "it can be made of 'quat' in the driver"),
        (changed(channels=without("quat") | {"quat": Wire(unit="deg", columns=("w", "x", "y", "z"))}), "comes in 'deg', not SI"),
        (changed(channels=without() | {"gyro": Wire(unit="rad", columns=("x", "y", "z"))}), "channel 'gyro' comes in rad"),
        (changed(channels=without() | {"gyro": Wire(unit="rad/s", columns=("x", "y"))}), "'z' is not a column of channel 'gyro'"),
        (changed(outputs=JOINTS[:-1]), "the policy moves 'RL_calf_joint', which is not a motor of 'stand_in'"),
        (changed(outputs=(*JOINTS, "tail")), "motor 'tail' of 'stand_in' is not a joint of the contract"),
        (changed(rate=20.0), "the policy runs at 50 Hz, 'stand_in' gives readings at 20 Hz only"),
        (changed(rate=480.0), "no whole multiple"),
    ],
)  # fmt: skip
def test_a_robot_that_does_not_fit_is_refused_in_one_sentence_before_it_moves(bundle, robot, sentence):
    with pytest.raises(InputError) as error:
        run(bundle, robot)
    assert sentence in str(error.value)
    assert not robot.told


def test_joints_come_in_the_robots_order_by_name(still):
    """A robot whose channels and motors stand in another order gets its own targets."""
    order = np.random.default_rng(1).permutation(12)
    names = tuple(JOINTS[i] for i in order)

    class Shuffled(StandIn):
        outputs = names

        def read(self, timeout):
            reading = super().read(timeout)
            values = {n: v[order] if v.size == 12 else v for n, v in reading.values.items()}
            return Reading(time=reading.time, count=reading.count, values=values)

        def write(self, command):
            back = np.argsort(order)
            rows = {n: getattr(command, n)[back] for n in ("target", "kp", "kd", "velocity", "torque")}
            super().write(replace(command, **rows))

    robot, plain = Shuffled(), StandIn()
    robot.channels = {
        n: Wire(unit=w.unit, columns=names if len(w.columns) == 12 else w.columns) for n, w in robot.channels.items()
    }
    run(still, robot)
    run(still, plain)
    assert len(robot.told) == len(plain.told)
    for a, b in zip(robot.told, plain.told, strict=True):
        assert np.allclose(a.command.target * a.command.kp, b.command.target * b.command.kp)


def test_the_inner_rate_is_the_readings_or_the_contracts_if_slower():
    contract, robot = stand_in.contract(), StandIn(paced=True)
    assert inner_steps(contract, robot) == (500.0, 10)
    assert inner_steps(replace(contract, pd_rate=200.0), robot) == (200.0, 4)
    assert inner_steps(replace(contract, pd_rate=2000.0), robot) == (500.0, 10)
    assert inner_steps(replace(contract, control_dt=1 / 60), robot) == (pytest.approx(480.0), 8)
    assert fit(contract, robot).contract == contract


# -------------------------------------------------------------------- faults


def broken(start, stop, channel="joint_pos", value=np.nan):
    def alter(reading):
        if not start <= reading.time < stop:
            return reading
        bad = reading.values[channel].copy()
        bad[3 % bad.size] = value
        return Reading(time=reading.time, count=reading.count, values={**reading.values, channel: bad})

    return alter


def test_readings_that_are_no_numbers_lead_to_damping_and_the_end(bundle, tmp_path):
    robot = StandIn(alter=broken(1.6, 99.0))
    outcome = run(bundle, robot, tmp_path / "run.mcap", seconds=5.0)
    assert (outcome.ended, outcome.exit_code) == ("safety", 1)
    assert outcome.state in ("damping", "stopped")
    assert outcome.events
    assert "joint_pos" in " ".join(outcome.events)
    assert all(np.isfinite(told.command.target).all() for told in robot.told)
    assert np.all(robot.told[-1].command.kp == 0.0)
    log = read_log(outcome.log)
    assert np.isnan(log["joint_pos"].column(JOINTS[3])).sum() > 10
    assert np.isfinite(log["observation/policy"].values).all()
    assert log["safety"].column("state").max() >= 2
    assert list(log.meta["events"]) == list(outcome.events)
    assert log.meta["ended"] == "safety"


def test_a_robot_that_stays_frozen_is_given_up(bundle):
    outcome = run(bundle, StandIn(alter=broken(1.6, 1.65)), seconds=5.0)
    assert (outcome.ended, outcome.state) == ("safety", "stopped")
    stages = dict(outcome.stages)
    assert stages["stop"] < stages["policy"] + 0.6


def test_a_tick_without_a_new_reading_is_no_silence(bundle):
    """Two clocks of 500 Hz beat: now and then a tick finds no new sample, also when the first stage begins."""
    beating = StandIn(alter=lambda r: None if r.count in (10, 11) or (r.count > 11 and r.count % 7 == 0) else r)
    outcome = run(bundle, beating)
    assert outcome.ended == "finished"
    assert outcome.event_count == 0
    assert outcome.policy_ticks == 20


def test_silence_is_noticed(bundle):
    outcome = run(
        bundle, StandIn(alter=lambda r: None if r.time > 1.6 else r), seconds=5.0, plan=replace(QUICK, frozen=9.0)
    )
    assert outcome.ended == "safety"
    assert "no new reading" in " ".join(outcome.events)


@pytest.mark.parametrize("alter", [lambda _: None, broken(0.0, 99.0, "gyro")])
def test_without_good_readings_nothing_moves(bundle, alter):
    robot = StandIn(alter=alter)
    with pytest.raises(InputError, match=r"gave no 10 good readings in a row within 0\.2 s"):
        run(bundle, robot, plan=replace(QUICK, wait=0.2))
    assert robot.stopped
    assert all(np.all(told.command.kp == 0) for told in robot.told)


class Failing(StandIn):
    """Its wire breaks; remembers whether it was stopped before the log was closed."""

    def __init__(self, log):
        super().__init__()
        self.log, self.open_at_stop = log, None

    def write(self, command):
        if len(self.told) == 300:
            raise ConnectionError("the wire broke")
        super().write(command)

    def stop(self):
        super().stop()
        self.open_at_stop = "truncated" in read_log(self.log).meta


def test_an_error_in_the_loop_damps_the_motors_then_closes_the_log_then_is_told(bundle, tmp_path):
    path = tmp_path / "run.mcap"
    robot = Failing(path)
    with pytest.raises(ConnectionError, match="the wire broke"):
        run(bundle, robot, path)
    assert robot.stopped
    assert robot.open_at_stop
    log = read_log(path)
    assert "truncated" not in log.meta
    assert log.meta["reason"] == "ConnectionError: the wire broke"


def test_the_log_is_closed_even_if_the_robot_cannot_be_stopped(bundle, tmp_path):
    class Lost(StandIn):
        def stop(self):
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        run(bundle, Lost(), tmp_path / "run.mcap")
    assert "truncated" not in read_log(tmp_path / "run.mcap").meta


# -------------------------------------------------------------------- time


class FakeClock:
    """Time that moves only when it is told to."""

    def __init__(self):
        self.time = 100.0

    def now(self):
        return self.time

    def sleep_until(self, when):
        self.time = max(self.time, when)


def test_a_late_tick_runs_at_once_and_missed_ones_are_left_out():
    clock = FakeClock()
    beats = Metronome(0.002, clock)
    beats.start(100.0)
    times = []
    for busy in (0.0005, 0.0005, 0.0029, 0.0005, 0.0111, 0.0005, 0.0005, 0.0032, 0.0005):
        beat = beats.wait()
        times.append(beat.time)
        clock.time += busy
    due = [0, 2, 4, 6.9, 8, 19.1, 22, 24, 27.2]
    assert times == pytest.approx([100 + 1e-3 * t for t in due], abs=1e-9)
    assert (beats.overruns, beats.missed) == (2, 6)


def test_a_tick_less_than_half_a_period_late_is_no_overrun():
    clock = FakeClock()
    beats = Metronome(0.002, clock)
    beats.start(100.0)
    beats.wait()
    clock.time += 0.0029
    beat = beats.wait()
    assert beat.late == pytest.approx(0.0009)
    assert (beat.overrun, beat.missed, beats.overruns) == (False, 0, 0)


def test_the_loop_counts_overruns_of_a_slow_robot_on_a_clock_of_our_own(bundle, tmp_path):
    """A robot in real time whose wire takes 5 ms now and then: counted, recorded, and no tick is made up for."""
    clock = FakeClock()

    class Slow(StandIn):
        def _catch_up(self, timeout):
            due = int((clock.time - 100.0) * self.rate + 1e-6)
            if due <= self._given and timeout > 0:
                clock.sleep_until(100.0 + (self._given + 1) / self.rate)
                due = self._given + 1
            if due > self._count:
                self._advance(due)

        def write(self, command):
            super().write(command)
            clock.time += 0.0061 if len(self.told) % 50 == 0 else 0.0003

    robot = Slow(paced=True)
    outcome = run(bundle, robot, tmp_path / "run.mcap", clock=clock)
    assert outcome.ended == "finished"
    stalls = len(robot.told) // 50
    assert outcome.overruns == pytest.approx(stalls, abs=1)
    assert outcome.missed == 2 * outcome.overruns
    period = read_log(outcome.log)["timing"].column("period")
    assert period.min() >= 0.001
    assert period.max() == pytest.approx(0.0061 + 0.0002, abs=0.0005)
    assert outcome.jitter["max"] == pytest.approx(period.max() - 0.002, abs=1e-6)
    assert outcome.policy_ticks == pytest.approx(20, abs=2)


def test_the_robots_clock_is_followed_by_its_fastest_reading():
    robot = RobotTime()
    assert robot.at(5.0) == 5.0
    for k, late in enumerate((0.004, 0.001, 0.003, 0.002)):
        robot.see(100.0 + 0.002 * k + late, 0.002 * k)
    assert robot.at(100.02) == pytest.approx(0.02 - 0.001, abs=1e-5)
    robot.see(200.0, 500.0)
    assert robot.at(200.0) == pytest.approx(500.0)
    robot.see(201.0, 3.0)
    assert robot.at(201.0) == pytest.approx(3.0)


def test_garbage_collection_comes_back_after_the_loop():
    import gc

    with undisturbed() as had:
        assert not gc.isenabled()
        assert had == "ordinary priority"
    assert gc.isenabled()


# -------------------------------------------------------------------- the log


def test_everything_is_in_the_log_at_its_rate(bundle, tmp_path):
    outcome = run(bundle, StandIn(), tmp_path / "run.mcap", command={"vx": 0.3})
    log = read_log(outcome.log)
    raw = set(StandIn().channels)
    assert set(log.names) == raw | {
        "observation/policy", "action", "command", "joint_pos_target", "motor_kp", "motor_kd", "timing", "safety",
    }  # fmt: skip
    assert {c.name for c in log.u} == {"joint_pos_target", "motor_kp", "motor_kd"}
    assert all(c.clock == "robot" for c in log)
    assert log.robot == "stand_in"
    assert log.contract == bundle.contract.hash
    assert log.meta["bundle"] == bundle.hash
    assert log.meta["contract"] == json.loads(json.dumps(bundle.contract.to_dict()))
    assert log.meta["settings"]["robot"] == "stand_in"
    assert np.diff(log["joint_pos"].t) == pytest.approx(0.002)
    assert np.diff(log["action"].t) == pytest.approx(0.02)
    assert log["timing"].columns == ("period", "age", "compute", "safety")
    assert np.isin(log["action"].t, log["joint_pos"].t).all()
    assert log["observation/policy"].columns == bundle.contract.group("policy").labels
    text = str(outcome)
    assert "finished" in text
    assert str(outcome.log) in text
    json.dumps(outcome.to_dict(), allow_nan=False)


@pytest.mark.slow
def test_a_paced_run_is_recorded_by_a_process_of_its_own(bundle, tmp_path):
    robot = StandIn(paced=True)
    outcome = run(bundle, robot, tmp_path / "run.mcap", seconds=0.2)
    log = read_log(outcome.log)
    assert outcome.log_failed == ""
    assert "truncated" not in log.meta
    assert log.meta["ended"] == "finished"
    assert outcome.ticks - 40 < len(log["timing"]) < outcome.ticks
    assert len(log["joint_pos_target"]) == len(log["timing"]) == len(log["safety"])
    assert np.isin(log["action"].t, log["joint_pos"].t).mean() > 0.5
    assert set(outcome.jitter) == {"p50", "p90", "p99", "p99.9", "max"}


@pytest.mark.parametrize("paced", [False, True])
def test_a_log_that_exists_is_not_overwritten_and_nothing_moves(bundle, tmp_path, paced):
    path = tmp_path / "run.mcap"
    path.write_bytes(b"precious")
    robot = StandIn(paced=paced)
    with pytest.raises(InputError, match="never overwritten"):
        run(bundle, robot, path)
    with pytest.raises(InputError, match=r"an \.mcap file"):
        run(bundle, robot, tmp_path / "run.csv")
    with pytest.raises(InputError, match=r"cannot record|exists"):
        run(bundle, robot, path / "below.mcap")
    assert path.read_bytes() == b"precious"
    assert not robot.told


@pytest.mark.parametrize("paced", [False, True])
def test_a_diary_survives_times_that_go_back_and_infinite_values(tmp_path, paced):
    diary = Diary(tmp_path / "d.mcap", stand_in.contract(), StandIn(paced=paced), meta={"who": "test"})
    for t, x in ((1.0, 0.0), (2.0, np.inf), (1.5, 0.0), (2.0, 0.0), (np.nan, 0.0), (3.0, 1.0)):
        diary.reading(t, {"gyro": np.array([x, 0.0, 0.0])})
        diary.hand_over()
    diary.note(mood="calm")
    diary.close()
    log = read_log(tmp_path / "d.mcap")
    assert log["gyro"].t.tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(log["gyro"].column("x")).tolist() == [False, True, False]
    assert diary.lost == {"gyro": 3}
    assert log.meta["lost"] == {"gyro": 3}
    assert (log.meta["who"], log.meta["mood"]) == ("test", "calm")


@pytest.mark.slow
def test_a_dead_recorder_does_not_stop_the_robot_and_is_told(bundle, tmp_path):
    robot = StandIn(paced=True)
    safety = stand_in.patient(bundle.contract)
    with Runtime(bundle, robot, seconds=0.4, plan=QUICK, record=tmp_path / "run.mcap", safety=safety) as runtime:
        assert runtime.diary is not None
        while runtime.tick():
            if runtime.ticks == 100:
                os.kill(runtime.diary._pen._process.pid, signal.SIGKILL)
            time.sleep(0.0015)
    assert runtime.outcome().ended == "finished"
    assert "recorder's process" in runtime.outcome().log_failed
    assert "not whole" in str(runtime.outcome())
    assert len(read_log(tmp_path / "run.mcap")["timing"]) > 10


# -------------------------------------------------------------------- the operator

CHILD = """
import sys
from surefoot.bench.stand_in import StandIn, contract, patient
from surefoot.deploy.runtime import Plan, deploy
robot, tell, plan = StandIn(paced=True), lambda line: print(line, flush=True), Plan(stand_up=0.3, hold=0.1)
outcome = deploy(sys.argv[1], robot, seconds=60.0, record=sys.argv[2], safety=patient(contract()), say=tell, plan=plan)
print(outcome.ended, outcome.reason, robot.stopped, flush=True)
sys.exit(outcome.exit_code)
"""


def until_policy(bundle, path):
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(bundle.folder), str(path)], stdout=subprocess.PIPE, text=True
    )
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("policy"):
            return process
    raise AssertionError(f"the policy never started: {said}")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_ends_a_run_safely(bundle, tmp_path, number, name):
    process = until_policy(bundle, tmp_path / "run.mcap")
    process.send_signal(number)
    said = process.communicate(timeout=20)[0]
    assert process.returncode == 130
    assert f"operator stopped by {name} True" in said
    log = read_log(tmp_path / "run.mcap")
    assert "truncated" not in log.meta
    assert log.meta["ended"] == "operator"
    assert log.meta["stages"][-1][0] == "stop"
    assert log["safety"].column("state")[-1] == 3
    assert np.all(log["motor_kp"].values[-1] == 0.0)


def test_a_second_signal_ends_at_once(bundle, tmp_path):
    robot = StandIn(paced=True)
    sent = []

    class Impatient(StandIn):
        def write(self, command):
            super().write(command)
            if len(self.told) in (100, 102):
                sent.append(len(self.told))
                signal.raise_signal(signal.SIGINT)

    robot = Impatient(paced=True)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(bundle, robot, tmp_path / "run.mcap", seconds=9.0)
    assert sent == [100, 102]
    assert len(robot.told) == 102
    assert robot.stopped
    assert signal.getsignal(signal.SIGINT) is before
    assert read_log(tmp_path / "run.mcap").meta["ended"] == "operator"


def test_a_stop_file_ends_a_run(bundle, tmp_path):
    class Watched(StandIn):
        def write(self, command):
            super().write(command)
            if len(self.told) == 100:
                (tmp_path / "stop").touch()
            if len(self.told) > 100:
                time.sleep(0.001)

    outcome = run(bundle, Watched(), seconds=60.0, stop_file=tmp_path / "stop")
    assert (outcome.ended, outcome.exit_code) == ("operator", 130)
    assert "stop" in outcome.reason


def test_keys_are_read_only_from_a_terminal(monkeypatch):
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    with os.fdopen(slave) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with Operator(signals=False) as operator:
            os.write(master, b"hello\n")
            time.sleep(0.2)
            assert not operator.asked
            os.write(master, b"q\n")
            for _ in range(50):
                if operator.asked:
                    break
                time.sleep(0.02)
            assert operator.asked == "the keyboard"
    os.close(master)


@pytest.mark.slow
def test_a_voice_that_is_stuck_does_not_hold_up_the_loop():
    import threading

    stuck, heard = threading.Event(), []

    def say(line):
        heard.append(line)
        stuck.wait(5.0)

    voice = Voice(say, aside=True)
    for k in range(1000):
        voice(str(k))
    assert len(heard) <= 1
    stuck.set()
    voice.close()
    assert heard[0] == "0"
    assert len(heard) < 200


@pytest.mark.slow
def test_killing_the_runtime_leaves_its_log_readable_to_the_last_tenth_of_a_second(bundle, tmp_path):
    lost = jitter.killed(bundle, tmp_path / "a", 0.6, both=False)
    assert lost is not None
    assert 0.0 <= lost <= 0.1
    log = read_log(tmp_path / "a" / "run.mcap")
    assert "ended without closing" in log.meta["ended"]
    lost = jitter.killed(bundle, tmp_path / "b", 0.4, both=True)
    assert lost is None or 0.0 <= lost <= 0.1


# -------------------------------------------------------------------- shadow


def other(t):
    return np.array(POSE) + 0.1 * np.arange(12) / 11


def test_shadow_scores_and_writes_nothing(tmp_path):
    made = stand_in.bundle(tmp_path / "b", weight=RESTING)
    robot = StandIn(paced=True, others=other, start=np.array(POSE))
    outcome = run(made, robot, tmp_path / "run.mcap", shadow=True, seconds=0.2)
    assert robot.told == []
    assert not robot.stopped
    assert [name for name, _ in outcome.stages] == ["connect", "wait", "policy"]
    assert list(outcome.score.values()) == pytest.approx(0.1 * np.arange(12) / 11, abs=1e-6)
    log = read_log(outcome.log)
    assert log.meta["score"] == pytest.approx(dict(outcome.score))
    assert log["joint_pos_target"].role == "u"
    assert log["joint_pos_target"].values[-1] == pytest.approx(other(0.0))
    assert log["shadow/joint_pos_target"].values[-1] == pytest.approx(POSE, abs=1e-6)
    assert "motor_kp" not in log
    assert len(log["action"]) == outcome.policy_ticks


def test_shadow_in_lockstep_hands_the_other_controllers_targets_back(tmp_path):
    made = stand_in.bundle(tmp_path / "b", weight=RESTING)
    robot = StandIn(others=other, start=np.array(POSE))
    run(made, robot, shadow=True, seconds=0.1)
    assert robot.told
    assert all(np.allclose(told.command.target, other(0.0)) for told in robot.told)


def test_shadow_needs_the_other_controllers_targets(bundle):
    robot = StandIn()
    with pytest.raises(
        InputError, match="shadow mode, which scores the policy against it, needs the channel 'joint_pos_target'"
    ):
        run(bundle, robot, shadow=True)


# -------------------------------------------------------------------- the house


def test_the_runtime_needs_neither_torch_nor_mujoco(bundle):
    code = """
import sys
from surefoot.bench.stand_in import StandIn
from surefoot.deploy.runtime import Plan, deploy
outcome = deploy(sys.argv[1], StandIn(), seconds=0.1, plan=Plan(stand_up=0.1, hold=0.0, sit_down=0.0, settle=0.0), say=None)
heavy = ("torch", "mujoco", "scipy", "onnx", "surefoot.robots", "surefoot.sim", "surefoot.learn")
print(outcome.ended, [name for name in heavy if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", code, str(bundle.folder)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "finished []"


@pytest.mark.slow
def test_the_command_runs_a_bundle_and_tells_how_it_went(bundle, tmp_path, monkeypatch, capsys):
    robot = StandIn()
    connected = []

    def connect(spec, *, lockstep, seed):
        connected.append((spec, lockstep, seed))
        return robot

    monkeypatch.setattr(importlib.import_module("surefoot.hardware.connect"), "connect", connect)
    code = deploy_command(
        bundle.folder,
        hardware="twin:x",
        seconds=0.1,
        record=tmp_path / "run.mcap",
        command="vx=0.2",
        lockstep=True,
        json=True,
    )
    assert code == 0
    assert connected == [("twin:x", True, 0)]
    assert robot.closed
    told = capsys.readouterr()
    assert json.loads(told.out)["ended"] == "finished"
    assert "stand-up" in told.err
    with pytest.raises(InputError, match="trained for"):
        deploy_command(bundle.folder, hardware="twin:x", seconds=0.1, command="vx=9")


def test_motions_and_plans_refuse_nonsense():
    with pytest.raises(InputError, match="stand_up of a plan"):
        Plan(stand_up=-1.0)
    with pytest.raises(InputError, match="a run needs a time above 0 s"):
        Runtime("nowhere", StandIn(), seconds=0.0)
    motions = Motions(stand_in.contract(), JOINTS, QUICK)
    far = motions.duration(np.zeros(12), np.full(12, 20.0), 0.1)
    assert far == pytest.approx(1.875 * 20 / QUICK.speed)
    at_once = Motions(stand_in.contract(), JOINTS, replace(QUICK, blend=0.0))
    target = np.full(12, 0.1)
    for early in (-1e-6, 0.0, 0.01):  # The clock may be a little behind the policy's first tick.
        assert np.array_equal(at_once.policy(early, target).target, target)
    assert [smooth(x) for x in (-1.0, 0.0, 0.5, 1.0, 2.0)] == [0.0, 0.0, 0.5, 1.0, 1.0]


@pytest.mark.slow
def test_the_bench_finds_a_burst_and_counts_what_was_lost(tmp_path):
    steady = np.full(1000, 0.002)
    assert jitter.crowd(steady, 0.0101) == 6
    burst = np.concatenate([steady[:100], [0.03], np.full(14, 1e-4), steady[:100]])
    assert jitter.crowd(burst, 0.0101) > 15
    agreed = jitter.standing_contract("go2")
    assert len(agreed.joints) == 12
    with contextlib.closing(StandIn(paced=True)) as robot:
        marks = jitter.loop_marks("robot", stand_in.bundle(tmp_path / "b"), robot, tmp_path, 0.2, False)
    assert all(isinstance(mark, Mark) for mark in marks)
    assert {mark.name.split(",")[0] for mark in marks} >= {
        "jitter p50",
        "jitter max",
        "overruns",
        "most ticks in 5 periods",
    }


# -------------------------------------------------------------------- the end of a run


def until(runtime, stage):
    while runtime.stage != stage:
        assert runtime.tick()


@pytest.mark.parametrize("stage", ["halt", "sit-down"])
def test_the_operator_can_stop_a_run_that_is_ending(bundle, stage):
    robot = StandIn()
    with Runtime(bundle, robot, seconds=0.1, plan=replace(QUICK, halt=0.2)) as runtime:
        until(runtime, stage)
        runtime.stop("the key")
        assert runtime.stage == "stop"
        while runtime.tick():
            pass
    assert (runtime.ended, runtime.reason) == ("operator", "the key")


def test_in_the_halt_every_command_is_zero_and_nothing_else_can_be_asked(bundle, tmp_path):
    plan = replace(QUICK, halt=0.2)
    with Runtime(
        bundle, StandIn(), seconds=0.1, plan=plan, command={"vx": 0.5}, record=tmp_path / "run.mcap"
    ) as runtime:
        until(runtime, "halt")
        runtime.ask({"vx": 0.7})
        while runtime.tick():
            pass
    asked = read_log(tmp_path / "run.mcap")["command"].column("vx")
    assert asked[:5].tolist() == [0.5] * 5
    assert asked[5:].tolist() == [0.0] * 10
    assert runtime.policy_ticks == 5


def test_a_robot_frozen_while_it_sits_down_has_not_finished(bundle):
    start = []
    robot = StandIn(alter=lambda r: None if start and r.time > start[0] + 0.05 else r)
    with Runtime(bundle, robot, seconds=0.1, plan=replace(QUICK, frozen=9.0)) as runtime:
        until(runtime, "sit-down")
        start.append(runtime.reading.time)
        while runtime.tick():
            pass
    assert runtime.ended == "safety"
    assert "reading" in runtime.reason


def test_the_motors_are_damped_also_when_somebody_panics(bundle):
    robot, calls = StandIn(), []
    stop = robot.stop

    def nervous():
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        stop()

    robot.stop = nervous
    with pytest.raises(KeyboardInterrupt), Runtime(bundle, robot, seconds=0.1, plan=QUICK) as runtime:
        runtime.tick()
    assert robot.stopped


def test_sitting_down_goes_over_the_default_pose_to_the_rest():
    made = replace(stand_in.contract(), rest=tuple(p + 0.5 for p in POSE))
    motions = Motions(made, made.joints, QUICK)
    start = np.array(POSE) + 0.3
    assert motions.sit_down(0.0, start, (0.1, 0.3)).target == pytest.approx(start)
    assert motions.sit_down(0.1, start, (0.1, 0.3)).target == pytest.approx(POSE)
    assert motions.sit_down(0.3, start, (0.1, 0.3)).target == pytest.approx(np.array(POSE) + 0.5)
