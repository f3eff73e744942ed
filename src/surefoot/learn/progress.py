"""The line that tells how a training goes: steps per second, return, success, time left."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Say = Callable[[str], None]


class Progress:
    """Speaks at most twice a second on a terminal (one line, rewritten), every ten seconds elsewhere (new lines)."""

    def __init__(self, total: int, say: Say | None = None):
        self._total, self._say = total, say
        self._live = say is None and sys.stderr.isatty()
        self._pause = 10.0 if say is None and not self._live else 0.5  # [s]
        self._last = -math.inf

    def tell(self, record: Mapping[str, Any], *, always: bool = False) -> None:
        """Show `record`, unless the last line is too young."""
        now = time.monotonic()
        if always or now - self._last >= self._pause:
            self._last = now
            self._emit(line(record, self._total))

    def note(self, sentence: str) -> None:
        """Say a sentence on a line of its own."""
        self._emit(sentence + "\n" if self._live else sentence)

    def _emit(self, text: str) -> None:
        if self._say is not None:
            self._say(text)
        elif self._live:
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the line."""
        if self._live and self._last > -math.inf:
            print(file=sys.stderr, flush=True)


def line(record: Mapping[str, Any], total: int) -> str:
    """One line for people."""
    steps, pace = record["steps"], record.get("steps_per_second", math.nan)
    parts = [f"{100 * min(1.0, steps / total):3.0f} %", f"{_short(steps)} steps", f"{_short(pace)}/s"]
    parts += [f"return {record['return']:.4g}"] if math.isfinite(record.get("return", math.nan)) else []
    parts += [f"success {100 * record['success']:.0f} %"] if math.isfinite(record.get("success", math.nan)) else []
    parts += [f"length {record['length']:.0f}"] if math.isfinite(record.get("length", math.nan)) else []
    parts += [f"{record['broken']} broken"] if record.get("broken") else []
    parts += [f"{record['refused']} refused"] if record.get("refused") else []
    if pace > 0:
        parts.append(f"{_clock((total - steps) / pace)} left")
    return "  ".join(parts)


def _short(x: float) -> str:
    if not math.isfinite(x):
        return "?"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= size:
            return f"{x / size:.3g}{letter}"
    return f"{x:.0f}"


def _clock(seconds: float) -> str:
    seconds = max(0, round(seconds))
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{seconds // 60}:{seconds % 60:02d}"
