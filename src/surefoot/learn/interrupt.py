"""Ctrl-C while a training runs: the update under way is finished and the run written; the second one ends it at once."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def held_back() -> Iterator[Callable[[], bool]]:
    """Within, the first SIGINT is only remembered; what is yielded tells whether it came.

    Only a program's main thread hears signals, and one that ignores them goes on ignoring them.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield lambda: False
        return
    heard: list[int] = []

    def hear(number: int, _frame: object) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)

    signal.signal(signal.SIGINT, hear)
    try:
        yield lambda: bool(heard)
    finally:
        signal.signal(signal.SIGINT, before)
