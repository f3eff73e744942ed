"""A policy file at work: onnxruntime on one thread, no torch.

    a, h' = policy(o, h)       o raw observations by group, h the memories (zeros after a reset)

The file has one input per observation group, named as the group; one input NAME_in and one output NAME_out per memory of the
contract; and the output "action". The first axis of each is the world.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from surefoot.contract import Contract
from surefoot.errors import InputError

ACTION = "action"


def session(data: bytes, where: str) -> onnxruntime.InferenceSession:
    """A session of an ONNX file's bytes: one thread, the CPU, warnings silent."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        line = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise InputError(f"{where} is not an ONNX file that onnxruntime can run: {line}") from None


def read_onnx(path: str | Path) -> bytes:
    """The bytes of an ONNX file."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the policy {str(path)!r}: {error.strerror or error}") from None


def check_signature(inputs: Mapping[str, Any], outputs: Mapping[str, Any], contract: Contract, where: str) -> None:
    """Refuse a policy file whose inputs and outputs are not what the contract says.

    Args:
        inputs: name -> (type, shape) as onnxruntime gives them; the first axis is the world.
        outputs: likewise.
        contract: what they must be.
        where: name of the file in errors.
    """
    wanted_in = {group.name: (group.size,) for group in contract.groups}
    wanted_in |= {f"{memory.name}_in": memory.shape for memory in contract.memory}
    wanted_out = {ACTION: (len(contract.action.joints),)}
    wanted_out |= {f"{memory.name}_out": memory.shape for memory in contract.memory}
    for wanted, found, what in ((wanted_in, inputs, "input"), (wanted_out, outputs, "output")):
        for name in wanted:
            if name not in found:
                raise InputError(
                    f"{where} has no {what} {name!r}, which contract.json declares; it has {', '.join(found) or 'none'}: "
                    "export the bundle anew"
                )
        for name, (kind, shape) in found.items():
            if name not in wanted:
                raise InputError(
                    f"{where} has an {what} {name!r} that contract.json does not declare ({', '.join(wanted)}): export the bundle anew"
                )
            if kind != "tensor(float)":
                raise InputError(f"{where}: {what} {name!r} is {kind}, only 32-bit floats are run: convert the file")
            if tuple(shape[1:]) != tuple(wanted[name]):
                raise InputError(
                    f"{where}: {what} {name!r} has shape {_words(shape)}, contract.json says (worlds, {_words(wanted[name])[1:]}: "
                    "the two are not of one policy, export the bundle anew"
                )
            if isinstance(shape[0], int) and shape[0] != 1:
                raise InputError(
                    f"{where}: {what} {name!r} is made for {shape[0]} worlds, a robot is 1: export it anew"
                )


def _words(shape: Any) -> str:
    return f"({', '.join(map(str, shape))})"


class OnnxPolicy:
    """A policy and its memory. Not for use from two threads at once.

    Args:
        path: the ONNX file.
        contract: says which groups it reads, its memories and its actions.
        data: the file's bytes where they were read (and checked) already; `path` then only names them.
    """

    def __init__(self, path: str | Path, contract: Contract, *, data: bytes | None = None):
        self.contract = contract
        where = Path(path).name
        self._session = session(read_onnx(path) if data is None else data, where)
        inputs = {item.name: (item.type, item.shape) for item in self._session.get_inputs()}
        outputs = {item.name: (item.type, item.shape) for item in self._session.get_outputs()}
        check_signature(inputs, outputs, contract, where)
        self._widths = tuple((group.name, group.size) for group in contract.groups)
        self._one = any(isinstance(shape[0], int) for _, shape in inputs.values())
        self._names_in = tuple(f"{memory.name}_in" for memory in contract.memory)
        self._names_out = [ACTION, *(f"{memory.name}_out" for memory in contract.memory)]
        self._run: Any = self._session.run
        self._feed: dict[str, np.ndarray] = {}
        self._worlds = 0

    @property
    def memory(self) -> dict[str, np.ndarray]:
        """The memory after the last call by its name, (worlds, ...); empty before the first call and without memory."""
        if not self._worlds:
            return {}
        return {memory.name: self._feed[f"{memory.name}_in"].copy() for memory in self.contract.memory}

    def reset(self) -> None:
        """Forget: the next call begins an episode, and may be of another number of worlds."""
        self._worlds = 0

    def __call__(self, observations: Mapping[str, np.ndarray]) -> np.ndarray:
        """The action (worlds, actions) float32 of raw observations, group -> (worlds, size); moves the memory on.

        A NaN stays a NaN, also in the memory: whoever refuses the observation calls `reset`.
        """
        feed = self._feed
        for name, size in self._widths:
            try:
                value = observations[name]
            except KeyError:
                raise InputError(
                    f"the policy reads the observation group {name!r}, given: {', '.join(observations) or 'none'}"
                ) from None
            if value.ndim != 2 or value.shape[1] != size:
                raise InputError(f"observation group {name!r} must have shape (worlds, {size}), got {value.shape}")
            feed[name] = value if value.dtype == np.float32 else value.astype(np.float32)
        worlds = len(feed[self._widths[0][0]])
        if worlds != self._worlds:
            self._begin(worlds)
        if not self._names_in:
            return self._run(self._names_out, feed)[0]
        action, *memory = self._run(self._names_out, feed)
        for name, value in zip(self._names_in, memory, strict=True):
            feed[name] = value
        return action

    def _begin(self, worlds: int) -> None:
        """Empty memories for `worlds` worlds."""
        if any(len(self._feed[name]) != worlds for name, _ in self._widths) or worlds == 0:
            raise InputError(f"all observation groups need the same number of worlds, from 1; the first has {worlds}")
        if self._one and worlds != 1:
            raise InputError(f"this policy file is made for 1 world, got {worlds}: call it once per world")
        if self._worlds and self._names_in:
            raise InputError(f"the policy remembers {self._worlds} worlds and got {worlds}: call reset() between them")
        for memory, name in zip(self.contract.memory, self._names_in, strict=True):
            self._feed[name] = np.zeros((worlds, *memory.shape), np.float32)
        self._worlds = worlds
