"""The command line: `surefoot VERB ...`. Commands import what they need when they run, so that `--help` is quick.

A mistake of the user's is one sentence on stderr and exit code 2; an interrupt is 130; 1 means that the answer itself
is bad news (an inert Param, an error in a robot file); 0 that all went well. Answers go to stdout, progress to stderr.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import tyro

from surefoot.cli_deploy import export, export_as, import_policy
from surefoot.cli_excite import excite
from surefoot.cli_identify import gap, identify
from surefoot.cli_learn import evaluate, train
from surefoot.cli_logs import log_convert, log_info, replay
from surefoot.cli_loop import loop
from surefoot.cli_noise import noise
from surefoot.cli_robots import params_check, params_list, robot_check, robot_list, robot_strip
from surefoot.cli_run import deploy
from surefoot.cli_structure import structure
from surefoot.cli_twin import reality_draw, reality_list
from surefoot.cli_verify import verify
from surefoot.cli_words import BenchName, File, Folder, RobotName, Seconds, answer, params_of, say, table, tell

# -------------------------------------------------------------------- bench, demo, view, version


def bench(
    name: BenchName,
    /,
    *,
    quick: bool = False,
    train: Folder = None,
    test: Folder = None,
    realities: Folder = None,
    seeds: int = 0,
    jobs: int = 1,
    json: bool = False,
    write: bool = False,
    fresh: bool = False,
) -> int:
    """Measure what surefoot promises and print each number beside its mark; exits 0 whenever it could measure.

    Args:
        name: which bench, a family of them ('learn'), or 'all' ('list' names them).
        quick: a subset, within a minute or a few.
        train: folder of recordings to fit to, where the bench takes one.
        test: folder of recordings to judge by, where the bench takes one.
        realities: folder of stand-in robots, where the bench takes one.
        seeds: number of repetitions with other seeds, where the bench takes it; 0: as many as its marks are stated for.
        jobs: cases to run side by side, each on about two cores, where the bench measures no time.
        json: print one JSON object (a list of them for several).
        write: also write benchmarks/RESULTS.md, from the folder of the project.
        fresh: measure again what an interrupted run had finished.
    """
    from surefoot.bench import BENCHES, Request, named, run

    if name == "list":
        rows = [
            {"bench": n, "minutes": b.minutes, "quick": b.quick_minutes, "about": b.about} for n, b in BENCHES.items()
        ]
        answer(rows, lambda: table([tuple(rows[0]), *(tuple(map(str, row.values())) for row in rows)]), json)
        return 0
    names = named(name)
    if write:
        from surefoot.bench.results import results_folder

        results_folder()
    request = Request(
        quick=quick, train=train, test=test, realities=realities, seeds=seeds, jobs=jobs, fresh=fresh, tell=tell
    )  # fmt: skip
    results = [run(one, request) for one in names]
    objects = [result.to_dict() for result in results]
    answer(
        objects if len(names) > 1 else objects[0],
        lambda: "\n\n".join(f"{r.text}\n\n{r.verdict}" for r in results),
        json,
    )
    if write:
        from surefoot.bench.results import write_results

        tell(f"written: {write_results(results)}")
    return 0


def demo(*, out: Path = Path("out/demo"), worlds: int = 64, seed: int = 0) -> int:
    """Draw quadrupeds from p(e), drop and push them, record one, replay it under another e, and write a report.

    Args:
        out: folder for the log and the report.
        worlds: number of quadrupeds.
        seed: of the draw.
    """
    from surefoot.demo import main as run

    run(out=out, worlds=worlds, seed=seed, say=say)
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
    sim = Sim(loaded, params_of(loaded, params), worlds=worlds, seed=seed)
    if worlds > 1 and sim.params:
        drawn = sim.params.prior().sample(worlds - 1, seed)
        sim.apply(drawn, range(1, worlds))
        sim.reset()
    serve(sim, port=port, seconds=seconds, announce=say)
    return 0


def version(*, json: bool = False) -> int:
    """Print the versions of surefoot and of what it stands on.

    Args:
        json: print JSON.
    """
    from surefoot.bench.table import versions

    found = versions()
    answer(found, lambda: "\n".join(f"{name} {number}" for name, number in found.items()), json)
    return 0


# -------------------------------------------------------------------- the way from words to functions

COMMANDS: dict[str, Callable[..., int]] = {
    "params check": params_check,
    "params list": params_list,
    "robot list": robot_list,
    "robot check": robot_check,
    "robot strip": robot_strip,
    "log info": log_info,
    "log convert": log_convert,
    "replay": replay,
    "gap": gap,
    "identify": identify,
    "structure": structure,
    "train": train,
    "evaluate": evaluate,
    "export": export,
    "export-as": export_as,
    "import-policy": import_policy,
    "verify": verify,
    "deploy": deploy,
    "noise": noise,
    "excite": excite,
    "loop": loop,
    "reality list": reality_list,
    "reality draw": reality_draw,
    "bench": bench,
    "demo": demo,
    "view": view,
    "version": version,
}
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
    second = choose(
        words[1], [n.split()[1] for n in COMMANDS if n.startswith(f"{first} ")], f"a command of 'surefoot {first}'"
    )
    return f"{first} {second}", list(words[2:])


def run(words: Sequence[str]) -> int:
    """Run the command that `words` spell and return its exit code; errors become one sentence on stderr."""
    from surefoot.errors import InputError

    try:
        if not words or words[0] in HELP:
            say(_overview())
            return 0
        if words[0] in ("--version", "-V"):
            words = ["version", *words[1:]]
        groups = {name.split()[0] for name in COMMANDS if " " in name}
        if words[0] in groups and (len(words) == 1 or words[1] in HELP):
            say(_overview(words[0]))
            return 0
        name, rest = _find(words)
        call = tyro.cli(
            COMMANDS[name],
            args=rest,
            prog=f"surefoot {name}",
            config=(tyro.conf.FlagCreatePairsOff,),
            return_unknown_args=False,
        )
        return int(call)
    except InputError as error:
        tell(f"surefoot: {error}")
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        tell(f"surefoot: {error.filename or 'the system'}: {error.strerror or error}")
        return 2
    except KeyboardInterrupt as stop:
        tell(f"surefoot: interrupted{f': {stop}' if str(stop) else ''}")
        return 130
    except SystemExit as stop:  # tyro's own: 0 after --help, 2 after a mistake in the arguments
        return stop.code if isinstance(stop.code, int) else 2


def _calm_threads() -> None:
    """Keep BLAS to one thread and let OpenMP's sleep while they wait: they would fight the threads that step worlds.

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
