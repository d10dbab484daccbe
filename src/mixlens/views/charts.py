"""Draw charts of a ranking as SVG, for use in an HTML page.

Their colours adapt to light and dark mode, and they load no other files.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mixlens.views import figures
from mixlens.views.canvas import apply_style, finish, name_ticks, panels
from mixlens.views.style import BASELINE, LIGHT, measure_styles, series_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Dot = tuple[float, float, float]
"""A value with the ends of its interval, NaN if it has none."""


def rank_bars(ranks: Mapping[str, Dot]) -> str:
    """Return a bar chart of mean ranks, with the first measure at the top."""
    return inline_svg(_rank_figure(ranks), "Mean rank of every measure")


def evaluation_panels(
    panels: Mapping[str, Mapping[str, Dot]],
    order: Sequence[str],
    baseline: str,
    arrows: Mapping[str, str],
) -> str:
    """Return a chart with one panel for each evaluation.

    A dashed line marks the value of the random baseline.
    """
    titled = {f"{name} {arrows.get(name, '')}".strip(): dots for name, dots in panels.items()}
    return inline_svg(
        _panel_figure(titled, order, baseline=baseline),
        "Value and interval of every measure under every evaluation; dashed: random baseline",
    )


def layer_curves(curves: Mapping[str, Sequence[float]], label: str) -> str:
    """Return a line chart over the layers, with one line for each measure."""
    layers = list(range(max(map(len, curves.values()))))
    return inline_svg(figures.lines(curves, x=layers, y_label=label), f"{label} by layer")


@apply_style
def _rank_figure(ranks: Mapping[str, Dot]) -> Figure:
    """Draw mean ranks with their intervals, with the first measure at the top.

    Each measure has its own colour.
    """
    figure, (axes,) = panels(1, width=7.5, height=0.27 * len(ranks) + 0.8)
    styles = measure_styles()
    for place, (name, (value, low, high)) in enumerate(ranks.items()):
        colour = styles.get(name, series_style(0)).colour
        axes.barh(place, value, color=colour, height=0.62, alpha=0.85)
        if not math.isnan(low):
            axes.plot([low, high], [place, place], color=LIGHT["ink"], linewidth=1.2)
    finish(axes, x="mean rank (1 = best), with its 95 % interval")
    _name_rows(axes, list(ranks))
    axes.set_xlim(0, None)
    return figure


@apply_style
def _panel_figure(
    groups: Mapping[str, Mapping[str, Dot]], order: Sequence[str], *, baseline: str
) -> Figure:
    """Draw one panel for each entry of `groups`, which maps titles to the values of measures.

    A dashed line marks the value of the baseline.
    """
    columns = min(3, len(groups))
    figure, places = panels(
        len(groups),
        columns=columns,
        width=2.6 + 2.0 / columns,
        height=0.2 * len(order) + 0.9,
        sharey=True,
    )
    styles = measure_styles()
    for axes, (title, dots) in zip(places, groups.items(), strict=True):
        if baseline in dots:
            axes.axvline(dots[baseline][0], color=BASELINE, linewidth=1, linestyle="--")
        for place, measure in enumerate(order):
            if measure in dots:
                value, low, high = dots[measure]
                style = styles.get(measure, series_style(0))
                if not math.isnan(low):
                    axes.plot([low, high], [place, place], color=style.colour, linewidth=1.6)
                axes.plot([value], [place], style.marker or "o", color=style.colour, markersize=4.5)
        axes.grid(axis="y", color=LIGHT["line"], linewidth=0.6)
        finish(axes, title)
        axes.locator_params(axis="x", nbins=5)
        _name_rows(axes, order)
    return figure


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows on the left side, with the first name at the top."""
    name_ticks(axes, "y", range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


@apply_style
def inline_svg(figure: Figure, title: str) -> str:
    """Return the figure as an `<svg>` element with a title, unique ids, and the colours of the
    page.
    """
    import matplotlib as mpl

    mpl.rcParams["svg.fonttype"] = "none"  # inside `apply_style`; text uses the fonts of the page
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    text = text.replace(LIGHT["ink"], "currentColor")
    for name in ("quiet", "line"):
        text = text.replace(LIGHT[name], f"var(--{name}, {LIGHT[name].upper()})")
    prefix = re.sub(r"\W+", "-", title.lower())[:40]
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    size = f"width:100%;max-width:{float(_size(text)[0]) * 4 / 3:.0f}px;height:auto"
    return re.sub(
        r"<svg([^>]*)>", rf'<svg\1 style="{size}" role="img" aria-label="{title}">', text, count=1
    ).strip()


def standalone(svg: str) -> str:
    """Return the chart as a standalone SVG file, with dark lines on a white background."""
    head, tag, rest = svg.partition(">")
    width, height = _size(head)
    sized = re.sub(r' style="[^"]*"', f' width="{width}pt" height="{height}pt"', head)
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    text = f'<?xml version="1.0" encoding="utf-8"?>\n{sized}{tag}{paper}{rest}\n'
    text = re.sub(r"var\(--\w+, (#\w+)\)", r"\1", text)
    return text.replace("currentColor", LIGHT["ink"])


def _size(head: str) -> tuple[str, str]:
    box = re.search(r'viewBox="0 0 (\S+) (\S+)"', head)
    assert box is not None
    return box[1], box[2]
