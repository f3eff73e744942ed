"""The safety layer: between whatever computes commands and the motors, at every step of the inner loop.

    ruling = safety.step(now, reading, wanted, action=action, observation=observation, policy_time=policy_time)
    hardware.write(ruling.command)

It never raises, and whatever it is given, the command it returns lies within the limits of `limits.py`, for the last good reading.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.contract.contract import Contract
from surefoot.contract.wire import Command, Reading, Wire
from surefoot.deploy.envelope import Envelope
from surefoot.deploy.familiar import Familiar
from surefoot.deploy.ladder import Event, Finding, Ladder, event
from surefoot.deploy.limits import FULL, KD, KP, TARGET, TORQUE, VELOCITY, Limits
from surefoot.deploy.readings import Readings
from surefoot.deploy.settings import STATES, SafetySettings
from surefoot.deploy.wanted import Actions, Commands
from surefoot.errors import choose

NUMBER = int | float | np.integer | np.floating


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """What the safety layer decided at one step.

    Attributes:
        command: what the motors may be told.
        state: "ok", "freeze", "damping" or "stopped".
        events: what is new at this step.
    """

    command: Command
    state: str
    events: tuple[Event, ...] = ()


class Safety:
    """Checks readings, actions and commands, limits the command, and climbs down the ladder when something stays wrong.

        ok        the wanted command, limited
        freeze    the last good target, with gains of at most freeze_gain · kp_max; other kinds rest or hold
        damping   kp = 0, kd = damping_kd; other kinds rest (target 0)
        stopped   sits down to `crouch` where that is set and the robot is upright and seen, then damping

    Before the first good reading the command is damping. The state never goes back by itself; `release` lets go of a freeze.
    """

    def __init__(
        self,
        contract: Contract,
        settings: SafetySettings | None = None,
        *,
        outputs: tuple[str, ...],
        channels: Mapping[str, Wire] | None = None,
        observe_only: bool = False,
    ):
        """Make a safety layer for one run.

        Args:
            contract: of the policy.
            settings: limits; from the contract when left out.
            outputs: motors in the order of every command, joints of the contract.
            channels: what readings hold (`Hardware.channels`); when left out, channels come in the contract's order and the
                first reading says which there are.
            observe_only: judge, but hand back the wanted command as it came.
        """
        self.settings = s = SafetySettings.from_contract(contract) if settings is None else settings
        s.fits(contract)
        for name in outputs:
            choose(name, contract.joints, f"a joint or motor in the contract of {contract.robot!r}")
        self.contract, self.outputs, self.observe_only = contract, tuple(outputs), observe_only
        self._index = [contract.joints.index(name) for name in outputs]
        self._at = np.array(self._index, dtype=int)
        self._all = self._index == list(range(len(contract.joints)))
        self.limits = Limits(s, self._at)
        self.readings = Readings(contract, s, channels)
        self.actions = Actions(contract, s, self._index)
        self.commands = Commands(s, self.limits, self.actions, self.outputs)
        self.envelope, self.familiar, self.ladder = Envelope(contract, s), Familiar(contract, s), Ladder(s)
        self._damping_kd = np.asarray(s.damping_kd)[self._at]
        self._soft_kp = s.freeze_gain * self.limits.kp_max
        self._usual_kd = np.asarray(contract.kd)[self._at] if contract.kd else self._damping_kd
        rest = np.asarray(contract.pose)[self._at] if self.limits.positions else np.zeros(len(outputs))
        self._rest = np.clip(rest, self.limits.low, self.limits.high)
        self._sent = self._rest.copy()  # target sent before, within the limits
        self._told = np.array(contract.pose, dtype=np.float64)  # the same, for all joints of the contract
        self._hold, self._hold_kp = self._sent.copy(), self._soft_kp.copy()  # last good target and its gains
        self._rows: np.ndarray | None = None  # the last good command
        self._now: float | None = None
        self._policy: float | None = None  # the policy's last time as it was given, and when that changed
        self._policy_seen = -math.inf
        self._begun = False
        self._crouch = (
            None if s.crouch is None else np.clip(np.asarray(s.crouch)[self._at], self.limits.low, self.limits.high)
        )
        self._sit: tuple[float, np.ndarray] | None = None  # when and from where it sits down
        self._stops: list[Finding] = []

    @property
    def state(self) -> str:
        """Where the ladder stands."""
        return self.ladder.state

    @property
    def checks(self) -> dict[str, str]:
        """Every check -> "on", or "off: why"."""
        s, seen = self.settings, getattr(self.readings, "parts", {})
        off = {}
        if s.torque_limit is None:
            off["torque limit"] = off["command_torque"] = "no torque_limit in contract or settings"
        if s.no_load_speed is None:
            off["speed-torque curve"] = "no no_load_speed in the settings: the curve is flat"
        if s.position_low is None:
            off["range of joint_pos"] = "no position limits in contract or settings"
        if not self.familiar.groups:
            off["unfamiliar"] = "the contract records no trained ranges"
        if s.match_margin is None:
            off["command_match"] = "match_margin is not set"
        if s.tilt_limit is None or not {"gravity", "quat"} & set(seen):
            off["tilt"] = "no tilt_limit, or neither gravity nor quat is read"
        if (s.height_low is None and s.height_high is None) or "base_pos" not in seen:
            off["height"] = "no height limits, or base_pos is not read"
        if (s.foot_force_high is None and s.foot_force_low is None) or "foot_force" not in seen:
            off["contact"] = "no foot_force limits, or foot_force is not read"
        if "joint_temperature" not in seen:
            off["temperature"] = "joint_temperature is not read"
        if not s.barrier:
            off["barrier"] = "not asked for"
        names = [*s.levels, "torque limit", "speed-torque curve", "range of joint_pos", "barrier"]
        return {name: f"off: {off[name]}" if name in off else "on" for name in names}

    def stop(self, reason: str) -> None:
        """The operator's stop: from the next step on, and latched."""
        self._stops = [Finding("operator", str(reason), 1.0, 0.0)]

    def release(self) -> bool:
        """The operator lets go of a freeze whose condition is gone; whether the state is "ok" now."""
        return self.ladder.release()

    # ---------------------------------------------------------------- one step

    def step(
        self,
        now: float,
        reading: Reading | None,
        wanted: Command,
        *,
        action: np.ndarray | None = None,
        observation: Mapping[str, np.ndarray] | None = None,
        policy_time: float | None = None,
    ) -> Ruling:
        """Judge one step of the inner loop and return what the motors may be told.

        Args:
            now: monotonic time of the runtime [s]; for a robot in lockstep, the robot's time.
            reading: the newest sample, the last one again, or None.
            wanted: the command somebody would like.
            action: of the policy, on steps on which it ran; while it drives, `wanted` must be what the contract makes of it.
            observation: of the policy, by group, on steps on which it ran.
            policy_time: when the policy last ran, by any clock, on every step while it drives; None while it does not. That it
                does not change for longer than the settings' policy_time is a fault.
        """
        try:
            return self._step(now, reading, wanted, action, observation, policy_time)
        except Exception as error:
            return self._last_resort(now, wanted, error)

    def _step(self, now: Any, reading: Any, wanted: Any, action: Any, observation: Any, policy_time: Any) -> Ruling:
        now, dt, found = self._clock(now, policy_time)
        seen, readings = self.readings.look(now, reading, self._told), self.readings
        q, dq = (readings.q, readings.dq) if self._all else (readings.q[self._at], readings.dq[self._at])
        if policy_time is None and action is None and observation is None:
            self.actions.rest()
            self.familiar.rest()
        acted = self.actions.look(now, action)
        rows, asked = self.commands.look(now, wanted, q, dq, policy_time is not None)
        body = self.envelope.look(now, readings)
        strange = self.familiar.look(now, observation)
        if seen or acted or asked or body or strange or self._stops:
            found = [*found, *seen, *acted, *asked, *body, *strange, *self._stops]
        events = self.ladder.update(now, dt, found)
        level = self.ladder.level
        if self.observe_only:
            return Ruling(command=wanted, state=STATES[level], events=events)
        chosen = self._choose(now, rows, level, q)
        derate = self.envelope.derate
        if not self._all and derate is not FULL:
            derate = derate[self._at]
        if rows is not None and level == 0 and self.ladder.quiet and readings.good:
            self._rows, self._hold_kp = chosen.copy(), chosen[KP].copy()
        self.limits.apply(chosen, self._sent, q, dq, min(dt, self.settings.period), derate)
        self._remember(chosen)
        state = STATES[level if readings.good else max(level, 2)]
        return Ruling(command=self._command(chosen), state=state, events=events)

    def _clock(self, now: Any, policy_time: Any) -> tuple[float, float, list[Finding]]:
        """The time as a number, the time since the last step, and the watchdogs' conditions."""
        s, found = self.settings, []
        now = float(now) if isinstance(now, NUMBER) else math.nan
        last = self._now
        if not math.isfinite(now):
            found.append(Finding("overrun", "now is no number", math.nan, s.overrun_time))
            now = 0.0 if last is None else last + s.period
        dt = s.period if last is None else now - last
        if dt > s.overrun_time or dt < 0.0:
            found.append(Finding("overrun", "loop", dt, s.overrun_time))
        self._now = now
        told = float(policy_time) if isinstance(policy_time, NUMBER) else math.nan
        if policy_time is None:
            self._policy = None
        elif self._policy is None or (told == told and told != self._policy):
            self._policy, self._policy_seen = told, now
        elif now - self._policy_seen > s.policy_time:
            found.append(Finding("policy_silent", "policy", now - self._policy_seen, s.policy_time))
        return now, max(dt, 0.0), found

    def _choose(self, now: float, rows: np.ndarray | None, level: int, q: np.ndarray) -> np.ndarray:
        """The command before limits, (5, outputs), for where the ladder stands."""
        if not self.readings.good:
            return self._damp(q)
        if not self._begun:
            self._begun = True
            if self.limits.positions:
                self._sent = np.minimum(np.maximum(q, self.limits.low), self.limits.high)
                self._hold = self._sent.copy()
        if level == 0:
            if rows is not None:
                return rows
            return self._rows.copy() if self._rows is not None else self._held()
        if level == 1:
            return self._held()
        if level == 3 and self._crouch is not None and self.limits.positions:
            return self._sitting(now, q)
        return self._damp(q)

    def _held(self) -> np.ndarray:
        rows = np.zeros((5, len(self.outputs)))
        if self.limits.positions:
            rows[TARGET], rows[KP], rows[KD] = self._hold, np.minimum(self._hold_kp, self._soft_kp), self._usual_kd
        elif self.settings.freeze_others == "hold":
            rows[TARGET] = self._hold
        return rows

    def _damp(self, q: np.ndarray) -> np.ndarray:
        rows = np.zeros((5, len(self.outputs)))
        if self.limits.positions:
            rows[TARGET], rows[KD] = q, self._damping_kd
        return rows

    def _sitting(self, now: float, q: np.ndarray) -> np.ndarray:
        """Smoothly to the crouch, as long as the robot is upright and seen; then, or else, damping."""
        s = self.settings
        upright = math.isnan(self.envelope.tilt) or self.envelope.tilt < s.crouch_tilt
        if self._sit is None:
            self._sit = (now, self._sent.copy()) if upright else (-math.inf, self._sent.copy())
        begun, start = self._sit
        if not upright or self.readings.age > s.stale_time or now - begun > s.crouch_time:
            self._sit = (-math.inf, start)
            return self._damp(q)
        share = (now - begun) / s.crouch_time
        rows = self._damp(q)
        rows[TARGET] = start + share * share * (3.0 - 2.0 * share) * (self._crouch - start)
        rows[KP], rows[KD] = self._soft_kp, self._usual_kd
        return rows

    def _remember(self, sent: np.ndarray) -> None:
        self._sent = sent[TARGET].copy()
        if self.limits.positions:
            if self._all:
                self._told[:] = self._sent
            else:
                self._told[self._at] = self._sent
        if self.ladder.level == 0 and self.ladder.quiet:
            self._hold = self._sent

    def _command(self, rows: np.ndarray) -> Command:
        made = object.__new__(Command)  # its checks are done: rows are float64 and of one length
        made.__dict__.update(
            kind=self.settings.kind,
            target=rows[TARGET],
            kp=rows[KP],
            kd=rows[KD],
            velocity=rows[VELOCITY],
            torque=rows[TORQUE],
        )
        return made

    def _last_resort(self, now: Any, wanted: Any, error: Exception) -> Ruling:
        """The layer itself failed: no torque at all at this step, and damping from the next."""
        found = Finding("internal", f"{type(error).__name__}: {error}"[:200], math.nan, 0.0)
        if self.ladder.level < 2:
            self.ladder.level = 2
        time = float(now) if isinstance(now, NUMBER) else math.nan
        rows = np.zeros((5, len(self.outputs)))
        rows[TARGET] = self._sent if self.limits.positions else self._rest
        command = wanted if self.observe_only else self._command(rows)
        return Ruling(command=command, state=self.ladder.state, events=(event(time, found, "damping"),))
