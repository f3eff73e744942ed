"""Versions of what a result depends on, to be kept beside it."""

import importlib.metadata
from collections.abc import Iterable

import surefoot

SCIENCE = ("surefoot", "mujoco", "numpy", "scipy")
"""What a simulation or a fit depends on."""


def versions_of(packages: Iterable[str] = SCIENCE) -> dict[str, str]:
    """Version by package; "absent" for one that is not installed. Surefoot's own is known without being installed."""
    return {name: surefoot.__version__ if name == "surefoot" else _version(name) for name in packages}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
