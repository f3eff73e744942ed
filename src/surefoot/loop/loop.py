"""The whole job: train, export, verify, deploy, measure the gap, excite, identify, retrain, deploy again; judged as a ladder.

    loop = loop_of("qube", "twin:qube/06-nasty")
    ladder = run_loop(loop, "out/loop")
    print(ladder)

Every step is a function of its own (see `train_rung`, `export_rung`, `deploy_rung`, `gap_of`, `design_motion`, `play_motion`,
`identify_robot`, `choose_policy`, `judge_rung`) that writes plain files into the folder; one that was finished with the same inputs is
not done again.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from surefoot.loop.aside import Asides
from surefoot.loop.choice import choose_policy
from surefoot.loop.folder import Folder
from surefoot.loop.judging import judge_rung
from surefoot.loop.ladder import Ladder, ladder_of, write_ladder
from surefoot.loop.on_robot import deploy_rung, design_motion, gap_of, identify_robot, play_motion
from surefoot.loop.settings import FIRST, Loop
from surefoot.loop.training import export_rung, train_rung
from surefoot.loop.truth import open_truth

Say = Callable[[str], None]


def run_loop(loop: Loop, out: str | Path, *, say: Say = lambda _line: None) -> Ladder:
    """Run a loop in the folder `out`, or what of it is not done yet, and write its ladder there."""
    folder = Folder(out, say)
    with Asides(loop, folder, say, judge=True) as aside:
        aside.begin()
        for rung in loop.rungs:
            if rung.name in aside:
                continue
            if rung.e == "posterior":
                learn_from_robot(loop, folder, say)
            if rung.e == "truth":
                open_truth(loop, folder)
            train_rung(loop, folder, rung, say)
            aside.begin(rung.name)
            if rung.judged:
                export_rung(loop, folder, rung, say)
            if rung.e == "posterior":
                deploy_rung(loop, folder, rung, say)
                gap_of(loop, folder, rung, say)
                choose_policy(loop, folder, rung, say)
    for rung in loop.rungs:
        if rung.judged and rung.name not in aside:
            judge_rung(loop, folder, rung, say)
    ladder = ladder_of(loop, folder)
    write_ladder(ladder, folder)
    return ladder


def prepare_loop(loop: Loop, out: str | Path, *, say: Say = lambda _line: None) -> Path:
    """Do what of a loop depends on no robot: the first rungs and the design; loops on other stand-ins may begin with a copy of it."""
    folder = Folder(out, say)
    with Asides(loop, folder, say, judge=False) as aside:
        aside.begin()
        for rung in loop.rungs:
            if rung.e in ("nominal", "randomized") and rung.name not in aside:
                train_rung(loop, folder, rung, say)
                if rung.judged:
                    export_rung(loop, folder, rung, say)
        if loop.kit.explore:
            design_motion(loop, folder, say)
    return folder.path


def begin_with(prepared: str | Path, out: str | Path) -> None:
    """Copy a prepared folder to `out`, unless something is there already; what does not fit the loop's settings is done anew."""
    if not (Path(out) / "steps").is_dir():
        shutil.copytree(prepared, out, dirs_exist_ok=True)


def learn_from_robot(loop: Loop, folder: Folder, say: Say) -> None:
    """The first policy on the robot, the gap, a designed motion, the fit."""
    first = loop.rung(FIRST)
    deploy_rung(loop, folder, first, say)
    gap_of(loop, folder, first, say)
    if loop.kit.explore:
        design_motion(loop, folder, say)
        play_motion(loop, folder, say)
    identify_robot(loop, folder, first, say)
