"""`surefoot train` and `surefoot evaluate`: a policy from a robot, and how well it does."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from surefoot.cli_words import Count, File, Folder, RobotName, answer, plain, say, table, tell
from surefoot.errors import InputError, choose

RunFolders = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
Grid = Annotated[list[str], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=LOW:HIGH:NUMBER")]


def train(
    robot: RobotName,
    /,
    *,
    run: Path,
    steps: Count = None,
    seed: int = 0,
    every: Count = None,
    until_passing: bool = True,
    task: str = "",
    rough: bool = False,
    scan: bool = False,
    engine: str = "cpu",
    randomize: Literal["own", "fixed", "widening", "adr", "doraemon", "cvar", "none"] = "own",
    redraw: tuple[str, ...] = (),
    redraw_every: float = 3.0,
    prior: File = None,
) -> int:
    """Train a robot at its task, with e drawn from its default Params at every reset; resumes.

    Args:
        robot: go2 or g1 walk as commanded, cartpole, qube and double_pendulum swing up, crazyflie hovers, hopper hops, so101 reaches.
        run: folder of the run; a run that was interrupted goes on from its last checkpoint.
        steps: most transitions; the robot's own number when left out.
        seed: of starts, commands, noise, e and networks.
        every: transitions between two judgements; 200 000, or 500 steps of every world on a GPU.
        until_passing: whether to stop as soon as it walks (on rough ground: as soon as 75 % of the worlds survive, 90 % with a scan), or
            nine of ten episodes succeed; without, it trains for all of its steps.
        task: where a robot has two: hover or track for crazyflie; its first one when left out.
        rough: on steps up to 8 cm and slopes up to 15 degrees, easy ground and small commands first.
        scan: on rough ground, let the policy see a height scan.
        engine: cpu, or cuda for a GPU (extra `gpu`), where go2 and g1 learn in thousands of worlds and g1 moves all its joints.
        randomize: how p(e) moves: as the robot's lesson has it (own), not at all, wider by success, bound by bound, as wide as
            success allows, towards the worst worlds; or none: the nominal e in every world, which takes no --prior.
        redraw: Params that also change within an episode, such as push or command_delay.
        redraw_every: mean time between two redraws of a world [s].
        prior: p(e) to draw from: a prior's file, or a fit, whose posterior it is; Params that it does not hold, and all when left out,
            are drawn as the robot file has them.
    """
    if (rough or scan) and (randomize != "own" or redraw or prior):
        raise InputError("rough ground has a schedule of its own: leave out --randomize, --redraw and --prior")
    if every is not None and every < 1:
        raise InputError(f"--every must be at least 1 transition between two judgements, got {every}")
    if prior and randomize == "none":
        raise InputError(
            f"--randomize none trains at the robot file's nominal e, which {prior} does not change: leave out one of the two"
        )
    from surefoot.learn.distributed import Alone, joined

    group = joined() or Alone()
    if rough or scan:
        return _train_rough(robot, run, steps, (seed, every), until_passing, scan, engine, group)
    from dataclasses import replace

    from surefoot.evaluate import walk
    from surefoot.learn.presets import PRESETS
    from surefoot.learn.walking import LESSONS, lesson_on, teach
    from surefoot.randomize import Redraw, schedule
    from surefoot.robots import load
    from surefoot.sim import Sim

    again = Redraw(redraw, redraw_every, seed=group.seed(seed)) if redraw else None
    choose(robot, [*LESSONS, *PRESETS], "a robot with a task")
    if robot not in LESSONS:
        if engine != "cpu":
            raise InputError(f"{robot} is too small a robot for a GPU: leave out --engine {engine}")
        return _train_small(
            robot, task, run, steps, (seed, every or EVERY), until_passing, (randomize, prior), again, group
        )
    if task not in ("", "velocity"):
        raise InputError(f"{robot} has one task, 'velocity', not {task!r}: leave out --task")
    lesson = lesson_on(engine, robot)
    lesson = replace(lesson, steps=lesson.steps if steps is None else steps)
    loaded = load(robot)
    sim = Sim(loaded, worlds=lesson.worlds, engine=engine, seed=group.seed(seed))
    judged = Sim(loaded, worlds=256, engine=engine, seed=999)
    every = every or (EVERY if engine == "cpu" else 500 * lesson.worlds)
    found, belief = [], _belief(prior, sim)

    def evaluate(policy) -> dict[str, float]:
        found.append(walk(lesson.task, judged, _there(policy, judged).play(), e=belief))
        tell(f"\n{found[-1]}")
        return {"survival": found[-1].survival, "speed_error": found[-1].speed_error, "walks": float(found[-1].walks)}

    stop = (lambda _record: bool(found) and found[-1].walks) if until_passing else None
    name, tuned = (lesson.randomize, lesson.moves) if randomize == "own" else (randomize, {})
    moves = schedule(name, belief, worlds=lesson.worlds * group.size, **tuned)
    done = teach(
        sim, lesson, run=run, seed=seed, evaluate=evaluate, every=every, stop=stop, say=tell, e=moves.prior, randomize=moves,
        redraw=again, group=group,
    )  # fmt: skip
    return _end(done, group)


EVERY = 200_000


def _belief(file: Path | None, sim: Any) -> Any:
    """p(e) of all Params: the robot file's, with what a file tells of some of them."""
    from surefoot.cli_recorded import belief_of

    found = belief_of(file, sim.robot)
    return sim.params.prior() if found is None else found.over(sim.params)


def _there(policy: Any, sim: Any) -> Any:
    """The policy on the device that the Sim's worlds are on."""
    device = getattr(sim, "device", None)
    return policy if device is None else type(policy).from_arrays(policy.to_arrays(), device=device)


def _end(done: Any, group: Any) -> int:
    """What is said after a training, once for all its processes."""
    if group.first:
        say(f"{done.steps} transitions, ended by {done.stopped or 'interrupt'}: {done.folder}")
    group.close()
    return 0


def _train_small(
    robot: str,
    task: str,
    run: Path,
    steps: int | None,
    numbers: tuple[int, int],
    until_passing: bool,
    drawn: tuple[str, Path | None],
    redraw: Any,
    group: Any,
) -> int:
    """`train` of a robot without legs.

    `numbers` are the seed and the transitions between two judgements, `drawn` how p(e) moves and the file it is read from.
    """
    from surefoot.evaluate import judge
    from surefoot.evaluate.runs import task_of
    from surefoot.learn import train as learn
    from surefoot.learn.mirror import mirror_of
    from surefoot.learn.presets import settings
    from surefoot.randomize import schedule
    from surefoot.sim import Sim
    from surefoot.tasks import World

    loaded, judged_task = task_of(robot, task)
    preset, (seed, every) = settings(robot), numbers
    sim, judged = Sim(loaded, worlds=preset.worlds, seed=group.seed(seed)), Sim(loaded, worlds=256, seed=999)
    (randomize, file), found = drawn, []
    belief = _belief(file, sim)
    moves = schedule("fixed" if randomize == "own" else randomize, belief, worlds=preset.worlds * group.size)

    def evaluate(policy) -> dict[str, float]:
        found.append(judge(judged_task, judged, policy.play(), e=belief.sample(judged.worlds, 999)))
        tell(f"\n{found[-1]}")
        return {name: value.value for name, value in found[-1].summary.items() if value.count}

    def passes(_record) -> bool:
        return bool(found) and found[-1].summary["success"].value >= 0.9

    world = World(preset.task(judged_task), sim, e=moves.prior, seed=group.seed(seed), redraw=redraw)
    done = learn(
        world, preset.ppo, run=run, mirror=mirror_of(world),
        steps=preset.steps if steps is None else steps, seed=seed, evaluate=evaluate, every=every,
        stop=passes if until_passing else None, say=tell,
        randomize=moves, group=group,
        about={"robot": robot, "task": task, "whole_prior": moves.prior == sim.params.prior()},
    )  # fmt: skip
    return _end(done, group)


def _train_rough(
    name: str,
    run: Path,
    steps: int | None,
    numbers: tuple[int, int | None],
    until_passing: bool,
    scan: bool,
    engine: str,
    group: Any,
) -> int:
    """`train` on rough ground; `numbers` are the seed and the transitions between two judgements."""
    from dataclasses import replace

    from surefoot.evaluate import rough_walk
    from surefoot.learn.walking import lesson_on, rough, teach
    from surefoot.randomize import Levels
    from surefoot.robots import load
    from surefoot.sim import Sim
    from surefoot.tasks import Commands

    made, (seed, every) = rough(load(name), scan=scan, lesson=lesson_on(engine, name)), numbers
    lesson = replace(made.lesson, steps=made.lesson.steps if steps is None else steps)
    sim = Sim(made.robot, made.params, worlds=lesson.worlds, engine=engine, seed=group.seed(seed))
    judged = Sim(made.robot, made.params, worlds=256, engine=engine, seed=999)
    every = every or (EVERY if engine == "cpu" else 500 * lesson.worlds)
    found, enough = [], 0.9 if scan else 0.75

    def evaluate(policy) -> dict[str, float]:
        found.append(rough_walk(lesson.task, judged, _there(policy, judged).play()))
        tell(f"\n{found[-1]}")
        return {"survival": found[-1].survival, "speed_error": found[-1].speed_error}

    stop = (lambda _record: bool(found) and found[-1].survival >= enough) if until_passing else None
    done = teach(
        sim, lesson, run=run, seed=seed, evaluate=evaluate, every=every, stop=stop, say=tell,
        randomize=Levels(sim.params.prior(), names=made.levels), commands=Commands(), group=group,
    )  # fmt: skip
    return _end(done, group)


def evaluate(
    runs: RunFolders,
    /,
    *,
    worlds: Count = None,
    seed: int = 1,
    grid: Grid = [],  # noqa: B006
    prior: File = None,
    wider: float = 1.0,
    nominal: bool = False,
    engine: str = "cpu",
    out: Folder = None,
    video: File = None,
    json: bool = False,
) -> int:
    """Judge policies in fresh worlds: success, falls, tracking error and energy with intervals; several are compared in the same worlds.

    Args:
        runs: folders of runs of one robot and task; differences are to the first.
        worlds: number of worlds (at each point of a grid); 512, or 128 with a grid or on physx.
        seed: of the worlds' noise, starts, commands and e.
        grid: NAME=LOW:HIGH:NUMBER or NAME=A,B,C, once for each Param: all combinations are judged, all else is the same at each.
        prior: .toml or .json file with the p(e) to draw from; uniform within the robot's Params when left out.
        wider: how many times as wide as the prior to draw.
        nominal: leave what the grid does not set at the robot's nominal values.
        engine: what steps the worlds: cpu, or physx, a simulator that the policy was not trained in.
        out: folder for page.html, evaluate.json, worlds.csv and width.svg.
        video: also film one world of the first run: .png (animated) or .mp4.
        json: print JSON.
    """
    from surefoot.evaluate import film
    from surefoot.evaluate.command import Question, ask
    from surefoot.evaluate.pages import write_all
    from surefoot.sim.render import check_video

    if video is not None:
        check_video(video)
    question = Question(
        runs=tuple(runs), worlds=worlds, seed=seed, grid=tuple(grid), prior=prior, wider=wider, nominal=nominal,
        engine=engine,
    )  # fmt: skip
    found = ask(question, say=tell if grid or len(runs) > 1 else None)
    data = plain(found.data)
    answer(data, lambda: found.text(table), json)
    if out is not None:
        files = write_all(out, found.survey, found.page(), data, found.ranges)
        tell(f"written: {', '.join(map(str, files))}")
    if video is not None:
        first = found.candidates[0]
        film(first.task, first.robot, first.policy.play(), video, seed=seed, engine=engine)
        tell(f"video: {video}")
    return 0
