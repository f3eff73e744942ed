"""One judge: what it counts is what was planted, worlds are paired, intervals cover."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from surefoot.errors import InputError
from surefoot.evaluate import judge, survey, width
from surefoot.evaluate.intervals import mean, mean_difference, share_difference
from surefoot.evaluate.price import price
from surefoot.evaluate.survey import parse_grid
from surefoot.params import Point
from surefoot.report import Page
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.tasks import swing_up
from surefoot.tasks.hop import Hop

WORLDS = 24


@dataclass(frozen=True, kw_only=True)
class Planted(Hop):
    """The action says how far from 4 kg the torso may be; the reward is -(action - |mass - 4|)² per second."""

    episode: float = 0.2

    def _far(self, s):
        return torch.from_numpy(s.sim.e["torso_mass"] - 4.0).abs().float()

    def fallen(self, s):
        return torch.zeros(s.sim.worlds, dtype=torch.bool)

    def success(self, s, fallen):
        return (s.action[:, 0] >= self._far(s)).float()

    def rewards(self, s):
        return {"planted": -(s.action[:, 0] - self._far(s)).square() * s.sim.control_dt}

    def total(self, terms, fallen):
        return terms["planted"]


def always(value, count=WORLDS):
    """A stand-in for `policy.play`: acts with one number, whatever it sees."""
    return lambda: lambda observations, ended: torch.full((count, 3), float(value))


@pytest.fixture(scope="module")
def sim():
    return Sim(load("hopper"), worlds=WORLDS, threads=1)


def test_success_is_counted_world_by_world_at_the_e_that_was_given(sim):
    e = sim.params.prior().sample(WORLDS, 3)
    found = judge(Planted(), sim, always(1.0)(), e=e, seed=2)
    assert np.array_equal(found.success == 1.0, np.abs(e["torso_mass"] - 4.0) <= 1.0)
    assert 0.0 < found.summary["success"].value < 1.0
    assert found.summary["falls"].value == 0.0
    assert np.allclose(found.e["torso_mass"], e["torso_mass"])
    assert np.allclose(found.lasted, 0.192)  # 12 control steps


def test_two_judgements_with_one_seed_meet_the_same_worlds_and_another_seed_does_not(sim):
    e = sim.params.prior().sample(WORLDS, 3)
    task = Hop(episode=0.8)
    first, again, other = (judge(task, sim, always(0.3)(), e=e, seed=seed) for seed in (2, 2, 5))
    fresh = judge(task, Sim(load("hopper"), worlds=WORLDS, threads=2, seed=77), always(0.3)(), e=e, seed=2)
    for name in ("success", "fell", "score", "error", "energy", "lasted"):
        assert np.array_equal(getattr(first, name), getattr(again, name), equal_nan=True), name
        assert np.array_equal(getattr(first, name), getattr(fresh, name), equal_nan=True), name
    assert not np.array_equal(first.score, other.score)


def test_energy_is_the_work_of_the_motor_on_a_pushed_cart():
    sim = Sim(load("cartpole"), worlds=2, threads=1)
    task = swing_up.cartpole()
    e = sim.params.nominal_e(2)
    begun, ended = [], []

    def act(observations, _ended):
        begun.append(sim.engine.qpos[:, 0].copy())
        ended.append(sim.engine.qvel[:, 0].copy())
        return torch.ones(2, 1)

    found = judge(task, sim, act, e=e, seed=1, seconds=0.5)
    work = 10.0 * (begun[-1] - begun[0])  # force times way, without the last step
    assert np.allclose(found.energy, work, rtol=0.08)


def test_a_pendulum_that_hangs_is_half_a_turn_off():
    sim = Sim(load("qube"), worlds=2, threads=1)
    found = judge(swing_up.qube(), sim, lambda _observations, _ended: torch.zeros(2, 1), seed=1, seconds=1.0)
    assert found.error_unit == "rad"
    assert np.allclose(found.error, np.pi, atol=0.25)
    assert (found.error < np.pi).all()


def test_tracking_error_of_a_robot_that_stays_is_its_command():
    sim = Sim(load("hopper"), worlds=8, threads=1)
    found = judge(Hop(episode=0.3), sim, always(0.0, 8)(), seed=4)
    assert found.error_unit == "m/s"
    assert (found.error > 0.2).all()
    assert (found.error < 1.6).all()


def test_a_survey_recovers_the_planted_threshold_of_each_policy_and_their_difference(sim):
    players = {"narrow": always(0.6), "wide": always(1.6)}
    prior = sim.params.prior()
    found = survey(Planted(), sim, players, e=prior, seed=6)
    far = np.abs(prior.sample(WORLDS, 6)["torso_mass"] - 4.0)
    assert found.estimate("narrow").value == pytest.approx((far <= 0.6).mean())
    gain = found.difference("wide", "narrow")
    assert gain.value == pytest.approx((far <= 1.6).mean() - (far <= 0.6).mean())
    assert gain.low < gain.value < gain.high
    lines = found.to_csv().splitlines()
    assert len(lines) == 1 + 2 * WORLDS
    assert len({len(line.split(",")) for line in lines}) == 1


def test_a_grid_changes_nothing_but_its_own_params(sim):
    found = survey(
        Planted(),
        sim,
        {"one": always(0.6)},
        e=sim.params.prior(),
        grid={"torso_mass": [3.0, 4.5, 6.0], "strength": [0.9, 1.0]},
        seed=6,
    )
    assert [p["torso_mass"] for p in found.points] == [3.0, 3.0, 4.5, 4.5, 6.0, 6.0]
    assert [found.estimate("one", point=k).value for k in range(6)] == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    first, last = found.judged["one"][0].e, found.judged["one"][-1].e
    for name in first:
        assert np.array_equal(first[name], last[name]) == (name not in ("torso_mass", "strength")), name
    with pytest.raises(InputError, match="torso_mas"):
        survey(Planted(), sim, {"one": always(0.6)}, grid={"torso_mas": [4.0]})


def test_the_width_plot_shows_where_each_policy_ends(sim):
    players = {"none": always(0.05), "narrow": always(0.5), "medium": always(1.5)}
    ranges = {"none": (4.0, 4.0), "narrow": (3.5, 4.5), "medium": (2.5, 5.5)}
    found = width(Planted(), sim, players, param="torso_mass", values=[2.0, 3.0, 3.6, 4.0, 5.0, 6.0], ranges=ranges)
    assert [found.at("narrow", v).value for v in found.values] == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert found.least("medium", 2.5, 5.5).value == 1.0
    assert found.least("medium", 2.0, 5.5).value == 0.0
    assert found.difference("medium", "narrow", 5.0).positive
    assert not found.difference("medium", "narrow", 4.0).positive
    picture = ET.fromstring(found.svg())
    shaded = [node for node in picture.iter() if node.get("class") == "range"]
    assert len(shaded) == 3
    page = Page("width")
    found.put(page)
    assert "trained on: medium" in page.html()


def test_the_price_of_robustness_is_what_was_planted(sim):
    prior = sim.params.prior().replace({n: Point(value=float(v)) for n, v in _others(sim)})
    e = prior.sample(5, 8)
    far = np.abs(e["torso_mass"] - 4.0)
    specialists = [always(value) for value in far]
    found = price(Planted(), sim, always(1.0), specialists, e=e)
    seconds = 12 * sim.control_dt
    assert found.score[0] == pytest.approx(np.zeros(5), abs=1e-6)
    assert found.price().value == pytest.approx(seconds * ((1.0 - far) ** 2).mean(), rel=1e-4)
    assert found.price().low < found.price().value < found.price().high
    assert len(found.rows()) == 6
    with pytest.raises(InputError, match="2 specialists for 5 draws"):
        price(Planted(), sim, always(1.0), specialists[:2], e=e)


def _others(sim):
    nominal = sim.params.flatten(sim.params.nominal_e(1))[0]
    return [(n, v) for n, v in zip(sim.params.names, nominal, strict=True) if n != "torso_mass"]


def test_students_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    found = [mean(rng.normal(3.0, 2.0, 8)) for _ in range(2000)]
    assert 0.87 < np.mean([f.low <= 3.0 <= f.high for f in found]) < 0.93
    assert mean([np.nan, np.nan]).count == 0
    assert mean([1.0]).high == np.inf


@pytest.mark.parametrize("common", [0.0, 0.8])
def test_the_interval_of_a_paired_difference_covers_as_often_as_it_says(common):
    rng, found = np.random.default_rng(1), []
    for _ in range(2000):
        u = rng.random((2, 60))
        u[1] = np.where(rng.random(60) < common, u[0], u[1])
        found.append(share_difference(u[0] < 0.9, u[1] < 0.7))
    assert 0.86 < np.mean([f.low <= 0.2 <= f.high for f in found]) < 0.97


def test_a_paired_difference_is_sharper_than_its_worlds_are_alike_and_never_a_point():
    rng = np.random.default_rng(2)
    easy = rng.normal(0.0, 5.0, 100)
    gain = mean_difference(easy + 0.5 + rng.normal(0, 0.1, 100), easy)
    assert gain.positive
    assert gain.high - gain.low < 0.1
    same = share_difference(np.ones(50), np.ones(50))
    assert same.value == 0.0
    assert same.low < -0.01
    assert same.high > 0.01


def test_a_grid_is_read_as_written_and_a_wrong_one_named():
    grid = parse_grid(["foot_friction=0.2:1.2:11", "mass=1,2.5"])
    assert np.allclose(grid["foot_friction"], np.linspace(0.2, 1.2, 11))
    assert list(grid["mass"]) == [1.0, 2.5]
    for wrong in ("mass", "mass=", "mass=1:2", "mass=1:2:0", "=1", "mass=a,b", "mass=nan"):
        with pytest.raises(InputError, match="--grid"):
            parse_grid([wrong])
    with pytest.raises(InputError, match="twice"):
        parse_grid(["a=1", "a=2"])


def test_importing_evaluate_leaves_torch_alone():
    code = "import sys, surefoot.evaluate, surefoot.evaluate.command; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
