"""A policy on a robot: `deploy` runs a bundle on a hardware at a fixed rate, with numpy and onnxruntime alone.

The loop itself, tick by tick, is `Runtime` (surefoot.deploy.inner_loop), for those who have a loop of their own.
"""

import time as wall
from collections.abc import Callable
from pathlib import Path

from surefoot.contract import Hardware
from surefoot.deploy.bundle import Bundle
from surefoot.deploy.inner_loop import Runtime as Runtime
from surefoot.deploy.loop_clock import Clock, Metronome, undisturbed
from surefoot.deploy.operator import Operator, Voice
from surefoot.deploy.outcome import Outcome as Outcome
from surefoot.deploy.settings import SafetySettings
from surefoot.deploy.stages import Plan as Plan
from surefoot.deploy.thinking import Asked

LIVE = 0.5
"""Time between two lines about the state [s]."""


def deploy(
    bundle: Bundle | str | Path,
    hardware: Hardware,
    *,
    seconds: float,
    command: Asked | None = None,
    record: str | Path | None = None,
    safety: SafetySettings | None = None,
    shadow: bool = False,
    say: Callable[[str], None] | None = print,
    plan: Plan | None = None,
    stop_file: str | Path | None = None,
    priority: bool = False,
    clock: Clock | None = None,
) -> Outcome:
    """Run a policy on a robot: stand up, let the policy act, sit down, stop.

    Ctrl-C, SIGTERM, 'q' and Enter at a terminal, or `stop_file` appearing end it safely; a second signal ends it at once. An error
    anywhere damps the motors and closes the log before it is raised. The robot is not let go of: `hardware.close()` is the caller's.

    Args:
        bundle: the policy, or its folder.
        hardware: the robot, in real time or in lockstep.
        seconds: how long the policy acts [s].
        command: what is asked of it: values by name, or a function of the policy's time [s] that gives them.
        record: a new .mcap file, or None.
        safety: settings of the safety layer; those of the contract when left out.
        shadow: score the policy against what another controller commands; nothing is written to the motors.
        say: prints a line: stages, the state twice a second, what the safety layer says; None for silence.
        plan: how long the stages last, and the crouch.
        stop_file: a file that stops the run when it appears.
        priority: ask the system for a real-time priority.
        clock: where time comes from.

    Returns:
        How it went.
    """
    voice = Voice(say or (lambda _line: None), aside=hardware.paced)
    with Operator(stop_file=stop_file) as operator:
        try:
            runtime = Runtime(
                bundle, hardware, seconds=seconds, command=command, record=record, safety=safety, shadow=shadow, plan=plan,
                clock=clock, say=voice,
            )  # fmt: skip
            with runtime, undisturbed(priority and hardware.paced) as had:
                if priority:
                    voice(had)
                _loop(runtime, operator, voice)
        finally:
            voice.close()
    return runtime.outcome()


def _loop(runtime: Runtime, operator: Operator, voice: Voice) -> None:
    """Tick until the run is over; in real time at the runtime's rate, in lockstep as fast as the robot answers."""
    period, spoken = 1 / runtime.rate, wall.monotonic()
    metronome = Metronome(period, runtime.clock) if runtime.hardware.paced else None
    if metronome is not None:
        # The first tick comes a little after a reading, so that readings are fresh when they are used.
        runtime.hardware.read(0.0)
        runtime.hardware.read(min(1.0, runtime.plan.wait))
        metronome.start(runtime.clock.now() + 0.2 * period)
    while True:
        if metronome is None:
            going = runtime.tick()
        else:
            beat = metronome.wait()
            going = runtime.tick(beat.missed, overrun=beat.overrun)
        if not going:
            return
        if operator.asked:
            runtime.stop(f"stopped by {operator.asked}")
        if wall.monotonic() - spoken >= LIVE:
            spoken = wall.monotonic()
            voice(runtime.line)
            runtime.note_events()
