"""Whether a policy did its task on a stand-in robot, by the referee's file; none of these runs teaches anything.

swing-up   success: upright (cos of the tilt > 0.95) for more than 90 % of the second half;  error: mean tilt over that half [rad]
walking    success: neither fallen nor stopped, mean velocity after 2 s off by at most 0.2 m/s and 0.25 rad/s;  error: of it [m/s]
"""

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.hardware.referee import Truth, read_truth
from surefoot.loop.choice import kept_by
from surefoot.loop.folder import Folder
from surefoot.loop.settings import SPEED, TURN, UPRIGHT, Loop, Rung
from surefoot.loop.training import stamp

SETTLED = 2.0
"""[s] of walking that do not count."""
ROUNDING = 0.05
"""[s] By which a run may be shorter than asked and still be whole; what happens afterwards, as it sits down, is not the policy's."""
LOST = {"swing_up": float(np.pi), "velocity": 1.0}
"""Error of a run that ended early or is further off: as bad as it gets."""
UNITS = {"swing_up": "rad", "velocity": "m/s"}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run on the stand-in robot."""

    success: bool
    error: float
    ended: str
    lasted: float  # [s]
    reason: str = ""
    """Why it ended early; empty where it did not."""
    trace: str = ""
    """Hash of how the joints moved: runs with the same one are one run."""


def swung_up(truth: Truth, start: float, lasted: float, seconds: float) -> tuple[bool, float]:
    """Success and mean tilt [rad] of a swing-up that began at `start`."""
    second = truth.after(start + seconds / 2, start + seconds)
    if lasted < seconds - ROUNDING or not second.any():
        return False, LOST["swing_up"]
    joints = list(truth.about["joints"])
    angle = truth.joint_pos[second][:, joints.index("pendulum")]
    tilt = np.arccos(np.clip(-np.cos(angle), -1.0, 1.0))
    return bool((np.cos(tilt) > UPRIGHT).mean() > 0.9), float(tilt.mean())


def walked(truth: Truth, start: float, lasted: float, seconds: float, asked: Mapping[str, float]) -> tuple[bool, float]:
    """Success and error of the mean velocity [m/s] of a walk that began at `start`."""
    driven, late = truth.after(start, start + lasted), truth.after(start + SETTLED, start + lasted)
    if lasted < seconds - ROUNDING or truth.fallen()[driven].any() or not late.any():
        return False, LOST["velocity"]
    w, x, y, z = truth.quat[late].T
    yaw = np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))
    vx, vy = truth.base_vel_world[late, 0], truth.base_vel_world[late, 1]
    ahead, aside = np.cos(yaw) * vx + np.sin(yaw) * vy, np.cos(yaw) * vy - np.sin(yaw) * vx
    error = float(np.hypot(ahead.mean() - asked.get("vx", 0.0), aside.mean() - asked.get("vy", 0.0)))
    turn = abs(float(truth.gyro[late, 2].mean()) - asked.get("yaw_rate", 0.0))
    return error <= SPEED and turn <= TURN, min(error, LOST["velocity"])


def trial(loop: Loop, bundle: Path, asked: Mapping[str, float], seed: int) -> Trial:
    """One judged run of a bundle in lockstep, with noise and disturbances of its own seed."""
    from surefoot.deploy.runtime import deploy
    from surefoot.hardware.connect import connect

    seconds = loop.kit.judged
    with tempfile.TemporaryDirectory() as there:
        referee = Path(there) / "truth.npz"
        hardware = connect(loop.hardware, lockstep=True, seed=seed, referee=referee)
        try:
            outcome = deploy(bundle, hardware, seconds=seconds, command=dict(asked), say=None)
        finally:
            hardware.close()
        start, truth = float(dict(outcome.stages).get("policy", np.inf)), read_truth(referee)
    if loop.kit.task == "swing_up":
        success, error = swung_up(truth, start, outcome.seconds, seconds)
    else:
        success, error = walked(truth, start, outcome.seconds, seconds, asked)
    early = outcome.seconds < seconds - ROUNDING
    reason = next((e.partition(": ")[2] for e in outcome.events), outcome.reason) if early else ""
    trace = hashlib.sha256(truth.joint_pos.tobytes()).hexdigest()[:16]
    return Trial(success=success, error=error, ended=outcome.ended, lasted=outcome.seconds, reason=reason, trace=trace)


def distinct(runs: Sequence[Trial]) -> list[Trial]:
    """The runs without exact repetitions: a stand-in without noise repeats itself bit for bit, and that is no further evidence."""
    return list({r.trace: r for r in runs}.values())


def ended_words(runs: Sequence[Trial]) -> str:
    """How many runs ended early and why, in words; empty where none did."""
    early = [r.reason for r in runs if r.reason]
    return f"{len(early)} of {len(runs)} runs ended early: {'; '.join(dict.fromkeys(early))}" if early else ""


def judge_rung(
    loop: Loop, folder: Folder, rung: Rung, say: Callable[[str], None] = lambda _line: None
) -> dict[str, Any]:
    """Judge a rung on the stand-in robot, by the policy that stands for it: {"trials": [...], "success", "error": [value, low, high]}."""
    kept = kept_by(folder, rung)
    chosen = [f"choose {rung.name}"] if folder.record(f"choose {rung.name}") else []
    return _judged(loop, folder, f"judge {rung.name}", kept, [f"export {kept}", *chosen], rung.title, say)


def judge_itself(
    loop: Loop, folder: Folder, rung: Rung, say: Callable[[str], None] = lambda _line: None
) -> dict[str, Any]:
    """The same of a rung's own policy, whichever stands for it."""
    if kept_by(folder, rung) == rung.name:
        return judge_rung(loop, folder, rung, say)
    name = f"judge {rung.name} itself"
    return _judged(loop, folder, name, rung.name, [f"export {rung.name}"], f"{rung.title}, by itself", say)


def _judged(
    loop: Loop, folder: Folder, name: str, policy: str, after: list[str], title: str, say: Callable[[str], None]
) -> dict[str, Any]:
    from surefoot.evaluate import mean, share

    kit = loop.kit

    def work(_again: bool) -> dict[str, Any]:
        bundle = folder / f"rungs/{policy}/bundle"
        runs = [trial(loop, bundle, asked, 1000 + k) for k in range(kit.trials) for asked in kit.asked]
        counted = distinct(runs)
        success, error = share([r.success for r in counted]), mean([r.error for r in counted])
        say(f"{title}: success {success.show(100)} %, error {error.show()} {UNITS[kit.task]}")
        words = {"distinct": len(counted), "note": ended_words(runs)}
        return words | {"trials": [vars(r) for r in runs], "success": success.to_list(), "error": error.to_list()}

    inputs = {
        "hardware": loop.hardware,
        "reality": stamp(loop.reality),
        "trials": kit.trials,
        "judged": kit.judged,
        "asked": kit.asked,
    }
    return folder.step(name, inputs, work, after=after)
