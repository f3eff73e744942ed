"""Params that could not act on this robot, or whose effect could not be told from another's, are refused by name.

Otherwise they would be silently inert. A rule looks at the built model and raises an InputError; `refuse` puts the
Param's name before its sentence.
"""

from collections.abc import Callable, Mapping

import mujoco
import numpy as np

from surefoot.errors import InputError
from surefoot.sim import inertia
from surefoot.sim.build import Built
from surefoot.sim.slots import Slots, link_end

Rule = Callable[[Built, Slots], None]
ON_BASE = ("push", "wrench", "moment", "wind", "drag", "cable_drag", "gust")
"""Kinds that act on the body with the free joint."""
READ_BY = {
    **dict.fromkeys(
        (
            "encoder_bias",
            "encoder_noise",
            "encoder_quantum",
            "velocity_noise",
            "velocity_differencing",
            "velocity_filter",
        ),
        ("encoder",),
    ),
    **{
        f"{triad}_{error}": ("imu",)
        for triad in ("gyro", "accel")
        for error in ("noise", "bias", "walk", "scale", "misalignment")
    },
    "imu_mounting": ("imu",),
    **dict.fromkeys(("force_noise", "force_drift", "temperature"), ("foot_force", "wrench")),
}
"""Errors of sensors -> kinds of sensor that have them."""
PARALLEL = 0.999
"""Cosine between a joint's axis and the axis it is tilted about, above which a tilt does next to nothing."""


def refuse(built: Built, slots: Mapping[str, Slots]) -> None:
    """Raise an InputError for the first Param that cannot do on this robot what its kind says."""
    for name, s in slots.items():
        try:
            for rule in RULES.get(s.param.kind, ()):
                rule(built, s)
            if s.param.group == "contact":
                _touches(built, s)
        except InputError as error:
            raise InputError(f"param '{name}': {error}") from None
    _one_side(built, slots)
    _one_area(slots)


def _axis(*allowed: str) -> Rule:
    def rule(built: Built, s: Slots) -> None:
        axis = s.param.options["axis"]
        if axis not in allowed:
            raise InputError(f"axis={axis!r} of {s.param.kind} is not one of {', '.join(allowed)}")

    return rule


def _touches(built: Built, s: Slots) -> None:
    model = built.model
    if not (model.geom_contype[s.ids] | model.geom_conaffinity[s.ids]).any():
        raise InputError(f"geom '{s.names[0]}' never touches anything (contype = conaffinity = 0): name one that does")


def _round(built: Built, s: Slots) -> None:
    shapes = (int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_CAPSULE))
    for name, i in zip(s.names, s.ids, strict=True):
        if built.model.geom_type[i] not in shapes:
            raise InputError(
                f"geom '{name}' is neither a sphere nor a capsule, so it has no radius to vary: name one that is"
            )


def _resolved(built: Built, s: Slots) -> None:
    if (built.model.geom_solref[s.ids, 0] <= 0).any():
        raise InputError(
            f"the contact of '{s.names[0]}' is given as stiffness and damping: write solref with a time constant"
        )
    dt = built.model.opt.timestep
    if s.param.kind == "softness" and s.param.low < 2 * dt * (1 - 1e-9):
        raise InputError(
            f"low={s.param.low:g} s is below twice the time step of {dt:g} s, where the engine ignores it: raise low"
        )


def _stopped(built: Built, s: Slots) -> None:
    model = built.model
    for name, i in zip(s.names, s.ids, strict=True):
        if not model.jnt_limited[i]:
            raise InputError(f"joint '{name}' has no stops: name joints with a range, or give it one in the model")
        if s.param.kind == "stop_shift" and model.jnt_range[i, 1] - model.jnt_range[i, 0] + 2 * s.param.low <= 0:
            raise InputError(f"low={s.param.low:g} rad leaves joint '{name}' no range: raise low")
    if s.param.kind in ("stop_softness", "stop_damping"):
        if (model.jnt_solref[s.ids, 0] <= 0).any():
            raise InputError(
                f"the stop of '{s.names[0]}' is given as stiffness and damping: write solreflimit with a time constant"
            )
        if s.param.kind == "stop_softness" and s.param.low < 2 * model.opt.timestep * (1 - 1e-9):
            raise InputError(
                f"low={s.param.low:g} s is below twice the time step of {model.opt.timestep:g} s, where the engine ignores it: raise low"
            )


def _massive(built: Built, s: Slots) -> None:
    for name, i in zip(s.names, s.ids, strict=True):
        if built.model.body_mass[i] <= 0:
            raise InputError(
                f"body '{name}' weighs nothing in the model, so its inertia cannot follow a mass: give it one"
            )


def _physical(built: Built, s: Slots) -> None:
    _massive(built, s)
    for name, i in zip(s.names, s.ids, strict=True):
        second = inertia.second_moments(built.model.body_inertia[i])
        if second.min() <= 1e-9 * second.max():
            shown = ", ".join(f"{value:.3g}" for value in built.model.body_inertia[i])
            raise InputError(
                f"body '{name}' is flat or unphysical (principal inertias {shown} kg·m²): use mass and com"
            )


def _long(built: Built, s: Slots) -> None:
    model = built.model
    for name, i in zip(s.names, s.ids, strict=True):
        ends = link_end(model, int(i))
        if not any(np.abs(getattr(model, field)[ids]).max(initial=0.0) > 0 for field, ids in ends.items()):
            raise InputError(f"body '{name}' has nothing away from its origin that a longer link could move")


def _tiltable(built: Built, s: Slots) -> None:
    about = s.param.options["axis"]
    for name, i in zip(s.names, s.ids, strict=True):
        if about != "auto" and abs(built.model.jnt_axis[i]["xyz".index(about)]) > PARALLEL:
            raise InputError(f"the axis of joint '{name}' is the {about} axis itself: tilt it about another one")


def _loose(built: Built, s: Slots) -> None:
    if built.robot.base is None and built.robot.fixed is None:
        raise InputError(f"{s.param.kind} acts on a free base, and robot '{built.robot.name}' has none")


def _driven(built: Built, s: Slots) -> None:
    if not set(built.robot.joints) & {a.name for a in built.robot.actuators}:
        raise InputError(f"robot '{built.robot.name}' has no actuated joint that {s.param.kind} could act on")


def _sensed(*kinds: str) -> Rule:
    def rule(built: Built, s: Slots) -> None:
        if not any(sensor.kind in kinds for sensor in built.robot.sensors):
            raise InputError(
                f"robot '{built.robot.name}' has no sensor of kind {' or '.join(kinds)} for {s.param.kind} to act on"
            )

    return rule


def _one_side(built: Built, slots: Mapping[str, Slots]) -> None:
    """Both sides of one contact: the engine would take the larger friction or the mean softness of two unknowns."""
    still = set(np.flatnonzero(built.model.body_weldid[built.model.geom_bodyid] == 0).tolist())
    sides: dict[str, dict[bool, str]] = {}
    for name, s in slots.items():
        if s.param.group != "contact" or s.param.about.structural == "ground_law":
            continue
        owners = sides.setdefault(s.param.kind, {})
        for side in {int(i) in still for i in s.ids}:
            other = owners.get(not side)
            if other is not None and (other != name or s.param.each):
                raise InputError(
                    f"params '{other}' and '{name}' act on both sides of a contact with the ground, but only one side "
                    f"can decide its {s.param.kind}: keep the ground or what touches it"
                )
            owners[side] = name


def _one_area(slots: Mapping[str, Slots]) -> None:
    params = {s.param.kind: s.param for s in slots.values()}
    if "drag" not in params and {"wind", "gust"} <= set(params):
        areas = [params[kind].options["area"] for kind in ("wind", "gust")]
        if areas[0] != areas[1]:
            raise InputError(
                f"wind acts on {areas[0]:g} m² and gust on {areas[1]:g} m²: give both the same area, or a drag"
            )


RULES: dict[str, tuple[Rule, ...]] = {
    "softness": (_resolved,),
    "stop_shift": (_stopped,),
    "stop_softness": (_stopped,),
    "stop_damping": (_stopped,),
    "contact_damping": (_resolved,),
    "bounce": (_resolved,),
    "radius": (_round,),
    "link_length": (_long,),
    "axis_tilt": (_axis("auto", "x", "y", "z"), _tiltable),
    "mass": (_massive,),
    "com": (_axis("x", "y", "z"),),
    "inertia": (_physical,),
    "slope": (_axis("x", "y"),),
    "torque_noise": (_driven,),
    **{kind: (_loose,) for kind in ON_BASE},
    **{kind: (_sensed(*sensors),) for kind, sensors in READ_BY.items()},
}
