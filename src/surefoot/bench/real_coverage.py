"""Do the intervals of short cuts hold what the whole recording says? Honest ones and white-noise ones, side by side.

    coverage = share of (cut, scalar) whose 90 % interval from 5 s holds the value fitted to all seconds
    width    = median over recordings and scalars of (median interval width) / (central 90 % of the cuts' values)

Every fit starts from nominal values; cuts overlap and lie evenly over the recording. Simulation error over windows of 0.5 s, start
states estimated. A scalar that ends at a bound in every cut has no spread and does not count for the width.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.bench.real_data import absent, data_folder, in_the_air, logs_of
from surefoot.bench.table import Mark, Request
from surefoot.identify import Fit, identify
from surefoot.logs import Log
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import Params
from surefoot.robots import load
from surefoot.sim import Sim

CUT = 5.0  # [s]
WINDOW = 0.5  # [s]
LEVEL = 0.9
COVER = 0.8
WIDE = 3.0
LONGEST = 30.0
"""[s] Of each recording, so that a long one does not take all the time."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One set: its Sim, which Params are fitted, the recordings that are fitted together, and where their cuts begin."""

    name: str
    sim: Sim
    only: tuple[str, ...]
    logs: tuple[Log, ...]
    stride: float  # [s]


def measure(request: Request) -> list[Mark]:
    """Rows of all sets."""
    marks: list[Mark] = []
    for name, make in {"EMPS": emps, "Go2": go2, "Qube": qube}.items():
        answers = []
        for case in make(request):
            request.tell(f"coverage: {case.name}, {len(case.logs)} recordings")
            answers += answer(case)
        where = f"no recording of {name} of {2 * CUT:g} s or more below {data_folder(request).name}/"
        marks += rows(name, answers) if answers else [absent(f"coverage, {name}", where)]
    return marks


def emps(request: Request) -> Iterable[Case]:
    """The slide: mass, friction, offset."""
    logs = logs_of(data_folder(request), "emps", lambda log: "force_pulse" not in log)
    if logs:
        only = ("mass", "damping", "coulomb", "tilt")
        yield Case(name="EMPS", sim=Sim(load("emps")), only=only, logs=logs, stride=5.0 if request.quick else 1.5)


def go2(request: Request) -> Iterable[Case]:
    """Legs in the air, a case a recording, since gains differ: inertia and friction by sort of joint, delay, encoder zeros."""
    for mapping in ("go2_motor_dls", "go2_motor_steps")[: 1 if request.quick else 2]:
        for number, log in enumerate(logs_of(data_folder(request), mapping)):
            some = log.window(log.start, log.start + LONGEST)
            sim = Sim(in_the_air(load("go2"), log), go2_params())
            name = f"Go2 {mapping.removeprefix('go2_motor_')} {number}"
            yield Case(name=name, sim=sim, only=tuple(sim.params), logs=(some,), stride=5.0 if request.quick else 2.5)


def go2_params() -> Params:
    """Unknowns of legs in the air: the calf's linkage has inertia of its own, friction that differs from leg to leg, and a stop that it
    rests against.
    """
    upper, calf, every = ".*_(hip|thigh)_joint", ".*_calf_joint", ".*_joint"
    return Params(
        armature=P["armature"](upper, low=0.0, high=0.06, nominal=0.01),
        armature_calf=P["armature"](calf, low=0.0, high=0.15, nominal=0.02),
        damping=P["damping"](upper, low=0.0, high=3.0, nominal=0.5),
        damping_calf=P["damping"](calf, low=0.0, high=3.0, nominal=0.5),
        coulomb=P["coulomb"](upper, low=0.0, high=1.5, nominal=0.2),
        coulomb_calf=P["coulomb"](calf, low=0.0, high=3.0, nominal=0.2, each=True),
        calf_stop=P["stop_shift"](calf, low=-0.3, high=0.1, nominal=0.0),
        calf_stop_softness=P["stop_softness"](calf, low=0.01, high=0.3, nominal=0.02, scale="log"),
        command_delay=P["command_delay"](low=0.0, high=0.04, nominal=0.01),
        encoder_bias=P["encoder_bias"](every, low=-0.1, high=0.1, nominal=0.0, each=True),
    )


def qube(request: Request) -> Iterable[Case]:
    """Swing-ups, and chirps: cuts of one recording and between recordings."""
    every = logs_of(data_folder(request), "quanser_qube", lambda log: "filt" not in str(log.meta.get("experiment", "")))
    chirps = tuple(log for log in every if "ch" in str(log.meta.get("experiment", "")))
    swings = tuple(log for log in every if log.hash not in {c.hash for c in chirps})
    sim = Sim(dataclasses.replace(load("qube"), timestep=0.002), qube_params())
    for name, logs, most, stride in (
        ("swing-ups", swings, 4 if request.quick else 8, CUT),
        ("chirps", chirps, 1 if request.quick else 2, 2.5),
    ):
        if logs:
            some = logs[:: max(1, len(logs) // most)][:most]
            only = tuple(sim.params) if name == "chirps" else tuple(n for n in sim.params if not n.startswith("cable"))
            yield Case(name=f"Qube {name}", sim=sim, only=only, logs=some, stride=stride)


def qube_params() -> Params:
    """Unknowns of the Qube; voltage and torque scale together, so the motor's constants are taken as given."""
    return Params(
        arm_mass=P["mass"]("arm", low=0.05, high=0.4, nominal=0.095),
        pendulum_com=P["com"]("pendulum", low=-0.02, high=0.03, nominal=0.0, axis="z"),
        arm_damping=P["damping"]("arm", low=0.0, high=1e-3, nominal=5e-6),
        pendulum_damping=P["damping"]("pendulum", low=0.0, high=2e-4, nominal=1e-6),
        arm_coulomb=P["coulomb"]("arm", low=0.0, high=4e-3, nominal=0.0),
        command_delay=P["command_delay"](low=0.0, high=0.02, nominal=0.0),
        cable=P["cable_stiffness"]("arm", low=0.0, high=1e-2, nominal=0.0),
        cable_rest=P["cable_rest"]("arm", low=-2.0, high=2.0, nominal=0.0, stiffness=1e-3),
    )


# -------------------------------------------------------------------- cuts


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the cuts of one case gave: shares of honest and white-noise intervals that hold the all-data values, and widths."""

    name: str
    cuts: int
    held: np.ndarray  # (cuts, d) bool
    white: np.ndarray  # (cuts, d) bool
    widths: np.ndarray  # median interval over the spread between cuts, of every scalar that has one


def answer(case: Case) -> list[Answer]:
    """The fit to all seconds against the fits to the cuts; nothing for a case with fewer than two."""
    pieces = cuts(case.logs, case.stride)
    if len(pieces) < 2:
        return []
    whole, fits = _fit(case, case.logs), [_fit(case, (piece,)) for piece in pieces]
    held, white = (holds(fits, whole.values, white=w) for w in (False, True))
    return [Answer(name=case.name, cuts=len(fits), held=held, white=white, widths=widths(fits))]


def rows(name: str, answers: Sequence[Answer]) -> list[Mark]:
    """Coverage and width of one set, all its cases together, with the white-noise intervals beside."""
    held, white = (float(np.concatenate([np.ravel(getattr(a, k)) for a in answers]).mean()) for k in ("held", "white"))
    each = "; ".join(f"{a.name} {a.held.mean():.2f} of {a.cuts} cuts x {a.held.shape[1]} scalars" for a in answers)
    ratio = float(np.median(np.concatenate([a.widths for a in answers])))
    apart = "; ".join(f"{a.name} {np.median(a.widths):.2g}" for a in answers if len(a.widths))
    return [
        Mark(
            name=f"coverage, {name}: 90 % intervals of {CUT:g} s cuts that hold the all-data value", value=held, op=">=", mark=COVER,
            reference=f"{each}; simulation error over {WINDOW:g} s, start states estimated; mujoco.sysid: two 95 % intervals of one EMPS "
            f"file are disjoint",
        ),
        Mark(
            name=f"coverage, {name}: width over the spread between cuts", value=ratio, op="<=", mark=WIDE,
            reference=f"median over scalars; spread: central 90 % of the cuts' values; {apart}",
        ),
        Mark(name=f"coverage, {name}: white-noise intervals", value=white, reference="the same fits, residuals taken as independent"),
    ]  # fmt: skip


def _fit(case: Case, logs: Sequence[Log]) -> Fit:
    return identify(case.sim, logs, only=case.only, channels=("joint_pos",), window=WINDOW, held_out=0.0)


def cuts(logs: Sequence[Log], stride: float) -> list[Log]:
    """Pieces of CUT seconds, `stride` seconds apart, of every log."""
    out = []
    for log in logs:
        first, last = float(log["joint_pos"].t[0]), float(log["joint_pos"].t[-1])
        count = int(np.floor((last - first - CUT) / stride + 0.02)) + 1 if last - first >= 0.98 * CUT else 0
        out += [log.window(first + k * stride - 1e-9, first + k * stride + CUT + 1e-9) for k in range(max(count, 0))]
    return out


def holds(fits: Sequence[Fit], values: np.ndarray, *, white: bool) -> np.ndarray:
    """Whether the interval of every fit and scalar holds `values` (d,), (fits, d)."""
    ends = np.array([fit.intervals(LEVEL, white=white) for fit in fits])  # (fits, d, 2)
    slack = 1e-9 * (fits[0].params.high - fits[0].params.low)
    return (ends[..., 0] <= values + slack) & (values - slack <= ends[..., 1])


def widths(fits: Sequence[Fit]) -> np.ndarray:
    """Median interval width of every scalar over the central 90 % of the fits' values; scalars whose values do not move are left out."""
    values, ends = np.array([fit.values for fit in fits]), np.array([fit.intervals(LEVEL) for fit in fits])
    between = np.quantile(values, 0.95, axis=0) - np.quantile(values, 0.05, axis=0)
    moving = between > 1e-6 * (fits[0].params.high - fits[0].params.low)
    wide = np.median(ends[..., 1] - ends[..., 0], axis=0)
    return wide[moving] / between[moving]
