"""`surefoot identify` and `surefoot gap`: files in, answer on stdout, one sentence for a mistake."""

import json

import numpy as np
import pytest

import surefoot as sf
from surefoot import cli
from surefoot.identify import load_fit
from test_identify_fit import TRUTH, arm, params, recording


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arm")
    sim = sf.Sim(arm(folder), params(), seed=1)
    recording(sim, TRUTH, seconds=3.0).save(folder / "log.npz")
    params().save(folder / "params.toml")
    return folder


def test_identify_writes_fit_and_report_and_gap_reads_the_fit(files, capsys):
    words = ["identify", str(files), str(files / "log.npz"), "--params", str(files / "params.toml"), "--window", "0.5"]
    assert cli.run([*words, "--out", str(files / "fit.json"), "--report", str(files / "page.html")]) == 0
    said = capsys.readouterr()
    assert "command_delay" in said.out
    assert "iteration 1" in said.err
    fit = load_fit(files / "fit.json")
    assert fit["command_delay"] == pytest.approx(TRUTH["command_delay"], abs=1e-3)
    assert "<html" in (files / "page.html").read_text()
    assert (
        cli.run(
            ["gap", str(files), str(files / "log.npz"), "--fit", str(files / "fit.json"), "--window", "0.5", "--json"]
        )
        == 0
    )
    rows = json.loads(capsys.readouterr().out)
    (row,) = [r for r in rows if r["channel"] == "joint_pos"]
    assert row["fitted"] < 0.2 * row["nominal"]
    assert np.isclose(row["horizon"], 0.5)


def test_both_modes_are_printed_with_their_difference_and_written_side_by_side(files, capsys):
    words = [
        "identify",
        str(files),
        str(files / "log.npz"),
        "--params",
        str(files / "params.toml"),
        "--window",
        "0.5",
        "--json",
    ]
    assert cli.run([*words, "--mode", "inverse"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["mode"] == "inverse dynamics"
    assert cli.run([*words, "--mode", "both", "--out", str(files / "fit.json")]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["inverse"]["mode"] == "inverse dynamics"
    assert data["simulation"]["mode"] == "simulation"
    assert any("by inverse dynamics" in line and "by simulation" in line for line in data["explanation"])
    assert load_fit(files / "fit-inverse.json").mode == "inverse dynamics"
    assert load_fit(files / "fit.json").mode == "simulation"


@pytest.mark.parametrize(("more", "sentence"), [
    (["--mode", "inverse", "--report", "page.html"], "--mode both"),
    (["--params", "kpp"], "kpp"),
    (["--out", "fit.txt"], "must end in .json"),
    (["--report", "page.pdf"], "must end in .html"),
    (["--suspended"], "cannot be suspended"),
    (["--hung"], "cannot hang"),
    (["--hung", "--suspended"], "give one of the two"),
    (["--gains"], "gains"),
])  # fmt: skip
def test_a_mistake_is_one_sentence(files, more, sentence, capsys):
    assert cli.run(["identify", str(files), str(files / "log.npz"), *more]) == 2
    assert sentence in capsys.readouterr().err


def test_logs_that_say_how_the_robot_was_held_are_not_passed_over(tmp_path, capsys):
    robot = sf.load("go2")
    t = np.arange(0.0, 0.6, 0.005)
    rest = np.tile([robot.pose[j] for j in robot.joints], (len(t), 1))
    make = {"unit": "rad", "t": t, "values": rest, "columns": robot.joints}
    channels = (sf.Channel(name="joint_pos_target", role="u", **make), sf.Channel(name="joint_pos", role="y", **make))
    sf.Log(channels=channels, robot="go2", meta={"held": "hung"}).save(tmp_path / "log.npz")
    words = ["gap", "go2", str(tmp_path / "log.npz"), "--window", "0.2", "--channels", "joint_pos"]
    assert cli.run(words) == 0
    assert "--hung holds it" in capsys.readouterr().err
    assert cli.run([*words, "--hung"]) == 0
    assert "--hung" not in capsys.readouterr().err


def test_a_log_is_needed(files, capsys):
    assert cli.run(["identify", str(files)]) == 2
    assert "at least one log" in capsys.readouterr().err
