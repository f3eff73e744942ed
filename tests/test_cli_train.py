"""`surefoot train`: its options reach the training."""

from types import SimpleNamespace

import numpy as np
import pytest

import surefoot as sf
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


def test_a_fit_is_what_e_is_drawn_from_and_the_rest_is_the_robots_own(taught, tmp_path, capsys):
    go2 = sf.load("go2")
    known = (
        sf.Sim(go2).params.only("base_mass", "command_delay").prior().replace(base_mass=sf.Normal(mean=8.1, sd=0.05))
    )
    known.save(tmp_path / "known.json")
    assert cli.run(["train", "go2", "--run", str(tmp_path / "run"), "--prior", str(tmp_path / "known.json")]) == 0
    (call,) = taught
    drawn = call["e"].sample(500, 0)
    assert set(drawn) == set(call["params"])
    assert np.mean(drawn["base_mass"]) == pytest.approx(8.1, abs=0.02)
    assert np.array_equal(call["e"].sample(9, 1)["kp"], call["params"].prior().sample(9, 1)["kp"])
    strange = sf.Params(tail=sf.mass("tail", low=0.1, high=0.2)).prior()
    strange.save(tmp_path / "strange.json")
    assert cli.run(["train", "go2", "--run", str(tmp_path / "run"), "--prior", str(tmp_path / "strange.json")]) == 2
    assert "the prior is about 'tail'" in capsys.readouterr().err
    assert (
        cli.run(["train", "go2", "--run", str(tmp_path / "run"), "--rough", "--prior", str(tmp_path / "known.json")])
        == 2
    )
    assert "--prior" in capsys.readouterr().err
    assert (
        cli.run(
            [
                "train",
                "go2",
                "--run",
                str(tmp_path / "run"),
                "--randomize",
                "none",
                "--prior",
                str(tmp_path / "known.json"),
            ]
        )
        == 2
    )
    assert "leave out one of the two" in capsys.readouterr().err
    assert cli.run(["train", "go2", "--run", str(tmp_path / "run"), "--every", "0"]) == 2
    assert "--every must be at least 1" in capsys.readouterr().err


def test_worlds_draw_what_a_belief_does_not_hold_as_the_robot_file_has_it():
    from surefoot.evaluate.runs import task_of
    from surefoot.tasks import World

    robot, task = task_of("qube", "")
    sim = sf.Sim(robot, worlds=64, seed=0)
    world = World(task, sim, e=sim.params.only("arm_mass").prior().replace(arm_mass=sf.Normal(mean=0.1, sd=1e-4)))
    world.reset()
    assert np.std(sim.e["arm_mass"]) < 1e-3
    assert np.std(sim.e["pendulum_mass"]) > 1e-4
