"""What a servo or joint may have beyond kp, kd, inertia, viscous and dry friction: the terms that a structure search tries.

    M1  F = Kc                                   the base
    M2  + Ks exp(-|v/vs|)                        Stribeck
    M3  + Kl |τ_m - τ_e|                         load
    M4  + Ksl exp(-|v/vsl|) |τ_m - τ_e|          load-dependent Stribeck, on M2 and M3
    M5  + |Km τ_m - Ke τ_e|                      directional, on M3
    M6  + Kq (τ_m - τ_e)² while they oppose      quadratic, on M3                     (families of Duclusaud et al., 2025)

and saturation, a supply that bounds torque at speed, its sag, backlash, delay, encoder bias. Each term is a set of Params of the Sim;
`off` is the value at which a Param does nothing, so that one compiled model holds all structures.

Terms come in stages: first what the drive does (limit, supply, delay, zero), then friction, then play. Friction that grows with
the load takes torque away just where a limit does, and would hide it: every motor has a largest torque, not every gear such friction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from surefoot.params import Param, Params
from surefoot.params.constructors import CONSTRUCTORS

PLUS = " + "
"""Between the names of terms that are taken together."""
UNBOUNDED = 1e6
"""A limit that is never reached."""
BASE = ("kp", "kd", "armature", "damping", "coulomb")
"""Kinds that every structure has."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One candidate.

    Attributes:
        name: as people say it.
        kinds: kinds of the Params it frees.
        off: by kind, the value at which it does nothing.
        needs: names of the terms it builds on; where they are missing they are tried with it.
        family: the friction family that it makes, where it is one.
        sign: pattern in the residuals that speaks for it, see structure_reasons.py.
        levels: where between its bounds the fit starts, one start each.
        stage: 0 drive, 1 friction, 2 play: a later stage is looked at when no term of the earlier ones helps.
    """

    name: str
    kinds: tuple[str, ...]
    off: Mapping[str, float] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    family: str = ""
    sign: str = ""
    levels: tuple[float, ...] = (0.1, 0.35, 0.7)
    stage: int = 1


TERMS = (
    Term(name="saturation", kinds=("torque_limit",), off={"torque_limit": UNBOUNDED}, sign="asked", levels=(0.06, 0.15, 0.35), stage=0),
    Term(name="Stribeck friction", kinds=("stribeck",), off={"stribeck": 0.0}, family="M2", sign="slow"),
    Term(name="load-dependent friction", kinds=("load_friction",), off={"load_friction": 0.0}, family="M3", sign="load"),
    Term(
        name="load-dependent Stribeck friction", kinds=("load_stribeck",), off={"load_stribeck": 0.0}, family="M4", sign="slow",
        needs=("Stribeck friction", "load-dependent friction"),
    ),
    Term(
        name="directional friction", kinds=("motor_friction", "external_friction"), family="M5", sign="opposed",
        off={"motor_friction": 0.0, "external_friction": 0.0}, needs=("load-dependent friction",),
    ),
    Term(
        name="quadratic load friction", kinds=("quadratic_friction",), off={"quadratic_friction": 0.0}, family="M6", sign="opposed",
        needs=("load-dependent friction",),
    ),
    Term(name="voltage limit", kinds=("voltage",), off={"voltage": UNBOUNDED}, sign="fast", stage=0),
    Term(name="voltage sag", kinds=("voltage_sag",), off={"voltage_sag": 0.0}, needs=("voltage limit",), sign="asked", stage=0),
    Term(name="backlash", kinds=("backlash",), off={"backlash": 1e-6}, sign="reversal", stage=2),
    Term(name="delay", kinds=("command_delay",), off={"command_delay": 0.0}, sign="lag", stage=0),
    Term(name="encoder bias", kinds=("encoder_bias",), off={"encoder_bias": 0.0}, sign="mean", levels=(0.5,), stage=0),
)  # fmt: skip
"""All terms, in the order of a tie."""


def servo_params(
    joint: str = ".*", *, kp: float, kd: float, torque: float, supply: float | None = None, stribeck_speed: float = 0.3
) -> Params:
    """Params of all terms for a servo of about these figures; ranges are wide, since a search must not end at a bound.

    Args:
        joint: name or pattern of the joint.
        kp: position gain that the robot file states [N·m/rad].
        kd: its velocity gain, back-EMF included [N·m·s/rad].
        torque: stall torque [N·m], the scale of limits and friction.
        supply: supply voltage [V]; None leaves voltage limit and sag out, which need a motor with windings.
        stribeck_speed: vs of the Stribeck terms [rad/s].
    """

    def log(kind: str, low: float, high: float, nominal: float, **options: float) -> Param:
        return CONSTRUCTORS[kind](joint, low=low, high=high, nominal=nominal, scale="log", **options)

    def linear(kind: str, high: float, nominal: float = 0.0, low: float = 0.0, **options: float) -> Param:
        return CONSTRUCTORS[kind](joint, low=low, high=high, nominal=nominal, **options)

    params = {
        "kp": log("kp", kp / 4, kp * 4, kp), "kd": log("kd", kd / 8, kd * 8, kd),
        "armature": log("armature", 2.5e-4 * torque, 0.05 * torque, 2.5e-3 * torque),
        "damping": log("damping", 1e-4 * torque, 0.15 * torque, 8e-3 * torque),
        "coulomb": log("coulomb", 1e-4 * torque, 0.25 * torque, 0.025 * torque),
        "torque_limit": log("torque_limit", 0.25 * torque, 12 * torque, torque),
        "stribeck": linear("stribeck", 0.2 * torque, speed=stribeck_speed), "load_friction": linear("load_friction", 0.6),
        "load_stribeck": linear("load_stribeck", 0.6, speed=stribeck_speed), "motor_friction": linear("motor_friction", 0.6),
        "external_friction": linear("external_friction", 0.6), "quadratic_friction": linear("quadratic_friction", 1.5 / torque),
        "command_delay": CONSTRUCTORS["command_delay"](low=0.0, high=0.04, nominal=0.0),
        "encoder_bias": linear("encoder_bias", 0.05, low=-0.05),
    }  # fmt: skip
    if supply is not None:
        params["voltage"] = log("voltage", supply / 3, supply * 6, supply)
        params["voltage_sag"] = CONSTRUCTORS["voltage_sag"](low=0.0, high=3.0, nominal=0.0)
    return Params(**params)


def joined(term: Term, taken: set[str], terms: tuple[Term, ...]) -> Term | None:
    """A term together with those that it needs and that are not taken yet, as one; None where one of them is not at hand."""
    by_name = {t.name: t for t in terms}
    parts: list[Term] = []
    for name in term.needs:
        if name in taken:
            continue
        needed = joined(by_name[name], taken, terms) if name in by_name else None
        if needed is None:
            return None
        parts.append(needed)
    if not parts:
        return term
    parts.append(term)
    kinds = tuple(dict.fromkeys(kind for part in parts for kind in part.kinds))
    return replace(
        term,
        name=PLUS.join(p.name for p in parts),
        kinds=kinds,
        off={k: v for p in parts for k, v in p.off.items()},
        needs=(),
    )
