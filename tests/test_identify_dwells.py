"""Readings that repeat count once, unless the motion goes on through their step."""

import numpy as np
import pytest

from surefoot.identify.dwells import shared_variance, step_of

STEP = 0.003


def stepped(y):
    return STEP * np.round(y / STEP)


def test_the_size_of_the_steps_is_found_and_noise_has_none():
    t = np.linspace(0.0, 3.0, 1500)
    assert step_of(stepped(0.05 * np.sin(2 * t))) == pytest.approx(STEP)
    assert step_of(np.random.default_rng(0).normal(size=500)) == 0.0
    assert step_of(np.zeros(100)) == 0.0
    assert step_of(stepped(np.linspace(0.0, 50.0, 300))) == 0.0  # every reading is new


def test_a_passage_keeps_its_weight_a_rest_and_a_turn_do_not():
    y = STEP * np.array([0.0] * 10 + [1.0] * 4 + [2.0] * 4 + [3.0] * 6 + [2.0] * 4 + [1.0] * 30)
    shared = shared_variance(y)
    one = STEP**2 / 12
    assert shared[:10] == pytest.approx(9 * one)  # nothing says where within the step it rested
    assert shared[10:18] == pytest.approx(0.0)
    assert shared[18:24] == pytest.approx(5 * one)  # it turned
    assert shared[24:28] == pytest.approx(0.0)
    assert shared[28:] == pytest.approx(29 * one)


def test_the_mean_over_a_turn_is_as_uncertain_as_the_weights_say():
    rng, found, claimed = np.random.default_rng(1), [], []
    for _ in range(300):
        y = rng.uniform(-1, 1) * STEP + 0.4 * STEP * np.cos(np.linspace(0.0, 3 * np.pi, 90))
        error, shared = stepped(y) - y, shared_variance(stepped(y))
        alone = STEP**2 / 12
        weight = 1 / (alone + shared)
        found.append((weight * error).sum() / weight.sum())
        claimed.append(1 / weight.sum())
    assert np.std(found) < 1.5 * np.sqrt(np.mean(claimed))
    assert np.std(found) > 3 * np.sqrt(STEP**2 / 12 / 90)  # what white noise would claim
