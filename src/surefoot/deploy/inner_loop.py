"""The inner loop of a run, tick by tick: from readings to motors.

    every inner tick (500 Hz)   newest reading -> wanted command -> safety layer -> motors -> diary
    every policy tick (50 Hz)   reading -> observation -> policy -> action -> wanted target

The policy's time is its number of steps times the control period, as in training, also when the loop had to leave ticks out.
History, memory, last action and time start anew when the policy starts. The observation is built from the newest reading whose
values are all finite; the safety layer sees every reading as it came.
"""

import json
import math
import time as wall
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import Command, Hardware, Reading
from surefoot.deploy.bundle import Bundle, load_bundle
from surefoot.deploy.diary import Diary
from surefoot.deploy.fitting import fit, inner_steps, places, tilt_of, usual_settings
from surefoot.deploy.loop_clock import Clock, RobotTime, WallClock
from surefoot.deploy.outcome import FINISHED, OPERATOR, SAFETY, Outcome, spread_of
from surefoot.deploy.safety import Ruling, Safety
from surefoot.deploy.settings import SafetySettings
from surefoot.deploy.stages import ACTING, CONNECT, HALT, HOLD, POLICY, SIT_DOWN, STAND_UP, STOP, WAIT, Motions, Plan
from surefoot.deploy.thinking import Asked, Thinker, Thought
from surefoot.errors import InputError

KEPT = 200
"""Sentences of the safety layer that are kept; all are counted."""
PATIENCE = 0.2
"""Longest wait for the next reading of a robot in lockstep [s]."""
LAST = ("damping", "stopped")
"""States of the safety layer from which a run does not come back."""


class Runtime:
    """One run of a policy on a robot; `tick` does one step of the inner loop.

        with Runtime(bundle, hardware, seconds=10.0) as runtime:
            while runtime.tick():
                ...wait for the next tick...

    Leaving the block damps the motors and closes the log, whatever happened in it.

    Args:
        bundle: the policy, or its folder.
        hardware: the robot; in lockstep, its own time is the runtime's.
        seconds: how long the policy runs [s].
        command: what is asked of it.
        record: file of the log (.mcap), or None.
        safety: settings of the safety layer; those of the contract when left out.
        shadow: score the policy against what another controller commands; nothing is written to the motors.
        plan: how long the stages last.
        clock: where time comes from.
        say: told when a stage begins and what the safety layer says.
    """

    def __init__(
        self,
        bundle: Bundle | str | Path,
        hardware: Hardware,
        *,
        seconds: float = math.inf,
        command: Asked | None = None,
        record: str | Path | None = None,
        safety: SafetySettings | None = None,
        shadow: bool = False,
        plan: Plan | None = None,
        clock: Clock | None = None,
        say: Callable[[str], None] = lambda _line: None,
    ):
        if not seconds > 0:
            raise InputError(f"a run needs a time above 0 s, got {seconds!r}")
        self.bundle = bundle if isinstance(bundle, Bundle) else load_bundle(bundle)
        self.hardware, self.seconds, self.shadow, self.say = hardware, seconds, shadow, say
        self.clock, self.plan = clock or WallClock(), plan or Plan()
        contract = self.bundle.contract
        builder = fit(contract, hardware, shadow=shadow)
        self.sources = builder.sources
        self.rate, self._every = inner_steps(contract, hardware)
        self.motions = Motions(contract, hardware.outputs, self.plan)
        self.thinker = Thinker(self.bundle, builder, hardware.outputs)
        self.thinker.ask(command or {})
        self.settings = safety if safety is not None else usual_settings(contract, self.rate, hardware.rate)
        self.safety = Safety(
            contract, self.settings, outputs=hardware.outputs, channels=hardware.channels, observe_only=shadow
        )
        self._places = {name: places(name, hardware) for name in ("joint_pos", contract.action.kind)}
        self.diary: Diary | None = None
        if record is not None:
            self.diary = Diary(record, contract, hardware, meta=self._about(), shadow=shadow)
        self._start()
        self._enter(CONNECT)
        self._enter(WAIT)

    def _start(self) -> None:
        """The state of a run before its first tick."""
        n = len(self.hardware.outputs)
        self.stage = ""
        self.stages: list[tuple[str, float]] = []
        self.ended, self.reason = "", ""
        self.state, self.event_count = "ok", 0
        self.events: list[str] = []
        self.ticks, self.policy_ticks, self.missed, self.overruns = 0, 0, 0, 0
        self.periods: list[float] = []
        self.tilt, self.worst_tilt = math.nan, math.nan
        self.reading: Reading | None = None
        self.good: Reading | None = None  # the newest one without NaN
        self.policy_seconds = 0.0
        self._good_in_row, self._trouble = 0, "no reading came"
        self._robot_time = RobotTime()
        self._began = self._now = self.clock.now() if self.hardware.paced else 0.0
        self._base: float | None = None  # the robot's time at tick 0, in lockstep
        self._patience = wall.monotonic() + self.plan.wait  # of a robot in lockstep
        self._since, self._phase, self._due = self._now, 0, 0
        self._ran: float | None = None  # when the policy last ran, while it drives
        self._grave = ""  # the last thing the safety layer said that was more than a warning
        self._frozen = 0.0  # how long the safety layer has held the robot still
        self._target = self.motions.pose if self.motions.positions else np.zeros(n)
        self._from, self._duration, self._gather = self._target, 0.0, 0.0
        self._squares, self._scored = np.zeros(n), 0
        self._ending: tuple[str, str] | None = None
        self._closed, self._told, self._shown = False, 0, False

    # ---------------------------------------------------------------- what a user calls

    @property
    def running(self) -> bool:
        """Whether the run goes on."""
        return not self.ended

    def ask(self, command: Asked) -> None:
        """Ask something else of the policy from its next step on; values must lie in the training range.

        Once the run's time is over nothing can be asked any more: the robot halts.
        """
        if self.stage not in (HALT, SIT_DOWN, STOP):
            self.thinker.ask(command)

    def stop(self, reason: str) -> None:
        """The operator's stop: the safety layer takes over for good, and the run ends when it has."""
        finishing = self._ending is not None and self._ending[0] == FINISHED
        if self.running and self.stage != STOP and (self._ending is None or finishing):
            self._ending = OPERATOR, reason
            self.safety.stop(reason)
            if self.shadow or self.stage == WAIT:
                self._finish()
            else:
                self._enter(STOP)

    def tick(self, missed: int = 0, *, overrun: bool = False) -> bool:
        """One step of the inner loop; False when the run is over.

        Args:
            missed: ticks that the caller had to leave out before this one.
            overrun: whether this one comes late; it is only counted.
        """
        if self.ended:
            return False
        reading = self.hardware.read(0.0 if self.hardware.paced else PATIENCE)
        begin = wall.perf_counter()
        self._time(reading)
        self._receive(reading)
        self.missed, self.overruns = self.missed + missed, self.overruns + overrun
        if self.stage == WAIT:
            self._wait(reading)
        else:
            self._act(reading, missed, begin)
        self.ticks += 1
        return self.running

    def close(self, error: BaseException | None = None) -> None:
        """Damp the motors, then close the log; calling it twice is harmless."""
        if self._closed:
            return
        self._closed = True
        try:
            if not self.shadow:
                self._stop_motors()
        finally:
            if isinstance(error, KeyboardInterrupt):
                self._ending = OPERATOR, "stopped at once"
            elif error is not None:
                self._ending = SAFETY, f"{type(error).__name__}: {error}"
            elif self._ending is None:
                self._ending = OPERATOR, "the loop was left"
            self._finish()
            if self.diary is not None:
                self._note(ended=self.ended, reason=self.reason)
                self.diary.close()

    def _stop_motors(self) -> None:
        """Damp them, also when somebody presses Ctrl-C once more while that is done."""
        try:
            self.hardware.stop()
        except KeyboardInterrupt:
            self.hardware.stop()
            raise

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.close(error)

    def outcome(self) -> Outcome:
        """How the run went so far."""
        rms, diary = np.sqrt(self._squares / max(self._scored, 1)), self.diary
        return Outcome(
            ended=self.ended or FINISHED, reason=self.reason, seconds=self.policy_seconds, stages=tuple(self.stages), rate=self.rate,
            ticks=self.ticks, policy_ticks=self.policy_ticks, overruns=self.overruns, missed=self.missed, elapsed=sum(self.periods),
            jitter=spread_of(self.periods, 1 / self.rate) if self.hardware.paced else {},
            state=self.state, events=tuple(self.events), event_count=self.event_count,
            worst_tilt=None if math.isnan(self.worst_tilt) else self.worst_tilt,
            log=None if diary is None else diary.path, log_failed="" if diary is None else diary.failed,
            lost={} if diary is None else dict(diary.lost),
            score=dict(zip(self.hardware.outputs, rms.tolist(), strict=True)) if self.shadow else {},
        )  # fmt: skip

    @property
    def line(self) -> str:
        """The state in one line."""
        recent = self.periods[-int(self.rate) :]
        rate = f"{len(recent) / sum(recent):.0f} Hz" if recent and self.hardware.paced else "lockstep"
        tilt = "" if math.isnan(self.tilt) else f"  tilt {math.degrees(self.tilt):.0f}°"
        return f"{self.stage:<9} {self._now - self._since:6.1f} s  {rate}  {self.overruns} overruns{tilt}  safety {self.state}"

    # ---------------------------------------------------------------- the parts of a tick

    def _time(self, reading: Reading | None) -> None:
        """Move the runtime's time on [s]: the machine's, or in lockstep the robot's, counted in ticks so that no jump gets in."""
        before = self._now
        if self.hardware.paced:
            self._now = self.clock.now()
        else:
            if self._base is None and reading is not None:
                self._base = self._began = self._since = reading.time - self.ticks / self.rate
            self._now = (self._base or 0.0) + self.ticks / self.rate
        if self.ticks:
            self.periods.append(self._now - before)

    def _receive(self, reading: Reading | None) -> None:
        if reading is None:
            return
        if self.hardware.paced:
            self._robot_time.see(self._now, reading.time)
        previous, self.reading = self.reading, reading
        if self.shadow and self.stage == POLICY and previous is not None:
            off = self._target - self._told_by_other(reading)
            if np.isfinite(off).all():
                self._squares += off * off
                self._scored += 1
        bad = next((s for s in self.sources if not np.isfinite(reading.values[s]).all()), "")
        if bad:
            self._good_in_row, self._trouble = 0, f"channel {bad!r} holds values that are not numbers"
        else:
            self.good, self._good_in_row = reading, self._good_in_row + 1
        self.tilt = tilt_of(reading.values)

    def _wait(self, reading: Reading | None) -> None:
        """Damp until enough good readings came in a row; the safety layer begins with the first stage that moves."""
        self._write(self.motions.limp())
        if self.diary is not None and reading is not None:
            self.diary.reading(reading.time, reading.values)
            self.diary.hand_over()
        late = self._now - self._since > self.plan.wait if self.hardware.paced else wall.monotonic() > self._patience
        if self._good_in_row >= self.plan.readings:
            self._enter(POLICY if self.shadow or not self.motions.positions else STAND_UP)
        elif late:
            raise InputError(
                f"{self.hardware.robot!r} gave no {self.plan.readings} good readings in a row within {self.plan.wait:g} s:"
                f" {self._trouble}; check that it is switched on and its driver"
            )

    def _act(self, reading: Reading | None, missed: int, begin: float) -> None:
        """All of a tick between the reading and the next stage."""
        now, since = self._now, self._now - self._since
        thought = self._think(missed) if self.stage in ACTING else None
        self._ran = now if thought is not None else self._ran if self.stage in ACTING else None
        wanted = self._wanted(since)
        # While targets are blended in they are not the action's, so the safety layer is not asked to compare them.
        own = thought is not None and not (self.stage == POLICY and self.motions.blending(since))
        # The safety layer damps until it has seen a reading, so the first one it is given is never None.
        shown = self.reading if reading is None and not self._shown else reading
        self._shown = True
        before = wall.perf_counter()
        ruling = self.safety.step(
            now, shown, wanted,
            action=thought.action if thought is not None and own else None,
            observation=None if thought is None else thought.observation,
            policy_time=self._ran,
        )  # fmt: skip
        after = wall.perf_counter()
        self._write(ruling.command)
        self._hear(ruling)
        if self.stage == POLICY:
            self.policy_seconds = since + 1 / self.rate
            if not math.isnan(self.tilt):
                self.worst_tilt = self.tilt if math.isnan(self.worst_tilt) else max(self.worst_tilt, self.tilt)
        self._record(reading, thought, wanted if self.shadow else ruling.command, (after - begin, after - before))
        self._frozen = self._frozen + 1 / self.rate if ruling.state == "freeze" else 0.0
        self._move_on(since + 1 / self.rate, ruling.state)

    def _think(self, missed: int) -> Thought | None:
        """The policy's step if one is due, else None; ticks that were left out count, steps are not caught up with."""
        if self.policy_ticks:
            self._phase += missed
        index = self._phase // self._every
        self._phase += 1
        if index < self._due or self.good is None:
            return None
        self._due = index + 1
        thought = self.thinker.step(self.good)
        self._target = thought.target
        self.policy_ticks += self.stage == POLICY
        return thought

    def _wanted(self, since: float) -> Command:
        motions = self.motions
        if self.stage == STAND_UP:
            return motions.stand_up(since, self._from, self._duration)
        if self.stage == HOLD:
            return motions.hold(motions.pose)
        if self.stage in ACTING:
            return motions.policy(math.inf if self.stage == HALT else since, self._target)
        if self.stage == SIT_DOWN:
            return motions.sit_down(since, self._from, (self._gather, self._duration))
        return motions.limp()

    def _write(self, command: Command) -> None:
        if not self.shadow:
            self.hardware.write(command)
        elif not self.hardware.paced and self.reading is not None:
            # Time in lockstep moves on only by writing: the other controller's own target is handed back.
            self.hardware.write(self.motions.hold(self._told_by_other(self.reading)))

    def _told_by_other(self, reading: Reading) -> np.ndarray:
        kind = self.bundle.contract.action.kind
        return np.asarray(reading.values[kind], np.float64)[self._places[kind]]

    def _hear(self, ruling: Ruling) -> None:
        self.state = ruling.state
        for event in ruling.events:
            self.event_count += 1
            grave = event.severity != "warn"
            if grave:
                self._grave = event.sentence
            if len(self.events) < (2 * KEPT if grave else KEPT):
                self.events.append(f"{event.time - self._began:.3f} s: {event.sentence}")
                self.say(f"{self.stage}: {event.sentence}")

    def _record(
        self, reading: Reading | None, thought: Thought | None, sent: Command, took: tuple[float, float]
    ) -> None:
        diary = self.diary
        if diary is None:
            return
        if reading is not None:
            diary.reading(reading.time, reading.values)
        if thought is not None:
            diary.thought(thought)
        t = self._robot_time.at(self._now) if self.hardware.paced else self._now
        age = 0.0 if self.reading is None else t - self.reading.time
        period = self.periods[-1] if self.periods else 1 / self.rate
        diary.tick(t, sent, (period, age, *took), self.state, self.event_count)
        diary.hand_over()

    # ---------------------------------------------------------------- from stage to stage

    def _move_on(self, since: float, state: str) -> None:
        """Begin the next stage when this one is over, `since` [s] after its beginning."""
        since += 1e-9  # a whole number of ticks is reached exactly
        if self.stage == STOP:
            if since >= self._duration:
                self._finish()
        elif getattr(self.hardware, "finished", False):
            self._ending = FINISHED, "the recording is over"
            self._finish()
        elif (
            state in LAST or self._frozen > self.plan.frozen or (state == "freeze" and self._over(since))
        ) and not self.shadow:
            self._ending = SAFETY, self._grave or f"the safety layer is in {state}"
            if state == "freeze":
                self.safety.stop(f"frozen for {self.plan.frozen:g} s")
            self._enter(STOP)
        elif self.stage == STAND_UP and since >= self._duration:
            self._enter(HOLD)
        elif self.stage == HOLD and since >= self.plan.hold:
            self._enter(POLICY)
        elif self.stage == POLICY and since >= self.seconds:
            self._ending = FINISHED, "the time is over"
            if self.shadow:
                self._finish()
            elif not self.motions.positions:
                self._enter(STOP)
            else:
                self._enter(HALT if self.bundle.contract.commands and self.plan.halt else SIT_DOWN)
        elif self.stage == HALT and since >= self.plan.halt:
            self._enter(SIT_DOWN)
        elif self.stage == SIT_DOWN and since >= self._duration:
            self._enter(STOP)

    def _over(self, since: float) -> bool:
        """Whether the last stage before the stop has had its time."""
        if self.stage == SIT_DOWN:
            return since >= self._duration
        return self.stage == POLICY and not self.motions.positions and since >= self.seconds

    def _enter(self, stage: str) -> None:
        """Begin a stage at the next tick."""
        self.stage, self._since = stage, self._now + (1 / self.rate if self.ticks else 0.0)
        self.stages.append((stage, self._since - self._began))
        motions = self.motions
        if stage == STAND_UP:
            self._from = self._pose()
            self._duration = motions.duration(self._from, motions.pose, self.plan.stand_up)
        elif stage == POLICY:
            self.thinker.reset()
            self._phase = self._due = 0
        elif stage == HALT:
            self.thinker.ask({})
        elif stage == SIT_DOWN:
            self._from = self._target
            self._duration, self._gather = self.plan.sit_down, 0.0
            if motions.crouch is not None:
                self._gather = motions.duration(self._from, motions.pose, self.plan.gather)
                self._duration = self._gather + motions.duration(motions.pose, motions.crouch, self.plan.sit_down)
        elif stage == STOP:
            crouching = self.state != "ok" or (self._ending is not None and self._ending[0] == OPERATOR)
            self._duration = self.plan.settle
            if crouching and self.settings.crouch is not None:
                self._duration += self.settings.crouch_time
        self.say(f"{stage}")
        if self.diary is not None:
            self._note()

    def _finish(self) -> None:
        if not self.ended:
            self.ended, self.reason = self._ending or (FINISHED, "the time is over")

    def _pose(self) -> np.ndarray:
        """Where the motors are [rad], (outputs,)."""
        assert self.good is not None
        return np.asarray(self.good.values["joint_pos"], np.float64)[self._places["joint_pos"]]

    # ---------------------------------------------------------------- what the log says

    def note_events(self) -> None:
        """Put the sentences of the safety layer that are new into the log."""
        if self.diary is not None and len(self.events) > self._told:
            self._note()

    def _note(self, **more: Any) -> None:
        assert self.diary is not None
        self._told = len(self.events)
        if self.shadow:
            more["score"] = self.outcome().score
        self.diary.note(stages=[list(stage) for stage in self.stages], events=list(self.events), **more)

    def _about(self) -> dict[str, Any]:
        hardware = self.hardware
        text = (
            str(hardware)
            if type(hardware).__str__ is not object.__str__
            else f"{type(hardware).__name__} of {hardware.robot}"
        )
        return {
            "bundle": self.bundle.hash,
            "contract": self.bundle.contract.to_dict(),
            "hardware": f"{text}, {hardware.rate:g} Hz",
            "events": [],
            "stages": [],
            "settings": json.loads(json.dumps(self.settings.to_dict())),
            "shadow": self.shadow,
        }
