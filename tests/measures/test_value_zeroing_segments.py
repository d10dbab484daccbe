"""Value Zeroing of segments: all values of a segment are zero at once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import InvalidInput, Lens
from tests import reference
from tests.answers.models import stored
from tests.measures import models
from tests.measures import oracles_intervention as oracles

SEGMENTS = [[0, 3], [1], [2, 4], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize(("name", "site"), models.SITES)
def test_equals_the_loop_over_zeroed_segments(name: str, site: str) -> None:
    given = models.inputs(name, 8)
    expected = oracles.value_zeroing(name, site, models.build(name), given, segments=SEGMENTS)
    recording = models.recording(name, 8)
    made = models.scores("value_zeroing", recording, site=site, segments=SEGMENTS)
    assert made.source_labels == [tuple(f"segment {i}" for i in (1, 2, 3, 4))]
    torch.testing.assert_close(made.values[:, 0], expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["llama_n9", "qwen2_n12"])
def test_reference_numbers(name: str) -> None:
    numbers = reference.arrays(f"spans/{name}_spans.npz")
    about = json.loads((reference.FOLDER / "spans" / f"{name}_spans.json").read_text())
    ids = reference.arrays(f"flashtrace/{name}.npz")["input_ids"]
    lens = Lens(stored(reference.FOLDER / "flashtrace", name))
    maps: Any = lens.measure(
        "value_zeroing",
        {"input_ids": reference.tokens(ids)},
        targets=about["targets"],
        segments=about["segments"],
    )
    assert maps.provenance["recorded"] == "rows"
    np.testing.assert_allclose(maps.scores, numbers["value_zeroing/targets"], atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["bert", "gpt2", "gemma2", "gpt_neox"])  # both forms
def test_few_targets_and_texts_of_a_batch_have_the_scores_of_one_text(name: str) -> None:
    model, lengths = models.build(name), [6, 9]
    padded = models.padded_inputs(name, lengths)
    chosen: Any = {"segments": SEGMENTS, "targets": [-1, 2]}
    batch: Any = Lens(model).measure("value_zeroing", padded, **chosen)
    for row, (length, made) in enumerate(zip(lengths, batch, strict=True)):
        alone: Any = Lens(model).measure(
            "value_zeroing", models.inputs(name, length, seed=row), segments=SEGMENTS
        )
        expected = alone.scores[:, [length - 1, 2]]
        tolerance = 1e-6 if name in models.FLOAT32_SOFTMAX else 1e-10
        np.testing.assert_allclose(made.scores, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_a_segment_of_one_token_is_that_token(kind: str, per_head: bool) -> None:
    lens = Lens.bundled(kind)
    text = "The old dog saw a bird."
    tokens: Any = lens.measure("value_zeroing", text, per_head=per_head)
    count = len(tokens.source_tokens)
    single: Any = lens.measure(
        "value_zeroing", text, per_head=per_head, segments=[[i] for i in range(count)]
    )
    np.testing.assert_allclose(single.scores, tokens.scores, atol=1e-6, rtol=1e-4)
    if kind == "causal":  # the future stays exactly zero
        assert (np.triu(single.scores, 1) == 0).all()


def test_named_segments_are_those_of_the_maps() -> None:
    """The columns are those of `maps.segments`; the joint effect is not the sum over tokens."""
    lens, text = Lens.bundled("causal"), "Lily had a red ball. She gave the ball to Tom."
    sums: Any = lens.measure("value_zeroing", text, targets=[-1])
    joint: Any = lens.measure("value_zeroing", text, targets=[-1], segments="sentences")
    summed = sums.segments("sentences")
    assert joint.source_tokens == summed.source_tokens
    assert joint.scores.shape == summed.scores.shape
    first, rest = joint.scores[..., 0], joint.scores[..., 1:]
    np.testing.assert_allclose(first, summed.scores[..., 0], rtol=1e-3, atol=1e-7)
    assert np.abs(rest - summed.scores[..., 1:]).max() > 1e-3
    named: Any = lens.measure("value_zeroing", text, segments={"gift": "red ball"})
    assert named.source_tokens == ("(first token)", "(other)", "gift")
    with pytest.raises(InvalidInput):
        named.rollout()


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        ([], "no segments"),
        (3, "no segments"),
        ([[]], "empty"),
        ([[1, 1]], "repeats a token"),
        ([[99]], "not a list of token positions"),
        ([["a"]], "not a list of token positions"),
        ([1, 2], "not a list of token positions"),
        ("chapters", "chapters"),
        ({"x": "not there"}, "not there|not in"),
    ],
)
def test_impossible_segments_are_refused(segments: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        Lens.bundled().measure("value_zeroing", "The old dog.", segments=segments)


def test_saved_maps_keep_their_segments(tmp_path: Any) -> None:
    maps: Any = Lens.bundled().measure("value_zeroing", "The old dog.", segments=[[0, 1], [2]])
    maps.save(tmp_path / "maps.npz")
    again = mixlens.load(tmp_path / "maps.npz")
    assert again.source_tokens == maps.source_tokens == ("segment 1", "segment 2")
    np.testing.assert_array_equal(again.scores, maps.scores)
