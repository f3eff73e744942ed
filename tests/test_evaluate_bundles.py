"""Bundles, shipped ones too, are judged as runs are."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the extra `deploy` is not installed")
pytest.importorskip("torch", reason="the extra `learn` is not installed")

from surefoot.deploy import load_bundle, shipped
from surefoot.errors import InputError
from surefoot.evaluate import judge
from surefoot.evaluate.runs import candidate, same_task
from surefoot.learn.walking import LESSONS, teach
from surefoot.robots import load
from surefoot.sim import Sim


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_bundle_fits_its_task(name):
    found = candidate(name)
    contract = found.task.contract(Sim(found.robot, worlds=1))
    assert found.policy.actions == len(contract.action.joints)
    offered = {group.name: group.size for group in contract.groups}
    assert all(offered[group] == width for group, width in found.policy.widths.items())
    assert found.steps > 1_000_000
    assert contract.clock_period == load_bundle(name).contract.clock_period


def test_a_run_is_judged_at_the_rhythm_and_with_the_memory_it_was_trained_with(tmp_path):
    sim, lesson = Sim(load("g1"), worlds=4), LESSONS["g1"]
    slow = replace(lesson, task=replace(lesson.task, period=0.7, memory=2), steps=1)
    teach(sim, slow, run=tmp_path / "run", say=lambda _line: None)
    found = candidate(tmp_path / "run")
    assert (found.task.period, found.task.memory) == (0.7, 2)
    judged = judge(found.task, Sim(found.robot, worlds=2), found.policy.play(), e=sim.params.nominal_e(2), seconds=0.1)
    assert judged.fell.shape == (2,)


def test_runs_of_other_rhythms_or_memories_are_not_judged_with_each_others(tmp_path):
    sim, lesson = Sim(load("g1"), worlds=4), LESSONS["g1"]
    for name, changes in {"now": {}, "blank": {"memory": 1}, "slow": {"period": 0.6}}.items():
        teach(
            sim,
            replace(lesson, task=replace(lesson.task, **changes), steps=1),
            run=tmp_path / name,
            say=lambda _l: None,
        )
    now, blank, slow = (candidate(tmp_path / name) for name in ("now", "blank", "slow"))
    assert same_task([now, replace(now, name="again")]) is now
    with pytest.raises(
        InputError, match=r"blank was trained with memory 1 of its task, now with 3: judge them one at a time"
    ):
        same_task([now, blank])
    with pytest.raises(InputError, match=r"slow was trained with period 0\.6"):
        same_task([now, slow])


def test_a_run_of_another_contract_than_its_task_has_now_is_refused(tmp_path):
    sim, lesson = Sim(load("g1"), worlds=4), LESSONS["g1"]
    strong = replace(lesson, task=replace(lesson.task, effort=0.5), steps=1)
    teach(sim, strong, run=tmp_path / "run", say=lambda _line: None)
    with pytest.raises(InputError, match=r"another contract than g1's task has now: action scale of .*by the factor 2"):
        candidate(tmp_path / "run")
    file = tmp_path / "run" / "config.json"
    file.write_text(file.read_text().replace('"control_dt": 0.02', '"control_dt": "often"'))
    with pytest.raises(InputError, match=r"config\.json: contract"):
        candidate(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["g1-rough", "g1-walk", "go2-rough", "go2-rough-scan", "go2-walk"])
def test_a_shipped_bundle_stays_on_its_feet_and_goes_where_it_is_told(name):
    found = candidate(name)
    sim = Sim(found.robot, worlds=8, seed=3)
    e = sim.params.nominal_e(8)
    if "step_height" in e:
        e["step_height"][:] = 0.04
    judged = judge(found.task, sim, found.policy.play(), e=e, seed=5, seconds=5.0)
    assert not judged.fell.any()
    assert float(np.nanmean(judged.error)) < 0.25


def test_a_bundle_that_does_not_say_what_it_is_for_is_refused(tmp_path):
    import json
    import shutil

    shutil.copytree(shipped()["go2-walk"], tmp_path / "plain")
    file = tmp_path / "plain" / "provenance.json"
    data = json.loads(file.read_text())
    del data["run"]
    file.write_text(json.dumps(data))
    with pytest.raises(InputError, match="does not say what it was trained for"):
        candidate(tmp_path / "plain")


def test_a_name_that_is_no_folder_and_no_bundle_is_answered_with_the_nearest_bundle():
    with pytest.raises(InputError, match="did you mean 'go2-rough'"):
        candidate("go2-ruff")
