"""One network: an optional GRU, then a multilayer perceptron, all weights in one flat vector.

    h' = GRU(x, h)                  only where memory > 0; h = 0 at the start of an episode
    a_0 = h' or x,   a_{i+1} = φ(W_i a_i + b_i),   y = W_n a_n + b_n

Small networks on a CPU spend much of their time in the overhead of many small operations. Here the weights, their
gradients and the optimiser's moments are flat vectors (a step of Adam is a handful of operations), and the perceptron's
backward pass is written out:

    G_i = d_i^T a_i,   g_i = sum d_i,   d_{i−1} = φ'(a_i) ∘ (d_i W_i)

A test compares it with autograd. Recurrent networks use autograd through time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError


def _elu_back(d: Tensor, a: Tensor) -> Tensor:
    return torch.ops.aten.elu_backward(d, 1.0, 1.0, 1.0, True, a)


def _tanh(x: Tensor) -> Tensor:
    """In place; on a CPU NumPy's takes a sixth of torch's time."""
    if x.device.type != "cpu" or torch.is_grad_enabled():
        return torch.tanh_(x)
    a = x.numpy()
    np.tanh(a, out=a)
    return x


def _tanh_back(d: Tensor, a: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward.grad_input(d, a, grad_input=d)


def _relu_back(d: Tensor, a: Tensor) -> Tensor:
    return d.mul_(a > 0)


class Activation(NamedTuple):
    """φ in place, and d φ'(a) from its result a."""

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


ACTIVATIONS = {
    "elu": Activation(torch.nn.functional.elu_, _elu_back),
    "tanh": Activation(_tanh, _tanh_back),
    "relu": Activation(torch.relu_, _relu_back),
}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a network is made of, as it stands in a run's files."""

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = (128, 128)
    activation: str = "elu"
    memory: int = 0  # width of the GRU, 0: none
    extra: int = 0  # free weights that are no layer (the log-std of a policy)

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise InputError(f"{self.activation!r} is not an activation: choose one of {', '.join(ACTIVATIONS)}")
        if min(self.inputs, self.outputs, *self.hidden, 1) < 1 or min(self.memory, self.extra) < 0:
            raise InputError(f"a network needs widths of at least 1, given {self}")

    def parts(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every array of weights, in the order of the flat vector."""
        parts: dict[str, tuple[int, ...]] = {}
        m, width = self.memory, self.memory or self.inputs
        if m:
            parts |= {"gru.input": (3 * m, self.inputs), "gru.state": (3 * m, m)}
            parts |= {"gru.input_bias": (3 * m,), "gru.state_bias": (3 * m,)}
        for i, wide in enumerate((*self.hidden, self.outputs)):
            parts |= {f"{i}.weight": (wide, width), f"{i}.bias": (wide,)}
            width = wide
        if self.extra:
            parts["extra"] = (self.extra,)
        return parts


class Net:
    """The network of a Shape. `weights` and `grads` are flat; `parts` and `grad_parts` are named views of them."""

    def __init__(
        self,
        shape: Shape,
        *,
        generator: torch.Generator | None = None,
        last: float = 1.0,
        device: torch.device | str = "cpu",
    ):
        self.shape = shape
        sizes = shape.parts()
        total = sum(int(np.prod(size)) for size in sizes.values())
        self.weights = torch.zeros(total, device=device)
        self.grads = torch.zeros(total, device=device)
        self.parts, self.grad_parts = _views(self.weights, sizes), _views(self.grads, sizes)
        depth = len(shape.hidden) + 1
        self._layers = [(self.parts[f"{i}.weight"], self.parts[f"{i}.bias"]) for i in range(depth)]
        self._turned = [(W.t(), b) for W, b in self._layers]
        self._grad_layers = [(self.grad_parts[f"{i}.weight"], self.grad_parts[f"{i}.bias"]) for i in range(depth)]
        self._activation = ACTIVATIONS[shape.activation]
        self._draw(generator, last)
        if shape.memory:
            for name, part in self.parts.items():
                part.requires_grad_()
                part.grad = self.grad_parts[name]

    def _draw(self, generator: torch.Generator | None, last: float) -> None:
        """Orthogonal weights: gain √2 in hidden layers, `last` in the output layer, 1 per gate of the GRU; biases 0."""
        output = f"{len(self.shape.hidden)}.weight"
        for name, part in self.parts.items():
            if part.ndim == 2:
                gain = last if name == output else 1.0 if name.startswith("gru") else 2**0.5
                rows = len(part) // 3 if name.startswith("gru") else len(part)
                for at in range(0, len(part), rows):
                    part[at : at + rows] = gain * _orthogonal(rows, part.shape[1], generator)

    # ---------------------------------------------------------------- perceptron

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """y of rows x (rows, inputs), and the tape that `backward` needs."""
        tape = [x]
        for W_t, b in self._turned[:-1]:
            x = self._activation.forward(torch.addmm(b, x, W_t))
            tape.append(x)
        W_t, b = self._turned[-1]
        return torch.addmm(b, x, W_t), tape

    def backward(self, tape: list[Tensor], d: Tensor) -> None:
        """Write the gradients of a loss with dL/dy = d (rows, outputs) into `grads`; d is used up."""
        for i in range(len(self._layers) - 1, -1, -1):
            grad_W, grad_b = self._grad_layers[i]
            torch.mm(d.t(), tape[i], out=grad_W)
            torch.sum(d, 0, out=grad_b)
            if i:
                d = self._activation.backward(d @ self._layers[i][0], tape[i])

    # ---------------------------------------------------------------- memory

    def start(self, worlds: int) -> Tensor:
        """Memory at the start of an episode, (worlds, memory)."""
        return torch.zeros(worlds, self.shape.memory, device=self.weights.device)

    def remember(self, x: Tensor, h: Tensor) -> Tensor:
        """One step of the GRU: h' of inputs x (worlds, inputs) and memory h."""
        p = self.parts
        return torch.gru_cell(x, h, p["gru.input"], p["gru.state"], p["gru.input_bias"], p["gru.state_bias"])

    def read(self, h: Tensor) -> Tensor:
        """The perceptron on rows h without a tape; differentiable where autograd is on."""
        if torch.is_grad_enabled():
            for W, b in self._layers[:-1]:
                h = self._activation.forward(torch.nn.functional.linear(h, W, b))
            return torch.nn.functional.linear(h, *self._layers[-1])
        return self.forward(h)[0]

    def unroll(self, x: Tensor, h: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """y (steps, worlds, outputs) and memories (steps, worlds, memory) of a sequence x (steps, worlds, inputs).

        Args:
            x: inputs.
            h: memory before the first step, (worlds, memory).
            begins: (steps, worlds) bool: an episode begins at this step, the memory is emptied before it.
        """
        keep = (~begins).to(x.dtype)[..., None]
        memories = []
        for t in range(len(x)):
            h = self.remember(x[t], h * keep[t])
            memories.append(h)
        hs = torch.stack(memories)
        return self.read(hs.flatten(0, 1)).view(*hs.shape[:2], -1), hs

    # ---------------------------------------------------------------- arrays

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Copies of the named weights."""
        return {name: part.detach().cpu().numpy().copy() for name, part in self.parts.items()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Overwrite the weights by those of a network of the same shape."""
        with torch.no_grad():
            for name, part in self.parts.items():
                if name not in arrays or tuple(arrays[name].shape) != tuple(part.shape):
                    given = tuple(arrays[name].shape) if name in arrays else "nothing"
                    raise InputError(
                        f"weights {name!r} need shape {tuple(part.shape)}, given {given}: another network's file?"
                    )
                part.copy_(torch.from_numpy(np.array(arrays[name])))


def _views(flat: Tensor, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    views, at = {}, 0
    for name, size in sizes.items():
        count = int(np.prod(size))
        views[name] = flat[at : at + count].view(size)
        at += count
    return views


def _orthogonal(rows: int, columns: int, generator: torch.Generator | None) -> Tensor:
    tall = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(tall)
    q = q * torch.sign(torch.diagonal(r))
    return (q if rows >= columns else q.t()).float()
