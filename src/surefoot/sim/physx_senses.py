"""What the sensors of a robot read in PhysX: rates, specific force, attitude, and the force under each foot.

gyro    R_siteᵀ ω                         at the end of a substep
accel   R_siteᵀ ((v₁ - v₀) / dt - g)      mean over a substep: a rigid contact has no force at an instant, only an impulse
force   impulse / h of the last PhysX step, normal to the contact; its sign is MuJoCo's, what the geom does to the ground
"""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.sim.inertia import rotation
from surefoot.sim.physx_scene import Scene
from surefoot.sim.urdf import Tree

SENSOR = mujoco.mjtSensor
ACCEL, GYRO, QUAT = (int(SENSOR.mjSENS_ACCELEROMETER), int(SENSOR.mjSENS_GYRO), int(SENSOR.mjSENS_FRAMEQUAT))
CONTACT = int(SENSOR.mjSENS_CONTACT)


class Look(NamedTuple):
    """Where some links are and how they move, world frame, (rows, links, ...)."""

    pos: np.ndarray
    quat: np.ndarray
    R: np.ndarray
    velocity: np.ndarray
    """Of the link's origin [m/s]."""
    rates: np.ndarray
    """[rad/s]"""


class Mount(NamedTuple):
    """Where a site or body sits: column of its link in a Look, place and frame in the link's."""

    column: int
    pos: np.ndarray
    frame: np.ndarray


class Senses:
    """The sensors of one model that PhysX can fill; a model with another one is refused."""

    def __init__(self, tree: Tree, model: mujoco.MjModel):
        self.tree, self.model = tree, model
        self.links = [0] if tree.free else []
        """Links that are looked at: the base, and those that carry sensors, rotors or applied forces."""
        self.filled: list[tuple[int, int, Mount | None, int]] = []
        """Kind, object, mount and first column of every sensor."""
        for i in range(model.nsensor):
            kind, target = int(model.sensor_type[i]), int(model.sensor_objid[i])
            if kind not in (ACCEL, GYRO, QUAT, CONTACT):
                name = model.sensor(i).name
                raise InputError(f"sensor '{name}' cannot be read on the physx engine: leave it out of the robot file")
            mount = None
            if kind != CONTACT:
                mount = self.on_body(target) if kind == QUAT else self.at_site(target)
            self.filled.append((kind, target, mount, int(model.sensor_adr[i])))
        self.feet = {target: at for kind, target, _, at in self.filled if kind == CONTACT}
        """Geom -> first column of the force on it."""
        self.rotors = [
            (int(i), self.at_site(int(model.actuator_trnid[i, 0])), np.array(model.actuator_gear[i]))
            for i in np.flatnonzero(model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_SITE))
        ]

    # ---------------------------------------------------------------- places

    def at_site(self, site: int) -> Mount:
        """Where a site sits."""
        model = self.model
        return self._mount(
            int(model.site_bodyid[site]), model.site_pos[site], rotation(np.array(model.site_quat[site]))
        )

    def on_body(self, body: int) -> Mount:
        """Where a body's own frame sits."""
        return self._mount(body, np.zeros(3), np.eye(3))

    def _mount(self, body: int, pos: np.ndarray, frame: np.ndarray) -> Mount:
        model, carrier = self.model, int(self.model.body_weldid[body])
        while body != carrier:
            R = rotation(np.array(model.body_quat[body]))
            pos, frame = model.body_pos[body] + R @ pos, R @ frame
            body = int(model.body_parentid[body])
        link = self.tree.link_of(carrier) if carrier else 0
        if link not in self.links:
            self.links.append(link)
        return Mount(self.links.index(link), pos - self.tree.links[link].origin, frame)

    # ---------------------------------------------------------------- what is true

    def look(self, scenes: Sequence[Scene]) -> Look:
        """Where the links are and how they move now."""
        raw = np.zeros((len(scenes), len(self.links), 16))
        for k, scene in enumerate(scenes):
            for column, number in enumerate(self.links):
                link, row = scene.links[number], raw[k, column]
                pose = link.entity_pose
                row[:3], row[3:7] = pose.p, pose.q
                row[7:10], row[10:13], row[13:] = link.linear_velocity, link.angular_velocity, scene.coms[number]
        quat = raw[..., 3:7]
        R = rotation(quat / np.linalg.norm(quat, axis=-1, keepdims=True))
        rates = raw[..., 10:13]
        # PhysX has the velocity of the centre of mass.
        velocity = raw[..., 7:10] - cross(rates, turned(R, raw[..., 13:]))
        return Look(raw[..., :3], quat, R, velocity, rates)

    def read(self, scenes: Sequence[Scene], before: Look, now: Look, gravity: np.ndarray, dt: float) -> np.ndarray:
        """Readings (rows, nsensordata) after a substep of dt seconds that led from one look to the other."""
        out = np.zeros((len(scenes), self.model.nsensordata))
        for kind, _, mount, at in self.filled:
            if mount is None:
                continue
            i = mount.column
            if kind == QUAT:
                out[:, at : at + 4] = now.quat[:, i]
                continue
            frame = now.R[:, i] @ mount.frame
            value = now.rates[:, i]
            if kind == ACCEL:
                speeds = [x.velocity[:, i] + cross(x.rates[:, i], turned(x.R[:, i], mount.pos)) for x in (before, now)]
                value = (speeds[1] - speeds[0]) / dt - gravity
            out[:, at : at + 3] = np.einsum("kij,ki->kj", frame, value)
        if self.feet:
            for k, scene in enumerate(scenes):
                for geom, force in scene.forces(self.feet).items():
                    out[k, self.feet[geom] : self.feet[geom] + 3] = force
        return out

    # ---------------------------------------------------------------- what pushes

    def lever(self, look: Look, row: int, body: int, com: np.ndarray) -> np.ndarray:
        """From its link's centre of mass, `com`, to a body's own, (3,) [m], world frame; 0 where the body is the whole link."""
        link = self.tree.link_of(int(self.model.body_weldid[body]))
        if len(self.tree.links[link].bodies) == 1:
            return np.zeros(3)
        mount = self.on_body(body)
        return look.R[row, mount.column] @ (mount.pos + mount.frame @ self.model.body_ipos[body] - com)

    def thrust(self, scenes: Sequence[Scene], force: np.ndarray) -> None:
        """Let rotors push at their sites: force (rows, nu) times each one's gear, in the site's frame."""
        look = self.look(scenes)
        for i, mount, gear in self.rotors:
            R = look.R[:, mount.column]
            push = force[:, i, None] * turned(R @ mount.frame, gear[:3])
            number = self.links[mount.column]
            arm = turned(R, mount.pos - np.array([scene.coms[number] for scene in scenes]))
            turn = force[:, i, None] * turned(R @ mount.frame, gear[3:]) + cross(arm, push)
            for k, scene in enumerate(scenes):
                scene.links[number].add_force_torque(push[k], turn[k])


def turned(R: np.ndarray, x: np.ndarray) -> np.ndarray:
    """R x for matrices (..., 3, 3) and vectors (..., 3)."""
    return (R @ x[..., None])[..., 0]


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Vector product over the last axis."""
    x, y = np.broadcast_arrays(a, b)
    return np.stack(
        [
            x[..., 1] * y[..., 2] - x[..., 2] * y[..., 1],
            x[..., 2] * y[..., 0] - x[..., 0] * y[..., 2],
            x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0],
        ],
        axis=-1,
    )
