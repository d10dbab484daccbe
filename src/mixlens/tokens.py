"""The tokens of one row of a recording: their labels, and where each stands in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TokenRow:
    """Real tokens only: padding is never in it."""

    labels: tuple[str, ...]
    text: str | None = None
    offsets: tuple[tuple[int, int], ...] | None = (
        None  # characters of `text`; (0, 0) for special tokens
    )
    special: tuple[bool, ...] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def numbered(cls, count: int) -> TokenRow:
        """For frames, patches and inputs without a tokenizer."""
        return cls(tuple(str(i) for i in range(count)))


def resolved(indices: Sequence[int], length: int) -> list[int]:
    """Positions with negative ones counted from the end; raises IndexError outside the row."""
    found = [index + length if index < 0 else index for index in indices]
    for index, position in zip(indices, found, strict=True):
        if not 0 <= position < length:
            raise IndexError(f"token {index} is outside a row of {length} tokens")
    return found
