"""Charts of numbers: their style, their size, and the page that carries them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixlens.views import charts, figures
from mixlens.views.document import document, table
from mixlens.views.style import measure_styles

mpl = pytest.importorskip("matplotlib")


def test_a_measure_looks_the_same_in_every_chart() -> None:
    own = measure_styles()
    figure = figures.lines({"value_zeroing": [1, 2], "random": [0, 0], "mine": [3, 4]})
    drawn = {str(line.get_label()): line for line in figure.axes[0].lines}
    assert drawn["value_zeroing"].get_color() == own["value_zeroing"].colour
    assert drawn["random"].get_color() == own["random"].colour
    assert len({line.get_color() for line in drawn.values()}) == 3
    bars: Any = figures.bars({"value_zeroing": {"a": 1.0}, "random": {"a": 0.5}})
    colours = {mpl.colors.to_hex(patch.get_facecolor()) for patch in bars.axes[0].patches}
    assert colours == {own["value_zeroing"].colour, own["random"].colour}


def test_layers_are_counted_from_zero() -> None:
    (axes,) = figures.lines({"a": [1.0, 2.0]}).axes
    assert axes.get_xlabel() == "layer"
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [0, 1]


def test_no_figure_is_a_poster() -> None:
    figure, places = figures.panels(6, columns=2, width=27.8, height=27.8)
    for place in places:
        figures.heat_map(np.ones((126, 126)), ["token"] * 126, ["token"] * 126, axes=place)
    assert tuple(figure.get_size_inches()) == (16, 20)
    figure.draw_without_rendering()
    assert len(places[0].get_xticklabels()) < 126


def test_ink_of_a_chart_in_a_page_is_the_pages() -> None:
    svg = charts.rank_bars({"alti": (1.0, 0.5, 1.5)})
    assert "currentColor" in svg
    assert "var(--quiet" in svg
    alone = charts.standalone(svg)
    assert "currentColor" not in alone
    assert "var(" not in alone


def test_a_page_needs_nothing_and_escapes_everything() -> None:
    html = document("<b>", "a & b", [table("t", ["x_y"], [["<i>", "<u>"]])])
    assert "<b>:" not in html
    assert "<i>" not in html
    assert "<u>" not in html
    assert "x_<wbr>y" in html
    assert "default-src 'none'" in html
    assert "http:" not in html
    assert "https:" not in html
