"""e: names, units, bounds, priors, and where each value acts in a model."""

from surefoot.params.constructors import CONSTRUCTORS as CONSTRUCTORS
from surefoot.params.constructors import discrete as discrete
from surefoot.params.constructors import quasi_direct_drive as quasi_direct_drive
from surefoot.params.constructors import series_elastic as series_elastic
from surefoot.params.kind import KINDS as KINDS
from surefoot.params.kind import Kind as Kind
from surefoot.params.param import Param as Param
from surefoot.params.params import E as E
from surefoot.params.params import Params as Params
from surefoot.params.params import label as label


def __getattr__(name: str):
    """Constructors by kind (`params.friction`), and Prior on first use."""
    if name in CONSTRUCTORS:
        return CONSTRUCTORS[name]
    if name == "Prior":
        from surefoot.params.prior import Prior

        return Prior
    raise AttributeError(f"module 'surefoot.params' has no attribute {name!r}")
