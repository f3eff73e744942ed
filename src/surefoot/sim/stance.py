"""Where a robot starts: as high over the ground as its robot file says, whatever e made of its legs and of the ground.

    rise = max over feet of (ground under the foot - lowest point of the foot) + clearance of the nominal robot

Without it a longer leg, a worn sole, an offset joint or a bump would start a world inside the ground, or above it.
"""

import mujoco
import numpy as np

from surefoot.sim.physics import Physics
from surefoot.sim.terrain import ground_under

SHAPING = frozenset({"radius", "sole_wear", "link_length", "axis_tilt", "zero_offset", "roughness", "step_height"})
"""Kinds that move the feet against the base, or the ground against zero."""


class Stance:
    """Start heights of the worlds of one Sim."""

    def __init__(self, physics: Physics, base_q: int | None, start: np.ndarray):
        self.physics, self.base_q = physics, base_q
        model = physics.built.model
        self.feet = np.array([model.geom(name).id for name in physics.built.robot.feet], dtype=int)
        kinds = {s.param.kind for s in physics.slots.values()}
        hangs = physics.built.robot.strap is not None
        self.shaped = base_q is not None and not hangs and len(self.feet) > 0 and bool(kinds & SHAPING)
        if self.shaped:
            physics.engine.watch("geom_xpos", "geom_xmat")
            data = mujoco.MjData(model)
            data.qpos[:] = start
            mujoco.mj_kinematics(model, data)
            pos, mat, size = (
                data.geom_xpos[None, self.feet],
                data.geom_xmat[None, self.feet],
                model.geom_size[None, self.feet],
            )
            self.clearance = float((pos[..., 2] - self._depth(mat, size)).min())

    def settle(self, rows: np.ndarray) -> None:
        """Raise or lower the bases of worlds that have just been put into the start pose."""
        if not self.shaped or self.base_q is None:
            return
        engine = self.physics.engine
        engine.forward(rows)
        pos, mat = engine.derived("geom_xpos")[rows][:, self.feet], engine.derived("geom_xmat")[rows][:, self.feet]
        sizes = engine.expanded.get("geom_size")
        size = (engine.nominal("geom_size")[None] if sizes is None else sizes[rows])[:, self.feet]
        lowest = pos[..., 2] - self._depth(mat, size)
        ground = ground_under(self.physics, pos[..., :2], rows)
        engine.qpos[rows, self.base_q + 2] += (ground - lowest).max(1) + self.clearance

    def _depth(self, mat: np.ndarray, size: np.ndarray) -> np.ndarray:
        """How far the feet reach below their centres [m], (rows, k), of frames (rows, k, 9), sizes (rows, k, 3)."""
        up = mat.reshape(*mat.shape[:2], 3, 3)[..., 2, :]  # the world's z axis in the geom's frame
        shape = self.physics.built.model.geom_type[self.feet]
        sphere, capsule = (shape == int(t) for t in (mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE))
        box = (np.abs(up) * size).sum(-1)
        return np.where(sphere, size[..., 0], np.where(capsule, size[..., 0] + np.abs(up[..., 2]) * size[..., 1], box))
