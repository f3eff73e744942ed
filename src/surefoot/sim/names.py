"""Which names a pattern means."""

import re
from collections.abc import Iterable

from surefoot.errors import InputError, did_you_mean

GROUND = "ground"
"""Name of the geom robots walk on."""


def matching(of: str | tuple[str, ...], names: Iterable[str], what: str) -> list[str]:
    """Names that a pattern or a list of names selects, in the order of `names`; an empty selection is an error."""
    names = [name for name in names if name]
    if isinstance(of, tuple):
        for name in of:
            if name not in names:
                raise InputError(f"{name!r} is not a {what} of this robot {did_you_mean(name, names)}")
        return [name for name in names if name in of]
    try:
        found = [name for name in names if re.fullmatch(of, name)]
    except re.error as error:
        raise InputError(f"pattern {of!r} is not a regular expression: {error}") from None
    if not found:
        raise InputError(f"pattern {of!r} matches no {what} of this robot {did_you_mean(of, names)}")
    return found
