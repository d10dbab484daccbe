"""Charts of a ranking as SVG text that takes its ink from the page: readable on light and on dark,
with no other file beside it.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK = "#010203"  # stands for the page's own colour of text until the SVG is written
_ACCENT, _QUIET, _FLOOR = "#3a8fd6", "#8a8f98", "#d9822b"
_LINES = ("#3a8fd6", "#2fa37c", "#c65b9d", "#8f7fe0", "#b8a12c", "#4fb3c9", "#e0655c")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mixlens",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}

Dot = tuple[float, float, float]
"""A value with the ends of its interval, NaN where it has none."""


def rank_bars(ranks: Mapping[str, Dot], baseline: str) -> str:
    """Mean ranks as bars, the first on top."""
    figure, (axis,) = _figure(1, 1, 7.5, 0.27 * len(ranks) + 0.7)
    for place, (name, (value, low, high)) in enumerate(ranks.items()):
        axis.barh(
            place, value, color=_FLOOR if name == baseline else _ACCENT, height=0.62, alpha=0.85
        )
        if not math.isnan(low):
            axis.plot([low, high], [place, place], color=_INK, linewidth=1.2)
    _names(axis, list(ranks))
    axis.set_xlim(0, None)
    axis.set_xlabel("mean rank (1 = best), with its 95 % interval")
    return _svg(figure, "Mean rank of every measure")


def evaluation_panels(
    panels: Mapping[str, Mapping[str, Dot]],
    order: Sequence[str],
    baseline: str,
    arrows: Mapping[str, str],
) -> str:
    """A panel for each evaluation: a dot and its interval for every measure, and a line where the
    random baseline stands.
    """
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, axes = _figure(
        rows, columns, 2.2 + 2.5 * columns, rows * (0.2 * len(order) + 0.9), sharey=True
    )
    for axis, (name, dots) in zip(axes, panels.items(), strict=False):
        if baseline in dots:
            axis.axvline(dots[baseline][0], color=_FLOOR, linewidth=1, linestyle="--")
        for place, measure in enumerate(order):
            if measure in dots:
                value, low, high = dots[measure]
                colour = _FLOOR if measure == baseline else _ACCENT
                if not math.isnan(low):
                    axis.plot([low, high], [place, place], color=colour, linewidth=1.6, alpha=0.8)
                axis.plot([value], [place], "o", color=colour, markersize=4)
        axis.set_title(f"{name} {arrows.get(name, '')}".strip(), fontweight="bold", fontsize=9)
        axis.locator_params(axis="x", nbins=5)
        axis.grid(axis="y", color=_QUIET, alpha=0.2, linewidth=0.6)
        _names(axis, order)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    return _svg(
        figure,
        "Value and interval of every measure under every evaluation; dashed: random baseline",
    )


def layer_curves(curves: Mapping[str, Sequence[float]], baseline: str, label: str) -> str:
    """A line over the layers for every measure that has one; names stand in the legend."""
    figure, (axis,) = _figure(1, 1, 7.5, 3.6)
    for number, (name, values) in enumerate(curves.items()):
        layers = np.arange(len(values))
        if name == baseline:
            axis.plot(layers, values, color=_FLOOR, linestyle="--", linewidth=1.2, label=name)
        else:
            style = ("-", "--", ":", "-.")[number // len(_LINES) % 4]
            axis.plot(
                layers,
                values,
                style,
                color=_LINES[number % len(_LINES)],
                linewidth=1.6,
                marker="o",
                markersize=3,
                label=name,
            )
    axis.set_xlabel("layer")
    axis.set_ylabel(label)
    axis.set_xticks(np.arange(max(map(len, curves.values()))))
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    return _svg(figure, f"{label} by layer")


def standalone(svg: str) -> str:
    """The same chart as a file of its own: dark ink on white."""
    head, tag, rest = svg.partition(">")
    width, height = _size(head)
    sized = re.sub(r' style="[^"]*"', f' width="{width}pt" height="{height}pt"', head)
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<?xml version="1.0" encoding="utf-8"?>\n{sized}{tag}{paper}{rest}\n'.replace(
        "currentColor", "#222"
    )


def _size(head: str) -> tuple[str, str]:
    found = re.search(r'viewBox="0 0 (\S+) (\S+)"', head)
    assert found is not None
    return found[1], found[2]


def _figure(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> tuple[Figure, list[Any]]:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot") from error
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    layout: Any = figure.get_layout_engine()
    layout.set(
        w_pad=0.12, h_pad=0.08
    )  # the page's own letters may be wider than those that were measured
    return figure, list(axes.flat)


def _names(axis: Any, names: Sequence[str]) -> None:
    axis.set_yticks(np.arange(len(names)), list(names))
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)


def _svg(figure: Figure, title: str) -> str:
    """An `<svg>` element with a title, ids of its own, and the page's ink."""
    import matplotlib as mpl

    drawn = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(
            drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = drawn.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S).replace(
        _INK, "currentColor"
    )
    own = re.sub(r"\W+", "-", title.lower())[:40]
    text = re.sub(r'\bid="', f'id="{own}-', text)
    text = re.sub(r"url\(#", f"url(#{own}-", text)
    text = re.sub(r'href="#', f'href="#{own}-', text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    size = f"width:100%;max-width:{float(_size(text)[0]) * 4 / 3:.0f}px;height:auto"
    return re.sub(
        r"<svg([^>]*)>", rf'<svg\1 style="{size}" role="img" aria-label="{title}">', text, count=1
    ).strip()
