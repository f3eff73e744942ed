"""The first loop on hidden realities: does what the robot taught beat randomization, and how near does it come to the oracle?

    held     stand-ins whose physics the Params hold: drawn, then freed from all that no Param knows
    beyond   stand-ins as they are drawn, with physics beyond the Params

Nothing but the oracle and this bench opens the realities' files. A case is one whole loop in a folder of its own; within a case an
interrupted loop goes on at its last step.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.bench.cases import beside, folder, package_hash, work
from surefoot.bench.table import Mark, Request, Result
from surefoot.errors import InputError, choose
from surefoot.files import write_text
from surefoot.hardware.generator import draw
from surefoot.hardware.reality import robot_of
from surefoot.loop import Folder, Ladder, Loop, begin_with, judge_itself, loop_of, prepare_loop, run_loop
from surefoot.loop.choice import kept_by
from surefoot.loop.judging import UNITS
from surefoot.loop.settings import KITS
from surefoot.loop.truth import held_text, true_e
from surefoot.robots import load
from surefoot.sim import Sim

REALITIES = 10
LEVELS = (0.4, 0.9)
"""Between which the hidden realities lie."""
ALLOWED = {"qube": 30.0, "go2": 120.0}
"""Robot seconds."""
SHARE = 0.9
"""Of the oracle's success."""
OWN = "retrained"
"""In the rows: the retrained policy, also where the loop kept the one before."""


def hidden(robot: str, number: int, seed: int = 0) -> tuple[str, str]:
    """Sort ("held" or "beyond") and TOML text of a hidden reality; even numbers are held by the Params."""
    level = LEVELS[0] + (LEVELS[1] - LEVELS[0]) * (number % REALITIES) / (REALITIES - 1)
    text = draw(robot, 7919 * (seed + 1) + number, round(level, 3))
    return ("held", held_text(text)) if number % 2 == 0 else ("beyond", text)


def case(robot: str, name: str, file: Path, request: Request, seed: int = 0) -> list[Mark]:
    """The marks of one loop: success and error of every rung, and the robot seconds that taught it.

    What depends on no reality, the first trainings and the design, is done once for each `seed` of them and copied.
    """
    loop = loop_of(robot, f"twin:{file}", quick=request.quick, seed=seed)
    here = _folder(request) / f"{robot}-{name.replace(' ', '-')}"
    begin_with(prepared(loop, request), here)
    ladder = run_loop(loop, here, say=request.tell)
    return marks_of(f"{robot} {name}", ladder) + retrained(f"{robot} {name}", loop, Folder(here), request, ladder)


def retrained(name: str, loop: Loop, here: Folder, request: Request, ladder: Ladder) -> list[Mark]:
    """How the retrained policy did by itself, whether the loop kept it or not, and whether it did: rows of the kind of `marks_of`."""
    found = []
    for rung in (r for r in loop.rungs if r.e == "posterior"):
        own, kept = judge_itself(loop, here, rung, request.tell), kept_by(here, rung) == rung.name
        about = f"{own['distinct']} runs; {'kept' if kept else 'not kept'}"
        for what, unit in (("success", "1"), ("error", ladder.unit)):
            mark = Mark(name=f"{name}|{OWN}|{what}", value=own[what][0], unit=unit, reference=about)
            found.append(mark)
        found.append(Mark(name=f"{name}|{OWN}|kept", value=float(kept)))
    return found


def prepared(loop: Loop, request: Request) -> Path:
    """What the loops of a robot and a seed of trainings have in common, made once."""
    name = f"{loop.robot}-seed-{loop.seed}" if loop.seed else loop.robot
    return prepare_loop(loop, _folder(request) / name, say=request.tell)


def _folder(request: Request) -> Path:
    return folder() / "loop" / f"{package_hash()[:12]}-{'quick' if request.quick else 'whole'}"


def prepare_all(cases: Iterable[partial[list[Mark]]], request: Request) -> None:
    """All that several cases begin with, side by side: cases in processes of their own would each make it."""

    def prepare(robot: str, file: Path, seed: int) -> None:
        prepared(loop_of(robot, f"twin:{file}", quick=request.quick, seed=seed), request)

    found = {}
    for one in cases:
        robot, _, file, _, seed = one.args
        found.setdefault(f"{robot}, trainings of seed {seed}", partial(prepare, robot, file, seed))
    for name, (_, seconds) in beside(found, request.jobs, request.tell):
        request.tell(f"loop, prepared: {name}: {seconds:.1f} s")


def marks_of(name: str, ladder: Ladder) -> list[Mark]:
    """A ladder as marks "ROBOT SORT NUMBER|RUNG|WHAT"."""
    found = []
    for step in ladder.steps:
        about = f"{step.trials} runs; {step.note}" if step.note else f"{step.trials} runs"
        found.append(Mark(name=f"{name}|{step.name}|success", value=step.success[0], reference=about))
        found.append(Mark(name=f"{name}|{step.name}|error", value=step.error[0], unit=ladder.unit, reference=about))
    spent = max(step.robot_seconds for step in ladder.steps)
    return [*found, Mark(name=f"{name}|identified|robot seconds", value=spent, unit="s")]


def cases_of(request: Request) -> dict[str, partial[list[Mark]]]:
    """All loops to run: given realities, or drawn ones."""
    if request.realities is not None:
        files = sorted(request.realities.glob("*.toml"))
        if not files:
            raise InputError(
                f"--realities {request.realities} holds no .toml file: give the folder of some stand-in robots"
            )
        given = [
            (choose(robot_of(f), KITS, f"a robot with a loop ({f.name})"), f"{_sort(f)} {f.stem}", f) for f in files
        ]
        return {f"{robot} {n}": found for robot, name, file in given for n, found in _cases(robot, name, file, request)}
    out: dict[str, partial[list[Mark]]] = {}
    for robot in ("qube",) if request.quick else ("qube", "go2"):
        for number in range(2 if request.quick else REALITIES):
            sort, text = hidden(robot, number)
            file = folder() / "loop" / "realities" / f"{robot}-{number}.toml"
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                write_text(file, text)
            for name, found in _cases(robot, f"{sort} {number}", file, request):
                out[f"{robot} {name}"] = found
    return dict(sorted(out.items(), key=lambda item: _seed(item[0])))


def _sort(file: Path) -> str:
    """Whether the Params of the robot hold all that a given reality is made of: "held" or "beyond"."""
    return "held" if true_e(file, Sim(load(robot_of(file))).params).whole else "beyond"


def _cases(robot: str, name: str, file: Path, request: Request) -> Iterator[tuple[str, partial[list[Mark]]]]:
    """(name, case) of one reality for every seed of trainings; the first has the reality's own name."""
    for seed in range(request.seeds):
        called = f"{name} seed {seed}" if seed else name
        yield called, partial(case, robot, called, file, request, seed)


def _seed(name: str) -> int:
    """Seed of the trainings in a case's name."""
    found = re.search(r" seed (\d+)$", name)
    return int(found[1]) if found else 0


def measure(request: Request) -> Result:
    """The marks over ten hidden realities of qube and Go2 each (two of qube when quick)."""
    begin = time.perf_counter()
    cases = cases_of(request)
    if request.jobs > 1:
        prepare_all(cases.values(), request)
    rows = work("loop", cases, request)
    return Result(
        bench="loop", marks=tuple(summary(rows)), seed=0, seconds=time.perf_counter() - begin, quick=request.quick
    )


def summary(rows: list[Mark]) -> list[Mark]:
    """Means over the realities of each robot, and how they stand to the marks."""
    table: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        name, rung, what = row.name.split("|")
        table.setdefault(name, {})[(rung, what)] = float("nan") if row.value is None else row.value
    marks: list[Mark] = []
    for robot, allowed in ALLOWED.items():
        mine = {name: found for name, found in table.items() if name.startswith(f"{robot} ")}
        if mine:
            marks += _robot_marks(robot, allowed, mine)
    return marks + [
        Mark(name=r.name.replace("|", ": ", 1).replace("|", ", "), value=r.value, unit=r.unit, reference=r.reference)
        for r in rows
    ]


def _robot_marks(robot: str, allowed: float, mine: Mapping[str, Mapping[tuple[str, str], float]]) -> list[Mark]:
    def mean(rung: str, names: Mapping[str, Any], what: str = "success") -> float:
        return float(np.nanmean([found[(rung, what)] for found in names.values()]))

    def trained(seed: int) -> dict[str, Any]:
        return {name: found for name, found in mine.items() if _seed(name) == seed}

    seeds = sorted({_seed(name) for name in mine})
    held = {name: found for name, found in mine.items() if name.split()[1] == "held"}
    identified, randomized = mean("identified", mine), mean("randomized", mine)
    rungs = {
        "simulation only": "simulation",
        "randomized": "randomized",
        "identified": "identified",
        "oracle": "oracle",
    }
    about = f"{len(trained(0))} hidden realities; " + ", ".join(
        f"{words} {mean(rung, mine):.2f}" for words, rung in rungs.items()
    )
    if len(seeds) > 1:
        each = (mean("identified", trained(k)) - mean("randomized", trained(k)) for k in seeds)
        about += f"; {len(seeds)} trainings of each: {', '.join(f'{gain:+.3f}' for gain in each)}"
    marks = [
        Mark(
            name=f"loop, {robot}: success, identified − randomized",
            value=identified - randomized,
            op=">=",
            mark=0.0,
            reference=about,
        )
    ]
    errors = {words: mean(rung, mine, "error") for words, rung in rungs.items()}
    pairs = np.array([[found[(rung, "error")] for rung in ("identified", "randomized")] for found in mine.values()])
    low, middle, high = np.nanquantile(pairs[:, 0] / np.maximum(pairs[:, 1], 1e-12), (0.25, 0.5, 0.75))
    marks.append(
        Mark(
            name=f"loop, {robot}: error, identified over randomized",
            value=errors["identified"] / errors["randomized"] if errors["randomized"] else None,
            op="<=",
            mark=1.0,
            reference=", ".join(f"{words} {value:.3f}" for words, value in errors.items())
            + f" {UNITS[KITS[robot].task]}, failed runs included; of single loops median {middle:.2f}, quartiles {low:.2f} to {high:.2f}",
        )
    )
    if all((OWN, "kept") in found for found in mine.values()):
        marks += _own_marks(robot, mine, mean)
    if held:
        best = mean("oracle", held)
        ratio = mean("identified", held) / best if best else None
        marks.append(Mark(
            name=f"loop, {robot}: success over the oracle's where the Params hold the physics", value=ratio, op=">=", mark=SHARE,
            reference=f"{len(held)} loops; oracle {best:.2f}" if best else "the oracle never succeeded: nothing to compare with",
        ))  # fmt: skip
    spent = max(found[("identified", "robot seconds")] for found in mine.values())
    marks.append(Mark(name=f"loop, {robot}: robot seconds, the most", value=spent, unit="s", op="<=", mark=allowed))
    return marks


def _own_marks(
    robot: str, mine: Mapping[str, Mapping[tuple[str, str], float]], mean: Callable[..., float]
) -> Iterator[Mark]:
    """What the retrained policies are worth where none of them is left out; without a mark."""
    kept = sum(found[(OWN, "kept")] for found in mine.values())
    about = f"all {len(mine)} retrained policies; the loop kept {kept:.0f} of them and the policy before elsewhere"
    gain = mean(OWN, mine) - mean("randomized", mine)
    yield Mark(name=f"loop, {robot}: success, every retrained policy − randomized", value=gain, reference=about)
    before = mean("randomized", mine, "error")
    ratio = mean(OWN, mine, "error") / before if before else None
    yield Mark(name=f"loop, {robot}: error, every retrained policy over randomized", value=ratio, reference=about)
