"""Which policy the robot keeps: the retrained one, unless its own runs on the robot went worse than that of the policy before.

    swing-up   share   of the second half of the run in which the pendulum's encoder says upright; 0 for a run that was stopped
               off     |angle − its mean while upright|, over the tilt that still counts as upright
    walking    share   of its time that the policy drove before the robot was stopped
               off     error of speed and of turning, by the robot's own legs, over what still counts as success

    d_k = off_k(after) − off_k(before)        worse: mean d > t s_d / √K, for K parts of the runs at the same times

A training may end with a policy that is narrower than the robot is strange, or with one that simply came out worse. Runs on the robot tell:
the one of the first policy, which taught the fit, and two of the retrained one, of which the worse share counts, since a policy that
fails in some of its runs looks well in one. Nothing but the robot's own readings is used. A balanced pendulum is upright on average, so an
encoder's zero does not count.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from surefoot.logs import Log
from surefoot.loop.folder import Folder
from surefoot.loop.on_robot import runs_of
from surefoot.loop.settings import FIRST, SPEED, TURN, UPRIGHT, Loop, Rung

if TYPE_CHECKING:
    from surefoot.deploy.odometry import Walk

Say = Callable[[str], None]
WORSE = 0.05
"""Difference of two shares that counts."""
SURE = 0.95
"""Where the shares are alike: how sure it must be, by how parts of the runs scatter, that one was off by more (Student's t)."""
PART = 0.5
"""[s] Length of a part."""


@dataclass(frozen=True, kw_only=True)
class Went:
    """How a run on the robot went."""

    share: float
    """Of it that went well, 0 .. 1."""
    parts: tuple[float, ...] = ()
    """How far off each part was, as a share of what still counts as success [1]; none where the readings do not tell."""

    @property
    def off(self) -> float | None:
        """Mean over the parts."""
        return float(np.mean(self.parts)) if self.parts else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"share": self.share, "off": self.off, "parts": list(self.parts)}


def went(loop: Loop, folder: Folder, rung: Rung) -> Went:
    """How a rung's runs on the robot went, by their recordings: the worst share, and the parts' means over the runs."""
    runs = [_went(loop, folder, rung, folder.result(name)) for name in runs_of(rung)]
    same = all(run.parts for run in runs) and len({len(run.parts) for run in runs}) == 1
    parts = np.mean([run.parts for run in runs], axis=0).tolist() if same else ()
    return Went(share=min(run.share for run in runs), parts=tuple(parts))


def _went(loop: Loop, folder: Folder, rung: Rung, found: Mapping[str, Any]) -> Went:
    from surefoot.deploy.trajectory import read_played

    seconds, log = loop.kit.seconds, folder / found["log"]
    if loop.kit.task == "swing_up":
        return stood(read_played(log), seconds) if found["outcome"]["ended"] == "finished" else Went(share=0.0)
    driven = min(float(found["outcome"]["seconds"]) / seconds, 1.0)
    whole = driven >= 1.0 - WORSE
    return Went(share=driven, parts=strayed(loop, folder, rung, log) if whole else ())


def stood(log: Log, seconds: float) -> Went:
    """How a swing-up of `seconds` went that nothing stopped."""
    angle = log["joint_pos"]
    late = angle.t >= angle.t[0] + seconds / 2
    t, y = angle.t[late], angle.column("pendulum")[late]
    upright = -np.cos(y) > UPRIGHT
    if not upright.any():
        return Went(share=0.0)
    tilt = np.mod(y, 2 * np.pi)  # upright is π, whatever turns it took
    off = np.abs(tilt - tilt[upright].mean()) / float(np.arccos(UPRIGHT))
    number = ((t - t[0]) / PART).astype(int)
    parts = [float(off[here].mean()) for k in range(round(seconds / 2 / PART)) if (here := number == k).any()]
    return Went(share=float(upright.mean()), parts=tuple(parts))


def strayed(loop: Loop, folder: Folder, rung: Rung, recorded: Path) -> tuple[float, ...]:
    """How far a recorded walk of a rung's policy was from the commands, by the legs; the first half of each command's time is left out."""
    from surefoot.deploy.bundle import load_bundle
    from surefoot.deploy.odometry import walk_of
    from surefoot.deploy.recorded_run import Run
    from surefoot.deploy.trajectory import read_played
    from surefoot.robots import load

    log = read_played(recorded)
    walk = walk_of(Run(load_bundle(folder / f"rungs/{rung.name}/bundle").contract, log), load(loop.robot))
    return () if walk is None else off_asked(walk, loop.kit.asked, float(log["action"].t[0]), loop.kit.seconds)


def off_asked(walk: "Walk", asked: Sequence[Mapping[str, float]], begin: float, seconds: float) -> tuple[float, ...]:
    """Errors in shares of what is allowed, a part each of the commands' second halves; each is asked for its share of `seconds`.

    The policy's time begins at `begin` [s]. Nothing where the legs were silent in some part: two runs are compared part by part.
    """
    each, errors = seconds / len(asked), []
    parts = max(round(each / 2 / PART), 1)
    for k, one in enumerate(asked):
        edges = begin + each * (k + 0.5 + 0.5 * np.arange(parts + 1) / parts)
        for a, b in pairwise(edges.tolist()):
            found = walk.mean(a, b)
            if found is None:
                return ()
            vx, vy, turn = found
            speed = float(np.hypot(vx - one.get("vx", 0.0), vy - one.get("vy", 0.0)))
            errors.append(max(speed / SPEED, abs(turn - one.get("yaw_rate", 0.0)) / TURN))
    return tuple(errors)


def worse(after: Went, before: Went) -> bool:
    """Whether a run went worse than another by more than its parts scatter."""
    if abs(after.share - before.share) > WORSE:
        return after.share < before.share
    count = len(after.parts)
    if count < 2 or count != len(before.parts):
        return False
    d = np.subtract(after.parts, before.parts)
    return bool(d.mean() > student.ppf(SURE, count - 1) * d.std(ddof=1) / np.sqrt(count))


def choose_policy(loop: Loop, folder: Folder, rung: Rung, say: Say = lambda _line: None) -> dict[str, Any]:
    """Keep the retrained policy of a rung or the first one: {"kept": name of a rung, "first", "retrained": how they went, "note"}."""
    first = loop.rung(FIRST)

    def work(_again: bool) -> dict[str, Any]:
        before, after = went(loop, folder, first), went(loop, folder, rung)
        kept = first if worse(after, before) else rung
        told = f"{in_words(loop, after)}, before {in_words(loop, before)}"
        note = f"its runs on the robot went worse ({told}): the policy before was kept" if kept is first else ""
        say(f"{rung.title} on the robot: {told}; kept: {kept.title}")
        return {"kept": kept.name, "first": before.to_dict(), "retrained": after.to_dict(), "note": note}

    settings = {"worse": WORSE, "sure": SURE, "part": PART}
    return folder.step(f"choose {rung.name}", settings, work, after=[*runs_of(first), *runs_of(rung)])


def in_words(loop: Loop, found: Went) -> str:
    """How a run went, for people."""
    swinging = loop.kit.task == "swing_up"
    share = f"{'upright' if swinging else 'driving'} for {100 * found.share:.0f} %"
    if found.off is None:
        return share
    if swinging:
        return f"{share} and off by {found.off * np.arccos(UPRIGHT):.4f} rad"
    return f"{share} and off by {100 * found.off:.0f} % of what is allowed"


def kept_by(folder: Folder, rung: Rung) -> str:
    """Name of the rung whose policy stands for this one: its own, where nothing was chosen."""
    return str(folder.record(f"choose {rung.name}").get("result", {}).get("kept", rung.name))
