"""An option of `generate` changes the recording, leaves it as it is, or raises: the recorded tokens
are those that the native model read.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from mixlens import InvalidInput, Lens, MixlensError, UnsupportedModel
from tests.measures import models

PROMPT = {"input_ids": torch.tensor([[5, 9, 12, 30, 41, 7]])}


@functools.cache
def lens(name: str) -> Lens:
    torch.manual_seed(0)
    model: Any = (
        hf.LlamaForCausalLM(hf.LlamaConfig(**models._CAUSAL))
        if name == "causal"
        else hf.BartForConditionalGeneration(hf.BartConfig(**models._BART))
    )
    return Lens(models.randomised(model))


def options(name: str) -> dict[str, dict[str, Any]]:
    """Options by a name of their own: some change nothing, some the choice, some the input."""
    model: Any = lens(name).model
    width = model.config.hidden_size
    config = hf.GenerationConfig
    plain: dict[str, dict[str, Any]] = {
        "nothing": {},
        "beams": {"num_beams": 3},
        "no cache": {"use_cache": False},
        "static cache": {"cache_implementation": "static"},
        "quantised cache": {"cache_implementation": "quantized"},
        "sampling": {"do_sample": True, "temperature": 5.0},
        "repetition": {"repetition_penalty": 2.0, "no_repeat_ngram_size": 2},
        "forced first token": {"forced_bos_token_id": 11},
        "suppressed": {"suppress_tokens": [3, 4, 5], "begin_suppress_tokens": [6]},
        "allowed": {"prefix_allowed_tokens_fn": lambda batch, ids: [8, 9, 10]},
        "several": {"num_return_sequences": 2, "do_sample": True},
        "guidance": {"guidance_scale": 2.0},
        "no guidance": {"guidance_scale": 1.0},
        "guidance in a configuration": {
            "generation_config": config(guidance_scale=2.0, max_new_tokens=4)
        },
        "negative prompt": {"guidance_scale": 1.5, "negative_prompt_ids": torch.tensor([[4, 5]])},
        "lookup": {"prompt_lookup_num_tokens": 2},
        "assistant": {"assistant_model": model},
        "healing": {"token_healing": True},
        "own loop": {"custom_generate": lambda model, ids, **_: ids},
        "scores": {"output_scores": True, "return_dict_in_generate": True},
        "embeddings": {"inputs_embeds": torch.randn(1, 6, width, dtype=torch.float64)},
        "positions": {"position_ids": torch.arange(3, 9)[None]},
        "mask": {"attention_mask": torch.tensor([[0, 0, 1, 1, 1, 1]])},
        "inputs": {"inputs": torch.tensor([[4, 4]])},
        "a cache": {"past_key_values": hf.DynamicCache()},
        "start": {"decoder_start_token_id": 7},
        "start in a configuration": {
            "generation_config": config(decoder_start_token_id=7, max_new_tokens=4)
        },
        "begin": {"bos_token_id": 8},
        "decoder ids": {"decoder_input_ids": torch.tensor([[2, 9, 9]])},
        "decoder mask": {"decoder_attention_mask": torch.ones(1, 1).long()},
        "encoder output": {"encoder_outputs": (torch.randn(1, 6, width, dtype=torch.float64),)},
    }
    return {
        key: value if "generation_config" in value else {"max_new_tokens": 4, **value}
        for key, value in plain.items()
    }


def tokens_read(model: Any, name: str) -> tuple[list[Tensor], Any]:
    """What the embedding of a model is given, in the order of its calls."""
    reads: list[Tensor] = []
    part = model.get_decoder().embed_tokens if name == "translation" else model.model.embed_tokens
    return reads, part.register_forward_pre_hook(lambda _, args: reads.append(args[0].clone()))


def last_row(reads: list[Tensor]) -> list[int]:
    """All that was read in front of the last step, of a model with a cache or without one."""
    whole = reads[-1] if len(reads) > 1 and reads[-1].shape[1] > 1 else torch.cat(reads, 1)
    ids: list[int] = whole[0].tolist()
    return ids


@pytest.mark.parametrize("name", ["causal", "translation"])
@pytest.mark.parametrize("option", sorted(options("causal")))
def test_the_recording_has_the_tokens_that_the_model_read(name: str, option: str) -> None:
    own, chosen = lens(name), options(name)[option]
    model: Any = own.model
    torch.manual_seed(1)
    try:
        recording = own.generate(PROMPT, **chosen)
    except MixlensError:
        return
    key = "decoder_input_ids" if name == "translation" else "input_ids"
    recorded = recording.inputs[key][0].tolist()
    produced = recording.produced
    assert produced is not None
    reads, handle = tokens_read(model, name)
    try:
        torch.manual_seed(1)
        native = model.generate(**PROMPT, **{"do_sample": False, **chosen})
    finally:
        handle.remove()
    row = getattr(native, "sequences", native)[0].tolist()
    assert recorded == row[:-1]
    assert list(produced[0].ids)[-1] == row[-1]
    if len(reads[0]) == 1 and "num_beams" not in chosen:
        assert last_row(reads)[: len(recorded)] == recorded


CHANGING = {
    "quantised cache",
    "several",
    "guidance",
    "guidance in a configuration",
    "negative prompt",
    "lookup",
    "assistant",
    "healing",
    "own loop",
    "embeddings",
    "positions",
    "mask",
    "inputs",
    "a cache",
    "decoder ids",
    "decoder mask",
    "encoder output",
}


@pytest.mark.parametrize("option", sorted(options("causal")))
def test_options_that_change_the_input_raise_and_no_others(option: str) -> None:
    raised = False
    for name in ("causal", "translation"):
        try:
            lens(name).generate(PROMPT, **options(name)[option])
        except InvalidInput:
            raised = True
    assert raised is (option in CHANGING)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("guidance_scale", 2.0),
        ("token_healing", True),
        ("prompt_lookup_num_tokens", 3),
        ("cache_implementation", "quantized"),
    ],
)
def test_options_that_are_stored_with_the_model_count_too(
    option: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = lens("causal").model
    monkeypatch.setattr(model.generation_config, option, value)
    with pytest.raises(InvalidInput, match=rf"{option}=.* in model\.generation_config"):
        lens("causal").generate(PROMPT, max_new_tokens=2)


def test_a_stored_start_token_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = lens("translation").model
    monkeypatch.setattr(model.generation_config, "decoder_start_token_id", 9)
    recording = lens("translation").generate(PROMPT, max_new_tokens=3)
    assert recording.inputs["decoder_input_ids"][0, 0] == 9


def test_a_generate_of_its_own_that_reads_other_tokens_is_refused() -> None:
    class Longer(hf.LlamaForCausalLM):
        def generate(self, input_ids: Tensor, **options: Any) -> Any:  # type: ignore[override]
            """Put a token in front that is not in the result."""
            before = torch.full((1, 1), 3)
            options["attention_mask"] = torch.ones(1, input_ids.shape[1] + 1).long()
            made = super().generate(torch.cat([before, input_ids], 1), **options)  # type: ignore[misc]
            return made[:, 1:]

    torch.manual_seed(0)
    model: Any = models.randomised(Longer(hf.LlamaConfig(**models._CAUSAL)))
    with pytest.raises(UnsupportedModel, match="returns tokens that differ from those"):
        Lens(model).generate(PROMPT, max_new_tokens=3)
