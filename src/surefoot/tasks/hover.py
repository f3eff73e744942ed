"""Fly a quadrotor: hold a point from any attitude (`Hover`), or follow a moving one (`Track`).

    reward / dt = 1.5 exp(-d / 0.4 m) + exp(-(d / 0.1 m)²) + 0.5 upright  -  speed, spin, heading and changes of command   - 4 on a crash

The action is the command of each rotor around the nominal robot's hover. Rotors follow with a lag of several control steps, so the
policy also sees its last actions. It reads the IMU (the accelerometer tells it thrust over mass, which nobody else does), the attitude, and
position and velocity as a positioning deck gives them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Action, Contract, Range, Term
from surefoot.sim import Sim
from surefoot.tasks import tally
from surefoot.tasks.agree import agree
from surefoot.tasks.symmetry import Maps, mirrored
from surefoot.tasks.task import Situation, over

CRASH = 4.0
"""What a crash takes from the reward."""
NEAR = 0.15
"""[m] within which a position counts as held."""


@dataclass(frozen=True, kw_only=True)
class _Flight:
    """What both tasks share: how an episode starts, what it pays and when it ends."""

    episode: float = 5.0  # [s]
    height: float = 1.0  # [m]
    tilt: float = 1.2
    """Largest tilt at the start [rad], in any direction."""
    heading: float = 0.5
    """Largest heading at the start [rad]."""
    spin: float = 2.0
    """Largest turning rate at the start, each axis [rad/s]."""
    away: float = 0.3
    """Largest distance from the point at the start, each axis [m]."""
    speed: float = 0.5
    """Largest velocity at the start, each axis [m/s]."""
    settle: float = 2.0
    """Time to recover, not judged [s]."""
    memory: int = 4
    """Past actions that the policy sees."""
    scale: float = 0.2
    """Change of a rotor's command per unit of action [1]."""
    farthest: float = 1.5
    """[m] from the point beyond which the episode ends."""

    def start(self, sim: Sim, ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Tilted, turning and drifting near the middle, the rotors at hover."""
        return _start(self, sim, len(ids), rng)

    def mirror(self, contract: Contract, sim: Sim) -> Maps | None:
        """Left and right."""
        return mirrored(contract, sim)

    def remember(self, sim: Sim) -> dict[str, Tensor]:
        """How long the point was held."""
        return tally.blank(sim.worlds)

    def privileged(self, s: Situation) -> dict[str, Tensor]:
        """The true state and the rotors' speeds for the critic."""
        return _privileged(s)

    def rewards(self, s: Situation) -> dict[str, Tensor]:
        """Named, weighted terms of one step."""
        return _rewards(s)

    def total(self, terms: dict[str, Tensor], fallen: Tensor) -> Tensor:
        """Their sum, never negative, less CRASH on a crash."""
        return torch.stack(list(terms.values())).sum(0).clamp(min=0.0) - CRASH * fallen.float()

    def fallen(self, s: Situation) -> Tensor:
        """On the ground, too far from the point, or turned over."""
        t = s.truth
        return (t["height"] < 0.05) | (t["distance"] > self.farthest) | (t["up"] < -0.2)

    def left(self, s: Situation) -> Tensor | None:
        """The air has no edge."""
        return None

    def success(self, s: Situation, fallen: Tensor) -> Tensor:
        """Within 15 cm of the point for 95 % of the time after settling, and still in the air."""
        share = tally.share(s)
        held = torch.where(share.isnan(), share, (share >= 0.95).float())
        return torch.where(fallen, torch.zeros_like(share), held)


@dataclass(frozen=True, kw_only=True)
class Hover(_Flight):
    """Hold the point (0, 0, height) of the positioning frame, heading along x."""

    commands: tuple[str, ...] = ()

    # ---------------------------------------------------------------- what is seen and done

    def contract(self, sim: Sim) -> Contract:
        """Gyro, attitude, position and velocity, the last actions; rotor commands."""
        return _contract(self, sim, (Term(source="base_pos", offset=(0.0, 0.0, -self.height)),), ())

    def draw_commands(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """None."""
        return np.zeros((count, 0))

    # ---------------------------------------------------------------- what is true

    def facts(self, sim: Sim) -> dict[str, Tensor]:
        """The point to hold."""
        return {"target": torch.tensor([0.0, 0.0, self.height])}

    def truth(self, s: Situation) -> dict[str, Tensor]:
        """Position from the point, velocity from the point's own, attitude and rates."""
        return _truth(s, s.facts["target"], torch.zeros_like(s.facts["target"]))

    def pass_time(self, s: Situation) -> None:
        """Count the steps near the point."""
        tally.note(s, s.truth["distance"] < NEAR, self.settle)


@dataclass(frozen=True, kw_only=True)
class Track(_Flight):
    """Follow a point on a horizontal ellipse that rises and sinks; its position and velocity are the command.

    p'' = -ω² (p - centre)      drawn anew with each episode: size, direction and phase
    """

    episode: float = 8.0  # [s]
    period: float = 6.0
    """Of one round [s]."""
    size: tuple[float, float, float] = (0.6, 0.6, 0.2)
    """Largest half axes of the path [m]."""
    tilt: float = 0.3  # as Hover's
    heading: float = 0.2
    spin: float = 0.5
    away: float = 0.1
    speed: float = 0.3

    commands: tuple[str, ...] = ("x", "y", "z", "vx", "vy", "vz")

    def contract(self, sim: Sim) -> Contract:
        """As Hover's, and where the point is."""
        middle = (0.0, 0.0, -self.height)
        omega = 2 * np.pi / self.period
        ranges = [Range(name=n, low=-a, high=a, unit="m") for n, a in zip("xy", self.size, strict=False)]
        ranges.append(Range(name="z", low=self.height - self.size[2], high=self.height + self.size[2], unit="m"))
        speeds = zip(("vx", "vy", "vz"), self.size, strict=True)
        ranges += [Range(name=n, low=-a * omega, high=a * omega, unit="m/s") for n, a in speeds]
        terms = (
            Term(source="base_pos", offset=middle),
            Term(source="command", name="point", columns=("x", "y", "z"), offset=middle, unit="m", frame="world"),
            Term(source="command", name="pace", columns=("vx", "vy", "vz"), unit="m/s", frame="world"),
        )
        return _contract(self, sim, terms, tuple(ranges))

    def draw_commands(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """A place and a velocity on a path within `size`."""
        size, omega = np.array(self.size), 2 * np.pi / self.period
        radius, phase = size * rng.uniform(0.2, 1.0, (count, 3)), rng.uniform(-np.pi, np.pi, (count, 3))
        place = radius * np.cos(phase) + np.array([0.0, 0.0, self.height])
        return np.concatenate([place, -omega * radius * np.sin(phase)], axis=1)

    def facts(self, sim: Sim) -> dict[str, Tensor]:
        """Exact motion of the point over one control step: p ← c p + (sin / ω) v, v ← c v - (ω sin) p about the middle."""
        omega = 2 * np.pi / self.period
        c, sine = np.cos(omega * sim.control_dt), np.sin(omega * sim.control_dt)
        return {
            "middle": torch.tensor([0.0, 0.0, self.height]),
            "turn": torch.tensor([[c, -omega * sine], [sine / omega, c]]).float(),
        }

    def truth(self, s: Situation) -> dict[str, Tensor]:
        """As Hover's, relative to the point."""
        return _truth(s, s.command[:, :3], s.command[:, 3:])

    def pass_time(self, s: Situation) -> None:
        """Move the point on by one control step; count the steps near it."""
        tally.note(s, s.truth["distance"] < NEAR, self.settle)
        motion = torch.stack([s.command[:, :3] - s.facts["middle"], s.command[:, 3:]], 2) @ s.facts["turn"]
        s.command[:, :3] = motion[..., 0] + s.facts["middle"]
        s.command[:, 3:] = motion[..., 1]


# -------------------------------------------------------------------- what both share


def _contract(task: _Flight, sim: Sim, where: tuple[Term, ...], commands: tuple[Range, ...]) -> Contract:
    """Rotors around hover; gyro, attitude, velocity and `where`; the last actions as history."""
    rotors = sim.command_names
    motors = {a.name: a for a in sim.robot.actuators}
    weight = float(sim.model.body_mass.sum() * -sim.model.opt.gravity[2])
    hover = tuple(float(np.sqrt(weight / len(rotors) / (motors[r].thrust_max or np.nan))) for r in rotors)
    policy = (
        Term(source="gyro", scale=0.2),
        Term(source="accel", scale=0.1),
        Term(source="gravity"),
        Term(source="quat"),
        Term(source="base_vel_world"),
        *where,
    )
    return agree(
        sim,
        Action(joints=rotors, kind="rotor_target", scale=task.scale, offset=hover, limits=(0.0, 1.0), clip=(-5.0, 5.0)),
        policy,
        history=(Term(source="last_action", columns=rotors, history=task.memory, clip=(-2.0, 2.0)),),
        privileged=(
            Term(source="error", columns=("x", "y", "z"), unit="m"),
            Term(source="drift", columns=("x", "y", "z"), unit="m/s"),
            Term(source="true_gyro", columns=("x", "y", "z"), unit="rad/s", scale=0.2),
            Term(source="true_attitude", columns=("w", "x", "y", "z"), unit="1"),
            Term(source="rotor_speed", columns=rotors, unit="1"),
        ),
        commands=commands,
    )


def _start(task: _Flight, sim: Sim, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    base, v = sim.sensors.base_q, sim.sensors.base_v
    assert base is not None
    assert v is not None
    qpos, qvel = np.tile(sim.start_qpos, (k, 1)), np.zeros((k, sim.model.nv))
    qpos[:, base : base + 3] = np.array([0.0, 0.0, task.height]) + rng.uniform(-task.away, task.away, (k, 3))
    tilt, way = rng.uniform(0.0, task.tilt, k) / 2, rng.uniform(-np.pi, np.pi, k)
    yaw = rng.uniform(-task.heading, task.heading, k) / 2
    # Tilt about a horizontal axis of the body after the turn of heading: q = q_yaw q_tilt.
    w, x, y = np.cos(tilt), np.sin(tilt) * np.cos(way), np.sin(tilt) * np.sin(way)
    c, s = np.cos(yaw), np.sin(yaw)
    qpos[:, base + 3 : base + 7] = np.stack([c * w, c * x - s * y, c * y + s * x, s * w], axis=1)
    qvel[:, v : v + 3] = rng.uniform(-task.speed, task.speed, (k, 3))
    qvel[:, v + 3 : v + 6] = rng.uniform(-task.spin, task.spin, (k, 3))
    return qpos, qvel


def _truth(s: Situation, point: Tensor, pace: Tensor) -> dict[str, Tensor]:
    sim = s.sim
    q, v = sim.sensors.base_q, sim.sensors.base_v
    assert q is not None
    assert v is not None
    qpos, qvel = over(sim.engine.qpos)[:, q : q + 7].float(), over(sim.engine.qvel)[:, v : v + 6].float()
    w, x, y, z = qpos[:, 3:].unbind(1)
    error = qpos[:, :3] - point
    return {
        "error": error,
        "distance": error.norm(dim=1),
        "drift": qvel[:, :3] - pace,
        "gyro": qvel[:, 3:],
        "attitude": qpos[:, 3:],
        "up": 1 - 2 * (x * x + y * y),
        "heading": torch.atan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z)),
        "height": qpos[:, 2],
        "rotors": over(sim.commands.spin).float(),
    }


def _privileged(s: Situation) -> dict[str, Tensor]:
    t = s.truth
    names = {
        "error": "error",
        "drift": "drift",
        "true_gyro": "gyro",
        "true_attitude": "attitude",
        "rotor_speed": "rotors",
    }
    return {channel: t[name] for channel, name in names.items()}


def _rewards(s: Situation) -> dict[str, Tensor]:
    t, dt = s.truth, s.sim.control_dt
    weighted = {
        "near": 1.5 * torch.exp(-t["distance"] / 0.4),
        "close": torch.exp(-(t["distance"] / 0.1).square()),
        "upright": 0.5 * t["up"].clamp(min=0.0),
        "drift": -0.05 * t["drift"].square().sum(1).clamp(max=4.0),
        "spin": -0.01 * t["gyro"].square().sum(1).clamp(max=20.0),
        "heading": -0.2 * t["heading"].square().clamp(max=1.0),
        "change": -0.01 * (s.action - s.last_action).square().sum(1).clamp(max=20.0),
    }
    return {name: value * dt for name, value in weighted.items()}
