"""Saliency: the text, with each token shaded by its score for one target."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import InvalidInput
from mixlens.views.canvas import drawable, panels
from mixlens.views.labels import WORD_MARKS, is_right_to_left, printable, visible
from mixlens.views.matrix import scale_bar
from mixlens.views.plots.chosen import ReadLayers, read_layers, target_name, target_of, whole_layers
from mixlens.views.style import LIGHT, TARGET, TEXT, WIDTH, shades

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.text.tokens import TokenRow

_LINE = 1.9  # line height, in multiples of the font size
_JOINER = "\u200d"


def draw(
    maps: MixingMaps,
    *,
    target: int | str | None = None,
    layer: int | None = None,
    head: int | None = None,
    size: float = TEXT,
    width: float = WIDTH,
) -> tuple[Figure, str]:
    """Draw the text, shaded by the scores for the target. The target is outlined.

    The default target is the mask token, or else the last token that is not special. `width` is in
    inches.
    """
    maps, of_head = whole_layers(maps, head)
    position = target_of(maps, target)
    reading = read_layers(maps.at(targets=[position]), layer)
    among = maps.source_row == maps.target_row
    outlined = position if among else None
    figure = _draw_text(maps.source_row, reading, outlined, maps.facts.signed, size, width)
    detail = [target_name(maps, position), reading.name, of_head]
    return figure, ", ".join(filter(None, detail))


def _draw_text(
    row: TokenRow,
    reading: ReadLayers,
    target: int | None,
    signed: bool,
    size: float,
    width: float,
) -> Figure:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    (scores,) = reading.scores
    fragments, gaps = _fragments(row)
    fragments = drawable(fragments)
    if not fragments:
        raise InvalidInput("No tokens are left to draw. Keep at least one.")
    figure, (axes,) = panels(1, width=width, height=1)
    axes.set_axis_off()
    inside = width * 72 - 60  # points, next to the scale
    air = [1.2 * (gap + after) for gap, after in zip(gaps, [*gaps[1:], True], strict=True)]
    widths = [w + a for w, a in zip(_widths(figure, fragments, size), air, strict=True)]
    lines = _lines(widths, gaps, inside, size * 0.3)
    figure.set_figheight((len(lines) * _LINE * size + 46) / 72)
    axes.set_xlim(0, inside)
    axes.set_ylim(len(lines) * _LINE * size, 0)
    largest = float(np.nanmax(np.abs(scores))) or 1.0
    scale = ScalarMappable(Normalize(-largest if signed else 0.0, largest), shades(signed))
    leftwards = is_right_to_left(row.text or "".join(fragments))
    for number, line in enumerate(lines):
        for token, x in _place_tokens(line, row, leftwards, inside):
            y = (number + 0.5) * _LINE * size
            _box(axes, x, y, widths[token], size, scale.to_rgba(scores[token]), token == target)
            _write(axes, x + widths[token] / 2, y, fragments[token], size, scale, scores[token])
    scale_bar(figure, scale, [axes], reading.unit)
    return figure


def _fragments(row: TokenRow) -> tuple[list[str], list[bool]]:
    """Return each token as it is written in the text, and whether a space precedes it."""
    fragments, gaps = [], []
    marked = any(label.startswith(WORD_MARKS) for label in row.labels)
    for number, label in enumerate(row.labels):
        special = bool(row.special and row.special[number])
        if row.text is None or row.offsets is None or special:
            piece = printable(label.lstrip("".join(WORD_MARKS)).removeprefix("##"))
            gap = special or (label.startswith(WORD_MARKS) if marked else label[:2] != "##")
        else:
            start, stop = row.offsets[number]
            written_token = row.text[start:stop]
            piece = visible(written_token.strip()) or printable(label)
            before = row.text[:start]
            gap = written_token[:1].isspace() or before[-1:].isspace()
            gap = gap or bool(number and row.special and row.special[number - 1])
            piece = _join_letters(piece, row.text, start, stop)
        fragments.append(piece)
        gaps.append(gap)
    return fragments, gaps


def _join_letters(piece: str, text: str, start: int, stop: int) -> str:
    """Return a piece of a cursive word, with zero-width joiners where the word was split.

    The joiners preserve the shapes of the letters inside the word.
    """
    before = _is_arabic(text[start - 1 : start]) and _is_arabic(piece[:1])
    after = _is_arabic(text[stop : stop + 1]) and _is_arabic(piece[-1:])
    return _JOINER * before + piece + _JOINER * after


def _is_arabic(character: str) -> bool:
    return bool(character) and unicodedata.bidirectional(character) == "AL"


def _widths(figure: Figure, fragments: list[str], size: float) -> list[float]:
    """Return the width of each fragment in points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    text: Any = figure.text(0, 0, "", fontsize=size)
    widths = []
    for piece in fragments:
        text.set_text(piece)
        pixels = text.get_window_extent(renderer).width
        widths.append(max(float(pixels) * 72 / figure.dpi, 2.0))
    text.remove()
    return widths


def _lines(
    widths: list[float], gaps: list[bool], inside: float, space: float
) -> list[list[tuple[int, float, float]]]:
    """Break tokens into lines, and return (token, left, right) for each token, in reading order.

    Lines break only between words, unless a word is longer than a line.
    """
    words: list[list[int]] = []
    for token, gap in enumerate(gaps):
        if gap or not words:
            words.append([])
        words[-1].append(token)
    lines: list[list[tuple[int, float, float]]] = [[]]
    x = 0.0
    for word in words:
        x += space if lines[-1] else 0.0
        if lines[-1] and x + sum(widths[token] for token in word) > inside:
            lines.append([])
            x = 0.0
        for token in word:
            if lines[-1] and x + widths[token] > inside:  # a word longer than a line
                lines.append([])
                x = 0.0
            lines[-1].append((token, x, x + widths[token]))
            x += widths[token]
    return lines


def _place_tokens(
    line: list[tuple[int, float, float]], row: TokenRow, leftwards: bool, inside: float
) -> list[tuple[int, float]]:
    """Return the horizontal position of each token of a line.

    Runs of tokens in the opposite writing direction are reversed.
    """
    positions, start = [], 0
    backwards = [is_right_to_left(row.labels[token]) for token, _, _ in line]
    neutral = [not any(c.isalpha() for c in row.labels[token]) for token, _, _ in line]
    directions = [b if not n else leftwards for b, n in zip(backwards, neutral, strict=True)]
    while start < len(line):
        stop = start + 1
        while stop < len(line) and directions[stop] == directions[start]:
            stop += 1
        low, high = line[start][1], line[stop - 1][2]
        for token, left, right in line[start:stop]:
            x = left if directions[start] == leftwards else low + high - right
            positions.append((token, inside - x - (right - left) if leftwards else x))
        start = stop
    return positions


def _box(
    axes: Any, x: float, y: float, width: float, size: float, colour: Any, outlined: bool
) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle(
            (x, y - 0.75 * size),
            width,
            1.5 * size,
            facecolor=colour,
            edgecolor=TARGET if outlined else "none",
            linewidth=1.6,
            zorder=2 if outlined else 1,
        )
    )


def _write(
    axes: Any, x: float, y: float, piece: str, size: float, shades: Any, score: float
) -> None:
    red, green, blue, _ = shades.to_rgba(score)
    dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5
    axes.text(
        x,
        y,
        piece,
        fontsize=size,
        ha="center",
        va="center_baseline",
        color="white" if dark else LIGHT["ink"],
        zorder=3,
    )
