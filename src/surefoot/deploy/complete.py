"""What a robot knows and a task's contract leaves out: limits, gains, the inner rate, the range of e.

Only for making a bundle; at run time everything stands in contract.json.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from surefoot.contract import Contract, Range
from surefoot.contract.terms import positive
from surefoot.params import Params
from surefoot.robots import Robot

FREE = 1e6
"""[rad], [rad/s] Stands for "no limit" of a joint in a list where other joints have one: a contract's limits are finite."""


def complete(contract: Contract, robot: Robot, *, pd_rate: float = 500.0, params: Params | None = None) -> Contract:
    """The contract with what it leaves None filled in from the robot; what it has stays.

    position_limits are the ranges of the model's joints, speed_limit the motors' no-load speeds, rest the robot's, torque_limit,
    kp and kd the actuators'. Targets that are no positions are limited to what the motor can take: its torque, its supply,
    0 .. 1 of a rotor.

    Args:
        contract: of a task.
        robot: the one it was made for.
        pd_rate: rate of the inner loop [Hz], rounded up to a whole multiple of the policy's.
        params: bound Params whose ranges become contract.e; left as it is without.
    """
    pd_rate = positive(pd_rate, "pd_rate")
    motors = {actuator.name: actuator for actuator in robot.actuators}
    own = [motors.get(name) for name in contract.joints]
    positions = contract.action.kind == "joint_pos_target"
    speeds = [None if a is None else a.speed_limit for a in own]
    torques = [None if a is None else a.torque_limit for a in own]
    rate = max(1, math.ceil(pd_rate * contract.control_dt - 1e-9)) / contract.control_dt
    found = {
        "pd_rate": rate,
        "position_limits": _ranges(robot, contract.joints),
        "speed_limit": tuple(FREE if v is None else v for v in speeds) if any(speeds) else None,
        "rest": tuple(robot.rest[j] for j in contract.joints) if robot.rest and positions else None,
        "torque_limit": tuple(v or 0.0 for v in torques) if any(torques) else None,
        "kp": tuple(0.0 if a is None else a.kp for a in own) if positions else None,
        "kd": tuple(0.0 if a is None else a.kd for a in own) if positions else None,
    }
    missing = {name: value for name, value in found.items() if getattr(contract, name) is None and value is not None}
    contract = replace(contract, **missing)
    if contract.action.limits is None and (limits := _targets(contract, robot)) is not None:
        contract = replace(contract, action=replace(contract.action, limits=limits))
    return contract if params is None else with_e(contract, params)


def _ranges(robot: Robot, joints: tuple[str, ...]) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Ranges of the joints in the model [rad], FREE where a joint has none; None when no joint has one."""
    model = robot.spec().compile()
    known = set(robot.joints)
    low, high, some = [], [], False
    for name in joints:
        limited = name in known and bool(model.joint(name).limited[0])
        some |= limited
        pair = model.joint(name).range if limited else (-FREE, FREE)
        low.append(float(pair[0]))
        high.append(float(pair[1]))
    return (tuple(low), tuple(high)) if some else None


def _targets(contract: Contract, robot: Robot) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """What the motors can take as a target that is no position; None where that is not known of all."""
    pick = {
        "joint_torque_target": lambda a: a.torque_limit and (-a.torque_limit, a.torque_limit),
        "joint_vel_target": lambda a: a.speed_limit and (-a.speed_limit, a.speed_limit),
        "voltage_target": lambda a: a.voltage and (-a.voltage, a.voltage),
        "rotor_target": lambda a: (0.0, 1.0),
    }.get(contract.action.kind)
    if pick is None:
        return None
    pairs = [pick(robot.actuator(name)) for name in contract.action.joints]
    if not all(pairs):
        return None
    low, high = np.array(pairs, dtype=float).T
    return tuple(low.tolist()), tuple(high.tolist())


def with_e(contract: Contract, params: Params, ranges: Mapping[str, tuple[float, float]] | None = None) -> Contract:
    """The contract with the training range of every number of e.

    Args:
        contract: of a task.
        params: bound Params (`sim.params`): one entry per scalar, such as "kd[FL_calf]".
        ranges: (low, high) by Param where the training drew from other ranges than the Params' own.
    """
    scalars = [(name, param) for name in params for _ in range(_count(params, name)) for param in (params[name],)]
    found = []
    for label, (name, param), low, high in zip(params.names, scalars, params.low, params.high, strict=True):
        low, high = (ranges or {}).get(label, (ranges or {}).get(name, (low, high)))
        found.append(Range(name=label, low=float(low), high=float(high), unit=param.unit))
    return replace(contract, e=tuple(found))


def _count(params: Params, name: str) -> int:
    return params.only(name).d
