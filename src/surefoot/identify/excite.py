"""`excite`: the next seconds of robot time that would teach most about e, given what is believed now.

D: max  E_e ½ log det(P + F(u; e))                     the volume of what stays unknown
A: max −E_e mean_i [(P + F(u; e))⁻¹]_ii / [P⁻¹]_ii      the mean variance that stays, relative to now
over band-limited u that keep joint, speed, torque and balance limits in every sampled world of the belief; P⁻¹ = cov(z) now
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from surefoot.errors import InputError, choose
from surefoot.identify.design import Design, Expected, Motion
from surefoot.identify.excitations import FAMILIES, Family, Grid, usual_chirp, usual_multi_sine
from surefoot.identify.excite_limits import Limits, limits_of, reach_of
from surefoot.identify.information import Information, Lens, Noise, sensor_noise_of
from surefoot.params import E, Params, Prior
from surefoot.sim import Sim
from surefoot.sim.replay import channel_columns

Criterion = Literal["D", "A"]
SCALES = (1.0, 0.8, 0.62, 0.48, 0.36, 0.26, 0.18, 0.12, 0.08, 0.05)
"""Shares of the full amplitude that are tried; the largest that keeps all limits is used."""
USUAL = 7.0
"""By how much fits of real robots are less certain than white noise of their sensors would make them, where no fit says it."""
DRIFT = 0.05
"""[rad/s] Speed that a robot gains beside the model in a window, where nobody says otherwise."""
LONGEST = 600.0
"""[s] The longest motion: every candidate is simulated whole, in many worlds at once."""
OLD = 0.3
"""Share of the last round's distribution that the search keeps."""
DRAWS = 512
"""Draws of the belief from which its spread is taken."""
RANDOM_KINDS = ("_noise", "_walk", "_dropout", "_jitter", "_quantum", "_drift", "differencing")
RANDOM_NAMES = ("push", "gust", "encoder_quantum", "sensor_period")


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How hard to look for a good motion.

    Attributes:
        criterion: "D" or "A".
        families: sorts of motion to choose from.
        samples: worlds of the belief in which every candidate is judged.
        population, rounds, elite: of the cross-entropy search, for each family.
        climbs: rounds of small changes to the best motion of all families and of what is usually done.
        band: highest frequency [Hz]; None: the smaller of 10 Hz and a fifth of the control rate.
        share: of the largest amplitude.
    """

    criterion: Criterion = "D"
    families: tuple[str, ...] = ("multi-sine", "chirp", "spline")
    samples: int = 4
    population: int = 24
    rounds: int = 6
    elite: int = 6
    climbs: int = 6
    band: float | None = None
    share: float = 1.0

    def __post_init__(self):
        choose(self.criterion, ("D", "A"), "a criterion")
        for name in self.families:
            choose(name, FAMILIES, "a sort of motion")
        if not (self.families and self.samples >= 1 and self.rounds >= 1 and 1 <= self.elite <= self.population):
            raise InputError(
                f"an effort needs a family, samples and rounds of at least 1 and an elite within the population, got {self}"
            )


def learnable(params: Params) -> tuple[str, ...]:
    """Params that a motion can teach: continuous, per world, and not the size of something random."""
    return tuple(
        name
        for name, p in params.items()
        if p.choices is None
        and p.about.per == "world"
        and p.kind not in RANDOM_NAMES
        and not p.kind.endswith(RANDOM_KINDS)
        and p.high > p.low
    )


class Beliefs:
    """What is believed about some Params now: samples, spread, precision in packed coordinates.

    Args:
        sim: its Params; those not in `belief` keep their nominal values.
        belief: p(e), over all Params or some; None: uniform between the bounds.
        only: Params to be learned; all learnable ones of the belief when left out. Without a belief the others are nominal.
        samples: worlds to judge candidates in.
        seed: of the draws.
    """

    def __init__(self, sim: Sim, belief: Prior | None, only: Sequence[str] | None, samples: int, seed: int):
        known = sim.params if belief is None else belief.params
        for name in known:
            choose(name, sim.params, "a Param of this sim (the belief names it)")
        names = tuple(only) if only is not None else learnable(known)
        for name in names:
            choose(name, known, "a Param that is believed to be unknown")
        if not names:
            raise InputError(
                f"nothing is to be learned: none of {', '.join(known) or 'no Params'} can be learned by moving"
            )
        self.names, self.params = names, sim.params.only(*names)
        belief = sim.params.prior() if belief is None else belief
        drawn = belief.sample(DRAWS, seed)
        varied = names if only is not None and known is sim.params else (*names, *learnable(known))
        drawn = {n: v for n, v in drawn.items() if n in varied}
        self.values = self.params.flatten({n: drawn[n] for n in names})
        z = self.params.pack({n: drawn[n] for n in names})
        self.mean, self.covariance = z.mean(0), np.cov(z.T).reshape(len(z.T), -1)
        self.covariance += np.diag(1e-9 * np.diag(self.covariance) + 1e-18)
        self.precision = np.linalg.inv(self.covariance)
        self.std = self.values.std(0)
        self.base = sim.params.nominal_e(1)
        self.e = self.rows({n: v[: max(samples - 1, 0)] for n, v in drawn.items()}, belief.quantile(0.5))

    def rows(self, drawn: Mapping[str, np.ndarray], middle: E) -> E:
        """e of all Params for the middle of the belief and the draws, (samples, ...)."""
        count = 1 + len(next(iter(drawn.values())))
        out = {n: np.repeat(v, count, axis=0) for n, v in self.base.items()}
        for name, value in drawn.items():
            out[name] = np.concatenate([middle[name], value])
        return out

    def left(self, information: np.ndarray) -> np.ndarray:
        """Covariance in packed coordinates after learning, (..., d, d)."""
        return np.linalg.inv(self.precision + information)

    def score(self, information: np.ndarray, criterion: Criterion) -> np.ndarray:
        """D or A of information (candidates, samples, d, d), mean over the samples, (candidates,)."""
        if criterion == "D":
            _, size = np.linalg.slogdet(self.precision + information)
            return 0.5 * (size - np.linalg.slogdet(self.precision)[1]).mean(1)
        left = np.diagonal(self.left(information), axis1=-2, axis2=-1)
        return -(left / np.diag(self.covariance)).mean((1, 2))

    def expected(self, information: np.ndarray) -> np.ndarray:
        """Standard deviations in natural units after learning, (d,), the root mean square over the samples (samples, d, d)."""
        rng = np.random.default_rng(0)
        z = self.params.pack({n: self.e[n] for n in self.names})
        squares = []
        for centre, covariance in zip(z, self.left(information), strict=True):
            draws = centre + rng.standard_normal((256, len(centre))) @ np.linalg.cholesky(covariance).T
            squares.append(self.params.flatten(self.params.unpack(draws)).var(0))
        return np.minimum(np.sqrt(np.mean(squares, axis=0)), self.std)


def excite(
    sim: Sim,
    belief: Prior | None = None,
    *,
    only: Sequence[str] | None = None,
    seconds: float = 4.0,
    window: float = 1.0,
    noise: Noise | None = None,
    limits: Limits | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Design:
    """Design the motion of the next seconds.

    Args:
        sim: robot and Params; a robot on a stand is `robot.suspended()`, one on its feet stands.
        belief: p(e) now, such as fit.posterior; None: uniform between the bounds.
        only: Params to be learned; all that can be when left out.
        seconds: length of the motion [s].
        window: length of the windows that a fit of it will use [s]; shortened to the motion.
        noise: what is measured and how well, such as `noise_of(sim, fit)`; by the robot's sensors, and USUAL, when left out.
        limits: what the motion must keep; by the robot's motors and joints when left out.
        effort: how hard to look.
        seed: of samples and search.
        say: told about progress, a line a call.

    Returns:
        The motion, what it is expected to teach, and how the families compared.
    """
    effort, say = effort or Effort(), say or (lambda _line: None)
    refuse_strap(sim)
    if not sim.command_names:
        raise InputError(
            f"{sim.robot.name} has no motors, so no motion of its own can teach anything: push or throw it, and record that"
        )
    refuse_times(sim, seconds, window)
    beliefs = Beliefs(sim, belief, only, effort.samples, seed)
    noise = noise or sensor_noise_of(sim, names=beliefs.names, inflation=USUAL, drift=DRIFT)
    lens = Lens(names=beliefs.names, noise=noise, window=min(window, seconds))
    judge = Judge(sim, Information(sim, lens), beliefs, limits or usual_limits(sim, beliefs.names), effort)
    grid = judge.grid(seconds)
    usual = {"usual": np.stack([usual_chirp(grid), usual_multi_sine(grid)])}
    best, scores = searched(judge.trials, effort, grid, usual=usual, seed=seed, say=say)
    if not best.scale > 0.0:
        raise InputError(
            f"no motion of {sim.robot.name} keeps the limits, not even at {SCALES[-1]:g} of the amplitude: widen them, or narrow "
            f"what is believed"
        )
    motion = Motion(
        channel=sim.command_channel,
        columns=sim.command_names,
        dt=sim.control_dt,
        values=best.u,
        setting=setting_of(sim),
    )
    about = {"seed": seed, "criterion": effort.criterion, "samples": effort.samples, "scores": scores}
    return design_of(sim, beliefs, lens, motion, best, about)


def noise_of(sim: Sim, fit: Any) -> Noise:
    """Noise as a fit found it: how far its replays stayed from the recording, and how much residuals hang together.

    σ is the larger of the sensor's and the fit's own error on windows it did not see (fitted ones where there are none);
    inflation is honest over white-noise standard deviation, the median over its scalars.
    """
    plain = sensor_noise_of(sim, names=[n for n in fit.params if n in sim.params])
    columns, found = channel_columns(sim), {}
    for name, std in plain.std.items():
        scores = [s for s in fit.scores if s.channel == name]
        judged = [s for s in scores if s.windows == "held out"] or scores
        after = {s.column: s.after for s in judged if np.isfinite(s.after)}
        found[name] = np.array([max(float(x), after.get(c, 0.0)) for c, x in zip(columns[name], std, strict=True)])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = fit.std / fit.white_std
    known = ratio[np.isfinite(ratio) & (ratio > 0)]
    inflation = float(np.clip(np.median(known), 1.0, 30.0)) if len(known) else USUAL
    return Noise(std=found, inflation=inflation, drift=DRIFT)


def usual_limits(sim: Sim, names: Sequence[str]) -> Limits:
    """Limits by the robot; motors may saturate where a torque limit or strength is to be learned."""
    saturates = any(sim.params[n].kind == "torque_limit" for n in names)
    return limits_of(sim, torque=1.01 if saturates else 0.9)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A motion that was judged: commands and unit motion (steps, motors), its scale, score and information (samples, d, d)."""

    family: str
    u: np.ndarray
    motion: np.ndarray
    scale: float
    score: float
    information: np.ndarray


class Judge:
    """Scales motions into the limits and scores them."""

    def __init__(self, sim: Sim, information: Information, beliefs: Beliefs, limits: Limits, effort: Effort):
        self.sim, self.information, self.beliefs, self.limits, self.effort = sim, information, beliefs, limits, effort
        self.centre, self.amplitude = reach_of(sim, limits, effort.share)
        self.positions = all(a.model == "pd" for a in sim.robot.actuators)

    def grid(self, seconds: float) -> Grid:
        """The instants of a motion of that length."""
        dt = self.sim.control_dt
        band = self.effort.band or min(10.0, 0.2 / dt)
        return Grid(dt=dt, steps=round(seconds / dt), motors=len(self.centre), band=band, at_rest=self.positions)

    def scaled(self, motions: np.ndarray, shares: Sequence[float] = SCALES) -> tuple[np.ndarray, np.ndarray]:
        """Commands (k, steps, motors) of unit motions at their largest allowed scale, and the scales (k,); 0: none is allowed."""
        k, s = len(motions), len(next(iter(self.beliefs.e.values())))
        scales, open_ = np.zeros(k), np.arange(k)
        for scale in shares:
            u = self.centre + scale * self.amplitude * motions[open_]
            states = self.information.walk(u, self.beliefs.e, self.sim.control_dt)
            good = (self.limits.excess(self.sim, states).reshape(len(open_), s) <= 0.0).all(1)
            scales[open_[good]] = scale
            open_ = open_[~good]
            if not len(open_):
                break
        return self.centre + scales[:, None, None] * self.amplitude * motions, scales

    def trials(self, family: str, motions: np.ndarray) -> list[Trial]:
        """Every motion scaled and judged."""
        u, scales = self.scaled(motions)
        information = self.information(u, self.beliefs.e)
        score = np.where(scales > 0.0, self.beliefs.score(information, self.effort.criterion), -np.inf)
        return [
            Trial(
                family=family,
                u=u[i],
                motion=motions[i],
                scale=float(scales[i]),
                score=float(score[i]),
                information=information[i],
            )
            for i in range(len(u))
        ]


def design_of(sim: Sim, beliefs: Beliefs, lens: Lens, motion: Motion, best: Trial, about: Mapping[str, Any]) -> Design:
    """The Design of the best motion: what it is, and what it is expected to teach."""
    b, params = beliefs, sim.params
    units = [params[n].unit for n in b.names for _ in range(max(len(params.elements[n]), 1))]
    rows = zip(b.params.names, units, b.values.mean(0), b.std, b.expected(best.information), strict=True)
    expected = tuple(
        Expected(name=name, unit=unit, value=float(v), before=float(a), after=float(z)) for name, unit, v, a, z in rows
    )
    noise = lens.noise
    facts: dict[str, Any] = {
        **about, "scale": best.scale, "robot_hash": sim.robot.hash, "window": lens.window, "inflation": noise.inflation,
        "noise": {name: std.tolist() for name, std in noise.std.items()},
    }  # fmt: skip
    scores = {name: score for name, score in facts.pop("scores", {}).items() if np.isfinite(score)}
    return Design(
        robot=robot_name(sim), motion=motion, family=best.family, expected=expected, scores=scores, about=facts
    )


def refuse_times(sim: Sim, seconds: float, window: float) -> None:
    """Lengths of a motion, and of the windows of its fit, that no motion has."""
    least = 4 * sim.control_dt
    if not least <= seconds <= LONGEST:
        raise InputError(
            f"a motion needs at least {least:g} s ({sim.robot.name}'s control period times 4) and at most {LONGEST:g} s, got {seconds!r}"
        )
    if not (np.isfinite(window) and window > 0):
        raise InputError(
            f"window={window!r} must be a number of seconds above zero: the length of the windows of the fit"
        )


def refuse_strap(sim: Sim) -> None:
    """A motion is designed for a robot on a stand or on its feet."""
    if sim.robot.strap is not None:
        raise InputError(f"{sim.robot.name} swings from a strap, which nobody can command: design on robot.suspended()")


def robot_name(sim: Sim) -> str:
    """Name of the robot as its hardware says it: a robot on a stand is the robot."""
    return sim.robot.name.removesuffix("_suspended") if sim.robot.fixed is not None else sim.robot.name


def setting_of(sim: Sim) -> str:
    """How the robot must be set up: "air" on a stand, "standing" on its feet, "fixed" to its place."""
    return "air" if sim.robot.fixed is not None else "standing" if sim.robot.base is not None else "fixed"


def searched(
    judge: Callable[[str, np.ndarray], list[Trial]],
    effort: Effort,
    grid: Grid,
    *,
    usual: Mapping[str, np.ndarray],
    seed: int,
    say: Callable[[str], None],
) -> tuple[Trial, dict[str, float]]:
    """The best motion of all families and of what is usually done (unit motions by name), climbed from; and each one's best score."""
    trials = [best_motion(judge, effort, FAMILIES[name], grid, seed, say) for name in effort.families]
    trials += [trial for name, motions in usual.items() for trial in judge(name, motions)]
    scores = {t.family: max(x.score for x in trials if x.family == t.family) for t in trials}
    return climbed(judge, effort, max(trials, key=lambda t: t.score), grid, seed, say), scores


def climbed(
    judge: Callable[[str, np.ndarray], list[Trial]],
    effort: Effort,
    best: Trial,
    grid: Grid,
    seed: int,
    say: Callable[[str], None],
) -> Trial:
    """A better motion near the best one: add small band-limited motions to it, keep what teaches more, take smaller ones otherwise."""
    rng = np.random.default_rng([seed, 1])
    families, size = [FAMILIES[n] for n in ("multi-sine", "spline", "chirp")], 0.4
    for number in range(effort.climbs):
        count = [effort.population // 3 + (i < effort.population % 3) for i in range(3)]
        more = np.concatenate(
            [f.motions(f.random(n, grid, rng), grid) for f, n in zip(families, count, strict=True) if n]
        )
        some = rng.random((len(more), 1, grid.motors)) < max(0.3, 2.0 / grid.motors)  # a few motors at a time
        tried = best.motion + size * np.where(some, more, 0.0)
        tried = np.concatenate([tried / np.maximum(np.abs(tried).max(1, keepdims=True), 1.0), 1.25 * best.motion[None]])
        tried[-1] /= np.maximum(np.abs(tried[-1]).max(0, keepdims=True), 1.0)
        found = max(judge(best.family, tried), key=lambda t: t.score)
        better = found.score > best.score
        best, size = (found, 1.2 * size) if better else (best, 0.6 * size)
        say(f"{best.family}, climbing {number + 1}/{effort.climbs}: {effort.criterion} {best.score:.3f}")
    return best


def best_motion(
    judge: Callable[[str, np.ndarray], list[Trial]],
    effort: Effort,
    family: Family,
    grid: Grid,
    seed: int,
    say: Callable[[str], None],
) -> Trial:
    """Best motion of a family by the cross-entropy method: draw, judge, keep the elite, draw around it, narrower every round."""
    digest = hashlib.sha256(f"{seed} {family.name}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    mean, spread = np.zeros(family.size(grid)), np.ones(family.size(grid))
    best: Trial | None = None
    top = mean
    for number in range(effort.rounds):
        theta = mean + spread * rng.standard_normal((effort.population, len(mean)))
        if best is not None:
            theta[0] = top
        trials = judge(family.name, family.motions(theta, grid))
        order = np.argsort(np.array([-t.score for t in trials]), kind="stable")
        elite = theta[order[: effort.elite]]
        if best is None or trials[order[0]].score > best.score:
            best, top = trials[order[0]], theta[order[0]]
        assert best is not None
        mean = OLD * mean + (1 - OLD) * elite.mean(0)
        spread = np.maximum(OLD * spread + (1 - OLD) * elite.std(0), 0.05)
        say(f"{family.name} {number + 1}/{effort.rounds}: {effort.criterion} {best.score:.3f}")
    assert best is not None
    return best
