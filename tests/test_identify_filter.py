"""How late an encoder's speed is can be fitted, in simulation to a planted truth and in recordings to what their angles say."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.bench.real_data import logs_of
from surefoot.identify import identify
from surefoot.identify.excite import Effort, excite
from surefoot.identify.information import Information, Lens, sensor_noise_of
from surefoot.identify.rollouts import Rollouts
from surefoot.identify.windows import cut
from surefoot.sim.record import Recording

ONLY = ("command_delay", "velocity_filter", "arm_mass")
JUMP = 75
"""Control steps of the Qube, 0.3 s, after which its voltage jumps."""


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


def jumps(late: float, seed: int, steps: int = 900) -> sf.Log:
    """A Qube under a square wave of voltage; its speeds go through a low-pass of our own, at the time step, with white noise."""
    sim = sf.Sim(sf.load("qube"), worlds=1, noise=False)
    recording, speed = Recording(sim), [np.zeros(2)]
    for k in range(steps):
        u = np.array([[4.0 if (k // JUMP) % 2 == 0 else -4.0]])
        recording.add(sim.sense(), u)
        speed += list(np.array(sim.advance(np.repeat(u[:, None], sim.substeps, axis=1), ("qvel",))["qvel"][0]))
    s, a = [speed[0]], np.exp(-sim.timestep / late)
    for before, now in itertools.pairwise(speed):
        s.append(a * s[-1] + (1 - a) * 0.5 * (before + now))
    values = np.array(s)[: steps * sim.substeps : sim.substeps]
    values = values + 0.045 * np.random.default_rng(seed).standard_normal(values.shape)
    log = recording.log()
    return replace(log, channels=(*log.u, log["joint_pos"], replace(log["joint_vel"], values=values)))


@pytest.mark.parametrize(("late", "window"), [(0.018, 0.2), (0.018, 0.3), (0.009, 0.2), (0.004, 0.2)])
def test_identify_recovers_a_planted_filter_from_windows_that_begin_with_a_jump_of_the_command(late, window):
    """What a low-pass holds at a window's start comes from before it: with a start made up from the window alone τ was 8 % too small."""
    sim = sf.Sim(sf.load("qube"), noise=False)
    fit = identify(sim, [jumps(late, 1)], only=(*ONLY, "arm_damping"), window=window, jumps=False)
    at = fit.names.index("velocity_filter")
    low, high = fit.intervals()[at]
    assert fit.values[at] == pytest.approx(late, abs=2e-4)
    assert low <= late <= high
    assert high - low < 7e-4


def test_a_filter_that_no_one_fits_begins_each_window_with_what_was_recorded():
    """Under the planted e the first instants after a jump of the command are foretold; the parabola's start is not yet settled."""
    log, sim = jumps(0.018, 1), sf.Sim(sf.load("qube"), noise=False)
    rollouts = Rollouts(sim, cut(sim, [log], channels=("joint_vel",), window=0.3, held_out=0.0))
    assert rollouts.starts.filtered.tolist() == [0, 1]
    y = rollouts.predict({"velocity_filter": [0.018]}, np.arange(len(rollouts.windows)))[0]
    missed = np.abs(rollouts.y - y)[rollouts.t < 0.02]
    assert missed.mean() < 0.2  # The noise makes 0.04 of it, a start made up from the window alone 1.3.


def test_one_name_is_as_good_as_a_list_of_one():
    sim, log = sf.Sim(sf.load("qube"), noise=False), swings(0.009, 0.0)
    fit = identify(sim, [log], only="velocity_filter", window=0.3, jumps=False)
    assert fit.provenance["channels"] == ["joint_pos", "joint_vel"]
    assert fit.names == ("velocity_filter",)


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


def test_what_a_low_pass_held_at_a_windows_start_teaches_nothing():
    """The column that a design takes out of the information is what another start does to the readings, and it costs."""
    sim, late = sf.Sim(sf.load("qube"), noise=False), 0.018
    e = {name: value for name, value in sim.params.nominal_e(1).items()} | {"velocity_filter": np.array([late])}
    lens = Lens(names=("velocity_filter",), noise=sensor_noise_of(sim, names=("velocity_filter",)), window=0.2)
    design, log = Information(sim, lens), jumps(late, 1, steps=101)
    windows = cut(sim, [log], channels=("joint_vel",), window=0.2, held_out=0.0)
    rollouts = Rollouts(sim, windows)
    offsets = np.zeros((3, 1, rollouts.starts.nx))
    offsets[1:, 0, -2:] = np.eye(2)
    y = rollouts.predict({"velocity_filter": [late] * 3}, np.arange(1), offsets)[:, 0]
    moved = (y[1:] - y[0]).reshape(2, -1, 2)[:, 1 : len(design.at) + 1]  # (start, time, joint)
    shown = {"joint_pos": np.zeros((1, len(design.at), 2)), "joint_vel": np.zeros((1, len(design.at), 2))}
    column = design._fading(shown, np.array([late]))[0].reshape(2, len(design.at), 2, 2)
    assert (column[0] == 0.0).all()
    assert np.moveaxis(moved, 0, 2) * lens.noise.std["joint_vel"] ** -1.0 == pytest.approx(column[1], abs=1e-6)
    u = log["voltage_target"].values[None, :100]
    told = design(u, e)[0, 0, 0, 0]
    design.late = False
    assert 0.3 * design(u, e)[0, 0, 0, 0] < told < 0.95 * design(u, e)[0, 0, 0, 0]


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
