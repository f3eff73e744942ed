"""Speed readings against the slope of the positions, and torques against the motor's law.

dq_i = d q_i / dt
τ_i = g (kp (u_i − q_i) − kd dq_i) + constant          g about 1: the gains that the motors really use
"""

from dataclasses import replace

import numpy as np

from surefoot.deploy.compare import DEGREES, number, order_in_words
from surefoot.deploy.findings import Notes, listed
from surefoot.deploy.joint_readings import WINDOW, Joints

SOME = 20
"""Samples beside the longest lag that a comparison with the targets needs."""
LAGS = 0.08
"""[s] Largest delay between a target and the joint that follows it."""
SPEED = 0.15
"""[rad/s] rms speed of a joint below which its speed reading cannot be judged."""
SAME_SPEED = (0.65, 1.5)
"""Factors between joint_vel and the slope of joint_pos that filters and noise may cause."""
SAME_TORQUE = (0.5, 1.7)
"""Factors between the motor's torque and that of the contract's gains that unknown motors may cause."""
LOAD = 1.0
"""[N·m] rms change of a motor's torque below which its gains cannot be judged."""
LATE = 0.025
"""[s] A speed this much later than the positions is a fault."""


def _smooth(values: np.ndarray, n: int) -> np.ndarray:
    """Means over n samples, (T − n + 1, k)."""
    total = np.cumsum(np.vstack([np.zeros((1, values.shape[1])), values]), axis=0)
    return (total[n:] - total[:-n]) / n


def _slopes(joints: Joints) -> tuple[np.ndarray, np.ndarray]:
    """Speeds from positions and as read, averaged over the same windows, (m, n) each."""
    assert joints.dq is not None
    n = max(2, joints.samples(WINDOW))
    rise = (joints.q[n:] - joints.q[:-n]) / (joints.t[n:] - joints.t[:-n])[:, None]
    read = 0.5 * (_smooth(joints.dq, n)[:-1] + _smooth(joints.dq, n)[1:])
    return rise, read[: len(rise)]


def _corr(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Correlations of the columns of a with those of b about zero, (ka, kb); 0 with a column that does not move."""
    return _over(a.T @ b, np.sqrt(np.outer((a * a).sum(0), (b * b).sum(0))))


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def check_speed(joints: Joints, stuck: set[str], notes: Notes) -> None:
    """joint_vel against the slope of joint_pos: sign, scale, degrees, order, delay."""
    if joints.dq is None:
        notes.unchecked.append("joint_vel: the log lacks it")
        return
    if any(f.where == "driver" and f.term == "joint_pos" and f.kind == "degrees" for f in notes.findings):
        joints = replace(joints, q=joints.q / DEGREES)
    turned = [f for f in notes.findings if f.where == "driver" and f.term == "joint_pos" and f.kind == "sign"]
    dead = np.array([any(f"{c}/{n}" in stuck for c in ("joint_pos", "joint_vel")) for n in joints.names])
    rise, read = _slopes(joints)
    size = np.sqrt(np.mean(rise**2, axis=0))
    read_size = np.sqrt(np.mean(read**2, axis=0))
    use = (size > SPEED) & ~dead & np.isfinite(read_size)
    idle = [n for n, u, d in zip(joints.names, use, dead, strict=True) if not u and not d]
    if idle:
        notes.unchecked.append(f"joint_vel: {listed(idle)} did not move enough to judge its speed")
    if not use.any():
        return
    names = [n for n, u in zip(joints.names, use, strict=True) if u]
    rise, read = rise[:, use], read[:, use]
    cause = _speed_cause(rise, read, names, joints)
    if cause is not None and cause[0] == "scale" and _steep(rise, read):
        detail = f"{listed(cause[2] or names)}: its slope is 57.3 times joint_vel: in degrees, radians are meant"
        notes.find("driver", "joint_pos", "degrees", detail, cause[2])
    elif cause is None:
        notes.checked.append(f"joint_vel: the slope of joint_pos for {len(names)} joints")
    elif cause[0] == "sign" and turned and set(cause[2] or names) <= set(turned[0].columns):
        notes.checked.append("joint_vel: its sign is right where that of joint_pos is not")
    else:
        notes.find("driver", "joint_vel", *cause)


def _steep(rise: np.ndarray, read: np.ndarray) -> bool:
    """Whether positions change 180/π times as fast as the speeds say."""
    return 0.75 < float(np.median(_factor(rise, read))) / DEGREES < 1.35


def _speed_cause(
    rise: np.ndarray, read: np.ndarray, names: list[str], joints: Joints
) -> tuple[str, str, list[str]] | None:
    """Kind, sentence and columns of what is wrong with the speeds `read`; None where nothing is."""
    corr = _corr(read, rise)
    own = np.diag(corr)
    factor = _factor(read, rise)
    bad = (own < 0.5) | (factor < SAME_SPEED[0]) | (factor > SAME_SPEED[1])
    if not bad.any():
        late, gain = _lag(rise, read, joints)
        if late * joints.dt > LATE and gain > 0.03:
            return "delayed", f"it is {1e3 * late * joints.dt:.3g} ms later than the slope of joint_pos", []
        return None
    off = [n for n, b in zip(names, bad, strict=True) if b]
    columns = off if len(off) < len(names) else []
    who = listed(off)
    turned = (-own > 0.5) & (-factor > SAME_SPEED[0]) & (-factor < SAME_SPEED[1])
    if (turned | ~bad).all():
        return "sign", f"{who}: its sign is opposite to the slope of joint_pos (correlation {own[bad].mean():.2f})", off
    if (own[bad] > 0.5).all():
        middle = float(np.median(factor[bad]))
        if 0.75 < middle / DEGREES < 1.35:
            return "degrees", f"{who}: {number(middle)} times the slope of joint_pos: in degrees per second", columns
        return "scale", f"{who}: {number(middle)} times the slope of joint_pos", columns
    late, gain = _lag(rise, read, joints)
    if late * joints.dt > LATE and gain > 0.2:
        return "delayed", f"it is {1e3 * late * joints.dt:.3g} ms later than the slope of joint_pos", columns
    from scipy.optimize import linear_sum_assignment

    order = linear_sum_assignment(-corr)[1]
    moved = order != np.arange(len(names))
    if moved.any() and corr[np.flatnonzero(moved), order[moved]].min() > 0.6 and own[moved].max() < 0.9:
        detail = f"{order_in_words(names, order)}: each is the slope of the other joint's position"
        return "permuted", detail, [n for n, m in zip(names, moved, strict=True) if m]
    return "unexplained", f"{who}: it is not the slope of joint_pos (correlation {own[bad].mean():.2f})", off


def _factor(read: np.ndarray, rise: np.ndarray) -> np.ndarray:
    """read ≈ factor · rise per column, with noise in both: ratio of sizes, sign of the correlation."""
    return np.sqrt(_over((read**2).sum(0), (rise**2).sum(0))) * np.sign(np.diag(_corr(read, rise)))


def _lag(rise: np.ndarray, read: np.ndarray, joints: Joints) -> tuple[int, float]:
    """Samples by which `read` is late against `rise`, and how much better the mean correlation is there."""

    def mean(lag: int) -> float:
        a, b = (rise[: len(rise) - lag], read[lag:]) if lag >= 0 else (rise[-lag:], read[:lag])
        return float(np.mean(np.diag(_corr(b, a))))

    most = joints.samples(0.15)
    found = max(range(-2, most + 1), key=mean)
    return found, mean(found) - mean(0)


# ---------------------------------------------------------------- the motor's law


def check_motor(joints: Joints, notes: Notes) -> None:
    """Measured torque against the contract's gains: sign, and the gains that the motors really use."""
    if joints.tau is None or joints.u is None or joints.kp is None:
        notes.unchecked.append("joint_torque: the motors' gains, needs joint_torque, position targets and gains")
        return
    if notes.blames("joint_pos"):
        notes.unchecked.append("joint_torque: the motors' gains, joint_pos is wrong already")
        return
    told = int((np.isfinite(joints.u) & np.isfinite(joints.tau)).any(axis=1).sum())
    if told < joints.samples(LAGS) + SOME:
        notes.unchecked.append(f"joint_torque: the motors' gains, only {told} samples have a target and a torque")
        return
    kd = np.zeros_like(joints.kp) if joints.kd is None else joints.kd
    dq = joints.slope
    fits = []
    for lag in range(0, joints.samples(LAGS) + 1):
        u = joints.u[: len(joints.u) - lag] if lag else joints.u
        q, tau = joints.q[lag:], joints.tau[lag:]
        law = joints.kp * (u - q) - kd * dq[lag:]
        ok = np.isfinite(law) & np.isfinite(tau)
        a, b = (np.where(ok, x - np.nanmean(np.where(ok, x, np.nan), axis=0), 0.0) for x in (law, tau))
        with np.errstate(invalid="ignore", divide="ignore"):
            corr = (a * b).sum(0) / np.sqrt((a * a).sum(0) * (b * b).sum(0))
            gain = (a * b).sum(0) / (a * a).sum(0)
        fits.append((np.nanmean(np.abs(corr)), corr, gain, np.sqrt((a * a).mean(0))))
    _, corr, gain, size = max(fits, key=lambda fit: fit[0] if np.isfinite(fit[0]) else -1.0)
    use = np.isfinite(corr) & (size > LOAD)
    if not use.any() or np.nanmean(np.abs(corr[use])) < 0.5:
        notes.unchecked.append("joint_torque: it hardly follows the motors' law, so their gains cannot be told")
        return
    names = np.array(joints.names)
    turned = use & (corr < -0.5)
    if turned.any():
        detail = f"{listed(names[turned])}: opposite to kp (target - q) - kd dq (correlation {corr[turned].mean():.2f})"
        notes.find("driver", "joint_torque", "sign", detail, names[turned])
        return
    middle = float(np.median(gain[use]))
    odd = use & ((gain < SAME_TORQUE[0]) | (gain > SAME_TORQUE[1])) & (corr > 0.7)
    if not SAME_TORQUE[0] < middle < SAME_TORQUE[1]:
        detail = f"torques are {middle:.2g} times those of the contract's gains: the motors use others"
        notes.find("driver", "joint_torque", "gains", detail)
    elif odd.any():
        detail = f"{listed(names[odd])}: torque {gain[odd].mean():.2g} times that of the contract's gains, {middle:.2g} elsewhere"
        notes.find("driver", "joint_torque", "gains", detail, names[odd])
    else:
        notes.checked.append(f"joint_torque: {middle:.2g} times the contract's motor law")
