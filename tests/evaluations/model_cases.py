"""Cases of the small random models, which have no tokenizer, and of the bundled ones."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import mixlens
from mixlens.corpus.examples import Example
from mixlens.evaluations._case import Case
from tests.measures.models import recording

TEXTS = (
    "The keys to the old cabinet are on the table, and nobody knows.",
    "A dog sat, the cat ran.",
    "They told us a long story. We left.",
    "She gave him three books, two pens and a map.",
)


def random_case(name: str, length: int, seed: int = 0) -> Any:
    example = Example(name=f"{name} {seed}", text=f"{name} of {length} tokens, {seed}")
    return SimpleNamespace(recording=recording(name, length, seed), example=example, lens=SimpleNamespace(tokenizer=None))


@functools.cache
def bundled(name: str) -> mixlens.Lens:
    return mixlens.Lens.bundled(name)


@functools.cache
def bundled_cases(name: str) -> tuple[Case, ...]:
    return tuple(Case(bundled(name), Example(name=str(i), text=text)) for i, text in enumerate(TEXTS))
