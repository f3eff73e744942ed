"""A world's e can always be read back: what `apply` wrote is decoded from the engine's fields to 1e-12."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError

WORLDS = 7
FEET, JOINTS, LEG = ".*_foot", ".*_joint", "FL_.*_joint"

# kind: (low, high, everything else a Param of it needs); on go2 unless HOME says otherwise
RANGES = {
    "friction": (0.3, 1.2, {"of": FEET}),
    "torsional_friction": (0.001, 0.05, {"of": FEET}),
    "rolling_friction": (1e-4, 0.02, {"of": FEET}),
    "softness": (0.012, 0.08, {"of": FEET}),
    "contact_damping": (0.3, 2.0, {"of": FEET}),
    "bounce": (0.01, 0.9, {"of": FEET}),
    "soft_ground": (0.001, 0.05, {"of": FEET}),
    "patch_friction": (0.0, 1.5, {"of": FEET}),
    "static_friction": (1.0, 1.8, {"of": FEET}),
    "radius": (0.015, 0.03, {"of": FEET}),
    "sole_wear": (-0.002, 0.01, {"of": FEET}),
    "link_length": (0.9, 1.1, {"of": ".*_(thigh|calf)"}),
    "axis_tilt": (-0.1, 0.1, {"of": JOINTS}),
    "zero_offset": (-0.1, 0.1, {"of": JOINTS}),
    "stop_shift": (-0.1, 0.1, {"of": JOINTS}),
    "stop_softness": (0.012, 0.1, {"of": JOINTS}),
    "stop_damping": (0.2, 1.0, {"of": JOINTS}),
    "mass": (4.0, 9.0, {"of": "base"}),
    "com": (-0.05, 0.05, {"of": "base", "axis": "y"}),
    "inertia": (-0.3, 0.3, {"of": "base"}),
    "payload_mass": (0.0, 3.0, {"of": "base"}),
    "payload_place": (-0.2, 0.2, {"of": "base"}),
    "link_compliance": (50.0, 500.0, {"of": ".*_calf"}),
    "strength": (0.7, 1.2, {"of": JOINTS}),
    "kp": (20.0, 60.0, {"of": JOINTS}),
    "kd": (0.5, 2.0, {"of": JOINTS}),
    "torque_limit": (10.0, 50.0, {"of": JOINTS}),
    "torque_constant": (0.5, 2.0, {"of": JOINTS}),
    "resistance": (0.2, 2.0, {"of": JOINTS}),
    "voltage": (20.0, 30.0, {"of": JOINTS}),
    "speed_limit": (10.0, 40.0, {"of": JOINTS}),
    "cogging": (0.0, 0.5, {"of": JOINTS}),
    "thermal": (0.5, 5.0, {"of": JOINTS}),
    "voltage_sag": (0.0, 0.2, {}),
    "armature": (0.003, 0.03, {"of": JOINTS}),
    "damping": (0.05, 2.5, {"of": JOINTS}),
    "coulomb": (0.05, 1.0, {"of": JOINTS}),
    "stribeck": (0.0, 0.5, {"of": JOINTS}),
    "load_friction": (0.0, 0.3, {"of": JOINTS}),
    "load_stribeck": (0.0, 0.3, {"of": JOINTS}),
    "motor_friction": (0.0, 0.3, {"of": JOINTS}),
    "external_friction": (0.0, 0.3, {"of": JOINTS}),
    "quadratic_friction": (0.0, 0.01, {"of": JOINTS}),
    "coulomb_asymmetry": (-0.3, 0.3, {"of": JOINTS}),
    "damping_asymmetry": (-0.2, 0.2, {"of": JOINTS}),
    "coulomb_slope": (-0.2, 0.2, {"of": JOINTS}),
    "rotor_inertia": (0.0, 2e-4, {"of": ".*_calf_joint"}),
    "cable_stiffness": (0.0, 3.0, {"of": JOINTS}),
    "cable_rest": (-0.5, 0.5, {"of": JOINTS}),
    "backlash": (0.001, 0.03, {"of": LEG}),
    "spring_stiffness": (100.0, 900.0, {"of": LEG}),
    "rotor_lag": (0.01, 0.1, {}),
    "command_delay": (0.0, 0.03, {}),
    "command_jitter": (0.0, 0.02, {}),
    "rate_limit": (1.0, 30.0, {"of": JOINTS}),
    "encoder_bias": (-0.03, 0.03, {"of": JOINTS}),
    "encoder_noise": (0.0, 0.01, {"of": JOINTS}),
    "encoder_quantum": (0.0, 0.01, {"of": JOINTS}),
    "velocity_noise": (0.0, 0.1, {"of": JOINTS}),
    "velocity_differencing": (0.0, 1.0, {"choices": (0.0, 1.0)}),
    "velocity_filter": (0.0, 0.03, {}),
    "gyro_noise": (0.0, 1e-3, {}),
    "gyro_bias": (-0.02, 0.02, {}),
    "gyro_walk": (0.0, 1e-3, {}),
    "gyro_scale": (-0.02, 0.02, {}),
    "gyro_misalignment": (-0.02, 0.02, {}),
    "accel_noise": (0.0, 1e-2, {}),
    "accel_bias": (-0.2, 0.2, {}),
    "accel_walk": (0.0, 1e-3, {}),
    "accel_scale": (-0.02, 0.02, {}),
    "accel_misalignment": (-0.02, 0.02, {}),
    "imu_mounting": (-0.1, 0.1, {}),
    "sensor_delay": (0.0, 0.02, {}),
    "sensor_jitter": (0.0, 0.01, {}),
    "sensor_dropout": (0.0, 0.2, {}),
    "sensor_period": (0.0, 0.02, {}),
    "force_noise": (0.0, 2.0, {}),
    "force_drift": (-0.1, 0.1, {}),
    "temperature": (0.0, 60.0, {}),
    "gravity": (0.0, 12.0, {}),
    "slope": (-0.3, 0.3, {"axis": "y"}),
    "roughness": (0.0, 0.06, {"choices": (0.0, 0.02, 0.06), "extent": 2.0}),
    "step_height": (0.0, 0.1, {"choices": (0.0, 0.05, 0.1), "extent": 2.0}),
    "push": (0.0, 1.0, {}),
    "wrench": (-10.0, 10.0, {}),
    "moment": (-1.0, 1.0, {}),
    "wind": (-5.0, 5.0, {}),
    "drag": (0.0, 0.3, {}),
    "cable_drag": (0.0, 3.0, {}),
    "torque_noise": (0.0, 0.1, {}),
    "gust": (0.0, 3.0, {}),
    "floor_vibration": (0.0, 2.0, {}),
    "timestep": (0.002, 0.005, {"choices": (0.002, 0.0025, 0.004, 0.005)}),
    "integrator": (0, 3, {}),
    "solver": (0, 2, {}),
    "iterations": (5, 100, {}),
    "cone": (0, 1, {}),
    "impratio": (0.5, 10.0, {}),
}
HOME = {"rotor_lag": "crazyflie"}

# Params that write into the same fields, or whose decoding needs one another's values
NEIGHBOURS = [
    ("friction", "torsional_friction", "rolling_friction", "patch_friction", "static_friction"),
    ("softness", "bounce", "soft_ground", "friction"),
    ("bounce", "softness"),
    ("softness", "contact_damping"),
    ("mass", "com", "payload_mass", "payload_place", "link_length", "armature"),
    ("payload_place", "payload_mass", "inertia"),
    ("inertia", "axis_tilt", "zero_offset", "radius", "link_compliance"),
    ("zero_offset", "backlash", "axis_tilt"),
    ("axis_tilt", "spring_stiffness", "armature", "encoder_bias"),
    ("radius", "sole_wear", "friction"),
    ("link_length", "radius"),
    ("strength", "kp", "kd", "coulomb", "armature", "damping"),
    ("torque_constant", "resistance", "voltage", "kp", "kd", "strength"),
    ("speed_limit", "voltage_sag", "torque_limit", "cogging", "thermal"),
    (
        "coulomb",
        "stribeck",
        "load_friction",
        "motor_friction",
        "external_friction",
        "quadratic_friction",
        "load_stribeck",
        "coulomb_asymmetry",
        "damping_asymmetry",
        "coulomb_slope",
    ),
    ("rotor_inertia", "armature", "mass"),
    ("stop_damping", "stop_softness", "stop_shift"),
    ("cable_stiffness", "cable_rest", "spring_stiffness", "damping"),
    ("gravity", "slope", "floor_vibration"),
    ("gravity", "slope", "roughness"),
    ("slope", "gravity"),
    ("step_height", "friction", "soft_ground"),
    ("wind", "gust", "drag", "wrench", "moment", "push", "cable_drag", "torque_noise"),
    ("gyro_bias", "gyro_scale", "gyro_misalignment", "imu_mounting", "accel_bias", "accel_scale"),
    ("command_delay", "command_jitter", "rate_limit", "sensor_delay", "sensor_jitter", "sensor_period"),
    ("timestep", "integrator", "solver", "iterations", "cone", "impratio"),
]


def param(kind: str, **more) -> sf.Param:
    low, high, rest = RANGES[kind]
    return getattr(sf, kind)(low=low, high=high, **{**rest, **more})


def drawn(sim: sf.Sim, rng: np.random.Generator, worlds: int) -> dict[str, np.ndarray]:
    """Random values inside the bounds, one for all worlds where a Sim has one."""
    e = sim.params.prior().sample(worlds, rng)
    return {n: np.broadcast_to(v[:1], v.shape) if sim.params[n].about.per == "sim" else v for n, v in e.items()}


def assert_read_back(sim: sf.Sim, e: dict[str, np.ndarray]) -> None:
    now = sim.e
    assert set(now) == set(e)
    for name, value in e.items():
        p = sim.params[name]
        assert now[name].shape == value.shape, name
        np.testing.assert_allclose(now[name], value, rtol=1e-12, atol=1e-12 * (p.high - p.low), err_msg=name)


def round_trip(sim: sf.Sim) -> None:
    """Apply to all, then to some in an odd order, in the middle of an episode; read back each time; the state stays."""
    rng = np.random.default_rng(7)
    e = drawn(sim, rng, WORLDS)
    sim.apply(e)
    assert_read_back(sim, e)
    sim.reset()
    for _ in range(2):
        sim.step(sim.rest_command)
    assert_read_back(sim, e)
    assert sim.alive.all()

    before = {
        k: np.array(v) for k, v in (("qpos", sim.engine.qpos), ("qvel", sim.engine.qvel), ("act", sim.engine.act))
    }
    ids = np.array([5, 0, 3])
    some = drawn(sim, rng, len(ids))
    some = {n: v for n, v in some.items() if sim.params[n].about.per == "world"}
    if some:
        sim.apply(some, ids)
        e = {n: np.array(v) for n, v in e.items()}
        for name, value in some.items():
            e[name][ids] = value
    assert_read_back(sim, e)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(sim.engine, name), value, err_msg=name)

    if not sim.laws:  # laws write their fields anew before every substep
        assert_same_fields_after_applying_its_own_e(sim)


def assert_same_fields_after_applying_its_own_e(sim: sf.Sim) -> None:
    fields = {name: np.array(v) for name, v in sim.engine.expanded.items()}
    sim.apply(sim.e)
    for name, value in fields.items():
        scale = np.abs(value[np.isfinite(value)]).max(initial=1e-300)
        np.testing.assert_allclose(sim.engine.expanded[name], value, rtol=1e-11, atol=1e-12 * scale, err_msg=name)


def test_every_kind_has_a_range_here():
    assert set(RANGES) == set(sf.KINDS)


@pytest.mark.parametrize("kind", sf.KINDS)
def test_what_was_applied_is_read_back(kind):
    robot = sf.load(HOME.get(kind, "go2"))
    round_trip(sf.Sim(robot, sf.Params(p=param(kind)), worlds=WORLDS))


@pytest.mark.parametrize("kind", sf.KINDS)
def test_the_nominal_e_is_the_model_as_it_stands(kind):
    sim = sf.Sim(sf.load(HOME.get(kind, "go2")), sf.Params(p=param(kind, each=kind in EACH)), worlds=2)
    np.testing.assert_allclose(sim.e["p"], sim.params.nominal_e(2)["p"], rtol=1e-12, atol=1e-15)
    assert_same_fields_after_applying_its_own_e(sim)


EACH = [k for k, kind in sf.KINDS.items() if kind.target != "world" and not kind.name.startswith("payload")]


@pytest.mark.parametrize("kind", EACH)
def test_one_value_for_each_target_is_read_back(kind):
    robot = sf.load(HOME.get(kind, "go2"))
    sim = sf.Sim(robot, sf.Params(p=param(kind, each=True)), worlds=WORLDS)
    assert len(sim.params.elements["p"]) == len(sim.physics.slots["p"].ids) * max(len(sf.KINDS[kind].components), 1)
    round_trip(sim)


@pytest.mark.parametrize("kinds", NEIGHBOURS, ids=["+".join(k) for k in NEIGHBOURS])
def test_params_that_touch_neighbouring_fields_do_not_disturb_each_other(kinds):
    params = sf.Params(**{kind: param(kind) for kind in kinds})
    round_trip(sf.Sim(sf.load("go2"), params, worlds=WORLDS))


def test_both_axes_of_slope_and_of_com_are_read_back():
    params = sf.Params(
        **{f"slope_{a}": param("slope", axis=a) for a in "xy"}, **{f"com_{a}": param("com", axis=a) for a in "xyz"}
    )
    round_trip(sf.Sim(sf.load("go2"), params, worlds=WORLDS))


@pytest.mark.parametrize("name", sf.available())
def test_default_params_of_every_robot_are_read_back(name):
    round_trip(sf.Sim(sf.load(name), worlds=WORLDS))


def test_rows_go_to_the_worlds_in_the_order_they_are_named():
    sim = sf.Sim(sf.load("cube"), sf.Params(mass=sf.mass("cube", low=0.1, high=1.0)), worlds=5)
    sim.apply({"mass": [0.2, 0.4]}, ids=[4, 1])
    np.testing.assert_allclose(sim.e["mass"], [0.37, 0.4, 0.37, 0.37, 0.2])
    sim.apply({"mass": 0.9}, ids=np.array([True, False, True, False, False]))
    np.testing.assert_allclose(sim.e["mass"], [0.9, 0.4, 0.9, 0.37, 0.2])


@pytest.mark.parametrize(("kinds", "said"), [
    ({"a": "mass", "b": "inertia"}, "'a' and 'b' both act on the mass of 'base'"),
    ({"a": "com", "b": "inertia"}, "'a' and 'b' both act on the com of 'base'"),
    ({"a": "bounce", "b": "contact_damping"}, "'a' and 'b' both act on the contact_damping of"),
    ({"a": "friction", "b": "friction"}, "'a' and 'b' both act on the friction of"),
    ({"a": "sole_wear", "b": "link_length"}, "'a' and 'b' both act on the position of"),
    ({"a": "payload_mass", "b": "payload_mass"}, "'a' and 'b' both act on the mass of 'base'"),
    ({"a": "slope", "b": "slope"}, "'a' and 'b' both act on the slope of"),
    ({"a": "torque_constant", "b": "speed_limit"}, "'a' and 'b' both act on the torque_constant of"),
    ({"a": "gravity", "b": "gravity"}, "'a' and 'b' both act on the gravity"),
    ({"a": "roughness", "b": "step_height"}, "one terrain"),
    ({"a": "link_compliance", "b": "link_compliance"}, "'a' and 'b'"),
    ({"a": "backlash", "b": "backlash"}, "'a' and 'b'"),
])  # fmt: skip
def test_params_that_act_on_the_same_place_are_refused_by_name(kinds, said):
    with pytest.raises(InputError) as error:
        sf.Sim(sf.load("go2"), sf.Params(**{name: param(kind) for name, kind in kinds.items()}))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("e", "said"), [
    ({"foot_fricton": 0.5}, "did you mean 'foot_friction'"),
    ({"foot_friction": np.ones(3)}, "must have shape (7,), got (3,)"),
    ({"foot_friction": np.ones((7, 4))}, "must have shape (7,), got (7, 4)"),
    ({"kd": np.ones((7, 5))}, "must have shape (7, 12), got (7, 5)"),
    ({"foot_friction": [0.5, np.nan, 0.5, 0.5, 0.5, 0.5, 0.5]}, "not a finite number in world 1"),
    ({"foot_friction": np.inf}, "not a finite number in world 0"),
    ({"foot_friction": -0.1}, "'foot_friction' is -0.1 1, allowed is 0 .. inf"),
    ({"mass": 0.0}, "'mass' is 0 kg"),
    ({"bounce": 1.5}, "'bounce' is 1.5 1, allowed is 0.001 .. 0.999"),
    ({"rough": 0.03}, "allowed are 0, 0.02, 0.06"),
    ({"dt": np.linspace(0.002, 0.005, 7)}, "'dt'"),
])  # fmt: skip
def test_wrong_e_is_refused_in_one_sentence_and_changes_nothing(e, said):
    params = sf.Params(
        foot_friction=param("friction"), kd=param("kd", each=True), mass=param("mass"), rough=param("roughness"),
        bounce=param("bounce"), dt=param("timestep"),
    )  # fmt: skip
    sim = sf.Sim(sf.load("go2"), params, worlds=WORLDS)
    before = sim.e
    with pytest.raises(InputError) as error:
        sim.apply({"mass": 5.0, **e})
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    for name, value in sim.e.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(("ids", "said"), [
    ([7], "world 7 does not exist"),
    ([-1], "world -1 does not exist"),
    ([2, 2], "named twice"),
    (np.ones(3, bool), "mask of worlds must have shape (7,)"),
])  # fmt: skip
def test_wrong_worlds_are_refused(ids, said):
    sim = sf.Sim(sf.load("cube"), worlds=WORLDS)
    with pytest.raises(InputError, match=said.replace("(", r"\(").replace(")", r"\)")):
        sim.apply({"mass": 0.3}, ids)


@pytest.mark.parametrize(("make", "said"), [
    (lambda: sf.friction("FL_fot", low=0.1, high=1.0), "did you mean 'FL_foot'"),
    (lambda: sf.friction("FL_thigh_shell", low=0.1, high=1.0), "never touches anything"),
    (lambda: sf.radius("trunk", low=0.1, high=0.2), "neither a sphere nor a capsule"),
    (lambda: sf.softness(FEET, low=0.001, high=0.02), "below twice the time step of 0.005 s"),
    (lambda: sf.axis_tilt("FL_hip_joint", low=-0.1, high=0.1, axis="x"), "is the x axis itself"),
    (lambda: sf.axis_tilt(low=-0.1, high=0.1, axis="w"), "axis='w'"),
    (lambda: sf.com("base", low=-0.1, high=0.1, axis="u"), "axis='u'"),
    (lambda: sf.slope(low=-0.1, high=0.1, axis="z"), "axis='z'"),
    (lambda: sf.payload_mass(".*_calf", low=0.0, high=1.0), "a payload sits on one body"),
    (lambda: sf.roughness(low=0.0, high=0.1), "give choices"),
    (lambda: sf.roughness(low=0.0, high=0.1, choices=(0.0, 0.1), extent=0.5), "leaves no room"),
    (lambda: sf.gravity("base", low=1.0, high=9.0), "leave out of='base'"),
    (lambda: sf.wind(low=1.0, high=9.0, each=True), "cannot have each=True"),
    (lambda: sf.link_compliance("base", low=1.0, high=9.0, axis="y"), "base"),
])  # fmt: skip
def test_a_param_that_could_not_act_is_refused_in_one_sentence(make, said):
    with pytest.raises(InputError) as error:
        sf.Sim(sf.load("go2"), sf.Params(p=make()))
    assert said in str(error.value)
    assert str(error.value).startswith("param 'p': ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["push", "wrench", "moment", "wind", "drag", "cable_drag", "gust"])
def test_what_acts_on_a_free_base_is_refused_where_there_is_none(kind):
    with pytest.raises(InputError, match="acts on a free base, and robot 'servo' has none"):
        sf.Sim(sf.load("servo"), sf.Params(p=param(kind)))


def test_both_sides_of_a_contact_are_not_two_unknowns():
    params = sf.Params(foot=param("friction"), floor=sf.friction("ground", low=0.3, high=1.0))
    with pytest.raises(InputError, match="'foot' and 'floor' act on both sides of a contact"):
        sf.Sim(sf.load("go2"), params)


def test_wind_and_gust_blow_on_the_same_area():
    params = sf.Params(wind=param("wind", area=0.1), gust=param("gust", area=0.2))
    with pytest.raises(InputError, match=r"wind acts on 0\.1 m² and gust on 0\.2 m²"):
        sf.Sim(sf.load("go2"), params)
    sf.Sim(sf.load("go2"), params | sf.Params(drag=param("drag")))


def test_numbers_that_count_something_are_whole():
    assert sf.iterations(low=2, high=4).choices == (2.0, 3.0, 4.0)
    with pytest.raises(InputError, match="whole numbers"):
        sf.cone(low=0, high=1, choices=(0.0, 0.5, 1.0))
    sim = sf.Sim(sf.load("cube"), sf.Params(cone=sf.cone(low=0, high=1)))
    with pytest.raises(InputError, match="allowed are 0, 1"):
        sim.apply({"cone": 0.5})
