"""From a trained policy to a bundle that was checked against it.

    export(policy, contract, folder)

The contract is that of the task; what the robot cannot sense is left out, and what the policy knows (normaliser, memory) is
written into it. `surefoot.deploy.complete` adds what the robot knows, `surefoot.deploy.ranges` what training saw.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import surefoot
from surefoot.contract import Contract, Normaliser
from surefoot.deploy.agreement import Act, compare, random_cases, recorded_cases
from surefoot.deploy.bundle import POLICY, Bundle, write_bundle
from surefoot.deploy.onnx_graph import about_of, memories, onnx_of
from surefoot.deploy.onnx_policy import OnnxPolicy
from surefoot.errors import InputError
from surefoot.logs import Log

if TYPE_CHECKING:
    from surefoot.learn.networks import Policy


def export(
    policy: "Policy",
    contract: Contract,
    folder: str | Path,
    *,
    check: Sequence[Log] = (),
    observations: Mapping[str, np.ndarray] | None = None,
    provenance: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Bundle:
    """Write a bundle; raises, and writes nothing, when ONNX and the policy differ by more than 1e-5.

    Args:
        policy: as learned; its normaliser is taken as it is now.
        contract: the task's, with every group the policy reads; privileged groups are left out.
        folder: a new folder, or with `overwrite` a bundle to be replaced.
        check: recorded runs with channels observation/GROUP: their observations are compared too.
        observations: recorded observations, group -> (steps, n) or (steps, worlds, n), compared too.
        provenance: what is known of its origin, plain values; such as run, seed, steps.
        overwrite: replace the bundle that is there.
    """
    from surefoot.learn.threads import torch_threads

    arrays = policy.to_arrays()
    given = deployed(contract, arrays, policy.widths)
    data = onnx_of(arrays, metadata={"surefoot.robot": given.robot, "surefoot.contract": given.hash})
    cases = recorded_cases(given, observations, check) + random_cases(given)
    with torch_threads(1):
        found = compare(
            cases,
            torch_act(policy),
            lambda: OnnxPolicy(POLICY, given, data=data),
            given.action.joints,
            "ONNX and the trained policy",
        )
    about = {
        "source": "surefoot",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        **(provenance or {}),
        "commands": {item.name: [item.low, item.high, item.unit] for item in given.commands},
        "check": {"against": "torch", **found},
        "unknown": unknown(given),
        "versions": versions(),
    }
    return write_bundle(folder, data, given, about, overwrite=overwrite)


def deployed(contract: Contract, arrays: Mapping[str, np.ndarray], widths: Mapping[str, int]) -> Contract:
    """The contract of the groups that the policy reads, with its normaliser and its memory."""
    privileged = {group.name for group in contract.groups if group.privileged}
    for name, width in widths.items():
        group = contract.group(name)
        if name in privileged:
            raise InputError(
                f"the policy reads {name!r}, which is privileged: no robot can sense it, train a policy that does not"
            )
        if group.size != width:
            raise InputError(
                f"the policy reads {width} numbers of group {name!r}, the contract has {group.size}: another task's contract?"
            )
    if "policy" not in widths:
        raise InputError(f"the policy reads {', '.join(widths)}: a bundle needs the group 'policy' among them")
    actions = about_of(arrays)["actions"]
    if actions != len(contract.action.joints):
        raise InputError(
            f"the policy has {actions} actions, the contract {len(contract.action.joints)}: another task's contract?"
        )
    groups, at = [], 0
    mean, var = arrays["normaliser.mean"], arrays["normaliser.var"]
    eps, limit = float(arrays["normaliser.eps"]), float(arrays["normaliser.limit"])
    for name, width in widths.items():
        part = slice(at, at + width)
        frozen = Normaliser(mean=tuple(mean[part]), var=tuple(var[part]), eps=eps, limit=limit, by="network")
        group = contract.group(name)
        if group.normaliser is not None and group.normaliser.by == "builder":
            raise InputError(
                f"the builder already normalises group {name!r}, the policy would do it twice: leave it out of the contract"
            )
        groups.append(replace(group, normaliser=frozen))
        at += width
    return replace(contract, groups=tuple(groups), memory=memories(arrays))


def torch_act(policy: "Policy") -> Callable[[], Act]:
    """Makes functions of NumPy arrays that act as the policy does, each with an empty memory."""

    def begin() -> Act:
        play = policy.play()

        def act(observations: Mapping[str, np.ndarray]) -> np.ndarray:
            tensors = {name: policy.log_std.new_tensor(x) for name, x in observations.items()}
            return play(tensors).cpu().numpy().copy()

        return act

    return begin


def unknown(contract: Contract) -> list[str]:
    """What a contract leaves open, one sentence each."""
    positions = contract.action.kind == "joint_pos_target"
    wanted = ("pd_rate", "kp", "kd", "torque_limit", "speed_limit", "position_limits") if positions else ("pd_rate",)
    found = [f"contract.{name} is not known" for name in wanted if getattr(contract, name) is None]
    if not positions and contract.action.limits is None:
        found.append(f"the limits of a {contract.action.kind} are not known")
    for group in contract.groups:
        found += [
            f"the trained range of term {t.name!r} of group {group.name!r} is not known"
            for t in group.terms
            if t.trained is None
        ]
    return found if contract.e else [*found, "the training ranges of e are not known"]


def versions() -> dict[str, str]:
    """What a bundle depends on besides its inputs."""
    import onnx
    import onnxruntime

    return {
        "surefoot": surefoot.__version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__, "numpy": np.__version__,
        "python": platform.python_version(), "machine": platform.machine(), "system": platform.system(),
    }  # fmt: skip
