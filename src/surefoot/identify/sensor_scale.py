"""Inertial sensors in counts: scale and offset from poses at rest and the turns between them.

accelerometer   |(count − offset) · factor| = g in every pose
gyro            ∫ (count − offset) · factor dt turns gravity from one pose to the next
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.errors import InputError
from surefoot.identify.rest import stretches_of_rest
from surefoot.logs import Log

G = 9.80665


@dataclass(frozen=True, kw_only=True, eq=False)
class Scale:
    """reading [SI] = (count − offset) · factor, from poses at rest.

    Attributes:
        offset, factor: of each axis, (3,).
        residual: root mean square of |a| − g over the poses [m/s²]; for a gyro, median error of gravity after a turn [rad].
        poses: number of them.
    """

    offset: np.ndarray
    factor: np.ndarray
    residual: float
    poses: int


def imu_scales(logs: Sequence[Log]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Channels of gyro and accelerometer, and SI units per count (3,) of those that the logs have in counts only.

    Counts stand in `gyro_raw` and `accel_raw`; the log with most poses at rest scales them.
    """
    names = {name for log in logs for name in log.names}
    channels = {s: next((n for n in (s, f"{s}_raw") if n in names), "") for s in ("gyro", "accel")}
    channels = {sensor: name for sensor, name in channels.items() if name}
    scales: dict[str, np.ndarray] = {}
    if not any(name.endswith("_raw") for name in channels.values()):
        return channels, scales
    if "accel" not in channels:
        raise InputError(
            "gyro_raw is scaled by turns of gravity, and the logs have no accelerometer: let their mapping scale it"
        )
    having = [log for log in logs if all(name in log for name in channels.values())]
    if not having:
        raise InputError("gyro and accelerometer stand in different logs: let their mappings scale the counts")
    most = max(having, key=lambda log: len(stretches_of_rest(log, channels["accel"])))
    accel = Scale(offset=np.zeros(3), factor=np.ones(3), residual=0.0, poses=0)
    if channels["accel"] == "accel_raw":
        accel = accel_scale(most)
        scales["accel"] = accel.factor
    if channels.get("gyro") == "gyro_raw":
        scales["gyro"] = gyro_scale(most, accel, accel_channel=channels["accel"]).factor
    return channels, scales


def accel_scale(log: Log, channel: str = "accel_raw") -> Scale:
    """Scale and offset of an accelerometer that was held still in several poses: |a| = g in all of them."""
    from scipy.optimize import least_squares

    rests = stretches_of_rest(log, channel)
    means = np.stack([r.values.mean(0) for r in rests])
    weights = np.sqrt([r.seconds for r in rests])
    if len(means) < 9:
        raise InputError(
            f"{len(means)} poses at rest cannot give scale and offset of three axes of '{channel}': hold it still in at least 9, "
            "or let the mapping of the log scale its counts"
        )
    offset, half = 0.5 * (means.max(0) + means.min(0)), 0.5 * np.ptp(means, axis=0)
    if (half < 1e-6 * np.abs(means).max()).any():
        raise InputError("the poses do not turn every axis: hold the sensor still with each axis up and down")
    start = np.concatenate([offset, G / half])

    def rest(x: np.ndarray) -> np.ndarray:
        return weights * (np.linalg.norm((means - x[:3]) * x[3:], axis=1) - G)

    found = least_squares(rest, start, x_scale=np.abs(start) + 1e-12, loss="soft_l1", f_scale=0.05)
    off = np.linalg.norm((means - found.x[:3]) * found.x[3:], axis=1) - G
    return Scale(offset=found.x[:3], factor=found.x[3:], residual=float(np.sqrt((off**2).mean())), poses=len(means))


def gyro_scale(log: Log, accel: Scale, channel: str = "gyro_raw", accel_channel: str = "accel_raw") -> Scale:
    """Scale of a gyro in counts, from turns between poses at rest: ∫ω dt must turn gravity from one pose to the next.

    Its offset is the mean of each pose at rest before the turn.
    """
    from scipy.optimize import least_squares

    rests = stretches_of_rest(log, accel_channel)
    gravity = np.stack([(r.values.mean(0) - accel.offset) * accel.factor for r in rests])
    gravity /= np.linalg.norm(gravity, axis=1, keepdims=True)
    c = log[channel]
    dt = float(np.median(np.diff(c.t)))
    ends = [(a.stop - 0.5, b.start + 0.5) for a, b in itertools.pairwise(rests)]
    parts = [c.values[(c.t >= a) & (c.t < b)] for a, b in ends]
    quiet = [c.values[(c.t >= a.start) & (c.t < a.stop)].mean(0) for a in rests[:-1]]
    turned = np.array([np.ptp(p, axis=0).max() for p in parts]) > 0
    if turned.sum() < 6:
        raise InputError("fewer than 6 turns between poses at rest: turn the sensor about every axis between poses")
    longest = max(len(p) for p in parts)
    rate = np.zeros((len(parts), longest, 3))
    for i, (p, q) in enumerate(zip(parts, quiet, strict=True)):
        rate[i, : len(p)] = p - q

    def after(factor: np.ndarray) -> np.ndarray:
        """Gravity after each turn as the gyro saw it, (turns, 3): g' = −ω × g, one rotation a sample."""
        g = gravity[:-1].copy()
        for k in range(longest):
            w = rate[:, k] * factor * dt
            angle = np.linalg.norm(w, axis=1, keepdims=True)
            axis = -w / np.where(angle > 0, angle, 1.0)
            g = (
                g * np.cos(angle)
                + np.cross(axis, g) * np.sin(angle)
                + axis * (axis * g).sum(1, keepdims=True) * (1 - np.cos(angle))
            )
        return g

    typical = np.pi / max(
        float(np.median(np.abs(rate).sum(1).max(1))) * dt, 1e-300
    )  # most turns are of about a quarter to a half
    guess = max(
        (np.geomspace(0.1, 3.0, 40) * typical).tolist(), key=lambda f: float((after(np.full(3, f)) * gravity[1:]).sum())
    )
    found = least_squares(
        lambda x: (after(guess * x) - gravity[1:]).reshape(-1), np.ones(3), loss="soft_l1", f_scale=0.05
    )
    off = np.linalg.norm(after(guess * found.x) - gravity[1:], axis=1)
    return Scale(
        offset=np.mean(quiet, axis=0), factor=guess * found.x, residual=float(np.median(off)), poses=len(rests)
    )
