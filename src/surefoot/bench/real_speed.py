"""Wall time of a fit, ours and mujoco.sysid's in one run: the same EMPS log, four scalars, bounds, start values, time step and cores.

Ours is everything from the log to the fitted e with its intervals (inverse dynamics, then simulation); mujoco.sysid's is its
optimisation alone. Ours runs before and after, so that another program's load falls on both.
"""

import time

import numpy as np

from surefoot.bench.real_data import Recordings, absent
from surefoot.bench.real_emps import METRIC, ONLY, emps_recordings, length_of, open_loop
from surefoot.bench.real_sysid import ABSENT, e_of, fit_rival, scalars_of
from surefoot.bench.table import Mark, Request
from surefoot.identify.inverse_both import identify_both
from surefoot.params import E
from surefoot.robots import load
from surefoot.sim import Sim

PUBLISHED = 25.0
"""[s] mujoco.sysid on EMPS, two cores, as measured when the mark was set."""


def measure(request: Request) -> list[Mark]:
    """Both times, their ratio, and both errors on the file that nobody fitted."""
    data = emps_recordings(request)
    if data is None or not data.judge:
        return [absent("fit time on EMPS", "no EMPS recordings, or none left to judge by", "s")]
    sim = Sim(load("emps"), threads=2)
    e, first = timed(data)
    rival = fit_rival(sim.robot, data.fit, scalars_of(sim, ONLY), sim.command_channel)
    ours = [first, *[timed(data)[1] for _ in range(1 if request.quick else 2)]]
    seconds, error = float(np.mean(ours)), open_loop(sim, data.judge, e)
    spread = f"mean of {len(ours)} runs, {min(ours):.3g}..{max(ours):.3g} s"
    rows = [
        Mark(
            name="fit time on EMPS, ours",
            value=seconds,
            unit="s",
            reference=f"{spread}; held-out {error:.3g} mm, {METRIC}",
        )
    ]
    ratio, name = "fit time on EMPS, mujoco.sysid over ours", "fit time on EMPS, mujoco.sysid"
    if rival is None:
        return [*rows, absent(ratio, f"{ABSENT}; published {PUBLISHED:g} s")]
    theirs = open_loop(sim, data.judge, e_of(sim, rival))
    words = f"this run; held-out {theirs:.3g} mm, {METRIC}; published {PUBLISHED:g} s"
    same = "same log, scalars, bounds, start values, time step, cores and run"
    return [
        *rows,
        Mark(name=name, value=rival.seconds, unit="s", reference=words),
        Mark(name=ratio, value=rival.seconds / seconds, op=">=", mark=5.0, reference=same),
        Mark(
            name="held-out error on EMPS, ours over mujoco.sysid's", value=error / theirs, op="<=", mark=1.0,
            reference=f"position RMSE, {METRIC}",
        ),
    ]  # fmt: skip


def timed(data: Recordings) -> tuple[E, float]:
    """One whole fit with a fresh Sim: e and wall time [s]."""
    sim = Sim(load("emps"), threads=2)
    begin = time.perf_counter()
    both = identify_both(sim, data.fit, only=ONLY, held_out=0.0, window=length_of(data.fit), start="log")
    return both.e, time.perf_counter() - begin
