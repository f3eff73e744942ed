"""p(e): what is believed about the unknowns, to draw worlds from, to score values, to narrow by knowledge.

    p(e) = Π_pieces p(scalars of the piece)

A piece is one scalar with a distribution of its own, elements that resemble each other (Spread), a normal in
unconstrained coordinates (covariance), weighted samples, or a mixture of all these. Every operation gives a Prior
again: a fit's posterior, conditioned on a weighed mass and widened for training, is still something to draw from.

Draws depend on (seed, label, world) only: the first 64 of 256 worlds are the same 64, and another Param in the schema
changes nothing for the others (see draws.py).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.params import prior_file
from surefoot.params.atoms import Discrete, Point
from surefoot.params.axes import Axes, Columns, array, stacked
from surefoot.params.distribution import Distribution, Limits, checked_factor
from surefoot.params.distributions import LogUniform, Uniform
from surefoot.params.draws import draws
from surefoot.params.joints import Gaussian, Samples, columns_of
from surefoot.params.params import E, Params
from surefoot.params.pieces import Elements, Marginal, Piece, Spread
from surefoot.params.product import Mixture, Product

Belief = Distribution | Spread | Sequence[Distribution]
"""What may be said about one Param: a distribution (of each element), a Spread, or one distribution an element."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Prior:
    """A distribution over e. Make one with `params.prior()`, `Prior.independent`, `.gaussian`, `.samples`, `.mixture`.

    Attributes:
        params: the schema; every draw lies inside its bounds.
        product: the independent pieces, which cover every scalar of the schema once.
    """

    params: Params
    product: Product

    def __post_init__(self):
        known = set(self.params.names)
        for label in self.product.labels:
            if label not in known:
                raise InputError(f"'{label}' is not a scalar of these params {did_you_mean(label, known)}")
        missing = [name for name in self.params.names if name not in self.product.labels]
        if missing:
            raise InputError(f"the prior says nothing about {', '.join(missing)}: give each a distribution")
        for label, low, high in zip(self.params.names, self.params.low, self.params.high, strict=True):
            least, most = self.product.support(label)
            if least < low or most > high:
                raise InputError(f"'{label}' may reach {least:g} to {most:g}, outside its bounds {low:g} to {high:g}")

    # ---------------------------------------------------------------- constructors

    @classmethod
    def independent(cls, params: Params, beliefs: Mapping[str, Belief]) -> "Prior":
        """Each Param on its own; those not named are uniform between their bounds.

        Keys are names ("kd": all its elements) or scalar labels ("kd[FL_calf]"). Open tails (Normal, LogNormal) are cut
        at the Param's bounds; a closed range that leaves them is an error.
        """
        return uniform_prior(params).replace(beliefs)

    @classmethod
    def gaussian(
        cls, params: Params, mean: E | np.ndarray, covariance: np.ndarray, names: Iterable[str] = ()
    ) -> "Prior":
        """Normal in the coordinates z of `params.pack`, (k,) and (k, k).

        `mean` is z, or an e in natural units with one world. `names` (names or labels) says which scalars it is about,
        all by default; the others are uniform between their bounds.
        """
        chosen = tuple(label for name in names for label in labels_of(params, name)) or params.names
        axes = axes_of(params).take(chosen)
        if isinstance(mean, Mapping):
            natural = given_columns(params, mean)
            missing = [label for label in chosen if label not in natural]
            if missing:
                raise InputError(f"the mean lacks {', '.join(missing)}: give them, or say with names= what it is about")
            z = axes.to_z(stacked(natural, chosen))[0]
        else:
            z = mean
        return uniform_prior(params)._with([Gaussian(axes=axes, mean=z, covariance=covariance)])

    @classmethod
    def samples(cls, params: Params, e: E, weights: Any = None, jitter: float = 0.0) -> "Prior":
        """Values seen together, one world of `e` a sample; Params not in `e` are uniform between their bounds.

        `jitter` spreads each sample to a normal kernel, as a fraction of the samples' own covariance in z.
        """
        natural = given_columns(params, e)
        rows = stacked(natural, tuple(natural))
        weights = np.full(len(rows), 1.0 / len(rows)) if weights is None else weights
        piece = Samples(axes=axes_of(params).take(natural), rows=rows, weights=weights, jitter=jitter)
        return uniform_prior(params)._with([piece])

    @classmethod
    def mixture(cls, priors: Sequence["Prior"], weights: Any = None) -> "Prior":
        """One of `priors` at a time, with probability `weights` (equal by default); bounds that hold all of them."""
        if not priors:
            raise InputError("a mixture needs at least one prior")
        weights = np.full(len(priors), 1.0 / len(priors)) if weights is None else weights
        piece = Mixture(components=tuple(prior.product for prior in priors), weights=weights)
        return cls(params=_holding(priors[0].params, piece), product=Product(pieces=(piece,)))

    # ---------------------------------------------------------------- draw and score

    def sample(self, n: int, rng: int | np.random.Generator) -> E:
        """e of `n` worlds. A seed gives the same worlds every time; a Generator gives new ones at every call.

        Params with one value per Sim (time step, solver, ...) take world 0's value in every world.
        """
        columns = self.product.draw(draws(n, rng))
        if not columns:
            return {}
        e = self.params.unflatten(stacked(columns, self.params.names))
        for name, param in self.params.items():
            if param.about.per == "sim":
                e[name][:] = e[name][:1]
        return e

    def log_prob(self, e: Mapping[str, Any]) -> np.ndarray:
        """Log density of each world, (worlds,), per natural unit; log mass for discrete scalars, −inf out of bounds."""
        v = self.params.flatten(e)  # (worlds, d)
        return self.product.log_prob(columns_of(v, self.params.names)) if v.shape[1] else np.zeros(len(v))

    def interval(self, p: float = 0.9) -> dict[str, tuple[float, float]]:
        """Central interval of each scalar: (1 − p)/2 lies below it and as much above."""
        if not 0.0 < p < 1.0:
            raise InputError(f"an interval holds a share between 0 and 1, not {p!r}")
        ends = np.array([0.5 - 0.5 * p, 0.5 + 0.5 * p])
        found = {label: self.product.quantile(label, ends) for label in self.params.names}
        return {label: (float(low), float(high)) for label, (low, high) in found.items()}

    def quantile(self, p: float) -> E:
        """Marginal quantile of every scalar, as an e with one world; 0.5 is the median."""
        values = [self.product.quantile(label, np.array([p], float)) for label in self.params.names]
        return self.params.unflatten(np.stack(values, axis=-1))

    def mean(self) -> E:
        """Mean of every scalar, as an e with one world; of discrete Params the most probable choice."""
        means = self.product.expected()
        for name, param in self.params.items():
            if param.choices is not None:
                for label in labels_of(self.params, name):
                    masses = np.diff(self.product.cdf(label, np.array(param.choices)), prepend=0.0)
                    means[label] = param.choices[int(np.argmax(masses.round(12)))]
        return self.params.unflatten(np.array([means[label] for label in self.params.names]))

    # ---------------------------------------------------------------- other beliefs

    def replace(self, beliefs: Mapping[str, Belief] | None = None, /, **named: Belief) -> "Prior":
        """Other beliefs about some Params, independent of the rest.

        `prior.replace(base_mass=Normal(mean=7.3, sd=0.2))`; labels such as "kd[FL_calf]" go in a mapping.
        """
        pieces: list[Piece] = []
        for name, belief in {**(beliefs or {}), **named}.items():
            pieces += pieces_of(self.params, name, belief)
        return self._with(pieces)

    def widen(self, factor: float, within: Params | Mapping[str, Limits] | None = None) -> "Prior":
        """Every central interval `factor` times as wide about its median, on the log axis where the distribution is.

        Without `within` the schema's bounds grow with it, up to the physical limits of each kind; with it, nothing
        leaves the bounds of those Params (or the (low, high) given by name). Normal and sampled joints stretch in
        unconstrained coordinates and always stay inside their bounds. A known value has no width and stays.
        """
        factor = checked_factor(factor, "widen", "narrow")
        product = self.product.scaled(factor, self._limits(within))
        return Prior(params=_holding(self.params, product), product=product)

    def narrow(self, factor: float) -> "Prior":
        """Every central interval `factor` times narrower about its median; the bounds of the schema stay."""
        factor = checked_factor(factor, "narrow", "widen")
        return Prior(params=self.params, product=self.product.scaled(1.0 / factor, {}))

    def condition(self, values: Mapping[str, Any], kernel: float | None = None) -> "Prior":
        """What is left to believe when some values are known: {"base_mass": 7.3} or {"kd[FL_calf]": 0.6}.

        Exact for independent, normal and mixed pieces. Samples are weighed by a normal kernel of the distance in
        unconstrained coordinates, `kernel` standard deviations of the samples wide; by default Silverman's
        (4 / ((c + 2) m))^(1 / (c + 4)) for c known scalars and m effective samples, or the samples' jitter. When no
        sample lies within 3 widths this is an error, not a guess.
        """
        known = self._known(values)
        product, log_density = self.product.given(known, kernel)
        if log_density == -np.inf:
            impossible = [x for x, v in known.items() if self.product.keep([x]).given({x: v}, kernel)[1] == -np.inf]
            named = impossible or list(known)
            said = ", ".join(f"{label}={known[label]:g}" for label in named)
            least, most = self.product.support(named[0])
            raise InputError(f"{said} cannot be under this prior, which allows {least:g} to {most:g}")
        points = tuple(Marginal(label=label, distribution=Point(value=v)) for label, v in known.items())
        return Prior(params=self.params, product=Product(pieces=product.pieces + points))

    def marginal(self, names: Iterable[str]) -> "Prior":
        """The prior of some Params alone, with a schema of these; correlations among them are kept."""
        names = [names] if isinstance(names, str) else list(names)
        params = _rebound(self.params.only(*names), self.params)
        return Prior(params=params, product=self.product.keep(params.names))

    def over(self, params: Params) -> "Prior":
        """The same belief over all of `params`: those that it does not hold are as `params.prior()` has them."""
        strange = [label for label in self.params.names if label not in params.names]
        if strange:
            raise InputError(
                f"the prior is about '{strange[0]}', which is not a scalar of these params {did_you_mean(strange[0], params.names)}"
            )
        return Prior(params=params, product=params.prior().product.with_pieces(self.product.pieces))

    def _with(self, pieces: Iterable[Piece]) -> "Prior":
        return Prior(params=self.params, product=self.product.with_pieces(pieces))

    def _known(self, values: Mapping[str, Any]) -> dict[str, float]:
        """Known values by scalar label, checked against the bounds."""
        known: dict[str, float] = {}
        for name, value in values.items():
            labels = labels_of(self.params, name)
            given = np.ravel(np.asarray(value, float))
            given = np.broadcast_to(given, len(labels)) if given.size == 1 else given
            known |= dict(zip(labels, array(given, (len(labels),), f"'{name}'").tolist(), strict=True))
        axes = axes_of(self.params)
        for label, value in known.items():
            low, high = axes.limits(label)
            if not low <= value <= high:
                raise InputError(f"'{label}' is {value:g}, outside its bounds {low:g} to {high:g}")
        return known

    def _limits(self, within: Params | Mapping[str, Limits] | None) -> dict[str, Limits]:
        """Limits of each scalar: the kind's physical ones, and those of `within`."""
        out: dict[str, Limits] = {}
        for name in within or ():
            if name not in self.params:
                raise InputError(f"'{name}' is not a param of this prior {did_you_mean(name, self.params)}")
        for name, param in self.params.items():
            low, high = param.about.hard
            if within is not None and name in within:
                other = within[name]
                least, most = other if isinstance(other, tuple | list) else (other.low, other.high)
                low, high = max(low, least), min(high, most)
            out |= dict.fromkeys(labels_of(self.params, name), (low, high))
        return out

    # ---------------------------------------------------------------- files and people

    @property
    def hash(self) -> str:
        """Content hash, hexadecimal: equal for priors that draw the same worlds from the same seed."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prior) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return int(self.hash[:15], 16)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, exact: the schema with its elements, then the pieces."""
        content = self.product.to_dict()
        alone = content.get("marginals", {})
        for name in self.params:
            labels = labels_of(self.params, name)
            if len(labels) > 1 and all(alone.get(x) == alone.get(labels[0]) is not None for x in labels):
                alone = {k: v for k, v in alone.items() if k not in labels} | {name: alone[labels[0]]}
        return prior_file.schema_to_dict(self.params) | {"prior": content | ({"marginals": alone} if alone else {})}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Prior":
        """The inverse of `to_dict`. A file written by hand may name whole Params and leave out uniform ones."""
        params = prior_file.schema_from_dict(data)
        content = data.get("prior", {})
        if not isinstance(content, Mapping):
            raise InputError(f"'prior' must be a table with 'marginals' and 'joints', not {content!r}")
        alone = content.get("marginals", {})
        pieces = [p for name in alone for p in pieces_of(params, name, prior_file.belief(name, alone[name]))]
        joints = Product.from_dict({"joints": content.get("joints", [])})
        said = Product(pieces=(*pieces, *joints.pieces))
        return uniform_prior(params)._with(said.pieces)

    def save(self, path: str | Path) -> None:
        """Write to a .toml or .json file; floats keep every bit."""
        prior_file.write(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> "Prior":
        """Read what `save` wrote: an equal prior, which draws the same worlds."""
        return prior_file.reading(path, cls.from_dict)

    def rows(self, p: float = 0.9) -> list[dict[str, Any]]:
        """One row a scalar for tables: label, unit, median, low and high of the central interval, belief in words."""
        interval, median = self.interval(p), self.params.flatten(self.quantile(0.5))[0]
        units = {x: param.unit for name, param in self.params.items() for x in labels_of(self.params, name)}
        return [
            {"label": label, "unit": units[label], "median": float(middle), "low": interval[label][0],
             "high": interval[label][1], "belief": prior_file.in_words(self.product.of(label))}
            for label, middle in zip(self.params.names, median, strict=True)
        ]  # fmt: skip

    def __repr__(self) -> str:
        return prior_file.table(self.rows(), f"Prior over {self.params.d} scalars, {self.hash[:8]}")


def uniform_prior(params: Params) -> Prior:
    """Uniform between the bounds: log-uniform on a log scale, equal weights for choices, a point where low = high."""
    pieces: list[Piece] = []
    for name, param in params.items():
        ends = {"low": param.low, "high": param.high}
        if param.choices is not None:
            belief = Discrete(values=param.choices)
        elif param.low == param.high:
            belief = Point(value=param.low)
        else:
            belief = LogUniform(**ends) if param.scale == "log" else Uniform(**ends)
        pieces += [Marginal(label=label, distribution=belief) for label in labels_of(params, name)]
    return Prior(params=params, product=Product(pieces=tuple(pieces)))


def labels_of(params: Params, name: str) -> tuple[str, ...]:
    """Scalar labels of a Param's name, or of a label itself."""
    if name in params:
        width = len(params.elements[name])
        start = sum(max(len(params.elements[other]), 1) for other in list(params)[: list(params).index(name)])
        return params.names[start : start + max(width, 1)]
    if name in params.names:
        return (name,)
    raise InputError(f"'{name}' is not a param {did_you_mean(name, [*params, *params.names])}")


def given_columns(params: Params, e: Mapping[str, Any]) -> Columns:
    """Values of an e that may hold only some Params, by scalar label in the schema's order."""
    for name in e:
        if name not in params:
            raise InputError(f"'{name}' is not a param {did_you_mean(name, params)}")
    if not e:
        raise InputError(f"an e without values was given: give some of {', '.join(params)}")
    some = _rebound(params.only(*[name for name in params if name in e]), params)
    return columns_of(some.flatten(e), some.names)


def axes_of(params: Params) -> Axes:
    """Bounds and scales of all scalars of a schema."""
    chosen = [params[n].choices is not None for n in params for _ in labels_of(params, n)]
    ends = {"low": params.low, "high": params.high, "log": params.log}
    return Axes(labels=params.names, **ends, choices=np.array(chosen, bool))


def pieces_of(params: Params, name: str, belief: Belief) -> list[Piece]:
    """What is believed about a Param or one of its elements, as pieces inside the bounds."""
    labels = labels_of(params, name)
    low, high = axes_of(params).limits(labels[0])
    param = params[name if name in params else name[: name.rindex("[")]]
    try:
        if isinstance(belief, Spread):
            if name not in params or not params.elements[name]:
                raise InputError("a Spread needs a Param with one value for each target (each=True)")
            spread = Spread(shared=belief.shared.cut(low, high), own=belief.own)
            log = param.scale == "log"
            return [Elements(name=name, labels=labels, spread=spread, low=low, high=high, log=log)]
        each: list[Any] = list(belief) if isinstance(belief, Sequence) else []
        if isinstance(belief, Distribution):
            each = [belief] * len(labels)
        if len(each) != len(labels) or not all(isinstance(x, Distribution) for x in each):
            raise InputError(f"one distribution or {len(labels)} are needed, such as Point(value=1.0), not {belief!r}")
        for x in each:
            if param.choices and not (x.atomic and np.isin(x.atoms, param.choices).all()):
                raise InputError(f"only the choices {param.choices} are allowed: use Discrete or Point of these")
        cut = [distribution.cut(low, high) for distribution in each]
    except InputError as error:
        raise InputError(f"'{name}': {error}") from None
    return [Marginal(label=label, distribution=x) for label, x in zip(labels, cut, strict=True)]


def _rebound(params: Params, like: Params) -> Params:
    """`params` with the elements and nominal values that `like` knows of them."""
    if not like.bound:
        return params
    nominal = like.nominal_e(1)
    return params.bind({n: like.elements[n] for n in params}, {n: nominal[n][0] for n in params})


def _holding(params: Params, piece: Piece) -> Params:
    """The schema with bounds moved outwards where `piece` reaches beyond them."""
    changed = {}
    for name, param in params.items():
        ends = np.array([piece.support(label) for label in labels_of(params, name)])
        low, high = min(param.low, ends[:, 0].min()), max(param.high, ends[:, 1].max())
        if param.scale == "log" and low <= 0.0:
            raise InputError(
                f"'{name}' has a log scale but its belief would reach {low:g}: use LogUniform or LogNormal"
            )
        changed[name] = param if (low, high) == (param.low, param.high) else param.replace(low=low, high=high)
    return _rebound(Params(**changed), params)
