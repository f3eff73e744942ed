"""The bench of contract faults: enough kinds, honest counting, and seeds that thresholds were not chosen on."""

from dataclasses import replace

import numpy as np
import pytest

from surefoot.bench import contract_faults
from surefoot.bench.contract_faults import DRIVER, FAULTS, breakdown, false_alarms, measure, trials
from surefoot.bench.fault_runs import Hooks, Past, record, stepping_case, swinging_case
from surefoot.bench.planted import Planted
from surefoot.bench.table import Request
from surefoot.deploy.findings import KINDS, PLACES, Finding, Verdict


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    return [replace(stepping_case(folder), seconds=2.0), replace(swinging_case(folder), seconds=2.0)]


def test_there_are_enough_kinds_and_each_expects_a_kind_that_exists(found):
    applies = set()
    for name, plant in FAULTS.items():
        for case in found:
            planted = plant(case, np.random.default_rng(0))
            if planted is None:
                continue
            applies.add(name)
            assert planted.where in PLACES
            assert set(planted.kinds) <= set(KINDS)
            assert planted.terms
            assert (planted.where == "driver") == (name in DRIVER)
    assert applies == set(FAULTS)
    assert len(FAULTS) >= 24
    assert len(DRIVER) >= 8


def test_named_means_named_and_nothing_else_said():
    planted = Planted(hooks=Hooks(), where="driver", terms=("gyro",), kinds=("sign",), also=(("driver", "accel", "*"),))
    right = Finding(where="driver", term="gyro", kind="sign", detail="")
    other = Finding(where="driver", term="gyro", kind="scale", detail="")
    consequence = Finding(where="driver", term="accel", kind="scale", detail="")
    assert planted.named(Verdict(findings=(right,)))
    assert planted.named(Verdict(findings=(right, consequence)))
    assert not planted.named(Verdict(findings=(right, other)))
    assert not planted.named(Verdict(findings=(consequence,)))
    assert not planted.named(Verdict())


def test_a_run_repeats_bit_for_bit_and_depends_on_its_seed(found):
    case = found[1]
    a, b, c = (record(case, Hooks(), seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a[name].values, b[name].values) for name in a.names)
    assert not np.array_equal(a["joint_pos"].values, c["joint_pos"].values)


def test_a_recorded_run_has_the_channels_of_a_runtime(found):
    log = record(found[0], Hooks(), 3)
    for name in (
        "joint_pos", "joint_vel", "gyro", "quat", "gravity", "accel", "joint_torque", "observation/policy", "observation/history",
        "action", "command", "joint_pos_target", "motor_kp", "motor_kd",
    ):  # fmt: skip
        assert name in log
    assert log["joint_pos_target"].role == "u"
    assert log["observation/policy"].columns == found[0].bundle.contract.group("policy").labels
    assert len(log["action"]) * 4 == pytest.approx(len(log["joint_pos"]) - 160, abs=4)


def test_the_past_gives_back_what_was_some_calls_ago():
    past = Past()
    assert [past.delayed("x", k, 2) for k in range(5)] == [0, 0, 0, 1, 2]


@pytest.mark.slow
def test_the_bench_counts_and_tells_what_it_missed(found, monkeypatch):
    names = ("last action missing", "driver: speed sign")
    missed = Planted(hooks=Hooks(), where="driver", terms=("gyro",), kinds=("sign",))
    some = {name: FAULTS[name] for name in names} | {"never there": lambda case, rng: missed}
    monkeypatch.setattr(contract_faults, "FAULTS", some)
    monkeypatch.setattr(contract_faults, "CLEAN", 2)
    monkeypatch.setattr(contract_faults, "cases", lambda walking, folder: found[1:])
    told = []
    marks = {mark.name: mark for mark in measure(Request(quick=True, tell=told.append))}
    assert marks["contract faults caught and rightly named"].value == pytest.approx(2 / 3)
    assert marks["contract faults caught and rightly named"].holds is False
    assert marks["false alarms on clean logs"].value == 0
    assert marks["kinds of contract faults"].value == 3
    assert any("never there in swinging" in line for line in told)


def test_judged_seeds_are_not_those_that_thresholds_were_chosen_on(found):
    done = list(trials(found[1:], repetitions=1, names={"driver: speed sign": FAULTS["driver: speed sign"]}))
    assert min(trial.seed for trial in done) >= 60_000
    assert all(trial.named and trial.caught for trial in done)
    assert "driver: speed sign  1/1" in breakdown(done)


def test_clean_runs_raise_no_alarm(found):
    assert false_alarms(found, 2) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FAULTS))
def test_every_fault_is_named_wherever_it_applies(found, name):
    whole = [replace(case, seconds=5.0) for case in found]
    for trial in trials(whole, repetitions=1, names={name: FAULTS[name]}):
        assert trial.named, f"{trial.case}: {trial.verdict}"
