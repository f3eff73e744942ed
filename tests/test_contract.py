"""The contract as a value: it checks itself, keeps every bit through JSON, and lets nothing privileged leak."""

import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.contract import Action, Contract, Group, Memory, Normaliser, Range, Term, action, invert
from surefoot.errors import InputError

JOINTS = tuple(f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf"))
POSE = (0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5)


def walking(*, history: int = 1, order: str = "oldest-first", stack: str = "term") -> Contract:
    """A contract of a quadruped with every part filled in."""
    policy = (
        Term(source="gyro", scale=0.25, history=history),
        Term(source="gravity", history=history, delay=0.01),
        Term(source="command", columns=("vx", "vy", "yaw_rate"), scale=(2.0, 2.0, 0.25), history=history),
        Term(source="joint_pos", columns=JOINTS, offset=[-q for q in POSE], clip=(-3.0, 3.0), history=history),
        Term(source="joint_vel", columns=JOINTS, scale=0.05, trained=(-1.5, 1.5), history=history),
        Term(source="last_action", columns=JOINTS, history=history),
    )
    critic = (Term(source="base_vel"), Term(source="foot_force", columns=("FL", "FR", "RL", "RR"), scale=0.01))
    size = sum(term.size for term in policy)
    normaliser = Normaliser(mean=np.linspace(-1, 1, size), var=np.linspace(0.1, 2, size), limit=10.0)
    return Contract(
        robot="go2",
        joints=JOINTS,
        control_dt=0.02,
        timestep=0.005,
        pd_rate=500.0,
        pose=POSE,
        kp=20.0,
        kd=0.5,
        torque_limit=(23.7, 23.7, 45.43) * 4,
        rate_limit=30.0,
        position_limits=(-3.0, 3.0),
        groups=(
            Group(name="policy", terms=policy, order=order, stack=stack, normaliser=normaliser),
            Group(name="critic", terms=critic, privileged=True),
        ),
        action=Action(joints=JOINTS, scale=0.25, offset=POSE, clip=(-10.0, 10.0)),
        sensor_channels=("gyro", "gravity", "joint_pos", "joint_vel"),
        commands=(
            Range(name="vx", low=-1.0, high=1.0, unit="m/s"),
            Range(name="vy", low=-0.5, high=0.5, unit="m/s"),
            Range(name="yaw_rate", low=-1.0, high=1.0, unit="rad/s"),
        ),
        memory=(Memory(name="h", shape=(1, 64)),),
        e=(Range(name="foot_friction", low=0.3, high=1.2, unit="1"), Range(name="base_mass", low=6.0, high=9.5)),
    )


def small(**changes) -> Contract:
    fields = {
        "robot": "servo",
        "joints": ("hinge",),
        "control_dt": 0.01,
        "groups": (Group(name="policy", terms=(Term(source="joint_pos", columns=("hinge",)),)),),
        "action": Action(joints=("hinge",)),
        "sensor_channels": ("joint_pos",),
    }
    return Contract(**{**fields, **changes})


def test_json_gives_back_an_equal_contract_with_the_same_hash(tmp_path):
    contract = walking(history=3, order="newest-first", stack="step")
    contract.save(tmp_path / "contract.json")
    back = Contract.load(tmp_path / "contract.json")
    assert back == contract
    assert back.hash == contract.hash
    assert back.difference(contract) == []


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=150, deadline=None)
@given(
    scale=st.lists(finite, min_size=3, max_size=3),
    offset=finite,
    clip=st.tuples(finite, finite).map(sorted),
    dt=st.floats(min_value=1e-300, max_value=1e300),
    name=st.text(min_size=1),
    history=st.integers(1, 9),
    var=st.floats(min_value=1e-300, max_value=1e300),
)
def test_every_float_and_every_name_survives_json(scale, offset, clip, dt, name, history, var):
    term = Term(source="gyro", name=name, scale=scale, offset=offset, clip=tuple(clip), history=history)
    n = 3 * history
    group = Group(name="policy", terms=(term,), normaliser=Normaliser(mean=(offset,) * n, var=(var,) * n))
    contract = small(groups=(group,), sensor_channels=("gyro",), control_dt=dt, robot=name)
    back = Contract.from_json(contract.to_json())
    assert back == contract
    assert back.hash == contract.hash
    assert back.group("policy").terms[0].scale == tuple(scale)


def test_a_value_that_json_would_round_is_kept_exactly():
    contract = small(kp=0.1 + 0.2, kd=1 / 3)
    assert Contract.from_json(contract.to_json()).kp == (0.1 + 0.2,)
    assert "0.30000000000000004" in contract.to_json()


def test_minus_zero_and_zero_are_one_contract():
    assert small(pose=-0.0).hash == small(pose=0.0).hash


def test_order_of_e_of_groups_and_of_sensor_channels_does_not_change_the_hash():
    a = walking()
    b = replace(a, e=a.e[::-1], groups=a.groups[::-1], sensor_channels=a.sensor_channels[::-1])
    assert a.hash == b.hash


def test_a_changed_bit_changes_the_hash():
    a = small(kp=1.0)
    assert a.hash != small(kp=float(np.nextafter(1.0, 2.0))).hash


@pytest.mark.parametrize("name", ["policy", "history"])
def test_privileged_quantity_cannot_enter_a_deployed_group(name):
    leak = Group(name=name, terms=(Term(source="base_vel", name="speed"),))
    groups = {"policy": small().groups[0], name: leak}
    with pytest.raises(InputError, match=r"'speed'.*reads 'base_vel', which no sensor"):
        small(groups=tuple(groups.values()))
    with pytest.raises(InputError, match="cannot be privileged"):
        small(groups=tuple({**groups, name: replace(leak, privileged=True)}.values()))


def test_privileged_critic_may_read_the_truth():
    critic = Group(name="critic", terms=(Term(source="base_vel"),), privileged=True)
    assert small(groups=(small().groups[0], critic)).group("critic").size == 3


def test_labels_name_every_entry_of_a_group():
    terms = (Term(source="gyro", history=2), Term(source="joint_pos", columns=("FL_hip_joint",), history=2))
    by_term = Group(name="policy", terms=terms).labels
    by_step = Group(name="policy", terms=terms, stack="step", order="newest-first").labels
    assert by_term[0] == "gyro[x] t-1"
    assert by_term[3] == "gyro[x]"
    assert by_term[6:] == ("joint_pos[FL_hip] t-1", "joint_pos[FL_hip]")
    assert by_step[3] == "joint_pos[FL_hip]"
    assert by_step[4] == "gyro[x] t-1"
    assert len(by_step) == terms[0].size + terms[1].size


def test_a_turned_angle_has_two_named_entries_and_survives_json():
    term = Term(source="joint_pos", columns=("hinge",), turn=True, scale=(1.0, 0.5), history=2)
    group = Group(name="policy", terms=(term,))
    assert term.size == group.size == 4
    assert group.labels[2:] == ("joint_pos[sin hinge]", "joint_pos[cos hinge]")
    contract = small(groups=(group,))
    same = Contract.from_json(contract.to_json())
    assert same == contract
    assert same.hash == contract.hash
    plain = small(groups=(Group(name="policy", terms=(replace(term, turn=False, scale=1.0),)),))
    assert plain.hash != contract.hash


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Term(source=""), "needs the channel"),
        (lambda: Term(source="joint_pos"), "needs its columns"),
        (lambda: Term(source="gyro", scale=(1.0, 2.0)), "one number or 3"),
        (lambda: Term(source="gyro", scale=float("nan")), "must be finite"),
        (lambda: Term(source="gyro", scale="big"), "must be a number or 3"),
        (lambda: Term(source="gyro", clip=(1.0, -1.0)), "low above its high"),
        (lambda: Term(source="gyro", clip=5.0), r"pair \(low, high\)"),
        (lambda: Term(source="gyro", columns="xyz"), "list of names"),
        (lambda: Term(source="gyro", columns=("x", "x")), "there twice"),
        (lambda: Term(source="gyro", history=0), "whole number of steps"),
        (lambda: Term(source="gyro", delay=-0.01), "0 or more seconds"),
        (lambda: Term(source="gyro", turn=True), "need an angle in rad, 'gyro' is in rad/s"),
        (lambda: Term(source="joint_pos", columns=("a",), turn=1), "true or false"),
        (lambda: Term(source="joint_pos", columns=("a",), turn=True, scale=(1.0, 2.0, 3.0)), "one number or 2"),
        (lambda: Group(name="policy", terms=()), "no terms"),
        (lambda: Group(name="two words", terms=(Term(source="gyro"),)), "single word"),
        (lambda: Group(name="p", terms=(Term(source="gyro"),), order="oldest"), "did you mean 'oldest-first'"),
        (
            lambda: Group(name="p", terms=(Term(source="gyro", history=2), Term(source="accel")), stack="step"),
            "one history length: gyro 2, accel 1",
        ),
        (
            lambda: Group(name="p", terms=(Term(source="gyro"),), normaliser=Normaliser(mean=(0.0,), var=(1.0,))),
            "1 entries, the group has 3",
        ),
        (lambda: Normaliser(mean=(0.0,), var=(-1.0,)), "variances"),
        (lambda: Action(joints=("a",), kind="joint_position"), "not a kind of action"),
        (lambda: Action(joints=("a", "b"), scale=(1.0, 0.0)), "'b': it could never move"),
        (lambda: Range(name="mu", low=2.0, high=1.0), "above its high"),
        (lambda: Memory(name="h", shape=(0,)), "whole numbers above 0"),
        (lambda: small(control_dt=0.0), "control_dt must be a number above 0"),
        (lambda: small(joints=()), "at least one joint"),
        (lambda: small(kp=(1.0, 2.0)), "kp must be one number or 1"),
        (lambda: small(version=2), "version 2 is not known"),
        (lambda: small(action=Action(joints=("hnge",))), "did you mean 'hinge'"),
        (lambda: small(groups=(Group(name="critic", terms=small().groups[0].terms),)), "needs a group 'policy'"),
        (
            lambda: small(groups=(Group(name="policy", terms=(Term(source="joint_pos", columns=("hing",)),)),)),
            "'hing' is not a column of 'joint_pos' .did you mean 'hinge'",
        ),
        (
            lambda: small(groups=(Group(name="policy", terms=(Term(source="clock", columns=("sin",)),)),)),
            "clock_period",
        ),
        (lambda: small().group("polcy"), "did you mean 'policy'"),
        (lambda: small().groups[0].term("joint_poss"), "did you mean 'joint_pos'"),
    ],
)
def test_a_wrong_contract_is_refused_in_one_sentence(make, words):
    with pytest.raises(InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "an object with named fields"),
        ("{}", "lacks the field 'robot'"),
        ('{"robot": "a", "robot": "b"}', "'robot' twice"),
        ('{"robto": "a"}', "did you mean 'robot'"),
    ],
)
def test_a_broken_file_is_one_sentence(text, words, tmp_path):
    path = tmp_path / "contract.json"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        Contract.load(path)


def test_a_missing_or_binary_file_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="cannot read the contract"):
        Contract.load(tmp_path / "nothing.json")
    (tmp_path / "x.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot read the contract"):
        Contract.load(tmp_path / "x.json")


def _nodes(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _nodes(item, (*path, key))


@pytest.mark.slow
def test_mutated_files_give_a_contract_or_one_sentence():
    rng = random.Random(7)
    text = walking(history=2).to_json()
    junk = [None, True, "x", "", -1, 0, 1e400, [], {}, [[]], ["a", 1], {"a": 1}, 10**400, [1.0], -1.5]
    sentences, whole = [], walking(history=2)
    for _ in range(2000):
        values = json.loads(text)
        path = rng.choice([p for p in _nodes(values) if p])
        parent = values
        for key in path[:-1]:
            parent = parent[key]
        if rng.random() < 0.2:
            del parent[path[-1]]
        else:
            parent[path[-1]] = rng.choice(junk)
        try:
            other = Contract.from_json(json.dumps(values))
        except InputError as error:
            sentences.append(str(error))
            continue
        found = whole.difference(other)
        assert (found == []) == (other == whole) == (other.hash == whole.hash), (path, found)
    assert len(sentences) > 1000
    assert not any("\n" in sentence for sentence in sentences)


def test_action_is_clipped_scaled_and_put_into_the_robots_order():
    contract = small(
        joints=("a", "b", "c"),
        pose=(0.5, 0.6, 0.7),
        groups=(Group(name="policy", terms=(Term(source="joint_pos", columns=("a",)),)),),
        action=Action(joints=("c", "a"), scale=(0.5, 2.0), offset=(0.1, 0.2), clip=(-1.0, 1.0), limits=(-9.0, 1.5)),
    )
    target = action(contract, np.array([[0.4, 3.0], [-5.0, 0.5]]))
    np.testing.assert_allclose(target, [[1.5, 0.6, 0.3], [1.2, 0.6, -0.4]])


def test_joint_without_an_action_gets_no_torque():
    contract = small(
        joints=("a", "hinge"), pose=0.3, action=Action(joints=("hinge",), kind="joint_torque_target", scale=2.0)
    )
    np.testing.assert_array_equal(action(contract, np.array([1.0])), [0.0, 2.0])


def test_invert_undoes_action_where_nothing_is_clipped():
    contract = replace(walking(), action=replace(walking().action, joints=JOINTS[::-1]))
    a = np.random.default_rng(0).normal(size=(5, 12))
    np.testing.assert_allclose(invert(contract, action(contract, a)), a, atol=1e-12)


def test_action_is_the_same_bits_in_torch():
    torch = pytest.importorskip("torch")
    contract = replace(walking(), action=replace(walking().action, joints=JOINTS[::-1]))
    a = np.random.default_rng(0).normal(size=(64, 12)).astype(np.float32) * 8
    theirs = action(contract, torch.from_numpy(a))
    assert theirs.numpy().tobytes() == action(contract, a).tobytes()


def test_action_of_a_wrong_width_or_of_integers_is_refused():
    with pytest.raises(InputError, match=r"needs 12 values, one per joint .*got shape \(3, 11\)"):
        action(walking(), np.zeros((3, 11)))
    with pytest.raises(InputError, match="floating point"):
        action(walking(), np.zeros((3, 12), dtype=int))
    with pytest.raises(InputError, match="a target of 'go2' needs 12"):
        invert(walking(), np.zeros(13))


def test_importing_the_contract_does_not_import_torch():
    code = "import sys, surefoot.contract; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_example_in_the_documentation_runs():
    text = (Path(__file__).resolve().parents[1] / "docs" / "contract.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    done = subprocess.run(
        [sys.executable, "-c", example + "assert obs.shape == (1, 23)"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
