"""`surefoot bench physx`: what an independent engine says about our robots, our contact and a policy that never met it.

Fixed base: no contact, so the engines must agree, or the description is wrong. With contact they differ, and how much says what MuJoCo's
soft contact does to a motion. A policy trained in MuJoCo alone is then judged in both, in the same worlds.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.bench.cases import work
from surefoot.bench.table import Mark, Request, Result
from surefoot.errors import InputError
from surefoot.params import Params
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.sim.build import Built, build

ROBOT, POLICY, SEED = "go2", "go2-walk", 20_260
ARMS_AND_LEGS = ("g1", "so101", "hopper", "double_pendulum", "cartpole", "servo", "qube", "emps")
"""Robots whose description is examined beside Go2's."""
EPISODES, EPISODES_QUICK = 256, 32
MOTIONS, SECONDS = 8, 2.0
"""Different motions with contact, and the length of each [s]: stick and slip make longer ones diverge."""
STEP = 0.001
"""Time step of the motions with contact, in every engine [s]."""
STIFF = {"solref": (0.004, 1.0), "solimp": (0.99, 0.999, 0.0005), "impratio": 100.0}
"""Contact as hard as MuJoCo can have it, with an elliptic cone."""
NOTED = "the engines' survey before this project: 23.7 mrad and 2.5 mrad with another quadruped"


def measure(request: Request) -> Result:
    """All cases; without the extra `physx` each is absent and says so."""
    start = time.perf_counter()
    cases = {
        "fixed base": fixed_base,
        "contact": contact,
        "standing": standing,
        "policy": lambda: policy(EPISODES_QUICK if request.quick else EPISODES),
    }
    if not request.quick:
        cases["stand-in robots"] = lambda: twins(request)
    try:
        from surefoot.sim.physx_scene import library

        library()
        marks = work("physx", cases, request)
    except InputError as error:
        marks = [Mark(name=f"physx: {name}", value=None, reference=str(error)) for name in cases]
    return Result(
        bench="physx", marks=tuple(marks), seed=SEED, seconds=time.perf_counter() - start, quick=request.quick
    )


# -------------------------------------------------------------------- without contact


def fixed_base() -> list[Mark]:
    """Largest difference of any joint over 2 s of a driven motion with the base held."""
    from surefoot.sim.physx_check import compare
    from surefoot.sim.physx_scene import library
    from surefoot.sim.urdf import describe

    found = {}
    for name in (ROBOT, *ARMS_AND_LEGS):
        model = build(load(name), Params()).model
        found[name] = max(compare(describe(model), model, seconds=2.0).values())
    others = max((v, n) for n, v in found.items() if n != ROBOT)
    version = f"sapien {library().__version__}, PhysX {library().physx.version()}"
    about = f"largest joint difference over 2 s, base held, armature and inertia frames included; {version}"
    return [
        Mark(name="fixed base: Go2 to MuJoCo", value=found[ROBOT], unit="rad", op="<=", mark=5e-5, goal=1.6e-5, reference=about),
        Mark(
            name="fixed base: all other robots", value=others[0], unit="rad", op="<=", mark=5e-5,
            reference=f"worst of {', '.join(ARMS_AND_LEGS)}: {others[1]}",
        ),
    ]  # fmt: skip


# -------------------------------------------------------------------- with contact


def contact() -> list[Mark]:
    """How far MuJoCo's default and its stiffest contact are from PhysX over the first two seconds."""
    paths = {
        "physx": motion("physx"),
        "default": motion("cpu"),
        "stiff": motion("cpu", stiff=True),
        "default, 5 ms": motion("cpu", step=0.005),
    }
    far = {
        name: 1e3 * np.sqrt(((path - paths["physx"]) ** 2).mean(axis=(0, 2)))
        for name, path in paths.items()
        if name != "physx"
    }
    about = f"{MOTIONS} motions of Go2: dropped from 3 cm, standing 1 s, then squatting and swaying; rms over 12 joints, {SECONDS:g} s"
    ratio = far["default"] / far["stiff"]
    return [
        Mark(
            name="contact: MuJoCo default to PhysX", value=float(far["default"].mean()), unit="mrad",
            reference=f"{about}; {_span(far['default'])}; {NOTED}",
        ),
        Mark(
            name="contact: MuJoCo stiff, elliptic to PhysX", value=float(far["stiff"].mean()), unit="mrad", goal=2.5,
            op="<=", mark=5.0, reference=f"impratio 100, solref 0.004, solimp 0.99 .. 0.999; {_span(far['stiff'])}",
        ),
        Mark(
            name="contact: default over stiff", value=float(ratio.min()), unit="x", op=">=", mark=3.0,
            reference=f"least of the motions; {_span(ratio)}",
        ),
        Mark(
            name="contact: MuJoCo default at 5 ms to PhysX", value=float(far["default, 5 ms"].mean()), unit="mrad",
            reference=f"the time step that policies are trained at; {_span(far['default, 5 ms'])}",
        ),
    ]  # fmt: skip


def _span(values: np.ndarray) -> str:
    return f"{values.min():.2f} .. {values.max():.2f}"


def motion(engine: str, *, stiff: bool = False, step: float = STEP) -> np.ndarray:
    """Joint angles (steps, motions, 12) [rad] of Go2 at its nominal e, without delay, driven open loop."""
    robot = replace(load(ROBOT), timestep=step)
    sim = Sim(robot, worlds=MOTIONS, engine=engine, noise=False, built=_built(robot, stiff))
    sim.apply({"command_delay": np.zeros(MOTIONS)})
    start = sim.start_qpos
    start[2] += 0.03
    sim.reset(qpos=start)
    hips, thighs, calves = (np.array([part in j for j in robot.joints]) for part in ("hip", "thigh", "calf"))
    sway, squat = np.linspace(0.02, 0.1, MOTIONS)[:, None], np.linspace(0.2, 0.06, MOTIONS)[:, None]
    out = []
    for k in range(round(SECONDS / sim.control_dt)):
        t = max(k * sim.control_dt - 1.0, 0.0)
        down, aside = np.sin(2 * np.pi * 1.5 * t), np.sin(2 * np.pi * 0.75 * t)
        sim.step(sim.rest_command + squat * down * thighs - 2 * squat * down * calves + sway * aside * hips)
        out.append(sim.engine.qpos[:, sim.sensors.q].copy())
    return np.array(out)


def _built(robot: Any, stiff: bool) -> Built:
    built = build(robot, robot.params)
    model = built.model
    if stiff:
        model.opt.cone, model.opt.impratio = 1, STIFF["impratio"]
        model.geom_solref[:], model.geom_solimp[:, :3] = STIFF["solref"], STIFF["solimp"]
    return built


def standing() -> list[Mark]:
    """Whether feet sink, and whether they carry the robot."""
    sim = Sim(load(ROBOT), worlds=1, engine="physx", noise=False)
    depth, loads = 0.0, []
    for k in range(100):
        sim.step(sim.rest_command)
        if k >= 50:
            depth = max(depth, sim.engine.scenes[0].depth())  # type: ignore[attr-defined]
            loads.append(float(sim.sense()["foot_force"].sum()))
    weight = float(sim.model.body_mass.sum() * 9.81)
    return [
        Mark(name="standing: deepest contact", value=1e3 * depth, unit="mm", op="<=", mark=0.5, reference="Go2, 1 s after 1 s of settling"),
        Mark(
            name="standing: weight on the feet", value=float(np.mean(loads)) / weight, unit="1",
            reference=f"mean over 1 s of the four foot sensors, over {weight:.1f} N",
        ),
    ]  # fmt: skip


# -------------------------------------------------------------------- a policy that never met it


def policy(episodes: int) -> list[Mark]:
    """Success of the shipped policy over the default randomization, in MuJoCo and in PhysX, in the same worlds."""
    from surefoot.evaluate.intervals import share

    judged = {engine: judged_in(engine, episodes) for engine in ("cpu", "physx")}
    success = {engine: np.asarray(found.success, dtype=float) for engine, found in judged.items()}
    here, there = share(success["cpu"]), share(success["physx"])
    kept = there.value / max(here.value, 1e-9)
    low, high = ratio_interval(success["physx"], success["cpu"])
    about = (
        f"{episodes} episodes of 10 s, e ~ the robot's default Params, the same e, starts, commands and noise in both"
    )
    rows = [
        Mark(
            name="policy: success kept in PhysX", value=kept, op=">=", mark=0.9,
            reference=f"{POLICY}, trained in MuJoCo alone; 90 % interval {low:.3f} .. {high:.3f}; {about}",
        ),
        Mark(name="policy: success in MuJoCo", value=here.value, reference=f"90 % interval {here.low:.3f} .. {here.high:.3f}"),
        Mark(name="policy: success in PhysX", value=there.value, reference=f"90 % interval {there.low:.3f} .. {there.high:.3f}"),
    ]  # fmt: skip
    for engine, name in (("cpu", "MuJoCo"), ("physx", "PhysX")):
        error = judged[engine].summary["error"]
        span = f"90 % interval {error.low:.3f} .. {error.high:.3f}"
        rows.append(Mark(name=f"policy: velocity error in {name}", value=error.value, unit="m/s", reference=span))
    return rows


def judged_in(engine: str, episodes: int) -> Any:
    """One episode of the shipped policy in each of `episodes` worlds of an engine."""
    from surefoot.deploy.bundle import load_bundle
    from surefoot.evaluate.judge import judge
    from surefoot.evaluate.walking import walking
    from surefoot.learn.walking import LESSONS

    sim = Sim(load(ROBOT), worlds=episodes, engine=engine, seed=SEED)
    act = load_bundle(POLICY).policy()
    e = sim.params.prior().sample(episodes, SEED)

    def play(observations: Any, _ended: Any) -> Any:
        seen = observations["policy"]
        return seen.new_tensor(act({"policy": seen.numpy()}))

    return judge(walking(LESSONS[ROBOT].task), sim, play, e=e, seed=SEED)


def ratio_interval(there: np.ndarray, here: np.ndarray, *, draws: int = 4000) -> tuple[float, float]:
    """90 % interval of mean(there) / mean(here) over the same worlds, by drawing worlds anew."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(here), (draws, len(here)))
    ratios = there[rows].mean(1) / np.maximum(here[rows].mean(1), 1e-9)
    low, high = np.quantile(ratios, [0.05, 0.95])
    return float(low), float(high)


def twins(request: Request) -> list[Mark]:
    """The same policy through the whole runtime on stand-in robots whose bodies PhysX moves."""
    from surefoot.bench.twins import COMMANDS, walk
    from surefoot.deploy.bundle import load_bundle
    from surefoot.hardware.connect import shipped

    bundle = load_bundle(POLICY).folder
    rows = []
    for name in shipped(ROBOT, engine="physx"):
        runs = [walk(bundle, name, command) for command in COMMANDS]
        errors = ", ".join(f"{run.speed_error:.2f}" for run in runs)
        request.tell(f"physx: {name}: {sum(run.success for run in runs)} of {len(runs)}")
        rows.append(
            Mark(
                name=f"stand-in: success on {name}", value=float(np.mean([run.success for run in runs])),
                reference=f"level {runs[0].level:g}; {sum(r.survived for r in runs)} of {len(runs)} survived; speed errors {errors} m/s",
            )
        )  # fmt: skip
    return rows
