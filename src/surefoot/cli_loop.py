"""`surefoot loop`: the whole job on a stand-in robot, from a simulator to the ladder."""

from pathlib import Path
from typing import Annotated

import tyro

from surefoot.cli_words import Count, Seconds, answer, plain, tell

TwinName = Annotated[str, tyro.conf.arg(metavar="twin:NAME")]


def loop(
    *,
    robot: str,
    hardware: TwinName,
    out: Path,
    task: str = "",
    quick: bool = False,
    steps: Count = None,
    more: Count = None,
    explore: Seconds = None,
    trials: Count = None,
    seed: int = 0,
    json: bool = False,
) -> int:
    """Train, deploy, measure the gap, excite, identify, retrain and deploy again; print how far each rung of the ladder got.

    An interrupted loop goes on where it stopped; a step whose inputs have not changed is not done again.

    Args:
        robot: qube or go2.
        hardware: the stand-in robot: twin:qube/06-nasty or twin:FILE.toml.
        out: folder for everything: rungs/, robot/, steps/, fit.json, ladder.json, ladder.svg, report.html.
        task: the robot's own when left out.
        quick: less training and fewer trials.
        steps: most transitions of a training from nothing.
        more: transitions of a training that starts from another policy.
        explore: seconds of designed motion.
        trials: judged runs of every rung, for each command.
        seed: of trainings, design and fit.
        json: print the ladder as JSON.
    """
    from surefoot.loop import loop_of, run_loop

    given = {"steps": steps, "more": more, "explore": explore, "trials": trials}
    made = loop_of(
        robot, hardware, task=task, quick=quick, seed=seed, **{k: v for k, v in given.items() if v is not None}
    )
    ladder = run_loop(made, out, say=tell)
    answer(plain(ladder.to_dict()), lambda: str(ladder), json)
    tell(f"report: {out / 'report.html'}")
    return 0
