"""Find fonts that can display a text.

matplotlib can combine several fonts in one text. Its default font does not cover Chinese, Japanese,
Korean, Hindi or Thai, so this module searches the fonts that are installed. Since version 3.11,
matplotlib itself shapes cursive scripts and handles right-to-left text.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

from mixlens.views.style import FONT

MISSING = "\N{REPLACEMENT CHARACTER}"


class MissingGlyphWarning(UserWarning):
    """Warns that no installed font has a glyph for a character in a figure."""


def families_for(texts: Iterable[str]) -> list[str]:
    """Return font families that together cover all characters of the texts. The default font is
    first.

    A warning lists the characters that no installed font has.
    """
    families, missing = _cover(_codes("".join(texts)))
    if missing:
        characters = ", ".join(f"{chr(code)} (U+{code:04X})" for code in sorted(missing)[:8])
        warnings.warn(
            f"No font of this machine has {characters}, so {MISSING} is drawn instead. Install a "
            "font that has it, such as one of the Noto family.",
            MissingGlyphWarning,
            stacklevel=2,
        )
    return list(families)


def without_missing(text: str) -> str:
    """Replace each character that no installed font has with �."""
    _, missing = _cover(_codes(text))
    return "".join(MISSING if ord(character) in missing else character for character in text)


def _codes(text: str) -> frozenset[int]:
    return frozenset(ord(character) for character in text if not character.isspace())


@cache
def _cover(characters: frozenset[int]) -> tuple[tuple[str, ...], frozenset[int]]:
    """Return a small set of font families that covers the characters, and the characters that no
    font covers.

    The families are found by a greedy search.
    """
    families, missing, region = [FONT], characters - _characters(_own_font()), _region(characters)
    while missing:
        family, path = max(
            _other_fonts(),
            key=lambda font: (len(missing & _characters(font[1])), font[0].endswith(region)),
        )
        if not missing & _characters(path):
            break
        families.append(family)
        missing -= _characters(path)
    return tuple(families), missing


def _region(codes: frozenset[int]) -> str:
    """Return the suffix that fonts for Chinese characters have in their names.

    The suffix is " JP" if the text has kana, " KR" if it has hangul, and otherwise " SC".
    """
    if any(0x3040 <= code <= 0x30FF for code in codes):
        return " JP"
    return " KR" if any(0xAC00 <= code <= 0xD7A3 for code in codes) else " SC"


def _own_font() -> str:
    from matplotlib.font_manager import findfont

    return str(findfont(FONT))


@cache
def _other_fonts() -> list[tuple[str, str]]:
    """Return the family name and the path of every upright font of normal weight.

    Sans-serif fonts come first.
    """
    from matplotlib.font_manager import fontManager

    fonts: list[Any] = [
        font
        for font in fontManager.ttflist
        if font.style == "normal"
        and font.weight in (400, "normal", "regular", "book")
        and not font.name.startswith("Last Resort")  # draws the block of a character
    ]
    fonts.sort(key=lambda font: (" Sans" not in font.name, "Mono" in font.name, font.name))
    return [(str(font.name), str(font.fname)) for font in fonts]


@cache
def _characters(path: str) -> frozenset[int]:
    from matplotlib.font_manager import get_font

    try:
        return frozenset(get_font(path).get_charmap())
    except (RuntimeError, OSError):  # a font that FreeType cannot read
        return frozenset()
