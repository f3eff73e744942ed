"""A rung trained in a process of its own: the same loop there, its failures here, and no process left behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from surefoot.errors import InputError
from surefoot.loop import Folder, loop_of
from surefoot.loop.aside import Aside, Asides, loop_from, worth_it
from surefoot.loop.settings import Loop
from surefoot.loop.training import export_rung, train_rung


def quiet(_line: str) -> None:
    pass


def short(hardware: str = "twin:qube/02-warm", **changes) -> Loop:
    return loop_of("qube", hardware, **({"steps": 8_192, "more": 4_096, "every": 10**6} | changes))


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(("robot", "hardware"), [("qube", "twin:qube/02-warm"), ("go2", "twin:go2/13-hard-luck")])
def test_a_loop_comes_back_from_plain_data(robot, hardware, quick):
    loop = loop_of(robot, hardware, quick=quick, seed=3)
    assert loop_from(json.loads(json.dumps(asdict(loop)))) == loop


def test_only_a_rung_that_the_robot_teaches_nothing_is_made_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    loop, folder = short(), Folder(tmp_path)
    assert [rung.name for rung in loop.rungs if worth_it(loop, folder, rung)] == ["simulation"]
    assert [rung.name for rung in loop.rungs if worth_it(loop, folder, rung, "first")] == ["oracle"]
    assert not any(worth_it(loop, folder, rung, "randomized") for rung in loop.rungs)
    folder.step("train simulation", {}, lambda _again: {})
    assert not worth_it(loop, folder, loop.rung("simulation"))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert not worth_it(loop, Folder(tmp_path / "other"), loop.rung("simulation"))


@pytest.mark.slow
def test_it_trains_says_so_and_leaves_what_training_here_would(tmp_path):
    loop, said = short(), []
    aside = Aside(loop, Folder(tmp_path), loop.rung("simulation"), said.append)
    aside.wait()
    found = Folder(tmp_path).result("train simulation")
    assert found["steps"] >= 8_192
    assert said[0] == "train simulation ..."
    assert any(line.startswith("train simulation: ") for line in said)
    assert (tmp_path / found["run"] / "config.json").is_file()


@pytest.mark.slow
def test_an_oracle_begins_after_its_first_steps_and_is_judged_and_so_is_what_waits_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    loop, folder, said = short(trials=1), Folder(tmp_path), []
    train_rung(loop, folder, loop.rung("first"))
    train_rung(loop, folder, loop.rung("randomized"))
    export_rung(loop, folder, loop.rung("randomized"))
    with Asides(loop, folder, said.append, judge=True) as aside:
        aside.begin("first")
        assert "oracle" in aside
        assert "simulation" not in aside
    assert [line for line in said if line.endswith("...")] == [
        f"{step} ..." for step in ("truth", "train oracle", "export oracle", "judge oracle", "judge randomized")
    ]
    assert folder.result("judge oracle")["trials"]
    assert folder.result("judge randomized")["trials"]


@pytest.mark.slow
def test_leaving_in_trouble_stops_what_is_made_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    loop, made = short(steps=50_000_000), []

    def in_trouble() -> None:
        with Asides(loop, Folder(tmp_path), quiet, judge=False) as aside:
            aside.begin()
            made.extend(aside._made.values())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_trouble()
    assert [one._process.poll() is not None for one in made] == [True]


@pytest.mark.slow
def test_what_goes_wrong_there_goes_wrong_here(tmp_path):
    reality = tmp_path / "reality.toml"
    shutil.copy(short().reality, reality)
    loop = short(f"twin:{reality}")
    reality.unlink()
    with pytest.raises(InputError, match="reality"):
        Aside(loop, Folder(tmp_path / "a"), loop.rung("simulation"), quiet).wait()
    loop, folder = short(), tmp_path / "b"
    folder.mkdir()
    (folder / "rungs").write_text("a file where a folder should be")
    with pytest.raises(RuntimeError, match=r"(?s)'simulation only' ended with code 1.*rungs"):
        Aside(loop, Folder(folder), loop.rung("simulation"), quiet).wait()


@pytest.mark.slow
def test_one_that_is_stopped_ends_and_goes_on_later(tmp_path):
    loop = short(steps=50_000_000)
    aside = Aside(loop, Folder(tmp_path), loop.rung("simulation"), quiet)
    diary = tmp_path / "rungs/simulation/run/progress.jsonl"
    until = time.time() + 60
    while not diary.exists() and time.time() < until:
        time.sleep(0.1)
    aside.stop()
    assert aside._process.returncode is not None
    assert diary.exists()
    assert not Folder(tmp_path).record("train simulation")["done"]


PARENT = """
import sys, time
from surefoot.loop import Folder, loop_of
from surefoot.loop.aside import Aside
loop = loop_of("qube", "twin:qube/02-warm", steps=50_000_000, every=10**6)
aside = Aside(loop, Folder(sys.argv[1]), loop.rung("simulation"), lambda line: None)
print(aside._process.pid, flush=True)
time.sleep(120)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for the process in /proc")
def test_it_ends_when_its_parent_is_killed(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(1.0)
    parent.send_signal(signal.SIGKILL)
    parent.wait()

    def gone() -> bool:
        try:
            return "\nState:\tZ" in Path(f"/proc/{child}/status").read_text()
        except OSError:
            return True

    until = time.time() + 30
    while not gone() and time.time() < until:
        time.sleep(0.1)
    assert gone()
