"""Checks of what is asked for: the policy's action, and the command that was made of it.

the action      finite, of the right size, within its trained range (or clip), not changing too much between steps
the command     finite, of the right kind and size, gains within the settings', a torque that a motor might mean,
                and the targets those that the contract makes of the last action
"""

import math
from typing import Any

import numpy as np

from surefoot.contract.channels import label
from surefoot.contract.contract import Contract
from surefoot.contract.wire import Command
from surefoot.deploy.ladder import Finding
from surefoot.deploy.limits import HUGE, KD, KP, TARGET, TORQUE, VELOCITY, Limits
from surefoot.deploy.settings import SafetySettings


class Actions:
    """The last action, and the targets it means.

    Attributes:
        low, high: of the targets that the last action may mean, (outputs,): a rhythm leaves an interval.
        time: when it came [s], -inf before the first.
    """

    def __init__(self, contract: Contract, settings: SafetySettings, index: list[int]):
        self._s, act = settings, contract.action
        self._names = [label(joint) for joint in act.joints]
        self._least, self._most = self._range(contract, settings)
        self._change = settings.action_change * (self._most - self._least)
        self._last: np.ndarray | None = None
        self._found: list[Finding] = []
        outputs = {joint: at for at, joint in enumerate(contract.joints[i] for i in index)}
        self._from = [k for k, joint in enumerate(act.joints) if joint in outputs]
        self._to = [outputs[act.joints[k]] for k in self._from]
        self._offset, self._scale = np.asarray(act.offset), np.asarray(act.scale)
        lift = np.asarray(act.lift)
        self._down, self._up = np.minimum(lift, 0.0), np.maximum(lift, 0.0)
        self._clip = act.clip and tuple(np.asarray(side) for side in act.clip)
        self._lifts = bool(lift.any())
        self._direct = self._from == list(range(len(act.joints))) and self._to == list(range(len(index)))
        own = [contract.joints.index(joint) for joint in act.joints]
        least, most = (np.asarray(side)[own] for side in (settings.target_low, settings.target_high))
        ends = act.limits or (least, most)
        self._bottom, self._top = (np.minimum(np.maximum(side, least), most) for side in ends)
        n = len(index)
        self.low, self.high = np.full(n, -HUGE), np.full(n, HUGE)
        self.time = -math.inf

    @staticmethod
    def _range(contract: Contract, settings: SafetySettings) -> tuple[np.ndarray, np.ndarray]:
        """Actions that are plausible: those seen in training with a margin, within the clip, and those that mean a reachable target."""
        act = contract.action
        own = [contract.joints.index(joint) for joint in act.joints]
        ends = [
            (np.asarray(side)[own] - act.offset) / act.scale for side in (settings.target_low, settings.target_high)
        ]
        low, high = np.minimum(*ends), np.maximum(*ends)
        if act.clip is not None:
            low, high = np.maximum(low, act.clip[0]), np.minimum(high, act.clip[1])
        for term in (term for group in contract.groups for term in group.terms):
            if term.source == "last_action" and term.trained is not None:
                rows = np.array([term.scale, term.offset, *term.trained])
                for k, joint in enumerate(term.columns):
                    at, scale, offset = act.joints.index(joint), rows[0][k], rows[1][k]
                    seen = sorted(side[k] / scale - offset for side in rows[2:]) if scale else ()
                    if seen:
                        low[at], high[at] = seen
        margin = settings.action_margin * (high - low)
        return low - margin, high + margin

    def rest(self) -> None:
        """The policy does not drive any more: what its last action did is over."""
        self._found, self._last = [], None

    def look(self, now: float, action: Any) -> list[Finding]:
        """Conditions after this action; without one, those of the last stay."""
        if action is None:
            return self._found
        try:
            a = np.array(action, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError):
            a = np.zeros(0)
        n = len(self._names)
        if a.shape != (n,):
            self._found = [Finding("action_invalid", "action", math.nan, n)]
            return self._found
        found: list[Finding] = []
        inside = (a >= self._least) & (a <= self._most)
        if np.count_nonzero(inside) < n:
            if not np.isfinite(a).all():
                self._found = [Finding("action_invalid", "action", math.nan, n)]
                return self._found
            a = np.minimum(np.maximum(a, -HUGE), HUGE)
            at = int(inside.argmin())
            limit = self._most[at] if a[at] > self._most[at] else self._least[at]
            found.append(Finding("action_range", self._names[at], float(a[at]), float(limit)))
        if self._last is not None:
            change = np.abs(a - self._last)
            small = change <= self._change
            if np.count_nonzero(small) < n:
                at = int(small.argmin())
                found.append(Finding("action_change", self._names[at], float(change[at]), float(self._change[at])))
        self._last, self.time, self._found = a, now, found
        self._mean(a)
        return found

    def _mean(self, a: np.ndarray) -> None:
        """Targets that the action means, as an interval for each output, within the limits."""
        if self._clip:
            a = np.minimum(np.maximum(a, self._clip[0]), self._clip[1])
        middle = self._scale * a + self._offset
        if not self._direct:
            low, high = (
                np.minimum(np.maximum(middle + lift, self._bottom), self._top) for lift in (self._down, self._up)
            )
            self.low[self._to], self.high[self._to] = low[self._from], high[self._from]
        elif self._lifts:
            self.low = np.minimum(np.maximum(middle + self._down, self._bottom), self._top)
            self.high = np.minimum(np.maximum(middle + self._up, self._bottom), self._top)
        else:
            self.low = self.high = np.minimum(np.maximum(middle, self._bottom), self._top)


class Commands:
    """The wanted command as rows (5, outputs), made harmless to compute with; and what is wrong with it."""

    def __init__(self, settings: SafetySettings, limits: Limits, actions: Actions, names: tuple[str, ...]):
        self._s, self._limits, self._actions = settings, limits, actions
        self._names = [label(name) for name in names]
        self._floor, self._roof = limits.floor.copy(), limits.roof.copy()
        self._roof[KP : KD + 1] += 1e-6 * self._roof[KP : KD + 1] + 1e-9
        self._torque = settings.torque_factor * limits.stall
        self._margin = math.inf if settings.match_margin is None else settings.match_margin
        self._window = 1.5 * settings.control_dt
        self._judged = settings.torque_limit is not None and limits.positions

    def look(
        self, now: float, wanted: Any, q: np.ndarray, dq: np.ndarray, driving: bool
    ) -> tuple[np.ndarray | None, list[Finding]]:
        """Rows of the command or None where there is no usable one, and the conditions at this step; `driving`: the policy does."""
        n = len(self._names)
        if not isinstance(wanted, Command):
            return None, [Finding("command_invalid", "no command", math.nan, 0.0)]
        if wanted.kind != self._s.kind or wanted.target.shape != (n,):
            return None, [Finding("command_invalid", f"{wanted.target.size} values of {wanted.kind}", math.nan, n)]
        rows = np.empty((5, n))
        rows[TARGET] = wanted.target
        if self._limits.positions:
            rows[VELOCITY], rows[KP], rows[KD], rows[TORQUE] = wanted.velocity, wanted.kp, wanted.kd, wanted.torque
        else:
            rows[1:] = 0.0
        found: list[Finding] = []
        inside = (rows >= self._floor) & (rows <= self._roof)
        if np.count_nonzero(inside) < inside.size:
            finite = np.isfinite(rows).all(0)
            if not finite.all():
                at = int(np.argmin(finite))
                return None, [Finding("command_invalid", f"{self._names[at]} is not finite", math.nan, n)]
            np.maximum(rows, -HUGE, out=rows)
            np.minimum(rows, HUGE, out=rows)
            self._gains(rows, inside, found)
        if self._judged:
            size = np.abs(self._limits.torque(rows, q, dq))
            over = size > self._torque
            if np.count_nonzero(over):
                at = int(over.argmax())
                found.append(Finding("command_torque", self._names[at], float(size[at]), float(self._torque[at])))
        if driving and now - self._actions.time <= self._window:
            self._match(rows[TARGET], found)
        return rows, found

    def _gains(self, rows: np.ndarray, inside: np.ndarray, found: list[Finding]) -> None:
        out = ~inside[KP : KD + 1]
        if out.any():
            row, at = np.unravel_index(int(out.argmax()), out.shape)
            found.append(Finding("gains", self._names[at], float(rows[KP + row, at]), float(self._roof[KP + row, at])))

    def _match(self, target: np.ndarray, found: list[Finding]) -> None:
        """The targets against what the last action means, both within the limits."""
        target = np.maximum(target, self._limits.low)
        np.minimum(target, self._limits.high, out=target)
        off = np.maximum(self._actions.low - target, target - self._actions.high)
        at = off.argmax()
        if off[at] > self._margin:
            found.append(Finding("command_match", self._names[int(at)], float(off[at]), self._margin))
