"""Does friction depend on the direction of motion? The equation error is asked, joint by joint.

    r = α + β |q̇| + what the fitted scalars can absorb        friction forward: F + α + β |q̇|,   back: F - α - β |q̇|

β is viscous friction by direction. α is dry friction by direction, or a constant torque: a moving joint cannot tell them apart, so
α is asked only where no fitted scalar is such a torque already.
"""

from typing import TYPE_CHECKING

import numpy as np

from surefoot.identify.fit import Misfit
from surefoot.identify.intervals import neighbours

if TYPE_CHECKING:
    from surefoot.identify.inverse import Equations, InverseProblem

SURE = 4.0
"""Standard deviations (over blocks of time) from which a dependence is reported."""
SHARE = 0.02
"""Share of the error's variance that it must explain as well."""
ABSORBED = 0.05
"""A question whose column the fitted scalars explain up to this share is already answered by them."""


def direction_misfits(problem: "InverseProblem", s: np.ndarray, equations: "Equations") -> tuple[Misfit, ...]:
    """What the error says about direction, the strongest first."""
    out = []
    viscous = problem._row([m.thin(np.abs(m.v).T) for m in problem.motions])
    constant = np.ones(len(viscous))
    for k, joint in enumerate(problem.sim.robot.joints):
        here = equations.joint == k
        if here.sum() < 10 * (equations.j.shape[1] + 1):
            continue
        for kind, column in (("viscous", viscous), ("dry", constant)):
            x = np.where(here, column, 0.0) / problem.sigma[k]
            answer = ask(equations, x)
            if answer is None:
                continue
            value, std, share = answer
            if abs(value) > SURE * std and share > SHARE:
                sentence = _sentence(problem, s, joint, kind, value, std, share)
                out.append(
                    Misfit(channel="joint_torque", column=joint, kind="direction", strength=share, sentence=sentence)
                )
    return tuple(sorted(out, key=lambda m: -m.strength))


def ask(equations: "Equations", x: np.ndarray) -> tuple[float, float, float] | None:
    """Coefficient of a further column x (n,) beside the fitted ones, its honest deviation, and the share of variance it explains.

    None where the fitted columns hold x already.
    """
    j, r = equations.j, equations.r
    gram = j.T @ j
    gram = gram + np.diag(1e-9 * np.diag(gram) + 1e-300)
    left = x - j @ np.linalg.solve(gram, j.T @ x)
    energy = float(left @ left)
    if energy < ABSORBED * float(x @ x):
        return None
    value = float(left @ r) / energy
    rest = r - value * left
    groups = np.unique(equations.block)
    moved = np.array([[left[equations.block == b] @ rest[equations.block == b] / energy] for b in groups])
    std = float(np.sqrt(len(groups) / max(len(groups) - 1, 1) * neighbours(moved)[0, 0]))
    share = 1.0 - float(rest @ rest) / max(float(r @ r), 1e-300)
    return value, std, share


def _sentence(
    problem: "InverseProblem", s: np.ndarray, joint: str, kind: str, value: float, std: float, share: float
) -> str:
    """In words, with the friction forward and back where the fit has its mean."""
    slide = problem.sim.model.joint(joint).type[0] == 2
    e = problem.e_of(s)
    if kind == "viscous":
        unit, name, mean = "N·s/m" if slide else "N·m·s/rad", "damping", _value(problem, e, "damping", joint)
    else:
        unit, name, mean = "N" if slide else "N·m", "coulomb", _value(problem, e, "coulomb", joint)
    ways = f"{mean + value:.4g} forward and {mean - value:.4g} back" if mean is not None else f"{value:+.3g} forward"
    words = {"viscous": "viscous", "dry": "dry"}[kind]
    hint = "" if kind == "viscous" else ", or a constant torque acts on it"
    return (
        f"{joint}: {words} friction depends on the direction of motion: {ways} {unit} (half the difference {value:.3g} ± {std:.2g}){hint}; "
        f"it explains {share:.0%} of the equation error: add {name}_asymmetry"
    )


def _value(problem: "InverseProblem", e: dict[str, np.ndarray], kind: str, joint: str) -> float | None:
    """The e's value of a kind at a joint, None where no Param holds it, or every log one of its own."""
    for name, slots in problem.sim.physics.slots.items():
        if slots.param.kind == kind and joint in slots.names and name not in problem.motions[0].stated:
            v = np.atleast_1d(np.asarray(e[name])[0])
            return float(v[slots.names.index(joint)] if slots.param.each else v[0])
    return None
