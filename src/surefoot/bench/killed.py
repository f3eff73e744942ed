"""When the runtime dies or falls silent, does the robot's own watchdog damp the motors in time?

Each case is a process that drives a stand-in robot in real time and is killed (kill -9) or stopped dead (SIGSTOP, so that its socket
stays open) at a random moment. The referee's file tells when the motors were damped, on the robot's clock.
"""

import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from surefoot.bench.table import Mark, Request
from surefoot.contract import Command
from surefoot.hardware.connect import connect
from surefoot.hardware.referee import read_truth

REALITY = "twin:go2/01-nominal"
SLACK = 0.02
"""[s] Age of the last reading and the step of the robot's clock, beside its watchdog's time."""
REPETITIONS, QUICK = 200, 6
LONGEST = 20.0
"""[s] of wall time that a case may take."""


def drive(reality: str, referee: Path, note: Path) -> None:
    """Hold the present pose until the process is killed, and leave the robot's time of each command in the file `note`."""
    robot = connect(reality, referee=referee)
    first = None
    with open(note, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 8)
    while True:
        reading = robot.read(0.1)
        if reading is None:
            continue
        first = reading.values["joint_pos"] if first is None else first
        n = len(robot.outputs)
        robot.write(Command(kind="joint_pos_target", target=first, kp=np.full(n, 20.0), kd=np.full(n, 0.5)))
        shared[:8] = struct.pack("d", reading.time)


def case(seed: int) -> float | None:
    """Time from the last command to damping [s] on the robot's clock; None when it never came."""
    draw, deadline = random.Random(seed), time.monotonic() + LONGEST
    how, after = draw.choice((signal.SIGKILL, signal.SIGSTOP)), draw.uniform(0.05, 0.6)
    with tempfile.TemporaryDirectory() as place:
        file, note = Path(place) / "truth.npz", Path(place) / "last"
        note.write_bytes(bytes(8))
        child = subprocess.Popen([sys.executable, "-m", "surefoot.bench.killed", REALITY, str(file), str(note)])
        try:
            while _last(note) == 0.0:
                if time.monotonic() > deadline:
                    return None
                time.sleep(0.01)
            time.sleep(after)
            os.kill(child.pid, how)
            time.sleep(0.4 if how == signal.SIGSTOP else 0.0)
        finally:
            child.kill()
            child.wait()
        while not file.exists():
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)
        damped = [t for t, text in read_truth(file).events if "damping" in text]
        return damped[-1] - _last(note) if damped else None


def _last(note: Path) -> float:
    """The robot's time of the last command [s]; 0 before the first."""
    return float(struct.unpack("d", note.read_bytes())[0])


def measure(request: Request) -> list[Mark]:
    """Share of cases in which the motors were damped within the watchdog's time."""
    from surefoot.hardware.connect import reality_path
    from surefoot.hardware.reality import load_reality

    allowed = load_reality(reality_path(REALITY.removeprefix("twin:"))).watchdog + SLACK
    count = QUICK if request.quick else REPETITIONS
    with ThreadPoolExecutor(2) as pool:
        times = list(pool.map(case, range(count)))
    came = np.array([np.inf if t is None else t for t in times])
    return [
        Mark(
            name="runtime killed or silent: motors damped in time", value=float(np.mean(came <= allowed)), op=">=", mark=1.0,
            reference=f"{count} processes killed or stopped at random, {1e3 * allowed:.0f} ms allowed; slowest {1e3 * came.max():.0f} ms",
        )
    ]  # fmt: skip


if __name__ == "__main__":
    drive(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
