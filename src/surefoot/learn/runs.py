"""A run is a folder: config.json, checkpoint.npz, progress.jsonl, a TensorBoard event file, broken/ if worlds broke."""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import surefoot
from surefoot.errors import InputError
from surefoot.files import write_text
from surefoot.learn import checkpoint
from surefoot.learn.journal import read_journal
from surefoot.learn.networks import Policy, part
from surefoot.learn.ppo import PPO

CHECKPOINT, CONFIG = "checkpoint.npz", "config.json"
IDENTITY = ("ppo", "seed", "worlds", "widths", "actions", "mirror", "ranks")
"""Entries of a config that make a run what it is: they must not change when it is resumed."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training.

    Attributes:
        folder: where it lies.
        policy: as learned so far, its normaliser frozen.
        config: settings, seed, shapes, versions, and what the caller said `about` the training.
        steps: transitions learned from.
        stopped: why the training ended: "steps", "stop", or "" for one that may go on.
    """

    folder: Path
    policy: Policy = field(repr=False)
    config: dict[str, Any] = field(repr=False)
    steps: int
    stopped: str = ""

    @property
    def ppo(self) -> PPO:
        """The learner's settings."""
        return PPO.from_dict(self.config["ppo"])

    def history(self) -> list[dict[str, Any]]:
        """One record per update, as in progress.jsonl."""
        return read_journal(self.folder)


def load_run(folder: str | Path) -> Run:
    """The run in `folder`, with the policy of its last checkpoint."""
    folder = Path(folder)
    arrays, about = checkpoint.load(folder / CHECKPOINT)
    policy = Policy.from_arrays(part(arrays, "learner/policy/"))
    return Run(folder=folder, policy=policy, config=read_config(folder), steps=about["steps"], stopped=about["stopped"])


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a run."""
    try:
        return json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is not the folder of a run: {CONFIG} cannot be read ({error})") from None


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write config.json."""
    write_text(folder / CONFIG, json.dumps(config, indent=2, sort_keys=True, default=str) + "\n")


def versions() -> dict[str, str]:
    """What a result depends on besides its inputs."""
    return {
        "surefoot": surefoot.__version__, "torch": torch.__version__, "numpy": np.__version__,
        "python": platform.python_version(), "machine": platform.machine(), "system": platform.system(),
    }  # fmt: skip


ANOTHER_FOLDER = "choose another folder, or empty this one to begin anew"
"""What to do about a run that does not fit."""


def check_same(earlier: Mapping[str, Any], config: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume a run under other settings than it was begun with; one begun before a setting existed has its default."""
    now = json.loads(json.dumps(config, default=str))
    for name in ("robot", "task"):
        was, given = ((c.get("about") or {}).get(name) for c in (earlier, now))
        if was and given and was != given:
            raise InputError(f"{folder} holds a run of {name} {was!r}, but {given!r} was given: {ANOTHER_FOLDER}")
    for name in IDENTITY:
        was, given = earlier.get(name), now.get(name)
        if name == "ppo" and isinstance(was, dict):
            was = PPO().to_dict() | was
        if was == given:
            continue
        if isinstance(was, dict) and isinstance(given, dict):
            key = next(k for k in {**was, **given} if was.get(k) != given.get(k))
            name, was, given = f"{name}.{key}", was.get(key), given.get(key)
        raise InputError(f"{folder} holds a run with {name} = {was}, but {given} was given: {ANOTHER_FOLDER}")
