"""Find fonts that contain the letters of a text.

matplotlib combines several fonts in one text. Its own font has no Chinese, Japanese, Korean, Hindi
or Thai, so the fonts of this machine are searched. matplotlib (3.11 and newer) shapes joined and
right-to-left letters itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

from mixlens.views.style import FONT

MISSING = "\N{REPLACEMENT CHARACTER}"


class MissingGlyphWarning(UserWarning):
    """No font of this machine has a character that a figure must show."""


def families_for(texts: Iterable[str]) -> list[str]:
    """Return font families that together contain every character of the texts, our own font first.

    Characters that no font has are listed in a warning.
    """
    families, missing = _cover(_codes("".join(texts)))
    if missing:
        named = ", ".join(f"{chr(code)} (U+{code:04X})" for code in sorted(missing)[:8])
        warnings.warn(
            f"No font of this machine has {named}, so {MISSING} is drawn instead. Install a "
            "font that has it, such as one of the Noto family.",
            MissingGlyphWarning,
            stacklevel=2,
        )
    return list(families)


def without_missing(text: str) -> str:
    """Return the text with � for each character that no font of this machine has."""
    _, missing = _cover(_codes(text))
    return "".join(MISSING if ord(character) in missing else character for character in text)


def _codes(text: str) -> frozenset[int]:
    return frozenset(ord(character) for character in text if not character.isspace())


@cache
def _cover(wanted: frozenset[int]) -> tuple[tuple[str, ...], frozenset[int]]:
    """Return few families by a greedy search, and the characters that none has."""
    families, missing, region = [FONT], wanted - _characters(_own_font()), _region(wanted)
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
    """Return the region of the Chinese characters: Japan next to kana, Korea next to hangul."""
    if any(0x3040 <= code <= 0x30FF for code in codes):
        return " JP"
    return " KR" if any(0xAC00 <= code <= 0xD7A3 for code in codes) else " SC"


def _own_font() -> str:
    from matplotlib.font_manager import findfont

    return str(findfont(FONT))


@cache
def _other_fonts() -> list[tuple[str, str]]:
    """Return family and path of the upright fonts of normal weight, those without serifs first."""
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
