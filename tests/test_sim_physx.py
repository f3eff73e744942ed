"""PhysX under Sim: the description is right, e acts as it does in MuJoCo, contact is rigid, and what is missing is refused."""

import dataclasses
import json
import sys
import xml.etree.ElementTree as Xml

import mujoco
import numpy as np
import pytest

pytest.importorskip("sapien", reason="needs the extra 'physx': pip install 'surefoot[physx]'")

import surefoot as sf
from rigs import BODY, IMU, SLIDER, WHEEL, rig
from small_robots import BLOCK, robot
from surefoot.bench.examples import example_params
from surefoot.errors import InputError
from surefoot.sim import Sim
from surefoot.sim import physx_scene as scenes
from surefoot.sim.build import build
from surefoot.sim.physx import LACKING, refuse
from surefoot.sim.physx_check import compare, require
from surefoot.sim.record import Recording
from surefoot.sim.urdf import describe
from surefoot.sim.urdf_write import roll_pitch_yaw, write_urdf

G = 9.81
ODD = """
<mujoco model="odd"><compiler angle="radian"/><worldbody>
  <body name="stand" pos="0.1 0.2 0.5" euler="0.3 -0.2 0.4">
    <body name="arm" pos="0 0.1 0" euler="0.2 0.1 -0.5">
      <joint name="lift" type="slide" axis="0 0.6 0.8" ref="0.05"/>
      <joint name="turn" axis="1 2 3" pos="0.02 -0.03 0.04" ref="0.7"/>
      <inertial pos="0.01 0.02 0.1" mass="1.3" fullinertia="0.02 0.015 0.01 0.002 -0.003 0.001"/>
      <body name="plate" pos="0.1 0 0" euler="0 0.5 0">
        <inertial pos="0 0 0.03" mass="0.4" diaginertia="0.001 0.002 0.0015"/>
        <body name="hand" pos="0.05 0.02 0.2">
          <joint name="wrist" axis="0 -1 0" pos="0 0.01 0" range="-2 1" limited="true" armature="0.02"/>
          <inertial pos="0.02 0 0.05" mass="0.6" fullinertia="0.003 0.002 0.0025 0.0004 0 0.0002"/>
        </body>
      </body>
    </body>
  </body>
</worldbody></mujoco>"""
"""Everything that is easily got wrong: welded bodies, two joints on one body, anchors and zeros that are not the origin."""


@pytest.fixture(scope="module")
def go2():
    return sf.load("go2")


@pytest.fixture(scope="module")
def standing(go2):
    """Go2 one second after it was put on its feet in PhysX, at its nominal e."""
    sim = Sim(go2, worlds=2, engine="physx", noise=False, threads=1)
    sim.engine.derived("geom_xpos")
    for _ in range(50):
        sim.step(sim.rest_command)
    return sim


# ------------------------------------------------------------------ the description


def test_the_description_of_an_odd_model_moves_as_the_model_does():
    model = mujoco.MjModel.from_xml_string(ODD)
    tree = describe(model)
    assert [link.name for link in tree.links] == ["world", "arm_lift", "arm", "hand"]
    assert sum(link.mass for link in tree.links) == pytest.approx(2.3)
    assert max(compare(tree, model).values()) < 1e-5


@pytest.mark.parametrize("name", ["go2", "g1", "hopper", "so101"])
def test_robots_agree_with_mujoco_without_contact(name):
    model = build(sf.load(name), sf.Params()).model
    assert max(compare(describe(model), model).values()) < 5e-5


def _swapped(tree, model):
    a, b = (next(i for i, x in enumerate(tree.links) if x.name == n) for n in ("FR_thigh", "FL_thigh"))
    links = list(tree.links)
    joints = links[a].joint, links[b].joint
    for i, other in ((a, joints[1]), (b, joints[0])):
        mixed = dataclasses.replace(links[i].joint, dof=other.dof, at=other.at)
        links[i] = dataclasses.replace(links[i], joint=mixed)
    return dataclasses.replace(tree, links=tuple(links)), model


def _turned_inertia(tree, model):
    links = list(tree.links)
    i = next(i for i, x in enumerate(links) if x.name == "FR_calf")
    links[i] = dataclasses.replace(links[i], inertia=np.diag(np.diag(links[i].inertia)[[2, 0, 1]]))
    return dataclasses.replace(tree, links=tuple(links)), model


def _backwards(tree, model):
    links = list(tree.links)
    i = next(i for i, x in enumerate(links) if x.name == "RL_calf")
    links[i] = dataclasses.replace(links[i], joint=dataclasses.replace(links[i].joint, axis=-links[i].joint.axis))
    return dataclasses.replace(tree, links=tuple(links)), model


@pytest.mark.parametrize(
    ("mistake", "joint"), [(_swapped, "thigh"), (_turned_inertia, "FR_calf"), (_backwards, "RL_calf")]
)
def test_a_mistake_in_the_description_is_refused_with_its_joint(go2, mistake, joint):
    model = build(go2, sf.Params()).model
    with pytest.raises(
        InputError, match=r"joint '\w+' is off by [\d.e-]+ rad within 1 s where 0.0001 is allowed"
    ) as found:
        require(*mistake(describe(model), model))
    assert joint in str(found.value)


def test_a_forgotten_armature_is_refused(go2, monkeypatch):
    model = build(go2, sf.Params()).model
    load = scenes.Scene.load
    monkeypatch.setattr(scenes.Scene, "load", lambda self, column, inertia: load(self, column, 0.0))
    with pytest.raises(InputError, match="armature"):
        require(dataclasses.replace(describe(model), name="another"), model)


def test_what_a_tree_cannot_hold_is_refused():
    ball = '<mujoco><worldbody><body><joint name="b" type="ball"/><geom size="1"/></body></worldbody></mujoco>'
    with pytest.raises(InputError, match="'b' is a ball"):
        describe(mujoco.MjModel.from_xml_string(ball))
    two = "<mujoco><worldbody>" + 2 * '<body><freejoint/><geom size="1"/></body>' + "</worldbody></mujoco>"
    with pytest.raises(InputError, match="more than one body hangs on the world"):
        describe(mujoco.MjModel.from_xml_string(two))
    egg = '<mujoco><worldbody><body><freejoint/><geom type="ellipsoid" size="1 2 3"/></body></worldbody></mujoco>'
    with pytest.raises(InputError, match="a shape that cannot be exported"):
        describe(mujoco.MjModel.from_xml_string(egg))


# ------------------------------------------------------------------ URDF


def test_a_urdf_file_read_by_somebody_else_is_the_same_robot(tmp_path):
    model = mujoco.MjModel.from_xml_string(ODD)
    tree = write_urdf(model, tmp_path / "odd.urdf")
    spec = mujoco.MjSpec.from_file(str(tmp_path / "odd.urdf"))
    spec.compiler.boundmass, spec.compiler.boundinertia = 1e-9, 1e-12
    read = spec.compile()
    for joint in tree.joints:
        read.dof_armature[read.joint(joint.name).dofadr[0]] = model.dof_armature[joint.dof]
    paths = []
    for m in (model, read):
        m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
        m.opt.timestep, m.opt.integrator = 0.001, int(mujoco.mjtIntegrator.mjINT_RK4)
        data = mujoco.MjData(m)
        at, dofs = (np.array([int(getattr(m.joint(j.name), a)[0]) for j in tree.joints]) for a in ("qposadr", "dofadr"))
        data.qpos[at], data.qvel[dofs] = [0.1, 0.4, -0.3], [0.2, 1.0, -2.0]
        for _ in range(300):
            mujoco.mj_step(m, data)
        paths.append(data.qpos[at].copy())
    assert paths[0] == pytest.approx(paths[1], abs=1e-6)


def test_the_urdf_of_go2_has_its_joints_limits_and_shapes(go2, tmp_path):
    model = Sim(go2, worlds=1, threads=1).model
    write_urdf(model, tmp_path / "go2.urdf", name="dog")
    root = Xml.parse(tmp_path / "go2.urdf").getroot()
    assert root.get("name") == "dog"
    joints = {j.get("name"): j for j in root.findall("joint")}
    assert set(joints) == set(go2.joints)
    limit = joints["FL_calf_joint"].find("limit")
    assert (float(limit.get("effort")), float(limit.get("lower"))) == (45.43, -2.7227)
    assert sum(float(m.get("value")) for m in root.iter("mass")) == pytest.approx(model.body_mass.sum())
    assert len(root.findall(".//collision/geometry/sphere")) == 4
    assert "armature 0.01" in (tmp_path / "go2.urdf").read_text()
    with pytest.raises(InputError, match=r"ends in \.urdf"):
        write_urdf(model, tmp_path / "go2.xml")


@pytest.mark.parametrize("angles", [(0.3, -0.4, 2.0), (0.2, np.pi / 2, 0.0), (-0.5, -np.pi / 2, 0.0)])
def test_angles_of_urdf_turn_back_into_the_rotation(angles):
    def matrix(r, p, y):
        (cr, cp, cy), (sr, sp, sy) = np.cos([r, p, y]), np.sin([r, p, y])
        yaw, pitch = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]]), np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
        return yaw @ pitch @ np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])

    R = matrix(*angles)
    assert matrix(*roll_pitch_yaw(R)) == pytest.approx(R, abs=1e-7)


# ------------------------------------------------------------------ e acts as it does in MuJoCo

HANG = """
<body name="arm" pos="0 0 1"><inertial pos="0 0.01 -0.25" mass="0.8" fullinertia="0.006 0.007 0.002 0.0003 0.0002 -0.0004"/>
  <joint name="shoulder" axis="0 1 0"/>
  <body name="fore" pos="0 0 -0.4"><inertial pos="0.01 0 -0.15" mass="0.5" diaginertia="0.003 0.003 0.0008"/>
    <joint name="elbow" axis="0.6 0.8 0"/></body></body>"""
PD = 'model = "pd"\nkp = 12.0\nkd = 0.4\ntorque_limit = 4.0\narmature = 0.01\ndamping = 0.1\ncoulomb = 0.05\n'
KINDS = {
    "kp": sf.kp(".*", low=6.0, high=20.0), "kd": sf.kd(".*", low=0.1, high=1.5),
    "strength": sf.strength(".*", low=0.5, high=1.0), "torque_limit": sf.torque_limit(".*", low=0.8, high=3.0),
    "armature": sf.armature(".*", low=0.002, high=0.05), "damping": sf.damping(".*", low=0.0, high=0.8),
    "coulomb": sf.coulomb(".*", low=0.0, high=0.6), "mass": sf.mass("arm", low=0.4, high=1.6),
    "com": sf.com("fore", axis="x", low=-0.05, high=0.08), "gravity": sf.gravity(low=3.0, high=12.0),
    "payload_mass": sf.payload_mass("fore", low=0.01, high=0.7), "slope": sf.slope(low=-0.4, high=0.4),
    "command_delay": sf.command_delay(low=0.0, high=0.04),
}  # fmt: skip


def swung(robot, params: sf.Params, e, engine: str) -> np.ndarray:
    """Joint angles (steps, 2, 2) of two worlds, driven alike."""
    sim = Sim(robot, params, worlds=2, engine=engine, noise=False, threads=1)
    sim.apply(e)
    sim.reset()
    out = []
    for k in range(200):
        sim.step(np.array([0.9 * np.sin(0.03 * k), 0.7 * np.sin(0.05 * k + 1.0)]))
        out.append(sim.engine.qpos.copy())
    return np.array(out)


@pytest.mark.parametrize("kind", KINDS)
def test_a_param_does_in_physx_what_it_does_in_mujoco(kind, tmp_path):
    arm, param = rig(tmp_path, HANG, motor=PD), KINDS[kind]
    params = (
        sf.Params(one=param) if kind == "coulomb" else sf.Params(one=param, dry=sf.coulomb(".*", low=0.0, high=1.0))
    )
    e = {"one": np.array([param.low, param.high])}
    ours, theirs = (swung(arm, params, e, engine) for engine in ("cpu", "physx"))
    effect = np.abs(ours[:, 1] - ours[:, 0]).max()
    assert effect > 0.02
    assert np.abs(ours - theirs).max() < 0.005 * effect
    sim = Sim(arm, params, worlds=2, engine="physx", threads=1)
    sim.apply(e)
    assert sim.e["one"] == pytest.approx(e["one"], rel=1e-6)


PHYSICAL = ("contact", "geometry", "inertia", "actuator", "environment", "process")
"""Groups whose Params reach the engine; the others are Sim's own arrays."""


@pytest.mark.parametrize(
    "kind",
    [k for k, about in sf.KINDS.items() if "physx" in about.engines and about.group in PHYSICAL and k not in LACKING],
)
def test_every_kind_that_says_physx_moves_go2_and_reads_back(kind, go2):
    often = sf.Params(push=sf.push(low=0.0, high=1.0, interval=0.1))
    params = often if kind == "push" else example_params(kind)
    sim = Sim(go2, params, worlds=2, engine="physx", threads=1, seed=3)
    e = {name: np.broadcast_to([[p.low], [p.high]], (2, max(1, np.size(sim.e[name][0])))) for name, p in params.items()}
    e = {name: value.reshape(sim.e[name].shape) for name, value in e.items()}
    sim.apply(e)
    sim.reset()
    assert all(sim.e[name] == pytest.approx(value, rel=1e-6, abs=1e-9) for name, value in e.items())
    sim.engine.qvel[:, :2] = [0.8, 0.4]
    for k in range(30):
        sim.step(sim.rest_command + 0.4 * np.sin(0.9 * k + np.arange(12)))
    assert sim.alive.all()
    assert np.abs(sim.engine.qpos[0] - sim.engine.qpos[1]).max() > 1e-5


def test_the_ten_inertial_parameters_act_alike(tmp_path):
    arm = rig(tmp_path, HANG, motor=PD)
    params = sf.Params(body=sf.inertia("fore", low=-0.5, high=0.5))
    row = np.array([0.2, 0.3, -0.2, 0.1, 0.1, -0.1, 0.05, 0.02, -0.03, 0.05])
    e = {"body": np.stack([0 * row, row])}
    ours, theirs = (swung(arm, params, e, engine) for engine in ("cpu", "physx"))
    effect = np.abs(ours[:, 1] - ours[:, 0]).max()
    assert effect > 0.02
    assert np.abs(ours - theirs).max() < 0.005 * effect


def test_dry_friction_stops_a_wheel_and_then_holds_it(tmp_path):
    motor = 'model = "torque"\ntorque_limit = 5.0\narmature = 0.01\ncoulomb = 0.2\n'
    sim = Sim(rig(tmp_path, WHEEL, motor=motor), sf.Params(), engine="physx", noise=False, threads=1)
    sim.reset(qvel=np.array([3.0]))
    for _ in range(60):
        sim.step(np.zeros(1))
    assert sim.engine.qvel[0, 0] == pytest.approx(3.0 - 0.2 / 0.03 * 0.3, rel=1e-3)
    for _ in range(60):
        sim.step(np.zeros(1))
    held = sim.engine.qpos[0, 0]
    for _ in range(200):
        sim.step(np.array([0.19]))
    assert abs(sim.engine.qpos[0, 0] - held) < 1e-4
    for _ in range(20):
        sim.step(np.array([0.5]))
    assert sim.engine.qvel[0, 0] == pytest.approx(0.3 / 0.03 * 0.1, rel=1e-3)


def test_a_stiff_motor_is_stable_at_a_long_step_and_reports_its_torque(tmp_path):
    motor = 'model = "pd"\nkp = 2000.0\nkd = 60.0\narmature = 0.001\ntorque_limit = 40.0\n'
    wheel = rig(tmp_path, WHEEL, motor=motor, dt=0.005)
    sim = Sim(wheel, sf.Params(), engine="physx", noise=False, threads=1)
    sim.step(np.array([1.0]))
    assert sim.engine.derived("actuator_force")[0, 0] == pytest.approx(40.0)
    for _ in range(200):
        sim.step(np.array([1.0]))
    assert sim.engine.qpos[0, 0] == pytest.approx(1.0, abs=1e-4)
    assert abs(sim.engine.qvel[0, 0]) < 1e-3


def test_a_slide_follows_a_steady_force_and_stops_at_its_limit(tmp_path):
    limited = SLIDER.replace('axis="1 0 0"', 'axis="1 0 0" range="-0.5 0.5" limited="true"')
    sim = Sim(rig(tmp_path, limited, motor='model = "torque"\n'), sf.Params(), engine="physx", noise=False, threads=1)
    for _ in range(40):
        sim.step(np.array([4.0]))
    assert sim.engine.qpos[0, 0] == pytest.approx(0.5 * 2.0 * 0.2**2, rel=0.01)
    for _ in range(200):
        sim.step(np.array([4.0]))
    assert sim.engine.qpos[0, 0] == pytest.approx(0.5, abs=1e-3)


# ------------------------------------------------------------------ contact


@pytest.fixture
def block(tmp_path):
    return robot(tmp_path, BLOCK, base="block", height=0.02, timestep=0.001, control_dt=0.02, options="")


def test_a_block_slides_with_the_friction_it_was_given(block):
    params = sf.Params(mu=sf.friction("block", low=0.05, high=1.5))
    sim = Sim(block, params, worlds=3, engine="physx", noise=False, threads=1)
    mu = np.array([0.1, 0.4, 0.9])
    sim.apply({"mu": mu})
    sim.reset()
    for _ in range(5):
        sim.step(sim.rest_command)
    sim.engine.qvel[:, 0] = 2.0
    for _ in range(5):
        sim.step(sim.rest_command)
    assert (2.0 - sim.engine.qvel[:, 0]) / (0.1 * G) == pytest.approx(mu, rel=0.01)


def test_a_block_slips_on_a_slope_steeper_than_its_friction(block):
    params = sf.Params(mu=sf.friction("block", low=0.05, high=1.5), rise=sf.slope(low=-0.6, high=0.6))
    sim = Sim(block, params, worlds=2, engine="physx", noise=False, threads=1)
    sim.apply({"mu": np.full(2, 0.3), "rise": np.arctan([0.25, 0.35])})
    sim.reset()
    for _ in range(25):
        sim.step(sim.rest_command)
    angle = np.arctan(0.35)
    assert abs(sim.engine.qvel[0, 0]) < 1e-3
    assert sim.engine.qvel[1, 0] == pytest.approx(-G * (np.sin(angle) - 0.3 * np.cos(angle)) * 0.5, rel=0.03)


def test_feet_carry_the_robot_and_do_not_sink(standing, go2):
    readings = standing.sense(noisy=False)
    weight = standing.model.body_mass.sum() * G
    assert readings["foot_force"].sum(1) == pytest.approx(weight, rel=0.03)
    assert (standing.engine.derived("sensordata")[:, 5] < 0).all()
    feet = [standing.model.geom(foot).id for foot in go2.feet]
    gap = standing.engine.derived("geom_xpos")[:, feet, 2] - standing.model.geom_size[feet, 0]
    assert np.abs(gap).max() < 1e-4
    assert standing.engine.scenes[0].depth() < 1e-4
    assert 0.28 < standing.engine.qpos[0, 2] < 0.32


def test_the_imu_feels_gravity_at_rest_and_turning_in_the_air(standing, tmp_path):
    readings = standing.sense(noisy=False)
    assert readings["accel"] == pytest.approx(np.tile([0.0, 0.0, G], (2, 1)), abs=0.5)
    assert np.abs(readings["gyro"]).max() < 0.05
    body = rig(tmp_path, BODY.format(place='pos="0.1 0 0.05"'), sensors=IMU, more='base = "base"\nimu = "imu"')
    turning = []
    for engine in ("cpu", "physx"):
        sim = Sim(body, sf.Params(), engine=engine, noise=False, threads=1)
        sim.reset(qpos=np.array([0, 0, 1.0, 1, 0, 0, 0]), qvel=np.array([1.0, 0, 2.0, 0.5, -2.0, 3.0]))
        for _ in range(20):
            sim.step(np.zeros(0))
        found = sim.sense()
        turning.append(np.concatenate([found["gyro"][0], found["accel"][0], sim.engine.qpos[0], sim.engine.qvel[0]]))
    assert turning[1] == pytest.approx(turning[0], abs=0.02)


def test_pushes_and_wrenches_move_the_base_as_in_mujoco(tmp_path):
    body = rig(tmp_path, BODY.format(place=""), sensors="", more='base = "base"')
    params = sf.Params(
        force=sf.wrench(low=-5.0, high=5.0), twist=sf.moment(low=-1.0, high=1.0), air=sf.cable_drag(low=0.0, high=2.0)
    )
    ends = []
    for engine in ("cpu", "physx"):
        sim = Sim(body, params, engine=engine, noise=False, threads=1)
        sim.apply(
            {"force": np.array([[1.0, -2.0, 9.0]]) / 2, "twist": np.array([[0.01, 0.0, -0.02]]), "air": np.ones(1)}
        )
        sim.reset()
        for _ in range(60):
            sim.step(np.zeros(0))
        sim.engine.qvel[0, :2] += 0.5
        for _ in range(20):
            sim.step(np.zeros(0))
        ends.append(np.concatenate([sim.engine.qpos[0], sim.engine.qvel[0]]))
    assert np.abs(ends[0][7:]).max() > 1.0
    assert ends[1] == pytest.approx(ends[0], abs=0.01)


# ------------------------------------------------------------------ as every Sim


def walked(sim: Sim, steps: int = 15) -> np.ndarray:
    sim.steps = 0
    sim.apply(sim.params.prior().sample(sim.worlds, 3))
    sim.reset()
    rng, out = np.random.default_rng(0), []
    for _ in range(steps):
        sim.step(sim.rest_command + 0.3 * rng.standard_normal(12))
        out.append(np.concatenate([sim.engine.qpos, sim.sense()["joint_torque"]], axis=1))
    return np.array(out)


def test_runs_repeat_bit_for_bit_in_the_same_sim_and_in_another(go2):
    sims = [Sim(go2, worlds=2, engine="physx", seed=1, threads=1) for _ in range(2)]
    first = walked(sims[0])
    assert (walked(sims[0]) == first).all()
    assert (walked(sims[1]) == first).all()
    assert np.abs(first[-1, 0] - first[-1, 1]).max() > 0.01


def test_a_snapshot_goes_on_nearly_as_before(standing):
    saved = standing.snapshot()
    ends = []
    for _ in range(2):
        standing.restore(saved)
        for k in range(10):
            standing.step(standing.rest_command + 0.1 * np.sin(k + np.arange(12)))
        ends.append(standing.engine.qpos.copy())
    assert ends[0] == pytest.approx(ends[1], abs=1e-3)
    standing.restore(saved)


def test_some_worlds_are_reset_while_others_go_on(go2):
    sim = Sim(go2, sf.Params(), worlds=3, engine="physx", noise=False, threads=1)
    for _ in range(5):
        sim.step(sim.rest_command)
    before = sim.engine.qpos.copy()
    sim.reset([1])
    assert (sim.engine.qpos[[0, 2]] == before[[0, 2]]).all()
    assert sim.engine.qpos[1] == pytest.approx(sim.start_qpos)
    sim.step(sim.rest_command)
    assert (sim.engine.qpos[0] == sim.engine.qpos[2]).all()
    assert sim.time == pytest.approx([0.12, 0.02, 0.12])


def test_a_world_that_blows_up_is_frozen_named_and_can_be_reset(go2):
    sim = Sim(go2, sf.Params(), worlds=2, engine="physx", noise=False, threads=1)
    sim.engine.qvel[1, 6:] = 5e4
    with pytest.warns(RuntimeWarning, match="1 of 2 worlds"):
        sim.step(sim.rest_command)
    assert sim.alive.tolist() == [True, False]
    sim.reset([1])
    for _ in range(5):
        sim.step(sim.rest_command)
    assert sim.alive.all()
    assert np.abs(sim.engine.qpos[1, 7:] - sim.rest_command).max() < 0.3


def test_a_log_of_legs_in_the_air_is_replayed_on_physx_and_shows_the_planted_e(go2):
    hung = dataclasses.replace(go2.suspended(), timestep=0.001)
    keep = ("kp", "damping", "coulomb", "command_delay")
    params = sf.Params(**{name: hung.params[name] for name in keep})
    sim = Sim(hung, params, noise=False, threads=1)
    planted = {"kp": np.array([36.0]), "damping": np.array([0.7])}
    sim.apply(planted)
    sim.reset()
    recording = Recording(sim)
    for k in range(40):
        u = sim.rest_command + (0.3 * np.sin(0.2 * k + np.arange(12)) if k > 4 else 0.0)
        recording.add(sim.sense(), u)
        sim.step(u)
    other = Sim(hung, params, engine="physx", noise=False, threads=1)
    e = {"kp": np.array([36.0, 40.0, 36.0]), "damping": np.array([0.7, 0.7, 2.0])}
    e |= {name: np.repeat(sim.e[name], 3) for name in ("coulomb", "command_delay")}
    found = other.replay(recording.log(), e, qpos=sim.start_qpos, qvel=np.zeros(sim.model.nv))
    miss = np.sqrt((found.gap("joint_pos") ** 2).mean(axis=(1, 2)))
    assert miss[0] < 2e-4
    assert miss[1:].min() > 10 * miss[0]


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("param", "says"),
    [
        (sf.softness(".*_foot", low=0.02, high=0.05), "of kind softness .* rigid"),
        (sf.backlash(".*_joint", low=0.001, high=0.02), "of kind backlash .* joints"),
        (sf.radius(".*_foot", low=0.02, high=0.03), "of kind radius .* built once"),
        (sf.torsional_friction(".*_foot", low=0.0, high=0.1), "of kind torsional_friction"),
        (sf.timestep(low=0.001, high=0.005), "of kind timestep .* its own solver"),
    ],
)
def test_a_param_that_physx_has_not_is_refused_by_name(param, says):
    with pytest.raises(InputError, match=f"param 'odd' {says}"):
        refuse(sf.Params(odd=param))


def test_sim_refuses_a_param_that_physx_has_not(go2):
    with pytest.raises(
        InputError, match="param 'spin' of kind torsional_friction is not available on the physx engine"
    ):
        Sim(go2, sf.Params(spin=sf.torsional_friction(".*_foot", low=0.0, high=0.1)), engine="physx", threads=1)


def test_parts_of_a_model_that_physx_has_not_are_refused(go2, tmp_path):
    with pytest.raises(InputError, match="air around it"):
        Sim(sf.load("crazyflie"), sf.Params(), engine="physx", threads=1)
    motor = 'model = "pd"\nkp = 5.0\nkd = 0.1\nvoltage = 12.0\nspeed_limit = 30.0\ntorque_limit = 2.0\n'
    wheel = rig(tmp_path, WHEEL, motor=motor)
    with pytest.raises(InputError, match="'heat' of kind thermal is not available on the physx engine"):
        Sim(wheel, sf.Params(heat=sf.thermal(".*", low=1.0, high=5.0)), engine="physx", threads=1)
    sim = Sim(go2, sf.Params(), engine="physx", threads=1)
    with pytest.raises(InputError, match="'qfrc_bias' is not available on the physx engine"):
        sim.engine.derived("qfrc_bias")
    with pytest.raises(InputError, match="cannot be recorded"):
        sim.advance(np.zeros((1, 1, 12)), record=("qacc",))


def test_without_sapien_one_sentence_says_what_to_install(go2, monkeypatch):
    scenes.library.cache_clear()
    monkeypatch.setitem(sys.modules, "sapien", None)
    try:
        with pytest.raises(InputError, match=r"needs the extra 'physx' .* pip install 'surefoot\[physx\]'"):
            Sim(go2, sf.Params(), engine="physx", threads=1)
    finally:
        scenes.library.cache_clear()


def test_rotors_lift_as_in_mujoco():
    drone = sf.load("crazyflie")
    still = dataclasses.replace(drone, options={**drone.options, "density": 0.0, "viscosity": 0.0})
    ends = []
    for engine in ("cpu", "physx"):
        sim = Sim(still, sf.Params(), engine=engine, noise=False, threads=1)
        for k in range(40):
            sim.step(0.65 + 0.02 * np.sin(0.3 * k + np.arange(4)))
        ends.append(sim.engine.qpos[0].copy())
    assert np.abs(ends[0] - [0, 0, 1, 1, 0, 0, 0]).max() > 0.05
    assert ends[1] == pytest.approx(ends[0], abs=3e-3)


# ------------------------------------------------------------------ as a judge and as a bench


def test_a_policy_is_judged_on_physx_from_the_command_line(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch", reason="needs the extra 'learn'")
    from surefoot.cli import run
    from surefoot.evaluate.runs import task_of
    from surefoot.learn import PPO, train
    from surefoot.tasks import World, hop
    from surefoot.tasks.hop import Hop

    monkeypatch.setattr(hop, "Hop", lambda: Hop(episode=0.2))
    robot, task = task_of("hopper")
    tiny = PPO(horizon=4, epochs=1, minibatches=1, hidden=(8,), critic_hidden=(8,), warmup=0)
    world = World(task, Sim(robot, worlds=4, threads=1), seed=0)
    train(world, tiny, run=tmp_path / "run", steps=16, seed=0, about={"robot": "hopper"}, say=lambda line: None)
    assert run(["evaluate", str(tmp_path / "run"), "--worlds", "2", "--engine", "physx", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["engine"] == "physx"
    assert run(["evaluate", str(tmp_path / "run"), "--engine", "fizz"]) == 2
    assert "'fizz' is not one of" in capsys.readouterr().err


@pytest.mark.slow
def test_stiff_contact_is_nearer_to_physx_than_the_default(monkeypatch):
    from surefoot.bench import BENCHES
    from surefoot.bench import physx as bench

    assert BENCHES["physx"].module == "surefoot.bench.physx"
    monkeypatch.setattr(bench, "MOTIONS", 1)
    marks = {mark.name: mark for mark in bench.contact()}
    default, stiff = (marks[f"contact: MuJoCo {n} to PhysX"].value for n in ("default", "stiff, elliptic"))
    assert 15 < default < 40
    assert stiff < 3
    assert marks["contact: default over stiff"].holds


def test_the_interval_of_a_kept_share_covers_it_and_shrinks():
    from surefoot.bench.physx import ratio_interval

    rng = np.random.default_rng(1)
    for n, width in ((100, 0.15), (2000, 0.035)):
        here = (rng.random(n) < 0.9).astype(float)
        there = here * (rng.random(n) < 0.95)
        low, high = ratio_interval(there, here)
        assert low < 0.95 < high
        assert high - low < width
