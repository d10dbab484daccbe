"""Draw charts of a ranking as SVG for a page. Their colours follow light and dark, and nothing else
is loaded.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mixlens.views import figures
from mixlens.views.canvas import styled
from mixlens.views.figures.dot_panels import Dot
from mixlens.views.style import LIGHT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rank_bars(ranks: Mapping[str, Dot], baseline: str) -> str:
    """Return mean ranks as bars, the first on top."""
    return inline_svg(figures.rank_bars(ranks), "Mean rank of every measure")


def evaluation_panels(
    panels: Mapping[str, Mapping[str, Dot]],
    order: Sequence[str],
    baseline: str,
    arrows: Mapping[str, str],
) -> str:
    """Return a panel for each evaluation, with a line at the value of the random baseline."""
    titled = {f"{name} {arrows.get(name, '')}".strip(): dots for name, dots in panels.items()}
    return inline_svg(
        figures.dot_panels(titled, order, baseline=baseline),
        "Value and interval of every measure under every evaluation; dashed: random baseline",
    )


def layer_curves(curves: Mapping[str, Sequence[float]], baseline: str, label: str) -> str:
    """Return a line over the layers for every measure that has one."""
    layers = list(range(max(map(len, curves.values()))))
    return inline_svg(figures.lines(curves, x=layers, y_label=label), f"{label} by layer")


@styled
def inline_svg(figure: Figure, title: str) -> str:
    """Return an `<svg>` element with a title, unique ids, and the colours of the page."""
    import matplotlib as mpl

    mpl.rcParams["svg.fonttype"] = "none"  # inside `styled`; text uses the fonts of the page
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = drawn.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    text = text.replace(LIGHT["ink"], "currentColor")
    for name in ("quiet", "line"):
        text = text.replace(LIGHT[name], f"var(--{name}, {LIGHT[name].upper()})")
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


def standalone(svg: str) -> str:
    """Return the same chart as a standalone file, dark on white."""
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
