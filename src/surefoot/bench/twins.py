"""Does a policy walk on robots that share nothing with its simulator? A bundle on every stand-in Go2, from nominal to nasty.

A run is a success when the robot neither fell nor was stopped while the policy ran, and its mean velocity after the first 2 s was
off by at most 0.2 m/s and 0.25 rad/s. The judge reads the referee's files; the runtime sees sensors and commands alone.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surefoot.bench.table import Mark, Request, aligned
from surefoot.deploy.bundle import load_bundle
from surefoot.deploy.runtime import deploy
from surefoot.errors import InputError
from surefoot.hardware.connect import connect, reality_path, shipped
from surefoot.hardware.reality import load_reality
from surefoot.hardware.referee import Truth, read_truth
from surefoot.hardware.twin import Twin

ROBOT, POLICY = "go2", "go2-walk"
COMMANDS = ((0.6, 0.0, 0.0), (0.3, 0.3, 0.0), (0.4, 0.0, 0.7))
"""Forward [m/s], sideways [m/s], turning [rad/s]."""
SECONDS, SETTLED = 6.0, 2.0
SPEED, TURN = 0.2, 0.25
"""Largest error of the mean velocity [m/s], [rad/s]."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """How one deployment went."""

    name: str
    level: float
    survived: bool
    speed_error: float  # [m/s]
    turn_error: float  # [rad/s]
    said: str

    @property
    def success(self) -> bool:
        """Whether it walked as asked."""
        return self.survived and self.speed_error <= SPEED and self.turn_error <= TURN


def judged(truth: Truth, *, name: str, start: float, lasted: float, said: str, command: tuple[float, ...]) -> Run:
    """The judgement of one run, from what was true while the policy drove (from `start` for `lasted` seconds)."""
    driven, late = truth.after(start, start + lasted), truth.after(start + SETTLED, start + lasted)
    survived = lasted >= SECONDS - 0.01 and not truth.fallen()[driven].any()
    error, turn = np.inf, np.inf
    if late.any():
        w, x, y, z = truth.quat[late].T
        yaw = np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))
        vx, vy = truth.base_vel_world[late, 0], truth.base_vel_world[late, 1]
        ahead, aside = np.cos(yaw) * vx + np.sin(yaw) * vy, np.cos(yaw) * vy - np.sin(yaw) * vx
        error = float(np.hypot(ahead.mean() - command[0], aside.mean() - command[1]))
        turn = abs(float(truth.gyro[late, 2].mean()) - command[2])
    level = float(truth.about["level"])
    return Run(name=name, level=level, survived=bool(survived), speed_error=error, turn_error=turn, said=said)


def walk(bundle: Path, reality: str, command: tuple[float, ...], *, seed: int = 0) -> Run:
    """Deploy a bundle on a stand-in robot in lockstep, and judge it."""
    with tempfile.TemporaryDirectory() as there:
        referee = Path(there) / "truth.npz"
        hardware = connect(f"twin:{reality}", lockstep=True, seed=seed, referee=referee)
        try:
            asked: dict[str, float] = {"vx": command[0], "vy": command[1], "yaw_rate": command[2]}
            outcome = deploy(bundle, hardware, seconds=SECONDS, command=asked, say=None)
        finally:
            hardware.close()
        start = dict(outcome.stages).get("policy", np.inf)
        said = "" if outcome.ended == "finished" else outcome.reason
        return judged(
            read_truth(referee), name=reality, start=start, lasted=outcome.seconds, said=said, command=command
        )


def speed() -> float:
    """How much faster than real time the nominal twin runs on one core (thread CPU time), standing with its feet on the ground."""
    twin = Twin(load_reality(reality_path(f"{ROBOT}/01-nominal")))
    pose, n = np.array([twin.robot.pose[j] for j in twin.robot.joints]), len(twin.plant.outputs)
    gains = [[a.kp for a in twin.robot.actuators], [a.kd for a in twin.robot.actuators]]
    order = np.stack([pose, *gains, np.zeros(n), np.zeros(n)])
    best = 0.0
    for _ in range(3):
        start, begin = twin.t, time.thread_time()
        while twin.t < start + 1.0:
            twin.tell("joint_pos_target", order)
            twin.advance()
        best = max(best, (twin.t - start) / (time.thread_time() - begin))
    return best


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's, ties sharing their mean rank; 0 where one of them does not vary."""
    from scipy.stats import rankdata

    x, y = rankdata(a), rankdata(b)
    return float(np.corrcoef(x, y)[0, 1]) if x.std() and y.std() else 0.0


def measure(request: Request, bundle: Path | None = None) -> list[Mark]:
    """The table from nominal to nasty, and the marks on it.

    Args:
        request: quick takes three realities; `realities` is a folder of others.
        bundle: of a Go2 policy; None: the shipped one.
    """
    names = list(shipped(ROBOT)) if request.realities is None else sorted(map(str, request.realities.glob("*.toml")))
    if not names:
        raise InputError(
            f"--realities {request.realities} holds no .toml file: give the folder of some stand-in robots"
        )
    if request.quick:
        names = [names[i] for i in sorted({0, len(names) // 2, len(names) - 1})]
    chosen = bundle or load_bundle(POLICY).folder
    runs: dict[str, list[Run]] = {}
    for name in names:
        runs[name] = [walk(chosen, name, command) for command in COMMANDS]
        request.tell(f"twins: {_row(name, runs[name])}")
    request.tell(_table(runs))
    level = np.array([r[0].level for r in runs.values()])
    success = np.array([np.mean([x.success for x in r]) for r in runs.values()])
    error = np.array([np.mean([min(x.speed_error, 1.0) for x in r]) for r in runs.values()])
    about = f"{len(names)} realities, {len(COMMANDS)} commands each"
    trend = rank_correlation(level, success)
    pace = speed()
    return [
        Mark(
            name="twins: success on nominal",
            value=float(success[0]),
            op="==",
            mark=1.0,
            reference=f"{names[0]}, {len(COMMANDS)} commands",
        ),
        Mark(name="twins: success, all", value=float(success.mean()), reference=about),
        Mark(
            name="twins: success on the nastiest",
            value=float(success[np.argmax(level)]),
            reference=names[int(np.argmax(level))],
        ),
        Mark(name="twins: rank correlation of level and success", value=trend, op="<=", mark=-0.5, reference=about),
        Mark(
            name="twins: rank correlation of level and speed error",
            value=rank_correlation(level, error),
            reference=about,
        ),
        Mark(
            name="twins: speed of the nominal twin",
            value=pace,
            unit="x real time",
            op=">=",
            mark=3.0,
            reference="one core, 1 ms step",
        ),
        *(_mark(name, found) for name, found in runs.items()),
    ]


def _mark(name: str, runs: list[Run]) -> Mark:
    """One row of the table from nominal to nasty."""
    survived, errors = sum(r.survived for r in runs), ", ".join(f"{r.speed_error:.2f}" for r in runs)
    return Mark(
        name=f"twins: success on {name}",
        value=float(np.mean([r.success for r in runs])),
        reference=f"level {runs[0].level:g}; {survived} of {len(runs)} survived; speed errors {errors} m/s",
    )


def _row(name: str, runs: list[Run]) -> str:
    said = "; ".join(dict.fromkeys(r.said for r in runs if r.said))
    return f"{name}: {sum(r.success for r in runs)} of {len(runs)}" + (f" ({said})" if said else "")


def _table(runs: dict[str, list[Run]]) -> str:
    rows = [("reality", "level", "success", "survived", "speed error [m/s]", "turn error [rad/s]")]
    for name, found in runs.items():
        errors = " ".join(f"{r.speed_error:.2f}" for r in found)
        turns = " ".join(f"{r.turn_error:.2f}" for r in found)
        wins, alive = (
            f"{sum(flags)}/{len(found)}" for flags in ([r.success for r in found], [r.survived for r in found])
        )
        rows.append((Path(name).stem, f"{found[0].level:g}", wins, alive, errors, turns))
    return aligned(rows)
