"""`surefoot evaluate`: several runs, a sample or a grid, one sentence for a mistake."""

import json
import shutil

import numpy as np
import pytest

from surefoot.cli import run
from surefoot.evaluate.runs import task_of
from surefoot.learn import PPO, train
from surefoot.sim import Sim
from surefoot.tasks import World, hop
from surefoot.tasks.hop import Hop

TINY = PPO(horizon=4, epochs=1, minibatches=1, hidden=(8,), critic_hidden=(8,), warmup=0)


def tiny(folder, name, *, seed=0):
    """A run that has learned nothing."""
    robot, task = task_of(name)
    world = World(task, Sim(robot, worlds=4, threads=1), seed=seed)
    about = {"robot": name, "ranges": {"torso_mass": [3.0, 4.0]}}
    train(world, TINY, run=folder, steps=16, seed=seed, about=about, say=lambda line: None)
    return str(folder)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Episodes of a fifth of a second."""
    monkeypatch.setattr(hop, "Hop", lambda: Hop(episode=0.2))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return {
        "a": tiny(root / "a", "hopper"),
        "b": tiny(root / "b", "hopper", seed=1),
        "pole": tiny(root / "pole", "cartpole"),
    }


def test_two_runs_are_compared_over_a_grid_and_everything_is_written(runs, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["evaluate", runs["a"], runs["b"], "--worlds", "8", "--grid", "torso_mass=3:6:2", "--out", str(out)]
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((out / "evaluate.json").read_text())
    assert [p["set"] for p in found["points"]] == [{"torso_mass": 3.0}, {"torso_mass": 6.0}]
    value, low, high = found["points"][0]["policies"]["a"]["success"]
    assert 0.0 <= low <= value <= high <= 1.0
    assert set(found["differences"]) == {"b - a"}
    lines = (out / "worlds.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * 8
    assert {"policy", "success", "torso_mass", "strength"} <= set(lines[0].split(","))
    assert "trained on: a" in (out / "page.html").read_text()
    assert (out / "width.svg").read_text().startswith("<svg")


def test_a_run_against_itself_differs_nowhere(runs, tmp_path, capsys):
    copy = shutil.copytree(runs["a"], tmp_path / "copy")
    assert run(["evaluate", runs["a"], str(copy), "--worlds", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (difference,) = found["differences"].values()
    assert difference["score"][0] == 0.0
    assert difference["energy"][0] == 0.0


def test_a_sample_is_drawn_from_the_prior_and_wider_when_asked(runs, tmp_path, capsys):
    spans = []
    for factor in ("1", "1.3"):
        words = ["evaluate", runs["a"], "--worlds", "64", "--wider", factor, "--out", str(tmp_path / factor)]
        assert run(words) == 0
        lines = [line.split(",") for line in (tmp_path / factor / "worlds.csv").read_text().splitlines()]
        masses = np.array([float(row[lines[0].index("torso_mass")]) for row in lines[1:]])
        spans.append(np.ptp(masses))
    assert spans[1] == pytest.approx(1.3 * spans[0], rel=1e-6)
    assert "success [%]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--grid", "torso_mas=3:6:2"], "torso_mas"),
        (["--grid", "torso_mass=3:6"], "NAME=LOW:HIGH:NUMBER"),
        (["--grid", "torso_mass=-3,4"], "physical"),
        (["--worlds", "1"], "at least 2"),
        (["--nominal"], "--grid"),
        (["--wider", "-1"], "--wider"),
        (["--prior", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(runs, words, said, capsys):
    assert run(["evaluate", runs["a"], *words]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert len(error.splitlines()) == 1


def test_runs_of_two_robots_and_a_folder_without_a_run_are_refused(runs, tmp_path, capsys):
    assert run(["evaluate", runs["a"], runs["pole"]]) == 2
    assert "compare runs of one robot" in capsys.readouterr().err
    assert run(["evaluate", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert run(["evaluate", runs["a"], runs["a"]]) == 2
    assert "twice" in capsys.readouterr().err
