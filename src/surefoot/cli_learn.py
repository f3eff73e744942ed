"""`surefoot train` and `surefoot evaluate`: a walking policy from a robot, and whether it walks."""

from pathlib import Path
from typing import Annotated

import tyro

from surefoot.cli_words import File, RobotName, answer, say, tell

RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]


def train(
    robot: RobotName,
    /,
    *,
    run: Path,
    steps: int | None = None,
    seed: int = 0,
    every: int = 200_000,
    until_walking: bool = True,
) -> int:
    """Train a legged robot to walk as commanded, with e drawn from its default Params at every reset; resumes.

    Args:
        robot: go2 or g1.
        run: folder of the run; a run that was interrupted goes on from its last checkpoint.
        steps: most transitions; the robot's own number when left out.
        seed: of starts, commands, noise, e and networks.
        every: transitions between two judgements.
        until_walking: stop as soon as it walks.
    """
    from dataclasses import replace

    from surefoot.errors import choose
    from surefoot.evaluate import walk
    from surefoot.learn.walking import LESSONS, teach
    from surefoot.robots import load
    from surefoot.sim import Sim

    lesson = LESSONS[choose(robot, LESSONS, "a robot with a walking lesson")]
    lesson = replace(lesson, steps=steps or lesson.steps)
    loaded = load(robot)
    sim, judged = Sim(loaded, worlds=lesson.worlds, seed=seed), Sim(loaded, worlds=256, seed=999)
    found = []

    def evaluate(policy) -> dict[str, float]:
        found.append(walk(lesson.task, judged, policy.play(), e=judged.params.prior()))
        tell(f"\n{found[-1]}")
        return {"survival": found[-1].survival, "speed_error": found[-1].speed_error, "walks": float(found[-1].walks)}

    stop = (lambda _record: bool(found) and found[-1].walks) if until_walking else None
    done = teach(sim, lesson, run=run, seed=seed, evaluate=evaluate, every=every, stop=stop, say=tell)
    say(f"{done.steps} transitions, ended by {done.stopped or 'interrupt'}: {run}")
    return 0


def evaluate(run: RunFolder, /, *, worlds: int = 512, seed: int = 1, video: File = None, json: bool = False) -> int:
    """Judge a walking policy in fresh worlds: survival with its interval, speed and turn error, duty factors, power.

    Args:
        run: folder of a run.
        worlds: number of fresh worlds, each with an e from the robot's prior.
        seed: of the worlds' noise, starts, commands and e.
        video: also film one world: .png (animated) or .mp4.
        json: print JSON.
    """
    from surefoot.errors import InputError, choose
    from surefoot.evaluate import film, walk, wilson
    from surefoot.learn import load_run
    from surefoot.learn.walking import LESSONS
    from surefoot.robots import load
    from surefoot.sim import Sim

    loaded = load_run(run)
    name = loaded.config["about"].get("robot")
    if name is None:
        raise InputError(f"{run} does not say which robot it is of: was it made by `surefoot train`?")
    lesson = LESSONS[choose(name, LESSONS, "a robot with a walking lesson")]
    sim = Sim(load(name), worlds=worlds, seed=seed)
    found = walk(lesson.task, sim, loaded.policy.play(), e=sim.params.prior(), seed=seed)
    low, high = wilson(int(found.survived.sum()), worlds)
    data = {
        "robot": name, "worlds": worlds, "seed": seed, "walks": found.walks, "survival": found.survival, "survival_90": [low, high],
        "speed_error": found.speed_error, "turn_error": found.turn_error, "duty": list(found.duty), "power": found.power,
    }  # fmt: skip
    answer(
        data,
        lambda: f"{found}\nsurvival between {100 * low:.1f} and {100 * high:.1f} % (90 % interval, {worlds} worlds)",
        json,
    )
    if video is not None:
        film(lesson.task, load(name), loaded.policy.play(), video, seed=seed)
        tell(f"video: {video}")
    return 0
