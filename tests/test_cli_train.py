"""`surefoot train`: its options reach the training."""

from types import SimpleNamespace

import pytest

from surefoot import cli
from surefoot.learn.walking import LESSONS
from surefoot.randomize import Widening


@pytest.fixture
def taught(monkeypatch):
    calls = []

    def teach(sim, lesson, **options):
        calls.append(options | {"params": sim.params})
        return SimpleNamespace(steps=0, stopped="steps", folder="run")

    monkeypatch.setattr("surefoot.learn.walking.teach", teach)
    return calls


def test_the_schedule_and_the_redraws_are_those_asked_for(taught, tmp_path, capsys):
    words = ["--run", str(tmp_path), "--randomize", "widening", "--redraw", "push", "command_delay"]
    assert cli.run(["train", "go2", *words, "--redraw-every", "2.5", "--seed", "4"]) == 0
    (call,) = taught
    assert isinstance(call["randomize"], Widening)
    assert call["e"] == call["randomize"].prior
    assert (call["redraw"].names, call["redraw"].interval, call["redraw"].seed) == (("push", "command_delay"), 2.5, 4)
    assert call["randomize"].settle == LESSONS["go2"].worlds


def test_without_options_p_of_e_is_fixed_and_none_is_one_point(taught, tmp_path):
    assert cli.run(["train", "go2", "--run", str(tmp_path)]) == 0
    assert cli.run(["train", "go2", "--run", str(tmp_path), "--randomize", "none"]) == 0
    plain, none = taught
    assert plain["e"] == plain["params"].prior()
    assert plain["redraw"] is None
    values = none["params"].flatten(none["e"].sample(2, 0))
    assert (values == none["params"].nominal).all()


def test_unknown_schedules_and_rough_ground_with_one_are_refused(tmp_path, capsys):
    assert cli.run(["train", "go2", "--run", str(tmp_path), "--randomize", "wide"]) == 2
    assert "widening" in capsys.readouterr().err
    assert cli.run(["train", "go2", "--run", str(tmp_path), "--rough", "--randomize", "cvar"]) == 2
    assert "rough ground has a schedule of its own" in capsys.readouterr().err


@pytest.mark.slow
def test_a_small_task_is_trained_judged_and_can_be_evaluated(tmp_path, capsys):
    run = str(tmp_path / "run")
    assert cli.run(["train", "cartpole", "--run", run, "--steps", "20000", "--every", "10000"]) == 0
    assert "transitions, ended by steps" in capsys.readouterr().out
    assert cli.run(["evaluate", run, "--worlds", "16"]) == 0
    assert "success" in capsys.readouterr().out


def test_a_task_that_a_robot_does_not_have_is_refused(tmp_path, capsys):
    assert cli.run(["train", "go2", "--run", str(tmp_path), "--task", "fly"]) == 2
    assert "go2 has one task" in capsys.readouterr().err
    assert cli.run(["train", "crazyflie", "--run", str(tmp_path), "--task", "fly"]) == 2
    assert "hover" in capsys.readouterr().err
    assert cli.run(["train", "servo", "--run", str(tmp_path)]) == 2
    assert "cartpole" in capsys.readouterr().err


def test_no_steps_and_a_file_in_place_of_a_folder_are_refused(tmp_path, capsys):
    assert cli.run(["train", "cartpole", "--run", str(tmp_path / "run"), "--steps", "0"]) == 2
    assert "must be at least 1" in capsys.readouterr().err
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    assert cli.run(["train", "cartpole", "--run", str(file), "--steps", "10"]) == 2
    assert "is a file, and a run is a folder" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_a_video_that_cannot_be_written_is_refused_before_anything_is_judged(tmp_path, capsys):
    assert cli.run(["evaluate", str(tmp_path), "--video", "walk.gif"]) == 2
    assert "use .png (animated) or .mp4" in capsys.readouterr().err
