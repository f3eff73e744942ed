"""`surefoot bench sim`: Sim's speed beside a bare batch loop; whether e acts, reads back, and repeats bit for bit."""

import dataclasses
import os
import time
from pathlib import Path

import mujoco
import numpy as np

from surefoot.bench.cases import work
from surefoot.bench.examples import example_params, example_robot, structural_kinds
from surefoot.bench.speed import bare_loop, commands, figure, ratio, sim_loop, solver_iterations, take_turns
from surefoot.bench.table import Mark, Request, Result
from surefoot.params import KINDS, Params
from surefoot.robots import Robot, available, load
from surefoot.sim import Sim
from surefoot.sim.build import build
from surefoot.sim.check import check_params
from surefoot.sim.record import Recording

SEED = 0
QUICK_ROBOTS = ("cartpole", "go2", "servo")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much is measured."""

    worlds: int = 256
    rounds: int = 30
    control_steps: int = 15
    kinds: tuple[str, ...] = ()
    kind_rounds: int = 7
    scaling_worlds: tuple[int, ...] = (16, 64, 256, 1024, 4096)
    threads: tuple[int, ...] = (1, 2, 4)
    candidates: int = 512
    robots: tuple[str, ...] = ()


def sizes(quick: bool) -> Sizes:
    """All of it, or a subset within a minute: one kind for each structural need, fewer worlds and rounds."""
    if not quick:
        return Sizes(kinds=tuple(structural_kinds()), robots=tuple(available()))
    needs = {KINDS[kind].structural: kind for kind in reversed(structural_kinds())}
    return Sizes(
        rounds=12, kinds=tuple(sorted(needs.values())), kind_rounds=3, scaling_worlds=(16, 256, 1024), candidates=128,
        robots=QUICK_ROBOTS,
    )  # fmt: skip


def measure(request: Request) -> Result:
    """All cases of the bench."""
    start, size = time.perf_counter(), sizes(request.quick)
    cases = {
        "speed beside a bare loop": lambda: speed(size),
        "cost of structural Params": lambda: costs(size),
        "scaling": lambda: scaling(size),
        "replay": lambda: replay_speed(size),
        "read-back": read_back,
        "same bits": lambda: same_bits(size.threads),
        "params check": lambda: params_check(size.robots),
        "Go2 beside its reference": go2_reference,
    }
    marks = work("sim", cases, request)
    return Result(bench="sim", marks=tuple(marks), seed=SEED, seconds=time.perf_counter() - start, quick=request.quick)


# -------------------------------------------------------------------- speed


def loaded_sim(robot: Robot, params: Params | None = None, **options) -> Sim:
    """A Sim whose worlds have drawn their e."""
    sim = Sim(robot, params, **options)
    draw(sim)
    return sim


def draw(sim: Sim) -> None:
    """Give every world an e from the prior; Params with one value per Sim keep theirs."""
    e = sim.params.prior().sample(sim.worlds, SEED)
    sim.apply({name: value for name, value in e.items() if sim.params[name].about.per == "world"})
    sim.reset()


def speed(size: Sizes) -> list[Mark]:
    """Go2 with its default Params, sensors and delays, beside the same compiled model and plain Go2 in a bare loop.

    Worlds of the same physics are compared, both nominal and both with the same drawn e, which shows what Sim itself costs; and drawn
    worlds with nominal ones, where the engine takes longer too, since feet that slip cost its solver iterations.
    """
    robot = load("go2")
    sim = loaded_sim(robot, worlds=size.worlds)
    nominal = Sim(robot, worlds=size.worlds)
    plain = build(dataclasses.replace(robot, sensors=()), Params()).model
    u = commands(sim, size.control_steps)
    loops = {
        "sim": sim_loop(sim, u),
        "nominal": sim_loop(nominal, u),
        "bare": bare_loop(sim.model, sim, u),
        "bare, e": bare_loop(sim.model, sim, u, e=True),
        "plain": bare_loop(plain, sim, u),
        "plain, e": bare_loop(plain, sim, u, e=True),
    }
    rates = take_turns(loops, rounds=size.rounds, control_steps=size.control_steps)
    about = f"Go2, {size.worlds} worlds, default Params"
    drawn, shared = "the same drawn e in both", "nominal e in both"
    same, without = (
        "mujoco.batch.Batch on the same compiled model",
        "mujoco.batch.Batch, position actuators, no sensors",
    )

    def row(name: str, a: str, b: str, words: str, mark: float | None = None, goal: float | None = None) -> Mark:
        found = ratio(rates, a, b)
        return Mark(
            name=name, value=found.median, op=None if mark is None else ">=", mark=mark, goal=goal,
            reference=f"{about}; {words}; {found.spread}",
        )  # fmt: skip

    iterations = {e: solver_iterations(sim, u, e=e) for e in (False, True)}
    marks = [
        row(f"Sim / bare loop, same model, {drawn}", "sim", "bare, e", same, 0.85, 0.9),
        row(f"Sim / bare loop, same model, {shared}", "nominal", "bare", same, 0.85, 0.9),
        row(f"Sim / bare loop, plain Go2, {drawn}", "sim", "plain, e", f"{without}; bodies, joints and ground alike", 0.7, 0.8),
        row(f"Sim / bare loop, plain Go2, {shared}", "nominal", "plain", without, 0.7, 0.8),
        row("Sim with drawn e / bare loop with nominal e, same model", "sim", "bare", same, 0.85, 0.9),
        row("Sim with drawn e / bare loop with nominal e, plain Go2", "sim", "plain", without, 0.7, 0.8),
        row(
            "bare loop, drawn / nominal e, same model", "bare, e", "bare",
            f"no code of Sim's; its solver takes {iterations[True]:.2f} iterations a step, and {iterations[False]:.2f} with nominal e",
        ),
    ]  # fmt: skip
    for name, words in {"sim": "Sim", "bare": "bare loop, same model", "plain": "bare loop, plain Go2"}.items():
        found = figure(rates[name])
        marks.append(
            Mark(name=f"{words}: speed", value=found.median, unit="steps/s", reference=f"{about}; {found.spread}")
        )
    return marks


def costs(size: Sizes) -> list[Mark]:
    """Speed of a Sim with one structural Param over that of the same Sim without it."""
    marks, robot = [], load("go2")
    plain = Sim(robot, Params(), worlds=size.worlds)
    for kind in size.kinds:
        params = example_params(kind)
        sim = loaded_sim(robot, params, worlds=size.worlds)
        without = plain if len(params) == 1 else loaded_sim(robot, params.without(kind), worlds=size.worlds)
        steps = max(4, size.control_steps // 2)
        u = commands(sim, steps)
        loops = {"with": sim_loop(sim, u), "without": sim_loop(without, u)}
        found = ratio(take_turns(loops, rounds=size.kind_rounds, control_steps=steps), "with", "without")
        marks.append(
            Mark(
                name=f"with / without {kind}",
                value=found.median,
                reference=f"structural: {KINDS[kind].structural}; {found.spread}",
            )
        )
    return marks


def scaling(size: Sizes) -> list[Mark]:
    """Speed over the number of worlds and of threads."""
    base, marks = loaded_sim(load("go2"), worlds=size.worlds), []
    by_worlds = {n: base.replace(worlds=n) for n in size.scaling_worlds}
    by_threads = {n: base.replace(threads=n) for n in size.threads}
    for words, group in (("worlds", by_worlds), ("threads", by_threads)):
        steps = {str(n): int(np.clip(size.control_steps * size.worlds / sim.worlds, 2, 60)) for n, sim in group.items()}
        loops = {}
        for n, sim in group.items():
            draw(sim)
            loops[str(n)] = sim_loop(sim, commands(sim, steps[str(n)]))
        rates = take_turns(loops, rounds=max(2, size.kind_rounds // 2), control_steps=steps)
        for n in group:
            found = figure(rates[str(n)])
            about = f"Go2, default Params{'' if words == 'worlds' else f', {size.worlds} worlds'}; {found.spread}"
            marks.append(Mark(name=f"Sim: {n} {words}", value=found.median, unit="steps/s", reference=about))
        del loops
    return marks


def replay_speed(size: Sizes) -> list[Mark]:
    """Candidates of e times physics steps in a second, replaying one second of a Go2 log."""
    sim = loaded_sim(load("go2"), worlds=1)
    recording = Recording(sim)
    u = commands(sim, round(1.0 / sim.control_dt))
    for row in u:
        recording.add(sim.sense(), row)
        sim.step(row)
    log, e = recording.log(), sim.params.prior().sample(size.candidates, SEED)
    rates = []
    for _ in range(4):
        begin = time.perf_counter()
        sim.replay(log, e)
        rates.append(size.candidates * log.duration / sim.timestep / (time.perf_counter() - begin))
    found = figure(np.array(rates[1:]))
    about = f"{size.candidates} candidates, 1 s of Go2, all channels; {found.spread}"
    return [Mark(name="replay", value=found.median, unit="candidate steps/s", reference=about)]


# -------------------------------------------------------------------- correctness


def read_back() -> list[Mark]:
    """Worst relative error of e decoded from the engine's fields: of every kind, and of every robot's own Params."""
    worst, where = 0.0, ""
    sets = [(kind, example_robot(kind), example_params(kind)) for kind in KINDS]
    sets += [(name, load(name), load(name).params) for name in available()]
    for name, robot, params in sets:
        error = read_back_error(robot, params)
        if error >= worst:
            worst, where = error, name
    about = f"{len(KINDS)} kinds and the Params of {len(available())} robots; worst: {where}"
    return [Mark(name="read-back of e, worst relative error", value=worst, op="<=", mark=1e-12, reference=about)]


def read_back_error(robot: Robot, params: Params, worlds: int = 8) -> float:
    """Largest |e read - e applied| over the larger of a Param's bounds."""
    sim = Sim(robot, params, worlds=worlds)
    e = sim.params.prior().sample(worlds, SEED)
    e = {n: np.repeat(v[:1], worlds, axis=0) if sim.params[n].about.per == "sim" else v for n, v in e.items()}
    sim.apply(e)
    read = sim.e
    return max(float(np.abs(read[n] - e[n]).max()) / max(abs(params[n].low), abs(params[n].high)) for n in e)


def _run(sim: Sim, u: np.ndarray) -> np.ndarray:
    """All bits of a run: state and readings after every step, (steps, numbers)."""
    rows = []
    for row in u:
        sim.step(row)
        rows.append(np.concatenate([sim.engine.state.ravel(), *(np.ravel(v) for v in sim.sense().values())]))
    return np.array(rows)


def differing_bits(a: np.ndarray, b: np.ndarray) -> int:
    """Number of bits in which two float arrays differ."""
    x, y = (np.ascontiguousarray(v, dtype=np.float64).view(np.uint8) for v in (a, b))
    return int(np.unpackbits(x ^ y).sum())


def same_bits(threads: tuple[int, ...], *, worlds: int = 32, steps: int = 40) -> list[Mark]:
    """Bits that differ between runs on other thread counts, and between a run and its continuation from a snapshot."""
    sims = {n: loaded_sim(load("go2"), worlds=worlds, threads=n) for n in threads}
    first = sims[threads[0]]
    u = commands(first, 2 * steps)
    runs = {n: _run(sim, u[:steps]) for n, sim in sims.items()}
    over_threads = sum(differing_bits(runs[threads[0]], run) for run in runs.values())
    snapshot = first.snapshot()
    onward = _run(first, u[steps:])
    other = loaded_sim(load("go2"), worlds=worlds, seed=first.seed + 1)
    other.restore(snapshot)
    over_restore = differing_bits(onward, _run(other, u[steps:]))
    about = f"Go2, {worlds} worlds, {steps} control steps, noise and pushes on"
    counts = ", ".join(map(str, threads))
    return [
        Mark(
            name=f"bits that differ over {counts} threads",
            value=over_threads,
            unit="bit",
            op="==",
            mark=0,
            reference=about,
        ),
        Mark(
            name="bits that differ after save and restore",
            value=over_restore,
            unit="bit",
            op="==",
            mark=0,
            reference=about,
        ),
    ]


def params_check(robots: tuple[str, ...]) -> list[Mark]:
    """Inert Params over robots."""
    begin, inert, count = time.perf_counter(), [], 0
    for name in robots:
        effects = check_params(load(name))
        count += len(effects)
        inert += [f"{name}.{effect.name}" for effect in effects if effect.inert]
    seconds = time.perf_counter() - begin
    about = f"{count} Params of {', '.join(robots)}" + (f"; inert: {', '.join(inert)}" if inert else "")
    return [
        Mark(name="inert Params", value=len(inert), unit="Params", op="==", mark=0, reference=about),
        Mark(
            name="params check, all these robots",
            value=round(seconds, 2),
            unit="s",
            reference="each Param from low to high alone",
        ),
    ]


# -------------------------------------------------------------------- Go2 beside a public model of it


def go2_reference() -> list[Mark]:
    """Joint angles of our Go2 and of its public reference, without contact, 2 s under the same torques."""
    folder = Path(os.environ.get("SUREFOOT_ROBOTS", Path("..") / "shared" / "robots"))
    file = folder / "unitree_go2" / "go2.xml"
    name, about = "Go2 - reference, 2 s without contact", "unitree_go2/go2.xml of the public collection, same torques"
    if not file.is_file():
        absent = "the reference is absent: SUREFOOT_ROBOTS names the folder that holds unitree_go2/go2.xml"
        return [Mark(name=name, value=None, unit="rad", op="<=", mark=1e-6, reference=absent)]
    gap = contact_free_gap(load("go2"), file)
    return [Mark(name=name, value=gap, unit="rad", op="<=", mark=1e-6, reference=about)]


def contact_free_gap(robot: Robot, file: Path, *, seconds: float = 2.0) -> float:
    """Largest difference of a joint angle [rad] between our model and `file`: free fall, sines of torque."""
    models = [robot.spec().compile(), mujoco.MjModel.from_xml_path(str(file))]
    datas = [mujoco.MjData(model) for model in models]
    for model, data in zip(models, datas, strict=True):
        model.opt.timestep, model.opt.integrator, model.opt.cone, model.opt.impratio = robot.timestep, 3, 0, 1.0
        model.geom_contype[:] = model.geom_conaffinity[:] = 0
        data.qpos[:7] = [0, 0, 0.4, 1, 0, 0, 0]
        for joint in robot.joints:
            data.joint(joint).qpos = robot.pose[joint]
    dofs = [[int(model.joint(joint).dofadr[0]) for joint in robot.joints] for model in models]
    phase, gap = np.random.default_rng(SEED).uniform(0, 2 * np.pi, len(robot.joints)), 0.0
    for step in range(round(seconds / robot.timestep)):
        torque = 6.0 * np.sin(2 * np.pi * step * robot.timestep + phase)  # [N·m]
        angles = []
        for model, data, dof in zip(models, datas, dofs, strict=True):
            data.qfrc_applied[dof] = torque
            mujoco.mj_step(model, data)
            angles.append([data.joint(joint).qpos[0] for joint in robot.joints])
        gap = max(gap, float(np.abs(np.subtract(*angles)).max()))
    return gap
