"""Names that do not exist."""

from __future__ import annotations

import pytest

from mixlens.errors import InvalidInput, MissingExtra, list_reasons, no_such

KNOWN = ("attention", "attention_norm", "value_zeroing", "alti")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("value_zeroin", "Did you mean value_zeroing?"),
        ("Value-Zeroing", "Did you mean value_zeroing?"),
        ("ValueZeroing", "Did you mean value_zeroing?"),
        ("value zeroing", "Did you mean value_zeroing?"),
        ("ALTI", "Did you mean alti?"),
        ("foo", "Unknown measure 'foo'. Run `mixlens measures` for the list."),
        (None, "Unknown measure None. Run `mixlens measures`"),
    ],
)
def test_the_nearest_name_is_offered(name: object, words: str) -> None:
    assert words in no_such("measure", name, KNOWN)


def test_nothing_to_offer() -> None:
    assert no_such("option", "x", (), "It has") == "Unknown option 'x'. It has no options."
    assert no_such("option", "x", ("y",)) == "Unknown option 'x'. Choose one of: y."


def test_messages_end_with_a_full_stop() -> None:
    assert str(InvalidInput("The text is empty")) == "The text is empty."
    assert str(InvalidInput("Did you mean alti?")) == "Did you mean alti?"
    assert str(MissingExtra("scipy")).endswith("'mixlens[eval]'.")
    assert list_reasons({"alti": "no layers", "random": "No."}) == "alti: no layers. random: No."
