"""Readings in steps: a reading that repeats because the robot hardly moves is one reading, however often it was taken.

    q      size of the steps of a column
    error of a repeated reading: the same for all of its L samples, variance q²/12      weight of each: σ² / (σ² + (L - 1) q²/12)

Where the motion goes on through a step, in at one edge and out at the other, its L errors run from one edge to the other and cancel:
such readings keep their weight. Where it turns within a step or rests there, they do not.
"""

import numpy as np

EVEN = 0.1
"""Share of a step by which changes may differ from whole steps."""
SMALL = 10
"""Steps up to which a change is looked at: in larger ones the rounding of a recording adds up."""
OFTEN = 0.2
"""Share of samples that must repeat the one before for steps to matter."""


def step_of(y: np.ndarray) -> float:
    """Size of the steps that values y (samples,) come in; 0 where there are none that matter."""
    change = np.abs(np.diff(y[np.isfinite(y)]))
    moved = change[change > 0]
    if len(moved) < 3 or len(moved) > (1 - OFTEN) * len(change):
        return 0.0
    step = float(moved.min())
    whole = moved[moved < SMALL * step] / step
    return step if (np.abs(whole - np.round(whole)) < EVEN).all() else 0.0


def shared_variance(y: np.ndarray) -> np.ndarray:
    """(L - 1) q²/12 of every sample of y (samples,), in its unit squared; 0 where its error is its own or cancels."""
    out, step = np.zeros(len(y)), step_of(y)
    if not step:
        return out
    first = np.flatnonzero(np.concatenate([[True], y[1:] != y[:-1]]))
    last = np.concatenate([first[1:], [len(y)]])
    for k, (a, b) in enumerate(zip(first, last, strict=True)):
        inner = 0 < k < len(first) - 1
        through = inner and (y[a] - y[a - 1]) * (y[b] - y[b - 1]) > 0
        if not through:
            out[a:b] = (b - a - 1) * step**2 / 12
    return out
