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
    (["--apart", "kp", "--mode", "inverse"], "leave out one of them"),
    (["--apart", "kp", "--mode", "both"], "leave out one of them"),
])  # fmt: skip
def test_a_mistake_is_one_sentence(files, more, sentence, capsys):
    assert cli.run(["identify", str(files), str(files / "log.npz"), *more]) == 2
    assert sentence in capsys.readouterr().err


def test_params_that_are_apart_are_printed_and_written_for_every_log(files, capsys):
    sim = sf.Sim(sf.load(files), params(zero=sf.encoder_bias("pivot", low=-0.1, high=0.1, nominal=0.0)), seed=3)
    sim.params.save(files / "zeros.toml")
    logs = []
    for i, zero in enumerate((0.04, -0.03)):
        logs.append(str(recording(sim, {**TRUTH, "zero": zero}, seconds=2.0).save(files / f"run{i}.npz")))
    words = ["identify", str(files), *logs, "--params", str(files / "zeros.toml"), "--window", "0.5", "--apart", "zero"]
    assert cli.run([*words, "--out", str(files / "apart.json")]) == 0
    said = capsys.readouterr().out
    found = [float(np.ravel(run.values["zero"])[0]) for run in load_fit(files / "apart.json").runs]
    np.testing.assert_allclose(found, (0.04, -0.03), atol=1e-3)
    assert cli.run([*words[:-1], "zeroo"]) == 2
    assert "zeroo" in capsys.readouterr().err
    assert "in each recording" in said
    assert all(f"{value:.5g} ±" in said for value in found)


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
