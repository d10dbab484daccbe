"""Names that do not exist."""

from __future__ import annotations

import pytest

from mixlens.text.suggestions import no_such

KNOWN = ("attention", "attention_norm", "value_zeroing", "alti")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("value_zeroin", "did you mean value_zeroing?"),
        ("Value-Zeroing", "did you mean value_zeroing?"),
        ("ValueZeroing", "did you mean value_zeroing?"),
        ("value zeroing", "did you mean value_zeroing?"),
        ("ALTI", "did you mean alti?"),
        ("foo", "choose one of: attention, attention_norm, value_zeroing, alti"),
        (None, "Unknown measure None; choose one of"),
    ],
)
def test_the_nearest_name_is_offered(name: object, words: str) -> None:
    assert words in no_such("measure", name, KNOWN)


def test_nothing_to_offer() -> None:
    assert no_such("option", "x", (), "it has") == "Unknown option 'x'; it has: none"
