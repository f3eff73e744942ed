"""Geometry Params against forward kinematics by hand, and against models compiled anew with the changed numbers."""

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import surefoot as sf
from small_robots import BALL, PENDULUM, robot
from surefoot.sim.restitution import restitution

FEET = ".*_foot"


@pytest.fixture
def pendulum(tmp_path):
    return robot(tmp_path, PENDULUM, joints=("pivot",), ground=False)


def places(sim: sf.Sim, world: int, qpos: np.ndarray | None = None) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """One world's model and data, at its own state or at qpos."""
    model, data = sim.engine.single(world)
    if qpos is not None:
        data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    return model, data


# -------------------------------------------------------------------- radius


def test_a_ball_rests_at_its_radius(tmp_path):
    stiff = BALL.replace("0.95 0.95 0.001", '0.99 0.99 0.001" solref="0.004 1" priority="1')
    home = robot(tmp_path, stiff, base="ball", height=0.1, control_dt=0.01, options='cone = "elliptic"')
    sim = sf.Sim(home, sf.Params(r=sf.radius("ball", low=0.01, high=2.0)), worlds=4)
    r = np.array([0.02, 0.1, 0.5, 1.9])
    sim.apply({"r": r})
    q = np.tile(sim.start_qpos, (4, 1))
    q[:, 2] = r + 0.01
    sim.reset(qpos=q)
    for _ in range(100):
        sim.step(np.zeros(0))
    depth = (1 - 0.99) * 9.81 * 0.004**2
    np.testing.assert_allclose(sim.engine.qpos[:, 2], r - depth, rtol=0, atol=1e-9)


CLUSTER = "".join(
    f'<body name="{b}" pos="0 0 {z}"><freejoint name="{b}"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    + "".join(
        f'<geom name="{b}{i}" type="{"sphere" if i else "capsule"}" size="0.05 0.1" pos="{i} 0 0"/>' for i in range(6)
    )
    + "</body>"
    for b, z in (("a", 1), ("b", 5))
)


def test_a_grown_geom_collides_where_its_nominal_bounds_end(tmp_path):
    """Bounding spheres, boxes and trees follow the radius: those of a model compiled with it, and the same contacts."""
    home = robot(tmp_path / "nominal", CLUSTER, base="a", height=1.0, ground=False)
    sim = sf.Sim(home, sf.Params(r=sf.radius("a[03]|b3", low=0.01, high=3.0)), worlds=2)
    sim.apply({"r": [0.05, 2.1]})
    text = CLUSTER
    for name in ("a0", "a3", "b3"):
        text = text.replace(f'name="{name}" type="sphere" size="0.05', f'name="{name}" type="sphere" size="2.1')
        text = text.replace(f'name="{name}" type="capsule" size="0.05', f'name="{name}" type="capsule" size="2.1')
    grown = sf.Sim(robot(tmp_path / "grown", text, base="a", height=1.0, ground=False), sf.Params())
    model, data = places(sim, 1)
    expected = mujoco.MjData(grown.model)
    mujoco.mj_forward(grown.model, expected)
    for field in ("geom_rbound", "geom_aabb", "bvh_aabb"):
        np.testing.assert_allclose(getattr(model, field), getattr(grown.model, field), atol=1e-12, err_msg=field)
    pairs = {tuple(sorted(c)) for c in data.contact.geom.tolist()}
    assert pairs == {tuple(sorted(c)) for c in expected.contact.geom.tolist()}
    assert len(pairs) > 0
    assert places(sim, 0)[1].ncon == 0


# -------------------------------------------------------------------- sole_wear, link_length


def test_a_worn_sole_lowers_the_robot(tmp_path):
    leg = BALL.replace('size="0.1"', 'size="0.02" pos="0 0 -0.3"')
    home = robot(tmp_path, leg, base="ball", height=0.32, control_dt=0.01)
    sim = sf.Sim(home, sf.Params(wear=sf.sole_wear("ball", low=-0.01, high=0.02)), worlds=3)
    wear = np.array([0.0, 0.005, 0.02])
    sim.apply({"wear": wear})
    sim.reset()
    for _ in range(150):
        sim.step(np.zeros(0))
    np.testing.assert_allclose(sim.engine.qpos[:, 2] - sim.engine.qpos[0, 2], -wear, atol=1e-6)


def test_link_length_moves_what_hangs_at_the_end():
    """Double pendulum: elbow at 0.2 s1 (sin q1, -cos q1), weight 0.3 s2 further on."""
    params = sf.Params(upper=sf.link_length("link1", low=0.5, high=2), lower=sf.link_length("link2", low=0.5, high=2))
    sim = sf.Sim(sf.load("double_pendulum"), params, worlds=3)
    s1, s2 = np.array([1.0, 1.3, 0.8]), np.array([1.0, 0.7, 1.5])
    sim.apply({"upper": s1, "lower": s2})
    q = np.array([0.4, -1.1])
    for w in range(3):
        _, data = places(sim, w, q)
        angle = np.cumsum(q)
        step = np.stack([-np.sin(angle), 0 * angle, -np.cos(angle)], axis=1)  # a positive turn about y swings to -x
        elbow = [0, 0, 0.7] + 0.2 * s1[w] * step[0]
        np.testing.assert_allclose(data.body("link2").xpos, elbow, atol=1e-12)
        np.testing.assert_allclose(data.geom("weight").xpos, elbow + 0.3 * s2[w] * step[1], atol=1e-12)
        np.testing.assert_allclose(data.body("link1").xipos, [0, 0, 0.7] + 0.2 * step[0], atol=1e-12)  # mass stays


def test_legs_of_go2_are_those_of_a_model_compiled_with_the_longer_links():
    params = sf.Params(
        thigh=sf.link_length(".*_thigh", low=0.8, high=1.2),
        calf=sf.link_length(".*_calf", low=0.8, high=1.2, each=True),
    )
    sim = sf.Sim(sf.load("go2"), params, worlds=2)
    scale = np.array([[1.0, 1.0, 1.0, 1.0], [0.9, 1.1, 1.05, 0.95]])
    sim.apply({"thigh": [1.0, 1.15], "calf": scale})
    spec = sim.robot.spec()
    for k, leg in enumerate(("FR", "FL", "RR", "RL")):
        spec.body(f"{leg}_calf").pos = spec.body(f"{leg}_calf").pos * 1.15
        for geom in spec.body(f"{leg}_calf").geoms:
            if geom.name == f"{leg}_foot":
                geom.pos = geom.pos * scale[1, k]
    model = spec.compile()
    q = np.random.default_rng(0).normal(0, 0.5, model.nq)
    q[3:7] /= np.linalg.norm(q[3:7])
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    _, ours = places(sim, 1, q)
    for leg in ("FR", "FL", "RR", "RL"):
        np.testing.assert_allclose(ours.geom(f"{leg}_foot").xpos, data.geom(f"{leg}_foot").xpos, atol=1e-12)


# -------------------------------------------------------------------- axis_tilt, zero_offset


@pytest.mark.parametrize(("axis", "about"), [("auto", [1, 0, 0]), ("x", [1, 0, 0]), ("z", [0, 0, 1])])
def test_a_tilted_axis_turns_the_tip_about_it(pendulum, axis, about):
    sim = sf.Sim(pendulum, sf.Params(tilt=sf.axis_tilt("pivot", low=-1, high=1, axis=axis)), worlds=4)
    tilt, q = np.array([0.0, 0.05, -0.4, 0.9]), 0.7
    sim.apply({"tilt": tilt})
    for w in range(4):
        turned = Rotation.from_rotvec(tilt[w] * np.array(about)).apply([0, 1, 0])
        tip = np.array([0, 0, 1]) + Rotation.from_rotvec(q * turned).apply([0, 0, -0.5])
        np.testing.assert_allclose(places(sim, w, [q])[1].site("tip").xpos, tip, atol=1e-12)


def test_play_behind_a_joint_tilts_with_it():
    params = sf.Params(
        tilt=sf.axis_tilt("FL_calf_joint", low=-1, high=1), play=sf.backlash("FL_calf_joint", low=0.001, high=0.1)
    )
    sim = sf.Sim(sf.load("go2"), params)
    sim.apply({"tilt": 0.3})
    model, _ = places(sim, 0)
    np.testing.assert_array_equal(model.joint("FL_calf_joint_play").axis, model.joint("FL_calf_joint").axis)


def test_a_pendulum_hangs_at_its_zero_offset(tmp_path):
    damped = PENDULUM.replace('axis="0 1 0"', 'axis="0 1 0" damping="4"')
    sim = sf.Sim(robot(tmp_path, damped, joints=("pivot",), ground=False, control_dt=0.02),
                 sf.Params(zero=sf.zero_offset("pivot", low=-1, high=1)), worlds=3)  # fmt: skip
    zero = np.array([-0.3, 0.0, 0.5])
    sim.apply({"zero": zero})
    sim.reset(qpos=np.array([0.4]))
    for _ in range(500):
        sim.step(np.zeros(0))
    np.testing.assert_allclose(sim.engine.qpos[:, 0], zero, atol=1e-6)


def test_joint_stops_move_with_the_zero_offset(tmp_path):
    stopped = PENDULUM.replace('axis="0 1 0"', 'axis="0 1 0" range="-0.4 0.6" limited="true" solreflimit="0.002 1"')
    sim = sf.Sim(robot(tmp_path, stopped, joints=("pivot",), ground=False, timestep=0.0005),
                 sf.Params(zero=sf.zero_offset("pivot", low=-1, high=1)), worlds=6)  # fmt: skip
    zero = np.tile([-0.2, 0.0, 0.3], 2)
    sim.apply({"zero": zero})
    speed = np.repeat([5.0, -5.0], 3)
    sim.reset(qpos=zero[:, None], qvel=speed[:, None])
    reach = []
    for _ in range(300):
        sim.step(np.zeros(0))
        reach.append(np.array(sim.engine.qpos[:, 0]))
    stop = zero + np.repeat([0.6, -0.4], 3)
    furthest = np.where(speed > 0, np.max(reach, axis=0), np.min(reach, axis=0))
    np.testing.assert_allclose(furthest, stop, atol=0.01)


STOPPED = PENDULUM.replace('axis="0 1 0"', 'axis="0 1 0" range="-0.4 0.6" limited="true" solreflimit="0.004 1"')


def thrown(sim, speed, seconds=0.15):
    """Furthest angles of a pendulum thrown against its stops with `speed` [rad/s], (worlds,)."""
    speed = np.broadcast_to(np.asarray(speed, float), sim.worlds)
    sim.reset(qpos=np.zeros((sim.worlds, 1)), qvel=speed[:, None])
    reach = []
    for _ in range(round(seconds / sim.control_dt)):
        sim.step(np.zeros(0))
        reach.append(np.array(sim.engine.qpos[:, 0]))
    return np.where(speed > 0, np.max(reach, axis=0), np.min(reach, axis=0))


def test_stops_lie_where_their_shift_says_at_both_ends(tmp_path):
    sim = sf.Sim(robot(tmp_path, STOPPED, joints=("pivot",), ground=False, timestep=0.0005),
                 sf.Params(stops=sf.stop_shift("pivot", low=-0.3, high=0.3)), worlds=6)  # fmt: skip
    shift = np.tile([-0.2, 0.0, 0.3], 2)
    sim.apply({"stops": shift})
    found = thrown(sim, np.repeat([5.0, -5.0], 3), seconds=0.3)
    np.testing.assert_allclose(found, np.concatenate([0.6 + shift[:3], -0.4 - shift[3:]]), atol=0.03)


def test_a_softer_stop_gives_way_further_and_twice_as_far_for_twice_the_time(tmp_path):
    sim = sf.Sim(robot(tmp_path, STOPPED, joints=("pivot",), ground=False, timestep=0.0005),
                 sf.Params(soft=sf.stop_softness("pivot", low=0.002, high=0.1)), worlds=3)  # fmt: skip
    sim.apply({"soft": np.array([0.01, 0.02, 0.04])})
    deep = thrown(sim, 5.0, seconds=0.4) - 0.6
    assert deep[0] > 0.005
    np.testing.assert_allclose(deep[1:] / deep[:-1], 2.0, atol=0.3)


@pytest.mark.parametrize(("timestep", "soft", "near"), [(0.0002, 0.04, 0.06), (0.0025, 0.005, 0.25)])
def test_a_stop_springs_back_as_its_damping_ratio_says_and_never_gives_energy(tmp_path, timestep, soft, near):
    weightless = robot(
        tmp_path, STOPPED, joints=("pivot",), ground=False, timestep=timestep, options="gravity = [0.0, 0.0, 0.0]"
    )
    unknown = sf.Params(
        damp=sf.stop_damping("pivot", low=0.05, high=1.0), soft=sf.stop_softness("pivot", low=0.005, high=0.1)
    )
    sim = sf.Sim(weightless, unknown, worlds=3)
    ratio = np.array([0.1, 0.3, 0.6])
    sim.apply({"damp": ratio, "soft": soft})
    np.testing.assert_allclose(sim.e["soft"], soft)
    sim.reset(qpos=np.zeros((3, 1)), qvel=np.full((3, 1), 5.0))
    back = np.zeros(3)
    for _ in range(round(0.6 / sim.control_dt)):
        sim.step(np.zeros(0))
        back = np.where(sim.engine.qpos[:, 0] < 0.55, np.maximum(back, -sim.engine.qvel[:, 0]), back)
    # A spring and damper that may only push lets go when their sum is zero: the restitution of contacts.
    np.testing.assert_allclose(back / 5.0, restitution(ratio), atol=near)
    assert (back <= 5.0).all()


def test_stops_that_are_not_there_or_cannot_be_resolved_are_refused(tmp_path):
    free = robot(tmp_path / "free", PENDULUM, joints=("pivot",), ground=False)
    with pytest.raises(sf.InputError, match="'soft': joint 'pivot' has no stops"):
        sf.Sim(free, sf.Params(soft=sf.stop_softness("pivot", low=0.01, high=0.1)))
    held = robot(tmp_path / "held", STOPPED, joints=("pivot",), ground=False, timestep=0.005)
    with pytest.raises(sf.InputError, match="below twice the time step"):
        sf.Sim(held, sf.Params(soft=sf.stop_softness("pivot", low=0.005, high=0.1)))
    with pytest.raises(sf.InputError, match="no range"):
        sf.Sim(held, sf.Params(stops=sf.stop_shift("pivot", low=-0.6, high=0.1)))
    with pytest.raises(sf.InputError):
        sf.Sim(
            held,
            sf.Params(
                stops=sf.stop_shift("pivot", low=-0.1, high=0.1), zero=sf.zero_offset("pivot", low=-0.1, high=0.1)
            ),
        )


def test_motor_and_encoder_agree_with_each_other_about_the_zero_not_with_the_drawing():
    sim = sf.Sim(
        sf.load("servo"),
        sf.Params(zero=sf.zero_offset(low=-1, high=1), g=sf.gravity(low=0, high=10)),
        worlds=2,
        noise=False,
    )
    sim.apply({"zero": [0.0, 0.25], "g": 0.0})
    sim.reset()
    for _ in range(400):
        sim.step(np.array([0.5]))
    np.testing.assert_allclose(sim.sense()["joint_pos"][:, 0], 0.5, atol=0.03)  # friction holds it a little off
    reading = sim.engine.qpos[:, 0]
    for w, zero in enumerate((0.0, 0.25)):
        weight = places(sim, w)[1].geom("weight").xpos - [0, 0, 0.3]
        assert np.arctan2(-weight[0], -weight[2]) == pytest.approx(reading[w] - zero, abs=1e-9)


# -------------------------------------------------------------------- where a changed robot starts


def lowest_foot(sim: sf.Sim, world: int) -> float:
    model, data = places(sim, world)
    return min(data.geom(f).xpos[2] - model.geom(f).size[0] for f in sim.robot.feet)


@pytest.mark.parametrize(("kind", "of", "value"), [
    ("link_length", ".*_(thigh|calf)", 1.15),
    ("link_length", ".*_(thigh|calf)", 0.85),
    ("sole_wear", FEET, 0.01),
    ("radius", FEET, 0.05),
    ("zero_offset", ".*_calf_joint", 0.2),
])  # fmt: skip
def test_a_robot_of_other_shape_starts_on_the_ground_not_in_it(kind, of, value):
    sim = sf.Sim(
        sf.load("go2"), sf.Params(p=getattr(sf, kind)(of, low=min(value, 0.001), high=max(value, 1.2))), worlds=2
    )
    sim.apply({"p": value}, ids=[1])
    sim.reset()
    assert lowest_foot(sim, 1) == pytest.approx(lowest_foot(sim, 0), abs=1e-9)
    assert lowest_foot(sim, 0) == pytest.approx(0.0, abs=1e-3)
    for _ in range(25):
        sim.step(sim.rest_command)
        assert (sim.engine.qvel[:, 2] < 0.3).all(), "nothing throws it up"
