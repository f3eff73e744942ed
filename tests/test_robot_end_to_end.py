"""The shipped policy on a stand-in robot: deployed, recorded, verified; and the parts of `bench deploy`."""

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest

from surefoot import cli
from surefoot.bench import killed
from surefoot.bench.deploy import PARTS
from surefoot.contract import Contract
from surefoot.deploy import load_bundle, shipped
from surefoot.deploy.verify import verify
from surefoot.errors import InputError
from surefoot.hardware import read_truth
from surefoot.logs import read_log
from surefoot.robots import load


def test_shipped_bundles_load_by_name_and_say_where_they_come_from():
    assert "go2-walk" in shipped()
    for name in shipped():
        bundle = load_bundle(name)
        assert bundle.contract == Contract.load(bundle.folder / "contract.json")
        assert bundle.provenance["run"]["steps"] > 0
        assert not bundle.unknown
    with pytest.raises(InputError, match="go2-walk"):
        load_bundle("go2-wlk")


@pytest.mark.slow
def test_the_shipped_policy_walks_on_the_nominal_twin_and_its_log_verifies(tmp_path, capsys):
    log = tmp_path / "walk.mcap"
    words = ["--hardware", "twin:go2/01-nominal", "--seconds", "4", "--command", "vx=0.5", "--lockstep", "--json"]
    assert cli.run(["deploy", "go2-walk", *words, "--record", str(log)]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["ended"] == "finished"
    assert outcome["state"] == "ok"
    assert [name for name, _ in outcome["stages"]][-4:] == ["policy", "halt", "sit-down", "stop"]
    assert cli.run(["verify", "go2-walk", "--log", str(log)]) == 0
    assert "nothing wrong was found" in capsys.readouterr().out
    whole = log.read_bytes()
    for share in (0.02, 0.1, 0.4):
        cut = tmp_path / f"cut{share}.mcap"
        cut.write_bytes(whole[: int(share * len(whole))])
        assert cli.run(["verify", "go2-walk", "--log", str(cut)]) == 0
        assert "not checked" in capsys.readouterr().out
    good = read_log(log)
    values = np.array(good["action"].values)
    values[50:53, 2] = np.nan
    broken = replace(good, channels=tuple(replace(c, values=values) if c.name == "action" else c for c in good))
    found = verify(load_bundle("go2-walk"), broken, load("go2")).findings
    assert [(f.term, f.kind) for f in found] == [("action", "not finite")]


@pytest.mark.slow
def test_a_policy_driven_with_the_legs_swapped_is_named(tmp_path, capsys):
    log = tmp_path / "walk.mcap"
    words = [
        "--hardware",
        "twin:go2/01-nominal",
        "--seconds",
        "3",
        "--command",
        "vx=0.5,vy=0.2",
        "--lockstep",
        "--json",
    ]
    assert cli.run(["deploy", "go2-walk", *words, "--record", str(log)]) == 0
    capsys.readouterr()
    good = read_log(log)
    joint_pos = good["joint_pos"]
    swapped = [c.replace("FL", "x").replace("FR", "FL").replace("x", "FR") for c in joint_pos.columns]
    order = [joint_pos.columns.index(c) for c in swapped]
    bad = replace(
        good, channels=tuple(replace(c, values=c.values[:, order]) if c.name == "joint_pos" else c for c in good)
    )
    bad.save(tmp_path / "bad.mcap")
    assert cli.run(["verify", "go2-walk", "--log", str(tmp_path / "bad.mcap")]) == 1
    said = capsys.readouterr().out
    assert "joint_pos" in said
    assert "permuted" in said


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_motors_are_damped_when_the_runtime_is_killed_or_silent(seed):
    took = killed.case(seed)
    assert took is not None
    assert took < 0.2


@pytest.mark.parametrize("part", [module for parts in PARTS.values() for module in parts.values()])
def test_every_part_of_the_bench_can_be_measured(part):
    assert callable(importlib.import_module(part).measure)


def test_a_referee_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(InputError, match="no referee file"):
        read_truth(tmp_path / "none.npz")
