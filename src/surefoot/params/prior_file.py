"""How a Prior looks in a file and to people.

[params.NAME]        the schema, as Params writes it
[elements]           NAME = ["FL_calf_joint", ...]      for Params with one value for each target
[nominal]            NAME = 1.0 or [..]                 the model's own values
[prior.marginals]    NAME or "NAME[ELEMENT]" = a distribution: kind, then its settings
[[prior.joints]]     kind = "spread" | "gaussian" | "samples" | "mixture", then labels and numbers
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from surefoot.errors import InputError
from surefoot.files import write_text
from surefoot.params.distribution import Distribution, distribution_from_dict
from surefoot.params.joints import Gaussian, Samples
from surefoot.params.params import Params
from surefoot.params.pieces import Elements, Marginal, Piece
from surefoot.params.toml import dumps

T = TypeVar("T")


def schema_to_dict(params: Params) -> dict[str, Any]:
    """The schema, with the elements and nominal values of a bound one."""
    out: dict[str, Any] = {"params": params.to_dict()}
    if params.bound:
        out["elements"] = {name: list(labels) for name, labels in params.elements.items()}
        out["nominal"] = {name: value[0].tolist() for name, value in params.nominal_e(1).items()}
    return out


def schema_from_dict(data: Any) -> Params:
    """The inverse of `schema_to_dict`."""
    if not isinstance(data, Mapping) or not isinstance(data.get("params"), Mapping):
        raise InputError("a prior file holds a table 'params': is this a prior file?")
    params = Params.from_dict(data["params"])
    elements, nominal = data.get("elements"), data.get("nominal", {})
    if elements is None:
        return params
    for name in params:
        if not isinstance(elements, Mapping) or not isinstance(elements.get(name), list):
            raise InputError(f"'elements' must hold a list for every param: '{name}' has none")
    try:
        values = {name: np.asarray(value, float) for name, value in nominal.items()}
        return params.bind({name: tuple(elements[name]) for name in params}, values)
    except (TypeError, ValueError, AttributeError):
        raise InputError("'nominal' must hold a number, or one for each element, for every param") from None


def belief(name: str, entry: Any) -> Distribution:
    """Distribution from plain data; an error names what it is about."""
    try:
        return distribution_from_dict(entry)
    except InputError as error:
        raise InputError(f"'{name}': {error}") from None


def write(path: str | Path, data: Mapping[str, Any]) -> None:
    """Write plain data as .toml or .json, by suffix."""
    path = Path(path)
    if path.suffix not in (".toml", ".json"):
        raise InputError(f"a prior is saved as .toml or .json, not '{path.name}'")
    write_text(path, json.dumps(data, indent=1) + "\n" if path.suffix == ".json" else dumps(data))


def reading(path: str | Path, build: Callable[[Mapping[str, Any]], T]) -> T:
    """Plain data of a .toml or .json file, built; every error names the file."""
    path = Path(path)
    if path.suffix not in (".toml", ".json"):
        raise InputError(f"a prior is read from .toml or .json, not '{path.name}'")
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read a prior from '{path}': {error}") from None
    try:
        return build(data)
    except InputError as error:
        raise InputError(f"'{path}': {error}") from None
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise InputError(f"'{path}' is not a prior as `save` writes it: {error}") from None


def in_words(piece: Piece) -> str:
    """A piece in a few words, for tables."""
    match piece:
        case Marginal():
            settings = {k: v for k, v in piece.distribution.to_dict().items() if k != "kind"}
            said = [f"{k} {_short(v)}" for k, v in settings.items()]
            return f"{piece.distribution.kind.replace('_', ' ')}: {', '.join(said)}"
        case Elements():
            shared = in_words(Marginal(label="", distribution=piece.spread.shared))
            return f"spread: own {piece.spread.own:.4g}, shared {shared}"
        case Gaussian():
            return f"gaussian of {len(piece.labels)}"
        case Samples():
            return f"{len(piece.rows)} samples of {len(piece.labels)}, jitter {piece.jitter:.3g}"
        case _:
            return f"mixture of {len(getattr(piece, 'components', ()))}"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} numbers" if len(value) > 6 else "[" + " ".join(f"{x:.4g}" for x in value) + "]"
    return value if isinstance(value, str) else f"{value:.4g}"


def table(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """Rows of `Prior.rows` as aligned text."""
    numbers = [[f"{row[k]:.4g}" for k in ("median", "low", "high")] for row in rows]
    cells = [[r["label"], *n, r["unit"], r["belief"]] for r, n in zip(rows, numbers, strict=True)]
    cells = [["", "median", "5 %", "95 %", "unit", "belief"], *cells]
    widths = [max(len(row[k]) for row in cells) for k in range(5)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(row[k].rjust(widths[k]) for k in (1, 2, 3)), row[4].ljust(widths[4]), row[5]]
        )
        for row in cells
    ]
    return "\n".join([title, *(line.rstrip() for line in lines)])
