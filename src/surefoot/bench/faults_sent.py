"""Faults in what becomes of the action, in time and in number."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.bench.fault_runs import Case, Hooks, Past
from surefoot.bench.planted import ENCODERS, Planted, any_joint, fault, legged, signed, swap
from surefoot.contract import Contract
from surefoot.logs import Log


def _acted(case: Case, **changes: Any) -> Callable[[Contract], Contract]:
    return lambda contract: replace(contract, action=replace(contract.action, **changes))


@fault("action scale")
def _(case: Case, rng: np.random.Generator) -> Planted:
    terms = case.bundle.contract.action
    factor = float(rng.choice([0.5, 2.0, 0.8]))
    hooks = Hooks(actions=_acted(case, scale=tuple(factor * np.array(terms.scale))))
    return Planted(hooks=hooks, where="action", terms=(terms.kind,), kinds=("scale",))


@fault("default pose not added to the action")
def _(case: Case, rng: np.random.Generator) -> Planted:
    hooks = Hooks(actions=_acted(case, offset=0.0))
    return Planted(hooks=hooks, where="action", terms=(case.bundle.contract.action.kind,), kinds=("offset",))


@fault("actions permuted")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not legged(case):
        return None
    order = swap(case, rng)
    return Planted(
        hooks=Hooks(mapped=lambda a: a[order]),
        where="action",
        terms=(case.bundle.contract.action.kind,),
        kinds=("permuted",),
    )


@fault("sign of one action")
def _(case: Case, rng: np.random.Generator) -> Planted:
    n = len(case.bundle.contract.action.joints)
    row = signed(n, int(rng.integers(n)))
    return Planted(
        hooks=Hooks(mapped=lambda a: a * row),
        where="action",
        terms=(case.bundle.contract.action.kind,),
        kinds=("sign",),
    )


@fault("action one step late")
def _(case: Case, rng: np.random.Generator) -> Planted:
    hooks = Hooks(sent=lambda u, past: past.delayed("sent", u.copy(), 1))
    return Planted(hooks=hooks, where="action", terms=(case.bundle.contract.action.kind,), kinds=("delayed",))


@fault("gait rhythm missing")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not np.any(case.bundle.contract.action.lift):
        return None
    return Planted(
        hooks=Hooks(actions=_acted(case, lift=0.0)),
        where="action",
        terms=(case.bundle.contract.action.kind,),
        kinds=("clock",),
    )


@fault("gains of another robot")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if case.bundle.contract.kp is None:
        return None
    hooks = Hooks(gains=lambda kp, kd: (0.5 * kp, 0.5 * kd))
    also = (("driver", "joint_torque", "gains"),)
    return Planted(hooks=hooks, where="action", terms=("motor_kp", "motor_kd"), kinds=("gains",), also=also)


@fault("kp and kd swapped")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if case.bundle.contract.kp is None:
        return None
    hooks = Hooks(gains=lambda kp, kd: (kd, kp))
    also = (("driver", "joint_torque", "*"), ("driver", "joint_pos", "*"))
    return Planted(hooks=hooks, where="action", terms=("motor_kp", "motor_kd"), kinds=("gains",), also=also)


@fault("memory emptied at every step")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if not case.bundle.contract.memory:
        return None
    policy = case.bundle.policy()

    def forgetful(shown: dict[str, np.ndarray], past: Past) -> dict[str, np.ndarray]:
        policy.reset()
        past.past["answer"] = [policy(shown)[0].astype(float)]
        return shown

    hooks = Hooks(observation=forgetful, output=lambda a, past: past.past["answer"][0])
    return Planted(hooks=hooks, where="action", terms=("action",), kinds=("memory",))


# ---------------------------------------------------------------- in time and in number


@fault("twice the control rate")
def _(case: Case, rng: np.random.Generator) -> Planted | None:
    if round(case.bundle.contract.control_dt / case.inner) % 2 and case.inner * 2 > case.bundle.contract.control_dt:
        return None
    return Planted(hooks=Hooks(rate=2.0), where="timing", terms=("control_dt",), kinds=("rate",))


@fault("a joint is missing", driver=True)
def _(case: Case, rng: np.random.Generator) -> Planted:
    joint = case.robot.joints[any_joint(case, rng)]

    def fewer(log: Log) -> Log:
        kept = []
        for channel in log.channels:
            if channel.name in ENCODERS and joint in channel.columns and len(channel.columns) > 1:
                channel = channel.pick([c for c in channel.columns if c != joint])
            kept.append(channel)
        return replace(log, channels=tuple(kept))

    also = (("driver", "joint_vel", "count"),)
    return Planted(
        hooks=Hooks(log=fewer), where="driver", terms=("joint_pos", "joint_vel"), kinds=("count",), also=also
    )
