"""Writing a log by the suffix of its file."""

from pathlib import Path

from surefoot.errors import InputError, did_you_mean
from surefoot.logs.log import Log
from surefoot.logs.recording import save_mcap
from surefoot.logs.tables import save_csv, save_npz

WRITERS = {".mcap": save_mcap, ".npz": save_npz, ".csv": save_csv}


def save(log: Log, path: str | Path) -> Path:
    """Write `log` to `path` (.mcap, .npz or .csv), whole or not at all, and return the path."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        raise InputError(f"a log is saved as .mcap, .npz or .csv, got {path.name!r} {did_you_mean(suffix, WRITERS)}")
    WRITERS[suffix](log, path)
    return path
