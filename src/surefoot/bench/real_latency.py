"""Is a delay found to the millisecond? Recordings whose commands are stamped earlier by a known time, fitted anew.

    fitted delay of the shifted recording - fitted delay of the recording itself - shift  -> 0

Delays are continuous: what the motor gets in a time step is the mean of the held command over it, so a shift of a quarter of a sample
is as good as any. Every fit starts from nominal values and knows nothing of the shift. All recordings are stamped BASE earlier first,
since one whose commands are stamped late would need a delay below zero. In an open-loop replay command and sensor delay act as their
sum; that sum is meant here.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.bench.real_coverage import go2_params, qube_params
from surefoot.bench.real_data import absent, data_folder, in_the_air, logs_of
from surefoot.bench.table import Mark, Request
from surefoot.identify import Fit, identify
from surefoot.logs import Log
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import Params
from surefoot.robots import load
from surefoot.sim import Sim

SHIFTS = (0.0, 0.0043, 0.0131, 0.027, 0.040)  # [s]
QUICK = (0.0, 0.0131, 0.040)  # [s]
BASE = 0.05  # [s]
LONGEST = 8.0  # [s] of each recording
WINDOW = 0.5  # [s]
NEAR = 1.0  # [ms]
UNTOLD = 5.0  # [ms], half width of an interval from which a recording is said not to tell its own delay
DELAY = P["command_delay"](low=0.0, high=0.16, nominal=BASE)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One set: its Sim, the recordings that are fitted together, and actuators they have no command for."""

    name: str
    sim: Sim
    logs: tuple[Log, ...]
    hold: tuple[str, ...] = ()


def measure(request: Request) -> list[Mark]:
    """Rows of all sets."""
    marks: list[Mark] = []
    for name, make in {"Go2": go2, "Qube": qube, "SO-101": so101}.items():
        cases = list(make(request))
        if not cases:
            marks.append(absent(f"latency, {name}", f"no recording of {name} below {data_folder(request).name}/", "ms"))
        for case in cases:
            request.tell(f"latency: {case.name}")
            marks += rows(case, QUICK if request.quick else SHIFTS)
    return marks


def go2(request: Request) -> Iterable[Case]:
    """Legs in the air, a case a recording."""
    for mapping in ("go2_motor_dls", "go2_motor_steps")[: 1 if request.quick else 2]:
        for log in logs_of(data_folder(request), mapping)[:1]:
            sim = Sim(in_the_air(load("go2"), log), Params(**{**go2_params(), "command_delay": DELAY}))
            yield Case(name=f"Go2 {mapping.removeprefix('go2_motor_')}", sim=sim, logs=(_short(log),))


def qube(request: Request) -> Iterable[Case]:
    """A chirp, or a swing-up where there is none."""
    logs = logs_of(data_folder(request), "quanser_qube")
    chirps = [log for log in logs if "ch" in str(log.meta.get("experiment", ""))] or list(logs)
    if chirps:
        sim = Sim(
            dataclasses.replace(load("qube"), timestep=0.002), Params(**{**qube_params(), "command_delay": DELAY})
        )
        yield Case(name="Qube", sim=sim, logs=(_short(chirps[0]),))


def so101(request: Request) -> Iterable[Case]:
    """The motions with the fastest commands."""
    logs = logs_of(data_folder(request), "so101_sage")
    if not logs:
        return
    lively = sorted(logs, key=lambda log: -float(np.abs(np.diff(log["joint_pos_target"].values, axis=0)).mean()))
    robot = load("so101")
    given = {n: p for n, p in robot.params.items() if n in ("damping", "coulomb", "encoder_bias")}
    params = Params(**given, kp=robot.params["kp"], kd=robot.params["kd"], command_delay=DELAY)
    sim = Sim(dataclasses.replace(robot, timestep=0.004), params)
    hold = tuple(n for n in sim.command_names if n not in lively[0]["joint_pos_target"].columns)
    yield Case(
        name="SO-101", sim=sim, logs=tuple(_short(log) for log in lively[: 1 if request.quick else 2]), hold=hold
    )


def _short(log: Log) -> Log:
    """The part of a recording with the most motion, LONGEST seconds of it."""
    t, u = log["joint_pos"].t, log["joint_pos"].values
    if t[-1] - t[0] <= LONGEST:
        return log
    lively = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(u, axis=0)).sum(1))])
    ends = np.searchsorted(t, t + LONGEST)
    fits = ends < len(t)
    first = int(np.argmax((lively[np.minimum(ends, len(t) - 1)] - lively)[fits]))
    return log.window(float(t[first]), float(t[first]) + LONGEST)


def _fit(case: Case, shift: float) -> Fit:
    """The fit, from nominal values, to recordings whose commands are stamped BASE + shift [s] earlier."""
    logs = [log.shift(case.sim.command_channel, -BASE - shift) for log in case.logs]
    return identify(case.sim, logs, channels=("joint_pos",), window=WINDOW, held_out=0.0, hold=case.hold)


def rows(case: Case, shifts: Sequence[float]) -> list[Mark]:
    """Largest error of a change of the delay over the shifts, and the interval of the delay itself; the first shift is 0."""
    fits = [_fit(case, shift) for shift in shifts]
    delays = np.array([fit["command_delay"] for fit in fits])
    ends = np.array([fit.intervals()[fit.names.index("command_delay")] for fit in fits])
    changes = 1e3 * (delays[1:] - delays[0] - np.array(shifts[1:]))
    own, half = 1e3 * (delays[0] - BASE), 1e3 * float(np.median(ends[:, 1] - ends[:, 0])) / 2
    told = ", ".join(f"{1e3 * s:.1f}: {1e3 * (d - delays[0]):.2f}" for s, d in zip(shifts[1:], delays[1:], strict=True))
    itself = f"delay of the recording itself {own:.2f} ms ± {half:.2f} (90 %)"
    if half > UNTOLD:
        itself += (
            f", which is wider than ±{UNTOLD:g} ms: this motion does not tell its delay from what else is fitted, as one speed does not "
            "tell it from friction; only the change means something"
        )
    return [
        Mark(
            name=f"latency, {case.name}: change of the fitted delay minus the shift, worst", value=float(np.abs(changes).max()), unit="ms",
            op="<=", mark=NEAR, reference=f"shift: change [ms] {told}, every fit from nominal values; {itself}; elsewhere whole steps",
        ),
        Mark(name=f"latency, {case.name}: half width of the 90 % interval", value=half, unit="ms", reference="median over the shifts"),
    ]  # fmt: skip
