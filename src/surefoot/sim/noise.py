"""Noise that can be repeated: every draw is a function of (seed, stream, step, world) and of nothing else.

A counter-based generator (Philox) is keyed by seed, stream and step; rows are drawn in world order, so world 17's noise
is the same in a Sim of 32 worlds as in one of 4096, and a snapshot needs no generator state.
"""

import numpy as np

STREAMS = (
    "encoder", "velocity", "gyro", "accel", "gyro_walk", "accel_walk", "force", "torque_sensor", "dropout", "sensor_jitter",
    "command_jitter", "push", "gust", "torque", "reset", "user",
)  # fmt: skip
_STREAM = {name: index for index, name in enumerate(STREAMS)}


class Noise:
    """Random numbers for all worlds, keyed by (seed, stream, step, world)."""

    def __init__(self, seed: int, worlds: int):
        self.seed, self.worlds = int(seed), worlds

    def _generator(self, stream: str, step: int) -> np.random.Generator:
        counter = (_STREAM[stream] << 56) + step
        return np.random.Generator(np.random.Philox(key=np.array([self.seed, counter], dtype=np.uint64)))

    def normal(self, stream: str, step: int, columns: int) -> np.ndarray:
        """Standard normal numbers, (worlds, columns) float32."""
        return self._generator(stream, step).standard_normal((self.worlds, columns), dtype=np.float32)

    def uniform(self, stream: str, step: int, columns: int) -> np.ndarray:
        """Uniform numbers in [0, 1), (worlds, columns) float32."""
        return self._generator(stream, step).random((self.worlds, columns), dtype=np.float32)
