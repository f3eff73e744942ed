"""Does every Param do something? Each is moved from its low to its high bound alone, and the motion is compared.

    change(channel, window) = rms over window of  y(t; e, p = high) - y(t; e, p = low)
    floor(channel, window)  = the same between worlds that differ by 1e-9 in their initial state alone

Params that are the size of something random (noise, jitter, drop-outs, pushes, gusts) have no effect on a noise-free
motion. They act alone, with every other noise silenced, in many worlds; there the change is that of the spread over
worlds, and the floor is how much that spread varies with the seed. A Param whose change does not stand out from the
floor in any channel at any time, neither beside the nominal e nor beside a drawn one, is inert, which is a defect of
the robot file, of the Param or of the simulator.
"""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.params import E, Param, Params
from surefoot.robots import Actuator, Robot
from surefoot.sim.sim import Sim
from surefoot.sim.terrain import FLAT_RADIUS

RANDOM = frozenset({
    "encoder_noise", "velocity_noise", "gyro_noise", "gyro_walk", "accel_noise", "accel_walk", "force_noise",
    "sensor_jitter", "sensor_dropout", "command_jitter", "push", "gust", "torque_noise",
})  # fmt: skip
"""Kinds whose value is the size of something random; zero silences each of them."""

DURATION, MOST_STEPS = 2.4, 600
"""[s] Length of the motion, and most control steps it may take."""
TWINS = 3
"""Worlds that differ from their neighbour by rounding alone."""
NUDGE = 1e-9
"""Relative difference of their initial states."""
ROUNDING = 1e-12
"""Least floor, relative to the channel: what is left of an effect after rounding."""
WINDOWS = 8
"""Parts of the motion that are judged by themselves: contact and chaos raise the floor late, saturation comes late."""
CROWD, SEEDS = 64, 3
"""Worlds and seeds in which a random Param is judged."""
STANDS_OUT = 10.0
"""How many times its floor a change must be."""
SPREAD_STANDS_OUT = 2.0
"""The same for a spread: low and high share their draws, so that without an effect the change is zero."""

Motion = dict[str, np.ndarray]
"""Channel -> (worlds, steps, columns)."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What one Param does: `change` and `floor` in the unit of `channel`, where the change stands out most."""

    name: str
    kind: str
    unit: str
    low: float
    high: float
    change: float
    floor: float
    channel: str
    inert: bool
    diverged: bool = False
    """Whether a world left the numbers at one of the bounds; the motion before that was compared."""

    @property
    def ratio(self) -> float:
        """Change over floor; infinite when the floor is zero and the change is not."""
        return self.change / self.floor if self.floor > 0 else (np.inf if self.change > 0 else 0.0)


def check_params(
    robot: Robot, params: Params | None = None, *, tell: Callable[[str], None] = lambda _: None
) -> list[Effect]:
    """Move each Param (the robot file's when None) from low to high alone and say what changed, in the Params' order.

    Args:
        robot: what `load` returns.
        params: the schema of e.
        tell: called with the name of what is being examined, for a progress display.
    """
    params = robot.params if params is None else params
    random = [n for n, p in params.items() if p.kind in RANDOM]
    whole = [n for n, p in params.items() if p.about.per == "sim"]
    plain = [n for n in params if n not in random and n not in whole]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = {effect.name: effect for effect in _plain_effects(robot, params, plain, tell)}
        for name in whole:
            tell(name)
            found[name] = _whole_effect(robot, params, name)
        quiet = Sim(_silenced(robot), params, worlds=CROWD) if random else None
        for name in random:
            assert quiet is not None
            tell(name)
            found[name] = _random_effect(quiet, name, random)
    return [found[name] for name in params]


# -------------------------------------------------------------------- the motion


def drive(sim: Sim, twins: Sequence[int] = ()) -> tuple[Motion, np.ndarray]:
    """Excite every world alike under its present e; returns the motion and, per world, the steps before it diverged.

    Sines at first, then square waves that saturate the motors; a free base is dropped, turned and shoved besides. The
    worlds `twins` start from a state that differs by `NUDGE`.
    """
    steps = min(MOST_STEPS, max(60, round(DURATION / sim.control_dt)))
    sim.steps = 0
    q, v = _start(sim)
    rng = np.random.default_rng(0)
    for x in (q, v):
        x[list(twins)] += NUDGE * (1 + np.abs(x[list(twins)])) * rng.uniform(-1, 1, (len(twins), x.shape[1]))
    sim.reset(qpos=q, qvel=v)
    u = _commands(sim, steps)
    motion: dict[str, list[np.ndarray]] = {}
    whole = np.full(sim.worlds, steps)
    for k in range(steps):
        if k == steps // 3 and sim.sensors.base_v is not None:
            sim.engine.qvel[:, sim.sensors.base_v : sim.sensors.base_v + 6] += [0.8, 0.5, 0.0, 0.3, -0.3, 2.0]
        sim.step(u[k])
        whole = np.where(sim.alive, whole, np.minimum(whole, k))
        for name, value in {**{f"true {n}": v for n, v in sim.truth().items()}, **sim.sense()}.items():
            motion.setdefault(name, []).append(np.array(value))
    return {name: np.stack(values, axis=1) for name, values in motion.items()}, whole


def _start(sim: Sim) -> tuple[np.ndarray, np.ndarray]:
    """Initial state: the default pose; a free base a hand's breadth up, off a terrain's flat middle, turning."""
    q, v = np.tile(sim.start_qpos, (sim.worlds, 1)), np.zeros((sim.worlds, sim.model.nv))
    if sim.sensors.base_q is not None and sim.sensors.base_v is not None:
        at = sim.sensors.base_q
        q[:, at + 2] += 0.1
        if sim.built.terrain is not None:
            q[:, at : at + 3] += [2.5 * FLAT_RADIUS, 1.5 * FLAT_RADIUS, max(sim.built.terrain.choices)]
        v[:, sim.sensors.base_v : sim.sensors.base_v + 6] = [0.3, 0.2, 0.0, 0.5, 0.7, 0.4]
    else:
        v[:] = 0.1
    return q, v


def _commands(sim: Sim, steps: int) -> np.ndarray:
    """Commands (steps, nu): two sines a motor, none alike; later also square waves beyond the motors' limits."""
    nu = len(sim.robot.actuators)
    t = np.linspace(0.0, 1.0, steps, endpoint=False)[:, None]  # fraction of the motion
    phase = np.linspace(0.0, 2 * np.pi, nu, endpoint=False) + 0.4
    cycles = 3.0 + 2.0 * np.modf(np.arange(nu) * 0.618)[0]
    sines = 0.6 * np.sin(2 * np.pi * cycles * t + phase) + 0.4 * np.sin(2 * np.pi * 3.1 * cycles * t)
    turn = np.floor((t - 0.55) / 0.15)  # every third motor at a time: all of them at once would throw the robot about
    squares = np.where(turn == np.arange(nu) % 3, np.sign(np.sin(2 * np.pi * 1.7 * cycles * t + phase)), 0.0)
    reach = np.array([_reach(a) for a in sim.robot.actuators]).reshape(nu, 2)
    u = _middle(sim) + reach[:, 0] * sines + reach[:, 1] * squares
    order = sim.physics.motors.ids
    out = np.zeros((steps, sim.model.nu))
    out[:, order] = u
    return out if nu else np.zeros((steps, sim.model.nu))


def _reach(a: Actuator) -> tuple[float, float]:
    """Amplitude of the sines, and of the square waves that saturate the motor, in the unit of its command."""
    limit = a.torque_limit if a.torque_limit is not None else 1.0
    if a.model == "pd":
        return 0.2, 1.5 * limit / max(a.kp, 1e-9)
    if a.model == "voltage":
        volts = a.voltage if a.voltage is not None else 10.0
        return 0.5 * volts, 1.2 * volts
    if a.model == "velocity":
        return 1.0, 1.5 * limit / max(a.kd, 1e-9)
    if a.model == "rotor":
        return 0.03, 0.05
    return (0.3 * limit, 1.2 * limit) if a.model == "torque" else (0.3, 0.5)


def _middle(sim: Sim) -> np.ndarray:
    """The command about which to move, (actuators,): the default pose, or for rotors what carries the weight."""
    rest = np.array([sim.rest_command[i] for i in range(len(sim.robot.actuators))])
    lift = sum(a.thrust_max or 0.0 for a in sim.robot.actuators if a.model == "rotor")
    if lift:
        weight = float(sim.model.body_mass.sum() * np.linalg.norm(sim.model.opt.gravity))
        rest = np.full(len(rest), min(1.0, np.sqrt(weight / lift)))
    return rest


# -------------------------------------------------------------------- Params that act without luck


def _backgrounds(params: Params) -> list[E]:
    """The e beside which a Param is moved: the nominal one and a drawn one (some Params only act together).

    A nominal value without end (no rate limit) stands at its high bound.
    """
    nominal = {n: np.where(np.isfinite(v), v, params[n].high) for n, v in params.nominal_e(1).items()}
    return [nominal, params.prior().sample(1, 0)]


def _bounds(param: Param) -> tuple[float, float]:
    return (param.low, param.high) if param.choices is None else (param.choices[0], param.choices[-1])


def _plain_effects(robot: Robot, params: Params, names: list[str], tell: Callable[[str], None]) -> list[Effect]:
    """All Params without randomness, each bound of each in a world of its own, in a single run."""
    if not names:
        return []
    block = 1 + TWINS + 2 * len(names)  # one undisturbed world, its twins, then low and high of every Param
    tell(f"{len(names)} params in {2 * block} worlds")
    sim = Sim(robot, params, worlds=2 * block, noise=False)
    blocks = [{n: np.repeat(v, block, axis=0) for n, v in e.items()} for e in _backgrounds(sim.params)]
    for e in blocks:
        for i, name in enumerate(names):
            e[name][1 + TWINS + 2 * i], e[name][2 + TWINS + 2 * i] = _bounds(params[name])
    sim.apply({n: np.concatenate([e[n] for e in blocks]) for n in params if params[n].about.per == "world"})
    starts = (0, block)
    motion, length = drive(sim, [start + 1 + k for start in starts for k in range(TWINS)])
    effects = []
    for i, name in enumerate(names):
        options = []
        for start in starts:
            ends = (start + 1 + TWINS + 2 * i, start + 2 + TWINS + 2 * i)
            twins = [(start, start + 1 + k) for k in range(TWINS)]
            cut = int(length[[*ends, *range(start, start + 1 + TWINS)]].min())
            found = _standing_out(_rms(motion, [ends], cut)[0], np.max(_rms(motion, twins, cut), axis=0), motion)
            options.append(_effect(params, name, found, STANDS_OUT, bool((length[list(ends)] < length.max()).any())))
        effects.append(_strongest(options))
    return effects


def _whole_effect(robot: Robot, params: Params, name: str) -> Effect:
    """A Param with one value per Sim (time step, solver): a Sim for each bound."""
    runs = []
    for value in _bounds(params[name]):
        sim = Sim(robot, params, worlds=1 + TWINS, noise=False)
        sim.apply({name: value})
        runs.append(drive(sim, range(1, 1 + TWINS)))
    (low, _), (high, _) = runs
    motion = {c: np.concatenate([low[c], high[c]]) for c in low}
    length = np.concatenate([length for _, length in runs])
    twins = [(0, 1 + k) for k in range(TWINS)]
    floor = np.max(_rms(motion, twins, int(length.min())), axis=0)
    found = _standing_out(_rms(motion, [(0, 1 + TWINS)], int(length.min()))[0], floor, motion)
    return _effect(params, name, found, STANDS_OUT, bool((length < length.max()).any()))


def _rms(motion: Motion, pairs: list[tuple[int, int]], steps: int) -> np.ndarray:
    """Root mean square of the difference of worlds, (pairs, channels, windows), over the first `steps` steps."""
    out = np.zeros((len(pairs), len(motion), WINDOWS))
    for p, (a, b) in enumerate(pairs):
        for c, y in enumerate(motion.values()):
            for w, part in enumerate(np.array_split(np.arange(steps), WINDOWS)):
                if len(part) and y.shape[2]:
                    out[p, c, w] = np.sqrt(np.mean((y[a, part] - y[b, part]) ** 2))
    return out


def _standing_out(change: np.ndarray, floor: np.ndarray, motion: Motion) -> tuple[float, float, str]:
    """Change, floor and channel where the change (channels, windows) stands out most from the floor."""
    scale = np.array(
        [np.nanmedian(np.abs(y)) if y.size else 0.0 for y in motion.values()]
    )  # a diverged world does not move it
    floor = np.maximum(floor, ROUNDING * (1e-6 + scale[:, None]))
    c, w = np.unravel_index(np.argmax(change / floor), change.shape)
    return float(change[c, w]), float(floor[c, w]), list(motion)[int(c)]


def _effect(params: Params, name: str, found: tuple[float, float, str], stands_out: float, diverged: bool) -> Effect:
    (change, floor, channel), param = found, params[name]
    low, high = _bounds(param)
    inert = not change > stands_out * floor
    return Effect(
        name=name, kind=param.kind, unit=param.unit, low=low, high=high, change=change, floor=floor,
        channel="none" if inert and not change else channel, inert=inert, diverged=diverged,
    )  # fmt: skip


def _strongest(effects: list[Effect]) -> Effect:
    return max(effects, key=lambda effect: (not effect.inert, effect.change / effect.floor))


# -------------------------------------------------------------------- Params that are the size of something random


def _silenced(robot: Robot) -> Robot:
    """The robot with sensors that add no noise of their own."""
    quiet = [
        dataclasses.replace(s, figures={k: 0.0 if k.endswith(("noise", "walk")) else v for k, v in s.figures.items()})
        for s in robot.sensors
    ]
    return dataclasses.replace(robot, sensors=tuple(quiet))


def _random_effect(sim: Sim, name: str, random: list[str]) -> Effect:
    """Spread over worlds with the Param at its low and its high bound, everything else random at zero."""
    params, options = sim.params, []
    for background in _backgrounds(params):
        e = {n: v for n, v in background.items() if params[n].about.per == "world"}
        e |= {n: np.zeros_like(e[n]) for n in random}
        low, high = _bounds(params[name])
        lowest = _spread(sim, {**e, name: np.full_like(e[name], low)}, 0)
        highest = [_spread(sim, {**e, name: np.full_like(e[name], high)}, seed) for seed in range(SEEDS)]
        floor = np.std([spread for spread, _ in highest], axis=0)
        spread, motion = highest[0]
        found = _standing_out(np.abs(spread - lowest[0]), floor, motion)
        options.append(_effect(params, name, found, SPREAD_STANDS_OUT, not sim.alive.all()))
        if not options[-1].inert:
            break
    return _strongest(options)


def _spread(sim: Sim, e: E, seed: int) -> tuple[np.ndarray, Motion]:
    """Standard deviation over worlds, (channels, windows), rms over the columns and steps of a window."""
    sim.apply({n: np.broadcast_to(v, (sim.worlds, *v.shape[1:])) for n, v in e.items()})
    sim.noise.seed = seed
    motion, length = drive(sim)
    out = np.zeros((len(motion), WINDOWS))
    for c, y in enumerate(motion.values()):
        for w, part in enumerate(np.array_split(np.arange(int(length.min())), WINDOWS)):
            if len(part) and y.shape[2]:
                out[c, w] = np.sqrt(np.mean(np.var(y[:, part], axis=0)))
    return out, motion
