"""What `surefoot log info` and `surefoot log convert` do; the command line only prints it."""

from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.logs.log import Log
from surefoot.logs.read import read_logs
from surefoot.logs.save import WRITERS

MOST_GAPS = 20


def info(path: str | Path, mapping: str | Path | None = None) -> dict[str, Any]:
    """What a log file or folder holds, as plain JSON values.

    {"path", "logs": [{"robot", "contract", "duration" [s], "hash", "meta", "channels": [{"name", "role", "unit",
    "clock", "columns", "samples", "start" [s], "duration" [s], "rate" [Hz], "jitter" [s], "longest" [s], "gaps",
    "gap_count", "dropped", "low", "high"}]}]}; `gaps` lists at most 20 pairs (start [s], length [s]), `low` and `high`
    the range per column.
    """
    return {"path": str(path), "logs": [_about(log) for log in read_logs(path, mapping=mapping)]}


def _about(log: Log) -> dict[str, Any]:
    channels = []
    for name, timing in log.timing().items():
        channel = log[name]
        low, high = _range(channel.values)
        channels.append(
            {
                "name": name, "role": channel.role, "unit": channel.unit, "clock": channel.clock,
                "columns": list(channel.columns), "samples": timing.samples, "start": timing.start,
                "duration": timing.duration, "rate": timing.rate, "jitter": timing.jitter, "longest": timing.longest,
                "gaps": [list(gap) for gap in timing.gaps[:MOST_GAPS]], "gap_count": len(timing.gaps),
                "dropped": timing.dropped, "low": low, "high": high,
            }
        )  # fmt: skip
    return {
        "robot": log.robot, "contract": log.contract, "duration": log.duration, "hash": log.hash,
        "meta": dict(log.meta), "channels": channels,
    }  # fmt: skip


def _range(values: Any) -> tuple[list[float | None], list[float | None]]:
    """Smallest and largest value per column; None where there is none but NaN."""
    columns = [column[column == column] for column in values.T]
    low = [float(column.min()) if len(column) else None for column in columns]
    high = [float(column.max()) if len(column) else None for column in columns]
    return low, high


TITLES = ("channel", "role", "unit", "columns", "samples", "rate", "jitter", "gaps", "dropped", "duration")


def info_table(about: dict[str, Any], *, most: int = 20) -> list[tuple[str, ...]]:
    """Rows of text for a table of `info`: the titles, then a line per log and one per channel; at most `most` logs."""
    rows: list[tuple[str, ...]] = [TITLES]
    blank = ("",) * (len(TITLES) - 2)
    for i, log in enumerate(about["logs"][:most]):
        trials = log["meta"].get("axis") == "trial"
        length = "trials" if trials else f"{log['duration']:.3f} s"
        rows.append((f"log {i + 1}: {log['robot'] or 'no robot'}", *blank, length))
        for c in log["channels"]:
            unit = c["unit"] if len(c["unit"]) <= 14 else c["unit"][:11] + "..."
            regular = ("", "", "", "") if trials else (
                f"{c['rate']:.4g} Hz", f"{round(1e3 * c['jitter'], 6):.3g} ms", str(c["gap_count"]), str(c["dropped"]),
            )  # fmt: skip
            span = "" if trials else f"{c['duration']:.3f} s"
            rows.append((c["name"], c["role"], unit, str(len(c["columns"])), str(c["samples"]), *regular, span))
        for key in ("truncated", "rows_left_out", "empty", "unit_unknown"):
            if key in log["meta"]:
                rows.append((f"note: {key}: {log['meta'][key]}", *blank, ""))
    if len(about["logs"]) > most:
        rows.append((f"... {len(about['logs']) - most} more logs", *blank, ""))
    return rows


def convert(source: str | Path, target: str | Path, mapping: str | Path | None = None) -> list[Path]:
    """Read the logs of `source` and write them in the format of `target`'s suffix; return the paths written.

    Several logs get numbers: "run.mcap" becomes "run-0001.mcap", ...; a file that exists is not overwritten.
    """
    target = Path(target)
    if target.suffix.lower() not in WRITERS:
        raise InputError(f"a log is saved as .mcap, .npz or .csv, got {target.name!r}")
    logs = read_logs(source, mapping=mapping)
    width = max(4, len(str(len(logs))))
    paths = [target] if len(logs) == 1 else [
        target.with_name(f"{target.stem}-{i + 1:0{width}d}{target.suffix}") for i in range(len(logs))
    ]  # fmt: skip
    for path in paths:
        if path.exists():
            raise InputError(f"{path} exists: choose another name or remove it")
    return [log.save(path) for log, path in zip(logs, paths, strict=True)]
