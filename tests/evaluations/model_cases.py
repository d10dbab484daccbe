"""Cases of the small random models, which have no tokenizer, and of the bundled ones."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import mixlens
from mixlens.datasets.examples import Example
from mixlens.evaluating.case import Case
from mixlens.measuring.measure import measure as measured
from mixlens.recording.recording import Recording
from tests.measures.models import recording

TEXTS = (
    "The keys to the old cabinet are on the table, and nobody knows.",
    "A dog sat, the cat ran.",
    "They told us a long story. We left.",
    "She gave him three books, two pens and a map.",
)


def random_case(name: str, length: int, seed: int = 0) -> Any:
    return case_of(recording(name, length, seed), f"{name} of {length} tokens, {seed}")


def case_of(recorded: Recording, name: str) -> Any:
    maps: dict[str, Any] = {}

    def remembered(measure: str, **options: Any) -> Any:
        key = repr((measure, sorted(options.items())))
        if key not in maps:
            maps[key] = measured(measure, recorded, **options)
        return maps[key]

    return SimpleNamespace(
        recording=recorded,
        example=Example(name=name, text=name),
        lens=SimpleNamespace(tokenizer=None),
        maps=remembered,
    )


@functools.cache
def bundled(name: str) -> mixlens.Lens:
    return mixlens.Lens.bundled(name)


@functools.cache
def bundled_cases(name: str) -> tuple[Case, ...]:
    return tuple(
        Case(bundled(name), Example(name=str(i), text=text)) for i, text in enumerate(TEXTS)
    )
