"""Plates: round feet touch uneven ground as they would touch the surface itself, on the CPU engine."""

import mujoco
import numpy as np
import pytest

import small_robots
import surefoot as sf
from surefoot.robots import scanning
from surefoot.sim.build import build
from surefoot.sim.plates import Surface, halves, turned
from surefoot.sim.terrain import Terrain

STEPS = sf.step_height(low=0, high=0.08, nominal=0.0, choices=(0.0, 0.04, 0.08), extent=4.0)
FRICTION = sf.friction("ground", low=0.3, high=1.5)


def rough_bank(cell: float = 0.05, n: int = 41, height: float = 0.06) -> Terrain:
    """Two fields of independent heights, one higher than the other."""
    shape = np.random.default_rng(3).uniform(0.0, 1.0, (n, n))
    return Terrain(
        choices=(0.5, 1.0), heights=np.stack([0.5 * height * shape, height * shape]), extent=cell * (n - 1) / 2
    )


def placed(sim: sf.Sim, xy: np.ndarray, z: float) -> None:
    q = np.tile(sim.start_qpos, (sim.worlds, 1))
    q[:, :2], q[:, 2] = xy, z
    sim.reset(qpos=q)


def contacts(sim: sf.Sim, world: int) -> list[tuple[str, int, np.ndarray, float]]:
    """Contacts of a world: name of the robot's geom, id of the other, normal towards the robot, distance [m]."""
    model, data = sim.engine.single(world)
    out = []
    for c in data.contact[: data.ncon]:
        other, own = int(c.geom[0]), int(c.geom[1])
        out.append((model.geom(own).name, other, np.array(c.frame[:3]), float(c.dist)))
    return out


# -------------------------------------------------------------------- the surface


@pytest.mark.parametrize("radius", [0.02, 0.06])
def test_plate_a_is_tangent_at_the_nearest_point(radius):
    terrain = rough_bank()
    surface = Surface(terrain, int(halves(terrain, np.array([radius]))[0]))
    rng = np.random.default_rng(0)
    m = 60
    field = rng.integers(0, 2, m)
    xy = rng.uniform(-0.8, 0.8, (m, 2))
    ground = terrain.height(field, xy[:, None])[:, 0]
    p = np.concatenate([xy, (ground + rng.uniform(0.2, 1.0, m) * radius)[:, None]], axis=1)
    found = surface.tangents(field, p[:, None])
    np.testing.assert_allclose(np.linalg.norm(found.normal, axis=1), 1.0, atol=1e-12)
    offset = np.linspace(-radius, radius, 401)
    dx, dy = (d.ravel() for d in np.meshgrid(offset, offset))
    for i in range(m):
        near = p[i, :2] + np.stack([dx, dy], axis=1)
        z = terrain.height(field[i : i + 1], near[None])[0]
        brute = np.sqrt(dx**2 + dy**2 + (z - p[i, 2]) ** 2).min()
        distance = (p[i] - found.point[i]) @ found.normal[i]
        assert distance <= brute + 1e-12
        assert distance == pytest.approx(brute, abs=offset[1] - offset[0])
        on = terrain.height(field[i : i + 1], found.point[i : i + 1, None, :2])[0, 0]
        assert found.point[i, 2] == pytest.approx(on, abs=1e-9)
        if found.two[i]:
            q, n = found.other[i], found.other_normal[i]
            assert n @ found.normal[i] < np.cos(np.radians(15))
            assert q[2] == pytest.approx(terrain.height(field[i : i + 1], q[None, None, :2])[0, 0], abs=1e-9)
            np.testing.assert_allclose(np.cross(p[i] - q, n), 0.0, atol=1e-12)
    assert found.two.any()


def test_a_centre_below_the_surface_is_pushed_up_and_the_nearest_sphere_decides():
    terrain = rough_bank()
    surface = Surface(terrain, 1)
    rng = np.random.default_rng(1)
    field, xy = np.ones(40, int), rng.uniform(-0.8, 0.8, (40, 2))
    ground = terrain.height(field, xy[:, None])
    under = np.concatenate([xy, ground - 0.002], axis=1)
    found = surface.tangents(field, under[:, None])
    depth = ((under - found.point) * found.normal).sum(1)
    assert (found.normal[:, 2] > 0).all()
    assert (depth < 0).all()
    assert (depth >= -0.002 - 1e-12).all()
    on = surface.tangents(field, np.concatenate([xy, ground], axis=1)[:, None])
    assert np.isfinite(on.normal).all()
    assert (on.normal[:, 2] > 0.2).all()
    pair = np.stack([under + np.array([0, 0, 0.03]), under], axis=1)
    np.testing.assert_allclose(surface.tangents(field, pair).point, found.point, atol=1e-12)


def test_quaternions_turn_z_to_the_normal():
    n = np.random.default_rng(0).normal(size=(50, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    out = np.zeros(3)
    for normal, q in zip(n, turned(n), strict=True):
        mujoco.mju_rotVecQuat(out, np.array([0.0, 0.0, 1.0]), q)
        np.testing.assert_allclose(out, normal, atol=1e-9)


# -------------------------------------------------------------------- robots on it


@pytest.mark.parametrize("robot", ["go2", "g1"])
def test_a_flat_field_is_a_plane(robot):
    robot = sf.load(robot)
    on_plane = sf.Sim(robot, sf.Params(), worlds=2, noise=False)
    on_field = sf.Sim(robot, sf.Params(step_height=STEPS), worlds=2, noise=False)
    assert on_field.built.plates is not None
    q = np.tile(on_plane.start_qpos, (2, 1))
    q[1, :2] = [0.513, -0.271]
    for sim in (on_plane, on_field):
        sim.reset(qpos=q)
    phase = np.arange(on_plane.model.nu)
    for k in range(100):
        u = on_plane.rest_command + 0.05 * np.sin(0.3 * k + phase)
        for sim in (on_plane, on_field):
            sim.step(u)
    np.testing.assert_allclose(on_field.engine.qpos, on_plane.engine.qpos, atol=1e-6)
    for name, value in on_plane.sense().items():
        np.testing.assert_allclose(on_field.sense()[name], value, atol=1e-4, err_msg=name)


def test_on_flat_ground_every_foot_has_one_upright_contact():
    sim = sf.Sim(sf.load("go2"), sf.Params(step_height=STEPS), worlds=40, noise=False)
    placed(sim, np.random.default_rng(0).uniform(-3, 3, (40, 2)), sim.robot.height)
    for _ in range(25):
        sim.step(sim.rest_command)
    for world in range(40):
        found = contacts(sim, world)
        assert sorted(name for name, *_ in found) == sorted(sim.robot.feet)
        for _, _, normal, _ in found:
            np.testing.assert_allclose(normal, [0, 0, 1], atol=1e-12)
    load = sim.sense()["foot_force"].sum(1)
    np.testing.assert_allclose(load, sim.model.body_mass.sum() * 9.81, rtol=0.05)


def test_a_foot_at_a_riser_touches_tread_and_riser():
    sim = sf.Sim(sf.load("go2"), sf.Params(step_height=STEPS, friction=FRICTION), worlds=1, noise=False)
    sim.apply({"step_height": 0.08, "friction": 0.3})
    foot = sim.robot.feet[0]
    number = list(sim.built.plates.geoms).index(sim.model.geom(foot).id)
    where = np.array(sim.engine.single(0)[1].geom(foot).xpos)
    # The ring from 1.2 to 1.6 m is high; its riser takes the last cell before it.
    rise = np.array([-0.08, 0.0, 0.05]) / np.hypot(0.08, 0.05)
    tread = np.array([0.0, 0.0, 1.0])
    radius = float(sim.model.geom(foot).size[0])
    bisector = (rise + tread) / (1 + rise @ tread)
    corner = np.array([1.15, 0.0, 0.0])
    assert sim.built.terrain.height(np.array([2]), np.array([[[1.15, 0.0], [1.2, 0.0]]]))[0] == pytest.approx([0, 0.08])
    q = sim.start_qpos
    q[:3] += corner + (radius - 0.001) * bisector - where
    q[1] += 0.012
    sim.reset(qpos=q)
    found = [c for c in contacts(sim, 0) if c[0] == foot]
    assert sorted(c[1] for c in found) == sorted(sim.built.plates.ids[number])
    normals = np.array(sorted((c[2] for c in found), key=lambda n: n[2]))
    np.testing.assert_allclose(normals, [rise, tread], atol=1e-9)
    np.testing.assert_allclose([c[3] for c in found], -0.001, atol=1e-9)


def test_a_ball_that_rolls_into_a_riser_touches_both_and_stays_before_it(tmp_path):
    ball = small_robots.BALL.replace('size="0.1"', 'size="0.022"').replace("0.008 0.008 0.008", "4e-4 4e-4 4e-4")
    robot = small_robots.robot(tmp_path, ball, base="ball", height=0.022, feet=("ball",), timestep=0.005)
    sim = sf.Sim(robot, sf.Params(step_height=STEPS), worlds=3, noise=False)
    sim.apply({"step_height": [0.0, 0.04, 0.08]})
    q, v = np.tile(sim.start_qpos, (3, 1)), np.zeros((3, 6))
    q[:, 0], q[:, 1], v[:, 0], v[:, 4] = 0.9, 0.313, 0.5, 0.5 / 0.022
    sim.reset(qpos=q, qvel=v)
    plates, touched, farthest = sim.built.plates.ids[0].tolist(), [set(), set(), set()], np.zeros(3)
    for _ in range(300):
        sim.step(np.zeros(0))
        farthest = np.maximum(farthest, sim.engine.qpos[:, 0])
        for world in np.flatnonzero(np.abs(sim.engine.qpos[:, 0] - 1.16) < 0.04):
            touched[world].add(tuple(sorted(other for _, other, *_ in contacts(sim, world))))
    assert touched[0] == {(plates[0],)}
    assert tuple(plates) in touched[1] & touched[2]
    assert farthest[0] == pytest.approx(0.9 + 0.5 * 1.5, abs=0.02)
    assert (farthest[1:] < 1.2).all()
    assert (farthest[1:] > 1.12).all()
    assert np.linalg.norm(sim.engine.qvel[0, :3]) == pytest.approx(0.5, rel=0.02)


def test_plates_follow_the_ground_and_no_param_means_them():
    params = sf.Params(
        step_height=STEPS,
        mu=FRICTION,
        soft=sf.softness("ground", low=0.01, high=0.05),
        size=sf.radius(".*_foot", low=0.018, high=0.03),
        patch=sf.patch_friction("ground", low=0.3, high=1.0),
    )
    sim = sf.Sim(sf.load("go2"), params, worlds=5)
    e = sim.params.prior().sample(5, 0)
    sim.apply(e)
    sim.reset()
    for _ in range(3):
        sim.step(sim.rest_command)
    for name, value in sim.e.items():
        np.testing.assert_allclose(value, e[name], rtol=1e-12, err_msg=name)
    ground, plates = sim.model.geom("ground").id, sim.built.plates.ids.ravel()
    for field in ("geom_friction", "geom_solref"):
        values = sim.engine.field(field)
        np.testing.assert_array_equal(values[:, plates], np.repeat(values[:, [ground]], len(plates), axis=1))
    assert len(np.unique(sim.engine.field("geom_friction")[:, plates[0], 0])) == 5
    everything = sf.Sim(
        sf.load("go2"), sf.Params(step_height=STEPS, mu=sf.friction(".*_foot|ground", low=0.3, high=1.0))
    )
    assert everything.params["mu"].each is False


def test_only_round_geoms_leave_the_field():
    model = build(sf.load("go2"), sf.Params(step_height=STEPS), collisions="all").model

    def touch(a: int, b: int) -> bool:
        return bool(
            model.geom_contype[a] & model.geom_conaffinity[b] or model.geom_contype[b] & model.geom_conaffinity[a]
        )

    plain = build(sf.load("go2"), sf.Params(step_height=STEPS), collisions="all", plates=False)
    assert plain.plates is None
    assert "terrain_law" not in plain.features
    old = plain.model
    plates = build(sf.load("go2"), sf.Params(step_height=STEPS), collisions="all").plates
    assert plates is not None
    own = dict(zip(plates.geoms.tolist(), plates.ids.tolist(), strict=True))
    assert {model.geom(g).name for g in own} >= set(sf.load("go2").feet)
    ground, below = model.geom("ground").id, model.geom("below").id
    for i in range(model.ngeom):
        name = model.geom(i).name
        if not name or model.geom_bodyid[i] == 0:
            continue
        j = old.geom(name).id
        was = bool(old.geom_contype[j] or old.geom_conaffinity[j])
        assert touch(i, below) == was
        assert touch(i, ground) == (was and i not in own)
        for g, pair in own.items():
            assert all(touch(i, plate) == (i == g) for plate in pair)


def test_plates_are_seen_by_no_ray_and_no_camera():
    sim = sf.Sim(sf.load("go2"), sf.Params(step_height=STEPS), noise=False)
    model, data = sim.engine.single(0)
    hit = np.array([-1], np.int32)
    mujoco.mj_ray(model, data, np.array([2.0, 2.0, 1.0]), np.array([0.0, 0.0, -1.0]), None, 1, -1, hit)
    assert hit[0] == model.geom("ground").id
    scene = mujoco.MjvScene(model, 1000)
    everything = mujoco.mjtCatBit.mjCAT_ALL.value
    mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, mujoco.MjvCamera(), everything, scene)
    drawn = {g.objid for g in scene.geoms[: scene.ngeom] if g.objtype == mujoco.mjtObj.mjOBJ_GEOM}
    assert not drawn & set(sim.built.plates.ids.ravel().tolist())
    assert model.geom("ground").id in drawn


def test_off_the_field_nothing_holds_a_foot():
    sim = sf.Sim(sf.load("go2"), sf.Params(step_height=STEPS), worlds=1, noise=False)
    placed(sim, np.array([[6.0, 0.0]]), sim.robot.height)
    for _ in range(40):
        sim.step(sim.rest_command)
    assert -0.5 < sim.engine.qpos[0, 2] < -0.1


def test_an_e_in_the_middle_of_an_episode_does_not_hold_the_plates():
    """The engine notes which geoms have their body's frame when it derives constants, and ignores the place of those."""
    sim = sf.Sim(sf.load("go2"), sf.Params(step_height=STEPS), worlds=4, noise=False)
    placed(sim, np.array([[0.0, 0.0], [1.0, 0.1], [1.1, 0.3], [-1.3, 0.2]]), 0.4)
    for value in (0.0, 0.08, 0.04):
        sim.apply({"step_height": value})
        for _ in range(5):
            sim.step(sim.rest_command)
        plates, fields = sim.built.plates.ids.ravel(), sim.engine.field
        asked = [(fields("geom_pos")[w, plates], fields("geom_quat")[w, plates]) for w in range(4)]
        for world, (pos, quat) in enumerate(asked):
            data = sim.engine.single(world)[1]
            np.testing.assert_array_equal(data.geom_xpos[plates], pos)
            normals = data.geom_xmat[plates][:, 2::3]
            np.testing.assert_allclose(turned(normals), quat, atol=1e-12)


# -------------------------------------------------------------------- the same bits


def walked(sim: sf.Sim, steps: int, first: int = 0) -> np.ndarray:
    out = []
    for k in range(first, first + steps):
        sim.step(sim.rest_command + 0.2 * np.sin(0.5 * k + np.arange(sim.model.nu)))
        out.append(sim.engine.state.copy())
    return np.array(out)


def started(threads: int = 1) -> sf.Sim:
    robot = scanning(sf.load("go2"))
    sim = sf.Sim(robot, sf.Params(step_height=STEPS, mu=FRICTION), worlds=6, threads=threads)
    sim.apply({"step_height": [0.0, 0.04, 0.08, 0.08, 0.08, 0.04]})
    placed(sim, np.random.default_rng(5).uniform(-2, 2, (6, 2)), 0.42)
    return sim


def test_snapshots_and_threads_give_the_same_bits():
    sim = started()
    before = walked(sim, 10)
    saved = sim.snapshot()
    after = walked(sim, 10, 10)
    other = started(threads=2)
    np.testing.assert_array_equal(walked(other, 10), before)
    other.restore(saved)
    np.testing.assert_array_equal(walked(other, 10, 10), after)
    sim.restore(saved)
    np.testing.assert_array_equal(walked(sim, 10, 10), after)


def test_a_snapshot_right_after_a_reset_holds_too():
    sim = started()
    walked(sim, 3)
    sim.reset([1, 4])
    saved = sim.snapshot()
    one = walked(sim, 3)
    other = started()
    walked(other, 5)
    other.restore(saved)
    np.testing.assert_array_equal(walked(other, 3), one)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_model_for_another_engine_has_no_plates(monkeypatch, replaced):
    cuda_sim = pytest.importorskip("surefoot.sim.cuda_sim")
    given = []

    def engine(model, worlds, device):
        given.append(model)
        raise sf.InputError("the model was given")

    monkeypatch.setattr(cuda_sim, "CudaEngine", engine)
    robot, params = sf.load("go2"), sf.Params(step_height=STEPS)
    with pytest.raises(sf.InputError, match="the model was given"):
        sf.Sim(robot, params).replace(engine="warp") if replaced else sf.Sim(robot, params, engine="warp")
    planes = np.flatnonzero(given[0].geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE))
    assert [given[0].geom(i).name for i in planes] == ["below"]
