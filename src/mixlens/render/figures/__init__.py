"""Charts of numbers, one kind to a file. Each function returns a matplotlib figure, or draws into
the axes that it is given.
"""

from mixlens.render.canvas import caption, panels
from mixlens.render.figures.bar_chart import bars, stacked
from mixlens.render.figures.box_plot import boxes
from mixlens.render.figures.dot_panels import dot_panels
from mixlens.render.figures.line_chart import lines
from mixlens.render.figures.matrix import heat_map
from mixlens.render.figures.rank_chart import rank_bars
from mixlens.render.figures.scatter_plot import scatter

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
