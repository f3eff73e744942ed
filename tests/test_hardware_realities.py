"""Realities: the files are checked, and what they plant is what the stand-in robot does."""

import ast
import math
from pathlib import Path

import mujoco
import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.hardware.connect import reality_path, shipped
from surefoot.hardware.gauges import Attitude, matrix
from surefoot.hardware.generator import draw
from surefoot.hardware.motors import Condition
from surefoot.hardware.reality import BEYOND, TRUTH, load_reality, parse_reality
from surefoot.hardware.rubbing import Rubbing
from surefoot.hardware.twin import DAMPING, DRIVEN, Silence, Twin, Wandering

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "surefoot" / "hardware"
CLEAN = "encoder_noise = 0.0\nvelocity_noise = 0.0\nencoder_quantum = 0.0\n"


def reality(robot: str, truth: str = "", beyond: str = "", top: str = "", step: float = 0.0005):
    text = f'robot = "{robot}"\nlevel = 0.5\nabout = "a test"\n{top}\n[numerics]\ntimestep = {step}\n[truth]\n{truth}\n[beyond]\n{beyond}\n'
    return parse_reality(text, name="test")


def order(twin: Twin, target, kp=None, kd=None) -> np.ndarray:
    motors = {a.name: a for a in twin.robot.actuators}
    own = [motors[name] for name in twin.plant.outputs]
    zero = np.zeros(len(own))
    kp = np.array([a.kp for a in own]) if kp is None else zero + kp
    kd = np.array([a.kd for a in own]) if kd is None else zero + kd
    return np.stack([zero + target, kp, kd, zero, zero])


def drive(twin: Twin, target, seconds: float, **gains) -> np.ndarray:
    row, end = None, twin.t + seconds - 1e-9
    while twin.t < end:
        twin.tell(twin.plant.kinds[0], order(twin, target, **gains))
        found = twin.advance()
        row = found if found is not None else row
    return row


def reading(twin: Twin, row: np.ndarray, name: str) -> np.ndarray:
    return row[twin.gauges.slices[name]]


# ------------------------------------------------------------------ the files


def test_enough_ship_from_nominal_to_nasty_and_half_go_beyond_the_params():
    least = {"go2": 12, "crazyflie": 6, "qube": 6, "servo": 6}
    for robot, count in least.items():
        found = [load_reality(reality_path(name)) for name in shipped(robot)]
        assert len(found) >= count
        levels = [r.level for r in found]
        assert levels == sorted(levels)
        assert (levels[0], levels[-1]) == (0.0, 1.0)
        assert not found[0].beyond
        assert 2 * sum(bool(r.beyond) for r in found) >= len(found)
        assert all(r.robot == robot and r.about for r in found)


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_reality_is_valid_and_its_robot_lives(name):
    twin = Twin(load_reality(reality_path(name)))
    assert twin.plant.dt < twin.robot.timestep
    first = twin.look()
    rest = [twin.robot.pose.get(j, 0.0) for j in twin.plant.outputs] if twin.robot.joints else 0.5
    row = drive(twin, rest, 0.06)
    for found in (first, row):
        assert found is None or np.isfinite(found).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('[truth]\nfricton = 0.5', "did you mean 'friction'"),
        ('[beyond]\nbaklash = 0.1', "did you mean 'backlash'"),
        ('[numerics]\ntimestp = 0.001', "did you mean 'timestep'"),
        ('levl = 1', "did you mean 'level'"),
        ('start = "flying"', "a way go2 can start"),
        ('[truth]\nfriction = -1', "in 0.02 .. 3"),
        ('[truth]\ngyro_bias = [0.1, 0.2]', "a list of 3 numbers"),
        ('[truth]\nmass = 7.0', "a table from names"),
        ('[truth]\nkp = { "(" = 1.0 }', "not a pattern"),
        ('[numerics]\ntimestep = 0.0007', "not a whole number of timesteps"),
        ('[numerics]\ncone = "round"', "a choice of cone"),
        ("[truth", "not valid TOML"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_in_one_sentence(change, says):
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        parse_reality(f'robot = "go2"\nlevel = 0.1\nabout = "x"\n{change}\n', name="bad")


@pytest.mark.parametrize(
    ("robot", "truth", "beyond", "says"),
    [
        ("go2", "", "ground_effect = 1.0", "needs rotors"),
        ("crazyflie", "friction = 0.5", "", "needs feet"),
        ("qube", "gyro_bias = [0.1, 0.0, 0.0]", "", "needs imu"),
        ("go2", 'strength = { "FL_knee_joint" = 0.5 }', "", "the name of nothing on go2"),
        ("go2", "mass = { trunk = 7.0 }", "", "the name of nothing on go2"),
    ],
)
def test_an_entry_that_could_not_act_is_refused(robot, truth, beyond, says):
    with pytest.raises(InputError, match=says):
        Twin(reality(robot, truth, beyond))


def test_missing_parts_of_a_file_are_named():
    with pytest.raises(InputError, match="no 'about'"):
        parse_reality('robot = "go2"\nlevel = 0.1\n', name="bad")
    with pytest.raises(InputError, match="cannot read the reality"):
        load_reality("nowhere.toml")


def test_every_entry_says_what_it_is():
    for key, entry in (TRUTH | BEYOND).items():
        assert entry.about, key
        assert entry.low < entry.high, key
    assert not set(TRUTH) & set(BEYOND)


# ------------------------------------------------------------------ no inverse crime


def test_the_twin_shares_no_physics_code_with_the_package():
    own = [p for p in PACKAGE.glob("*.py") if not p.name.startswith(("unitree", "dds", "ros2"))]
    assert {"plant.py", "motors.py", "gauges.py", "grounds.py", "rubbing.py", "twin.py"} <= {p.name for p in own}
    for path in own:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            assert not any(n.startswith(("surefoot.sim", "surefoot.params", "surefoot.tasks")) for n in names), path


# ------------------------------------------------------------------ what is planted


@pytest.mark.parametrize("mass", [6.921, 9.4])
def test_planted_mass_is_what_the_feet_carry(mass):
    twin = Twin(reality("go2", f"mass = {{ base = {mass} }}\nforce_noise = 0.0", step=0.001, top='start = "standing"'))
    row = drive(twin, [twin.robot.pose[j] for j in twin.robot.joints], 1.2)
    legs = 4 * (0.678 + 1.152 + 0.241352)
    assert reading(twin, row, "foot_force").sum() == pytest.approx(9.81 * (mass + legs), rel=0.02)


def test_planted_friction_decides_whether_it_slides_down_a_slope():
    moved = {}
    for friction in (0.1, 0.9):
        truth = f"friction = {friction}\nslope = [0.25, 0.0]"
        twin = Twin(reality("go2", truth, step=0.001, top='start = "standing"'))
        drive(twin, [twin.robot.pose[j] for j in twin.robot.joints], 1.0)
        moved[friction] = -float(twin.plant.data.qvel[0])
    assert moved[0.1] == pytest.approx(9.81 * (math.sin(0.25) - 0.1 * math.cos(0.25)) * math.cos(0.25), rel=0.15)
    assert abs(moved[0.9]) < 0.02


@pytest.mark.parametrize("delay", [0.0, 0.006, 0.0205])
def test_planted_command_delay_is_when_the_motor_starts(delay):
    twin = Twin(reality("servo", f"command_delay = {delay}\ncoulomb = 0.0"))
    twin.tell("joint_pos_target", order(twin, 1.0))
    started = None
    while started is None and twin.plant.t < 0.1:
        before = twin.plant.t
        twin._watch()
        twin.plant.step(twin.order)
        started = before if np.abs(twin.plant.motors.tau).max() > 0.1 else None
    assert started == pytest.approx(delay, abs=twin.plant.dt)


def test_planted_sensor_delay_shows_the_past():
    twin = Twin(reality("servo", f"{CLEAN}sensor_delay = 0.015"))
    true, seen = [], []
    for _ in range(60):
        twin.tell("joint_pos_target", order(twin, 0.7))
        seen.append(reading(twin, twin.advance(), "joint_pos")[0])
        true.append(twin.plant.data.qpos[0])
    assert seen[20:] == true[17:-3]


def test_planted_encoder_errors_come_back():
    twin = Twin(reality("servo", "encoder_bias = 0.1\nencoder_quantum = 0.01\nencoder_noise = 0.0"))
    row = drive(twin, 0.0, 0.3)
    angle = reading(twin, row, "joint_pos")[0]
    assert angle == pytest.approx(0.1, abs=0.0051)
    assert angle / 0.01 == pytest.approx(round(angle / 0.01), abs=1e-9)


def test_planted_gain_and_strength_hold_the_arm_lower():
    def sag(truth: str) -> float:
        twin = Twin(reality("servo", truth + "\ncoulomb = 0.0\n" + CLEAN))
        drive(twin, 0.6, 3.0)
        return 0.6 - float(twin.plant.data.qpos[0])

    stiff, soft = sag(""), sag("kp = 0.5")
    torque = 0.49 * 9.81 * 0.1
    assert stiff * 0.901 == pytest.approx(torque * math.sin(0.6 - stiff), rel=0.02)
    assert soft * 0.4505 == pytest.approx(torque * math.sin(0.6 - soft), rel=0.02)


def test_a_voltage_motor_follows_its_equation():
    twin = Twin(reality("qube", "torque_constant = 0.05\nresistance = 9.0"))
    motor, n = twin.plant.motors, np.zeros(1)
    twin.tell("voltage_target", order(twin, 3.0))
    twin._watch()
    tau = motor._electric(twin.order, n, n + 4.0, np.ones(1), 1e-3)
    assert tau[0] == pytest.approx(0.05 / 9.0 * (3.0 - 0.05 * 4.0))


def test_torque_falls_with_speed_and_with_the_battery():
    twin = Twin(reality("go2", "knee = 0.5", step=0.001))
    motor, n = twin.plant.motors, np.zeros(12)
    push = type(twin.damp)(kind="joint_torque_target", target=n + 100.0, kp=n, kd=n, velocity=n, torque=n)

    def most(speed: float) -> float:
        return motor._electric(push, n, n + speed, np.ones(12), 1e-3)[0]

    assert most(0.0) == pytest.approx(23.7)
    assert most(0.75 * 30.1) == pytest.approx(0.5 * 23.7)
    assert most(31.0) == 0.0
    assert most(-31.0) == pytest.approx(23.7)
    motor.condition.battery = 0.5
    assert most(0.4 * 30.1) == pytest.approx(0.2 * 23.7)


# ------------------------------------------------------------------ beyond the params


def rubbing(beyond: str = "", coulomb: float = 1.0) -> Rubbing:
    made = reality("servo", "", beyond)
    return Rubbing(made, ["servo"], np.array([coulomb]), np.zeros(1), True, np.zeros(1))


def lost(rub: Rubbing, amplitude: float, *, cycles: int = 3) -> float:
    """Energy lost in the last cycle of a slow swing [J]."""
    dt, work = 1e-3, 0.0
    for k in range(1000 * cycles):
        t = k * dt
        q, dq = amplitude * math.sin(2 * math.pi * t), 2 * math.pi * amplitude * math.cos(2 * math.pi * t)
        tau = rub.torque(np.array([q]), np.array([dq]), 0.0, t, dt)[0]
        work -= tau * dq * dt if t >= cycles - 1 else 0.0
    return work


def test_dry_friction_loses_what_coulomb_says_and_gives_way_before_it_slides():
    assert lost(rubbing(), 1.0) == pytest.approx(4.0, rel=0.02)
    rub = rubbing("presliding = 0.01")
    small = rub.torque(np.zeros(1), np.array([1.0]), 0.0, 0.0, 0.001)[0]
    assert small == pytest.approx(-(1 - math.exp(-0.1)))
    for _ in range(100):
        slid = rub.torque(np.zeros(1), np.array([1.0]), 0.0, 0.0, 0.001)[0]
    assert slid == pytest.approx(-1.0, abs=1e-3)


def test_hysteresis_loses_energy_without_any_speed():
    assert lost(rubbing("hysteresis = 0.5\nhysteresis_width = 0.01", coulomb=0.0), 1.0) == pytest.approx(2.0, rel=0.05)
    assert lost(rubbing("", coulomb=0.0), 1.0) == 0.0


def test_gear_friction_depends_on_the_angle_and_grows_with_wear():
    def at(q: float, t: float = 0.0, beyond: str = "gear_ripple = 0.5\ngear_teeth = 10.0") -> float:
        rub = rubbing(beyond)
        rub.z[:] = 1.0
        return -rub.torque(np.array([q]), np.array([1.0]), 0.0, t, 1e-3)[0]

    assert at(math.pi / 20) == pytest.approx(1.5)
    assert at(3 * math.pi / 20) == pytest.approx(0.5)
    assert at(0.0, 10.0, "wear_friction = 0.02") == pytest.approx(1.2)


def test_a_loose_drive_passes_no_torque_within_its_play():
    twin = Twin(reality("servo", "", "backlash = 0.02"))
    motor, zero = twin.plant.motors, np.zeros(1)
    motor.theta[:] = 0.005
    within = motor._two_masses(twin.damp, zero, zero, np.ones(1), 0.0, 1e-4)
    motor.theta[:], motor.omega[:] = 0.03, 0.0
    beyond = motor._two_masses(twin.damp, zero, zero, np.ones(1), 0.0, 1e-4)
    assert within[0] == 0.0
    assert beyond[0] > 0.5


def test_a_belt_stretches_and_the_encoder_sits_on_the_motor():
    twin = Twin(reality("servo", CLEAN + "coulomb = 0.0", "belt_stiffness = 10.0"))
    row = drive(twin, 0.6, 3.0)
    seen, true = reading(twin, row, "joint_pos")[0], float(twin.plant.data.qpos[0])
    assert 10.0 * (seen - true) == pytest.approx(0.49 * 9.81 * 0.1 * math.sin(true), rel=0.05)


def test_feet_grip_more_at_rest_than_when_they_slip_and_less_on_patches():
    twin = Twin(
        reality("go2", "friction = 0.5", "static_ratio = 2.0\nstribeck = 0.1", step=0.001, top='start = "standing"')
    )
    ground, model, data = twin.plant.ground, twin.plant.model, twin.plant.data
    ground.feel(model, data)
    assert model.geom_friction[ground.ids, 0] == pytest.approx(np.ones(4))
    data.qvel[0] = 2.0
    mujoco.mj_forward(model, data)
    ground.feel(model, data)
    assert model.geom_friction[ground.ids, 0] == pytest.approx(np.full(4, 0.5))
    wet = Twin(reality("go2", "friction = 0.5", "patch_friction = 0.2\npatch_share = 1.0", step=0.001))
    wet.plant.ground.feel(wet.plant.model, wet.plant.data)
    assert wet.plant.model.geom_friction[wet.plant.ground.ids, 0] == pytest.approx(np.full(4, 0.1))


def test_rotors_push_more_near_the_ground():
    def lift(height: float) -> float:
        twin = Twin(reality("crazyflie", "", "ground_effect = 1.0"))
        plant = twin.plant
        plant.data.qpos[2] = height
        mujoco.mj_forward(plant.model, plant.data)
        plant.rotors.speed[:] = 0.6
        twin.tell("rotor_target", order(twin, 0.6))
        twin._watch()
        plant.data.xfrc_applied[:] = 0.0
        plant._fly(twin.order)
        return float(plant.data.xfrc_applied[plant.base, 2])

    assert lift(5.0) == pytest.approx(4 * 0.159 * 0.36, rel=1e-3)
    assert lift(0.06) / lift(5.0) == pytest.approx(1 / (1 - (1 / 4) ** 2), rel=1e-3)


def test_a_wandering_delay_has_the_planted_spread_and_memory():
    late = Wandering(
        reality("go2", "", "jitter = 0.01\njitter_memory = 0.1", step=0.001), np.random.default_rng(0), 0.002
    )
    x = np.zeros(40_000)
    for k in range(len(x)):
        late.pass_time()
        x[k] = late.x
    assert x.std() == pytest.approx(0.01, rel=0.1)
    assert np.corrcoef(x[:-50], x[50:])[0, 1] == pytest.approx(math.exp(-1), abs=0.1)


def test_silences_come_in_bursts():
    made = reality("go2", "", "burst_every = 1.0\nburst_length = 0.1", step=0.001)
    silence = Silence(made, np.random.default_rng(1), 0.002)
    lost_now = np.array([silence.next() for _ in range(50_000)])
    begins = np.sum(lost_now[1:] & ~lost_now[:-1])
    assert lost_now.mean() == pytest.approx(0.1 / 1.1, rel=0.25)
    assert lost_now.sum() / begins == pytest.approx(50, rel=0.25)


def test_a_battery_sags_and_recovers_and_heat_and_wear_weaken():
    made = reality(
        "go2",
        "",
        "sag = 0.4\nsag_recovery = 0.5\nheating = 10.0\nheat_weakness = 0.01\nwear_strength = 0.01",
        step=0.001,
    )
    condition = Condition(made, ["a", "b"])
    for _ in range(3000):
        condition.use(np.ones(2), 1e-3)
    assert condition.battery == pytest.approx(0.6, abs=0.01)
    assert condition.temperature[0] == pytest.approx(25 + 600 * (1 - math.exp(-3 / 60)), rel=0.01)
    warm = condition.factor(0.0)[0]
    assert warm == pytest.approx(1 - 0.01 * (condition.temperature[0] - 25))
    assert condition.factor(10.0)[0] == pytest.approx(0.9 * warm)
    for _ in range(3000):
        condition.use(np.zeros(2), 1e-3)
    assert condition.battery == pytest.approx(1.0, abs=0.01)


def test_a_gust_pushes_with_the_planted_spread():
    twin = Twin(reality("go2", "", "gust = 5.0\ngust_memory = 0.02", step=0.001))
    forces = []
    for _ in range(4000):
        twin.plant.data.xfrc_applied[:] = 0.0
        twin.plant._shove()
        forces.append(twin.plant.data.xfrc_applied[twin.plant.base, :3].copy())
    assert np.std(forces, axis=0) == pytest.approx(np.full(3, 5.0), rel=0.2)


def test_a_shove_changes_the_speed_as_planted():
    twin = Twin(reality("crazyflie", "push_every = 0.1\npush_speed = 0.5"))
    plant = twin.plant
    plant.held = False
    plant.model.opt.gravity[:] = 0.0
    plant.model.opt.density = 0.0
    while plant.t < 0.1999:
        plant.step(twin.damp)
    assert np.linalg.norm(plant.data.qvel[:2]) == pytest.approx(0.5, rel=0.03)


# ------------------------------------------------------------------ sensors and starts


def test_the_attitude_is_estimated_from_the_imu_and_not_known():
    attitude, tilt = Attitude(), 0.3
    up = np.array([-math.sin(tilt), 0.0, math.cos(tilt)])
    attitude.update(np.zeros(3), 9.81 * up, 0.002)
    assert attitude.gravity == pytest.approx(-up, abs=1e-6)
    for _ in range(500):
        attitude.update(np.array([0.0, 0.2, 0.0]), np.zeros(3), 0.002)
    turned = tilt + 0.2
    assert attitude.gravity == pytest.approx([math.sin(turned), 0.0, -math.cos(turned)], abs=1e-6)
    assert matrix(attitude.quat) @ matrix(attitude.quat).T == pytest.approx(np.eye(3))


def test_gravity_of_a_standing_robot_is_near_the_truth_and_shows_a_tilted_imu():
    pose_of = {}
    for name, truth in (("straight", ""), ("tilted", "imu_mounting = [0.0, 0.1, 0.0]")):
        twin = Twin(reality("go2", truth, step=0.001, top='start = "standing"'))
        row = drive(twin, [twin.robot.pose[j] for j in twin.robot.joints], 1.5)
        true = -matrix(twin.plant.data.qpos[3:7])[2]
        pose_of[name] = reading(twin, row, "gravity") - true
        assert np.linalg.norm(reading(twin, row, "gravity")) == pytest.approx(1.0)
        assert 0 < np.abs(pose_of["straight"]).max() < 0.03
    assert pose_of["tilted"][0] == pytest.approx(0.1, abs=0.03)


def test_a_crazyflie_is_held_until_its_rotors_carry_it():
    twin = Twin(reality("crazyflie"))
    drive(twin, 0.3, 0.2)
    assert twin.plant.held
    assert twin.plant.data.qpos[2] == 1.0
    drive(twin, 0.9, 0.2)
    assert not twin.plant.held
    assert twin.plant.data.qpos[2] > 1.01
    drive(twin, 0.0, 1.0)
    assert twin.plant.data.qpos[2] < 0.5


def test_go2_starts_crouched_and_can_be_stood_up():
    twin = Twin(reality("go2", step=0.001))
    assert twin.plant.data.qpos[2] < 0.2
    start, pose = twin.plant.angles()[0].copy(), np.array([twin.robot.pose[j] for j in twin.robot.joints])
    for k in range(1, 41):
        drive(twin, start + (pose - start) * k / 40, 0.03)
    assert twin.plant.data.qpos[2] > 0.28


# ------------------------------------------------------------------ the robot's own watchdog


def test_the_watchdog_damps_and_commands_wake_it_and_stop_is_for_good():
    twin = Twin(reality("servo", top="watchdog = 0.05"))
    drive(twin, 0.5, 0.1)
    last = twin.heard
    assert twin.state == DRIVEN
    while twin.state == DRIVEN:
        twin.advance()
    begun = twin.events[-1][0]
    assert twin.state == DAMPING
    assert 0.05 < begun - last <= 0.05 + 2 * twin.plant.dt
    assert twin.order.kp[0] == 0.0
    drive(twin, 0.5, 0.01)
    assert twin.state == DRIVEN
    twin.stop()
    drive(twin, 0.5, 0.1)
    assert twin.order.kp[0] == 0.0
    assert "stopped" in twin.events[-1][1]


def test_a_command_that_is_not_made_of_numbers_is_refused_and_does_not_feed_the_watchdog():
    twin = Twin(reality("servo"))
    twin.tell("joint_pos_target", order(twin, np.nan))
    assert twin.heard == -np.inf
    twin.tell("rotor_target", order(twin, 0.0))
    assert twin.heard == -np.inf
    assert "refused" in twin.events[-1][1]


# ------------------------------------------------------------------ drawing more


def test_a_draw_is_the_same_for_the_same_seed_and_another_for_another():
    assert draw("go2", 3, 0.8) == draw("go2", 3, 0.8)
    assert draw("go2", 3, 0.8) != draw("go2", 4, 0.8)
    assert parse_reality(draw("go2", 0, 0.0), name="d").beyond == {}
    assert all(parse_reality(draw(r, s, 1.0), name="d").beyond for r in ("go2", "qube") for s in range(5))
    with pytest.raises(InputError, match=r"0 .. 1"):
        draw("go2", 0, 1.5)
    with pytest.raises(InputError, match="a robot with a stand-in"):
        draw("g1", 0, 0.5)


@pytest.mark.parametrize("robot", ["go2", "crazyflie", "qube", "servo"])
def test_drawn_robots_live(robot):
    for seed in range(3):
        twin = Twin(parse_reality(draw(robot, seed, 1.0), name="d"), seed=seed)
        row = drive(twin, [twin.robot.pose.get(j, 0.0) for j in twin.plant.outputs] if twin.robot.joints else 0.7, 0.1)
        assert row is None or np.isfinite(row).all()


def test_the_list_names_realities_and_never_their_truth(capsys, tmp_path):
    from surefoot.cli_twin import reality_draw, reality_list

    assert reality_list("go2") == 0
    text = capsys.readouterr().out
    assert "go2/01-nominal" in text
    assert not any(key in text for key in ("friction", "backlash", "burst", "0.35"))
    assert reality_draw("qube", seed=2, level=0.7, out=tmp_path / "r.toml") == 0
    assert load_reality(tmp_path / "r.toml").level == 0.7
    with pytest.raises(InputError, match="no stand-in of 'g1'"):
        reality_list("g1")


# ------------------------------------------------------------------ near the package's own model, and not the same


@pytest.mark.parametrize(("robot", "size", "near"), [("servo", 0.5, 0.05), ("qube", 0.6, 0.15)])
def test_a_nominal_twin_moves_nearly_as_the_packages_own_simulator(robot, size, near):
    from surefoot.robots import load
    from surefoot.sim import Sim

    twin = Twin(load_reality(reality_path(f"{robot}/01-nominal")))
    sim = Sim(load(robot), noise=False)
    ticks = round(sim.control_dt / twin.period)
    paths = []
    for k in range(round(1.0 / sim.control_dt)):
        u = size * math.sin(9.0 * k * sim.control_dt)
        sim.step(np.full((1, 1), u))
        for _ in range(ticks):
            twin.tell(twin.plant.kinds[0], order(twin, u))
            twin.advance()
        paths.append((sim.engine.qpos[0, 0], twin.plant.data.qpos[0]))
    ours, theirs = np.array(paths).T
    assert np.ptp(theirs) > 0.3
    assert 1e-4 < np.abs(ours - theirs).max() < near * np.ptp(theirs)


def test_a_nominal_crazyflie_hovers_under_a_plain_controller():
    twin = Twin(load_reality(reality_path("crazyflie/01-nominal")))
    row, lean = twin.look(), np.zeros(2)
    places = np.array([twin.plant.model.site(name).pos for name in twin.plant.outputs])
    away = []
    for _ in range(1500):
        p, v, down, gyro = (reading(twin, row, n) for n in ("base_pos", "base_vel_world", "gravity", "gyro"))
        a = np.array([1.2, 1.2, 6.0]) * (np.array([0.0, 0.0, 1.0]) - p) - np.array([1.6, 1.6, 4.0]) * v
        lean = np.clip(a[:2] / 9.81, -0.4, 0.4) - down[:2]
        roll, pitch = 2.4e-5 * (-45 * lean[1] - 11 * gyro[0]), 2.4e-5 * (45 * lean[0] - 11 * gyro[1])
        yaw = 3.2e-5 * -3 * gyro[2]
        force = 0.027 * (9.81 + a[2]) / 4 + (roll * np.sign(places[:, 1]) - pitch * np.sign(places[:, 0])) / 0.13
        force += yaw * np.sign(twin.plant.rotors.moment) / (4 * 0.006)
        twin.tell("rotor_target", order(twin, np.sqrt(np.clip(force, 0.002, 0.159) / 0.159)))
        row = twin.advance()
        away.append(np.linalg.norm(twin.plant.data.qpos[:3] - [0.0, 0.0, 1.0]))
    assert not twin.plant.held
    assert max(away[-500:]) < 0.1
