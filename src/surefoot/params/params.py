"""The schema of e: which unknowns there are, in which order, and how e becomes a vector and back.

e itself is a plain `dict[str, array]`, axis 0 = world: (worlds,) for a tied Param, (worlds, k) for one value per
target or component. `pack` maps e to unconstrained coordinates z, one column per scalar label:

    z = logit(s),   s = (v - low) / (high - low)   or   log(v / low) / log(high / low)   on a log scale
"""

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surefoot.errors import InputError, did_you_mean
from surefoot.files import write_text
from surefoot.params.param import Param
from surefoot.params.toml import dumps

if TYPE_CHECKING:
    from surefoot.params.prior import Prior

E = dict[str, np.ndarray]
MARGIN = 1e-9
"""How near to a bound, as a fraction of the range, a packed value may come."""


def label(name: str) -> str:
    """A target's name as shown to people: 'FL_hip_joint' -> 'FL_hip'."""
    return name.removesuffix("_joint")


class Params(Mapping[str, Param]):
    """An ordered set of named unknowns. Bound to a model (by Sim) it also knows the elements of every Param."""

    def __init__(self, **params: Param):
        for name, param in params.items():
            if not isinstance(param, Param):
                raise InputError(
                    f"{name}={param!r} is not a Param: use a constructor such as friction(low=.., high=..)"
                )
        self._params = dict(params)
        self._elements: dict[str, tuple[str, ...]] | None = None
        self._nominal: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> Param:
        if name not in self._params:
            raise KeyError(f"{name!r} is not a param {did_you_mean(name, self._params)}")
        return self._params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Params) and self._params == other._params and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self._params))

    def __repr__(self) -> str:
        rows = [f"  {n}: {p.low:g} .. {p.high:g} {p.unit}  ({p.kind} of {p.of!r})" for n, p in self._params.items()]
        return "Params(\n" + "\n".join(rows) + "\n)"

    # ---------------------------------------------------------------- binding to a model

    def bind(
        self, elements: Mapping[str, tuple[str, ...]], nominal: Mapping[str, np.ndarray] | None = None
    ) -> "Params":
        """The same schema with known elements: `elements[name]` is () for a tied number, else one label a column.

        `nominal[name]` holds the model's own value, () or (k,); a Param's stated nominal wins over it.
        """
        bound = Params(**self._params)
        bound._elements = {name: tuple(elements[name]) for name in self._params}
        for name, param in self._params.items():
            shape = (len(bound._elements[name]),) if bound._elements[name] else ()
            value = param.nominal if param.nominal is not None else (nominal or {}).get(name)
            if value is None:
                value = np.sqrt(param.low * param.high) if param.scale == "log" else 0.5 * (param.low + param.high)
                if param.choices is not None:
                    value = float(np.asarray(param.choices)[np.abs(np.asarray(param.choices) - value).argmin()])
            bound._nominal[name] = np.broadcast_to(np.asarray(value, float), shape).copy()
        return bound

    @property
    def bound(self) -> bool:
        """Whether the elements of every Param are known."""
        return self._elements is not None

    @property
    def elements(self) -> dict[str, tuple[str, ...]]:
        """Element labels by Param; () for a tied number."""
        if self._elements is not None:
            return self._elements
        for name, param in self._params.items():
            if param.each:
                raise InputError(
                    f"param '{name}' has one value for each target: bind it to a robot first "
                    f"(Sim(robot, params).params)"
                )
        return {name: param.about.components for name, param in self._params.items()}

    def _columns(self) -> list[tuple[str, Param, int]]:
        """One (name, param, width) a Param, in order; width 0 for a tied number."""
        elements = self.elements
        return [(name, param, len(elements[name])) for name, param in self._params.items()]

    @property
    def names(self) -> tuple[str, ...]:
        """Scalar labels, the columns of `pack` and `flatten`: 'foot_friction', 'kd[FL_calf]', ..."""
        out: list[str] = []
        for name, elements in self.elements.items():
            out += [f"{name}[{label(el)}]" for el in elements] if elements else [name]
        return tuple(out)

    @property
    def d(self) -> int:
        """Number of scalars in e."""
        return len(self.names)

    def _per_scalar(self, pick: Any) -> np.ndarray:
        return np.array([pick(param) for _, param, k in self._columns() for _ in range(max(k, 1))])

    @property
    def low(self) -> np.ndarray:
        """Lower bounds, (d,)."""
        return self._per_scalar(lambda p: p.low)

    @property
    def high(self) -> np.ndarray:
        """Upper bounds, (d,)."""
        return self._per_scalar(lambda p: p.high)

    @property
    def log(self) -> np.ndarray:
        """Which scalars live on a log axis, (d,) bool."""
        return self._per_scalar(lambda p: p.scale == "log").astype(bool)

    @property
    def nominal(self) -> np.ndarray:
        """The model's own values, (d,)."""
        return self.flatten(self.nominal_e(1))[0]

    def nominal_e(self, worlds: int = 1) -> E:
        """e of the model as it stands, for `worlds` worlds. Unbound: stated nominals, else the middle of the range."""
        bound = self if self.bound else self.bind(self.elements)
        return {n: np.broadcast_to(v, (worlds, *v.shape)).copy() for n, v in bound._nominal.items()}

    # ---------------------------------------------------------------- e <-> vectors

    def check(self, e: Mapping[str, Any], worlds: int | None = None, *, within: bool = False) -> E:
        """e as float arrays with a world axis; raises an InputError on a wrong name, shape or value.

        A value without a world axis is given to all `worlds`; without `worlds` the rows are candidates, not worlds of one
        Sim. With `within`, values outside low..high are refused.
        """
        out: E = {}
        elements = self.elements
        for name, value in e.items():
            if name not in self._params:
                raise InputError(f"{name!r} is not a param of this sim {did_you_mean(name, self._params)}")
            param, k = self._params[name], len(elements[name])
            v = np.asarray(value, dtype=float)
            if v.ndim == 0 or (k and v.shape == (k,) and v.shape[0] != worlds):
                v = np.broadcast_to(v, (worlds or 1, *((k,) if k else ())))
            elif k and v.ndim == 1:
                v = np.broadcast_to(v[:, None], (v.shape[0], k))
            want = (v.shape[0] if worlds is None else worlds, *((k,) if k else ()))
            if v.shape != want:
                raise InputError(f"param '{name}' must have shape {want}, got {np.shape(value)}")
            self._check_values(name, param, v, within)
            if worlds is not None and param.about.per == "sim" and (v != v[:1]).any():
                raise InputError(f"param '{name}' has one value per Sim: give every world the same, or make two Sims")
            out[name] = v
        return out

    @staticmethod
    def _check_values(name: str, param: Param, v: np.ndarray, within: bool) -> None:
        if not v.size:
            return
        low, high = (param.low, param.high) if within else param.about.hard
        slack = 1e-12 * max(abs(low) if math.isfinite(low) else 0.0, abs(high) if math.isfinite(high) else 0.0)
        least, most = float(v.min()), float(v.max())
        if not (math.isfinite(least) and math.isfinite(most)):
            world = int(np.argwhere(~np.isfinite(v.reshape(len(v), -1)).all(1))[0, 0])
            raise InputError(f"param '{name}' is not a finite number in world {world}")
        if least < low - slack or most > high + slack:
            odd = v[(v < low - slack) | (v > high + slack)].flat[0]
            raise InputError(f"param '{name}' is {odd:g} {param.unit}, allowed is {low:g} .. {high:g}")
        if param.choices is not None and not np.isin(v, param.choices).all():
            odd = v[~np.isin(v, param.choices)].flat[0]
            raise InputError(f"param '{name}' is {odd:g}, allowed are {', '.join(f'{c:g}' for c in param.choices)}")

    def flatten(self, e: Mapping[str, Any]) -> np.ndarray:
        """e -> (worlds, d) in natural units; e must hold every Param."""
        missing = [name for name in self._params if name not in e]
        if missing:
            raise InputError(f"e lacks the params {', '.join(missing)}: give all of {', '.join(self._params)}")
        return self.rows(self.check(e))

    def rows(self, e: Mapping[str, np.ndarray]) -> np.ndarray:
        """`flatten` for an e that `check`, or a Prior, gave."""
        worlds = max((len(v) for v in e.values()), default=1)
        rows = [
            np.broadcast_to(v.reshape(len(v), -1), (worlds, max(v[0].size, 1)))
            for v in (e[name] for name in self._params)
        ]
        return np.concatenate(rows, axis=1) if rows else np.zeros((worlds, 0))

    def unflatten(self, v: np.ndarray) -> E:
        """(worlds, d) or (d,) in natural units -> e."""
        v = np.atleast_2d(np.asarray(v, float))
        if v.shape[1] != self.d:
            raise InputError(f"expected {self.d} columns ({', '.join(self.names)}), got {v.shape[1]}")
        out, start = {}, 0
        for name, _, k in self._columns():
            out[name] = v[:, start : start + k].copy() if k else v[:, start].copy()
            start += max(k, 1)
        return out

    def pack(self, e: Mapping[str, Any]) -> np.ndarray:
        """e -> z, (worlds, d), unconstrained; values at a bound are kept `MARGIN` inside it."""
        v, low, high, log = self.flatten(e), self.low, self.high, self.log
        with np.errstate(divide="ignore", invalid="ignore"):
            span = np.where(high > low, high - low, 1.0)
            s = np.where(
                log,
                np.log(v / np.where(log, low, 1.0))
                / np.log(np.where(log & (high > low), high / np.where(low > 0, low, 1.0), np.e)),
                (v - low) / span,
            )
        s = np.where(high > low, np.clip(s, MARGIN, 1 - MARGIN), 0.5)
        return np.log(s) - np.log1p(-s)

    def unpack(self, z: np.ndarray) -> E:
        """z, (worlds, d) or (d,) -> e; discrete Params go to their nearest choice."""
        z = np.atleast_2d(np.asarray(z, float))
        low, high, log = self.low, self.high, self.log
        s = 0.5 * (1 + np.tanh(0.5 * z))
        ratio = np.where(log & (low > 0), high / np.where(low > 0, low, 1.0), 1.0)
        e = self.unflatten(np.clip(np.where(log, low * ratio**s, low + s * (high - low)), low, high))
        for name, param in self._params.items():
            if param.choices is not None:
                choices = np.asarray(param.choices)
                e[name] = choices[np.abs(e[name][..., None] - choices).argmin(-1)]
        return e

    # ---------------------------------------------------------------- distributions, sets, files

    def prior(self) -> "Prior":
        """p(e): uniform between the bounds (log-uniform on a log scale, equal weights for choices)."""
        from surefoot.params.prior import uniform_prior

        return uniform_prior(self)

    def only(self, *names: str) -> "Params":
        """The Params called `names`, in this order."""
        for name in names:
            if name not in self._params:
                raise InputError(f"{name!r} is not a param {did_you_mean(name, self._params)}")
        return self._kept(Params(**{name: self._params[name] for name in names}))

    def _kept(self, part: "Params") -> "Params":
        """`part` of these Params, bound as they are."""
        if self._elements is not None:
            part._elements = {name: self._elements[name] for name in part}
            part._nominal = {name: self._nominal[name] for name in part}
        return part

    def without(self, *names: str) -> "Params":
        """All Params but those called `names`."""
        return self.only(*[name for name in self._params if name not in names])

    def __or__(self, other: "Params") -> "Params":
        return Params(**{**self._params, **other._params})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one table a Param."""
        return {name: param.to_dict() for name, param in self._params.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Params":
        """Params from plain data as `to_dict` writes it; an error names the Param it is in."""
        out = {}
        if not isinstance(data, Mapping):
            raise InputError(f"params must be tables by name, got {data!r}")
        for name, entry in data.items():
            if not isinstance(entry, Mapping):
                raise InputError(f"param '{name}' must be a table with kind, low and high, got {entry!r}")
            try:
                out[name] = Param.from_dict(entry)
            except InputError as error:
                raise InputError(f"param '{name}': {error}") from None
        return cls(**out)

    def save(self, path: str | Path) -> None:
        """Write to a .toml or .json file."""
        path = Path(path)
        data = {"params": self.to_dict()}
        write_text(path, json.dumps(data, indent=1) if path.suffix == ".json" else dumps(data))

    @classmethod
    def load(cls, path: str | Path) -> "Params":
        """Read from a .toml or .json file, as `save` writes it."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read params from '{path}': {error}") from None
        if not isinstance(data, Mapping) or "params" not in data:
            raise InputError(f"'{path}' holds no table 'params': is it a params file?")
        return cls.from_dict(data["params"])
