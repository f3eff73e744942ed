"""Every joint its motor: an ideal torque source, or a motor with windings where a Param asks for them."""

from collections.abc import Mapping

import mujoco

from surefoot.errors import InputError
from surefoot.params import Params
from surefoot.robots import Actuator, Robot
from surefoot.sim.edits import middle
from surefoot.sim.names import matching

MOTOR_PARAMS = ("dcmotor", "thermal")


def add_actuators(spec: mujoco.MjSpec, robot: Robot, params: Params) -> tuple[str, ...]:
    """Give every joint its motor, in the order of robot.actuators; returns those with windings."""
    native = any(a.model == "native" for a in robot.actuators)
    if not native:
        for actuator in list(spec.actuators):
            spec.delete(actuator)
    wound: dict[str, Mapping[str, object]] = {}
    joints = [a.name for a in robot.actuators]
    for name, param in params.items():
        if param.about.structural == "sag_law":
            wound |= {
                a.name: wound.get(a.name, {}) for a in robot.actuators if a.model == "pd" and a.voltage is not None
            }
        if param.about.structural in MOTOR_PARAMS:
            try:
                for joint in matching(param.of, joints, "actuated joint"):
                    wound[joint] = {
                        **wound.get(joint, {}),
                        **{f"{param.kind}.{k}": v for k, v in param.options.items()},
                    }
                    if param.about.structural == "thermal":
                        wound[joint] = {**wound[joint], "thermal": middle(param)}
            except InputError as error:
                raise InputError(f"param '{name}': {error}") from None
    for actuator in robot.actuators:
        if actuator.model != "native":
            options = wound.get(actuator.name)
            _add_actuator(spec, actuator, options if actuator.model != "voltage" else (options or {}))
    return tuple(a.name for a in robot.actuators if a.name in wound or a.model == "voltage")


def _add_actuator(spec: mujoco.MjSpec, a: Actuator, wound: Mapping[str, object] | None) -> None:
    """One actuator; `wound` holds the options of its windings, None for an ideal torque source."""
    act = spec.add_actuator(name=a.name, target=a.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    if wound is not None and a.model in ("pd", "voltage"):
        _wind(act, a, wound)
    elif wound is not None:
        raise InputError(f"'{a.name}' is driven by {a.model}: only pd and voltage actuators can have windings")
    elif a.model == "pd":
        act.set_to_position(kp=a.kp, kv=a.kd)
    elif a.model == "velocity":
        act.set_to_velocity(kv=a.kd)
    elif a.model == "torque":
        act.set_to_motor()
    else:
        act.trntype = mujoco.mjtTrn.mjTRN_SITE
        act.set_to_motor()
        act.gear = [0, 0, a.thrust_max, 0, 0, a.spin * a.moment_ratio * (a.thrust_max or 0.0)]
    if a.torque_limit is not None:
        act.forcelimited, act.forcerange = True, [-a.torque_limit, a.torque_limit]


def _wind(act: mujoco.MjsActuator, a: Actuator, options: Mapping[str, object]) -> None:
    constant, resistance, voltage = windings(a)
    thermal = [0.0] * 6
    if "thermal" in options:
        o = {k.removeprefix("thermal."): v for k, v in options.items()}
        thermal = [o["thermal"], o["capacity"], 0.0, o["coefficient"], o["ambient"], o["ambient"]]
    cogging = [1e-9, float(options["cogging.poles"]), 0.0] if "cogging.poles" in options else [0.0] * 3  # type: ignore[arg-type]
    controlled = a.model == "pd"
    act.set_to_dcmotor(
        motorconst=[constant, constant],
        resistance=resistance,
        cogging=cogging,
        thermal=thermal,  # type: ignore[arg-type]
        controller=[a.kp, 0, a.kd, 0, 0, voltage] if controlled else [0.0] * 6,
        ctrlspec=CONTROL_POSITION if controlled else CONTROL_VOLTAGE,
    )
    if not controlled and a.voltage is not None:
        act.ctrllimited, act.ctrlrange = True, [-a.voltage, a.voltage]


CONTROL_POSITION, CONTROL_VOLTAGE = 1, 8


def windings(a: Actuator) -> tuple[float, float, float]:
    """Torque constant K [N·m/A], resistance R [ohm] and supply [V] of a motor at its joint.

    From K and R where the robot file has them, else from stall torque and no-load speed: K = V / ω0, R = K V / τ_stall.
    """
    voltage = a.voltage
    if a.torque_constant is not None and a.resistance is not None:
        return a.torque_constant, a.resistance, voltage if voltage is not None else 1e6
    if voltage is None or a.speed_limit is None or a.torque_limit is None:
        raise InputError(
            f"the motor of '{a.name}' has no windings: its robot file needs torque_constant and resistance, "
            f"or voltage, speed_limit and torque_limit"
        )
    constant = voltage / a.speed_limit
    return constant, constant * voltage / a.torque_limit, voltage
