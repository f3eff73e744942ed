"""A recorded log as Hardware: it gives the readings of then, and ignores what it is told. For `verify` and shadow runs."""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from surefoot.contract import Command, Reading, Wire
from surefoot.contract.channels import ACTIONS
from surefoot.errors import InputError, choose
from surefoot.logs import Log, read_log

NOT_SENSED = ("action", "command", "timing", "safety")
"""Channels that a runtime adds to a recording; `observation/...` is another."""


class Replay:
    """Plays a log's measurements: the fastest channel sets the pace, the others are held.

    In lockstep every `write` moves it on by one sample. After the last sample `read` gives None and `finished` is true.
    """

    def __init__(self, log: Log | str | Path, *, lockstep: bool = False):
        log = log if isinstance(log, Log) else read_log(Path(log))
        sensed = [c for c in log.y if c.name not in NOT_SENSED and not c.name.startswith("observation/")]
        if not sensed:
            raise InputError("this log has no measured channel: there is nothing to replay")
        if len({c.clock for c in sensed}) > 1:
            clocks = ", ".join(sorted({c.clock for c in sensed}))
            raise InputError(
                f"the measurements of this log are on different clocks ({clocks}): align them before a replay"
            )
        told = [c for c in log.u if c.name in ACTIONS]
        self.robot = log.robot or "unknown"
        seen = sensed + [
            c for c in told if c.clock == sensed[0].clock
        ]  # commands too: another controller's can be shadowed
        self.channels: Mapping[str, Wire] = {c.name: Wire(unit=c.unit, columns=c.columns) for c in seen}
        self.kinds = tuple(c.name for c in told) or ACTIONS
        self.outputs = told[0].columns if told else self._guessed()
        self.paced = not lockstep
        self._times = self._line_up(sensed)
        self._index = {c.name: np.maximum(np.searchsorted(c.t, self._times, side="right") - 1, 0) for c in seen}
        self._values = {c.name: c.values for c in seen}
        steps = np.diff(self._times)
        self.rate = float(1.0 / np.median(steps)) if len(steps) else 1.0
        self._at = 0  # number of the next sample to give
        self._reached = 0  # lockstep: number of the newest sample that is there
        self._begin: float | None = None

    def _guessed(self) -> tuple[str, ...]:
        wire = self.channels.get("joint_pos")
        return wire.columns if wire is not None else ()

    @staticmethod
    def _line_up(sensed: list) -> np.ndarray:
        """Times of the fastest channel from where all have begun [s]."""
        fastest = max(sensed, key=len)
        times = np.asarray(fastest.t)
        times = times[times >= max(float(c.t[0]) for c in sensed)]
        if not len(times):
            raise InputError("the measured channels of this log have no time in common: there is nothing to replay")
        return times

    @property
    def finished(self) -> bool:
        """Whether every sample was given or passed over."""
        return self._at >= len(self._times)

    def read(self, timeout: float) -> Reading | None:
        """The newest sample not yet given; None at the end of the log, or when none came within `timeout` [s]."""
        if self.finished:
            return None
        if self.paced:
            if not self._wait(timeout):
                return None
        elif self._at > self._reached:
            return None
        k = min(self._reached, len(self._times) - 1)
        self._at = k + 1
        values = {name: np.array(self._values[name][rows[k]], dtype=np.float64) for name, rows in self._index.items()}
        return Reading(time=float(self._times[k]), count=k, values=values)

    def _wait(self, timeout: float) -> bool:
        """Move to the newest sample that is due by now, waiting for the next one if it was given already."""
        now = time.monotonic()
        if self._begin is None:
            self._begin = now - float(self._times[0])
        due = self._begin + float(self._times[self._at])
        if due > now + timeout:
            time.sleep(timeout)
            return False
        time.sleep(max(0.0, due - now))
        past = np.searchsorted(self._times, time.monotonic() - self._begin, side="right") - 1
        self._reached = max(self._at, int(past))
        return True

    def write(self, command: Command) -> None:
        """Ignored, but for its kind being checked; in lockstep it moves the log on by one sample."""
        choose(command.kind, self.kinds, f"a kind of command of this recorded {self.robot}")
        if not self.paced:
            self._reached += 1

    def stop(self) -> None:
        """Nothing moves here."""

    def close(self) -> None:
        """Nothing to let go of."""

    def __enter__(self) -> "Replay":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"recorded {self.robot}, {len(self._times)} samples at {self.rate:g} Hz"
