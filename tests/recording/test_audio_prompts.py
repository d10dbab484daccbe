"""Audio as a prompt: `Lens.generate({"audio": …})`, and the times of frames."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import InvalidInput, MixingMaps, UnsupportedModel
from mixlens.views.viewer.payload import payload_of
from tests.recording.audio_models import RATE, sound, whisper_lens


def test_generated_tokens_are_those_of_the_recorded_run() -> None:
    lens: Any = whisper_lens()
    given = {"audio": sound(), "sampling_rate": RATE}
    recording = lens.generate(given, max_new_tokens=4)
    assert recording.site == "cross"
    assert recording.targets == ((3, 4, 5, 6),), "after <|startoftranscript|> and three more"
    features = lens.processor(audio=sound(), sampling_rate=RATE, return_tensors="pt")
    native = lens.model.generate(**features, max_new_tokens=4, do_sample=False)[0].tolist()
    assert [recording.produced[0].ids[place] for place in recording.targets[0]] == native
    with torch.no_grad():
        logits = lens.model(**recording.inputs).logits[0]
    logits[:, lens.model.generation_config.suppress_tokens] = -np.inf
    assert [int(logits[place].argmax()) for place in recording.targets[0]] == native


@pytest.mark.parametrize("where", ["options", "config", "model"])
def test_a_wish_for_other_outputs_does_not_move_the_answer(where: str) -> None:
    """With `return_dict_in_generate`, Whisper also returns its start tokens."""
    lens: Any = whisper_lens()
    given = {"audio": sound(), "sampling_rate": RATE}
    expected = lens.generate(given, max_new_tokens=3)
    wish: dict[str, Any] = {"return_dict_in_generate": True, "output_scores": True}
    own, options = lens.model.generation_config, {"max_new_tokens": 3}
    lens.model.generation_config = copy.deepcopy(own)
    try:
        if where == "options":
            options |= wish
        else:
            config = copy.deepcopy(own)
            config.update(**wish, **options)
            if where == "config":
                options = {"generation_config": config}
            else:
                lens.model.generation_config = config
        recording = lens.generate(given, **options)
    finally:
        lens.model.generation_config = own
    assert recording.targets == expected.targets
    assert recording.produced == expected.produced


def test_frames_end_with_the_sound_and_padding_is_marked() -> None:
    lens = whisper_lens()
    recording = lens.generate({"audio": sound(0.29), "sampling_rate": RATE}, max_new_tokens=3)
    row = recording.source_tokens("cross", 0)
    assert len(row) == 50, "20 ms each, of a window of 1 s"
    assert row.labels[0] == "0.00 s"
    assert row.labels[14:16] == ("0.28 s", "padding 0.30 s")
    assert row.segments == (("audio", 0, 15), ("padding", 15, 50))
    assert row.seconds == pytest.approx(0.02)
    maps = mixlens.measure("attention_norm", recording)
    assert isinstance(maps, MixingMaps)
    sums = maps.segments().scores.sum(-1)
    np.testing.assert_allclose(sums, maps.scores.sum(-1), rtol=1e-5)
    assert payload_of(maps)["texts"]


def test_cross_attention_is_that_of_the_native_model() -> None:
    lens = whisper_lens()
    recording = lens.generate({"audio": sound(), "sampling_rate": RATE}, answer="the cat")
    assert recording.targets is not None
    lens.model.set_attn_implementation("eager")  # type: ignore[operator]
    with torch.no_grad():
        native = lens.model(**recording.inputs, output_attentions=True).cross_attentions
    lens.model.set_attn_implementation("sdpa")  # type: ignore[operator]
    recording = lens.generate({"audio": sound(), "sampling_rate": RATE}, answer="the cat")
    assert recording.targets is not None
    maps = mixlens.measure("attention", recording)
    expected = np.stack([layer[0].mean(0)[list(recording.targets[0])].numpy() for layer in native])
    assert isinstance(maps, MixingMaps)
    np.testing.assert_allclose(maps.scores, expected, atol=1e-6)
    assert maps.tokens[:3] == ("t", "h", "e"), "the tokens before the words are no answer"


def test_words_are_merged_and_frames_are_not() -> None:
    lens = whisper_lens()
    recording = lens.generate({"audio": sound(), "sampling_rate": RATE}, answer="the cat")
    maps = mixlens.measure("attention", recording)
    assert isinstance(maps, MixingMaps)
    words = maps.words()
    assert words.tokens[:2] == ("the", "cat")
    assert words.source_row == maps.source_row
    np.testing.assert_allclose(words.scores[:, 0], maps.scores[:, :3].mean(1), rtol=1e-5)


def test_the_encoder_of_a_recorded_sound_has_the_same_times() -> None:
    lens = whisper_lens()
    recording = lens.record({"audio": sound(0.29), "sampling_rate": RATE, "text": "the cat"})
    labels = recording.target_tokens("encoder", 0).labels
    assert labels[14:16] == ("0.28 s", "padding 0.30 s")
    assert recording.source_tokens("cross", 0).labels == labels


def test_a_sound_of_the_whole_window_has_no_padding() -> None:
    recording = whisper_lens().record({"audio": sound(1.0), "sampling_rate": RATE})
    assert recording.target_tokens("encoder", 0).labels[-1] == "0.98 s"
    assert recording.target_tokens("encoder", 0).segments is None


def test_several_sounds_and_long_ones_are_explained() -> None:
    lens = whisper_lens()
    with pytest.raises(InvalidInput, match="several clips"):
        lens.generate({"audio": [sound(), sound(0.2)], "sampling_rate": RATE})


def test_channels_integers_and_other_rates_are_explained() -> None:
    lens = whisper_lens()
    stereo = np.stack([sound(), sound()], 1)
    for audio, rate, message in (
        (stereo, RATE, r"shape \(290, 2\), but only a single channel"),
        ([stereo], RATE, "only a single channel"),
        (stereo.T[None], RATE, "only a single channel"),
        ((sound() * 32767).astype(np.int16), RATE, "samples of type int16"),
        (torch.ones(290, dtype=torch.int32), RATE, "samples of type torch.int32"),
        (sound(), 2 * RATE, "sampling rate of 2000 Hz, but WhisperProcessor expects 1000 Hz"),
    ):
        for run in (lens.generate, lens.record):
            with pytest.raises(InvalidInput, match=message):
                run({"audio": audio, "sampling_rate": rate})


def test_one_clip_as_a_row_of_an_array_has_the_same_times() -> None:
    lens = whisper_lens()
    one = lens.record({"audio": sound(), "sampling_rate": RATE}).target_tokens("encoder", 0)
    row = lens.record({"audio": sound()[None], "sampling_rate": RATE}).target_tokens("encoder", 0)
    assert row.labels == one.labels
    assert one.labels[15] == "padding 0.30 s"


def test_a_model_that_generates_in_several_runs_is_refused() -> None:
    lens: Any = whisper_lens()
    options = lens.model.generation_config
    known = options.suppress_tokens
    try:
        options.no_timestamps_token_id = 250  # then bytes above are times, and it seeks by them
        options.suppress_tokens = list(range(251))
        with pytest.raises((UnsupportedModel, InvalidInput)):
            lens.generate({"audio": sound(), "sampling_rate": RATE}, max_new_tokens=3)
    finally:
        options.suppress_tokens, options.no_timestamps_token_id = known, 264
