"""How steady the runtime's loop is, and what is left of its log after kill -9.

A 500 Hz inner loop with a 50 Hz policy, the safety layer and the recording, against a robot in this process and against a twin in its
own; then processes that record are killed at random times.
"""

import contextlib
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from surefoot.bench import stand_in
from surefoot.bench.table import Mark, Request
from surefoot.contract import Action, Command, Contract, Group, Hardware, Term
from surefoot.deploy.bundle import Bundle
from surefoot.deploy.outcome import Outcome
from surefoot.deploy.runtime import Plan, deploy
from surefoot.errors import InputError
from surefoot.logs import read_log

TWIN = "twin:go2/01-nominal"
MICRO = 1e6
LOST = 0.1
"""Most that a killed process may lose [s]."""
WINDOW = 5
"""Periods in which ticks are counted to find bursts."""


def measure(request: Request) -> list[Mark]:
    """Jitter, overruns and lost log; about 140 s, quick about 60 s."""
    seconds, kills = (5.0, 3) if request.quick else (20.0, 5)
    marks = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = stand_in.bundle(place / "bundle")
        for name, priority in (("in-process robot", False), ("in-process robot, real-time priority", True)):
            request.tell(f"loop: {name}, {seconds:g} s")
            marks += loop_marks(name, made, stand_in.StandIn(paced=True), place, seconds, priority)
        agreed = standing_contract("go2")
        standing = stand_in.bundle(
            place / "standing", agreed, weight=np.zeros((len(agreed.joints), agreed.group("policy").size))
        )
        for name, priority in (("go2 twin", False), ("go2 twin, real-time priority", True)):
            request.tell(f"loop: {name}, {seconds:g} s")
            marks += _twin(name, standing, place, seconds, priority)
        for both in (False, True):
            request.tell(f"kill -9: {kills} times{', with its recorder' if both else ''}")
            marks.append(kill_mark(made, place, kills, both=both))
    return marks


def loop_marks(name: str, made: Bundle, robot: Hardware, place: Path, seconds: float, priority: bool) -> list[Mark]:
    """Run a policy for `seconds` [s] and say how steady its loop was."""
    log = place / f"loop{len(list(place.iterdir()))}.mcap"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    outcome = deploy(
        made,
        robot,
        seconds=seconds,
        record=log,
        safety=stand_in.patient(made.contract),
        say=None,
        priority=priority,
        plan=Plan(stand_up=1.0, sit_down=0.5),
    )
    return _marks(name, outcome, read_log(log)["timing"].column("period"), load)


def _marks(name: str, outcome: Outcome, periods: np.ndarray, load: float) -> list[Mark]:
    period, grid = 1 / outcome.rate, outcome.ticks + outcome.missed
    about = f"{outcome.ticks} ticks at {outcome.rate:g} Hz, safety and recording on, load average before {load:.1f}"
    marks = [
        Mark(
            name=f"jitter {key}, {name}",
            value=value * MICRO,
            unit="µs",
            reference=about if key == "p50" else "|period − 2 ms|",
        )
        for key, value in outcome.jitter.items()
    ]
    # Every tick of the grid either ran or was left out, and none was made up for by a burst.
    drift = abs(outcome.elapsed / period - (grid - 1))
    return [
        *marks,
        Mark(
            name=f"overruns, {name}", value=100 * outcome.overruns / max(outcome.ticks, 1), unit="%",
            reference=f"{outcome.overruns} ticks more than half a period late, {outcome.missed} left out",
        ),
        Mark(
            name=f"drift after overruns, {name}", value=drift, unit="periods", op="<=", mark=10.0,
            reference="ticks and left-out ticks against the clock",
        ),
        Mark(
            name=f"most ticks in {WINDOW} periods, {name}", value=crowd(periods, WINDOW * period), unit="ticks", op="<=", mark=WINDOW + 2,
            reference=f"{WINDOW} or {WINDOW + 1} when steady: no burst after a stall",
        ),
    ]  # fmt: skip


def crowd(periods: np.ndarray, window: float) -> int:
    """Most ticks in any window of that length [s], both ends counted."""
    t = np.concatenate([[0.0], np.cumsum(periods)])
    return int((np.searchsorted(t, t + window, side="right") - np.arange(len(t))).max())


def _twin(name: str, standing: Bundle, place: Path, seconds: float, priority: bool) -> list[Mark]:
    from surefoot.hardware.connect import connect

    try:
        robot = connect(TWIN)
    except (InputError, ImportError, OSError) as error:
        return [Mark(name=f"jitter p50, {name}", value=None, unit="µs", reference=f"no twin here: {error}")]
    try:
        return loop_marks(name, standing, robot, place, seconds, priority)
    finally:
        robot.close()


def standing_contract(name: str) -> Contract:
    """A contract under which the action 0 stands: joint positions and speeds in, targets around the default pose out."""
    from surefoot.robots import load

    robot = load(name)
    motors = {motor.name: motor for motor in robot.actuators}
    pose = tuple(robot.pose[joint] for joint in robot.joints)
    terms = (
        Term(source="gyro"), Term(source="gravity"), Term(source="joint_pos", columns=robot.joints),
        Term(source="joint_vel", columns=robot.joints), Term(source="last_action", columns=robot.joints),
    )  # fmt: skip
    return Contract(
        robot=robot.name, joints=robot.joints, control_dt=0.02, groups=(Group(name="policy", terms=terms),),
        action=Action(joints=robot.joints, scale=0.3, offset=pose, clip=(-5.0, 5.0)),
        sensor_channels=("gyro", "gravity", "joint_pos", "joint_vel"), pose=pose,
        kp=tuple(motors[joint].kp or 0.0 for joint in robot.joints), kd=tuple(motors[joint].kd or 0.0 for joint in robot.joints),
    )  # fmt: skip


# -------------------------------------------------------------------- kill -9


class Witness(stand_in.StandIn):
    """A robot that notes the time of its newest sample in a file whenever it is told something, so that it outlives its process."""

    def __init__(self, file: Path):
        super().__init__(paced=True)
        self._page = mmap.mmap(os.open(file, os.O_RDWR), 8)

    def write(self, command: Command) -> None:
        """Tell the motors, and note the time."""
        super().write(command)
        self._page[:8] = struct.pack("<d", self.given)


def kill_mark(made: Bundle, place: Path, kills: int, *, both: bool, seed: int = 0) -> Mark:
    """How much of its log a killed process loses [s]; with `both`, its recorder is killed in the same moment."""
    rng = np.random.default_rng(seed)
    lost = [killed(made, place / f"kill{both:d}{k}", float(rng.uniform(0.5, 2.0)), both=both) for k in range(kills)]
    name = "log lost by kill -9 of the runtime" + (" and its recorder" if both else "")
    if None in lost:
        return Mark(name=name, value=None, unit="s", reference="the recorder's process was not found on this system")
    times = [value for value in lost if value is not None]
    spread = f"worst of {kills} at random times; median {float(np.median(times)):.3f} s"
    return Mark(name=name, value=max(times), unit="s", op="<=", mark=LOST, reference=spread)


def killed(made: Bundle, place: Path, after: float, *, both: bool) -> float | None:
    """Time between the last sample that was used and the last in the log [s], of a process killed `after` [s] of running."""
    place.mkdir()
    witness, log = place / "witness", place / "run.mcap"
    witness.write_bytes(struct.pack("<d", 0.0))
    words = [sys.executable, "-m", "surefoot.bench.jitter", str(made.folder), str(log), str(witness)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        while struct.unpack("<d", witness.read_bytes())[0] == 0.0:
            if process.poll() is not None:
                raise InputError(f"the process that was to be killed ended by itself with {process.returncode}")
            time.sleep(0.02)
        time.sleep(after)
        recorders = _children(process.pid) if both else [0]
        process.send_signal(signal.SIGKILL)
        for pid in recorders if both else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    if not recorders:
        return None
    time.sleep(0.5)  # the recorder, if alive, closes the log
    last = struct.unpack("<d", witness.read_bytes())[0]
    return last - float(read_log(log)["joint_pos"].t[-1])


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def main() -> None:
    """Run the process that is to be killed: BUNDLE LOG WITNESS."""
    bundle, log, witness = map(Path, sys.argv[1:4])
    deploy(bundle, Witness(witness), seconds=60.0, record=log, safety=stand_in.patient(stand_in.contract()), say=None)


if __name__ == "__main__":
    main()
