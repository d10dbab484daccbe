"""Images, audio and texts in the form that users have."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from mixlens import InvalidInput, Lens, MixingMaps, UnsupportedModel, load
from mixlens.views.viewer.payload import payload_of
from tests.conformance.zoo import built
from tests.measures.models import randomised


def _picture() -> Any:
    pixels = np.random.default_rng(0).integers(0, 255, (11, 9, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def _image_processor() -> object:
    return transformers.ViTImageProcessorPil(size={"height": 8, "width": 8})


def test_a_picture_is_enough_and_patches_have_places() -> None:
    lens = Lens(built("vit"), processor=_image_processor())
    maps = lens.measure("attention", _picture())
    assert isinstance(maps, MixingMaps)
    places = ("patch (0, 0)", "patch (0, 1)", "patch (1, 0)", "patch (1, 1)")
    assert maps.source_row.labels == ("special 0", *places)
    again = lens.measure("attention", {"images": _picture()}, targets=["patch (1, 0)"])
    assert isinstance(again, MixingMaps)
    assert np.array_equal(again.scores[:, 0], maps.scores[:, 3])


def test_the_picture_is_what_the_model_saw(tmp_path: Path) -> None:
    pixels = np.full((16, 16, 3), 40, np.uint8)
    pixels[:8, 8:] = (250, 120, 10)  # the patch in row 0, column 1
    lens = Lens(built("vit"), processor=_image_processor())
    maps = lens.measure("attention", {"images": Image.fromarray(pixels)})
    assert isinstance(maps, MixingMaps)
    (picture,) = maps.source_row.pictures
    assert picture.grids == ((1, 2, 2, 2, (0, 0, 1, 1)),)
    file = io.BytesIO(base64.b64decode(picture.src.partition(",")[2]))
    seen = np.asarray(Image.open(file), float)
    assert np.abs(seen[1, 6] - (250, 120, 10)).max() < 40  # JPEG blurs
    assert np.abs(seen[6, 6] - 40).max() < 40
    maps.save(tmp_path / "maps")
    assert load(tmp_path / "maps").source_row.pictures == (picture,)
    assert payload_of(maps)["image"]["first"] == 1
    assert payload_of(maps)["images"][0]["grids"][0]["stride"] == 2


def test_a_sound_is_enough_and_frames_have_times() -> None:
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=100)
    lens = Lens(built("wav2vec2"), processor=extractor)
    sound = np.sin(np.arange(160) / 5).astype(np.float32)
    maps = lens.measure("attention", {"audio": sound})
    assert isinstance(maps, MixingMaps)
    labels = maps.source_row.labels
    assert labels[0] == "0.00 s"
    assert labels[1] == f"{1.6 / len(labels):.2f} s"
    assert payload_of(maps)["texts"][0]["seconds"] == pytest.approx(1.6 / len(labels))


def test_two_sounds_of_different_lengths_are_padded() -> None:
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=100)
    lens = Lens(built("wav2vec2"), processor=extractor)
    sounds = [np.sin(np.arange(n) / 5).astype(np.float32) for n in (160, 120)]
    assert lens.record({"audio": sounds}).batch == 2


def test_padded_sounds_are_measured_each_without_its_padding() -> None:
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=100, do_normalize=False)
    lens = Lens(built("wav2vec2"), processor=extractor)
    sounds = [np.sin(np.arange(n) / 5).astype(np.float32) for n in (160, 120)]
    made = extractor(
        sounds, sampling_rate=100, padding=True, return_attention_mask=True, return_tensors="pt"
    )
    maps: Any = lens.measure("attention", dict(made))
    for one, sound in zip(maps, sounds, strict=True):
        alone: Any = lens.measure("attention", {"audio": sound})
        np.testing.assert_allclose(one.scores, alone.scores, atol=1e-6)


def test_a_sound_for_an_encoder_and_a_decoder() -> None:
    model = built("whisper")
    bins, frames = model.config.num_mel_bins, 2 * model.config.max_source_positions
    extractor = transformers.WhisperFeatureExtractor(
        feature_size=bins, sampling_rate=100, hop_length=10, chunk_length=1, n_fft=64
    )
    extractor.n_samples, extractor.nb_max_frames = 10 * frames, frames
    recording = Lens(model, processor=extractor).record({"audio": np.ones(70, np.float32)})
    assert recording.sites == ("encoder", "decoder", "cross")
    seconds = 0.1 * frames
    starts = [i * seconds / (frames // 2) for i in range(frames // 2)]
    times = tuple(f"{'padding ' if start >= 0.7 else ''}{start:.2f} s" for start in starts)
    assert times[-1].startswith("padding"), "the sound has 0.7 s, the window more"
    assert recording.target_tokens("encoder", 0).labels == times
    assert recording.source_tokens("cross", 0).labels == times


WORDS = ("<unk>", "<pad>", "<image>", "what", "is", "this", "a", "cat", "?")


def _image_text_lens() -> Lens:
    """LLaVA with a processor of its own kind: an image processor and a tokenizer."""
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = Whitespace()
    marks = {"unk_token": "<unk>", "pad_token": "<pad>"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, additional_special_tokens=["<image>"], **marks
    )
    size = {"height": 8, "width": 8}
    pictures = transformers.CLIPImageProcessorPil(size={"shortest_edge": 8}, crop_size=size)
    processor = transformers.LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=4,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = transformers.LlavaConfig(
        text_config={"model_type": "llama", "vocab_size": len(WORDS), "num_attention_heads": 4}
        | {"num_key_value_heads": 2, "pad_token_id": 1}
        | shape,
        vision_config={"model_type": "clip_vision_model", "num_attention_heads": 4}
        | {"image_size": 8, "patch_size": 4, "projection_dim": 32}
        | shape,
        image_token_index=2,
        vision_feature_layer=-1,
    )
    model = randomised(transformers.LlavaForConditionalGeneration(config)).float()
    return Lens(model, processor=processor)


def test_a_picture_next_to_a_text() -> None:
    lens = _image_text_lens()
    given = {"images": _picture(), "text": "<image> what is this ?"}
    places = [f"image 1 patch ({r}, {c})" for r in (0, 1) for c in (0, 1)]
    maps = lens.measure("value_zeroing", given, site="language_model", targets=["?"])
    assert isinstance(maps, MixingMaps)
    assert maps.source_row.labels == (*places, "what", "is", "this", "?")
    recording = lens.record(
        {"images": [_picture(), _picture()], "text": [given["text"], "<image> is this a cat ?"]}
    )
    assert recording.target_tokens("language_model", 0).labels == maps.source_row.labels
    assert recording.target_tokens("language_model", 1).labels[4:] == ("is", *WORDS[5:])
    assert recording.target_tokens("vision_tower", 0).labels[1] == "patch (0, 0)"


def test_image_tokens_in_a_text_are_named() -> None:
    from mixlens.text.media_labels import label_texts
    from mixlens.text.tokens import TokenRow

    config = transformers.LlavaConfig(image_token_id=7)  # type: ignore[call-arg]
    row = TokenRow(("a", "i", "i", "i", "i", "b", "i", "i"))
    ids = torch.tensor([1, 7, 7, 7, 7, 2, 7, 7])
    names = label_texts(config, ids[None], [row], {})[0].labels
    assert names[1:5] == tuple(f"image 1 patch ({r}, {c})" for r in (0, 1) for c in (0, 1))
    assert names[5:] == ("b", "image 2 patch 0", "image 2 patch 1")


def test_adjacent_images_are_labelled_one_by_one() -> None:
    from mixlens.text.media_labels import tokens_per_image

    lens = _image_text_lens()
    places = [f"image {n} patch ({r}, {c})" for n in (1, 2, 3) for r in (0, 1) for c in (0, 1)]
    ids = torch.tensor([[2] * 8 + [3, 4] + [2] * 4 + [5]])
    pixels = torch.rand(3, 3, 8, 8)
    recording = lens.record({"input_ids": ids, "pixel_values": pixels})
    labels = recording.target_tokens("language_model", 0).labels
    assert (*labels[:8], *labels[10:14]) == tuple(places)
    # tiles of one image, and runs that are no whole images, are not told apart
    config, tiled = lens.model.config, SimpleNamespace(crop_to_patches=True)
    assert tokens_per_image(config, ids, pixels, None) == 4
    assert tokens_per_image(config, ids, pixels, tiled) is None
    assert tokens_per_image(config, ids, torch.rand(2, 3, 8, 8), None) is None
    assert tokens_per_image(config, ids, torch.rand(1, 3, 3, 8, 8), None) is None


def test_an_image_in_a_long_text_raises_with_the_limit() -> None:
    lens = _image_text_lens()
    lens.model.config.text_config.max_position_embeddings = 8192
    ids = torch.full((1, 4097), 5)
    ids[:, 20:24] = 2  # the image
    given = {"input_ids": ids, "pixel_values": torch.rand(1, 3, 8, 8)}
    with pytest.raises(
        UnsupportedModel, match=r"^4,097 tokens with pixel_values .* at most 4,096 tokens"
    ):
        lens.measure("attention", given, targets=[-1])


def test_a_text_with_one_image_has_its_picture() -> None:
    from mixlens.text.media_labels import label_texts
    from mixlens.text.tokens import TokenRow

    config = transformers.LlavaConfig(image_token_index=7)
    rows = [TokenRow(("a", "i", "i", "i", "i", "b"))] * 2
    ids = torch.tensor([[1, 7, 7, 7, 7, 2], [1, 7, 7, 2, 7, 7]])
    pixels = torch.rand(2, 3, 8, 8)
    first, second = label_texts(config, ids, rows, {"pixel_values": pixels})
    assert first.pictures[0].grids == ((1, 2, 2, 2, (0, 0, 1, 1)),)
    assert not second.pictures, "its tokens are no grid"


def test_without_a_processor_the_error_has_a_remedy() -> None:
    with pytest.raises(InvalidInput, match="processor="):
        Lens(built("vit")).record(_picture())
