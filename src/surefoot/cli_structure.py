"""`surefoot structure`: which terms a servo's or joint's model lacks, one at a time, by logs that no fit saw."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from surefoot.cli_words import File, Mapping, RobotName, Seconds, answer, tell
from surefoot.errors import InputError, choose

if TYPE_CHECKING:
    from surefoot.identify.structure import Bench
    from surefoot.identify.structure_terms import Term
    from surefoot.logs import Log
    from surefoot.params import Params
    from surefoot.robots import Robot
    from surefoot.sim import Sim

Logs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="LOG...")]
Names = Annotated[str | None, tyro.conf.arg(metavar="NAMES")]
Number = Annotated[float | None, tyro.conf.arg(metavar="NUMBER")]
Folds = Annotated[str, tyro.conf.arg(metavar="COUNT|NAME")]
Share = Annotated[float, tyro.conf.arg(metavar="0..1")]


def structure(
    robot: RobotName,
    logs: Logs,
    /,
    *,
    params: File = None,
    terms: Names = None,
    reference: Number = None,
    supply: Number = None,
    folds: Folds = "5",
    most: int = 8,
    least: Share = 0.02,
    mapping: Mapping = None,
    hold: Names = None,
    window: Seconds = None,
    draws: int = 64,
    every: int = 4,
    seed: int = 0,
    suspended: bool = False,
    hung: bool = False,
    whole: bool = False,
    out: File = None,
    json: bool = False,
) -> int:
    """Find the terms that a servo or joint has beyond its gains, inertia and plain friction, in the order in which they help.

    Each line of the answer says which term was taken, the error of replays of held-out logs before and after it, where the errors
    lay that speak for it, and what else was tried. A robot of one hinge and one position-controlled motor takes a minute or so,
    others, and backlash, are searched in the whole simulator and take longer.

    Args:
        robot: name in the library, folder, robot file or model file.
        logs: log files or folders, two logs at least: every log is judged by a fit that did not see it.
        params: .toml or .json file with the Params, one of a kind; when left out, wide ranges around the robot file's figures.
        terms: names of the terms to try, "saturation,delay,backlash", with those that they build on; all but backlash when left out.
            What is not tried stays as the robot file has it.
        reference: firmware gain at which the robot file's kp holds, where logs state their own gain "kp" in other units.
        supply: supply voltage [V] of a motor with windings: tries a voltage limit and its sag too.
        folds: number of groups of logs that are held out together, or the name of what the logs state that tells them: "trajectory".
        most: terms to take at most.
        least: smallest share of the held-out error that a term must take away.
        mapping: name of a bundled mapping, or a mapping file.
        hold: actuators that the logs have no command for, kept at their default pose; of whole robots.
        window: length of the windows that whole robots are fitted in [s]; 2 s when left out.
        draws: starting points of every fit of a single servo.
        every: readings of a single servo that count, one of so many.
        seed: of the starting points.
        suspended: legs in the air, the base held still on a stand.
        hung: the robot hangs from a strap, free to swing and turn.
        whole: use all of a run's recording, also while the robot stood up, sat down or lay limp.
        out: .json file for the fit at the end, for gap and train.
        json: print the search as JSON.
    """
    from surefoot.cli_recorded import held_word, read, robot_of, writable
    from surefoot.identify.structure import search

    if out is not None and out.suffix != ".json":
        raise InputError(f"'{out}' must end in .json")
    if params is not None and supply is not None:
        raise InputError(
            "--supply is for the Params that are made here, and --params gives others: leave out one of them"
        )
    if params is not None and params.suffix not in (".toml", ".json"):
        raise InputError(f"'{params}' must be a .toml or .json file with Params")
    writable(out)
    wanted = _wanted(terms, supply)
    recorded = read(logs, mapping, whole=whole)
    labels = _labels(folds, recorded)
    found = robot_of(robot, recorded, held=held_word(suspended, hung))
    schema = _params(found.sim.robot, wanted, supply) if params is None else _loaded(params)
    sim = found.sim.replace(params=schema)
    wanted = _possible(wanted, sim, named=terms is not None)
    bench = _bench(sim, recorded, reference=reference, hold=hold, window=window, draws=draws, every=every, seed=seed)
    result = search(bench, folds=labels, terms=wanted, most=most, least=least, say=tell)
    answer({**result.to_dict(), "fit": result.fit.to_dict()}, lambda: f"{result}\n\n{result.fit}", json)
    if out is not None:
        tell(f"written: {result.fit.save(out)}")
    return 0


def _wanted(words: str | None, supply: float | None) -> "tuple[Term, ...]":
    """The named terms with those that they build on, in the order of TERMS; by default all that need no second joint."""
    from surefoot.cli_recorded import names
    from surefoot.identify.structure_terms import TERMS

    by_name = {t.name: t for t in TERMS}
    named = [t.name for t in TERMS if t.name != "backlash"] if words is None else names(words) or []
    if not named:
        raise InputError("--terms names no term: name at least one, such as saturation, or leave it out")
    chosen: set[str] = set()
    while named:
        name = choose(named.pop(), by_name, "a term of a structure search")
        chosen.add(name)
        named += [n for n in by_name[name].needs if n not in chosen]
    return tuple(t for t in TERMS if t.name in chosen)


def _labels(words: str, logs: "list[Log]") -> list[str]:
    """The group of every log."""
    if len(logs) < 2:
        raise InputError(f"{len(logs)} log cannot be held out and fitted too: give at least two")
    if not words.isdigit():
        lacking = [i + 1 for i, log in enumerate(logs) if words not in log.meta]
        if lacking:
            raise InputError(
                f"log {lacking[0]} states no '{words}' to tell --folds by (it states: {', '.join(logs[lacking[0] - 1].meta)})"
            )
        return [str(log.meta[words]) for log in logs]
    if int(words) < 2:
        raise InputError(f"--folds {words} holds nothing out: give 2 or more, or a name that the logs state")
    return [str(i % int(words)) for i in range(len(logs))]


def _loaded(file: Path) -> "Params":
    from surefoot.params import Params

    return Params.load(file)


def _params(robot: "Robot", terms: "tuple[Term, ...]", supply: float | None) -> "Params":
    """Wide Params around the motors' own figures, for the base and the terms to try."""
    from surefoot.identify.structure_terms import BASE, servo_params
    from surefoot.params import CONSTRUCTORS, Params

    figures = {(a.kp, a.kd, a.torque_limit) for a in robot.actuators if a.model == "pd"}
    if len(figures) != 1 or any(a.model != "pd" for a in robot.actuators):
        raise InputError(
            f"the motors of '{robot.name}' are not position-controlled with one kp, kd and torque limit for all, so no ranges can be "
            f"made for them: give --params FILE with {', '.join(BASE)} and a Param for each term"
        )
    ((kp, kd, limit),) = figures
    if limit is None:
        raise InputError(
            f"'{robot.name}' states no torque_limit, the scale of its ranges: state it, or give --params FILE"
        )
    made = servo_params(".*", kp=kp, kd=kd, torque=limit, supply=supply)
    if any("backlash" in t.kinds for t in terms):
        made = made | Params(backlash=CONSTRUCTORS["backlash"](".*", low=1e-6, high=0.1, nominal=1e-6))
    kinds = {*BASE, *(kind for t in terms for kind in t.kinds)}
    return made.only(*[name for name, p in made.items() if p.kind in kinds])


def _possible(terms: "tuple[Term, ...]", sim: "Sim", *, named: bool) -> "tuple[Term, ...]":
    """The terms that the Sim has Params for; one that was named and has none is refused."""
    kinds = {p.kind for p in sim.params.values()}
    for term in terms:
        lacking = [kind for kind in term.kinds if kind not in kinds]
        if named and lacking:
            how = "give --supply VOLTS" if "voltage" in lacking[0] else "put one into --params"
            raise InputError(f"'{term.name}' needs a Param of kind {', '.join(lacking)}: {how}")
    return tuple(t for t in terms if all(kind in kinds for kind in t.kinds))


def _bench(
    sim: "Sim",
    logs: "list[Log]",
    *,
    reference: float | None,
    hold: str | None,
    window: float | None,
    draws: int,
    every: int,
    seed: int,
) -> "Bench":
    """On arrays where the robot is one hinge with a position-controlled motor, in the Sim otherwise."""
    from surefoot.cli_recorded import names
    from surefoot.identify.servo import KINDS
    from surefoot.identify.structure_servo import ServoBench, coarser
    from surefoot.identify.structure_sim import SimBench

    stated = sorted({float(log.meta["kp"]) for log in logs if "kp" in log.meta})
    shown = ", ".join(f"{kp:g}" for kp in stated)
    single = sim.model.nv == 1 and all(p.kind in KINDS for p in sim.params.values())
    if single:
        if len(stated) > 1 and reference is None:
            raise InputError(
                f"the logs state the gains {shown}: say with --reference at which gain the robot file's kp holds"
            )
        if window is not None or hold is not None:
            raise InputError(
                "--window and --hold are for whole robots: a single servo is fitted to whole logs, leave them out"
            )
        gain = None if reference is None else "kp"
        return ServoBench(coarser(sim), logs, gain=gain, reference=reference, draws=draws, every=every, seed=seed)
    if len(stated) > 1 or reference is not None:
        raise InputError(
            f"logs at several gains ({shown or 'none stated'}) can be searched for a single servo only, without backlash: "
            "give logs at one gain, and no --reference"
        )
    return SimBench(sim, logs, window=2.0 if window is None else window, hold=tuple(names(hold) or ()))
