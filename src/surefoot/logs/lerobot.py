"""LeRobot data sets, v2.1 and v3 (extra `lerobot`): one log per episode from their Parquet files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.logs.channel import Channel
from surefoot.logs.log import Log
from surefoot.logs.mapped import logs_from, origin
from surefoot.logs.mapping import FileMapping
from surefoot.logs.rawbytes import one_line
from surefoot.logs.source import Source, parsed_json

BOOKKEEPING = ("timestamp", "frame_index", "episode_index", "index", "task_index", "next.done")


def lerobot_logs(path: Path, mapping: FileMapping | None) -> Iterator[Log]:
    """The episodes of a LeRobot data set (its folder) or of one of its Parquet files.

    Features keep their names ("observation.state", "action"). LeRobot does not say their unit: without a mapping they
    are in "count" and `meta["unit_unknown"]` names them. "action" is the command (u). `meta["part"]` is the episode.
    """
    root = path if path.is_dir() else _root(path)
    info = _info(root)
    files = sorted((path / "data").rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path} holds no Parquet files under data/")
    for file in files:
        columns = _columns(file)
        for episode, rows in _episodes(file, columns):
            source = Source(path=file, columns={name: values[rows] for name, values in columns.items()})
            if mapping is not None:
                for log in logs_from(mapping, {mapping.anchor: source}, {mapping.anchor: file}):
                    yield Log(channels=log.channels, robot=log.robot, meta=dict(log.meta) | {"part": episode})
            else:
                yield _episode(file, source, info, episode)


def _root(path: Path) -> Path | None:
    """Folder of the data set that a Parquet file belongs to, or None."""
    return next((parent for parent in path.absolute().parents if (parent / "meta" / "info.json").is_file()), None)


def _info(root: Path | None) -> dict[str, Any]:
    """The data set's own description; empty when there is none."""
    info = parsed_json(root / "meta" / "info.json") if root is not None else {}
    if not isinstance(info, dict) or not isinstance(info.get("features", {}), dict):
        raise InputError(f"{root} has a meta/info.json without a table of features")
    version = str(info.get("codebase_version", "v2.1"))
    if not version.startswith(("v2", "v3")):
        raise InputError(f"{root} is a LeRobot data set {version}, surefoot reads v2 and v3")
    return info


def _columns(file: Path) -> dict[str, np.ndarray]:
    """Numeric columns of a Parquet file, (T,) or (T, k); others are left out."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"{file} is a Parquet file, which needs the extra: pip install 'surefoot[lerobot]'") from None
    columns: dict[str, np.ndarray] = {}
    try:
        table = pq.read_table(file, page_checksum_verification=True, use_threads=False)
        table.validate(full=True)
        for name in table.column_names:
            column = table.column(name)
            width = 0
            if column.null_count:
                raise InputError(f"{file}: column {name!r} has {column.null_count} empty cells")
            array = column.combine_chunks()
            if (
                pa.types.is_list(array.type)
                or pa.types.is_fixed_size_list(array.type)
                or pa.types.is_large_list(array.type)
            ):
                lengths = set(array.value_lengths().to_pylist())
                array, width = array.flatten(), lengths.pop() if len(lengths) == 1 else -1
            numeric = (
                pa.types.is_floating(array.type) or pa.types.is_integer(array.type) or pa.types.is_boolean(array.type)
            )
            if numeric and width >= 0 and not array.null_count:
                with np.errstate(invalid="ignore"):  # NaN of another width; the channel's own check finds them.
                    values = array.to_numpy(zero_copy_only=False).astype(np.float64)
                columns[name] = values.reshape(-1, width) if width else values
    except InputError:
        raise
    except Exception as error:  # Arrow raises many kinds of errors on damaged bytes.
        raise InputError(f"{file} cannot be read as Parquet: {one_line(error)}") from None
    return columns


def _episodes(file: Path, columns: dict[str, np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
    """Number and rows of each episode in a file."""
    if "timestamp" not in columns:
        raise InputError(f"{file} has no column 'timestamp': it is not a LeRobot data file")
    number = columns.get("episode_index", np.zeros(len(columns["timestamp"])))
    if not np.isfinite(number).all():
        raise InputError(f"{file} has an episode_index that is not a number")
    if len(number) == 0:
        raise InputError(f"{file} has no rows")
    for episode in np.unique(number):
        yield int(episode), np.flatnonzero(number == episode)


def _episode(file: Path, source: Source, info: dict[str, Any], episode: int) -> Log:
    """A log with all numeric features under their own names."""
    channels, features = [], info.get("features", {})
    times = source.numbers("timestamp")[:, 0]
    for name in source.columns:
        if name in BOOKKEEPING:
            continue
        values = source.numbers(name)
        channels.append(
            Channel(
                name=name,
                unit="count",
                t=times,
                values=values,
                role="u" if name == "action" else "y",
                columns=_names(features.get(name, {}), name, values.shape[1]),
            )
        )
    if not channels:
        raise InputError(f"{file} has no numeric features")
    meta = {"part": episode, "source": origin([file]), "unit_unknown": [channel.name for channel in channels]}
    meta |= {key: info[key] for key in ("fps", "codebase_version", "robot_type") if key in info}
    return Log(channels=tuple(channels), meta=meta)


def _names(feature: Any, name: str, width: int) -> tuple[str, ...]:
    """Names of a feature's entries, which LeRobot keeps as a list or as a table of lists; else numbered."""
    names = feature.get("names") if isinstance(feature, dict) else None
    if isinstance(names, dict):
        lists = [value for value in names.values() if isinstance(value, list)]
        names = [item for value in lists for item in value]
    if isinstance(names, list) and len(names) == width and all(isinstance(item, str) and item for item in names):
        return tuple(names)
    return tuple(f"{name}[{k}]" for k in range(width))
