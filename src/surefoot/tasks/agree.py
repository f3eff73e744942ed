"""The contract of a task from its terms: the robot's own numbers are filled in, the critic sees what the policy sees and more."""

from surefoot.contract import Action, Contract, Group, Range, Term
from surefoot.sim import Sim
from surefoot.sim.replay import PARTS


def sensor_channels(sim: Sim) -> tuple[str, ...]:
    """Channels that the robot's sensors give: what a policy may read, whatever the task would like."""
    kinds = {sensor.kind for sensor in sim.robot.sensors}
    given = tuple(name for name, kind in PARTS.items() if kind in kinds)
    return given + (("base_pos", "base_vel_world") if "position" in kinds else ())


def agree(
    sim: Sim,
    action: Action,
    policy: tuple[Term, ...],
    *,
    history: tuple[Term, ...] = (),
    privileged: tuple[Term, ...] = (),
    commands: tuple[Range, ...] = (),
) -> Contract:
    """A contract with the groups `policy`, `history` where there is one, and `critic`.

    Args:
        sim: gives the robot, its rates, gains and sensors.
        action: what the policy's output means.
        policy: what the policy observes now.
        history: what it observes of the past, in a group of its own.
        privileged: what the critic sees besides; e is added where the sim has Params.
        commands: what may be asked of the policy.
    """
    robot = sim.robot
    joints = robot.joints or sim.command_names
    motors = {a.name: a for a in robot.actuators}
    e = (Term(source="e", columns=sim.params.names, unit="1"),) if len(sim.params) else ()
    groups = [Group(name="policy", terms=policy)]
    if history:
        groups.append(Group(name="history", terms=history))
    groups.append(Group(name="critic", terms=(*policy, *history, *privileged, *e), privileged=True))
    positions = action.kind == "joint_pos_target"
    gains = [(motors[j].kp, motors[j].kd) if j in motors else (0.0, 0.0) for j in joints] if positions else []
    return Contract(
        robot=robot.name,
        joints=joints,
        control_dt=robot.control_dt,
        timestep=robot.timestep,
        groups=tuple(groups),
        action=action,
        sensor_channels=sensor_channels(sim),
        pose=tuple(robot.pose.get(j, 0.0) for j in joints),
        kp=tuple(g[0] for g in gains) or None,
        kd=tuple(g[1] for g in gains) or None,
        commands=commands,
    )
