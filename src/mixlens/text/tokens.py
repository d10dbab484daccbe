"""Store the tokens of one text with their labels and offsets, and look them up by label.

You can select a token by its position, by its label, or by a label with a number (`dogs#2`).
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mixlens.errors import InvalidInput, no_such

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, as fractions of the width and height of an image. Values above 1 are
possible if the image was padded.
"""


class PatchGrid(NamedTuple):
    """Describes a grid of patches, one token per patch, row by row, starting with the token
    `first`.
    """

    first: int
    rows: int
    columns: int
    stride: int  # tokens from one row to the next
    box: Box = (0.0, 0.0, 1.0, 1.0)  # of the grid in the image


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Describes an image whose patches are tokens, in one grid, or several if it is split into
    tiles.
    """

    src: str  # a data URI
    grids: tuple[PatchGrid, ...]
    name: str = ""  # of its segment, such as "image 1"

    @property
    def is_plain(self) -> bool:
        """Return whether the tokens form a single grid over the whole image, with no other tokens
        in between.
        """
        first = self.grids[0]
        is_whole = first.box == (0.0, 0.0, 1.0, 1.0) and first.stride == first.columns
        return len(self.grids) == 1 and is_whole


class Segment(NamedTuple):
    """Describes a range of tokens that belong together, such as a turn of a chat or a document of a
    prompt.
    """

    name: str
    start: int  # its first token
    stop: int  # after its last


@dataclass(frozen=True)
class TokenRow:
    """Stores the tokens of a text, without padding."""

    labels: tuple[str, ...]
    text: str | None = None
    # Characters of `text`. A special token that is not in the text has (0, 0).
    offsets: tuple[tuple[int, int], ...] | None = None
    special: tuple[bool, ...] | None = None
    segments: tuple[Segment, ...] | None = None  # in order; names may repeat
    pictures: tuple[Picture, ...] = field(default=(), kw_only=True, repr=False)
    seconds: float | None = field(default=None, kw_only=True)  # duration of one token of audio

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def segment_names(self) -> tuple[str, ...] | None:
        """Return the name of each token's segment, or None if there are no segments."""
        if self.segments is None:
            return None
        return tuple(part.name for part in self.segments for _ in range(part.start, part.stop))

    @classmethod
    def numbered(cls, count: int) -> TokenRow:
        """Return `count` tokens labelled with numbers, for frames, patches and inputs without a
        tokenizer.
        """
        return cls(tuple(str(i) for i in range(count)))


class Produced(NamedTuple):
    """Stores the token that each position of a continued prompt produced.

    Each position produces the next token.
    """

    tokens: TokenRow
    ids: tuple[int, ...]
    first: int = 0  # the position that produced the first token of the continuation
    merges: bool = False  # does that token cover words of the prompt, too?


def resolve_positions(indices: Sequence[int], length: int) -> list[int]:
    """Convert negative positions, which count from the end, to positive ones.

    Raise IndexError if a position is outside the text.
    """
    places = [index + length if index < 0 else index for index in indices]
    for index, position in zip(indices, places, strict=True):
        if not 0 <= position < length:
            raise IndexError(f"Token {index} is out of range (0–{length - 1}).")
    return places


def to_list(value: Any, what: str) -> list[Any] | None:
    """Return one or several items as a list. None is returned unchanged."""
    if value is None:
        return None
    if isinstance(value, (set, frozenset)):
        raise InvalidInput(f"{value!r} is a set, which has no order. Pass {what} as a list.")
    one = isinstance(value, str) or not hasattr(value, "__iter__") or getattr(value, "ndim", 1) == 0
    several = [value] if one else list(value)
    if not several:
        raise InvalidInput(f"The list of {what} is empty. Leave it out to select all.")
    return several


def whole_numbers(value: Any, what: str) -> list[int] | None:
    """Return one or several integers as a list. None is returned unchanged."""
    several = to_list(value, what)
    return None if several is None else [whole_number(number, what) for number in several]


def whole_number(value: Any, what: str) -> int:
    """Return one integer. Raise `InvalidInput` for other values, such as a bool or a fraction."""
    try:
        return _index(value)
    except TypeError:
        raise InvalidInput(
            f"{value!r} is not an integer or a list of integers. Pass integers as {what}."
        ) from None


def _index(number: Any) -> int:
    """Return a number as an integer. Raise `TypeError` if it is not an integer, or if it is a bool,
    such as an entry of a mask.
    """
    if isinstance(number, bool) or str(getattr(number, "dtype", "")).endswith("bool"):
        raise TypeError
    return operator.index(number)


def cls_position(tokenizer: Any, labels: Sequence[str]) -> int:
    """Return the position of the [CLS] token, or 0 if the text has none.

    It is the first token in most models, and the last in XLNet.
    """
    mark = getattr(tokenizer, "cls_token", None)
    if mark is None or mark not in labels or labels[0] == mark:
        return 0
    return len(labels) - 1 - list(labels)[::-1].index(mark)


_MARKS = "Ġ▁"


class EachText(tuple[tuple[int | str, ...], ...]):
    """Stores targets that differ between the texts of a batch.

    All texts have the same number of targets.
    """


def positions_by_text(
    targets: Sequence[int | str] | EachText,
    texts: Sequence[TokenRow],
    *,
    first: Sequence[Sequence[int]] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the requested targets in every text of a batch.

    A label is first looked up among the positions in `first`, then among all others.
    """
    targets_by_text = targets if isinstance(targets, EachText) else [targets] * len(texts)
    before: Sequence[Sequence[int]] = [()] * len(texts) if first is None else first
    return tuple(
        tuple(_find_position(target, tokens, text_positions) for target in text_targets)
        for text_targets, tokens, text_positions in zip(targets_by_text, texts, before, strict=True)
    )


def _find_position(target: int | str, row: TokenRow, first: Sequence[int]) -> int:
    if isinstance(target, str) and first:
        with contextlib.suppress(InvalidInput):
            return position_of(target, row, first)
    return position_of(target, row, range(len(row)))


def position_of(target: int | str, row: TokenRow, positions: Sequence[int]) -> int:
    """Return the position of a measured token, given its position or its label.

    You can write a label as in the vocabulary (Ġvery), as displayed (·very), without its marker
    (very), or in a different case. If several tokens match, append a number: `dogs#2` selects the
    second match.
    """
    if isinstance(target, str):
        position = _find_labelled(target, row, list(dict.fromkeys(positions)))
    else:
        try:
            (position,) = resolve_positions([_index(target)], len(row))
        except TypeError:
            raise InvalidInput(f"{target!r} is not a token. Pass a position or a label.") from None
        except IndexError as error:
            raise InvalidInput(
                f"Token {target} is out of range (0–{len(row) - 1}). The text has {len(row)}"
                " tokens."
            ) from error
    if position not in positions:
        raise InvalidInput(
            f"Target {target} was not measured. Choose one of: {', '.join(map(str, positions))}."
        )
    return position


def _find_labelled(label: str, row: TokenRow, positions: list[int]) -> int:
    places = _find_label(label, row, positions)
    name, number = label, None
    if not places and (numbered := re.fullmatch(r"(.+)#([1-9]\d{0,8})", label)):
        name, number = numbered[1], int(numbered[2])
        places = _find_label(name, row, positions)
    if not places:
        raise InvalidInput(no_such("token", name, _list_labels(row, positions), "The text has"))
    if number is not None and number <= len(places):
        return places[number - 1]
    if number is not None or len(places) > 1:
        raise InvalidInput(
            f"{name!r} occurs at positions {', '.join(map(str, places))}. Pass a position,"
            f" or write {' or '.join(f'{name}#{i + 1}' for i in range(min(len(places), 3)))}."
        )
    return places[0]


def _find_label(label: str, row: TokenRow, positions: list[int]) -> list[int]:
    """Return the positions of tokens with this label.

    Labels are first compared exactly, then with markers displayed as dots, then without markers,
    and finally case-insensitively. The first comparison that finds a token is used.
    """
    dots = str.maketrans(dict.fromkeys(_MARKS, "·"))
    readings: tuple[Callable[[str], str], ...] = (
        str,
        lambda text: text.translate(dots),
        lambda text: text.lstrip(_MARKS + "·"),
        lambda text: text.lstrip(_MARKS + "·").casefold(),
    )
    for reading in readings:
        spelling = reading(label)
        places = [i for i in positions if reading(row.labels[i]) == spelling]
        if places:
            return places
    return []


def _list_labels(row: TokenRow, positions: list[int]) -> list[str]:
    """Return the labels to list in an error message, at most 60 of them."""
    labels = list(dict.fromkeys(row.labels[i] for i in positions))
    return labels if len(labels) <= 60 else [*labels[:60], "…"]
