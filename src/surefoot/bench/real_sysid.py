"""mujoco.sysid on our robots and logs, for rows side by side: the same model, the same bounds, the same start values.

It rolls out a whole log from a given start state and fits scalars of the MjSpec by least squares. It comes with mujoco's wheel, but
needs colorama, tabulate and pyyaml (part of the extra `mujoco[sysid]`); without them the rows say so.
"""

import contextlib
import importlib
import io
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from surefoot.logs import Log
from surefoot.params import E, Params
from surefoot.robots import Robot
from surefoot.sim import Sim
from surefoot.sim.drives import add_actuators

Change = Callable[[mujoco.MjSpec, float], None]
ABSENT = "mujoco.sysid needs colorama, tabulate and pyyaml (extra mujoco[sysid]): not installed here"


@dataclass(frozen=True, kw_only=True)
class Scalar:
    """One fitted number: where it starts, its bounds, and how it is written into a spec."""

    start: float
    low: float
    high: float
    write: Change


@dataclass(frozen=True, kw_only=True)
class Rival:
    """What mujoco.sysid found."""

    values: dict[str, float]
    seconds: float
    """Wall time of its optimisation alone."""


def sysid() -> Any | None:
    """The module, or None where its packages are missing."""
    try:
        module = importlib.import_module("mujoco.sysid")
    except ImportError:
        return None
    return module if hasattr(module, "optimize") else None


def spec_of(robot: Robot) -> mujoco.MjSpec:
    """Our robot as an MjSpec with motors and position sensors."""
    spec = robot.spec()
    add_actuators(spec, robot, Params())
    for joint in robot.joints:
        spec.add_sensor(
            name=f"{joint}_pos", type=mujoco.mjtSensor.mjSENS_JOINTPOS, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=joint
        )
    return spec


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a value goes: the object's name, the Param's options, and the untouched model, as one spec is written again and again."""

    name: str
    options: Mapping[str, Any]
    model: mujoco.MjModel


def _mass(spec: mujoco.MjSpec, place: Place, value: float) -> None:
    body, before = spec.body(place.name), place.model.body(place.name)
    body.inertia = before.inertia * (value / before.mass[0])
    body.mass = value


def _com(spec: mujoco.MjSpec, place: Place, value: float) -> None:
    ipos = np.array(place.model.body(place.name).ipos)
    ipos["xyz".index(place.options["axis"])] += value
    spec.body(place.name).ipos = ipos


def _slope(spec: mujoco.MjSpec, place: Place, value: float) -> None:
    spec.option.gravity = [-9.81 * np.sin(value), 0.0, -9.81 * np.cos(value)]


def _armature(spec: mujoco.MjSpec, place: Place, value: float) -> None:
    spec.joint(place.name).armature = value


def _damping(spec: mujoco.MjSpec, place: Place, value: float) -> None:
    spec.joint(place.name).damping[0] = value


def _coulomb(spec: mujoco.MjSpec, place: Place, value: float) -> None:
    spec.joint(place.name).frictionloss = value


def _stiffness(spec: mujoco.MjSpec, place: Place, value: float) -> None:
    spec.joint(place.name).stiffness[0] = value


def _rest(spec: mujoco.MjSpec, place: Place, value: float) -> None:
    spec.joint(place.name).springref = value


WRITERS = {
    "mass": _mass, "com": _com, "slope": _slope, "armature": _armature, "damping": _damping, "coulomb": _coulomb,
    "cable_stiffness": _stiffness, "cable_rest": _rest,
}  # fmt: skip
"""Kinds of Params that an MjSpec holds as one number; delays, gains, sensor biases and further friction laws are not among them."""


def scalars_of(sim: Sim, names: Sequence[str] | None = None) -> dict[str, Scalar]:
    """Those of our Params that mujoco.sysid can fit, with our bounds and nominal values, by label."""
    out: dict[str, Scalar] = {}
    labels, nominal = iter(sim.params.names), iter(sim.params.nominal)
    model = spec_of(sim.robot).compile()
    for name, param in sim.params.items():
        targets = sim.physics.slots[name].names
        groups = [[t] for t in targets] if param.each else [list(targets)]
        for group in groups:
            label, start = next(labels), float(next(nominal))
            if param.kind in WRITERS and (names is None or name in names):
                write = _writer(WRITERS[param.kind], [Place(name=t, options=param.options, model=model) for t in group])
                out[label] = Scalar(
                    start=float(np.clip(start, param.low, param.high)), low=param.low, high=param.high, write=write
                )
    return out


def _writer(write: Callable[[mujoco.MjSpec, Place, float], None], places: Sequence[Place]) -> Change:
    def change(spec: mujoco.MjSpec, value: float) -> None:
        for place in places:
            write(spec, place, value)

    return change


def e_of(sim: Sim, rival: "Rival") -> E:
    """What mujoco.sysid found as an e of one world, the rest nominal."""
    values = sim.params.nominal.copy()
    for label, value in rival.values.items():
        values[sim.params.names.index(label)] = value
    return sim.params.unflatten(values)


def fit_rival(robot: Robot, pieces: Sequence[Log], scalars: Mapping[str, Scalar], command: str) -> Rival | None:
    """Fit scalars by rolling out every piece whole; None where mujoco.sysid is missing.

    Args:
        robot: gives the model.
        pieces: logs, each rolled out from the positions and velocities it reads at its start.
        scalars: what to fit.
        command: channel of the command.
    """
    module = sysid()
    if module is None:
        return None
    logging.getLogger("absl").setLevel(logging.ERROR)
    spec = spec_of(robot)
    model = spec.compile()
    params = module.ParameterDict()
    for name, scalar in scalars.items():
        params.add(
            module.Parameter(
                name, nominal=scalar.start, min_value=scalar.low, max_value=scalar.high,
                modifier=lambda s, p, write=scalar.write: write(s, float(p.value[0])),
            )
        )  # fmt: skip
        params[name].value[:] = scalar.start
    states, controls, sensors = [], [], []
    for log in pieces:
        y, u = log["joint_pos"], log[command]
        q, v = start_of(log, robot.joints)
        states.append(module.create_initial_state(model, q, v, np.zeros(model.na)))
        n = min(len(y.t), len(u.t))
        period = float(y.t[n - 1] - y.t[0]) / (n - 1)
        steps = max(1, round(period / model.opt.timestep))
        t = steps * model.opt.timestep * np.arange(n)
        sent = u.values[:n, [u.columns.index(a.name) for a in robot.actuators]]
        read = y.values[:n, [y.columns.index(j) for j in robot.joints]]
        controls.append(module.TimeSeries(t, sent))
        sensors.append(module.TimeSeries.from_names(t, read, model))
    names = [f"piece{i}" for i in range(len(pieces))]
    sequences = module.ModelSequences(robot.name, spec, names, states, controls, sensors)
    residual = module.build_residual_fn(models_sequences=[sequences])
    begin = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        found, _ = module.optimize(initial_params=params, residual_fn=residual, optimizer="mujoco", verbose=False)
    return Rival(values={n: float(found[n].value[0]) for n in scalars}, seconds=time.perf_counter() - begin)


def start_of(log: Log, joints: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities at a log's first sample, velocities by a parabola through the first readings."""
    y = log["joint_pos"]
    q = np.array([y.column(j)[0] for j in joints])
    k = min(8, len(y.t))
    v = np.array([np.polyfit(y.t[:k] - y.t[0], y.column(j)[:k], 2)[1] for j in joints])
    return q, v
