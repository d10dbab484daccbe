"""Find the positions of named targets in each text: by position, by label, or by a label and its
number.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence

from mixlens.errors import InvalidInput
from mixlens.text.suggestions import no_such
from mixlens.text.tokens import TokenRow, resolved

_MARKS = "Ġ▁"


class EachText(tuple[tuple[int | str, ...], ...]):
    """Targets that differ by text, equally many for each text of a batch."""


def positions_by_text(
    targets: Sequence[int | str] | EachText,
    rows: Sequence[TokenRow],
    *,
    first: Sequence[Sequence[int]] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the named targets in every text of a batch. Labels are searched among
    the positions of `first` before all others.
    """
    named = targets if isinstance(targets, EachText) else [targets] * len(rows)
    before: Sequence[Sequence[int]] = [()] * len(rows) if first is None else first
    return tuple(
        tuple(_found(target, row, known) for target in own)
        for own, row, known in zip(named, rows, before, strict=True)
    )


def _found(target: int | str, row: TokenRow, first: Sequence[int]) -> int:
    if isinstance(target, str) and first:
        with contextlib.suppress(InvalidInput):
            return position_of(target, row, first)
    return position_of(target, row, range(len(row)))


def position_of(target: int | str, row: TokenRow, held: Sequence[int]) -> int:
    """Return the position of a measured token, from its position or its label.

    You can write a label as in the vocabulary (Ġvery), as displayed (·very), without its marker
    (very), or in a different case. If several match, `dogs#2` is the second.
    """
    if isinstance(target, str):
        position = _labelled(target, row, list(dict.fromkeys(held)))
    elif isinstance(target, bool) or not hasattr(target, "__index__"):
        raise InvalidInput(f"{target!r} is not a token. Pass a position or a label.")
    else:
        try:
            (position,) = resolved([int(target)], len(row))
        except IndexError as error:
            raise InvalidInput(
                f"Token {target} is out of range (0–{len(row) - 1}). The text has {len(row)}"
                " tokens."
            ) from error
    if position not in held:
        raise InvalidInput(
            f"Target {target} was not measured. Choose one of: {', '.join(map(str, held))}."
        )
    return position


def _labelled(label: str, row: TokenRow, held: list[int]) -> int:
    places = _written(label, row, held)
    name, number = label, None
    if not places and (numbered := re.fullmatch(r"(.+)#([1-9]\d{0,8})", label)):
        name, number = numbered[1], int(numbered[2])
        places = _written(name, row, held)
    if not places:
        raise InvalidInput(no_such("token", name, _shown(row, held), "The text has"))
    if number is not None and number <= len(places):
        return places[number - 1]
    if number is not None or len(places) > 1:
        raise InvalidInput(
            f"{name!r} occurs at the positions {', '.join(map(str, places))}. Pass a position,"
            f" or write {' or '.join(f'{name}#{i + 1}' for i in range(min(len(places), 3)))}."
        )
    return places[0]


def _written(label: str, row: TokenRow, held: list[int]) -> list[int]:
    """Return the positions of tokens with this label, by the closest spelling that matches."""
    dots = str.maketrans(dict.fromkeys(_MARKS, "·"))
    readings: tuple[Callable[[str], str], ...] = (
        str,
        lambda text: text.translate(dots),
        lambda text: text.lstrip(_MARKS + "·"),
        lambda text: text.lstrip(_MARKS + "·").casefold(),
    )
    for reading in readings:
        wanted = reading(label)
        places = [i for i in held if reading(row.labels[i]) == wanted]
        if places:
            return places
    return []


def _shown(row: TokenRow, held: list[int]) -> list[str]:
    """Return labels for a message, shortened to a few lines."""
    labels = list(dict.fromkeys(row.labels[i] for i in held))
    return labels if len(labels) <= 60 else [*labels[:60], "…"]
