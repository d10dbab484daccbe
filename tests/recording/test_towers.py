"""Models with several towers, in which an image has as many patches as the text has tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import mixlens
from mixlens import Lens
from tests.measures.models import randomised

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
WORDS: dict[str, Any] = {
    **SIZES,
    "vocab_size": 60,
    "max_position_embeddings": 20,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
PICTURE: dict[str, Any] = {**SIZES, "image_size": 8, "patch_size": 4}
IDS = torch.tensor([[1, 5, 6, 7, 2], [1, 8, 9, 2, 0], [1, 9, 2, 0, 0]])
MASK = (IDS != 0).long()
PATCHES = ("special 0", *(f"patch ({row}, {column})" for row in (0, 1) for column in (0, 1)))


def pixels() -> Tensor:
    return torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()


def clip() -> Any:
    config = hf.CLIPConfig(text_config=WORDS, vision_config=PICTURE, projection_dim=8)
    return randomised(hf.CLIPModel(config)).double().eval()


def test_patches_are_no_words_and_no_padding() -> None:
    lens = Lens(clip())
    given = {"input_ids": IDS, "attention_mask": MASK, "pixel_values": pixels()}
    recording = lens.record(given)
    for site, labels in (("vision_model", PATCHES), ("text_model", ("1", "8", "9", "2"))):
        for name in ("attention", "alti", "value_zeroing"):
            batch: Any = mixlens.measure(name, recording, site=site)
            alone: Any = lens.measure(
                name,
                {"input_ids": IDS[1:2, :4], "pixel_values": given["pixel_values"][1:2]},
                site=site,
            )
            assert batch[1].tokens == batch[1].source_tokens == labels == alone.tokens
            torch.testing.assert_close(
                torch.tensor(batch[1].scores), torch.tensor(alone.scores), atol=1e-9, rtol=0
            )


def test_a_decoder_of_embeddings_does_not_read_the_text_of_the_encoder() -> None:
    config = hf.T5Config(
        vocab_size=60, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=4, pad_token_id=0
    )
    lens = Lens(randomised(hf.T5Model(config)).double().eval())
    embeddings = torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(0)).double()
    given = {"input_ids": IDS, "attention_mask": MASK, "decoder_inputs_embeds": embeddings}
    maps: Any = lens.measure("alti", given, site="cross")
    assert maps[2].tokens == ("0", "1", "2", "3", "4")
    assert maps[2].source_tokens == ("1", "9", "2")


def test_streams_of_equal_length_are_told_apart_or_refused() -> None:
    words = {**WORDS, "encoder_hidden_size": 16, "is_decoder": True, "sep_token_id": 2}
    config = hf.BlipConfig(text_config=words, vision_config=PICTURE, projection_dim=8)
    lens = Lens(randomised(hf.BlipForQuestionAnswering(config)).double().eval())
    given = {"input_ids": IDS, "attention_mask": MASK, "pixel_values": pixels()}
    answer = torch.tensor([[1, 7, 8, 9, 10]] * 3)
    recording = lens.record({**given, "decoder_input_ids": answer})
    assert recording.target_tokens("vision_model", 2).labels == PATCHES
    assert recording.target_tokens("text_encoder", 2).labels == ("1", "9", "2")
    assert recording.target_tokens("text_decoder", 2).labels == ("1", "7", "8", "9", "10")
    with pytest.raises(mixlens.InvalidInput, match=r"Several stacks have 5 positions"):
        mixlens.measure("attention", recording, site="text_encoder.cross")
    recording = lens.record({**given, "decoder_input_ids": answer[:, :3]})
    assert recording.source_tokens("text_encoder.cross", 2).labels == PATCHES
