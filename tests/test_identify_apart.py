"""Params with a value of their own in every recording: all are recovered at once, and the fit says what the next recording may have."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.identify import Fit, Problem, cut, identify
from surefoot.identify.gap_rows import gap_rows
from surefoot.identify.report_page import report
from test_identify_fit import TRUTH, arm, params, recording

ZEROS = (0.04, -0.03, 0.01)  # [rad]


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apart")
    return sf.Sim(arm(folder), params(zero=sf.encoder_bias("pivot", low=-0.1, high=0.1, nominal=0.0)), seed=3)


@pytest.fixture(scope="module")
def logs(sim):
    return [recording(sim, {**TRUTH, "zero": zero}, seconds=3.0) for zero in ZEROS]


@pytest.fixture(scope="module")
def fit(sim, logs):
    return identify(sim, logs, apart=["zero"], window=0.5)


def test_zeros_set_anew_before_every_recording_are_recovered_with_the_robot_they_share(fit):
    found = [np.ravel(run.values["zero"])[0] for run in fit.runs]
    np.testing.assert_allclose(found, ZEROS, atol=5e-4)
    assert fit["kp"] == pytest.approx(TRUTH["kp"], rel=0.01)
    assert fit["command_delay"] == pytest.approx(TRUTH["command_delay"], abs=3e-4)
    for run, truth in zip(fit.runs, ZEROS, strict=True):
        assert abs(np.ravel(run.values["zero"])[0] - truth) < 4 * np.ravel(run.std["zero"])[0] < 5e-3


def test_one_value_for_recordings_that_differ_foresees_them_worse(sim, logs, fit):
    tied = identify(sim, logs, window=0.5)

    def error(found):
        return np.sqrt(np.mean([s.after**2 for s in found.scores if s.windows == "held out"]))

    assert error(tied) > 3 * error(fit)


def test_the_next_recording_may_have_what_differs_between_the_known_ones(fit):
    label = fit.names[-1]
    assert label.startswith("zero")
    assert fit[label] == pytest.approx(np.mean(ZEROS), abs=5e-4)
    assert fit.std[-1] == pytest.approx(np.std(ZEROS, ddof=1) * np.sqrt(4 / 3), rel=0.05)
    assert np.broadcast_to(fit.freedom, fit.values.shape)[-1] == 2
    low, high = fit.intervals()[-1]
    assert low < min(ZEROS) < max(ZEROS) < high
    draws = fit.posterior.sample(2000, 0)["zero"]
    assert np.std(draws) > np.std(ZEROS)
    assert fit.deviation[-1, :-1] == pytest.approx(0.0)


def test_the_fit_knows_each_recording_and_loads_back_equal(sim, logs, fit):
    assert Fit.from_dict(fit.to_dict()) == fit
    np.testing.assert_allclose(np.ravel(fit.e_in(logs[1])["zero"]), ZEROS[1], atol=5e-4)
    found = sim.replay(logs[1], fit.e_in(logs[1]), channels=("joint_pos",)).gap("joint_pos")
    truth = sim.replay(logs[1], {**TRUTH, "zero": ZEROS[1]}, channels=("joint_pos",)).gap("joint_pos")
    assert np.sqrt(np.mean((found - truth) ** 2)) < 1e-3
    with pytest.raises(InputError, match="not among the 3 recordings"):
        fit.e_in(recording(sim, TRUTH, seconds=1.0))
    assert "recording" in str(fit)
    assert f"{np.ravel(fit.runs[2].values['zero'])[0]:.5g}" in str(fit)


def test_the_report_shows_the_recordings(sim, logs, fit, tmp_path):
    page = report(sim, logs, fit, window=0.5).save(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "in each recording" in page


def test_columns_of_one_batch_are_the_derivatives_of_every_recording(sim, logs):
    problem = Problem(sim, cut(sim, logs, window=0.5, held_out=0.0), only=["kp", "zero"], apart=["zero"])
    assert problem.params.names[0] == "kp"
    assert problem.d == 4
    s = problem.s_of({"kp": [30.0], "zero": [0.01]})
    offsets = np.zeros((len(problem.rows), problem.nx))
    linear = problem.linearise(s, offsets, keep=True, steps="coarse")
    y0 = problem.predict(s, problem.rows, offsets[None])[0]
    for i in range(problem.d):
        step = 1e-3 * (-1.0 if s[i] > 0.5 else 1.0)
        moved = s.copy()
        moved[i] += step
        change = (problem.predict(moved, problem.rows, offsets[None])[0] - y0) / step
        expected = np.where(problem.rollouts.seen[problem.rows], change / problem.deviation(problem.rows), 0.0)
        np.testing.assert_allclose(linear.a[:, i], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    where = problem.rollouts.log[problem.rows]
    assert all((linear.a[where != run, 1 + run] == 0).all() for run in range(3))


def test_a_recording_that_only_judges_has_the_mean_of_the_others(sim, logs):
    problem = Problem(sim, cut(sim, logs[:2], window=0.5, held_out=logs[2:]), only=["zero"], apart=["zero"])
    e, own = problem.apart.split(problem.e_of(np.array([0.7, 0.4])))
    assert e == {}
    np.testing.assert_allclose(np.ravel(own["zero"]), [0.04, -0.02, 0.01], atol=1e-12)


def test_a_prior_holds_in_every_recording(sim, logs):
    prior = sim.params.only("zero").prior().replace(zero=sf.Normal(mean=0.0, sd=1e-4))
    rest = {name: value for name, value in TRUTH.items() if name != "kp"}
    held = identify(sim, logs, only=["kp", "zero"], apart=["zero"], prior=prior, window=0.5, fixed=rest, jumps=False)
    assert all(abs(np.ravel(run.values["zero"])[0]) < abs(zero) for run, zero in zip(held.runs, ZEROS, strict=True))


def test_the_gap_of_a_recording_is_that_of_its_own_values(sim, logs, fit):
    (row,) = gap_rows(sim, logs, fit, channels=("joint_pos",), window=0.5)
    assert row["fitted"] < 0.1 * row["nominal"]
    assert row["fitted"] < 0.01  # Starts are those of the noisy log; the mean of the zeros is off by 0.03 rad.


def test_wrong_askings_are_told(sim, logs):
    with pytest.raises(InputError, match="did you mean 'zero'"):
        identify(sim, logs, apart=["zeros"])
    with pytest.raises(InputError, match="give two or more"):
        identify(sim, logs[:1], apart=["zero"])
