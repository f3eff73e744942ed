"""Does a description move in PhysX as it does in MuJoCo? A trajectory with its base held, without any contact.

    M(q) a = τ + c(q, v),   τ = S (target(t) - q) - D v      the same law and time step in both engines, from each one's own state

Wrong joint orders, inertia frames, axes, centres of mass and rotor inertias all show here, in rad and by the joint's name; a
difference that would only show in contact is not one of the description.
"""

import copy
import hashlib

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.sim.physx_scene import Scene
from surefoot.sim.urdf import FREE, Tree

TOLERANCE = 1e-4
"""Largest difference of any joint at any time [rad], [m]."""
SECONDS, STEP = 1.0, 0.001
RATE, DAMPED = 12.0, 0.7
"""Natural frequency [rad/s] and damping ratio that every joint is driven with, whatever it weighs."""
SWING, PACE = 0.3, 7.0
"""Amplitude of the targets [rad] (a tenth of it for slides [m]), and their frequency [rad/s]."""
HEAVY = 1e10
"""Inertia that holds a free base still [kg], [kg·m²]."""
_agreed: set[str] = set()


def compare(tree: Tree, model: mujoco.MjModel, *, seconds: float = SECONDS, step: float = STEP) -> dict[str, float]:
    """Largest difference between PhysX and MuJoCo over a driven motion with the base held, by joint [rad], [m]."""
    joints = tree.joints
    if not joints:
        return {}
    still = held(model, step)
    data = mujoco.MjData(still)
    at, dofs = np.array([j.at for j in joints]), np.array([j.dof for j in joints])
    start = np.array([np.mean(j.limits) if j.limits is not None else model.qpos0[j.at] for j in joints])
    data.qpos[at] = start
    mujoco.mj_forward(still, data)
    weights = _diagonal(still, data)[dofs]
    stiff, damp = RATE**2 * weights, 2 * DAMPED * RATE * weights
    scene = Scene(tree, model, step=step, bare=True)
    own = np.array([int(np.flatnonzero(dofs == dof)[0]) for dof in scene.dofs])
    for column, joint in enumerate(own):
        scene.load(column, float(still.dof_armature[dofs[joint]]))
    if tree.free:
        scene.articulation.set_root_pose(scene.Pose(tree.pos, tree.quat))
    scene.push_joints(start[own], np.zeros(len(own)))
    size = np.array([0.1 * SWING if j.kind == "slide" else SWING for j in joints])
    phase = np.arange(len(joints)) * 2.4
    worst = np.zeros(len(joints))
    q, v = np.zeros(len(joints)), np.zeros(len(joints))
    for k in range(round(seconds / step)):
        target = start + size * (np.sin(PACE * k * step + phase) - np.sin(phase))
        q[own], v[own] = scene.articulation.get_qpos(), scene.articulation.get_qvel()
        data.qfrc_applied[dofs] = stiff * (target - data.qpos[at]) - damp * data.qvel[dofs]
        scene.articulation.set_qf((stiff * (target - q) - damp * v)[own])
        mujoco.mj_step(still, data)
        scene.system.step()
        q[own] = scene.articulation.get_qpos()
        worst = np.maximum(worst, np.abs(q - data.qpos[at]))
    return {joint.name: float(value) for joint, value in zip(joints, worst, strict=True)}


def require(tree: Tree, model: mujoco.MjModel) -> None:
    """Refuse to go on unless `compare` agrees to TOLERANCE; a description that agreed is not examined again."""
    key = hashlib.sha256(repr((tree, model.dof_armature.tolist(), model.opt.gravity.tolist())).encode()).hexdigest()
    if key in _agreed:
        return
    found = compare(tree, model)
    bad = {name: value for name, value in found.items() if not value <= TOLERANCE}
    if bad:
        order = sorted(bad, key=lambda n: -np.nan_to_num(bad[n], nan=np.inf))
        others = f", and {', '.join(order[1:6])}{' ...' if len(order) > 6 else ''} too" if order[1:] else ""
        raise InputError(
            f"the exported robot does not move as its model does: with the base held, joint '{order[0]}' is off by "
            f"{bad[order[0]]:.3g} rad within {SECONDS:g} s where {TOLERANCE:g} is allowed{others}: look at joint order, axis, "
            f"inertia and armature"
        )
    _agreed.add(key)


def held(model: mujoco.MjModel, step: float) -> mujoco.MjModel:
    """A like model whose base stays where it is, without contact, limits, friction, springs or motors."""
    still = copy.deepcopy(model)
    still.opt.timestep, still.opt.integrator = step, int(mujoco.mjtIntegrator.mjINT_EULER)
    flags = mujoco.mjtDisableBit
    for flag in (flags.mjDSBL_CONTACT, flags.mjDSBL_LIMIT, flags.mjDSBL_FRICTIONLOSS, flags.mjDSBL_ACTUATION):
        still.opt.disableflags |= int(flag)
    still.dof_damping[:] = 0.0
    still.jnt_stiffness[:] = 0.0
    for k in np.flatnonzero(still.jnt_type == FREE):
        first = int(still.jnt_dofadr[k])
        still.dof_armature[first : first + 6] = HEAVY
    return still


def _diagonal(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Diagonal of the mass matrix, (nv,)."""
    out, unit, row = np.zeros(model.nv), np.zeros(model.nv), np.zeros(model.nv)
    for i in range(model.nv):
        unit[:] = 0.0
        unit[i] = 1.0
        mujoco.mj_mulM(model, data, row, unit)
        out[i] = row[i]
    return out
