"""Patterns that a fit leaves in its residuals, in words: what the Params given to it cannot express.

autocorrelation  Σ r_t r_(t+k) / Σ r_t²  at 10 ms or one sample, whichever is longer, in the words the time that was taken
a quantity       share of the residual that torques or readings which go with it would explain, see missing.py
"""

import mujoco
import numpy as np

from surefoot.identify.fit import Misfit
from surefoot.identify.missing import Missing, missing
from surefoot.identify.residuals import Linear, Problem

CORRELATED = 0.5
"""Autocorrelation from which it is reported."""
LEVEL = 1.5
"""Residual over the noise floor below which a fit is as good as the sensor is."""
LAG = 0.01  # [s]
SUGGESTS = {
    "speed": "friction that changes with speed, such as one that is stronger at rest, or back-EMF",
    "direction": "friction that differs by direction",
    "position": "a torque or friction that depends on position: gravity, a spring, a cable, cogging, a linkage that binds",
    "load": "friction or compliance that grows with the load, saturation, or backlash",
    "gain": "a motor whose gain is not what the recordings state",
    "voltage": "a motor that weakens as the supply sags",
    "temperature": "a motor or friction that changes as it warms",
    "drift": "something that changes over the recording, such as temperature or a loose mount",
}
WORDS = {
    "direction": "the direction of motion",
    "drift": "time",
    "load": "the load",
    "gain": "the gain of the recordings",
    "voltage": "the supply voltage",
}


def patterns(problem: Problem, linear: Linear, s: np.ndarray, offsets: np.ndarray) -> tuple[Misfit, ...]:
    """Patterns in the residuals of a fit that ended at s (d,) and offsets (windows, nx), strongest first."""
    rollouts, found = problem.rollouts, []
    seen, size = rollouts.seen[problem.rows], own_sizes(problem, linear.r)
    level = size / problem.floor
    columns = [i for i in range(len(rollouts.labels)) if level[i] >= LEVEL]
    for i in columns:
        channel, column, unit = rollouts.labels[i]
        here = rollouts.column == i
        lag, after = _lag(seen[:, here], rollouts.t[problem.rows][:, here])
        near = autocorrelation(linear.r[:, here], seen[:, here], lag)
        if near > CORRELATED:
            shown = f"{size[i]:.3g}" if unit == "1" else f"{size[i]:.3g} {unit}"
            sentence = (
                f"{column}: the residual of {channel} is {shown}, {level[i]:.3g} times the noise floor, and hangs together over time "
                f"(autocorrelation {near:.2f} after {1e3 * after:.3g} ms): the model lacks something"
            )
            found.append(
                Misfit(channel=channel, column=column, kind="autocorrelation", strength=near, sentence=sentence)
            )
    worst = sorted(columns, key=lambda i: -level[i])
    for i, lacks in missing(problem, linear, s, offsets, worst).items():
        channel, column, _ = rollouts.labels[i]
        for one in lacks:
            sentence = _sentence(problem, channel, column, one)
            found.append(Misfit(channel=channel, column=column, kind=one.kind, strength=one.share, sentence=sentence))
    return tuple(sorted(found, key=lambda m: (m.kind == "autocorrelation", -m.strength)))


def own_sizes(problem: Problem, r: np.ndarray) -> np.ndarray:
    """Root mean square of every column's own residual, (columns,), in its unit; r (fitted windows, n) is weighted."""
    rollouts, k = problem.rollouts, len(problem.sigma)
    seen = rollouts.seen[problem.rows]
    square = np.where(seen, (r * problem.deviation(problem.rows)) ** 2, 0.0).sum(0)
    count = np.bincount(rollouts.column, seen.sum(0), k)
    return np.sqrt(np.bincount(rollouts.column, square, k) / np.maximum(count, 1))


def _sentence(problem: Problem, channel: str, column: str, one: Missing) -> str:
    size = ""
    if np.isfinite(one.size):
        slide = problem.sim.model.joint(column).type[0] == mujoco.mjtJoint.mjJNT_SLIDE
        size = f" (a {'force' if slide else 'torque'} of about {one.size:.2g} {'N' if slide else 'N·m'})"
    words = WORDS.get(one.kind, one.kind)
    if one.rivals:
        words += f", or as well with {' or '.join(WORDS.get(kind, kind) for kind in one.rivals)}"
    return f"{column}: {min(one.share, 1.0):.0%} of the residual of {channel} goes with {words}{size}: {SUGGESTS[one.kind]}"


def _lag(seen: np.ndarray, t: np.ndarray) -> tuple[int, float]:
    """Samples of readings at times t (windows, samples) that come nearest to LAG, one at least, and how long they are [s]."""
    gaps = np.diff(t, axis=1)[seen[:, 1:]]
    gap = max(float(np.median(gaps)), 1e-9) if gaps.size else LAG
    lag = max(1, round(LAG / gap))
    return lag, lag * gap


def autocorrelation(r: np.ndarray, seen: np.ndarray, lag: int) -> float:
    """Autocorrelation of residuals (windows, samples) after `lag` samples, windows on their own."""
    if lag >= r.shape[1]:
        return 0.0
    both = seen[:, lag:] & seen[:, :-lag]
    top = float((r[:, lag:] * r[:, :-lag])[both].sum())
    square = (r[:, lag:][both] ** 2).sum() * (r[:, :-lag][both] ** 2).sum()
    return top / max(float(np.sqrt(square)), 1e-300)
