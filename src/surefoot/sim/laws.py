"""Physics the engine has no field for, written into its fields before every substep.

    friction   F = Kc + Ks exp(-|v/vs|^a) + (Kl + Ksl exp(-|v/vsl|^al)) |τ_m - τ_e|
                 + |Km τ_m - Ke τ_e| + Kq (τ_m - τ_e)² [while they oppose] + Kp (q - q0) + s (Kca + Dva |v|),
                 never below zero
               a budget the engine clips against the torque that would stop the joint (BAM M1..M6, Duclusaud 2025);
               τ_m, τ_e: torques of the motor and of gravity, motion and contacts on the joint in the substep before;
               q0: the joint's default pose; s: direction of motion, of a joint at rest that of τ_m + τ_e
    sag        V = V0 - R_source Σ |i|                                     V bounds the motors' drive voltage (bus.py)
    ground     μ of a geom: × patch on the dark squares of the floor, × static while it slides slower than `speed`
    vibration  in the floor's own frame gravity is g + a sin(2π f t)
    terrain    planes under round feet, tangent to uneven ground (plates.py)

A Sim whose Params need none of these steps all substeps in one engine call; one that needs some pays a call a substep.
"""

import numpy as np

from surefoot.sim.bus import Bus
from surefoot.sim.physics import Physics, gravity_vector
from surefoot.sim.plates import Plating

STILL = 0.01
"""[rad/s] Joints slower than this may be held by dry friction."""
AT_REST = 1e-5
"""[rad/s] Joints slower than this have no direction of motion; dry friction that holds leaves less."""
LAWS = ("friction_law", "sag_law", "ground_law", "vibration_law", "terrain_law")


class Laws:
    """The laws that the Params of one Sim ask for. Memory: the geoms' last positions, for their sliding speed."""

    def __init__(self, physics: Physics):
        self.physics = physics
        features = physics.built.features
        self.names = [name for name in LAWS if name in features]
        self.dofs = physics.joint_dofs
        if "friction_law" in self.names:
            self.directed = physics.has("coulomb_asymmetry") or physics.has("damping_asymmetry")
            self.sloped = physics.has("coulomb_slope")
            robot, model = physics.built.robot, physics.built.model
            self.places = np.array([int(model.joint(name).qposadr[0]) for name in robot.joints])
            self.default_pose = np.array([robot.pose.get(name, 0.0) for name in robot.joints])
            self.knees = {kind: self._knee(kind) for kind in ("stribeck", "load_stribeck")}
            physics.engine.watch("qfrc_actuator", "qfrc_bias", "qfrc_constraint", "nf", "nefc")
        if "sag_law" in self.names:
            self.bus = Bus(physics)
        if "ground_law" in self.names:
            slots = [s for s in physics.slots.values() if s.param.about.structural == "ground_law"]
            self.geoms = np.unique(np.concatenate([s.ids for s in slots]))
            self.patch_size = self._per_geom("patch_friction", "size")
            self.static_speed = self._per_geom("static_friction", "speed")
            physics.engine.watch("geom_xpos")
            self.last_pos = np.full((physics.engine.worlds, len(self.geoms), 3), np.nan)
        if "terrain_law" in self.names:
            assert physics.built.plates is not None
            assert physics.built.terrain is not None
            self.plating = Plating(physics, physics.built.plates, physics.built.terrain)

    def _per_geom(self, kind: str, option: str) -> np.ndarray:
        """An option of the Params of a kind for each geom of the ground law, (k,); 1 where none applies."""
        out = np.ones(len(self.geoms))
        for slots in self.physics.slots.values():
            if slots.param.kind == kind:
                out[np.isin(self.geoms, slots.ids)] = slots.param.options[option]
        return out

    def _knee(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Speed [rad/s] and shape of a Stribeck term for each joint, (joints,) each."""
        speed, shape = np.ones((2, len(self.dofs)))
        for slots in self.physics.slots.values():
            if slots.param.kind == kind:
                speed[slots.ids], shape[slots.ids] = slots.param.options["speed"], slots.param.options["shape"]
        return speed, shape

    def __bool__(self) -> bool:
        return bool(self.names)

    def clear(self, ids: np.ndarray) -> None:
        """After a reset: fields as they are at rest and at time zero, no memory of the episode before."""
        field, t = self.physics.engine.field, self.physics.tables
        if "friction_law" in self.names:
            field("dof_frictionloss")[np.ix_(ids, self.dofs)] = t["coulomb"][ids]
        if "sag_law" in self.names:
            self.bus.rest(ids)
        if "ground_law" in self.names:
            self.last_pos[ids] = np.nan
            t["friction_scale"][np.ix_(ids, self.geoms)] = 1.0
            field("geom_friction")[np.ix_(ids, self.geoms, np.array([0]))] = t["friction_base"][
                np.ix_(ids, self.geoms)
            ][..., None]
            self.physics.follow_ground(ids)
        if "vibration_law" in self.names:
            field("opt.gravity")[ids] = gravity_vector(t["gravity"][ids], t["slope"][ids])
        if "terrain_law" in self.names:
            self.plating.fresh[ids] = True

    def settle(self, ids: np.ndarray) -> bool:
        """After derived quantities were brought up to a reset's state: whether that moved anything they depend on."""
        if "terrain_law" not in self.names:
            return False
        self.plating.place(0.0, ids)
        self.plating.fresh[ids] = True
        return True

    def act(self, dt: float, control: np.ndarray) -> None:
        """Write what the laws ask for into the engine's fields, for the substep of length dt under `control`."""
        with np.errstate(invalid="ignore", over="ignore"):  # worlds that blew up are named elsewhere
            for name in self.names:
                getattr(self, f"_{name}")(dt, control)

    def _friction_law(self, dt: float, control: np.ndarray) -> None:
        p, t = self.physics, self.physics.tables
        v = p.engine.qvel[:, self.dofs]
        motor, external = p.engine.derived("qfrc_actuator")[:, self.dofs], self._external(v)
        through = np.abs(motor - external)
        slow, slow_load = (np.exp(-((np.abs(v) / speed) ** shape)) for speed, shape in self.knees.values())
        force = t["coulomb"] + t["stribeck"] * slow + (t["load_friction"] + t["load_stribeck"] * slow_load) * through
        force = force + np.abs(t["motor_friction"] * motor - t["external_friction"] * external)
        opposed = motor * external < 0
        force = force + np.where(opposed, t["quadratic_friction"] * through**2, 0.0)
        if self.sloped:
            q = p.engine.qpos[:, self.places]
            force = np.maximum(force + t["coulomb_slope"] * (q - self.default_pose), 0.0)
        if self.directed:
            way = np.sign(np.where(np.abs(v) > AT_REST, v, motor + external))
            force = np.maximum(force + way * (t["coulomb_asymmetry"] + t["damping_asymmetry"] * np.abs(v)), 0.0)
        p.engine.field("dof_frictionloss")[:, self.dofs] = force

    def _external(self, v: np.ndarray) -> np.ndarray:
        """Torque of gravity, motion, contacts and limits on the joints in the last substep, (worlds, joints) [N·m].

        The engine gives contact and dry friction in one sum. Without contact that sum is dry friction alone; with
        contact, a joint that moves has used up its friction, and one that stands still is taken to have used none.
        """
        engine = self.physics.engine
        sum_of_both = engine.derived("qfrc_constraint")[:, self.dofs]
        dry = -np.clip(v / STILL, -1.0, 1.0) * engine.field("dof_frictionloss")[:, self.dofs]
        touching = (engine.derived("nefc") > engine.derived("nf")).reshape(-1, 1)
        return np.where(touching, sum_of_both - dry, 0.0) - engine.derived("qfrc_bias")[:, self.dofs]

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
        p.follow_ground(p.engine.everyone)

    def _vibration_law(self, dt: float, control: np.ndarray) -> None:
        p, t = self.physics, self.physics.tables
        frequency = p.option("floor_vibration", "frequency", 10.0)
        still = gravity_vector(t["gravity"], t["slope"])
        shake = t["floor_vibration"] * np.sin(2 * np.pi * frequency * p.engine.time)
        p.engine.field("opt.gravity")[:, :] = still
        p.engine.field("opt.gravity")[:, 2] -= shake

    def _terrain_law(self, dt: float, control: np.ndarray) -> None:
        self.plating.place(dt)
