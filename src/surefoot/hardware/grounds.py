"""The ground under a stand-in robot: flat, sloped or bumpy, and how slippery it is where and when.

μ(v, x) = μ p(x) (1 + (ratio - 1) exp(-(v / stribeck)²))        v: slip speed of the foot, p: patches of the ground
"""

import mujoco
import numpy as np

from surefoot.hardware.reality import Reality

NAME = "ground"
REACH, CELL = 15.0, 0.1  # [m] half side of bumpy ground, spacing of its points
CLEAR = 0.6  # [m] flat place around the start


class Ground:
    """Shape and friction of the ground; `add` goes into the spec, `bind` to the compiled model, `feel` runs every step."""

    def __init__(self, reality: Reality, feet: tuple[str, ...], rng: np.random.Generator):
        self.feet = feet
        slope = reality.xyz("slope")
        up = np.array([-np.tan(slope[0]), -np.tan(slope[1]), 1.0])
        self.up = up / np.linalg.norm(up)
        self.bumps = reality.one("bumps")
        self.friction = reality.truth.get("friction")
        self.ratio, self.stribeck = reality.one("static_ratio"), reality.one("stribeck")
        self.patch, self.side, self.share = (reality.one(k) for k in ("patch_friction", "patch_size", "patch_share"))
        self.patches = rng.random((64, 64)) < self.share if self.patch < 1.0 else np.zeros((1, 1), dtype=bool)
        self.live = bool(feet) and (self.ratio > 1.0 or self.patch < 1.0)
        side = int(2 * REACH / CELL) + 1
        self.heights = self._draw(rng, side) if self.bumps else np.zeros((side, side))

    def _draw(self, rng: np.random.Generator, side: int) -> np.ndarray:
        """Smooth random heights in 0 .. 1, flat near the start."""
        raw = rng.random((side, side))
        for axis in (0, 1):
            raw = (np.roll(raw, 1, axis) + 2 * raw + np.roll(raw, -1, axis)) / 4
        raw = (raw - raw.min()) / (raw.max() - raw.min())
        x = np.linspace(-REACH, REACH, side)
        near = np.hypot(*np.meshgrid(x, x)) < CLEAR
        return np.where(near, 0.5, raw)

    def add(self, spec: mujoco.MjSpec) -> None:
        """Put the ground under the robot."""
        quat = np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, self.up)
        common = {"name": NAME, "quat": quat, "friction": [1.0, 0.005, 0.0001], "contype": 1, "conaffinity": 1}
        if not self.bumps:
            spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], **common)
            return
        side = len(self.heights)
        spec.add_hfield(
            name=NAME,
            size=[REACH, REACH, self.bumps, 0.2],
            nrow=side,
            ncol=side,
            userdata=self.heights.ravel().tolist(),
        )
        low = -0.5 * self.bumps * self.up
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname=NAME, pos=low, **common)

    def bind(self, model: mujoco.MjModel) -> None:
        """Find the feet in the model, and make them as slippery as they are."""
        self.ids = np.array([model.geom(foot).id for foot in self.feet], dtype=int)
        if self.friction is not None and len(self.ids):
            model.geom_friction[self.ids, 0] = self.friction
        self.mu = model.geom_friction[self.ids, 0].copy()
        self._velocity = np.zeros(6)

    def feel(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Set each foot's friction for the coming step."""
        mu = self.mu.copy()
        if self.patch < 1.0:
            cells = np.floor(data.geom_xpos[self.ids, :2] / self.side).astype(int) % len(self.patches)
            mu[self.patches[cells[:, 0], cells[:, 1]]] *= self.patch
        if self.ratio > 1.0:
            for i, geom in enumerate(self.ids):
                mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_GEOM, geom, self._velocity, 0)
                v = self._velocity[3:]
                slip = float(v @ v - (v @ self.up) ** 2)
                mu[i] *= 1.0 + (self.ratio - 1.0) * np.exp(-slip / self.stribeck**2)
        model.geom_friction[self.ids, 0] = mu

    def clearance(self, position: np.ndarray) -> float:
        """Height of a point (3,) over the ground under it [m]; over bumps, over their mean height."""
        return float(position @ self.up)
