"""Swing a pendulum up from hanging and keep it there: cartpole, Qube, double pendulum.

    up = -cos φ          φ: a link's angle from hanging, the sum of the hinges below it; 1 when upright

    reward / dt = (1 - (x / reach)²) h  +  0.5 upright · exp(-(x / width)²)  +  0.5 upright · exp(-(dφ / 3 rad/s)²)  -  effort
    h           = ½ mean (1 + up)/2 + ½ Π (1 + up)/2          for one link simply (1 + up)/2

where x is the carriage that must stay in its range. The policy sees sine and cosine of a hinge's angle, so a turn over the top has no
seam. No step costs anything, so ending early never pays.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from surefoot.contract import Action, Contract, Term
from surefoot.sim import Sim
from surefoot.tasks import tally
from surefoot.tasks.agree import agree
from surefoot.tasks.symmetry import Maps, mirrored
from surefoot.tasks.task import Situation


@dataclass(frozen=True, kw_only=True)
class SwingUp:
    """Bring the links from hanging to upright; see `cartpole`, `qube`, `double_pendulum` for those of the robots."""

    links: tuple[str, ...]
    """Hinges of the chain from its root; a link's angle from hanging is the sum up to its own."""
    drive: tuple[str, ...]
    """Joints that the policy drives."""
    scale: float
    """Command per unit of action: force [N], torque [N·m] or voltage [V]; the action is clipped to ±1."""
    carriage: str | None = None
    """Joint that must stay within ±reach, such as the cart."""
    reach: float = np.inf
    """[m] or [rad] beyond which the episode ends."""
    width: float = 1.0
    """[m] or [rad] of carriage travel over which its reward fades."""
    speeds: bool = True
    """Whether the policy reads joint_vel; without, it sees the last angles instead."""
    memory: int = 4
    """Past actions (and, without speeds, angles) that the policy sees: they bridge the command delay."""
    episode: float = 10.0  # [s]
    upright: float = 0.95
    """cos of the largest tilt that counts as upright (18 degrees)."""
    anywhere: float = 0.0
    """Share of episodes that start at any angle: a help for training, not for judging."""
    fastest: float = 40.0
    """[rad/s] of a hinge beyond which the episode ends."""

    commands: tuple[str, ...] = ()

    # ---------------------------------------------------------------- what is seen and done

    def contract(self, sim: Sim) -> Contract:
        """Angles and speeds as the encoders give them, the last actions; a force, torque or voltage as action."""
        joints = sim.robot.joints
        past = (Term(source="last_action", columns=self.drive, history=self.memory),)
        others = tuple(j for j in joints if j not in self.links)
        seen = (Term(source="joint_pos", name="hinges", columns=self.links, turn=True),)
        if others:
            seen += (Term(source="joint_pos", name="places", columns=others),)
        if self.speeds:
            seen += (Term(source="joint_vel", columns=joints, scale=0.1),)
        else:
            past += tuple(replace(term, name=f"past_{term.name}", history=self.memory) for term in seen)
        return agree(
            sim,
            Action(joints=self.drive, kind=sim.command_channel, scale=self.scale, clip=(-1.0, 1.0)),
            seen,
            history=past,
            privileged=(
                *((Term(source="true_places", columns=others, unit="rad"),) if others else ()),
                Term(source="true_speeds", columns=joints, unit="rad/s", scale=0.1),
                Term(source="up", columns=self.links, unit="1"),
                Term(source="lean", columns=self.links, unit="1"),
            ),
        )

    def mirror(self, contract: Contract, sim: Sim) -> Maps | None:
        """Everything the other way round."""
        return mirrored(contract, sim, joints=dict.fromkeys(sim.robot.joints, -1.0))

    def draw_commands(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """None."""
        return np.zeros((count, 0))

    def start(self, sim: Sim, ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Hanging, nearly at rest, the carriage near its middle; a share `anywhere` at any angle of the first link."""
        k, first = len(ids), sim.robot.joints.index(self.links[0])
        qpos = np.tile(sim.start_qpos, (k, 1))
        qpos[:, sim.sensors.q] += rng.uniform(-0.1, 0.1, (k, len(sim.sensors.q)))
        some = rng.random(k) < self.anywhere
        qpos[some, sim.sensors.q[first]] = rng.uniform(-np.pi, np.pi, k)[some]
        qvel = rng.uniform(-0.05, 0.05, (k, sim.model.nv))
        return qpos, qvel

    def remember(self, sim: Sim) -> dict[str, Tensor]:
        """How long the links have been upright."""
        return tally.blank(sim.worlds)

    # ---------------------------------------------------------------- what is true

    def facts(self, sim: Sim) -> dict[str, Tensor]:
        """Columns of links and carriage among the joints."""
        joints = sim.robot.joints
        return {
            "links": torch.tensor([joints.index(j) for j in self.links]),
            "others": torch.tensor([i for i, j in enumerate(joints) if j not in self.links], dtype=torch.long),
            "carriage": torch.tensor([joints.index(self.carriage)] if self.carriage else [], dtype=torch.long),
        }

    def truth(self, s: Situation) -> dict[str, Tensor]:
        """Angles and speeds from hanging of every link, (worlds, links), and of the carriage, (worlds, 0 or 1)."""
        q, dq, f = s.q.float(), s.dq.float(), s.facts
        angle, speed = q[:, f["links"]].cumsum(1), dq[:, f["links"]].cumsum(1)
        up = -torch.cos(angle)
        return {
            "places": q[:, f["others"]],
            "speeds": dq,
            "hinges": q[:, f["links"]],
            "up": up,
            "lean": -torch.sin(angle),
            "spin": speed,
            "carriage": q[:, f["carriage"]],
            "standing": (up > self.upright).all(1),
        }

    def privileged(self, s: Situation) -> dict[str, Tensor]:
        """The true state for the critic."""
        t = s.truth
        return {
            **({"true_places": t["places"]} if t["places"].shape[1] else {}),
            "true_speeds": t["speeds"],
            "up": t["up"],
            "lean": t["lean"],
        }

    def pass_time(self, s: Situation) -> None:
        """Count the upright steps of the second half."""
        tally.note(s, s.truth["standing"], self.episode / 2)

    # ---------------------------------------------------------------- what is good

    def rewards(self, s: Situation) -> dict[str, Tensor]:
        """Named, weighted terms of one step."""
        t, dt = s.truth, s.sim.control_dt
        room = (1 - (t["carriage"] / self.reach).square()).clamp(min=0.0).prod(1)
        raised = (1 + t["up"]) / 2
        height = 0.5 * (raised.mean(1) + raised.prod(1))
        close = ((t["up"] - 0.7) / 0.3).clamp(0.0, 1.0).prod(1)
        weighted = {
            "height": height * room,
            "centred": 0.5 * close * torch.exp(-(t["carriage"] / self.width).square().sum(1)),
            "still": 0.5 * close * torch.exp(-(t["spin"] / 3.0).square().sum(1)),
            "effort": -0.02 * s.action.clamp(-1.0, 1.0).square().sum(1),
            "change": -0.02 * (s.action - s.last_action).clamp(-2.0, 2.0).square().sum(1),
        }
        return {name: value * dt for name, value in weighted.items()}

    def total(self, terms: dict[str, Tensor], fallen: Tensor) -> Tensor:
        """Never negative, so that ending early never pays; nothing in the step that ends."""
        return torch.stack(list(terms.values())).sum(0).clamp(min=0.0) * (~fallen)

    def fallen(self, s: Situation) -> Tensor:
        """The carriage is at its end, or a link turns too fast."""
        t = s.truth
        return (t["spin"].abs() > self.fastest).any(1) | (t["carriage"].abs() > self.reach).any(1)

    def left(self, s: Situation) -> Tensor | None:
        """Its place has no edge."""
        return None

    def success(self, s: Situation, fallen: Tensor) -> Tensor:
        """Upright for more than 90 % of the second half; NaN for an episode that had none and did not end for real."""
        share = tally.share(s)
        return torch.where(fallen, torch.zeros_like(share), torch.where(share.isnan(), share, (share > 0.9).float()))


def cartpole() -> SwingUp:
    """Cart and pole: up to 10 N, the rail ends at ±1.8 m."""
    return SwingUp(links=("hinge",), drive=("slider",), scale=10.0, carriage="slider", reach=1.7, width=0.6)


def qube() -> SwingUp:
    """Quanser Qube: up to 10 V, all that its amplifier gives; the arm's cable ends at ±2.3 rad."""
    return SwingUp(links=("pendulum",), drive=("arm",), scale=10.0, carriage="arm", reach=2.2, width=1.0, episode=6.0)


def double_pendulum(*, drive: tuple[str, ...] = ("joint1", "joint2"), torque: float = 6.0) -> SwingUp:
    """DFKI double pendulum, both motors, up to 6 N·m; with `drive` of one joint a pendubot ("joint1") or an acrobot ("joint2")."""
    return SwingUp(links=("joint1", "joint2"), drive=drive, scale=torque, episode=8.0)
