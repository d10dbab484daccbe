"""Create and save figures in the mixlens style, without changing the user's rcParams.

Figures are matplotlib `Figure` objects. This module does not use pyplot or its global state.
"""

from __future__ import annotations

import functools
import io
import os
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from mixlens.errors import InvalidInput, MissingExtra
from mixlens.views.fonts import families_for, without_missing
from mixlens.views.style import FONT, HEIGHT, LIGHT, RC, SMALL, TEXT, TITLE, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Arguments = ParamSpec("Arguments")
Drawn = TypeVar("Drawn")

LARGEST = 16.0, 20.0  # inches
NARROWEST = 2.5  # inches
FORMATS = ("png", "pdf", "svg")


def apply_style(draw: Callable[Arguments, Drawn]) -> Callable[Arguments, Drawn]:
    """Decorate a drawing function to use the mixlens style. rcParams are restored afterwards."""

    @functools.wraps(draw)
    def draw_styled(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Drawn:
        try:
            import matplotlib as mpl
        except ImportError as error:
            raise MissingExtra("matplotlib", "plot") from error
        with mpl.rc_context(RC):
            return draw(*args, **kwargs)

    return draw_styled


@apply_style
def panels(
    count: int, *, columns: int = 1, width: float = WIDTH, height: float = HEIGHT, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` axes, arranged in rows of `columns`. Unused cells stay empty.

    `width` and `height` are the size of one panel in inches. The size of the figure is limited to
    `LARGEST`.
    """
    from mixlens.views.embedding_figure import EmbeddingFigure

    columns = min(columns, count)
    rows = -(-count // columns)
    size = min(width * columns, LARGEST[0]), min(height * rows, LARGEST[1])
    figure = EmbeddingFigure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    places = list(grid.flat)
    for empty in places[count:]:
        empty.set_axis_off()
    return figure, places[:count]


def check_width(width: float | None) -> None:
    """Raise an error if a figure cannot have this width in inches."""
    if width is not None and not NARROWEST <= width <= LARGEST[0]:
        raise InvalidInput(
            f"width={width!r} is out of range. Pass a width in inches from {NARROWEST} to "
            f"{LARGEST[0]:.0f}, such as 3.3 for one column of a paper."
        )


def axes_or_new(
    axes: Axes | None, width: float = WIDTH, height: float = HEIGHT
) -> tuple[Figure, Axes]:
    """Return the passed axes with their figure, or create new ones."""
    if axes is not None:
        figure: Any = axes.figure
        return figure, axes
    figure, places = panels(1, width=width, height=height)
    return figure, places[0]


def drawable(labels: Iterable[str]) -> list[str]:
    """Prepare labels for matplotlib.

    This selects fonts for the current figure that can display the labels, replaces characters that
    no font can display, and escapes $, which would start a formula.
    """
    import matplotlib as mpl

    texts = list(labels)
    mpl.rcParams["font.family"] = families_for(texts)  # inside `apply_style`, which restores it
    return [without_missing(text).replace("$", r"\$") for text in texts]


def name_ticks(
    axes: Axes, which: str, places: Iterable[float], labels: Iterable[str], **look: Any
) -> None:
    """Set the tick labels of the x or y axis, in fonts that can display them."""
    import matplotlib as mpl

    texts = drawable(labels)
    set_ticks = axes.set_xticks if which == "x" else axes.set_yticks
    set_ticks(list(places), texts, fontfamily=mpl.rcParams["font.family"], **look)


def finish(axes: Axes, title: str = "", x: str = "", y: str = "", *, legend: bool = False) -> None:
    """Set the title, axis labels and font sizes of the axes.

    A legend with more than five entries is placed next to the axes.
    """
    axes.set_title(title, fontsize=TITLE, loc="left")
    axes.set_xlabel(x, fontsize=TEXT)
    axes.set_ylabel(y, fontsize=TEXT)
    # Ticks may be created when the figure is saved, after our style was undone, so they are set
    # now.
    axes.tick_params(labelsize=SMALL, labelfontfamily=FONT, width=0.8, length=3)
    axes.set_axisbelow(True)
    if legend:
        outside: dict[str, Any] = (
            {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
            if len(axes.get_legend_handles_labels()[1]) > 5
            else {}
        )
        axes.legend(**outside)


def caption(figure: Figure, text: str) -> Figure:
    """Add a caption in small print below the figure."""
    (text,) = drawable([text])
    letters = int(figure.get_figwidth() * 72 / (SMALL * 0.52))
    wrapped = "\n".join(textwrap.wrap(text, max(30, letters), break_on_hyphens=False))
    figure.supxlabel(
        wrapped, x=0.01, ha="left", fontsize=SMALL, color=LIGHT["quiet"], linespacing=1.3
    )
    return figure


@apply_style
def save_figure(figure: Figure, path: str | os.PathLike[str], *, dots_per_inch: int = 200) -> None:
    """Save a figure as PNG, PDF or SVG, depending on the file extension."""
    kind = figure_format(path)
    extra: dict[str, Any] = (
        {"dpi": dots_per_inch} if kind == "png" else {"metadata": {_DATE[kind]: None}}
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **extra)
    Path(path).write_bytes(buffer.getvalue())


_DATE = {
    "svg": "Date",
    "pdf": "CreationDate",
}  # omitted, so that the same figure gives the same file


def figure_format(path: str | os.PathLike[str]) -> str:
    """Return the figure format of a file name, from its extension."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InvalidInput(
            f"Unsupported format {Path(path).suffix!r}. Use .{', .'.join(FORMATS[:-1])} or"
            f" .{FORMATS[-1]}."
        )
    return kind
