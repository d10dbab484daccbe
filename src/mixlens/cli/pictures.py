"""`--figure` and `--html`: save the output of a command as a figure or a page."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixlens.cli.help import OUTPUT
from mixlens.errors import InvalidInput, no_such

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FigureOption = Annotated[
    Path | None,
    typer.Option(
        "--figure",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Save a figure as .png, .pdf or .svg.",
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Save an interactive page that needs no server.",
    ),
]


def check_figure(path: Path | None, kind: str | None, kinds: Callable[[], Collection[str]]) -> None:
    """Raise if a figure cannot be drawn or written. Call this before a model runs."""
    if kind is not None and path is None:
        raise InvalidInput(f"--kind {kind} needs --figure. Pass the file to draw.")
    if path is None:
        return
    from mixlens.views.canvas import figure_format

    figure_format(path)
    if kind is not None and kind not in kinds():
        raise InvalidInput(no_such("kind of figure", kind, kinds()))
    if not path.parent.is_dir():
        raise InvalidInput(
            f"Folder {path.parent} of --figure {path} does not exist. Create it first."
        )


def write_figure(path: Path, draw: Callable[[], Figure]) -> None:
    """Draw and save a figure. Characters that no font contains are reported in one line."""
    from mixlens.views.canvas import save_figure
    from mixlens.views.fonts import MissingGlyphWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save_figure(draw(), path)
    for message in dict.fromkeys(
        str(warning.message)
        for warning in caught
        if issubclass(warning.category, MissingGlyphWarning)
    ):
        typer.echo(f"note: {message}", err=True)
    typer.echo(f"saved the figure in {path}", err=True)
