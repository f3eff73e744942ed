"""verify: a fault that is planted is found and called by its name; what is right, or cannot be told, is said to be so."""

import json
from dataclasses import replace

import numpy as np
import pytest

from surefoot.bench import contract_faults
from surefoot.bench.fault_runs import Hooks, record, stepping_case, swinging_case
from surefoot.cli_verify import verify as verify_command
from surefoot.contract import projected_gravity
from surefoot.deploy.compare import Guess, explain, order_in_words
from surefoot.deploy.findings import KINDS, PLACES, Finding, Notes, Verdict
from surefoot.deploy.imu_checks import check_imu, conjugate, multiply
from surefoot.deploy.joint_readings import Joints
from surefoot.deploy.recorded_run import Run
from surefoot.deploy.stance_checks import _means, torque_of
from surefoot.deploy.verify import verify
from surefoot.errors import InputError
from surefoot.logs import Channel, Log
from surefoot.robots import load

FAULTS = contract_faults.FAULTS
NAMES = ("FL_hip_joint", "FL_calf_joint", "FR_hip_joint", "FR_calf_joint")


@pytest.fixture(scope="module")
def swinging(tmp_path_factory):
    return replace(swinging_case(tmp_path_factory.mktemp("bundles")), seconds=3.0)


@pytest.fixture(scope="module")
def stepping(tmp_path_factory):
    return replace(stepping_case(tmp_path_factory.mktemp("bundles")), seconds=4.0)


@pytest.fixture(scope="module")
def clean(swinging):
    return record(swinging, Hooks(), 1)


# ---------------------------------------------------------------- why two signals differ


def signal(columns=4, samples=200, seed=0):
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.normal(0, 0.1, (samples, columns)), axis=0) + rng.normal(0, 1, columns)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("sign", lambda x: x * np.array([1, -1, 1, 1]), "FL_calf"),
        ("degrees", lambda x: x * 180 / np.pi, "57.3"),
        ("scale", lambda x: 0.25 * x, "0.25 times"),
        ("scale", lambda x: x * np.array([1, 3, 1, 2]), "3, 2 times"),
        ("offset", lambda x: x + np.array([0, 0.8, 0, 0]), "0.8"),
        ("permuted", lambda x: x[:, [2, 3, 0, 1]], "FL_* and FR_* swapped"),
        ("permuted", lambda x: x[:, [1, 2, 3, 0]], "in the place of"),
        ("permuted", lambda x: x[:, [1, 0, 2, 3]] * np.array([1, -1, 1, 1]), "with opposite sign"),
        ("missing", lambda x: 0 * x, "0 throughout"),
        ("stuck", lambda x: 0 * x + x[:1], "stays at"),
        ("delayed", lambda x: np.vstack([x[:3], x[:-3]]), "3 samples old"),
        ("delayed", lambda x: np.vstack([x[1:], x[-1:]]), "one sample too early"),
        ("delayed", lambda x: np.repeat(x[::4], 4, axis=0), "every 4th"),
        ("scale", lambda x: 2 * x + 0.3, "plus 0.3"),
        ("unexplained", lambda x: np.tanh(x) + x[::-1] ** 2, "no simple cause"),
    ],
)
def test_explain_names_the_planted_cause(kind, change, words):
    x = signal()
    share = 0.99 if "too early" in words else 1.0
    cause = explain(change(x), x, NAMES, share=share)
    assert cause is not None
    assert (cause.kind, words in cause.detail) == (kind, True), cause


def test_explain_finds_nothing_where_nothing_differs_and_a_turned_frame():
    x = signal(3)
    assert explain(x * (1 + 1e-6), x, "xyz") is None
    c, s = np.cos(0.4), np.sin(0.4)
    cause = explain(x @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T, x, "xyz")
    assert cause is not None
    assert cause.kind == "frame"
    assert "22.9 degrees" in cause.detail


def test_a_guess_without_numbers_is_preferred_and_one_that_changes_nothing_is_not_taken():
    x = signal()
    guesses = [
        Guess(kind="clip", detail="nothing", values=lambda: x),
        Guess(kind="processed", detail="twice", values=lambda: 2 * x),
    ]
    cause = explain(2 * x, x, NAMES, guesses=guesses)
    assert cause is not None
    assert cause.kind == "processed"


def test_words_for_orders():
    assert order_in_words(NAMES, [2, 3, 0, 1]) == "FL_* and FR_* swapped"
    assert order_in_words(NAMES, [1, 0, 2, 3]) == "FL_hip and FL_calf swapped"


# ---------------------------------------------------------------- the verdict


def test_findings_keep_to_the_fixed_lists():
    with pytest.raises(InputError, match="'upside' is not a kind of finding"):
        Finding(where="driver", term="imu", kind="upside", detail="")
    with pytest.raises(InputError, match="not a place"):
        Finding(where="robot", term="imu", kind="sign", detail="")


def test_a_verdict_prints_a_table_and_plain_values():
    finding = Finding(where="driver", term="gyro", kind="degrees", detail="57.3 times", columns=("x",))
    verdict = Verdict(findings=(finding,), checked=("a",), unchecked=("b",))
    text = str(verdict)
    assert "driver  gyro  degrees  57.3 times" in text
    assert "not checked: b" in text
    assert text.endswith("1 fault found")
    assert json.loads(json.dumps(verdict.to_dict()))["findings"][0]["kind"] == "degrees"
    assert not verdict.ok
    assert Verdict().ok


# ---------------------------------------------------------------- the bundle alone


def test_a_bundle_is_checked_without_a_log(swinging):
    assert verify(swinging.bundle, robot=swinging.robot).ok
    alone = verify(swinging.bundle)
    assert alone.ok
    assert any("none was given" in sentence for sentence in alone.unchecked)


def test_another_robot_is_named(swinging, stepping):
    found = verify(swinging.bundle, robot=load("cartpole")).findings
    assert {(f.term, f.kind) for f in found} >= {("robot", "another"), ("joints", "count")}
    robot = stepping.robot
    stiff = replace(robot, actuators=tuple(replace(a, kp=100.0) for a in robot.actuators))
    found = verify(stepping.bundle, robot=stiff).findings
    assert [(f.where, f.term, f.kind) for f in found] == [("bundle", "kp", "gains")]
    assert "40 -> 100" in found[0].detail
    mixed = replace(robot, joints=(*robot.joints[3:6], *robot.joints[:3], *robot.joints[6:]))
    found = verify(stepping.bundle, robot=mixed).findings
    assert [(f.term, f.kind) for f in found] == [("joints", "permuted")]
    assert "FL_* and FR_* swapped" in found[0].detail or "FR_* and FL_* swapped" in found[0].detail


def test_limits_beyond_the_stops_are_named(stepping):
    low, high = map(np.array, stepping.bundle.contract.position_limits)
    wide = replace(stepping.bundle.contract, position_limits=(tuple(low - 0.5), tuple(high)))
    bundle = replace(stepping.bundle, contract=wide)
    found = verify(bundle, robot=stepping.robot).findings
    assert {(f.term, f.kind) for f in found} == {("position_limits", "limits")}


# ---------------------------------------------------------------- a recorded run


def test_a_clean_run_is_clean_and_says_what_it_looked_at(swinging, clean):
    verdict = verify(swinging.bundle, clean, swinging.robot)
    assert verdict.ok, str(verdict)
    told = "\n".join(verdict.checked)
    for part in (
        "observation/policy",
        "observation/history",
        "action",
        "voltage_target",
        "joint_vel",
        "100 Hz",
        "dynamics",
    ):
        assert part in told
    assert any("no legs" in sentence for sentence in verdict.unchecked)


def test_a_run_survives_its_file(swinging, clean, tmp_path):
    from surefoot.logs import read_log

    clean.save(tmp_path / "run.mcap")
    assert verify(swinging.bundle, read_log(tmp_path / "run.mcap"), swinging.robot).ok


SHOWN = [
    "legs swapped", "sign of one joint", "joint angles in degrees", "history newest first", "history starts with zeros", "stale history",
    "last action missing", "last action one step old", "normaliser dropped", "normalised twice", "one term's scale", "clip missing",
    "default pose not subtracted", "readings one step old", "command axes swapped", "clock phase", "two terms swapped", "action scale",
    "sign of one action", "action one step late", "twice the control rate", "a joint is missing",
]  # fmt: skip
DRIVEN = [
    "encoders swapped",
    "sign of one joint",
    "speed sign",
    "speed scaled",
    "angles in degrees",
    "stuck encoder",
    "speeds late",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SHOWN, *(f"driver: {name}" for name in DRIVEN)])
def test_a_planted_fault_is_named(swinging, name):
    planted = FAULTS[name](swinging, np.random.default_rng(4))
    verdict = verify(swinging.bundle, record(swinging, planted.hooks, 4), swinging.robot)
    assert planted.named(verdict), str(verdict)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "memory emptied at every step",
        "kp and kd swapped",
        "driver: IMU upside down",
        "driver: gyro in degrees per second",
    ],
)
def test_a_planted_fault_is_named_on_legs(stepping, name):
    planted = FAULTS[name](stepping, np.random.default_rng(4))
    verdict = verify(stepping.bundle, record(stepping, planted.hooks, 4), stepping.robot)
    assert planted.named(verdict), str(verdict)


def test_the_log_of_another_bundle_is_named(swinging, clean):
    contract = dict(clean.meta["contract"])
    contract["control_dt"] = 0.02
    other = replace(clean, robot="cartpole", meta={**clean.meta, "bundle": "0" * 64, "contract": contract})
    found = verify(swinging.bundle, other, swinging.robot).findings
    assert {(f.term, f.kind) for f in found} == {("robot", "another"), ("policy", "another"), ("contract", "another")}


def test_what_the_log_lacks_is_said_to_be_unchecked(swinging, clean):
    kept = tuple(c for c in clean.channels if c.name in ("joint_pos", "joint_vel", "action"))
    verdict = verify(swinging.bundle, replace(clean, channels=kept), swinging.robot)
    assert verdict.ok, str(verdict)
    told = "\n".join(verdict.unchecked)
    for part in ("observation/policy", "observation/history", "the policy file was not compared", "voltage_target"):
        assert part in told


def test_a_log_without_a_needed_reading_is_a_fault(swinging, clean):
    kept = tuple(c for c in clean.channels if c.name != "joint_vel")
    found = verify(swinging.bundle, replace(clean, channels=kept), swinging.robot).findings
    assert ("driver", "joint_vel", "missing") in {(f.where, f.term, f.kind) for f in found}


def test_a_missing_and_an_unknown_entry_of_an_observation_are_named(swinging, clean):
    channel = clean["observation/policy"]
    fewer = channel.pick([c for c in channel.columns if not c.startswith("command[")])
    kept = tuple(fewer if c.name == channel.name else c for c in clean.channels)
    found = verify(swinging.bundle, replace(clean, channels=kept), swinging.robot).findings
    assert [(f.where, f.term, f.kind) for f in found] == [("observation", "command", "missing")]


def test_what_the_safety_layer_did_is_no_fault(swinging, clean):
    kind = clean["voltage_target"]
    held = kind.values.copy()
    half = len(held) // 2
    held[half:] = 0.0
    state = np.zeros((len(kind.t), 2))
    state[half:, 0] = 2.0
    safety = Channel(name="safety", unit="1", t=kind.t, values=state, columns=("state", "events"))
    channels = tuple(replace(c, values=held) if c is kind else c for c in clean.channels)
    verdict = verify(swinging.bundle, replace(clean, channels=(*channels, safety)), swinging.robot)
    assert not [f for f in verdict.findings if f.where == "action"]


# ---------------------------------------------------------------- the IMU, on a made-up motion


def tumble(seconds=4.0, rate=200.0, size=0.6, noise=0.01):
    """A body that turns about all axes: t, gyro (body), quat (world from body), gravity, accel."""
    rng = np.random.default_rng(0)
    t = np.arange(0, seconds, 1 / rate)
    gyro = size * np.stack([np.sin(2 * np.pi * f * t + p) for f, p in ((0.9, 0.0), (1.3, 1.0), (0.5, 2.0))], axis=1)
    quat = np.zeros((len(t), 4))
    q = np.array([np.cos(0.4), 0, 0, np.sin(0.4)])
    for k in range(len(t)):
        quat[k] = q
        middle = gyro[k] if k + 1 == len(t) else 0.5 * (gyro[k] + gyro[k + 1])
        angle = np.linalg.norm(middle) / rate
        axis = middle / max(np.linalg.norm(middle), 1e-12)
        q = multiply(q, np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)]))
    gravity = projected_gravity(quat)
    return (
        t,
        gyro + rng.normal(0, noise, gyro.shape),
        quat,
        gravity,
        -9.81 * gravity + rng.normal(0, 0.2, gravity.shape),
    )


def imu_log(t, gyro, quat, gravity, accel):
    xyz = ("x", "y", "z")
    return Log(
        channels=(
            Channel(name="gyro", unit="rad/s", t=t, values=gyro, columns=xyz),
            Channel(name="quat", unit="1", t=t, values=quat, columns=("w", "x", "y", "z")),
            Channel(name="gravity", unit="1", t=t, values=gravity, columns=xyz),
            Channel(name="accel", unit="m/s^2", t=t, values=accel, columns=xyz),
        )
    )


def mixed_order(t, w, q, g, a):
    q = np.roll(q, -1, axis=1)
    return t, w, q, projected_gravity(q), a


@pytest.mark.parametrize(
    ("expected", "change"),
    [
        (None, lambda t, w, q, g, a: (t, w, q, g, a)),
        (("gyro", "degrees"), lambda t, w, q, g, a: (t, w * 180 / np.pi, q, g, a)),
        (("gyro", "sign"), lambda t, w, q, g, a: (t, -w, q, g, a)),
        (("gyro", "sign"), lambda t, w, q, g, a: (t, w * np.array([1, -1, 1]), q, g, a)),
        (("gyro", "permuted"), lambda t, w, q, g, a: (t, w[:, [1, 0, 2]], q, g, a)),
        (("gyro", "scale"), lambda t, w, q, g, a: (t, 2.5 * w, q, g, a)),
        (("gyro", "delayed"), lambda t, w, q, g, a: (t, np.vstack([w[:12], w[:-12]]), q, g, a)),
        (("quat", "quaternion order"), mixed_order),
        (("quat", "frame"), lambda t, w, q, g, a: (t, w, conjugate(q), projected_gravity(conjugate(q)), a)),
        (("gravity", "frame"), lambda t, w, q, g, a: (t, w, q, projected_gravity(conjugate(q)), a)),
        (("gravity", "sign"), lambda t, w, q, g, a: (t, w, q, -g, a)),
        (
            ("gyro", "stuck"),
            lambda t, w, q, g, a: (t, np.vstack([w[:200], np.tile(w[200], (len(w) - 200, 1))]), q, g, a),
        ),
        (("gravity", "scale"), lambda t, w, q, g, a: (t, w, q, 9.81 * g, a)),
        (("accel", "scale"), lambda t, w, q, g, a: (t, w, q, g, a / 9.81)),
        (("accel", "sign"), lambda t, w, q, g, a: (t, w, q, g, -a)),
    ],
)
def test_the_imu_is_checked_against_itself(stepping, expected, change):
    notes = Notes()
    check_imu(Run(stepping.bundle.contract, imu_log(*change(*tumble()))), notes)
    found = [(f.term, f.kind) for f in notes.findings]
    assert found == ([] if expected is None else [expected]), [str(f) for f in notes.findings]


def test_a_body_that_does_not_turn_leaves_the_gyro_unchecked(stepping):
    notes = Notes()
    t, gyro, quat, gravity, accel = tumble(size=0.0, noise=0.001)
    check_imu(Run(stepping.bundle.contract, imu_log(t, gyro, quat, gravity, accel)), notes)
    assert notes.findings == []
    assert any("turned too little" in sentence for sentence in notes.unchecked)


def test_without_an_attitude_gravity_judges_the_gyro(stepping):
    t, gyro, _, gravity, accel = tumble()
    for wrong, expected in (
        (gyro, []),
        (gyro * 180 / np.pi, [("gyro", "degrees")]),
        (gyro[:, [1, 0, 2]], [("gyro", "permuted")]),
    ):
        log = imu_log(t, wrong, np.tile([1.0, 0, 0, 0], (len(t), 1)), gravity, accel)
        notes = Notes()
        check_imu(Run(stepping.bundle.contract, log.select("gyro", "gravity", "accel")), notes)
        assert [(f.term, f.kind) for f in notes.findings] == expected


# ---------------------------------------------------------------- the command


def test_the_command_exits_with_1_where_something_is_wrong(swinging, clean, tmp_path, capsys):
    clean.save(tmp_path / "good.npz")
    assert verify_command(swinging.bundle.folder, log=tmp_path / "good.npz") == 0
    assert "nothing wrong was found" in capsys.readouterr().out
    bad = record(swinging, FAULTS["driver: speed sign"](swinging, np.random.default_rng(0)).hooks, 1)
    bad.save(tmp_path / "bad.npz")
    assert verify_command(swinging.bundle.folder, log=tmp_path / "bad.npz", robot="none", json=True) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["findings"][0]["kind"] == "sign"
    assert set(said["findings"][0]) == {"where", "term", "kind", "detail", "columns"}


def test_kinds_and_places_are_explained():
    assert all(KINDS.values())
    assert all(PLACES.values())


# -------------------------------------------------------------------- missing readings of standing legs


def test_a_window_with_a_missing_reading_has_no_mean_and_the_others_keep_theirs():
    x = np.arange(12.0).reshape(6, 2)
    x[2, 1] = np.nan
    found = _means(x, 2)
    assert np.array_equal(found[:, 0], [1.0, 3.0, 5.0, 7.0, 9.0])
    assert np.array_equal(np.isnan(found[:, 1]), [False, True, True, False, False])
    assert np.array_equal(found[[0, 3, 4], 1], [2.0, 8.0, 10.0])


def test_a_missing_command_is_no_torque_of_zero():
    q = np.full((3, 1), 0.1)
    u = np.array([[np.nan], [0.3], [0.1]])
    joints = Joints(names=("a",), t=np.arange(3.0), q=q, dq=None, tau=None, u=u, kp=np.full((3, 1), 10.0), kd=None)
    torque = torque_of(joints, measured=True)
    assert torque is not None
    assert np.isnan(torque[0, 0])
    assert np.allclose(torque[1:, 0], [2.0, 0.0])
