"""Noise that can be repeated: every draw is a function of (seed, stream, step, world) and of nothing else.

A counter-based generator (Philox) is keyed by seed, stream and step; rows are drawn in world order, so world 17's noise
is the same in a Sim of 32 worlds as in one of 4096, and a snapshot needs no generator state.
"""

import numpy as np

from surefoot.errors import InputError

STREAMS = (
    "encoder", "velocity", "gyro", "accel", "gyro_walk", "accel_walk", "force", "torque_sensor", "dropout",
    "sensor_jitter", "command_jitter", "push", "gust", "torque", "reset", "user",
    "position", "position_velocity", "height_scan", "scan_offset", "speed_from_angles",
)  # fmt: skip
_STREAM = {name: index for index, name in enumerate(STREAMS)}


class Noise:
    """Random numbers for all worlds, keyed by (seed, stream, step, world)."""

    def __init__(self, seed: int, worlds: int):
        if not 0 <= int(seed) < 2**63:
            raise InputError(f"seed={seed} must be a whole number from 0 to 2**63 - 1")
        self.seed, self.worlds = int(seed), worlds
        self._bits = np.random.Philox(key=np.zeros(2, dtype=np.uint64))
        self._draw = np.random.Generator(self._bits)
        self._start = self._bits.state  # rewound and rekeyed for every draw: cheaper than a new generator

    def _generator(self, stream: str, step: int) -> np.random.Generator:
        self._start["state"]["key"][:] = self.seed, (_STREAM[stream] << 56) + step
        self._bits.state = self._start
        return self._draw

    def normal(self, stream: str, step: int, columns: int) -> np.ndarray:
        """Standard normal numbers, (worlds, columns) float32."""
        return self._generator(stream, step).standard_normal((self.worlds, columns), dtype=np.float32)

    def uniform(self, stream: str, step: int, columns: int) -> np.ndarray:
        """Uniform numbers in [0, 1), (worlds, columns) float32."""
        return self._generator(stream, step).random((self.worlds, columns), dtype=np.float32)
