"""What a loop is asked for: robot, task, hardware, and how much of everything."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from surefoot.errors import InputError, choose

Source = Literal["nominal", "randomized", "posterior", "truth"]


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One policy of the ladder.

    Attributes:
        name: of its folder.
        title: in tables.
        e: what its training draws e from: the "nominal" values, the robot file's prior ("randomized"), the "posterior" of the
            fit with the rest of the prior (`hedged`), or the reality's "truth".
        start: rung whose learner it begins with; "": from nothing.
        judged: whether it is a rung of the ladder, or only where others begin.
        tried: runs on the robot by which a retrained policy is kept or not.
    """

    name: str
    title: str
    e: Source
    start: str = ""
    judged: bool = True
    tried: int = 1


RUNGS = (
    Rung(name="simulation", title="simulation only", e="nominal"),
    Rung(name="first", title="first steps", e="randomized", judged=False),
    Rung(name="randomized", title="randomized", e="randomized", start="first"),
    Rung(name="identified", title="identified + retrained", e="posterior", start="first", tried=2),
    Rung(name="oracle", title="oracle, trained in the true world", e="truth", start="first"),
)
"""From the bottom. All learn for the same time after their first steps, so that a rung is better by what it knows, not by practice.
Later sorts of policies (adaptive, residual, ...) are further rungs."""
FIRST = "randomized"
"""The rung that is first brought to the robot."""
UPRIGHT = 0.95
"""Cosine of the tilt from which a pendulum stands upright."""
SPEED, TURN = 0.2, 0.25
"""Largest error of a walk's mean velocity that is a success [m/s], [rad/s]."""


@dataclass(frozen=True, kw_only=True)
class Kit:
    """What is particular to a robot and its task in the loop.

    Attributes:
        task: its name.
        steps: most transitions of a training from nothing.
        more: transitions of a training that starts from another.
        every: transitions between two judgements of a training from nothing; `enough` successes with an error of at most `close` end its
            first steps.
        often: the same from there on, where every judged policy may be the one that goes to the robot.
        seconds: how long a policy acts on the robot [s].
        asked: commands it is given one after the other, each for the same time; also what it is judged by.
        explore: seconds of designed motion; 0: the policy's own run is all there is.
        budget: robot seconds that may be used, the retrained policy's own run with them; judging is not counted.
        timestep: of the simulator that designs and fits [s].
        window, stride: length of the fit's windows and distance of their starts [s]; `most` linearisations are made.
        trials: runs on the stand-in by which a rung is judged, for each command; `judged` is how long each is [s].
        channels: that the fit compares; None: its own choice.
        only: Params to fit; None: all that can be learned by moving.
    """

    task: str
    steps: int
    more: int
    every: int
    often: int
    enough: float
    close: float = math.inf
    seconds: float
    asked: tuple[Mapping[str, float], ...] = ({},)
    explore: float
    budget: float
    timestep: float
    window: float
    stride: float | None = None
    most: int = 25
    trials: int
    judged: float = 6.0
    channels: tuple[str, ...] | None = None
    only: tuple[str, ...] | None = None
    effort: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        for name in (
            "steps",
            "more",
            "every",
            "often",
            "trials",
            "most",
            "seconds",
            "budget",
            "timestep",
            "window",
            "judged",
        ):
            if not (math.isfinite(value := getattr(self, name)) and value > 0):
                raise InputError(f"{name} of a loop must be a number above 0, got {value!r}")
        if not (math.isfinite(self.explore) and self.explore >= 0):
            raise InputError(f"explore must be a number of seconds, 0 for no designed motion, got {self.explore!r}")


WALKS = ({"vx": 0.6}, {"vx": 0.3, "vy": 0.3}, {"vx": 0.4, "yaw_rate": 0.7})
KITS = {
    "qube": Kit(
        task="swing_up", steps=1_000_000, more=300_000, every=100_000, often=30_000, enough=0.95, seconds=6.0, explore=8.0, budget=30.0,
        timestep=0.002, window=0.3, trials=4,
        effort={"families": ("multi-sine",), "population": 6, "rounds": 2, "elite": 2, "samples": 2, "climbs": 2},
    ),
    "go2": Kit(
        task="velocity", steps=4_000_000, more=400_000, every=250_000, often=100_000, enough=0.85, close=0.25, seconds=9.0, asked=WALKS,
        explore=6.0, budget=120.0, timestep=0.005, window=0.3, stride=0.5, most=15, trials=2,
        effort={"families": ("multi-sine",), "population": 4, "rounds": 2, "elite": 1, "samples": 1, "climbs": 0},
    ),
}  # fmt: skip
"""By robot."""
QUICK: dict[str, dict[str, Any]] = {
    "qube": {
        "steps": 450_000,
        "more": 60_000,
        "enough": 0.85,
        "effort": {"families": ("multi-sine",), "population": 4, "rounds": 1, "elite": 2, "samples": 1, "climbs": 0},
    },
    "go2": {"steps": 2_000_000, "more": 200_000, "trials": 1},
}
"""What differs in a short loop."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One loop.

    Attributes:
        robot: name in the library, one of KITS.
        hardware: "twin:FILE.toml" or "twin:ROBOT/NAME": a stand-in robot, run in lockstep.
        kit: how much of everything.
        seed: of trainings, design and fit.
        rungs: the ladder.
        threads: of the updates.
    """

    robot: str
    hardware: str
    kit: Kit
    seed: int = 0
    rungs: tuple[Rung, ...] = RUNGS
    threads: int = 2

    def __post_init__(self):
        kind, _, name = self.hardware.partition(":")
        if kind != "twin" or not name:
            raise InputError(
                f"a loop is judged on a stand-in robot, so its hardware is twin:FILE.toml or twin:ROBOT/NAME, got {self.hardware!r}"
            )
        from surefoot.hardware.reality import robot_of

        meant = robot_of(self.reality)
        if meant != self.robot:
            raise InputError(
                f"{self.hardware} stands in for {meant!r}, and the loop is of {self.robot!r}: give a stand-in of that robot"
            )
        names = [rung.name for rung in self.rungs]
        for rung in self.rungs:
            if rung.start and rung.start not in names[: names.index(rung.name)]:
                raise InputError(f"rung {rung.name!r} starts from {rung.start!r}, which does not come before it")
        runs = 1 + sum(rung.tried for rung in self.rungs if rung.e == "posterior")
        left = self.kit.budget - runs * self.kit.seconds
        if self.kit.explore > left:
            raise InputError(
                f"{runs} runs of a policy ({self.kit.seconds:g} s each) and the designed motion ({self.kit.explore:g} s) exceed the "
                f"{self.kit.budget:g} robot seconds that this loop may use: explore for at most {max(left, 0.0):g} s"
            )
        if FIRST not in names:
            raise InputError(f"a ladder needs the rung {FIRST!r}: it is the first one on the robot")

    @property
    def reality(self) -> Path:
        """The stand-in's file; a loop reads which robot it is of, and nothing else."""
        from surefoot.hardware.connect import reality_path

        return reality_path(self.hardware.partition(":")[2])

    def rung(self, name: str) -> Rung:
        """One rung by name."""
        known = {rung.name: rung for rung in self.rungs}
        return known[choose(name, known, "a rung of this ladder")]


def loop_of(robot: str, hardware: str, *, task: str = "", quick: bool = False, seed: int = 0, **changes: Any) -> Loop:
    """The loop of a robot with its usual settings.

    Args:
        robot: one of KITS.
        hardware: the stand-in robot.
        task: must be the robot's own; "" takes it.
        quick: less of everything.
        seed: of everything random.
        changes: fields of the Kit to set otherwise.
    """
    kit = KITS[choose(robot, KITS, "a robot with a loop")]
    choose(task or kit.task, (kit.task,), f"a task of {robot} with a loop")
    kit = replace(kit, **((QUICK[robot] if quick else {}) | changes))
    return Loop(robot=robot, hardware=hardware, kit=kit, seed=seed)
