"""D and A want different motions: D the smallest volume of what stays unknown, A the smallest mean variance."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.identify.excite import Beliefs, Effort, Judge, excite, usual_limits
from surefoot.identify.information import Information, Lens, sensor_noise_of

ONLY = ("kp", "coulomb")
ONE_SIDED, EVEN = np.diag([99.0, 0.0]), np.diag([7.0, 7.0])
"""Two motions' information where 1 is known of each scalar: all about one of them, or some about both.

½ log det(1 + F): ½ ln 100 = 2.303 and ½ ln 64 = 2.079, so D takes the first; mean variance left: (0.01 + 1) / 2 and 1/8: A the second."""
QUICK = Effort(families=("multi-sine",), population=2, rounds=1, elite=1, samples=1, climbs=0)


@pytest.fixture
def sim():
    robot = sf.load("servo")
    return sf.Sim(replace(robot, timestep=0.0025), robot.params.only(*ONLY), threads=1)


def beliefs(sim: sf.Sim, samples: int = 1, variance: tuple[float, float] = (1.0, 1.0)) -> Beliefs:
    """Two scalars whose packed coordinates have the given variances."""
    made = Beliefs(sim, None, ONLY, samples, 0)
    made.covariance, made.precision = np.diag(variance), np.diag(1.0 / np.array(variance))
    return made


def test_the_criteria_are_their_equations(sim):
    both = np.stack([ONE_SIDED, EVEN])[:, None]
    b = beliefs(sim)
    np.testing.assert_allclose(b.score(both, "D"), [0.5 * np.log(100), 0.5 * np.log(64)])
    np.testing.assert_allclose(b.score(both, "A"), [-0.505, -0.125])
    np.testing.assert_allclose(b.score(both.swapaxes(0, 1), "D"), [0.25 * np.log(6400)])  # the mean over two samples


def test_a_looks_at_variances_relative_to_those_of_now(sim):
    """A scalar of a large unit must not decide: with variances 100 and 1 now, the same shares of both are worth the same."""
    b, f = beliefs(sim, variance=(100.0, 1.0)), np.array([[[[0.09, 0], [0, 0]]], [[[0, 0], [0, 9.0]]]])
    np.testing.assert_allclose(b.score(f, "A"), [-0.55, -0.55])


@pytest.mark.parametrize(("criterion", "best"), [("D", 0), ("A", 1)])
def test_a_judge_takes_the_motion_that_its_criterion_wants(sim, criterion, best):
    """The candidate of a large swing tells one scalar, that of a small swing both."""
    judge = Judge(
        sim, Information(sim, Lens(names=ONLY, noise=sensor_noise_of(sim))), beliefs(sim), usual_limits(sim, ONLY),
        replace(QUICK, criterion=criterion),
    )  # fmt: skip
    judge.information = Planted(judge.information)
    shape = np.sin(np.linspace(0.0, 6.0, 100))[:, None]
    trials = judge.trials("multi-sine", np.stack([0.3 * shape, 0.1 * shape]))
    assert int(np.argmax([t.score for t in trials])) == best


@pytest.mark.parametrize("criterion", ["D", "A"])
def test_a_design_is_made_by_the_criterion_it_was_asked_for(sim, criterion, monkeypatch):
    """With a score that tells nothing but the criterion, the design's scores name it."""
    monkeypatch.setattr(Beliefs, "score", lambda self, f, asked: np.full(len(f), {"D": 1.0, "A": 2.0}[asked]))
    design = excite(sim, only=ONLY, seconds=0.5, effort=replace(QUICK, criterion=criterion))
    assert set(design.scores.values()) == {{"D": 1.0, "A": 2.0}[criterion]}


class Planted:
    """Information that is one-sided for large motions and even for small ones; everything else as it was."""

    def __init__(self, real: Information):
        self.real = real

    def __getattr__(self, name: str):
        return getattr(self.real, name)

    def __call__(self, u: np.ndarray, _e) -> np.ndarray:
        swing = np.ptp(u[..., 0], axis=1)
        return np.where((swing > 0.5 * swing.max())[:, None, None, None], ONE_SIDED, EVEN)
