"""bench planted-e: what counts as within the bound, covered and named, over which robots."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.bench import Request, planted_e, run
from surefoot.identify.fit import Fit
from surefoot.identify.identifiable import unidentified


@pytest.fixture
def fits(monkeypatch, tmp_path):
    """Every robot's fit is the same: five scalars, of which the third is beyond 3 standard deviations and hardly separated from another,
    the fourth hidden and named, and the fifth shown but named; seeds of the robots are kept.
    """
    seeds: list[tuple[str, int, bool]] = []

    def planted(kind: planted_e.Kind, seed: int, *, steps: bool = False) -> planted_e.Found:
        seeds.append((kind.robot, seed, steps))
        return planted_e.Found(
            names=("a", "b", "c", "d", "e"),
            shown=np.array([True, True, True, False, True]),
            error=np.array([0.5, -2.9, 3.1, 40.0, 50.0]),
            covered=np.array([True, True, False, False, False]),
            named=np.array([False, False, False, True, True]),
            paired=np.array([False, False, True, False, False]),
        )

    monkeypatch.setattr(planted_e, "planted", planted)
    monkeypatch.setenv("SUREFOOT_CACHE", str(tmp_path))
    return seeds


def test_only_shown_scalars_that_were_not_named_are_judged(fits):
    found = {m.name: m for m in run("planted-e", Request(quick=True)).marks}
    within = found["planted e: errors within 3 standard deviations of the bound"]
    assert within.value == pytest.approx(2 / 3)
    assert within.holds is False
    assert "8 robots, 24 identified scalars of 40" in within.reference
    assert found["planted e: 90 % intervals cover the truth"].value == pytest.approx(2 / 3)
    assert found["planted e: scalars that no motion showed, named"].value == 1.0
    every = found["planted e: errors within 3 standard deviations, all shown scalars"]
    assert every.value == pytest.approx(2 / 4)
    assert every.mark is None
    assert "32 shown scalars of 40, of which 8 are named as not identified" in every.reference
    assert found["planted e: 90 % intervals cover the truth, all shown scalars"].value == pytest.approx(2 / 4)
    assert found["planted e: shown scalars falsely named as not identified"].value == pytest.approx(1 / 4)
    assert found["planted e: shown scalars named as hardly separated"].value == pytest.approx(1 / 4)
    assert found["planted e, go2: errors within 3 standard deviations of the bound"].mark is None
    stepped = found["planted e, encoders with steps: errors within 3 standard deviations of the bound"]
    assert stepped.mark is None, "a bound for white noise is not one for steps"


def test_more_seeds_are_more_robots_and_the_first_stay_the_same(fits):
    run("planted-e", Request(quick=True))
    few = list(fits)
    fits.clear()
    run("planted-e", Request(quick=True, seeds=2))
    assert len(fits) == 2 * len(few)
    assert set(few) < set(fits)
    for robot in planted_e.KINDS:
        own = [seed for name, seed, steps in fits if name == robot and not steps]
        assert len(set(own)) == len(own) == 4


def test_a_pair_that_is_identified_is_judged_and_a_direction_that_is_not_is_named():
    """Three scalars: the first two known to 1 % of their range but hardly separated, the third not at all."""
    whole = sf.Params(kp=sf.kp(low=1.0, high=2.0), kd=sf.kd(low=1.0, high=2.0), armature=sf.armature(low=1.0, high=2.0))
    params = whole.bind({"kp": (), "kd": (), "armature": ()})
    data = np.diag([1e-4, 1e-4, 1e6])
    data[0, 1] = data[1, 0] = 0.999e-4
    found = unidentified(params, data, np.eye(3) / 12)
    assert {c.names for c in found} == {("armature",), ("kp", "kd")}
    fit = replace(Fit.made(params, np.full(3, 1.5), np.eye(3), white_std=np.ones(3), freedom=10.0), unidentified=found)
    assert planted_e.missing(fit).tolist() == [False, False, True]
