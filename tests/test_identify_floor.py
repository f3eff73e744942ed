"""Noise floors: of white noise, and of readings in steps, which are never better than the step's rounding."""

import numpy as np
import pytest

from surefoot.identify.residuals import floor_of
from surefoot.sim.gap import step_of

T = np.arange(0.0, 10.0, 0.005)
SLOW = 0.3 * np.sin(2 * np.pi * 0.01 * T)
STEP = 2 * np.pi / 4096


@pytest.mark.parametrize("scale", [1.0, 180 / np.pi, 1e-3])
def test_readings_that_mostly_repeat_have_the_floor_of_their_step(scale):
    stepped = scale * STEP * np.round(SLOW / STEP)
    assert (np.diff(stepped) == 0.0).mean() > 0.9
    assert step_of(stepped) == pytest.approx(scale * STEP, rel=1e-6)
    assert floor_of([stepped]) == pytest.approx(scale * STEP / np.sqrt(12), rel=0.3)
    assert floor_of([stepped, np.zeros(50)]) >= 0.999 * scale * STEP / np.sqrt(12)


def test_white_noise_has_no_steps_and_its_own_floor():
    noisy = SLOW + np.random.default_rng(0).normal(0.0, 2e-3, len(T))
    assert step_of(noisy) == 0.0
    assert floor_of([noisy]) == pytest.approx(2e-3, rel=0.1)
