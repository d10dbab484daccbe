"""All views of maps aggregate the layers in the same default way."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import mixlens
from mixlens import Lens, MixingMaps
from mixlens.cli.compare import show
from mixlens.contracts import Facts
from mixlens.maps.one_row import DEFAULT_READING, reading_of, target_row
from mixlens.maps.target_row import shares
from mixlens.measures import spec_of
from mixlens.views.viewer.payload import payload_of
from tests.cli.running import run

TEXT = "The keys to the old cabinet are"


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled("causal")


def mean_of_shares(scores: np.ndarray) -> np.ndarray:
    """[layer, source] by a plain loop."""
    rows = [layer / np.abs(layer).sum() if np.abs(layer).any() else layer for layer in scores]
    return np.asarray(sum(rows) / len(rows))


@given(seed=st.integers(0, 999), layers=st.integers(2, 5), signed=st.booleans())
@settings(deadline=None, max_examples=40)
def test_several_layers_are_read_as_the_mean_of_their_shares(
    seed: int, layers: int, signed: bool
) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.normal(size=(layers, 4, 4)) * 10.0 ** draw.integers(-6, 6, (layers, 1, 1))
    scores = scores if signed else np.abs(scores)
    scores[0, 1] = 0  # a target that takes nothing in a layer
    maps = MixingMaps.of(scores, facts=Facts(signed=signed))
    for target in range(4):
        expected = mean_of_shares(scores[:, target])
        row = maps.row(target)
        scores_by_source = {source.position: source.score for source in row.top(4)}
        np.testing.assert_allclose([scores_by_source[i] for i in range(4)], expected, rtol=1e-12)
        assert [source.score for source in row.top(4)] == sorted(
            scores_by_source.values(), reverse=True
        )
        assert f"mean of {layers} layers" in repr(row)


@pytest.mark.parametrize("measure", ["value_zeroing", "alti", "attention", "logit_update"])
def test_python_compare_and_page_read_the_same_numbers(lens: Lens, measure: str) -> None:
    maps = lens.measure(measure, TEXT)
    spec = spec_of(measure)
    row = maps.row(-1)
    read = shares(row.reading.of(row.scores))
    np.testing.assert_allclose(
        read, target_row(maps, spec, row.target, DEFAULT_READING), rtol=1e-6, atol=1e-9
    )
    compared = lens.compare(TEXT, -1, only=[measure])
    np.testing.assert_allclose(read, compared.scores[measure], rtol=1e-4, atol=1e-6)
    (entry,) = payload_of(maps)["maps"]
    assert entry["reading"] == ("all" if measure == "logit_update" else "mean")


def test_layers_that_hold_the_others_are_read_at_the_last() -> None:
    raw = np.random.default_rng(0).random((3, 4, 4))
    maps = MixingMaps.of(raw)
    names = [
        (maps, "mean of 3 layers"),
        (maps.at(layers=[1, 2]), "mean of 2 layers"),
        (maps.at(layers=[1]), "layer 1"),
        (maps.last(), "layer 2"),
        (maps.mean(), "mean of the layers"),
        (maps.rollout(), "rollout up to layer 2"),
        (maps.rollout().at(layers=[1]), "rollout up to layer 1"),
        (maps.flow(), "flow up to layer 2"),
        (MixingMaps.of(raw, facts=Facts(reaches_input=True)), "up to layer 2"),
    ]
    for each, name in names:
        assert reading_of(each).name == each.reading.name == each.row(0).reading.name == name
        if each is not maps and "mean of 2" not in name:
            np.testing.assert_array_equal(each.reading.of(each.scores), each.scores[-1])


def test_output_measures_define_their_own_reading(lens: Lens) -> None:
    maps = lens.measure("logit_update", TEXT)
    assert maps.reading.name == "sum of 6 layers"
    np.testing.assert_allclose(maps.reading.of(maps.scores)[0], maps.scores[:, 0].sum(0))


def test_a_head_is_read_as_its_maps_are() -> None:
    maps = MixingMaps.of(np.random.default_rng(0).random((3, 2, 4, 4)))
    assert maps.row(1).top(4, head=1) == maps.head(1).row(1).top(4)
    assert maps.row(1).top(4, head=1, layer=2) == maps.head(1).row(1).top(4, layer=2)


@pytest.mark.parametrize(
    ("more", "name"), [([], "mean of 6 layers"), (["--layer", "2"], "layer 2")]
)
def test_the_command_prints_the_reading_of_python(lens: Lens, more: list[str], name: str) -> None:
    command = ["map", TEXT, "-m", "mixlens/bundled/causal", "--measure", "alti", *more]
    for shown in (["--target", "-1"], []):
        assert name in " ".join(run(*command, *shown).out.split())
    printed = json.loads(run(*command, "--target", "-1", "--json").out)
    assert printed["reading"] == name
    layers = [2] if more else None
    row = lens.measure("alti", TEXT, layers=layers).row(-1)
    read = row.reading.of(row.scores)
    np.testing.assert_allclose(printed["read_scores"][0], read, rtol=1e-3, atol=1e-6)
    first = row.top(1)[0]
    ranked = run(*command, "--target", "-1").out.partition("largest, ")[2]
    assert re.search(rf"1\.\s+\S+\s+{first.position} {first.score:.3f}", ranked)


def test_a_comparison_names_its_reading(lens: Lens) -> None:
    compared: Any = lens.compare(TEXT, only=["alti", "attention"])
    assert compared.reading == "mean of the layers"
    assert compared.to_dict()["reading"] in repr(compared)
    out = io.StringIO()
    show(compared, Console(file=out, width=80))
    assert "mean of the layers" in out.getvalue()
    assert lens.compare(TEXT, only=["alti"], aggregate=3).reading == "layer 3"
    assert lens.compare(TEXT, only=["alti"], aggregate="last").reading == "last layer"


def test_figures_draw_the_reading_and_caption_it() -> None:
    pytest.importorskip("matplotlib")
    maps = mixlens.Lens.bundled().measure("attention", "The dogs bark.")
    drawn = maps.plot("map")
    image = drawn.axes[0].images[0].get_array()
    np.testing.assert_allclose(np.asarray(image), maps.reading.of(maps.scores), rtol=1e-6)
    for kind, options in (("map", {}), ("text", {"target": 1}), ("alignment", {})):
        words = " ".join(text.get_text() for text in maps.plot(kind, **options).texts)
        assert "mean of 6 layers" in words
        named = maps.plot(kind, layer=2, **options)
        assert "layer 2" in " ".join(text.get_text() for text in named.texts)
