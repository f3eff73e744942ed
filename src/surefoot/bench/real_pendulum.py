"""DFKI double pendulum: two drives, recorded positions and commanded torques; identification runs, some of which only judge.

metric: RMSE [rad] of both joints over 0.5 s ahead, windows back to back; start: estimated from the 12 readings before

Which unknowns to fit was chosen with all runs of design C.1 but three in view, those that judge when one folder is given among them.
"""

from surefoot.bench.real_ahead import ahead
from surefoot.bench.real_data import Recordings, absent, data_folder, recordings
from surefoot.bench.real_qube import ahead_rows, rival_rows
from surefoot.bench.table import Mark, Request
from surefoot.identify import identify
from surefoot.params import CONSTRUCTORS as P
from surefoot.params import Params
from surefoot.robots import load
from surefoot.sim import Sim

HORIZON = 0.5  # [s]
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
    fit = identify(sim, data.fit, window=HORIZON, held_out=0.0, say=request.tell)
    rows = ahead_rows("double pendulum", ahead(sim, data.judge, fit.e, horizon=HORIZON), data.origin, MARKS, REFERENCE)
    nominal = ahead(sim, data.judge, sim.params.nominal_e(1), horizon=HORIZON)
    rows += ahead_rows("double pendulum, published model 1.0", nominal, "as the robot file has it", {}, {})
    return rows if request.quick else rows + rival_rows("double pendulum", sim, data, HORIZON)


def pendulum_params() -> Params:
    """The robot file's unknowns, rotors joint by joint, and where the first link's mass lies.

    Torque and mass scale together, so the drives' gain is taken as given.
    """
    given = load("double_pendulum").params.without("strength")
    wider = {
        "link1_mass": given["link1_mass"].replace(low=0.1, high=1.2),
        "link2_com": given["link2_com"].replace(low=-0.22, high=0.15),
        "armature": given["armature"].replace(each=True, low=3e-4, high=0.01),
        "link1_com": P["com"]("link1", low=-0.1, high=0.15, nominal=0.0, axis="z"),
    }
    return Params(**{**dict(given), **wider})


def runs(request: Request) -> Recordings | None:
    """Identification runs; of one folder every second one judges."""
    return recordings(request, "double_pendulum_sysid", judge=lambda logs: logs[1::2])
