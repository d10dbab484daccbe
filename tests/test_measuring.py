"""Scores stay on the device of the model, and are copied once for maps."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Lens
from mixlens.contracts import Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.measures import register, unregister
from mixlens.recording.recording import Recording
from tests.conformance.zoo import built, inputs


def test_a_batch_holds_what_maps_hold() -> None:
    lens, given = Lens(built("bert")), inputs("bert")
    choices: list[dict[str, Any]] = [{}, {"targets": [-1]}, {"layers": [1], "per_head": True}]
    for options in choices:
        batch = lens.measure_batch("attention_norm", given, **options)
        assert batch.scores.values.device == next(lens.model.parameters()).device
        maps = lens.measure("attention_norm", given, **options)
        assert isinstance(maps, list)
        for row, one in enumerate(maps):
            shape = one.scores.shape[-2:]
            held = batch.scores.values[:, row, ..., : shape[0], : shape[1]]
            np.testing.assert_array_equal(held, one.scores)
        assert [one.tokens for one in batch.maps()] == [one.tokens for one in maps]


def test_scores_stay_where_they_are_and_maps_copy_them_once() -> None:
    numbers = torch.rand(2, 1, 512, 512)

    @register("ready", Spec(summary="", citation="", use_when="", cost="", facts=Facts()))
    def ready(recording: Recording, request: Request) -> Scores:
        return Scores(numbers)

    lens = Lens(built("bert"))
    given = {"input_ids": torch.ones(1, 6, dtype=torch.long)}
    try:
        batch = lens.measure_batch("ready", given, device="cpu")
        assert batch.scores.values.data_ptr() == numbers.data_ptr()
        meta = batch.to("meta").scores.values
        assert meta.is_meta
        tracemalloc.start()
        maps = lens.measure("ready", given)
        made = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    finally:
        unregister("ready")
    assert not isinstance(maps, list)
    assert maps.scores.shape == (2, 6, 6)
    assert made < 2**20  # what is cut off as padding is never copied to the host
    assert not np.shares_memory(maps.scores, numbers.numpy())
    with pytest.raises(ValueError, match="read-only"):
        maps.scores[0] = 1


def test_a_device_keeps_the_scores_a_tensor_there() -> None:
    lens, text = Lens.bundled("causal"), "The keys to the old cabinet"
    batch = lens.measure_batch("value_zeroing", text, device="cpu", targets=[-1])
    maps = lens.measure("value_zeroing", text, targets=[-1])
    np.testing.assert_array_equal(batch.scores.values[:, 0], maps.scores)
    assert batch.maps() == [maps]
    assert lens.measure_batch("attention", text, device=torch.device("meta")).scores.values.is_meta
    for explained in ({"position": 2}, {"position": 3, "word": " the"}):
        held = lens.measure_batch("alti_logit", text, device="cpu", **explained)
        assert held.maps() == [lens.measure("alti_logit", text, **explained)]


def test_a_missing_device_raises_before_the_model_runs() -> None:
    lens, calls = Lens.bundled(), list[int]()
    lens.model.register_forward_pre_hook(lambda module, args: calls.append(1))
    for device in ("cudaa", "cuda:99"):
        with pytest.raises(InvalidInput, match=f"device='{device}'"):
            lens.measure_batch("attention", "The dogs are old.", device=device)
    assert not calls


def test_the_former_keyword_device_of_measure_names_measure_batch() -> None:
    lens, text = Lens.bundled(), "The dogs are old."
    former: Any = lens.measure
    with pytest.warns(DeprecationWarning, match="measure_batch"):
        batch = former("attention", text, device="cpu", layers=1)
    assert batch.maps() == [lens.measure("attention", text, layers=1)]
    with pytest.raises(InvalidInput, match="Leave out on_error"):
        former("attention", [text], device="cpu", batch_size=1)


def test_maps_of_a_whole_text_take_their_size_once() -> None:
    numbers = torch.rand(24, 1, 256, 256)

    @register("ready", Spec(summary="", citation="", use_when="", cost="", facts=Facts()))
    def ready(recording: Recording, request: Request) -> Scores:
        return Scores(numbers, layers=range(24))

    lens, given = Lens(built("bert")), {"input_ids": torch.ones(1, 60, dtype=torch.long)}
    try:
        lens.measure("ready", given)
        tracemalloc.start()
        maps = lens.measure("ready", given)
        made = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    finally:
        unregister("ready")
    assert not isinstance(maps, list)
    assert maps.scores.nbytes == 24 * 60 * 60 * 4
    assert made < 1.8 * maps.scores.nbytes


def test_a_recording_measures_the_attention_that_it_was_made_for() -> None:
    lens, given = Lens(built("t5")), {key: value[:1] for key, value in inputs("t5").items()}
    for site in ("encoder", "decoder", "cross"):
        recording = lens.record(given, site=site)
        scores = mixlens.measure("attention", recording).scores
        expected = mixlens.measure("attention", recording, site=site).scores
        np.testing.assert_array_equal(scores, expected)
    with pytest.raises(UnsupportedModel, match="towers"):
        lens.record(given, site="towers")


def test_only_the_logits_that_a_measure_reads_are_computed() -> None:
    lens, given = Lens(built("llama", head=True)), inputs("llama")
    ids = {"input_ids": given["input_ids"][:1]}
    counts: list[int] = []
    with lens.model.lm_head.register_forward_hook(
        lambda module, args, output: counts.append(output.shape[1])
    ):
        lens.measure("logit_update", ids, position=2)
    assert 1 in counts  # the others are short texts that find the structure
