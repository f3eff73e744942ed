"""Arrays with a row per world, packed side by side, so that a world's whole row is copied at once.

A row holds everything of one world that is not the engine's own state: fields of the model, tables of Sim, memories of sensors and
commands. The views in `parts` are what the rest of the code works on; the packed tensor is what resets copy.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

ALIGN = 4
"""Numbers to whose multiple every part's place in the row is rounded up, as vector loads like it."""


class Rows:
    """`count` rows of named parts on one device; `flat` (count, width) is all of them, `parts` are views into it."""

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        count: int,
        *,
        device: torch.device | str,
        dtype: torch.dtype = torch.float32,
    ):
        self.shapes = dict(shapes)
        self._at: dict[str, slice] = {}
        width = 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape, dtype=int))
            self._at[name] = slice(width, width + size)
            width += -(-size // ALIGN) * ALIGN
        self.flat = torch.zeros(count, max(width, ALIGN), dtype=dtype, device=device)
        self.parts: dict[str, Tensor] = {}
        for name, shape in self.shapes.items():
            part = self.flat[:, self._at[name]]
            strides = tuple(int(np.prod(shape[i + 1 :], dtype=int)) for i in range(len(shape)))
            self.parts[name] = part.as_strided((count, *shape), (self.flat.stride(0), *strides), part.storage_offset())

    def pack(self, arrays: Mapping[str, np.ndarray], count: int) -> Tensor:
        """The first `count` rows of `arrays` as a tensor (count, width) on the host, ready to be copied into `flat`."""
        out = np.zeros((count, self.flat.shape[1]), dtype=np.float32 if self.flat.dtype == torch.float32 else np.int32)
        for name, place in self._at.items():
            out[:, place] = np.asarray(arrays[name])[:count].reshape(count, -1)
        return torch.from_numpy(out)

    def unpack(self, flat: Tensor) -> dict[str, np.ndarray]:
        """Named arrays (rows, ...) of packed rows, on the host."""
        host = flat.cpu().numpy()
        return {name: host[:, self._at[name]].reshape(len(host), *shape) for name, shape in self.shapes.items()}
