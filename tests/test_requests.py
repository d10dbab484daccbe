"""Requests in Python: one or several targets and layers, calls without gradients, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import InvalidInput, Lens
from mixlens.datasets import Dataset, Example
from mixlens.maps.encoder_decoder import SourceAndPrefix
from mixlens.measures import ready_measures
from mixlens.text.tokens import TokenRow

TEXT = "The dogs near the river [MASK] old."


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled()


def test_one_or_several(lens: Lens) -> None:
    whole = lens.measure("attention", TEXT)
    assert lens.measure("attention", TEXT, layers=2) == lens.measure("attention", TEXT, layers=[2])
    for target in (6, "[MASK]"):
        one = lens.measure("attention", TEXT, targets=target)
        assert np.allclose(one.scores, whole.at(targets=target).scores, atol=1e-6)
    assert np.array_equal(whole.at(layers=2).scores, whole.scores[2:3])


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"layers": [1.0]}, "1.0 is not an integer"),
        ({"layers": True}, "True is not an integer"),
        ({"layers": []}, "list of layers is empty"),
        ({"layers": 9}, r"Layer 9 is out of range \(0–5\)"),
        ({"targets": []}, "list of targets is empty"),
        ({"targets": 1.5}, "1.5 is not a token"),
        ({"targets": torch.tensor([1.5])}, "is not a token"),
        ({"targets": torch.tensor([True, False, True])}, r"tensor\(True\) is not a token"),
        ({"targets": torch.tensor([[1, 2]])}, r"tensor\(\[1, 2\]\) is not a token"),
        ({"targets": np.array([[1, 2]])}, "is not a token"),
        ({"layers": torch.tensor([True, False])}, r"tensor\(True\) is not an integer"),
        ({"targets": 99}, "Token 99 is out of range"),
        ({"targets": "the"}, "write the#1 or the#2"),
        ({"targets": "the#3"}, "occurs at positions 1, 4"),
        ({"targets": "rivr"}, r"Did you mean river\?"),
        ({"colour": "red"}, "Unknown option 'colour'. attention has no options."),
    ],
)
def test_invalid_requests(lens: Lens, chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        lens.measure("attention", TEXT, **chosen)


def test_a_list_is_not_the_name_of_an_attention(lens: Lens) -> None:
    with pytest.raises(InvalidInput, match=r"Unknown site \['encoder'\]"):
        lens.record(TEXT, site=["encoder"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("measure", "option", "words"),
    [
        ("integrated_gradients", {"steps": 2.5}, "steps=2.5 is not a whole number"),
        ("integrated_gradients", {"step": 3}, r"Unknown option 'step'. Did you mean steps\?"),
        ("value_zeroing", {"distance": 3}, "distance=3 is not a name"),
        ("blank_out", {"word": "are", "foil": "are"}, "Pass a different foil"),
        ("blank_out", {"label": "x"}, "Pass `word`"),
    ],
)
def test_options_of_the_wrong_kind(
    lens: Lens, measure: str, option: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        lens.measure(measure, TEXT, **option)


@pytest.mark.parametrize("name", ["the#2", "The#2", "4"])
def test_tokens_by_name(lens: Lens, name: str) -> None:
    maps = lens.measure("attention", TEXT)
    assert maps.row(int(name) if name.isdigit() else name).target == 4


def test_tokens_as_they_are_shown() -> None:
    maps = Lens.bundled("causal").measure("attention", "A very old dog")
    place = next(i for i, token in enumerate(maps.tokens) if token.strip("Ġ▁") == "very")
    for written in (maps.tokens[place], "·very", "very", "Very"):
        assert maps.row(written).target == place


def test_gradients_in_inference_mode(lens: Lens) -> None:
    expected = lens.measure("gradient_norm", TEXT).scores
    with torch.inference_mode():
        tensors = lens.tokenizer(TEXT, return_tensors="pt")
        recording = lens.record(TEXT)
        for maps in (
            lens.measure("gradient_norm", TEXT),
            lens.measure("gradient_norm", tensors),
            mixlens.measure("gradient_norm", recording),
        ):
            assert np.allclose(maps.scores, expected, atol=1e-6)


def test_deep_lift_in_half_precision(lens: Lens) -> None:
    expected = lens.measure("deep_lift", TEXT).scores
    half = Lens.bundled(dtype=torch.float16).measure("deep_lift", TEXT).scores
    assert np.abs(half - expected).max() < 0.01 * np.abs(expected).max()


def test_predictions(lens: Lens) -> None:
    two = "The dogs [MASK] [MASK]."
    with pytest.raises(InvalidInput, match=r"2 mask tokens, not one. .* as `position`"):
        lens.predictions(two)
    assert len(lens.predictions(two, position=3, top=2)) == 2
    with pytest.raises(InvalidInput, match="at least 1"):
        lens.predictions(TEXT, top=0)


def test_results_are_short_to_look_at(lens: Lens) -> None:
    recording = lens.record(TEXT)
    shown = {
        "Lens": (lens, "BertForMaskedLM 'mixlens/bundled/masked', 6 layers, float32 on cpu"),
        "Recording": (recording, "6 layers, 10 tokens"),
        "Row": (lens.measure("attention", TEXT).row("river"), "'river' (token 5)"),
        "Report": (lens.verify(TEXT), "encoder of 6 layers"),
        "Dataset": (Dataset("d", "text", (Example(name="1", text="a dog"),)), "1 text examples"),
    }
    for kind, (value, words) in shown.items():
        assert repr(value).startswith(f"<{kind}"), repr(value)
        assert words in repr(value)
        assert len(repr(value)) < 400


def test_a_model_without_a_head_has_nothing_to_explain(lens: Lens) -> None:
    report = Lens(lens.model.bert, lens.tokenizer).verify("The dogs are old.")  # type: ignore[arg-type]
    refused = {name for name, reason in report.measures.items() if reason is not None}
    explaining = {n for n, spec in ready_measures().items() if spec.explains_output}
    assert refused >= explaining
    assert "no logits" in str(report.measures["gradient_norm"])


def test_contributions_through_encoder_and_decoder_read_like_maps() -> None:
    source = TokenRow(("▁do", "gs", "</s>"), "dogs", ((0, 2), (2, 4), (0, 0)), (False, False, True))
    prefix = TokenRow(("<s>", "▁chiens"), "chiens", ((0, 0), (0, 6)), (True, False))
    scores = np.full((2, 2, 5), 0.2)
    contributions = SourceAndPrefix(scores, source, prefix)
    assert contributions.row("chiens").scores.shape == (2, 5)
    assert contributions.words().source_tokens == ("dogs", "</s>", "<s>", "chiens")
    assert np.allclose(contributions.words().scores[0, 0], [0.4, 0.2, 0.2, 0.2])
    assert len(contributions.to_dataframe()) == scores.size
    assert len(repr(contributions)) < 100
