"""Sensors, their delays, disturbances and commands are array code: torch tensors go through it unchanged and give NumPy's numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

import surefoot as sf
from surefoot.sim.commands import CommandLine
from surefoot.sim.disturbances import Disturbances
from surefoot.sim.sensors import Sensors, View
from surefoot.sim.tape import Tape

torch = pytest.importorskip("torch")

IMPERFECT = sf.Params(
    encoder_bias=sf.encoder_bias(low=-0.03, high=0.03, each=True),
    encoder_noise=sf.encoder_noise(low=0.0, high=0.01),
    encoder_quantum=sf.encoder_quantum(low=0.0, high=0.01),
    velocity_noise=sf.velocity_noise(low=0.0, high=0.2),
    differencing=sf.discrete("velocity_differencing", 0, 1),
    filtered=sf.discrete("velocity_filter", 0, 0.03),
    **{
        f"gyro_{k}": getattr(sf, f"gyro_{k}")(low=0.0, high=0.02)
        for k in ("noise", "bias", "walk", "scale", "misalignment")
    },
    **{
        f"accel_{k}": getattr(sf, f"accel_{k}")(low=0.0, high=0.1)
        for k in ("noise", "bias", "walk", "scale", "misalignment")
    },
    mounting=sf.imu_mounting(low=-0.1, high=0.1),
    slope=sf.slope(low=-0.2, high=0.2),
    delay=sf.sensor_delay(low=0.0, high=0.03, each=True),
    jitter=sf.sensor_jitter(low=0.0, high=0.01),
    dropout=sf.sensor_dropout(low=0.0, high=0.3),
    period=sf.sensor_period(low=0.0, high=0.05),
    force_noise=sf.force_noise(low=0.0, high=3.0),
    drift=sf.force_drift(low=-0.2, high=0.2),
    temperature=sf.temperature(low=0.0, high=50.0),
    push=sf.push(low=0.2, high=1.0, interval=0.1),
    wrench=sf.wrench(low=-5.0, high=5.0),
    wind=sf.wind(low=-3.0, high=3.0),
    drag=sf.drag(low=0.01, high=0.2),
    cable=sf.cable_drag(low=0.0, high=2.0),
    gust=sf.gust(low=0.1, high=1.0),
    torque_noise=sf.torque_noise(low=0.01, high=0.1),
)
WORLDS = 6


def tensors(arrays):
    return {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}


class TorchNoise:
    """The same draws as tensors."""

    def __init__(self, noise):
        self.noise = noise

    def normal(self, *key):
        return torch.from_numpy(self.noise.normal(*key))

    def uniform(self, *key):
        return torch.from_numpy(self.noise.uniform(*key))


def like(sim: sf.Sim) -> SimpleNamespace:
    """What sensors and disturbances know of a Sim, in torch tensors of their own."""
    names = ("qpos", "qvel", "qfrc_applied", "xfrc_applied", "time")
    engine = SimpleNamespace(
        worlds=sim.worlds, array=torch.from_numpy, **tensors({n: getattr(sim.engine, n) for n in names})
    )
    physics = SimpleNamespace(
        engine=engine, tables=tensors(sim.physics.tables), motors=sim.physics.motors, built=sim.built, option=sim.physics.option,
        has=sim.physics.has, joint_dofs=sim.physics.joint_dofs,
    )  # fmt: skip
    noise = TorchNoise(sim.noise)
    other = SimpleNamespace(
        engine=engine, physics=physics, noise=noise, model=sim.model, worlds=sim.worlds, substeps=sim.substeps, timestep=sim.timestep,
        robot=sim.robot, params=sim.params, time=engine.time,
    )  # fmt: skip
    other.sensors = Sensors(sim.built, physics, noise, sim.control_dt)  # type: ignore[arg-type]
    other.disturbances = Disturbances(physics, noise, sim.control_dt, sim.disturbances.base, sim.sensors.base_v)  # type: ignore[arg-type]
    other.tape = Tape.needed(other)  # type: ignore[arg-type]
    return other


def view_of(view: View) -> View:
    return View(**tensors(vars(view)))


def test_torch_sensors_with_every_imperfection_read_what_numpy_sensors_read():
    sim = sf.Sim(sf.load("go2"), IMPERFECT, worlds=WORLDS, seed=3)
    sim.apply(sim.params.prior().sample(WORLDS, 1))
    sim.reset()
    other = like(sim)
    other.sensors.load(tensors(sim.sensors.arrays()))
    other.tape.fill(torch.arange(WORLDS), view_of(sim._now()))
    rng = np.random.default_rng(0)
    for step in range(25):
        here = sim.sense()
        there = {}
        for index in range(len(sim.robot.sensors)):
            there |= other.sensors.deliver(index, other.tape.view(index, step, True), step, True)
        other.sensors.difference(there, step, True)
        assert set(here) == set(there)
        for name, value in here.items():
            assert isinstance(there[name], torch.Tensor)
            np.testing.assert_allclose(
                there[name].numpy(), value, rtol=1e-12, atol=1e-12, err_msg=f"{name} at step {step}"
            )
        sim.step(sim.rest_command + 0.3 * rng.normal(size=(WORLDS, 12)))
        other.sensors.walk(step)
        other.engine.time[:] = torch.from_numpy(sim.time)
        other.tape.push(tensors({n: r[int(sim.tape.head)] for n, r in sim.tape.ring.items()}), None)


def test_torch_disturbances_push_as_numpy_ones_do():
    sim = sf.Sim(sf.load("go2"), IMPERFECT, worlds=WORLDS, seed=5)
    sim.apply(sim.params.prior().sample(WORLDS, 2))
    sim.reset()
    other = like(sim)
    for step in range(20):
        sim.disturbances.act(step, True)
        other.disturbances.act(step, True)
        for name in ("qvel", "qfrc_applied", "xfrc_applied"):
            value = getattr(sim.engine, name)
            np.testing.assert_allclose(getattr(other.engine, name).numpy(), value, rtol=1e-12, atol=1e-12, err_msg=name)
    assert np.abs(sim.engine.qvel[:, :2]).max() > 0.1


def test_torch_commands_arrive_as_numpy_ones_do():
    rng = np.random.default_rng(0)
    lines = [CommandLine(WORLDS, 3, 4, 0.005, 0.05, own) for own in (np.asarray, torch.from_numpy)]
    delay = rng.uniform(0, 0.05, WORLDS)
    for line, wrap in zip(lines, (np.asarray, torch.from_numpy), strict=True):
        line.hold(wrap(np.arange(WORLDS)), wrap(np.full((WORLDS, 3), 0.2)))
        line.retime(wrap(delay))
    for _ in range(8):
        u = rng.uniform(0, 1, (WORLDS, 3))
        limit, lag = rng.uniform(1, 5, (WORLDS, 3)), rng.uniform(0.01, 0.1, (WORLDS, 3))
        got = []
        for line, wrap in zip(lines, (np.asarray, torch.from_numpy), strict=True):
            out = line.slew(line.deliver(wrap(u)), wrap(limit), wrap(np.array([0])))
            got.append(np.asarray(line.spin_up(out, line.decay(wrap(lag[:, [1, 2]])), wrap(np.array([1, 2])))))
        np.testing.assert_allclose(got[1], got[0], rtol=1e-13, atol=1e-13)
