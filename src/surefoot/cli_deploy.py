"""`surefoot export`, `export-as` and `import-policy`: bundles, the form in which a policy goes to a robot."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from surefoot.cli_words import File, Seconds, Source, Target, answer, table
from surefoot.errors import InputError, choose

RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
BundleFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="BUNDLE")]
Form = Annotated[
    Literal["mjlab", "unitree", "plain"], tyro.conf.Positional, tyro.conf.arg(metavar="mjlab|unitree|plain")
]
OtherForm = Annotated[
    Literal["mjlab", "unitree", "c99"], tyro.conf.Positional, tyro.conf.arg(metavar="mjlab|unitree|c99")
]
Ranges = Annotated[list[str], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=LOW:HIGH:UNIT")]
Meanings = Annotated[list[str], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=MEANING")]


def export(
    run: RunFolder,
    bundle: BundleFolder,
    /,
    *,
    seconds: float = 10.0,
    worlds: int = 64,
    seed: int = 0,
    pd_rate: float = 500.0,
    overwrite: bool = False,
    json: bool = False,
) -> int:
    """Write a policy as a bundle for the robot: policy.onnx, contract.json, provenance.json; checked against the trained one.

    Args:
        run: folder of a run, made by `surefoot train`.
        bundle: folder to write.
        seconds: how long the policy is run to see the range of its observations [s].
        worlds: in how many worlds, each with its own e.
        seed: of these worlds.
        pd_rate: rate of the robot's inner loop [Hz], rounded up to a whole multiple of the policy's.
        overwrite: replace a bundle that is there.
        json: print what was written as JSON.
    """
    from surefoot.deploy.complete import complete, with_e
    from surefoot.deploy.export import export as write
    from surefoot.deploy.ranges import trained_ranges, with_trained
    from surefoot.evaluate.runs import candidate
    from surefoot.learn import load_run
    from surefoot.sim import Sim

    chosen = candidate(run)
    sim = Sim(chosen.robot, worlds=worlds, seed=seed)
    seen = trained_ranges(chosen.policy, chosen.task, sim, seconds=seconds, seed=seed)
    contract = complete(chosen.task.contract(sim), chosen.robot, pd_rate=pd_rate)
    config = load_run(run).config
    if chosen.ranges or config.get("about", {}).get("whole_prior"):
        contract = with_e(contract, sim.params, chosen.ranges)
    contract = with_trained(contract, seen.low, seen.high)
    about = {
        "run": {"name": chosen.name, "steps": chosen.steps, "seed": config.get("seed"), "config": config},
        "robot": {"name": chosen.robot.name, "hash": chosen.robot.hash},
        "ranges": {"seconds": seen.seconds, "worlds": seen.worlds, "seed": seed, "ended": seen.ended},
    }
    made = write(chosen.policy, contract, bundle, observations=seen.samples, provenance=about, overwrite=overwrite)
    answer(summary(made), lambda: _text(made), json)
    return 0


def summary(bundle: Any) -> dict[str, Any]:
    """What a bundle is, as plain values."""
    contract = bundle.contract
    return {
        "bundle": bundle.folder,
        "robot": contract.robot,
        "policy": bundle.hash,
        "contract": contract.hash,
        "groups": {group.name: group.size for group in contract.groups},
        "memory": {memory.name: list(memory.shape) for memory in contract.memory},
        "actions": list(contract.action.joints),
        "difference": bundle.provenance.get("check", {}).get("difference"),
        "unknown": list(bundle.unknown),
    }


def _text(bundle: Any) -> str:
    about = summary(bundle)
    rows = [("bundle", str(about["bundle"])), ("robot", about["robot"])]
    rows += [("policy", about["policy"][:12]), ("contract", about["contract"][:12])]
    rows += [("reads", ", ".join(f"{name} {size}" for name, size in about["groups"].items()))]
    rows += [("remembers", ", ".join(f"{name} {shape}" for name, shape in about["memory"].items()) or "nothing")]
    rows += [("actions", f"{len(about['actions'])} {bundle.contract.action.kind}")]
    if about["difference"] is not None:
        rows += [("largest difference", f"{about['difference']:.2g}")]
    rows += [("not known", sentence) for sentence in about["unknown"]]
    return table([("what", "value"), *rows])


def import_policy(
    form: Form,
    file: Source,
    bundle: BundleFolder,
    /,
    *,
    robot: str = "",
    control_dt: Seconds = None,
    contract: File = None,
    policy: File = None,
    joints: str = "",
    command: Ranges = [],  # noqa: B006
    same: Meanings = [],  # noqa: B006
    kp: str = "",
    kd: str = "",
    input_name: str = "",
    output_name: str = "",
    overwrite: bool = False,
    json: bool = False,
) -> int:
    """Make a bundle of a policy from elsewhere; what its file does not say must be given, what nobody says is listed.

    Args:
        form: mjlab (an ONNX file with its metadata), unitree (a deploy.yaml), plain (an ONNX file and a contract.json).
        file: the ONNX file, or deploy.yaml.
        bundle: folder to write.
        robot: name of the robot (mjlab, unitree).
        control_dt: time between two actions [s] (mjlab).
        contract: contract.json, written by hand (plain).
        policy: the ONNX file of a deploy.yaml; ../exported/policy.onnx from its folder when left out (unitree).
        joints: names of the motors in their order, separated by commas; those of `robot` where the library has it (unitree).
        command: NAME=LOW:HIGH:UNIT, once for each command in the order in which the policy observes them (mjlab).
        same: NAME=MEANING, what an observation with a name of its own is, such as imu=base_ang_vel (mjlab, unitree).
        kp: gains per joint separated by commas, where the file's are not to be used (mjlab).
        kd: likewise.
        input_name: what the file calls its observation, where not policy (plain).
        output_name: what the file calls its action, where not action (plain).
        overwrite: replace a bundle that is there.
        json: print what was written as JSON.
    """
    from surefoot.deploy.foreign_mjlab import import_mjlab
    from surefoot.deploy.foreign_plain import Names, import_plain
    from surefoot.deploy.foreign_unitree import import_unitree

    given = {
        "robot": robot, "control_dt": control_dt, "contract": contract, "policy": policy, "joints": joints, "command": command,
        "same": same, "kp": kp, "kd": kd, "input_name": input_name, "output_name": output_name,
    }  # fmt: skip
    _check_given(form, {name for name, value in given.items() if value})
    meanings = dict(_pair(item, "NAME=MEANING") for item in same)
    if form == "plain":
        names = Names(inputs={"policy": input_name} if input_name else {}, action=output_name or "action")
        made = import_plain(file, str(contract), bundle, names=names, overwrite=overwrite)
    elif form == "mjlab":
        gains = (_numbers(kp), _numbers(kd)) if kp or kd else None
        ranges = [_range(item) for item in command]
        dt = float(control_dt or 0.0)
        made = import_mjlab(
            file, bundle, robot=robot, control_dt=dt, commands=ranges, same=meanings, gains=gains, overwrite=overwrite
        )
    else:
        motors = tuple(joints.split(",")) if joints else _motors(robot)
        made = import_unitree(
            file, bundle, robot=robot, joints=motors, policy=policy, same=meanings, overwrite=overwrite
        )
    answer(summary(made), lambda: _text(made), json)
    return 0


TAKES = {
    "plain": (("contract",), ("input_name", "output_name")),
    "mjlab": (("robot", "control_dt"), ("command", "same", "kp", "kd")),
    "unitree": (("robot",), ("policy", "joints", "same")),
}
"""Form -> the arguments it needs, and those it may have."""


def _check_given(form: str, given: set[str]) -> None:
    needed, more = TAKES[choose(form, TAKES, "a form of policies from elsewhere")]
    flags = {name: f"--{name.replace('_', '-')}" for name in given | {*needed}}
    for name in needed:
        if name not in given:
            raise InputError(f"a policy in the form {form!r} does not say it itself: give {flags[name]}")
    for name in sorted(given - {*needed, *more}):
        raise InputError(f"{flags[name]} says nothing about a policy in the form {form!r}: leave it out")


def _pair(text: str, form: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise InputError(f"{text!r} must have the form {form}")
    return name, value


def _range(text: str):
    from surefoot.contract import Range

    name, value = _pair(text, "NAME=LOW:HIGH:UNIT")
    parts = value.split(":")
    try:
        return Range(name=name, low=float(parts[0]), high=float(parts[1]), unit=parts[2])
    except (ValueError, IndexError):
        raise InputError(f"{text!r} must have the form NAME=LOW:HIGH:UNIT, such as vx=-1:1:m/s") from None


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"gains must be numbers separated by commas, one per joint, for both kp and kd; got {text!r}"
        ) from None


def _motors(robot: str) -> tuple[str, ...]:
    from surefoot.robots import load

    try:
        return load(robot).joints
    except InputError:
        raise InputError(
            f"deploy.yaml does not name its joints and {robot!r} is not in the library: give --joints, in the order of the motors"
        ) from None


def export_as(
    form: OtherForm,
    bundle: BundleFolder,
    out: Target,
    /,
    *,
    prefix: str = "policy",
    motors: str = "",
    json: bool = False,
) -> int:
    """Write a bundle in the form of others; what that form cannot say is refused.

    Args:
        form: mjlab (an ONNX file with its metadata), unitree (a folder with deploy.yaml and policy.onnx), c99 (a header file).
        bundle: folder of the bundle.
        out: file or folder to write.
        prefix: begins every name in the header (c99).
        motors: all motors of the robot in their order, separated by commas; the bundle's joints when left out (unitree).
        json: print the path as JSON.
    """
    from surefoot.deploy import load_bundle
    from surefoot.deploy.c99 import export_c99
    from surefoot.deploy.foreign_mjlab import export_mjlab
    from surefoot.deploy.foreign_unitree import export_unitree

    loaded = load_bundle(bundle)
    if form == "c99":
        written = export_c99(loaded, out, prefix=prefix)
    elif form == "mjlab":
        written = export_mjlab(loaded, out)
    else:
        written = export_unitree(loaded, out, motors=motors.split(",") if motors else None)
    answer(written, lambda: str(written), json)
    return 0
