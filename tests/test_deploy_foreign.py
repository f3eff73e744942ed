"""Policies of others: what their files say is read exactly, what they do not say is asked for."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from deploy_policies import JOINTS, contract, plain_contract, policy, readings
from surefoot.contract import Action, Builder, Contract, Group, Memory, Range, Term
from surefoot.contract import action as target_of
from surefoot.deploy import load_bundle
from surefoot.deploy.export import export
from surefoot.deploy.foreign_mjlab import export_mjlab, import_mjlab, metadata, parts
from surefoot.deploy.foreign_plain import Names, import_plain
from surefoot.deploy.foreign_unitree import export_unitree, import_unitree
from surefoot.deploy.plain_yaml import read_yaml, write_yaml
from surefoot.errors import InputError

COMMANDS = tuple(Range(name=n, low=-1.0, high=1.0) for n in ("vx", "vy", "yaw_rate"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A bundle that the other formats can say."""
    c = plain_contract()
    return export(policy(c), c, tmp_path_factory.mktemp("plain") / "b")


@pytest.fixture
def mjlab(plain, tmp_path):
    return export_mjlab(plain, tmp_path / "policy.onnx")


def drive(bundle, columns=None):
    """Targets of a sequence of readings through builder, policy and action, as the runtime does it."""
    c = bundle.contract
    order = [JOINTS.index(j) for j in c.joints]
    builder, run, last, found = Builder(c), bundle.policy(), None, []
    for row in readings(plain_contract(), 12):
        row = {k: v[order] if k.startswith("joint_") else v for k, v in row.items()}
        command = row.pop("command")
        last = run(builder.observe(row, last_action=last, command=command))
        found.append(dict(zip(c.joints, target_of(c, last)[0], strict=True)))
    return np.array([[row[j] for j in JOINTS] for row in found])


def metadata_changed(file, target, **changes):
    """The ONNX file with other metadata; None takes a key away."""
    model = onnx.load(file)
    texts = {p.key: p.value for p in model.metadata_props} | changes
    helper.set_model_props(model, {k: v for k, v in texts.items() if v is not None})
    onnx.save(model, target)
    return target


# ---------------------------------------------------------------- mjlab


def test_mjlab_round_trip(plain, mjlab, tmp_path):
    back = import_mjlab(mjlab, tmp_path / "back", robot="leg", control_dt=0.02, commands=plain.contract.commands)
    stripped = replace(plain.contract.group("policy"), normaliser=None)
    known = replace(plain.contract, groups=(stripped,))
    assert known.difference(back.contract) == []
    np.testing.assert_array_equal(drive(back), drive(plain))
    assert back.provenance["source"] == "mjlab"
    assert any("trained range" in sentence for sentence in load_bundle(tmp_path / "back").unknown)


def test_mjlab_metadata_is_what_mjlab_readers_expect(plain, mjlab):
    texts = metadata(mjlab.read_bytes(), "policy.onnx")
    assert texts["joint_names"] == ",".join(JOINTS)
    assert texts["observation_names"] == "base_ang_vel,projected_gravity,command,joint_pos,joint_vel,actions"
    assert texts["observation_terms_clip"].split(",")[:2] == ["-16.0;16.0", "-inf;inf"]
    assert texts["observation_terms_history_length"] == "3,3,3,3,3,3"
    assert float(texts["joint_stiffness"].split(",")[2]) == 30.123456789
    model = onnx.load(mjlab)
    assert [i.name for i in model.graph.input] == ["obs"]
    assert [o.name for o in model.graph.output] == ["actions"]


def test_mjlab_as_its_own_exporter_writes_it(plain, mjlab, tmp_path):
    """Lists in brackets, three decimals, flags as 1.000, no action names: read, and the rounding said."""
    file = metadata_changed(
        mjlab, tmp_path / "theirs.onnx", action_names=None, action_offset=None, joint_stiffness="20.000,25.000,30.123",
        joint_damping="0.500,0.500,0.500", default_joint_pos="0.100,0.900,-0.300", action_scale="0.300,0.200,0.123",
        observation_terms_clip="[-16.0, 16.0],[-inf, inf],[-inf, inf],[-inf, inf],[-inf, inf],[-inf, inf]",
        observation_terms_scale="0.250,1.000,[2.0, 2.0, 0.25],1.000,0.050,1.000",
        observation_terms_history_length="3.000,3.000,3.000,3.000,3.000,3.000",
        observation_terms_flatten_history_dim="1.000,1.000,1.000,True,1.000,1.000",
    )  # fmt: skip
    back = import_mjlab(file, tmp_path / "back", robot="leg", control_dt=0.02, commands=COMMANDS)
    group = back.contract.group("policy")
    assert group.term("base_ang_vel").clip == ((-4.0,) * 3, (4.0,) * 3)
    assert group.term("command").scale == (2.0, 2.0, 0.25)
    assert back.contract.action.offset == (0.1, 0.9, -0.3)
    assert back.contract.kp[2] == 30.123
    assert any("third decimal" in sentence for sentence in back.unknown)


@pytest.mark.parametrize(
    ("changes", "arguments", "sentence"),
    [
        ({"joint_names": None}, {}, "no metadata 'joint_names'"),
        ({}, {"commands": ()}, "observes a command .'command'. and does not say its range"),
        ({"observation_names": "imu,projected_gravity,command,joint_pos,joint_vel,actions"}, {}, "'imu' whose meaning is not known"),
        ({"observation_names": "base_ang_vel,command,joint_pos,joint_vel,actions"}, {}, "has 6 entries, observation_names has 5"),
        ({"observation_terms_history_length": "3,3,3,3,3,2"}, {}, "reads 54 numbers, its observation_names add up to 51"),
        ({"observation_terms_flatten_history_dim": "0,1,1,1,1,1"}, {}, "is not flattened"),
        ({"joint_stiffness": "1.000,1.000,1.000", "joint_damping": "0.000,0.000,-0.000"}, {}, "whatever their gains: give kp and kd"),
        ({"joint_stiffness": None}, {}, "give kp and kd"),
        ({"joint_stiffness": "20,25"}, {}, "must be 3 finite numbers, it holds 2"),
        ({"joint_stiffness": "20,x,25"}, {}, "must be numbers, it holds 'x'"),
        ({"default_joint_pos": "nan,0,0"}, {}, "must be 3 finite numbers"),
        ({"action_names": "hip_joint,knee_joint"}, {}, "gives 3 actions, its metadata names 2"),
        ({"action_names": "hip_joint,knee_joint,toe_joint"}, {}, "acts on 'toe_joint'"),
        ({"observation_terms_scale": "[1, 2],1,1,1,1,1"}, {}, "scale of term 'base_ang_vel' must be one number or 3"),
        ({}, {"gains": ((1.0,), (1.0,))}, "kp needs 3 numbers"),
        ({}, {"control_dt": 0.0}, "control_dt must be a number above 0"),
    ],
)  # fmt: skip
def test_what_an_mjlab_file_does_not_say_is_asked_for(mjlab, tmp_path, changes, arguments, sentence):
    file = metadata_changed(mjlab, tmp_path / "changed.onnx", **changes)
    given = {"robot": "leg", "control_dt": 0.02, "commands": COMMANDS} | arguments
    with pytest.raises(InputError, match=sentence):
        import_mjlab(file, tmp_path / "back", **given)
    assert not (tmp_path / "back").exists()


def test_terms_with_names_of_their_own_and_given_gains(mjlab, plain, tmp_path):
    file = metadata_changed(
        mjlab,
        tmp_path / "x.onnx",
        observation_names="imu,projected_gravity,command,joint_pos,joint_vel,actions",
        joint_stiffness="1,1,1",
        joint_damping="0,0,0",
    )
    same = {"imu": "base_ang_vel"}
    back = import_mjlab(
        file,
        tmp_path / "back",
        robot="leg",
        control_dt=0.02,
        commands=COMMANDS,
        same=same,
        gains=((5.0, 6.0, 7.0), (0.1, 0.2, 0.3)),
    )
    assert back.contract.group("policy").term("imu").source == "gyro"
    assert back.contract.kp == (5.0, 6.0, 7.0)
    np.testing.assert_array_equal(drive(back), drive(plain))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: replace(c, action=replace(c.action, lift=0.1), clock_period=0.5), "no rhythm"),
        (lambda c: replace(c, action=replace(c.action, kind="joint_torque_target")), "gives joint_torque_target"),
        (lambda c: replace(c, kp=None), "needs kp"),
        (lambda c: replace(c, action=replace(c.action, clip=(-1.0, 1.0))), "no clip of the action"),
        (lambda c: replace(c, groups=(replace(c.groups[0], order="newest-first"),)), "is newest-first"),
        (lambda c: replace(c, groups=(replace(c.groups[0], stack="step"),)), "stacked by step"),
        (lambda c: term_changed(c, "joint_pos", offset=0.0), "offset is"),
        (lambda c: term_changed(c, "joint_pos", turn=True), "no sine and cosine"),
        (lambda c: term_changed(c, "joint_vel", columns=JOINTS[::-1]), "all joints, in the order"),
        (lambda c: term_changed(c, "projected_gravity", columns=("z", "y", "x")), "x, y, z in this order"),
        (lambda c: term_changed(c, "actions", columns=JOINTS[::-1]), "all of hip_joint, knee_joint, ankle_joint"),
        (lambda c: term_changed(c, "base_ang_vel", clip=((-1.0, -2.0, -3.0), 4.0)), "clips all entries alike"),
        (lambda c: term_changed(replace(c, sensor_channels=(*c.sensor_channels, "accel")), "base_ang_vel", source="accel"), "no word for"),
    ],
)  # fmt: skip
def test_what_mjlab_cannot_say_is_refused(change, sentence, tmp_path):
    c = change(plain_contract())
    with pytest.raises(InputError, match=sentence):
        export_mjlab(export(policy(c), c, tmp_path / "b"), tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def term_changed(c, name, **changes):
    group = c.groups[0]
    terms = tuple(
        replace(t, **(changes | ({"scale": 1.0, "clip": None, "offset": 0.0} if "turn" in changes else {})))
        if t.name == name
        else t
        for t in group.terms
    )
    return replace(c, groups=(replace(group, terms=terms),))


def test_memory_and_second_groups_are_refused(tmp_path):
    c = plain_contract()
    with pytest.raises(InputError, match="also has 'gru'"):
        export_mjlab(export(policy(c, memory=4), c, tmp_path / "b"), tmp_path / "out.onnx")
    d = contract(history=True, rhythm=False)
    with pytest.raises(InputError, match="also has 'history'"):
        export_unitree(export(policy(d), d, tmp_path / "d"), tmp_path / "out")


# ---------------------------------------------------------------- Unitree


MOTORS = ("ankle_joint", "spare", "hip_joint", "knee_joint")


@pytest.mark.parametrize("stack", ["term", "step"])
def test_unitree_round_trip_with_other_motor_order(tmp_path, stack):
    c = plain_contract(stack=stack)
    c = replace(c, action=replace(c.action, clip=(-2.0, 2.0), limits=((-0.5, -9.0, -9.0), (0.3, 9.0, 9.0))))
    first = export(policy(c), c, tmp_path / "b")
    export_unitree(first, tmp_path / "out", motors=MOTORS)
    data = read_yaml((tmp_path / "out" / "params" / "deploy.yaml").read_text(), "deploy.yaml")
    assert data["joint_ids_map"] == [2, 3, 0]
    assert data["stiffness"] == [30.123456789, 0.0, 20.0, 25.0]
    assert data["default_joint_pos"] == [0.1, 0.9, -0.3]
    assert data["step_dt"] == 0.02
    assert data["observations"].get("use_gym_history", False) is (stack == "step")
    assert data["observations"]["base_ang_vel"]["clip"] == [-16.0, 16.0]
    assert data["actions"]["JointPositionAction"]["clip"][0] == [pytest.approx(-0.5), pytest.approx(0.3)]
    back = import_unitree(tmp_path / "out" / "params" / "deploy.yaml", tmp_path / "back", robot="leg", joints=MOTORS)
    assert back.contract.joints == ("ankle_joint", "hip_joint", "knee_joint")
    assert dict(zip(back.contract.joints, back.contract.kp, strict=True))["hip_joint"] == 20.0
    assert back.contract.action.joints == JOINTS
    assert back.contract.group("policy").stack == stack
    assert back.contract.commands == c.commands
    assert any("'spare'" in sentence for sentence in back.unknown)
    np.testing.assert_allclose(drive(back), drive(first), atol=1e-6)


@pytest.fixture
def unitree(plain, tmp_path):
    """params/deploy.yaml as plain values, and a function that writes it changed and imports it."""
    export_unitree(plain, tmp_path / "out")
    path = tmp_path / "out" / "params" / "deploy.yaml"
    data = read_yaml(path.read_text(), "deploy.yaml")

    def again(change, **arguments):
        change(data)
        path.write_text(write_yaml(data))
        return import_unitree(path, tmp_path / "back", **({"robot": "leg", "joints": JOINTS} | arguments))

    return again


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d.pop("joint_ids_map"), "has no 'joint_ids_map'"),
        (lambda d: d.pop("step_dt"), "has no 'step_dt'"),
        (lambda d: d.__setitem__("joint_ids_map", [0, 1, 7]), "points at motor 7, 3 names were given"),
        (lambda d: d.__setitem__("joint_ids_map", [0, 1, 1]), "distinct whole numbers"),
        (lambda d: d["stiffness"].append(3.0), "stiffness of deploy.yaml must be 3 numbers, it has 4"),
        (lambda d: d["actions"].__setitem__("JointVelocityAction", {}), "must be one JointPositionAction"),
        (lambda d: d["actions"]["JointPositionAction"].__setitem__("joint_ids", [0, 5]), "positions below 3"),
        (lambda d: d["actions"]["JointPositionAction"].__setitem__("clip", [[0.0, 1.0]]), "3 pairs"),
        (lambda d: d["commands"].clear(), "does not say commands.base_velocity.ranges"),
        (lambda d: d["observations"].pop("last_action"), "reads 54 numbers, deploy.yaml describes 45"),
        (lambda d: d["observations"].__setitem__("depth", {"params": {}, "scale": None}), "'depth' whose meaning is not known"),
        (lambda d: d["observations"].__setitem__("image", {"terms": {}}), "several inputs or other keys"),
        (lambda d: d["observations"]["joint_pos_rel"].__setitem__("params", {"asset_cfg": {"joint_ids": [9]}}), "joint number 9"),
        (lambda d: d["observations"].__setitem__("gait_phase", {"params": {}, "history_length": 1}), "lacks params.period"),
    ],
)  # fmt: skip
def test_a_deploy_yaml_that_does_not_fit_is_refused(unitree, change, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        unitree(change)
    assert not (tmp_path / "back").exists()


def test_scale_before_clip_and_half_open_clips(unitree):
    def change(data):
        data["observations"]["base_ang_vel"]["clip"] = [-1.0, float("inf")]
        data["observations"] = {"scale_first": True, **data["observations"]}

    low, high = unitree(change).contract.group("policy").term("base_ang_vel").clip
    assert low == (-1.0,) * 3
    assert min(high) > 1e29


def test_unitree_terms_of_some_joints_and_a_clock(tmp_path):
    c = plain_contract()
    terms = (
        Term(source="joint_pos", columns=("ankle_joint", "hip_joint"), offset=(0.3, -0.1)),
        Term(source="clock", columns=("sin", "cos")),
    )
    c = replace(
        c,
        groups=(Group(name="policy", terms=terms),),
        clock_period=0.8,
        commands=(),
        action=Action(joints=("knee_joint",), offset=0.9),
    )
    first = export(policy(c), c, tmp_path / "b")
    export_unitree(first, tmp_path / "out")
    data = read_yaml((tmp_path / "out" / "params" / "deploy.yaml").read_text(), "deploy.yaml")
    assert data["joint_ids_map"] == [1, 0, 2]
    assert data["observations"]["joint_pos_rel"]["params"] == {"asset_cfg": {"joint_ids": [2, 1]}}
    assert data["actions"]["JointPositionAction"]["joint_ids"] == [0]
    back = import_unitree(tmp_path / "out" / "params" / "deploy.yaml", tmp_path / "back", robot="leg", joints=JOINTS)
    assert back.contract.clock_period == 0.8
    assert back.contract.action.joints == ("knee_joint",)
    assert any("gait clock" in sentence for sentence in back.unknown)
    np.testing.assert_allclose(drive(back), drive(first), atol=1e-6)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        import_unitree(tmp_path / "no.yaml", tmp_path / "b", robot="leg", joints=JOINTS)
    with pytest.raises(InputError, match="cannot read the policy"):
        import_mjlab(tmp_path / "no.onnx", tmp_path / "b", robot="leg", control_dt=0.02)


# ---------------------------------------------------------------- YAML


def test_yaml_of_deploy_files():
    text = """
# a comment
joint_ids_map: [0, 6, 12,
  1]   # goes on
step_dt: 0.02
clip:
- [-1.0, 1.0]
- [-2.0, 2e-3]
commands:
  base_velocity:
    ranges: {lin_vel_x: [-0.5, 1.0], heading: null}
words: [.*, "a: b", 'it''s', -1, true]
items:
  - name: x
    size: 3
  - name: y
empty: {}
nothing:
"""
    found = read_yaml(text, "f")
    assert found == {
        "joint_ids_map": [0, 6, 12, 1], "step_dt": 0.02, "clip": [[-1.0, 1.0], [-2.0, 0.002]],
        "commands": {"base_velocity": {"ranges": {"lin_vel_x": [-0.5, 1.0], "heading": None}}},
        "words": [".*", "a: b", "it's", -1, True], "items": [{"name": "x", "size": 3}, {"name": "y"}], "empty": {}, "nothing": None,
    }  # fmt: skip
    found.pop("items")
    assert read_yaml(write_yaml(found), "f") == found
    assert read_yaml("", "f") is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [1, 2", "line 1 opens a bracket"), ("a: ]", "closes a bracket"), ("a: &x 1", "uses '&'"),
        ("a: !!python/object:os.system x", "uses '!'"),
        ("a: 1\na: 2", "line 2 gives 'a' a second time"), ("a: 1\n   b: 2", "line 2 is indented for no reason"), ("\ta: 1", "by a tab"),
        ("a: 1\n---\nb: 2", "second document"), ("a: {b 1}", "not {name: value"), ("a: |\n  x", "uses '|'"), ("a: [1 [2]]", "lacks a ','"),
        ("a: 'x", "not closed"), ('a: "x', "not closed"), ("a: 1\nb", "not 'name: value'"), ("a: {b: 1, b: 2}", "second time"),
        ("a: [1] 2", "goes on"),
        ("a: " + "[" * 200 + "]" * 200, "nested too deep"),
    ],
)  # fmt: skip
def test_yaml_beyond_that_is_refused_by_line(text, sentence):
    with pytest.raises(InputError, match=sentence):
        read_yaml(text, "f")


def test_lists_in_metadata():
    assert parts("") == []
    assert parts("a, b") == ["a", "b"]
    assert parts("1.0,[2.0, 3.0],4") == ["1.0", "[2.0, 3.0]", "4"]


# ---------------------------------------------------------------- plain


def recurrent(layers=2, width=4, inputs=3, batch="batch"):
    """Someone's two-layer state: h' = tanh(h + mean of obs), axes (layers, batch, width) as torch has them; action = sum over layers."""
    nodes = [
        helper.make_node("ReduceMean", ["obs"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Add", ["h", "mean"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["h_next"]),
        helper.make_node("ReduceSum", ["h_next", "first"], ["actions"], keepdims=0),
        helper.make_node("Neg", ["actions"], ["value"]),
    ]
    state = [layers, batch, width]
    values = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("obs", [batch, inputs]), ("h", state), ("actions", [batch, width]), ("h_next", state), ("value", [batch, width]))
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "g", values[:2], values[2:], [numpy_helper.from_array(np.array([0]), "first")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


STATE = Memory(name="h", shape=(2, 4))
THEIRS = Names(inputs={"policy": "obs"}, action="actions", memory={"h": ("h", "h_next")})


def arm(memory=(STATE,)):
    joints = ("a", "b", "c", "d")
    return Contract(
        robot="arm", joints=joints, control_dt=0.01, groups=(Group(name="policy", terms=(Term(source="gyro"),)),),
        action=Action(joints=joints), sensor_channels=("gyro",), memory=memory,
    )  # fmt: skip


def test_a_plain_onnx_with_a_contract_written_by_hand(tmp_path):
    onnx.save(recurrent(), tmp_path / "theirs.onnx")
    arm().save(tmp_path / "contract.json")
    import_plain(tmp_path / "theirs.onnx", tmp_path / "contract.json", tmp_path / "b", names=THEIRS)
    bundle = load_bundle(tmp_path / "b")
    assert bundle.contract == arm()
    assert any("'value'" in sentence for sentence in bundle.unknown)
    assert any("kp" in sentence for sentence in bundle.unknown)
    run, h = bundle.policy(), np.zeros((5, 1))
    x = np.random.default_rng(0).standard_normal((6, 5, 3)).astype(np.float32)
    for row in x:
        h = np.tanh(h + row.mean(axis=1, keepdims=True))
        np.testing.assert_allclose(run({"policy": row}), np.repeat(2 * h, 4, axis=1), atol=1e-5)
    assert run.memory["h"].shape == (5, 2, 4)


def test_a_file_made_for_one_world_runs_one_world(tmp_path):
    onnx.save(recurrent(batch=1), tmp_path / "theirs.onnx")
    run = import_plain(tmp_path / "theirs.onnx", arm(), tmp_path / "b", names=THEIRS).policy()
    assert run({"policy": np.ones((1, 3), np.float32)}).shape == (1, 4)
    run.reset()
    with pytest.raises(InputError, match="made for 1 world, got 2"):
        run({"policy": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize(
    ("made", "contract_", "names", "sentence"),
    [
        (recurrent, arm, Names(), "has no input 'policy' .for 'policy'., it has obs, h: say which one it is"),
        (recurrent, arm, Names(inputs={"policy": "obs"}), "has no input 'h_in'"),
        (recurrent, lambda: arm(memory=()), Names(inputs={"policy": "obs"}, action="actions"), "also wants the input 'h'"),
        (lambda: recurrent(inputs=5), arm, THEIRS, "they are not of one policy"),
        (lambda: recurrent(batch=7), arm, THEIRS, "made for 7 worlds"),
    ],
)  # fmt: skip
def test_a_plain_onnx_that_does_not_fit_is_refused(tmp_path, made, contract_, names, sentence):
    onnx.save(made(), tmp_path / "theirs.onnx")
    with pytest.raises(InputError, match=sentence):
        import_plain(tmp_path / "theirs.onnx", contract_(), tmp_path / "b", names=names)
    assert not (tmp_path / "b").exists()


def test_weights_in_another_file_are_refused(tmp_path, plain):
    model = onnx.load_model_from_string(plain.data)
    onnx.save(model, tmp_path / "big.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    with pytest.raises(InputError, match="keeps its weights in another file"):
        import_plain(tmp_path / "big.onnx", plain.contract, tmp_path / "b")


def test_a_text_is_no_onnx(tmp_path, plain):
    (tmp_path / "x.onnx").write_text("hello there, this is no model")
    with pytest.raises(InputError, match="not an ONNX file"):
        import_plain(tmp_path / "x.onnx", plain.contract, tmp_path / "b")


# ---------------------------------------------------------------- command line


def test_import_policy_from_the_command_line(mjlab, plain, tmp_path, capsys):
    from surefoot.cli_deploy import import_policy

    ranges = ["vx=-1:1:m/s", "vy=-1:1:m/s", "yaw_rate=-1:1:rad/s"]
    assert import_policy("mjlab", mjlab, tmp_path / "b", robot="leg", control_dt=0.02, command=ranges, json=True) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == {"policy": 54}
    export_unitree(plain, tmp_path / "out")
    import_policy(
        "unitree", tmp_path / "out" / "params" / "deploy.yaml", tmp_path / "u", robot="leg", joints=",".join(JOINTS)
    )
    plain.contract.save(tmp_path / "c.json")
    import_policy("plain", plain.folder / "policy.onnx", tmp_path / "p", contract=tmp_path / "c.json")
    assert load_bundle(tmp_path / "p").contract == plain.contract
    assert "not known" in capsys.readouterr().out


def test_export_as_from_the_command_line(plain, tmp_path, capsys):
    from surefoot.cli_deploy import export_as

    assert export_as("mjlab", plain.folder, tmp_path / "x.onnx") == 0
    assert export_as("unitree", plain.folder, tmp_path / "u", motors=",".join(MOTORS)) == 0
    assert export_as("c99", plain.folder, tmp_path / "leg.h", prefix="leg", json=True) == 0
    assert (tmp_path / "u" / "params" / "deploy.yaml").exists()
    assert "leg_step" in (tmp_path / "leg.h").read_text()
    assert capsys.readouterr().out.splitlines()[-1] == json.dumps(str(tmp_path / "leg.h"))


@pytest.mark.parametrize(
    ("form", "arguments", "sentence"),
    [
        ("mjlab", {"control_dt": 0.02}, "give --robot"),
        ("mjlab", {"robot": "leg"}, "give --control-dt"),
        ("unitree", {"robot": "leg"}, "give --joints"),
        ("plain", {}, "give --contract"),
        ("mjlab", {"robot": "leg", "control_dt": 0.02, "command": ["vx"]}, "NAME=LOW:HIGH:UNIT"),
        ("mjlab", {"robot": "leg", "control_dt": 0.02, "same": ["x"]}, "NAME=MEANING"),
        ("plain", {"robot": "leg", "contract": "x"}, "--robot says nothing"),
    ],
)
def test_arguments_of_import_policy(mjlab, tmp_path, form, arguments, sentence):
    from surefoot.cli_deploy import import_policy

    with pytest.raises(InputError, match=sentence):
        import_policy(form, mjlab, tmp_path / "b", **arguments)


def test_export_from_the_command_line(tmp_path, capsys):
    """A run of a few steps of a small robot becomes a bundle of its own policy."""
    from surefoot.cli_deploy import export as command
    from surefoot.evaluate.runs import candidate, task_of
    from surefoot.learn import PPO
    from surefoot.learn import train as learn
    from surefoot.sim import Sim
    from surefoot.tasks import World

    robot, task = task_of("cartpole")
    world = World(task, Sim(robot, worlds=4, seed=0), seed=0)
    widths = tuple(name for name in world.widths if name != "critic")
    learn(
        world,
        PPO(horizon=8, minibatches=1, epochs=1, hidden=(8,), actor=widths),
        run=tmp_path / "run",
        steps=64,
        seed=3,
        about={"robot": "cartpole"},
    )
    assert command(tmp_path / "run", tmp_path / "b", seconds=1.0, worlds=4, json=True) == 0
    said = json.loads(capsys.readouterr().out)
    bundle = load_bundle(tmp_path / "b")
    assert said["policy"] == bundle.hash
    assert bundle.provenance["run"]["seed"] == 3
    assert bundle.provenance["run"]["steps"] >= 64
    x = {
        g.name: np.random.default_rng(0).standard_normal((3, g.size)).astype(np.float32) for g in bundle.contract.groups
    }
    wanted = candidate(tmp_path / "run").policy.play()({k: torch.from_numpy(v) for k, v in x.items()})
    np.testing.assert_allclose(bundle.policy()(x), wanted.numpy(), atol=1e-5)


def test_unitree_runtimes_read_all_joint_speeds(tmp_path):
    """Their runtime ignores joint_ids of joint_vel_rel, so another order of the speeds cannot be written."""
    c = term_changed(plain_contract(), "joint_vel", columns=JOINTS[::-1])
    with pytest.raises(InputError, match="must read all joints, those of the action first"):
        export_unitree(export(policy(c), c, tmp_path / "b"), tmp_path / "out")
    d = plain_contract()
    flipped = replace(d.action, joints=JOINTS[::-1], scale=d.action.scale[::-1], offset=d.action.offset[::-1])
    d = term_changed(
        term_changed(replace(d, action=flipped), "joint_vel", columns=JOINTS[::-1]), "actions", columns=JOINTS[::-1]
    )
    first = export(policy(d), d, tmp_path / "d")
    export_unitree(first, tmp_path / "out")
    data = read_yaml((tmp_path / "out" / "params" / "deploy.yaml").read_text(), "deploy.yaml")
    assert data["joint_ids_map"] == [2, 1, 0]
    assert data["observations"]["joint_pos_rel"]["params"] == {"asset_cfg": {"joint_ids": [2, 1, 0]}}
    back = import_unitree(tmp_path / "out" / "params" / "deploy.yaml", tmp_path / "back", robot="leg", joints=JOINTS)
    np.testing.assert_allclose(drive(back), drive(first), atol=1e-6)
