"""p(e | logs) as samples, for posteriors that no normal describes: two modes, bananas, bounds.

    p_β(e) ∝ p(e) L(e)^β,   0 = β_0 < β_1 < ... < β_n = 1            tempered sequential Monte Carlo

A cloud of particles follows p_β from the prior to the posterior: weigh by L^(β' − β), with β' such that half of the particles still
count; draw anew; move every particle by Metropolis steps that leave p_β' as it is. All particles are replayed in one batch. The
cloud's mean weight gives the evidence ∫ p(e) L(e) de, by which models can be compared.

Where there is no likelihood but only a way to compare (summaries of a run), `compare` accepts particles nearest to the recording and
corrects what is left of the difference by local regression (ABC; Beaumont, Zhang, Balding 2002).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.identify.spread import others
from surefoot.logs import Log
from surefoot.params import E, Params, Prior
from surefoot.sim import Sim
from surefoot.sim.gap import noise_floor

LogLikelihood = Callable[[E], np.ndarray]
"""e of n worlds -> log L of each, (n,)."""
KEEP = 0.5
"""Share of the particles that must still count after a step of β."""
WISHED = 0.3
"""Share of Metropolis proposals to be accepted."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cloud:
    """What sampling found.

    Attributes:
        prior: p(e | logs) as a Prior of samples.
        e: the particles, (particles, ...).
        log_likelihood: of each, (particles,).
        log_evidence: log ∫ p(e) L(e) de; NaN where there is no likelihood.
        temperatures: β of every step (tolerances of `compare`).
        accepted: share of proposals accepted in the last step.
        replays: particles that were simulated in all.
    """

    prior: Prior
    e: E
    log_likelihood: np.ndarray
    log_evidence: float
    temperatures: tuple[float, ...]
    accepted: float
    replays: int


def sample_posterior(
    log_likelihood: LogLikelihood,
    prior: Prior,
    *,
    particles: int = 256,
    moves: int = 6,
    jitter: float = 0.0,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Cloud:
    """Samples of p(e) L(e), whatever its shape.

    Args:
        log_likelihood: log L of every row of e, in one call.
        prior: p(e), over continuous Params.
        particles: size of the cloud.
        moves: Metropolis steps of each particle at each β.
        jitter: kernel of the returned samples Prior, as a share of its whole spread; 0 keeps bare samples (two modes stay sharp).
        seed: of all random numbers.
        say: told about progress.
    """
    params = _continuous(prior.params)
    if particles < 8 or moves < 1:
        raise InputError(f"sampling needs at least 8 particles and 1 move, got {particles} and {moves}")
    rng = np.random.default_rng(seed)
    z = params.pack(prior.sample(particles, seed))
    target = _Target(log_likelihood, prior, params)
    likely, believed = target(z)
    if not np.isfinite(likely).any():
        raise InputError("no draw of the prior explains the recording at all: widen the prior, or look at the noise")
    beta, evidence, scale, betas, share = 0.0, 0.0, 2.4 / np.sqrt(z.shape[1]), [], 0.0
    while beta < 1.0:
        step = _next(likely, beta)
        weight = np.exp((step - beta) * (likely - likely.max()))
        evidence += float(np.log(weight.mean()) + (step - beta) * likely.max())
        beta = step
        betas.append(beta)
        pick = _systematic(weight / weight.sum(), rng)
        z, likely, believed = z[pick], likely[pick], believed[pick]
        for _ in range(moves):
            z, likely, believed, share = _moved(z, likely, believed, target, (beta, scale), rng)
            scale *= np.exp(share - WISHED)
        if say:
            say(f"beta {beta:.3g}: {share:.0%} accepted, best log likelihood {likely.max():.2f}")
    e = params.unpack(z)
    return Cloud(
        prior=Prior.samples(params, e, jitter=jitter), e=e, log_likelihood=likely, log_evidence=evidence,
        temperatures=tuple(betas), accepted=share, replays=target.count,
    )  # fmt: skip


class _Target:
    """log L and log p(z) of packed particles."""

    def __init__(self, log_likelihood: LogLikelihood, prior: Prior, params: Params):
        self.log_likelihood, self.prior, self.params, self.count = log_likelihood, prior, params, 0

    def __call__(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        e = self.params.unpack(z)
        self.count += len(z)
        likely = np.asarray(self.log_likelihood(e), dtype=float)
        if likely.shape != (len(z),):
            raise InputError(f"a log likelihood must give one number for each of {len(z)} worlds, got {likely.shape}")
        likely = np.where(np.isnan(likely), -np.inf, likely)
        # The prior's density is per natural unit; s (1 − s) turns it into that of z, up to a factor that does not change.
        s = 0.5 * (1 + np.tanh(0.5 * z))
        slope = np.log(np.maximum(s * (1 - s), 1e-300))
        low, high, log = self.params.low, self.params.high, self.params.log
        with np.errstate(divide="ignore"):
            natural = np.where(
                log,
                np.log(
                    np.maximum(self.params.flatten(e), 1e-300)
                    * np.log(np.where(log, high / np.where(log, low, 1.0), np.e))
                ),
                0.0,
            )
        return likely, self.prior.log_prob(e) + (slope + natural).sum(1)


def _continuous(params: Params) -> Params:
    odd = [name for name, p in params.items() if p.choices is not None or p.about.per == "sim"]
    if odd:
        raise InputError(f"'{odd[0]}' has choices or one value per Sim: condition the prior on it before sampling")
    return params


def _next(likely: np.ndarray, beta: float) -> float:
    """The largest β up to 1 at which the effective number of particles stays above KEEP."""
    finite = likely[np.isfinite(likely)]
    top = finite.max()

    def share(step: float) -> float:
        w = np.where(np.isfinite(likely), np.exp(step * (np.where(np.isfinite(likely), likely, top) - top)), 0.0)
        return float(w.sum() ** 2 / (w**2).sum() / len(w))

    if share(1.0 - beta) >= KEEP:
        return 1.0
    low, high = 0.0, 1.0 - beta
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) >= KEEP else (low, middle)
    return min(beta + max(low, 1e-12), 1.0)


def _systematic(weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Indices drawn with these weights, as evenly as can be, (n,)."""
    n = len(weight)
    return np.minimum(np.searchsorted(np.cumsum(weight), (rng.random() + np.arange(n)) / n), n - 1)


def _moved(
    z: np.ndarray,
    likely: np.ndarray,
    believed: np.ndarray,
    target: _Target,
    tuned: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """One Metropolis step of every particle under p L^β; every second proposal is a step between two other particles.

    Steps along differences of particles (ter Braak 2006) have the shape of the cloud and jump between its parts.
    """
    beta, scale = tuned
    n, d = z.shape
    a, b = rng.integers(0, n, n), rng.integers(0, n, n)
    along = np.where(rng.random((n, 1)) < 0.1, 1.0, scale / np.sqrt(2.0))
    step = along * (z[a] - z[b])
    centred = z - z.mean(0)
    factor = np.linalg.cholesky(centred.T @ centred / n + 1e-9 * np.eye(d))
    wide = scale * rng.standard_normal((n, d)) @ factor.T
    proposal = z + np.where(rng.random((n, 1)) < 0.5, step, wide) + 1e-6 * rng.standard_normal((n, d))
    new_likely, new_believed = target(np.clip(proposal, -20.0, 20.0))
    with np.errstate(invalid="ignore"):
        gain = beta * (new_likely - likely) + new_believed - believed
    yes = np.log(rng.random(n)) < np.where(np.isnan(gain), -np.inf, gain)
    z = np.where(yes[:, None], np.clip(proposal, -20.0, 20.0), z)
    return z, np.where(yes, new_likely, likely), np.where(yes, new_believed, believed), float(yes.mean())


# -------------------------------------------------------------------- likelihoods


def log_likelihood_of(
    sim: Sim,
    logs: Sequence[Log],
    *,
    channels: Sequence[str] = ("joint_pos",),
    fixed: Mapping[str, Any] | None = None,
    noise: Mapping[str, float] | None = None,
    memory: float = 0.05,
) -> LogLikelihood:
    """log L(e) of whole replays of logs, noise white or nearly so.

    Args:
        sim: robot and Params.
        logs: recordings, replayed from their first readings.
        channels: what is compared.
        fixed: values of Params that are not sampled, an e of one world; nominal ones where left out.
        noise: standard deviation by channel; the recordings' own noise floor where left out.
        memory: time over which residuals hang together [s]: readings within it count as one.
    """
    for name in noise or {}:
        choose(name, channels, "a channel that is compared here")
    sim.params.check(fixed or {}, 1)
    parts = []
    for log in logs:
        for name in channels:
            channel = log[name]
            sigma = (noise or {}).get(name, max(noise_floor(c) for c in channel.values.T))
            if not sigma > 0:
                raise InputError(
                    f"'{name}' shows no noise of its own that residuals could be weighed by: give noise={{'{name}': ...}}"
                )
            step = max(1, round(memory / max(float(np.median(np.diff(channel.t))), 1e-9)))
            parts.append((log, name, float(sigma), step))

    def log_likelihood(e: E) -> np.ndarray:
        total, shown, whole = 0.0, {}, others(sim, e, fixed) | e
        for log, name, sigma, step in parts:
            if id(log) not in shown:
                shown[id(log)] = sim.replay(log, whole, channels=tuple(channels))
            rest = shown[id(log)].gap(name) / sigma  # (worlds, T, k)
            total = total - 0.5 * (rest**2).sum((1, 2)) / step
        return np.where(np.isfinite(total), total, -np.inf)

    return log_likelihood


# -------------------------------------------------------------------- without a likelihood


def compare(
    summarise: Callable[[E], np.ndarray],
    seen: np.ndarray,
    prior: Prior,
    *,
    particles: int = 256,
    rounds: int = 5,
    keep: float = 0.3,
    jitter: float = 0.0,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Cloud:
    """Samples of p(e | summaries near those seen), corrected by local regression (ABC, sequential).

    Args:
        summarise: summaries of a simulated run, noise included, of every row of e, (n, k).
        seen: those of the recording, (k,).
        prior: p(e), over continuous Params.
        particles: size of the cloud.
        rounds: how often the tolerance shrinks to the nearest `keep` of the particles.
        keep: that share.
        jitter: kernel of the returned samples Prior.
        seed: of all random numbers.
        say: told about progress.
    """
    params, seen = _continuous(prior.params), np.asarray(seen, float)
    rng = np.random.default_rng(seed)
    z = params.pack(prior.sample(particles, seed))
    target = _Target(lambda e: np.zeros(len(next(iter(e.values())))), prior, params)
    weight = np.full(particles, 1.0 / particles)
    shown = np.asarray(summarise(params.unpack(z)), float)
    if shown.shape != (particles, len(seen)):
        raise InputError(f"summaries must have shape ({particles}, {len(seen)}), got {shown.shape}")
    scale = np.maximum(1.4826 * np.median(np.abs(shown - np.median(shown, axis=0)), axis=0), 1e-12)
    count, tolerances = particles, []
    for number in range(rounds):
        distance = np.sqrt((((shown - seen) / scale) ** 2).sum(1))
        near = np.argsort(distance)[: max(int(keep * particles), 8)]
        tolerances.append(float(distance[near[-1]]))
        if say:
            say(f"round {number + 1}: tolerance {tolerances[-1]:.3g}")
        if number == rounds - 1:
            break
        parents, own = z[near], weight[near] / weight[near].sum()
        spread = _local_spread(parents)
        pick = rng.choice(len(parents), particles, p=own)
        z = np.clip(parents[pick] + spread[pick] * rng.standard_normal(z.shape), -20.0, 20.0)
        kernel = np.exp(-0.5 * (((z[:, None] - parents) / spread) ** 2).sum(-1)) @ (own / spread.prod(1))
        _, believed = target(z)
        weight = np.exp(believed - believed.max()) / np.maximum(kernel, 1e-300)
        weight /= weight.sum()
        shown = np.asarray(summarise(params.unpack(z)), float)
        count += particles
    distance = np.sqrt((((shown - seen) / scale) ** 2).sum(1))
    z, weight = _regressed(z, weight, (shown - seen) / scale, distance, tolerances[-1])
    e = params.unpack(z)
    return Cloud(
        prior=Prior.samples(params, e, weights=weight, jitter=jitter), e=e, log_likelihood=np.full(len(z), np.nan),
        log_evidence=float("nan"), temperatures=tuple(tolerances), accepted=keep, replays=count,
    )  # fmt: skip


def _neighbours(z: np.ndarray, share: float) -> np.ndarray:
    """Of every row, the numbers of the nearest `share` of all rows, (n, k): a part of the cloud, not the whole of it."""
    white = (z - z.mean(0)) / np.maximum(z.std(0), 1e-12)
    far = ((white[:, None] - white) ** 2).sum(-1)
    return np.argsort(far, axis=1)[:, : min(max(int(share * len(z)), 4 * z.shape[1] + 4), len(z))]


def _local_spread(z: np.ndarray) -> np.ndarray:
    """√2 times the standard deviation of each particle's own neighbourhood, (n, d): narrow where there are several modes."""
    return np.sqrt(2.0) * np.maximum(z[_neighbours(z, 0.2)].std(1), 1e-6)


def _regressed(
    z: np.ndarray, weight: np.ndarray, off: np.ndarray, distance: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Particles within the tolerance, moved to where the summaries would agree: z − B (s − seen), Epanechnikov weights.

    B is fitted to each particle's own neighbourhood: on either side of a valley the same difference points the other way.
    """
    near = distance <= tolerance
    z, off = z[near], off[near]
    own = weight[near] * np.maximum(1.0 - (distance[near] / tolerance) ** 2, 1e-6)
    out = z.copy()
    for i, group in enumerate(_neighbours(z, 0.3)):
        X = np.concatenate([np.ones((len(group), 1)), off[group]], axis=1)
        root = np.sqrt(own[group])[:, None]
        slope, *_ = np.linalg.lstsq(X * root, z[group] * root, rcond=1e-8)
        out[i] = z[i] - off[i] @ slope[1:]
    return np.clip(out, -20.0, 20.0), own / own.sum()
