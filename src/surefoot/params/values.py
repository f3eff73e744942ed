"""e on disk: a JSON, TOML or npz file, so that the e of any world can be kept, compared and given to another Sim."""

import json
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.files import replacing, write_text
from surefoot.params.params import E
from surefoot.params.toml import dumps


def save_e(path: str | Path, e: Mapping[str, Any]) -> Path:
    """Write e by the suffix of `path`: .json, .toml or .npz; every bit is kept."""
    path = Path(path)
    arrays = {name: np.asarray(value, dtype=float) for name, value in e.items()}
    if path.suffix == ".npz":
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
        return path
    data = {"e": {name: value.tolist() for name, value in arrays.items()}}
    if path.suffix not in (".json", ".toml"):
        raise InputError(f"e cannot be written to '{path.name}': use .json, .toml or .npz")
    write_text(path, json.dumps(data, indent=1) if path.suffix == ".json" else dumps(data))
    return path


def load_e(path: str | Path) -> E:
    """Read e as `save_e` wrote it; a value without a world axis becomes one world."""
    path = Path(path)
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                values = {name: file[name] for name in file.files}
        else:
            text = path.read_text(encoding="utf-8")
            data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
            values = data["e"]
        return {str(name): np.atleast_1d(np.asarray(value, dtype=float)) for name, value in values.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"cannot read e from '{path}': {error} (it needs a table 'e' of numbers, see save_e)"
        ) from None
