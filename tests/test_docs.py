"""What README and docs show, runs: Python blocks, examples, commands and links."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.sim.record import Recording

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONVENTIONS.md", ROOT / "CONTRIBUTING.md"]


def blocks(page: Path) -> list[str]:
    """Indented Python blocks of a page: those that assign or import something."""
    found = re.findall(r"(?:^(?: {4}.*|)\n)+", page.read_text(), re.M)
    code = ["\n".join(line[4:] for line in block.strip("\n").splitlines()) for block in found]
    return [c for c in code if re.search(r"^(import|from|\w+ = sf\.)", c, re.M)]


@pytest.fixture
def log_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = sf.Sim(sf.load("go2"), noise=False)
    recording = Recording(sim)
    for _ in range(20):
        recording.add(sim.sense(), sim.rest_command)
        sim.step(sim.rest_command)
    for name in ("bench.mcap", "walk.mcap"):
        recording.log().save(tmp_path / name)


@pytest.mark.parametrize("page", ["README.md", "docs/params.md"])
def test_python_shown_on_a_page_runs(page, log_file):
    names: dict = {"sf": sf, "np": np}
    shown = blocks(ROOT / page)
    assert shown
    for code in shown:
        exec(compile(code, page, "exec"), names)
    assert "sim" in names


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_an_example_runs_and_says_something(example, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_commands_on_the_first_page_exist():
    from surefoot.cli import COMMANDS

    known = {" ".join(name.split()) for name in COMMANDS}
    for line in re.findall(r"^ {4}surefoot (.+)$", (ROOT / "README.md").read_text(), re.M):
        words = line.split()
        assert words[0] in known or " ".join(words[:2]) in known, line


def test_the_number_of_kinds_and_robots_on_the_first_page_is_right():
    text = (ROOT / "README.md").read_text()
    assert f"**{len(sf.KINDS)} kinds of unknowns**" in text
    assert len(sf.available()) == 11
    assert "**Eleven robots**" in text
