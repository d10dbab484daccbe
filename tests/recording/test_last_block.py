"""Measures that use attention blocks only: the pass stops after the last block, with unchanged
scores.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
from torch import nn

import mixlens
from mixlens import Lens
from mixlens.errors import InvalidInput, NonFiniteActivations, UnsupportedModel
from mixlens.measures import ready_measures, refusal
from mixlens.measuring.recorder import record
from mixlens.recording.recording import Recording
from tests.conformance.zoo import ZOO, built, inputs

WITHIN = [name for name, spec in ready_measures().items() if spec.within_blocks]
# The block of the last layer is seen nowhere but at its end: attention and feed-forward part are
# added together, or the layer has no feed-forward part of its own.
TO_THE_END = {"cohere", "falcon", "gpt-j", "gpt-neox", "phi"}


def for_blocks(lens: Lens, given: Any, *measures: str) -> Recording:
    how: dict[str, Any] = {"targets": None, "site": None, "memory_budget": None}
    return record(lens, given, **how, measures=measures or WITHIN)


def scores(measure: str, recording: Recording, site: str | None = None) -> list[np.ndarray]:
    maps = mixlens.measure(measure, recording, site=site)
    return [each.scores for each in (maps if isinstance(maps, list) else [maps])]


def left_early(recording: Recording) -> bool:
    """Has the layer that was called last no output?"""
    stack, index = recording.structure.calls[-1]
    return recording.stack_layers[stack.name][index].call.output is None


@pytest.mark.parametrize("name", ZOO)
def test_the_numbers_are_those_of_a_whole_recording(name: str) -> None:
    lens, given = Lens(built(name)), inputs(name)
    short, whole = for_blocks(lens, given), lens.record(given)
    assert not left_early(whole)
    assert left_early(short) == (name not in TO_THE_END)
    for measure in WITHIN:
        for site in whole.sites:
            if refusal(measure, whole.structure, site) is None:
                made, expected = (scores(measure, each, site) for each in (short, whole))
                np.testing.assert_equal(made, expected, f"{measure} {site}")


class Counted(nn.Module):
    """A part that counts its calls."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.calls = part, Counter[int]()  # a list would be part of the model's state

    def forward(self, given: torch.Tensor) -> Any:
        self.calls[0] += 1
        return self.part(given)


def test_the_last_feed_forward_part_does_not_run() -> None:
    lens, given = Lens(built("bert")), inputs("bert", rows=1)
    for layer in lens.model.encoder.layer:
        layer.intermediate = Counted(layer.intermediate).eval()
    for measure, run in (("alti", [1, 0]), ("attention", [1, 0]), ("globenc", [1, 1])):
        lens.measure(measure, given)
        for layer in lens.model.encoder.layer:
            layer.intermediate.calls[0] = 0
        lens.measure(measure, given)
        assert [layer.intermediate.calls[0] for layer in lens.model.encoder.layer] == run, measure


def test_a_hook_that_waits_for_the_end_of_the_last_layer_gets_it() -> None:
    model, given = built("llama"), inputs("llama")
    seen: list[torch.Tensor] = []
    model.layers[-1].register_forward_hook(lambda *call: seen.append(call[2]))
    recording = for_blocks(Lens(model), given)
    assert not left_early(recording)
    assert torch.equal(seen[-1], recording.layers()[-1].output)


def test_hooks_that_transformers_leaves_behind_do_not_count() -> None:
    model, given = built("llama"), inputs("llama")
    with torch.no_grad():
        model(**given, output_hidden_states=True, output_attentions=True)
    assert any(part._forward_hooks for part in model.modules())
    assert left_early(for_blocks(Lens(model), given))


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("llama", "input_layernorm", "post_attention_layernorm"),
        ("gpt2", "ln_1", "ln_2"),
        ("gemma2", "input_layernorm", "pre_feedforward_layernorm"),
        ("gemma2", "post_attention_layernorm", "pre_feedforward_layernorm"),
    ],
)
def test_a_norm_that_runs_before_and_after_attention(name: str, first: str, second: str) -> None:
    model = built(name)
    for layer in getattr(model, "layers", None) or model.h:
        setattr(layer, second, getattr(layer, first))
    lens, given = Lens(model), inputs(name)
    short, whole = for_blocks(lens, given), lens.record(given)
    assert not left_early(short)  # what the norm is given first may not be the block's output
    for measure in WITHIN:
        np.testing.assert_equal(scores(measure, short), scores(measure, whole), measure)


def test_unrecorded_parts_raise() -> None:
    lens, given = Lens(built("llama")), inputs("llama")
    batch = lens.measure_batch("attention", given, device="cpu")
    with pytest.raises(InvalidInput, match=r"ends with the attention block.*lens\.record"):
        mixlens.measure("value_zeroing", batch.recording)
    assert left_early(for_blocks(lens, given, "attention", "alti"))
    assert not left_early(for_blocks(lens, given, "attention", "value_zeroing"))


def test_weights_that_accelerate_brings_are_taken_away_again() -> None:
    model, given = built("llama"), inputs("llama")
    accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    assert not left_early(for_blocks(Lens(model), given))
    assert all(parameter.is_meta for parameter in model.parameters())


class Twice(nn.Module):
    """A part whose output is doubled for texts of some length, after it was proved on others."""

    def __init__(self, part: nn.Module, tokens: int) -> None:
        super().__init__()
        self.part, self.tokens = part, tokens

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.part(given)
        return made * 2 if given.shape[1] == self.tokens else made


@pytest.mark.parametrize("measure", WITHIN)
def test_the_last_block_is_proved_as_all_others(measure: str) -> None:
    model = built("gpt2")
    attention = model.h[-1].attn
    attention.resid_dropout = Twice(attention.resid_dropout, 23).eval()
    lens = Lens(model)
    lens.measure(measure, inputs("gpt2"))
    with pytest.raises(UnsupportedModel, match="block output is off"):
        lens.measure(measure, inputs("gpt2", tokens=23))


def test_infinity_in_the_last_block_is_named() -> None:
    model = built("llama")
    with torch.no_grad():
        model.layers[-1].self_attn.o_proj.weight[3, 5] = torch.inf
    with pytest.raises(NonFiniteActivations):
        Lens(model).measure("attention", inputs("llama"))
