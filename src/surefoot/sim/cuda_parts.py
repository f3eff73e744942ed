"""What a Sim on the device is made of beside the engine: noise, tables, the tape of earlier instants, and how kernels are launched."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from surefoot.sim import cuda_kernels as kernels
from surefoot.sim.cuda import CudaEngine
from surefoot.sim.noise import STREAMS
from surefoot.sim.physics import Physics
from surefoot.sim.sensors import View
from surefoot.sim.tape import AGES

if TYPE_CHECKING:
    from surefoot.sim.cuda_sim import CudaSim

RECORDS = ("qpos", "qvel", "sensordata", "actuator_force")
"""What the tape keeps of a substep."""


class Launcher:
    """Launches kernels on tensors of one device; `dim` is a number or a shape."""

    def __init__(self, device: torch.device):
        self.device = wp.device_from_torch(device)

    def __call__(self, kernel: Any, dim: Any, *inputs: Any) -> None:
        """Launch `kernel`; tensors are handed over without a copy."""
        given = [wp.from_torch(x) if isinstance(x, Tensor) else x for x in inputs]
        wp.launch(kernel, dim=dim, inputs=given, device=self.device)


class DeviceNoise:
    """Random numbers on the device, keyed by (seed, stream, step, world); the step is a counter there."""

    def __init__(self, seed: int, worlds: int, device: torch.device):
        self.seed, self.worlds, self.device = int(seed), worlds, device
        self.clock = torch.zeros(1, dtype=torch.int32, device=device)
        self._made: dict[tuple[str, int, int], Tensor] = {}

    def _draw(self, stream: str, columns: int, kind: int) -> Tensor:
        key = (stream, columns, kind)
        if key not in self._made:
            self._made[key] = torch.zeros(self.worlds, columns, device=self.device)
        out = self._made[key]
        wp.launch(
            kernels.draw,
            dim=(self.worlds, columns),
            inputs=[self.seed % (1 << 31), STREAMS.index(stream), kind, wp.from_torch(self.clock), wp.from_torch(out)],
            device=wp.device_from_torch(self.device),
        )
        return out

    def normal(self, stream: str, step: Any, columns: int) -> Tensor:
        """Standard normal numbers of this step, (worlds, columns); valid until they are drawn again."""
        return self._draw(stream, columns, kernels.NORMAL)

    def uniform(self, stream: str, step: Any, columns: int) -> Tensor:
        """Uniform numbers in [0, 1) of this step, (worlds, columns); valid until they are drawn again."""
        return self._draw(stream, columns, kernels.UNIFORM)


class DevicePhysics:
    """What sensors, disturbances and tasks ask of Physics, with tables on the device."""

    def __init__(self, press: Physics, engine: CudaEngine, tables: dict[str, Tensor]):
        self.built, self.motors, self.slots, self.params = press.built, press.motors, press.slots, press.params
        self.engine, self.tables = engine, tables
        self.heights = None if press.heights is None else engine.array(press.heights)
        self.option, self.has, self.targets, self.joint_dofs = press.option, press.has, press.targets, press.joint_dofs


class DeviceTape:
    """The last substeps of every world in a ring (slots, worlds, columns) on the device; see surefoot.sim.tape."""

    def __init__(self, sim: "CudaSim"):
        self.sim, engine = sim, sim.engine
        ages = [p.high for p in sim.params.values() if p.kind in AGES]
        longest = sum(ages) + max((s.delay for s in sim.robot.sensors), default=0.0)
        slots = (int(np.ceil(longest / (sim.substeps * sim.timestep) - 1e-9)) + 2) * sim.substeps
        self.sources = {name: engine.view(name).reshape(sim.worlds, -1) for name in RECORDS}
        self.first, width = {}, 0
        for name, source in self.sources.items():
            self.first[name], width = width, width + source.shape[1]
        self.ring = torch.zeros(slots, sim.worlds, width, device=sim.device)
        self.count = torch.zeros(1, dtype=torch.int32, device=sim.device)
        self._out: dict[int, Tensor] = {}
        self._launch = Launcher(sim.device)

    def record(self, j: int) -> None:
        """Keep the state after substep j."""
        for name, source in self.sources.items():
            if source.shape[1]:
                self._launch(kernels.record, tuple(source.shape), self.count, j, source, self.first[name], self.ring)

    def move(self, substeps: int) -> None:
        """A control step has passed."""
        self._launch(kernels.add, 1, self.count, substeps)

    def fill_where(self, mask: Tensor) -> None:
        """As if the worlds of the mask had been in their present state for ever."""
        for name, source in self.sources.items():
            if source.shape[1]:
                self._launch(kernels.fill_ring, tuple(source.shape), mask, source, self.first[name], self.ring)

    def view(self, sensor: int, step: int, noisy: bool) -> View:
        """State that sensor number `sensor` delivers now."""
        sim, tables, active = self.sim, self.sim.physics.tables, self.sim.sensors.active
        age = tables["sensor_delay"][:, sensor]
        if noisy and active["sensor_jitter"]:
            draw = sim.noise.uniform("sensor_jitter", step, len(sim.robot.sensors))[:, sensor]
            age = age + tables["sensor_jitter"][:, sensor] * draw
        if active["sensor_period"]:
            period = tables["sensor_period"][:, sensor]
            safe = torch.where(period > 0, period, torch.ones_like(period))
            since = sim.engine.time - torch.floor((sim.engine.time + 1e-6) / safe) * safe
            age = age + torch.where(period > 0, since.clamp(min=0.0), torch.zeros_like(since))
        if sensor not in self._out:
            self._out[sensor] = torch.zeros_like(self.ring[0])
        out = self._out[sensor]
        self._launch(kernels.sample, tuple(out.shape), self.count, age, sim.timestep, self.ring, out)
        return View(**{n: out[:, self.first[n] : self.first[n] + s.shape[1]] for n, s in self.sources.items()})
