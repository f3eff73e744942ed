"""Taking meshes out of a model without changing its dynamics, and proving it.

Only shapes that touch nothing are taken (contype = conaffinity = 0). Where a body's inertia came from such a shape,
the compiled inertia is written down first. The text is edited rather than saved by MuJoCo, whose writer keeps six
digits.
"""

import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.files import replacing
from surefoot.robots.read import compiled

SAME = 1e-9
"""Largest relative difference of mass matrix and bias forces that counts as unchanged."""


@dataclass(frozen=True, kw_only=True)
class Stripped:
    """What `strip_meshes` did: the proof is `difference`, the worst relative change of the dynamics."""

    file: Path
    removed: int  # mesh geoms taken out
    kept: int  # mesh geoms that collide and therefore stay
    saved: int  # [bytes] of mesh and texture files no longer needed
    difference: float  # of mass matrix and bias force over random states, relative


def strippable(spec: mujoco.MjSpec) -> list[int]:
    """Indices of the mesh geoms that touch nothing and that nothing else refers to."""
    mesh = mujoco.mjtGeom.mjGEOM_MESH
    used = {name for pair in spec.pairs for name in (pair.geomname1, pair.geomname2)}
    used |= {name for sensor in spec.sensors for name in (sensor.objname, sensor.refname)}
    return [
        i
        for i, geom in enumerate(spec.geoms)
        if geom.type == mesh
        and geom.contype == 0
        and geom.conaffinity == 0
        and (not geom.name or geom.name not in used)
    ]


def strip_meshes(path: str | Path, out: str | Path) -> Stripped:
    """Write `path` (MJCF) to `out` without its visual meshes; refuses if the dynamics would change."""
    path, out = Path(path), Path(out)
    if path.suffix == ".urdf":
        raise InputError(f"{path} is a URDF: MuJoCo already ignores its visual meshes, so there is nothing to strip")
    if out.resolve() == path.resolve():
        raise InputError(f"out = {out} is the model itself; give another file so that the original stays")
    spec, model = compiled(path)
    tree = ET.parse(path)
    root = tree.getroot()
    if root.find(".//include") is not None:
        raise InputError(f"{path} includes other files; merge them into one file first")
    elements = _geoms_in_order(root.find("worldbody"))
    if [element.get("name", "") for _, element in elements] != [geom.name for geom in spec.geoms]:
        raise InputError(f"{path} makes geoms by frames, replicates or composites; write them out first")
    chosen = strippable(spec)
    for i in chosen:
        parent, element = elements[i]
        _keep_inertia(parent, model)
        parent.remove(element)
    compiler = root.find("compiler")
    if chosen and compiler is not None and compiler.get("inertiafromgeom") == "true":
        compiler.set("inertiafromgeom", "auto")
        for body in root.iter("body"):
            _keep_inertia(body, model, replace=True)
    saved = _drop_assets(root, spec, path.parent)
    _point_to_assets(root, path.parent / (spec.meshdir or ""), out)
    with replacing(out) as written:
        tree.write(written, encoding="unicode")
        difference = dynamics_difference(model, compiled(written)[1])
        if difference > SAME:
            raise InputError(f"stripping {path} would change its dynamics by {difference:.2g}; {out} was not written")
    kept = sum(geom.type == mujoco.mjtGeom.mjGEOM_MESH for geom in spec.geoms) - len(chosen)
    return Stripped(file=out, removed=len(chosen), kept=kept, saved=saved, difference=difference)


def _geoms_in_order(body: ET.Element | None) -> list[tuple[ET.Element, ET.Element]]:
    """(parent, geom) pairs in the compiler's order: a body's own geoms, then those of its children."""
    if body is None:
        return []
    found = [(body, child) for child in body if child.tag == "geom"]
    for child in body:
        if child.tag == "body":
            found += _geoms_in_order(child)
    return found


def _keep_inertia(body: ET.Element, model: mujoco.MjModel, *, replace: bool = False) -> None:
    """Write the compiled inertia of `body` into it, unless it states one already."""
    stated = body.find("inertial")
    if body.tag != "body" or (stated is not None and not replace):
        return
    name = body.get("name")
    if not name:
        raise InputError("a body without a name takes its inertia from a mesh; name it first")
    if stated is not None:
        body.remove(stated)
    i = model.body(name).id
    if model.body_mass[i] == 0.0:
        return
    values = {"mass": [model.body_mass[i]], "pos": model.body_ipos[i], "quat": model.body_iquat[i]}
    values["diaginertia"] = model.body_inertia[i]
    body.insert(0, ET.Element("inertial", {k: " ".join(repr(float(x)) for x in v) for k, v in values.items()}))


def _drop_assets(root: ET.Element, spec: mujoco.MjSpec, folder: Path) -> int:
    """Remove meshes nobody uses and textures that need a file; returns the bytes no longer needed."""
    saved = 0
    used = {geom.get("mesh") for geom in root.iter("geom")}
    meshdir = folder / (spec.meshdir or "")
    texturedir = folder / (spec.texturedir or "")
    for asset in root.findall("asset"):
        for item in list(asset):
            file = item.get("file")
            name = item.get("name") or (Path(file).stem if file else None)
            if item.tag == "mesh" and name not in used:
                saved += _size(meshdir, file)
                asset.remove(item)
            elif item.tag == "texture" and file:
                saved += _size(texturedir, file)
                asset.remove(item)
                for material in root.iter("material"):
                    if material.get("texture") == name:
                        material.attrib.pop("texture")
    return saved


def _point_to_assets(root: ET.Element, meshdir: Path, out: Path) -> None:
    """Let `out`, wherever it lies, find the mesh files that are still needed."""
    files = [item for asset in root.findall("asset") for item in asset if item.get("file")]
    if not files:
        return
    if any(item.tag != "mesh" for item in files) and out.parent.resolve() != meshdir.resolve():
        raise InputError(f"{out} needs height fields or skins beside the original; write it into {meshdir}")
    compiler = root.find("compiler")
    if compiler is None:
        compiler = ET.Element("compiler")
        root.insert(0, compiler)
    compiler.attrib.pop("assetdir", None)
    compiler.set("meshdir", os.path.relpath(meshdir.resolve(), out.parent.resolve()))


def _size(folder: Path, file: str | None) -> int:
    return (folder / file).stat().st_size if file and (folder / file).is_file() else 0


def dynamics_difference(before: mujoco.MjModel, after: mujoco.MjModel, *, states: int = 20) -> float:
    """Worst relative difference of mass matrix (scaled by its diagonal) and bias force over random states."""
    if before.nq != after.nq or before.nv != after.nv:
        return float("inf")
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(states):
        velocity, motion = rng.normal(size=before.nv), rng.normal(size=before.nv)
        results = []
        for model in (before, after):
            data = mujoco.MjData(model)
            mujoco.mj_integratePos(model, data.qpos, motion, 1.0)
            data.qvel[:] = velocity
            mujoco.mj_fwdPosition(model, data)
            mujoco.mj_fwdVelocity(model, data)
            mass = np.zeros((model.nv, model.nv))
            mujoco.mj_fullM(model, data, mass)
            results.append((mass, data.qfrc_bias.copy()))
        (mass, bias), (mass2, bias2) = results
        diagonal = np.sqrt(np.abs(np.diag(mass))) + 1e-30
        worst = max(worst, float((np.abs(mass - mass2) / np.outer(diagonal, diagonal)).max(initial=0.0)))
        worst = max(worst, float(np.abs(bias - bias2).max(initial=0.0) / (np.abs(bias).max(initial=0.0) + 1e-30)))
    return worst
