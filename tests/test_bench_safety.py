"""The bench of the safety layer: its judge sees planted breaches, its faults are found, its clean runs raise no alarm."""

import math
from dataclasses import replace

import numpy as np
import pytest

from surefoot.bench.safety_faults import false_alarms, faults, latency, limits, trial
from surefoot.bench.safety_kinds import ELSEWHERE, kinds
from surefoot.bench.safety_limits import LIMITS, Breaches, adversaries, excess, noise, search, wild
from surefoot.bench.safety_runs import record
from surefoot.bench.table import Request
from surefoot.deploy.limits import KD, KP, TARGET, TORQUE, Limits


@pytest.fixture(scope="module")
def bench():
    return record(runs=3, seconds=4.5)


@pytest.mark.slow
def test_there_are_enough_kinds_and_all_have_other_names(bench):
    names = [kind.name for kind in kinds(bench)] + list(ELSEWHERE)
    assert len(names) == len(set(names)) >= 22


def test_clean_runs_raise_no_alarm(bench):
    assert len(bench.runs) >= 2
    (mark,) = false_alarms(bench, Request())
    assert mark.holds


def test_every_kind_of_fault_is_found_in_time(bench):
    for number, kind in enumerate(kinds(bench)):
        found = trial(bench, kind, 7 * number)
        assert not found.early, kind.name
        assert found.sound, kind.name
        assert found.took <= kind.within, kind.name


def test_a_layer_that_sleeps_is_seen_to(bench):
    """The bench itself: with a check switched off its fault is not found."""
    asleep = replace(bench, settings=replace(bench.settings, levels=dict.fromkeys(("range", "jump"), "warn")))
    kind = next(k for k in kinds(bench) if k.name == "encoder jump")
    assert trial(asleep, kind, 1).took == math.inf
    assert trial(bench, kind, 1).took <= kind.within


def test_the_judge_sees_a_planted_breach_of_every_limit(bench):
    s, index = bench.settings, np.arange(12)
    q, dq = np.asarray(bench.contract.pose), np.zeros(12)
    good = np.zeros((5, 12))
    good[TARGET], good[KP], good[KD] = q, 20.0, 1.0

    def broken(row, value):
        bad = good.copy()
        bad[row, 3] = value
        return {name: float(v.max()) for name, v in excess(s, index, bad, q, q, dq, s.period, 1.0).items()}

    assert max(broken(KP, 20.0).values()) <= 0
    assert broken(TARGET, 2.0)["position"] > 0
    assert broken(TARGET, q[3] + 1.01 * s.rate_limit[3] * s.period)["rate"] > 0
    assert broken(KP, 41.0)["kp"] > 0
    assert broken(KP, -1.0)["kp"] > 0
    assert broken(KD, 100.0)["kd"] > 0
    assert broken(TORQUE, 24.0)["torque"] > 0
    assert broken(TORQUE, np.nan)["torque"] == math.inf
    counted = Breaches()
    counted.add("noise", 1, excess(s, index, np.where(good == 20.0, 50.0, good), q, q, dq, s.period, 1.0))
    assert counted.count == 12


def test_the_search_breaks_a_limit_that_is_not_kept(bench, monkeypatch):
    """Without the scaling by the curve, CMA finds torques outside within a few hundred steps."""
    monkeypatch.setattr(Limits, "_soften", lambda *_: None)
    found = Breaches()
    search(found, bench.settings, "torque", 800, 0)
    assert found.count > 0
    assert found.nearest["torque"] > 0.5


def test_noise_has_every_scale_and_what_is_no_number():
    x = wild(np.random.default_rng(0), (5, 100, 12))
    assert np.isnan(x).any()
    assert np.isinf(x).any()
    size = np.abs(x[np.isfinite(x) & (x != 0)])
    assert size.min() < 1e-300
    assert size.max() > 1e300


def test_no_adversary_gets_a_command_out_of_the_limits(bench):
    found = adversaries(bench, 60_000, tell=lambda _: None)
    assert found.count == 0
    assert found.failed == 0
    assert sum(found.steps.values()) >= 60_000
    assert found.nearest["torque"] > -1e-6  # it was really pressed against them
    assert set(found.nearest) == set(LIMITS)


def test_noise_is_the_same_for_the_same_seed(bench):
    first, second = Breaches(), Breaches()
    for found in (first, second):
        noise(found, bench.settings, 4000, np.random.default_rng(3))
    assert first.nearest == second.nearest


@pytest.mark.slow
def test_the_marks_of_a_quick_bench(bench):
    request = Request(quick=True)
    marks = [*faults(bench, request), *limits(bench, request), *latency(replace(bench, runs=bench.runs[:1]), request)]
    named = {mark.name: mark for mark in marks}
    assert named["safety faults: safe state in time"].holds
    assert named["safety: commands outside the limits"].holds
    assert named["safety layer, median"].unit == "µs"
