"""Our small robots under the commands of real recordings, against figures obtained without MuJoCo."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.io import loadmat

from surefoot.robots import load

pytestmark = pytest.mark.data


def coulomb_simulation(force: np.ndarray, start: float) -> np.ndarray:
    """EMPS with exact dry friction and the published parameters, integrated by hand at 1 kHz, (T,) [m]."""
    mass, viscous, dry, offset, dt = 95.1089, 203.5034, 20.3935, -3.1648, 1e-3
    position, speed, path = start, 0.0, []
    for f in force:
        path.append(position)
        free = (speed + dt / mass * (f - offset)) / (1 + dt * viscous / mass)
        speed = np.sign(free) * max(abs(free) - dt * dry / mass / (1 + dt * viscous / mass), 0.0)
        position += dt * speed
    return np.array(path)


@pytest.mark.parametrize(("file", "error"), [("DATA_EMPS", 6.81), ("DATA_EMPS_PULSES", 9.17)])  # [mm]
def test_emps_follows_the_recorded_command_like_exact_dry_friction(data_dir: Path, file: str, error: float):
    recording = loadmat(data_dir / "emps" / f"{file}.mat")
    measured, force = recording["qm"][:, 0], 35.15065 * recording["vir"][:, 0]
    model = load("emps").spec().compile()
    data = mujoco.MjData(model)
    data.qpos[0], path = measured[0], []
    for f in force:
        path.append(data.qpos[0])
        data.qfrc_applied[0] = f
        mujoco.mj_step(model, data)
    by_hand = coulomb_simulation(force, measured[0])
    assert np.abs(path - by_hand).max() < 1.5e-3  # [m] over 25 s of open loop
    assert 1e3 * np.sqrt(np.mean((path - measured) ** 2)) == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize(("steps", "theta", "alpha"), [(50, 0.082, 0.103), (250, 0.171, 0.072)])  # [rad]
def test_qube_predicts_the_recorded_chirps_as_well_as_its_published_model(data_dir: Path, steps, theta, alpha):
    robot = load("qube")
    motor, model = robot.actuator("arm"), robot.spec().compile()
    data, errors = mujoco.MjData(model), []
    for file in sorted((data_dir / "quanser_wam_simurlacra" / "qq_chrip_10to0Hz_+1.5V_250Hz_10s").glob("*.npz")):
        states, volts = (np.load(file)[key].astype(float) for key in ("states", "actions"))
        for start in range(0, len(volts) - steps, steps):
            data.qpos[:], data.qvel[:] = states[start, :2], states[start, 2:]
            for k in range(start, start + steps):
                for _ in range(round(0.004 / robot.timestep)):
                    emf = motor.torque_constant * data.qvel[0]
                    data.qfrc_applied[0] = motor.torque_constant / motor.resistance * (volts[k, 0] - emf)
                    mujoco.mj_step(model, data)
                errors.append(data.qpos - states[k + 1, :2])
    rmse = np.sqrt(np.mean(np.square(errors), axis=0))
    np.testing.assert_allclose(rmse, [theta, alpha], rtol=0.07)
