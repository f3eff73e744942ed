"""Patterns that a fit leaves in its residuals, in words: what the Params given to it cannot express.

autocorrelation  Σ r_t r_(t+k) / Σ r_t²  at 10 ms or one sample, whichever is longer
against x        share of the residual's variance that its mean in ten classes of x explains, beyond what chance would
"""

import numpy as np

from surefoot.identify.fit import Misfit
from surefoot.identify.residuals import Problem
from surefoot.logs import Log

CLASSES = 10
SHARE = 0.1
"""Share of the variance from which a pattern is reported."""
CORRELATED = 0.5
"""Autocorrelation from which it is reported."""
LAG = 0.01  # [s]
SUGGESTS = {
    "speed": "friction or back-EMF that grows differently with speed",
    "direction": "friction that differs by direction, or backlash",
    "position": "a torque or friction that depends on position: gravity, a spring, a cable, cogging, a linkage that binds",
    "load": "friction or compliance that grows with the load, or saturation",
    "voltage": "a motor that weakens as the supply sags",
    "temperature": "a motor or friction that changes as it warms",
    "drift": "something that changes over the recording, such as temperature or a loose mount",
}


def patterns(problem: Problem, r: np.ndarray) -> tuple[Misfit, ...]:
    """Patterns in the weighted residuals r (fitted windows, n), strongest first."""
    rollouts, found = problem.rollouts, []
    seen = rollouts.seen[problem.rows]
    for i, (channel, column, unit) in enumerate(rollouts.labels):
        here = rollouts.column == i
        part, mask, t = r[:, here], seen[:, here], rollouts.t[problem.rows][:, here]
        level = float(problem.sigma[i] / problem.floor[i])
        if level < 1.5:
            continue  # As good as the sensor is.
        near = autocorrelation(part, mask, t)
        if near > CORRELATED:
            sentence = (
                f"{column}: the residual of {channel} is {problem.sigma[i]:.3g} {unit}, {level:.3g} times the noise floor, and "
                f"hangs together over time (autocorrelation {near:.2f} after {1e3 * LAG:.0f} ms): the model lacks something"
            )
            found.append(
                Misfit(channel=channel, column=column, kind="autocorrelation", strength=near, sentence=sentence)
            )
        for kind, x in features(problem, channel, column, t).items():
            share = explained(part[mask], x[mask], near)
            if share > SHARE:
                sentence = (
                    f"{column}: {share:.0%} of the residual of {channel} goes with {_words(kind)}: {SUGGESTS[kind]}"
                )
                found.append(Misfit(channel=channel, column=column, kind=kind, strength=share, sentence=sentence))
    return tuple(sorted(found, key=lambda m: (m.kind == "autocorrelation", -m.strength)))


def _words(kind: str) -> str:
    return {
        "direction": "the direction of motion",
        "drift": "time",
        "load": "the load",
        "voltage": "the supply voltage",
    }.get(kind, kind)


def autocorrelation(r: np.ndarray, seen: np.ndarray, t: np.ndarray) -> float:
    """Autocorrelation of residuals (windows, samples) after LAG seconds, windows on their own."""
    gaps = np.diff(t, axis=1)[seen[:, 1:]]
    lag = max(1, round(LAG / max(float(np.median(gaps)), 1e-9))) if gaps.size else 1
    if lag >= r.shape[1]:
        return 0.0
    both = seen[:, lag:] & seen[:, :-lag]
    top = float((r[:, lag:] * r[:, :-lag])[both].sum())
    square = (r[:, lag:][both] ** 2).sum() * (r[:, :-lag][both] ** 2).sum()
    return top / max(float(np.sqrt(square)), 1e-300)


def explained(r: np.ndarray, x: np.ndarray, near: float) -> float:
    """Share of the variance of r (n,) that its mean in classes of x explains, less what chance gives correlated residuals."""
    ok = np.isfinite(x)
    r, x = r[ok], x[ok]
    if len(r) < 10 * CLASSES or np.ptp(x) == 0:
        return 0.0
    levels = np.unique(x)
    edges = levels[1:] if len(levels) <= CLASSES else np.unique(np.quantile(x, np.linspace(0, 1, CLASSES + 1)[1:-1]))
    number = np.searchsorted(edges, x, side="right")
    count = np.bincount(number, minlength=len(edges) + 1).astype(float)
    mean = np.bincount(number, r, minlength=len(edges) + 1) / np.maximum(count, 1)
    total = float(((r - r.mean()) ** 2).sum())
    between = float((count * (mean - r.mean()) ** 2).sum()) / max(total, 1e-300)
    effective = len(r) * (1 - min(near, 0.999)) / (1 + min(near, 0.999))
    return max(between - len(edges) / max(effective, len(edges)), 0.0)


def features(problem: Problem, channel: str, column: str, t: np.ndarray) -> dict[str, np.ndarray]:
    """What the residual of a column may depend on, each (fitted windows, samples); NaN where the log does not say."""
    rows, out = problem.rows, {}
    windows = [problem.windows.windows[i] for i in rows]
    logs = problem.windows.logs
    at = np.array([w.start for w in windows])[:, None] + t
    if channel.startswith("joint_") and all("joint_pos" in log and column in log["joint_pos"].columns for log in logs):
        position = _read(logs, windows, "joint_pos", column, at)
        out["position"] = position
        speed = np.stack([_speed(logs[w.log], column, at[i]) for i, w in enumerate(windows)])
        still = 0.05 * float(np.std(speed))
        out["speed"] = np.abs(speed)
        out["direction"] = np.where(np.abs(speed) > still, np.sign(speed), np.nan)
        load = _load(problem, windows, column, at, position)
        if load is not None:
            out["load"] = load
    for name in {c.name for log in logs for c in log}:
        for kind in ("voltage", "temperature"):
            if kind in name and "target" not in name and all(name in log for log in logs):
                columns = logs[0][name].columns
                out[kind] = _read(logs, windows, name, column if column in columns else columns[0], at)
    if len(logs) == 1:
        out["drift"] = at
    return out


def _load(problem: Problem, windows: list, column: str, at: np.ndarray, position: np.ndarray) -> np.ndarray | None:
    """The torque on a joint where it was measured, else the commanded error that a position loop turns into torque."""
    logs, command = problem.windows.logs, problem.sim.command_channel
    if all("joint_torque" in log and column in log["joint_torque"].columns for log in logs):
        return _read(logs, windows, "joint_torque", column, at)
    if command == "joint_pos_target" and all(column in log[command].columns for log in logs):
        return _read(logs, windows, command, column, at) - position
    return None


def _read(logs: tuple[Log, ...], windows: list, name: str, column: str, at: np.ndarray) -> np.ndarray:
    return np.stack(
        [np.interp(at[i], logs[w.log][name].t, logs[w.log][name].column(column)) for i, w in enumerate(windows)]
    )


def _speed(log: Log, column: str, at: np.ndarray) -> np.ndarray:
    """Speed from positions, differenced over some 10 ms."""
    channel = log["joint_pos"]
    half = max(0.01, 1.5 * float(np.median(np.diff(channel.t))))
    y = channel.column(column)
    return (np.interp(at + half, channel.t, y) - np.interp(at - half, channel.t, y)) / (2 * half)
