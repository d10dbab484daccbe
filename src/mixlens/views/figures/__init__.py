"""Charts of numbers, one kind per file. Each function returns a matplotlib figure, or draws into
the passed axes.
"""

from mixlens.views.canvas import caption, panels
from mixlens.views.figures.bar_chart import bars, stacked
from mixlens.views.figures.box_plot import boxes
from mixlens.views.figures.dot_panels import dot_panels
from mixlens.views.figures.line_chart import lines
from mixlens.views.figures.matrix import heat_map
from mixlens.views.figures.rank_chart import rank_bars
from mixlens.views.figures.scatter_plot import scatter

__all__ = [
    "bars",
    "boxes",
    "caption",
    "dot_panels",
    "heat_map",
    "lines",
    "panels",
    "rank_bars",
    "scatter",
    "stacked",
]
