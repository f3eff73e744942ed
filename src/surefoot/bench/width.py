"""`surefoot bench learn-width`: how wide to randomize: four widths of one parameter, randomized against not, the price of robustness."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.bench.cases import folder, package_hash, work
from surefoot.bench.table import Mark, Request, Result
from surefoot.evaluate.price import Price, price
from surefoot.evaluate.runs import task_of
from surefoot.evaluate.survey import Survey, survey
from surefoot.evaluate.width import Width, width
from surefoot.learn import train
from surefoot.learn.presets import settings
from surefoot.learn.runs import Run
from surefoot.learn.walking import LESSONS, teach
from surefoot.params import LogUniform, Param, Params, Point, Prior, Uniform
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.tasks import World

Range = tuple[float, float]
ROBOT = "hopper"
BROAD = 1.5
"""Width of the p(e) that the randomized policy is trained on, relative to the robot file's, which the hopper masters without any."""
WIDER, UNSEEN = 1.3, 100
"""How much wider than in training p(e) is, and in how many worlds, when randomized is compared with not."""
DRAWS, AT_A_DRAW = 4, 64
"""Specialists of the price of robustness, and worlds judged at the e of each."""
WALKER, WALKER_STEPS = "go2", 2_000_000
"""Who is trained with and without randomization, and for how many transitions."""
PRICED_STEPS = 1_000_000
"""Transitions of each training of the price of robustness."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One width experiment: the parameter and the four ranges; all else is nominal."""

    robot: str
    param: str
    centre: float
    narrow: Range
    medium: Range
    wide: Range
    steps: int
    """Transitions of each training."""
    actor: tuple[str, ...] = ("policy",)
    """What the policy sees; without its history it cannot tell one value of the parameter from another."""
    threads: int = 0
    worlds: int = 128
    """Judged at each value."""
    seed: int = 1
    """Of the judgement."""

    @property
    def ranges(self) -> dict[str, Range]:
        """By policy, what it is trained on."""
        return {"none": (self.centre, self.centre), "narrow": self.narrow, "medium": self.medium, "too wide": self.wide}

    @property
    def values(self) -> np.ndarray:
        """What is judged: the medium range in four steps, its surroundings, and the centre, (points,)."""
        low, high = self.medium
        beyond = [max(self.wide[0], low - 0.25 * (high - low)), min(self.wide[1], high + 0.25 * (high - low))]
        return np.unique(np.round([*np.linspace(low, high, 5), *beyond, self.centre], 9))

    def params(self) -> Params:
        """The one Param, one value for all it acts on, with bounds that hold every range."""
        robot, _ = task_of(self.robot)
        param: Param = robot.params[self.param]
        ends = [*self.wide, *self.medium, param.low, param.high]
        return Params(**{self.param: param.replace(low=min(ends), high=max(ends), nominal=self.centre, each=False)})

    def sim(self, worlds: int, seed: int) -> Sim:
        """Worlds where this Param alone can move."""
        return Sim(task_of(self.robot)[0], self.params(), worlds=worlds, threads=self.threads, seed=seed)

    def prior(self, sim: Sim, low: float, high: float) -> Prior:
        """Uniform in low .. high, on the Param's own scale; a point where they are equal."""
        if low == high:
            belief: Any = Point(value=low)
        else:
            belief = (LogUniform if sim.params[self.param].scale == "log" else Uniform)(low=low, high=high)
        return sim.params.prior().replace({self.param: belief})

    def judged(self, players: Mapping[str, Any], *, values: Any = None) -> Width:
        """The policies over the parameter."""
        task = task_of(self.robot)[1]
        return width(
            task, self.sim(self.worlds, self.seed), players, param=self.param, values=self.values if values is None else values,
            ranges={name: self.ranges[name] for name in players}, seed=self.seed,
        )  # fmt: skip


PLAN = Plan(
    robot="hopper", param="torso_com", centre=0.0, narrow=(-0.01, 0.01), medium=(-0.2, 0.2), wide=(-0.8, 0.8),
    steps=settings("hopper").steps,
)  # fmt: skip
"""Where the torso's centre of mass lies, forward of the hip [m]; at 0.8 no policy can hop."""


def taught(plan: Plan, name: str, run: Path, *, seed: int = 0) -> Run:
    """Train one of the plan's policies in the folder `run`; goes on where it was interrupted."""
    low, high = plan.ranges[name]
    sim = plan.sim(settings(plan.robot).worlds, seed)
    return _train(
        plan.robot, sim, plan.prior(sim, low, high), run, plan.steps, seed, plan.actor, {plan.param: (low, high)}
    )


def _train(
    robot: str,
    sim: Sim,
    prior: Prior,
    run: Path,
    steps: int,
    seed: int,
    actor: tuple[str, ...] | None = None,
    ranges: Mapping[str, Range] | None = None,
) -> Run:
    preset, task = settings(robot), task_of(robot)[1]
    ppo = preset.ppo if actor is None else replace(preset.ppo, actor=actor)
    about = {"robot": robot, "ranges": {k: list(v) for k, v in (ranges or {}).items()}}
    world = World(preset.task(task), sim, e=prior, seed=seed)
    return train(world, ppo, run=run, steps=steps, seed=seed, about=about, say=lambda _line: None)


# -------------------------------------------------------------------- the bench


def measure(request: Request) -> Result:
    """Train and compare, seed by seed; trainings go on where an interrupted bench left them."""
    start = time.perf_counter()
    root = folder() / f"width-runs-{package_hash()[:16]}"
    if request.fresh:
        shutil.rmtree(root, ignore_errors=True)
    cases: dict[str, Any] = {}
    for seed in range(request.seeds or 1):
        at = root / f"seed{seed}"
        for name in PLAN.ranges:
            cases[f"train {name}, seed {seed}"] = lambda name=name, at=at, seed=seed: timed(name, at, seed)
        cases[f"width, seed {seed}"] = lambda at=at, seed=seed: widths(at, seed)
        cases[f"randomized against not, seed {seed}"] = lambda at=at, seed=seed: unseen(at, seed)
        if not request.quick:
            cases[f"price of robustness, seed {seed}"] = lambda at=at, seed=seed: prices(at, seed)
    found = work("learn-width", cases, request)
    shutil.rmtree(root, ignore_errors=True)
    marks = (*summary(found), *found)
    return Result(bench="learn-width", marks=marks, seed=0, seconds=time.perf_counter() - start, quick=request.quick)


def timed(name: str, at: Path, seed: int) -> list[Mark]:
    """One training of the plan and how long it took, by its own clock: an interrupted one counts whole."""
    seconds = float(taught(PLAN, name, at / name, seed=seed).history()[-1]["seconds"])
    return [
        Mark(name=f"seed {seed}: training of {name}", value=seconds, unit="s", reference=f"{PLAN.steps} transitions")
    ]


def widths(at: Path, seed: int) -> list[Mark]:
    """The four policies over the parameter, world by world the same."""
    found = PLAN.judged({name: taught(PLAN, name, at / name, seed=seed).policy.play for name in PLAN.ranges})
    rows = [
        Mark(
            name=f"seed {seed}: success of {name} over {PLAN.param}", value=100 * found.at(name, PLAN.centre).value, unit="%",
            reference=f"at {PLAN.centre:g}; " + ", ".join(f"{v:g}: {100 * found.at(name, v).value:.0f} %" for v in found.values),
        )
        for name in PLAN.ranges
    ]  # fmt: skip
    return rows + [_row(seed, what, *value) for what, value in verdicts(found, PLAN).items()]


FALLS = "narrow: success at its centre less that at the worse end of the medium range"
KEEPS = "medium: least success over its range"
BEST = "narrow at its centre: return above the better of the two wider ones"
WORSE = "too wide at the centre: return below the narrow one, low end of the interval"
MORE = "randomized - not, unseen worlds"
UNITS = {FALLS: "points", KEEPS: "%", BEST: "1", WORSE: "1", MORE: "points"}
LEAST = {FALLS: 30.0, KEEPS: 90.0, BEST: 0.0, WORSE: 0.01, MORE: 30.0}
"""What each must reach."""


def verdicts(found: Width, plan: Plan) -> dict[str, tuple[float, str]]:
    """What the width experiment must show: shares of success in %, returns as they are, and how sure each is.

    At the centre all of them may succeed; the return still tells them apart.
    """
    centre, (low, high) = plan.centre, plan.medium
    ends = min((found.at("narrow", v) for v in (low, high)), key=lambda f: f.value)
    least = found.least("medium", low, high)
    above = {other: found.difference("narrow", other, centre, "score") for other in ("medium", "too wide")}
    shares = found.difference("narrow", "too wide", centre)
    fall = found.at("narrow", centre).value - ends.value
    closest = min(above, key=lambda other: above[other].value)
    return {
        FALLS: (100 * fall, f"success at the worse end {ends.show(100)} %"),
        KEEPS: (100 * least.value, f"interval {100 * least.low:.1f} .. {100 * least.high:.1f} %"),
        BEST: (above[closest].value, f"above {closest} by {above[closest].show()}, world by world"),
        WORSE: (above["too wide"].low, f"by {above['too wide'].show()}; success by {shares.show(100)} points"),
    }


def unseen(at: Path, seed: int) -> list[Mark]:
    """Trained on p(e) and on the nominal e alone, in worlds from a p(e) that is wider than training."""
    robot, lesson = load(WALKER), replace(LESSONS[WALKER], steps=WALKER_STEPS)
    prior = Sim(robot).params.prior()
    wider = prior.widen(WIDER)
    players = {}
    for name, e in {"randomized": prior, "not": nominal(prior)}.items():
        sim = Sim(robot, worlds=lesson.worlds, threads=PLAN.threads, seed=seed)
        run = teach(sim, lesson, run=at / f"{WALKER}, {name}", seed=seed, e=e, say=lambda _line: None)
        players[name] = run.policy.play
    judged = Sim(robot, wider.params, worlds=UNSEEN, threads=PLAN.threads)
    found: Survey = survey(lesson.task, judged, players, e=wider, seed=PLAN.seed)
    gain = found.difference("randomized", "not")
    rows = []
    for name in players:
        share = found.estimate(name)
        said = f"success {share.show(100)} % in {UNSEEN} worlds"
        rows.append(Mark(name=f"seed {seed}: {name}, unseen worlds", value=100 * share.value, unit="%", reference=said))
    return [*rows, _row(seed, MORE, 100 * gain.value, f"{gain.show(100)} points, world by world")]


def nominal(prior: Prior) -> Prior:
    """The prior of one who believes the robot's file: every Param at its nominal value."""
    labels, values = prior.params.names, prior.params.flatten(prior.params.nominal_e(1))[0]
    return prior.replace({label: Point(value=float(v)) for label, v in zip(labels, values, strict=True)})


def prices(at: Path, seed: int) -> list[Mark]:
    """Specialists at draws of e against the randomized policy there."""
    robot, task = task_of(ROBOT)
    prior = Sim(robot).params.prior().widen(BROAD)
    e = prior.sample(DRAWS, 100 + seed)
    table = prior.params.flatten(e)
    specialists = []
    for k, row in enumerate(table):
        there = prior.replace({n: Point(value=float(v)) for n, v in zip(prior.params.names, row, strict=True)})
        sim = Sim(robot, prior.params, worlds=settings(ROBOT).worlds, threads=PLAN.threads, seed=seed)
        specialists.append(_train(ROBOT, sim, there, at / f"specialist{k}", PRICED_STEPS, seed).policy.play)
    sim = Sim(robot, prior.params, worlds=settings(ROBOT).worlds, threads=PLAN.threads, seed=seed)
    robust = _train(ROBOT, sim, prior, at / "randomized", PRICED_STEPS, seed).policy.play
    found: Price = price(
        task, Sim(robot, prior.params, worlds=AT_A_DRAW, threads=PLAN.threads), robust, specialists, e=e, seed=PLAN.seed
    )
    score, success = found.price(), found.price("success")
    said = (
        f"{DRAWS} specialists, {AT_A_DRAW} worlds each: J* {found.score[0].mean():.3g}, J {found.score[1].mean():.3g}"
    )
    return [
        Mark(name=f"seed {seed}: price of robustness, return", value=score.value, unit="1", reference=f"{score.show()}; {said}"),
        Mark(name=f"seed {seed}: price of robustness, success", value=100 * success.value, unit="points", reference=success.show(100)),
    ]  # fmt: skip


def _row(seed: int, what: str, value: float, said: str) -> Mark:
    return Mark(name=f"seed {seed}: {what}", value=value, unit=UNITS[what], reference=said)


def summary(found: list[Mark]) -> list[Mark]:
    """Medians over the seeds beside their marks."""
    out = []
    for what, least in LEAST.items():
        values = [m.value for m in found if m.name.endswith(f": {what}") and m.value is not None]
        if not values:
            continue
        where = f"{PLAN.robot}, {PLAN.param} {PLAN.medium[0]:g} .. {PLAN.medium[1]:g}, {PLAN.worlds} worlds a value"
        about = f"{WALKER}, {UNSEEN} worlds, its own p(e) widened {WIDER} times" if what == MORE else where
        said = f"{about}; by seed: {', '.join(f'{v:.3g}' for v in values)}"
        middle = float(np.median(values))
        out.append(Mark(name=what, value=middle, unit=UNITS[what], op=">=", mark=least, reference=said))
    return out
