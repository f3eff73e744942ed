"""The latched ladder: ok -> freeze -> damping -> stopped, and never back by itself.

A check that finds something gives a `Finding` for every step on which the condition is there. Its time adds up, whichever joints
it flickers over; when it reaches the check's hold time, the ladder is entered at the check's level. A condition that stays leads
on: freeze_time in freeze, damping_time in damping. Time without the condition counts back at a quarter.
"""

from dataclasses import dataclass
from typing import NamedTuple

from surefoot.deploy.settings import STATES, SafetySettings

FORGIVE = 0.25
"""How fast the time of a condition counts back once it is gone."""
MOST_NAMES = 8
"""Joints or channels that one condition names; it may flicker over all of them."""
RANK = {"warn": 0, "freeze": 1, "damping": 2, "stopped": 3}
WORDS = {
    "stale": "no new reading for {value:.4g} s, allowed {limit:.4g}",
    "not_finite": "reading {name} is missing or not a finite number",
    "range": "reading {name} is {value:.4g}, its limit {limit:.4g}",
    "norm": "{name} has norm {value:.4g}, it may be {limit:.4g} away from 1",
    "jump": "reading {name} jumped by {value:.4g}, at most {limit:.4g} is possible between two samples",
    "stuck": "reading {name} has not changed for {value:.4g} s while the robot moves, allowed {limit:.4g}",
    "frozen": "no reading has changed for {value:.4g} s although samples arrive, allowed {limit:.4g}",
    "clock": "the robot's clock is off by {value:.4g} s, allowed {limit:.4g}",
    "lost": "samples are lost: {value:.4g}, allowed {limit:.4g}",
    "action_invalid": "the action is not {limit:.0f} finite numbers",
    "action_range": "action {name} is {value:.4g}, its limit {limit:.4g}",
    "action_change": "action {name} changed by {value:.4g} in one step, allowed {limit:.4g}",
    "command_invalid": "the wanted command is not usable: {name}",
    "command_match": "the wanted target of {name} is {value:.4g} away from what the action means, allowed {limit:.4g}",
    "command_torque": "the wanted torque of {name} is {value:.4g} N·m, that is beyond {limit:.4g}",
    "gains": "the wanted gain of {name} is {value:.4g}, allowed 0 to {limit:.4g}",
    "tilt": "the body is tilted by {value:.4g} rad, allowed {limit:.4g}",
    "height": "the base is at {value:.4g} m, its limit {limit:.4g}",
    "contact": "{name}: {value:.4g}, its limit {limit:.4g}",
    "temperature": "{name} is at {value:.4g} degC, allowed {limit:.4g}",
    "unfamiliar": "observations are far from training ({name}): score {value:.4g}, allowed {limit:.4g}",
    "overrun": "the loop took {value:.4g} s for one step, allowed {limit:.4g}",
    "policy_silent": "the policy has not run for {value:.4g} s, allowed {limit:.4g}",
    "operator": "the operator stopped the robot: {name}",
    "internal": "the safety layer itself failed: {name}",
    "ladder": "the condition stayed for {value:.4g} s: {name}",
}


class Finding(NamedTuple):
    """A condition that is there at this step."""

    check: str
    name: str  # joint, channel, or what it is about
    value: float
    limit: float


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something the safety layer saw, once at its beginning and once more when it became serious.

    Attributes:
        time: of the runtime [s].
        check: which check, see docs/safety.md.
        severity: "warn", "freeze", "damping" or "stopped".
        joint_or_channel: what it is about.
        value, limit: as the sentence says.
        sentence: for people.
    """

    time: float
    check: str
    severity: str
    joint_or_channel: str
    value: float
    limit: float
    sentence: str


def event(time: float, found: Finding, severity: str) -> Event:
    """The event of a finding."""
    said = WORDS[found.check].format(name=found.name, value=found.value, limit=found.limit)
    return Event(
        time=time, check=found.check, severity=severity, joint_or_channel=found.name, value=found.value, limit=found.limit,
        sentence=f"{severity}: {said}",
    )  # fmt: skip


class _Held:
    """How long the condition of a check has been there, whether it has counted, and what was said about it."""

    def __init__(self):
        self.time, self.counts = 0.0, False
        self.named: set[str] = set()


class Ladder:
    """Where the robot stands on the ladder, and how long each condition has been there."""

    def __init__(self, settings: SafetySettings):
        self._levels = {check: RANK[level] for check, level in settings.levels.items()}
        self._holds = settings.holds
        self._stay = (0.0, settings.freeze_time, settings.damping_time)
        self.level = 0
        self.since = 0.0  # [s] when the present level was entered
        self._held: dict[str, _Held] = {}
        self._condition = 0.0  # [s] how long conditions were there in the present level

    @property
    def state(self) -> str:
        """One of STATES."""
        return STATES[self.level]

    @property
    def quiet(self) -> bool:
        """Whether nothing that could do more than warn is being watched: no such condition now or a moment ago."""
        return not any(self._levels.get(check, 2) for check in self._held)

    def update(self, now: float, dt: float, findings: list[Finding]) -> tuple[Event, ...]:
        """Move on by one step of dt [s] with the conditions that are there; returns what is new."""
        if not findings and not self._held:
            return ()
        events: list[Event] = []
        counted, present = False, set()
        for found in findings:
            held = self._held.get(found.check)
            if held is None:
                held = self._held[found.check] = _Held()
            if found.check not in present:
                present.add(found.check)
                held.time += dt
            level = self._levels[found.check]
            serious = level > 0 and (held.counts or held.time >= self._holds[found.check] - 1e-9)
            counted |= serious
            if serious and not held.counts:
                held.counts = True
                held.named.add(found.name)
                events.append(event(now, found, STATES[level]))
            elif found.name not in held.named and len(held.named) < MOST_NAMES:
                held.named.add(found.name)
                events.append(event(now, found, STATES[level] if serious else "warn"))
            if serious and level > self.level:
                self._enter(now, level)
        if len(present) < len(self._held):
            self._forgive(dt, present)
        if counted:
            self._stayed(now, dt, events)
        return tuple(events)

    def _forgive(self, dt: float, present: set[str]) -> None:
        for check in [check for check in self._held if check not in present]:
            self._held[check].time -= FORGIVE * dt
            if self._held[check].time <= 0.0:
                del self._held[check]

    def _enter(self, now: float, level: int) -> None:
        self.level, self.since, self._condition = level, now, 0.0

    def _stayed(self, now: float, dt: float, events: list[Event]) -> None:
        self._condition += dt
        if 0 < self.level < 3 and self._condition >= self._stay[self.level]:
            stay = self._stay[self.level]
            self._enter(now, self.level + 1)
            events.append(event(now, Finding("ladder", f"on to {self.state}", stay, stay), self.state))

    def release(self) -> bool:
        """The operator lets go of a freeze that no condition keeps up; whether that was possible."""
        if self.level == 1 and not self._held:
            self.level = 0
        return self.level == 0
