"""Checkpoints: plain arrays and a JSON text in one npz file, written whole or not at all, never pickled."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.files import replacing

FORMAT = "surefoot checkpoint 1"
ABOUT = "about.json"


def save(path: str | Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write `arrays` and the JSON-able `about` to `path`."""
    for name, value in arrays.items():
        if np.asarray(value).dtype.hasobject:
            raise InputError(f"array {name!r} holds Python objects: a checkpoint takes numbers only")
    text = json.dumps({"format": FORMAT, **about}).encode()
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **{ABOUT: np.frombuffer(text, dtype=np.uint8)}, **{k: np.asarray(v) for k, v in arrays.items()})  # pyright: ignore[reportArgumentType]


def load(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the `about` of a checkpoint."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no checkpoint at {path}: give the folder of a run that has been saved")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(bytes(arrays.pop(ABOUT)).decode())
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a checkpoint of surefoot ({error}): give the folder of a run") from None
    if about.pop("format", None) != FORMAT:
        raise InputError(f"{path} is not a checkpoint of this version of surefoot ({FORMAT})")
    return arrays, about
