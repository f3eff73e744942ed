"""What a run leaves behind: readings, observations, actions, what was sent, timings and safety, in one crash-safe log.

| channel | columns | when |
|---|---|---|
| the readings under their own names | as the hardware gives them | every new reading |
| observation/GROUP, action, command | the group's labels, joints, names | every policy step, at the time of the reading it saw |
| the kind of the action, motor_kp, motor_kd | outputs | every tick, what was sent |
| timing | period, age, compute, safety [s] | every tick |
| safety | state 0 to 3, events so far | every tick |

In real time the log is written by a process of its own (surefoot.deploy.scribe): on two cores, writing in the loop cost 165 µs a
tick and up to 2 ms when a chunk closed, handing over costs about 20 µs; and when the loop's process is killed, what it had handed
over is still written. A diary never raises while the robot moves: what cannot be written is counted and named at the end.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from surefoot.contract import Command, Contract, Hardware
from surefoot.deploy.scribe import HEAD, JSON, ROW, ROWS
from surefoot.deploy.thinking import Thought
from surefoot.errors import InputError
from surefoot.logs import Recorder

UNITS = {
    "joint_pos_target": "rad", "joint_vel_target": "rad/s", "joint_torque_target": "N·m", "voltage_target": "V", "rotor_target": "1",
}  # fmt: skip
TIMING = ("period", "age", "compute", "safety")
STATES = ("ok", "freeze", "damping", "stopped")
STEP = 1e-6
"""Two samples of a channel are at least this far apart [s]."""
PIPE = 1 << 16
"""Bytes handed to the pipe at once."""
BACKLOG = 1 << 26
"""Bytes that may wait for the recorder's process before rows are dropped."""
READY = 30.0
"""Longest time for the recorder's process to start [s]."""


class Pen(Protocol):
    """Something that writes rows."""

    def order(self, **what: Any) -> None:
        """declare, note or close."""
        ...

    def rows(self, rows: list[tuple[int, str, float, np.ndarray]]) -> None:
        """Write (number, channel, time, values)."""
        ...

    def close(self) -> None:
        """Finish the file."""
        ...

    failed: str


class InlinePen:
    """Writes at once, in this process: for robots whose time stands still meanwhile."""

    def __init__(self, path: Path, about: Mapping[str, Any]):
        self.failed = ""
        self._recorder = Recorder(path, **about)

    def order(self, **what: Any) -> None:
        """`declare` a channel, `note` facts, or `close`."""
        if "declare" in what:
            self._recorder.declare(**what["declare"])
        if "note" in what:
            self._recorder.note(**what["note"])

    def rows(self, rows: list[tuple[int, str, float, np.ndarray]]) -> None:
        """Write (number, channel, time, values)."""
        for _, name, t, values in rows:
            self._recorder.write(name, t, values)

    def close(self) -> None:
        """Finish the file."""
        self._recorder.close()


class PipePen:
    """Hands rows to the recorder's process and never waits for it."""

    def __init__(self, path: Path, about: Mapping[str, Any]):
        if path.exists():
            raise InputError(f"{path} exists and a recording is never overwritten: choose another name")
        self.failed = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "surefoot.deploy.scribe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        self._waiting = bytearray()
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import fcntl

            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
        self.order(open={"path": str(path), **about})
        self._await_ready(path)
        os.set_blocking(self._pipe, False)

    def order(self, **what: Any) -> None:
        """`declare` a channel, `note` facts, or `close`."""
        body = json.dumps(what).encode()
        self._send(HEAD.pack(JSON, len(body)) + body)

    def rows(self, rows: list[tuple[int, str, float, np.ndarray]]) -> None:
        """Write (number, channel, time, values)."""
        parts = [ROW.pack(number, len(values), t) + values.tobytes() for number, _, t, values in rows]
        body = b"".join(parts)
        if len(self._waiting) > BACKLOG:
            self.failed = "the recorder could not keep up and rows were dropped"
            return
        self._send(HEAD.pack(ROWS, len(body)) + body)

    def close(self) -> None:
        """Finish the file; waits for the recorder's process."""
        os.set_blocking(self._pipe, True)
        self.order(close=True)
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            code = self._process.wait(READY)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        assert self._process.stdout is not None
        said = self._process.stdout.read().decode(errors="replace").strip()
        self._process.stdout.close()
        if code != 0:
            self.failed = f"the recorder's process ended with {code}" + (f": {said}" if said else "")

    def _send(self, data: bytes) -> None:
        """Put all that waits and `data` into the pipe, as much as it takes now."""
        self._waiting += data
        try:
            while self._waiting:
                sent = os.write(self._pipe, bytes(self._waiting[:PIPE]))
                del self._waiting[:sent]
        except BlockingIOError:
            pass
        except OSError as error:
            self.failed = self.failed or f"the recorder's process is gone ({error.strerror})"

    def _await_ready(self, path: Path) -> None:
        import select

        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], READY)
        line = self._process.stdout.readline().decode(errors="replace").strip() if ready else ""
        if line != "ready":
            self._process.kill()
            self._process.wait()
            raise InputError(line or f"cannot record to {path}: the recorder's process did not start")


class Diary:
    """Records one run.

    Args:
        path: a new .mcap file.
        contract: of the policy.
        hardware: the robot.
        meta: what is known beforehand.
        shadow: another controller drives: its targets are a reading, the policy's are kept as "shadow/KIND".
    """

    def __init__(
        self,
        path: str | Path,
        contract: Contract,
        hardware: Hardware,
        *,
        meta: Mapping[str, Any] | None = None,
        shadow: bool = False,
    ):
        self.path = Path(path)
        self.lost: dict[str, int] = {}
        """Channel -> samples that could not be written since their time did not increase."""
        about = {"robot": contract.robot, "contract": contract.hash, "meta": dict(meta or {})}
        if self.path.suffix != ".mcap":
            raise InputError(f"a recording is an .mcap file, got {str(path)!r}")
        self._pen: Pen = (PipePen if hardware.paced else InlinePen)(self.path, about)
        self._numbers: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._rows: list[tuple[int, str, float, np.ndarray]] = []
        self._raw = {}
        kind = contract.action.kind
        for name, wire in hardware.channels.items():
            told = shadow and name == kind
            kept = name if told or name not in (kind, "action", "command", "timing", "safety") else f"reading/{name}"
            self._raw[name] = kept
            self._declare(kept, wire.unit, wire.columns, role="u" if told else "y", nan=True)
        for group in contract.groups:
            self._declare(f"observation/{group.name}", "1", group.labels, nan=True)
        self._declare("action", "1", contract.action.joints, nan=True)
        if contract.commands:
            self._declare("command", "1", tuple(item.name for item in contract.commands))
        self._sent = f"shadow/{kind}" if shadow else kind
        role = "info" if shadow else "u"
        self._declare(self._sent, UNITS[kind], hardware.outputs, role=role, nan=shadow)
        gains = {"motor_kp": "N·m/rad", "motor_kd": "N·m·s/rad"}
        self._gains = () if shadow or kind != "joint_pos_target" else tuple(gains)
        for name in self._gains:
            self._declare(name, gains[name], hardware.outputs, role="u")
        self._declare("timing", "s", TIMING, nan=True)
        self._declare("safety", "1", ("state", "events"))

    @property
    def failed(self) -> str:
        """Why the log is not whole, in one sentence; empty while all is well."""
        return self._pen.failed

    def reading(self, t: float, values: Mapping[str, np.ndarray]) -> None:
        """A new reading, at the robot's time [s]."""
        for name, kept in self._raw.items():
            if (value := values.get(name)) is not None:
                self._add(kept, t, value)

    def thought(self, thought: Thought) -> None:
        """A policy step, at the time of the reading it saw; one that saw no new reading is put right behind the last."""
        t = max(thought.seen, self._last.get("action", -np.inf) + STEP)
        for name, value in thought.observation.items():
            self._add(f"observation/{name}", t, value[0])
        self._add("action", t, thought.action)
        if thought.command.size:
            self._add("command", t, thought.command)

    def tick(self, t: float, sent: Command, timing: tuple[float, float, float, float], state: str, events: int) -> None:
        """What was sent at the robot's time `t` [s], how long things took, and what the safety layer said."""
        t = max(t, self._last.get("timing", -np.inf) + STEP)
        self._add(self._sent, t, sent.target)
        if self._gains:
            self._add("motor_kp", t, sent.kp)
            self._add("motor_kd", t, sent.kd)
        self._add("timing", t, np.array(timing))
        self._add("safety", t, np.array((STATES.index(state), events), dtype=np.float64))

    def hand_over(self) -> None:
        """Pass on what was added since the last time; once a tick."""
        if self._rows and not self._pen.failed:
            self._pen.rows(self._rows)
        self._rows = []

    def note(self, **facts: Any) -> None:
        """Add facts to the log's meta; plain values."""
        if not self._pen.failed:
            self._pen.order(note=facts)

    def close(self) -> None:
        """Finish the log."""
        self.hand_over()
        if self.lost:
            self.note(lost=self.lost)
        self._pen.close()

    def _declare(self, name: str, unit: str, columns: tuple[str, ...], *, role: str = "y", nan: bool = False) -> None:
        self._pen.order(
            declare={"name": name, "unit": unit, "columns": list(columns), "role": role, "clock": "robot", "nan": nan}
        )
        self._numbers[name] = len(self._numbers)

    def _add(self, name: str, t: float, values: np.ndarray) -> None:
        if not 0.0 <= t < 1e10 or t <= self._last.get(name, -1.0):
            self.lost[name] = self.lost.get(name, 0) + 1
            return
        row = np.array(values, dtype=np.float64)
        if np.isinf(row).any():
            row[np.isinf(row)] = np.nan
        self._last[name] = t
        self._rows.append((self._numbers[name], name, t, row))
