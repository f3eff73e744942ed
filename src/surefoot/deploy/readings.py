"""Checks of what the robot measures: missing, not finite, out of range, jumping, stuck, and its clock.

All channels of a reading lie side by side in one row y, so that one comparison checks them all; names are looked up only when something is
wrong. A bad sample is not used: the last good joint positions and speeds stay in force.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefoot.contract.channels import RUNTIME, label
from surefoot.contract.contract import Contract
from surefoot.contract.wire import Wire
from surefoot.deploy.ladder import Finding
from surefoot.deploy.settings import SafetySettings

LEARNED = 1.0
"""[s] after which the layer knows which readings are never at rest."""
WATCHED = ("joint_pos", "joint_vel", "gyro", "accel", "gravity", "quat")
"""Channels that are never still while the robot moves; a temperature may be."""
CLOCK_PULL = 0.01
"""Share by which the clocks' usual difference follows each good sample."""
MEAN_LOSS = 0.02
"""Weight of one sample in the mean share of lost ones."""


class Readings:
    """The last good reading, and what is wrong with the newest.

    Attributes:
        q, dq: last good joint positions [rad] and speeds [rad/s], (joints,) in the contract's order.
        good: whether there has been a good reading at all.
        fresh: whether this step brought a new sample.
        age: time since the last new sample [s].
    """

    def __init__(self, contract: Contract, settings: SafetySettings, channels: Mapping[str, Wire] | None):
        self._contract, self._s = contract, settings
        self._joints = len(contract.joints)
        self._channels = channels
        deployed = [g for g in contract.groups if not g.privileged]
        self._required = {t.source for g in deployed for t in g.terms} - set(RUNTIME)
        if settings.kind == "joint_pos_target":
            self._required.add("joint_pos")
        self._layout: list[tuple[str, slice, tuple[int, ...], Any]] = []
        self.q, self.dq = np.array(contract.pose, dtype=np.float64), np.zeros(self._joints)
        self.good = self.fresh = False
        self.age = 0.0
        self._seen: float | None = None  # runtime time of the last new sample
        self._begun: float | None = None
        self._time = self._count = None  # of the last sample, by the robot
        self._offset: float | None = None  # robot clock - runtime clock
        self._stride, self._samples = 1 << 30, 0
        self._mean_lost, self._mean_step = 0.0, 1.0
        self._found: list[Finding] = []  # about the newest sample; stays until the next
        self._stuck: list[Finding] = []
        self._jumped: np.ndarray | None = None  # row from which it jumped
        self._size = np.zeros(0)
        if channels is not None:
            self._arrange({name: (len(wire.columns),) for name, wire in channels.items()})

    # ---------------------------------------------------------------- layout

    def _arrange(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Fix which channels are watched and where they lie in y; whether that is possible with these shapes."""
        layout, at = [], 0
        order = ["joint_pos", "joint_vel", *sorted(set(shapes) - {"joint_pos", "joint_vel"})]
        for name in order:
            if name not in shapes:
                continue
            columns = self._contract.columns(name)
            if len(shapes[name]) != 1 or (columns is not None and shapes[name] != (len(columns),)):
                return False
            size = shapes[name][0]
            layout.append((name, slice(at, at + size), (size,), self._permutation(name, columns)))
            at += size
        if not self._required <= set(shapes):
            return False
        self._layout = layout
        self._names, self._shapes = [name for name, *_ in layout], [shape for _, _, shape, _ in layout]
        self._orders = [(part, order) for _, part, _, order in layout if order is not None]
        self.parts = {name: part for name, part, _, _ in layout}
        self._rows(at)
        return True

    def _permutation(self, name: str, columns: Sequence[str] | None) -> Any:
        """Where the contract's columns stand in the hardware's; None when they are in order."""
        given = self._channels[name].columns if self._channels is not None else None
        if given is None or columns is None or tuple(given) == tuple(columns) or set(given) != set(columns):
            return None
        return np.array([given.index(column) for column in columns])

    def _rows(self, width: int) -> None:
        s, parts = self._s, self.parts
        self.y, self._previous, self._good_row = np.zeros(width), np.full(width, np.nan), np.zeros(width)
        self._low, self._high = np.full(width, -1e12), np.full(width, 1e12)
        self._jump, self._jump_margin = np.full(width, 1e15), np.full(width, 1e15)
        speed = np.full(self._joints, 60.0) if s.no_load_speed is None else np.asarray(s.no_load_speed)
        if "joint_pos" in parts:
            part = parts["joint_pos"]
            if s.position_low is not None and s.position_high is not None:
                self._low[part] = np.asarray(s.position_low) - s.position_margin
                self._high[part] = np.asarray(s.position_high) + s.position_margin
            self._jump[part], self._jump_margin[part] = s.jump_factor * speed, s.jump_margin
        if "joint_vel" in parts:
            self._low[parts["joint_vel"]], self._high[parts["joint_vel"]] = -3.0 * speed, 3.0 * speed
        if "joint_torque" in parts and s.torque_limit is not None:
            limit = 2.0 * np.asarray(s.torque_limit)
            self._low[parts["joint_torque"]], self._high[parts["joint_torque"]] = -limit, limit
        ranges = {"gyro": s.gyro_range, "accel": s.accel_range, "gravity": 1 + s.norm_margin, "quat": 1 + s.norm_margin}
        for name, size in ranges.items():
            if name in parts:
                self._low[parts[name]], self._high[parts[name]] = -size, size
        if "gravity" in parts:
            self._jump[parts["gravity"]], self._jump_margin[parts["gravity"]] = s.gyro_range, 0.2
        if "joint_temperature" in parts:
            self._low[parts["joint_temperature"]], self._high[parts["joint_temperature"]] = -40.0, 200.0
        self._units = [(name, parts[name]) for name in ("gravity", "quat") if name in parts]
        self._a, self._b, self._d = np.zeros(width, bool), np.zeros(width, bool), np.zeros(width)
        self._moved, self._ever = np.zeros(width, bool), np.zeros(width, bool)  # in this block, in any
        self._rested = np.zeros(width, bool)  # was still for a block and moved on
        self._watched = np.zeros(width, bool)
        for name in WATCHED if set(WATCHED) & set(parts) else parts:
            if name in parts:
                self._watched[parts[name]] = True
        self._still = np.zeros(width, int)  # blocks without a change
        self._travel = np.zeros(self._joints)  # integral of dq since the block in which q last changed
        self._step = np.full(
            self._joints, np.inf
        )  # smallest change of q that was seen: a coarse encoder has a large one
        self._change = np.zeros(self._joints)
        self._anchor: np.ndarray | None = None  # target when q last changed
        self._block_samples, self._block_start = 0, 0.0
        self._all_rested = False

    def column(self, index: int) -> str:
        """The name of entry `index` of y: "joint_pos[FL_hip]"."""
        for name, part, _, _ in self._layout:
            if part.start <= index < part.stop:
                columns = self._contract.columns(name)
                at = index - part.start
                return f"{name}[{label(columns[at]) if columns else at}]"
        return "reading"

    # ---------------------------------------------------------------- one step

    def look(self, now: float, reading: Any, target: np.ndarray) -> list[Finding]:
        """Conditions at this step; `target` (joints,) is what the joints were told last, for positions."""
        if self._begun is None:
            self._begun = now
        self.fresh = False
        try:
            if reading is not None:
                time, count = float(reading.time), int(reading.count)
                if time != self._time or count != self._count:
                    self.fresh = True
                    self._found = self._sample(now, time, count, reading.values, target)
                    self._seen = now
        except (TypeError, ValueError, AttributeError, OverflowError):
            self.fresh = False
            self._found = [Finding("not_finite", "reading", math.nan, 0.0)]
        begun, allowed = (
            (self._seen, self._s.stale_time) if self._seen is not None else (self._begun, self._s.start_time)
        )
        self.age = now - begun
        if self.age > allowed:
            return [*self._found, Finding("stale", "reading", self.age, allowed)]
        return self._found

    def _sample(
        self, now: float, time: float, count: int, values: Mapping[str, Any], target: np.ndarray
    ) -> list[Finding]:
        found: list[Finding] = []
        elapsed = self._times(now, time, count, found)
        if not self._gather(values):
            found.append(Finding("not_finite", self._absent(values), math.nan, 0.0))
            return found
        y, a, b, s = self.y, self._a, self._b, self._s
        np.greater_equal(y, self._low, out=a)
        np.less_equal(y, self._high, out=b)
        np.logical_and(a, b, out=a)
        whole = np.count_nonzero(a) == a.size
        usable = whole or self._name_range(found)
        for name, part in self._units:
            if whole or a[part].all():
                v = y[part]
                norm2 = float(v.dot(v))
                if abs(norm2 - 1.0) > 2.0 * s.norm_margin:
                    found.append(Finding("norm", name, math.sqrt(norm2), s.norm_margin))
        if usable:
            if self.good:
                usable = self._jumps(elapsed, found)
            if usable:
                self._commit(elapsed)
        self._movement(now, target)
        if self._stuck:
            found += self._stuck
        return found

    def _gather(self, values: Mapping[str, Any]) -> bool:
        """Copy the channels into y; False when one is absent or has another size."""
        if not self._layout:
            shapes = {name: np.shape(value) for name, value in values.items()}
            if not self._arrange(shapes):
                return False
        try:
            rows = [values[name] for name in self._names]
            if [row.shape for row in rows] != self._shapes:
                return False
            np.concatenate(rows, out=self.y)
        except (LookupError, AttributeError, TypeError, ValueError):
            return False
        for part, order in self._orders:
            self.y[part] = self.y[part][order]
        return True

    def _absent(self, values: Mapping[str, Any]) -> str:
        for name, _, shape, _ in self._layout:
            if getattr(values.get(name), "shape", None) != shape:
                return name
        return next(iter(sorted(self._required - set(values))), "reading")

    def _times(self, now: float, time: float, count: int, found: list[Finding]) -> float:
        """Check clock and count; returns the robot's time since the last sample [s], within reason."""
        s = self._s
        if not math.isfinite(time):
            found.append(Finding("clock", "time", math.nan, s.clock_jump))
            return s.period
        offset, elapsed = time - now, s.period
        if self._offset is None or self._time is None or self._count is None:
            self._offset = offset
        else:
            elapsed = time - self._time
            off = offset - self._offset
            if elapsed <= 0.0:
                found.append(Finding("clock", "time", elapsed, s.clock_jump))
            elif abs(off) > s.clock_jump:
                found.append(Finding("clock", "time", off, s.clock_jump))
            else:
                self._offset += CLOCK_PULL * off
            self._counted(count - self._count, found)
        self._time, self._count = time, count
        return min(max(elapsed, 0.5 * s.period), s.stale_time)

    def _counted(self, step: int, found: list[Finding]) -> None:
        s = self._s
        if step <= 0:
            found.append(Finding("lost", "count", float(step), 0.0))
            return
        self._samples += 1
        if self._samples < 50:
            self._stride = min(self._stride, step)
        lost = max(step - self._stride, 0)
        self._mean_lost += MEAN_LOSS * (lost - self._mean_lost)
        self._mean_step += MEAN_LOSS * (step - self._mean_step)
        share = self._mean_lost / self._mean_step
        if lost > s.most_lost:
            found.append(Finding("lost", "count", float(lost), s.most_lost))
        elif share > s.lost_share:
            found.append(Finding("lost", "share", share, s.lost_share))

    def _name_range(self, found: list[Finding]) -> bool:
        """Name the entries that are out of range; whether the joints' are all good."""
        for index in np.flatnonzero(~self._a)[:4]:
            value = float(self.y[index])
            if math.isfinite(value):
                limit = float(self._high[index] if value > self._high[index] else self._low[index])
                found.append(Finding("range", self.column(index), value, limit))
            else:
                found.append(Finding("not_finite", self.column(index), value, 0.0))
        usable = bool(self._a[: self._joint_width].all())
        np.copyto(self.y, self._good_row, where=~self._a)  # from here on, the last good value stands for a bad one
        return usable

    @property
    def _joint_width(self) -> int:
        return sum(self.parts[n].stop - self.parts[n].start for n in ("joint_pos", "joint_vel") if n in self.parts)

    def _jumps(self, elapsed: float, found: list[Finding]) -> bool:
        """Whether the row follows from the last good one; once it jumped, only a return to there is believed."""
        d = self._d
        if self._jumped is not None:
            np.subtract(self.y, self._jumped, out=d)
            np.abs(d, out=d)
            off = d > self._size
            if off.any():
                index = int(np.argmax(off))
                found.append(Finding("jump", self.column(index), float(d[index]), float(self._size[index])))
                return False
            self._jumped = None
            return True
        np.subtract(self.y, self._good_row, out=d)
        np.abs(d, out=d)
        allowed = self._jump * elapsed
        allowed += self._jump_margin
        np.less_equal(d, allowed, out=self._b)
        if np.count_nonzero(self._b) == d.size:
            return True
        np.logical_or(self._b, ~np.isfinite(d), out=self._b)  # what is not finite is named already
        if self._b.all():
            return True
        index = int(np.argmin(self._b))
        found.append(Finding("jump", self.column(index), float(d[index]), float(allowed[index])))
        self._jumped = self._good_row.copy()
        self._size = np.where(self._b, 1e15, 0.5 * d)
        return False

    def _commit(self, elapsed: float) -> None:
        """The joints' readings are good: keep them."""
        parts, y = self.parts, self.y
        if "joint_pos" in parts:
            q = y[parts["joint_pos"]]
            if "joint_vel" in parts:
                self.dq[:] = y[parts["joint_vel"]]
            elif self.good:
                np.subtract(q, self.q, out=self.dq)
                self.dq /= elapsed
            self.q[:] = q
        self._good_row[:] = y
        self.good = True

    # ---------------------------------------------------------------- stuck

    def _movement(self, now: float, target: np.ndarray) -> None:
        """Count what moves; at the end of a block of half a stuck_time, judge."""
        np.not_equal(self.y, self._previous, out=self._b)
        np.logical_or(self._moved, self._b, out=self._moved)
        if "joint_pos" in self.parts:
            part = self.parts["joint_pos"]
            np.subtract(self.y[part], self._previous[part], out=self._change)
            np.abs(self._change, out=self._change)
            np.minimum(self._step, self._change, out=self._step, where=self._b[part])
        self._previous[:] = self.y
        np.add(self._travel, self.dq, out=self._travel)
        self._block_samples += 1
        if self._anchor is None:
            self._anchor, self._block_start = target.copy(), now
            self._moved[:] = False
        elif now - self._block_start >= 0.5 * self._s.stuck_time and self._block_samples > 2:
            self._judge(now, target)

    def _judge(self, now: float, target: np.ndarray) -> None:
        moved, length, unmoved = self._moved, now - self._block_start, ~self._moved
        if np.count_nonzero(self._still * self._watched):
            self._rested |= moved & (self._still > 0)
            watched = self._watched
            self._all_rested |= bool(np.all(self._still[watched] > 0) and np.any(moved[watched]))
        self._still += 1
        self._still *= unmoved
        self._ever |= moved
        still = (self._still >= 2) & self._watched
        self._stuck = []
        if np.count_nonzero(still) and self._anchor is not None:
            learned = self._begun is not None and now - self._begun > LEARNED
            self._stuck = self._suspects(still, learned, length / self._block_samples, target)
        if self._anchor is not None and "joint_pos" in self.parts:
            free = moved[self.parts["joint_pos"]]
            np.copyto(self._anchor, target, where=free)
            self._travel *= ~free
        moved.fill(False)
        self._block_samples, self._block_start = 0, now

    def _suspects(self, still: np.ndarray, learned: bool, sample: float, target: np.ndarray) -> list[Finding]:
        """Entries without a change for two blocks that ought to have changed."""
        s, parts, found = self._s, self.parts, []
        told = (
            np.abs(target - self._anchor) > s.stuck_move if self._anchor is not None else np.zeros(self._joints, bool)
        )
        if np.count_nonzero(still) == np.count_nonzero(self._watched):
            if told.any() or (learned and not self._all_rested and self._ever.any()):
                return [Finding("frozen", "all", s.stuck_time, s.stuck_time)]
            return []
        never = self._ever & ~self._rested if learned else np.zeros_like(still)
        moving = self._watched & ~still
        joints_move = bool(moving[parts["joint_pos"]].any()) if "joint_pos" in parts else bool(moving.any())
        bad = np.zeros_like(still)
        if "joint_pos" in parts:
            part = parts["joint_pos"]
            own = told | (np.abs(self._travel) * sample > s.stuck_move)
            if "joint_vel" in parts:
                # A joint that hardly moves may stay within one step of a coarse encoder for long.
                own |= never[part] & moving[parts["joint_vel"]] & (np.abs(self._travel) * sample > 2.0 * self._step)
                bad[parts["joint_vel"]] = still[parts["joint_vel"]] & moving[part] & (never[parts["joint_vel"]] | told)
            bad[part] = still[part] & own
        for name, part in parts.items():
            if name in ("gyro", "accel"):
                bad[part] = still[part] & never[part] & joints_move
            elif name in ("gravity", "quat") and still[part].all():
                bad[part] = never[part] & joints_move
        for index in np.flatnonzero(bad)[:4]:
            found.append(Finding("stuck", self.column(int(index)), s.stuck_time, s.stuck_time))
        return found
