"""Numerics Params: orders of integrators, cones, solvers; one value for all worlds of a Sim."""

import numpy as np
import pytest

import surefoot as sf
from small_robots import BALL, BLOCK, FREE, PENDULUM, robot

G = 9.81


def fly(sim: sf.Sim, seconds: float, **start) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times (T,), base positions and velocities (T, worlds, 3) after every control step."""
    sim.reset(**start)
    x, v = [], []
    for _ in range(round(seconds / sim.control_dt)):
        sim.step(sim.rest_command)
        x.append(np.array(sim.engine.qpos[:, :3]))
        v.append(np.array(sim.engine.qvel[:, :3]))
    return (np.arange(len(x)) + 1) * sim.control_dt, np.array(x), np.array(v)


def energy_error(home: sf.Robot, integrator: int, dt: float) -> float:
    """Largest relative change of a pendulum's energy over five swings."""
    params = sf.Params(scheme=sf.integrator(low=0, high=3), dt=sf.timestep(low=1e-4, high=0.04))
    sim = sf.Sim(home, params)
    sim.apply({"scheme": integrator, "dt": dt})
    sim.reset(qpos=np.array([1.0]))
    energy = []
    for _ in range(150):
        q, v = sim.engine.qpos[0, 0], sim.engine.qvel[0, 0]
        energy.append(0.5 * (0.03 + 2 * 0.5**2) * v**2 - 2 * G * 0.5 * np.cos(q))
        sim.step(np.zeros(0))
    return float(np.ptp(energy))


@pytest.mark.parametrize(("integrator", "order", "spread"), [(0, 1, 0.2), (1, 4, 1.2), (2, 1, 0.2), (3, 1, 0.2)])
def test_energy_drifts_with_the_order_of_the_integrator(tmp_path, integrator, order, spread):
    home = robot(tmp_path, PENDULUM, joints=("pivot",), ground=False, timestep=0.01, control_dt=0.04)
    coarse, fine = energy_error(home, integrator, 0.04), energy_error(home, integrator, 0.02)
    assert np.log2(coarse / fine) == pytest.approx(order, abs=spread)


def test_time_step_sets_the_number_of_substeps_and_not_the_time(tmp_path):
    home = robot(tmp_path / "slow", FREE, base="body", height=9.0, ground=False, timestep=0.005, control_dt=0.02)
    sim = sf.Sim(home, sf.Params(dt=sf.timestep(low=0.001, high=0.02)), worlds=3)
    for dt, n in ((0.001, 20), (0.004, 5), (0.02, 1)):
        sim.apply({"dt": dt})
        sim.reset()
        sim.step(np.zeros(0))
        assert (sim.substeps, sim.timestep) == (n, dt)
        np.testing.assert_allclose(sim.time, 0.02)
        drop = 0.5 * G * dt**2 * n * (n + 1)  # semi-implicit Euler's sum
        np.testing.assert_allclose(sim.engine.qpos[:, 2], 9.0 - drop, atol=1e-9)


def test_a_time_step_that_does_not_divide_the_control_period_is_refused_and_changes_nothing(tmp_path):
    home = robot(tmp_path, FREE, base="body", height=9.0, ground=False, timestep=0.005, control_dt=0.02)
    sim = sf.Sim(home, sf.Params(dt=sf.timestep(low=0.001, high=0.02)), worlds=2)
    with pytest.raises(sf.InputError, match="does not divide the control period"):
        sim.apply({"dt": 0.003})
    assert sim.e["dt"].tolist() == [0.005, 0.005]
    assert sim.timestep == 0.005


def test_another_time_step_in_the_middle_of_an_episode_keeps_state_command_and_memory():
    params = sf.Params(
        dt=sf.timestep(low=0.001, high=0.01),
        lag=sf.command_delay(low=0, high=0.03),
        age=sf.sensor_delay(low=0, high=0.02),
    )
    sim = sf.Sim(sf.load("go2"), params, worlds=2, noise=False)
    sim.apply({"lag": 0.02, "age": 0.01})
    sim.reset()
    u = sim.rest_command + 0.1
    for _ in range(30):
        sim.step(u)
    before, seen = np.array(sim.engine.qpos), sim.sense()["joint_pos"]
    sim.apply({"dt": 0.0025})
    np.testing.assert_array_equal(sim.engine.qpos, before)
    np.testing.assert_allclose(sim.sense()["joint_pos"], seen, atol=0.02)
    sim.step(u)
    np.testing.assert_allclose(sim.engine.qpos[:, 7:], before[:, 7:], atol=0.02)


NUMERICS = {
    "timestep": sf.timestep(low=0.001, high=0.004),
    "integrator": sf.integrator(low=0, high=3),
    "solver": sf.solver(low=0, high=2),
    "iterations": sf.iterations(low=1, high=100),
    "cone": sf.cone(low=0, high=1),
    "impratio": sf.impratio(low=0.1, high=100),
}
OTHER = {"timestep": 0.002, "integrator": 1, "solver": 1, "iterations": 7, "cone": 1, "impratio": 5.0}


@pytest.mark.parametrize("kind", NUMERICS)
def test_numerics_have_one_value_per_sim(tmp_path, kind):
    home = robot(tmp_path, BALL, base="ball", height=0.1, timestep=0.001, control_dt=0.004)
    sim = sf.Sim(home, sf.Params(p=NUMERICS[kind]), worlds=3)
    values = np.array([OTHER[kind], *sim.e["p"][:2]])
    with pytest.raises(sf.InputError, match="'p' has one value per Sim"):
        sim.apply({"p": values})
    with pytest.raises(sf.InputError, match="'p' has one value per Sim: apply it to all worlds"):
        sim.apply({"p": OTHER[kind]}, ids=[0, 1])
    sim.apply({"p": OTHER[kind]})
    assert (sim.e["p"] == OTHER[kind]).all()
    for w in range(3):
        assert getattr(sim.engine.single(w)[0].opt, kind) == OTHER[kind]


def test_the_cone_decides_the_friction_across_its_corners(tmp_path):
    """Along a diagonal a pyramid |f_x| + |f_y| <= μ N holds with μ / √2, an elliptic cone with μ."""
    home = robot(
        tmp_path,
        BLOCK.replace('friction="0.6', 'priority="1" friction="0.6'),
        base="block",
        height=0.02,
        control_dt=0.02,
    )
    params = sf.Params(cone=NUMERICS["cone"], x=sf.slope(low=0, high=1), y=sf.slope(low=0, high=1, axis="y"))
    for cone, mu in ((0, 0.6 / np.sqrt(2)), (1, 0.6)):
        sim = sf.Sim(home, params)
        sim.apply({"cone": cone, "x": 0.5, "y": 0.5})
        _, _, v = fly(sim, 1.0)
        g = np.array(sim.engine.field("opt.gravity")[0])
        impulse = v[-1, 0] - v[9, 0] - g * 0.8
        assert np.hypot(*impulse[:2]) / impulse[2] == pytest.approx(mu, rel=0.02)


def test_impratio_stiffens_friction_so_that_less_creeps(tmp_path):
    home = robot(tmp_path, BLOCK, base="block", height=0.02, control_dt=0.02, options='cone = "elliptic"')
    creep = []
    for ratio in (1.0, 10.0):
        sim = sf.Sim(home, sf.Params(ratio=NUMERICS["impratio"], tilt=sf.slope(low=0, high=1)))
        sim.apply({"ratio": ratio, "tilt": 0.2})
        creep.append(fly(sim, 1.0)[2][-1, 0, 0])
    assert creep[0] / creep[1] == pytest.approx(10.0, rel=0.05)


def test_solvers_agree_when_given_iterations_and_stop_when_they_run_out(tmp_path):
    home = robot(tmp_path, BLOCK, base="block", height=0.02, control_dt=0.01)
    ends = {}
    for solver, iterations in ((0, 100), (1, 100), (2, 100), (0, 1), (2, 1)):
        sim = sf.Sim(
            home, sf.Params(solver=NUMERICS["solver"], iterations=NUMERICS["iterations"], tilt=sf.slope(low=0, high=1))
        )
        sim.apply({"solver": solver, "iterations": iterations, "tilt": 0.9})
        _, _, v = fly(sim, 0.3)
        ends[solver, iterations] = v[-1, 0]
        assert sim.engine.single(0)[1].solver_niter.max() <= iterations
    np.testing.assert_allclose(ends[1, 100], ends[2, 100], atol=0.05)
    assert np.abs(ends[0, 1] - ends[2, 100]).max() > 1e-6
