"""Where a loop keeps its work: one folder, one file for each finished step, so that an interrupted loop goes on.

steps/NAME.json = {"digest", "done", "seconds", "result"};   digest = SHA-256 of the step's name, its inputs, and the digests before it
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.files import write_text

Work = Callable[[bool], Mapping[str, Any]]
"""Does a step; told whether it was begun before with the same inputs."""


class Folder:
    """The artefacts of a loop.

    Args:
        path: made when it is not there.
        say: told which step runs or is skipped, a line a call.
    """

    def __init__(self, path: str | Path, say: Callable[[str], None] = lambda _line: None):
        self.path, self.say = Path(path), say
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file, and a loop needs a folder: name one that is new")

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def record(self, name: str) -> dict[str, Any]:
        """What is known of a step; empty where it never began."""
        try:
            found = json.loads(self._file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def result(self, name: str) -> dict[str, Any]:
        """What a finished step found."""
        found = self.record(name)
        if not found.get("done"):
            raise InputError(f"the step {name!r} has not been done in {self.path}: run the loop up to it first")
        return found["result"]

    def digest(self, name: str, inputs: Mapping[str, Any], after: Sequence[str]) -> str:
        """Of everything that a step depends on."""
        before = [self.record(other).get("digest") for other in after]
        return hashlib.sha256(
            json.dumps([name, dict(inputs), before], sort_keys=True, default=str).encode()
        ).hexdigest()

    def step(self, name: str, inputs: Mapping[str, Any], work: Work, *, after: Sequence[str] = ()) -> dict[str, Any]:
        """The result of a step, done now or found done with the same inputs after the same steps.

        Args:
            name: of the step.
            inputs: plain values that decide its result.
            work: does it; its answer must be plain values.
            after: steps whose results it uses.
        """
        digest, known = self.digest(name, inputs, after), self.record(name)
        same = known.get("digest") == digest
        if same and known.get("done"):
            self.say(f"{name}: done before")
            return known["result"]
        self.say(f"{name} ...")
        self._write(name, {"digest": digest, "done": False})
        begin = time.perf_counter()
        result = json.loads(json.dumps(dict(work(same)), allow_nan=False, default=str))
        seconds = time.perf_counter() - begin
        self._write(name, {"digest": digest, "done": True, "seconds": seconds, "result": result})
        self.say(f"{name}: {seconds:.1f} s")
        return result

    def seconds(self) -> float:
        """Computing time of all finished steps [s]."""
        files = sorted((self.path / "steps").glob("*.json"))
        return sum(float(self.record(f.stem.replace("-", " ")).get("seconds", 0.0)) for f in files)

    def _file(self, name: str) -> Path:
        return self.path / "steps" / f"{name.replace(' ', '-')}.json"

    def _write(self, name: str, data: Mapping[str, Any]) -> None:
        write_text(self._file(name), json.dumps(data, indent=1, ensure_ascii=False) + "\n")
