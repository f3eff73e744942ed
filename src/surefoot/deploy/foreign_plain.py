"""A policy of someone else's: an ONNX file and a contract written by hand become a bundle.

The network itself is not touched. Its inputs and outputs get our names; a memory whose first axis is the layer
(torch's order) is turned so that the world comes first. The result is compared with the original on random sequences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import Contract, Memory
from surefoot.deploy.agreement import Act, compare, random_cases
from surefoot.deploy.bundle import POLICY, Bundle, write_bundle
from surefoot.deploy.export import unknown, versions
from surefoot.deploy.onnx_names import rename
from surefoot.deploy.onnx_policy import ACTION, OnnxPolicy, read_onnx, session
from surefoot.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Names:
    """What a file calls its inputs and outputs.

    Attributes:
        inputs: group -> its input; a group that is not named has an input of its own name.
        action: the output with the action.
        memory: memory -> (input, output); one that is not named has NAME_in and NAME_out.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    action: str = ACTION
    memory: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def of(self, memory: Memory) -> tuple[str, str]:
        """Input and output of a memory."""
        return self.memory.get(memory.name, (f"{memory.name}_in", f"{memory.name}_out"))


def import_plain(
    file: str | Path,
    contract: Contract | str | Path,
    folder: str | Path,
    *,
    names: Names | None = None,
    overwrite: bool = False,
) -> Bundle:
    """A bundle of an ONNX file and a contract.

    Args:
        file: the ONNX file; raw observations in, raw actions out.
        contract: the contract, or its JSON file; its groups and memories must be those of the network.
        folder: bundle to write.
        names: what the file calls its inputs and outputs, where not as a bundle does.
        overwrite: replace the bundle that is there.
    """
    given = contract if isinstance(contract, Contract) else Contract.load(contract)
    return adopt(file, given, folder, names or Names(), source="plain", unknown_too=(), overwrite=overwrite)


def adopt(
    file: str | Path,
    contract: Contract,
    folder: str | Path,
    names: Names,
    *,
    source: str,
    unknown_too: Sequence[str],
    overwrite: bool,
    about: Mapping[str, Any] | None = None,
) -> Bundle:
    """Write the bundle of a foreign policy, after comparing it with the file it comes from."""
    where = Path(file).name
    original = read_onnx(file)
    data, dropped = renamed(original, contract, names, where)
    single = _fixed(data)
    found = compare(
        random_cases(contract, worlds=1 if single else None),
        lambda: _original(original, contract, names, where),
        lambda: OnnxPolicy(POLICY, contract, data=data),
        contract.action.joints,
        f"{where} and the policy of the bundle",
    )
    open_points = [*unknown(contract), *unknown_too, *(f"output {name!r} of {where} was left out" for name in dropped)]
    if all(group.normaliser is None for group in contract.groups):
        open_points.append(f"whether {where} holds a normaliser, and its statistics")
    provenance = {
        "source": source,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        **(about or {}),
        "check": {"against": where, **found},
        "unknown": open_points,
        "versions": versions(),
    }
    return write_bundle(folder, data, contract, provenance, overwrite=overwrite)


def shapes(data: bytes, where: str) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Names and shapes of a file's inputs and outputs."""
    run = session(data, where)
    return {i.name: i.shape for i in run.get_inputs()}, {o.name: o.shape for o in run.get_outputs()}


def _fixed(data: bytes) -> bool:
    return any(isinstance(shape[0], int) for shape in shapes(data, POLICY)[0].values())


def renamed(data: bytes, contract: Contract, names: Names, where: str) -> tuple[bytes, list[str]]:
    """The ONNX file with the inputs and outputs of a bundle, and the outputs that were left out."""
    from onnx import checker

    model = _parsed(data, where)
    inputs = {
        item.name: item for item in model.graph.input if item.name not in {x.name for x in model.graph.initializer}
    }
    outputs = {item.name: item for item in model.graph.output}
    wanted_in = {group.name: (names.inputs.get(group.name, group.name), (group.size,)) for group in contract.groups}
    wanted_in |= {f"{m.name}_in": (names.of(m)[0], m.shape) for m in contract.memory}
    wanted_out = {ACTION: (names.action, (len(contract.action.joints),))}
    wanted_out |= {f"{m.name}_out": (names.of(m)[1], m.shape) for m in contract.memory}
    _check_all(wanted_in, inputs, "input", where)
    _check_all(wanted_out, outputs, "output", where)
    extra = [name for name in inputs if name not in {old for old, _ in wanted_in.values()}]
    if extra:
        raise InputError(
            f"{where} also wants the input {extra[0]!r}, which is neither a group nor a memory of the contract: such a policy cannot be run"
        )
    ends = [_end(old, new, inputs[old], shape, where) for new, (old, shape) in wanted_in.items()]
    outs = [_end(old, new, outputs[old], shape, where) for new, (old, shape) in wanted_out.items()]
    dropped = [name for name in outputs if name not in {old for old, _ in wanted_out.values()}]
    rename(model.graph, {end.old: end.inner for end in (*ends, *outs)})
    turns = [_turn(end.new, end.inner) for end in ends if end.layered]
    back = [_turn(end.inner, end.new) for end in outs if end.layered]
    nodes = [*turns, *model.graph.node, *back]
    del model.graph.node[:], model.graph.input[:], model.graph.output[:]
    model.graph.node.extend(nodes)
    model.graph.input.extend(end.value for end in ends)
    model.graph.output.extend(end.value for end in outs)
    checker.check_model(model)
    return model.SerializeToString(deterministic=True), dropped


def _parsed(data: bytes, where: str) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        raise InputError(f"{where} is not an ONNX file") from None
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise InputError(
                f"{where} keeps its weights in another file: save it as one file (onnx.save without external data)"
            )
    return model


def _check_all(wanted: Mapping[str, Any], found: Mapping[str, Any], what: str, where: str) -> None:
    from onnx import TensorProto

    for new, (old, _) in wanted.items():
        if old not in found:
            raise InputError(
                f"{where} has no {what} {old!r} (for {new!r}), it has {', '.join(found) or 'none'}: say which one it is"
            )
        if found[old].type.tensor_type.elem_type != TensorProto.FLOAT:
            raise InputError(f"{where}: {what} {old!r} is not of 32-bit floats: convert the file")


@dataclass(frozen=True, kw_only=True)
class _End:
    """An input or output: its name in the file, in the bundle, and inside the new graph, and whether its layers come first."""

    old: str
    new: str
    layered: bool
    value: Any

    @property
    def inner(self) -> str:
        return f"{self.new}_by_layer" if self.layered else self.new


def _end(old: str, new: str, item: Any, shape: tuple[int, ...], where: str) -> _End:
    from onnx import TensorProto, helper

    dims: list[Any] = [d.dim_value or d.dim_param or "any" for d in item.type.tensor_type.shape.dim]
    layered = _by_layer(dims, shape)
    rest = dims[:1] + dims[2:] if layered else dims[1:]
    worlds = dims[1] if layered else dims[0] if dims else None
    if len(rest) != len(shape) or any(isinstance(d, int) and d != s for d, s in zip(rest, shape, strict=True)):
        raise InputError(
            f"{where}: {old!r} has shape {tuple(dims)}, the contract says (worlds, {', '.join(map(str, shape))}) for {new!r}: "
            "they are not of one policy"
        )
    first = worlds if isinstance(worlds, int) else "worlds"
    if isinstance(first, int) and first != 1:
        raise InputError(f"{where}: {old!r} is made for {first} worlds: export it for 1, or with a free first axis")
    value = helper.make_tensor_value_info(new, TensorProto.FLOAT, [first, *shape])
    return _End(old=old, new=new, layered=layered, value=value)


def _by_layer(dims: Sequence[Any], shape: tuple[int, ...]) -> bool:
    """Whether a memory of a contract's shape (layers, width) has the axes (layers, worlds, width) in the file."""
    return (
        len(shape) == 2 and len(dims) == 3 and dims[0] == shape[0] and dims[2] == shape[1] and list(dims[:2]) != [1, 1]
    )


def _turn(source: str, target: str) -> Any:
    from onnx import helper

    return helper.make_node("Transpose", [source], [target], perm=[1, 0, 2])


def _original(data: bytes, contract: Contract, names: Names, where: str) -> Act:
    """The foreign file itself as a function of observations, with its own names and its own order of the memory's axes."""
    run: Any = session(data, where)
    sizes = {item.name: item.shape for item in run.get_inputs()}
    feed: dict[str, np.ndarray] = {}
    outputs = [names.action, *(names.of(m)[1] for m in contract.memory)]

    def act(observations: Mapping[str, np.ndarray]) -> np.ndarray:
        worlds = len(next(iter(observations.values())))
        for memory in contract.memory:
            name = names.of(memory)[0]
            if name not in feed:
                layered = _by_layer(sizes[name], memory.shape)
                shape = (memory.shape[0], worlds, memory.shape[1]) if layered else (worlds, *memory.shape)
                feed[name] = np.zeros(shape, np.float32)
        given = {names.inputs.get(name, name): x for name, x in observations.items()}
        action, *states = run.run(outputs, {**given, **feed})
        feed.update({names.of(m)[0]: state for m, state in zip(contract.memory, states, strict=True)})
        return action

    return act
