"""Which policy the robot keeps: the retrained one, unless its own run on the robot went worse than that of the policy before.

    swing-up   how it went: share of the second half of the run in which the pendulum's encoder says upright; 0 for a run that was stopped
    walking    how it went: share of its time that the policy drove before the robot was stopped

A training may end with a policy that is narrower than the robot is strange. One run on the robot, which the loop makes anyway, tells the
worst of them; nothing but the robot's own readings is used.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from surefoot.loop.folder import Folder
from surefoot.loop.settings import FIRST, Loop, Rung

Say = Callable[[str], None]
WORSE = 0.05
"""Difference of two runs that counts."""
UPRIGHT = 0.95
"""Cosine of the tilt from which a pendulum stands upright."""


def went(loop: Loop, folder: Folder, rung: Rung) -> float:
    """How a rung's run on the robot went, from 0 to 1."""
    from surefoot.deploy.trajectory import read_played

    found, seconds = folder.result(f"deploy {rung.name}"), loop.kit.seconds
    driven = min(float(found["outcome"]["seconds"]) / seconds, 1.0)
    if loop.kit.task != "swing_up":
        return driven
    if found["outcome"]["ended"] != "finished":
        return 0.0
    angle = read_played(folder / found["log"])["joint_pos"]
    late = angle.t >= angle.t[0] + seconds / 2
    return float((-np.cos(angle.column("pendulum")[late]) > UPRIGHT).mean()) if late.any() else 0.0


def choose_policy(loop: Loop, folder: Folder, rung: Rung, say: Say = lambda _line: None) -> dict[str, Any]:
    """Keep the retrained policy of a rung or the first one: {"kept": name of a rung, "first", "retrained": how they went, "note"}."""
    first = loop.rung(FIRST)

    def work(_again: bool) -> dict[str, Any]:
        before, after = went(loop, folder, first), went(loop, folder, rung)
        kept = first if after < before - WORSE else rung
        what = "upright for" if loop.kit.task == "swing_up" else "driving for"
        note = f"its run on the robot went worse ({what} {100 * after:.0f} %, before {100 * before:.0f} %): the policy before was kept"
        say(
            f"{rung.title} on the robot: {what} {100 * after:.0f} % of its run, before {100 * before:.0f} %; kept: {kept.title}"
        )
        return {"kept": kept.name, "first": before, "retrained": after, "note": note if kept is first else ""}

    return folder.step(
        f"choose {rung.name}", {"worse": WORSE}, work, after=[f"deploy {first.name}", f"deploy {rung.name}"]
    )


def kept_by(folder: Folder, rung: Rung) -> str:
    """Name of the rung whose policy stands for this one: its own, where nothing was chosen."""
    return str(folder.record(f"choose {rung.name}").get("result", {}).get("kept", rung.name))
