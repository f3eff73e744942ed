"""A step in the air, found from the robot's own kinematics: which joints lift a foot straight up, and by how much.

    Δq_leg with   foot(q + Δq) = foot(q) + (0, 0, height)   and, where the leg has an ankle, Σ Δq = 0 (the sole stays level)

Only joints about the y axis take part. Solved by Newton's method on the compiled model, so that it fits any legged robot.
"""

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.sim import Sim


def legs(sim: Sim) -> list[tuple[list[str], list[int]]]:
    """For every leg: its joints about y from hip to foot, and its foot geoms, as indices into robot.feet."""
    out: dict[str, tuple[list[str], list[int]]] = {}
    for number, foot in enumerate(sim.robot.feet):
        body = int(sim.model.geom(foot).bodyid[0])
        key = sim.model.body(body).name
        if key not in out:
            out[key] = (_chain(sim, body), [])
        out[key][1].append(number)
    return list(out.values())


def _chain(sim: Sim, body: int) -> list[str]:
    names: list[str] = []
    while body > 0:
        for j in range(sim.model.body_jntadr[body], sim.model.body_jntadr[body] + sim.model.body_jntnum[body]):
            name = sim.model.joint(j).name
            axis = np.abs(sim.model.jnt_axis[j])
            if name in sim.robot.joints and axis[1] == axis.max():
                names.insert(0, name)
        body = int(sim.model.body_parentid[body])
    return names[-3:]


def lift(sim: Sim, height: float) -> dict[str, float]:
    """Change of each leg joint [rad] that raises its foot by `height` [m] from the default pose."""
    data = mujoco.MjData(sim.model)
    out: dict[str, float] = {}
    for joints, feet in legs(sim):
        geoms = [sim.model.geom(sim.robot.feet[f]).id for f in feet]
        adr = [int(sim.model.joint(j).qposadr[0]) for j in joints]

        def foot(change: np.ndarray, geoms=geoms, adr=adr) -> np.ndarray:
            data.qpos[:] = sim.start_qpos
            data.qpos[adr] += change
            mujoco.mj_kinematics(sim.model, data)
            at = data.geom_xpos[geoms].mean(0)
            return np.append(at[[0, 2]], change.sum() if len(change) > 2 else np.zeros(0))

        change, start = np.zeros(len(joints)), foot(np.zeros(len(joints)))
        wanted = start + np.append([0.0, height], np.zeros(len(start) - 2))
        for _ in range(30):
            error = wanted - foot(change)
            slope = np.stack([(foot(change + 1e-6 * d) - foot(change)) / 1e-6 for d in np.eye(len(joints))], axis=1)
            change = change + np.clip(np.linalg.lstsq(slope, error, rcond=None)[0], -0.2, 0.2)
        if np.abs(wanted - foot(change)).max() > 1e-4:
            raise InputError(
                f"robot '{sim.robot.name}' cannot lift a foot by {height:g} m from its default pose: lower `swing`"
            )
        out |= dict(zip(joints, (float(c) for c in change), strict=True))
    return out
