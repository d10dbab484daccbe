"""Decoder inputs for labels, classes and target texts equal those of the model's own `forward`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor

from mixlens import InvalidInput, Lens
from tests.measures import models

IGNORED = -100
_T5: dict[str, Any] = {
    "vocab_size": 50,
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 4,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
}
_BART: dict[str, Any] = {**models._BART, "pad_token_id": 1, "bos_token_id": 0}


def _bert2bert() -> Any:
    both = hf.EncoderDecoderConfig.from_encoder_decoder_configs(
        *(hf.BertConfig(**models._SIZES, max_position_embeddings=40) for _ in range(2))
    )
    both.decoder_start_token_id, both.pad_token_id = 3, 0
    return hf.EncoderDecoderModel(both)


MODELS: dict[str, Callable[[], Any]] = {
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**_BART)),
    "mbart": lambda: hf.MBartForConditionalGeneration(
        hf.MBartConfig(**{**_BART, "decoder_start_token_id": None})
    ),
    "plbart": lambda: hf.PLBartForConditionalGeneration(hf.PLBartConfig(**_BART)),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**_BART)),
    "m2m100": lambda: hf.M2M100ForConditionalGeneration(hf.M2M100Config(**_BART)),
    "blenderbot": lambda: hf.BlenderbotForConditionalGeneration(hf.BlenderbotConfig(**_BART)),
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**_T5)),
    "encoder-decoder": _bert2bert,
}


@functools.cache
def lens(name: str) -> Lens:
    torch.manual_seed(0)
    return Lens(models.randomised(MODELS[name]()))


def own_ids(model: Any, **given: Tensor) -> list[list[int]]:
    """What the decoder is given by the model itself."""
    reads: list[Tensor] = []
    handle = model.get_decoder().register_forward_pre_hook(
        lambda module, args, kwargs: reads.append(kwargs["input_ids"].clone()), with_kwargs=True
    )
    with torch.no_grad():
        model(**given)
    handle.remove()
    rows: list[list[int]] = reads[0].tolist()
    return rows


SOURCE = torch.tensor([[5, 9, 12, 30, 41, 2], [5, 8, 13, 31, 42, 2]])
LABELS = torch.tensor([[11, 12, 13, 14, 2], [21, 22, 2, IGNORED, IGNORED]])


@pytest.mark.parametrize("name", MODELS)
def test_labels_are_shifted_and_padded_by_the_models_own_rule(name: str) -> None:
    own = lens(name)
    recording = own.record({"input_ids": SOURCE, "labels": LABELS})
    native_ids = own_ids(own.model, input_ids=SOURCE, labels=LABELS)
    ids, padding = recording.inputs["decoder_input_ids"].tolist(), native_ids[1][-1]
    assert recording.lengths["decoder"] == [5, 3]
    # The second text ends before its last label, which the model shifts into the padding.
    assert ids == [native_ids[0], native_ids[1][:3] + [padding, padding]]
    with torch.no_grad():
        native = own.model(input_ids=SOURCE, labels=LABELS).logits
    for row, length in enumerate((5, 3)):
        ours = recording.output.logits[row, :length]
        np.testing.assert_allclose(ours, native[row, :length], atol=1e-6)


@pytest.mark.parametrize("name", ["bart", "mbart", "t5", "m2m100"])
def test_the_padding_of_labels_changes_no_score(name: str) -> None:
    own = lens(name)
    both: Any = own.measure(
        "gradient_norm", {"input_ids": SOURCE, "labels": LABELS}, site="encoder"
    )
    for row, length in enumerate((5, 3)):
        given = {"input_ids": SOURCE[row : row + 1], "labels": LABELS[row : row + 1, :length]}
        alone: Any = own.measure("gradient_norm", given, site="encoder")
        assert both[row].tokens == alone.tokens
        np.testing.assert_allclose(both[row].scores, alone.scores, atol=1e-9)


def test_only_the_end_of_labels_is_padding() -> None:
    labels = torch.tensor([[IGNORED, 12, 13, 14, 2]])
    recording = lens("bart").record({"input_ids": SOURCE[:1], "labels": labels})
    assert recording.lengths["decoder"] == [5]
    assert recording.inputs["decoder_input_ids"].tolist() == [[2, 1, 12, 13, 14]]


@pytest.mark.parametrize(("start", "first"), [(1, 11), (1, IGNORED), (0, 11)])
def test_padding_that_a_decoder_of_its_own_config_hides_raises(start: int, first: int) -> None:
    """`EncoderDecoderModel` masks padding tokens that it computes from labels."""
    sizes: dict[str, Any] = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 24}
    sizes |= {"num_hidden_layers": 1, "num_attention_heads": 2}
    config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(
        hf.BertConfig(**sizes),
        hf.BertConfig(**sizes, is_decoder=True, add_cross_attention=True),
    )
    config.decoder_start_token_id, config.pad_token_id = start, 0
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = hf.EncoderDecoderModel(config).double().eval()
    given = {"input_ids": SOURCE[:1], "labels": torch.tensor([[12, first, 13, IGNORED]])}
    if start == 0 or first == IGNORED:
        with pytest.raises(InvalidInput, match=r"hides token \d of the decoder"):
            Lens(model).record(given)
        return
    scores: Any = Lens(model).measure("attention", given, site="cross", per_head=True).scores
    with torch.no_grad():
        native = model(**given, output_attentions=True).cross_attentions
    np.testing.assert_allclose(scores[0], native[0][0, :, :3], atol=1e-12)


def test_invalid_labels_raise() -> None:
    for labels, words in (
        (torch.full((2, 3), IGNORED), "no label"),
        (torch.tensor([1, 0]), r"labels have shape \(2,\)"),
    ):
        with pytest.raises(InvalidInput, match=words):
            lens("bart").record({"input_ids": SOURCE, "labels": labels})


# ------------------------------------------------------------------------------------------ Whisper


@functools.cache
def whisper() -> Lens:
    letters = sorted(set("the dogs bark".replace(" ", "Ġ")))
    marks = ("startoftranscript", "en", "transcribe", "translate", "notimestamps")
    end = "<|endoftext|>"
    tokenizer = hf.WhisperTokenizer(
        vocab={letter: number for number, letter in enumerate(letters)},
        merges=[],
        unk_token=end,
        bos_token=end,
        eos_token=end,
        pad_token=end,
        additional_special_tokens=[f"<|{mark}|>" for mark in marks],
    )
    tokenizer.set_prefix_tokens(language="en", task="transcribe")
    ids = {"pad_token_id": tokenizer.eos_token_id, "eos_token_id": tokenizer.eos_token_id}
    ids |= {"decoder_start_token_id": tokenizer.prefix_tokens[0]}
    shape = {key: value for key, value in models._BART.items() if not key.endswith("_id")}
    shape |= {"vocab_size": len(tokenizer), "num_mel_bins": 8, "max_source_positions": 6}
    config = hf.WhisperConfig(**shape, **ids, max_target_positions=64)
    extractor = hf.WhisperFeatureExtractor(
        feature_size=8, sampling_rate=100, hop_length=10, chunk_length=1, n_fft=64
    )
    extractor.n_samples, extractor.nb_max_frames = 120, 12
    torch.manual_seed(0)
    model = models.randomised(hf.WhisperForConditionalGeneration(config))
    processor = hf.WhisperProcessor(extractor, tokenizer)
    return Lens(model, processor=processor)


@pytest.mark.filterwarnings("ignore:At least one mel filter")
def test_whisper_reads_its_start_token_once() -> None:
    lens, sound = whisper(), np.ones(70, np.float32)
    ids = lens.tokenizer("the dogs").input_ids
    assert ids[0] == lens.model.config.decoder_start_token_id  # the tokenizer writes it
    recording = lens.record({"audio": sound, "text": "the dogs"})
    assert recording.inputs["decoder_input_ids"].tolist() == [ids[:-1]]
    given = {"input_features": recording.inputs["input_features"], "labels": torch.tensor([ids])}
    as_trained = own_ids(lens.model, **{**given, "labels": given["labels"][:, 1:]})
    assert recording.inputs["decoder_input_ids"].tolist() == as_trained
    # labels that are given as they are stay as they are
    assert lens.record(given).inputs["decoder_input_ids"].tolist() == own_ids(lens.model, **given)


@pytest.mark.filterwarnings("ignore:At least one mel filter")
def test_texts_of_several_sounds_have_lengths_of_their_own() -> None:
    lens, sounds = whisper(), [np.ones(70, np.float32), np.ones(60, np.float32)]
    texts = ["the dogs", "bark"]
    both = lens.record({"audio": sounds, "text": texts})
    rows = [lens.tokenizer(text).input_ids[:-1] for text in texts]
    assert both.lengths["decoder"] == [len(row) for row in rows]
    for row, ids in enumerate(rows):
        assert both.inputs["decoder_input_ids"][row, : len(ids)].tolist() == ids
