"""Frames between a runtime and a stand-in robot, over a local socket.

frame    kind (1 byte), length of the rest (4 bytes, little-endian), the rest
HELLO    JSON: robot, outputs, kinds, channels with units and columns, rate, paced                     robot -> runtime
READING  time [s] (float64), count (uint64), all channels in a row (float64)                            robot -> runtime
LOST     nothing: in lockstep, the sample of this step did not come                                     robot -> runtime
COMMAND  kind of command (1 byte), then target, kp, kd, velocity, torque (float64 each)               runtime -> robot
STOP     nothing       BYE  nothing       TOKEN  text that proves who connects, over TCP              runtime -> robot
"""

import select
import socket
import struct
import time
from collections.abc import Mapping

import numpy as np

from surefoot.contract import Command, Reading, Wire
from surefoot.contract.channels import ACTIONS

HELLO, READING, LOST, COMMAND, STOP, BYE, TOKEN = range(1, 8)
HEAD = struct.Struct("<BI")
STAMP = struct.Struct("<dQ")
LARGEST = 1 << 20
"""A longer frame is a mistake [bytes]."""


class Gone(ConnectionError):  # noqa: N818 (it says what happened)
    """The other side has closed, or speaks another language."""


class Line:
    """One end of a connection: whole frames in and out, never waiting longer than asked."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self.sock.setblocking(False)
        self._in, self._out = bytearray(), bytearray()

    def send(self, kind: int, payload: bytes = b"", *, timeout: float = 5.0) -> None:
        """Send a frame, waiting up to `timeout` [s] for room."""
        self._out += HEAD.pack(kind, len(payload)) + payload
        end = time.monotonic() + timeout
        while not self.flush():
            left = end - time.monotonic()
            if left <= 0:
                raise Gone("the other side of the socket takes no more")
            select.select([], [self.sock], [], left)

    def offer(self, kind: int, payload: bytes) -> bool:
        """Send a frame if there is room; False when it was dropped because older ones still wait."""
        if not self.flush():
            return False
        self._out += HEAD.pack(kind, len(payload)) + payload
        self.flush()
        return True

    def flush(self) -> bool:
        """Hand over what waits; True when nothing waits any more."""
        while self._out:
            try:
                del self._out[: self.sock.send(self._out)]
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise Gone(f"the socket broke: {error.strerror}") from None
        return True

    def receive(self, timeout: float = 0.0) -> tuple[int, bytes] | None:
        """The next frame, waiting up to `timeout` [s]; None when none came. Raises Gone at the end."""
        end = time.monotonic() + timeout
        while True:
            if len(self._in) >= HEAD.size:
                kind, size = HEAD.unpack_from(self._in)
                if not HELLO <= kind <= TOKEN or size > LARGEST:
                    raise Gone("the other side of the socket speaks another language")
                if len(self._in) >= HEAD.size + size:
                    payload = bytes(self._in[HEAD.size : HEAD.size + size])
                    del self._in[: HEAD.size + size]
                    return kind, payload
            if not self._more(max(0.0, end - time.monotonic())):
                return None

    def _more(self, timeout: float) -> bool:
        """Take what has come; False when nothing came in time."""
        try:
            ready, _, _ = select.select([self.sock], [], [], timeout)
            if not ready:
                return False
            found = self.sock.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return True
        except (OSError, ValueError) as error:
            raise Gone(f"the socket broke: {error}") from None
        if not found:
            raise Gone("the other side of the socket has closed")
        self._in += found
        return True

    def close(self) -> None:
        """Close the socket; closing twice is harmless."""
        self.sock.close()


def pack_reading(t: float, count: int, row: np.ndarray) -> bytes:
    """Payload of a READING."""
    return STAMP.pack(t, count) + row.astype("<f8").tobytes()


def unpack_reading(payload: bytes, channels: Mapping[str, Wire]) -> Reading:
    """The reading in a payload."""
    t, count = STAMP.unpack_from(payload)
    row = np.frombuffer(payload, dtype="<f8", offset=STAMP.size).astype(np.float64)
    if len(row) != sum(len(wire.columns) for wire in channels.values()):
        raise Gone("a reading has not the columns that were announced")
    values, at = {}, 0
    for name, wire in channels.items():
        values[name] = row[at : at + len(wire.columns)]
        at += len(wire.columns)
    return Reading(time=t, count=count, values=values)


def pack_command(command: Command) -> bytes:
    """Payload of a COMMAND."""
    parts = (command.target, command.kp, command.kd, command.velocity, command.torque)
    return bytes([ACTIONS.index(command.kind)]) + np.stack(parts).astype("<f8").tobytes()


def unpack_command(payload: bytes, outputs: int) -> tuple[str, np.ndarray]:
    """Kind of a command and its numbers (5, outputs): target, kp, kd, velocity, torque. Raises Gone when it is malformed."""
    if len(payload) != 1 + 5 * 8 * outputs or payload[0] >= len(ACTIONS):
        raise Gone("a command has not the length of this robot's")
    return ACTIONS[payload[0]], np.frombuffer(payload, dtype="<f8", offset=1).reshape(5, outputs).astype(np.float64)
