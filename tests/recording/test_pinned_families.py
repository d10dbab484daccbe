"""Families that are not in the zoo, or in part, held by the independent checks of `tests/zoo`."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from mixlens import Lens
from tests.zoo.checks import Examination
from tests.zoo.models import entries, randomise


def checked(model: Any, given: dict[str, Any]) -> Examination:
    """Attention, if the model returns it, and Value Zeroing are the model's own."""
    examination = Examination(model, given)
    examination.attention()
    examination.value_zeroing("value zeroing", examination.recording, given)
    assert examination.violations == []
    assert "value zeroing" in examination.done
    return examination


def test_cpm_ant_has_prompts_before_its_tokens() -> None:
    config = transformers.CpmAntConfig(
        vocab_size=99,
        hidden_size=32,
        num_attention_heads=4,
        dim_head=8,
        dim_ff=64,
        num_hidden_layers=2,
        prompt_types=4,
        prompt_length=3,
        segment_types=4,
        position_bias_num_buckets=8,
        position_bias_max_distance=16,
        use_cache=False,
    )
    torch.manual_seed(0)
    model = transformers.CpmAntModel(config).eval()
    randomise(model)
    given = {"input_ids": torch.tensor([[6, 7, 9, 30], [8, 50, 11, 7]])}
    recording = checked(model, given).recording
    assert recording.sites == ("encoder",)
    attentions = model(**given, output_attentions=True).attentions  # those of the prompt cut off
    for layer, own in zip(recording.layers(), attentions, strict=True):
        torch.testing.assert_close(layer.site().weights[..., 3:, 3:], own)


def test_mllama_reads_images_in_some_layers() -> None:
    text = {
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 37,
        "cross_attention_layers": [1],
        "pad_token_id": 0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }
    vision = {
        "hidden_size": 16,
        "image_size": 8,
        "patch_size": 4,
        "num_hidden_layers": 2,
        "num_global_layers": 1,
        "intermediate_layers_indices": [0],
        "vision_output_dim": 32,
        "attention_heads": 4,
        "intermediate_size": 37,
        "max_num_tiles": 1,
        "supported_aspect_ratios": [[1, 1]],
    }
    config = transformers.MllamaConfig(vision_config=vision, text_config=text, image_token_index=4)
    torch.manual_seed(0)
    model = transformers.MllamaForConditionalGeneration(config).eval()
    randomise(model)
    given = {
        "input_ids": torch.tensor([[4, 7, 9, 30, 12], [4, 50, 11, 7, 3]]),
        "attention_mask": torch.ones(2, 5, dtype=torch.long),
        "pixel_values": torch.randn(2, 1, 1, 3, 8, 8, generator=torch.manual_seed(0)),
        "aspect_ratio_ids": torch.ones(2, 1, dtype=torch.long),
        "aspect_ratio_mask": torch.ones(2, 1, 1, dtype=torch.long),
        "cross_attention_mask": torch.ones(2, 5, 1, 1, dtype=torch.long),
    }
    examination = checked(model, given)
    assert "attention weights" in examination.done
    recording = examination.recording
    assert recording.structure.left_out == {}
    assert [recording.structure.site(site).numbers for site in recording.sites] == [
        (0, 1),  # the image tower
        (0,),  # its layers for all tiles
        (0, 2),
        (1,),  # of the text's layers, the one that reads the image
    ]


def test_gpt_neox_japanese_but_for_its_last_layer() -> None:
    entry = next(entry for entry in entries() if entry.name == "GPTNeoXJapaneseModel")
    recording = checked(entry.build(), entry.given()).recording
    assert [layer.structure.number for layer in recording.layers()] == [0]
    assert list(Lens(recording.model).verify(entry.given()).left_out) == ["`layers` 1"]
