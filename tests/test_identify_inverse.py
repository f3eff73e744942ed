"""Inverse dynamics: planted parameters come back from noise-free and noisy logs, and what is missing is named."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.identify import Fit, load_fit
from surefoot.identify.inverse import identify_inverse
from surefoot.identify.inverse_both import identify_both
from surefoot.identify.inverse_motion import motion
from surefoot.logs import Channel, Log


def recorded(sim, e, u, *, noise=0.0, seed=0, torque=False, start=None, follow=None):
    """A log of `sim` under one e and commands u (T, nu) plus follow(q), positions with white noise."""
    live = sim.replace(worlds=1, noise=False)
    live.apply(e)
    live.reset(qpos=start)
    rows, torques, u = [], [], np.array(u)
    for k in range(len(u)):
        rows.append(live.truth()["joint_pos"][0].copy())
        if follow is not None:
            u[k] += follow(rows[-1])
        live.step(u[k])
        torques.append(live.engine.derived("qfrc_actuator")[0].copy())
    t = sim.control_dt * np.arange(len(u))
    q = np.array(rows) + noise * np.random.default_rng(seed).standard_normal((len(u), len(sim.robot.joints)))
    units = {a.channel: unit for a in sim.robot.actuators for unit in [sf_unit(a.channel)]}
    channels = [
        Channel(
            name=sim.command_channel,
            unit=units[sim.command_channel],
            t=t,
            values=u,
            columns=sim.command_names,
            role="u",
        ),
        Channel(name="joint_pos", unit="rad", t=t, values=q, columns=sim.robot.joints, role="y"),
    ]
    if torque:
        channels.append(
            Channel(name="joint_torque", unit="N·m", t=t, values=np.array(torques), columns=sim.robot.joints, role="y")
        )
    return Log(channels=tuple(channels), robot=sim.robot.name)


def sf_unit(channel):
    return {"voltage_target": "V", "joint_torque_target": "N·m", "joint_pos_target": "rad"}[channel]


def waves(sim, seconds, scale, seed=1):
    """Sums of slow sines for every motor."""
    rng = np.random.default_rng(seed)
    t = sim.control_dt * np.arange(round(seconds / sim.control_dt))
    out = np.zeros((len(t), sim.model.nu))
    for k in range(sim.model.nu):
        for f in (0.4, 0.9, 1.7, 2.9):
            out[:, k] += scale[k] * np.sin(2 * np.pi * f * t + rng.uniform(0, 6.28)) / 2
    return out


@pytest.fixture(scope="module")
def pendulum():
    sim = sf.Sim(sf.load("double_pendulum"), threads=1)
    e = {
        "link1_mass": np.array([0.61]), "link2_mass": np.array([0.52]), "link2_com": np.array([-0.03]),
        "armature": np.array([0.0031]), "damping": np.array([[0.02, 0.008]]), "coulomb": np.array([[0.11, 0.06]]),
        "strength": np.array([1.0]),
    }  # fmt: skip
    log = recorded(sim, e, waves(sim, 12.0, (1.6, 0.7)), noise=2e-5, torque=True)
    return sim, e, log


ONLY = ("link1_mass", "link2_mass", "link2_com", "armature", "damping", "coulomb")


@pytest.mark.slow
def test_planted_inertias_and_frictions_of_two_links_come_back(pendulum):
    sim, e, log = pendulum
    fit = identify_inverse(sim, log, only=ONLY)
    truth = sim.params.only(*ONLY).flatten({n: e[n] for n in ONLY})[0]
    assert fit.mode == "inverse dynamics"
    np.testing.assert_allclose(fit.values, truth, rtol=0.05, atol=2e-3)
    np.testing.assert_array_less(np.abs(fit.values - truth), 5 * fit.std + 0.02 * np.abs(truth))
    held = [s for s in fit.scores if s.windows == "held out"]
    assert len(held) == 2
    assert all(s.after < 0.5 * s.before for s in held)


def test_measured_torque_needs_no_motor_model(pendulum):
    sim, e, log = pendulum
    wrong = {"strength": np.array([0.8])}  # the motor's gain is not used
    fit = identify_inverse(sim, log, only=("link2_mass", "damping", "coulomb"), torque="measured", fixed={**e, **wrong})
    assert fit["link2_mass"] == pytest.approx(0.52, rel=0.03)
    assert fit["coulomb[joint1]"] == pytest.approx(0.11, rel=0.1)


def test_a_gain_is_found_when_the_masses_are_known(pendulum):
    sim, e, _ = pendulum
    log = recorded(sim, {**e, "strength": np.array([0.9])}, waves(sim, 8.0, (1.6, 0.7)))
    fit = identify_inverse(sim, log, only=("strength",), fixed=e)
    assert fit["strength"] == pytest.approx(0.9, rel=0.02)


def test_the_fit_saves_and_loads_equal(pendulum, tmp_path):
    sim, _, log = pendulum
    fit = identify_inverse(sim, log, only=("link2_mass", "damping"))
    fit.save(tmp_path / "fit.json")
    assert load_fit(tmp_path / "fit.json") == fit
    assert isinstance(fit, Fit)
    assert "inverse dynamics" in repr(fit)
    assert fit.posterior.sample(3, 0)["link2_mass"].shape == (3,)


# -------------------------------------------------------------------- friction by direction


def slide(**more):
    robot = sf.load("emps")
    given = dict(robot.params)
    return sf.Sim(robot, sf.Params(**given, **more), threads=1)


def pulled(sim, e, seconds=8.0):
    """The slide driven back and forth through some speeds, by a force that overcomes friction."""
    t = sim.control_dt * np.arange(round(seconds / sim.control_dt))
    u = 2.6 * np.cos(2 * np.pi * 0.7 * t) + 1.5 * np.cos(2 * np.pi * 1.3 * t) + 0.9 * np.cos(2 * np.pi * 3.1 * t)
    log = recorded(sim, e, u[:, None], noise=2e-7, start=np.array([0.12]), follow=lambda q: 8.0 * (0.12 - q))
    assert -0.05 < log["joint_pos"].values.min() < log["joint_pos"].values.max() < 0.3  # inside the slide's ends
    return log


SLIDE = ("mass", "damping", "coulomb", "tilt")


@pytest.fixture(scope="module")
def uneven():
    sim = slide(asymmetry=sf.damping_asymmetry("slider", low=-150.0, high=150.0, nominal=0.0))
    e = {
        "mass": np.array([92.0]),
        "damping": np.array([190.0]),
        "coulomb": np.array([22.0]),
        "asymmetry": np.array([-60.0]),
    }
    return sim, e, pulled(sim, e)


def test_friction_by_direction_is_reported_in_words(uneven):
    _, _, log = uneven
    fit = identify_inverse(slide(), log, only=SLIDE, held_out=0.0)
    told = [m for m in fit.misfit if m.kind == "direction"]
    assert told
    assert "depends on the direction" in told[0].sentence
    assert "damping_asymmetry" in told[0].sentence


def test_friction_by_direction_is_fitted_when_a_param_holds_it(uneven):
    sim, _, log = uneven
    fit = identify_inverse(sim, log, only=(*SLIDE, "asymmetry"), held_out=0.0)
    assert fit["asymmetry"] == pytest.approx(-60.0, abs=8.0)
    assert fit["mass"] == pytest.approx(92.0, rel=0.01)
    assert not [m for m in fit.misfit if m.kind == "direction"]


def test_even_friction_is_not_called_uneven():
    sim = slide()
    e = {"mass": np.array([92.0]), "damping": np.array([190.0]), "coulomb": np.array([22.0])}
    fit = identify_inverse(sim, pulled(sim, e), only=SLIDE, held_out=0.0)
    assert not [m for m in fit.misfit if m.kind == "direction"]
    assert fit["coulomb"] == pytest.approx(22.0, rel=0.03)


def test_the_law_gives_each_direction_its_own_friction():
    """Constant force, constant speed: F = Kc ± Ka + (D ± Da) |v| on the slide of 95 kg."""
    sim = slide(
        dry=sf.coulomb_asymmetry("slider", low=-20, high=20, nominal=0.0),
        viscous=sf.damping_asymmetry("slider", low=-150, high=150, nominal=0.0),
    ).replace(worlds=2)
    e = {"damping": 200.0, "coulomb": 20.0, "dry": 5.0, "viscous": 50.0, "tilt": np.arctan(0.0033920511)}
    sim.apply({k: np.full(2, v) for k, v in e.items()})
    sim.reset()
    gain = 35.15065
    for _ in range(2500):
        sim.step(np.array([[50.0 / gain], [-50.0 / gain]]))
        sim.engine.qpos[:] = 0.1  # room to run for ever
    forward, back = sim.truth()["joint_vel"][:, 0]
    assert forward == pytest.approx((50 - 20 - 5) / 250, rel=0.02)
    assert back == pytest.approx(-(50 - 20 + 5) / 150, rel=0.02)


def test_samples_at_a_joint_limit_are_left_out():
    sim = slide()
    e = {"mass": np.array([92.0]), "damping": np.array([190.0]), "coulomb": np.array([22.0])}
    t = sim.control_dt * np.arange(6000)
    log = recorded(sim, e, (3.5 * np.cos(2 * np.pi * 0.4 * t) + 0.3)[:, None], start=np.array([0.12]))
    assert log["joint_pos"].values.max() > 0.299
    fit = identify_inverse(sim, log, only=("mass", "coulomb"), held_out=0.0, fixed=e)
    assert fit["mass"] == pytest.approx(92.0, rel=0.03)


@pytest.mark.slow
def test_both_modes_are_explained(uneven):
    _, _, log = uneven
    both = identify_both(slide(), log, only=SLIDE, held_out=0.0, window=7.9, start="log")
    assert both.simulation.mode == "simulation"
    assert "mass" not in both.simulation.names
    assert set(both.e) == set(SLIDE)
    text = repr(both)
    assert "kept in simulation" in text
    assert "depends on the direction" in text


# -------------------------------------------------------------------- honest intervals, motion, refusals


def test_intervals_widen_with_correlated_noise(pendulum):
    sim, e, log = pendulum
    rng = np.random.default_rng(3)
    slow = np.cumsum(rng.standard_normal((len(log["joint_pos"].t), 2)), axis=0) * 0.003
    slow -= np.linspace(0, 1, len(slow))[:, None] * slow[-1]
    u = log["joint_torque_target"]
    channels = [
        Channel(name=u.name, unit=u.unit, t=u.t, values=u.values + slow, columns=u.columns, role="u"), log["joint_pos"],
    ]  # fmt: skip
    fit = identify_inverse(sim, Log(channels=tuple(channels)), only=("damping", "coulomb"), fixed=e, held_out=0.0)
    assert np.median(fit.std / fit.white_std) > 1.5


def test_motion_has_no_phase():
    sim = sf.Sim(sf.load("emps"), threads=1)
    t = 0.001 * np.arange(4000)
    q = 0.1 * np.sin(2 * np.pi * 2.0 * t)
    channels = (
        Channel(name="voltage_target", unit="V", t=t, values=np.zeros((4000, 1)), columns=("slider",), role="u"),
        Channel(name="joint_pos", unit="m", t=t, values=q[:, None], columns=("slider",), role="y"),
    )
    move = motion(sim, Log(channels=channels))
    inside = slice(200, -200)
    np.testing.assert_allclose(move.v[inside, 0], 0.1 * 4 * np.pi * np.cos(4 * np.pi * t[inside]), atol=2e-4)
    np.testing.assert_allclose(move.a[inside, 0], -0.1 * 16 * np.pi**2 * np.sin(4 * np.pi * t[inside]), atol=5e-3)
    assert move.every == 10
    assert move.cutoff == pytest.approx(100.0)


def test_uneven_times_are_put_on_a_grid(pendulum):
    sim, e, log = pendulum
    rng = np.random.default_rng(0)
    t = log["joint_pos"].t + rng.uniform(-4e-4, 4e-4, len(log["joint_pos"].t))
    q = np.stack([np.interp(t, log["joint_pos"].t, log["joint_pos"].column(j)) for j in sim.robot.joints], axis=1)
    moved = Channel(name="joint_pos", unit="rad", t=t, values=q, columns=sim.robot.joints, role="y")
    fit = identify_inverse(
        sim, Log(channels=(log["joint_torque_target"], moved)), only=("damping",), fixed=e, held_out=0.0
    )
    assert fit["damping[joint1]"] == pytest.approx(0.02, abs=0.006)


@pytest.mark.parametrize(("change", "match"), [
    ({"torque": "guessed"}, "source of torque"),
    ({"only": ()}, "nothing to fit"),
    ({"only": ("link3_mass",)}, "link3_mass"),
    ({"held_out": 1.5}, "share below 1"),
    ({"cutoff": 1e6}, "half the sampling rate"),
    ({"every": 100000}, "leave some samples"),
])  # fmt: skip
def test_wrong_arguments_are_told(pendulum, change, match):
    sim, _, log = pendulum
    with pytest.raises(InputError, match=match):
        identify_inverse(sim, log, **{"only": ("damping",), **change})


def test_what_inverse_dynamics_cannot_do_is_refused(pendulum):
    sim, _, log = pendulum
    with pytest.raises(InputError, match="free base"):
        identify_inverse(sf.Sim(sf.load("go2"), threads=1), log, only=("kd",))
    with pytest.raises(InputError, match="joint_pos"):
        identify_inverse(sim, log.select("joint_torque_target"), only=("damping",))
    with pytest.raises(InputError, match="joint_torque"):
        identify_inverse(sim, log.select("joint_torque_target", "joint_pos"), only=("damping",), torque="measured")
    with pytest.raises(InputError, match="no log"):
        identify_inverse(sim, (), only=("damping",))
    play = sf.Sim(sf.load("double_pendulum"), sf.Params(play=sf.backlash("joint1", low=1e-3, high=1e-2)), threads=1)
    with pytest.raises(InputError, match="degrees of freedom"):
        identify_inverse(play, log)
    with pytest.raises(InputError, match="nothing is left"):
        identify_inverse(sim, log, only=("link1_mass", "link2_mass", "strength"))
    with pytest.raises(InputError, match="only inertias"):
        identify_both(sim, log, only=("link2_mass",))
