"""A name that does not exist: the nearest ones that do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def no_such(kind: str, name: object, known: Iterable[str], among: str = "choose one of") -> str:
    """ "there is no measure 'value_zeroin': did you mean value_zeroing?", or the whole list if
    nothing is near.
    """
    names = {candidate.casefold().replace("-", "_"): candidate for candidate in known}
    wanted = str(name).casefold().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(wanted, names, 3, 0.65)
    near = near or [key for key in names if key.replace("_", "") == wanted.replace("_", "")]
    if near:
        return f"there is no {kind} {name!r}: did you mean {' or '.join(names[n] for n in near)}?"
    return f"there is no {kind} {name!r}; {among}: {', '.join(names.values()) or 'none'}"
