"""The look that figures, reports and the viewer share: colours, type and one style per measure.

Nothing else in the project names a colour. `css()` gives the same values to pages as custom
properties (`--ink`, `--mark`, `--series-0` ...), for light and for dark.

The first eight of the series' colours were searched for the largest distance (OKLab) between any
two of them, as seen with normal vision and with protanopia, deuteranopia and tritanopia (Machado et
al. 2009), on white and on the dark paper alike. The others are as far from all as normal vision
allows. Not every eye can distinguish so many colours, so a series has a marker and a dash as well:
the first eight are solid, the second eight dashed, the rest dotted. A test measures all this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixlens.measures import MEASURES, list_measures

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

LIGHT = {
    "paper": "#ffffff",
    "ink": "#16191d",
    "quiet": "#59626d",
    "line": "#dfe3e8",
    "band": "#f4f6f8",
    "mark": "#1a66ad",
    "wrong": "#a33a00",
}
DARK = {
    "paper": "#101316",
    "ink": "#e8ebef",
    "quiet": "#a0a9b4",
    "line": "#2c333b",
    "band": "#191e23",
    "mark": "#7cbcf5",
    "wrong": "#f0a36b",
}
SERIES = (
    "#0a5ea7",
    "#a9720e",
    "#7cb342",
    "#8e366b",
    "#02b1dc",
    "#485f0e",
    "#d27e9b",
    "#866fde",
    "#0c9063",
    "#fa8a05",
    "#d10517",
    "#7226c1",
    "#f476f4",
    "#db2f8d",
    "#126df5",
    "#84543e",
    "#919fff",
    "#ac37bc",
    "#b79e71",
    "#fa503a",
    "#115e63",
    "#a45f91",
    "#659e95",
    "#61789e",
)
SAFE = 8  # of them can be distinguished by every eye
BASELINE = "#8a8f98"
TARGET = "#a9720e"  # what outlines the target or a gold link on a shaded ground
MARKERS = "osD^vPX*h"
DASHES = ("-", "--", ":")

# Shades of scores, as the viewer has them: blue for what adds, orange for what takes away.
PLUS = ("#f6f8fb", "#cfe1f4", "#9cc4ea", "#5f9fdb", "#2a74bd", "#0b4586")
MINUS = ("#fbf8f5", "#fbdfc8", "#f5b988", "#e58b43", "#bf5f14", "#803604")

FONT = "DejaVu Sans"  # comes with matplotlib, so that figures look alike everywhere
PAGE_FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"
)
TITLE, TEXT, SMALL, SMALLEST = 10, 9, 8, 5.5  # points; nothing is set smaller than the last
WIDTH, HEIGHT = 6.4, 4.0  # inches: one figure across a page of text
WIDEST = 12.0  # inches: what a large map may grow to

RC: dict[Any, Any] = {
    "font.family": [FONT],
    "font.size": TEXT,
    "text.usetex": False,
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.edgecolor": LIGHT["quiet"],
    "axes.facecolor": "white",
    "axes.linewidth": 0.8,
    "axes.titlesize": TITLE,
    "axes.labelsize": TEXT,
    "axes.grid": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": LIGHT["ink"],
    "ytick.color": LIGHT["ink"],
    "svg.hashsalt": "mixlens",  # the same figure is the same file
}


def shades(signed: bool) -> Colormap:
    """The colours of scores, almost white at zero."""
    from matplotlib.colors import LinearSegmentedColormap

    stops = (*reversed(MINUS), *PLUS) if signed else PLUS
    name = "mixlens_signed" if signed else "mixlens"
    return LinearSegmentedColormap.from_list(name, stops)


@dataclass(frozen=True)
class SeriesStyle:
    """How one series is drawn wherever it appears."""

    colour: str
    marker: str
    dash: str

    @property
    def line(self) -> dict[str, Any]:
        """Arguments of `Axes.plot`."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.dash,
            "markersize": 4,
            "linewidth": 1.4,
        }


def series_style(number: int) -> SeriesStyle:
    """The style of the number-th series of a figure."""
    return SeriesStyle(
        SERIES[number % len(SERIES)],
        MARKERS[number % len(MARKERS)],
        DASHES[number // SAFE % len(DASHES)],
    )


def measure_styles() -> dict[str, SeriesStyle]:
    """One style per measure, by its place in the registry; a baseline is grey and dotted.

    Measures of other packages come after ours, so that ours keep their styles.
    """
    specs = list_measures()
    named = [name for name, spec in specs.items() if not spec.baseline]
    named.sort(key=_is_foreign)
    styles = {name: series_style(number) for number, name in enumerate(named)}
    floor = SeriesStyle(BASELINE, "", ":")
    return {name: styles.get(name, floor) for name in specs}


def _is_foreign(measure: str) -> bool:
    module = str(getattr(MEASURES.entry(measure), "__name__", ""))
    return not module.startswith(f"{MEASURES.package}.")


def styles_of(names: list[str]) -> dict[str, SeriesStyle]:
    """Measures in their own style; other series by their place, after the measures' styles if both
    are drawn.
    """
    own = measure_styles()
    others = [name for name in names if name not in own]
    first = len(own) if len(others) < len(names) else 0
    placed = {name: series_style(first + number) for number, name in enumerate(others)}
    return {name: own.get(name) or placed[name] for name in names}


def css() -> str:
    """The same look for pages, as custom properties that follow light and dark."""
    series = "".join(f" --series-{i}: {colour};" for i, colour in enumerate(SERIES))
    shared = f" --baseline: {BASELINE};{series} --font: {PAGE_FONT};"
    light, dark = (
        "".join(f" --{name}: {value};" for name, value in theme.items()) for theme in (LIGHT, DARK)
    )
    return (
        f":root {{ color-scheme: light dark;{light}{shared} }}\n"
        f"@media (prefers-color-scheme: dark) {{\n  :root {{{dark} }}\n}}\n"
    )
