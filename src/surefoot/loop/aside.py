"""A rung that needs nothing of what the robot taught is made beside the others, in a process of its own.

"Simulation only" begins at once, the oracle when the rung that it starts from is trained; the oracle's process then also brings to the
stand-in what was exported meanwhile and waits to be judged. A process reads the loop as one line of JSON, prints what it has to say line by
line, and ends when the program that started it does.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from surefoot.errors import InputError
from surefoot.loop.folder import Folder
from surefoot.loop.judging import judge_rung
from surefoot.loop.settings import Kit, Loop, Rung
from surefoot.loop.training import export_rung, train_rung
from surefoot.loop.truth import open_truth

Say = Callable[[str], None]
ENTER = "from surefoot.loop.aside import main; raise SystemExit(main())"
"""What the process runs."""
SAYS = "says: "
"""Before every line that is meant for people."""
PATIENCE = 20.0
"""[s] that an interrupted process has to write what it knows."""


class Aside:
    """The making of one rung, begun now: trained and exported, and judged where that is asked for.

    Args:
        loop: as in `run_loop`.
        folder: of the loop.
        rung: one that needs nothing of what the robot taught.
        say: told what the process says, from another thread.
        judge: whether it is brought to the stand-in as well.
    """

    def __init__(self, loop: Loop, folder: Folder, rung: Rung, say: Say, *, judge: bool = False):
        self.rung, self.say = rung, say
        self._last: deque[str] = deque(maxlen=20)
        given = json.dumps(
            {"loop": asdict(loop), "folder": str(folder.path.resolve()), "rung": rung.name, "judge": judge}
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", ENTER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
            start_new_session=True,  # A terminal's Ctrl-C is for the loop, which stops what it began.
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(given + "\n")
        self._process.stdin.flush()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._last.append(line.rstrip())
            if line.startswith(SAYS):
                self.say(line.removeprefix(SAYS).strip())

    def wait(self) -> None:
        """Until it is made; what went wrong there goes wrong here."""
        code = self._process.wait()
        self._listener.join(PATIENCE)
        if code == 2:
            raise InputError(self._last[-1] if self._last else f"the rung {self.rung.title!r} was refused")
        if code:
            said = "\n".join(self._last)
            raise RuntimeError(f"the making of {self.rung.title!r} ended with code {code}:\n{said}")

    def stop(self) -> None:
        """Interrupt it where it still runs, and let go of it; it can be resumed."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._listener.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Asides:
    """The rungs of a loop that are made aside; leaving it waits for them, or stops them where something went wrong here.

    Args:
        loop, folder, say, judge: as in `Aside`.
    """

    def __init__(self, loop: Loop, folder: Folder, say: Say, *, judge: bool):
        self.loop, self.folder, self.say, self.judge = loop, folder, say, judge
        self._made: dict[str, Aside] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._made

    def begin(self, after: str = "") -> None:
        """Begin what starts from the rung `after`, which has just been trained; "": what starts from nothing."""
        for rung in self.loop.rungs:
            if worth_it(self.loop, self.folder, rung, after):
                self._made[rung.name] = Aside(self.loop, self.folder, rung, self.say, judge=self.judge)

    def __enter__(self) -> "Asides":
        return self

    def __exit__(self, kind: Any, *_about: Any) -> None:
        try:
            for one in self._made.values() if kind is None else ():
                one.wait()
        finally:
            for one in self._made.values():
                one.stop()


def worth_it(loop: Loop, folder: Folder, rung: Rung, after: str = "") -> bool:
    """Whether a rung that starts from `after` should be made aside: the robot teaches it nothing, nobody waits for it, it was not trained
    before, and there is more than one core.
    """
    alone = rung.e in ("nominal", "truth") and not any(other.start == rung.name for other in loop.rungs)
    new = rung.start == after and not folder.record(f"train {rung.name}").get("done")
    return alone and new and (os.cpu_count() or 1) > 1


def loop_from(data: Mapping[str, Any]) -> Loop:
    """The loop whose `dataclasses.asdict` came through JSON, which has no tuples."""
    kit = dict(data["kit"])
    for name in ("asked", "channels", "only"):
        kit[name] = None if kit[name] is None else tuple(kit[name])
    kit["effort"] = {name: tuple(v) if isinstance(v, list) else v for name, v in kit["effort"].items()}
    return Loop(**{**data, "kit": Kit(**kit), "rungs": tuple(Rung(**rung) for rung in data["rungs"])})


def main() -> int:
    """Make the rung that the first line of the input describes."""
    given = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def say(line: str) -> None:
        print(f"{SAYS}{line}", flush=True)

    try:
        loop = replace(loop_from(given["loop"]), threads=1)
        folder, rung = Folder(given["folder"], say), loop.rung(given["rung"])
        if rung.e == "truth":
            open_truth(loop, folder)
        train_rung(loop, folder, rung, say)
        if rung.judged:
            export_rung(loop, folder, rung, say)
        if rung.judged and given["judge"]:
            judge_rung(loop, folder, rung, say)
            for other in _waiting(loop, folder) if rung.e == "truth" else ():
                judge_rung(loop, folder, other, say)
    except InputError as error:
        print(error, flush=True)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _waiting(loop: Loop, folder: Folder) -> list[Rung]:
    """Judged rungs that the robot teaches nothing, made by the process that began this one, whose bundle is that of their last training."""

    def ready(name: str) -> bool:
        train, export = f"train {name}", f"export {name}"
        found = folder.record(export)
        return bool(
            folder.record(train).get("done")
            and found.get("done")
            and found["digest"] == folder.digest(export, {}, [train])
        )

    return [rung for rung in loop.rungs if rung.judged and rung.e == "randomized" and ready(rung.name)]


def _end_with_parent() -> None:
    """The input ends when the parent does, however it ends."""
    sys.stdin.read()
    os._exit(1)
