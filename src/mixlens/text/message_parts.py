"""Format parts of messages: counts with nouns ("1 text", "2 texts"), and suggestions for unknown
names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LISTED_BY = {"measure": "Run `mixlens measures` for the list."}


def no_such(kind: str, name: object, known: Iterable[str], among: str = "Choose one of") -> str:
    """Return an error message for an unknown name, with similar names as suggestions.

    For example: "Unknown measure 'value_zeroin'. Did you mean value_zeroing?". If no name is
    similar, the message lists all names or says how to list them.
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
    """Return a count with its noun, such as "2 texts"."""
    return f"{count} {plural(noun, count)}"


def plural(noun: str, count: int) -> str:
    """Return the plural of the noun, or the noun itself if the count is one."""
    return noun if count == 1 else f"{noun}s"
