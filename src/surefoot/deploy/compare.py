"""How a recorded signal differs from what it should be: the simplest explanation that fits the numbers.

    r(t) = s x(t)                    sign, degrees, scale
    r(t) = x(t) + b                  offset
    r(t) = P x(t)                    permuted columns, also with signs
    r(t) = x(t − k)                  delayed
    r(t) = A x(t)                    turned by a constant rotation

Explanations are tried in the order of how many numbers they need, and one is accepted only where it fits to float precision. Guesses
that need no number at all (another frame, another layout of the history) come from the caller and are tried first.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.contract.channels import label
from surefoot.deploy.findings import listed

RELATIVE, ABSOLUTE = 1e-4, 2e-5
"""What counts as equal: relative to the largest value of a column, and in its own unit."""
DEGREES = 180.0 / np.pi
LONGEST = 12
"""Largest delay that is looked for, in samples."""
ROUND = (0.01, 0.05, 0.1, 0.25, 1 / 3, 0.5, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 100.0)


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What the signal would be under one particular fault.

    Attributes:
        kind: of the fault, a key of findings.KINDS.
        detail: the sentence that names it.
        values: makes the signal under that fault, of the shape of the recorded one; NaN where the fault does not say.
    """

    kind: str
    detail: str
    values: Callable[[], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why two signals differ."""

    kind: str
    detail: str
    columns: tuple[str, ...] = ()


def tolerance(expected: np.ndarray) -> np.ndarray:
    """Difference per column that is rounding alone, (k,)."""
    return ABSOLUTE + RELATIVE * np.nanmax(np.abs(expected), axis=0, initial=0.0)


def differs(recorded: np.ndarray, expected: np.ndarray, share: float = 1.0) -> np.ndarray:
    """Columns (k,) bool in which more than 1 − share of the rows differ; rows where `expected` is NaN do not count."""
    known = ~np.isnan(expected)
    off = (np.abs(recorded - expected) > tolerance(expected)) & known
    return np.asarray(off.sum(axis=0) > (1.0 - share) * np.maximum(known.sum(axis=0), 1) + 1e-9)


def fits(recorded: np.ndarray, guess: np.ndarray, share: float = 1.0) -> bool:
    """Whether every column agrees."""
    return recorded.shape == guess.shape and not differs(recorded, guess, share).any()


def size_of_difference(recorded: np.ndarray, expected: np.ndarray) -> str:
    """The largest difference in words, and when it begins."""
    off = np.abs(recorded - expected)
    off = np.where(np.isnan(off), 0.0, off)
    row = int(np.argmax((off > tolerance(expected)).any(axis=1)))
    rms = float(np.sqrt(np.mean(off**2)))
    return f"by up to {off.max():.4g} (rms {rms:.3g}), first in sample {row} of {len(off)}"


def explain(
    recorded: np.ndarray,
    expected: np.ndarray,
    names: Sequence[str],
    *,
    guesses: Iterable[Guess] = (),
    share: float = 1.0,
    steps: int = 1,
) -> Cause | None:
    """The simplest reason why `recorded` (T, k) is not `expected` (T, k); None where they agree.

    Args:
        recorded: what the log holds.
        expected: what it should hold; NaN where nobody knows.
        names: of the columns.
        guesses: faults particular to this signal, tried before the general ones.
        share: of the rows that must agree.
        steps: rows that belong to one moment (the steps of a history), so that delays count in moments.
    """
    names = tuple(names)
    wrong = differs(recorded, expected, share)
    if not wrong.any():
        return None
    for guess in guesses:
        values = guess.values()
        if values.shape == recorded.shape and differs(values, expected, share).any() and fits(recorded, values, share):
            return Cause(kind=guess.kind, detail=guess.detail, columns=_named(names, wrong))
    r, x, own = recorded[:, wrong], expected[:, wrong], _named(names, wrong)
    for test in (_constant, _degrees, _sign, _permuted, _common, _delayed, _held, _offset, _factors, _sign_permuted):
        cause = test(r, x, own, share, steps)
        if cause is not None:
            return cause
    turned = _turned(recorded, expected, names, share)
    if turned is not None:
        return turned
    affine = _affine(r, x, own, share)
    if affine is not None:
        return affine
    return Cause(
        kind="unexplained", detail=f"differs {size_of_difference(r, x)}, and no simple cause fits", columns=own
    )


def _named(names: Sequence[str], chosen: np.ndarray) -> tuple[str, ...]:
    return tuple(name for name, yes in zip(names, chosen, strict=True) if yes)


def _constant(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    """Zeros, or a value that never changes."""
    if fits(r, np.zeros_like(r), share):
        return Cause(kind="missing", detail=f"{listed(names)} is 0 throughout", columns=names)
    moves = np.ptp(x, axis=0) > 10 * tolerance(x)
    still = np.ptp(r, axis=0) <= tolerance(r)
    if len(r) > steps and moves.all() and still.all():
        return Cause(
            kind="stuck", detail=f"{listed(names)} stays at {_numbers(r[0])} while its reading moves", columns=names
        )
    return None


def _numbers(values: np.ndarray) -> str:
    return ", ".join(f"{v:.4g}" for v in values[:4]) + (", ..." if len(values) > 4 else "")


def _degrees(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    if fits(r, x * DEGREES, share):
        return Cause(
            kind="degrees", detail=f"{listed(names)}: in degrees, radians are meant (factor 57.3)", columns=names
        )
    if fits(r * DEGREES, x, share):
        return Cause(
            kind="degrees", detail=f"{listed(names)}: in radians, degrees are meant (factor 1/57.3)", columns=names
        )
    return None


def _sign(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    if fits(r, -x, share):
        return Cause(kind="sign", detail=f"{listed(names)}: the sign is opposite", columns=names)
    return None


def _assignment(r: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Column of x that each column of r is nearest to, each taken once, (k,)."""
    from scipy.optimize import linear_sum_assignment

    cost = np.nanmean(np.abs(r[:, :, None] - x[:, None, :]), axis=0)
    return linear_sum_assignment(np.where(np.isnan(cost), 1e9, cost))[1]


def _permuted(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    if r.shape[1] < 2:
        return None
    order = _assignment(r, x)
    if not fits(r, x[:, order], share):
        return None
    return Cause(kind="permuted", detail=order_in_words(names, order), columns=names)


def order_in_words(names: Sequence[str], order: Sequence[int] | np.ndarray) -> str:
    """How columns are permuted: in the place of names[i] stands names[order[i]]; whole limbs where whole limbs are swapped."""
    pairs = [(i, int(j)) for i, j in enumerate(order) if i < j]
    if any(int(order[int(j)]) != i for i, j in enumerate(order)):
        moved = [f"{label(names[int(j)])} in the place of {label(names[i])}" for i, j in enumerate(order) if i != j]
        return "in another order: " + "; ".join(moved[:4]) + (f" and {len(moved) - 4} more" if len(moved) > 4 else "")
    words = [(label(names[i]).partition("_"), label(names[j]).partition("_")) for i, j in pairs]
    limbs = sorted({(a[0], b[0]) for a, b in words})
    if len(limbs) < len(words) and all(a[2] == b[2] for a, b in words):
        return ", ".join(f"{a}_* and {b}_* swapped" for a, b in limbs)
    return listed([f"{label(names[i])} and {label(names[j])} swapped" for i, j in pairs])


def factor_of(r: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Least-squares s of r ≈ s x per column, (k,); NaN where x is 0."""
    known = ~np.isnan(x)
    a, b = np.where(known, x, 0.0), np.where(known, r, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (a * b).sum(axis=0) / (a * a).sum(axis=0)


def number(value: float) -> str:
    """A factor as people read it: a round one round."""
    near = [nice for nice in ROUND if abs(value / nice - 1) < 1e-3]
    return f"{near[0]:.4g}" if near else f"{value:.4g}"


def _common(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    """One factor for all columns."""
    s = factor_of(r.reshape(-1, 1), x.reshape(-1, 1))[0]
    if not np.isfinite(s) or abs(s) < 1e-6 or not fits(r / s, x, share):
        return None
    return Cause(kind="scale", detail=f"{listed(names)}: {number(s)} times what it should be", columns=names)


def _delayed(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    for k in range(1, LONGEST + 1):
        n = k * steps
        if len(r) > 3 * n + 3 * steps and fits(r[n:], x[:-n], share):
            words = f"{listed(names)}: {k} sample{'s' * (k > 1)} old"
            return Cause(kind="delayed", detail=words, columns=names)
    if len(r) > 4 * steps and fits(r[:-steps], x[steps:], share):
        return Cause(
            kind="delayed", detail=f"{listed(names)}: one sample too early, of the step to come", columns=names
        )
    return None


def _held(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    """Fresh only in every k-th sample, the last one again in between."""
    if steps != 1 or len(r) < 20:
        return None
    changes = np.flatnonzero((np.abs(np.diff(r, axis=0)) > 0).any(axis=1)) + 1
    if len(changes) < 3:
        return None
    k = int(np.median(np.diff(changes)))
    last = np.maximum.accumulate(np.where(np.isin(np.arange(len(r)), changes), np.arange(len(r)), 0))
    if k < 2 or not fits(r[k:], x[last][k:], share):
        return None
    return Cause(
        kind="delayed", detail=f"{listed(names)}: new only in every {k}th sample, stale in between", columns=names
    )


def _offset(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    b = np.nanmedian(r - x, axis=0)
    if len(r) <= steps or not fits(r, x + b, share):
        return None
    return Cause(kind="offset", detail=f"{listed(names)}: off by a constant {_numbers(b)}", columns=names)


def _factors(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    """A factor for each column; where they differ only in sign it is a scale and signs."""
    s = factor_of(r, x)
    if not np.isfinite(s).all() or (np.abs(s) < 1e-6).any() or not fits(r / s, x, share):
        return None
    return Cause(
        kind="scale", detail=f"{listed(names)}: {', '.join(map(number, s[:4]))} times what it should be", columns=names
    )


def _sign_permuted(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float, steps: int) -> Cause | None:
    if r.shape[1] < 2:
        return None
    order = _assignment(np.abs(r), np.abs(x))
    moved = x[:, order]
    signs = np.sign((r * np.where(np.isnan(moved), 0.0, moved)).sum(axis=0))
    if not fits(r, moved * signs, share):
        return None
    turned = listed(_named(names, signs < 0))
    return Cause(kind="permuted", detail=f"{order_in_words(names, order)}; with opposite sign: {turned}", columns=names)


def _turned(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float) -> Cause | None:
    """A constant rotation of three columns."""
    if r.shape[1] != 3 or np.isnan(x).any() or np.linalg.matrix_rank(x - x.mean(axis=0), tol=1e-3) < 2:
        return None
    A = np.linalg.lstsq(x, r, rcond=None)[0].T
    if np.abs(A @ A.T - np.eye(3)).max() > 1e-2 or not fits(r, x @ A.T, share):
        return None
    angle = np.degrees(np.arccos(np.clip((np.trace(A) - 1) / 2, -1, 1)))
    return Cause(kind="frame", detail=f"turned by a constant rotation of {angle:.1f} degrees", columns=names)


def _affine(r: np.ndarray, x: np.ndarray, names: tuple[str, ...], share: float) -> Cause | None:
    """r = s x + b per column."""
    if np.isnan(x).any() or len(r) < 8:
        return None
    middle, centre = x.mean(axis=0), r.mean(axis=0)
    s = factor_of(r - centre, x - middle)
    s = np.where(np.isfinite(s), s, 1.0)
    b = centre - s * middle
    if not fits(r, s * x + b, share):
        return None
    words = f"{listed(names)}: {', '.join(map(number, s[:4]))} times what it should be, plus {_numbers(b)}"
    return Cause(kind="scale", detail=words, columns=names)
