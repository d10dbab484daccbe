"""Which examples are learned from and which are kept for judging: by seed, the same every time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from mixlens.datasets.examples import Example, Labelled
from mixlens.errors import InvalidInput

Kind = TypeVar("Kind", bound=Example)


def halves(examples: Sequence[Kind], seed: int = 0) -> tuple[list[Kind], list[Kind]]:
    """Examples to learn from and to judge by, half of each group (paradigm); after an odd count the
    first part has one more.
    """
    return _parted(examples, lambda example: example.group or "", 0.5, seed)


def portion(
    examples: Sequence[Labelled], share: float = 0.1, seed: int = 0
) -> tuple[list[Labelled], list[Labelled]]:
    """Examples to learn from, and a share of each class to judge by."""
    return _parted(examples, lambda example: example.label, share, seed)


def _parted(
    examples: Sequence[Kind], part_of: Callable[[Kind], str], share: float, seed: int
) -> tuple[list[Kind], list[Kind]]:
    """Each part of the data is cut by itself.

    What is in both results would be a leak, so equal texts stay together.
    """
    chance = random.Random(seed)
    parts: dict[str, dict[tuple[str, str | None], list[Kind]]] = {}
    for example in examples:
        parts.setdefault(part_of(example), {}).setdefault((example.text, example.pair), []).append(
            example
        )
    first: list[Kind] = []
    second: list[Kind] = []
    for _, texts in sorted(parts.items()):
        order = chance.sample(list(texts.values()), len(texts))
        kept = int(len(order) * share)
        for same in order[: len(order) - kept]:
            first += same
        for same in order[len(order) - kept :]:
            second += same
    if not first or not second:
        raise InvalidInput(
            f"{len(examples)} examples, with {sum(map(len, parts.values()))} different texts, are"
            " too few to learn from some and judge by others"
        )
    return first, second
