"""`surefoot reality ...`: stand-in robots, by name and by drawing."""

from pathlib import Path
from typing import Annotated

import tyro

from surefoot.cli_words import AnyRobot, File, RobotName, answer, say, table, tell

Level = Annotated[float, tyro.conf.arg(metavar="0..1")]


def reality_list(robot: AnyRobot = None, /, *, json: bool = False) -> int:
    """List the stand-in robots that come with surefoot: name, level and a line about each, never the truth.

    Args:
        robot: only those of this robot.
        json: print JSON.
    """
    from surefoot.hardware.connect import reality_path, shipped
    from surefoot.hardware.reality import load_reality

    found = [(name, load_reality(reality_path(name))) for name in shipped(robot or "", engine="all")]
    rows = [{"name": name, "level": reality.level, "about": reality.about} for name, reality in found]
    answer(
        rows,
        lambda: table([("name", "level", "about"), *((r["name"], f"{r['level']:g}", r["about"]) for r in rows)]),
        json,
    )
    return 0


def reality_draw(robot: RobotName, /, *, seed: int = 0, level: Level = 0.5, out: File = None) -> int:
    """Draw a stand-in robot from a seed, from nominal (level 0) to nasty (level 1).

    Args:
        robot: one that has stand-ins: go2, crazyflie, qube, servo.
        seed: the same file for the same seed and level.
        level: how far from nominal.
        out: .toml file to write; printed when left out.
    """
    from surefoot.errors import InputError
    from surefoot.files import write_text
    from surefoot.hardware.generator import draw

    text = draw(robot, seed, level)
    if out is None:
        say(text.rstrip("\n"))
        return 0
    if Path(out).suffix != ".toml":
        raise InputError(f"a reality is a .toml file, got {str(out)!r}")
    write_text(out, text)
    tell(f"{out}: {robot}, level {level:g}; try it with --hardware twin:{out}")
    return 0
