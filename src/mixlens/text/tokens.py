"""The tokens of one text: their labels and offsets."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mixlens.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An image whose patches are tokens: row by row, from the token `first` on."""

    src: str  # a data URI
    rows: int
    columns: int
    first: int


class Segment(NamedTuple):
    """Tokens that belong together, such as a turn of a chat or a document of a prompt."""

    name: str
    start: int  # its first token
    stop: int  # after its last


@dataclass(frozen=True)
class TokenRow:
    """The real tokens of a text, without padding."""

    labels: tuple[str, ...]
    text: str | None = None
    # Characters of `text`. A special token that is not in the text has (0, 0).
    offsets: tuple[tuple[int, int], ...] | None = None
    special: tuple[bool, ...] | None = None
    segments: tuple[Segment, ...] | None = None  # in order; names may repeat
    picture: Picture | None = field(default=None, kw_only=True, repr=False)
    seconds: float | None = field(default=None, kw_only=True)  # duration of one token of audio

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def segment_names(self) -> tuple[str, ...] | None:
        """Return the segment of each token, or None if there are no segments."""
        if self.segments is None:
            return None
        return tuple(part.name for part in self.segments for _ in range(part.start, part.stop))

    @classmethod
    def numbered(cls, count: int) -> TokenRow:
        """Return numbered tokens, for frames, patches and inputs without a tokenizer."""
        return cls(tuple(str(i) for i in range(count)))


class Produced(NamedTuple):
    """The token that each position of a continued prompt produced: the next one."""

    tokens: TokenRow
    ids: tuple[int, ...]
    first: int = 0  # the position that produced the first token of the continuation
    merges: bool = False  # does that token cover words of the prompt, too?


def resolved(indices: Sequence[int], length: int) -> list[int]:
    """Return positions with negative ones counted from the end. Raise IndexError outside the
    text.
    """
    places = [index + length if index < 0 else index for index in indices]
    for index, position in zip(indices, places, strict=True):
        if not 0 <= position < length:
            raise IndexError(f"Token {index} is out of range (0–{length - 1}).")
    return places


def listed(given: Any, what: str) -> list[Any] | None:
    """Return one or several items as a list; None stays None."""
    if given is None:
        return None
    one = isinstance(given, str) or not hasattr(given, "__iter__") or getattr(given, "ndim", 1) == 0
    several = [given] if one else list(given)
    if not several:
        raise InvalidInput(f"The list of {what} is empty. Drop it for all of them.")
    return several


def whole_numbers(given: Any, what: str) -> list[int] | None:
    """Return one or several integers as a list; None stays None."""
    several = listed(given, what)
    return None if several is None else [_whole_number(number, what) for number in several]


def _whole_number(given: Any, what: str) -> int:
    try:
        if isinstance(given, bool):
            raise TypeError
        return operator.index(given)
    except TypeError:
        raise InvalidInput(
            f"{given!r} is not an integer, or a list of them. Pass integers as {what}."
        ) from None


def cls_position(tokenizer: Any, labels: Sequence[str]) -> int:
    """Return the position of the [CLS] token, at the beginning or at the end (XLNet), or 0 if the
    text has none.
    """
    mark = getattr(tokenizer, "cls_token", None)
    if mark is None or mark not in labels or labels[0] == mark:
        return 0
    return len(labels) - 1 - list(labels)[::-1].index(mark)
