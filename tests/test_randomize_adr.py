"""ADR: what a boundary worker is, which way a bound moves, and where the rule settles."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.randomize import ADR


def two() -> sf.Params:
    return sf.Params(
        mass=sf.mass("base", low=5.0, high=10.0, nominal=7.5),
        friction=sf.friction(low=0.1, high=10.0, nominal=1.0, scale="log"),
    )


def at(schedule: ADR, n: int, label: str | None = None, side: int = 0) -> dict[str, np.ndarray]:
    """Rows inside the ranges, with one scalar fixed at a bound if asked."""
    rng = np.random.default_rng(1)
    low, high = schedule.values
    v = low + (high - low) * rng.uniform(0.1, 0.9, (n, len(low)))
    if label is not None:
        i = schedule.moving.labels.index(label)
        v[:, i] = schedule.values[side, i]
    return schedule.full.params.unflatten(v)


def lengths(schedule: ADR) -> dict:
    return {key: len(queue) for key, queue in schedule.queues.items() if queue}


@pytest.mark.parametrize("fraction", [0.1, 0.4, 0.75])
def test_fraction_is_the_share_of_boundary_workers_not_of_the_others(fraction):
    schedule = ADR(two().prior(), fraction=fraction)
    v = schedule.full.params.flatten(schedule.prior.sample(8000, 0))
    fixed = (v[None] == schedule.values[:, None]).sum(axis=(0, 2))
    assert fixed.max() == 1  # one scalar at one bound
    assert np.mean(fixed == 1) == pytest.approx(fraction, abs=4 * np.sqrt(fraction * (1 - fraction) / 8000))
    each = (v[None] == schedule.values[:, None]).mean(axis=1)  # every bound of every scalar gets the same share
    np.testing.assert_allclose(each, fraction / 4, atol=0.02)
    inside = v[fixed == 0]
    assert (inside > schedule.values[0]).all()
    assert (inside < schedule.values[1]).all()


def test_only_boundary_workers_enter_the_queues():
    schedule = ADR(two().prior(), queue=100)
    schedule.record(at(schedule, 50), np.ones(50), np.ones(50))
    assert lengths(schedule) == {}
    schedule.record(at(schedule, 7, "friction", 1), np.ones(7), np.ones(7))
    assert lengths(schedule) == {("friction", "high"): 7}
    both = at(schedule, 5, "friction", 1)
    both["mass"][:] = schedule.values[0, 0]
    schedule.record(both, np.ones(5), np.ones(5))  # nobody fixes two: not a worker
    schedule.record(at(schedule, 3, "mass", 0), [1.0, np.nan, 0.0], np.ones(3))
    assert lengths(schedule) == {("friction", "high"): 7, ("mass", "low"): 2}


def test_results_from_before_a_bound_moved_count_nowhere():
    schedule = ADR(two().prior(), queue=10)
    old = at(schedule, 10, "mass", 1)
    schedule.record(old, np.ones(10), np.ones(10))
    assert schedule.update()
    schedule.record(old, np.ones(10), np.ones(10))
    assert lengths(schedule) == {}


def test_values_that_went_through_float32_are_still_recognised():
    schedule = ADR(two().prior(), queue=1000)
    e = schedule.prior.sample(2000, 0)
    params = schedule.full.params
    low, span = params.low, params.high - params.low
    v = params.flatten(e)
    rounded = (np.float32(2 * (v - low) / span - 1).astype(float) + 1) / 2 * span + low
    schedule.record(params.unflatten(rounded), np.ones(2000), np.ones(2000))
    assert sum(lengths(schedule).values()) == (v[None] == schedule.values[:, None]).sum()


@pytest.mark.parametrize(("side", "sign"), [(0, -1.0), (1, 1.0)])
def test_a_good_mean_moves_a_bound_out_and_a_bad_one_in(side, sign):
    schedule = ADR(two().prior(), start=0.4, step=0.1, t_low=0.3, t_high=0.7, queue=10)
    name = ("low", "high")[side]
    first = schedule.bounds.copy()

    def judge(successes: int) -> bool:
        schedule.record(at(schedule, 10, "mass", side), np.arange(10) < successes, np.zeros(10))
        return schedule.update()

    assert judge(7)  # mean equals t_high
    moved = schedule.bounds - first
    assert moved[side, 0] == pytest.approx(sign * 0.1)
    assert np.count_nonzero(np.abs(moved) > 1e-12) == 1  # nothing else moves
    assert schedule.queues["mass", name] == []  # emptied
    assert not judge(5)  # between the two
    assert len(schedule.queues["mass", name]) == 10  # kept
    assert judge(3)  # mean equals t_low
    np.testing.assert_allclose(schedule.bounds, first)
    assert not judge(0)  # not inside the start range


def test_the_newest_results_count_and_a_queue_that_is_not_full_does_not():
    schedule = ADR(two().prior(), queue=10)
    schedule.record(at(schedule, 9, "mass", 1), np.ones(9), np.ones(9))
    assert not schedule.update()
    schedule.record(at(schedule, 5, "mass", 1), np.zeros(5), np.ones(5))
    assert schedule.queues["mass", "high"] == [1.0] * 5 + [0.0] * 5


def test_bounds_stop_at_the_limits_of_the_param():
    schedule = ADR(two().prior(), step=0.3, queue=4)
    for _ in range(6):
        for label in ("mass", "friction"):
            for side in (0, 1):
                schedule.record(at(schedule, 4, label, side), np.ones(4), np.ones(4))
        schedule.update()
    np.testing.assert_allclose(schedule.values, [[5.0, 0.1], [10.0, 10.0]])
    assert schedule.nats == pytest.approx(0.0)
    assert not schedule.update()
    v = schedule.full.params.flatten(schedule.prior.sample(4000, 0))
    assert (v >= [5.0, 0.1]).all()
    assert (v <= [10.0, 10.0]).all()


def test_steps_on_a_log_scale_are_ratios():
    schedule = ADR(two().prior(), start=0.1, step=0.05, queue=4)
    assert schedule.values[:, 1] == pytest.approx([10**-0.1, 10**0.1])
    for _ in range(2):
        before = schedule.values[1, 1]
        schedule.record(at(schedule, 4, "friction", 1), np.ones(4), np.ones(4))
        assert schedule.update()
        assert schedule.values[1, 1] / before == pytest.approx(100**0.05)  # of two decades


def test_nats_is_the_mean_log_width():
    schedule = ADR(two().prior(), start=0.1)
    assert schedule.nats == pytest.approx(np.log(0.1))


def test_a_bound_whose_limit_is_the_nominal_value_needs_no_workers():
    params = sf.Params(push=sf.push(low=0.0, high=1.0, nominal=0.0))
    schedule = ADR(params.prior(), fraction=0.5, start=0.2)
    push = schedule.prior.sample(4000, 0)["push"]
    assert np.mean(push == 0.2) == pytest.approx(0.5, abs=0.04)
    assert (push > 0.0).all()


def test_unmoved_params_keep_their_prior_and_what_cannot_move_is_refused():
    params = sf.Params(**two(), roughness=sf.discrete("roughness", 0.0, 0.02), gravity=sf.gravity(low=9.7, high=9.9))
    prior = params.prior().replace(gravity=sf.Point(value=9.81))
    schedule = ADR(prior, names=("mass",), queue=4)
    assert schedule.moving.labels == ("mass",)
    assert schedule.prior.product.support("friction") == (0.1, 10.0)
    assert ADR(prior).moving.labels == ("mass", "friction")
    for name in ("roughness", "gravity"):
        with pytest.raises(sf.InputError, match="cannot be moved"):
            ADR(prior, names=(name,))
    with pytest.raises(sf.InputError, match="did you mean 'mass'"):
        ADR(prior, names=("mas",))
    with pytest.raises(sf.InputError, match="below t_high"):
        ADR(prior, t_low=0.9, t_high=0.8)
    with pytest.raises(sf.InputError, match="neither"):
        ADR(prior, measure="luck")  # type: ignore[arg-type]
    with pytest.raises(sf.InputError, match="fraction"):
        ADR(prior, fraction=0.0)


def test_returns_can_be_the_measure():
    schedule = ADR(two().prior(), measure="returns", t_low=5.0, t_high=20.0, queue=4)
    schedule.record(at(schedule, 4, "mass", 1), np.full(4, np.nan), np.full(4, 21.0))
    assert schedule.update()


def settled(queue: int, seed: int) -> np.ndarray:
    """Mean bounds at the end, where success falls as 1.4 − |x|: t_high = 0.8 is crossed at 0.6, t_low = 0.2 at 1.2."""
    params = sf.Params(x=sf.com(low=-2.0, high=2.0, nominal=0.0))
    schedule = ADR(params.prior(), start=0.05, step=0.0125, t_low=0.2, t_high=0.8, queue=queue)
    rng, seen = np.random.default_rng(seed), []
    for k in range(700):
        e = schedule.prior.sample(256, rng)
        schedule.record(e, rng.random(256) < np.clip(1.4 - np.abs(e["x"]), 0, 1), np.zeros(256))
        schedule.update()
        if k >= 400:
            seen.append(np.abs(schedule.values[:, 0]))
    return np.mean(seen, axis=0)


def test_the_toy_settles_between_the_crossings_and_longer_queues_bring_it_nearer_to_t_high():
    short, long = settled(10, 0), settled(200, 0)
    assert ((short > 0.6) & (short < 1.2)).all()
    np.testing.assert_allclose(short, 0.9, atol=0.06)  # the ratchet: past the crossing of t_high
    assert ((long > 0.6) & (long < 0.8)).all()
