"""The two networks of an actor-critic: what to do, and what the future is worth.

    π(a | o) = N(μ(z(o)), diag(σ²))       σ is the same in every state, log σ within fixed bounds
    V(s)     = mean_R + std_R · v(z(s))   in units of reward; the critic may see groups that the robot cannot sense

Each has its own normaliser z and names the observation groups it reads, in order. A history is a group like any other
(flat); with `memory` > 0 a GRU carries it instead.

A policy may add up what it does, as the integral part of a PI controller does:

    action = μ + m,     m' = clip(m + k μ, ±2),     m = 0 when an episode begins

so that a steady force against something it cannot sense (a payload, a weak motor) does not need a steady error. Actions are drawn around
μ, and m adds up μ, not what was drawn. The learner takes m as given: that μ also moves the next m does not enter its gradient.
"""

import json
import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError, did_you_mean
from surefoot.learn.net import Net, Shape
from surefoot.learn.normaliser import Normaliser

LOG_2PI = math.log(2 * math.pi)
MOST = 2.0
"""Largest sum of an integral part [action units]."""


def log_prob(action: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """log N(a; μ, σ²) summed over the action's entries, (rows,)."""
    z = (action - mean) * torch.exp(-log_std)
    return (z * z).sum(-1).mul_(-0.5).sub_(log_std.sum() + 0.5 * LOG_2PI * action.shape[-1])


def entropy(log_std: Tensor) -> Tensor:
    """H = sum log σ + n/2 log(2πe) [nat], a scalar."""
    return log_std.sum() + 0.5 * len(log_std) * (LOG_2PI + 1)


def kl(mean_old: Tensor, log_std_old: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Exact KL(old‖new) of diagonal Gaussians per row [nat]: sum log σ/σ_o + (σ_o² + (μ_o − μ)²) / 2σ² − 1/2."""
    spread = (log_std - log_std_old + 0.5 * torch.exp(2 * (log_std_old - log_std)) - 0.5).sum()
    return ((mean_old - mean) * torch.exp(-log_std)).square_().sum(-1).mul_(0.5).add_(spread)


class Reader:
    """Reads named observation groups, in order, and normalises them: what Policy and Critic have in common."""

    def __init__(self, widths: Mapping[str, int], device: torch.device | str):
        self.widths = dict(widths)
        self.inputs = sum(self.widths.values())
        self.normaliser = Normaliser(self.inputs, device=device)
        self._only = next(iter(self.widths)) if len(self.widths) == 1 else None

    def gather(self, observations: Mapping[str, Tensor]) -> Tensor:
        """The groups side by side, raw, (worlds, inputs)."""
        try:
            if self._only is not None:
                return observations[self._only]
            return torch.cat([observations[name] for name in self.widths], -1)
        except KeyError as error:
            name = error.args[0]
            raise InputError(f"observation group {name!r} is missing {did_you_mean(name, observations)}") from None


class Policy(Reader):
    """π(a | o): a Gaussian around a network's output.

    Args:
        widths: observation group -> width, in the order in which the network sees them.
        actions: width of the action.
        hidden: widths of the hidden layers.
        activation: "elu", "tanh" or "relu".
        memory: width of a GRU in front of the layers, 0: none.
        integral: k, the share of its output that is added up at every step, 0: none; not with a GRU.
        std: σ at the start [action units].
        std_bounds: smallest and largest σ; the learner projects log σ onto them after every step.
        generator: draws the first weights.
        device: where the weights lie.
    """

    def __init__(
        self,
        widths: Mapping[str, int],
        actions: int,
        *,
        hidden: tuple[int, ...] = (128, 128),
        activation: str = "elu",
        memory: int = 0,
        integral: float = 0.0,
        std: float = 0.8,
        std_bounds: tuple[float, float] = (0.05, 1.5),
        generator: torch.Generator | None = None,
        device: torch.device | str = "cpu",
    ):
        super().__init__(widths, device)
        if memory and integral:
            raise InputError("a policy has a GRU or an integral part, not both: set memory or integral to 0")
        if not 0 < std_bounds[0] <= std <= std_bounds[1]:
            raise InputError(f"std {std:g} is outside its bounds {std_bounds}: choose one between them, both above 0")
        shape = Shape(
            inputs=self.inputs,
            outputs=actions,
            hidden=tuple(hidden),
            activation=activation,
            memory=memory,
            extra=actions,
        )
        self.net = Net(shape, generator=generator, last=0.01, device=device)
        self.actions, self.memory, self.integral, self.most = actions, memory, float(integral), MOST
        self.log_std = self.net.parts["extra"].detach()
        self.log_std.fill_(math.log(std))
        self.log_std_bounds = math.log(std_bounds[0]), math.log(std_bounds[1])

    @property
    def std(self) -> np.ndarray:
        """σ, (actions,)."""
        return self.log_std.exp().cpu().numpy()

    def project(self) -> None:
        """Bring log σ back into its bounds."""
        self.log_std.clamp_(*self.log_std_bounds)

    def start(self, worlds: int) -> Tensor | None:
        """Memory at the start of an episode, (worlds, k): that of the GRU, or the integral part's sum; None without either."""
        if self.memory:
            return self.net.start(worlds)
        return torch.zeros(worlds, self.actions, device=self.net.weights.device) if self.integral else None

    def lead(self, h: Tensor | None) -> Tensor | None:
        """What is added to μ and to what is drawn around it while the memory is h, (worlds, actions); None: nothing."""
        return h if self.integral else None

    @torch.no_grad()
    def mean(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """μ of raw inputs x (worlds, inputs), and the memory after them."""
        z = self.normaliser(x)
        h = self.start(len(x)) if h is None else h
        if self.memory:
            h = self.net.remember(z, h)  # type: ignore[arg-type]
            return self.net.read(h), h
        own = self.net.forward(z)[0]
        return own, None if h is None else torch.add(h, own, alpha=self.integral).clamp_(-self.most, self.most)

    @torch.no_grad()
    def act(self, x: Tensor, h: Tensor | None, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor | None]:
        """An action drawn around μ, μ and the next memory; x are raw inputs (worlds, inputs). What is done is the action and `lead`."""
        mean, h = self.mean(x, h)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        return torch.addcmul(mean, noise, self.log_std.exp()), mean, h

    def play(self) -> Callable[..., Tensor]:
        """A function `act(observations, ended=None) -> action` that acts without noise and keeps the memory.

        Pass the ids of worlds whose episode ended in the last step as `ended`, so that their memory is emptied.
        """
        state: list[Tensor | None] = [None]

        def act(observations: Mapping[str, Tensor], ended: Tensor | None = None) -> Tensor:
            if state[0] is not None and ended is not None:
                state[0][ended] = 0.0
            lead = self.lead(state[0])
            action, state[0] = self.mean(self.gather(observations), state[0])
            return action if lead is None else action + lead

        return act

    # ---------------------------------------------------------------- arrays

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The whole policy as plain arrays: weights `net.*`, `normaliser.*`, and `about` (JSON text as bytes).

        For a perceptron: z = clip((x − mean) / sqrt(var + eps), ±limit), then y = W x + b with the activation between.
        """
        s = self.net.shape
        about = {
            "widths": self.widths, "actions": self.actions, "hidden": list(s.hidden), "activation": s.activation,
            "memory": s.memory, "log_std_bounds": list(self.log_std_bounds), "integral": self.integral,
            "most": self.most,
        }  # fmt: skip
        arrays = {f"net.{name}": value for name, value in self.net.to_arrays().items()}
        arrays |= {f"normaliser.{name}": value for name, value in self.normaliser.snapshot().items()}
        return arrays | {"about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], *, device: torch.device | str = "cpu") -> "Policy":
        """The policy of `to_arrays`, its normaliser frozen."""
        if "about" not in arrays:
            raise InputError("these arrays hold no policy: 'about' is missing, use what Policy.to_arrays gave")
        about = json.loads(bytes(np.asarray(arrays["about"], dtype=np.uint8)).decode())
        low, high = about["log_std_bounds"]
        policy = cls(
            about["widths"], about["actions"], hidden=tuple(about["hidden"]), activation=about["activation"],
            memory=about["memory"], integral=about.get("integral", 0.0), std=math.exp((low + high) / 2),
            std_bounds=(math.exp(low), math.exp(high)), device=device,
        )  # fmt: skip
        policy.log_std_bounds, policy.most = (low, high), about.get("most", MOST)
        policy.load(arrays)
        policy.normaliser.freeze()
        return policy

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Overwrite weights and normaliser."""
        self.net.load(part(arrays, "net."))
        self.normaliser.restore(part(arrays, "normaliser."))


class Critic(Reader):
    """V(s) in units of reward. `unit` keeps the network's own output near N(0, 1), whatever the task's rewards."""

    def __init__(
        self,
        widths: Mapping[str, int],
        *,
        hidden: tuple[int, ...] = (128, 128),
        activation: str = "elu",
        memory: int = 0,
        generator: torch.Generator | None = None,
        device: torch.device | str = "cpu",
    ):
        super().__init__(widths, device)
        shape = Shape(inputs=self.inputs, outputs=1, hidden=tuple(hidden), activation=activation, memory=memory)
        self.net = Net(shape, generator=generator, device=device)
        self.memory = memory
        self.unit = Unit()

    @torch.no_grad()
    def values(self, x: Tensor) -> Tensor:
        """V of rows of raw inputs x (..., inputs) -> (...)."""
        v = self.net.forward(self.normaliser(x.reshape(-1, self.inputs)))[0]
        return v.view(x.shape[:-1]).mul_(self.unit.std).add_(self.unit.mean)

    def rescale(self, returns: Tensor) -> None:
        """Move the unit towards `returns` (rows,) and keep V(s) what it was."""
        self.rescale_to(returns.mean(dtype=torch.float64).item(), returns.double().square().mean().item())

    @torch.no_grad()
    def rescale_to(self, mean: float, square: float) -> None:
        """Move the unit towards returns of that mean and mean square; the last layer changes so that V(s) stays what it was.

        W ← W std/std',   b ← (std b + mean − mean') / std'

        The first time there is nothing worth keeping: V starts at the mean of the returns.
        """
        before, first = (self.unit.mean, self.unit.std), self.unit.seen == 0
        self.unit.update(mean, square)
        if first:
            return
        last = len(self.net.shape.hidden)
        W, b = self.net.parts[f"{last}.weight"], self.net.parts[f"{last}.bias"]
        W.mul_(before[1] / self.unit.std)
        b.mul_(before[1]).add_(before[0] - self.unit.mean).div_(self.unit.std)


class Unit:
    """Mean and standard deviation of the returns, over the last 30 or so rollouts."""

    SLOWEST = 1 / 30

    def __init__(self):
        self.mean, self.std, self.seen, self._square = 0.0, 1.0, 0, 0.0

    def update(self, mean: float, square: float) -> None:
        """Take in the returns of one rollout, their mean and mean square; the standard deviation stays above 1 % of the mean."""
        self.seen += 1
        weight = max(1 / self.seen, self.SLOWEST)
        self.mean += weight * (mean - self.mean)
        self._square += weight * (square - self._square)
        self.std = max(math.sqrt(max(self._square - self.mean**2, 0.0)), 0.01 * abs(self.mean), 1e-4)

    def snapshot(self) -> np.ndarray:
        """Mean, std, number of rollouts seen, mean square."""
        return np.array([self.mean, self.std, self.seen, self._square])

    def restore(self, array: np.ndarray) -> None:
        """Go back to a snapshot."""
        self.mean, self.std, seen, self._square = (float(x) for x in array)
        self.seen = int(seen)


def part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `prefix`, without it."""
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
