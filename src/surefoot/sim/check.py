"""Does every Param do something? Each is moved from its low to its high bound alone, and the motion is compared.

    change(channel, window) = rms over window of  y(t; e, p = high) - y(t; e, p = low)
    floor(channel, window)  = the same between worlds that differ by 1e-9 in their initial state alone

Params that are the size of something random (noise, jitter, drop-outs, pushes, gusts) have no effect on a noise-free motion. They act alone, with
every other noise silenced, in many worlds; there the change is that of the spread over worlds, and the floor is how much
that spread varies with the seed. A Param whose change does not stand out from the floor in any channel at any time, neither beside the
nominal e nor beside a drawn one, is inert, which is a defect of the robot file, of the Param or of the simulator.
"""

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surefoot.errors import InputError
from surefoot.params import E, Params
from surefoot.robots import Actuator, Robot
from surefoot.sim.sim import Sim
from surefoot.sim.terrain import FLAT_RADIUS

RANDOM = frozenset({
    "encoder_noise", "velocity_noise", "gyro_noise", "gyro_walk", "accel_noise", "accel_walk", "force_noise", "sensor_jitter",
    "sensor_dropout", "command_jitter", "push", "gust", "torque_noise",
})  # fmt: skip
"""Kinds whose value is the size of something random; zero silences each of them."""

DURATION, MOST_STEPS = 2.4, 600
"""[s] Length of the motion, and most control steps it may take."""
TWINS = 3
"""Worlds that differ from their neighbour by rounding alone."""
NUDGE = 1e-9
WINDOWS = 8
"""Parts of the motion that are judged by themselves: contact and chaos raise the floor late, saturation comes late."""
CROWD, SEEDS = 128, 3
"""Worlds and seeds in which a random Param is judged."""
STANDS_OUT = 10.0
"""How many times its floor a change must be; a spread, whose low and high share their draws, need only exceed 2 floors."""
SPREAD_STANDS_OUT = 2.0

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
        if random:
            quiet = Sim(silenced(robot), params, worlds=CROWD, noise=True)
            for name in random:
                tell(name)
                found[name] = _random_effect(quiet, name)
    return [found[name] for name in params]


# -------------------------------------------------------------------- the motion


def drive(sim: Sim) -> tuple[Motion, np.ndarray]:
    """Excite every world alike from its present e; returns the motion and, per world, the steps before it diverged.

    Sines at first, then square waves that saturate the motors; a free base is dropped, turned and shoved besides.
    """
    steps = min(MOST_STEPS, max(60, round(DURATION / sim.control_dt)))
    sim.steps = 0
    start_qpos, start_qvel = _start(sim)
    sim.reset(qpos=start_qpos, qvel=start_qvel)
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
    """Initial state: the default pose; a free base a hand's breadth up, off the flat middle of a terrain, turning a little."""
    q, v = np.tile(sim._start_qpos(), (sim.worlds, 1)), np.zeros((sim.worlds, sim.model.nv))
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
    """Commands (steps, nu): two sines a motor, none alike; from the middle on also square waves beyond the motors' limits."""
    nu = len(sim.robot.actuators)
    t = np.linspace(0.0, 1.0, steps, endpoint=False)[:, None]  # fraction of the motion
    phase = np.linspace(0.0, 2 * np.pi, nu, endpoint=False) + 0.4
    cycles = 3.0 + 2.0 * np.modf(np.arange(nu) * 0.618)[0]
    sines = 0.6 * np.sin(2 * np.pi * cycles * t + phase) + 0.4 * np.sin(2 * np.pi * 3.1 * cycles * t)
    squares = np.where(t > 0.55, np.sign(np.sin(2 * np.pi * 1.7 * cycles * t + phase)), 0.0)
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
    """The e beside which a Param is moved: the nominal one and a drawn one (some Params only act together)."""
    return [params.nominal_e(1), params.prior().sample(1, 0)]


def _plain_effects(robot: Robot, params: Params, names: list[str], tell: Callable[[str], None]) -> list[Effect]:
    """All Params without randomness, each bound of each in a world of its own, in a single run."""
    if not names:
        return []
    tell(f"{len(names)} params in {2 * (TWINS + 1 + 2 * len(names))} worlds")
    block = 1 + TWINS + 2 * len(names)
    sim = Sim(robot, params, worlds=2 * block, noise=False)
    best: list[Effect] = []
    rows = []
    for background in _backgrounds(sim.params):
        rows.append({n: np.repeat(v, block, axis=0) for n, v in background.items()})
        for i, name in enumerate(names):
            rows[-1][name][1 + TWINS + 2 * i] = params[name].low
            rows[-1][name][2 + TWINS + 2 * i] = params[name].high
    whole = [n for n in params if params[n].about.per == "sim"]
    sim.apply({n: np.concatenate([r[n] for r in rows]) for n in params if n not in whole})
    motion, length = _driven_with_twins(sim, [b * block + 1 + k for b in range(2) for k in range(TWINS)])
    for i, name in enumerate(names):
        options = []
        for start in (0, block):
            low, high = start + 1 + TWINS + 2 * i, start + 2 + TWINS + 2 * i
            cut = int(min(length[[low, high, start]].min(), length[start + 1 : start + 1 + TWINS].min()))
            twins = [(start, start + 1 + k) for k in range(TWINS)]
            change, floor, channel = _standing_out(motion, (low, high), twins, cut)
            diverged = bool((length[[low, high]] < length.max()).any())
            options.append(_effect(params, name, (change, floor, channel), STANDS_OUT, diverged))
        best.append(max(options, key=lambda effect: (not effect.inert, effect.ratio)))
    return best


def _driven_with_twins(sim: Sim, twins: list[int]) -> tuple[Motion, np.ndarray]:
    """`drive` with the initial state of worlds `twins` nudged by rounding."""
    reset = sim.reset
    rng = np.random.default_rng(0)

    def nudged(ids=None, *, qpos: np.ndarray, qvel: np.ndarray) -> None:
        for world in twins:
            qpos[world] += NUDGE * (1 + np.abs(qpos[world])) * rng.uniform(-1, 1, qpos.shape[1])
            qvel[world] += NUDGE * (1 + np.abs(qvel[world])) * rng.uniform(-1, 1, qvel.shape[1])
        reset(ids, qpos=qpos, qvel=qvel)

    sim.reset = nudged
    try:
        return drive(sim)
    finally:
        del sim.reset
