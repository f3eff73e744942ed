"""Joint readings and commands of a recorded run on one time grid, as the checks against physics read them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.deploy.recorded_run import Run

WINDOW = 0.03
"""[s] Over which speeds are averaged."""


@dataclass(frozen=True, kw_only=True)
class Joints:
    """Joint readings and commands on one time grid; arrays are (T, n), None where the log lacks them."""

    names: tuple[str, ...]
    t: np.ndarray
    q: np.ndarray
    dq: np.ndarray | None
    tau: np.ndarray | None
    u: np.ndarray | None
    kp: np.ndarray | None
    kd: np.ndarray | None

    @property
    def dt(self) -> float:
        """Time between two samples [s]."""
        return float(np.median(np.diff(self.t)))

    @property
    def slope(self) -> np.ndarray:
        """Speeds from the positions alone, averaged over WINDOW, (T, n) [rad/s]; right also where joint_vel is not."""
        n = min(max(1, round(WINDOW / self.dt / 2)), (len(self.t) - 1) // 2)
        last = len(self.t) - 1
        high, low = np.minimum(np.arange(len(self.t)) + n, last), np.maximum(np.arange(len(self.t)) - n, 0)
        return (self.q[high] - self.q[low]) / (self.t[high] - self.t[low])[:, None]

    def samples(self, seconds: float) -> int:
        """How many samples are in `seconds`, from 1."""
        return max(1, round(seconds / self.dt))

    def only(self, use: np.ndarray) -> "Joints":
        """The same of some joints, (n,) bool."""
        names = tuple(name for name, yes in zip(self.names, use, strict=True) if yes)
        return self._mapped(lambda x: x[..., use], names=names, t=self.t)

    def thinned(self, most: int = 1500) -> "Joints":
        """The same with fewer samples, evenly, so that all pairs of joints can be compared quickly."""
        step = max(1, int(np.ceil(len(self.t) / most)))
        thin = self._mapped(lambda x: x[::step], names=self.names, t=self.t[::step])
        return replace(thin, kp=self.kp, kd=self.kd)

    def _mapped(self, change: Callable[[np.ndarray], np.ndarray], **others: Any) -> "Joints":
        """Every array changed alike."""
        arrays = {name: getattr(self, name) for name in ("q", "dq", "tau", "u", "kp", "kd")}
        return Joints(**{name: None if x is None else change(x) for name, x in arrays.items()}, **others)


FEWEST, SHORTEST = 20, 0.3
"""Samples and time [s] of joint_pos below which nothing can be said about motion."""


def joints_of(run: Run) -> Joints | None:
    """The joints that every joint channel of the log has, in the contract's order; None without enough of joint_pos."""
    log, contract = run.log, run.contract
    if "joint_pos" not in log or len(log["joint_pos"]) < FEWEST or np.ptp(log["joint_pos"].t) < SHORTEST:
        return None
    names = tuple(j for j in contract.joints if j in log["joint_pos"].columns)
    if not names:
        return None
    t = log["joint_pos"].t

    def columns(channel: str) -> np.ndarray | None:
        if channel not in log:
            return None
        own = log[channel]
        values = run.at(channel, t)
        have = run.columns(channel)
        fill = np.full((len(t), len(names)), np.nan)
        for i, name in enumerate(names):
            if name in own.columns:
                fill[:, i] = values[:, have.index(name)]
        return fill

    q = columns("joint_pos")
    assert q is not None
    positions = contract.action.kind == "joint_pos_target"
    gains = [None if getattr(contract, k) is None else np.array(getattr(contract, k)) for k in ("kp", "kd")]
    places = [contract.joints.index(n) for n in names]
    kp, kd = (None if g is None else g[places] for g in gains)
    for name, fallback in (("motor_kp", 0), ("motor_kd", 1)):
        if gains[fallback] is None and name in log:
            found = np.nanmedian(columns(name), axis=0)  # type: ignore[arg-type]
            kp, kd = (found, kd) if fallback == 0 else (kp, found)
    return Joints(
        names=names, t=t, q=q, dq=columns("joint_vel"), tau=columns("joint_torque"),
        u=_held_targets(run, t, names) if positions else None, kp=kp, kd=kd,
    )  # fmt: skip


def _held_targets(run: Run, t: np.ndarray, names: tuple[str, ...]) -> np.ndarray | None:
    """Sent position targets at times t, NaN before the first and where the motors were not position controlled."""
    kind = run.contract.action.kind
    if kind not in run.log:
        return None
    own = run.log[kind]
    out = np.full((len(t), len(names)), np.nan)
    values = run.at(kind, t)
    for i, name in enumerate(names):
        if name in own.columns:
            out[:, i] = values[:, run.columns(kind).index(name)]
    out[t < own.t[0] - 1e-6] = np.nan
    if "motor_kp" in run.log:
        kp = run.log["motor_kp"]
        have = run.columns("motor_kp")
        gains = run.at("motor_kp", t)
        for i, name in enumerate(names):
            if name in have:
                column = gains[:, have.index(name)]
                out[column < 0.5 * kp.values[:, kp.columns.index(name)].max(), i] = np.nan
    return out
