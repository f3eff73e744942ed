"""A rung that needs nothing from the others is trained beside them, in a process of its own.

The process reads the loop as one line of JSON, prints what it has to say line by line, and ends when the program that started it does.
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
from surefoot.loop.settings import Kit, Loop, Rung
from surefoot.loop.training import train_rung

Say = Callable[[str], None]
ENTER = "from surefoot.loop.aside import main; raise SystemExit(main())"
"""What the process runs."""
PATIENCE = 20.0
"""[s] that an interrupted training has to write what it knows."""


class Aside:
    """The training of one rung, begun now.

    Args:
        loop: as in `run_loop`.
        folder: of the loop.
        rung: one that starts from nothing and depends on no robot.
        say: told what the training says, from another thread.
    """

    def __init__(self, loop: Loop, folder: Folder, rung: Rung, say: Say):
        self.rung, self.say = rung, say
        self._last: deque[str] = deque(maxlen=20)
        given = json.dumps({"loop": asdict(loop), "folder": str(folder.path.resolve()), "rung": rung.name})
        self._process = subprocess.Popen(
            [sys.executable, "-c", ENTER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
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
            if line.startswith("  "):
                self.say(line.strip())

    def wait(self) -> None:
        """Until it is trained; what went wrong there goes wrong here."""
        code = self._process.wait()
        self._listener.join(PATIENCE)
        if code == 2:
            raise InputError(self._last[-1] if self._last else f"the training of {self.rung.title!r} was refused")
        if code:
            said = "\n".join(self._last)
            raise RuntimeError(f"the training of {self.rung.title!r} ended with code {code}:\n{said}")

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


def worth_it(loop: Loop, folder: Folder, rung: Rung) -> bool:
    """Whether a rung should be trained aside: it waits for nobody, was not done before, and there is more than one core."""
    alone = rung.e == "nominal" and not rung.start and not any(other.start == rung.name for other in loop.rungs)
    return alone and (os.cpu_count() or 1) > 1 and not folder.record(f"train {rung.name}").get("done")


def loop_from(data: Mapping[str, Any]) -> Loop:
    """The loop whose `dataclasses.asdict` came through JSON, which has no tuples."""
    kit = dict(data["kit"])
    for name in ("asked", "channels", "only"):
        kit[name] = None if kit[name] is None else tuple(kit[name])
    kit["effort"] = {name: tuple(v) if isinstance(v, list) else v for name, v in kit["effort"].items()}
    return Loop(**{**data, "kit": Kit(**kit), "rungs": tuple(Rung(**rung) for rung in data["rungs"])})


def main() -> int:
    """Train the rung that the first line of the input describes."""
    given = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def say(line: str) -> None:
        print(f"  {line}", flush=True)

    try:
        loop = replace(loop_from(given["loop"]), threads=1)
        train_rung(loop, Folder(given["folder"], say), loop.rung(given["rung"]), say)
    except InputError as error:
        print(error, flush=True)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _end_with_parent() -> None:
    """The input ends when the parent does, however it ends."""
    sys.stdin.read()
    os._exit(1)
