"""A recorded run as `verify` reads it: policy steps, and for each the raw readings, the command and the action it was built from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surefoot.contract import Builder, Contract
from surefoot.logs import Channel, Log

SLACK = 1e-6
"""[s] Two times this close are one."""
PAUSE = 0.5
"""[s] After a pause of the policy this long its history and clock began anew."""


@dataclass(frozen=True)
class Run:
    """A log under the contract it ran with."""

    contract: Contract
    log: Log

    @cached_property
    def t(self) -> np.ndarray:
        """Times of the policy's steps [s], (K,): those of the recorded observations, else of the actions; may be empty."""
        for name in (*(f"observation/{g.name}" for g in self.contract.groups), "action"):
            if name in self.log:
                return self._within(self.log[name].t)
        return np.zeros(0)

    def _within(self, t: np.ndarray) -> np.ndarray:
        """Times for which every raw reading exists."""
        first = [self.log[s].t[0] for s in self.sources if s in self.log]
        return t[t >= max(first, default=-np.inf) - SLACK]

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Sensor channels that the contract's groups read."""
        found = {term.source for group in self.contract.groups for term in group.terms}
        return tuple(sorted(found - {"last_action", "command", "clock"}))

    @cached_property
    def dt(self) -> float:
        """Median time between two policy steps [s]."""
        return float(np.median(np.diff(self.t))) if len(self.t) > 1 else self.contract.control_dt

    @cached_property
    def starts(self) -> np.ndarray:
        """Numbers of the policy steps at which it began anew, (n,): the first, and those after a pause."""
        pauses = np.flatnonzero(np.diff(self.t) > max(PAUSE, 5 * self.dt)) + 1
        return np.concatenate([[0], pauses]).astype(int)

    @cached_property
    def since(self) -> np.ndarray:
        """Steps since the policy began, (K,)."""
        steps = np.arange(len(self.t))
        return steps - self.starts[np.searchsorted(self.starts, steps, side="right") - 1]

    def columns(self, channel: str) -> tuple[str, ...]:
        """Columns of a channel in the order used here: the contract's where it knows them all, else the log's."""
        have, want = self.log[channel].columns, self.contract.columns(channel)
        return want if want is not None and set(want) <= set(have) else have

    def values(self, channel: str) -> np.ndarray:
        """All samples of a channel, (T, k), columns in the order of `columns`."""
        own, order = self.log[channel], self.columns(channel)
        return own.values if order == own.columns else own.values[:, [own.columns.index(c) for c in order]]

    def at(self, channel: str, t: np.ndarray, *, back: int = 0) -> np.ndarray:
        """Samples of a channel held at times t, `back` samples older than the newest, (len(t), k), as in `columns`."""
        own = self.log[channel]
        index = np.searchsorted(own.t, t + SLACK, side="right") - 1 - back
        return self.values(channel)[np.clip(index, 0, len(own) - 1)]

    def exact(self, channel: str) -> np.ndarray | None:
        """Samples of a channel of the policy's rate at its steps, (K, k), NaN where it has none; None when absent."""
        if channel not in self.log:
            return None
        own = self.log[channel]
        index = np.clip(np.searchsorted(own.t, self.t - SLACK), 0, len(own) - 1)
        hit = np.abs(own.t[index] - self.t) <= max(SLACK, 0.25 * self.dt)
        return np.where(hit[:, None], own.values[index], np.nan)

    def whole(self, channel: Channel) -> bool:
        """Whether a joint channel has every joint of the contract that some term reads."""
        needed = {
            column
            for g in self.contract.groups
            for term in g.terms
            if term.source == channel.name
            for column in term.columns
        }
        return needed <= set(channel.columns)

    @cached_property
    def actions(self) -> np.ndarray | None:
        """Recorded raw actions in the contract's order, (K, n), or None."""
        if "action" not in self.log:
            return None
        own, joints = self.log["action"].columns, self.contract.action.joints
        values = self.exact("action")
        if values is None or set(joints) - set(own):
            return None
        return values[:, [own.index(j) for j in joints]]

    @cached_property
    def commands(self) -> np.ndarray | None:
        """Recorded commands in the contract's order, (K, m), or None."""
        names = tuple(command.name for command in self.contract.commands)
        if "command" not in self.log or self.columns("command") != names:
            return None
        return self.at("command", self.t)

    @property
    def last_actions(self) -> np.ndarray | None:
        """What the builder is given as the last action, (K, n): that of the step before, 0 at a start."""
        return None if self.actions is None else self.earlier(self.actions, 1)

    def earlier(self, values: np.ndarray, steps: int) -> np.ndarray:
        """Values of `steps` policy steps before, 0 before a start; (K, k)."""
        out = np.zeros_like(values)
        ok = self.since >= max(steps, 0)
        index = np.clip(np.arange(len(values)) - steps, 0, len(values) - 1)
        out[ok] = values[index][ok]
        return out

    def readings(self, *, back: int = 0) -> dict[str, np.ndarray]:
        """Raw readings at the policy's steps by channel, (K, k); optionally `back` samples older."""
        return {name: self.at(name, self.t, back=back) for name in self.sources if name in self.log}

    def names(self, source: str) -> tuple[str, ...]:
        """Columns of what the builder is given for a source."""
        own = self.contract.columns(source)
        return self.columns(source) if source in self.log and source not in ("command", "last_action") else own or ()

    def inputs(self, source: str) -> np.ndarray:
        """What the builder is given for a source at the policy's steps, (K, k)."""
        if source == "last_action":
            last = self.last_actions
            return np.zeros((len(self.t), len(self.contract.action.joints))) if last is None else last
        if source == "command":
            return np.zeros((len(self.t), len(self.contract.commands))) if self.commands is None else self.commands
        return self.at(source, self.t)

    def build(
        self, group: str, contract: Contract | None = None, *, given: Mapping[str, np.ndarray] | None = None
    ) -> np.ndarray:
        """Observations of one group by the one builder, (K, size).

        Args:
            group: which.
            contract: another than the run's, to see what it would give.
            given: other inputs than the recorded ones, by source (also "last_action" and "command"), (K, k).
        """
        contract = contract or self.contract
        mine = contract.group(group)
        sources = {term.source for term in mine.terms} - {"clock"}
        y = {s: self.inputs(s) for s in sources if given is None or s not in given} | dict(given or {})
        for s in ("last_action", "command"):
            y.setdefault(s, self.inputs(s))
        columns = {s: self.columns(s) for s in sources if s in self.log}
        builder = Builder(contract, columns=columns, groups=[group])
        sensed = [s for s in sources if s not in ("last_action", "command")]
        rows = []
        begins = set(self.starts.tolist())
        for k in range(len(self.t)):
            if k in begins:
                builder.reset()
            now = {s: y[s][k] for s in sensed}
            rows.append(builder.observe(now, last_action=y["last_action"][k], command=y["command"][k])[group][0])
        return np.array(rows, dtype=np.float64).reshape(len(rows), mine.size)


def frame_of(contract: Contract, group: str) -> Contract:
    """The contract with no history in a group: its observation is the present frame alone."""
    mine = contract.group(group)
    bare = replace(mine, terms=tuple(replace(term, history=1) for term in mine.terms), normaliser=None)
    return replace(contract, groups=tuple(bare if g.name == group else g for g in contract.groups))
