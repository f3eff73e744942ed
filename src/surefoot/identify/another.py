"""Another robot of the same kind: what one robot's logs say about its sisters, and what they are foreseen to do.

    v_k = m + shared + own_k        shared ~ N(0, s² / n),   own_k ~ N(0, s²)        (of ln v on a log scale)

n joints of one sort are n draws of what such a joint can be: m is their mean, s their spread (as wide as so few draws leave it), and the
joints of another robot are further draws. A value that all of the robot shares (a mass, a delay) is known as well as the fit knows it, and
so is each axis of a sensor by itself. What the fit knows less well than it was believed, what ended at a bound and what belongs to one
robot alone stay as they were believed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from surefoot.errors import InputError, choose, did_you_mean
from surefoot.identify.coordinates import shares
from surefoot.identify.fit import Fit
from surefoot.logs import Log
from surefoot.params import E, LogNormal, Normal, Param, Prior
from surefoot.params.distribution import Distribution
from surefoot.params.pieces import Spread
from surefoot.sim import Sim

TINY = 1e-6
"""Least standard deviation of a belief, as a share of a Param's range."""


def another_robot(fit: Fit, prior: Prior, *, own: Sequence[str] = ()) -> Prior:
    """p(e) of another robot of the kind that was fitted.

    Args:
        fit: of one robot; Params with a value for each joint show how far joints of one sort differ.
        prior: what is believed of the other robot without that fit, over the Params wanted; others that were fitted are left out.
        own: names of Params that belong to the fitted robot alone.
    """
    for name in own:
        if name not in fit.params and name not in prior.params:
            raise InputError(f"own: '{name}' is not a param of the fit {did_you_mean(name, [*fit.params])}")
    ratio, at_bound = _ratios(fit, prior), np.isin(fit.names, fit.at_bound)
    # A normal as wide as the 90 % interval of the Student distribution.
    std = fit.std * (student.ppf(0.95, fit.freedom) / student.ppf(0.95, np.inf))
    beliefs: dict[str, Distribution | Spread] = {}
    for name, param in fit.params.items():
        if name in own or name not in prior.params:
            continue
        labels, values = _of(fit, name, np.array(fit.names)), _of(fit, name, fit.values)
        wide, bound, known = (_of(fit, name, x) for x in (ratio, at_bound, std))
        if param.each and not param.about.components and len(labels) > 1:
            if np.median(wide) <= 1.0 and 2 * bound.sum() <= len(labels):
                beliefs[name] = _joints(param, values, known)
            continue
        good = (wide <= 1.0) & ~bound
        beliefs |= {str(labels[i]): _single(param, values[i], known[i]) for i in np.flatnonzero(good)}
    return prior.replace(beliefs)


def widths(fit: Fit, belief: Prior) -> dict[str, float]:
    """How wide the 90 % interval of each fitted Param is beside that of a belief, on the Param's own scale; median over its scalars.

    Above 1 the belief says more than the logs. Params that the belief does not hold are left out.
    """
    ratio = _ratios(fit, belief)
    return {name: float(np.median(_of(fit, name, ratio))) for name in fit.params if name in belief.params}


def _ratios(fit: Fit, belief: Prior) -> np.ndarray:
    """The same for every scalar, (d,); of those that the belief does not hold it means nothing."""
    reach = student.ppf(0.95, fit.freedom) * np.sqrt(np.diag(fit.deviation))
    names = [name for name in fit.params if name in belief.params]
    nominal = fit.params.nominal_e(1)
    ends = []
    for p in (0.05, 0.95):
        quantile = belief.quantile(p)
        for name in names:
            if quantile[name].size != nominal[name].size:
                raise InputError(
                    f"'{name}' has {nominal[name].size} values in the fit and {quantile[name].size} in the prior: "
                    "give both the same Params (each=)"
                )
        ends.append(shares(fit.params, {**nominal, **{name: quantile[name] for name in names}})[0])
    with np.errstate(divide="ignore"):
        return 2 * reach / (ends[1] - ends[0])


def _of(fit: Fit, name: str, values: np.ndarray) -> np.ndarray:
    return np.array([v for label, v in zip(fit.names, values, strict=True) if _param(label) == name])


def _param(label: str) -> str:
    return label.partition("[")[0]


def _single(param: Param, value: float, std: float) -> Distribution:
    """Of a value with its standard deviation, both in natural units."""
    least = TINY * (param.high - param.low)
    if param.scale == "log":
        return LogNormal(median=float(value), sigma=max(float(std / value), TINY))
    return Normal(mean=float(value), sd=max(float(std), least))


def _joints(param: Param, values: np.ndarray, std: np.ndarray) -> Spread:
    """Of joints of one sort; where they do not differ, as far as each of them is known.

    Both are as wide as Student's 90 %: the scatter of n joints, which are few, here, and what is known of each, `std`, by the caller.
    """
    log, n = param.scale == "log", len(values)
    x = np.log(values) if log else values
    known = float(np.sqrt(np.mean((std / values if log else std) ** 2)))
    scatter = float(x.std(ddof=1) * student.ppf(0.95, n - 1) / student.ppf(0.95, np.inf))
    s = max(scatter, known, TINY * (1.0 if log else param.high - param.low))
    m, error = float(x.mean()), s / np.sqrt(n)
    shared = LogNormal(median=float(np.exp(m)), sigma=error) if log else Normal(mean=m, sd=error)
    return Spread(shared=shared, own=s)


# ---------------------------------------------------------------- what it will do


@dataclass(frozen=True, kw_only=True, eq=False)
class Foreseen:
    """What a robot with e ~ p(e) is expected to read under a log's commands; arrays are (T, k) at the log's own times.

    Attributes:
        log: the part of it that was replayed.
        mean: by channel: no other prediction has a smaller expected squared error.
        low, high: by channel, between which `level` of the draws lie at each instant.
        e: the draws.
        diverged: how many of the draws left the numbers; they are left out.
    """

    log: Log
    columns: dict[str, tuple[str, ...]]
    mean: dict[str, np.ndarray]
    low: dict[str, np.ndarray]
    high: dict[str, np.ndarray]
    level: float
    e: E
    diverged: int

    def gap(self, name: str) -> np.ndarray:
        """Log minus mean of one channel, (T, k); NaN where the log lacks the reading."""
        return self._seen(name) - self.mean[name]

    def inside(self, name: str) -> np.ndarray:
        """Share of each column's readings that lie between `low` and `high`, (k,); readings that the log lacks do not count.

        NaN for a column without any reading.
        """
        seen = self._seen(name)
        within, made = (seen >= self.low[name]) & (seen <= self.high[name]), (~np.isnan(seen)).sum(0)
        return np.where(made > 0, within.sum(0) / np.maximum(made, 1), np.nan)

    def _seen(self, name: str) -> np.ndarray:
        if name not in self.mean:
            raise InputError(f"'{name}' was not foreseen {did_you_mean(name, self.mean)}")
        return self.log[name].pick(self.columns[name]).values


def foresee(
    sim: Sim,
    log: Log,
    prior: Prior,
    *,
    draws: int = 128,
    seed: int = 0,
    level: float = 0.9,
    start: float | None = None,
    stop: float | None = None,
    channels: tuple[str, ...] | None = None,
) -> Foreseen:
    """Replay a log under draws of p(e), all in one batch, and sum them up.

    Args:
        sim: robot and Params; its own worlds are not touched.
        log: commands and the first readings; what comes later is only compared with.
        prior: over Params of the sim; those that it does not hold keep their nominal values.
        draws: number of worlds.
        seed: of the draws.
        level: share of the draws between `low` and `high`.
        start: as for `Sim.replay` [s].
        stop: as for `Sim.replay` [s].
        channels: as for `Sim.replay`.
    """
    if not (isinstance(draws, int) and draws >= 2):
        raise InputError(f"draws={draws!r} must be a whole number of at least 2: a mean of one draw foresees nothing")
    if not 0.0 < level < 1.0:
        raise InputError(f"level={level!r} must be a share between 0 and 1")
    for name in prior.params:
        choose(
            name, sim.params, "a param of this sim, but the prior holds it: give the sim the prior's Params (--params)"
        )
        if prior.params.elements[name] != sim.params.elements[name]:
            raise InputError(
                f"the prior's '{name}' is not the '{name}' of this sim, which has other targets: give the sim the prior's Params (--params)"
            )
    e = prior.sample(draws, seed)
    shown = sim.replay(log, e, start=start, stop=stop, channels=channels)
    good = ~shown.diverged
    if not good.any():
        raise InputError(f"all {draws} draws left the numbers: narrow the prior")
    parts = {name: values[good] for name, values in shown.values.items()}
    ends = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
    bands = {name: np.quantile(values, ends, axis=0) for name, values in parts.items()}
    return Foreseen(
        log=shown.log, columns=shown.columns, mean={name: values.mean(0) for name, values in parts.items()},
        low={name: band[0] for name, band in bands.items()}, high={name: band[1] for name, band in bands.items()},
        level=level, e=e, diverged=int((~good).sum()),
    )  # fmt: skip
