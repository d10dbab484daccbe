"""Labels of tokens in figures: marks, bytes, direction and invisible characters."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixlens.text.tokens import TokenRow
from mixlens.views import fonts
from mixlens.views.fonts import MISSING, MissingGlyphWarning, families_for, without_missing
from mixlens.views.labels import (
    is_right_to_left,
    printable,
    select_ticks,
    shorten_label,
    token_labels,
)

matplotlib = pytest.importorskip("matplotlib")


def test_marks_breaks_and_hidden_characters_are_shown() -> None:
    assert printable("Ġthe") == "·the"
    assert printable("▁la") == "·la"
    assert printable("a\nb") == "a⏎b"
    assert printable("\u202eevil") == "‹U+202E›evil"
    assert printable("\u200b") == "‹U+200B›"
    assert printable("می\u200cخواهم") == "می\u200cخواهم"  # a joiner is spelling
    assert printable("") == "∅"


def test_bytes_become_the_letters_that_they_spell() -> None:
    text = "Les élèves 日本"
    row = TokenRow(
        ("Les", "ĠÃ©lÃ¨ves", "ĠæĹ¥", "æľ¬", "<eos>"),
        text,
        ((0, 3), (3, 10), (10, 12), (12, 13), (0, 0)),
        (False, False, False, False, True),
    )
    assert token_labels(row) == ["Les", "·élèves", "·日", "本", "<eos>"]


def test_a_vocabulary_that_spells_letters_keeps_its_spelling() -> None:
    row = TokenRow(("Größe", "##n", "été"), "Größen ete", ((0, 5), (5, 6), (7, 10)), (False,) * 3)
    assert token_labels(row)[:2] == ["Größe", "##n"]


def test_long_axes_name_every_few_tokens() -> None:
    places, names, note = select_ticks([f"t{i}" for i in range(10)], 4)
    assert places == [0, 3, 6, 9]
    assert names[1] == "3 t3"
    assert note == ", every 3rd token labelled"
    assert select_ticks(["a", "b"], 5) == ([0, 1], ["a", "b"], "")
    assert len(shorten_label("x" * 80)) <= 26


def test_direction_is_that_of_the_first_letter() -> None:
    assert is_right_to_left("(السلام")
    assert is_right_to_left("שלום")
    assert not is_right_to_left("a شيء")
    assert not is_right_to_left("123")


def test_a_glyph_that_no_font_has_is_reported() -> None:
    with pytest.warns(MissingGlyphWarning, match=r"U\+F0000"):
        families = families_for(["abc \U000f0000"])
    assert families == ["DejaVu Sans"]
    assert without_missing("a\U000f0000b") == f"a{MISSING}b"


def test_a_font_that_cannot_be_read_has_no_characters(tmp_path: Path) -> None:
    font = tmp_path / "broken.ttf"
    font.write_bytes(b"not a font")
    assert fonts._characters(str(font)) == frozenset()
