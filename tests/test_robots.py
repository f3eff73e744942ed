"""Loading robots: what a robot file gives, what a bare model gives, and one sentence for every mistake."""

import dataclasses
import re
import shutil
from pathlib import Path

import mujoco
import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.robots import Robot, available, load

NAMES = ["cartpole", "crazyflie", "cube", "double_pendulum", "emps", "g1", "go2", "hopper", "qube", "servo", "so101"]

MODEL = """
<mujoco model="arm">
  <compiler angle="radian"/>
  <worldbody>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0" range="-1 2" damping="0.3" armature="0.02" frictionloss="0.1"/>
      <geom name="upper_rod" type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="1"/>
      <body name="lower" pos="0 0 -0.3">
        <joint name="elbow" axis="0 1 0" range="0 2.5"/>
        <geom name="lower_rod" type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.8"/>
        <site name="tip" pos="0 0 -0.3"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
ROBOT = """
name = "arm"
title = "Two-link arm"
licence = "Apache-2.0"
model = "model.xml"
timestep = 0.002
control_dt = 0.01
joints = ["elbow", "shoulder"]

[pose]
elbow = 0.5

[[actuators]]
joints = "elbow"
model = "pd"
kp = 20.0
kd = 0.5
torque_limit = 10.0

[[actuators]]
joints = ".*"
model = "torque"
torque_limit = 30.0
armature = 0.05

[[sensors]]
kind = "encoder"
of = ".*"
rate = 500.0
noise = 0.001
"""


def write(folder: Path, robot: str = ROBOT, model: str = MODEL) -> Path:
    (folder / "model.xml").write_text(model)
    (folder / "robot.toml").write_text(robot)
    return folder


def test_library_holds_the_eleven_robots():
    assert available() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_library_robot_compiles_and_states_licence_title_and_sources(name):
    robot = load(name)
    model = robot.spec().compile()
    assert robot.name == name
    assert "Apache-2.0" in robot.licence
    assert model.nu == model.nsensor == 0  # actuators and sensors belong to the robot file
    assert model.nmesh == 0
    assert model.opt.timestep == robot.timestep
    assert all(param.source for param in robot.params.values())
    assert all(actuator.source for actuator in robot.actuators)
    assert all(sensor.source for sensor in robot.sensors)


@pytest.mark.parametrize("name", NAMES)
def test_library_params_contain_the_nominal_robot(name):
    for label, param in load(name).params.items():
        if param.nominal is not None:
            assert param.low <= param.nominal <= param.high, label


@pytest.mark.parametrize(("name", "kinds"), [(n, ("kp", "kd", "armature", "damping", "coulomb")) for n in NAMES])
def test_nominal_of_an_actuator_param_is_what_the_robot_file_says(name, kinds):
    robot = load(name)
    for param in robot.params.values():
        for actuator in robot.actuators:
            matches = isinstance(param.of, str) and re.fullmatch(param.of, actuator.name)
            if param.kind in kinds and matches and param.nominal is not None and not param.each:
                figure = getattr(actuator, param.kind)
                assert param.low <= figure <= param.high, (param.kind, actuator.name)


def test_joint_order_of_go2_and_g1_is_the_makers():
    parts = ("hip", "thigh", "calf")
    assert load("go2").joints == tuple(f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in parts)
    g1 = load("g1").joints
    assert len(g1) == 29
    assert (g1[0], g1[6], g1[12], g1[15], g1[22], g1[28]) == (
        "left_hip_pitch_joint", "right_hip_pitch_joint", "waist_yaw_joint",
        "left_shoulder_pitch_joint", "right_shoulder_pitch_joint", "right_wrist_yaw_joint",
    )  # fmt: skip


def test_feet_take_priority_so_that_their_friction_acts():
    for name in ("go2", "g1", "hopper", "cube"):
        robot = load(name)
        model = robot.spec().compile()
        assert robot.feet
        assert all(model.geom(foot).priority[0] == 1 for foot in robot.feet)


def test_a_floor_added_to_any_robot_collides_with_its_feet():
    for name in NAMES:
        spec = load(name).spec()
        floor = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 1])
        assert floor.contype == floor.conaffinity == 1  # no default of ours leaks into what others add


@pytest.mark.parametrize("name", ["go2", "g1", "cube", "hopper"])
def test_default_height_puts_the_lowest_foot_on_the_ground(name):
    robot = load(name)
    model = robot.spec().compile()
    data = mujoco.MjData(model)
    if robot.base:
        data.qpos[2] = robot.height
    for joint, position in robot.pose.items():
        data.joint(joint).qpos = position
    mujoco.mj_kinematics(model, data)
    lowest = np.inf
    for foot in robot.feet:
        geom, up = model.geom(foot), np.abs(data.geom(foot).xmat.reshape(3, 3)[2])
        down = {2: geom.size[0], 3: geom.size[0] + up[2] * geom.size[1], 6: up @ geom.size}  # sphere, capsule, box
        lowest = min(lowest, data.geom(foot).xpos[2] - down[int(geom.type[0])])
    assert lowest == pytest.approx(0.0, abs=1e-3)


def test_few_collisions_are_feet_and_trunk_and_all_adds_the_legs():
    few, every = (load("go2").spec(collisions=which).compile() for which in ("few", "all"))

    def touching(model):
        return {model.geom(i).name for i in range(model.ngeom) if model.geom_conaffinity[i] or model.geom_contype[i]}

    assert touching(few) == {"trunk", "FR_foot", "FL_foot", "RR_foot", "RL_foot"}
    assert {"FL_thigh_shell", "RR_calf_shell"} < touching(every)
    with pytest.raises(InputError, match="'al' is not a collision set"):
        load("go2").spec(collisions="al")


def test_robot_file_gives_order_pose_actuators_and_friction(tmp_path):
    robot = load(write(tmp_path))
    assert robot.joints == ("elbow", "shoulder")
    assert robot.pose == {"elbow": 0.5, "shoulder": 0.0}
    elbow, shoulder = robot.actuators
    assert (elbow.name, elbow.model, elbow.kp, elbow.torque_limit) == ("elbow", "pd", 20.0, 10.0)  # first match wins
    assert (shoulder.model, shoulder.armature, shoulder.damping, shoulder.coulomb) == ("torque", 0.05, 0.3, 0.1)
    model = robot.spec().compile()
    assert model.joint("shoulder").armature[0] == 0.05
    assert model.joint("shoulder").damping[0] == 0.3
    assert robot.sensors[0].of == ("elbow", "shoulder")
    assert robot.sensors[0].figures == {"noise": 0.001}


def test_folder_file_and_name_load_the_same_robot(tmp_path):
    folder = write(tmp_path)
    assert load(folder) == load(folder / "robot.toml") == load(str(folder))


def test_hash_follows_the_content_and_not_the_place(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    write(one)
    shutil.copytree(one, two)
    assert load(one).hash == load(two).hash
    (two / "model.xml").write_text(MODEL.replace('mass="0.8"', 'mass="0.9"'))
    assert load(one).hash != load(two).hash


def test_each_spec_is_a_fresh_copy():
    robot = load("cartpole")
    robot.spec().body("cart").mass = 99.0
    assert robot.spec().compile().body("cart").mass[0] == 1.0


def test_robot_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        load("cartpole").timestep = 1.0  # type: ignore[misc]


def test_bare_model_keeps_its_joints_limits_and_native_actuators(tmp_path):
    actuators = '<actuator><position name="lift" joint="shoulder" kp="7" forcerange="-3 3"/></actuator></mujoco>'
    path = tmp_path / "bare.xml"
    path.write_text(MODEL.replace("</mujoco>", actuators))
    robot = load(path)
    assert robot.joints == ("shoulder", "elbow")
    assert [(a.name, a.model, a.torque_limit) for a in robot.actuators] == [("lift", "native", 3.0)]
    model = robot.spec().compile()
    assert model.actuator("lift").gainprm[0] == 7.0
    np.testing.assert_array_equal(model.joint("elbow").range, [0, 2.5])


def test_robot_files_actuators_replace_those_of_the_model(tmp_path):
    extra = '<actuator><motor name="m" joint="elbow"/></actuator><keyframe><key ctrl="0"/></keyframe></mujoco>'
    robot = load(write(tmp_path, model=MODEL.replace("</mujoco>", extra)))
    assert robot.spec().compile().nu == 0


def test_urdf_loads_through_mujoco(tmp_path):
    path = tmp_path / "stick.urdf"
    path.write_text(
        """<robot name="stick"><link name="base"/><link name="rod"><inertial><origin xyz="0 0 0.1"/><mass value="2"/>
        <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="pivot" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
        <limit lower="-1" upper="1" effort="5" velocity="3"/></joint></robot>"""
    )
    robot = load(path)
    assert robot.joints == ("pivot",)
    assert robot.spec().compile().body_mass.sum() == pytest.approx(2.0)


def test_suspended_robot_hangs_still_with_the_same_legs():
    robot = load("go2").suspended(height=1.2)
    model = robot.spec().compile()
    assert (robot.base, robot.ground, model.nv) == (None, False, 12)
    assert robot.hash != load("go2").hash
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    assert data.body("base").xpos[2] == pytest.approx(1.2)
    with pytest.raises(InputError, match="no free base"):
        load("cartpole").suspended()


def test_a_hung_robot_hangs_level_below_its_hook():
    robot = load("go2").hung(height=1.2, length=0.4)
    assert (robot.base, robot.ground, robot.name) == ("base", False, "go2_hung")
    assert len({robot.hash, load("go2").hash, load("go2").hung().hash, load("go2").suspended().hash}) == 4
    model = robot.spec().compile()
    data = mujoco.MjData(model)
    model.opt.timestep = 0.001
    for name, angle in robot.pose.items():
        joint = model.joint(name)
        data.qpos[joint.qposadr[0]] = angle
        model.jnt_stiffness[joint.id], model.qpos_spring[joint.qposadr[0]] = 1e4, angle
    for _ in range(500):
        mujoco.mj_step(model, data)
    assert data.body("base").xpos == pytest.approx([0.0, 0.0, 1.2], abs=1e-3)
    assert data.body("base").xmat[8] == pytest.approx(1.0, abs=1e-5)
    assert data.ten_length[0] == pytest.approx(0.4, abs=1e-4)


def test_legs_of_a_hung_robot_push_its_base_away():
    robot = load("go2").hung()
    model = robot.spec().compile()
    model.dof_damping[:], model.opt.gravity[:], model.opt.timestep = 0.0, 0.0, 0.0005
    model.tendon_stiffness[:], model.tendon_damping[:] = 0.0, 0.0
    data = mujoco.MjData(model)
    for name, angle in robot.pose.items():
        data.qpos[model.joint(name).qposadr[0]] = angle
    data.qvel[model.joint("FL_thigh_joint").dofadr[0]] = 3.0
    before = total_momentum(model, data)
    for _ in range(200):
        mujoco.mj_step(model, data)
    assert total_momentum(model, data)[0] == pytest.approx(before[0], rel=0.02)
    assert abs(data.qvel[0]) > 1e-3


def test_a_moment_tilts_a_hung_robot_against_its_weight():
    """M + W (x cos θ - h sin θ) = 0, with x and h from the strap to the centre of mass below it."""
    robot = load("go2").hung(lift=0.1)
    spec = robot.spec()
    for joint in [j for j in spec.joints if j.type == mujoco.mjtJoint.mjJNT_HINGE]:
        spec.delete(joint)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    x, _, z = data.subtree_com[0] - data.body("base").xpos - robot.strap.place
    weight = model.body_subtreemass[0] * 9.81
    data.xfrc_applied[model.body("base").id, 4] = moment = 2.0  # [N·m]
    model.dof_damping[:] = 5.0
    for _ in range(4000):
        mujoco.mj_step(model, data)
    tilt = np.arcsin(-data.body("base").xmat[6])
    assert tilt > 0.05
    assert weight * (x * np.cos(tilt) + z * np.sin(tilt)) == pytest.approx(-moment, rel=0.02)


def total_momentum(model, data):
    mujoco.mj_forward(model, data)
    mujoco.mj_subtreeVel(model, data)
    return np.array(data.subtree_linvel[0] * model.body_subtreemass[0])


@pytest.mark.parametrize(("more", "sentence"), [
    ({"length": 0.0}, "length above 0"), ({"drag": -1.0}, "drag not below"), ({"height": float("nan")}, "must be numbers"),
    ({"lift": -0.2}, "would turn over"),
])  # fmt: skip
def test_a_strap_that_cannot_hold_is_refused(more, sentence):
    with pytest.raises(InputError, match=sentence):
        load("go2").hung(**more)
    with pytest.raises(InputError, match="cannot hang"):
        load("cartpole").hung()
    with pytest.raises(InputError, match="hangs from a strap already"):
        load("go2").hung().hung()
    stand = load("go2").hung().suspended()
    assert (stand.name, stand.strap) == ("go2_suspended", None)
    assert stand.spec().compile().ntendon == 0


def test_a_base_that_is_turned_in_its_model_hangs_upright_all_the_same(tmp_path):
    folder = tmp_path / "turned"
    shutil.copytree(load("go2").folder, folder)
    model = folder / "model.xml"
    model.write_text(
        model.read_text().replace('name="base" pos="0 0 0.32"', 'name="base" pos="0 0 0.32" euler="0 0 1"')
    )
    robot = load(folder).hung()
    straight = load("go2").hung()
    assert robot.strap.place == pytest.approx(straight.strap.place, abs=1e-9)
    compiled = robot.spec().compile()
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    tied, hook = data.site("strap").xpos, data.site("hook").xpos
    assert hook - tied == pytest.approx([0.0, 0.0, 0.5], abs=1e-9)


def test_voltage_motor_takes_its_constants_from_stall_torque_and_free_speed(tmp_path):
    voltage = ROBOT.replace(
        'model = "torque"\ntorque_limit = 30.0',
        'model = "voltage"\nvoltage = 24.0\ntorque_limit = 12.0\nspeed_limit = 6.0',
    )
    motor = load(write(tmp_path, voltage)).actuator("shoulder")
    constant, resistance = motor.torque_constant, motor.resistance
    stall, free = (constant / resistance * (24.0 - constant * speed) for speed in (0.0, 6.0))
    assert stall == pytest.approx(12.0)
    assert free == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('title = "Two', 'titel = "Two', "lacks 'title'.*did you mean 'titel'"),
        ("[pose]", "colour = 3\n[pose]", "unknown key 'colour'"),
        ('licence = "Apache-2.0"\n', "", "lacks 'licence'"),
        ("timestep = 0.002", 'timestep = "fast"', "timestep = 'fast' must be a number"),
        ("timestep = 0.002", "timestep = 0", "must be above zero"),
        ("timestep = 0.002", "timestep = inf", "must be a finite number"),
        ("control_dt = 0.01", "control_dt = 0.003", "whole number of timesteps"),
        ('["elbow", "shoulder"]', '["elbow", "sholder"]', "'sholder', not in the model .did you mean 'shoulder'"),
        ('["elbow", "shoulder"]', '["elbow"]', "leaves out shoulder"),
        ('["elbow", "shoulder"]', '["elbow", "elbow"]', "'elbow' more than once"),
        ('["elbow", "shoulder"]', "[1]", "every entry must be text"),
        ("elbow = 0.5", "elbow = 3.0", "elbow = 3.0 lies outside its limits 0 to 2.5"),
        ("elbow = 0.5", "elbo = 0.5", "unknown key 'elbo' .did you mean 'elbow'"),
        ('joints = "elbow"', 'joints = "knee"', "'knee' matches no joint of the model"),
        ('joints = "elbow"', 'joints = "elb(ow"', "no regular expression"),
        ('model = "pd"', 'model = "pid"', "'pid' is no actuator model .did you mean 'pd'"),
        ("kp = 20.0\n", "", "lacks 'kp'"),
        ("kp = 20.0", "kp = -2.0", "kp = -2.0 must be above zero"),
        ("kd = 0.5", "kdd = 0.5", "unknown key 'kdd' .did you mean 'kd'"),
        ('model = "torque"\ntorque_limit', 'model = "voltage"\nspeed_limit', "needs torque_constant and resistance"),
        ('kind = "encoder"', 'kind = "encodr"', "'encodr' is no sensor .did you mean 'encoder'"),
        (
            'kind = "encoder"\nof = ".*"',
            'kind = "imu"\nsite = "tipp"',
            "'tipp' is no site of the model .did you mean 'tip'",
        ),
        ('kind = "encoder"\nof = ".*"', 'kind = "imu"', "lacks 'site'"),
        ("rate = 500.0\n", "", "lacks 'rate'"),
        ("noise = 0.001", "gyro_noise = 0.001", "unknown key 'gyro_noise'"),
        ('model = "model.xml"', 'model = "modl.xml"', "modl.xml does not exist"),
        ('name = "arm"', 'name = "my arm"', "must be one word"),
        ('name = "arm"', "name = arm", "is not valid TOML"),
        ("[pose]", '[options]\nintegrator = "implicitfst"\n[pose]', "'implicitfst'.*did you mean 'implicitfast'"),
        ("[pose]", "[options]\nimpratoi = 2\n[pose]", "unknown key 'impratoi' .did you mean 'impratio'"),
        ("[pose]", '[options]\ndisable = ["isand"]\n[pose]', "'isand' is not a MuJoCo flag .did you mean 'island'"),
        ("timestep", 'base = "upper"\ntimestep', "the body with the free joint is None"),
        ("timestep", 'feet = ["toe"]\ntimestep', "feet names 'toe', no geom of the model"),
    ],
)
def test_mistake_in_a_robot_file_is_one_sentence(tmp_path, old, new, sentence):
    assert old in ROBOT
    with pytest.raises(InputError, match=f"(?s){sentence}") as caught:
        load(write(tmp_path, ROBOT.replace(old, new, 1)))
    assert "\n" not in str(caught.value)


def test_mistake_in_a_param_names_the_param(tmp_path):
    robot = ROBOT + '\n[params.grip]\nkind = "frictoin"\nlow = 0.1\nhigh = 1.0\n'
    with pytest.raises(InputError, match=r"'grip'.*did you mean 'friction'"):
        load(write(tmp_path, robot))


def test_unknown_robot_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'go2'"):
        load("go22")
    with pytest.raises(InputError, match="no such file or folder"):
        load("nowhere/robot.toml")


def test_folder_without_robot_file_and_file_of_another_kind_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no robot\.toml"):
        load(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match="is not a robot"):
        load(tmp_path / "a.txt")


def test_broken_model_file_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="MuJoCo cannot read") as caught:
        load(write(tmp_path, model="<mujoco><worldbody><body></mujoco>"))
    assert "\n" not in str(caught.value)


def test_actuator_is_found_by_name_or_nearest_name():
    robot: Robot = load("go2")
    assert robot.actuator("FL_calf_joint").torque_limit == 45.43
    with pytest.raises(InputError, match="did you mean 'FL_calf_joint'"):
        robot.actuator("FL_calf_jont")
    assert load("cartpole").passive == ("hinge",)
