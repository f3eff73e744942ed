"""A bundle is the policy it was made from, or it is refused with one sentence."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch

from deploy_policies import contract, policy
from surefoot.contract import Action, Builder, Contract, Normaliser
from surefoot.deploy import OnnxPolicy, load_bundle
from surefoot.deploy import bundle as bundles
from surefoot.deploy import export as exporting
from surefoot.deploy.agreement import entries
from surefoot.deploy.bundle import write_bundle
from surefoot.deploy.complete import FREE, complete, with_e
from surefoot.deploy.export import export
from surefoot.deploy.onnx_graph import onnx_of
from surefoot.deploy.ranges import trained_ranges, with_trained
from surefoot.errors import InputError
from surefoot.learn.networks import Policy
from surefoot.logs import Channel, Log


def torch_sequence(made, x):
    """Actions of a sequence (steps, worlds, inputs), by the policy itself."""
    h, found = None, []
    for row in x:
        lead = made.lead(h)
        a, h = made.mean(torch.from_numpy(row), h)
        found.append((a if lead is None else a + lead).numpy().copy())
    return np.stack(found)


def split(made, row):
    at, found = 0, {}
    for name, width in made.widths.items():
        found[name] = np.ascontiguousarray(row[:, at : at + width])
        at += width
    return found


@pytest.mark.parametrize("activation", ["elu", "tanh", "relu"])
@pytest.mark.parametrize(("memory", "integral"), [(0, 0.0), (12, 0.0), (0, 0.1)])
@pytest.mark.parametrize("history", [False, True])
def test_onnx_policy_acts_as_the_trained_one(tmp_path, activation, memory, integral, history):
    c = contract(history=history)
    made = policy(c, activation=activation, memory=memory, integral=integral)
    bundle = export(made, c, tmp_path / "b")
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((30, 5, made.inputs)) * np.linspace(0.1, 50.0, made.inputs)).astype(np.float32)
    run = load_bundle(tmp_path / "b").policy()
    for _ in range(2):
        run.reset()
        found = np.stack([run(split(made, row)) for row in x])
        wanted = torch_sequence(made, x)
        assert np.abs(wanted).max() > 0.5
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert bundle.provenance["check"]["difference"] < 1e-5
    kept = {"gru": (memory,)} if memory else {"sum": (made.actions,)} if integral else {}
    assert {m.name: m.shape for m in bundle.contract.memory} == kept


def test_the_normaliser_is_inside_and_its_numbers_are_in_the_contract(tmp_path):
    c = contract(history=True)
    made = policy(c)
    bundle = export(made, c, tmp_path / "b")
    norms = [bundle.contract.group(name).normaliser for name in made.widths]
    assert all(norm is not None and norm.by == "network" for norm in norms)
    np.testing.assert_array_equal(np.concatenate([n.mean for n in norms]), made.normaliser.mean.numpy())
    np.testing.assert_array_equal(np.concatenate([n.var for n in norms]), made.normaliser.var.numpy())
    moved = made.to_arrays()
    moved["normaliser.mean"] = moved["normaliser.mean"] + 1.0
    other = OnnxPolicy("policy.onnx", bundle.contract, data=onnx_of(moved))
    x = {group.name: np.zeros((1, group.size), np.float32) for group in bundle.contract.groups}
    assert np.abs(other(x) - bundle.policy()(x)).max() > 1e-3


def test_the_same_policy_gives_the_same_bytes():
    made = policy(contract())
    assert onnx_of(made.to_arrays()) == onnx_of(made.to_arrays())


def test_weights_keep_every_bit(tmp_path):
    made = policy(contract())
    bundle = export(made, contract(), tmp_path / "b")
    graph = onnx.load_model_from_string(bundle.data).graph
    stored = {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}
    for name in ("0.weight", "1.weight", "2.bias"):
        index, what = name.split(".")
        np.testing.assert_array_equal(stored[f"{what}_{index}"], made.net.to_arrays()[name])


def test_privileged_groups_stay_at_home(tmp_path):
    bundle = export(policy(contract()), contract(), tmp_path / "b")
    assert [g.name for g in bundle.contract.groups] == ["policy"]
    assert "secret" not in (tmp_path / "b" / "contract.json").read_text()


def test_a_policy_that_reads_a_privileged_group_is_refused(tmp_path):
    c = contract()
    group = replace(c.group("critic"), name="spy")
    c = replace(c, groups=(c.group("policy"), group))
    with pytest.raises(InputError, match="'spy', which is privileged"):
        export(Policy({"policy": c.group("policy").size, "spy": 2}, 2), c, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_the_contract_of_another_task_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"reads 5 numbers of group 'policy', the contract has 29"):
        export(Policy({"policy": 5}, 2), contract(), tmp_path / "b")
    c = contract()
    with pytest.raises(InputError, match="has 3 actions, the contract 2"):
        export(Policy({"policy": c.group("policy").size}, 3), c, tmp_path / "b")
    norm = Normaliser(mean=(0.0,) * c.group("policy").size, var=(1.0,) * c.group("policy").size, by="builder")
    with pytest.raises(InputError, match="would do it twice"):
        export(policy(c), replace(c, groups=(replace(c.group("policy"), normaliser=norm),)), tmp_path / "b")


# ---------------------------------------------------------------- the check


def broken(monkeypatch, change):
    """Make the export write an ONNX file of other arrays than the policy's."""
    true = exporting.onnx_of

    def wrong(arrays, **more):
        arrays = {name: np.array(value) for name, value in arrays.items()}
        change(arrays)
        return true(arrays, **more)

    monkeypatch.setattr(exporting, "onnx_of", wrong)


def test_a_difference_is_refused_with_how_much_and_where(tmp_path, monkeypatch):
    def change(arrays):
        arrays["net.2.bias"][1] += 3e-5

    broken(monkeypatch, change)
    with pytest.raises(
        InputError, match=r"differ by [23]\.?\d*e-05 .* in random inputs .*, step \d+, world \d+, action 'hip_joint'"
    ):
        export(policy(contract()), contract(), tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_difference_only_within_memory_is_found(tmp_path, monkeypatch):
    def change(arrays):
        arrays["net.gru.state_bias"][-1] += 1e-2

    broken(monkeypatch, change)
    with pytest.raises(InputError, match="ONNX and the trained policy differ"):
        export(policy(contract(), memory=6), contract(), tmp_path / "b")


def test_a_difference_only_at_recorded_observations_is_found(tmp_path, monkeypatch):
    """The normaliser's clip is moved where random inputs cannot see it: beyond 10 deviations of one entry far from 0."""
    c = contract()
    made = policy(c)
    group = c.group("policy")
    low, high = np.full(group.size, -1e-3), np.full(group.size, 1e-3)
    c = with_trained(c, {"policy": low}, {"policy": high})

    def change(arrays):
        arrays["normaliser.limit"] = np.array(9.0)

    broken(monkeypatch, change)
    export(made, c, tmp_path / "unseen")
    seen = np.zeros((4, group.size), np.float32)
    seen[2, 0] = 1e3
    with pytest.raises(InputError, match="in the recorded observations, step 2, world 0"):
        export(made, c, tmp_path / "b", observations={"policy": seen})
    log = observation_log(group.labels, seen)
    with pytest.raises(InputError, match="in log 1 of 1, step 2"):
        export(made, c, tmp_path / "b", check=[log])


def observation_log(labels, values, order=None):
    order = list(range(len(labels))) if order is None else order
    channel = Channel(
        name="observation/policy",
        unit="1",
        t=0.02 * np.arange(len(values)),
        values=values[:, order],
        columns=tuple(labels[i] for i in order),
    )
    return Log(channels=(channel,))


def test_columns_of_a_log_are_matched_by_name(tmp_path):
    c = contract()
    made = policy(c)
    values = np.random.default_rng(0).standard_normal((6, c.group("policy").size))
    order = np.random.default_rng(1).permutation(values.shape[1])
    bundle = export(made, c, tmp_path / "b", check=[observation_log(c.group("policy").labels, values, order)])
    assert bundle.provenance["check"]["cases"][0]["name"] == "log 1 of 1"
    other = Log(channels=(Channel(name="x", unit="1", t=[0.0, 1.0], values=[[1.0], [2.0]], columns=("a",)),))
    with pytest.raises(InputError, match="has no channel 'observation/policy'"):
        export(made, c, tmp_path / "c", check=[other])
    log = observation_log(["else", *c.group("policy").labels[1:]], values)
    with pytest.raises(InputError, match="do not have the same entries"):
        export(made, c, tmp_path / "c", check=[log])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"other": np.zeros((2, 3))}, "'policy' is missing"),
        ({"policy": np.zeros((2, 3))}, "must have shape"),
        ({"policy": "nan"}, "no step without a NaN"),
    ],
)
def test_observations_that_check_nothing_are_refused(tmp_path, given, sentence):
    c = contract()
    if given.get("policy") is not None and isinstance(given["policy"], str):
        given = {"policy": np.full((2, c.group("policy").size), np.nan)}
    with pytest.raises(InputError, match=sentence):
        export(policy(c), c, tmp_path / "b", observations=given)


# ---------------------------------------------------------------- writing


def test_an_interrupted_export_leaves_nothing(tmp_path, monkeypatch):
    def stop(*_a, **_k):
        raise KeyboardInterrupt

    monkeypatch.setattr(Contract, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        export(policy(contract()), contract(), tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_overwrite_leaves_the_old_bundle(tmp_path, monkeypatch):
    old = export(policy(contract()), contract(), tmp_path / "b")
    true = os.rename

    def fail(source, target):
        if str(target) == str(tmp_path / "b") and "old" not in str(source):
            raise KeyboardInterrupt("no space")
        true(source, target)

    monkeypatch.setattr(bundles.os, "rename", fail)
    with pytest.raises(KeyboardInterrupt, match="no space"):
        export(policy(contract(), seed=1), contract(), tmp_path / "b", overwrite=True)
    assert load_bundle(tmp_path / "b").hash == old.hash
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_a_folder_that_is_there_is_kept(tmp_path):
    made, c = policy(contract()), contract()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("dear reader")
    with pytest.raises(InputError, match=r"not a bundle .it holds 'chapter1.tex'"):
        export(made, c, tmp_path / "thesis", overwrite=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is not a folder"):
        export(made, c, tmp_path / "file", overwrite=True)
    first = export(made, c, tmp_path / "b")
    with pytest.raises(InputError, match="holds a bundle already"):
        export(made, c, tmp_path / "b")
    second = export(policy(c, seed=1), c, tmp_path / "b", overwrite=True)
    assert load_bundle(tmp_path / "b").hash == second.hash != first.hash
    (tmp_path / "b" / "safety.toml").write_text("x = 1")
    with pytest.raises(InputError, match=r"also holds 'safety\.toml'"):
        export(made, c, tmp_path / "b", overwrite=True)
    (tmp_path / "empty").mkdir()
    assert export(made, c, tmp_path / "empty").hash == first.hash


# ---------------------------------------------------------------- reading


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    return export(policy(contract(), memory=5), contract(), tmp_path_factory.mktemp("bundle") / "b")


@pytest.fixture
def bundle(made_once, tmp_path):
    shutil.copytree(made_once.folder, tmp_path / "b")
    return load_bundle(tmp_path / "b")


def edit(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_a_bundle_comes_back_as_it_was(bundle):
    found = load_bundle(bundle.folder)
    assert found.contract == bundle.contract
    assert found.provenance == bundle.provenance
    assert found.provenance["policy"]["sha256"] == found.hash
    assert found.provenance["commands"]["vx"] == [-1.0, 1.0, "m/s"]
    assert any("pd_rate" in sentence for sentence in found.unknown)


def test_a_tampered_policy_is_refused(bundle):
    path = bundle.folder / "policy.onnx"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(
        InputError, match=r"policy\.onnx is not the file this bundle was made with .*export the bundle anew"
    ):
        load_bundle(bundle.folder)


def test_a_tampered_contract_is_refused(bundle):
    edit(bundle.folder / "contract.json", lambda data: data["action"].__setitem__("scale", 3.0))
    with pytest.raises(InputError, match=r"contract\.json is not the file"):
        load_bundle(bundle.folder)


@pytest.mark.parametrize("name", ["policy.onnx", "contract.json", "provenance.json"])
def test_a_missing_file_is_named(bundle, name):
    (bundle.folder / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        load_bundle(bundle.folder)


def test_no_folder_and_broken_provenance_are_named(bundle, tmp_path):
    with pytest.raises(InputError, match="there is no such folder"):
        load_bundle(tmp_path / "nothing")
    path = bundle.folder / "provenance.json"
    good = path.read_text()
    for text, sentence in (
        ("{", "not JSON"),
        ("[]", "has version None"),
        (good.replace('"version": 1', '"version": 7'), "has version 7"),
        (good.replace('"sha256"', '"sha"'), "lacks policy.sha256"),
        (good.replace('"hash"', '"cash"'), "lacks contract.hash"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=sentence):
            load_bundle(bundle.folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: replace(c, memory=()), "input 'gru_in' that contract.json does not declare"),
        (lambda c: replace(c, memory=(replace(c.memory[0], shape=(4,)),)), r"'gru_in' has shape \(worlds, 5\), .* says \(worlds, 4\)"),
        (lambda c: replace(c, memory=(*c.memory, replace(c.memory[0], name="lstm"))), "has no input 'lstm_in'"),
        (lambda c: replace(c, groups=(replace(c.groups[0], terms=c.groups[0].terms[1:], normaliser=None),)), "input 'policy' has shape"),
        (lambda c: replace(c, groups=(*c.groups, replace(c.groups[0], name="history", normaliser=None))), "has no input 'history'"),
        (lambda c: replace(c, action=Action(joints=c.joints)), "output 'action' has shape"),
        (lambda c: replace(c, groups=(*c.groups, contract().group("critic"))), "group 'critic' is privileged"),
    ],
)  # fmt: skip
def test_policy_and_contract_must_be_of_one_kind(bundle, tmp_path, change, sentence):
    with pytest.raises(InputError, match=sentence):
        write_bundle(tmp_path / "c", bundle.data, change(bundle.contract), {})
    assert not (tmp_path / "c").exists()


def test_bytes_that_are_no_onnx_are_refused(bundle, tmp_path):
    with pytest.raises(InputError, match=r"policy\.onnx is not an ONNX file that onnxruntime can run"):
        write_bundle(tmp_path / "c", b"hello", bundle.contract, {})


# ---------------------------------------------------------------- the policy at work


def test_reset_empties_the_memory_and_frees_the_number_of_worlds(bundle):
    run = bundle.policy()
    assert run.memory == {}
    x = {"policy": np.ones((1, bundle.contract.group("policy").size), np.float32)}
    first, second = run(x), run(x)
    assert np.abs(first - second).max() > 1e-4
    assert run.memory["gru"].shape == (1, 5)
    with pytest.raises(InputError, match="remembers 1 worlds and got 3"):
        run({"policy": np.repeat(x["policy"], 3, axis=0)})
    run.reset()
    many = run({"policy": np.repeat(x["policy"], 3, axis=0)})
    np.testing.assert_allclose(many, np.repeat(first, 3, axis=0), atol=1e-6)
    np.testing.assert_array_equal(bundle.policy()({"policy": x["policy"].astype(np.float64)}), first)
    strided = np.random.default_rng(0).standard_normal((2, 2 * x["policy"].shape[1])).astype(np.float32)[:, ::2]
    np.testing.assert_array_equal(bundle.policy()({"policy": strided}), bundle.policy()({"policy": strided.copy()}))


def test_wrong_observations_are_refused(bundle):
    run = bundle.policy()
    with pytest.raises(InputError, match="reads the observation group 'policy', given: none"):
        run({})
    with pytest.raises(InputError, match=r"must have shape \(worlds, 29\), got \(1, 3\)"):
        run({"policy": np.zeros((1, 3), np.float32)})


def test_an_action_is_not_overwritten_by_the_next_call(tmp_path):
    c = contract()
    run = export(policy(c), c, tmp_path / "b").policy()
    size = c.group("policy").size
    first = run({"policy": np.zeros((1, size), np.float32)})
    kept = first.copy()
    run({"policy": np.ones((1, size), np.float32)})
    np.testing.assert_array_equal(first, kept)


# ---------------------------------------------------------------- what training saw, what the robot knows


@pytest.mark.parametrize("order", ["oldest-first", "newest-first"])
@pytest.mark.parametrize("stack", ["term", "step"])
def test_ranges_of_a_history_are_those_of_its_steps(order, stack):
    """Readings are planted within known bounds per column; the ranges must be these, scaled."""
    c = contract(history=True)
    group = replace(c.group("history"), order=order, stack=stack)
    c = replace(c, groups=(c.group("policy"), group))
    builder = Builder(c, groups=["history"])
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(50):
        gyro = rng.uniform(-1, 1, (1, 3)) * [1.0, 10.0, 100.0]
        rows.append(builder.observe({"gyro": gyro}, last_action=rng.uniform(-1, 1, (1, 2)) * [5.0, 0.5])["history"][0])
    rows = np.array(rows)
    found = with_trained(c, {"history": rows.min(axis=0)}, {"history": rows.max(axis=0)})
    low, high = found.group("history").term("gyro").trained
    assert len(low) == 3
    np.testing.assert_allclose(high, [1.0, 10.0, 100.0], rtol=0.2)
    np.testing.assert_allclose(low, [-1.0, -10.0, -100.0], rtol=0.2)
    np.testing.assert_allclose(found.group("history").term("last_action").trained[1], [0.5, 5.0], rtol=0.2)
    assert sorted(i for columns, _ in entries(group) for i in columns) == list(range(group.size))


@pytest.fixture(scope="module")
def qube():
    from surefoot.evaluate.runs import task_of
    from surefoot.sim import Sim

    robot, task = task_of("qube")
    return robot, task, Sim(robot, worlds=4, seed=0)


def test_a_real_task_becomes_a_bundle(qube, tmp_path):
    robot, task, sim = qube
    whole = task.contract(sim)
    widths = {g.name: g.size for g in whole.groups if not g.privileged}
    made = Policy(widths, 1, hidden=(16,), generator=torch.Generator().manual_seed(0))
    seen = trained_ranges(made, task, sim, seconds=1.0)
    c = with_trained(with_e(complete(whole, robot), sim.params), seen.low, seen.high)
    bundle = export(
        made, c, tmp_path / "b", observations=seen.samples, provenance={"run": {"seed": 3, "cap": float("inf")}}
    )
    assert load_bundle(tmp_path / "b").provenance["run"] == {"seed": 3, "cap": "inf"}
    assert bundle.provenance["check"]["cases"][0]["name"] == "the recorded observations"
    assert {r.name for r in bundle.contract.e} == set(sim.params.names)
    assert all(term.trained is not None for group in bundle.contract.groups for term in group.terms)
    arm = bundle.contract.joints.index("arm")
    assert bundle.contract.position_limits[1][arm] == pytest.approx(2.3)
    assert FREE in bundle.contract.position_limits[1]
    assert bundle.contract.action.limits == ((-10.0,), (10.0,))
    assert bundle.contract.pd_rate * bundle.contract.control_dt == pytest.approx(
        round(bundle.contract.pd_rate * bundle.contract.control_dt)
    )
    again = trained_ranges(made, task, type(sim)(robot, worlds=4, seed=0), seconds=1.0)
    for name in widths:
        np.testing.assert_array_equal(seen.low[name], again.low[name])
        assert np.all(seen.samples[name].min(axis=(0, 1)) >= seen.low[name])


def test_complete_fills_what_the_robot_knows_and_keeps_what_is_there(qube):
    from surefoot.robots import load
    from surefoot.sim import Sim
    from surefoot.tasks import Velocity

    robot = load("go2")
    c = Velocity().contract(Sim(robot, worlds=1))
    full = complete(c, robot, pd_rate=333.0)
    assert full.pd_rate == pytest.approx(350.0)
    calf = full.joints.index("FL_calf_joint")
    assert full.position_limits[0][calf] == pytest.approx(-2.7227)
    assert full.speed_limit[calf] == pytest.approx(15.7)
    assert full.rate_limit is None
    assert full.rest[calf] == pytest.approx(-2.44)
    assert full.kp == c.kp
    assert full.action == c.action
    mine = complete(replace(c, rate_limit=3.0, pd_rate=200.0), robot)
    assert set(mine.rate_limit) == {3.0}
    assert mine.pd_rate == 200.0


def test_other_ranges_of_e_are_taken_by_param_or_by_number(qube):
    _, _, sim = qube
    name = next(iter(sim.params))
    label = sim.params.names[-1]
    c = with_e(contract(), sim.params, {name: (0.5, 0.75), label: (0.25, 0.3)})
    found = {r.name: (r.low, r.high) for r in c.e}
    assert found[sim.params.names[0]] == (0.5, 0.75)
    assert found[label] == (0.25, 0.3)
    assert len(found) == sim.params.d
    assert all(r.unit == sim.params[r.name.partition("[")[0].partition(".")[0]].unit for r in c.e)


def test_running_a_bundle_needs_neither_torch_nor_mujoco(bundle):
    import subprocess
    import sys

    code = (
        "import sys, numpy as np; from surefoot.deploy import load_bundle; "
        f"b = load_bundle({str(bundle.folder)!r}); b.policy()({{'policy': np.zeros((1, 29), np.float32)}}); "
        "print([m for m in ('torch', 'mujoco', 'onnx', 'scipy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
