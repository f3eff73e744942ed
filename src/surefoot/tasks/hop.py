"""Hop forward on one leg at a commanded speed.

    reward / dt = 0.5 + exp(-(v - c)² / 0.5) + exp(-(v - c)² / 0.04)  -  pitch, effort and changes of the command     - 1 on a fall

A boom measures height and pitch as encoders do; the policy sees them, the leg's angles, all speeds, its last actions and the command,
never where it is along the way.
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

FORWARD, UP, PITCH = "root_x", "root_z", "root_pitch"
"""Joints of the boom."""
TOLERANCE = 0.2
"""[m/s] between mean speed and command that counts as followed."""


@dataclass(frozen=True, kw_only=True)
class Hop:
    """Follow a forward speed."""

    episode: float = 8.0  # [s]
    forward: tuple[float, float] = (0.6, 1.2)  # [m/s]
    scale: float = 0.5
    """Change of the leg's joint targets per unit of action [rad]."""
    memory: int = 2
    """Past actions that the policy sees."""
    fall_height: float = 0.6
    """Hip height below which the robot counts as fallen, relative to its standing height."""
    fall_pitch: float = 0.8
    """Largest pitch [rad]."""

    commands: tuple[str, ...] = ("vx",)

    # ---------------------------------------------------------------- what is seen and done

    def contract(self, sim: Sim) -> Contract:
        """Boom and leg angles, speeds, command, last actions; leg targets around the default pose."""
        robot, legs = sim.robot, sim.command_names
        seen = tuple(j for j in robot.joints if j != FORWARD)
        pose = tuple(robot.pose.get(j, 0.0) for j in legs)
        return agree(
            sim,
            Action(joints=legs, scale=self.scale, offset=pose, clip=(-3.0, 3.0)),
            (
                Term(source="joint_pos", columns=seen, offset=tuple(-robot.pose.get(j, 0.0) for j in seen)),
                Term(source="joint_vel", columns=robot.joints, scale=0.2),
                Term(source="command", columns=self.commands, unit="m/s"),
            ),
            history=(Term(source="last_action", columns=legs, history=self.memory),),
            privileged=(
                Term(source="true_angles", columns=seen, unit="rad"),
                Term(source="true_speeds", columns=robot.joints, unit="rad/s", scale=0.2),
                Term(source="foot", columns=("height", "x"), unit="m", scale=4.0),
            ),
            commands=(Range(name="vx", low=self.forward[0], high=self.forward[1], unit="m/s"),),
        )

    def mirror(self, contract: Contract, sim: Sim) -> Maps | None:
        """None: its two sides are not alike."""
        return None

    def draw_commands(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Uniform in `forward`."""
        return rng.uniform(*self.forward, (count, 1))

    def start(self, sim: Sim, ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Standing or just above the ground, slightly moving."""
        k, joints = len(ids), sim.robot.joints
        qpos = np.tile(sim.start_qpos, (k, 1))
        qpos[:, sim.sensors.q] += rng.uniform(-0.05, 0.05, (k, len(joints)))
        qpos[:, sim.sensors.q[joints.index(UP)]] = sim.robot.pose[UP] + rng.uniform(0.02, 0.1, k)
        qvel = rng.uniform(-0.1, 0.1, (k, sim.model.nv))
        return qpos, qvel

    def remember(self, sim: Sim) -> dict[str, Tensor]:
        """The way gone in the second half."""
        return tally.blank(sim.worlds)

    # ---------------------------------------------------------------- what is true

    def facts(self, sim: Sim) -> dict[str, Tensor]:
        """Columns of the boom among the joints, the foot geom and its thickness."""
        joints, foot = sim.robot.joints, sim.model.geom(sim.robot.feet[0]).id
        return {
            "boom": torch.tensor([joints.index(j) for j in (FORWARD, UP, PITCH)]),
            "seen": torch.tensor([i for i, j in enumerate(joints) if j != FORWARD]),
            "foot": torch.tensor(foot),
            "thickness": torch.tensor(float(sim.model.geom_size[foot, 0])),
        }

    def truth(self, s: Situation) -> dict[str, Tensor]:
        """Speed, height, pitch, and where the foot is from the hip."""
        q, dq, f = s.q.float(), s.dq.float(), s.facts
        x, z, pitch = q[:, f["boom"]].unbind(1)
        foot = s.live("geom_xpos")[:, f["foot"]].float()
        return {
            "angles": q[:, f["seen"]],
            "speeds": dq,
            "speed": dq[:, f["boom"][0]],
            "height": z,
            "pitch": pitch,
            "foot": torch.stack([foot[:, 2] - f["thickness"], foot[:, 0] - x], 1),
        }

    def privileged(self, s: Situation) -> dict[str, Tensor]:
        """The true state for the critic."""
        t = s.truth
        return {"true_angles": t["angles"], "true_speeds": t["speeds"], "foot": t["foot"]}

    def pass_time(self, s: Situation) -> None:
        """Add up the speed of the second half."""
        tally.note(s, s.truth["speed"], self.episode / 2)

    # ---------------------------------------------------------------- what is good

    def rewards(self, s: Situation) -> dict[str, Tensor]:
        """Named, weighted terms of one step."""
        t, dt = s.truth, s.sim.control_dt
        miss = (t["speed"] - s.command[:, 0]).square()
        weighted = {
            "alive": 0.5 * torch.ones_like(miss),
            "moving": torch.exp(-miss / 0.5),
            "speed": torch.exp(-miss / 0.04),
            "pitch": -0.5 * t["pitch"].square(),
            "effort": -0.01 * s.action.square().sum(1).clamp(max=20.0),
            "change": -0.01 * (s.action - s.last_action).square().sum(1).clamp(max=20.0),
        }
        return {name: value * dt for name, value in weighted.items()}

    def total(self, terms: dict[str, Tensor], fallen: Tensor) -> Tensor:
        """Their sum, never negative, less one on a fall."""
        return torch.stack(list(terms.values())).sum(0).clamp(min=0.0) - fallen.float()

    def fallen(self, s: Situation) -> Tensor:
        """The hip is low or the torso pitched."""
        t = s.truth
        return (t["height"] < self.fall_height * s.sim.robot.height) | (t["pitch"].abs() > self.fall_pitch)

    def left(self, s: Situation) -> Tensor | None:
        """Its place has no edge."""
        return None

    def success(self, s: Situation, fallen: Tensor) -> Tensor:
        """On its foot, and the second half's mean speed within 0.2 m/s of the command."""
        miss = (tally.share(s) - s.command[:, 0]).abs()
        kept = torch.where(miss.isnan(), miss, (miss <= TOLERANCE).float())
        return torch.where(fallen, torch.zeros_like(miss), kept)
