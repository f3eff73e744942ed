"""Active exploration: information is right, limits are kept, a design teaches more than what is usually done, the runtime plays it."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import surefoot as sf
from surefoot import cli
from surefoot.deploy.trajectory import Trajectory, load_trajectory, play, read_played, recital, write_trajectory
from surefoot.errors import InputError
from surefoot.identify.design import Motion, load_design
from surefoot.identify.excitations import FAMILIES, Grid, random_steps, usual_chirp, usual_multi_sine
from surefoot.identify.excite import Beliefs, Effort, Judge, excite, learnable, noise_of, usual_limits
from surefoot.identify.excite_limits import limits_of, reach_of
from surefoot.identify.information import Information, Lens, Noise, sensor_noise_of
from surefoot.logs import Channel, Log

ONLY = ("kp", "armature", "coulomb", "command_delay")
FEW = Effort(families=("multi-sine", "chirp"), population=6, rounds=2, elite=2, samples=2)


def servo(*only: str, timestep: float = 0.0025) -> sf.Sim:
    robot = sf.load("servo")
    return sf.Sim(replace(robot, timestep=timestep), robot.params.only(*only), threads=1)


@pytest.fixture(scope="module")
def sim():
    return servo(*ONLY)


@pytest.fixture(scope="module")
def design(sim):
    return excite(sim, only=ONLY, seconds=2.0, effort=FEW)


def judge(sim, only, e=None, **changes) -> Judge:
    beliefs = Beliefs(sim, None, only, 3, 0)
    if e is not None:
        beliefs.e = e
    lens = Lens(names=beliefs.names, noise=sensor_noise_of(sim), window=1.0)
    return Judge(sim, Information(sim, replace(lens, **changes)), beliefs, usual_limits(sim, beliefs.names), Effort())


# -------------------------------------------------------------------- motions


@pytest.mark.parametrize("name", FAMILIES)
def test_motions_start_and_end_at_rest_and_keep_the_band(name):
    grid = Grid(dt=0.005, steps=800, motors=3, band=5.0)
    family = FAMILIES[name]
    s = family.motions(family.random(4, grid, np.random.default_rng(0)), grid)
    assert s.shape == (4, 800, 3)
    assert np.abs(s).max() <= 1.0 + 1e-12
    assert np.abs(s[:, [0, -1]]).max() < 1e-9
    power = np.abs(np.fft.rfft(s - s.mean(1, keepdims=True), axis=1)) ** 2
    above = np.fft.rfftfreq(800, 0.005) > 2.5 * 5.0
    assert power[:, above].sum() < 0.01 * power.sum()


def test_usual_motions_are_unit_motions():
    grid = Grid(dt=0.01, steps=400, motors=2, band=5.0)
    for s in (usual_chirp(grid), usual_multi_sine(grid), random_steps(grid, np.random.default_rng(1))):
        assert s.shape == (400, 2)
        assert 0.3 < np.abs(s).max() <= 1.0 + 1e-9


def test_a_motion_of_the_wrong_size_is_refused():
    grid = Grid(dt=0.01, steps=100, motors=2, band=5.0)
    with pytest.raises(InputError, match="takes 10 numbers, not 3"):
        FAMILIES["chirp"].motions(np.zeros((1, 3)), grid)


# -------------------------------------------------------------------- information


def test_information_is_that_of_replayed_logs(sim):
    """F without unknown starts equals Σ JᵀJ/σ² of central differences of Sim.replay."""
    j = judge(sim, ONLY, e=sim.params.nominal_e(1), unknown_start=False)
    grid = j.grid(1.0)
    u = j.centre + 0.3 * j.amplitude * usual_chirp(grid)[None]
    F = j.information(u, sim.params.nominal_e(1))[0, 0]
    t = grid.t
    at = j.information.at
    log = Log(
        channels=(
            Channel(name="joint_pos_target", unit="rad", t=t, values=u[0], columns=("servo",), role="u"),
            Channel(name="joint_pos", unit="rad", t=at, values=np.zeros((len(at), 1)), columns=("servo",)),
        ),
        robot="servo",
    )
    fine = sim.replace(robot=replace(sim.robot, sensors=tuple(replace(s, figures={}) for s in sim.robot.sensors)))
    z, h = sim.params.pack(sim.params.nominal_e(1)), 1e-4
    rows = np.concatenate([z + h * np.eye(4), z - h * np.eye(4)])
    y = fine.replay(log, sim.params.unpack(rows), qpos=sim.start_qpos, qvel=np.zeros(1)).values["joint_pos"][..., 0]
    J = (y[:4] - y[4:]).T / (2 * h) / sensor_noise_of(sim).std["joint_pos"]
    np.testing.assert_allclose(F, J.T @ J, rtol=0.02, atol=0.02 * np.abs(J.T @ J).max())


def test_what_is_confounded_gets_no_information():
    """kp, kd, inertias and frictions can all grow together: a motion cannot tell, and says so."""
    only = ("kp", "kd", "armature", "damping", "coulomb", "arm_mass")
    sim = servo(*only)
    e = sim.params.nominal_e(1)
    j = judge(sim, only, e=e)
    u, _ = j.scaled(usual_multi_sine(j.grid(2.0))[None])
    F = j.information(u, e)[0, 0]
    scale = np.array([1.0] * 6)  # d ln v / d ln(scale); to packed coordinates:
    p = sim.params
    v = p.flatten(e)[0]
    span = np.where(p.log, np.log(np.where(p.log, p.high / np.where(p.log, p.low, 1.0), np.e)) * v, p.high - p.low)
    s = 1 / (1 + np.exp(-p.pack(e)[0]))
    direction = scale * v / (span * s * (1 - s))
    other = np.eye(6)[0]
    assert direction @ F @ direction < 1e-4 * (np.linalg.norm(direction) ** 2) * (other @ F @ other)
    left = j.beliefs.expected(F[None]) / j.beliefs.std
    assert left[5] > 0.5
    assert (left[:5] < left[5]).all()


def test_an_unknown_start_teaches_less_and_inflation_widens(sim):
    e = sim.params.nominal_e(1)
    known, unknown = judge(sim, ONLY, e=e, unknown_start=False), judge(sim, ONLY, e=e)
    u = known.centre + 0.3 * known.amplitude * usual_chirp(known.grid(1.0))[None]
    a, b = known.information(u, e)[0, 0], unknown.information(u, e)[0, 0]
    assert np.linalg.eigvalsh(a - b).min() > -1e-6 * np.linalg.norm(a)
    wide = judge(sim, ONLY, e=e, noise=Noise(std=sensor_noise_of(sim).std, inflation=3.0))
    np.testing.assert_allclose(wide.information(u, e)[0, 0], b / 9, rtol=1e-6)


def test_noise_comes_from_the_robot_or_from_a_fit(sim):
    plain = sensor_noise_of(sim)
    assert plain.std["joint_pos"][0] == pytest.approx(np.hypot(0.0005, 0.00153398 / np.sqrt(12)))
    with pytest.raises(InputError, match="a channel of 'servo' with a stated noise"):
        sensor_noise_of(sim, ("gyro",))
    score = SimpleNamespace(channel="joint_pos", column="servo", windows="held out", after=0.02)
    fit = SimpleNamespace(params=sim.params, scores=[score], std=np.array([3.0, 4.0]), white_std=np.array([1.0, 1.0]))
    found = noise_of(sim, fit)
    assert found.std["joint_pos"][0] == 0.02
    assert found.inflation == pytest.approx(3.5)


# -------------------------------------------------------------------- designs


@pytest.mark.slow
def test_a_design_teaches_and_keeps_the_limits_in_fresh_worlds(sim, design):
    assert design.motion.setting == "fixed"
    assert design.motion.columns == ("servo",)
    assert all(x.after < 0.5 * x.before for x in design.expected)
    assert "expects to learn most about" in str(design)
    assert str(design).count("±") >= 3
    fresh = Beliefs(sim, None, ONLY, 8, 99).e
    j = judge(sim, ONLY)
    states = j.information.walk(design.motion.values[None], fresh, sim.control_dt)
    assert (limits_of(sim).excess(sim, states) < 0.1).mean() > 0.8
    own = j.information.walk(design.motion.values[None], Beliefs(sim, None, ONLY, 2, 0).e, sim.control_dt)
    assert (usual_limits(sim, ONLY).excess(sim, own) == 0.0).all()


@pytest.mark.slow
def test_a_design_repeats_and_beats_what_is_usual(sim, design):
    again = excite(sim, only=ONLY, seconds=2.0, effort=FEW)
    np.testing.assert_array_equal(again.motion.values, design.motion.values)
    beliefs = Beliefs(sim, None, ONLY, FEW.samples, 0)
    lens = Lens(names=ONLY, noise=Noise(std=sensor_noise_of(sim).std, inflation=7.0, drift=0.05), window=1.0)
    j = Judge(sim, Information(sim, lens), beliefs, usual_limits(sim, ONLY), FEW)
    usual = j.trials("usual", np.stack([usual_chirp(j.grid(2.0)), usual_multi_sine(j.grid(2.0))]))
    assert max(design.scores.values()) > max(t.score for t in usual)


@pytest.mark.slow
def test_both_criteria_and_a_posterior_narrow_what_they_are_about(sim):
    belief = sim.params.prior().replace(kp=sf.Normal(mean=0.9, sd=0.01))
    for criterion in ("D", "A"):
        found = excite(
            sim, belief, only=("kp", "coulomb"), seconds=1.0, effort=replace(FEW, criterion=criterion, rounds=1)
        )
        assert found.expected[0].before < 0.02
        assert found.expected[1].after < found.expected[1].before
        assert found.about["criterion"] == criterion


def test_what_cannot_be_designed_is_said(sim):
    flyer = sf.Sim(sf.load("crazyflie"))
    with pytest.raises(InputError, match="driven by rotor actuators"):
        reach_of(flyer, limits_of(flyer))
    with pytest.raises(InputError, match="'kpp' is not a Param that is believed"):
        excite(sim, only=("kpp",))
    with pytest.raises(InputError, match=r"needs at least 0\.02 s"):
        excite(sim, seconds=0.001)
    with pytest.raises(InputError, match="is not a criterion"):
        Effort(criterion="E")  # type: ignore[arg-type]
    assert "push" not in learnable(sf.load("go2").params)
    assert "base_mass" in learnable(sf.load("go2").params)


def test_a_design_is_a_plain_file(design, tmp_path):
    path = design.save(tmp_path / "motion.json")
    back = load_design(path)
    assert back.to_dict() == design.to_dict()
    assert load_trajectory(path).columns == ("servo",)
    (tmp_path / "bad.json").write_text(json.dumps({"format": "surefoot trajectory", "version": 1}))
    with pytest.raises(InputError, match="'robot' is missing"):
        load_design(tmp_path / "bad.json")
    with pytest.raises(InputError, match=r"a trajectory is a \.json file"):
        design.save(tmp_path / "motion.txt")
    with pytest.raises(InputError, match="needs finite values"):
        Motion(channel="joint_pos_target", columns=("servo",), dt=0.01, values=np.full((3, 1), np.nan), setting="fixed")


def test_a_sort_of_motion_that_keeps_no_limit_is_left_out_of_the_comparison(sim, tmp_path, monkeypatch):
    found = Judge.trials

    def trials(self, family, motions):
        lost = {"score": -np.inf, "scale": 0.0} if family == "usual" else {}
        return [replace(t, **lost) for t in found(self, family, motions)]

    monkeypatch.setattr(Judge, "trials", trials)
    effort = replace(FEW, families=("multi-sine",), rounds=1, climbs=0)
    design = excite(sim, only=("kp",), seconds=0.5, effort=effort)
    assert set(design.scores) == {"multi-sine"}
    assert load_design(design.save(tmp_path / "motion.json")).scores == design.scores


# -------------------------------------------------------------------- playing


def motion(values, **changes) -> Trajectory:
    given = {"robot": "servo", "setting": "fixed", "channel": "joint_pos_target", "columns": ("servo",), "dt": 0.005}
    return Trajectory(**(given | changes), values=np.asarray(values, float))


def test_a_motion_that_leaves_the_limits_jumps_or_starts_elsewhere_is_refused():
    ramp = np.linspace(0.0, 1.0, 100)[:, None]
    assert recital(motion(ramp)).contract.control_dt == 0.005
    with pytest.raises(InputError, match="asks shoulder_pan for"):
        recital(motion(5 * ramp, robot="so101", columns=("shoulder_pan",)))
    with pytest.raises(InputError, match="jumps by 4"):
        recital(motion([[0.0], [4.0], [0.0]]))
    with pytest.raises(InputError, match="starts with servo"):
        recital(motion(ramp + 0.3))
    with pytest.raises(InputError, match="is no motor of servo"):
        recital(motion(ramp, columns=("elbow",)))
    with pytest.raises(InputError, match="needs finite rows"):
        motion(np.full((5, 1), np.nan))
    with pytest.raises(InputError, match="is not a kind of trajectory"):
        motion(ramp, channel="wishes")
    with pytest.raises(InputError, match="rows every"):
        motion(ramp, dt=10.0)


def test_a_motion_of_commands_needs_its_policy():
    asked = motion(np.zeros((10, 1)), channel="command", columns=("vx",), dt=0.02)
    assert asked.asked(0.05) == {"vx": 0.0}
    with pytest.raises(InputError, match="name the bundle that walks"):
        play(asked, SimpleNamespace())  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_runtime_plays_a_design_with_the_safety_layer_on(design, tmp_path):
    from surefoot.hardware.connect import connect

    path = write_trajectory(tmp_path / "motion.json", design.to_dict())
    robot = connect("twin:servo/01-nominal", lockstep=True)
    try:
        outcome = play(path, robot, record=tmp_path / "log.mcap", say=None)
    finally:
        robot.close()
    assert (outcome.ended, outcome.state) == ("finished", "ok")
    log = read_played(tmp_path / "log.mcap")
    assert log.duration == pytest.approx(2.0, abs=0.02)
    sent = log["joint_pos_target"]
    wanted = design.motion.values[np.minimum(((sent.t - sent.t[0]) / 0.005 + 1e-6).astype(int), 399)]
    np.testing.assert_allclose(sent.values[:-2], wanted[:-2], atol=1e-5)


@pytest.mark.slow
def test_the_command_line_designs_and_writes(tmp_path, capsys):
    out = tmp_path / "motion.json"
    words = [
        "excite",
        "double_pendulum",
        "--only",
        "armature,strength",
        "--seconds",
        "1",
        "--effort",
        "quick",
        "--out",
        str(out),
        "--json",
    ]
    assert cli.run(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert {x["name"] for x in said["expected"]} == {"armature", "strength"}
    written = load_trajectory(out)
    assert written.contract is not None
    assert recital(written).contract.action.kind == "joint_torque_target"
    assert cli.run(["excite", "servo", "--setting", "walking"]) == 2
    assert "needs the policy that walks" in capsys.readouterr().err
    assert cli.run(["deploy", "--hardware", "twin:servo/01-nominal"]) == 2
    assert "--trajectory FILE" in capsys.readouterr().err
    assert cli.run(["deploy", "--hardware", "twin:servo/01-nominal", "--trajectory", str(out), "--seconds", "3"]) == 2
    assert "leave out --command, --shadow and --seconds" in capsys.readouterr().err
