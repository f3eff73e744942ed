"""An ONNX policy as plain C: one block of statements per node, for one world, float32 as in the file.

Every tensor becomes an array of floats; axes of length one (worlds, sequence, direction) vanish. The nodes that small policies are
made of are known: affine maps, element-wise arithmetic with constants, activations, clips, concatenation, and the GRU

    z = σ(W_z x + R_z h + b_z)    r = σ(W_r x + R_r h + b_r)    n = tanh(W_n x + b_n + r ∘ (R_n h + c_n))    h' = (1 − z) ∘ n + z ∘ h

Any other node is refused by name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefoot.errors import InputError

UNARY = {
    "Relu": "x > 0.0f ? x : 0.0f",
    "Elu": "x > 0.0f ? x : {alpha} * expm1f(x)",
    "Tanh": "tanhf(x)",
    "Sigmoid": "1.0f / (1.0f + expf(-x))",
    "Identity": "x",
    "Squeeze": "x",
    "Unsqueeze": "x",
    "Flatten": "x",
    "Reshape": "x",
    "Transpose": "x",
}
BINARY = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}


def number(value: float) -> str:
    """A float constant of C that reads back to the same float32."""
    value = float(np.float32(value))
    if not np.isfinite(value):
        raise InputError(f"a policy with the constant {value} cannot be written as C: only finite numbers can")
    text = f"{value:.9g}"
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def array(name: str, values: Any, *, size: str | int | None = None) -> str:
    """A constant array of C, eight numbers a line."""
    flat = [number(v) for v in np.ravel(np.asarray(values, dtype=np.float64))]
    rows = [", ".join(flat[i : i + 8]) for i in range(0, len(flat), 8)]
    return (
        f"static const float {name}[{len(flat) if size is None else size}] = {{\n    " + ",\n    ".join(rows) + "\n};\n"
    )


@dataclass
class Code:
    """C text in the making: constants before the function, statements within it."""

    prefix: str
    constants: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Tensor -> how many floats."""
    names: dict[str, str] = field(default_factory=dict)
    """Tensor -> name in C."""

    def constant(self, values: np.ndarray) -> str:
        """Store a constant array and give its name."""
        name = f"{self.prefix}_c{len(self.constants)}"
        self.constants.append(array(name, values))
        return name

    def local(self, tensor: str, size: int) -> str:
        """Declare the array of a tensor and give its name."""
        name = f"t{len(self.names)}"
        self.names[tensor], self.sizes[tensor] = name, size
        self.lines.append(f"float {name}[{size}];")
        return name

    def loop(self, size: int, body: str) -> None:
        """for i < size."""
        self.lines.append(f"for (i = 0; i < {size}; i++) {{ {body} }}")


def network(data: bytes, prefix: str, inputs: Sequence[str], where: str = "policy.onnx") -> tuple[str, str]:
    """Constants, and the statements that compute every output of the graph from arrays named as `inputs`.

    Returns:
        (constants, statements): the statements end with arrays of the outputs' own names assigned by memory copies; they use an int i.
    """
    import onnx

    graph = onnx.load_model_from_string(data).graph
    code = Code(prefix)
    values = {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}
    for item in graph.input:
        if item.name in values:
            continue
        if item.name not in inputs:
            raise InputError(f"{where} has an input {item.name!r} that the contract does not declare")
        code.names[item.name] = f"in_{item.name}"
        code.sizes[item.name] = int(np.prod([d.dim_value for d in item.type.tensor_type.shape.dim[1:]]))
    for node in graph.node:
        _emit(code, node, values, where)
    for item in graph.output:
        if item.name not in code.names:
            raise InputError(f"{where}: the output {item.name!r} is not computed by its graph")
        name, size = code.names[item.name], code.sizes[item.name]
        code.lines.append(f"memcpy(out_{item.name}, {name}, {size} * sizeof(float));")
    return "\n".join(code.constants), "\n".join(f"    {line}" for line in code.lines)


def _emit(code: Code, node: Any, values: dict[str, np.ndarray], where: str) -> None:
    import onnx

    options = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    kind = node.op_type
    if kind == "Constant":
        if "value" not in options:
            raise InputError(f"{where} has a Constant without a tensor, which has no C form here")
        values[node.output[0]] = onnx.numpy_helper.to_array(options["value"])
    elif kind == "Transpose" and list(options.get("perm", (1, 0))) not in ([1, 0], [1, 0, 2]):
        raise InputError(f"{where} reorders its numbers (Transpose {list(options['perm'])}), which has no C form here")
    elif kind == "Reshape" and node.input[1] in values and np.count_nonzero(values[node.input[1]].ravel()[1:] != 1) > 1:
        raise InputError(f"{where} folds its numbers into a table (Reshape), which has no C form here")
    elif kind in UNARY:
        _unary(code, node, options, where)
    elif kind in BINARY:
        _binary(code, node, values, where)
    elif kind == "Clip" and ("min" in options or "max" in options):
        raise InputError(
            f"{where} clips in the form of an old operator set, which has no C form here: export it with opset 11 or newer"
        )
    elif kind == "Clip":
        _clip(code, node, values, where)
    elif kind in ("Gemm", "MatMul"):
        _affine(code, node, values, options, where)
    elif kind == "Concat":
        _concat(code, node, where)
    elif kind == "GRU":
        _gru(code, node, values, options, where)
    else:
        raise InputError(
            f"{where} uses the operation {kind!r}, which has no C form here: only small perceptrons and GRUs have one"
        )


def _source(code: Code, name: str, where: str) -> tuple[str, int]:
    if name not in code.names:
        raise InputError(f"{where} computes with {name!r} in a way that has no C form here")
    return code.names[name], code.sizes[name]


def _unary(code: Code, node: Any, options: dict[str, Any], where: str) -> None:
    source, size = _source(code, node.input[0], where)
    out = code.local(node.output[0], size)
    formula = UNARY[node.op_type].format(alpha=number(options.get("alpha", 1.0)))
    code.loop(size, f"float x = {source}[i]; {out}[i] = {formula};")


def _binary(code: Code, node: Any, values: dict[str, np.ndarray], where: str) -> None:
    sides, sizes = [], []
    for name in node.input:
        if name in values:
            sizes.append(values[name].size)
            single = values[name].size == 1
            sides.append(number(values[name].item()) if single else f"{code.constant(values[name])}[i]")
        else:
            source, size = _source(code, name, where)
            sizes.append(size)
            sides.append(f"{source}[i]")
    if min(sizes) not in (1, max(sizes)):
        raise InputError(f"{where}: {node.op_type} of {sizes[0]} and {sizes[1]} numbers has no C form here")
    for place, (name, size) in enumerate(zip(node.input, sizes, strict=True)):
        if size == 1 and max(sizes) > 1 and name not in values:
            sides[place] = f"{code.names[name]}[0]"
    out = code.local(node.output[0], max(sizes))
    code.loop(max(sizes), f"{out}[i] = {sides[0]} {BINARY[node.op_type]} {sides[1]};")


def _clip(code: Code, node: Any, values: dict[str, np.ndarray], where: str) -> None:
    source, size = _source(code, node.input[0], where)
    ends = []
    for name in node.input[1:]:
        if name and name not in values:
            raise InputError(f"{where} clips by a number that is computed, which has no C form here")
        ends.append(number(values[name].item()) if name else None)
    low, high = (*ends, None, None)[:2]
    out = code.local(node.output[0], size)
    body = f"float x = {source}[i];"
    body += "" if low is None else f" x = x < {low} ? {low} : x;"
    body += "" if high is None else f" x = x > {high} ? {high} : x;"
    code.loop(size, f"{body} {out}[i] = x;")


def _affine(code: Code, node: Any, values: dict[str, np.ndarray], options: dict[str, Any], where: str) -> None:
    """y = x W^T + b, W written row by row as (outputs, inputs)."""
    source, size = _source(code, node.input[0], where)
    if (
        node.input[1] not in values
        or options.get("transA", 0)
        or options.get("alpha", 1.0) != 1.0
        or options.get("beta", 1.0) != 1.0
    ):
        raise InputError(f"{where} has a {node.op_type} that is no affine map of constants, which has no C form here")
    weight = values[node.input[1]]
    weight = weight if options.get("transB", 0) else weight.T
    if weight.ndim != 2 or weight.shape[1] != size:
        raise InputError(f"{where}: a layer of shape {weight.shape} gets {size} numbers")
    named = node.input[2] if len(node.input) > 2 else ""
    if named and named not in values:
        raise InputError(f"{where} has a {node.op_type} whose bias is computed, which has no C form here")
    bias = values[named].ravel() if named else np.zeros(len(weight))
    W, b = code.constant(weight), code.constant(np.broadcast_to(bias, (len(weight),)))
    out = code.local(node.output[0], len(weight))
    code.lines.append(f"{code.prefix}_affine({len(weight)}, {size}, {W}, {b}, {source}, {out});")


def _concat(code: Code, node: Any, where: str) -> None:
    parts = [_source(code, name, where) for name in node.input]
    out = code.local(node.output[0], sum(size for _, size in parts))
    at = 0
    for source, size in parts:
        code.lines.append(f"memcpy({out} + {at}, {source}, {size} * sizeof(float));")
        at += size


def _gru(code: Code, node: Any, values: dict[str, np.ndarray], options: dict[str, Any], where: str) -> None:
    plain = options.get("linear_before_reset", 0) == 1 and options.get("direction", b"forward") == b"forward"
    if not plain or any(key in options for key in ("activations", "clip")) or (len(node.input) > 4 and node.input[4]):
        raise InputError(f"{where} has a GRU of a kind that has no C form here: torch's kind has one")
    names = list(node.input) + [""] * (6 - len(node.input))
    source, size = _source(code, names[0], where)
    state, m = _source(code, names[5], where)
    W, R = values[names[1]][0], values[names[2]][0]
    bias = values[names[3]][0] if names[3] else np.zeros(6 * m)
    a, b = code.constant(W), code.constant(bias[: 3 * m])
    c, d = code.constant(R), code.constant(bias[3 * m :])
    tag = len(code.names)
    code.lines += [f"float g{tag}[{3 * m}];", f"float k{tag}[{3 * m}];"]
    code.lines.append(f"{code.prefix}_affine({3 * m}, {size}, {a}, {b}, {source}, g{tag});")
    code.lines.append(f"{code.prefix}_affine({3 * m}, {m}, {c}, {d}, {state}, k{tag});")
    outputs = [name for name in node.output if name]
    out = code.local(outputs[0], m)
    code.loop(
        m,
        f"float z = 1.0f / (1.0f + expf(-(g{tag}[i] + k{tag}[i]))); "
        f"float r = 1.0f / (1.0f + expf(-(g{tag}[{m} + i] + k{tag}[{m} + i]))); "
        f"float n = tanhf(g{tag}[{2 * m} + i] + r * k{tag}[{2 * m} + i]); "
        f"{out}[i] = (1.0f - z) * n + z * {state}[i];",
    )
    for name in outputs[1:]:
        code.names[name], code.sizes[name] = out, m
