"""Invalid inputs and unsupported models raise an error with a remedy, and the model is restored."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from transformers.models.bert.modeling_bert import BertAttention, BertLayer

import mixlens
from mixlens import Lens
from tests.conformance.zoo import VOCABULARY, built, inputs
from tests.measures.models import randomised


def test_training_mode_is_refused_even_in_a_submodule() -> None:
    model = built("bert")
    model.encoder.layer[1].train()
    with pytest.raises(mixlens.UnsupportedModel, match=r"model\.eval\(\)"):
        Lens(model).record(inputs("bert"))


@pytest.mark.parametrize("count", [0, -1])
@pytest.mark.parametrize(
    ("kind", "name"),
    [("T5", "num_layers"), ("T5", "num_decoder_layers"), ("Bart", "encoder_layers")],
)
def test_an_encoder_decoder_without_layers_is_refused(kind: str, name: str, count: int) -> None:
    """Otherwise the other stack would be measured in silence."""
    config = getattr(hf, f"{kind}Config")(vocab_size=VOCABULARY, d_model=16, **{name: count})
    lens = Lens(getattr(hf, f"{kind}Model")(config).eval())
    given = {"input_ids": torch.tensor([[5, 6, 7]]), "decoder_input_ids": torch.tensor([[0, 6]])}
    with pytest.raises(
        mixlens.UnsupportedModel, match=rf"config\.{name} is {count}.*has no layers"
    ):
        lens.measure("attention", given)


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
    reading = Lens.bundled()
    with pytest.raises(mixlens.EmptyInput):
        reading.record([])
    with pytest.raises(mixlens.EmptyInput):
        reading.record("   ")


def test_longer_than_the_positions() -> None:
    with pytest.raises(mixlens.InputTooLong, match="70 tokens, but the model has 64"):
        Lens(built("bert")).record({"input_ids": torch.ones(1, 70, dtype=torch.long)})
    roberta = built("roberta")  # two rows of its table are kept for padding
    Lens(roberta).record({"input_ids": torch.full((1, 62), 7)})
    with pytest.raises(mixlens.InputTooLong, match="63 tokens, but the model has 62"):
        Lens(roberta).record({"input_ids": torch.full((1, 63), 7)})


@pytest.mark.smoke
def test_wrong_keys_and_ids() -> None:
    lens = Lens(built("bert"))
    with pytest.raises(mixlens.WrongKeys, match=r"Unknown input 'input_idz'.*input_ids"):
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
    with pytest.raises(mixlens.UnsupportedModel, match="raises ZeroDivisionError"):
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


class TwoAttentions(BertLayer):
    """Attends a second time before its feed-forward part."""

    def __init__(self, config: hf.BertConfig) -> None:
        super().__init__(config)
        self.again = BertAttention(config)

    def forward(
        self, hidden_states: Tensor, attention_mask: Any = None, *_: Any, **__: Any
    ) -> Tensor:
        for part in (self.attention, self.again):
            hidden_states = part(hidden_states, attention_mask)[0]
        return self.feed_forward_chunk(hidden_states)


def test_a_layer_that_attends_twice_is_left_out_by_name() -> None:
    model = built("bert")
    model.encoder.layer[0] = randomised(TwoAttentions(model.config)).float()
    report = Lens(model).verify(inputs("bert"))
    assert [stack.layers for stack in report.stacks] == [1]
    assert "2 self-attentions in sequence" in report.left_out["`encoder.layer` 0"]


def test_a_causal_mask_that_is_dropped_without_padding_is_not_assumed() -> None:
    sizes: dict[str, Any] = {
        "vocab_size": 99,
        "hidden_size": 32,
        "intermediate_size": 37,
    }
    config = hf.Aimv2TextConfig(**sizes, num_hidden_layers=2, num_attention_heads=4, eos_token_id=2)
    model = randomised(hf.Aimv2TextModel(config)).float().eval()
    ids = torch.arange(3, 21).reshape(2, 9)
    mask = torch.ones_like(ids)
    padded = mask.clone()
    padded[1, -3:] = 0
    with pytest.raises(mixlens.UnsupportedModel, match="attn_implementation='eager'"):
        Lens(model).record({"input_ids": ids, "attention_mask": padded})
    assert not Lens(model).verify({"input_ids": ids, "attention_mask": mask}).stacks[0].causal
    model.set_attn_implementation("eager")
    assert Lens(model).verify({"input_ids": ids, "attention_mask": padded}).stacks[0].causal


def test_attention_in_a_bottleneck_is_left_open_for_what_it_is() -> None:
    sizes: dict[str, Any] = {
        "vocab_size": 50,
        "hidden_size": 32,
        "embedding_size": 16,
    }
    config = hf.MobileBertConfig(
        **sizes,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        intra_bottleneck_size=16,
    )
    model = randomised(hf.MobileBertModel(config)).float()
    given = {"input_ids": torch.arange(3, 12)[None]}
    with pytest.raises(mixlens.UnsupportedModel, match=r"returns 16 channels, .* states have 32"):
        Lens(model).measure("alti", given)
    assert Lens(model).measure("attention_norm", given).scores.shape == (2, 9, 9)


def test_a_classifier_without_a_padding_token_is_refused_with_a_remedy() -> None:
    sizes: dict[str, Any] = {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 64,
        "vocab_size": 50,
    }
    sizes |= {"num_labels": 3, "bos_token_id": 1, "eos_token_id": 2}
    config = hf.GPT2Config(**sizes)
    model = hf.GPT2ForSequenceClassification(config).eval()
    inputs = {"input_ids": torch.tensor([[3, 5, 7, 9, 11]])}
    with pytest.raises(mixlens.UnsupportedModel, match=r"classifiers need pad_token_id"):
        Lens(model).measure("attention", inputs)

    model.config.pad_token_id = 0
    assert Lens(model).measure("attention", inputs).scores.shape == (2, 5, 5)
