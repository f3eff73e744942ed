"""A bundle: everything a robot needs of a policy, in one folder.

    policy.onnx       the network, its normaliser inside; raw observations in, raw actions out
    contract.json     what observations and actions mean, with the ranges seen in training; no privileged group
    provenance.json   where it comes from: hashes, run, versions, checks, and what is not known

A bundle is read whole or refused with one sentence: hashes, inputs, outputs and memory must agree.
"""

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.contract import Contract
from surefoot.contract.codec import dump, parse
from surefoot.deploy.onnx_policy import OnnxPolicy, read_onnx
from surefoot.errors import InputError
from surefoot.files import replacing, write_text

POLICY, CONTRACT, PROVENANCE = "policy.onnx", "contract.json", "provenance.json"
FILES = (POLICY, CONTRACT, PROVENANCE)
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A policy that may run on a robot.

    Attributes:
        folder: where it lies.
        contract: of the deployed groups.
        provenance: plain JSON values, see the module's docstring.
        data: the bytes of policy.onnx, as they were when the hash was checked.
    """

    folder: Path
    contract: Contract
    provenance: Mapping[str, Any]
    data: bytes = field(default=b"", repr=False)

    @property
    def hash(self) -> str:
        """sha256 of policy.onnx, hexadecimal."""
        return self.provenance["policy"]["sha256"]

    @property
    def unknown(self) -> tuple[str, ...]:
        """What nobody said about this policy, one sentence each."""
        return tuple(self.provenance.get("unknown", ()))

    def policy(self) -> OnnxPolicy:
        """The policy, its memory empty; each call makes a new one."""
        return OnnxPolicy(self.folder / POLICY, self.contract, data=self.data or None)


def shipped() -> dict[str, Path]:
    """Bundles that come with surefoot, by name."""
    home = Path(__file__).parent / "bundles"
    return {path.name: path for path in sorted(home.iterdir()) if path.is_dir()} if home.is_dir() else {}


def load_bundle(folder: str | Path) -> Bundle:
    """The bundle in `folder`, checked: files, hashes, and that ONNX inputs, outputs and memory are the contract's.

    The name of a shipped bundle ("go2-walk") will do where no such folder is there.
    """
    folder = Path(folder)
    if not folder.is_dir():
        known = shipped()
        if str(folder) in known:
            return load_bundle(known[str(folder)])
        raise InputError(
            f"{folder} is not a bundle: there is no such folder, make one with `surefoot export RUN {folder}`"
            + (f", or use a shipped one ({', '.join(known)})" if known else "")
        )
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise InputError(f"{folder} is not a bundle: {missing[0]} is missing, export it anew")
    provenance = _provenance(folder)
    data = read_onnx(folder / POLICY)
    _compare(folder / POLICY, hashlib.sha256(data).hexdigest(), provenance["policy"]["sha256"])
    contract = Contract.load(folder / CONTRACT)
    _compare(folder / CONTRACT, contract.hash, provenance["contract"]["hash"])
    return checked(Bundle(folder=folder, contract=contract, provenance=provenance, data=data))


def checked(bundle: Bundle) -> Bundle:
    """The bundle itself, if its policy is one of its contract and nothing in it is privileged."""
    for group in bundle.contract.groups:
        if group.privileged:
            raise InputError(
                f"{bundle.folder / CONTRACT}: group {group.name!r} is privileged, no robot can sense it: "
                "export the bundle with surefoot, which leaves it out"
            )
    bundle.policy()
    return bundle


def write_bundle(
    folder: str | Path, data: bytes, contract: Contract, provenance: Mapping[str, Any], *, overwrite: bool = False
) -> Bundle:
    """Write a bundle, whole or not at all, and return it checked.

    Args:
        folder: a new folder, or with `overwrite` a bundle to be replaced.
        data: bytes of policy.onnx.
        contract: of the deployed groups.
        provenance: what is known of its origin; version and hashes are added here.
        overwrite: replace the bundle that is there.
    """
    folder = Path(folder)
    _check_place(folder, overwrite)
    about = {
        "version": VERSION,
        **provenance,
        "policy": {"file": POLICY, "sha256": hashlib.sha256(data).hexdigest()},
        "contract": {"file": CONTRACT, "hash": contract.hash},
    }
    about = json.loads(json.dumps(_finite(about), default=str, allow_nan=False))
    bundle = checked(Bundle(folder=folder, contract=contract, provenance=about, data=data))
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        with replacing(temporary / POLICY) as file:
            file.write_bytes(data)
        contract.save(temporary / CONTRACT)
        write_text(temporary / PROVENANCE, dump(about) + "\n")
        temporary.chmod(0o755)
        _put(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return bundle


def _finite(value: Any) -> Any:
    """`value` with NaN and infinity, which JSON has not, as texts."""
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _check_place(folder: Path, overwrite: bool) -> None:
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir() or folder.is_symlink():
        raise InputError(f"{folder} is there and is not a folder: give the bundle another name")
    inside = sorted(item.name for item in folder.iterdir())
    if not inside:
        return
    if not set(FILES) <= set(inside):
        raise InputError(
            f"{folder} is there and is not a bundle (it holds {inside[0]!r}): give the bundle another name"
        )
    if not overwrite:
        raise InputError(f"{folder} holds a bundle already: give another name, or overwrite it (--overwrite)")
    others = [name for name in inside if name not in FILES]
    if others:
        raise InputError(f"{folder} also holds {others[0]!r}, which overwriting would delete: move it away first")


def _put(temporary: Path, folder: Path) -> None:
    """Rename `temporary` to `folder`; what was there is put aside first and brought back if that fails."""
    if not folder.exists():
        os.rename(temporary, folder)
        return
    old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old."))
    os.rename(folder, old / folder.name)
    try:
        os.rename(temporary, folder)
    except BaseException:
        os.rename(old / folder.name, folder)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _provenance(folder: Path) -> dict[str, Any]:
    path = folder / PROVENANCE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    values = parse(text, str(path))
    if not isinstance(values, dict) or values.get("version") != VERSION:
        version = values.get("version") if isinstance(values, dict) else None
        raise InputError(f"{path} has version {version!r}, this surefoot reads {VERSION}: export the bundle anew")
    for part, key in (("policy", "sha256"), ("contract", "hash")):
        inner = values.get(part)
        if not isinstance(inner, dict) or not isinstance(inner.get(key), str):
            raise InputError(
                f"{path} lacks {part}.{key}, so nobody can tell whether the bundle is whole: export it anew"
            )
    return values


def _compare(path: Path, found: str, said: str) -> None:
    if found != said:
        raise InputError(
            f"{path} is not the file this bundle was made with (hash {found[:12]}, {PROVENANCE} says {said[:12]}): "
            "it was changed or damaged, export the bundle anew"
        )
