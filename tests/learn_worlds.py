"""Toy worlds with the interface of surefoot.tasks.World, small enough that the right answer is known."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(kw_only=True)
class Outcome:
    observations: dict[str, Tensor]
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final: dict[str, Tensor]
    ended: Tensor
    broken: Tensor
    terms: dict[str, Tensor]
    success: Tensor
    e: dict[str, np.ndarray]


class PointMass:
    """A mass on a line, pushed to the origin: x' = x + dt v, v' = v + dt a / m, with a hidden m per episode.

    Leaving |x| < 3 is a real end; `limit` steps are a time limit. The critic also sees m.
    """

    actions = 1
    dt = 0.1

    def __init__(self, worlds: int = 32, *, limit: int = 40, seed: int = 0, spread_ages: bool = True):
        self.worlds, self.limit = worlds, limit
        self.widths = {"policy": 2, "critic": 3}
        self.rng = torch.Generator().manual_seed(seed)
        self.spread_ages = spread_ages
        self.x, self.v, self.m = torch.zeros(3, worlds)
        self.age = torch.zeros(worlds, dtype=torch.int64)

    def _begin(self, ids: Tensor) -> None:
        draw = torch.rand(3, len(ids), generator=self.rng)
        self.x[ids], self.v[ids], self.m[ids] = 4 * draw[0] - 2, draw[1] - 0.5, 0.5 + draw[2]
        self.age[ids] = 0

    def _observe(self) -> dict[str, Tensor]:
        policy = torch.stack([self.x, self.v], 1)
        return {"policy": policy, "critic": torch.cat([policy, self.m[:, None]], 1)}

    def reset(self) -> dict[str, Tensor]:
        self._begin(torch.arange(self.worlds))
        if self.spread_ages:
            self.age[:] = torch.randint(0, self.limit, (self.worlds,), generator=self.rng)
        return self._observe()

    def step(self, action: Tensor) -> Outcome:
        a = action[:, 0].clamp(-2, 2)
        self.v = self.v + self.dt * a / self.m
        self.x = self.x + self.dt * self.v
        self.age = self.age + 1
        terms = {"near": 1 - self.x**2 / 4, "calm": -0.1 * self.v**2, "thrift": -0.01 * a**2}
        terminated = self.x.abs() > 3
        truncated = (self.age >= self.limit) & ~terminated
        final = self._observe()
        ended = torch.nonzero(terminated | truncated)[:, 0]
        success = (self.x.abs() < 0.3).float()[ended]
        e = {"m": self.m[ended].numpy().copy()}
        self._begin(ended)
        return Outcome(
            observations=self._observe(), reward=sum(terms.values()), terminated=terminated, truncated=truncated,
            final=final, ended=ended, broken=torch.zeros(self.worlds, dtype=torch.bool), terms=terms,
            success=success, e=e,
        )  # fmt: skip

    def snapshot(self) -> dict[str, np.ndarray]:
        state = {name: getattr(self, name).numpy().copy() for name in ("x", "v", "m", "age")}
        return state | {"rng": self.rng.get_state().numpy()}

    def restore(self, snapshot) -> None:
        for name in ("x", "v", "m", "age"):
            setattr(self, name, torch.from_numpy(np.array(snapshot[name])))
        self.rng.set_state(torch.from_numpy(np.array(snapshot["rng"])))


class Constant:
    """Reward 1 at every step, `limit` steps an episode, nothing to see: the value is 1 / (1 − γ) everywhere."""

    actions = 1

    def __init__(self, worlds: int = 8, *, limit: int = 100, bootstrap: bool = True, spread_ages: bool = True):
        self.worlds, self.limit, self.bootstrap, self.spread_ages = worlds, limit, bootstrap, spread_ages
        self.widths = {"policy": 1}
        self.age = torch.zeros(worlds, dtype=torch.int64)

    def _observe(self) -> dict[str, Tensor]:
        return {"policy": torch.ones(self.worlds, 1)}

    def reset(self) -> dict[str, Tensor]:
        self.age[:] = torch.arange(self.worlds) * self.limit // self.worlds if self.spread_ages else 0
        return self._observe()

    def step(self, action: Tensor) -> Outcome:
        self.age += 1
        over = self.age >= self.limit
        self.age[over] = 0
        no, ended = torch.zeros(self.worlds, dtype=torch.bool), torch.nonzero(over)[:, 0]
        return Outcome(
            observations=self._observe(), reward=torch.ones(self.worlds), terminated=no if self.bootstrap else over,
            truncated=over if self.bootstrap else no, final=self._observe(), ended=ended, broken=no, terms={},
            success=torch.full((len(ended),), torch.nan), e={},
        )  # fmt: skip

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"age": self.age.numpy().copy()}

    def restore(self, snapshot) -> None:
        self.age = torch.from_numpy(np.array(snapshot["age"]))


class Recall:
    """A sign is shown at the first step only; the reward asks for it at the end: solvable only with memory."""

    actions = 1

    def __init__(self, worlds: int = 64, *, length: int = 4, seed: int = 0):
        self.worlds, self.length = worlds, length
        self.widths = {"policy": 2}
        self.rng = torch.Generator().manual_seed(seed)
        self.sign = torch.zeros(worlds)
        self.age = 0

    def _observe(self) -> dict[str, Tensor]:
        shown = self.sign if self.age == 0 else torch.zeros(self.worlds)
        last = torch.full((self.worlds,), float(self.age == self.length - 1))
        return {"policy": torch.stack([shown, last], 1)}

    def _begin(self) -> None:
        self.sign = torch.randint(0, 2, (self.worlds,), generator=self.rng) * 2.0 - 1.0
        self.age = 0

    def reset(self) -> dict[str, Tensor]:
        self._begin()
        return self._observe()

    def step(self, action: Tensor) -> Outcome:
        asked = self.age == self.length - 1
        error = (action[:, 0] - self.sign).abs()
        reward = -error if asked else torch.zeros(self.worlds)
        self.age += 1
        over = torch.full((self.worlds,), asked)
        if asked:
            self._begin()
        no, ended = torch.zeros(self.worlds, dtype=torch.bool), torch.nonzero(over)[:, 0]
        return Outcome(
            observations=self._observe(), reward=reward, terminated=over, truncated=no, final=self._observe(),
            ended=ended, broken=no, terms={}, success=(error < 0.5).float()[ended], e={},
        )  # fmt: skip

    def snapshot(self) -> dict[str, np.ndarray]:
        return {"sign": self.sign.numpy().copy(), "age": np.array(self.age), "rng": self.rng.get_state().numpy()}

    def restore(self, snapshot) -> None:
        self.sign, self.age = torch.from_numpy(np.array(snapshot["sign"])), int(snapshot["age"])
        self.rng.set_state(torch.from_numpy(np.array(snapshot["rng"])))
