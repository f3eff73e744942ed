"""Small policies with random weights and hand-made contracts, for the tests of deploy."""

import numpy as np
import torch

from surefoot.contract import Action, Contract, Group, Range, Term
from surefoot.learn.networks import Policy

JOINTS = ("hip_joint", "knee_joint", "ankle_joint")


def contract(*, history: bool = False, rhythm: bool = True, **changes) -> Contract:
    """A leg with three joints, two of them moved, whose contract uses every part of the format."""
    policy = Group(
        name="policy",
        terms=(
            Term(source="gyro", scale=0.25, clip=(-2.0, 2.0)),
            Term(source="gravity"),
            Term(source="command", columns=("vx", "yaw_rate"), offset=(0.1, 0.0), scale=(2.0, 0.5)),
            Term(source="joint_pos", columns=JOINTS[::-1], offset=(0.3, -0.9, 0.1)),
            Term(source="joint_pos", name="angles", columns=("hip_joint",), offset=0.2, scale=(1.0, 0.5), turn=True),
            Term(source="joint_vel", columns=JOINTS, scale=0.05, history=3),
            Term(source="last_action", columns=("knee_joint", "hip_joint"), history=2),
            Term(source="clock", columns=("sin", "cos", "phase")),
        ),
        order="newest-first",
    )
    groups = [
        policy,
        Group(name="critic", terms=(Term(source="secret", columns=("a", "b"), unit="1"),), privileged=True),
    ]
    if history:
        terms = (
            Term(source="gyro", history=4),
            Term(source="last_action", columns=("hip_joint", "knee_joint"), history=4),
        )
        groups.append(Group(name="history", terms=terms, stack="step"))
    return Contract(
        robot="leg", joints=JOINTS, control_dt=0.02, timestep=0.005, groups=tuple(groups), pose=(0.1, 0.9, -0.3), kp=20.0, kd=0.5,
        action=Action(
            joints=("knee_joint", "hip_joint"), scale=(0.3, 0.2), offset=(0.9, 0.1), clip=(-3.0, 3.0), limits=((-0.2, -1.0), (1.2, 1.0)),
            lift=(0.2, 0.0) if rhythm else 0.0, phase=(0.25, 0.0) if rhythm else 0.0,
        ),
        sensor_channels=("gyro", "gravity", "joint_pos", "joint_vel"), clock_period=0.5, torque_limit=(20.0, 20.0, 10.0),
        commands=(Range(name="vx", low=-1.0, high=1.0, unit="m/s"), Range(name="yaw_rate", low=-1.0, high=1.0, unit="rad/s")),
        **changes,
    )  # fmt: skip


def plain_contract(*, stack: str = "term", joints: tuple[str, ...] = JOINTS) -> Contract:
    """One that mjlab and Unitree can say too: terms in their words, no rhythm, no clip of the raw action."""
    pose = dict(zip(JOINTS, (0.1, 0.9, -0.3), strict=True))
    terms = (
        Term(source="gyro", name="base_ang_vel", scale=0.25, clip=(-4.0, 4.0), history=3),
        Term(source="gravity", name="projected_gravity", history=3),
        Term(source="command", name="command", columns=("vx", "vy", "yaw_rate"), scale=(2.0, 2.0, 0.25), history=3),
        Term(source="joint_pos", columns=joints, offset=tuple(-pose[j] for j in joints), history=3),
        Term(source="joint_vel", columns=joints, scale=0.05, history=3),
        Term(source="last_action", name="actions", columns=joints, history=3),
    )
    return Contract(
        robot="leg", joints=joints, control_dt=0.02, groups=(Group(name="policy", terms=terms, stack=stack),),
        pose=tuple(pose[j] for j in joints), kp=(20.0, 25.0, 30.123456789), kd=0.5,
        action=Action(joints=joints, scale=(0.3, 0.2, 0.123456789), offset=tuple(pose[j] for j in joints)),
        sensor_channels=("gyro", "gravity", "joint_pos", "joint_vel"),
        commands=tuple(Range(name=n, low=-1.0, high=1.0, unit=u) for n, u in (("vx", "m/s"), ("vy", "m/s"), ("yaw_rate", "rad/s"))),
    )  # fmt: skip


def policy(of: Contract, *, hidden=(32, 16), activation="elu", memory=0, integral=0.0, seed=0) -> Policy:
    """Random weights, far from zero, and a normaliser that has seen something."""
    generator = torch.Generator().manual_seed(seed)
    widths = {group.name: group.size for group in of.groups if not group.privileged}
    made = Policy(
        widths, len(of.action.joints), hidden=hidden, activation=activation, memory=memory, integral=integral, generator=generator
    )  # fmt: skip
    with torch.no_grad():
        last = made.net.parts[f"{len(hidden)}.weight"]
        last.mul_(100.0)
        for name, part in made.net.parts.items():
            if name.endswith("bias"):
                part.copy_(0.3 * torch.randn(part.shape, generator=generator))
    scale = torch.linspace(0.2, 4.0, made.inputs)
    made.normaliser.update(torch.randn(500, made.inputs, generator=generator) * scale + 0.5 * scale)
    made.normaliser.freeze()
    return made


def readings(of: Contract, steps: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Random readings and commands, one dict per control step; "command" among them."""
    rng = np.random.default_rng(seed)
    widths = {
        "gyro": 3,
        "gravity": 3,
        "joint_pos": len(of.joints),
        "joint_vel": len(of.joints),
        "command": len(of.commands),
    }
    return [{name: 3.0 * rng.standard_normal(width) for name, width in widths.items()} for _ in range(steps)]
