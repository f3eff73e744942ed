"""bench real: recordings found by pattern and never on both sides, looking ahead, rows that say why a number is missing."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.bench import BENCHES, Request, real_latency
from surefoot.bench import real as bench_real
from surefoot.bench.real_ahead import Ahead, ahead, together
from surefoot.bench.real_data import Recordings, logs_of, recordings
from surefoot.bench.real_emps import PUBLISHED, emps_recordings, inverse_rows, offset
from surefoot.bench.real_pendulum import foreseen, pendulum_params, runs, zero_of
from surefoot.bench.real_qube import chirps, is_chirp, lively, qube_params
from surefoot.bench.real_so101 import words
from surefoot.bench.real_sysid import WRITERS, e_of, scalars_of, spec_of, sysid
from surefoot.errors import InputError
from surefoot.identify import Fit, identify
from surefoot.logs import Channel, Log
from surefoot.sim.record import Recording

DATA = Path(os.environ.get("SUREFOOT_DATA", Path(__file__).parents[2] / "shared" / "data"))
needs_emps = pytest.mark.skipif(not (DATA / "emps").is_dir(), reason="needs the EMPS recordings (SUREFOOT_DATA)")


def swing(sim, e, seconds, *, seed=0, noise=0.0, start=(0.4, -0.6)):
    """A log of the double pendulum under slow torques."""
    live = sim.replace(worlds=1, noise=False)
    live.apply(e)
    live.reset(qpos=np.array(start))
    rng = np.random.default_rng(seed)
    t = sim.control_dt * np.arange(round(seconds / sim.control_dt))
    u = 0.6 * np.stack([np.sin(2 * np.pi * f * t + rng.uniform(0, 6)) for f in (0.7, 1.1)], axis=1)
    q = []
    for command in u:
        q.append(live.truth()["joint_pos"][0].copy())
        live.step(command)
    q = np.array(q) + noise * rng.standard_normal((len(t), 2))
    return Log(channels=(
        Channel(name="joint_torque_target", unit="N·m", t=t, values=u, columns=sim.command_names, role="u"),
        Channel(name="joint_pos", unit="rad", t=t, values=q, columns=sim.robot.joints, role="y"),
    ))  # fmt: skip


@pytest.fixture(scope="module")
def pendulum():
    sim = sf.Sim(sf.load("double_pendulum"), threads=1)
    return sim, {"link2_mass": np.array([0.5]), "damping": np.array([[0.01, 0.005]])}


def test_the_true_model_foresees_its_own_log(pendulum):
    sim, e = pendulum
    found = ahead(sim, [swing(sim, e, 3.2, noise=1e-5)], e, horizon=0.5)
    assert set(found.rmse) == {"joint1", "joint2"}
    assert max(found.rmse.values()) < 5e-3
    assert found.windows == 6
    assert "readings before" in found.start


def test_a_wrong_model_foresees_worse(pendulum):
    sim, e = pendulum
    log = swing(sim, e, 3.2, noise=1e-5)
    right, wrong = (
        ahead(sim, [log], e, horizon=0.5),
        ahead(sim, [log], {**e, "link2_mass": np.array([0.65])}, horizon=0.5),
    )
    assert wrong.rmse["joint2"] > 3 * right.rmse["joint2"]
    assert wrong.last["joint2"] > wrong.rmse["joint2"]


def test_the_start_state_sees_nothing_of_what_is_foreseen(pendulum):
    """Readings after the start are replaced by nonsense: the prediction of the other windows' starts must not change."""
    sim, e = pendulum
    log = swing(sim, e, 1.0)
    y = log["joint_pos"]
    late = np.where((y.t > 0.6)[:, None], y.values + 0.3, y.values)
    bent = Log(channels=(log["joint_torque_target"], dataclasses.replace(y, values=late)))
    found = ahead(sim, [bent], e, horizon=0.499)
    assert found.rmse["joint1"] == pytest.approx(0.3 * np.sqrt(0.4 / 1.0), rel=0.1)


def test_a_run_shows_the_zeros_that_its_encoders_were_set_to(pendulum):
    _, e = pendulum
    sim = sf.Sim(sf.load("double_pendulum"), pendulum_params(), threads=1)
    planted = np.array([[0.04, -0.025]])
    log = swing(sim, e, 3.0, noise=1e-5)
    y = dataclasses.replace(log["joint_pos"], values=log["joint_pos"].values + planted)
    log = dataclasses.replace(log, channels=tuple(y if c.name == "joint_pos" else c for c in log.channels))
    np.testing.assert_allclose(zero_of(sim, log, e), planted, atol=2e-3)
    blind = ahead(sim, [log], {**e, "encoder_bias": np.zeros((1, 2))}, horizon=0.5)
    found = foreseen(sim, [log], e)
    assert found.windows == blind.windows == 6
    assert found.rmse["joint1"] < 0.8 * blind.rmse["joint1"]


def test_parts_of_a_run_count_by_their_windows():
    parts = [
        Ahead(rmse={"a": 0.1}, last={"a": 0.2}, windows=3, horizon=0.5, start=""),
        Ahead(rmse={"a": 0.3}, last={"a": 0.2}, windows=1, horizon=0.5, start=""),
    ]
    found = together(parts, "as given")
    assert found.rmse["a"] == pytest.approx(np.sqrt((3 * 0.01 + 0.09) / 4))
    assert found.last["a"] == pytest.approx(0.2)
    assert (found.windows, found.start) == (4, "as given")


def test_a_log_shorter_than_the_horizon_is_refused(pendulum):
    sim, e = pendulum
    with pytest.raises(InputError):
        ahead(sim, [swing(sim, e, 0.01)], e, horizon=1.0)


# -------------------------------------------------------------------- folders


def write_chirps(folder, names, seed=0):
    rng = np.random.default_rng(seed)
    for name in names:
        place = folder / "quanser_wam_simurlacra" / "qq_chrip_10to0Hz_-1.5V_250Hz_10s"
        place.mkdir(parents=True, exist_ok=True)
        time = 0.004 * np.arange(200)
        np.savez(
            place / f"rollout_real_{name}.npz",
            time=time,
            states=rng.normal(size=(200, 4)),
            actions=rng.normal(size=(199, 1)),
        )


def test_recordings_are_found_by_pattern_and_never_on_both_sides(tmp_path):
    write_chirps(tmp_path, [f"2030-01-0{k}" for k in range(1, 6)])
    data = chirps(Request(train=tmp_path))
    assert data is not None
    assert (len(data.fit), len(data.judge)) == (3, 2)
    assert not {x.hash for x in data.fit} & {x.hash for x in data.judge}
    assert all(is_chirp(x) for x in data.fit)


def test_a_row_says_which_folder_judged_it():
    for origin, said in (
        ("2 recordings of --test", "of --test"),
        ("--test has none: 2 recordings of the same folder", "same folder"),
    ):
        assert said in words(Recordings(fit=(), judge=(), origin=origin), ())


@needs_emps
def test_a_set_that_the_second_folder_lacks_is_judged_as_with_one(tmp_path):
    one, two = emps_recordings(Request(train=DATA)), emps_recordings(Request(train=DATA, test=tmp_path))
    assert one is not None
    assert two is not None
    assert [x.hash for x in two.judge] == [x.hash for x in one.judge] != []
    assert [x.hash for x in two.fit] == [x.hash for x in one.fit]


def test_with_two_folders_the_first_is_fitted_whole_and_a_copy_does_not_judge(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    write_chirps(a, ["2030-01-01", "2030-01-02"])
    write_chirps(b, ["2030-01-01"])  # the same recording again
    data = chirps(Request(train=a, test=b))
    assert data is not None
    assert "--test has none" in data.origin
    assert {x.hash for x in data.fit} | {x.hash for x in data.judge} == {x.hash for x in logs_of(a, "quanser_qube")}
    assert not {x.hash for x in data.fit} & {x.hash for x in data.judge}
    write_chirps(b, ["2030-01-07"], seed=9)
    data = chirps(Request(train=a, test=b))
    assert data is not None
    assert len(data.fit) == 2
    assert len(data.judge) == 1


def test_an_absent_set_is_a_row_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREFOOT_CACHE", str(tmp_path / "cache"))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert logs_of(empty, "emps") == ()
    assert recordings(Request(train=empty), "emps", judge=lambda x: x) is None
    for module in ("real_emps", "real_qube", "real_pendulum", "real_speed"):
        (row,) = bench_real.part("set", module, Request(train=empty))
        assert row.value is None
        assert row.reference


def test_a_part_that_is_missing_or_cannot_read_is_a_row(monkeypatch, tmp_path):
    (row,) = bench_real.part("no such set", "real_nothing", Request())
    assert "no such part" in row.reference

    def broken(request):
        raise InputError("the file is cut short")

    monkeypatch.setattr("surefoot.bench.real_emps.measure", broken)
    (row,) = bench_real.part("EMPS", "real_emps", Request())
    assert row.reference == "the file is cut short"
    with pytest.raises(InputError, match="--train"):
        bench_real.measure(Request(train=tmp_path / "nowhere"))


def test_the_bench_is_registered():
    assert BENCHES["real"].uses == ("train", "test")
    assert BENCHES["real"].module == "surefoot.bench.real"


# -------------------------------------------------------------------- Params of the sets, and mujoco.sysid's side


def test_the_params_of_the_sets_act_on_their_robots():
    qube = sf.Sim(sf.load("qube"), qube_params(), threads=1)
    assert {"cable", "cable_rest", "stribeck"} <= set(qube.params)
    arms = sf.Sim(sf.load("double_pendulum"), pendulum_params(), threads=1)
    assert "armature[joint2]" in arms.params.names


def test_a_cable_pulls_the_arm_to_its_rest_angle():
    sim = sf.Sim(sf.load("qube"), qube_params(), worlds=2, noise=False, threads=1)
    sim.apply(
        {"cable": np.array([1e-3, 1e-3]), "cable_rest": np.array([-0.5, 0.7]), "arm_coulomb": 0.0, "stribeck": 0.0}
    )
    sim.reset()
    for _ in range(1500):
        sim.step(np.zeros(1))
    np.testing.assert_allclose(sim.truth()["joint_pos"][:, 0], [-0.5, 0.7], atol=0.05)


def test_our_scalars_become_those_of_a_spec():
    sim = sf.Sim(sf.load("double_pendulum"), pendulum_params(), threads=1)
    scalars = scalars_of(sim)
    assert "command_delay" not in scalars
    assert {p.kind for n, p in sim.params.items() if n in {k.split("[")[0] for k in scalars}} <= set(WRITERS)
    spec = spec_of(sim.robot)
    for name, value in (
        ("link2_mass", 0.5),
        ("link2_com", -0.02),
        ("armature[joint2]", 0.004),
        ("coulomb[joint1]", 0.1),
    ):
        scalars[name].write(spec, 1.7 * value)
        scalars[name].write(spec, value)  # written again and again, the last one counts
    model = spec.compile()
    e = {"link2_mass": np.array([0.5]), "link2_com": np.array([-0.02])}
    sim.apply(e)
    np.testing.assert_allclose(model.body_mass, sim.engine.field("body_mass")[0])
    np.testing.assert_allclose(model.body_inertia, sim.engine.field("body_inertia")[0])
    np.testing.assert_allclose(model.body_ipos, sim.engine.field("body_ipos")[0])
    assert model.dof_armature[1] == pytest.approx(0.004)
    assert model.dof_frictionloss[0] == pytest.approx(0.1)


def test_what_the_rival_found_is_an_e(pendulum):
    from surefoot.bench.real_sysid import Rival

    sim, _ = pendulum
    e = e_of(sim, Rival(values={"link2_mass": 0.44, "damping[joint2]": 0.03}, seconds=1.0))
    assert e["link2_mass"][0] == 0.44
    assert e["damping"][0, 1] == 0.03
    assert e["link1_mass"][0] == pytest.approx(sim.params.nominal_e(1)["link1_mass"][0])


def test_pieces_with_a_resting_joint_are_left_out(pendulum):
    sim, e = pendulum
    log = swing(sim, e, 1.0)
    y = log["joint_pos"]
    rest = Log(channels=(log["joint_torque_target"], dataclasses.replace(y, values=y.values * [1.0, 1e-4])))
    assert lively([log, rest]) == [log]


@pytest.mark.skipif(sysid() is None, reason="needs the packages of mujoco[sysid]")
def test_the_rival_recovers_a_planted_damping():
    from surefoot.bench.real_sysid import fit_rival

    sim = sf.Sim(sf.load("double_pendulum"), threads=1)
    log = swing(sim, {"damping": np.array([[0.03, 0.001]])}, 0.6)
    rival = fit_rival(
        sim.robot, [log], {k: v for k, v in scalars_of(sim).items() if k == "damping[joint1]"}, sim.command_channel
    )
    assert rival is not None
    assert rival.values["damping[joint1]"] == pytest.approx(0.03, rel=0.1)


# -------------------------------------------------------------------- recordings


@needs_emps
def test_emps_parameters_are_the_published_ones():
    data = emps_recordings(Request(train=DATA))
    assert data is not None
    assert all("force_pulse" not in log for log in data.fit)
    rows = inverse_rows(sf.Sim(sf.load("emps"), threads=2), data)
    assert len(rows) == len(PUBLISHED)
    assert all(row.holds for row in rows), [row.row for row in rows]


def test_the_offset_is_that_of_the_published_model():
    sim = sf.Sim(sf.load("emps"), threads=1)
    assert offset(sim, {}) == pytest.approx(-3.1648, rel=1e-3)


@pytest.mark.skipif(
    not (DATA / "double_pendulum_dfki").is_dir(), reason="needs the double-pendulum recordings (SUREFOOT_DATA)"
)
def test_double_pendulum_runs_are_split():
    data = runs(Request(train=DATA))
    assert data is not None
    assert data.fit
    assert not {x.hash for x in data.fit} & {x.hash for x in data.judge}


# -------------------------------------------------------------------- latency


def test_a_delay_is_found_from_nominal_values_whatever_the_shift(monkeypatch):
    """No fit begins at another's answer, and the change of the delay is the shift."""
    begun = []

    def watched(*args, **named):
        begun.append(named.get("begin"))
        return identify(*args, **named)

    monkeypatch.setattr(real_latency, "identify", watched)
    robot = sf.load("servo")
    free = sf.Params(kp=robot.params["kp"], command_delay=real_latency.DELAY)
    there = sf.Sim(dataclasses.replace(robot, timestep=0.001), free, seed=1)
    there.apply({"command_delay": [0.007]})
    there.reset()
    recording = Recording(there)
    for k in range(200):
        u = there.rest_command + np.array([[0.4 * np.sin(0.1 * k) + 0.2 * np.sign(np.sin(0.07 * k))]])
        recording.add(there.sense(), u)
        there.step(u)
    case = real_latency.Case(
        name="planted", sim=sf.Sim(dataclasses.replace(robot, timestep=0.0025), free), logs=(recording.log(),)
    )
    change, half = real_latency.rows(case, (0.0, 0.0131, 0.04))
    assert begun == [None] * 3
    assert change.value < 0.3
    own = float(change.reference.partition("itself ")[2].partition(" ms")[0])
    assert own == pytest.approx(7.0, abs=1.0)
    assert half.value < real_latency.UNTOLD
    assert "does not tell its delay" not in change.reference


def test_a_recording_that_hardly_tells_its_own_delay_says_so(monkeypatch):
    params = sf.Params(command_delay=real_latency.DELAY).bind({"command_delay": ()})
    case = real_latency.Case(name="slow", sim=sf.Sim(sf.load("servo"), threads=1), logs=())
    for std, told in ((0.02, True), (0.001, False)):
        fit = Fit.made(params, np.array([0.05]), np.array([[std**2]]), white_std=np.array([std]), freedom=30.0)
        monkeypatch.setattr(real_latency, "identify", lambda *_, fit=fit, **__: fit)
        change, half = real_latency.rows(case, (0.0, 0.01))
        assert (half.value > real_latency.UNTOLD) is told
        assert ("this motion does not tell its delay" in change.reference) is told
