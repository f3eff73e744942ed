"""The PhysX engine (extra `physx`): an independent second opinion under the same Sim.

MuJoCo keeps the books and PhysX moves the robot. Fields, state and what follows from a pose by geometry alone (where geoms and
sites are) are those of the CPU engine, so that e, sensors, snapshots and pictures work unchanged. Every change of the state comes
from PhysX: its articulations in reduced coordinates, its contacts, its TGS solver, at steps of at most 2 ms in single precision.
Motors are surefoot's own (physx_motors.py). Each world is a scene; they move one after the other, on one thread.

The model is first taken apart into links and joints (urdf.py), and a motion with the base held must agree with MuJoCo (physx_check.py).
What PhysX has no place for is refused by the Param's name (`refuse`).
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.params import Params
from surefoot.sim.engine import BAD, RECORDS, CpuEngine
from surefoot.sim.physx_check import require
from surefoot.sim.physx_motors import FIELDS as MOTOR_FIELDS
from surefoot.sim.physx_motors import Motors
from surefoot.sim.physx_scene import Scene, library
from surefoot.sim.physx_senses import Look, Senses, cross
from surefoot.sim.urdf import INERTIAL, describe, lumped

LONGEST_STEP = 0.002
"""[s]"""
FASTEST = 1e4
"""Speed of a joint at which a world counts as blown up [rad/s]; PhysX cuts speeds before they leave the numbers."""
LACKING = {
    "softness": "its contacts are rigid",
    "contact_damping": "its contacts are rigid",
    "soft_ground": "its contacts are rigid",
    "bounce": "its contacts take the mean of two restitutions, which the ground would share",
    "roughness": "it has no height fields here",
    "step_height": "it has no height fields here",
    "torsional_friction": "its contacts have one coefficient of friction",
    "rolling_friction": "its contacts have one coefficient of friction",
}
"""Kinds of Param that PhysX has no place for, and why."""
FELT = frozenset({*INERTIAL, *MOTOR_FIELDS, "dof_frictionloss", "geom_friction", "opt.gravity"})
"""Fields of the model that may differ between worlds."""
GEOMETRIC = frozenset({
    "xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat",
    "subtree_com", "actuator_length", "actuator_velocity", "sensordata", "actuator_force",
})  # fmt: skip
"""Derived quantities that follow from the state by geometry alone, and the two that PhysX gives."""


def refuse(params: Params) -> None:
    """Raise an InputError for the first Param that the engine has not."""
    for name, param in params.items():
        kind = param.about
        if param.kind in LACKING or "physx" not in kind.engines:
            why = LACKING.get(param.kind, _why(kind.group))
            raise InputError(
                f"param '{name}' of kind {param.kind} is not available on the physx engine: {why}; leave it out, or use engine='cpu'"
            )


def _why(group: str) -> str:
    return {
        "geometry": "its links are built once",
        "numerics": "it has its own solver and time step",
        "actuator": "its joints have PD gains, limits, armature, damping and dry friction alone",
    }.get(group, "it has no place for it")


class Step(NamedTuple):
    """What one substep led to: state, motor forces, links, and how to read the sensors."""

    q: np.ndarray
    v: np.ndarray
    force: np.ndarray
    look: Look
    readings: Callable[[], np.ndarray]


class PhysxEngine(CpuEngine):
    """x' = f(x, u, e) by PhysX for `worlds` worlds, one after the other; `threads` are MuJoCo's, for geometry alone."""

    name = "physx"

    def __init__(self, model: mujoco.MjModel, worlds: int, threads: int = 0):
        library()
        self.tree = describe(model)
        self._refuse_model(model)
        require(self.tree, model)
        self.motors = Motors(model)
        self.senses = Senses(self.tree, model)
        moving = [b for b in range(1, model.nbody) if model.body_weldid[b]]
        self._pushed = {b: self.tree.link_of(int(model.body_weldid[b])) for b in moving}
        """Link of every body that a force could move."""
        for body in moving:
            if len(self.tree.links[self._pushed[body]].bodies) > 1:
                self.senses.on_body(body)
        super().__init__(model, worlds, threads)
        self.parts = max(1, int(np.ceil(model.opt.timestep / LONGEST_STEP - 1e-9)))
        """PhysX steps in one substep."""
        self.h = float(model.opt.timestep) / self.parts
        self.scenes = [Scene(self.tree, model, step=self.h) for _ in range(worlds)]
        first = self.scenes[0]
        self.dofs, self.places, self.free = first.dofs, first.places, first.free
        self._written: dict[str, np.ndarray] = {}
        self._added = np.zeros((worlds, model.nv))
        self._held = np.full((worlds, model.nq), np.nan), np.full((worlds, model.nv), np.nan)
        """State that the scenes are in, in the model's columns; NaN: not yet told."""
        self._sync()

    def _refuse_model(self, model: mujoco.MjModel) -> None:
        if (model.geom_type == int(mujoco.mjtGeom.mjGEOM_HFIELD)).any():
            raise InputError(
                "the ground is a height field, which the physx engine has not: leave out roughness and step_height"
            )
        if model.body_gravcomp.any():
            raise InputError("a body of the model carries its own weight (gravcomp), which the physx engine has not")
        if model.opt.density or model.opt.viscosity:
            raise InputError(
                "the model has air around it (density, viscosity), which the physx engine has not: set both to 0"
            )
        if model.jnt_actfrclimited.any():
            raise InputError(
                "a joint of the model limits its actuators' sum, which the physx engine has not: limit the actuators"
            )

    # ---------------------------------------------------------------- fields of the model

    def field(self, name: str) -> np.ndarray:
        """Live values of a model field for every world; refuses one that PhysX would not feel."""
        if name not in FELT:
            raise InputError(
                f"'{name}' cannot differ between worlds on the physx engine: leave out the Params that write it"
            )
        return super().field(name)

    def figure(self, name: str) -> np.ndarray:
        """A field of the model for every world, (worlds, ...), without giving each world its own."""
        if name in self._fields:
            return self._fields[name]
        own = self.nominal(name)
        return np.broadcast_to(own, (self.worlds, *own.shape))

    def _sync(self) -> None:
        """Tell the scenes and the motors what has changed in the fields since the last call."""
        first = not self._written
        changed: dict[str, np.ndarray] = {}
        for name in (*INERTIAL, *MOTOR_FIELDS, "dof_frictionloss", "geom_friction"):
            if not first and name not in self._fields:
                continue
            now = self.figure(name)
            old = self._written.get(name)
            rows = np.ones(self.worlds, bool) if old is None else (now != old).reshape(self.worlds, -1).any(1)
            if rows.any():
                changed[name] = rows
                self._written[name] = np.array(now)
        if any(name in changed for name in MOTOR_FIELDS):
            self.motors.read(self.figure)
            self._load(np.flatnonzero(np.any([changed[n] for n in MOTOR_FIELDS if n in changed], axis=0)))
        if "dof_frictionloss" in changed:
            for w in np.flatnonzero(changed["dof_frictionloss"]):
                self._rub(int(w))
        if "geom_friction" in changed:
            for w in np.flatnonzero(changed["geom_friction"]):
                self._grip(int(w))
        inertial = [changed[name] for name in INERTIAL if name in changed]
        if inertial and not first:
            for w in np.flatnonzero(np.any(inertial, axis=0)):
                self._weigh(int(w))

    def _rebuild(self, w: int) -> None:
        """A fresh scene for a world whose old one left the numbers, under the same e."""
        self.scenes[w] = Scene(self.tree, self.model, step=self.h)
        self._load(np.array([w]))
        self._rub(w)
        self._grip(w)
        self._weigh(w)

    def _rub(self, w: int) -> None:
        loss = self.figure("dof_frictionloss")[w]
        for column, dof in enumerate(self.dofs):
            self.scenes[w].rub(column, float(loss[dof]))

    def _weigh(self, w: int) -> None:
        values = {name: self.figure(name)[w] for name in INERTIAL}
        for i, link in enumerate(self.tree.links):
            if link.mass > 0:
                self.scenes[w].weigh(i, *lumped(link.bodies, link.origin, values, self.model))
        if self.free:
            # PhysX has the velocity of the centre of mass, which is another one now.
            self._held[1][w] = np.nan

    def _load(self, rows: np.ndarray) -> None:
        """Write rotor inertia, and what one implicit step adds to it."""
        for w in rows:
            for column, dof in enumerate(self.dofs):
                self.scenes[w].load(column, float(self.motors.armature[w, dof] + self._added[w, dof]))

    def _grip(self, w: int) -> None:
        """Friction of every contact with the ground as MuJoCo has it; PhysX takes the mean of the two that touch."""
        friction, model = self.figure("geom_friction")[w, :, 0], self.model
        if not self.tree.ground:
            return
        g = self.tree.ground[0].geom
        moving = [s.geom for link in self.tree.links for s in link.shapes]
        ahead = model.geom_priority[moving] - model.geom_priority[g]
        pair = np.where(
            ahead > 0, friction[moving], np.where(ahead < 0, friction[g], np.maximum(friction[moving], friction[g]))
        )
        one, other = model.geom_condim[moving], model.geom_condim[g]
        condim = np.where(ahead > 0, one, np.where(ahead < 0, other, np.maximum(one, other)))
        pair = np.where(condim == 1, 0.0, pair)
        own = float(pair.min(initial=float(friction[g])))
        for shape in self.tree.ground:
            self.scenes[w].grip(shape.geom, own)
        for geom, value in zip(moving, pair, strict=True):
            self.scenes[w].grip(geom, 2 * value - own)

    # ---------------------------------------------------------------- state

    def watch(self, *names: str) -> None:
        """Follow derived quantities; refuses those that only MuJoCo's own dynamics could give."""
        for name in names:
            if name not in GEOMETRIC:
                raise InputError(
                    f"{name!r} is not available on the physx engine {did_you_mean(name, sorted(GEOMETRIC))}"
                )
        super().watch(*names)

    def clear(self, ids: np.ndarray) -> None:
        """Put worlds back to the model's zero state, without computing anything."""
        for w in np.intersect1d(ids, self.failed()):
            self._rebuild(int(w))
        super().clear(ids)
        for state in self._held:
            state[ids] = np.nan

    def _push(self, rows: np.ndarray) -> None:
        """Bring the scenes of worlds `rows` into the engine's state, where that is another than their own."""
        for w in rows:
            q, v = self.qpos[w], self.qvel[w]
            moved = not np.array_equal(q, self._held[0][w])
            if not moved and np.array_equal(v, self._held[1][w]):
                continue
            scene = self.scenes[w]
            if self.free:
                b = self._base
                quat = q[b[0] + 3 : b[0] + 7]
                scene.push_base(
                    q[b[0] : b[0] + 3], quat / np.linalg.norm(quat), v[b[1] : b[1] + 3], v[b[1] + 3 : b[1] + 6]
                )
            scene.push_joints(q[self.places], v[self.dofs])
            self._held[0][w], self._held[1][w] = q, v

    @property
    def _base(self) -> tuple[int, int]:
        """First columns of the free base in qpos and qvel."""
        joint = int(np.flatnonzero(self.model.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE))[0])
        return int(self.model.jnt_qposadr[joint]), int(self.model.jnt_dofadr[joint])

    def _pull(self, look: Look, q: np.ndarray, v: np.ndarray) -> None:
        """Write the base into q (rows, nq), v (rows, nv); the joints are there already."""
        if self.free:
            a, b = self._base
            q[:, a : a + 3], q[:, a + 3 : a + 7] = look.pos[:, 0], look.quat[:, 0]
            v[:, b : b + 3] = look.velocity[:, 0]
            v[:, b + 3 : b + 6] = np.einsum("kij,ki->kj", look.R[:, 0], look.rates[:, 0])

    # ---------------------------------------------------------------- time

    def advance(
        self,
        control: np.ndarray,
        ids: np.ndarray | None = None,
        record: Sequence[str] = (),
        into: dict[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:
        """Step n substeps with control (k, n, nu); returns records (k, n, ...) as the CPU engine does."""
        begin = time.perf_counter()
        rows, n = self.everyone if ids is None else np.asarray(ids), control.shape[1]
        out = into if into is not None else {}
        widths = dict(zip(RECORDS, (self.model.nq, self.model.nv, self.model.nsensordata, self.model.nu), strict=True))
        for name in record:
            if name not in widths:
                raise InputError(f"{name!r} cannot be recorded on the physx engine {did_you_mean(name, RECORDS)}")
            if name not in out:
                out[name] = np.zeros((len(rows), n, widths[name]))
        self._sync()
        self._push(rows)
        going = np.ones(len(rows), bool)
        q, v = np.array(self.qpos[rows]), np.array(self.qvel[rows])
        sensed, force = np.array(self._derived["sensordata"][rows]), np.array(self._derived["actuator_force"][rows])
        look = self.senses.look([self.scenes[w] for w in rows])
        for j in range(n):
            at = np.flatnonzero(going)
            step = self._substep(rows[at], control[at, j], q[at], v[at], Look(*(x[at] for x in look)))
            q[at], v[at], force[at] = step.q, step.v, step.force
            if record or j == n - 1:
                sensed[at] = step.readings()
            for whole, part in zip(look, step.look, strict=True):
                whole[at] = part
            for name, value in zip(RECORDS, (q, v, sensed, force), strict=True):
                if name in record:
                    out[name][:, j] = value
            self.time[rows[at]] += float(self.model.opt.timestep)
            wild = ~(np.isfinite(q[at]).all(1) & (np.abs(v[at]).max(1, initial=0.0) < FASTEST))
            self.batch.warning[rows[at[wild]], BAD[0], 1] += 1
            going[at[wild]] = False
        self.qpos[rows], self.qvel[rows] = q, v
        self.ctrl[rows] = control[:, -1]
        self._held[0][rows], self._held[1][rows] = q, v
        self._publish(rows[going], sensed[going], force[going])
        self.busy += time.perf_counter() - begin
        return out

    def _publish(self, rows: np.ndarray, sensed: np.ndarray, force: np.ndarray) -> None:
        """Bring what follows from the pose up to the state, and put PhysX's own readings beside it."""
        if set(self._derived) - {"sensordata", "actuator_force"}:
            self.batch.forward(np.sort(rows))
        for name, values in (("sensordata", sensed), ("actuator_force", force)):
            live = self._derived[name]
            live.flags.writeable = True
            live[rows] = values
            live.flags.writeable = False

    def _substep(self, rows: np.ndarray, control: np.ndarray, q: np.ndarray, v: np.ndarray, before: Look) -> Step:
        """One substep of worlds `rows` from q, v, under control (rows, nu)."""
        dofs, places = self.dofs, self.places
        applied, wrenches = self.qfrc_applied[rows], self._wrenches(rows, before)
        scenes = [self.scenes[w] for w in rows]
        force = np.zeros((len(rows), self.model.nu))
        for _ in range(self.parts):
            torques = self.motors.act(rows, control, q, v, self.h)
            self._add(rows, torques.added)
            tau, force = (torques.joint + applied)[:, dofs], torques.motor
            if self.senses.rotors:
                self.senses.thrust(scenes, force)
            for k, scene in enumerate(scenes):
                for link, push, turn in wrenches.get(k, ()):
                    scene.links[link].add_force_torque(push, turn)
                if len(dofs):
                    scene.articulation.set_qf(tau[k])
                    scene.system.step()
                    q[k, places], v[k, dofs] = scene.articulation.get_qpos(), scene.articulation.get_qvel()
                else:
                    scene.system.step()
        now = self.senses.look(scenes)
        self._pull(now, q, v)
        gravity, dt = self.figure("opt.gravity")[rows], float(self.model.opt.timestep)
        return Step(q, v, force, now, lambda: self.senses.read(scenes, before, now, gravity, dt))

    def _add(self, rows: np.ndarray, added: np.ndarray) -> None:
        """Write what an implicit step adds to the rotors' inertia where a motor has reached its limit or left it."""
        for k, dof in np.argwhere(added[:, self.dofs] != self._added[np.ix_(rows, self.dofs)]):
            w, column = rows[k], self.dofs[dof]
            self._added[w, column] = added[k, column]
            self.scenes[w].load(int(dof), float(self.motors.armature[w, column] + added[k, column]))

    def _wrenches(self, rows: np.ndarray, look: Look) -> dict[int, list[tuple[int, np.ndarray, np.ndarray]]]:
        """Forces and torques on links in the coming substep, by row: those applied, and gravity that is not the scene's."""
        out: dict[int, list[tuple[int, np.ndarray, np.ndarray]]] = {}
        applied = self.xfrc_applied[rows]
        for k, body in np.argwhere(applied.any(2)):
            link = self._pushed.get(int(body))
            if link is not None:
                push, turn = applied[k, body, :3], applied[k, body, 3:]
                lever = self.senses.lever(look, int(k), int(body), self.scenes[rows[k]].coms[link])
                out.setdefault(int(k), []).append((link, push, turn + cross(lever, push)))
        if "opt.gravity" in self._fields:
            extra = self._fields["opt.gravity"][rows] - self.model.opt.gravity
            for k in np.flatnonzero(extra.any(1)):
                links = self.scenes[rows[k]].links
                out.setdefault(int(k), []).extend(
                    (i, link.mass * extra[k], np.zeros(3)) for i, link in enumerate(links)
                )
        return out
