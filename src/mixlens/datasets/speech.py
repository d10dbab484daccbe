"""Read sentences as audio with the time of every word, as in Mohebbi et al. (2023b).

Each line is a JSON object with

* `text`: the sentence;
* `audio`: the path of a WAV file (16 bits, relative to the file), or an object with `array`
  (numbers from -1 to 1) and `sampling_rate`;
* `words`: a list of objects with `word`, `start` and `end` (seconds), in the order of the sentence;
* `cue`, `target`: a word index (from 0) or a list of word indices;
* optionally `foil` (a different spelling of the target that sounds the same), and `other_cue` and
  `other_audio` (a cue that requires the foil instead of the target, and the audio of the sentence
  with this cue).

mixlens also reads the fields of the authors' data: `alignment` with `intervals` in place of
`words`, `cue_indices` and `target_indices` with `enc`, and `template`, which becomes the group.

The channels of multi-channel audio are averaged. All audio is resampled to 16,000 samples per
second.
"""

from __future__ import annotations

import wave
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixlens.datasets.examples import Span, Spoken
from mixlens.errors import InvalidInput

RATE = 16_000
_SIZE = 2**15  # of a sample of 16 bits
_SIZE_IN_BYTES = 2


def recognises(fields: Collection[str]) -> bool:
    """Return whether records with these fields are audio with a target word."""
    return "audio" in fields and bool({"target", "target_indices"} & set(fields))


def parse_spoken(
    name: str, record: Mapping[str, Any], group: str | None = None, folder: Path | None = None
) -> Spoken:
    """Return the example of one record."""
    text, intervals = record.get("text"), record.get("words")
    if intervals is None and isinstance(record.get("alignment"), Mapping):
        intervals = record["alignment"].get("intervals")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("text is missing")
    if not isinstance(intervals, list) or not intervals:
        raise InvalidInput("words is not a list of objects with word, start and end")
    audio = _audio(record["audio"], folder)
    words = _find_words(text, intervals)
    times = _times(intervals, len(audio) / _SIZE_IN_BYTES / RATE)
    cue, target = (_numbers(record, key, len(words)) for key in ("cue", "target"))
    if max(cue) >= min(target):
        raise InvalidInput("the cue is not before the target")
    other = record.get("other_audio")
    return Spoken(
        name=name,
        text=text,
        group=record.get("template") or record.get("group") or group,
        audio=audio,
        words=words,
        times=times,
        cue=cue,
        target=target,
        foil=record.get("foil"),
        other_cue=record.get("other_cue"),
        other_audio=None if other is None else _audio(other, folder),
    )


def to_bytes(samples: np.ndarray, rate: int) -> bytes:
    """Return samples from -1 to 1 as 16-bit integers at 16,000 samples per second."""
    samples = resample(np.asarray(samples, np.float64), rate, RATE)
    stored = np.clip(np.rint(samples * _SIZE), -_SIZE, _SIZE - 1).astype("<i2")
    return bytes(stored.tobytes())


def waveform(audio: bytes, rate: int = RATE) -> np.ndarray:
    """Return stored audio as floats from -1 to 1, with `rate` samples per second."""
    samples = np.frombuffer(audio, "<i2") / _SIZE
    resampled: np.ndarray = resample(samples, RATE, rate).astype(np.float32)
    return resampled


def resample(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Return samples at a different rate, resampled by truncating or padding their spectrum."""
    if rate == new_rate or not len(samples):
        return samples
    length = max(1, round(len(samples) * new_rate / rate))
    spectrum = np.fft.rfft(samples)[: length // 2 + 1]
    resampled: np.ndarray = np.fft.irfft(spectrum, length) * (length / len(samples))
    return resampled


def _audio(audio: Any, folder: Path | None) -> bytes:
    if isinstance(audio, Mapping) and "array" in audio:
        samples, rate = np.asarray(audio["array"], np.float64), audio.get("sampling_rate")
        if samples.ndim != 1 or not len(samples) or not isinstance(rate, int) or rate < 1:
            raise InvalidInput("audio needs samples of one channel, and a sampling_rate")
        if not np.isfinite(samples).all() or np.abs(samples).max() > 1:
            raise InvalidInput("audio has samples outside [-1, 1]")
        return to_bytes(samples, rate)
    path = audio.get("path") if isinstance(audio, Mapping) else audio
    if not isinstance(path, str) or not path:
        raise InvalidInput("audio is neither a path nor an object with array and sampling_rate")
    return read_wav((folder or Path()) / path)


def read_wav(path: Path) -> bytes:
    """Return the audio of a WAV file with 16-bit samples."""
    try:
        with wave.open(str(path), "rb") as file:
            width, rate, channels = file.getsampwidth(), file.getframerate(), file.getnchannels()
            content = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise InvalidInput(
            f"{path} cannot be read as WAV ({error}). Convert it, for example with `ffmpeg -i FILE"
            " -ac 1 -ar 16000 -c:a pcm_s16le FILE.wav`."
        ) from None
    if width != _SIZE_IN_BYTES:
        raise InvalidInput(f"{path} has samples of {8 * width} bits. Convert it to 16 bits.")
    samples = np.frombuffer(content, "<i2").reshape(-1, channels).mean(1) / _SIZE
    if not len(samples):
        raise InvalidInput(f"{path} has no samples")
    return to_bytes(samples, rate)


def _find_words(text: str, intervals: Sequence[Any]) -> tuple[Span, ...]:
    """Return the span of each aligned word in the text, ignoring case."""
    spans, end, lowered = list[Span](), 0, text.lower()
    if len(lowered) != len(text):  # some capitals become two letters
        lowered = text
    for interval in intervals:
        word = interval.get("word") if isinstance(interval, Mapping) else None
        if not isinstance(word, str) or not word.strip():
            raise InvalidInput("an entry of words has no word")
        start = lowered.find(word.strip().lower(), end)
        if start < 0:
            raise InvalidInput(f"the word {word!r} is not in the rest of the text")
        end = start + len(word.strip())
        spans.append((start, end))
    return tuple(spans)


def _times(intervals: Sequence[Any], seconds: float) -> tuple[tuple[float, float], ...]:
    times, before = [], 0.0
    for interval in intervals:
        pair = interval.get("start"), interval.get("end")
        if not all(isinstance(time, (int, float)) for time in pair):
            raise InvalidInput(f"the word {interval['word']!r} has no start and end")
        start, end = map(float, pair)
        if not before <= start < end <= seconds + 0.05:
            raise InvalidInput(
                f"the word {interval['word']!r} lasts from {start:g} to {end:g} s, which overlaps "
                f"the word before it or the end of the audio ({seconds:.2f} s)"
            )
        times.append((start, end))
        before = end - 0.001
    return tuple(times)


def _numbers(record: Mapping[str, Any], key: str, count: int) -> tuple[int, ...]:
    value = record.get(key)
    if value is None and isinstance(record.get(f"{key}_indices"), Mapping):
        value = record[f"{key}_indices"].get("enc")
    places = value if isinstance(value, list) else [value]
    if not places or not all(isinstance(each, int) and 0 <= each < count for each in places):
        raise InvalidInput(f"{key} must be word indices in the range 0–{count - 1}")
    return tuple(sorted(set(places)))
