"""What `surefoot evaluate` does: runs, a sample or a grid of e, and the answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.evaluate.intervals import wilson
from surefoot.evaluate.pages import page_of
from surefoot.evaluate.runs import Candidate, candidate, same_task
from surefoot.evaluate.survey import Survey, parse_grid, survey
from surefoot.evaluate.walking import MEASURES, Walk
from surefoot.params import Params, Prior
from surefoot.report import Page
from surefoot.robots import Robot
from surefoot.sim import Sim

SAMPLE, AT_A_POINT = 512, 128
"""Worlds of a sample of e, and at each point of a grid."""
FEW = {"physx": 128}
"""Worlds of a sample on an engine that steps them one after the other."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What was asked on the command line."""

    runs: tuple[Path, ...]
    worlds: int | None = None
    seed: int = 1
    grid: tuple[str, ...] = ()
    prior: Path | None = None
    wider: float = 1.0
    nominal: bool = False
    engine: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was found, and how to say it."""

    question: Question
    candidates: list[Candidate] = field(repr=False)
    survey: Survey
    walks: dict[str, Walk]
    """By run, the walking criterion over a sample; empty for other tasks and for grids."""

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """By run, the range of the grid's Param in training, where the run says so and the grid has one Param."""
        names = list(self.survey.units)
        return {c.name: c.ranges[names[0]] for c in self.candidates if len(names) == 1 and names[0] in c.ranges}

    @property
    def data(self) -> dict[str, Any]:
        """For JSON: what was judged, every number with its interval; of a single walking run also the criterion's, on top."""
        first = self.candidates[0]
        data: dict[str, Any] = {"robot": first.robot.name, "task": type(first.task).__name__, **self.survey.to_dict()}
        data |= {"wider": self.question.wider, "nominal": self.question.nominal, "engine": self.question.engine}
        data["walks"] = {
            name: {
                "walks": w.walks, "survival": w.survival, "survival_90": list(wilson(int(w.survived.sum()), w.worlds)),
                "speed_error": w.speed_error, "turn_error": w.turn_error, "duty": list(w.duty), "power": w.power,
            }
            for name, w in self.walks.items()
        }  # fmt: skip
        if len(self.walks) == 1:
            data |= next(iter(data["walks"].values()))
        return data

    def text(self, table: Callable[[Sequence[Sequence[str]]], str]) -> str:
        """For people; `table` lines rows up."""
        parts = [_table(self.survey.rows(), table)]
        if len(self.survey.policies) > 1:
            parts.append(_table(self.survey.compared(), table))
        parts += [f"{name}: {walk}" for name, walk in self.walks.items()]
        return "\n\n".join([*parts, "In brackets: 90 % intervals; differences are taken world by world."])

    def page(self) -> Page:
        """The report."""
        q, first = self.question, self.candidates[0]
        facts = {"robot": first.robot.name, "task": type(first.task).__name__, "seed": q.seed, "wider": q.wider}
        facts |= {"engine": q.engine}
        facts |= {f"run {c.name}": f"{c.steps} transitions" for c in self.candidates}
        return page_of(self.survey, title=f"How well does {first.robot.name} do?", provenance=facts, ranges=self.ranges)


def ask(question: Question, *, say: Callable[[str], None] | None = None) -> Answer:
    """Judge the runs of a question in the same worlds."""
    q = question
    if not q.runs:
        raise InputError("no run was given: name the folder of at least one")
    if q.worlds is not None and q.worlds < 2:
        raise InputError(f"--worlds {q.worlds} gives no interval: judge at least 2")
    if q.nominal and not q.grid:
        raise InputError("--nominal leaves nothing to vary without --grid: give a grid, or leave it out")
    grid = parse_grid(list(q.grid))
    candidates = _named(q.runs)
    first = same_task(candidates)
    prior = _prior(first.robot, q)
    params = _holding(prior.params, grid)
    worlds = q.worlds or min(AT_A_POINT if grid else SAMPLE, FEW.get(q.engine, SAMPLE))
    sim = Sim(first.robot, params, worlds=worlds, seed=q.seed, engine=q.engine)
    _fits(candidates, sim)
    walking = first.walks
    found = survey(
        first.task, sim, {c.name: c.policy.play for c in candidates}, e=None if q.nominal else prior, grid=grid, seed=q.seed,
        measures=MEASURES if walking else None, say=say,
    )  # fmt: skip
    walks = {name: Walk.of(parts[0]) for name, parts in found.judged.items() if walking and not grid}
    return Answer(question=q, candidates=candidates, survey=found, walks=walks)


def _named(runs: Sequence[Path]) -> list[Candidate]:
    """The runs under their folder's name, or the path as given where two have the same."""
    names = [Path(run).resolve().name for run in runs]
    labels = names if len(set(names)) == len(names) else [str(run) for run in runs]
    if len(set(labels)) < len(labels):
        raise InputError("a run is named twice: name each once")
    return [candidate(run, label) for run, label in zip(runs, labels, strict=True)]


def _prior(robot: Robot, q: Question) -> Prior:
    """What e is drawn from: the file's or the robot's own, made wider."""
    params = Sim(robot).params
    prior = params.prior() if q.prior is None else Prior.load(q.prior)
    for name in prior.params:
        if name not in params:
            raise InputError(f"{q.prior} is about '{name}', which is not a param of {robot.name}")
    if not q.wider > 0:
        raise InputError(f"--wider {q.wider:g} must be above 0")
    return prior if q.wider == 1.0 else prior.widen(q.wider) if q.wider > 1.0 else prior.narrow(1.0 / q.wider)


def _holding(params: Params, grid: dict[str, Any]) -> Params:
    """The Params with bounds that hold the grid: a Sim keeps memory for delays up to their bounds."""
    changed = {
        name: params[name].replace(low=min(params[name].low, v.min()), high=max(params[name].high, v.max()))
        for name, v in grid.items()
        if name in params and params[name].choices is None
        and (v.min() < params[name].low or v.max() > params[name].high)
    }  # fmt: skip
    return params if not changed else Params(**{name: changed.get(name, p) for name, p in params.items()})


def _fits(candidates: list[Candidate], sim: Sim) -> None:
    """Refuse a policy that sees or does something else than the task offers now."""
    for c in candidates:
        contract = c.task.contract(sim)
        offered = {group.name: group.size for group in contract.groups}
        for group, width in c.policy.widths.items():
            if offered.get(group) != width:
                raise InputError(
                    f"{c.name} observes {width} numbers of the group '{group}', its task now offers {offered.get(group, 0)}: "
                    "it was trained for another version of the task, train it again"
                )
        if c.policy.actions != len(contract.action.joints):
            raise InputError(f"{c.name} gives {c.policy.actions} actions, its task takes {len(contract.action.joints)}")


def _table(rows: list[dict[str, Any]], table: Callable[[Sequence[Sequence[str]]], str]) -> str:
    return table([tuple(rows[0]), *(tuple(str(v) for v in row.values()) for row in rows)])
