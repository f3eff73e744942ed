"""Stand-in robots whose bodies PhysX moves: the file says so, what it plants is what they do, and what PhysX has not is refused."""

import math
import sys

import numpy as np
import pytest

pytest.importorskip("sapien", reason="needs the extra 'physx': pip install 'surefoot[physx]'")

from surefoot.contract import Command
from surefoot.errors import InputError
from surefoot.hardware.connect import connect, reality_path, shipped
from surefoot.hardware.reality import load_reality, parse_reality
from surefoot.hardware.twin import Twin
from surefoot.robots import load
from test_hardware_realities import CLEAN, drive, order, reading


def reality(robot: str, truth: str = "", beyond: str = "", top: str = "", step: float = 0.001, engine: str = "physx"):
    text = (
        f'robot = "{robot}"\nlevel = 0.5\nabout = "a test"\nengine = "{engine}"\n{top}\n[numerics]\ntimestep = {step}\n'
    )
    return parse_reality(f"{text}[truth]\n{truth}\n[beyond]\n{beyond}\n", name="test")


def stand(twin: Twin, seconds: float) -> np.ndarray:
    return drive(twin, [twin.robot.pose[j] for j in twin.robot.joints], seconds)


# ------------------------------------------------------------------ the file


def test_a_file_says_which_engine_and_nothing_else_is_one():
    assert reality("go2").engine == "physx"
    assert load_reality(reality_path("go2/01-nominal")).engine == "mujoco"
    with pytest.raises(InputError, match="'bullet' is not an engine of a stand-in robot"):
        reality("go2", engine="bullet")
    with pytest.raises(InputError, match=r"numerics.cone is MuJoCo's"):
        parse_reality(
            'robot = "go2"\nlevel = 0.1\nabout = "x"\nengine = "physx"\n[numerics]\ncone = "elliptic"\n', name="t"
        )


@pytest.mark.parametrize(
    ("robot", "truth", "says"), [("go2", "bumps = 0.02", "bumps"), ("crazyflie", "", "air around it")]
)
def test_what_physx_has_not_is_refused(robot, truth, says):
    with pytest.raises(InputError, match=f'{says} cannot be had with engine = "physx"'):
        Twin(reality(robot, truth))


def test_three_ship_beside_the_others_and_live():
    names = shipped("go2", engine="physx")
    assert len(names) == 3
    assert not set(names) & set(shipped("go2"))
    assert set(shipped(engine="all")) == {*shipped(), *shipped(engine="physx")}
    found = [load_reality(reality_path(name)) for name in names]
    levels = [r.level for r in found]
    assert levels == sorted(levels)
    assert all(r.engine == "physx" for r in found)
    for r in found:
        assert np.isfinite(stand(Twin(r), 0.06)).all()


def test_without_sapien_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sapien", None)
    with pytest.raises(InputError, match=r"engine = \"physx\", which needs the extra `physx`: pip install"):
        Twin(reality("go2"))


# ------------------------------------------------------------------ what is planted


@pytest.mark.parametrize("robot", ["servo", "qube"])
def test_without_contact_it_moves_as_the_mujoco_twin(robot):
    paths = []
    for engine in ("mujoco", "physx"):
        twin = Twin(reality(robot, CLEAN, step=0.0005, engine=engine))
        path = []
        for k in range(150):
            twin.tell(twin.plant.kinds[0], order(twin, 0.6 * math.sin(9.0 * k * twin.period)))
            twin.advance()
            path.append(twin.plant.data.qpos.copy())
        paths.append(np.array(path))
    assert np.ptp(paths[0][:, 0]) > 0.2
    assert np.abs(paths[0] - paths[1]).max() < 1e-3


@pytest.mark.parametrize("mass", [6.921, 9.4])
def test_planted_mass_is_what_the_feet_carry(mass):
    twin = Twin(reality("go2", f"mass = {{ base = {mass} }}\nforce_noise = 0.0", top='start = "standing"'))
    row = stand(twin, 1.0)
    legs = 4 * (0.678 + 1.152 + 0.241352)
    assert reading(twin, row, "foot_force").sum() == pytest.approx(9.81 * (mass + legs), rel=0.03)
    assert reading(twin, row, "accel")[2] == pytest.approx(9.81, abs=0.2)
    feet = twin.plant.data.geom_xpos[twin.plant.ground.ids, 2] - twin.plant.model.geom_size[twin.plant.ground.ids, 0]
    assert np.abs(feet).max() < 2e-4


def test_planted_friction_decides_whether_it_slides_down_a_slope():
    moved = {}
    for friction in (0.1, 0.9):
        twin = Twin(reality("go2", f"friction = {friction}\nslope = [0.25, 0.0]", top='start = "standing"'))
        stand(twin, 1.0)
        moved[friction] = -float(twin.plant.data.qvel[0])
    assert moved[0.1] == pytest.approx(9.81 * (math.sin(0.25) - 0.1 * math.cos(0.25)) * math.cos(0.25), rel=0.15)
    assert abs(moved[0.9]) < 0.02


def test_slippery_patches_reach_the_contact():
    twin = Twin(reality("go2", "friction = 0.8", "patch_friction = 0.25\npatch_share = 1.0", top='start = "standing"'))
    stand(twin, 0.3)
    body, floor = twin.plant.physx, 0
    ground = next(g for g in body._materials if twin.plant.model.geom_bodyid[g] == floor)
    foot = int(twin.plant.ground.ids[0])
    pair = 0.5 * (body._materials[foot].dynamic_friction + body._materials[ground].dynamic_friction)
    assert pair == pytest.approx(0.2, abs=1e-6)


def test_it_is_stood_up_from_a_crouch_over_the_wire():
    robot = connect("twin:go2/physx-01-nominal", lockstep=True)
    try:
        row = robot.read(5.0)
        start, pose = row.values["joint_pos"], np.array([load("go2").pose[j] for j in robot.outputs])
        gains = {"kp": np.full(12, 40.0), "kd": np.full(12, 1.0)}
        for k in range(500):
            target = start + (pose - start) * min(1.0, k / 350)
            robot.write(Command(kind="joint_pos_target", target=target, **gains))
            row = robot.read(5.0) or row
        assert row.time == pytest.approx(1.0)
        assert np.abs(row.values["joint_pos"] - pose).max() < 0.25
        assert row.values["foot_force"].sum() == pytest.approx(149.2, rel=0.15)
    finally:
        robot.close()
