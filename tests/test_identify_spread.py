"""Distributions: p(e) of repeated runs, posteriors as samples."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.identify.samples import compare, log_likelihood_of, sample_posterior
from surefoot.identify.spread import fit_spread, gaussian, spread_of_logs
from surefoot.identify.spread_runs import Axis, ByRuns, OwnFits
from surefoot.sim.record import Recording

MU, SIGMA = 1.3, 0.25


def one() -> sf.Params:
    return sf.Params(k=sf.strength(low=0.2, high=3.0)).bind({"k": ()})


def two() -> sf.Params:
    return sf.Params(a=sf.strength(low=0.2, high=3.0), b=sf.kp(low=1.0, high=100.0, scale="log")).bind(
        {"a": (), "b": ()}
    )


def runs(count: int, seed: int, noise: float | np.ndarray = 0.05, sigma: float = SIGMA):
    """Runs of y = sin(k x) + 0.3 k², each with its own k ~ N(1.3, 0.25); the way to predict them, what was read, the k."""
    rng = np.random.default_rng(seed)
    k, x = rng.normal(MU, sigma, count), rng.uniform(-1.0, 1.0, (count, 4))
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


@pytest.mark.parametrize(
    ("count", "noise", "sigma", "least"),
    [
        (3, 0.05, SIGMA, 0.84),
        (5, 0.05, SIGMA, 0.84),
        (10, 0.05, SIGMA, 0.84),
        (3, 0.05, 0.0, 0.84),
        (5, 0.3, SIGMA, 0.77),
    ],
)
def test_the_prior_holds_the_next_run_as_often_as_it_says(count, noise, sigma, least):
    """A spread read off a few runs as if these were all there is holds the next one in 58 % (3 runs) to 84 % (10) of cases."""
    inside, alone = [], []
    for seed in range(120):
        predict, y, _ = runs(count, 1000 * count + seed, noise, sigma)
        fit = fit_spread(predict, y, one(), noise=noise, method="runs", draws=16)
        after = np.random.default_rng(10**6 + seed).normal(MU, sigma)
        low, high = np.ravel(fit.prior.interval(0.9)["k"])
        inside.append(low <= after <= high)
        alone.append(abs(after - fit.mean[0]) <= 1.645 * fit.std[0])
    assert least <= np.mean(inside) <= 0.98
    assert np.mean(alone) < np.mean(inside)


def test_the_prior_of_runs_that_were_read_exactly_is_students():
    """t s √(1 + 1/n) with the unbiased s, on the axis of ln for a Param on a log scale."""
    values = np.array([10.0, 12.0, 15.0, 11.0, 18.0])
    log = sf.Params(b=sf.kp(low=1.0, high=100.0, scale="log")).bind({"b": ()})

    def predict(_runs, e, _starts):
        return np.repeat(np.log(np.asarray(e["b"]))[:, None], 3, axis=1)

    fit = fit_spread(predict, np.repeat(np.log(values)[:, None], 3, axis=1), log, noise=1e-6)
    assert fit.std[0] == pytest.approx(np.log(values).std(), rel=1e-3)
    low, high = np.ravel(fit.prior.interval(0.9)["b"])
    half = 2.1318 * np.log(values).std(ddof=1) * np.sqrt(1 + 1 / 5)  # Student's 95 % of 4 degrees of freedom
    assert np.log(low) == pytest.approx(np.log(values).mean() - half, rel=1e-3)
    assert np.log(high) == pytest.approx(np.log(values).mean() + half, rel=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_likelihood_of_whole_runs_recovers_the_planted_spread(seed):
    """The mark of DROPO's toy, by the way that needs no run to tell its own e: mean and standard deviation within 0.03."""
    predict, y, _ = runs(1600, seed)
    fit = fit_spread(predict, y, one(), noise=0.05, method="moments", draws=32)
    assert fit.method == "moments"
    assert abs(fit.mean[0] - MU) < 0.03
    assert abs(fit.std[0] - SIGMA) < 0.03
    assert abs(fit.mean[0] - MU) < 3 * fit.mean_error[0]
    assert abs(fit.std[0] - SIGMA) < 3 * fit.std_error[0]
    assert fit.mean_error[0] == pytest.approx(SIGMA / 40, rel=0.4)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_readings_count_by_their_noise(seed):
    """One good reading and three bad ones: the two ways agree with the truth and with each other."""
    noise = np.array([0.02, 1.0, 1.0, 1.0])
    predict, y, k = runs(400, seed, noise)
    fits = {m: fit_spread(predict, y, one(), noise=noise, method=m, draws=32) for m in ("runs", "moments", "auto")}
    for fit in fits.values():
        assert abs(fit.mean[0] - MU) < 3 * fit.mean_error[0]
        assert abs(fit.std[0] - SIGMA) < 3 * fit.std_error[0]
        assert fit.mean_error[0] < 1.3 * SIGMA / 20
    assert abs(fits["runs"].mean[0] - fits["moments"].mean[0]) < 0.03
    assert abs(fits["runs"].std[0] - fits["moments"].std[0]) < 0.03
    assert fits["auto"].method == "runs"
    own = OwnFits(predict, y, Axis(one()), noise, np.array([1.6]), 0)
    clear = own.variance[:, 0] < 0.002
    off = (own.values[clear, 0] - k[clear]) / np.sqrt(own.variance[clear, 0])
    assert clear.mean() > 0.7
    assert np.median(np.abs(off)) == pytest.approx(0.674, rel=0.2)  # of a normal


def test_starts_count_by_the_noise_of_what_shows_them():
    """y = k x + start: the start's own N(0, 1) holds against noisy readings and gives way to good ones."""
    rng = np.random.default_rng(0)
    x = np.linspace(-1.0, 1.0, 8)
    k, begun = rng.normal(MU, SIGMA, 300), rng.standard_normal(300)
    noise = np.where(np.arange(8) < 4, 0.05, 2.0)
    y = k[:, None] * x + begun[:, None] + noise * rng.standard_normal((300, 8))

    def predict(_runs, e, starts):
        return np.asarray(e["k"])[:, None] * x + starts

    fit = fit_spread(predict, y, one(), noise=noise, starts=1, method="runs")
    assert abs(fit.mean[0] - MU) < 3 * fit.mean_error[0]
    assert abs(fit.std[0] - SIGMA) < 3 * fit.std_error[0]
    J = np.stack([x, np.ones(8)], axis=1) / noise[:, None]
    exact = np.linalg.inv(J.T @ J + np.diag([0.0, 1.0]))[0, 0]
    own = OwnFits(predict, y, Axis(one()), noise, np.array([1.6]), 1)
    np.testing.assert_allclose(own.variance[:, 0], exact, rtol=1e-3)


def test_a_runs_likelihood_is_exact_where_readings_are_linear_and_bends_where_they_are_not():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(1)
    X, B, noise = rng.standard_normal((9, 2)), rng.standard_normal((9, 1)), np.full(9, 0.5)
    y = 1.5 * X.sum(1) + rng.standard_normal((4, 9))
    params = sf.Params(a=sf.strength(low=0.2, high=3.0), b=sf.strength(low=0.2, high=3.0)).bind({"a": (), "b": ()})

    def predict(_runs, e, starts):
        return np.stack([e["a"], e["b"]], axis=1) @ X.T + starts @ B.T

    axis, mean, std = Axis(params), np.array([1.4, 1.7]), np.array([0.05, 0.08])
    phi = np.concatenate([mean / axis.span, np.log(std)])
    problem = ByRuns(OwnFits(predict, y, axis, noise, np.array([1.6, 1.6]), 1)).drawn(phi, 64, 0)
    cov = X @ np.diag(std**2) @ X.T + B @ B.T + np.diag(noise**2)
    exact = multivariate_normal(X @ mean, cov=cov).logpdf(y)  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(problem.each(phi), exact, atol=0.02)

    bent, seen, _ = runs(50, 0, 0.3)
    own, k = OwnFits(bent, seen, Axis(one()), 0.3, np.array([1.6]), 0), np.linspace(0.2, 3.0, 4001)
    phi = np.array([MU / 2.8, np.log(SIGMA)])
    weight = multivariate_normal(MU, cov=SIGMA**2).pdf(k) * (k[1] - k[0])  # pyright: ignore[reportArgumentType]
    grid = np.array([own.likely(np.full((1, 50, 1), v))[0] for v in k])  # (values, runs)
    exact = np.log(weight @ np.exp(grid - grid.max(0))) + grid.max(0)
    straight, drawn = ByRuns(own), ByRuns(own).drawn(phi, 64, 0)
    off = drawn.each(phi) - exact
    assert np.abs(off).max() < 0.05
    assert np.ptp(straight.each(phi) - exact) > 1.0, "alone, the normal likelihood is wrong for some runs"


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


def swings(truth: np.ndarray, **others: float) -> tuple[sf.Sim, list[sf.Log]]:
    """Swings of a servo whose dry friction differs from run to run; other Params as given in all of them."""
    robot = replace(sf.load("servo"), timestep=0.0025)
    params = robot.params.only("coulomb", "armature")
    worlds = sf.Sim(robot, params, worlds=len(truth), threads=1, seed=4)
    worlds.apply({"coulomb": truth} | {name: np.full(len(truth), v) for name, v in others.items()})
    worlds.reset()
    recordings = [Recording(worlds, w) for w in range(len(truth))]
    for k in range(60):
        u = np.full((len(truth), 1), 0.4 * np.sin(0.2 * k))
        readings = worlds.sense()
        for recording in recordings:
            recording.add(readings, u)
        worlds.step(u)
    return sf.Sim(robot, params, threads=1), [r.log() for r in recordings]


def frictions(count: int) -> np.ndarray:
    return np.exp(np.random.default_rng(3).normal(np.log(0.02), 0.4, count))


@pytest.mark.slow
def test_a_spread_of_a_robots_runs_is_recovered():
    truth = frictions(30)
    sim, logs = swings(truth)
    fit = spread_of_logs(sim, logs, only=("coulomb",), window=0.3)
    assert fit.mean[0] == pytest.approx(np.log(truth).mean(), abs=0.12)
    assert fit.std[0] == pytest.approx(np.log(truth).std(), abs=0.12)
    assert fit.needed


@pytest.mark.slow
def test_params_that_do_not_spread_keep_the_values_they_are_given():
    truth = frictions(12)
    sim, logs = swings(truth, armature=0.006)
    there, nominal = (
        spread_of_logs(sim, logs, only="coulomb", fixed=fixed, window=0.3, noise=0.0007, method="runs")
        for fixed in ({"armature": 0.006}, None)
    )
    assert there.mean[0] == pytest.approx(np.log(truth).mean(), abs=0.12)
    assert there.std[0] == pytest.approx(np.log(truth).std(), abs=0.15)
    assert abs(nominal.mean[0] - there.mean[0]) > 0.2, "another armature bends the friction"
    drawn = (sim.params.prior().replace(there.beliefs)).sample(2000, 0)
    assert np.log(drawn["coulomb"]).std() == pytest.approx(there.next_std[0], rel=0.1)
    assert np.ptp(drawn["armature"]) > 0


def test_what_cannot_stay_fixed_is_said():
    sim, logs = swings(frictions(3))
    with pytest.raises(InputError, match="did you mean 'armature'"):
        spread_of_logs(sim, logs, only=("coulomb",), fixed={"armatur": 0.003})
    with pytest.raises(InputError, match="'coulomb' is fitted and stands in fixed= too"):
        spread_of_logs(sim, logs, only=("coulomb",), fixed={"coulomb": 0.02})
    with pytest.raises(InputError, match="must have shape"):
        spread_of_logs(sim, logs, only=("coulomb",), fixed={"armature": np.full(3, 0.003)})
    with pytest.raises(InputError, match="name at least one Param"):
        spread_of_logs(sim, logs, only=())
    with pytest.raises(InputError, match="did you mean 'armature'"):
        log_likelihood_of(sim, logs, fixed={"armatur": 0.003})
    with pytest.raises(InputError, match="is not a channel that is compared"):
        log_likelihood_of(sim, logs, noise={"joint_vel": 0.1})


def test_what_cannot_be_spread_is_said():
    predict, y, _ = runs(10, 0)
    with pytest.raises(InputError, match="at least 3 runs"):
        fit_spread(predict, y[:2], one())
    with pytest.raises(InputError, match="is not a way to fit a spread"):
        fit_spread(predict, y, one(), method="guess")
    for noise in (np.full(3, 0.1), 0.0, np.array([0.1, 0.1, -0.1, 0.1])):
        with pytest.raises(InputError, match="noise must be one number above 0, or one for each of 4 readings"):
            fit_spread(predict, y, one(), noise=noise)
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


def test_the_likelihood_of_a_log_takes_the_other_params_as_given_and_needs_a_noise():
    sim, logs = swings(frictions(3)[:1], armature=0.006)
    e = {"coulomb": frictions(3)[:1]}
    noise = {"joint_pos": 0.0007}
    there, nominal = (log_likelihood_of(sim, logs, fixed=f, noise=noise)(e)[0] for f in ({"armature": 0.006}, None))
    assert there > nominal + 100
    with pytest.raises(InputError, match="'coulomb' is fitted and stands in fixed= too"):
        log_likelihood_of(sim, logs, fixed={"coulomb": 0.02}, noise=noise)(e)
    old = logs[0]["joint_pos"]
    coarse = replace(old, values=np.round(old.values / 0.2) * 0.2)
    rough = replace(logs[0], channels=tuple(coarse if c is old else c for c in logs[0].channels))
    with pytest.raises(InputError, match="'joint_pos' shows no noise of its own"):
        log_likelihood_of(sim, [rough])


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
