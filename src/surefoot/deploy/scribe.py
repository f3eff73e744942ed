"""The recorder's own process: it takes rows from a pipe and writes the log, so that the loop never waits for a disk.

A frame on the pipe is

    kind (1 byte)  length (4 bytes)  body
    kind JSON: {"open": {...}}, {"declare": {...}}, {"note": {...}} or {"close": true}
    kind ROWS: any number of  channel (2)  count (2)  time (8)  count × value (8)

When the pipe ends without a "close", the loop's process has died; the log is then closed as it stands and says so. Signals that
end the loop are not for this process: it ends when the pipe does.
"""

import json
import os
import select
import signal
import struct
import sys
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.logs.recording import Recorder

JSON, ROWS = 0, 1
HEAD = struct.Struct("<BI")
ROW = struct.Struct("<HHd")
FLUSH = 0.05
"""Longest time that samples wait in memory [s]."""
DIED = "the runtime's process ended without closing its log"


class Writer:
    """Turns frames into a log."""

    def __init__(self):
        self.recorder: Recorder | None = None
        self.names: list[str] = []
        self.closed = False
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take bytes from the pipe; whole frames are written, the rest is kept for later."""
        data = self._rest + data
        at = 0
        while len(data) - at >= HEAD.size:
            kind, length = HEAD.unpack_from(data, at)
            start, stop = at + HEAD.size, at + HEAD.size + length
            if stop > len(data):
                break
            if kind == ROWS:
                self._rows(data, start, stop)
            else:
                self._do(json.loads(data[start:stop]))
            at = stop
        self._rest = data[at:]

    def end(self) -> None:
        """The pipe has ended."""
        if self.recorder is not None:
            if not self.closed:
                self.recorder.note(ended=DIED)
            self.recorder.close()

    def _do(self, order: dict[str, Any]) -> None:
        if "open" in order:
            given = order["open"]
            self.recorder = Recorder(given.pop("path"), flush=FLUSH, **given)
        assert self.recorder is not None
        if "declare" in order:
            self.recorder.declare(**order["declare"])
            self.names.append(order["declare"]["name"])
        if "note" in order:
            self.recorder.note(**order["note"])
        self.closed = self.closed or "close" in order

    def _rows(self, data: bytes, at: int, stop: int) -> None:
        assert self.recorder is not None
        while at < stop:
            channel, count, t = ROW.unpack_from(data, at)
            values = np.frombuffer(data, np.float64, count, at + ROW.size)
            self.recorder.write(self.names[channel], t, values)
            at += ROW.size + 8 * count


def main() -> int:
    """Write what comes on stdin; says "ready" or the reason why not on stdout, once."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    writer, told, source = Writer(), False, sys.stdin.fileno()
    try:
        while True:
            if select.select([source], [], [], FLUSH)[0]:
                block = os.read(source, 1 << 16)
                if not block:
                    break
                writer.feed(block)
            elif writer.recorder is not None:
                writer.recorder.flush()
            if not told and writer.recorder is not None:
                told = True
                print("ready", flush=True)
        writer.end()
    except InputError as error:
        print(error, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
