"""What `identify` returns: values, honest intervals, and everything the logs could not say.

    e | logs  ~  normal in packed coordinates, with the covariance of a cluster-robust sandwich (see intervals.py)

A Fit is plain data: it prints as a table, is saved as JSON and loads back equal. Its `posterior` is a Prior to train with.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student
from scipy.stats import truncnorm

from surefoot.errors import InputError
from surefoot.files import write_text
from surefoot.identify.coordinates import shares, slopes
from surefoot.logs import Log
from surefoot.params import E, Params, Prior
from surefoot.params.prior_file import schema_from_dict, schema_to_dict

VERSION = 1
"""Of the file's layout."""
ARRAYS = {"values": 1, "deviation": 2, "white_std": 1}
"""Arrays of a Fit and their number of axes."""


@dataclass(frozen=True, kw_only=True)
class Confounded:
    """A combination of scalars that these logs do not determine."""

    names: tuple[str, ...]
    combination: str
    """In words: what can be exchanged against what."""
    experiment: str
    """What would separate them."""
    shrink: float
    """Standard deviation of the combination after the fit over that before it; 1: nothing was learnt."""


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """A pattern in the residuals that no value of e removed."""

    channel: str
    column: str
    kind: str  # autocorrelation | level | speed | direction | position | load | voltage | temperature | drift
    strength: float
    """Share of the residual's variance that the pattern explains, or the autocorrelation."""
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Score:
    """Root mean square of log minus replay of one column over one set of windows."""

    windows: str  # fitted | held out
    channel: str
    column: str
    before: float
    """With the nominal values."""
    after: float
    floor: float
    """Of the log's own noise."""
    unit: str
    horizon: float  # [s]
    start: str  # estimated | log


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one recording has for itself, where Params are apart."""

    number: int
    """Of the recording, from 1."""
    log: str
    """Its hash."""
    title: str
    values: Mapping[str, Any]
    """By Param, natural units."""
    std: Mapping[str, Any]
    """Honest standard deviations of the same."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A fitted e with what is known about it; d scalars in the order of `names`.

    Attributes:
        params: the fitted Params, bound.
        values: best values, (d,), natural units.
        deviation: honest covariance of the positions between the bounds, each on the scale of its Param, (d, d), see
            coordinates.py; correlated residuals and few windows are taken into account, and directions the logs say nothing
            about keep the prior's width.
        white_std: standard deviations that independent residuals would claim, (d,), natural units.
        freedom: degrees of freedom of the intervals' Student distribution, one for all or one a scalar, (d,).
        unidentified: combinations that these logs do not determine.
        at_bound: scalars that ended at a bound.
        misfit: patterns left in the residuals.
        scores: errors before and after, on fitted and held-out windows.
        runs: values of the recordings where Params are apart; `values` then hold their mean, with the width of a recording yet to be made.
        known: Params that were given to the fit instead of fitted, bound with the values they were given; None where none was.
        mode: "simulation" or "inverse dynamics".
        provenance: hashes of the logs, seed, versions, the settings of the fit, and "notes": what to know before it is trusted.
    """

    params: Params
    values: np.ndarray
    deviation: np.ndarray
    white_std: np.ndarray
    freedom: float | np.ndarray
    unidentified: tuple[Confounded, ...] = ()
    at_bound: tuple[str, ...] = ()
    misfit: tuple[Misfit, ...] = ()
    scores: tuple[Score, ...] = ()
    runs: tuple[Run, ...] = ()
    known: Params | None = None
    mode: str = "simulation"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def made(
        cls,
        params: Params,
        values: np.ndarray,
        covariance: np.ndarray,
        *,
        white_std: np.ndarray,
        freedom: float | np.ndarray,
        **rest: Any,
    ) -> "Fit":
        """A Fit from values (d,) and their honest covariance (d, d) in natural units."""
        s = shares(params, params.unflatten(values))[0]
        per = slopes(params, s)
        values = np.clip(np.asarray(values, float), params.low, params.high)
        white = np.asarray(white_std, float)
        return cls(
            params=params,
            values=values,
            deviation=covariance / np.outer(per, per),
            white_std=white,
            freedom=freedom,
            **rest,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Labels of the scalars, such as "kd[FL_calf]"."""
        return self.params.names

    @property
    def e(self) -> E:
        """The best values as an e of one world, with those it was given."""
        given = {} if self.known is None else self.known.nominal_e(1)
        return {**given, **self.params.unflatten(self.values)}

    def e_in(self, log: Log) -> E:
        """The best values in one of the fitted recordings: its own, where Params are apart."""
        found = [run for run in self.runs if run.log == log.hash]
        if self.runs and not found:
            raise InputError(
                f"this log is not among the {len(self.runs)} recordings that were fitted: its own {', '.join(self.runs[0].values)} "
                "is not known; use fit.e for the mean over the recordings"
            )
        own = found[0].values if found else {}
        return {**self.e, **{name: np.asarray(value, float)[None] for name, value in own.items()}}

    def __getitem__(self, name: str) -> float:
        """Best value of one scalar."""
        if name not in self.names:
            raise InputError(f"'{name}' was not fitted (fitted: {', '.join(self.names)})")
        return float(self.values[self.names.index(name)])

    def intervals(self, level: float = 0.9, *, white: bool = False) -> np.ndarray:
        """Central intervals (d, 2) in natural units; `white`: what independent residuals would claim."""
        if not 0.0 < level < 1.0:
            raise InputError(f"an interval holds a share between 0 and 1, not {level!r}")
        freedom, std = (np.inf, self.white_std) if white else (self.freedom, self.std)
        reach = student.ppf(0.5 + 0.5 * level, freedom) * std
        ends = np.stack([self.values - reach, self.values + reach], axis=1)
        return np.clip(ends, self.params.low[:, None], self.params.high[:, None])

    @property
    def position(self) -> np.ndarray:
        """Best values as positions between the bounds, (d,)."""
        return shares(self.params, self.params.unflatten(self.values))[0]

    @property
    def std(self) -> np.ndarray:
        """Honest standard deviations, (d,), natural units."""
        return np.sqrt(np.diag(self.deviation)) * slopes(self.params, self.position)

    @property
    def covariance(self) -> np.ndarray:
        """Honest covariance of the packed coordinates, (d, d)."""
        return self._packed[1]

    @property
    def natural_covariance(self) -> np.ndarray:
        """Honest covariance in natural units, (d, d)."""
        per = slopes(self.params, self.position)
        return self.deviation * np.outer(per, per)

    @cached_property
    def _packed(self) -> tuple[np.ndarray, np.ndarray]:
        # A normal as wide as the 90 % interval of the Student distribution.
        wider = np.broadcast_to(student.ppf(0.95, self.freedom) / student.ppf(0.95, np.inf), self.values.shape)
        return packed_belief(self.params, self.values, self.natural_covariance * np.outer(wider, wider))

    @cached_property
    def posterior(self) -> Prior:
        """p(e | logs): normal in packed coordinates for the fitted Params, the value itself for those that were given."""
        if self.known is None:
            return Prior.gaussian(self.params, *self._packed)
        schema, known = _joined(self.params, self.known), self.known.nominal_e(1)
        normal = Prior.gaussian(schema, *self._packed, list(self.params))
        return normal.condition({name: value[0] for name, value in known.items()})

    def within(self, prior: Prior) -> Prior:
        """`prior` with what is now known: the posterior of the fitted Params, the rest as it was."""
        missing = [name for name in self.names if name not in prior.params.names]
        if missing:
            raise InputError(
                f"the prior does not hold {', '.join(missing)}, which were fitted: give one over sim.params"
            )
        found = Prior.gaussian(self.params, *self._packed)
        whole = Prior(params=prior.params, product=prior.product.with_pieces(found.product.pieces))
        given = {} if self.known is None else self.known.nominal_e(1)
        inside = {name: value[0] for name, value in given.items() if name in prior.params}
        return whole.condition(inside) if inside else whole

    # ---------------------------------------------------------------- files

    def to_dict(self) -> dict[str, Any]:
        """Plain data, exact."""
        out: dict[str, Any] = {"fit": VERSION, "mode": self.mode, **schema_to_dict(self.params)}
        out |= {name: np.asarray(getattr(self, name)).tolist() for name in ARRAYS}
        out |= {
            "freedom": np.asarray(self.freedom).tolist(),
            "at_bound": list(self.at_bound),
            "provenance": dict(self.provenance),
        }
        if self.known is not None:
            out["known"] = schema_to_dict(self.known)
        for name in ("unidentified", "misfit", "scores", "runs"):
            out[name] = [{f.name: getattr(x, f.name) for f in fields(x)} for x in getattr(self, name)]
        return json.loads(json.dumps(out))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Fit":
        """The inverse of `to_dict`."""
        if not isinstance(data, Mapping) or data.get("fit") != VERSION:
            raise InputError(
                f"this is not a fit of layout {VERSION}: it needs the entry 'fit': {VERSION}, as Fit.save writes it"
            )
        params = schema_from_dict(data)
        try:
            arrays = {k: np.array(data[k], float) for k in ARRAYS}
            for name, axes in ARRAYS.items():
                shape = (params.d,) * axes
                if arrays[name].shape != shape:
                    raise InputError(f"a fit's '{name}' must have shape {shape}, got {arrays[name].shape}")
            _check_numbers(params, arrays)
            lists = {
                "unidentified": tuple(Confounded(**{**x, "names": tuple(x["names"])}) for x in data["unidentified"]),
                "misfit": tuple(Misfit(**x) for x in data["misfit"]),
                "scores": tuple(Score(**x) for x in data["scores"]),
                "runs": tuple(Run(**x) for x in data.get("runs", ())),
            }
            return cls(
                params=params, **arrays, **lists, freedom=_freedom(data["freedom"], params.d), at_bound=tuple(data["at_bound"]),
                known=schema_from_dict(data["known"]) if "known" in data else None,
                mode=str(data["mode"]), provenance=dict(data["provenance"]),
            )  # fmt: skip
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"a fit's data is incomplete or wrong: {error}") from None

    def save(self, path: str | Path) -> Path:
        """Write to a .json file; every bit is kept."""
        path = Path(path)
        if path.suffix != ".json":
            raise InputError(f"a fit cannot be written to '{path.name}': use .json")
        write_text(path, json.dumps(self.to_dict(), indent=1, ensure_ascii=False))
        return path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fit) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        from surefoot.identify.fit_table import fit_table

        return fit_table(self)


def _check_numbers(params: Params, arrays: Mapping[str, np.ndarray]) -> None:
    """A fit's numbers must be ones that a fit can have."""
    values, low, high = arrays["values"], params.low, params.high
    slack = 1e-9 * (high - low)
    outside = np.flatnonzero(~((values >= low - slack) & (values <= high + slack)))
    if len(outside):
        i = int(outside[0])
        raise InputError(
            f"a fit's value of {params.names[i]} must lie between its bounds {low[i]:g} and {high[i]:g}, got {values[i]:g}"
        )
    if not (np.diag(arrays["deviation"]) >= 0).all() or not (arrays["white_std"] >= 0).all():
        raise InputError("a fit's variances must not be negative: this file was changed, fit anew")


def _freedom(value: Any, d: int) -> float | np.ndarray:
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, list) or len(value) != d:
        raise InputError(f"a fit's 'freedom' must be a number or a list of {d}, got {value!r}")
    return np.array(value, float)


def load_fit(path: str | Path) -> Fit:
    """Read what `Fit.save` wrote: an equal fit."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read a fit from '{path}': {error}") from None
    try:
        return Fit.from_dict(data)
    except InputError as error:
        raise InputError(f"'{path}': {error}") from None


def packed_belief(params: Params, values: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (d,) and covariance (d, d) of the packed coordinates for a normal belief in natural units.

    Each coordinate is matched at the median and the central 90 % of its normal cut at the bounds: for a narrow one that is the
    slope of the coordinate; one that fills its range, or touches a bound, stays finite and inside.
    """
    low, high = params.low, params.high
    sd = np.maximum(np.sqrt(np.diag(covariance)), 1e-12 * (high - low))
    cut = {
        p: truncnorm.ppf(p, (low - values) / sd, (high - values) / sd, loc=values, scale=sd) for p in (0.05, 0.5, 0.95)
    }
    z = {p: params.pack(params.unflatten(v))[0] for p, v in cut.items()}
    nudge = 1e-6 * (high - low) * np.where(values > 0.5 * (low + high), -1.0, 1.0)
    near = [params.pack(params.unflatten(values + k * nudge))[0] for k in (0, 1)]
    slope = np.abs((near[1] - near[0]) / nudge)
    narrow = sd < 1e-3 * np.minimum(
        values - low, high - values
    )  # The cut normal's quantiles have no more digits than that.
    # Towards a bound z runs away to infinity: the side away from it tells the width.
    side = np.minimum(z[0.95] - z[0.5], z[0.5] - z[0.05]) / 1.6448536269514722
    ratio = np.where(narrow, slope, np.maximum(side, 1e-9) / sd)
    return np.where(narrow, near[0], z[0.5]), _definite(covariance * np.outer(ratio, ratio))


def _joined(first: Params, second: Params) -> Params:
    """Both schemas in one, bound as they are."""
    nominal = {**first.nominal_e(1), **second.nominal_e(1)}
    return Params(**{**dict(first), **dict(second)}).bind(
        {**first.elements, **second.elements}, {name: value[0] for name, value in nominal.items()}
    )


def _definite(covariance: np.ndarray) -> np.ndarray:
    """The covariance with its last digits such that combinations known far better than their parts stay positive definite."""
    spread = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(spread, spread)
    values, vectors = np.linalg.eigh(0.5 * (correlation + correlation.T))
    correlation = (vectors * np.maximum(values, 1e-10)) @ vectors.T
    one = np.sqrt(np.diag(correlation))
    correlation = 0.5 * (correlation + correlation.T) / np.outer(one, one)
    return correlation * np.outer(spread, spread)
