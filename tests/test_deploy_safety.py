"""The safety layer: faults that are planted are found and named, limits hold whatever is given, the ladder is latched."""

import dataclasses
import math

import numpy as np
import pytest

from surefoot.contract import Action, Command, Contract, Group, Reading, Term, Wire, action
from surefoot.deploy.barrier import Barrier, approach
from surefoot.deploy.familiar import Familiar, trained
from surefoot.deploy.ladder import Finding
from surefoot.deploy.limits import KP, TARGET, TORQUE, Limits
from surefoot.deploy.safety import Safety
from surefoot.deploy.settings import HOLDS, LEVELS, STATES, SafetySettings
from surefoot.errors import InputError

JOINTS = ("a_joint", "b_joint", "c_joint")
POSE = (0.1, 0.8, -1.5)
DT = 0.002


def contract(**changes):
    terms = (
        Term(source="gyro", scale=0.25),
        Term(source="gravity"),
        Term(source="joint_pos", columns=JOINTS, offset=tuple(-p for p in POSE), trained=(-0.5, 0.5)),
        Term(source="joint_vel", columns=JOINTS, scale=0.05),
        Term(source="last_action", columns=JOINTS),
    )
    given = {
        "robot": "leg", "joints": JOINTS, "control_dt": 0.02, "groups": (Group(name="policy", terms=terms),), "pd_rate": 500.0,
        "action": Action(joints=JOINTS, scale=0.25, offset=POSE, clip=(-4.0, 4.0)), "pose": POSE, "kp": 40.0, "kd": 1.0,
        "sensor_channels": ("gyro", "gravity", "joint_pos", "joint_vel"), "torque_limit": (20.0, 20.0, 40.0),
        "position_limits": ((-1.0, -1.0, -2.7), (1.0, 3.0, -0.8)),
    }  # fmt: skip
    return Contract(**{**given, **changes})


def settings(**changes):
    return SafetySettings.from_contract(contract(), **{"no_load_speed": 20.0, **changes})


CONTRACT = contract()


class Robot:
    """A robot that follows its targets with noise, stepped with the safety layer; `change` may spoil any step."""

    def __init__(self, safety=None, seed=0, temperature=None):
        self.safety = safety or Safety(CONTRACT, settings(), outputs=JOINTS)
        self.rng, self.k, self.events = np.random.default_rng(seed), 0, []
        self.temperature, self.ruling = temperature, None
        self.q = np.array(POSE)

    def given(self):
        t, rng = self.k * DT, self.rng
        wave = 0.4 * np.sin(2 * np.pi * 2 * t + np.arange(3))
        step = self.k - self.k % 10
        a = 0.4 * np.sin(2 * np.pi * 2 * step * DT + np.arange(3))
        q = np.array(POSE) + 0.25 * wave + rng.normal(0, 1e-3, 3)
        values = {
            "joint_pos": q, "joint_vel": 0.25 * 0.4 * 4 * np.pi * np.cos(2 * np.pi * 2 * t + np.arange(3)) + rng.normal(0, 0.05, 3),
            "gyro": rng.normal(0, 0.1, 3), "gravity": np.array([0, 0, -1.0]) + rng.normal(0, 1e-3, 3),
        }  # fmt: skip
        if self.temperature is not None:
            values["joint_temperature"] = np.array(self.temperature, dtype=float)
        wanted = {
            "kind": "joint_pos_target",
            "target": action(CONTRACT, a),
            "kp": np.full(3, 40.0),
            "kd": np.full(3, 1.0),
        }
        return {
            "now": t, "time": t, "count": self.k, "values": values, "wanted": wanted, "action": a if self.k % 10 == 0 else None,
            "observation": None, "policy_time": step * DT,
        }  # fmt: skip

    def step(self, change=None):
        g = self.given()
        if change is not None:
            change(g)
        reading = None if g["values"] is None else Reading(time=g["time"], count=g["count"], values=g["values"])
        wanted = Command(**g["wanted"]) if isinstance(g["wanted"], dict) else g["wanted"]
        self.ruling = self.safety.step(
            g["now"], reading, wanted, action=g["action"], observation=g["observation"], policy_time=g["policy_time"]
        )
        self.events += self.ruling.events
        self.k += 1
        return self.ruling

    def run(self, steps, change=None):
        for _ in range(steps):
            self.step(change)
        return self.ruling

    def checks(self):
        return {e.check for e in self.events}


# -------------------------------------------------------------------- settings


def test_settings_come_from_the_contract_and_survive_a_file(tmp_path):
    s = settings(levels={"tilt": "freeze"}, crouch=(0.0, 1.0, -2.0), height_low=-0.1)
    assert s.target_low == (-1.0, -1.0, -2.7)
    assert s.torque_limit == (20.0, 20.0, 40.0)
    assert s.levels["tilt"] == "freeze"
    assert s.levels["stale"] == LEVELS["stale"]
    s.save(tmp_path / "safety.toml")
    assert SafetySettings.load(tmp_path / "safety.toml") == s
    off = dataclasses.replace(s, tilt_limit=None, match_margin=None)
    off.save(tmp_path / "off.toml")
    assert SafetySettings.load(tmp_path / "off.toml") == off
    assert set(LEVELS) == set(HOLDS)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stale_tim = 0.1", "did you mean 'stale_time'"),
        ("[levels]\ntlit = 'freeze'", "did you mean 'tilt'"),
        ("[levels]\ntilt = 'freez'", "did you mean 'freeze'"),
        ("[holds]\ntilt = -1.0", "0 or more seconds"),
        ("stale_time = 'soon'", "must be a finite number"),
        ("stale_time = 0.0", "above 0"),
        ("freeze_gain = 2.0", "shares"),
        ("target_low = [1.0, 2.0]", "one number or 3"),
        ("barrier = 3", "true or false"),
        ("stale_time = ", "cannot read"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(tmp_path, text, sentence):
    file = tmp_path / "safety.toml"
    settings().save(file)
    key = text.split(" ")[0]
    whole = "".join(line for line in file.read_text().splitlines(True) if not line.startswith(f"{key} ="))
    file.write_text(text + "\n" + whole if not text.startswith("[") else whole + "\n" + text)
    with pytest.raises(InputError, match=sentence):
        SafetySettings.load(file)


def test_settings_of_another_robot_are_refused():
    with pytest.raises(InputError, match="robot 'cat'"):
        Safety(contract(), settings(robot="cat"), outputs=JOINTS)
    with pytest.raises(InputError, match="did you mean 'a_joint'"):
        Safety(contract(), settings(), outputs=("a_jont",))
    with pytest.raises(InputError, match="did you mean"):
        SafetySettings.from_contract(contract(), stale_tme=1.0)
    with pytest.raises(InputError, match="missing"):
        SafetySettings.from_dict({"robot": "leg"})


def test_a_contract_without_limits_falls_back_to_what_the_action_reaches():
    bare = contract(position_limits=None, torque_limit=None)
    s = SafetySettings.from_contract(bare)
    assert np.allclose(s.target_high, np.array(POSE) + 1.0)
    assert s.torque_limit is None
    assert Safety(bare, s, outputs=JOINTS).checks["torque limit"].startswith("off")
    act = Action(joints=JOINTS, kind="voltage_target")
    with pytest.raises(InputError, match="how large a voltage_target"):
        SafetySettings.from_contract(contract(action=act))


# -------------------------------------------------------------------- what is found


def test_a_clean_run_stays_ok_and_its_commands_are_untouched():
    robot = Robot(Safety(contract(), settings(rate_limit=1000.0), outputs=JOINTS))
    robot.run(10)
    for _ in range(1500):
        wanted = robot.given()["wanted"]
        robot.rng = np.random.default_rng(robot.k)
        ruling = robot.step()
        assert ruling.state == "ok"
        assert np.array_equal(ruling.command.target, wanted["target"])
        assert np.array_equal(ruling.command.kp, wanted["kp"])
    assert robot.events == []


def put(channel, index, value):
    def change(g):
        g["values"][channel][index] = value

    return change


def drop(name, value=None):
    def change(g):
        g[name] = value

    return change


def tell(name, value):
    def change(g):
        g["wanted"][name] = value

    return change


def clock_ahead(g):
    g["time"] += 0.5


def clock_back(g):
    g["time"] -= 0.5


def upside_down(g):
    g["values"]["gravity"] *= -1


def lost(g):
    g["count"] += 100


def swapped(g):
    g["wanted"]["target"] = g["wanted"]["target"][[1, 0, 2]]


def exploded(g):
    if g["action"] is not None:
        g["action"] = g["action"] * 1e4


def nan_action(g):
    g["action"] = np.full(3, np.nan)


def silent(g):
    g["policy_time"], g["action"] = 0.0, None
    g["wanted"]["target"] = np.array(POSE)


def short(g):
    g["values"]["gyro"] = g["values"]["gyro"][:2]


def strange(g):
    g["observation"] = {"policy": np.full(15, 50.0)}


FOUND = [
    ("stale", drop("values"), 17, "reading", "freeze"),
    ("not_finite", put("joint_pos", 1, math.nan), 6, "joint_pos[b]", "freeze"),
    ("not_finite", put("gyro", 0, math.inf), 6, "gyro[x]", "freeze"),
    ("not_finite", short, 6, "gyro", "freeze"),
    ("range", put("joint_pos", 2, -3.0), 6, "joint_pos[c]", "freeze"),
    ("range", put("gyro", 2, 34.9), 6, "gyro[z]", "freeze"),
    ("norm", put("gravity", slice(None), 0.0), 6, "gravity", "freeze"),
    ("jump", put("joint_pos", 0, 0.9), 6, "joint_pos[a]", "freeze"),
    ("clock", clock_ahead, 6, "time", "freeze"),
    ("clock", clock_back, 6, "time", "freeze"),
    ("lost", lost, 1, "count", "freeze"),
    ("tilt", upside_down, 21, "gravity", "damping"),
    ("command_invalid", tell("target", np.array([0.0, np.nan, 0.0])), 6, "b is not finite", "freeze"),
    ("command_invalid", drop("wanted", None), 6, "no command", "freeze"),
    ("command_invalid", tell("kind", "joint_torque_target"), 6, "3 values of joint_torque_target", "freeze"),
    ("command_torque", tell("torque", np.array([0.0, 500.0, 0.0])), 11, "b", "freeze"),
    ("command_match", swapped, 21, "a", "freeze"),
    ("gains", tell("kp", np.array([40.0, 40.0, 400.0])), 6, "c", "freeze"),
    ("gains", tell("kd", np.array([-1.0, 1.0, 1.0])), 6, "a", "freeze"),
    ("action_range", exploded, 40, "b", "freeze"),
    ("action_invalid", nan_action, 1, "action", "freeze"),
    ("action_invalid", drop("action", np.zeros(5)), 1, "action", "freeze"),
    ("policy_silent", silent, 32, "policy", "freeze"),
    ("unfamiliar", strange, 220, "joint_pos[a]", "freeze"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "change", "steps", "name", "state"), FOUND)
def test_a_planted_fault_is_found_in_time_and_named(check, change, steps, name, state):
    robot = Robot()
    robot.run(105)
    assert robot.ruling.state == "ok"
    robot.run(steps, change)
    assert robot.ruling.state == state
    event = next(e for e in robot.events if e.check == check)
    assert event.joint_or_channel == name or check in ("action_range", "unfamiliar")
    assert [e.severity for e in robot.events if e.check == check][-1] == state
    assert all(e.sentence.startswith(e.severity) for e in robot.events)


def test_a_stuck_encoder_is_found_while_the_robot_moves_and_a_resting_one_is_not():
    robot = Robot()
    robot.run(600)
    held = robot.safety.readings.q[1]
    robot.run(80, put("joint_pos", 1, held))
    assert robot.ruling.state == "freeze"
    assert ("stuck", "joint_pos[b]") in {(e.check, e.joint_or_channel) for e in robot.events}

    rest = Robot()

    def still(g):  # a robot without sensor noise that is told to stand still
        rows = {
            "joint_pos": np.array(POSE),
            "joint_vel": np.zeros(3),
            "gyro": np.zeros(3),
            "gravity": np.array([0.0, 0.0, -1.0]),
        }
        g["values"], g["action"], g["policy_time"] = rows, None, None
        g["wanted"]["target"] = np.array(POSE)

    assert rest.run(1500, still).state == "ok"
    assert rest.events == []


def test_a_joint_that_balances_within_one_step_of_a_coarse_encoder_is_not_stuck():
    robot, quantum = Robot(), 0.003

    def coarse(g):
        g["values"]["joint_pos"][1] = quantum * round(g["values"]["joint_pos"][1] / quantum)

    robot.run(600, coarse)
    held, aim = robot.safety.readings.q[1], robot.given()["wanted"]["target"][1]

    def balanced(g):
        g["values"]["joint_pos"][1] = held
        g["values"]["joint_vel"][1] = robot.rng.normal(0, 0.01)
        g["wanted"]["target"][1] = aim
        g["action"], g["policy_time"] = None, None

    robot.run(150, balanced)
    assert "stuck" not in robot.checks()

    def drifting(g):
        balanced(g)
        g["values"]["joint_vel"][1] += 0.3

    robot.run(80, drifting)
    assert ("stuck", "joint_pos[b]") in {(e.check, e.joint_or_channel) for e in robot.events}


def test_a_driver_that_repeats_old_values_is_found():
    robot = Robot()
    robot.run(600)
    old = robot.given()["values"]
    robot.run(80, drop("values", old))
    assert robot.ruling.state == "freeze"
    assert "frozen" in robot.checks()


def test_a_single_odd_sample_is_a_warning_and_its_values_are_not_used():
    robot = Robot()
    robot.run(100)
    before = robot.safety.readings.q.copy()
    for change in (put("joint_pos", 0, 0.9), put("joint_pos", 1, math.nan), put("joint_vel", 2, 1e300)):
        robot.step(change)
        assert np.abs(robot.safety.readings.q - before).max() < 0.05
        robot.run(50)
        before = robot.safety.readings.q.copy()
    assert robot.ruling.state == "ok"
    assert {e.severity for e in robot.events} == {"warn"}


def test_a_fault_that_flickers_over_joints_is_found():
    robot = Robot()
    robot.run(100)

    def flicker(g):
        if robot.k % 2:
            g["values"]["joint_pos"][robot.k % 3] = math.nan

    robot.run(40, flicker)
    assert robot.ruling.state == "freeze"


def test_an_overrun_of_the_loop_is_found_at_its_next_step():
    robot = Robot()
    robot.run(100)
    robot.k += 20
    assert robot.step().state == "freeze"
    assert "overrun" in robot.checks()


def test_envelopes_of_height_contact_and_temperature():
    s = settings(height_low=0.2, height_high=0.6, foot_force_low=5.0, foot_force_high=300.0, air_time=0.1)

    def with_body(height, force):
        def change(g):
            g["values"]["base_pos"] = np.array([0.0, 0.0, height])
            g["values"]["foot_force"] = np.array(force)

        return change

    for change, check in (
        (with_body(0.1, (30.0, 30.0)), "height"), (with_body(0.9, (30.0, 30.0)), "height"),
        (with_body(0.4, (0.5, 0.5)), "contact"), (with_body(0.4, (400.0, 0.0)), "contact"),
    ):  # fmt: skip
        robot = Robot(Safety(contract(), s, outputs=JOINTS))
        assert robot.run(60, with_body(0.4, (30.0, 30.0))).state == "ok"
        assert robot.run(90, change).state != "ok"
        assert check in robot.checks()
    hot = Robot(temperature=(50.0, 80.0, 60.0))
    assert hot.run(100).state == "ok"
    assert np.allclose(hot.safety.envelope.derate, (1.0, 0.65, 1.0))
    hot.temperature = (50.0, 95.0, 60.0)
    assert hot.run(60).state == "freeze"
    assert "temperature" in hot.checks()


def test_readings_in_another_order_of_columns_are_put_right():
    channels = {
        "joint_pos": Wire(unit="rad", columns=JOINTS[::-1]), "joint_vel": Wire(unit="rad/s", columns=JOINTS),
        "gyro": Wire(unit="rad/s", columns=("x", "y", "z")), "gravity": Wire(unit="1", columns=("x", "y", "z")),
    }  # fmt: skip
    safety = Safety(contract(), settings(), outputs=JOINTS, channels=channels)

    def reverse(g):
        g["values"]["joint_pos"] = g["values"]["joint_pos"][::-1].copy()

    robot = Robot(safety)
    assert robot.run(50, reverse).state == "ok"
    assert np.abs(safety.readings.q - POSE).max() < 0.3


# -------------------------------------------------------------------- ladder


def test_the_ladder_leads_on_while_the_condition_stays_and_never_back():
    robot = Robot(Safety(contract(), settings(freeze_time=0.1, damping_time=0.1), outputs=JOINTS))
    robot.run(100)
    seen = []
    for _ in range(200):
        ruling = robot.step(put("joint_pos", 0, math.nan))
        seen.append(STATES.index(ruling.state))
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3}
    assert seen.index(2) - seen.index(1) == 50
    assert np.all(robot.ruling.command.kp == 0)
    assert robot.run(200).state == "stopped"


def test_a_freeze_holds_the_last_good_target_with_limited_gains_until_the_operator_lets_go():
    robot = Robot()
    robot.run(105)
    good = robot.ruling.command.target.copy()
    robot.run(8, put("joint_pos", 0, math.nan))
    assert robot.ruling.state == "freeze"
    for _ in range(300):
        command = robot.step().command
        assert np.allclose(command.target, good)
        assert np.all(command.kp <= 0.7 * 40 + 1e-9)
    assert robot.ruling.state == "freeze"
    assert robot.safety.release()
    assert robot.step().state == "ok"


def test_the_operators_stop_sits_down_where_a_crouch_is_set_and_then_damps():
    crouch = (0.0, 1.3, -2.4)
    robot = Robot(Safety(contract(), settings(crouch=crouch, crouch_time=0.5), outputs=JOINTS))
    robot.run(105)
    robot.safety.stop("enough")
    robot.run(250)
    assert robot.ruling.state == "stopped"
    assert np.allclose(robot.ruling.command.target, crouch, atol=0.02)
    assert np.all(robot.ruling.command.kp > 0)
    robot.run(20)
    assert np.all(robot.ruling.command.kp == 0)
    assert not robot.safety.release()
    assert "enough" in next(e for e in robot.events if e.check == "operator").sentence
    tilted = Robot(Safety(contract(), settings(crouch=crouch, tilt_limit=None), outputs=JOINTS))
    lean = put("gravity", slice(None), (0.8, 0.0, -0.6))
    tilted.run(50, lean)
    tilted.safety.stop("lying on its side")
    assert np.all(tilted.run(5, lean).command.kp == 0)


def test_before_the_first_good_reading_the_command_is_damping():
    robot = Robot()
    ruling = robot.step(drop("values"))
    assert ruling.state == "damping"
    assert np.all(ruling.command.kp == 0)
    assert np.all(ruling.command.kd > 0)
    robot.run(20, drop("values"))
    assert robot.step().state == "ok"
    never = Robot()
    assert never.run(600, drop("values")).state == "damping"
    assert "stale" in never.checks()


def test_an_observer_judges_and_never_touches_the_command():
    safety = Safety(contract(), settings(), outputs=JOINTS, observe_only=True)
    wanted = Command(kind="joint_pos_target", target=np.full(3, np.nan), kp=np.full(3, 1e9), kd=np.zeros(3))
    for k in range(20):
        ruling = safety.step(k * DT, None, wanted)
        assert ruling.command is wanted
    assert ruling.state == "freeze"


def test_the_layer_survives_its_own_failure(monkeypatch):
    robot = Robot()
    robot.run(50)
    monkeypatch.setattr(robot.safety.familiar, "look", lambda *_: 1 / 0)
    ruling = robot.step()
    assert ruling.state == "damping"
    assert "ZeroDivisionError" in ruling.events[-1].sentence
    assert np.all(ruling.command.kp == 0)
    monkeypatch.undo()
    assert robot.run(10).state == "damping"


# -------------------------------------------------------------------- limits


def curve(dq, stall=20.0, speed=20.0):
    return stall * np.clip(1 - dq / speed, 0, 1)


def test_torque_follows_the_speed_torque_curve_and_the_temperature():
    limits = Limits(settings(), np.arange(3))
    q, dq = np.array(POSE), np.array([10.0, 25.0, -30.0])
    wanted = np.zeros((5, 3))
    wanted[TARGET], wanted[KP] = q + 0.9, 40.0
    wanted[TARGET, 2] = q[2] + 0.6
    wanted[TORQUE] = 15.0
    sent = limits.apply(wanted.copy(), wanted[TARGET], q, dq, DT)
    tau = limits.torque(sent, q, dq)
    assert tau == pytest.approx(
        [10.0, 0.0, 39.0], abs=1e-6
    )  # half of stall; none beyond no-load speed; braking is free
    assert limits.torque(limits.apply(wanted.copy(), wanted[TARGET], q, dq, DT, 0.5), q, dq)[0] == pytest.approx(5.0)
    assert np.allclose(limits.curve(dq), [10.0, 0.0, 40.0])


def test_a_target_moves_no_faster_than_the_rate_limit_and_stays_within_its_limits():
    limits = Limits(settings(rate_limit=5.0), np.arange(3))
    sent, q = np.array(POSE), np.array(POSE)
    for k in range(400):
        wanted = np.zeros((5, 3))
        wanted[TARGET] = 9.0 if k < 200 else -9.0
        now = limits.apply(wanted, sent, q, np.zeros(3), DT)[TARGET]
        assert np.all(np.abs(now - sent) <= 5.0 * DT)
        assert np.all(now <= limits.high)
        assert np.all(now >= limits.low)
        sent = now.copy()
        if k == 199:
            assert sent == pytest.approx(np.minimum(limits.high, np.array(POSE) + 200 * 5.0 * DT), abs=1e-6)


@pytest.mark.parametrize("kind", ["voltage_target", "rotor_target", "joint_torque_target"])
def test_other_kinds_keep_to_limits_and_rate(kind):
    act = Action(joints=JOINTS, kind=kind, limits=(-3.0, 3.0) if kind != "rotor_target" else (0.0, 1.0))
    made = contract(action=act, kp=None, kd=None)
    s = SafetySettings.from_contract(made, rate_limit=100.0, no_load_speed=20.0)
    safety = Safety(made, s, outputs=JOINTS)
    rng = np.random.default_rng(0)
    last, robot = np.zeros(3), Robot(safety)
    for k in range(300):
        values = robot.given()["values"]
        target = 10 * rng.standard_normal(3) if k % 7 else np.array([np.nan, np.inf, 0.0])
        wanted = Command(kind=kind, target=target, kp=np.zeros(3), kd=np.zeros(3))
        robot.k += 1
        sent = safety.step(k * DT, Reading(time=k * DT, count=k, values=values), wanted).command
        assert sent.kind == kind
        assert np.all((sent.target >= s.target_low) & (sent.target <= s.target_high))
        assert np.all(np.abs(sent.target - last) <= 100.0 * DT + 1e-12)
        last = sent.target
    safety.stop("now")
    for k in range(300, 400):
        safety.step(k * DT, None, wanted)
    assert np.all(safety.step(400 * DT, None, wanted).command.target == 0.0)
    assert (s.freeze_others == "hold") == (kind == "rotor_target")


def test_a_frozen_rotor_hangs_on_and_a_damped_one_stops():
    act = Action(joints=JOINTS, kind="rotor_target", offset=0.6, limits=(0.0, 1.0))
    made = contract(action=act, kp=None, kd=None)
    safety = Safety(made, outputs=JOINTS)
    robot = Robot(safety)
    wanted = Command(kind="rotor_target", target=np.full(3, 0.6), kp=np.zeros(3), kd=np.zeros(3))
    for k in range(60):
        values = robot.given()["values"]
        robot.k += 1
        safety.step(k * DT, Reading(time=k * DT, count=k, values=values), wanted)
    for k in range(60, 100):
        ruling = safety.step(k * DT, None, wanted)
    assert ruling.state == "freeze"
    assert np.allclose(ruling.command.target, 0.6)


def test_outputs_may_be_some_of_the_joints():
    safety = Safety(contract(), settings(), outputs=("c_joint", "a_joint"))
    robot = Robot(safety)

    def two(g):
        g["wanted"] = {key: value if key == "kind" else value[[2, 0]] for key, value in g["wanted"].items()}

    assert robot.run(300, two).state == "ok"
    assert robot.ruling.command.target == pytest.approx(robot.safety.actions.low, abs=0.05)
    assert safety.checks["stale"] == "on"


# -------------------------------------------------------------------- barrier


def test_the_barriers_projection_is_that_of_a_scan_to_1e6():
    s = settings(barrier=True)
    barrier = Barrier(s, np.arange(3))
    rng = np.random.default_rng(0)
    low, high = np.array(s.position_low), np.array(s.position_high)

    def allowed(tau, q, dq, bottom, top):
        """Both conditions dB/dt + γ B ≥ 0 from the definition, with differences instead of the slope."""
        h, ok = 1e-6, np.ones_like(tau, dtype=bool)
        for side, limit in ((1.0, top), (-1.0, bottom)):
            d, w = side * (limit - q), side * dq
            slope = (approach(d + h, 20.0, 100.0)[0] - approach(d - h, 20.0, 100.0)[0]) / (2 * h)
            ok &= -slope * w - side * tau / 0.05 + 100.0 * (approach(d, 20.0, 100.0)[0] - w) >= 0
        return ok

    tried = changed = 0
    for _ in range(400):
        q, dq, tau = low + rng.random(3) * (high - low), rng.normal(0, 3, 3), rng.normal(0, 60, 3)
        found = barrier.project(tau, q, dq)
        k = int(rng.integers(3))
        scan = np.append(np.linspace(-600, 600, 4001), tau[k])
        for width in (0.3, 3e-4, 3e-7):
            good = scan[allowed(scan, q[k], dq[k], low[k], high[k])]
            if not len(good):
                break
            best = good[np.argmin(np.abs(good - tau[k]))]
            scan = np.append(np.linspace(best - width, best + width, 4001), tau[k])
        else:
            tried, changed = tried + 1, changed + (abs(best - tau[k]) > 1e-3)
            assert abs(best - found[k]) < 1e-6
    assert tried > 300
    assert changed > 50


def test_the_speed_towards_a_limit_is_smooth_and_never_needs_more_than_the_brake():
    d = np.linspace(-0.2, 2.0, 100001)
    v, slope = approach(d, 20.0, 100.0)
    assert np.abs(np.gradient(v, d)[5000:] - slope[5000:])[d[5000:] > -0.2].max() < 0.2
    outside = d > 0
    assert (v * slope)[outside].max() <= 100.0 + 1e-9
    assert np.all(np.diff(v) >= 0)


@pytest.mark.parametrize("on", [False, True])
def test_a_joint_slammed_at_its_limit_stops_before_it_with_the_barrier(on):
    s = settings(barrier=on, barrier_inertia=0.05, target_high=(2.0, 3.0, -0.8), rate_limit=1e3)
    limits = Limits(s, np.arange(3))
    q, dq, sent = np.array(POSE), np.zeros(3), np.array(POSE)
    farthest = q.copy()
    for _ in range(500):
        wanted = np.zeros((5, 3))
        wanted[TARGET], wanted[KP], wanted[TORQUE] = 5.0, 40.0, 20.0
        command = limits.apply(wanted, sent, q, dq, DT)
        sent = command[TARGET].copy()
        for _ in range(10):
            dq = dq + DT / 10 * limits.torque(command, q, dq) / 0.05
            q = q + DT / 10 * dq
        farthest = np.maximum(farthest, q)
    beyond = farthest - np.array(s.position_high)
    assert np.all(beyond <= 2e-3) if on else np.any(beyond > 0.05)


# -------------------------------------------------------------------- familiar


def test_the_score_counts_share_and_size_and_skips_what_was_not_recorded():
    made = contract()
    low, high = trained(made.group("policy"))
    assert np.isnan(low[:6]).all()
    assert np.all(high[6:9] == 0.5)
    familiar = Familiar(made, settings())
    row = np.zeros(15)
    assert familiar.look(0.0, {"policy": row}) == []
    row[7] = 0.5 + 4 * 0.5
    for k in range(1, 200):
        familiar.look(k * 0.02, {"policy": row})
    assert familiar.score == pytest.approx(1 / 3 + 1.0, abs=1e-3)
    row[7] = np.nan
    found = familiar.look(5.0, {"policy": row})
    assert found[0].name == "joint_pos[b]"
    assert Familiar(contract(groups=(Group(name="policy", terms=(Term(source="gyro"),)),)), settings()).groups == ()


def test_ranges_of_a_history_stand_where_its_entries_do():
    terms = (
        Term(source="gyro", history=2, trained=((-1.0, -2.0, -3.0), (1.0, 2.0, 3.0))),
        Term(source="gravity", history=2),
    )
    by_term = trained(Group(name="policy", terms=terms))[1]
    by_step = trained(Group(name="policy", terms=terms, stack="step"))[1]
    assert np.array_equal(by_term[:6], [1, 2, 3, 1, 2, 3])
    assert np.isnan(by_term[6:]).all()
    assert np.array_equal(by_step[[0, 1, 2, 6, 7, 8]], [1, 2, 3, 1, 2, 3])


def test_the_runtime_path_needs_neither_mujoco_nor_torch():
    import subprocess
    import sys

    code = (
        "import sys; import surefoot.deploy.safety; "
        "print([m for m in ('mujoco', 'torch', 'surefoot.robots', 'surefoot.sim') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_the_last_action_did_is_over_when_the_policy_no_longer_drives():
    robot = Robot()
    robot.run(20)

    def wild(g):
        g["action"] = np.full(3, 50.0)

    def no_policy(g):
        g["action"] = g["policy_time"] = None

    robot.step(wild)
    assert robot.safety.actions.look(0.0, None)
    assert robot.run(600, no_policy).state == "ok"
    assert not robot.safety.actions.look(0.0, None)


@pytest.mark.parametrize("group", ["policy", "history"])
def test_actions_are_judged_by_what_training_saw_wherever_the_contract_says_it(group):
    """A policy that saturates asks for more than the clip: no alarm for what it did in training, one for half as much again."""
    terms = tuple(t for t in contract().groups[0].terms if t.source != "last_action")
    past = Term(source="last_action", columns=JOINTS, trained=(-6.0, 6.0))
    groups = (Group(name="policy", terms=(*terms, past)),)
    if group == "history":
        groups = (
            Group(name="policy", terms=terms),
            Group(name="history", terms=(dataclasses.replace(past, history=3),)),
        )
    made = contract(groups=groups, action=Action(joints=JOINTS, scale=0.25, offset=POSE, clip=(-1.0, 1.0)))
    actions = Safety(made, SafetySettings.from_contract(made, no_load_speed=20.0), outputs=JOINTS).actions
    assert not actions.look(0.0, np.full(3, 11.0))
    actions.rest()
    assert [f.check for f in actions.look(0.02, np.full(3, 13.0))] == ["action_range"]


@pytest.mark.parametrize("kind", ["voltage_target", "joint_torque_target"])
def test_a_layer_that_fails_drives_nothing_where_the_target_is_the_drive(monkeypatch, kind):
    act = Action(joints=JOINTS, kind=kind, scale=5.0, clip=(-1.0, 1.0), limits=(-5.0, 5.0))
    made = contract(action=act, kp=None, kd=None)
    safety = Safety(made, outputs=JOINTS)
    wanted = Command(kind=kind, target=np.full(3, 2.0), kp=np.zeros(3), kd=np.zeros(3))
    still = {
        "gyro": np.zeros(3),
        "gravity": np.array([0, 0, -1.0]),
        "joint_pos": np.array(POSE),
        "joint_vel": np.zeros(3),
    }
    for k in range(50):
        safety.step(k * DT, Reading(time=k * DT, count=k, values=still), wanted)
    monkeypatch.setattr(safety.envelope, "look", lambda *_: 1 / 0)
    ruling = safety.step(50 * DT, Reading(time=50 * DT, count=50, values=still), wanted)
    assert ruling.command.target.tolist() == [0.0, 0.0, 0.0]
    assert ruling.state == "damping"


def test_a_warning_that_stays_does_not_keep_the_pose_of_long_ago():
    safety = Safety(CONTRACT, settings(levels={"temperature": "warn"}), outputs=JOINTS)
    safety.ladder.update(0.0, DT, [Finding("temperature", "a", 99.0, 90.0)])
    assert safety.ladder.quiet
    safety.ladder.update(DT, DT, [Finding("tilt", "gravity", 2.0, 1.0)])
    assert not safety.ladder.quiet
