"""Bad input and unfit models get an error of their own that says what to do, and the model is put
back.
"""

from __future__ import annotations

import pytest
import torch
import transformers as hf
from torch import nn

import mixlens
from mixlens import Lens
from tests.conformance.zoo import VOCABULARY, built, inputs


def test_training_mode_is_refused_even_in_a_submodule() -> None:
    model = built("bert")
    model.encoder.layer[1].train()
    with pytest.raises(mixlens.UnsupportedModel, match=r"model\.eval\(\)"):
        Lens(model).record(inputs("bert"))


def test_text_without_tokenizer() -> None:
    with pytest.raises(mixlens.MissingTokenizer, match="tokenizer"):
        Lens(built("bert")).record("hello")


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_non_finite_activations_name_the_layer(weight: float) -> None:
    model = built("bert")
    lens = Lens(model)
    lens.record(inputs("bert"))
    model.encoder.layer[1].output.dense.bias.data[3] = weight
    with pytest.raises(
        (mixlens.NonFiniteActivations, mixlens.UnsupportedModel),
        match=r"NaN or infinity|encoder\.layer\.1",
    ):
        lens.record(inputs("bert"))


def test_empty_inputs() -> None:
    lens = Lens(built("bert"))
    with pytest.raises(mixlens.EmptyInput, match="empty"):
        lens.record({"input_ids": torch.zeros(1, 0, dtype=torch.long)})
    with pytest.raises(mixlens.EmptyInput, match="no real token"):
        lens.record(
            {
                "input_ids": torch.ones(2, 3, dtype=torch.long),
                "attention_mask": torch.tensor([[1, 1, 1], [0, 0, 0]]),
            }
        )
    with pytest.raises(mixlens.EmptyInput):
        Lens(built("bert"), object()).record([])
    with pytest.raises(mixlens.EmptyInput):
        Lens(built("bert"), object()).record("   ")


def test_longer_than_the_positions() -> None:
    with pytest.raises(mixlens.InputTooLong, match="70 tokens, the model has 64"):
        Lens(built("bert")).record({"input_ids": torch.ones(1, 70, dtype=torch.long)})
    roberta = built("roberta")  # two rows of its table are kept for padding
    Lens(roberta).record({"input_ids": torch.full((1, 62), 7)})
    with pytest.raises(mixlens.InputTooLong, match="63 tokens, the model has 62"):
        Lens(roberta).record({"input_ids": torch.full((1, 63), 7)})


@pytest.mark.smoke
def test_wrong_keys_and_ids() -> None:
    lens = Lens(built("bert"))
    with pytest.raises(mixlens.WrongKeys, match=r"takes no 'input_idz'.*input_ids"):
        lens.record({"input_idz": torch.ones(1, 3, dtype=torch.long)})
    with pytest.raises(mixlens.WrongKeys, match="needs 'input_ids'"):
        lens.record({"attention_mask": torch.ones(1, 3, dtype=torch.long)})
    with pytest.raises(mixlens.InvalidInput, match="vocabulary of 96"):
        lens.record({"input_ids": torch.full((1, 3), VOCABULARY)})
    with pytest.raises(mixlens.InvalidInput, match="different lengths"):
        lens.record({"input_ids": [[1, 2, 3], [4, 5]]})
    with pytest.raises(mixlens.WrongKeys, match="whole sequence"):
        Lens(built("gpt2")).record(
            {"input_ids": torch.ones(1, 1, dtype=torch.long), "past_key_values": hf.DynamicCache()}
        )


def test_not_a_model() -> None:
    with pytest.raises(mixlens.InvalidInput, match="transformers model"):
        Lens(nn.Linear(2, 2))


def test_padded_audio_is_refused() -> None:
    given = inputs("wav2vec2")
    given["attention_mask"] = torch.ones(2, 130, dtype=torch.long)
    given["attention_mask"][1, 100:] = 0
    with pytest.raises(mixlens.InvalidInput, match="one at a time"):
        Lens(built("wav2vec2")).record(given)


def test_everything_is_put_back_after_an_exception() -> None:
    model = built("bert")
    model.set_attn_implementation("sdpa")
    lens = Lens(model)
    lens.record(inputs("bert"))

    def explode(*_: object) -> None:
        raise ZeroDivisionError

    handle = model.encoder.layer[1].output.register_forward_hook(explode)
    with pytest.raises(ZeroDivisionError):
        lens.record(inputs("bert"))
    handle.remove()
    assert model.config._attn_implementation == "sdpa"
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    assert "mixlens" not in ALL_ATTENTION_FUNCTIONS.valid_keys()


class _Forgetful(nn.Module):
    """A residual branch that doubles what attention wrote, depending on nothing that a re-run could
    see.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, *args: object, **kwargs: object) -> torch.Tensor:
        self.calls += 1
        return self.inner(*args, **kwargs) * (1 + 0.5 * (self.calls % 2))


def test_a_layer_with_state_is_refused() -> None:
    model = built("bert")
    model.encoder.layer[0].intermediate = _Forgetful(model.encoder.layer[0].intermediate)
    with pytest.raises(mixlens.UnsupportedModel):
        Lens(model).verify(inputs("bert"))
