"""The command line: `surefoot VERB ...`. Commands import what they need when they run, so that `--help` is quick.

A mistake of the user's is one sentence on stderr and exit code 2; an interrupt is 130; 1 means that the answer itself is bad news (an inert
Param, an error in a robot file); 0 that all went well. Answers go to stdout, progress to stderr.
"""

import json as json_format
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

RobotName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ROBOT")]
AnyRobot = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[ROBOT]")]
BenchName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
Source = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
Target = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="OUT")]
File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]
Mapping = Annotated[str | None, tyro.conf.arg(metavar="NAME|FILE")]
Seconds = Annotated[float | None, tyro.conf.arg(metavar="SECONDS")]


# -------------------------------------------------------------------- printing


def _say(text: str) -> None:
    print(text, flush=True)


def _tell(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def _answer(data: Any, text: Callable[[], str], as_json: bool) -> None:
    """Print an answer: as one JSON value, or as text for people."""
    _say(json_format.dumps(_plain(data), ensure_ascii=False, allow_nan=False) if as_json else text())


def _plain(value: Any) -> Any:
    """`value` with NaN and infinity, which JSON has not, as None, and paths and NumPy numbers as plain ones."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not (float("-inf") < value < float("inf")):
        return None
    return value


def _table(rows: Sequence[Sequence[str]]) -> str:
    from surefoot.bench.table import aligned

    return aligned(rows)


# -------------------------------------------------------------------- params


def _params_of(robot: Any, file: File) -> Any:
    from surefoot.params import Params

    return robot.params if file is None else Params.load(file)


def params_check(robot: RobotName, /, *, params: File = None, json: bool = False) -> int:
    """Move each Param from low to high alone and print how much the motion changes against the noise floor.

    A Param without effect is a defect: it is named, and the exit code is 1.

    Args:
        robot: name in the library (see `robot list`), folder, robot file or model file.
        params: .toml or .json file with the Params; the robot file's own when left out.
        json: print a list of effects as JSON.
    """
    from surefoot.robots import load
    from surefoot.sim.check import check_params

    loaded = load(robot)
    chosen = _params_of(loaded, params)
    if not chosen:
        _tell(f"{loaded.name} has no Params: give some with --params FILE")
        return 0
    effects = check_params(loaded, chosen, tell=lambda what: _tell(f"{loaded.name}: {what}"))
    inert = [effect for effect in effects if effect.inert]
    titles = ("param", "low", "high", "unit", "change", "floor", "ratio", "channel", "")

    def text() -> str:
        rows = [
            (
                x.name, f"{x.low:g}", f"{x.high:g}", x.unit, f"{x.change:.3g}", f"{x.floor:.2g}", f"{x.ratio:.3g}", x.channel,
                "INERT" if x.inert else "diverges at a bound" if x.diverged else "",
            )
            for x in effects
        ]  # fmt: skip
        return _table([titles, *rows])

    _answer([{**vars(x), "ratio": x.ratio} for x in effects], text, json)
    if inert:
        _tell(f"{', '.join(x.name for x in inert)}: no effect on {loaded.name}; correct 'of' or the bounds, or remove it")
    return 1 if inert else 0


def params_list(robot: AnyRobot = None, /, *, json: bool = False) -> int:
    """List the kinds of Params there are, or the Params in a robot's file.

    Args:
        robot: robot whose Params to list; every kind when left out.
        json: print JSON.
    """
    if robot is None:
        from surefoot.params import KINDS

        kinds = [
            {"kind": k.name, "unit": k.unit, "group": k.group, "of": k.target, "structural": k.structural, "about": k.about}
            for k in KINDS.values()
        ]  # fmt: skip
        _answer(kinds, lambda: _table([tuple(kinds[0]), *(tuple(k.values()) for k in kinds)]), json)
        return 0
    from surefoot.robots import load

    params = load(robot).params
    titles = ("param", "kind", "of", "low", "high", "unit", "scale", "source")

    def text() -> str:
        rows = [
            (n, p.kind, p.of if isinstance(p.of, str) else ", ".join(p.of), f"{p.low:g}", f"{p.high:g}", p.unit, p.scale, p.source)
            for n, p in params.items()
        ]  # fmt: skip
        return _table([titles, *rows])

    _answer(params.to_dict(), text, json)
    return 0


# -------------------------------------------------------------------- robots


def robot_list(*, json: bool = False) -> int:
    """List the robots that come with surefoot.

    Args:
        json: print JSON.
    """
    from surefoot.robots import available, load

    robots = [load(name) for name in available()]
    rows = [
        {"name": r.name, "title": r.title, "joints": len(r.joints), "motors": len(r.actuators), "params": len(r.params)} for r in robots
    ]
    _answer(rows, lambda: _table([tuple(rows[0]), *(tuple(map(str, row.values())) for row in rows)]), json)
    return 0


def robot_check(path: RobotName, /, *, json: bool = False) -> int:
    """Examine a robot's files: masses and inertias, limits, names, gains, time step, efforts, Params, meshes.

    The exit code is 1 when something makes the simulation wrong.

    Args:
        path: name in the library, folder, robot file (.toml) or model file (.xml, .urdf).
        json: print a list of findings as JSON.
    """
    from surefoot.errors import InputError
    from surefoot.robots import available, check

    if not Path(path).exists() and path not in available():
        from surefoot.errors import did_you_mean

        raise InputError(f"{path!r} is no file, folder or robot of the library {did_you_mean(path, available())}")
    findings = check(path)
    lines = [str(finding) for finding in findings] or [f"{path}: nothing found"]
    _answer([vars(finding) for finding in findings], lambda: "\n".join(lines), json)
    return 1 if any(finding.level == "error" for finding in findings) else 0


def robot_strip(model: Source, out: Target, /, *, json: bool = False) -> int:
    """Write a model without the meshes that only cost time, and prove that its dynamics are the same.

    Args:
        model: MJCF file.
        out: file to write; beside the original, so that the meshes that stay are found.
        json: print what was done as JSON.
    """
    from surefoot.robots import strip_meshes

    done = strip_meshes(model, out)
    _answer(
        vars(done),
        lambda: (
            f"{done.file}: {done.removed} mesh geoms removed, {done.kept} kept, {done.saved / 1e6:.1f} MB of files no longer needed, "
            f"dynamics equal to {done.difference:.1g}"
        ),
        json,
    )
    return 0


# -------------------------------------------------------------------- logs


def log_info(path: Source, /, *, mapping: Mapping = None, json: bool = False) -> int:
    """Say what a log holds: channels, units, rates, jitter, gaps.

    Args:
        path: log file or folder (.mcap, .npz, .csv, and what a mapping describes).
        mapping: name of a bundled mapping, or a mapping file: which column is which joint, in which unit.
        json: print JSON, with the gaps and the range of every column.
    """
    from surefoot.logs import info, info_table

    about = info(path, mapping)
    _answer(about, lambda: _table(info_table(about)), json)
    return 0


def log_convert(source: Source, target: Target, /, *, mapping: Mapping = None, json: bool = False) -> int:
    """Read a log and write it in another format.

    Args:
        source: log file or folder.
        target: file to write: .mcap, .npz or .csv; several logs get numbers.
        mapping: name of a bundled mapping, or a mapping file.
        json: print the list of files written as JSON.
    """
    from surefoot.logs import convert

    written = convert(source, target, mapping)
    _answer(written, lambda: "\n".join(str(path) for path in written), json)
    return 0


def replay(
    log: Source,
    robot: AnyRobot = None,
    /,
    *,
    params: File = None,
    e: File = None,
    mapping: Mapping = None,
    start: Seconds = None,
    stop: Seconds = None,
    json: bool = False,
) -> int:
    """Drive the simulator with a log's commands and print the gap: log minus replay, per channel and column.

    Args:
        log: log file.
        robot: robot to simulate; the one the log names when left out.
        params: .toml or .json file with the Params; the robot file's own when left out.
        e: .toml or .json file with values of Params by name; nominal ones when left out.
        mapping: name of a bundled mapping, or a mapping file.
        start: time at which the replay starts [s]; the first command when left out.
        stop: time at which it ends [s]; the end of the commands when left out.
        json: print the gaps as JSON.
    """
    from surefoot.errors import InputError
    from surefoot.logs import read_log
    from surefoot.robots import load
    from surefoot.sim import Sim
    from surefoot.sim.gap import gaps

    recorded = read_log(log, mapping=mapping)
    name = robot if robot is not None else recorded.robot
    if name is None:
        raise InputError(f"{log} does not say which robot it is of: name one, as in 'surefoot replay {log} go2'")
    loaded = load(name)
    sim = Sim(loaded, _params_of(loaded, params), noise=False)
    found = gaps(sim.replay(recorded, None if e is None else _values(e), start=start, stop=stop))
    titles = ("channel", "column", "rms", "worst", "bias", "floor", "unit")

    def text() -> str:
        rows = [
            (g.channel, g.column, f"{g.rms:.4g}", f"{g.worst:.4g}", f"{g.bias:.4g}", f"{g.floor:.4g}", g.unit)
            for g in found
        ]
        return _table([titles, *rows])

    _answer([vars(g) for g in found], text, json)
    return 0


def _values(path: Path) -> dict[str, Any]:
    """e from a file: {"e": {name: number or list}} or the inner table alone, for a single world."""
    import tomllib

    from surefoot.errors import InputError

    try:
        text = path.read_text(encoding="utf-8")
        data = json_format.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read values of e from '{path}': {error}") from None
    values = data.get("e", data) if isinstance(data, dict) else data
    if not isinstance(values, dict) or not all(isinstance(v, int | float | list) for v in values.values()):
        raise InputError(f"'{path}' must hold a table of numbers by param, such as foot_friction = 0.6")
    return {name: [value] for name, value in values.items()}


# -------------------------------------------------------------------- bench, demo, view, version


def bench(
    name: BenchName,
    /,
    *,
    quick: bool = False,
    train: Folder = None,
    test: Folder = None,
    realities: Folder = None,
    seeds: int = 1,
    json: bool = False,
    write: bool = False,
    fresh: bool = False,
) -> int:
    """Measure what surefoot promises and print each number beside its mark; exits 0 whenever it could measure.

    Args:
        name: which bench, or 'all' ('list' names them).
        quick: a subset, within a minute or a few.
        train: folder of recordings to fit to, where the bench takes one.
        test: folder of recordings to judge by, where the bench takes one.
        realities: folder of stand-in robots, where the bench takes one.
        seeds: number of repetitions with other seeds, where the bench takes it.
        json: print one JSON object (a list of them for 'all').
        write: also write benchmarks/RESULTS.md, from the folder of the project.
        fresh: measure again what an interrupted run had finished.
    """
    from surefoot.bench import BENCHES, Request, run
    from surefoot.errors import choose

    if name == "list":
        rows = [{"bench": n, "minutes": b.minutes, "quick": b.quick_minutes, "about": b.about} for n, b in BENCHES.items()]
        _answer(rows, lambda: _table([tuple(rows[0]), *(tuple(map(str, row.values())) for row in rows)]), json)
        return 0
    choose(name, [*BENCHES, "all", "list"], "a bench")
    if write:
        from surefoot.bench.results import results_folder

        results_folder()
    request = Request(
        quick=quick, train=train, test=test, realities=realities, seeds=seeds, fresh=fresh, tell=_tell
    )  # fmt: skip
    results = [run(one, request) for one in (BENCHES if name == "all" else [name])]
    objects = [result.to_dict() for result in results]
    _answer(objects if name == "all" else objects[0], lambda: "\n\n".join(f"{r.text}\n\n{r.verdict}" for r in results), json)
    if write:
        from surefoot.bench.results import write_results

        _tell(f"written: {write_results(results)}")
    return 0


def demo(*, out: Path = Path("out/demo"), worlds: int = 64, seed: int = 0) -> int:
    """Draw quadrupeds from p(e), drop and push them, record one, replay it under another e, and write a report.

    Args:
        out: folder for the log and the report.
        worlds: number of quadrupeds.
        seed: of the draw.
    """
    from surefoot.demo import main as run

    run(out=out, worlds=worlds, seed=seed, say=_say)
    return 0


def view(
    robot: RobotName,
    /,
    *,
    params: File = None,
    worlds: int = 1,
    seed: int = 0,
    port: int = 8080,
    seconds: Seconds = None,
) -> int:
    """Show a robot in the browser, holding its default pose; worlds beyond the first get an e drawn from the prior.

    Args:
        robot: name in the library, folder, robot file or model file.
        params: .toml or .json file with the Params; the robot file's own when left out.
        worlds: number of worlds to show.
        seed: of the draw.
        port: of the address on this machine.
        seconds: how long; until Ctrl+C when left out.
    """
    from surefoot.robots import load
    from surefoot.sim import Sim
    from surefoot.sim.view import serve

    loaded = load(robot)
    sim = Sim(loaded, _params_of(loaded, params), worlds=worlds, seed=seed)
    if worlds > 1 and sim.params:
        drawn = sim.params.prior().sample(worlds - 1, seed)
        sim.apply(drawn, range(1, worlds))
        sim.reset()
    serve(sim, port=port, seconds=seconds, announce=_say)
    return 0


def version(*, json: bool = False) -> int:
    """Print the versions of surefoot and of what it stands on.

    Args:
        json: print JSON.
    """
    from surefoot.bench.table import versions

    found = versions()
    _answer(found, lambda: "\n".join(f"{name} {number}" for name, number in found.items()), json)
    return 0


# -------------------------------------------------------------------- the way from words to functions

COMMANDS: dict[str, Callable[..., int]] = {
    "params check": params_check, "params list": params_list, "robot list": robot_list, "robot check": robot_check,
    "robot strip": robot_strip, "log info": log_info, "log convert": log_convert, "replay": replay, "bench": bench, "demo": demo,
    "view": view, "version": version,
}  # fmt: skip
HELP = ("-h", "--help", "help")


def _overview(group: str = "") -> str:
    """The commands (of one group) with the first sentence of each."""
    chosen = {name: f for name, f in COMMANDS.items() if not group or name.startswith(f"{group} ")}
    width = max(map(len, chosen))
    lines = [f"  {name.ljust(width)}  {(f.__doc__ or '').splitlines()[0]}" for name, f in chosen.items()]
    usage = f"usage: surefoot {group + ' ' if group else ''}COMMAND ...      (COMMAND --help says more)"
    head = "" if group else "From a robot's log to a policy that survives reality.\n\n"
    return f"{head}{usage}\n\n" + "\n".join(lines)


def _find(words: Sequence[str]) -> tuple[str, list[str]]:
    """The command that `words` begin with, and the words left over."""
    from surefoot.errors import choose

    first = choose(words[0], dict.fromkeys(name.split()[0] for name in COMMANDS), "a command of surefoot")
    if first in COMMANDS:
        return first, list(words[1:])
    second = choose(words[1], [n.split()[1] for n in COMMANDS if n.startswith(f"{first} ")], f"a command of 'surefoot {first}'")
    return f"{first} {second}", list(words[2:])


def run(words: Sequence[str]) -> int:
    """Run the command that `words` spell and return its exit code; errors become one sentence on stderr."""
    from surefoot.errors import InputError

    try:
        if not words or words[0] in HELP:
            _say(_overview())
            return 0
        if words[0] in ("--version", "-V"):
            words = ["version", *words[1:]]
        groups = {name.split()[0] for name in COMMANDS if " " in name}
        if words[0] in groups and (len(words) == 1 or words[1] in HELP):
            _say(_overview(words[0]))
            return 0
        name, rest = _find(words)
        call = tyro.cli(
            COMMANDS[name], args=rest, prog=f"surefoot {name}", config=(tyro.conf.FlagCreatePairsOff,), return_unknown_args=False
        )
        return int(call)
    except InputError as error:
        _tell(f"surefoot: {error}")
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _tell(f"surefoot: {error.filename or 'the system'}: {error.strerror or error}")
        return 2
    except KeyboardInterrupt:
        _tell("surefoot: interrupted")
        return 130
    except SystemExit as stop:  # tyro's own: 0 after --help, 2 after a mistake in the arguments
        return stop.code if isinstance(stop.code, int) else 2


def _calm_threads() -> None:
    """Keep BLAS to one thread and let OpenMP threads sleep while they wait: they would fight the threads that step the worlds.

    Must come before NumPy is imported; what the user has set stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> int:
    """Entry of the console script."""
    _calm_threads()
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
