"""A run's diary: progress.jsonl for programs, a TensorBoard event file for eyes. Both only grow.

A resumed run cuts both back to where its checkpoint was written, so that they read as if it had never been interrupted.
"""

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.learn import events


class Journal:
    """Appends records to the two files of a run's folder."""

    def __init__(self, folder: Path, *, sizes: tuple[int, int] | None = None):
        """Open for appending; `sizes` (bytes of the two files at the checkpoint) cuts them back first."""
        folder.mkdir(parents=True, exist_ok=True)
        earlier = sorted(folder.glob("events.out.tfevents.*"))
        if sizes is None:
            for path in earlier:
                path.unlink()
            (folder / "progress.jsonl").unlink(missing_ok=True)
            earlier = []
        lines = folder / "progress.jsonl"
        curves = earlier[-1] if earlier else folder / f"events.out.tfevents.{int(time.time())}.surefoot"
        for path, size in zip((lines, curves), sizes or (0, 0), strict=True):
            if path.exists() and path.stat().st_size > size:
                os.truncate(path, size)
        self._lines, self._curves = lines.open("ab"), curves.open("ab")
        if self._curves.tell() == 0:
            self._curves.write(events.version(time.time()))

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record; numbers become curves at record["steps"], NaN becomes null in the JSON."""
        numbers = {k: float(v) for k, v in record.items() if isinstance(v, int | float) and math.isfinite(v)}
        plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
        self._lines.write(json.dumps(plain, allow_nan=False).encode() + b"\n")
        self._lines.flush()
        self._curves.write(events.scalars(time.time(), int(record["steps"]), numbers))
        self._curves.flush()

    def sizes(self) -> tuple[int, int]:
        """Bytes written so far to the two files, for a checkpoint."""
        return self._lines.tell(), self._curves.tell()

    def close(self) -> None:
        """Close both files."""
        self._lines.close()
        self._curves.close()


def read_journal(folder: str | Path) -> list[dict[str, Any]]:
    """The records of progress.jsonl; a last line cut off by a crash is left out."""
    path = Path(folder) / "progress.jsonl"
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    return [json.loads(line) for line in lines[:-1] if line]
