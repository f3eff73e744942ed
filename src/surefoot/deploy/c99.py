"""A bundle as one C99 header: constants of the contract, the observation, the network, the target. No allocation, no globals.

The header is for a microcontroller or a driver in C; it follows the one builder and the contract's action line by line:

    PREFIX_reset(&state)                            begin an episode
    PREFIX_observe(&state, &readings, &observation) readings to observations; once per control step
    PREFIX_forward(&state, &observation, action)    the network; moves its memory
    PREFIX_target(&state, action, target)           what the motors are told, in the robot's joint order
    PREFIX_step(&state, &readings, target)          all three
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.contract import Contract, Group, Term
from surefoot.deploy.bundle import Bundle
from surefoot.deploy.c99_network import array, network, number
from surefoot.errors import InputError
from surefoot.files import write_text

RUNTIME = ("last_action", "clock")


def export_c99(bundle: Bundle, path: str | Path, *, prefix: str = "policy") -> Path:
    """Write a bundle as one header file that compiles with `cc -std=c99 -Wall -Wextra -Werror -pedantic`.

    Args:
        bundle: what to write.
        path: the .h file.
        prefix: begins every name in it, so that two policies fit into one program.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", prefix):
        raise InputError(f"prefix {prefix!r} must be a lower-case name of C, such as 'policy'")
    write_text(path, c99_text(bundle, prefix))
    return Path(path)


def c99_text(bundle: Bundle, prefix: str = "policy") -> str:
    """The header's text."""
    contract = bundle.contract
    groups = [g.name for g in contract.groups]
    memory = [m.name for m in contract.memory]
    constants, statements = network(bundle.data, prefix, [*groups, *(f"{name}_in" for name in memory)])
    parts = [
        _opening(bundle, prefix),
        _enums(contract, prefix),
        _numbers(contract, prefix),
        _structs(contract, prefix),
        constants,
        _functions(prefix),
        _reset(prefix),
        *(_observe(contract, group, prefix) for group in contract.groups),
        _observe_all(contract, prefix),
        _forward(contract, prefix, statements),
        _target(contract, prefix),
        _step(prefix),
        "#endif",
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def identifier(name: str) -> str:
    """A name as a part of an identifier of C."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def _distinct(names: Sequence[str]) -> list[str]:
    """Identifiers of names; where two would be the same, their numbers are added."""
    found = [identifier(name) for name in names]
    return [f"{c}_{i}" if found.count(c) > 1 else c for i, c in enumerate(found)]


def columns_of(contract: Contract, source: str) -> tuple[str, ...]:
    """Columns of a channel in the readings: the contract's order, else that in which the terms name them."""
    known = contract.columns(source)
    if known is not None:
        return known
    every = [c for g in contract.groups for t in g.terms if t.source == source for c in t.columns]
    return tuple(dict.fromkeys(every))


def _sources(contract: Contract) -> list[str]:
    every = [t.source for g in contract.groups for t in g.terms if t.source not in RUNTIME]
    return list(dict.fromkeys(every))


def _comment(text: str) -> str:
    return text.replace("*/", "* /").encode("ascii", "replace").decode()


def _opening(bundle: Bundle, prefix: str) -> str:
    guard = f"SUREFOOT_{prefix.upper()}_H"
    return (
        f"/* A policy for {_comment(bundle.contract.robot)}, written by surefoot; do not edit.\n"
        f"   policy.onnx {bundle.hash}\n   contract    {bundle.contract.hash} */\n"
        f"#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n#include <string.h>\n"
    )


def _enums(contract: Contract, prefix: str) -> str:
    up = prefix.upper()
    lines = []
    for word, names in (
        ("joint", contract.joints),
        ("action", contract.action.joints),
        ("command", [c.name for c in contract.commands]),
    ):
        rows = [
            f"    {prefix}_{word}_{c} = {i}, /* {_comment(name)} */"
            for i, (c, name) in enumerate(zip(_distinct(names), names, strict=True))
        ]
        plural = f"{up}_{word.upper()}S"
        lines.append("enum {\n" + "\n".join([*rows, f"    {plural} = {len(names)}"]) + "\n};\n")
    sizes = ", ".join(f"{up}_OBSERVATION_{g.name.upper()} = {g.size}" for g in contract.groups)
    return "\n".join([*lines, f"enum {{ {sizes} }};\n"])


def _numbers(contract: Contract, prefix: str) -> str:
    """Rates, gains and limits, for whoever drives the motors; what the contract leaves open is not there."""
    lines = [f"static const double {prefix}_control_dt = {contract.control_dt!r}; /* [s] */"]
    if contract.pd_rate is not None:
        lines.append(f"static const double {prefix}_pd_rate = {contract.pd_rate!r}; /* [Hz] */")
    if contract.clock_period is not None:
        lines.append(f"static const double {prefix}_clock_period = {contract.clock_period!r}; /* [s] */")
    lines.append(f"/* the action is a {contract.action.kind}; all below in the robot's joint order */")
    for name in ("pose", "kp", "kd", "torque_limit", "speed_limit", "rate_limit", "rest"):
        if getattr(contract, name) is not None:
            lines.append(array(f"{prefix}_{name}", getattr(contract, name)))
    if contract.position_limits is not None:
        lines += [
            array(f"{prefix}_position_{w}", v) for w, v in zip(("low", "high"), contract.position_limits, strict=True)
        ]
    lows, highs = [c.low for c in contract.commands], [c.high for c in contract.commands]
    if lows:
        lines += [array(f"{prefix}_command_low", lows), array(f"{prefix}_command_high", highs)]
    return "\n".join(lines)


def _histories(contract: Contract) -> list[tuple[str, int, int]]:
    """(name, steps, width) of every history that is kept: of a term, or of a whole group stacked by step."""
    found = []
    for group in contract.groups:
        if group.stack == "step":
            found.append((f"{group.name}_all", group.terms[0].history, sum(len(t.entries) for t in group.terms)))
        else:
            found += [
                (f"{group.name}_{identifier(t.name)}", t.history, len(t.entries)) for t in group.terms if t.history > 1
            ]
    return found


def _structs(contract: Contract, prefix: str) -> str:
    rows = []
    for source in _sources(contract):
        names = columns_of(contract, source)
        units = {t.unit for g in contract.groups for t in g.terms if t.source == source}
        rows.append(
            f"    float {identifier(source)}[{len(names)}]; /* [{_comment(', '.join(sorted(units)))}] {_comment(', '.join(names))} */"
        )
    readings = "typedef struct {\n" + "\n".join(rows or ["    float none;"]) + f"\n}} {prefix}_readings;\n"
    rows = [f"    float {g.name}[{g.size}];" for g in contract.groups]
    observation = "typedef struct {\n" + "\n".join(rows) + f"\n}} {prefix}_observation;\n"
    rows = [
        "    double steps; /* since the reset */",
        "    double time; /* of the last observation since the reset [s] */",
    ]
    rows.append(f"    float last_action[{prefix.upper()}_ACTIONS];")
    rows += [
        f"    float past_{name}[{steps}][{width}]; /* oldest first */" for name, steps, width in _histories(contract)
    ]
    rows += [f"    float memory_{m.name}[{int(np.prod(m.shape))}];" for m in contract.memory]
    return f"{readings}\n{observation}\ntypedef struct {{\n" + "\n".join(rows) + f"\n}} {prefix}_state;\n"


def _functions(prefix: str) -> str:
    return f"""static inline void {prefix}_affine(int rows, int columns, const float *W, const float *b, const float *x, float *y)
{{
    int i, k;
    for (i = 0; i < rows; i++) {{
        float sum = 0.0f;
        for (k = 0; k < columns; k++) {{ sum += W[i * columns + k] * x[k]; }}
        y[i] = sum + b[i];
    }}
}}

static inline float {prefix}_clip(float x, float low, float high)
{{
    return x < low ? low : (x > high ? high : x);
}}
"""


def _reset(prefix: str) -> str:
    return f"""/* Begin an episode: memory and last action are zero, histories are filled by the first observation. */
static inline void {prefix}_reset({prefix}_state *state)
{{
    memset(state, 0, sizeof *state);
}}
"""


def _entry(contract: Contract, term: Term, i: int) -> str:
    """Entry i of one step of a term as an expression of C."""
    column = term.columns[i // 2 if term.turn else i]
    if term.source == "clock":
        value = {
            "sin": "(float)sin(6.283185307179586 * phase)",
            "cos": "(float)cos(6.283185307179586 * phase)",
            "phase": "(float)phase",
        }[column]
    elif term.source == "last_action":
        value = f"state->last_action[{contract.action.joints.index(column)}]"
    else:
        value = f"readings->{identifier(term.source)}[{columns_of(contract, term.source).index(column)}]"
    offset = term.offset[i // 2 if term.turn else i]  # type: ignore[index]
    scale = term.scale[i]  # type: ignore[index]
    if term.turn:
        value = f"(float){('sin', 'cos')[i % 2]}((double)({value} + {number(offset)}))"
    elif offset:
        value = f"({value} + {number(offset)})"
    value = value if scale == 1.0 else f"{value} * {number(scale)}"
    return value


def _observe(contract: Contract, group: Group, prefix: str) -> str:
    """The function that assembles one group."""
    lines, at = [], 0
    width = sum(len(t.entries) for t in group.terms)
    for term in group.terms:
        lines.append(f"    /* {_comment(term.name)}: {_comment(term.source)}, {term.history} step(s) */")
        for i in range(len(term.entries)):
            value = _entry(contract, term, i)
            if term.clip is not None:
                value = f"{prefix}_clip({value}, {number(term.clip[0][i])}, {number(term.clip[1][i])})"  # type: ignore[index]
            lines.append(f"    frame[{at + i}] = {value};")
        at += len(term.entries)
    lines += _stacked(group)
    body = "\n".join(lines)
    phase = ""
    if any(t.source == "clock" for t in group.terms):
        ratio = contract.control_dt / (contract.clock_period or contract.control_dt)
        phase = f"    const double phase = fmod(state->steps * {ratio!r}, 1.0);\n"
    return (
        f"static inline void {prefix}_observe_{group.name}({prefix}_state *state, const {prefix}_readings *readings, float *out)\n"
        f"{{\n    float frame[{width}];\n{phase}    (void)state;\n    (void)readings;\n{body}\n{_normalised(group, prefix)}}}\n"
    )


def _stacked(group: Group) -> list[str]:
    """From the frame of this step to the observation, with the histories."""
    if group.stack == "step":
        width = sum(len(t.entries) for t in group.terms)
        return _history(f"{group.name}_all", group.terms[0].history, width, 0, 0, group.order)
    lines, at, out = [], 0, 0
    for term in group.terms:
        width = len(term.entries)
        if term.history == 1:
            lines.append(f"    memcpy(out + {out}, frame + {at}, {width} * sizeof(float));")
        else:
            lines += _history(f"{group.name}_{identifier(term.name)}", term.history, width, at, out, group.order)
        at, out = at + width, out + term.size
    return lines


def _history(name: str, steps: int, width: int, at: int, out: int, order: str) -> list[str]:
    past = f"state->past_{name}"
    row = "k" if order == "oldest-first" else f"{steps - 1} - k"
    return [
        "    {",
        "        int k;",
        f"        memmove({past}[0], {past}[1], {(steps - 1) * width} * sizeof(float));",
        f"        memcpy({past}[{steps - 1}], frame + {at}, {width} * sizeof(float));",
        f"        for (k = 0; state->steps == 0.0 && k < {steps - 1}; k++) {{",
        f"            memcpy({past}[k], frame + {at}, {width} * sizeof(float));",
        "        }",
        f"        for (k = 0; k < {steps}; k++) {{",
        f"            memcpy(out + {out} + k * {width}, {past}[{row}], {width} * sizeof(float));",
        "        }",
        "    }",
    ]


def _normalised(group: Group, prefix: str) -> str:
    """What the builder would do; a normaliser of the network is part of the network."""
    norm = group.normaliser
    if norm is None or norm.by != "builder":
        return ""
    std = np.sqrt(np.asarray(norm.var) + norm.eps)
    rows = [
        f"    out[{i}] = (out[{i}] - {number(m)}) / {number(s)};"
        for i, (m, s) in enumerate(zip(norm.mean, std, strict=True))
    ]
    if norm.limit is not None:
        limit = number(norm.limit)
        rows += [f"    out[{i}] = {prefix}_clip(out[{i}], -{limit}, {limit});" for i in range(group.size)]
    return "\n".join(rows) + "\n"


def _observe_all(contract: Contract, prefix: str) -> str:
    calls = "\n".join(
        f"    {prefix}_observe_{g.name}(state, readings, observation->{g.name});" for g in contract.groups
    )
    return f"""/* Observations of this control step; call it once per step, it moves histories and clock on. */
static inline void {prefix}_observe({prefix}_state *state, const {prefix}_readings *readings, {prefix}_observation *observation)
{{
{calls}
    state->time = state->steps * {contract.control_dt!r};
    state->steps += 1.0;
}}
"""


def _forward(contract: Contract, prefix: str, statements: str) -> str:
    head = [f"    const float *in_{g.name} = observation->{g.name};" for g in contract.groups]
    head += [f"    const float *in_{m.name}_in = state->memory_{m.name};" for m in contract.memory]
    head += ["    float *out_action = action;"] + [
        f"    float *out_{m.name}_out = state->memory_{m.name};" for m in contract.memory
    ]
    keep = f"    memcpy(state->last_action, action, {prefix.upper()}_ACTIONS * sizeof(float));"
    return (
        "/* The action of an observation; moves the memory on and keeps the action for the next observation. */\n"
        f"static inline void {prefix}_forward({prefix}_state *state, const {prefix}_observation *observation, float *action)\n{{\n"
        + "\n".join(head)
        + f"\n    int i = 0;\n    (void)i;\n{statements}\n{keep}\n}}\n"
    )


def _target(contract: Contract, prefix: str) -> str:
    action = contract.action
    rest: Any = contract.pose if action.kind == "joint_pos_target" else (0.0,) * len(contract.joints)
    lines = [f"    target[{i}] = {number(v)};" for i, v in enumerate(rest) if contract.joints[i] not in action.joints]
    moved = any(v != 0 for v in action.lift)  # type: ignore[union-attr]
    for k, name in enumerate(action.joints):
        value = f"action[{k}]"
        if action.clip is not None:
            value = f"{prefix}_clip({value}, {number(action.clip[0][k])}, {number(action.clip[1][k])})"  # type: ignore[index]
        value = f"{number(action.offset[k])} + {number(action.scale[k])} * {value}"  # type: ignore[index]
        if action.lift[k]:  # type: ignore[index]
            value += f" + {number(action.lift[k])} * {prefix}_rhythm(state->time, {float(action.phase[k])!r})"  # type: ignore[index]
        if action.limits is not None:
            value = f"{prefix}_clip({value}, {number(action.limits[0][k])}, {number(action.limits[1][k])})"  # type: ignore[index]
        lines.append(f"    target[{contract.joints.index(name)}] = {value}; /* {_comment(name)} */")
    rhythm = ""
    if moved:
        rhythm = (
            f"static inline float {prefix}_rhythm(double time, double phase)\n{{\n"
            f"    const float wave = (float)sin(6.283185307179586 * (time / {contract.clock_period!r} + phase));\n"
            "    return wave > 0.0f ? wave : 0.0f;\n}\n\n"
        )
    return (
        f"{rhythm}/* What the motors are told after `action`, in the robot's joint order. */\n"
        f"static inline void {prefix}_target(const {prefix}_state *state, const float *action, float *target)\n{{\n"
        "    (void)state;\n" + "\n".join(lines) + "\n}\n"
    )


def _step(prefix: str) -> str:
    return f"""/* Readings to targets: one control step. */
static inline void {prefix}_step({prefix}_state *state, const {prefix}_readings *readings, float *target)
{{
    {prefix}_observation observation;
    float action[{prefix.upper()}_ACTIONS];
    {prefix}_observe(state, readings, &observation);
    {prefix}_forward(state, &observation, action);
    {prefix}_target(state, action, target);
}}
"""
