"""`surefoot identify` and `surefoot gap`: files in, answer on stdout, one sentence for a mistake."""

import json

import numpy as np
import pytest

import surefoot as sf
from surefoot import cli
from surefoot.identify import load_fit
from surefoot.identify.design import Design, Expected, Motion
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
    words = ["identify", str(files), str(files / "log.npz"), "--params", str(files / "params.toml"), "--json"]
    assert cli.run([*words, "--mode", "inverse"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["mode"] == "inverse dynamics"
    assert cli.run([*words, "--mode", "both", "--window", "0.5", "--out", str(files / "fit.json")]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["inverse"]["mode"] == "inverse dynamics"
    assert data["simulation"]["mode"] == "simulation"
    assert any("by inverse dynamics" in line and "by simulation" in line for line in data["explanation"])
    assert load_fit(files / "fit-inverse.json").mode == "inverse dynamics"
    assert load_fit(files / "fit.json").mode == "simulation"
    assert load_fit(files / "fit.json").to_dict() == data["fit"]


def test_what_both_modes_write_holds_the_inertia_with_its_width_and_is_checked(files, capsys):
    more = params(armature=sf.armature("pivot", low=0.01, high=0.2, nominal=0.05))
    more.save(files / "rotor.toml")
    recording(sf.Sim(sf.load(files), more, seed=7), {**TRUTH, "armature": 0.08}, seconds=3.0).save(files / "rotor.npz")
    motion = Motion(channel="joint_pos_target", columns=("pivot",), dt=0.004, values=np.zeros((9, 1)), setting="fixed")
    taught = Expected(name="armature", unit="kg·m²", value=0.05, before=0.05, after=0.004)
    Design(robot="small", motion=motion, family="chirp", expected=(taught,)).save(files / "motion.json")
    words = ["identify", str(files), str(files / "rotor.npz"), "--params", str(files / "rotor.toml"), "--mode", "both"]
    words += ["--window", "0.75", "--most", "3", "--check", str(files / "motion.json")]
    paths = ["--out", str(files / "rotor.json"), "--another", str(files / "sister.json")]
    paths += ["--report", str(files / "rotor.html")]
    assert cli.run([*words, *paths, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["simulation"]["provenance"]["settings"]["most"] == 3
    alone, fit = (load_fit(files / name) for name in ("rotor-inverse.json", "rotor.json"))
    known = alone.std[alone.names.index("armature")]
    assert 1e-4 < known < 0.01
    assert np.std(fit.posterior.sample(2000, 0)["armature"]) == pytest.approx(known, rel=0.2)
    sister = sf.Prior.load(files / "sister.json").sample(2000, 0)["armature"]
    assert np.std(sister) == pytest.approx(known, rel=0.25)
    assert "armature" in (files / "rotor.html").read_text()
    (row,) = data["checked"]
    assert row["name"] == "armature"
    assert row["value"] == pytest.approx(0.08, abs=0.006)
    assert row["std"] == pytest.approx(known)


@pytest.mark.parametrize(("more", "sentence"), [
    (["--mode", "inverse", "--report", "page.html"], "takes no --report"),
    (["--params", "kpp"], "kpp"),
    (["--out", "fit.txt"], "must end in .json"),
    (["--report", "page.pdf"], "must end in .html"),
    (["--suspended"], "cannot be suspended"),
    (["--hung"], "cannot hang"),
    (["--hung", "--suspended"], "give one of the two"),
    (["--gains"], "gains"),
    (["--apart", "kp", "--mode", "inverse"], "takes no --apart"),
    (["--robust", "2", "--mode", "inverse"], "takes no --robust"),
    (["--seed", "0", "--mode", "inverse"], "takes no --seed"),
    (["--most", "9", "--mode", "inverse"], "takes no --most"),
    (["--most", "0"], "most=0 must be a whole number from 1 on"),
    (["--cutoff", "20"], "--cutoff is for inverse dynamics"),
    (["--torque", "measured"], "--torque is for inverse dynamics"),
    (["--fixed", "kp"], "write name=number"),
    (["--params", "params.toml", "--fixed", "kp=3", "--apart", "kp"], "'kp' is not a fitted param"),
    (["--fixed", "kpp=3"], "'kpp' is not a param"),
    (["--prior", "nothing.json"], "cannot read a prior"),
    (["--check", "nothing.json"], "cannot read the trajectory"),
    (["--params", "params.toml", "--window", "500"], "longer than the logs"),
    (["--seed", "-1"], "seed=-1 must be a whole number from 0 on"),
    (["--out", "here.json"], "is a folder: name a file"),
    (["--apart", "kp", "--mode", "both"], "leave out one of them"),
])  # fmt: skip
def test_a_mistake_is_one_sentence(files, more, sentence, capsys, monkeypatch):
    monkeypatch.chdir(files)
    (files / "here.json").mkdir(exist_ok=True)
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


def test_logs_of_several_gains_are_fitted_with_the_gains_they_state(files, capsys):
    sim = sf.Sim(sf.load(files), params(), seed=4)
    paths = []
    for kp in (20.0, 50.0):
        log = recording(sim, {**TRUTH, "kp": kp})
        path = files / f"gain-{kp:.0f}.npz"
        sf.Log(channels=tuple(log), robot="small", meta={"kp": kp, "kd": 1.0}).save(path)
        paths.append(str(path))
    words = ["identify", str(files), *paths, "--params", str(files / "params.toml"), "--window", "0.5", "--json"]
    assert cli.run([*words, "--gains"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = dict(zip(told["params"], told["values"], strict=True))
    assert "kp" not in found
    assert found["command_delay"] == pytest.approx(TRUTH["command_delay"], abs=5e-4)
    assert found["coulomb"] == pytest.approx(TRUTH["coulomb"], abs=0.05)
    assert max(s["after"] / s["floor"] for s in told["scores"]) < 1.5
    assert told["provenance"]["settings"]["stated"]["stated_kp"] == [20.0, 50.0]
    plain = [word for word in words if word not in ("--window", "0.5")]
    for mode in (["--mode", "inverse"], ["--mode", "both", "--most", "2"]):
        assert cli.run([*plain, "--gains", *mode]) == 0
        told = json.loads(capsys.readouterr().out)
        for part in (told["inverse"], told["simulation"]) if "inverse" in told else (told,):
            found = dict(zip(part["params"], part["values"], strict=True))
            assert found["coulomb"] == pytest.approx(TRUTH["coulomb"], abs=0.1)
            assert found["damping"] == pytest.approx(TRUTH["damping"], abs=0.05)
            assert part["provenance"]["settings"]["stated"]["stated_kp"] == [20.0, 50.0]
    assert cli.run(["gap", str(files), *paths, "--gains", "--json"]) == 0
    capsys.readouterr()
    assert cli.run(words) == 0
    said = capsys.readouterr()
    assert "the logs state kp 20, kd 1 and kp 50, kd 1" in said.err
    assert max(s["after"] / s["floor"] for s in json.loads(said.out)["scores"]) > 10


def test_an_earlier_fit_is_a_belief_known_values_are_kept_and_other_logs_judge(files, capsys):
    sim = sf.Sim(sf.load(files), params(), seed=5)
    second = files / "second.npz"
    recording(sim, TRUTH).save(second)
    common = ["identify", str(files), str(files / "log.npz"), "--params", str(files / "params.toml"), "--window", "0.5"]
    assert cli.run([*common, "--out", str(files / "first.json")]) == 0
    capsys.readouterr()
    words = ["identify", str(files), str(second), "--params", str(files / "params.toml"), "--window", "0.5", "--json"]
    assert cli.run([*words, "--prior", str(files / "first.json"), "--judges", str(files / "log.npz")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["provenance"]["settings"]["prior"] is True
    assert found["provenance"]["settings"]["held_out"] == 1
    first = load_fit(files / "first.json")
    assert np.sqrt(found["deviation"][0][0]) < np.sqrt(first.deviation[0, 0])
    assert cli.run([*words, "--fixed", f"kp={TRUTH['kp']}", "--out", str(files / "known.json")]) == 0
    capsys.readouterr()
    known = load_fit(files / "known.json")
    assert "kp" not in known.names
    assert known.e["kp"] == pytest.approx(TRUTH["kp"])
    assert cli.run(["gap", str(files), str(second), "--fit", str(files / "known.json"), "--json"]) == 0
    (row,) = [r for r in json.loads(capsys.readouterr().out) if r["channel"] == "joint_pos"]
    assert row["fitted"] < 0.2 * row["nominal"]


def test_of_a_run_only_the_part_in_which_the_motion_drove_is_used(files, capsys):
    """The log of a run: limp at first, then driven; its gains say so."""
    sim = sf.Sim(sf.load(files), params(), seed=6)
    log = recording(sim, TRUTH)
    t, driven = log["joint_pos"].t, log["joint_pos"].t > 1.0
    kp = np.where(driven, 30.0, 0.0)[:, None]
    limp = np.where(driven[:, None], log["joint_pos"].values, 0.7)
    channels = (
        log["joint_pos_target"],
        sf.Channel(name="joint_pos", unit="rad", t=t, values=limp, columns=("pivot",)),
        sf.Channel(name="motor_kp", unit="N·m/rad", t=t, values=kp, columns=("pivot",)),
        sf.Channel(name="action", unit="1", t=t[driven], values=np.zeros((driven.sum(), 1)), columns=("pivot",)),
    )
    sf.Log(channels=channels, robot="small").save(files / "run.npz")
    words = [
        "identify",
        str(files),
        str(files / "run.npz"),
        "--params",
        str(files / "params.toml"),
        "--window",
        "0.5",
        "--json",
    ]
    assert cli.run(words) == 0
    said = capsys.readouterr()
    assert "in which the policy or motion drove are used" in said.err
    found = json.loads(said.out)
    assert dict(zip(found["params"], found["values"], strict=True))["kp"] == pytest.approx(TRUTH["kp"], rel=0.02)
    assert cli.run([*words, "--whole"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert max(s["after"] for s in whole["scores"]) > 5 * max(s["after"] for s in found["scores"])


def test_a_param_is_fitted_or_known(files, capsys):
    log = sf.read_log(files / "log.npz")
    sf.Log(channels=tuple(log), robot="qube").save(files / "qube.npz")
    words = ["identify", "qube", str(files / "qube.npz"), "--params", "arm_mass,arm_damping", "--fixed", "arm_mass=0.1"]
    assert cli.run(words) == 2
    assert "'arm_mass' is in --params and in --fixed" in capsys.readouterr().err
