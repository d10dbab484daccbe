"""Audio with the times of its words, and spoken homophones."""

from __future__ import annotations

import ctypes.util
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixlens import datasets
from mixlens.datasets import homophones, speech
from mixlens.datasets.dataset import digest
from mixlens.datasets.espeak import speak
from mixlens.datasets.examples import Spoken
from mixlens.errors import InvalidInput

SPOKEN = ctypes.util.find_library("espeak-ng") is not None


def _write_wav(path: Path, samples: np.ndarray, rate: int = 16_000, width: int = 2) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2" if width == 2 else "<i4").tobytes())


def _record(**changes: Any) -> dict[str, Any]:
    words = [
        {"word": word, "start": 0.1 * number, "end": 0.1 * number + 0.1}
        for number, word in enumerate(("il", "chante"))
    ]
    return {
        "audio": "clip.wav",
        "text": "Il chante.",
        "words": words,
        "cue": 0,
        "target": 1,
        **changes,
    }


def _read(folder: Path, *records: dict[str, Any]) -> datasets.Dataset:
    path = folder / "spoken.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return datasets.read(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _write_wav(tmp_path / "clip.wav", 0.5 * np.sin(np.arange(3200) / 5))
    return tmp_path


def test_own_fields_and_those_of_the_authors_are_the_same(folder: Path) -> None:
    own = _record(group="pronoun_verb", foil="chantent")
    theirs = {
        "audio": {"path": "clip.wav"},
        "text": own["text"],
        "template": "pronoun_verb",
        "alignment": {"intervals": own["words"]},
        "cue_indices": {"enc": [0], "dec": {"whisper-base": [4]}},
        "target_indices": {"enc": [1], "dec": {"whisper-base": [5]}},
        "foil": "chantent",
    }
    one, two = _read(folder, own, theirs).examples
    assert isinstance(one, Spoken)
    assert isinstance(two, Spoken)
    assert {**vars(one), "name": ""} == {**vars(two), "name": ""}
    assert one.words == ((0, 2), (3, 9))
    assert (one.cue, one.target, one.foil, one.group) == ((0,), (1,), "chantent", "pronoun_verb")
    samples = speech.waveform(one.audio)
    assert np.allclose(samples, 0.5 * np.sin(np.arange(3200) / 5), atol=1e-4)


def test_audio_is_resampled_and_channels_become_their_mean(folder: Path) -> None:
    seconds = np.arange(22_050) / 22_050
    left = 0.5 * np.sin(2 * np.pi * 440 * seconds)
    _write_wav(folder / "clip.wav", np.stack([left, np.zeros_like(left)], 1), 22_050)
    (example,) = _read(folder, _record()).examples
    assert isinstance(example, Spoken)
    expected = 0.25 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert np.allclose(speech.waveform(example.audio), expected, atol=1e-3)
    low = 0.25 * np.sin(2 * np.pi * 440 * np.arange(8_000) / 8_000)
    assert np.allclose(speech.waveform(example.audio, 8_000), low, atol=1e-3)
    array = {"array": left.tolist(), "sampling_rate": 22_050}
    (other,) = _read(folder, _record(audio=array)).examples
    assert isinstance(other, Spoken)
    assert np.allclose(speech.waveform(other.audio), 2 * expected, atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cue": 1, "target": 0}, "the cue is not before the target"),
        ({"cue": 2}, "cue must be word indices in the range 0–1"),
        ({"target": None}, "target must be word indices"),
        ({"words": [{"word": "elle", "start": 0, "end": 1}]}, "'elle' is not in the rest"),
        ({"words": []}, "words is not a list"),
        ({"audio": "none.wav"}, "cannot be read as WAV"),
        ({"audio": {"array": [2.0], "sampling_rate": 16_000}}, r"outside \[-1, 1\]"),
        (
            {
                "words": [
                    {"word": "il", "start": 0, "end": 0.15},
                    {"word": "chante", "start": 0.1, "end": 0.2},
                ]
            },
            "overlaps the word before it",
        ),
        (
            {
                "words": [
                    {"word": "il", "start": 0, "end": 0.1},
                    {"word": "chante", "start": 0.1, "end": 0.4},
                ]
            },
            r"the end of the audio \(0.20 s\)",
        ),
    ],
)
def test_records_that_cannot_be_placed_are_listed(
    folder: Path, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        _read(folder, _record(**changes))


def test_other_sample_widths_are_rejected(folder: Path) -> None:
    _write_wav(folder / "clip.wav", np.zeros(3200), width=4)
    with pytest.raises(InvalidInput, match="samples of 32 bits"):
        _read(folder, _record())


def test_options_of_generated_homophones_are_checked() -> None:
    for option in ("language=xx", "size=3", "count=x"):
        with pytest.raises(InvalidInput, match="not an option of spoken homophones"):
            homophones.read(f"generated:homophones?{option}")
    with pytest.raises(InvalidInput, match="out of range"):
        homophones.read("generated:homophones?speed=3")


@pytest.mark.skipif(not SPOKEN, reason="NOT RUN: needs the library of eSpeak NG")
@pytest.mark.parametrize("language", homophones.FRAMES)
def test_spellings_sound_the_same(language: str) -> None:
    frames = homophones.FRAMES[language]
    texts = [
        frame.text.format(cue=cue, target=word)
        for frame in frames
        for pair in frame.targets
        for cue in frame.cues
        for word in pair
    ]
    said = [each.phonemes for each in speak(texts, homophones.VOICES[language], 140)]
    different = [
        (one, other)
        for one, other, a, b in zip(texts[::2], texts[1::2], said[::2], said[1::2], strict=True)
        if a != b
    ]
    assert not different


@pytest.mark.skipif(not SPOKEN, reason="NOT RUN: needs the library of eSpeak NG")
def test_generated_homophones_are_the_same_each_time() -> None:
    address = "generated:homophones?count=4&seed=1"
    data = datasets.read(address)
    assert digest(data.examples) == digest(datasets.read(address).examples)
    assert data.kind == "speech"
    for example in data.examples:
        assert isinstance(example, Spoken)
        words = [example.text[slice(*span)] for span in example.words]
        assert " ".join(words) + "." == example.text
        assert words[example.cue[0]] in ("will", "are", "to", "the")
        assert example.times[0][0] == 0
        assert all(a < b for a, b in example.times)
        seconds = len(example.audio) / 2 / speech.RATE
        assert example.times[-1][1] <= seconds + 0.01
