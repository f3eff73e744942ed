"""The words a user writes: `friction(".*_foot", low=0.3, high=1.2)` is a Param of kind "friction".

One function a kind, made from the table of kinds, so that a kind cannot lack a constructor or differ from it.
"""

from collections.abc import Callable
from typing import Any

from surefoot.params import kinds as _kinds  # noqa: F401 (declares the kinds)
from surefoot.params.kind import KINDS, Kind
from surefoot.params.param import Param, Scale


def _constructor(kind: Kind) -> Callable[..., Param]:
    def make(
        of: str | tuple[str, ...] = ".*",
        *,
        low: float,
        high: float,
        nominal: float | None = None,
        scale: Scale = "linear",
        each: bool = False,
        choices: tuple[float, ...] | None = None,
        source: str = "",
        **options: Any,
    ) -> Param:
        return Param(
            kind=kind.name,
            of=of,
            low=low,
            high=high,
            nominal=nominal,
            scale=scale,
            each=each,
            choices=choices,
            source=source,
            options=options,
        )

    make.__name__ = make.__qualname__ = kind.name
    opts = ", ".join(f"{k}={v!r}" for k, v in kind.options.items())
    make.__doc__ = f"{kind.about} [{kind.unit}], one per {kind.target}." + (f" Options: {opts}." if opts else "")
    return make


CONSTRUCTORS: dict[str, Callable[..., Param]] = {name: _constructor(kind) for name, kind in KINDS.items()}


def discrete(kind: str, *values: float, **more: Any) -> Param:
    """A Param that takes one of `values` (terrain banks, integrators, cones)."""
    ordered = tuple(sorted(float(v) for v in values))
    return CONSTRUCTORS[kind](low=ordered[0], high=ordered[-1], choices=ordered, **more)


def quasi_direct_drive(
    of: str = ".*", *, rotor_inertia: float, ratio: float, friction: float = 0.1, spread: float = 0.3
) -> dict[str, Param]:
    """Params of a low-ratio drive: armature = ratio² rotor inertia [kg·m²], and little, load-free gear friction.

    `friction` is the nominal dry friction at the joint [N·m]; both may be off by the fraction `spread`.
    """
    armature = ratio**2 * rotor_inertia
    around = {"low": 1 - spread, "high": 1 + spread}
    return {
        "armature": CONSTRUCTORS["armature"](of, **{k: armature * v for k, v in around.items()}),
        "coulomb": CONSTRUCTORS["coulomb"](of, **{k: friction * v for k, v in around.items()}),
    }


def series_elastic(
    of: str = ".*", *, stiffness: float, rotor_inertia: float, ratio: float, spread: float = 0.3
) -> dict[str, Param]:
    """Params of a series-elastic joint: spring stiffness [N·m/rad] behind a rotor of inertia ratio² J [kg·m²]."""
    armature = ratio**2 * rotor_inertia
    around = {"low": 1 - spread, "high": 1 + spread}
    return {
        "spring_stiffness": CONSTRUCTORS["spring_stiffness"](
            of, scale="log", **{k: stiffness * v for k, v in around.items()}
        ),
        "armature": CONSTRUCTORS["armature"](of, **{k: armature * v for k, v in around.items()}),
    }
