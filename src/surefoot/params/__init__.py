"""e: names, units, bounds, priors, and where each value acts in a model."""

import importlib
from typing import TYPE_CHECKING

from surefoot.params.constructors import CONSTRUCTORS as CONSTRUCTORS
from surefoot.params.constructors import discrete as discrete
from surefoot.params.constructors import quasi_direct_drive as quasi_direct_drive
from surefoot.params.constructors import series_elastic as series_elastic
from surefoot.params.kind import GROUPS as GROUPS
from surefoot.params.kind import KINDS as KINDS
from surefoot.params.kind import Kind as Kind
from surefoot.params.param import Param as Param
from surefoot.params.params import E as E
from surefoot.params.params import Params as Params
from surefoot.params.params import label as label

if TYPE_CHECKING:
    from surefoot.params.atoms import Discrete as Discrete
    from surefoot.params.atoms import Empirical as Empirical
    from surefoot.params.atoms import Point as Point
    from surefoot.params.distributions import Beta as Beta
    from surefoot.params.distributions import LogBeta as LogBeta
    from surefoot.params.distributions import LogNormal as LogNormal
    from surefoot.params.distributions import LogUniform as LogUniform
    from surefoot.params.distributions import Normal as Normal
    from surefoot.params.distributions import TruncatedNormal as TruncatedNormal
    from surefoot.params.distributions import Uniform as Uniform
    from surefoot.params.pieces import Spread as Spread
    from surefoot.params.prior import Prior as Prior
    from surefoot.params.prior import uniform_prior as uniform_prior
    from surefoot.params.values import load_e as load_e
    from surefoot.params.values import save_e as save_e

_MODULES = {
    "prior": "Prior uniform_prior",
    "pieces": "Spread",
    "atoms": "Point Discrete Empirical",
    "values": "load_e save_e",
    "distributions": "Uniform LogUniform Normal TruncatedNormal LogNormal Beta LogBeta",
}
_LATER = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str):
    """Constructors by kind (`params.friction`); priors and distributions on first use."""
    if name in CONSTRUCTORS:
        return CONSTRUCTORS[name]
    if name in _LATER:
        return getattr(importlib.import_module(f"surefoot.params.{_LATER[name]}"), name)
    raise AttributeError(f"module 'surefoot.params' has no attribute {name!r}")
