"""A policy's arrays as an ONNX file, written node by node so that nothing is approximated or left out.

    x  = [group a, group b, ...]                               raw observations, float32
    z  = clip((x − mean) · 1/sqrt(var + eps), ±limit)          the factor rounded once, from float64
    h' = GRU(z, h)                                             only with memory
    a_0 = h' or z,  a_{i+1} = φ(W_i a_i + b_i),  μ = W_n a_n + b_n
    action = μ + m,  m' = clip(m + k μ, ±most)                 only with an integral part, else μ

A GRU here and in torch has the gates r, z, n and n = tanh(W_n x + b_n + r ∘ (U_n h + c_n)); ONNX orders them z, r, n and does the
same with linear_before_reset = 1.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.contract import Memory
from surefoot.errors import InputError

OPSET, IR = 17, 8
"""Old enough for any onnxruntime since 1.12."""
ACTIVATIONS = {"elu": "Elu", "tanh": "Tanh", "relu": "Relu"}
GRU, SUM = "gru", "sum"
"""Names of the memories: inputs and outputs are gru_in and gru_out, sum_in and sum_out."""


def about_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What `Policy.to_arrays` says about the network: widths, actions, hidden, activation, memory, integral, most."""
    if "about" not in arrays:
        raise InputError("these arrays hold no policy: 'about' is missing, use what Policy.to_arrays gave")
    return json.loads(bytes(np.asarray(arrays["about"], dtype=np.uint8)).decode())


def memories(arrays: Mapping[str, np.ndarray]) -> tuple[Memory, ...]:
    """The memories to declare in the contract."""
    about = about_of(arrays)
    if about.get("integral"):
        return (Memory(name=SUM, shape=(about["actions"],)),)
    return (Memory(name=GRU, shape=(about["memory"],)),) if about["memory"] else ()


def layers(arrays: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights (out, in) and bias (out,) of every layer of the perceptron, in order."""
    count = len(about_of(arrays)["hidden"]) + 1
    return [(arrays[f"net.{i}.weight"], arrays[f"net.{i}.bias"]) for i in range(count)]


def gain(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """1 / sqrt(var + eps) of the normaliser, taken in float64 and rounded to float32."""
    var, eps = np.asarray(arrays["normaliser.var"], np.float64), float(arrays["normaliser.eps"])
    return (1.0 / np.sqrt(var + eps)).astype(np.float32)


def onnx_of(arrays: Mapping[str, np.ndarray], *, metadata: Mapping[str, str] | None = None) -> bytes:
    """The ONNX file of a policy's arrays (surefoot.learn.networks.Policy.to_arrays).

    Args:
        arrays: weights, normaliser and shape.
        metadata: texts to store in the file.

    Returns:
        The file's bytes; the same arrays give the same bytes.
    """
    from onnx import checker, helper

    about = about_of(arrays)
    pen = _Pen()
    groups = about["widths"]
    x = next(iter(groups)) if len(groups) == 1 else pen.node("Concat", list(groups), axis=1)
    z = _normalised(pen, x, arrays)
    inputs = [pen.value(name, width) for name, width in groups.items()]
    outputs = [pen.value("action", about["actions"])]
    if about["memory"]:
        inputs.append(pen.value(f"{GRU}_in", about["memory"]))
        outputs.append(pen.value(f"{GRU}_out", about["memory"]))
        z = _remembered(pen, z, arrays)
    share = about.get("integral", 0.0)
    own = _perceptron(pen, z, arrays, about["activation"], "own" if share else "action")
    if share:
        inputs.append(pen.value(f"{SUM}_in", about["actions"]))
        outputs.append(pen.value(f"{SUM}_out", about["actions"]))
        _added_up(pen, own, share, about["most"])
    graph = helper.make_graph(pen.nodes, "policy", inputs, outputs, pen.constants)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="surefoot"
    )
    if metadata:
        helper.set_model_props(model, dict(sorted(metadata.items())))
    checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


class _Pen:
    """Writes nodes and constants, and makes up their names."""

    def __init__(self):
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def value(self, name: str, width: int) -> Any:
        from onnx import TensorProto, helper

        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["worlds", width])

    def constant(self, name: str, array: Any, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array, dtype=dtype), name))
        return name

    def node(
        self, kind: str, inputs: list[str], output: str = "", outputs: list[str] | None = None, **attributes: Any
    ) -> str:
        from onnx import helper

        name = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, outputs or [name], **attributes))
        return name


def _normalised(pen: _Pen, x: str, arrays: Mapping[str, np.ndarray]) -> str:
    limit = float(arrays["normaliser.limit"])
    mean = pen.constant("mean", arrays["normaliser.mean"])
    centred = pen.node("Sub", [x, mean])
    scaled = pen.node("Mul", [centred, pen.constant("gain", gain(arrays))])
    return pen.node("Clip", [scaled, pen.constant("low", -limit), pen.constant("high", limit)])


def _remembered(pen: _Pen, z: str, arrays: Mapping[str, np.ndarray]) -> str:
    """The GRU on one step; ONNX wants sequences, so an axis comes and goes."""
    m = arrays["net.gru.state"].shape[1]
    order = np.r_[m : 2 * m, 0:m, 2 * m : 3 * m]
    W = pen.constant("gru_input", arrays["net.gru.input"][order][None])
    R = pen.constant("gru_state", arrays["net.gru.state"][order][None])
    bias = np.concatenate([arrays["net.gru.input_bias"][order], arrays["net.gru.state_bias"][order]])
    B = pen.constant("gru_bias", bias[None])
    axis = pen.constant("first", [0], np.int64)
    sequence = pen.node("Unsqueeze", [z, axis])
    before = pen.node("Unsqueeze", [f"{GRU}_in", axis])
    pen.node(
        "GRU", [sequence, W, R, B, "", before], outputs=["", "gru_last"], hidden_size=m, linear_before_reset=1,
    )  # fmt: skip
    return pen.node("Squeeze", ["gru_last", axis], f"{GRU}_out")


def _perceptron(pen: _Pen, x: str, arrays: Mapping[str, np.ndarray], activation: str, output: str) -> str:
    every = layers(arrays)
    for i, (weight, bias) in enumerate(every):
        last = i == len(every) - 1
        W, b = pen.constant(f"weight_{i}", weight), pen.constant(f"bias_{i}", bias)
        x = pen.node("Gemm", [x, W, b], output if last else "", transB=1)
        if not last:
            x = pen.node(ACTIVATIONS[activation], [x])
    return x


def _added_up(pen: _Pen, own: str, share: float, most: float) -> None:
    """The integral part: the action with it, and its next sum."""
    pen.node("Add", [own, f"{SUM}_in"], "action")
    grown = pen.node("Add", [f"{SUM}_in", pen.node("Mul", [own, pen.constant("share", share)])])
    pen.node("Clip", [grown, pen.constant("least", -most), pen.constant("most", most)], f"{SUM}_out")
