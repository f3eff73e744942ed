"""Whether a robot gives what a contract asks for: checked by name before anything moves, one sentence per failure."""

import math
from collections.abc import Mapping

import numpy as np

from surefoot.contract import Builder, Contract, Hardware
from surefoot.contract.channels import RUNTIME
from surefoot.contract.frames import projected_gravity
from surefoot.deploy.settings import SafetySettings
from surefoot.deploy.stages import POSITIONS
from surefoot.errors import InputError, did_you_mean
from surefoot.logs.units import SI, canonical

WHOLE = 0.01
"""How far, relatively, a rate may be from a whole multiple: a recording's own rate is known no better."""


def fit(contract: Contract, hardware: Hardware, *, shadow: bool = False) -> Builder:
    """The builder for this robot's readings, or an InputError that says what does not fit.

    Args:
        contract: of the policy.
        hardware: the robot, connected.
        shadow: another controller drives, so its targets must be among the readings.
    """
    if hardware.robot != contract.robot:
        raise InputError(
            f"the policy is for {contract.robot!r}, the hardware is {hardware.robot!r}: connect the robot it was trained for"
        )
    kind = contract.action.kind
    if kind not in hardware.kinds:
        raise InputError(
            f"the policy commands {kind!r}, {hardware.robot!r} takes {', '.join(hardware.kinds) or 'nothing'}"
        )
    _outputs(contract, hardware)
    for group in contract.groups:
        for term in group.terms:
            if term.source not in RUNTIME and term.source not in hardware.channels:
                raise InputError(_missing(term.source, f"term {term.name!r} of group {group.name!r}", hardware))
    for name, wire in hardware.channels.items():
        for unit in wire.unit.split(","):
            if canonical(unit) not in SI:
                raise InputError(
                    f"channel {name!r} of {hardware.robot!r} comes in {unit.strip()!r}, not SI: convert it in the driver"
                )
    if kind == POSITIONS:
        if contract.kp is None or contract.kd is None:
            raise InputError(
                "the contract says no kp or kd, and position targets need them: export the policy with its gains"
            )
        if not shadow:
            _standing(contract, hardware)
    if shadow:
        _other(kind, hardware)
    columns = {name: wire.columns for name, wire in hardware.channels.items()}
    units = {name: ", ".join(canonical(u) for u in wire.unit.split(",")) for name, wire in hardware.channels.items()}
    return Builder(contract, columns=columns, units=units)


def inner_steps(contract: Contract, hardware: Hardware) -> tuple[float, int]:
    """Rate of the inner loop [Hz] and its ticks per policy step.

    The inner loop runs at the rate of the readings, or slower where the contract has a slower one; a robot in lockstep decides it
    alone. A policy step is a whole number of ticks.
    """
    wanted = hardware.rate if contract.pd_rate is None or not hardware.paced else min(contract.pd_rate, hardware.rate)
    exact = wanted * contract.control_dt
    ticks = round(exact)
    if ticks < 1:
        raise InputError(
            f"the policy runs at {1 / contract.control_dt:g} Hz, {hardware.robot!r} gives readings at {hardware.rate:g} Hz only"
        )
    if hardware.paced:
        return ticks / contract.control_dt, ticks
    if abs(exact - ticks) > WHOLE * exact:
        raise InputError(
            f"the policy runs at {1 / contract.control_dt:g} Hz and the robot in lockstep at {hardware.rate:g} Hz, which is no whole"
            " multiple: choose another rate of the robot"
        )
    return wanted, ticks


def _outputs(contract: Contract, hardware: Hardware) -> None:
    for name in hardware.outputs:
        if name not in contract.joints:
            raise InputError(
                f"motor {name!r} of {hardware.robot!r} is not a joint of the contract {did_you_mean(name, contract.joints)}"
            )
    for name in contract.action.joints:
        if name not in hardware.outputs:
            raise InputError(
                f"the policy moves {name!r}, which is not a motor of {hardware.robot!r} {did_you_mean(name, hardware.outputs)}"
            )


def _standing(contract: Contract, hardware: Hardware) -> None:
    """Standing up starts from where the joints are."""
    if "joint_pos" not in hardware.channels:
        raise InputError(_missing("joint_pos", "standing up", hardware))
    for name in hardware.outputs:
        if name not in hardware.channels["joint_pos"].columns:
            raise InputError(
                f"channel 'joint_pos' of {hardware.robot!r} lacks the motor {name!r}"
                f" {did_you_mean(name, hardware.channels['joint_pos'].columns)}, so nobody can stand it up smoothly"
            )


def _other(kind: str, hardware: Hardware) -> None:
    """Shadow mode compares with what the other controller commands."""
    if kind not in hardware.channels:
        raise InputError(_missing(kind, "shadow mode, which scores the policy against it,", hardware))
    for name in hardware.outputs:
        if name not in hardware.channels[kind].columns:
            raise InputError(
                f"channel {kind!r} of {hardware.robot!r} lacks the motor {name!r}: shadow mode compares all of them"
            )


def _missing(channel: str, who: str, hardware: Hardware) -> str:
    hint = ""
    if channel == "gravity" and "quat" in hardware.channels:
        hint = "; it can be made of 'quat' in the driver, with surefoot.contract.projected_gravity"
    return f"{who} needs the channel {channel!r}, which {hardware.robot!r} does not give {did_you_mean(channel, hardware.channels)}{hint}"


def usual_settings(contract: Contract, inner: float, readings: float) -> SafetySettings:
    """The contract's safety settings at this robot's rates [Hz]: of the inner loop, of its readings."""
    return SafetySettings.from_contract(
        contract, period=1 / inner, overrun_time=max(0.02, 5 / inner), stale_time=max(0.03, 3 / readings)
    )


def places(channel: str, hardware: Hardware) -> list[int]:
    """Where the motors stand in a channel of readings; empty where they do not."""
    columns = hardware.channels[channel].columns if channel in hardware.channels else ()
    return [columns.index(name) for name in hardware.outputs] if set(hardware.outputs) <= set(columns) else []


def tilt_of(values: Mapping[str, np.ndarray]) -> float:
    """Angle between the body's z axis and the vertical [rad], from gravity or attitude; NaN without either."""
    if "gravity" in values:
        x, y, z = values["gravity"].tolist()
    elif "quat" in values:
        x, y, z = projected_gravity(values["quat"]).tolist()
    else:
        return math.nan
    return math.atan2(math.hypot(x, y), -z)
