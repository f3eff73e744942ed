"""The process of a stand-in robot: `python -m surefoot.hardware.twin_process FILE --socket PATH [--lockstep] [--seed N]`.

It alone opens the reality file. It waits for one runtime on a local socket, says what it is, and then only gives readings and
takes commands. When the runtime says BYE it ends; when the runtime dies, its watchdog damps the motors first.
"""

import argparse
import contextlib
import json
import os
import secrets
import select
import signal
import socket
import sys
import time
from pathlib import Path

import mujoco

from surefoot.errors import InputError
from surefoot.hardware.reality import load_reality
from surefoot.hardware.twin import Twin
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
    pack_reading,
    unpack_command,
)

PATIENCE = 60.0
"""How long it waits for a runtime [s]."""
AFTER = 0.4
"""How long it goes on after its watchdog, when the runtime is gone [s of its own time]."""
BEHIND = 0.05
"""When it is later than this it lets its clock slip, and says so [s]."""


class Ended(Exception):  # noqa: N818 (nothing went wrong)
    """Asked to end by a signal."""


def main(words: list[str] | None = None) -> int:
    """Run a twin until its runtime leaves."""
    parser = argparse.ArgumentParser(prog="python -m surefoot.hardware.twin_process", description=__doc__)
    parser.add_argument("file", help="the reality, TOML")
    parser.add_argument(
        "--socket", required=True, help="path of a Unix socket to make, or 'tcp' for a port on 127.0.0.1"
    )
    parser.add_argument("--lockstep", action="store_true", help="stand still between commands, instead of real time")
    parser.add_argument("--seed", type=int, default=0, help="of noise, patches, pushes")
    parser.add_argument("--referee", default=None, help="npz file for the truth, written at the end")
    given = parser.parse_args(words)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    try:
        twin = Twin(load_reality(given.file), seed=given.seed, referee=given.referee is not None)
        mujoco.set_mju_user_warning(twin.log)  # else MuJoCo writes a file into the working folder
        line = _wait_for_runtime(given.socket)
    except InputError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    except Ended:
        return 0
    failed = ""
    try:
        line.send(HELLO, json.dumps(twin.about() | {"paced": not given.lockstep}).encode())
        (_lockstep if given.lockstep else _paced)(twin, line)
    except Ended:
        twin.log("ended by a signal")
    except FloatingPointError as error:
        failed = str(error)
    finally:
        line.close()
    with contextlib.suppress(BrokenPipeError):
        for t, text in twin.events[:200]:
            print(f"{t:.4f} s: {text}", file=sys.stderr)
        if failed:
            print(failed, file=sys.stderr)
        sys.stderr.flush()
    twin.finish(given.referee)
    return 1 if failed else 0


def _end(*_: object) -> None:
    raise Ended


def _wait_for_runtime(where: str) -> Line:
    """Listen, say so on stdout, take the one runtime, and leave no socket behind."""
    token = ""
    if where == "tcp":
        listener = socket.create_server(("127.0.0.1", 0))
        token = secrets.token_hex(16)
        ready = f"ready tcp {listener.getsockname()[1]} {token}"
    else:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(where)
        except OSError as error:
            raise InputError(f"cannot listen at {where}: {error.strerror or error}") from None
        os.chmod(where, 0o600)
        listener.listen(1)
        ready = f"ready unix {where}"
    try:
        print(ready, flush=True)
        listener.settimeout(PATIENCE)
        try:
            sock, _ = listener.accept()
        except TimeoutError:
            raise InputError(f"no runtime came within {PATIENCE:g} s") from None
    finally:
        listener.close()
        if where != "tcp":
            Path(where).unlink(missing_ok=True)
    if where == "tcp":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line = Line(sock)
    if token and line.receive(5.0) != (TOKEN, token.encode()):
        raise InputError("somebody else connected: the runtime must show its token")
    return line


def _take(twin: Twin, frame: tuple[int, bytes], at: float | None = None) -> bool:
    """Do what a frame asks; False on BYE."""
    kind, payload = frame
    if kind == COMMAND:
        twin.tell(*unpack_command(payload, len(twin.plant.outputs)), at=at)
    elif kind == STOP:
        twin.stop()
    return kind != BYE


def _lockstep(twin: Twin, line: Line) -> None:
    """Time moves by 1/rate with every command."""
    _give(twin, line, twin.look())
    try:
        while True:
            frame = line.receive(3600.0)
            if frame is None:
                continue
            if not _take(twin, frame):
                return
            if frame[0] == COMMAND:
                _give(twin, line, twin.advance())
    except Gone:
        _alone(twin)


def _give(twin: Twin, line: Line, row) -> None:
    if row is None:
        line.send(LOST)
    else:
        line.send(READING, pack_reading(twin.t, twin.count, row))


def _alone(twin: Twin) -> None:
    """The runtime is gone: go on until the watchdog has damped the motors and some more."""
    twin.log("the runtime is gone")
    end = twin.t + twin.reality.watchdog + AFTER
    while twin.t < end:
        twin.advance()


def _paced(twin: Twin, line: Line) -> None:
    """Real time: one tick every 1/rate of wall time, whatever comes or does not come."""
    begin = time.monotonic()
    row, gone, end = twin.look(), False, float("inf")
    while twin.t < end:
        if not gone:
            try:
                if row is not None:
                    line.offer(READING, pack_reading(twin.t, twin.count, row))
                if not _listen(twin, line, begin):
                    return
            except Gone:
                gone, end = True, twin.t + twin.reality.watchdog + AFTER
                twin.log("the runtime is gone")
        else:
            time.sleep(max(0.0, begin + twin.t + twin.period - time.monotonic()))
        late = time.monotonic() - (begin + twin.t + twin.period)
        if late > BEHIND:
            twin.log(f"the machine is too slow: the clock slips by {late:.3f} s")
            begin += late
        row = twin.advance()


def _listen(twin: Twin, line: Line, begin: float) -> bool:
    """Take what comes until the next tick is due; False on BYE."""
    due = begin + twin.t + twin.period
    while True:
        left = due - time.monotonic()
        frame = line.receive(0.0)
        if frame is not None:
            if not _take(twin, frame, at=min(max(time.monotonic() - begin, twin.t), twin.t + twin.period)):
                return False
            continue
        if left <= 0:
            return True
        select.select([line.sock], [], [], left)


if __name__ == "__main__":
    sys.exit(main())
