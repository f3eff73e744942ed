"""`surefoot structure`: logs in, the terms in the order in which they were taken, one sentence for a mistake."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import surefoot as sf
from surefoot import cli
from surefoot.identify import load_fit
from test_identify_structure import blank as unmoved
from test_identify_structure import e_of, planted, recorded, servo

PAGE = Path(__file__).resolve().parents[1] / "docs" / "structure.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six recordings of a servo with a delay, at two firmware gains; its limit is the one that the robot file states."""
    out = tmp_path_factory.mktemp("logs")
    for i, log in enumerate(planted(servo(), noise=5e-4, command_delay=0.012, torque_limit=0.783)):
        log.save(out / f"{i}.npz")
    return out


SHORT = ("--terms", "delay,encoder bias", "--draws", "4", "--folds", "2")


@pytest.mark.slow
def test_the_terms_are_printed_in_order_with_errors_before_and_after_and_the_reason(folder, tmp_path, capsys):
    words = ["structure", "servo", str(folder), "--reference", "400", *SHORT, "--out", str(tmp_path / "fit.json")]
    assert cli.run(words) == 0
    said = capsys.readouterr()
    first = re.search(
        r"1\. \+ delay: ([\d.]+) -> ([\d.]+) mrad \(better by .*\); the replay is [\d.]+ ms ahead", said.out
    )
    assert first is not None
    assert float(first[2]) < 0.3 * float(first[1])
    assert (
        "instead: encoder bias" in said.out or "not taken: encoder bias" in said.out or "encoder bias" not in said.out
    )
    assert "base: " in said.err
    assert "+ delay: " in said.err
    assert f"written: {tmp_path / 'fit.json'}" in said.err
    assert load_fit(tmp_path / "fit.json")["command_delay"] == pytest.approx(0.012, abs=1e-3)


@pytest.mark.slow
def test_the_search_is_given_to_programs_too(folder, capsys):
    words = ["structure", "servo", str(folder), "--reference", "400", *SHORT[:-2], "--folds", "trajectory", "--json"]
    assert cli.run(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["rungs"][0]["term"] == "delay"
    assert data["rungs"][0]["after"] < data["rungs"][0]["before"]
    assert "ahead" in data["rungs"][0]["reason"]
    assert data["folds"] == 3, "one for each trajectory that the logs state"
    assert data["fit"]["fit"]


@pytest.mark.slow
def test_backlash_is_searched_in_the_whole_sim(tmp_path, capsys):
    sim = servo()
    for kind in (1, 3):
        recorded(sim, e_of(sim), unmoved(kind, 400.0, seconds=1.0), noise=5e-4).save(tmp_path / f"{kind}.npz")
    words = ["structure", "servo", str(tmp_path), "--terms", "backlash", "--window", "0.5", "--json"]
    assert cli.run(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["measure"] == "root mean square error of whole replays"
    assert not data["rungs"], "none was planted"
    assert "backlash" in data["e"]


@pytest.mark.parametrize(("more", "sentence"), [
    ([], "say with --reference"),
    (["--reference", "400", "--terms", "saturatoin"], "did you mean 'saturation'"),
    (["--reference", "400", "--terms", ","], "names no term"),
    (["--reference", "400", "--folds", "1"], "holds nothing out"),
    (["--reference", "400", "--folds", "colour"], "states no 'colour'"),
    (["--reference", "400", "--terms", "voltage sag"], "give --supply"),
    (["--reference", "400", "--window", "1"], "for whole robots"),
    (["--reference", "400", "--out", "fit.toml"], "must end in .json"),
    (["--params", "kp,kd"], "must be a .toml or .json file"),
    (["--params", "p.toml", "--supply", "7.4"], "leave out one of them"),
    (["--terms", "backlash"], "several gains (200, 800)"),
    (["--suspended", "--hung"], "give one of the two"),
])  # fmt: skip
def test_a_mistake_is_one_sentence(folder, more, sentence, capsys):
    assert cli.run(["structure", "servo", str(folder), *more]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert not said.out


def test_robots_and_logs_that_cannot_be_searched_are_refused(folder, tmp_path, capsys):
    assert cli.run(["structure", "servo", str(folder / "0.npz")]) == 2
    assert "at least two" in capsys.readouterr().err
    assert cli.run(["structure", "servo"]) == 2
    assert "name at least one log" in capsys.readouterr().err
    two = [str(folder / f"{i}.npz") for i in (0, 1)]
    assert cli.run(["structure", "go2", *two]) == 2
    assert "the log is of servo, and go2 was named" in capsys.readouterr().err
    nameless = [str(tmp_path / f"{i}.npz") for i in (0, 1)]
    for log, path in zip(two, nameless, strict=True):
        replace(sf.read_log(log), robot=None).save(path)
    assert cli.run(["structure", "go2", *nameless]) == 2
    assert "give --params FILE" in capsys.readouterr().err
    sim = servo()
    sim.params.only("kp", "kd", "armature", "torque_limit").save(tmp_path / "p.toml")
    assert cli.run(["structure", "servo", *two, "--params", str(tmp_path / "p.toml")]) == 2
    assert "lack damping, coulomb" in capsys.readouterr().err
    silent = replace(sf.read_log(two[0]), channels=(sf.read_log(two[0])["joint_pos"],))
    silent.save(tmp_path / "silent.npz")
    assert cli.run(["structure", "servo", two[0], str(tmp_path / "silent.npz")]) == 2
    assert "joint_pos_target" in capsys.readouterr().err


def test_help_is_complete(capsys):
    assert cli.run(["structure", "--help"]) == 0
    said = capsys.readouterr().out
    for option in ("--params", "--terms", "--reference", "--supply", "--folds", "--most", "--least", "--out", "--json"):
        assert option in said


@pytest.mark.slow
@pytest.mark.data
def test_the_page_shows_what_its_lines_print(data_dir, capsys, tmp_path, monkeypatch):
    """The first rung of the transcript, by the page's own Python on the public recordings."""
    recordings = data_dir / "bam_servos" / "xl330_raw"
    if not recordings.is_dir():
        pytest.skip(f"no recordings at {recordings}")
    text = PAGE.read_text()
    code = re.search(
        r"(?:^    .*\n|^\n)*?^    found\.fit\.save.*\n", text[text.index("    import surefoot as sf") :], re.M
    )
    assert code is not None
    lines = re.sub("^    ", "", code[0], flags=re.M).replace('"xl330_raw/"', repr(str(recordings)))
    monkeypatch.chdir(tmp_path)
    exec(compile(lines.replace("search(bench, ", "search(bench, most=1, "), PAGE.name, "exec"), {})
    printed = capsys.readouterr().out
    pattern = r"\d folds\s+base [\w, ]+: ([\d.]+) mrad\s+1\. \+ ([\w -]+): ([\d.]+) -> ([\d.]+) mrad"
    shown, run = (re.search(pattern, x) for x in (text, printed))
    assert shown is not None
    assert run is not None
    assert shown[2] == run[2]
    for i in (1, 3, 4):
        assert float(shown[i]) == pytest.approx(float(run[i]), rel=0.02)
