"""The limits that no command leaves, whatever was wanted.

For position targets, with p the target sent before, dt the time since, q and dq the reading that the command is based on:

    target ∈ [low, high]      |target − p| ≤ rate dt      kp ∈ [0, kp_max]      kd ∈ [0, kd_max]
    −c(−dq) ≤ τ ≤ c(dq)       τ = kp (target − q) + kd (velocity − dq) + torque
    c(dq) = derate · stall · clip(1 − dq / no_load_speed, 0, 1)

The target is clipped; kp, kd and torque are scaled together by the share of τ that the motor's curve allows, so that a limited
command is the wanted one, softer, and keeps its sign. Other kinds have limits and rate only, and torques the curve too.

Everything here works on rows of any leading shape (..., n): the safety layer calls it for one robot, a test for a million at once.
"""

from typing import Any

import numpy as np

from surefoot.deploy.barrier import Barrier
from surefoot.deploy.settings import SafetySettings

TARGET, VELOCITY, KP, KD, TORQUE = range(5)
"""Rows of a command as an array (5, ..., n)."""
HUGE = 1e6
"""Numbers beyond this are cut before anything is computed with them, so that nothing overflows."""
FULL = 1.0
"""No derating."""
SNUG = 1.0 - 1e-9
"""Limits are kept with this much to spare, so that rounding does not break them."""


class Limits:
    """Clips commands of the outputs `index` of the settings; keeps no state: the caller keeps the target sent before."""

    def __init__(self, settings: SafetySettings, index: Any):
        """Make the rows ready."""

        def row(values: Any) -> np.ndarray:
            return np.ascontiguousarray(np.asarray(values, dtype=np.float64)[index])

        n = len(index)
        self.positions = settings.kind == "joint_pos_target"
        self.torques = settings.kind == "joint_torque_target"
        self.low, self.high, self.rate = (
            row(settings.target_low),
            row(settings.target_high),
            row(settings.rate_limit) * SNUG,
        )
        self.kp_max, self.kd_max = row(settings.kp_max), row(settings.kd_max)
        self.stall = np.full(n, HUGE) if settings.torque_limit is None else row(settings.torque_limit)
        self._stall, self._zeros, self._ones = self.stall * SNUG, np.zeros(n), np.ones(n)
        speed = None if settings.no_load_speed is None else row(settings.no_load_speed)
        self.fall = np.zeros(n) if speed is None else 1.0 / speed
        self.speed = np.full(n, 100.0) if speed is None else speed
        self.floor = np.stack([self.low, -self.speed, np.zeros(n), np.zeros(n), -self.stall])
        self.roof = np.stack([self.high, self.speed, self.kp_max, self.kd_max, self.stall])
        self.barrier = Barrier(settings, index) if settings.barrier and self.positions else None

    def curve(self, dq: np.ndarray, derate: Any = 1.0) -> np.ndarray:
        """c(dq): the largest torque in the direction of positive dq [N·m]; that of the other direction is c(−dq)."""
        return derate * self.stall * np.clip(1.0 - dq * self.fall, 0.0, 1.0)

    def torque(self, command: np.ndarray, q: np.ndarray, dq: np.ndarray) -> np.ndarray:
        """τ that a motor computes from `command` (5, ..., n) at q, dq."""
        return command[KP] * (command[TARGET] - q) + command[KD] * (command[VELOCITY] - dq) + command[TORQUE]

    def apply(
        self, wanted: np.ndarray, previous: np.ndarray, q: np.ndarray, dq: np.ndarray, dt: Any, derate: Any = FULL
    ) -> np.ndarray:
        """The command nearest in kind to `wanted` within all limits; `wanted` (5, ..., n) is changed in place and returned.

        Args:
            wanted: anything at all, also numbers that are not finite.
            previous: target sent before, within the limits, (..., n).
            q: joint positions of a finite reading, (..., n).
            dq: joint speeds of the same.
            dt: time since the previous command [s], at most the period; a number or (..., 1).
            derate: share of the torque that temperature allows, a number or (..., n).
        """
        finite = np.isfinite(wanted)
        if np.count_nonzero(finite) < finite.size:
            wanted[TARGET] = np.where(finite[TARGET], wanted[TARGET], previous)
            wanted[1:] = np.where(finite[1:], wanted[1:], 0.0)
        lead = wanted.ndim - 2
        floor = self.floor if not lead else self.floor.reshape(5, *[1] * lead, -1)
        roof = self.roof if not lead else self.roof.reshape(5, *[1] * lead, -1)
        np.maximum(wanted, floor, out=wanted)
        np.minimum(wanted, roof, out=wanted)
        target, reach = wanted[TARGET], self.rate * dt
        np.maximum(target, previous - reach, out=target)
        np.minimum(target, previous + reach, out=target)
        if self.positions:
            self._soften(wanted, q, dq, derate)
        else:
            wanted[1:] = 0.0
            if self.torques:
                self._under_curve(target, dq, derate)
        return wanted

    def _soften(self, command: np.ndarray, q: np.ndarray, dq: np.ndarray, derate: Any) -> None:
        tau = self.torque(command, q, dq)
        if self.barrier is not None:
            allowed = self.barrier.project(tau, q, dq)
            command[TORQUE] += allowed - tau
            tau = allowed
        most = self._ones - np.copysign(self.fall, tau) * dq
        np.maximum(most, self._zeros, out=most)
        np.minimum(most, self._ones, out=most)
        most *= self._stall
        if derate is not FULL:
            most *= derate
        size = np.abs(tau)
        over = size > most
        if np.count_nonzero(over):
            share = np.where(over, most / np.maximum(size, 1e-300), 1.0)
            command[KP] *= share
            command[KD] *= share
            command[TORQUE] *= share

    def _under_curve(self, target: np.ndarray, dq: np.ndarray, derate: Any) -> None:
        """A torque falls at once to what the curve allows: the rate limit holds for rising ones only."""
        np.minimum(target, self.curve(dq, derate) * SNUG, out=target)
        np.maximum(target, -self.curve(-dq, derate) * SNUG, out=target)
