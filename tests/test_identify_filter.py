"""How late an encoder's speed is can be fitted, in simulation to a planted truth and in recordings to what their angles say."""

from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.bench.real_data import logs_of
from surefoot.identify import identify
from surefoot.identify.excite import Effort, excite
from surefoot.identify.information import sensor_noise_of
from surefoot.sim.record import Recording

ONLY = ("command_delay", "velocity_filter", "arm_mass")


def swings(late: float, delay: float, seconds: float = 3.0) -> sf.Log:
    """A Qube driven by sines of voltage, its coarse encoders and their filtered speeds."""
    sim = sf.Sim(sf.load("qube"), worlds=1, seed=3)
    sim.apply(sim.params.nominal_e(1) | {"velocity_filter": late, "command_delay": delay, "arm_mass": 0.11})
    sim.reset()
    recording = Recording(sim)
    for k in range(round(seconds / sim.control_dt)):
        t = k * sim.control_dt
        u = np.array([[2.0 * np.sin(2 * np.pi * 1.3 * t) + 1.5 * np.sin(2 * np.pi * 3.7 * t + 1.0)]])
        recording.add(sim.sense(), u)
        sim.step(u)
    return recording.log()


@pytest.mark.parametrize("late", [0.004, 0.009, 0.018])
def test_identify_recovers_a_planted_filter_beside_a_planted_delay(late):
    sim = sf.Sim(sf.load("qube"), noise=False)
    fit = identify(sim, [swings(late, 0.0053)], only=ONLY, window=0.3, jumps=False)
    assert fit.provenance["channels"] == ["joint_pos", "joint_vel"]  # The speeds alone show it, so they are compared.
    value = dict(zip(fit.names, fit.values, strict=True))
    assert value["velocity_filter"] == pytest.approx(late, abs=4e-4)
    assert value["command_delay"] == pytest.approx(0.0053, abs=4e-4)
    assert value["arm_mass"] == pytest.approx(0.11, rel=0.02)
    assert fit.std[fit.names.index("velocity_filter")] < 5e-4


def test_without_the_filter_among_the_unknowns_speeds_are_not_compared():
    fit = identify(
        sf.Sim(sf.load("qube"), noise=False), [swings(0.009, 0.0053)], only=("command_delay",), window=0.3, jumps=False
    )
    assert fit.provenance["channels"] == ["joint_pos"]


def test_a_design_expects_to_learn_the_filter_from_the_speeds():
    sim = sf.Sim(sf.load("qube"), noise=False)
    assert "joint_vel" not in sensor_noise_of(sim, names=("arm_mass",)).std
    assert "joint_vel" in sensor_noise_of(sim, names=ONLY).std
    effort = Effort(families=("multi-sine",), population=4, rounds=1, elite=2, samples=1, climbs=0)
    design = excite(sim, only=ONLY, seconds=2.0, window=0.3, effort=effort)
    expected = {row["name"]: row for row in design.to_dict()["expected"]}
    assert expected["velocity_filter"]["after"] < 0.5 * expected["velocity_filter"]["before"]


@pytest.mark.data
def test_the_qubes_recorded_speeds_are_as_late_as_its_makers_filter(data_dir: Path):
    logs = [log for log in logs_of(data_dir, "quanser_qube") if "chrip" in str(log.meta) or log.duration > 9.0][:1]
    angle, speed = logs[0]["joint_pos"], logs[0]["joint_vel"]
    sim = sf.Sim(sf.load("qube"), noise=False)
    fit = identify(
        sim, logs, only=("velocity_filter", "pendulum_damping", "arm_damping", "command_delay"), window=0.5, jumps=False
    )
    late = fit.values[fit.names.index("velocity_filter")]
    true, t = np.gradient(angle.column("pendulum"), angle.t), angle.t
    shifts = np.arange(0.005, 0.03, 0.0005)
    misses = [np.std(np.interp(t - s, t, true) - speed.column("pendulum")) for s in shifts]
    assert late == pytest.approx(shifts[int(np.argmin(misses))], abs=4e-3)
