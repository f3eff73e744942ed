"""Adversaries against the limits of the safety layer: no command may leave them.

Three kinds of steps are counted:

- noise: rows of commands and readings of every scale, with NaN, infinities and denormals, through `Limits.apply`, the limit stage that
  `Safety.step` calls, with the target sent before carried from step to step; thousands of robots at once;
- search: CMA-ES over short sequences of commands and readings, one search per limit, to bring a command out of it, through the same stage;
- whole: `Safety.step` itself, given nonsense of every kind: readings, commands, actions, observations, times.

The judge below is written on its own, from the guarantee, and shares no code with the stage.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from surefoot.bench.safety_runs import Bench
from surefoot.contract import Command, Contract, Reading
from surefoot.deploy.limits import KD, KP, TARGET, TORQUE, VELOCITY, Limits
from surefoot.deploy.safety import Safety
from surefoot.deploy.settings import SafetySettings

LIMITS = ("position", "rate", "kp", "kd", "torque")
ROWS = 2048
"""Robots side by side in the noise."""
SLACK = 1e-9
"""In units of each limit: what rounding may do."""
SEQUENCE = 6
"""Steps of a searched sequence."""


@dataclass(kw_only=True)
class Breaches:
    """How many steps of each kind there were, how many commands were outside, and the nearest approach to each limit."""

    steps: dict[str, int] = field(default_factory=lambda: {"noise": 0, "search": 0, "whole": 0})
    count: int = 0
    failed: int = 0
    """Steps in which the layer itself raised and took its last resort."""
    nearest: dict[str, float] = field(default_factory=lambda: dict.fromkeys(LIMITS, -math.inf))

    @property
    def sentence(self) -> str:
        """For the table."""
        parts = ", ".join(f"{n / 1e6:.3g} M {kind}" for kind, n in self.steps.items())
        near = ", ".join(f"{name} {value:+.0e}" for name, value in self.nearest.items())
        return (
            f"{sum(self.steps.values()) / 1e6:.3g} M steps ({parts}; noise and search go through the limit stage of Safety.step);"
            f" largest excess as a share of each limit: {near}; {self.failed} internal failures"
        )

    def add(self, kind: str, steps: int, excess: dict[str, np.ndarray]) -> None:
        """Count steps and what they exceeded."""
        self.steps[kind] += steps
        for name, value in excess.items():
            self.nearest[name] = max(self.nearest[name], float(value.max()))
            self.count += int(np.count_nonzero(~(value <= SLACK)))


def excess(
    s: SafetySettings,
    index: Any,
    sent: np.ndarray,
    before: np.ndarray,
    q: np.ndarray,
    dq: np.ndarray,
    dt: Any,
    derate: Any,
) -> dict[str, np.ndarray]:
    """By how much a command leaves each limit, as a share of the limit, (..., n); negative inside, inf where it is not finite.

    Args:
        s: the settings whose limits these are.
        index: joints of the outputs.
        sent: the command as rows (5, ..., n).
        before: target sent before.
        q: joint positions of the reading it was based on.
        dq: joint speeds of the same.
        dt: time since the command before [s], at most a period.
        derate: share of the torque that temperature allows.
    """

    def row(value: Any) -> np.ndarray:
        return np.asarray(value, dtype=float)[index]

    low, high = row(s.target_low), row(s.target_high)
    target, span = sent[TARGET], np.maximum(high - low, 1e-9)
    out = {
        "position": np.maximum(low - target, target - high) / span,
        "rate": (np.abs(target - before) - row(s.rate_limit) * dt) / (row(s.rate_limit) * s.period),
    }
    if s.kind == "joint_pos_target":
        for name, at, most in (("kp", KP, row(s.kp_max)), ("kd", KD, row(s.kd_max))):
            out[name] = np.maximum(sent[at] - most, -sent[at]) / np.maximum(most, 1e-9)
        tau = sent[KP] * (target - q) + sent[KD] * (sent[VELOCITY] - dq) + sent[TORQUE]
        stall, speed = row(s.torque_limit), row(s.no_load_speed)
        up = derate * stall * np.clip(1 - dq / speed, 0, 1)
        down = derate * stall * np.clip(1 + dq / speed, 0, 1)
        out["torque"] = np.maximum(tau - up, -down - tau) / stall
    broken = ~np.isfinite(sent).all(0)
    return {name: np.where(broken, math.inf, value) for name, value in out.items()}


# -------------------------------------------------------------------- noise


def wild(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of every scale; one in eight is not finite, a denormal, a zero, or as large as can be."""
    x = rng.standard_normal(shape) * 10.0 ** rng.uniform(-8, 8, (*shape[:-1], 1))
    odd = rng.integers(0, 64, shape)
    for number, value in enumerate((np.nan, np.inf, -np.inf, 5e-324, -2e-310, 0.0, 1.7e308, -1.7e308)):
        x[odd == number] = value
    return x


def noise(found: Breaches, s: SafetySettings, steps: int, rng: np.random.Generator) -> None:
    """Rows of robots that are told nonsense, for as many steps as asked."""
    n = len(s.joints)
    index, rows = np.arange(n), min(ROWS, max(1, steps // 8))
    limits = Limits(s, index)
    low, high = np.asarray(s.target_low), np.asarray(s.target_high)
    before = low + rng.random((rows, n)) * (high - low)
    done = 0
    while done < steps:
        wanted = wild(rng, (5, rows, n))
        tame = rng.random((rows, 1)) < 0.5
        near = low + rng.uniform(-0.2, 1.2, (rows, n)) * (high - low)
        wanted[TARGET] = np.where(tame, near, wanted[TARGET])
        wanted[KP : KD + 1] = np.where(
            tame, rng.uniform(0, 1.5, (2, rows, n)) * limits.roof[KP : KD + 1, None], wanted[KP : KD + 1]
        )
        q = low + rng.uniform(-0.3, 1.3, (rows, n)) * (high - low)
        dq = rng.standard_normal((rows, n)) * 10.0 ** rng.uniform(-3, 2.5, (rows, 1))
        dt, derate = s.period * rng.random((rows, 1)) ** 0.3, rng.uniform(s.derate_floor, 1.0, (rows, n))
        sent = limits.apply(wanted, before, q, dq, dt, derate)
        found.add("noise", rows, excess(s, index, sent, before, q, dq, dt, derate))
        before, done = sent[TARGET].copy(), done + rows


# -------------------------------------------------------------------- search


def search(found: Breaches, s: SafetySettings, limit: str, steps: int, seed: int) -> None:
    """CMA-ES for one limit: short sequences (command, reading, time) of all joints alike, from the middle of the range.

    Each number is z -> middle + sinh(z) · size, so that the search reaches both fine and huge values.
    """
    import cma

    n = len(s.joints)
    index, limits = np.arange(n), Limits(s, np.arange(n))
    low, high = np.asarray(s.target_low), np.asarray(s.target_high)
    size = np.stack(
        [high - low, limits.speed, limits.kp_max + 1e-3, limits.kd_max + 1e-3, limits.stall, high - low, limits.speed]
    )
    middle = np.stack(
        [0.5 * (low + high), 0 * low, 0.5 * limits.kp_max, 0.5 * limits.kd_max, 0 * low, 0.5 * (low + high), 0 * low]
    )
    width, done = SEQUENCE * 8, 0
    while done < steps:
        seed += 1
        engine = cma.CMAEvolutionStrategy(
            width * [0.0], 1.0, {"seed": seed + 1, "verbose": -9, "popsize": 64, "maxiter": 60}
        )
        while not engine.stop() and done < steps:
            asked = engine.ask()
            z = np.asarray(asked).reshape(len(asked), SEQUENCE, 8)
            before = np.tile(middle[0], (len(asked), 1))
            worst = np.full(len(asked), -math.inf)
            for k in range(SEQUENCE):
                x = middle[:, None] + np.sinh(np.clip(z[:, k, :7].T, -50, 50))[..., None] * size[:, None]
                q, dq = np.clip(x[5], -1e3, 1e3), np.clip(x[6], -1e3, 1e3)
                dt = s.period / (1 + np.exp(-np.clip(z[:, k, 7:], -30, 30)))
                sent = limits.apply(x[:5].copy(), before, q, dq, dt, 1.0)
                over = excess(s, index, sent, before, q, dq, dt, 1.0)
                found.add("search", len(asked), over)
                worst = np.maximum(worst, over[limit].max(-1))
                before = sent[TARGET].copy()
            done += len(asked) * SEQUENCE
            engine.tell(asked, (-worst).tolist())


# -------------------------------------------------------------------- the whole layer


def nonsense(contract: Contract, rng: np.random.Generator) -> Callable[[float], tuple[tuple, dict]]:
    """What a broken runtime and a broken driver might give, step by step."""
    n, kind = len(contract.joints), contract.action.kind
    odd_objects = (None, "words", 3, [], {}, np.zeros((2, 2)), np.array(["a"]), object())

    def numbers(size: int) -> Any:
        dice = rng.random()
        if dice < 0.04:
            return odd_objects[int(rng.integers(len(odd_objects)))]
        if dice < 0.08:
            size = int(rng.integers(0, 30))
        return wild(rng, (size,)) if dice < 0.4 else rng.standard_normal(size)

    def values() -> Any:
        pose = np.asarray(contract.pose)
        good = {
            "joint_pos": pose + 0.1 * rng.standard_normal(n), "joint_vel": 5 * rng.standard_normal(n), "gyro": rng.standard_normal(3),
            "gravity": np.array([0.0, 0.0, -1.0]), "joint_temperature": rng.uniform(20, 120, n),
        }  # fmt: skip
        for name in list(good):
            if rng.random() < 0.1:
                good[name] = numbers(len(good[name]))
            if rng.random() < 0.02:
                del good[name]
        return good if rng.random() > 0.02 else numbers(3)

    def wanted() -> Any:
        if rng.random() < 0.03:
            return odd_objects[int(rng.integers(len(odd_objects)))]
        size = n if rng.random() > 0.03 else int(rng.integers(0, 20))
        near = rng.random() < 0.5 and size == n
        target = np.asarray(contract.pose) + 0.5 * rng.standard_normal(n) if near else wild(rng, (size,))
        rows = [np.abs(rng.standard_normal(size)) * 40 if near else wild(rng, (size,)) for _ in range(4)]
        return Command(kind=kind, target=target, kp=rows[0], kd=rows[1], velocity=rows[2], torque=rows[3])

    count = 0

    def step(now: float) -> tuple[tuple, dict]:
        nonlocal count
        count += 1 if rng.random() < 0.95 else int(rng.integers(-50, 200))
        time = now if rng.random() < 0.95 else float(wild(rng, (1,))[0])
        reading: Any = (
            Reading(time=time, count=count, values=values())
            if rng.random() < 0.9
            else odd_objects[int(rng.integers(8))]
        )
        given: dict = {}
        if rng.random() < 0.2:
            given["action"] = numbers(n)
        if rng.random() < 0.2:
            given["observation"] = (
                {"policy": numbers(contract.group("policy").size)}
                if rng.random() < 0.9
                else odd_objects[int(rng.integers(8))]
            )
        if rng.random() < 0.5:
            given["policy_time"] = now if rng.random() < 0.9 else odd_objects[int(rng.integers(8))]
        return (
            now if rng.random() < 0.97 else (math.nan, math.inf, None, -now, "now")[int(rng.integers(5))],
            reading,
            wanted(),
        ), given

    return step


def whole(found: Breaches, contract: Contract, s: SafetySettings, steps: int, rng: np.random.Generator) -> None:
    """`Safety.step` under nonsense; a new layer every 40 steps, so that all states of the ladder are seen."""
    index, safety, now = np.arange(len(contract.joints)), None, 0.0
    step = nonsense(contract, rng)
    s = replace(s, freeze_time=0.02, damping_time=0.02, crouch=contract.pose, levels=_mixed(s, rng))
    before, last = np.zeros(0), 0.0
    for k in range(steps):
        if k % 40 == 0:
            safety, now = Safety(contract, s, outputs=contract.joints), 10.0
            before, last = np.array([]), math.nan
        assert safety is not None
        now += s.period * (rng.random() if rng.random() < 0.1 else 1.0)
        (time, *rest), given = step(now)
        if rng.random() < 0.002:
            safety.stop("the bench asks for it")
        ruling = safety.step(time, *rest, **given)
        found.failed += any(e.check == "internal" for e in ruling.events)
        c = ruling.command
        sent = np.stack([c.target, c.velocity, c.kp, c.kd, c.torque])
        q, dq, clock = safety.readings.q.copy(), safety.readings.dq.copy(), safety._now
        dt = s.period if math.isnan(last) or clock is None else min(max(clock - last, 0.0), s.period)
        over = excess(s, index, sent, before if len(before) else sent[TARGET], q, dq, dt, safety.envelope.derate)
        found.add("whole", 1, over)
        started = safety._begun
        before = sent[TARGET].copy() if started else np.array([])
        last = math.nan if clock is None else clock


def _mixed(s: SafetySettings, rng: np.random.Generator) -> dict[str, str]:
    """Some checks only warn, so that nonsense also reaches the limits in the state ok."""
    return {
        check: "warn" if rng.random() < 0.8 else level
        for check, level in s.levels.items()
        if check not in ("operator", "internal")
    }


def adversaries(bench: Bench, steps: int, *, tell: Callable[[str], None], seed: int = 0) -> Breaches:
    """`steps` adversarial steps in all: a twentieth searched for, a hundredth through the whole layer, the rest noise."""
    found, rng = Breaches(), np.random.default_rng(seed)
    s = bench.settings
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for number, limit in enumerate(LIMITS):
            for barrier in (False, True):
                search(found, replace(s, barrier=barrier), limit, steps // 200, seed + 100 * number)
        tell(f"   search: {found.steps['search']} steps, {found.count} outside")
        whole(found, bench.contract, s, steps // 200, rng)
        whole(found, bench.contract, replace(s, barrier=True), steps // 200, rng)
    tell(f"   whole layer: {found.steps['whole']} steps, {found.count} outside")
    left = steps - sum(found.steps.values())
    others = replace(s, kind="rotor_target", target_low=0.0, target_high=1.0)
    for share, settings in ((0.5, s), (0.4, replace(s, barrier=True)), (0.1, others)):
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            noise(found, settings, math.ceil(share * left), rng)
    tell(f"   noise: {found.steps['noise']} steps, {found.count} outside")
    return found
