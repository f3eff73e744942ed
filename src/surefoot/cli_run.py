"""`surefoot deploy`: a policy on a robot."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from surefoot.cli_words import File, Seconds, answer, tell
from surefoot.errors import InputError

BundleFolder = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[BUNDLE]")]
HardwareName = Annotated[str, tyro.conf.arg(metavar="KIND:NAME")]
Asked = Annotated[str, tyro.conf.arg(metavar="NAME=VALUE,...")]


def deploy(
    bundle: BundleFolder = None,
    /,
    *,
    hardware: HardwareName,
    seconds: Seconds = None,
    trajectory: File = None,
    record: File = None,
    command: Asked = "",
    safety: File = None,
    shadow: bool = False,
    lockstep: bool = False,
    seed: int = 0,
    stop_file: File = None,
    priority: bool = False,
    json: bool = False,
) -> int:
    """Run a policy on a robot: stand up, act, sit down, stop; Ctrl-C, or 'q' and Enter, stops it safely, a second Ctrl-C at once.

    Exits 0 when the time was over, 1 when the safety layer ended it, 130 when the operator did.

    Args:
        bundle: folder of the bundle; not needed for a trajectory that moves the motors itself.
        hardware: the robot: twin:go2/01-nominal, twin:FILE.toml, replay:LOG.mcap or unitree:INTERFACE.
        seconds: how long the policy acts [s]; a trajectory says it itself.
        trajectory: a motion written by `surefoot excite` to play instead of a policy, or for the policy to follow.
        record: new .mcap file for everything that was read, thought and sent.
        command: what is asked of the policy, such as vx=0.5,yaw_rate=0.2; what is left out is 0.
        safety: settings of the safety layer (.toml); those of the contract when left out.
        shadow: another controller drives: score the policy against it and write nothing to the motors.
        lockstep: a stand-in robot's time stands still until it is told something; as fast as it can.
        seed: of a stand-in robot's noise.
        stop_file: a file that stops the run when it appears.
        priority: ask the system for a real-time priority.
        json: print the outcome as JSON.
    """
    from surefoot.deploy.bundle import load_bundle
    from surefoot.deploy.runtime import deploy as run
    from surefoot.deploy.settings import SafetySettings
    from surefoot.deploy.trajectory import load_trajectory, play
    from surefoot.hardware.connect import connect

    motion = None
    if trajectory is not None:
        if command or shadow or seconds is not None:
            raise InputError(
                "a trajectory says itself what to do and for how long: leave out --command, --shadow and --seconds"
            )
        motion = load_trajectory(trajectory)
    elif bundle is None or seconds is None:
        raise InputError("deploy needs a bundle and --seconds, or a motion to play: --trajectory FILE")
    made, asked = None if bundle is None else load_bundle(bundle), asked_of(command)
    settings = None if safety is None else SafetySettings.load(safety)
    if seed < 0:
        raise InputError(f"--seed must be a whole number from 0, got {seed}")
    robot = connect(hardware, lockstep=lockstep, seed=seed)
    shared: dict[str, Any] = {
        "record": record, "safety": settings, "say": tell, "stop_file": stop_file, "priority": priority,
    }  # fmt: skip
    try:
        if motion is not None:
            outcome = play(motion, robot, bundle=made, **shared)
        else:
            assert made is not None
            assert seconds is not None
            outcome = run(made, robot, seconds=seconds, command=asked, shadow=shadow, **shared)
    finally:
        robot.close()
    answer(outcome.to_dict(), lambda: str(outcome), json)
    return outcome.exit_code


def asked_of(text: str) -> dict[str, float]:
    """Commands from words: "vx=0.5,yaw_rate=0.2"."""
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise InputError(f"{part!r} is no command: write NAME=VALUE, such as vx=0.5,yaw_rate=0.2")
    return found
