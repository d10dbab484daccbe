"""Output measures run the unmodified model: number of passes, kept tensors and errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Lens
from mixlens.errors import InvalidInput, NonFiniteActivations
from mixlens.measures import ready_measures
from mixlens.recording.forward_pass import capture_inputs
from mixlens.structure.model_discovery import model_structure
from tests.conformance.zoo import built, inputs
from tests.zoo.passes import watched

LIGHT = [name for name, spec in ready_measures().items() if spec.reads != "attention"]


@contextlib.contextmanager
def counted(module: torch.nn.Module) -> Iterator[list[int]]:
    """Rows of each call of a module while open."""
    rows: list[int] = []

    def entered(module: Any, args: Any, kwargs: Any) -> None:
        rows.append(len((*args, *kwargs.values())[0]))

    with watched([module], entered):
        yield rows


def test_one_pass_serves_the_choice_of_the_output_and_the_gradients_of_all_layers() -> None:
    model = built("gpt2", head=True)
    lens, given = Lens(model), {"input_ids": torch.arange(3, 11)[None]}
    lens.record(given)  # how it is put together is found out once
    for measure in ("gradient_norm", "gradient_x_input"):
        for layers in (None, [0, 1]):
            with counted(model.transformer.h[1]) as rows:
                lens.measure(measure, given, layers=layers)
            assert rows == [1]
    lens.measure("integrated_gradients", given, steps=3)  # proves that copies may be run at once
    with counted(model.transformer.h[1]) as rows:
        lens.measure("integrated_gradients", given, steps=3)
    assert rows == [1, 3, 1]  # the text, the path, its end at the baseline


@pytest.mark.parametrize("measure", LIGHT)
def test_the_same_numbers_as_from_a_whole_recording(measure: str) -> None:
    model = built("llama", head=True).double()
    lens, given = Lens(model), inputs("llama")
    options: dict[str, Any] = dict(ready_measures()[measure].least)
    options |= {} if measure == "blank_out" else {"layers": [0, 1]}
    ours = lens.measure(measure, given, **options)
    expected = mixlens.measure(measure, lens.record(given), **options)
    assert isinstance(ours, list)
    assert isinstance(expected, list)
    for one, other in zip(ours, expected, strict=True):
        # Llama's own attention code, which a whole recording runs, takes its softmax in float32.
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6, rtol=1e-5)
        assert one.provenance == other.provenance


def test_a_layer_that_writes_into_its_input_changes_no_gradient() -> None:
    model = built("gpt2", head=True)
    given = {"input_ids": torch.arange(3, 11)[None]}
    before = Lens(model).measure("gradient_norm", given, layers=[0, 1]).scores

    def writes(module: Any, args: Any) -> None:
        args[0].add_(0)

    handle = model.transformer.h[1].register_forward_pre_hook(writes)
    try:
        after = Lens(model).measure("gradient_norm", given, layers=[0, 1]).scores
    finally:
        handle.remove()
    np.testing.assert_array_equal(before, after)


def test_attention_cannot_be_had_from_it_and_nan_is_refused() -> None:
    model, given = built("gpt2"), inputs("gpt2")
    structure = model_structure(model, given)
    captured = capture_inputs(model, structure, given, memory_budget=0, graph=False)
    with pytest.raises(InvalidInput, match="reads='attention'"):
        captured.stack_layers["decoder"][0].site()
    with torch.no_grad():
        model.h[1].ln_2.weight[0] = torch.nan
    with pytest.raises(NonFiniteActivations, match="layer 1"):
        capture_inputs(model, structure, given, memory_budget=0, graph=False)


def test_a_language_model_computes_the_logits_that_are_read_and_no_others() -> None:
    model = built("llama", head=True).double()
    lens, given = Lens(model), inputs("llama")
    whole = lens.record(given)
    widths: list[int] = []
    handle = model.lm_head.register_forward_hook(lambda m, a, out: widths.append(out.shape[1]))
    options: dict[str, Any] = {"word": 7, "position": [1, 3], "replacement": "zero"}
    try:
        maps = lens.measure("blank_out", given, **options)
    finally:
        handle.remove()
    assert set(widths) == {2}
    assert isinstance(maps, list)
    for row, one in enumerate(maps):
        place = options["position"][row]
        said = whole.output.logits[row, place].softmax(-1)[7]
        hidden = whole.layers()[0].native_input[row : row + 1].clone()
        hidden[:, 0] = 0
        ids = {name: value[row : row + 1] for name, value in given.items()}
        ids.pop("input_ids")
        with torch.no_grad():
            after = model(inputs_embeds=hidden, **ids).logits[0, place].softmax(-1)[7]
        np.testing.assert_allclose(one.scores[0, 0, 0], float(abs(said - after)), atol=1e-7)
