"""The growth curves as one figure: time above, memory below; tokens, layers and texts from left to
right.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from benchmarks.growth import Curve

matplotlib.use("svg")
from matplotlib import pyplot

# Told apart also without colour vision (Okabe & Ito 2008), and by their markers in print.
_STYLES = [
    ("#000000", "o"),
    ("#0072B2", "s"),
    ("#009E73", "^"),
    ("#D55E00", "D"),
    ("#CC79A7", "v"),
    ("#882255", "P"),
    ("#56B4E9", "X"),
    ("#E69F00", "*"),
    ("#555555", "h"),
]
_AXIS = {
    "tokens": "tokens",
    "layers": "layers (128 tokens)",
    "batch": "texts of 64 tokens in one call",
}


def draw(curves: Sequence[Curve], path: Path) -> None:
    pyplot.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "path", "font.size": 9})
    axes = list(dict.fromkeys(curve.axis for curve in curves))
    drawn = [curve for curve in curves if curve.case.drawn]
    labels = list(dict.fromkeys(curve.case.label for curve in drawn))
    style = dict(zip(labels, _STYLES * (1 + len(labels) // len(_STYLES)), strict=False))
    figure, panels = pyplot.subplots(2, len(axes), figsize=(11, 7), squeeze=False)
    for column, axis in enumerate(axes):
        for curve in drawn:
            if curve.axis != axis:
                continue
            colour, marker = style[curve.case.label]
            options = {
                "color": colour,
                "marker": marker,
                "markersize": 4,
                "linewidth": 1.2,
                "label": curve.case.label,
            }
            panels[0][column].plot(curve.sizes, curve.seconds, **options)
            panels[1][column].plot(curve.sizes, [size / 2**20 for size in curve.bytes], **options)
        for row, name in enumerate(("seconds", "MiB")):
            _finished(
                panels[row][column],
                next(curve.sizes for curve in drawn if curve.axis == axis),
                name if column == 0 else "",
            )
        panels[1][column].set_xlabel(_AXIS[axis])
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.11, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _finished(panel: Axes, sizes: Sequence[int], name: str) -> None:
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.minorticks_off()
    panel.set_ylabel(name)
    panel.grid(alpha=0.25, linewidth=0.5)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
