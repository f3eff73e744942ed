"""Schedules inside a training: CVaR learns for the worst worlds, priors move, redraws happen, and resumed runs keep every bit."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import surefoot as sf
from learn_worlds import Outcome, PointMass
from surefoot.errors import InputError
from surefoot.learn import PPO, train
from surefoot.learn.checkpoint import load
from surefoot.learn.origins import Origins
from surefoot.learn.presets import settings
from surefoot.randomize import SCHEDULES, Cvar, Doraemon, Redraw, Widening, nominal, schedule
from surefoot.sim import Sim
from surefoot.tasks import Hop, World, swing_up


def quiet(text: str) -> None:
    pass


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[n], b[n], equal_nan=a[n].dtype.kind == "f") for n in a)


class Choice:
    """One action, one step, a hidden x in 0..1: four worlds of five want −1, the fifth, which fares worse, wants +1.

        R = −(a + 1)² where x < 0.8, −(a − 1)² − 10 elsewhere

    The mean is best at a = −0.6, the mean of the worst fifth at a = +1.
    """

    actions, widths = 1, {"policy": 1}

    def __init__(self, worlds: int = 128):
        self.worlds, self.rng = worlds, np.random.default_rng(0)
        self.params = sf.Params(x=sf.kp(low=0.0, high=1.0, nominal=0.5))
        self.prior = self.params.prior()
        self.x = np.zeros(worlds)

    def draw_from(self, prior) -> None:
        self.prior = prior

    @property
    def e(self):
        return {"x": self.x.copy()}

    def _observe(self):
        return {"policy": torch.ones(self.worlds, 1)}

    def reset(self):
        self.x = self.prior.sample(self.worlds, self.rng)["x"]
        return self._observe()

    def step(self, a) -> Outcome:
        e, x = self.e, torch.from_numpy(self.x).float()
        reward = torch.where(x < 0.8, -((a[:, 0] + 1) ** 2), -((a[:, 0] - 1) ** 2) - 10.0)
        yes, no = torch.ones(self.worlds, dtype=torch.bool), torch.zeros(self.worlds, dtype=torch.bool)
        return Outcome(
            observations=self.reset(), reward=reward, terminated=yes, truncated=no, final=self._observe(), ended=torch.arange(self.worlds),
            broken=no, terms={}, success=torch.ones(self.worlds), e=e,
        )  # fmt: skip

    def snapshot(self):
        return {"x": self.x.copy()}

    def restore(self, snapshot) -> None:
        self.x = np.array(snapshot["x"])


def learned(folder, make) -> float:
    world = Choice()
    ppo = PPO(hidden=(8,), horizon=4, epochs=4, minibatches=2, warmup=0, std=0.5, rate_bounds=(1e-3, 1e-2), entropy=0.0)
    run = train(world, ppo, run=folder, steps=24_000, randomize=make(world.prior), say=quiet)
    return float(run.policy.play()(world.reset(), None)[0, 0])


@pytest.mark.slow
def test_the_mean_and_the_worst_share_learn_different_actions(tmp_path):
    assert learned(tmp_path / "mean", lambda p: schedule("fixed", p, worlds=128)) == pytest.approx(-0.6, abs=0.15)
    weighed = learned(tmp_path / "weighed", lambda p: Cvar(p, alpha=0.2, share=0.0))
    assert weighed == pytest.approx(1.0, abs=0.25)
    drawn = learned(tmp_path / "drawn", lambda p: Cvar(p, alpha=0.2, share=0.9, settle=128))
    assert drawn == pytest.approx(0.1 * -0.6 + 0.9 * 1.0, abs=0.25)


def test_emphasis_is_even_over_the_worst_share_of_the_transitions():
    cvar = Cvar(sf.Params(x=sf.kp(low=0.0, high=1.0)).prior(), alpha=0.25, share=0.0, batch=200)
    assert cvar.emphasis({"x": np.array([0.1, 0.9])}) is None
    x = np.linspace(0, 1, 200)
    cvar.record({"x": x}, np.ones(200), -((x - 0.2) ** 2))
    assert not cvar.update()
    rows = {"x": np.array([0.2, 0.9, 0.5, 1.0])}
    np.testing.assert_allclose(cvar.emphasis(rows), [0, 0, 0, 4])
    np.testing.assert_allclose(cvar.emphasis(rows, [4, 2, 4, 1]), [0, 3.5, 0, 4])  # 11 / 4 transitions
    assert Cvar(cvar.full, share=0.5).emphasis(rows) is None


def test_origins_know_the_row_of_every_transition():
    origins = Origins(3, 2)
    origins.begin({"x": np.array([1.0, 2.0])})
    origins.record(0, np.array([1]), {"x": np.array([1.0, 5.0])})
    origins.record(1, np.array([], int), None)
    origins.record(2, np.array([0]), {"x": np.array([7.0, 5.0])})
    np.testing.assert_array_equal(origins.e["x"][origins.row], [[1, 2], [1, 5], [1, 5]])
    np.testing.assert_array_equal(origins.length, [3, 1, 2, 0])


def test_a_world_without_e_cannot_be_weighed_by_it(tmp_path):
    with pytest.raises(InputError, match="PointMass has no e"):
        train(PointMass(4), run=tmp_path, steps=8, randomize=Cvar(Choice().prior), say=quiet)


# -------------------------------------------------------------------- real worlds

BRIEF = PPO(hidden=(16,), horizon=16, epochs=1, minibatches=2, warmup=0)
QUICK = {
    "widening": lambda p: Widening(p, window=8, settle=0, target=0.0, floor=0.0, step=0.01),
    "doraemon": lambda p: Doraemon(p, batch=16, settle=0),
    "cvar": lambda p: Cvar(p, batch=16, settle=0),
    "cvar, weighed": lambda p: Cvar(p, batch=16, share=0.0),
}


def balance(name: str, run, updates: int, *, seed: int = 0):
    """A cart-pole with short episodes, its p(e) moved and its command delay redrawn."""
    sim = Sim(settings("cartpole").robot(sf.load("cartpole")), worlds=16, seed=seed, threads=1)
    moves = QUICK[name](sim.params.prior())
    delay = next(n for n, p in sim.params.items() if p.about.per == "world")
    task = replace(swing_up.cartpole(), episode=0.4)
    world = World(task, sim, e=moves.prior, seed=seed, redraw=Redraw((delay,), interval=0.1))
    train(world, BRIEF, run=run, steps=updates * 16 * 16, randomize=moves, say=quiet, threads=1)
    return moves


@pytest.mark.parametrize("name", QUICK)
def test_a_schedule_moves_the_prior_and_a_resumed_run_keeps_every_bit(name, tmp_path):
    whole = balance(name, tmp_path / "whole", 5)
    assert (whole.prior != whole.full) == (name != "cvar, weighed")
    balance(name, tmp_path / "parts", 3)
    parts = balance(name, tmp_path / "parts", 5)
    assert json.dumps(whole.state()) == json.dumps(parts.state())
    assert same(load(tmp_path / "whole" / "checkpoint.npz")[0], load(tmp_path / "parts" / "checkpoint.npz")[0])
    sim = Sim(settings("cartpole").robot(sf.load("cartpole")), worlds=16, threads=1)
    world = World(replace(swing_up.cartpole(), episode=0.4), sim, e=sim.params.prior())
    with pytest.raises(InputError, match="holds a run with a schedule"):
        train(world, BRIEF, run=tmp_path / "parts", steps=8, say=quiet)


def test_schedules_have_names_and_none_knows_everything():
    prior = Sim(sf.load("hopper"), threads=1).params.prior()
    for name in SCHEDULES:
        assert schedule(name, prior, worlds=32).summary
    e = schedule("none", prior, worlds=32).prior.sample(3, 0)
    np.testing.assert_array_equal(prior.params.flatten(e), np.tile(prior.params.nominal, (3, 1)))
    assert nominal(prior).params is prior.params
    with pytest.raises(InputError, match="widening"):
        schedule("widenin", prior, worlds=32)


# -------------------------------------------------------------------- redraws


def hopping(seed: int = 0, redraw: Redraw | None = None) -> World:
    robot = sf.load("hopper")
    sim = Sim(robot, worlds=32, seed=seed, threads=1)
    return World(Hop(), sim, e=sim.params.prior(), seed=seed, redraw=redraw)


def test_redrawn_values_act_reach_the_critic_and_spare_the_rest():
    world = hopping(redraw=Redraw(("command_delay", "torso_mass"), interval=0.2))
    world.reset()
    before = world.e
    for _ in range(12):
        world.step(torch.zeros(32, 3))
    after, fields = world.e, world.sim.e
    begun = world.ticks.numpy() < 12
    stays = ~begun
    changed = (before["torso_mass"] != after["torso_mass"])[stays].mean()
    assert changed == pytest.approx(1 - np.exp(-12 * 0.016 / 0.2), abs=0.2)
    np.testing.assert_array_equal(before["foot_friction"][stays], after["foot_friction"][stays])
    for name in after:
        np.testing.assert_allclose(fields[name], after[name], atol=1e-6)
    outcome = world.step(torch.zeros(32, 3))
    params, width = world.sim.params, world.sim.params.d
    row = 2 * (params.flatten(world.e) - params.low) / (params.high - params.low) - 1
    np.testing.assert_allclose(outcome.observations["critic"][:, -width:], row, atol=1e-5)


def test_a_world_with_redraws_goes_on_from_its_snapshot_bit_for_bit():
    redraw = {"names": ("command_delay", "torso_mass"), "interval": 0.1}
    a = hopping(redraw=Redraw(**redraw))
    a.reset()
    draw = torch.Generator().manual_seed(0)
    actions = [torch.randn(32, 3, generator=draw) for _ in range(40)]
    for x in actions[:20]:
        a.step(x)
    saved = a.snapshot()
    b = hopping(seed=0, redraw=Redraw(**redraw))
    b.restore(saved)
    for x in actions[20:]:
        one, other = a.step(x), b.step(x)
        assert torch.equal(one.reward, other.reward)
        assert all(torch.equal(one.observations[k], other.observations[k]) for k in one.observations)
    assert same(a.snapshot(), b.snapshot())


def test_redraws_need_a_prior():
    sim = Sim(sf.load("hopper"), worlds=1, threads=1)
    with pytest.raises(InputError, match="redraw needs a prior"):
        World(Hop(), sim, redraw=Redraw(("command_delay",), interval=1.0))
