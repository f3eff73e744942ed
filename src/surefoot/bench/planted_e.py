"""Planted truth: does `identify` find the e of robots whose e is known, as well as the Cramér-Rao bound allows, and does it say so?

    error_i = (ê_i - e_i) / σ_i,   σ² = diag (P + F(e))⁻¹: nobody can do better than σ on average

A bound is a bound for one f and one law of noise, here white: the robots have the fitting side's physics, and encoders whose steps are
replaced by white noise of the same size. Robots with steps larger than their noise are fitted a second time with their steps as they
are, under the name ROBOT-steps: then intervals must hold all the same, while errors may exceed a bound that is not theirs.

A scalar counts as named where `identify` says that its information is missing. One that it found and calls hardly separated from another is
judged like any other. What was named although the motion shows it is not judged by the marks; rows beside them judge all that is shown.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.bench.cases import work
from surefoot.bench.table import Mark, Op, Request, Result
from surefoot.errors import choose
from surefoot.identify import identify
from surefoot.identify.excitations import FAMILIES
from surefoot.identify.excite import Beliefs, Effort, Judge, usual_limits
from surefoot.identify.fit import Fit
from surefoot.identify.identifiable import LEARNT
from surefoot.identify.information import Information, Lens, sensor_noise_of
from surefoot.logs import Log
from surefoot.params import E
from surefoot.robots import Robot, SensorSpec, load
from surefoot.sim import Sim
from surefoot.sim.record import Recording

FIXED = 0.5
"""Standard deviation left over that before, from which a scalar counts as not identified by a motion."""
WINDOW = 1.0
"""[s]"""
FLAGS = ("shown", "covered", "named", "paired")
"""What a kept case says of a scalar, one digit each."""
STEPS = "-steps"
"""What the names of robots end with whose encoders keep their steps."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One sort of stand-in robot: which, how it is held, what is unknown about it, for how long it moves."""

    robot: str
    only: tuple[str, ...]
    seconds: float
    air: bool = False

    def load(self, steps: bool = False) -> Robot:
        """The robot, its Params those that are unknown here: what is absent costs nothing; with the `steps` of its encoders or without."""
        robot = load(self.robot)
        robot = robot.suspended() if self.air else robot
        sensors = robot.sensors if steps else tuple(smooth(sensor) for sensor in robot.sensors)
        return replace(robot, params=robot.params.only(*self.only), sensors=sensors)

    @property
    def stepped(self) -> bool:
        """Whether the steps of its encoders are larger than their noise."""
        return any(s.figures.get("quantum", 0.0) > s.figures.get("noise", 0.0) for s in load(self.robot).sensors)


def smooth(sensor: SensorSpec) -> SensorSpec:
    """A sensor with white noise in place of its steps q, of the same variance q²/12."""
    figures = dict(sensor.figures)
    if step := figures.pop("quantum", 0.0):
        figures["noise"] = float(np.hypot(figures.get("noise", 0.0), step / np.sqrt(12.0)))
    return replace(sensor, figures=figures)


KINDS: dict[str, Kind] = {
    "qube": Kind(
        robot="qube",
        only=(
            "torque_constant", "resistance", "arm_mass", "pendulum_mass", "pendulum_com", "arm_damping", "pendulum_damping", "arm_coulomb",
            "command_delay", "encoder_bias",
        ),
        seconds=6.0,
    ),
    "servo": Kind(
        robot="servo",
        only=("kp", "kd", "armature", "damping", "coulomb", "command_delay", "encoder_bias", "arm_mass"),
        seconds=6.0,
    ),
    "go2": Kind(
        robot="go2",
        only=("kp", "kd", "strength", "armature", "damping", "coulomb", "command_delay", "sensor_delay", "encoder_bias"),
        seconds=6.0,
        air=True,
    ),
    "so101": Kind(
        robot="so101",
        only=("kp", "kd", "armature", "damping", "coulomb", "gripper_mass", "command_delay", "encoder_bias"),
        seconds=8.0,
    ),
}  # fmt: skip


class Hidden:
    """A stand-in robot with a hidden e and sensors with noise and steps of their own.

    Args:
        robot: as the fitting side knows it.
        sim: the fitting side's, for the schema of e.
        e: one row of all Params.
        seed: of its noise.
    """

    def __init__(self, robot: Robot, sim: Sim, e: E, *, seed: int):
        self.sim = Sim(robot, sim.params, worlds=1, threads=1, seed=seed)
        self.sim.apply(e)

    def play(self, u: np.ndarray) -> Log:
        """The log of commands u (T, nu), played from the default pose at rest."""
        sim = self.sim
        sim.reset()
        recording = Recording(sim)
        for row in u:
            recording.add(sim.sense(), row)
            sim.step(row)
        recording.add(sim.sense(), u[-1])
        return recording.log()


def hidden_e(sim: Sim, only: tuple[str, ...], seed: int) -> E:
    """An e drawn from the middle nine tenths of the prior for the Params `only`; the others are nominal."""
    rng = np.random.default_rng(seed)
    chosen = sim.params.only(*only)
    z = np.log((s := rng.uniform(0.05, 0.95, (1, chosen.d))) / (1 - s))
    return {**sim.params.nominal_e(1), **chosen.unpack(z)}


def judge_of(sim: Sim, only: tuple[str, ...], e: E | None = None, samples: int = 4) -> Judge:
    """A judge of motions for these Params: over the prior, or (the truth being known) at e alone."""
    beliefs = Beliefs(sim, None, only, samples, 0)
    if e is not None:
        beliefs.e = e
    lens = Lens(names=beliefs.names, noise=sensor_noise_of(sim), window=WINDOW)
    return Judge(sim, Information(sim, lens), beliefs, usual_limits(sim, beliefs.names), Effort())


@dataclass(frozen=True, kw_only=True)
class Found:
    """One stand-in robot, by scalar.

    Attributes:
        names: of the scalars.
        shown: whether its motion shows it.
        error: over the bound.
        covered: whether the interval holds.
        named: whether it is named as one whose information is missing.
        paired: whether it is named as identified but hardly separated from another.
    """

    names: tuple[str, ...]
    shown: np.ndarray
    error: np.ndarray
    covered: np.ndarray
    named: np.ndarray
    paired: np.ndarray


def planted(kind: Kind, seed: int, *, steps: bool = False) -> Found:
    """Hide an e, record two motions, fit the first, and compare with the truth and with the bound."""
    robot = kind.load(steps)
    sim = Sim(robot, threads=0)
    e = hidden_e(sim, kind.only, seed)
    known = judge_of(sim, kind.only, e)
    grid, rng = known.grid(kind.seconds), np.random.default_rng(seed + 1)
    family = FAMILIES["multi-sine"]
    u, _ = known.scaled(family.motions(family.random(2, grid, rng), grid))
    twin = Hidden(robot, sim, e, seed=seed)
    logs = [twin.play(row) for row in u]
    fit = identify(sim, logs[0], only=kind.only, held_out=[logs[1]], window=WINDOW)
    information = known.information(u[:1], e)[0]
    bound, before = known.beliefs.expected(information), known.beliefs.std
    truth = known.beliefs.params.flatten({n: e[n] for n in kind.only})[0]
    interval = fit.intervals(0.9)
    named = missing(fit)
    return Found(
        names=fit.names,
        shown=bound < FIXED * before,
        error=(fit.values - truth) / bound,
        covered=(interval[:, 0] <= truth) & (truth <= interval[:, 1]),
        named=named,
        paired=np.array([any(name in c.names for c in fit.unidentified) for name in fit.names]) & ~named,
    )


def missing(fit: Fit) -> np.ndarray:
    """Which scalars a fit names in a direction that the logs did not narrow, (d,); pairs that are each identified are none."""
    lost = {name for c in fit.unidentified if c.shrink > LEARNT for name in c.names}
    return np.array([name in lost for name in fit.names])


def measure(request: Request) -> Result:
    """Marks over 50 stand-in robots a seed (8 when quick); the robots of the first seed are the same with more."""
    import time

    begin = time.perf_counter()
    counts = {"qube": 14, "servo": 12, "go2": 12, "so101": 12}
    if request.quick:
        counts = dict.fromkeys(counts, 2)
    counts = {name: n * max(request.seeds, 1) for name, n in counts.items()}
    cases = {f"{name} {i}": _case(name, i) for name, n in counts.items() for i in range(n)}
    cases |= {
        f"{name}{STEPS} {i}": _case(name, i, steps=True)
        for name, n in counts.items()
        if KINDS[name].stepped
        for i in range(n)
    }
    marks = summary(work("planted-e", cases, request), request)
    return Result(
        bench="planted-e", marks=tuple(marks), seed=0, seconds=time.perf_counter() - begin, quick=request.quick
    )


def _case(name: str, i: int, *, steps: bool = False) -> Any:
    def run() -> list[Mark]:
        found = planted(KINDS[choose(name, KINDS, "a stand-in")], zlib.crc32(f"{name} {i}".encode()), steps=steps)
        return [
            Mark(
                name=f"{name}{STEPS if steps else ''} {i} {label}",
                value=float(error),
                reference=f"{int(shown)}{int(covered)}{int(named)}{int(paired)}",
            )
            for label, shown, error, covered, named, paired in zip(
                found.names, found.shown, found.error, found.covered, found.named, found.paired, strict=True
            )
        ]

    return run


def summary(rows: list[Mark], request: Request) -> list[Mark]:
    """The marks over all stand-ins, then by robot; `rows` hold one scalar each."""
    marks = []
    for robot in ("all", "steps", *KINDS, *(f"{name}{STEPS}" for name in KINDS)):
        mine = [r for r in rows if _of(r.name.split()[0], robot)]
        if not mine:
            continue
        flags = {name: np.array([r.reference[i] == "1" for r in mine]) for i, name in enumerate(FLAGS)}
        marks += _marks(robot, {"error": np.array([r.value for r in mine], dtype=float), **flags}, mine)
    return marks


def _of(name: str, group: str) -> bool:
    """Whether a stand-in is one of a group: a sort of robot, "all" without steps, or all with "steps"."""
    return name == group or group == ("steps" if name.endswith(STEPS) else "all")


def _marks(robot: str, a: Mapping[str, np.ndarray], rows: list[Mark]) -> list[Mark]:
    whole, stepped = robot == "all", robot == "steps"
    shown, named = a["shown"], a["named"]
    judged, hidden = shown & ~named, ~shown
    robots = len({" ".join(r.name.split()[:2]) for r in rows})
    error = np.abs(a["error"])
    about = f"{robots} robots, {int(judged.sum())} identified scalars of {len(rows)}"
    false = f"of which {int((shown & named).sum())} are named as not identified"
    every = f"{robots} robots, {int(shown.sum())} shown scalars of {len(rows)}, {false}"
    label = "planted e" if whole else "planted e, encoders with steps" if stepped else f"planted e, {robot}"
    below = f"{int(shown.sum())} scalars whose bound is below {FIXED:g} of what was believed"
    above = f"{int(hidden.sum())} scalars whose bound is above {FIXED:g} of what was believed"

    def share(what: np.ndarray, of: np.ndarray) -> float | None:
        return float(what[of].mean()) if of.any() else None

    def size(of: np.ndarray) -> str:
        return f"root mean square {np.sqrt((error[of] ** 2).mean()) if of.any() else 0.0:.2f}"

    def mark(name: str, value: float | None, op: Op | None, wanted: float | None, reference: str) -> Mark:
        """Judged for all robots together only; where encoders have steps, all but the bound."""
        judged = whole or (stepped and not name.startswith("errors"))
        return Mark(
            name=f"{label}: {name}",
            value=value,
            op=op if judged else None,
            mark=wanted if judged else None,
            reference=reference,
        )

    within, covered = error <= 3.0, a["covered"]
    marks = [
        mark("errors within 3 standard deviations of the bound", share(within, judged), ">=", 0.99, f"{about}; {size(judged)}"),
        mark("90 % intervals cover the truth", share(covered, judged), ">=", 0.85, about),
        mark("scalars that no motion showed, named", share(named, hidden), ">=", 0.95, above),
        mark("errors within 3 standard deviations, all shown scalars", share(within, shown), None, None, f"{every}; {size(shown)}"),
        mark("90 % intervals cover the truth, all shown scalars", share(covered, shown), None, None, every),
        mark("shown scalars falsely named as not identified", share(named, shown), None, None, below),
        mark("shown scalars named as hardly separated", share(a["paired"], shown), None, None, f"{below}; they are judged"),
    ]  # fmt: skip
    if whole or stepped:
        marks.append(mark("90 % intervals are not too wide (cover)", share(covered, judged), "<=", 0.95, about))
    return marks
