"""Reading logs: one file, or everything in a folder, with the mapping found by the file's name."""

import glob
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from surefoot.errors import InputError, did_you_mean
from surefoot.logs.log import Log
from surefoot.logs.mapped import files_of, mapped_logs
from surefoot.logs.mapping import FileMapping, bundled, find_mapping, matched, without_gz
from surefoot.logs.source import OPENERS

BAGS = (".bag", ".db3")
SUFFIXES = {*OPENERS, *BAGS, ".parquet"}


class Machine(Protocol):
    """What `read_log` needs to know of a robot."""

    @property
    def name(self) -> str:
        """The robot's name."""
        ...

    @property
    def joints(self) -> Iterable[str]:
        """Its joints in order."""
        ...


def read_log(
    path: str | Path,
    mapping: str | Path | None = None,
    robot: "str | Machine | None" = None,
    *,
    joints: Iterable[str] | None = None,
    rename: Mapping[str, str] | None = None,
    part: int | None = None,
) -> Log:
    """Read one log.

    Args:
        path: a recording (.mcap), a log saved as .npz or .csv, a foreign file that a mapping describes, a rosbag, or a
            LeRobot data set.
        mapping: name of a bundled mapping or path of a .toml file; None finds it by the file's name.
        robot: the robot's name, or the robot, whose joints are then checked.
        joints: joint names that the joint channels may have; their columns are put into this order.
        rename: other names for columns, {name in the log: name wanted}.
        part: which log of a file that holds many.
    """
    logs = list(_read(Path(path), mapping, part))
    if part is not None:
        logs = [log for log in logs if log.meta.get("part") == part]
        if not logs:
            raise InputError(f"{path} has no part {part}")
    if len(logs) > 1:
        parts = [str(log.meta.get("part")) for log in logs]
        raise InputError(
            f"{path} holds {len(logs)} logs: use read_logs, or say which part ({', '.join(parts[:6])}, ...)"
        )
    return _fitted(logs[0], robot, joints, rename)


def read_logs(
    where: str | Path,
    robot: "str | Machine | None" = None,
    *,
    mapping: str | Path | None = None,
    joints: Iterable[str] | None = None,
    rename: Mapping[str, str] | None = None,
) -> list[Log]:
    """Read all logs of a folder (with its folders), of a glob pattern or of one file, in the order of their paths.

    In a folder, files that a given `mapping` does not describe are passed over; without one, a file that looks like a
    log and that no bundled mapping describes raises InputError, so that nothing is left out unnoticed.
    """
    path = Path(where)
    joints = tuple(joints) if joints is not None else None
    if path.is_dir() and not _whole_folder(path):
        logs = _folder(path, mapping)
    elif path.exists() or not glob.has_magic(str(where)):
        logs = _read(path, mapping, None)
    else:
        found = [Path(name) for name in sorted(glob.glob(str(where), recursive=True))]
        if not found:
            raise InputError(f"no file matches {str(where)!r}")
        logs = _each([file for file in found if file.is_file() or _whole_folder(file)], mapping)
    return [_fitted(log, robot, joints, rename) for log in logs]


def _each(files: list[Path], mapping: str | Path | None) -> Iterator[Log]:
    """Logs of several files, each log once although it may have several files."""
    chosen = None if mapping is None else find_mapping(mapping)
    known = bundled() if chosen is None else {}
    done: set[Path] = set()
    for file in files:
        if file in done:
            continue
        rule = chosen or _describing(file, known)
        if rule is not None:
            done |= set(files_of(file, rule).values())
        yield from _read(file, rule, None)


def _folder(folder: Path, mapping: str | Path | None) -> Iterator[Log]:
    """Logs of all files below a folder."""
    inside = sorted(path for path in folder.rglob("*") if path.is_file() or _whole_folder(path))
    inside = [path for path in inside if not any(_whole_folder(parent) for parent in path.parents if parent != folder)]
    if mapping is not None:
        rule = find_mapping(mapping)
        inside = [path for path in inside if any(matched(p, path) is not None for p in rule.files.values())]
        if not inside:
            raise InputError(f"no file in {folder} is of mapping {rule.name!r} ({', '.join(rule.files.values())})")
        yield from _each(inside, mapping)
        return
    known = bundled()
    ignored = [pattern for rule in known.values() for pattern in rule.ignore]
    wanted = [
        path
        for path in inside
        if (path.is_dir() or _suffix(path) in SUFFIXES) and all(matched(pattern, path) is None for pattern in ignored)
    ]
    # A plain text file is a log only when a mapping says so: it may as well be a note.
    wanted = [path for path in wanted if _suffix(path) != ".txt" or _describing(path, known) is not None]
    if not wanted:
        raise InputError(f"{folder} holds no logs ({', '.join(sorted(SUFFIXES))})")
    yield from _each(wanted, None)


def _read(path: Path, mapping: "str | Path | FileMapping | None", part: int | None) -> Iterator[Log]:
    """Logs of one file or bag or data set."""
    if not path.exists():
        near = did_you_mean(path.name, [other.name for other in path.parent.glob("*")]) if path.parent.is_dir() else ""
        raise InputError(f"{path} does not exist {near}".rstrip())
    if path.is_dir() or _suffix(path) in (*BAGS, ".parquet"):
        yield from _extra(path, mapping)
        return
    if mapping is None:
        log = _ours(path)
        if log is not None:
            yield log
            return
        mapping = _describing(path, bundled())
    if mapping is None:
        if _suffix(path) not in SUFFIXES:
            raise InputError(f"{path} is not a log {did_you_mean(_suffix(path), sorted(SUFFIXES), most=20)}")
        raise InputError(
            f"{path} is not a log of surefoot and no bundled mapping describes it: give a mapping "
            f"(--mapping NAME or FILE.toml; bundled: {', '.join(bundled())})"
        )
    rule = mapping if isinstance(mapping, FileMapping) else find_mapping(mapping)
    yield from mapped_logs(path, rule)


def _ours(path: Path) -> Log | None:
    """The log of a file that surefoot wrote; None when another program wrote it."""
    suffix = _suffix(path)
    if suffix == ".mcap":
        from surefoot.logs.foreign_mcap import read_any_mcap

        return read_any_mcap(path)
    if suffix == ".npz":
        from surefoot.logs.arrays import npz_arrays
        from surefoot.logs.tables import is_our_npz, npz_log

        arrays = npz_arrays(path)
        return npz_log(path, arrays) if is_our_npz(arrays) else None
    if suffix == ".csv":
        from surefoot.logs.rawbytes import file_text
        from surefoot.logs.tables import csv_log, is_our_csv

        text = file_text(path)
        return csv_log(path, text) if is_our_csv(text) else None
    return None


def _extra(path: Path, mapping: "str | Path | FileMapping | None") -> Iterator[Log]:
    """Rosbags and LeRobot data sets, which need an extra."""
    rule = mapping if mapping is None or isinstance(mapping, FileMapping) else find_mapping(mapping)
    if _suffix(path) == ".parquet" or (path / "meta" / "info.json").is_file():
        from surefoot.logs.lerobot import lerobot_logs

        yield from lerobot_logs(path, rule)
    elif _suffix(path) in BAGS or (path / "metadata.yaml").is_file():
        from surefoot.logs.rosbag import rosbag_logs

        yield from rosbag_logs(path, rule)
    else:
        raise InputError(
            f"{path} is a folder of files, and one recording is wanted: name a file in it, or read all of them with read_logs"
        )


def _whole_folder(path: Path) -> bool:
    """True when a folder is one recording: a ROS 2 bag or a LeRobot data set."""
    return path.is_dir() and ((path / "metadata.yaml").is_file() or (path / "meta" / "info.json").is_file())


def _suffix(path: Path) -> str:
    return Path(without_gz(path.name)).suffix.lower()


def _describing(path: Path, known: Mapping[str, FileMapping]) -> FileMapping | None:
    """The bundled mapping whose patterns match the end of `path`; raises InputError when several do."""
    path = path.absolute()
    found = [rule for rule in known.values() if any(matched(p, path) is not None for p in rule.files.values())]
    if len(found) > 1:
        names = " or ".join(f"--mapping {rule.name}" for rule in found)
        raise InputError(f"{path} could be of several mappings: give {names}")
    return found[0] if found else None


def _fitted(
    log: Log, robot: "str | Machine | None", joints: Iterable[str] | None, rename: Mapping[str, str] | None
) -> Log:
    """The log under the robot's name, with columns renamed and its joints checked and ordered."""
    if rename:
        log = _renamed(log, rename)
    name = robot if robot is None or isinstance(robot, str) else robot.name
    if joints is None and robot is not None and not isinstance(robot, str):
        joints = robot.joints
    if joints is not None:
        log = _ordered(log, tuple(joints), name or log.robot)
    return replace(log, robot=name) if name else log


def _renamed(log: Log, rename: Mapping[str, str]) -> Log:
    known = {column for channel in log.channels for column in channel.columns}
    for old in rename:
        if old not in known:
            raise InputError(f"cannot rename {old!r}: no channel has it {did_you_mean(old, sorted(known))}")
    channels = [
        replace(channel, columns=tuple(rename.get(column, column) for column in channel.columns))
        for channel in log.channels
    ]
    meta: dict[str, Any] = dict(log.meta)
    meta["history"] = [*meta.get("history", []), {"do": "rename", "columns": dict(rename)}]
    return replace(log, channels=tuple(channels), meta=meta)


def _ordered(log: Log, joints: tuple[str, ...], robot: str | None) -> Log:
    """Columns of joint channels in the order of `joints`; raises InputError on a joint that is not one of them."""
    channels = []
    for channel in log.channels:
        if channel.name.startswith("joint_"):
            for column in channel.columns:
                if column not in joints:
                    raise InputError(
                        f"channel {channel.name!r} has joint {column!r}, which robot {robot or 'given'!r} lacks "
                        f"{did_you_mean(column, joints, most=40)}"
                    )
            wanted = [joint for joint in joints if joint in channel.columns]
            channel = channel if list(channel.columns) == wanted else channel.pick(wanted)
        channels.append(channel)
    return replace(log, channels=tuple(channels))
