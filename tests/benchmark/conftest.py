"""Sentences whose answer is known, and the bundled model."""

from __future__ import annotations

import pytest

from mixlens import Lens
from mixlens.datasets.examples import Agreement

SENTENCES = (
    ("The pictures of some hat are scaring Marcus.", "pictures", "are", "is"),
    ("The keys to the old cabinet are on the table.", "keys", "are", "is"),
    ("The author of the books has written a letter.", "author", "has", "have"),
    ("The sisters of the king are not leaving the house.", "sisters", "are", "is"),
    ("The teacher with the red books is smiling.", "teacher", "is", "are"),
    ("The dogs near the river were barking.", "dogs", "were", "was"),
)


def agreement(number: int, text: str, cue: str, target: str, foil: str) -> Agreement:
    place, cue_place = text.index(f" {target} ") + 1, text.index(cue)
    label = "plural" if foil in ("is", "was", "has") else "singular"
    return Agreement(
        name=f"sentences:{number}",
        text=text,
        place=(place, place + len(target)),
        foil=foil,
        cues=((cue_place, cue_place + len(cue)),),
        label=label,
    )


@pytest.fixture(scope="session")
def examples() -> list[Agreement]:
    return [agreement(number, *sentence) for number, sentence in enumerate(SENTENCES, 1)]


@pytest.fixture(scope="session")
def lens() -> Lens:
    return Lens.bundled()
