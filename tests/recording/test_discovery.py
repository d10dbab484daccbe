"""The cost of structure discovery."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers as hf
from torch import nn

from mixlens.capture.layer_calls import hidden_argument
from mixlens.structure.model_discovery import model_structure
from tests.measures import models
from tests.zoo.models import entries
from tests.zoo.passes import MOST, items_of_lists, row_passes, watched


def _built(name: str) -> Any:
    if name != "bloom":
        return copy.deepcopy(models.build(name))  # nothing is remembered of a copy
    config = hf.BloomConfig(vocab_size=50, hidden_size=16, n_layer=2, n_head=4)
    return models.randomised(hf.BloomModel(config))


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("bert", 7),
        ("llama", 7),
        ("bart", 8),  # one of them without padding: it has both causal and other attention
        ("bloom", 7),  # its attention does not pass transformers' interface
        ("gpt_neox", 9),  # parallel: one more run proves it
    ],
)
def test_discovery_takes_at_most_nine_row_passes_of_the_probe_and_only_once(
    name: str, passes: int
) -> None:
    model, rows = _built(name), dict[nn.Module, int]()

    def count(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = hidden_argument(args, kwargs)
        assert hidden.shape[1] <= 12
        rows[module] = rows.get(module, 0) + int(hidden.shape[0])

    given = models.inputs("bert" if name == "bloom" else name, 20)
    with watched(items_of_lists(model), count):
        structure = model_structure(model, given)
        assert set(rows.values()) == {passes}
        assert model_structure(model, given) is structure
        assert set(rows.values()) == {passes}
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    "name",
    [
        "MusicgenMelodyForConditionalGeneration",  # a row of ids for each codebook
        "TapasModel",  # seven types for each token
        "XLMModel",  # a layer in four lists
        "XLNetModel",  # the tokens before the rows
    ],
)
def test_unusual_texts_and_layers_take_no_more(name: str) -> None:
    assert row_passes(next(entry for entry in entries() if entry.key == name)) <= MOST


def test_an_input_that_cannot_be_cut_is_run_four_times_and_two_rows_of_each_layer() -> None:
    """Boxes next to the words of a page: once as it is, once twice in a batch, once natively."""
    entry = next(entry for entry in entries() if entry.key == "LayoutLMModel")
    model, given, rows = entry.build(), entry.given(), 0

    def count(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal rows
        rows += int(hidden_argument(args, kwargs).shape[0])

    with watched([model.get_submodule("encoder.layer.1")], count):
        assert model_structure(model, given).whole
    assert rows == 4 * len(given["input_ids"]) + 2


def test_a_decoder_that_begins_with_zeros_is_read() -> None:
    """Zeros plus something do not show what was added to what."""
    entry = next(entry for entry in entries() if entry.key == "TableTransformerModel")
    structure = model_structure(entry.build(), entry.given())
    assert not structure.left_out
    assert [layer.number for layer in structure.stacks[-1].layers] == [0, 1]
