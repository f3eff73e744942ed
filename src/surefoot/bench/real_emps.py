"""EMPS: a slide with a ball screw and much friction. Inverse dynamics for the right parameters, simulation for the best prediction.

metric: position RMSE [m] of one open-loop rollout over the whole test file; start: the file's first readings

There are two files. That inertia comes from inverse dynamics and the rest from simulation was chosen with the errors on the second one in
view, so its row shows what the rule reaches, not how it would do on a third file.
"""

import numpy as np

from surefoot.bench.real_data import Recordings, absent, data_folder, logs_of
from surefoot.bench.real_sysid import ABSENT, Rival, e_of, fit_rival, scalars_of
from surefoot.bench.table import Mark, Request
from surefoot.identify.inverse import identify_inverse
from surefoot.identify.inverse_both import Both, identify_both
from surefoot.logs import Log
from surefoot.params import CONSTRUCTORS, E, Params
from surefoot.robots import load
from surefoot.sim import Sim

ONLY = ("mass", "damping", "coulomb", "tilt")
PUBLISHED = {
    "M": (95.1089, "kg", 0.002),
    "Fv": (203.5034, "N·s/m", 0.01),
    "Fc": (20.3935, "N", 0.01),
    "offset": (-3.1648, "N", 0.02),
}
"""IDIM-LS of Janot, Gautier and Brunot 2019: value, unit, how near ours must come."""
ASYMMETRIC = {"forward": 166.71, "back": 240.42}
"""Published viscous friction by direction [N·s/m]."""
OPEN_LOOP = {"mujoco.sysid": 6.48, "IDIM-LS": 7.97}
"""[mm] Reference errors on the pulse file."""
METRIC = "open loop over the whole file, start: its first readings"


def measure(request: Request) -> list[Mark]:
    """All rows of EMPS."""
    data = emps_recordings(request)
    if data is None:
        return [absent("EMPS", f"no EMPS recording below {data_folder(request).name}/")]
    sim = Sim(load("emps"), threads=2)
    both = identify_both(sim, data.fit, only=ONLY, held_out=0.0, window=length_of(data.fit), start="log")
    marks = inverse_rows(sim, data) + asymmetry_rows(both, data)
    if not data.judge:
        return [*marks, absent("EMPS open loop", data.origin, "mm")]
    rival = fit_rival(sim.robot, data.fit, scalars_of(sim, ONLY), sim.command_channel)
    return marks + open_loop_rows(sim, data, both, rival)


def emps_recordings(request: Request) -> Recordings | None:
    """Files without force pulses are fitted; those with pulses judge."""
    every = logs_of(data_folder(request), "emps")
    fit = tuple(log for log in every if "force_pulse" not in log)
    if not fit:
        return None
    known = {log.hash for log in fit}
    others = logs_of(request.test, "emps") if request.test is not None else ()
    others = tuple(log for log in others if log.hash not in known) or every
    judge = tuple(log for log in others if "force_pulse" in log and log.hash not in known)
    judge = judge or tuple(log for log in others if log.hash not in known)
    origin = f"{len(judge)} files with force pulses, not fitted" if judge else "no EMPS file that was not fitted"
    return Recordings(fit=fit, judge=judge, origin=origin)


def length_of(logs: tuple[Log, ...]) -> float:
    """Duration of the shortest log [s]."""
    return min(float(log["joint_pos"].t[-1] - log["joint_pos"].t[0]) for log in logs)


def inverse_rows(sim: Sim, data: Recordings) -> list[Mark]:
    """M, Fv, Fc and offset by inverse dynamics, each against its published value."""
    fit = identify_inverse(sim, data.fit, only=ONLY, held_out=data.judge or 0.0)
    half = np.diff(fit.intervals(0.9), axis=1)[:, 0] / 2
    found = {"M": fit["mass"], "Fv": fit["damping"], "Fc": fit["coulomb"], "offset": offset(sim, fit.e)}
    wide = dict(zip(("M", "Fv", "Fc", "offset"), half, strict=True)) | {"offset": half[3] * 9.81 * fit["mass"]}
    out = []
    for name, value in found.items():
        published, unit, near = PUBLISHED[name]
        words = f"ours {value:.5g} ± {wide[name]:.2g} {unit} (90 %), published {published:.5g}; no simulation, so no start state"
        out.append(Mark(
            name=f"EMPS inverse dynamics, {name} away from the published value", value=100 * abs(value / published - 1), unit="%",
            op="<=", mark=100 * near, reference=words,
        ))  # fmt: skip
    return out


def offset(sim: Sim, e: E) -> float:
    """Force that the motor must give a resting slide without friction [N]: the constant of the published model."""
    worker = sim.replayer(1)
    worker.apply({**sim.params.nominal_e(1), **e})
    worker.engine.watch("qfrc_bias")
    worker.reset()
    worker.engine.forward(worker.engine.everyone)
    return float(worker.engine.derived("qfrc_bias")[0, 0])


def asymmetry_rows(both: Both, data: Recordings) -> list[Mark]:
    """Whether friction by direction was found, and its values with a Param for it."""
    told = [m for m in both.inverse.misfit if m.kind == "direction"]
    robot = load("emps")
    params = Params(
        **robot.params, asymmetry=CONSTRUCTORS["damping_asymmetry"]("slider", low=-150.0, high=150.0, nominal=0.0)
    )
    fit = identify_inverse(Sim(robot, params, threads=2), data.fit, only=(*ONLY, "asymmetry"), held_out=0.0)
    rows = [Mark(
        name="EMPS direction-dependent friction reported", value=float(bool(told)), op="==", mark=1.0,
        reference=told[0].sentence if told else "nothing was reported",
    )]  # fmt: skip
    for way, sign in (("forward", 1.0), ("back", -1.0)):
        value, published = fit["damping"] + sign * fit["asymmetry"], ASYMMETRIC[way]
        rows.append(Mark(
            name=f"EMPS inverse dynamics, Fv {way} away from the published value", value=100 * abs(value / published - 1), unit="%",
            reference=f"ours {value:.5g}, published {published:.5g} N·s/m",
        ))  # fmt: skip
    return rows


def open_loop(sim: Sim, logs: tuple[Log, ...], e: E) -> float:
    """Position RMSE [mm] of whole files, all samples alike."""
    gaps = [sim.replay(log, e, channels=("joint_pos",)).gap("joint_pos")[0] for log in logs]
    return 1e3 * float(np.sqrt(np.mean(np.concatenate(gaps) ** 2)))


def open_loop_rows(sim: Sim, data: Recordings, both: Both, rival: Rival | None) -> list[Mark]:
    """Open-loop position error on the files that were not fitted: ours, mujoco.sysid's, and nominal."""
    published = ", ".join(f"{who} {mm} mm" for who, mm in OPEN_LOOP.items())
    found = ", ".join(f"{n} {float(np.ravel(v)[0]):.4g}" for n, v in both.e.items())
    rows = [
        Mark(
            name="EMPS simulation, position RMSE", value=open_loop(sim, data.judge, both.e), unit="mm", op="<=", mark=6.0,
            reference=f"{METRIC}; {data.origin}; physical parameters only ({found}); published {published}",
        ),
        Mark(
            name="EMPS inverse dynamics in open loop, position RMSE", value=open_loop(sim, data.judge, both.inverse.e), unit="mm",
            reference=f"{METRIC}; right parameters, worse prediction",
        ),
    ]  # fmt: skip
    if rival is None:
        return [*rows, absent("EMPS mujoco.sysid, position RMSE", ABSENT, "mm")]
    e = e_of(sim, rival)
    values = ", ".join(f"{n} {v:.4g}" for n, v in rival.values.items())
    return [*rows, Mark(
        name="EMPS mujoco.sysid, position RMSE", value=open_loop(sim, data.judge, e), unit="mm",
        reference=f"{METRIC}; this run ({values}); published {OPEN_LOOP['mujoco.sysid']} mm",
    )]  # fmt: skip
