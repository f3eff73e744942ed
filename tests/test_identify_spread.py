"""Distributions: p(e) of repeated runs, posteriors as samples."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.identify.samples import compare, log_likelihood_of, sample_posterior
from surefoot.identify.spread import fit_spread, gaussian, spread_of_logs
from surefoot.sim.record import Recording

MU, SIGMA = 1.3, 0.25


def one() -> sf.Params:
    return sf.Params(k=sf.strength(low=0.2, high=3.0)).bind({"k": ()})


def two() -> sf.Params:
    return sf.Params(a=sf.strength(low=0.2, high=3.0), b=sf.kp(low=1.0, high=100.0, scale="log")).bind(
        {"a": (), "b": ()}
    )


def runs(count: int, seed: int, noise: float = 0.05):
    """Runs of y = sin(k x) + 0.3 k², each with its own k ~ N(1.3, 0.25); the way to predict them, what was read, the k."""
    rng = np.random.default_rng(seed)
    k, x = rng.normal(MU, SIGMA, count), rng.uniform(-1.0, 1.0, (count, 4))
    y = np.sin(k[:, None] * x) + 0.3 * k[:, None] ** 2 + noise * rng.standard_normal(x.shape)

    def predict(runs, e, _starts):
        k = np.asarray(e["k"])[:, None]
        return np.sin(k * x[runs]) + 0.3 * k**2

    return predict, y, k


# -------------------------------------------------------------------- spread


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_planted_spread_is_recovered(seed):
    """Mark: mean within 0.03 of 1.3, standard deviation within 0.03 of 0.25."""
    predict, y, _ = runs(400, seed)
    fit = fit_spread(predict, y, one())
    assert fit.method == "runs"
    assert abs(fit.mean[0] - MU) < 0.03
    assert abs(fit.std[0] - SIGMA) < 0.03
    assert abs(fit.mean[0] - MU) < 4 * fit.mean_error[0]
    assert fit.mean_error[0] == pytest.approx(SIGMA / 20, rel=0.2)
    assert fit.std_error[0] == pytest.approx(SIGMA / np.sqrt(800), rel=0.3)
    assert fit.noise[0] == pytest.approx(0.05, rel=0.1)
    assert fit.needed
    drawn = fit.prior.sample(4000, 0)["k"]
    assert drawn.mean() == pytest.approx(fit.mean[0], abs=0.02)
    assert drawn.std() == pytest.approx(fit.std[0], abs=0.02)


def test_moments_find_it_too_where_runs_are_noisy():
    predict, y, _ = runs(300, 1, noise=0.3)
    fit = fit_spread(predict, y, one(), noise=0.3, method="moments", draws=32)
    assert abs(fit.mean[0] - MU) < 3 * max(fit.mean_error[0], 0.02)
    assert abs(fit.std[0] - SIGMA) < 0.08


def test_runs_of_one_e_need_no_spread():
    predict, _, _ = runs(60, 0)
    rng = np.random.default_rng(5)
    y = predict(np.arange(60), {"k": np.full(60, MU)}, np.zeros((60, 0))) + 0.05 * rng.standard_normal((60, 4))
    fit = fit_spread(predict, y, one())
    assert not fit.needed
    assert fit.std[0] < 0.06
    assert "one e explains them as well" in str(fit)


def test_the_likelihood_is_that_of_a_normal_whichever_way_it_is_computed():
    rng = np.random.default_rng(0)
    drawn, seen, sigma = rng.standard_normal((6, 2, 9)), rng.standard_normal((2, 9)), np.full(9, 0.4)
    from scipy.stats import multivariate_normal

    for w in range(2):
        cov = np.cov(drawn[:, w].T) + np.diag(sigma**2)
        wanted = multivariate_normal(drawn[:, w].mean(0), cov=cov).logpdf(seen[w])  # pyright: ignore[reportArgumentType]
        assert gaussian(seen, drawn, sigma)[w] == pytest.approx(wanted)
        few = np.cov(drawn[:, w, :4].T) + 0.16 * np.eye(4)
        narrow = multivariate_normal(drawn[:, w, :4].mean(0), cov=few).logpdf(seen[w, :4])  # pyright: ignore[reportArgumentType]
        assert gaussian(seen[:, :4], drawn[..., :4], sigma[:4])[w] == pytest.approx(narrow)


@pytest.mark.slow
def test_a_spread_of_a_robots_runs_is_recovered():
    """Thirty swings of a servo whose dry friction differs from run to run."""
    robot = replace(sf.load("servo"), timestep=0.0025)
    params = robot.params.only("coulomb", "armature")
    sim = sf.Sim(robot, params, threads=1)
    rng = np.random.default_rng(3)
    truth = np.exp(rng.normal(np.log(0.02), 0.4, 30))
    worlds = sf.Sim(robot, params, worlds=30, threads=1, seed=4)
    worlds.apply({"coulomb": truth})
    worlds.reset()
    recordings = [Recording(worlds, w) for w in range(30)]
    for k in range(60):
        u = np.full((30, 1), 0.4 * np.sin(0.2 * k))
        readings = worlds.sense()
        for recording in recordings:
            recording.add(readings, u)
        worlds.step(u)
    logs = [r.log() for r in recordings]
    fit = spread_of_logs(sim, logs, only=("coulomb",), window=0.3)
    assert fit.mean[0] == pytest.approx(np.log(truth).mean(), abs=0.12)
    assert fit.std[0] == pytest.approx(np.log(truth).std(), abs=0.12)
    assert fit.needed


def test_what_cannot_be_spread_is_said():
    predict, y, _ = runs(10, 0)
    with pytest.raises(InputError, match="at least 3 runs"):
        fit_spread(predict, y[:2], one())
    with pytest.raises(InputError, match="is not a way to fit a spread"):
        fit_spread(predict, y, one(), method="guess")
    with pytest.raises(InputError, match="cannot tell noise from the spread"):
        fit_spread(lambda w, e, s: predict(w, e, s)[:, :1], y[:, :1], one())


# -------------------------------------------------------------------- samples


def two_valleys(e):
    return -0.5 * (((e["a"] - 1.6) ** 2 - 0.64) / 0.05) ** 2 - 0.5 * ((np.log(e["b"]) - np.log(8.0)) / 0.2) ** 2


def test_samples_find_both_modes_and_the_evidence():
    cloud = sample_posterior(two_valleys, two().prior(), particles=600, seed=1)
    a, b = cloud.e["a"], np.log(cloud.e["b"])
    below = a < 1.6
    assert 0.35 < below.mean() < 0.65
    assert a[below].mean() == pytest.approx(0.8, abs=0.01)
    assert a[~below].mean() == pytest.approx(2.4, abs=0.01)
    assert a[below].std() == pytest.approx(0.05 / 1.6, rel=0.25)
    assert b.mean() == pytest.approx(np.log(8.0), abs=0.04)
    assert b.std() == pytest.approx(0.2, rel=0.15)
    grid_a, grid_b = np.linspace(0.2, 3.0, 4001), np.linspace(0.0, np.log(100.0), 2001)
    exact = np.trapezoid(np.exp(-0.5 * (((grid_a - 1.6) ** 2 - 0.64) / 0.05) ** 2), grid_a) / 2.8
    exact *= np.trapezoid(np.exp(-0.5 * ((grid_b - np.log(8.0)) / 0.2) ** 2), grid_b) / np.log(100.0)
    assert cloud.log_evidence == pytest.approx(np.log(exact), abs=0.3)
    drawn = cloud.prior.sample(500, 0)
    assert 0.3 < (drawn["a"] < 1.6).mean() < 0.7


def test_samples_respect_the_prior_where_the_likelihood_says_nothing():
    prior = two().prior().replace(a=sf.Normal(mean=1.0, sd=0.2))
    cloud = sample_posterior(
        lambda e: np.zeros(len(e["a"])) - 0.5 * ((np.log(e["b"]) - 2.0) / 0.1) ** 2, prior, particles=600, seed=2
    )
    assert cloud.e["a"].mean() == pytest.approx(1.0, abs=0.04)
    assert cloud.e["a"].std() == pytest.approx(0.2, rel=0.15)


@pytest.mark.slow
def test_samples_of_a_replayed_log_cover_the_truth():
    robot = replace(sf.load("servo"), timestep=0.0025)
    params = robot.params.only("coulomb", "armature")
    sim = sf.Sim(robot, params, threads=1)
    world = sf.Sim(robot, params, threads=1, seed=1)
    truth = {"coulomb": np.array([0.03]), "armature": np.array([0.003])}
    world.apply(truth)
    world.reset()
    recording = Recording(world)
    for k in range(100):
        u = np.array([0.5 * np.sin(0.15 * k)])
        recording.add(world.sense(), u)
        world.step(u)
    likely = log_likelihood_of(sim, [recording.log()], noise={"joint_pos": 0.0007}, memory=0.005)
    cloud = sample_posterior(
        likely, params.bind({"coulomb": (), "armature": ()}).prior(), particles=48, moves=3, seed=0
    )
    for name, value in truth.items():
        low, high = np.quantile(cloud.e[name], [0.01, 0.99])
        assert 0.9 * low < value[0] < 1.1 * high
        assert high / low < 1.4


def test_comparing_summaries_finds_both_modes():
    def summaries(e):
        rng = np.random.default_rng(3)
        n = len(e["a"])
        parts = [(e["a"] - 1.6) ** 2 + 0.05 * rng.standard_normal(n), np.log(e["b"]) + 0.2 * rng.standard_normal(n)]
        return np.stack(parts, axis=1)

    cloud = compare(summaries, np.array([0.64, np.log(8.0)]), two().prior(), particles=800, rounds=5)
    drawn = cloud.prior.sample(2000, 0)
    below = drawn["a"] < 1.6
    assert 0.25 < below.mean() < 0.75
    assert drawn["a"][below].mean() == pytest.approx(0.8, abs=0.05)
    assert drawn["a"][below].std() < 0.15
    assert np.log(drawn["b"]).mean() == pytest.approx(np.log(8.0), abs=0.15)
    assert np.log(drawn["b"]).std() == pytest.approx(0.2, rel=0.4)
    assert list(cloud.temperatures) == sorted(cloud.temperatures, reverse=True)


def test_what_cannot_be_sampled_is_said():
    with pytest.raises(InputError, match="no draw of the prior explains"):
        sample_posterior(lambda e: np.full(len(e["k"]), -np.inf), one().prior())
    with pytest.raises(InputError, match="one number for each"):
        sample_posterior(lambda e: np.zeros(3), one().prior(), particles=16)
    with pytest.raises(InputError, match="at least 8 particles"):
        sample_posterior(lambda e: np.zeros(len(e["k"])), one().prior(), particles=2)
    with pytest.raises(InputError, match="summaries must have shape"):
        compare(lambda e: np.zeros((3, 1)), np.zeros(1), one().prior(), particles=16)
