"""The command line: answers on stdout, one sentence for a mistake, exit codes, and lightness."""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest

from surefoot import cli
from surefoot.errors import InputError
from surefoot.logs import Channel, Log
from test_params_check import ROBOT, SHELF


def shell(*words: str, code: str | None = None) -> subprocess.CompletedProcess:
    program = ["-c", code] if code is not None else ["-m", "surefoot.cli", *words]
    return subprocess.run([sys.executable, *program], capture_output=True, text=True, timeout=120)


def test_help_names_every_command(capsys):
    assert cli.run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself_and_its_arguments(name, capsys):
    assert cli.run([*name.split(), "--help"]) == 0
    out = capsys.readouterr().out
    first = " ".join((cli.COMMANDS[name].__doc__ or "").splitlines()[0].split()[:4])
    assert first in out
    assert f"surefoot {name}" in out


def test_a_group_alone_lists_its_commands(capsys):
    assert cli.run(["params"]) == 0
    out = capsys.readouterr().out
    assert "params check" in out
    assert "robot" not in out.split("COMMAND")[0]


@pytest.mark.parametrize(("words", "sentence"), [
    (["parms", "check", "go2"], "did you mean 'params'"),
    (["params", "chek", "go2"], "did you mean 'check'"),
    (["params", "check", "gg2"], "did you mean 'go2'"),
    (["params", "check", "servo", "--params", "missing.toml"], "missing.toml"),
    (["bench", "simm"], "did you mean 'sim'"),
    (["bench", "sim", "--train", "."], "takes no --train"),
    (["robot", "check", "hoper"], "did you mean 'hopper'"),
    (["robot", "strip", "missing.xml", "out.xml"], "missing.xml"),
    (["log", "info", "missing.mcap"], "missing.mcap"),
    (["log", "convert", "missing.mcap", "out.csv"], "missing.mcap"),
    (["replay", "missing.mcap", "go2"], "missing.mcap"),
    (["view", "gg2"], "did you mean 'go2'"),
])  # fmt: skip
def test_a_mistake_is_one_sentence_and_exit_code_2(words, sentence, capsys):
    assert cli.run(words) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert sentence in caught.err
    assert caught.err.startswith("surefoot: ")
    assert len(caught.err.strip().splitlines()) == 1
    assert "Traceback" not in caught.err


@pytest.mark.parametrize(
    "words", [["params", "check"], ["params", "check", "go2", "--jsn"], ["demo", "--worlds", "many"]]
)
def test_wrong_arguments_exit_with_2_without_traceback(words, capsys):
    assert cli.run(words) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupt_exits_with_130_and_a_broken_file_system_with_2(monkeypatch, capsys):
    def interrupted(**_options) -> int:
        raise KeyboardInterrupt

    def full(**_options) -> int:
        raise OSError(28, "No space left on device", "out.mcap")

    monkeypatch.setitem(cli.COMMANDS, "version", interrupted)
    assert cli.run(["version"]) == 130
    monkeypatch.setitem(cli.COMMANDS, "version", full)
    assert cli.run(["version"]) == 2
    assert "out.mcap: No space left on device" in capsys.readouterr().err


def test_version_as_json(capsys):
    assert cli.run(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mujoco"]


def test_importing_the_command_line_loads_no_engine_and_is_quick():
    code = (
        "import sys, time; t = time.perf_counter(); import surefoot.cli; s = time.perf_counter() - t; "
        "print(s); print(sorted({'mujoco', 'torch', 'numpy', 'scipy'} & set(sys.modules)))"
    )
    seconds, loaded = shell(code=code).stdout.splitlines()
    assert loaded == "[]"
    assert float(seconds) < 0.5


def test_help_takes_half_a_second_of_a_processor():
    """Processor time, so that another program's load does not count."""

    def used() -> float:
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        return spent.ru_utime + spent.ru_stime

    best = 9.0
    for _ in range(3):
        start = used()
        assert shell("--help").returncode == 0
        best = min(best, used() - start)
    assert best < 0.5


def test_only_the_command_lines_own_process_calms_the_threads(monkeypatch):
    import os

    for name in ("OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    code = "import os; n = set(os.environ); import surefoot, surefoot.cli; print(set(os.environ) - n)"
    assert shell(code=code).stdout.strip() == "set()"
    monkeypatch.setattr(sys, "argv", ["surefoot", "version"])
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert cli.main() == 0
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"  # what the user has set stays
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")


def test_params_check_prints_every_param_and_exits_with_0(capsys):
    assert cli.run(["params", "check", "cartpole", "--json"]) == 0
    effects = json.loads(capsys.readouterr().out)
    assert {"name", "low", "high", "change", "floor", "channel", "inert"} <= set(effects[0])
    assert "pole_mass" in [effect["name"] for effect in effects]


def test_params_check_names_a_planted_inert_param_and_exits_with_1(tmp_path, capsys):
    (tmp_path / "model.xml").write_text(SHELF)
    (tmp_path / "robot.toml").write_text(ROBOT)
    assert cli.run(["params", "check", str(tmp_path)]) == 1
    caught = capsys.readouterr()
    assert "INERT" in caught.out
    assert "shelf_softness: no effect on shelf" in caught.err


def test_params_list_gives_kinds_or_a_robots_params(capsys):
    assert cli.run(["params", "list", "--json"]) == 0
    kinds = json.loads(capsys.readouterr().out)
    assert {"kind": "friction", "unit": "1"}.items() <= kinds[0].items()
    assert cli.run(["params", "list", "go2"]) == 0
    assert "foot_friction" in capsys.readouterr().out


def test_robot_list_and_check(capsys, tmp_path):
    assert cli.run(["robot", "list", "--json"]) == 0
    assert "go2" in [robot["name"] for robot in json.loads(capsys.readouterr().out)]
    assert cli.run(["robot", "check", "servo"]) == 0
    bad = tmp_path / "bad.xml"
    bad.write_text("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>")
    capsys.readouterr()
    assert cli.run(["robot", "check", str(bad), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["level"] == "error"


@pytest.fixture
def pendulum_log(tmp_path):
    """A log of the servo holding still, and its path."""
    t = np.arange(0.0, 0.5, 0.005)
    still = np.zeros((len(t), 1))
    joint = ("joint",) if "joint" in _servo_joints() else _servo_joints()
    log = Log(
        channels=(
            Channel(name="joint_pos_target", unit="rad", t=t, values=still, columns=joint, role="u"),
            Channel(name="joint_pos", unit="rad", t=t, values=still, columns=joint, role="y"),
        ),
        robot="servo",
    )
    path = tmp_path / "still.npz"
    log.save(path)
    return path


def _servo_joints() -> tuple[str, ...]:
    from surefoot.robots import load

    return load("servo").joints


def test_log_info_and_convert(pendulum_log, tmp_path, capsys):
    assert cli.run(["log", "info", str(pendulum_log)]) == 0
    assert "joint_pos_target" in capsys.readouterr().out
    target = tmp_path / "still.mcap"
    assert cli.run(["log", "convert", str(pendulum_log), str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [str(target)]
    assert cli.run(["log", "info", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["logs"][0]["robot"] == "servo"


def test_replay_prints_the_gap_and_a_planted_bias_shows_in_it(pendulum_log, tmp_path, capsys):
    assert cli.run(["replay", str(pendulum_log), "--json"]) == 0
    (still,) = json.loads(capsys.readouterr().out)
    assert still["rms"] < 1e-3
    values = tmp_path / "e.toml"
    values.write_text("[e]\nencoder_bias = 0.02\n")
    assert cli.run(["replay", str(pendulum_log), "servo", "--e", str(values), "--json", "--start", "0.0"]) == 0
    (biased,) = json.loads(capsys.readouterr().out)
    assert (biased["channel"], biased["unit"]) == ("joint_pos", "rad")
    assert cli.run(["replay", str(pendulum_log), "servo", "--e", str(pendulum_log)]) == 2


def test_replay_of_a_log_without_a_robot_asks_for_one(pendulum_log, tmp_path, capsys):
    from surefoot.logs import read_log

    log = read_log(pendulum_log)
    nobody = tmp_path / "nobody.npz"
    Log(channels=log.channels).save(nobody)
    assert cli.run(["replay", str(nobody)]) == 2
    assert "which robot" in capsys.readouterr().err


def test_view_passes_its_options_on(monkeypatch, capsys):
    from surefoot.sim import view

    seen = {}
    monkeypatch.setattr(view, "serve", lambda sim, **options: seen.update(options, worlds=sim.worlds, e=sim.e))
    assert cli.run(["view", "servo", "--worlds", "3", "--port", "9001", "--seconds", "0.1"]) == 0
    assert (seen["worlds"], seen["port"], seen["seconds"]) == (3, 9001, 0.1)
    assert seen["e"]["kp"][1] != seen["e"]["kp"][0]


def test_demo_passes_its_options_on(monkeypatch, tmp_path):
    import surefoot.demo

    seen = {}
    monkeypatch.setattr(surefoot.demo, "main", lambda **options: seen.update(options))
    assert cli.run(["demo", "--out", str(tmp_path), "--worlds", "5"]) == 0
    assert (seen["out"], seen["worlds"]) == (tmp_path, 5)


def test_bench_prints_one_object_and_exits_0_though_a_mark_is_missed(monkeypatch, capsys, tmp_path):
    from surefoot import bench
    from surefoot.bench import Mark, Result

    missed = Result(bench="sim", marks=(Mark(name="fast", value=0.1, op=">=", mark=1.0),), seed=0, seconds=1.0)
    monkeypatch.setattr(bench, "run", lambda name, request: missed)
    assert cli.run(["bench", "sim", "--quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["marks"][0]["holds"] is False
    monkeypatch.chdir(tmp_path)
    assert cli.run(["bench", "all", "--write"]) == 2
    (tmp_path / "benchmarks").mkdir()
    assert cli.run(["bench", "all", "--write"]) == 0
    assert "| fast | 0.1 |" in (tmp_path / "benchmarks" / "RESULTS.md").read_text()


def test_an_error_of_ours_keeps_its_traceback(monkeypatch):
    def broken(**_options) -> int:
        raise ZeroDivisionError

    monkeypatch.setitem(cli.COMMANDS, "version", broken)
    with pytest.raises(ZeroDivisionError):
        cli.run(["version"])


def test_an_input_error_is_a_value_error():
    assert issubclass(InputError, ValueError)
