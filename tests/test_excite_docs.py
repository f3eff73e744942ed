"""Commands on the pages about excite and the loop have the arguments that the command line takes."""

import inspect
import re
import shlex
from pathlib import Path

import pytest

import surefoot as sf
from surefoot.cli import COMMANDS

DOCS = Path(__file__).resolve().parents[1] / "docs"
SHOWN = [
    pytest.param(line, id=f"{page} {k}")
    for page in ("excite.md", "loop.md")
    for k, line in enumerate(re.findall(r"^ {4}surefoot (.+)$", (DOCS / page).read_text(), re.M))
]


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_that_is_shown_is_one_that_there_is(line):
    name, *words = shlex.split(line, comments=True)
    taken = inspect.signature(COMMANDS[name]).parameters
    options = [word[2:].replace("-", "_") for word in words if word.startswith("--")]
    assert set(options) <= set(taken)
    if next(iter(taken)) == "robot" and not words[0].startswith("--"):
        assert words[0] in sf.available()
