"""Physics the engine has no field for, written into its fields before every substep.

    friction   F = Kc + (Ks + Ksl |τ_m - τ_e|) exp(-|v/vs|^a) + Kl |τ_m - τ_e| + |Km τ_m - Ke τ_e| + Kq (τ_m - τ_e)² [opposed]
               a budget the engine clips against the torque that would stop the joint (BAM M1..M6, after Duclusaud et al. 2025)
    sag        V = V0 - R_source Σ |i|                                     V bounds the motors' drive voltage (bus.py)
    ground     μ of a geom: × patch on the dark squares of the floor, × static while it slides slower than `speed`
    vibration  in the floor's own frame gravity is g + a sin(2π f t)

A Sim whose Params need none of these steps all substeps in one engine call; one that needs some pays a call a substep.
"""

import numpy as np

from surefoot.sim.bus import Bus
from surefoot.sim.physics import Physics, gravity_vector

LAWS = ("friction_law", "sag_law", "ground_law", "vibration_law")


class Laws:
    """The laws that the Params of one Sim ask for. Memory: the geoms' last positions, for their sliding speed."""

    def __init__(self, physics: Physics):
        self.physics = physics
        features = physics.built.features
        self.names = [name for name in LAWS if name in features]
        self.dofs = physics.joint_dofs
        if "friction_law" in self.names:
            driven = {a.name: i for i, a in enumerate(physics.built.robot.actuators)}
            self.motor_of = np.array([driven.get(j, -1) for j in physics.built.robot.joints])
            physics.engine.watch("qfrc_actuator", "qfrc_bias")
        if "sag_law" in self.names:
            self.bus = Bus(physics)
        if "ground_law" in self.names:
            slots = [s for s in physics.slots.values() if s.param.about.structural == "ground_law"]
            self.geoms = np.unique(np.concatenate([s.ids for s in slots]))
            self.patch_size = self._per_geom("patch_friction", "size")
            self.static_speed = self._per_geom("static_friction", "speed")
            physics.engine.watch("geom_xpos")
            self.last_pos = np.full((physics.engine.worlds, len(self.geoms), 3), np.nan)

    def _per_geom(self, kind: str, option: str) -> np.ndarray:
        """An option of the Params of a kind for each geom of the ground law, (k,); 1 where none applies."""
        out = np.ones(len(self.geoms))
        for slots in self.physics.slots.values():
            if slots.param.kind == kind:
                out[np.isin(self.geoms, slots.ids)] = slots.param.options[option]
        return out

    def __bool__(self) -> bool:
        return bool(self.names)

    def clear(self, ids: np.ndarray) -> None:
        """After a reset: no memory of where the feet were."""
        if "ground_law" in self.names:
            self.last_pos[ids] = np.nan

    def act(self, dt: float, control: np.ndarray) -> None:
        """Write what the laws ask for into the engine's fields, for the substep of length dt that follows under `control`."""
        for name in self.names:
            getattr(self, f"_{name}")(dt, control)

    def _friction_law(self, dt: float, control: np.ndarray) -> None:
        p, t = self.physics, self.physics.tables
        v = np.abs(p.engine.qvel[:, self.dofs])
        motor = np.where(self.motor_of >= 0, p.engine.derived("qfrc_actuator")[:, self.dofs], 0.0)
        external = -p.engine.derived("qfrc_bias")[:, self.dofs]  # torque of gravity and motion on the joint
        through = np.abs(motor - external)
        speed, shape = p.option("stribeck", "speed", 0.2), p.option("stribeck", "shape", 1.0)
        if not p.has("stribeck"):
            speed, shape = p.option("load_stribeck", "speed", 0.2), p.option("load_stribeck", "shape", 1.0)
        slow = np.exp(-((v / speed) ** shape))
        force = t["coulomb"] + (t["stribeck"] + t["load_stribeck"] * through) * slow + t["load_friction"] * through
        force = force + np.abs(t["motor_friction"] * motor - t["external_friction"] * external)
        opposed = motor * external < 0
        force = force + np.where(opposed, t["quadratic_friction"] * through**2, 0.0)
        p.engine.field("dof_frictionloss")[:, self.dofs] = force

    def _sag_law(self, dt: float, control: np.ndarray) -> None:
        self.bus.write(control)

    def _ground_law(self, dt: float, control: np.ndarray) -> None:
        p, t = self.physics, self.physics.tables
        at = p.engine.derived("geom_xpos")[:, self.geoms]
        square = np.floor(at[..., :2] / self.patch_size[:, None])
        dark = square.sum(-1) % 2 == 0
        scale = np.where(dark, t["patch_friction"][:, self.geoms], 1.0)
        speed = np.linalg.norm((at - self.last_pos)[..., :2], axis=-1) / dt
        still = ~(speed > self.static_speed)  # unknown speed counts as still
        scale = scale * np.where(still, t["static_friction"][:, self.geoms], 1.0)
        self.last_pos[:] = at
        t["friction_scale"][:, self.geoms] = scale
        p.engine.field("geom_friction")[:, self.geoms, 0] = t["friction_base"][:, self.geoms] * scale

    def _vibration_law(self, dt: float, control: np.ndarray) -> None:
        p, t = self.physics, self.physics.tables
        frequency = p.option("floor_vibration", "frequency", 10.0)
        still = gravity_vector(t["gravity"], t["slope"])
        shake = t["floor_vibration"] * np.sin(2 * np.pi * frequency * p.engine.time)
        p.engine.field("opt.gravity")[:, :] = still
        p.engine.field("opt.gravity")[:, 2] -= shake
