"""Schedules: the protocol all of them keep, the fixed one, widening by success, and redraws within an episode."""

import json

import numpy as np
import pytest

import surefoot as sf
from surefoot.randomize import ADR, Cvar, Doraemon, Fixed, Redraw, Schedule, Widening, contracted


def two() -> sf.Params:
    """One linear and one log scalar, nominal off the middle, and a discrete one."""
    return sf.Params(
        mass=sf.mass("base", low=5.0, high=10.0, nominal=6.0),
        friction=sf.friction(low=0.1, high=10.0, nominal=1.0, scale="log"),
        roughness=sf.discrete("roughness", 0.0, 0.02, 0.05),
    )


SMALL = {
    "fixed": lambda p: Fixed(p),
    "widening": lambda p: Widening(p, window=32, settle=8),
    "adr": lambda p: ADR(p, queue=8),
    "doraemon": lambda p: Doraemon(p, batch=64, settle=8),
    "cvar": lambda p: Cvar(p, batch=64, settle=8),
}


def results(schedule, rng, n=48):
    """Episodes that succeed more often at a mass near 6, and return more there."""
    e = schedule.prior.sample(n, rng)
    returns = -np.abs(e["mass"] - 6.0) + 0.1 * rng.standard_normal(n)
    return e, (returns > -1.0).astype(float), returns


@pytest.mark.parametrize("kind", SMALL)
def test_a_schedule_goes_on_from_its_state_as_if_never_interrupted(kind):
    prior = two().prior()
    straight, broken = SMALL[kind](prior), SMALL[kind](prior)
    assert isinstance(straight, Schedule)
    first, second = np.random.default_rng(0), np.random.default_rng(0)
    changed = 0
    for k in range(12):
        straight.record(*results(straight, first))
        moved = straight.update()
        changed += moved
        broken.record(*results(broken, second))
        assert broken.update() == moved
        if k in (3, 4, 8):
            state = json.loads(json.dumps(broken.state()))
            broken = SMALL[kind](prior)
            broken.load(state)
        assert broken.prior == straight.prior
        assert broken.summary == straight.summary
        assert "\n" not in straight.summary
    assert json.dumps(straight.state()) == json.dumps(broken.state())
    assert (changed > 0) == (kind != "fixed")


@pytest.mark.parametrize("kind", SMALL)
def test_a_schedule_refuses_a_state_that_is_not_its_own(kind):
    prior = two().prior()
    schedule = SMALL[kind](prior)
    with pytest.raises(sf.InputError, match="another prior"):
        SMALL[kind](two().prior().replace(mass=sf.Normal(mean=6, sd=1))).load(schedule.state())
    with pytest.raises(sf.InputError, match="'elastic' schedule"):
        schedule.load({**schedule.state(), "schedule": "elastic"})
    if kind != "fixed":
        state = schedule.state()
        state["settings"] = {**state["settings"], "settle": 3}
        with pytest.raises(sf.InputError, match="settle=3"):
            schedule.load(state)
        state = {key: value for key, value in schedule.state().items() if key in ("schedule", "of", "settings")}
        with pytest.raises(sf.InputError, match="lacks"):
            schedule.load(state)


@pytest.mark.parametrize("kind", SMALL)
def test_records_that_do_not_fit_are_refused_and_none_at_all_is_fine(kind):
    schedule = SMALL[kind](two().prior())
    e = schedule.prior.sample(3, 0)
    schedule.record({}, np.zeros(0), np.zeros(0))
    with pytest.raises(sf.InputError, match="3 rows for 2"):
        schedule.record(e, np.ones(2), np.ones(2))
    with pytest.raises(sf.InputError, match="success has 3 rows and returns 2"):
        schedule.record(e, np.ones(3), np.ones(2))
    with pytest.raises(sf.InputError, match="between 0 and 1"):
        schedule.record(e, np.full(3, 7.0), np.ones(3))
    with pytest.raises(sf.InputError, match="lacks the params mass"):
        schedule.record({k: v for k, v in e.items() if k != "mass"}, np.ones(3), np.ones(3))
    assert not schedule.update()


def test_the_fixed_schedule_never_moves():
    schedule = Fixed(two().prior())
    for _ in range(5):
        e = schedule.prior.sample(500, 0)
        schedule.record(e, np.ones(500), np.ones(500))
        assert not schedule.update()
    assert schedule.prior == two().prior()
    with pytest.raises(sf.InputError, match="starts from a Prior"):
        Fixed(two())  # type: ignore[arg-type]


# ---------------------------------------------------------------- widening


def test_contraction_leaves_the_stated_share_of_the_distance_to_nominal():
    full = two().prior()
    half = contracted(full, 0.5)
    assert half.product.support("mass") == pytest.approx((5.5, 8.0))  # 6 - 1/2, 6 + 4/2
    assert half.product.support("friction") == pytest.approx((10**-0.5, 10**0.5))  # half the decades
    assert contracted(full, 1.0) is full
    bent = full.replace(mass=sf.Normal(mean=8.0, sd=1.0), friction=sf.LogNormal(median=4.0, sigma=0.6))
    wide, narrow = bent.sample(4000, 3), contracted(bent, 0.25).sample(4000, 3)
    np.testing.assert_allclose(narrow["mass"], 6.0 + 0.25 * (wide["mass"] - 6.0), rtol=1e-9)
    np.testing.assert_allclose(narrow["friction"], wide["friction"] ** 0.25, rtol=1e-9)


def test_widening_grows_to_the_whole_prior_and_shrinks_back_to_its_start():
    full = two().prior()
    schedule = Widening(full, start=0.3, target=0.8, floor=0.5, step=0.2, window=20, settle=0)
    widths = [schedule.width]
    for rate in [1.0] * 5 + [0.65] * 2 + [0.0] * 6:
        e = schedule.prior.sample(20, 0)
        schedule.record(e, np.arange(20) < round(rate * 20), np.zeros(20))
        schedule.update()
        widths.append(schedule.width)
    expected = [0.3, 0.5, 0.7, 0.9, 1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.3, 0.3, 0.3]
    np.testing.assert_allclose(widths, expected)
    assert schedule.prior.product.support("mass") == pytest.approx((5.7, 7.2))


def test_widening_waits_for_a_full_window_of_episodes_that_began_after_the_last_change():
    schedule = Widening(two().prior(), step=0.1, window=10, settle=6)
    e = schedule.prior.sample(10, 0)
    schedule.record(e, [1.0] * 9 + [np.nan], np.zeros(10))
    assert not schedule.update()  # nine known results
    schedule.record(e, np.ones(10), np.zeros(10))
    assert schedule.update()
    assert schedule.width == pytest.approx(0.4)
    schedule.record(e, [0.0] * 6 + [1.0] * 4, np.zeros(10))  # six failures that began before
    assert not schedule.update()
    schedule.record(e, np.ones(10), np.zeros(10))
    assert schedule.update()
    assert schedule.width == pytest.approx(0.5)


def test_widening_refuses_settings_that_make_no_sense():
    for settings in ({"start": 0.0}, {"step": 2.0}, {"target": 1.5}, {"window": 0}, {"target": 0.4, "floor": 0.6}):
        with pytest.raises(sf.InputError):
            Widening(two().prior(), **settings)


# ---------------------------------------------------------------- beta on the log axis


def test_log_beta_is_beta_of_the_logarithm_and_log_uniform_at_one():
    d = sf.LogBeta(low=0.1, high=10.0, a=2.0, b=5.0)
    line = sf.Beta(low=np.log(0.1), high=np.log(10.0), a=2.0, b=5.0)
    p = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(np.log(d.quantile(p)), line.quantile(p))
    np.testing.assert_allclose(d.cdf(d.quantile(p)), p)
    x = np.exp(np.linspace(np.log(0.1), np.log(10.0), 200001))
    assert np.trapezoid(np.exp(d.log_prob(x)), x) == pytest.approx(1.0, abs=1e-6)
    assert np.trapezoid(np.exp(d.log_prob(x)) * x, x) == pytest.approx(d.expected(), rel=1e-6)
    flat, known = sf.LogBeta(low=0.1, high=10.0), sf.LogUniform(low=0.1, high=10.0)
    np.testing.assert_allclose(flat.log_prob([0.1, 1.0, 9.0]), known.log_prob([0.1, 1.0, 9.0]))
    assert d.log_prob(11.0) == -np.inf
    widened = d.widen(1.2, within=(0.05, 8.0)).support[1]
    assert widened == pytest.approx(8.0)
    assert widened <= 8.0


# ---------------------------------------------------------------- redraws within an episode


def test_redraws_come_about_once_in_the_interval_and_depend_on_seed_step_and_world_alone():
    prior = sf.Params(push=sf.push(low=0.0, high=1.0), delay=sf.command_delay(low=0.0, high=0.02)).prior()
    redraw = Redraw(("push",), interval=2.0, seed=4)
    hits, values = 0, []
    for step in range(500):
        ids, e = redraw.due(prior, step, 128, 0.02)
        assert set(e) == {"push"}
        hits += len(ids)
        values += e["push"].tolist()
    expected = 500 * 128 * -np.expm1(-0.02 / 2.0)
    assert abs(hits - expected) < 4 * np.sqrt(expected)
    assert np.mean(values) == pytest.approx(0.5, abs=4 * 0.29 / np.sqrt(hits))
    few, again = Redraw("push", interval=2.0, seed=4), Redraw("push", interval=2.0, seed=4)
    for step in (499, 3, 300):  # any order, fewer worlds, another object
        ids, e = redraw.due(prior, step, 128, 0.02)
        other, e_other = again.due(prior, step, 128, 0.02)
        np.testing.assert_array_equal(ids, other)
        np.testing.assert_array_equal(e["push"], e_other["push"])
        first, e_first = few.due(prior, step, 32, 0.02)
        np.testing.assert_array_equal(first, ids[ids < 32])
        np.testing.assert_array_equal(e_first["push"], e["push"][ids < 32])
    assert any(
        not np.array_equal(
            Redraw("push", interval=2.0, seed=5).due(prior, s, 128, 0.02)[0], redraw.due(prior, s, 128, 0.02)[0]
        )
        for s in range(5)
    )


def test_redraws_follow_a_prior_that_moves():
    params = sf.Params(push=sf.push(low=0.0, high=1.0, nominal=0.0))
    schedule = Widening(params.prior(), start=0.2, step=0.8, window=4, settle=0)
    redraw = Redraw("push", interval=0.02)
    before = redraw.due(schedule.prior, 0, 4000, 0.02)[1]["push"]
    schedule.record(schedule.prior.sample(4, 0), np.ones(4), np.ones(4))
    assert schedule.update()
    after = redraw.due(schedule.prior, 1, 4000, 0.02)[1]["push"]
    assert before.max() <= 0.2
    assert 0.9 < after.max() <= 1.0


def test_redrawn_values_act_on_a_running_sim():
    robot = sf.load("go2")
    params = sf.Params(
        payload=sf.payload_mass("base", low=0.0, high=3.0),
        push=sf.push(low=0.0, high=1.0),
        delay=sf.command_delay(low=0.0, high=0.02),
    )
    sim = sf.Sim(robot, params, worlds=16)
    redraw = Redraw(("payload", "push", "delay"), interval=0.2)
    before = sim.e
    sim.step(sim.rest_command)
    ids, e = redraw.due(sim.params.prior(), 0, 16, sim.control_dt)
    assert 0 < len(ids) < 16
    sim.apply(e, ids)
    for name in params:
        np.testing.assert_allclose(sim.e[name][ids], e[name], atol=1e-9)
        others = np.setdiff1d(np.arange(16), ids)
        np.testing.assert_array_equal(sim.e[name][others], before[name][others])


def test_redraw_refuses_what_cannot_be_redrawn():
    prior = sf.Params(push=sf.push(low=0.0, high=1.0), cone=sf.discrete("cone", 0, 1)).prior()
    with pytest.raises(sf.InputError, match="did you mean 'push'"):
        Redraw("pusch", interval=1.0).due(prior, 0, 4, 0.02)
    with pytest.raises(sf.InputError, match="cannot be redrawn"):
        Redraw("cone", interval=1.0).due(prior, 0, 4, 0.02)
    with pytest.raises(sf.InputError, match="above 0 s"):
        Redraw("push", interval=0.0)
    with pytest.raises(sf.InputError, match="at least one"):
        Redraw((), interval=1.0)
