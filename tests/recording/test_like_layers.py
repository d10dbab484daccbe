"""Like layers of a short prompt, measured as one: the same numbers as layer by layer, and the same
errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

import mixlens
from mixlens import Lens, MixingMaps
from mixlens.errors import NonFiniteActivations
from mixlens.kernels.matrices import Matrices
from mixlens.measures import list_measures
from mixlens.measuring import measure_together
from mixlens.recording import row_attention
from mixlens.recording.like_layers import like_layers_at_once
from mixlens.recording.rows import RowRecording
from tests.conformance.tiny_models import decoder
from tests.conformance.zoo import built, inputs

JOINED = [name for name, spec in list_measures().items() if spec.side_by_side]
# grouped keys and RMS norms, gains of 1 + g, biases and rows times matrix, biases, windows
MODELS = ["llama", "gemma", "gpt2", "opt", "mistral"]


def recorded(lens: Lens, given: Any, targets: tuple[int, ...] = (-2,)) -> RowRecording:
    """As on a GPU, where no number is looked at before the end of a pass."""
    rows = lens.record(given, targets=targets)
    assert isinstance(rows, RowRecording)
    assert not rows.patient
    assert like_layers_at_once(rows) == 1
    rows.patient = True
    return rows


def of_last(lens: Lens, given: Any, measure: str) -> tuple[MixingMaps, int]:
    """The maps of one target, and how many layers were measured as one."""
    rows = recorded(lens, given)
    maps = mixlens.measure(measure, rows)
    assert isinstance(maps, MixingMaps)
    return maps, rows.layers_at_once


@pytest.mark.parametrize("name", MODELS)
def test_layers_together_have_the_scores_of_layers_one_by_one(name: str) -> None:
    lens, given = Lens(built(name).double()), inputs(name, rows=1)
    whole = lens.record(given)
    for measure in JOINED:
        alone, one = of_last(lens, given, measure)
        joined, several = of_last(lens, given, measure)
        assert (one, several) == (1, 2)
        assert joined.provenance["recorded"] == "rows"
        assert joined.facts == alone.facts
        np.testing.assert_allclose(joined.scores, alone.scores, rtol=1e-12, atol=0)
        maps = mixlens.measure(measure, whole, targets=[-2])
        np.testing.assert_allclose(joined.scores, maps.scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_layers_go_in_groups_that_fit_into_memory(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = decoder("Llama", num_hidden_layers=7)().to(dtype).eval()
    lens, given = Lens(model), inputs("llama", rows=1)
    for measure in JOINED:
        alone, _ = of_last(lens, given, measure)
        rows = recorded(lens, given)
        assert like_layers_at_once(rows) == 7
        rows.memory_budget = 40_000
        assert 1 < like_layers_at_once(rows) < 7
        in_groups = mixlens.measure(measure, rows)
        assert 1 < rows.layers_at_once < 7
        np.testing.assert_allclose(in_groups.scores, alone.scores, rtol=1e-5, atol=1e-9)
        rows.memory_budget = 1
        assert like_layers_at_once(rows) == 1


def test_several_measures_share_the_layers() -> None:
    lens, given = Lens(built("llama")), inputs("llama", rows=1)
    first, rows = measure_together(JOINED, recorded(lens, given)), recorded(lens, given)
    again = measure_together(JOINED, rows)
    assert rows.layers_at_once == 2
    for name in JOINED:
        np.testing.assert_allclose(again[name].scores, first[name].scores, rtol=1e-5, atol=1e-9)


def test_what_is_not_plain_goes_layer_by_layer() -> None:
    lens, given = Lens(built("llama")), inputs("llama", rows=1)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("attention_norm", {"per_head": True}),
        ("attention_norm", {"layers": [0]}),
        ("value_zeroing", {"distance": "euclidean"}),
        ("alti", {}),
    ]
    for measure, options in cases:
        for _ in range(2):
            rows = recorded(lens, given)
            mixlens.measure(measure, rows, **options)
            assert rows.layers_at_once == 1
    assert like_layers_at_once(recorded(lens, inputs("llama", rows=2))) == 1
    assert like_layers_at_once(recorded(lens, given, (-1, -2))) == 1


def test_new_weights_are_looked_at_layer_by_layer() -> None:
    model, given = built("llama"), inputs("llama", rows=1)
    lens = Lens(model)
    for _ in range(2):
        before, at_once = of_last(lens, given, "value_zeroing")
    assert at_once == 2
    with torch.no_grad():
        model.layers[1].mlp.down_proj.weight *= 3
    after, at_once = of_last(lens, given, "value_zeroing")
    assert at_once == 1
    assert not np.allclose(before.scores[1], after.scores[1], rtol=1e-3)


def test_rows_that_do_not_multiply_out_are_seen_in_the_one_layer_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lens, given = Lens(built("gpt2")), inputs("gpt2", rows=1)
    expected, _ = of_last(lens, given, "attention_norm")
    right = row_attention._softmax

    def wrong_in_layer_1(scores: torch.Tensor, sinks: Any) -> torch.Tensor:
        weights = right(scores, sinks)
        if len(weights) == 2:
            weights[1] = weights[1].flip(-1)
        return weights

    monkeypatch.setattr(row_attention, "_softmax", wrong_in_layer_1)
    maps, at_once = of_last(lens, given, "attention_norm")
    assert at_once == 1
    np.testing.assert_allclose(maps.scores, expected.scores, rtol=1e-5, atol=1e-9)
    monkeypatch.undo()
    assert of_last(lens, given, "attention_norm")[1] == 1  # not tried again with these weights


def test_an_infinite_state_is_named_with_its_layer() -> None:
    model, given = built("llama"), inputs("llama", rows=1)
    unused = 95
    assert unused not in given["input_ids"]
    with torch.no_grad():
        model.get_input_embeddings().weight[unused] = torch.inf
    lens = Lens(model)
    for _ in range(2):
        _, at_once = of_last(lens, given, "attention_norm")
    assert at_once == 2
    broken = {**given, "input_ids": given["input_ids"].clone()}
    broken["input_ids"][0, 0] = unused
    with pytest.raises(NonFiniteActivations, match=r"layer `layers\.0`"):
        of_last(lens, broken, "attention_norm")


def test_a_massive_value_sends_each_layer_by_itself() -> None:
    model, given = built("llama", torch.float32), inputs("llama", rows=1)
    lens = Lens(model)
    of_last(lens, given, "value_zeroing")
    embeddings = model.get_input_embeddings().weight
    with torch.no_grad():  # only the first token has channel 0, and its value lives on it
        embeddings[:, 0] = 0
        embeddings[given["input_ids"][0, 0], 0] = 1.0
        model.layers[0].self_attn.v_proj.weight[:, 0] *= 1e4
    of_last(lens, given, "value_zeroing")
    maps, at_once = of_last(lens, given, "value_zeroing")
    assert at_once == 1
    whole = lens.measure("value_zeroing", given).scores[:, -2:-1]
    np.testing.assert_allclose(maps.scores, whole, rtol=1e-4, atol=1e-9)


class WritesIntoItsSum(LlamaDecoderLayer):
    def forward(self, hidden_states: Any, **named: Any) -> Any:  # type: ignore[override]
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **named)
        stream = hidden_states + attended
        stream += self.mlp(self.post_attention_layernorm(stream))
        return stream


def test_layers_that_write_over_what_was_seen_are_measured_one_by_one() -> None:
    model, given = built("llama"), inputs("llama", rows=1)
    for layer in model.layers:
        layer.__class__ = WritesIntoItsSum
    lens = Lens(model)
    for measure in JOINED:
        whole = lens.measure(measure, given).scores[:, -2:-1]
        for _ in range(3):
            maps, at_once = of_last(lens, given, measure)
            assert at_once == 1
            np.testing.assert_allclose(maps.scores, whole, rtol=1e-4, atol=1e-6)


def test_what_one_text_needs_is_not_held_against_the_others() -> None:
    model, given = built("llama"), inputs("llama", rows=1)
    with torch.no_grad():
        model.get_input_embeddings().weight[95] = torch.inf
    lens, ids = Lens(model), {"input_ids": given["input_ids"]}
    broken = {**given, "input_ids": given["input_ids"].clone()}
    broken["input_ids"][0, 0] = 95
    for _ in range(2):
        of_last(lens, given, "value_zeroing")
    of_last(lens, ids, "value_zeroing")  # without a mask the layers are found anew
    with pytest.raises(NonFiniteActivations):
        of_last(lens, broken, "value_zeroing")
    assert of_last(lens, given, "value_zeroing")[1] == 2


def test_a_joined_pass_that_runs_out_of_memory_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lens, given = Lens(built("llama")), inputs("llama", rows=1)
    expected, _ = of_last(lens, given, "attention_norm")

    def no_room(matrices: Matrices, rows: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Matrices, "__rmatmul__", no_room)
    maps, at_once = of_last(lens, given, "attention_norm")
    assert at_once == 1
    np.testing.assert_allclose(maps.scores, expected.scores, rtol=1e-6)
