"""Joint readings against physics: a wrong driver looks right to a builder, but not to the motion.

    u_i(t − d) = s q_i + (τ_i + kd s dq_i) / kp      which target does a joint follow, with which sign s, and with which constant

Each test compares explanations by how well they fit, and speaks only where another one is clearly better than "all is right" and the
motion was large enough to tell; otherwise the check is listed as not made.
"""

from dataclasses import dataclass

import numpy as np

from surefoot.contract.channels import label
from surefoot.deploy.compare import order_in_words
from surefoot.deploy.findings import Notes, listed
from surefoot.deploy.joint_readings import FEWEST, SHORTEST, Joints, joints_of
from surefoot.deploy.motor_checks import LAGS, SOME, check_motor, check_speed
from surefoot.deploy.recorded_run import Run

CLEARER = 0.5
"""Another explanation must leave at most this share of the error of "all is right"."""
APART = 0.1
"""[rad] Smallest rms error of "all is right" that is worth another explanation."""
ZERO = 0.15
"""[rad] Smallest constant of an encoder that is a fault."""
CALM, EASY = 3.0, 0.3
"""[rad/s], [rad] Speed and load (torque over kp) up to which samples tell of an encoder's zero."""
STILL = 0.4
"""[s] A reading that stays the same to the last bit for this long, while the joint moves, is stuck."""


def check_joints(run: Run, notes: Notes) -> None:
    """Order, sign, unit, speed, motor law and life of the joint readings."""
    joints = joints_of(run)
    if joints is None:
        notes.unchecked.append(
            f"joint readings: the log has no joint_pos of {FEWEST} samples and {SHORTEST:g} s or more"
        )
        return
    stuck = _check_stuck(joints, notes)
    if joints.u is None:
        notes.unchecked.append("joint_pos: order and sign against the commands, the motors are not position controlled")
    else:
        _check_followed(joints, stuck, notes)
    check_speed(joints, stuck, notes)
    check_motor(joints, notes)
    if joints.u is not None:
        _check_offset(joints, stuck, notes)


# ---------------------------------------------------------------- stuck


def _longest_still(values: np.ndarray) -> tuple[int, int]:
    """First and one past last sample of the longest stretch in which values (T,) stay the same."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(values) != 0) + 1, [len(values)]])
    best = int(np.argmax(np.diff(edges)))
    return int(edges[best]), int(edges[best + 1])


def _check_stuck(joints: Joints, notes: Notes) -> set[str]:
    """Readings that stay the same to the last bit while the joint is told to move, or while the other reading moves."""
    found: set[str] = set()
    for channel, values, other in (("joint_pos", joints.q, joints.dq), ("joint_vel", joints.dq, None)):
        if values is None:
            continue
        names = []
        for i, name in enumerate(joints.names):
            a, b = _longest_still(values[:, i])
            if (b - a) * joints.dt < STILL:
                continue
            told = np.zeros(0) if joints.u is None else joints.u[a:b, i][np.isfinite(joints.u[a:b, i])]
            asked = float(np.ptp(told)) if len(told) else 0.0
            if channel == "joint_pos":
                moved = 0.0 if other is None else float(np.mean(np.abs(other[a:b, i]))) * STILL
            else:  # Speeds had from an encoder are exactly zero at rest: what counts is motion well within the stretch.
                within = (b - a) // 4
                moved = 2 * float(np.ptp(joints.q[a + within : b - within, i]))
            if asked > 0.1 or moved > 0.08:
                names.append((name, (b - a) * joints.dt, float(values[a, i])))
        if names:
            name, seconds, value = names[0]
            detail = f"{listed([n for n, _, _ in names])}: the same value ({value:.4g}) for {seconds:.3g} s while the joint moves"
            notes.find("driver", channel, "stuck", detail, [n for n, _, _ in names])
            found |= {f"{channel}/{n}" for n, _, _ in names}
    notes.checked.append("joint readings: whether one is stuck")
    return found


# ---------------------------------------------------------------- which joint follows which target


@dataclass(frozen=True)
class _Costs:
    """How far readings x_j are from targets u_i, rms over time [rad].

    Attributes:
        plus: of u_i − x_j, all pairs (reading j, target i), (n, n).
        minus: of u_i + x_j: the sign turned.
        steady: of u_j − x_j less its mean: a constant taken off, (n,).
    """

    plus: np.ndarray
    minus: np.ndarray
    steady: np.ndarray

    @property
    def least(self) -> float:
        """Sum over the best pairs, whatever the signs."""
        from scipy.optimize import linear_sum_assignment

        both = np.minimum(self.plus, self.minus)
        return float(both[linear_sum_assignment(both)].sum())


def _costs(joints: Joints, lag: int) -> _Costs:
    """Costs with the targets `lag` samples earlier.

    x_j is q_j, or where the torque is measured q_j + (τ_j + kd dq_j) / kp, whichever fits better.
    """
    u = joints.u
    assert u is not None
    u = u[: len(u) - lag] if lag else u
    plain = joints.q[lag:]
    load = np.zeros_like(plain)
    if joints.tau is not None and joints.kp is not None:
        damp = 0.0 if joints.kd is None else joints.kd * joints.slope[lag:]
        load = (joints.tau[lag:] + damp) / np.where(joints.kp > 0, joints.kp, np.inf)
    out = []
    for sign in (1.0, -1.0):
        kinds = [sign * plain, sign * (plain + load), sign * plain + load] if load.any() else [sign * plain]
        out.append(np.min([np.sqrt(np.nanmean((x[:, :, None] - u[:, None, :]) ** 2, axis=0)) for x in kinds], axis=0))
    steady = np.min([np.nanstd(u - x, axis=0) for x in (plain, plain + load)], axis=0)
    return _Costs(out[0], out[1], steady)


def _check_followed(joints: Joints, stuck: set[str], notes: Notes) -> None:
    """Whether every joint follows its own target, with the right sign and in radians."""
    from scipy.optimize import linear_sum_assignment

    assert joints.u is not None
    use = np.isfinite(joints.u).any(axis=0) & np.array([f"joint_pos/{n}" not in stuck for n in joints.names])
    if not use.any():
        notes.unchecked.append("joint_pos: no sent targets to compare with")
        return
    thin = joints.only(use).thinned()
    assert thin.u is not None
    names, most = np.array(thin.names), thin.samples(LAGS)
    told = int((np.isfinite(thin.u) & np.isfinite(thin.q)).all(axis=1).sum())
    if told < most + SOME:
        notes.unchecked.append(
            f"joint_pos: order and sign against the targets, of which only {told} samples can be compared"
        )
        return
    if np.nanmax(np.nanstd(thin.u, axis=0)) < 0.02:
        notes.unchecked.append("joint_pos: order and sign against the targets, which hardly moved")
    if _in_degrees(thin, notes):
        return
    costs = min((_costs(thin, lag) for lag in range(0, most + 1, max(1, most // 8))), key=lambda c: c.least)
    own, turned = np.diag(costs.plus), np.diag(costs.minus)
    flip = (turned < CLEARER * own) & (own > APART) & (turned < 2 * costs.steady + 0.02)
    if flip.any() and not _better_permuted(costs, flip):
        first = int(np.argmax(flip))
        numbers = f"{own[first]:.2g} rad off its target, {turned[first]:.2g} with the sign turned"
        detail = f"{listed(names[flip])}: the sign is opposite ({numbers})"
        notes.find("driver", "joint_pos", "sign", detail, names[flip])
        return
    order = linear_sum_assignment(costs.plus)[1]
    moved = _clear_cycles(costs.plus, order)
    if moved.any():
        order = np.where(moved, order, np.arange(len(names)))
        there = costs.plus[np.flatnonzero(moved), order[moved]].mean()
        numbers = f"{own[moved].mean():.2g} rad (rms) from their own targets, {there:.2g} from each other's"
        detail = f"{order_in_words(thin.names, order)}: {numbers}"
        notes.find("driver", "joint_pos", "permuted", detail, names[moved])
        return
    notes.checked.append(f"joint_pos: {len(names)} joints follow their targets, {own.mean():.2g} rad rms")


def _in_degrees(joints: Joints, notes: Notes) -> bool:
    """Readings that are 180/π times their targets."""
    assert joints.u is not None
    with np.errstate(invalid="ignore"):
        size = np.nanmedian(np.abs(joints.u), axis=0)
        ratio = np.nanmedian(np.abs(joints.q), axis=0) / np.where(size > 0.05, size, np.nan)
    telling = np.isfinite(ratio)
    wrong = telling & (ratio > 20) & (ratio < 200)
    if not wrong.any():
        return False
    names = [n for n, w in zip(joints.names, wrong, strict=True) if w]
    detail = f"{listed(names)}: about {np.nanmedian(ratio[wrong]):.3g} times its target: in degrees, radians are meant"
    notes.find("driver", "joint_pos", "degrees", detail, () if wrong.sum() == telling.sum() else names)
    return True


def _better_permuted(costs: _Costs, flip: np.ndarray) -> bool:
    """Whether swapping columns explains the flipped joints better than turning their signs."""
    from scipy.optimize import linear_sum_assignment

    signs = np.where(flip, np.diag(costs.minus), np.diag(costs.plus)).sum()
    return bool(costs.plus[linear_sum_assignment(costs.plus)].sum() < 0.8 * signs)


def _clear_cycles(cost: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Columns (n,) bool in those cycles of the permutation that are clearly better than no permutation."""
    keep = np.zeros(len(order), dtype=bool)
    seen: set[int] = set()
    for first in np.flatnonzero(order != np.arange(len(order))):
        cycle, at = [], int(first)
        while at not in seen:
            seen.add(at)
            cycle.append(at)
            at = int(order[at])
        if not cycle:
            continue
        own, other = cost[cycle, cycle], cost[cycle, order[cycle]]
        keep[cycle] = other.sum() < CLEARER * own.sum() and own.mean() > 0.6 * APART
    return keep


def _check_offset(joints: Joints, stuck: set[str], notes: Notes) -> None:
    """A constant that the motor's torque does not explain: the encoder's zero."""
    if stuck or notes.blames("joint_pos", "joint_torque"):
        notes.unchecked.append("joint_pos: zero of the encoders, joint_pos or joint_torque is wrong already")
        return
    if joints.u is None or joints.tau is None or joints.kp is None:
        notes.unchecked.append("joint_pos: zero of the encoders, needs joint_torque and the gains")
        return
    zeros = _zeros(joints)
    wrong = [(n, float(z)) for n, z in zip(joints.names, zeros, strict=True) if abs(z) > ZERO]
    if wrong:
        words = ", ".join(f"{label(n)} {z:+.2g} rad" for n, z in wrong[:4])
        detail = f"readings are off by a constant that the motors' torque does not explain: {words}"
        notes.find("driver", "joint_pos", "offset", detail, [n for n, _ in wrong])
    else:
        notes.checked.append(f"joint_pos: zero of the encoders against targets and torques, within {ZERO:g} rad")


def _zeros(joints: Joints) -> np.ndarray:
    """Constants of the encoders [rad] that targets and torques leave, NaN where too few samples are calm, (n,).

    zero = mean(q − u + load / g), with load = (τ + kd dq) / kp and one g for all motors, from how load and u − q change together.
    """
    u, kp, tau = joints.u, joints.kp, joints.tau
    assert u is not None
    assert kp is not None
    assert tau is not None
    kd = np.zeros_like(kp) if joints.kd is None else joints.kd
    slope = joints.slope
    load = (tau + kd * slope) / np.where(kp > 0, kp, np.nan)
    calm = np.isfinite(load) & (np.abs(slope) < CALM) & (np.abs(load) < EASY)
    best, found = 0.0, np.full(u.shape[1], np.nan)
    for lag in range(0, joints.samples(LAGS) + 1, max(1, joints.samples(0.01))):
        error = u[: len(u) - lag] - joints.q[lag:]
        ok = calm[lag:] & np.isfinite(error)
        count = np.maximum(ok.sum(axis=0), 1)
        middles = [np.where(ok, x, 0.0).sum(axis=0) / count for x in (error, load[lag:])]
        a, b = (np.where(ok, x - m, 0.0) for x, m in zip((error, load[lag:]), middles, strict=True))
        fit = float((a * b).sum() / np.sqrt(max((a * a).sum() * (b * b).sum(), 1e-12)))
        if fit > best:
            ratio = float((a * b).sum() / max((b * b).sum(), 1e-12))
            best, found = fit, np.where(count >= 50, ratio * middles[1] - middles[0], np.nan)
    return found
