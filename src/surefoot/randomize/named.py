"""Schedules by name, as the command line knows them."""

from surefoot.errors import InputError, choose
from surefoot.params import Point, Prior
from surefoot.randomize.adr import ADR
from surefoot.randomize.cvar import Cvar
from surefoot.randomize.doraemon import Doraemon
from surefoot.randomize.schedule import Fixed, Schedule
from surefoot.randomize.widening import Widening

SCHEDULES = ("fixed", "widening", "adr", "doraemon", "cvar", "none")
TUNED = ("widening", "adr", "doraemon")
"""Those that take settings."""


def schedule(name: str, prior: Prior, *, worlds: int, **settings: float) -> Schedule:
    """The schedule called `name`, set for the number of worlds.

    Args:
        name: fixed, widening, adr, doraemon, cvar, or none for the nominal e in every world.
        prior: the whole p(e).
        worlds: of the training; so many results are left out after a change of the prior, and CVaR looks for the worst among
            twice as many.
        settings: of the schedule, such as start, target and floor of the widening one.
    """
    choose(name, SCHEDULES, "a schedule")
    if settings and name not in TUNED:
        raise InputError(
            f"schedule {name!r} takes no settings, got {', '.join(settings)}: those of {', '.join(TUNED)} do"
        )
    if name == "none":
        return Fixed(nominal(prior))
    if name == "fixed":
        return Fixed(prior)
    if name == "adr":
        return ADR(prior, **settings)  # type: ignore[arg-type]
    if name == "cvar":
        return Cvar(prior, batch=2 * worlds, settle=worlds)
    return {"widening": Widening, "doraemon": Doraemon}[name](prior, settle=worlds, **settings)


def nominal(prior: Prior) -> Prior:
    """No doubt at all: every scalar at its nominal value."""
    values = zip(prior.params.names, prior.params.nominal, strict=True)
    return prior.replace({label: Point(value=float(value)) for label, value in values})
