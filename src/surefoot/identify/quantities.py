"""What a missing torque or a wrong reading may go with, as the logs tell it: speed, direction, position, load, supply, warmth, time.

Each quantity has terms: functions of the time after a window's start, (windows, samples) -> (windows, samples), with a mean square of
about one over the fitted windows.
"""

from collections.abc import Callable

import numpy as np

from surefoot.identify.residuals import Problem
from surefoot.logs import Log

Term = Callable[[np.ndarray], np.ndarray]
STILL = 0.05
"""Speed below which the direction of motion fades, in standard deviations of the speed."""
SLOW = (0.1, 0.3)
"""Speeds at which friction that belongs to rest has faded, likewise."""
LOADED = 0.7
"""Quantile of the load's size from which a motor may saturate."""
SUPPLY = ("voltage", "supply_voltage", "battery_voltage", "bus_voltage")
"""Channels that tell the supply; voltages that a controller asks for or applies are commands."""


def quantities(
    problem: Problem, s: np.ndarray, rows: np.ndarray, i: int, t: np.ndarray
) -> tuple[dict[str, tuple[Term, ...]], dict[str, Term]]:
    """(terms of torques by quantity, terms of readings by quantity) for column i of a fit at s (d,).

    Over windows `rows`; t (windows, samples) are the column's times.
    """
    channel, column, _ = problem.rollouts.labels[i]
    logs, on = problem.windows.logs, _reader(problem, rows)

    def term(shape: Callable[[np.ndarray], np.ndarray]) -> Term | None:
        """`shape` of a time scaled to a mean square of one; None where it never moves."""
        found = shape(t)
        size = float(np.sqrt(np.nanmean(found**2))) if np.isfinite(found).any() else 0.0
        return None if not size > 1e-12 else lambda after: np.nan_to_num(shape(after)) / size

    readings: dict[str, Term] = {}
    slow = _slow(problem, on, column)
    for kind, signal in slow.items():
        if (found := term(lambda after, x=signal: x(after) - _mean(x(t)))) is not None:
            readings[kind] = found
    told = channel.startswith("joint_") and all(_has(log, "joint_pos", column) for log in logs)
    if not told or column not in problem.sim.robot.joints:
        return {}, readings
    shapes = _shapes(problem, s, on, column, t, slow)
    torques = {kind: tuple(f for f in map(term, made) if f is not None) for kind, made in shapes.items()}
    return {kind: made for kind, made in torques.items() if made}, readings


def _reader(problem: Problem, rows: np.ndarray) -> Callable[[Callable[[Log, np.ndarray], np.ndarray]], Term]:
    """Makes a signal of the logs one of times after the starts of windows `rows`."""
    logs, windows = problem.windows.logs, [problem.windows.windows[k] for k in rows]
    return lambda read: lambda after: np.stack([read(logs[w.log], w.start + after[k]) for k, w in enumerate(windows)])


def _mean(x: np.ndarray) -> float:
    return float(np.nanmean(x)) if np.isfinite(x).any() else 0.0


def _has(log: Log, name: str, column: str) -> bool:
    return name in log and column in log[name].columns


def _slow(problem: Problem, on: Callable, column: str) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Quantities that change slowly: supply voltage, temperature, the gain of each recording, time."""
    logs, out = problem.windows.logs, {}
    for name in sorted({c.name for log in logs for c in log}):
        kind = "voltage" if name in SUPPLY else "temperature" if "temperature" in name else ""
        if kind and kind not in out and all(name in log for log in logs):
            columns = logs[0][name].columns
            out[kind] = on(lambda log, at, n=name, c=column if column in columns else columns[0]: _at(log, n, c, at))
    if len({log.meta.get("kp") for log in logs}) > 1 and all("kp" in log.meta for log in logs):
        out["gain"] = on(lambda log, at: np.full(len(at), np.log(float(log.meta["kp"]))))
    if len(logs) == 1:
        out["drift"] = on(lambda log, at: at)
    return out


def _shapes(
    problem: Problem,
    s: np.ndarray,
    on: Callable,
    column: str,
    t: np.ndarray,
    slow: dict[str, Callable[[np.ndarray], np.ndarray]],
) -> dict[str, list[Callable[[np.ndarray], np.ndarray]]]:
    """Torques by the quantity they go with, of any size.

    What friction of any law takes is odd in the speed: it turns with it. What goes with the direction is the same at both signs, as
    friction that is stronger one way than the other.
    """
    position, speed = (
        on(lambda log, at: _at(log, "joint_pos", column, at)),
        on(lambda log, at: speed_of(log, column, at)),
    )
    middle, typical = _mean(position(t)), max(float(np.nanstd(speed(t))), 1e-12)

    def way(after: np.ndarray) -> np.ndarray:
        return np.tanh(speed(after) / (STILL * typical))

    def away(after: np.ndarray) -> np.ndarray:
        return position(after) - middle

    out: dict[str, list[Callable[[np.ndarray], np.ndarray]]] = {
        "speed": [
            way,
            lambda x: speed(x) * np.abs(speed(x)),
            *(lambda x, k=knee: way(x) * np.exp(-np.abs(speed(x)) / (k * typical)) for knee in SLOW),
        ],
        "direction": [lambda x: np.abs(speed(x)), lambda x: np.abs(way(x))],
        "position": [away, lambda x: away(x) ** 2, lambda x: way(x) * away(x)],
    }
    pull = load_of(problem, s, on, column)
    if pull is None:
        return out
    high = float(np.nanquantile(np.abs(pull(t)), LOADED))
    out["load"] = [
        lambda x: way(x) * np.abs(pull(x)),
        lambda x: np.sign(pull(x)) * np.maximum(np.abs(pull(x)) - high, 0.0),
    ]
    for kind, signal in slow.items():
        level = _mean(signal(t))
        out[kind] = [
            lambda x, f=signal, m=level: pull(x) * (f(x) - m),
            lambda x, f=signal, m=level: way(x) * (f(x) - m),
        ]
    return out


def load_of(problem: Problem, s: np.ndarray, on: Callable, column: str) -> Callable[[np.ndarray], np.ndarray] | None:
    """The torque on a joint where it was measured, else what its motor was asked for: a position error, a torque, a voltage."""
    logs, command = problem.windows.logs, problem.sim.command_channel
    if all(_has(log, "joint_torque", column) for log in logs):
        return on(lambda log, at: _at(log, "joint_torque", column, at))
    if not all(_has(log, command, column) for log in logs):
        return None
    late, damped = _delay(problem, s), 0.0
    if command == "joint_pos_target":
        motor = next((a for a in problem.sim.robot.actuators if a.name == column), None)
        damped = motor.kd / motor.kp if motor is not None and motor.kp else 0.0
        return on(
            lambda log, at: (
                _at(log, command, column, at - late)
                - _at(log, "joint_pos", column, at)
                - damped * speed_of(log, column, at)
            )
        )
    return on(lambda log, at: _at(log, command, column, at - late))


def _delay(problem: Problem, s: np.ndarray) -> float:
    """[s] Mean age of the commands that motors act on, at s (d,)."""
    e = {**problem.sim.params.nominal_e(1), **problem.fixed, **problem.apart.split(problem.e_of(s))[0]}
    return float(sum(np.mean(e[name]) for name, p in problem.sim.params.items() if p.kind == "command_delay"))


def _at(log: Log, name: str, column: str, at: np.ndarray) -> np.ndarray:
    return np.interp(at, log[name].t, log[name].column(column))


def speed_of(log: Log, column: str, at: np.ndarray) -> np.ndarray:
    """Speed from positions, differenced over some 10 ms."""
    channel = log["joint_pos"]
    half = max(0.01, 1.5 * float(np.median(np.diff(channel.t))))
    y = channel.column(column)
    return (np.interp(at + half, channel.t, y) - np.interp(at - half, channel.t, y)) / (2 * half)


def features(problem: Problem, s: np.ndarray, i: int, t: np.ndarray) -> dict[str, np.ndarray]:
    """Quantities beside the residual of column i in the fitted windows, each (windows, samples) at times t, for pictures."""
    channel, column, _ = problem.rollouts.labels[i]
    logs, on = problem.windows.logs, _reader(problem, problem.rows)
    out = {kind: signal(t) for kind, signal in _slow(problem, on, column).items()}
    if channel.startswith("joint_") and all(_has(log, "joint_pos", column) for log in logs):
        out["position"] = on(lambda log, at: _at(log, "joint_pos", column, at))(t)
        out["speed"] = np.abs(on(lambda log, at: speed_of(log, column, at))(t))
        if (pull := load_of(problem, s, on, column)) is not None:
            out["load"] = pull(t)
    return out
