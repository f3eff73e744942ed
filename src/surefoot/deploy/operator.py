"""The person beside the robot: how they stop it, and what they are told, without ever holding up the loop.

A run is stopped by Ctrl-C (SIGINT), SIGTERM, 'q' or a space and Enter where stdin is a terminal, or by a file that appears. The
first asks for a safe end; a second signal ends at once, through the path that damps the motors.
"""

import contextlib
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEYS = ("q", "Q", " ")
LOOK = 0.1
"""Time between two looks at the keyboard and the stop file [s]."""
UNSAID = 100
"""Lines that may wait to be printed; more are dropped."""


class Operator:
    """Watches for the operator's stop while its `with` block runs.

    Args:
        signals: take SIGINT and SIGTERM; only in the main thread, elsewhere they are left alone.
        keys: read the keyboard, if stdin is a terminal.
        stop_file: a file that stops the run when it appears.
    """

    def __init__(self, *, signals: bool = True, keys: bool = True, stop_file: str | Path | None = None):
        self.asked = ""
        """Why to stop; empty while nobody asked."""
        self._signals = signals and threading.current_thread() is threading.main_thread()
        self._keys = keys and sys.stdin is not None and sys.stdin.isatty()
        self._file = None if stop_file is None else Path(stop_file)
        self._before: dict[int, Any] = {}
        self._count = 0
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Operator":
        if self._signals:
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                if hasattr(signal, name):
                    number = getattr(signal, name)
                    self._before[number] = signal.signal(number, self._signal)
            # A suspended loop would leave the motors with their last command.
            for name in ("SIGTSTP", "SIGTTIN"):
                if hasattr(signal, name):
                    number = getattr(signal, name)
                    self._before[number] = signal.signal(number, signal.SIG_IGN)
        if self._keys or self._file is not None:
            self._thread = threading.Thread(target=self._look, name="operator", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._done.set()
        if self._thread is not None:
            self._thread.join(2 * LOOK)

    def _signal(self, number: int, _frame: Any) -> None:
        self._count += 1
        name = signal.Signals(number).name
        self.asked = self.asked or ("Ctrl-C" if name == "SIGINT" else name)
        if self._count == 2:
            raise KeyboardInterrupt(name)

    def _look(self) -> None:
        while not self._done.is_set():
            if self._file is not None and self._file.exists():
                self.asked = self.asked or f"the file {self._file}"
                return
            if not self._keys:
                self._done.wait(LOOK)
            elif select.select([sys.stdin], [], [], LOOK)[0]:
                line = os.read(sys.stdin.fileno(), 1024).decode(errors="replace")
                if not line:
                    self._keys = False
                elif line.startswith(KEYS):
                    self.asked = self.asked or "the keyboard"
                    return


class Voice:
    """Says lines from a thread of its own, since a full pipe or a stopped terminal would stop the robot's loop.

    Args:
        say: prints one line.
        aside: from a thread; otherwise at once.
    """

    def __init__(self, say: Callable[[str], None], *, aside: bool):
        self._say = say
        self._lines: queue.Queue[str | None] | None = queue.Queue(UNSAID) if aside else None
        self._thread = threading.Thread(target=self._run, name="voice", daemon=True)
        if aside:
            self._thread.start()

    def __call__(self, line: str) -> None:
        """Say `line`, soon; dropped when too many wait."""
        if self._lines is None:
            self._say(line)
            return
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(line)

    def close(self) -> None:
        """Wait a moment for what is still to be said."""
        if self._lines is not None:
            with contextlib.suppress(queue.Full):
                self._lines.put_nowait(None)
            self._thread.join(1.0)

    def _run(self) -> None:
        assert self._lines is not None
        while (line := self._lines.get()) is not None:
            with contextlib.suppress(OSError, ValueError):
                self._say(line)
