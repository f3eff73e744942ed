"""Another robot of the same kind: joints as they differ on the robot that was fitted, and what such robots are foreseen to do."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import surefoot as sf
from rigs import BODY, IMU, rig
from surefoot import cli
from surefoot.errors import InputError
from surefoot.identify import Fit, another_robot, foresee, identify, load_fit
from surefoot.identify.another import widths
from surefoot.params import LogNormal, LogUniform, Normal, Prior

JOINTS = 6
ARMS = "\n".join(
    f'<body name="arm{k}" pos="0 {0.2 * k} 0"><inertial pos="0 0 -0.3" mass="0.5" diaginertia="1e-4 1e-4 1e-4"/>'
    f'<joint name="arm{k}" axis="0 1 0"/></body>'
    for k in range(JOINTS)
)
"""Pendulums side by side that do not touch: joints of one sort."""
MOTOR = 'model = "pd"\nkp = 20.0\nkd = 0.5\narmature = 0.02\ncoulomb = 0.2\nsource = "test"'
MEDIAN, OWN = 0.3, 0.35
"""Dry friction of this kind's joints [N·m] and how far they differ, of ln."""


def params(**more):
    return sf.Params(
        coulomb=sf.coulomb("arm.*", low=0.02, high=2.0, scale="log", each=True),
        strength=sf.strength("arm.*", low=0.5, high=1.5, nominal=1.0),
        **more,
    )


def believed(sim):
    """Before anything was recorded; the motors' strength is known well beside what a log tells of an inertia that never matters."""
    beliefs = {"coulomb": LogUniform(low=0.05, high=2.0), "strength": Normal(mean=1.0, sd=0.1)}
    if "armature" in sim.params:
        beliefs["armature"] = LogNormal(median=0.02, sigma=0.002)
    return Prior.independent(sim.params, beliefs)


def recording(sim, e, seconds=4.0, noise=True):
    """The encoders of slow triangles, under e (one robot)."""
    t = np.arange(0.0, seconds, 0.01)
    u = 0.8 * np.abs((0.5 * t[:, None] + np.linspace(0, 1, JOINTS)) % 2.0 - 1.0) - 0.4
    make = {"unit": "rad", "t": t, "columns": sim.robot.joints}
    log = sf.Log(
        channels=(sf.Channel(name="joint_pos_target", values=u, role="u", **make), sf.Channel(name="joint_pos", values=u, **make)),
        robot="rig",
    )  # fmt: skip
    return sim.replay(log, e, noise=noise, qpos=u[0], qvel=np.zeros(JOINTS)).world(0)


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    sensors = (
        '[[sensors]]\nkind = "encoder"\nname = "encoder"\nof = ".*"\nrate = 100.0\nnoise = 0.0005\nsource = "test"\n'
    )
    return rig(tmp_path_factory.mktemp("another"), ARMS, motor=MOTOR, sensors=sensors, dt=0.0025, period=0.01)


@pytest.fixture(scope="module")
def sim(robot):
    return sf.Sim(robot, params(), seed=1)


@pytest.fixture(scope="module")
def kind():
    """Robots of the kind: dry friction of their joints, (robots, joints)."""
    return MEDIAN * np.exp(OWN * np.random.default_rng(2).standard_normal((20, JOINTS)))


@pytest.fixture(scope="module")
def first(sim, kind):
    log = recording(sim, {"coulomb": kind[:1], "strength": [0.85]})
    return log, identify(sim, log, window=1.0, held_out=0.0, start="log")


def test_joints_of_another_robot_are_believed_to_differ_as_those_of_the_first(sim, kind, first):
    _, fit = first
    assert fit.e["coulomb"][0] == pytest.approx(kind[0], rel=0.05)
    prior = another_robot(fit, believed(sim), own=["strength"])
    draws = np.log(prior.sample(4000, 0)["coulomb"])
    few = stats.t.ppf(0.95, JOINTS - 1) / stats.norm.ppf(0.95)
    scatter = few * np.log(kind[0]).std(ddof=1)
    assert draws.mean() == pytest.approx(np.log(kind[0]).mean(), abs=0.05)
    own = (draws - draws.mean(1, keepdims=True)).std() * np.sqrt(JOINTS / (JOINTS - 1))
    assert own == pytest.approx(scatter, rel=0.1)
    assert draws.mean(1).std() == pytest.approx(scatter * np.sqrt(2 / JOINTS), rel=0.1), (
        "six more, around a mean that six have told"
    )


def test_nine_of_ten_joints_of_other_robots_lie_in_the_interval_that_one_robot_gives(sim, kind):
    """Over many kinds: the spread of six joints is itself known from six."""
    rng, inside = np.random.default_rng(4), []
    small = np.diag(np.full(JOINTS + 1, 1e-8))
    for _ in range(60):
        here, there = MEDIAN * np.exp(OWN * rng.standard_normal((2, JOINTS)))
        values = np.array([*here, 1.0])
        fit = Fit.made(sim.params, values, small, white_std=np.full(JOINTS + 1, 1e-4), freedom=30.0)
        ends = another_robot(fit, believed(sim)).interval(0.9)
        low, high = np.array([ends[name] for name in fit.names[:JOINTS]]).T
        inside.append(np.mean((there > low) & (there < high)))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)


def told(fit_params, values, std, freedom):
    """A fit with independent errors."""
    std = np.broadcast_to(np.asarray(std, float), np.shape(values))
    return Fit.made(fit_params, np.asarray(values, float), np.diag(std**2), white_std=std, freedom=freedom)


@pytest.mark.parametrize("freedom", [1.0, 3.0])
def test_a_value_that_sisters_share_lies_in_nine_of_ten_intervals_however_few_blocks_told_it(robot, freedom):
    """The truth is 1; every fit errs by a normal whose deviation it knows from `freedom` blocks."""
    alone = sf.Sim(robot, sf.Params(strength=sf.strength("arm.*", low=0.5, high=1.5, nominal=1.0))).params
    rng, inside = np.random.default_rng(5), []
    for _ in range(400):
        std = 0.01 * np.sqrt(rng.chisquare(freedom) / freedom)
        fit = told(alone, [1.0 + 0.01 * rng.standard_normal()], [std], freedom)
        prior = another_robot(fit, alone.prior())
        low, high = prior.interval(0.9)["strength"]
        inside.append(low < 1.0 < high)
        if widths(fit, alone.prior())["strength"] < 0.2:
            np.testing.assert_allclose((low, high), fit.intervals(0.9)[0], atol=1e-5)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.035)


def test_joints_that_do_not_differ_are_known_as_well_as_the_few_blocks_tell(sim):
    """Joints of one value whose fits err together, as by a weight that was taken for another: their scatter says nothing of that."""
    rng, inside = np.random.default_rng(6), []
    for _ in range(200):
        std = 0.02 * np.sqrt(rng.chisquare(1))
        found = MEDIAN * np.exp(0.02 * rng.standard_normal())
        values, stds = np.array([*[found] * JOINTS, 1.0]), np.array([*[found * std] * JOINTS, 0.01])
        fit = told(sim.params, values, stds, np.array([*[1.0] * JOINTS, 30.0]))
        below = another_robot(fit, believed(sim)).product.cdf(fit.names[0], np.array([MEDIAN]))[0]
        inside.append(0.05 < below < 0.95)
    assert np.mean(inside) == pytest.approx(0.92, abs=0.04)


def test_the_axes_of_a_sensor_are_no_joints_of_one_sort(tmp_path):
    """Each axis by itself: what is known of one says nothing of the others, and is not their mean."""
    here = rig(tmp_path, BODY.format(place=""), sensors=IMU, more='base = "base"')
    axes = sf.Sim(here, sf.Params(gyro_bias=sf.gyro_bias(low=-0.1, high=0.1))).params
    prior = another_robot(told(axes, [0.08, -0.01, 0.0], [0.001, 0.002, 0.2], 50.0), axes.prior())
    assert prior.interval()["gyro_bias[x]"] == pytest.approx((0.0783, 0.0817), abs=1e-4)
    assert prior.interval()["gyro_bias[y]"] == pytest.approx((-0.0134, -0.0066), abs=1e-4)
    assert prior.interval()["gyro_bias[z]"] == pytest.approx((-0.09, 0.09)), "the logs did not tell"
    bound = replace(told(axes, [0.1, -0.01, 0.0], 0.001, 50.0), at_bound=("gyro_bias[x]",))
    ends = another_robot(bound, axes.prior()).interval()
    assert ends["gyro_bias[x]"] == pytest.approx((-0.09, 0.09)), "at its bound"
    assert ends["gyro_bias[y]"] == pytest.approx((-0.0117, -0.0083), abs=1e-4)


def test_what_belongs_to_one_robot_stays_with_it(sim, first):
    _, fit = first
    assert fit["strength"] == pytest.approx(0.85, rel=0.02)
    apart, shared = (another_robot(fit, believed(sim), own=own).mean()["strength"][0] for own in (["strength"], []))
    assert apart == pytest.approx(1.0, abs=0.01)
    assert shared == pytest.approx(fit["strength"], rel=0.01)


def test_what_the_logs_tell_less_well_than_was_believed_stays_as_believed(robot, kind):
    """A rotor that is published to 0.2 % is known better than slow triangles tell."""
    wider = sf.Sim(robot, params(armature=sf.armature("arm.*", low=1e-3, high=0.3, nominal=0.02, scale="log")), seed=1)
    log = recording(wider, {"coulomb": kind[:1], "strength": [0.9]})
    fit = identify(wider, log, window=1.0, held_out=0.0, start="log", robust=3.0)
    belief = believed(wider)
    known = widths(fit, belief)
    assert known["armature"] > 1.0 > known["coulomb"]
    prior = another_robot(fit, belief)
    assert prior.marginal(["armature"]).interval() == belief.marginal(["armature"]).interval()
    assert prior.interval()["strength"][1] < 0.95


def test_the_mean_over_such_robots_foresees_them_better_than_one_replay_and_bands_hold_nine_tenths(sim, first):
    """Robots drawn from p(e) itself: no prediction has a smaller expected squared error than the mean."""
    _, fit = first
    prior = another_robot(fit, believed(sim), own=["strength"])
    truth = prior.sample(16, 9)
    gaps, inside = {"mean": [], "middle": [], "nominal": []}, []
    for k in range(16):
        log = recording(sim, {name: v[k : k + 1] for name, v in truth.items()}, seconds=2.0, noise=False)
        seen = foresee(sim, log, prior, draws=128, seed=3)
        assert seen.diverged == 0
        assert seen.mean["joint_pos"].shape == (len(seen.log["joint_pos"].t), JOINTS)
        gaps["mean"].append(seen.gap("joint_pos"))
        for name, e in (("middle", prior.quantile(0.5)), ("nominal", {})):
            gaps[name].append(sim.replay(log, e, channels=("joint_pos",)).gap("joint_pos")[0])
        inside.append(seen.inside("joint_pos"))
    error = {name: float(np.mean(np.square(gap))) for name, gap in gaps.items()}
    assert error["mean"] < error["middle"] < error["nominal"]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.06)


def lossy(log, at, joint=0):
    """The log without the encoder's readings of one joint at some samples."""
    encoder = log["joint_pos"]
    values = encoder.values.copy()
    values[at, joint] = np.nan
    others = [channel for channel in log if channel.name != "joint_pos"]
    return replace(log, channels=(*others, replace(encoder, values=values, nan=True)))


def test_lost_readings_are_neither_inside_nor_outside(sim, kind, first):
    """Of a joint whose readings all lie in the band, those that arrived do too."""
    _, fit = first
    prior = another_robot(fit, believed(sim), own=["strength"])
    log = recording(sim, {"coulomb": kind[1:2], "strength": [1.0]}, seconds=1.0)
    whole = foresee(sim, log, prior, draws=32, channels=("joint_pos",))
    lost = np.arange(20, 60)
    part = foresee(sim, lossy(log, lost), prior, draws=32, channels=("joint_pos",))
    seen, low, high = (a[:, 0] for a in (log["joint_pos"].values, whole.low["joint_pos"], whole.high["joint_pos"]))
    kept = np.delete((seen >= low) & (seen <= high), lost)
    assert part.inside("joint_pos")[0] == pytest.approx(kept.mean())
    np.testing.assert_array_equal(part.inside("joint_pos")[1:], whole.inside("joint_pos")[1:])
    none = replace(whole, log=lossy(whole.log, np.arange(len(seen))))
    assert np.isnan(none.inside("joint_pos")[0])
    assert np.isfinite(none.inside("joint_pos")[1:]).all()


def test_what_cannot_be_said_of_another_robot_is_refused_in_a_sentence(robot, sim, first):
    log, fit = first
    with pytest.raises(InputError, match=r"own: 'strenght' is not a param of the fit \(did you mean 'strength'"):
        another_robot(fit, believed(sim), own=["strenght"])
    tied = sf.Params(coulomb=sf.coulomb("arm.*", low=0.02, high=2.0, scale="log"))
    with pytest.raises(InputError, match="'coulomb' has 6 values in the fit and 1 in the prior"):
        another_robot(fit, sf.Sim(robot, tied).params.prior())
    with pytest.raises(InputError, match="the prior's 'coulomb' is not the 'coulomb' of this sim"):
        foresee(sf.Sim(robot, tied), log, believed(sim))
    with pytest.raises(InputError, match="draws=1 must be a whole number of at least 2"):
        foresee(sim, log, believed(sim), draws=1)
    with pytest.raises(InputError, match=r"level=1\.5 must be a share"):
        foresee(sim, log, believed(sim), level=1.5)
    with pytest.raises(InputError, match=r"'joint_vel' was not foreseen"):
        foresee(sim, log, believed(sim), draws=2, channels=("joint_pos",)).gap("joint_vel")


def test_the_command_line_writes_the_file_and_foresees_a_log_with_it(sim, robot, kind, tmp_path, capsys):
    sim.params.save(tmp_path / "params.toml")
    recording(sim, {"coulomb": kind[:1], "strength": [0.85]}).save(tmp_path / "first.npz")
    recording(sim, {"coulomb": kind[1:2], "strength": [1.0]}).save(tmp_path / "second.npz")
    words = [str(robot.folder), "--params", str(tmp_path / "params.toml")]
    fit = ["identify", *words, str(tmp_path / "first.npz"), "--log-start", "--held-out", "0"]
    assert cli.run([*fit, "--another", str(tmp_path / "another.toml"), "--own", "strength"]) == 0
    assert "another.toml" in capsys.readouterr().err
    prior = Prior.load(tmp_path / "another.toml")
    assert prior.interval()["strength"] == pytest.approx((0.55, 1.45), abs=0.02), (
        "uniform between its bounds, as before"
    )
    replay = [
        "replay",
        str(tmp_path / "second.npz"),
        *words,
        "--prior",
        str(tmp_path / "another.toml"),
        "--draws",
        "16",
    ]
    assert cli.run([*replay, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["column"] for row in rows if row["channel"] == "joint_pos"] == list(robot.joints)
    assert all(0.0 <= row["inside"] <= 1.0 and row["rms"] < 0.1 for row in rows)
    assert cli.run(replay) == 0
    assert "inside 90 %" in capsys.readouterr().out
    for wrong, sentence in (
        ([*fit, "--own", "strength"], "give --another FILE too"),
        ([*fit, "--another", "prior.html"], "must end in .toml or .json"),
        ([*fit, "--another", str(tmp_path / "b.toml"), "--own", "strenght"], "did you mean 'strength'"),
        ([*replay[:-4], "--draws", "4"], "give --prior FILE too"),
        ([*replay, "--e", str(tmp_path / "another.toml")], "leave out one of them"),
    ):
        assert cli.run(wrong) == 2
        assert sentence in capsys.readouterr().err


def test_the_command_line_counts_lost_readings_and_compares_the_rest(sim, robot, kind, tmp_path, capsys):
    sim.params.save(tmp_path / "params.toml")
    believed(sim).save(tmp_path / "kind.toml")
    log = recording(sim, {"coulomb": kind[:1], "strength": [1.0]}, seconds=1.0)
    log.save(tmp_path / "whole.npz")
    lossy(log, np.arange(20, 60)).save(tmp_path / "lossy.npz")
    words = [str(robot.folder), "--params", str(tmp_path / "params.toml")]
    for more, title in ((["--prior", str(tmp_path / "kind.toml"), "--draws", "8"], "inside 90 %"), ([], "floor")):
        rows = {}
        for name in ("whole", "lossy"):
            assert cli.run(["replay", str(tmp_path / f"{name}.npz"), *words, *more, "--json"]) == 0
            rows[name] = [r for r in json.loads(capsys.readouterr().out) if r["channel"] == "joint_pos"]
        assert [r["missing"] for r in rows["lossy"]] == [40, *[0] * (JOINTS - 1)]
        assert rows["lossy"][1:] == rows["whole"][1:]
        assert None not in rows["lossy"][0].values()
        assert cli.run(["replay", str(tmp_path / "lossy.npz"), *words, *more]) == 0
        said = capsys.readouterr().out
        assert title in said
        assert "missing" in said
        assert "nan" not in said
        assert cli.run(["replay", str(tmp_path / "whole.npz"), *words, *more]) == 0
        assert "missing" not in capsys.readouterr().out


def test_gains_that_logs_state_are_no_unknowns_of_other_robots(robot, kind, tmp_path, capsys):
    """Two recordings at gains of their own tell of sisters, of whom a third recording at another gain is foreseen."""
    friction = params().only("coulomb")
    tuned = sf.Sim(robot, friction | sf.Params(kp=sf.kp("arm.*", low=5.0, high=80.0)), seed=1)
    friction.save(tmp_path / "params.toml")
    for name, kp in (("soft", 20.0), ("stiff", 40.0), ("other", 30.0)):
        log = recording(tuned, {"coulomb": kind[:1], "kp": [kp]}, seconds=2.0)
        replace(log, meta={"kp": kp, "kd": 0.5}).save(tmp_path / f"{name}.npz")
    words = [str(robot.folder), "--params", str(tmp_path / "params.toml"), "--gains"]
    logs = [str(tmp_path / f"{name}.npz") for name in ("soft", "stiff")]
    fit = ["identify", *words, *logs, "--log-start", "--held-out", "0", "--another", str(tmp_path / "kind.toml")]
    assert cli.run(fit) == 0
    prior = Prior.load(tmp_path / "kind.toml")
    assert list(prior.params) == ["coulomb"]
    assert np.log(prior.sample(2000, 0)["coulomb"]).mean() == pytest.approx(np.log(kind[0]).mean(), abs=0.06)
    capsys.readouterr()
    assert (
        cli.run(["replay", str(tmp_path / "other.npz"), *words, "--prior", str(tmp_path / "kind.toml"), "--json"]) == 0
    )
    rows = json.loads(capsys.readouterr().out)
    assert all(row["rms"] < 0.05 for row in rows if row["channel"] == "joint_pos")
    assert cli.run([*fit, "--own", "stated_kp"]) == 2
    assert "'stated_kp' is not a param of this robot" in capsys.readouterr().err


def test_what_was_believed_of_the_fitted_robot_reaches_its_sisters_only_through_the_fit(sim, robot, kind, tmp_path):
    """An earlier fit of this robot's strength is a belief about this robot; sisters have all of the Params, and their own strength."""
    sim.params.save(tmp_path / "params.toml")
    recording(sim, {"coulomb": kind[:1], "strength": [0.85]}).save(tmp_path / "first.npz")
    alone = sf.Sim(robot, params().only("strength")).params
    Prior.independent(alone, {"strength": Normal(mean=0.85, sd=0.02)}).save(tmp_path / "weighed.toml")
    words = [
        "identify", str(robot.folder), str(tmp_path / "first.npz"), "--params", str(tmp_path / "params.toml"), "--log-start",
        "--held-out", "0", "--prior", str(tmp_path / "weighed.toml"),
    ]  # fmt: skip
    assert cli.run([*words, "--another", str(tmp_path / "shared.toml"), "--out", str(tmp_path / "fit.json")]) == 0
    assert cli.run([*words, "--another", str(tmp_path / "apart.toml"), "--own", "strength"]) == 0
    fit = load_fit(tmp_path / "fit.json")
    shared, apart = (Prior.load(tmp_path / f"{name}.toml") for name in ("shared", "apart"))
    for prior in (shared, apart):
        assert list(prior.params) == ["coulomb", "strength"]
        draws = np.log(prior.sample(2000, 0)["coulomb"])
        assert draws.mean() == pytest.approx(np.log(kind[0]).mean(), abs=0.06)
    assert apart.interval()["strength"] == pytest.approx((0.55, 1.45))
    np.testing.assert_allclose(
        shared.interval()["strength"], fit.intervals(0.9)[fit.names.index("strength")], rtol=1e-6
    )
