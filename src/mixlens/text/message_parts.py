"""Count in words ("1 text", "2 texts"), and suggest the nearest names for an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LISTED_BY = {"measure": "Run `mixlens measures` for the list."}


def no_such(kind: str, name: object, known: Iterable[str], among: str = "Choose one of") -> str:
    """Return "Unknown measure 'value_zeroin'. Did you mean value_zeroing?", or where the names are
    listed if none is similar.
    """
    names = {candidate.casefold().replace("-", "_"): candidate for candidate in known}
    wanted = str(name).casefold().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(wanted, names, 3, 0.65)
    near = near or [key for key in names if key.replace("_", "") == wanted.replace("_", "")]
    if near:
        advice = f"Did you mean {' or '.join(names[n] for n in near)}?"
    else:
        advice = _LISTED_BY.get(kind) or f"{among}: {', '.join(names.values()) or 'none'}."
    return f"Unknown {kind} {name!r}. {advice}"


def counted(count: int, noun: str) -> str:
    """Return the count with its noun, in the plural unless it is one."""
    return f"{count} {plural(noun, count)}"


def plural(noun: str, count: int) -> str:
    """Return the noun with an s, unless the count is one."""
    return noun if count == 1 else f"{noun}s"
