"""Our models against public references: mass matrix, gravity torques, total mass, and a trajectory of Go2."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from surefoot.robots import load

REFERENCES = {
    "go2": "unitree_go2/go2.xml",
    "g1": "unitree_g1/g1.xml",
    "so101": "robotstudio_so101/so101.xml",
    "crazyflie": "bitcraze_crazyflie_2/cf2.xml",
}
POSES = 50


def pair(name: str, folder: Path) -> tuple[mujoco.MjModel, mujoco.MjModel]:
    """Our model and the reference, compiled."""
    return load(name).spec().compile(), mujoco.MjModel.from_xml_path(str(folder / REFERENCES[name]))


def dof_map(ours: mujoco.MjModel, theirs: mujoco.MjModel) -> list[int]:
    """For each dof of ours the dof of theirs: free joint first, then hinges by name."""
    order: list[int] = []
    for i in range(ours.njnt):
        if ours.jnt_type[i] == 0:
            order += range(6)
        else:
            order.append(int(theirs.joint(ours.joint(i).name).dofadr[0]))
    return order


def same_pose(ours: mujoco.MjModel, theirs: mujoco.MjModel, rng: np.random.Generator):
    """One random pose within the joint limits, written to a data of each model."""
    mine, other = mujoco.MjData(ours), mujoco.MjData(theirs)
    for i in range(ours.njnt):
        if ours.jnt_type[i] == 0:
            quat = rng.normal(size=4)
            mine.qpos[:7] = other.qpos[:7] = [*rng.normal(size=3), *(quat / np.linalg.norm(quat))]
        else:
            low, high = ours.jnt_range[i]
            name = ours.joint(i).name
            mine.joint(name).qpos = other.joint(name).qpos = rng.uniform(low, high)
    return mine, other


def dynamics(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray]:
    """Rigid-body mass matrix without armature, and gravity torques (bias force at zero velocity)."""
    mujoco.mj_forward(model, data)
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass)
    return mass - np.diag(model.dof_armature), data.qfrc_bias.copy()


@pytest.mark.parametrize("name", REFERENCES)
def test_mass_matrix_and_gravity_agree_with_the_reference_at_fifty_poses(name, reference_dir):
    ours, theirs = pair(name, reference_dir)
    order = dof_map(ours, theirs)
    rng = np.random.default_rng(0)
    for _ in range(POSES):
        mine, other = same_pose(ours, theirs, rng)
        mass, gravity = dynamics(ours, mine)
        mass_ref, gravity_ref = dynamics(theirs, other)
        scale = np.sqrt(np.outer(np.diag(mass_ref), np.diag(mass_ref)))  # inertia relative to the dofs it couples
        assert np.abs((mass - mass_ref[np.ix_(order, order)]) / scale[np.ix_(order, order)]).max() < 1e-9
        assert np.abs(gravity - gravity_ref[order]).max() < 1e-9 * np.abs(gravity_ref).max()


@pytest.mark.parametrize("name", REFERENCES)
def test_total_mass_is_that_of_the_reference(name, reference_dir):
    ours, theirs = pair(name, reference_dir)
    assert ours.body_mass.sum() == pytest.approx(theirs.body_mass.sum(), rel=1e-9)


@pytest.mark.parametrize("name", ["go2", "g1", "so101"])
def test_joint_limits_are_those_of_the_reference(name, reference_dir):
    ours, theirs = pair(name, reference_dir)
    for joint in load(name).joints:
        np.testing.assert_allclose(ours.joint(joint).range, theirs.joint(joint).range, atol=1e-9)


@pytest.mark.parametrize("name", ["go2", "so101"])
def test_armature_and_friction_torque_are_those_of_the_reference(name, reference_dir):
    ours, theirs = pair(name, reference_dir)
    for joint in load(name).joints:
        i, k = int(ours.joint(joint).dofadr[0]), int(theirs.joint(joint).dofadr[0])
        assert ours.dof_armature[i] == theirs.dof_armature[k]
        assert ours.dof_frictionloss[i] == theirs.dof_frictionloss[k]


@pytest.mark.parametrize(("timestep", "integrator"), [(0.002, 0), (0.005, 3)])  # Euler, implicitfast
def test_go2_follows_its_reference_for_two_seconds_under_the_same_torques(timestep, integrator, reference_dir):
    robot = load("go2")
    ours, theirs = pair("go2", reference_dir)
    mine, other = mujoco.MjData(ours), mujoco.MjData(theirs)
    for model in (ours, theirs):
        model.opt.timestep, model.opt.integrator, model.opt.cone, model.opt.impratio = timestep, integrator, 0, 1.0
        model.geom_contype[:] = model.geom_conaffinity[:] = 0
    mine.qpos[:7] = other.qpos[:7] = [0, 0, 0.4, 1, 0, 0, 0]
    for name in robot.joints:
        mine.joint(name).qpos = other.joint(name).qpos = robot.pose[name]
    gap, path, phases = 0.0, [], np.random.default_rng(1).uniform(0, 2 * np.pi, 12)
    for step in range(round(2.0 / timestep)):
        torques = 6.0 * np.sin(2 * np.pi * 1.0 * step * timestep + phases)
        for model, data in ((ours, mine), (theirs, other)):
            for torque, name in zip(torques, robot.joints, strict=True):
                data.qfrc_applied[model.joint(name).dofadr[0]] = torque
            mujoco.mj_step(model, data)
        path.append([mine.joint(name).qpos[0] for name in robot.joints])
        gap = max(gap, np.abs(path[-1] - np.array([other.joint(name).qpos[0] for name in robot.joints])).max())
    assert np.ptp(path, axis=0).min() > 0.3  # [rad] every joint did swing
    assert gap < 1e-6  # [rad]
    np.testing.assert_allclose(mine.qpos[:7], other.qpos[:7], atol=1e-6)
