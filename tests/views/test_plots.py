"""Figures of maps: content, errors, and unchanged rcParams."""

from __future__ import annotations

import itertools
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixlens import Comparison, InvalidInput, Lens, MixingMaps
from mixlens.contracts import Facts
from mixlens.text.tokens import TokenRow
from mixlens.views import plots
from mixlens.views.canvas import save_figure
from mixlens.views.fonts import MissingGlyphWarning, families_for
from mixlens.views.plots.flow import contributions

mpl = pytest.importorskip("matplotlib")

TEXT = "The keys to the old cabinet [MASK] on the table."


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled()


@pytest.fixture(scope="module")
def maps(lens: Lens) -> MixingMaps:
    return lens.measure("value_zeroing", TEXT)


def made(count: int, layers: int = 3, **changes: Any) -> MixingMaps:
    scores = np.random.default_rng(0).dirichlet(np.ones(count) * 0.2, size=(layers, count))
    row = TokenRow(tuple(f"w{i}" for i in range(count)))
    return MixingMaps.of(scores, row, measure="attention", **changes)


def words_of(figure: Any) -> str:
    texts = figure.findobj(mpl.text.Text)
    return " | ".join(text.get_text() for text in texts)


@pytest.mark.parametrize("kind", ["map", "target", "layers", "text", "curves", "alignment", "flow"])
def test_a_figure_fits_one_column_and_stays_readable(maps: MixingMaps, kind: str) -> None:
    figure = maps.plot(kind, width=3.3)
    figure.draw_without_rendering()  # constrained layout warns if it finds no room
    assert figure.get_figwidth() == pytest.approx(3.3)
    texts = [t for t in figure.findobj(mpl.text.Text) if t.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= 5.5
    for width in (0, -1, 100, float("nan")):
        with pytest.raises(InvalidInput, match="width"):
            maps.plot(kind, width=width)


def test_layers_in_columns_on_one_scale_or_on_their_own(maps: MixingMaps) -> None:
    def panels(figure: Any) -> list[Any]:
        return [axes for axes in figure.axes if axes.images]

    shared, own = (panels(maps.plot("layers", columns=2, scale=s)) for s in ("all", "each"))
    assert shared[0].get_subplotspec().get_gridspec().ncols == 2
    largest = np.abs(maps.scores).max((1, 2))
    np.testing.assert_allclose([a.images[0].get_clim()[1] for a in shared], largest.max())
    np.testing.assert_allclose([a.images[0].get_clim()[1] for a in own], largest)
    assert own[0].get_title("left") == f"layer 0 ≤ {largest[0]:.2g}"
    for wrong in ({"columns": 0}, {"columns": 1.5}, {"scale": "both"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            maps.plot("layers", **wrong)


@pytest.mark.parametrize("kind", ["map", "flow", "text"])
def test_pdf_files_embed_truetype_fonts(maps: MixingMaps, kind: str, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    figure = pickle.loads(pickle.dumps(maps.plot(kind)))
    figure.savefig(tmp_path / "own.pdf")
    save_figure(maps.plot(kind), tmp_path / "ours.pdf")
    assert dict(mpl.rcParams) == before
    for name in ("own.pdf", "ours.pdf"):
        written = (tmp_path / name).read_bytes()
        assert b"/Type3" not in written
        assert b"/CIDFontType2" in written


@pytest.mark.parametrize("kind", ["map", "target", "layers", "text", "curves", "alignment", "flow"])
def test_every_kind_has_a_caption_and_keeps_rc_params(
    maps: MixingMaps, kind: str, tmp_path: Path
) -> None:
    mpl.rcParams["font.family"] = ["serif"]
    mpl.rcParams["axes.titlesize"] = 30
    before = dict(mpl.rcParams)
    figure = maps.plot(kind)
    save_figure(figure, tmp_path / "figure.svg")
    assert dict(mpl.rcParams) == before
    mpl.rcdefaults()
    assert isinstance(figure, mpl.figure.Figure)
    assert "value_zeroing" in words_of(figure)
    assert "mixlens/bundled/masked" in words_of(figure)
    assert ("itself" if kind == "curves" else "keys") in words_of(figure)
    assert {"DejaVu Sans"} == {t.get_fontfamily()[0] for t in figure.findobj(mpl.text.Text)}


def test_every_file_is_a_kind_and_the_method_names_it() -> None:
    assert set(plots.kinds()) == {
        "map",
        "target",
        "layers",
        "heads",
        "text",
        "curves",
        "alignment",
        "flow",
    }
    for kind in plots.kinds():
        assert f'"{kind}"' in str(MixingMaps.plot.__doc__)


def test_the_selection_decides_the_kind(lens: Lens, maps: MixingMaps) -> None:
    assert "layer 5" in words_of(maps.plot())
    assert "[MASK] (token 7)" in words_of(maps.plot(target="[MASK]"))
    assert "layer 2" in words_of(maps.plot(layer=2))
    heads = lens.measure("attention", TEXT, per_head=True, layers=[0, 1])
    assert "head 7" in words_of(heads.plot())
    assert "head 3" in words_of(heads.plot(layer=1, head=3))


def test_wrong_choices_raise(maps: MixingMaps) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"kind": "pie"}, "Unknown kind of figure 'pie'"),
        ({"kind": "map", "target": 1}, "Unknown option 'target'"),
        ({"kind": "heads"}, "per_head=True"),
        ({"kind": "flow", "threshold": 0}, "threshold"),
        ({"layer": 9}, "Layer 9 is not in these maps"),
        ({"kind": "curves", "top": 0}, "at least 1"),
        ({"kind": "target", "most": 0}, "at least 1"),
    ]
    for wrong, message in cases:
        with pytest.raises(InvalidInput, match=message):
            maps.plot(**wrong)
    with pytest.raises(InvalidInput, match="separate heads"):
        MixingMaps.of(np.ones((1, 2, 3, 3)) / 3).plot("map")
    two_sides = MixingMaps.of(np.ones((2, 2, 3)) / 3, ["a", "b"], ["u", "v", "w"])
    with pytest.raises(InvalidInput, match=r"need self-attention\. Pass a target"):
        two_sides.plot("curves")
    assert "its 6 largest sources" in words_of(two_sides.plot("curves", target=1))


def test_signed_scores_are_palest_at_zero() -> None:
    maps = made(6, facts=Facts(signed=True))
    for kind in ("map", "layers", "target"):
        image: Any = maps.plot(kind).axes[0].images[0]
        assert image.get_cmap().name == "mixlens_signed"
        assert min(image.get_cmap()(0.5)) > 0.95
        assert image.norm.vmin == -image.norm.vmax
    image = made(6).plot("map").axes[0].images[0]
    assert image.norm.vmin == 0
    assert image.get_cmap()(0.0)[:3] > (0.95, 0.95, 0.95)


def test_a_flow_through_more_tokens_than_fit_draws_the_largest() -> None:
    figure = made(250, layers=8).plot("flow", threshold=1e-6)
    assert "layer" in [axes.get_xlabel() for axes in figure.axes]
    assert len(figure.axes[0].get_yticks()) < 250
    assert not np.isnan(figure.axes[0].collections[-1].get_offsets()).any()


def test_edges_of_a_flow_are_wider_the_more_they_carry() -> None:
    scores = np.zeros((1, 3, 3))
    scores[0, 2] = 0.1, 0.2, 0.7
    scores[0, 0, 0] = scores[0, 1, 1] = 1
    row = TokenRow(("a", "b", "c"))
    figure = MixingMaps.of(scores, row, measure="attention").plot("flow", target=2, threshold=1e-6)
    (edges,) = figure.findobj(mpl.collections.LineCollection)
    widths = [float(width) for width in edges.get_linewidths()]
    assert min(widths) > 0
    assert widths == sorted(widths)
    assert len(set(widths)) == 3


def test_a_word_longer_than_a_line_is_broken() -> None:
    count = 40
    row = TokenRow(
        tuple(f"piece{i}" for i in range(count)),
        "w" * 10 * count,
        tuple((10 * i, 10 * i + 10) for i in range(count)),
    )
    figure = MixingMaps.of(np.full((1, count, count), 1 / count), row).plot("text")
    heights = {text.get_position()[1] for text in figure.axes[0].texts}
    assert len(heights) > 1


@pytest.mark.parametrize("kind", ["map", "layers", "target", "text", "flow", "alignment"])
def test_long_texts_stay_legible_and_of_a_size_for_paper(kind: str) -> None:
    figure = made(250).plot(kind)
    assert max(figure.get_size_inches()) <= 16
    sizes = [t.get_fontsize() for t in figure.findobj(mpl.text.Text) if t.get_text().strip()]
    assert min(sizes) >= 5.5
    axes = figure.axes[0]
    figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in axes.get_yticklabels() if t.get_text()]
    boxes.sort(key=lambda box: box.y0)
    for below, above in itertools.pairwise(boxes):
        assert above.y0 > below.y0 + 0.8 * min(sizes) * figure.dpi / 72


SCRIPTS = ("日本の", "한국", "السلام", "नमस्ते")


def _has_font(text: str) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MissingGlyphWarning)
        families_for([text])
    return not caught


def test_letters_of_every_script_and_dollars_are_drawn(tmp_path: Path) -> None:
    labels = ("[CLS]", "$x$", "a_b", "\u202e", *filter(_has_font, SCRIPTS))
    scores = np.eye(len(labels))[None].repeat(2, 0)
    maps = MixingMaps.of(scores, TokenRow(labels), measure="attention")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in ("map", "curves", "text", "flow"):
            save_figure(maps.plot(kind), tmp_path / f"{kind}.png")
    written = words_of(maps.plot("map"))
    assert r"\$x\$" in written
    assert "‹U+202E›" in written
    if missing := set(SCRIPTS) - set(labels):
        pytest.skip(f"no font of this machine has {', '.join(sorted(missing))}: the others pass")


def test_right_to_left_text_is_laid_out_from_the_right() -> None:
    text = "قرأ الطالب BERT model هنا"
    words = ("قرأ", "الطالب", "BERT", "model", "هنا")
    at = [text.index(piece) for piece in words]
    row = TokenRow(
        words, text, tuple((a, a + len(p)) for a, p in zip(at, words, strict=True)), (False,) * 5
    )
    figure = MixingMaps.of(np.ones((1, 5, 5)) / 5, row, measure="attention").plot("text")
    x = {t.get_text().strip("\u200d"): t.get_position()[0] for t in figure.axes[0].texts}
    assert x["قرأ"] > x["الطالب"] > x["model"] > x["BERT"] > x["هنا"]


def test_edges_of_the_flow_add_up_to_rollout(maps: MixingMaps) -> None:
    from mixlens.maps.rollout import layer_transitions

    steps = layer_transitions(maps, None, None).steps
    edges = contributions(steps, 7)
    np.testing.assert_allclose(edges.sum((1, 2)), 1, atol=1e-6)
    rolled = maps.rollout().row(7).scores[-1]
    np.testing.assert_allclose(edges[0].sum(0), rolled, atol=1e-6)


def test_gold_links_are_outlined() -> None:
    scores = np.full((1, 3, 4), 0.25)
    maps = MixingMaps.of(scores, ["a", "b", "c"], ["u", "v", "w", "x"], measure="attention")
    outlined: Any = maps.plot("alignment", gold=[(0, 1), (2, 3)]).axes[0].patches
    assert [(p.get_x() + 0.46, p.get_y() + 0.46) for p in outlined] == [(1, 0), (3, 2)]
    outlined = maps.at(targets=[2]).plot("alignment", gold=[(0, 1), (2, 3)]).axes[0].patches
    assert [(p.get_x() + 0.46, p.get_y() + 0.46) for p in outlined] == [(3, 0)]


def test_a_comparison_shows_sources_and_agreement(lens: Lens) -> None:
    comparison = lens.compare(TEXT, only=["attention", "value_zeroing", "random"])
    for kind in ("sources", "agreement"):
        written = words_of(comparison.plot(kind))
        assert "value_zeroing" in written
        assert "mixlens/bundled/masked" in written
    with pytest.raises(InvalidInput, match="Unknown kind of figure 'map'"):
        comparison.plot("map")
    with pytest.raises(InvalidInput, match="at least 1"):
        comparison.plot("sources", most=0)


def test_the_same_figure_is_the_same_file(maps: MixingMaps, tmp_path: Path) -> None:
    for kind in ("svg", "pdf"):
        for name in ("a", "b"):
            save_figure(maps.plot("target"), tmp_path / f"{name}.{kind}")
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    with pytest.raises(InvalidInput, match=r"Unsupported format '\.docx'"):
        save_figure(maps.plot("map"), tmp_path / "a.docx")


def test_a_target_of_the_other_side_hides_no_source() -> None:
    """In cross-attention the target's number is not that of a source."""
    shown = {}
    for own in (None, 1):
        comparison = Comparison(
            target=1,
            target_token="b",
            sources=("u", "v", "w"),
            own_source=own,
            aggregate="mean",
            scores={"attention": np.array([0.2, 0.5, 0.3]), "random": np.array([0.1, 0.2, 0.7])},
            left_out={},
        )
        image: Any = comparison.plot().axes[0].images[0]
        shown[own] = np.asarray(image.get_array().filled(np.nan))
    assert np.isfinite(shown[None]).all()
    assert np.isnan(shown[1]).sum() == 2
