"""Shared fixtures: where the real recordings and the reference models lie."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of real recordings (SUREFOOT_DATA, else ../shared/data beside the project)."""
    folder = Path(os.environ.get("SUREFOOT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real recordings not found at {folder}: set SUREFOOT_DATA")
    return folder


@pytest.fixture(scope="session")
def reference_dir() -> Path:
    """Folder of public reference models (SUREFOOT_ROBOTS, else ../shared/robots beside the project)."""
    folder = Path(os.environ.get("SUREFOOT_ROBOTS", ROOT.parent / "shared" / "robots"))
    if not folder.is_dir():
        pytest.skip(f"reference models not found at {folder}: set SUREFOOT_ROBOTS")
    return folder
