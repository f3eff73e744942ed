"""Qube: a Furuta pendulum under voltage chirps; the fit sees chirps of one sign, the judges are others.

    metric: RMSE [rad] of arm and pendulum over 1 s ahead, windows back to back; start: estimated from the 12 readings before

The recorded speeds come 17 ms late from the maker's filter, so start states are read from positions. What the nominal model lacks (the
cable's spring, which pulls the arm to -0.5 rad, friction at standstill, the delay) was chosen on chirps of +1.5 V. Those that judge when
one folder is given were among them, so only chirps of another sign or amplitude are a clean test.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from surefoot.bench.real_ahead import Ahead, ahead
from surefoot.bench.real_data import Recordings, absent, data_folder, logs_of, recordings
from surefoot.bench.real_sysid import ABSENT, e_of, fit_rival, scalars_of
from surefoot.bench.table import Mark, Request
from surefoot.identify import Fit, identify
from surefoot.logs import Log
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import E, Params
from surefoot.robots import load
from surefoot.sim import Sim

HORIZON = 1.0  # [s]
MARKS = {"arm": 0.06, "pendulum": 0.04}
REFERENCE = {"arm": 0.171, "pendulum": 0.072}
"""[rad] Nominal model with identified damping, 1 s ahead."""
SWING = 0.2  # [s] horizon on swing-ups, which are unstable
MOST = 2
"""Chirps that the fit sees: repeated chirps of one sign are alike to 20 mrad."""
TIMESTEP = 0.002  # [s]


def measure(request: Request) -> list[Mark]:
    """All rows of the Qube."""
    data = chirps(request)
    if data is None:
        return [absent("Qube chirps", f"no Qube chirp below {data_folder(request).name}/", "rad")]
    if not data.judge:
        return [absent("Qube chirps", data.origin, "rad")]
    sim = Sim(dataclasses.replace(load("qube"), timestep=TIMESTEP), qube_params(), threads=2)
    fit = fit_qube(sim, data.fit[:MOST], request)
    rows = ahead_rows("Qube chirps", ahead(sim, data.judge, fit.e, horizon=HORIZON), data.origin, MARKS, REFERENCE)
    nominal = ahead(sim, data.judge, _bare(sim), horizon=HORIZON)
    rows += ahead_rows("Qube chirps, nominal model", nominal, "Params at the robot file's values, no cable", {}, {})
    if not request.quick:
        rows += rival_rows("Qube chirps", sim, data, HORIZON)
        rows += speed_rows(sim, data, fit)
    return rows + swing_rows(sim, fit, request)


def qube_params() -> Params:
    """The unknowns of this set. Voltage and torque scale together, so the pendulum's mass is taken as given."""
    given = load("qube").params
    return Params(
        **{n: p for n, p in given.items() if n not in ("pendulum_mass", "pendulum_com", "velocity_filter")},
        pendulum_com=given["pendulum_com"].replace(low=-0.02, high=0.02),
        cable=P["cable_stiffness"]("arm", low=1e-5, high=1e-2, nominal=1e-3, scale="log"),
        cable_rest=P["cable_rest"]("arm", low=-2.0, high=2.0, nominal=0.0, stiffness=1e-3),
        stribeck=P["stribeck"]("arm", low=0.0, high=3e-3, nominal=1e-4, speed=0.5),
    )


def _bare(sim: Sim) -> E:
    """Nominal values without the cable and the further friction that the robot file does not have."""
    e = sim.params.nominal_e(1)
    return {**e, "cable": e["cable"] * 0 + sim.params["cable"].low, "stribeck": e["stribeck"] * 0}


def is_chirp(log: Log) -> bool:
    """Whether the recording's folder says that it is a chirp (its maker spells it 'chrip')."""
    name = str(log.meta.get("experiment", "")).lower()
    return "chrip" in name or "chirp" in name


def chirps(request: Request) -> Recordings | None:
    """Chirps to fit to and to judge by; of one folder the last two fifths judge."""
    return recordings(request, "quanser_qube", is_chirp, judge=lambda logs: logs[int(0.6 * len(logs) + 0.5) :])


def fit_qube(sim: Sim, logs: Sequence[Log], request: Request) -> Fit:
    """Simulation fit on windows of the horizon, start states estimated."""
    return identify(sim, logs, window=HORIZON, stride=0.5 * HORIZON, held_out=0.0, say=request.tell)


def ahead_rows(
    name: str, found: Ahead, origin: str, marks: dict[str, float], reference: dict[str, float]
) -> list[Mark]:
    """One row a joint."""
    out = []
    for joint, value in found.rmse.items():
        words = f"{found.horizon:g} s ahead, {found.windows} windows, {found.start}; {origin}; at its end {found.last[joint]:.3g} rad"
        if joint in reference:
            words += f"; reference {reference[joint]:g} rad"
        mark = marks.get(joint)
        out.append(Mark(
            name=f"{name}, RMSE of {joint}", value=value, unit="rad", op="<=" if mark is not None else None, mark=mark, reference=words,
        ))  # fmt: skip
    return out


def speed_rows(sim: Sim, data: Recordings, fit: Fit) -> list[Mark]:
    """How late the recorded speeds are, and the delay as positions and speeds together tell it."""
    wider = sim.replace(params=Params(**sim.params, velocity_filter=load("qube").params["velocity_filter"]))
    found = identify(wider, data.fit[:MOST], window=0.5, held_out=0.0, begin=fit.e, jumps=False)
    ends = dict(zip(found.names, 1e3 * found.intervals(), strict=True))
    told = f"{len(found.names)} scalars fitted on {len(data.fit[:MOST])} chirps"
    rows = {
        "velocity_filter": ("the recorded speeds are late by", "; the maker's filter of 50 rad/s: 20 ms"),
        "command_delay": ("delay of commands, speeds compared too", ""),
    }
    return [
        Mark(
            name=f"Qube chirps, {words}", value=1e3 * float(found[name]), unit="ms",
            reference=f"90 % interval {ends[name][0]:.2f} to {ends[name][1]:.2f} ms; {told}{more}",
        )
        for name, (words, more) in rows.items()
    ]  # fmt: skip


def rival_rows(name: str, sim: Sim, data: Recordings, horizon: float, most: int = 20) -> list[Mark]:
    """mujoco.sysid on pieces of the horizon of the first logs, then judged as ours is."""
    pieces = []
    for log in data.fit:
        first, last = float(log["joint_pos"].t[0]), float(log[sim.command_channel].t[-1])
        starts = [first + k * horizon for k in range(int((last - first) / horizon + 1e-6))]
        pieces += [log.window(t - 1e-6, t + horizon) for t in starts]
    pieces = lively(pieces)
    pieces = pieces[:: max(1, len(pieces) // most)][:most]
    rival = fit_rival(sim.robot, pieces, scalars_of(sim), sim.command_channel)
    if rival is None:
        return [absent(f"{name}, mujoco.sysid", ABSENT, "rad")]
    found = ahead(sim, data.judge, e_of(sim, rival), horizon=horizon)
    words = f"this run, {rival.seconds:.0f} s for {len(rival.values)} scalars on {len(pieces)} pieces; no delay, gains or biases"
    return ahead_rows(f"{name}, mujoco.sysid", found, words, {}, {})


def lively(pieces: Sequence[Log]) -> list[Log]:
    """Pieces in which every joint moves: mujoco.sysid divides each channel by its norm, so one that rests outweighs all others."""
    norms = np.array([np.linalg.norm(piece["joint_pos"].values, axis=0) for piece in pieces])
    keep = np.flatnonzero((norms > 0.2 * np.median(norms, axis=0)).all(axis=1))
    return [pieces[i] for i in keep.tolist()]


def swing_rows(sim: Sim, fit: Fit, request: Request) -> list[Mark]:
    """The same e on swing-ups, which no fit saw."""

    def unfiltered(log: Log) -> bool:
        return not is_chirp(log) and "filt" not in str(log.meta.get("experiment", ""))

    logs = logs_of(request.test, "quanser_qube", unfiltered) if request.test is not None else ()
    logs = logs or logs_of(data_folder(request), "quanser_qube", unfiltered)
    if not logs:
        return [absent("Qube swing-ups", f"no swing-up below {data_folder(request).name}/", "rad")]
    some = logs[:: max(1, len(logs) // 5)][:5]
    found = ahead(sim, some, fit.e, horizon=SWING)
    return ahead_rows("Qube swing-ups", found, f"{len(some)} recordings, never fitted", {}, {"pendulum": 0.281})
