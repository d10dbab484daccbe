"""A few agreement sentences by hand, as cases of the bundled models."""

from __future__ import annotations

import functools

from mixlens import Lens
from mixlens.datasets.examples import Agreement
from mixlens.evaluating.case import Case

_SENTENCES = (
    ("The keys to the old cabinet are on the table .", "are", "is", "keys"),
    ("The dog near the gates is old .", "is", "are", "dog"),
    ("The girls who saw the boy were happy .", "were", "was", "girls"),
    ("The man with the books was tired .", "was", "were", "man"),
)


def agreement(text: str, target: str, foil: str, cue: str) -> Agreement:
    start, at = text.index(f" {target} ") + 1, text.index(cue)
    return Agreement(
        name=text,
        text=text,
        place=(start, start + len(target)),
        foil=foil,
        cues=((at, at + len(cue)),),
    )


@functools.cache
def lens(name: str = "masked") -> Lens:
    return Lens.bundled(name)


@functools.cache
def cases(name: str = "masked") -> tuple[Case, ...]:
    return tuple(Case(lens(name), agreement(*parts)) for parts in _SENTENCES)
