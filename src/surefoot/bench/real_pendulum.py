"""DFKI double pendulum: two drives, recorded positions and commanded torques; identification runs, some of which only judge.

    metric: RMSE [rad] of both joints over 0.5 s ahead, windows back to back
    start: estimated from the 12 readings before; the encoders' zeros from the readings of the run up to then

The encoders are zeroed by hand before every run, where dry friction lets the pendulum rest: up to 0.05 rad from hanging, and elsewhere in
every run. A zero is therefore part of a run's start, not of the robot: fitted runs have one each, and a run that judges shows its
own as it goes on. A row without a mark holds all zeros at none.

Which unknowns to fit was chosen with all runs of design C.1 but three in view, those that judge when one folder is given among them.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from surefoot.bench.real_ahead import LEAD, Ahead, ahead, together
from surefoot.bench.real_data import Recordings, absent, data_folder, recordings
from surefoot.bench.real_qube import ahead_rows, rival_rows
from surefoot.bench.table import Mark, Request
from surefoot.identify import identify
from surefoot.logs import Log
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import E, Normal, Params, Prior
from surefoot.robots import load
from surefoot.sim import Sim

HORIZON = 0.5  # [s]
WINDOW = 1.0
"""[s] Length of the fit's windows."""
ZERO, NONE = "encoder_bias", np.zeros((1, 2))
SPREAD = 0.03
"""[rad] Standard deviation of a zero set by hand: dry friction over the moment of gravity is several times that."""
LOOKS = (2.0, 4.0)
"""[s] of a run at which its zeros are estimated anew."""
MARKS = {"joint1": 0.025, "joint2": 0.045}
REFERENCE = {"joint1": 0.044, "joint2": 0.074}
"""[rad] The published identified model 1.0, 0.5 s ahead."""


def measure(request: Request) -> list[Mark]:
    """All rows of the double pendulum."""
    data = runs(request)
    if data is None:
        return [absent("double pendulum", f"no identification run below {data_folder(request).name}/", "rad")]
    if not data.judge:
        return [absent("double pendulum", data.origin, "rad")]
    sim = Sim(load("double_pendulum"), pendulum_params(), threads=2)
    e = fitted(sim, data.fit, request.tell)
    found = foreseen(sim, data.judge, e)
    rows = ahead_rows("double pendulum", found, data.origin, MARKS, REFERENCE)
    blind = ahead(sim, data.judge, {**e, ZERO: NONE}, horizon=HORIZON)
    rows += ahead_rows("double pendulum, zeros taken as right", blind, data.origin, {}, {})
    nominal = ahead(sim, data.judge, sim.params.nominal_e(1), horizon=HORIZON)
    rows += ahead_rows("double pendulum, published model 1.0", nominal, "as the robot file has it", {}, {})
    return rows if request.quick else rows + rival_rows("double pendulum", sim, data, HORIZON)


def fitted(sim: Sim, logs: Sequence[Log], say: Callable[[str], None]) -> E:
    """e of the robot, each run with zeros of its own."""
    several = len(logs) > 1
    fit = identify(
        sim, logs, apart=(ZERO,) if several else (), prior=zeros(sim), window=WINDOW, held_out=0.0, say=say,
    )  # fmt: skip
    own = ", ".join(str((1e3 * np.array(run.values[ZERO])).round().astype(int).tolist()) for run in fit.runs)
    say(f"zeros by run [mrad]: {own}")
    return {**fit.e, ZERO: NONE}


def zeros(sim: Sim) -> Prior:
    """What is believed of zeros that are set by hand."""
    return sim.params.only(ZERO).prior().replace(**{ZERO: Normal(mean=0.0, sd=SPREAD)})


def zero_of(sim: Sim, log: Log, e: E) -> np.ndarray:
    """What the encoders read where the links hang straight down [rad], (1, joints), by the readings of one log."""
    rest = {name: value for name, value in e.items() if name != ZERO}
    fit = identify(sim, log, only=[ZERO], fixed=rest, prior=zeros(sim), window=HORIZON, held_out=0.0, jumps=False)
    return fit.e[ZERO]


def foreseen(sim: Sim, logs: Sequence[Log], e: E) -> Ahead:
    """Errors ahead; the zeros of a run are those that its readings before each of LOOKS show, none before the first."""
    parts = []
    for log in logs:
        t = log["joint_pos"].t
        first, last = float(t[0]), float(t[-1])
        lead = (LEAD + 0.5) * float(np.median(np.diff(t)))
        looks = [look for look in LOOKS if look + HORIZON < last - first]
        for begin, end in itertools.pairwise((0.0, *looks, last - first)):
            zero = zero_of(sim, log.window(first, first + begin), e) if begin else NONE
            part = log.window(first + begin - lead * bool(begin), first + end + 1e-6)
            parts.append(ahead(sim, [part], {**e, ZERO: zero}, horizon=HORIZON))
    words = "its encoders' zeros, which are set anew before every run, from the run's readings before"
    return together(parts, f"{parts[0].start}, {words}")


def pendulum_params() -> Params:
    """The robot file's unknowns, rotors joint by joint, where the first link's mass lies, and friction that is larger at rest.

    Torque and mass scale together, so the drives' gain is taken as given.
    """
    given = load("double_pendulum").params.without("strength")
    wider = {
        "link1_mass": given["link1_mass"].replace(low=0.1, high=1.2),
        "link2_com": given["link2_com"].replace(low=-0.22, high=0.15),
        "armature": given["armature"].replace(each=True, low=3e-4, high=0.01),
        "link1_com": P["com"]("link1", low=-0.1, high=0.15, nominal=0.0, axis="z"),
        "stribeck": P["stribeck"]("joint[12]", low=0.0, high=0.3, nominal=0.0, speed=1.0, each=True),
        ZERO: given[ZERO].replace(low=-0.12, high=0.12),
    }
    return Params(**{**dict(given), **wider})


def runs(request: Request) -> Recordings | None:
    """Identification runs; of one folder every second one judges."""
    return recordings(request, "double_pendulum_sysid", judge=lambda logs: logs[1::2])
