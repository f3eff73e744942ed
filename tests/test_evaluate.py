"""Judges: intervals that cover, and the commands that train and judge a walking policy."""

import json

import numpy as np
import pytest

from surefoot.cli import run
from surefoot.evaluate import wilson


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.95])
@pytest.mark.parametrize("trials", [20, 200])
def test_wilsons_interval_covers_as_often_as_it_says(share, trials):
    found = np.random.default_rng(0).binomial(trials, share, 4000)
    bounds = np.array([wilson(int(k), trials) for k in found])
    covered = ((bounds[:, 0] <= share) & (share <= bounds[:, 1])).mean()
    assert 0.83 < covered < 0.97


def test_wilsons_interval_is_no_point_at_the_ends():
    assert wilson(0, 50)[0] == 0.0
    assert 0.03 < wilson(0, 50)[1] < 0.08
    assert wilson(50, 50)[1] == 1.0
    with pytest.raises(ValueError, match="3 successes of 2 trials"):
        wilson(3, 2)


def test_a_robot_without_a_lesson_and_a_folder_without_a_run_are_named(tmp_path, capsys):
    assert run(["train", "cube", "--run", str(tmp_path / "run")]) == 2
    assert "'cube' is not a robot with a task" in capsys.readouterr().err
    assert run(["evaluate", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_short_training_is_resumed_and_judged_from_the_command_line(tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert run(["train", "go2", "--run", folder, "--steps", "20000"]) == 0
    assert run(["train", "go2", "--run", folder, "--steps", "30000"]) == 0
    capsys.readouterr()
    assert run(["evaluate", folder, "--worlds", "16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["robot"] == "go2"
    assert found["worlds"] == 16
    assert 0.0 <= found["survival_90"][0] <= found["survival"] <= found["survival_90"][1] <= 1.0
    assert len(found["duty"]) == 4
    steps = [json.loads(line)["steps"] for line in (tmp_path / "run" / "progress.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))
    assert steps[-1] >= 30000
