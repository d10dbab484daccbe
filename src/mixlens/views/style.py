"""Colours, fonts and one style per measure, which figures, reports and the viewer share.

No other file defines a colour. `css()` returns the same values for pages as CSS custom properties
(`--ink`, `--mark`, `--series-0` ...), for light and dark mode.

The first eight series colours maximise the smallest distance (OKLab) between any two of them, with
normal vision and with protanopia, deuteranopia and tritanopia (Machado et al. 2009), on white and
on the dark background. The other colours are as different from all others as possible under normal
vision. Because nobody can distinguish so many colours, each series also has a marker and a line
style: the first eight are solid, the second eight dashed, and the rest dotted. A test verifies
these properties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixlens.measures import MEASURES, ready_measures

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
SAFE = 8  # number of colours that everybody can distinguish
BASELINE = "#8a8f98"
TARGET = "#a9720e"  # outline of the target or of a gold link on a shaded background
MARKERS = "osD^vPX*h"
DASHES = ("-", "--", ":")

# Shades of scores, as in the viewer: blue for positive, orange for negative scores.
PLUS = ("#f6f8fb", "#cfe1f4", "#9cc4ea", "#5f9fdb", "#2a74bd", "#0b4586")
MINUS = ("#fbf8f5", "#fbdfc8", "#f5b988", "#e58b43", "#bf5f14", "#803604")

FONT = "DejaVu Sans"  # comes with matplotlib, so that figures look alike everywhere
PAGE_FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"
)
TITLE, TEXT, SMALL, SMALLEST = 10, 9, 8, 5.5  # points; no text is smaller than the last
WIDTH, HEIGHT = 6.4, 4.0  # inches: one figure across a page of text
WIDEST = 12.0  # inches: the largest size of a map

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
    """Return the colour map of scores, which is almost white at zero."""
    from matplotlib.colors import LinearSegmentedColormap

    stops = (*reversed(MINUS), *PLUS) if signed else PLUS
    name = "mixlens_signed" if signed else "mixlens"
    return LinearSegmentedColormap.from_list(name, stops)


@dataclass(frozen=True)
class SeriesStyle:
    """The style of one series in all figures."""

    colour: str
    marker: str
    dash: str

    @property
    def line(self) -> dict[str, Any]:
        """Return the keyword arguments for `Axes.plot`."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.dash,
            "markersize": 4,
            "linewidth": 1.4,
        }


def series_style(number: int) -> SeriesStyle:
    """Return the style of a series by its index in the figure."""
    return SeriesStyle(
        SERIES[number % len(SERIES)],
        MARKERS[number % len(MARKERS)],
        DASHES[number // SAFE % len(DASHES)],
    )


def measure_styles() -> dict[str, SeriesStyle]:
    """Return one style per measure, assigned by the measure's position in the registry.

    Baselines are grey and dotted. Measures of other packages come last, so that built-in measures
    keep their styles.
    """
    specs = ready_measures()
    measure_names = [name for name, spec in specs.items() if not spec.baseline]
    measure_names.sort(key=_is_foreign)
    styles = {name: series_style(number) for number, name in enumerate(measure_names)}
    floor = SeriesStyle(BASELINE, "", ":")
    return {name: styles.get(name, floor) for name in specs}


def _is_foreign(measure: str) -> bool:
    module = str(getattr(MEASURES.entry(measure), "__name__", ""))
    return not module.startswith(f"{MEASURES.package}.")


def styles_of(names: list[str]) -> dict[str, SeriesStyle]:
    """Return a style for each name.

    Measures have their own styles. If other series are drawn together with measures, they get
    styles that no measure uses.
    """
    fixed_styles = measure_styles()
    other_names = [name for name in names if name not in fixed_styles]
    first = len(fixed_styles) if len(other_names) < len(names) else 0
    other_styles = {name: series_style(first + number) for number, name in enumerate(other_names)}
    return {name: fixed_styles.get(name) or other_styles[name] for name in names}


def css() -> str:
    """Return the colours and fonts as CSS custom properties, which adapt to light and dark mode."""
    series = "".join(f" --series-{i}: {colour};" for i, colour in enumerate(SERIES))
    shared = f" --baseline: {BASELINE};{series} --font: {PAGE_FONT};"
    light, dark = (
        "".join(f" --{name}: {value};" for name, value in theme.items()) for theme in (LIGHT, DARK)
    )
    return (
        f":root {{ color-scheme: light dark;{light}{shared} }}\n"
        f"@media (prefers-color-scheme: dark) {{\n  :root {{{dark} }}\n}}\n"
    )
