"""Split examples for training and evaluation, by seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from mixlens.datasets.examples import Example, Labelled
from mixlens.errors import InvalidInput

Kind = TypeVar("Kind", bound=Example)


def halves(examples: Sequence[Kind], seed: int = 0) -> tuple[list[Kind], list[Kind]]:
    """Return training and evaluation examples, half of each group (paradigm). Of an odd number, the
    first part gets one more.
    """
    return _parted(examples, lambda example: example.group or "", 0.5, seed)


def portion(
    examples: Sequence[Labelled], share: float = 0.1, seed: int = 0
) -> tuple[list[Labelled], list[Labelled]]:
    """Return training examples, and a fraction of each class for evaluation."""
    return _parted(examples, lambda example: example.label, share, seed)


def _parted(
    examples: Sequence[Kind], part_of: Callable[[Kind], str], share: float, seed: int
) -> tuple[list[Kind], list[Kind]]:
    """Split each part of the data.

    Equal texts stay together, because a text in both results would be a leak.
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
            f"{len(examples)} examples with {sum(map(len, parts.values()))} different texts "
            "are too few to split. Pass more examples."
        )
    return first, second
