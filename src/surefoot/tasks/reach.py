"""Bring the gripper's tip to a point.

    reward / dt = exp(-d / 0.1 m) + exp(-(d / 0.02 m)²)  -  speed and changes of the command near the point

The policy sees joint angles, speeds, its last actions and the point; no camera tells it where the tip is, so it cannot see the errors of
encoder bias and backlash. What it can see is how far the servos sag from their targets.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Action, Contract, Range, Term
from surefoot.sim import Sim
from surefoot.tasks import tally
from surefoot.tasks.agree import agree
from surefoot.tasks.symmetry import Maps
from surefoot.tasks.task import Situation

NEAR = 0.03
"""[m] from the point that counts as reached. Encoder biases of ±0.06 rad, which the policy cannot see, put the tip of an arm that does
everything right up to 4 cm off: within 2 cm in 76 % of the worlds, within 3 cm in 96 %."""
SHARP = 0.02
"""[m] over which the reward for being there fades."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Hold the tip at a point that is drawn with each episode, anywhere in a part of a spherical shell around the shoulder."""

    episode: float = 3.0  # [s]
    tip: str = "tip"
    """Site to bring there."""
    drive: tuple[str, ...] = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex")
    """Joints that the policy drives; the others hold their default pose."""
    middle: tuple[float, float, float] = (0.07, 0.0, 0.117)
    """The shoulder [m]."""
    radius: tuple[float, float] = (0.2, 0.3)  # [m]
    azimuth: tuple[float, float] = (-0.8, 0.8)  # [rad]
    elevation: tuple[float, float] = (-0.2, 0.8)  # [rad]
    scale: float = 0.5
    """Change of a joint target per unit of action [rad]."""
    memory: int = 4
    """Past actions that the policy sees: they bridge the command delay."""

    commands: tuple[str, ...] = ("x", "y", "z")

    # ---------------------------------------------------------------- what is seen and done

    def contract(self, sim: Sim) -> Contract:
        """Joint angles and speeds, the point, last actions; joint targets around the default pose."""
        robot = sim.robot
        pose = tuple(robot.pose.get(j, 0.0) for j in self.drive)
        middle, far = np.array(self.middle), self.radius[1]
        low, high = middle - far, middle + far
        limits = [sim.model.joint(j).range for j in self.drive]
        return agree(
            sim,
            Action(
                joints=self.drive,
                scale=self.scale,
                offset=pose,
                clip=(-5.0, 5.0),
                limits=(tuple(float(r[0]) for r in limits), tuple(float(r[1]) for r in limits)),
            ),
            (
                Term(source="joint_pos", columns=self.drive, offset=tuple(-p for p in pose)),
                Term(source="joint_vel", columns=self.drive, scale=0.2),
                Term(
                    source="command",
                    columns=self.commands,
                    offset=tuple(-middle),
                    scale=1 / far,
                    unit="m",
                    frame="world",
                ),
            ),
            history=(Term(source="last_action", columns=self.drive, history=self.memory, clip=(-5.0, 5.0)),),
            privileged=(
                Term(source="miss", columns=self.commands, unit="m", scale=10.0),
                Term(source="true_angles", columns=robot.joints, unit="rad"),
                Term(source="true_speeds", columns=robot.joints, unit="rad/s", scale=0.2),
            ),
            commands=tuple(
                Range(name=n, low=float(a), high=float(b), unit="m") for n, a, b in zip("xyz", low, high, strict=True)
            ),
        )

    def mirror(self, contract: Contract, sim: Sim) -> Maps | None:
        """None: its two sides are not alike."""
        return None

    def draw_commands(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Points of the shell."""
        r, around, up = (rng.uniform(*span, count) for span in (self.radius, self.azimuth, self.elevation))
        way = np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=1)
        return np.array(self.middle) + r[:, None] * way

    def start(self, sim: Sim, ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Near the default pose, at rest."""
        k = len(ids)
        qpos = np.tile(sim.start_qpos, (k, 1))
        places = [sim.sensors.q[sim.robot.joints.index(j)] for j in self.drive]
        qpos[:, places] += rng.uniform(-0.3, 0.3, (k, len(places)))
        return qpos, np.zeros((k, sim.model.nv))

    def remember(self, sim: Sim) -> dict[str, Tensor]:
        """How far from the point the tip was."""
        return tally.blank(sim.worlds)

    # ---------------------------------------------------------------- what is true

    def facts(self, sim: Sim) -> dict[str, Tensor]:
        """Number of the tip's site; from now on the engine follows the sites."""
        sim.engine.derived("site_xpos")
        return {"tip": torch.tensor(sim.model.site(self.tip).id)}

    def truth(self, s: Situation) -> dict[str, Tensor]:
        """The tip from the point."""
        miss = s.live("site_xpos")[:, s.facts["tip"]].float() - s.command
        return {"miss": miss, "distance": miss.norm(dim=1), "angles": s.q.float(), "speeds": s.dq.float()}

    def privileged(self, s: Situation) -> dict[str, Tensor]:
        """The true state for the critic."""
        t = s.truth
        return {"miss": t["miss"], "true_angles": t["angles"], "true_speeds": t["speeds"]}

    def pass_time(self, s: Situation) -> None:
        """Average the distance over the last third."""
        tally.note(s, s.truth["distance"], self.episode * 2 / 3)

    # ---------------------------------------------------------------- what is good

    def rewards(self, s: Situation) -> dict[str, Tensor]:
        """Named, weighted terms of one step."""
        t, dt = s.truth, s.sim.control_dt
        weighted = {
            "near": torch.exp(-t["distance"] / 0.1),
            "there": torch.exp(-(t["distance"] / SHARP).square()),
            "speed": -0.02 * t["speeds"].square().sum(1).clamp(max=20.0),
            "change": -0.02 * (s.action - s.last_action).square().sum(1).clamp(max=20.0),
        }
        return {name: value * dt for name, value in weighted.items()}

    def total(self, terms: dict[str, Tensor], fallen: Tensor) -> Tensor:
        """Their sum."""
        return torch.stack(list(terms.values())).sum(0)

    def fallen(self, s: Situation) -> Tensor:
        """Never: an arm on a table has nowhere to fall."""
        return torch.zeros(s.sim.worlds, dtype=torch.bool)

    def left(self, s: Situation) -> Tensor | None:
        """Its place has no edge."""
        return None

    def success(self, s: Situation, fallen: Tensor) -> Tensor:
        """Mean distance of the last third within 3 cm."""
        distance = tally.share(s)
        return torch.where(distance.isnan(), distance, (distance <= NEAR).float())
