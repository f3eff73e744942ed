"""`robot check`: every planted fault is found and named, our own robots have no error, meshes go without a trace."""

import re
import struct
from pathlib import Path

import mujoco
import pytest

from surefoot.errors import InputError
from surefoot.robots import available, check, load, strip_meshes
from surefoot.robots.strip import dynamics_difference

MODEL = """
<mujoco model="biped">
  <compiler angle="radian"/>
  <worldbody>
    <body name="trunk" pos="0 0 1">
      <freejoint name="root"/>
      <geom name="trunk" type="box" size="0.1 0.1 0.1" mass="8"/>
      <body name="left_leg" pos="0 0.1 0">
        <joint name="left_hip" axis="0 1 0" range="-1 1"/>
        <geom name="left_rod" type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03" mass="2"/>
      </body>
      <body name="right_leg" pos="0 -0.1 0">
        <joint name="right_hip" axis="0 1 0" range="-1 1"/>
        <geom name="right_rod" type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03" mass="2"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
ROBOT = """
name = "biped"
title = "Two legs"
licence = "Apache-2.0"
model = "model.xml"
base = "trunk"
timestep = 0.005
control_dt = 0.02
joints = ["left_hip", "right_hip"]
height = 1.0
[options]
integrator = "implicitfast"
[[actuators]]
joints = ".*"
model = "pd"
kp = 40.0
kd = 1.0
torque_limit = 33.5
armature = 0.01
[params.trunk_mass]
kind = "mass"
of = "trunk"
low = 6.0
high = 10.0
source = "scales"
"""


def biped(folder: Path, *edits: tuple[str, str]) -> Path:
    """The sound robot above, with planted faults: each edit replaces one text in either file."""
    model, robot = MODEL, ROBOT
    for old, new in edits:
        assert old in model or old in robot, old
        model, robot = model.replace(old, new, 1), robot.replace(old, new, 1)
    (folder / "model.xml").write_text(model)
    (folder / "robot.toml").write_text(robot)
    return folder


@pytest.mark.parametrize("name", available())
def test_library_robot_has_no_error(name):
    assert [str(finding) for finding in check(name) if finding.level == "error"] == []


def test_sound_robot_has_no_finding(tmp_path):
    assert check(biped(tmp_path)) == []


LEFT_ROD = '<geom name="left_rod" type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03" mass="2"/>'
LIGHT_ROD = LEFT_ROD.replace(' mass="2"', ' mass="0"')


@pytest.mark.parametrize(
    ("edits", "level", "what", "where"),
    [
        (
            [(LEFT_ROD, '<inertial pos="0 0 -0.2" mass="2" diaginertia="1 0.1 0.1"/>' + LIGHT_ROD)],
            "error", "triangle inequality", "",
        ),
        (
            [(LEFT_ROD, '<inertial pos="0 0 -0.2" mass="2" diaginertia="27 27 1"/>' + LIGHT_ROD)],
            "error", "radius of gyration.*exceeds the reach", "left_leg",
        ),
        (
            [(LEFT_ROD, '<inertial pos="0 0 -0.2" mass="2" diaginertia="1e-6 1e-6 1e-6"/>' + LIGHT_ROD)],
            "warning", "radius of gyration.*tiny", "left_leg",
        ),
        ([('mass="8"', 'mass="800"')], "warning", "kg in shapes of 8 litres is 1e\\+05", "trunk"),
        ([('mass="2"', 'mass="2.4"')], "warning", "left_leg has 2.4 kg but right_leg has 2 kg", "left_leg"),
        ([('range="-1 1"', 'range="1 -1"')], "error", "limits of a joint are reversed: 1 is above -1", "left_hip"),
        ([('range="-1 1"', 'limited="true" range="1 -1"')], "error", "limits of a joint are reversed", ""),
        ([(' range="-1 1"', "")], "note", "driven to positions but has no limits", "left_hip"),
        ([('range="-1 1"', 'range="-60 60"')], "warning", "more than three turns", "left_hip"),
        ([("height", "[pose]\nleft_hip = 2.0\n[bin]\nheight")], "error", "default pose lies outside", ""),
        ([('<geom name="trunk"', "<geom")], "warning", "1 colliding geoms have no name", "model"),
        (
            [("</mujoco>", '<actuator><position joint="left_hip" kp="80" kv="1"/></actuator></mujoco>')],
            "error", "kp is 80 in the model but 40 in the robot file", "left_hip",
        ),
        ([('range="-1 1"', 'range="-1 1" damping="0.7"'), ("armature", "damping = 0.1\narmature")],
         "warning", "damping is 0.7 in the model but 0.1", "left_hip"),
        ([("kp = 40.0", "kp = 40000.0")], "error", "ω dt = .* at a time step of 0.005", "left_hip"),
        ([("kp = 40.0", "kp = 900.0")], "warning", "ω dt = ", "left_hip"),
        ([("implicitfast", "Euler"), ("kd = 1.0", "kd = 40.0")], "error", "kd dt / I = .*explicit", "left_hip"),
        ([('mass="2"', 'mass="2" solref="0.004 1"')], "warning", "contact time constant of 0.004 s", "geoms"),
        ([("torque_limit = 33.5\n", "")], "warning", "no torque limit", "actuators"),
        ([("torque_limit = 33.5", "torque_limit = 1000")], "warning", "beyond any motor", "actuators"),
        ([('["left_hip", "right_hip"]', '["right_hip", "left_hip"]')], "note", "first at 'right_hip'", "joints"),
        ([('of = "trunk"', 'of = "trnk"')], "error", "no body of the robot .did you mean 'trunk'", "params.trunk_mass"),
        ([('source = "scales"', "")], "note", "its range has no source", "params.trunk_mass"),
        ([("<worldbody>", '<worldbody><geom name="floor" type="plane" size="1 1 1"/>')],
         "warning", "a floor of its own", "worldbody"),
        ([("kp = 40.0", "kp = forty")], "error", "is not valid TOML", ""),
    ],
)  # fmt: skip
def test_planted_fault_is_found_and_named(tmp_path, edits, level, what, where):
    folder = biped(tmp_path, *edits)
    hits = [f for f in check(folder) if re.search(what, f.what) and where in f.where]
    assert hits, [str(finding) for finding in check(folder)]
    assert hits[0].level == level
    assert hits[0].advice


def test_placeholder_limits_of_three_joints_are_called_round(tmp_path):
    third = '<body name="tail"><joint name="tail" range="-1 1"/><geom name="tail" size="0.05" mass="0.5"/></body>'
    folder = biped(
        tmp_path,
        ('<body name="left_leg"', third + '<body name="left_leg"'),
        ('["left_hip", "right_hip"]', '["tail", "left_hip", "right_hip"]'),
        ("torque_limit = 33.5", "torque_limit = 100"),
    )
    assert any("all 3 torque limits are 100" in finding.what for finding in check(folder))


def test_limits_copied_from_another_robot_are_named_even_when_multiplied(tmp_path):
    two = """[[actuators]]
joints = "left_hip"
model = "pd"
kp = 40.0
torque_limit = 71.1
[[actuators]]
joints = "right_hip"
model = "pd"
kp = 40.0
torque_limit = 136.29
[params.trunk_mass]"""
    start = ROBOT.index("[[actuators]]")
    folder = biped(tmp_path, (ROBOT[start : ROBOT.index("[params.trunk_mass]")] + "[params.trunk_mass]", two))
    assert any("exactly 3 times those of go2" in finding.what for finding in check(folder))


def test_arm_too_weak_for_its_own_weight_is_found(tmp_path):
    folder = biped(tmp_path, ('<freejoint name="root"/>', ""), ('base = "trunk"\n', ""), ("33.5", "0.5"),
                   ("[options]", "[pose]\nleft_hip = 0.9\n[options]"))  # fmt: skip
    assert any("to hold the default pose but may give 0.5" in finding.what for finding in check(folder))


def test_unnamed_joint_of_a_bare_model_is_an_error(tmp_path):
    path = tmp_path / "bare.xml"
    path.write_text(MODEL.replace('name="left_hip" ', ""))
    (finding,) = check(path)
    assert (finding.level, finding.what) == ("error", "a joint has no name")


def test_findings_come_worst_first(tmp_path):
    folder = biped(tmp_path, ("kp = 40.0", "kp = 40000.0"), (' range="-1 1"', ""), ('mass="8"', 'mass="800"'))
    levels = [finding.level for finding in check(folder)]
    assert levels == sorted(levels, key=("error", "warning", "note").index)
    assert set(levels) == {"error", "warning", "note"}


def write_tetrahedron(path: Path) -> None:
    """A small closed mesh as binary STL."""
    corners = [(0, 0, 0), (0.2, 0, 0), (0, 0.2, 0), (0, 0, 0.3)]
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    data = b"\0" * 80 + struct.pack("<I", len(faces))
    for face in faces:
        data += struct.pack("<12fH", 0, 0, 0, *(x for i in face for x in corners[i]), 0)
    path.write_bytes(data)


def meshed(folder: Path, geom: str = "", inertial: str = "") -> Path:
    """A bare model whose trunk wears a mesh that touches nothing."""
    write_tetrahedron(folder / "hull.stl")
    mesh = f'{inertial}<geom name="hull" type="mesh" mesh="hull" contype="0" conaffinity="0" {geom}/><freejoint'
    text = MODEL.replace("<worldbody>", '<asset><mesh name="hull" file="hull.stl"/></asset><worldbody>')
    path = folder / "meshed.xml"
    path.write_text(text.replace("<freejoint", mesh))
    return path


@pytest.mark.parametrize(
    "inertial", ["", '<inertial pos="0.01 0 0" mass="9" fullinertia="0.1234567891 0.2 0.15 0.01 0.002 0.003"/>']
)
def test_stripping_a_mesh_leaves_the_dynamics_as_they_were(tmp_path, inertial):
    path, out = meshed(tmp_path, inertial=inertial), tmp_path / "out" / "lean.xml"
    assert any("1 of 1 mesh geoms can be stripped" in finding.what for finding in check(path))
    done = strip_meshes(path, out)
    assert (done.removed, done.kept) == (1, 0)
    assert done.saved == (tmp_path / "hull.stl").stat().st_size
    assert done.difference < 1e-12
    (tmp_path / "hull.stl").unlink()  # the result needs no mesh file
    lean = load(out).spec().compile()
    assert lean.nmesh == 0
    assert lean.body("trunk").mass[0] > 8.0  # the mesh's own mass, or the stated one, is still there


def test_a_mesh_that_collides_stays(tmp_path):
    path = meshed(tmp_path)
    path.write_text(path.read_text().replace('contype="0" conaffinity="0"', ""))
    done = strip_meshes(path, tmp_path / "elsewhere" / "lean.xml")
    assert (done.removed, done.kept) == (0, 1)
    assert load(done.file).spec().compile().nmesh == 1  # it still finds the file
    assert any("all 1 mesh geoms collide" in finding.what for finding in check(path))


def test_dynamics_difference_sees_a_changed_mass(tmp_path):
    one = mujoco.MjModel.from_xml_string(MODEL)
    two = mujoco.MjModel.from_xml_string(MODEL.replace('mass="8"', 'mass="8.008"'))
    assert dynamics_difference(one, one) == 0.0
    assert dynamics_difference(one, two) == pytest.approx(1e-3 * 8 / 12, rel=0.6)


def test_strip_refuses_to_overwrite_the_model_and_says_no_to_urdf(tmp_path):
    path = meshed(tmp_path)
    with pytest.raises(InputError, match="give another file"):
        strip_meshes(path, path)
    with pytest.raises(InputError, match="nothing to strip"):
        strip_meshes(tmp_path / "a.urdf", tmp_path / "b.xml")
