"""The runtime's end of a stand-in robot: starts its process, sends commands, takes readings, and knows nothing else of it."""

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from surefoot.contract import Command, Reading, Wire
from surefoot.errors import InputError, choose
from surefoot.hardware.wire_socket import (
    BYE,
    COMMAND,
    HELLO,
    LOST,
    READING,
    STOP,
    TOKEN,
    Gone,
    Line,
    pack_command,
    unpack_reading,
)

STARTING = 60.0
"""How long a twin may take to start [s]."""
ENDING = 20.0
"""How long it may take to end and to write the referee's file [s]."""
LONGEST = 100
"""Bytes that the path of a Unix socket may have everywhere."""


class TwinClient:
    """A Hardware: a stand-in robot that lives in a process of its own.

    The reality file is only named here, never opened. `log` holds what the robot said, once it is closed.
    """

    def __init__(self, reality: Path, *, lockstep: bool = False, seed: int = 0, referee: str | Path | None = None):
        self._closed, self._gone, self.log = False, "", ()
        self._process = self._line = None
        self._folder = Path(tempfile.mkdtemp(prefix="surefoot-"))
        place = self._folder / "twin"
        unix = hasattr(socket, "AF_UNIX") and len(os.fsencode(place)) <= LONGEST
        words = [sys.executable, "-m", "surefoot.hardware.twin_process", str(reality)]
        words += ["--socket", str(place) if unix else "tcp", "--seed", str(seed)]
        words += ["--lockstep"] if lockstep else []
        words += ["--referee", str(Path(referee).absolute())] if referee is not None else []
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        try:
            self._line = self._connected()
            self._introduce(self._line)
        except BaseException:
            self._end(kill=True)
            raise
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _connected(self) -> Line:
        """Wait until the robot listens, and connect."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], STARTING)
        words = process.stdout.readline().strip().split(" ", 2) if ready else []
        if len(words) < 3 or words[0] != "ready":
            said = self._last_words() if ready else f"it did not start within {STARTING:g} s"
            raise InputError(f"the stand-in robot does not start: {said}")
        if words[1] == "unix":
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(words[2])
            return Line(sock)
        port, token = words[2].split()
        sock = socket.create_connection(("127.0.0.1", int(port)), timeout=5.0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line = Line(sock)
        line.send(TOKEN, token.encode())
        return line

    def _introduce(self, line: Line) -> None:
        try:
            frame = line.receive(STARTING)
        except Gone:
            frame = None
        if frame is None or frame[0] != HELLO:
            raise InputError(f"the stand-in robot does not say what it is: {self._last_words()}")
        said = json.loads(frame[1])
        self.robot = str(said["robot"])
        self.outputs = tuple(said["outputs"])
        self.kinds = tuple(said["kinds"])
        self.channels: Mapping[str, Wire] = {
            name: Wire(unit=unit, columns=tuple(columns)) for name, (unit, columns) in said["channels"].items()
        }
        self.rate = float(said["rate"])
        self.paced = bool(said["paced"])

    # ---------------------------------------------------------------- the wire

    def read(self, timeout: float) -> Reading | None:
        """The newest sample not yet given, waiting up to `timeout` [s]; None when none came, was lost, or the robot is gone."""
        newest, end = None, time.monotonic() + timeout
        while self._line is not None and not self._gone and not self._closed:
            try:
                frame = self._line.receive(0.0 if newest is not None else max(0.0, end - time.monotonic()))
            except Gone as error:
                self._gone = str(error)
                break
            if frame is None:
                break
            if frame[0] == READING:
                newest = frame[1]
            elif frame[0] == LOST and not self.paced:
                break
        if newest is None and self._gone:
            time.sleep(max(0.0, end - time.monotonic()))
        return None if newest is None else unpack_reading(newest, self.channels)

    def write(self, command: Command) -> None:
        """Tell the motors. Raises ConnectionError when the robot's process has ended."""
        choose(command.kind, self.kinds, f"a kind of command that {self.robot} takes")
        if len(command.target) != len(self.outputs):
            raise InputError(f"{self.robot} has {len(self.outputs)} motors, this command is for {len(command.target)}")
        self._send(COMMAND, pack_command(command))

    def stop(self) -> None:
        """Damp all motors now and for good; harmless when the robot is gone."""
        with contextlib.suppress(ConnectionError):
            self._send(STOP)

    def _send(self, kind: int, payload: bytes = b"") -> None:
        if self._closed or self._line is None:
            raise ConnectionError("the stand-in robot was closed: nothing can be sent to it")
        if not self._gone:
            try:
                return self._line.send(kind, payload)
            except Gone as error:
                self._gone = str(error)
        raise ConnectionError(f"the stand-in robot is gone: {self._gone}")

    def close(self) -> None:
        """Let go of the robot: its process ends, and writes the referee's file if one was asked for."""
        if self._closed:
            return
        with contextlib.suppress(ConnectionError):
            self._send(BYE)
        self._closed = True
        self._end()

    def _end(self, *, kill: bool = False) -> None:
        """Wait for the robot's process; the socket stays open until then, so that it hears STOP and BYE."""
        process = self._process
        if process is not None:
            if kill:
                process.kill()
            try:
                said = process.communicate(timeout=ENDING)[1]
            except subprocess.TimeoutExpired:
                process.kill()
                said = process.communicate()[1] + f"\nit did not end within {ENDING:g} s and was killed"
            self.log = tuple((said or "").strip().splitlines())
        if self._line is not None:
            self._line.close()

    def _last_words(self) -> str:
        """The last sentence of a robot that ended by itself."""
        assert self._process is not None
        try:
            said = self._process.communicate(timeout=5.0)[1]
        except subprocess.TimeoutExpired:
            return "it gives no reason"
        lines = (said or "").strip().splitlines()
        return lines[-1] if lines else f"it ended with {self._process.returncode}"

    @property
    def pid(self) -> int:
        """Number of the robot's process."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> "TwinClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.close()

    def __str__(self) -> str:
        return f"stand-in {self.robot}, {'real time' if self.paced else 'lockstep'}, {self.rate:g} Hz"
