"""What a user did wrong, in one sentence: what is wrong, what was given, what is allowed, what to do."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """A mistake in what the user gave; the command line prints its sentence alone and exits with 2."""


def did_you_mean(name: str, known: Iterable[str], *, most: int = 12) -> str:
    """Hint appended to an error about an unknown name: the nearest known one, else the list of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"(did you mean '{near[0]}'?)"
    if not known:
        return "(there is none)"
    shown = ", ".join(known[:most]) + (f", ... {len(known) - most} more" if len(known) > most else "")
    return f"(known: {shown})"


def choose(name: str, known: Iterable[str], what: str) -> str:
    """Return `name` if it is one of `known`, else raise an InputError that names the nearest one."""
    known = list(known)
    if name not in known:
        raise InputError(f"{name!r} is not {what} {did_you_mean(str(name), known)}")
    return name
