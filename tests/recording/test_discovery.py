"""What it costs to find out how a model is put together."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers as hf
from torch import nn

from mixlens.recording.calls import hidden_argument
from mixlens.recording.model_discovery import model_structure
from tests.measures import models


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
        ("bart", 9),  # two of them without padding: it has both causal and other attention
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

    for path, module in model.named_modules():
        if path.rpartition(".")[2].isdigit():
            module.register_forward_pre_hook(count, with_kwargs=True)
    given = models.inputs("bert" if name == "bloom" else name, 20)
    structure = model_structure(model, given)
    assert set(rows.values()) == {passes}
    assert model_structure(model, given) is structure
    assert set(rows.values()) == {passes}
    assert torch.is_grad_enabled()
