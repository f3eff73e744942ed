"""`surefoot bench learn-width`: what it says of policies whose width is known."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from surefoot.bench import Request
from surefoot.bench import width as bench
from surefoot.bench.table import Mark
from surefoot.learn import PPO
from surefoot.learn.presets import settings
from surefoot.robots import load
from surefoot.sim import Sim
from surefoot.tasks import hop
from surefoot.tasks.hop import Hop

PLAN = bench.Plan(
    robot="hopper", param="torso_mass", centre=4.0, narrow=(3.5, 4.5), medium=(3.0, 5.0), wide=(2.0, 8.0), steps=1, worlds=16, threads=1
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Planted(Hop):
    """The first action says how far from 4 kg the torso may be, the second how near it must not be, the third costs."""

    episode: float = 0.05

    def fallen(self, s):
        return torch.zeros(s.sim.worlds, dtype=torch.bool)

    def rewards(self, s):
        return {"planted": -s.action[:, 2] * s.sim.control_dt}

    def total(self, terms, fallen):
        return terms["planted"]

    def success(self, s, fallen):
        far = torch.from_numpy(s.sim.e["torso_mass"] - 4.0).abs().float()
        return ((far <= s.action[:, 0]) & (far >= s.action[:, 1])).float()


def stand_in(reach, hole=0.0, cost=0.0):
    return lambda: lambda observations, ended: torch.tensor([[reach, hole, cost]]).repeat(PLAN.worlds, 1)


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.setattr(bench, "task_of", lambda robot: (load(robot), Planted()))


def test_policies_of_the_planted_widths_pass_and_ones_that_are_all_alike_do_not(planted):
    players = {
        "none": stand_in(0.1),
        "narrow": stand_in(0.5),
        "medium": stand_in(1.0, cost=1.0),
        "too wide": stand_in(9.0, 0.2, cost=3.0),
    }
    found = bench.verdicts(PLAN.judged(players), PLAN)
    seconds = 3 * 0.016
    assert found[bench.FALLS][0] == 100.0
    assert found[bench.KEEPS][0] == 100.0
    assert found[bench.BEST][0] == pytest.approx(1.0 * seconds)
    assert found[bench.WORSE][0] == pytest.approx(3.0 * seconds)
    assert "above medium" in found[bench.BEST][1]
    alike = bench.verdicts(PLAN.judged(dict.fromkeys(players, stand_in(9.0))), PLAN)
    assert alike[bench.FALLS][0] == 0.0
    assert alike[bench.WORSE][0] == 0.0
    worse = bench.verdicts(PLAN.judged(players | {"narrow": stand_in(0.5, cost=2.0)}), PLAN)
    assert worse[bench.BEST][0] == pytest.approx(-1.0 * seconds)


def test_a_plan_moves_one_param_within_each_range_and_judges_centre_and_ends():
    sim = PLAN.sim(8, 0)
    assert list(sim.params) == ["torso_mass"]
    for low, high in PLAN.ranges.values():
        drawn = PLAN.prior(sim, low, high).sample(200, 1)["torso_mass"]
        assert low <= drawn.min() <= drawn.max() <= high
        assert np.ptp(drawn) >= 0.9 * (high - low)
    assert {3.0, 4.0, 5.0} <= set(PLAN.values)
    assert PLAN.values[0] < 3.0
    assert PLAN.values[-1] > 5.0


def test_a_plan_over_a_delay_longer_than_the_robots_own_can_be_stepped():
    plan = replace(PLAN, param="command_delay", centre=0.016, narrow=(0.01, 0.02), medium=(0.0, 0.03), wide=(0.0, 0.08))
    sim = plan.sim(2, 0)
    sim.apply({"command_delay": np.array([0.0, 0.08])})
    sim.step(sim.rest_command)
    assert sim.alive.all()


def test_the_nominal_prior_draws_the_robots_own_values():
    prior = Sim(load("hopper"), worlds=1).params.prior()
    drawn = bench.nominal(prior).sample(3, 0)
    for name, value in prior.params.nominal_e(3).items():
        assert np.allclose(drawn[name], value), name


def test_the_summary_is_the_median_over_seeds_beside_its_mark():
    found = [Mark(name=f"seed {k}: {bench.KEEPS}", value=v) for k, v in enumerate((95.0, 80.0, 92.0))]
    found.append(Mark(name=f"seed 0: {bench.MORE}", value=12.0))
    marks = {m.name: m for m in bench.summary(found)}
    assert marks[bench.KEEPS].value == 92.0
    assert marks[bench.KEEPS].holds
    assert not marks[bench.MORE].holds


@pytest.mark.slow
def test_the_bench_goes_from_training_to_marks(monkeypatch, tmp_path):
    monkeypatch.setenv("SUREFOOT_CACHE", str(tmp_path))
    monkeypatch.setattr(hop, "Hop", lambda: Hop(episode=0.2))
    monkeypatch.setattr(bench, "PLAN", replace(PLAN, worlds=4, steps=200))
    few = replace(settings("hopper"), worlds=8, ppo=PPO(horizon=4, epochs=1, minibatches=1, hidden=(8,)))
    monkeypatch.setattr(bench, "settings", lambda robot: few)
    for name, value in {"PRICED_STEPS": 1, "WALKER_STEPS": 1, "UNSEEN": 4, "DRAWS": 2, "AT_A_DRAW": 4}.items():
        monkeypatch.setattr(bench, name, value)
    result = bench.measure(Request())
    names = [m.name for m in result.marks]
    assert names[:5] == [bench.FALLS, bench.KEEPS, bench.BEST, bench.WORSE, bench.MORE]
    assert "seed 0: price of robustness, return" in names
    assert not list(tmp_path.iterdir())
