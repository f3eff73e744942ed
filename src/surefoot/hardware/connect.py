"""`connect("twin:go2/01-nominal")`: from a few words to the robot at the other end of the wire."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

from surefoot.errors import InputError, choose, did_you_mean

if TYPE_CHECKING:
    from surefoot.contract import Hardware

SHIPPED = Path(__file__).parent / "realities"
KINDS = {
    "twin": "twin:FILE.toml or twin:ROBOT/NAME, a stand-in robot in its own process",
    "replay": "replay:LOG.mcap, a recorded log that plays its readings and ignores commands",
    "unitree": "unitree:INTERFACE, a Unitree robot on that network interface",
}


def connect(spec: str, *, lockstep: bool = False, seed: int = 0, referee: str | Path | None = None) -> "Hardware":
    """The robot that `spec` names.

    Args:
        spec: "twin:FILE.toml", "twin:go2/01-nominal", "replay:LOG.mcap" or "unitree:INTERFACE".
        lockstep: the robot's time stands still until a command is written; not for a real robot.
        seed: of a stand-in robot's noise and disturbances.
        referee: file (npz) into which a stand-in robot writes the truth at its end, for judges alone.
    """
    kind, colon, rest = spec.partition(":")
    if not colon or not rest:
        raise InputError(f"{spec!r} names no hardware: give {'; '.join(KINDS.values())}")
    choose(kind, KINDS, "a kind of hardware")
    if kind != "twin" and referee is not None:
        raise InputError(f"only a stand-in robot can write the truth: leave out the referee for {spec!r}")
    if kind == "twin":
        from surefoot.hardware.twin_client import TwinClient

        return TwinClient(reality_path(rest), lockstep=lockstep, seed=seed, referee=referee)
    if kind == "replay":
        from surefoot.hardware.replay import Replay

        return Replay(rest, lockstep=lockstep)
    if lockstep:
        raise InputError("a real robot does not wait: lockstep is for twins and replays")
    from surefoot.hardware.unitree import connect_unitree

    interface, _, robot = rest.partition("/")
    return cast("Hardware", connect_unitree(interface, robot or "go2"))


def shipped(robot: str = "", *, engine: str = "mujoco") -> tuple[str, ...]:
    """Names of the realities that come with surefoot, "ROBOT/NAME", of one robot or of all.

    Args:
        robot: only those of this robot.
        engine: "mujoco", "physx" (names begin with "physx-"; they need the extra of that name) or "all".
    """
    choose(engine, ("mujoco", "physx", "all"), "an engine of stand-in robots")
    names = sorted(f"{path.parent.name}/{path.stem}" for path in SHIPPED.glob("*/*.toml"))
    if engine != "all":
        names = [name for name in names if ("/physx-" in name) == (engine == "physx")]
    if robot and not any(name.startswith(f"{robot}/") for name in names):
        robots = dict.fromkeys(name.split("/")[0] for name in names)
        raise InputError(f"no stand-in of {robot!r} comes with surefoot {did_you_mean(robot, robots)}")
    return tuple(name for name in names if not robot or name.startswith(f"{robot}/"))


def reality_path(name: str | Path) -> Path:
    """The file of a reality, by its path or by its shipped name; it is not opened."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InputError(
                f"there is no reality file {path}: give a file, or one of the names `surefoot reality list` prints"
            )
        return path.absolute()
    choose(str(name), shipped(engine="all"), "a reality that comes with surefoot, nor a .toml file")
    return SHIPPED / f"{name}.toml"
