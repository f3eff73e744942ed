"""Time on the robot's side: a clock that can be replaced, a metronome that never bursts, and the robot's time seen from here.

    deadline_k = start + k / rate        late_k = now − deadline_k        overrun: late_k > half a period

A late tick runs at once and takes the place of the nearest one on the grid; those before it are left out and counted. So a stall is
never followed by a burst: two ticks are at least half a period apart.
"""

import contextlib
import gc
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

SPIN = 2e-4
"""The last part of a wait is spent looking at the clock [s]: sleeping wakes up about 0.1 ms late."""


class Clock(Protocol):
    """Where time comes from; tests put their own in its place."""

    def now(self) -> float:
        """Monotonic time [s]."""
        ...

    def sleep_until(self, when: float) -> None:
        """Return at `when` [s], at once when it has passed."""
        ...


class WallClock:
    """The machine's monotonic clock; waits by sleeping and then, for the last 0.2 ms, by looking."""

    def now(self) -> float:
        """Monotonic time [s]."""
        return time.monotonic()

    def sleep_until(self, when: float) -> None:
        """Return at `when` [s], at once when it has passed."""
        left = when - time.monotonic()
        if left > SPIN:
            time.sleep(left - SPIN)
        while time.monotonic() < when:
            pass


@dataclass(frozen=True, slots=True)
class Beat:
    """One tick of a metronome: when it came [s], how late [s], and how many ticks before it were left out."""

    time: float
    late: float
    missed: int
    overrun: bool


class Metronome:
    """Ticks at a fixed rate on a clock.

    Args:
        period: between two ticks [s].
        clock: where time comes from.
    """

    def __init__(self, period: float, clock: Clock):
        self.period, self.clock = period, clock
        self.overruns = 0
        """Ticks that came more than half a period late."""
        self.missed = 0
        """Ticks that were left out."""
        self._start, self._index = clock.now(), -1

    def start(self, at: float) -> None:
        """Let the next tick be due at `at` [s]."""
        self._start, self._index = at, -1

    def wait(self) -> Beat:
        """Wait for the next tick."""
        self._index += 1
        due = self._start + self._index * self.period
        self.clock.sleep_until(due)
        now = self.clock.now()
        late = max(now - due, 0.0)
        missed = int(late / self.period + 0.5)
        overrun = missed > 0
        self._index += missed
        self.overruns += overrun
        self.missed += missed
        return Beat(now, late, missed, overrun)


class RobotTime:
    """The robot's clock as seen from here, for the times of what is sent between two readings.

    offset = min over the readings of (arrival − time): the reading that travelled fastest says most. The minimum is let go slowly,
    by `drift`, so that clocks of slightly different speed stay together.
    """

    def __init__(self, drift: float = 1e-4):
        self._drift = drift
        self._offset, self._seen = math.inf, 0.0

    def see(self, now: float, time: float) -> None:
        """A reading taken at the robot's `time` arrived at `now` [s]."""
        held = self._offset + self._drift * (now - self._seen)
        found = now - time
        # A clock that jumped is followed at once; what was recorded before keeps its times.
        self._offset = found if found > held + 1.0 or not math.isfinite(held) else min(held, found)
        self._seen = now

    def at(self, now: float) -> float:
        """The robot's time at `now` [s]; `now` itself before the first reading."""
        return now - self._offset if math.isfinite(self._offset) else now


@contextlib.contextmanager
def undisturbed(priority: bool = False) -> Iterator[str]:
    """Run without garbage collection and, if asked and allowed, before all ordinary processes; yields what was had, in words.

    The loop makes no reference cycles worth collecting in the time of a run; a collection in it would cost milliseconds.
    """
    collecting, before, said = gc.isenabled(), None, "ordinary priority"
    gc.collect()
    gc.freeze()
    gc.disable()
    if priority:
        try:
            before = os.sched_getscheduler(0), os.sched_getparam(0)
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
            said = "real-time priority"
        except (OSError, AttributeError):
            before, said = None, "ordinary priority (this user may not have a real-time one)"
    try:
        yield said
    finally:
        if before is not None:
            os.sched_setscheduler(0, *before)
        gc.unfreeze()
        if collecting:
            gc.enable()
