"""Does a bundle fit its robot, and did a recorded run keep to its contract?

    verdict = verify(load_bundle("go2/"), read_log("run.mcap"), load("go2"))
    print(verdict)

Without a log the bundle itself is checked, and against a robot where one is given. With a log of a run: every observation is rebuilt from
the raw readings by the one builder, every action by the policy file, every target from the action; then the raw readings are checked
against physics, since a wrong driver looks right to a builder. What could not be told is listed, never passed in silence.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from surefoot.contract import Contract
from surefoot.deploy.bundle import Bundle
from surefoot.deploy.check_actions import check_gains, check_policy, check_sent
from surefoot.deploy.check_observations import check_observations
from surefoot.deploy.check_timing import check_columns, check_timing
from surefoot.deploy.findings import Finding as Finding
from surefoot.deploy.findings import Notes
from surefoot.deploy.findings import Verdict as Verdict
from surefoot.deploy.imu_checks import check_imu
from surefoot.deploy.physics_checks import check_joints
from surefoot.deploy.recorded_run import Run
from surefoot.errors import InputError
from surefoot.logs import Log

if TYPE_CHECKING:
    from surefoot.robots import Robot


SLACK = 1e-3
"""[rad] Limits this close are the same."""


def verify(bundle: Bundle, log: Log | None = None, robot: "Robot | None" = None) -> Verdict:
    """Check a bundle, and with a log a recorded run of it.

    Args:
        bundle: what `load_bundle` gave.
        log: a recorded run, with the channels of docs/verify.md; what it lacks is listed as unchecked.
        robot: the robot it is for; adds its joints, limits and gains, and with a log its kinematics.

    Returns:
        A verdict with the faults found, by place, term and kind.
    """
    notes = Notes()
    _check_bundle(bundle, notes)
    if robot is None:
        notes.unchecked.append(
            "robot: none was given, so joints, limits, gains and kinematics were not compared with its model"
        )
    else:
        _check_robot(bundle.contract, robot, notes)
    if log is not None:
        _check_log(bundle, log, robot, notes)
    return notes.verdict()


def _check_bundle(bundle: Bundle, notes: Notes) -> None:
    """The policy answers with finite numbers of the right shape, and its own middle of the training range."""
    contract = bundle.contract
    worlds = 1
    zero = {g.name: np.zeros((worlds, g.size), np.float32) for g in contract.groups}
    middle = {}
    for group in contract.groups:
        norm = group.normaliser
        row = np.zeros(group.size) if norm is None or norm.by == "builder" else np.array(norm.mean)
        middle[group.name] = row[None].astype(np.float32)
    for what, given in (("zeros", zero), ("the mean of its training", middle)):
        policy = bundle.policy()
        try:
            a = policy(given)
        except InputError as error:
            notes.find("bundle", "policy", "count", str(error))
            return
        if a.shape != (worlds, len(contract.action.joints)):
            notes.find(
                "bundle",
                "policy",
                "count",
                f"its action has shape {a.shape}, {(worlds, len(contract.action.joints))} is meant",
            )
            return
        if not np.isfinite(a).all():
            notes.find("bundle", "policy", "not finite", f"its action is not finite when it is shown {what}")
            return
    notes.checked.append(
        f"bundle: the policy of {contract.robot} answers with {len(contract.action.joints)} finite actions"
    )
    notes.unchecked.extend(f"bundle: {sentence}" for sentence in bundle.unknown)


def _check_robot(contract: Contract, robot: "Robot", notes: Notes) -> None:
    """Name, joints and their order, motors, gains and pose of the robot are those of the contract."""
    if contract.robot != robot.name:
        notes.find("bundle", "robot", "another", f"the bundle is for {contract.robot!r}, the robot is {robot.name!r}")
    joints = robot.joints or tuple(a.name for a in robot.actuators)
    motors = {a.name: a for a in robot.actuators}
    there = replace(contract, groups=contract.groups)
    if set(joints) != set(contract.joints):
        missing, more = [j for j in contract.joints if j not in joints], [j for j in joints if j not in contract.joints]
        detail = f"{len(contract.joints)} joints in the contract, {len(joints)} on the robot: "
        detail += "; ".join(
            [f"not on the robot: {', '.join(missing)}"] * bool(missing)
            + [f"not in the contract: {', '.join(more)}"] * bool(more)
        )
        notes.find("bundle", "joints", "count", detail, missing or more)
        return
    order = tuple(joints)
    changes: dict[str, object] = {"joints": order}
    by_name = {j: i for i, j in enumerate(contract.joints)}
    for name in ("pose", "kp", "kd", "torque_limit", "rate_limit"):
        values = getattr(contract, name)
        changes[name] = None if values is None else tuple(np.array(values)[[by_name[j] for j in order]])
    if contract.position_limits is not None:
        changes["position_limits"] = tuple(
            tuple(np.array(side)[[by_name[j] for j in order]]) for side in contract.position_limits
        )
    if contract.kp is not None and all(j in motors for j in order):
        changes["kp"], changes["kd"] = (tuple(getattr(motors[j], g) for j in order) for g in ("kp", "kd"))
    if robot.joints and contract.action.kind == "joint_pos_target":
        changes["pose"] = tuple(robot.pose[j] for j in order)
    there = replace(contract, **changes)
    for sentence in contract.difference(there):
        kind = "permuted" if "permuted" in sentence else "gains" if sentence.startswith(("kp", "kd")) else "offset"
        notes.find("bundle", sentence.split(" ")[0], kind, f"robot (there) and contract (here): {sentence}")
    _check_limits(contract, robot, notes)
    kinds = {a.channel for a in robot.actuators}
    if contract.action.kind not in kinds:
        notes.find(
            "bundle",
            "action",
            "another",
            f"the action is a {contract.action.kind}, the robot takes {', '.join(sorted(kinds))}",
        )
    notes.checked.append(f"robot: joints, their order, pose and gains of {robot.name}")


def _check_limits(contract: Contract, robot: "Robot", notes: Notes) -> None:
    """The contract's position limits do not reach beyond the joints' stops."""
    if contract.position_limits is None or not robot.joints:
        notes.unchecked.append("robot: position limits, the contract states none")
        return
    model = robot.spec().compile()
    low, high = map(np.array, contract.position_limits)
    for i, name in enumerate(contract.joints):
        joint = model.joint(name)
        if joint.limited[0] and (low[i] < joint.range[0] - SLACK or high[i] > joint.range[1] + SLACK):
            stops = f"{joint.range[0]:.4g} .. {joint.range[1]:.4g}"
            detail = f"{name} may go {low[i]:.4g} .. {high[i]:.4g} rad by the contract, its stops are at {stops}"
            notes.find("bundle", "position_limits", "limits", detail, [name])


def _check_log(bundle: Bundle, log: Log, robot: "Robot | None", notes: Notes) -> None:
    if log.robot is not None and log.robot != bundle.contract.robot:
        notes.find(
            "bundle", "robot", "another", f"the log is of {log.robot!r}, the bundle is for {bundle.contract.robot!r}"
        )
    ran = log.meta.get("bundle")
    if isinstance(ran, str) and ran and ran != bundle.hash:
        notes.find(
            "bundle",
            "policy",
            "another",
            f"the log was made with the policy {ran[:12]}, this one is {bundle.hash[:12]}",
        )
    if isinstance(log.meta.get("contract"), dict):
        try:
            before = Contract.from_dict(dict(log.meta["contract"]), "the log's contract")
        except InputError as error:
            notes.unchecked.append(f"bundle: the log's own contract cannot be read: {error}")
        else:
            for sentence in bundle.contract.difference(before):
                notes.find(
                    "bundle", "contract", "another", f"the log's contract (there) and the bundle's (here): {sentence}"
                )
    run = Run(bundle.contract, log)
    check_columns(run, notes)
    check_timing(run, notes)
    check_observations(run, notes)
    check_policy(bundle, run, notes)
    check_sent(run, notes)
    check_gains(run, notes)
    check_joints(run, notes)
    check_imu(run, notes)
    if robot is not None:
        from surefoot.deploy.motion_checks import check_motion
        from surefoot.deploy.stance_checks import check_stance

        check_stance(run, robot, notes)
        check_motion(run, robot, notes)
