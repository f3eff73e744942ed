"""The C header compiles without a warning and does what builder, ONNX and contract do."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deploy_policies import contract, plain_contract, policy, readings
from surefoot.contract import Action, Builder, Contract, Group, Normaliser, Term
from surefoot.contract import action as target_of
from surefoot.deploy.bundle import write_bundle
from surefoot.deploy.c99 import c99_text, export_c99
from surefoot.deploy.c99_network import number
from surefoot.deploy.export import export
from surefoot.errors import InputError

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc) on this machine")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]


def compiled(folder, bundle, main, prefix="policy"):
    export_c99(bundle, folder / f"{prefix}.h", prefix=prefix)
    (folder / "main.c").write_text(f'#include <stdio.h>\n#include "{prefix}.h"\n{main}')
    program = folder / "program"
    done = subprocess.run(
        [COMPILER, *FLAGS, "main.c", "-o", str(program), "-lm"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:2000]
    return program


def run(program, *arrays, width):
    data = np.concatenate([np.asarray(a, np.float32).ravel() for a in arrays]) if arrays else np.zeros(0, np.float32)
    done = subprocess.run([str(program)], input=data.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32).reshape(-1, width)


FORWARD = """
int main(void)
{
    policy_state state;
    policy_observation observation;
    float action[POLICY_ACTIONS];
    policy_reset(&state);
    while (fread(&observation, sizeof observation, 1, stdin) == 1) {
        policy_forward(&state, &observation, action);
        fwrite(action, sizeof action, 1, stdout);
    }
    return 0;
}
"""

STEP = """
int main(void)
{
    policy_state state;
    policy_readings readings;
    policy_observation observation;
    float action[POLICY_ACTIONS], target[POLICY_JOINTS];
    policy_reset(&state);
    while (fread(&readings, sizeof readings, 1, stdin) == 1) {
        policy_observe(&state, &readings, &observation);
        policy_forward(&state, &observation, action);
        policy_target(&state, action, target);
        fwrite(&observation, sizeof observation, 1, stdout);
        fwrite(action, sizeof action, 1, stdout);
        fwrite(target, sizeof target, 1, stdout);
    }
    return 0;
}
"""


@needs_compiler
@pytest.mark.parametrize(
    ("activation", "memory", "integral", "history"),
    [("elu", 0, 0.0, False), ("tanh", 12, 0.0, True), ("relu", 7, 0.0, False), ("tanh", 0, 0.1, True)],
)
def test_the_network_in_c_is_the_network_in_onnx(tmp_path, activation, memory, integral, history):
    c = contract(history=history)
    made = policy(c, hidden=(64, 32), activation=activation, memory=memory, integral=integral)
    bundle = export(made, c, tmp_path / "b")
    program = compiled(tmp_path, bundle, FORWARD)
    rng = np.random.default_rng(0)
    sizes = {g.name: g.size for g in bundle.contract.groups}
    x = {name: (4.0 * rng.standard_normal((40, size))).astype(np.float32) for name, size in sizes.items()}
    found = run(program, np.concatenate([x[name] for name in sizes], axis=1), width=2)
    act = bundle.policy()
    wanted = np.concatenate([act({name: rows[t : t + 1] for name, rows in x.items()}) for t in range(40)])
    assert np.abs(wanted).max() > 0.5
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def reading_row(bundle, row):
    """Readings in the order of the header's struct: sources in the order in which the terms name them."""
    own = ("last_action", "clock")
    sources = list(dict.fromkeys(t.source for g in bundle.contract.groups for t in g.terms if t.source not in own))
    return np.concatenate([row[source] for source in sources])


@needs_compiler
@pytest.mark.parametrize(
    ("history", "rhythm", "memory", "integral"), [(True, True, 0, 0.0), (False, False, 6, 0.0), (True, False, 0, 0.05)]
)
def test_readings_to_targets_in_c_as_in_the_runtime(tmp_path, history, rhythm, memory, integral):
    """Observation, action and target of every step: offset, scale, clip, turn, both kinds of history, clock, rhythm, limits."""
    c = contract(history=history, rhythm=rhythm)
    bundle = export(policy(c, memory=memory, integral=integral), c, tmp_path / "b")
    program = compiled(tmp_path, bundle, STEP)
    builder, act, last, wanted = Builder(bundle.contract), bundle.policy(), None, []
    rows = readings(c, 30)
    for t, row in enumerate(rows):
        y = {k: v.astype(np.float32) for k, v in row.items() if k != "command"}
        seen = builder.observe(y, last_action=last, command=row["command"].astype(np.float32))
        last = act(seen)
        target = target_of(bundle.contract, last, np.array([t * 0.02]))
        wanted.append(np.concatenate([*(seen[g.name][0] for g in bundle.contract.groups), last[0], target[0]]))
    found = run(program, [reading_row(bundle, row) for row in rows], width=len(wanted[0]))
    np.testing.assert_allclose(found, np.array(wanted), atol=1e-5)
    targets = np.array(wanted)[:, -3:]
    assert np.ptp(targets[:, 1]) > 0.1
    np.testing.assert_allclose(found[:, -1], -0.3)


@needs_compiler
@pytest.mark.parametrize("stack", ["term", "step"])
def test_histories_stacked_by_term_and_by_step_oldest_first(tmp_path, stack):
    c = plain_contract(stack=stack)
    bundle = export(policy(c), c, tmp_path / "b")
    program = compiled(tmp_path, bundle, STEP)
    builder, last, wanted = Builder(bundle.contract), None, []
    act = bundle.policy()
    rows = readings(c, 8)
    for row in rows:
        y = {k: v.astype(np.float32) for k, v in row.items() if k != "command"}
        seen = builder.observe(y, last_action=last, command=row["command"].astype(np.float32))
        last = act(seen)
        wanted.append(seen["policy"][0])
    found = run(program, [reading_row(bundle, row) for row in rows], width=54 + 3 + 3)
    np.testing.assert_allclose(found[:, :54], wanted, atol=1e-5)


@needs_compiler
def test_a_foreign_network_two_policies_and_constants(tmp_path):
    """MatMul, Add, Sigmoid, Div and a builder's normaliser; two headers in one program; names that are no identifiers."""
    rng = np.random.default_rng(0)
    weight, bias = rng.standard_normal((3, 2)).astype(np.float32), rng.standard_normal(2).astype(np.float32)
    nodes = [
        helper.make_node("Div", ["policy", "two"], ["half"]),
        helper.make_node("MatMul", ["half", "W"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Sigmoid", ["sum"], ["action"]),
    ]
    stored = [numpy_helper.from_array(v, n) for n, v in (("W", weight), ("b", bias), ("two", np.float32(2.0)))]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, ["worlds", s]) for n, s in (("policy", 3), ("action", 2))
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:], stored),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    wheels = ("left wheel", "left-wheel")
    norm = Normaliser(mean=(1.0, 2.0, 3.0), var=(4.0, 1.0, 0.25), limit=1.5, by="builder")
    c = Contract(
        robot="a */ b", joints=wheels, control_dt=0.01, action=Action(joints=wheels, kind="voltage_target"),
        groups=(Group(name="policy", terms=(Term(source="gyro"),), normaliser=norm),), sensor_channels=("gyro",), pd_rate=500.0,
    )  # fmt: skip
    bundle = write_bundle(tmp_path / "b", model.SerializeToString(), c, {})
    (tmp_path / "other.h").write_text(c99_text(bundle, "other"))
    program = compiled(tmp_path, bundle, '#include "other.h"\n' + STEP)
    x = (3.0 * rng.standard_normal((5, 3))).astype(np.float32)
    found = run(program, x, width=3 + 2 + 2)
    seen = np.array([Builder(c).observe({"gyro": row[None]})["policy"][0] for row in x])
    np.testing.assert_allclose(found[:, :3], seen, atol=1e-6)
    np.testing.assert_allclose(found[:, 3:5], bundle.policy()({"policy": seen}), atol=1e-5)
    text = c99_text(bundle)
    assert "policy_joint_left_wheel_0 = 0" in text
    assert "policy_joint_left_wheel_1 = 1" in text


def test_constants_read_back_to_the_same_float():
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.standard_normal(500) * 10.0 ** rng.integers(-30, 30, 500), [0.0, 1.0, -1.0, 1e6]]
    ).astype(np.float32)
    assert all(np.float32(number(float(v)).removesuffix("f")) == v for v in values)
    with pytest.raises(InputError, match="only finite numbers"):
        number(float("nan"))


def test_the_header_names_gains_limits_and_rates(tmp_path):
    c = contract(position_limits=((-1.0, -2.0, -3.0), 1.0), rate_limit=20.0, pd_rate=500.0)
    text = c99_text(export(policy(c), c, tmp_path / "b"))
    words = "kp[3]|kd[3]|torque_limit[3]|rate_limit[3]|position_low[3]|pd_rate = 500.0|control_dt = 0.02|joint_knee_joint = 1"
    for word in f"{words}|action_knee_joint = 0|command_low[2]".split("|"):
        assert f"policy_{word}" in text, word
    assert c99_text(export(policy(c), c, tmp_path / "c")) == text


@pytest.mark.parametrize("prefix", ["", "Policy", "2go", "a b"])
def test_a_prefix_must_be_a_name_of_c(tmp_path, prefix):
    c = contract()
    with pytest.raises(InputError, match="lower-case name of C"):
        export_c99(export(policy(c), c, tmp_path / "b"), tmp_path / "x.h", prefix=prefix)


def test_an_operation_without_a_c_form_is_named(tmp_path):
    c = contract()
    bundle = export(policy(c), c, tmp_path / "b")
    model = onnx.load_model_from_string(bundle.data)
    model.graph.node[-2].op_type = "Softplus"
    del model.graph.node[-2].attribute[:]
    other = replace(bundle, data=model.SerializeToString())
    with pytest.raises(InputError, match="uses the operation 'Softplus', which has no C form here"):
        c99_text(other)
